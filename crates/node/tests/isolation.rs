//! What hangs, or takes its time, delays nobody else.
//!
//! A disturbance lasts until the others have done their work, so that work which waited for it would never be
//! done; and how long the work takes is compared with the same work before, undisturbed, in the same process.

mod common;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::gate::{Gate, Gated, ask_waiting};
use common::{Idle, Plans, ask, block_on, now, of, parts, start, state, until};
use tenure_core::actor::{Actor as _, Role};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::mapper::{Ask, Decision, ServiceManagerMapper, View};
use tenure_node::clock::WallClock;
use tenure_node::deployment::{Deployment, Running};
use tenure_node::host::{CallLimits, Handle, Limits};
use tenure_node::journal::Reader;
use tenure_wait::{DEADLINE, eventually, eventually_async};

/// How much longer disturbed work may take: far less than it would if it had to wait, far more than the load
/// of the machine changes within a test.
const FACTOR: u32 = 10;

/// The lives of leases in a round of work.
const LIVES: u32 = 5;

/// The shortest of three rounds of lives of leases, one after the other.
async fn work(guest: &Handle) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        let began = Instant::now();
        for _ in 0..LIVES {
            let lease = ask_for(guest, ask(1, now(), Span::HOUR)).await;
            until(guest, lease, "Active").await;
            guest.command(GuestCommand::Close { lease }).await.expect("it takes a close");
            until(guest, lease, "Closed").await;
        }
        shortest = shortest.min(began.elapsed());
    }
    shortest
}

async fn ask_for(guest: &Handle, request: Ask) -> LeaseId {
    let asked = guest.command(GuestCommand::Ask(request)).await.expect("it takes a request");
    asked.lease().expect("a lease is asked for")
}

fn undelayed(before: Duration, disturbed: Duration) {
    assert!(disturbed < before * FACTOR, "{disturbed:?} where it was {before:?}");
}

/// The value of a figure of the site.
fn figure(running: &Running, name: &str, with: &str) -> u64 {
    let text = running.metrics().text();
    let mut lines = text.lines().filter(|line| line.starts_with(name) && line.contains(with));
    let line = lines.find(|line| line.contains("actor=\"site\"")).expect("the figure");
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn a_mapper_that_takes_its_time_delays_no_lease() {
    static GATE: Gate = Gate::shut();
    struct Slow;
    impl ServiceManagerMapper for Slow {
        fn decide(&self, view: &View) -> Decision {
            GATE.pass();
            Idle.decide(view)
        }
    }
    let (before, disturbed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let system = actix::System::new();
    // One thread, so that whoever held it up would hold up all.
    let plans = Plans { threads: 1, ..Plans::default() };
    let before = block_on(&system, async {
        let running = start(before.path(), &plans).await;
        let before = work(&of(&running, Role::ServiceManager)).await;
        running.stop().await.unwrap();
        before
    });
    let plans = Plans { guest: || Box::new(Slow), ..plans };
    block_on(&system, async {
        let running = start(disturbed.path(), &plans).await;
        let guest = of(&running, Role::ServiceManager);
        eventually_async(DEADLINE, "a question to the mapper", async || GATE.waiting() == 1).await;
        let disturbed = work(&guest).await;
        assert_eq!(GATE.waiting(), 1, "it has not decided");
        GATE.open();
        let decided = async || guest.query(|actor| actor.open_round()).await.unwrap().is_none();
        eventually_async(DEADLINE, "a decision", decided).await;
        running.stop().await.unwrap();
        undelayed(before, disturbed);
    });
}

#[test]
fn setups_that_hang_delay_no_other_lease_of_their_site() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::shut());
    let plans =
        Plans { units: 8, threads: 1, site: Arc::new(Gated(gate.clone())), ..Plans::default() };
    block_on(&actix::System::new(), async {
        let running = start(folder.path(), &plans).await;
        let guest = of(&running, Role::ServiceManager);
        let before = work(&guest).await;
        let hanging = ask_for(&guest, ask_waiting(4, now(), Span::HOUR)).await;
        eventually_async(DEADLINE, "hanging setups", async || gate.waiting() == 4).await;
        let disturbed = work(&guest).await;
        assert_eq!(gate.waiting(), 4, "they hang still");
        gate.open();
        until(&guest, hanging, "Active").await;
        running.stop().await.unwrap();
        undelayed(before, disturbed);
    });
}

#[test]
fn a_thousand_slow_setups_delay_no_other_lease_of_their_site() {
    const MANY: u32 = 1000;
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::shut());
    let site = Arc::new(Gated(gate.clone()));
    let plans = Plans { units: MANY + 8, threads: 1, site, ..Plans::default() };
    let most = plans.calls.at_a_time.get();
    block_on(&actix::System::new(), async {
        let running = start(folder.path(), &plans).await;
        let guest = of(&running, Role::ServiceManager);
        let before = work(&guest).await;
        let slow = ask_for(&guest, ask_waiting(MANY, now(), Span::HOUR)).await;
        // An eighth of the places is kept for other leases.
        let at_work = most - most / 8;
        eventually_async(DEADLINE, "setups", async || gate.waiting() == at_work).await;
        let disturbed = work(&guest).await;
        assert_eq!(gate.waiting(), at_work, "they are at work still");
        gate.open();
        until(&guest, slow, "Active").await;
        assert_eq!(gate.most(), at_work, "threads are bounded");
        running.stop().await.unwrap();
        undelayed(before, disturbed);
    });
}

#[test]
fn calls_that_hang_are_given_up_and_their_late_answers_change_nothing() {
    const AT_A_TIME: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::shut());
    let calls = CallLimits {
        at_a_time: NonZeroUsize::new(AT_A_TIME).unwrap(),
        timeout: Duration::from_millis(300),
    };
    let site = Arc::new(Gated(gate.clone()));
    let plans = Plans { units: 40, calls, site, ..Plans::default() };
    block_on(&actix::System::new(), async {
        let running = start(folder.path(), &plans).await;
        let guest = of(&running, Role::ServiceManager);
        let hanging = ask_for(&guest, ask_waiting(30, now(), Span::HOUR)).await;
        let given_up = || figure(&running, "tenure_driver_calls_total", "outcome=\"given up\"");
        eventually_async(DEADLINE, "calls that are given up", async || given_up() >= 6).await;
        // One place in four is kept for other leases, also of those of threads that do not come back.
        let hung = || figure(&running, "tenure_driver_calls_hung", "");
        eventually_async(DEADLINE, "no place for more", async || hung() == 7).await;
        assert_eq!((given_up(), gate.most()), (7, 7), "threads are bounded");
        work(&guest).await;
        guest.command(GuestCommand::Close { lease: hanging }).await.unwrap();
        until(&guest, hanging, "Closed").await;
        gate.open();
        eventually_async(DEADLINE, "threads that come back", async || hung() == 0).await;
        assert_eq!(state(&guest, hanging).await, "Closed");
        // Every unit is clean, and can be leased again.
        let all = ask_for(&guest, ask(40, now(), Span::HOUR)).await;
        until(&guest, all, "Active").await;
        running.stop().await.unwrap();
    });
}

#[test]
fn while_one_journal_is_read_the_other_actors_of_its_thread_are_at_work() {
    static GATE: Gate = Gate::shut();
    let folder = tempfile::tempdir().unwrap();
    let held = || {
        GATE.pass();
        Box::new(Idle) as Box<dyn ServiceManagerMapper>
    };
    let plans = Plans { guest: held, threads: 1, ..Plans::default() };
    let broker = folder.path().join("broker.journal");
    block_on(&actix::System::new(), async {
        let (parts, clock) = (parts(folder.path(), &plans), Arc::new(WallClock::new()));
        let (threads, limits) = (NonZeroUsize::MIN, Limits::default());
        let deployment = Deployment { parts, clock, threads, limits, network: None };
        let running = actix::spawn(deployment.start());
        // The site delegates and the broker takes it, though the guest's journal is not open yet.
        let taken = async || {
            let facts = Reader::open(&broker).and_then(|reader| reader.facts(0, 2));
            facts.is_ok_and(|facts| facts.len() == 2)
        };
        eventually_async(DEADLINE, "a delegation", taken).await;
        assert_eq!(GATE.waiting(), 1);
        GATE.open();
        let running = running.await.unwrap().expect("it starts");
        work(&of(&running, Role::ServiceManager)).await;
        running.stop().await.unwrap();
    });
    eventually(DEADLINE, "closed journals", || Reader::open(&broker).is_ok());
}
