//! L2: what was lent comes back.

use std::collections::BTreeMap;

use super::model::{Model, Subject};
use super::{Bounds, Change, Check, Law, Scene, Tally, LawVerdict};
use tenure_core::driver::UnitId;
use tenure_core::model::identity::ActorId;
use tenure_core::site_authority::machine::State;
use tenure_core::model::time::{Span, Time};

pub(super) const LAW: Law = Law {
    id: "L2",
    name: "units come back",
    statement: "Once the faults have stopped, a unit whose lease has ended is clean or \
                quarantined within the bound, and no lease stays open beyond its end and the \
                bound.",
    source: "eventual reclamation; Shirako S15, S53",
    on: "facts of sites, in true time",
};

#[derive(Default)]
pub(super) struct Checker {
    /// When the faults stopped, and how long a unit may take from then on.
    healed: Option<(Time, Span)>,
    /// The units on their way back, and since when.
    returning: BTreeMap<(ActorId, UnitId), Time>,
}

impl Check for Checker {
    fn change(&mut self, scene: &Scene<'_>, change: &Change, tally: &mut Tally) -> LawVerdict {
        let Subject::Unit(site, unit) = change.subject else { return Ok(()) };
        if change.to.starts_with("Abandoned") || change.to.starts_with("TearingDown") {
            self.returning.entry((site, unit)).or_insert(scene.now);
            return Ok(());
        }
        match self.returning.remove(&(site, unit)) {
            Some(since) => self.in_time(scene.model, scene.now, ((site, unit), since), tally),
            None => Ok(()),
        }
    }

    fn healed(&mut self, now: Time, bounds: Bounds) {
        self.healed = Some((now, bounds.teardown));
    }

    fn settled(&mut self, model: &Model, now: Time, tally: &mut Tally) -> LawVerdict {
        let Some((_, bound)) = self.healed else { return Ok(()) };
        for (&unit, &since) in &self.returning {
            self.in_time(model, now, (unit, since), tally)?;
        }
        let latest = now.minus(bound).minus(model.participants.margin);
        for (&site, record) in &model.sites {
            for (hash, lease) in &record.leases {
                let over = matches!(lease.state, State::Closed { .. });
                tally.check(over || latest < lease.term.end(), || {
                    let (name, word, end) = (model.name(site), lease.word(), lease.term.end());
                    format!("lease {hash} at {name} ended at {end} and is {word} at {now}")
                })?;
            }
        }
        Ok(())
    }
}

impl Checker {
    fn in_time(
        &self,
        model: &Model,
        now: Time,
        ((site, unit), since): ((ActorId, UnitId), Time),
        tally: &mut Tally,
    ) -> LawVerdict {
        let Some((healed, bound)) = self.healed else { return Ok(()) };
        let due = since.max(healed).plus(bound);
        tally.check(now <= due, || {
            let record = model.sites.get(&site).and_then(|site| site.units.get(&unit));
            let word = record.map_or("gone", |unit| unit.state.word());
            let unit = model.unit(site, unit);
            format!("{unit} is on its way back since {since}, was due by {due}, and is {word}")
        })
    }
}
