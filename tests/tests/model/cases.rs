//! What is explored: small deployments, each with its own kind of trouble.

use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::service_manager::group::Handling;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::service_manager::sequence::{After, Gate, On};
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::Provisos;
use tenure_core::wire::recall::Accepts;
use tenure_core::wire::request::Item;
use tenure_tests::mutants::Mutant;

use super::participants::{self, BROKER, FAR, GUEST, RIVAL, kind, units};
use super::world::Step;

/// A deployment with what may happen in it. Times are in steps of the model's clock.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What it is about, for the document.
    pub(crate) text: &'static str,
    /// For each type the units there are, and how many of them are delegated to the broker.
    pub(crate) stock: Vec<(u32, u32)>,
    /// How long a delegation lasts, and how long before its end it is renewed.
    pub(crate) delegation: (i64, i64),
    /// What the two brokers do for each other. Without this there is one broker.
    pub(crate) network: Option<Network>,
    pub(crate) requests: Vec<PlannedRequest>,
    /// How long before the end a guest starts to leave.
    pub(crate) leave_before: i64,
    /// How far the clocks of guest, rival, broker and site are ahead: one run for each row.
    pub(crate) skews: Vec<[i64; 4]>,
    /// The first instant and the last.
    pub(crate) from: i64,
    pub(crate) until: i64,
    /// Whether actors may sleep through their deadlines.
    pub(crate) sleepers: bool,
    /// Until when everything is done at once and goes well, and the inputs of the actors until then.
    pub(crate) calm_until: i64,
    pub(crate) script: Vec<(i64, usize, Step)>,
    /// What can happen how often, and until when.
    pub(crate) budget: Budget,
    pub(crate) trouble_until: i64,
    /// How much longer an extension is for.
    pub(crate) longer: i64,
    /// How many units of a ticket stay by a recall.
    pub(crate) stay: u32,
    pub(crate) seller: BrokerPolicy,
    pub(crate) shell: Shell,
    /// The bug that is planted in all actors, in a build that can.
    pub(crate) bug: Option<Mutant>,
    /// Ends that must be reachable.
    pub(crate) ends: Vec<End>,
}

/// What a guest asks for at the very beginning.
#[derive(Clone, Debug)]
pub(crate) struct PlannedRequest {
    pub(crate) who: usize,
    /// For each type the units wanted, and the fewest that will do.
    pub(crate) items: Vec<(u32, u32)>,
    /// The earliest and the latest start.
    pub(crate) window: (i64, i64),
    pub(crate) length: i64,
    pub(crate) answer_by: i64,
    /// Whether the ticket is kept.
    pub(crate) keep: bool,
    /// The answer that is asked for.
    pub(crate) reply: Reply,
    /// The notice after which units in use may be recalled.
    pub(crate) notice: Option<i64>,
    /// What its leases do only once those of an earlier request are in use.
    pub(crate) after: Option<(u64, Gate)>,
}

/// How often the rare things happen in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) extends: u8,
    /// Units or time that go back, or units that do not go on.
    pub(crate) parts: u8,
    pub(crate) closes: u8,
    /// Offers that are accepted.
    pub(crate) accepts: u8,
    /// Tickets that were kept and are redeemed.
    pub(crate) redeems: u8,
    pub(crate) crashes: u8,
    /// Drivers' failures.
    pub(crate) failures: u8,
    /// Units that fail while a lease has them.
    pub(crate) breakdowns: u8,
    /// Quarantined units that an operator puts right.
    pub(crate) resets: u8,
    /// Recalls by the broker, and withdrawals of one.
    pub(crate) recalls: u8,
    /// Joins that a guest's driver refuses, untouched.
    pub(crate) refusals: u8,
    /// Leases that are given back by an instant.
    pub(crate) hastens: u8,
    /// Tickets that are handed on, and taken.
    pub(crate) splits: u8,
}

impl Budget {
    pub(crate) const NONE: Self = Self {
        extends: 0,
        parts: 0,
        closes: 0,
        accepts: 0,
        redeems: 0,
        crashes: 0,
        failures: 0,
        breakdowns: 0,
        resets: 0,
        recalls: 0,
        refusals: 0,
        hastens: 0,
        splits: 0,
    };
}

/// What two brokers do for each other. Guests ask the one that has no units of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// The other one lends it all units.
    Share,
    /// Each passes on to the other what it cannot grant.
    Forward,
}

/// The broker's mapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokerPolicy {
    /// First come, first served.
    Fair,
    /// Grants everything to every request.
    Greedy,
}

/// What a shell does first with the output of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    /// It appends the facts.
    Appends,
    /// It sends, and may crash before it appends.
    Sends,
}

/// A good end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both guests had the units they asked for and used them to the end.
    BothServed,
    /// A lease was extended and ran to its second end.
    Extended,
    /// Units were given back, credited, and used by someone else.
    SoldAgain,
    /// One of two units was given back and is used by someone else, while the other is held.
    PartSoldAgain,
    /// The broker refused.
    Refused,
    /// Units were recalled, credited, and used by someone else.
    RecalledAndSold,
    /// A unit that failed was given back, and its guest has another.
    Replaced,
    /// A guest uses two leases, one of which waited for the other.
    InSequence,
}

impl Case {
    /// The broker that cuts tickets for guests.
    pub(crate) fn seller_of_tickets(&self) -> usize {
        match self.network {
            Some(Network::Share) => FAR,
            Some(Network::Forward) | None => BROKER,
        }
    }
}

impl PlannedRequest {
    pub(crate) fn ask(&self, case: &Case) -> Ask {
        let item = |(place, &(wanted, min_units)): (usize, &(u32, u32))| {
            (wanted > 0).then(|| Item {
                min_units: units(min_units),
                accepts: Accepts { notice: self.notice.map(Span::from_secs), min_tenure: None },
                ..Item::new(kind(place), units(wanted))
            })
        };
        Ask {
            broker: case.network.map(|_| participants::id(FAR)),
            slice: Name::literal("slice"),
            items: self.items.iter().enumerate().filter_map(item).collect(),
            earliest: Time::from_secs(self.window.0),
            latest: Time::from_secs(self.window.1),
            duration: Span::from_secs(self.length),
            min_duration: Span::from_secs(self.length),
            provisos: Provisos::NONE,
            again: None,
            reply: self.reply,
            answer_by: Time::from_secs(self.answer_by),
            properties: Properties::default(),
            configuration: Properties::default(),
            reason: String::new(),
            handling: Handling {
                keep_tickets: self.keep,
                after: self.after.map(wait).into_iter().collect(),
                ..Handling::default()
            },
        }
    }
}

impl Default for Case {
    /// One unit, sold to two guests for one term after the other, by clocks that agree.
    fn default() -> Self {
        Self {
            name: "",
            text: "",
            stock: vec![(1, 1)],
            delegation: (1000, 10),
            network: None,
            requests: vec![planned(GUEST, 11), planned(RIVAL, 14)],
            leave_before: 0,
            skews: vec![[0; 4]],
            from: 11,
            until: 16,
            sleepers: false,
            calm_until: 0,
            script: vec![],
            budget: Budget::NONE,
            trouble_until: 99,
            longer: 3,
            stay: 0,
            seller: BrokerPolicy::Fair,
            shell: Shell::Appends,
            bug: None,
            ends: vec![],
        }
    }
}

/// One unit for three steps.
pub(crate) fn planned(who: usize, start: i64) -> PlannedRequest {
    PlannedRequest {
        who,
        items: vec![(1, 1)],
        window: (start, start),
        length: 3,
        answer_by: start + 1,
        keep: false,
        reply: Reply::Grant,
        notice: None,
        after: None,
    }
}

/// All of its leases wait for those of an earlier request.
fn wait((number, gate): (u64, Gate)) -> After {
    After { item: None, on: On::Request(number), gate }
}

/// The same request, for offers that are held for two steps.
fn held(request: PlannedRequest) -> PlannedRequest {
    PlannedRequest { reply: Reply::Hold(Span::from_secs(2)), ..request }
}

/// One guest alone.
fn alone() -> Case {
    Case { requests: vec![planned(GUEST, 11)], until: 20, ..Case::default() }
}

/// Everything that is explored.
pub(crate) fn all() -> Vec<Case> {
    let kinds = [lives(), requests(), parts(), troubles(), recalls(), drivers(), sleepers()];
    [kinds.concat(), breakdowns(), sequences(), networks()].concat()
}

/// The ways in which a lease can go.
fn lives() -> Vec<Case> {
    vec![
        Case {
            name: "two terms",
            text: "one unit for one guest after the other, by clocks that agree, a slow guest's, a fast one's",
            skews: vec![[0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 0, 0]],
            ends: vec![End::BothServed],
            ..Case::default()
        },
        Case {
            name: "extension",
            text: "a guest that leaves before the end, one extension, clocks as before",
            skews: vec![[0, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]],
            leave_before: 1,
            budget: Budget { extends: 1, ..Budget::NONE },
            ends: vec![End::Extended],
            ..alone()
        },
        Case {
            name: "close",
            text: "a close at any moment, also while an extension is under way, by a slow guest's clock",
            skews: vec![[0, 0, 0, 1]],
            until: 17,
            budget: Budget { extends: 1, closes: 1, ..Budget::NONE },
            trouble_until: 13,
            ends: vec![End::Extended],
            ..alone()
        },
        sold_again(),
    ]
}

/// Two guests for one unit, of whom the first may give it back.
fn sold_again() -> Case {
    Case {
        name: "sold again",
        text: "both guests request the same term; its holder may give it back",
        requests: vec![
            planned(GUEST, 11),
            PlannedRequest { window: (11, 12), ..planned(RIVAL, 11) },
        ],
        until: 15,
        budget: Budget { closes: 1, ..Budget::NONE },
        trouble_until: 12,
        ends: vec![End::SoldAgain],
        ..Case::default()
    }
}

/// The ways in which a request can go.
fn requests() -> Vec<Case> {
    vec![
        Case {
            name: "hold",
            text: "offers held for two guests, accepted, withdrawn or left to lapse at any moment",
            requests: [GUEST, RIVAL].map(|who| held(planned(who, 14))).to_vec(),
            budget: Budget { accepts: 1, closes: 1, ..Budget::NONE },
            from: 10,
            until: 18,
            trouble_until: 13,
            ..Case::default()
        },
        Case {
            name: "hold and crashes",
            text: "an offer held for one guest, accepted at any moment, and a crash of any actor",
            requests: vec![held(planned(GUEST, 14))],
            budget: Budget { accepts: 1, closes: 1, crashes: 1, ..Budget::NONE },
            from: 10,
            ..alone()
        },
        Case {
            name: "plan",
            text: "a plan, withdrawn at any moment",
            requests: vec![PlannedRequest { reply: Reply::Plan, ..planned(GUEST, 11) }],
            budget: Budget { closes: 1, ..Budget::NONE },
            from: 10,
            ..alone()
        },
        Case {
            name: "kept ticket",
            text: "a ticket that is kept, redeemed or given back at any moment",
            requests: vec![PlannedRequest { keep: true, ..planned(GUEST, 11) }],
            budget: Budget { closes: 1, redeems: 1, ..Budget::NONE },
            from: 10,
            ..alone()
        },
    ]
}

/// The ways in which a part of a lease can go back.
fn parts() -> Vec<Case> {
    vec![
        Case {
            name: "parts",
            text: "two units: one of them or the rest of the term goes back, or one does not go on; a close",
            stock: vec![(2, 2)],
            requests: vec![PlannedRequest { items: vec![(2, 2)], length: 4, ..planned(GUEST, 11) }],
            until: 16,
            budget: Budget { parts: 1, closes: 1, ..Budget::NONE },
            trouble_until: 12,
            ..alone()
        },
        Case {
            name: "parts sold again",
            text: "both guests request units for the same term; the first may give one back",
            stock: vec![(2, 2)],
            requests: vec![
                PlannedRequest { items: vec![(2, 2)], ..planned(GUEST, 11) },
                PlannedRequest { window: (11, 12), ..planned(RIVAL, 11) },
            ],
            until: 14,
            budget: Budget { parts: 1, ..Budget::NONE },
            trouble_until: 12,
            ends: vec![End::PartSoldAgain],
            ..Case::default()
        },
    ]
}

/// The faults that can occur.
fn troubles() -> Vec<Case> {
    vec![
        Case {
            name: "crashes",
            text: "two crashes of any actor at any moment",
            budget: Budget { crashes: 2, ..Budget::NONE },
            from: 10,
            until: 24,
            ..alone()
        },
        Case {
            name: "parts and crashes",
            text: "one crash of any actor while a part goes back",
            stock: vec![(2, 2)],
            requests: vec![PlannedRequest { items: vec![(2, 2)], length: 5, ..planned(GUEST, 11) }],
            until: 17,
            budget: Budget { parts: 1, crashes: 1, ..Budget::NONE },
            trouble_until: 12,
            ..alone()
        },
        Case {
            name: "failures",
            text: "two units, an elastic request, two failures of drivers, a reset",
            stock: vec![(2, 2)],
            requests: vec![PlannedRequest { items: vec![(2, 1)], ..planned(GUEST, 11) }],
            until: 16,
            budget: Budget { failures: 2, resets: 1, ..Budget::NONE },
            ..alone()
        },
        Case {
            name: "two types",
            text: "a request for units of two types: two leases of one guest",
            stock: vec![(1, 1), (1, 1)],
            requests: vec![PlannedRequest { items: vec![(1, 1), (1, 1)], ..planned(GUEST, 11) }],
            ..alone()
        },
        Case {
            name: "group",
            text: "the same with a failure of a driver, which costs both leases",
            stock: vec![(1, 1), (1, 1)],
            requests: vec![PlannedRequest { items: vec![(1, 1), (1, 1)], ..planned(GUEST, 11) }],
            until: 13,
            budget: Budget { failures: 1, ..Budget::NONE },
            ..alone()
        },
        Case {
            name: "greedy mapper",
            text: "a broker's mapper that grants every request",
            seller: BrokerPolicy::Greedy,
            requests: vec![planned(GUEST, 11), planned(RIVAL, 12)],
            from: 10,
            ends: vec![End::Refused],
            ..Case::default()
        },
    ]
}

/// The ways in which units are recalled.
fn recalls() -> Vec<Case> {
    let with_notice = |request| PlannedRequest { notice: Some(1), ..request };
    vec![
        Case {
            name: "recall unclaimed",
            text: "a ticket that is kept, redeemed and recalled at any moment",
            requests: vec![PlannedRequest { keep: true, ..planned(GUEST, 11) }],
            budget: Budget { redeems: 1, recalls: 1, ..Budget::NONE },
            from: 10,
            ..alone()
        },
        Case {
            name: "split",
            text: "a ticket that is kept, and handed on to a guest that redeems it, at any moment",
            requests: vec![PlannedRequest { keep: true, ..planned(GUEST, 11) }],
            budget: Budget { redeems: 1, splits: 2, ..Budget::NONE },
            from: 10,
            ..alone()
        },
        Case {
            name: "recall with notice",
            text: "a lease that is recalled at any moment, and a second guest",
            requests: vec![
                with_notice(planned(GUEST, 11)),
                PlannedRequest { window: (11, 12), ..planned(RIVAL, 12) },
            ],
            until: 15,
            budget: Budget { recalls: 1, ..Budget::NONE },
            trouble_until: 11,
            ends: vec![End::RecalledAndSold],
            ..Case::default()
        },
        Case {
            name: "recall withdrawn",
            text: "a lease that is recalled, and the recall withdrawn, at any moment",
            requests: vec![with_notice(planned(GUEST, 11))],
            until: 15,
            budget: Budget { recalls: 2, ..Budget::NONE },
            trouble_until: 12,
            ..alone()
        },
    ]
}

/// What drivers of guests can do.
fn drivers() -> Vec<Case> {
    vec![
        Case {
            name: "leave called back",
            text: "units that are left at the end, while the lease is extended or its leave hastened",
            leave_before: 1,
            until: 17,
            budget: Budget { extends: 1, hastens: 1, ..Budget::NONE },
            ends: vec![End::Extended],
            ..alone()
        },
        Case {
            name: "join refused",
            text: "two units, an elastic request, joins that the guest's driver refuses",
            stock: vec![(2, 2)],
            requests: vec![PlannedRequest { items: vec![(2, 1)], ..planned(GUEST, 11) }],
            until: 15,
            budget: Budget { refusals: 2, ..Budget::NONE },
            ..alone()
        },
    ]
}

/// Units that fail while a lease has them.
fn breakdowns() -> Vec<Case> {
    vec![
        Case {
            name: "unit fails",
            text: "a unit that fails at any moment while a lease has it, and another one to replace it",
            stock: vec![(2, 2)],
            until: 15,
            budget: Budget { breakdowns: 1, ..Budget::NONE },
            trouble_until: 12,
            ends: vec![End::Replaced],
            ..alone()
        },
        Case {
            name: "unit fails, elastic",
            text: "two units of an elastic request, of which one fails, and none to replace it",
            stock: vec![(2, 2)],
            requests: vec![PlannedRequest { items: vec![(2, 1)], ..planned(GUEST, 11) }],
            until: 14,
            budget: Budget { breakdowns: 1, ..Budget::NONE },
            trouble_until: 11,
            ..alone()
        },
        Case {
            name: "unit fails, crash",
            text: "the first of these with a crash of any actor",
            stock: vec![(2, 2)],
            until: 13,
            budget: Budget { breakdowns: 1, crashes: 1, ..Budget::NONE },
            trouble_until: 11,
            ..alone()
        },
    ]
}

/// Leases in sequence.
pub(crate) fn sequences() -> Vec<Case> {
    let after = |gate| PlannedRequest { after: Some((1, gate)), ..planned(GUEST, 12) };
    vec![
        Case {
            name: "redeemed after",
            text: "two leases, of which one is redeemed only once the other is in use; a close of any",
            stock: vec![(2, 2)],
            requests: vec![planned(GUEST, 11), after(Gate::Redeem)],
            until: 14,
            budget: Budget { closes: 1, ..Budget::NONE },
            trouble_until: 11,
            ends: vec![End::InSequence],
            ..Case::default()
        },
        Case {
            name: "joined after",
            text: "two leases, of which one is joined only once the other is in use; a driver that fails",
            stock: vec![(2, 2)],
            requests: vec![planned(GUEST, 11), after(Gate::Join)],
            until: 14,
            budget: Budget { failures: 1, ..Budget::NONE },
            trouble_until: 11,
            ends: vec![End::InSequence],
            ..Case::default()
        },
    ]
}

/// Two brokers.
fn networks() -> Vec<Case> {
    vec![
        Case {
            name: "shared",
            text: "a broker that sells what another one has lent it; a close at any moment, and a second guest",
            network: Some(Network::Share),
            ..sold_again()
        },
        Case {
            name: "shared, crash",
            text: "the same for one guest, with a crash of any actor",
            network: Some(Network::Share),
            budget: Budget { crashes: 1, ..Budget::NONE },
            from: 10,
            until: 16,
            ..alone()
        },
        Case {
            name: "forwarded",
            text: "two brokers that pass requests on to each other, and a close at any moment",
            network: Some(Network::Forward),
            until: 16,
            budget: Budget { closes: 1, ..Budget::NONE },
            ..alone()
        },
        Case {
            name: "forwarded, crash",
            text: "the same without a close, with a crash of any actor",
            network: Some(Network::Forward),
            budget: Budget { crashes: 1, ..Budget::NONE },
            from: 10,
            until: 16,
            ..alone()
        },
    ]
}

/// Actors that sleep through their deadlines.
fn sleepers() -> Vec<Case> {
    let first = LeaseId { number: 1, part: 0 };
    vec![
        Case {
            name: "sleepers",
            text: "any actor may sleep for any time; one extension",
            sleepers: true,
            budget: Budget { extends: 1, ..Budget::NONE },
            trouble_until: 12,
            ..alone()
        },
        Case {
            name: "sleepers that close",
            text: "the same with one close",
            sleepers: true,
            from: 10,
            budget: Budget { closes: 1, ..Budget::NONE },
            ..alone()
        },
        Case {
            name: "sleepers that keep",
            text: "the same with a kept ticket, which may be redeemed",
            sleepers: true,
            requests: vec![PlannedRequest { keep: true, ..planned(GUEST, 11) }],
            until: 24,
            budget: Budget { redeems: 1, closes: 1, ..Budget::NONE },
            ..alone()
        },
        Case {
            name: "late sleepers",
            text: "the same at the end of a long lease, when the broker forgets its request",
            requests: vec![PlannedRequest { length: 4, ..planned(GUEST, 11) }],
            leave_before: 1,
            sleepers: true,
            calm_until: 19,
            script: vec![(11, GUEST, Step::Extend(first))],
            longer: 8,
            until: 26,
            budget: Budget { closes: 1, ..Budget::NONE },
            ..alone()
        },
    ]
}
