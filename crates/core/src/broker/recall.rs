//! How a broker takes back what it sold under a notice.

use super::{Broker, Obligation};
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
    /// How the last recall of a ticket stands, or that of a delegation by its newest generation.
    pub fn recall_of(&self, ticket: LinkHash) -> Option<&IssuedRecall> {
        let key = self.recallable(ticket).map_or(ticket, |(key, _)| key);
        self.state.recalls.get(key)
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
        let known = self.sold(ticket).map(|sold| (ticket, sold));
        let known = known.or_else(|| self.recallable(ticket));
        let level = match known.map(|(key, ticket)| (key, ticket.bottom())) {
            None => Err(format!("no ticket {ticket} was sold here")),
            Some((_, link)) if link.term.end() <= now => Err(format!("ticket {ticket} is over")),
            Some((key, link)) => {
                let from = from.unwrap_or(now);
                self.state.recalls.next(key, link, units, from).map(|level| (key, level))
            }
        };
        match level {
            Ok((link, level)) => self.emit(now, RecallAsked { link, level }, out),
            Err(cause) => out.problems.push(Problem::Command(cause)),
        }
    }

    /// A ticket whose holder has it: not one that is only held for it.
    pub(super) fn sold(&self, ticket: LinkHash) -> Option<&Ticket> {
        let issued = self.state.issued.get(&ticket)?;
        match self.state.requests.get(&issued.request)?.state {
            State::Granted { .. } | State::Returned { .. } => self.state.ticket(issued),
            State::Open { .. }
            | State::Passed { .. }
            | State::Brought { .. }
            | State::Proposed { .. }
            | State::Taking { .. }
            | State::Planned { .. }
            | State::Held { .. }
            | State::Gathering { .. }
            | State::Reserved { .. }
            | State::Committing { .. }
            | State::Refused { .. } => None,
        }
    }

    /// The newest generation of the delegation to another broker that a link is one of, and the name by
    /// which it is recalled.
    fn recallable(&self, link: LinkHash) -> Option<(LinkHash, &Ticket)> {
        let mut all = self.state.delegated.values();
        all.find_map(|delegated| {
            let key = delegated.recalled.as_ref().unwrap_or(&delegated.ticket).hash();
            let named = key == link || delegated.ticket.hash() == link;
            named.then_some((key, &delegated.ticket))
        })
    }

    /// The ticket that is recalled by that name.
    fn recalled_ticket(&self, link: LinkHash) -> Option<&Ticket> {
        if let Some(issued) = self.state.issued.get(&link) {
            return self.state.ticket(issued);
        }
        let mut recalled = self.state.delegated.values().filter_map(|d| d.recalled.as_ref());
        recalled.find(|ticket| ticket.hash() == link)
    }

    pub(super) fn recall_message(&self, link: LinkHash) -> Option<(ActorId, Message)> {
        let level = self.state.recalls.get(link)?.level;
        let ticket = self.recalled_ticket(link)?.clone();
        Some((ticket.site(), Message::Recall { ticket, level }))
    }

    /// Forgets the recall of a link.
    pub(super) fn end_recall(&mut self, link: LinkHash) {
        self.state.recalls.forget(link);
        self.state.pending.settle(&Obligation::Recall(link));
    }

    pub(super) fn recall_asked(&mut self, at: Time, fact: &RecallAsked) {
        let number = self.issued_number(fact.link);
        if let Some(delegated) = number.and_then(|number| self.state.delegated.get_mut(&number)) {
            delegated.recalled.get_or_insert_with(|| delegated.ticket.clone());
        }
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
            self.cancel_refused(now, link, out);
        }
    }

    fn site_of(&self, link: LinkHash) -> Option<ActorId> {
        self.recalled_ticket(link).map(Ticket::site)
    }
}
