//! The commands of iproute2, for drivers that make networks.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tenure_core::driver::DriverError;

use super::network::Interface;
use super::record::about;
use super::run::Run;
use super::stop::Stop;

/// Where `ip` has the network namespaces with names.
const SPACES: &str = "/run/netns";

/// How long one command may take. None of them waits for anything.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a command to its end.
pub(super) type Runs<'a> = dyn Fn(&Path, &[&str]) -> Result<String, DriverError> + 'a;

/// An error unless this process runs as root: it says what root is needed for, and what to do instead.
pub(super) fn needs_root(what: &str, instead: &str) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let why = format!("needs root, {what}: run the site as root, {instead}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Where a command is.
pub(super) fn program(name: &str) -> io::Result<PathBuf> {
    let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    let mut paths = folders.iter().map(|folder| Path::new(folder).join(name));
    paths.find(|path| path.is_file()).ok_or_else(|| {
        let why = format!("needs the program `{name}`: install the package iproute2");
        io::Error::new(io::ErrorKind::NotFound, why)
    })
}

/// Runs a command to its end in a driver's folder, and answers its output.
pub(super) fn run(
    home: &Path,
    program: &Path,
    words: &[&str],
    stop: &Stop,
) -> Result<String, DriverError> {
    let mut command = vec![program.as_os_str()];
    command.extend(words.iter().map(OsStr::new));
    let tool = program.file_name().unwrap_or_default().to_string_lossy();
    let run = Run {
        name: &format!("`{tool} {}`", words.join(" ")),
        command: &command,
        program: None,
        folder: home,
        mark: &home.display().to_string(),
        input: b"",
        timeout: TIMEOUT,
        output: 1 << 20,
    };
    let output = run.finish(stop, |_| Ok(()))?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// The network namespaces of the host that have names.
pub(super) fn places(home: &Path, ip: &Path, stop: &Stop) -> Result<BTreeSet<String>, DriverError> {
    let all = run(home, ip, &["netns", "list"], stop)?;
    let names = all.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.map(str::to_owned).collect())
}

/// Opens a network namespace of this host by its name, which may come from a stranger.
///
/// # Errors
/// If it is no name of a namespace, there is none of that name, or it is not to be entered.
pub fn namespace(name: &str) -> io::Result<File> {
    let Interface(name) = name.to_owned().try_into().map_err(io::Error::other)?;
    let path = Path::new(SPACES).join(&name);
    File::open(&path).map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            let why = format!("this machine has no network namespace `{name}`");
            return io::Error::new(error.kind(), why);
        }
        about(&path, error)
    })
}

/// Why a site cannot start whose place is not there.
pub(super) fn no_place(who: &str, place: &str) -> io::Error {
    let why = format!(
        "{who} needs the network namespace `{place}`, which this host does not have: make it before the \
         site starts (`ip netns add {place}`)"
    );
    io::Error::new(io::ErrorKind::NotFound, why)
}

/// The right to make and remove bridges in a place, which one of all sites on the host has at a time.
///
/// The bridge of a slice is made by whichever site needs it first, and removed by the last.
pub(super) struct Alone(#[expect(dead_code, reason = "held until it is dropped")] Option<File>);

impl Alone {
    /// Waits for it; none is needed in a place that is gone. Nobody has it for longer than some commands take.
    pub(super) fn in_place(place: Option<&str>) -> Result<Self, DriverError> {
        let named = place.map(|place| Path::new(SPACES).join(place));
        let path = named.unwrap_or_else(|| PathBuf::from("/proc/self/ns/net"));
        let failed = |error: io::Error| DriverError(about(&path, error).to_string());
        match File::open(&path) {
            Ok(file) => {
                flock(&file, FlockOperation::LockExclusive)
                    .map_err(|error| failed(error.into()))?;
                Ok(Self(Some(file)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self(None)),
            Err(error) => Err(failed(error)),
        }
    }
}

/// The interface that a line of `ip -o link` is about: `3: name@peer: <...`.
pub(super) fn name_in(line: &str) -> Option<&str> {
    line.split(": ").nth(1)?.split('@').next()
}

/// Whether such a line is about an interface.
pub(super) fn is_of(line: &str, interface: &str) -> bool {
    name_in(line) == Some(interface)
}
