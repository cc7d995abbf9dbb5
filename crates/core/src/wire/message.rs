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
use crate::model::resource::Attributes;
use crate::model::slice::{LeaseId, RequestId, SliceName};
use crate::model::time::{Term, Time};
use crate::model::verifier::Verifier;
use crate::mutants::mutant;
use crate::ticket::Ticket;
use crate::ticket::link::{DelegationId, LinkHash};
use crate::ticket::receipt::Receipt;
use crate::wire::advert::Advert;
use crate::wire::batch::{self, Path};
use crate::wire::credentials::Credentials;
use crate::wire::handover::{HandedBack, Handover, Outcome};
use crate::wire::hosts::{Contest, Hosts};
use crate::wire::inquiry::{Availability, Inquiry};
use crate::wire::invitation::{JoinFault, SignedInvitation};
use crate::wire::need::Need;
use crate::wire::offer::{Offer, Waiting};
use crate::wire::part::Part;
use crate::wire::portion::{PortionAsked, PortionBack, PortionOutcome};
use crate::wire::recall::{Level, Notice};
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

/// The version of the messages: their first byte. It is raised when one of them changes its layout or its
/// meaning, so that no actor takes a message for what it does not say.
pub const VERSION: u8 = 1;

/// The most bytes that the properties of one lease's units take together.
pub const MAX_UNIT_BYTES: usize = 1 << 19;

/// The most bytes that the configuration of one lease takes.
pub const MAX_CONFIGURATION: usize = 1 << 13;

/// The most tickets that one lease has ahead of it, its own and its extensions.
pub const MAX_TICKETS: usize = 64;

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
    /// Service manager to broker, or broker to the one that holds the offers: the tickets of this offer.
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
    /// To a broker: what is free?
    Inquire(Inquiry),
    /// The answer. It promises nothing.
    Available {
        /// What the clock of who asks showed then.
        asked: Time,
        /// What is free.
        availability: Availability,
    },
    /// Service manager to broker: what a service wants, and what it has of the receiver.
    Need(Need),
    /// Broker to service manager: that is noted.
    Noted {
        /// The service.
        service: SliceName,
        /// The highest revision that is noted.
        revision: u64,
    },
    /// Service manager to broker: which hosts a service uses.
    Hosts(Hosts),
    /// Broker to service manager: that is noted, and this is who else claims some of them.
    HostsNoted {
        /// The service.
        service: SliceName,
        /// The highest revision that is noted.
        revision: u64,
        /// In order.
        contests: Vec<Contest>,
    },
    /// Broker to service manager: who else claims hosts of a service has changed since this revision was noted. It is to
    /// be stated anew.
    HostsChanged {
        /// The service.
        service: SliceName,
        /// The revision.
        revision: u64,
    },
    /// Broker to service manager: state needs and hosts anew, also those that were noted. Not repeated.
    Restate {
        /// The services of which a need is known.
        needs: Vec<SliceName>,
        /// Those of which hosts are known.
        hosts: Vec<SliceName>,
    },
    /// Broker to broker: a guest's request that the sender cannot meet.
    HandOver(Box<Handover>),
    /// The answer.
    HandedBack(Box<HandedBack>),
    /// Broker to broker: the sender is there, and takes requests that the receiver passes on. Not answered.
    Advert(Box<Advert>),
    /// Broker to broker: the receiver is to tell the sender anew what it has. Not repeated.
    AdvertWanted,
    /// Broker to broker: a guest's request, of which the receiver is to hold a portion.
    AskPortion(Box<PortionAsked>),
    /// The answer.
    PortionBack(Box<PortionBack>),
    /// Broker to broker: whether a portion that is held is taken or, in round 0, all that is held for a request. If it
    /// is taken, this is repeated until the tickets come.
    PortionDecided {
        /// Of which request.
        request: RequestId,
        /// Of which round.
        round: u8,
        /// Whether it is taken.
        taken: bool,
    },
    /// Service manager to site: the guest is there, and wants to keep these leases. Not repeated.
    Heartbeat {
        /// The leases' own tickets.
        leases: Vec<LinkHash>,
    },
    /// Site to service manager: which of them it keeps.
    HeartbeatHeard {
        /// When the heartbeat was sent, as far as it counts.
        sent: Time,
        /// The leases' own tickets.
        leases: Vec<LinkHash>,
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
            Self::HandedBack(back) => match &back.outcome {
                Outcome::Granted(tickets) => (tickets.iter().map(|(_, t)| t).collect(), &[]),
                Outcome::Refused(_)
                | Outcome::Seen
                | Outcome::Countered(..)
                | Outcome::Offered(..) => (Vec::new(), &[]),
            },
            Self::PortionBack(back) => match &back.outcome {
                PortionOutcome::Granted(tickets) => (tickets.iter().map(|(_, t)| t).collect(), &[]),
                PortionOutcome::Held { .. } | PortionOutcome::Refused(_) | PortionOutcome::Seen => {
                    (Vec::new(), &[])
                }
            },
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
            | Self::Joined { .. }
            | Self::Inquire(_)
            | Self::Available { .. }
            | Self::Need(_)
            | Self::Noted { .. }
            | Self::Hosts(_)
            | Self::HostsNoted { .. }
            | Self::HostsChanged { .. }
            | Self::HandOver(_)
            | Self::Advert(_)
            | Self::AdvertWanted
            | Self::AskPortion(_)
            | Self::PortionDecided { .. }
            | Self::Heartbeat { .. }
            | Self::HeartbeatHeard { .. }
            | Self::Restate { .. } => (Vec::new(), &[]),
        };
        let links = tickets.into_iter().flat_map(Ticket::links).map(|link| link.issuer);
        links.chain(receipts.iter().map(|receipt| receipt.what.site)).collect()
    }

    /// The words for all kinds of messages, as [`kind`](Self::kind) gives them.
    pub const KINDS: [&'static str; 49] = [
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
        "inquire",
        "available",
        "need",
        "noted",
        "hosts",
        "hosts-noted",
        "hosts-changed",
        "restate",
        "hand-over",
        "handed-back",
        "advert",
        "advert-wanted",
        "ask-portion",
        "portion-back",
        "portion-decided",
        "heartbeat",
        "heartbeat-heard",
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
            Self::Inquire(_) => "inquire",
            Self::Available { .. } => "available",
            Self::Need(_) => "need",
            Self::Noted { .. } => "noted",
            Self::Hosts(_) => "hosts",
            Self::HostsNoted { .. } => "hosts-noted",
            Self::HostsChanged { .. } => "hosts-changed",
            Self::Restate { .. } => "restate",
            Self::HandOver(_) => "hand-over",
            Self::HandedBack(_) => "handed-back",
            Self::Advert(_) => "advert",
            Self::AdvertWanted => "advert-wanted",
            Self::AskPortion(_) => "ask-portion",
            Self::PortionBack(_) => "portion-back",
            Self::PortionDecided { .. } => "portion-decided",
            Self::Heartbeat { .. } => "heartbeat",
            Self::HeartbeatHeard { .. } => "heartbeat-heard",
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
        let envelope = self.read(credentials, since)?;
        if envelope.header.to != credentials.id() {
            return Err(OpenError::NotForMe(envelope.header.to));
        }
        Ok(envelope)
    }

    /// As [`open`](Self::open), whoever it is for: a message that its receiver has handed on.
    pub fn read(&self, credentials: &mut Credentials, since: Time) -> Result<Envelope, OpenError> {
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
