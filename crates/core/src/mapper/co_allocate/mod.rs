//! `co-allocate`: compute at several sites with bandwidth between them, all of it at once (Takefusa et al., 2009).

mod choosing;
mod network;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::Deserialize;
use tenure_plan::Settings;

use self::choosing::Planner;
use super::place::Placement;
use super::queue::{Queue, Round, extends};
use crate::broker::mapper::{BrokerMapper, Decision, View};
use crate::model::resource::Expr;
use crate::wire::request::Item;

/// Plans requests with links, or with items apart from each other: for each of so many starts within the request's window,
/// the best choice of sites and paths, proven if the steps suffice; of these the one that is preferred. Each item of such a
/// request comes from one site. Other requests are served as by [`fcfs`](super::fcfs).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct CoAllocate {
    /// How many starts are planned for: equidistant, the earliest and the latest among them.
    frames: NonZeroU32,
    /// How many plans are looked at for each start.
    plans: NonZeroU32,
    /// Which plan is best, unless the request says so by the property `prefer`.
    prefer: Prefer,
    /// What a unit is worth at the sites that meet a condition; what is worth most is `best`.
    weights: BTreeMap<Expr, u32>,
    /// How much dearer a unit counts at a site, or on an edge, all of which is booked; in proportion where part of it is.
    balance: u32,
    /// How many percent of what is free requests see, by their property `level`. One that names no level of these sees
    /// as much as the lowest.
    levels: BTreeMap<String, u8>,
    /// The most edges on the path of a link that names no number.
    hops: Option<u8>,
    /// The most steps of the solver for each start.
    steps: u64,
    /// How units of requests that are not planned are spread over sites.
    placement: Placement,
    /// What becomes of requests that are not planned and cannot begin.
    queue: Queue,
}

/// Which of several plans is the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Prefer {
    /// The one that begins first, then the cheapest.
    #[default]
    Earliest,
    /// The cheapest, dearer by `balance` where much is booked; then the one that begins first.
    Cheapest,
    /// The one whose units are worth least less than the best by `weights`, then the one that begins first.
    Best,
}

impl Default for CoAllocate {
    fn default() -> Self {
        let ten = NonZeroU32::MIN.saturating_add(9);
        Self {
            frames: ten,
            plans: NonZeroU32::MIN,
            prefer: Prefer::default(),
            weights: BTreeMap::new(),
            balance: 0,
            levels: BTreeMap::new(),
            hops: None,
            steps: Settings::STEPS / 10,
            placement: Placement::default(),
            queue: Queue::default(),
        }
    }
}

impl BrokerMapper for CoAllocate {
    fn decide(&self, view: &View) -> Decision {
        let mut requests: Vec<_> = view.open_requests().collect();
        requests.sort_by_key(|request| !extends(request));
        let mut round = Round::new(view, self.placement, self.queue);
        let choices = requests.into_iter().map(|request| {
            if request.items.iter().any(at_one_site_each) {
                Planner::new(self, view, request).choose(&mut round)
            } else {
                round.choose(request)
            }
        });
        let choices = choices.collect();
        round.decision(choices)
    }
}

/// Whether an item is a link, or comes from one site that is to be chosen.
fn at_one_site_each(item: &Item) -> bool {
    item.joins().is_some() || item.apart().is_some()
}
