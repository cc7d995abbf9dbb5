//! The model: what the journals say, folded once for all laws.
//!
//! It uses the machines of [`tenure_core::actor::machine`] and nothing else of the actors', so that a law
//! never asks an actor about itself. What is forgotten by an actor stays here, marked: a law must know
//! what can never come back.

mod broker;
mod cover;
mod guest;
mod share;
mod site;
mod site_records;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub(super) use broker::BrokerModel;
pub(super) use cover::Cover;
pub(super) use guest::{GuestLease, GuestModel, Stage};
pub(super) use site::SiteModel;
pub(super) use site_records::SiteLease;

use super::Participants;

use tenure_core::actor::common::CommonFact;
use tenure_core::actor::machine::Illegal;
use tenure_core::driver::UnitId;
use tenure_core::model::identity::ActorId;
use tenure_core::model::keys::KeyBook;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::Time;
use tenure_core::runtime::fact::KeysFact;
use tenure_core::runtime::{Entry, Fact};
use tenure_core::ticket::link::LinkHash;

/// Everything that honest actors have in their journals.
pub(super) struct Model {
    pub(super) participants: Participants,
    /// Whether facts come in the order in which they happened; from journals alone they come in the
    /// order of clocks that differ.
    pub(super) in_order: bool,
    pub(super) sites: BTreeMap<ActorId, SiteModel>,
    pub(super) brokers: BTreeMap<ActorId, BrokerModel>,
    pub(super) guests: BTreeMap<ActorId, GuestModel>,
    /// When each fact of a journal was made, on its actor's clock.
    pub(super) times: BTreeMap<ActorId, Vec<Time>>,
    /// What each actor knows of keys.
    pub(super) keys: BTreeMap<ActorId, KeyBook>,
    /// The invitations that each actor has taken, and those that were used with it.
    pub(super) joins: BTreeMap<ActorId, Joins>,
}

/// Something a fact moved from one state to another, in the words of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) subject: Subject,
    /// `-` at its birth.
    pub(super) from: &'static str,
    /// `-` once it is forgotten.
    pub(super) to: &'static str,
}

/// A kind of object that has a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// A lease at its guest.
    Lease(ActorId, LeaseId),
    /// A request at a broker.
    Request(ActorId, RequestId),
    /// A ticket at its site.
    Ticket(ActorId, LinkHash),
    /// A unit at its site.
    Unit(ActorId, UnitId),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lease(_, lease) => write!(f, "lease {lease}"),
            Self::Request(_, request) => write!(f, "request {request}"),
            Self::Ticket(_, ticket) => write!(f, "the lease of ticket {ticket}"),
            Self::Unit(_, unit) => write!(f, "unit {unit}"),
        }
    }
}

/// A fact that does not follow from the ones before it.
pub(super) struct Unfounded(pub(super) String);

impl From<Illegal> for Unfounded {
    fn from(illegal: Illegal) -> Self {
        Self(illegal.to_string())
    }
}

/// No state: not born yet, or forgotten.
pub(super) const NOTHING: &str = "-";

type Folded = Result<Vec<Change>, Unfounded>;

impl Model {
    pub(super) fn new(participants: Participants, in_order: bool) -> Self {
        Self {
            participants,
            in_order,
            sites: BTreeMap::new(),
            brokers: BTreeMap::new(),
            guests: BTreeMap::new(),
            times: BTreeMap::new(),
            keys: BTreeMap::new(),
            joins: BTreeMap::new(),
        }
    }

    /// The number of an actor's facts that are durable.
    pub(super) fn length(&self, actor: ActorId) -> u64 {
        self.times.get(&actor).map_or(0, |times| times.len() as u64)
    }

    /// Applies a fact; returns the changes of state.
    pub(super) fn fold(&mut self, actor: ActorId, entry: &Entry) -> Folded {
        self.times.entry(actor).or_default().push(entry.at);
        if let Some(fact) = entry.fact.about_keys() {
            fold_keys(self.keys.entry(actor).or_default(), fact);
        }
        if let Some(fact) = entry.fact.common() {
            self.joins.entry(actor).or_default().fold(fact);
        }
        match &entry.fact {
            Fact::SiteAuthority(fact) => {
                self.sites.entry(actor).or_default().fold(actor, entry.at, fact)
            }
            Fact::Broker(fact) => {
                self.brokers.entry(actor).or_default().fold(actor, entry.at, fact)
            }
            Fact::ServiceManager(fact) => self.guests.entry(actor).or_default().fold(actor, fact),
        }
    }

    pub(super) fn name(&self, actor: ActorId) -> String {
        self.participants.name(actor)
    }

    /// A unit of a site's, as a sentence names it.
    pub(super) fn unit(&self, site: ActorId, unit: UnitId) -> String {
        format!("unit {unit} of {}", self.name(site))
    }
}

/// By which invitations an actor has asked others to be peers, and others have come to it.
#[derive(Debug, Default)]
pub(super) struct Joins {
    pub(super) asked: BTreeSet<(ActorId, u64)>,
    pub(super) came: BTreeSet<(ActorId, u64)>,
}

impl Joins {
    #[allow(clippy::wildcard_enum_match_arm, reason = "all other facts are about something else")]
    fn fold(&mut self, fact: &CommonFact) {
        match fact {
            CommonFact::InvitationTaken(fact) => {
                let invitation = &fact.invitation.invitation;
                self.asked.insert((invitation.inviter, invitation.number));
            }
            CommonFact::PeerJoined(fact) => drop(self.came.insert((fact.peer, fact.invitation))),
            _ => {}
        }
    }
}

fn fold_keys(keys: &mut KeyBook, fact: KeysFact<'_>) {
    match fact {
        KeysFact::Stated(signed) => keys.state(signed.clone()),
        KeysFact::Learned(peer, chain) => keys.learn(peer, chain.clone()),
        KeysFact::Noted(peer, number) => keys.noted(peer, number),
    }
}

fn unfounded(what: impl fmt::Display) -> Unfounded {
    Unfounded(format!("it refers to {what}, which does not exist"))
}
