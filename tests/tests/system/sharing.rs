//! Brokers that share with each other, and brokers that are drained, as users meet them.

use std::fs;

use serde_json::{Value, json};
use tenure_tests::root;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};

/// Two labs that share three of their four units each with a campus.
pub(crate) fn deployment() -> Deployment {
    let config = fs::read_to_string(root().join("config/network/sharing.toml")).expect("a file");
    let config = config.replace("margin = \"1s\"", "margin = \"100ms\"\nretry = \"1s\"");
    let deployment = Deployment::of(&config, tempfile::tempdir().expect("a folder"));
    becomes(&deployment, "lab-a", json!([3, 0]));
    becomes(&deployment, "lab-b", json!([3, 0]));
    deployment
}

/// What a broker has lent, and how much of it is recalled.
fn lent(deployment: &Deployment, broker: &str) -> Value {
    let shares = deployment.json(&format!("broker shares {broker}"));
    let lent = &shares[0]["lent"][0];
    json!([lent["units"].as_u64().unwrap_or(0), lent["recalled"].as_u64().unwrap_or(0)])
}

fn becomes(deployment: &Deployment, broker: &str, wanted: Value) {
    let what = format!("{broker} to have lent {wanted}");
    eventually(DEADLINE, &what, || lent(deployment, broker) == wanted);
}

#[test]
fn a_campus_sells_what_labs_share_and_gives_back_what_it_has_not_sold() {
    let deployment = deployment();

    // Of both, as if it were its own; each lab keeps one for its guests.
    let leases = deployment.json("lease request 5 node --for 30m --broker campus --wait");
    assert_eq!(leases.as_array().map(Vec::len), Some(2), "{leases}");
    let own = "lease request 2 node --for 30m --broker lab-a --wait --timeout 10s";
    let refused = deployment.tenure(own);
    assert_eq!(refused.status.code(), Some(75), "{}", stderr(&refused));
    deployment.json("lease request 1 node --for 30m --broker lab-b --wait");

    // What is not sold comes back at once; what is sold stays.
    let shares = deployment.json("broker share lab-a campus --units 0 --notice 1s");
    assert_eq!(shares[0]["by"], "operator");
    let shares = deployment.json("broker share lab-b campus --units 0 --notice 1s");
    assert_eq!(shares[0]["units"], 0);
    eventually(DEADLINE, "one unit to be back", || {
        let left = |lab| lent(&deployment, lab)[0].as_u64().expect("a number");
        left("lab-a") + left("lab-b") == 5
    });
    let waiting = deployment.tenure("broker unshare lab-a campus --wait --timeout 1s");
    assert_eq!(waiting.status.code(), Some(124), "{}", stderr(&waiting));
    for lease in leases.as_array().expect("leases") {
        deployment
            .json(&format!("lease close {} --wait", lease["lease"].as_str().expect("a name")));
    }
    deployment.json("broker unshare lab-a campus --wait --timeout 1m");
    becomes(&deployment, "lab-b", json!([0, 0]));

    // Shared again, it is lent again.
    deployment.json("broker share lab-a campus --units all --reserve 0");
    becomes(&deployment, "lab-a", json!([4, 0]));
}

#[test]
fn a_drained_campus_sells_nothing_and_its_leases_go_on() {
    let deployment = deployment();
    let lease = deployment.json("lease request 1 node --for 30m --broker campus --wait");
    let name = lease[0]["lease"].as_str().expect("a name");

    let drained = deployment.json("broker drain campus");
    assert_eq!((&drained[0]["sells"], &drained[0]["tickets"]), (&json!(false), &json!(1)));
    let refused = deployment.tenure("lease request 1 node --for 30m --broker campus --wait");
    let said = stderr(&refused);
    assert_eq!(refused.status.code(), Some(75), "{said}");
    assert!(said.contains("the broker sells nothing for now: it is drained"), "{said}");
    eventually(DEADLINE, "all but one unit to be back", || {
        let left = |lab| lent(&deployment, lab)[0].as_u64().expect("a number");
        left("lab-a") + left("lab-b") == 1
    });
    assert_eq!(deployment.lease(name)["state"], "active");
    deployment.json(&format!("lease close {name} --wait"));
    let drained = deployment.json("broker drain campus --wait --timeout 1m");
    assert_eq!(drained[0]["tickets"], 0);

    // It sells again once it has been lent units again.
    assert_eq!(deployment.json("broker resume campus")[0]["sells"], true);
    becomes(&deployment, "lab-a", json!([3, 0]));
    deployment.json("lease request 1 node --for 30m --broker campus --wait");
}

#[test]
fn routes_show_what_a_neighbour_has_of_what_is_asked_for() {
    let deployment = deployment();
    let unknown = deployment.json("broker forward lab-a lab-b");
    assert_eq!(unknown[0]["agreed"]["state"], "unknown");
    deployment.json("broker accept lab-b lab-a");
    // Of its four units lab-b has shared three.
    let routes = |wanted: &str| {
        let routes = deployment.json(&format!("broker routes lab-a{wanted}"));
        routes.as_array().cloned().unwrap_or_default()
    };
    let route = |wanted: &str| {
        let mut all = routes(wanted).into_iter();
        all.find(|route| route["kind"] == "peer").unwrap_or_default()
    };
    eventually(DEADLINE, "a unit that is advertised", || {
        let route = route("");
        let state = &route["agreed"]["state"];
        let units = json!([state, route["hops"], route["entries"][0]["free"]]);
        units == json!(["live", 1, 1])
    });
    for (wanted, hops, entries) in [
        ("'1 node'", json!(1), 1),
        ("'2 node'", Value::Null, 1),
        ("'1 node where site = \"south\"'", json!(1), 1),
        ("'1 node where site = \"north\"'", Value::Null, 0),
        ("disk", Value::Null, 0),
    ] {
        let route = route(&format!(" --for {wanted}"));
        let shown = (&route["hops"], route["entries"].as_array().map(Vec::len));
        assert_eq!(shown, (&hops, Some(entries)), "{wanted}: {route}");
    }
    // What it has itself stands beside that.
    let kinds = |wanted: &str| routes(wanted).iter().map(|route| route["kind"].clone()).collect();
    let kinds: [Vec<Value>; 3] = ["", " --for node", " --for disk"].map(kinds);
    assert_eq!(kinds, [vec!["own", "lent", "peer"], vec!["own", "lent", "peer"], vec!["peer"]]);
    let own = &routes("")[0];
    assert_eq!(
        json!([own["with"], own["hops"], own["entries"][0]["free"]]),
        json!(["north", 0, 1])
    );
    let borrowed = deployment.json("broker routes campus");
    let lenders = borrowed.as_array().into_iter().flatten().map(|of| [&of["kind"], &of["with"]]);
    assert_eq!(
        json!(lenders.collect::<Vec<_>>()),
        json!([["borrowed", "lab-a"], ["borrowed", "lab-b"]])
    );
    let wrong = deployment.tenure("broker routes --for '2 node where'");
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
}
