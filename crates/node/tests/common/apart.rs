//! Deployments of one actor each, which reach each other by TLS.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_node::clock::WallClock;
use tenure_node::deployment::{Deployment, Running};
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
    (folder, plans): (&Path, &Plans),
    role: Role,
    listen: Option<SocketAddr>,
    (known, addresses): (&[Role], &[(Role, SocketAddr)]),
) -> Running {
    let index = |role| ROLES.iter().position(|(_, other)| *other == role).expect("a role");
    let own = |role| signer(plans, u8::try_from(index(role)).expect("one of three"));
    let remotes = ROLES.iter().filter(|(_, other)| *other != role).map(|&(name, other)| Remote {
        id: own(other).id(),
        name: Name::literal(name),
        role: other,
        address: addresses.iter().find(|(of, _)| *of == other).map(|(_, at)| at.to_string()),
    });
    let remotes = remotes.filter(|remote| known.contains(&remote.role)).collect();
    let name = Name::literal(ROLES[index(role)].0);
    let actors = vec![LocalActor { name, role, signer: own(role) }];
    let listen = listen.map(Listen::At);
    let network = NetworkSettings { listen, public: None, actors, remotes };
    let deployment = Deployment {
        parts: vec![parts(folder, plans).remove(index(role))],
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
