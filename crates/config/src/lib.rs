//! Configuration: TOML files, overrides of a command line, and errors that say where they are.
//!
//! A file is read into typed tables by serde. Every value keeps its place, so that anyone who checks it
//! later can still point at it; an option of the command line is a place too.

mod document;
mod each;
mod error;
mod plugin;
mod profile;
mod forwarding;
mod sharing;
mod stacks;
mod stock;
mod value;

use std::str::FromStr;

use thiserror::Error;

pub use document::{Files, RawPoint, Sources, points, points_of, read, text_of_first};
pub use each::{EACH, by_actor};
pub use error::{ConfigError, Place, in_plain_words, suggestion};
pub use forwarding::{
    BrokerPeers, OnSilence, RawAccepted, RawBrokerPeer, RawReach, advertise, broker_peers,
};
pub use plugin::{PluginSpec, RawPlugin, RawPlugins};
pub use profile::{Profile, Profiles, RawProfile, RawProfiles, profiles};
pub use sharing::{ALL, RawSharing};
pub use stock::{
    MAX_UNITS, NODE, RawAttributes, RawBrokers, RawStacks, RawStock, RawStocks, RawUnits, Stock,
    StockKind, StockReader, Wrong, even_shares, known_broker, named_brokers, plan,
};
pub use value::{BadAttribute, attributes};

/// The text of a file.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name of the file, for errors.
    pub name: &'a str,
    /// What is in it.
    pub text: &'a str,
}

/// A value that holds in the place of the one in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The dotted key.
    pub key: String,
    /// The value: TOML, or else plain text.
    pub value: String,
    /// The option of the command line that says so, for errors.
    pub option: String,
}

impl Override {
    /// The override that an option such as `--workload FILE` stands for. The value is text.
    pub fn text(key: &str, value: &str, option: &str) -> Self {
        let option = format!("{option} {value}");
        Self { key: key.to_owned(), value: toml::Value::from(value).to_string(), option }
    }
}

/// An override without a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` sets nothing: write `key=value`, for example `message.loss=0.1`")]
pub struct BadOverride(String);

impl FromStr for Override {
    type Err = BadOverride;

    /// Reads `key=value`.
    fn from_str(text: &str) -> Result<Self, BadOverride> {
        match text.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some((key, value)) if !key.is_empty() => Ok(Self {
                key: key.to_owned(),
                value: value.to_owned(),
                option: format!("--set {text}"),
            }),
            _ => Err(BadOverride(text.to_owned())),
        }
    }
}
