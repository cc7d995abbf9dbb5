//! Locks that keep a second process, or a second opening in this one, away from a journal or a folder.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use tracing::warn;

/// How long a lock of another process is waited for. A killed process keeps its locks until the system has
/// taken it down, and so does a child that it was just starting, until that becomes its program.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(5);

/// How long a lock of this process is waited for: a child that is just being started has a copy of it.
const WAIT_FOR_OURSELVES: Duration = Duration::from_secs(1);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Held as long as what it locks is in use; the system gives it back when the process dies.
///
/// The lock is on a file of its own: closing any other descriptor of a database file would drop the
/// locks that SQLite has on it. The file stays when the lock is gone, since anyone who removes it could
/// remove the one that someone has just locked.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Who holds a lock, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: Option<u32>,
    /// Its user, if that is not the user of this process.
    pub user: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) if pid == process::id() => write!(f, "this process ({pid})")?,
            Some(pid) => write!(f, "process {pid}")?,
            None => write!(f, "another process")?,
        }
        match &self.user {
            Some(user) => write!(f, " of another user, {user}"),
            None => Ok(()),
        }
    }
}

/// Why a lock was not taken.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Another process holds it.
    Held(Holder),
    /// The system fails.
    System(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Lock {
    /// Takes the lock in the file at `path`, which is made if it is not there. Waits a few seconds for
    /// its holder.
    pub(crate) fn take(path: &Path) -> Result<Self, LockError> {
        let mut file = open(path)?;
        wait(&mut file, path, || thread::sleep(PAUSE))?;
        Self::held(file)
    }

    /// As [`take`](Self::take), without waiting.
    pub(crate) fn try_take(path: &Path) -> Result<Self, LockError> {
        let mut file = open(path)?;
        if try_lock(&file)? {
            Self::held(file)
        } else {
            Err(LockError::Held(Holder::of(&mut file)))
        }
    }

    /// One that another process has passed to this one; a descriptor of the file at `path`. They hold it together until
    /// that one has ended.
    pub(crate) fn passed(file: File, path: &Path) -> io::Result<Self> {
        let (found, wanted) = (file.metadata()?, fs::metadata(path)?);
        if (found.dev(), found.ino()) != (wanted.dev(), wanted.ino()) {
            return Err(io::Error::other(format!("it is not the lock {}", path.display())));
        }
        Ok(Self(file))
    }

    fn held(file: File) -> Result<Self, LockError> {
        let lock = Self(file);
        lock.mark()?;
        Ok(lock)
    }

    /// Writes into its file that this process holds it.
    pub(crate) fn mark(&self) -> io::Result<()> {
        let mut file = &self.0;
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", process::id())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Waits until the lock is ours, with a pause between two attempts.
fn wait(file: &mut File, path: &Path, mut pause: impl FnMut()) -> Result<(), LockError> {
    let (began, mut reported) = (Instant::now(), false);
    while !try_lock(file)? {
        let holder = Holder::of(file);
        let ours = holder.pid == Some(process::id());
        let limit = if ours { WAIT_FOR_OURSELVES } else { WAIT_FOR_OTHERS };
        if began.elapsed() > limit {
            return Err(LockError::Held(holder));
        }
        if !reported && !ours {
            let seconds = limit.as_secs();
            warn!("{} is locked by {holder}: waiting for it up to {seconds} s", path.display());
            reported = true;
        }
        pause();
    }
    Ok(())
}

fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(cause)) => Err(cause),
    }
}

impl Holder {
    /// Who has a lock on a file: whom the system names, or else who wrote its number into it.
    fn of(file: &mut File) -> Self {
        let written = |file: &mut File| {
            let mut text = String::new();
            file.rewind().and_then(|()| file.read_to_string(&mut text)).ok()?;
            text.trim().parse().ok()
        };
        // The system names who took it first, also after that process has passed it on and ended.
        let first = locked_by(file).filter(|&pid| uid_of(pid).is_some());
        let pid = first.or_else(|| written(file));
        let ours = rustix::process::getuid().as_raw();
        let uid = pid.and_then(uid_of).filter(|&uid| uid != ours);
        Self { pid, user: uid.map(user) }
    }
}

/// The process that has a lock on a file, by the system's list of locks.
fn locked_by(file: &File) -> Option<u32> {
    let file = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", file.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_lock = words.next()? == "FLOCK";
        let (pid, at) = (words.nth(2)?, words.next()?);
        pid.parse().ok().filter(|_| is_lock && at == place)
    })
}

/// The user of a process.
fn uid_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A user by name, where the machine's list of users has one, and number.
fn user(uid: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that has a lock, shared or not, until its input ends.
    fn other(path: &Path, set_up: impl FnOnce(&mut Command)) -> Child {
        let mut command = Command::new("flock");
        command.args(["--shared"]).arg(path).args(["sh", "-c", "echo held; read -r _"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        set_up(&mut command);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        child
    }

    #[test]
    fn a_lock_that_is_passed_is_held_without_a_gap() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["lock", "other"].map(|name| folder.path().join(name));
        let lock = Lock::take(&path).unwrap();
        let copy = || File::from(lock.as_fd().try_clone_to_owned().unwrap());
        fs::write(&other, "").unwrap();
        assert!(Lock::passed(copy(), &other).is_err(), "it is the lock of something else");
        let passed = Lock::passed(copy(), &path).unwrap();
        drop(lock);
        assert!(matches!(Lock::try_take(&path), Err(LockError::Held(_))));
        drop(passed);
        Lock::try_take(&path).unwrap();
    }

    #[test]
    fn a_lock_of_this_process_is_refused_soon() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _held = Lock::take(&path).unwrap();
        let LockError::Held(holder) = Lock::take(&path).unwrap_err() else { panic!() };
        assert_eq!(holder, Holder { pid: Some(process::id()), user: None });
    }

    #[test]
    fn a_lock_is_waited_for_while_its_holder_may_be_dying() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut living = other(&path, |_| ());
        let mut file = File::options().read(true).write(true).open(&path).unwrap();
        let mut pauses = 0;
        wait(&mut file, &path, || {
            // It gives the lock back by its end, which begins only once somebody waits.
            drop(living.stdin.take());
            pauses += 1;
            thread::sleep(PAUSE);
        })
        .unwrap();
        assert!(pauses > 0);
        living.wait().unwrap();
    }

    #[test]
    fn who_holds_a_lock_is_named_whatever_is_written_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, "1\n").unwrap();
        let mut child = other(&path, |_| ());
        let LockError::Held(holder) = Lock::take(&path).unwrap_err() else { panic!() };
        assert_eq!(holder, Holder { pid: Some(child.id()), user: None });
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_holder_of_another_user_is_named_as_such() {
        if !rustix::process::geteuid().is_root() {
            return; // Only root can become somebody else.
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, "").unwrap();
        for (path, mode) in [(folder.path(), 0o755), (&*path, 0o644)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let mut child = other(&path, |command| _ = command.uid(65_534).gid(65_534));
        let LockError::Held(holder) = Lock::take(&path).unwrap_err() else { panic!() };
        let words = format!("process {} of another user, ", child.id());
        assert!(holder.to_string().starts_with(&words), "{holder}");
        assert!(holder.to_string().contains("65534"), "{holder}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
