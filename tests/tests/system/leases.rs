//! Leases over their lives, also those of a deployment that is killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tenure_tests::tenure;

use crate::deployment::{Deployment, ended, lives, units};

#[test]
fn a_lease_is_asked_for_kept_for_longer_and_given_back() {
    let deployment = Deployment::start();
    let leases = deployment.json("lease request 2 --for 10m --wait");
    assert_eq!(leases[0]["state"], "active");
    let held = units(&leases[0]);
    assert!(!held.is_empty());
    for (unit, _, pid) in &held {
        assert!(Path::new("/proc").join(pid).exists(), "unit {unit} is process {pid}");
    }
    let left = leases[0]["left_s"].as_f64().unwrap_or_default();
    deployment.json("lease extend guest/1 --for 1h");
    let over = deployment.json("lease close guest/1 --wait");
    assert!(over.as_array().is_some_and(|all| all.iter().all(|l| l["outcome"] == "given-back")));
    assert!((500.0..600.0).contains(&left), "{left}");
    // The ticket of an extension that came too late may still be on its way back.
    let left = deployment.json("lease list --as guest");
    let gone = |lease: &Value| !lease["lease"].as_str().unwrap_or_default().starts_with("guest/1.");
    assert!(left.as_array().is_some_and(|left| left.iter().all(gone)), "{left}");
    let why = deployment.json("lease why guest/1");
    assert_eq!(why[0]["reason"], "it was given back before its end");
}

#[test]
fn a_killed_deployment_takes_up_its_leases_where_they_were() {
    let mut deployment = Deployment::start();
    let before = deployment.json("lease request 3 --for 1h --id once --wait");
    let unanswered = deployment.json("lease request 1 --for 1h --id twice");
    assert_eq!(deployment.end("-KILL"), None);
    deployment.restart();
    let again = deployment.json("lease request 3 --for 1h --id once --wait");
    assert_eq!(again[0]["lease"], before[0]["lease"]);
    assert_eq!(units(&again[0]), units(&before[0]), "the same units, not set up again");
    let again = deployment.json("lease request 1 --for 1h --id twice --wait");
    assert_eq!(again[0]["lease"], unanswered[0]["lease"]);
    assert_eq!(again[0]["state"], "active");
    assert_eq!(deployment.end("-TERM"), Some(0));
    deployment.restart();
    assert_eq!(deployment.json("lease list --as guest").as_array().map(Vec::len), {
        let parts = before.as_array().map_or(0, Vec::len) + again.as_array().map_or(0, Vec::len);
        Some(parts)
    });
}

#[test]
fn kept_tickets_their_parts_and_bundles_survive_a_kill() {
    let mut deployment = Deployment::start();
    let kept = deployment.json("lease request 1 node --for 1h --keep-ticket --wait");
    assert_eq!(kept[0]["state"], "ticketed");
    let folder = deployment.data.path().join("parts").display().to_string();
    let split = format!("ticket split 1 --to guest --for 30m --out {folder}");
    assert!(deployment.tenure(&split).status.success());
    let bundle = "lease request '1 node, 1 node' --for 1h --bundle --wait";
    assert_eq!(deployment.json(bundle).as_array().map(Vec::len), Some(2));
    assert_eq!(deployment.end("-KILL"), None);
    deployment.restart();
    let again = format!("ticket split 1 --to guest --for 30m --out {folder}");
    assert!(!deployment.tenure(&again).status.success(), "the unit was handed on already");
    let taken = deployment.json(&format!("ticket redeem {folder}/1-guest.json --wait"));
    assert_eq!(taken[0]["state"], "active");
    deployment.json("lease close 3 --wait");
    let tickets = deployment.json("ticket list");
    let states: Vec<_> = tickets.as_array().into_iter().flatten().map(|t| &t["state"]).collect();
    assert_eq!(states, ["split", "returned"]);
    deployment.json("lease close 2.0 --wait");
    let other = deployment.json("lease close 2.1 --wait");
    assert_eq!(other[0]["outcome"], "given-back", "one of a bundle costs the other");
}

/// How often the process is killed, unless `TENURE_KILLS` asks for more.
const KILLS: usize = 4;

#[test]
fn killed_again_and_again_it_loses_nothing_that_it_has_acknowledged() {
    let kills = std::env::var("TENURE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let mut deployment = Deployment::start();
    let mut pids = BTreeSet::new();
    for kill in 0..kills {
        // Leases live and die: some are asked for under an id, one is given back again, one extended.
        let acknowledged: Vec<(String, String)> = (0..2)
            .map(|request| {
                let id = format!("{kill}-{request}");
                let leases = deployment.json(&format!("lease request 1 --for 10m --id {id}"));
                (id, leases[0]["lease"].as_str().expect("a name").to_owned())
            })
            .collect();
        let (closed, extended) = (&acknowledged[0].1, &acknowledged[1].1);
        deployment.json(&format!("lease close {closed}"));
        deployment.json(&format!("lease request 1 --for 10m --id {kill}-1 --wait"));
        let before = deployment.lease(extended)["end"].clone();
        deployment.json(&format!("lease extend {extended} --for 1h --wait"));
        let end = deployment.lease(extended)["end"].clone();
        assert_ne!(end, before, "kill {kill}: {extended} is extended");
        // Something is under way when the process dies; whether it comes to anything is left open.
        let mut asker = Command::new(tenure())
            .args(["lease", "request", "1", "--for", "10m", "--wait", "--data"])
            .arg(deployment.data.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a request");
        if kill % 2 == 0 {
            ended(&mut asker);
        }
        pids.extend(deployment.held().into_iter().map(|(_, pid)| pid));
        deployment.end("-KILL");
        ended(&mut asker);
        deployment.restart();
        let lease = deployment.lease(extended);
        assert_eq!((&lease["end"], &lease["state"]), (&end, &json!("active")), "kill {kill}");
        let lease = deployment.lease(closed);
        let on_its_way_out = ["given-up", "leaving", "closing", "crediting", "closed"];
        assert!(on_its_way_out.iter().any(|state| lease["state"] == *state), "{kill}: {lease}");
        for (id, lease) in &acknowledged {
            let again = deployment.json(&format!("lease request 1 --for 10m --id {id}"));
            assert_eq!(again[0]["lease"], lease.as_str(), "kill {kill}: request {id}");
        }
        let held = deployment.held();
        let units: BTreeSet<&String> = held.iter().map(|(unit, _)| unit).collect();
        assert_eq!(units.len(), held.len(), "kill {kill}: a unit is in two leases: {held:?}");
        pids.extend(held.into_iter().map(|(_, pid)| pid));
        deployment.close_all();
    }
    deployment.becomes_clean();
    let left: Vec<&String> = pids.iter().filter(|pid| lives(pid)).collect();
    assert!(left.is_empty(), "processes of leases that are over: {left:?}");
}
