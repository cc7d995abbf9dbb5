//! Units in stacks: who has one of a stack keeps the others of it from everybody else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Draft, OfType, Search};
use crate::broker::mapper::Source;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::time::Term;
use crate::ticket::ledger::Token;
use crate::ticket::link::AccountId;

/// What a round has booked that goes with tokens.
#[derive(Clone, Debug)]
pub(super) struct Booked {
    site: ActorId,
    tokens: Arc<BTreeSet<Name>>,
    holder: ActorId,
    term: Term,
}

/// Where the items of a bundle may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot<'s> {
    site: ActorId,
    /// The one stack that units in stacks are to be of.
    stack: Option<&'s Name>,
}

impl Spot<'_> {
    /// Anything that a site has.
    pub(super) fn any_of(site: ActorId) -> Self {
        Self { site, stack: None }
    }

    pub(super) fn has(self, source: &Source) -> bool {
        let of_stack = |stack| source.tokens.is_empty() || source.tokens.contains(stack);
        source.site == self.site && self.stack.is_none_or(of_stack)
    }
}

impl Search<'_> {
    /// Where the items of a bundle may come from: a site or, where it has such units in stacks, one of these.
    pub(super) fn spots_of(&self, items: &[usize]) -> Vec<Option<Spot<'_>>> {
        let mut stacks: BTreeMap<ActorId, Vec<&Name>> = BTreeMap::new();
        let mut sites = Vec::new();
        for source in self.suiting(items) {
            let of_site = stacks.entry(source.site).or_insert_with(|| {
                sites.push(source.site);
                Vec::new()
            });
            let new: Vec<&Name> = source.tokens.iter().filter(|t| !of_site.contains(t)).collect();
            of_site.extend(new);
        }
        let of_site = |site: ActorId| {
            let of = stacks.get(&site).into_iter().flatten();
            let each: Vec<_> = of.map(|&stack| Some(Spot { site, stack: Some(stack) })).collect();
            if each.is_empty() { vec![Some(Spot::any_of(site))] } else { each }
        };
        sites.into_iter().flat_map(of_site).collect()
    }
}

/// What other items of a request take: units of accounts, and when, with the tokens that go with them.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    units: BTreeMap<AccountId, Vec<(Term, u32)>>,
    tokens: BTreeSet<Token>,
}

impl Taken {
    /// How many units of a source are taken within a term.
    pub(super) fn of(&self, source: &Source, term: Term) -> i64 {
        let taken = self.units.get(&source.account).into_iter().flatten();
        let beside = taken.filter(|(other, _)| other.overlaps(term));
        beside.map(|&(_, units)| i64::from(units)).sum()
    }

    pub(super) fn take(&mut self, source: &Source, term: Term, units: u32) {
        self.units.entry(source.account).or_default().push((term, units));
        self.tokens.extend(source.tokens.iter().map(|token| (source.site, token.clone())));
    }

    /// What sources have free, left to those in stacks of which something is taken, if that is enough: a request
    /// breaks into no further stack without need.
    pub(super) fn beside<'s>(
        &self,
        sources: impl Iterator<Item = &'s Source>,
        free: &[u32],
        units: u32,
    ) -> Option<Vec<u32>> {
        if self.tokens.is_empty() {
            return None;
        }
        let taken = |source: &Source| {
            source.tokens.iter().any(|token| self.tokens.contains(&(source.site, token.clone())))
        };
        let left = sources.zip(free).map(|(source, &free)| if taken(source) { free } else { 0 });
        let left: Vec<u32> = left.collect();
        (left.iter().copied().fold(0, u32::saturating_add) >= units).then_some(left)
    }
}

impl OfType {
    /// What each source has free, tokens aside, if some have any.
    pub(super) fn tokens_aside(sources: &[Source]) -> Option<Vec<Calendar>> {
        let stacked = sources.iter().any(|source| !source.tokens.is_empty());
        stacked.then(|| sources.iter().map(|source| source.free.clone()).collect())
    }
}

impl Draft<'_> {
    /// Shows what sources in stacks have free for one holder: nothing while another has one of their tokens.
    pub(super) fn show_to(&mut self, holder: ActorId) {
        let (view, booked) = (self.view, &self.booked);
        for of_type in self.types.values_mut() {
            let Some(tokens_aside) = &of_type.tokens_aside else { continue };
            for (source, free) in of_type.sources.iter_mut().zip(tokens_aside) {
                source.free = free.clone();
                for token in source.tokens.iter() {
                    let sold = view.token_uses(&(source.site, token.clone()));
                    let sold = sold.map(|used| (used.holder, used.term));
                    let of_round = booked.iter().filter(|booked| {
                        booked.site == source.site && booked.tokens.contains(token)
                    });
                    let of_round = of_round.map(|booked| (booked.holder, booked.term));
                    for (_, term) in sold.chain(of_round).filter(|(other, _)| *other != holder) {
                        source.free.add(term, -1);
                    }
                }
            }
        }
    }

    /// What is cut from an account goes with its tokens.
    pub(super) fn book_tokens(&mut self, source: &Source, holder: ActorId, term: Term) {
        if !source.tokens.is_empty() {
            let (site, tokens) = (source.site, Arc::clone(&source.tokens));
            self.booked.push(Booked { site, tokens, holder, term });
        }
    }
}
