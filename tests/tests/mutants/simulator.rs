//! The fault simulator, graded: with a bug planted, a law is broken within a hundred seeds, or the bug is one
//! that only the scripts find.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tenure_sim::simulate::{Family, Options, Violation, run};
use tenure_tests::mutants::{Mutant, activate};
use tenure_tests::{check_golden, root};

/// How many seeds, from 0 on, every bug must be found in.
const BOUND: u64 = 100;

/// What stands above the golden table.
const HEADER: &str = "\
# The bugs of tests/src/mutants.rs that no script is known to find; for each the first seed of the fault simulator, counted from 1, that
# breaks a law with the bug planted, the law, and what is wrong. Written by tests/tests/mutants/simulator.rs.
";

/// What a seed finds wrong with a bug, or with none. Connections are left out: what they lose other
/// families lose too; takeovers and absences, which end as crashes do; and what others do to services,
/// which looks as if drivers failed.
fn broken(bug: Option<Mutant>, seed: u64) -> Option<Violation> {
    activate(bug);
    let without = [Family::Connection, Family::Takeover, Family::Absence, Family::Foreign];
    let options = Options { without: without.into(), ..Options::default() };
    run(seed, &options).violation
}

/// The first seed, counted from 1, that finds a bug, and the law that it breaks.
fn found(bug: Mutant) -> Option<(u64, &'static str)> {
    (0..BOUND).find_map(|seed| Some((seed + 1, broken(Some(bug), seed)?.law())))
}

/// Does all of the work on two threads; answers what came of it, in its order.
fn in_parallel<W: Sync, R: Send>(work: &[W], job: impl Fn(&W) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let place = || next.fetch_add(1, Ordering::Relaxed);
        let mine = std::iter::repeat_with(place).map_while(|at| Some((at, job(work.get(at)?))));
        mine.collect::<Vec<_>>()
    };
    let mut done = thread::scope(|scope| {
        let workers = [scope.spawn(worker), scope.spawn(worker)];
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

/// A bug of the table of the scripts, with the script that finds it, or `-`.
fn listed(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    Some((words.next()?, words.next()?))
}

#[test]
fn a_planted_bug_breaks_a_law_within_a_hundred_seeds_or_is_listed_with_the_scripts() {
    let in_scripts =
        fs::read_to_string(root().join("tests/golden/mutants_in_scripts.txt")).unwrap();
    let in_scripts: BTreeMap<&str, &str> = in_scripts.lines().filter_map(listed).collect();
    let by_script = |bug: &Mutant| in_scripts.get(bug.name()).is_some_and(|script| *script != "-");
    // A hundred seeds for each of those that only scripts find would take most of the time.
    let bugs: Vec<Mutant> = Mutant::ALL.iter().copied().filter(|bug| !by_script(bug)).collect();
    let mut text = HEADER.to_owned();
    let mut unfound = Vec::new();
    for (bug, found) in bugs.iter().zip(in_parallel(&bugs, |&bug| found(bug))) {
        let Some((seeds, law)) = found else {
            unfound.push(bug.name());
            continue;
        };
        writeln!(text, "{:24} {seeds:>3} {law:5} {}", bug.name(), bug.text()).unwrap();
    }
    check_golden("tests/golden/mutants.txt", &text);
    unfound.retain(|bug| !in_scripts.contains_key(bug));
    assert!(
        unfound.is_empty(),
        "not found within {BOUND} seeds, and not in the list of the scripts: {unfound:?}"
    );
}

#[test]
fn without_a_bug_the_same_seeds_break_no_law() {
    let seeds: Vec<u64> = (0..BOUND).collect();
    let broken =
        in_parallel(&seeds, |&seed| broken(None, seed).map(|what| format!("{seed}: {what}")));
    let broken: Vec<_> = broken.into_iter().flatten().collect();
    assert!(broken.is_empty(), "{broken:?}");
}
