//! `tenure keys ...`

use clap::Subcommand;
use serde::Serialize;
use tenure_core::model::name::Name;
use tenure_node::api::{KeyView, KeysView, Request};
use tenure_node::config;

use super::args::{Change, Endpoint};
use super::{ask, ask_change, print};
use crate::Console;
use crate::error::Error;

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make the first key of an actor before it is started, and show its id
    New {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The actor
        actor: Name,
    },
    /// Show the keys of actors: which is in force, which were replaced or revoked
    Show {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The actor [default: all]
        actor: Option<Name>,
    },
    /// Replace the key of an actor; what the earlier one signed stays valid
    #[command(after_help = ROTATED)]
    Rotate {
        #[command(flatten)]
        endpoint: Change,
        /// The actor
        actor: Name,
    },
    /// Declare a replaced key void; only what its actor knows to have signed with it stays valid
    #[command(after_help = REVOKED)]
    Revoke {
        #[command(flatten)]
        endpoint: Change,
        /// The actor
        actor: Name,
        /// The number of the key, as `tenure keys show` has it
        number: u32,
    },
}

const ROTATED: &str = "\
The new secret is stored in the data folder first, as keys/ACTOR.2, keys/ACTOR.3, …; keep all of them.

Examples:
  tenure keys rotate exchange
  tenure keys show exchange";

const REVOKED: &str = "\
The key in force cannot be revoked: replace it first.

Examples:
  tenure keys rotate exchange
  tenure keys revoke exchange 1";

/// A key of an actor, as a line.
#[derive(Serialize)]
struct KeyLine {
    actor: String,
    #[serde(flatten)]
    key: KeyView,
    not_noted_by: Vec<String>,
}

impl print::Row for KeyLine {
    const COLUMNS: &'static [&'static str] =
        &["actor", "number", "key", "state", "since", "honoured", "not noted by"];

    fn cells(&self) -> Vec<String> {
        let KeyView { number, key, state, since, honoured } = &self.key;
        let dash = || "-".to_owned();
        vec![
            self.actor.clone(),
            number.to_string(),
            key.chars().take(10).collect(),
            state.clone(),
            since.clone().unwrap_or_else(dash),
            honoured.map_or_else(dash, |honoured| honoured.to_string()),
            if self.not_noted_by.is_empty() { dash() } else { self.not_noted_by.join(", ") },
        ]
    }
}

fn lines(view: &KeysView) -> impl Iterator<Item = KeyLine> {
    view.keys.iter().map(|key| KeyLine {
        actor: view.actor.clone(),
        key: key.clone(),
        not_noted_by: if key.state == "in-force" { view.not_noted_by.clone() } else { Vec::new() },
    })
}

/// What became of the keys.
pub(crate) fn keys(command: &KeysCommand, console: &mut Console<'_>) -> Result<(), Error> {
    let (views, output): (Vec<KeysView>, _) = match command {
        KeysCommand::New { endpoint, actor } => {
            let made = config::new_key(&endpoint.data, actor);
            let key = made.map_err(|error| Error::Wrong(error.to_string()))?;
            (vec![KeysView::first(actor, &key)], endpoint.output)
        }
        KeysCommand::Show { endpoint, actor } => {
            (ask(&endpoint.data, &Request::Keys { actor: actor.clone() })?, endpoint.output)
        }
        KeysCommand::Rotate { endpoint, actor } => {
            (ask_change(endpoint, &Request::RotateKey { actor: actor.clone() })?, endpoint.output)
        }
        KeysCommand::Revoke { endpoint, actor, number } => {
            let request = Request::RevokeKey { actor: actor.clone(), number: *number };
            (ask_change(endpoint, &request)?, endpoint.output)
        }
    };
    let rows: Vec<KeyLine> = views.iter().flat_map(lines).collect();
    print::all(&views, &rows, output, "no keys", console)
}
