//! `packages`: a guest's driver that installs the packages of plans on the units it has.
//!
//! Each installation has a folder of its own, named by its number, below that of its unit. The artefact is unpacked
//! there once its hash was checked, and its program runs there to its end. A note beside the folder says how
//! far it got and outlives it: what was removed is not installed by a call that comes late.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tar::Archive;
use tenure_core::driver::{Answer, Call, DriverError, GuestDriver, Step, UnitId};
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Time};

use super::child::{Reach, end};
use super::exec::Timeout;
use super::fence::{DriverSteps, Fence, Guest, Work, hold};
use super::netns;
use super::program;
use super::record::{Key, Record, create_folder, read, write};
use super::roster::list;
use super::run::Run;
use super::step_input::StepInput;
use super::stop::Stop;

/// The most that an artefact unpacks to, in bytes.
const LARGEST: u64 = 4 << 30;

/// The most that a program may write on standard output, which nobody reads.
const OUTPUT: usize = 1 << 20;

/// The first bytes of what gzip has packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What `packages` takes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Where artefacts are looked for: `artefacts` in the driver's own folder unless set.
    artefacts: Option<PathBuf>,
    timeout: Timeout,
}

/// How far an installation is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    package: String,
    state: NoteState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NoteState {
    Installed,
    Removed,
}

/// An installation: its unit, and its number.
type At = (Key, u32);

/// The units of one guest.
struct Units {
    /// The folder with one for each unit.
    units: PathBuf,
    artefacts: PathBuf,
    timeout: Duration,
    /// What is being installed or removed.
    running: Mutex<BTreeMap<At, Arc<Stop>>>,
    ended: Condvar,
}

struct Packages {
    guest: Guest<Units>,
}

/// Opens the driver.
pub(crate) fn guest(home: &Path, settings: Settings) -> io::Result<Box<dyn GuestDriver>> {
    let fence = Arc::new(Fence::open(home)?);
    let units = home.canonicalize()?.join("packages");
    create_folder(&units)?;
    let artefacts = settings.artefacts.unwrap_or_else(|| home.join("artefacts"));
    let steps = Units {
        units,
        artefacts,
        timeout: settings.timeout.0,
        running: Mutex::default(),
        ended: Condvar::new(),
    };
    Ok(Box::new(Packages { guest: Guest { fence, steps } }))
}

impl GuestDriver for Packages {
    fn perform(&self, call: &Call) -> Answer {
        self.guest.perform(call)
    }

    fn warn(&self, call: &Call, deadline: Time) -> Result<(), DriverError> {
        self.guest.warn(call, deadline)
    }

    fn installs(&self) -> bool {
        true
    }

    fn package(&self, call: &Call) -> Answer {
        let outcome = match call.step {
            Step::Remove => self.remove(call),
            Step::Install
            | Step::Setup
            | Step::Teardown
            | Step::Join
            | Step::Modify
            | Step::Leave
            | Step::Warn => self.install(call),
        };
        Answer { outcome: outcome.map(|()| Properties::default()), after: Span::ZERO }
    }

    fn give_up(&self, call: &Call) {
        if matches!(call.step, Step::Install | Step::Remove) {
            self.guest.steps.stop(at(call));
        } else {
            self.guest.give_up(call);
        }
    }

    fn probe(&self, site: ActorId, unit: UnitId) -> Result<Properties, DriverError> {
        self.guest.probe(site, unit)
    }
}

impl Packages {
    fn install(&self, call: &Call) -> Result<(), DriverError> {
        let units = &self.guest.steps;
        let running = units.begin(at(call))?;
        // After that: a leave waits for what has begun before it, and what begins later is refused here.
        self.guest.fence.check_joined(call)?;
        let name = of(call, "package")?;
        match read::<Note>(&units.note(at(call))).map_err(in_words)?.map(|note| note.state) {
            Some(NoteState::Installed) => return Ok(()),
            Some(NoteState::Removed) => {
                return Err(DriverError(format!("{name} was removed before it was installed")));
            }
            None => {}
        }
        // A crash may have cut off an earlier try.
        units.clean(at(call))?;
        let done = units.unpack(call).and_then(|()| units.run(call, &running.stop));
        let note = Note { package: name.to_owned(), state: NoteState::Installed };
        let done = done.and_then(|()| write(&units.note(at(call)), &note).map_err(in_words));
        if done.is_err() {
            units.clean(at(call))?;
        }
        done
    }

    fn remove(&self, call: &Call) -> Result<(), DriverError> {
        let units = &self.guest.steps;
        let _running = units.begin(at(call))?;
        // A unit that is left has no packages any more.
        if self.guest.fence.check_joined(call).is_err() {
            return Ok(());
        }
        create_folder(&units.unit(Key::of(call))).map_err(in_words)?;
        let note = Note { package: of(call, "package")?.to_owned(), state: NoteState::Removed };
        write(&units.note(at(call)), &note).map_err(in_words)?;
        units.clean(at(call))
    }
}

impl DriverSteps for Units {
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        let key = work.key();
        match work.call.step {
            Step::Join | Step::Setup | Step::Modify => {
                create_folder(&self.unit(key)).map_err(in_words)?;
                list([("packages.folder", Some(self.unit(key).display().to_string()))])
            }
            Step::Leave | Step::Teardown | Step::Warn | Step::Install | Step::Remove => {
                self.leave(key)?;
                Ok(Properties::default())
            }
        }
    }

    /// Whether what is installed is still there.
    fn probe(&self, key: Key, _: Option<&Record>) -> Result<Properties, DriverError> {
        if !self.unit(key).is_dir() {
            return Err(DriverError(format!("{} is not joined", key.unit)));
        }
        let mut installed = 0_usize;
        for number in self.numbers(key)? {
            let note = read::<Note>(&self.note((key, number))).map_err(in_words)?;
            let Some(note) = note.filter(|note| note.state == NoteState::Installed) else {
                continue;
            };
            if !self.folder((key, number)).is_dir() {
                return Err(DriverError(format!("{} is gone from {}", note.package, key.unit)));
            }
            installed += 1;
        }
        list([("packages.installed", Some(installed.to_string()))])
    }
}

/// Something that is being installed or removed, until it is dropped.
struct Running<'u> {
    units: &'u Units,
    at: At,
    stop: Arc<Stop>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        hold(&self.units.running).remove(&self.at);
        self.units.ended.notify_all();
    }
}

impl Units {
    fn unit(&self, key: Key) -> PathBuf {
        self.units.join(key.file_name())
    }

    fn folder(&self, (key, number): At) -> PathBuf {
        self.unit(key).join(number.to_string())
    }

    fn note(&self, (key, number): At) -> PathBuf {
        self.unit(key).join(format!("{number}.json"))
    }

    /// What the processes of an installation carry.
    fn mark(&self, at: At) -> String {
        format!("{}:package", self.folder(at).display())
    }

    /// The numbers of the installations on a unit.
    fn numbers(&self, key: Key) -> Result<Vec<u32>, DriverError> {
        let entries = match fs::read_dir(self.unit(key)) {
            Ok(entries) => entries.collect::<io::Result<Vec<_>>>().map_err(in_words)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(in_words(error)),
        };
        let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
        let number = |name: String| name.trim_end_matches(".json").parse().ok();
        let mut numbers: Vec<u32> =
            entries.into_iter().filter_map(name).filter_map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    fn stop(&self, at: At) {
        if let Some(stop) = hold(&self.running).get(&at) {
            stop.ask();
        }
    }

    /// Ends what is at work on an installation, and takes its place.
    fn begin(&self, at: At) -> Result<Running<'_>, DriverError> {
        let stop = Arc::new(Stop::new().map_err(in_words)?);
        let mut running = hold(&self.running);
        while let Some(before) = running.get(&at) {
            before.ask();
            running = self.ended.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        running.insert(at, Arc::clone(&stop));
        Ok(Running { units: self, at, stop })
    }

    /// Ends all that is at work on a unit, and removes all packages from it.
    fn leave(&self, key: Key) -> Result<(), DriverError> {
        let mut running = hold(&self.running);
        loop {
            let mut its = running.range((key, 0)..=(key, u32::MAX)).peekable();
            if its.peek().is_none() {
                break;
            }
            its.for_each(|(_, stop)| stop.ask());
            running = self.ended.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        drop(running);
        for number in self.numbers(key)? {
            self.clean((key, number))?;
        }
        remove_all(&self.unit(key))
    }

    /// Ends the processes of an installation, and removes its folder.
    fn clean(&self, at: At) -> Result<(), DriverError> {
        end(&self.mark(at), None, Reach::All, Duration::ZERO).map_err(in_words)?;
        remove_all(&self.folder(at))
    }

    /// Unpacks the artefact of a package, if it is the one that the plan means.
    fn unpack(&self, call: &Call) -> Result<(), DriverError> {
        let file = self.artefacts.join(of(call, "artefact")?);
        let failed = |why: String| DriverError(format!("{}: {why}", file.display()));
        let bytes = program::read(&file).map_err(failed)?;
        let (hash, wanted) =
            (Hash::from_bytes(Sha256::digest(&bytes).into()).to_hex(), of(call, "sha256")?);
        if !hash.eq_ignore_ascii_case(wanted) {
            return Err(failed(format!("its SHA-256 is {hash}, and the catalogue says {wanted}")));
        }
        let folder = self.folder(at(call));
        create_folder(&folder).map_err(in_words)?;
        let plain: Box<dyn Read + '_> = if bytes.starts_with(&GZIP) {
            Box::new(MultiGzDecoder::new(&bytes[..]))
        } else {
            Box::new(&bytes[..])
        };
        let unpacked = Archive::new(plain.take(LARGEST)).unpack(&folder);
        unpacked.map_err(|error| {
            failed(format!(
                "it is no archive of tar that unpacks to {LARGEST} bytes at most: {error}"
            ))
        })
    }

    /// Runs the program of a package in its folder, to its end.
    fn run(&self, call: &Call, stop: &Stop) -> Result<(), DriverError> {
        let program = call.properties.get("program").unwrap_or_default();
        if program.is_empty() {
            return Ok(());
        }
        let package = of(call, "package")?;
        let peers = call.properties.get("peers").unwrap_or_default();
        let mut command = vec![
            "/usr/bin/env".to_owned(),
            format!("TENURE_PACKAGE={package}"),
            format!("TENURE_PEERS={peers}"),
        ];
        command.extend(program.lines().map(ToOwned::to_owned));
        if let Some(namespace) = call.properties.get(netns::NAMESPACE) {
            command = netns::inside(namespace, &command)?;
        }
        let command: Vec<&OsStr> = command.iter().map(OsStr::new).collect();
        let run = Run {
            name: &format!("the program of {package}"),
            command: &command,
            program: None,
            folder: &self.folder(at(call)),
            mark: &self.mark(at(call)),
            input: &serde_json::to_vec(&StepInput::of(call)).map_err(in_words)?,
            timeout: self.timeout,
            output: OUTPUT,
        };
        run.finish(stop, |_| Ok(())).map(drop)
    }
}

fn at(call: &Call) -> At {
    (Key::of(call), call.number)
}

/// What a call says of its package.
fn of<'c>(call: &'c Call, what: &str) -> Result<&'c str, DriverError> {
    let none = || DriverError(format!("the call does not say the {what} of the package"));
    call.properties.get(what).ok_or_else(none)
}

fn remove_all(folder: &Path) -> Result<(), DriverError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(DriverError(format!("{}: {error}", folder.display())))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn in_words(error: impl ToString) -> DriverError {
    DriverError(error.to_string())
}
