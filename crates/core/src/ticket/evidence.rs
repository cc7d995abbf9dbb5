//! Evidence of over-issue: two or more links that together exceed the ticket they were cut from.
//!
//! Anyone can check it offline, years later (S14: accountability). It convicts the issuer unless
//! the issuer shows a site's receipts for links among them that had come back by then; doctored
//! evidence convicts no actor.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Ticket;
use super::link::{AccountId, LinkHash, SignedLink};
use super::receipt::Receipt;
use crate::model::identity::{ActorId, Scheme};
use crate::model::time::Time;
use crate::model::verifier::Verifier;
use crate::mutants::mutant;

/// The links that exceed their parent at an instant; or two generations of one delegation with several
/// holders or parents, which convict who signed both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The tickets the links were cut from: one, or several generations of one delegation.
    pub parents: Vec<Ticket>,
    /// The links.
    pub links: Vec<SignedLink>,
    /// An instant at which all of them run.
    pub at: Time,
}

/// Evidence by the names of its links: anyone who keeps the links can put it together again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceOutline {
    /// The links of each parent, root first.
    pub parents: Vec<Vec<LinkHash>>,
    /// The links.
    pub links: Vec<LinkHash>,
    /// The instant at which all of them run.
    pub at: Time,
}

impl EvidenceOutline {
    /// The evidence, if `find` knows every link that is not on the refused ticket itself.
    pub fn fill(
        &self,
        refused: &Ticket,
        find: impl Fn(LinkHash) -> Option<SignedLink>,
    ) -> Option<Evidence> {
        let own = |hash| refused.links().iter().find(|link| link.hash() == hash).cloned();
        let find = |&hash: &LinkHash| own(hash).or_else(|| find(hash));
        let parent = |names: &Vec<LinkHash>| {
            let links = names.iter().map(find).collect::<Option<Vec<_>>>()?;
            Ticket::try_from(links).ok()
        };
        let parents = self.parents.iter().map(parent).collect::<Option<_>>()?;
        let links = self.links.iter().map(find).collect::<Option<_>>()?;
        Some(Evidence { parents, links, at: self.at })
    }

    /// The names of all links in it, some of them twice.
    pub fn names(&self) -> impl Iterator<Item = LinkHash> + use<'_> {
        self.parents.iter().flatten().chain(&self.links).copied()
    }
}

/// Why evidence convicts no actor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EvidenceFault {
    /// A parent or a link is missing, or the parents are not one ticket's generations.
    #[error("the links are not cut from one ticket")]
    NotOneTicket,
    /// The same link twice.
    #[error("link {0} is shown twice")]
    Repeated(LinkHash),
    /// A chain or link that does not hold.
    #[error("link {0} is not validly signed or not a part of its parent")]
    Invalid(LinkHash),
    /// A link that does not run at the instant named.
    #[error("link {0} does not run at the instant named")]
    NotRunning(LinkHash),
    /// Together they do not exceed the parent.
    #[error("{sum} units do not exceed the parent's {limit}")]
    WithinParent {
        /// The units of the links that no receipt excuses.
        sum: u64,
        /// The most units of a parent.
        limit: u64,
    },
}

impl Evidence {
    /// The most links that one piece of evidence shows; more would not fit into a message.
    pub const MAX_LINKS: usize = 1000;

    /// The names of its links.
    pub fn outline(&self) -> EvidenceOutline {
        let names = |parent: &Ticket| parent.links().iter().map(SignedLink::hash).collect();
        EvidenceOutline {
            parents: self.parents.iter().map(names).collect(),
            links: self.links.iter().map(SignedLink::hash).collect(),
            at: self.at,
        }
    }

    /// The issuer that this evidence convicts, once `receipts` have been considered in its favour, where
    /// nobody has stated anything about keys.
    pub fn convicts(&self, scheme: Scheme, receipts: &[Receipt]) -> Result<ActorId, EvidenceFault> {
        self.convicts_by(&mut Verifier::new(scheme), receipts)
    }

    /// As [`convicts`](Self::convicts), by what the verifier knows of keys.
    pub fn convicts_by(
        &self,
        verifier: &mut Verifier,
        receipts: &[Receipt],
    ) -> Result<ActorId, EvidenceFault> {
        let first = self.parents.first().ok_or(EvidenceFault::NotOneTicket)?;
        let mut equivocates = false;
        for parent in &self.parents {
            if parent.bottom().account() != first.bottom().account() {
                return Err(EvidenceFault::NotOneTicket);
            }
            equivocates |= parent.bottom().holder != first.bottom().holder
                || parent.account_above() != first.account_above();
            let sound = parent.check_shape(parent.site(), parent.bottom().holder).is_ok()
                && parent.links().iter().all(|link| link.verifies(verifier));
            if !sound {
                return Err(EvidenceFault::Invalid(parent.hash()));
            }
        }
        if equivocates && !mutant!(EquivocationExcused) {
            return Ok(first.bottom().issuer);
        }
        let mut sums: BTreeMap<AccountId, u64> = BTreeMap::new();
        for (place, link) in self.links.iter().enumerate() {
            if self.links[..place].iter().any(|other| other.hash() == link.hash()) {
                return Err(EvidenceFault::Repeated(link.hash()));
            }
            self.check_link(verifier, link)?;
            let site = first.site();
            let units = self.unexcused(verifier, site, link, receipts);
            // The generations of a delegation are one claim.
            let sum = sums.entry(link.account()).or_default();
            *sum = units.max(*sum);
        }
        let sum = sums.into_values().sum();
        let limits = self.parents.iter().map(|parent| u64::from(parent.bottom().units.get()));
        let limit = limits.max().unwrap_or(0);
        if sum <= limit {
            return Err(EvidenceFault::WithinParent { sum, limit });
        }
        Ok(first.bottom().holder)
    }

    /// The units of a link that no receipt shows to have come back: each receipt of a link has a number of
    /// its own.
    fn unexcused(
        &self,
        verifier: &mut Verifier,
        site: ActorId,
        link: &SignedLink,
        receipts: &[Receipt],
    ) -> u64 {
        let (mut numbers, mut left) = (BTreeSet::new(), link.units.get());
        for receipt in receipts {
            let units = receipt.excuses(verifier, site, link, self.at);
            if units > 0 && numbers.insert(receipt.what.number) {
                left = left.saturating_sub(units);
            }
        }
        u64::from(left)
    }

    /// The link is cut from one of the parents, and runs at the instant.
    fn check_link(&self, verifier: &mut Verifier, link: &SignedLink) -> Result<(), EvidenceFault> {
        let parent = self
            .parents
            .iter()
            .find(|parent| link.parent == Some(parent.hash()))
            .ok_or(EvidenceFault::NotOneTicket)?;
        if !link.verifies(verifier) || link.follows(Some(parent.bottom())).is_err() {
            return Err(EvidenceFault::Invalid(link.hash()));
        }
        if !link.term.contains(self.at) {
            return Err(EvidenceFault::NotRunning(link.hash()));
        }
        Ok(())
    }
}
