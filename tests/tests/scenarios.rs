//! The scenario scripts: stories of leases, each with the full trace of what happens.
//!
//! A script is `tests/scenarios/NAME.txt`; `docs/SCRIPTS.md` has the language. With `UPDATE_GOLDEN=1` the
//! traces are written anew: look at the difference, and commit it only if you understand it.

#[path = "scenarios/script.rs"]
mod script;
#[path = "scenarios/names.rs"]
mod names;
#[path = "scenarios/tell.rs"]
mod tell;
#[path = "scenarios/network.rs"]
mod network;
#[path = "scenarios/player.rs"]
mod player;
#[path = "scenarios/world.rs"]
mod world;
#[path = "scenarios/deployment.rs"]
mod deployment;
#[path = "scenarios/forge.rs"]
mod forge;
#[path = "scenarios/show.rs"]
mod show;
#[path = "scenarios/language.rs"]
mod language;
#[path = "scenarios/coverage.rs"]
mod coverage;

use std::fs;

use language::Stage;
use script::{Part, Script, Words};
use tenure_tests::{check_golden, root};

/// Where the scripts are.
const FOLDER: &str = "tests/scenarios";

/// A test for each script, so that the one that fails is named.
macro_rules! scripts {
    ($($name:ident)*) => {
        /// The scripts that have a test.
        const SCRIPTS: &[&str] = &[$(stringify!($name),)*];

        $(
            #[test]
            fn $name() {
                play(stringify!($name));
            }
        )*
    };
}

scripts! {
    happy_life
}

/// Plays a script and compares its traces with what it says.
fn play(name: &str) {
    let path = format!("{FOLDER}/{}.txt", name.replace('_', "-"));
    let text = fs::read_to_string(root().join(&path));
    let text = text.unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
    match perform(&text) {
        Ok(now) => check_golden(&path, &now),
        Err((line, bad)) => panic!("{path}:{line}: {bad}"),
    }
}

/// The script with the traces that its commands cause now, or what is wrong in which line.
fn perform(text: &str) -> Result<String, (usize, String)> {
    let script = Script::read(text)?;
    let (mut stage, mut traces) = (Stage::default(), Vec::new());
    for part in &script.parts {
        let Part::Block(commands) = part else { continue };
        let mut trace = Vec::new();
        for command in commands {
            let lines = stage.perform(Words::of(command)).map_err(|bad| (command.number, bad))?;
            trace.extend(lines);
        }
        traces.push(trace);
    }
    Ok(script.with_traces(&traces))
}
