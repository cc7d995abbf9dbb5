//! The same lives with all actors in one process, and with each in its own.

use std::env::Args;
use std::iter::Skip;
use std::net::SocketAddr;
use std::path::Path;

use tenure_core::actor::Role;
use tenure_node::deployment::Running;

use super::common::apart::{ANYWHERE, address, at_place, place};
use super::common::process::{Again, of_parent};
use super::common::{Plans, of, start, stocked};
use super::{Load, Rate, UNITS, put};

/// What is built, with so many units beside those of lives.
fn plans(more_units: u32) -> Plans {
    Plans { units: (UNITS + more_units).div_ceil(2), sites: 2, ..Plans::default() }
}

/// The places of all four actors: broker, guest, two sites.
const ALL: [u8; 4] = [0, 1, 2, 3];
const SITES: [u8; 2] = [2, 3];

/// Measures both, and prints a line of JSON.
pub(super) async fn compare((seconds, lives): (u32, u32)) {
    let folder = tempfile::tempdir_in(".").unwrap();
    let running = start(folder.path(), &plans(0)).await;
    let load = Load::Full(lives);
    let one = put(&of(&running, Role::ServiceManager), &load, seconds).await;
    running.stop().await.unwrap();
    let folder = tempfile::tempdir_in(".").unwrap();
    let four = Apart::start(folder.path(), 0).await;
    let apart = put(&of(&four.guest, Role::ServiceManager), &load, seconds).await;
    four.stop().await;
    let figures = |Rate { lives_per_s, p50, p99, .. }: &Rate| {
        format!("{{\"lives_per_s\": {lives_per_s:.0}, \"p50_ms\": {p50:.1}, \"p99_ms\": {p99:.1}}}")
    };
    println!(
        "{{\"at_a_time\": {lives}, \"one_process\": {}, \"four_processes\": {}, \"ratio\": {:.2}}}",
        figures(&one),
        figures(&apart),
        apart.lives_per_s / one.lives_per_s,
    );
}

/// Two sites and a broker in processes of their own, and their guest in this one.
pub(super) struct Apart {
    /// The guest.
    pub(super) guest: Running,
    /// Where the first site listens.
    pub(super) at_site: String,
    sites: Vec<Again>,
    broker: Again,
    /// How the broker was started, at the address that it had.
    again: Vec<String>,
}

impl Apart {
    /// Starts them, with so many units beside those of lives.
    pub(super) async fn start(folder: &Path, more_units: u32) -> Self {
        let (path, units) = (folder.to_str().unwrap(), more_units.to_string());
        let site = |place: u8| Again::start(&["actor", &place.to_string(), path, &units, ANYWHERE]);
        let mut sites = SITES.map(site);
        let at_sites = sites.each_mut().map(Again::says);
        let broker_at = |at: &str| {
            let args = ["actor", "0", path, &units, at, &at_sites[0], &at_sites[1]];
            args.map(str::to_owned).to_vec()
        };
        let mut broker = Again::start(&broker_at(ANYWHERE));
        let at_broker = broker.says();
        let addresses = [(SITES[0], &at_sites[0]), (SITES[1], &at_sites[1]), (0, &at_broker)];
        let addresses = addresses.map(|(place, at)| (place, at.parse().unwrap()));
        let around = (folder, &plans(more_units));
        let guest = at_place(around, place(Role::ServiceManager), None, (&ALL, &addresses)).await;
        let again = broker_at(&at_broker);
        let [at_site, _] = at_sites;
        Self { guest, at_site, sites: sites.into(), broker, again }
    }

    /// Ends the broker's process, does something, and starts the broker again, where it was.
    pub(super) async fn without_broker<T>(self, what: impl Future<Output = T>) -> (Self, T) {
        self.broker.end();
        let done = what.await;
        let mut broker = Again::start(&self.again);
        broker.says();
        (Self { broker, ..self }, done)
    }

    /// Ends them.
    pub(super) async fn stop(self) {
        self.guest.stop().await.unwrap();
        self.broker.end();
        self.sites.into_iter().for_each(Again::end);
    }
}

/// One actor in this process by its place, which says where it listens once it is ready, until its parent is done
/// with it. Its last arguments are where it listens, and the addresses of sites.
pub(super) async fn actor(mut args: Skip<Args>) {
    let (own, folder) = (args.next().unwrap().parse().unwrap(), args.next().unwrap());
    let plans = plans(args.next().unwrap().parse().unwrap());
    let mut addresses = args.map(|at| at.parse::<SocketAddr>().unwrap());
    let listen = addresses.next();
    let of_sites: Vec<_> = SITES.into_iter().zip(addresses).collect();
    let running = at_place((Path::new(&folder), &plans), own, listen, (&ALL, &of_sites)).await;
    if own == place(Role::Broker) {
        stocked(&of(&running, Role::Broker)).await;
    }
    println!("{}", address(&running));
    while of_parent().recv().await.is_some() {}
    running.stop().await.unwrap();
}
