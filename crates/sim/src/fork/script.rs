//! External inputs of actors, taken from their journals and replayed in a branch.

#![allow(clippy::wildcard_enum_match_arm, reason = "facts without an outside cause are not inputs")]

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

use tenure_core::actor::Actor as _;
use tenure_core::actor::fact::BadFact;
use tenure_core::runtime::{Decision, Entry, Fact, Input};
use tenure_core::service_manager::{Command as GuestCommand, Victims};
use tenure_core::site_authority::Command as SiteCommand;

use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Time;
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::service_manager::facts as sm;
use tenure_core::service_manager::machine::AfterLeave;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::site_authority::facts as site;
use tenure_core::wire::part::Part;
use tenure_core::wire::request::Item;

/// One external input.
#[derive(Clone, Debug)]
pub(super) enum RecordedInput {
    /// A signal was measured.
    Observe { signal: Name, value: i64 },
    /// A user asked for units; the request got this number.
    Ask(Box<Ask>, u64),
    /// A user changed a lease.
    Change(Box<GuestCommand>),
    /// A user gave a lease back; the whole request, if it was its only lease.
    Close { lease: LeaseId, whole: bool },
    /// An operator did something to the units of a site.
    Operate(Box<SiteCommand>),
}

/// The external inputs of an actor of a branch, in order.
#[derive(Debug, Default)]
pub(crate) struct Script {
    lines: VecDeque<(Time, RecordedInput)>,
    /// Requests of users that have just been handed in, by their recorded numbers.
    asking: VecDeque<(u64, Vec<Item>)>,
    /// The numbers that requests of users have in this branch, by those that were recorded.
    numbers: BTreeMap<u64, u64>,
    /// How many leases requests have become in this branch.
    parts: BTreeMap<u64, u16>,
    /// Requests up to this number were made before the fork.
    known: u64,
    /// Commands about leases that do not exist in this branch.
    dropped: u64,
}

impl Script {
    /// A script for an actor whose requests up to the number `known` were made before.
    pub(super) fn new(lines: Vec<(Time, RecordedInput)>, known: u64) -> Self {
        Self { lines: lines.into(), known, ..Self::default() }
    }

    /// When the next line is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.lines.front().map(|(at, _)| *at)
    }

    /// The lines that are due, as inputs.
    pub(crate) fn due(&mut self, now: Time) -> Vec<Input> {
        self.asking.clear();
        let mut inputs = Vec::new();
        while self.next().is_some_and(|at| at <= now) {
            let recorded_inputs = self.lines.pop_front();
            inputs.extend(
                recorded_inputs
                    .into_iter()
                    .flat_map(|(_, recorded_inputs)| self.inputs(recorded_inputs)),
            );
        }
        inputs
    }

    fn inputs(&mut self, recorded_inputs: RecordedInput) -> Vec<Input> {
        let command = match recorded_inputs {
            RecordedInput::Observe { signal, value } => {
                return vec![Input::Observe { signal, value }];
            }
            RecordedInput::Ask(ask, number) => {
                self.asking.push_back((number, ask.items.clone()));
                GuestCommand::Ask(*ask).into()
            }
            RecordedInput::Change(mut command) => {
                let (GuestCommand::Extend { lease, .. }
                | GuestCommand::Flex { lease, .. }
                | GuestCommand::Shorten { lease, .. }) = &mut *command
                else {
                    return Vec::new();
                };
                let Some(here) = self.here(*lease) else { return Vec::new() };
                *lease = here;
                (*command).into()
            }
            RecordedInput::Close { lease, whole } => {
                let Some(LeaseId { number, part }) = self.here(lease) else { return Vec::new() };
                let parts = self.parts.get(&number).copied().filter(|_| whole);
                let parts = parts.map_or(part..=part, |parts| 0..=parts.saturating_sub(1));
                let close = |part| GuestCommand::Close { lease: LeaseId { number, part } }.into();
                return parts.map(close).map(Input::Command).collect();
            }
            RecordedInput::Operate(command) => (*command).into(),
        };
        vec![Input::Command(command)]
    }

    /// The lease that a user means. One that a mapper asked for after the fork has no namesake here.
    fn here(&mut self, lease: LeaseId) -> Option<LeaseId> {
        let before = (lease.number <= self.known).then_some(lease.number);
        let number = before.or_else(|| self.numbers.get(&lease.number).copied());
        self.dropped += u64::from(number.is_none());
        number.map(|number| LeaseId { number, ..lease })
    }

    /// Learns which number a user's request has got, and what it has become.
    pub(crate) fn observe(&mut self, entry: &Entry) {
        if let Some((number, parts)) = granted(&entry.fact) {
            self.parts.insert(number, parts);
        }
        let Fact::ServiceManager(sm::Fact::Asked(fact)) = &entry.fact else { return };
        while let Some((number, items)) = self.asking.pop_front() {
            if items == fact.request.items {
                self.numbers.insert(number, fact.request.id.number);
                return;
            }
        }
    }

    /// The numbers that requests of users were recorded under, by those that they have here.
    pub(crate) fn users(&self) -> impl Iterator<Item = (u64, u64)> {
        self.numbers.iter().map(|(&recorded, &here)| (here, recorded))
    }

    /// How many requests there was no lease for.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// How many leases a request has become, if this is the fact that decides it.
fn granted(fact: &Fact) -> Option<(u64, u16)> {
    match fact {
        Fact::ServiceManager(sm::Fact::Granted(fact)) => {
            Some((fact.number, u16::try_from(fact.tickets.len()).unwrap_or(u16::MAX)))
        }
        _ => None,
    }
}

/// What is known of the requests in a journal while it is read.
#[derive(Default)]
struct Known {
    answer_by: BTreeMap<u64, Time>,
    parts: BTreeMap<u64, u16>,
}

impl Known {
    fn close(&self, lease: LeaseId) -> RecordedInput {
        RecordedInput::Close {
            lease,
            whole: self.parts.get(&lease.number).is_none_or(|parts| *parts <= 1),
        }
    }
}

/// The inputs of the actor after its first `cut` facts. With `users`, requests are distinguished from what
/// its mapper decided; else there were none.
pub(super) fn recorded_inputs(
    hosted: &mut HostedActor,
    facts: &[Entry],
    cut: usize,
    users: bool,
) -> Result<Vec<(Time, RecordedInput)>, (u64, BadFact)> {
    let mut recorded_inputs = Vec::new();
    let mut known = Known::default();
    let mut position = 0;
    while position < facts.len() {
        let run = if users { run_of_requests(&facts[position..]) } else { 0 };
        let of_mapper = match run {
            0 => 0,
            _ => decided(hosted, facts, position, run).map_err(|(at, bad)| (at as u64, bad))?,
        };
        // What a user wanted, then what the mapper decided, or else the one fact that is neither.
        let by_users = run - of_mapper;
        for (nth, entry) in facts[position..].iter().take(run.max(1)).enumerate() {
            let index = position + nth;
            if let Fact::ServiceManager(sm::Fact::Asked(fact)) = &entry.fact {
                known.answer_by.insert(fact.request.id.number, fact.request.answer_by);
            }
            known.parts.extend(granted(&entry.fact));
            if index >= cut {
                let user_command = (nth < by_users).then(|| user_command(entry, &known)).flatten();
                recorded_inputs.extend(
                    user_command.or_else(|| other(&entry.fact)).map(|line| (entry.at, line)),
                );
            }
            // Those that were tried as a user's are applied already.
            if index as u64 >= hosted.actor().position() {
                let applied = hosted.actor_mut().replay(entry);
                applied.map_err(|cause| (index as u64, cause))?;
            }
        }
        position += run.max(1);
    }
    Ok(recorded_inputs)
}

/// How many facts from the first on may be requests, of a user or the mapper, of one instant.
fn run_of_requests(facts: &[Entry]) -> usize {
    let Some(first) = facts.first() else { return 0 };
    facts.iter().take_while(|entry| entry.at == first.at && may_be_a_request(&entry.fact)).count()
}

/// Whether a fact may be what a service manager's mapper or its user wanted.
pub(crate) fn may_be_a_request(fact: &Fact) -> bool {
    let Fact::ServiceManager(fact) = fact else { return false };
    match fact {
        sm::Fact::Asked(_)
        | sm::Fact::ExtensionAsked(_)
        | sm::Fact::Accepted(_)
        | sm::Fact::GaveUp(_)
        | sm::Fact::CloseBegun(_) => true,
        sm::Fact::LeaveBegun(fact) => fact.then == AfterLeave::Close,
        _ => false,
    }
}

/// How many of the `run` facts from `position` on its mapper has decided: the last ones, as many as it would
/// have, if its round ends with them.
fn decided(
    hosted: &mut HostedActor,
    facts: &[Entry],
    position: usize,
    run: usize,
) -> Result<usize, (usize, BadFact)> {
    let end = position + run;
    let at = facts[position].at;
    let answered = facts.get(end).is_some_and(|entry| {
        entry.at == at && matches!(&entry.fact, Fact::ServiceManager(sm::Fact::MapperAnswered(_)))
    });
    if !answered {
        return Ok(0);
    }
    for start in position..end {
        if would_decide(hosted, at, &facts[start..end]) {
            return Ok(end - start);
        }
        let applied = hosted.actor_mut().replay(&facts[start]);
        applied.map_err(|cause| (start, cause))?;
    }
    // All were users' if the mapper wants nothing; else it was another mapper then, and they were its own.
    Ok(if would_decide(hosted, at, &[]) { 0 } else { run })
}

/// Whether the mapper would want, as things stand, just as many leases and extensions as the facts have.
fn would_decide(hosted: &HostedActor, at: Time, facts: &[Entry]) -> bool {
    let Some(Input::Decision(Decision::ServiceManager(decision))) = hosted.consult(at) else {
        return false;
    };
    let count = |wanted: fn(&sm::Fact) -> bool| {
        let of = |entry: &&Entry| matches!(&entry.fact, Fact::ServiceManager(fact) if wanted(fact));
        facts.iter().filter(of).count()
    };
    let asks = count(|fact| matches!(fact, sm::Fact::Asked(_)));
    let extensions = count(|fact| matches!(fact, sm::Fact::ExtensionAsked(_)));
    asks == decision.asks.len()
        && extensions == decision.extensions.len()
        && facts.len() - asks - extensions == decision.closes.len()
}

/// A fact as a user's request; what only time has brought is none.
fn user_command(entry: &Entry, known: &Known) -> Option<RecordedInput> {
    let Fact::ServiceManager(fact) = &entry.fact else { return None };
    match fact {
        sm::Fact::Asked(fact) => {
            let (request, fact) = (fact.request.clone(), fact.clone());
            let ask = Ask {
                broker: Some(fact.broker),
                slice: fact.slice,
                items: request.items,
                earliest: request.earliest,
                latest: request.latest,
                duration: request.duration,
                min_duration: request.min_duration,
                provisos: request.provisos,
                again: None,
                reply: request.reply,
                answer_by: request.answer_by,
                properties: request.properties,
                configuration: fact.configuration,
                reason: fact.reason,
                handling: fact.handling,
            };
            Some(RecordedInput::Ask(Box::new(ask), request.id.number))
        }
        sm::Fact::ExtensionAsked(fact) => {
            let units = fact.request.items.first().map(|item| item.units);
            let units = units.filter(|_| !fact.victims.is_empty());
            Some(RecordedInput::Change(Box::new(GuestCommand::Extend {
                lease: fact.lease,
                duration: fact.request.duration,
                units,
                victims: Victims::Named(fact.victims.clone()),
            })))
        }
        sm::Fact::ReturnBegun(fact) => returned(fact).map(Box::new).map(RecordedInput::Change),
        sm::Fact::GaveUp(fact) => {
            let early = known.answer_by.get(&fact.number).is_some_and(|by| entry.at < *by);
            let lease = LeaseId { number: fact.number, part: 0 };
            early.then(|| known.close(lease))
        }
        sm::Fact::CloseBegun(fact) => Some(known.close(fact.lease)),
        sm::Fact::LeaveBegun(fact) => Some(known.close(fact.lease)),
        _ => None,
    }
}

/// The command by which a part of a lease was given back.
fn returned(fact: &sm::ReturnBegun) -> Option<GuestCommand> {
    let lease = fact.lease;
    match &fact.part {
        Part::Units(units) => Some(GuestCommand::Flex {
            lease,
            shrink: NonZeroU32::new(u32::try_from(units.len()).ok()?)?,
            victims: Victims::Named(units.clone()),
        }),
        Part::Quantity(shrink) => {
            Some(GuestCommand::Flex { lease, shrink: *shrink, victims: Victims::Youngest })
        }
        Part::Until(until) => Some(GuestCommand::Shorten { lease, until: *until }),
        Part::Rights { .. } => None,
    }
}

/// What else comes from outside, and leaves no doubt about it.
fn other(fact: &Fact) -> Option<RecordedInput> {
    match fact {
        Fact::ServiceManager(sm::Fact::SignalObserved(fact)) => {
            Some(RecordedInput::Observe { signal: fact.signal.clone(), value: fact.value })
        }
        Fact::SiteAuthority(fact) => {
            operated(fact).map(|command| RecordedInput::Operate(Box::new(command)))
        }
        _ => None,
    }
}

/// What an operator did to the units of a site.
fn operated(fact: &site::Fact) -> Option<SiteCommand> {
    use site::Fact as F;
    Some(match fact {
        F::UnitReset(fact) => SiteCommand::Reset { unit: fact.unit },
        F::UnitRestored(fact) => SiteCommand::Reset { unit: fact.unit },
        F::UnitDrained(fact) => SiteCommand::Drain { unit: fact.unit, by: None },
        F::UnitNeeded(fact) => SiteCommand::Drain { unit: fact.unit, by: Some(fact.by) },
        F::UnitResumed(fact) => SiteCommand::Resume { unit: fact.unit },
        F::UnitQuarantined(fact) => {
            SiteCommand::Quarantine { unit: fact.unit, why: fact.why.clone() }
        }
        F::UnitFailed(fact) => {
            let (unit, why) = (fact.unit, fact.why.clone());
            SiteCommand::Fail { unit, epoch: Some(fact.epoch), why }
        }
        F::UnitAdded(site::UnitAdded { resource, name, attributes }) => SiteCommand::Add {
            resource: resource.clone(),
            name: name.clone(),
            attributes: attributes.clone(),
        },
        F::Stocked(fact) => {
            let units = NonZeroU32::new(fact.units)?;
            SiteCommand::Stock { resource: fact.resource.clone(), units }
        }
        F::QuantityWithdrawn(fact) => {
            let (resource, units) = (fact.resource.clone(), fact.quantity);
            SiteCommand::Withdraw { resource, units }
        }
        F::InventoryChanged(site::InventoryChanged { withdrawn, .. }) if withdrawn.len() == 1 => {
            SiteCommand::Remove { unit: withdrawn[0] }
        }
        F::InventoryChanged(fact) => {
            let units = NonZeroU32::new(u32::try_from(fact.withdrawn.len()).ok()?)?;
            SiteCommand::Withdraw { resource: fact.resource.clone(), units }
        }
        _ => return None,
    })
}
