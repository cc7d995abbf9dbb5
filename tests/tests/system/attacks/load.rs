//! Load: many connections and many messages of no use. Others are served as before.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tenure_core::model::time::Span;
use tenure_core::wire::message::Message;
use tenure_node::net::frame::Frame;

use super::{Target, messages, next, unknown};
use crate::network::Apart;

/// How often the guest is served to see how long that takes.
const TIMES: usize = 8;

/// What one life of a lease takes, as a median.
fn life(apart: &Apart) -> Duration {
    let mut times: Vec<Duration> = (0..TIMES)
        .map(|_| {
            let began = Instant::now();
            let lease = apart.guest.json("lease request 1 --for 1h --wait")[0]["lease"].clone();
            let lease = lease.as_str().expect("a name");
            apart.guest.json(&format!("lease close {lease} --wait"));
            began.elapsed()
        })
        .collect();
    times.sort();
    times[TIMES / 2]
}

/// Runs an attack on as many threads as it has parts while the guest is served, once each part has said that it is
/// under way. The guest is not to wait more than twice as long, and a second for a machine that is busy.
fn costs_others_nothing(apart: &Apart, parts: u32, attack: impl Fn(u32, &dyn Fn() -> bool) + Sync) {
    let alone = life(apart);
    let (over, under_way) = (AtomicBool::new(false), AtomicU32::new(0));
    let meanwhile = std::thread::scope(|scope| {
        for part in 0..parts {
            let (attack, over, under_way) = (&attack, &over, &under_way);
            scope.spawn(move || {
                let first = AtomicBool::new(true);
                attack(part, &|| {
                    if first.swap(false, Ordering::Relaxed) {
                        under_way.fetch_add(1, Ordering::Relaxed);
                    }
                    !over.load(Ordering::Relaxed)
                });
            });
        }
        tenure_wait::eventually(tenure_wait::DEADLINE, "the attack", || {
            under_way.load(Ordering::Relaxed) == parts
        });
        let meanwhile = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| life(apart)));
        over.store(true, Ordering::Relaxed);
        meanwhile
    });
    let meanwhile = meanwhile.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    println!("a life of a lease: {alone:?} alone, {meanwhile:?} under attack");
    assert!(meanwhile < alone * 2 + Duration::from_secs(1), "{meanwhile:?} instead of {alone:?}");
}

/// The addresses of this machine that an attacker has: as of a botnet.
fn addresses() -> impl Iterator<Item = Ipv4Addr> {
    (2..=100).map(|last| Ipv4Addr::new(127, 0, 0, last))
}

/// Connections of which nothing comes: as many from each address as are taken of one, and some more.
fn half_open(target: &Target) -> Vec<TcpStream> {
    addresses()
        .flat_map(|from| (0..20).map(move |_| from))
        .map(|from| target.tcp_from(from))
        .collect()
}

#[test]
fn two_thousand_half_open_connections_cost_others_nothing() {
    let mut apart = Apart::start();
    let target = Target::of(&apart.site, &apart.address);
    let open = half_open(&target);
    assert!(open.len() > 1900);
    costs_others_nothing(&apart, 1, |_, goes_on| {
        while goes_on() {
            // Those that the site gives up are replaced by others.
            drop(half_open(&target));
        }
    });
    // Who comes anew is let in as well, though all places are taken.
    let open_again = half_open(&target);
    apart.guest.end("-KILL");
    apart.guest.restart_up();
    apart.guest.json("lease request 1 --for 1h --wait");
    drop((open, open_again));
    apart.guest.close_all();
    apart.site.becomes_clean();
}

/// A handshake, and then a frame, of which a byte comes now and then.
#[test]
fn slow_handshakes_and_slow_frames_cost_others_nothing() {
    let apart = Apart::start();
    let target = Target::of(&apart.site, &apart.address);
    costs_others_nothing(&apart, 2, |part, goes_on| {
        while goes_on() {
            if part == 0 {
                let mut streams: Vec<_> = addresses().map(|from| target.tcp_from(from)).collect();
                for byte in [22, 3, 1, 2, 0, 1] {
                    streams.iter_mut().for_each(|stream| drop(stream.write_all(&[byte])));
                }
            } else {
                let mut stream = target.caller(&unknown());
                let shown = [target.ticket(&unknown()), target.hello(&unknown())];
                shown.iter().for_each(|frame| stream.write_all(frame).expect("it is read"));
                while next(&mut stream).is_ok_and(|frame| !matches!(frame, Frame::Hello(_))) {}
                // The length of a long frame, and then as little of it as keeps it going.
                for byte in [0, 0, 0xff, 0xff, 1, 0, 0, 0] {
                    drop(stream.write_all(&[byte]).and_then(|()| stream.flush()));
                }
                drop(next(&mut stream));
            }
        }
    });
    apart.guest.close_all();
    apart.site.becomes_clean();
}

/// Messages that the site has to read, check and answer, each of another number, as many as it takes.
#[test]
fn a_flood_of_valid_and_useless_messages_costs_others_nothing() {
    let apart = Apart::start();
    let target = Target::of(&apart.site, &apart.address);
    let link = target.link(unknown().id(), &target.site, Span::HOUR);
    let signed = tenure_core::ticket::link::SignedLink::sign(link, &unknown());
    let ticket = tenure_core::ticket::Ticket::root_of(signed);
    costs_others_nothing(&apart, 1, |_, goes_on| {
        let mut position = 0;
        while goes_on() {
            let mut stream = target.caller(&unknown());
            stream.sock.set_write_timeout(Some(Duration::from_millis(100))).expect("a time limit");
            let shown = [target.ticket(&unknown()), target.hello(&unknown())];
            if shown.iter().any(|frame| stream.write_all(frame).is_err()) {
                continue;
            }
            while goes_on() {
                position += 1;
                let message = Message::Reclaim { ticket: ticket.clone() };
                let envelope = target.envelope(unknown().id(), position, message);
                // Held back by the site, it tries again with another connection.
                if stream.write_all(&messages(&envelope, &unknown())).is_err() {
                    break;
                }
            }
        }
        assert!(position > 400, "{position} messages are no flood");
    });
    apart.guest.close_all();
    apart.site.becomes_clean();
}
