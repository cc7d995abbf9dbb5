//! Units at several sites with bandwidth between them, on a live deployment.

use std::fs;

use serde_json::Value;
use tenure_tests::root;

use crate::deployment::{Deployment, stderr};

const REQUEST: &str = "lease request --file config/planning/experiment.toml";

fn deployment() -> Deployment {
    let config = fs::read_to_string(root().join("config/network.toml")).expect("a configuration");
    Deployment::of(&config, tempfile::tempdir().expect("a folder"))
}

/// The units of the parts of an offer, with their types and sites.
fn parts(offer: &Value) -> Vec<String> {
    let parts = offer["parts"].as_array().expect("parts").iter();
    let of = |part: &Value, key: &str| part[key].as_str().expect("a text").to_owned();
    parts
        .map(|part| format!("{} {} at {}", part["units"], of(part, "resource"), of(part, "site")))
        .collect()
}

/// What all leases of a guest are for, those of one request in order.
fn leased(deployment: &Deployment) -> Vec<String> {
    let leases = deployment.json("lease list");
    let leases = leases.as_array().expect("leases").iter();
    let active = leases.filter(|lease| lease["state"] == "active");
    active
        .map(|lease| {
            let (resource, site) = (lease["resource"].as_str(), lease["site"].as_str());
            format!("{} {} at {}", lease["units"], resource.unwrap_or("?"), site.unwrap_or("?"))
        })
        .collect()
}

#[test]
fn the_cheapest_sites_and_paths_are_planned_held_and_leased_together_and_survive_a_kill() {
    let mut deployment = deployment();
    let file = root().join("config/planning/experiment.toml");
    let request = REQUEST.replace("config/planning/experiment.toml", &file.display().to_string());

    let planned = deployment.json(&format!("{request} --as guest --plan"));
    let plan = &planned[0]["offers"][0];
    assert_eq!(parts(plan), ["2 node at nice", "1 node at lyon", "60 lyon-nice at backbone"]);
    assert!(leased(&deployment).is_empty(), "a plan books nothing");

    deployment.json(&format!("{request} --as guest --wait"));
    let first = ["2 node at nice", "1 node at lyon", "60 lyon-nice at backbone"];
    assert_eq!(leased(&deployment), first);

    // The edge has 40 left, so the second link goes another way.
    deployment.json(&format!("{request} --as rival --hold 10m"));
    let offered = deployment.json("lease show rival/1");
    assert_eq!(
        parts(&offered[0]["offers"][0]),
        ["2 node at nice", "1 node at paris", "60 nice-paris at backbone"]
    );
    deployment.json("lease accept rival/1 --offer 1 --wait");
    deployment.end("-KILL");
    deployment.restart_up();
    assert_eq!(leased(&deployment).len(), 6, "as before the kill");

    // No node with 16 CPUs is left.
    let refused = deployment.tenure(&format!("{request} --as rival --wait"));
    assert_eq!(refused.status.code(), Some(75), "{}", stderr(&refused));
}

#[test]
fn a_bad_file_is_refused_with_its_place() {
    let deployment = deployment();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bad.toml");
    fs::write(
        &file,
        "for = '1h'\n[site.a]\nnode = 1\n[[link]]\nends = ['a', 'b']\nbandwidth = 1\n",
    )
    .expect("a file");
    let refused = deployment.tenure(&format!("lease request --file {}", file.display()));
    assert_eq!(refused.status.code(), Some(2));
    let says = "bad.toml: link a--b: there is no site `b`; the sites are a";
    assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
}
