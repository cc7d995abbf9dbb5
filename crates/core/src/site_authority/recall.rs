//! Recalls at a site: an issuer takes back what it handed on.
//!
//! A recall says how many units of a link stay, from an instant on. Rights that nobody has claimed go first;
//! a lease loses units only if its own link carries a notice, which counts from the fact that records the
//! recall.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::apply::missing;
use super::returns::{MAX_RECEIPTS, Parts, take};
use super::{Cause, Lease, Obligation, Returns, Rights, SiteAuthority, Timer};
use crate::actor::Emit as _;
use crate::actor::fact::BadFact;
use crate::driver::UnitId;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::site_authority::Output;
use crate::site_authority::facts::{
    LeaseClosed, LeaseCut, RecallNoted, Recalled, RightsRecalled, UnitsRecalled,
};
use crate::site_authority::machine::{CloseReason, Event, State};
use crate::site_authority::unit;
use crate::ticket::Ticket;
use crate::ticket::link::{LinkHash, SignedLink};
use crate::ticket::receipt::Receipt;
use crate::wire::message::{Message, Subject};
use crate::wire::part::surplus;
use crate::wire::recall::{Level, Notice};
use crate::wire::refusal::Refusal;

/// The recall of a link with the highest number so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Recall {
    /// The ticket, and what recalls of it brought back, by the order in which they did.
    rights: Rights,
    level: Level,
    /// When it was recorded.
    told: Time,
    /// When it takes rights that nobody has claimed, if it is yet to do so.
    due: Option<Time>,
    /// The leases of which it is yet to take units.
    open: BTreeSet<LinkHash>,
    /// When it takes the last.
    at: Time,
    /// The fact behind its present answer.
    cause: Cause,
}

/// What a recall leaves a lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cut {
    pub(super) number: u32,
    pub(super) units: u32,
    pub(super) at: Time,
    pub(super) victims: Vec<UnitId>,
    /// Whether its units were taken.
    pub(super) done: bool,
    /// The fact behind what its holder is told.
    cause: Cause,
}

impl Recall {
    fn is_enforced(&self) -> bool {
        self.due.is_none() && self.open.is_empty()
    }

    fn link(&self) -> &SignedLink {
        self.rights.ticket.bottom()
    }

    /// Whether it leaves fewer units than these at some instant before `end`.
    fn binds(&self, units: NonZeroU32, end: Time) -> bool {
        self.level.units < units.get()
            && self.level.units < self.link().units.get()
            && self.level.from < end
    }

    fn refusal(&self) -> Refusal {
        Refusal::Recalled { units: self.level.units, from: self.level.from }
    }
}

impl Lease {
    /// What the next recall takes of it, and the link that is recalled. While its units are set up it loses
    /// none, unless those that stay are too few for its guest.
    pub(super) fn next_cut(&self) -> Option<(LinkHash, &Cut)> {
        let open = self.cuts.iter().filter(|(_, cut)| match self.state {
            State::Early | State::Due | State::Active { .. } => !cut.done,
            State::Priming { .. } => !cut.done && cut.units < self.min_units.get(),
            State::Closed { .. } => false,
        });
        open.map(|(&link, cut)| (link, cut)).min_by_key(|(_, cut)| cut.at)
    }
}

impl SiteAuthority {
    pub(super) fn recall(
        &mut self,
        now: Time,
        from: ActorId,
        ticket: &Ticket,
        level: Level,
        out: &mut Output,
    ) {
        let hash = ticket.hash();
        if let Err(refusal) = self.check_recall(now, from, ticket, level) {
            let (subject, offers) = (Subject::Recall(hash, level.number), Vec::new());
            let message = Message::Refused { subject, refusal, offers };
            return out.replies.push(self.base.volatile(from, now, message));
        }
        let known = self.state.recalls.get(&hash).map(|recall| recall.level.number);
        if known.is_none_or(|known| known < level.number) {
            let ticket = self.base.credentials.share(ticket.clone());
            let cuts = self.cuts_of(now, &ticket, level);
            self.emit(now, Recalled { ticket, level, cuts }, out);
            let due = self.state.recalls.get(&hash).and_then(|recall| recall.due);
            if due.is_some_and(|due| due <= now) {
                return self.recall_rights(now, hash, out);
            }
        }
        self.answer_recall(hash, out);
    }

    /// Whether a ticket is recalled by whom may do so, and there is room to remember it.
    fn check_recall(
        &mut self,
        now: Time,
        from: ActorId,
        ticket: &Ticket,
        level: Level,
    ) -> Result<(), Refusal> {
        let (link, me) = (ticket.bottom(), self.base.id());
        if link.issuer != from && !mutant!(RecalledByAnybody) {
            return Err(Refusal::Forbidden);
        }
        self.base.credentials.check_ticket(ticket, me, link.holder)?;
        if let Some(recall) = self.state.recalls.get(&link.hash()) {
            let signed = recall.rights.returns.values().map(|(_, receipts)| receipts.len());
            if recall.level.number < level.number && signed.sum::<usize>() >= MAX_RECEIPTS {
                let cause = "it was recalled too often".to_owned();
                return Err(Refusal::Malformed(cause));
            }
            return Ok(());
        }
        if link.term.end() <= now {
            return Err(Refusal::TooLate(link.term.end()));
        }
        if link.delegation.is_some() {
            let cause = "a delegation is recalled by what is cut from it".to_owned();
            return Err(Refusal::Malformed(cause));
        }
        if !self.state.by_ticket.contains_key(&link.hash()) {
            if let Some(refusal) = self.not_covered(ticket, false) {
                return Err(refusal);
            }
            self.state.charges.admit(&self.limits, ticket, &Properties::default())?;
        }
        Ok(())
    }

    /// What a recall takes of leases, and when.
    fn cuts_of(&self, now: Time, ticket: &Ticket, level: Level) -> Vec<LeaseCut> {
        let link = ticket.bottom();
        if link.units.get() <= level.units {
            return Vec::new();
        }
        if let Some(&hash) = self.state.by_ticket.get(&ticket.hash()) {
            let lease = self.state.leases.get(&hash).filter(|lease| lease.wanted > level.units);
            let at = lease.and_then(|lease| takes_at(lease, link, now, level.from));
            return at
                .map(|at| LeaseCut { lease: hash, units: level.units, at })
                .into_iter()
                .collect();
        }
        let account = link.account();
        let above = |lease: &Lease| {
            let links = lease.tickets[0].links();
            links[..links.len() - 1].iter().any(|link| link.account() == account)
        };
        let leases = self.state.live.iter().filter_map(|hash| {
            let lease = self.state.leases.get(hash).filter(|lease| above(lease))?;
            Some((*hash, lease))
        });
        let mut leases: Vec<_> = leases.collect();
        // Those that cannot be recalled stay, and of the others those that began first.
        leases.sort_by_key(|(hash, lease)| {
            let notice = lease.tickets[0].bottom().clauses.notice;
            (notice.is_some(), lease.term.start(), *hash)
        });
        let mut free = Calendar::default();
        free.add(link.term, i64::from(level.units));
        let mut cuts = Vec::new();
        for (hash, lease) in leases {
            let at = takes_at(lease, lease.tickets[0].bottom(), now, level.from);
            let room = lease.term.from(at.unwrap_or(now)).map_or(0, |term| free.free_over(term));
            let room = u32::try_from(room).unwrap_or(0).min(lease.wanted);
            free.add(lease.term, -i64::from(at.map_or(lease.wanted, |_| room)));
            if let Some(at) = at.filter(|_| room < lease.wanted) {
                cuts.push(LeaseCut { lease: hash, units: room, at });
            }
        }
        cuts
    }

    /// Takes what nobody has claimed of a link.
    pub(super) fn recall_rights(&mut self, now: Time, link: LinkHash, out: &mut Output) {
        let Some(recall) = self.state.recalls.get(&link) else { return };
        let (ticket, level) = (recall.rights.ticket.clone(), recall.level);
        let left = self.left_of(ticket.bottom(), now);
        let units: u32 = left.iter().map(|(units, _)| units.get()).sum();
        let surplus = units.saturating_sub(level.units);
        let parts = take(left, surplus.min(self.count_unclaimed(now, &ticket, units)));
        let receipts = self.sign_receipts(ticket.bottom(), parts);
        self.emit(now, RightsRecalled { link, receipts }, out);
        self.answer_recall(link, out);
    }

    /// How many of the units that are left of a ticket nobody has claimed.
    fn count_unclaimed(&self, now: Time, ticket: &Ticket, left: u32) -> u32 {
        let link = ticket.bottom();
        if self.state.by_ticket.contains_key(&link.hash())
            || self.not_covered(ticket, false).is_some()
        {
            return 0;
        }
        let free = self.state.claims.free(link.account()).zip(link.term.from(now));
        let free = free.map(|(free, rest)| u32::try_from(free.free_over(rest)).unwrap_or(0));
        if mutant!(RecallTakesClaimed) { left } else { free.unwrap_or(left).min(left) }
    }

    /// A ticket that its guest can do with less of is redeemed for what a recall without notice leaves.
    pub(super) fn trim(&mut self, now: Time, ticket: &Ticket, out: &mut Output) {
        let (hash, link) = (ticket.hash(), ticket.bottom());
        let binding = self.state.recalls.get(&hash).is_some_and(|recall| {
            recall.due.is_some() && recall.binds(link.units, link.term.end())
        });
        if binding && link.clauses.notice.is_none() {
            self.recall_rights(now, hash, out);
        }
    }

    /// Takes units of a lease.
    pub(super) fn cut(&mut self, now: Time, hash: LinkHash, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash) else { return };
        let Some((link, cut)) = lease.next_cut() else { return };
        let (most, victims) = (cut.units, cut.victims.clone());
        let active = matches!(lease.state, State::Active { .. });
        let ends = most == 0 || (!active && most < lease.min_units.get());
        let units = match &lease.state {
            // A share goes on with less.
            State::Active { .. } if lease.divisible => Vec::new(),
            State::Active { units } => surplus(units.iter().copied(), most, &victims),
            State::Early | State::Due | State::Priming { .. } | State::Closed { .. } => Vec::new(),
        };
        let receipts = self.receipts_up_to(now, hash, link, if ends { 0 } else { most });
        if ends {
            let why = CloseReason::Recalled(link);
            self.emit(now, LeaseClosed { lease: hash, why, receipts }, out);
            self.repeat_answer(hash, hash, out);
        } else {
            self.emit(now, UnitsRecalled { lease: hash, link, units, receipts }, out);
            self.settle_modification(now, hash, out);
        }
        self.answer_recall(link, out);
    }

    /// Receipts for what a lease loses, for each link from its own up to the one that is recalled.
    fn receipts_up_to(
        &mut self,
        now: Time,
        hash: LinkHash,
        recalled: LinkHash,
        most: u32,
    ) -> Vec<Receipt> {
        let account = self.state.recalls.get(&recalled).map(|recall| recall.link().account());
        let (mut receipts, mut above) = (Vec::new(), BTreeMap::<_, (SignedLink, Parts)>::new());
        for ticket in self.tickets_of(hash) {
            let parts = self.surplus_of(ticket.bottom(), now, most);
            let links = ticket.links();
            let top = links.iter().position(|link| Some(link.account()) == account);
            for link in &links[top.unwrap_or(links.len() - 1)..links.len() - 1] {
                let above = above.entry(link.hash()).or_insert_with(|| (link.clone(), Vec::new()));
                above.1.extend(parts.iter().copied());
            }
            receipts.extend(self.sign_receipts(ticket.bottom(), parts));
        }
        for (link, parts) in above.into_values() {
            receipts.extend(self.sign_receipts(&link, parts));
        }
        receipts
    }

    /// The holder of a lease knows of a recall, and may have named who goes first.
    pub(super) fn noted(
        &mut self,
        now: Time,
        from: ActorId,
        (ticket, link, number): (LinkHash, LinkHash, u32),
        victims: Vec<UnitId>,
        out: &mut Output,
    ) {
        let Some(lease) = self.state.leases.get(&ticket).filter(|l| l.holder() == from) else {
            return;
        };
        let Some(cut) = lease.cuts.get(&link).filter(|cut| cut.number == number) else { return };
        let units = lease.state.units();
        let count = units.len().saturating_sub(cut.units as usize);
        let distinct: BTreeSet<_> = victims.iter().collect();
        let fit = distinct.len() == victims.len()
            && victims.len() <= count
            && victims.iter().all(|victim| units.contains(victim));
        let news = fit && !cut.done && !victims.is_empty() && cut.victims != victims;
        let open = self.state.pending.requires(&Obligation::Notice(ticket, link));
        let asks = !victims.is_empty();
        if news || open {
            let victims = if news { victims } else { cut.victims.clone() };
            self.emit(now, RecallNoted { lease: ticket, link, victims }, out);
        }
        // Whoever names victims waits for the word that they go first.
        if asks && let Some((holder, message)) = self.notice(ticket, link) {
            let cause = self.state.leases.get(&ticket).and_then(|lease| lease.cuts.get(&link));
            out.replies.extend(cause.map(|cut| self.base.answer(holder, cut.cause, message)));
        }
    }

    /// What the holder of a lease is told of a recall.
    pub(super) fn notice(&self, lease: LinkHash, link: LinkHash) -> Option<(ActorId, Message)> {
        let record = self.state.leases.get(&lease)?;
        let Cut { number, units, at, victims, .. } = record.cuts.get(&link)?.clone();
        let told = Notice { link, number, units, at, victims };
        Some((record.holder(), Message::RecallNotice { ticket: lease, told }))
    }

    /// The answer to a recall, the same however often it is asked for, until it is enforced.
    fn answer_recall(&self, link: LinkHash, out: &mut Output) {
        let Some(recall) = self.state.recalls.get(&link) else { return };
        let receipts = recall.rights.returns.values().flat_map(|(_, receipts)| receipts);
        let message = Message::Recalled {
            link,
            number: recall.level.number,
            at: recall.at,
            enforced: recall.is_enforced(),
            receipts: receipts.cloned().collect(),
        };
        // The same fact may answer the holder of a lease too.
        out.replies.push(self.base.joint_answer(recall.link().issuer, recall.cause, message));
    }

    /// Why a ticket cannot be redeemed beside the recalls of its links, or, without the fewest units that
    /// will do, be taken back.
    pub(super) fn against_recalls(
        &self,
        now: Time,
        ticket: &Ticket,
        least: Option<NonZeroU32>,
    ) -> Option<Refusal> {
        if self.state.recalls.is_empty() || mutant!(RecallForgotten) {
            return None;
        }
        let (bottom, links) = (ticket.bottom(), ticket.links());
        for link in &links[..links.len() - 1] {
            let Some(recall) = self.state.recalls.get(&link.hash()) else { continue };
            let Some(term) = bottom.term.from(recall.level.from.max(now)) else { continue };
            let free = self.state.claims.free(link.account());
            let free = free.map_or(i64::from(link.units.get()), |free| free.free_over(term));
            let surplus = i64::from(link.units.get()) - i64::from(recall.level.units);
            let taken = if recall.due.is_some() { surplus } else { 0 };
            if surplus > 0 && free - taken < i64::from(bottom.units.get()) {
                return Some(recall.refusal());
            }
        }
        let (recall, least) = (self.state.recalls.get(&ticket.hash())?, least?);
        if !recall.binds(bottom.units, bottom.term.end()) {
            return None;
        }
        let left = match recall.due {
            Some(_) if bottom.clauses.notice.is_some() => return None,
            Some(_) => recall.level.units,
            None => self.left_of(bottom, now).iter().map(|(units, _)| units.get()).sum(),
        };
        (left < least.get()).then(|| recall.refusal())
    }

    /// Why a lease does not go on with an extension, if it is recalled.
    pub(super) fn recalled_beyond(&self, lease: &Lease, link: &SignedLink) -> Option<Refusal> {
        if mutant!(ExtendsRecalled) {
            return None;
        }
        let links = lease.tickets.iter().map(Ticket::hash).chain(lease.cuts.keys().copied());
        let mut recalls = links.filter_map(|hash| self.state.recalls.get(&hash));
        let own = |recall: &&Recall| match lease.cuts.get(&recall.link().hash()) {
            Some(cut) => cut.units < link.units.get() && cut.at < link.term.end(),
            None => recall.binds(link.units, link.term.end()),
        };
        recalls.find(own).map(Recall::refusal)
    }

    /// The refusal of what a recall of this link takes.
    pub(super) fn recall_of(&self, link: LinkHash) -> Option<Refusal> {
        self.state.recalls.get(&link).map(Recall::refusal)
    }

    pub(super) fn recalled(&mut self, at: Time, fact: &Recalled) {
        let Recalled { ticket, level, cuts } = fact;
        let (hash, cause) = (ticket.hash(), self.cause(at));
        let old = self.state.recalls.remove(&hash);
        let returns = old.map_or_else(Returns::new, |old| {
            self.state.charges.release_rights(&old.rights);
            self.lift(at, hash, &old.open, level.number, cuts);
            old.rights.returns
        });
        let claimed = self.state.by_ticket.contains_key(&hash);
        let withdrawn = ticket.bottom().units.get() <= level.units;
        let due = (!claimed && !withdrawn).then_some(level.from.max(at));
        self.state.timers.set(Timer::Recall(hash), due);
        let rights = Rights { ticket: ticket.clone(), returns };
        self.state.charges.charge_rights(&rights);
        let last = cuts.iter().map(|cut| cut.at).chain(due).max().unwrap_or(at);
        let open = cuts.iter().map(|cut| cut.lease).collect();
        let recall = Recall { rights, level: *level, told: at, due, open, at: last, cause };
        self.state.recalls.insert(hash, recall);
        for cut in cuts {
            self.set_cut(at, hash, level.number, cut);
        }
        if !self.state.leases.contains_key(&hash) {
            let forget = ticket.bottom().term.end().plus(self.base.margin());
            self.state.timers.set(Timer::Lease(hash), Some(forget));
        }
    }

    /// What an earlier recall of a link would have taken of leases is changed or withdrawn: their holders
    /// hear of it.
    fn lift(
        &mut self,
        at: Time,
        link: LinkHash,
        open: &BTreeSet<LinkHash>,
        number: u32,
        cuts: &[LeaseCut],
    ) {
        for &lease in open.iter().filter(|lease| cuts.iter().all(|cut| cut.lease != **lease)) {
            let Some(record) = self.state.leases.get(&lease) else { continue };
            let units = record.tickets[0].bottom().units.get().max(record.wanted);
            self.set_cut(at, link, number, &LeaseCut { lease, units, at });
            let record = self.state.leases.get_mut(&lease);
            if let Some(cut) = record.and_then(|record| record.cuts.get_mut(&link)) {
                cut.done = true;
            }
            self.refresh(lease, at);
        }
    }

    fn set_cut(&mut self, at: Time, link: LinkHash, number: u32, cut: &LeaseCut) {
        let cause = self.cause(at);
        let Some(lease) = self.state.leases.get_mut(&cut.lease) else { return };
        let LeaseCut { units, at: from, .. } = *cut;
        let from = if mutant!(NoticeIgnored) { at } else { from };
        let old = lease.cuts.remove(&link);
        let victims = old.map(|old| old.victims).unwrap_or_default();
        let cut = Cut { number, units, at: from, victims, done: false, cause };
        let hash = lease.tickets[0].hash();
        lease.cuts.insert(link, cut);
        self.state.pending.require(Obligation::Notice(hash, link), self.base.position, at);
        self.refresh(hash, at);
    }

    /// A ticket that is recalled was redeemed or given back: rights are left no more.
    pub(super) fn cut_as_recalled(&mut self, hash: LinkHash, at: Time) {
        let cause = self.cause(at);
        let Some(recall) = self.state.recalls.get_mut(&hash) else { return };
        if recall.due.take().is_none() {
            return;
        }
        self.state.timers.set(Timer::Recall(hash), None);
        recall.cause = cause;
        let (told, level) = (recall.told, recall.level);
        let Some(lease) = self.state.leases.get(&hash) else { return };
        let takes = takes_at(lease, lease.tickets[0].bottom(), told, level.from);
        let Some(takes) = takes.filter(|_| level.units < lease.wanted) else { return };
        recall.open.insert(hash);
        recall.at = takes;
        self.set_cut(
            at,
            hash,
            level.number,
            &LeaseCut { lease: hash, units: level.units, at: takes },
        );
    }

    pub(super) fn rights_recalled(
        &mut self,
        at: Time,
        fact: &RightsRecalled,
    ) -> Result<(), BadFact> {
        let recall = self.state.recalls.get_mut(&fact.link);
        let recall = recall.ok_or_else(|| missing("recall", fact.link))?;
        recall.due = None;
        let ticket = recall.rights.ticket.clone();
        self.state.timers.set(Timer::Recall(fact.link), None);
        if !fact.receipts.is_empty() {
            self.enter_chain(&ticket, at);
            self.state.claims.open(ticket.bottom());
        }
        self.brought_back(at, fact.link, None, &fact.receipts);
        Ok(())
    }

    pub(super) fn units_recalled(&mut self, at: Time, fact: &UnitsRecalled) -> Result<(), BadFact> {
        let UnitsRecalled { lease: hash, link, units, receipts } = fact;
        let cause = self.cause(at);
        if !units.is_empty() {
            self.step_lease(at, *hash, Event::Shrunk(units.iter().copied().collect()))?;
        }
        for &unit in units {
            self.step_unit(at, unit, unit::Event::Released)?;
        }
        self.brought_back(at, *link, Some(*hash), receipts);
        let lease = self.state.leases.get_mut(hash).ok_or_else(|| missing("lease", hash))?;
        let cut = lease.cuts.get_mut(link).ok_or_else(|| missing("cut", link))?;
        cut.done = true;
        let stay = lease.wanted.min(cut.units);
        lease.needs_no_more_than(stay);
        lease.modify_without(units);
        let answered = std::mem::take(&mut lease.answered);
        self.reduce_share(at, *hash);
        // Its guest may not have had the answers yet; they name fewer units from now on.
        if let Some(lease) = self.state.leases.get_mut(hash) {
            lease.answered = answered.into_iter().map(|(ticket, _)| (ticket, cause)).collect();
        }
        self.refresh(*hash, at);
        Ok(())
    }

    pub(super) fn recall_noted(&mut self, at: Time, fact: &RecallNoted) {
        let cause = self.cause(at);
        self.state.pending.settle(&Obligation::Notice(fact.lease, fact.link));
        let lease = self.state.leases.get_mut(&fact.lease);
        if let Some(cut) = lease.and_then(|lease| lease.cuts.get_mut(&fact.link)) {
            cut.victims = fact.victims.clone();
            cut.cause = cause;
        }
    }

    /// A lease has ended: no recall takes anything of it any more.
    pub(super) fn end_cuts(&mut self, at: Time, fact: &LeaseClosed) {
        let Some(lease) = self.state.leases.get(&fact.lease) else { return };
        let links: Vec<LinkHash> = lease.cuts.keys().copied().collect();
        for link in links {
            self.state.pending.settle(&Obligation::Notice(fact.lease, link));
            let receipts = match fact.why {
                CloseReason::Recalled(by) if by == link => &fact.receipts[..],
                CloseReason::TermOver
                | CloseReason::GivenBack
                | CloseReason::Failed(_)
                | CloseReason::Recalled(_) => &[],
            };
            self.keep_receipts(at, link, Some(fact.lease), receipts);
        }
    }

    /// A recall of `link` brought units back, of a lease or of rights.
    fn brought_back(
        &mut self,
        at: Time,
        link: LinkHash,
        lease: Option<LinkHash>,
        receipts: &[Receipt],
    ) {
        self.enter_receipts(receipts);
        self.keep_receipts(at, link, lease, receipts);
    }

    fn keep_receipts(
        &mut self,
        at: Time,
        link: LinkHash,
        lease: Option<LinkHash>,
        receipts: &[Receipt],
    ) {
        let cause = self.cause(at);
        let Some(recall) = self.state.recalls.get_mut(&link) else { return };
        lease.map(|lease| recall.open.remove(&lease));
        recall.cause = cause;
        self.state.charges.release_rights(&recall.rights);
        if !receipts.is_empty() {
            let number = recall.rights.returns.last_key_value().map_or(0, |(&last, _)| last + 1);
            recall.rights.returns.insert(number, (cause, receipts.to_vec()));
        }
        self.state.charges.charge_rights(&recall.rights);
    }

    /// Forgets the recall of a link.
    pub(super) fn end_recall(&mut self, link: LinkHash) {
        self.state.timers.set(Timer::Recall(link), None);
        self.state.timers.set(Timer::Cut(link), None);
        if let Some(recall) = self.state.recalls.remove(&link) {
            self.state.charges.release_rights(&recall.rights);
        }
    }
}

/// When a recall that was recorded at `told` takes units of a lease, if it may and the lease lasts so long.
fn takes_at(lease: &Lease, link: &SignedLink, told: Time, from: Time) -> Option<Time> {
    if matches!(lease.state, State::Closed { .. }) {
        return None;
    }
    let at = link.clauses.takes_at(told, from)?.max(link.term.start());
    Some(at).filter(|at| *at < lease.term.end())
}
