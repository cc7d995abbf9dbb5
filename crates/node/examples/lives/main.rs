//! How many durable signed lives of leases one process gets through, how soon a lease is active, and what a
//! live lease takes.
//!
//! ```text
//! cargo run --release -p tenure-node --example lives -- full [SECONDS] [LIVES]
//! cargo run --release -p tenure-node --example lives -- paced LIVES-PER-SECOND [SECONDS]
//! cargo run --release -p tenure-node --example lives -- hold LEASES
//! cargo run --release -p tenure-node --example lives -- disk [LIVES]
//! cargo run --release -p tenure-node --example lives -- disturbed [LIVES-PER-SECOND] [SECONDS]
//! cargo run --release -p tenure-node --example lives -- apart [SECONDS] [LIVES]
//! cargo run --release -p tenure-node --example lives -- expiry [LEASES] [LIVES-PER-SECOND]
//! cargo run --release -p tenure-node --example lives -- away [LEASES] [SECONDS]
//! cargo run --release -p tenure-node --example lives -- strangers [LIVES-PER-SECOND] [SECONDS] [PAUSE-MS]
//! ```
//!
//! In a life a guest asks for a unit, has it joined, and gives it back. Site, broker and guest sign and sync
//! all of it; drivers do nothing. `full` keeps so many LIVES under way; `paced` begins one at fixed instants,
//! however long the others take; `hold` begins leases that stay, and starts the deployment again with them.
//! Each prints one line of JSON. `disk` prints what the journals of so many lives take, before and after their facts
//! are archived. `disturbed` paces lives as `paced` does, first alone, then while the guest's mapper takes 5 s
//! for each decision, while the site's driver hangs on 64 setups, and while it is to make 1,000 that take 5 s
//! each; it prints a line of JSON for each. `apart` is `full` in one process, then in four that reach each other by
//! TLS over loopback: this one is the guest's. `expiry` has so many leases of several guests begin
//! and end at the same instants, and paces lives of another guest before and meanwhile. `away` ends the broker's process
//! for so many SECONDS, in which its guest gives so many LEASES back and asks for more, and paces lives once it is back.
//! `strangers` paces lives alone, and then beside 2,000 connections to the site that bring nothing or a byte now and then,
//! and come again after a pause (1,000 ms) when the site closes them.

#![allow(clippy::print_stdout, reason = "it is what the example is for")]
#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to say")]

mod apart;
mod away;
#[path = "../../tests/common/mod.rs"]
mod common;
mod expiry;
mod strangers;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use common::gate::{Gate, Gated, ask_waiting};
use common::process::resident;
use common::{Idle, Plans, ask, now, of, parts, signer, start};
use tenure_core::actor::Actor as _;
use tenure_core::actor::Role;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::Command as GuestCommand;

use tenure_core::model::identity::{Label, Scheme, Signer};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::model::verifier::Verifier;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::machine::State;
use tenure_core::service_manager::mapper::{Decision, ServiceManagerMapper, View};
use tenure_node::deployment::Running;
use tenure_node::host::{ActorInfo, Handle, HostError, Limits};
use tenure_node::journal::{JournalFile, Owner, Reader, SystemDisk};
use tokio::sync::oneshot;

/// How many lives are under way at full load.
const AT_A_TIME: u32 = 512;
/// Units that are cleaned or yet to be credited are not there for the next: enough of them.
const UNITS: u32 = 4096;
/// The leases of one request where many are to be had.
const ITEMS: usize = 10;

/// How long the slowest life may take, and a deployment to begin or to end.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to begin leases that stay, and to come back with them.
const PATIENCE_TO_HOLD: Duration = Duration::from_secs(1800);

/// Facts about leases, each waited for by one life. Either may come first.
#[derive(Clone, Default)]
struct Awaited(Rc<RefCell<BTreeMap<LeaseId, Await>>>);

enum Await {
    Waits(oneshot::Sender<()>),
    Happened,
}

impl Awaited {
    /// Waits until the fact about a lease has happened.
    async fn of(&self, lease: LeaseId) {
        let (sender, received) = oneshot::channel();
        let before = self.0.borrow_mut().insert(lease, Await::Waits(sender));
        if let Some(Await::Happened) = before {
            self.0.borrow_mut().remove(&lease);
            return;
        }
        let received = tokio::time::timeout(TIMEOUT, received).await;
        received.expect("the life goes on in time").expect("the facts go on");
    }

    fn happens(&self, lease: LeaseId) {
        let mut all = self.0.borrow_mut();
        if let Some(Await::Waits(waiter)) = all.insert(lease, Await::Happened) {
            all.remove(&lease);
            let _ = waiter.send(());
        }
    }

    /// No more facts come: all waiters are notified.
    fn end(&self) {
        self.0.borrow_mut().clear();
    }
}

/// What the guests share.
#[derive(Clone, Default)]
struct Tally {
    active: Awaited,
    closed: Awaited,
    lives: Rc<Cell<u64>>,
    micros: Rc<RefCell<Vec<u128>>>,
    over: Rc<Cell<bool>>,
}

impl Tally {
    /// The times from request to active, at these percentiles.
    fn millis<const N: usize>(&self, percents: [usize; N]) -> [f64; N] {
        let mut micros = self.micros.borrow().clone();
        micros.sort_unstable();
        percents.map(|percent| micros[(micros.len() - 1) * percent / 100] as f64 / 1000.0)
    }
}

fn main() {
    let mut args = env::args().skip(1);
    let mode = args.next().unwrap_or_else(|| "full".to_owned());
    let mut number = || args.next().map(|arg| arg.parse::<u32>().unwrap());
    let folder = tempfile::tempdir_in(".").unwrap();
    let system = actix::System::new();
    match mode.as_str() {
        "full" => {
            let seconds = number().unwrap_or(10);
            let load = Load::Full(number().unwrap_or(AT_A_TIME));
            system.block_on(within(lasting(seconds), live(folder.path(), load, seconds)));
        }
        "paced" => {
            let load = Load::Paced(number().unwrap());
            let seconds = number().unwrap_or(10);
            system.block_on(within(lasting(seconds), live(folder.path(), load, seconds)));
        }
        "hold" => {
            let leases = number().unwrap_or(50_000);
            system.block_on(within(PATIENCE_TO_HOLD, hold(folder.path(), leases)));
        }
        "disk" => {
            let lives = number().unwrap_or(10_000);
            system.block_on(within(PATIENCE_TO_HOLD, disk(folder.path(), lives)));
        }
        "disturbed" => {
            let (rate, seconds) = (number().unwrap_or(100), number().unwrap_or(10));
            for (disturbance, plans, waiting) in disturbances() {
                let folder = tempfile::tempdir_in(".").unwrap();
                let measured = disturbed(folder.path(), &plans, waiting, (rate, seconds));
                print!("{{\"disturbance\": \"{disturbance}\", ");
                system.block_on(within(lasting(seconds), measured));
            }
        }
        "apart" => {
            let load = (number().unwrap_or(10), number().unwrap_or(AT_A_TIME));
            system.block_on(within(2 * lasting(load.0), apart::compare(load)));
        }
        "actor" => system.block_on(apart::actor(args)),
        "expiry" => {
            let (leases, rate) = (number().unwrap_or(10_000), number().unwrap_or(100));
            system.block_on(within(PATIENCE_TO_HOLD, expiry::measure(folder.path(), leases, rate)));
        }
        "away" => {
            let (leases, seconds) = (number().unwrap_or(10_000), number().unwrap_or(60));
            let limit = PATIENCE_TO_HOLD + Duration::from_secs(seconds.into());
            system.block_on(within(limit, away::measure(folder.path(), leases, seconds)));
        }
        "strangers" => {
            let (rate, seconds) = (number().unwrap_or(50), number().unwrap_or(20));
            let pause = Duration::from_millis(number().unwrap_or(1_000).into());
            let measured = strangers::measure(folder.path(), rate, seconds, pause);
            system.block_on(within(2 * lasting(seconds), measured));
        }
        other => panic!(
            "`{other}` is none of full, paced, hold, disk, disturbed, apart, expiry, away, strangers"
        ),
    }
}

/// How long a measurement of so many seconds may take: to begin, to measure, to let lives end, to stop.
fn lasting(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into()) + 3 * TIMEOUT
}

/// Measures; one that does not end in time has failed.
async fn within(limit: Duration, measurement: impl Future<Output = ()>) {
    tokio::time::timeout(limit, measurement).await.expect("the measurement ends in time");
}

/// What is begun when.
enum Load {
    /// So many lives at a time, one after the other.
    Full(u32),
    /// So many a second.
    Paced(u32),
}

/// What a load came to.
struct Rate {
    lives: u64,
    lives_per_s: f64,
    p50: f64,
    p99: f64,
}

/// Puts a load on a guest for so long, and lets the lives end that are under way.
async fn put(guest: &Handle, load: &Load, seconds: u32) -> Rate {
    let tally = Tally::default();
    let listening = actix::spawn(listen(guest.clone(), tally.clone()));
    let began = Instant::now();
    let deadline = began + Duration::from_secs(seconds.into());
    let mut lives = Vec::new();
    match load {
        Load::Full(many) => {
            lives.extend((0..*many).map(|_| actix::spawn(live_on(guest.clone(), tally.clone()))));
            tokio::time::sleep_until(deadline.into()).await;
        }
        Load::Paced(rate) => {
            let mut beat = tokio::time::interval(Duration::from_secs(1) / *rate);
            while Instant::now() < deadline {
                beat.tick().await;
                lives.push(actix::spawn(once(guest.clone(), tally.clone())));
            }
        }
    }
    let lives_per_s = tally.lives.get() as f64 / began.elapsed().as_secs_f64();
    tally.over.set(true);
    for life in lives {
        life.await.unwrap();
    }
    listening.abort();
    let [p50, p99] = tally.millis([50, 99]);
    Rate { lives: tally.lives.get(), lives_per_s, p50, p99 }
}

/// Lives for so long.
async fn live(folder: &Path, load: Load, seconds: u32) {
    let plans = Plans { units: UNITS, ..Plans::default() };
    let running = start(folder, &plans).await;
    let guest = of(&running, Role::ServiceManager);
    let before = signatures(&running).await;
    let Rate { lives, lives_per_s, p50, p99 } = put(&guest, &load, seconds).await;
    let (made, checked) = signatures(&running).await;
    let per_life = |count: u64| count as f64 / lives as f64;
    let (made, checked) = (per_life(made - before.0), per_life(checked - before.1));
    let (sign, check) = signature_micros();
    let cores = std::thread::available_parallelism().unwrap().get();
    let (at_a_time, paced) = match load {
        Load::Full(many) => (many.to_string(), "null".to_owned()),
        Load::Paced(rate) => ("null".to_owned(), rate.to_string()),
    };
    println!(
        "{{\"at_a_time\": {at_a_time}, \"paced_per_s\": {paced}, \"lives_per_s\": {lives_per_s:.0}, \"p50_ms\": {p50:.1}, \"p99_ms\": {p99:.1}, \
         \"facts_per_sync\": {:.1}, \"signed_per_life\": {made:.1}, \"checked_per_life\": {checked:.1}, \
         \"sign_us\": {sign:.1}, \"check_us\": {check:.1}, \"cores\": {cores}, \
         \"signatures_alone_per_s\": {:.0}}}",
        sum(&running, "tenure_facts_total") / sum(&running, "tenure_syncs_total"),
        cores as f64 * 1e6 / (made * sign + checked * check),
    );
    running.stop().await.unwrap();
}

/// Begins so many leases of a unit each, and comes back with them.
async fn hold(folder: &Path, leases: u32) {
    let plans = Plans { units: leases, ..Plans::default() };
    let idle = resident();
    let running = start(folder, &plans).await;
    let guest = of(&running, Role::ServiceManager);
    let began = Instant::now();
    ask_for_all(&guest, leases, (now(), Span::DAY)).await;
    until_active(&guest, leases).await;
    let (took, held) = (began.elapsed().as_secs_f64(), resident());
    let facts = sum(&running, "tenure_facts_total");
    running.stop().await.unwrap();
    let began = Instant::now();
    let running = start(folder, &plans).await;
    for handle in running.handles() {
        handle.query(|_| ()).await.unwrap();
    }
    println!(
        "{{\"leases\": {leases}, \"facts\": {facts:.0}, \"begun_in_s\": {took:.1}, \
         \"resident_mib\": {:.0}, \"bytes_per_lease\": {:.0}, \"restart_s\": {:.2}}}",
        held as f64 / f64::from(1 << 20),
        (held - idle) as f64 / f64::from(leases),
        began.elapsed().as_secs_f64(),
    );
    running.stop().await.unwrap();
}

/// Lives so many lives, and prints what each journal takes before and after all facts but the last are archived.
/// Each has one snapshot, as of a stop in good order.
async fn disk(folder: &Path, lives: u32) {
    let limits = Limits { snapshot: u64::MAX, ..Limits::default() };
    let plans = Plans { units: UNITS, limits, ..Plans::default() };
    let running = start(folder, &plans).await;
    let guest = of(&running, Role::ServiceManager);
    let tally = Tally::default();
    actix::spawn(listen(guest.clone(), tally.clone()));
    let beginners = (0..AT_A_TIME).map(|_| {
        let (guest, tally) = (guest.clone(), tally.clone());
        actix::spawn(async move {
            while !tally.over.get() {
                once(guest.clone(), tally.clone()).await;
                tally.over.set(tally.lives.get() + u64::from(AT_A_TIME) > lives.into());
            }
        })
    });
    for beginner in beginners.collect::<Vec<_>>() {
        beginner.await.unwrap();
    }
    running.stop().await.unwrap();
    println!("{} lives; bytes per life", tally.lives.get());
    println!("actor     facts  before  after  archive  live file  state in it");
    let per_life = |bytes: u64| bytes / tally.lives.get();
    for index in 0..3 {
        let signer = signer(&plans, index);
        let part = parts(folder, &plans).remove(usize::from(index));
        let ActorInfo { name, role, id } = part.info;
        let (path, owner) = (part.journal, Owner { name, role, id });
        let before = fs::metadata(&path).unwrap().len();
        let mut file = JournalFile::open(&path, &owner).unwrap();
        file.archive(&SystemDisk, &signer).unwrap();
        let facts = file.len();
        file.close().unwrap();
        let after = fs::metadata(&path).unwrap().len();
        let segments = fs::read_dir(format!("{}-archive", path.display())).unwrap();
        let archive: u64 = segments.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        let snapshots = Reader::open(&path).unwrap().snapshots().unwrap();
        let state: usize =
            snapshots.iter().map(|(_, kept)| kept.as_ref().unwrap().body().len()).sum();
        println!(
            "{:<9} {:>5.1} {:>7} {:>6} {:>8} {:>10} {:>12}",
            owner.name,
            facts as f64 / tally.lives.get() as f64,
            per_life(before),
            per_life(after + archive),
            per_life(archive),
            per_life(after),
            per_life(state as u64),
        );
    }
}

/// A mapper that takes five seconds to want nothing.
struct SlowMapper;

impl ServiceManagerMapper for SlowMapper {
    fn decide(&self, view: &View) -> Decision {
        std::thread::sleep(SLOW);
        Idle.decide(view)
    }
}

/// How long what is slow takes.
const SLOW: Duration = Duration::from_secs(5);

/// What may disturb: its name, what is built, and for how many units the setup waits.
fn disturbances() -> [(&'static str, Plans, u32); 4] {
    let plans = || Plans { units: UNITS, ..Plans::default() };
    let slow = Arc::new(Gate::slow(SLOW));
    let hangs = Arc::new(Gate::slow(Duration::from_secs(3600)));
    [
        ("none", plans(), 0),
        ("a mapper that takes 5 s", Plans { guest: || Box::new(SlowMapper), ..plans() }, 0),
        ("64 setups that hang", Plans { site: Arc::new(Gated(hangs)), ..plans() }, 64),
        ("1,000 setups of 5 s", Plans { site: Arc::new(Gated(slow)), ..plans() }, 1000),
    ]
}

/// Begins lives at a pace, while so many setups wait.
async fn disturbed(folder: &Path, plans: &Plans, waiting: u32, (rate, seconds): (u32, u32)) {
    let running = start(folder, plans).await;
    let guest = of(&running, Role::ServiceManager);
    if waiting > 0 {
        guest.command(GuestCommand::Ask(ask_waiting(waiting, now(), Span::HOUR))).await.unwrap();
    }
    let Rate { lives_per_s, p50, p99, .. } = put(&guest, &Load::Paced(rate), seconds).await;
    println!("\"lives_per_s\": {lives_per_s:.0}, \"p50_ms\": {p50:.1}, \"p99_ms\": {p99:.1}}}");
    running.stop().await.unwrap();
}

/// Asks for as many as the guest takes, for so long from then on; asks again where it is busy.
async fn ask_for_all(guest: &Handle, leases: u32, (earliest, duration): (Time, Span)) {
    for _ in 0..leases as usize / ITEMS {
        let mut request = ask(1, earliest, duration);
        request.items = vec![request.items[0].clone(); ITEMS];
        while let Err(busy) = guest.command(GuestCommand::Ask(request.clone())).await {
            assert!(matches!(busy, HostError::Busy(_)), "{busy}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The leases that are active at a guest.
fn active_leases(hosted: &AnyActor) -> Vec<LeaseId> {
    let AnyActor::ServiceManager(guest) = hosted else { return Vec::new() };
    let active = guest.leases().filter(|(_, state)| matches!(state, State::Active { .. }));
    active.map(|(lease, _)| lease).collect()
}

/// How many those are.
fn active(hosted: &AnyActor) -> usize {
    active_leases(hosted).len()
}

/// Waits until so many leases are active at a guest.
async fn until_active(guest: &Handle, leases: u32) {
    while guest.query(active).await.unwrap() < leases as usize {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Wakes who waits for a lease to be active or closed.
async fn listen(guest: Handle, tally: Tally) {
    let mut facts = guest.facts().await.unwrap().facts;
    while let Some((_, Entry { fact, .. })) = facts.recv().await {
        let Fact::ServiceManager(fact) = fact else { continue };
        if let service_manager::Fact::Joined(joined) = &fact {
            tally.active.happens(joined.lease);
        } else if let service_manager::Fact::Credited(credited) = &fact {
            tally.closed.happens(credited.lease);
        }
    }
    tally.active.end();
    tally.closed.end();
}

/// One lease after the other.
async fn live_on(guest: Handle, tally: Tally) {
    while !tally.over.get() {
        once(guest.clone(), tally.clone()).await;
    }
}

/// One life.
async fn once(guest: Handle, tally: Tally) {
    let began = Instant::now();
    let asked = guest.command(GuestCommand::Ask(ask(1, now(), Span::HOUR))).await.unwrap();
    let lease = asked.lease().unwrap();
    tally.active.of(lease).await;
    tally.micros.borrow_mut().push(began.elapsed().as_micros());
    guest.command(GuestCommand::Close { lease }).await.unwrap();
    tally.closed.of(lease).await;
    tally.lives.set(tally.lives.get() + 1);
}

/// Signatures made and checked by all actors.
async fn signatures(running: &Running) -> (u64, u64) {
    let mut all = (0, 0);
    for handle in running.handles() {
        let (made, checked) = handle.query(|hosted| hosted.signatures()).await.unwrap();
        all = (all.0 + made, all.1 + checked);
    }
    all
}

/// How long it takes one core to sign a message, and to check that.
fn signature_micros() -> (f64, f64) {
    const TIMES: u32 = 2000;
    let signer = Signer::from_seed(Scheme::Ed25519, [1; 32]);
    let bytes = [7; 512];
    let signature = signer.sign(Label::Message, &bytes);
    let each = |what: &mut dyn FnMut()| {
        let began = Instant::now();
        (0..TIMES).for_each(|_| what());
        began.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES)
    };
    let sign = each(&mut || {
        black_box(signer.sign(Label::Message, black_box(&bytes)));
    });
    let (key, mut verifier) = (signer.key(), Verifier::new(Scheme::Ed25519));
    let check = each(&mut || {
        assert!(verifier.verifies(&key, Label::Message, black_box(&bytes), &signature));
    });
    (sign, check)
}

/// The sum of a figure over all actors.
fn sum(running: &Running, name: &str) -> f64 {
    let text = running.metrics().text();
    let of_all = text.lines().filter(|line| line.starts_with(name));
    of_all.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::common::block_on;
    use super::*;

    #[test]
    fn a_fact_is_not_missed_whether_it_comes_before_or_after_somebody_waits_for_it() {
        let (awaited, lease) = (Awaited::default(), LeaseId { number: 1, part: 0 });
        block_on(&actix::System::new(), async {
            awaited.happens(lease);
            awaited.of(lease).await;
            let (waits, notifies) = (awaited.clone(), awaited.clone());
            let waiter = actix::spawn(async move { waits.of(lease).await });
            tokio::task::yield_now().await;
            notifies.happens(lease);
            waiter.await.unwrap();
            assert!(awaited.0.borrow().is_empty());
        });
    }
}
