//! Programs that answer well and badly, by `canned.sh`.

use serde_json::Value;

use crate::tests::{Folder, tenure};

const SOLVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/plan/outside/canned.sh");

/// Two parts fit on one of two places.
fn problem(name: &str) -> String {
    format!(
        "name = '{name}'\nobjective = ['nodes']\n\
         [[place]]\nname = 'x'\ncapacity = {{ memory = '2GiB' }}\nattributes = {{ os = 'linux' }}\n\
         [[place]]\nname = 'y'\ncapacity = {{ memory = '2GiB' }}\nattributes = {{ os = 'linux' }}\n\
         [[part]]\nname = 'a'\nneeds = {{ memory = '1GiB' }}\nwhere = 'os = \"linux\"'\n\
         [[part]]\nname = 'b'\nneeds = {{ memory = '1GiB' }}\n"
    )
}

fn solve(name: &str, more: &[&str]) -> (u8, String, String) {
    solve_text(name, &problem(name), more)
}

fn solve_text(folder: &str, text: &str, more: &[&str]) -> (u8, String, String) {
    let folder = Folder::new(&format!("solver-{folder}"), &[("p.toml", text)]);
    let file = folder.path("p.toml");
    tenure(&[&["plan", "solve", &file, "--solver", SOLVER][..], more].concat())
}

#[track_caller]
fn answers(name: &str, more: &[&str], code: u8) -> Value {
    let (ended, out, err) = solve(name, &[&["-o", "json"][..], more].concat());
    assert_eq!(ended, code, "{err}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["solver"], SOLVER);
    answer
}

#[track_caller]
fn refused(name: &str, more: &[&str], code: u8, why: &str) {
    let (ended, out, err) = solve(name, more);
    assert_eq!((ended, out.as_str()), (code, ""), "{err}");
    assert!(err.contains(&format!("has not solved `{name}`: {why}")), "{err}");
}

#[test]
fn a_good_answer_is_printed_and_what_is_not_proven_here_is_called_a_claim() {
    let answer = answers("optimal", &[], 0);
    assert_eq!((&answer["status"], &answer["claimed"]), (&"optimal".into(), &false.into()));
    assert_eq!((&answer["objective"]["nodes"], &answer["steps"]), (&1.into(), &9.into()));
    let answer = answers("feasible", &[], 0);
    assert_eq!((&answer["objective"]["nodes"], &answer["bound"]), (&2.into(), &Value::Null));
    assert_eq!(answers("bounded", &[], 0)["claimed"], false);
    // Without steps nothing is proven here.
    assert_eq!(answers("optimal", &["--steps", "0"], 0)["claimed"], true);
    let (_, out, _) = solve("optimal", &["--steps", "0"]);
    assert!(out.contains("`optimal` is what ") && out.contains("canned.sh claims"), "{out}");
    answers("unknown", &[], 124);
    answers("plain", &[], 124);
}

#[test]
fn that_there_is_no_plan_is_a_claim_until_it_is_proven_here() {
    let text = problem("infeasible").replace("memory = '1GiB'", "memory = '3GiB'");
    for (steps, claimed) in [("0", true), ("1000", false)] {
        let (code, out, err) = solve_text("claim", &text, &["-o", "json", "--steps", steps]);
        assert_eq!(code, 3, "{err}");
        let answer: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (&answer["status"], &answer["claimed"]),
            (&"infeasible".into(), &claimed.into())
        );
    }
}

#[test]
fn a_wrong_answer_is_refused_with_what_is_wrong() {
    let no_plan_below = "it says that no plan is below nodes 2, and there is one with nodes 1";
    refused("not-optimal", &[], 1, no_plan_below);
    refused("bound-too-high", &[], 1, no_plan_below);
    refused("other-terms", &[], 1, "its bound is price 2, which are not the terms of nodes 2");
    refused("infeasible", &[], 1, "it says that there is no plan, and there is one with nodes 1");
    let worth = "it says that its plan has nodes 1, and that has nodes 2";
    refused("wrong-value", &[], 1, worth);
    refused("no-plan", &[], 1, "its answer is `optimal` without a plan");
    let (_, _, err) = solve("half-a-plan", &[]);
    assert!(err.contains("its plan breaks rules of the problem:"), "{err}");
    assert!(err.contains("part `a`: no place has the name `z`"), "{err}");
    assert!(err.contains("part `b`: it has 0 places and needs 1"), "{err}");
}

#[test]
fn what_is_no_answer_is_an_error_that_says_so() {
    refused("two-lines", &[], 1, "it wrote 2 lines, and one is wanted");
    refused("silent", &[], 1, "it wrote 0 lines, and one is wanted");
    refused("garbage", &[], 1, "its answer cannot be read: expected value at line 1 column 1");
    refused("unknown-key", &[], 1, "its answer cannot be read: unknown field `plan`");
    refused("failing", &[], 1, "it ended with exit status: 7: no license");
    refused("endless", &[], 1, "its answer is longer than 64 MiB");
    refused("hanging", &["--limit", "100ms"], 124, "there is no answer after 100ms");
}

#[test]
fn what_is_no_program_is_an_error_that_says_so() {
    let folder = Folder::new("no-solver", &[("p.toml", &problem("p"))]);
    let file = folder.path("p.toml");
    let solve = |args: &[&str]| tenure(&[&["plan", "solve", &file][..], args].concat());
    let (code, _, err) = solve(&["--solver", "./no-such-solver"]);
    assert!(code == 1 && err.contains("it cannot be run: No such file"), "{err}");
    let (code, _, err) = solve(&["--solver", "exactly"]);
    assert!(code == 2 && err.contains("possible values: first-fit"), "{err}");
    let (code, _, err) = solve(&["--solver", SOLVER, "--alternatives", "1"]);
    assert!(code == 2 && err.contains("a program finds no `--alternatives`"), "{err}");
    let (code, _, err) = solve(&["--solver", SOLVER, "--coordinate", "domain"]);
    assert!(code == 2 && err.contains("a program does not `--coordinate`"), "{err}");
}
