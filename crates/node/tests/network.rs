//! Actors in processes of their own, here each in a deployment of its own, that reach each other by TLS.

mod common;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use common::{Plans, ROLES, ask, block_on, now, of, parts, signer, state, stocked, until};
use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_node::clock::WallClock;
use tenure_node::deployment::{Deployment, Running};
use tenure_node::net::{Network, NetworkSettings, Remote};
use tenure_wait::{DEADLINE, eventually_async};

/// Where nobody else listens.
const ANYWHERE: &str = "127.0.0.1:0";

/// One of the three actors in a deployment of its own, with what it knows of the others' addresses.
async fn alone(
    folder: &Path,
    role: Role,
    listen: Option<SocketAddr>,
    addresses: &[(Role, SocketAddr)],
) -> Running {
    let plans = Plans::default();
    let index = |role| ROLES.iter().position(|(_, other)| *other == role).expect("a role");
    let own = |role| signer(&plans, u8::try_from(index(role)).expect("one of three"));
    let remotes = ROLES.iter().filter(|(_, other)| *other != role).map(|&(name, other)| Remote {
        id: own(other).id(),
        name: Name::literal(name),
        address: addresses.iter().find(|(of, _)| *of == other).map(|(_, at)| at.to_string()),
    });
    let network = NetworkSettings { listen, signers: vec![own(role)], remotes: remotes.collect() };
    let deployment = Deployment {
        parts: vec![parts(folder, &plans).remove(index(role))],
        clock: Arc::new(WallClock::new()),
        threads: NonZeroUsize::MIN,
        limits: plans.limits,
        network: Some(network),
    };
    deployment.start().await.expect("it starts")
}

fn address(running: &Running) -> SocketAddr {
    running.network().and_then(Network::address).expect("it listens")
}

/// A site that only listens, a broker that listens and dials the site, a guest that only dials.
struct Apart {
    site: Running,
    broker: Running,
    guest: Running,
}

impl Apart {
    async fn start(folder: &Path) -> Self {
        let anywhere = Some(ANYWHERE.parse().expect("an address"));
        let site = alone(folder, Role::SiteAuthority, anywhere, &[]).await;
        let at_site = (Role::SiteAuthority, address(&site));
        let broker = alone(folder, Role::Broker, anywhere, &[at_site]).await;
        let at_broker = (Role::Broker, address(&broker));
        let guest = alone(folder, Role::ServiceManager, None, &[at_site, at_broker]).await;
        stocked(&of(&broker, Role::Broker)).await;
        Self { site, broker, guest }
    }

    async fn stop(self) {
        for running in [self.guest, self.broker, self.site] {
            running.stop().await.expect("it stops");
        }
    }
}

#[test]
fn a_lease_lives_between_processes_that_know_each_other_by_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    block_on(&actix::System::new(), async {
        let apart = Apart::start(folder.path()).await;
        let guest = of(&apart.guest, Role::ServiceManager);
        let asked = guest.command(GuestCommand::Ask(ask(2, now(), Span::HOUR))).await.unwrap();
        let lease = asked.lease().unwrap();
        until(&guest, lease, "Active").await;
        guest.command(GuestCommand::Close { lease }).await.unwrap();
        until(&guest, lease, "Closed").await;
        apart.stop().await;
    });
}

#[test]
fn a_process_that_comes_back_is_reached_again_and_no_lease_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    block_on(&actix::System::new(), async {
        let Apart { site, broker, guest: running } = Apart::start(folder.path()).await;
        let guest = of(&running, Role::ServiceManager);
        let asked = guest.command(GuestCommand::Ask(ask(1, now(), Span::HOUR))).await.unwrap();
        let first = asked.lease().unwrap();
        until(&guest, first, "Active").await;
        let at = address(&site);
        site.stop().await.unwrap();
        let asked = guest.command(GuestCommand::Ask(ask(1, now(), Span::HOUR))).await.unwrap();
        let second = asked.lease().unwrap();
        until(&guest, second, "Redeeming").await;
        let down = || running.network().unwrap().standings().any(|(.., line)| line.error.is_some());
        eventually_async(DEADLINE, "a guest that misses its site", async || down()).await;
        let site = alone(folder.path(), Role::SiteAuthority, Some(at), &[]).await;
        until(&guest, second, "Active").await;
        assert_eq!(state(&guest, first).await, "Active");
        guest.command(GuestCommand::Close { lease: first }).await.unwrap();
        until(&guest, first, "Closed").await;
        Apart { site, broker, guest: running }.stop().await;
    });
}

#[test]
fn both_sides_may_dial_at_once() {
    let folder = tempfile::tempdir().unwrap();
    block_on(&actix::System::new(), async {
        let anywhere = Some(ANYWHERE.parse().unwrap());
        let site = alone(folder.path(), Role::SiteAuthority, anywhere, &[]).await;
        let at_site = address(&site);
        let broker =
            alone(folder.path(), Role::Broker, anywhere, &[(Role::SiteAuthority, at_site)]).await;
        let at_broker = (Role::Broker, address(&broker));
        site.stop().await.unwrap();
        // From now on each dials the other.
        let site = alone(folder.path(), Role::SiteAuthority, Some(at_site), &[at_broker]).await;
        let connected = || {
            [&site, &broker].into_iter().all(|running| {
                running.network().unwrap().standings().any(|(_, _, line)| line.connected)
            })
        };
        eventually_async(DEADLINE, "a connection", async || connected()).await;
        let addresses = [at_broker, (Role::SiteAuthority, at_site)];
        let guest = alone(folder.path(), Role::ServiceManager, None, &addresses).await;
        let apart = Apart { site, broker, guest };
        let guest = of(&apart.guest, Role::ServiceManager);
        let asked = guest.command(GuestCommand::Ask(ask(2, now(), Span::HOUR))).await.unwrap();
        until(&guest, asked.lease().unwrap(), "Active").await;
        apart.stop().await;
    });
}
