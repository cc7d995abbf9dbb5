//! Lenders: brokers that have lent this one units, and what of these it does not sell while a lender is silent.

use std::collections::BTreeSet;
use std::ops::Bound;

use imbl::OrdMap;

use super::Broker;
use super::allocation::Drafts;
use super::forwarding::Liveness;
use crate::actor::Role;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::time::Time;
use crate::ticket::link::{AccountId, DelegationId};

/// A broker that has lent units, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LenderSurvey {
    /// The lender.
    pub lender: ActorId,
    /// Whether it was heard of late.
    pub liveness: Liveness,
    /// Whether nothing of its units is sold until it is heard.
    pub paused: bool,
}

impl Broker {
    /// The same broker, which may sell nothing that a broker has lent while that one is not live.
    pub fn with_pauses(self, pauses: bool) -> Self {
        Self { pauses, ..self }
    }

    /// The brokers that have lent it units, by their ids.
    pub fn lenders(&self, now: Time) -> Vec<LenderSurvey> {
        let survey = |lender| LenderSurvey {
            lender,
            liveness: self.liveness_of(lender, now),
            paused: self.is_paused(lender, now),
        };
        self.borrows_from().into_iter().map(survey).collect()
    }

    /// The known brokers that have lent it units.
    pub(super) fn borrows_from(&self) -> BTreeSet<ActorId> {
        let (mut lenders, mut from) = (BTreeSet::new(), None);
        // From the first holding of an issuer to the first of the next one.
        while let Some(issuer) = self.issuer_after(from) {
            if self.base.is_known(issuer, Role::Broker) {
                lenders.insert(issuer);
            }
            from = Some(issuer);
        }
        lenders
    }

    /// The issuer of delegations that it holds that comes next after this one.
    fn issuer_after(&self, before: Option<ActorId>) -> Option<ActorId> {
        let last = |issuer| AccountId::Delegation(DelegationId { issuer, number: u64::MAX });
        let from = before.map_or(Bound::Unbounded, |issuer| Bound::Excluded(last(issuer)));
        let (account, _) = self.state.holdings.range((from, Bound::Unbounded)).next()?;
        match account {
            AccountId::Delegation(delegation) => Some(delegation.issuer),
            AccountId::Link(_) => None,
        }
    }

    pub(super) fn has_units_of(&self, lender: ActorId) -> bool {
        self.borrowed_from(lender).next().is_some()
    }

    fn borrowed_from(&self, issuer: ActorId) -> impl Iterator<Item = AccountId> {
        let account = |number| AccountId::Delegation(DelegationId { issuer, number });
        let all = self.state.holdings.range(account(0)..=account(u64::MAX));
        all.map(|(account, _)| *account)
    }

    fn is_paused(&self, lender: ActorId, now: Time) -> bool {
        let own = self.base.is_known(lender, Role::SiteAuthority);
        self.pauses && !own && self.liveness_of(lender, now) != Liveness::Live
    }

    /// What is not sold now, as its lender is not heard.
    fn paused(&self, now: Time) -> impl Iterator<Item = AccountId> {
        let lenders = if self.pauses { self.borrows_from() } else { BTreeSet::new() };
        let silent = lenders.into_iter().filter(move |lender| self.is_paused(*lender, now));
        silent.flat_map(|lender| self.borrowed_from(lender))
    }

    /// What a decision begins with: of what is not sold now, nothing is free.
    pub(super) fn drafts(&self, now: Time) -> Drafts {
        self.paused(now).map(|account| (account, Calendar::new())).collect()
    }

    /// What can be sold of all holdings.
    pub(super) fn all_free_to_sell(&self, now: Time) -> OrdMap<AccountId, Calendar> {
        let mut free = self.state.ledger.levels().clone();
        free.extend(self.drafts(now));
        free
    }

    /// What can be sold of a holding, if there is that holding and it is sold now.
    pub(super) fn free_to_sell(&self, account: AccountId, now: Time) -> Option<&Calendar> {
        let paused = match account {
            AccountId::Delegation(DelegationId { issuer, .. }) => self.is_paused(issuer, now),
            AccountId::Link(_) => false,
        };
        self.state.ledger.free(account).filter(|_| !paused)
    }
}
