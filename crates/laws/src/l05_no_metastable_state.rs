//! L5: a burst passes and leaves nothing behind.

use std::collections::BTreeMap;

use super::model::Model;
use super::{Bounds, Check, Law, Scene, Tally, LawVerdict};
use tenure_core::broker::facts::Fact;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::{Span, Time};

pub(super) const LAW: Law = Law {
    id: "L5",
    name: "no metastable state",
    statement: "Some time after a burst of requests, the share of urgent requests that brokers \
                decide or pass on within the bound is at least nine tenths of that before it.",
    source: "metastable failures",
    on: "facts of brokers, in true time, once the faults have stopped, where a burst is announced",
};

#[derive(Default)]
pub(super) struct Checker {
    /// How long a decision may take, once the faults have stopped.
    bound: Option<Span>,
    phase: Phase,
    before: Count,
    after: Count,
    /// The requests that wait for a decision, and since when.
    open: BTreeMap<RequestId, (Phase, Time)>,
}

#[derive(Clone, Copy, Default)]
enum Phase {
    #[default]
    Before,
    During,
    /// The burst has ended, and must leave no trace from this instant on.
    After(Time),
}

/// Requests that came, and those of them that were decided in time.
#[derive(Default)]
struct Count {
    came: u64,
    decided: u64,
}

impl Checker {
    /// What counts at a phase, if anything does at this instant.
    fn count(&mut self, phase: Phase, came: Time) -> Option<&mut Count> {
        match phase {
            Phase::Before => Some(&mut self.before),
            Phase::After(from) if from <= came => Some(&mut self.after),
            Phase::During | Phase::After(_) => None,
        }
    }

    fn decided(&mut self, request: &RequestId, now: Time) {
        let Some((phase, came)) = self.open.remove(request) else { return };
        let in_time = self.bound.is_some_and(|bound| now <= came.plus(bound));
        if let Some(count) = self.count(phase, came).filter(|_| in_time) {
            count.decided += 1;
        }
    }
}

impl Check for Checker {
    fn broker(&mut self, scene: &Scene<'_>, fact: &Fact, _: &mut Tally) -> LawVerdict {
        match fact {
            Fact::Requested(fact) if self.bound.is_some() => {
                let (request, phase) = (&fact.request, self.phase);
                if request.latest > request.earliest {
                    return Ok(());
                }
                if let Some(count) = self.count(phase, scene.now) {
                    count.came += 1;
                    self.open.insert(request.id, (phase, scene.now));
                }
            }
            Fact::TicketsCut(fact) => self.decided(&fact.request, scene.now),
            Fact::OffersHeld(fact) => self.decided(&fact.request, scene.now),
            Fact::RequestPlanned(fact) => self.decided(&fact.request, scene.now),
            Fact::RequestRefused(fact) => self.decided(&fact.request, scene.now),
            // How long other brokers take is their load, not this one's.
            Fact::RequestPassed(fact) => self.decided(&fact.request, scene.now),
            Fact::PortionKept(fact) => self.decided(&fact.request, scene.now),
            _ => {}
        }
        Ok(())
    }

    fn healed(&mut self, _: Time, bounds: Bounds) {
        self.bound = Some(bounds.request);
    }

    fn burst(&mut self, forgotten: Option<Time>) {
        self.phase = forgotten.map_or(Phase::During, Phase::After);
    }

    fn settled(&mut self, _: &Model, _: Time, tally: &mut Tally) -> LawVerdict {
        let (before, after) = (&self.before, &self.after);
        if before.came == 0 || after.came == 0 {
            return Ok(());
        }
        // decided/came after, at least 9/10 of decided/came before.
        let enough = 10 * after.decided * before.came >= 9 * before.decided * after.came;
        tally.check(enough, || {
            format!(
                "before the burst {} of {} requests were decided in time, after it {} of {}",
                before.decided, before.came, after.decided, after.came
            )
        })
    }
}
