//! One emulation run: the actors of a scenario, driven through virtual time.
//!
//! Time jumps from one instant at which something is due to the next. Within an instant work goes in
//! rounds: a round handles what the one before produced, at each actor first the drivers' answers, then
//! messages by sender and sequence, then what was measured, then timers, and last the mapper's
//! decision. What an actor decides leaves it only when its facts are in its journal.

mod agenda;
mod resume;

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::actor::Actor as _;
use tenure_core::actor::Role;
use tenure_core::actor::effect::DriverResult;
use tenure_core::runtime::host::{Departure, Turn};
use tenure_core::runtime::{AnyActor, Decision, Entry, Input};

use tenure_core::driver::Call;
use tenure_core::mapper::registry::MapperError;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::journal::{AppendError, hash_of_run};
use tenure_core::runtime::outbox::Outgoing;
use tenure_core::wire::message::{Envelope, Sealed, Sequence};
use thiserror::Error;

use self::agenda::Agenda;
use crate::capacity::{Capacity, capacity};
use crate::metrics::Metrics;
pub use crate::metrics::{Compute, ComputeSite};
use crate::network::{Network, Packet};
use crate::participants::{Inbox, Member, Plugins, assemble};
use crate::report::{Report, RunVerdict, Series, ServiceReport, ServicesReport};
use crate::scenario::Scenario;
use crate::service::Models;
use crate::signatures::Signatures;
use crate::users::Users;

/// What a run is given beside its scenario.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// What each service manager needs, one value a step.
    pub demand: BTreeMap<Name, Vec<u32>>,
    /// Its mappers and drivers.
    pub plugins: Plugins,
}

/// Facts that became durable in a run.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Whose they are.
    pub name: &'a Name,
    /// Its role.
    pub role: Role,
    /// Its id.
    pub id: ActorId,
    /// The position of the first of them in its journal.
    pub position: u64,
    /// The facts.
    pub entries: &'a [Entry],
}

/// Receives the facts of a run; an error ends the run.
pub type Keeper<'k> = Box<dyn FnMut(Kept<'_>) -> Result<(), AppendError> + 'k>;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything up to and at this instant is done.
    At(Time),
    /// The run has ended.
    Done,
}

/// Why a run cannot continue.
#[derive(Debug, Error)]
pub enum EmulationError {
    /// A mapper that does not exist, or settings that it does not take.
    #[error("{role} `{name}`: {cause}")]
    Mapper {
        /// The role of the actor.
        role: Role,
        /// The actor.
        name: Name,
        /// What is wrong.
        cause: MapperError,
    },
    /// The scenario's window is empty.
    #[error("the horizon must be longer than nothing")]
    NoTime,
    /// An actor's journal refused its facts.
    #[error("the journal of `{name}`: {cause}")]
    Journal {
        /// The actor.
        name: Name,
        /// Why.
        cause: AppendError,
    },
    /// Actors keep each other busy without time passing.
    #[error("at {at} more than {MAX_ROUNDS} rounds passed without an end; still due: {due}")]
    Livelock {
        /// The instant.
        at: Time,
        /// Who still has something to do.
        due: String,
    },
}

/// The most rounds in one instant.
const MAX_ROUNDS: usize = 10_000;

/// The most problems that a report lists.
const MAX_PROBLEMS: usize = 20;

/// A run.
pub struct Emulation<'k> {
    members: Vec<Member>,
    by_id: BTreeMap<ActorId, usize>,
    /// Which of them have something to do.
    agenda: Agenda,
    network: Network,
    /// What arrives later, in the order in which it was sent.
    arrivals: BTreeMap<(Time, u64), Arrival>,
    sent: u64,
    now: Time,
    next_step: usize,
    /// The name of the signal that is measured.
    demand: Name,
    /// Those that are given a demand, and how many values the longest has.
    driven: (Vec<usize>, usize),
    window: Term,
    step: Span,
    /// When a run that does not come to rest is called stalled.
    give_up_at: Time,
    metrics: Metrics,
    report: Report,
    /// Why the actors refused inputs, by its text, with how often.
    notes: BTreeMap<String, u64>,
    /// Room for what leaves an actor at once.
    departures: Vec<Departure>,
    /// The room of a round: who is visited, and with what.
    visits: Visits,
    keeper: Keeper<'k>,
}

/// What a run has beside its actors.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// How messages are delivered.
    pub network: Network,
    /// From when to when guests want anything and figures are taken.
    pub window: Term,
    /// How long each value of the demand holds.
    pub step: Span,
    /// When a run that does not come to rest is called stalled.
    pub give_up_at: Time,
    /// What all sites have together.
    pub capacity: Capacity,
    /// The length of the leases that mappers ask for.
    pub term: Span,
    /// Where experiments take place, if any are asked for.
    pub compute: Option<Compute>,
    /// Whether there is a network of brokers, or users who ask.
    pub network_of_brokers: bool,
}

impl RunContext {
    /// That of a scenario.
    ///
    /// # Errors
    /// If the scenario's window is empty.
    pub fn of(scenario: &Scenario) -> Result<Self, EmulationError> {
        let window =
            Term::lasting(Time::ZERO, scenario.horizon).map_err(|_| EmulationError::NoTime)?;
        let Scenario { step, term, .. } = *scenario;
        let capacity = capacity(scenario.sites.values().map(|site| &site.stocks));
        let (network, give_up_at) = (Network::of(scenario), give_up_at(scenario));
        let compute = scenario.compute();
        let network_of_brokers = scenario.has_network();
        Ok(Self { network, window, step, give_up_at, capacity, term, compute, network_of_brokers })
    }
}

/// Members to be visited, and what each is handed.
type Visits = (Vec<usize>, Vec<(usize, Inbox)>);

/// When the run of a scenario that does not come to rest is called stalled.
pub fn give_up_at(scenario: &Scenario) -> Time {
    let rest = scenario.term.times(3).plus(Span::DAY.times(7));
    Time::ZERO.plus(scenario.horizon).plus(rest)
}

struct Arrival {
    member: usize,
    what: EventInput,
}

enum EventInput {
    Answer(DriverResult),
    Message(ActorId, Sequence, Sealed),
    Decision(Decision),
}

impl<'k> Emulation<'k> {
    /// Sets the scene: every actor is built and started, no time has passed. Of the journals only the
    /// hashes are kept.
    pub fn new(scenario: &Scenario, inputs: &Inputs) -> Result<Self, EmulationError> {
        Self::kept_by(Box::new(|_| Ok(())), scenario, inputs)
    }

    /// As [`new`](Self::new), with a receiver of the facts: they are handed over in the order in
    /// which they become durable, before anything follows from them.
    pub fn kept_by(
        keeper: Keeper<'k>,
        scenario: &Scenario,
        inputs: &Inputs,
    ) -> Result<Self, EmulationError> {
        let parts = assemble(scenario, &inputs.plugins)
            .map_err(|(role, name, cause)| EmulationError::Mapper { role, name, cause })?;
        let mut members: Vec<Member> = parts.into_iter().map(Member::from).collect();
        let signatures = Arc::new(Signatures::default());
        let context = RunContext::of(scenario)?;
        let brokers = members.iter().filter(|member| member.host.actor().role() == Role::Broker);
        let brokers: BTreeMap<Name, ActorId> =
            brokers.map(|member| (member.name.clone(), member.id)).collect();
        for member in &mut members {
            member.host.actor_mut().share_signatures(signatures.clone());
            if let Some(demand) = inputs.demand.get(&member.name) {
                member.demand.clone_from(demand);
            }
            if let Some(manager) = scenario.service_managers.get(&member.name) {
                let time = (context.window, context.step);
                member.models = Models::of(&manager.services, &member.demand, time);
                let broker = brokers.get(&manager.broker).copied();
                member.users = Users::of(broker, Arc::clone(&manager.requests));
            }
        }
        let mut emulation = Self::on(context, members, keeper);
        for member in 0..emulation.members.len() {
            emulation.hand_in(member, vec![Input::Start])?;
            emulation.plan(member);
        }
        Ok(emulation)
    }

    /// A run without any input so far.
    pub(crate) fn on(stage: RunContext, members: Vec<Member>, keeper: Keeper<'k>) -> Self {
        let RunContext { network, window, step, give_up_at, capacity, term, compute, .. } = stage;
        let id_of = |name: &Name| members.iter().find(|m| m.name == *name).map(|m| m.id);
        let metrics = Metrics::new(window, step, capacity);
        let mut metrics = metrics.with_experiments(compute.as_ref(), id_of);
        if stage.network_of_brokers {
            metrics = metrics.with_network(members.iter().map(|member| member.id).collect());
        }
        Self {
            by_id: members.iter().enumerate().map(|(index, m)| (m.id, index)).collect(),
            agenda: Agenda::of(members.len()),
            demand: Name::literal("demand"),
            driven: driven(&members),
            network,
            arrivals: BTreeMap::new(),
            sent: 0,
            now: window.start(),
            next_step: 0,
            window,
            step,
            give_up_at,
            metrics,
            report: Report { term_s: term.as_secs_f64(), ..Report::default() },
            notes: BTreeMap::new(),
            departures: Vec::new(),
            visits: Visits::default(),
            keeper,
            members,
        }
    }

    /// Handles the next instant at which anything is due.
    pub fn step(&mut self) -> Result<Progress, EmulationError> {
        if self.report.verdict != RunVerdict::Running {
            return Ok(Progress::Done);
        }
        let next = self.next_instant();
        let resting = self.now >= self.window.end() && self.is_at_rest();
        match next.filter(|next| *next <= self.give_up_at && !resting) {
            Some(next) => {
                self.now = next;
                self.report.ticks += 1;
                self.instant()?;
                Ok(Progress::At(self.now))
            }
            None => {
                self.finish(resting || next.is_none());
                Ok(Progress::Done)
            }
        }
    }

    /// The figures so far; final once the run has ended.
    pub fn report(&self) -> Report {
        let mut report = self.report.clone();
        self.metrics.fill(&mut report, &self.series());
        self.fill_shortage(&mut report);
        self.fill_services(&mut report);
        for member in &self.members {
            report.facts += member.journal.len();
            let (made, checked) = member.host.actor().signatures();
            report.signatures_made += made;
            report.signatures_checked += checked;
        }
        let journals = self.members.iter().map(|member| member.journal.hash());
        report.journal_hash = hash_of_run(journals).to_hex();
        let notes = self.notes.iter().take(MAX_PROBLEMS);
        report.notes = notes.map(|(note, count)| format!("{count} x {note}")).collect();
        report
    }

    /// What became of services, if there are any.
    fn fill_services(&self, report: &mut Report) {
        let of_member = |member: &Member| member.models.report(&member.name, self.now);
        let services: Vec<ServiceReport> = self.members.iter().flat_map(of_member).collect();
        if !services.is_empty() {
            let lost_unit_s = services.iter().map(|service| service.lost_unit_s).sum();
            let (moves, swings) = self.metrics.moves();
            report.services = Some(ServicesReport { moves, swings, lost_unit_s, services });
        }
    }

    /// The part of the leases of overbooked stocks that found too few units.
    fn fill_shortage(&self, report: &mut Report) {
        let mut types: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for member in &self.members {
            let AnyActor::SiteAuthority(site) = member.host.actor() else { continue };
            for (resource, ..) in site.inventory() {
                let Some(shortage) = site.shortage(resource) else { continue };
                let (due, short) = types.entry(resource.to_string()).or_default();
                *due += shortage.due;
                *short += shortage.short;
            }
        }
        let part = |(due, short): (u64, u64)| if due > 0 { short as f64 / due as f64 } else { 0.0 };
        let sum = |(due, short), (more, too): &(u64, u64)| (due + more, short + too);
        report.shortage = part(types.values().fold((0, 0), sum));
        for (resource, figures) in &mut report.types {
            figures.shortage = part(types.get(resource).copied().unwrap_or_default());
        }
    }

    /// Need and holding of every service manager, one value a step.
    pub fn series(&self) -> Vec<Series> {
        let driven = self.members.iter().enumerate().filter(|(_, m)| !m.demand.is_empty());
        driven.map(|(index, m)| self.metrics.series(index, m.name.as_str(), &m.demand)).collect()
    }

    #[cfg(test)]
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn next_instant(&self) -> Option<Time> {
        // What the starts of the actors have caused.
        let begun = self.agenda.is_called().then_some(self.now);
        let arrival = self.arrivals.first_key_value().map(|((time, _), _)| *time);
        let next = [begun, arrival, self.next_measurement(), self.agenda.next()];
        next.into_iter().flatten().min().map(|next| next.max(self.now))
    }

    fn next_measurement(&self) -> Option<Time> {
        let k = i64::try_from(self.next_step).ok()?;
        (self.next_step < self.driven.1).then(|| self.window.start().plus(self.step.times(k)))
    }

    /// One instant: rounds until nothing is due any more. A round visits, in order, those who have
    /// something to do; what they cause is for the next one.
    fn instant(&mut self) -> Result<(), EmulationError> {
        if self.next_measurement() == Some(self.now) {
            let step = self.next_step;
            self.next_step += 1;
            self.driven.0.iter().for_each(|&index| self.agenda.call(index));
            self.round(Some(step))?;
        }
        for _ in 0..MAX_ROUNDS {
            if !self.round(None)? {
                return Ok(());
            }
        }
        let due = self.agenda.due(self.now);
        let due = due.into_iter().map(|index| self.members[index].name.to_string());
        let due = due.collect::<Vec<_>>().join(", ");
        Err(EmulationError::Livelock { at: self.now, due })
    }

    /// Answers whether there was anybody to visit.
    fn round(&mut self, measured: Option<usize>) -> Result<bool, EmulationError> {
        self.take_arrivals();
        let (mut due, mut inboxes) = std::mem::take(&mut self.visits);
        self.agenda.take_due(self.now, &mut due);
        let take = |index: usize| (index, std::mem::take(&mut self.members[index].inbox));
        inboxes.extend(due.drain(..).map(take));
        let visits = !inboxes.is_empty();
        for (index, inbox) in inboxes.drain(..) {
            let inputs = self.inputs(index, inbox, measured);
            self.repeat(index);
            self.hand_in(index, inputs)?;
            if self.consult(index)? && self.members[index].host.actor().open_round().is_some() {
                // The decision has opened the next round of the mapper.
                self.agenda.call(index);
            }
            self.plan(index);
        }
        self.visits = (due, inboxes);
        Ok(visits)
    }

    /// Notes when an actor has something to do next, after whatever has happened to it.
    fn plan(&mut self, index: usize) {
        let Member { host, script, models, users, .. } = &mut self.members[index];
        let next = [host.next_timeout(), script.next(), models.next(), users.next()];
        self.agenda.plan(index, next.into_iter().flatten().min());
    }

    /// Moves what arrives now into the inboxes.
    fn take_arrivals(&mut self) {
        while let Some(entry) = self.arrivals.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let Arrival { member, what } = entry.remove();
            self.deliver(member, what);
        }
    }

    fn deliver(&mut self, member: usize, what: EventInput) {
        self.agenda.call(member);
        let inbox = &mut self.members[member].inbox;
        match what {
            EventInput::Answer(done) => inbox.answers.push(done),
            EventInput::Message(from, sequence, sealed) => {
                inbox.messages.push((from, sequence, sealed))
            }
            EventInput::Decision(decision) => inbox.decision = Some(decision),
        }
    }

    /// What an actor is handed in this round, in its order.
    fn inputs(&mut self, index: usize, mut inbox: Inbox, measured: Option<usize>) -> Vec<Input> {
        let member = &mut self.members[index];
        inbox.answers.sort_by_key(|done| (done.unit, done.epoch, done.step, done.lease));
        inbox.messages.sort_by_key(|(from, sequence, _)| (*from, *sequence));
        let answers = inbox.answers.into_iter().map(Input::Driver);
        let messages = inbox.messages.into_iter().map(|(_, _, sealed)| Input::Message(sealed));
        let mut inputs: Vec<Input> = answers.chain(messages).collect();
        if let Some(&value) = measured.and_then(|k| member.demand.get(k)) {
            let (signal, value) = (self.demand.clone(), i64::from(value));
            inputs.push(Input::Observe { signal, value });
        }
        inputs.extend(member.script.due(self.now));
        inputs.extend(member.models.due(self.now));
        inputs.extend(member.users.due(self.now));
        if member.host.is_due(self.now) {
            inputs.push(Input::Tick);
        }
        inputs.extend(inbox.decision.map(Input::Decision));
        inputs
    }

    /// Hands inputs to an actor, makes its facts durable, then lets out what follows from them.
    fn hand_in(&mut self, index: usize, inputs: Vec<Input>) -> Result<(), EmulationError> {
        if inputs.is_empty() {
            return Ok(());
        }
        let member = &mut self.members[index];
        let Turn { before, facts, problems, .. } = member.host.handle(self.now, inputs);
        let kept = Kept {
            name: &member.name,
            role: member.host.actor().role(),
            id: member.id,
            position: before,
            entries: &facts,
        };
        (self.keeper)(kept).and_then(|()| member.journal.append(before, &facts)).map_err(
            |cause| {
                let name = member.name.clone();
                EmulationError::Journal { name, cause }
            },
        )?;
        for entry in &facts {
            self.metrics.observe(index, entry);
            member.script.observe(entry);
            member.models.observe(entry, member.host.actor());
        }
        for problem in problems {
            *self.notes.entry(problem.to_string()).or_default() += 1;
        }
        member.host.durable(before + facts.len() as u64);
        self.release(index);
        Ok(())
    }

    /// Lets out what follows from durable facts.
    fn release(&mut self, index: usize) {
        let mut departures = std::mem::take(&mut self.departures);
        self.members[index].host.release(self.now, |departure| departures.push(departure));
        for departure in departures.drain(..) {
            match departure {
                Departure::Message(sequence, outgoing) => self.send(index, sequence, outgoing),
                Departure::Call(_, call) => self.perform(index, call),
            }
        }
        self.departures = departures;
    }

    /// The mapper's turn, at the end of the round. A guest whose time has ended wants nothing more.
    fn consult(&mut self, index: usize) -> Result<bool, EmulationError> {
        let Member { host, mapper, mapper_delay, .. } = &mut self.members[index];
        let over = self.now >= self.window.end();
        if over && host.actor().role() == Role::ServiceManager {
            return Ok(false);
        }
        let view = host.consultation(self.now);
        let Some(decision) = view.and_then(|view| mapper.decide(&view)) else { return Ok(false) };
        let delay = *mapper_delay;
        if delay == Span::ZERO {
            return self.hand_in(index, vec![Input::Decision(decision)]).map(|()| true);
        }
        self.arrive(index, delay, EventInput::Decision(decision));
        Ok(false)
    }

    /// Sends again what was not answered for too long.
    fn repeat(&mut self, index: usize) {
        for (id, outgoing) in self.members[index].host.repeat(self.now) {
            self.send(index, id, outgoing);
        }
    }

    fn seal(&mut self, index: usize, envelope: &Envelope) -> Outgoing {
        let sealed = self.members[index].host.actor_mut().seal(envelope);
        Outgoing { to: envelope.header.to, kind: envelope.message.kind(), sealed }
    }

    /// Puts a message on the network. One without delay arrives in the next round.
    fn send(&mut self, index: usize, sequence: Sequence, outgoing: Outgoing) {
        self.report.messages += 1;
        let Some(&to) = self.by_id.get(&outgoing.to) else { return };
        let role = |index: usize| self.members[index].host.actor().role();
        self.metrics.sent(outgoing.kind, role(index), role(to));
        let packet = Packet { from: index, to, sequence, kind: outgoing.kind };
        let from = self.members[index].id;
        for delay in self.network.fate(packet, self.now) {
            let what = EventInput::Message(from, sequence, outgoing.sealed.clone());
            self.arrive(to, delay, what);
        }
    }

    fn perform(&mut self, index: usize, call: Call) {
        let Some(driver) = &self.members[index].driver else { return };
        let answer = driver.perform(&call);
        let Call { unit, epoch, step, number, lease, .. } = call;
        let done = DriverResult { unit, epoch, step, number, lease, outcome: answer.outcome };
        self.arrive(index, answer.after, EventInput::Answer(done));
    }

    fn arrive(&mut self, member: usize, delay: Span, what: EventInput) {
        if delay == Span::ZERO {
            return self.deliver(member, what);
        }
        self.sent += 1;
        let at = self.now.plus(delay);
        self.arrivals.insert((at, self.sent), Arrival { member, what });
    }

    fn is_at_rest(&mut self) -> bool {
        let Self { arrivals, agenda, members, .. } = self;
        arrivals.is_empty()
            && agenda.all_rest(|index| members[index].host.actor().unfinished(1).is_empty())
    }

    fn finish(&mut self, rested: bool) {
        let unfinished = self.members.iter().flat_map(|member| {
            let lines = member.host.actor().unfinished(MAX_PROBLEMS);
            lines.into_iter().map(|line| format!("{}: {line}", member.name))
        });
        let mut problems: Vec<String> = unfinished.collect();
        let rested = rested && problems.is_empty();
        problems.extend(self.metrics.failures());
        self.report.verdict = match (rested, problems.is_empty()) {
            (true, true) => RunVerdict::Complete,
            (true, false) => RunVerdict::Failed,
            (false, _) => RunVerdict::Stalled,
        };
        problems.truncate(MAX_PROBLEMS);
        self.report.problems = problems;
    }
}

fn driven(members: &[Member]) -> (Vec<usize>, usize) {
    let driven = members.iter().enumerate().filter(|(_, member)| !member.demand.is_empty());
    let steps = members.iter().map(|member| member.demand.len()).max();
    (driven.map(|(index, _)| index).collect(), steps.unwrap_or(0))
}
