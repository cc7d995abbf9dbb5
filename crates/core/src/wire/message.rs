//! What actors say to each other, and the signed envelope around it.
//!
//! Every verb that asks is repeated until it is answered, and every answer to a repetition has the
//! same bytes as the first: a message may be lost, doubled, late or out of order without harm.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use crate::actor::Role;
use crate::driver::{Epoch, UnitId};
use crate::model::codec::{self, DecodeError, Hash};
use crate::model::identity::{ActorId, Label, PublicKey, Scheme, Signature};
use crate::model::keys::KeyChain;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::resource::{Attributes, Constraints};
use crate::model::slice::{LeaseId, RequestId, SliceName};
use crate::model::time::{Span, Term, Time};
use crate::model::verifier::Verifier;
use crate::mutants::mutant;
use crate::ticket::Ticket;
use crate::ticket::link::{DelegationId, LinkHash};
use crate::ticket::receipt::Receipt;
use crate::wire::batch::{self, Path};
use crate::wire::credentials::Credentials;
use crate::wire::invitation::{JoinFault, SignedInvitation};
use crate::wire::offer::{MAX_HOLD, Offer, Reply, Waiting};
use crate::wire::part::Part;
use crate::wire::proviso::{History, Provisos};
use crate::wire::recall::{Accepts, Level, Notice};
use crate::wire::refusal::Refusal;

/// The version of the messages: their first byte. It is raised when one of them changes its layout or its
/// meaning, so that no actor takes a message for what it does not say.
pub const VERSION: u8 = 1;

/// The most items in one request.
pub const MAX_ITEMS: usize = 64;

/// The most units in one item, and so in one lease: as many as one message can name. Of a divisible stock
/// a lease has one share, however large.
pub const MAX_UNITS: u32 = 1 << 14;

/// The most bytes that the properties of one lease's units take together.
pub const MAX_UNIT_BYTES: usize = 1 << 19;

/// The most bytes that the configuration of one lease takes.
pub const MAX_CONFIGURATION: usize = 1 << 13;

/// The most tickets that one lease has ahead of it, its own and its extensions.
pub const MAX_TICKETS: usize = 64;

/// The most receipts that a request brings along.
pub const MAX_RECEIPTS: usize = 64;

/// Asks a broker for tickets: the items of one choice, all together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Names the request; asking twice under one id asks once.
    pub id: RequestId,
    /// What is asked for; 1 to [`MAX_ITEMS`].
    pub items: Vec<Item>,
    /// The earliest start that suits. It may lie in the past by the time it is read: the term is then
    /// sold from there, so that contiguous terms have no gap.
    pub earliest: Time,
    /// The latest start that suits.
    pub latest: Time,
    /// For how long.
    pub duration: Span,
    /// How short a term would do; the same as `duration` unless a range is asked for.
    pub min_duration: Span,
    /// The answer that is asked for.
    pub reply: Reply,
    /// When an answer is of no more use.
    pub answer_by: Time,
    /// For the broker's mapper alone.
    pub properties: Properties,
    /// Conditions on how it is met.
    pub provisos: Provisos,
    /// What became of it until now.
    pub history: History,
    /// Receipts for tickets of this broker that it has not confirmed yet; at most [`MAX_RECEIPTS`].
    pub receipts: Vec<Receipt>,
}

impl Request {
    /// The end of the latest term that would do.
    pub fn last_end(&self) -> Time {
        self.latest.plus(self.duration)
    }

    /// Until when both sides remember the request: as long again as the term. A slow answer is still
    /// received, and a repetition gets the same answer.
    pub fn last_word(&self) -> Time {
        let offsets = self.items.iter().map(|item| item.offset);
        let last = offsets.max().unwrap_or(Span::ZERO);
        self.last_end().plus(last).plus(self.duration)
    }

    /// The numbers of its choices, the one that is preferred first.
    pub fn choices(&self) -> BTreeSet<u8> {
        self.items.iter().map(|item| item.choice).collect()
    }

    /// The items of the choice that is preferred.
    pub fn preferred(&self) -> impl Iterator<Item = &Item> {
        let first = self.items.iter().map(|item| item.choice).min();
        self.items.iter().filter(move |item| Some(item.choice) == first)
    }

    /// Whether the request is within its bounds and makes sense, as far as that can be seen without the
    /// time and without its receiver; the reason if not.
    pub fn check(&self) -> Result<(), String> {
        if self.items.is_empty() || self.items.len() > MAX_ITEMS {
            return Err(format!("a request has 1 to {MAX_ITEMS} items, not {}", self.items.len()));
        }
        if self.latest < self.earliest {
            return Err("the latest start is before the earliest".to_owned());
        }
        if self.min_duration > self.duration {
            return Err("the shortest term is longer than the longest".to_owned());
        }
        if let Reply::Hold(span) = self.reply
            && (!span.is_positive() || span > MAX_HOLD)
        {
            return Err(format!("offers are held for more than no time and at most {MAX_HOLD}"));
        }
        self.provisos.check()?;
        if self.receipts.len() > MAX_RECEIPTS {
            let count = self.receipts.len();
            return Err(format!("{count} receipts are more than the {MAX_RECEIPTS} of a request"));
        }
        self.items.iter().try_for_each(|item| item.check(self))?;
        let needed =
            |choice: &u8| self.items.iter().any(|item| item.choice == *choice && !item.optional);
        if !self.choices().iter().all(needed) {
            return Err("an alternative needs an item that is not optional".to_owned());
        }
        Ok(())
    }

    /// Whether units for each item, by their places, are what was asked for: all items of one choice.
    pub fn is_met_by(&self, units: &[u64]) -> bool {
        let suits = |(item, &units): (&Item, &u64)| {
            let enough = u64::from(item.min_units.get())..=u64::from(item.units.get());
            enough.contains(&units) || (item.optional && units == 0)
        };
        self.choices().iter().any(|choice| {
            let mut items = self.items.iter().zip(units);
            items.len() == units.len()
                && items.all(|(item, units)| {
                    if item.choice == *choice { suits((item, units)) } else { *units == 0 }
                })
        })
    }
}

/// Units of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The type.
    pub resource: Name,
    /// How many units are wanted.
    pub units: NonZeroU32,
    /// How few would do; the same as `units` unless the request is elastic.
    pub min_units: NonZeroU32,
    /// What the type's attributes must be.
    pub requirements: Constraints,
    /// The ticket whose lease is to continue, with the same units, from exactly its end.
    pub extends: Option<LinkHash>,
    /// The alternative that it belongs to. The items of one alternative are met: of those that can be,
    /// the one with the lowest number.
    pub choice: u8,
    /// Whether the request is met without it: it then gets no unit, or as many as it asks for.
    pub optional: bool,
    /// How long after the common start its term begins.
    pub offset: Span,
    /// Items of one number come from one site.
    pub together: Option<u8>,
    /// Items of one number come from different sites, each from one.
    pub apart: Option<u8>,
    /// What its ticket may reserve for the broker.
    pub accepts: Accepts,
}

impl Item {
    /// `units` units of a type: of the first choice, from the common start, without a condition.
    pub fn new(resource: Name, units: NonZeroU32) -> Self {
        Self {
            resource,
            units,
            min_units: units,
            requirements: Constraints::NONE,
            extends: None,
            choice: 0,
            optional: false,
            offset: Span::ZERO,
            together: None,
            apart: None,
            accepts: Accepts::default(),
        }
    }

    /// Its term in a grant with this common term.
    pub fn term(&self, common: Term) -> Option<Term> {
        Term::lasting(common.start().plus(self.offset), common.duration()).ok()
    }

    fn check(&self, request: &Request) -> Result<(), String> {
        if self.min_units > self.units {
            return Err("an item would do with more units than it asks for".to_owned());
        }
        if self.together.is_some() && self.apart.is_some() {
            return Err("an item belongs together with others or apart, not both".to_owned());
        }
        self.accepts.check(self.extends.is_some())?;
        if self.offset < Span::ZERO {
            return Err("an item would begin before the common start".to_owned());
        }
        let last = Term::lasting(request.latest, request.duration).map_err(|e| e.to_string())?;
        if self.term(last).is_none_or(|term| term.duration() != request.duration) {
            return Err("an item would begin after the end of time".to_owned());
        }
        let plain = request.choices().len() == 1
            && !self.optional
            && self.offset == Span::ZERO
            && self.together.is_none()
            && self.apart.is_none()
            && request.min_duration == request.duration
            && request.reply == Reply::Grant;
        if self.extends.is_some() && !plain {
            return Err("an extension has no alternatives, ranges, offsets or offers".to_owned());
        }
        Ok(())
    }
}

/// A unit as its guest sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeasedUnit {
    /// The unit, by the site's number.
    pub unit: UnitId,
    /// The fencing number of this tenancy.
    pub epoch: Epoch,
    /// How much of a divisible stock it is; 1 for a machine.
    pub quantity: NonZeroU32,
    /// The properties that the site's driver reported: names, addresses, keys.
    pub properties: Properties,
}

/// Everything actors say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Site to broker: units to sell, or the next generation of a delegation.
    Delegate {
        /// The delegation, a ticket held by the broker.
        ticket: Ticket,
        /// What the units are like.
        attributes: Attributes,
    },
    /// Broker to site: the delegation is recorded.
    Delegated {
        /// Which delegation.
        delegation: DelegationId,
        /// Which generation of it.
        generation: u32,
    },
    /// Service manager to broker: a request for tickets.
    Request(Request),
    /// Broker to service manager: the tickets of a request, each with the item it is for.
    Granted {
        /// Which request.
        request: RequestId,
        /// One or several tickets an item.
        tickets: Vec<(u16, Ticket)>,
    },
    /// Broker to service manager: a request is open still, and waits.
    Waiting {
        /// Which request.
        request: RequestId,
        /// Where it stands.
        waiting: Waiting,
    },
    /// Broker to service manager: how a request can be met, of a plan or of what is held.
    Offered {
        /// Which request.
        request: RequestId,
        /// The offers, the best first.
        offers: Vec<Offer>,
        /// Until when they are held; nothing is held of a plan.
        until: Option<Time>,
        /// Why the request cannot be met as it is, if so.
        refusal: Option<Refusal>,
    },
    /// Service manager to broker: the tickets of this offer.
    Accept {
        /// Which request.
        request: RequestId,
        /// Which offer, from 1.
        offer: u8,
    },
    /// Service manager to broker: the request is off, and what is held for it is given up. The request is
    /// whole, so that a broker that does not know it can refuse it should it come later.
    Withdraw(Request),
    /// Service manager to site: turn this ticket into a lease, or extend one by it.
    Redeem {
        /// The ticket, whole.
        ticket: Ticket,
        /// The guest's name for the lease.
        lease: LeaseId,
        /// The guest's group of leases.
        slice: SliceName,
        /// How few units will do.
        min_units: NonZeroU32,
        /// For the site's driver.
        configuration: Properties,
        /// Of an extension for fewer units: those that go first. The site chooses the others.
        victims: Vec<UnitId>,
    },
    /// Site to service manager: the lease runs; these are its units and its term.
    Leased {
        /// The ticket that was redeemed.
        ticket: LinkHash,
        /// The granted term, as the ticket says.
        term: Term,
        /// The units, all set up.
        units: Vec<LeasedUnit>,
    },
    /// Service manager to site: have these tickets back, redeemed or not; first the lease's own, then
    /// its extensions.
    Close {
        /// The tickets.
        tickets: Vec<Ticket>,
    },
    /// Site to service manager: the lease has ended, for this reason; what was left came back.
    Closed {
        /// The lease's own ticket.
        ticket: LinkHash,
        /// Set when the site closed it.
        refusal: Option<Refusal>,
        /// For each ticket with time left, the site's word.
        receipts: Vec<Receipt>,
    },
    /// Service manager to broker: units you sold came back to their site.
    Credit {
        /// The site's word.
        receipts: Vec<Receipt>,
    },
    /// Broker to service manager: the receipts are recorded.
    Credited {
        /// Each by its ticket and its number there.
        receipts: Vec<(LinkHash, u32)>,
    },
    /// To the asker: a refusal, with its reason.
    Refused {
        /// What is refused.
        subject: Subject,
        /// Why.
        refusal: Refusal,
        /// Of a request: what could be had instead, if it is asked for.
        offers: Vec<Offer>,
    },
    /// Holder to site: have a part of this ticket back; the rest goes on.
    Return {
        /// The lease's own ticket, or one that is not redeemed.
        ticket: Ticket,
        /// Counts the returns under this ticket; asking twice under one number asks once.
        number: u32,
        /// Which part.
        part: Part,
    },
    /// Site to holder: the part came back.
    Returned {
        /// The ticket.
        ticket: LinkHash,
        /// The number of the return.
        number: u32,
        /// For each ticket of which something came back, the site's word.
        receipts: Vec<Receipt>,
    },
    /// Service manager to site: change the configuration of a lease in place.
    Modify {
        /// The lease's own ticket.
        ticket: Ticket,
        /// Counts the modifications of this lease; asking twice under one number asks once.
        number: u32,
        /// All of the new configuration.
        configuration: Properties,
    },
    /// Site to service manager: the units have the new configuration.
    Modified {
        /// The lease's own ticket.
        ticket: LinkHash,
        /// The number of the modification.
        number: u32,
        /// The units, with the properties that result.
        units: Vec<LeasedUnit>,
    },
    /// Issuer to site: nobody has redeemed this ticket in time; have back what no part of it claims.
    Reclaim {
        /// The ticket, whole.
        ticket: Ticket,
    },
    /// Site to issuer: the ticket can be redeemed no more, or it was in time.
    Reclaimed {
        /// The ticket.
        ticket: LinkHash,
        /// Whether it was redeemed or given back before it could be reclaimed.
        redeemed: bool,
        /// What came back of it, by the site's word.
        receipts: Vec<Receipt>,
    },
    /// Issuer to site: at most so many units of this ticket, and of what extends it, from an instant on.
    Recall {
        /// The ticket, which its issuer recalls.
        ticket: Ticket,
        /// How many units stay, from when on.
        level: Level,
    },
    /// Site to issuer: the recall is recorded, or enforced.
    Recalled {
        /// The link that is recalled.
        link: LinkHash,
        /// The number of the recall.
        number: u32,
        /// When it takes the last of the units.
        at: Time,
        /// Whether it has taken all that it takes.
        enforced: bool,
        /// For all that was taken by recalls of this link, the site's word.
        receipts: Vec<Receipt>,
    },
    /// Site to holder: units of this lease, or of this ticket that is not redeemed, are recalled.
    RecallNotice {
        /// The ticket, or the lease's own.
        ticket: LinkHash,
        /// How many units stay, from when on.
        told: Notice,
    },
    /// Holder to site: the notice is recorded; these units go first.
    RecallNoted {
        /// The lease's own ticket.
        ticket: LinkHash,
        /// The link that is recalled.
        link: LinkHash,
        /// The number of the recall.
        number: u32,
        /// The units that go first. The site chooses the others.
        victims: Vec<UnitId>,
        /// Whether the notice was of rights that nobody has claimed.
        unclaimed: bool,
    },
    /// Site to service manager: a unit of a lease has failed. Repeated until the site has it back.
    UnitFailed {
        /// The lease's own ticket.
        ticket: LinkHash,
        /// The unit.
        unit: UnitId,
        /// How it failed.
        why: String,
    },
    /// To a peer: what does your clock show? The header has what that of the sender shows.
    Ping,
    /// The answer: the header has it.
    Pong {
        /// What the clock of who asks showed then.
        asked: Time,
    },
    /// To a peer: note what the sender has stated about its keys, which comes with the message.
    Keys {
        /// How many statements there are.
        number: u32,
    },
    /// To a peer: its statements about its keys are noted.
    KeysNoted {
        /// How many.
        number: u32,
    },
    /// To who has invited: be a peer of mine.
    Join(Box<Join>),
    /// The answer to who comes with an invitation.
    Joined {
        /// The number of the invitation.
        number: u64,
        /// Why it is no peer, if so.
        fault: Option<JoinFault>,
    },
}

/// What an actor says of itself that comes with an invitation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The invitation.
    pub invitation: SignedInvitation,
    /// What it calls itself.
    pub name: Name,
    /// Its role.
    pub role: Role,
    /// Where it is dialled, as `host:port`; without it, it dials.
    pub address: Option<String>,
}

/// What a refusal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// A request.
    Request(RequestId),
    /// A ticket shown to redeem or to close.
    Ticket(LinkHash),
    /// A delegation.
    Delegation(DelegationId),
    /// A return of a part of a ticket, by its number.
    Return(LinkHash, u32),
    /// A modification of a lease, by its number.
    Modify(LinkHash, u32),
    /// A recall of a link, by its number.
    Recall(LinkHash, u32),
}

impl Message {
    /// The actors that have signed tickets and receipts in it.
    pub fn signers(&self) -> BTreeSet<ActorId> {
        let (tickets, receipts): (Vec<&Ticket>, &[Receipt]) = match self {
            Self::Delegate { ticket, .. }
            | Self::Redeem { ticket, .. }
            | Self::Return { ticket, .. }
            | Self::Modify { ticket, .. }
            | Self::Reclaim { ticket }
            | Self::Recall { ticket, .. } => (vec![ticket], &[]),
            Self::Granted { tickets, .. } => (tickets.iter().map(|(_, t)| t).collect(), &[]),
            Self::Close { tickets } => (tickets.iter().collect(), &[]),
            Self::Request(request) | Self::Withdraw(request) => (Vec::new(), &request.receipts),
            Self::Closed { receipts, .. }
            | Self::Credit { receipts }
            | Self::Returned { receipts, .. }
            | Self::Reclaimed { receipts, .. }
            | Self::Recalled { receipts, .. } => (Vec::new(), receipts),
            Self::Delegated { .. }
            | Self::Waiting { .. }
            | Self::Offered { .. }
            | Self::Accept { .. }
            | Self::Leased { .. }
            | Self::Credited { .. }
            | Self::Refused { .. }
            | Self::Modified { .. }
            | Self::RecallNotice { .. }
            | Self::RecallNoted { .. }
            | Self::UnitFailed { .. }
            | Self::Ping
            | Self::Pong { .. }
            | Self::Keys { .. }
            | Self::KeysNoted { .. }
            | Self::Join(_)
            | Self::Joined { .. } => (Vec::new(), &[]),
        };
        let links = tickets.into_iter().flat_map(Ticket::links).map(|link| link.issuer);
        links.chain(receipts.iter().map(|receipt| receipt.what.site)).collect()
    }

    /// The words for all kinds of messages, as [`kind`](Self::kind) gives them.
    pub const KINDS: [&'static str; 32] = [
        "delegate",
        "delegated",
        "request",
        "granted",
        "waiting",
        "offered",
        "accept",
        "withdraw",
        "redeem",
        "leased",
        "close",
        "closed",
        "credit",
        "credited",
        "refused",
        "return",
        "returned",
        "modify",
        "modified",
        "reclaim",
        "reclaimed",
        "recall",
        "recalled",
        "recall-notice",
        "recall-noted",
        "unit-failed",
        "ping",
        "pong",
        "keys",
        "keys-noted",
        "join",
        "joined",
    ];

    /// The word for this kind of message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Delegate { .. } => "delegate",
            Self::Delegated { .. } => "delegated",
            Self::Request(_) => "request",
            Self::Granted { .. } => "granted",
            Self::Waiting { .. } => "waiting",
            Self::Offered { .. } => "offered",
            Self::Accept { .. } => "accept",
            Self::Withdraw(_) => "withdraw",
            Self::Redeem { .. } => "redeem",
            Self::Leased { .. } => "leased",
            Self::Close { .. } => "close",
            Self::Closed { .. } => "closed",
            Self::Credit { .. } => "credit",
            Self::Credited { .. } => "credited",
            Self::Refused { .. } => "refused",
            Self::Return { .. } => "return",
            Self::Returned { .. } => "returned",
            Self::Modify { .. } => "modify",
            Self::Modified { .. } => "modified",
            Self::Reclaim { .. } => "reclaim",
            Self::Reclaimed { .. } => "reclaimed",
            Self::Recall { .. } => "recall",
            Self::Recalled { .. } => "recalled",
            Self::RecallNotice { .. } => "recall-notice",
            Self::RecallNoted { .. } => "recall-noted",
            Self::UnitFailed { .. } => "unit-failed",
            Self::Ping => "ping",
            Self::Pong { .. } => "pong",
            Self::Keys { .. } => "keys",
            Self::KeysNoted { .. } => "keys-noted",
            Self::Join(_) => "join",
            Self::Joined { .. } => "joined",
        }
    }
}

/// Numbers the messages of one sender: the fact that caused it, and which of that fact's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sequence {
    /// The place of the causing fact in the sender's journal.
    pub position: u64,
    /// Distinguishes the messages that one fact caused.
    pub index: u32,
}

impl Sequence {
    /// The index of the answer that a fact caused; pending work counts from 0.
    pub const ANSWER: u32 = u32::MAX;
    /// The index of an answer that no fact caused.
    pub const VOLATILE: u32 = u32::MAX - 1;
    /// The least index of an answer that several facts caused together; pending work stays below.
    const JOINT: u32 = 1 << 31;

    /// Whether it numbers an answer, not pending work.
    pub fn is_answer(self) -> bool {
        self.index >= Self::JOINT
    }

    /// The index of an answer that several facts caused together, the last of which it names. They may
    /// be asked about in any company and order, so it is distinguished by a digest of what it says.
    pub fn joint(message: &Message) -> u32 {
        let [a, b, c, d, ..] =
            Hash::of("tenure joint answer v1", &[&codec::encode(message)]).to_bytes();
        (Self::JOINT | u32::from_le_bytes([a, b, c, d])).min(Self::VOLATILE - 1)
    }
}

/// Who says something to whom, and because of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The sender.
    pub from: ActorId,
    /// The receiver.
    pub to: ActorId,
    /// The sender's number for it.
    pub sequence: Sequence,
    /// When its cause became a fact, on the sender's clock.
    pub at: Time,
}

/// A message with its header, not yet signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// Who, to whom, because of what.
    pub header: Header,
    /// The message.
    pub message: Message,
}

/// A signed envelope: the bytes that travel. The signature covers all of them, so it may pass through
/// anybody's hands. Cheap to clone; clones share what was found out about the bytes, so that a message
/// that is repeated is verified and decoded once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sealed(Arc<Contents>);

#[derive(Debug, Serialize, Deserialize)]
struct Contents {
    #[serde(with = "codec::octets")]
    bytes: Vec<u8>,
    key: PublicKey,
    signature: Signature,
    /// From the message to what the signature is on.
    path: Path,
    /// Statements about keys that the receiver may need: each proves itself.
    keys: Vec<KeyChain>,
    /// Whether the signature holds, once it was checked.
    #[serde(skip)]
    holds: OnceLock<bool>,
    /// The decoded content, once it was read.
    #[serde(skip)]
    content: OnceLock<Result<Envelope, OpenError>>,
}

impl PartialEq for Contents {
    /// What was found out about a letter follows from the rest.
    fn eq(&self, other: &Self) -> bool {
        let parts = |letter: &Self| (letter.key, letter.signature);
        parts(self) == parts(other)
            && (&self.bytes, &self.path, &self.keys) == (&other.bytes, &other.path, &other.keys)
    }
}

impl Eq for Contents {}

/// A signature on several messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) key: PublicKey,
    pub(crate) root: Hash,
    pub(crate) signature: Signature,
}

/// Why a sealed message was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The signature does not hold; the content was not looked at.
    #[error("the signature does not hold")]
    BadSignature,
    /// Validly signed, but not by the sender named inside.
    #[error("signed by somebody else than the sender it names")]
    NotTheSender,
    /// Validly signed by a key of the sender's that signs no messages any more.
    #[error("signed by a key that its sender has replaced or revoked")]
    KeyEnded,
    /// Addressed to another actor.
    #[error("meant for {0}")]
    NotForMe(ActorId),
    /// Not an envelope.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// Validly signed, in another version of the protocol; the rest was not looked at.
    #[error("in version {theirs} of the protocol, not in version {ours}")]
    Version {
        /// The version of the message.
        theirs: u8,
        /// The version that is understood here.
        ours: u8,
    },
}

impl Envelope {
    /// The bytes that are signed: the version, then the envelope.
    fn frame(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        codec::encode_into(self, &mut bytes);
        bytes
    }

    /// The envelope in signed bytes. What follows another version may be laid out in any way.
    pub fn read(bytes: &[u8]) -> Result<Self, OpenError> {
        match bytes.split_first() {
            Some((&VERSION, envelope)) => Ok(codec::decode(envelope)?),
            Some((&theirs, _)) if !mutant!(AnyVersionWillDo) => {
                Err(OpenError::Version { theirs, ours: VERSION })
            }
            Some((_, envelope)) => Ok(codec::decode(envelope)?),
            None => Err(DecodeError::Malformed("there is no version".to_owned()).into()),
        }
    }

    /// Signs the envelope.
    pub fn seal(&self, credentials: &mut Credentials) -> Sealed {
        let bytes = self.frame();
        let (key, signature) = credentials.sign_message(&bytes);
        let keys = credentials.statements_for(self);
        Sealed::new(bytes, key, signature, (Path::default(), keys))
    }

    /// Signs what leaves together, all of it by one signature; in the order of the envelopes.
    pub fn seal_all(envelopes: &[&Self], credentials: &mut Credentials) -> Vec<Sealed> {
        if envelopes.len() < 2 || credentials.scheme() == Scheme::None {
            return envelopes.iter().map(|alone| alone.seal(credentials)).collect();
        }
        envelopes
            .chunks(batch::MAX_LEAVES)
            .flat_map(|some| Self::seal_batch(some, credentials))
            .collect()
    }

    fn seal_batch(envelopes: &[&Self], credentials: &mut Credentials) -> Vec<Sealed> {
        let messages: Vec<_> = envelopes.iter().map(|envelope| envelope.frame()).collect();
        let (root, paths) = batch::tree(&messages);
        let (key, signature) = credentials.sign_batch(root);
        let seal = |((bytes, path), envelope): (_, &&Self)| {
            Sealed::new(bytes, key, signature, (path, credentials.statements_for(envelope)))
        };
        messages.into_iter().zip(paths).zip(envelopes).map(seal).collect()
    }
}

impl Sealed {
    fn new(
        bytes: Vec<u8>,
        key: PublicKey,
        signature: Signature,
        (path, keys): (Path, Vec<KeyChain>),
    ) -> Self {
        let (holds, content) = (OnceLock::new(), OnceLock::new());
        Self(Arc::new(Contents { bytes, key, signature, path, keys, holds, content }))
    }

    /// Checks signature, sender and receiver, in this order, before anything inside is used. A key that was
    /// replaced counts if that was after `since`.
    pub fn open(&self, credentials: &mut Credentials, since: Time) -> Result<Envelope, OpenError> {
        credentials.show(&self.0.keys);
        if !credentials.checks_message(self) {
            return Err(OpenError::BadSignature);
        }
        let Contents { bytes, key, content, .. } = &*self.0;
        let envelope = content.get().cloned().unwrap_or_else(|| Envelope::read(bytes))?;
        let from = envelope.header.from;
        if !credentials.stands(from, key, since) {
            let own = credentials.is_key_of(from, key);
            return Err(if own { OpenError::KeyEnded } else { OpenError::NotTheSender });
        }
        if envelope.header.to != credentials.id() {
            return Err(OpenError::NotForMe(envelope.header.to));
        }
        Ok(envelope)
    }

    /// The key that signed it.
    pub fn key(&self) -> PublicKey {
        self.0.key
    }

    /// The statements about keys that come with it, unchecked.
    pub fn keys(&self) -> &[KeyChain] {
        &self.0.keys
    }

    /// The envelope inside, unchecked: to show it, never to act on it.
    pub fn peek(&self) -> Result<Envelope, OpenError> {
        let Contents { bytes, content, .. } = &*self.0;
        content.get_or_init(|| Envelope::read(bytes)).clone()
    }

    /// The signed bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// What the signature is on, if it is on more than this message.
    pub(crate) fn batch(&self) -> Option<Batch> {
        let Contents { bytes, key, signature, path, .. } = &*self.0;
        let batch = || Batch { key: *key, root: path.root(bytes), signature: *signature };
        (!path.is_alone()).then(batch)
    }

    /// Whether the signature is its key's on its bytes, which were signed alone.
    pub(crate) fn verifies(&self, verifier: &mut Verifier) -> bool {
        let Contents { bytes, key, signature, holds, .. } = &*self.0;
        // Where nothing is signed there is nothing to remember.
        verifier.scheme() == Scheme::None
            || *holds.get_or_init(|| verifier.verifies(key, Label::Message, bytes, signature))
    }
}
