//! What a site remembers for others, and how much of it.
//!
//! Every holder of a valid ticket can make a site remember something: a lease, a ticket that came back, a
//! refusal. All of it is charged, in bytes, to those through whose hands the ticket went.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Cause, Lease, Reclaimed, Returns, Rights};
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::site_authority::facts::Denial;
use crate::ticket::Ticket;
use crate::ticket::link::{LinkHash, SignedLink};
use crate::wire::refusal::{Allowance, Refusal};

/// How many bytes a site remembers for others at most. It only decides what is taken in: a site whose limits
/// were changed comes back from the same journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of tickets under the delegations of one broker.
    pub tickets_of_broker: u64,
    /// Of tickets that one other holder has or has handed on.
    pub tickets_of_holder: u64,
    /// Of refused tickets under the delegations of one broker, with the links that they name.
    pub refused_of_broker: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tickets_of_broker: 1 << 28, tickets_of_holder: 1 << 26, refused_of_broker: 1 << 24 }
    }
}

/// What is counted for a ticket beside its links: its places in the tree of claims and among the leases.
const TICKET_BYTES: usize = 512;

/// What is counted for a receipt.
const RECEIPT_BYTES: usize = 320;

/// What is counted for a hash in a list.
const HASH_BYTES: usize = 40;

/// How much is remembered of the tickets of each holder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Charges(BTreeMap<ActorId, u64>);

impl Charges {
    /// Whether there is room for another ticket, or who has none left.
    pub(super) fn admit(
        &self,
        limits: &Limits,
        ticket: &Ticket,
        configuration: &Properties,
    ) -> Result<(), Refusal> {
        let (broker, more) = (ticket.root().holder, cost(ticket, configuration.bytes()));
        for holder in holders(ticket) {
            let most =
                if holder == broker { limits.tickets_of_broker } else { limits.tickets_of_holder };
            let would = self.0.get(&holder).copied().unwrap_or(0) + more;
            if would > most {
                return Err(Refusal::Quota { holder, of: Allowance::Bytes, most, would });
            }
        }
        Ok(())
    }

    /// A lease is remembered as it stands.
    pub(super) fn charge(&mut self, lease: &Lease) {
        for (holder, bytes) in parts(lease) {
            *self.0.entry(holder).or_default() += bytes;
        }
    }

    /// A ticket of which parts came back is remembered as it stands.
    pub(super) fn charge_rights(&mut self, rights: &Rights) {
        for (holder, bytes) in parts_of_rights(rights) {
            *self.0.entry(holder).or_default() += bytes;
        }
    }

    /// A ticket that was charged as it stands is forgotten, or about to change.
    pub(super) fn release_rights(&mut self, rights: &Rights) {
        for (holder, bytes) in parts_of_rights(rights) {
            self.take_off(holder, bytes);
        }
    }

    /// A ticket that was reclaimed is remembered.
    pub(super) fn charge_reclaimed(&mut self, reclaimed: &Reclaimed) {
        for (holder, bytes) in parts_of_reclaimed(reclaimed) {
            *self.0.entry(holder).or_default() += bytes;
        }
    }

    /// A ticket that was reclaimed is forgotten.
    pub(super) fn release_reclaimed(&mut self, reclaimed: &Reclaimed) {
        for (holder, bytes) in parts_of_reclaimed(reclaimed) {
            self.take_off(holder, bytes);
        }
    }

    /// A lease that was charged as it stands is forgotten, or about to change.
    pub(super) fn release(&mut self, lease: &Lease) {
        for (holder, bytes) in parts(lease) {
            self.take_off(holder, bytes);
        }
    }

    fn take_off(&mut self, holder: ActorId, bytes: u64) {
        let Some(charged) = self.0.get_mut(&holder) else { return };
        *charged = charged.saturating_sub(bytes);
        if *charged == 0 {
            self.0.remove(&holder);
        }
    }
}

/// All holders of a ticket, each once.
fn holders(ticket: &Ticket) -> impl Iterator<Item = ActorId> {
    let links = ticket.links();
    let holders = links.iter().map(|link| link.holder).enumerate();
    holders.filter_map(|(n, holder)| {
        let first = links.iter().position(|link| link.holder == holder);
        (first == Some(n)).then_some(holder)
    })
}

fn cost(ticket: &Ticket, configuration: usize) -> u64 {
    let bytes = ticket.bytes() + TICKET_BYTES + configuration;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// What the answers to returns take.
fn returns_cost(returns: &Returns) -> usize {
    returns.values().map(|(_, receipts)| (receipts.len() + 1) * RECEIPT_BYTES).sum()
}

fn parts_of_rights(rights: &Rights) -> impl Iterator<Item = (ActorId, u64)> {
    let bytes = cost(&rights.ticket, returns_cost(&rights.returns));
    holders(&rights.ticket).map(move |holder| (holder, bytes))
}

fn parts_of_reclaimed(reclaimed: &Reclaimed) -> impl Iterator<Item = (ActorId, u64)> {
    let bytes = cost(&reclaimed.ticket, (reclaimed.receipts.len() + 1) * RECEIPT_BYTES);
    holders(&reclaimed.ticket).map(move |holder| (holder, bytes))
}

/// What is charged to whom for a lease: its configuration and returns come with its first ticket.
fn parts(lease: &Lease) -> impl Iterator<Item = (ActorId, u64)> {
    let mut configuration = lease.configuration_bytes + returns_cost(&lease.returns);
    lease.tickets.iter().flat_map(move |ticket| {
        let bytes = cost(ticket, std::mem::take(&mut configuration));
        holders(ticket).map(move |holder| (holder, bytes))
    })
}

/// Tickets that were refused for good, with the links that show why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RefusedTickets {
    tickets: BTreeMap<LinkHash, RefusedTicket>,
    /// By the broker whose delegations they are under.
    by_broker: BTreeMap<ActorId, Kept>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RefusedTicket {
    ticket: Ticket,
    denial: Denial,
    cause: Cause,
}

/// What is kept of refused tickets under the delegations of one broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// Each link with the number of times it is named.
    links: BTreeMap<LinkHash, (SignedLink, u32)>,
    bytes: u64,
}

impl RefusedTickets {
    /// Whose a refused ticket is, and the refusal, as it was given the first time.
    pub(super) fn get(&self, ticket: LinkHash) -> Option<(ActorId, Refusal, Cause)> {
        let RefusedTicket { ticket, denial, cause } = self.tickets.get(&ticket)?;
        let kept = self.by_broker.get(&ticket.root().holder)?;
        let find = |hash| kept.links.get(&hash).map(|(link, _)| link.clone());
        Some((ticket.bottom().holder, denial.refusal(ticket, find)?, *cause))
    }

    /// Whether there is room for another one. Links that are kept already take none.
    pub(super) fn has_room(&self, limits: &Limits, ticket: &Ticket, refusal: &Refusal) -> bool {
        let kept = self.by_broker.get(&ticket.root().holder);
        let is_kept = |link: &SignedLink| kept.is_some_and(|k| k.links.contains_key(&link.hash()));
        let links = if let Refusal::Conflict(evidence) = refusal {
            let parents = evidence.parents.iter().flat_map(Ticket::links);
            let links = parents.chain(&evidence.links).filter(|link| !is_kept(link));
            let links: BTreeMap<LinkHash, u64> =
                links.map(|link| (link.hash(), link_cost(link))).collect();
            links.into_values().sum()
        } else {
            0
        };
        let more = refusal_cost(ticket, &Denial::of(refusal)) + links;
        kept.map_or(0, |kept| kept.bytes) + more <= limits.refused_of_broker
    }

    /// Remembers a ticket that is refused; `find` knows the links that its refusal names. Answers one
    /// that is not known.
    pub(super) fn insert(
        &mut self,
        ticket: &Ticket,
        denial: &Denial,
        cause: Cause,
        find: impl Fn(LinkHash) -> Option<SignedLink>,
    ) -> Result<(), LinkHash> {
        let kept = self.by_broker.entry(ticket.root().holder).or_default();
        let own = |hash| ticket.links().iter().find(|link| link.hash() == hash).cloned();
        for hash in names(denial) {
            if let Some((_, times)) = kept.links.get_mut(&hash) {
                *times += 1;
                continue;
            }
            let link = own(hash).or_else(|| find(hash)).ok_or(hash)?;
            kept.bytes += link_cost(&link);
            kept.links.insert(hash, (link, 1));
        }
        kept.bytes += refusal_cost(ticket, denial);
        let (ticket, denial) = (ticket.clone(), denial.clone());
        self.tickets.insert(ticket.hash(), RefusedTicket { ticket, denial, cause });
        Ok(())
    }

    /// Forgets a ticket, and the links that no other one names.
    pub(super) fn remove(&mut self, ticket: LinkHash) {
        let Some(RefusedTicket { ticket, denial, .. }) = self.tickets.remove(&ticket) else {
            return;
        };
        let broker = ticket.root().holder;
        let Some(kept) = self.by_broker.get_mut(&broker) else { return };
        kept.bytes = kept.bytes.saturating_sub(refusal_cost(&ticket, &denial));
        for hash in names(&denial) {
            let Some((link, times)) = kept.links.get_mut(&hash) else { continue };
            *times -= 1;
            if *times == 0 {
                kept.bytes = kept.bytes.saturating_sub(link_cost(link));
                kept.links.remove(&hash);
            }
        }
        if kept.bytes == 0 {
            self.by_broker.remove(&broker);
        }
    }
}

/// The links that a refusal names, each as often as it does.
fn names(denial: &Denial) -> impl Iterator<Item = LinkHash> {
    let outline = match denial {
        Denial::Conflict(outline) => Some(outline),
        Denial::Other(_) => None,
    };
    outline.into_iter().flat_map(|outline| outline.names())
}

fn link_cost(link: &SignedLink) -> u64 {
    u64::try_from(link.as_bytes().len() + 2 * HASH_BYTES).unwrap_or(u64::MAX)
}

fn refusal_cost(ticket: &Ticket, denial: &Denial) -> u64 {
    let bytes = ticket.bytes() + TICKET_BYTES + HASH_BYTES * names(denial).count();
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
