//! What commands of Slurm printed, recorded in files; `tests/tests/system/slurm.rs` runs a Slurm.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use tempfile::TempDir;
use tenure_core::service::kpi::Kpis;
use tenure_core::service_manager::services::Found;

use super::super::registry::{Place, open};
use super::super::slurm::answers::{Job, Node, jobs, nodes, restarted};
use super::super::slurm::measure::Counted;
use super::super::slurm::node_list;
use super::spec;
use crate::driver::stop::Stop;

const NODES: &str = include_str!("recorded/slurm-22.05-nodes.txt");
const SQUEUE: &str = include_str!("recorded/slurm-22.05-squeue.txt");
const RESTARTS: &str = include_str!("recorded/slurm-22.05-restarts.txt");
const DOWN: &str = include_str!("recorded/slurm-22.05-ping-down.txt");

fn shown(kpis: &Kpis) -> String {
    kpis.iter().map(|(kpi, value)| format!("{kpi} {value}; ")).collect()
}

/// The recorded jobs, with which of them have run before.
fn recorded_jobs() -> Vec<Job> {
    let mut jobs = jobs(SQUEUE).unwrap();
    let restarted = restarted(RESTARTS).unwrap();
    jobs.iter_mut().for_each(|job| job.note_restart(&restarted));
    jobs
}

fn counted() -> Counted<'static> {
    Counted {
        partition: None,
        ours: true,
        cpus: Some(2),
        now: 1_795_722_218,
        features: &[],
        licences: &[],
    }
}

#[test]
fn recorded_nodes_are_as_they_were() {
    let nodes = nodes(NODES);
    let node = |name: &str| nodes.iter().find(|node| node.name == name).unwrap();
    let ready: Vec<&str> =
        nodes.iter().filter(|node| node.is_ready()).map(|node| node.name.as_str()).collect();
    assert_eq!(ready, ["c1", "c2"]);
    assert_eq!(node("c1").comment, "tenure:00000000000000ab-u3:9");
    assert!(!node("c1").is_free() && node("c4").is_free());
    assert!(node("c3").is("FUTURE") && node("e1").is("DYNAMIC_NORM"));
    assert_eq!(
        (node("e1").address.as_str(), node("e1").partitions[0].as_str()),
        ("127.0.1.21", "main")
    );
    assert!(node("c4").is_drained_by_others());
    assert_eq!(node("c4").state(), "IDLE+DRAIN for disk");
}

#[test]
fn recorded_jobs_make_the_kpis_with_arrays_by_their_elements() {
    let (nodes, jobs) = (nodes(NODES), recorded_jobs());
    // 461 elements with 2 processors, 6 with 1, a job with 2 that was queued again, and 3 whole nodes; held and
    // dependent jobs wait for something else, as does one that is not to begin yet.
    let kpis = "busy-units{partition=\"main\"} 2; oldest-wait{partition=\"main\"} 65s; \
                pending-units{partition=\"main\"} 468; units{partition=\"main\"} 2; ";
    assert_eq!(shown(&counted().kpis(&nodes, &jobs)), kpis);
    let by_jobs = shown(&Counted { cpus: None, ..counted() }.kpis(&nodes, &jobs));
    assert!(by_jobs.contains("pending-units{partition=\"main\"} 471;"), "{by_jobs}");
    let elsewhere = shown(&Counted { partition: Some("big"), ..counted() }.kpis(&nodes, &jobs));
    assert!(elsewhere.contains("pending-units{partition=\"big\"} 0;"), "{elsewhere}");
    let none = shown(&counted().kpis(&[], &[]));
    assert_eq!(none, "busy-units 0; oldest-wait 0s; pending-units 0; units 0; ");
}

#[test]
fn nodes_that_no_unit_has_become_are_static_units() {
    let line = NODES.lines().next().unwrap();
    let own = |name: &str, states: &str| {
        let line = line.replace("Comment=tenure:00000000000000ab-u3:9", "");
        line.replace("NodeName=c1 ", &format!("NodeName={name} "))
            .replace("State=ALLOCATED", &format!("State={states}"))
    };
    let own = [
        own("Head1", "MIXED"),
        own("head2", "DOWN*"),
        own("head3", "FUTURE").replace("CPUAlloc=2", "CPUAlloc=0"),
    ]
    .join("\n");
    let nodes = nodes(&format!("{NODES}\n{own}\n"));
    let shown = |counted: Counted<'_>| {
        let statics = counted.statics(&nodes).unwrap();
        statics.iter().map(|(id, up)| format!("{id} {up};")).collect::<String>()
    };
    // A node that was drained of the recorded ones is nobody's.
    assert_eq!(shown(counted()), "c4 false;head1 true;head2 false;");
    assert_eq!(shown(Counted { partition: Some("big"), ..counted() }), "");
    // What counts as busy is what counts as there.
    let kpis = crate::adapter::tests::slurm::shown(
        &Counted { ours: false, ..counted() }.kpis(&nodes, &[]),
    );
    assert!(kpis.contains("units{partition=\"main\"} 3;"), "{kpis}");
}

#[test]
fn jobs_that_no_node_fits_count_if_units_do() {
    let waits = |cpus: u64, reason: &str, of_unit: Option<u64>| {
        let line = format!("7|PENDING|2|{cpus}|5|N/A||main|N/A|{reason}|(null)|(null)");
        jobs(&line).unwrap()[0].waits_for_nodes(of_unit)
    };
    for (cpus, reason, of_unit, counts) in [
        (4, "PartitionConfig", Some(2), true),
        (5, "PartitionConfig", Some(2), false),
        (4, "PartitionConfig", None, false),
        (4, "ReqNodeNotAvail, UnavailableNodes:c9", Some(2), true),
        (5, "ReqNodeNotAvail, UnavailableNodes:c9", Some(2), false),
        (5, "ReqNodeNotAvail, UnavailableNodes:c9", None, true),
        (5, "Resources", Some(2), true),
        (4, "JobHeldUser", Some(2), false),
        (4, "BeginTime", Some(2), false),
        (4, "BeginTime,Resources", Some(2), true),
    ] {
        assert_eq!(waits(cpus, reason, of_unit), counts, "{cpus} {reason} {of_unit:?}");
    }
}

#[test]
fn a_job_that_was_queued_again_waits_for_nodes_already() {
    let waiting = |jobs: &[Job]| jobs.iter().filter(|job| job.waits_for_a_time()).count();
    let waits_for_nodes = |jobs: &[Job]| {
        jobs.iter().filter(|job| job.waits_for_a_time() && job.waits_for_nodes(Some(2))).count()
    };
    let (unknown, known) = (jobs(SQUEUE).unwrap(), recorded_jobs());
    assert_eq!((waiting(&unknown), waits_for_nodes(&unknown)), (2, 0));
    assert_eq!((waiting(&known), waits_for_nodes(&known)), (2, 1));
    for wrong in ["18", "18|", "18|many|"] {
        assert!(restarted(wrong).unwrap_err().contains("squeue says"), "{wrong}");
    }
}

#[test]
fn what_jobs_have_run_on_a_node_would_be_lost() {
    let work = |jobs: &[Job]| {
        let busy = nodes(NODES).into_iter();
        let busy = busy.filter_map(|node| Some(node.busy(jobs, counted().now)?.1));
        busy.collect::<Vec<_>>()
    };
    // Two processors each, for 46 and for 5 seconds.
    assert_eq!(work(&recorded_jobs()), [92, 10]);
    // One on both nodes, and one that is about to end.
    let more = "7|RUNNING|2|3|5|1795722118|c[1-2]|main|N/A|None|(null)|(null)\n\
                8|COMPLETING|1|2|5|1795722118|c1|main|N/A|None|(null)|(null)\n";
    assert_eq!(work(&jobs(&format!("{SQUEUE}{more}")).unwrap()), [292, 210]);
}

#[test]
fn lists_of_nodes_name_them() {
    for (list, node, is) in [
        ("c1", "c1", true),
        ("c1", "c10", false),
        ("d3,c[1-2,7]", "c7", true),
        ("c[1-2,7],d3", "d3", true),
        ("c[1-2,7]", "c3", false),
        ("c[9-11]", "c10", true),
        ("c[9-11]", "c010", false),
        ("c[009-011]-ib", "c010-ib", true),
        ("c[009-011]-ib", "c010", false),
        ("c[009-011]", "c10", false),
        ("r[1-2]n[0-3]", "r2n3", true),
        ("r[1-2]n[0-3]", "r2n4", false),
        ("c[1-", "c1", false),
        ("", "c1", false),
    ] {
        assert_eq!(node_list::names(list, node), is, "{list} {node}");
    }
}

#[test]
fn elements_of_arrays_are_counted() {
    let count = |elements: &str| {
        let line = format!("7|PENDING|1|1|5|N/A||main,big|{elements}|Priority|(null)|(null)");
        jobs(&line).map(|jobs| jobs[0].elements)
    };
    for (elements, all) in
        [("N/A", 1), ("7", 1), ("1-2000", 2000), ("1-199:2", 100), ("[1,3,5-8]", 6), ("1-900%5", 5)]
    {
        assert_eq!(count(elements), Ok(all), "{elements}");
    }
    for wrong in ["1-", "9-1", "1-5:0", "1,...", "a"] {
        assert!(count(wrong).unwrap_err().contains("squeue says"), "{wrong}");
    }
    jobs("PENDING|1").unwrap_err();
}

#[test]
fn nodes_and_jobs_are_counted_by_the_features_that_are_asked_for() {
    let line =
        |features: &str| format!("7|PENDING|1|2|5|N/A||main|N/A|Resources|matlab:2|{features}\n");
    let jobs = jobs(&["big&gpu", "bigger", "(null)", "[old|big]"].map(line).concat()).unwrap();
    let nodes = nodes(&NODES.replacen("ActiveFeatures=(null)", "ActiveFeatures=fast,big", 1));
    let kpis = Counted { features: &["big".to_owned()], ..counted() }.kpis(&nodes, &jobs);
    let value = |kpi: &str| kpis.value(&kpi.parse().unwrap()).unwrap().to_string();
    for (kpi, all, big) in [("pending-units", "4", "2"), ("busy-units", "2", "1")] {
        assert_eq!(value(kpi), all, "{kpi}");
        assert_eq!(value(&format!("{kpi}{{feature=\"big\"}}")), big, "{kpi}");
    }
}

#[test]
fn jobs_are_counted_by_the_licences_that_they_ask_for() {
    let line =
        |licences: &str| format!("7|PENDING|1|2|5|N/A||main|N/A|Licenses|{licences}|(null)\n");
    let waits = line("matlab:2").replace("Licenses", "Resources");
    let other = line("fluent@server:1,matlab2").replace("Licenses", "Resources");
    let jobs = jobs(&format!("{waits}{other}{}", line("matlab"))).unwrap();
    let kpis = Counted { licences: &["matlab".to_owned()], ..counted() }.kpis(&[], &jobs);
    let value = |kpi: &str| kpis.value(&kpi.parse().unwrap()).unwrap().to_string();
    // More nodes are of no use to a job for whose licence there is none left.
    assert_eq!(value("pending-units"), "2");
    assert_eq!(value("pending-units{licence=\"matlab\"}"), "1");
}

/// A node that is in other states than a recorded one.
fn in_states(states: &str) -> Node {
    let line = NODES.lines().next().unwrap().replace("State=ALLOCATED", &format!("State={states}"));
    nodes(&line).remove(0)
}

#[test]
fn a_node_is_ready_only_if_jobs_can_begin_on_it() {
    for (states, ready) in [
        ("IDLE", true),
        ("MIXED+DYNAMIC_NORM", true),
        ("IDLE*", true),
        ("IDLE+NOT_RESPONDING", false),
        ("ALLOCATED+DRAIN", false),
        ("DOWN", false),
        ("FUTURE", false),
    ] {
        assert_eq!(in_states(states).is_ready(), ready, "{states}");
    }
}

#[test]
fn a_node_of_a_pool_that_is_forgotten_with_its_jobs_counts_still() {
    let forgotten = in_states("FUTURE");
    assert!(forgotten.is_forgotten() && !nodes(NODES).iter().any(Node::is_forgotten));
    let kpis = shown(&counted().kpis(&[forgotten, in_states("ALLOCATED+DRAIN")], &[]));
    assert!(kpis.contains("busy-units{partition=\"main\"} 1;"), "{kpis}");
}

#[test]
fn a_controller_that_is_down_has_failed_and_is_no_empty_queue() {
    let home = TempDir::new().unwrap();
    // A `scontrol` that answers as the recorded one did, and a `squeue` as one without a controller may.
    let command = home.path().join("scontrol");
    fs::write(&command, format!("#!/bin/sh\ncat <<'END'\n{DOWN}END\nexit 1\n")).unwrap();
    fs::set_permissions(&command, fs::Permissions::from_mode(0o700)).unwrap();
    let settings = json!({ "name": "slurm", "commands": home.path(), "conf": "/dev/null" });
    let adapter = open(&spec(&settings), Place { home: home.path(), service: "batch" }).unwrap();
    let sensed = adapter.sense(&Stop::new().unwrap()).unwrap();
    assert_eq!((sensed.found, sensed.kpis.count()), (Found::Failed, 0));
    let why = sensed.why.unwrap();
    assert!(why.contains("Slurmctld(primary) at vm is DOWN"), "{why}");
}
