//! Keys of a live deployment: rotated and revoked while a lease lives, through kills.

use std::fs;

use serde_json::Value;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr, tenure_on};

const CONFIG: &str = "[site.alpha]\nunits = 4\n[broker.exchange]\n[service-manager.guest]\n";

/// The keys of an actor: state and public key of each.
fn keys(deployment: &Deployment, actor: &str) -> Vec<(String, String)> {
    let shown = deployment.json(&format!("keys show {actor}"));
    let keys = shown[0]["keys"].as_array().expect("keys").iter();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    keys.map(|key| (text(&key["state"]), text(&key["key"]))).collect()
}

fn states(deployment: &Deployment, actor: &str) -> Vec<String> {
    keys(deployment, actor).into_iter().map(|(state, _)| state).collect()
}

/// Waits until all peers have noted what an actor has stated.
fn noted(deployment: &Deployment, actor: &str) {
    eventually(DEADLINE, "all peers to note the statements", || {
        let shown = deployment.json(&format!("keys show {actor}"));
        shown[0]["not_noted_by"].as_array().is_some_and(Vec::is_empty)
    });
}

#[test]
fn a_lease_lives_on_while_all_keys_are_rotated_and_revoked_through_kills() {
    let mut deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    deployment.json("lease request 2 --for 1h --wait");
    let held = deployment.held();
    assert_eq!(held.len(), 2);

    // The kill comes when the fact is durable, whether or not a peer has noted it.
    deployment.json("keys rotate exchange --id one");
    assert_eq!(deployment.end("-KILL"), None);
    deployment.restart_up();
    deployment.json("keys rotate exchange --id one");
    assert_eq!(states(&deployment, "exchange"), ["replaced", "in-force"], "asked for once");
    noted(&deployment, "exchange");

    // It comes when the secret is stored, and the fact is not: that secret is used.
    let data = deployment.data.path().to_owned();
    fs::copy(data.join("keys/guest"), data.join("stolen")).expect("a thief");
    for actor in ["guest", "alpha"] {
        deployment.json(&format!("keys rotate {actor}"));
    }
    let secret = |name: &str| fs::read_to_string(data.join("keys").join(name)).expect("a secret");
    assert_ne!(secret("guest.2"), secret("guest"));
    assert_eq!(deployment.end("-KILL"), None);
    fs::write(data.join("keys/exchange.3"), "07".repeat(32)).expect("a secret");
    chmod(&data.join("keys/exchange.3"));
    deployment.restart_up();
    deployment.json("keys rotate exchange");
    assert_eq!(states(&deployment, "exchange"), ["replaced", "replaced", "in-force"]);
    assert_eq!(secret("exchange.3"), "07".repeat(32));

    for key in ["exchange 1", "guest 1", "alpha 1"] {
        deployment.json(&format!("keys revoke {key}"));
    }
    let refused = deployment.tenure("keys revoke exchange 3");
    assert_ne!(refused.status.code(), Some(0));
    assert!(stderr(&refused).contains("rotate it first"), "{}", stderr(&refused));
    assert_eq!(deployment.tenure("keys revoke exchange 9").status.code(), Some(3));
    ["exchange", "guest", "alpha"].iter().for_each(|actor| noted(&deployment, actor));
    assert_eq!(deployment.end("-KILL"), None);
    deployment.restart_up();
    assert_eq!(states(&deployment, "guest"), ["revoked", "in-force"]);

    // The lease has its units still, is extended by the new keys, and its ticket can be checked without them.
    deployment.json("lease extend 1 --for 1h --wait");
    assert_eq!(deployment.held(), held);
    let tickets = deployment.lease("1")["tickets"].as_array().expect("tickets").clone();
    for (ticket, file) in tickets.iter().zip(["old.json", "new.json"]) {
        let shown = deployment.tenure(&format!("ticket show {} -o json", ticket.as_str().unwrap()));
        fs::write(data.join(file), &shown.stdout).expect("a file");
    }
    let statements = deployment.tenure("keys show -o json");
    fs::write(data.join("keys.json"), &statements.stdout).expect("a file");
    deployment.json("lease close 1 --wait");
    deployment.becomes_clean();

    // Offline: a ticket by revoked keys is honoured, and one by later keys holds by the statements alone.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let with = format!(" --keys {}", data.join("keys.json").display());
    for (file, with, code) in [("old", &*with, 0), ("new", &*with, 0), ("new", "", 1)] {
        let file = data.join(format!("{file}.json"));
        let line = format!("ticket verify {}{with}", file.display());
        let verified = tenure_on(elsewhere.path(), &line);
        assert_eq!(verified.status.code(), Some(code), "{line}: {}", stderr(&verified));
    }

    // An actor without the secret of its key does not start.
    assert_eq!(deployment.end("-TERM"), Some(0));
    fs::rename(data.join("keys/guest.2"), data.join("aside")).expect("a file");
    let failed = deployment.fails_with(CONFIG);
    assert_ne!(failed.status.code(), Some(0));
    let log = format!("{}{}", stderr(&failed), deployment.log());
    assert!(log.contains("the secret of its key"), "{log}");
    fs::rename(data.join("aside"), data.join("keys/guest.2")).expect("a file");
    deployment.restart_up();
}

fn chmod(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its mode");
}

#[test]
fn the_first_key_of_an_actor_can_be_made_before_it_is_started() {
    let data = tempfile::tempdir().expect("a folder");
    let made = tenure_on(data.path(), "keys new exchange -o json");
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let made: Value = serde_json::from_slice(&made.stdout).expect("JSON");
    let deployment = Deployment::of(CONFIG, data);
    let shown = deployment.json("keys show exchange");
    assert_eq!(shown[0]["id"], made[0]["id"]);
    assert_eq!(shown[0]["keys"], made[0]["keys"]);
}
