//! Workspaces beside equipment, what is kept of them, and units again, as users meet them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tenure_tests::root;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};

/// The configuration that the how-to shows, with the program where it is.
pub(crate) fn config() -> String {
    let page = root().join("docs/howto/workspaces.md");
    let page = fs::read_to_string(page).expect("the page");
    let toml = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let program = fs::canonicalize(root().join("config/drivers/workspace")).expect("a program");
    let program = program.display().to_string();
    let sum = Command::new("sha256sum").arg(&program).output().expect("sha256sum");
    let sum = String::from_utf8(sum.stdout).expect("text");
    let sum = sum.split(' ').next().expect("a hash");
    let toml = toml.expect("a configuration");
    toml.replace("/etc/tenure/workspace", &program).replace("SHA256", sum)
}

/// A deployment of that with a second site of the same kind, which is first by its name.
fn two_labs() -> Deployment {
    let lab = config();
    let other = lab.split("[broker").next().expect("a site").replace("site.lab", "site.annex");
    Deployment::of(&format!("{lab}{other}"), tempfile::tempdir().expect("a folder"))
}

fn directory(unit: &Value) -> PathBuf {
    PathBuf::from(unit["properties"]["unit.directory"].as_str().expect("a folder"))
}

/// The only unit of a lease.
fn unit(lease: &Value) -> String {
    let units = lease["in_hand"].as_array().expect("units");
    assert_eq!(units.len(), 1, "{lease}");
    units[0]["unit"].as_str().expect("a unit").to_owned()
}

fn only(leases: &Value) -> Value {
    let leases = leases.as_array().expect("leases");
    assert_eq!(leases.len(), 1, "{leases:?}");
    leases[0].clone()
}

fn request(deployment: &Deployment, wanted: &str) -> Value {
    only(&deployment.json(&format!("lease request {wanted} --for 20m --wait")))
}

/// Runs a command in a session with a board and a workspace; the file that says what it had.
fn session(deployment: &Deployment, options: &str, script: &str) -> Value {
    let copy = deployment.data.path().join("copy.json");
    let command = format!("cp $TENURE_SESSION {}; {script}", copy.display());
    let line = format!(
        "session run '(1 board, 1 workspace)' --for 10m --wait {options} -- /bin/sh -c '{command}'"
    );
    let output = deployment.tenure(&line);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_str(&fs::read_to_string(copy).expect("a copy")).expect("JSON")
}

fn of_type<'a>(found: &'a Value, resource: &str) -> &'a Value {
    let units = found["units"].as_array().expect("units");
    units.iter().find(|unit| unit["type"] == resource).expect(resource)
}

fn site(unit: &Value) -> &str {
    unit["unit"].as_str().and_then(|unit| unit.split('/').next()).expect("a site")
}

/// Writes into the folder of the workspace, which it finds as users do.
const WRITE: &str = "jq -r \".units[] | select(.type == \\\"workspace\\\") | \
                     .properties.\\\"unit.directory\\\"\" $TENURE_SESSION > dir; \
                     read -r dir < dir; rm dir; echo failed > $dir/log";

#[test]
fn what_a_workspace_leaves_is_kept_beside_it_and_nothing_else_is() {
    let deployment = two_labs();
    // The first lab has no board left, and so its workspaces are of no use.
    request(&deployment, "2 board --where 'site = \"annex\"'");
    let found = session(&deployment, "--retain workspace=1h", WRITE);
    let [board, workspace, archive] =
        ["board", "workspace", "archive"].map(|resource| of_type(&found, resource));
    assert_eq!([board, workspace, archive].map(site), ["lab"; 3], "{found}");
    let gone = || !directory(workspace).exists() && !directory(board).exists();
    eventually(DEADLINE, "the folders of the session to be gone", gone);

    let kept = only(&deployment.json("lease list --slice archive"));
    let left = kept["left_s"].as_f64().expect("seconds");
    assert!((3600.0..4200.0).contains(&left), "{kept}");
    assert_eq!(directory(&kept["in_hand"][0]), directory(archive));
    let number = workspace["unit"].as_str().and_then(|unit| unit.split('/').nth(1)).expect("u0");
    let log = |folder: &Path| fs::read_to_string(folder.join(number).join("log"));
    eventually(DEADLINE, "the contents", || log(&directory(archive)).is_ok());
    assert_eq!(log(&directory(archive)).expect("a log"), "failed\n");
    deployment.json(&format!("lease close {} --wait", kept["lease"].as_str().expect("a name")));
    eventually(DEADLINE, "the archive to be gone", || !directory(archive).exists());

    // Without the option nothing is kept.
    let found = session(&deployment, "", WRITE);
    let workspace = directory(of_type(&found, "workspace"));
    eventually(DEADLINE, "the workspace to be gone", || !workspace.exists());
    assert_eq!(deployment.json("lease list --slice archive"), Value::Array(Vec::new()));
}

#[test]
fn what_cannot_be_kept_is_said_and_the_session_ends() {
    let deployment = two_labs();
    for (options, why) in [
        ("--retain folder=1h", "there is no folder among the units"),
        ("--retain 1h", "workspace=24h"),
    ] {
        let line = format!("session run '1 workspace' --for 10m {options} -- /bin/true");
        let output = deployment.tenure(&line);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    deployment.becomes_clean();
}

#[test]
fn by_the_same_name_a_session_gets_the_same_workspace_beside_its_board() {
    let deployment = two_labs();
    let pid = std::process::id();
    let opened = deployment.json(&format!("session open --pid {pid}"));
    let session = opened["session"].as_str().expect("a session");
    let get = |wanted: &str| {
        only(&deployment.json(&format!("session get {session} {wanted} --for 10m --wait")))
    };
    let board = get("'1 board where site = \"lab\"'");
    let name = board["lease"].as_str().expect("a lease");
    let build = format!("'1 workspace' --with {name} --name build");
    let (first, again) = (get(&build), get(&build));
    assert_eq!(first["site"], "lab");
    assert_eq!(first["lease"], again["lease"]);
    let other = get(&format!("'1 workspace' --with {name} --name test"));
    assert_ne!(first["lease"], other["lease"]);
    deployment.json(&format!("session close {session}"));
    deployment.becomes_clean();
}

#[test]
fn with_a_lease_means_at_its_site_or_not_at_all() {
    let deployment = two_labs();
    let board = request(&deployment, "1 board --where 'site = \"annex\"'");
    let with = format!("--with {}", board["lease"].as_str().expect("a lease"));
    request(&deployment, &format!("1 board {with}"));
    let busy = deployment.tenure(&format!("lease request 1 board {with} --for 10m --wait"));
    assert_eq!(busy.status.code(), Some(75), "{}", stderr(&busy));
    let unknown = deployment.tenure("lease request 1 board --with 99 --for 10m");
    assert_eq!(unknown.status.code(), Some(3), "{}", stderr(&unknown));
}

#[test]
fn units_are_had_again_if_they_can_and_others_otherwise() {
    let deployment = two_labs();
    let [_, old] = [(); 2].map(|()| request(&deployment, "1 board --where 'site = \"lab\"'"));
    let lease = old["lease"].as_str().expect("a lease").to_owned();
    for all in ["1", "2"] {
        deployment.json(&format!("lease close {all} --wait"));
    }
    deployment.becomes_clean();
    // Without it the first site and its first unit would be taken.
    let again = request(&deployment, &format!("--again {lease}"));
    assert_eq!((unit(&again), &again["resource"]), (unit(&old), &"board".into()));
    let other = request(&deployment, &format!("1 board --again {lease}"));
    assert_eq!(other["site"], "lab", "{other}");
    assert_ne!(unit(&other), unit(&old));
    let elsewhere = request(&deployment, &format!("1 board --again {lease}"));
    assert_eq!(elsewhere["site"], "annex", "{elsewhere}");
}
