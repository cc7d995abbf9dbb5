//! A disk in memory, under the real SQLite, that does what disks do on their worst days.
//!
//! It keeps of each file what was written and what was synced. It fails the configured operation,
//! once or from then on: reads, writes that write a part, syncs after which the system believes the
//! pages clean. When its power is cut, of all that was not synced it keeps some sectors and loses others,
//! as the seed has it. The same seed and the same operations give the same outcome.
//!
//! For tests alone: it never forgets a disk, so that SQLite may call it as long as the process lives.

mod image;
mod vfs;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_node::journal::Disk;

pub use image::{Condition, Fault};
use image::{Failure, Image};

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct FaultyDisk {
    image: Arc<Mutex<Image>>,
    vfs: String,
}

impl FaultyDisk {
    /// An empty disk that SQLite knows under a name of its own.
    pub fn new(seed: u64) -> Self {
        let image = Arc::new(Mutex::new(Image::new(seed)));
        let vfs = vfs::register(Arc::clone(&image));
        Self { image, vfs }
    }

    /// Empties the disk and starts again from a seed.
    pub fn reset(&self, seed: u64) {
        *self.image() = Image::new(seed);
    }

    /// Arranges for a fault, in place of any other; `None` repairs the disk.
    pub fn arrange(&self, fault: Option<Fault>) {
        self.image().arrange(fault);
    }

    /// The number of operations since the disk was emptied.
    pub fn operations(&self) -> u64 {
        self.image().operations()
    }

    /// Whether the fault that was arranged has struck.
    pub fn has_struck(&self) -> bool {
        self.image().has_struck()
    }

    /// Cuts the power and turns it on again: what was not synced is there or not, sector by sector, as
    /// the seed has it. The disk is repaired.
    ///
    /// # Panics
    /// If a file is open: every process that had it must have ended.
    pub fn cut_power(&self) {
        self.image().cut_power();
    }

    /// Flips one bit of a file, chosen by the seed. Answers whether there was anything to flip.
    pub fn flip_a_bit(&self, path: &Path) -> bool {
        self.image().flip_a_bit(&name(path))
    }

    /// Cuts a file to `len` bytes, as if it had never been longer.
    pub fn cut(&self, path: &Path, len: usize) {
        self.image().cut(&name(path), len);
    }

    /// The length of a file, if it is there.
    pub fn len_of(&self, path: &Path) -> Option<usize> {
        self.image().len_of(&name(path))
    }

    /// How many bytes all files take together.
    pub fn used(&self) -> usize {
        self.image().used()
    }

    /// Fills the disk up, makes it read-only, or sound again.
    pub fn set(&self, condition: Condition) {
        self.image().set(condition);
    }

    fn image(&self) -> MutexGuard<'_, Image> {
        lock(&self.image)
    }
}

/// A panic in a test leaves an image as whole as an error does.
fn lock(image: &Mutex<Image>) -> MutexGuard<'_, Image> {
    image.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Disk for FaultyDisk {
    fn vfs(&self) -> Option<&str> {
        Some(&self.vfs)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.image().exists(&name(path)).map_err(|failure| failed(&failure))
    }

    fn rewrite(&self, path: &Path) -> io::Result<()> {
        let (mut image, name) = (self.image(), name(path));
        let Some(len) = image.len_of(&name) else { return Ok(()) };
        let mut content = vec![0; len];
        image.read(&name, 0, &mut content).map_err(|failure| failed(&failure))?;
        for (offset, piece) in (0..).step_by(4096).zip(content.chunks(4096)) {
            image.write(&name, offset, piece).map_err(|failure| failed(&failure))?;
        }
        image.sync(&name).map_err(|failure| failed(&failure))
    }

    fn keep(&self, _: &Path) -> io::Result<()> {
        self.image().sync_folder().map_err(|failure| failed(&failure))
    }

    fn reserve(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let (mut image, name) = (self.image(), name(path));
        let len = usize::try_from(bytes).map_err(io::Error::other)?;
        if image.len_of(&name).is_some_and(|there| there >= len) {
            return Ok(());
        }
        let made = image
            .open(&name, true)
            .and_then(|()| image.write(&name, 0, &vec![0; len]).and_then(|()| image.sync(&name)));
        image.close(&name);
        made.map_err(|failure| {
            // Nothing is there if it could not even be made.
            let _ = image.remove(&name);
            failed(&failure)
        })
    }

    fn put(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let (mut image, name) = (self.image(), name(path));
        let aside = format!("{name}.new");
        let written = image.open(&aside, true).and_then(|()| {
            image.truncate(&aside, 0)?;
            image.write(&aside, 0, content)?;
            image.sync(&aside)
        });
        image.close(&aside);
        written
            .and_then(|()| image.rename(&aside, &name))
            .and_then(|()| image.sync_folder())
            .map_err(|failure| failed(&failure))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let (mut image, name) = (self.image(), name(path));
        let len = image.len_of(&name).ok_or(io::ErrorKind::NotFound)?;
        let mut content = vec![0; len];
        image.read(&name, 0, &mut content).map_err(|failure| failed(&failure))?;
        Ok(content)
    }

    fn segment_room(&self) -> usize {
        16 << 10
    }

    fn release(&self, path: &Path) -> io::Result<bool> {
        let (mut image, name) = (self.image(), name(path));
        if image.len_of(&name).is_none() {
            return Ok(false);
        }
        image.remove(&name).map(|()| true).map_err(|failure| failed(&failure))
    }

    fn reserve_room(&self) -> u64 {
        1 << 20
    }

    fn log_room(&self) -> u64 {
        64 << 10
    }
}

fn failed(failure: &Failure) -> io::Error {
    match failure {
        Failure::Missing => io::ErrorKind::NotFound.into(),
        Failure::Full => io::ErrorKind::StorageFull.into(),
        Failure::ReadOnly => io::ErrorKind::ReadOnlyFilesystem.into(),
        Failure::Broken => io::Error::other("the disk is broken"),
    }
}
