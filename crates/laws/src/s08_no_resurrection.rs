//! S8: a closed lease never runs again.

use std::collections::BTreeMap;

use super::model::{SiteModel, Subject};
use super::{Change, Check, Law, Scene, Tally, LawVerdict};
use tenure_core::broker::facts as broker;
use tenure_core::broker::needs::{MAX_OF_ONE, ServiceId};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{AccountId, LinkHash};
use tenure_core::model::time::Time;
use tenure_core::wire::need::Need;

pub(super) const LAW: Law = Law {
    id: "S8",
    name: "no resurrection",
    statement: "A lease, ticket, offer or request that has ended changes no more, except that it is \
                forgotten, at the earliest one margin after its end. A guest's numbers, a \
                broker's serial numbers, the generations of a delegation and the revisions of a need only grow.",
    source: "monotonic state, tombstones; Shirako S51",
    on: "facts of all actors; what is forgotten, while the clocks keep to the margin; the names of requests \
         that are forgotten, where their guest is honest",
};

#[derive(Default)]
pub(super) struct Checker {
    /// What has ended, with whether it is forgotten.
    over: BTreeMap<Subject, bool>,
    /// The last number of each guest, and the last serial of each broker.
    last: BTreeMap<ActorId, u64>,
    /// The newest generation of each delegation in each actor's journal.
    generations: BTreeMap<(ActorId, AccountId), u32>,
    /// The last revision of each service's need that a broker has taken.
    needs: BTreeMap<(ActorId, ServiceId), u64>,
}

impl Check for Checker {
    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use site_authority::Fact;
        let mut lives = |hash: LinkHash| self.lives(scene, Subject::Ticket(scene.actor, hash), tally);
        match fact {
            Fact::Redeemed(fact) => lives(fact.ticket.hash()),
            Fact::LeaseExtended(fact) => {
                lives(fact.lease)?;
                lives(fact.ticket.hash())
            }
            Fact::TicketRefused(fact) => {
                lives(fact.ticket.hash())?;
                self.over.insert(Subject::Ticket(scene.actor, fact.ticket.hash()), false);
                Ok(())
            }
            Fact::TicketSurrendered(fact) => lives(fact.ticket.hash()),
            Fact::CameDue(fact) => lives(fact.lease),
            Fact::UnitsAssigned(fact) => lives(fact.lease),
            Fact::LeaseActivated(fact) => lives(fact.lease),
            Fact::UnitsReturned(fact) => lives(fact.lease),
            Fact::TermReturned(fact) => lives(fact.lease),
            Fact::LeaseShrunk(fact) => lives(fact.lease),
            Fact::LeaseClosed(fact) => lives(fact.lease),
            Fact::LeaseForgotten(fact) => {
                let site = scene.model.sites.get(&scene.actor);
                let lease = site.and_then(|site| Some(site.leases.get(&fact.lease)?.term));
                let refused = site.and_then(|site| site.refused.get(&fact.lease));
                // Parts of a ticket came back that was never redeemed.
                let gone = |site: &SiteModel| {
                    site.rights.contains_key(&fact.lease)
                        || site.reclaimed.contains_key(&fact.lease)
                        || site.recalls.contains_key(&fact.lease)
                };
                let rights = site.is_some_and(gone);
                // A clock that was ahead may have had it forgotten before, and the rest came back later.
                let before = self.over.get(&Subject::Ticket(scene.actor, fact.lease)) == Some(&true);
                if rights && (before || lease.is_none() && refused.is_none()) {
                    return Ok(());
                }
                let term = lease.or(refused.map(|refused| refused.ticket.bottom().term));
                let end = term.map(|term| term.end());
                // The extensions of a lease are forgotten with it.
                let lease = site.and_then(|site| site.leases.get(&fact.lease));
                for ticket in lease.into_iter().flat_map(|lease| lease.tickets.iter().skip(1)) {
                    self.over.insert(Subject::Ticket(scene.actor, ticket.hash()), true);
                }
                self.forgotten(scene, Subject::Ticket(scene.actor, fact.lease), end, tally)
            }
            Fact::DelegationIssued(fact) => self.generation_grows(scene, &fact.ticket, tally),
            Fact::DelegatedByHand(fact) => self.generation_grows(scene, &fact.ticket, tally),
            _ => Ok(()),
        }
    }

    fn broker(&mut self, scene: &Scene<'_>, fact: &broker::Fact, tally: &mut Tally) -> LawVerdict {
        use broker::Fact;
        let subject = |id: RequestId| Subject::Request(scene.actor, id);
        let record = |id| scene.model.brokers.get(&scene.actor)?.requests.get(id);
        match fact {
            Fact::Requested(fact) => {
                let id = fact.request.id;
                self.lives(scene, subject(id), tally)?;
                let may_return = scene.model.participants.may_return(subject(id));
                let gone = record(&id).is_none_or(|record| record.forgotten && may_return);
                tally.check(gone, || {
                    format!("{} accepts request {id} again", scene.name())
                })
            }
            Fact::RequestHanded(fact) => {
                self.lives(scene, subject(fact.request), tally)?;
                let may_return = scene.model.participants.may_return(subject(fact.request));
                let gone = record(&fact.request).is_none_or(|record| record.forgotten && may_return);
                tally.check(gone, || {
                    format!("{} takes request {} up again", scene.name(), fact.request)
                })
            }
            Fact::RequestPassed(fact) => self.lives(scene, subject(fact.request), tally),
            Fact::PassAnswered(fact) => self.lives(scene, subject(fact.request), tally),
            Fact::PassLapsed(fact) => self.lives(scene, subject(fact.request), tally),
            Fact::OfferPassed(fact) => self.lives(scene, subject(fact.request), tally),
            Fact::TicketsCut(fact) => {
                self.lives(scene, subject(fact.request), tally)?;
                let mut serials = fact.tickets.iter().map(|(_, ticket)| ticket.bottom().serial);
                serials.try_for_each(|serial| self.number_grows(scene, serial, tally))
            }
            Fact::OffersHeld(fact) => {
                self.lives(scene, subject(fact.request), tally)?;
                let tickets = fact.offers.iter().flatten();
                let mut serials = tickets.map(|(_, ticket)| ticket.bottom().serial);
                serials.try_for_each(|serial| self.number_grows(scene, serial, tally))
            }
            Fact::OfferAccepted(fact) => {
                self.lives(scene, subject(fact.request), tally)?;
                let until = record(&fact.request).and_then(|record| record.held_until());
                tally.check(until.is_some_and(|until| scene.at < until), || {
                    format!("{} grants an offer to {} that has lapsed", scene.name(), fact.request)
                })
            }
            Fact::HoldEnded(fact) => self.lives(scene, subject(fact.request), tally),
            Fact::Revised(fact) => {
                let id = fact.request.id;
                self.lives(scene, subject(id), tally)?;
                let last = record(&id).map(|record| record.request.history.revision);
                tally.check(last.is_some_and(|last| last < fact.request.history.revision), || {
                    format!("{} takes request {id} back to an earlier revision", scene.name())
                })
            }
            Fact::RequestQueued(fact) => self.lives(scene, subject(fact.request), tally),
            Fact::RequestPlanned(fact) => self.lives(scene, subject(fact.request), tally),
            Fact::RequestRefused(fact) => self.lives(scene, subject(fact.request), tally),
            Fact::RequestForgotten(fact) => {
                let end = record(&fact.request).map(|record| record.request.last_word());
                // What was granted need not come back to be forgotten.
                if record(&fact.request).is_some_and(|record| ["Granted", "Brought"].contains(&record.word())) {
                    self.over.insert(subject(fact.request), false);
                }
                self.forgotten(scene, subject(fact.request), end, tally)
            }
            Fact::NeedNoted(fact) => self.revision_grows(scene, (fact.guest, &fact.need), tally),
            Fact::DelegationTaken(fact) => self.generation_grows(scene, &fact.ticket, tally),
            Fact::DelegationIssued(fact) => {
                self.generation_grows(scene, &fact.ticket, tally)?;
                self.number_grows(scene, fact.ticket.bottom().serial, tally)
            }
            _ => self.in_portions(scene, fact, tally),
        }
    }

    fn guest(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use service_manager::Fact;
        if let Fact::Asked(fact) = fact {
            self.number_grows(scene, fact.request.id.number, tally)?;
        } else if let Fact::ExtensionAsked(fact) = fact {
            self.number_grows(scene, fact.request.id.number, tally)?;
        }
        let Some(lease) = lease_of(fact) else { return Ok(()) };
        let subject = Subject::Lease(scene.actor, lease);
        if let Fact::LeaseForgotten(_) = fact {
            let guest = scene.model.guests.get(&scene.actor);
            let end = guest.and_then(|guest| Some(guest.leases.get(&lease)?.expires_at));
            self.forgotten(scene, subject, end, tally)
        } else {
            self.lives(scene, subject, tally)
        }
    }

    fn change(&mut self, scene: &Scene<'_>, change: &Change, _: &mut Tally) -> LawVerdict {
        if !matches!(change.to, "Closed" | "Planned" | "Refused" | "Returned") {
            return Ok(());
        }
        self.over.insert(change.subject, false);
        // The extensions of a lease have ended with it.
        if let Subject::Ticket(site, hash) = change.subject {
            let lease = scene.model.sites.get(&site).and_then(|site| site.leases.get(&hash));
            for ticket in lease.iter().flat_map(|lease| &lease.tickets) {
                self.over.insert(Subject::Ticket(site, ticket.hash()), false);
            }
        }
        Ok(())
    }
}

impl Checker {
    /// A request that several brokers meet together.
    fn in_portions(
        &mut self,
        scene: &Scene<'_>,
        fact: &broker::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use broker::Fact;
        let subject = |id: RequestId| Subject::Request(scene.actor, id);
        let record = |id| scene.model.brokers.get(&scene.actor)?.requests.get(id);
        match fact {
            Fact::PortionHanded(fact) => {
                let refused = record(&fact.request).filter(|record| record.word() == "Refused");
                let round = refused.map(|record| record.portion.as_ref().map_or(0, |of| of.round));
                if round.is_some_and(|round| round < fact.portion.round) {
                    self.over.remove(&subject(fact.request));
                    return Ok(());
                }
                self.lives(scene, subject(fact.request), tally)?;
                let may_return = scene.model.participants.may_return(subject(fact.request));
                let gone = record(&fact.request).is_none_or(|record| record.forgotten && may_return);
                tally.check(gone, || {
                    let (name, id) = (scene.name(), fact.request);
                    format!("{name} takes a portion of request {id} up again")
                })
            }
            Fact::PortionKept(fact) => {
                self.lives(scene, subject(fact.request), tally)?;
                let mut serials = fact.tickets.iter().map(|(_, ticket)| ticket.bottom().serial);
                serials.try_for_each(|serial| self.number_grows(scene, serial, tally))
            }
            Fact::PortionPassed(fact) => self.lives(scene, subject(fact.request), tally),
            Fact::PortionAnswered(fact) => self.lives(scene, subject(fact.request), tally),
            Fact::PortionReserved(fact) => self.lives(scene, subject(fact.request), tally),
            Fact::PortionsTaken(fact) => {
                self.lives(scene, subject(fact.request), tally)?;
                let until = record(&fact.request).and_then(|record| record.held_until());
                tally.check(until.is_some_and(|until| scene.at < until), || {
                    format!("{} takes what has lapsed of {}", scene.name(), fact.request)
                })
            }
            Fact::PortionsGranted(fact) => self.lives(scene, subject(fact.request), tally),
            Fact::PortionsReleased(fact) => self.lives(scene, subject(fact.request), tally),
            _ => Ok(()),
        }
    }

    fn lives(&self, scene: &Scene<'_>, subject: Subject, tally: &mut Tally) -> LawVerdict {
        let over = self.over.get(&subject);
        let dead = over.is_some_and(|forgotten| !forgotten || !scene.model.participants.may_return(subject));
        tally.check(!dead, || format!("{} continues with {subject}, which has ended", scene.name()))
    }

    fn forgotten(
        &mut self,
        scene: &Scene<'_>,
        subject: Subject,
        end: Option<Time>,
        tally: &mut Tally,
    ) -> LawVerdict {
        let before = self.over.insert(subject, true);
        tally.check(before == Some(false), || {
            format!("{} forgets {subject}, which is not over", scene.name())
        })?;
        let due = end.map_or(Time::MAX, |end| end.plus(scene.model.participants.margin));
        tally.check(due <= scene.at, || {
            format!("{} forgets {subject} at {}, before {due}", scene.name(), scene.at)
        })
    }

    fn number_grows(&mut self, scene: &Scene<'_>, number: u64, tally: &mut Tally) -> LawVerdict {
        let last = self.last.insert(scene.actor, number).unwrap_or(0);
        tally.check(last < number, || {
            format!("{} gives the number {number} after {last}", scene.name())
        })
    }

    /// A broker knows so many services of a guest, and may have forgotten the others.
    fn revision_grows(
        &mut self,
        scene: &Scene<'_>,
        (guest, need): (ActorId, &Need),
        tally: &mut Tally,
    ) -> LawVerdict {
        let service = need.service.clone();
        let known = self.needs.keys().filter(|(of, id)| *of == scene.actor && id.guest == guest);
        let may_be_forgotten = MAX_OF_ONE <= known.count();
        let id = ServiceId { guest, service };
        let last = self.needs.insert((scene.actor, id), need.revision);
        let grows = last.is_none_or(|last| last < need.revision || may_be_forgotten);
        tally.check(grows, || {
            let (name, service, revision) = (scene.name(), &need.service, need.revision);
            format!("{name} takes revision {revision} of {service}'s need after {last:?}")
        })
    }

    fn generation_grows(&mut self, scene: &Scene<'_>, ticket: &Ticket, tally: &mut Tally) -> LawVerdict {
        let link = ticket.bottom();
        let Some(generation) = link.delegation else { return Ok(()) };
        let key = (scene.actor, link.account());
        let last = self.generations.insert(key, generation.generation);
        tally.check(last.is_none_or(|last| last < generation.generation), || {
            let (name, account) = (scene.name(), link.account());
            format!("{name} goes back to generation {} of {account}", generation.generation)
        })
    }
}

/// The lease that a fact speaks of, unless it begins with it.
fn lease_of(fact: &service_manager::Fact) -> Option<LeaseId> {
    use service_manager::Fact;
    let first = |number| LeaseId { number, part: 0 };
    Some(match fact {
        Fact::ExtensionAsked(fact) => fact.lease,
        Fact::RedeemBegun(fact) => fact.lease,
        Fact::TicketsSplit(fact) => fact.lease,
        Fact::Granted(fact) => first(fact.number),
        Fact::UnwantedGranted(fact) => first(fact.number),
        Fact::AskRefused(fact) => first(fact.number),
        Fact::Queued(fact) => first(fact.number),
        Fact::Offered(fact) => first(fact.number),
        Fact::Accepted(fact) => first(fact.number),
        Fact::GaveUp(fact) => first(fact.number),
        Fact::Leased(fact) => fact.lease,
        Fact::RedeemRefused(fact) => fact.lease,
        Fact::Joined(fact) => fact.lease,
        Fact::ExtensionGranted(fact) => fact.lease,
        Fact::ExtensionDenied(fact) => fact.lease,
        Fact::Extended(fact) => fact.lease,
        Fact::ReturnBegun(fact) => fact.lease,
        Fact::PartReturned(fact) => fact.lease,
        Fact::ReturnRefused(fact) => fact.lease,
        Fact::ShrinkBegun(fact) => fact.lease,
        Fact::Shrunk(fact) => fact.lease,
        Fact::LeaveBegun(fact) => fact.lease,
        Fact::Left(fact) => fact.lease,
        Fact::CloseBegun(fact) => fact.lease,
        Fact::SiteClosed(fact) => fact.lease,
        Fact::Credited(fact) => fact.lease,
        Fact::TermOver(fact) => fact.lease,
        Fact::TicketLapsed(fact) => fact.lease,
        Fact::Revised(fact) => first(fact.request.id.number),
        Fact::LeaseForgotten(fact) => fact.lease,
        Fact::ModifyBegun(fact) => fact.lease,
        Fact::Modified(fact) => fact.lease,
        Fact::ModifyRefused(fact) => fact.lease,
        Fact::Notified(fact) => fact.lease,
        Fact::RecallTold(fact) => fact.lease,
        Fact::UnitFailed(fact) => fact.lease,
        Fact::ReplacementWanted(fact) => fact.lease,
        Fact::VictimsNamed(fact) => fact.lease,
        Fact::RecallBegun(fact) => fact.lease,
        Fact::RecallLifted(fact) => fact.lease,
        Fact::JoinRefused(fact) => fact.lease,
        Fact::LeaveHastened(fact) => fact.lease,
        Fact::LeaveRefused(fact) => fact.lease,
        Fact::LeaveForced(fact) => fact.lease,
        Fact::UnitReset(fact) => fact.lease,
        Fact::Unblocked(fact) => fact.lease,
        Fact::GateReached(fact) => fact.lease,
        Fact::GateAnswered(fact) => fact.lease,
        Fact::UsageReported(fact) => fact.lease,
        Fact::RestWanted(fact) => fact.lease,
        Fact::RestBegun(fact) => fact.lease,
        Fact::RestReturned(fact) => fact.lease,
        Fact::RestRefused(fact) => fact.lease,
        Fact::UnitsRecalled(fact) => fact.lease,
        Fact::Warned(fact) => fact.lease,
        // What came back of a ticket is credited when it can be, if need be after its end.
        _ => return None,
    })
}
