//! How a broker takes back what it sold under a notice.

use super::{Broker, IssuedTicket, Obligation};
use crate::actor::Emit as _;
use crate::actor::dropped;
use crate::actor::effect::Problem;
use crate::actor::recalls::IssuedRecall;
use crate::broker::Output;
use crate::broker::facts::{RecallAnswered, RecallAsked, RecallRefused, ReceiptTaken};
use crate::broker::machine::State;
use crate::model::identity::ActorId;
use crate::model::time::Time;
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::ticket::receipt::Receipt;
use crate::wire::message::Message;
use crate::wire::refusal::{Outlook, Refusal};

impl Broker {
    /// How the last recall of a ticket stands.
    pub fn recall_of(&self, ticket: LinkHash) -> Option<&IssuedRecall> {
        self.state.recalls.get(ticket)
    }

    /// The last recalls of the tickets that it sold.
    pub fn recalls(&self) -> impl Iterator<Item = (LinkHash, &IssuedRecall)> {
        self.state.recalls.iter()
    }

    pub(super) fn recall(
        &mut self,
        now: Time,
        ticket: LinkHash,
        (units, from): (Option<u32>, Option<Time>),
        out: &mut Output,
    ) {
        let level = match self.sold(ticket).map(Ticket::bottom) {
            None => Err(format!("no ticket {ticket} was sold here")),
            Some(link) if link.term.end() <= now => Err(format!("ticket {ticket} is over")),
            Some(link) => {
                let from = from.unwrap_or(now);
                self.state.recalls.next(ticket, link.units.get(), units, from)
            }
        };
        match level {
            Ok(level) => self.emit(now, RecallAsked { link: ticket, level }, out),
            Err(cause) => out.problems.push(Problem::Command(cause)),
        }
    }

    /// A ticket whose holder has it: not one that is only held for it.
    fn sold(&self, ticket: LinkHash) -> Option<&Ticket> {
        let issued = self.state.issued.get(&ticket)?;
        match self.state.requests.get(&issued.request)?.state {
            State::Granted { .. } | State::Returned { .. } => self.state.ticket(issued),
            State::Open { .. }
            | State::Planned { .. }
            | State::Held { .. }
            | State::Refused { .. } => None,
        }
    }

    pub(super) fn recall_message(&self, link: LinkHash) -> Option<(ActorId, Message)> {
        let level = self.state.recalls.get(link)?.level;
        let ticket = self.state.ticket(self.state.issued.get(&link)?)?.clone();
        Some((ticket.site(), Message::Recall { ticket, level }))
    }

    pub(super) fn recall_asked(&mut self, at: Time, fact: &RecallAsked) {
        self.state.recalls.asked(fact.link, fact.level);
        self.state.pending.require(Obligation::Recall(fact.link), self.base.position, at);
    }

    /// The site has recorded a recall, or enforced it: only its receipts credit anything.
    pub(super) fn recall_answered(
        &mut self,
        now: Time,
        from: ActorId,
        (link, number): (LinkHash, u32),
        (at, enforced, receipts): (Time, bool, Vec<Receipt>),
        out: &mut Output,
    ) {
        if !self.state.recalls.is_open(link, number) || self.site_of(link) != Some(from) {
            return;
        }
        let own = receipts.into_iter().filter(|receipt| receipt.what.issuer == self.base.id());
        for receipt in own.collect::<Vec<_>>() {
            match self.is_new(&receipt) {
                Some(true) => self.emit(now, ReceiptTaken { receipt }, out),
                Some(false) => {}
                None => {
                    return out.problems.push(dropped("recalled", "a receipt is not good here"));
                }
            }
        }
        if self.state.recalls.is_news(link, number, at, enforced) {
            self.emit(now, RecallAnswered { link, at, enforced }, out);
        }
    }

    pub(super) fn recall_refused(
        &mut self,
        now: Time,
        from: ActorId,
        (link, number): (LinkHash, u32),
        refusal: Refusal,
        out: &mut Output,
    ) {
        let open = self.state.recalls.is_open(link, number) && self.site_of(link) == Some(from);
        if open && refusal.outlook() != Outlook::Later {
            self.emit(now, RecallRefused { link, refusal }, out);
        }
    }

    fn site_of(&self, link: LinkHash) -> Option<ActorId> {
        let issued: &IssuedTicket = self.state.issued.get(&link)?;
        self.state.ticket(issued).map(Ticket::site)
    }
}
