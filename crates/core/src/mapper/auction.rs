//! `auction`: the highest bid comes first, and all who win pay the same.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::place::Placement;
use super::queue::{Queue, Round};
use crate::actor::fact::Memo;
use crate::broker::mapper::{Allocation, BrokerMapper, Choice, Decision, Verdict, View};
use crate::model::codec;
use crate::model::identity::ActorId;
use crate::model::time::{Span, Time};
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

/// Holds an auction of uniform price in each round: requests are served by falling bid, a price for one unit
/// and hour. Who wins pays the highest bid that lost, if no winner bid less than that, and else the reserve:
/// nobody pays more than the own bid (Vickrey, 1961, for one kind of unit). Each service manager pays from a budget, which the memo
/// holds, and can bid no more than is left of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Auction {
    placement: Placement,
    queue: Queue,
    /// The request property that holds the bid; a request without it bids nothing.
    property: String,
    /// The lowest price.
    reserve: u64,
    /// What each service manager can spend at first.
    budget: u64,
    /// What it gets in each period.
    income: u64,
    #[serde(deserialize_with = "super::lasting")]
    period: Span,
    /// The time between two auctions; each round is one unless set.
    #[serde(deserialize_with = "super::lasting_if_set")]
    every: Option<Span>,
}

impl Default for Auction {
    fn default() -> Self {
        Self {
            placement: Placement::default(),
            queue: Queue::Wait,
            property: "bid".to_owned(),
            reserve: 0,
            budget: 1000,
            income: 0,
            period: Span::DAY,
            every: None,
        }
    }
}

/// Who has spent what, and when the next auction is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Spending {
    next: Option<Time>,
    spent: BTreeMap<ActorId, u64>,
}

/// An hour in microseconds.
const HOUR: u128 = 3_600_000_000;

impl Auction {
    fn bid(&self, request: &Request) -> u64 {
        let bid = request.properties.get(&self.property);
        bid.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// What a service manager can still spend.
    fn left(&self, spending: &Spending, whom: ActorId, now: Time) -> u64 {
        let periods = now.since(Time::ZERO).as_micros().max(0) / self.period.as_micros();
        let income = self.income.saturating_mul(u64::try_from(periods).unwrap_or(0));
        let spent = spending.spent.get(&whom).copied().unwrap_or(0);
        self.budget.saturating_add(income).saturating_sub(spent)
    }

    /// Why a request may not take part, if so.
    fn barred(&self, request: &Request, left: u64) -> Option<Refusal> {
        let bid = self.bid(request);
        if bid < self.reserve {
            let reserve = self.reserve;
            return Some(Refusal::Policy(format!(
                "a bid of {bid} is below the reserve, {reserve}"
            )));
        }
        let most = cost(bid, most_unit_micros(request));
        let why = || format!("a bid of {bid} can cost {most}, and {left} is left of the budget");
        (most > left).then(|| Refusal::Policy(why()))
    }

    /// Whether this round is an auction, and when the next is.
    fn due(&self, spending: &mut Spending, now: Time) -> bool {
        let Some(every) = self.every else { return true };
        let next = *spending.next.get_or_insert(now);
        if now < next {
            return false;
        }
        let passed = now.since(next).as_micros() / every.as_micros() + 1;
        spending.next = Some(next.plus(every.times(passed)));
        true
    }

    /// The price that all winners pay.
    fn price(&self, bids: &[(u64, bool)]) -> u64 {
        let lowest_won = bids.iter().filter(|(_, won)| *won).map(|(bid, _)| *bid).min();
        let lost = bids.iter().filter(|(_, won)| !won).map(|(bid, _)| *bid);
        let below = lost.filter(|bid| lowest_won.is_some_and(|lowest| *bid <= lowest));
        below.max().unwrap_or(0).max(self.reserve)
    }
}

/// What units cost over some time, rounded up.
fn cost(price: u64, unit_micros: u128) -> u64 {
    u64::try_from((u128::from(price) * unit_micros).div_ceil(HOUR)).unwrap_or(u64::MAX)
}

/// The most units times microseconds that a request can get.
fn most_unit_micros(request: &Request) -> u128 {
    let of_choice = |choice| {
        let items = request.items.iter().filter(|item| item.choice == choice);
        items.map(|item| u128::from(item.units.get())).sum::<u128>()
    };
    let units = request.choices().into_iter().map(of_choice).max().unwrap_or(0);
    units * u128::try_from(request.duration.as_micros()).unwrap_or(0)
}

impl BrokerMapper for Auction {
    fn decide(&self, view: &View) -> Decision {
        let before: Spending = codec::decode(&view.memo().0).unwrap_or_default();
        let (mut spending, now) = (before.clone(), view.now());
        if !self.due(&mut spending, now) {
            let wake = spending.next;
            return Decision { round: view.round(), wake, ..Decision::default() };
        }
        let mut requests: Vec<&Request> = view.open_requests().collect();
        requests.sort_by_key(|request| Reverse(self.bid(request)));
        let mut round = Round::new(view, self.placement, self.queue);
        // What those who won may have to pay.
        let mut bound = spending.clone();
        let (mut choices, mut bids) = (Vec::new(), Vec::new());
        for request in requests {
            let (whom, bid) = (request.id.origin, self.bid(request));
            let choice = match self.barred(request, self.left(&bound, whom, now)) {
                Some(refusal) => Choice {
                    request: request.id,
                    reason: refusal.to_string(),
                    verdict: Verdict::Refuse { refusal, offers: Vec::new() },
                },
                None => {
                    let choice = round.choose(request);
                    let won = granted(&choice);
                    if let Some(allocation) = won {
                        let spent = bound.spent.entry(whom).or_default();
                        *spent = spent.saturating_add(cost(bid, allocation.unit_micros()));
                    }
                    bids.push((bid, won.is_some()));
                    choice
                }
            };
            choices.push(choice);
        }
        let price = self.price(&bids);
        for choice in &mut choices {
            let Some(allocation) = granted(choice) else { continue };
            let (whom, pays) = (choice.request.origin, cost(price, allocation.unit_micros()));
            let spent = spending.spent.entry(whom).or_default();
            *spent = spent.saturating_add(pays);
            let left = self.left(&spending, whom, now);
            choice.reason =
                format!("{}; pays {pays} at a price of {price}, {left} left", choice.reason);
        }
        let memo = (spending != before).then(|| Memo(codec::encode(&spending)));
        let decision = round.decision(choices);
        let wake = decision.wake.into_iter().chain(spending.next).min();
        Decision { memo, wake, ..decision }
    }
}

fn granted(choice: &Choice) -> Option<&Allocation> {
    match &choice.verdict {
        Verdict::Grant(allocation) => Some(allocation),
        Verdict::Refuse { .. }
        | Verdict::Offer { .. }
        | Verdict::Wait(_)
        | Verdict::Pass(_)
        | Verdict::Keep { .. } => None,
    }
}
