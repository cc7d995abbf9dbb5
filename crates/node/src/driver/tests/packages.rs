//! The guest's driver that installs packages.

use std::fs;
use std::path::PathBuf;
use std::thread;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tenure_core::driver::{Call, DriverError, GuestDriver, Step, UnitId};
use tenure_core::model::codec::Hash;
use tenure_core::model::property::Properties;
use tenure_wait::{DEADLINE, done_in_time, eventually};

use super::super::conformance;
use super::{actor, call, guest, with};

/// A driver with one archive, in which `run` is a script.
struct Place {
    home: TempDir,
    hash: String,
}

impl Place {
    fn of(script: &str) -> Self {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(script.len() as u64);
        header.set_mode(0o755);
        archive.append_data(&mut header, "run", script.as_bytes()).unwrap();
        Self::with(archive.into_inner().unwrap())
    }

    fn with(archive: Vec<u8>) -> Self {
        let home = TempDir::new().unwrap();
        fs::create_dir(home.path().join("artefacts")).unwrap();
        fs::write(home.path().join("artefacts/a.tar"), &archive).unwrap();
        let hash = Hash::from_bytes(Sha256::digest(&archive).into()).to_hex();
        Self { home, hash }
    }

    fn open(&self) -> Box<dyn GuestDriver> {
        guest("packages", self.home.path(), &json!({})).unwrap()
    }

    /// A call about a package, under the number of its installation.
    fn call(&self, step: Step, number: u32) -> Call {
        let about = [
            ("package", "svc/web/1.0/main/1.0"),
            ("artefact", "a.tar"),
            ("sha256", self.hash.as_str()),
            ("program", "/bin/sh\nrun"),
        ];
        Call { number, properties: with(&about), ..call(1, step) }
    }

    /// The folders of installations.
    fn installed(&self) -> Vec<PathBuf> {
        let inside = |folder: PathBuf| {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            entries.filter(|path| path.is_dir()).collect::<Vec<_>>()
        };
        let units = inside(self.home.path().join("packages"));
        units.into_iter().flat_map(inside).collect()
    }
}

fn joined(place: &Place) -> Box<dyn GuestDriver> {
    let driver = place.open();
    driver.perform(&call(1, Step::Join)).outcome.unwrap();
    driver
}

fn done(driver: &dyn GuestDriver, call: &Call) -> Result<Properties, DriverError> {
    driver.call(call).outcome
}

#[test]
fn packages_keeps_the_promises_of_a_driver() {
    let place = Place::of("");
    assert_eq!(conformance::guest(|| place.open(), &call(1, Step::Join), 3), Ok(126));
}

#[test]
fn a_package_is_installed_once_and_gone_for_good_once_it_is_removed() {
    let place = Place::of("echo run >>runs\n");
    let driver = joined(&place);
    done(&*driver, &place.call(Step::Install, 1)).unwrap();
    drop(driver);
    let driver = place.open();
    done(&*driver, &place.call(Step::Install, 1)).unwrap();
    let [folder] = &place.installed()[..] else { panic!("{:?}", place.installed()) };
    assert_eq!(fs::read_to_string(folder.join("runs")).unwrap(), "run\n");
    let probed = driver.probe(actor(1), UnitId(1)).unwrap();
    assert_eq!(probed.get("packages.installed"), Some("1"));

    done(&*driver, &place.call(Step::Remove, 1)).unwrap();
    assert_eq!(place.installed(), Vec::<PathBuf>::new());
    let late = done(&*driver, &place.call(Step::Install, 1)).unwrap_err();
    assert!(late.0.ends_with("was removed before it was installed"), "{late}");
    done(&*driver, &place.call(Step::Install, 2)).unwrap();
    fs::remove_dir_all(&place.installed()[0]).unwrap();
    let gone = driver.probe(actor(1), UnitId(1)).unwrap_err();
    assert!(gone.0.starts_with("svc/web/1.0/main/1.0 is gone"), "{gone}");
}

#[test]
fn a_removal_ends_the_installation_that_is_at_work_and_a_leave_ends_all() {
    let place = Place::of("touch begun; exec sleep 600\n");
    let driver = joined(&place);
    for end in [place.call(Step::Remove, 7), call(1, Step::Leave)] {
        let number = if end.step == Step::Remove { 7 } else { 8 };
        let install = place.call(Step::Install, number);
        thread::scope(|scope| {
            let hangs = scope.spawn(|| done(&*driver, &install));
            let begun = || place.installed().iter().any(|folder| folder.join("begun").is_file());
            eventually(DEADLINE, "the program to begin", begun);
            done(&*driver, &end).unwrap();
            assert!(hangs.join().unwrap().unwrap_err().0.contains("was ended"));
        });
        assert_eq!(place.installed(), Vec::<PathBuf>::new());
    }
    let late = done(&*driver, &place.call(Step::Install, 9)).unwrap_err();
    assert!(late.0.contains("is not joined"), "{late}");
    done(&*driver, &place.call(Step::Remove, 8)).unwrap();
}

#[test]
fn what_fails_leaves_nothing_behind_and_says_why() {
    let fails = Place::of("touch half; echo 'no license' >&2; exit 3\n");
    let broken = Place::with(b"this is no archive, and long enough to be read as one".repeat(20));
    let mut other = Place::of("");
    other.hash = "0".repeat(64);
    for (place, says) in
        [(fails, "no license"), (broken, "no archive of tar"), (other, "the catalogue says 0000")]
    {
        let error = done(&*joined(&place), &place.call(Step::Install, 1)).unwrap_err();
        assert!(error.0.contains(says), "{error}");
        assert_eq!(place.installed(), Vec::<PathBuf>::new());
    }
}

#[test]
fn an_archive_cannot_write_outside_of_its_folder() {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(0);
    header.as_gnu_mut().unwrap().name[..10].copy_from_slice(b"../outside");
    header.set_cksum();
    archive.append(&header, &b""[..]).unwrap();
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    archive.append_link(&mut link, "run", "/dev/null").unwrap();
    let place = Place::with(archive.into_inner().unwrap());
    let driver = joined(&place);
    let install = place.call(Step::Install, 1);
    drop(done_in_time(DEADLINE, "an installation", move || done(&*driver, &install)));
    let unit = fs::read_dir(place.home.path().join("packages")).unwrap().next().unwrap().unwrap();
    assert!(!unit.path().join("outside").exists());
}
