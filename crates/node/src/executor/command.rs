//! Commands of a tenant: without a shell, as a user that the site allows, within limits, in a process group that
//! ends with them.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{User, geteuid};
use tenure_core::driver::DriverError;
use tenure_core::model::identity::ActorId;

use super::tenancy::{Note, Tenancies};
use crate::driver::child::{PATH, Process};
use crate::driver::inside;
use crate::driver::run::{Cut, Held, Run};
use crate::driver::stop::Stop;
use crate::driver::streams::Kept;
use crate::net::task::{Command, CommandEnd, Ran, TaskRefusal, Written};

/// Reads another user's environment, by which the processes of a tenant are found where there are no cgroups.
const CAP_SYS_PTRACE: u32 = 19;

/// As whom and where a command runs.
struct Place {
    /// What becomes another user, if it is not the executor's, and then the command.
    switch: Vec<String>,
    folder: PathBuf,
}

impl Tenancies {
    /// Runs a command for a tenant.
    pub(super) fn run(
        &self,
        from: ActorId,
        command: &Command,
        stop: &Stop,
    ) -> Result<Ran, TaskRefusal> {
        let Command { unit, epoch, user, words, timeout } = command;
        if !command.is_whole() {
            return Err(TaskRefusal::NoCommand);
        }
        let (key, tenancy) = (self.key(*unit), (*unit, *epoch));
        let Note { users: allowed, namespace } = self.tenant(from, tenancy)?;
        let Place { switch, folder } = place(user.as_deref(), &allowed, self.folder(key))?;
        for program in switch.first().into_iter().chain(words.first()) {
            find(program, &folder)?;
        }
        if !switch.is_empty() && self.cgroup(key).is_none() && !finds_all() {
            let why = "what runs as another user could not be ended: that takes cgroups, or CAP_SYS_PTRACE";
            return Err(TaskRefusal::Failed(why.to_owned()));
        }
        let mut words: Vec<String> = switch.into_iter().chain(words.iter().cloned()).collect();
        if let Some(namespace) = &namespace {
            words = inside(namespace, &words).map_err(|error| TaskRefusal::Failed(error.0))?;
        }
        let run = Run {
            name: "the command",
            command: &words.iter().map(OsStr::new).collect::<Vec<_>>(),
            program: None,
            folder: &folder,
            mark: &self.mark(key),
            input: b"",
            timeout: Duration::from_micros(timeout.as_micros().unsigned_abs()),
            output: self.settings.output.0,
        };
        let held = run.capture(stop, |process: &Process| {
            // It waits at the gate. A teardown that begins from now on finds it by its mark.
            self.tenant(from, tenancy).map_err(|refusal| DriverError(refusal.to_string()))?;
            let cgroup = self.cgroup(key);
            let taken = cgroup.map_or(Ok(()), |cgroup| cgroup.take(process, &self.settings.bounds));
            let limited = taken.and_then(|()| self.settings.limits.set(process));
            limited.map_err(|error| DriverError(error.to_string()))
        });
        // A tenancy that has ended meanwhile is why a command has.
        self.tenant(from, tenancy)?;
        held.map_err(|error| TaskRefusal::Failed(error.0)).map(ran)
    }
}

fn ran(held: Held) -> Ran {
    let Held { status, streams, cut } = held;
    let end = match (cut, status.code(), status.signal()) {
        (Some(Cut::Timeout), ..) => CommandEnd::Timeout,
        (_, Some(code), _) => CommandEnd::Exit(code),
        (_, None, signal) => CommandEnd::Signal(signal.unwrap_or_default()),
    };
    Ran { end, output: written(streams.output), errors: written(streams.errors) }
}

fn written(kept: Kept) -> Written {
    Written { bytes: kept.bytes, cut: kept.cut }
}

/// As whom and where a command runs: in the tenant's folder, or as another user in the home of that.
fn place(
    user: Option<&str>,
    allowed: &[String],
    own_folder: PathBuf,
) -> Result<Place, TaskRefusal> {
    let own = User::from_uid(geteuid()).ok().flatten();
    let own = own.map_or_else(|| geteuid().to_string(), |own| own.name);
    let Some(user) = user.filter(|user| *user != own) else {
        return Ok(Place { switch: Vec::new(), folder: own_folder });
    };
    if !allowed.iter().any(|name| name == user) {
        let allowed = std::iter::once(own).chain(allowed.iter().cloned()).collect();
        return Err(TaskRefusal::User { user: user.to_owned(), allowed });
    }
    if !geteuid().is_root() {
        return Err(TaskRefusal::CannotSwitch(own));
    }
    let found = User::from_name(user).ok().flatten();
    let User { uid, gid, dir, .. } = found.ok_or_else(|| TaskRefusal::NoUser(user.to_owned()))?;
    let folder = if dir.is_dir() { dir } else { PathBuf::from("/") };
    // At the gate it is still ours, so that limits can be set.
    let switch =
        ["setpriv", &format!("--reuid={uid}"), &format!("--regid={gid}"), "--clear-groups", "--"];
    Ok(Place { switch: switch.map(str::to_owned).into(), folder })
}

/// Whether the environment of other users' processes can be read.
fn finds_all() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << CAP_SYS_PTRACE) != 0)
}

/// Looks whether there is such a program: by its path, or on the machine's path.
fn find(program: &str, folder: &Path) -> Result<(), TaskRefusal> {
    let can_run = |path: PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let found = match program.contains('/') {
        true => can_run(folder.join(program)),
        false => PATH.split(':').any(|path| can_run(Path::new(path).join(program))),
    };
    if found { Ok(()) } else { Err(TaskRefusal::NoProgram(program.to_owned())) }
}
