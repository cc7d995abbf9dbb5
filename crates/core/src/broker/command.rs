//! Commands of a broker's operators.

use super::quota::{Quota, Whose};

/// A command of a broker's operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// A quota is set; without one the configured one is in force again.
    SetQuota {
        /// Whom it is for; each service manager without one of its own unless set.
        whose: Whose,
        /// The quota.
        quota: Option<Quota>,
    },
}
