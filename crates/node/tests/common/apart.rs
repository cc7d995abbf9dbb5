//! Deployments of one actor each, which reach each other by TLS.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use tenure_core::actor::Role;
use tenure_node::clock::WallClock;
use tenure_node::deployment::{Deployment, Running};
use tenure_node::host::ActorInfo;
use tenure_node::net::{Listen, LocalActor, Network, NetworkSettings, Remote};

use super::{Plans, ROLES, parts, signer};

/// Where nobody else listens.
pub(crate) const ANYWHERE: &str = "127.0.0.1:0";

/// One of the three actors in a deployment of its own, with what it knows of the others' addresses.
pub(crate) async fn alone(
    around: (&Path, &Plans),
    role: Role,
    listen: Option<SocketAddr>,
    addresses: &[(Role, SocketAddr)],
) -> Running {
    let known = ROLES.map(|(_, role)| role);
    knowing(around, role, listen, (&known, addresses)).await
}

/// As [`alone`], of an actor that knows those of some roles only.
pub(crate) async fn knowing(
    around: (&Path, &Plans),
    role: Role,
    listen: Option<SocketAddr>,
    (known, addresses): (&[Role], &[(Role, SocketAddr)]),
) -> Running {
    let known: Vec<u8> = known.iter().map(|&role| place(role)).collect();
    let addresses: Vec<_> = addresses.iter().map(|&(role, at)| (place(role), at)).collect();
    at_place(around, place(role), listen, (&known, &addresses)).await
}

/// The place of the first actor of a role among all.
pub(crate) fn place(role: Role) -> u8 {
    let index = ROLES.iter().position(|(_, other)| *other == role).expect("a role");
    u8::try_from(index).expect("one of three")
}

/// As [`knowing`], with all actors by their places.
pub(crate) async fn at_place(
    (folder, plans): (&Path, &Plans),
    own: u8,
    listen: Option<SocketAddr>,
    (known, addresses): (&[u8], &[(u8, SocketAddr)]),
) -> Running {
    let mut parts = parts(folder, plans);
    let remote = |&other: &u8| {
        let ActorInfo { name, role, id } = parts[usize::from(other)].info.clone();
        let address = addresses.iter().find(|(of, _)| *of == other).map(|(_, at)| at.to_string());
        Remote { id, name, role, address }
    };
    let remotes = known.iter().filter(|other| **other != own).map(remote).collect();
    let part = parts.swap_remove(usize::from(own));
    let (name, role, signer) = (part.info.name.clone(), part.info.role, signer(plans, own));
    let actors = vec![LocalActor { name, role, signer }];
    let listen = listen.map(Listen::At);
    let network = NetworkSettings { listen, actors, remotes, ..Default::default() };
    let deployment = Deployment {
        parts: vec![part],
        clock: Arc::new(WallClock::new()),
        threads: NonZeroUsize::MIN,
        limits: plans.limits,
        network: Some(network),
    };
    deployment.start().await.expect("it starts")
}

/// Where a deployment listens.
pub(crate) fn address(running: &Running) -> SocketAddr {
    running.network().and_then(Network::address).expect("it listens")
}
