//! What is asked of a service, tried out, and changed while a deployment runs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use serde_json::{Value, json};
use tenure_tests::tenure;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};

/// Four nodes, and two guests with services that a broker compares.
const CONFIG: &str = r#"
margin = "1s"

[site.alpha]
units = 4

[broker.exchange]
mapper = { name = "urgency", recall = { min-tenure = "0s", budget = "none", stable-for = "0s" } }

[service-manager.guest]
mapper = { name = "slo", ask-every = "1s" }

[service-manager.guest.service.batch]
slo.busy = { want = "busy-units", urgency = 60 }
behaviour = { min-tenure = "1s", notice = "1m", idle-after = "1d" }

[service-manager.shop]
mapper = { name = "slo", ask-every = "1s" }

[service-manager.shop.service.web]
slo.serve = { want = "load", urgency = 50 }
behaviour = { min-tenure = "1s", notice = "1m", idle-after = "1d" }
"#;

fn deployed() -> Deployment {
    Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"))
}

fn held(deployment: &Deployment, service: &str) -> u64 {
    let service = deployment.json(&format!("service show {service}"));
    let units = deployment.json("unit list");
    let named = |unit: &Value| unit["service"] == service["service"] && unit["state"] == "assigned";
    units.as_array().expect("a list").iter().filter(|unit| named(unit)).count() as u64
}

fn why(deployment: &Deployment, service: &str) -> String {
    let output = deployment.tenure(&format!("service why {service}"));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn keys_of_a_service_are_set_one_by_one_or_refused_with_their_names() {
    let deployment = deployed();
    let args =
        "service set guest/batch slo.busy.urgency=70 behaviour.most=3 slo.busy.rule=busy-units<9";
    let set = deployment.json(args);
    let slo = &set["slos"][0];
    assert_eq!((&slo["urgency"], &slo["rule"]), (&json!(70), &json!("`busy-units` < 9")), "{set}");
    assert_eq!(set["behaviour"]["most"], 3);
    let unset = deployment.json("service set guest/batch --unset slo.busy.rule");
    assert_eq!(unset["slos"][0]["rule"], Value::Null);
    for (bad, says) in [
        ("slo.busy.urgent=7", "urgent"),
        ("behaviour.most=many", "many"),
        ("--unset slo.gold", "`slo.gold` is not set"),
        ("behaviour.term=0s", "`term` is zero"),
        ("behaviour.drain=1m", "`drain` is for services with an adapter"),
        ("adapter={name=\"exec\",sense=[\"/bin/true\"],drain=\"1m\"}", "not of its adapter"),
        ("adapter={name=\"pool\"} behaviour.drain=1m", "adapter `pool` has no units drain"),
        ("behaviour.on-unknown=guess", "guess"),
    ] {
        let refused = deployment.tenure(&format!("service set guest/batch {bad}"));
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
    }
    assert_eq!(deployment.json("service show guest/batch")["slos"][0]["urgency"], 70);
}

#[test]
fn a_definition_is_tried_out_and_nothing_is_changed() {
    let deployment = deployed();
    deployment.json("service report shop/web load=3");
    eventually(DEADLINE, "three nodes of the web", || held(&deployment, "shop/web") == 3);
    deployment.json("service report guest/batch busy-units=0 pending=2");
    let file = deployment.data.path().join("batch.toml");
    fs::write(&file, "slo.wait = { want = 'pending', urgency = 60 }\nbehaviour.notice = '1m'\n")
        .expect("a file");
    let plan = deployment.json(&format!("service plan guest/batch {} --within 2m", file.display()));
    let steps = plan["steps"].as_array().expect("steps").iter();
    let steps: Vec<&str> = steps.map(|step| step["what"].as_str().expect("text")).collect();
    assert!(steps.iter().any(|what| what.starts_with("asks exchange for 2 `node`")), "{plan}");
    assert!(steps.iter().any(|what| what.starts_with("grants 1 ")), "{plan}");
    let order = &plan["orders"][0];
    assert_eq!(
        (&order["from"], &order["to"]),
        (&json!("shop/web"), &json!("guest/batch")),
        "{plan}"
    );
    assert_eq!(
        (&order["worth"], &order["claim"], &order["units"]),
        (&json!(50), &json!(60), &json!(1))
    );
    assert_eq!(deployment.json("broker orders"), json!([]));
    assert_eq!(deployment.json("lease list --as guest"), json!([]));

    // A whole configuration, with less urgent jobs: nothing is ordered for them.
    let changed =
        CONFIG.replace("urgency = 60", "urgency = 40").replace("busy-units\"", "pending\"");
    let config = deployment.data.path().join("changed.toml");
    fs::write(&config, &changed).expect("a file");
    let plan = deployment.json(&format!("service plan {} --within 2m", config.display()));
    assert_eq!(plan["orders"], json!([]), "{plan}");
    let services = plan["services"].as_array().expect("a list").iter();
    let services: Vec<_> =
        services.map(|of| (&of["service"], &of["demands"][0]["claimed"])).collect();
    let (batch, web) = (json!("guest/batch"), json!("shop/web"));
    assert_eq!(services, [(&batch, &json!(1)), (&web, &json!(0))], "{plan}");
    // With a mapper that gains more by them they are.
    fs::write(&config, changed.replace("urgency = 40", "urgency = 51")).expect("a file");
    let plan = deployment.json(&format!("service plan {} --within 2m", config.display()));
    assert_eq!(plan["orders"][0]["to"], "guest/batch", "{plan}");
    let gain =
        changed.replace("urgency = 40", "urgency = 51").replace("budget", "min-gain = 5, budget");
    fs::write(&config, gain).expect("a file");
    let plan = deployment.json(&format!("service plan {} --within 2m", config.display()));
    assert_eq!(plan["orders"], json!([]), "{plan}");
    fs::write(&config, "[site.alpha]\nunits = x\n").expect("a file");
    let refused = deployment.tenure(&format!("service plan {}", config.display()));
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("changed.toml:2:9"), "{}", stderr(&refused));

    // What nothing wants any more would go back.
    let less = deployment.data.path().join("less.toml");
    fs::write(&less, "slo.serve = { want = '0', urgency = 1 }\nbehaviour.idle-after = '1m'\n")
        .expect("a file");
    let plan = deployment.json(&format!("service plan shop/web {} --within 3m", less.display()));
    let whats = plan["steps"].as_array().expect("steps").iter().map(|step| &step["what"]);
    assert!(whats.clone().any(|what| what == "gives shop/1.0 back"), "{plan}");

    // As it is tried out, so it comes.
    deployment.json(&format!("service add guest/batch {}", file.display()));
    eventually(DEADLINE, "an order", || deployment.json("broker orders") != json!([]));
    eventually(DEADLINE, "why the web loses a node", || {
        let lease = deployment.tenure("lease why shop/1");
        String::from_utf8_lossy(&lease.stdout).contains("for guest/batch, which claims them at 60")
    });
    deployment.json("service report guest/batch --seen stopped");
    deployment.json("service report shop/web --seen stopped");
    deployment.close_all();
}

#[test]
fn what_cannot_come_about_is_warned_of() {
    let config = CONFIG.replace("urgency = 60", "urgency = 52");
    let config = config.replace("budget = \"none\"", "budget = \"none\", min-gain = 5");
    let deployment = Deployment::of(&config, tempfile::tempdir().expect("a folder"));
    deployment.json("service report guest/batch busy-units=7");
    let warnings = || {
        let service = deployment.json("service show guest/batch");
        service["warnings"].as_array().cloned().unwrap_or_default()
    };
    let close = "`busy` (52) takes nothing from `serve` of shop/web (50): broker exchange orders units for 5 more";
    eventually(DEADLINE, "two warnings", || {
        warnings() == [json!("7 `node` are wanted, and all brokers together have 4"), json!(close)]
    });
    assert!(why(&deployment, "guest/batch").contains("warning: `busy` (52)"));
    deployment.json("service report guest/batch --seen stopped");
    deployment.close_all();
}

#[test]
fn a_service_that_is_only_advised_on_gets_nothing_and_is_told_what() {
    let deployment = deployed();
    deployment.json("service set guest/batch behaviour.mode=advise");
    deployment.json("service report guest/batch busy-units=2");
    eventually(DEADLINE, "advice", || why(&deployment, "guest/batch").contains("ask for 2 `node`"));
    assert_eq!(deployment.json("lease list --as guest"), json!([]));
}

#[test]
fn units_are_listed_given_back_and_blacklisted() {
    let deployment = deployed();
    deployment.json("service report guest/batch busy-units=2");
    eventually(DEADLINE, "two nodes", || held(&deployment, "guest/batch") == 2);
    let units = deployment.json("unit list --service batch");
    let unit = units[0]["unit"].as_str().expect("a name").to_owned();
    assert_eq!(deployment.json(&format!("unit show {unit}"))["unit"], unit.as_str());
    let blacklist = deployment.json(&format!("unit blacklist guest/batch {unit} --for 1h"));
    assert_eq!(blacklist[0]["unit"], unit.as_str());
    deployment.json(&format!("unit unassign {unit}"));
    eventually(DEADLINE, "another node in its place", || {
        let units = deployment.json("unit list --service batch");
        let units = units.as_array().expect("a list");
        let named = |state: &str| units.iter().filter(|unit| unit["state"] == state).count();
        named("assigned") == 2 && units.iter().all(|other| other["unit"] != unit.as_str())
    });
    let cleared = deployment.json(&format!("unit blacklist guest/batch {unit} --clear"));
    assert_eq!(cleared, json!([]));
    let unknown = deployment.tenure("unit blacklist guest/batch gamma/u1");
    assert_eq!(unknown.status.code(), Some(3), "{}", stderr(&unknown));
    deployment.json("service report guest/batch --seen stopped");
    deployment.close_all();
}

#[test]
fn what_is_measured_is_listed_with_the_slos_that_look_at_it() {
    let deployment = deployed();
    deployment.json("service report guest/batch busy-units=2 oldest-wait=12m");
    let kpis = deployment.json("service kpi guest/batch");
    let of = |row: &Value| (row["kpi"].clone(), row["value"].clone(), row["slos"].clone());
    let rows: Vec<_> = kpis.as_array().expect("a list").iter().map(of).collect();
    assert_eq!(
        rows,
        [
            (json!("busy-units"), json!("2"), json!(["busy"])),
            (json!("oldest-wait"), json!("12m"), json!([]))
        ]
    );
    deployment.json("service report guest/batch --seen stopped");
    deployment.close_all();
}

#[test]
fn a_watch_shows_services_as_they_change() {
    let deployment = deployed();
    let mut command = Command::new(tenure());
    command.args(["service", "watch", "guest/batch", "-o", "jsonl", "--data"]);
    let mut watch = command
        .arg(deployment.data.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let (sender, lines) = channel();
    let out = BufReader::new(watch.stdout.take().expect("its output"));
    let reader = std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let line: Value = serde_json::from_str(&line).expect("JSON");
            if sender.send(line["state"].as_str().map(str::to_owned)).is_err() {
                return;
            }
        }
    });
    let next = || lines.recv_timeout(DEADLINE).expect("a line");
    assert_eq!(next().as_deref(), Some("unknown"));
    deployment.json("service report guest/batch busy-units=0 --seen starting");
    assert_eq!(next().as_deref(), Some("starting"));
    deployment.json("service report guest/batch busy-units=0");
    while next().as_deref() != Some("running") {}
    watch.kill().expect("it ends");
    watch.wait().expect("it has ended");
    reader.join().expect("the reader ends");
}

#[test]
fn a_unit_is_assigned_by_its_name_and_moved_to_another_service() {
    let deployment = deployed();
    deployment.json("service report guest/batch busy-units=0");
    deployment.json("service report shop/web load=0");
    let assigned = deployment.tenure("unit assign alpha/u2 guest/batch --wait");
    assert!(assigned.status.success(), "{}", stderr(&assigned));
    let owner = |unit: &str| deployment.json(&format!("unit show {unit}"))["service"].clone();
    assert_eq!(owner("alpha/u2"), "guest/batch");
    for (bad, says) in [
        ("assign alpha/u2 shop/web", "guest/batch has unit alpha/u2 by lease"),
        ("move alpha/u2 guest/batch", "guest/batch has unit alpha/u2 already"),
        ("move alpha/u3 guest/batch", "nobody here has unit alpha/u3"),
        ("assign alpha/u9 guest/batch --wait", "0 units of `node` are left"),
        ("assign alpha shop/web", "write the site and the number of the unit"),
        ("assign alpha/u1 shop/none", "there is no service shop/none"),
    ] {
        let refused = deployment.tenure(&format!("unit {bad}"));
        assert!(!refused.status.success(), "{bad} was done");
        assert!(stderr(&refused).contains(says), "{bad}: {}", stderr(&refused));
    }
    // What the other service claims at a lower urgency does not come first.
    deployment.json("service report shop/web load=4");
    eventually(DEADLINE, "shop/web has the others", || held(&deployment, "shop/web") == 3);
    let moved = deployment.tenure("unit move alpha/u2 shop/web --wait");
    assert!(moved.status.success(), "{}", stderr(&moved));
    assert_eq!(owner("alpha/u2"), "shop/web");
    assert_eq!(held(&deployment, "shop/web"), 4);
    // So that what is closed at the end is not asked for again.
    deployment.json("service report shop/web --seen stopped");
}
