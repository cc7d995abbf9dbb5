//! A broker that is away while its guest gives many leases back and asks for more, and how it comes back.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use tenure_core::actor::Role;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::facts as service_manager;
use tenure_node::deployment::Running;
use tenure_node::host::{Facts, Handle};

use super::apart::Apart;
use super::common::{ask, now, of};
use super::{ITEMS, Load, Rate, active_leases, ask_for_all, put, until_active};

/// How many lives a second are paced, before and after, and for how many seconds.
const PACED: (u32, u32) = (50, 10);

/// How many requests of one lease each the guest sends while the broker is away.
const ASKED: u32 = 500;

/// How often it is looked whether the guest is connected.
const LOOK: Duration = Duration::from_millis(50);

/// Gives all leases back and asks for others; answers the leases of both, which wait for the broker.
async fn turn_over(guest: &Handle) -> BTreeSet<LeaseId> {
    let mut waiting: BTreeSet<LeaseId> =
        guest.query(active_leases).await.unwrap().into_iter().collect();
    for &lease in &waiting {
        guest.command(GuestCommand::Close { lease }).await.unwrap();
    }
    for _ in 0..ASKED {
        let asked = guest.command(GuestCommand::Ask(ask(1, now(), Span::DAY))).await.unwrap();
        waiting.insert(asked.lease().unwrap());
    }
    waiting
}

/// Waits until each of some leases is either credited or in use.
async fn until_settled(facts: &mut Facts, mut waiting: BTreeSet<LeaseId>) {
    while !waiting.is_empty() {
        let (_, Entry { fact, .. }) = facts.facts.recv().await.unwrap();
        let Fact::ServiceManager(fact) = fact else { continue };
        if let service_manager::Fact::Credited(credited) = &fact {
            waiting.remove(&credited.lease);
        } else if let service_manager::Fact::Joined(joined) = &fact {
            waiting.remove(&joined.lease);
        }
    }
}

/// Waits until the guest is connected to all others.
async fn until_connected(guest: &Running) {
    let network = guest.network().unwrap();
    while network.connections().filter(|line| line.standing.connected).count() < 3 {
        tokio::time::sleep(LOOK).await;
    }
}

/// Measures, and prints a line of JSON.
pub(super) async fn measure(folder: &Path, count: u32, seconds: u32) {
    let count = count.next_multiple_of(ITEMS as u32);
    let four = Apart::start(folder, count + ASKED).await;
    let guest = of(&four.guest, Role::ServiceManager);
    ask_for_all(&guest, count, (now(), Span::DAY)).await;
    until_active(&guest, count).await;
    let load = Load::Paced(PACED.0);
    let before = put(&guest, &load, PACED.1).await;

    let gone = async {
        let began = Instant::now();
        let waiting = turn_over(&guest).await;
        let left = Duration::from_secs(seconds.into()).saturating_sub(began.elapsed());
        tokio::time::sleep(left).await;
        // What is waited for takes the broker, so nothing of it has happened yet.
        (waiting, guest.facts().await.unwrap())
    };
    let (four, (waiting, mut facts)) = four.without_broker(gone).await;
    let began = Instant::now();
    until_connected(&four.guest).await;
    let connected_s = began.elapsed().as_secs_f64();
    let steady = async {
        until_settled(&mut facts, waiting).await;
        began.elapsed().as_secs_f64()
    };
    let (steady_s, meanwhile) = tokio::join!(steady, put(&guest, &load, PACED.1));
    let Rate { p50, p99, .. } = before;
    println!(
        "{{\"leases\": {count}, \"asked\": {ASKED}, \"away_s\": {seconds}, \"paced_per_s\": {}, \
         \"connected_in_s\": {connected_s:.1}, \"steady_in_s\": {steady_s:.1}, \
         \"before\": {{\"p50_ms\": {p50:.1}, \"p99_ms\": {p99:.1}}}, \
         \"meanwhile\": {{\"p50_ms\": {:.1}, \"p99_ms\": {:.1}}}, \"p99_ratio\": {:.1}}}",
        PACED.0,
        meanwhile.p50,
        meanwhile.p99,
        meanwhile.p99 / p99,
    );
    four.stop().await;
}
