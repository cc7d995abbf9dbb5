//! Sharing: how a broker lends another one what it has and has not sold, as long as both like.
//!
//! What is shared of a delegation is delegated on in *lots*, each for a term, renewed when half of that is over. More
//! units, once they are free, are a lot of their own. Fewer are recalled after a notice; what their holder has not
//! sold it gives back at once. The split is exact: the broker sells what it has not lent, the other what it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::delegating::{Delegated, Draft};
use super::rules::{Rules, Source};
use super::{Broker, Obligation, Output, Timer};
use crate::actor::{Emit as _, Role};
use crate::broker::facts::{LotOpened, SharingReviewed, SharingSet};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::time::{Span, Term, Time};
use crate::ticket::Ticket;
use crate::ticket::link::{AccountId, Generation};
use crate::wire::recall::Level;

/// What a broker shares with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// Of each type at most so many units; without a number, all.
    pub units: Option<u32>,
    /// How many free units of each type it keeps for its own guests.
    pub reserve: u32,
    /// The notice that their holder gets before units are recalled.
    pub notice: Span,
    /// For how long units are lent. It is renewed when half of that is over.
    pub term: Span,
}

impl Sharing {
    /// The notice unless another is set.
    pub const NOTICE: Span = Span::from_secs(600);

    /// The term unless another is set.
    pub const TERM: Span = Span::from_secs(3600);

    /// The shortest term: each renewal costs both brokers facts.
    pub const SHORTEST: Span = Span::MINUTE;

    /// The most brokers that one shares with.
    pub const MAX_COUNT: usize = 1_000;

    /// Whether it makes sense.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.term < Self::SHORTEST {
            return Err(format!("units are lent for {} at least", Self::SHORTEST));
        }
        if self.notice < Span::ZERO {
            return Err("a notice is no time in the past".to_owned());
        }
        Ok(())
    }
}

impl Default for Sharing {
    fn default() -> Self {
        Self { units: None, reserve: 0, notice: Self::NOTICE, term: Self::TERM }
    }
}

/// A delegation that was made because units are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Lot {
    /// Who has it.
    with: ActorId,
    /// What it was cut from.
    account: AccountId,
}

/// What is shared with whom, and the lots that have not ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sharings {
    rules: Rules<ActorId, Sharing>,
    lots: BTreeMap<u64, Lot>,
}

impl Sharings {
    /// What is shared with a broker.
    fn with(&self, broker: ActorId) -> Option<Sharing> {
        self.rules.of(broker).copied()
    }

    /// Everybody that something is, or was, shared with.
    pub(super) fn brokers(&self) -> BTreeSet<ActorId> {
        let shared = self.rules.keys().into_iter();
        shared.chain(self.lots.values().map(|lot| lot.with)).collect()
    }

    /// How many brokers something is, or was, shared with.
    pub(super) fn count(&self) -> usize {
        self.brokers().len()
    }

    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.lots.is_empty()
    }
}

/// How a lot stands.
struct Standing {
    ticket: Ticket,
    /// How many units of it did not come back.
    left: u32,
    /// How many of these are not recalled.
    stay: u32,
    recalled: bool,
    /// Whether its holder has yet to say that it has the newest generation.
    pending: bool,
}

/// What is shared with another broker, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingSurvey {
    /// The other broker.
    pub with: ActorId,
    /// What is shared; of what was shared once, nothing.
    pub sharing: Option<Sharing>,
    /// Who says so.
    pub by: Option<Source>,
    /// By type: how many units it has now, and how many of these are not recalled.
    pub lent: BTreeMap<Name, (u32, u32)>,
    /// When the last of it ends, unless it is renewed.
    pub until: Option<Time>,
}

impl Broker {
    /// The same broker, which shares so with others. A start puts in force what has changed.
    pub fn with_sharings(self, sharings: BTreeMap<ActorId, Sharing>) -> Self {
        Self { sharings, ..self }
    }

    /// What is shared with others, by their ids.
    pub fn sharings(&self, now: Time) -> Vec<SharingSurvey> {
        let all = self.state.sharings.brokers().into_iter();
        all.map(|with| self.sharing_with(now, with)).collect()
    }

    fn sharing_with(&self, now: Time, with: ActorId) -> SharingSurvey {
        let sharings = &self.state.sharings;
        let by = sharings.rules.source(with);
        let mut lent = BTreeMap::<Name, (u32, u32)>::new();
        let mut until = None;
        for lot in self.lots_of(with).filter(|lot| lot.ticket.bottom().term.end() > now) {
            let link = lot.ticket.bottom();
            let of_type = lent.entry(link.resource.clone()).or_default();
            (of_type.0, of_type.1) = (of_type.0 + lot.left, of_type.1 + lot.stay);
            until = until.max(Some(link.term.end()).filter(|_| lot.left > 0));
        }
        lent.retain(|_, units| units.0 > 0);
        SharingSurvey { with, sharing: sharings.with(with), by, lent, until }
    }

    /// What the configuration says of sharing is put in force.
    pub(super) fn configure_sharings(&mut self, now: Time, out: &mut Output) {
        for (with, sharing) in self.state.sharings.rules.outdated(&self.sharings) {
            self.emit(now, SharingSet { with, sharing, by: Source::Configuration }, out);
        }
    }

    /// An operator says what is shared with a broker.
    pub(super) fn share(
        &mut self,
        now: Time,
        with: ActorId,
        sharing: Sharing,
        out: &mut Output,
    ) -> Result<(), String> {
        if !self.base.is_known(with, Role::Broker) || with == self.base.id() {
            return Err("units are shared with a broker that is known here".to_owned());
        }
        sharing.check()?;
        let brokers = self.state.sharings.brokers();
        if !brokers.contains(&with) && brokers.len() >= Sharing::MAX_COUNT {
            return Err(format!("it shares with {} brokers already", Sharing::MAX_COUNT));
        }
        let fact = SharingSet { with, sharing: Some(sharing), by: Source::Operator };
        self.emit(now, fact, out);
        self.review_sharings(now, out);
        Ok(())
    }

    pub(super) fn sharing_set(&mut self, at: Time, fact: &SharingSet) {
        self.state.sharings.rules.put(fact.with, fact.sharing, fact.by);
        self.state.timers.set(Timer::Sharing, Some(at));
    }

    pub(super) fn lot_opened(&mut self, fact: &LotOpened) {
        let LotOpened { number, with, from } = *fact;
        let lot = Lot { with, account: AccountId::Delegation(from) };
        self.state.sharings.lots.insert(number, lot);
    }

    pub(super) fn lot_ended(&mut self, number: u64) {
        self.state.sharings.lots.remove(&number);
    }

    pub(super) fn sharing_reviewed(&mut self, fact: &SharingReviewed) {
        self.state.timers.set(Timer::Sharing, fact.next);
    }

    /// What is free has changed: what is shared is looked at soon.
    pub(super) fn call_for_sharing(&mut self, at: Time) {
        /// How soon: what comes free one after the other is shared together.
        const SOON: Span = Span::SECOND;
        if !self.state.sharings.is_empty() {
            let soon = at.plus(SOON);
            let next = self.state.timers.of(&Timer::Sharing).map_or(soon, |next| next.min(soon));
            self.state.timers.set(Timer::Sharing, Some(next));
        }
    }

    /// Lends what is free, renews what is lent, and recalls what is lent beyond what is shared.
    pub(super) fn review_sharings(&mut self, now: Time, out: &mut Output) {
        let mut next: Option<Time> = None;
        for with in self.state.sharings.brokers() {
            let known = self.base.is_known(with, Role::Broker) && self.sells();
            let sharing = self.state.sharings.with(with).filter(|_| known);
            let lent = self.lots_of(with).map(|lot| lot.ticket.bottom().resource.clone());
            let types: BTreeSet<Name> = lent.chain(self.state.totals.keys().cloned()).collect();
            for resource in types {
                self.review_sharing(now, (with, sharing), &resource, out);
            }
            let again = sharing.map(|sharing| now.plus(sharing.term.part(4)));
            next = next.into_iter().chain(again).min();
        }
        self.emit(now, SharingReviewed { next }, out);
    }

    fn review_sharing(
        &mut self,
        now: Time,
        (with, sharing): (ActorId, Option<Sharing>),
        resource: &Name,
        out: &mut Output,
    ) {
        let lots = self.lots_of(with).filter(|lot| lot.ticket.bottom().resource == *resource);
        let lots: Vec<Standing> =
            lots.filter(|lot| lot.ticket.bottom().term.end() > now && lot.left > 0).collect();
        let stay: u32 = lots.iter().map(|lot| lot.stay).sum();
        let most = sharing.map_or(0, |sharing| sharing.units.unwrap_or(u32::MAX));
        if stay > most {
            let notice = self.state.sharings.with(with).map_or(Sharing::NOTICE, |of| of.notice);
            self.call_back(now, &lots, (stay - most, notice), out);
        }
        let Some(sharing) = sharing else { return };
        // A lot that is recalled in part ends with its term, and the units that stay are lent anew.
        for lot in lots.iter().filter(|lot| lot.stay == lot.left && !lot.pending) {
            self.renew_lot(now, lot, sharing.term, out);
        }
        let regained = self.keep_lots(now, &lots, most.saturating_sub(stay), out);
        let room = most.saturating_sub(stay).saturating_sub(regained);
        self.open_lots(now, (with, sharing), (resource, room), out);
    }

    /// Recalls so many units, those of the youngest lots first.
    fn call_back(
        &mut self,
        now: Time,
        lots: &[Standing],
        (mut excess, notice): (u32, Span),
        out: &mut Output,
    ) {
        for lot in lots.iter().rev() {
            let part = lot.stay.min(excess);
            if part > 0 {
                let level = (Some(lot.stay - part), Some(now.plus(notice)));
                self.recall(now, lot.ticket.hash(), level, out);
            }
            excess -= part;
        }
    }

    /// Withdraws recalls of what may stay after all. Answers how many units that are.
    fn keep_lots(&mut self, now: Time, lots: &[Standing], room: u32, out: &mut Output) -> u32 {
        let mut kept = 0;
        for lot in lots.iter().filter(|lot| lot.recalled && lot.stay < lot.left) {
            let more = lot.left - lot.stay;
            if more <= room - kept {
                kept += more;
                self.recall(now, lot.ticket.hash(), (None, None), out);
            }
        }
        kept
    }

    /// The next generation of a lot, if half of its term is over.
    fn renew_lot(&mut self, now: Time, lot: &Standing, term: Span, out: &mut Output) {
        let link = lot.ticket.bottom();
        let (Some(account), Some(generation)) = (lot.ticket.account_above(), link.delegation)
        else {
            return;
        };
        let half_over = link.term.end() <= now.plus(term.part(2));
        let above = self.state.holdings.get(&account).map(|held| held.ticket.bottom().term.end());
        let longer = above.is_some_and(|above| link.term.end() < now.plus(term).min(above));
        let units = NonZeroU32::new(lot.left).filter(|_| half_over && longer);
        let Some(units) = units else { return };
        let draft = Draft {
            to: link.holder,
            generation: Generation { generation: generation.generation + 1, ..generation },
            units,
            start: link.term.start(),
            until: now.plus(term),
        };
        // What cannot be lent any longer ends.
        drop(self.issue(now, account, &draft, out));
    }

    /// Lends up to so many units more of what is free.
    fn open_lots(
        &mut self,
        now: Time,
        (with, sharing): (ActorId, Sharing),
        (resource, most): (&Name, u32),
        out: &mut Output,
    ) {
        let until = now.plus(sharing.term);
        let Ok(term) = Term::new(now, until) else { return };
        let accounts = self.index.accounts_of(resource);
        let free = accounts.map(|account| (account, self.lendable(now, account, with, term)));
        let free: Vec<(AccountId, u32)> = free.collect();
        let spare = free.iter().fold(0, |sum: u32, (_, units)| sum.saturating_add(*units));
        let mut room = most.min(spare.saturating_sub(sharing.reserve));
        for (account, units) in free {
            let Some(units) = NonZeroU32::new(units.min(room)) else { continue };
            let number = self.state.last_delegation + 1;
            let generation = Generation { delegation: number, generation: 0 };
            let draft = Draft { to: with, generation, units, start: now, until };
            let AccountId::Delegation(from) = account else { continue };
            if let Ok(fact) = self.draft(now, account, &draft) {
                self.emit(now, LotOpened { number, with, from }, out);
                self.emit(now, fact, out);
                room -= units.get();
            }
        }
    }

    /// How many units of a delegation can be lent to a broker for a term, or for as long as it lasts.
    fn lendable(&self, now: Time, account: AccountId, with: ActorId, term: Term) -> u32 {
        let Some(held) = self.state.holdings.get(&account) else { return 0 };
        let passed =
            held.ticket.links().iter().any(|link| [link.issuer, link.holder].contains(&with));
        let end = term.end().min(held.ticket.bottom().term.end());
        let start = term.start().max(held.ticket.bottom().term.start());
        let Ok(term) = Term::new(start, end) else { return 0 };
        let free = self.free_to_sell(account, now).map_or(0, |free| free.free_over(term));
        let free = u32::try_from(free).unwrap_or(0);
        if passed { 0 } else { free }
    }

    /// The lots of a broker, the oldest first.
    fn lots_of(&self, with: ActorId) -> impl Iterator<Item = Standing> {
        let lots = self.state.sharings.lots.iter().filter(move |(_, lot)| lot.with == with);
        lots.filter_map(|(&number, _)| self.standing(number, self.state.delegated.get(&number)?))
    }

    fn standing(&self, number: u64, delegated: &Delegated) -> Option<Standing> {
        let ticket = delegated.ticket.clone();
        let left = self.left_at_end(ticket.bottom());
        let recall = self.recall_of(ticket.hash()).map(|recall| recall.level);
        let stay = recall.map_or(left, |level: Level| left.min(level.units));
        let recalled = recall.is_some_and(|level| !level.leaves_all(ticket.bottom()));
        let pending = self.state.pending.requires(&Obligation::Delegate(number));
        Some(Standing { ticket, left, stay, recalled, pending })
    }
}
