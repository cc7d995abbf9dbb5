//! `tenure peer ...`

use clap::Subcommand;
use tenure_core::model::name::Name;
use tenure_node::api::{PeerView, Request};

use super::args::Endpoint;
use super::{ask, print};
use crate::Console;
use crate::error::Error;

#[derive(Debug, Subcommand)]
pub(crate) enum PeerCommand {
    /// List the actors of other processes, and how they are reached
    List {
        #[command(flatten)]
        endpoint: Endpoint,
    },
    /// Show an actor of another process
    Show {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The actor
        peer: Name,
    },
}

impl print::Row for PeerView {
    const COLUMNS: &'static [&'static str] =
        &["peer", "of", "role", "id", "known by", "address", "connected", "since", "why not"];

    fn cells(&self) -> Vec<String> {
        let dash = || "-".to_owned();
        vec![
            self.peer.chars().take(24).collect(),
            self.of.clone(),
            self.role.map_or_else(dash, |role| role.word().to_owned()),
            self.id.chars().take(10).collect(),
            self.known_by.clone(),
            self.address.clone().unwrap_or_else(dash),
            if self.connected { "yes" } else { "no" }.to_owned(),
            self.since.clone().unwrap_or_else(dash),
            self.error.clone().unwrap_or_default(),
        ]
    }
}

/// The actors elsewhere.
pub(crate) fn peer(command: &PeerCommand, console: &mut Console<'_>) -> Result<(), Error> {
    let (endpoint, peer) = match command {
        PeerCommand::List { endpoint } => (endpoint, None),
        PeerCommand::Show { endpoint, peer } => (endpoint, Some(peer.clone())),
    };
    let peers: Vec<PeerView> = ask(&endpoint.data, &Request::Peers { peer })?;
    print::all(&peers, &peers, endpoint.output, "no actors of other processes", console)
}
