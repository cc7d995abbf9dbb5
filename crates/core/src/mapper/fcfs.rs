//! `fcfs`: first come, first served, extensions before new requests (the default broker of Irwin et al.).

use serde::Deserialize;

use super::place::Placement;
use super::queue::{Queue, serve};
use crate::broker::mapper::{BrokerMapper, Decision, View};

/// Serves requests in the order they came. A round costs a search of the calendars for each open request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Fcfs {
    placement: Placement,
    queue: Queue,
}

impl Fcfs {
    /// The same with another queue.
    pub fn with_queue(self, queue: Queue) -> Self {
        Self { queue, ..self }
    }
}

impl BrokerMapper for Fcfs {
    fn decide(&self, view: &View) -> Decision {
        serve(view, view.open_requests().collect(), self.placement, self.queue)
    }
}
