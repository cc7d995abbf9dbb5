//! The data folder, which no one but its owner may enter: anyone who can read a journal can lock it too. A group
//! that may use the socket passes through it, and finds all else closed.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use nix::unistd::Gid;
use tracing::warn;

const PRIVATE: u32 = 0o700;
const PASSABLE: u32 = 0o710;
const STICKY: u32 = 0o1000;

/// Marks a folder as a data folder.
const MARKS: [&str; 3] = ["lock", "keys", "journals"];

/// The folders in it, none of which is for a group.
const FOLDERS: [&str; 3] = ["keys", "journals", "drivers"];

/// Makes a data folder, whatever the umask, or closes one that is there to other users. A `group` may pass through
/// it, and neither list nor open what is in it.
///
/// One that is not a deployment's and holds other folders, or that is sticky, is not changed: it may be meant
/// to be open, as `/home` and `/tmp` are.
///
/// # Errors
/// If it cannot be made or closed, belongs to another user, or is open and not a deployment's.
pub(crate) fn open(path: &Path, group: Option<Gid>) -> io::Result<()> {
    close(path, group)?;
    let Some(group) = group else { return Ok(()) };
    for folder in FOLDERS {
        match DirBuilder::new().mode(PRIVATE).create(path.join(folder)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) | Ok(()) => {}
        }
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let (kind, mode) = (entry.file_type()?, entry.metadata()?.mode() & 0o7777);
        if mode & 0o077 != 0 && (kind.is_dir() || kind.is_file()) {
            fs::set_permissions(entry.path(), Permissions::from_mode(mode & !0o077))?;
        }
    }
    chown(path, None, Some(group.as_raw()))?;
    fs::set_permissions(path, Permissions::from_mode(PASSABLE))
}

/// Makes a data folder, or closes one that is there to all but a group that passes through it.
fn close(path: &Path, group: Option<Gid>) -> io::Result<()> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(PRIVATE).create(path)?;
            return fs::set_permissions(path, Permissions::from_mode(PRIVATE));
        }
        Err(error) => return Err(error),
    };
    if !found.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    check_owner(&found, path)?;
    let mode = found.mode() & 0o777;
    let is_theirs = group.is_some_and(|group| group.as_raw() == found.gid());
    if mode & 0o077 == 0 || (is_theirs && mode == PASSABLE) {
        return Ok(());
    }
    if found.mode() & STICKY != 0 || !is_data_folder(path)? {
        return Err(io::Error::other(format!(
            "other users may enter it (mode {mode:o}), and it does not look like a data folder; \
             choose a folder of its own, or run `chmod 700` on it"
        )));
    }
    fs::set_permissions(path, Permissions::from_mode(PRIVATE))?;
    warn!("other users could enter {} (mode {mode:o}): its mode is now 700", path.display());
    Ok(())
}

fn check_owner(found: &Metadata, path: &Path) -> io::Result<()> {
    let (owner, us) = (found.uid(), rustix::process::geteuid());
    if owner == us.as_raw() {
        return Ok(());
    }
    if us.is_root() {
        warn!("{} belongs to user {owner}, who can change everything in it", path.display());
        return Ok(());
    }
    Err(io::Error::other(format!("it belongs to user {owner}; choose a folder of your own")))
}

/// Whether a folder holds what a deployment keeps, or no folders, at most a configuration.
fn is_data_folder(path: &Path) -> io::Result<bool> {
    if MARKS.iter().any(|mark| path.join(mark).exists()) {
        return Ok(true);
    }
    for entry in fs::read_dir(path)? {
        if entry?.file_type()?.is_dir() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_new_folder_is_private() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("above/data");
        open(&path, None).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
    }

    #[test]
    fn a_data_folder_that_is_open_is_closed() {
        let place = tempfile::tempdir().unwrap();
        for held in ["journals", "live.toml", ""] {
            let path = place.path().join(format!("with-{held}"));
            fs::create_dir(&path).unwrap();
            match held {
                "journals" => ["journals", "mine"]
                    .iter()
                    .for_each(|folder| fs::create_dir(path.join(folder)).unwrap()),
                "" => (),
                file => fs::write(path.join(file), "").unwrap(),
            }
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            open(&path, None).unwrap();
            assert_eq!(mode(&path), 0o700, "{held}");
        }
    }

    #[test]
    fn an_open_folder_that_is_no_data_folder_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        for (held, open_to) in [("somebody", 0o755), ("journals", 0o1777)] {
            let path = place.path().join(format!("with-{held}"));
            fs::create_dir_all(path.join(held)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(open_to)).unwrap();
            let error = open(&path, None).unwrap_err().to_string();
            assert!(error.contains("chmod 700"), "{error}");
            assert_eq!(mode(&path), open_to & 0o777);
            fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
            open(&path, None).unwrap();
        }
    }

    #[test]
    fn a_group_passes_through_and_finds_all_else_closed() {
        let place = tempfile::tempdir().unwrap();
        let (path, own) = (place.path().join("data"), Gid::effective());
        fs::create_dir_all(path.join("journals")).unwrap();
        fs::write(path.join("live.toml"), "").unwrap();
        fs::set_permissions(path.join("journals"), Permissions::from_mode(0o755)).unwrap();
        for _ in 0..2 {
            open(&path, Some(own)).unwrap();
            assert_eq!((mode(&path), fs::metadata(&path).unwrap().gid()), (0o710, own.as_raw()));
            for folder in FOLDERS {
                assert_eq!(mode(&path.join(folder)), 0o700, "{folder}");
            }
            assert_eq!(mode(&path.join("live.toml")) & 0o077, 0);
        }
        open(&path, None).unwrap();
        assert_eq!(mode(&path), 0o700, "without the setting it is closed again");
    }
}
