//! `tenure journal fork`: a recorded deployment under other mappers.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::{check_block, check_golden, run, tenure};
use tenure_wait::{DEADLINE, done_in_time};

use crate::deployment::ended;

/// Two guests that want the same machines at the same hours, one of them more urgently.
const RIVALS: &str = r#"horizon = "8h"
term = "1h"
capacity = 4
signatures = "none"

[site.alpha]
units = 3
setup = "30s"

[site.beta]
setup = "90s"

[broker.exchange]

[service-manager.batch.mapper]
name = "static"
requests = [
    { at = "1h", units = 2, duration = "1h" },
    { at = "2h", units = 4, duration = "1h" },
    { at = "4h", units = 3, duration = "2h" },
    { at = "7h", units = 1, duration = "30m" },
]

[service-manager.web.mapper]
name = "static"
requests = [
    { at = "2h", units = 3, duration = "30m", properties = { priority = "5" } },
    { at = "4h", units = 2, duration = "1h", properties = { priority = "5" } },
    { at = "7h", units = 2, duration = "30m", properties = { priority = "5" } },
]
"#;

/// Everything that a scenario can let happen on the way.
const TROUBLE: &str = r#"horizon = "12h"
term = "40m"
capacity = 9
message.delay = { uniform = ["50ms", "40s"] }
message.loss = 0.15
message.duplicate = 0.1

[site.alpha]
setup = { uniform = ["30s", "5m"] }
teardown = "10s"
failure = 0.1

[site.beta]
setup = "1m"

[broker.exchange]

[service-manager.web]
join = { uniform = ["1s", "9s"] }
leave = "2s"
leave-before = "20s"
mapper = { name = "adaptive", extend-before = "10m", give-back = true }

[service-manager.batch]
"#;

/// The folder of the journals of a scenario, with its results.
fn emulated(scenario: &str) -> (TempDir, String, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, journals) = (folder.path().join("s.toml"), folder.path().join("journals"));
    fs::write(&file, scenario).expect("written");
    let (file, journals) = (file.display().to_string(), journals.display().to_string());
    let output = run(&["emulate", &file, "--journals", &journals, "-o", "json"]);
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (folder, journals, results["runs"][0].clone())
}

#[track_caller]
fn good(args: &[&str]) -> String {
    let output = run(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*error), (Some(0), ""), "{args:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    serde_json::from_str(&good(&[args, &["-o", "json"]].concat())).expect("JSON")
}

/// What a command that fails says.
#[track_caller]
fn bad(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("help:"), "{error}");
    error
}

#[test]
fn what_a_broker_that_knows_urgency_would_have_done() {
    let (_folder, journals, run) = emulated(RIVALS);
    let urgent = ["--set", "broker.exchange.mapper.name=priority"];
    let fork = ["journal", "fork", &journals, urgent[0], urgent[1]];
    let table = good(&fork);
    check_golden("tests/golden/fork.txt", &table);
    check_block("docs/JOURNAL.md", "fork", &format!("```text\n{table}```\n"));

    let found = json(&fork);
    assert_eq!(found["baseline"], "repeats the journals, fact for fact");
    let figure = |name: &str, branch: &str| {
        let totals = found["totals"].as_array().expect("figures");
        totals.iter().find(|total| total["figure"] == name).expect(name)[branch].clone()
    };
    for (ours, theirs) in
        [("refusals", "refusals"), ("wait", "mean_wait_s"), ("used", "utilization")]
    {
        assert_eq!(figure(ours, "as_it_was").as_f64(), run[theirs].as_f64(), "{ours}");
    }
    // The other branch is the same as an emulation under that mapper from the beginning.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("s.toml");
    fs::write(&file, RIVALS).expect("written");
    let again = json(&["emulate", &file.display().to_string(), urgent[0], urgent[1]]);
    let again = &again["runs"][0];
    assert_eq!(figure("wait", "changed").as_f64(), again["mean_wait_s"].as_f64());
    assert_eq!(figure("refusals", "changed").as_f64(), again["refusals"].as_f64());
    assert_ne!(found["differences"].as_array().map(Vec::len), Some(0));

    // What had ended by then is not decided again.
    let late = json(&[&fork[..], &["--at", "3h"]].concat());
    let all = found["differences"].as_array().expect("a list");
    let late = late["differences"].as_array().expect("a list");
    assert!(!late.is_empty() && late.len() < all.len(), "{late:?}");
    for form in ["jsonl", "csv"] {
        let lines = good(&[&fork[..], &["-o", form]].concat()).lines().count();
        assert_eq!(lines, all.len() + usize::from(form == "csv"), "{form}");
    }
}

#[test]
fn with_nothing_changed_an_emulation_repeats_itself_from_any_moment() {
    for scenario in [RIVALS, TROUBLE] {
        let (_folder, journals, _) = emulated(scenario);
        for at in [
            &[][..],
            &["--at", "1h"],
            &["--at", "2h5m7.5s"],
            &["--at", "4h0.1s"],
            &["--at", "7h50m"],
        ] {
            let found = json(&[&["journal", "fork", &journals], at].concat());
            assert_eq!(found["baseline"], "repeats the journals, fact for fact", "{at:?}");
            assert_eq!(found["differences"].as_array().map(Vec::len), Some(0), "{at:?}");
        }
        let table = good(&["journal", "fork", &journals]);
        assert!(table.contains("nothing would have ended differently"), "{table}");
    }
}

#[test]
fn mappers_of_guests_and_sites_can_be_changed_too() {
    let (_folder, journals, _) = emulated(TROUBLE);
    let set = "service-manager.batch.mapper.term=2h";
    let found = json(&["journal", "fork", &journals, "--at", "2h", "--set", set]);
    assert_eq!(found["changed"][0]["actor"], "service manager batch");
    let differences = found["differences"].as_array().expect("a list");
    let of_batch = |d: &&Value| d["request"].as_str().is_some_and(|r| r.starts_with("batch/"));
    assert!(differences.iter().filter(of_batch).count() > 1, "{differences:?}");
    let set = "site.alpha.mapper={ name = \"first-fit\" }";
    let found = json(&["journal", "fork", &journals, "--set", set]);
    assert_eq!(found["differences"].as_array().map(Vec::len), Some(0));
}

#[test]
fn what_cannot_be_forked_is_reported_with_what_to_do() {
    let (folder, journals, _) = emulated(RIVALS);
    let fork = |args: &[&str]| bad(&[&["journal", "fork"], args].concat());
    let missing = folder.path().join("missing").display().to_string();
    assert!(fork(&[&missing]).contains("there is no journal"));
    let scenario = folder.path().join("s.toml").display().to_string();
    assert!(fork(&[&scenario]).contains("says what the deployment ran with"));
    assert!(fork(&[&journals, "--at", "9d"]).contains("the journals end before 9d"));
    let broker = format!("{journals}/broker.exchange.journal");
    assert!(fork(&[&broker]).contains("there is no journal of the site authority `alpha`"));
    let set = ["--set", "broker.exchange.mapper.name=fcsf"];
    assert!(fork(&[&journals, set[0], set[1]]).contains("did you mean `fcfs`?"));
    let set = ["--set", "site.alpha.units=2"];
    assert!(fork(&[&journals, set[0], set[1]]).contains("changes more than a mapper"));
    let set = ["--set", "broker.other.mapper.name=fcfs"];
    assert!(fork(&[&journals, set[0], set[1]]).contains("no broker `other`"));
    fs::write(&scenario, RIVALS.replace("8h", "9h")).expect("written");
    let error = fork(&[&journals, "--scenario", &scenario]);
    assert!(error.contains("were not made with"), "{error}");
    fs::write(&scenario, RIVALS).expect("written");
    good(&["journal", "fork", &journals, "--scenario", &scenario]);

    let kept = Path::new(&journals).join("scenario.toml");
    let mut text = fs::read_to_string(&kept).expect("what was emulated");
    text.insert_str(0, "seed = 7\n");
    fs::write(&kept, &text).expect("written");
    assert!(fork(&[&journals]).contains("is that of another deployment"));
    text = RIVALS.replace("service-manager.web", "service-manager.shop");
    fs::write(&kept, &text).expect("written");
    assert!(fork(&[&journals]).contains("the service manager `web` is not part of"));
}

/// A live deployment whose units are only pretended, so that it is quick.
const LIVE: &str = r#"margin = "10ms"
retry = "100ms"

[site.alpha]
units = 2

[site.beta]
units = 2

[broker.exchange]

[service-manager.guest]
leave-before = "0s"
"#;

/// Stopped, whether or not the test passes.
struct Live(Child);

impl Live {
    fn on(config: &Path, data: &Path) -> Self {
        let mut process = Command::new(tenure())
            .args(["up", "--config"])
            .arg(config)
            .arg("--data")
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .expect("tenure up");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let is_ready = || lines.map_while(Result::ok).any(|line| line.contains("leases stay"));
        let ready = done_in_time(DEADLINE, "a start", is_ready);
        assert!(ready, "tenure up ended before it was ready");
        Self(process)
    }

    fn stop(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").arg(&pid).status().is_ok_and(|status| status.success()));
        assert_eq!(ended(&mut self.0), Some(0));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn files(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_live_deployment_is_forked_while_it_runs_and_when_it_is_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, data) = (folder.path().join("c.toml"), folder.path().join("data"));
    fs::write(&config, LIVE).expect("written");
    let live = Live::on(&config, &data);
    let name = data.display().to_string();
    let lease = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        run(&[&["lease"], &words[..], &["--data", &name]].concat()).status.code()
    };
    assert_eq!(lease("request 2 --for 1h --wait"), Some(0));
    assert_eq!(lease("request 2 --for 1h --wait --where nothing=1"), Some(3));
    assert_eq!(lease("request 1 --for 1h --wait"), Some(0));
    assert_eq!(lease("close 1 --wait"), Some(0));
    let packed = ["--set", "broker.exchange.mapper.placement=first-fit"];
    let fork = |set: &[&str]| {
        let before = files(&data.join("journals"));
        let found = json(&[&["journal", "fork", &name], set].concat());
        assert_eq!(files(&data.join("journals")), before);
        found
    };
    let check = || {
        let same = fork(&[]);
        assert_eq!(same["baseline"], "3 of 3 requests end as the journals have it");
        assert_eq!(same["differences"].as_array().map(Vec::len), Some(0), "{same}");
        let found = fork(&packed);
        let differences = found["differences"].as_array().expect("a list");
        let first = &differences[0];
        assert_eq!(first["request"], "guest/1", "{found}");
        let sites = |branch: &str| -> Vec<String> {
            let leases = first[branch]["leases"].as_array().expect("leases");
            leases.iter().map(|l| format!("{} {}", l["units"], l["site"])).collect()
        };
        assert_eq!(sites("as_it_was"), ["1 \"alpha\"", "1 \"beta\""]);
        assert_eq!(sites("changed"), ["2 \"alpha\""]);
        // It was given back by its user, and is so in the other branch.
        assert_eq!(first["changed"]["leases"][0]["ended"], "given-back");
    };
    check();
    live.stop();
    check();
    assert!(data.join("config.toml").is_file());
    let error = bad(&["journal", "fork", &name, "--at", "2020-02-02T02:02:02Z"]);
    assert!(error.contains("at 2020-02-02T02:02:02Z not every actor had started"), "{error}");
    let other = folder.path().join("other.toml");
    fs::write(&other, LIVE.replace("units = 2", "units = 3")).expect("written");
    let other = other.display().to_string();
    let error = bad(&["journal", "fork", &name, "--config", &other]);
    assert!(error.contains("did not run with"), "{error}");
}
