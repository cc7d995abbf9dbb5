//! Recorded runs for the auditor, to be replayed, unchanged or with one violation.

use std::collections::BTreeMap;

use tenure_core::broker::Command as BrokerCommand;
use tenure_core::broker::facts as broker;
use tenure_core::broker::forwarding::{Accepted, Neighbour};
use tenure_core::broker::mapper::BrokerMapper;
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::route::Routed;
use tenure_core::mapper::slo::Slo as Follower;
use tenure_core::mapper::urgency::policy::Known;
use tenure_core::mapper::urgency::{Recalls, Urgency};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service::definition::{Behaviour, Definition};
use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::Members;
use tenure_core::service::slo::Slo;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::mapper::{Ask, ServiceManagerMapper};
use tenure_core::service_manager::plan::{
    HOLD, PackageReport, PlanCommand, PlanRequest, WantedPackages, WantedPart,
};
use tenure_core::service_manager::services::{Found, ServiceCommand};
use tenure_core::site_authority::facts as site_authority;
use tenure_core::ticket::link::{LinkHash, SignedLink};
use tenure_core::wire::recall::Accepts;
use tenure_core::wire::request::Item;
use tenure_expr::{Expr, Quantity};
use tenure_laws::{Auditor, Bounds, Law, Participants, Violation};

use crate::common::world::{Scene, Shown, What, World, cast};
use crate::common::{
    BROKER, FAR_BROKER, GUEST, HOUR, RIVAL, SITE, ask_for, at, id, item, properties, units,
};

pub(crate) const EVERYBODY: [u8; 4] = [SITE, BROKER, GUEST, RIVAL];
pub(crate) const BOUNDS: Bounds =
    Bounds { request: Span::MINUTE, teardown: Span::MINUTE, recovery: Span::MINUTE };

/// What an auditor is shown of a life, how the parties are, and when it is asked for the last time.
#[derive(Clone)]
pub(crate) struct Tape {
    pub(crate) cast: Participants,
    pub(crate) shown: Vec<Shown>,
    pub(crate) end: Time,
    /// When a burst begins and ends.
    pub(crate) burst: Option<(Time, Time)>,
}

impl Tape {
    pub(crate) fn of(world: World) -> Self {
        Self { cast: cast(), end: world.now, shown: world.tape, burst: None }
    }

    /// Shows it to a fresh auditor, in a world without faults; answers how often each law looked.
    pub(crate) fn play(&self) -> Result<BTreeMap<&'static str, u64>, Violation> {
        let mut auditor = Auditor::new(self.cast.clone());
        auditor.healed(Time::ZERO, BOUNDS);
        let (mut begins, mut ends) = (self.burst.map(|b| b.0), self.burst.map(|b| b.1));
        for shown in &self.shown {
            if begins.take_if(|t| *t <= shown.at).is_some() {
                auditor.burst_begins();
            }
            if let Some(end) = ends.take_if(|t| *t <= shown.at) {
                auditor.burst_ends(end, Span::MINUTE);
            }
            shown.to(&mut auditor)?;
        }
        auditor.settle(self.end)?;
        Ok(auditor.checked().map(|(law, count): (&Law, u64)| (law.id, count)).collect())
    }

    /// The journals in it.
    pub(crate) fn journals(&self) -> BTreeMap<ActorId, Vec<Entry>> {
        let mut journals: BTreeMap<ActorId, Vec<Entry>> = BTreeMap::new();
        for shown in &self.shown {
            if let What::Durable(who, _, entries) = &shown.what {
                journals.entry(id(*who)).or_default().extend(entries.iter().cloned());
            }
        }
        journals
    }

    /// The place of the first thing shown that is wanted, from a place on.
    #[track_caller]
    pub(crate) fn find(&self, from: usize, wanted: impl Fn(&What) -> bool) -> usize {
        let found = self.shown.iter().skip(from).position(|shown| wanted(&shown.what));
        from + found.expect("it is in the tape")
    }

    /// The place of the `n`th input of an actor that made a fact of a kind.
    pub(crate) fn nth(&self, who: u8, kind: &str, n: usize) -> usize {
        let made = |what: &What| {
            let facts = facts_of(what, who).into_iter().flatten();
            facts.into_iter().any(|entry| entry.fact.kind().0 == kind)
        };
        let places = self.shown.iter().enumerate().filter(|(_, shown)| made(&shown.what));
        places.map(|(place, _)| place).nth(n).unwrap_or_else(|| panic!("no {kind} {n} of {who}"))
    }

    /// The `n`th fact of a kind of an actor.
    pub(crate) fn entry(&mut self, who: u8, kind: &str, n: usize) -> &mut Entry {
        let all = self.shown.iter_mut().filter_map(|shown| {
            let What::Durable(of, _, entries) = &mut shown.what else { return None };
            (*of == who).then_some(entries)
        });
        let mut of_kind = all.flatten().filter(|entry| entry.fact.kind().0 == kind);
        of_kind.nth(n).unwrap_or_else(|| panic!("no {kind} {n} of {who}"))
    }

    pub(crate) fn site(&mut self, kind: &str, n: usize) -> &mut site_authority::Fact {
        let Fact::SiteAuthority(fact) = &mut self.entry(SITE, kind, n).fact else { unreachable!() };
        fact
    }

    pub(crate) fn broker(&mut self, kind: &str, n: usize) -> &mut broker::Fact {
        let Fact::Broker(fact) = &mut self.entry(BROKER, kind, n).fact else { unreachable!() };
        fact
    }

    pub(crate) fn guest(&mut self, who: u8, kind: &str, n: usize) -> &mut service_manager::Fact {
        let Fact::ServiceManager(fact) = &mut self.entry(who, kind, n).fact else { unreachable!() };
        fact
    }

    /// Every link of the tickets that a site issued or redeemed.
    pub(crate) fn links(&self, who: u8) -> BTreeMap<LinkHash, SignedLink> {
        use site_authority::Fact as F;
        let facts = self.shown.iter().filter_map(|shown| facts_of(&shown.what, who)).flatten();
        let tickets = facts.filter_map(|entry| match &entry.fact {
            Fact::SiteAuthority(F::DelegationIssued(fact)) => Some(&fact.ticket),
            Fact::SiteAuthority(F::Redeemed(fact)) => Some(&fact.ticket),
            Fact::ServiceManager(_) | Fact::Broker(_) | Fact::SiteAuthority(_) => None,
        });
        let links = tickets.flat_map(|ticket| ticket.links());
        links.map(|link| (link.hash(), link.clone())).collect()
    }

    /// Has something happen after a place, at the same time.
    pub(crate) fn insert_after(&mut self, place: usize, what: What) {
        let at = self.shown[place].at;
        self.shown.insert(place + 1, Shown { at, what });
    }

    /// The number of facts in an actor's journal after a place.
    pub(crate) fn journal_length(&self, who: u8, place: usize) -> u64 {
        let facts = self.shown[..=place].iter().filter_map(|shown| facts_of(&shown.what, who));
        facts.map(|facts| facts.len() as u64).sum()
    }

    /// Nothing after this place ever happens.
    pub(crate) fn stop_after(&mut self, place: usize) {
        self.shown.truncate(place + 1);
    }
}

/// The facts of an entry of the recording, if it has any.
fn facts_of(what: &What, who: u8) -> Option<&[Entry]> {
    let What::Durable(of, _, entries) = what else { return None };
    (*of == who).then_some(entries)
}

/// Leases of two guests, one extended, one given back, a request refused, crashes, and the leases that
/// come after; then a burst of requests.
pub(crate) fn honest() -> Tape {
    let leave_before = Span::MINUTE;
    let mut world =
        Scene { audited: true, suspicious: true, leave_before, ..Scene::default() }.open();
    let kept = world.ask(GUEST, ask_for(2, 0, HOUR));
    let back = world.ask(RIVAL, ask_for(2, 0, HOUR));
    world.ask(RIVAL, ask_for(9, 0, HOUR));
    let again = world.sent("redeem").remove(0);
    world.deliver(SITE, &again);
    world.advance(300);
    world.command(GUEST, GuestCommand::extend(kept, Span::HOUR));
    world.repeat();
    world.advance(600);
    world.command(RIVAL, GuestCommand::Close { lease: back });
    world.repeat();
    for who in EVERYBODY {
        world.restart(who);
        world.run();
    }
    world.advance(900);
    let denied = world.ask(RIVAL, ask_for(1, 900, HOUR));
    world.ask(GUEST, ask_for(1, 900, 2 * HOUR));
    world.ask(GUEST, ask_for(1, HOUR + 900, HOUR));
    world.command(RIVAL, GuestCommand::extend(denied, Span::HOUR));
    world.advance(2 * HOUR);
    world.ask(RIVAL, ask_for(2, 2 * HOUR, HOUR));
    world.advance(4 * HOUR);
    let begins = world.now;
    for k in 0..10 {
        let mut ask = ask_for(1, 4 * HOUR + 60 * k, HOUR);
        ask.items[0].min_units = units(1);
        world.ask([GUEST, RIVAL][k as usize % 2], ask);
    }
    world.advance(5 * HOUR);
    let ends = world.now;
    world.advance(6 * HOUR);
    world.ask(GUEST, ask_for(1, 6 * HOUR, HOUR));
    world.advance(24 * HOUR);
    assert_eq!(world.now, at(24 * HOUR));
    Tape { burst: Some((begins, ends)), ..Tape::of(world) }
}

/// A lease whose units are recalled after a notice.
pub(crate) fn recalled() -> Tape {
    let mut world = Scene { audited: true, suspicious: true, ..Scene::default() }.open();
    let accepts = Accepts { notice: Some(Span::from_secs(300)), min_tenure: None };
    let items = vec![Item { accepts, ..item(3) }];
    let lease = world.ask(GUEST, Ask { items, ..ask_for(3, 0, HOUR) });
    let ticket = world.ticket(GUEST, lease).hash();
    world.advance(600);
    world.command(BROKER, BrokerCommand::Recall { ticket, units: Some(1), from: None });
    world.advance(1000);
    world.command(GUEST, GuestCommand::extend(lease, Span::HOUR));
    world.advance(6 * HOUR);
    Tape::of(world)
}

/// Two guests, each with a node of a stack of its own.
pub(crate) fn stacked() -> Tape {
    let scene = Scene { audited: true, suspicious: true, stacked: true, ..Scene::default() };
    let mut world = scene.open();
    world.ask(GUEST, ask_for(1, 0, HOUR));
    world.ask(RIVAL, ask_for(1, 0, HOUR));
    world.advance(3 * HOUR);
    Tape::of(world)
}

/// Two nodes with a plan each, one of which is accepted and reported; the other one lapses.
pub(crate) fn planned() -> Tape {
    let mut world = Scene { audited: true, suspicious: true, ..Scene::default() }.open();
    world.ask(GUEST, ask_for(2, 0, HOUR));
    for _ in 0..2 {
        let part = WantedPart {
            package: Some("svc/web/1.0/main/1.0".to_owned()),
            ..WantedPart::new("web")
        };
        let request = PlanRequest {
            wanted: WantedPackages { parts: vec![part], ..WantedPackages::default() },
            ..PlanRequest::new(Name::literal("main"), world.now.plus(HOLD))
        };
        world.command(GUEST, GuestCommand::Plan(PlanCommand::Propose(Box::new(request))));
    }
    world.command(GUEST, GuestCommand::Plan(PlanCommand::Accept { plan: 1 }));
    world.restart(GUEST);
    let package = "svc/web/1.0/main/1.0".to_owned();
    let reports = vec![PackageReport { node: "peer/u0".to_owned(), package, error: None }];
    world.command(GUEST, GuestCommand::Plan(PlanCommand::Report { plan: 1, reports }));
    // Something is done by others while the second plan holds its node.
    world.advance(20 * 60);
    world.ask(RIVAL, ask_for(1, 0, HOUR));
    world.advance(3 * HOUR);
    Tape::of(world)
}

/// A guest that is cut off from the site of a lease which depends on heartbeats, and hears of its end later.
pub(crate) fn silent() -> Tape {
    let mut world = Scene { audited: true, ..Scene::default() }.open();
    let configuration = properties("session.keep-alive", "100s");
    let lease = world.ask(GUEST, Ask { configuration, ..ask_for(2, 0, HOUR) });
    world.advance(110);
    world.keep.insert("redeem");
    world.command(GUEST, GuestCommand::extend(lease, Span::HOUR));
    world.cut_off.insert(GUEST);
    // It counts from its start, so the issuer hears of the end before it does.
    world.advance(175);
    world.restart(GUEST);
    world.advance(300);
    world.cut_off.clear();
    world.release();
    world.repeat();
    world.advance(3 * HOUR);
    Tape::of(world)
}

/// A broker passes on what it has too few units for, to another one that grants it.
pub(crate) fn passed_on() -> Tape {
    let broker_mapper = || -> Box<dyn BrokerMapper> { Box::new(Routed(Box::new(Fcfs::default()))) };
    let scene = Scene { far_stock: 3, far_broker: true, audited: true, ..Scene::default() };
    let mut world = Scene { broker_mapper, ..scene }.open();
    let neighbour = |forward, accept| Neighbour { forward, accept };
    for (who, with, neighbour) in [
        (BROKER, FAR_BROKER, neighbour(true, None)),
        (FAR_BROKER, BROKER, neighbour(false, Some(Accepted::default()))),
    ] {
        world.command(who, BrokerCommand::SetNeighbour { with: id(with), neighbour });
    }
    for count in [4, 1] {
        let broker = Some(id(BROKER));
        let lease = world.ask(GUEST, Ask { broker, ..ask_for(count, 0, HOUR) });
        assert_eq!(world.state(GUEST, lease), "Active");
    }
    world.advance(3 * HOUR);
    Tape::of(world)
}

/// Two services that have all units between them, of which the one comes to want more, at a greater urgency.
pub(crate) fn moved() -> Tape {
    let broker_mapper = || -> Box<dyn BrokerMapper> {
        let (min_tenure, stable_for) = (Span::ZERO, Span::ZERO);
        let recalls = Recalls { min_tenure, stable_for, ..Recalls::default() };
        Box::new(Urgency::new(Known::default()).with_recalls(recalls))
    };
    let guest_mapper = || -> Box<dyn ServiceManagerMapper> { Box::new(Follower::default()) };
    let scene =
        Scene { audited: true, suspicious: true, broker_mapper, guest_mapper, ..Scene::default() };
    let mut world = scene.open();
    for (who, urgency, units) in [(GUEST, 10, 4), (RIVAL, 50, 0), (RIVAL, 50, 1)] {
        serve(&mut world, who, urgency, units);
    }
    world.advance(1200);
    for who in [GUEST, RIVAL] {
        let report = ServiceCommand::Report {
            service: work(),
            kpis: Kpis::default(),
            seen: Found::Stopped,
            busy: BTreeMap::new(),
            members: Members::default(),
        };
        world.command(who, GuestCommand::Service(report));
    }
    world.advance(6 * HOUR);
    Tape::of(world)
}

fn work() -> Name {
    Name::literal("work")
}

/// Has a guest have a service that wants so many units at an urgency.
fn serve(world: &mut World, who: u8, urgency: u32, units: i64) {
    let slo = Slo {
        rule: None,
        want: Expr::parse_measured("wanted").unwrap(),
        urgency,
        resource: Name::literal("node"),
        requirement: None,
    };
    let behaviour = Behaviour {
        stale_after: Span::DAY,
        notice: Span::MINUTE,
        min_tenure: Span::MINUTE,
        ..Behaviour::default()
    };
    let slo = [(Name::literal("all"), slo)].into();
    let definition = Box::new(Definition { slo, behaviour, ..Definition::default() });
    let define = ServiceCommand::Define { service: work(), definition };
    world.command(who, GuestCommand::Service(define));
    let mut kpis = Kpis::default();
    assert!(kpis.insert("wanted".parse().unwrap(), Quantity::number(units)));
    let report = ServiceCommand::Report {
        service: work(),
        kpis,
        seen: Found::Running,
        busy: BTreeMap::new(),
        members: Members::default(),
    };
    world.command(who, GuestCommand::Service(report));
}

/// Has the first receipt credited as soon as its site has signed it, before its holder has shown it.
pub(crate) fn credit_at_once(tape: &mut Tape) {
    let closed = tape.nth(SITE, "site.lease-closed", 0);
    let taken = tape.nth(BROKER, "broker.receipt-taken", 0);
    let taken = tape.shown.remove(taken);
    tape.shown.insert(closed + 1, taken);
}
