//! What a request asks for beside its items, and what became of it before.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::time::Time;

/// The most sites that one request excludes, and the most units.
pub const MAX_EXCLUDED: usize = 64;

/// Conditions on how a request is met. There are none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provisos {
    /// On the sites' clocks, its tickets are first redeemed before this instant, or not at all.
    pub redeem_by: Option<Time>,
    /// Sites that no unit is to come from.
    pub not_at: BTreeSet<ActorId>,
    /// Units that are not wanted, each by its site and its number there.
    pub not_on: BTreeSet<(ActorId, UnitId)>,
}

impl Provisos {
    /// There are none.
    pub const NONE: Self =
        Self { redeem_by: None, not_at: BTreeSet::new(), not_on: BTreeSet::new() };

    /// Whether they are within their bounds; the reason if not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let counts = [("sites", self.not_at.len()), ("units", self.not_on.len())];
        match counts.into_iter().find(|(_, count)| *count > MAX_EXCLUDED) {
            None => Ok(()),
            Some((what, more)) => {
                Err(format!("{more} {what} are excluded, more than {MAX_EXCLUDED}"))
            }
        }
    }

    /// The units of a site that are excluded.
    pub fn not_on_at(&self, site: ActorId) -> BTreeSet<UnitId> {
        let its = self.not_on.iter().filter(|(of, _)| *of == site);
        its.map(|(_, unit)| *unit).collect()
    }
}

/// What became of a request until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// When its asker first asked for it, on the asker's clock: the first of its tries.
    pub asked: Time,
    /// Counts the requests for the same, from 1: earlier ones were refused.
    pub tries: u32,
    /// Counts its revisions, from 0; a higher one replaces a lower one.
    pub revision: u32,
    /// Of a revision, the last word of the request as it was first asked for.
    pub first_word: Option<Time>,
}

impl History {
    /// The first try, asked for now.
    pub fn first(now: Time) -> Self {
        Self { asked: now, tries: 1, revision: 0, first_word: None }
    }
}
