//! A broker beside a slow one that is obviously right: plain lists of bookings, each minute looked at.
//!
//! Random streams of requests, plans, holds, their ends, and returns: both must grant the same units over the
//! same terms, and refuse the same requests.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tenure_core::actor::effect::{Input, Output};
use tenure_core::actor::{Actor as _, Peer, Role, Setup};
use tenure_core::broker::Broker;
use tenure_core::broker::machine::State;
use tenure_core::broker::mapper::BrokerMapper as _;
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::model::identity::{ActorId, Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::{Attributes, Constraints};
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Clauses, Generation, Link, LinkHash, SignedLink};
use tenure_core::ticket::receipt::{Receipt, Return};
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::message::{Envelope, Header, Message, Sequence};
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::{History, Provisos};
use tenure_core::wire::refusal::Outlook;
use tenure_core::wire::request::{Item, Request};

use crate::common::{BROKER, FAR_SITE, GUEST, MARGIN, SITE, units};

/// What the sites have delegated: site, type, units.
const SOURCES: [(u8, &str, u32); 4] =
    [(SITE, "node", 4), (FAR_SITE, "node", 3), (SITE, "gpu", 2), (FAR_SITE, "gpu", 2)];

/// Minutes since the beginning.
type Minute = i64;

fn minute(n: Minute) -> Time {
    Time::ZERO.plus(Span::MINUTE.times(n))
}

fn minutes(t: Time) -> Minute {
    assert_eq!(t.as_micros() % Span::MINUTE.as_micros(), 0, "{t} is not on the minute");
    t.as_micros() / Span::MINUTE.as_micros()
}

/// An item of a request: what is asked for.
#[derive(Clone, Debug)]
struct Wanted {
    resource: &'static str,
    units: u32,
    min_units: u32,
    choice: u8,
    optional: bool,
    offset: Minute,
}

#[derive(Clone, Debug)]
struct Asked {
    items: Vec<Wanted>,
    /// After how many minutes it may start, and how much later.
    start: Minute,
    window: Minute,
    duration: Minute,
    shorter_by: Minute,
    hold: bool,
}

#[derive(Clone, Debug)]
enum Act {
    Ask(Asked),
    /// Accepts an offer of a hold, the newest first.
    Accept(usize),
    /// Withdraws a hold.
    Withdraw(usize),
    /// Gives back what is left of a ticket.
    Return(usize),
    Pass(Minute),
}

/// The slow broker.
#[derive(Default)]
struct Reference {
    bookings: Vec<Booked>,
}

#[derive(Clone, Debug)]
struct Booked {
    source: (u8, &'static str),
    from: Minute,
    to: Minute,
    units: u32,
    /// The hold it belongs to, with the number of the offer.
    held: Option<(u64, usize)>,
    ticket: Option<LinkHash>,
}

/// What a request comes to: for each item its first minute and its units of each source.
type Met = Vec<Option<(Minute, Minute, u32)>>;

impl Reference {
    /// The units free of a source over some minutes.
    fn free(&self, source: (u8, &str), from: Minute, to: Minute) -> u32 {
        let total = SOURCES.iter().find(|(site, of, _)| (*site, *of) == source).map_or(0, |s| s.2);
        let used = |t| {
            let at = self.bookings.iter().filter(|b| b.source == source && b.from <= t && t < b.to);
            at.map(|booked| booked.units).sum::<u32>()
        };
        let most = (from..to).map(used).max().unwrap_or(0);
        total.checked_sub(most).expect("a source is never overdrawn")
    }

    fn free_of_type(&self, resource: &str, from: Minute, to: Minute) -> u32 {
        let of_type = SOURCES.iter().filter(|(_, of, _)| *of == resource);
        of_type.map(|&(site, of, _)| self.free((site, of), from, to)).sum()
    }

    /// The units of each item if the request starts then and lasts so long; items are of different types.
    fn met_at(&self, asked: &Asked, choice: u8, start: Minute, lasts: Minute) -> Option<Met> {
        let item = |wanted: &Wanted| {
            if wanted.choice != choice {
                return Some(None);
            }
            let from = start + wanted.offset;
            let free = self.free_of_type(wanted.resource, from, from + lasts);
            match free.min(wanted.units) {
                units if units >= wanted.min_units => Some(Some((from, from + lasts, units))),
                _ if wanted.optional => Some(None),
                _ => None,
            }
        };
        asked.items.iter().map(item).collect()
    }

    /// The first alternative, the longest term, the earliest start.
    fn met(&self, asked: &Asked, now: Minute) -> Option<Met> {
        let from = now + asked.start;
        let choices =
            asked.items.iter().map(|item| item.choice).collect::<std::collections::BTreeSet<_>>();
        choices.into_iter().find_map(|choice| {
            (asked.duration - asked.shorter_by..=asked.duration).rev().find_map(|lasts| {
                (from..=from + asked.window)
                    .find_map(|start| self.met_at(asked, choice, start, lasts))
            })
        })
    }
}

struct Pair {
    now: Minute,
    broker: Broker,
    slow: Reference,
    requests: u64,
    /// Holds that may be open, each with the instant at which it lapses.
    holds: Vec<(u64, Time)>,
    tickets: Vec<Ticket>,
}

fn signer(who: u8) -> Signer {
    Signer::from_seed(Scheme::None, [who; 32])
}

fn id(who: u8) -> ActorId {
    signer(who).id()
}

impl Pair {
    fn new() -> Self {
        let peers = [
            (SITE, "site", Role::SiteAuthority),
            (FAR_SITE, "far-site", Role::SiteAuthority),
            (GUEST, "guest", Role::ServiceManager),
        ];
        let peers =
            peers.map(|(who, name, role)| (id(who), Peer { name: Name::literal(name), role }));
        let peers = peers.into_iter().collect::<BTreeMap<_, _>>().into();
        let name = Name::literal("broker");
        let setup = Setup { name, signer: signer(BROKER), margin: MARGIN, peers };
        let mut pair = Self {
            now: 0,
            broker: Broker::new(setup),
            slow: Reference::default(),
            requests: 0,
            holds: Vec::new(),
            tickets: Vec::new(),
        };
        for (number, (site, resource, n)) in (1..).zip(SOURCES) {
            let link = Link {
                parent: None,
                issuer: id(site),
                holder: id(BROKER),
                resource: Name::literal(resource),
                units: units(n),
                term: Term::lasting(Time::ZERO, Span::DAY.times(30)).unwrap(),
                constraints: Constraints::NONE,
                clauses: Clauses::NONE,
                delegation: Some(Generation { delegation: number, generation: 0 }),
                extends: None,
                serial: number,
            };
            let ticket = Ticket::root_of(SignedLink::sign(link, &signer(site)));
            pair.send(site, Message::Delegate { ticket, attributes: Attributes::new() });
        }
        pair
    }

    fn send(&mut self, from: u8, message: Message) {
        let sequence = Sequence { position: 0, index: 0 };
        let header = Header { from: id(from), to: id(BROKER), sequence, at: Time::ZERO };
        let sealed = Envelope { header, message }.seal(&mut Credentials::new(signer(from)));
        self.hand(Input::Message(sealed));
        while let Some(view) = self.broker.view(minute(self.now)) {
            self.hand(Input::Decision(Fcfs::default().decide(&view)));
        }
    }

    fn hand(
        &mut self,
        input: Input<tenure_core::broker::Command, tenure_core::broker::mapper::Decision>,
    ) {
        let mut out = Output::default();
        self.broker.handle(minute(self.now), input, &mut out);
        assert_eq!(out.problems, [], "its mapper makes sense");
    }

    fn request(&self, asked: &Asked) -> Request {
        let item = |wanted: &Wanted| Item {
            min_units: units(wanted.min_units),
            choice: wanted.choice,
            optional: wanted.optional,
            offset: Span::MINUTE.times(wanted.offset),
            ..Item::new(Name::literal(wanted.resource), units(wanted.units))
        };
        let earliest = minute(self.now + asked.start);
        let (latest, duration) =
            (earliest.plus(Span::MINUTE.times(asked.window)), Span::MINUTE.times(asked.duration));
        Request {
            id: RequestId { origin: id(GUEST), number: self.requests },
            items: asked.items.iter().map(item).collect(),
            earliest,
            latest,
            duration,
            min_duration: Span::MINUTE.times(asked.duration - asked.shorter_by),
            provisos: Provisos::NONE,
            history: History::first(earliest),
            receipts: Vec::new(),
            reply: if asked.hold { Reply::Hold(Span::MINUTE.times(HELD)) } else { Reply::Grant },
            answer_by: latest.plus(duration),
            properties: Properties::default(),
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Ask(asked) => self.ask(asked),
            Act::Accept(nth) => self.accept(*nth),
            Act::Withdraw(nth) => self.withdraw(*nth),
            Act::Return(nth) => self.give_back(*nth),
            Act::Pass(n) => {
                self.now += n;
                self.hand(Input::Tick);
                let now = minute(self.now);
                let over: Vec<u64> =
                    self.holds.extract_if(.., |(_, until)| *until <= now).map(|h| h.0).collect();
                over.into_iter().for_each(|number| self.free_hold(number, None));
            }
        }
    }

    fn free_hold(&mut self, number: u64, but: Option<usize>) {
        self.slow.bookings.retain(|booked| match booked.held {
            Some((hold, offer)) => hold != number || Some(offer) == but,
            None => true,
        });
        for booked in &mut self.slow.bookings {
            booked.held = booked.held.filter(|(hold, _)| *hold != number);
        }
    }

    fn ask(&mut self, asked: &Asked) {
        self.requests += 1;
        let request = self.request(asked);
        let expected = self.slow.met(asked, self.now);
        self.send(GUEST, Message::Request(request.clone()));
        match self.broker.request(request.id).unwrap().clone() {
            State::Granted { tickets, .. } => self.granted(asked, &tickets, expected),
            State::Refused { refusal, .. } => {
                assert_eq!(expected, None, "{refusal}");
                assert_eq!(
                    refusal.outlook() == Outlook::Never,
                    self.is_hopeless(asked),
                    "{refusal}"
                );
            }
            State::Held { offers, until, .. } => {
                for (offer, tickets) in offers.iter().enumerate() {
                    let first = expected.clone().filter(|_| offer == 0);
                    match first {
                        Some(first) => self.granted(asked, tickets, Some(first)),
                        None => tickets.iter().for_each(|(_, ticket)| self.book(ticket)),
                    }
                    let count = tickets.len();
                    let booked = self.slow.bookings.iter_mut().rev().take(count);
                    booked.for_each(|b| b.held = Some((self.requests, offer)));
                }
                // Not beyond the last instant at which an answer is of use.
                assert!(until <= minute(self.now + HELD));
                self.holds.push((self.requests, until));
            }
            state @ (State::Open { .. }
            | State::Passed { .. }
            | State::Brought { .. }
            | State::Gathering { .. }
            | State::Reserved { .. }
            | State::Committing { .. }
            | State::Proposed { .. }
            | State::Taking { .. }
            | State::Planned { .. }
            | State::Returned { .. }) => {
                panic!("{}", state.word())
            }
        }
    }

    /// What is granted is what the slow broker would grant, to the unit.
    fn granted(&mut self, asked: &Asked, tickets: &[(u16, Ticket)], expected: Option<Met>) {
        let expected = expected.expect("the slow broker refuses");
        for (place, item) in asked.items.iter().enumerate() {
            let of_item = tickets.iter().filter(|(of, _)| usize::from(*of) == place);
            let links: Vec<&SignedLink> = of_item.map(|(_, ticket)| ticket.bottom()).collect();
            let found = links.first().map(|first| {
                assert!(links.iter().all(|link| link.term == first.term));
                let sum = links.iter().map(|link| link.units.get()).sum::<u32>();
                (minutes(first.term.start()), minutes(first.term.end()), sum)
            });
            assert_eq!(found, expected[place], "item {place}, {item:?}");
        }
        tickets.iter().for_each(|(_, ticket)| self.book(ticket));
    }

    fn book(&mut self, ticket: &Ticket) {
        let link = ticket.bottom();
        let source = SOURCES.iter().find(|(site, resource, _)| {
            id(*site) == ticket.site() && *resource == link.resource.as_str()
        });
        let &(site, resource, _) = source.unwrap();
        let (from, to) = (minutes(link.term.start()), minutes(link.term.end()));
        let units = link.units.get();
        assert!(units <= self.slow.free((site, resource), from, to), "{ticket} is not free");
        let source = (site, resource);
        let ticket = (ticket.hash(), ticket.clone());
        self.tickets.push(ticket.1);
        let held = None;
        self.slow.bookings.push(Booked { source, from, to, units, held, ticket: Some(ticket.0) });
    }

    /// Whether more units are needed than there are, in each alternative.
    fn is_hopeless(&self, asked: &Asked) -> bool {
        let exist = |resource: &str| {
            SOURCES.iter().filter(|(_, of, _)| *of == resource).map(|s| s.2).sum::<u32>()
        };
        let hopeless = |choice: u8| {
            let items = asked.items.iter().filter(|item| item.choice == choice && !item.optional);
            items.clone().any(|item| item.min_units > exist(item.resource))
        };
        asked.items.iter().all(|item| hopeless(item.choice))
    }

    fn accept(&mut self, nth: usize) {
        let Some((number, _)) = self.take_hold(nth) else { return };
        let request = RequestId { origin: id(GUEST), number };
        let offer = 1 + u8::try_from(nth % 2).unwrap();
        let State::Held { offers, .. } = self.broker.request(request).unwrap() else { panic!() };
        let offer = offer.min(u8::try_from(offers.len()).unwrap());
        self.send(GUEST, Message::Accept { request, offer });
        self.free_hold(number, Some(usize::from(offer) - 1));
        let state = self.broker.request(request).unwrap();
        let State::Granted { tickets, .. } = state else { panic!("{state:?}") };
        let of_hold: Vec<LinkHash> = tickets.iter().map(|(_, ticket)| ticket.hash()).collect();
        assert!(of_hold.iter().all(|ticket| {
            self.slow.bookings.iter().any(|booked| booked.ticket == Some(*ticket))
        }));
    }

    fn withdraw(&mut self, nth: usize) {
        let Some((number, _)) = self.take_hold(nth) else { return };
        let id = RequestId { origin: id(GUEST), number };
        let asked = Asked {
            items: Vec::new(),
            start: 0,
            window: 0,
            duration: 1,
            shorter_by: 0,
            hold: true,
        };
        let request = Request { id, ..self.request(&asked) };
        self.send(GUEST, Message::Withdraw(request));
        assert_eq!(self.broker.request(id).map(State::word), Some("Refused"));
        self.free_hold(number, None);
    }

    fn take_hold(&mut self, nth: usize) -> Option<(u64, Time)> {
        let place = self.holds.len().checked_sub(1 + nth % self.holds.len().max(1))?;
        Some(self.holds.remove(place))
    }

    /// What is left of a granted ticket comes back.
    fn give_back(&mut self, nth: usize) {
        let booked = self.slow.bookings.iter_mut().filter(|booked| booked.held.is_none());
        let mut booked: Vec<&mut Booked> = booked.filter(|booked| booked.to > self.now).collect();
        let count = booked.len().max(1);
        let Some(booked) = booked.get_mut(nth % count) else { return };
        let Some(ticket) = booked.ticket.take() else { return };
        let Some(ticket) = self.tickets.iter().find(|known| known.hash() == ticket) else { return };
        let link = ticket.bottom();
        booked.to = booked.from.max(self.now);
        let what = Return {
            site: ticket.site(),
            link: link.hash(),
            issuer: id(BROKER),
            units: link.units,
            term: link.term.from(minute(self.now)).unwrap(),
            number: 0,
        };
        let site = [SITE, FAR_SITE].into_iter().find(|site| id(*site) == ticket.site()).unwrap();
        let receipts = vec![Receipt::sign(what, &signer(site))];
        self.send(GUEST, Message::Credit { receipts });
    }

    /// Every source has as much free as the plain list says, at each minute.
    fn compare(&self) {
        for holding in self.broker.holdings() {
            let link = holding.ticket.bottom();
            let site = [SITE, FAR_SITE].into_iter().find(|site| id(*site) == link.issuer).unwrap();
            for t in self.now..self.now + 120 {
                let free = holding
                    .free
                    .map_or(i64::from(link.units.get()), |free| free.free_at(minute(t)));
                let slow = self.slow.free((site, link.resource.as_str()), t, t + 1);
                assert_eq!(free, i64::from(slow), "{} of {site} at minute {t}", link.resource);
            }
        }
    }
}

/// For how many minutes offers are held.
const HELD: Minute = 5;

fn wanted(resource: &'static str, choice: u8) -> impl Strategy<Value = Wanted> {
    (1..9u32, 1..9u32, any::<bool>(), 0..4i64).prop_map(move |(a, b, optional, offset)| Wanted {
        resource,
        units: a.max(b),
        min_units: a.min(b),
        choice,
        optional: optional && resource == "gpu",
        offset: if resource == "gpu" { offset } else { 0 },
    })
}

fn asked() -> impl Strategy<Value = Asked> {
    let gpu = prop_oneof![3 => Just(false), 1 => Just(true)];
    let other = prop_oneof![3 => Just(false), 1 => Just(true)];
    let items = (wanted("node", 0), wanted("gpu", 0), wanted("gpu", 1), gpu, other);
    let items = items.prop_map(|(node, gpu, instead, with_gpu, or_instead)| {
        let gpu = Some(gpu).filter(|_| with_gpu);
        let instead = Wanted { optional: false, ..instead };
        std::iter::once(node).chain(gpu).chain(Some(instead).filter(|_| or_instead)).collect()
    });
    let hold = prop_oneof![3 => Just(false), 1 => Just(true)];
    (items, 0..12i64, 0..10i64, 2..12i64, 0..6i64, hold).prop_map(
        |(items, start, window, duration, shorter, hold)| Asked {
            items,
            start,
            window,
            duration,
            shorter_by: shorter.min(duration - 1),
            hold,
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => asked().prop_map(Act::Ask),
        2 => (0..4usize).prop_map(Act::Accept),
        1 => (0..4usize).prop_map(Act::Withdraw),
        2 => (0..64usize).prop_map(Act::Return),
        2 => (1..4i64).prop_map(Act::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_broker_decides_like_one_of_plain_lists(acts in prop::collection::vec(act(), 1..40)) {
        let mut pair = Pair::new();
        for act in &acts {
            pair.act(act);
            pair.compare();
        }
    }
}
