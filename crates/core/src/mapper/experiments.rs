//! `experiments`: compute at several sites with bandwidth between them, each experiment a request of its own.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::actor::fact::Memo;
use crate::model::codec;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::time::{Span, Time};
use crate::service_manager::group::Handling;
use crate::service_manager::mapper::{Ask, Decision, ServiceManagerMapper, View};
use crate::wire::offer::Reply;
use crate::wire::proviso::Provisos;
use crate::wire::request::{Item, Joins, MAX_ITEMS, Relation};

/// Asks for each experiment when it is submitted: units at so many different sites, and links between them. An
/// emulation fills in the requests of a generated workload. What was asked for is remembered in the memo, so nothing
/// is asked for twice.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", try_from = "Settings")]
pub struct Experiments(Settings);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    #[serde(default)]
    requests: Vec<Experiment>,
    /// The type of the units at sites.
    #[serde(default = "super::node")]
    resource: Name,
    /// What its links call what they take of edges.
    #[serde(default = "bandwidth")]
    link: Name,
    #[serde(default = "super::main_slice")]
    slice: Name,
}

/// What is asked for at once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Experiment {
    /// When it is submitted, from the origin of the clock.
    at: Time,
    /// The first start that suits.
    earliest: Time,
    /// The last one.
    latest: Time,
    #[serde(deserialize_with = "super::lasting")]
    run: Span,
    /// How many units at each site.
    sites: Vec<NonZeroU32>,
    /// Two of `sites`, counted from 0, and how much is asked for between them.
    #[serde(default)]
    links: Vec<(u16, u16, NonZeroU32)>,
    /// For the broker's mapper.
    #[serde(default)]
    properties: Properties,
}

/// A request that makes no sense.
#[derive(Clone, Copy, Debug, Error)]
#[error("request {number} {what}")]
struct BadExperiment {
    /// Its place among the requests, counted from 1.
    number: usize,
    what: &'static str,
}

impl TryFrom<Settings> for Experiments {
    type Error = BadExperiment;

    fn try_from(mut settings: Settings) -> Result<Self, BadExperiment> {
        for (number, experiment) in (1..).zip(&settings.requests) {
            experiment.check().map_err(|what| BadExperiment { number, what })?;
        }
        settings.requests.sort_by_key(|experiment| experiment.at);
        Ok(Self(settings))
    }
}

impl Experiment {
    fn check(&self) -> Result<(), &'static str> {
        let sites = self.sites.len();
        let is_site = |place: u16| usize::from(place) < sites;
        if sites == 0 {
            Err("asks for units at no site")
        } else if sites + self.links.len() > MAX_ITEMS {
            Err("has more than 64 sites and links")
        } else if self.latest < self.earliest {
            Err("has its latest start before its earliest")
        } else if self.links.iter().any(|&(from, to, _)| !is_site(from) || !is_site(to)) {
            Err("has a link to a site that is not in its list; they are counted from 0")
        } else if self.links.iter().any(|(from, to, _)| from == to) {
            Err("has a link from a site to itself")
        } else {
            Ok(())
        }
    }
}

/// How many experiments were asked for.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Submitted(usize);

impl Experiments {
    fn ask(&self, experiment: &Experiment) -> Ask {
        let Settings { resource, link, slice, .. } = &self.0;
        let site = |units: &NonZeroU32| {
            // Also of a single one: it is met at one site.
            let relation = Relation::Apart(0);
            Item { relation, ..Item::new(resource.clone(), *units) }
        };
        let between = |&(from, to, units): &(u16, u16, NonZeroU32)| {
            let joins = Joins { ends: [from, to], latency: None, hops: None };
            Item { relation: Relation::Joins(joins), ..Item::new(link.clone(), units) }
        };
        let sites = experiment.sites.iter().map(site);
        Ask {
            broker: None,
            slice: slice.clone(),
            items: sites.chain(experiment.links.iter().map(between)).collect(),
            earliest: experiment.earliest,
            latest: experiment.latest,
            duration: experiment.run,
            min_duration: experiment.run,
            provisos: Provisos::NONE,
            again: None,
            reply: Reply::Grant,
            answer_by: experiment.latest,
            properties: experiment.properties.clone(),
            configuration: Properties::default(),
            reason: "submitted".to_owned(),
            handling: Handling::default(),
        }
    }
}

impl ServiceManagerMapper for Experiments {
    fn decide(&self, view: &View) -> Decision {
        let Submitted(before) = codec::decode(&view.memo().0).unwrap_or_default();
        let to_come = self.0.requests.get(before..).unwrap_or_default();
        let due = to_come.iter().take_while(|experiment| experiment.at <= view.now()).count();
        Decision {
            round: view.round(),
            asks: to_come[..due].iter().map(|experiment| self.ask(experiment)).collect(),
            memo: Some(Memo(codec::encode(&Submitted(before + due)))),
            wake: to_come.get(due).map(|experiment| experiment.at),
            ..Decision::default()
        }
    }
}

/// What the edges of a network carry.
fn bandwidth() -> Name {
    Name::literal("bandwidth")
}
