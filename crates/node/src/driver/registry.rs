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

use super::custody::{Custody, CustodyError};
use super::{exec, host, link, membership, netns, null, packages, process, start};

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
    /// The units are not its own to take over.
    #[error(transparent)]
    Custody(#[from] CustodyError),
    /// A driver that is not among those listed has joined units and not left them.
    #[error(
        "{}: a driver that is no longer listed has joined units and not left them ({units}): \
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

type Reader = fn(Settings<'_, '_>) -> Result<(), Failure>;
type Opener<D> = fn(&Path, Settings<'_, '_>) -> Result<Box<D>, Failure>;

/// A named driver.
struct Known<D: ?Sized> {
    name: &'static str,
    /// Whether it takes these settings.
    reads: Reader,
    open: Opener<D>,
}

const SITE: &[Known<dyn ResourceDriver>] = &[
    Known {
        name: "exec",
        reads: reads::<exec::SiteSettings>,
        open: |home, settings| Ok(exec::site(home, read(settings)?)?),
    },
    Known {
        name: "host",
        reads: reads::<host::Settings>,
        open: |home, settings| Ok(host::site(home, read(settings)?)?),
    },
    Known {
        name: "link",
        reads: reads::<link::Settings>,
        open: |home, settings| Ok(link::site(home, read(settings)?)?),
    },
    Known {
        name: "netns",
        reads: reads::<netns::Settings>,
        open: |home, settings| Ok(netns::site(home, read(settings)?)?),
    },
    Known {
        name: "null",
        reads: reads::<null::SiteSettings>,
        open: |home, settings| Ok(null::site(home, &read(settings)?)?),
    },
    Known {
        name: "process",
        reads: reads::<process::Settings>,
        open: |home, settings| Ok(process::site(home, read(settings)?)?),
    },
];

const GUEST: &[Known<dyn GuestDriver>] = &[
    Known {
        name: "exec",
        reads: reads::<exec::GuestSettings>,
        open: |home, settings| Ok(exec::guest(home, read(settings)?)?),
    },
    Known {
        name: "membership",
        reads: reads::<membership::Settings>,
        open: |home, settings| Ok(membership::guest(home, read(settings)?)?),
    },
    Known {
        name: "null",
        reads: reads::<null::GuestSettings>,
        open: |home, settings| Ok(null::guest(home, &read(settings)?)?),
    },
    Known {
        name: "packages",
        reads: reads::<packages::Settings>,
        open: |home, settings| Ok(packages::guest(home, read(settings)?)?),
    },
    Known {
        name: "start",
        reads: reads::<start::Settings>,
        open: |home, settings| Ok(start::guest(home, read(settings)?)?),
    },
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
    let known = find("site", SITE, name)?;
    (known.open)(home, settings).map_err(|failure| failure.of(known.name))
}

/// As [`site`], and says whose the units in its folder are.
pub(crate) fn site_in_custody(
    name: &str,
    home: &Path,
    settings: Settings<'_, '_>,
) -> Result<(Box<dyn ResourceDriver>, Custody), DriverSettingsError> {
    let known = find("site", SITE, name)?;
    let custody = Custody::of(home, known.name)?;
    Ok((site(name, home, settings)?, custody))
}

/// Whether there is a site's driver of that name, and takes these settings; nothing is opened or made.
pub(crate) fn check_site(
    name: &str,
    settings: Settings<'_, '_>,
) -> Result<(), DriverSettingsError> {
    let known = find("site", SITE, name)?;
    (known.reads)(settings).map_err(|failure| failure.of(known.name))
}

/// As [`check_site`] for a guest's driver.
pub(crate) fn check_guest(
    name: &str,
    settings: Settings<'_, '_>,
) -> Result<(), DriverSettingsError> {
    let known = find("guest", GUEST, name)?;
    (known.reads)(settings).map_err(|failure| failure.of(known.name))
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
    let known = find("guest", GUEST, name)?;
    (known.open)(home, settings).map_err(|failure| failure.of(known.name))
}

fn find<D: ?Sized>(
    side: &'static str,
    all: &'static [Known<D>],
    name: &str,
) -> Result<&'static Known<D>, DriverSettingsError> {
    all.iter().find(|known| known.name == name).ok_or_else(|| {
        let known = all.iter().map(|known| known.name).collect();
        DriverSettingsError::Unknown { side, name: name.to_owned(), known }
    })
}

impl Failure {
    fn of(self, name: &'static str) -> DriverSettingsError {
        match self {
            Self::Settings(cause) => DriverSettingsError::Settings { name, cause },
            Self::Open(cause) => DriverSettingsError::Open { name, cause },
        }
    }
}

fn reads<T: DeserializeOwned>(settings: Settings<'_, '_>) -> Result<(), Failure> {
    read::<T>(settings).map(drop)
}

fn read<T: DeserializeOwned>(settings: Settings<'_, '_>) -> Result<T, Failure> {
    erased_serde::deserialize(settings).map_err(Failure::Settings)
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Open(error)
    }
}
