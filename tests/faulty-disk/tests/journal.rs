//! The journal on a disk that fails and forgets: whatever happens, what was acknowledged is there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tempfile::TempDir;
use tenure_core::actor::Role;
use tenure_core::actor::fact::BadFact;
use tenure_core::actor::snapshot::RestoreError;
use tenure_core::driver::{Epoch, UnitId};
use tenure_core::model::identity::{Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Time;
use tenure_core::runtime::Entry;
use tenure_core::runtime::journal::JournalDigest;
use tenure_core::site_authority::facts as site;
use tenure_faulty_disk::{Condition, Fault, FaultyDisk};
use tenure_node::journal::{JournalError, JournalFile, Owner, Past, Reader};

/// How many facts each append of a life brings: small ones, and one that takes several pages.
const APPENDS: [u64; 9] = [1, 1, 3, 1, 40, 2, 1, 9, 1];

/// A journal on a faulty disk, and what its actor may rely on.
struct JournalRun {
    disk: FaultyDisk,
    /// Only the lock file is really there.
    folder: TempDir,
    /// Facts that were acknowledged, or read from an open journal.
    known: u64,
    /// Facts that were ever handed in, and where an append ended.
    ends: Vec<u64>,
}

impl JournalRun {
    fn new() -> Self {
        Self {
            disk: FaultyDisk::new(0),
            folder: tempfile::tempdir().unwrap(),
            known: 0,
            ends: vec![0],
        }
    }

    /// Begins again with an empty disk.
    fn reset(&mut self, seed: u64) {
        self.disk.reset(seed);
        (self.known, self.ends) = (0, vec![0]);
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("site.journal")
    }

    /// Opens the journal. What is in it must be the first facts, all that are known among them, and end
    /// where an append has ended.
    fn open(&mut self) -> Result<JournalFile, JournalError> {
        let mut counter = Counter(0);
        let file = JournalFile::resume_on(&self.disk, &self.path(), &owner(), &mut counter)?;
        let Counter(position) = counter;
        assert_eq!(file.len(), position);
        assert!(file.kept() <= position);
        assert!(position >= self.known, "{} facts were known, {position} are left", self.known);
        assert!(self.ends.contains(&position), "an append was torn at {position}");
        let mut digest = JournalDigest::default();
        digest.append(0, &facts(0, position)).unwrap();
        assert_eq!(file.hash(), digest.hash());
        self.known = position;
        // What was handed in and is not there now must never come.
        self.ends = vec![position];
        Ok(file)
    }

    fn append(&mut self, file: &mut JournalFile, count: u64) -> Result<(), String> {
        let position = file.len();
        self.ends.push(position + count);
        file.append(position, &facts(position, count)).map_err(|error| error.to_string())?;
        self.known = position + count;
        Ok(())
    }

    /// Keeps the state of now.
    fn keep(&self, file: &mut JournalFile) -> Result<(), String> {
        file.keep(state(file.len())).map_err(|error| error.to_string())
    }

    /// Opens and appends on a sound disk, and closes or drops.
    fn live_once(&mut self, close: bool) {
        let mut file = self.open().unwrap();
        for count in APPENDS {
            self.append(&mut file, count).unwrap();
        }
        if close { file.close().unwrap() } else { drop(file) }
    }

    fn log(&self) -> PathBuf {
        PathBuf::from(format!("{}-wal", self.path().display()))
    }

    /// Opens, appends and closes twice, once properly and once not.
    fn live(&mut self) -> Result<(), String> {
        for close in [false, true] {
            let mut file = self.open().map_err(|error| error.to_string())?;
            for (number, count) in APPENDS.into_iter().enumerate() {
                self.append(&mut file, count)?;
                if number == 3 {
                    self.keep(&mut file)?;
                }
            }
            file.archive(&self.disk, &signer()).map_err(|error| error.to_string())?;
            if close {
                let position = file.len();
                file.close_with(|| state(position)).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Whatever happened before: the journal opens, takes facts, and loses none to a power cut.
    fn goes_on(&mut self) {
        let mut file = self.open().unwrap();
        self.append(&mut file, 2).unwrap();
        self.keep(&mut file).unwrap();
        file.archive(&self.disk, &signer()).unwrap();
        drop(file);
        self.disk.cut_power();
        let file = self.open().unwrap();
        assert_eq!(file.kept(), file.len(), "the snapshot is durable");
        file.close().unwrap();
        self.disk.cut_power();
        drop(self.open().unwrap());
        // All facts are there, whatever the snapshot says.
        let (known, mut whole) = (self.known, 0);
        let file = JournalFile::recover_on(&self.disk, &self.path(), &owner(), |entry| {
            assert_eq!(*entry, fact(whole), "at {whole}");
            whole += 1;
            Ok(())
        });
        assert_eq!((file.unwrap().len(), whole), (known, known));
        // The archive is whole, and has all but those behind the snapshot before the last.
        let (mut facts, reader) = (0, Reader::open_on(&self.disk, &self.path()).unwrap());
        let (_, segments) = reader.verify(|_| facts += 1).unwrap();
        assert_eq!(facts, known);
        assert!(segments.iter().all(|signed| signed.head.last + 1 < known));
    }
}

/// An actor that counts its facts.
struct Counter(u64);

impl Past for Counter {
    fn restore(&mut self, kept: &[u8], position: u64, at: Time) -> Result<(), RestoreError> {
        assert_eq!(kept, state(position), "the state behind {position} facts");
        assert_eq!(at, fact(position - 1).at);
        self.0 = position;
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), BadFact> {
        assert_eq!(*entry, fact(self.0), "at {}", self.0);
        self.0 += 1;
        Ok(())
    }
}

/// The state behind so many facts, of several pieces.
fn state(position: u64) -> Vec<u8> {
    (0..5_000).map(|at: u64| (at * 31 + position * 7) as u8).collect()
}

fn owner() -> Owner {
    Owner { name: Name::literal("site"), role: Role::SiteAuthority, id: signer().id() }
}

fn signer() -> Signer {
    Signer::from_seed(Scheme::Ed25519, [1; 32])
}

/// The fact for a position, of a size that goes with it.
fn fact(position: u64) -> Entry {
    let words = "x".repeat(usize::try_from(position * 97 % 1500).unwrap());
    let properties = BTreeMap::from([(Name::literal("host"), words)]);
    let properties = Properties::try_from(properties).unwrap();
    let (unit, epoch) = (UnitId(3), Epoch(position));
    let fact = site::Fact::from(site::UnitSetUp { unit, epoch, properties }).into();
    Entry { at: Time::from_secs(i64::try_from(position).unwrap()), fact }
}

fn facts(from: u64, count: u64) -> Vec<Entry> {
    (from..from + count).map(fact).collect()
}

/// Runs a life for each operation that can fail, until none is left to fail.
fn for_each_operation(for_ever: bool, seeds: u64, mut then: impl FnMut(&mut JournalRun, u64)) {
    let mut life = JournalRun::new();
    for seed in 0..seeds {
        let mut after = 0;
        loop {
            life.reset(seed);
            life.disk.arrange(Some(Fault { after, for_ever }));
            let lived = life.live();
            if !life.disk.has_struck() {
                lived.unwrap();
                break;
            }
            life.disk.arrange(None);
            then(&mut life, after);
            after += 1;
        }
        assert!(after > 300, "a life has only {after} operations");
    }
}

#[test]
fn an_operation_that_fails_once_loses_nothing() {
    for_each_operation(false, 1, |life, _| life.goes_on());
}

#[test]
fn a_disk_that_fails_for_ever_and_is_repaired_has_lost_nothing() {
    for_each_operation(true, 1, |life, _| life.goes_on());
}

#[test]
fn a_power_cut_at_any_operation_loses_nothing_that_was_acknowledged() {
    for_each_operation(true, 2, |life, _| {
        life.disk.cut_power();
        life.goes_on();
    });
}

#[test]
fn a_power_cut_after_an_operation_that_failed_once_loses_nothing_that_was_acknowledged() {
    for_each_operation(false, 2, |life, _| {
        life.disk.cut_power();
        life.goes_on();
    });
}

#[test]
fn a_power_cut_while_the_journal_comes_back_from_a_fault_loses_nothing_that_was_acknowledged() {
    for for_ever in [false, true] {
        for_each_operation(for_ever, 2, |life, after| {
            // Each fault meets another operation of the way back.
            let after = after * 7 % 80;
            life.disk.arrange(Some(Fault { after, for_ever: true }));
            let mut file = life.open();
            if let Ok(file) = &mut file {
                let _ = life.append(file, 5);
            }
            drop(file);
            life.disk.cut_power();
            life.goes_on();
        });
    }
}

/// A journal that was closed, or dropped with facts in its log.
fn lived(close: bool) -> JournalRun {
    let mut life = JournalRun::new();
    life.live_once(close);
    life
}

#[test]
fn a_full_disk_refuses_facts_and_keeps_those_it_has() {
    let mut life = lived(true);
    let mut file = life.open().unwrap();
    life.disk.set(Condition::Full);
    let refused = (0..1000).find_map(|_| life.append(&mut file, 3).err()).unwrap();
    assert!(refused.contains("the disk is full"), "{refused}");
    // It is not tried again, though there is room.
    life.disk.set(Condition::Sound);
    assert_eq!(life.append(&mut file, 1), Err(refused));
    drop(file);
    life.goes_on();
}

#[test]
fn a_full_disk_costs_a_snapshot_and_no_fact() {
    let mut life = lived(true);
    let mut file = life.open().unwrap();
    life.append(&mut file, 3).unwrap();
    life.disk.set(Condition::Full);
    let refused = (0..1000).find_map(|_| life.keep(&mut file).err()).unwrap();
    assert!(refused.contains("the disk is full"), "{refused}");
    life.disk.set(Condition::Sound);
    life.append(&mut file, 1).unwrap();
    let position = file.len();
    life.disk.set(Condition::Full);
    let closed = file.close_with(|| state(position));
    life.disk.set(Condition::Sound);
    drop(closed);
    life.goes_on();
}

#[test]
fn a_journal_does_not_open_on_a_full_disk_and_says_so() {
    let mut life = lived(true);
    life.disk.set(Condition::Full);
    let error = life.open().unwrap_err();
    assert!(matches!(error, JournalError::DiskFull { .. }), "{error}");
    life.disk.set(Condition::Sound);
    life.goes_on();
}

#[test]
fn a_read_only_disk_is_read_and_not_written() {
    for close in [true, false] {
        let mut life = lived(close);
        life.disk.set(Condition::ReadOnly);
        let error = life.open().unwrap_err();
        assert!(matches!(error, JournalError::ReadOnly { .. }), "{error}");
        let head = Reader::open_on(&life.disk, &life.path()).unwrap().read(|_, _| Ok(()));
        assert_eq!(head.unwrap().len, life.known);
        life.disk.set(Condition::Sound);
        life.goes_on();
    }
}

/// The facts of a journal as a reader of all of them finds them.
fn read_all(life: &JournalRun) -> Result<Vec<Entry>, JournalError> {
    let mut read = Vec::new();
    let head = Reader::open_on(&life.disk, &life.path())?.read(|_, entry| {
        read.push(entry);
        Ok(())
    })?;
    let mut digest = JournalDigest::default();
    digest.append(0, &read).unwrap();
    assert_eq!((head.len, head.hash), (digest.len(), digest.hash()));
    Ok(read)
}

/// A bit of a closed journal is flipped: anyone who opens it finds that, or has all the facts as they were.
#[test]
fn a_flipped_bit_is_found_or_does_not_matter() {
    let (mut life, mut found, mut harmless) = (JournalRun::new(), 0, 0);
    for seed in 0..800 {
        life.reset(seed);
        life.live_once(true);
        let lived = facts(0, life.known);
        assert!(life.disk.flip_a_bit(&life.path()), "seed {seed}");
        match read_all(&life) {
            Err(_) => found += 1,
            Ok(read) => assert_eq!(read, lived, "seed {seed}"),
        }
        // The actor comes back as it was, or not at all; what it then writes is stored, or is refused.
        if let Ok(mut file) = life.open() {
            assert_eq!(file.len(), life.known, "seed {seed}");
            harmless += 1;
            let _ = life.append(&mut file, 2);
            drop(file);
            if let Ok(read) = read_all(&life) {
                let len = read.len() as u64;
                assert!(life.known <= len && life.ends.contains(&len), "seed {seed}: {len} facts");
                assert_eq!(read, facts(0, len), "seed {seed}");
            }
        }
    }
    // Much of so small a file is room for more.
    assert!(found > 200 && harmless > 0, "{found} found, {harmless} harmless");
}

/// The same of a journal with snapshots: a start may not look at the facts before one, but anyone who reads
/// all of them does.
#[test]
fn a_flipped_bit_beside_snapshots_is_found_or_does_not_matter() {
    let mut life = JournalRun::new();
    for seed in 0..400 {
        life.reset(seed);
        life.live().unwrap();
        let lived = facts(0, life.known);
        assert!(life.disk.flip_a_bit(&life.path()), "seed {seed}");
        if let Ok(read) = read_all(&life) {
            assert_eq!(read, lived, "seed {seed}");
        }
        if let Ok(file) = life.open() {
            assert_eq!(file.len(), life.known, "seed {seed}");
        }
    }
}

#[test]
fn a_log_with_a_flipped_bit_leaves_whole_appends() {
    let mut life = JournalRun::new();
    for seed in 0..200 {
        life.reset(seed);
        life.live_once(false);
        assert!(life.disk.flip_a_bit(&life.log()));
        // What is gone was acknowledged, which only a peer can know.
        (life.known, life.ends) = (0, ends_of_appends());
        life.goes_on();
    }
}

#[test]
fn a_log_cut_anywhere_leaves_whole_appends() {
    let mut life = lived(false);
    let len = life.disk.len_of(&life.log()).unwrap();
    for cut in (0..len).step_by(509) {
        life.reset(0);
        life.live_once(false);
        life.disk.cut(&life.log(), cut);
        (life.known, life.ends) = (0, ends_of_appends());
        life.goes_on();
    }
}

/// Where the appends of a life end.
fn ends_of_appends() -> Vec<u64> {
    (0..=APPENDS.len()).map(|appends| APPENDS[..appends].iter().sum()).collect()
}
