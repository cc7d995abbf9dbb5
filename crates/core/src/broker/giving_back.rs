//! How a broker gives back units of a delegation that it holds.
//!
//! Its ledger lets go of them first, so that they are not sold meanwhile; then the site is asked. What the
//! site signs is shown to the broker that the delegation came from, which can sell the units again.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{Broker, Obligation, Output};
use crate::actor::{Cause, Emit as _, dropped};
use crate::broker::facts::{
    PartReturned, ReceiptTaken, ReturnBegun, ReturnCredited, ReturnRefused,
};
use crate::model::identity::ActorId;
use crate::model::time::{Term, Time};
use crate::mutants::mutant;
use crate::ticket::Ticket;
use crate::ticket::ledger::{MAX_RETURNS, PartReturned as Back};
use crate::ticket::link::{AccountId, DelegationId, LinkHash};
use crate::ticket::receipt::Receipt;
use crate::wire::message::Message;
use crate::wire::part::Part;
use crate::wire::recall::Level;
use crate::wire::refusal::{Outlook, Refusal};

/// The number under which the ledger lets go of units until their site has signed for them.
const UNSIGNED: u32 = u32::MAX;

/// Units of a delegation that are on their way back to their site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Returning {
    /// The generation that they are part of.
    ticket: Ticket,
    number: u32,
    units: NonZeroU32,
    from: Time,
    /// What the site has signed.
    receipts: Vec<Receipt>,
}

impl Broker {
    pub(super) fn begin_return(
        &mut self,
        now: Time,
        delegation: DelegationId,
        (units, from): (NonZeroU32, Option<Time>),
        out: &mut Output,
    ) -> Result<(), String> {
        let account = AccountId::Delegation(delegation);
        let absent = || format!("there is no delegation {delegation} here");
        let holding = self.state.holdings.get(&account).ok_or_else(absent)?;
        if self.state.returning.contains_key(&account) {
            return Err(format!("units of {delegation} are on their way back already"));
        }
        let link = holding.ticket.bottom();
        let from = from.unwrap_or(now).max(now).max(link.term.start());
        let term = link.term.from(from).ok_or_else(|| format!("{delegation} is over by then"))?;
        let free = self.state.ledger.uncut_over(account, term);
        if free < i64::from(units.get()) && !mutant!(ReturnsWhatIsSold) {
            return Err(format!(
                "{units} units are more than the {free} that are free over {term}"
            ));
        }
        let (ticket, number) = (holding.ticket.clone(), holding.returns);
        self.emit(now, ReturnBegun { ticket, number, units, from }, out);
        Ok(())
    }

    /// Gives back what it is not to have of a delegation that a broker gave it, and has not sold: what is recalled,
    /// and, while it is drained, all.
    pub(super) fn give_back_unsold(&mut self, now: Time, account: AccountId, out: &mut Output) {
        let AccountId::Delegation(delegation) = account else { return };
        let Some(holding) = self.state.holdings.get(&account) else { return };
        let link = holding.ticket.bottom();
        if link.issuer == holding.ticket.site() || self.state.returning.contains_key(&account) {
            return;
        }
        let recalled = holding.recalled.as_ref().map(|(told, _)| told.units);
        let stay = if self.sells() { recalled.unwrap_or(Level::ALL) } else { 0 };
        let surplus = self.left_at_end(link).saturating_sub(stay);
        let Some(rest) = link.term.from(now.max(link.term.start())) else { return };
        let unsold = u32::try_from(self.state.ledger.uncut_over(account, rest)).unwrap_or(0);
        if let Some(units) = NonZeroU32::new(surplus.min(unsold)) {
            drop(self.begin_return(now, delegation, (units, None), out));
        }
    }

    /// The same of all delegations.
    pub(super) fn give_back_all_unsold(&mut self, now: Time, out: &mut Output) {
        let accounts: Vec<AccountId> = self.state.holdings.keys().copied().collect();
        for account in accounts {
            self.give_back_unsold(now, account, out);
        }
    }

    pub(super) fn return_begun(&mut self, at: Time, fact: &ReturnBegun) {
        let ReturnBegun { ticket, number, units, from } = fact;
        let (link, account) = (ticket.bottom(), ticket.bottom().account());
        if let Some(term) = link.term.from(*from) {
            let part = Back { number: UNSIGNED, units: *units, term };
            let changes = self.state.ledger.retire(link, part, term.start());
            self.change_total(&link.resource, &changes, 1);
        }
        if let Some(holding) = self.state.holdings.get_mut(&account) {
            holding.returns = number + 1;
        }
        let returning = Returning {
            ticket: ticket.clone(),
            number: *number,
            units: *units,
            from: *from,
            receipts: Vec::new(),
        };
        self.state.returning.insert(account, returning);
        self.state.pending.require(Obligation::Return(account), self.base.position, at);
    }

    pub(super) fn return_message(&self, account: AccountId) -> Option<(ActorId, Message)> {
        let Returning { ticket, number, units, from, .. } = self.state.returning.get(&account)?;
        let part = Part::Rights { units: *units, from: *from };
        let message = Message::Return { ticket: ticket.clone(), number: *number, part };
        Some((ticket.site(), message))
    }

    pub(super) fn credit_message(&self, account: AccountId) -> Option<(ActorId, Message)> {
        let Returning { ticket, receipts, .. } = self.state.returning.get(&account)?;
        Some((ticket.bottom().issuer, Message::Credit { receipts: receipts.clone() }))
    }

    /// The return that an answer is about.
    fn returning(&self, hash: LinkHash, number: u32) -> Option<(AccountId, &Returning)> {
        let mut all = self.state.returning.iter();
        let (account, returning) = all.find(|(account, returning)| {
            returning.ticket.hash() == hash
                && returning.number == number
                && self.state.pending.requires(&Obligation::Return(**account))
        })?;
        Some((*account, returning))
    }

    /// The site has taken units back.
    pub(super) fn returned(
        &mut self,
        now: Time,
        from: ActorId,
        (hash, number): (LinkHash, u32),
        receipts: Vec<Receipt>,
        out: &mut Output,
    ) {
        let Some((AccountId::Delegation(delegation), returning)) = self.returning(hash, number)
        else {
            return out.problems.push(dropped("returned", "nothing was given back so"));
        };
        let link = returning.ticket.bottom().clone();
        let (site, wanted, since) = (returning.ticket.site(), returning.units, returning.from);
        let units: u64 = receipts.iter().map(|r| u64::from(r.what.units.get())).sum();
        let sound = from == site
            && units == u64::from(wanted.get())
            && receipts.iter().all(|receipt| {
                let what = &receipt.what;
                what.site == site
                    && what.link == hash
                    && what.issuer == link.issuer
                    && link.term.encloses(what.term)
                    && what.term.start() >= since
                    && self.base.credentials.checks_receipt(receipt)
            });
        if !sound {
            return out.problems.push(dropped("returned", "the receipts are not good here"));
        }
        self.emit(now, PartReturned { delegation, receipts }, out);
    }

    pub(super) fn part_returned(&mut self, at: Time, fact: &PartReturned) {
        let account = AccountId::Delegation(fact.delegation);
        self.state.pending.settle(&Obligation::Return(account));
        let Some(returning) = self.state.returning.get_mut(&account) else { return };
        returning.receipts.clone_from(&fact.receipts);
        let link = returning.ticket.bottom().clone();
        let (site, issuer) = (returning.ticket.site(), link.issuer);
        let mut changes = self.state.ledger.restore(&link, UNSIGNED);
        for receipt in &fact.receipts {
            let part = Back::from(&receipt.what);
            changes.extend(self.state.ledger.retire(&link, part, part.term.start()));
        }
        self.change_total(&link.resource, &changes, 1);
        if issuer == site {
            self.state.returning.remove(&account);
        } else {
            self.state.pending.require(Obligation::Credit(account), self.base.position, at);
        }
    }

    /// The site does not take units back.
    pub(super) fn return_denied(
        &mut self,
        now: Time,
        from: ActorId,
        (hash, number): (LinkHash, u32),
        refusal: Refusal,
        out: &mut Output,
    ) {
        let Some((AccountId::Delegation(delegation), returning)) = self.returning(hash, number)
        else {
            return out.problems.push(dropped("refused", "nothing was given back so"));
        };
        // It is asked again as long as it may change its mind.
        if from == returning.ticket.site() && refusal.outlook() != Outlook::Later {
            self.emit(now, ReturnRefused { delegation, refusal }, out);
        }
    }

    pub(super) fn return_refused(&mut self, fact: &ReturnRefused) {
        let account = AccountId::Delegation(fact.delegation);
        self.state.pending.settle(&Obligation::Return(account));
        let Some(returning) = self.state.returning.remove(&account) else { return };
        let link = returning.ticket.bottom();
        let changes = self.state.ledger.restore(link, UNSIGNED);
        self.change_total(&link.resource, &changes, 1);
        self.call_for_open();
    }

    /// The issuer of a delegation knows what came back of it.
    pub(super) fn return_credited(
        &mut self,
        now: Time,
        from: ActorId,
        keys: &[(LinkHash, u32)],
        out: &mut Output,
    ) {
        let found = self.state.returning.iter().find(|(account, returning)| {
            let shown = returning.receipts.iter().map(|r| (r.what.link, r.what.number));
            self.state.pending.requires(&Obligation::Credit(**account))
                && returning.ticket.bottom().issuer == from
                && shown.eq(keys.iter().copied())
        });
        match found {
            Some((&account @ AccountId::Delegation(delegation), _)) => {
                self.emit(now, ReturnCredited { delegation }, out);
                self.give_back_unsold(now, account, out);
            }
            Some((AccountId::Link(_), _)) | None => {
                out.problems.push(dropped("credited", "no such receipts were shown"));
            }
        }
    }

    /// Nothing is on its way back any more.
    pub(super) fn end_return(&mut self, account: AccountId) {
        self.state.pending.settle(&Obligation::Return(account));
        self.state.pending.settle(&Obligation::Credit(account));
        self.state.returning.remove(&account);
    }

    /// The number of the delegation to another broker that a link is a generation of.
    pub(super) fn issued_number(&self, hash: LinkHash) -> Option<u64> {
        let (_, link) = self.state.ledger.entered(hash)?;
        let number = link.delegation?.delegation;
        self.state.delegated.contains_key(&number).then_some(number)
    }

    /// Whether a receipt for a delegation to another broker has yet to be credited; none if it is not good.
    pub(super) fn is_new_of_issued(&mut self, number: u64, receipt: &Receipt) -> Option<bool> {
        let what = &receipt.what;
        let delegated = self.state.delegated.get(&number)?;
        if delegated.credited.contains_key(&(what.link, what.number)) {
            return Some(false);
        }
        let ours = what.issuer == self.base.id()
            && what.site == delegated.ticket.site()
            && delegated.credited.len() < MAX_RETURNS
            && self.state.ledger.can_return(what.link, &what.into());
        (ours && self.base.credentials.checks_receipt(receipt)).then_some(true)
    }

    /// The fact by which a receipt for a delegation to `holder` was taken.
    pub(super) fn credited_of_issued(
        &self,
        holder: ActorId,
        key: (LinkHash, u32),
    ) -> Option<Cause> {
        let number = self.issued_number(key.0)?;
        let delegated = self.state.delegated.get(&number)?;
        let own = delegated.ticket.bottom().holder == holder;
        delegated.credited.get(&key).filter(|_| own).copied()
    }

    /// What was delegated to another broker came back.
    pub(super) fn issued_came_back(&mut self, at: Time, number: u64, fact: &ReceiptTaken) {
        let what = &fact.receipt.what;
        let Some((_, link)) = self.state.ledger.entered(what.link) else { return };
        let link = link.clone();
        let from: Time = what.term.start().max(at);
        let changes: Vec<(Term, i64)> = self.state.ledger.retire(&link, what.into(), from);
        self.change_total(&link.resource, &changes, -1);
        let cause = Cause { position: self.base.position, at };
        if let Some(delegated) = self.state.delegated.get_mut(&number) {
            delegated.credited.insert((what.link, what.number), cause);
        }
        self.call_for_open();
        self.call_for_sharing(at);
    }
}
