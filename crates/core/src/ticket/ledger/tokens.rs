//! The tokens of stacks in a ledger: of the tickets that go with a token, those that run at one time have one
//! holder.

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::Ledger;
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
        self.conflict(stacked, |hash, other| {
            let common = other.term.from(term.start()).and_then(|common| common.until(term.end()));
            other.holder != holder
                && common.is_some_and(|common| self.still_out(hash, other, common))
        })
    }

    /// As [`token_taken`](Self::token_taken), of a tree of claims: only tickets count, no link of the chain
    /// itself, and none that was handed on.
    pub fn token_claimed(
        &self,
        stacked: &StackedUnit,
        chain: &[SignedLink],
    ) -> Option<(Name, TokenUse)> {
        let bottom = chain.last()?;
        self.conflict(stacked, |hash, other| {
            let own = chain.iter().any(|link| link.hash() == hash);
            let term = bottom.term;
            let common = other.term.from(term.start()).and_then(|common| common.until(term.end()));
            let left = self.free(AccountId::Link(hash));
            let kept = common.is_some_and(|term| left.is_none_or(|left| left.free_over(term) > 0));
            kept && other.holder != bottom.holder && !other.delegated && !own
        })
    }

    /// Whether a link that ran over a term still does: a delegation may have come back.
    fn still_out(&self, hash: LinkHash, used: &TokenUse, term: Term) -> bool {
        if !used.delegated {
            return true;
        }
        let link = self.entered(hash).map(|(_, link)| link);
        let left = link.map(|link| self.left_of_delegation(link, term.start())).unwrap_or_default();
        left.iter().any(|(_, left)| left.overlaps(term))
    }

    fn conflict(
        &self,
        stacked: &StackedUnit,
        conflicts: impl Fn(LinkHash, &TokenUse) -> bool,
    ) -> Option<(Name, TokenUse)> {
        if mutant!(TokensNotChecked) {
            return None;
        }
        stacked.tokens.iter().find_map(|token| {
            let mut uses = self.tokens.uses(&(stacked.site, token.clone()));
            let (_, found) = uses.find(|(hash, other)| conflicts(*hash, other))?;
            Some((token.clone(), found))
        })
    }
}
