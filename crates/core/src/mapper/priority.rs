//! `priority`: the most urgent first, by a number that the request carries.

use serde::Deserialize;

use super::fcfs::serve;
use super::place::Placement;
use crate::broker::mapper::{BrokerMapper, Decision, View};
use crate::wire::message::Request;

/// Serves requests by falling priority, equal ones in the order they came.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Priority {
    placement: Placement,
    /// Whether a request that cannot be met now stays open as long as its window allows.
    queue: bool,
    /// The request property that holds the number; a request without it has priority 0.
    property: String,
}

impl Default for Priority {
    fn default() -> Self {
        Self { placement: Placement::default(), queue: false, property: "priority".to_owned() }
    }
}

impl BrokerMapper for Priority {
    fn decide(&self, view: &View) -> Decision {
        let priority = |request: &Request| -> i64 {
            request.properties.get(&self.property).and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        let mut requests: Vec<&Request> = view.open_requests().collect();
        requests.sort_by_key(|request| std::cmp::Reverse(priority(request)));
        serve(view, requests, self.placement, self.queue)
    }
}
