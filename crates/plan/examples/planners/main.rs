//! How fast plans are found and proven, beside other solvers where they are installed.
//!
//! ```text
//! cargo run --release -p tenure-plan --example planners -- frames [REQUESTS] [RIVALS' REQUESTS]
//! cargo run --release -p tenure-plan --example planners -- domains [REQUESTS]
//! cargo run --release -p tenure-plan --example planners -- nodes [NODES]
//! cargo run --release -p tenure-plan --example planners -- items [ITEMS]
//! cargo run --release -p tenure-plan --example planners -- sets FOLDER [SECONDS]
//! ```
//!
//! `frames` plans requests of five types, each at ten starts, over the star network of Takefusa et al. (2009)
//! with bookings at random, and prints what a request takes for each type. The first of them are also written as
//! mixed integer programs and solved by `glpsol` and `cbc`, each frame by a process of its own, of which the
//! start counts; the prices are compared. Times are of the processor here, and of the clock for the others.
//! `domains` has requests planned by a coordinator of three domains that show no inner edges, and by one who sees
//! all of them: how many have a plan, and at what price.
//! `nodes` places 200 parts of four dimensions on nodes that are filled in part, `items` puts items into bins by
//! first-fit, `sets` solves published problems (see `sets`). Each prints JSON, a line for each figure.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is what the example is for")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement has a clock"
)]
#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to say")]

mod domains;
mod frames;
mod sets;

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tenure_plan::{Problem, Settings, Solver, Term, solve};

/// The seed of all that is drawn.
pub(crate) const SEED: u64 = 2009;

/// Numbers of `SplitMix64` (Steele et al., 2014).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }
}

fn main() {
    let mut args = env::args().skip(1);
    let mode = args.next().unwrap_or_else(|| "frames".to_owned());
    let mut number = |otherwise| args.next().map_or(otherwise, |arg| arg.parse::<usize>().unwrap());
    match mode.as_str() {
        "frames" => frames::frames(number(500), number(20)),
        "domains" => domains::domains(number(400)),
        "nodes" => nodes(number(8000)),
        "items" => items(number(1_000_000)),
        "sets" => {
            let folder = args.next().expect("name the folder of the sets");
            let seconds = args.next().map_or(1.0, |seconds| seconds.parse().unwrap());
            sets::sets(Path::new(&folder), Duration::from_secs_f64(seconds));
        }
        other => panic!("`{other}` is none of frames, domains, nodes, items, sets"),
    }
}

/// What this thread has had of the processor.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// How long requests of one kind took.
#[derive(Default)]
pub(crate) struct Times {
    of: Vec<Duration>,
    /// The steps of all of them.
    pub(crate) steps: u64,
}

impl Times {
    pub(crate) fn push(&mut self, took: Duration, steps: u64) {
        self.of.push(took);
        self.steps += steps;
    }

    pub(crate) fn count(&self) -> usize {
        self.of.len()
    }

    pub(crate) fn sum(&self) -> f64 {
        self.of.iter().sum::<Duration>().as_secs_f64()
    }

    pub(crate) fn figures(&self) -> String {
        let most = self.of.iter().max().copied().unwrap_or_default().as_secs_f64() * 1000.0;
        let mean = self.sum() * 1000.0 / self.of.len().max(1) as f64;
        let count = self.of.len();
        format!("\"count\": {count}, \"mean_ms\": {mean:.3}, \"max_ms\": {most:.3}")
    }
}

/// Amounts of four dimensions.
fn amounts(mut draw: impl FnMut() -> u64) -> BTreeMap<String, u64> {
    (0..4).map(|dimension| (format!("d{dimension}"), draw())).collect()
}

/// Parts of four dimensions on nodes that are filled in part.
fn nodes(count: usize) {
    let mut numbers = Numbers(SEED);
    let place = |number: usize, numbers: &mut Numbers| json!({"name": format!("n{number}"), "capacity": amounts(|| numbers.below(65))});
    let places: Vec<Value> = (0..count).map(|number| place(number, &mut numbers)).collect();
    let part = |number: usize, numbers: &mut Numbers| json!({"name": format!("p{number}"), "needs": amounts(|| 1 + numbers.below(32))});
    let parts: Vec<Value> = (0..200).map(|number| part(number, &mut numbers)).collect();
    let problem = json!({"name": "nodes", "objective": ["nodes"], "place": places, "part": parts});
    time(&serde_json::from_value(problem).unwrap(), Solver::Auto);
}

/// Items of one dimension, each of its own size, by first-fit.
fn items(count: usize) {
    let mut numbers = Numbers(SEED);
    let part =
        |number: usize, size: u64| json!({"name": format!("i{number}"), "needs": {"size": size}});
    let parts: Vec<Value> = (0..count).map(|number| part(number, 1 + numbers.below(100))).collect();
    let place = json!({"name": "bin", "count": count, "capacity": {"size": 150}});
    let problem = json!({"name": "items", "objective": ["nodes"], "place": [place], "part": parts});
    time(&serde_json::from_value(problem).unwrap(), Solver::FirstFit);
}

fn time(problem: &Problem, solver: Solver) {
    let began = processor_time();
    let answer = solve(problem, &Settings { solver, ..Settings::default() }).unwrap();
    let took = (processor_time() - began).as_secs_f64() * 1000.0;
    println!(
        "{{\"problem\": \"{}\", \"status\": \"{:?}\", \"nodes\": {}, \"ms\": {took:.0}}}",
        problem.name,
        answer.status,
        answer.objective.unwrap().get(Term::Nodes).unwrap(),
    );
}
