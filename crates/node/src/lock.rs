//! Locks that keep a second process, or a second opening in this one, away from a journal or a folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// How long a lock is waited for whose holder is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Held as long as what it locks is in use; the system gives it back when the process dies.
///
/// The lock is on a file of its own: closing any other descriptor of a database file would drop the
/// locks that SQLite has on it. The file stays when the lock is gone, since whoever removes it could
/// remove the one that somebody has just locked.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held, not used")] File);

/// Why a lock was not taken.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Somebody has it: the process, if it has said so yet.
    Held(Option<u32>),
    /// The system fails.
    System(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Lock {
    /// Takes the lock in the file at `path`, which is made if it is not there.
    pub(crate) fn take(path: &Path) -> Result<Self, LockError> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let began = Instant::now();
        while !free(&file)? {
            let mut text = String::new();
            let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
            let holder = read.ok().and_then(|_| text.trim().parse().ok());
            // A child that was just being started when its parent was killed has the lock until it becomes
            // its program.
            if !holder.is_some_and(is_gone) || began.elapsed() > PATIENCE {
                return Err(LockError::Held(holder));
            }
            thread::sleep(Duration::from_millis(10));
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self(file))
    }
}

/// Takes the lock if nobody has it.
fn free(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(cause)) => Err(cause),
    }
}

/// Whether there is no such process any more.
fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_lock_that_outlives_its_holder_is_waited_for_and_that_of_a_living_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = Lock::take(&path).unwrap();
        let living = Lock::take(&path).unwrap_err();
        assert!(matches!(living, LockError::Held(Some(pid)) if pid == std::process::id()));
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        std::fs::write(&path, format!("{}\n", gone.id())).unwrap();
        let (ready, begins) = channel();
        let waiter = thread::spawn(move || {
            ready.send(()).unwrap();
            Lock::take(&path)
        });
        begins.recv().unwrap();
        drop(held);
        assert!(waiter.join().unwrap().is_ok());
    }
}
