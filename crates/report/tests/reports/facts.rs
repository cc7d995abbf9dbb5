//! What the facts of these tests are made of.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use tenure_core::model::identity::{ActorId, Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::resource::Constraints;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service::definition::Definition;
use tenure_core::service::slo::Met;
use tenure_core::service_manager::facts::{
    Fact as GuestFact, ServiceDefined, ServiceReported, ServiceStale, SloAssessed,
};
use tenure_core::service_manager::services::Found;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Clauses, Link, SignedLink};
use tenure_report::History;

pub(crate) const SITE: u8 = 1;
pub(crate) const BROKER: u8 = 2;
pub(crate) const GUEST: u8 = 3;
pub(crate) const RIVAL: u8 = 4;

pub(crate) fn name(text: &'static str) -> Name {
    Name::literal(text)
}

pub(crate) fn minute(minutes: i64) -> Time {
    Time::ZERO.plus(Span::MINUTE.times(minutes))
}

fn signer(of: u8) -> Signer {
    Signer::from_seed(Scheme::None, [of; 32])
}

pub(crate) fn id(of: u8) -> ActorId {
    signer(of).id()
}

/// A ticket of the broker's for so many nodes of the site, until the hundredth minute.
pub(crate) fn ticket(holder: u8, units: u32, serial: u64) -> Ticket {
    let link = |issuer: u8, holder: u8| Link {
        parent: None,
        issuer: id(issuer),
        holder: id(holder),
        resource: name("node"),
        units: NonZeroU32::new(units).expect("at least one"),
        term: Term::new(minute(0), minute(100)).expect("a term"),
        constraints: Constraints::NONE,
        clauses: Clauses::NONE,
        delegation: None,
        extends: None,
        serial,
    };
    let root = Ticket::root_of(SignedLink::sign(link(SITE, BROKER), &signer(SITE)));
    let below = Link { parent: Some(root.hash()), ..link(BROKER, holder) };
    root.with(SignedLink::sign(below, &signer(BROKER)))
}

/// A site's word, by its key.
pub(crate) fn by_site() -> Signer {
    signer(SITE)
}

/// A history of facts, each of an actor and a minute, and as of a minute.
pub(crate) fn history(facts: &[(u8, i64, Fact)], now: i64) -> History {
    let names = [(SITE, "alpha"), (BROKER, "exchange"), (GUEST, "guest"), (RIVAL, "rival")];
    let names: BTreeMap<_, _> = names.map(|(of, text)| (id(of), name(text))).into();
    let mut history = History::new(names);
    for (of, at, fact) in facts {
        history.add(id(*of), &Entry { at: minute(*at), fact: fact.clone() });
    }
    history.finish(Some(minute(now)))
}

/// A service `batch` with an SLO `wait`, and an SLA about it.
pub(crate) fn defined() -> Fact {
    let definition: Definition = serde_json::from_str(
        r#"{
            "slo": { "wait": { "rule": "oldest-wait < 10m", "want": "busy-units", "urgency": 50 } },
            "sla": { "gold": { "slos": ["wait"], "target": "90%", "window": "100m" } },
            "behaviour": { "stale-after": "5m" }
        }"#,
    )
    .expect("a definition");
    definition.check().expect("sound");
    GuestFact::from(ServiceDefined { service: name("batch"), definition }).into()
}

/// How long the oldest job has waited, in minutes.
pub(crate) fn waited(minutes: u32) -> Fact {
    let kpis = format!(r#"{{"busy-units": "2", "oldest-wait": "{minutes}m"}}"#);
    let kpis = serde_json::from_str(&kpis).expect("KPIs");
    let seen = Found::Running;
    GuestFact::from(ServiceReported { service: name("batch"), kpis, seen, busy: BTreeSet::new() })
        .into()
}

pub(crate) fn judged(met: Met) -> Fact {
    let fact = SloAssessed { service: name("batch"), slo: name("wait"), met, want: None };
    GuestFact::from(fact).into()
}

pub(crate) fn stale() -> Fact {
    GuestFact::from(ServiceStale { service: name("batch") }).into()
}
