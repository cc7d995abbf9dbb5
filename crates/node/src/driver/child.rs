//! Processes that may outlive us: started behind a gate, known by more than a number, and ended together
//! with all that they have started.
//!
//! *The gate.* A child is a shell that waits for a line on its standard input and then becomes the
//! program. While it waits, its limits are set and its name is written down; if we die first, the pipe
//! closes and the child goes away. So nothing ever runs that is not on disk, and nothing runs without
//! its limits. The shell reads no further than the line: what follows on the pipe is the program's input.
//!
//! *The name.* A process number is used again; with the moment of its start and the boot it is not.
//!
//! *The end.* Children of children are found by process group, by descent, and by a mark in the
//! environment, which survives what the other two do not: a session of its own and the death of the
//! parent. A cgroup binds a child that hides from all three, where one is delegated to this process
//! ([`cgroup`](super::cgroup)); a subreaper would have to be the parent of them all, also after a `kill -9`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, pidfd_open,
    pidfd_send_signal, prlimit, waitid,
};
use serde::{Deserialize, Serialize};

use super::cgroup::UnitCgroup;
use super::fence::hold;

/// Where programs are looked for.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The environment variable that marks what belongs to a unit.
pub(crate) const MARK: &str = "TENURE_UNIT";

/// How the command line of the waiting shell begins.
const GATE: &[u8] = b"/bin/sh\0-c\0read -r go";

/// What the waiting shell calls itself.
const NAME: &str = "tenure-gate";

/// How long a killed process may take to go away.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// How long killed processes are waited for before they are counted again.
const COUNT_AGAIN: Duration = Duration::from_millis(200);

/// A process for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// When it was started, in the kernel's ticks since the boot.
    start: u64,
    boot: String,
}

/// What the kernel says of a process.
struct Stat {
    dead: bool,
    parent: i32,
    group: i32,
    start: u64,
}

/// How far a process is held responsible for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// For its process group: what has left that, has left on purpose.
    Group,
    /// For whatever it or its children have started.
    All,
}

/// A program to start.
pub(crate) struct Launch<'a> {
    /// The program, by an absolute path, and its arguments.
    pub(crate) command: &'a [&'a OsStr],
    pub(crate) folder: &'a Path,
    /// Tells what belongs to one unit of one driver from everything else on the machine.
    pub(crate) mark: &'a str,
    /// What it reads: a file, or what follows the gate's line.
    pub(crate) input: Option<&'a Path>,
    pub(crate) output: (Stdio, Stdio),
}

/// A program that is about to start.
pub(crate) struct Gated {
    pub(crate) child: Child,
    pub(crate) process: Process,
}

/// Held while a child is started: a program that is handed over as a descriptor must be inherited by its
/// own child and no other.
static STARTING: Mutex<()> = Mutex::new(());

impl Launch<'_> {
    /// Starts the program as far as the gate. `inherited` is the one descriptor it is to have.
    pub(crate) fn start(self, inherited: Option<OwnedFd>) -> io::Result<Gated> {
        let gate = match self.input {
            Some(_) => "read -r go && input=$1 && shift && exec \"$@\" <\"$input\"",
            None => "read -r go && exec \"$@\"",
        };
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", gate, NAME])
            .args(self.input)
            .args(self.command)
            .current_dir(self.folder)
            .env_clear()
            .env("PATH", PATH)
            .env(MARK, self.mark)
            .stdin(Stdio::piped())
            .stdout(self.output.0)
            .stderr(self.output.1)
            .process_group(0);
        let mut child = spawn(&mut command, inherited)?;
        match Process::of(child.id().cast_signed()) {
            Ok(process) => Ok(Gated { child, process }),
            Err(error) => {
                turn_away(&mut child)?;
                Err(error)
            }
        }
    }
}

/// Starts a child that inherits one descriptor at most.
pub(crate) fn spawn(command: &mut Command, inherited: Option<OwnedFd>) -> io::Result<Child> {
    let _alone = hold(&STARTING);
    if let Some(inherited) = &inherited {
        rustix::io::fcntl_setfd(inherited, rustix::io::FdFlags::empty())?;
    }
    let child = command.spawn()?;
    drop(inherited);
    Ok(child)
}

impl Gated {
    /// Lets the program begin, and waits until it has.
    pub(crate) fn open(mut self) -> io::Result<Process> {
        if let Some(mut gate) = self.child.stdin.take() {
            gate.write_all(b"go\n")?;
        }
        while let Some(watch) = self.process.watch() {
            if self.process.is_running_its_program() {
                return Ok(self.process);
            }
            let soon = Instant::now() + Duration::from_millis(1);
            if wait(&[watch.as_fd()], Some(soon))? == [true] {
                let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
                let status = waitid(WaitId::PidFd(watch.as_fd()), look)?;
                match status.map(|status| status.exit_status()) {
                    // It has already ended; its watcher will see how.
                    Some(code) if !matches!(code, Some(126 | 127)) => return Ok(self.process),
                    Some(_) => break,
                    // How it ended is not known yet.
                    None => {}
                }
            }
        }
        // The shell says so when it finds no program.
        let status = self.child.wait()?;
        Err(io::Error::other(format!("no such program, or not to be executed ({status})")))
    }

    /// Closes the gate.
    pub(crate) fn turn_away(mut self) -> io::Result<()> {
        turn_away(&mut self.child)
    }
}

/// Closes the gate to one that waits at it.
fn turn_away(child: &mut Child) -> io::Result<()> {
    drop(child.stdin.take());
    child.wait().map(drop)
}

impl Process {
    /// The process that has a number now.
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        let stat = stat(pid).ok_or_else(|| io::Error::other(format!("no process {pid}")))?;
        Ok(Self { pid, start: stat.start, boot: boot()? })
    }

    /// Sets a limit that it and its children will not exceed, while it waits at the gate.
    pub(crate) fn limit(&self, resource: Resource, most: u64) -> io::Result<()> {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        prlimit(Pid::from_raw(self.pid), resource, limit)?;
        Ok(())
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.stat().is_some_and(|stat| !stat.dead)
    }

    /// Whether it still runs and has left the gate behind.
    pub(crate) fn is_running_its_program(&self) -> bool {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let gate = line.split(|byte| *byte == 0).nth(3) == Some(NAME.as_bytes());
        // When it begins to end the line is empty, or cut short as it is read: before it counts as dead.
        let cut = line.last() != Some(&0) && (line.starts_with(GATE) || GATE.starts_with(&line));
        !gate && !cut && self.is_alive()
    }

    /// A descriptor that becomes readable when it ends; none if it has ended.
    pub(crate) fn watch(&self) -> Option<OwnedFd> {
        let watch = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Looked at after it was opened: the number may have gone to another in between.
        self.stat().map(|_| watch)
    }

    fn stat(&self) -> Option<Stat> {
        let stat = stat(self.pid).filter(|stat| stat.start == self.start)?;
        boot().is_ok_and(|boot| boot == self.boot).then_some(stat)
    }
}

/// Finds processes that are alive, each with its start.
pub(crate) type Finds<'a> = dyn Fn() -> BTreeSet<(i32, u64)> + 'a;

/// Those of some numbers that are processes and alive, each with its start.
pub(crate) fn found(pids: impl Iterator<Item = i32>) -> BTreeSet<(i32, u64)> {
    let alive =
        pids.filter_map(|pid| stat(pid).filter(|stat| !stat.dead).map(|stat| (pid, stat.start)));
    alive.collect()
}

/// Ends everything that belongs to a mark, or to the process that carries it first, and waits until it is
/// gone. Asks first, if there is time to.
pub(crate) fn end(
    mark: &str,
    first: Option<&Process>,
    reach: Reach,
    grace: Duration,
) -> io::Result<()> {
    end_all(&|| members(mark, first, reach), grace)
}

/// Ends everything that belongs to a unit, in its cgroup, if it has one, and outside of it, and waits until it
/// is gone. Asks first, if there is time to.
pub(crate) fn end_unit(
    mark: &str,
    first: Option<&Process>,
    cgroup: Option<&UnitCgroup>,
    grace: Duration,
) -> io::Result<()> {
    let Some(cgroup) = cgroup else { return end(mark, first, Reach::All, grace) };
    let all = || &members(mark, first, Reach::All) | &found(cgroup.pids().into_iter());
    ask(&all, grace);
    cgroup.kill()?;
    end_all(&all, Duration::ZERO)?;
    cgroup.remove()
}

/// Asks processes to end, and waits until they have, if there is time to.
fn ask(members: &Finds<'_>, grace: Duration) {
    if grace > Duration::ZERO {
        signal(&members(), Signal::TERM);
        gone(members, Instant::now() + grace);
    }
}

/// Lets everything that carries a mark end by itself for a while, then ends it.
pub(crate) fn let_end(mark: &str, within: Duration) -> io::Result<()> {
    let members = || members(mark, None, Reach::All);
    gone(&members, Instant::now() + within);
    end_all(&members, Duration::ZERO)
}

/// Ends processes until none can be found any more. Asks first, if there is time to.
pub(crate) fn end_all(members: &Finds<'_>, grace: Duration) -> io::Result<()> {
    ask(members, grace);
    let deadline = Instant::now() + KILLED_WITHIN;
    loop {
        // What is stopped starts no others while these are counted.
        let mut stopped = BTreeSet::new();
        while let found = members()
            && !found.is_subset(&stopped)
        {
            signal(&found, Signal::STOP);
            stopped.extend(found);
        }
        if stopped.is_empty() {
            return Ok(());
        }
        signal(&stopped, Signal::KILL);
        // One that a count has missed is found by the next, and was not told to end yet.
        let soon = deadline.min(Instant::now() + COUNT_AGAIN);
        if !gone(members, soon) && Instant::now() >= deadline {
            let left: Vec<String> = members().iter().map(|(pid, _)| pid.to_string()).collect();
            let left = left.join(", ");
            return Err(io::Error::other(format!("still there after SIGKILL: process {left}")));
        }
    }
}

/// The live processes among those to be ended, each with its start time.
fn members(mark: &str, first: Option<&Process>, reach: Reach) -> BTreeSet<(i32, u64)> {
    // A group's number is its leader's, and free for others once leader and group are gone.
    let leader = first.map_or(0, |first| first.pid);
    let leads = first.is_some_and(|first| first.stat().is_some());
    let marked = format!("{MARK}={mark}");
    let all = processes();
    let mut found = BTreeSet::new();
    for (pid, stat) in &all {
        let in_group = stat.group == leader;
        let ours = match reach {
            Reach::Group => in_group && (leads || is_marked(*pid, &marked)),
            Reach::All => (in_group && leads) || is_marked(*pid, &marked),
        };
        if ours {
            found.insert((*pid, stat.start));
        }
    }
    let mut before = None;
    while reach == Reach::All && before != Some(found.len()) {
        before = Some(found.len());
        let parents: BTreeSet<i32> = found.iter().map(|(pid, _)| *pid).collect();
        let children = all.iter().filter(|(_, stat)| parents.contains(&stat.parent));
        found.extend(children.map(|(pid, stat)| (*pid, stat.start)));
    }
    let me = std::process::id().cast_signed();
    let alive = all.iter().filter(|(pid, stat)| !stat.dead && *pid != me);
    let alive: BTreeSet<_> = alive.map(|(pid, stat)| (*pid, stat.start)).collect();
    &found & &alive
}

/// Takes the exit status of a process that has ended, if it was our child.
pub(crate) fn reap(watch: BorrowedFd<'_>) -> Option<rustix::process::WaitIdStatus> {
    waitid(WaitId::PidFd(watch), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).ok().flatten()
}

/// Waits until one of these can be read or the timeout has passed; returns which can.
pub(crate) fn wait(on: &[BorrowedFd<'_>], until: Option<Instant>) -> io::Result<Vec<bool>> {
    let mut fds: Vec<_> = on.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    wait_for(&mut fds, until)?;
    Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// Waits until one of these is ready or the timeout has passed.
pub(crate) fn wait_for(fds: &mut [PollFd<'_>], until: Option<Instant>) -> io::Result<()> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.map(|left| Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    match poll(fds, left.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits until no process is left or the timeout has passed; returns whether none is left.
fn gone(members: &Finds<'_>, until: Instant) -> bool {
    loop {
        let found = members();
        let watches: Vec<OwnedFd> = found.iter().filter_map(|member| watch(*member)).collect();
        if found.is_empty() || Instant::now() >= until {
            return found.is_empty();
        }
        // One after another: all of them have to end.
        for watch in &watches {
            if wait(&[watch.as_fd()], Some(until)).is_err() {
                return false;
            }
        }
    }
}

fn signal(members: &BTreeSet<(i32, u64)>, signal: Signal) {
    for watch in members.iter().filter_map(|member| watch(*member)) {
        // A process that cannot be reached is found again by the next count.
        let _ = pidfd_send_signal(&watch, signal);
    }
}

fn watch((pid, start): (i32, u64)) -> Option<OwnedFd> {
    let watch = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    stat(pid).is_some_and(|stat| stat.start == start).then_some(watch)
}

fn processes() -> Vec<(i32, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything, brackets too.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = String::from_utf8_lossy(text.get(end + 1..)?).into_owned();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        dead: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

fn is_marked(pid: i32, marked: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == marked.as_bytes())
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}
