//! Recalls: an issuer takes back what it handed on, and how that is agreed upon.

use serde::{Deserialize, Serialize};

use crate::driver::UnitId;
use crate::model::resource::{Attributes, is_best_effort};
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::ticket::link::{Assurance, Clauses, Link, LinkHash};
use crate::wire::request::Item;

/// How many units of a link stay: never a difference, and the highest number wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Counts the recalls of the link, from 0.
    pub number: u32,
    /// At most so many units stay; all of them withdraw an earlier recall. Generations of a delegation
    /// differ in their units: of one that is recalled no more, [`ALL`](Self::ALL) stay.
    pub units: u32,
    /// From when on.
    pub from: Time,
}

impl Level {
    /// All units of a delegation, whatever its later generations add.
    pub const ALL: u32 = u32::MAX;

    /// The level after the last one of a link with so many units: of `stay` of them, or, without a number, of
    /// all, which withdraws the last one.
    pub(crate) fn after(
        last: Option<Self>,
        link: &Link,
        stay: Option<u32>,
        from: Time,
    ) -> Result<Self, String> {
        let all = link.units.get();
        let units = match (stay, last) {
            (Some(units), _) if units < all => units,
            (Some(units), _) => {
                return Err(format!("{units} units cannot stay of {all}: fewer are to"));
            }
            (None, Some(_)) if link.delegation.is_some() => Self::ALL,
            (None, Some(_)) => all,
            (None, None) => return Err("the ticket is not recalled".to_owned()),
        };
        let number = last.map_or(0, |last| last.number.saturating_add(1));
        Ok(Self { number, units, from })
    }

    /// Whether it leaves all of a link: a recall is withdrawn.
    pub(crate) fn leaves_all(&self, link: &Link) -> bool {
        let all = if link.delegation.is_some() { Self::ALL } else { link.units.get() };
        all <= self.units
    }
}

/// What a site tells the holder of a lease that loses units, or of a ticket that is not redeemed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The link that is recalled.
    pub link: LinkHash,
    /// The number of the recall.
    pub number: u32,
    /// How many units of the lease stay.
    pub units: u32,
    /// From when on.
    pub at: Time,
    /// The units that go first, of those that the holder named.
    pub victims: Vec<UnitId>,
    /// Whether it takes rights of a ticket that is not redeemed, and no units in use.
    pub unclaimed: bool,
}

/// Which clauses an asker accepts on its ticket. None unless it says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepts {
    /// Units in use may be recalled, after at least this notice.
    pub notice: Option<Span>,
    /// No recall takes units in use before the term has lasted so long.
    pub min_tenure: Option<Span>,
}

impl Accepts {
    /// Whether it makes sense; an extension keeps the clauses of what it extends.
    pub(crate) fn check(&self, extends: bool) -> Result<(), String> {
        let spans = [self.notice, self.min_tenure];
        if spans.into_iter().flatten().any(|span| !span.is_positive()) {
            return Err("a notice or a shortest tenure of no time".to_owned());
        }
        if self.min_tenure.is_some() && self.notice.is_none() {
            return Err("a shortest tenure without a notice: nothing in use is recalled".to_owned());
        }
        if extends && *self != Self::default() {
            return Err("an extension keeps the clauses of what it extends".to_owned());
        }
        Ok(())
    }

    /// The clauses of a ticket that starts then, above what is inherited.
    pub(crate) fn clauses(&self, inherited: Clauses, start: Time) -> Clauses {
        let not_before = self.min_tenure.map(|tenure| start.plus(tenure));
        Clauses { notice: self.notice, not_before, ..inherited }
    }

    /// Whether units may be best-effort.
    fn best_effort(&self) -> bool {
        self.notice.is_some() || mutant!(BestEffortForAll)
    }

    /// Whether a ticket's link reserves no more than is accepted.
    pub(crate) fn allow(&self, link: &Link) -> bool {
        let Clauses { notice, not_before, assurance, .. } = link.clauses;
        if assurance == Assurance::BestEffort && !self.best_effort() {
            return false;
        }
        let Some(notice) = notice else { return true };
        let least = self.min_tenure.map(|tenure| link.term.start().plus(tenure));
        self.notice.is_some_and(|least| least <= notice)
            && least.is_none_or(|least| not_before.is_some_and(|not_before| least <= not_before))
    }
}

impl Item {
    /// Whether it may have units with these attributes: best-effort ones only if it accepts that they are
    /// recalled. An extension keeps the clauses of what it extends.
    pub(crate) fn may_have(&self, attributes: &Attributes) -> bool {
        self.extends.is_some() || self.accepts.best_effort() || !is_best_effort(attributes)
    }
}

impl Clauses {
    /// When a recall that was recorded at `told` takes units in use, if it may.
    pub(crate) fn takes_at(&self, told: Time, from: Time) -> Option<Time> {
        let at = from.max(told.plus(self.notice?));
        Some(self.not_before.map_or(at, |not_before| at.max(not_before)))
    }

    /// What a ticket that extends one with these clauses has of them.
    pub(crate) fn extended(&self, inherited: Self) -> Self {
        let kept = Self { notice: self.notice, not_before: self.not_before, ..inherited };
        kept.without(self.not_on.clone())
    }
}
