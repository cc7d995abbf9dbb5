//! Plans of packages on a live deployment: whose nodes they use, who may propose them, and nodes that are leased.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Output;

use serde_json::{Value, json};
use tenure_tests::root;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};

/// A deployment whose site has so many nodes, whose broker lets requests wait or not, with these lines in the table
/// of its guest.
fn deployment(nodes: u32, queue: bool, guest: &str) -> Deployment {
    let config = format!(
        "[site.alpha]\nunits = {nodes}\n[broker.exchange]\nmapper = {{ name = 'fcfs', queue = {queue} }}\n\
         [service-manager.other]\n\
         [service-manager.guest]\nmapper = {{ name = 'deploy' }}\n{guest}\n"
    );
    Deployment::of(&config, tempfile::tempdir().expect("a folder"))
}

/// Two nodes are needed: no node has the front twice.
fn propose(more: &str) -> String {
    let file = root().join("config/planning/packages.toml");
    format!("plan propose {} --as guest {more}", file.display()).trim_end().to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn ends_with(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}{}", said(output), stderr(output));
}

/// Has all packages of a plan reported as installed.
fn report(deployment: &Deployment, plan: &Value) {
    let packages = plan["packages"].as_array().expect("packages").iter();
    let reports = packages.map(|at| json!({"node": at["node"], "package": at["package"]}));
    let file = deployment.data.path().join("report.json");
    fs::write(&file, Value::Array(reports.collect()).to_string()).expect("a file");
    deployment.json(&format!("plan report guest/1 {}", file.display()));
}

#[test]
fn nodes_that_a_plan_lacks_are_leased_through_a_kill_and_given_back_when_nothing_is_on_them() {
    let mut deployment = deployment(2, true, "");
    deployment.json("lease request 1 --as other --for 1h --wait");
    // Both nodes are needed, and the other guest has one: the request waits at the broker.
    ends_with(&deployment.tenure(&propose("--lease 1h --timeout 1s")), 124);
    let waits = |deployment: &Deployment| {
        let plan = deployment.json("plan show guest/1");
        assert_eq!((&plan["state"], &plan["leases"]), (&json!("leasing"), &json!("guest/1")));
        assert_eq!(plan["waits_for"], "2 node: request guest/1 is asked");
    };
    waits(&deployment);
    let shown = said(&deployment.tenure("plan show guest/1"));
    assert!(shown.contains("waits for 2 node: request guest/1 is asked"), "{shown}");
    deployment.end("-KILL");
    deployment.restart_up();
    waits(&deployment);

    ends_with(&deployment.tenure("lease close other/1 --wait"), 0);
    eventually(DEADLINE, "the plan to be made", || {
        deployment.json("plan show guest/1")["state"] == "proposed"
    });
    let holds = deployment.json("plan holds");
    let holders: Vec<&Value> =
        holds.as_array().expect("a list").iter().map(|node| &node["plan"]).collect();
    assert_eq!(holders, ["guest/1", "guest/1"]);

    let plan = deployment.json("plan accept guest/1");
    report(&deployment, &plan);
    assert_eq!(deployment.json("plan show guest/1")["state"], "installed");
    assert_eq!(deployment.lease("guest/1")["state"], "active", "its packages are there");
    deployment.json("plan release guest/1");
    deployment.becomes_clean();
}

#[test]
fn a_plan_whose_nodes_are_not_to_be_had_ends_as_busy_or_infeasible_and_its_request_with_it() {
    let deployment = deployment(2, false, "");
    deployment.json("lease request 2 --as other --for 1h --wait");
    let busy = deployment.tenure(&propose("--lease 1h"));
    ends_with(&busy, 75);
    assert!(said(&busy).contains("request 1 for the nodes that it lacks was refused"), "{busy:?}");
    let refused = deployment.tenure(&propose("--lease 1s"));
    ends_with(&refused, 2);
    assert!(stderr(&refused).contains("leased for longer than 2s"), "{refused:?}");

    // It would be met in an hour, and the plan waits for two.
    ends_with(&deployment.tenure(&propose("--lease 1h --hold 2h --timeout 1s")), 124);
    deployment.json("plan release guest/2");
    eventually(DEADLINE, "the request to be withdrawn", || {
        let leases = deployment.json("lease list --all --as guest");
        let leases = leases.as_array().expect("a list");
        leases.iter().all(|lease| lease["state"] == "closed")
    });
}

#[test]
fn a_plan_uses_nodes_of_its_slice_and_of_those_that_list_it() {
    let deployment =
        deployment(3, false, "[service-manager.guest.slice.spare]\nused-by = ['main']");
    deployment.json("lease request 1 --as guest --slice spare --for 1h --wait");
    deployment.json("lease request 1 --as guest --slice main --for 1h --wait");
    // The slice `spare` is not listed by `main`.
    let alone = deployment.tenure(&propose("--slice spare"));
    ends_with(&alone, 3);
    assert!(said(&alone).contains("slice `spare` has 1 nodes that no plan holds"), "{alone:?}");
    let plan = deployment.json(&propose("--slice main"));
    assert_eq!(plan["state"], "proposed", "{plan}");
    let holds = deployment.json("plan holds");
    let slices = holds.as_array().expect("a list").iter();
    let slices: Vec<(&Value, &Value)> = slices.map(|at| (&at["slice"], &at["plan"])).collect();
    let held = json!("guest/2");
    assert_eq!(slices, [(&json!("spare"), &held), (&json!("main"), &held)]);
}

#[test]
fn only_listed_planners_may_propose_plans() {
    let mut deployment = deployment(2, false, "planners = ['4000000000']");
    deployment.json("lease request 2 --as guest --for 1h --wait");
    let denied = deployment.tenure(&propose(""));
    ends_with(&denied, 77);
    let error = stderr(&denied);
    assert!(
        error.contains("is no planner of guest") && error.contains("[service-manager.guest]"),
        "{error}"
    );
    assert_eq!(deployment.json("plan list --all"), json!([]));

    let user = fs::metadata(deployment.data.path()).expect("a folder").uid();
    let file = deployment.data.path().join("live.toml");
    let config =
        fs::read_to_string(&file).expect("a file").replace("4000000000", &user.to_string());
    deployment.end("-TERM");
    deployment.start_with(&config);
    let plan = deployment.json(&propose(""));
    assert_eq!(plan["state"], "proposed", "{plan}");

    let unknown = config.replace(&format!("'{user}'"), "'nobody-of-this-name'");
    deployment.end("-TERM");
    let refused = deployment.fails_with(&unknown);
    let error = stderr(&refused);
    assert!(error.contains("there is no user `nobody-of-this-name`"), "{error}");
    assert!(error.contains("planners = "), "the place: {error}");
}
