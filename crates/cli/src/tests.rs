//! Whole commands, run in this process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

use serde_json::Value;

const SCENARIO: &str = r#"horizon = "3h"
term = "30m"
capacity = 4
signatures = "none"
[sweep]
term = ["15m", "30m", "1h"]
[site.alpha]
[broker.exchange]
[service-manager.web]
"#;

/// A folder that is gone when the test has ended.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str, files: &[(&str, &str)]) -> Self {
        let folder = env::temp_dir().join(format!("tenure-{}-{test}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The exit code, standard output and standard error of a command.
pub(crate) fn tenure(args: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = ["tenure"].iter().chain(args).map(OsString::from);
    let code = crate::run(args, &mut out, &mut err);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// The results of a command that must succeed, without what depends on the machine.
fn runs(args: &[&str]) -> Vec<Value> {
    let (code, out, err) = tenure(args);
    assert_eq!((code, err.as_str()), (0, ""));
    let mut results: Value = serde_json::from_str(&out).unwrap();
    let runs = results["runs"].as_array_mut().unwrap();
    for run in runs.iter_mut() {
        let run = run.as_object_mut().unwrap();
        for key in ["wall_s", "overhead_ms_per_tick"] {
            assert!(run.remove(key).unwrap().as_f64().unwrap() >= 0.0);
        }
    }
    std::mem::take(runs)
}

#[test]
fn help_and_version_are_data() {
    for args in [&["--help"][..], &["emulate", "--help"], &["workload", "show", "-h"], &["-V"]] {
        let (code, out, err) = tenure(args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        assert!(!out.is_empty(), "{args:?}");
    }
}

#[test]
fn a_wrong_command_line_is_a_matter_of_usage() {
    for args in [&[][..], &["emulate"], &["emulate", "x.toml", "--set", "term"], &["fly"]] {
        let (code, out, err) = tenure(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains("Usage: tenure") || err.contains("try '--help'"), "{err}");
    }
    let (code, _, err) = tenure(&["emulate", "x.toml", "--set", "term", "-o", "json"]);
    let error: Value = serde_json::from_str(&err).unwrap();
    assert_eq!((code, &error["error"]["help"]), (2, &Value::from("see `tenure --help`")));
}

#[test]
fn an_error_shows_its_line_and_what_to_do() {
    let folder = Folder::new("line", &[("s.toml", &SCENARIO.replace("capacity", "capacty"))]);
    let file = folder.path("s.toml");
    let (code, out, err) = tenure(&["emulate", &file]);
    assert_eq!((code, out.as_str()), (1, ""));
    let expected = format!(
        "error: unknown key `capacty`
 --> {file}:3:1
  |
3 | capacty = 4
  | ^^^^^^^
help: did you mean `capacity`? known: seed, step, horizon, term, capacity, signatures, preset, \
         margin, message, network, share, forward, workload, sweep, site, broker, service-manager\n"
    );
    assert_eq!(err, expected);
}

#[test]
fn an_error_is_json_where_the_results_would_be() {
    let folder = Folder::new("json", &[("s.toml", SCENARIO)]);
    let file = folder.path("s.toml");
    for format in ["-ojson", "--output=jsonl"] {
        let (code, out, err) = tenure(&["emulate", &file, "--set", "capacity=0", format]);
        assert_eq!((code, out.as_str()), (1, ""));
        let expected = serde_json::json!({ "error": {
            "version": 1,
            "code": "failed",
            "message": "a capacity of 0 leaves 0 to 1 sites without `units`",
            "help": "give at least one unit to each site",
            "file": file,
            "option": "--set capacity=0",
        }});
        assert_eq!(serde_json::from_str::<Value>(&err).unwrap(), expected);
    }
    fs::write(&file, SCENARIO.replace("\"3h\"", "\"3x\"")).unwrap();
    let (_, _, err) = tenure(&["emulate", &file, "-o", "json"]);
    let error = &serde_json::from_str::<Value>(&err).unwrap()["error"];
    assert_eq!((&error["line"], &error["column"]), (&Value::from(1), &Value::from(11)));
}

#[test]
fn a_mapper_that_does_not_exist_is_shown_where_it_is_chosen() {
    let folder = Folder::new("mapper", &[]);
    let file = folder.path("s.toml");
    for (mapper, column, message, help) in [
        ("name = \"fcsf\"", 19, "there is no broker mapper `fcsf`", "did you mean `fcfs`? known: "),
        (
            "placement = \"evn\"",
            24,
            "mapper `fcfs` of the broker `exchange`: unknown value `evn`",
            "did you mean `even`? known: even, first-fit",
        ),
        (
            "place = \"even\"",
            20,
            "mapper `fcfs` of the broker `exchange`: unknown key `place`",
            "did you mean `placement`? known: placement",
        ),
    ] {
        let broker = format!("[broker.exchange]\nmapper = {{ {mapper} }}");
        fs::write(&file, SCENARIO.replace("[broker.exchange]", &broker)).unwrap();
        let (code, out, err) = tenure(&["emulate", &file, "-o", "json"]);
        assert_eq!((code, out.as_str()), (1, ""));
        let error = &serde_json::from_str::<Value>(&err).unwrap()["error"];
        assert_eq!((&error["message"], &error["line"]), (&message.into(), &9.into()));
        assert_eq!(error["column"], column);
        assert!(error["help"].as_str().unwrap().starts_with(help), "{error}");
    }
}

#[test]
fn an_experiment_that_makes_no_sense_is_refused_by_its_number() {
    let folder = Folder::new("experiments", &[]);
    let file = folder.path("s.toml");
    let times = r#"at = "0s", earliest = "1h", run = "1h""#;
    for (request, what) in [
        (r#"latest = "2h", sites = []"#, "asks for units at no site"),
        (r#"latest = "30m", sites = [1]"#, "has its latest start before its earliest"),
        (
            r#"latest = "2h", sites = [1], links = [[0, 1, 1]]"#,
            "has a link to a site that is not in its list; they are counted from 0",
        ),
        (
            r#"latest = "2h", sites = [1, 2], links = [[1, 1, 1]]"#,
            "has a link from a site to itself",
        ),
    ] {
        let sound = format!(r#"{{ {times}, latest = "1h", sites = [1] }}"#);
        let requests = format!("requests = [{sound}, {{ {times}, {request} }}]");
        let guest =
            format!("[service-manager.web]\nmapper = {{ name = \"experiments\", {requests} }}");
        fs::write(&file, SCENARIO.replace("[service-manager.web]", &guest)).unwrap();
        let (code, _, err) = tenure(&["emulate", &file, "-o", "json"]);
        let error = &serde_json::from_str::<Value>(&err).unwrap()["error"];
        let message = error["message"].as_str().unwrap();
        let start = "mapper `experiments` of the service manager `web`: ";
        assert_eq!((code, message), (1, format!("{start}request 2 {what}").as_str()));
    }
}

#[test]
fn a_missing_file_is_named() {
    let folder = Folder::new("missing", &[("s.toml", SCENARIO)]);
    let (scenario, log) = (folder.path("s.toml"), folder.path("no.swf"));
    for (args, file) in [
        (&["emulate", "no.toml"][..], "no.toml"),
        (&["emulate", &scenario, "--workload", &log], &log),
    ] {
        let (code, out, err) = tenure(args);
        assert_eq!((code, out.as_str()), (1, ""));
        assert!(err.starts_with(&format!("error: cannot read {file}: ")), "{err}");
        assert!(err.contains("\nhelp: "), "{err}");
    }
}

#[test]
fn results_are_in_the_order_of_the_sweep_on_any_number_of_threads() {
    let folder = Folder::new("order", &[("s.toml", SCENARIO)]);
    let file = folder.path("s.toml");
    let one = runs(&["emulate", &file, "--threads", "1", "-o", "json"]);
    let many = runs(&["emulate", &file, "--threads", "3", "-o", "json"]);
    assert_eq!(one, many);
    let terms: Vec<&Value> = one.iter().map(|run| &run["swept"]["term"]).collect();
    assert_eq!(terms, ["15m", "30m", "1h"]);
    assert!(one.iter().all(|run| run["seed"] == 1 && run["verdict"] == "complete"));
}

#[test]
fn options_replace_what_the_file_says() {
    let folder = Folder::new("options", &[("s.toml", SCENARIO)]);
    let file = folder.path("s.toml");
    let args = ["emulate", &file, "--seed", "7", "--set", "term=20m", "-o", "json"];
    let runs = runs(&args);
    assert_eq!(runs.len(), 1);
    assert_eq!((&runs[0]["seed"], &runs[0]["term_s"]), (&Value::from(7), &Value::from(1200.0)));
    assert_eq!(runs[0]["swept"], serde_json::json!({}));
}

#[test]
fn a_log_stands_beside_its_scenario() {
    let scenario = format!("workload.file = \"load.csv\"\n{SCENARIO}");
    let log = "time,load\n0,1\n3600,3\n7200,2\n10800,1\n14400,1\n";
    let folder = Folder::new("beside", &[("s.toml", &scenario), ("load.csv", log)]);
    let file = folder.path("s.toml");
    assert!(!Path::new("load.csv").exists());
    assert_eq!(runs(&["emulate", &file, "-o", "json"]).len(), 3);

    let (code, _, err) = tenure(&["emulate", &file, "--set", "workload.offset=2d"]);
    assert_eq!(code, 1);
    assert_eq!(
        err,
        "error: the log load.csv ends at 4h, so that nothing is left from the offset 2d on\n\
         help: choose a smaller `workload.offset`\n"
    );
    let (code, _, err) = tenure(&["emulate", &file, "--set", "workload.offset=2h"]);
    assert_eq!(code, 0);
    assert_eq!(
        err,
        "warning: the log load.csv ends 2h5m after its offset of 2h, before the horizon of 3h\n"
    );
}

#[test]
fn every_format_has_every_run() {
    let folder = Folder::new("formats", &[("s.toml", SCENARIO)]);
    let file = folder.path("s.toml");
    let print = |format| {
        let (code, out, err) = tenure(&["emulate", &file, "-o", format]);
        assert_eq!((code, err.as_str()), (0, ""));
        out
    };
    let lines = print("jsonl");
    assert_eq!(lines.lines().count(), 3);
    assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));

    let rows = print("csv");
    let rows: Vec<&str> = rows.lines().collect();
    assert!(rows[0].starts_with("term,seed,term_s,") && rows[2].starts_with("30m,1,1800"));
    assert_eq!(rows.len(), 4);

    let table = print("table");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert!(table.starts_with("term  "), "{table}");
    assert!(table.contains("\nruns      3, complete\n"), "{table}");
}

#[test]
fn results_are_written_into_the_folder() {
    let folder = Folder::new("out", &[("s.toml", SCENARIO)]);
    let (file, out) = (folder.path("s.toml"), folder.path("some/results"));
    let printed = runs(&["emulate", &file, "--out", &out, "-o", "json"]);
    let written = fs::read_to_string(Path::new(&out).join("runs.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    let hashes =
        |runs: &[Value]| runs.iter().map(|r| r["journal_hash"].clone()).collect::<Vec<_>>();
    assert_eq!(hashes(written["runs"].as_array().unwrap()), hashes(&printed));

    let (code, _, err) = tenure(&["emulate", &file, "--out", &file]);
    assert_eq!(code, 1);
    assert!(err.starts_with(&format!("error: cannot write {file}: ")), "{err}");
}

#[test]
fn the_scenarios_that_come_along_are_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/emulations");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let (name, text) = (path.display().to_string(), fs::read_to_string(&path).unwrap());
        let source = tenure_config::Source { name: &name, text: &text };
        if let Err(error) = tenure_sim::scenario::parse(source, &[]) {
            panic!("{error}");
        }
        count += 1;
    }
    assert!(count >= 2);
}
