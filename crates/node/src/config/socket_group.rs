//! The group that may use the control API.

use nix::unistd::{Gid, Group};
use tenure_config::{ConfigError, Place};

use super::{AssemblyError, Config};

impl Config {
    /// The group that may use the control API, if one is set.
    ///
    /// # Errors
    /// If there is no such group on this machine, with the place of the key.
    pub(crate) fn admitted_group(&self) -> Result<Option<Gid>, AssemblyError> {
        let Some(name) = &self.socket_group else { return Ok(None) };
        let wrong = |message: String| {
            let place = self.places.get("socket-group").unwrap_or(&Place::Whole);
            let help = "name a group of this machine, as `getent group` lists them".to_owned();
            Err(AssemblyError::from(ConfigError::at(&self.file, place, message, help)))
        };
        match Group::from_name(name) {
            Ok(Some(group)) => Ok(Some(group.gid)),
            Ok(None) => wrong(format!("there is no group `{}`", name.escape_debug())),
            Err(cause) => wrong(format!("the group `{}`: {cause}", name.escape_debug())),
        }
    }
}
