//! Commands of a site's operators.

use std::num::NonZeroU32;

use crate::driver::UnitId;
use crate::model::name::Name;

/// A command of a site's operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// A quarantined unit was repaired.
    Reset {
        /// The unit.
        unit: UnitId,
    },
    /// More units of a type were installed.
    Stock {
        /// The type, which must be known.
        resource: Name,
        /// How many more.
        units: NonZeroU32,
    },
    /// Units of a type are withdrawn for good. Refused unless so many are idle and not delegated.
    Withdraw {
        /// The type.
        resource: Name,
        /// How many.
        units: NonZeroU32,
    },
}
