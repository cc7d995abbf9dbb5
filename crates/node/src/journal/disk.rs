//! What a journal asks of the disk beside what SQLite asks.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// The disk under a journal. SQLite reaches it through the VFS that is named; the journal itself asks
/// a little more. Tests put a faulty disk in its place, which loses whatever was not synced.
pub trait Disk: Send + Sync {
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

    /// Makes a file with this content, or replaces it, and its folder if that is not there, all of it durable:
    /// whoever finds the file finds all of it.
    fn put(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// The whole content of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Removes a file, so that its room is free. Answers whether there was one.
    fn release(&self, path: &Path) -> io::Result<bool>;

    /// How much room is kept back beside a journal for a full disk.
    fn reserve_room(&self) -> u64 {
        8 << 20
    }

    /// How many bytes of facts go into a segment of an archive: it ends with the fact by which it has as many.
    fn segment_room(&self) -> usize {
        1 << 20
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

    fn put(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        if !folder.try_exists()? {
            fs::create_dir_all(folder)?;
            self.keep(folder)?;
        }
        let aside = path.with_extension("new");
        let mut file = File::create(&aside)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&aside, path)?;
        self.keep(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
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
