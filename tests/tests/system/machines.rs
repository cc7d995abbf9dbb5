//! The transition tables of the five machines, and the diagrams drawn from them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::sync::Arc;

use tenure_core::broker::machine as broker;
use tenure_core::driver::{Epoch, UnitId};
use tenure_core::model::identity::{Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::Constraints;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::service::unit_state::{AtGuest, UnitState};
use tenure_core::service_manager::machine as service_manager;
use tenure_core::service_manager::request as service_manager_request;
use tenure_core::site_authority::machine as site_authority;
use tenure_core::site_authority::unit;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Clauses, Link, SignedLink};
use tenure_core::ticket::receipt::{Receipt, Return};
use tenure_core::wire::message::LeasedUnit;
use tenure_core::wire::offer::{Offer, Reply, Waiting};
use tenure_core::wire::part::Part;
use tenure_core::wire::proviso::{History, Provisos};
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::Request;
use tenure_tests::{check_block, check_golden};

/// Each pair of state and event with the states it can lead to; none means that it is refused.
struct Table {
    machine: &'static str,
    births: &'static [&'static str],
    rows: BTreeMap<(String, String), BTreeSet<String>>,
    states: Vec<String>,
    events: Vec<String>,
}

impl Table {
    /// Tries every event in every state. `step` answers the word of the next state.
    fn of<S, E>(
        machine: &'static str,
        births: &'static [&'static str],
        states: &[(&'static str, S)],
        events: &[(&'static str, E)],
        step: impl Fn(&S, &E) -> Option<&'static str>,
    ) -> Self {
        let mut rows: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for (state, s) in states {
            for (event, e) in events {
                let row = rows.entry(((*state).to_owned(), (*event).to_owned())).or_default();
                row.extend(step(s, e).map(str::to_owned));
            }
        }
        let words = |words: Vec<&str>| {
            let mut seen = BTreeSet::new();
            words.into_iter().filter(|w| seen.insert(*w)).map(str::to_owned).collect()
        };
        let states = words(states.iter().map(|(word, _)| *word).collect());
        let events = words(events.iter().map(|(word, _)| *word).collect());
        Self { machine, births, rows, states, events }
    }

    fn next(&self, state: &str, event: &str) -> &BTreeSet<String> {
        &self.rows[&(state.to_owned(), event.to_owned())]
    }

    fn text(&self) -> String {
        let legal: Vec<_> = self.legal().collect();
        let nodes = self.states.len();
        let mut text = format!("{}: {nodes} states, {} transitions\n", self.machine, legal.len());
        for (state, event, next) in legal {
            writeln!(text, "  {state:<18} {event:<17} -> {next}").unwrap();
        }
        for state in &self.states {
            let refused: Vec<&str> = self
                .events
                .iter()
                .filter(|event| self.next(state, event).is_empty())
                .map(String::as_str)
                .collect();
            writeln!(text, "  {state:<18} refuses {}", refused.join(", ")).unwrap();
        }
        text
    }

    fn legal(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.states.iter().flat_map(move |state| {
            self.events.iter().flat_map(move |event| {
                self.next(state, event)
                    .iter()
                    .map(move |next| (state.as_str(), event.as_str(), next.as_str()))
            })
        })
    }

    fn diagram(&self) -> String {
        let id = |word: &str| word.replace(['+', '(', ')'], "_");
        let mut text = "```mermaid\nstateDiagram-v2\n".to_owned();
        for state in &self.states {
            if id(state) != *state {
                writeln!(text, "    state \"{state}\" as {}", id(state)).unwrap();
            }
        }
        for birth in self.births {
            writeln!(text, "    [*] --> {}", id(birth)).unwrap();
        }
        let mut arrows: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for (state, event, next) in self.legal().filter(|(state, _, next)| state != next) {
            arrows.entry((state, next)).or_default().push(event);
        }
        for ((state, next), events) in arrows {
            writeln!(text, "    {} --> {} : {}", id(state), id(next), events.join(", ")).unwrap();
        }
        text.push_str("```\n");
        text
    }
}

/// One of each thing that states and events carry.
struct Samples {
    ticket: Ticket,
    extension: Ticket,
    request: Request,
    receipt: Receipt,
    term: Term,
}

fn samples() -> Samples {
    let site = Signer::from_seed(Scheme::None, [1; 32]);
    let broker = Signer::from_seed(Scheme::None, [2; 32]).id();
    let guest = Signer::from_seed(Scheme::None, [3; 32]).id();
    let term = Term::lasting(Time::ZERO, Span::HOUR).unwrap();
    let link = |serial, term| Link {
        parent: None,
        issuer: site.id(),
        holder: guest,
        resource: Name::literal("node"),
        units: NonZeroU32::new(2).unwrap(),
        term,
        constraints: Constraints::NONE,
        clauses: Clauses::NONE,
        delegation: None,
        extends: None,
        serial,
    };
    let next = Term::lasting(term.end(), Span::HOUR).unwrap();
    let ticket = Ticket::root_of(SignedLink::sign(link(1, term), &site));
    let extension = Ticket::root_of(SignedLink::sign(link(2, next), &site));
    let what = Return {
        site: site.id(),
        link: ticket.hash(),
        issuer: broker,
        units: NonZeroU32::new(2).unwrap(),
        term,
        number: 0,
    };
    let request = Request {
        id: RequestId { origin: guest, number: 1 },
        items: Vec::new(),
        earliest: Time::ZERO,
        latest: Time::ZERO,
        duration: Span::HOUR,
        min_duration: Span::HOUR,
        provisos: Provisos::NONE,
        history: History::first(Time::ZERO),
        receipts: Vec::new(),
        reply: Reply::Grant,
        answer_by: Time::ZERO,
        properties: Properties::default(),
    };
    Samples { ticket, extension, request, receipt: Receipt::sign(what, &site), term }
}

fn service_manager_table() -> Table {
    let s = samples();
    let (states, events) = (service_manager_states(&s), service_manager_events(&s));
    let births = &["Ticketed", "Redeeming", "Closing"];
    let states: Vec<_> = states.into_iter().map(|s| (s.word(), s)).collect();
    let events: Vec<_> = events.into_iter().map(|e| (e.word(), e)).collect();
    Table::of("service manager", births, &states, &events, |s, e| {
        s.clone().next(e.clone()).ok().map(|next| next.word())
    })
}

fn unit(number: u32) -> LeasedUnit {
    LeasedUnit {
        unit: UnitId(number),
        epoch: Epoch(1),
        quantity: NonZeroU32::MIN,
        properties: Properties::default(),
    }
}

fn service_manager_states(s: &Samples) -> Vec<service_manager::State> {
    use service_manager::{AfterLeave, Event, State};
    let step = |state: State, event: Event| state.next(event).unwrap();
    let redeeming = State::Redeeming { ticket: s.ticket.clone() };
    let two = step(redeeming.clone(), Event::Leased(s.term, vec![unit(0), unit(1)]));
    let one = step(redeeming.clone(), Event::Leased(s.term, vec![unit(0)]));
    let active = step(one.clone(), Event::Joined(UnitId(0), true));
    let ask = |state: State| step(state, Event::ExtensionAsked(2, Vec::new()));
    let grant = |state: State| step(state, Event::ExtensionGranted(s.extension.clone()));
    let fewer = |state: State| step(state, Event::ExtensionAsked(2, vec![UnitId(1)]));
    let both =
        step(step(two.clone(), Event::Joined(UnitId(0), true)), Event::Joined(UnitId(1), true));
    let seam = step(grant(fewer(both.clone())), Event::Extended);
    let flex = |state: State| step(state, Event::ReturnBegun(Part::Units(vec![UnitId(1)])));
    let left = |state: State| step(state, Event::Left(UnitId(1)));
    let shorten = |state: State| step(state, Event::ReturnBegun(Part::Until(s.term.end())));
    let modify = |state: State| step(state, Event::ModifyBegun(Properties::default()));
    let leave = |state: State, then| step(state, Event::LeaveBegun(then));
    let closing = step(redeeming.clone(), Event::CloseBegun);
    let crediting = step(closing.clone(), Event::SiteClosed(vec![s.receipt.clone()]));
    let kept = State::Ticketed { ticket: s.ticket.clone(), split: false };
    vec![
        kept.clone(),
        step(kept, Event::Split),
        redeeming,
        two.clone(),
        one.clone(),
        ask(one.clone()),
        grant(ask(one.clone())),
        step(one.clone(), Event::Joined(UnitId(0), false)),
        active.clone(),
        ask(active.clone()),
        grant(ask(active.clone())),
        shorten(one.clone()),
        modify(both.clone()),
        step(modify(both.clone()), Event::Modified(vec![unit(0)])),
        seam.clone(),
        step(seam, Event::ShrinkBegun),
        flex(both.clone()),
        left(flex(both)),
        leave(two.clone(), AfterLeave::End),
        leave(one.clone(), AfterLeave::End),
        leave(grant(ask(one.clone())), AfterLeave::End),
        leave(two, AfterLeave::Close),
        leave(one.clone(), AfterLeave::Close),
        leave(ask(one), AfterLeave::Close),
        closing,
        crediting.clone(),
        step(crediting, Event::Credited),
        ask(leave(active, AfterLeave::End)),
    ]
}

fn service_manager_events(s: &Samples) -> Vec<service_manager::Event> {
    use service_manager::{AfterLeave, Event};
    vec![
        Event::RedeemBegun,
        Event::Split,
        Event::Refused(Refusal::Forbidden),
        Event::Leased(s.term, vec![unit(0)]),
        Event::Joined(UnitId(0), true),
        Event::Joined(UnitId(0), false),
        Event::ExtensionAsked(2, Vec::new()),
        Event::ExtensionGranted(s.extension.clone()),
        Event::ExtensionDenied,
        Event::Extended,
        Event::ReturnBegun(Part::Units(vec![UnitId(0)])),
        Event::ReturnBegun(Part::Until(s.term.end())),
        Event::PartReturned(vec![s.receipt.clone()]),
        Event::ReturnRefused,
        Event::ShrinkBegun,
        Event::Shrunk,
        Event::LeaveBegun(AfterLeave::End),
        Event::LeaveBegun(AfterLeave::Close),
        Event::Left(UnitId(0)),
        Event::Left(UnitId(1)),
        Event::CloseBegun,
        Event::SiteClosed(Vec::new()),
        Event::SiteClosed(vec![s.receipt.clone()]),
        Event::Credited,
        Event::TermOver,
        Event::ModifyBegun(Properties::default()),
        Event::Modified(vec![unit(0)]),
        Event::ModifyRefused,
        Event::Notified(UnitId(0)),
        Event::JoinRefused(UnitId(0)),
        Event::LeaveHastened(s.term.end()),
        Event::LeaveRefused(UnitId(0)),
        Event::LeaveForced,
        Event::UnitReset(UnitId(0)),
    ]
}

fn group_table() -> Table {
    use tenure_core::service_manager::group::{Event, State, Why};
    let broke = || Event::Broke(Why::Lost(LeaseId { number: 1, part: 0 }));
    let states = vec![
        State::Holding,
        State::Accepting,
        State::Assembling,
        State::Whole,
        State::Assembling.next(broke()).unwrap(),
        State::Over,
    ];
    let events = vec![Event::Held, Event::Granted, Event::Complete, broke(), Event::Ended];
    let states: Vec<_> = states.into_iter().map(|s| (s.word(), s)).collect();
    let events: Vec<_> = events.into_iter().map(|e| (e.word(), e)).collect();
    Table::of(
        "service manager group",
        &["Holding", "Assembling", "Whole"],
        &states,
        &events,
        |s, e| s.next(*e).ok().map(|next| next.word()),
    )
}

fn request_table() -> Table {
    use service_manager_request::{Event, GrantedLeases, State};
    let refused = || Event::Refused(Refusal::Forbidden, Vec::new());
    let granted = || Event::Granted(GrantedLeases::of(1, 1));
    let offered = || Event::Offered(vec![Offer { parts: Vec::new() }], Time::ZERO, None);
    let planned = || Event::Planned(Vec::new(), None);
    let held = State::Asked.next(offered()).unwrap();
    let states = vec![
        State::Asked,
        held.clone(),
        held.next(Event::Accepted(1)).unwrap(),
        State::GivenUp,
        State::Asked.next(planned()).unwrap(),
        State::Asked.next(granted()).unwrap(),
        State::Asked.next(refused()).unwrap(),
        State::Unanswered,
    ];
    let events = vec![
        granted(),
        refused(),
        offered(),
        planned(),
        Event::Accepted(1),
        Event::GaveUp,
        Event::Expired,
    ];
    let states: Vec<_> = states.into_iter().map(|s| (s.word(), s)).collect();
    let events: Vec<_> = events.into_iter().map(|e| (e.word(), e)).collect();
    Table::of("service manager request", &["Asked"], &states, &events, |s, e| {
        s.clone().next(e.clone()).ok().map(|next| next.word())
    })
}

fn broker_table() -> Table {
    use broker::{Event, State};
    let s = samples();
    let open = || State::Open { request: Arc::new(s.request.clone()), waiting: None };
    let held = Event::Held(Vec::new(), Time::ZERO, None);
    let waiting = Waiting { place: 1, expected: None, reason: String::new() };
    let planned = Event::Planned(Vec::new(), None);
    let granted = |tickets: Vec<Ticket>| {
        open().next(Event::Granted(tickets.into_iter().map(|t| (0, t)).collect())).unwrap()
    };
    let hash = s.ticket.hash();
    let states = vec![
        open(),
        open().next(held.clone()).unwrap(),
        open().next(planned.clone()).unwrap(),
        granted(vec![s.ticket.clone(), s.extension.clone()]),
        granted(vec![s.ticket.clone()]),
        granted(vec![s.ticket.clone()]).next(Event::Credited(hash)).unwrap(),
        State::Refused { refusal: Refusal::Forbidden, offers: Vec::new() },
    ];
    let events = vec![
        Event::Granted(vec![(0, s.ticket.clone())]),
        Event::Accepted(vec![(0, s.ticket.clone())]),
        Event::Refused(Refusal::Forbidden, Vec::new()),
        Event::Waited(waiting),
        held,
        planned,
        Event::Credited(hash),
        Event::PartCredited,
        Event::Revised(Arc::new(s.request.clone())),
    ];
    let states: Vec<_> = states.into_iter().map(|s| (s.word(), s)).collect();
    let events: Vec<_> = events.into_iter().map(|e| (e.word(), e)).collect();
    Table::of("broker", &["Open"], &states, &events, |s, e| {
        s.clone().next(e.clone()).ok().map(|next| next.word())
    })
}

fn site_authority_table() -> Table {
    use site_authority::{CloseReason, Event, State};
    let set = |units: &[u32]| units.iter().map(|&unit| UnitId(unit)).collect::<BTreeSet<_>>();
    let states = vec![
        State::Early,
        State::Due,
        State::Priming { pending: set(&[0]), ready: set(&[1]) },
        State::Priming { pending: set(&[]), ready: set(&[1]) },
        State::Active { units: set(&[0, 1]) },
        State::Closed { units: set(&[0]), why: CloseReason::TermOver },
    ];
    let events = vec![
        Event::CameDue,
        Event::Assigned(set(&[2])),
        Event::UnitReady(UnitId(0)),
        Event::UnitLost(UnitId(0)),
        Event::Activated,
        Event::Extended,
        Event::Shrunk(set(&[0])),
        Event::Shortened,
        Event::Closed(CloseReason::TermOver),
        Event::Closed(CloseReason::GivenBack),
        Event::Closed(CloseReason::Failed(Refusal::Forbidden)),
        Event::Modified,
    ];
    let states: Vec<_> = states.into_iter().map(|s| (s.word(), s)).collect();
    let events: Vec<_> = events.into_iter().map(|e| (e.word(), e)).collect();
    Table::of("site authority", &["Early", "Due", "Closed"], &states, &events, |s, e| {
        s.clone().next(e.clone()).ok().map(|next| next.word())
    })
}

fn unit_table() -> Table {
    use unit::{Event, State};
    let tenant = samples().ticket.hash();
    let states = vec![
        State::Free,
        State::SettingUp { tenant },
        State::Ready { tenant, properties: Properties::default() },
        State::Abandoned { next: None },
        State::Abandoned { next: Some(tenant) },
        State::TearingDown { next: None },
        State::TearingDown { next: Some(tenant) },
        State::Quarantined,
    ];
    let events = vec![
        Event::Assigned(tenant),
        Event::Released,
        Event::SetUp(Properties::default()),
        Event::SetupFailed,
        Event::TornDown,
        Event::TeardownFailed,
        Event::Reset,
        Event::Quarantined,
        Event::Restored,
        Event::Modified(Properties::default()),
    ];
    let states: Vec<_> = states.into_iter().map(|s| (s.word(), s)).collect();
    let events: Vec<_> = events.into_iter().map(|e| (e.word(), e)).collect();
    Table::of("unit", &["Free"], &states, &events, |s, e| {
        s.clone().next(e.clone()).ok().map(|next| next.word())
    })
}

fn tables() -> [Table; 6] {
    [
        service_manager_table(),
        request_table(),
        group_table(),
        broker_table(),
        site_authority_table(),
        unit_table(),
    ]
}

#[test]
fn the_transition_tables_are_the_golden_ones() {
    let text: Vec<String> = tables().iter().map(Table::text).collect();
    check_golden("tests/golden/machines.txt", &text.join("\n"));
}

#[test]
fn a_unit_has_one_of_six_states_whatever_its_site_and_its_guest_say() {
    use service_manager::UnitUse;
    let tenant = samples().ticket.hash();
    let sites = [
        None,
        Some(unit::State::Free),
        Some(unit::State::SettingUp { tenant }),
        Some(unit::State::Ready { tenant, properties: Properties::default() }),
        Some(unit::State::Abandoned { next: None }),
        Some(unit::State::TearingDown { next: Some(tenant) }),
        Some(unit::State::Quarantined),
    ];
    let uses = [
        ("joining", UnitUse::Joining),
        ("joined", UnitUse::Joined),
        ("unusable", UnitUse::Unusable),
        ("leaving", UnitUse::Leaving),
        ("left", UnitUse::Left),
        ("refused", UnitUse::Refused),
    ];
    let (mut text, mut seen) = (String::new(), BTreeSet::new());
    for site in &sites {
        let at_site = site.as_ref().map_or("unheard", unit::State::word);
        let guests = uses.iter().flat_map(|&(word, usage)| {
            [false, true].map(|goes| (word, Some(AtGuest { usage, goes })))
        });
        for (word, guest) in [("nothing", None)].into_iter().chain(guests) {
            let goes = if guest.is_some_and(|guest| guest.goes) { ", its lease goes" } else { "" };
            let state = UnitState::of(site.as_ref(), guest);
            seen.insert(state);
            writeln!(text, "{at_site:<12} {word}{goes} -> {}", state.word()).unwrap();
        }
    }
    assert_eq!(seen, UnitState::ALL.into());
    check_golden("tests/golden/unit-states.txt", &text);
}

#[test]
fn the_diagrams_in_the_protocol_are_drawn_from_the_machines() {
    for table in tables() {
        let name = format!("machine {}", table.machine);
        check_block("docs/PROTOCOL.md", &name, &table.diagram());
    }
}

#[test]
fn every_state_is_born_or_reached_and_every_event_is_of_use() {
    for table in tables() {
        for state in &table.states {
            let reached = table.legal().any(|(from, _, next)| next == state && from != state);
            let born = table.births.contains(&state.as_str());
            assert!(reached || born, "{}: {state} cannot be reached", table.machine);
        }
        for event in &table.events {
            let used = table.legal().any(|(_, e, _)| e == event);
            assert!(used, "{}: {event} is refused everywhere", table.machine);
        }
    }
}
