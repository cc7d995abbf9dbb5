//! `fcfs`: first come, first served, extensions before new requests (the default broker of Irwin et al.).

use serde::Deserialize;

use super::place::{Draft, Placement};
use crate::broker::mapper::{BrokerMapper, Choice, Decision, Verdict, View};
use crate::wire::message::{Item, Request};
use crate::wire::offer::{Reply, Waiting};
use crate::wire::refusal::{Outlook, Refusal};

/// Serves requests in the order they came; each is met as early as it allows, or refused at once.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Fcfs {
    placement: Placement,
    /// Whether a request that cannot be met now stays open as long as its window allows.
    queue: bool,
}

impl Fcfs {
    /// The same, but requests that cannot be met now wait.
    pub fn with_queue(self) -> Self {
        Self { queue: true, ..self }
    }
}

impl BrokerMapper for Fcfs {
    fn decide(&self, view: &View) -> Decision {
        serve(view, view.open_requests().collect(), self.placement, self.queue)
    }
}

/// Whether a request keeps a lease going.
pub(super) fn extends(request: &Request) -> bool {
    request.items.iter().any(|item| item.extends.is_some())
}

/// Decides on all requests in the order given, but on extensions first: who is there stays. With `queue`
/// a request that is not met yet waits, and those behind it are served if there is room for them.
pub(super) fn serve(
    view: &View,
    mut requests: Vec<&Request>,
    placement: Placement,
    queue: bool,
) -> Decision {
    requests.sort_by_key(|request| !extends(request));
    let mut round = Round { view, draft: Draft::new(view), placement, queue, waiting: 0 };
    let choices = requests.into_iter().map(|request| round.choose(request)).collect();
    Decision { round: view.round(), choices, ..Decision::default() }
}

struct Round<'a> {
    view: &'a View,
    draft: Draft<'a>,
    placement: Placement,
    queue: bool,
    /// How many requests wait.
    waiting: u32,
}

impl Round<'_> {
    fn choose(&mut self, request: &Request) -> Choice {
        let (verdict, reason) = match request.reply {
            Reply::Grant => self.grant(request),
            Reply::Plan => self.offer(request, false),
            Reply::Hold(_) => self.offer(request, true),
        };
        Choice { request: request.id, verdict, reason }
    }

    fn grant(&mut self, request: &Request) -> (Verdict, String) {
        let (from, placement) = (self.view.first_start(request), self.placement);
        let cut_from = |item: &Item| Some(self.view.grant(item.extends?)?.account);
        match self.draft.meet(request, from, placement, cut_from) {
            Ok(met) => {
                let sources = met.parts.iter().map(Vec::len).sum::<usize>();
                let reason = format!("free from {} on {sources} sources", met.term.start());
                (Verdict::Grant(met), reason)
            }
            Err(refusal) if self.may_wait(request, &refusal) => {
                self.waiting += 1;
                let expected =
                    if let Refusal::Busy { earliest, .. } = refusal { earliest } else { None };
                let reason = refusal.to_string();
                let waiting = Waiting { place: self.waiting, expected, reason: reason.clone() };
                (Verdict::Wait(waiting), reason)
            }
            Err(refusal) => {
                let reason = refusal.to_string();
                let offers = match refusal.outlook() {
                    Outlook::Later => self.draft.near(request, from, placement, false),
                    Outlook::Never | Outlook::Denied => Vec::new(),
                };
                (Verdict::Refuse { refusal, offers }, reason)
            }
        }
    }

    /// Whether a request that cannot be met now stays in the queue: an extension does not, since its lease
    /// has to know.
    fn may_wait(&self, request: &Request, refusal: &Refusal) -> bool {
        self.queue
            && !extends(request)
            && refusal.outlook() == Outlook::Later
            && self.view.now() < request.latest
    }

    fn offer(&mut self, request: &Request, hold: bool) -> (Verdict, String) {
        let from = self.view.first_start(request);
        match self.draft.offers(request, from, self.placement, hold) {
            (offers, Some(refusal)) if offers.is_empty() => {
                let reason = refusal.to_string();
                (Verdict::Refuse { refusal, offers }, reason)
            }
            (offers, refusal) => {
                let reason = format!("{} ways", offers.len());
                (Verdict::Offer { offers, refusal }, reason)
            }
        }
    }
}
