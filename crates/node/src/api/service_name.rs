//! How services are named on the control socket.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tenure_core::model::name::Name;

/// Names a service: `guest/batch`, and `batch` where only one service manager can be meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServiceName {
    /// The service manager.
    pub manager: Option<Name>,
    /// The service, which is the slice of its leases.
    pub service: Name,
}

impl FromStr for ServiceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{}` is no service: write batch or guest/batch", text.escape_debug());
        let name = |text: &str| Name::new(text).map_err(|_| bad());
        let (manager, service) = match text.split_once('/') {
            Some((manager, service)) => (Some(name(manager)?), service),
            None => (None, text),
        };
        Ok(Self { manager, service: name(service)? })
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { manager, service } = self;
        manager.as_ref().map_or(Ok(()), |manager| write!(f, "{manager}/"))?;
        write!(f, "{service}")
    }
}

impl TryFrom<String> for ServiceName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ServiceName> for String {
    fn from(name: ServiceName) -> Self {
        name.to_string()
    }
}
