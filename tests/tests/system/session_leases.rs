//! Sessions: leases that end with the program that uses them, as users meet them.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tenure_tests::tenure;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, ended, lives, stderr, words, written};

/// `tenure LINE` on a deployment that is named by its variable: what follows `--` is a command of its own.
fn client(deployment: &Deployment, line: &str) -> Command {
    let mut command = Command::new(tenure());
    command.args(words(line)).env("TENURE_DATA", deployment.data.path());
    command
}

/// A command that says when it runs and what it has, and then waits to be ended.
fn waiting(deployment: &Deployment, options: &str, file: &Path) -> Child {
    let script =
        format!("cp $TENURE_SESSION {0}.json; echo $$ > {0}; exec sleep 600", file.display());
    let line = format!("session run '1 node' --for 30m {options} -- /bin/sh -c '{script}'");
    client(deployment, &line).stderr(Stdio::piped()).spawn().expect("a client")
}

fn sessions(deployment: &Deployment) -> Vec<Value> {
    deployment.json("session list").as_array().cloned().expect("a list")
}

fn live_leases(deployment: &Deployment) -> usize {
    deployment.json("lease list").as_array().map_or(0, Vec::len)
}

fn all_back(deployment: &Deployment) {
    eventually(DEADLINE, "all leases to be back", || live_leases(deployment) == 0);
}

/// The session of a file that a command has found.
fn found(file: &Path) -> Value {
    let text = fs::read_to_string(format!("{}.json", file.display())).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_command_has_units_for_as_long_as_it_runs_and_ends_as_it_does() {
    let deployment = Deployment::start();
    let copy = deployment.data.path().join("copy.json");
    let script = format!("cp $TENURE_SESSION {}; exit 7", copy.display());
    let line = format!("session run '2 node' --for 10m -- /bin/sh -c '{script}'");
    let output = client(&deployment, &line).output().expect("a client");
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let text = fs::read_to_string(copy).expect("a copy");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    let units = found["units"].as_array().expect("units");
    assert_eq!(units.len(), 2, "{found}");
    assert!(units.iter().all(|unit| unit["type"] == "node" && unit["unit"].is_string()), "{found}");
    all_back(&deployment);
    assert_eq!(sessions(&deployment), Vec::<Value>::new());
}

#[test]
fn without_units_the_command_does_not_run_and_the_exit_code_says_why() {
    let deployment = Deployment::start();
    let ran = deployment.data.path().join("ran");
    let run = |wanted: &str| {
        let line = format!("session run {wanted} --for 10m -- /usr/bin/touch {}", ran.display());
        client(&deployment, &line).output().expect("a client")
    };
    let never = run("'1 zeppelin'");
    assert_eq!(never.status.code(), Some(3), "{}", stderr(&never));
    let take = "lease request 1..50 node --for 30m --wait";
    let taken = (0..10).take_while(|_| deployment.tenure(take).status.success()).count();
    assert!((1..10).contains(&taken), "{taken}");
    let busy = run("'1 node'");
    assert_eq!(busy.status.code(), Some(75), "{}", stderr(&busy));
    assert!(!ran.exists());
    assert_eq!(sessions(&deployment), Vec::<Value>::new());
}

#[test]
fn a_session_ends_at_once_with_its_client_and_passes_signals_on() {
    let deployment = Deployment::start();
    let file = deployment.data.path().join("pid");
    let mut killed = waiting(&deployment, "", &file);
    let pid = written(&file);
    let open = sessions(&deployment);
    assert_eq!(
        (open[0]["held_by"].clone(), open[0]["units"].clone()),
        ("connection".into(), 1.into())
    );
    assert_eq!(open[0]["session"], found(&file)["session"]);
    killed.kill().expect("a client");
    ended(&mut killed);
    all_back(&deployment);
    assert_eq!(sessions(&deployment), Vec::<Value>::new());
    // Nobody is left who could end the command.
    assert!(Command::new("kill").arg(&pid).status().is_ok_and(|status| status.success()));

    let file = deployment.data.path().join("pid2");
    let mut ended_by_signal = waiting(&deployment, "", &file);
    let pid = written(&file);
    let client = ended_by_signal.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &client]).status().is_ok_and(|s| s.success()));
    assert_eq!(ended(&mut ended_by_signal), Some(128 + 15));
    assert!(!lives(&pid));
    all_back(&deployment);
}

#[test]
fn a_session_that_is_closed_ends_its_command_and_later_calls_say_so() {
    let deployment = Deployment::start();
    let file = deployment.data.path().join("pid");
    let mut client = waiting(&deployment, "--grace 5s", &file);
    let pid = written(&file);
    let session = found(&file)["session"].as_str().expect("a name").to_owned();
    deployment.json(&format!("session close {session}"));
    assert_eq!(ended(&mut client), Some(75));
    assert!(!lives(&pid));
    all_back(&deployment);
    let again = deployment.tenure(&format!("session get {session} '1 node' --for 10m"));
    assert_eq!(again.status.code(), Some(1), "{}", stderr(&again));
    assert!(stderr(&again).contains("it is not open"), "{}", stderr(&again));
    let shown = deployment.tenure(&format!("session show {session}"));
    assert_eq!(shown.status.code(), Some(1), "{}", stderr(&shown));
}

#[test]
fn a_session_goes_on_while_its_deployment_is_killed_and_comes_back() {
    let mut deployment = Deployment::start();
    let file = deployment.data.path().join("pid");
    let mut client = waiting(&deployment, "--keep-alive 2m", &file);
    let pid = written(&file);
    deployment.end("-KILL");
    deployment.restart();
    eventually(DEADLINE, "the session to be held again", || {
        sessions(&deployment).iter().any(|session| session["held_by"] == "connection")
    });
    assert!(lives(&pid));
    assert_eq!(live_leases(&deployment), 1);
    client.kill().expect("a client");
    ended(&mut client);
    all_back(&deployment);
    assert!(Command::new("kill").arg(&pid).status().is_ok_and(|status| status.success()));
}

#[test]
fn a_session_that_nobody_holds_again_after_a_restart_is_closed() {
    let mut deployment = Deployment::start();
    let file = deployment.data.path().join("pid");
    let mut client = waiting(&deployment, "--keep-alive 8s", &file);
    let pid = written(&file);
    deployment.end("-KILL");
    // It does not wait longer than its session is kept alive.
    assert_eq!(ended(&mut client), Some(75));
    assert!(!lives(&pid));
    deployment.restart();
    all_back(&deployment);
    assert_eq!(sessions(&deployment), Vec::<Value>::new());
}

#[test]
fn a_session_whose_keep_alive_is_too_short_or_too_long_is_refused() {
    let deployment = Deployment::start();
    for keep_alive in ["7s", "61m"] {
        let line = format!("session run '1 node' --for 30m --keep-alive {keep_alive} -- /bin/true");
        let refused = client(&deployment, &line).output().expect("a client");
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        let why = "it must be between 8s and 1h";
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    }
}

#[test]
fn a_session_of_a_process_ends_with_it() {
    let deployment = Deployment::start();
    let mut holder = Command::new("/bin/sleep").arg("600").spawn().expect("a process");
    let opened = deployment.json(&format!("session open --pid {}", holder.id()));
    let session = opened["session"].as_str().expect("a name");
    deployment.json(&format!("session get {session} '1 node' --for 10m"));
    deployment.json(&format!("session get {session} '1 node' --for 10m"));
    let shown = deployment.json(&format!("session show {session}"));
    assert_eq!(
        (shown["units"].as_u64(), shown["leases"].as_array().map(Vec::len)),
        (Some(2), Some(2))
    );
    let table = deployment.tenure(&format!("session show {session}"));
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.starts_with(&format!("session    {session}\n")), "{table}");
    holder.kill().expect("a process");
    ended(&mut holder);
    all_back(&deployment);

    // As `session=$(tenure session open)` takes it.
    let named = deployment.tenure("session open");
    let named = String::from_utf8_lossy(&named.stdout).into_owned();
    assert!(named.starts_with("session-") && named.lines().count() == 1, "{named}");
    let none = deployment.tenure("session open --pid 999999999");
    assert_eq!(none.status.code(), Some(3), "{}", stderr(&none));
    let unknown = deployment.tenure("lease request 1 --for 10m --slice session-0123456789abcdef");
    assert_eq!(unknown.status.code(), Some(1), "{}", stderr(&unknown));
}

#[test]
fn what_cannot_be_got_for_a_session_ends_it_with_all_that_it_had() {
    let deployment = Deployment::start();
    let mut holder = Command::new("/bin/sleep").arg("600").spawn().expect("a process");
    let opened = deployment.json(&format!("session open --pid {}", holder.id()));
    let session = opened["session"].as_str().expect("a name");
    deployment.json(&format!("session get {session} '1 node' --for 10m"));
    let none = deployment.tenure(&format!("session get {session} '1 zeppelin' --for 10m"));
    assert_eq!(none.status.code(), Some(3), "{}", stderr(&none));
    all_back(&deployment);
    assert_eq!(sessions(&deployment), Vec::<Value>::new());
    holder.kill().expect("a process");
    ended(&mut holder);
}

#[test]
fn a_session_that_keeps_on_loss_goes_on_with_what_is_left() {
    let deployment = Deployment::start();
    let mut holder = Command::new("/bin/sleep").arg("600").spawn().expect("a process");
    let opened = deployment.json(&format!("session open --pid {} --on-loss keep", holder.id()));
    assert_eq!(opened["on_loss"], "keep");
    let session = opened["session"].as_str().expect("a name");
    deployment.json(&format!("session get {session} '1 node' --for 10m"));
    deployment.json(&format!("session get {session} '1 node' --for 3s"));
    let none = deployment.tenure(&format!("session get {session} '1 zeppelin' --for 10m"));
    assert_eq!(none.status.code(), Some(3), "{}", stderr(&none));
    eventually(DEADLINE, "the short lease to be over", || live_leases(&deployment) == 1);
    let shown = deployment.json(&format!("session show {session}"));
    assert_eq!((shown["units"].as_u64(), shown["on_loss"].as_str()), (Some(1), Some("keep")));
    holder.kill().expect("a process");
    ended(&mut holder);
    all_back(&deployment);
}

#[test]
fn no_more_sessions_are_open_than_are_allowed() {
    let config = "[site.alpha]\nunits = 2\n[broker.exchange]\n\
                  [service-manager.guest]\nsessions = 1\n";
    let deployment = Deployment::of(config, tempfile::tempdir().expect("a folder"));
    let open = format!("session open --pid {}", std::process::id());
    let first = deployment.json(&open);
    let refused = deployment.tenure(&open);
    assert_eq!(refused.status.code(), Some(75), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("as many sessions as it may"), "{}", stderr(&refused));
    deployment.json(&format!("session close {}", first["session"].as_str().expect("a name")));
    deployment.json(&open);
}
