//! How long drivers and messages of a live deployment took, according to its journals.

#![allow(clippy::wildcard_enum_match_arm, reason = "most facts do not show how long anything took")]

use std::collections::BTreeMap;

use tenure_core::actor::Actor;
use tenure_core::actor::effect::Effect;
use tenure_core::actor::fact::BadFact;
use tenure_core::broker::facts as broker;
use tenure_core::driver::{
    Answer, Call, DriverError, Epoch, GuestDriver, ResourceDriver, Step, UnitId,
};
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::{AnyActor, Entry, Fact};
use tenure_core::service_manager::facts as sm;
use tenure_core::site_authority::facts as site;

use super::Past;

type Key = (ActorId, UnitId, Epoch, Step);
type Outcome = Result<Properties, DriverError>;

/// The driver of an actor as it was: a step that was recorded takes as long and ends as it did; any other
/// takes the middle of the times that its kind did here, and goes well.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    calls: BTreeMap<Key, (Span, Outcome)>,
}

impl Recorded {
    /// Learns from all facts of an actor, which `seat` has with nothing in its journal.
    ///
    /// # Errors
    /// The first fact that does not follow from those before it, by its position.
    pub fn of(hosted: &mut HostedActor, facts: &[Entry]) -> Result<Self, (u64, BadFact)> {
        let (mut recorded, mut pending) = (Self::default(), Vec::new());
        for (position, entry) in (0..).zip(facts) {
            let actor: &mut AnyActor = hosted.actor_mut();
            actor.replay(entry).map_err(|cause| (position, cause))?;
            if let Some((is_it, outcome)) = done(&entry.fact)
                && let Some(nth) = pending.iter().position(|(call, _)| is_it(call))
            {
                let (call, since): (Call, Time) = pending.swap_remove(nth);
                recorded.calls.insert(key(&call), (entry.at.since(since), outcome));
            }
            for (_, effect) in hosted.actor().effects_after(position) {
                if let Effect::Call(call) = effect {
                    pending.retain(|(other, _)| (other.site, other.unit) != (call.site, call.unit));
                    pending.push((call, entry.at));
                }
            }
        }
        Ok(recorded)
    }

    /// The middle of the times that a step took, and how many there were.
    pub fn usual(&self, step: Step) -> (Span, usize) {
        let of_step = self.calls.iter().filter(|((.., of), _)| *of == step);
        let times: Vec<Span> = of_step.map(|(_, (took, _))| *took).collect();
        (middle(times.clone()), times.len())
    }

    fn answer(&self, call: &Call) -> Answer {
        match self.calls.get(&key(call)) {
            Some((after, outcome)) => Answer { outcome: outcome.clone(), after: *after },
            None => Answer { outcome: Ok(Properties::default()), after: self.usual(call.step).0 },
        }
    }
}

fn key(call: &Call) -> Key {
    (call.site, call.unit, call.epoch, call.step)
}

fn middle(mut times: Vec<Span>) -> Span {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or(Span::ZERO)
}

type CallPredicate = Box<dyn Fn(&Call) -> bool>;

/// Which step a fact is the end of, and how it went.
fn done(fact: &Fact) -> Option<(CallPredicate, Outcome)> {
    let at_site = |unit, epoch, step| -> CallPredicate {
        Box::new(move |call| (call.unit, call.epoch, call.step) == (unit, epoch, step))
    };
    let at_guest = |lease, unit, step| -> CallPredicate {
        Box::new(move |call| (call.lease, call.unit, call.step) == (lease, unit, step))
    };
    let failed = |error: &String| Err(DriverError(error.clone()));
    let went =
        |error: &Option<String>| error.as_ref().map_or_else(|| Ok(Properties::default()), failed);
    Some(match fact {
        Fact::SiteAuthority(site::Fact::UnitSetUp(fact)) => {
            (at_site(fact.unit, fact.epoch, Step::Setup), Ok(fact.properties.clone()))
        }
        Fact::SiteAuthority(site::Fact::UnitSetupFailed(fact)) => {
            (at_site(fact.unit, fact.epoch, Step::Setup), failed(&fact.error))
        }
        Fact::SiteAuthority(site::Fact::UnitTornDown(fact)) => {
            (at_site(fact.unit, fact.epoch, Step::Teardown), Ok(Properties::default()))
        }
        Fact::SiteAuthority(site::Fact::UnitTeardownFailed(fact)) => {
            (at_site(fact.unit, fact.epoch, Step::Teardown), failed(&fact.error))
        }
        Fact::ServiceManager(sm::Fact::Joined(fact)) => {
            (at_guest(fact.lease, fact.unit, Step::Join), went(&fact.error))
        }
        Fact::ServiceManager(sm::Fact::Left(fact)) => {
            (at_guest(fact.lease, fact.unit, Step::Leave), went(&fact.error))
        }
        _ => return None,
    })
}

impl ResourceDriver for Recorded {
    fn perform(&self, call: &Call) -> Answer {
        self.answer(call)
    }

    fn probe(&self, _: ActorId, _: UnitId) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }
}

impl GuestDriver for Recorded {
    fn perform(&self, call: &Call) -> Answer {
        self.answer(call)
    }

    fn probe(&self, _: ActorId, _: UnitId) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }
}

/// How long messages took: from the fact that sent one to the fact that it became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// The middle of all.
    pub message: Span,
    /// How many there were.
    pub messages: usize,
    /// The longest lease that was asked for.
    pub longest: Span,
}

impl Timings {
    /// Measured over the requests in the journals, and the answers to them.
    pub fn of(pasts: &[Past]) -> Self {
        let (mut asked, mut cut) = (BTreeMap::new(), BTreeMap::new());
        let (mut times, mut longest) = (Vec::new(), Span::ZERO);
        let facts =
            || pasts.iter().flat_map(|past| past.facts.iter().map(move |fact| (past, fact)));
        for (past, entry) in facts() {
            match &entry.fact {
                Fact::ServiceManager(sm::Fact::Asked(fact)) => {
                    longest = longest.max(fact.request.duration);
                    asked.insert((past.id, fact.request.id.number), entry.at);
                }
                Fact::Broker(broker::Fact::TicketsCut(fact)) => {
                    cut.insert((fact.request.origin, fact.request.number), entry.at);
                }
                _ => {}
            }
        }
        for (past, entry) in facts() {
            let sent = match &entry.fact {
                Fact::Broker(broker::Fact::Requested(fact)) => {
                    asked.get(&(fact.request.id.origin, fact.request.id.number))
                }
                Fact::ServiceManager(sm::Fact::Granted(fact)) => cut.get(&(past.id, fact.number)),
                _ => None,
            };
            times.extend(sent.map(|sent| entry.at.since(*sent).max(Span::ZERO)));
        }
        Self { messages: times.len(), message: middle(times), longest }
    }
}
