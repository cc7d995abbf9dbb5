//! Services whose adapters connect them with software, here with programs and files.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tenure_tests::root;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};

/// A service manager with the service `batch`, of which the software is the files of a folder: its sense program
/// prints `kpis`, ends with the code in `code`, and hangs while there is `hang`.
fn config(folder: &Path) -> String {
    let config = fs::read_to_string(root().join("config/services.toml")).expect("a file");
    let config = config.replace("name = \"slo\"", "name = \"slo\", ask-every = \"1s\"");
    let shell = |script: &str| format!("['/bin/sh', '-c', 'cd {} && {script}']", folder.display());
    let sense = shell("test -e hang && exec tail -f hang; cat kpis; exit $(cat code)");
    let leave = shell(
        "echo $TENURE_STEP $TENURE_SERVICE $TENURE_LEASE $TENURE_MARK >>steps; \
         test ! -e build || { echo a build runs >&2; exit 75; }",
    );
    let step = shell("echo $TENURE_STEP $TENURE_SERVICE $TENURE_LEASE $TENURE_MARK >>steps");
    format!(
        "{config}\n[service-manager.guest.service.batch]\n\
         slo.busy = {{ want = 'busy-units', urgency = 60 }}\n\
         behaviour.stale-after = '3s'\n\
         adapter.name = 'exec'\n\
         adapter.every = '200ms'\n\
         adapter.timeout = '1s'\n\
         adapter.sense = {sense}\n\
         adapter.start = {}\n\
         adapter.stop = {}\n\
         adapter.join = {step}\n\
         adapter.leave = {leave}\n",
        shell("echo 0 >code"),
        shell("echo 3 >code"),
    )
}

struct Software {
    folder: tempfile::TempDir,
    deployment: Deployment,
}

impl Software {
    fn started(kpis: &str, code: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text);
        write("kpis", kpis).and_then(|()| write("code", code)).expect("files");
        let config = config(folder.path());
        let deployment = Deployment::of(&config, tempfile::tempdir().expect("a folder"));
        Self { folder, deployment }
    }

    /// Replaces a file as a whole.
    fn write(&self, name: &str, text: &str) {
        let new = self.folder.path().join("new");
        fs::write(&new, text).expect("a file");
        fs::rename(new, self.folder.path().join(name)).expect("a file");
    }

    fn steps(&self) -> Vec<String> {
        let steps = fs::read_to_string(self.folder.path().join("steps")).unwrap_or_default();
        steps.lines().map(str::to_owned).collect()
    }

    fn show(&self) -> Value {
        self.deployment.json("service show batch")
    }

    #[track_caller]
    fn becomes(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(DEADLINE, what, || Some(self.show()).filter(|service| is_so(service)))
    }

    #[track_caller]
    fn is(&self, state: &str) -> Value {
        self.becomes(state, |service| service["state"] == state)
    }
}

#[test]
fn an_adapter_measures_a_service_and_joins_its_units_also_after_a_kill() {
    let mut software = Software::started("busy_units 2\n", "0");
    eventually(DEADLINE, "two units that joined", || software.steps().len() == 2);
    let service = software.becomes("two units", |service| service["demands"][0]["held"] == 2);
    assert_eq!(service["kpis"]["busy-units"], "2");
    assert_eq!(
        (&service["adapter"]["name"], &service["adapter"]["error"]),
        (&"exec".into(), &Value::Null)
    );
    assert!(
        software.steps().iter().all(|step| step.starts_with("join batch 1")),
        "{:?}",
        software.steps()
    );

    software.deployment.end("-KILL");
    software.write("kpis", "busy_units{queue=\"a\"} 3\n");
    software.deployment.restart_up();
    eventually(DEADLINE, "a third unit", || software.steps().len() == 3);
    software.becomes("three units", |service| service["demands"][0]["held"] == 3);
    // A definition that is changed while it runs holds at once; units are left as they were joined.
    let file = software.deployment.data.path().join("batch.toml");
    let text = "slo.busy = { want = 'busy-units', urgency = 60 }\n\
                adapter = { name = 'exec', sense = ['/bin/echo', 'busy-units=0'] }";
    fs::write(&file, text).expect("a file");
    software.deployment.json(&format!("service add guest/batch {}", file.display()));
    software.becomes("another KPI", |service| service["kpis"]["busy-units"] == "0");
    software.deployment.close_all();
    let left = || software.steps().iter().filter(|step| step.starts_with("leave batch")).count();
    eventually(DEADLINE, "all units to be left", || left() == 3);
}

#[test]
fn software_may_refuse_to_leave_what_a_user_gives_back_unless_that_is_forced() {
    let software = Software::started("busy_units 2\n", "0");
    software.becomes("two units", |service| service["demands"][0]["held"] == 2);
    eventually(DEADLINE, "two units that joined", || software.steps().len() == 2);
    software.write("build", "");
    let refused = software.deployment.tenure("lease close guest/1 --wait");
    let said = stderr(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("guest/1.0 stays: its software refuses to leave u"), "{said}");
    assert!(said.contains(": a build runs"), "{said}");
    assert!(said.contains("--force"), "{said}");
    let in_use = || {
        let lease = &software.deployment.json("lease show guest/1")[0];
        lease["state"] == "active" && lease["units"] == 2
    };
    eventually(DEADLINE, "a lease that goes on", in_use);
    software.write("kpis", "busy_units 0\n");
    software.becomes("no want", |service| service["kpis"]["busy-units"] == "0");
    // One change, also if it is asked for once more.
    for _ in 0..2 {
        software.deployment.json("lease close guest/1 --force --wait --id once");
    }
    software.deployment.close_all();
}

#[test]
fn a_service_is_seen_to_fail_and_to_be_stopped_and_what_hangs_says_nothing() {
    let software = Software::started("busy_units 0\n", "0");
    software.is("running");
    software.write("code", "1");
    software.is("error");
    let says = "the sense program says that it failed (exit status: 1)";
    software.becomes("why it failed", |service| service["adapter"]["error"] == says);
    let shown = software.deployment.tenure("service show batch");
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(shown.contains("adapter exec: the sense program"), "{shown}");
    software.write("code", "3");
    let stopped = software.is("stopped");
    assert_eq!(stopped["kpis"], serde_json::json!({}));
    software.write("code", "0");
    software.is("running");

    software.write("hang", "");
    software.is("unknown");
    let says = "the sense program took longer than 1s";
    software.becomes("why it is unknown", |service| service["adapter"]["error"] == says);
    fs::remove_file(software.folder.path().join("hang")).expect("a file");
    software.is("running");
    software.write("kpis", "busy_units many\n");
    let says = "sense: line 1 (`busy_units many`): `many` is no number";
    software.becomes("an error", |service| service["adapter"]["error"] == says);
}

#[test]
fn a_service_is_started_and_stopped_by_its_adapter_unless_that_cannot() {
    let software = Software::started("busy_units 0\n", "3");
    software.is("stopped");
    for (act, state) in [("start", "running"), ("start", "running"), ("stop", "stopped")] {
        let found = software.deployment.json(&format!("service {act} guest/batch"));
        assert_eq!(found["state"], state);
    }
    let file = software.deployment.data.path().join("batch.toml");
    for (adapter, says) in [
        ("adapter = { name = 'exec', sense = ['/bin/true'] }", "is not told how to stop it"),
        ("", "service guest/batch has no adapter"),
    ] {
        fs::write(&file, adapter).expect("a file");
        software.deployment.json(&format!("service add guest/batch {}", file.display()));
        let refused = software.deployment.tenure("service stop batch");
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
    }
}

#[test]
fn a_service_that_is_stopped_gives_its_units_back_if_it_is_told_to() {
    let software = Software::started("busy_units 2\n", "0");
    software.becomes("two nodes", |service| service["demands"][0]["held"] == 2);
    let stopped = software.deployment.json("service stop guest/batch --free-units");
    assert_eq!(stopped["state"], "stopped");
    let leases = || software.deployment.json("lease list --slice batch");
    eventually(DEADLINE, "no lease", || leases() == serde_json::json!([]));
}

#[test]
fn of_units_at_work_the_one_goes_back_that_loses_least() {
    let software = Software::started("busy_units 3\n", "0");
    eventually(DEADLINE, "three units that joined", || software.steps().len() == 3);
    software.becomes("three nodes", |service| service["demands"][0]["held"] == 3);
    software.deployment.json("service set guest/batch behaviour.idle-after=1s");
    let steps = software.steps();
    let mut marks: Vec<&str> = steps.iter().filter_map(|step| step.split(' ').nth(3)).collect();
    marks.sort_unstable();
    let busy = |(mark, work): (&&str, u32)| format!("unit_busy{{unit=\"{mark}\"}} {work}\n");
    let busy: String = marks.iter().zip([70, 40, 90]).map(busy).collect();
    software.write("kpis", &format!("busy_units 2\n{busy}"));
    software.becomes("two nodes", |service| service["demands"][0]["held"] == 2);
    eventually(DEADLINE, "a unit that is left", || software.steps().len() == 4);
    let steps = software.steps();
    assert!(steps[3].starts_with("leave batch") && steps[3].ends_with(marks[1]), "{steps:?}");
    // So that what is closed at the end is not asked for again.
    software.deployment.json("service set guest/batch behaviour.mode=unmanaged");
}

#[test]
fn a_unit_in_error_is_cleaned_up_and_joined_again_by_its_adapter() {
    let software = Software::started("busy_units 0\n", "0");
    let step = |what: &str| {
        let folder = software.folder.path().display();
        format!("['/bin/sh', '-c', 'cd {folder} && {what} && echo $TENURE_STEP >>steps']")
    };
    // A join leaves something behind, and a second one meets it.
    let adapter = |join: &str| {
        let (join, leave) = (step(join), step("rm half"));
        let text = format!(
            "slo.busy = {{ want = 'busy-units', urgency = 60 }}\nbehaviour.stale-after = '3s'\n\
             adapter = {{ name = 'exec', every = '200ms', sense = ['/bin/echo', 'busy-units=1'], \
             join = {join}, leave = {leave} }}\n"
        );
        let file = software.deployment.data.path().join("batch.toml");
        fs::write(&file, text).expect("a file");
        software.deployment.json(&format!("service add guest/batch {}", file.display()));
    };
    adapter("test ! -e half && touch half && false");
    let units = || software.deployment.json("unit list --service batch");
    let in_error = || units()[0]["state"] == "error";
    eventually(DEADLINE, "a unit in error", in_error);
    let unit = units()[0]["unit"].as_str().expect("a unit").to_owned();
    let reset = format!("unit reset {unit}");
    assert_eq!(software.deployment.json(&reset)[0]["unit"], unit.as_str());
    eventually(DEADLINE, "a clean-up, and a unit in error", || {
        software.steps() == ["leave"] && in_error()
    });
    let why = software.deployment.tenure("lease why guest/1");
    let why = String::from_utf8_lossy(&why.stdout);
    assert!(why.contains("unit-reset"), "{why}");

    adapter("test ! -e half && touch half");
    software.deployment.json(&reset);
    eventually(DEADLINE, "a unit in use", || units()[0]["state"] == "assigned");
    assert_eq!(software.steps(), ["leave", "leave", "join"]);
    let refused = software.deployment.tenure(&reset);
    assert!(
        stderr(&refused).contains("is in use: what is reset is a unit"),
        "{}",
        stderr(&refused)
    );
    software.deployment.json("service set guest/batch behaviour.mode=unmanaged");
}

#[test]
fn a_service_is_added_only_if_it_can_be_measured_and_have_units() {
    let deployment = Deployment::of(
        &fs::read_to_string(root().join("config/services.toml")).expect("a file"),
        tempfile::tempdir().expect("a folder"),
    );
    let file = deployment.data.path().join("some.toml");
    let slo = |want: &str| format!("slo.some = {{ want = '{want}', urgency = 1 }}\n");
    let sense = "adapter = { name = 'exec', sense = ['/bin/echo', 'load 3'] }\n";
    let pool = "adapter = { name = 'pool', map = { 'feature.big' = 'cpus > 1' } }\n";
    for (definition, code, says) in [
        (slo("load") + "adapter = { name = 'exec', sense = ['/no/such'] }", 1, "cannot look at"),
        (slo("laod") + sense, 2, "`some` looks at the KPI `laod`, and its adapter measures `load`"),
        (slo("units") + pool, 2, "`units`, which its adapter does not measure"),
        (
            slo("1") + "adapter = { name = 'pool', map = { big = 'cpus > 1' } }",
            2,
            "`big` of `map` of its adapter: it is no `label.value`",
        ),
        (slo("1").replace("'1'", "'1', resource = 'phone'"), 2, "has units of `phone`"),
        (slo("1").replace("'1'", "'1', where = 'racks > 2'"), 2, "of `node` where"),
    ] {
        fs::write(&file, &definition).expect("a file");
        let add = format!("service add guest/some {}", file.display());
        let refused = deployment.tenure(&add);
        assert_eq!(refused.status.code(), Some(code), "{definition}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(says), "{definition}: {}", stderr(&refused));
        assert_eq!(deployment.json("service list"), serde_json::json!([]));
    }
    fs::write(&file, slo("3") + pool).expect("a file");
    deployment.json(&format!("service add guest/some {}", file.display()));
    eventually(DEADLINE, "a pool of three", || {
        let pool = deployment.json("service show some");
        pool["state"] == "running" && pool["demands"][0]["held"] == 3
    });
    // So that what is closed at the end is not asked for again.
    deployment.json("service set guest/some behaviour.mode=unmanaged");
}

#[test]
fn an_adapter_that_is_not_known_or_set_wrongly_is_refused_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut deployment = Deployment::of(
        &fs::read_to_string(root().join("config/services.toml")).expect("a file"),
        tempfile::tempdir().expect("a folder"),
    );
    let file = deployment.data.path().join("bad.toml");
    for (adapter, says) in [
        ("name = 'exek'", "there is no adapter `exek`; did you mean `exec`?"),
        ("name = 'slurm'\npool = ['c[1-4]']", "`c[1-4]` is no name of a node"),
        ("sense = ['/bin/true']", "its adapter has a `name`"),
        ("name = 'exec'\ntimout = '1s'", "adapter `exec`: unknown key `timout`"),
        ("name = 'exec'\nsense = [3]", "a list of texts"),
    ] {
        fs::write(&file, format!("[adapter]\n{adapter}\n")).expect("a file");
        let refused = deployment.tenure(&format!("service add guest/batch {}", file.display()));
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("bad.toml:"), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
    }
    for name in ["exec", "slurm"] {
        let file = root().join(format!("config/services/{name}.toml"));
        let added =
            deployment.json(&format!("service add guest/batch {} --unchecked", file.display()));
        assert_eq!(added["adapter"]["name"], name);
    }
    deployment.end("-TERM");
    let config = config(folder.path());
    for (bad, says) in [
        (config.replace("'exec'", "'exek'"), "service `batch`: there is no adapter `exek`"),
        (config.replace("adapter.every", "adapter.often"), "unknown key `often`"),
        (config.replace("'200ms'", "'3s'"), "what was measured counts for 3s"),
    ] {
        let refused = deployment.fails_with(&bad);
        assert!(stderr(&refused).contains(says), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("live.toml:"), "{}", stderr(&refused));
    }
}
