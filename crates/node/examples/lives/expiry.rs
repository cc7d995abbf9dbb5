//! Many leases that begin at one instant and end at one instant, and what another guest asks for meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use tenure_core::actor::Role;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::AnyActor;
use tenure_core::service_manager::machine::State;
use tenure_node::host::Handle;

use super::common::{Plans, guests, now, of, start};
use super::{ITEMS, Load, Rate, UNITS, active, ask_for_all, put};

/// The most leases of one guest: a site remembers so much of one.
const OF_ONE: u32 = 25_000;

/// How long lives are paced, before and meanwhile.
const PACED: u32 = 10;

/// How often it is looked how far the leases are.
const LOOK: Duration = Duration::from_millis(250);

/// How many units of the site leases have.
fn leased(hosted: &AnyActor) -> usize {
    let AnyActor::SiteAuthority(site) = hosted else { return 0 };
    site.ready_units().count()
}

/// How many leases of a guest are not over.
fn open(hosted: &AnyActor) -> usize {
    let AnyActor::ServiceManager(guest) = hosted else { return 0 };
    guest.leases().filter(|(_, state)| !matches!(state, State::Closed { .. })).count()
}

/// What all of some actors count.
async fn sum(actors: &[Handle], count: fn(&AnyActor) -> usize) -> usize {
    let mut all = 0;
    for actor in actors {
        all += actor.query(count).await.unwrap();
    }
    all
}

/// Waits until so few leases are there, as they are counted.
async fn until_at_most(actors: &[Handle], count: fn(&AnyActor) -> usize, most: usize) {
    while sum(actors, count).await > most {
        tokio::time::sleep(LOOK).await;
    }
}

async fn until_instant(instant: Time) {
    let left = instant.since(now()).as_micros();
    tokio::time::sleep(Duration::from_micros(u64::try_from(left).unwrap_or_default())).await;
}

/// Measures, and prints a line of JSON.
pub(super) async fn measure(folder: &Path, leases: u32, rate: u32) {
    let holders = leases.div_ceil(OF_ONE);
    let plans = Plans {
        units: leases + UNITS,
        guests: 1 + u8::try_from(holders).unwrap(),
        ..Plans::default()
    };
    let running = start(folder, &plans).await;
    let site = [of(&running, Role::SiteAuthority)];
    let mut holding = guests(&running);
    let other = holding.pop().unwrap();
    // To ask for them; to set them up, and to pace lives undisturbed.
    let ahead = Span::from_secs(5 + i64::from(leases) / 500);
    let begins = now().plus(ahead);
    let lasts = ahead.plus(Span::from_secs(2 * i64::from(PACED)));
    let ends = begins.plus(lasts);
    let each = (leases / holders).next_multiple_of(ITEMS as u32);
    let all = (each * holders) as usize;
    for guest in &holding {
        ask_for_all(guest, each, (begins, lasts)).await;
    }
    while sum(&holding, open).await < all {
        assert!(now() < begins, "they were asked for too late");
        tokio::time::sleep(LOOK).await;
    }
    until_instant(begins).await;
    let began = Instant::now();
    while sum(&holding, active).await < all {
        assert!(now() < ends, "not all leases became active");
        tokio::time::sleep(LOOK).await;
    }
    let begun_in = began.elapsed().as_secs_f64();
    let load = Load::Paced(rate);
    let before = put(&other, &load, PACED).await;
    assert!(now() < ends, "the leases ended before the undisturbed lives");
    until_instant(ends).await;
    let steady = async {
        let ended = Instant::now();
        until_at_most(&holding, open, 0).await;
        let guests = ended.elapsed().as_secs_f64();
        // What is left are lives that are paced.
        until_at_most(&site, leased, rate as usize).await;
        (guests, ended.elapsed().as_secs_f64())
    };
    let ((guests_s, steady_s), meanwhile) = tokio::join!(steady, put(&other, &load, PACED));
    let Rate { p50, p99, .. } = before;
    println!(
        "{{\"leases\": {all}, \"guests\": {holders}, \"paced_per_s\": {rate}, \"begun_in_s\": {begun_in:.1}, \
         \"over_at_guests_in_s\": {guests_s:.1}, \"steady_in_s\": {steady_s:.1}, \
         \"undisturbed\": {{\"p50_ms\": {p50:.1}, \"p99_ms\": {p99:.1}}}, \
         \"meanwhile\": {{\"p50_ms\": {:.1}, \"p99_ms\": {:.1}}}, \"p99_ratio\": {:.1}}}",
        meanwhile.p50,
        meanwhile.p99,
        meanwhile.p99 / p99,
    );
    running.stop().await.unwrap();
}
