//! Problems as files, each with what is answered below it: run with `UPDATE_GOLDEN=1` to write that anew.

#![allow(clippy::unwrap_used, reason = "a test that fails has nothing else to say")]
#![allow(clippy::disallowed_methods, reason = "the cases are files")]

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use tenure_plan::{Answer, Plan, Problem, Settings, check, solve};

/// What begins the answer in a file.
const MARK: &str = "# answer\n";

fn answer(text: &str) -> String {
    let problem: Problem = match toml::from_str(text) {
        Ok(problem) => problem,
        Err(error) => return format!("unreadable: {error}"),
    };
    let answer = match solve(&problem, &Settings::default()) {
        Ok(answer) => answer,
        Err(error) => return format!("refused: {error}"),
    };
    if answer.objective.is_some() {
        assert_eq!(Some(check(&problem, &answer.plan).unwrap()), answer.objective);
    }
    in_words(&answer)
}

fn in_words(answer: &Answer) -> String {
    let objective = answer.objective.as_ref().map(|objective| format!(": {objective}"));
    let mut out = format!("{}{}\n", answer.status, objective.unwrap_or_default());
    plan(&answer.plan, &mut out);
    if let Some(why) = &answer.why {
        let all: Vec<&str> = why.parts.iter().chain(&why.links).map(String::as_str).collect();
        writeln!(out, "no room together, irreducible {}: {}", why.irreducible, all.join(", "))
            .unwrap();
        why.reasons.iter().for_each(|reason| writeln!(out, "{reason}").unwrap());
    }
    answer.offers.iter().for_each(|offer| writeln!(out, "offer: {}", offer.change).unwrap());
    out
}

fn plan(plan: &Plan, out: &mut String) {
    for (part, places) in &plan.placement {
        writeln!(out, "{part} on {}", places.join(", ")).unwrap();
    }
    for (place, packages) in &plan.install {
        writeln!(out, "{place} installs {}", packages.join(", ")).unwrap();
    }
    for (link, path) in &plan.paths {
        writeln!(out, "{link} takes {}", path.join(", ")).unwrap();
    }
}

#[test]
fn each_case_is_answered_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut wrong = Vec::new();
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let (problem, known) = text.split_once(MARK).unwrap_or((&text, ""));
        let answer = answer(problem);
        let lines: Vec<String> =
            answer.lines().map(|line| format!("# {line}").trim_end().to_owned()).collect();
        let lines = lines.join("\n") + "\n";
        if lines == known {
            continue;
        }
        if env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&file, format!("{problem}{MARK}{lines}")).unwrap();
        } else {
            wrong.push(format!("{}:\n{lines}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
