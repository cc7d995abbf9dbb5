//! What a driver remembers of a unit, so that it survives the driver: one small file per unit.
//!
//! A file is replaced as a whole and synced with its folder before anything is done that it speaks of.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tenure_core::driver::{Call, DriverError, Epoch, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::{LeaseId, SliceName};

/// A unit for ever: its site's number for it means nothing without the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) site: ActorId,
    pub(crate) unit: UnitId,
}

impl Key {
    pub(crate) fn of(call: &Call) -> Self {
        Self { site: call.site, unit: call.unit }
    }

    /// Five digits for its site, in names of interfaces: the kernel keeps 15 characters.
    pub(crate) fn short_site(self) -> String {
        format!("{:05x}", u64::from_be_bytes(self.site.first_bytes()) >> 44)
    }

    /// What tells a tenancy of the unit apart from all others, in the words of software that it is joined to.
    pub(crate) fn mark(self, epoch: Epoch) -> String {
        format!("{}:{}", self.file_name(), epoch.0)
    }

    /// A name for files and folders, distinguished within one driver's folder.
    pub(crate) fn file_name(self) -> String {
        format!("{:016x}-{}", u64::from_be_bytes(self.site.first_bytes()), self.unit)
    }
}

/// How far a step is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Progress {
    /// It may have been begun, and its outcome is unknown.
    Begun,
    /// It ended, and this is the answer, however often it is asked for.
    Done(Properties),
    /// It failed, for good.
    Failed(DriverError),
}

/// What is kept of a unit: the highest epoch seen, and that epoch's steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) epoch: Epoch,
    pub(crate) steps: BTreeMap<Step, Progress>,
    /// The number of the last modification.
    #[serde(default)]
    pub(crate) modification: u32,
    /// How often a join or a leave was called for again.
    #[serde(default)]
    pub(crate) again: u32,
    /// The tenant named by the last call.
    pub(crate) tenant: Tenant,
    /// What the driver itself notes, in its own form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<serde_json::Value>,
}

/// The part of a call that says whom it is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tenant {
    pub(crate) guest: ActorId,
    pub(crate) slice: SliceName,
    pub(crate) lease: LeaseId,
    pub(crate) resource: Name,
    /// How much of a divisible stock the unit is.
    #[serde(default = "one")]
    pub(crate) quantity: NonZeroU32,
    pub(crate) properties: Properties,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl Record {
    /// The record of a unit at its first call.
    pub(crate) fn new(call: &Call) -> Self {
        Self {
            key: Key::of(call),
            epoch: call.epoch,
            steps: BTreeMap::new(),
            modification: 0,
            again: 0,
            tenant: Tenant::of(call),
            note: None,
        }
    }

    /// The number under which a step is kept.
    pub(crate) fn number_of(&self, step: Step) -> u32 {
        match step {
            Step::Modify => self.modification,
            Step::Join | Step::Leave => self.again,
            Step::Setup | Step::Teardown | Step::Warn | Step::Install | Step::Remove => 0,
        }
    }

    /// The newest step, which is the one that may have been cut off.
    pub(crate) fn newest(&self) -> Option<(Step, &Progress)> {
        self.steps.last_key_value().map(|(step, progress)| (*step, progress))
    }

    /// At a guest: whether the unit may be joined, and was not left since.
    pub(crate) fn is_joined(&self) -> bool {
        !matches!(self.newest(), Some((Step::Leave, Progress::Done(_) | Progress::Failed(_))))
    }
}

impl Tenant {
    pub(crate) fn of(call: &Call) -> Self {
        Self {
            guest: call.guest,
            slice: call.slice.clone(),
            lease: call.lease,
            resource: call.resource.clone(),
            quantity: call.quantity,
            properties: call.properties.clone(),
        }
    }
}

/// Where records are kept: on disk, or nowhere for a driver that has nothing to protect.
#[derive(Debug)]
pub(crate) enum RecordStore {
    Memory,
    Folder(PathBuf),
}

impl RecordStore {
    /// Opens the folder, creating it if it is not there.
    pub(crate) fn folder(path: PathBuf) -> io::Result<Self> {
        create_folder(&path)?;
        Ok(Self::Folder(path))
    }

    /// The record of a unit, if one was kept.
    pub(crate) fn load(&self, key: Key) -> io::Result<Option<Record>> {
        let Self::Folder(folder) = self else { return Ok(None) };
        read(&folder.join(key.file_name()).with_extension("json"))
    }

    /// Keeps a record; durable once this has returned.
    pub(crate) fn save(&self, record: &Record) -> io::Result<()> {
        let Self::Folder(folder) = self else { return Ok(()) };
        write(&folder.join(record.key.file_name()).with_extension("json"), record)
    }

    /// All records that were kept. One that cannot be read holds up its own unit only, when that is called.
    pub(crate) fn all(&self) -> io::Result<Vec<Record>> {
        let Self::Folder(folder) = self else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                match read(&path) {
                    Ok(record) => found.extend(record),
                    Err(error) => tracing::error!("a unit is left alone: {error}"),
                }
            }
        }
        Ok(found)
    }
}

/// Reads a file of one JSON value; none if there is no such file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(about(path, error)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| about(path, error.into()))
}

/// Replaces a file with one JSON value; durable once this has returned.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    replace(path, &serde_json::to_vec(value)?)
}

/// Replaces a file; durable once this has returned, and anyone who reads it sees the old or the new.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let put = || {
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        sync_folder_of(path)
    };
    put().map_err(|error| about(path, error))
}

/// Makes a folder, for us alone, with those above it, and its name durable.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| about(path, error))?;
        sync_folder_of(path)?;
    }
    Ok(())
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// An error that says which file it is about.
pub(crate) fn about(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
