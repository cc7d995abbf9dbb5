//! `tenure simulate`: many seeds on several threads, one summary.

mod summary;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use tenure_core::model::codec::Hash;
use tenure_core::model::time::Time;
use tenure_core::runtime::journal::hash_of_run;
use tenure_sim::simulate::{self, Counts, Options, Outcome, Violation};

use crate::Console;
use crate::args::{SimulateArgs, SummaryFormat};
use crate::error::Error;
use crate::progress::Progress;
use summary::Summary;

/// How many failing seeds are shrunk and shown with their traces.
const SHOWN: usize = 3;

/// What came of all seeds together.
#[derive(Default)]
struct Total {
    counts: Counts,
    /// How often each law was checked, by its id.
    checks: BTreeMap<&'static str, u64>,
    hashes: BTreeMap<u64, Hash>,
    void: Vec<u64>,
    broken: BTreeMap<u64, Violation>,
}

/// A seed that broke a law, shrunk.
struct Failure {
    seed: u64,
    violation: Violation,
    /// The command that brings it back.
    again: String,
    trace: Vec<String>,
}

/// Runs the seeds of `args`, prints what came of them, and fails if a law was broken.
pub(crate) fn simulate(args: &SimulateArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let options = Options {
        without: args.without.iter().copied().collect(),
        until: args.until.map(|until| Time::ZERO.plus(until)),
        traced: false,
    };
    let start = Instant::now();
    let total = run_all(args, &options, console.terminal);
    let failures: Vec<Failure> = total
        .broken
        .iter()
        .take(SHOWN)
        .map(|(&seed, violation)| Failure::of(seed, violation, &options))
        .collect();
    let summary = Summary::new(args, &options, &total, &failures, start.elapsed().as_secs_f64());
    match args.output {
        SummaryFormat::Table => summary.print(console.out)?,
        SummaryFormat::Json => {
            serde_json::to_writer_pretty(&mut *console.out, &summary)
                .map_err(std::io::Error::from)?;
            writeln!(console.out)?;
        }
    }
    match failures.first() {
        None if summary.unreached.is_empty() => Ok(()),
        None => Err(Error::Unreached(summary.unreached)),
        Some(failure) => Err(Error::Broken {
            count: total.broken.len(),
            total: args.seeds.get(),
            first: format!("seed {}: {}", failure.seed, failure.violation),
            again: failure.again.clone(),
        }),
    }
}

fn run_all(args: &SimulateArgs, options: &Options, terminal: bool) -> Total {
    let seeds = args.seeds.get();
    let progress = Progress::new(seeds, terminal);
    let (next, total) = (AtomicU64::new(0), Mutex::new(Total::default()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= seeds {
                return;
            }
            let outcome = simulate::run(args.start.wrapping_add(number), options);
            total.lock().unwrap_or_else(PoisonError::into_inner).add(outcome);
            progress.one();
        }
    };
    let jobs =
        args.jobs.map_or_else(|| thread::available_parallelism().map_or(1, Into::into), Into::into);
    thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(work);
        }
        work();
    });
    progress.clear();
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Total {
    fn add(&mut self, outcome: Outcome) {
        self.counts.add(&outcome.counts);
        for (law, count) in &outcome.checks {
            *self.checks.entry(law.id).or_default() += count;
        }
        self.hashes.insert(outcome.seed, outcome.hash);
        if outcome.is_void() {
            self.void.push(outcome.seed);
        }
        if let Some(violation) = outcome.violation {
            self.broken.insert(outcome.seed, violation);
        }
    }

    /// The hash over all seeds, in order.
    fn hash(&self) -> Hash {
        hash_of_run(self.hashes.values().copied())
    }
}

impl Failure {
    fn of(seed: u64, violation: &Violation, asked: &Options) -> Self {
        let (smallest, outcome) = simulate::shrink(seed, violation, asked);
        let violation = outcome.violation.unwrap_or_else(|| violation.clone());
        Self { seed, violation, again: again(seed, &smallest), trace: outcome.trace }
    }
}

/// The command that runs a seed once more.
fn again(seed: u64, options: &Options) -> String {
    let mut again = format!("tenure simulate --seeds 1 --start {seed}");
    for family in &options.without {
        again.push_str(&format!(" --without '{family}'"));
    }
    if let Some(until) = options.until {
        again.push_str(&format!(" --until {}us", until.as_micros()));
    }
    again
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use tenure_sim::simulate::Family;

    use super::*;

    /// Ten seeds from 40 on, of which 41, 43, 45, 47 and 49 have failed.
    fn half_broken() -> (SimulateArgs, Total) {
        let args = SimulateArgs {
            seeds: NonZeroU64::new(10).unwrap(),
            start: 40,
            jobs: None,
            without: Vec::new(),
            until: None,
            output: SummaryFormat::Table,
        };
        let broken = |seed| {
            let what = format!("lease {seed}.0 is lost");
            (seed, Violation::Stuck { at: Time::from_secs(7), what })
        };
        let broken = [41, 43, 45, 47, 49].map(broken).into();
        (args, Total { broken, ..Total::default() })
    }

    #[test]
    fn every_seed_that_failed_is_reported_with_its_law_its_fault_and_its_command() {
        let (args, total) = half_broken();
        let options = Options::default();
        let failure = |(&seed, violation): (&u64, &Violation)| Failure {
            seed,
            violation: violation.clone(),
            again: format!("shrunk {seed}"),
            trace: vec![format!("step of {seed}")],
        };
        let failures: Vec<Failure> = total.broken.iter().take(SHOWN).map(failure).collect();
        let summary = Summary::new(&args, &options, &total, &failures, 0.0);
        let mut out = Vec::new();
        summary.print(&mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        for seed in [41, 43, 45, 47, 49] {
            assert!(
                out.contains(&format!("seed {seed}, L1 at 7s: lease {seed}.0 is lost")),
                "{out}"
            );
        }
        for seed in [47, 49] {
            let again = format!("again: tenure simulate --seeds 1 --start {seed}\n");
            assert!(out.contains(&again), "{out}");
        }
        assert!(out.contains("step of 45") && !out.contains("step of 47"), "{out}");
    }

    #[test]
    fn the_command_for_a_seed_names_what_was_left_out() {
        let without = [Family::ALL[0]].into();
        let until = Some(Time::from_secs(3));
        let again = again(5, &Options { without, until, ..Options::default() });
        let family = Family::ALL[0];
        let wanted = format!("--seeds 1 --start 5 --without '{family}' --until 3000000us");
        assert!(again.ends_with(&wanted), "{again}");
    }
}
