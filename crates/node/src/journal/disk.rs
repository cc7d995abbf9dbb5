//! What a journal asks of the disk beside what SQLite asks.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// The disk under a journal. SQLite reaches it through the VFS that is named; the journal itself asks
/// a little more. Tests put a faulty disk in its place, which loses whatever was not synced.
pub trait Disk: Send {
    /// The name of the SQLite VFS, or `None` for that of the system.
    fn vfs(&self) -> Option<&str>;

    /// Whether there is a file of this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Writes the whole content of a file over itself and syncs it, if there is such a file.
    ///
    /// After a failed sync a system may hold pages that it shows to readers, believes to be on the
    /// disk, and never writes. What is read from such a file must not be trusted before this was done.
    fn rewrite(&self, path: &Path) -> io::Result<()>;

    /// Makes it durable that a file of this name is there.
    fn keep(&self, path: &Path) -> io::Result<()>;

    /// Makes a file of so many bytes that takes up the room for them, unless it is there already. Where
    /// there is not enough room, no such file is left.
    fn reserve(&self, path: &Path, bytes: u64) -> io::Result<()>;

    /// Removes a file, so that its room is free. Answers whether there was one.
    fn release(&self, path: &Path) -> io::Result<bool>;

    /// How much room is kept back beside a journal for a full disk.
    fn reserve_room(&self) -> u64 {
        8 << 20
    }

    /// About how many bytes go into the log before they are copied into the journal. More makes
    /// checkpoints rarer and longer, and gives a recovery more to write again.
    fn log_room(&self) -> u64 {
        4 << 20
    }
}

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn vfs(&self) -> Option<&str> {
        None
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn rewrite(&self, path: &Path) -> io::Result<()> {
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        file.rewind()?;
        file.write_all(&content)?;
        file.sync_all()
    }

    fn reserve(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        if file.metadata()?.len() >= bytes {
            return Ok(());
        }
        fill(&file, bytes).inspect_err(|_| drop(fs::remove_file(path)))
    }

    fn release(&self, path: &Path) -> io::Result<bool> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    fn keep(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(folder) if folder != Path::new("") => File::open(folder)?.sync_all(),
            _ => File::open(".")?.sync_all(),
        }
    }
}

/// Gives a file so many bytes, with the room for them.
fn fill(mut file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        // Not every file system knows how.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let zeros = [0; 1 << 16];
            for _ in 0..bytes.div_ceil(zeros.len() as u64) {
                file.write_all(&zeros)?;
            }
            file.sync_all()
        }
        done => Ok(done?),
    }
}
