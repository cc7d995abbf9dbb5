//! Members: what the software of a service itself says takes part in it without a lease.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a member is called: the name of a host, or an address. Letters are small: hosts are the same whatever they
/// are written with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MemberId(String);

/// Why members are not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadMembers {
    /// A name is none.
    #[error("`{0}` names no member: a name is one word of {max} bytes at most", max = MemberId::MAX)]
    Name(String),
    /// There are too many.
    #[error("a service has {max} members without a lease at most", max = Members::MAX_COUNT)]
    TooMany,
}

impl MemberId {
    /// The longest name, in bytes.
    pub const MAX: usize = 255;

    /// A name, if it is one word.
    ///
    /// # Errors
    /// If it is none.
    pub fn new(text: &str) -> Result<Self, BadMembers> {
        let plain = |c: char| !c.is_control() && !c.is_whitespace();
        if text.is_empty() || text.len() > Self::MAX || !text.chars().all(plain) {
            let text: String = text.chars().take(100).collect();
            return Err(BadMembers::Name(text.escape_debug().to_string()));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a name is fully qualified: that of one host, whoever states it. An address is none.
pub(crate) fn is_qualified(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.contains('.') && name.parse::<IpAddr>().is_err()
}

impl TryFrom<String> for MemberId {
    type Error = BadMembers;

    fn try_from(text: String) -> Result<Self, BadMembers> {
        Self::new(&text)
    }
}

impl From<MemberId> for String {
    fn from(id: MemberId) -> Self {
        id.0
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All members of a service that have no lease, each with whether it is up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<MemberId, bool>", into = "BTreeMap<MemberId, bool>")]
pub struct Members(BTreeMap<MemberId, bool>);

impl Members {
    /// The most of one service.
    pub const MAX_COUNT: usize = 1024;

    /// Adds a member. One that is listed twice is up if either entry says so.
    ///
    /// # Errors
    /// If its name is none, or there are too many.
    pub fn insert(&mut self, name: &str, up: bool) -> Result<(), BadMembers> {
        *self.0.entry(MemberId::new(name)?).or_default() |= up;
        if self.0.len() > Self::MAX_COUNT { Err(BadMembers::TooMany) } else { Ok(()) }
    }

    /// They, with whether they are up.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&MemberId, bool)> {
        self.0.iter().map(|(id, up)| (id, *up))
    }

    /// Whether one is up; none if it is no member.
    pub fn get(&self, id: &MemberId) -> Option<bool> {
        self.0.get(id).copied()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(MemberId, bool)> for Members {
    fn from_iter<I: IntoIterator<Item = (MemberId, bool)>>(members: I) -> Self {
        Self(members.into_iter().collect())
    }
}

impl TryFrom<BTreeMap<MemberId, bool>> for Members {
    type Error = BadMembers;

    fn try_from(members: BTreeMap<MemberId, bool>) -> Result<Self, BadMembers> {
        if members.len() > Self::MAX_COUNT { Err(BadMembers::TooMany) } else { Ok(Self(members)) }
    }
}

impl From<Members> for BTreeMap<MemberId, bool> {
    fn from(members: Members) -> Self {
        members.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_words_that_small_letters_make_the_same() {
        let mut members = Members::default();
        members.insert("Node1", false).unwrap();
        members.insert("node1", true).unwrap();
        assert_eq!(members.get(&MemberId::new("NODE1").unwrap()), Some(true));
        for wrong in ["", "a b", "a\n", &"a".repeat(256)] {
            members.insert(wrong, true).unwrap_err();
        }
        for number in 1..Members::MAX_COUNT {
            members.insert(&format!("n-{number}"), true).unwrap();
        }
        assert_eq!(members.insert("one-more", true), Err(BadMembers::TooMany));
    }
}
