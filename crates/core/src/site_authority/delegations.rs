//! Delegations by hand, and what comes back of delegations.

use std::num::NonZeroU32;

use super::{Offer, SiteAuthority, Timer};
use crate::actor::effect::Problem;
use crate::actor::{Emit as _, Role};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::site_authority::Output;
use crate::site_authority::facts::{DelegatedByHand, RightsReturned};
use crate::ticket::Ticket;
use crate::ticket::link::{AccountId, SignedLink};
use crate::ticket::receipt::Receipt;
use crate::wire::refusal::Refusal;

/// What an operator delegates: see [`Command::Delegate`](super::Command::Delegate).
pub(super) struct Asked {
    pub(super) broker: ActorId,
    pub(super) resource: Name,
    pub(super) units: NonZeroU32,
    pub(super) length: Span,
    pub(super) grow: Option<u64>,
}

/// A delegation of a site, for display.
#[derive(Clone, Copy, Debug)]
pub struct DelegationSurvey<'a> {
    /// The newest generation.
    pub ticket: &'a Ticket,
    /// How many units its broker has.
    pub held: u32,
    /// How many of its units came back for good.
    pub given_back: u32,
    /// Whether an operator made it: it is not renewed.
    pub by_hand: bool,
    /// Whether its broker has yet to say that it has it.
    pub pending: bool,
}

impl SiteAuthority {
    /// The delegations that have not ended.
    pub fn delegation_survey(&self) -> impl Iterator<Item = DelegationSurvey<'_>> {
        self.state.delegations.iter().map(|(number, delegation)| DelegationSurvey {
            ticket: &delegation.ticket,
            held: delegation.held,
            given_back: delegation.given_back,
            by_hand: delegation.by_hand,
            pending: self.state.pending.requires(&super::Obligation::Delegate(*number)),
        })
    }

    pub(super) fn delegate(&mut self, now: Time, asked: Asked, out: &mut Output) {
        let made = match asked.grow {
            None => self.delegate_anew(now, asked, out),
            Some(number) => self.grow(now, number, &asked, out),
        };
        if let Err(cause) = made {
            out.problems.push(Problem::Command(cause));
        }
    }

    fn delegate_anew(&mut self, now: Time, asked: Asked, out: &mut Output) -> Result<(), String> {
        let Asked { broker, resource, units, length, .. } = asked;
        if !self.base.is_known(broker, Role::Broker) {
            return Err("units are delegated to a broker that is known here".to_owned());
        }
        if self.stack_of_type(&resource).is_some() {
            return Err(format!(
                "units of `{resource}` are in stacks: what they are offered to is configured"
            ));
        }
        let left = self.undelegated(&resource);
        if units.get() > left && !mutant!(HandDelegatesTooMuch) {
            return Err(format!(
                "{units} units of `{resource}` cannot be delegated, {left} are left"
            ));
        }
        let two = self.base.two_margins();
        if length <= two {
            return Err(format!(
                "a delegation for {length} is too short: it lasts longer than {two}"
            ));
        }
        let term = Term::lasting(now, length).map_err(|empty| empty.to_string())?;
        let offer = Offer { broker, resource, unit: None, units, length, renew_before: Span::ZERO };
        let number = self.state.last_delegation + 1;
        let ticket = self.generation(&offer, (number, 0), term);
        self.emit(now, DelegatedByHand { ticket }, out);
        Ok(())
    }

    /// The next generation of a delegation: more units, or a later end.
    fn grow(
        &mut self,
        now: Time,
        number: u64,
        asked: &Asked,
        out: &mut Output,
    ) -> Result<(), String> {
        let absent = || format!("there is no delegation {number} of `{}` to it", asked.resource);
        let delegation = self.state.delegations.get(&number).ok_or_else(absent)?;
        let link = delegation.ticket.bottom();
        if link.holder != asked.broker || link.resource != asked.resource {
            return Err(absent());
        }
        let end = now.plus(asked.length);
        if asked.units.get() < delegation.left || end < link.term.end() {
            let (left, end) = (delegation.left, link.term.end());
            return Err(format!(
                "delegation {number} has {left} units until {end}, and only grows"
            ));
        }
        if link.clauses.stacked.is_some() && asked.units.get() > 1 {
            return Err(format!("delegation {number} is for one unit, which shares stacks"));
        }
        let more = asked.units.get().saturating_sub(delegation.held);
        let free = self.undelegated(&link.resource);
        if more > free {
            return Err(format!(
                "{more} more units of `{}` cannot be delegated, {free} are left",
                link.resource
            ));
        }
        let generation = link.delegation.map_or(0, |generation| generation.generation + 1);
        let term = Term::new(link.term.start(), end).map_err(|empty| empty.to_string())?;
        let by_hand = delegation.by_hand;
        let offer = Offer {
            broker: link.holder,
            resource: link.resource.clone(),
            unit: link.clauses.stacked.as_ref().and_then(|s| self.notes_of(s.unit).name),
            units: asked.units,
            length: asked.length,
            renew_before: Span::ZERO,
        };
        let ticket = self.generation(&offer, (number, generation), term);
        if by_hand {
            self.emit(now, DelegatedByHand { ticket }, out);
        } else {
            self.emit(now, super::facts::DelegationIssued { ticket }, out);
        }
        Ok(())
    }

    /// Takes back units of a delegation. What was cut from it stays covered.
    pub(super) fn take_delegation(
        &mut self,
        now: Time,
        ticket: &Ticket,
        (number, units, from): (u32, NonZeroU32, Time),
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let (me, link) = (self.base.id(), ticket.bottom());
        self.base.credentials.check_ticket(ticket, me, link.holder)?;
        if link.term.end() <= now {
            return Err(Refusal::TooLate(link.term.end()));
        }
        if let Some(refusal) = self.not_covered(ticket, false) {
            self.refuse_uncovered(now, ticket, refusal, out);
            return Ok(());
        }
        let account = self.state.claims.account(link.account());
        let newest = account.is_none_or(|account| {
            let known = account.head().delegation.map(|known| known.generation);
            known <= link.delegation.map(|shown| shown.generation)
        });
        if !newest {
            let cause = "a later generation of the delegation is known".to_owned();
            return Err(Refusal::Malformed(cause));
        }
        let left = self.state.claims.left_of_delegation(link, from.max(now));
        let parts = super::returns::take(left, units.get());
        let whole = parts.iter().map(|(part, _)| part.get()).sum::<u32>() == units.get();
        let free = self.state.claims.free_with(link).zip(parts.first());
        let sold =
            free.is_some_and(|(free, (_, term))| free.free_over(*term) < i64::from(units.get()));
        if !whole || (sold && !mutant!(TakesBackWhatIsSold)) {
            let cause = format!("{units} units are not left of the delegation from {from} on");
            return Err(Refusal::Malformed(cause));
        }
        let receipts = self.sign_receipts(link, parts);
        let ticket = self.base.credentials.share(ticket.clone());
        let hash = ticket.hash();
        self.emit(now, RightsReturned { ticket, number, receipts }, out);
        self.answer_return(hash, number, out);
        Ok(())
    }

    /// Whether there is room to remember another return of a ticket.
    pub(super) fn admits_return(&self, ticket: &Ticket) -> Result<(), Refusal> {
        self.state.charges.admit(&self.limits, ticket, &Properties::default())
    }

    /// Units of a delegation came back.
    pub(super) fn delegation_returned(
        &mut self,
        at: Time,
        link: &SignedLink,
        receipts: &[Receipt],
    ) {
        for receipt in receipts {
            let what = &receipt.what;
            self.state.claims.retire(link, what.into(), what.term.start());
        }
        let number = link.delegation.map(|generation| generation.delegation);
        let own = number.filter(|_| link.issuer == self.base.id());
        let held = self.held_under(link.account(), at);
        let Some(delegation) = own.and_then(|own| self.state.delegations.get_mut(&own)) else {
            return;
        };
        delegation.held = held;
        for what in receipts.iter().map(|receipt| &receipt.what) {
            if what.term.end() == link.term.end() {
                delegation.left = delegation.left.saturating_sub(what.units.get());
                delegation.given_back += what.units.get();
            }
        }
        if delegation.left == 0
            && let Some(number) = own
        {
            // There is nothing to renew.
            self.state.timers.set(Timer::Renewal(number), None);
        }
    }

    /// The most units that a delegation covers from an instant on.
    pub(super) fn held_under(&self, account: AccountId, at: Time) -> u32 {
        let account = self.state.claims.account(account);
        account.map_or(0, |account| u32::try_from(account.most_from(at)).unwrap_or(u32::MAX))
    }
}
