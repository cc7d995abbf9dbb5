//! Two shells around one core: the same scenario gives the same facts, to the byte, through the emulator
//! and through mailboxes and journals.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tenure_config::{Override, Source};
use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::wire::message::Sequence;
use tenure_node::host::conductor::{Conductor, Fate, Measured, RunPlan, Sending};
use tenure_node::host::{ActorBuilder, ActorInfo, CallLimits, Driver, Part};
use tenure_sim::emulation::{Emulation, Inputs, Progress, give_up_at};
use tenure_sim::network::{Network, Packet};
use tenure_sim::participants::{self, Plugins, assemble};
use tenure_sim::scenario::{self, Scenario, Workload};
use tenure_sim::workload::demand;
use tenure_wait::{DEADLINE, in_time};

/// The scenario of the first example, short enough for a journal that is synced after every turn.
const SHORT: &[&str] = &["horizon=4h", "term=30m"];

fn scenario(text: &str, sets: &[&str]) -> Scenario {
    let overrides: Vec<Override> = sets.iter().map(|set| set.parse().unwrap()).collect();
    let mut points = scenario::parse(Source { name: "scenario", text }, &overrides).unwrap();
    assert_eq!(points.len(), 1);
    points.remove(0).scenario
}

pub(crate) fn quick(sets: &[&str]) -> Scenario {
    let path = tenure_tests::root().join("config/emulations/quick.toml");
    let text = std::fs::read_to_string(path).unwrap();
    scenario(&text, &[SHORT, sets].concat())
}

/// The demand of every service manager, as the command draws it.
pub(crate) fn demands(scenario: &Scenario) -> BTreeMap<Name, Vec<u32>> {
    let managers = (0..).zip(&scenario.service_managers);
    let managers = managers.filter(|(_, (_, manager))| !manager.has_jobs());
    let demands = managers.map(|(place, (name, manager))| {
        let Workload::Wave(wave) = &manager.workload else { panic!("only waves here") };
        let seed = scenario.seed.wrapping_add(place);
        let signal = wave.signal(seed, scenario.step, scenario.horizon);
        (name.clone(), demand(&signal, manager.peak))
    });
    demands.collect()
}

/// The hash and the number of facts of the scenario in the emulator.
fn emulated(scenario: &Scenario) -> (String, u64) {
    let inputs = Inputs { demand: demands(scenario), ..Inputs::default() };
    let mut emulation = Emulation::new(scenario, &inputs).unwrap();
    while emulation.step().unwrap() != Progress::Done {}
    let report = emulation.report();
    (report.journal_hash, report.facts)
}

/// The emulator's network between the hosts.
struct Emulated(Network);

impl Fate for Emulated {
    fn fate(&mut self, Sending { from, to, sequence, kind }: Sending, now: Time) -> Vec<Span> {
        let sequence: Sequence = sequence;
        self.0.fate(Packet { from, to, sequence, kind }, now)
    }
}

/// The cast of a scenario, to be played on journals in `folder`.
fn parts(scenario: &Scenario, folder: &Path) -> Vec<Part> {
    let participants = assemble(scenario, &Plugins::default())
        .unwrap_or_else(|(_, name, error)| panic!("{name}: {error}"));
    let part = |(index, actor): (usize, participants::Part)| {
        let again = scenario.clone();
        let build: ActorBuilder = Arc::new(move || {
            let participants =
                assemble(&again, &Plugins::default()).map_err(|(_, _, error)| error)?;
            Ok(participants.into_iter().nth(index).expect("as many as before").hosted)
        });
        let driver = actor.driver.map(|driver| match driver {
            participants::Driver::Site(driver) => Driver::Site(driver),
            participants::Driver::Guest(driver) => Driver::Guest(driver),
        });
        let (name, role) = (actor.name, actor.hosted.role());
        Part {
            journal: folder.join(format!("{role:?}-{name}.journal")),
            info: ActorInfo { name, role, id: actor.id },
            build,
            driver: driver.map(Arc::new),
            adapters: None,
            calls: CallLimits::DEFAULT,
            custody: None,
            fail_after: None,
            retry_policy: actor.retry_policy,
        }
    };
    participants.into_iter().enumerate().map(part).collect()
}

/// What is measured when: the demands, by the places of the service managers in the cast.
fn measured(scenario: &Scenario, parts: &[Part]) -> BTreeMap<Time, Measured> {
    let demands = demands(scenario);
    let mut measured: BTreeMap<Time, Measured> = BTreeMap::new();
    for (place, part) in parts.iter().enumerate() {
        let of = demands.get(&part.info.name).filter(|_| part.info.role == Role::ServiceManager);
        for (k, &value) in of.into_iter().flatten().enumerate() {
            let at = Time::ZERO.plus(scenario.step.times(i64::try_from(k).unwrap()));
            let demand = (place, Name::literal("demand"), i64::from(value));
            measured.entry(at).or_default().push(demand);
        }
    }
    measured
}

/// The hash of the scenario through mailboxes and journals.
fn conducted(scenario: &Scenario) -> String {
    let folder = tempfile::tempdir().unwrap();
    let parts = parts(scenario, folder.path());
    let programme = RunPlan {
        measured: measured(scenario, &parts),
        end: Time::ZERO.plus(scenario.horizon),
        give_up_at: give_up_at(scenario),
    };
    let network = Box::new(Emulated(Network::of(scenario)));
    let run = async {
        let mut conductor = Conductor::start(parts, network, programme).await.unwrap();
        conductor.run().await.unwrap();
        conductor.close().await.unwrap().to_hex()
    };
    actix::System::new().block_on(in_time(DEADLINE, "the end of the run", run))
}

fn both_give_the_same(scenario: &Scenario) {
    let (hash, facts) = emulated(scenario);
    assert!(facts > 50, "only {facts} facts");
    assert_eq!(conducted(scenario), hash);
}

#[test]
fn the_first_example_gives_the_same_hash_in_both_shells() {
    both_give_the_same(&quick(&[]));
}

#[test]
fn signed_messages_give_the_same_hash_in_both_shells() {
    both_give_the_same(&quick(&["signatures=ed25519", "horizon=2h"]));
}

#[test]
fn late_lost_and_doubled_messages_give_the_same_hash_in_both_shells() {
    for seed in 1..=3 {
        both_give_the_same(&quick(&[
            "message.delay={ uniform = [\"0s\", \"20s\"] }",
            "message.loss=0.2",
            "message.duplicate=0.3",
            "site.alpha.failure=0.2",
            &format!("seed={seed}"),
        ]));
    }
}

/// Jobs, the first of which are submitted at the first instant, when nobody has heard of anybody.
const JOBS: &str = r#"
horizon = "2h"
term = "1h"
capacity = 4
[site.a]
[broker.x]
mapper = { name = "fcfs", queue = "easy" }
[service-manager.batch.mapper]
name = "jobs"
jobs = [
    { at = 0, run = "10m", units = 3 },
    { at = 0, run = "40m", units = 3 },
    { at = "20m", run = "10m", units = 1 },
    { at = "20m", run = "10m", units = 4 },
]
"#;

#[test]
fn jobs_give_the_same_hash_in_both_shells() {
    both_give_the_same(&scenario(JOBS, &[]));
    both_give_the_same(&scenario(JOBS, &["message.loss=0.3", "message.delay=5s"]));
}

/// Two guests that extend, give back early, are refused and leave slowly.
const CROWDED: &str = r#"
horizon = "4h"
term = "30m"
capacity = 12
[workload.wave]
base = 0.5
amplitude = 0.4
noise = 0.1
[site.a]
setup = { uniform = ["10s", "40s"] }
[site.b]
teardown = "30s"
[broker.x]
mapper = { name = "priority" }
[service-manager.web]
mapper = { name = "adaptive", extend-before = "10m", give-back = true, properties = { priority = "1" } }
join = "5s"
leave = "5s"
leave-before = "1m"
[service-manager.batch]
peak = 12
mapper = { name = "adaptive", give-back = true }
"#;

#[test]
fn extensions_returns_and_refusals_give_the_same_hash_in_both_shells() {
    let faults = &["message.loss=0.1", "message.delay=2s", "message.duplicate=0.5"];
    both_give_the_same(&scenario(CROWDED, &[]));
    both_give_the_same(&scenario(CROWDED, faults));
}

#[test]
fn several_stocks_shares_and_stacks_give_the_same_hash_in_both_shells() {
    let path = tenure_tests::root().join("config/emulations/lab.toml");
    let lab = std::fs::read_to_string(path).unwrap();
    let faults = &["message.loss=0.1", "message.duplicate=0.5", "site.lab.failure=0.1"];
    both_give_the_same(&scenario(&lab, &[]));
    both_give_the_same(&scenario(&lab, faults));
}

#[test]
fn another_seed_gives_another_hash() {
    let hashes: Vec<String> =
        (1..=2).map(|seed| conducted(&quick(&[&format!("seed={seed}"), "horizon=1h"]))).collect();
    assert_ne!(hashes[0], hashes[1]);
}
