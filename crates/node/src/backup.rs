//! Backups of a data folder, taken while its deployment runs, and data folders made of them.
//!
//! A backup is a folder with what a data folder has: the configuration, what drivers remember, the journals with
//! their archives, and, only if that is wanted, the keys. Its list of files, with a hash of each, is written last.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tenure_core::model::name::Name;
use thiserror::Error;

use crate::config::KEPT;
use crate::journal::{Head, JournalError, Reader, views};
use crate::lock::{Lock, LockError};

/// The list of a backup's files.
const LIST: &str = "backup.json";
/// The version of its layout.
const VERSION: u32 = 1;
/// What of a data folder is in a backup beside the journals.
const KEYS: &str = "keys";
const JOURNALS: &str = "journals";
const DRIVERS: &str = "drivers";

/// What a backup holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// The version of the layout.
    pub version: u32,
    /// Whether the keys are in it.
    pub keys: bool,
    /// The journals, by the names of their actors.
    pub journals: BTreeMap<Name, JournalCopy>,
    /// The SHA-256 of each file, by its path in the backup.
    files: BTreeMap<String, String>,
}

impl Contents {
    /// The actors whose keys are not in it.
    pub fn without_keys(&self) -> impl Iterator<Item = &Name> {
        let has_key = |name: &Name| self.files.contains_key(&format!("{KEYS}/{name}"));
        self.journals.keys().filter(move |name| !has_key(name))
    }
}

/// A journal in a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalCopy {
    /// The number of facts.
    pub facts: u64,
    /// The segments of its archive.
    pub segments: u64,
    /// The hash of all facts.
    pub hash: String,
}

/// Why there is no backup, or nothing was made of one.
#[derive(Debug, Error)]
pub enum BackupError {
    /// A journal cannot be copied, or is not whole.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The data folder has none.
    #[error("there are no journals in {}", .0.display())]
    NoJournals(PathBuf),
    /// Where something is to be made there is something.
    #[error("{} is there and not an empty folder", .0.display())]
    NotEmpty(PathBuf),
    /// It is no backup, or one that was not finished.
    #[error("{} is not a backup: {cause}", path.display())]
    NoBackup {
        /// The list of files.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A file is not what was written.
    #[error("{} was changed since the backup was made", .0.display())]
    Changed(PathBuf),
    /// A journal is whole, but another than the list says.
    #[error("{} is not the journal that the backup was made of", .0.display())]
    Other(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {cause}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
}

impl BackupError {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Journal(error) => error.help(),
            Self::NoJournals(_) => "name the data folder of a deployment with `--data`",
            Self::NotEmpty(_) => "choose another folder, or move this one away",
            Self::NoBackup { .. } => "name a folder that `tenure backup` has made",
            Self::Changed(_) | Self::Other(_) => "use another backup",
            Self::File { .. } => "look for the cause in the system's log, then try again",
        }
    }

    fn file<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Self + 'a {
        move |cause| Self::File { action, path: path.to_owned(), cause }
    }
}

/// Copies the data folder `data`, whose deployment may be at work, into the new or empty folder `to`. Each
/// journal of the copy is read and checked.
///
/// # Errors
/// See [`BackupError`]. What was copied by then is no backup.
pub fn backup(data: &Path, to: &Path, keys: bool) -> Result<Contents, BackupError> {
    let journals = journals(&data.join(JOURNALS))?;
    if journals.is_empty() {
        return Err(BackupError::NoJournals(data.to_owned()));
    }
    make_empty(to)?;
    // What drivers remember is copied first: steps that only the journals know are called again.
    let mut files = BTreeMap::new();
    copy_folder(data, to, DRIVERS, &mut files)?;
    if keys {
        copy_folder(data, to, KEYS, &mut files)?;
    }
    if data.join(KEPT).exists() {
        copy_file(data, to, KEPT, &mut files)?;
    }
    make_folder(&to.join(JOURNALS))?;
    // While no deployment runs none may begin.
    let lock = match Lock::try_take(&data.join("lock")) {
        Ok(lock) => Some(lock),
        Err(LockError::Held(_)) => None,
        Err(LockError::System(cause)) => {
            return Err(BackupError::file("lock", &data.join("lock"))(cause));
        }
    };
    let mut copies = BTreeMap::new();
    for (path, view) in journals.iter().zip(views(&journals, lock.is_none())?) {
        let name = path.file_name().unwrap_or_default();
        let copy = to.join(JOURNALS).join(name);
        view.copy(&copy)?;
        let (actor, journal) = check(&copy)?;
        copies.insert(actor, journal);
    }
    list_folder(to, JOURNALS, &mut files)?;
    let contents = Contents { version: VERSION, keys, journals: copies, files };
    let list = serde_json::to_vec_pretty(&contents).map_err(io::Error::from);
    let path = to.join(LIST);
    list.and_then(|list| write(&path, &mut &*list).map(drop))
        .and_then(|()| File::open(to)?.sync_all())
        .map_err(BackupError::file("write", &path))?;
    Ok(contents)
}

/// Makes a data folder of the backup in `from`, if that is what was written, file by file and fact by fact.
///
/// # Errors
/// See [`BackupError`]. There is no data folder then.
pub fn restore(from: &Path, data: &Path) -> Result<Contents, BackupError> {
    let contents = contents(from)?;
    let mut aside = OsString::from(data);
    aside.push(".restoring");
    let aside = PathBuf::from(aside);
    if data.exists() {
        make_empty(data)?;
    }
    make_empty(&aside)?;
    let restored = restore_into(&contents, from, &aside).and_then(|()| {
        fs::rename(&aside, data).map_err(BackupError::file("write", data))?;
        let parent = data.parent().filter(|parent| *parent != Path::new(""));
        let parent = parent.unwrap_or(Path::new("."));
        let synced = File::open(parent).and_then(|folder| folder.sync_all());
        synced.map_err(BackupError::file("write", parent))
    });
    if restored.is_err() {
        drop(fs::remove_dir_all(&aside));
    }
    restored.map(|()| contents)
}

fn restore_into(contents: &Contents, from: &Path, to: &Path) -> Result<(), BackupError> {
    let mut copied = BTreeMap::new();
    for (name, hash) in &contents.files {
        copy_file(from, to, name, &mut copied)?;
        if copied.get(name) != Some(hash) {
            return Err(BackupError::Changed(from.join(name)));
        }
    }
    for (actor, journal) in &contents.journals {
        let name = format!("{JOURNALS}/{actor}.db");
        let (found, is) = check(&to.join(&name))?;
        if (&found, &is) != (actor, journal) {
            return Err(BackupError::Other(from.join(name)));
        }
    }
    Ok(())
}

/// The list of a backup.
fn contents(from: &Path) -> Result<Contents, BackupError> {
    let path = from.join(LIST);
    let wrong = |cause: String| BackupError::NoBackup { path: path.clone(), cause };
    let text = fs::read_to_string(&path).map_err(|cause| wrong(cause.to_string()))?;
    let contents: Contents =
        serde_json::from_str(&text).map_err(|cause| wrong(cause.to_string()))?;
    if contents.version != VERSION {
        let found = contents.version;
        return Err(wrong(format!("it has version {found}, and this program knows {VERSION}")));
    }
    let inside =
        |name: &str| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if let Some(name) = contents.files.keys().find(|name| !inside(name) || name.is_empty()) {
        return Err(wrong(format!("it names a file outside of it, {name:?}")));
    }
    Ok(contents)
}

/// Reads all of a journal, and says what it holds.
fn check(path: &Path) -> Result<(Name, JournalCopy), JournalError> {
    let reader = Reader::open(path)?;
    let (Head { len, hash }, segments) = reader.verify(|_| ())?;
    let segments = segments.len() as u64;
    Ok((reader.owner().name.clone(), JournalCopy { facts: len, segments, hash: hash.to_hex() }))
}

fn journals(folder: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let found = names(folder).map_err(BackupError::file("read", folder))?;
    let paths = found.into_iter().map(|name| folder.join(name));
    Ok(paths.filter(|path| path.extension().is_some_and(|ending| ending == "db")).collect())
}

/// What is in a folder, in order; nothing, if there is no such folder.
fn names(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names: Vec<PathBuf> =
        entries.map(|entry| Ok(PathBuf::from(entry?.file_name()))).collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

fn make_empty(folder: &Path) -> Result<(), BackupError> {
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_folder(folder),
        Ok(false) | Err(_) => Err(BackupError::NotEmpty(folder.to_owned())),
    }
}

fn make_folder(folder: &Path) -> Result<(), BackupError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(BackupError::file("make", folder))
}

/// Copies a folder with what is in it. Links, sockets and locks are left out, and files that go meanwhile.
fn copy_folder(
    from: &Path,
    to: &Path,
    name: &str,
    files: &mut BTreeMap<String, String>,
) -> Result<(), BackupError> {
    for path in walk(from, name)? {
        match copy_file(from, to, &path, files) {
            Err(BackupError::File { action: "read", cause, .. })
                if cause.kind() == io::ErrorKind::NotFound => {}
            copied => copied?,
        }
    }
    Ok(())
}

/// Lists the files of a folder that was written already.
fn list_folder(
    folder: &Path,
    name: &str,
    files: &mut BTreeMap<String, String>,
) -> Result<(), BackupError> {
    for path in walk(folder, name)? {
        let file = folder.join(&path);
        let hash = File::open(&file).and_then(|mut file| pass(&mut file, &mut io::sink()));
        files.insert(path, hash.map_err(BackupError::file("read", &file))?);
    }
    Ok(())
}

/// All regular files in a folder of `root`, by their paths from there.
fn walk(root: &Path, name: &str) -> Result<Vec<String>, BackupError> {
    let (mut files, mut folders) = (Vec::new(), vec![name.to_owned()]);
    while let Some(folder) = folders.pop() {
        let path = root.join(&folder);
        for name in names(&path).map_err(BackupError::file("read", &path))? {
            // A name that is no text is none of ours.
            let Some(name) = name.to_str() else { continue };
            let inner = format!("{folder}/{name}");
            let Ok(found) = fs::symlink_metadata(root.join(&inner)) else { continue };
            if found.is_dir() {
                folders.push(inner);
            } else if found.is_file() && !name.ends_with("lock") {
                files.push(inner);
            }
        }
    }
    Ok(files)
}

fn copy_file(
    from: &Path,
    to: &Path,
    name: &str,
    files: &mut BTreeMap<String, String>,
) -> Result<(), BackupError> {
    let (source, target) = (from.join(name), to.join(name));
    let mut file = open(&source).map_err(BackupError::file("read", &source))?;
    let mode = file.metadata().map_err(BackupError::file("read", &source))?.permissions().mode();
    if let Some(folder) = target.parent() {
        make_folder(folder)?;
    }
    let hash = write(&target, &mut file).map_err(BackupError::file("write", &target))?;
    // A program stays one; nobody else may read anything.
    let mode = Permissions::from_mode(mode & 0o700);
    fs::set_permissions(&target, mode).map_err(BackupError::file("write", &target))?;
    files.insert(name.to_owned(), hash);
    Ok(())
}

/// Opens a file; none that is elsewhere, and none that never ends.
fn open(path: &Path) -> io::Result<File> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(path)
}

/// Writes a new file and syncs it with its folder. Answers its SHA-256.
fn write(path: &Path, content: &mut dyn io::Read) -> io::Result<String> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let hash = pass(content, &mut file)?;
    file.sync_all()?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(hash)
}

/// Passes bytes on. Answers their SHA-256.
fn pass(from: &mut dyn io::Read, to: &mut dyn io::Write) -> io::Result<String> {
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
