//! A live deployment by its commands: a real process, its socket, its signals.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_tests::{root, tenure};

/// `tenure dev` in a folder of its own. Stopped when the test is over.
pub(crate) struct Deployment {
    pub(crate) data: TempDir,
    pub(crate) process: Child,
}

impl Deployment {
    fn start() -> Self {
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
    fn lease(&self, name: &str) -> Value {
        let shown = self.json(&format!("lease show {name}"));
        shown.as_array().and_then(|leases| leases.first()).unwrap_or(&shown).clone()
    }

    /// The units in the hands of leases with their processes, each as often as it is.
    fn held(&self) -> Vec<(String, String)> {
        let leases = self.leases();
        let units = leases.iter().flat_map(units);
        units.map(|(unit, _, pid)| (unit, pid)).collect()
    }

    /// Gives every lease back.
    fn close_all(&self) {
        for lease in self.leases() {
            let name = lease["lease"].as_str().unwrap_or_default();
            drop(self.tenure(&format!("lease close {name} --wait")));
        }
    }

    /// Whether no unit is leased or on its way back, now or soon.
    fn is_clean(&self) -> bool {
        (0..1000).any(|_| {
            let sites = self.tenure("site list -o json").stdout;
            let sites: Vec<Value> = serde_json::from_slice(&sites).unwrap_or_default();
            sites.iter().all(|site| site["units"] == site["free"])
        })
    }

    /// Starts `tenure up` again with the configuration in the folder.
    pub(crate) fn restart_up(&mut self) {
        let config = std::fs::read_to_string(self.data.path().join("live.toml")).expect("a file");
        self.process = run_config(&config, self.data.path());
    }

    /// Starts it anew with a configuration.
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
        self.close_all();
        self.is_clean();
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
    let file = data.join("live.toml");
    std::fs::write(&file, config).expect("a file");
    let log = File::options().create(true).append(true).open(data.join("log")).expect("a file");
    let mut command = Command::new(tenure());
    command.args(["up", "--config"]).arg(file).arg("--data").arg(data).stderr(log);
    command
}

/// Starts a deployment and waits until it says that it takes commands.
pub(crate) fn ready(mut command: Command) -> Child {
    let mut process = command.stdout(Stdio::piped()).spawn().expect("a deployment");
    let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
    let is_ready = || lines.map_while(Result::ok).any(|line| line.contains("leases live on"));
    let ready = in_time("a start", is_ready);
    assert!(ready, "the deployment ended before it was ready");
    process
}

fn tenure_on(data: &Path, line: &str) -> Output {
    let mut command = Command::new(tenure());
    command.args(line.split(' ')).arg("--data").arg(data);
    in_time(line, move || command.output().expect("the command runs"))
}

/// The longest that anything here may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// What `work` gives, which must be done in time.
#[track_caller]
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || drop(done.send(work())));
    let result = result.recv_timeout(DEADLINE);
    result.unwrap_or_else(|error| panic!("{what} does not come to its end: {error}"))
}

/// What `look` finds, which must be there in time.
#[track_caller]
fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < DEADLINE, "{what} is not there after {DEADLINE:?}");
        std::thread::yield_now();
    }
}

/// Waits for the end of a process; its exit code, if it was not killed.
#[track_caller]
fn ended(process: &mut Child) -> Option<i32> {
    found("the end of a process", || process.try_wait().expect("a child")).code()
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

#[test]
fn a_lease_is_asked_for_kept_for_longer_and_given_back() {
    let deployment = Deployment::start();
    let leases = deployment.json("lease request 2 --for 10m --wait");
    assert_eq!(leases[0]["state"], "active");
    let held = units(&leases[0]);
    assert!(!held.is_empty());
    for (unit, _, pid) in &held {
        assert!(Path::new("/proc").join(pid).exists(), "unit {unit} is process {pid}");
    }
    let left = leases[0]["left_s"].as_f64().unwrap_or_default();
    deployment.json("lease extend guest/1 --for 1h");
    let over = deployment.json("lease close guest/1 --wait");
    assert!(over.as_array().is_some_and(|all| all.iter().all(|l| l["outcome"] == "given-back")));
    assert!((500.0..600.0).contains(&left), "{left}");
    // The ticket of an extension that came too late may still be on its way back.
    let left = deployment.json("lease list --as guest");
    let gone = |lease: &Value| !lease["lease"].as_str().unwrap_or_default().starts_with("guest/1.");
    assert!(left.as_array().is_some_and(|left| left.iter().all(gone)), "{left}");
    let why = deployment.json("lease why guest/1");
    assert_eq!(why[0]["reason"], "it was given back before its end");
}

#[test]
fn whoever_is_killed_takes_up_its_leases_where_they_were() {
    let mut deployment = Deployment::start();
    let before = deployment.json("lease request 3 --for 1h --id once --wait");
    let unanswered = deployment.json("lease request 1 --for 1h --id twice");
    assert_eq!(deployment.end("-KILL"), None);
    deployment.restart();
    let again = deployment.json("lease request 3 --for 1h --id once --wait");
    assert_eq!(again[0]["lease"], before[0]["lease"]);
    assert_eq!(units(&again[0]), units(&before[0]), "the same units, not set up anew");
    let again = deployment.json("lease request 1 --for 1h --id twice --wait");
    assert_eq!(again[0]["lease"], unanswered[0]["lease"]);
    assert_eq!(again[0]["state"], "active");
    assert_eq!(deployment.end("-TERM"), Some(0));
    deployment.restart();
    assert_eq!(deployment.json("lease list --as guest").as_array().map(Vec::len), {
        let parts = before.as_array().map_or(0, Vec::len) + again.as_array().map_or(0, Vec::len);
        Some(parts)
    });
}

/// How often the process is killed, unless `TENURE_KILLS` asks for more.
const KILLS: usize = 4;

#[test]
fn killed_again_and_again_it_loses_nothing_that_it_has_acknowledged() {
    let kills = std::env::var("TENURE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let mut deployment = Deployment::start();
    let mut pids = BTreeSet::new();
    for kill in 0..kills {
        // Leases live and die: some are asked for under an id, one is given back again, one extended.
        let acknowledged: Vec<(String, String)> = (0..2)
            .map(|wish| {
                let id = format!("{kill}-{wish}");
                let leases = deployment.json(&format!("lease request 1 --for 10m --id {id}"));
                (id, leases[0]["lease"].as_str().expect("a name").to_owned())
            })
            .collect();
        let (closed, extended) = (&acknowledged[0].1, &acknowledged[1].1);
        deployment.json(&format!("lease close {closed}"));
        deployment.json(&format!("lease request 1 --for 10m --id {kill}-1 --wait"));
        let before = deployment.lease(extended)["end"].clone();
        deployment.json(&format!("lease extend {extended} --for 1h --wait"));
        let end = deployment.lease(extended)["end"].clone();
        assert_ne!(end, before, "kill {kill}: {extended} is extended");
        // Something is under way when the process dies; whether it comes to anything is left open.
        let mut asker = Command::new(tenure())
            .args(["lease", "request", "1", "--for", "10m", "--wait", "--data"])
            .arg(deployment.data.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a request");
        if kill % 2 == 0 {
            ended(&mut asker);
        }
        pids.extend(deployment.held().into_iter().map(|(_, pid)| pid));
        deployment.end("-KILL");
        ended(&mut asker);
        deployment.restart();
        let lease = deployment.lease(extended);
        assert_eq!((&lease["end"], &lease["state"]), (&end, &json!("active")), "kill {kill}");
        let lease = deployment.lease(closed);
        let on_its_way_out = ["given-up", "leaving", "closing", "crediting", "closed"];
        assert!(on_its_way_out.iter().any(|state| lease["state"] == *state), "{kill}: {lease}");
        for (id, lease) in &acknowledged {
            let again = deployment.json(&format!("lease request 1 --for 10m --id {id}"));
            assert_eq!(again[0]["lease"], lease.as_str(), "kill {kill}: wish {id}");
        }
        let held = deployment.held();
        let units: BTreeSet<&String> = held.iter().map(|(unit, _)| unit).collect();
        assert_eq!(units.len(), held.len(), "kill {kill}: a unit is in two leases: {held:?}");
        pids.extend(held.into_iter().map(|(_, pid)| pid));
        deployment.close_all();
    }
    assert!(deployment.is_clean(), "units never came back: {}", deployment.json("site list"));
    let left: Vec<&String> = pids.iter().filter(|pid| lives(pid)).collect();
    assert!(left.is_empty(), "processes of leases that are over: {left:?}");
}

/// The list of drivers that docs/DRIVERS.md shows.
fn documented_drivers() -> String {
    let text = std::fs::read_to_string(root().join("docs/DRIVERS.md")).expect("the document");
    let list = text.split("```").find_map(|block| block.strip_prefix("toml\n[[service-manager"));
    format!("[[service-manager{}", list.expect("a list of drivers"))
}

/// What a program writes into a file, once it has done so.
pub(crate) fn written(path: &Path) -> String {
    found(&path.display().to_string(), || {
        let text = std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))?;
        Some(text.trim().to_owned())
    })
}

#[test]
fn a_guest_with_two_drivers_has_a_program_on_each_unit_and_a_file_of_the_units() {
    let config = format!(
        "[site.alpha]\nunits = 3\ndriver = {{ name = \"process\" }}\n[broker.exchange]\n{}",
        documented_drivers()
    );
    let mut deployment = Deployment::of(&config, tempfile::tempdir().expect("a folder"));
    let file = deployment.data.path().join("drivers/guest/membership/members");
    let members = || {
        let text = std::fs::read_to_string(&file).expect("a membership file");
        let units = text.lines().map(|line| {
            let member: Value = serde_json::from_str(line).expect("JSON");
            format!("alpha/u{}", member["unit"])
        });
        units.collect::<BTreeSet<_>>()
    };
    assert_eq!(members(), BTreeSet::new());
    let lease = deployment.json("lease request 2 --for 1h --wait")[0].clone();
    let held: BTreeSet<String> = units(&lease).into_iter().map(|(unit, ..)| unit).collect();
    assert_eq!((members(), held.len()), (held, 2));
    let folders = deployment.data.path().join("drivers/guest/start/folders");
    let folders = std::fs::read_dir(folders).expect("the programs' folders");
    let programs: Vec<String> = folders
        .map(|entry| written(&entry.expect("a folder").path().join("program.pid")))
        .collect();
    assert_eq!(programs.len(), 2);
    assert!(programs.iter().all(|pid| lives(pid)), "{programs:?}");

    // Both go on, whatever happens to the process that began them.
    assert_eq!(deployment.end("-KILL"), None);
    deployment.process = run_config(&config, deployment.data.path());
    assert!(programs.iter().all(|pid| lives(pid)), "{programs:?}");
    assert_eq!(members().len(), 2);

    deployment.json("lease close guest/1 --wait");
    assert!(!programs.iter().any(|pid| lives(pid)), "{programs:?}");
    assert_eq!(members(), BTreeSet::new());
}

#[test]
fn a_no_has_a_code_a_reason_and_a_way_on() {
    let deployment = Deployment::start();
    for (line, code, reason, help) in [
        ("lease request 99 --for 1h --wait", 3, "more than the 6 that exist", "tenure lease why"),
        ("lease request 1 gpu --for 1h --wait", 3, "no site offers `gpu`", "tenure lease why"),
        ("lease request 1 --for 1h --after 1h --wait --timeout 1s", 124, "not settled", "why"),
        ("lease request 1 --for 1h --where speed", 2, "no requirement", "speed=2..8"),
        ("lease request 1 --for 1h --broker exchang", 3, "no broker", "did you mean `exchange`"),
        ("lease show guest/77", 3, "no lease", "tenure lease list --all"),
        ("site show gamma", 3, "no site", "known: alpha, beta"),
        ("ticket show ffff", 3, "no ticket", "tenure lease show"),
    ] {
        let output = deployment.tenure(line);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {error}");
        assert!(error.contains(reason) && error.contains(help), "{line}: {error}");
    }
    deployment.json("lease request 5 --for 1h --wait");
    let busy = deployment.tenure("lease request 1 --for 1h --wait");
    assert_eq!(busy.status.code(), Some(75), "{}", stderr(&busy));
    // The same in JSON.
    let output = deployment.tenure("lease show guest/77 -o json");
    let error: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(error["error"]["message"], "no lease guest/77");
    assert_eq!(error["error"]["code"], "no-such");
    assert!(error["error"]["help"].as_str().is_some_and(|help| help.contains("--all")), "{error}");
}

#[test]
fn every_command_that_reads_prints_what_was_asked_for() {
    let deployment = Deployment::start();
    let lease = deployment.json("lease request 2 --for 1h --wait")[0].clone();
    let hash = lease["tickets"][0].as_str().expect("a ticket").to_owned();
    let name = lease["lease"].as_str().expect("a name").to_owned();
    for (line, column) in [
        ("lease list", "lease"),
        (&*format!("lease show {name}"), "lease"),
        (&*format!("lease why {name}"), "reason"),
        ("slice list", "slice"),
        ("site list", "free"),
        ("site show alpha", "epoch"),
        ("broker list", "free"),
        ("broker show exchange", "free"),
        (&*format!("ticket show {hash}"), "signed"),
        ("doctor", "open"),
    ] {
        let printed = |output: &str| {
            let output = deployment.tenure(&format!("{line} -o {output}"));
            assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
            String::from_utf8(output.stdout).expect("text")
        };
        let value: Value = serde_json::from_str(&printed("json")).expect("JSON");
        let all = value.as_array().cloned().unwrap_or_else(|| vec![value]);
        let lines: Vec<Value> = printed("jsonl")
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
            .collect();
        assert_eq!(lines.len(), all.len(), "{line}");
        for object in all.iter().chain(&lines) {
            assert_eq!(object["version"], 1, "{line}: {object}");
        }
        let csv = printed("csv");
        let mut rows = csv.lines();
        let head: Vec<&str> = rows.next().expect("a head").split(',').collect();
        assert!(head.contains(&column) && rows.next().is_some(), "{line}: {csv}");
        assert!(
            printed("table").contains(&column.to_uppercase()) || line.contains(&name),
            "{line}"
        );
    }
}

#[test]
fn a_ticket_that_was_shown_can_be_checked_by_anybody() {
    let deployment = Deployment::start();
    let lease = deployment.json("lease request 2 --for 1h --where zone=west --wait")[0].clone();
    let hash = lease["tickets"][0].as_str().expect("a ticket");
    let shown = deployment.tenure(&format!("ticket show {hash} -o json"));
    let file = deployment.data.path().join("ticket.json");
    std::fs::write(&file, &shown.stdout).expect("a file");
    let file = file.display();
    let found = deployment.json(&format!("ticket verify {file} --site beta"));
    assert_eq!((&found["holds"], &found["term"]), (&Value::Bool(true), &"running".into()));
    assert_eq!(deployment.json(&format!("ticket verify {file}"))["site_name"], "beta");
    let wrong = deployment.tenure(&format!("ticket verify {file} --site alpha"));
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("another site's"), "{}", stderr(&wrong));
    // Where nothing runs the key has to be said.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let key = found["site"].as_str().expect("a key");
    let alone = tenure_on(elsewhere.path(), &format!("ticket verify {file} --site {key}"));
    assert_eq!(alone.status.code(), Some(0), "{}", stderr(&alone));
}

/// The commands of a document's `console` blocks, each with the output that it shows and the exit code.
fn sessions(document: &str) -> Vec<(String, String, i32)> {
    let text = std::fs::read_to_string(root().join(document)).expect(document);
    let mut commands: Vec<(String, String, i32)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            inside = language == "console";
        } else if let (true, Some(command)) = (inside, line.strip_prefix("$ tenure ")) {
            commands.push((command.to_owned(), String::new(), 0));
        } else if let (true, Some((_, output, code))) = (inside, commands.last_mut()) {
            match line.strip_prefix("? ") {
                Some(number) => *code = number.parse().expect("an exit code"),
                None => {
                    output.push_str(line);
                    output.push('\n');
                }
            }
        }
    }
    commands
}

/// Text without what differs from one run to the next: numbers, hashes, folders.
fn in_general(text: &str) -> String {
    let plain = |word: &str| {
        let word = word.split_once("unit.directory=").map_or(word, |_| "unit.directory=#");
        let counts =
            word.chars().all(|c| c.is_ascii_hexdigit()) && word.chars().any(|c| c.is_ascii_digit());
        let word = if counts { "#" } else { word };
        let mut shown = String::new();
        for letter in word.chars() {
            match letter {
                '0'..='9' if shown.ends_with('#') => {}
                '0'..='9' => shown.push('#'),
                letter => shown.push(letter),
            }
        }
        // Lengths of time have one part or two.
        ["#h#m", "#m#s", "#h", "#m", "#s"]
            .iter()
            .fold(shown, |shown, length| if shown == *length { "#time".to_owned() } else { shown })
    };
    let lines =
        text.lines().map(|line| line.split_whitespace().map(plain).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn is_true(document: &str) {
    let deployment = Deployment::start();
    let data = deployment.data.path().display().to_string();
    let commands = sessions(document);
    assert!(commands.len() > 2, "{document} shows no commands");
    for (command, shown, code) in commands {
        let output = deployment.tenure(&command);
        assert_eq!(output.status.code(), Some(code), "{command}: {}", stderr(&output));
        let printed = String::from_utf8_lossy(&output.stdout).replace(&data, "tenure-data");
        assert_eq!(in_general(&printed), in_general(&shown), "tenure {command}\n{printed}");
    }
}

#[test]
fn the_first_screen_of_the_readme_is_true() {
    is_true("README.md");
}

#[test]
fn the_tutorial_is_true() {
    is_true("docs/TUTORIAL.md");
}

#[test]
fn where_nobody_runs_a_command_says_how_to_start_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = tenure_on(folder.path(), "lease list");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("tenure dev"), "{}", stderr(&output));
}

#[test]
fn a_second_process_on_the_same_data_is_turned_away() {
    let deployment = Deployment::start();
    let output = deployment.tenure("dev");
    assert_eq!(output.status.code(), Some(1));
    let (error, pid) = (stderr(&output), deployment.process.id().to_string());
    assert!(error.contains(&pid), "{error} does not name process {pid}");
    assert_eq!(deployment.json("lease list"), Value::Array(Vec::new()));
}

#[test]
fn a_wrong_configuration_is_pointed_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("live.toml");
    for (text, place, help) in [
        ("[site.a]\nunit = 3\n", ":2:1", "did you mean `units`"),
        (
            "[site.a]\nunits = 3\n[broker.b]\n",
            "there is no service manager",
            "[service-manager.one]",
        ),
        ("[site.a]\nunits = 0\n[broker.b]\n[service-manager.c]\n", ":2:9", "add units"),
        ("[site.a]\nunits = 1\n[broker.a]\n[service-manager.c]\n", "two actors", "name of its own"),
        (
            "[site.a]\nunits = 1\ndriver = { name = \"proces\" }\n[broker.b]\n[service-manager.c]\n",
            ":3:19",
            "did you mean `process`",
        ),
        (
            "[site.a]\nunits = 1\n[broker.b]\n[service-manager.c]\n\
             driver = { name = \"membership\", fil = \"x\" }\n",
            ":5:39",
            "did you mean `file`",
        ),
        (
            "[site.a]\nunits = 1\n[broker.b]\nmapper = { name = \"fcf\" }\n[service-manager.c]\n",
            ":4:19",
            "did you mean `fcfs`",
        ),
    ] {
        std::fs::write(&file, text).expect("a file");
        let output = Command::new(tenure()).args(["config", "check"]).arg(&file).output();
        let output = output.expect("the command runs");
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(place) && error.contains(help), "{text}: {error}");
    }
    let good = "[site.a]\nunits = 3\n[broker.b]\n[service-manager.c]\n";
    std::fs::write(&file, good).expect("a file");
    let check = |more: &[&str]| {
        let output =
            Command::new(tenure()).args(["config", "check"]).arg(&file).args(more).output();
        String::from_utf8(output.expect("the command runs").stdout).expect("text")
    };
    assert!(
        check(&[]).ends_with(" is good: 1 sites with 3 units, 1 brokers, 1 service managers\n")
    );
    let told: Value = serde_json::from_str(&check(&["-o", "json"])).expect("JSON");
    assert_eq!((&told["version"], &told["units"]), (&json!(1), &json!(3)));
}
