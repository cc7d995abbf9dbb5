//! L4: who crashes comes back and works.

use std::collections::BTreeMap;

use super::model::Model;
use super::{Bounds, Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::model::identity::ActorId;
use tenure_core::model::time::{Span, Time};

pub(super) const LAW: Law = Law {
    id: "L4",
    name: "recovery",
    statement: "Once the faults have stopped, an actor that crashed has recovered and made a \
                fact within the bound.",
    source: "bounded recovery; Shirako S18, S56",
    on: "crashes and facts, in true time",
};

#[derive(Default)]
pub(super) struct Checker {
    /// When the faults stopped, and how long a recovery may take from then on.
    healed: Option<(Time, Span)>,
    /// Those who crashed and have made no fact since.
    down: BTreeMap<ActorId, Time>,
}

impl Check for Checker {
    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        match *seen {
            Observation::Crashed { actor } => {
                self.down.entry(actor).or_insert(scene.now);
                Ok(())
            }
            Observation::Durable { actor, entries, .. } if !entries.is_empty() => {
                match self.down.remove(&actor) {
                    Some(since) => self.in_time(scene.model, scene.now, (actor, since), tally),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn healed(&mut self, now: Time, bounds: Bounds) {
        self.healed = Some((now, bounds.recovery));
    }

    fn settled(&mut self, model: &Model, now: Time, tally: &mut Tally) -> LawVerdict {
        self.down
            .iter()
            .try_for_each(|(&actor, &since)| self.in_time(model, now, (actor, since), tally))
    }
}

impl Checker {
    fn in_time(
        &self,
        model: &Model,
        now: Time,
        (actor, since): (ActorId, Time),
        tally: &mut Tally,
    ) -> LawVerdict {
        let Some((healed, bound)) = self.healed else { return Ok(()) };
        let due = since.max(healed).plus(bound);
        tally.check(now <= due, || {
            format!("{} is down since {since} and was due by {due}", model.name(actor))
        })
    }
}
