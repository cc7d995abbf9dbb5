//! Ledgers: what was cut from a ticket, so that its children never exceed it at any instant (S2).
//!
//! The issuer of tickets keeps one over what it has cut; a site keeps one over every link it was ever
//! shown, its tree of claims. The same rule in both: a child is entered under its parent's account only
//! while the account covers it over the child's whole term.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use super::link::{AccountId, LinkHash, SignedLink};
use crate::calendar::Calendar;
use crate::planted::planted;
use crate::time::{Span, Term, Time};

/// How long the past is told apart. A ticket may start in the past, but no further back than this, so
/// that it can be checked against everything that ran beside it.
pub const REMEMBERED: Span = Span::DAY;

/// Accounts, and the links entered under them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Books")]
pub struct Ledger {
    accounts: BTreeMap<AccountId, Account>,
    #[serde(serialize_with = "without_keys")]
    entries: BTreeMap<LinkHash, Entry>,
    /// Entries by the end of their terms, so that those long over can be dropped.
    #[serde(skip_serializing)]
    by_end: BTreeSet<(Time, LinkHash)>,
}

/// A ledger as it is stored: an entry is found by the hash of its link, and has its place by the end of
/// its term.
#[derive(Deserialize)]
struct Books {
    accounts: BTreeMap<AccountId, Account>,
    entries: Vec<Entry>,
}

fn without_keys<S: Serializer>(
    entries: &BTreeMap<LinkHash, Entry>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(entries.values())
}

impl From<Books> for Ledger {
    fn from(Books { accounts, entries }: Books) -> Self {
        let by_end = entries.iter().map(|entry| (entry.link.term.end(), entry.link.hash()));
        let by_end = by_end.collect();
        let entries = entries.into_iter().map(|entry| (entry.link.hash(), entry)).collect();
        Self { accounts, entries, by_end }
    }
}

/// What one ticket can cover and what was cut from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The link itself; for a delegation its generations, newest last.
    heads: Vec<SignedLink>,
    free: Calendar,
    /// From when on `free` tells instants apart: the past before it is not looked at any more.
    since: Time,
    children: BTreeSet<LinkHash>,
}

/// A link entered under an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    link: SignedLink,
    account: AccountId,
    /// The part of the term that is still charged.
    charged: Option<Term>,
}

/// A child that its parent's account cannot cover, with the smallest set of links that shows it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{} links exceed their parent at {at}", .links.len())]
pub struct Overdrawn {
    /// The first instant at which the parent is exceeded.
    pub at: Time,
    /// The links, the new one among them, that together exceed the parent at that instant.
    pub links: Vec<SignedLink>,
}

impl Account {
    /// The link, or the newest generation of the delegation.
    pub fn head(&self) -> &SignedLink {
        &self.heads[self.heads.len() - 1]
    }

    /// Every generation that is still remembered, newest last.
    pub fn heads(&self) -> &[SignedLink] {
        &self.heads
    }

    /// Whether anything is entered under it.
    pub fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Lets go of the past, but for the newest head.
    fn forget_until(&mut self, past: Time) {
        self.free.forget_until(past);
        self.since = self.since.max(past);
        let newest = self.heads.last().map(SignedLink::hash);
        self.heads.retain(|head| head.term.end() > past || Some(head.hash()) == newest);
    }

    /// What is left to cut, over time.
    pub fn free(&self) -> &Calendar {
        &self.free
    }
}

impl Ledger {
    /// Opens the account of `link`, or takes it in as the next generation of a delegation that is
    /// already open: what it adds in units or time becomes free, what was cut stays charged. Answers by
    /// how much the level of the account changed, when.
    pub fn open(&mut self, link: &SignedLink) -> Vec<(Term, i64)> {
        let account = self.accounts.entry(link.account()).or_insert_with(|| Account {
            heads: Vec::new(),
            free: Calendar::new(),
            since: Time::MIN,
            children: BTreeSet::new(),
        });
        let mut changes = vec![(link.term, i64::from(link.units.get()))];
        if let Some(old) = account.heads.last() {
            if old.hash() == link.hash() {
                return Vec::new();
            }
            // What the old one covers before the new one begins stays as it was.
            let superseded = old.term.from(link.term.start());
            let superseded = superseded.filter(|_| !planted!(RenewalCountsTwice));
            changes.extend(superseded.map(|term| (term, -i64::from(old.units.get()))));
        }
        for &(term, units) in &changes {
            account.free.add(term, units);
        }
        account.heads.push(link.clone());
        changes
    }

    /// Forgets an account with everything that was entered under it, at any depth.
    pub fn close(&mut self, id: AccountId) {
        let mut closing = vec![id];
        while let Some(account) = closing.pop().and_then(|id| self.accounts.remove(&id)) {
            for hash in account.children {
                if let Some(entry) = self.entries.remove(&hash) {
                    self.by_end.remove(&(entry.link.term.end(), hash));
                }
                if self.accounts.contains_key(&AccountId::Link(hash)) {
                    closing.push(AccountId::Link(hash));
                }
            }
        }
    }

    /// The account under `id`.
    pub fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(&id)
    }

    /// All accounts in the order of their ids.
    pub fn accounts(&self) -> impl Iterator<Item = (AccountId, &Account)> {
        self.accounts.iter().map(|(&id, account)| (id, account))
    }

    /// The entered link of that name, and the account it is charged to.
    pub fn entered(&self, hash: LinkHash) -> Option<(AccountId, &SignedLink)> {
        self.entries.get(&hash).map(|entry| (entry.account, &entry.link))
    }

    /// Whether `child` can be entered under `parent`'s account; a link entered before always can.
    pub fn check(&self, parent: &SignedLink, child: &SignedLink) -> Result<(), Overdrawn> {
        if self.entries.contains_key(&child.hash()) {
            return Ok(());
        }
        let units = i64::from(child.units.get());
        let Some(account) = self.accounts.get(&parent.account()) else { return Ok(()) };
        let told_apart = child.term.from(account.since);
        match told_apart.and_then(|term| account.free.first_short(term, units)) {
            None => Ok(()),
            Some(at) => Err(self.overdrawn(account, child, at)),
        }
    }

    /// Enters `child` under `parent`'s account, which is opened if need be. The caller has checked it.
    pub fn enter(&mut self, parent: &SignedLink, child: &SignedLink, now: Time) {
        let id = parent.account();
        if self.entries.contains_key(&child.hash()) {
            return;
        }
        if !self.accounts.contains_key(&id) {
            self.open(parent);
        }
        let past = if planted!(LedgerForgetsToday) { now } else { now.minus(REMEMBERED) };
        self.drop_until(past);
        if let Some(account) = self.accounts.get_mut(&id) {
            account.forget_until(past);
            account.free.add(child.term, -i64::from(child.units.get()));
            account.children.insert(child.hash());
        }
        let entry = Entry { link: child.clone(), account: id, charged: Some(child.term) };
        self.entries.insert(child.hash(), entry);
        self.by_end.insert((child.term.end(), child.hash()));
    }

    /// Credits what is left of an entered link from `from` on, once; answers the part that came free.
    pub fn give_back(&mut self, hash: LinkHash, from: Time) -> Option<Term> {
        let entry = self.entries.get_mut(&hash)?;
        let charged = entry.charged?;
        let returned = charged.from(from)?;
        entry.charged = charged.until(from);
        let units = i64::from(entry.link.units.get());
        self.accounts.get_mut(&entry.account)?.free.add(returned, units);
        Some(returned)
    }

    /// Forgets the entries whose terms ended by `t`, and accounts that cover nothing any more.
    fn drop_until(&mut self, t: Time) {
        while let Some(&(end, hash)) = self.by_end.first() {
            if end > t {
                return;
            }
            self.by_end.pop_first();
            let Some(entry) = self.entries.remove(&hash) else { continue };
            if let Some(account) = self.accounts.get_mut(&entry.account) {
                account.children.remove(&hash);
            }
            self.accounts.remove(&AccountId::Link(hash));
        }
    }

    /// The smallest set of charged links, `child` among them, that exceeds the account at `at`.
    fn overdrawn(&self, account: &Account, child: &SignedLink, at: Time) -> Overdrawn {
        let covered = account.heads.iter().filter(|head| head.term.contains(at));
        let limit = covered.map(|head| u64::from(head.units.get())).max().unwrap_or(0);
        let mut others: Vec<&SignedLink> = account
            .children
            .iter()
            .filter_map(|hash| self.entries.get(hash))
            .filter(|entry| entry.charged.is_some_and(|charged| charged.contains(at)))
            .map(|entry| &entry.link)
            .collect();
        others.sort_by_key(|link| (std::cmp::Reverse(link.units), link.hash()));
        let mut links = vec![child.clone()];
        let mut total = u64::from(child.units.get());
        if planted!(EvidenceWithoutTheLast) {
            (links, total) = (Vec::new(), 0);
        }
        for link in others {
            if total > limit {
                break;
            }
            total += u64::from(link.units.get());
            links.push(link.clone());
        }
        Overdrawn { at, links }
    }
}
