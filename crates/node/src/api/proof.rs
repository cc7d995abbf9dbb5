//! What users hold in hand as proof, in a form that can be given to others: links in hexadecimal digits.

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use tenure_core::ticket::evidence::Evidence;
use tenure_core::ticket::link::SignedLink;

/// Evidence of over-issue as `tenure ticket verify --evidence` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceView {
    /// The tickets that the links were cut from, each as its links, root first.
    pub parents: Vec<Vec<String>>,
    /// The links.
    pub links: Vec<String>,
    /// The instant at which they exceed what they were cut from, to the microsecond.
    pub at: String,
}

impl EvidenceView {
    /// The evidence as text.
    pub fn of(evidence: &Evidence) -> Self {
        let parents = evidence.parents.iter().map(|parent| parent.links().iter().map(hex));
        let at = DateTime::from_timestamp_micros(evidence.at.as_micros());
        Self {
            parents: parents.map(Iterator::collect).collect(),
            links: evidence.links.iter().map(hex).collect(),
            at: at.map_or_else(
                || evidence.at.to_string(),
                |at| at.to_rfc3339_opts(SecondsFormat::AutoSi, true),
            ),
        }
    }
}

/// A link as it travels, in hexadecimal digits.
pub(super) fn hex(link: &SignedLink) -> String {
    link.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}
