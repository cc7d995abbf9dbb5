//! Programs of an operator's: checked by their content, and run as they were checked.
//!
//! A program is read once, into memory that no one can write to any more. Its hash is taken of that
//! memory, and that memory is what is executed: neither a link that is swapped nor a file that is written
//! over between the check and the start makes a difference.
//!
//! A script's interpreter opens the script by the name it is given, `/proc/self/fd/N`, so the program
//! inherits the descriptor. It sees that name as its own; it cannot look for files beside itself.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, memfd_create};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tenure_core::driver::DriverError;
use tenure_core::model::codec::Hash;

/// The largest program or artefact, in bytes.
const LARGEST: u64 = 256 << 20;

/// The path of a program: absolute, without `..`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "PathBuf")]
pub(crate) struct ProgramPath(PathBuf);

impl TryFrom<PathBuf> for ProgramPath {
    type Error = String;

    fn try_from(path: PathBuf) -> Result<Self, String> {
        let climbs = path.components().any(|part| part == Component::ParentDir);
        if path.is_absolute() && !climbs {
            Ok(Self(path))
        } else {
            Err(format!("`{}` is not an absolute path without `..`", path.display()))
        }
    }
}

/// A program that was checked, ready to be executed.
pub(crate) struct Checked {
    pub(crate) file: OwnedFd,
    /// The path by which anyone who inherits the file executes it.
    pub(crate) path: String,
}

impl ProgramPath {
    /// Reads the program, and takes it if its hash is among those that may run.
    pub(crate) fn check(&self, allowed: &[Hash]) -> Result<Checked, DriverError> {
        let failed = |why: String| DriverError(format!("{}: {why}", self.0.display()));
        let bytes = read(&self.0).map_err(failed)?;
        let hash = Hash::from_bytes(Sha256::digest(&bytes).into());
        if !allowed.contains(&hash) {
            let why = format!("not on the list of what may run: its SHA-256 is {}", hash.to_hex());
            return Err(failed(why));
        }
        let file = seal(&bytes).map_err(|error| failed(format!("cannot be run: {error}")))?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(Checked { file, path })
    }
}

/// Reads a file, which is of [no more bytes](LARGEST) than a program.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    // A pipe in the place of a program must not be waited for.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let open = File::options().read(true).custom_flags(flags).open(path);
    let file = open.map_err(|error| error.to_string())?;
    let kind = file.metadata().map_err(|error| error.to_string())?;
    if !kind.is_file() {
        return Err("not a file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("larger than {LARGEST} bytes"));
    }
    Ok(bytes)
}

fn seal(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 know no other memory than what can be executed, and not the flag.
    let file = memfd_create("program", flags | MemfdFlags::EXEC)
        .or_else(|_| memfd_create("program", flags))?;
    let mut file = File::from(file);
    file.write_all(bytes)?;
    fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    Ok(file.into())
}
