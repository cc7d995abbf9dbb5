//! Keys: a file for each actor, made at its first start and readable by its owner alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tenure_core::identity::{Scheme, Signer};
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

/// The secret in the file at `path`, which is made, with a new secret from the system's source of
/// randomness, if it is not there.
pub(super) fn signer(path: &Path) -> Result<Signer, KeyError> {
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
    let aside = path.with_extension("new");
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
        let first = signer(&path).unwrap();
        assert_eq!(signer(&path).unwrap().id(), first.id());
        assert_ne!(signer(&folder.path().join("keys/two")).unwrap().id(), first.id());
    }

    #[test]
    fn a_key_that_others_may_read_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one");
        signer(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(signer(&path), Err(KeyError::Open { mode: 0o640, .. })));
    }

    #[test]
    fn what_is_no_key_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one");
        signer(&path).unwrap();
        for text in ["", "abc", &"é".repeat(32), &"zz".repeat(32)] {
            fs::write(&path, text).unwrap();
            assert!(matches!(signer(&path), Err(KeyError::NoKey(_))), "{text}");
        }
    }
}
