//! Units that die, say too much, or are of another driver than before.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tenure_wait::{DEADLINE, done_in_time, eventually};

use crate::deployment::{Deployment, ended, lives, outside_of, stderr, units, up, written};

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A site of one unit with this driver, a broker and a guest.
fn site(driver: &str) -> String {
    format!(
        "probe-every = \"200ms\"\n[site.alpha]\nunits = 1\nfail-after = 0\ndriver = {driver}\n\
         [broker.exchange]\n[service-manager.guest]\n"
    )
}

/// A site whose unit is this shell script.
fn script(script: &str, settings: &str) -> String {
    let command = format!("command = [\"/bin/sh\", \"-c\", '''{script}''']");
    site(&format!("{{ name = \"process\", {command}{settings} }}"))
}

/// The process of the only unit of a lease.
fn lease_one(deployment: &Deployment) -> String {
    let leases = deployment.json("lease request 1 --for 1h --wait");
    units(&leases[0]).pop().expect("a unit").2
}

/// How the unit is by its site, and by the lease that it is on.
fn probes(deployment: &Deployment) -> [Value; 2] {
    let site = deployment.json("site show alpha");
    let lease = deployment.json("lease show guest/1");
    [site["units"][0]["probe"].clone(), lease[0]["in_hand"][0]["probe"].clone()]
}

/// Waits until all views report the unit as down, for a reason that contains `why`.
#[track_caller]
fn is_reported_down(deployment: &Deployment, why: &str) {
    let doctor = eventually(DEADLINE, "a doctor that finds something", || {
        let output = deployment.tenure("doctor");
        (output.status.code() == Some(1)).then(|| stderr(&output))
    });
    assert!(doctor.contains("unit alpha/u0 of guest/1.0 is down since "), "{doctor}");
    assert!(doctor.contains(why), "{doctor}");
    for probe in probes(deployment) {
        assert_eq!(probe["state"], "down", "{probe}");
        assert!(probe["error"].as_str().is_some_and(|error| error.contains(why)), "{probe}");
    }
    let list = String::from_utf8(deployment.tenure("lease list").stdout).expect("text");
    assert!(list.contains("1 down"), "{list}");
    assert_eq!(down(deployment), 1);
    let log = deployment.log();
    assert!(log.contains("a unit is down") && log.contains(why), "{log}");
}

/// The metric of the site.
fn down(deployment: &Deployment) -> u32 {
    let metrics = String::from_utf8(deployment.tenure("metrics").stdout).expect("text");
    let of_site = |line: &&str| line.starts_with("tenure_units_down{actor=\"alpha\"");
    let line = metrics.lines().find(of_site).expect("the metric");
    line.rsplit(' ').next().and_then(|figure| figure.parse().ok()).expect("a figure")
}

#[test]
fn a_process_that_exits_at_once_is_reported_down() {
    let deployment = Deployment::of(&script("exit 7", ", restart = false"), folder());
    lease_one(&deployment);
    is_reported_down(&deployment, "it ended with exit code 7");
    // Nothing follows for the lease.
    assert_eq!(deployment.json("lease show guest/1")[0]["state"], "active");
    deployment.json("lease close guest/1 --wait");
    eventually(DEADLINE, "a site without units that are down", || down(&deployment) == 0);
}

#[test]
fn a_process_that_was_started_again_is_shown_with_its_new_number() {
    let deployment = Deployment::of(&site("{ name = \"process\" }"), folder());
    let before = lease_one(&deployment);
    kill(&before);
    let after = eventually(DEADLINE, "another process", || {
        let lease = deployment.json("lease show guest/1");
        units(&lease[0]).pop().map(|unit| unit.2).filter(|pid| *pid != before && lives(pid))
    });
    let site = deployment.json("site show alpha");
    assert_eq!(site["units"][0]["properties"]["unit.pid"], after.as_str());
}

/// Each unit is a process in a session of its own. The setup waits for that session: what is still in the
/// program's group when it ends is killed.
const SLEEPERS: &str = r#"#!/bin/sh
read -r input
unit=${input#*\"unit\":}
pid=${unit%%,*}.pid
start() {
    mkfifo "$pid.ready"
    setsid /bin/sh -c 'echo $$ >"$1"; echo >"$1.ready"; exec sleep 3600' sh "$pid" </dev/null >/dev/null 2>&1 &
    read -r started <"$pid.ready"
    rm "$pid.ready"
}
case $input in
*'"step":"setup"'*) start ;;
*'"step":"teardown"'*) [ ! -e "$pid" ] || { kill -KILL "$(cat "$pid")"; rm "$pid"; } ;;
*) if [ ! -e "$pid" ]; then echo '{"state":"down"}'
   elif grep -q sleep "/proc/$(cat "$pid")/cmdline"; then echo '{"state":"up"}'
   else echo '{"state":"partial"}'; fi ;;
esac
exit 0
"#;

#[test]
fn a_unit_of_exec_that_is_killed_is_reported_down_and_up_again() {
    let data = folder();
    let program = data.path().join("sleepers");
    fs::write(&program, SLEEPERS).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    let sum = Command::new("sha256sum").arg(&program).output().expect("sha256sum");
    let sum = String::from_utf8(sum.stdout).expect("text");
    let (sum, path) = (sum.split(' ').next().expect("a hash"), program.display());
    let deployment = Deployment::of(
        &site(&format!(
            "{{ name = \"exec\", setup = \"{path}\", teardown = \"{path}\", probe = \"{path}\", \
             allow = [\"{sum}\"] }}"
        )),
        data,
    );
    lease_one(&deployment);
    let file = deployment.data.path().join("drivers/alpha/0.pid");
    let pid = written(&file);
    kill(&pid);
    is_reported_down(&deployment, "u0 is partial");

    let mut other = Command::new("sleep").arg("3600").spawn().expect("another process");
    fs::write(&file, format!("{}\n", other.id())).expect("its number");
    eventually(DEADLINE, "a unit that is up", || {
        probes(&deployment).iter().all(|probe| probe["state"] == "up")
    });
    assert_eq!(deployment.tenure("doctor").status.code(), Some(0));
    assert_eq!(down(&deployment), 0);
    let log = deployment.log();
    assert!(log.contains("a unit is up again"), "{log}");
    deployment.json("lease close guest/1 --wait");
    assert_ne!(ended(&mut other), Some(0));
}

#[test]
fn a_unit_that_probes_find_down_is_replaced_though_all_is_killed_in_between() {
    let driver = "{ name = \"process\", restart = false }";
    let text = site(driver).replace("units = 1\nfail-after = 0", "units = 2\nfail-after = 2");
    let mut deployment = Deployment::of(&text, folder());
    let pid = lease_one(&deployment);
    kill(&pid);
    eventually(DEADLINE, "a unit that has failed", || {
        let site = deployment.json("site show alpha");
        site["units"][0]["epoch"].as_u64().is_some_and(|epoch| epoch > 1)
    });
    deployment.end("-KILL");
    deployment.restart_up();
    let (_, instead) = leased_instead(&deployment, &["guest/1.0"]);
    assert!(lives(&instead));
    let why = String::from_utf8(deployment.tenure("lease why guest/1").stdout).expect("text");
    assert!(why.contains("unit-failed") && why.contains("it was ended by signal 9"), "{why}");
    deployment.json("lease close guest/2 --wait");
}

fn kill(pid: &str) {
    let killed = Command::new("kill").args(["-KILL", pid]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    eventually(DEADLINE, "the end of a process", || !lives(pid));
}

/// The process of the only unit of an active lease other than those before.
fn leased_instead(deployment: &Deployment, before: &[&str]) -> (String, String) {
    let name = eventually(DEADLINE, "a lease instead", || {
        let leases = deployment.json("lease list");
        let mut leases = leases.as_array().expect("a list").iter();
        let instead = leases.find(|lease| {
            let name = lease["lease"].as_str().expect("a name");
            !before.contains(&name) && lease["state"] == "active"
        });
        instead.map(|lease| lease["lease"].as_str().expect("a name").to_owned())
    });
    let lease = deployment.json(&format!("lease show {name}"));
    let pid = units(&lease[0]).pop().expect("a unit").2;
    (name, pid)
}

#[test]
fn a_unit_whose_driver_reports_its_end_is_replaced_without_a_probe() {
    let driver = "{ name = \"process\", restart = false }";
    let text = site(driver).replace("units = 1\nfail-after = 0", "units = 3\nfail-after = 2");
    let text = text.replace("200ms", "1h");
    let mut deployment = Deployment::of(&text, folder());
    let first = lease_one(&deployment);
    kill(&first);
    eventually(DEADLINE, "a unit that has failed", || {
        let site = deployment.json("site show alpha");
        site["units"][0]["epoch"].as_u64().is_some_and(|epoch| epoch > 1)
    });
    deployment.end("-KILL");
    deployment.restart_up();
    let (name, second) = leased_instead(&deployment, &["guest/1.0"]);
    assert!(lives(&second));
    // One that ends while no deployment runs is reported by the next.
    deployment.end("-KILL");
    kill(&second);
    deployment.restart_up();
    let (name, third) = leased_instead(&deployment, &["guest/1.0", &name]);
    assert!(lives(&third));
    let why = String::from_utf8(deployment.tenure("lease why guest/1").stdout).expect("text");
    let says = "u0 failed, in the words of its site: the program of u0 does not run: it was \
                ended by signal 9; guest/2.0 was asked for instead, which is ";
    let first = why.lines().next().unwrap_or_default();
    assert!(first.contains(says), "{why}");
    let slices = deployment.json("slice list");
    let sum = &slices[0]["fidelity"];
    assert!(sum["usable_s"].as_f64() <= sum["paid_s"].as_f64(), "{sum}");
    assert!(sum["fraction"].is_number() && sum["expired"] == 0, "{sum}");
    deployment.json(&format!("lease close {name} --wait"));
}

#[test]
#[ignore = "needs root, `ip` and `unshare`"]
fn a_namespace_that_is_removed_is_reported_down() {
    if outside_of("units::a_namespace_that_is_removed_is_reported_down") {
        return;
    }
    let deployment = Deployment::of(&site("{ name = \"netns\" }"), folder());
    let leases = deployment.json("lease request 1 --for 1h --wait");
    let name = leases[0]["in_hand"][0]["properties"]["unit.netns"].as_str().expect("a name");
    let removed = Command::new("ip").args(["netns", "del", name]).status();
    assert!(removed.is_ok_and(|status| status.success()));
    is_reported_down(&deployment, "u0 has no interface at the bridge");
}

/// Waits for its signal, writes more than is kept, and continues.
const TALKER: &str = "
    while [ ! -e go ]; do sleep 0.02; done
    head -c 8000000 /dev/zero | tr '\\0' x
    echo; echo the last line
    echo done >done.new; mv done.new done
    while :; do sleep 3600; done";

/// The bytes in a folder, and what they are.
fn content(folder: &Path) -> (u64, String) {
    let (mut bytes, mut text) = (0, String::new());
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let (more, found) = match path.is_dir() {
            true => content(&path),
            false => {
                let text = fs::read(&path).unwrap_or_default();
                (text.len() as u64, String::from_utf8_lossy(&text).into_owned())
            }
        };
        bytes += more;
        text += &found;
    }
    (bytes, text)
}

#[test]
fn what_a_unit_writes_is_bounded_also_while_no_deployment_runs() {
    let config = script(TALKER, "");
    let mut deployment = Deployment::of(&config, folder());
    let pid = lease_one(&deployment);
    assert_eq!(deployment.end("-KILL"), None);
    let driver = deployment.data.path().join("drivers/alpha");
    let mut folders = fs::read_dir(driver.join("folders")).expect("folders");
    let unit = folders.next().expect("a unit").expect("its folder").path();
    fs::write(unit.join("go"), "").expect("a file");
    assert_eq!(written(&unit.join("done")), "done");
    let logs = driver.join("logs");
    eventually(DEADLINE, "the last line", || content(&logs).1.contains("the last line\n"));
    let (bytes, _) = content(&logs);
    assert!(bytes <= 2 << 20, "{bytes} bytes");
    assert!(lives(&pid), "nobody reads what it says, and it goes on");

    deployment.restart_with(&config);
    assert_eq!(units(&deployment.json("lease show guest/1")[0])[0].2, pid);
    deployment.json("lease close guest/1 --wait");
    eventually(DEADLINE, "a clean site", || deployment.json("site list")[0]["free"] == 1);
    assert_eq!(content(&logs).0, 0);
}

/// Starts a deployment that must be refused; why it was.
#[track_caller]
fn refused(config: &str, data: &Path) -> String {
    let before = fs::read_to_string(data.join("log")).unwrap_or_default();
    let mut process = up(config, data).stdout(Stdio::piped()).spawn().expect("a deployment");
    let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
    let is_ready = || lines.map_while(Result::ok).any(|line| line.contains("leases stay"));
    let ready = done_in_time(DEADLINE, "a start that is refused", is_ready);
    if ready {
        drop(process.kill());
    }
    let code = ended(&mut process);
    let log = fs::read_to_string(data.join("log")).unwrap_or_default();
    let log = log[before.len()..].to_owned();
    assert!(!ready && code == Some(1), "it was not refused: {log}");
    log
}

#[test]
fn units_that_are_not_free_are_not_handed_to_another_driver() {
    let (process, null) = (site("{ name = \"process\" }"), site("{ name = \"null\" }"));
    let mut deployment = Deployment::of(&process, folder());
    let pid = lease_one(&deployment);
    assert_eq!(deployment.end("-TERM"), Some(0));
    let data = deployment.data.path().to_owned();
    let error = refused(&null, &data);
    assert!(error.contains("`process`") && error.contains("`null`"), "{error}");

    let (driver, away) = (data.join("drivers/alpha"), data.join("away"));
    fs::rename(&driver, &away).expect("the folder is moved away");
    for config in [&process, &null] {
        let error = refused(config, &data);
        assert!(error.contains("drivers/alpha") && error.contains("by hand"), "{error}");
    }
    fs::remove_dir_all(&driver).expect("nothing of importance is in it");
    fs::rename(&away, &driver).expect("it is put back");
    deployment.restart_with(&process);
    assert_eq!(units(&deployment.json("lease show guest/1")[0])[0].2, pid);
    assert!(lives(&pid));

    // The folder is lost, and the operator says whose the units are: what they have left is found.
    assert_eq!(deployment.end("-TERM"), Some(0));
    fs::remove_dir_all(&driver).expect("the folder is lost");
    let file = driver.join("driver");
    assert!(refused(&process, &data).contains(&file.display().to_string()));
    fs::create_dir_all(&driver).expect("a folder");
    fs::write(&file, "process\n").expect("a file");
    deployment.restart_with(&process);
    deployment.json("lease close guest/1 --wait");
    eventually(DEADLINE, "a clean site", || deployment.json("site list")[0]["free"] == 1);
    assert!(!lives(&pid), "the last tenant's process still runs");

    // Where all units are free, the driver may change.
    assert_eq!(deployment.end("-TERM"), Some(0));
    deployment.restart_with(&null);
    lease_one_of_null(&deployment);
    assert_eq!(deployment.end("-TERM"), Some(0));
    let error = refused(&process, &data);
    assert!(error.contains("`process`") && error.contains("`null`"), "{error}");
    deployment.restart_with(&null);
}

fn lease_one_of_null(deployment: &Deployment) {
    let leases = deployment.json("lease request 1 --for 1h --wait");
    assert_eq!(leases[0]["state"], "active");
}
