//! Which driver has set up the units of a site.
//!
//! The file `driver` in the driver's folder has its name. A unit that is not free may have left processes,
//! interfaces or whatever that driver makes; another one would neither find them nor clean them, and hand the
//! unit on as if it were clean. So a start with another driver, or without the folder, is refused as long as
//! the site's journal has units that are not free.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tenure_core::driver::Step;
use thiserror::Error;

use super::adoption;
use super::record::{Progress, Record, RecordStore, about, create_folder, replace};

/// Says which driver has set up the units of a site.
#[derive(Clone, Debug)]
pub struct Custody {
    folder: PathBuf,
    driver: &'static str,
    /// The driver that the folder was of when it was opened.
    before: Option<String>,
}

/// Why a driver must not take over the units of a site.
#[derive(Debug, Error)]
pub enum CustodyError {
    /// Another one has set them up.
    #[error(
        "{units} of its units are not free, and the driver `{before}` has set them up: `{driver}` would hand \
         them on without cleaning them. Start it with `{before}` until all its units are free"
    )]
    Other {
        /// How many units are not free.
        units: usize,
        /// Who has set them up.
        before: String,
        /// Who is to take them over.
        driver: &'static str,
    },
    /// It is unknown which driver has.
    #[error(
        "{units} of its units are not free, and the folder of the driver that has set them up is lost: {} is \
         not there. Put the folder back. If it is gone for good, end by hand what the units have left, write \
         the name of that driver into this file, and start the site with that driver",
        .file.display()
    )]
    Lost {
        /// How many units are not free.
        units: usize,
        /// The file that names the driver.
        file: PathBuf,
    },
    /// The folder cannot be read or written.
    #[error(transparent)]
    Folder(#[from] io::Error),
}

impl Custody {
    /// Looks whose a folder is, before `driver` opens it. Units that another driver has set up are not its to
    /// take over. Where none are left, the other one's records go: this one could not read its notes.
    pub(crate) fn of(home: &Path, driver: &'static str) -> Result<Self, CustodyError> {
        let custody = Self { folder: home.to_owned(), driver, before: named(&home.join(FILE))? };
        let Some(before) = custody.before.as_ref().filter(|before| *before != driver) else {
            return Ok(custody);
        };
        let folder = home.join("units");
        if folder.is_dir() {
            let records = RecordStore::Folder(folder.clone()).all()?;
            let units = records.iter().filter(|record| !is_clean(record)).count();
            if units > 0 {
                return Err(CustodyError::Other { units, before: before.clone(), driver });
            }
            fs::remove_dir_all(&folder).map_err(|error| about(&folder, error))?;
        }
        Ok(custody)
    }

    /// Takes over a site, so many of whose units are not free by its journal: at each start, before any step.
    pub(crate) fn take(&mut self, units: usize) -> Result<(), CustodyError> {
        let file = self.folder.join(FILE);
        match &self.before {
            Some(before) if before == self.driver => return Ok(()),
            Some(before) if units > 0 => {
                let (before, driver) = (before.clone(), self.driver);
                return Err(CustodyError::Other { units, before, driver });
            }
            None if units > 0 => return Err(CustodyError::Lost { units, file }),
            Some(_) | None => {}
        }
        create_folder(&self.folder)?;
        replace(&file, format!("{}\n", self.driver).as_bytes())?;
        self.before = Some(self.driver.to_owned());
        Ok(())
    }
}

/// The name of the file.
const FILE: &str = "driver";

fn named(file: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(name) => Ok(Some(name.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(about(file, error)),
    }
}

/// Whether nothing of a unit is left.
fn is_clean(record: &Record) -> bool {
    matches!(record.newest(), Some((Step::Teardown, Progress::Done(_))))
        && !adoption::is_left(record)
}
