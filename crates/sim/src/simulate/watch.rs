//! The watch: sees all that happens, shows it to the auditor, counts it, and keeps a trace.

use std::collections::BTreeMap;

use tenure_core::actor::Actor as _;
use tenure_core::actor::Role;
use tenure_core::actor::effect::Problem;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::{Entry, Fact, Input};

use tenure_core::driver::Call;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::journal::Journal as _;
use tenure_core::runtime::outbox::Outgoing;
use tenure_core::wire::advert::Entries;
use tenure_core::wire::handover::Outcome;
use tenure_core::wire::hosts::Hosts;
use tenure_core::wire::message::{Envelope, Message, Sealed};
use tenure_core::wire::portion::{Portion, PortionOutcome};
use tenure_laws::{Auditor, Observation};

use super::boundary;
use super::fault::Fault;
use super::participant::{Before, Participant};
use super::trace::Trace;
use super::transition::{Moves, Transition};
use super::violation::Violation;

/// How many inputs without a fact go by for each whose actor is looked at before and after.
const LOOK_EVERY: u64 = 16;

/// What a run is seen to do.
pub(super) struct Watch {
    pub(super) auditor: Auditor,
    pub(super) trace: Trace,
    pub(super) names: BTreeMap<ActorId, Name>,
    margin: Span,
    pub(super) counts: Counts,
    inputs: u64,
    /// Those who died with all their facts durable, as they were.
    live: BTreeMap<ActorId, AnyActor>,
}

/// How often each thing happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Leases that became active at their guests.
    pub leases: u64,
    /// Messages that left their senders.
    pub messages: u64,
    /// Facts that became durable.
    pub facts: u64,
    /// Faults by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// Transitions: machine, state, event, next state.
    pub transitions: BTreeMap<Transition, u64>,
    /// Refusals sent or journaled, by their words.
    pub refusals: BTreeMap<&'static str, u64>,
    /// Boundaries hit exactly, and other points of interest.
    pub points: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Adds what another run did.
    pub fn add(&mut self, other: &Self) {
        fn sum<K: Ord + Clone>(into: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
            for (key, count) in from {
                *into.entry(key.clone()).or_default() += count;
            }
        }
        self.leases += other.leases;
        self.messages += other.messages;
        self.facts += other.facts;
        sum(&mut self.faults, &other.faults);
        sum(&mut self.transitions, &other.transitions);
        sum(&mut self.refusals, &other.refusals);
        sum(&mut self.points, &other.points);
    }
}

impl Watch {
    pub(super) fn new(auditor: Auditor, traced: bool, margin: Span) -> Self {
        Self {
            auditor,
            trace: Trace::new(traced),
            names: BTreeMap::new(),
            margin,
            counts: Counts::default(),
            inputs: 0,
            live: BTreeMap::new(),
        }
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        *self.counts.faults.entry(fault).or_default() += 1;
        self.trace.add(&[1, fault as u64]);
        self.trace.line(|| format!("    fault: {fault}"));
    }

    pub(super) fn point(&mut self, point: &'static str) {
        *self.counts.points.entry(point).or_default() += 1;
    }

    /// What an actor is before an input, if it is looked at.
    pub(super) fn before(&mut self, participant: &Participant) -> Option<Before> {
        self.inputs += 1;
        self.inputs.is_multiple_of(LOOK_EVERY).then(|| participant.before())
    }

    pub(super) fn input(&mut self, now: Time, participant: &Participant, input: &Input) {
        self.trace.add(&[2, now.as_micros() as u64, participant.run.life.into()]);
        self.trace.line(|| format!("{now} {} < {}", participant.name, describe(input)));
    }

    pub(super) fn unmoved(
        &mut self,
        now: Time,
        participant: &Participant,
        before: Option<Before>,
    ) -> Result<(), Violation> {
        let Some(before) = before else { return Ok(()) };
        let seen = Observation::Unmoved { actor: participant.id, same: participant.is_as(&before) };
        Ok(self.auditor.observe(now, &seen)?)
    }

    pub(super) fn problems(&mut self, problems: &[Problem]) {
        for problem in problems {
            self.point(match problem {
                Problem::Unopened(_) => "problem: a message was not opened",
                Problem::Message { .. } => "problem: a message was dropped",
                Problem::StaleDecision { .. } => "problem: a decision was stale",
                Problem::BadChoice(_) => "problem: a choice was refused",
                Problem::Command(_) => "problem: a command or an answer was refused",
                Problem::WrongRole { .. } => "problem: an input was for another role",
            });
            self.trace.line(|| format!("    problem: {problem}"));
        }
    }

    /// A message arrives at a boundary of what it is about, it seems.
    pub(super) fn arrives(&mut self, now: Time, participant: &Participant, sealed: &Sealed) {
        let point = boundary::arrival(participant.time(now), self.margin, sealed);
        point.into_iter().for_each(|point| self.point(point));
    }

    pub(super) fn repeats(
        &mut self,
        now: Time,
        participant: &Participant,
        outgoing: &Outgoing,
    ) -> Result<(), Violation> {
        match outgoing.sealed.peek() {
            Ok(envelope) => self.leaves(now, participant, &envelope, &outgoing.sealed),
            Err(_) => Ok(()),
        }
    }

    pub(super) fn sent(
        &mut self,
        now: Time,
        participant: &Participant,
        envelope: &Envelope,
        sealed: &Sealed,
    ) -> Result<(), Violation> {
        let refusal = match &envelope.message {
            Message::Refused { refusal, .. } => Some(refusal),
            Message::Closed { refusal, .. } => refusal.as_ref(),
            Message::Delegate { .. }
            | Message::Delegated { .. }
            | Message::Request(_)
            | Message::Granted { .. }
            | Message::Waiting { .. }
            | Message::Offered { .. }
            | Message::Accept { .. }
            | Message::Withdraw(_)
            | Message::Redeem { .. }
            | Message::Leased { .. }
            | Message::Close { .. }
            | Message::Return { .. }
            | Message::Returned { .. }
            | Message::Modify { .. }
            | Message::Modified { .. }
            | Message::Reclaim { .. }
            | Message::Reclaimed { .. }
            | Message::Recall { .. }
            | Message::Recalled { .. }
            | Message::RecallNotice { .. }
            | Message::RecallNoted { .. }
            | Message::UnitFailed { .. }
            | Message::Ping
            | Message::Inquire(_)
            | Message::Available { .. }
            | Message::Pong { .. }
            | Message::Keys { .. }
            | Message::KeysNoted { .. }
            | Message::Need(_)
            | Message::Noted { .. }
            | Message::Hosts(_)
            | Message::HostsNoted { .. }
            | Message::HostsChanged { .. }
            | Message::Restate { .. }
            | Message::HandOver(_)
            | Message::HandedBack(_)
            | Message::AskPortion(_)
            | Message::PortionBack(_)
            | Message::PortionDecided { .. }
            | Message::Heartbeat { .. }
            | Message::HeartbeatHeard { .. }
            | Message::Advert(_)
            | Message::AdvertWanted
            | Message::Join(_)
            | Message::Joined { .. }
            | Message::Credit { .. }
            | Message::Credited { .. } => None,
        };
        if let Some(refusal) = refusal {
            *self.counts.refusals.entry(refusal.word()).or_default() += 1;
        }
        self.leaves(now, participant, envelope, sealed)
    }

    fn leaves(
        &mut self,
        now: Time,
        participant: &Participant,
        envelope: &Envelope,
        sealed: &Sealed,
    ) -> Result<(), Violation> {
        self.counts.messages += 1;
        let sequence = envelope.header.sequence;
        self.trace.add(&[3, now.as_micros() as u64, sequence.position, sequence.index.into()]);
        let names = &self.names;
        self.trace.line(|| {
            let to = names.get(&envelope.header.to).map_or("unknown", Name::as_str);
            format!("{now} {} > {to}: {}", participant.name, say(&envelope.message))
        });
        if participant.is_stale() {
            // It repeats what it said before.
            self.fault(Fault::Stale);
            return Ok(());
        }
        Ok(self.auditor.observe(now, &Observation::Sent { envelope, sealed })?)
    }

    pub(super) fn called(
        &mut self,
        now: Time,
        participant: &Participant,
        call: &Call,
    ) -> Result<(), Violation> {
        self.trace.add(&[4, now.as_micros() as u64, call.epoch.0, call.unit.0.into()]);
        self.trace.line(|| {
            let Call { unit, epoch, lease, .. } = call;
            format!(
                "{now} {} calls {} of {unit} in {epoch:?} for {lease}",
                participant.name,
                call.step.word()
            )
        });
        if participant.is_stale() {
            let what = format!("{} calls its driver behind its journal", participant.name);
            return Err(Violation::stuck(now, what));
        }
        Ok(self.auditor.observe(now, &Observation::Called { actor: participant.id, call })?)
    }

    /// Facts are durable: they are folded one by one, and the auditor sees them.
    pub(super) fn durable(
        &mut self,
        now: Time,
        participant: &mut Participant,
        position: u64,
        entries: &[Entry],
    ) -> Result<(), Violation> {
        self.counts.facts += entries.len() as u64;
        for entry in entries {
            let moves = Moves::of(entry, &participant.fold);
            let point = boundary::fact(entry, self.margin, &participant.fold);
            if let Some(point) = point {
                self.point(point);
            }
            participant.fold.replay(entry).map_err(|bad| {
                let what = format!("the journal of {} does not fold: {bad}", participant.name);
                Violation::stuck(now, what)
            })?;
            participant.keep_if_due();
            for transition in moves.made(&participant.fold) {
                self.count(participant, transition);
            }
            self.trace.line(|| format!("{now} {} * {}", participant.name, describe_entry(entry)));
        }
        let seen = Observation::Durable { actor: participant.id, position, entries };
        Ok(self.auditor.observe(now, &seen)?)
    }

    fn count(&mut self, participant: &Participant, transition: Transition) {
        let (_, from, _, to) = transition;
        let guest = participant.role == Role::ServiceManager;
        if guest && from.starts_with("Joining") && to.starts_with("Active") {
            self.counts.leases += 1;
        }
        *self.counts.transitions.entry(transition).or_default() += 1;
    }

    /// A participant crashes. If all its facts are durable, it must recover the same state.
    pub(super) fn dies(
        &mut self,
        now: Time,
        participant: &mut Participant,
    ) -> Result<(), Violation> {
        self.trace.add(&[5, now.as_micros() as u64, participant.run.life.into()]);
        self.trace.line(|| format!("{now} {} dies", participant.name));
        let (id, durable) = (participant.id, participant.journal.len());
        let whole = !participant.doubled && participant.rival.is_none();
        let host = participant.run.host.take();
        match host.filter(|host| whole && host.position() == durable) {
            Some(live) => self.live.insert(id, live.into_actor()),
            None => self.live.remove(&id),
        };
        if participant.rival.is_some() {
            return Ok(());
        }
        Ok(self.auditor.observe(now, &Observation::Crashed { actor: id })?)
    }

    pub(super) fn recovered(
        &mut self,
        now: Time,
        participant: &mut Participant,
    ) -> Result<(), Violation> {
        self.trace.line(|| format!("{now} {} is back", participant.name));
        let id = participant.id;
        let resumes = participant.resumes().map_err(|cause| {
            let what =
                format!("{} does not come back from its snapshot: {cause}", participant.name);
            Violation::stuck(now, what)
        })?;
        let Some(actor) = participant.actor() else { return Ok(()) };
        let live = self.live.remove(&id).map(|live| live == *actor);
        let same = [live, resumes].into_iter().flatten().reduce(|one, other| one && other);
        let seen = Observation::Recovered { actor: id, position: actor.position(), same };
        Ok(self.auditor.observe(now, &seen)?)
    }
}

fn describe(input: &Input) -> String {
    match input {
        Input::Start => "start".to_owned(),
        Input::Message(sealed) => match sealed.peek() {
            Ok(envelope) => say(&envelope.message),
            Err(error) => format!("garbage: {error}"),
        },
        Input::Tick => "tick".to_owned(),
        Input::Driver(done) => format!(
            "{} of {} in {:?} for {}: {}",
            done.step.word(),
            done.unit,
            done.epoch,
            done.lease,
            if done.outcome.is_ok() { "done" } else { "failed" }
        ),
        Input::Observe { signal, value } => format!("{signal} is {value}"),
        Input::Command(command) => short(format!("{command:?}")),
        Input::Ordered(command, order) => {
            short(format!("{command:?} under key {} {}", order.key, order.part))
        }
        Input::Decision(decision) => short(format!("{decision:?}")),
    }
}

#[allow(clippy::too_many_lines, reason = "a case for each kind of message")]
fn say(message: &Message) -> String {
    let kind = message.kind();
    match message {
        Message::Delegate { ticket, .. } => format!("{kind} {} ({ticket})", ticket.hash()),
        Message::Delegated { delegation, generation } => {
            format!("{kind} {delegation} generation {generation}")
        }
        Message::Ping
        | Message::Pong { .. }
        | Message::Available { .. }
        | Message::AdvertWanted => kind.to_owned(),
        Message::Inquire(inquiry) => format!("{kind} over {}", inquiry.term),
        Message::Request(request) => {
            format!("{kind} {} from {} for {}", request.id, request.earliest, request.duration)
        }
        Message::Granted { request, tickets } => {
            let tickets: Vec<String> =
                tickets.iter().map(|(_, ticket)| format!("{} ({ticket})", ticket.hash())).collect();
            format!("{kind} {request}: {}", tickets.join(", "))
        }
        Message::Keys { .. }
        | Message::KeysNoted { .. }
        | Message::Join(_)
        | Message::Joined { .. } => format!("{kind} {}", number_of(message)),
        Message::Recall { .. }
        | Message::Recalled { .. }
        | Message::RecallNotice { .. }
        | Message::RecallNoted { .. }
        | Message::UnitFailed { .. } => format!("{kind} {}", say_of_units(message)),
        Message::Redeem { ticket, lease, .. } => {
            format!("{kind} {} ({ticket}) for {lease}", ticket.hash())
        }
        Message::Leased { ticket, term, units } => {
            format!("{kind} {ticket} {term} {}", in_one(units.iter().map(|unit| unit.unit)))
        }
        Message::Close { tickets } => {
            format!("{kind} {}", in_one(tickets.iter().map(|ticket| ticket.hash())))
        }
        Message::Closed { ticket, refusal, receipts } => {
            let why = refusal.as_ref().map_or("ended", |refusal| refusal.word());
            format!("{kind} {ticket}: {why}, {} receipts", receipts.len())
        }
        Message::Credit { receipts } => {
            format!("{kind} {}", in_one(receipts.iter().map(|receipt| receipt.what.link)))
        }
        Message::Credited { receipts } => {
            let named = receipts.iter().map(|(link, number)| format!("{link} {number}"));
            format!("{kind} {}", in_one(named))
        }
        Message::Return { ticket, number, part } => {
            format!("{kind} {number} of {}: {part:?}", ticket.hash())
        }
        Message::Returned { ticket, number, receipts } => {
            format!("{kind} {number} of {ticket}: {} receipts", receipts.len())
        }
        Message::Modify { ticket, number, .. } => format!("{kind} {number} of {}", ticket.hash()),
        Message::Modified { ticket, number, units } => {
            format!("{kind} {number} of {ticket}: {} units", units.len())
        }
        Message::Reclaim { ticket } => format!("{kind} {}", ticket.hash()),
        Message::Reclaimed { ticket, redeemed, receipts } => {
            format!("{kind} {ticket}: redeemed {redeemed}, {} receipts", receipts.len())
        }
        Message::Waiting { request, waiting } => format!("{kind} {request}: {}", waiting.place),
        Message::Offered { request, offers, until, .. } => {
            let until = until.map_or_else(|| "a plan".to_owned(), |until| format!("until {until}"));
            format!("{kind} {request}: {} offers, {until}", offers.len())
        }
        Message::Accept { request, offer } => format!("{kind} {request}: offer {offer}"),
        Message::Withdraw(request) => format!("{kind} {}", request.id),
        Message::Need(need) => format!("{kind} {} {}", need.service, need.revision),
        Message::Noted { service, revision } | Message::HostsChanged { service, revision } => {
            format!("{kind} {service} {revision}")
        }
        Message::Hosts(Hosts { service, revision, hosts }) => {
            format!("{kind} {service} {revision}: {} hosts", hosts.len())
        }
        Message::HostsNoted { service, revision, contests } => {
            format!("{kind} {service} {revision}: {} contests", contests.len())
        }
        Message::Advert(advert) => match &advert.entries {
            Entries::All(entries) => format!("{kind} {} entries", entries.len()),
            Entries::Same(_) => format!("{kind} as before"),
        },
        Message::HandOver(handover) => format!("{kind} by {} brokers", handover.path.len()),
        Message::HandedBack(back) => match &back.outcome {
            Outcome::Granted(tickets) => {
                format!("{kind} {}: {} tickets", back.request, tickets.len())
            }
            Outcome::Refused(refusal) => format!("{kind} {}: {refusal}", back.request),
            Outcome::Countered(refusal, offers) => {
                format!("{kind} {}: {refusal}; {} offers", back.request, offers.len())
            }
            Outcome::Offered(offers, until) => {
                let held = if until.is_some() { ", held" } else { "" };
                format!("{kind} {}: {} offers{held}", back.request, offers.len())
            }
            Outcome::Seen => format!("{kind} {}: seen", back.request),
        },
        Message::AskPortion(asked) => {
            let Portion { round, units, .. } = &asked.portion;
            let brokers = asked.handover.path.len();
            format!("{kind} by {brokers} brokers, round {round}: {} items", units.len())
        }
        Message::PortionBack(back) => match &back.outcome {
            PortionOutcome::Held { units, refusal, .. } => {
                let all = if refusal.is_none() { ", all" } else { "" };
                format!("{kind} {}: holds {} items{all}", back.request, units.len())
            }
            PortionOutcome::Granted(tickets) => {
                format!("{kind} {}: {} tickets", back.request, tickets.len())
            }
            PortionOutcome::Refused(refusal) => format!("{kind} {}: {refusal}", back.request),
            PortionOutcome::Seen => format!("{kind} {}: seen", back.request),
        },
        Message::PortionDecided { request, round, taken } => {
            format!("{kind} {request}, round {round}: {}", if *taken { "taken" } else { "let go" })
        }
        Message::Heartbeat { leases } => format!("{kind} of {}", in_one(leases.iter())),
        Message::HeartbeatHeard { sent, leases } => {
            format!("{kind} of {sent}: {}", in_one(leases.iter()))
        }
        Message::Restate { needs, hosts } => {
            format!("{kind} {} needs, hosts of {}", needs.len(), hosts.len())
        }
        Message::Refused { subject, refusal, offers } => {
            format!("{kind} {subject:?}: {refusal}, {} offers", offers.len())
        }
    }
}

fn in_one(words: impl Iterator<Item = impl ToString>) -> String {
    words.map(|word| word.to_string()).collect::<Vec<_>>().join(" ")
}

/// The number that a message is about, of those that are about no more.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others are said in full")]
fn number_of(message: &Message) -> u64 {
    match message {
        Message::Keys { number } | Message::KeysNoted { number } => u64::from(*number),
        Message::Join(join) => join.invitation.invitation.number,
        Message::Joined { number, .. } => *number,
        _ => 0,
    }
}

fn describe_entry(entry: &Entry) -> String {
    let body = match &entry.fact {
        Fact::ServiceManager(fact) => format!("{fact:?}"),
        Fact::Broker(fact) => format!("{fact:?}"),
        Fact::SiteAuthority(fact) => format!("{fact:?}"),
    };
    short(format!("{} at {}: {body}", entry.fact.kind().0, entry.at))
}

/// Text that fits a line.
fn short(text: String) -> String {
    const MOST: usize = 220;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// What a message says that is about units which a lease loses.
#[expect(clippy::wildcard_enum_match_arm, reason = "asked of no other messages")]
fn say_of_units(message: &Message) -> String {
    match message {
        Message::Recall { ticket, level } => {
            let link = ticket.hash();
            format!("{} of {link} to {} from {}", level.number, level.units, level.from)
        }
        Message::Recalled { link, number, at, enforced, .. } => {
            format!("{number} of {link} at {at}{}", if *enforced { ", done" } else { "" })
        }
        Message::RecallNotice { ticket, told } => {
            format!("{} of {ticket} to {} from {}", told.number, told.units, told.at)
        }
        Message::RecallNoted { ticket, number, .. } => format!("{number} of {ticket}"),
        Message::UnitFailed { ticket, unit, why } => format!("{unit} of {ticket}: {why}"),
        _ => String::new(),
    }
}
