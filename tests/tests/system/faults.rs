//! A bad network: nothing changes that must not, everything ends that must.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use serde_json::Value;
use tenure_core::wire::message::Message;
use tenure_tests::emulate;

/// A day of leases that are extended, given back early and refused now and then.
const SCENARIO: &str = r#"
horizon = "1d"
term = "1h"
capacity = 20
signatures = "none"
[workload.wave]
base = 0.5
amplitude = 0.4
noise = 0.1
[site.a]
setup = { uniform = ["10s", "40s"] }
[site.b]
teardown = "30s"
[broker.x]
mapper = { name = "priority" }
[service-manager.web]
mapper = { name = "adaptive", extend-before = "15m", give-back = true, properties = { priority = "1" } }
join = "5s"
leave = "5s"
leave-before = "1m"
[service-manager.batch]
peak = 12
mapper = { name = "adaptive", give-back = true }
"#;

/// The scenario in a file that is written once, whatever runs side by side.
fn scenario() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("faults.toml");
        fs::write(&path, SCENARIO).unwrap();
        path.display().to_string()
    })
}

fn one(overrides: &[&str]) -> (i32, Value) {
    let (code, mut runs) = emulate(scenario(), overrides);
    assert_eq!(runs.len(), 1);
    (code, runs.remove(0))
}

#[test]
fn the_scenario_exercises_what_the_tests_below_take_away() {
    let (code, run) = one(&[]);
    assert_eq!((code, run["verdict"].as_str()), (0, Some("complete")), "{run}");
    for key in ["requests", "refusals", "setups", "teardowns", "extends", "unit_flips"] {
        assert!(run[key].as_u64().unwrap() > 0, "no {key} in {run}");
    }
}

#[test]
fn repeated_messages_leave_the_hash_as_it_is() {
    let (_, run) = one(&[]);
    let (code, repeated) = one(&["message.duplicate=0.5"]);
    assert_eq!(code, 0);
    assert_eq!(run["journal_hash"], repeated["journal_hash"]);
    assert!(repeated["messages"].as_u64() > run["messages"].as_u64());
}

#[test]
fn repeated_messages_leave_the_hash_as_it_is_under_delay_too() {
    let delay = "message.delay={ uniform = [\"1s\", \"9s\"] }";
    let (_, run) = one(&[delay, "message.retry=1m"]);
    let (_, repeated) = one(&[delay, "message.retry=1m", "message.duplicate=1.0"]);
    assert_eq!(run["journal_hash"], repeated["journal_hash"]);
}

#[test]
fn under_loss_and_delay_every_request_ends_and_nothing_is_left_over() {
    for seed in 1..=8 {
        let (code, run) = one(&[
            "message.loss=0.3",
            "message.duplicate=0.2",
            "message.delay={ uniform = [\"0s\", \"20s\"] }",
            "site.a.failure=0.1",
            &format!("seed={seed}"),
        ]);
        assert_eq!((code, run["verdict"].as_str()), (0, Some("complete")), "seed {seed}: {run}");
    }
}

#[test]
fn without_one_kind_of_message_the_run_does_not_complete() {
    // In this run nobody waits in a queue, is offered anything, withdraws, gives back a part, changes a lease
    // in place, has to redeem by an instant, recalls anything, loses a unit, asks for a clock or for what is free, rotates
    // a key, invites a peer, passes on a request, advertises or has a service.
    let others = [
        "waiting",
        "offered",
        "accept",
        "withdraw",
        "return",
        "returned",
        "modify",
        "modified",
        "reclaim",
        "reclaimed",
        "recall",
        "recalled",
        "recall-notice",
        "recall-noted",
        "unit-failed",
        "ping",
        "pong",
        "keys",
        "hand-over",
        "handed-back",
        "ask-portion",
        "portion-back",
        "portion-decided",
        "heartbeat",
        "heartbeat-heard",
        "advert",
        "advert-wanted",
        "keys-noted",
        "join",
        "joined",
        "inquire",
        "available",
        "need",
        "noted",
        "hosts",
        "hosts-noted",
        "hosts-changed",
        "restate",
    ];
    for kind in Message::KINDS.into_iter().filter(|kind| !others.contains(kind)) {
        let (code, run) = one(&[&format!("message.drop=[\"{kind}\"]")]);
        if kind == "request" {
            // What no broker has heard of is withdrawn in the end: nothing was ever set up.
            assert_eq!(run["setups"], 0, "{run}");
            continue;
        }
        assert_ne!(run["verdict"], "complete", "without `{kind}` messages: {run}");
        assert_eq!(code, 1, "without `{kind}` messages");
        assert!(run["problems"][0].is_string(), "without `{kind}` messages nothing is said");
    }
}

#[test]
fn setups_that_outlast_their_term_never_become_active() {
    let (_, run) = one(&["site.a.setup=2h", "site.b.setup=2h"]);
    assert_eq!(run["fidelity"].as_f64(), Some(0.0), "{run}");
    assert_eq!(run["verdict"], "complete", "{run}");
}
