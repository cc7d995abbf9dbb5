//! Stacks: units that are lent to one holder at a time, since they are of use only together.
//!
//! A unit of a type that has units in stacks is delegated on its own. The tokens of its stacks go with every ticket
//! for it, so each issuer keeps them with one holder at a time; the site checks it once more at a redeem.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use super::{Delegation, Offer, Plan, SiteAuthority};
use crate::actor::Emit as _;
use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::resource::{Attributes, STACKS, Set, UNIT, Value};
use crate::model::time::{Term, Time};
use crate::mutants::mutant;
use crate::site_authority::Output;
use crate::site_authority::facts::StacksPlanned;
use crate::ticket::Ticket;
use crate::ticket::link::{SignedLink, StackedUnit};
use crate::wire::refusal::Refusal;

/// The units of each stack, by their names.
pub type Stacks = BTreeMap<Name, BTreeSet<Name>>;

/// A stack, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSurvey<'a> {
    /// Its name.
    pub name: &'a Name,
    /// Its units.
    pub units: &'a BTreeSet<Name>,
    /// Who has its token, and when, of those whose terms are not over; the first to begin comes first.
    pub holders: Vec<(ActorId, Term)>,
}

impl Plan {
    /// The same, with an offer for each unit of a type that has units in stacks: the units by name, in the order of
    /// the offers.
    pub(super) fn unit_by_unit(self) -> Self {
        let stacked: BTreeSet<&Name> = self.stacks.values().flatten().collect();
        let mut left: BTreeMap<Name, Vec<Name>> = BTreeMap::new();
        for stock in &self.stock {
            if stock.named.keys().any(|name| stacked.contains(name)) {
                let names = stock.named.keys().rev().cloned().collect();
                left.insert(stock.resource.clone(), names);
            }
        }
        let mut offers = Vec::new();
        for offer in self.offers {
            let Some(names) = left.get_mut(&offer.resource) else {
                offers.push(offer);
                continue;
            };
            for unit in (0..offer.units.get()).map_while(|_| names.pop()) {
                let units = NonZeroU32::MIN;
                offers.push(Offer { units, unit: Some(unit), ..offer.clone() });
            }
        }
        Self { offers, ..self }
    }
}

impl SiteAuthority {
    /// The stacks at an instant.
    pub fn stacks(&self, now: Time) -> impl Iterator<Item = StackSurvey<'_>> {
        self.state.stacks.iter().map(move |(name, units)| {
            let uses = self.state.claims.tokens().uses(&(self.base.id(), name.clone()));
            let running = uses.filter(|(_, used)| !used.delegated && used.term.end() > now);
            let holders: BTreeSet<_> = running
                .map(|(_, used)| (used.term.start(), used.term.end(), used.holder))
                .collect();
            let term = |(start, end, holder)| Some((holder, Term::new(start, end).ok()?));
            let holders = holders.into_iter().filter_map(term).collect();
            StackSurvey { name, units, holders }
        })
    }

    /// Journals the stacks of the plan if they are others than before.
    pub(super) fn take_stacks(&mut self, now: Time, out: &mut Output) {
        if self.plan.stacks != self.state.stacks {
            let stacks = self.plan.stacks.clone();
            self.emit(now, StacksPlanned { stacks }, out);
        }
    }

    /// A stack with units of a type, which are delegated one by one, if there is one.
    pub(super) fn stack_of_type(&self, resource: &Name) -> Option<&Name> {
        let is_of_type = |name: &Name| {
            let unit = self.unit_named(name).and_then(|unit| self.state.units.get(&unit));
            unit.is_some_and(|unit| unit.resource == *resource)
        };
        let mut stacks = self.state.stacks.iter();
        stacks.find(|(_, units)| units.iter().any(is_of_type)).map(|(stack, _)| stack)
    }

    /// Whether a delegation is what the plan offers.
    pub(super) fn is_offered(&self, held: &Delegation, offer: &Offer) -> bool {
        let link = held.ticket.bottom();
        !held.by_hand
            && link.holder == offer.broker
            && link.resource == offer.resource
            && match (&offer.unit, &link.clauses.stacked) {
                (Some(name), Some(stacked)) => self.unit_named(name) == Some(stacked.unit),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            }
    }

    /// Whether an offer is for a unit that an operator has removed.
    pub(super) fn is_for_no_unit(&self, offer: &Offer) -> bool {
        offer.unit.as_ref().is_some_and(|unit| self.unit_named(unit).is_none())
    }

    /// The unit that a ticket for this offer names.
    pub(super) fn stacked_unit(&self, offer: &Offer) -> Option<Box<StackedUnit>> {
        let unit = self.unit_named(offer.unit.as_ref()?)?;
        Some(Box::new(StackedUnit { site: self.base.id(), unit, tokens: self.tokens_of(unit) }))
    }

    fn tokens_of(&self, unit: UnitId) -> BTreeSet<Name> {
        let Some(name) = self.notes_of(unit).name else { return BTreeSet::new() };
        let stacks = self.state.stacks.iter().filter(|(_, units)| units.contains(&name));
        stacks.map(|(stack, _)| stack.clone()).collect()
    }

    /// What the units of a delegation are like: of one that is for one unit, what that is like, its name, and its
    /// stacks.
    pub(super) fn attributes_under(&self, link: &SignedLink) -> Arc<Attributes> {
        let pool = self.state.stocks.get(&link.resource);
        let of_type = pool.map(|pool| Arc::clone(&pool.attributes)).unwrap_or_default();
        let Some(stacked) = &link.clauses.stacked else { return of_type };
        let mut attributes = (*of_type).clone();
        let notes = self.notes_of(stacked.unit);
        attributes.extend((*notes.attributes).clone());
        if let Some(name) = notes.name {
            attributes.insert(Name::literal(UNIT), Value::from(name.as_str()));
        }
        let stacks = self.tokens_of(stacked.unit);
        if let Ok(stacks) = Set::new(stacks.iter().map(|stack| Value::from(stack.as_str()))) {
            attributes.insert(Name::literal(STACKS), Value::Set(stacks));
        }
        Arc::new(attributes)
    }

    /// Why a ticket cannot be redeemed beside those of others: a unit with which it shares a stack is another
    /// holder's in its term, or it has not the tokens that its unit needs.
    pub(super) fn entangled(&self, ticket: &Ticket) -> Option<Refusal> {
        let link = ticket.bottom();
        let Some(stacked) = &link.clauses.stacked else {
            let stack = self.stack_of_type(&link.resource)?.clone();
            return Some(Refusal::NoToken { stack });
        };
        let missing = self.tokens_of(stacked.unit);
        if let Some(stack) = missing.difference(&stacked.tokens).next()
            && !mutant!(TokensLeftBehind)
        {
            return Some(Refusal::NoToken { stack: stack.clone() });
        }
        let (stack, used) = self.state.claims.token_claimed(stacked, ticket.links())?;
        Some(Refusal::Entangled { stack, until: used.term.end() })
    }
}
