//! One link of a ticket: what is handed on, from whom to whom, and the signature on it.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::LinkFault;
use crate::driver::UnitId;
use crate::model::codec::{self, DecodeError, Hash};
use crate::model::identity::{ActorId, Label, PublicKey, Signature, Signer};
use crate::model::keys::Signed;
use crate::model::name::Name;
use crate::model::resource::Constraints;
use crate::model::time::{Span, Term, Time};
use crate::model::verifier::Verifier;
use crate::mutants::mutant;

/// The name of a link: the hash of its signed bytes, never of a re-encoding or of the signature.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkHash(Hash);

impl LinkHash {
    /// The hash, to compare with those of other things.
    pub fn hash(self) -> Hash {
        self.0
    }

    /// All 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        self.0.to_hex()
    }

    /// No hash is before it.
    pub(crate) fn lowest() -> Self {
        Self(Hash::from_bytes([0; 32]))
    }

    /// The name of a link with this signed body.
    pub(crate) fn of_body(body: &[u8]) -> Self {
        Self(Hash::of("tenure link hash v1", &[body]))
    }
}

impl fmt::Display for LinkHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for LinkHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a delegation over all its generations: who issued it, and the issuer's running number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DelegationId {
    /// The site or broker that issued it.
    pub issuer: ActorId,
    /// The issuer's running number, from 1.
    pub number: u64,
}

impl fmt::Display for DelegationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.issuer, self.number)
    }
}

/// Marks a link as one generation of a delegation. A later generation supersedes the earlier ones:
/// same number, longer term; tickets cut under an earlier one stay valid and count once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// The issuer's running number of the delegation.
    pub delegation: u64,
    /// Counts the renewals, from 0.
    pub generation: u32,
}

/// Where the units of a ticket are accounted for: by delegation over all its generations, else by link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AccountId {
    /// All generations of one delegation.
    Delegation(DelegationId),
    /// One link that is not a delegation.
    Link(LinkHash),
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delegation(id) => id.fmt(f),
            Self::Link(hash) => hash.fmt(f),
        }
    }
}

/// What stands behind the units of a ticket, in its site's words. It is the same all along a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Assurance {
    /// A machine for each unit.
    #[default]
    Firm,
    /// More units are delegated than there are machines: a lease may wait for one.
    Overbooked,
    /// Units go only to those who accept that they are recalled.
    BestEffort,
}

impl Assurance {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Firm => "firm",
            Self::Overbooked => "overbooked",
            Self::BestEffort => "best-effort",
        }
    }
}

/// The one unit that a ticket is for, since it shares stacks with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackedUnit {
    /// Its site.
    pub site: ActorId,
    /// The unit.
    pub unit: UnitId,
    /// The tokens that go with it, one for each of its stacks, by their names. As long as a ticket with a token
    /// runs, no other holder gets one.
    pub tokens: BTreeSet<Name>,
}

/// What an issuer reserves in a link, beside its constraints. Nothing is reserved by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clauses {
    /// The issuer may recall units that are in use, this long after its site has told their holder. Without
    /// it, only units that nobody has claimed.
    pub notice: Option<Span>,
    /// No recall takes units in use before this instant.
    pub not_before: Option<Time>,
    /// On the site's clock, a first redeem is refused from this instant on.
    pub redeem_by: Option<Time>,
    /// Units that its site puts on no lease of it.
    pub not_on: BTreeSet<UnitId>,
    /// What its holder owes its issuer for each unit and hour, if that was stated.
    pub price: Option<u32>,
    /// What stands behind its units.
    pub assurance: Assurance,
    /// The one unit that it is for, if that is in stacks.
    pub stacked: Option<Box<StackedUnit>>,
}

impl Clauses {
    /// Nothing is reserved.
    pub const NONE: Self = Self {
        notice: None,
        not_before: None,
        redeem_by: None,
        not_on: BTreeSet::new(),
        price: None,
        assurance: Assurance::Firm,
        stacked: None,
    };

    /// The least that a child of a link with these clauses must have too, at the same price.
    pub fn inherited(&self) -> Self {
        let Self { redeem_by, price, assurance, .. } = *self;
        let stacked = self.stacked.clone().filter(|_| !mutant!(TokensLeftBehind));
        Self { redeem_by, not_on: self.not_on.clone(), price, assurance, stacked, ..Self::NONE }
    }

    /// The same, to be redeemed before `by` if that is earlier.
    pub fn redeemed_by(self, by: Option<Time>) -> Self {
        let redeem_by = self.redeem_by.into_iter().chain(by).min();
        Self { redeem_by, ..self }
    }

    /// The same, without these units as well.
    pub fn without(mut self, units: BTreeSet<UnitId>) -> Self {
        self.not_on.extend(units);
        self
    }

    /// The same at this price.
    pub fn priced(self, price: Option<u32>) -> Self {
        Self { price, ..self }
    }

    /// Whether units under a link with these clauses can be had no longer than under its parent.
    fn keep(&self, parent: &Self) -> bool {
        parent.redeem_by.is_none_or(|by| self.redeem_by.is_some_and(|own| own <= by))
    }
}

/// What a link says. Signed as encoded, under the label for links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The link above; none for a site's own.
    pub parent: Option<LinkHash>,
    /// Who hands on; the holder of the parent.
    pub issuer: ActorId,
    /// Who receives, and alone can use it.
    pub holder: ActorId,
    /// The type of the units.
    pub resource: Name,
    /// How many units.
    pub units: NonZeroU32,
    /// For how long.
    pub term: Term,
    /// Conditions on the use; all of the parent's and maybe more.
    pub constraints: Constraints,
    /// What its issuer reserves.
    pub clauses: Clauses,
    /// Set on a delegation.
    pub delegation: Option<Generation>,
    /// On an extension: the ticket whose lease continues, with the same units.
    pub extends: Option<LinkHash>,
    /// The issuer's running number, so that two links never have the same bytes.
    pub serial: u64,
}

/// The most constraints on one link.
pub const MAX_CONSTRAINTS: usize = Constraints::MAX_COUNT;

impl Link {
    /// Whether this link is a part of `parent`, or, without one, may stand at the root.
    pub fn follows(&self, parent: Option<&SignedLink>) -> Result<(), LinkFault> {
        if self.constraints.len() > MAX_CONSTRAINTS {
            return Err(LinkFault::TooManyConstraints);
        }
        if self.parent != parent.map(SignedLink::hash) {
            return Err(LinkFault::Parent);
        }
        let Some(parent) = parent else { return Ok(()) };
        if self.issuer != parent.holder {
            Err(LinkFault::Issuer)
        } else if self.delegation.is_some() && parent.delegation.is_none() {
            Err(LinkFault::Delegation)
        } else if self.resource != parent.resource {
            let (child, parent) = (self.resource.clone(), parent.resource.clone());
            Err(LinkFault::Resource { child, parent })
        } else if self.units > parent.units {
            Err(LinkFault::Units { child: self.units.get(), parent: parent.units.get() })
        } else if !parent.term.encloses(self.term) && !mutant!(TermMayLeaveParent) {
            Err(LinkFault::Term { child: self.term, parent: parent.term })
        } else if !self.constraints.keep_all_of(&parent.constraints) {
            Err(LinkFault::Constraints)
        } else if !self.clauses.keep(&parent.clauses) {
            Err(LinkFault::RedeemBy)
        } else if !self.clauses.not_on.is_superset(&parent.clauses.not_on) {
            Err(LinkFault::NotOn)
        } else if self.clauses.assurance != parent.clauses.assurance {
            Err(LinkFault::Assurance)
        } else if self.clauses.stacked != parent.clauses.stacked && !mutant!(TokensLeftBehind) {
            Err(LinkFault::Stacked)
        } else {
            Ok(())
        }
    }
}

/// A link with its signature, kept as the bytes that were received: they are what is verified and
/// passed on. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedLink(Arc<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    /// As it travels: key, signature, then the signed body.
    bytes: Box<[u8]>,
    link: Link,
    hash: LinkHash,
}

/// Key, signature and signed body of a link as it travels.
fn parts(bytes: &[u8]) -> Option<(PublicKey, Signature, &[u8])> {
    let (key, rest) = bytes.split_first_chunk()?;
    let (signature, body) = rest.split_first_chunk()?;
    Some((PublicKey::from_bytes(*key), Signature::from_bytes(*signature), body))
}

impl SignedLink {
    /// Signs `link`.
    pub fn sign(link: Link, signer: &Signer) -> Self {
        let body = codec::encode(&link);
        let (key, signature) = (signer.key(), signer.sign(Label::Link, &body));
        let hash = LinkHash::of_body(&body);
        let bytes = [key.as_bytes().as_slice(), signature.as_bytes(), &body].concat().into();
        Self(Arc::new(Inner { bytes, link, hash }))
    }

    /// Reads a link as it travels: 32 bytes of key, 64 of signature, then the body. The signature is not
    /// checked here.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let short = || DecodeError::Malformed(format!("{} bytes are too few", bytes.len()));
        let (_, _, body) = parts(bytes).ok_or_else(short)?;
        let (link, hash) = (codec::decode(body)?, LinkHash::of_body(body));
        Ok(Self(Arc::new(Inner { bytes: bytes.into(), link, hash })))
    }

    /// The link as it travels.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// The name of the link.
    pub fn hash(&self) -> LinkHash {
        self.0.hash
    }

    /// The key that signed it.
    pub fn key(&self) -> Option<PublicKey> {
        parts(&self.0.bytes).map(|(key, _, _)| key)
    }

    /// Whether what its key signed counts as signed by its issuer.
    pub fn stands(&self, verifier: &Verifier) -> bool {
        let kept = Signed::Kept(self.hash().hash());
        self.key().is_some_and(|key| verifier.stands(self.issuer, &key, kept))
    }

    /// Whether the key is the issuer's and counts, and the signature is the key's.
    pub fn verifies(&self, verifier: &mut Verifier) -> bool {
        self.stands(verifier)
            && parts(&self.0.bytes).is_some_and(|(key, signature, body)| {
                verifier.verifies(&key, Label::Link, body, &signature)
            })
    }

    /// The link was signed here: its signature holds.
    pub(crate) fn was_made(&self, verifier: &Verifier) {
        if let Some((key, signature, body)) = parts(&self.0.bytes) {
            verifier.made(&key, Label::Link, body, &signature);
        }
    }

    /// The account that the children of this link are charged to.
    pub fn account(&self) -> AccountId {
        match self.delegation {
            Some(Generation { delegation: number, .. }) => {
                AccountId::Delegation(DelegationId { issuer: self.issuer, number })
            }
            None => AccountId::Link(self.hash()),
        }
    }
}

impl Deref for SignedLink {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.0.link
    }
}

impl fmt::Debug for SignedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.units, self.resource, self.term)
    }
}

impl Serialize for SignedLink {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0.bytes)
    }
}

impl<'de> Deserialize<'de> for SignedLink {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Travelling;

        impl Visitor<'_> for Travelling {
            type Value = SignedLink;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a signed link")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<SignedLink, E> {
                SignedLink::read(bytes).map_err(E::custom)
            }
        }

        deserializer.deserialize_bytes(Travelling)
    }
}
