//! Actors in processes of their own, here each in a deployment of its own, that reach each other by TLS.

mod common;

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::apart::{ANYWHERE, address, alone, knowing};
use common::{Plans, ROLES, ask, block_on, now, of, parts, signer, state, stocked, until};
use tenure_core::actor::Role;
use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::site_authority::Command as SiteCommand;
use tenure_node::clock::WallClock;
use tenure_node::deployment::{Deployment, Running};
use tenure_node::host::HostFailure;
use tenure_node::net::{Listen, LocalActor, NetworkSettings};
use tenure_wait::{DEADLINE, eventually_async};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// A site that only listens, a broker that listens and dials the site, a guest that only dials.
struct Apart {
    site: Running,
    broker: Running,
    guest: Running,
}

impl Apart {
    async fn start(folder: &Path) -> Self {
        let plans = Plans::default();
        let anywhere = Some(ANYWHERE.parse().expect("an address"));
        let site = alone((folder, &plans), Role::SiteAuthority, anywhere, &[]).await;
        let at_site = (Role::SiteAuthority, address(&site));
        let broker = alone((folder, &plans), Role::Broker, anywhere, &[at_site]).await;
        let at_broker = (Role::Broker, address(&broker));
        let guest =
            alone((folder, &plans), Role::ServiceManager, None, &[at_site, at_broker]).await;
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
    let (folder, plans) = (tempfile::tempdir().unwrap(), Plans::default());
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
        let down =
            || running.network().unwrap().connections().any(|line| line.standing.error.is_some());
        eventually_async(DEADLINE, "a guest that misses its site", async || down()).await;
        let site = alone((folder.path(), &plans), Role::SiteAuthority, Some(at), &[]).await;
        until(&guest, second, "Active").await;
        assert_eq!(state(&guest, first).await, "Active");
        guest.command(GuestCommand::Close { lease: first }).await.unwrap();
        until(&guest, first, "Closed").await;
        Apart { site, broker, guest: running }.stop().await;
    });
}

#[test]
fn a_guest_finds_the_site_of_its_ticket_and_is_let_in_by_it() {
    let (folder, plans) = (tempfile::tempdir().unwrap(), Plans::default());
    let folder = folder.path();
    block_on(&actix::System::new(), async {
        let anywhere = Some(ANYWHERE.parse().unwrap());
        let of_broker = &[Role::Broker][..];
        let site = knowing((folder, &plans), Role::SiteAuthority, anywhere, (of_broker, &[])).await;
        let at_site = (Role::SiteAuthority, address(&site));
        let broker = alone((folder, &plans), Role::Broker, anywhere, &[at_site]).await;
        let at_broker = [(Role::Broker, address(&broker))];
        let start = async || {
            knowing((folder, &plans), Role::ServiceManager, None, (of_broker, &at_broker)).await
        };
        let running = start().await;
        stocked(&of(&broker, Role::Broker)).await;
        let guest = of(&running, Role::ServiceManager);
        let asked = guest.command(GuestCommand::Ask(ask(2, now(), Span::HOUR))).await.unwrap();
        let lease = asked.lease().unwrap();
        until(&guest, lease, "Active").await;
        let strangers = || site.network().unwrap().connections().filter(|c| c.role.is_none());
        assert_eq!(strangers().count(), 1, "the guest");
        running.stop().await.unwrap();
        let gone = || strangers().all(|line| !line.standing.connected);
        eventually_async(DEADLINE, "a guest that has gone", async || gone()).await;
        // Its lease runs: it dials by itself, so that its site can reach it.
        let running = start().await;
        let back = || strangers().any(|line| line.standing.connected);
        eventually_async(DEADLINE, "a guest that is back", async || back()).await;
        let guest = of(&running, Role::ServiceManager);
        guest.command(GuestCommand::Close { lease }).await.unwrap();
        until(&guest, lease, "Closed").await;
        Apart { site, broker, guest: running }.stop().await;
    });
}

#[test]
fn actors_of_one_process_need_no_connection_with_each_other() {
    let folder = tempfile::tempdir().unwrap();
    block_on(&actix::System::new(), async {
        let plans = Plans::default();
        let start = async || {
            let actors = (0..).zip(ROLES).map(|(index, (name, role))| {
                let signer = signer(&plans, index);
                LocalActor { name: Name::literal(name), role, signer }
            });
            let listen = Some(Listen::At(ANYWHERE.parse().expect("an address")));
            let settings =
                NetworkSettings { listen, actors: actors.collect(), ..Default::default() };
            let deployment = Deployment {
                parts: parts(folder.path(), &plans),
                clock: Arc::new(WallClock::new()),
                threads: NonZeroUsize::MIN,
                limits: plans.limits,
                network: Some(settings),
            };
            deployment.start().await.expect("it starts")
        };
        let running = start().await;
        stocked(&of(&running, Role::Broker)).await;
        let guest = of(&running, Role::ServiceManager);
        let asked = guest.command(GuestCommand::Ask(ask(2, now(), Span::HOUR))).await.unwrap();
        let lease = asked.lease().unwrap();
        until(&guest, lease, "Active").await;
        running.stop().await.unwrap();
        // The guest holds a ticket when it starts, its site being here.
        let running = start().await;
        let guest = of(&running, Role::ServiceManager);
        guest.command(GuestCommand::Close { lease }).await.unwrap();
        until(&guest, lease, "Closed").await;
        assert_eq!(running.network().unwrap().connections().count(), 0);
        running.stop().await.unwrap();
    });
}

#[test]
fn both_sides_may_dial_at_once() {
    let (folder, plans) = (tempfile::tempdir().unwrap(), Plans::default());
    block_on(&actix::System::new(), async {
        let anywhere = Some(ANYWHERE.parse().unwrap());
        let site = alone((folder.path(), &plans), Role::SiteAuthority, anywhere, &[]).await;
        let at_site = address(&site);
        let broker = alone(
            (folder.path(), &plans),
            Role::Broker,
            anywhere,
            &[(Role::SiteAuthority, at_site)],
        )
        .await;
        let at_broker = (Role::Broker, address(&broker));
        site.stop().await.unwrap();
        // From now on each dials the other.
        let site =
            alone((folder.path(), &plans), Role::SiteAuthority, Some(at_site), &[at_broker]).await;
        let connected = || {
            [&site, &broker].into_iter().all(|running| {
                running.network().unwrap().connections().any(|line| line.standing.connected)
            })
        };
        eventually_async(DEADLINE, "a connection", async || connected()).await;
        stocked(&of(&broker, Role::Broker)).await;
        let addresses = [at_broker, (Role::SiteAuthority, at_site)];
        let guest = alone((folder.path(), &plans), Role::ServiceManager, None, &addresses).await;
        let apart = Apart { site, broker, guest };
        let guest = of(&apart.guest, Role::ServiceManager);
        let asked = guest.command(GuestCommand::Ask(ask(2, now(), Span::HOUR))).await.unwrap();
        until(&guest, asked.lease().unwrap(), "Active").await;
        apart.stop().await;
    });
}

/// The only one who knows better dials out, and comes when the site has long gone on.
/// A site whose journal is put back from an older copy, and is told so by a guest that comes later.
async fn found_out(folder: &Path, way: impl AsyncFnOnce(SocketAddr) -> SocketAddr) {
    let plans = Plans::default();
    let (journal, copy) = (folder.join("site.journal"), folder.join("copy"));
    let first = Apart::start(folder).await;
    first.stop().await;
    std::fs::copy(&journal, &copy).expect("a copy");
    let Apart { site, broker, guest: running } = Apart::start(folder).await;
    let guest = of(&running, Role::ServiceManager);
    let asked = guest.command(GuestCommand::Ask(ask(2, now(), Span::HOUR))).await.expect("asked");
    until(&guest, asked.lease().expect("a lease"), "Active").await;
    let at_broker = (Role::Broker, address(&broker));
    Apart { site, broker, guest: running }.stop().await;
    std::fs::copy(&copy, &journal).expect("a journal");
    let anywhere = Some(ANYWHERE.parse().expect("an address"));
    let mut site = alone((folder, &plans), Role::SiteAuthority, anywhere, &[]).await;
    // It has not waited: it carries out commands.
    let unit = UnitId(0);
    let drain = SiteCommand::Drain { unit, by: None };
    of(&site, Role::SiteAuthority).command(drain).await.expect("drained");
    let addresses = [(Role::SiteAuthority, way(address(&site)).await), at_broker];
    let guest = alone((folder, &plans), Role::ServiceManager, None, &addresses).await;
    let down = site.down().await;
    assert!(matches!(down.cause, HostFailure::RolledBack { .. }), "{down}");
    guest.stop().await.expect("it stops");
    site.stop().await.expect("it stops");
}

#[test]
fn an_older_copy_of_a_journal_is_found_out_by_a_peer_that_comes_later() {
    let folder = tempfile::tempdir().unwrap();
    block_on(&actix::System::new(), found_out(folder.path(), async |site| site));
}

#[test]
fn a_question_that_is_lost_with_its_connection_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    block_on(&actix::System::new(), found_out(folder.path(), losing_first_answers));
}

/// A relay that loses what is answered on the first connection after the handshake, and breaks it.
async fn losing_first_answers(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(ANYWHERE).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    actix::spawn(relay(listener, to));
    address
}

async fn relay(listener: TcpListener, to: SocketAddr) -> io::Result<()> {
    let (dialled, _) = listener.accept().await?;
    lose_answers(dialled, TcpStream::connect(to).await?).await?;
    loop {
        let (mut dialled, _) = listener.accept().await?;
        let mut there = TcpStream::connect(to).await?;
        actix::spawn(async move { copy_bidirectional(&mut dialled, &mut there).await });
    }
}

/// Until nothing has been answered for a while, after the handshake.
async fn lose_answers(mut dialled: TcpStream, mut there: TcpStream) -> io::Result<()> {
    const QUIET: Duration = Duration::from_millis(500);
    let (mut asks, mut answers) = ([0; 1 << 14], [0; 1 << 14]);
    let (mut begun, mut loses, mut lost) = (false, false, false);
    loop {
        let next = async {
            tokio::select! {
                asked = dialled.read(&mut asks) => (true, asked),
                answered = there.read(&mut answers) => (false, answered),
            }
        };
        let Ok((asked, count)) = timeout(QUIET, next).await else {
            if lost {
                return Ok(());
            }
            continue;
        };
        let count = count?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if asked {
            loses = begun;
            there.write_all(&asks[..count]).await?;
        } else {
            (begun, lost) = (true, loses);
            if !loses {
                dialled.write_all(&answers[..count]).await?;
            }
        }
    }
}
