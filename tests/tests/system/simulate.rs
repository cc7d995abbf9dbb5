//! The fault simulator by its command.

use serde_json::Value;
use tenure_tests::run;

fn simulate(args: &[&str]) -> Value {
    let output = run(&[&["simulate", "-o", "json"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_seed_gives_the_same_run_whatever_the_number_of_jobs() {
    let [one, two] = ["1", "2"].map(|jobs| simulate(&["--seeds", "4", "--jobs", jobs]));
    for field in ["hash", "leases", "facts", "messages", "faults", "transitions", "checks", "void"]
    {
        assert!(!one[field].is_null(), "{field}");
        assert_eq!(one[field], two[field], "{field}");
    }
    let other = simulate(&["--seeds", "4", "--start", "4"]);
    assert_ne!(one["hash"], other["hash"]);
}

#[test]
fn what_is_left_out_does_not_strike() {
    let run = simulate(&["--seeds", "2", "--without", "loss", "--without", "crash"]);
    assert!(run["faults"].as_object().is_some_and(|faults| !faults.is_empty()));
    for fault in ["message lost", "crash after append", "crash before driver call"] {
        assert!(run["faults"][fault].is_null(), "{fault}");
    }
}

#[test]
fn a_family_that_does_not_exist_is_answered_with_those_that_do() {
    let output = run(&["simulate", "--without", "rain"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("no such family") && error.contains("wild clock"), "{error}");
}

/// The seeds of `tests/seeds.txt`.
fn kept_seeds() -> Vec<u64> {
    let lines = include_str!("../../seeds.txt").lines();
    let seeds = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    seeds.map(|line| line.split_whitespace().next().unwrap().parse().expect(line)).collect()
}

#[test]
fn a_thousand_seeds_and_those_that_failed_once_break_no_law() {
    let run = simulate(&["--seeds", "1000", "--start", "10000"]);
    let number = |field: &str| run[field].as_u64().unwrap_or_default();
    assert!(number("leases") > 50_000, "{}", run["leases"]);
    let void = run["void"].as_array().map_or(0, Vec::len);
    assert!(void < 100, "{void} of 1000 seeds say nothing");
    let checks = run["checks"].as_object().unwrap();
    let asleep: Vec<_> = checks.iter().filter(|(_, count)| count.as_u64() == Some(0)).collect();
    assert!(asleep.is_empty(), "{asleep:?}");
    for seed in kept_seeds() {
        simulate(&["--seeds", "1", "--start", &seed.to_string()]);
    }
}
