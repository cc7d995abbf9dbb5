//! S4: a lease runs within its term.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{SiteLease, Subject};
use super::{Change, Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::model::identity::ActorId;
use tenure_core::site_authority::machine::State;
use tenure_core::ticket::Ticket;
use tenure_core::model::slice::LeaseId;
use tenure_core::ticket::link::{LinkHash, SignedLink};
use tenure_core::model::time::Time;

pub(super) const LAW: Law = Law {
    id: "S4",
    name: "term bound",
    statement: "By its site's clock, a ticket is redeemed before its end and before it has to be; \
                it is redeemed or reclaimed, and no part of it redeemed after it was reclaimed; and a lease goes \
                active within its term; an extension joins its lease exactly, with its units or some of them, \
                type and holder; a site at rest has no lease past its end.",
    source: "lease safety; Shirako S01, S15, S35",
    on: "facts of sites and guests; sites at rest",
};

#[derive(Default)]
pub(super) struct Checker {
    /// The leases that are not over, by their ends, and the end of each.
    by_end: BTreeMap<ActorId, BTreeSet<(Time, LinkHash)>>,
    ends: BTreeMap<(ActorId, LinkHash), Time>,
    /// The tickets that sites took: for leases, or back to their issuers.
    redeemed: BTreeSet<(ActorId, LinkHash)>,
    /// The leases whose terms had begun by the clocks of their sites.
    begun: BTreeSet<(ActorId, LinkHash)>,
    reclaimed: BTreeSet<(ActorId, LinkHash)>,
}

impl Check for Checker {
    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use site_authority::Fact;
        let lease = |hash| scene.model.sites.get(&scene.actor)?.leases.get(hash);
        let (name, at) = (|| scene.name(), scene.at);
        match fact {
            Fact::Redeemed(fact) => {
                self.redeemed_in_time(scene, &fact.ticket, tally)?;
                let term = fact.ticket.bottom().term;
                if term.start() <= at {
                    self.begun.insert((scene.actor, fact.ticket.hash()));
                }
                tally.check(at < term.end(), || format!("{} redeems a ticket for {term} at {at}", name()))
            }
            Fact::CameDue(fact) => {
                self.begun.insert((scene.actor, fact.lease));
                let start = lease(&fact.lease).map(|lease| lease.term.start());
                tally.check(start.is_some_and(|start| start <= at), || {
                    format!("{} begins lease {} at {at}, before its term", name(), fact.lease)
                })
            }
            Fact::LeaseActivated(fact) => {
                let term = lease(&fact.lease).map(|lease| lease.term);
                // A clock that fell back may be before the start, which it has been beyond.
                let begun = self.begun.contains(&(scene.actor, fact.lease));
                tally.check(begun && term.is_some_and(|term| at < term.end()), || {
                    let term = term.map_or_else(String::new, |term| term.to_string());
                    format!("{} lets lease {} go active at {at}, outside {term}", name(), fact.lease)
                })
            }
            Fact::LeaseExtended(fact) => {
                self.redeemed_in_time(scene, &fact.ticket, tally)?;
                let fault = match lease(&fact.lease) {
                    Some(lease) => does_not_join(lease, &fact.ticket),
                    None => Some("which is not there"),
                };
                tally.check(fault.is_none(), || {
                    format!("{} extends lease {}, {}", name(), fact.lease, fault.unwrap_or_default())
                })
            }
            Fact::LeaseForgotten(fact) => {
                self.begun.remove(&(scene.actor, fact.lease));
                Ok(())
            }
            Fact::TicketReclaimed(fact) => self.reclaimed_in_time(scene, &fact.ticket, tally),
            _ => Ok(()),
        }
    }

    fn guest(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        if let service_manager::Fact::RedeemBegun(fact) = fact {
            return sent_in_time(scene, fact.lease, tally);
        }
        let service_manager::Fact::Leased(fact) = fact else { return Ok(()) };
        let guest = scene.model.guests.get(&scene.actor);
        let first = guest.and_then(|guest| guest.leases.get(&fact.lease)?.first.as_ref());
        let term = first.map(|ticket| ticket.bottom().term);
        tally.check(term == Some(fact.term), || {
            let (name, lease) = (scene.name(), fact.lease);
            format!("{name} takes lease {lease} for {}, which is not its ticket's term", fact.term)
        })
    }

    fn change(&mut self, scene: &Scene<'_>, change: &Change, _: &mut Tally) -> LawVerdict {
        let Subject::Ticket(site, hash) = change.subject else { return Ok(()) };
        let lease = scene.model.sites.get(&site).and_then(|site| site.leases.get(&hash));
        let open = lease.filter(|lease| !matches!(lease.state, State::Closed { .. }));
        let end = open.map(|lease| lease.term.end());
        let old = match end {
            Some(end) => self.ends.insert((site, hash), end),
            None => self.ends.remove(&(site, hash)),
        };
        if old != end {
            let by_end = self.by_end.entry(site).or_default();
            old.map(|old| by_end.remove(&(old, hash)));
            end.map(|end| by_end.insert((end, hash)));
        }
        Ok(())
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        let Observation::Rested { actor, clock } = *seen else { return Ok(()) };
        let first = self.by_end.get(&actor).and_then(BTreeSet::first);
        let Some(&(end, hash)) = first else { return Ok(()) };
        tally.check(clock < end, || {
            let name = scene.name();
            format!("{name} rests at {clock} with lease {hash}, which ended at {end}")
        })
    }
}

impl Checker {
    fn redeemed_in_time(
        &mut self,
        scene: &Scene<'_>,
        ticket: &Ticket,
        tally: &mut Tally,
    ) -> LawVerdict {
        let (site, at) = (scene.actor, scene.at);
        self.redeemed.insert((site, ticket.hash()));
        let late = ticket.bottom().clauses.redeem_by.filter(|by| *by <= at);
        tally.check(late.is_none(), || {
            format!("{} redeems at {at} a ticket that had to be redeemed earlier", scene.name())
        })?;
        // A clock that fell back may have had what was reclaimed forgotten.
        let gone = |link: &SignedLink| self.reclaimed.contains(&(site, link.hash()));
        let gone = scene.model.participants.clocks_hold && ticket.links().iter().any(gone);
        tally.check(!gone, || format!("{} redeems what was reclaimed", scene.name()))
    }

    fn reclaimed_in_time(
        &mut self,
        scene: &Scene<'_>,
        ticket: &Ticket,
        tally: &mut Tally,
    ) -> LawVerdict {
        let (site, hash, at) = (scene.actor, ticket.hash(), scene.at);
        self.reclaimed.insert((site, hash));
        let due = ticket.bottom().clauses.redeem_by.is_some_and(|by| by <= at);
        tally.check(due, || {
            format!("{} has ticket {hash} reclaimed at {at}, which can be redeemed", scene.name())
        })?;
        let redeemed = self.redeemed.contains(&(site, hash));
        tally.check(!redeemed || !scene.model.participants.clocks_hold, || {
            format!("{} has ticket {hash} reclaimed, which was redeemed", scene.name())
        })
    }
}

/// A guest begins to redeem a ticket one margin before it has to be redeemed.
fn sent_in_time(scene: &Scene<'_>, lease: LeaseId, tally: &mut Tally) -> LawVerdict {
    let guest = scene.model.guests.get(&scene.actor);
    let first = guest.and_then(|guest| guest.leases.get(&lease)?.first.as_ref());
    let by = first.and_then(|ticket| ticket.bottom().clauses.redeem_by);
    let last = by.map(|by| by.minus(scene.model.participants.margin));
    tally.check(last.is_none_or(|last| scene.at < last), || {
        let (name, at) = (scene.name(), scene.at);
        format!("{name} begins to redeem lease {lease} at {at}, too late for its site's clock")
    })
}

/// Why a ticket does not continue from a lease, if it does not.
fn does_not_join(lease: &SiteLease, ticket: &Ticket) -> Option<&'static str> {
    let (old, new) = (lease.tickets[0].bottom(), ticket.bottom());
    let of_lease = |hash| lease.tickets.iter().any(|ticket| ticket.hash() == hash);
    let rules = [
        (matches!(lease.state, State::Active { .. }), "which is not active"),
        (new.extends.is_some_and(of_lease), "by a ticket that extends another"),
        (new.term.start() == lease.term.end(), "by a term that does not begin at its end"),
        (new.units <= old.units, "with more units"),
        (new.resource == old.resource, "with units of another type"),
        (new.holder == old.holder, "for another holder"),
    ];
    rules.into_iter().find_map(|(holds, fault)| (!holds).then_some(fault))
}
