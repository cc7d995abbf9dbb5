//! Snapshots: an actor's whole state as bytes, so that not every fact of a long journal has to be folded.
//!
//! A snapshot is what folding the facts before its position gives, and is never needed: anyone who cannot
//! read one folds the facts. It holds no configuration, but it names what of it the fold has used: a
//! state that grew under other settings is not what these settings would give. `docs/FORMATS.md` has
//! the layout.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::actor::Role;
use crate::actor::common::CommonState;
use crate::model::codec::{self, DecodeError, Hash};
use crate::model::identity::ActorId;
use crate::model::keys::KeyBook;
use crate::model::name::Name;
use crate::model::time::Span;

/// The version of the layout, and of what folding means: it is raised whenever the same facts give other
/// bytes, so that no build continues from a state that it would not have computed itself.
pub const VERSION: u16 = 26;

/// What folding facts takes from an actor's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The bound on the difference of two actors' clocks.
    pub margin: Span,
    /// A service manager's: how long before the end of a lease its guest starts to leave.
    pub leave_before: Span,
    /// A site's: for each offer the broker, the type, the unit if it is for one, and how long before its end a
    /// delegation is renewed.
    pub renewals: Vec<(ActorId, Name, Option<Name>, Span)>,
}

/// Why an actor does not take a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// Another version of the program made it.
    #[error("it has version {0}, and this program knows {VERSION}")]
    Version(u16),
    /// It is that of an actor of another role.
    #[error("it is a {found}'s, not a {expected}'s")]
    Role {
        /// Whose it is.
        found: Role,
        /// Whose it should be.
        expected: Role,
    },
    /// The facts were folded under other settings: a margin or an offer was changed since.
    #[error("it was made under other settings")]
    Settings,
    /// It cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// The hash of a state: that of its bytes.
pub fn hash(bytes: &[u8]) -> Hash {
    Hash::of("tenure state v1", &[bytes])
}

/// For which role a snapshot is, and under which settings it was made.
pub fn about(bytes: &[u8]) -> Result<(Role, Settings), RestoreError> {
    Ok(split(bytes)?.0)
}

/// The bytes of what all roles have in common and of a state that the facts before a position have folded to.
pub(crate) fn write<T: Serialize>(
    role: Role,
    settings: &Settings,
    (position, keys, common): (u64, &KeyBook, &CommonState),
    state: &T,
) -> Vec<u8> {
    let head = codec::encode(&(role, settings));
    let mut bytes = VERSION.to_le_bytes().to_vec();
    bytes.extend_from_slice(&(head.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&head);
    codec::encode_into(&(position, keys, common, state), &mut bytes);
    bytes
}

/// What all roles have in common, and the state in a snapshot of this role, made under these settings.
pub(crate) fn read<T: Serialize + DeserializeOwned>(
    role: Role,
    settings: &Settings,
    bytes: &[u8],
) -> Result<((u64, KeyBook, CommonState), T), RestoreError> {
    let ((found, made_under), state) = split(bytes)?;
    if found != role {
        return Err(RestoreError::Role { found, expected: role });
    }
    if made_under != *settings {
        return Err(RestoreError::Settings);
    }
    let (position, keys, common, state) = codec::decode_state(state)?;
    Ok(((position, keys, common), state))
}

fn split(bytes: &[u8]) -> Result<((Role, Settings), &[u8]), RestoreError> {
    let short = || DecodeError::Malformed(format!("{} bytes are too few", bytes.len()));
    let (version, rest) = bytes.split_first_chunk().ok_or_else(short)?;
    match u16::from_le_bytes(*version) {
        VERSION => {}
        other => return Err(RestoreError::Version(other)),
    }
    let (length, rest) = rest.split_first_chunk().ok_or_else(short)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let (head, state) = rest.split_at_checked(length).ok_or_else(short)?;
    Ok((codec::decode(head)?, state))
}
