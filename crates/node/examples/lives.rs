//! How many durable signed lives of leases one process gets through, and how soon a lease is active.
//!
//! ```text
//! cargo run --release -p tenure-node --example lives -- [SECONDS] [LIVES AT A TIME] [THREADS]
//! ```
//!
//! A guest asks for a unit, has it joined, gives it back, and asks for the next. Site, broker and guest
//! sync all of it; drivers do nothing. Prints one line of JSON.

#![allow(clippy::print_stdout, reason = "it is what the example is for")]
#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to say")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::env;
use std::rc::Rc;
use std::time::{Duration, Instant};

use common::{Plans, ask, now, of, start};
use tenure_core::actor::Role;
use tenure_core::effect::Command;
use tenure_core::fact::{Entry, Fact, service_manager};
use tenure_core::slice::LeaseId;
use tenure_core::time::Span;
use tenure_node::host::Handle;
use tokio::sync::oneshot;

/// Who waits for a fact about a lease.
type Waiting = Rc<RefCell<BTreeMap<LeaseId, oneshot::Sender<()>>>>;

/// What the guests share.
#[derive(Clone, Default)]
struct Tally {
    active: Waiting,
    closed: Waiting,
    lives: Rc<Cell<u64>>,
    micros: Rc<RefCell<Vec<u128>>>,
    over: Rc<Cell<bool>>,
}

fn main() {
    let mut args = env::args().skip(1).map(|arg| arg.parse::<usize>().unwrap());
    let seconds = args.next().unwrap_or(10);
    let at_a_time = args.next().unwrap_or(64);
    let threads = args.next().unwrap_or(2);
    let folder = tempfile::tempdir().unwrap();
    let units = u32::try_from(at_a_time).unwrap() * 4;
    let plans = Plans { units, threads, ..Plans::default() };
    actix::System::new().block_on(async {
        let running = start(folder.path(), &plans).await;
        let guest = of(&running, Role::ServiceManager);
        let tally = Tally::default();
        actix::spawn(listen(guest.clone(), tally.clone()));
        let began = Instant::now();
        let lives: Vec<_> = (0..at_a_time)
            .map(|_| actix::spawn(live_on(guest.clone(), tally.clone())))
            .collect();
        tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
        let (count, took) = (tally.lives.get(), began.elapsed().as_secs_f64());
        tally.over.set(true);
        for life in lives {
            life.await.unwrap();
        }
        let text = running.metrics().text();
        let sum = |name: &str| -> f64 {
            let of_all = text.lines().filter(|line| line.starts_with(name));
            of_all.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        let per_sync = sum("tenure_facts_total") / sum("tenure_syncs_total");
        let mut micros = tally.micros.borrow().clone();
        micros.sort_unstable();
        let at = |percent: usize| micros[(micros.len() - 1) * percent / 100] as f64 / 1000.0;
        println!(
            "{{\"at_a_time\": {at_a_time}, \"threads\": {threads}, \"lives_per_s\": {:.0}, \
             \"request_to_active_ms\": {{\"p50\": {:.1}, \"p99\": {:.1}}}, \"facts_per_sync\": {per_sync:.1}}}",
            count as f64 / took,
            at(50),
            at(99),
        );
        running.stop().await.unwrap();
    });
}

/// Wakes who waits for a lease to be active or closed.
async fn listen(guest: Handle, tally: Tally) {
    let mut facts = guest.facts().await.unwrap().facts;
    while let Some((_, Entry { fact, .. })) = facts.recv().await {
        let Fact::ServiceManager(fact) = fact else { continue };
        if let service_manager::Fact::Joined(joined) = &fact {
            wake(&tally.active, joined.lease);
        } else if let service_manager::Fact::Credited(credited) = &fact {
            wake(&tally.closed, credited.lease);
        }
    }
}

fn wake(waiting: &Waiting, lease: LeaseId) {
    if let Some(waiter) = waiting.borrow_mut().remove(&lease) {
        let _ = waiter.send(());
    }
}

/// One lease after the other.
async fn live_on(guest: Handle, tally: Tally) {
    while !tally.over.get() {
        let began = Instant::now();
        let asked = guest.command(Command::Ask(ask(1, now(), Span::HOUR))).await.unwrap();
        let lease = asked.lease().unwrap();
        let (told, active) = oneshot::channel();
        tally.active.borrow_mut().insert(lease, told);
        active.await.unwrap();
        tally.micros.borrow_mut().push(began.elapsed().as_micros());
        let (told, closed) = oneshot::channel();
        tally.closed.borrow_mut().insert(lease, told);
        guest.command(Command::Close { lease }).await.unwrap();
        closed.await.unwrap();
        tally.lives.set(tally.lives.get() + 1);
    }
}
