//! `priority`: the most urgent first, by a number that the request carries and by its age.

use std::cmp::Reverse;

use serde::Deserialize;

use super::place::Placement;
use super::queue::{Queue, serve};
use crate::broker::mapper::{BrokerMapper, Decision, View};
use crate::model::time::Span;
use crate::wire::request::Request;

/// Serves requests by falling priority, equal ones in the order they came. With `ageing` a request gains one
/// point each time it has waited that long, so that no stream of urgent requests keeps it out for ever.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Priority {
    placement: Placement,
    queue: Queue,
    /// The request property that holds the number; a request without it has priority 0.
    property: String,
    /// How long a request waits for one more point.
    #[serde(deserialize_with = "super::lasting_if_set")]
    ageing: Option<Span>,
}

impl Default for Priority {
    fn default() -> Self {
        Self {
            placement: Placement::default(),
            queue: Queue::default(),
            property: "priority".to_owned(),
            ageing: None,
        }
    }
}

impl Priority {
    /// How urgent a request is. Points are counted in microseconds of `ageing`, so that none is lost by
    /// rounding.
    fn urgency(&self, view: &View, request: &Request) -> i128 {
        let points = request.properties.get(&self.property).and_then(|text| text.parse().ok());
        let points = i128::from(points.unwrap_or(0_i64));
        match self.ageing {
            Some(ageing) => {
                let age = view.now().since(request.history.asked).as_micros().max(0);
                points * i128::from(ageing.as_micros()) + i128::from(age)
            }
            None => points,
        }
    }
}

impl BrokerMapper for Priority {
    fn decide(&self, view: &View) -> Decision {
        let mut requests: Vec<&Request> = view.open_requests().collect();
        requests.sort_by_cached_key(|request| Reverse(self.urgency(view, request)));
        serve(view, requests, self.placement, self.queue)
    }
}
