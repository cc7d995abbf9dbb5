//! What is printed at the end of a simulation.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use tenure_sim::simulate::{Options, Violation, coverage};

use super::{Failure, Total, again};
use crate::args::SimulateArgs;

/// The width of a terminal that lists are made for.
const WIDTH: usize = 100;

/// All that came of a simulation, as `-o json` prints it.
#[derive(Serialize)]
pub(super) struct Summary {
    /// Grows when a field changes its meaning or goes away.
    version: u32,
    seeds: u64,
    start: u64,
    /// The seeds in which too little happened to say anything.
    void: Vec<u64>,
    leases: u64,
    messages: u64,
    facts: u64,
    faults: BTreeMap<String, u64>,
    transitions: Vec<Transition>,
    refusals: BTreeMap<String, u64>,
    points: BTreeMap<String, u64>,
    /// Points of behaviour that so many seeds should have reached.
    pub(super) unreached: Vec<&'static str>,
    /// How often each law was checked.
    checks: BTreeMap<String, u64>,
    /// The first seeds that failed, shrunk and with their traces.
    failures: Vec<Broken>,
    /// The number of seeds failed.
    broken: usize,
    /// The seeds that failed beside those in `failures`, as they ran.
    others: Vec<Other>,
    hash: String,
    wall_s: f64,
}

#[derive(Serialize)]
struct Transition {
    machine: &'static str,
    from: &'static str,
    event: &'static str,
    to: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct Broken {
    seed: u64,
    law: &'static str,
    at_s: f64,
    what: String,
    again: String,
    trace: Vec<String>,
}

/// A seed that broke a law, shown in a line.
#[derive(Serialize)]
struct Other {
    seed: u64,
    law: &'static str,
    at_s: f64,
    what: String,
    again: String,
}

impl Summary {
    pub(super) fn new(
        args: &SimulateArgs,
        options: &Options,
        total: &Total,
        failures: &[Failure],
        wall_s: f64,
    ) -> Self {
        let counts = &total.counts;
        let mut void = total.void.clone();
        void.sort_unstable();
        Self {
            version: 1,
            seeds: args.seeds.get(),
            start: args.start,
            void,
            leases: counts.leases,
            messages: counts.messages,
            facts: counts.facts,
            faults: words(counts.faults.iter().map(|(fault, &count)| (fault.word(), count))),
            transitions: counts
                .transitions
                .iter()
                .map(|(&(machine, from, event, to), &count)| Transition {
                    machine,
                    from,
                    event,
                    to,
                    count,
                })
                .collect(),
            refusals: words(counts.refusals.iter().map(|(&word, &count)| (word, count))),
            points: words(counts.points.iter().map(|(&word, &count)| (word, count))),
            unreached: if args.without.is_empty() && args.until.is_none() {
                coverage::missing(counts, args.seeds.get())
            } else {
                Vec::new()
            },
            checks: words(total.checks.iter().map(|(&law, &count)| (law, count))),
            failures: failures.iter().map(Broken::of).collect(),
            broken: total.broken.len(),
            others: total
                .broken
                .iter()
                .skip(failures.len())
                .map(|b| Other::of(b, options))
                .collect(),
            hash: total.hash().to_hex(),
            wall_s,
        }
    }

    /// Prints lists of counts, then what failed.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let moves = self.transitions.iter().map(|t| {
            let Transition { machine, from, event, to, count } = t;
            (format!("{machine}: {from} {event} {to}"), *count)
        });
        list(out, "transitions", moves)?;
        list(out, "refusals", pairs(&self.refusals))?;
        list(out, "faults", pairs(&self.faults))?;
        list(out, "other points", pairs(&self.points))?;
        let mut checks: Vec<(String, u64)> = pairs(&self.checks).collect();
        checks.sort_by_key(|(id, _)| (id.starts_with('L'), id.len(), id.clone()));
        list(out, "checks of each law", checks.into_iter())?;
        for failure in &self.failures {
            writeln!(
                out,
                "seed {}, {} at {}s: {}",
                failure.seed, failure.law, failure.at_s, failure.what
            )?;
            for line in &failure.trace {
                writeln!(out, "  {line}")?;
            }
            writeln!(out, "  again: {}\n", failure.again)?;
        }
        for Other { seed, law, at_s, what, again } in &self.others {
            writeln!(out, "seed {seed}, {law} at {at_s}s: {what}\n  again: {again}\n")?;
        }
        let Self { seeds, start, leases, messages, facts, .. } = self;
        let faults: u64 = self.faults.values().sum();
        let checks: u64 = self.checks.values().sum();
        writeln!(
            out,
            "seeds   {seeds} from {start} on, {} void, {} broken",
            self.void.len(),
            self.broken
        )?;
        writeln!(out, "did     {leases} leases active, {messages} messages, {facts} facts")?;
        writeln!(out, "faults  {faults} of {} kinds", self.faults.len())?;
        writeln!(out, "checks  {checks} of {} laws, in {:.1}s", self.checks.len(), self.wall_s)?;
        writeln!(out, "hash    {}", self.hash)
    }
}

impl Broken {
    fn of(failure: &Failure) -> Self {
        Self {
            seed: failure.seed,
            law: failure.violation.law(),
            at_s: failure.violation.at().as_secs_f64(),
            what: failure.violation.what().to_owned(),
            again: failure.again.clone(),
            trace: failure.trace.clone(),
        }
    }
}

impl Other {
    fn of((&seed, violation): (&u64, &Violation), options: &Options) -> Self {
        Self {
            seed,
            law: violation.law(),
            at_s: violation.at().as_secs_f64(),
            what: violation.what().to_owned(),
            again: again(seed, options),
        }
    }
}

fn words(counts: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<String, u64> {
    counts.map(|(word, count)| (word.to_owned(), count)).collect()
}

fn pairs(counts: &BTreeMap<String, u64>) -> impl Iterator<Item = (String, u64)> {
    counts.iter().map(|(word, &count)| (word.clone(), count))
}

/// Prints words with their counts, in as many columns as fit.
fn list(
    out: &mut dyn Write,
    title: &str,
    counts: impl Iterator<Item = (String, u64)>,
) -> io::Result<()> {
    let cells: Vec<(String, String)> =
        counts.map(|(word, count)| (word, count.to_string())).collect();
    let word = cells.iter().map(|(word, _)| word.chars().count()).max().unwrap_or(0);
    let count = cells.iter().map(|(_, count)| count.len()).max().unwrap_or(0);
    let columns = (WIDTH / (word + count + 3)).max(1);
    let rows = cells.len().div_ceil(columns);
    writeln!(out, "{title}")?;
    for row in 0..rows {
        let cells = cells.iter().skip(row).step_by(rows);
        let line: Vec<String> =
            cells.map(|(text, number)| format!("  {text:<word$} {number:>count$}")).collect();
        writeln!(out, "{}", line.concat().trim_end())?;
    }
    writeln!(out)
}
