//! Machines with executors, as their site, their tenants and strangers meet them.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tenure_core::driver::{Call, Epoch, Step, UnitId};
use tenure_core::model::identity::{ActorId, Scheme, Signer};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_node::net::executor::{Asker, ExecutorAt, ask};
use tenure_node::net::task::{Command as Task, Errand, TaskEnd, TaskRefusal};
use tenure_tests::tenure;
use tenure_wait::{DEADLINE, done_in_time, eventually};

use crate::deployment::{Deployment, lives, stderr};
use crate::network::{free, key};

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// `tenure executor` in a folder of its own.
struct Executor {
    data: TempDir,
    process: Child,
    id: String,
    address: String,
}

impl Executor {
    /// One that obeys a site, with further settings.
    fn of(site: &str, settings: &str) -> Self {
        let (data, address) = (folder(), free());
        let text = format!("listen = \"{address}\"\nsite = \"{site}\"\n{settings}");
        std::fs::write(data.path().join("executor.toml"), text).expect("a file");
        let (process, id) = start(data.path());
        Self { data, process, id, address }
    }

    fn kill(&mut self) {
        self.process.kill().expect("it is there");
        self.process.wait().expect("it ends");
    }

    fn restart(&mut self) {
        (self.process, self.id) = start(self.data.path());
    }

    fn at(&self) -> ExecutorAt {
        ExecutorAt { id: id(&self.id), address: self.address.clone() }
    }

    /// What it answers to one who shows a key.
    fn answers(&self, signer: &Signer, errand: Errand) -> TaskEnd {
        let asker = Asker { id: signer.id(), signer: signer.clone(), keys: KeyChain::default() };
        let at = self.at();
        let asked = move || actix::System::new().block_on(ask(&asker, &at, errand));
        done_in_time(DEADLINE, "an answer", asked).expect("an answer")
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Starts an executor, and waits until it says its id.
fn start(data: &Path) -> (Child, String) {
    let log = File::options().create(true).append(true).open(data.join("log")).expect("a file");
    let mut command = Command::new(tenure());
    command.args(["executor", "--config"]).arg(data.join("executor.toml")).arg("--data").arg(data);
    let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().expect("an executor");
    let mut output = BufReader::new(process.stdout.take().expect("its output"));
    let mut line = String::new();
    let told = move || output.read_line(&mut line).map(|_| line);
    let line = done_in_time(DEADLINE, "an executor", told).expect("a line");
    let id = line.split(' ').nth(2).unwrap_or_else(|| panic!("{line:?}")).to_owned();
    (process, id)
}

fn id(hex: &str) -> ActorId {
    serde_json::from_value(hex.into()).expect("an id")
}

/// A site of two machines, with a broker and a guest.
struct Lab {
    // Ended first: its units are cleaned by the executors.
    deployment: Deployment,
    executors: [Executor; 2],
}

impl Lab {
    fn of(settings: &str) -> Self {
        let data = folder();
        let site = key(&data, "alpha");
        let executors = [0, 1].map(|_| Executor::of(&site, settings));
        let host = |(unit, executor): (usize, &Executor)| {
            let Executor { id, address, .. } = executor;
            format!("{{ unit = {unit}, address = \"{address}\", id = \"{id}\" }}")
        };
        let hosts: Vec<String> = executors.iter().enumerate().map(host).collect();
        let driver =
            format!("{{ name = \"host\", users = [\"nobody\"], hosts = [{}] }}", hosts.join(", "));
        let config = format!(
            "probe-every = \"200ms\"\n[site.alpha]\nunits = 2\nfail-after = 0\ndriver = {driver}\n\
             [broker.exchange]\n[service-manager.guest]\n"
        );
        Self { deployment: Deployment::of(&config, data), executors }
    }

    /// Runs `tenure unit run` with these words.
    fn runs(&self, words: &[&str]) -> Output {
        let mut command = Command::new(tenure());
        command.args(["unit", "run"]).args(words).env("TENURE_DATA", self.deployment.data.path());
        done_in_time(DEADLINE, "a command", move || command.output().expect("it runs"))
    }

    /// Runs a script on a unit, which must go well; what it wrote.
    #[track_caller]
    fn script(&self, unit: &str, script: &str) -> String {
        let output = self.runs(&[unit, "--", "/bin/sh", "-c", script]);
        assert_eq!(output.status.code(), Some(0), "{script}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    /// Runs a command that must be refused, with these words.
    #[track_caller]
    fn refused(&self, words: &[&str], code: i32, why: &str) {
        let output = self.runs(words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
    }

    /// Leases units; the first one's name and epoch, and the executor that it has.
    fn lease(&self, units: u32) -> (String, Epoch, &Executor) {
        let lease = &self.deployment.json(&format!("lease request {units} --for 1h --wait"))[0];
        let unit = &lease["in_hand"][0];
        let name = unit["unit"].as_str().expect("a name").to_owned();
        let at = &unit["properties"]["executor.id"];
        let executor = self.executors.iter().find(|executor| *at == executor.id.as_str());
        (name, Epoch(unit["epoch"].as_u64().expect("a number")), executor.expect("its executor"))
    }

    /// The key of an actor.
    fn signer(&self, name: &str) -> Signer {
        let file = self.deployment.data.path().join("keys").join(name);
        let digits = std::fs::read_to_string(file).expect("a key");
        let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("digits");
        Signer::from_seed(Scheme::Ed25519, std::array::from_fn(byte))
    }
}

/// The number of a unit.
fn number(unit: &str) -> UnitId {
    UnitId(unit.rsplit('u').next().and_then(|number| number.parse().ok()).expect("a number"))
}

/// A command on a unit in an epoch.
fn task(unit: &str, epoch: Epoch) -> Errand {
    let words = vec!["/bin/true".to_owned()];
    let (unit, timeout) = (number(unit), Span::MINUTE);
    Errand::Run(Task { unit, epoch, user: None, words, timeout })
}

fn refusal(end: TaskEnd) -> TaskRefusal {
    let TaskEnd::Refused(refusal) = end else { panic!("it is not refused: {end:?}") };
    refusal
}

#[test]
fn commands_run_on_the_machine_of_a_unit_and_end_as_they_do() {
    let lab = Lab::of("output = 1000\nlimits = { files = 64 }\n");
    lab.refused(&["alpha/u0", "--", "/bin/true"], 3, "no service manager here has unit alpha/u0");
    lab.lease(2);
    let (first, second) = (lab.script("alpha/u0", "pwd"), lab.script("alpha/u1", "pwd"));
    assert!(first.ends_with("-u0") && second.ends_with("-u1"), "{first} {second}");
    // Words are words: nothing is expanded.
    let output = lab.runs(&["alpha/u0", "--", "echo", "$HOME", "*", "-o", "json"]);
    assert_eq!(output.stdout, b"$HOME * -o json\n", "{}", stderr(&output));
    let script = "echo out; echo err >&2; exit 7";
    let output = lab.runs(&["alpha/u0", "--", "/bin/sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!((&*output.stdout, &*output.stderr), (&b"out\n"[..], &b"err\n"[..]));
    let output = lab.runs(&["alpha/u0", "-o", "json", "--", "/bin/sh", "-c", "kill -KILL $$"]);
    let view: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&view["signal"], &view["code"]), (&9.into(), &Value::Null));
    assert_eq!(output.status.code(), Some(137));
    assert_eq!(lab.script("alpha/u0", "ulimit -n"), "64");
    // Too much output, and too much time.
    let output = lab.runs(&["alpha/u0", "--", "head", "-c", "5000", "/dev/zero"]);
    assert_eq!(output.status.code(), Some(0), "what is too much is lost, and ends nothing");
    assert!(stderr(&output).contains("standard output was longer"), "{}", stderr(&output));
    let output = lab.runs(&["alpha/u0", "--", "/bin/sh", "-c", "yes x | head -n 2000"]);
    assert_eq!(output.stdout, b"x\n".repeat(500));
    let script = "sleep 1000 & echo $!; wait";
    let output = lab.runs(&["alpha/u0", "--timeout", "1s", "--", "/bin/sh", "-c", script]);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    let child = String::from_utf8(output.stdout).expect("text").trim().to_owned();
    assert!(!lives(&child), "its process group is ended with it");
}

#[test]
fn what_cannot_be_run_is_refused_with_its_reason() {
    let lab = Lab::of("");
    let (unit, ..) = lab.lease(1);
    let root = rustix::process::geteuid().is_root();
    lab.refused(&[&unit, "--", "/no/such/program"], 3, "no program `/no/such/program`");
    lab.refused(&[&unit, "--", "no-such-program"], 3, "no program `no-such-program`");
    lab.refused(&[&unit, "--as", "daemon", "--", "id"], 77, "may not run as user `daemon`");
    lab.refused(&["alpha/7", "--", "id"], 3, "names no unit");
    lab.refused(&["beta/u1", "--", "id"], 3, "no site beta is known");
    lab.refused(&[&unit], 2, "<COMMAND>");
    if root {
        let output = lab.runs(&[&unit, "--as", "nobody", "--", "id", "-un"]);
        assert_eq!(output.stdout, b"nobody\n", "{}", stderr(&output));
    } else {
        lab.refused(&[&unit, "--as", "nobody", "--", "id"], 77, "cannot become another");
    }
}

#[test]
fn a_tenancy_ends_with_its_lease_also_for_who_was_the_tenant_and_for_the_site() {
    let mut lab = Lab::of("grace = \"100ms\"\n");
    let (unit, epoch, executor) = lab.lease(1);
    let (guest, site) = (lab.signer("guest"), lab.signer("alpha"));
    let stranger = Signer::from_seed(Scheme::Ed25519, [9; 32]);
    let not_the_tenant = TaskRefusal::NotTheTenant(stranger.id(), number(&unit));
    assert_eq!(refusal(executor.answers(&stranger, task(&unit, epoch))), not_the_tenant);
    let not_the_tenant = TaskRefusal::NotTheTenant(site.id(), number(&unit));
    assert_eq!(refusal(executor.answers(&site, task(&unit, epoch))), not_the_tenant);
    let probe = Errand::Probe(number(&unit));
    let not_the_site = TaskRefusal::NotTheSite(guest.id());
    assert_eq!(refusal(executor.answers(&guest, probe.clone())), not_the_site);
    assert!(matches!(executor.answers(&site, probe), TaskEnd::Done(_)));
    // What has left its process group ends with the lease.
    let script = "setsid sh -c 'echo $$ >pid; exec sleep 1000' >/dev/null 2>&1 & \
                  until [ -s pid ]; do :; done; cat pid";
    let child = lab.script(&unit, script);
    assert!(lives(&child));
    lab.deployment.json("lease close 1 --wait");
    lab.deployment.becomes_clean();
    assert!(!lives(&child), "it is ended with the tenancy");
    lab.refused(&[&unit, "--", "/bin/true"], 3, "no service manager here has unit");
    // The unit goes round until the same machine has another tenancy.
    let (again, later, executor) = lab.lease(2);
    assert_eq!((&again, later > epoch), (&unit, true));
    let over =
        |end| matches!(refusal(end), TaskRefusal::OtherEpoch { present, .. } if present == later);
    assert!(over(executor.answers(&guest, task(&unit, epoch))));
    let late = Call {
        site: site.id(),
        unit: number(&unit),
        epoch: epoch.next(),
        step: Step::Teardown,
        number: 0,
        resource: Name::literal("node"),
        quantity: std::num::NonZeroU32::MIN,
        guest: guest.id(),
        slice: Name::literal("any"),
        lease: LeaseId { number: 1, part: 0 },
        properties: Properties::default(),
        deadline: None,
    };
    let late = Errand::Step { call: late, users: Vec::new() };
    let first = usize::from(lab.executors[1].id == executor.id);
    for killed in [false, true] {
        if killed {
            lab.executors[first].kill();
            lab.refused(&[&unit, "--", "/bin/true"], 75, "cannot be reached");
            lab.executors[first].restart();
        }
        let executor = &lab.executors[first];
        let end = executor.answers(&site, late.clone());
        assert!(matches!(&end, TaskEnd::Failed(error) if error.0.contains("has ended")), "{end:?}");
        assert!(over(executor.answers(&guest, task(&unit, epoch))));
        assert_eq!(lab.script(&unit, "echo here"), "here");
    }
}

#[test]
fn a_unit_is_down_while_its_executor_is_and_is_cleaned_when_it_is_back() {
    let mut lab = Lab::of("");
    let (unit, _, executor) = lab.lease(1);
    let first = usize::from(lab.executors[1].id == executor.id);
    lab.executors[first].kill();
    eventually(DEADLINE, "a unit that is down", || {
        let lease = lab.deployment.json("lease show guest/1");
        let probe = lease[0]["in_hand"][0]["probe"].clone();
        (probe["state"] == "down").then(|| probe["error"].to_string())
    });
    lab.deployment.json("lease close 1 --wait");
    lab.executors[first].restart();
    lab.deployment.becomes_clean();
    lab.refused(&[&unit, "--", "/bin/true"], 3, "no service manager here");
}

#[test]
fn a_site_and_a_guest_act_by_their_new_keys_and_by_no_old_ones() {
    let lab = Lab::of("");
    let (unit, epoch, executor) = lab.lease(1);
    let (guest, site) = (lab.signer("guest"), lab.signer("alpha"));
    lab.deployment.json("keys rotate alpha");
    lab.deployment.json("keys rotate guest");
    assert_eq!(lab.script(&unit, "echo here"), "here");
    // The site shows its new key with its next probe.
    eventually(DEADLINE, "the end of the old key", || {
        let end = executor.answers(&site, Errand::Probe(number(&unit)));
        matches!(end, TaskEnd::Refused(TaskRefusal::KeyNotInForce(_))).then_some(())
    });
    let end = executor.answers(&guest, task(&unit, epoch));
    assert_eq!(refusal(end), TaskRefusal::KeyNotInForce(guest.id()));
    lab.deployment.json("lease close 1 --wait");
    lab.deployment.becomes_clean();
}
