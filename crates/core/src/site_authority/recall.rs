//! Recalls at a site: an issuer takes back what it handed on.
//!
//! A recall says how many units of a link stay, from an instant on. Rights that nobody has claimed go first;
//! a lease loses units only if its own link carries a notice, which counts from the fact that records the
//! recall.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::returns::{MAX_RECEIPTS, take};
use super::{Cause, Lease, Rights, SiteAuthority};
use crate::actor::Emit as _;
use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::model::time::{Term, Time};
use crate::mutants::mutant;
use crate::site_authority::Output;
use crate::site_authority::facts::{Recalled, RightsRecalled};
use crate::site_authority::machine::State;
use crate::ticket::Ticket;
use crate::ticket::link::{LinkHash, SignedLink};
use crate::wire::message::{Message, Subject};
use crate::wire::recall::Level;
use crate::wire::refusal::Refusal;

/// The recall of a link with the highest number so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Recall {
    /// The ticket, and what recalls of it brought back, by the order in which they did.
    pub(super) rights: Rights,
    pub(super) level: Level,
    /// When it was recorded.
    pub(super) told: Time,
    /// When it takes rights that nobody has claimed, if it is yet to do so.
    pub(super) due: Option<Time>,
    /// The leases of which it is yet to take units.
    pub(super) open: BTreeSet<LinkHash>,
    /// When it takes the last.
    pub(super) at: Time,
    /// What its holder is told if the ticket is not redeemed: how many units stay.
    pub(super) stay: u32,
    /// The fact behind its present answer.
    pub(super) cause: Cause,
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
    pub(super) cause: Cause,
}

impl Recall {
    pub(super) fn is_enforced(&self) -> bool {
        self.due.is_none() && self.open.is_empty()
    }

    pub(super) fn link(&self) -> &SignedLink {
        self.rights.ticket.bottom()
    }

    /// Whether it leaves fewer units than these at some instant before `end`.
    fn binds(&self, units: NonZeroU32, end: Time) -> bool {
        self.level.units < units.get()
            && self.level.units < self.link().units.get()
            && self.level.from < end
    }

    /// How many units of the link recalls took, of those in this time.
    fn taken_over(&self, term: Term) -> i64 {
        let link = self.link().hash();
        let receipts = self.rights.returns.values().flat_map(|(_, receipts)| receipts);
        let own = receipts.map(|receipt| &receipt.what).filter(|what| what.link == link);
        own.filter(|what| what.term.overlaps(term)).map(|what| i64::from(what.units.get())).sum()
    }

    pub(super) fn refusal(&self) -> Refusal {
        Refusal::Recalled { units: self.level.units, from: self.level.from }
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
            self.record_recall(now, ticket, level, out);
            let due = self.state.recalls.get(&hash).and_then(|recall| recall.due);
            if due.is_some_and(|due| due <= now) {
                return self.recall_rights(now, hash, out);
            }
        }
        self.answer_recall(hash, out);
    }

    pub(super) fn record_recall(
        &mut self,
        now: Time,
        ticket: Ticket,
        level: Level,
        out: &mut Output,
    ) {
        let cuts = self.cuts_of(now, &ticket, level);
        self.emit(now, Recalled { ticket, level, cuts }, out);
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
        if self.state.levels.contains_key(&link.account()) {
            let cause = "the delegation is recalled by another generation of it".to_owned();
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

    /// Takes what nobody has claimed of a link.
    pub(super) fn recall_rights(&mut self, now: Time, link: LinkHash, out: &mut Output) {
        let Some(recall) = self.state.recalls.get(&link) else { return };
        let (ticket, level) = (recall.rights.ticket.clone(), recall.level);
        let (left, units) =
            (self.left_of(ticket.bottom(), now), self.units_left_of(ticket.bottom(), now));
        let surplus = units.saturating_sub(level.units);
        let parts = take(left, surplus.min(self.count_unclaimed(now, &ticket, units)));
        let receipts = self.sign_receipts(ticket.bottom(), parts);
        self.emit(now, RightsRecalled { link, receipts }, out);
        self.answer_recall_at_last(now, link, out);
    }

    /// Answers a recall, unless it takes more of leases at this instant: then the last that it takes does.
    pub(super) fn answer_recall_at_last(&self, now: Time, link: LinkHash, out: &mut Output) {
        let open = self.state.recalls.get(&link).map(|recall| &recall.open);
        let cuts = open
            .into_iter()
            .flatten()
            .filter_map(|lease| self.state.leases.get(lease)?.cuts.get(&link));
        if cuts.filter(|cut| !cut.done).all(|cut| now < cut.at) {
            self.answer_recall(link, out);
        }
    }

    /// How many units of a ticket did not come back by an instant.
    pub(super) fn units_left_of(&self, link: &SignedLink, at: Time) -> u32 {
        self.left_of(link, at).iter().map(|(units, _)| units.get()).sum()
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

    /// The answer to a recall, the same however often it is asked for, until it is enforced.
    pub(super) fn answer_recall(&self, link: LinkHash, out: &mut Output) {
        let Some(recall) = self.state.recalls.get(&link) else { return };
        if recall.link().issuer == self.base.id() {
            return;
        }
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
        // What is given back claims nothing of a delegation.
        if least.is_some()
            && let Some(refusal) = self.above_levels(now, ticket)
        {
            return Some(refusal);
        }
        let parts = links[..links.len() - 1].iter().filter(|link| link.delegation.is_none());
        for link in parts {
            let Some(recall) = self.state.recalls.get(&link.hash()) else { continue };
            let Some(term) = bottom.term.from(recall.level.from.max(now)) else { continue };
            let free = self.state.claims.free(link.account());
            let free = free.map_or(i64::from(link.units.get()), |free| free.free_over(term));
            // A level: what is back once the recall has taken its part is no more than it leaves, either.
            let left = self.units_left_of(link, term.start());
            let left = if mutant!(RecallIsADifference) && recall.due.is_none() { 0 } else { left };
            let surplus = i64::from(left) - i64::from(recall.level.units);
            let wanted = i64::from(bottom.units.get());
            let to_take = surplus > 0 && free - surplus < wanted;
            let taken = free < wanted && wanted <= free + recall.taken_over(term);
            if to_take || taken {
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
            None => self.units_left_of(bottom, now),
        };
        (left < least.get()).then(|| recall.refusal())
    }

    /// Why a lease does not go on with an extension, if it is recalled.
    pub(super) fn recalled_beyond(&self, lease: &Lease, link: &SignedLink) -> Option<Refusal> {
        if mutant!(ExtendsRecalled) {
            return None;
        }
        let beyond = |units: u32, at: Time| units < link.units.get() && at < link.term.end();
        // What is cut outlives its recall, which is forgotten with the link that it names.
        let cut = lease.cuts.values().find(|cut| beyond(cut.units, cut.at));
        let cut = cut.map(|cut| Refusal::Recalled { units: cut.units, from: cut.at });
        cut.or_else(|| {
            let uncut = lease.tickets.iter().map(Ticket::hash);
            let uncut = uncut.filter(|hash| !lease.cuts.contains_key(hash));
            let mut recalls = uncut.filter_map(|hash| self.state.recalls.get(&hash));
            recalls.find(|recall| recall.binds(link.units, link.term.end())).map(Recall::refusal)
        })
    }
}

/// When a recall that was recorded at `told` takes units of a lease, if it may and the lease lasts so long.
pub(super) fn takes_at(lease: &Lease, link: &SignedLink, told: Time, from: Time) -> Option<Time> {
    if matches!(lease.state, State::Closed { .. }) {
        return None;
    }
    let at = link.clauses.takes_at(told, from)?.max(link.term.start());
    Some(at).filter(|at| *at < lease.term.end())
}
