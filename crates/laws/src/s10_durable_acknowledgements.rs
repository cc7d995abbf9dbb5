//! S10: what was acknowledged is still there.

use super::books::Books;
use super::{Check, Law, Observation, Scene, Tally, Verdict};
use tenure_core::actor::Role;
use tenure_core::driver::{Epoch, UnitId};
use tenure_core::broker::facts as broker;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::model::identity::ActorId;
use tenure_core::service_manager::machine::{Extension, State};
use tenure_core::wire::refusal::Refusal;
use tenure_core::model::slice::LeaseId;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{DelegationId, LinkHash};
use tenure_core::ticket::receipt::Receipt;
use tenure_core::model::time::Time;

pub(super) const LAW: Law = Law {
    id: "S10",
    name: "durable acknowledgements",
    statement: "Journals only grow, and an actor comes back with all that was durable. Whatever one actor has \
                in its journal on the word of an honest other is in that one's journal too: tickets in \
                their issuers', leased units, receipts and refusals in their site's, credits in their \
                broker's, redeemed tickets in their holder's.",
    source: "recoverability; Shirako S46, S47",
    on: "facts of all actors, of each pair whose journals are there; recoveries",
};

#[derive(Default)]
pub(super) struct Bench {
    /// Words that nobody has been found to stand by; where facts come by clocks that differ, their
    /// cause may follow.
    open: Vec<(ActorId, Word)>,
}

/// What somebody has in its journal on the word of somebody else.
#[derive(Debug)]
enum Word {
    /// A link that its issuer cut or issued.
    Link(ActorId, LinkHash),
    /// A ticket that its holder was granted.
    Granted(ActorId, LinkHash),
    /// A receipt of its site.
    Receipt(Receipt),
    /// A ticket that its broker has credited.
    Credited(ActorId, LinkHash),
    /// A ticket that its site has turned into these units.
    Leased(ActorId, LinkHash, Vec<(UnitId, Epoch)>),
    /// A ticket that its site took.
    Taken(ActorId, LinkHash),
    /// A ticket that its site has refused for good.
    Refused(ActorId, LinkHash),
    /// A delegation that its broker has taken.
    Delegated(ActorId, DelegationId, u32),
}

impl Check for Bench {
    fn ticket(&mut self, scene: &Scene<'_>, ticket: &Ticket, tally: &mut Tally) -> Verdict {
        for link in ticket.links() {
            if link.issuer != scene.actor {
                self.record(scene, Word::Link(link.issuer, link.hash()), tally)?;
            }
        }
        Ok(())
    }

    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> Verdict {
        use site_authority::Fact;
        let ticket = match fact {
            Fact::Redeemed(fact) => &fact.ticket,
            Fact::LeaseExtended(fact) => &fact.ticket,
            Fact::TicketRefused(fact) => &fact.ticket,
            Fact::TicketSurrendered(fact) => &fact.ticket,
            Fact::DelegationAcknowledged(fact) => {
                let id = DelegationId { issuer: scene.actor, number: fact.number };
                let site = scene.books.sites.get(&scene.actor);
                let issued = site.and_then(|s| s.delegations.get(&(id, fact.generation)));
                let Some(broker) = issued.map(|ticket| ticket.bottom().holder) else {
                    return Ok(());
                };
                return self.record(scene, Word::Delegated(broker, id, fact.generation), tally);
            }
            _ => return Ok(()),
        };
        self.record(scene, Word::Granted(ticket.bottom().holder, ticket.hash()), tally)
    }

    fn broker(&mut self, scene: &Scene<'_>, fact: &broker::Fact, tally: &mut Tally) -> Verdict {
        let broker::Fact::ReceiptTaken(fact) = fact else { return Ok(()) };
        self.record(scene, Word::Receipt(fact.receipt.clone()), tally)
    }

    fn guest(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::Fact,
        tally: &mut Tally,
    ) -> Verdict {
        use service_manager::Fact;
        match fact {
            Fact::Leased(fact) => {
                let Some((site, ticket)) = first_ticket(scene, fact.lease) else { return Ok(()) };
                let units = fact.units.iter().map(|unit| (unit.unit, unit.epoch)).collect();
                self.record(scene, Word::Leased(site, ticket, units), tally)
            }
            Fact::Extended(fact) => {
                let guest = scene.books.guests.get(&scene.actor);
                let held = guest.and_then(|guest| guest.held(fact.lease));
                let extension = held.map(|held| &held.extension);
                let Some(Extension::Redeeming { ticket, .. }) = extension else { return Ok(()) };
                self.record(scene, Word::Taken(ticket.site(), ticket.hash()), tally)
            }
            Fact::RedeemRefused(fact) if matches!(fact.refusal, Refusal::Conflict(_)) => {
                let Some((site, ticket)) = first_ticket(scene, fact.lease) else { return Ok(()) };
                self.record(scene, Word::Refused(site, ticket), tally)
            }
            Fact::SiteClosed(fact) => fact
                .receipts
                .iter()
                .try_for_each(|receipt| self.record(scene, Word::Receipt(receipt.clone()), tally)),
            Fact::Credited(fact) => {
                let guest = scene.books.guests.get(&scene.actor);
                let state = guest.and_then(|guest| guest.leases.get(&fact.lease));
                let Some(State::Crediting { receipts }) = state.map(|lease| &lease.state) else {
                    return Ok(());
                };
                receipts.iter().map(|receipt| &receipt.what).try_for_each(|what| {
                    self.record(scene, Word::Credited(what.issuer, what.link), tally)
                })
            }
            _ => Ok(()),
        }
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> Verdict {
        let (durable, name) = (scene.books.length(scene.actor), || scene.name());
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

    fn settled(&mut self, books: &Books, _: Time, tally: &mut Tally) -> Verdict {
        for (hearer, word) in self.open.drain(..) {
            tally.check(word.is_kept(books), || word.sentence(books, hearer))?;
        }
        Ok(())
    }
}

impl Bench {
    /// Somebody honest must stand by a word, now or, where the order is not known, in the end.
    fn record(&mut self, scene: &Scene<'_>, word: Word, tally: &mut Tally) -> Verdict {
        let books = scene.books;
        if !books.cast.honest(word.speaker()) {
            return Ok(());
        }
        let kept = word.is_kept(books);
        if !kept && !books.in_order {
            self.open.push((scene.actor, word));
            return Ok(());
        }
        tally.check(kept, || word.sentence(books, scene.actor))
    }
}

fn first_ticket(scene: &Scene<'_>, lease: LeaseId) -> Option<(ActorId, LinkHash)> {
    let lease = scene.books.guests.get(&scene.actor)?.leases.get(&lease)?;
    let ticket = lease.first.as_ref()?;
    Some((ticket.site(), ticket.hash()))
}

impl Word {
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

    /// Whether the journal of whoever said it says so.
    fn is_kept(&self, books: &Books) -> bool {
        let (site, broker) = (|id| books.sites.get(id), |id| books.brokers.get(id));
        match self {
            Self::Link(issuer, hash) => match books.cast.players.get(issuer).map(|p| p.role) {
                Some(Role::SiteAuthority) => site(issuer).is_some_and(|s| s.issued.contains(hash)),
                Some(Role::Broker) => broker(issuer).is_some_and(|b| b.cut.contains_key(hash)),
                // No honest guest hands anything on.
                Some(Role::ServiceManager) | None => false,
            },
            Self::Granted(holder, hash) => match books.cast.players.get(holder).map(|p| p.role) {
                Some(Role::ServiceManager) => {
                    books.guests.get(holder).is_some_and(|guest| guest.tickets.contains_key(hash))
                }
                // Nobody else honest shows a ticket to a site.
                Some(Role::Broker | Role::SiteAuthority) | None => false,
            },
            Self::Receipt(receipt) => {
                site(&receipt.what.site).is_some_and(|site| site.vouches(receipt))
            }
            // A broker that has forgotten the request answers that there is nothing left to credit.
            Self::Credited(id, hash) => broker(id).is_some_and(|broker| {
                let cut = broker.cut.get(hash);
                cut.is_some_and(|c| c.receipt.is_some() || broker.has_forgotten(c.request))
            }),
            Self::Leased(id, hash, units) => site(id).is_some_and(|site| {
                let lease = site.by_ticket.get(hash).and_then(|lease| site.leases.get(lease));
                lease.is_some_and(|lease| {
                    !units.is_empty()
                        && units.len() == lease.active_with.len()
                        && units.iter().all(|(unit, e)| lease.active_with.get(unit) == Some(e))
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

    fn sentence(&self, books: &Books, hearer: ActorId) -> String {
        let what = match self {
            Self::Link(_, hash) => format!("link {hash}, cut by"),
            Self::Granted(_, hash) => format!("ticket {hash}, held by"),
            Self::Receipt(receipt) => {
                format!("a receipt for ticket {} from {}, by", receipt.what.link, receipt.what.term)
            }
            Self::Credited(_, hash) => format!("ticket {hash}, credited by"),
            Self::Leased(_, hash, units) => format!("units {units:?} of ticket {hash}, leased by"),
            Self::Taken(_, hash) => format!("ticket {hash}, taken by"),
            Self::Refused(_, hash) => format!("ticket {hash}, refused for good by"),
            Self::Delegated(_, id, generation) => format!("generation {generation} of {id}, taken by"),
        };
        let (name, speaker) = (books.name(hearer), books.name(self.speaker()));
        format!("{name} has {what} {speaker}, whose journal does not say so")
    }
}
