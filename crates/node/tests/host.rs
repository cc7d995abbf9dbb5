//! Hosts in real time on journals in files.

mod common;
mod exposition;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use common::{Plans, ask, block_on, now, of, parts, start, state, until};
use tenure_core::actor::{Actor as _, Role};
use tenure_core::service_manager::Command as GuestCommand;

use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_core::service_manager::mapper::{Decision, ServiceManagerMapper, View};
use tenure_node::clock::{Clock, WallClock};
use tenure_node::deployment::{Deployment, Running, StartError};
use tenure_node::host::{Facts, Handle, HostError, HostFailure, Limits};
use tenure_node::journal::JournalError;
use tenure_wait::{DEADLINE, eventually_async, in_time};

#[test]
fn a_lease_that_is_asked_for_becomes_active_and_closes() {
    let folder = tempfile::tempdir().unwrap();
    block_on(&actix::System::new(), async {
        let running = start(folder.path(), &Plans::default()).await;
        let guest = of(&running, Role::ServiceManager);
        let asked = guest.command(GuestCommand::Ask(ask(2, now(), Span::HOUR))).await.unwrap();
        let lease = asked.lease().unwrap();
        until(&guest, lease, "Active").await;
        guest.command(GuestCommand::Close { lease }).await.unwrap();
        until(&guest, lease, "Closed").await;
        running.stop().await.unwrap();
    });
}

#[test]
fn a_deployment_that_is_stopped_takes_up_every_lease_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let system = actix::System::new();
    let lease = block_on(&system, async {
        let running = start(folder.path(), &Plans::default()).await;
        let guest = of(&running, Role::ServiceManager);
        let asked = guest.command(GuestCommand::Ask(ask(2, now(), Span::HOUR))).await.unwrap();
        let lease = asked.lease().unwrap();
        until(&guest, lease, "Active").await;
        running.stop().await.unwrap();
        assert!(guest.command(GuestCommand::Close { lease }).await.is_err(), "it has stopped");
        lease
    });
    block_on(&system, async {
        let running = start(folder.path(), &Plans::default()).await;
        let guest = of(&running, Role::ServiceManager);
        assert_eq!(state(&guest, lease).await, "Active");
        guest.command(GuestCommand::Close { lease }).await.unwrap();
        until(&guest, lease, "Closed").await;
        running.stop().await.unwrap();
    });
}

#[test]
fn a_command_that_cannot_be_carried_out_says_why() {
    let folder = tempfile::tempdir().unwrap();
    block_on(&actix::System::new(), async {
        let running = start(folder.path(), &Plans::default()).await;
        let guest = of(&running, Role::ServiceManager);
        let lease = LeaseId { number: 7, part: 0 };
        let refused = guest.command(GuestCommand::Close { lease }).await;
        assert_eq!(refused, Err(HostError::Refused("there is no lease 7.0".to_owned())));
        running.stop().await.unwrap();
    });
}

#[test]
fn a_mapper_that_panics_costs_a_round_and_not_the_actor() {
    struct PanickingMapper;
    impl ServiceManagerMapper for PanickingMapper {
        fn decide(&self, _: &View) -> Decision {
            panic!("too much to decide")
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let plans = Plans { guest: || Box::new(PanickingMapper), ..Plans::default() };
    block_on(&actix::System::new(), async {
        let running = start(folder.path(), &plans).await;
        let guest = of(&running, Role::ServiceManager);
        let asked = guest.command(GuestCommand::Ask(ask(2, now(), Span::HOUR))).await.unwrap();
        until(&guest, asked.lease().unwrap(), "Active").await;
        running.stop().await.unwrap();
    });
}

/// The round of the guest's mapper that is open.
async fn open_round(guest: &Handle) -> Option<u64> {
    guest.query(|actor| actor.open_round()).await.expect("the actor is up")
}

#[test]
fn a_mapper_that_takes_its_time_holds_nothing_up() {
    static DECIDES: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
    struct SlowMapper;
    impl ServiceManagerMapper for SlowMapper {
        fn decide(&self, view: &View) -> Decision {
            let (may_decide, changed) = &DECIDES;
            let waited = changed.wait_while(may_decide.lock().unwrap(), |may| !*may);
            drop(waited.unwrap());
            Decision { round: view.round(), ..Decision::default() }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let plans = Plans { guest: || Box::new(SlowMapper), ..Plans::default() };
    block_on(&actix::System::new(), async {
        let running = start(folder.path(), &plans).await;
        let guest = of(&running, Role::ServiceManager);
        assert_eq!(open_round(&guest).await, Some(1));
        let asked = guest.command(GuestCommand::Ask(ask(2, now(), Span::HOUR))).await.unwrap();
        until(&guest, asked.lease().unwrap(), "Active").await;
        assert_eq!(open_round(&guest).await, Some(1));
        *DECIDES.0.lock().unwrap() = true;
        DECIDES.1.notify_all();
        eventually_async(DEADLINE, "a decision", async || open_round(&guest).await.is_none()).await;
        running.stop().await.unwrap();
    });
}

#[test]
fn a_mapper_that_never_answers_is_replaced() {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    struct SilentAtFirst;
    impl ServiceManagerMapper for SilentAtFirst {
        fn decide(&self, view: &View) -> Decision {
            if ASKED.fetch_add(1, Ordering::SeqCst) == 0 {
                // Until the end of the process.
                loop {
                    std::thread::park();
                }
            }
            Decision { round: view.round(), ..Decision::default() }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let short = Duration::from_millis(10);
    let limits = Limits { mapper: short, probe_every: short, ..Limits::default() };
    let plans = Plans { guest: || Box::new(SilentAtFirst), limits, ..Plans::default() };
    block_on(&actix::System::new(), async {
        let running = start(folder.path(), &plans).await;
        let guest = of(&running, Role::ServiceManager);
        eventually_async(DEADLINE, "a decision", async || open_round(&guest).await.is_none()).await;
        assert!(ASKED.load(Ordering::SeqCst) >= 2);
        running.stop().await.unwrap();
    });
}

#[test]
fn a_watcher_sees_each_durable_fact_in_order() {
    let folder = tempfile::tempdir().unwrap();
    block_on(&actix::System::new(), async {
        let running = start(folder.path(), &Plans::default()).await;
        let guest = of(&running, Role::ServiceManager);
        let Facts { from, mut facts } = guest.facts().await.unwrap();
        let asked = guest.command(GuestCommand::Ask(ask(1, now(), Span::HOUR))).await.unwrap();
        let mut expected = from;
        loop {
            let (position, entry) = in_time(DEADLINE, "a fact", facts.recv()).await.unwrap();
            assert_eq!(position, expected);
            expected += 1;
            if position == asked.position {
                assert_eq!(entry, asked.facts[0]);
                break;
            }
        }
        running.stop().await.unwrap();
    });
}

#[test]
fn two_processes_cannot_have_one_journal() {
    let folder = tempfile::tempdir().unwrap();
    block_on(&actix::System::new(), async {
        let running = start(folder.path(), &Plans::default()).await;
        let parts = parts(folder.path(), &Plans::default());
        let clock: Arc<dyn Clock> = Arc::new(WallClock::new());
        let (threads, limits) = (NonZeroUsize::MIN, Limits::default());
        let second = Deployment { parts, clock, threads, limits, network: None };
        let Some(StartError::Down(down)) = second.start().await.err() else { panic!("it starts") };
        assert!(matches!(down.cause, HostFailure::Journal(JournalError::InUse { .. })), "{down}");
        running.stop().await.unwrap();
    });
}

#[test]
fn what_happens_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    block_on(&actix::System::new(), async {
        let running = start(folder.path(), &Plans::default()).await;
        let guest = of(&running, Role::ServiceManager);
        let asked = guest.command(GuestCommand::Ask(ask(2, now(), Span::HOUR))).await.unwrap();
        until(&guest, asked.lease().unwrap(), "Active").await;
        let text = running.metrics().text();
        assert_eq!(exposition::check(&text), Ok(()), "{text}");
        for line in [
            "tenure_inputs_total{actor=\"guest\",role=\"service manager\",kind=\"command\"} 1\n",
            "tenure_driver_calls_total{actor=\"site\",role=\"site authority\",outcome=\"done\"} 2\n",
            "tenure_falls_total{actor=\"broker\",role=\"broker\"} 0\n",
            "tenure_request_to_active_seconds_count{actor=\"guest\",role=\"service manager\"} 1\n",
        ] {
            assert!(text.contains(line), "no {line} in {text}");
        }
        running.stop().await.unwrap();
    });
}

/// A life of a lease, from its request to its end.
async fn live(running: &Running) {
    let guest = of(running, Role::ServiceManager);
    let asked = guest.command(GuestCommand::Ask(ask(1, now(), Span::HOUR))).await;
    let lease = asked.expect("it takes a request").lease().expect("a lease is asked for");
    until(&guest, lease, "Active").await;
    guest.command(GuestCommand::Close { lease }).await.expect("it takes a close");
    until(&guest, lease, "Closed").await;
}

#[test]
fn an_actor_whose_journal_was_put_back_from_an_older_copy_is_stopped_by_its_own_word() {
    for name in ["guest", "site", "broker"] {
        let folder = tempfile::tempdir().unwrap();
        let (journal, copy) =
            (folder.path().join(format!("{name}.journal")), folder.path().join("copy"));
        let system = actix::System::new();
        block_on(&system, async {
            let running = start(folder.path(), &Plans::default()).await;
            live(&running).await;
            running.stop().await.unwrap();
            std::fs::copy(&journal, &copy).unwrap();
            // With its newest journal an actor continues.
            let running = start(folder.path(), &Plans::default()).await;
            live(&running).await;
            running.stop().await.unwrap();
            std::fs::copy(&copy, &journal).unwrap();
            let mut running = start_with_anything(folder.path(), &Plans::default()).await;
            let down = running.down().await;
            assert_eq!(down.info.name.as_str(), name);
            let HostFailure::RolledBack { witnessed, holds, .. } = down.cause else {
                panic!("{down}")
            };
            assert!(witnessed > holds, "{witnessed} {holds}");
            running.stop().await.unwrap();
        });
    }
}

/// Starts the parts, whether or not that succeeds.
async fn start_with_anything(folder: &std::path::Path, plans: &Plans) -> Running {
    let clock: Arc<dyn Clock> = Arc::new(WallClock::new());
    let threads = NonZeroUsize::new(plans.threads).expect("at least one thread");
    let (parts, limits) = (parts(folder, plans), Limits::default());
    Deployment { parts, clock, threads, limits, network: None }.start().await.expect("it starts")
}
