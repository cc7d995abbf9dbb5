//! Keys: a file for each actor, made at its first start and readable by its owner alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tenure_core::model::identity::{PublicKey, Scheme, Signer};
use tenure_core::model::name::Name;
use thiserror::Error;

/// Why an actor has no key.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The file cannot be read or made.
    #[error("the key {path}: {cause}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The file is gone, though its actor has a past.
    #[error(
        "the key {} is gone, but its actor's journal {} is there: put the key back, from a copy; if there is \
         none, move the journal away: the actor then starts with a new identity",
        .path.display(), .journal.display()
    )]
    Gone {
        /// The file.
        path: PathBuf,
        /// The journal of its actor.
        journal: PathBuf,
    },
    /// There is something else in the file.
    #[error("{} holds no key: expected 64 hexadecimal digits", .0.display())]
    NoKey(PathBuf),
    /// Others may read the file.
    #[error("the key {} can be read by others (mode {mode:o}): run `chmod 600` on it", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// The secret in the file at `path`. If there is no such file it is made, with a new secret from the system's
/// source of randomness, unless there is a `journal` already: its actor is known by the old one.
pub(super) fn signer(path: &Path, journal: &Path) -> Result<Signer, KeyError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |cause| KeyError::File { path, cause }
    };
    if !path.try_exists().map_err(failed(path))? {
        if journal.try_exists().map_err(failed(journal))? {
            let (path, journal) = (path.to_owned(), journal.to_owned());
            return Err(KeyError::Gone { path, journal });
        }
        make(path).map_err(failed(path))?;
    }
    existing(path)
}

/// The first key of an actor in the data folder `data`; it is made if it is not there.
///
/// # Errors
/// If it cannot be read or made.
pub fn new_key(data: &Path, actor: &Name) -> Result<PublicKey, KeyError> {
    let journal = data.join("journals").join(format!("{actor}.db"));
    Ok(signer(&super::key_of(data, actor), &journal)?.key())
}

/// The file of a later key of the actor whose first key is at `first`, by its number.
pub(crate) fn later(first: &Path, number: usize) -> PathBuf {
    let mut name = first.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    first.with_file_name(name)
}

/// The secrets of the later keys of an actor, in force or not yet.
pub(crate) fn later_secrets(first: &Path) -> Vec<Signer> {
    (2..).map_while(|number| existing(&later(first, number)).ok()).collect()
}

/// The secret in the file at `path`; it is made if it is not there.
pub(crate) fn make_or_read(path: &Path) -> Result<Signer, KeyError> {
    if !path.exists() {
        make(path).map_err(|cause| KeyError::File { path: path.to_owned(), cause })?;
    }
    existing(path)
}

/// The secret in the file at `path`, which must be there.
pub(super) fn existing(path: &Path) -> Result<Signer, KeyError> {
    let failed = |cause| KeyError::File { path: path.to_owned(), cause };
    let text = fs::read_to_string(path).map_err(failed)?;
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Open { path: path.to_owned(), mode });
    }
    let seed = decode(text.trim()).ok_or_else(|| KeyError::NoKey(path.to_owned()))?;
    Ok(Signer::from_seed(Scheme::Ed25519, seed))
}

/// Written aside and renamed, so that a crash leaves a whole key or none.
fn make(path: &Path) -> io::Result<()> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    let text: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // A name that no actor can have.
    let mut aside = path.as_os_str().to_owned();
    aside.push("~");
    let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).clone();
    let mut file = options.open(&aside)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&aside, path)?;
    File::open(folder)?.sync_all()
}

fn decode(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut seed = [0; 32];
    for (byte, digits) in seed.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys/one");
        let journal = folder.path().join("journal");
        let first = signer(&path, &journal).unwrap();
        assert_eq!(signer(&path, &journal).unwrap().id(), first.id());
        let second = signer(&folder.path().join("keys/two"), &journal).unwrap();
        assert_ne!(second.id(), first.id());
    }

    #[test]
    fn a_key_that_is_gone_is_not_replaced_where_there_is_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let (path, journal) = (folder.path().join("one"), folder.path().join("journal"));
        let first = signer(&path, &journal).unwrap();
        fs::write(&journal, "").unwrap();
        assert_eq!(signer(&path, &journal).unwrap().id(), first.id());
        fs::remove_file(&path).unwrap();
        let error = signer(&path, &journal).unwrap_err();
        assert!(matches!(error, KeyError::Gone { .. }), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn later_keys_are_read_in_their_order_until_one_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("one");
        signer(&first, &folder.path().join("journal")).unwrap();
        assert!(later_secrets(&first).is_empty());
        let second = make_or_read(&later(&first, 2)).unwrap();
        assert_eq!(make_or_read(&later(&first, 2)).unwrap(), second, "it is made once");
        make_or_read(&later(&first, 4)).unwrap();
        assert_eq!(later_secrets(&first), [second]);
    }

    #[test]
    fn a_key_that_others_may_read_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one");
        signer(&path, &folder.path().join("journal")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(
            signer(&path, &folder.path().join("journal")),
            Err(KeyError::Open { mode: 0o640, .. })
        ));
    }

    #[test]
    fn what_is_no_key_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one");
        signer(&path, &folder.path().join("journal")).unwrap();
        for text in ["", "abc", &"é".repeat(32), &"zz".repeat(32)] {
            fs::write(&path, text).unwrap();
            assert!(
                matches!(signer(&path, &folder.path().join("journal")), Err(KeyError::NoKey(_))),
                "{text}"
            );
        }
    }
}
