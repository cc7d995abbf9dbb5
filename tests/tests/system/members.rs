//! Hosts that take part in services without a lease, through the program.

use serde_json::json;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};

/// Two services, of which nobody wants anything.
const CONFIG: &str = r#"
margin = "1s"

[site.alpha]
units = 1

[broker.exchange]

[service-manager.guest]
mapper = { name = "slo" }

[service-manager.guest.service.batch]
slo.busy = { want = "busy-units", urgency = 60 }

[service-manager.guest.service.web]
slo.busy = { want = "busy-units", urgency = 60 }
"#;

#[test]
fn static_units_are_listed_and_what_several_claim_is_resolved() {
    let deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    let report = "service report guest/batch busy-units=0 --member node7 --member node8=down";
    let batch = deployment.json(report);
    assert_eq!(batch["demands"][0]["held"], 1, "{batch}");
    let units = deployment.json("unit list --service batch");
    let shown = |n: usize| (units[n]["unit"].clone(), units[n]["state"].clone());
    assert_eq!(shown(0), (json!("node7"), json!("assigned")), "{units}");
    assert_eq!(shown(1), (json!("node8"), json!("error")), "{units}");
    assert_eq!(units[0]["origin"], "static", "{units}");
    let refused = deployment.tenure("unit unassign node7");
    assert!(stderr(&refused).contains("node7 is a static unit of guest/batch"), "{refused:?}");

    deployment.json("service report guest/web busy-units=0 --member Node7");
    let claims = deployment.json("unit resolve node7");
    let states = |claims: &serde_json::Value| {
        let all = claims.as_array().expect("a list").iter();
        all.map(|claim| format!("{} {}", claim["service"], claim["state"])).collect::<Vec<_>>()
    };
    assert_eq!(states(&claims), [r#""guest/batch" "ambiguous""#, r#""guest/web" "ambiguous""#]);
    assert_eq!(deployment.json("service show guest/batch")["demands"][0]["held"], 0);
    let nobody = deployment.tenure("unit resolve node7 --keep shop");
    assert!(stderr(&nobody).contains("`shop` does not claim node7"), "{nobody:?}");
    let one = deployment.tenure("unit resolve node8");
    assert!(stderr(&one).contains("no two claim node8"), "{one:?}");
    let kept = deployment.json("unit resolve node7 --keep web");
    assert_eq!(states(&kept), [r#""guest/batch" "shut-out""#, r#""guest/web" "kept""#]);
    assert_eq!(deployment.json("service show guest/web")["demands"][0]["held"], 1);
    assert_eq!(deployment.json("service show guest/batch")["demands"][0]["held"], 0);
    deployment.json("service report guest/batch --seen stopped");
    deployment.json("service report guest/web --seen stopped");
    deployment.close_all();
}

/// Two service managers with a service each.
const TWO: &str = r#"
margin = "1s"

[site.alpha]
units = 1

[broker.exchange]

[service-manager.guest]
mapper = { name = "slo" }

[service-manager.guest.service.batch]
slo.busy = { want = "busy-units", urgency = 60 }

[service-manager.lab]
mapper = { name = "slo" }

[service-manager.lab.service.web]
slo.busy = { want = "busy-units", urgency = 60 }
"#;

#[test]
fn a_host_that_services_of_two_service_managers_claim_is_found_and_resolved() {
    let deployment = Deployment::of(TWO, tempfile::tempdir().expect("a folder"));
    let host = "node7.example.org";
    deployment.json(&format!("service report guest/batch busy-units=0 --member {host}"));
    deployment.json(&format!("service report lab/web busy-units=0 --member {host}"));
    let held = |service: &str| {
        let shown = deployment.json(&format!("service show {service}"));
        shown["demands"][0]["held"].as_u64()
    };
    let counts = || (held("guest/batch"), held("lab/web"));
    eventually(DEADLINE, "both know that the other claims it", || counts() == (Some(0), Some(0)));
    let claims = deployment.json(&format!("unit resolve {host}"));
    let words = |claims: &serde_json::Value| {
        let all = claims.as_array().expect("a list").iter();
        let word =
            |claim: &serde_json::Value, key: &str| claim[key].as_str().unwrap_or("-").to_owned();
        let line = |claim| ["manager", "service", "broker", "state"].map(|key| word(claim, key));
        all.map(|claim| line(claim).join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(
        words(&claims),
        [
            "guest guest/batch - ambiguous",
            "guest lab/web exchange ambiguous",
            "lab lab/web - ambiguous",
            "lab guest/batch exchange ambiguous",
        ]
    );
    let shown = deployment.tenure(&format!("unit show {host}"));
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("claimed by several:") && shown.contains("exchange"), "{shown}");
    let kept = deployment.json(&format!("unit resolve {host} --keep lab/web"));
    assert_eq!(
        words(&kept),
        [
            "guest guest/batch - shut-out",
            "guest lab/web exchange kept",
            "lab lab/web - kept",
            "lab guest/batch exchange shut-out",
        ]
    );
    assert_eq!(counts(), (Some(0), Some(1)));
    deployment.json("service report guest/batch --seen stopped");
    deployment.json("service report lab/web --seen stopped");
    deployment.close_all();
}
