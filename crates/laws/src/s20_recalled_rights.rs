//! S20: no recalled right outlives its time.

use std::collections::BTreeMap;

use super::{Check, Law, LawVerdict, Observation, Scene, Tally};
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Time;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::machine::State as AtGuest;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::site_authority::machine::State;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::recall::Notice;

pub(super) const LAW: Law = Law {
    id: "S20",
    name: "no recalled right outlives its time",
    statement: "A site at rest has taken what a recall takes of its leases by then, and takes no \
                extension for more units than stay. A guest at rest that was told of a recall \
                holds no more units than stay, from one margin before the recall takes them, by \
                its own clock. It hands on no more of a ticket than stays of it.",
    source: "beyond the papers",
    on: "actors at rest; facts of sites",
};

#[derive(Default)]
pub(super) struct Checker {
    /// What sites are yet to take: when, and how many units stay.
    cuts: BTreeMap<(ActorId, LinkHash, LinkHash), (Time, u32)>,
    /// What guests were told.
    told: BTreeMap<(ActorId, LeaseId, LinkHash), Notice>,
}

impl Check for Checker {
    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use site_authority::Fact;
        let me = scene.actor;
        match fact {
            Fact::Recalled(fact) => {
                let link = fact.ticket.hash();
                self.cuts.retain(|key, _| (key.0, key.2) != (me, link));
                let cuts = fact.cuts.iter().map(|cut| ((me, cut.lease, link), (cut.at, cut.units)));
                self.cuts.extend(cuts);
                Ok(())
            }
            Fact::LeaseExtended(fact) => {
                let link = fact.ticket.bottom();
                let cuts = self.cuts.iter().filter(|(key, _)| (key.0, key.1) == (me, fact.lease));
                let mut stays = cuts.filter(|(_, cut)| cut.0 < link.term.end()).map(|(_, cut)| cut.1);
                tally.check(stays.all(|units| link.units.get() <= units), || {
                    let (name, lease) = (scene.name(), fact.lease);
                    format!("{name} extends lease {lease} beyond what a recall leaves")
                })
            }
            Fact::LeaseForgotten(fact) => {
                self.cuts.retain(|key, _| (key.0, key.1) != (me, fact.lease));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn guest(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use service_manager::Fact;
        match fact {
            Fact::RecallTold(fact) => {
                let key = (scene.actor, fact.lease, fact.told.link);
                self.told.insert(key, fact.told.clone());
            }
            Fact::TicketsSplit(fact) => return self.split(scene, fact, tally),
            Fact::LeaseForgotten(fact) => {
                self.told.retain(|key, _| (key.0, key.1) != (scene.actor, fact.lease));
            }
            _ => {}
        }
        Ok(())
    }

    fn happened(
        &mut self,
        scene: &Scene<'_>,
        seen: &Observation<'_>,
        tally: &mut Tally,
    ) -> LawVerdict {
        let Observation::Rested { actor, clock } = *seen else { return Ok(()) };
        if let Some(site) = scene.model.sites.get(&actor) {
            for ((_, lease, _), (at, units)) in self.cuts.iter().filter(|(key, _)| key.0 == actor) {
                let has = site.leases.get(lease).map_or(0, |lease| match &lease.state {
                    State::Active { units } => units.len(),
                    State::Early | State::Due | State::Priming { .. } | State::Closed { .. } => 0,
                });
                tally.check(clock < *at || has <= *units as usize, || {
                    let name = scene.name();
                    format!("{name} rests at {clock} with {has} units on lease {lease}; {units} stay from {at}")
                })?;
            }
        }
        let Some(guest) = scene.model.guests.get(&actor) else { return Ok(()) };
        let margin = scene.model.participants.margin;
        for ((_, lease, _), told) in self.told.iter().filter(|(key, _)| key.0 == actor) {
            let has = guest.leases.get(lease).map_or(0, |lease| match lease.standing().lease() {
                Some(AtGuest::Joining { held } | AtGuest::Active { held }) => held.units.len(),
                Some(_) | None => 0,
            });
            let last = told.at.minus(margin);
            tally.check(told.unclaimed || clock < last || has <= told.units as usize, || {
                let (name, units) = (scene.name(), told.units);
                format!("{name} rests at {clock} with {has} units of lease {lease}; {units} stay from {last}")
            })?;
        }
        Ok(())
    }
}

impl Checker {
    /// Parts are handed on of a ticket that may be recalled.
    fn split(
        &self,
        scene: &Scene<'_>,
        fact: &service_manager::TicketsSplit,
        tally: &mut Tally,
    ) -> LawVerdict {
        for link in &fact.links {
            let told = link.parent.and_then(|above| self.told.get(&(scene.actor, fact.lease, above)));
            let Some(told) = told.filter(|told| told.unclaimed) else { continue };
            let Some(rest) = link.term.from(told.at) else { continue };
            let beside = fact.links.iter().filter(|other| other.term.contains(rest.start()));
            let units: u64 = beside.map(|other| u64::from(other.units.get())).sum();
            tally.check(units <= u64::from(told.units), || {
                let (name, stay) = (scene.name(), told.units);
                format!("{name} hands on {units} units of a ticket of which {stay} stay")
            })?;
        }
        Ok(())
    }
}
