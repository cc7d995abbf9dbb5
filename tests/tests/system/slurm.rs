//! A Slurm that runs on loopback, as one user, whose nodes are leased units.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};
use crate::software::{self, adoptable_units, deployed, named_units, show};

/// A controller with three nodes that are not there yet.
struct Slurm {
    folder: TempDir,
}

impl Slurm {
    /// Starts it, with ports that begin with two digits.
    fn start(ports: &str) -> Self {
        Self::start_with(ports, "")
    }

    /// The same with more lines in its configuration.
    fn start_with(ports: &str, lines: &str) -> Self {
        let slurm = Self { folder: tempfile::tempdir().expect("a folder") };
        let folder = slurm.folder.path().display().to_string();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let user = slurm.sh("id -un");
        for name in ["munge", "run", "spool", "state", "log"] {
            fs::create_dir(slurm.folder.path().join(name)).expect("a folder");
        }
        let conf = format!("{CONF}{lines}").replace("FOLDER", &folder).replace("HOST", host.trim());
        let conf = conf.replace("PORTS", ports);
        fs::write(slurm.folder.path().join("slurm.conf"), conf.replace("USER", &user))
            .expect("a file");
        slurm.sh(
            "chmod 755 . && chmod 700 munge && dd if=/dev/urandom of=munge/key bs=128 count=1 && chmod 400 munge/key && \
             munged --force --key-file=$PWD/munge/key --socket=$PWD/munge/socket --pid-file=$PWD/run/munged.pid \
             --log-file=$PWD/log/munged --seed-file=$PWD/munge/seed --num-threads=2 && slurmctld",
        );
        eventually(DEADLINE, "a controller", || slurm.try_sh("scontrol ping").is_some());
        slurm
    }

    fn try_sh(&self, script: &str) -> Option<String> {
        let conf = self.folder.path().join("slurm.conf");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).current_dir(self.folder.path()).env("SLURM_CONF", conf);
        let output = command.output().expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    }

    #[track_caller]
    fn sh(&self, script: &str) -> String {
        self.try_sh(script).unwrap_or_else(|| panic!("failed: {script}"))
    }

    /// How a node is, with its comment and its reason.
    fn node(&self, name: &str) -> String {
        let show = format!("scontrol show node --oneliner --future {name}");
        let line = self.sh(&show);
        let keys = ["State=", "Reason=", "Comment="];
        let words =
            line.split_whitespace().filter(|word| keys.iter().any(|key| word.starts_with(key)));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Whether a node is kept from further jobs since its first lease ends.
    fn is_draining(&self, name: &str) -> bool {
        let node = self.node(name);
        node.contains("+DRAIN") && node.contains("Reason=tenure:1.0:")
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        drop(self.try_sh("scancel -u $(id -un); for pid in run/*.pid; do kill $(cat $pid); done"));
    }
}

const CONF: &str = "\
ClusterName=farm
SlurmctldHost=HOST(127.0.0.1)
SlurmUser=USER
SlurmdUser=USER
AuthType=auth/munge
AuthInfo=socket=FOLDER/munge/socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort=PORTS817
SlurmdPort=PORTS818
SlurmctldPidFile=FOLDER/run/slurmctld.pid
SlurmdPidFile=FOLDER/run/slurmd.%n.pid
SlurmdSpoolDir=FOLDER/spool/%n
StateSaveLocation=FOLDER/state
SlurmctldLogFile=FOLDER/log/slurmctld
SlurmdLogFile=FOLDER/log/slurmd.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
MaxNodeCount=64
TreeWidth=65533
NodeName=c[1-3] NodeAddr=127.0.0.1 NodeHostname=HOST Port=[PORTS201-PORTS203] CPUs=2 RealMemory=512 State=FUTURE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
";

/// Adds or changes the service of a Slurm.
fn define(deployment: &Deployment, slurm: &Slurm, (adapter, behaviour): (&str, &str)) {
    let text = format!(
        "slo.jobs = {{ want = 'busy-units + pending-units', urgency = 60 }}\n\
         behaviour = {{ stale-after = '30s', {behaviour} }}\n\
         [adapter]\n\
         name = 'slurm'\n\
         conf = 'FOLDER/slurm.conf'\n\
         every = '500ms'\n\
         cpus = 2\n\
         {adapter}\n\
         node-stop = ['/bin/sh', '-c', 'cd FOLDER/run && test ! -e slurmd.$TENURE_NODE.pid || kill $(cat slurmd.$TENURE_NODE.pid)']\n"
    );
    software::define(deployment, slurm.folder.path(), &text);
}

/// Nodes of a pool.
const POOL: &str = "\
pool = ['c1', 'c2']
node-start = ['/bin/sh', '-c', 'setsid --wait slurmd -N $TENURE_NODE']";

/// Nodes that are created, each with a host name and an address of its own.
const CREATED: &str = r#"
node = 'CPUs=2 RealMemory=512'
node-start = ['/usr/bin/unshare', '--uts', '--mount', '/bin/sh', '-c', """
hostname $TENURE_NODE && mount --bind FOLDER/hosts /etc/hosts &&
setsid --wait slurmd -Z -N $TENURE_NODE --conf 'CPUs=2 RealMemory=512'"""]"#;

#[test]
#[ignore = "needs slurmctld, slurmd, munged, and root"]
fn jobs_of_slurm_get_leased_nodes_and_leave_them_by_a_drain() {
    let slurm = Slurm::start("36");
    let mut deployment = deployed("units = 4");
    define(&deployment, &slurm, (POOL, "most = 2, drain = '5s'"));
    eventually(DEADLINE, "a service that runs", || show(&deployment)["state"] == "running");
    assert_eq!(show(&deployment)["kpis"]["pending-units"], "0");

    // An array of eight jobs for one processor each is worth four units, of which two are leased.
    slurm.sh("sbatch --requeue -o /dev/null -a 1-8 --wrap 'exec tail -f /dev/null'");
    slurm.sh("sbatch --hold -o /dev/null --wrap true");
    eventually(DEADLINE, "two nodes at work", || {
        show(&deployment)["kpis"]["busy-units{partition=\"main\"}"] == "2"
    });
    assert!(
        slurm.node("c1").starts_with("State=ALLOCATED Comment=tenure:"),
        "{}",
        slurm.node("c1")
    );
    assert_eq!(slurm.node("c3"), "State=FUTURE");
    eventually(DEADLINE, "what waits still", || {
        show(&deployment)["kpis"]["pending-units{partition=\"main\"}"] == "2"
    });

    // A controller that is gone is an error, and takes nothing away; a crash of ours neither.
    slurm.sh("pid=$(cat run/slurmctld.pid) && kill $pid && tail --pid=$pid -f /dev/null");
    let failed = eventually(DEADLINE, "an error", || {
        let is_told = |service: &Value| service["adapter"]["error"].is_string();
        let service = Some(show(&deployment)).filter(|service| service["state"] == "error");
        service.filter(is_told)
    });
    let why = failed["adapter"]["error"].as_str().expect("an error");
    assert!(why.contains("scontrol ping") && why.contains("is DOWN"), "{why}");
    // Without `-R` it has forgotten that the nodes of the pool are there, whose jobs go on.
    slurm.sh("slurmctld");
    deployment.end("-KILL");
    deployment.restart_up();
    eventually(DEADLINE, "two nodes at work again", || {
        show(&deployment)["kpis"]["busy-units{partition=\"main\"}"] == "2"
    });

    let forgotten = |service: &Value| {
        let error = service["adapter"]["error"].as_str().unwrap_or_default();
        error.contains("is FUTURE with jobs: start slurmctld with -R")
    };
    eventually(DEADLINE, "nodes that are forgotten", || forgotten(&show(&deployment)));
    slurm.sh("kill -HUP $(cat run/slurmd.c1.pid run/slurmd.c2.pid)");
    eventually(DEADLINE, "nodes that are known again", || !forgotten(&show(&deployment)));

    // The jobs do not end: after `drain` they are queued again, and the nodes are gone.
    define(&deployment, &slurm, (POOL, "mode = 'unmanaged', drain = '5s'"));
    let closing = deployment.tenure("lease close guest/1");
    assert!(closing.status.success(), "{}", stderr(&closing));
    eventually(DEADLINE, "a drain with our reason", || {
        ["c1", "c2"].iter().any(|node| slurm.is_draining(node))
    });
    eventually(DEADLINE, "nodes that are gone", || {
        ["c1", "c2"].iter().all(|node| slurm.node(node) == "State=FUTURE")
    });
    assert_eq!(slurm.sh("squeue --noheader --states=RUNNING"), "");
    assert!(slurm.sh("scontrol show job 1_1 --oneliner").contains("Restarts=1"));
    // They count at once, though Slurm holds them back for two minutes.
    eventually(DEADLINE, "all jobs to count", || {
        show(&deployment)["kpis"]["pending-units{partition=\"main\"}"] == "4"
    });
}

#[test]
#[ignore = "needs slurmctld, slurmd, munged, and root"]
fn of_nodes_of_slurm_with_jobs_the_one_goes_back_whose_job_began_last() {
    let slurm = Slurm::start("39");
    let deployment = deployed("units = 4");
    let pool = POOL.replace("'c2'", "'c2', 'c3'");
    define(&deployment, &slurm, (&pool, "most = 3"));
    let job = || slurm.sh("sbatch --parsable --requeue -n 2 -o /dev/null --wrap 'exec sleep 1000'");
    let first = job();
    for running in 1..=3 {
        eventually(DEADLINE, "a job that runs", || {
            slurm.sh("squeue --noheader --states=RUNNING -o %i").lines().count() == running
        });
        job();
    }
    // The fourth job waits until the first one is gone, and then has its node; a fifth goes on to wait.
    job();
    let is = |kpi: &str, value: &str| {
        show(&deployment)["kpis"][format!("{kpi}{{partition=\"main\"}}")] == value
    };
    eventually(DEADLINE, "two jobs that wait", || is("pending-units", "2"));
    // Slurm counts in seconds: the job that is to be the last to begin does so in a later one than the others.
    eventually(DEADLINE, "jobs that have run for a second", || {
        !slurm.sh("squeue --noheader --states=RUNNING -o %M").lines().any(|ran| ran == "0:00")
    });
    slurm.sh(&format!("scancel {first}"));
    eventually(DEADLINE, "a job on the first node", || {
        !slurm.sh("squeue --noheader --states=RUNNING -w c1 -o %i").is_empty()
    });
    eventually(DEADLINE, "three nodes at work", || {
        is("pending-units", "1") && is("busy-units", "3")
    });
    define(&deployment, &slurm, (&pool, "most = 2, idle-after = '1s'"));
    eventually(DEADLINE, "a drain of the first node", || slurm.is_draining("c1"));
    assert!(!["c2", "c3"].iter().any(|node| slurm.node(node).contains("DRAIN")));
    // The drain is waited for as long as jobs run: they end before the leases do.
    define(&deployment, &slurm, (&pool, "mode = 'unmanaged'"));
    slurm.sh("scancel -u $(id -un)");
    deployment.close_all();
}

#[test]
#[ignore = "needs slurmctld, slurmd, munged, `unshare`, and root"]
fn nodes_of_slurm_are_created_for_units_and_deleted_when_their_jobs_have_ended() {
    let slurm = Slurm::start("37");
    slurm.sh("(cat /etc/hosts; for unit in 0 1 2 3; do echo 127.0.1.2$unit e$unit; done) >hosts; mkfifo gate");
    // Nodes of others stay as they are.
    slurm.sh("scontrol create NodeName=e9 NodeAddr=127.0.1.29 NodeHostname=e9 CPUs=2 State=FUTURE");
    let deployment = deployed(&named_units(slurm.folder.path()));
    define(&deployment, &slurm, (CREATED, "most = 1, drain = '2m'"));
    slurm.sh("sbatch -o /dev/null --wrap \"read go <$PWD/gate\"");
    eventually(DEADLINE, "a node at work", || {
        show(&deployment)["kpis"]["busy-units{partition=\"main\"}"] == "1"
    });
    let node = slurm.sh("squeue --noheader -o %N");
    assert!(slurm.node(&node).starts_with("State=MIXED+DYNAMIC_NORM Comment=tenure:"), "{node}");

    let closing = deployment.tenure("lease close guest/1");
    assert!(closing.status.success(), "{}", stderr(&closing));
    eventually(DEADLINE, "a drain", || slurm.is_draining(&node));
    assert_eq!(slurm.sh("squeue --noheader -o %T"), "RUNNING");
    slurm.sh("echo go >gate");
    let is_there = format!("scontrol show node --future {node}");
    eventually(DEADLINE, "a node that is deleted", || slurm.try_sh(&is_there).is_none());
    let job = slurm.sh("scontrol show job 1 --oneliner");
    assert!(job.contains("JobState=COMPLETED") && job.contains("Restarts=0"), "{job}");
    assert_eq!(slurm.node("e9"), "State=FUTURE+DYNAMIC_NORM");
    deployment.close_all();
}

/// A node of somebody's own, which is in the configuration.
const STATIC: &str =
    "NodeName=e0 NodeAddr=127.0.0.1 NodeHostname=HOST Port=PORTS210 CPUs=2 RealMemory=512\n";

#[test]
#[ignore = "needs slurmctld, slurmd, munged, and root"]
fn a_node_of_slurm_with_jobs_is_taken_over_as_it_is() {
    let slurm = Slurm::start_with("38", STATIC);
    slurm.sh("setsid --wait slurmd -N e0; touch unit-0; mkfifo gate");
    slurm.sh("sbatch --requeue -o /dev/null --wrap \"read go <$PWD/gate\"");
    eventually(DEADLINE, "a job", || slurm.sh("squeue --noheader -o '%T %N'") == "RUNNING e0");
    let deployment = deployed(&adoptable_units(slurm.folder.path()));
    let adapter = format!("{POOL}\nstatic = true");
    define(&deployment, &slurm, (&adapter, "mode = 'unmanaged', drain = '2s'"));
    let is_static = || show(&deployment)["members"].as_array().is_some_and(|all| all.len() == 1);
    eventually(DEADLINE, "a static unit", is_static);

    deployment.json("unit adopt alpha/u0 guest/batch --wait");
    let node = slurm.node("e0");
    assert!(node.starts_with("State=MIXED Comment=tenure:"), "{node}");
    eventually(DEADLINE, "one unit of each kind less", || !is_static());

    // The job does not end, and nothing ends it: no other begins on the node, which is left as it is.
    deployment.json("unit unassign alpha/u0");
    eventually(DEADLINE, "a drain", || slurm.is_draining("e0"));
    let free = || deployment.json("lease list").as_array().expect("leases").is_empty();
    eventually(DEADLINE, "a unit that is free", free);
    assert!(!slurm.node("e0").contains("Comment") && slurm.node("e0").contains("+DRAIN"));
    assert_eq!(slurm.sh("squeue --noheader -o '%T %N'"), "RUNNING e0");
    assert!(slurm.folder.path().join("unit-0").exists());

    // A node that is drained is not taken over; one that is taken is down at the end, and its job queued again.
    deployment.json("unit adopt alpha/u0 guest/batch");
    eventually(DEADLINE, "a refusal", || {
        let listed = deployment.json("unit blacklist guest/batch");
        listed.as_array().is_some_and(|all| !all.is_empty())
    });
    let why = deployment.tenure("lease why guest/2");
    let why = String::from_utf8_lossy(&why.stdout);
    assert!(why.contains("node e0 cannot be taken over: it is "), "{why}");
    eventually(DEADLINE, "a unit that is free", free);
    deployment.json("unit blacklist guest/batch alpha/u0 --clear");
    slurm.sh("scontrol update NodeName=e0 State=RESUME");
    eventually(DEADLINE, "a node that responds", || slurm.node("e0") == "State=MIXED");
    let taken = deployment.tenure("unit adopt alpha/u0 guest/batch --take --wait");
    let why = deployment.tenure("lease why guest/3");
    assert!(
        taken.status.success(),
        "{} {}",
        slurm.node("e0"),
        String::from_utf8_lossy(&why.stdout)
    );
    deployment.json("unit unassign alpha/u0");
    eventually(DEADLINE, "a unit that is free", free);
    let node = slurm.node("e0");
    assert!(node.contains("+DRAIN") && !node.contains("Comment"), "{node}");
    assert_eq!(slurm.try_sh("ls run/slurmd.e0.pid"), None);
    assert_eq!(slurm.sh("squeue --noheader --states=RUNNING"), "");
    // The guest has given it back; its site may still be about to tear it down.
    eventually(DEADLINE, "a unit that is torn down", || {
        !slurm.folder.path().join("unit-0").exists()
    });
    deployment.close_all();
}
