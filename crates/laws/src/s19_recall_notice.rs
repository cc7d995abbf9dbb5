//! S19: a recall takes only after its notice.

use std::collections::BTreeMap;

use super::{Check, Law, LawVerdict, Scene, Tally};
use tenure_core::model::identity::ActorId;
use tenure_core::model::time::Time;
use tenure_core::site_authority::facts::{self as site_authority, LeaseClosed};
use tenure_core::site_authority::machine::CloseReason;
use tenure_core::ticket::link::LinkHash;

pub(super) const LAW: Law = Law {
    id: "S19",
    name: "notice before recall",
    statement: "A site takes units of a lease for a recall only if the ticket carries a notice, \
                and no sooner than the notice after it recorded the recall, nor before the \
                instant that the recall names, nor before the one that the ticket does. Of \
                several recalls the highest number counts. What stays is what the recall says.",
    source: "beyond the papers; the notice of preemptible instances",
    on: "facts of sites",
};

#[derive(Default)]
pub(super) struct Checker {
    /// When each site recorded the newest recall of a link.
    recorded: BTreeMap<(ActorId, LinkHash), Time>,
}

impl Check for Checker {
    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use site_authority::Fact;
        match fact {
            Fact::Recalled(fact) => {
                let (link, level) = (fact.ticket.hash(), fact.level);
                let site = scene.model.sites.get(&scene.actor);
                let old = site.and_then(|site| site.recalls.get(&link)).map(|old| old.level.number);
                self.recorded.insert((scene.actor, link), scene.at);
                tally.check(old.is_none_or(|old| old < level.number), || {
                    let (name, number) = (scene.name(), level.number);
                    format!("{name} records recall {number} of {link} after {old:?}")
                })
            }
            Fact::UnitsRecalled(fact) => {
                let gone = u32::try_from(fact.units.len()).unwrap_or(u32::MAX);
                self.taken(scene, fact.lease, fact.link, gone, tally)
            }
            Fact::LeaseClosed(LeaseClosed { lease, why: CloseReason::Recalled(link), .. }) => {
                self.taken(scene, *lease, *link, 0, tally)
            }
            _ => Ok(()),
        }
    }
}

impl Checker {
    /// Units of a lease are taken for the recall of a link.
    fn taken(
        &self,
        scene: &Scene<'_>,
        hash: LinkHash,
        link: LinkHash,
        gone: u32,
        tally: &mut Tally,
    ) -> LawVerdict {
        let (name, at) = (scene.name(), scene.at);
        let site = scene.model.sites.get(&scene.actor);
        let lease = site.and_then(|site| site.leases.get(&hash));
        let recall = site.and_then(|site| site.recalls.get(&link));
        let recorded = self.recorded.get(&(scene.actor, link)).copied();
        let Some(((lease, recall), told)) = lease.zip(recall).zip(recorded) else {
            return tally.check(false, || format!("{name} takes units for no recall of {link}"));
        };
        let own = lease.tickets.iter().find(|ticket| ticket.hash() == link);
        let clauses = &own.unwrap_or(&lease.tickets[0]).bottom().clauses;
        let earliest = clauses.notice.map(|notice| {
            let after = told.plus(notice).max(recall.level.from);
            clauses.not_before.map_or(after, |not_before| after.max(not_before))
        });
        tally.check(earliest.is_some_and(|earliest| earliest <= at), || {
            format!("{name} takes units of lease {hash} at {at}, which it may from {earliest:?} on")
        })?;
        let has = u32::try_from(lease.state.units().len()).unwrap_or(u32::MAX);
        let stays = has.saturating_sub(gone);
        let exact = gone == 0 || own.is_none() || stays >= recall.level.units;
        tally.check(exact, || {
            let units = recall.level.units;
            format!("{name} leaves lease {hash} {stays} units, though {units} are to stay")
        })
    }
}
