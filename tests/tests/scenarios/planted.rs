//! The scripts, graded: a planted bug that breaks no law within a hundred seeds of the fault simulator changes
//! what a script says, or is listed as one that only the tests of the protocol can find.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::panic::catch_unwind;

use tenure_tests::mutants::{Mutant, activate};
use tenure_tests::{check_golden, root};

use super::{SCRIPTS, load, perform};

/// What stands above the golden table.
const HEADER: &str = "\
# The bugs of tests/src/mutants.rs that are not in mutants.txt; for each the first script that says something
# else with the bug planted, `-` if none does, and what is wrong. Written by tests/tests/scenarios/planted.rs.
";

#[test]
fn the_table_says_which_script_finds_a_bug_that_breaks_no_law() {
    let found = fs::read_to_string(root().join("tests/golden/mutants.txt")).unwrap();
    let found: BTreeSet<&str> = found.lines().filter_map(|line| line.split(' ').next()).collect();
    let mut text = HEADER.to_owned();
    for &bug in Mutant::ALL.iter().filter(|bug| !found.contains(bug.name())) {
        let script = SCRIPTS.iter().find(|name| changes(bug, name)).unwrap_or(&"-");
        writeln!(text, "{:24} {script:28} {}", bug.name(), bug.text()).unwrap();
    }
    check_golden("tests/golden/mutants_in_scripts.txt", &text);
}

/// Whether a script says something else with a bug planted, or an actor or a law gives up.
fn changes(bug: Mutant, name: &str) -> bool {
    let (_, text) = load(name);
    activate(Some(bug));
    let run = catch_unwind(|| perform(&text));
    activate(None);
    !run.is_ok_and(|run| run.is_ok_and(|run| run.text == text))
}
