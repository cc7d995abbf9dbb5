//! What a request asks for beside its items, and what became of it before.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::model::identity::ActorId;
use crate::model::time::Time;

/// The most sites that one request excludes.
pub const MAX_EXCLUDED: usize = 64;

/// Conditions on how a request is met. There are none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provisos {
    /// On the sites' clocks, its tickets are first redeemed before this instant, or not at all.
    pub redeem_by: Option<Time>,
    /// Sites that no unit is to come from.
    pub not_at: BTreeSet<ActorId>,
}

impl Provisos {
    /// There are none.
    pub const NONE: Self = Self { redeem_by: None, not_at: BTreeSet::new() };

    /// Whether they are within their bounds; the reason if not.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.not_at.len() {
            ..=MAX_EXCLUDED => Ok(()),
            more => Err(format!("{more} sites are excluded, more than {MAX_EXCLUDED}")),
        }
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
