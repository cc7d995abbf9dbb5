//! `fcfs`: first come, first served, extensions before new requests (the default broker of Irwin et al.).

use serde::Deserialize;

use super::place::{Draft, Placement};
use crate::broker::mapper::{BrokerMapper, Choice, Decision, Verdict, View};
use crate::wire::message::Request;

/// Serves requests in the order they came; each is met as early as it allows, or refused at once.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Fcfs {
    placement: Placement,
}

impl BrokerMapper for Fcfs {
    fn decide(&self, view: &View) -> Decision {
        serve(view, view.open_requests().collect(), self.placement)
    }
}

/// Whether a request keeps a lease going.
pub(super) fn extends(request: &Request) -> bool {
    request.items.iter().any(|item| item.extends.is_some())
}

/// Decides on all requests in the order given, but on extensions first: who is there stays.
pub(super) fn serve(view: &View, mut requests: Vec<&Request>, placement: Placement) -> Decision {
    requests.sort_by_key(|request| !extends(request));
    let mut draft = Draft::new(view);
    let choices = requests
        .into_iter()
        .map(|request| {
            let cut_from =
                |item: &crate::wire::message::Item| Some(view.grant(item.extends?)?.account);
            let (verdict, reason) =
                match draft.meet(request, view.first_start(request), placement, cut_from) {
                    Ok((term, parts)) => {
                        let sources = parts.iter().map(Vec::len).sum::<usize>();
                        let reason = format!("free from {} on {sources} sources", term.start());
                        (Verdict::Grant { term, parts }, reason)
                    }
                    Err(refusal) => {
                        let reason = refusal.to_string();
                        (Verdict::Refuse(refusal), reason)
                    }
                };
            Choice { request: request.id, verdict, reason }
        })
        .collect();
    Decision { round: view.round(), choices, ..Decision::default() }
}
