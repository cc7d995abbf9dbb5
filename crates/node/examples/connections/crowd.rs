//! Many guests that come at once, and another peer that is answered meanwhile.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::common::process::{Again, of_parent};
use super::peer::{self, Peer};

/// How often the other peer asks.
const EVERY: Duration = Duration::from_millis(5);
/// How long it asks undisturbed.
const UNDISTURBED: Duration = Duration::from_secs(5);

/// Measures, and prints a line of JSON.
pub(super) async fn measure(guests: u32) {
    let mut listener = Again::start(&["listener", &(guests + 1).to_string()]);
    let address = listener.says();
    let asker = Peer::start(&[1], &[0], None, Some(address.parse().unwrap()));
    let (heard, mut answers) = mpsc::unbounded_channel();
    let thread = actix::Arbiter::current();
    asker.hears(1, move |_| heard.send(Instant::now()).unwrap(), &thread);
    asker.connected(1).await;
    let undisturbed = asked(&asker, &mut answers, until(UNDISTURBED)).await;
    let mut times = Vec::new();
    let mut meanwhile = Vec::new();
    // They come, are gone at once, and come again.
    for _ in 0..2 {
        let (guests, address) = (guests.to_string(), address.clone());
        let began = Instant::now();
        let come = tokio::task::spawn_blocking(move || {
            let mut crowd = Again::start(&["guests", &guests, &address]);
            crowd.says();
            (crowd, began.elapsed())
        });
        let (micros, come) = asked_during(&asker, &mut answers, come).await;
        let (crowd, took) = come;
        drop(crowd);
        times.push(took.as_secs_f64());
        meanwhile.push(micros);
        while listener.asked("connected") != "1" {
            tokio::time::sleep(EVERY).await;
        }
    }
    let (p50, p99) = (at(&undisturbed, 50), at(&undisturbed, 99));
    let again = &meanwhile[1];
    println!(
        "{{\"guests\": {guests}, \"come_in_s\": {:.2}, \"come_again_in_s\": {:.2}, \
         \"undisturbed\": {{\"p50_ms\": {p50:.2}, \"p99_ms\": {p99:.2}}}, \
         \"meanwhile\": {{\"p50_ms\": {:.2}, \"p99_ms\": {:.2}}}, \"p99_ratio\": {:.1}}}",
        times[0],
        times[1],
        at(again, 50),
        at(again, 99),
        at(again, 99) / p99,
    );
}

fn until(time: Duration) -> JoinHandle<()> {
    actix::spawn(tokio::time::sleep(time))
}

/// A percentile in milliseconds.
fn at(times: &[Duration], percent: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0
}

async fn asked(
    asker: &Peer,
    answers: &mut mpsc::UnboundedReceiver<Instant>,
    during: JoinHandle<()>,
) -> Vec<Duration> {
    asked_during(asker, answers, during).await.0
}

/// How long answers take, as long as something lasts. What waits for its turn counts as waiting.
async fn asked_during<T>(
    asker: &Peer,
    answers: &mut mpsc::UnboundedReceiver<Instant>,
    during: JoinHandle<T>,
) -> (Vec<Duration>, T) {
    let (message, mut times) = (peer::message(1, 0), Vec::new());
    let mut beat = tokio::time::interval(EVERY);
    while !during.is_finished() {
        let due = beat.tick().await;
        peer::send(&asker.network, &message);
        let answered = answers.recv().await.unwrap();
        times.push(answered.saturating_duration_since(due.into_std()));
    }
    (times, during.await.unwrap())
}

/// So many guests in this process, who dial at once, until their parent is done with them.
pub(super) async fn guests(count: u32, at: SocketAddr) {
    let all: Vec<_> = (2..count + 2).collect();
    let guests = Peer::start(&all, &[0], None, Some(at));
    guests.connected(all.len()).await;
    println!("{}", all.len());
    while of_parent().recv().await.is_some() {}
}
