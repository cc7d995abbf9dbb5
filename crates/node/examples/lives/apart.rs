//! The same lives with all actors in one process, and with each in its own.

use std::env::Args;
use std::iter::Skip;
use std::net::SocketAddr;
use std::path::Path;

use tenure_core::actor::Role;

use super::common::apart::{ANYWHERE, address, alone};
use super::common::process::{Again, of_parent};
use super::common::{Plans, of, start, stocked};
use super::{Load, Rate, UNITS, put};

fn plans() -> Plans {
    Plans { units: UNITS, ..Plans::default() }
}

/// Measures both, and prints a line of JSON.
pub(super) async fn compare((seconds, lives): (u32, u32)) {
    let folder = tempfile::tempdir_in(".").unwrap();
    let running = start(folder.path(), &plans()).await;
    let one = put(&of(&running, Role::ServiceManager), &Load::Full(lives), seconds).await;
    running.stop().await.unwrap();
    let apart = apart((seconds, lives)).await;
    let figures = |Rate { lives_per_s, p50, p99, .. }: &Rate| {
        format!("{{\"lives_per_s\": {lives_per_s:.0}, \"p50_ms\": {p50:.1}, \"p99_ms\": {p99:.1}}}")
    };
    println!(
        "{{\"at_a_time\": {lives}, \"one_process\": {}, \"three_processes\": {}, \"ratio\": {:.2}}}",
        figures(&one),
        figures(&apart),
        apart.lives_per_s / one.lives_per_s,
    );
}

/// Lives with site and broker in processes of their own.
async fn apart((seconds, lives): (u32, u32)) -> Rate {
    let folder = tempfile::tempdir_in(".").unwrap();
    let path = folder.path().to_str().unwrap();
    let mut site = Again::start(&["actor", "site", path]);
    let at_site = site.says();
    let mut broker = Again::start(&["actor", "broker", path, &at_site]);
    let at_broker = broker.says();
    let addresses = [(Role::SiteAuthority, at_site), (Role::Broker, at_broker)];
    let addresses = addresses.map(|(role, at)| (role, at.parse().unwrap()));
    let running = alone((folder.path(), &plans()), Role::ServiceManager, None, &addresses).await;
    let rate = put(&of(&running, Role::ServiceManager), &Load::Full(lives), seconds).await;
    running.stop().await.unwrap();
    broker.end();
    site.end();
    rate
}

/// One actor in this process, which says where it listens once it is ready, until its parent is done with it.
pub(super) async fn actor(mut args: Skip<Args>) {
    let (which, folder) = (args.next().unwrap(), args.next().unwrap());
    let around = (Path::new(&folder), &plans());
    let anywhere = Some(ANYWHERE.parse::<SocketAddr>().unwrap());
    let running = match which.as_str() {
        "site" => alone(around, Role::SiteAuthority, anywhere, &[]).await,
        "broker" => {
            let at_site = (Role::SiteAuthority, args.next().unwrap().parse().unwrap());
            let running = alone(around, Role::Broker, anywhere, &[at_site]).await;
            stocked(&of(&running, Role::Broker)).await;
            running
        }
        other => panic!("`{other}` is neither site nor broker"),
    };
    println!("{}", address(&running));
    while of_parent().recv().await.is_some() {}
    running.stop().await.unwrap();
}
