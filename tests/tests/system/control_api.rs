//! The control API where there is much: long lists, names that several things have, things that are not there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use tenure_wait::{DEADLINE, done_in_time};

use crate::deployment::{Deployment, stderr};

/// Units for so many leases, and two guests.
fn deployment(units: u32) -> Deployment {
    let config = format!(
        "[site.alpha]\nunits = {units}\n[broker.exchange]\n[service-manager.guest]\n[service-manager.rival]\n"
    );
    Deployment::of(&config, tempfile::tempdir().expect("a folder"))
}

/// What the control API answers a request.
fn answer(deployment: &Deployment, request: &Value) -> Value {
    let socket = deployment.data.path().join("tenure.sock");
    let line = format!("{request}\n");
    let ask = move || {
        let mut stream = UnixStream::connect(socket).expect("a connection");
        stream.write_all(line.as_bytes()).expect("a request");
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).expect("an answer");
        serde_json::from_str(&answer).expect("JSON")
    };
    done_in_time(DEADLINE, "an answer", ask)
}

fn names(leases: &Value) -> Vec<&str> {
    let leases = leases.as_array().expect("leases").iter();
    leases.map(|lease| lease["lease"].as_str().expect("a name")).collect()
}

#[test]
fn a_list_that_is_cut_short_says_so_and_how_to_go_on() {
    let deployment = deployment(5);
    for guest in ["guest", "guest", "rival", "guest", "rival"] {
        deployment.json(&format!("lease request 1 --for 1h --as {guest} --wait"));
    }
    let all = ["guest/1.0", "guest/2.0", "guest/3.0", "rival/1.0", "rival/2.0"];
    let first = answer(&deployment, &json!({"do": "leases", "limit": 2}));
    assert_eq!(names(&first["ok"]), all[..2]);
    assert_eq!(first["more"], json!({"left": 3, "after": "guest/2.0"}));
    let rest = answer(&deployment, &json!({"do": "leases", "after": "guest/2.0"}));
    assert_eq!(names(&rest["ok"]), all[2..]);
    assert_eq!(rest.get("more"), None);
    let part = answer(&deployment, &json!({"do": "leases", "after": "guest/2"}));
    assert_eq!(part["error"]["code"], "usage");

    let cut = deployment.tenure("lease list --limit 4");
    let (table, note) = (String::from_utf8_lossy(&cut.stdout).into_owned(), stderr(&cut));
    assert_eq!(cut.status.code(), Some(0), "{note}");
    assert!(table.contains("rival/1.0") && !table.contains("rival/2.0"), "{table}");
    assert!(note.contains("1 more leases") && note.contains("--after rival/1.0"), "{note}");
    let cut = deployment.tenure("lease list --limit 4 -o json");
    let note: Value = serde_json::from_str(&stderr(&cut)).expect("JSON");
    let message = note["warning"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("--after rival/1.0"), "{note}");
    let last = deployment.tenure("lease list --after rival/1.0 -o json");
    assert_eq!(stderr(&last), "");
    let last: Value = serde_json::from_slice(&last.stdout).expect("JSON");
    assert_eq!(names(&last), all[4..]);
}

#[test]
fn a_hash_that_several_tickets_begin_with_is_answered_their_names() {
    // With one ticket more than there are digits two begin with the same.
    let deployment = deployment(17);
    let mut hashes = Vec::new();
    for _ in 0..17 {
        let lease = deployment.json("lease request 1 --for 1h --as guest --keep-ticket --wait");
        hashes.push(lease[0]["tickets"][0].as_str().expect("a ticket").to_owned());
    }
    let twice = |hash: &&String| hashes.iter().filter(|h| h[..1] == hash[..1]).count() > 1;
    let hash = hashes.iter().find(twice).expect("two of 17 begin with one of 16 digits");
    let output = deployment.tenure(&format!("ticket show {}", &hash[..1]));
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(&format!("tickets begin with {}", &hash[..1])), "{error}");
    for other in hashes.iter().filter(|other| other[..1] == hash[..1]).take(5) {
        assert!(error.contains(other.as_str()), "{error} does not name {other}");
    }
    assert!(error.contains("(guest/"), "{error}");
    // More digits, in either case, are enough; and all of them.
    let shown = deployment.json(&format!("ticket show {}", hash.to_uppercase()));
    let whole = shown["ticket"].as_str().expect("a hash");
    assert!(whole.len() == 64 && whole.starts_with(hash.as_str()), "{whole}");
    assert_eq!(deployment.json(&format!("ticket show {whole}")), shown);
    let recalled = deployment.tenure(&format!("ticket recall {} --units 0", &hash[..1]));
    assert_eq!(recalled.status.code(), Some(2), "{}", stderr(&recalled));
    assert!(stderr(&recalled).contains("issued by exchange"), "{}", stderr(&recalled));
    for nothing in ["''", "zz"] {
        let output = deployment.tenure(&format!("ticket show {nothing}"));
        assert_eq!(output.status.code(), Some(3), "{nothing}: {}", stderr(&output));
    }
    // The number of a lease that both guests have means neither.
    deployment.json("lease request 1 --for 1h --as rival --plan");
    let split = deployment.tenure("ticket split 1 --units 1 --to rival --for 10m");
    assert_eq!(split.status.code(), Some(2), "{}", stderr(&split));
    assert!(stderr(&split).contains("guest/1 or rival/1"), "{}", stderr(&split));
}

#[test]
fn a_lease_that_is_not_there_cannot_be_watched() {
    let deployment = deployment(1);
    for name in ["7", "guest/7", "guest/7.1"] {
        let output = deployment.tenure(&format!("lease watch {name}"));
        assert_eq!(output.status.code(), Some(3), "{name}: {}", stderr(&output));
        let error = stderr(&output);
        assert!(error.contains(&format!("no lease {name}")), "{error}");
        let found = answer(&deployment, &json!({"do": "watch", "lease": name}));
        assert_eq!(found["error"]["code"], "no-such");
    }
    deployment.json("lease request 1 --for 1h --as guest --wait");
    let found = answer(&deployment, &json!({"do": "watch", "lease": "guest/1"}));
    assert_eq!(found["ok"]["state"], "active");
}
