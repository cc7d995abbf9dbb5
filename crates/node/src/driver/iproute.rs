//! The commands of iproute2, for drivers that make networks.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_core::driver::DriverError;

use super::run::Run;
use super::stop::Stop;

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

/// The interface that a line of `ip -o link` is about: `3: name@peer: <...`.
pub(super) fn name_in(line: &str) -> Option<&str> {
    line.split(": ").nth(1)?.split('@').next()
}

/// Whether such a line is about an interface.
pub(super) fn is_of(line: &str, interface: &str) -> bool {
    name_in(line) == Some(interface)
}
