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

/// What is built, with so many units beside those of lives.
pub(super) fn plans(more_units: u32) -> Plans {
    Plans { units: UNITS + more_units, ..Plans::default() }
}

/// What the processes of a measurement share.
pub(super) struct Arguments {
    /// Where their journals are.
    pub(super) folder: String,
    /// Units beside those of lives.
    pub(super) more_units: String,
}

impl Arguments {
    pub(super) fn new(folder: &Path, more_units: u32) -> Self {
        let folder = folder.to_str().unwrap().to_owned();
        Self { folder, more_units: more_units.to_string() }
    }

    /// Starts the site.
    pub(super) fn site(&self) -> Again {
        Again::start(&["actor", "site", &self.folder, &self.more_units])
    }

    /// Starts the broker of that site, at an address.
    pub(super) fn broker(&self, at_site: &str, address: &str) -> Again {
        Again::start(&["actor", "broker", &self.folder, &self.more_units, address, at_site])
    }
}

/// Measures both, and prints a line of JSON.
pub(super) async fn compare((seconds, lives): (u32, u32)) {
    let folder = tempfile::tempdir_in(".").unwrap();
    let running = start(folder.path(), &plans(0)).await;
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
    let arguments = Arguments::new(folder.path(), 0);
    let mut site = arguments.site();
    let at_site = site.says();
    let mut broker = arguments.broker(&at_site, ANYWHERE);
    let at_broker = broker.says();
    let addresses = [(Role::SiteAuthority, at_site), (Role::Broker, at_broker)];
    let addresses = addresses.map(|(role, at)| (role, at.parse().unwrap()));
    let running = alone((folder.path(), &plans(0)), Role::ServiceManager, None, &addresses).await;
    let rate = put(&of(&running, Role::ServiceManager), &Load::Full(lives), seconds).await;
    running.stop().await.unwrap();
    broker.end();
    site.end();
    rate
}

/// One actor in this process, which says where it listens once it is ready, until its parent is done with it.
pub(super) async fn actor(mut args: Skip<Args>) {
    let (which, folder) = (args.next().unwrap(), args.next().unwrap());
    let around = (Path::new(&folder), &plans(args.next().unwrap().parse().unwrap()));
    let mut address_of = || args.next().unwrap().parse::<SocketAddr>().unwrap();
    let running = match which.as_str() {
        "site" => {
            let anywhere = Some(ANYWHERE.parse().unwrap());
            alone(around, Role::SiteAuthority, anywhere, &[]).await
        }
        "broker" => {
            let (own, at_site) = (Some(address_of()), (Role::SiteAuthority, address_of()));
            let running = alone(around, Role::Broker, own, &[at_site]).await;
            stocked(&of(&running, Role::Broker)).await;
            running
        }
        other => panic!("`{other}` is neither site nor broker"),
    };
    println!("{}", address(&running));
    while of_parent().recv().await.is_some() {}
    running.stop().await.unwrap();
}
