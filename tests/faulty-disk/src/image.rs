//! What is on the disk, what the system believes is on it, and what goes wrong.

use std::collections::BTreeMap;

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// What is lost or kept as one when the power goes.
const SECTOR: usize = 512;

/// An operation that is to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The number of operations that still go well.
    pub after: u64,
    /// Whether all operations after it fail as well.
    pub for_ever: bool,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no such file.
    Missing,
    /// The disk did not do it.
    Broken,
    /// There is no room.
    Full,
    /// It may not be written.
    ReadOnly,
}

/// What a disk lets itself be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Everything.
    #[default]
    Sound,
    /// Nothing that takes more room.
    Full,
    /// Nothing by which all files together would take more than so many bytes.
    Space(usize),
    /// Nothing that changes it.
    ReadOnly,
}

/// Something that was done to a file and not yet synced.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { len: usize },
}

/// A file: what is safe, what readers see, and what lies between the two.
#[derive(Clone, Debug, Default)]
struct File {
    synced: Vec<u8>,
    seen: Vec<u8>,
    unsynced: Vec<Change>,
    /// Whether its name is safe.
    named: bool,
}

impl File {
    fn change(&mut self, change: Change) {
        apply(&mut self.seen, &change);
        self.unsynced.push(change);
    }
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes } => {
            let end = offset + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*offset..end].copy_from_slice(bytes);
        }
        Change::Truncate { len } => content.resize(*len, 0),
    }
}

/// The disk.
pub(crate) struct Image {
    files: BTreeMap<String, File>,
    /// Files that were removed without a sync: they may come back.
    removed: BTreeMap<String, File>,
    /// How many have each file open.
    open: BTreeMap<String, u32>,
    random: ChaCha8Rng,
    operations: u64,
    fault: Option<Fault>,
    struck: bool,
    condition: Condition,
}

impl Image {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            files: BTreeMap::new(),
            removed: BTreeMap::new(),
            open: BTreeMap::new(),
            random: ChaCha8Rng::seed_from_u64(seed),
            operations: 0,
            fault: None,
            struck: false,
            condition: Condition::Sound,
        }
    }

    pub(crate) fn set(&mut self, condition: Condition) {
        self.condition = condition;
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.condition == Condition::ReadOnly
    }

    /// Whether a file may be changed, so that it reaches to `end` at least.
    fn allows(&self, name: &str, end: usize) -> Result<(), Failure> {
        let grows = self.len_of(name).is_none_or(|len| len < end);
        match self.condition {
            Condition::ReadOnly => Err(Failure::ReadOnly),
            Condition::Full if grows => Err(Failure::Full),
            Condition::Space(most) if grows && self.used_but(name) + end > most => {
                Err(Failure::Full)
            }
            Condition::Full | Condition::Space(_) | Condition::Sound => Ok(()),
        }
    }

    /// How many bytes all files take.
    pub(crate) fn used(&self) -> usize {
        self.used_but("")
    }

    /// How many bytes all files but this one take.
    fn used_but(&self, name: &str) -> usize {
        let others = self.files.iter().filter(|(other, _)| other.as_str() != name);
        others.map(|(_, file)| file.seen.len()).sum()
    }

    pub(crate) fn arrange(&mut self, fault: Option<Fault>) {
        let from_now = |fault: Fault| Fault { after: self.operations + fault.after, ..fault };
        self.fault = fault.map(from_now);
        self.struck = false;
    }

    pub(crate) fn operations(&self) -> u64 {
        self.operations
    }

    pub(crate) fn has_struck(&self) -> bool {
        self.struck
    }

    /// Counts an operation; an error if it is to fail.
    fn operate(&mut self) -> Result<(), Failure> {
        let now = self.operations;
        self.operations += 1;
        let fails = self.fault.is_some_and(|fault| {
            if fault.for_ever { now >= fault.after } else { now == fault.after }
        });
        self.struck |= fails;
        if !fails {
            return Ok(());
        }
        Err(if self.random.random_bool(0.3) { Failure::Full } else { Failure::Broken })
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.random.fill_bytes(bytes);
    }

    /// Opens a file, making it if it is to be made.
    pub(crate) fn open(&mut self, name: &str, create: bool) -> Result<(), Failure> {
        self.operate()?;
        if !self.files.contains_key(name) {
            if !create {
                return Err(Failure::Missing);
            }
            self.allows(name, 1)?;
            self.files.insert(name.to_owned(), File::default());
        }
        *self.open.entry(name.to_owned()).or_default() += 1;
        Ok(())
    }

    pub(crate) fn close(&mut self, name: &str) {
        if let Some(count) = self.open.get_mut(name) {
            *count -= 1;
        }
        self.open.retain(|_, count| *count > 0);
    }

    pub(crate) fn exists(&mut self, name: &str) -> Result<bool, Failure> {
        self.operate()?;
        Ok(self.files.contains_key(name))
    }

    pub(crate) fn len_of(&self, name: &str) -> Option<usize> {
        Some(self.files.get(name)?.seen.len())
    }

    /// Reads as much as there is; answers how much that was.
    pub(crate) fn read(
        &mut self,
        name: &str,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<usize, Failure> {
        self.operate()?;
        let file = self.files.get(name).ok_or(Failure::Missing)?;
        let there = file.seen.get(offset..).unwrap_or_default();
        let len = there.len().min(bytes.len());
        bytes[..len].copy_from_slice(&there[..len]);
        Ok(len)
    }

    /// Writes all, or fails and has written a part.
    pub(crate) fn write(&mut self, name: &str, offset: usize, bytes: &[u8]) -> Result<(), Failure> {
        self.allows(name, offset + bytes.len())?;
        let done = self.operate();
        let written =
            if done.is_ok() { bytes.len() } else { self.random.random_range(0..=bytes.len()) };
        let file = self.files.get_mut(name).ok_or(Failure::Missing)?;
        if written > 0 {
            file.change(Change::Write { offset, bytes: bytes[..written].to_owned() });
        }
        done
    }

    pub(crate) fn truncate(&mut self, name: &str, len: usize) -> Result<(), Failure> {
        self.allows(name, 0)?;
        self.operate()?;
        let file = self.files.get_mut(name).ok_or(Failure::Missing)?;
        file.change(Change::Truncate { len });
        Ok(())
    }

    /// Syncs a file. If that fails, some of it may have got through, and what did not may be taken for
    /// done: no later sync writes it.
    pub(crate) fn sync(&mut self, name: &str) -> Result<(), Failure> {
        let done = self.operate();
        let forgetful = self.random.random_bool(0.5);
        let file = self.files.get_mut(name).ok_or(Failure::Missing)?;
        if done.is_ok() {
            for change in file.unsynced.drain(..) {
                apply(&mut file.synced, &change);
            }
        } else if forgetful {
            let changes = std::mem::take(&mut file.unsynced);
            survive(&mut file.synced, &changes, &mut self.random);
        }
        done
    }

    /// Makes safe which files are there.
    pub(crate) fn sync_folder(&mut self) -> Result<(), Failure> {
        self.operate()?;
        self.files.values_mut().for_each(|file| file.named = true);
        self.removed.clear();
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<(), Failure> {
        self.allows(name, 0)?;
        self.operate()?;
        let file = self.files.remove(name).ok_or(Failure::Missing)?;
        if file.named {
            self.removed.insert(name.to_owned(), file);
        }
        Ok(())
    }

    /// Gives a file another name, in place of any that has it. Until the folder is synced the old names may come
    /// back.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<(), Failure> {
        self.allows(from, 0)?;
        self.operate()?;
        let mut file = self.files.remove(from).ok_or(Failure::Missing)?;
        if file.named {
            self.removed.insert(from.to_owned(), file.clone());
        }
        file.named = false;
        if let Some(replaced) = self.files.insert(to.to_owned(), file)
            && replaced.named
        {
            self.removed.insert(to.to_owned(), replaced);
        }
        Ok(())
    }

    pub(crate) fn cut_power(&mut self) {
        assert!(self.open.is_empty(), "files are open: {:?}", self.open);
        for (name, file) in std::mem::take(&mut self.removed) {
            if self.random.random_bool(0.5) {
                self.files.entry(name).or_insert(file);
            }
        }
        let Self { files, random, .. } = self;
        files.retain(|_, file| file.named || random.random_bool(0.5));
        for file in files.values_mut() {
            let changes = std::mem::take(&mut file.unsynced);
            survive(&mut file.synced, &changes, random);
            file.seen.clone_from(&file.synced);
            file.named = true;
        }
        self.arrange(None);
    }

    pub(crate) fn flip_a_bit(&mut self, name: &str) -> bool {
        let Some(file) = self.files.get_mut(name).filter(|file| !file.seen.is_empty()) else {
            return false;
        };
        let bit = self.random.random_range(0..file.seen.len() * 8);
        for content in [&mut file.seen, &mut file.synced] {
            if let Some(byte) = content.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
        true
    }

    pub(crate) fn cut(&mut self, name: &str, len: usize) {
        if let Some(file) = self.files.get_mut(name) {
            file.seen.truncate(len);
            file.synced.truncate(len);
        }
    }
}

/// Does to `content` what was not synced, as far as it survives: all, none, a first part, or each sector
/// by chance. Where a file has grown, what was lost may be anything.
fn survive(content: &mut Vec<u8>, changes: &[Change], random: &mut ChaCha8Rng) {
    let kept = match random.random_range(0..4) {
        0 => return,
        1 => changes.len(),
        2 => random.random_range(0..=changes.len()),
        _ => {
            changes.iter().for_each(|change| survive_in_part(content, change, random));
            return;
        }
    };
    changes[..kept].iter().for_each(|change| apply(content, change));
}

fn survive_in_part(content: &mut Vec<u8>, change: &Change, random: &mut ChaCha8Rng) {
    let Change::Write { offset, bytes } = change else {
        if random.random_bool(0.5) {
            apply(content, change);
        }
        return;
    };
    let mut start = 0;
    while start < bytes.len() {
        let end = bytes.len().min((offset + start + SECTOR) / SECTOR * SECTOR - offset);
        let at = offset + start;
        let old = content.len();
        let change = Change::Write { offset: at, bytes: bytes[start..end].to_owned() };
        match random.random_range(0..3) {
            0 => {}
            1 => apply(content, &change),
            _ if at >= old => {
                apply(content, &change);
                random.fill_bytes(&mut content[old..]);
            }
            _ => {}
        }
        start = end;
    }
}
