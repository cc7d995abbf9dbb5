//! Giving what is free to those to whom it is worth most.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::policy::{Reserve, Unit};
use super::standing::{Standings, is_freed, kind_of, names_service, nobodys};
use super::{Mode, Recalls};
use crate::broker::mapper::{
    Allocation, Choice, OpenOrder, OrderEnd, OrderOutcome, OrderState, ServiceId, UnitOrder,
    Verdict, View,
};
use crate::mapper::place::Placement;
use crate::mapper::queue::{Queue, Round, extends};
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::service::steps::Kind;
use crate::ticket::link::LinkHash;
use crate::wire::need::{SERVICE, URGENCY};
use crate::wire::offer::{Reply, Waiting};
use crate::wire::proviso::{History, Provisos};
use crate::wire::refusal::Refusal;
use crate::wire::request::{Item, Request};

/// A round in which requests are served.
pub(super) struct Serving<'a> {
    view: &'a View,
    round: Round<'a>,
    placement: Placement,
    /// The requests of services, with the places of those.
    open: Vec<(usize, &'a Request)>,
    /// What they get, and how many units.
    granted: BTreeMap<RequestId, (Allocation, u32)>,
    choices: Vec<Choice>,
    ended: Vec<u64>,
    delivered: Vec<OrderEnd>,
    wake: Option<Time>,
    /// For how long what was freed for an order is kept for it.
    hold: Span,
    mode: Mode,
}

/// What is served in the order of its worth.
enum Turn<'a> {
    /// Units of one step of what a request's service claims.
    Step { standing: usize, request: &'a Request, units: u32 },
    /// A request for no service.
    Plain(&'a Request),
    /// What was freed for an order, unless its claimant has it by now.
    Kept { number: u64, open: &'a OpenOrder, standing: Option<usize> },
    /// What is reserved for a service, with what it has by then.
    Reserved { standing: usize, units: u64 },
}

impl<'a> Serving<'a> {
    pub(super) fn new(view: &'a View, placement: Placement, recall: &Recalls) -> Self {
        Self {
            view,
            round: Round::new(view, placement, Queue::Wait),
            placement,
            open: Vec::new(),
            granted: BTreeMap::new(),
            choices: Vec::new(),
            ended: Vec::new(),
            delivered: Vec::new(),
            wake: None,
            hold: recall.hold,
            mode: recall.mode,
        }
    }

    /// The orders that nobody needs any more: what is claimed is less, or what was freed was not taken up.
    pub(super) fn end_orders(&mut self, standings: &Standings<'a>) -> Vec<OrderEnd> {
        let mut ends = Vec::new();
        if mutant!(OrdersNeverEnd) {
            return ends;
        }
        let mut kept: BTreeMap<Option<usize>, u32> = BTreeMap::new();
        // What is furthest stays first.
        let mut orders: Vec<_> = self.view.orders().iter().collect();
        orders.sort_by_key(|(number, open)| (!is_freed(open), *number));
        for (number, open) in orders {
            let at = standings.place(&open.order.claimant, &open.order.kind);
            let claimed = at.map_or(0, |at| standings.get(at).claimed());
            let kept = kept.entry(at).or_default();
            let reason = match open.state {
                OrderState::Freed { at } if at.plus(self.hold) <= self.view.now() => {
                    "what was freed was not taken up in time"
                }
                OrderState::Freed { .. } | OrderState::Placed | OrderState::Recalled { .. }
                    if claimed < *kept + open.order.units.get() =>
                {
                    "it is not claimed any more"
                }
                OrderState::Freed { .. } | OrderState::Placed | OrderState::Recalled { .. } => {
                    *kept += open.order.units.get();
                    continue;
                }
            };
            self.ended.push(*number);
            let (outcome, reason) = (OrderOutcome::Cancelled, reason.to_owned());
            ends.push(OrderEnd { order: *number, outcome, reason });
        }
        ends
    }

    /// Serves all requests: extensions first, then by worth.
    pub(super) fn serve(&mut self, standings: &mut Standings<'a>, unstated: u32) {
        let view = self.view;
        let mut turns: Vec<(u64, Turn<'a>)> = Vec::new();
        for request in view.open_requests() {
            if extends(request) {
                let choice = self.extend(request);
                self.choices.push(choice);
            } else if let Some(standing) = standings.asker(request).filter(|_| is_plain(request)) {
                self.open.push((standing, request));
                turns.extend(steps(standings, standing, request));
            } else if names_service(request) && is_plain(request) {
                self.choices.push(waits(request, "what its service wants is not known".to_owned()));
            } else {
                let urgency = stated_by(request).unwrap_or(unstated);
                turns.push((self.worth_of_nobodys(standings, urgency), Turn::Plain(request)));
            }
        }
        for (number, open) in view.orders().iter().filter(|(_, open)| is_freed(open)) {
            if !self.ended.contains(number) {
                let standing = standings.place(&open.order.claimant, &open.order.kind);
                turns.push((open.order.claim, Turn::Kept { number: *number, open, standing }));
            }
        }
        for (standing, of) in standings.all().iter().enumerate() {
            let reserved = of.reserved().filter(|reserve| u64::from(of.held) < reserve.units);
            turns.extend(
                reserved
                    .map(|Reserve { units, worth }| (worth, Turn::Reserved { standing, units })),
            );
        }
        turns.sort_by_key(|(worth, turn)| (Reverse(*worth), matches!(turn, Turn::Kept { .. })));
        let mut credit: BTreeMap<usize, u32> = BTreeMap::new();
        for (_, turn) in turns {
            match turn {
                Turn::Step { standing, request, units } => {
                    let got = self.give(request, units);
                    standings.granted(standing, got);
                    *credit.entry(standing).or_default() += got;
                }
                Turn::Plain(request) => {
                    let choice = self.round.choose(request);
                    self.choices.push(choice);
                }
                Turn::Kept { number, open, standing } => {
                    let units = open.order.units.get();
                    let got =
                        standing.and_then(|at| credit.get_mut(&at)).filter(|got| units <= **got);
                    match got {
                        Some(got) => {
                            *got -= units;
                            self.deliver(number, units);
                        }
                        None => self.keep_freed(open),
                    }
                }
                Turn::Reserved { standing, units } => {
                    let of = standings.get(standing);
                    let missing = u32::try_from(units).unwrap_or(u32::MAX).saturating_sub(of.held);
                    if let Some(missing) = NonZeroU32::new(missing) {
                        self.keep(of.id, &of.want.kind, missing);
                    }
                }
            }
        }
    }

    /// The policy compares services; what is asked for by nobody's counts by its urgency alone.
    fn worth_of_nobodys(&self, standings: &Standings<'a>, urgency: u32) -> u64 {
        let nobody = Name::literal("unstated");
        let unit = Unit {
            guest: &nobody,
            service: &nobody,
            resource: &nobody,
            number: 1,
            urgency,
            total: 1,
            share: 0,
            held_for: None,
            holdings: standings.holdings(),
        };
        standings.policy().worth(&unit)
    }

    /// What is being taken from a lease is not promised to it anew.
    fn extend(&mut self, request: &'a Request) -> Choice {
        let ordered = |ticket: LinkHash| {
            let of = |(_, open): &&(u64, OpenOrder)| open.order.ticket == ticket && !is_freed(open);
            self.view.orders().iter().find(of)
        };
        let item = request.items.iter().find(|item| item.extends.and_then(ordered).is_some());
        let Some(item) = item else { return self.round.choose(request) };
        let refusal = Refusal::Busy {
            resource: item.resource.clone(),
            asked: item.units.get(),
            free: 0,
            earliest: None,
            in_the_way: Vec::new(),
        };
        let reason = "units of it are ordered for another service".to_owned();
        Choice {
            request: request.id,
            verdict: Verdict::Refuse { refusal, offers: Vec::new() },
            reason,
        }
    }

    /// Gives a request up to so many units more; how many.
    fn give(&mut self, request: &Request, units: u32) -> u32 {
        let had = self.granted.get(&request.id).map_or(0, |(_, units)| *units);
        let Some(item) = request.items.first() else { return 0 };
        let least = if had == 0 { item.min_units.get() } else { 1 };
        let part = of_units(request, units.min(item.units.get() - had), least);
        let start = self.view.first_start(request).max(self.view.now());
        let found = part.map(|part| {
            let found = self.round.draft.begins(&part, start, self.placement);
            (part, found)
        });
        match found {
            Some((part, Ok(found))) => {
                self.round.draft.book(&part, &found);
                let got = found.parts.iter().flatten().map(|(_, units)| *units).sum();
                self.merge(request, found, got);
                got
            }
            Some((_, Err(next))) => {
                self.wake = self.wake.into_iter().chain(next).min();
                0
            }
            None => 0,
        }
    }

    fn merge(&mut self, request: &Request, found: Allocation, got: u32) {
        let number = request.id;
        let Some((whole, units)) = self.granted.get_mut(&number) else {
            self.granted.insert(number, (found, got));
            return;
        };
        *units += got;
        for (account, more) in found.parts.into_iter().flatten() {
            let Some(parts) = whole.parts.first_mut() else { continue };
            match parts.iter_mut().find(|(of, _)| *of == account) {
                Some((_, units)) => *units += more,
                None => parts.push((account, more)),
            }
        }
    }

    fn deliver(&mut self, order: u64, units: u32) {
        let reason = format!("{units} granted");
        self.delivered.push(OrderEnd { order, outcome: OrderOutcome::Delivered, reason });
    }

    /// Keeps what was freed for an order from those to whom it is worth less.
    fn keep_freed(&mut self, open: &OpenOrder) {
        if let OrderState::Freed { at } = open.state {
            self.wake = self.wake.into_iter().chain([at.plus(self.hold)]).min();
        }
        if !mutant!(FreedForAnybody) {
            self.keep(&open.order.claimant, &open.order.kind, open.order.units);
        }
    }

    /// Keeps units that are free now for a service, as many of so many as there are.
    fn keep(&mut self, claimant: &ServiceId, kind: &Kind, units: NonZeroU32) {
        let now = self.view.now();
        let item = Item {
            requirements: kind.requirements(),
            min_units: NonZeroU32::MIN,
            ..Item::new(kind.resource.clone(), units)
        };
        let request = Request {
            id: nobodys(claimant),
            items: vec![item],
            earliest: now,
            latest: now,
            duration: Span::HOUR,
            min_duration: Span::HOUR,
            reply: Reply::Grant,
            answer_by: now,
            properties: Properties::default(),
            provisos: Provisos::NONE,
            history: History::first(now),
            receipts: Vec::new(),
        };
        if let Ok(found) = self.round.draft.begins(&request, now, self.placement) {
            self.round.draft.book(&request, &found);
        }
    }

    pub(super) fn open(&self) -> &[(usize, &'a Request)] {
        &self.open
    }

    /// How many more units a request could get than it gets now.
    pub(super) fn missing(&self, request: &Request) -> u32 {
        let got = self.granted.get(&request.id).map_or(0, |(_, units)| *units);
        request.items.first().map_or(0, |item| item.units.get()).saturating_sub(got)
    }

    /// Whether an order ends in this round.
    pub(super) fn has_ended(&self, order: u64) -> bool {
        self.ended.contains(&order) || self.delivered.iter().any(|end| end.order == order)
    }

    pub(super) fn delivered(&mut self) -> Vec<OrderEnd> {
        std::mem::take(&mut self.delivered)
    }

    pub(super) fn wake(&self) -> Option<Time> {
        self.wake
    }

    /// The answers to all requests: what is not given waits, for what is ordered or because of what is in the way.
    pub(super) fn choices(
        &mut self,
        orders: &[UnitOrder],
        blocked: &BTreeMap<usize, String>,
    ) -> Vec<Choice> {
        for (standing, request) in std::mem::take(&mut self.open) {
            let choice = match self.granted.remove(&request.id) {
                Some((allocation, units)) => Choice {
                    request: request.id,
                    verdict: Verdict::Grant(allocation),
                    reason: format!("{units} free"),
                },
                None => waits(request, self.waits_for(request, orders, blocked.get(&standing))),
            };
            self.choices.push(choice);
        }
        std::mem::take(&mut self.choices)
    }

    /// What a request waits for.
    fn waits_for(&self, request: &Request, new: &[UnitOrder], blocked: Option<&String>) -> String {
        let kind = kind_of(request);
        let open = self.view.orders().iter().filter(|(number, _)| !self.has_ended(*number));
        let is_mine = |order: &&UnitOrder| {
            order.claimant.guest == request.id.origin
                && Some(order.claimant.service.as_str()) == request.properties.get(SERVICE)
                && Some(&order.kind) == kind.as_ref()
        };
        let open = open.filter(|(_, open)| is_mine(&&open.order)).map(|(number, open)| {
            let ordered = in_words(&open.order, Mode::Managed);
            format!("{ordered} (order {number}, due {})", open.due)
        });
        let new = new.iter().filter(is_mine).map(|order| in_words(order, self.mode));
        let mine: Vec<String> = open.chain(new).collect();
        if !mine.is_empty() {
            return mine.join(", ");
        }
        blocked.cloned().unwrap_or_else(|| "none of what it claims is free".to_owned())
    }
}

/// How urgent the units of a request are, if it says so.
fn stated_by(request: &Request) -> Option<u32> {
    request.properties.get(URGENCY)?.parse().ok()
}

fn in_words(order: &UnitOrder, mode: Mode) -> String {
    let UnitOrder { units, holder, claim, worth, .. } = order;
    let ordered = match mode {
        Mode::Managed => "ordered",
        Mode::Advise => "would be ordered",
    };
    format!("{units} {ordered} of {}, worth {claim} here and {worth} there", holder.service)
}

/// Whether tickets are asked for, for one kind of units.
fn is_plain(request: &Request) -> bool {
    request.reply == Reply::Grant && kind_of(request).is_some()
}

/// What the service of a request claims, step by step.
fn steps<'a>(
    standings: &Standings<'a>,
    standing: usize,
    request: &'a Request,
) -> Vec<(u64, Turn<'a>)> {
    let of = standings.get(standing);
    let most = request.items.first().map_or(0, |item| item.units.get());
    let mut turns: Vec<(u64, Turn<'a>)> = Vec::new();
    for number in (of.held + 1..=of.held + of.claimed().min(most)).take(MAX_TURNS) {
        let Some(worth) = of.claim(number) else { continue };
        match turns.last_mut() {
            Some((last, Turn::Step { units, .. })) if *last == worth => *units += 1,
            Some(_) | None => turns.push((worth, Turn::Step { standing, request, units: 1 })),
        }
    }
    turns
}

/// The most units of one request that are looked at one by one in a round.
const MAX_TURNS: usize = 1 << 12;

/// A request for some of its units.
fn of_units(request: &Request, units: u32, least: u32) -> Option<Request> {
    let mut part = request.clone();
    let item = part.items.first_mut()?;
    item.units = NonZeroU32::new(units)?;
    item.min_units = NonZeroU32::new(least)?;
    (item.min_units <= item.units).then_some(part)
}

fn waits(request: &Request, reason: String) -> Choice {
    let waiting = Waiting { place: 1, expected: None, reason: reason.clone() };
    Choice { request: request.id, verdict: Verdict::Wait(waiting), reason }
}
