//! The actors of other processes, and how they are reached.

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::model::name::Name;

use super::server::{ApiResult, AppState};
use super::view::time;
use super::{ApiError, Code};
use crate::net::Connection;

/// An actor of another process, as an actor of this one knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerView {
    /// What it is called here; its id, if neither a configuration nor its card names it.
    pub peer: String,
    /// The actor of this process.
    pub of: String,
    /// Its role, if it is known by more than a ticket.
    #[serde(default)]
    pub role: Option<Role>,
    /// Its id.
    pub id: String,
    /// `configuration`, or `ticket`: of a site that is found by its card, or of the holder of a ticket.
    pub known_by: String,
    /// Where it is dialled; null if it dials.
    #[serde(default)]
    pub address: Option<String>,
    /// Whether there is a connection.
    pub connected: bool,
    /// Since when there is one or none; null if there never was one.
    #[serde(default)]
    pub since: Option<String>,
    /// How many connections there were.
    pub connections: u64,
    /// Why there is none, if that is known.
    #[serde(default)]
    pub error: Option<String>,
}

impl AppState {
    /// How actors elsewhere are reached: all of them, or those of a name.
    pub(super) fn peers(&self, peer: Option<&Name>) -> ApiResult<Vec<PeerView>> {
        let connections = self.network().into_iter().flat_map(|network| network.connections());
        let mut peers: Vec<PeerView> = connections.map(|one| self.peer(one)).collect();
        peers.sort_by(|a, b| (&a.of, &a.peer).cmp(&(&b.of, &b.peer)));
        let Some(name) = peer.map(Name::as_str) else { return Ok(peers) };
        let (named, others): (Vec<_>, Vec<_>) = peers.into_iter().partition(|p| p.peer == name);
        if named.is_empty() {
            let help = tenure_config::suggestion(name, others.iter().map(|p| p.peer.as_str()));
            return Err(ApiError::new(Code::NoSuch, format!("no peer `{name}`")).help(help));
        }
        Ok(named)
    }

    fn peer(&self, connection: Connection) -> PeerView {
        let Connection { here, there, role, address, standing } = connection;
        let known_by = if role.is_some() { "configuration" } else { "ticket" };
        PeerView {
            peer: self.name(there),
            of: self.name(here),
            role,
            id: there.to_hex(),
            known_by: known_by.to_owned(),
            address,
            connected: standing.connected,
            since: standing.since.map(time),
            connections: standing.connections,
            error: standing.error,
        }
    }
}
