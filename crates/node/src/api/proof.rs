//! Portable proofs for users: links in hexadecimal.

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use tenure_core::model::identity::{ActorId, Scheme};
use tenure_core::model::keys::KeyBook;
use tenure_core::model::time::Span;
use tenure_core::model::verifier::Verifier;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::evidence::Evidence;
use tenure_core::ticket::link::SignedLink;
use tenure_core::wire::recall::Notice;

use super::view::{Names, name, stacked, time, weak};

/// A ticket, root first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TicketView {
    /// The hash of its bottom link.
    pub ticket: String,
    /// The lease it is for, where that is known.
    pub lease: Option<String>,
    /// Its links.
    pub links: Vec<LinkView>,
}

/// A link of a ticket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkView {
    /// Its hash.
    pub hash: String,
    /// Who handed it on.
    pub issuer: String,
    /// To whom.
    pub holder: String,
    /// The type.
    pub resource: String,
    /// How many units.
    pub units: u32,
    /// From when.
    pub start: String,
    /// Until when.
    pub end: String,
    /// Its conditions.
    pub constraints: Vec<String>,
    /// The notice after which units in use can be recalled, if they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Span>,
    /// What stands behind its units, if that is not a machine for each: `overbooked` or `best-effort`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assurance: Option<String>,
    /// The one unit that it is for, by its site's number, if that shares stacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The stacks whose tokens go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<String>,
    /// How many units stay, if it is recalled, as far as its holder was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stay: Option<u32>,
    /// Whether its signature is its issuer's.
    pub signed: bool,
    /// The link as it travels, in hexadecimal digits: what a check goes by.
    pub bytes: String,
}

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

impl TicketView {
    /// With what a lease was told of the recall of one of its links.
    pub(super) fn recalled(mut self, told: Option<&Notice>) -> Self {
        let recalled = |link: &&mut LinkView| told.is_some_and(|t| t.link.to_hex() == link.hash);
        self.links.iter_mut().filter(recalled).for_each(|link| link.stay = told.map(|t| t.units));
        self
    }
}

pub(super) fn ticket(
    ticket: &Ticket,
    lease: Option<String>,
    (names, keys): (&Names, &KeyBook),
) -> TicketView {
    let links = ticket.links().iter();
    let mut verifier = Verifier::new(Scheme::Ed25519);
    *verifier.keys_mut() = keys.clone();
    let links = links.map(|link| LinkView::of(link, |id| name(names, id), &mut verifier));
    TicketView { ticket: ticket.hash().to_hex(), lease, links: links.collect() }
}

impl LinkView {
    /// What a link says, with actors as `name` calls them, by what the verifier knows of keys.
    pub fn of(
        link: &SignedLink,
        name: impl Fn(ActorId) -> String,
        verifier: &mut Verifier,
    ) -> Self {
        let (unit, tokens) = stacked(link);
        Self {
            hash: link.hash().to_hex(),
            issuer: name(link.issuer),
            holder: name(link.holder),
            resource: link.resource.to_string(),
            units: link.units.get(),
            start: time(link.term.start()),
            end: time(link.term.end()),
            constraints: link.constraints.iter().map(ToString::to_string).collect(),
            notice: link.clauses.notice,
            assurance: weak(link.clauses.assurance),
            unit,
            tokens,
            stay: None,
            signed: link.verifies(verifier),
            bytes: hex(link),
        }
    }
}

/// A link as it travels, in hexadecimal digits.
fn hex(link: &SignedLink) -> String {
    link.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}
