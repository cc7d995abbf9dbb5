//! Recalls at a service manager: of its leases by who issued their tickets, and of parts that it handed on.

use serde::{Deserialize, Serialize};

use super::{Lease, Obligation, Output, ServiceManager, Timer};
use crate::actor::fact::BadFact;
use crate::actor::recalls::IssuedRecall;
use crate::actor::{Cause, Emit as _};
use crate::driver::UnitId;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service_manager::facts::{
    RecallAnswered, RecallAsked, RecallBegun, RecallLifted, RecallRefused, RecallTold,
    UnitsRecalled, VictimsNamed,
};
use crate::service_manager::machine::{AfterLeave, Event, Held, State};
use crate::ticket::Ticket;
use crate::ticket::ledger::Ledger;
use crate::ticket::link::{LinkHash, SignedLink};
use crate::ticket::receipt::Receipt;
use crate::wire::message::Message;
use crate::wire::part::surplus;
use crate::wire::recall::Notice;
use crate::wire::refusal::{Outlook, Refusal};
use crate::wire::request::Item;

/// What a lease loses by the recall of one link, as its site says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Recalled {
    told: Notice,
    /// The units that the user wants to go first; they do once the site says so too.
    named: Vec<UnitId>,
    /// Whether the guest was to leave them.
    begun: bool,
    /// Whether they are gone, or stay after all.
    done: bool,
    /// The fact behind the answer to the site.
    cause: Cause,
}

impl Recalled {
    /// The units that go: while the site may not know whom the user named, those too that it may take.
    fn going(&self, held: &Held) -> Vec<UnitId> {
        let units = || held.units.keys().copied();
        let mut going = surplus(units(), self.told.units, &self.told.victims);
        if !self.named.is_empty() && self.named != self.told.victims {
            let named = surplus(units(), self.told.units, &self.named);
            going.extend(
                named.iter().filter(|unit| !going.contains(unit)).copied().collect::<Vec<_>>(),
            );
        }
        going
    }
}

impl Lease {
    /// The recalls that are yet to take something of it. Rights that are recalled are its own no more once
    /// its ticket is redeemed: what it is redeemed for, stays.
    fn open_recalls(&self) -> impl Iterator<Item = &Recalled> {
        let kept = matches!(self.state, State::Ticketed { .. });
        self.recalls.values().filter(move |recall| !recall.done && (kept || !recall.told.unclaimed))
    }

    /// The next recall that takes some of its units.
    fn next_recall(&self) -> Option<&Recalled> {
        let open = self.open_recalls().filter(|recall| recall.told.units > 0);
        open.min_by_key(|recall| recall.told.at)
    }

    /// The recalls whose units the guest has yet to leave, each with those units.
    pub(super) fn recalls_ahead(&self, held: &Held) -> Vec<(&Notice, Vec<UnitId>)> {
        let ahead = self.open_recalls().filter(|recall| !recall.begun);
        ahead.map(|recall| (&recall.told, recall.going(held))).collect()
    }

    /// When a unit goes by the next recall, if it does.
    pub(super) fn recall_of(&self, held: &Held, unit: UnitId) -> Option<Time> {
        let recall = self.next_recall().filter(|recall| recall.going(held).contains(&unit))?;
        Some(recall.told.at)
    }

    /// What the next recall leaves it.
    pub(super) fn next_told(&self) -> Option<&Notice> {
        self.open_recalls().map(|recall| &recall.told).min_by_key(|told| told.at)
    }

    /// When a recall takes all of it.
    pub(super) fn recalled_whole(&self) -> Option<Time> {
        let counts = match self.state {
            State::Ticketed { .. }
            | State::Redeeming { .. }
            | State::Joining { .. }
            | State::Active { .. }
            | State::Leaving { .. } => !mutant!(RecallOutlived),
            State::Closing { .. } | State::Crediting { .. } | State::Closed { .. } => false,
        };
        let least = match self.state {
            State::Ticketed { split: false, .. } => self.min_units.get(),
            // Its account is cut; what was handed on of it stays.
            State::Ticketed { split: true, .. } => 0,
            State::Redeeming { .. }
            | State::Joining { .. }
            | State::Active { .. }
            | State::Leaving { .. }
            | State::Closing { .. }
            | State::Crediting { .. }
            | State::Closed { .. } => 1,
        };
        let whole = self.open_recalls().filter(|recall| recall.told.units < least);
        whole.map(|recall| recall.told.at).min().filter(|_| counts)
    }

    /// What is left to hand on of its ticket beside what is handed on, if rights of it are recalled.
    pub(super) fn room(&self, ticket: &Ticket, parts: &Ledger) -> Option<Calendar> {
        let link = ticket.bottom();
        let told = self.recalls.get(&link.hash()).map(|recall| &recall.told)?;
        let surplus = link.units.get().saturating_sub(told.units);
        let rest = link.term.from(told.at).filter(|_| told.unclaimed && surplus > 0)?;
        let mut room = Calendar::default();
        room.add(link.term, i64::from(link.units.get()));
        room.add(rest, -i64::from(surplus));
        for (_, term, units) in parts.charged().filter(|part| part.0.parent == Some(link.hash())) {
            room.add(term, -i64::from(units));
        }
        Some(room).filter(|_| !mutant!(SplitsRecalled))
    }

    /// The fewest units that it takes from its site: after a recall fewer than it asked for.
    pub(super) fn fewest(&self) -> u32 {
        let told = self.recalls.values().map(|recall| recall.told.units);
        told.fold(self.min_units.get(), u32::min)
    }
}

impl ServiceManager {
    /// Whether a ticket is for the units that were named, and reserves no more for its issuer than was accepted; an
    /// extension reserves what the ticket does that it extends.
    pub(super) fn accepts(&self, wanted: &Item, link: &SignedLink) -> bool {
        let Some(extends) = wanted.extends else {
            let mut named = wanted.requirements.of_units();
            return wanted.accepts.allow(link)
                && named.all(|unit| link.constraints.iter().any(|kept| kept == unit));
        };
        let held = self.lease_of(extends).and_then(|lease| self.lease(lease)?.held());
        let old = held.and_then(|held| held.tickets.iter().find(|old| old.hash() == extends));
        old.is_none_or(|old| {
            let (old, new) = (&old.bottom().clauses, &link.clauses);
            (old.notice, old.not_before) == (new.notice, new.not_before)
                && new.not_on.is_superset(&old.not_on)
        })
    }

    /// What the next recall leaves a lease, and when.
    pub fn recall_told(&self, lease: LeaseId) -> Option<&Notice> {
        self.state.leases.get(&lease)?.next_told()
    }

    /// The site says that units of a lease are recalled.
    pub(super) fn told_of_recall(
        &mut self,
        now: Time,
        from: ActorId,
        ticket: LinkHash,
        told: Notice,
        out: &mut Output,
    ) -> Result<(), String> {
        let (link, number) = (told.link, told.number);
        let (unclaimed, victims) = (told.unclaimed, Vec::new());
        let noted = Message::RecallNoted { ticket, link, number, victims, unclaimed };
        let known = self.lease_of(ticket).and_then(|id| Some((id, self.state.leases.get(&id)?)));
        let Some((lease, record)) = known else {
            out.replies.push(self.base.volatile(from, now, noted));
            return Ok(());
        };
        let Some(own) = record.state.ticket() else {
            out.replies.push(self.base.volatile(from, now, noted));
            return Ok(());
        };
        if own.site() != from || own.hash() != ticket {
            return Err(format!("lease {lease} is not at its sender's site"));
        }
        let before = self.gone_by(lease);
        match record.recalls.get(&link) {
            Some(known) if number < known.told.number => return Ok(()),
            Some(known) if known.told == told => {}
            // It was sent before the ticket was redeemed.
            Some(known)
                if number == known.told.number && told.unclaimed && !known.told.unclaimed =>
            {
                out.replies.push(self.base.volatile(from, now, noted));
                return Ok(());
            }
            Some(known)
                if number == known.told.number
                    && told.unclaimed == known.told.unclaimed
                    && (known.told.units, known.told.at) != (told.units, told.at) =>
            {
                return Err(format!("lease {lease} was told otherwise"));
            }
            known @ (Some(_) | None) => {
                let left = known.is_some_and(|known| known.begun && !known.done);
                let runs = matches!(record.state, State::Joining { .. } | State::Active { .. });
                let other = known.is_some_and(|known| known.told.number != number);
                let ending = matches!(record.state, State::Leaving { then: AfterLeave::End, .. });
                let ends = record.ends_by();
                self.emit(now, RecallTold { lease, told }, out);
                self.hasten_to_end(now, lease, before, out);
                if other && (left && runs || ending && self.goes_on(now, lease, ends)) {
                    self.emit(now, RecallLifted { lease }, out);
                }
                self.name_by_work(now, lease, out);
            }
        }
        let record = self.state.leases.get(&lease);
        let cause = record.and_then(|record| record.recalls.get(&link)).map(|known| known.cause);
        out.replies.extend(cause.map(|cause| self.base.answer(from, cause, noted)));
        Ok(())
    }

    /// Whether a lease that its guest leaves for it was to end lasts longer by now, and so long that it is of use.
    fn goes_on(&self, now: Time, lease: LeaseId, ended: Time) -> bool {
        let ends = self.state.leases.get(&lease).map_or(ended, |lease| lease.ends_by());
        let leave = ends.minus(self.base.margin()).minus(self.leave_before);
        ended < ends && now < leave
    }

    pub(super) fn take_notice(&mut self, at: Time, fact: &RecallTold) {
        let (id, told) = (fact.lease, fact.told.clone());
        let cause = Cause { position: self.base.position, at };
        let Some(lease) = self.state.leases.get_mut(&id) else { return };
        let old = lease.recalls.remove(&told.link);
        let same = old.as_ref().is_some_and(|old| old.told.number == told.number);
        let named = old.as_ref().map(|old| old.named.clone()).unwrap_or_default();
        let done = old.as_ref().is_some_and(|old| same && old.done) || lease.units <= told.units;
        let begun = same && old.is_some_and(|old| old.begun);
        let agreed = named == told.victims;
        let recall = Recalled { told, named, begun, done, cause };
        lease.recalls.insert(fact.told.link, recall);
        if done || agreed {
            self.state.pending.settle(&Obligation::Victims(id));
        }
        self.rest_is_recalled(id, at);
        self.refresh(id, at);
    }

    pub(super) fn name_victims(
        &mut self,
        now: Time,
        lease: LeaseId,
        victims: Vec<UnitId>,
        out: &mut Output,
    ) -> Result<(), String> {
        let record = self.state.leases.get(&lease);
        let record = record.ok_or_else(|| format!("there is no lease {lease}"))?;
        let recall = record.next_recall().filter(|recall| !recall.begun);
        let recall = recall.ok_or_else(|| {
            format!("no units of lease {lease} are recalled, or they are being left already")
        })?;
        let held = record.state.held().ok_or_else(|| format!("lease {lease} has no units yet"))?;
        let count = held.units.len().saturating_sub(recall.told.units as usize);
        if victims.is_empty() || victims.len() > count {
            return Err(format!("{} units are named, {count} go", victims.len()));
        }
        if let Some(unit) = victims.iter().find(|unit| !held.units.contains_key(unit)) {
            return Err(format!("the lease does not have unit {unit}"));
        }
        if (1..victims.len()).any(|n| victims[..n].contains(&victims[n])) {
            return Err("a unit is named twice".to_owned());
        }
        self.emit(now, VictimsNamed { lease, victims }, out);
        Ok(())
    }

    /// Of the units of a service those go first that are idle, then those of which it loses least, unless a user has
    /// named others, and if there is time to have the site know them.
    fn name_by_work(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        let Some(record) = self.state.leases.get(&lease) else { return };
        let recall = record.next_recall().filter(|recall| !recall.begun && recall.named.is_empty());
        let held = record.state.held().filter(|held| !held.is_share());
        let (Some(recall), Some(held), Some(site)) = (recall, held, record.site()) else { return };
        let works = |unit| self.state.services.work_of(&record.slice, &(site, unit)).is_some();
        let leave = self.released_at(recall.told.at).minus(self.leave_before);
        if leave <= now.plus(self.base.two_margins()) || !held.units.keys().copied().any(works) {
            return;
        }
        let going = recall.going(held);
        let first = self.by_use(lease, now).into_iter().take(going.len());
        let victims: Vec<UnitId> = first.collect();
        if victims.iter().any(|unit| !going.contains(unit)) {
            self.emit(now, VictimsNamed { lease, victims }, out);
        }
    }

    pub(super) fn victims_named(&mut self, at: Time, fact: &VictimsNamed) {
        let Some(lease) = self.state.leases.get_mut(&fact.lease) else { return };
        let Some(link) = lease.next_recall().map(|recall| recall.told.link) else { return };
        if let Some(recall) = lease.recalls.get_mut(&link) {
            recall.named = fact.victims.clone();
        }
        self.require(Obligation::Victims(fact.lease), at);
    }

    /// What is sent to have units go first.
    pub(super) fn victims_message(&self, id: LeaseId) -> Option<(ActorId, Message)> {
        let lease = self.state.leases.get(&id)?;
        let (ticket, recall) = (lease.state.ticket()?, lease.next_recall()?);
        let (link, number) = (recall.told.link, recall.told.number);
        let victims = recall.named.clone();
        let (unclaimed, hash) = (false, ticket.hash());
        let message = Message::RecallNoted { ticket: hash, link, number, victims, unclaimed };
        Some((ticket.site(), message))
    }

    /// A recall is near: the guest leaves the units that go, then lets go of them.
    pub(super) fn recall_due(&mut self, now: Time, id: LeaseId, out: &mut Output) {
        let lease = self.state.leases.get(&id);
        let found = lease.and_then(|lease| Some((lease.next_recall()?, lease.state.held()?)));
        let Some((recall, held)) = found else {
            return self.state.timers.set(Timer::Recall(id), None);
        };
        let (lease, link, stay) = (id, recall.told.link, recall.told.units);
        let units = recall.going(held);
        if now < self.released_at(recall.told.at) {
            self.emit(now, RecallBegun { lease, link, units }, out);
        } else {
            self.emit(now, UnitsRecalled { lease, link, units, stay }, out);
        }
    }

    /// When the guest has let go of units that are recalled.
    fn released_at(&self, at: Time) -> Time {
        if mutant!(RecallWithoutMargin) { at } else { at.minus(self.base.margin()) }
    }

    /// Sets when the guest has to do with the next recall.
    pub(super) fn set_recall(&mut self, id: LeaseId) {
        let due = self.state.leases.get(&id).and_then(|lease| {
            let recall = lease.next_recall().filter(|_| !mutant!(RecallOutlived))?;
            let gone = self.released_at(recall.told.at);
            match &lease.state {
                State::Joining { held } | State::Active { held } => {
                    let waits = recall.begun || held.awaited > 0 || held.leaving > 0;
                    Some(if waits { gone } else { gone.minus(self.leave_before) })
                }
                State::Leaving { .. } => Some(gone),
                State::Ticketed { .. }
                | State::Redeeming { .. }
                | State::Closing { .. }
                | State::Crediting { .. }
                | State::Closed { .. } => None,
            }
        });
        self.state.timers.set(Timer::Recall(id), due);
    }

    pub(super) fn recall_begun(&mut self, at: Time, fact: &RecallBegun) -> Result<(), BadFact> {
        if let Some(lease) = self.state.leases.get_mut(&fact.lease)
            && let Some(recall) = lease.recalls.get_mut(&fact.link)
        {
            recall.begun = true;
        }
        self.step(at, fact.lease, Event::RecallBegun(fact.units.clone()))
    }

    pub(super) fn units_recalled(&mut self, at: Time, fact: &UnitsRecalled) -> Result<(), BadFact> {
        let id = fact.lease;
        for &unit in &fact.units {
            self.state.pending.settle(&Obligation::Join(id, unit));
            self.state.pending.settle(&Obligation::Leave(id, unit));
        }
        self.state.pending.settle(&Obligation::Victims(id));
        if let Some(lease) = self.state.leases.get_mut(&id)
            && let Some(recall) = lease.recalls.get_mut(&fact.link)
        {
            recall.done = true;
            lease.units = lease.units.min(recall.told.units);
        }
        self.step(at, id, Event::UnitsRecalled(fact.units.clone(), fact.stay))?;
        if self.counts(id) {
            self.book_again(id, at);
        }
        // A service may claim others in their place.
        self.call_for_service_of(id);
        Ok(())
    }

    /// Whether a lease whose time is over ends by a recall, before its term.
    pub(super) fn ends_by_recall(&self, id: LeaseId) -> bool {
        let lease = self.state.leases.get(&id);
        lease.is_some_and(|lease| lease.open_recalls().next().is_some())
    }

    /// How the last recall of a part that was handed on stands.
    pub fn recall_of(&self, part: LinkHash) -> Option<&IssuedRecall> {
        self.state.recalls.get(part)
    }

    /// Recalls units of a part of a kept ticket.
    pub(super) fn recall(
        &mut self,
        now: Time,
        link: LinkHash,
        (units, from): (Option<u32>, Option<Time>),
        out: &mut Output,
    ) -> Result<(), String> {
        let part = self.part(link).ok_or_else(|| format!("no part {link} was handed on here"))?;
        let part = part.bottom();
        if part.term.end() <= now {
            return Err(format!("part {link} is over"));
        }
        let from = from.unwrap_or(now);
        let level = self.state.recalls.next(link, part, units, from)?;
        self.emit(now, RecallAsked { link, level }, out);
        Ok(())
    }

    pub(super) fn recall_asked(&mut self, at: Time, fact: &RecallAsked) {
        self.state.recalls.asked(fact.link, fact.level);
        self.require(Obligation::Recall(fact.link), at);
    }

    pub(super) fn recall_message(&self, link: LinkHash) -> Option<(ActorId, Message)> {
        let level = self.state.recalls.get(link)?.level;
        let ticket = self.part(link)?;
        Some((ticket.site(), Message::Recall { ticket, level }))
    }

    /// The site has recorded a recall, or enforced it: only its receipts credit anything.
    pub(super) fn recall_answered(
        &mut self,
        now: Time,
        from: ActorId,
        (link, number): (LinkHash, u32),
        (at, enforced, receipts): (Time, bool, Vec<Receipt>),
        out: &mut Output,
    ) -> Result<(), String> {
        let site = self.part(link).map(|ticket| ticket.site());
        if !self.state.recalls.is_open(link, number) || site != Some(from) {
            return Ok(());
        }
        let me = self.base.id();
        for receipt in receipts.into_iter().filter(|receipt| receipt.what.issuer == me) {
            self.take_receipt(now, receipt, out)?;
        }
        if self.state.recalls.is_news(link, number, at, enforced) {
            self.emit(now, RecallAnswered { link, at, enforced }, out);
        }
        Ok(())
    }

    pub(super) fn recall_refused(
        &mut self,
        now: Time,
        from: ActorId,
        (link, number): (LinkHash, u32),
        refusal: Refusal,
        out: &mut Output,
    ) -> Result<(), String> {
        let site = self.part(link).map(|ticket| ticket.site());
        let open = self.state.recalls.is_open(link, number) && site == Some(from);
        if open && refusal.outlook() != Outlook::Later {
            self.emit(now, RecallRefused { link, refusal }, out);
        }
        Ok(())
    }
}
