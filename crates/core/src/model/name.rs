//! Names: what people call actors, resource types, slices, signals and property keys.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

/// A short name: a letter or digit, then up to 63 of `a-z 0-9 . _ -`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(Arc<str>);

/// A string that is not a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{}` is not a name: use 1 to {} of a-z, 0-9, `.`, `_`, `-`, starting with a letter or digit",
    .0.escape_debug(), Name::MAX_LEN
)]
pub struct BadName(String);

impl Name {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 64;

    /// Checks and takes a name.
    pub fn new(text: &str) -> Result<Self, BadName> {
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let allowed = |c: u8| plain(c) || matches!(c, b'.' | b'_' | b'-');
        let bytes = text.as_bytes();
        match bytes.first() {
            Some(&first)
                if plain(first)
                    && bytes.len() <= Self::MAX_LEN
                    && bytes.iter().all(|&c| allowed(c)) =>
            {
                Ok(Self(text.into()))
            }
            _ => Err(BadName(text.chars().take(Self::MAX_LEN).collect())),
        }
    }

    /// A name that the program itself spells.
    ///
    /// # Panics
    /// If the text is not a name: a mistake in the program.
    pub fn literal(text: &'static str) -> Self {
        match Self::new(text) {
            Ok(name) => name,
            Err(bad) => panic!("{bad}"),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    /// Names are ordered and hashed as their texts.
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        Self::new(&text)
    }
}

impl std::str::FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        Self::new(text)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        assert!(Name::new("site-a").is_ok());
        assert!(Name::new("machine.memory").is_ok());
        for bad in ["", "-x", "Site", "a b", "a/b", &"x".repeat(65)] {
            assert!(Name::new(bad).is_err(), "{bad:?} was taken");
        }
    }
}
