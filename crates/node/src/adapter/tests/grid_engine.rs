//! What commands of Grid Engine printed, recorded in files; `tests/tests/system/grid_engine.rs` runs one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;
use tenure_core::service::kpi::Kpis;
use tenure_core::service_manager::services::Found;

use super::super::grid_engine::answers::{Host, Job, complex_values, hosts, jobs};
use super::super::grid_engine::measure::Counted;
use super::super::registry::{Place, open};
use super::super::{Adapter, Sensed};
use super::spec;
use crate::driver::stop::Stop;

const QHOST: &str = include_str!("recorded/grid-engine-8.1.9-qhost.xml");
const QSTAT: &str = include_str!("recorded/grid-engine-8.1.9-qstat.xml");
const LATER: &str = include_str!("recorded/grid-engine-8.1.9-qstat-ha.xml");
const GLOBAL: &str = include_str!("recorded/grid-engine-8.1.9-global.txt");

fn shown(kpis: &Kpis) -> String {
    kpis.iter().map(|(kpi, value)| format!("{kpi} {value}; ")).collect()
}

fn counted() -> Counted<'static> {
    Counted { queue: None, ours: true, slots: Some(2), now: 1_795_680_168, requests: &[] }
}

/// The jobs that wait, but for the recorded one that waits for its time.
fn pending() -> Vec<Job> {
    let all = jobs(QSTAT).unwrap().into_iter();
    all.filter(|job| job.waits() && job.id != "33").collect()
}

#[test]
fn recorded_hosts_are_as_they_were() {
    let hosts = hosts(QHOST).unwrap();
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["global", "e1", "e2", "e3", "e4"]);
    let ready: Vec<bool> = hosts.iter().map(Host::is_ready).collect();
    assert_eq!(ready, [false, true, false, false, false]);
    let [global, e1, e2, e3, e4] = hosts.as_slice() else { panic!("{names:?}") };
    assert!(!global.executes() && e1.executes());
    assert_eq!(global.left, BTreeMap::from([("lic".to_owned(), 1)]));
    assert_eq!(e1.mark.as_deref(), Some("00000000000000ab-u3:9"));
    assert_eq!(e1.jobs, ["27.3", "36"]);
    assert!(!e1.is_free() && !e1.is_disabled());
    assert!(!e2.is_free() && e2.is_disabled());
    assert_eq!((e3.is_free(), e3.mark.as_deref()), (true, None));
    assert!(!e4.reports && e4.is('u'));
    assert_eq!(e4.state(), "main.q `u`, without load");
}

#[test]
fn what_jobs_have_run_on_a_host_would_be_lost() {
    let hosts = hosts(QHOST).unwrap();
    let busy: Vec<_> = hosts.iter().filter_map(|host| host.busy(counted().now)).collect();
    // Two jobs with a slot each, for 36 and for 38 seconds, and one for 6.
    assert_eq!(busy, [("00000000000000ab-u3:9", 74), ("00000000000000ab-u4:7", 6)]);
}

#[test]
fn recorded_jobs_make_the_kpis_with_arrays_by_their_elements() {
    let states: Vec<(String, String)> =
        jobs(QSTAT).unwrap().into_iter().map(|job| (job.id, job.state)).collect();
    let is = |id: &str, state: &str| states.contains(&(id.to_owned(), state.to_owned()));
    assert!(is("25", "Rq") && is("31", "hqw") && is("34", "Eqw") && is("33", "qw"), "{states:?}");
    assert_eq!(jobs(LATER).unwrap()[0].id, "33");
    // 17 tasks of an array, a job for two slots, one that was queued again, and one for more memory.
    let hosts = hosts(QHOST).unwrap();
    let kpis = shown(&counted().hosts(&hosts, &pending()));
    assert_eq!(kpis, "busy-units 1; oldest-wait 82s; pending-units 11; units 1; ");
    let by_jobs = shown(&Counted { slots: None, ..counted() }.hosts(&hosts, &pending()));
    assert!(by_jobs.contains("pending-units 20;"), "{by_jobs}");
    // A job that asks for `main.q` does not run elsewhere, and no host has another queue.
    let elsewhere = Counted { queue: Some("big.q"), ..counted() }.hosts(&hosts, &pending());
    assert_eq!(
        shown(&elsewhere),
        "busy-units{queue=\"big.q\"} 0; oldest-wait{queue=\"big.q\"} 45s; \
         pending-units{queue=\"big.q\"} 10; units{queue=\"big.q\"} 0; "
    );
    let none = shown(&counted().hosts(&[], &[]));
    assert_eq!(none, "busy-units 0; oldest-wait 0s; pending-units 0; units 0; ");
}

#[test]
fn hosts_and_jobs_are_counted_by_the_resources_that_are_requested() {
    let gpu = |value: &str, dominance: &str| {
        format!(
            "<resourcevalue name='gpu' dominance='{dominance}'>{value}</resourcevalue><queue name='main.q'>"
        )
    };
    let hosts_with = |value: &str, dominance: &str| {
        // Of `e1`, the first with a queue.
        hosts(&QHOST.replacen("<queue name='main.q'>", &gpu(value, dominance), 1)).unwrap()
    };
    let jobs = QSTAT.replacen("<slots>", "<hard_request name='gpu'>1</hard_request><slots>", 1);
    let jobs: Vec<Job> = super::super::grid_engine::answers::jobs(&jobs).unwrap();
    let first = jobs.iter().find(|job| job.requests.contains_key("gpu")).unwrap().clone();
    let pending = [vec![first], pending()].concat();
    let requests = ["gpu".to_owned()];
    let kpis = |hosts: &[Host]| Counted { requests: &requests, ..counted() }.hosts(hosts, &pending);
    for (value, dominance, offered) in [
        ("0.000000", "hc", true),
        ("big", "hf", true),
        ("0.000000", "hf", false),
        ("2.000000", "gc", false),
    ] {
        let shown = shown(&kpis(&hosts_with(value, dominance)));
        assert_eq!(
            shown.contains("; units{request=\"gpu\"} 1; "),
            offered,
            "{dominance} {value}: {shown}"
        );
        assert!(shown.contains("pending-units{request=\"gpu\"} "), "{shown}");
        assert!(shown.contains("pending-units 11; "), "{shown}");
    }
}

#[test]
fn hosts_that_no_unit_has_become_are_static_units() {
    let hosts = hosts(QHOST).unwrap();
    let shown = |counted: Counted<'_>| {
        let statics = counted.statics(&hosts).unwrap();
        statics.iter().map(|(id, up)| format!("{id} {up};")).collect::<String>()
    };
    let (down, up) = ("e3 false;", hosts.iter().map(unmarked).collect::<Vec<_>>());
    assert!(shown(counted()).contains(down), "{}", shown(counted()));
    assert_eq!(shown(Counted { queue: Some("big.q"), ..counted() }), "");
    let all = counted().statics(&up).unwrap();
    assert_eq!(
        all.iter().filter(|(_, up)| *up).map(|(id, _)| id.as_str()).collect::<Vec<_>>(),
        ["e1"]
    );
    assert_eq!(all.iter().len(), 4);
}

fn unmarked(host: &Host) -> Host {
    Host { mark: None, ..host.clone() }
}

#[test]
fn recorded_licences_make_the_kpis() {
    let (hosts, global) = (hosts(QHOST).unwrap(), complex_values(GLOBAL));
    let kpis = |global: &str, pending: &[Job]| {
        shown(&counted().licences("lic", (&hosts, &complex_values(global)), pending))
    };
    assert_eq!(global["lic"], "2");
    // Two of ours, of which one is left, and the job that was queued again wants one.
    let both = "busy-units 1; oldest-wait 4s; pending-units 1; units 2; ";
    assert_eq!(kpis(GLOBAL, &pending()), both);
    // Of five, three are of others, and are used first: all but one are in use.
    let more = GLOBAL.replace("lic=2", "lic=5");
    assert!(kpis(&more, &[]).starts_with("busy-units 1; "), "{}", kpis(&more, &[]));
    let none = GLOBAL.replace(';', ",x=").replace("00000000000000ab-u8:1", "none");
    assert_eq!(kpis(&none, &[]), "busy-units 0; oldest-wait 0s; pending-units 0; units 0; ");
}

#[test]
fn tasks_of_arrays_are_counted_and_what_is_none_is_refused() {
    let count = |tasks: &str| {
        let text = QSTAT.replace("<tasks>4-20:1</tasks>", &format!("<tasks>{tasks}</tasks>"));
        jobs(&text)
            .map(|jobs| jobs.iter().find(|job| job.id == "27" && job.waits()).unwrap().elements)
    };
    for (tasks, all) in [("5-20:1", 16), ("1-9:2", 5), ("7", 1), ("1,3,5-8:1", 6)] {
        assert_eq!(count(tasks), Ok(all), "{tasks}");
    }
    for wrong in ["5-", "9-1:1", "1-5:0", "1,...", ""] {
        let error = count(wrong).unwrap_err();
        assert!(
            error.starts_with("qstat -xml: what begins at ") && error.ends_with("is no job_list")
        );
    }
    assert!(hosts("error: x").unwrap_err().starts_with("qhost -xml: "));
}

/// An adapter whose commands are scripts.
fn adapter(home: &TempDir, commands: &[(&str, &str)]) -> Box<dyn Adapter> {
    for (name, script) in commands {
        let command = home.path().join(name);
        fs::write(&command, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&command, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let settings = json!({
        "name": "grid-engine", "commands": home.path(), "timeout": "2s", "queue": "main.q",
    });
    open(&spec(&settings), Place { home: home.path(), service: "batch" }).unwrap()
}

fn sensed(commands: &[(&str, &str)]) -> Sensed {
    let home = TempDir::new().unwrap();
    adapter(&home, commands).sense(&Stop::new().unwrap()).unwrap()
}

#[test]
fn a_grid_engine_is_measured_by_its_commands() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/adapter/tests/recorded");
    let cat = |file: &str| format!("cat {}", folder.join(file).display());
    let qstat = format!(
        "case \"$*\" in *' ha'*) {} ;; *) {} ;; esac",
        cat("grid-engine-8.1.9-qstat-ha.xml"),
        cat("grid-engine-8.1.9-qstat.xml")
    );
    let found = sensed(&[("qhost", &cat("grid-engine-8.1.9-qhost.xml")), ("qstat", &qstat)]);
    assert_eq!(found.found, Found::Running);
    // Without a group all hosts that are ready count, and without `slots` each task is a unit's.
    let kpis = shown(&found.kpis);
    assert!(
        kpis.contains("units{queue=\"main.q\"} 1; ")
            && kpis.contains("units{queue=\"main.q\"} 20;")
    );
}

#[test]
fn a_qmaster_that_does_not_answer_has_failed_and_is_no_empty_queue() {
    let error = "error: commlib error: got select error (Connection refused)";
    let empty = ("qstat", "echo '<job_info/>'");
    let failed = sensed(&[("qhost", &format!("echo '{error}' >&2; exit 1")), empty]);
    assert_eq!((failed.found, failed.kpis.count()), (Found::Failed, 0));
    assert!(failed.why.unwrap().contains("(exit status: 1): error: commlib error"));
    let hangs = sensed(&[("qhost", "exec tail -f /dev/null"), empty]);
    assert_eq!((hangs.found, hangs.kpis.count()), (Found::Failed, 0));
    assert!(hangs.why.unwrap().contains("took longer than 2s"));
}
