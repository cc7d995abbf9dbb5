//! Mappers that answer late, never, for an old round, or with nonsense.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use tenure_core::actor::fact::Memo;
use tenure_core::broker::mapper as broker;
use tenure_core::broker::mapper::{Allocation, Choice, Verdict};
use tenure_core::driver::UnitId;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::{Decision, Input};

use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::service_manager::Victims;
use tenure_core::service_manager::group::Handling;
use tenure_core::service_manager::mapper as service_manager;
use tenure_core::service_manager::mapper::{
    Ask, Extend, Flex, GateAnswer, GateChoice, NodePlacement, Placed, PlanAnswer, PlanChoice,
    Shorten,
};
use tenure_core::site_authority::mapper as site_authority;
use tenure_core::site_authority::mapper::Assignment;
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::Provisos;
use tenure_core::wire::request::{Item, Request};

use super::fault::{Family, Fault};
use super::sampler::Sampler;
use super::world::{Event, World};

impl World {
    /// Asks somebody's mapper about a round that has opened. The answer is on its way, if the mapper is well.
    pub(super) fn consult(&mut self, who: usize) {
        let participant = &mut self.participants[who];
        let now = participant.time(self.now);
        let Some(view) = participant.run.host.as_mut().and_then(|host| host.consultation(now))
        else {
            return;
        };
        let Some(decision) = participant.mapper.decide(&view).map(Input::Decision) else { return };
        let (now, term) = (self.now, self.setting.term);
        if !self.strikes(Family::Mapper, 12) {
            return self.later(now, Event::Decision { to: who, decision: Box::new(decision) });
        }
        let sampler = self.sampler(Family::Mapper);
        let (fault, first, after) = match sampler.below(12) {
            0..4 => (Fault::MapperLate, None, sampler.scaled(Span::SECOND, term)),
            4 => (Fault::MapperDead, None, sampler.span(term, term.times(4))),
            kind => {
                let (fault, first) = match (kind, self.greedy(who)) {
                    (5 | 6, Some(greedy)) => (Fault::Greedy, greedy),
                    (7 | 8, _) => (Fault::OldRound, older(&decision)),
                    _ => (Fault::Nonsense, self.nonsense(who, &decision)),
                };
                (fault, Some(first), Span::from_micros(1))
            }
        };
        self.watch.fault(fault);
        if let Some(decision) = first {
            self.later(now, Event::Decision { to: who, decision: Box::new(decision) });
        }
        self.later(now.plus(after), Event::Decision { to: who, decision: Box::new(decision) });
    }

    /// Every mapper is asked once more about what is open.
    pub(super) fn ask_mappers(&mut self) {
        for who in 0..self.participants.len() {
            if let Some(host) = &mut self.participants[who].run.host {
                host.ask_again();
            }
            self.consult(who);
        }
    }

    /// A broker's mapper that grants every request the first units, whether or not they are sold.
    fn greedy(&self, who: usize) -> Option<Input> {
        let participant = &self.participants[who];
        let Some(AnyActor::Broker(actor)) = participant.actor() else {
            return None;
        };
        let view = actor.view(participant.time(self.now))?;
        let sources = view.sources();
        let grant = |request: &Request| {
            let term = Term::lasting(view.first_start(request), request.duration).ok()?;
            let part = |item: &Item| {
                let units = item.units.get();
                let enough = |source: &&broker::Source| {
                    source.resource == item.resource && units <= source.units
                };
                Some(vec![(sources.iter().find(enough)?.account, units)])
            };
            let parts = request.items.iter().map(part).collect::<Option<_>>()?;
            let verdict = Verdict::Grant(Allocation { term, parts });
            Some(Choice { request: request.id, verdict, reason: "everybody".to_owned() })
        };
        let choices = view.open_requests().filter_map(grant).collect();
        let decision = broker::Decision { round: view.round(), choices, ..Default::default() };
        Some(Input::Decision(Decision::Broker(decision)))
    }

    /// A decision that makes no sense, for this round or a foreign one.
    fn nonsense(&mut self, who: usize, sound: &Input) -> Input {
        let Input::Decision(sound) = sound else { return Input::Tick };
        let time = self.participants[who].time(self.now);
        let term = self.setting.term;
        let sampler = self.sampler(Family::Mapper);
        let round = if sampler.percent(70) {
            sound.round()
        } else {
            sound.round() + sampler.below(9) as u64
        };
        let size = [0, 0, 0, 9, Memo::MAX_BYTES + 1][sampler.below(5)];
        let memo = (size > 0).then(|| Memo(sampler.bytes(size)));
        let wake = sampler.percent(30).then(|| time.plus(sampler.span(term.times(-1), term)));
        let mut decision = sound.clone();
        match &mut decision {
            Decision::ServiceManager(decision) => {
                *decision = service_manager::Decision {
                    round,
                    gates: (0..8).map(|number| odd_gate(number, round)).collect(),
                    memo: None,
                    wake,
                    asks: (0..sampler.below(3)).map(|_| odd_ask(sampler, time, term)).collect(),
                    revisions: (0..sampler.below(2))
                        .map(|number| (number as u64, odd_ask(sampler, time, term)))
                        .collect(),
                    extensions: (0..sampler.below(3))
                        .map(|_| odd_extension(sampler, term))
                        .collect(),
                    flexes: (0..sampler.below(2)).map(|_| odd_flex(sampler)).collect(),
                    shortens: (0..sampler.below(2))
                        .map(|_| odd_shorten(sampler, time, term))
                        .collect(),
                    closes: (0..sampler.below(2)).map(|_| odd_lease(sampler)).collect(),
                    plans: (1..3).map(odd_plan).collect(),
                };
            }
            Decision::Broker(decision) => {
                let choices = std::mem::take(&mut decision.choices);
                let choices =
                    choices.into_iter().map(|choice| odd_choice(sampler, choice)).collect();
                let ended = (0..sampler.below(2)).map(|order| odd_end(order as u64)).collect();
                let orders = std::mem::take(&mut decision.orders);
                *decision = broker::Decision { round, choices, ended, orders, memo, wake };
            }
            Decision::SiteAuthority(decision) => {
                let some = std::mem::take(&mut decision.assignments);
                let assignments =
                    some.into_iter().map(|one| odd_assignment(sampler, one)).collect();
                *decision = site_authority::Decision { round, assignments, memo, wake };
            }
        }
        if self.sampler(Family::Mapper).percent(8) {
            let foreign = service_manager::Decision { round, ..Default::default() };
            return Input::Decision(match self.participants[who].actor() {
                Some(AnyActor::ServiceManager(_)) => {
                    Decision::Broker(broker::Decision { round, ..Default::default() })
                }
                _ => Decision::ServiceManager(foreign),
            });
        }
        Input::Decision(decision)
    }
}

/// The same decision for the round before.
fn older(decision: &Input) -> Input {
    let mut decision = decision.clone();
    if let Input::Decision(decision) = &mut decision {
        let round = decision.round().saturating_sub(1);
        match decision {
            Decision::ServiceManager(decision) => decision.round = round,
            Decision::Broker(decision) => decision.round = round,
            Decision::SiteAuthority(decision) => decision.round = round,
        }
    }
    decision
}

fn odd_lease(sampler: &mut Sampler) -> LeaseId {
    LeaseId { number: sampler.count(0, 200).into(), part: sampler.below(3) as u16 }
}

fn odd_flex(sampler: &mut Sampler) -> Flex {
    let shrink = NonZeroU32::new(1 + u32::try_from(sampler.below(3)).unwrap_or(0));
    let victims = match sampler.below(3) {
        0 => Victims::Oldest,
        1 => Victims::Youngest,
        _ => Victims::Named(vec![UnitId(u32::try_from(sampler.below(9)).unwrap_or(0))]),
    };
    let shrink = shrink.unwrap_or(NonZeroU32::MIN);
    Flex { lease: odd_lease(sampler), shrink, victims, reason: String::new() }
}

fn odd_shorten(sampler: &mut Sampler, time: Time, term: Span) -> Shorten {
    let until = time.plus(sampler.span(term.times(-1), term));
    Shorten { lease: odd_lease(sampler), until, reason: String::new() }
}

fn odd_extension(sampler: &mut Sampler, term: Span) -> Extend {
    let duration = sampler.span(term.times(-1), term);
    Extend::whole(odd_lease(sampler), duration, String::new())
}

/// An answer of a lease that may be at a gate.
fn odd_end(order: u64) -> broker::OrderEnd {
    let outcome = broker::OrderOutcome::Delivered;
    broker::OrderEnd { order, outcome, reason: "nonsense".to_owned() }
}

fn odd_gate(number: u64, round: u64) -> GateChoice {
    let lease = LeaseId { number, part: 0 };
    let answer = match (number + round) % 4 {
        0 => {
            let edits = BTreeMap::from([(Name::literal("odd"), format!("${{{number}.unit}}"))]);
            GateAnswer::GoOn(Properties::try_from(edits).unwrap_or_default())
        }
        1 => GateAnswer::Wait(vec![round % 8]),
        2 => GateAnswer::Wait(Vec::new()),
        _ => GateAnswer::GiveUp,
    };
    GateChoice { lease, answer, reason: "nonsense".to_owned() }
}

/// A plan that is not good, or of nothing that was asked for.
fn odd_plan(number: u64) -> PlanChoice {
    let placement = NodePlacement {
        placement: BTreeMap::from([("odd".to_owned(), vec!["nowhere".to_owned()])]),
        ..NodePlacement::default()
    };
    let placed = Placed { placement, profiles: Vec::new(), proven: true, others: Vec::new() };
    PlanChoice { plan: number, answer: PlanAnswer::Placed(placed) }
}

/// A request that no service manager may send: too many items, too short, or the wrong way round.
pub(super) fn odd_ask(sampler: &mut Sampler, now: Time, term: Span) -> Ask {
    let units = NonZeroU32::new(sampler.count(1, 3)).unwrap_or(NonZeroU32::MIN);
    let item = Item {
        min_units: NonZeroU32::new(sampler.count(2, 9)).unwrap_or(NonZeroU32::MIN),
        ..Item::new(Name::literal("node"), units)
    };
    let earliest = now.plus(sampler.span(term.times(-1), term));
    Ask {
        broker: None,
        slice: Name::literal("odd"),
        items: vec![item; sampler.below(20)],
        earliest,
        latest: earliest.plus(sampler.span(term.times(-1), term)),
        duration: sampler.span(term.times(-1), term),
        min_duration: sampler.span(term.times(-1), term),
        provisos: Provisos::NONE,
        again: None,
        reply: Reply::Grant,
        answer_by: now,
        properties: Properties::default(),
        configuration: Properties::default(),
        reason: String::new(),
        handling: Handling::default(),
    }
}

fn odd_choice(sampler: &mut Sampler, mut choice: Choice) -> Choice {
    if sampler.percent(15) {
        choice.request.number += 1000;
    }
    if let Verdict::Grant(Allocation { term, parts }) = &mut choice.verdict {
        match sampler.below(7) {
            0 => *term = Term::new(term.start(), term.end().plus(Span::SECOND)).unwrap_or(*term),
            1 => {
                let back = Span::DAY.times(sampler.between(0, 3));
                *term =
                    Term::new(term.start().minus(back), term.end().minus(back)).unwrap_or(*term);
            }
            2 => parts.iter_mut().flatten().for_each(|(_, units)| *units = 0),
            3 => parts.iter_mut().flatten().for_each(|(_, units)| *units += 5),
            4 => parts.clear(),
            5 => parts.iter_mut().for_each(|part| part.extend_from_within(..)),
            _ => parts.iter_mut().for_each(Vec::clear),
        }
    }
    choice
}

fn odd_assignment(sampler: &mut Sampler, mut assignment: Assignment) -> Assignment {
    match sampler.below(5) {
        0 => assignment.units.extend_from_within(..),
        1 => assignment.units = vec![UnitId(9999)],
        2 => assignment.units.clear(),
        3 => assignment.units.push(UnitId(sampler.count(0, 12))),
        _ => assignment.units = vec![UnitId(sampler.count(0, 12))],
    }
    assignment
}
