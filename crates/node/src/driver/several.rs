//! Several drivers of one guest: a program on each unit and a file of the units, say.
//!
//! Each is opened as if it were alone, in a folder of its own, behind its own fence. So nothing is
//! remembered here: a repeated step is passed to each driver again, and what a driver has done
//! already is answered by its fence. A join that a leave has overtaken is refused by the fence of the next
//! driver, since leaves reach the drivers from the last to the first.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tenure_core::driver::{Answer, Call, DriverError, GuestDriver, Step, UnitId};
use tenure_core::mapper::registry::Settings;
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Time};

use super::record::{RecordStore, about};
use super::registry::{self, DriverSettingsError, guest};

/// The folder, within that of a guest's drivers, in which the adapters of its services keep theirs.
pub(crate) const ADAPTERS: &str = "adapters";

/// Drivers that receive the same calls.
///
/// A unit is joined by each in order, up to the first that fails; what the ones before it did stays until
/// the unit is left. It is left by each in the opposite order, whether or not one fails, and by those too
/// that have not joined it.
pub(crate) struct Several {
    drivers: Vec<(String, Box<dyn GuestDriver>)>,
}

/// Opens a guest's drivers, to be used in this order; [`guest`] says what each of them needs.
///
/// One alone has the folder `home` to itself. Several have folders in it, named after them; so the order
/// can be changed.
///
/// # Errors
/// Which of them there is not, does not take its settings or cannot work here, by its place in the list;
/// and that units are joined by a driver that is not in the list any more.
pub fn guests(
    home: &Path,
    drivers: Vec<(&str, Settings<'_, '_>)>,
) -> Result<Box<dyn GuestDriver>, (usize, DriverSettingsError)> {
    let names: Vec<&str> = drivers.iter().map(|(name, _)| *name).collect();
    let labels = labels(&names);
    let folder = |label: &str| match labels.len() {
        1 => home.to_owned(),
        _ => home.join(label),
    };
    // A name that does not exist is no driver that was taken off the list.
    if names.iter().all(|name| registry::is_guest(name)) {
        let listed: Vec<PathBuf> = labels.iter().map(|label| folder(label)).collect();
        none_is_unlisted(home, &listed).map_err(|error| (0, error))?;
    }
    let mut opened = Vec::new();
    for (nth, ((name, settings), label)) in drivers.into_iter().zip(&labels).enumerate() {
        let driver = guest(name, &folder(label), settings).map_err(|error| (nth, error))?;
        opened.push((label.clone(), driver));
    }
    match <[_; 1]>::try_from(opened) {
        Ok([(_, alone)]) => Ok(alone),
        Err(drivers) => Ok(Box::new(Several::new(drivers))),
    }
}

/// The drivers' names, each once: the second `start` is `start-2`.
fn labels(names: &[&str]) -> Vec<String> {
    let label = |(nth, name): (usize, &&str)| {
        let before = names[..nth].iter().filter(|other| *other == name).count();
        if before == 0 { (*name).to_owned() } else { format!("{name}-{}", before + 1) }
    };
    names.iter().enumerate().map(label).collect()
}

/// Refuses to continue while units are joined by a driver whose folder is not among those listed: no one
/// would ever leave them.
fn none_is_unlisted(home: &Path, listed: &[PathBuf]) -> Result<(), DriverSettingsError> {
    let unreadable = |cause| DriverSettingsError::Folder { cause: about(home, cause) };
    let mut folders = vec![home.to_owned()];
    match fs::read_dir(home) {
        Ok(entries) => {
            for entry in entries {
                folders.push(entry.map_err(unreadable)?.path());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unreadable(error)),
    }
    // What adapters have joined, they leave as it was joined.
    let adapters = home.join(ADAPTERS);
    for folder in folders.iter().filter(|folder| !listed.contains(folder) && **folder != adapters) {
        let records = folder.join("units");
        if records.is_dir() {
            let records = RecordStore::Folder(records).all().map_err(unreadable)?;
            let units = records.iter().filter(|record| record.is_joined()).count();
            if units > 0 {
                return Err(DriverSettingsError::Unlisted { folder: folder.clone(), units });
            }
        }
    }
    Ok(())
}

fn no_installer() -> DriverError {
    DriverError("no driver of the guest installs packages".to_owned())
}

impl Several {
    /// Takes drivers with the names that errors begin with.
    pub(crate) fn new(drivers: Vec<(String, Box<dyn GuestDriver>)>) -> Self {
        Self { drivers }
    }
}

impl GuestDriver for Several {
    fn perform(&self, call: &Call) -> Answer {
        let mut combined = CombinedAnswer::default();
        match call.step {
            Step::Join | Step::Setup | Step::Modify => {
                for (name, driver) in &self.drivers {
                    if !combined.add(name, driver.perform(call)) {
                        break;
                    }
                }
            }
            Step::Leave | Step::Teardown | Step::Warn | Step::Install | Step::Remove => {
                for (name, driver) in self.drivers.iter().rev() {
                    // One that panics must not keep the others from leaving.
                    let left = catch_unwind(AssertUnwindSafe(|| driver.perform(call)));
                    let failed = |_| Answer { outcome: Err(panicked()), after: Span::ZERO };
                    combined.add(name, left.unwrap_or_else(failed));
                }
            }
        }
        Answer { after: combined.after, outcome: combined.outcome() }
    }

    fn installs(&self) -> bool {
        self.drivers.iter().any(|(_, driver)| driver.installs())
    }

    /// Has the first that installs packages do so.
    fn package(&self, call: &Call) -> Answer {
        let installer = self.drivers.iter().find(|(_, driver)| driver.installs());
        let Some((name, driver)) = installer.or(self.drivers.first()) else {
            return Answer { outcome: Err(no_installer()), after: Span::ZERO };
        };
        let mut combined = CombinedAnswer::default();
        combined.add(name, driver.package(call));
        Answer { after: combined.after, outcome: combined.outcome() }
    }

    /// Warns each, whether or not one fails.
    fn warn(&self, call: &Call, deadline: Time) -> Result<(), DriverError> {
        let mut combined = CombinedAnswer::default();
        for (name, driver) in &self.drivers {
            let warned = catch_unwind(AssertUnwindSafe(|| driver.warn(call, deadline)));
            let warned = warned.unwrap_or_else(|_| Err(panicked()));
            let outcome = warned.map(|()| Properties::default());
            combined.add(name, Answer { outcome, after: Span::ZERO });
        }
        combined.outcome().map(drop)
    }

    fn acts_by(&self, signer: &Signer, keys: &KeyChain) {
        self.drivers.iter().for_each(|(_, driver)| driver.acts_by(signer, keys));
    }

    fn give_up(&self, call: &Call) {
        self.drivers.iter().for_each(|(_, driver)| driver.give_up(call));
    }

    fn probe(&self, site: ActorId, unit: UnitId) -> Result<Properties, DriverError> {
        let mut combined = CombinedAnswer::default();
        for (name, driver) in &self.drivers {
            combined.add(name, Answer { outcome: driver.probe(site, unit), after: Span::ZERO });
        }
        combined.outcome()
    }
}

fn panicked() -> DriverError {
    DriverError("the driver panicked".to_owned())
}

/// What the drivers have answered, taken together.
#[derive(Default)]
struct CombinedAnswer {
    properties: BTreeMap<Name, String>,
    failed: Option<DriverError>,
    /// Whether one of them has done something.
    touched: bool,
    after: Span,
}

impl CombinedAnswer {
    /// Takes in an answer; whether it is a good one.
    fn add(&mut self, name: &str, answer: Answer) -> bool {
        self.after = self.after.max(answer.after);
        match answer.outcome {
            Ok(properties) => {
                self.touched = true;
                self.properties.extend(BTreeMap::from(properties));
                true
            }
            Err(error) => {
                let untouched = error.why_untouched().filter(|_| !self.touched);
                let untouched =
                    untouched.map(|why| DriverError::untouched(format!("{name}: {why}")));
                let failed = || DriverError(format!("{name}: {error}"));
                self.failed.get_or_insert_with(|| untouched.unwrap_or_else(failed));
                false
            }
        }
    }

    /// The first failure, or else all properties, the later driver's where two have the same.
    fn outcome(self) -> Result<Properties, DriverError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let together = Properties::try_from(self.properties);
        together.map_err(|error| DriverError(format!("all drivers together: {error}")))
    }
}
