//! The drivers that come with Tenure, by name.
//!
//! A literal list, like that of the mappers: what is not in it does not exist, and asking for it names
//! what does.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use tenure_core::driver::{GuestDriver, ResourceDriver};
use tenure_core::mapper::registry::Settings;
use thiserror::Error;

use super::{exec, membership, netns, null, process, start};

/// Why there is no such driver.
#[derive(Debug, Error)]
pub enum DriverSettingsError {
    /// No driver of that name exists for the side.
    #[error("there is no {side} driver `{name}`; known: {}", .known.join(", "))]
    Unknown {
        /// The side: site or guest.
        side: &'static str,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// Its settings are not what it takes.
    #[error("driver `{name}`: {cause}")]
    Settings {
        /// The driver.
        name: &'static str,
        /// What is wrong.
        cause: erased_serde::Error,
    },
    /// It cannot work here: its folder is in use or broken, or it lacks a right or a program.
    #[error("driver `{name}`: {cause}")]
    Open {
        /// The driver.
        name: &'static str,
        /// What is wrong.
        cause: io::Error,
    },
    /// The folder that drivers keep theirs in cannot be read.
    #[error("{cause}")]
    Folder {
        /// What is wrong.
        cause: io::Error,
    },
    /// A driver that is not among those listed has joined units and not left them.
    #[error(
        "{}: a driver that is not listed any more has joined units and not left them ({units}): \
         list it as before until their leases are over, or remove the folder and clean up by hand",
        .folder.display()
    )]
    Unlisted {
        /// What the driver knows of its units.
        folder: PathBuf,
        /// How many of them it has not left.
        units: usize,
    },
}

enum Failure {
    Settings(erased_serde::Error),
    Open(io::Error),
}

type Builder<D> = fn(&Path, Settings<'_, '_>) -> Result<Box<D>, Failure>;

/// A named way to open a driver.
struct Known<D: ?Sized> {
    name: &'static str,
    open: Builder<D>,
}

const SITE: &[Known<dyn ResourceDriver>] = &[
    Known { name: "exec", open: |home, settings| Ok(exec::site(home, read(settings)?)?) },
    Known { name: "netns", open: |home, settings| Ok(netns::site(home, read(settings)?)?) },
    Known { name: "null", open: |home, settings| Ok(null::site(home, &read(settings)?)?) },
    Known { name: "process", open: |home, settings| Ok(process::site(home, read(settings)?)?) },
];

const GUEST: &[Known<dyn GuestDriver>] = &[
    Known { name: "exec", open: |home, settings| Ok(exec::guest(home, read(settings)?)?) },
    Known {
        name: "membership",
        open: |home, settings| Ok(membership::guest(home, read(settings)?)?),
    },
    Known { name: "null", open: |home, settings| Ok(null::guest(home, &read(settings)?)?) },
    Known { name: "start", open: |home, settings| Ok(start::guest(home, read(settings)?)?) },
];

/// Opens a site's driver.
///
/// `home` is its own folder, the same at every start and no other driver's: what it knows of its units is
/// kept there. It is created if it is not there, and locked while the driver lives.
pub fn site(
    name: &str,
    home: &Path,
    settings: Settings<'_, '_>,
) -> Result<Box<dyn ResourceDriver>, DriverSettingsError> {
    open("site", SITE, name, home, settings)
}

/// Whether there is a guest's driver of that name.
pub(crate) fn is_guest(name: &str) -> bool {
    GUEST.iter().any(|known| known.name == name)
}

/// Opens a guest's driver; as [`site`].
pub fn guest(
    name: &str,
    home: &Path,
    settings: Settings<'_, '_>,
) -> Result<Box<dyn GuestDriver>, DriverSettingsError> {
    open("guest", GUEST, name, home, settings)
}

fn open<D: ?Sized>(
    side: &'static str,
    known: &[Known<D>],
    name: &str,
    home: &Path,
    settings: Settings<'_, '_>,
) -> Result<Box<D>, DriverSettingsError> {
    let Some(found) = known.iter().find(|known| known.name == name) else {
        let known = known.iter().map(|known| known.name).collect();
        return Err(DriverSettingsError::Unknown { side, name: name.to_owned(), known });
    };
    let name = found.name;
    (found.open)(home, settings).map_err(|failure| match failure {
        Failure::Settings(cause) => DriverSettingsError::Settings { name, cause },
        Failure::Open(cause) => DriverSettingsError::Open { name, cause },
    })
}

fn read<T: DeserializeOwned>(settings: Settings<'_, '_>) -> Result<T, Failure> {
    erased_serde::deserialize(settings).map_err(Failure::Settings)
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Open(error)
    }
}
