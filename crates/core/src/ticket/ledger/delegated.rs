//! Delegations in a ledger: all generations of one are charged to their parent once.
//!
//! What a delegation covers at an instant is the most that one of its generations has left then; its
//! parent is charged for the same. So the order in which generations become known decides nothing, and
//! what was cut under an earlier one stays covered. What comes back of a generation came back of all
//! before it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::{Account, Entry, Ledger, Overdrawn, PartReturned};
use crate::model::time::{Term, Time};
use crate::mutants::mutant;
use crate::ticket::Ticket;
use crate::ticket::link::{AccountId, LinkHash, SignedLink};

/// A level over time: from each instant on, until the next.
type Steps = BTreeMap<Time, i64>;

/// What decides how much a delegation covers: as many generations as there were changes of units, however often it was
/// renewed.
struct Standing<'a> {
    /// The generations that cover more than any later one, somewhere.
    heads: Vec<&'a SignedLink>,
    /// What came back, with the generation that it came back of.
    returned: Vec<(&'a SignedLink, &'a [PartReturned])>,
}

impl Standing<'_> {
    fn most_at(&self, t: Time) -> i64 {
        self.heads.iter().map(|head| self.left_at(head, t)).max().unwrap_or(0)
    }

    /// What a generation has left at an instant: what came back of a later one came back of it too, while a
    /// later one is for what its issuer knew to be left.
    fn left_at(&self, head: &SignedLink, t: Time) -> i64 {
        if !head.term.contains(t) {
            return 0;
        }
        let later = self.returned.iter().filter(|(other, _)| {
            number(other) >= number(head) && !mutant!(ReturnOfOneGeneration)
                || other.hash() == head.hash()
        });
        let back = later.flat_map(|(_, back)| *back).filter(|back| back.term.contains(t));
        back.fold(i64::from(head.units.get()), |left, back| left - i64::from(back.units.get()))
            .max(0)
    }
}

/// The number of a generation.
fn number(link: &SignedLink) -> Option<u32> {
    link.delegation.map(|generation| generation.generation)
}

/// Whether a generation covers as much as another one at every instant, whatever comes back.
fn outdoes(one: &SignedLink, other: &SignedLink) -> bool {
    number(one) >= number(other)
        && one.term.encloses(other.term)
        && one.units >= other.units
        && !mutant!(ReturnOfOneGeneration)
}

impl Account {
    /// What it covers at an instant, whatever was cut from it.
    pub fn covers_at(&self, t: Time) -> i64 {
        self.limited(t, self.standing(None).most_at(t))
    }

    /// No more than its limit.
    fn limited(&self, t: Time, level: i64) -> i64 {
        let limit = self.limit.filter(|&(_, from)| from <= t);
        limit.map_or(level, |(units, _)| level.min(i64::from(units)))
    }

    /// The most that it covers from an instant on.
    pub fn most_from(&self, t: Time) -> i64 {
        let later = self.steps(None);
        let later = later.range(t..).map(|(_, &level)| level);
        later.chain([self.covers_at(t)]).max().unwrap_or(0)
    }

    /// The account of its parent, if it was cut from one.
    pub fn under(&self) -> Option<AccountId> {
        self.under
    }

    /// The generations of a delegation, or the link itself.
    pub(super) fn generations(&self) -> &[SignedLink] {
        &self.heads
    }

    /// Adds a generation. Returns by how much what it covers changes, and when.
    pub(super) fn take_head(&mut self, link: &SignedLink) -> Vec<(Term, i64)> {
        if self.is_head(link) {
            return Vec::new();
        }
        let changes = self.changes_with(link);
        let key = |head: &SignedLink| (head.term.end(), head.delegation.map(|g| g.generation));
        let place = self.heads.partition_point(|head| key(head) <= key(link));
        self.heads.insert(place, link.clone());
        changes
    }

    fn is_head(&self, link: &SignedLink) -> bool {
        self.heads.iter().any(|head| head.hash() == link.hash())
    }

    /// By how much what it covers would change with another generation, when.
    pub(super) fn changes_with(&self, link: &SignedLink) -> Vec<(Term, i64)> {
        if self.is_head(link) {
            return Vec::new();
        }
        if mutant!(RenewalCountsTwice) {
            return vec![(link.term, i64::from(link.units.get()))];
        }
        difference(&self.steps(None), &self.steps(Some(link)))
    }

    /// The generation that covers the most at an instant.
    pub(super) fn best_at(&self, t: Time) -> Option<LinkHash> {
        let standing = self.standing(None);
        let running = standing.heads.iter().filter(|head| standing.left_at(head, t) > 0);
        running.max_by_key(|head| standing.left_at(head, t)).map(|head| head.hash())
    }

    /// What counts of its generations, with another one.
    fn standing<'a>(&'a self, more: Option<&'a SignedLink>) -> Standing<'a> {
        let mut heads: Vec<&SignedLink> = more.into_iter().collect();
        // One that outdoes another is behind it, for it ends no earlier.
        for head in self.heads.iter().rev() {
            if !heads.iter().any(|other| outdoes(other, head)) {
                heads.push(head);
            }
        }
        heads.reverse();
        let returned = self.heads.iter().filter(|_| !self.returned.is_empty());
        let returned = returned.filter_map(|head| {
            let back = self.returned.get(&head.hash())?;
            Some((head, back.as_slice()))
        });
        Standing { heads, returned: returned.collect() }
    }

    /// What it covers over time, with another generation.
    fn steps(&self, more: Option<&SignedLink>) -> Steps {
        let standing = self.standing(more);
        let terms = standing.heads.iter().map(|head| head.term);
        let terms = terms.chain(self.returned.values().flatten().map(|back| back.term));
        let edges = terms.flat_map(|term| [term.start(), term.end()]);
        let edges: BTreeSet<Time> = edges.chain(self.limit.map(|(_, from)| from)).collect();
        let level = |t| (t, self.limited(t, standing.most_at(t)));
        edges.into_iter().map(level).collect()
    }
}

/// Where two levels differ, and by how much.
fn difference(before: &Steps, after: &Steps) -> Vec<(Term, i64)> {
    let edges: BTreeSet<Time> = before.keys().chain(after.keys()).copied().collect();
    let edges: Vec<Time> = edges.into_iter().collect();
    let at = |steps: &Steps, t| steps.range(..=t).next_back().map_or(0, |(_, &level)| level);
    let mut changes: Vec<(Term, i64)> = Vec::new();
    for pair in edges.windows(2) {
        let Ok(term) = Term::new(pair[0], pair[1]) else { continue };
        let change = at(after, pair[0]) - at(before, pair[0]);
        let joined = changes.last().filter(|(last, by)| last.end() == pair[0] && *by == change);
        match joined.and_then(|(last, _)| Term::new(last.start(), pair[1]).ok()) {
            Some(longer) => {
                changes.pop();
                changes.push((longer, change));
            }
            None if change != 0 => changes.push((term, change)),
            None => {}
        }
    }
    changes
}

impl Ledger {
    /// The account that an account was cut from.
    pub(super) fn under(&self, id: AccountId) -> Option<AccountId> {
        match id {
            AccountId::Delegation(_) => self.accounts.get(&id)?.under,
            AccountId::Link(hash) => Some(self.entries.get(&hash)?.account),
        }
    }

    /// The chain of a generation of a delegation, root first.
    pub fn chain(&self, generation: &SignedLink) -> Option<Ticket> {
        let (mut links, mut id) = (vec![generation.clone()], generation.account());
        while let Some(parent) = links.last().and_then(|link| link.parent) {
            id = self.under(id)?;
            let heads = self.accounts.get(&id)?.heads();
            links.push(heads.iter().find(|head| head.hash() == parent)?.clone());
        }
        links.reverse();
        Ticket::try_from(links).ok()
    }

    /// The link of that name, if it was entered or heads an account from `near` up.
    pub fn find(&self, near: AccountId, hash: LinkHash) -> Option<&SignedLink> {
        if let Some((_, link)) = self.entered(hash) {
            return Some(link);
        }
        let mut at = Some(near);
        while let Some(id) = at {
            let heads = self.accounts.get(&id).map(Account::heads).unwrap_or_default();
            if let Some(head) = heads.iter().find(|head| head.hash() == hash) {
                return Some(head);
            }
            at = self.under(id);
        }
        None
    }

    /// The generation known of a delegation that has another holder, or another parent, than this one
    /// names: its issuer has given one number to two delegations.
    pub fn contradicted(&self, parent: &SignedLink, child: &SignedLink) -> Option<&SignedLink> {
        child.delegation?;
        let account = self.accounts.get(&child.account())?;
        let same = account.head().holder == child.holder && account.under == Some(parent.account());
        (!same).then(|| account.head())
    }

    /// What came back of a generation of a delegation.
    pub fn returns_of_delegation(&self, link: &SignedLink) -> &[PartReturned] {
        let account = self.accounts.get(&link.account());
        account.and_then(|account| account.returned.get(&link.hash())).map_or(&[], Vec::as_slice)
    }

    /// What is left of a generation of a delegation from an instant on, as
    /// [`left_of`](Self::left_of) says it.
    pub fn left_of_delegation(&self, link: &SignedLink, from: Time) -> Vec<(NonZeroU32, Term)> {
        let returns = self.returns_of_delegation(link).to_vec();
        let mut entry =
            Entry { link: link.clone(), account: link.account(), returns, charged: None };
        entry.charged = entry.hull();
        entry.left(from)
    }

    /// Whether a part of a generation can come back: it has so much left, and the number is new.
    pub fn can_retire(&self, link: &SignedLink, part: &PartReturned) -> bool {
        let returns = self.returns_of_delegation(link);
        let left = self.left_of_delegation(link, part.term.start());
        let enough = left.iter().filter(|(_, term)| term.end() >= part.term.end());
        let enough: u64 = enough.map(|(units, _)| u64::from(units.get())).sum();
        link.term.encloses(part.term)
            && returns.len() < super::MAX_RETURNS
            && returns.iter().all(|back| back.number != part.number)
            && enough >= u64::from(part.units.get())
    }

    /// A part of a generation of a delegation comes back, from `from` on. Answers by how much what the
    /// delegation covers changes, when; its parent is charged for as much less.
    pub fn retire(
        &mut self,
        link: &SignedLink,
        part: PartReturned,
        from: Time,
    ) -> Vec<(Term, i64)> {
        let Some(term) = part.term.from(from) else { return Vec::new() };
        let part = PartReturned { term, ..part };
        self.reconsider(link, |returned| returned.push(part))
    }

    /// A part that was about to come back does not.
    pub fn restore(&mut self, link: &SignedLink, number: u32) -> Vec<(Term, i64)> {
        self.reconsider(link, |returned| returned.retain(|back| back.number != number))
    }

    /// A delegation covers at most so much from an instant on, whatever its generations say. Answers by how
    /// much what it covers changes, when.
    pub fn limit(&mut self, id: AccountId, limit: Option<(u32, Time)>) -> Vec<(Term, i64)> {
        let Some(account) = self.accounts.get_mut(&id) else { return Vec::new() };
        let before = account.steps(None);
        account.limit = limit;
        let (changes, under) = (difference(&before, &account.steps(None)), account.under);
        self.shift(Some(id), &changes, 1);
        self.shift(under, &changes, -1);
        changes
    }

    /// How much of an account is not cut over all of a term, whatever a recall leaves of it.
    pub fn uncut_over(&self, id: AccountId, term: Term) -> i64 {
        let (Some(account), Some(free)) = (self.accounts.get(&id), self.levels.get(&id)) else {
            return 0;
        };
        if account.limit.is_none() {
            return free.free_over(term);
        }
        let whole = Account { limit: None, ..account.clone() };
        let mut free = free.clone();
        for (term, units) in difference(&account.steps(None), &whole.steps(None)) {
            free.add(term, units);
        }
        free.free_over(term)
    }

    fn reconsider(
        &mut self,
        link: &SignedLink,
        change: impl FnOnce(&mut Vec<PartReturned>),
    ) -> Vec<(Term, i64)> {
        let Some(account) = self.accounts.get_mut(&link.account()) else { return Vec::new() };
        let before = account.steps(None);
        change(account.returned.entry(link.hash()).or_default());
        let (changes, under) = (difference(&before, &account.steps(None)), account.under);
        self.shift(Some(link.account()), &changes, 1);
        self.shift(under, &changes, -1);
        changes
    }

    /// Changes the level of an account.
    pub(super) fn shift(&mut self, id: Option<AccountId>, changes: &[(Term, i64)], sign: i64) {
        if let Some(level) = id.and_then(|id| self.levels.get_mut(&id)) {
            changes.iter().for_each(|&(term, units)| level.add(term, units * sign));
        }
    }

    /// The smallest set of charged links, `child` among them, that exceeds the account at `at`.
    pub(super) fn overdrawn(
        &self,
        account: &Account,
        parent: &SignedLink,
        child: &SignedLink,
        at: Time,
    ) -> Overdrawn {
        let heads = account.heads.iter().chain([parent]);
        let covered = heads.filter(|head| head.term.contains(at));
        let limit = covered.map(|head| u64::from(head.units.get())).max().unwrap_or(0);
        let mut others: Vec<(u32, &SignedLink)> = account
            .running
            .near(at)
            .filter_map(|hash| self.entries.get(&hash))
            .filter(|entry| entry.link.term.contains(at))
            .filter(|entry| child.delegation.is_none() || entry.link.account() != child.account())
            .map(|entry| (self.charge_of(entry, at), &entry.link))
            .filter(|(units, _)| *units > 0)
            .collect();
        others.sort_by_key(|(units, link)| (std::cmp::Reverse(*units), link.hash()));
        let mut links = vec![child.clone()];
        let mut total = u64::from(child.units.get());
        let all = others.iter().map(|(units, _)| u64::from(*units)).sum::<u64>() + total;
        if mutant!(EvidenceWithoutTheLast) {
            (links, total) = (Vec::new(), 0);
        }
        for (units, link) in others {
            if total > limit {
                break;
            }
            total += u64::from(units);
            links.push(link.clone());
        }
        Overdrawn { at, links, shown: all > limit }
    }

    /// What an entry is charged at an instant. Of the generations of a delegation one stands for all.
    fn charge_of(&self, entry: &Entry, at: Time) -> u32 {
        let hash = entry.link.hash();
        let known = entry.link.delegation.and_then(|_| self.accounts.get(&entry.link.account()));
        match known {
            None => entry.charged_at(at),
            Some(known) if known.best_at(at) == Some(hash) => {
                u32::try_from(known.covers_at(at)).unwrap_or(u32::MAX)
            }
            Some(_) => 0,
        }
    }
}
