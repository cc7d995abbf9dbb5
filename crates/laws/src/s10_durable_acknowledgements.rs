//! S10: what was acknowledged is still there.

use std::collections::BTreeMap;

use super::model::Model;
use super::{Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::actor::Role;
use tenure_core::driver::{Epoch, UnitId};
use tenure_core::broker::facts as broker;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::model::identity::ActorId;
use tenure_core::service_manager::machine::Change;
use tenure_core::wire::refusal::Refusal;
use tenure_core::model::slice::LeaseId;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{DelegationId, LinkHash};
use tenure_core::ticket::receipt::Receipt;
use tenure_core::model::time::Time;

pub(super) const LAW: Law = Law {
    id: "S10",
    name: "durable acknowledgements",
    statement: "Journals only grow, and an actor recovers with all durable facts. A statement of \
                another honest actor in a journal is also in that actor's journal: tickets in \
                their issuers', leased units, receipts and refusals in their site's, credits in \
                their broker's, redeemed tickets in their holder's.",
    source: "recoverability; Shirako S46, S47",
    on: "facts of all actors, of each pair whose journals are there; recoveries",
};

#[derive(Default)]
pub(super) struct Checker {
    /// Statements without a matching fact of their author so far; where facts carry times of differing
    /// clocks, their cause may follow.
    open: Vec<(ActorId, Promise)>,
}

/// A statement of another actor that an actor has in its journal.
#[derive(Debug)]
enum Promise {
    /// A link that its issuer cut or issued.
    Link(ActorId, LinkHash),
    /// A ticket that its holder was granted.
    Granted(ActorId, LinkHash),
    /// A receipt of its site.
    Receipt(Receipt),
    /// A ticket that its broker has credited.
    Credited(ActorId, (LinkHash, u32)),
    /// A ticket that its site has turned into these units.
    Leased(ActorId, LinkHash, Vec<(UnitId, Epoch)>),
    /// A ticket that its site took.
    Taken(ActorId, LinkHash),
    /// A ticket that its site has refused for good.
    Refused(ActorId, LinkHash),
    /// A delegation that its broker has taken.
    Delegated(ActorId, DelegationId, u32),
}

impl Check for Checker {
    fn ticket(&mut self, scene: &Scene<'_>, ticket: &Ticket, tally: &mut Tally) -> LawVerdict {
        for link in ticket.links() {
            if link.issuer != scene.actor {
                self.record(scene, Promise::Link(link.issuer, link.hash()), tally)?;
            }
        }
        Ok(())
    }

    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use site_authority::Fact;
        let ticket = match fact {
            Fact::Redeemed(fact) => &fact.ticket,
            Fact::LeaseExtended(fact) => &fact.ticket,
            Fact::TicketRefused(fact) => &fact.ticket,
            Fact::TicketSurrendered(fact) => &fact.ticket,
            Fact::DelegationAcknowledged(fact) => {
                let id = DelegationId { issuer: scene.actor, number: fact.number };
                let site = scene.model.sites.get(&scene.actor);
                let issued = site.and_then(|s| s.delegations.get(&(id, fact.generation)));
                let Some(broker) = issued.map(|ticket| ticket.bottom().holder) else {
                    return Ok(());
                };
                return self.record(scene, Promise::Delegated(broker, id, fact.generation), tally);
            }
            _ => return Ok(()),
        };
        self.record(scene, Promise::Granted(ticket.bottom().holder, ticket.hash()), tally)
    }

    fn broker(&mut self, scene: &Scene<'_>, fact: &broker::Fact, tally: &mut Tally) -> LawVerdict {
        use broker::Fact;
        match fact {
            Fact::ReceiptTaken(fact) => {
                self.record(scene, Promise::Receipt(fact.receipt.clone()), tally)
            }
            Fact::PartReturned(fact) => fact.receipts.iter().try_for_each(|receipt| {
                self.record(scene, Promise::Receipt(receipt.clone()), tally)
            }),
            Fact::DelegationAcknowledged(fact) => {
                let id = DelegationId { issuer: scene.actor, number: fact.number };
                let broker = scene.model.brokers.get(&scene.actor);
                let generation = (fact.number, fact.generation);
                let Some(&holder) = broker.and_then(|broker| broker.issued_to.get(&generation))
                else {
                    return Ok(());
                };
                self.record(scene, Promise::Delegated(holder, id, fact.generation), tally)
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
            Fact::Leased(fact) => {
                let Some((site, ticket)) = first_ticket(scene, fact.lease) else { return Ok(()) };
                let units = fact.units.iter().map(|unit| (unit.unit, unit.epoch)).collect();
                self.record(scene, Promise::Leased(site, ticket, units), tally)
            }
            Fact::Extended(fact) => {
                let guest = scene.model.guests.get(&scene.actor);
                let held = guest.and_then(|guest| guest.held(fact.lease));
                let change = held.map(|held| &held.change);
                let Some(Change::Redeeming { ticket, .. }) = change else { return Ok(()) };
                self.record(scene, Promise::Taken(ticket.site(), ticket.hash()), tally)
            }
            Fact::RedeemRefused(fact) if matches!(fact.refusal, Refusal::Conflict(_)) => {
                let Some((site, ticket)) = first_ticket(scene, fact.lease) else { return Ok(()) };
                self.record(scene, Promise::Refused(site, ticket), tally)
            }
            Fact::ReceiptTaken(fact) => {
                self.record(scene, Promise::Receipt(fact.receipt.clone()), tally)
            }
            Fact::SiteClosed(fact) => fact
                .receipts
                .iter()
                .try_for_each(|receipt| self.record(scene, Promise::Receipt(receipt.clone()), tally)),
            Fact::PartReturned(fact) => fact
                .receipts
                .iter()
                .try_for_each(|receipt| self.record(scene, Promise::Receipt(receipt.clone()), tally)),
            Fact::Credited(fact) => {
                let guest = scene.model.guests.get(&scene.actor);
                let state = guest.and_then(|guest| guest.leases.get(&fact.lease));
                let lease = state.and_then(|lease| lease.standing().lease());
                let receipts = lease.map_or(&[][..], |state| state.to_credit());
                receipts.iter().map(|receipt| &receipt.what).try_for_each(|what| {
                    self.record(scene, Promise::Credited(what.issuer, (what.link, what.number)), tally)
                })
            }
            _ => Ok(()),
        }
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        let (durable, name) = (scene.model.length(scene.actor), || scene.name());
        match *seen {
            Observation::Durable { position, .. } => tally.check(position == durable, || {
                format!("{} writes fact {position} of its journal, which has {durable}", name())
            }),
            Observation::Recovered { position, .. } => tally.check(position == durable, || {
                format!("{} comes back with {position} facts, but {durable} were durable", name())
            }),
            _ => Ok(()),
        }
    }

    fn settled(&mut self, model: &Model, _: Time, tally: &mut Tally) -> LawVerdict {
        for (hearer, promise) in self.open.drain(..) {
            tally.check(promise.is_kept(model), || promise.sentence(model, hearer))?;
        }
        Ok(())
    }
}

impl Checker {
    /// An honest author must have a matching fact, now or, where the order is not known, in the end.
    fn record(&mut self, scene: &Scene<'_>, promise: Promise, tally: &mut Tally) -> LawVerdict {
        let model = scene.model;
        if !model.participants.honest(promise.speaker()) {
            return Ok(());
        }
        let kept = promise.is_kept(model);
        if !kept && !model.in_order {
            self.open.push((scene.actor, promise));
            return Ok(());
        }
        tally.check(kept, || promise.sentence(model, scene.actor))
    }
}

fn first_ticket(scene: &Scene<'_>, lease: LeaseId) -> Option<(ActorId, LinkHash)> {
    let lease = scene.model.guests.get(&scene.actor)?.leases.get(&lease)?;
    let ticket = lease.first.as_ref()?;
    Some((ticket.site(), ticket.hash()))
}

impl Promise {
    fn speaker(&self) -> ActorId {
        match self {
            Self::Link(speaker, _)
            | Self::Granted(speaker, _)
            | Self::Credited(speaker, _)
            | Self::Leased(speaker, ..)
            | Self::Taken(speaker, _)
            | Self::Refused(speaker, _)
            | Self::Delegated(speaker, ..) => *speaker,
            Self::Receipt(receipt) => receipt.what.site,
        }
    }

    /// Whether the journal of its author contains it.
    fn is_kept(&self, model: &Model) -> bool {
        let (site, broker) = (|id| model.sites.get(id), |id| model.brokers.get(id));
        match self {
            Self::Link(issuer, hash) => match model.participants.members.get(issuer).map(|p| p.role) {
                Some(Role::SiteAuthority) => site(issuer).is_some_and(|s| s.issued.contains(hash)),
                Some(Role::Broker) => broker(issuer).is_some_and(|b| {
                    b.cut.contains_key(hash) || b.issued.contains_key(hash)
                }),
                Some(Role::ServiceManager) => {
                    model.guests.get(issuer).is_some_and(|guest| guest.parts.contains_key(hash))
                }
                None => false,
            },
            Self::Granted(holder, hash) => match model.participants.members.get(holder).map(|p| p.role) {
                Some(Role::ServiceManager) => {
                    model.guests.get(holder).is_some_and(|guest| guest.tickets.contains_key(hash))
                }
                // A broker shows a delegation that it gives back a part of.
                Some(Role::Broker) => broker(holder).is_some_and(|broker| {
                    broker.delegations.values().any(|ticket| ticket.hash() == *hash)
                }),
                // No other honest actor shows a ticket to a site.
                Some(Role::SiteAuthority) | None => false,
            },
            Self::Receipt(receipt) => {
                site(&receipt.what.site).is_some_and(|site| site.vouches(receipt))
            }
            // A broker that has forgotten the request answers that there is nothing left to credit.
            Self::Credited(id, receipt) if model.guests.contains_key(id) => {
                model.guests.get(id).is_some_and(|guest| guest.has_credited(*receipt))
            }
            Self::Credited(id, (hash, number)) => broker(id).is_some_and(|broker| {
                if let Some((_, receipts)) = broker.issued.get(hash) {
                    return receipts.contains_key(number);
                }
                let cut = broker.cut.get(hash);
                cut.is_some_and(|cut| {
                    cut.receipts.contains_key(number) || broker.has_forgotten(cut.request)
                })
            }),
            Self::Leased(id, hash, units) => site(id).is_some_and(|site| {
                let lease = site.by_ticket.get(hash).and_then(|lease| site.leases.get(lease));
                lease.is_some_and(|lease| {
                    // All that it began with, or what was left when it was told: a recall may come first.
                    let still: BTreeMap<_, _> = units.iter().copied().collect();
                    !units.is_empty()
                        && still.len() == units.len()
                        && still.iter().all(|(unit, e)| lease.handed_over.get(unit) == Some(e))
                        && lease.active_with.keys().all(|unit| still.contains_key(unit))
                })
            }),
            Self::Taken(id, hash) => site(id).is_some_and(|site| site.by_ticket.contains_key(hash)),
            Self::Refused(id, hash) => site(id).is_some_and(|site| site.refused.contains_key(hash)),
            Self::Delegated(id, delegation, generation) => {
                let key = (*delegation, *generation);
                broker(id).is_some_and(|broker| broker.delegations.contains_key(&key))
            }
        }
    }

    fn sentence(&self, model: &Model, hearer: ActorId) -> String {
        let what = match self {
            Self::Link(_, hash) => format!("link {hash}, cut by"),
            Self::Granted(_, hash) => format!("ticket {hash}, held by"),
            Self::Receipt(receipt) => {
                format!("a receipt for ticket {} from {}, by", receipt.what.link, receipt.what.term)
            }
            Self::Credited(_, (hash, _)) => format!("ticket {hash}, credited by"),
            Self::Leased(_, hash, units) => format!("units {units:?} of ticket {hash}, leased by"),
            Self::Taken(_, hash) => format!("ticket {hash}, taken by"),
            Self::Refused(_, hash) => format!("ticket {hash}, refused for good by"),
            Self::Delegated(_, id, generation) => format!("generation {generation} of {id}, taken by"),
        };
        let (name, speaker) = (model.name(hearer), model.name(self.speaker()));
        format!("{name} has {what} {speaker}, whose journal does not say so")
    }
}
