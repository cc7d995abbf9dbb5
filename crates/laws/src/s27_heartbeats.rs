//! S27: a silent guest loses the leases that depend on heartbeats, and no others.

use std::collections::BTreeMap;

use super::{Check, Law, LawVerdict, Observation, Scene, Tally};
use tenure_core::model::identity::ActorId;
use tenure_core::model::time::{Span, Time};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts::{Fact, LeaseClosed};
use tenure_core::site_authority::machine::CloseReason;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::heartbeat::keep_alive;

pub(super) const LAW: Law = Law {
    id: "S27",
    name: "heartbeats",
    statement: "A site ends a lease because its guest is silent only if its configuration says for how long it goes on \
                without a heartbeat, and not before that time and a margin have passed since it heard from the guest. \
                While the clocks keep to the margin, no guest that has been up for that time believes in a lease that \
                its site has ended for this reason. Because a site is silent, a guest gives back only leases that depend on \
                heartbeats.",
    source: "Gray and Cheriton's leases; AVE's sessions",
    on: "facts of sites and guests; guests at rest",
};

#[derive(Default)]
pub(super) struct Checker {
    /// How long each lease goes on without a heartbeat, by its site and ticket.
    kept: BTreeMap<(ActorId, LinkHash), Span>,
    /// The leases that were ended as their guests were silent, by guest.
    ended: BTreeMap<ActorId, BTreeMap<LinkHash, Span>>,
    /// Since when each guest that has crashed is up; none while it is down, or has not rested.
    up: BTreeMap<ActorId, Option<Time>>,
}

impl Check for Checker {
    fn site(&mut self, scene: &Scene<'_>, fact: &Fact, tally: &mut Tally) -> LawVerdict {
        match fact {
            Fact::Redeemed(fact) => {
                if let Ok(Some(keep_alive)) = keep_alive(&fact.configuration) {
                    self.kept.insert((scene.actor, fact.ticket.hash()), keep_alive);
                }
                Ok(())
            }
            Fact::LeaseClosed(LeaseClosed { lease, why: CloseReason::Silent(heard), .. }) => {
                self.silent(scene, *lease, *heard, tally)
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
        let service_manager::Fact::SiteUnheard(fact) = fact else { return Ok(()) };
        let guest = scene.model.guests.get(&scene.actor);
        let first = guest.and_then(|guest| guest.leases.get(&fact.lease)?.first.as_ref());
        // Its site redeemed it before the guest had units of it.
        let depends = first.is_none_or(|first| {
            self.kept.contains_key(&(first.site(), first.hash())) || !scene.model.in_order
        });
        tally.check(depends, || {
            let (name, lease) = (scene.name(), fact.lease);
            format!("{name} gives lease {lease} back for silence, and it needs no heartbeat")
        })
    }

    fn happened(
        &mut self,
        scene: &Scene<'_>,
        seen: &Observation<'_>,
        tally: &mut Tally,
    ) -> LawVerdict {
        match *seen {
            Observation::Crashed { actor } => {
                self.up.insert(actor, None);
                Ok(())
            }
            Observation::Rested { actor, clock } => self.rests(scene, actor, clock, tally),
            Observation::Durable { .. }
            | Observation::Sent { .. }
            | Observation::Called { .. }
            | Observation::Recovered { .. }
            | Observation::Unmoved { .. } => Ok(()),
        }
    }
}

impl Checker {
    fn silent(
        &mut self,
        scene: &Scene<'_>,
        lease: LinkHash,
        heard: Time,
        tally: &mut Tally,
    ) -> LawVerdict {
        let (name, margin) = (scene.name(), scene.model.participants.margin);
        let kept = self.kept.get(&(scene.actor, lease)).copied();
        let due = kept.map(|kept| heard.plus(kept).plus(margin));
        tally.check(due.is_some_and(|due| due <= scene.at), || {
            let (at, due) = (scene.at, due.map(|due| due.to_string()));
            format!("{name} ends lease {lease} at {at}, heard at {heard}; silence counts from {due:?}")
        })?;
        let site = scene.model.sites.get(&scene.actor);
        let holder = site.and_then(|site| Some(site.leases.get(&lease)?.holder()));
        if let (Some(holder), Some(kept)) = (holder, kept)
            && scene.model.participants.honest(scene.actor)
        {
            self.ended.entry(holder).or_default().insert(lease, kept);
        }
        Ok(())
    }

    /// A guest that is at rest has been told, or knows by its clock.
    fn rests(
        &mut self,
        scene: &Scene<'_>,
        guest: ActorId,
        clock: Time,
        tally: &mut Tally,
    ) -> LawVerdict {
        let up = self.up.entry(guest).or_insert(Some(Time::MIN));
        let up = *up.get_or_insert(clock);
        let participants = &scene.model.participants;
        let judged = scene.model.in_order && participants.clocks_hold && participants.honest(guest);
        let (Some(record), Some(ended)) = (scene.model.guests.get(&guest), self.ended.get(&guest))
        else {
            return Ok(());
        };
        if !judged {
            return Ok(());
        }
        let believes = |hash: &LinkHash| {
            let lease = record.leases.get(record.tickets.get(hash)?)?;
            lease.standing().held().map(|_| *hash)
        };
        let mut wrong = ended.iter().filter(|(_, kept)| up.plus(**kept) <= clock);
        let wrong = wrong.find_map(|(hash, _)| believes(hash));
        tally.check(wrong.is_none(), || {
            let (name, hash) = (scene.model.name(guest), wrong.map(|hash| hash.to_string()));
            format!("{name} rests at {clock} and believes in lease {hash:?}, ended for its silence")
        })?;
        if let Some(ended) = self.ended.get_mut(&guest) {
            ended.retain(|hash, _| believes(hash).is_some());
        }
        Ok(())
    }
}
