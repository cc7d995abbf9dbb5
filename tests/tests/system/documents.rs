//! The documents: every command in them works, every file they name exists.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tenure_tests::{root, tenure};

/// Commands that run the tests themselves, or build the release: they are the first thing a new user
/// types, and are run unchanged before a release.
const NOT_HERE: [&str; 8] = [
    "scripts/test",
    "scripts/demo",
    "scripts/bench",
    "scripts/soak",
    "scripts/cluster",
    "scripts/planners",
    "scripts/services",
    "scripts/lab",
];

fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md"), root().join("CHANGELOG.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The blocks of one language in a document, each with the line it begins on.
fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let (mut blocks, mut open) = (Vec::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                let wanted = info.trim() == language;
                open = Some((number, wanted, String::new()));
            }
            (Some((begun, wanted, block)), Some("")) => {
                if *wanted {
                    blocks.push((*begun, std::mem::take(block)));
                }
                open = None;
            }
            (Some((.., block)), _) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

fn run_block(path: &Path, line: usize, block: &str) {
    let folder = tenure().parent().unwrap().to_owned();
    let search = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", block])
        .current_dir(root())
        .env("PATH", search)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}:{line}: this block failed ({}):\n{block}\n{}",
        path.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn every_command_in_the_documents_works() {
    let mut count = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for (line, block) in blocks(&text, "sh") {
            if NOT_HERE.iter().any(|script| block.contains(script)) {
                continue;
            }
            run_block(&path, line, &block);
            count += 1;
        }
    }
    assert!(count > 0, "no document holds a command");
}

#[test]
fn scripts_that_the_readme_names_can_be_run() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let commands: Vec<String> = blocks(&readme, "sh").into_iter().map(|(_, block)| block).collect();
    for script in ["scripts/test", "scripts/demo"] {
        assert!(commands.iter().any(|block| block.trim() == script), "no block is `{script}`");
        let path = root().join(script);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("#!"), "{script} is no script");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            let file = path.parent().unwrap().join(target);
            assert!(file.exists(), "{} links to {target}, which is not there", path.display());
        }
    }
}

#[test]
fn the_scenarios_that_come_with_tenure_can_be_read() {
    for entry in fs::read_dir(root().join("config/emulations")).unwrap() {
        let path = entry.unwrap().path();
        let (name, text) = (path.display().to_string(), fs::read_to_string(&path).unwrap());
        let source = tenure_config::Source { name: &name, text: &text };
        let points = tenure_sim::scenario::parse(source, &[]);
        assert!(points.is_ok_and(|points| !points.is_empty()), "{name} cannot be read");
    }
}
