//! S6: an old call can never touch a new tenant.

use std::collections::BTreeMap;

use super::{Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::driver::{Call, Epoch, Step, UnitId};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::LeaseId;

pub(super) const LAW: Law = Law {
    id: "S6",
    name: "fencing",
    statement: "The epoch of a unit grows with each step at its site and each tenancy; no call \
                of a site is in an older epoch than an earlier one, and a repeated call is the \
                same call. So a node that refuses older epochs never serves a past tenant.",
    source: "Chubby's sequencers, fencing tokens; Shirako S21",
    on: "facts of sites and guests; driver calls",
};

#[derive(Default)]
pub(super) struct Checker {
    /// The last step that ended on each unit.
    ended: BTreeMap<(ActorId, UnitId), Epoch>,
    /// The last call for each unit, of its site.
    called: BTreeMap<(ActorId, UnitId), (Epoch, Step, u32, LeaseId)>,
    /// The last tenancy of each unit, in the eyes of each guest.
    leased: BTreeMap<(ActorId, ActorId, UnitId), Epoch>,
}

impl Check for Checker {
    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use site_authority::Fact;
        let (unit, epoch) = match fact {
            Fact::UnitSetUp(fact) => (fact.unit, fact.epoch),
            Fact::UnitSetupFailed(fact) => (fact.unit, fact.epoch),
            Fact::UnitTornDown(fact) => (fact.unit, fact.epoch),
            Fact::UnitTeardownFailed(fact) => (fact.unit, fact.epoch),
            _ => return Ok(()),
        };
        let last = self.ended.insert((scene.actor, unit), epoch);
        tally.check(last.is_none_or(|last| last < epoch), || {
            let unit = scene.model.unit(scene.actor, unit);
            format!("a step on {unit} ended in epoch {epoch:?}, after one in {last:?}")
        })
    }

    fn guest(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        let service_manager::Fact::Leased(fact) = fact else { return Ok(()) };
        let guest = scene.model.guests.get(&scene.actor);
        let first = guest.and_then(|guest| guest.leases.get(&fact.lease)?.first.as_ref());
        let Some(site) = first.map(|ticket| ticket.site()) else { return Ok(()) };
        if !scene.model.participants.honest(site) {
            return Ok(());
        }
        for leased in &fact.units {
            let last = self.leased.insert((scene.actor, site, leased.unit), leased.epoch);
            tally.check(last.is_none_or(|last| last < leased.epoch), || {
                let (name, unit) = (scene.name(), scene.model.unit(site, leased.unit));
                format!("{name} gets {unit} in epoch {:?}, after {last:?}", leased.epoch)
            })?;
        }
        Ok(())
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        let Observation::Called { actor, call } = *seen else { return Ok(()) };
        let Call { site, unit, epoch, step, number, lease, .. } = *call;
        if actor != site {
            return Ok(());
        }
        let last = self.called.insert((site, unit), (epoch, step, number, lease));
        tally.check(last.is_none_or(|last| last.0 <= epoch), || {
            let (word, unit) = (step.word(), scene.model.unit(site, unit));
            format!("{word} of {unit} is called in epoch {epoch:?}, after {last:?}")
        })?;
        // A unit that was set up is modified in its epoch, each time under a higher number.
        let modified = |(_, before, last, tenant): (Epoch, Step, u32, LeaseId)| {
            let goes_on = matches!(before, Step::Setup | Step::Modify) && last < number;
            step == Step::Modify && goes_on && tenant == lease
        };
        let same = last.is_none_or(|last| {
            last.0 != epoch || last == (epoch, step, number, lease) || modified(last)
        });
        tally.check(same, || {
            let unit = scene.model.unit(site, unit);
            format!("epoch {epoch:?} of {unit} names two calls: {last:?} and {step:?} for {lease}")
        })
    }
}
