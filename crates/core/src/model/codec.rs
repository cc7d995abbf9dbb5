//! The one place that knows the encoding: bincode 2, standard layout, bounded and strict.
//!
//! bincode alone would accept left-over bytes, over-long integers and any claimed length. What is decoded
//! here has one spelling only: the input is bounded, must be used up, and must be the very bytes that
//! encoding the value again would give. `docs/FORMATS.md` specifies the layout.

use std::cmp::Ordering;
use std::{fmt, io};

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::de::{DeserializeOwned, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The largest value that is decoded from received bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// The largest fact. A fact holds what one message brought and what the actor has to say about it: with
/// this much room whatever could be written can be read.
pub const MAX_FACT_BYTES: usize = 4 * MAX_BYTES;

/// The largest state of an actor that is decoded. What is stored is bounded by what SQLite takes.
pub const MAX_STATE_BYTES: usize = 1 << 30;

type Layout<const LIMIT: usize> = Configuration<LittleEndian, Varint, Limit<LIMIT>>;
const fn layout<const LIMIT: usize>() -> Layout<LIMIT> {
    bincode::config::standard().with_limit::<LIMIT>()
}

/// Bytes that do not hold what they should.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Longer than [`MAX_BYTES`], for a fact [`MAX_FACT_BYTES`], for a state [`MAX_STATE_BYTES`].
    #[error("{len} bytes are more than the {most} allowed")]
    TooLong {
        /// How long it is.
        len: usize,
        /// The most that is decoded.
        most: usize,
    },
    /// Not the layout of the expected value.
    #[error("malformed: {0}")]
    Malformed(String),
    /// A value, and then more.
    #[error("{0} bytes left over behind the value")]
    LeftOver(usize),
    /// A value in a spelling other than the only one allowed.
    #[error("not in canonical form")]
    NotCanonical,
    /// A fact of a kind, or of a version of that kind, that this build does not know.
    #[error("no fact of kind `{kind}` in version {version} is known")]
    UnknownKind {
        /// The kind that was named.
        kind: String,
        /// The version that was named.
        version: u16,
    },
}

/// The bytes of `value`.
///
/// # Panics
/// Never for the types of this crate: all of them have a length known up front, which is the only
/// thing the layout asks for.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    encode_into(value, &mut bytes);
    bytes
}

/// Appends the bytes of `value` to `bytes`.
///
/// # Panics
/// As [`encode`]: never for the types of this crate.
pub fn encode_into<T: Serialize>(value: &T, bytes: &mut Vec<u8>) {
    let written = bincode::serde::encode_into_std_write(value, bytes, layout::<MAX_BYTES>());
    assert!(written.is_ok(), "a value of this crate has no encoding: {written:?}");
}

/// The value that `bytes` hold: all of them, in their only spelling.
pub fn decode<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    canonical(bytes, decode_trusted(bytes)?)
}

/// As [`decode`] for the body of a fact, which may be longer.
pub fn decode_fact<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    canonical(bytes, decode_within::<T, MAX_FACT_BYTES>(bytes)?)
}

/// The value at the beginning of `bytes`, in its only spelling, and how many of them it takes.
pub fn decode_first<T: Serialize + DeserializeOwned>(
    bytes: &[u8],
) -> Result<(T, usize), DecodeError> {
    let (value, used) = bincode::serde::decode_from_slice(bytes, layout::<MAX_FACT_BYTES>())
        .map_err(|error| DecodeError::Malformed(error.to_string()))?;
    Ok((canonical(&bytes[..used], value)?, used))
}

/// As [`decode`] for the state of an actor, which may be much longer.
pub fn decode_state<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    canonical(bytes, decode_within::<T, MAX_STATE_BYTES>(bytes)?)
}

/// Whether what `value` is encoded to can be decoded by others.
pub fn fits<T: Serialize + DeserializeOwned>(value: &T) -> bool {
    decode_trusted::<T>(&encode(value)).is_ok()
}

fn canonical<T: Serialize>(bytes: &[u8], value: T) -> Result<T, DecodeError> {
    let mut expected = Expected(bytes);
    let written =
        bincode::serde::encode_into_std_write(&value, &mut expected, layout::<MAX_FACT_BYTES>());
    if written.is_ok() && expected.0.is_empty() {
        Ok(value)
    } else {
        Err(DecodeError::NotCanonical)
    }
}

/// Takes what it expects and nothing else: an encoding is compared as it is made, and never kept.
struct Expected<'a>(&'a [u8]);

impl io::Write for Expected<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.strip_prefix(bytes).ok_or(io::ErrorKind::InvalidData)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As [`decode`] for bytes this process has encoded itself: their spelling is not checked again.
pub fn decode_trusted<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    decode_within::<T, MAX_BYTES>(bytes)
}

fn decode_within<T: DeserializeOwned, const LIMIT: usize>(bytes: &[u8]) -> Result<T, DecodeError> {
    if bytes.len() > LIMIT {
        return Err(DecodeError::TooLong { len: bytes.len(), most: LIMIT });
    }
    let (value, used) = bincode::serde::borrow_decode_from_slice(bytes, layout::<LIMIT>())
        .map_err(|error| DecodeError::Malformed(error.to_string()))?;
    if used < bytes.len() {
        return Err(DecodeError::LeftOver(bytes.len() - used));
    }
    Ok(value)
}

/// `N` bytes. Like every byte string they are encoded with their length in front; where a format is for
/// people to read they are hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blob<const N: usize>(pub [u8; N]);

impl<const N: usize> Serialize for Blob<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(&format_args!("{self:?}"))
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de, const N: usize> Deserialize<'de> for Blob<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes<const N: usize>;

        impl<const N: usize> Visitor<'_> for Bytes<N> {
            type Value = Blob<N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{N} bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Blob<N>, E> {
                bytes.try_into().map(Blob).map_err(|_| E::invalid_length(bytes.len(), &self))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Blob<N>, E> {
                let digit =
                    |c: u8| (c as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                let pairs = text.as_bytes().chunks(2).map(|pair| match *pair {
                    [high, low] => Some(digit(high)? << 4 | digit(low)?),
                    _ => None,
                });
                let bytes: Option<Vec<u8>> = pairs.collect();
                let bytes = bytes.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))?;
                self.visit_bytes(&bytes)
            }
        }

        if deserializer.is_human_readable() {
            deserializer.deserialize_str(Bytes)
        } else {
            deserializer.deserialize_bytes(Bytes)
        }
    }
}

impl<const N: usize> fmt::Debug for Blob<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Any number of bytes, laid out as a sequence of them; hexadecimal digits where a format is for people to
/// read.
pub(crate) mod octets {
    use std::fmt::Write as _;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        if !to.is_human_readable() {
            return bytes.serialize(to);
        }
        let mut digits = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            write!(digits, "{byte:02x}").map_err(serde::ser::Error::custom)?;
        }
        to.serialize_str(&digits)
    }

    /// From the layout of machines alone: nobody reads a message back from text.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        Vec::deserialize(from)
    }
}

/// A SHA-256 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hash(Blob<32>);

impl Hash {
    /// The hash of `parts` under a label for the kind of value. Each part goes in with its length,
    /// so no two lists of parts share a hash by running together.
    pub fn of(label: &str, parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in std::iter::once(label.as_bytes()).chain(parts.iter().copied()) {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(Blob(hasher.finalize().into()))
    }

    /// The hash whose 32 bytes are known.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Blob(bytes))
    }

    /// The 32 bytes.
    pub fn to_bytes(self) -> [u8; 32] {
        self.0.0
    }

    /// All 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        format!("{:?}", self.0)
    }
}

impl Ord for Hash {
    /// By their bytes. The first eight, as one number, decide nearly always.
    fn cmp(&self, other: &Self) -> Ordering {
        let head = |hash: &Self| hash.0.0.first_chunk().copied().map(u64::from_be_bytes);
        head(self).cmp(&head(other)).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Hash {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Hash {
    /// The first ten digits: enough to distinguish things on a screen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.0[..5].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads a map entry by entry: room is made for what is there, not for what a damaged length says.
pub(crate) fn ord_map<'de, K, V, D>(deserializer: D) -> Result<imbl::OrdMap<K, V>, D::Error>
where
    K: Ord + Clone + Deserialize<'de>,
    V: Clone + Deserialize<'de>,
    D: Deserializer<'de>,
{
    let map: std::collections::BTreeMap<K, V> = Deserialize::deserialize(deserializer)?;
    Ok(map.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_over_bytes_are_refused() {
        assert_eq!(decode::<u64>(&[1, 2]), Err(DecodeError::LeftOver(1)));
    }

    #[test]
    fn an_integer_longer_than_it_need_be_is_refused() {
        let long_one = [251, 1, 0];
        assert_eq!(decode::<u64>(&long_one), Err(DecodeError::NotCanonical));
        assert_eq!(decode_trusted::<u64>(&long_one), Ok(1));
    }

    #[test]
    fn a_hostile_length_is_an_error_and_not_an_allocation() {
        let hostile = [253, 255, 255, 255, 255, 255, 255, 255, 127];
        assert!(matches!(decode::<Vec<u8>>(&hostile), Err(DecodeError::Malformed(_))));
    }

    #[test]
    fn a_blob_is_its_length_and_its_bytes() {
        let blob = Blob([1, 2, 3, 4]);
        assert_eq!(encode(&blob), [4, 1, 2, 3, 4]);
        assert_eq!(decode(&[4, 1, 2, 3, 4]), Ok(blob));
        assert!(decode::<Blob<4>>(&[3, 1, 2, 3]).is_err());
    }
}
