//! What a connection between two actors costs, beside bare TLS by the same settings in the same run.
//!
//! ```text
//! cargo run --release -p tenure-node --example connections -- frames [ROUNDS]
//! cargo run --release -p tenure-node --example connections -- handshakes [COUNT]
//! cargo run --release -p tenure-node --example connections -- memory [CONNECTIONS]
//! cargo run --release -p tenure-node --example connections -- crowd [GUESTS]
//! ```
//!
//! `frames` has messages go to and fro on one connection, one at a time and then many: the median of some ROUNDS, each
//! on a new connection and short enough for what may be sent ahead. `handshakes` counts connections on which both
//! sides have said who they are. `memory` is that of a process of its own which has so many of them. `crowd` has so
//! many guests of one process, at one address, come at once to a process that answers another peer meanwhile.
//! Each prints lines of JSON.

#![allow(clippy::print_stdout, reason = "it is what the example is for")]
#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to say")]

mod bare;
#[path = "../../tests/common/mod.rs"]
mod common;
mod crowd;
mod peer;

use std::env;
use std::time::{Duration, Instant};

use actix::Arbiter;
use common::apart::ANYWHERE;
use common::process::{Again, of_parent, resident};
use peer::{Peer, dial};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tenure_wait::DEADLINE;
use tokio::sync::oneshot;

/// How long any of the measurements may take.
const LIMIT: Duration = Duration::from_secs(600);
/// Messages of a round: within what may be sent ahead.
const MESSAGES: u32 = 3500;
/// How many messages are on their way at a time, where it is more than one.
const WINDOW: u32 = 64;
/// How many handshakes are made at a time: fewer than one address may have open.
const AT_A_TIME: u32 = 16;

/// As many open files as this process may have.
fn raise_limit_of_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

fn main() {
    raise_limit_of_files();
    let args: Vec<_> = env::args().skip(1).collect();
    let mode = args.first().map_or("frames", String::as_str);
    let number = |default| args.get(1).map_or(default, |arg| arg.parse::<u32>().unwrap());
    actix::System::new().block_on(async {
        let measured = async {
            match mode {
                "frames" => frames(number(15)).await,
                "handshakes" => handshakes(number(4000)).await,
                "memory" => memory(number(1000)).await,
                "crowd" => crowd::measure(number(1000)).await,
                "listener" => listener(number(0)).await,
                "bare-listener" => bare_listener().await,
                "guests" => crowd::guests(number(0), args[2].parse().unwrap()).await,
                other => panic!("`{other}` is none of frames, handshakes, memory, crowd"),
            }
        };
        tokio::time::timeout(LIMIT, measured).await.expect("the measurement ends in time");
    });
}

/// Does something so many times in all, so many at a time; each is given the number of its place among these.
async fn in_parallel(at_a_time: u32, count: u32, what: impl AsyncFn(u32) + Clone + 'static) {
    let places = (0..at_a_time).map(|place| {
        let what = what.clone();
        actix::spawn(async move {
            for _ in 0..count / at_a_time {
                what(place).await;
            }
        })
    });
    for place in places.collect::<Vec<_>>() {
        place.await.unwrap();
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Messages to and fro in a second.
async fn frames(rounds: u32) {
    let listener = bare::Listener::start();
    for window in [1, WINDOW] {
        let (mut ours, mut bare, mut bytes) = (Vec::new(), Vec::new(), 0);
        for _ in 0..rounds {
            let (rate, size) = echoed(window).await;
            bytes = size;
            ours.push(rate);
            let took = bare::echo(listener.address, size, (window, MESSAGES)).await;
            bare.push(f64::from(MESSAGES) / took.as_secs_f64());
        }
        let (ours, bare) = (median(ours), median(bare));
        println!(
            "{{\"window\": {window}, \"frame_bytes\": {bytes}, \"messages_per_s\": {ours:.0}, \
             \"bare_tls_per_s\": {bare:.0}, \"ratio\": {:.2}}}",
            ours / bare
        );
    }
}

/// The messages in a second that come back on a new connection, and the bytes of the frame of one.
async fn echoed(window: u32) -> (f64, usize) {
    let listener = Peer::start(&[0], &[1], Some(ANYWHERE.parse().unwrap()), None);
    let thread = Arbiter::new();
    listener.echoes(0, &thread.handle());
    let address = listener.network.address();
    let dialler = Peer::start(&[1], &[0], None, address);
    let message = peer::message(1, 0);
    let bytes = peer::frame_bytes(&message);
    let (over, done) = oneshot::channel();
    let (mut over, mut back) = (Some(over), 0);
    let (network, again) = (dialler.network.clone(), message.clone());
    let hears = move |_| {
        back += 1;
        if back + window <= MESSAGES {
            peer::send(&network, &again);
        } else if back == MESSAGES {
            over.take().unwrap().send(()).unwrap();
        }
    };
    dialler.hears(1, hears, &Arbiter::current());
    dialler.connected(1).await;
    let began = Instant::now();
    (0..window).for_each(|_| peer::send(&dialler.network, &message));
    done.await.unwrap();
    let took = began.elapsed();
    thread.stop();
    (f64::from(MESSAGES) / took.as_secs_f64(), bytes)
}

/// Connections in a second, each closed when both sides have said who they are.
async fn handshakes(count: u32) {
    let peers: Vec<_> = (1..=AT_A_TIME).collect();
    let listener = Peer::start(&[0], &peers, Some(ANYWHERE.parse().unwrap()), None);
    let address = listener.network.address().unwrap();
    let bare = bare::Listener::start();
    let at = bare.address;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let began = Instant::now();
        in_parallel(AT_A_TIME, count, async move |place| drop(dial(address, place + 1).await))
            .await;
        ours.push(f64::from(count) / began.elapsed().as_secs_f64());
        let began = Instant::now();
        in_parallel(AT_A_TIME, count, async move |_| drop(bare::dial(at).await)).await;
        theirs.push(f64::from(count) / began.elapsed().as_secs_f64());
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "{{\"handshakes_per_s\": {ours:.0}, \"bare_rustls_per_s\": {theirs:.0}, \"ratio\": {:.2}}}",
        ours / theirs
    );
}

/// The memory of a process with idle connections, and of one that has bare ones.
async fn memory(connections: u32) {
    let mut ours = Again::start(&["listener", &connections.to_string()]);
    let address = ours.says().parse().unwrap();
    let before: u64 = ours.asked("memory").parse().unwrap();
    let mut streams = Vec::new();
    for first in (1..=connections).step_by(AT_A_TIME as usize) {
        let last = connections.min(first + AT_A_TIME - 1);
        let some = (first..=last).map(|index| actix::spawn(dial(address, index)));
        for stream in some.collect::<Vec<_>>() {
            streams.push(stream.await.unwrap());
        }
    }
    // The last may have been taken and not be counted yet.
    let began = Instant::now();
    while ours.asked("connected").parse::<u32>().unwrap() < connections {
        assert!(began.elapsed() < DEADLINE, "not all are connected");
    }
    let after: u64 = ours.asked("memory").parse().unwrap();
    let mut bare = Again::start(&["bare-listener"]);
    let address = bare.says().parse().unwrap();
    let bare_before: u64 = bare.asked("memory").parse().unwrap();
    let mut bare_streams = Vec::new();
    for _ in 0..connections {
        bare_streams.push(bare::dial(address).await);
    }
    let bare_after: u64 = bare.asked("memory").parse().unwrap();
    let each = |before: u64, after: u64| (after - before) as f64 / f64::from(connections) / 1024.0;
    let (ours, bare) = (each(before, after), each(bare_before, bare_after));
    println!(
        "{{\"connections\": {connections}, \"kib_each\": {ours:.1}, \"bare_tls_kib_each\": {bare:.1}, \
         \"ratio\": {:.2}}}",
        ours / bare
    );
}

/// A process that listens for so many peers, answers the first of them, and says what it is asked.
async fn listener(peers: u32) {
    let peers: Vec<_> = (1..=peers).collect();
    let listener = Peer::start(&[0], &peers, Some(ANYWHERE.parse().unwrap()), None);
    listener.echoes(0, &Arbiter::current());
    println!("{}", listener.network.address().unwrap());
    let mut asked = of_parent();
    while let Some(what) = asked.recv().await {
        match what.as_str() {
            "memory" => println!("{}", resident()),
            "connected" => println!("{}", listener.count_connected()),
            other => panic!("`{other}` is neither memory nor connected"),
        }
    }
}

async fn bare_listener() {
    let listener = bare::Listener::start();
    println!("{}", listener.address);
    let mut asked = of_parent();
    while asked.recv().await.is_some() {
        println!("{}", resident());
    }
}
