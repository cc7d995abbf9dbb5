//! What brokers do for each other, as it is written: what they share, and which requests they pass on and take.

use std::collections::BTreeMap;

use serde::Deserialize;
use tenure_core::broker::forwarding::{Accepted, Neighbour, Reach, Search};
use tenure_core::broker::portions::{HOLD, LONGEST_HOLD};
use tenure_core::broker::sharing::Sharing;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use toml::Spanned;

use super::{ConfigError, RawSharing, Sources, known_broker};

/// How often a broker advertises what it has, unless it is set.
const ADVERTISED: Span = Span::from_secs(5);

/// What a broker has to do with another one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawBrokerPeer {
    /// What it lends to it.
    pub share: Option<RawSharing>,
    /// Whether it passes requests on to it.
    #[serde(default)]
    pub forward: bool,
    /// Which requests of it it takes.
    pub accept: Option<RawAccepted>,
}

/// What a broker does with units that are lent to it while their lender is not heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnSilence {
    /// It sells them: signed rights stay valid.
    #[default]
    Sell,
    /// It sells none of them until it hears from the lender.
    Pause,
}

/// How far requests are passed on.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawReach {
    hops: Option<Spanned<u8>>,
    asks: Option<Spanned<u16>>,
    #[serde(default)]
    search: RawSearch,
    hold: Option<Spanned<Span>>,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawSearch {
    #[default]
    Hints,
    DepthFirst,
    /// As by hints, direct neighbours alone.
    OneHop,
}

impl RawReach {
    /// In which order brokers are asked.
    pub fn search(&self) -> Search {
        match self.search {
            RawSearch::Hints | RawSearch::OneHop => Search::Hints,
            RawSearch::DepthFirst => Search::DepthFirst,
        }
    }

    /// How long others hold portions of a request that is gathered.
    ///
    /// # Errors
    /// A length out of its bounds.
    pub fn hold(&self, sources: &Sources<'_>) -> Result<Span, ConfigError> {
        let given = within("hold", self.hold.as_ref(), LONGEST_HOLD, sources)?;
        Ok(given.unwrap_or(HOLD))
    }

    /// How far, within the bounds.
    ///
    /// # Errors
    /// A bound that is exceeded.
    pub fn reach(&self, sources: &Sources<'_>) -> Result<Reach, ConfigError> {
        let usual = match self.search {
            RawSearch::OneHop => Reach { hops: 1, ..Reach::default() },
            RawSearch::Hints | RawSearch::DepthFirst => Reach::default(),
        };
        if let Some(hops) = self.hops.as_ref().filter(|hops| *hops.get_ref() > usual.hops)
            && self.search == RawSearch::OneHop
        {
            let cause = "`hops` is at most 1 with `search = \"one-hop\"`".to_owned();
            return Err(sources.error(hops.span(), cause, None));
        }
        let reach = Reach {
            hops: self.hops.as_ref().map_or(usual.hops, |hops| *hops.get_ref()),
            asks: self.asks.as_ref().map_or(usual.asks, |asks| *asks.get_ref()),
        };
        let hops = self.hops.iter().map(Spanned::span);
        let spans = hops.chain(self.asks.iter().map(Spanned::span));
        match (reach.check(), spans.last()) {
            (Err(cause), Some(span)) => Err(sources.error(span, cause, None)),
            (Err(_), None) | (Ok(()), _) => Ok(reach),
        }
    }
}

/// How often a broker advertises what it has: others wait for it no longer than a day.
///
/// # Errors
/// A period out of its bounds.
pub fn advertise(
    given: Option<&Spanned<Span>>,
    sources: &Sources<'_>,
) -> Result<Span, ConfigError> {
    Ok(within("advertise", given, Span::HOUR, sources)?.unwrap_or(ADVERTISED))
}

/// A length of a second at least, if one is given.
fn within(
    key: &str,
    given: Option<&Spanned<Span>>,
    most: Span,
    sources: &Sources<'_>,
) -> Result<Option<Span>, ConfigError> {
    let Some(given) = given else { return Ok(None) };
    let length = *given.get_ref();
    if (Span::SECOND..=most).contains(&length) {
        return Ok(Some(length));
    }
    let help = format!("write a length from \"1s\" to \"{most}\"");
    Err(sources.error(given.span(), format!("`{key}` must not be {length}"), help))
}

/// What a broker does for others, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerPeers {
    /// What it lends.
    pub sharings: BTreeMap<Name, Sharing>,
    /// Which requests it passes on and takes.
    pub neighbours: BTreeMap<Name, Neighbour>,
}

/// What a broker does for others, which are all `known`.
///
/// # Errors
/// A name that none of them has.
pub fn broker_peers<'a>(
    given: BTreeMap<Spanned<Name>, RawBrokerPeer>,
    known: impl Iterator<Item = &'a Name> + Clone,
    sources: &Sources<'_>,
) -> Result<BrokerPeers, ConfigError> {
    let mut peers = BrokerPeers::default();
    for (other, peer) in given {
        known_broker(&other, known.clone(), sources)?;
        let other = other.into_inner();
        if let Some(RawSharing(sharing)) = peer.share {
            peers.sharings.insert(other.clone(), sharing);
        }
        let accept = peer.accept.and_then(RawAccepted::accepted);
        let neighbour = Neighbour { forward: peer.forward, accept };
        if neighbour != Neighbour::default() {
            peers.neighbours.insert(other, neighbour);
        }
    }
    Ok(peers)
}

/// Which requests that another broker passes on are taken: `true` for all, `false` for none, or a table such as `{ types = ["node"], longest = "2h" }`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "`true`, `false`, or a table of `types` and `longest`")]
pub enum RawAccepted {
    /// All or none.
    Whether(bool),
    /// Some.
    Some {
        /// For units of these types alone.
        #[serde(default)]
        types: Vec<Name>,
        /// For terms no longer than this.
        longest: Option<Span>,
    },
}

impl RawAccepted {
    /// What is taken, if anything is.
    pub fn accepted(self) -> Option<Accepted> {
        match self {
            Self::Whether(whether) => whether.then(Accepted::default),
            Self::Some { types, longest } => {
                Some(Accepted { types: types.into_iter().collect(), longest })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        accept: RawAccepted,
    }

    fn read(text: &str) -> Result<Option<Accepted>, String> {
        let file: Result<File, _> = toml::from_str(text);
        file.map(|file| file.accept.accepted()).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn what_is_taken_is_all_nothing_or_some() {
        assert_eq!(read("accept = true"), Ok(Some(Accepted::default())));
        assert_eq!(read("accept = false"), Ok(None));
        let some =
            Accepted { types: [Name::literal("node")].into(), longest: Some(Span::HOUR.times(2)) };
        assert_eq!(read("accept = { types = ['node'], longest = '2h' }"), Ok(Some(some)));
        assert!(read("accept = 'all'").unwrap_err().contains("`true`, `false`, or a table"));
    }
}
