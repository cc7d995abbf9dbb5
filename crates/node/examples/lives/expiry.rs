//! Many leases that begin at one instant and end at one instant, and what else is asked for meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use tenure_core::actor::Role;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::AnyActor;
use tenure_core::service_manager::machine::State;
use tenure_node::host::Handle;

use super::common::{Plans, now, of, start};
use super::{Load, Rate, UNITS, active, ask_for_all, put};

/// How long lives are paced undisturbed.
const UNDISTURBED: u32 = 10;

/// How often it is looked how far the leases are.
const LOOK: Duration = Duration::from_millis(50);

/// How many units of the site leases have.
fn leased(hosted: &AnyActor) -> usize {
    let AnyActor::SiteAuthority(site) = hosted else { return 0 };
    site.ready_units().count()
}

/// How many leases of the guest are not over.
fn open(hosted: &AnyActor) -> usize {
    let AnyActor::ServiceManager(guest) = hosted else { return 0 };
    guest.leases().filter(|(_, state)| !matches!(state, State::Closed { .. })).count()
}

/// Waits until so few leases are there, as they are counted.
async fn until_at_most(actor: &Handle, count: fn(&AnyActor) -> usize, most: usize) {
    while actor.query(count).await.unwrap() > most {
        tokio::time::sleep(LOOK).await;
    }
}

async fn until_instant(instant: Time) {
    let left = instant.since(now()).as_micros();
    tokio::time::sleep(Duration::from_micros(u64::try_from(left).unwrap_or_default())).await;
}

/// Measures, and prints a line of JSON.
pub(super) async fn measure(folder: &Path, leases: u32, rate: u32) {
    let plans = Plans { units: leases + UNITS, ..Plans::default() };
    let running = start(folder, &plans).await;
    let (guest, site) = (of(&running, Role::ServiceManager), of(&running, Role::SiteAuthority));
    // To ask for them; to set them up, and to measure undisturbed.
    let ahead = Span::from_secs(5 + i64::from(leases) / 500);
    let begins = now().plus(ahead);
    let lasts = ahead.plus(Span::from_secs(2 * i64::from(UNDISTURBED)));
    let ends = begins.plus(lasts);
    ask_for_all(&guest, leases, (begins, lasts)).await;
    assert!(now() < begins, "they were asked for too late");
    until_instant(begins).await;
    let began = Instant::now();
    while guest.query(active).await.unwrap() < leases as usize {
        assert!(now() < ends, "not all leases became active");
        tokio::time::sleep(LOOK).await;
    }
    let begun_in = began.elapsed().as_secs_f64();
    let load = Load::Paced(rate);
    let before = put(&guest, &load, UNDISTURBED).await;
    assert!(now() < ends, "the leases ended before the undisturbed lives");
    until_instant(ends.minus(Span::from_secs(1))).await;
    let steady = async {
        until_instant(ends).await;
        let ended = Instant::now();
        until_at_most(&guest, open, leases as usize / 100).await;
        let guest_s = ended.elapsed().as_secs_f64();
        (guest_s, ended)
    };
    let ((guest_s, ended), meanwhile) = tokio::join!(steady, put(&guest, &load, UNDISTURBED));
    until_at_most(&guest, open, 0).await;
    until_at_most(&site, leased, 0).await;
    let all_s = ended.elapsed().as_secs_f64();
    let Rate { p50, p99, .. } = before;
    println!(
        "{{\"leases\": {leases}, \"paced_per_s\": {rate}, \"begun_in_s\": {begun_in:.1}, \
         \"ended_in_s\": {guest_s:.1}, \"steady_in_s\": {all_s:.1}, \
         \"undisturbed\": {{\"p50_ms\": {p50:.1}, \"p99_ms\": {p99:.1}}}, \
         \"meanwhile\": {{\"p50_ms\": {:.1}, \"p99_ms\": {:.1}}}, \"p99_ratio\": {:.1}}}",
        meanwhile.p50,
        meanwhile.p99,
        meanwhile.p99 / p99,
    );
    running.stop().await.unwrap();
}
