//! Portable proofs for users: links in hexadecimal.

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use tenure_core::model::identity::{ActorId, Scheme, Verifier};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::evidence::Evidence;
use tenure_core::ticket::link::SignedLink;

use super::view::{Names, name, time};

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

pub(super) fn ticket(ticket: &Ticket, lease: Option<String>, names: &Names) -> TicketView {
    let links = ticket.links().iter();
    let links = links.map(|link| LinkView::of(link, |id| name(names, id)));
    TicketView { ticket: ticket.hash().to_hex(), lease, links: links.collect() }
}

impl LinkView {
    /// What a link says, with actors as `name` calls them.
    pub fn of(link: &SignedLink, name: impl Fn(ActorId) -> String) -> Self {
        Self {
            hash: link.hash().to_hex(),
            issuer: name(link.issuer),
            holder: name(link.holder),
            resource: link.resource.to_string(),
            units: link.units.get(),
            start: time(link.term.start()),
            end: time(link.term.end()),
            constraints: link.constraints.iter().map(ToString::to_string).collect(),
            signed: link.verifies(&mut Verifier::new(Scheme::Ed25519)),
            bytes: hex(link),
        }
    }
}

/// A link as it travels, in hexadecimal digits.
fn hex(link: &SignedLink) -> String {
    link.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}
