//! The language by examples: what is written, and what comes of it.
//!
//! In `cases.txt` and `demands.txt` a line that is not indented is an example; what is behind the last
//! bar, and the indented lines, are what comes of it. `UPDATE_GOLDEN=1` rewrites them.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tenure_expr::{Demand, EvalError, Explanation, Expr, Fault, Value};

#[test]
fn expressions() {
    check("cases.txt", include_str!("cases.txt"), |line| {
        let columns: Vec<&str> = line.split(" |").map(str::trim).collect();
        let [source, attributes, ..] = columns.as_slice() else { panic!("no bar in `{line}`") };
        let (result, details) = evaluate(source, &read_attributes(attributes));
        let before = if attributes.is_empty() { "" } else { " " };
        (format!("{source} |{before}{attributes} | {result}"), details)
    });
}

#[test]
fn demands() {
    check("demands.txt", include_str!("demands.txt"), |line| match Demand::parse(line) {
        Ok(demand) => (line.to_owned(), describe(&demand)),
        Err(error) => (line.to_owned(), error.render(line)),
    });
}

#[test]
fn examples_of_the_reference_can_be_read() {
    let text = include_str!("../../../docs/EXPRESSIONS.md");
    let examples: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert_eq!(examples.len(), 2, "{examples:?}");
    assert!(Expr::parse_condition(examples[0]).is_ok());
    assert!(Demand::parse(examples[1]).is_ok());
}

/// Compares a table with what it should be, example by example.
fn check(name: &str, golden: &str, outcome: impl Fn(&str) -> (String, String)) {
    let mut table = String::new();
    for line in golden.lines() {
        if line.is_empty() || line.starts_with('#') {
            table.push_str(line);
            table.push('\n');
        } else if !line.starts_with(' ') {
            let (first, details) = outcome(line);
            table.push_str(first.trim_end());
            table.push('\n');
            for detail in details.lines() {
                let _ = writeln!(table, "    {detail}");
            }
        }
    }
    rewrite(name, &table);
    if std::env::var_os("UPDATE_GOLDEN").is_none() {
        let mut lines = (1..).zip(golden.lines().zip(table.lines()));
        if let Some((number, (old, new))) = lines.find(|(_, (old, new))| old != new) {
            panic!("{name}:{number}\ngolden: {old}\nnow:    {new}");
        }
        assert_eq!(golden, table, "{name} differs in length; UPDATE_GOLDEN=1 rewrites it");
    }
}

#[expect(clippy::disallowed_methods, reason = "writes a golden file when it is asked to")]
fn rewrite(name: &str, table: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = format!("{}/tests/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, table).unwrap();
    }
}

fn read_attributes(text: &str) -> BTreeMap<String, Value> {
    let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let (name, value) = entry.split_once('=').unwrap();
            (name.trim().to_owned(), Value::parse(value.trim()).unwrap())
        })
        .collect()
}

/// The value, true or false of a condition; and why it is not true, or what is wrong.
fn evaluate(source: &str, attributes: &BTreeMap<String, Value>) -> (String, String) {
    let expr = match Expr::parse(source) {
        Ok(expr) => expr,
        Err(error) => return ("cannot be read".to_owned(), error.render(source)),
    };
    let mut details = String::new();
    if expr.as_str() != source {
        let _ = writeln!(details, "written {expr}");
    }
    let render =
        |error: &EvalError| error.render(expr.as_str(), attributes.keys().map(String::as_str));
    let result = match (expr.matches(attributes), expr.evaluate(attributes)) {
        (Ok(true), _) => "true".to_owned(),
        (Ok(false), Ok(_)) => {
            let explanation = expr.explain(attributes);
            explain(&explanation, &mut details);
            "false".to_owned()
        }
        (Ok(false), Err(missing)) => {
            assert!(matches!(missing.fault(), Fault::UnknownAttribute(_)));
            details.push_str(&render(&missing));
            "false".to_owned()
        }
        (Err(error), _) if matches!(error.fault(), Fault::NotACondition(_)) => {
            match expr.evaluate(attributes) {
                Ok(value) => value.to_string(),
                Err(error) => {
                    details.push_str(&render(&error));
                    "error".to_owned()
                }
            }
        }
        (Err(error), _) => {
            details.push_str(&render(&error));
            "error".to_owned()
        }
    };
    (result, details)
}

fn explain(explanation: &Explanation, details: &mut String) {
    assert!(!explanation.holds());
    for reason in explanation.reasons() {
        let _ = writeln!(details, "{reason}");
    }
}

/// Every item on a line of its own.
fn describe(demand: &Demand) -> String {
    let mut text = String::new();
    for (number, alternative) in (1..).zip(demand.alternatives()) {
        for bundle in &alternative.bundles {
            let together = if bundle.items.len() > 1 { ", together with the next" } else { "" };
            for (place, item) in bundle.items.iter().enumerate() {
                let together = if place + 1 < bundle.items.len() { together } else { "" };
                let _ = writeln!(text, "{number}: {item}{together}");
            }
        }
    }
    assert_eq!(Demand::parse(&demand.to_string()).as_ref(), Ok(demand));
    text
}
