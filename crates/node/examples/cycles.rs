//! How many units the guest of a running deployment gets and gives back in a second, and how soon it gets them.
//!
//! ```text
//! cargo run --release -p tenure-node --example cycles -- DATA BROKER TYPE [AT-A-TIME] [SECONDS]
//! ```
//!
//! A cycle asks BROKER for a unit of TYPE through the control socket of the data folder DATA, gives it back once it is in
//! use, and is over once the broker knows that. So many are under way AT A TIME (64), each by a client that stays
//! connected; one further connection watches all leases. Prints a line of JSON: cycles in a second, and at which time
//! after the request the grant (`granted`) and the unit (`active`) were there, in milliseconds.

#![allow(clippy::print_stdout, reason = "it is what the example is for")]
#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to say")]

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_node::api::client::Client;
use tenure_node::api::{LeaseRequest, LeaseView, RefusalView, Request};

/// For how long a unit is asked for: less than what is left of what brokers lend each other.
const LONG: Span = Span::from_secs(600);

/// How long any step of a cycle may take.
const TIMEOUT: Duration = Duration::from_secs(60);

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let [data, broker, resource, more @ ..] = args.as_slice() else {
        panic!("usage: cycles DATA BROKER TYPE [AT-A-TIME] [SECONDS]")
    };
    let number = |at: usize, default| more.get(at).map_or(default, |text| text.parse().unwrap());
    let (at_a_time, seconds) = (number(0, 64), number(1, 10));
    let socket = Path::new(data).join("tenure.sock");
    let demand = format!("1 {resource}");
    let request = LeaseRequest {
        broker: Some(broker.parse().unwrap()),
        ..LeaseRequest::new(Name::literal("cycles"), demand, LONG)
    };
    let all_changes = LeaseChanges::default();
    let mut watching = Client::connect(&socket).unwrap();
    let hang_up = watching.hang_up().unwrap();
    let watcher = {
        let all_changes = all_changes.clone();
        thread::spawn(move || all_changes.watch(&mut watching))
    };
    let began = Instant::now();
    let deadline = began + Duration::from_secs(seconds);
    let clients = (0..at_a_time).map(|_| {
        let (socket, request, all_changes) = (socket.clone(), request.clone(), all_changes.clone());
        thread::spawn(move || cycles(&socket, &request, &all_changes, deadline))
    });
    let clients: Vec<_> = clients.collect();
    let all: Vec<Cycle> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    // Those that began in time may have ended later.
    let rate = all.len() as f64 / began.elapsed().as_secs_f64();
    hang_up();
    watcher.join().unwrap();
    let [granted_p50, granted_p99] = percentiles(&all, |cycle| cycle.granted);
    let [active_p50, active_p99] = percentiles(&all, |cycle| cycle.active);
    println!(
        "{{\"type\": \"{resource}\", \"at_a_time\": {at_a_time}, \"cycles\": {}, \"cycles_per_s\": {rate:.1}, \
         \"granted_p50_ms\": {granted_p50:.1}, \"granted_p99_ms\": {granted_p99:.1}, \
         \"active_p50_ms\": {active_p50:.1}, \"active_p99_ms\": {active_p99:.1}}}",
        all.len(),
    );
}

/// How soon after its request the grant and the unit of a cycle were there.
struct Cycle {
    granted: Duration,
    active: Duration,
}

/// The median and the 99th percentile of a time, in milliseconds.
fn percentiles(cycles: &[Cycle], of: impl Fn(&Cycle) -> Duration) -> [f64; 2] {
    let mut times: Vec<Duration> = cycles.iter().map(of).collect();
    times.sort_unstable();
    [50, 99].map(|percent| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0)
}

/// One cycle after the other, until none may begin any more.
fn cycles(
    socket: &Path,
    request: &LeaseRequest,
    all_changes: &LeaseChanges,
    deadline: Instant,
) -> Vec<Cycle> {
    let mut client = Client::connect(socket).unwrap();
    let mut cycles = Vec::new();
    while Instant::now() < deadline {
        cycles.push(cycle(&mut client, request, all_changes));
    }
    cycles
}

fn cycle(client: &mut Client, request: &LeaseRequest, all_changes: &LeaseChanges) -> Cycle {
    let began = Instant::now();
    let asked: LeaseView = client.ask(&Request::Ask(Box::new(request.clone()))).unwrap();
    let changes = all_changes.of(&asked.lease);
    let mut granted = None;
    let active = loop {
        let Change { at, lease: LeaseState { state, refusal, .. } } = next(&changes);
        assert!(state != "closed", "{} came to nothing: {refusal:?}", asked.lease);
        // What changes within a moment is shown once.
        granted = granted.or((state != "asking").then_some(at));
        if state == "active" {
            break at;
        }
    };
    let close = Request::Close { lease: asked.lease.parse().unwrap(), by: None, force: false };
    let _: Vec<LeaseView> = client.ask(&close).unwrap();
    while next(&changes).lease.state != "closed" {}
    all_changes.forget(&asked.lease);
    Cycle { granted: granted.unwrap_or(active) - began, active: active - began }
}

fn next(changes: &Receiver<Change>) -> Change {
    changes.recv_timeout(TIMEOUT).expect("the lease goes on in time")
}

/// What is read of a lease.
#[derive(Deserialize)]
struct LeaseState {
    lease: String,
    state: String,
    refusal: Option<RefusalView>,
}

/// How a lease was shown, and when.
struct Change {
    at: Instant,
    lease: LeaseState,
}

/// The changes of all leases, each for the client whose lease it is.
#[derive(Clone, Default)]
struct LeaseChanges(Arc<Mutex<BTreeMap<String, Followed>>>);

/// Changes of a lease that its client follows, or will: it may have to learn the name first.
enum Followed {
    By(Sender<Change>),
    Before(Vec<Change>),
}

impl LeaseChanges {
    /// The changes of a lease, from the first one on.
    fn of(&self, lease: &str) -> Receiver<Change> {
        let (sender, changes) = channel();
        let mut all = self.0.lock().unwrap();
        if let Some(Followed::Before(before)) = all.remove(lease) {
            before.into_iter().for_each(|change| sender.send(change).unwrap());
        }
        all.insert(lease.to_owned(), Followed::By(sender));
        changes
    }

    fn forget(&self, lease: &str) {
        self.0.lock().unwrap().remove(lease);
    }

    /// Passes changes on until the connection ends.
    fn watch(&self, client: &mut Client) {
        let all = Request::Watch { lease: None };
        let mut shown = client.ask_within::<LeaseState>(&all, None);
        while let Ok(lease) = shown {
            self.pass_on(Change { at: Instant::now(), lease });
            shown = client.next(None);
        }
    }

    fn pass_on(&self, change: Change) {
        let mut all = self.0.lock().unwrap();
        let nobody = || Followed::Before(Vec::new());
        match all.entry(change.lease.lease.clone()).or_insert_with(nobody) {
            // Nobody listens to what comes after the end.
            Followed::By(client) => drop(client.send(change)),
            Followed::Before(before) => before.push(change),
        }
    }
}
