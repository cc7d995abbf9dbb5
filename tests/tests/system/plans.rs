//! Plans of packages by the commands of a live deployment.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};
use tenure_tests::root;

use crate::deployment::{Deployment, stderr};

fn propose(more: &str) -> String {
    let file = root().join("config/planning/packages.toml");
    format!("plan propose {} {more}", file.display()).trim_end().to_owned()
}

/// Two nodes with a plan for them.
fn proposed() -> (Deployment, Value) {
    let deployment = Deployment::start();
    deployment.json("lease request 2 --for 1h --wait");
    let plan = deployment.json(&propose(""));
    (deployment, plan)
}

#[track_caller]
fn fails(output: &Output, code: i32, says: &str) {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
    assert!(stderr(output).contains(says), "{}", stderr(output));
}

/// What is held by which plan.
fn holders(deployment: &Deployment) -> Vec<Option<String>> {
    let holds = deployment.json("plan holds");
    let holds = holds.as_array().expect("a list").iter();
    holds.map(|node| node["plan"].as_str().map(str::to_owned)).collect()
}

/// The state of a plan's packages, each once.
fn packages(plan: &Value) -> Vec<String> {
    let packages = plan["packages"].as_array().expect("packages").iter();
    packages.map(|package| package["state"].as_str().expect("a word").to_owned()).collect()
}

/// Has a file with this text reported on a plan.
fn report_text(deployment: &Deployment, plan: &str, text: &str) -> Output {
    let file = deployment.data.path().join("report");
    fs::write(&file, text).expect("a file");
    deployment.tenure(&format!("plan report {plan} {}", file.display()))
}

/// Has the packages of a plan reported as installed; those of which `broken` says so, as failed.
fn report(deployment: &Deployment, plan: &Value, broken: fn(&str) -> bool) -> Output {
    let packages = plan["packages"].as_array().expect("packages").iter();
    let reports = packages.map(|package| {
        let name = package["package"].as_str().expect("a package");
        let error = broken(name).then_some("it does not start");
        json!({ "node": package["node"], "package": name, "error": error })
    });
    let text = Value::Array(reports.collect()).to_string();
    report_text(deployment, plan["plan"].as_str().expect("a name"), &text)
}

#[test]
fn a_plan_is_proposed_holds_its_nodes_and_is_installed_once_all_is_reported_through_a_kill() {
    let (mut deployment, plan) = proposed();
    assert_eq!(plan["plan"], "guest/1");
    assert_eq!(plan["state"], "proposed");
    assert_eq!(plan["objective"], "installs 3, nodes 2, spread 2, uses 1", "{plan}");
    assert_eq!(packages(&plan), ["planned"; 3]);
    assert_eq!(holders(&deployment), [Some("guest/1".to_owned()), Some("guest/1".to_owned())]);
    let shown = deployment.tenure("plan show 1");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("accept it: tenure plan accept guest/1"), "{shown}");

    fails(&deployment.tenure(&propose("")), 75, "tenure plan holds");
    let accepted = deployment.json("plan accept 1");
    assert_eq!(packages(&accepted), ["to-be-reported"; 3]);
    deployment.end("-KILL");
    deployment.restart();
    assert_eq!(deployment.json("plan show 1")["packages"], accepted["packages"]);

    assert_eq!(report(&deployment, &accepted, |_| false).status.code(), Some(0));
    let installed = deployment.json("plan show 1");
    assert_eq!(
        (&installed["state"], packages(&installed)),
        (&json!("installed"), vec!["installed".to_owned(); 3])
    );
    assert_eq!(holders(&deployment), [None, None]);
    deployment.json("plan release 1");
    let holds = deployment.json("plan holds");
    assert_eq!(holds[0]["installed"], json!([]), "{holds}");
}

#[test]
fn packages_that_fail_are_planned_elsewhere_or_rolled_back_and_the_exit_code_says_so() {
    let (deployment, plan) = proposed();
    drop(deployment.json(&format!("plan release {}", plan["plan"].as_str().expect("a name"))));

    let plan = deployment.json(&propose("--on-failure roll-back --accept"));
    report(&deployment, &plan, |package| package.starts_with("web/"));
    let shown = deployment.json("plan show 2");
    assert_eq!(shown["state"], "rolled-back");
    assert!(packages(&shown).iter().all(|state| state != "installed"), "{shown}");
    let why = shown["why"].as_array().expect("reasons");
    assert!(
        why.iter().any(|why| why.as_str().is_some_and(|why| why.ends_with("start"))),
        "{why:?}"
    );

    // There are two nodes, and the front has failed on both of them.
    let plan = deployment.json(&propose("--on-failure replan --accept"));
    report(&deployment, &plan, |package| package.starts_with("web/"));
    let shown = deployment.json("plan show 3");
    assert_eq!((&shown["state"], &shown["replaced_by"]), (&json!("replaced"), &json!("guest/4")));
    let next = deployment.json("plan list --all")[3].clone();
    assert_eq!((&next["replaces"], &next["state"]), (&json!("guest/3"), &json!("infeasible")));
}

#[test]
fn what_makes_no_sense_for_a_plan_is_refused_with_what_to_do() {
    let deployment = Deployment::start();
    let none = deployment.tenure(&propose(""));
    fails(&none, 3, "guest/1");
    let said = String::from_utf8_lossy(&none.stdout).into_owned();
    assert!(said.contains("slice `main` has 0 nodes that no plan holds"), "{said}");
    fails(&deployment.tenure(&propose("--as load")), 2, "the mapper `adaptive` of load plans no");
    fails(&deployment.tenure(&propose("--hold 31d")), 2, "for 30d at most");
    fails(&deployment.tenure("plan show 9"), 3, "tenure plan list --all");
    fails(&deployment.tenure("plan accept guest/9"), 3, "no plan guest/9");
    fails(&deployment.tenure("plan accept 1"), 2, "tenure plan show guest/1");
    for node in ["alpha/u9999", "nowhere/u0", "u0"] {
        fails(&deployment.tenure(&format!("plan holds {node}")), 3, "tenure plan holds");
    }
    assert_eq!(deployment.json("plan holds alpha/u0"), json!([]), "it is there, and unused");

    deployment.json("lease request 2 --for 1h --wait");
    let plan = deployment.json(&propose("--hold 1s"));
    assert_eq!(plan["state"], "proposed");
    tenure_wait::eventually(tenure_wait::DEADLINE, "the plan to lapse", || {
        deployment.json("plan show 2")["state"] == "lapsed"
    });
    fails(&deployment.tenure("plan accept 2"), 2, "has lapsed");

    let plan = deployment.json(&propose("--accept"));
    fails(&deployment.tenure("plan accept 3"), 2, "was accepted already");
    let mut foreign = plan.clone();
    foreign["packages"][0]["node"] = json!("alpha/u9");
    fails(&report(&deployment, &foreign, |_| false), 2, "on a node alpha/u9");
    report(&deployment, &plan, |_| false);
    fails(&report(&deployment, &plan, |_| false), 2, "a report comes while it is accepted");
}

#[test]
fn a_report_in_xml_is_taken_as_one_in_json_and_a_wrong_one_is_refused_with_its_place() {
    let (deployment, _) = proposed();
    let plan = deployment.json("plan accept 1");
    let packages = plan["packages"].as_array().expect("packages").iter();
    let packages = packages.map(|package| {
        let (node, name) = (package["node"].as_str(), package["package"].as_str());
        let (node, name) = (node.expect("a node"), name.expect("a package"));
        format!("  <package node=\"{node}\" name=\"{name}\"/>\n")
    });
    let packages: String = packages.collect();
    let wrong = format!("<report>\n{packages}  <node/>\n</report>");
    fails(&report_text(&deployment, "guest/1", &wrong), 2, "<package> is expected at 5:3");
    fails(&report_text(&deployment, "guest/1", "<report>"), 2, "report");
    let report = report_text(&deployment, "guest/1", &format!("<report>\n{packages}</report>"));
    assert_eq!(report.status.code(), Some(0), "{}", stderr(&report));
    assert_eq!(deployment.json("plan show 1")["state"], "installed");
}
