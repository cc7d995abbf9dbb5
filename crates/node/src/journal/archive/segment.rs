//! One segment of an archive: a run of facts, compressed, behind a head that its actor has signed.

use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};
use tenure_core::actor::Actor as _;
use tenure_core::model::codec::{self, Hash, MAX_FACT_BYTES};
use tenure_core::model::identity::{ActorId, Label, PublicKey, Scheme, Signature, Signer};
use tenure_core::model::time::Time;
use tenure_core::model::verifier::Verifier;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::journal::Row;
use thiserror::Error;

/// By which a file is known to be a segment.
const MAGIC: [u8; 4] = *b"TNRS";

/// The version of the layout.
const VERSION: u16 = 1;

/// The most bytes of facts that a segment can have, many times what is written.
const MAX_LENGTH: u64 = 4 * MAX_FACT_BYTES as u64;

/// What a segment says of itself, signed by its actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentHead {
    /// Whose journal it is of.
    pub owner: ActorId,
    /// Its number, from 0.
    pub number: u64,
    /// The hash of the signed head before it; none of the first.
    pub previous: Option<Hash>,
    /// The position of its first fact.
    pub first: u64,
    /// The position of its last fact.
    pub last: u64,
    /// The hash of the journal up to and including its last fact.
    pub journal: Hash,
    /// The number of bytes of its facts.
    pub length: u64,
    /// The number of bytes that they take when compressed.
    pub compressed: u64,
    /// The hash of the compressed bytes.
    pub content: Hash,
}

/// A head with its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedHead {
    /// What is signed.
    pub head: SegmentHead,
    /// The key, one of the actor's.
    pub key: PublicKey,
    /// Its signature on the encoded head.
    pub signature: Signature,
}

impl SignedHead {
    /// By which the next head names it.
    pub fn hash(&self) -> Hash {
        let head = codec::encode(&self.head);
        Hash::of("tenure segment v1", &[&head, self.key.as_bytes(), self.signature.as_bytes()])
    }

    /// Whether the key has signed it.
    pub(super) fn is_signed(&self) -> bool {
        let head = codec::encode(&self.head);
        let mut verifier = Verifier::new(Scheme::Ed25519);
        verifier.verifies(&self.key, Label::Segment, &head, &self.signature)
    }
}

/// Signs heads in the name of an actor.
pub trait SignSegment {
    /// The key in force.
    fn key(&self) -> PublicKey;

    /// Its signature on an encoded head; none if its secret is missing.
    fn sign(&self, head: &[u8]) -> Option<Signature>;
}

impl SignSegment for AnyActor {
    fn key(&self) -> PublicKey {
        tenure_core::actor::Actor::key(self)
    }

    fn sign(&self, head: &[u8]) -> Option<Signature> {
        self.missing_secret().is_none().then(|| self.sign_segment(head))
    }
}

impl SignSegment for Signer {
    fn key(&self) -> PublicKey {
        Self::key(self)
    }

    fn sign(&self, head: &[u8]) -> Option<Signature> {
        Some(Self::sign(self, Label::Segment, head))
    }
}

/// What is wrong with a segment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SegmentDamage {
    /// There is no such file.
    #[error("its file is missing")]
    Missing,
    /// It does not begin as a segment does.
    #[error("its head is malformed: {0}")]
    Malformed(String),
    /// It is in a layout of a newer version of this program.
    #[error("it has version {0}, and this program knows {VERSION}")]
    Newer(u16),
    /// The file is that of another segment, or of another actor's.
    #[error("its file holds segment {number} of {owner}")]
    Misplaced {
        /// Which one it holds.
        number: u64,
        /// Whose.
        owner: ActorId,
    },
    /// Its head is whole, but not the one that the journal names.
    #[error("its head is not the one that the journal names")]
    Head,
    /// It does not name the head before it.
    #[error("it does not continue from the segment before it")]
    Chain,
    /// Bytes are missing at its end, or there are more.
    #[error("it is cut or extended: {found} compressed bytes are there, of {expected}")]
    Length {
        /// How many there are.
        found: u64,
        /// How many there were.
        expected: u64,
    },
    /// Its facts are not those that were written.
    #[error("its facts were changed: their hash does not fit")]
    Content,
    /// Its facts are whole, but do not continue from those before it, or are not as many.
    #[error("its facts are not those that its head names")]
    Facts,
    /// The signature on its head is not that of the key beside it.
    #[error("the signature on its head is not valid")]
    Signature,
    /// It is signed by a key that is not the actor's.
    #[error("it is signed by a key that is not its actor's")]
    Key,
}

/// A segment, as its file has it.
pub(super) struct Segment {
    pub(super) signed: SignedHead,
    compressed: Vec<u8>,
}

impl Segment {
    /// Closes a segment: compresses its facts and signs its head, of which lengths and content are filled in.
    /// None if the actor cannot sign.
    pub(super) fn close(
        head: SegmentHead,
        facts: &[u8],
        signer: &dyn SignSegment,
    ) -> io::Result<Option<Self>> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(facts)?;
        let compressed = encoder.finish()?;
        let head = SegmentHead {
            length: facts.len() as u64,
            compressed: compressed.len() as u64,
            content: content_hash(&compressed),
            ..head
        };
        let Some(signature) = signer.sign(&codec::encode(&head)) else { return Ok(None) };
        let signed = SignedHead { head, key: signer.key(), signature };
        Ok(Some(Self { signed, compressed }))
    }

    /// The bytes of its file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let head = codec::encode(&self.signed.head);
        let mut bytes = Vec::with_capacity(self.compressed.len() + head.len() + 128);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(head.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(self.signed.key.as_bytes());
        bytes.extend_from_slice(self.signed.signature.as_bytes());
        bytes.extend_from_slice(&self.compressed);
        bytes
    }

    /// Reads a file, and checks its facts against its head.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, SegmentDamage> {
        let (signed, compressed) = parse_head(bytes)?;
        let (found, expected) = (compressed.len() as u64, signed.head.compressed);
        if found != expected {
            return Err(SegmentDamage::Length { found, expected });
        }
        if content_hash(compressed) != signed.head.content {
            return Err(SegmentDamage::Content);
        }
        Ok(Self { signed, compressed: compressed.to_owned() })
    }

    /// Its facts, as [`next_row`] reads them.
    pub(super) fn facts(&self) -> Result<Vec<u8>, SegmentDamage> {
        let length = self.signed.head.length;
        if length > MAX_LENGTH {
            return Err(SegmentDamage::Facts);
        }
        let mut facts = Vec::new();
        // One byte more than there should be is enough to know.
        let mut decoder = ZlibDecoder::new(&*self.compressed).take(length + 1);
        decoder.read_to_end(&mut facts).map_err(|_| SegmentDamage::Content)?;
        if facts.len() as u64 == length { Ok(facts) } else { Err(SegmentDamage::Facts) }
    }
}

fn content_hash(compressed: &[u8]) -> Hash {
    Hash::of("tenure segment content v1", &[compressed])
}

/// The signed head at the beginning of a file, and what follows it.
pub(super) fn parse_head(mut bytes: &[u8]) -> Result<(SignedHead, &[u8]), SegmentDamage> {
    let cut = || SegmentDamage::Malformed("it is cut short".to_owned());
    let rest = &mut bytes;
    if take(rest).ok_or_else(cut)? != MAGIC {
        return Err(SegmentDamage::Malformed("it is another file".to_owned()));
    }
    let version = u16::from_le_bytes(take(rest).ok_or_else(cut)?);
    if version != VERSION {
        return Err(SegmentDamage::Newer(version));
    }
    let length = u32::from_le_bytes(take(rest).ok_or_else(cut)?);
    let head = rest.split_off(..length as usize).ok_or_else(cut)?;
    let head = codec::decode(head).map_err(|cause| SegmentDamage::Malformed(cause.to_string()))?;
    let key = PublicKey::from_bytes(take(rest).ok_or_else(cut)?);
    let signature = Signature::from_bytes(take(rest).ok_or_else(cut)?);
    Ok((SignedHead { head, key, signature }, bytes))
}

/// Appends a fact: the bytes that go into the hash of its journal.
pub(super) fn add_row(facts: &mut Vec<u8>, row: &Row<'_>) {
    facts.extend_from_slice(&row.at.as_micros().to_le_bytes());
    facts.push(u8::try_from(row.kind.len()).unwrap_or(u8::MAX));
    facts.extend_from_slice(row.kind.as_bytes());
    facts.extend_from_slice(&row.version.to_le_bytes());
    facts.extend_from_slice(&(row.body.len() as u64).to_le_bytes());
    facts.extend_from_slice(row.body);
}

/// The next fact of a segment; none if there is none, or it is no fact.
pub(super) fn next_row<'a>(facts: &mut &'a [u8]) -> Option<Row<'a>> {
    let at = Time::from_micros(i64::from_le_bytes(take(facts)?));
    let [kind] = take(facts)?;
    let kind = std::str::from_utf8(facts.split_off(..usize::from(kind))?).ok()?;
    let version = u16::from_le_bytes(take(facts)?);
    let body = usize::try_from(u64::from_le_bytes(take(facts)?)).ok()?;
    Some(Row { at, kind, version, body: facts.split_off(..body)? })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    bytes.split_off(..N)?.try_into().ok()
}
