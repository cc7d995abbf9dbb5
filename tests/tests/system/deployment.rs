//! A live deployment by its commands: a real process, its socket, its signals.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::tenure;
use tenure_wait::{DEADLINE, done_in_time, eventually};

/// `tenure dev` in a folder of its own. Stopped when the test has ended.
pub(crate) struct Deployment {
    pub(crate) data: TempDir,
    pub(crate) process: Child,
}

impl Deployment {
    pub(crate) fn start() -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let process = run(data.path());
        Self { data, process }
    }

    /// `tenure up` with a configuration, its data in a folder that may hold files already.
    pub(crate) fn of(config: &str, data: TempDir) -> Self {
        let process = run_config(config, data.path());
        Self { data, process }
    }

    /// Runs a command on it.
    pub(crate) fn tenure(&self, line: &str) -> Output {
        tenure_on(self.data.path(), line)
    }

    /// Runs a command that must go well, and reads its JSON.
    #[track_caller]
    pub(crate) fn json(&self, line: &str) -> Value {
        let output = self.tenure(&format!("{line} -o json"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "tenure {line}: {error}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Ends the process by a signal and waits until it is gone.
    pub(crate) fn end(&mut self, signal: &str) -> Option<i32> {
        let pid = self.process.id().to_string();
        let kill = Command::new("kill").args([signal, &pid]).status();
        assert!(kill.is_ok_and(|status| status.success()), "kill {signal}");
        ended(&mut self.process)
    }

    /// The leases that are not over.
    fn leases(&self) -> Vec<Value> {
        let leases = self.tenure("lease list -o json").stdout;
        serde_json::from_slice(&leases).unwrap_or_default()
    }

    /// One lease.
    #[track_caller]
    pub(crate) fn lease(&self, name: &str) -> Value {
        let shown = self.json(&format!("lease show {name}"));
        shown.as_array().and_then(|leases| leases.first()).unwrap_or(&shown).clone()
    }

    /// The units in the hands of leases with their processes, each as often as it is.
    pub(crate) fn held(&self) -> Vec<(String, String)> {
        let leases = self.leases();
        let units = leases.iter().flat_map(units);
        units.map(|(unit, _, pid)| (unit, pid)).collect()
    }

    /// Gives every lease back.
    pub(crate) fn close_all(&self) {
        for lease in self.leases() {
            let name = lease["lease"].as_str().unwrap_or_default();
            drop(self.tenure(&format!("lease close {name} --wait")));
        }
    }

    /// Waits until no unit is leased or on its way back.
    #[track_caller]
    pub(crate) fn becomes_clean(&self) {
        let waits = || {
            eventually(DEADLINE, "all units to be free", || {
                let sites = self.tenure("site list -o json").stdout;
                let sites: Vec<Value> = serde_json::from_slice(&sites).unwrap_or_default();
                sites.iter().all(|site| site["units"] == site["free"])
            });
        };
        if let Err(in_vain) = catch_unwind(AssertUnwindSafe(waits)) {
            for shown in ["site list", "unit list", "lease list --all", "service show"] {
                eprintln!("{}", String::from_utf8_lossy(&self.tenure(shown).stdout));
            }
            eprintln!("{}", self.log());
            resume_unwind(in_vain);
        }
    }

    /// Starts `tenure up` again with the configuration in the folder.
    pub(crate) fn restart_up(&mut self) {
        let config = std::fs::read_to_string(self.data.path().join("live.toml")).expect("a file");
        self.process = run_config(&config, self.data.path());
    }

    /// Starts it again with a configuration.
    pub(crate) fn start_with(&mut self, config: &str) {
        self.process = run_config(config, self.data.path());
    }

    /// Runs `tenure up` with a configuration, which must end by itself.
    pub(crate) fn fails_with(&self, config: &str) -> Output {
        let file = self.data.path().join("live.toml");
        std::fs::write(&file, config).expect("a file");
        let mut command = Command::new("timeout");
        command.arg("60").arg(tenure()).args(["up", "--config"]).arg(file).arg("--data");
        command.arg(self.data.path()).output().expect("a deployment")
    }

    pub(crate) fn restart(&mut self) {
        self.process = run(self.data.path());
    }

    /// Starts `tenure up` again with this configuration; it must take commands.
    pub(crate) fn restart_with(&mut self, config: &str) {
        self.process = run_config(config, self.data.path());
    }

    /// What it has logged, if it was started by [`of`](Self::of).
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.data.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        // Its units are processes too: given back, they are cleaned up.
        if std::thread::panicking() {
            // Report why the test failed, not that this took too long.
            drop(catch_unwind(AssertUnwindSafe(|| self.close_all())));
        } else {
            self.close_all();
            self.becomes_clean();
        }
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Starts `tenure dev` and waits until it says that it takes commands.
fn run(data: &Path) -> Child {
    let quiet = "service-manager.load.demand.values=[0]";
    let mut command = Command::new(tenure());
    command.args(["dev", "--set", quiet, "--data"]).arg(data);
    ready(command)
}

/// Starts `tenure up` with a configuration, and waits as [`ready`] does.
fn run_config(config: &str, data: &Path) -> Child {
    ready(up(config, data))
}

/// `tenure up` with a configuration; what it logs is appended to the file `log`.
pub(crate) fn up(config: &str, data: &Path) -> Command {
    up_by(Command::new(tenure()), config, data)
}

/// As [`up`], by a command that lacks the arguments.
pub(crate) fn up_by(mut command: Command, config: &str, data: &Path) -> Command {
    let file = data.join("live.toml");
    std::fs::write(&file, config).expect("a file");
    let log = File::options().create(true).append(true).open(data.join("log")).expect("a file");
    command.args(["up", "--config"]).arg(file).arg("--data").arg(data).stderr(log);
    command
}

/// Starts a deployment and waits until it says that it takes commands.
pub(crate) fn ready(mut command: Command) -> Child {
    let mut process = command.stdout(Stdio::piped()).spawn().expect("a deployment");
    let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
    let is_ready = || lines.map_while(Result::ok).any(|line| line.contains("leases stay"));
    let ready = done_in_time(DEADLINE, "a start", is_ready);
    assert!(ready, "the deployment ended before it was ready");
    process
}

pub(crate) fn tenure_on(data: &Path, line: &str) -> Output {
    let mut words = words(line);
    // What follows `--` is a command of its own.
    let place = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.splice(place..place, ["--data".to_owned(), data.display().to_string()]);
    let mut command = Command::new(tenure());
    command.args(words);
    done_in_time(DEADLINE, line, move || command.output().expect("the command runs"))
}

/// The words of a command line: between spaces, but for those between single quotes.
pub(crate) fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().expect("a word").push(c),
        }
    }
    words
}

/// Waits for the end of a process; its exit code, if it was not killed.
#[track_caller]
pub(crate) fn ended(process: &mut Child) -> Option<i32> {
    eventually(DEADLINE, "the end of a process", || process.try_wait().expect("a child")).code()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether a process is there and not merely waiting for its parent, which after a kill is the system's
/// first process, to take note of its end.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in brackets.
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !pid.is_empty() && !matches!(state, None | Some('Z' | 'X'))
}

/// The units of a lease with their epochs and processes.
pub(crate) fn units(lease: &Value) -> Vec<(String, u64, String)> {
    let units = lease["in_hand"].as_array().expect("units").iter();
    units
        .map(|unit| {
            let pid = unit["properties"]["unit.pid"].as_str().unwrap_or_default();
            let name = unit["unit"].as_str().unwrap_or_default();
            (name.to_owned(), unit["epoch"].as_u64().unwrap_or_default(), pid.to_owned())
        })
        .collect()
}

/// What a program writes into a file, once it has done so.
pub(crate) fn written(path: &Path) -> String {
    eventually(DEADLINE, &path.display().to_string(), || {
        let text = std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))?;
        Some(text.trim().to_owned())
    })
}

/// Set inside of a network that was made for a test.
const INSIDE: &str = "TENURE_TEST_NETNS";

/// Runs a test again, as root, in a network, a `/run` and an `/etc` of its own; false in there.
pub(crate) fn outside_of(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return false;
    }
    let own = "mount -t tmpfs none /run && mount -t tmpfs none /etc && : >/etc/hosts >/etc/hostname && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--net", "--mount", "/bin/sh", "-c", own, "sh"])
        .arg(std::env::current_exe().expect("this test"))
        .args([test, "--exact", "--nocapture", "--ignored"])
        .env(INSIDE, "1")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", stderr(&output));
    true
}
