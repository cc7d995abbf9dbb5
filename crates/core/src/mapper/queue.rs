//! Serving requests in an order: what the brokers' mappers have in common.

use std::fmt;

use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::place::{Draft, Placement};
use crate::broker::mapper::{Allocation, Choice, Decision, Verdict, View};
use crate::model::time::Time;
use crate::wire::offer::{Reply, Waiting};
use crate::wire::refusal::{Outlook, Refusal};
use crate::wire::request::{Item, Request};

/// What becomes of a request that cannot begin at its earliest start. The first two book ahead: what has
/// its ticket keeps its term. The others decide again in each round, so that what comes back early is used,
/// and grant only what can begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// It is booked as early as its window allows, or refused at once.
    #[default]
    Refuse,
    /// It is booked as early as its window allows, or waits until there is room in it; those behind it are
    /// served if there is room for them.
    Wait,
    /// It waits, and all behind it: no request begins before one that comes earlier in the order.
    Strict,
    /// It waits; those behind it may begin if that delays nobody before them (Mu'alem and Feitelson, 2001:
    /// conservative backfilling).
    Conservative,
    /// It waits; those behind it may begin if that does not delay the first that waits (Lifka, 1995: EASY
    /// backfilling).
    Easy,
}

/// How many of those that wait are told when they can expect to begin. Those behind them are told that so many
/// are before them, so that a round costs no fact for each.
const TOLD: u32 = 32;

impl Queue {
    const NAMES: [(&'static str, Self); 3] =
        [("strict", Self::Strict), ("conservative", Self::Conservative), ("easy", Self::Easy)];

    fn books_ahead(self) -> bool {
        matches!(self, Self::Refuse | Self::Wait)
    }
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FlagOrName;

        impl Visitor<'_> for FlagOrName {
            type Value = Queue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("false, true, \"strict\", \"conservative\" or \"easy\"")
            }

            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Queue, E> {
                Ok(if flag { Queue::Wait } else { Queue::Refuse })
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Queue, E> {
                let known = Queue::NAMES.iter().find(|(known, _)| *known == name);
                known
                    .map(|&(_, queue)| queue)
                    .ok_or_else(|| E::invalid_value(Unexpected::Str(name), &self))
            }
        }

        deserializer.deserialize_any(FlagOrName)
    }
}

/// Why a request waits that is not told more.
fn far_behind() -> String {
    format!("{TOLD} or more wait before it")
}

/// Whether a request keeps a lease going.
pub(super) fn extends(request: &Request) -> bool {
    request.items.iter().any(|item| item.extends.is_some())
}

/// Decides on all requests in the order given, but on extensions first: who is there stays.
pub(super) fn serve(
    view: &View,
    mut requests: Vec<&Request>,
    placement: Placement,
    queue: Queue,
) -> Decision {
    requests.sort_by_key(|request| !extends(request));
    let mut round = Round::new(view, placement, queue);
    let choices = requests.into_iter().map(|request| round.choose(request)).collect();
    round.decision(choices)
}

/// A round in which requests are decided on, one after another.
pub(super) struct Round<'a> {
    view: &'a View,
    pub(super) draft: Draft<'a>,
    placement: Placement,
    queue: Queue,
    /// How many requests wait.
    waiting: u32,
    /// The expected start of the last that waits, if it has one.
    last_expected: Option<Time>,
    /// The first instant at which one that waits may begin.
    wake: Option<Time>,
}

impl<'a> Round<'a> {
    pub(super) fn new(view: &'a View, placement: Placement, queue: Queue) -> Self {
        let draft = Draft::new(view);
        Self { view, draft, placement, queue, waiting: 0, last_expected: None, wake: None }
    }

    /// The answer to the round.
    pub(super) fn decision(self, choices: Vec<Choice>) -> Decision {
        Decision { round: self.view.round(), choices, wake: self.wake, ..Decision::default() }
    }

    pub(super) fn choose(&mut self, request: &Request) -> Choice {
        let (verdict, reason) = match request.reply {
            Reply::Plan => self.offer(request, false),
            Reply::Hold(_) => self.offer(request, true),
            // Who extends has to know, and can begin at one instant alone.
            Reply::Grant if self.queue.books_ahead() || extends(request) => self.book(request),
            Reply::Grant => self.begin(request),
        };
        Choice { request: request.id, verdict, reason }
    }

    /// Grants a request as early as its window allows.
    fn book(&mut self, request: &Request) -> (Verdict, String) {
        match self.find(request, self.view.first_start(request)) {
            Ok(met) => self.grant(request, met),
            Err(refusal) => self.not_met(request, refusal),
        }
    }

    /// Grants a request if it can begin at its earliest start.
    fn begin(&mut self, request: &Request) -> (Verdict, String) {
        let first = self.view.first_start(request).max(self.view.now());
        if self.waiting >= TOLD && self.queue != Queue::Conservative {
            return self.begin_far_behind(request, first);
        }
        let behind = self.last_expected.filter(|_| self.queue == Queue::Strict);
        match self.find(request, behind.map_or(first, |start| start.max(first))) {
            Ok(met) if met.term.start() == first => self.grant(request, met),
            Ok(met) => {
                let start = met.term.start();
                let reason = format!("can begin at {start}");
                if self.queue != Queue::Easy || self.waiting == 0 {
                    self.draft.book(request, &met);
                }
                self.wake = Some(self.wake.map_or(start, |wake| wake.min(start)));
                self.last_expected = Some(start);
                (self.wait(Some(start), reason.clone()), reason)
            }
            Err(refusal) => self.not_met(request, refusal),
        }
    }

    /// As [`begin`](Self::begin), for a request behind so many that it is not worth while to look for the start
    /// it can expect.
    fn begin_far_behind(&mut self, request: &Request, first: Time) -> (Verdict, String) {
        let begins = match self.queue {
            Queue::Strict => Err(None),
            Queue::Easy | Queue::Conservative | Queue::Wait | Queue::Refuse => {
                self.draft.begins(request, first, self.placement)
            }
        };
        match begins {
            Ok(met) => self.grant(request, met),
            Err(next) => {
                self.wake = self.wake.into_iter().chain(next).min();
                (self.wait(None, far_behind()), far_behind())
            }
        }
    }

    fn find(&mut self, request: &Request, from: Time) -> Result<Allocation, Refusal> {
        let cut_from = |item: &Item| Some(self.view.grant(item.extends?)?.account);
        self.draft.find(request, from, self.placement, cut_from)
    }

    fn grant(&mut self, request: &Request, met: Allocation) -> (Verdict, String) {
        self.draft.book(request, &met);
        let sources = met.parts.iter().map(Vec::len).sum::<usize>();
        let reason = format!("free from {} on {sources} sources", met.term.start());
        (Verdict::Grant(met), reason)
    }

    fn wait(&mut self, expected: Option<Time>, reason: String) -> Verdict {
        self.waiting += 1;
        let told = self.waiting <= TOLD;
        Verdict::Wait(Waiting {
            place: self.waiting.min(TOLD + 1),
            expected: expected.filter(|_| told),
            reason: if told { reason } else { far_behind() },
        })
    }

    /// There is no room in the window of a request as it is now.
    fn not_met(&mut self, request: &Request, refusal: Refusal) -> (Verdict, String) {
        let reason = refusal.to_string();
        if self.may_wait(request, &refusal) {
            let expected =
                if let Refusal::Busy { earliest, .. } = refusal { earliest } else { None };
            return (self.wait(expected, reason.clone()), reason);
        }
        let from = self.view.first_start(request);
        let offers = match refusal.outlook() {
            Outlook::Later => self.draft.near(request, from, self.placement, false),
            Outlook::Never | Outlook::Denied => Vec::new(),
        };
        (Verdict::Refuse { refusal, offers }, reason)
    }

    /// Whether a request that cannot be met now stays in the queue: an extension does not, since its lease
    /// has to know.
    fn may_wait(&self, request: &Request, refusal: &Refusal) -> bool {
        self.queue != Queue::Refuse
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
