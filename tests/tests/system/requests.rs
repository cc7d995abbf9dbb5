//! Requests as their users see them: ids, setups that fail, what is printed, and ctrl-c.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::deployment::{Deployment, stderr};
use crate::why::with_driver;

/// Lends files of its folder, and says of each what would steer a terminal. While there is a file `broken` no
/// unit can be set up; where there is a pipe `gate`, a setup waits there.
const DRIVER: &str = r#"#!/bin/sh
read -r input
unit=${input#*\"unit\":}
unit=${unit%%,*}
case $input in
*'"step":"setup"'*) [ ! -e broken ] || { echo "the cable is out" >&2; exit 1; }; [ ! -p gate ] || read -r open < gate; mkdir -p lent; : > "lent/$unit" ;;
*'"step":"teardown"'*) rm -f "lent/$unit" ;;
*) if [ -e "lent/$unit" ]; then printf '%s\n' '{"state":"up","properties":{"note":"\u001b[2J\u202ea\u200b\nfake/u9  free"}}'; else echo '{"state":"down"}'; fi ;;
esac
"#;

/// What the driver says of a unit.
const NOTE: &str = "\u{1b}[2J\u{202e}a\u{200b}\nfake/u9  free";

/// A file that steers the driver.
fn sign(deployment: &Deployment, name: &str) -> std::path::PathBuf {
    deployment.data.path().join("drivers/alpha").join(name)
}

/// The state and the name of the lease that a request is answered, and the exit code.
fn request(deployment: &Deployment, line: &str) -> (String, String, Option<i32>) {
    let output = deployment.tenure(&format!("lease request {line} -o json"));
    let leases: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let word = |key: &str| leases[0][key].as_str().unwrap_or_default().to_owned();
    (word("state"), word("lease"), output.status.code())
}

/// Two phones, of which one is offline, and their profile.
const HANDSETS: &str = r#"
[site.lab]
units = 1
resource = "phone"
attributes = { sim = true, online = true }

[site.shelf]
units = 1
resource = "phone"
attributes = { sim = true, online = false }

[broker.broker]

[service-manager.guest]
brokers = ["broker"]

[profile.handset]
type = "phone"
where = "sim"
defaults = { online = true }
"#;

#[test]
fn what_a_profile_says_holds_unless_the_demand_says_otherwise() {
    let deployment = Deployment::of(HANDSETS, tempfile::tempdir().expect("a folder"));
    let site = |demand: &str| {
        let line = format!("lease request '{demand}' --for 10m --as guest --wait");
        deployment.json(&line)[0]["site"].clone()
    };
    let asked = |demand: &str| {
        let line = format!("lease request '{demand}' --for 10m --as guest --wait");
        deployment.tenure(&line).status.code()
    };
    assert_eq!(site("1 handset"), "lab");
    assert_eq!(site("1 handset where online = false"), "shelf");
    // There is none more that is online, and none without a SIM card at all.
    assert_eq!(asked("1 handset"), Some(75));
    assert_eq!(asked("1 handset where not sim"), Some(3));
}

#[test]
fn what_a_driver_says_steers_no_terminal_and_json_has_it_as_it_is() {
    let deployment = with_driver(DRIVER, 1);
    let lease = deployment.json("lease request 1 --for 1h --as guest --wait");
    assert_eq!(lease[0]["in_hand"][0]["properties"]["note"], NOTE);
    assert_eq!(deployment.json("site show alpha")["units"][0]["properties"]["note"], NOTE);
    for line in [
        "lease show guest/1",
        "site show alpha",
        "site show alpha -o csv",
        "lease show guest/1 -o json",
        "site show alpha -o jsonl",
    ] {
        let output = deployment.tenure(line);
        let printed = String::from_utf8(output.stdout).expect("text");
        assert!(!printed.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{line}: {printed:?}");
        assert!(!printed.contains("\nfake/u9"), "{line}: {printed}");
    }
    let journal = deployment.data.path().join("journals/guest.db");
    for format in ["table", "csv", "json"] {
        let mut show = Command::new(tenure_tests::tenure());
        let shown = show.args(["journal", "show", "-o", format]).arg(&journal).output();
        let printed = String::from_utf8(shown.expect("it runs").stdout).expect("text");
        assert!(printed.contains("fake/u9"), "{format}: {printed}");
        assert!(!printed.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{format}: {printed:?}");
    }
}

#[test]
fn a_failed_setup_is_reported_as_such_and_its_id_may_be_used_again() {
    let mut deployment = with_driver(DRIVER, 1);
    let broken = sign(&deployment, "broken");
    std::fs::write(&broken, "").expect("a file");
    let first = deployment.tenure("lease request 1 --for 1h --as guest --id nightly --wait");
    let error = stderr(&first);
    assert_eq!(first.status.code(), Some(75), "{error}");
    assert!(error.contains("alpha: only 0 of 1 units could be set up"), "{error}");
    let lease = deployment.json("lease show guest/1")[0].clone();
    assert_eq!((&lease["outcome"], &lease["site"]), (&"failed".into(), &"alpha".into()));
    let refusal = &lease["refusal"];
    assert_eq!((&refusal["code"], &refusal["by"]), (&"setup-failed".into(), &"alpha".into()));
    let listed = deployment.tenure("lease list --all --as guest");
    let listed = String::from_utf8(listed.stdout).expect("text");
    assert!(listed.contains("closed (failed)") && listed.contains("setup-failed"), "{listed}");
    let why = deployment.tenure("lease why guest/1");
    let why = String::from_utf8(why.stdout).expect("text");
    assert!(why.contains("its setup at alpha failed") && why.contains("cable is out"), "{why}");
    assert!(!why.contains("given back"), "{why}");

    // The same id may be tried again, and once it was granted stands for that.
    std::fs::remove_file(&broken).expect("no file");
    let again =
        |deployment: &Deployment| request(deployment, "1 --for 1h --as guest --id nightly --wait");
    let granted = ("active".to_owned(), "guest/2.0".to_owned(), Some(0));
    assert_eq!(again(&deployment), granted);
    assert_eq!(again(&deployment), granted);
    deployment.end("-KILL");
    deployment.restart_up();
    assert_eq!(again(&deployment), granted);

    // It stands for nothing else.
    for (line, differs) in [
        ("1 --for 2h --as guest --id nightly", "duration was `1h` and is now `2h`"),
        ("2 --for 1h --as guest --id nightly", "demand was `1 node` and is now `2 node`"),
        ("1 --for 1h --as guest --id nightly --at now+5m", "start was `now` and is now `now+5m`"),
        ("1 --for 1h --as guest --id nightly --where speed=2", "is now `1 node where 'speed = 2'`"),
        ("1 --for 1h --as guest --id nightly --property a=b", "configuration was none and is now"),
        ("1 --for 1h --as guest --id=", "an id has 1 to 256 bytes"),
    ] {
        let output = deployment.tenure(&format!("lease request {line}"));
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{line}: {error}");
        assert!(error.contains(differs), "{line}: {error}");
    }
    assert_eq!(deployment.json("lease list --as guest").as_array().map(Vec::len), Some(1));
    // What was given back was granted once: the id stands for it still.
    deployment.json("lease close guest/2 --wait");
    assert_eq!(again(&deployment).1, "guest/2.0");
}

#[test]
fn an_id_that_was_refused_for_now_is_tried_again_until_it_is_granted() {
    let mut deployment = with_driver(DRIVER, 1);
    deployment.json("lease request 1 --for 1h --as rival --wait");
    let ask =
        |deployment: &Deployment| request(deployment, "1 --for 30m --as guest --id job-7 --wait");
    assert_eq!(ask(&deployment), ("closed".to_owned(), "guest/1.0".to_owned(), Some(75)));
    assert_eq!(ask(&deployment), ("closed".to_owned(), "guest/2.0".to_owned(), Some(75)));
    deployment.end("-KILL");
    deployment.restart_up();
    assert_eq!(ask(&deployment), ("closed".to_owned(), "guest/3.0".to_owned(), Some(75)));
    deployment.json("lease close rival/1 --wait");
    let granted = ("active".to_owned(), "guest/4.0".to_owned(), Some(0));
    assert_eq!(ask(&deployment), granted);
    assert_eq!(ask(&deployment), granted);
    // What can never be met is not tried again.
    let never =
        |deployment: &Deployment| request(deployment, "9 --for 30m --as guest --id never --wait");
    assert_eq!(never(&deployment), never(&deployment));
    let requests = deployment.json("broker show exchange")["requests"].clone();
    let requests = requests.as_array().expect("requests");
    let refused = requests.iter().find(|asked| asked["request"] == "guest/1").expect("a request");
    assert_eq!((&refused["units"], &refused["resource"]), (&json!(1), &json!("node")));
    assert!(refused["start"].as_str() < refused["end"].as_str(), "{refused}");
}

#[test]
fn an_id_is_answered_without_a_look_at_facts_that_do_not_concern_it() {
    let mut deployment = with_driver(DRIVER, 1);
    let ask = |deployment: &Deployment| request(deployment, "1 --for 1h --as guest --id once");
    let (_, lease, code) = ask(&deployment);
    assert_eq!((lease.as_str(), code), ("guest/1.0", Some(0)));
    assert_eq!(deployment.end("-TERM"), Some(0));
    // The start goes on from a snapshot behind it, and a reader of it finds the damage.
    let journal = deployment.data.path().join("journals/guest.db");
    let connection = rusqlite::Connection::open(&journal).expect("a journal");
    let damage = "UPDATE fact SET checksum = checksum + 1 WHERE position = 0";
    assert_eq!(connection.execute(damage, []).expect("a change"), 1);
    drop(connection);
    deployment.restart_up();
    let (_, again, code) = ask(&deployment);
    assert_eq!((again.as_str(), code), ("guest/1.0", Some(0)));
}

#[test]
fn an_interrupted_wait_says_what_continues() {
    let deployment = with_driver(DRIVER, 1);
    let gate = sign(&deployment, "gate");
    assert!(Command::new("mkfifo").arg(&gate).status().is_ok_and(|made| made.success()));
    let wait = Command::new(tenure_tests::tenure())
        .args("lease request 1 --for 1h --as guest --wait --data".split(' '))
        .arg(deployment.data.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a request");
    // It waits for its lease once the lease is there.
    let asked = (0..1000).any(|_| deployment.tenure("lease show guest/1").status.success());
    assert!(asked, "the lease was asked for");
    let pid = wait.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().is_ok_and(|kill| kill.success()));
    let output = wait.wait_with_output().expect("its end");
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert!(
        error.contains("guest/1 continues") && error.contains("lease watch guest/1"),
        "{error}"
    );
    assert!(output.stdout.is_empty());
    std::fs::write(&gate, "open\n").expect("the gate");
    std::fs::remove_file(&gate).expect("no gate");
    let active = (0..1000).any(|_| deployment.json("lease show guest/1")[0]["state"] == "active");
    assert!(active, "it went on");
}

#[test]
fn a_change_under_an_id_is_made_once_even_across_a_kill() {
    let mut deployment = with_driver(DRIVER, 4);
    deployment.json("lease request 1 --for 1h --as guest --wait");
    let extend = |deployment: &Deployment, rest: &str| {
        deployment.tenure(&format!("lease extend guest/1 {rest} --id longer --wait"))
    };
    let end = |deployment: &Deployment| deployment.json("lease show guest/1")[0]["end"].clone();
    assert_eq!(extend(&deployment, "--for 1h").status.code(), Some(0));
    let extended = end(&deployment);
    deployment.end("-KILL");
    deployment.restart_up();
    let again = deployment.tenure("lease extend guest/1 --for 1h --id longer");
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert_eq!(end(&deployment), extended, "it is extended once");
    let other = extend(&deployment, "--for 2h");
    assert_eq!(other.status.code(), Some(2), "{}", stderr(&other));
    assert!(
        stderr(&other).contains("id `longer` stands for another command"),
        "{}",
        stderr(&other)
    );
}
