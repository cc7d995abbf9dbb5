//! Units that are taken over as they are: a machine in use becomes a leased unit, and nothing on it changes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::driver::{DriverError, Epoch};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;

use super::record::Record;

/// The property by which a request asks for that, and by which the site tells the guest that it is so.
pub const ADOPT: &str = "adopt";

/// What becomes of the unit when its lease is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adopt {
    /// It stays as it is.
    Keep,
    /// It is torn down like any other.
    Take,
}

/// What a driver notes of a unit that was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Adopted {
    pub(crate) by: Adopt,
    /// The tenancy.
    pub(crate) epoch: Epoch,
    /// Whether its lease is over, and it was left as it is: it is torn down before anybody else has it.
    pub(crate) left: bool,
}

impl Adopt {
    /// Whether a unit is to be taken over, or was.
    pub(crate) fn of(properties: &Properties) -> Result<Option<Self>, DriverError> {
        match properties.get(ADOPT) {
            None => Ok(None),
            Some("keep") => Ok(Some(Self::Keep)),
            Some("take") => Ok(Some(Self::Take)),
            Some(other) => {
                let other = other.escape_debug();
                Err(DriverError::untouched(format!("`{ADOPT}` is `keep` or `take`, not `{other}`")))
            }
        }
    }

    /// Tells the guest, beside what the unit has.
    pub(crate) fn tell(self, properties: Properties) -> Result<Properties, DriverError> {
        let mut all: BTreeMap<Name, String> = properties.into();
        all.insert(Name::literal(ADOPT), self.word().to_owned());
        Properties::try_from(all).map_err(|error| DriverError(error.to_string()))
    }

    /// The value of the property.
    pub fn word(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Take => "take",
        }
    }
}

/// Why a site refuses.
pub(crate) fn not_allowed() -> DriverError {
    DriverError::untouched("the site's driver takes over no units in use (setting `adopt`)")
}

/// Whether a unit was left as it was, and nobody has torn it down since.
pub(crate) fn is_left(record: &Record) -> bool {
    #[derive(Deserialize)]
    struct Note {
        adopted: Option<Adopted>,
    }
    let note = record.note.clone().and_then(|note| serde_json::from_value::<Note>(note).ok());
    note.and_then(|note| note.adopted).is_some_and(|adopted| adopted.left)
}
