//! A broker that is away while its guest gives many leases back and asks for more, and how it comes back.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tenure_core::actor::Role;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_core::runtime::{AnyActor, Entry, Fact};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::machine::State;
use tenure_node::deployment::Running;
use tenure_node::host::{Facts, Handle};

use super::apart::{Arguments, plans};
use super::common::apart::{ANYWHERE, alone};
use super::common::{ask, now, of};
use super::{ITEMS, Load, Rate, active, ask_for_all, put};

/// How many lives a second are paced, before and after, and for how many seconds.
const PACED: (u32, u32) = (50, 10);

/// How many requests of one lease each the guest sends while the broker is away.
const ASKED: u32 = 500;

/// How often it is looked how far the leases are.
const LOOK: Duration = Duration::from_millis(50);

/// The numbers of the leases that the guest has.
fn leases(hosted: &AnyActor) -> Vec<LeaseId> {
    let AnyActor::ServiceManager(guest) = hosted else { return Vec::new() };
    let active = guest.leases().filter(|(_, state)| matches!(state, State::Active { .. }));
    active.map(|(lease, _)| lease).collect()
}

async fn until_active(guest: &Handle, count: u32) {
    while guest.query(active).await.unwrap() < count as usize {
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the broker has credited so many leases.
async fn until_credited(facts: &mut Facts, count: u32) {
    let mut left = count;
    while left > 0 {
        let (_, Entry { fact, .. }) = facts.facts.recv().await.unwrap();
        if matches!(fact, Fact::ServiceManager(service_manager::Fact::Credited(_))) {
            left -= 1;
        }
    }
}

/// Waits until the guest is connected to both others again.
async fn until_connected(guest: &Running) {
    let network = guest.network().unwrap();
    while network.connections().filter(|line| line.standing.connected).count() < 2 {
        tokio::time::sleep(LOOK).await;
    }
}

/// Measures, and prints a line of JSON.
pub(super) async fn measure(folder: &Path, count: u32, seconds: u32) {
    let count = count.next_multiple_of(ITEMS as u32);
    let arguments = Arguments::new(folder, count + ASKED);
    let mut site = arguments.site();
    let at_site = site.says();
    let mut broker = arguments.broker(&at_site, ANYWHERE);
    let at_broker = broker.says();
    let at = |text: &str| text.parse::<SocketAddr>().unwrap();
    let addresses = [(Role::SiteAuthority, at(&at_site)), (Role::Broker, at(&at_broker))];
    let plans = plans(count + ASKED);
    let running = alone((folder, &plans), Role::ServiceManager, None, &addresses).await;
    let guest = of(&running, Role::ServiceManager);
    ask_for_all(&guest, count, (now(), Span::DAY)).await;
    until_active(&guest, count).await;
    let load = Load::Paced(PACED.0);
    let before = put(&guest, &load, PACED.1).await;

    broker.end();
    let gone = Instant::now();
    for lease in guest.query(leases).await.unwrap() {
        guest.command(GuestCommand::Close { lease }).await.unwrap();
    }
    for _ in 0..ASKED {
        guest.command(GuestCommand::Ask(ask(1, now(), Span::DAY))).await.unwrap();
    }
    let left = Duration::from_secs(seconds.into()).saturating_sub(gone.elapsed());
    tokio::time::sleep(left).await;
    let mut credited = guest.facts().await.unwrap();

    let mut broker = arguments.broker(&at_site, &at_broker);
    broker.says();
    let began = Instant::now();
    until_connected(&running).await;
    let connected_s = began.elapsed().as_secs_f64();
    let steady = async {
        until_credited(&mut credited, count).await;
        until_active(&guest, ASKED).await;
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
    running.stop().await.unwrap();
    broker.end();
    site.end();
}
