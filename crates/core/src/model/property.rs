//! Property lists: key and text, carried by the core and read only by plug-ins.
//!
//! Four kinds travel: *request* properties to the broker, *resource* properties with a type,
//! *configuration* properties to the site, *unit* properties back to the guest.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::name::Name;

/// An opaque list of properties, ordered by key. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<Name, String>", into = "BTreeMap<Name, String>")]
pub struct Properties(Option<Arc<BTreeMap<Name, String>>>);

/// A property list beyond its bounds.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadProperties {
    /// More than [`Properties::MAX_COUNT`] keys.
    #[error("{0} properties are more than the {max} allowed", max = Properties::MAX_COUNT)]
    TooMany(usize),
    /// A value longer than [`Properties::MAX_VALUE`] bytes.
    #[error("property `{key}` holds {len} bytes, more than the {max} allowed", max = Properties::MAX_VALUE)]
    TooLong {
        /// The key of the value.
        key: Name,
        /// Its length in bytes.
        len: usize,
    },
    /// More bytes altogether than there is room for.
    #[error("{bytes} bytes of properties are more than the {most} allowed")]
    TooLarge {
        /// How many they take.
        bytes: usize,
        /// How many they may take.
        most: usize,
    },
}

impl Properties {
    /// The most keys in one list.
    pub const MAX_COUNT: usize = 64;
    /// The longest value, in bytes.
    pub const MAX_VALUE: usize = 4096;

    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| k.as_str() == key).map(|(_, v)| v)
    }

    /// All properties in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &str)> {
        self.0.iter().flat_map(|map| map.iter().map(|(k, v)| (k, v.as_str())))
    }

    /// How many bytes the list takes at most when it is encoded, as a decoder counts them.
    pub fn bytes(&self) -> usize {
        self.iter().map(|(key, value)| key.as_str().len() + value.len() + 16).sum()
    }

    /// Checks that the list takes no more than `most` [`bytes`](Self::bytes).
    ///
    /// # Errors
    /// How many it takes, if they are more.
    pub fn check_bytes(&self, most: usize) -> Result<(), BadProperties> {
        let bytes = self.bytes();
        if bytes <= most { Ok(()) } else { Err(BadProperties::TooLarge { bytes, most }) }
    }

    /// Whether the list holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl TryFrom<BTreeMap<Name, String>> for Properties {
    type Error = BadProperties;

    fn try_from(map: BTreeMap<Name, String>) -> Result<Self, BadProperties> {
        if map.len() > Self::MAX_COUNT {
            return Err(BadProperties::TooMany(map.len()));
        }
        if let Some((key, value)) = map.iter().find(|(_, v)| v.len() > Self::MAX_VALUE) {
            return Err(BadProperties::TooLong { key: key.clone(), len: value.len() });
        }
        Ok(Self((!map.is_empty()).then(|| Arc::new(map))))
    }
}

impl From<Properties> for BTreeMap<Name, String> {
    fn from(properties: Properties) -> Self {
        properties.0.map(Arc::unwrap_or_clone).unwrap_or_default()
    }
}
