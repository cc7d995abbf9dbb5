//! A Grid Engine in a network of its own, whose hosts or licences are leased units.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};
use crate::software::{adoptable_units, define, deployed, named_units, program, show};

/// A qmaster with the queue `main.q`, of which the hosts are those of the empty group `@leased`.
struct GridEngine {
    folder: TempDir,
    /// The first process of its namespaces, with which all others end.
    namespaces: Child,
}

impl GridEngine {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Also the user of jobs and that of the daemons read in it.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a folder");
        let cluster = program(folder.path(), "cluster", include_str!("grid_engine.sh"));
        let prepared = Command::new(&cluster).arg(folder.path()).arg("prepare").output();
        let prepared = prepared.expect("a shell");
        assert!(prepared.status.success(), "{}", stderr(&prepared));
        let mut command = Command::new("unshare");
        command.args([
            "--net",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
        ]);
        command.arg(&cluster).arg(folder.path()).arg("inside").stdout(Stdio::null());
        let namespaces = command.stderr(Stdio::null()).spawn().expect("namespaces");
        let pid = namespaces.id();
        let enter = format!(
            "#!/bin/sh\nroot={}/root\npid=$(tr -d ' ' </proc/{pid}/task/{pid}/children)\n\
             export SGE_ROOT=$root SGE_QMASTER_PORT=16444 SGE_EXECD_PORT=16445\n\
             exec nsenter -t $pid --net --mount --uts --pid -- \"$@\"\n",
            folder.path().display()
        );
        let enter = program(folder.path(), "in", &enter);
        fs::create_dir(folder.path().join("commands")).expect("a folder");
        for name in ["qconf", "qhost", "qstat", "qmod", "qdel"] {
            let text = format!("#!/bin/sh\nexec {enter} {name} \"$@\"\n");
            program(&folder.path().join("commands"), name, &text);
        }
        let grid_engine = Self { folder, namespaces };
        eventually(DEADLINE, "a qmaster", || grid_engine.run("qconf -sh").is_some());
        let cluster = format!("{cluster} {}", grid_engine.folder.path().display());
        grid_engine.sh(&format!("{cluster} configure"));
        grid_engine
    }

    /// Runs a script inside.
    fn run(&self, script: &str) -> Option<String> {
        let mut command = Command::new(self.folder.path().join("in"));
        let output = command.args(["/bin/sh", "-c", script]).output().expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    }

    #[track_caller]
    fn sh(&self, script: &str) -> String {
        self.run(script).unwrap_or_else(|| panic!("failed: {script}"))
    }

    /// Submits a job that does not end, as a user who may run some. `qsub` fails while no host could run it, and
    /// submits it all the same.
    fn submit(&self, options: &str) {
        self.sh(&format!(
            "setpriv --reuid nobody --regid nogroup --clear-groups qsub -w n -wd / -b y -o /dev/null -e /dev/null \
             {options} tail -f /dev/null 2>&1 | grep 'has been submitted'"
        ));
    }

    /// What a command of `qconf` shows behind a word.
    fn shown(&self, command: &str, word: &str) -> String {
        let text = self.sh(&format!("SGE_SINGLE_LINE=1 qconf {command}"));
        let line = text.lines().find_map(|line| line.strip_prefix(word));
        line.unwrap_or_default().trim().to_owned()
    }
}

impl Drop for GridEngine {
    fn drop(&mut self) {
        drop(self.namespaces.kill());
        drop(self.namespaces.wait());
    }
}

fn service(rest: &str, behaviour: &str) -> String {
    format!(
        "slo.jobs = {{ want = 'busy-units + pending-units', urgency = 60 }}\n\
         behaviour = {{ stale-after = '30s', {behaviour} }}\n\
         [adapter]\nname = 'grid-engine'\nroot = 'FOLDER/root'\ncommands = 'FOLDER/commands'\n\
         qmaster-port = 16444\nexecd-port = 16445\nevery = '500ms'\nqueue = 'main.q'\n{rest}\n"
    )
}

/// Units that become hosts.
const HOSTS: &str = "\
group = '@leased'
slots = 2
node-start = ['/bin/sh', '-c', 'exec FOLDER/in FOLDER/cluster FOLDER up $TENURE_NODE']
node-stop = ['/bin/sh', '-c', 'exec FOLDER/in FOLDER/cluster FOLDER down $TENURE_NODE']";

fn kpi(deployment: &Deployment, name: &str) -> String {
    let kpis: &Value = &show(deployment)["kpis"];
    kpis[format!("{name}{{queue=\"main.q\"}}")].as_str().unwrap_or("none").to_owned()
}

#[test]
#[ignore = "needs sge_qmaster, sge_execd, `unshare`, and root"]
fn jobs_of_grid_engine_get_leased_hosts_and_leave_them_by_a_drain() {
    let grid_engine = GridEngine::start();
    let folder = grid_engine.folder.path();
    let deployment = deployed(&named_units(folder));
    define(&deployment, folder, &service(HOSTS, "most = 2, drain = '3s'"));
    eventually(DEADLINE, "a service that runs", || show(&deployment)["state"] == "running");
    assert_eq!(kpi(&deployment, "pending-units"), "0");

    // A job that may not be restarted, and an array that may: worth more units than are leased.
    grid_engine.submit("-r n -N once");
    grid_engine.submit("-r y -N again -t 1-8:1");
    eventually(DEADLINE, "two hosts at work", || kpi(&deployment, "busy-units") == "2");
    // Five of eight tasks wait.
    eventually(DEADLINE, "what waits still", || kpi(&deployment, "pending-units") == "3");
    let marked = grid_engine.sh("qhost -F tenure -xml");
    assert_eq!(marked.matches("dominance='hf'").count(), 2, "{marked}");

    // A qmaster that is gone is an error, and takes nothing away.
    grid_engine.sh("kill -KILL $(pgrep sge_qmaster)");
    let failed = eventually(DEADLINE, "an error", || {
        Some(show(&deployment)).filter(|service| service["state"] == "error")
    });
    let why = failed["adapter"]["error"].as_str().expect("an error");
    assert!(why.contains("qhost") && why.contains("error: "), "{why}");
    grid_engine.sh("sge_qmaster");
    eventually(DEADLINE, "two hosts at work again", || kpi(&deployment, "busy-units") == "2");

    // The jobs do not end: after `drain` they are queued again or ended, and the hosts are gone.
    define(&deployment, folder, &service(HOSTS, "mode = 'unmanaged', drain = '3s'"));
    deployment.close_all();
    let is_over = || grid_engine.shown("-shgrp @leased", "hostlist") == "NONE";
    eventually(DEADLINE, "hosts that are gone", is_over);
    let hosts = ["-sel", "-sh"].map(|list| grid_engine.sh(&format!("qconf {list}")));
    assert_eq!(hosts, ["e9", "e9\ngeq"]);
    let jobs = grid_engine.sh("qstat -u '*' -xml");
    assert!(!jobs.contains("<JB_name>once<") && jobs.contains("<JB_name>again<"), "{jobs}");
    assert!(!jobs.contains("state=\"running\"") && jobs.contains("<state>Rq<"), "{jobs}");
    let log = deployment.log();
    assert_eq!(log.matches("is not to be restarted, and was ended").count(), 1, "{log}");
}

#[test]
#[ignore = "needs sge_qmaster, sge_execd, `unshare`, and root"]
fn units_become_licences_of_grid_engine_and_leave_when_they_are_not_in_use() {
    let grid_engine = GridEngine::start();
    let folder = grid_engine.folder.path();
    grid_engine
        .sh("qconf -mattr queue slots 4 main.q && qconf -aattr hostgroup hostlist e9 @leased");
    grid_engine.sh(&format!("{0}/cluster {0} up e9", folder.display()));
    let deployment = deployed(&named_units(folder));
    let licences = "licence = 'lic'";
    define(&deployment, folder, &service(licences, "most = 2, drain = '2m'"));
    grid_engine.submit("-N one -l lic=1");
    grid_engine.submit("-N two -l lic=1");
    grid_engine.submit("-N three -l lic=1");
    eventually(DEADLINE, "two licences in use and one waited for", || {
        let kpis = ["units", "busy-units", "pending-units"].map(|name| kpi(&deployment, name));
        kpis == ["2", "2", "1"]
    });
    let values = || grid_engine.shown("-se global", "complex_values");
    assert!(values().starts_with("lic=2,tenure_licences="), "{}", values());

    // Grid Engine takes a lower number at once; the units go when the jobs have ended.
    define(&deployment, folder, &service(licences, "mode = 'unmanaged', drain = '2m'"));
    for lease in deployment.json("lease list").as_array().expect("leases") {
        let closing = format!("lease close {}", lease["lease"].as_str().expect("a name"));
        let closing = deployment.tenure(&closing);
        assert!(closing.status.success(), "{}", stderr(&closing));
    }
    eventually(DEADLINE, "no licences", || values() == "lic=0,tenure_licences=none");
    let leaving = || !deployment.json("lease list").as_array().expect("leases").is_empty();
    let running = grid_engine.sh("qstat -u '*' -s r -xml");
    assert_eq!(running.matches("<state>r<").count(), 2, "{running}");
    assert!(leaving());
    grid_engine.sh("qdel -u nobody");
    eventually(DEADLINE, "the end of all leases", || !leaving());
    assert_eq!(kpi(&deployment, "busy-units"), "0");
}

#[test]
#[ignore = "needs sge_qmaster, sge_execd, `unshare`, and root"]
fn a_host_of_grid_engine_with_jobs_is_taken_over_as_it_is() {
    let grid_engine = GridEngine::start();
    let folder = grid_engine.folder.path();
    grid_engine.sh(&format!(
        "cd {0} && qconf -ah e0 && sed s/e9/e0/ edited >e0 && qconf -Ae e0 && \
         qconf -aattr hostgroup hostlist e0 @leased && {0}/cluster {0} up e0 && touch unit-0",
        folder.display()
    ));
    grid_engine.submit("-r y -N work");
    let running = || grid_engine.sh("qstat -u '*' -s r -xml").matches("<state>r<").count();
    eventually(DEADLINE, "a job", || running() == 1);
    let deployment = deployed(&adoptable_units(folder));
    define(&deployment, folder, &service(HOSTS, "mode = 'unmanaged', drain = '3s'"));

    deployment.json("unit adopt alpha/u0 guest/batch --wait");
    let values = || grid_engine.shown("-se e0", "complex_values");
    assert!(values().starts_with("tenure="), "{}", values());

    // The job does not end, and nothing ends it: no other begins on the host, which is left as it is.
    deployment.json("unit unassign alpha/u0");
    let free = || deployment.json("lease list").as_array().expect("leases").is_empty();
    eventually(DEADLINE, "a unit that is free", free);
    assert_eq!((values().as_str(), running()), ("NONE", 1));
    assert!(grid_engine.sh("qstat -f -q main.q@e0").contains(" d"));
    assert!(folder.join("unit-0").exists());

    grid_engine.sh("qmod -e main.q@e0");
    deployment.json("unit adopt alpha/u0 guest/batch --take --wait");
    deployment.json("unit unassign alpha/u0");
    eventually(DEADLINE, "a unit that is free", free);
    assert_eq!((values().as_str(), running()), ("NONE", 0));
    // The guest has given it back; its site may still be about to tear it down.
    eventually(DEADLINE, "a unit that is torn down", || !folder.join("unit-0").exists());
    deployment.close_all();
}
