//! Control groups (cgroup v2): each unit's program in one of its own, below the one that is delegated to this
//! process, where there is such.
//!
//! All that a program starts is in its cgroup, whatever it does to its environment, its session or its
//! parents; `cgroup.kill` ends all of it at once, and limits hold for all of it together. What runs as the
//! same user could still move itself elsewhere, as it could change anything else of this process.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Access, access};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tenure_core::driver::UnitId;

use super::child::{Process, wait_for};

/// How long what is killed may take to go away.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// What all processes of a unit may use together.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Bounds {
    /// Bytes of memory.
    memory: Option<u64>,
    /// Processors, a part of one too.
    cpus: Option<f64>,
    /// Processes and threads.
    processes: Option<u64>,
}

/// The length of the periods in which the time of processors is counted, in microseconds.
const PERIOD: f64 = 100_000.0;

impl Bounds {
    /// The controllers that they need, and the file of each with what goes into it.
    fn files(&self) -> Vec<(&'static str, &'static str, String)> {
        let memory = self.memory.map(|bytes| ("memory", "memory.max", bytes.to_string()));
        let quota = |cpus: f64| format!("{:.0} {PERIOD:.0}", (cpus * PERIOD).max(1000.0));
        let cpus = self.cpus.map(|cpus| ("cpu", "cpu.max", quota(cpus)));
        let processes = self.processes.map(|most| ("pids", "pids.max", most.to_string()));
        [memory, cpus, processes].into_iter().flatten().collect()
    }
}

/// The cgroup below which units have theirs.
#[derive(Clone, Debug)]
pub(crate) struct Delegated {
    base: PathBuf,
}

/// The cgroup that is delegated to this process, or why there is none.
pub(crate) fn delegated() -> Result<&'static Delegated, &'static str> {
    static FOUND: OnceLock<Result<Delegated, String>> = OnceLock::new();
    FOUND.get_or_init(Delegated::find).as_ref().map_err(String::as_str)
}

/// In a sentence, how the processes of units are kept together here.
pub(crate) fn description() -> String {
    match delegated() {
        Ok(Delegated { base }) => format!("in cgroups of their own below {}", base.display()),
        Err(why) => format!("found by group, descent and environment, as {why}"),
    }
}

impl Delegated {
    fn find() -> Result<Self, String> {
        let read = |path: &str| {
            fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"))
        };
        let mounts = read("/proc/self/mountinfo")?;
        let (mount, own) = place(&mounts, &read("/proc/self/cgroup")?)
            .ok_or("there is no cgroup v2 for this process")?;
        let base = marked(&mount, &own).unwrap_or(own);
        let refused = |error: io::Error| format!("{} is not delegated: {error}", base.display());
        for (path, needed) in [
            (base.clone(), Access::WRITE_OK | Access::EXEC_OK),
            (base.join("cgroup.procs"), Access::WRITE_OK),
        ] {
            access(&path, needed).map_err(|errno| refused(errno.into()))?;
        }
        // What may be written may still be mounted for reading alone, or lack what newer kernels have.
        let probe = base.join(format!("tenure-probe-{}", std::process::id()));
        fs::create_dir(&probe).map_err(refused)?;
        let kills = probe.join("cgroup.kill").exists();
        fs::remove_dir(&probe).map_err(refused)?;
        if !kills {
            return Err("this kernel has no `cgroup.kill`".to_owned());
        }
        Ok(Self { base })
    }

    /// The controllers that there are.
    pub(crate) fn controllers(&self) -> io::Result<BTreeSet<String>> {
        words(&self.base.join("cgroup.controllers"))
    }

    /// Has the controllers that `bounds` need at work in the cgroups of units.
    pub(crate) fn enable(&self, bounds: &Bounds) -> io::Result<()> {
        let base = self.base.display();
        for (controller, file, _) in bounds.files() {
            if !self.controllers()?.contains(controller) {
                return Err(io::Error::other(format!(
                    "`bounds` need the controller `{controller}` for {file}, which {base} has not"
                )));
            }
            let control = self.base.join("cgroup.subtree_control");
            if words(&control)?.contains(controller) {
                continue;
            }
            fs::write(&control, format!("+{controller}")).map_err(|error| {
                let why = if error.kind() == io::ErrorKind::ResourceBusy {
                    "processes are in it; give this one a cgroup below (`DelegateSubgroup=` of systemd)"
                        .to_owned()
                } else {
                    error.to_string()
                };
                io::Error::other(format!("{base} cannot have `{controller}` for its units: {why}"))
            })?;
        }
        Ok(())
    }

    /// The cgroup of a unit, whose processes carry a mark.
    pub(crate) fn of(&self, mark: &str, unit: UnitId) -> UnitCgroup {
        let hash: String =
            Sha256::digest(mark).iter().take(8).map(|b| format!("{b:02x}")).collect();
        UnitCgroup { path: self.base.join(format!("tenure-{hash}-{unit}")) }
    }
}

/// The cgroup of a unit; it need not be there.
#[derive(Clone, Debug)]
pub(crate) struct UnitCgroup {
    path: PathBuf,
}

impl UnitCgroup {
    /// Puts a process into it that has started no other yet; the cgroup is made if it is not there.
    pub(crate) fn take(&self, process: &Process, bounds: &Bounds) -> io::Result<()> {
        match fs::create_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) | Ok(()) => {}
        }
        for (_, file, most) in bounds.files() {
            fs::write(self.path.join(file), most)?;
        }
        fs::write(self.path.join("cgroup.procs"), process.pid.to_string())
    }

    /// Where it is.
    #[cfg(test)]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The numbers of the processes in it.
    pub(crate) fn pids(&self) -> BTreeSet<i32> {
        let mut pids = BTreeSet::new();
        for folder in below(&self.path) {
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
        pids
    }

    /// Ends all that is in it and waits until it is gone.
    pub(crate) fn kill(&self) -> io::Result<()> {
        let mut events = match File::open(self.path.join("cgroup.events")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        fs::write(self.path.join("cgroup.kill"), "1")?;
        let deadline = Instant::now() + KILLED_WITHIN;
        loop {
            let mut text = String::new();
            events.rewind()?;
            events.read_to_string(&mut text)?;
            if text.lines().any(|line| line == "populated 0") {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let path = self.path.display();
                return Err(io::Error::other(format!("{path} is not empty after `cgroup.kill`")));
            }
            wait_for(&mut [PollFd::new(&events, PollFlags::PRI)], Some(deadline))?;
        }
    }

    /// Removes it, empty, with those that its processes have made in it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        for folder in below(&self.path).iter().rev() {
            match fs::remove_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let folder = folder.display();
                    return Err(io::Error::new(error.kind(), format!("{folder}: {error}")));
                }
                Err(_) | Ok(()) => {}
            }
        }
        Ok(())
    }
}

/// A cgroup and all below it, each before those in it.
fn below(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    let mut next = 0;
    while let Some(folder) = all.get(next).cloned() {
        next += 1;
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        all.extend(folders.map(|entry| entry.path()));
    }
    all
}

fn words(path: &Path) -> io::Result<BTreeSet<String>> {
    let text = fs::read_to_string(path)?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Where cgroup v2 is mounted, and the folder of this process's own cgroup there, by what `/proc` says.
fn place(mounts: &str, own: &str) -> Option<(PathBuf, PathBuf)> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let fields: Vec<&str> = place.split(' ').collect();
        let (root, point) = (*fields.get(3)?, *fields.get(4)?);
        let inside = Path::new(own).strip_prefix(root).ok()?;
        let escaped = point.contains('\\');
        (kind.starts_with("cgroup2 ") && !escaped)
            .then(|| (PathBuf::from(point), Path::new(point).join(inside)))
    })
}

/// The cgroup around `own`, or itself, that systemd has marked as delegated.
fn marked(mount: &Path, own: &Path) -> Option<PathBuf> {
    let mut folders = own.ancestors().take_while(|folder| folder.starts_with(mount));
    let is_marked = |folder: &&Path| {
        ["user.delegate", "trusted.delegate"].iter().any(|name| {
            let mut value = [0; 8];
            rustix::fs::getxattr(*folder, *name, &mut value)
                .is_ok_and(|length| value.get(..length) == Some(b"1"))
        })
    };
    folders.find(is_marked).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                          41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_own_cgroup_is_found_wherever_the_second_version_is_mounted() {
        let container = "30 24 0:26 /box /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n";
        for (mounts, own, found) in [
            (HYBRID, "3:cpuset:/\n0::/\n", Some("/sys/fs/cgroup/unified/")),
            (HYBRID, "0::/a/b.service\n", Some("/sys/fs/cgroup/unified/a/b.service")),
            (container, "0::/box/one\n", Some("/sys/fs/cgroup/one")),
            (container, "0::/elsewhere\n", None),
            (HYBRID, "1:cpu:/\n", None),
            ("32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "0::/\n", None),
        ] {
            let own = place(mounts, own).map(|(_, own)| own);
            assert_eq!(own.as_deref(), found.map(Path::new), "{mounts}{found:?}");
        }
    }

    #[test]
    fn bounds_are_written_as_the_kernel_reads_them() {
        let bounds = Bounds { memory: Some(1 << 20), cpus: Some(0.5), processes: Some(9) };
        let files: Vec<_> =
            bounds.files().into_iter().map(|(_, file, most)| (file, most)).collect();
        let expected = [("memory.max", "1048576"), ("cpu.max", "50000 100000"), ("pids.max", "9")];
        assert_eq!(files, expected.map(|(file, most)| (file, most.to_owned())));
        assert!(Bounds::default().files().is_empty());
    }
}
