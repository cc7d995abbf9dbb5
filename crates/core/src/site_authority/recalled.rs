//! How a site's state follows from the facts about recalls.

use std::collections::BTreeSet;

use super::apply::missing;
use super::recall::{Cut, Recall, takes_at};
use super::{Obligation, Returns, Rights, SiteAuthority, Timer};
use crate::actor::fact::BadFact;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::site_authority::facts::{
    LeaseClosed, LeaseCut, RecallNoted, Recalled, RightsRecalled, UnitsRecalled,
};
use crate::site_authority::machine::{CloseReason, Event};
use crate::site_authority::unit;
use crate::ticket::link::LinkHash;
use crate::ticket::receipt::Receipt;
use crate::wire::recall::Level;

impl SiteAuthority {
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
        let withdrawn = level.leaves_all(ticket.bottom());
        let of_delegation = ticket.bottom().delegation.is_some();
        let due = (!claimed && !withdrawn && !of_delegation).then_some(level.from.max(at));
        self.state.timers.set(Timer::Recall(hash), due);
        let rights = Rights { ticket: ticket.clone(), returns };
        self.state.charges.charge_rights(&rights);
        let last = cuts.iter().map(|cut| cut.at).chain(due).max().unwrap_or(at);
        let open = cuts.iter().map(|cut| cut.lease).collect();
        let left = if of_delegation { Level::ALL } else { self.units_left_of(ticket.bottom(), at) };
        let stay = left.min(level.units);
        let level = *level;
        let recall = Recall { rights, level, told: at, due, open, at: last, stay, cause };
        self.state.recalls.insert(hash, recall);
        if !claimed && !mutant!(RecallOfRightsNotTold) {
            self.state.pending.require(Obligation::Notice(hash, hash), self.base.position, at);
        }
        for cut in cuts {
            self.set_cut(at, hash, level.number, cut);
        }
        if of_delegation {
            self.state.levels.insert(ticket.bottom().account(), hash);
        } else if !self.state.leases.contains_key(&hash) {
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
        self.state.pending.settle(&Obligation::Notice(hash, hash));
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
        self.kept_since(*hash, at);
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
                | CloseReason::Silent(_)
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
        if !receipts.is_empty() && recall.link().delegation.is_none() {
            let number = recall.rights.returns.last_key_value().map_or(0, |(&last, _)| last + 1);
            recall.rights.returns.insert(number, (cause, receipts.to_vec()));
        }
        self.state.charges.charge_rights(&recall.rights);
    }

    /// Forgets the recall of a link.
    pub(super) fn end_recall(&mut self, link: LinkHash) {
        self.state.timers.set(Timer::Recall(link), None);
        self.state.timers.set(Timer::Cut(link), None);
        self.state.pending.settle(&Obligation::Notice(link, link));
        if let Some(recall) = self.state.recalls.remove(&link) {
            self.state.charges.release_rights(&recall.rights);
            self.state.levels.remove(&recall.link().account());
        }
    }
}
