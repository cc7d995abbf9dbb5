//! `docs/COVERAGE.md` lists every feature once, and what it names exists.

use std::collections::BTreeMap;
use std::fs;

use tenure_tests::root;

/// The numbered features of each source: letter and highest number.
const FEATURES: [(char, u32); 5] = [('S', 74), ('H', 45), ('A', 34), ('G', 18), ('T', 15)];

/// The rows of the page: id and what covers it.
fn rows() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("docs/COVERAGE.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let &[id, feature, covered, ""] = &cells[..] else {
            panic!("a row of other cells: {line}")
        };
        let numbered = id.starts_with(|c: char| c.is_ascii_uppercase()) && !feature.is_empty();
        numbered.then(|| (id.to_owned(), covered.to_owned()))
    });
    rows.collect()
}

/// What stands between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Why a reference leads nowhere, if it does: `PATH`, `PATH::TEST` or `PATH#HEADING`.
fn fault(reference: &str) -> Option<String> {
    let (path, test) = reference.split_once("::").unwrap_or((reference, ""));
    let (path, heading) = path.split_once('#').unwrap_or((path, ""));
    let Ok(text) = fs::read_to_string(root().join(path)) else {
        return Some(format!("{path} cannot be read"));
    };
    let head =
        |line: &str| line.starts_with('#') && anchor(line.trim_start_matches('#')) == heading;
    let is_test = || {
        let declared = text.find(&format!("fn {test}()"));
        declared.is_some_and(|at| {
            let mut attributes = text[..at].trim_end().lines().rev().map(str::trim);
            attributes.find(|line| !line.starts_with("#[ignore")) == Some("#[test]")
        })
    };
    if !test.is_empty() && !is_test() {
        return Some(format!("{path} has no test `{test}`"));
    }
    let missing = !heading.is_empty() && !text.lines().any(head);
    missing.then(|| format!("{path} has no heading `{heading}`"))
}

#[test]
fn every_feature_is_listed_once() {
    let mut listed: BTreeMap<String, u32> = BTreeMap::new();
    for (id, _) in rows() {
        *listed.entry(id).or_default() += 1;
    }
    let ids = FEATURES.iter().flat_map(|(letter, last)| {
        (1..=*last).map(move |number| (format!("{letter}{number:02}"), 1))
    });
    assert_eq!(listed, ids.collect());
}

#[test]
fn what_covers_a_feature_exists() {
    let mut faults = Vec::new();
    for (id, covered) in rows() {
        let references: Vec<&str> = quoted(&covered).collect();
        if references.is_empty() != (covered == "not yet") {
            faults.push(format!("{id}: it says neither `not yet` nor what covers it"));
        }
        let found = references.into_iter().filter_map(fault);
        faults.extend(found.map(|fault| format!("{id}: {fault}")));
    }
    assert!(faults.is_empty(), "docs/COVERAGE.md:\n{}", faults.join("\n"));
}

#[test]
fn a_reference_that_leads_nowhere_is_found() {
    let here = "tests/tests/system/coverage.rs";
    for reference in [
        "docs/NOWHERE.md".to_owned(),
        "docs/COVERAGE.md#no-such-heading".to_owned(),
        format!("{here}::anchor"),
        format!("{here}::no_such_test"),
    ] {
        assert!(fault(&reference).is_some(), "{reference}");
    }
    assert_eq!(fault(&format!("{here}::every_feature_is_listed_once")), None);
    assert_eq!(fault("docs/COVERAGE.md#s-shirako-leases"), None);
}
