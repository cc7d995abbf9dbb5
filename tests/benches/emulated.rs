//! How many leases of one unit live in a second of processor time in an emulation, and what it keeps of each.
//!
//! `config/emulations/short-leases.toml`, with signatures and without, at two lengths. Each run is a process of
//! its own. One line of JSON for each, and one for each pair: neither rate nor memory should depend on the
//! length.

#![allow(clippy::print_stdout, reason = "it prints what it has measured")]
#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to say")]

use std::process::Command;
use std::{env, fs};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tenure_config::{Override, Source};
use tenure_sim::emulation::{Emulation, Inputs, Progress};
use tenure_sim::report::RunVerdict;
use tenure_sim::scenario::{Scenario, Workload, parse};
use tenure_sim::workload::demand;
use tenure_tests::root;

/// The lengths of the runs, in seconds of virtual time.
const HORIZONS: [(&str, [u64; 2]); 2] = [("none", [2_000, 20_000]), ("ed25519", [400, 4_000])];
/// Marks a run: the signatures and the length follow.
const RUN: &str = "run";

fn main() {
    let args: Vec<String> = env::args().collect();
    if let Some(place) = args.iter().position(|arg| arg == RUN) {
        println!("{}", run(&args[place + 1], &args[place + 2]));
        return;
    }
    for (signatures, horizons) in HORIZONS {
        let [short, long] = horizons.map(|horizon| {
            let measured = in_process(signatures, horizon);
            println!("{measured}");
            measured
        });
        let figure = |of: &Value, name: &str| of[name].as_f64().unwrap();
        let grown = |name| figure(&long, name) - figure(&short, name);
        let rates = figure(&long, "lives_per_cpu_s") / figure(&short, "lives_per_cpu_s");
        let kept = grown("peak_bytes") / grown("lives");
        println!(
            "{}",
            json!({"signatures": signatures, "rate_long_to_short": rates, "bytes_kept_per_life": kept})
        );
    }
}

/// Runs one scenario in a process of its own.
fn in_process(signatures: &str, horizon: u64) -> Value {
    let horizon = horizon.to_string();
    let child = Command::new(env::current_exe().unwrap());
    let output = { child }.args([RUN, signatures, &horizon]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn run(signatures: &str, horizon: &str) -> Value {
    let scenario = scenario(signatures, horizon);
    let inputs = Inputs { demand: demands(&scenario), ..Inputs::default() };
    let before = cpu_seconds();
    let mut emulation = Emulation::new(&scenario, &inputs).unwrap();
    while emulation.step().unwrap() != Progress::Done {}
    let took = cpu_seconds() - before;
    let peak = peak_bytes();
    let report = emulation.report();
    assert_eq!(report.verdict, RunVerdict::Complete);
    json!({
        "signatures": signatures,
        "lives": report.setups,
        "lives_per_cpu_s": report.setups as f64 / took,
        "facts_per_life": report.facts as f64 / report.setups as f64,
        "signed_per_life": report.signatures_made as f64 / report.setups as f64,
        "checked_per_life": report.signatures_checked as f64 / report.setups as f64,
        "peak_bytes": peak,
        "journal_hash": report.journal_hash,
    })
}

fn scenario(signatures: &str, horizon: &str) -> Scenario {
    let name = "config/emulations/short-leases.toml";
    let text = fs::read_to_string(root().join(name)).unwrap();
    let set = |key, value| Override::text(key, value, "--set");
    let overrides = [set("signatures", signatures), set("horizon", horizon)];
    let points = parse(Source { name, text: &text }, &overrides).unwrap();
    points.into_iter().next().unwrap().scenario
}

/// What each guest needs.
fn demands(
    scenario: &Scenario,
) -> std::collections::BTreeMap<tenure_core::model::name::Name, Vec<u32>> {
    let Scenario { seed, step, horizon, .. } = *scenario;
    let guests = scenario.service_managers.iter().map(|(name, guest)| {
        let Workload::Wave(wave) = &guest.workload else { panic!("the demand is a wave") };
        (name.clone(), demand(&wave.signal(seed, step, horizon), guest.peak))
    });
    guests.collect()
}

/// The processor time of this process so far.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// The most memory that this process has had.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
