//! The users who may have a service manager plan packages.

use nix::errno::Errno;
use nix::unistd::{Uid, User};
use tenure_config::{ConfigError, Place};

use super::{AssemblyError, Config};

impl Config {
    /// That all planners are users of this machine.
    pub(super) fn check_planners(&self) -> Result<(), AssemblyError> {
        let managers = self.service_managers.iter();
        let planners = managers.flat_map(|(name, manager)| {
            manager.planners.iter().flatten().map(move |planner| (name, planner))
        });
        for (name, planner) in planners {
            let cause = match uid_of(planner) {
                Ok(Some(_)) => continue,
                Ok(None) => format!("there is no user `{}`", planner.escape_debug()),
                Err(cause) => format!("the user `{}`: {cause}", planner.escape_debug()),
            };
            let key = format!("service-manager.{name}.planners");
            let place = self.places.get(&key).unwrap_or(&Place::Whole);
            let help = "name users of this machine, or write their numbers".to_owned();
            return Err(ConfigError::at(&self.file, place, cause, help).into());
        }
        Ok(())
    }
}

/// Whether a user is one of these.
pub(crate) fn is_among(user: u32, planners: &[String]) -> bool {
    planners.iter().any(|planner| uid_of(planner) == Ok(Some(user)))
}

/// The number of a user, by name or by that number.
fn uid_of(user: &str) -> Result<Option<u32>, Errno> {
    match user.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Ok(User::from_name(user)?.map(|user| Uid::as_raw(user.uid))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_known_by_name_and_by_number() {
        let list = |planner: &str| vec!["nobody-of-this-name".to_owned(), planner.to_owned()];
        assert!(is_among(0, &list("root")));
        assert!(is_among(4_000_000_000, &list("4000000000")));
        assert!(!is_among(4_000_000_000, &list("root")));
        assert!(!is_among(0, &[]));
    }
}
