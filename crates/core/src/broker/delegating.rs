//! How a broker delegates to other brokers: as a site does, from what it holds.
//!
//! A delegation is promised until an instant. As long as the broker's own delegation ends earlier, so
//! does the one cut from it; each time the former is renewed, so is the latter.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{Broker, Obligation, Output, Timer};
use crate::actor::effect::Problem;
use crate::actor::{Cause, Emit as _, Role, dropped};
use crate::broker::facts::{DelegationAcknowledged, DelegationIssued, IssuedDelegationEnded};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::price::price_of;
use crate::model::resource::Attributes;
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::ticket::Ticket;
use crate::ticket::ledger::LEDGER_RETENTION;
use crate::ticket::link::{AccountId, DelegationId, Generation, Link, LinkHash, SignedLink};
use crate::wire::message::Message;

/// A delegation to another broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Delegated {
    /// The newest generation.
    pub(super) ticket: Ticket,
    /// The attributes of its units.
    pub(super) attributes: Attributes,
    /// Until when it is promised.
    pub(super) until: Time,
    /// The receipts for parts of it, by link and number, each with the fact by which it was taken.
    pub(super) credited: BTreeMap<(LinkHash, u32), Cause>,
    /// The generation by which it is recalled: the one that was the newest at the first recall.
    pub(super) recalled: Option<Ticket>,
}

/// A delegation to another broker, for display.
#[derive(Clone, Copy, Debug)]
pub struct DelegatedSurvey<'a> {
    /// The newest generation.
    pub ticket: &'a Ticket,
    /// Until when it is promised.
    pub until: Time,
    /// How many units its holder has left at an instant.
    pub left: u32,
    /// Whether its holder has yet to say that it has it.
    pub pending: bool,
}

/// What a broker's operator asks for: see [`Command::Delegate`](super::Command::Delegate).
pub(super) struct Asked {
    pub(super) to: ActorId,
    pub(super) from: DelegationId,
    pub(super) units: NonZeroU32,
    pub(super) length: Span,
    pub(super) grow: Option<u64>,
}

/// A generation that is to be issued.
pub(super) struct Draft {
    pub(super) to: ActorId,
    pub(super) generation: Generation,
    pub(super) units: NonZeroU32,
    /// When it starts, and until when it is promised.
    pub(super) start: Time,
    pub(super) until: Time,
}

impl Broker {
    /// The delegations to other brokers.
    pub fn issued_delegations(&self, at: Time) -> impl Iterator<Item = DelegatedSurvey<'_>> {
        self.state.delegated.iter().map(move |(number, delegated)| DelegatedSurvey {
            ticket: &delegated.ticket,
            until: delegated.until,
            left: self.left_of_issued(delegated, at),
            pending: self.state.pending.requires(&Obligation::Delegate(*number)),
        })
    }

    /// The most units that the holder of a delegation has from an instant on.
    fn left_of_issued(&self, delegated: &Delegated, at: Time) -> u32 {
        let account = self.state.ledger.account(delegated.ticket.bottom().account());
        let most = account.map_or(0, |account| account.most_from(at));
        u32::try_from(most).unwrap_or(0)
    }

    pub(super) fn delegate(
        &mut self,
        now: Time,
        asked: &Asked,
        out: &mut Output,
    ) -> Result<(), String> {
        if !self.base.is_known(asked.to, Role::Broker) || asked.to == self.base.id() {
            return Err("units are delegated to a broker that is known here".to_owned());
        }
        let account = AccountId::Delegation(asked.from);
        let until = now.plus(asked.length);
        let draft = match asked.grow {
            None => {
                let generation =
                    Generation { delegation: self.state.last_delegation + 1, generation: 0 };
                Draft { to: asked.to, generation, units: asked.units, start: now, until }
            }
            Some(number) => self.growth(number, (account, until), asked)?,
        };
        self.issue(now, account, &draft, out)
    }

    /// The next generation of a delegation that is to grow.
    fn growth(
        &self,
        number: u64,
        (account, until): (AccountId, Time),
        asked: &Asked,
    ) -> Result<Draft, String> {
        let absent = || format!("there is no delegation {number} to that broker from there");
        let old = self.state.delegated.get(&number).ok_or_else(absent)?;
        let link = old.ticket.bottom();
        if link.holder != asked.to || old.ticket.account_above() != Some(account) {
            return Err(absent());
        }
        let left = self.left_at_end(link);
        if asked.units.get() < left || until < link.term.end() {
            let end = link.term.end();
            return Err(format!(
                "delegation {number} has {left} units until {end}, and only grows"
            ));
        }
        let generation = link.delegation.map_or(0, |generation| generation.generation + 1);
        Ok(Draft {
            to: asked.to,
            generation: Generation { delegation: number, generation },
            units: asked.units,
            start: link.term.start(),
            until: until.max(old.until),
        })
    }

    /// How many units a delegation, held or issued, has left when its newest generation ends.
    pub(super) fn left_at_end(&self, link: &SignedLink) -> u32 {
        let left = self.state.ledger.left_of_delegation(link, link.term.start());
        let lasting = left.iter().filter(|(_, term)| term.end() == link.term.end());
        lasting.map(|(units, _)| units.get()).sum()
    }

    pub(super) fn issue(
        &mut self,
        now: Time,
        account: AccountId,
        draft: &Draft,
        out: &mut Output,
    ) -> Result<(), String> {
        let issued = self.draft(now, account, draft)?;
        self.emit(now, issued, out);
        Ok(())
    }

    /// A generation as it is to be issued, after all checks.
    pub(super) fn draft(
        &mut self,
        now: Time,
        account: AccountId,
        draft: &Draft,
    ) -> Result<DelegationIssued, String> {
        let absent = || format!("there is no delegation {account} to take units from");
        let parent = self.state.holdings.get(&account).ok_or_else(absent)?.ticket.clone();
        let above = parent.bottom();
        let start = draft.start.max(above.term.start());
        let end = draft.until.min(above.term.end());
        let term = Term::new(start, end).map_err(|empty| empty.to_string())?;
        if end <= now.plus(self.base.two_margins()) {
            return Err(format!("a delegation until {end} is too short"));
        }
        let price = price_of(self.attributes_of(account, &self.state.holdings[&account]));
        let link = Link {
            parent: Some(above.hash()),
            issuer: self.base.id(),
            holder: draft.to,
            resource: above.resource.clone(),
            units: draft.units,
            term,
            constraints: above.constraints.clone(),
            clauses: above.clauses.inherited().priced(price),
            delegation: Some(draft.generation),
            extends: None,
            serial: self.state.serial + 1,
        };
        let ticket = parent.with(self.base.credentials.sign_link(link));
        ticket.check_shape(parent.site(), draft.to).map_err(|fault| fault.to_string())?;
        if ticket.links().len() >= crate::ticket::MAX_DEPTH {
            return Err("no ticket could be cut from a chain this long".to_owned());
        }
        let covered = self.state.ledger.check(parent.bottom(), ticket.bottom());
        if let Err(short) = covered
            && !mutant!(DelegatesTwice)
        {
            let (units, at) = (draft.units, short.at);
            return Err(format!("{units} units are more than are free at {at}"));
        }
        if let Some(stacked) = &above.clauses.stacked
            && let Some((stack, _)) = self.state.ledger.token_taken(stacked, draft.to, term)
        {
            return Err(format!("the token of stack `{stack}` is another's within {term}"));
        }
        let attributes =
            self.state.holdings.get(&account).map(|held| self.attributes_of(account, held));
        let attributes = attributes.cloned().unwrap_or_default();
        Ok(DelegationIssued { ticket, attributes, until: draft.until })
    }

    /// Renews what was delegated from a holding that was renewed.
    pub(super) fn cascade(&mut self, now: Time, account: AccountId, out: &mut Output) {
        if mutant!(RenewalStops) {
            return;
        }
        let known = self.state.holdings.get(&account).map(|held| self.attributes_of(account, held));
        let of_it = self.state.delegated.iter().filter(|(_, delegated)| {
            let end = delegated.ticket.bottom().term.end();
            let outdated = end < delegated.until || Some(&delegated.attributes) != known;
            delegated.ticket.account_above() == Some(account) && outdated
        });
        let numbers: Vec<u64> = of_it.map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(old) = self.state.delegated.get(&number) else { continue };
            let (link, until) = (old.ticket.bottom(), old.until);
            let (to, start) = (link.holder, link.term.start());
            let generation = link.delegation.map_or(0, |generation| generation.generation + 1);
            // Nothing of what came back is delegated again.
            let Some(units) = NonZeroU32::new(self.left_at_end(link)) else { continue };
            let generation = Generation { delegation: number, generation };
            let draft = Draft { to, generation, units, start, until };
            if let Err(cause) = self.issue(now, account, &draft, out) {
                let cause = format!("delegation {number} is not renewed: {cause}");
                out.problems.push(Problem::Command(cause));
            }
        }
    }

    pub(super) fn delegation_issued(&mut self, at: Time, fact: &DelegationIssued) {
        let DelegationIssued { ticket, attributes, until } = fact;
        let [.., parent, link] = ticket.links() else { return };
        let Some(Generation { delegation: number, .. }) = link.delegation else { return };
        let changes = self.state.ledger.enter(parent, link, at);
        self.change_total(&link.resource, &changes, -1);
        self.state.serial = self.state.serial.max(link.serial);
        self.state.last_delegation = self.state.last_delegation.max(number);
        let old = self.state.delegated.remove(&number);
        let (credited, recalled) = old.map(|old| (old.credited, old.recalled)).unwrap_or_default();
        let (ticket, attributes) = (ticket.clone(), attributes.clone());
        let delegated = Delegated { ticket, attributes, until: *until, credited, recalled };
        self.state.delegated.insert(number, delegated);
        // As long as its holder can still sell under it on a slower clock.
        let end = link.term.end().plus(LEDGER_RETENTION).plus(self.base.margin());
        self.state.timers.set(Timer::IssuedEnd(number), Some(end));
        self.state.pending.require(Obligation::Delegate(number), self.base.position, at);
    }

    /// What is free of a type has changed.
    pub(super) fn change_total(&mut self, resource: &Name, changes: &[(Term, i64)], sign: i64) {
        if let Some(total) = self.state.totals.get_mut(resource) {
            changes.iter().for_each(|&(term, units)| total.add(term, units * sign));
        }
    }

    /// The other broker has a delegation.
    pub(super) fn acknowledged(
        &mut self,
        now: Time,
        from: ActorId,
        (id, generation): (DelegationId, u32),
        out: &mut Output,
    ) {
        let current = self.state.delegated.get(&id.number).map(|d| d.ticket.bottom());
        if current.is_none_or(|link| link.holder != from) {
            return out.problems.push(dropped("delegated", "it has no such delegation"));
        }
        let matches = id.issuer == self.base.id()
            && current.is_some_and(|link| {
                link.holder == from && link.delegation.is_some_and(|g| g.generation == generation)
            });
        if matches && self.state.pending.requires(&Obligation::Delegate(id.number)) {
            self.emit(now, DelegationAcknowledged { number: id.number, generation }, out);
        }
    }

    pub(super) fn issued_end(&mut self, now: Time, number: u64, out: &mut Output) {
        self.emit(now, IssuedDelegationEnded { number }, out);
    }

    pub(super) fn issued_ended(&mut self, number: u64) {
        self.state.timers.set(Timer::IssuedEnd(number), None);
        self.state.pending.settle(&Obligation::Delegate(number));
        self.lot_ended(number);
        let ended = self.state.delegated.remove(&number);
        if let Some(recalled) = ended.and_then(|ended| ended.recalled) {
            self.end_recall(recalled.hash());
        }
    }

    /// What was cut from a holding ends with it.
    pub(super) fn end_issued_under(&mut self, account: AccountId) {
        let below = self.state.delegated.iter();
        let below =
            below.filter(|(_, delegated)| delegated.ticket.account_above() == Some(account));
        let numbers: Vec<u64> = below.map(|(number, _)| *number).collect();
        for number in numbers {
            self.issued_ended(number);
        }
    }

    /// The offer of a delegation to another broker.
    pub(super) fn delegate_message(&self, number: u64) -> Option<(ActorId, Message)> {
        let delegated = self.state.delegated.get(&number)?;
        let (ticket, attributes) = (delegated.ticket.clone(), delegated.attributes.clone());
        Some((ticket.bottom().holder, Message::Delegate { ticket, attributes }))
    }

    /// What it waits for, in words.
    pub(super) fn owed(&self) -> impl Iterator<Item = String> + use<'_> {
        let first = Obligation::Delegate(0);
        let last = Obligation::Delegate(u64::MAX);
        let offers = self.state.pending.between(first, last).filter_map(|owed| match owed {
            Obligation::Delegate(number) => {
                Some(format!("delegation {number} is not acknowledged"))
            }
            Obligation::Return(_)
            | Obligation::Credit(_)
            | Obligation::Reclaim(_)
            | Obligation::Recall(_)
            | Obligation::HostsChanged(..)
            | Obligation::Pass(_)
            | Obligation::Take(..)
            | Obligation::Common(_) => None,
        });
        let returns = self.state.returning.keys();
        offers.chain(returns.map(|account| format!("units of {account} are on their way back")))
    }
}
