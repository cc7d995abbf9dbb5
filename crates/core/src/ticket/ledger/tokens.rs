//! The tokens of stacks in a ledger: of the tickets that go with a token, those that run at one time have one
//! holder.

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::{Account, Ledger};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::time::Term;
use crate::mutants::mutant;
use crate::ticket::link::{AccountId, LinkHash, SignedLink, StackedUnit};

/// A token: its site, and the name of its stack there.
pub type Token = (ActorId, Name);

/// A token that goes with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUse {
    /// Who holds the link.
    pub holder: ActorId,
    /// From when to when, without what was given back.
    pub term: Term,
    /// Whether the link is a delegation.
    pub delegated: bool,
}

/// The links that each token goes with.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tokens(OrdMap<Token, OrdMap<LinkHash, TokenUse>>);

impl Tokens {
    /// A link runs over a term, or, without one, has come back.
    pub(super) fn set(&mut self, link: &SignedLink, term: Option<Term>) {
        let Some(stacked) = &link.clauses.stacked else { return };
        if term != Some(link.term) && mutant!(TokenStays) {
            return;
        }
        for token in &stacked.tokens {
            let token = (stacked.site, token.clone());
            let uses = self.0.entry(token.clone()).or_default();
            match term {
                Some(term) => {
                    let delegated = link.delegation.is_some();
                    uses.insert(link.hash(), TokenUse { holder: link.holder, term, delegated });
                }
                None => {
                    uses.remove(&link.hash());
                }
            }
            if uses.is_empty() {
                self.0.remove(&token);
            }
        }
    }

    /// The links that a token goes with.
    pub(crate) fn uses<'a>(
        &'a self,
        token: &Token,
    ) -> impl Iterator<Item = (LinkHash, TokenUse)> + use<'a> {
        let uses = self.0.get(token).into_iter().flatten();
        uses.map(|(hash, token_use)| (*hash, *token_use))
    }

    /// All of them, for those that keep them in a list.
    pub(crate) fn list(&self) -> impl Iterator<Item = (&Token, LinkHash, TokenUse)> {
        self.0.iter().flat_map(|(token, uses)| {
            uses.iter().map(move |(hash, token_use)| (token, *hash, *token_use))
        })
    }
}

impl FromIterator<(Token, LinkHash, TokenUse)> for Tokens {
    fn from_iter<I: IntoIterator<Item = (Token, LinkHash, TokenUse)>>(uses: I) -> Self {
        let mut tokens = Self::default();
        for (token, hash, token_use) in uses {
            tokens.0.entry(token).or_default().insert(hash, token_use);
        }
        tokens
    }
}

impl Ledger {
    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// A token of a unit that another holder has within a term, of this ledger's tickets and delegations: who,
    /// and when.
    pub fn token_taken(
        &self,
        stacked: &StackedUnit,
        holder: ActorId,
        term: Term,
    ) -> Option<(Name, TokenUse)> {
        self.conflict(stacked, (holder, term), |hash, other| {
            !other.delegated || self.is_left_of_delegation(hash, term)
        })
    }

    /// As [`token_taken`](Self::token_taken), of a tree of claims: only tickets count, no link of the chain
    /// itself, and none that was handed on, which nobody can use any more.
    pub fn token_claimed(
        &self,
        stacked: &StackedUnit,
        chain: &[SignedLink],
    ) -> Option<(Name, TokenUse)> {
        let bottom = chain.last()?;
        self.conflict(stacked, (bottom.holder, bottom.term), |hash, other| {
            let own = chain.iter().any(|link| link.hash() == hash);
            let account = self.account(AccountId::Link(hash));
            !own && !other.delegated && !account.is_some_and(Account::has_children)
        })
    }

    /// Whether a generation of a delegation has anything left within a term.
    fn is_left_of_delegation(&self, hash: LinkHash, term: Term) -> bool {
        let link = self.entered(hash).map(|(_, link)| link);
        let left = link.map(|link| self.left_of_delegation(link, term.start())).unwrap_or_default();
        left.iter().any(|(_, left)| left.overlaps(term))
    }

    /// Of the links that count, one of another holder that has a token of the unit within the term.
    fn conflict(
        &self,
        stacked: &StackedUnit,
        (holder, term): (ActorId, Term),
        counts: impl Fn(LinkHash, &TokenUse) -> bool,
    ) -> Option<(Name, TokenUse)> {
        if mutant!(TokensNotChecked) {
            return None;
        }
        stacked.tokens.iter().find_map(|token| {
            let mut uses = self.tokens.uses(&(stacked.site, token.clone()));
            let (_, found) = uses.find(|(hash, other)| {
                other.holder != holder && other.term.overlaps(term) && counts(*hash, other)
            })?;
            Some((token.clone(), found))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;
    use crate::driver::UnitId;
    use crate::model::identity::{Scheme, Signer};
    use crate::model::resource::Constraints;
    use crate::model::time::Time;
    use crate::ticket::ledger::PartReturned;
    use crate::ticket::link::{Clauses, Link};

    fn signer(who: u8) -> Signer {
        Signer::from_seed(Scheme::None, [who; 32])
    }

    fn at(n: i64) -> Time {
        Time::from_micros(n)
    }

    /// A link for a unit with the tokens of these stacks.
    fn link(unit: u32, stacks: &BTreeSet<u8>, holder: u8, term: Term, serial: u64) -> SignedLink {
        let token = |stack: &u8| Name::new(&format!("s{stack}")).unwrap();
        let site = signer(0).id();
        let tokens = stacks.iter().map(token).collect();
        let stacked = Some(Box::new(StackedUnit { site, unit: UnitId(unit), tokens }));
        let link = Link {
            parent: None,
            issuer: site,
            holder: signer(holder).id(),
            resource: Name::literal("phone"),
            units: NonZeroU32::MIN,
            term,
            constraints: Constraints::NONE,
            clauses: Clauses { stacked, ..Clauses::NONE },
            delegation: None,
            extends: None,
            serial,
        };
        SignedLink::sign(link, &signer(0))
    }

    type Step = (BTreeSet<u8>, u8, (i64, i64), Option<i64>);

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let stacks = prop::collection::btree_set(0..4u8, 1..3);
        let step = (stacks, 1..4u8, (0..40i64, 1..20i64), prop::option::of(0..60i64));
        prop::collection::vec(step, 1..25)
    }

    proptest! {
        /// A link is entered if no other holder has one of its tokens, by a plain list of what is out. Then some
        /// of them come back from an instant on.
        #[test]
        fn a_token_is_with_one_holder_at_a_time(steps in steps()) {
            let mut ledger = Ledger::default();
            let mut out: Vec<(BTreeSet<u8>, u8, Term)> = Vec::new();
            let whole = Term::new(at(0), at(100)).unwrap();
            for (serial, (stacks, holder, (start, length), back)) in (0u32..).zip(steps) {
                let term = Term::new(at(start), at(start + length)).unwrap();
                let child = link(serial, &stacks, holder, term, u64::from(serial) + 100);
                let stacked = child.clauses.stacked.clone().unwrap();
                let parent = link(serial, &stacks, 0, whole, u64::from(serial) + 1000);
                let taken = ledger.token_taken(&stacked, child.holder, term).is_some();
                let expected = out.iter().any(|(other, who, when)| {
                    *who != holder && when.overlaps(term) && !other.is_disjoint(&stacks)
                });
                prop_assert_eq!(taken, expected);
                if taken {
                    continue;
                }
                ledger.enter(&parent, &child, at(0));
                let from = back.map_or(term.end(), at);
                if let Some(rest) = term.from(from) {
                    let part = PartReturned { number: 0, units: NonZeroU32::MIN, term: rest };
                    ledger.give_back(child.hash(), part, from);
                }
                out.extend(term.until(from).map(|kept| (stacks, holder, kept)));
            }
        }
    }
}
