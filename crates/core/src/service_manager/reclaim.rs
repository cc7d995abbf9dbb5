//! Tickets that have to be redeemed by some instant: kept ones lapse, and parts that nobody redeemed come
//! back.

use super::{Obligation, Output, ServiceManager, Timer};
use crate::actor::Emit as _;
use crate::model::identity::ActorId;
use crate::model::time::Time;
use crate::service_manager::facts::{ReceiptTaken, ReclaimBegun, ReclaimEnded};
use crate::ticket::Ticket;
use crate::ticket::link::{LinkHash, SignedLink};
use crate::ticket::receipt::Receipt;
use crate::wire::refusal::{Outlook, Refusal};

impl ServiceManager {
    /// Why a ticket cannot be redeemed any more: it would not surely be at its site in time.
    pub(super) fn too_late_to_redeem(&self, now: Time, link: &SignedLink) -> Option<Refusal> {
        let by = link.clauses.redeem_by?;
        (by.minus(self.base.margin()) <= now).then_some(Refusal::Unclaimed(by))
    }

    /// A part that was handed on, whole, while its ticket is remembered.
    pub(super) fn part(&self, part: LinkHash) -> Option<Ticket> {
        let link = self.state.splits.entered(part)?;
        let lease = self.state.leases.get(self.state.by_ticket.get(&link.parent?)?)?;
        Some(lease.state.ticket()?.with(link.clone()))
    }

    /// A part is reclaimed one margin after it had to be redeemed.
    pub(super) fn set_reclaim(&mut self, link: &SignedLink) {
        let by = link.clauses.redeem_by;
        let due = by.map(|by| by.plus(self.base.margin()));
        self.state.timers.set(Timer::Reclaim(link.hash()), due);
    }

    pub(super) fn reclaim_due(&mut self, now: Time, part: LinkHash, out: &mut Output) {
        self.emit(now, ReclaimBegun { part }, out);
    }

    pub(super) fn reclaim_begun(&mut self, at: Time, part: LinkHash) {
        self.state.timers.set(Timer::Reclaim(part), None);
        let is_out = !self.state.splits.left_of(part, at).is_empty();
        if is_out && self.part(part).is_some() {
            self.require(Obligation::Reclaim(part), at);
        }
    }

    /// Nothing is to be reclaimed of a part any more.
    pub(super) fn settle_reclaim(&mut self, part: LinkHash) {
        self.state.timers.set(Timer::Reclaim(part), None);
        self.state.pending.settle(&Obligation::Reclaim(part));
    }

    fn reclaims(&self, part: LinkHash, from: ActorId) -> bool {
        self.state.pending.requires(&Obligation::Reclaim(part))
            && self.part(part).is_some_and(|ticket| ticket.site() == from)
    }

    pub(super) fn reclaimed(
        &mut self,
        now: Time,
        from: ActorId,
        (part, redeemed): (LinkHash, bool),
        receipts: Vec<Receipt>,
        out: &mut Output,
    ) -> Result<(), String> {
        if !self.reclaims(part, from) {
            return Ok(());
        }
        for receipt in receipts {
            if receipt.what.link != part || !self.is_new(&receipt)? {
                continue;
            }
            self.emit(now, ReceiptTaken { receipt }, out);
        }
        self.emit(now, ReclaimEnded { part, redeemed }, out);
        Ok(())
    }

    /// The site has nothing to give back, now or ever; what may change is asked for again.
    pub(super) fn reclaim_refused(
        &mut self,
        now: Time,
        from: ActorId,
        part: LinkHash,
        refusal: &Refusal,
        out: &mut Output,
    ) -> Result<(), String> {
        if self.reclaims(part, from) && refusal.outlook() != Outlook::Later {
            self.emit(now, ReclaimEnded { part, redeemed: false }, out);
        }
        Ok(())
    }
}
