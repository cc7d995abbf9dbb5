//! Facts: what an actor's journal holds, and all it needs to come back.
//!
//! A fact says what was decided, never what was asked or how; so a mapper can change without breaking
//! an old journal. Each kind is one frozen layout with a version of its own. A changed layout is a new
//! version with a step that lifts the old one, never an edit.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::actor::machine::Illegal;
use crate::model::time::Time;

/// Declares the facts of one role: a struct and a variant for each, with its kind and version, and the
/// variant of those that all roles have.
macro_rules! facts {
    (of $role:expr; $(
        $(#[$doc:meta])*
        $name:ident = $kind:literal $version:literal {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl From<$name> for Fact {
                fn from(fact: $name) -> Self {
                    Self::$name(fact)
                }
            }
        )*

        /// The facts of this role.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Fact {
            $($(#[$doc])* $name($name),)*
            /// A fact that actors of all roles have.
            Common(crate::actor::common::CommonFact),
        }

        impl From<crate::actor::common::CommonFact> for Fact {
            fn from(fact: crate::actor::common::CommonFact) -> Self {
                Self::Common(fact)
            }
        }

        impl Fact {
            /// The kinds of this role, each with the version that is written today.
            pub fn kinds() -> impl Iterator<Item = (&'static str, u16)> {
                let own = [$(($kind, $version),)*].into_iter();
                own.chain(crate::actor::common::CommonFact::kinds($role))
            }

            /// The kind, as the journal names it, and its version.
            pub fn kind(&self) -> (&'static str, u16) {
                match self {
                    $(Self::$name(_) => ($kind, $version),)*
                    Self::Common(fact) => fact.kind($role),
                }
            }

            /// Appends the bytes of the body.
            pub fn encode_into(&self, bytes: &mut Vec<u8>) {
                match self {
                    $(Self::$name(fact) => crate::model::codec::encode_into(fact, bytes),)*
                    Self::Common(fact) => fact.encode_into(bytes),
                }
            }

            /// The body, for formats that people read.
            pub fn body(&self) -> &dyn erased_serde::Serialize {
                match self {
                    $(Self::$name(fact) => fact,)*
                    Self::Common(fact) => fact.body(),
                }
            }

            /// Reads a body back; `None` if this role knows no such kind.
            pub fn decode(
                kind: &str,
                version: u16,
                body: &[u8],
            ) -> Option<Result<Self, crate::model::codec::DecodeError>> {
                match (kind, version) {
                    $(($kind, $version) => Some(crate::model::codec::decode_fact(body).map(Self::$name)),)*
                    _ => {
                        let common = crate::actor::common::CommonFact::decode($role, (kind, version), body);
                        Some(common?.map(Self::Common))
                    }
                }
            }
        }
    };
}
pub(crate) use facts;

/// A fact with the time it became one, on its actor's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<F> {
    /// When.
    pub at: Time,
    /// What.
    pub fact: F,
}

/// The words of a mapper, a driver or a user, as far as a fact keeps them: 1,000 characters.
pub fn truncate_text(words: &str) -> String {
    words.chars().take(1000).collect()
}

/// What a mapper remembers from one round to the next, opaque to the core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Memo(pub Vec<u8>);

impl Memo {
    /// The largest memo, in bytes.
    pub const MAX_BYTES: usize = 1 << 16;
}

/// A fact that does not follow from the ones before it: the journal is not this actor's, or damaged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadFact {
    /// A fact of another role.
    #[error("`{0}` is not a fact of this role")]
    Foreign(&'static str),
    /// It speaks of something that is not there.
    #[error("`{kind}` speaks of {what}, which is not there")]
    Missing {
        /// The kind of the fact.
        kind: &'static str,
        /// What is missing.
        what: String,
    },
    /// A machine refuses it.
    #[error(transparent)]
    Illegal(#[from] Illegal),
}
