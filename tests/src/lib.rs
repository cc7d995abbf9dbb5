//! What the whole-system tests share: golden files, the built command, and the bugs that are planted.

pub mod mutants;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Compares `text` with a golden file, or writes the file when `UPDATE_GOLDEN` is set: look at the
/// difference before you commit it.
///
/// # Panics
/// If they differ.
pub fn check_golden(path: &str, text: &str) {
    let file = root().join(path);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, text).unwrap_or_else(|e| panic!("cannot write {path}: {e}"));
    }
    let golden = fs::read_to_string(&file).unwrap_or_else(|e| panic!("cannot read {path}: {e}"));
    let differs = golden.lines().zip(text.lines()).position(|(a, b)| a != b);
    if golden != text {
        let line = differs.unwrap_or_else(|| golden.lines().count().min(text.lines().count()));
        panic!(
            "{path} differs from line {} on; run the test with UPDATE_GOLDEN=1 to rewrite it\n\
             golden: {}\nnow:    {}",
            line + 1,
            golden.lines().nth(line).unwrap_or("(end)"),
            text.lines().nth(line).unwrap_or("(end)"),
        );
    }
}

/// Compares what stands in a document between `<!-- name -->` and `<!-- /name -->`, as
/// [`check_golden`] does.
///
/// # Panics
/// If it differs, or the marks are not there.
pub fn check_block(path: &str, name: &str, block: &str) {
    let file = root().join(path);
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("cannot read {path}: {e}"));
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let parts = text
        .split_once(&open)
        .and_then(|(head, rest)| rest.split_once(&close).map(|(_, tail)| (head, tail)));
    let Some((head, tail)) = parts else { panic!("{path} has no block `{name}`") };
    check_golden(path, &format!("{head}{open}{block}{close}{tail}"));
}

/// Numbers that follow from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// The next one.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next one below a bound, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.draw() % bound as u64).unwrap_or(0)
    }

    /// One of several things, of which there is at least one.
    pub fn one_of<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.below(things.len())]
    }
}

/// What an environment variable sets a test to, if it does.
pub fn setting(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// The `tenure` command, as built beside this test.
///
/// # Panics
/// If it has not been built.
pub fn tenure() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).expect("tests are in target/*/deps");
    let binary = folder.join("tenure");
    assert!(binary.exists(), "{} is missing; run `cargo build` first", binary.display());
    binary
}

/// Runs `tenure` with `args` in the root of the repository.
///
/// # Panics
/// If it cannot be started.
pub fn run(args: &[&str]) -> Output {
    let mut command = Command::new(tenure());
    command.args(args).current_dir(root()).env("NO_COLOR", "1");
    command.output().expect("tenure starts")
}

/// Runs `tenure emulate SCENARIO -o json` with overrides, and answers its exit code and its runs.
///
/// # Panics
/// If what it prints is not what it promises.
pub fn emulate(scenario: &str, overrides: &[&str]) -> (i32, Vec<serde_json::Value>) {
    let mut args = vec!["emulate", scenario, "-o", "json"];
    for set in overrides {
        args.extend(["--set", set]);
    }
    let output = run(&args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{args:?} printed no JSON: {error}\n{stderr}"));
    let runs = json["runs"].as_array().unwrap_or_else(|| panic!("{args:?}: no runs")).clone();
    (output.status.code().unwrap_or(-1), runs)
}
