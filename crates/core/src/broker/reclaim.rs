//! Tickets that had to be redeemed by some instant, and that nobody redeemed: the broker has them back.

use super::{Broker, Obligation, Output, Timer};
use crate::actor::Emit as _;
use crate::actor::dropped;
use crate::broker::facts::{ReceiptTaken, ReclaimBegun, ReclaimEnded};
use crate::model::identity::ActorId;
use crate::model::time::Time;
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::ticket::receipt::Receipt;
use crate::wire::message::Message;
use crate::wire::refusal::{Outlook, Refusal};

impl Broker {
    /// The question to the site of a ticket.
    pub(super) fn reclaim_message(&self, ticket: LinkHash) -> Option<(ActorId, Message)> {
        let ticket = self.state.ticket(self.state.issued.get(&ticket)?)?.clone();
        Some((ticket.site(), Message::Reclaim { ticket }))
    }

    /// A ticket that its asker has is reclaimed one margin after it had to be redeemed.
    pub(super) fn set_reclaim(&mut self, ticket: &Ticket) {
        let by = ticket.bottom().clauses.redeem_by;
        let due = by.map(|by| by.plus(self.base.margin()));
        self.state.timers.set(Timer::Reclaim(ticket.hash()), due);
    }

    pub(super) fn reclaim_due(&mut self, now: Time, ticket: LinkHash, out: &mut Output) {
        self.emit(now, ReclaimBegun { ticket }, out);
    }

    pub(super) fn reclaim_begun(&mut self, at: Time, ticket: LinkHash) {
        self.state.timers.set(Timer::Reclaim(ticket), None);
        if self.state.issued.get(&ticket).is_some_and(|issued| !issued.returned) {
            let position = self.base.position;
            self.state.pending.require(Obligation::Reclaim(ticket), position, at);
        }
    }

    /// Nothing is to be reclaimed of a ticket any more.
    pub(super) fn settle_reclaim(&mut self, ticket: LinkHash) {
        self.state.timers.set(Timer::Reclaim(ticket), None);
        self.state.pending.settle(&Obligation::Reclaim(ticket));
    }

    /// Whether the site of a ticket is being asked for what nobody claims of it.
    fn reclaims(&self, ticket: LinkHash, from: ActorId) -> bool {
        let site = || Some(self.state.ticket(self.state.issued.get(&ticket)?)?.site());
        self.state.pending.requires(&Obligation::Reclaim(ticket)) && site() == Some(from)
    }

    pub(super) fn reclaimed(
        &mut self,
        now: Time,
        from: ActorId,
        (ticket, redeemed): (LinkHash, bool),
        receipts: Vec<Receipt>,
        out: &mut Output,
    ) {
        if !self.reclaims(ticket, from) {
            return;
        }
        for receipt in receipts {
            match self.is_new(&receipt).filter(|_| receipt.what.link == ticket) {
                Some(true) => self.emit(now, ReceiptTaken { receipt }, out),
                Some(false) => {}
                None => {
                    return out.problems.push(dropped("reclaimed", "the receipt is not good here"));
                }
            }
        }
        self.emit(now, ReclaimEnded { ticket, redeemed }, out);
    }

    /// The site has nothing to give back, now or ever; what may change is asked for again.
    pub(super) fn reclaim_refused(
        &mut self,
        now: Time,
        from: ActorId,
        ticket: LinkHash,
        refusal: &Refusal,
        out: &mut Output,
    ) {
        if self.reclaims(ticket, from) && refusal.outlook() != Outlook::Later {
            self.emit(now, ReclaimEnded { ticket, redeemed: false }, out);
        }
    }
}
