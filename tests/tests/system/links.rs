//! Units at several sites with bandwidth between them, on a live deployment.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tenure_tests::root;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, outside_of, stderr};

const REQUEST: &str = "lease request --file config/planning/experiment.toml";

fn deployment() -> Deployment {
    Deployment::of(&config("network.toml"), tempfile::tempdir().expect("a folder"))
}

fn config(name: &str) -> String {
    fs::read_to_string(root().join("config").join(name)).expect("a configuration")
}

/// The request of config/planning/experiment.toml, by a path that holds everywhere.
fn request() -> String {
    let file = root().join("config/planning/experiment.toml");
    REQUEST.replace("config/planning/experiment.toml", &file.display().to_string())
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
    let request = request();

    let planned = deployment.json(&format!("{request} --as guest --plan"));
    let plan = &planned[0]["offers"][0];
    assert_eq!(parts(plan), ["2 node at nice", "1 node at lyon", "60 lyon-nice at backbone"]);
    assert!(leased(&deployment).is_empty(), "a plan books nothing");
    let shown = deployment.tenure(&format!("{request} --as guest --plan"));
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let all = planned[0]["offers"].as_array().expect("offers").iter();
    let bars = shown.lines().filter(|line| line.contains('█'));
    assert_eq!(bars.count(), all.map(|offer| parts(offer).len()).sum::<usize>(), "{shown}");

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

/// The sites sell to a wholesaler, which hands some on: the exchange plans over what it has of that.
#[test]
fn a_broker_plans_nodes_and_links_that_it_has_of_another_broker() {
    // Each stock goes to it.
    let config = config("network.toml")
        .replace("{ units = ", "{ brokers = ['wholesale'], units = ")
        + "\n[broker.wholesale]\n";
    let deployment = Deployment::of(&config, tempfile::tempdir().expect("a folder"));
    let delegations = || {
        let all = deployment.json("broker delegations wholesale");
        all.as_array().cloned().filter(|all| all.len() == 6)
    };
    let parts_of_it = eventually(DEADLINE, "all sites to delegate", delegations);
    for delegation in parts_of_it {
        let (from, units) = (delegation["name"].as_str().expect("a name"), &delegation["units"]);
        deployment
            .json(&format!("broker delegate wholesale exchange {units} --from {from} --for 3h"));
    }
    let request = request();
    let ask = format!("{request} --as guest --broker exchange --wait");
    eventually(DEADLINE, "a lease", || deployment.tenure(&ask).status.success());
    assert_eq!(
        leased(&deployment),
        ["2 node at nice", "1 node at lyon", "60 lyon-nice at backbone"]
    );
}

/// The nodes are one broker's, the edges another's: both hold before either is accepted.
#[test]
fn nodes_of_one_broker_and_an_edge_of_another_are_leased_together_or_not_at_all() {
    let config = config("network.toml")
        .replace("{ units = 4,", "{ brokers = ['exchange'], units = 4,")
        .replace("{ units = 100,", "{ brokers = ['carrier'], units = 100,")
        + "\n[broker.carrier]\n";
    let mut deployment = Deployment::of(&config, tempfile::tempdir().expect("a folder"));
    let file = root().join("config/planning/two-brokers.toml");
    let request = format!("lease request --file {}", file.display());
    let granted = deployment.json(&format!("{request} --as guest --wait"));
    let attempts = granted.as_array().expect("leases").iter().map(|lease| &lease["attempt"]);
    let brokers: Vec<_> = attempts.map(|attempt| attempt["broker"].as_str()).collect();
    assert_eq!(brokers, [Some("exchange"), Some("exchange"), Some("carrier")]);
    let all = ["2 node at nice", "1 node at lyon", "60 lyon-nice at backbone"];
    let sorted = |mut leases: Vec<String>| {
        leases.sort();
        leases
    };
    assert_eq!(sorted(leased(&deployment)), sorted(all.map(str::to_owned).to_vec()));
    deployment.end("-KILL");
    deployment.restart_up();
    assert_eq!(leased(&deployment).len(), 3, "as before the kill");

    // The edge has 40 left, so the nodes go back to be free for others.
    let refused = deployment.tenure(&format!("{request} --as rival --wait"));
    assert_eq!(refused.status.code(), Some(75), "{}", stderr(&refused));
    let why = deployment.tenure("lease why rival/1");
    let why = String::from_utf8_lossy(&why.stdout).into_owned();
    assert!(why.contains("request 2 was not held") && why.contains("40 are free"), "{why}");
    let nodes = deployment.tenure(
        "lease request 2 --where 'site = \"nice\"' --for 30m --as rival --broker exchange --wait",
    );
    assert!(nodes.status.success(), "{}", stderr(&nodes));
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

const PLACES: [&str; 3] = ["lyon", "nice", "paris"];

fn output_of(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().expect("it runs");
    assert!(output.status.success(), "{program} {words:?}: {}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The network of config/network.toml in namespaces, inside of [`outside_of`].
pub(crate) fn in_namespaces() -> Deployment {
    for place in PLACES {
        output_of("ip", &["netns", "add", place]);
    }
    let both = config("network.toml") + &config("network-namespaces.toml");
    Deployment::of(&both, tempfile::tempdir().expect("a folder"))
}

/// The property of the first unit of a lease.
fn property(deployment: &Deployment, lease: &str, key: &str) -> String {
    let lease = deployment.lease(lease);
    lease["in_hand"][0]["properties"][key].as_str().expect("a property").to_owned()
}

/// Whether the first unit of a lease answers that of another one: it has no service, and refuses.
fn reaches(deployment: &Deployment, from: &str, to: &str) -> bool {
    let space = property(deployment, from, "unit.netns");
    let address = property(deployment, to, "host.ipv6");
    let connect = format!("exec 3<>/dev/tcp/{address}/9");
    let mut command = Command::new("timeout");
    command.args(["20", "ip", "netns", "exec", &space, "bash", "-c", &connect]);
    stderr(&command.output().expect("it runs")).contains("Connection refused")
}

/// Measures the only link of the guest: it has the rate both ways, less its headers.
#[track_caller]
fn carries(deployment: &Deployment, leases: &str, megabits: f64) {
    let links = deployment.json("slice measure main --as guest --for 3s");
    let (link, count) = (&links[0], links.as_array().map(Vec::len));
    assert_eq!((count, link["link"].as_str()), (Some(1), Some(leases)), "{links}");
    assert_eq!(link["leased_mbit"].as_f64(), Some(megabits), "{links}");
    for way in ["there_mbit", "back_mbit"] {
        let measured = link[way].as_f64().expect("a rate");
        println!("{measured:.1} of {megabits} Mbit/s");
        assert!((megabits * 0.85..=megabits * 1.06).contains(&measured), "{links}");
    }
}

#[test]
#[ignore = "needs root, `ip`, `tc` and `unshare`"]
fn units_in_namespaces_reach_each_other_by_their_leased_link_at_its_rate_and_by_nothing_else() {
    let this =
        "units_in_namespaces_reach_each_other_by_their_leased_link_at_its_rate_and_by_nothing_else";
    if outside_of(&format!("links::{this}")) {
        return;
    }
    let mut deployment = in_namespaces();
    let request = request();
    let planned = deployment.json(&format!("{request} --as guest --plan"));
    let first = ["2 node at nice", "1 node at lyon", "60 lyon-nice at backbone"];
    assert_eq!(parts(&planned[0]["offers"][0]), first);
    deployment.json(&format!("{request} --as guest --hold 10m"));
    deployment.json("lease accept guest/2 --offer 1 --wait");
    assert_eq!(leased(&deployment), first);
    carries(&deployment, "guest/2.2", 60.0);

    // At the same sites, without a link.
    for site in ["nice", "lyon"] {
        let request =
            format!("lease request 1 node --where 'site = \"{site}\"' --for 1h --as rival");
        deployment.json(&format!("{request} --wait"));
    }
    assert!(reaches(&deployment, "guest/2.0", "guest/2.1"));
    assert!(!reaches(&deployment, "rival/1", "rival/2"), "nobody else has leased a way");
    assert!(!reaches(&deployment, "rival/1", "guest/2.1"), "another slice is not on it");

    deployment.json("lease flex guest/2.2 --units -20 --wait");
    carries(&deployment, "guest/2.2", 40.0);
    deployment.json("lease flex guest/2.2 --units +50 --wait");
    carries(&deployment, "guest/2.2 guest/3.0", 90.0);
    deployment.end("-KILL");
    deployment.restart_up();
    carries(&deployment, "guest/2.2 guest/3.0", 90.0);

    deployment.json("lease close guest/3 --wait");
    deployment.json("lease close guest/2.2 --wait");
    eventually(DEADLINE, "the way to go with its lease", || {
        !reaches(&deployment, "guest/2.0", "guest/2.1")
    });
    assert_eq!(deployment.json("slice measure main --as guest"), Value::Array(Vec::new()));
    deployment.close_all();
    for place in PLACES {
        eventually(DEADLINE, "all to be removed", || {
            output_of("ip", &["-n", place, "-o", "link", "show"]).lines().count() == 1
        });
    }
}
