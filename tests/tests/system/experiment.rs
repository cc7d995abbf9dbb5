//! The lease-term experiment against a second calculation that knows nothing of the protocol.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tenure_tests::{emulate, root, run, tenure};

use crate::deployment::ended;

const CAPACITY: u32 = 24;
const STEP: u64 = 300;
const HORIZON: u64 = 3 * 86_400;
const TERMS: [(&str, u64); 4] = [("1h", 3_600), ("5h", 18_000), ("12h", 43_200), ("1d", 86_400)];

/// A log of jobs as a small machine might have had them, the same at every call.
struct Jobs(Vec<(u64, u64, u64, u64)>);

impl Jobs {
    /// (submit, wait, run time, processors) from a linear congruential generator.
    fn generate() -> Self {
        let mut state = 12_345u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut submit = 0;
        let jobs = (0..700).map(|_| {
            submit += draw(1_000);
            (submit, draw(2_000), 60 + draw(30_000), 1 + draw(9))
        });
        Self(jobs.collect())
    }

    fn swf(&self) -> String {
        let mut text = "; Computer: a small one\n; MaxProcs: 64\n".to_owned();
        for (number, (submit, wait, time, procs)) in self.0.iter().enumerate() {
            let rest = "-1 -1 -1 -1 -1 1 1 1 -1 -1 -1 -1 -1";
            writeln!(text, "{number} {submit} {wait} {time} {procs} {rest}").unwrap();
        }
        text
    }

    /// Processors in use at each step.
    fn in_use(&self) -> Vec<u64> {
        let at = |t: u64| {
            let running = self.0.iter().filter(|(submit, wait, time, _)| {
                let start = submit + wait;
                start <= t && t < start + time
            });
            running.map(|job| job.3).sum()
        };
        (0..HORIZON / STEP).map(|k| at(k * STEP)).collect()
    }
}

/// What the experiment must give: error, units set up, requests.
fn by_hand(signal: &[u64], term: u64) -> (f64, u64, u64) {
    let peak = *signal.iter().max().unwrap();
    let demand = signal.iter().map(|&s| {
        let scaled = s as f64 * f64::from(CAPACITY) / peak as f64;
        (scaled + 0.5).floor() as i64
    });
    let mut leases: Vec<(u64, i64)> = Vec::new();
    let (mut squares, mut setups, mut requests) = (0.0, 0, 0);
    for (k, needed) in demand.enumerate() {
        let t = k as u64 * STEP;
        let held: i64 = leases.iter().filter(|(start, _)| t < start + term).map(|l| l.1).sum();
        let ask = (needed - held).max(0);
        if ask > 0 {
            leases.push((t, ask));
            setups += ask as u64;
            requests += 1;
        }
        let error = (held + ask - needed) as f64;
        squares += error * error;
    }
    ((squares / signal.len() as f64).sqrt(), setups, requests)
}

fn write(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    path
}

/// The scenario of one test, in files of its own: tests run side by side.
fn scenario(test: &str, signatures: &str) -> PathBuf {
    let log = write(&format!("{test}.swf"), &Jobs::generate().swf());
    let text = format!(
        "step = {STEP}\nhorizon = {HORIZON}\nterm = \"1h\"\ncapacity = {CAPACITY}\n\
         signatures = \"{signatures}\"\n[workload]\nfile = \"{}\"\n\
         [sweep]\nterm = [\"1h\", \"5h\", \"12h\", \"1d\"]\n\
         [site.a]\n[site.b]\n[broker.x]\n[service-manager.g]\n",
        log.display()
    );
    write(&format!("{test}-{signatures}.toml"), &text)
}

fn number(run: &Value, key: &str) -> f64 {
    run[key].as_f64().unwrap_or_else(|| panic!("{key} is not a number in {run}"))
}

#[test]
fn every_message_and_signature_agrees_with_the_calculation_by_hand() {
    let signal = Jobs::generate().in_use();
    let (code, runs) =
        emulate(scenario("every_message_and_signat", "ed25519").to_str().unwrap(), &[]);
    assert_eq!((code, runs.len()), (0, TERMS.len()));
    for (run, (name, term)) in runs.iter().zip(TERMS) {
        let (rmse, setups, requests) = by_hand(&signal, term);
        assert_eq!(run["swept"]["term"], name);
        assert!((number(run, "rmse") - rmse).abs() < 1e-9, "{name}: {} and {rmse}", run["rmse"]);
        assert_eq!(run["setups"], setups, "{name}");
        assert_eq!(run["requests"], requests, "{name}");
        assert_eq!(run["refusals"], 0, "{name}");
        assert_eq!(run["verdict"], "complete", "{name}");
        assert!(number(run, "signatures_made") >= number(run, "messages"), "{name}");
        assert!(number(run, "signatures_checked") >= number(run, "messages"), "{name}");
    }
}

#[test]
fn without_signatures_the_figures_are_the_same_and_none_is_made() {
    let (_, signed) =
        emulate(scenario("without_signatures_the_f", "ed25519").to_str().unwrap(), &[]);
    let (_, unsigned) =
        emulate(scenario("without_signatures_the_f", "none").to_str().unwrap(), &[]);
    for (signed, unsigned) in signed.iter().zip(&unsigned) {
        for key in ["rmse", "requests", "setups", "teardowns", "unit_flips", "messages", "facts"] {
            assert_eq!(signed[key], unsigned[key], "{key}");
        }
        assert_eq!(unsigned["signatures_made"], 0);
        assert_eq!(unsigned["signatures_checked"], 0);
    }
}

fn hashes(runs: &[Value]) -> Vec<String> {
    runs.iter().map(|run| run["journal_hash"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn neither_threads_nor_the_order_of_a_sweep_change_a_hash() {
    let scenario = scenario("neither_threads_nor_the_", "none");
    let path = scenario.to_str().unwrap();
    let (_, runs) = emulate(path, &[]);
    let (_, again) = emulate(path, &["sweep.term=[\"1d\", \"12h\", \"5h\", \"1h\"]"]);
    let mut turned = hashes(&again);
    turned.reverse();
    assert_eq!(hashes(&runs), turned);
    let alone = run(&["emulate", path, "-o", "json", "--threads", "1"]);
    let alone: Value = serde_json::from_slice(&alone.stdout).unwrap();
    assert_eq!(hashes(&runs), hashes(alone["runs"].as_array().unwrap()));
}

#[test]
fn a_swept_key_that_is_set_is_not_swept_any_more() {
    let (_, runs) =
        emulate(scenario("a_swept_key_that_is_set_", "none").to_str().unwrap(), &["term=12h"]);
    assert_eq!(runs.len(), 1);
    assert_eq!(number(&runs[0], "term_s"), 43_200.0);
}

#[test]
fn another_seed_gives_another_hash() {
    let path = scenario("another_seed_gives_anoth", "none");
    let (_, one) = emulate(path.to_str().unwrap(), &["term=12h", "seed=1"]);
    let (_, two) = emulate(path.to_str().unwrap(), &["term=12h", "seed=2"]);
    assert_ne!(hashes(&one), hashes(&two));
    assert_eq!(one[0]["rmse"], two[0]["rmse"]);
}

#[test]
fn a_reader_that_stops_reading_is_no_fault() {
    let shown = ["workload", "show", "config/emulations/quick.toml"];
    let emulated = ["emulate", "config/emulations/quick.toml", "-o", "json"];
    for (args, code) in [(&emulated[..], 0), (&shown[..], 1)] {
        let mut command = Command::new(tenure());
        command.args(args).current_dir(root()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(ended(&mut child), Some(code), "{args:?}");
    }
}

#[test]
fn with_units_given_back_long_leases_follow_the_demand_with_few_setups() {
    let of = |scenario: &str, overrides: &[&str]| {
        let (code, runs) = emulate(scenario, &[&["horizon=3d"], overrides].concat());
        assert_eq!(code, 0);
        let figure = |name: &'static str| move |run: &Value| run[name].as_f64().unwrap();
        let figures = |name| runs.iter().map(figure(name)).collect::<Vec<_>>();
        (figures("rmse"), figures("setups"))
    };
    let (hourly, often) = of("config/emulations/lease-term.toml", &["term=1h", "signatures=none"]);
    let (errors, setups) = of("config/emulations/give-back.toml", &[]);
    assert!(errors[0] < 0.01 && errors[0] < hourly[0], "{errors:?}, hourly {hourly:?}");
    assert!(setups[0] < often[0] / 2.0, "{setups:?}, hourly {often:?}");
    assert!(errors.is_sorted() && setups.is_sorted_by(|a, b| a >= b), "{errors:?}, {setups:?}");
}
