//! The same lives with all actors in one process, and with each in its own.

use std::env::Args;
use std::iter::Skip;
use std::net::SocketAddr;
use std::path::Path;

use tenure_core::actor::Role;
use tenure_node::deployment::Running;

use super::common::apart::{ANYWHERE, address, alone};
use super::common::process::{Again, of_parent};
use super::common::{Plans, of, start, stocked};
use super::{Load, Rate, UNITS, put};

/// What is built, with so many units beside those of lives.
fn plans(more_units: u32) -> Plans {
    Plans { units: UNITS + more_units, ..Plans::default() }
}

/// Measures both, and prints a line of JSON.
pub(super) async fn compare((seconds, lives): (u32, u32)) {
    let folder = tempfile::tempdir_in(".").unwrap();
    let running = start(folder.path(), &plans(0)).await;
    let load = Load::Full(lives);
    let one = put(&of(&running, Role::ServiceManager), &load, seconds).await;
    running.stop().await.unwrap();
    let folder = tempfile::tempdir_in(".").unwrap();
    let three = Apart::start(folder.path(), 0).await;
    let apart = put(&of(&three.guest, Role::ServiceManager), &load, seconds).await;
    three.stop().await;
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

/// A site and a broker in processes of their own, and their guest in this one.
pub(super) struct Apart {
    /// The guest.
    pub(super) guest: Running,
    /// Where the site listens.
    pub(super) at_site: String,
    site: Again,
    broker: Again,
    /// How the broker was started, at the address that it had.
    again: Vec<String>,
}

impl Apart {
    /// Starts them, with so many units beside those of lives.
    pub(super) async fn start(folder: &Path, more_units: u32) -> Self {
        let (path, units) = (folder.to_str().unwrap(), more_units.to_string());
        let mut site = Again::start(&["actor", "site", path, &units]);
        let at_site = site.says();
        let mut broker = Again::start(&["actor", "broker", path, &units, &at_site, ANYWHERE]);
        let at_broker = broker.says();
        let again = ["actor", "broker", path, &units, &at_site, &at_broker].map(str::to_owned);
        let addresses = [(Role::SiteAuthority, &at_site), (Role::Broker, &at_broker)];
        let addresses = addresses.map(|(role, at)| (role, at.parse().unwrap()));
        let around = (folder, &plans(more_units));
        let guest = alone(around, Role::ServiceManager, None, &addresses).await;
        Self { guest, at_site, site, broker, again: again.to_vec() }
    }

    /// Ends the broker's process, does something, and starts the broker again, where it was.
    pub(super) async fn without_broker<T>(self, what: impl Future<Output = T>) -> (Self, T) {
        self.broker.end();
        let done = what.await;
        let args: Vec<&str> = self.again.iter().map(String::as_str).collect();
        let mut broker = Again::start(&args);
        broker.says();
        (Self { broker, ..self }, done)
    }

    /// Ends them.
    pub(super) async fn stop(self) {
        self.guest.stop().await.unwrap();
        self.broker.end();
        self.site.end();
    }
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
            let (at_site, own) = ((Role::SiteAuthority, address_of()), Some(address_of()));
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
