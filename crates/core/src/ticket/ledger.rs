//! Ledgers: what was cut from a ticket, so that its children never exceed it at any instant (S2).
//!
//! The issuer of tickets keeps one over what it has cut; a site keeps one over every link it was ever
//! shown, its tree of claims. The same rule in both: a child is entered under its parent's account only
//! while the account covers it over the child's whole term.

mod delegated;
mod returned;
mod signed;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use imbl::OrdMap;
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use super::link::{AccountId, LinkHash, SignedLink};
use super::receipt::Return;
use super::running::Running;
use crate::model::calendar::Calendar;
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
pub(crate) use tokens::Tokens;
pub use tokens::{Token, TokenUse};

/// How long ledgers keep instants of the past apart. A ticket may start in the past, but no further back than
/// this, so that it can be checked against everything that ran beside it.
pub const LEDGER_RETENTION: Span = Span::DAY;

/// The most bytes of links that a site keeps beside those whose terms have not ended; see
/// `Ledger::forget_history`.
pub const MAX_HISTORY: usize = 1 << 24;

/// The most parts of one link that come back one after the other.
pub const MAX_RETURNS: usize = 1000;

/// The most steps of an account's calendar at a site before it lets go of the past.
pub const MAX_STEPS: usize = 100_000;

/// Accounts, and the links entered under them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Ledger {
    accounts: BTreeMap<AccountId, Account>,
    /// What is left to cut of each account, over time.
    levels: OrdMap<AccountId, Calendar>,
    #[serde(serialize_with = "without_keys")]
    entries: BTreeMap<LinkHash, Entry>,
    /// Entries by the end of their terms, so that those long over can be dropped.
    #[serde(skip_serializing)]
    by_end: BTreeSet<(Time, LinkHash)>,
    /// How many bytes the entered links take.
    #[serde(skip_serializing)]
    bytes: usize,
    /// The tokens that go with its entries.
    #[serde(skip_serializing)]
    tokens: Tokens,
}

/// A ledger as it is stored: an entry is found by the hash of its link, and has its place by the end of
/// its term.
#[derive(Deserialize)]
struct Stored {
    accounts: BTreeMap<AccountId, Account>,
    /// A tree of this kind takes no room ahead for as many levels as damaged bytes may announce.
    levels: BTreeMap<AccountId, Calendar>,
    entries: Vec<Entry>,
}

fn without_keys<S: Serializer>(
    entries: &BTreeMap<LinkHash, Entry>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(entries.values())
}

impl From<Stored> for Ledger {
    fn from(Stored { mut accounts, levels, entries }: Stored) -> Self {
        let mut tokens = Tokens::default();
        for entry in &entries {
            tokens.set(&entry.link, entry.charged);
            if let (Some(account), Some(term)) = (accounts.get_mut(&entry.account), entry.charged) {
                account.running.insert(term, entry.link.hash());
            }
        }
        let by_end = entries.iter().map(|entry| (entry.link.term.end(), entry.link.hash()));
        let (by_end, bytes) = (by_end.collect(), entries.iter().map(Entry::bytes).sum());
        let entries = entries.into_iter().map(|entry| (entry.link.hash(), entry)).collect();
        Self { accounts, levels: levels.into_iter().collect(), entries, by_end, bytes, tokens }
    }
}

/// What one ticket can cover and what was cut from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The link itself; for a delegation its generations, newest last.
    heads: Vec<SignedLink>,
    /// From when on its level tells instants apart: the past before it is not looked at any more.
    since: Time,
    children: BTreeSet<LinkHash>,
    /// What came back of each generation of a delegation.
    returned: BTreeMap<LinkHash, Vec<PartReturned>>,
    /// Of a delegation below another: the account that it was cut from.
    under: Option<AccountId>,
    /// How much it covers at most, and from when on: what a recall leaves of a delegation.
    limit: Option<(u32, Time)>,
    /// The children that are still charged, by the instants at which they are.
    #[serde(skip)]
    running: Running,
}

/// A link entered under an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    link: SignedLink,
    account: AccountId,
    /// What came back of it.
    returns: Vec<PartReturned>,
    /// The part of the term over which something of it is still charged.
    charged: Option<Term>,
}

/// A part of an entered link that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartReturned {
    /// Counts the returns of the link, from 0.
    pub number: u32,
    /// How many units.
    pub units: NonZeroU32,
    /// When they are not charged.
    pub term: Term,
}

impl From<&Return> for PartReturned {
    fn from(what: &Return) -> Self {
        Self { number: what.number, units: what.units, term: what.term }
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        self.link.as_bytes().len() + ENTRY_BYTES + self.returns.len() * RETURN_BYTES
    }

    /// How many units are charged at an instant of the term.
    fn charged_at(&self, t: Time) -> u32 {
        let back = self.returns.iter().filter(|back| back.term.contains(t));
        back.fold(self.link.units.get(), |left, back| left.saturating_sub(back.units.get()))
    }

    /// The parts of `term` over which the charge is the same, with the charge, in the order of time.
    fn steps(&self, term: Term) -> Vec<(Term, u32)> {
        let edges = self.returns.iter().flat_map(|back| [back.term.start(), back.term.end()]);
        let inside = edges.filter(|&edge| term.start() < edge && edge < term.end());
        let mut edges: Vec<Time> = inside.chain([term.start(), term.end()]).collect();
        edges.sort_unstable();
        edges.dedup();
        let parts = edges.windows(2).filter_map(|pair| Term::new(pair[0], pair[1]).ok());
        parts.map(|part| (part, self.charged_at(part.start()))).collect()
    }

    /// From the start of the term to the last instant at which something is charged.
    fn hull(&self) -> Option<Term> {
        let steps = self.steps(self.link.term);
        let (last, _) = steps.iter().rev().find(|(_, units)| *units > 0)?;
        Term::new(self.link.term.start(), last.end()).ok()
    }

    /// What is left from an instant on: units, each with the term over which they are charged; those that
    /// are charged the longest come first.
    fn left(&self, from: Time) -> Vec<(NonZeroU32, Term)> {
        let Some(rest) = self.charged.and_then(|term| term.from(from)) else { return Vec::new() };
        let (mut above, mut left) = (0, Vec::new());
        for (part, units) in self.steps(rest).into_iter().rev() {
            let more = NonZeroU32::new(units.saturating_sub(above));
            left.extend(more.zip(Term::new(rest.start(), part.end()).ok()));
            above = units.max(above);
        }
        left
    }
}

/// What an entry takes beside its link.
const ENTRY_BYTES: usize = 256;

/// What a return adds to it.
const RETURN_BYTES: usize = 24;

/// A child that its parent's account cannot cover, with the smallest set of links that shows it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{} links exceed their parent at {at}", .links.len())]
pub struct Overdrawn {
    /// The first instant at which the parent is exceeded.
    pub at: Time,
    /// The links, the new one among them, that together exceed the parent at that instant.
    pub links: Vec<SignedLink>,
    /// Whether they do exceed it: links whose terms have ended may have been forgotten.
    pub shown: bool,
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
        self.since = self.since.max(past);
        // The heads are in the order of their ends: where the first is to stay, so are all.
        if self.heads.first().is_some_and(|head| head.term.end() <= past) {
            let newest = self.heads.last().map(SignedLink::hash);
            self.heads.retain(|head| head.term.end() > past || Some(head.hash()) == newest);
            let heads = &self.heads;
            self.returned.retain(|hash, _| heads.iter().any(|head| head.hash() == *hash));
        }
    }
}

impl Ledger {
    /// Opens the account of `link`, or takes it in as the next generation of a delegation that is
    /// already open: what it adds in units or time becomes free, what was cut stays charged. Answers by
    /// how much the level of the account changed, when.
    pub fn open(&mut self, link: &SignedLink) -> Vec<(Term, i64)> {
        let account = self.accounts.entry(link.account()).or_insert_with(|| Account {
            heads: Vec::new(),
            since: Time::MIN,
            children: BTreeSet::new(),
            returned: BTreeMap::new(),
            under: None,
            limit: None,
            running: Running::default(),
        });
        let changes = account.take_head(link);
        let free = self.levels.entry(link.account()).or_default();
        for &(term, units) in &changes {
            free.add(term, units);
        }
        changes
    }

    /// Forgets an account with everything that was entered under it, at any depth.
    pub fn close(&mut self, id: AccountId) {
        let mut closing = vec![id];
        while let Some(id) = closing.pop() {
            let Some(account) = self.remove(id) else { continue };
            for hash in account.children {
                if let Some(entry) = self.entries.remove(&hash) {
                    self.bytes -= entry.bytes();
                    self.by_end.remove(&(entry.link.term.end(), hash));
                    self.tokens.set(&entry.link, None);
                    closing.push(entry.link.account());
                }
            }
        }
    }

    fn remove(&mut self, id: AccountId) -> Option<Account> {
        self.levels.remove(&id);
        self.accounts.remove(&id)
    }

    /// What is left to cut of an account, over time.
    pub fn free(&self, id: AccountId) -> Option<&Calendar> {
        self.levels.get(&id)
    }

    /// What is left to cut of the account of a link, which may be a generation that is not known yet.
    pub fn free_with(&self, link: &SignedLink) -> Option<Calendar> {
        let id = link.account();
        let (account, free) = self.accounts.get(&id).zip(self.levels.get(&id))?;
        let mut free = free.clone();
        if link.delegation.is_some() {
            let more = account.changes_with(link);
            more.into_iter().for_each(|(term, units)| free.add(term, units));
        }
        Some(free)
    }

    /// What is left to cut of each account, over time. Cheap to clone.
    pub(crate) fn levels(&self) -> &OrdMap<AccountId, Calendar> {
        &self.levels
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

    /// The entered tickets that are charged, each with the term it is charged for.
    pub(crate) fn charged(&self) -> impl Iterator<Item = (&SignedLink, Term, u32)> {
        let tickets = self.entries.values().filter(|entry| entry.link.delegation.is_none());
        tickets.flat_map(|entry| {
            let steps = entry.charged.map(|term| entry.steps(term)).unwrap_or_default();
            steps.into_iter().map(|(term, units)| (&entry.link, term, units))
        })
    }

    /// The links entered under an account, each with the part of its term that is still charged.
    pub fn children(&self, id: AccountId) -> impl Iterator<Item = (&SignedLink, Option<Term>)> {
        let children = self.accounts.get(&id).into_iter().flat_map(|account| &account.children);
        let entries = children.filter_map(|hash| self.entries.get(hash));
        entries.map(|entry| (&entry.link, entry.charged))
    }

    /// The links that are charged to an account at an instant.
    pub(crate) fn running_at(&self, id: AccountId, at: Time) -> impl Iterator<Item = &SignedLink> {
        let near = self.accounts.get(&id).into_iter().flat_map(move |a| a.running.near(at));
        let charged = near.filter_map(|hash| self.entries.get(&hash));
        charged
            .filter(move |entry| entry.charged.is_some_and(|charged| charged.contains(at)))
            .map(|entry| &entry.link)
    }

    /// Whether `child` can be entered under `parent`'s account; a link entered before always can.
    pub fn check(&self, parent: &SignedLink, child: &SignedLink) -> Result<(), Overdrawn> {
        if self.entries.contains_key(&child.hash()) {
            return Ok(());
        }
        let account = self.accounts.get(&parent.account());
        let Some((account, free)) = account.zip(self.free_with(parent)) else {
            return self.fits_what_is_out(parent, child);
        };
        let known = child.delegation.and_then(|_| self.accounts.get(&child.account()));
        let whole = || vec![(child.term, i64::from(child.units.get()))];
        let wanted = known.map_or_else(whole, |known| known.changes_with(child));
        let short = wanted
            .into_iter()
            .filter_map(|(term, units)| free.first_short(term.from(account.since)?, units));
        match short.min() {
            None => Ok(()),
            Some(at) => Err(self.overdrawn(account, parent, child, at)),
        }
    }

    /// Enters `child` under `parent`'s account, which is opened if need be. The caller has checked it.
    /// Answers by how much more the account is charged, when.
    pub fn enter(
        &mut self,
        parent: &SignedLink,
        child: &SignedLink,
        now: Time,
    ) -> Vec<(Term, i64)> {
        let id = parent.account();
        if self.entries.contains_key(&child.hash()) {
            return Vec::new();
        }
        if !self.accounts.contains_key(&id) {
            self.open(parent);
            self.levels.extend(self.out_of(parent).map(|out| (id, out)));
        }
        let past = if mutant!(LedgerForgetsToday) { now } else { now.minus(LEDGER_RETENTION) };
        self.drop_until(past);
        let charge = if child.delegation.is_some() {
            let changes = self.open(child);
            if let Some(account) = self.accounts.get_mut(&child.account()) {
                account.under = Some(id);
            }
            changes
        } else {
            vec![(child.term, i64::from(child.units.get()))]
        };
        if let Some(account) = self.accounts.get_mut(&id) {
            account.forget_until(past);
            account.children.insert(child.hash());
            account.running.insert(child.term, child.hash());
        }
        if let Some(free) = self.levels.get_mut(&id) {
            free.forget_until(past);
        }
        self.shift(Some(id), &charge, -1);
        self.tokens.set(child, Some(child.term));
        let (link, charged) = (child.clone(), Some(child.term));
        let entry = Entry { link, account: id, returns: Vec::new(), charged };
        self.bytes += entry.bytes();
        self.entries.insert(child.hash(), entry);
        self.by_end.insert((child.term.end(), child.hash()));
        charge
    }

    /// What came back of an entered link.
    pub fn returns_of(&self, hash: LinkHash) -> &[PartReturned] {
        self.entries.get(&hash).map_or(&[], |entry| &entry.returns)
    }

    /// How many units of an entered link are charged at an instant.
    pub fn charged_at(&self, hash: LinkHash, t: Time) -> u32 {
        let entry = self.entries.get(&hash).filter(|entry| entry.link.term.contains(t));
        entry.map_or(0, |entry| entry.charged_at(t))
    }

    /// Until when something of an entered link is charged.
    pub fn charged_until(&self, hash: LinkHash) -> Option<Time> {
        self.entries.get(&hash)?.charged.map(Term::end)
    }

    /// What is left of an entered link from an instant on: units, each with the term over which they are
    /// charged; those that are charged the longest come first.
    pub fn left_of(&self, hash: LinkHash, from: Time) -> Vec<(NonZeroU32, Term)> {
        self.entries.get(&hash).map(|entry| entry.left(from)).unwrap_or_default()
    }

    /// Whether a part of an entered link can come back: all of it is charged, and its number is new.
    pub fn can_return(&self, hash: LinkHash, part: &PartReturned) -> bool {
        let Some(entry) = self.entries.get(&hash) else { return false };
        if entry.link.delegation.is_some() {
            return self.can_retire(&entry.link, part);
        }
        let fits = entry.link.term.encloses(part.term)
            && entry.steps(part.term).iter().all(|(_, units)| *units >= part.units.get());
        entry.returns.len() < MAX_RETURNS
            && entry.returns.iter().all(|back| back.number != part.number)
            && fits
    }

    /// A part of an entered link comes back, from `from` on: its account can be charged for it again.
    /// Answers when it is free.
    pub fn give_back(&mut self, hash: LinkHash, part: PartReturned, from: Time) -> Option<Term> {
        let entry = self.entries.get_mut(&hash)?;
        let term = part.term.from(from)?;
        if entry.link.delegation.is_some() {
            let link = entry.link.clone();
            self.retire(&link, part, from);
            return Some(term);
        }
        let (before, bytes) = (entry.charged, entry.bytes());
        entry.returns.push(PartReturned { term, ..part });
        entry.charged = entry.hull();
        self.tokens.set(&entry.link, entry.charged);
        self.bytes = self.bytes - bytes + entry.bytes();
        let units = i64::from(part.units.get());
        self.levels.get_mut(&entry.account)?.add(term, units);
        let account = self.accounts.get_mut(&entry.account)?;
        if before != entry.charged {
            before.into_iter().for_each(|term| account.running.remove(term, hash));
            entry.charged.into_iter().for_each(|term| account.running.insert(term, hash));
        }
        // What came back of a ticket cannot be cut from it any more.
        if let Some(own) = self.levels.get_mut(&AccountId::Link(hash)) {
            own.add(term, -units);
        }
        Some(term)
    }

    /// Forgets what ended more than a day ago; sooner, the oldest first, what there is no room for. A site
    /// does so, since it is others who decide how much there is. The level of each account stays known
    /// for a day, so that a ticket that does not fit is refused, if not always with evidence.
    pub(crate) fn forget_history(&mut self, now: Time) {
        self.drop_until(if mutant!(LedgerForgetsToday) {
            now
        } else {
            now.minus(LEDGER_RETENTION)
        });
        while self.bytes > MAX_HISTORY && self.drop_first(now).is_some() {}
    }

    /// Drops the past of an account with too many steps.
    pub(crate) fn forget_steps(&mut self, id: AccountId, now: Time) {
        let Some(free) = self.levels.get_mut(&id).filter(|free| free.steps() > MAX_STEPS) else {
            return;
        };
        free.forget_until(now);
        if let Some(account) = self.accounts.get_mut(&id) {
            account.forget_until(now);
        }
    }

    /// Forgets the entries whose terms ended by `t`, and accounts that cover nothing any more.
    fn drop_until(&mut self, t: Time) {
        while let Some(account) = self.drop_first(t) {
            // A later generation of a delegation that is forgotten is entered as if it were the first, from the start
            // that it shares with those before it. What they were charged for until `t` must not count again.
            if let Some(account) = self.accounts.get_mut(&account) {
                account.since = account.since.max(t);
            }
        }
    }

    /// Forgets the entry whose term ended first, if it ended by `t`. Answers the account that it was charged to.
    fn drop_first(&mut self, t: Time) -> Option<AccountId> {
        let &(_, hash) = self.by_end.first().filter(|(end, _)| *end <= t)?;
        self.by_end.pop_first();
        let entry = self.entries.remove(&hash)?;
        self.bytes -= entry.bytes();
        self.tokens.set(&entry.link, None);
        if let Some(account) = self.accounts.get_mut(&entry.account) {
            account.children.remove(&hash);
            if let Some(term) = entry.charged {
                account.running.remove(term, hash);
            }
        }
        let account = entry.link.account();
        // All generations of a delegation have gone once the longest has.
        if self.accounts.get(&account).is_some_and(|known| known.head().hash() == hash) {
            self.remove(account);
        }
        Some(entry.account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::identity::{Scheme, Signer};
    use crate::model::name::Name;
    use crate::model::resource::{Constraints, Expr};
    use crate::ticket::link::{Clauses, Generation, Link};

    fn hours(start: i64, end: i64) -> Term {
        let hour = |n| Time::ZERO.plus(Span::HOUR.times(n));
        Term::new(hour(start), hour(end)).unwrap()
    }

    /// Constraints of about so many thousand bytes.
    fn padding(kilobytes: usize) -> Constraints {
        let padding = |n| Expr::parse(&format!("p{n} = \"{}\"", "x".repeat(990))).unwrap();
        (0..kilobytes).map(padding).collect()
    }

    fn link(units: u32, term: Term, serial: u64, constraints: &Constraints) -> SignedLink {
        let signer = Signer::from_seed(Scheme::None, [7; 32]);
        let constraints = constraints.clone();
        let (issuer, units) = (signer.id(), units.try_into().unwrap());
        let link = Link {
            parent: None,
            issuer,
            holder: issuer,
            resource: Name::literal("node"),
            units,
            term,
            constraints,
            clauses: Clauses::NONE,
            delegation: Some(Generation { delegation: serial, generation: 0 }),
            extends: None,
            serial,
        };
        SignedLink::sign(link, &signer)
    }

    /// A ledger with 1,100 children of a unit each, which fill their parent for an hour and are too long to be
    /// kept all.
    fn long_children() -> (Ledger, SignedLink) {
        let parent = link(1100, hours(0, 20), 0, &Constraints::NONE);
        let (mut ledger, padding) = (Ledger::default(), padding(16));
        ledger.open(&parent);
        for serial in 1..=1100 {
            ledger.enter(&parent, &link(1, hours(0, 1), serial, &padding), Time::ZERO);
        }
        (ledger, parent)
    }

    #[test]
    fn of_what_is_over_no_more_is_kept_than_there_is_room_for() {
        let (mut ledger, _) = long_children();
        assert!(ledger.bytes > MAX_HISTORY);
        ledger.forget_history(hours(0, 1).start());
        assert_eq!(ledger.entries.len(), 1100, "what is not over stays");
        ledger.forget_history(hours(0, 1).end());
        assert!(ledger.bytes <= MAX_HISTORY && ledger.entries.len() > 500);
        let copy: Ledger =
            crate::model::codec::decode_state(&crate::model::codec::encode(&ledger)).unwrap();
        assert_eq!(copy, ledger);
    }

    #[test]
    fn what_does_not_fit_beside_forgotten_links_is_refused_without_evidence() {
        let (mut ledger, parent) = long_children();
        let more = link(1, hours(0, 3), 2000, &Constraints::NONE);
        assert!(ledger.check(&parent, &more).unwrap_err().shown);
        ledger.forget_history(hours(0, 1).end());
        assert!(!ledger.check(&parent, &more).unwrap_err().shown);
    }

    #[test]
    fn a_delegation_that_was_not_used_for_days_is_used_again() {
        let parent = link(4, hours(0, 200), 0, &Constraints::NONE);
        let signer = Signer::from_seed(Scheme::None, [7; 32]);
        let generation = |generation: u32, end| {
            let first = link(4, hours(0, end), 1, &Constraints::NONE);
            let delegation = Some(Generation { delegation: 1, generation });
            SignedLink::sign(Link { delegation, ..Link::clone(&first) }, &signer)
        };
        let mut ledger = Ledger::default();
        ledger.open(&parent);
        ledger.enter(&parent, &generation(0, 2), Time::ZERO);
        let later = hours(0, 50).end();
        ledger.forget_history(later);
        assert_eq!(ledger.check(&parent, &generation(9, 52)), Ok(()));
    }

    #[test]
    fn an_account_with_too_many_steps_lets_go_of_the_past() {
        let parent = link(1, hours(0, 20), 0, &Constraints::NONE);
        let mut ledger = Ledger::default();
        ledger.open(&parent);
        let free = ledger.levels.get_mut(&parent.account()).unwrap();
        for n in 0..60_000 {
            let start = Time::from_micros(4 * n);
            free.add(Term::lasting(start, Span::from_micros(2)).unwrap(), -1);
        }
        let now = hours(0, 1).end();
        ledger.forget_steps(parent.account(), now);
        let free = ledger.free(parent.account()).unwrap();
        assert!(free.steps() < 3);
        assert_eq!(free.free_at(now), 1);
    }
}
