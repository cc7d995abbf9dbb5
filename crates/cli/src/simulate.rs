//! `tenure simulate`: many seeds on several threads, one summary.

mod summary;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use tenure_core::codec::Hash;
use tenure_core::journal::hash_of_run;
use tenure_core::time::Time;
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
    let summary = Summary::new(args, &total, &failures, start.elapsed().as_secs_f64());
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
        let (least, outcome) = simulate::shrink(seed, violation, asked);
        let mut again = format!("tenure simulate --seeds 1 --start {seed}");
        for family in &least.without {
            again.push_str(&format!(" --without '{family}'"));
        }
        if let Some(until) = least.until {
            again.push_str(&format!(" --until {}us", until.as_micros()));
        }
        let violation = outcome.violation.unwrap_or_else(|| violation.clone());
        Self { seed, violation, again, trace: outcome.trace }
    }
}
