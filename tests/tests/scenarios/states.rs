//! The stored form of states. A script whose traces are the same and whose states have another hash means
//! that folding, or the layout of snapshots, has changed: `tenure_core::actor::snapshot::VERSION` is raised
//! then.

use std::fmt::Write as _;
use std::fs;

use tenure_core::actor::snapshot::VERSION;
use tenure_tests::{check_golden, root};

use super::{FOLDER, SCRIPTS, perform};

#[test]
fn the_states_of_all_scripts_are_stored_as_ever() {
    let mut lines = format!("version {VERSION}\n");
    for script in SCRIPTS {
        let path = format!("{FOLDER}/{}.txt", script.replace('_', "-"));
        let text = fs::read_to_string(root().join(path)).unwrap();
        let script_run =
            perform(&text).unwrap_or_else(|(line, bad)| panic!("{script}:{line}: {bad}"));
        writeln!(lines, "{} {script}", script_run.states.to_hex()).unwrap();
    }
    check_golden("tests/golden/states.txt", &lines);
}
