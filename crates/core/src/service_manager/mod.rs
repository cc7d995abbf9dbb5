//! The service manager: asks, redeems and uses, for a guest.

pub mod advice;
pub mod ambiguity;
mod apply;
mod asking;
mod blacklist;
mod change;
mod command;
mod commands;
mod consult;
pub mod cost;
pub mod facts;
mod failing;
pub mod fidelity;
pub mod group;
pub mod hosts;
mod common;
mod heartbeats;
mod held;
mod inquiring;
pub mod joint;
mod reclaim;
pub(crate) mod revise;
mod handle;
pub mod machine;
pub mod mapper;
pub mod members;
pub mod plan;
mod lease_event;
mod modify;
mod needs;
mod recall;
pub mod request;
mod rest;
pub mod sequence;
pub mod services;
mod split;
mod steps;
mod usage;
mod state;
mod survey;
mod view;
mod warn;

pub use self::change::Victims;
pub use self::command::{Command, Part};
pub use self::consult::{ANSWER_WITHIN, GateAnswer};
pub use self::failing::FailedUnits;
pub use survey::{LeaseSurvey, RestStanding, Standing};

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::actor::common::{CommonActor as _, PeerObligation};
use crate::actor::effect::{Effect, EffectId, Input, Problem};
use crate::actor::fact::BadFact;
use crate::actor::order;
use crate::actor::snapshot::{self, RestoreError, Settings};
use crate::actor::{Actor, Base, Role, Setup, at_most};
use crate::driver::{Call, Epoch, Step, UnitId};
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Term, Time};
use crate::service_manager::cost::Costs;
use crate::service_manager::facts::Fact;
use crate::service_manager::machine::{Change, State, UnitUse};
use crate::service_manager::mapper::Decision;
use crate::ticket::Ticket;
use crate::ticket::ledger::LEDGER_RETENTION;
use crate::ticket::link::{Assurance, LinkHash};
use crate::wire::message::Message;
use crate::wire::refusal::Refusal;

/// What one call of [`handle`](Actor::handle) produced.
pub type Output = crate::actor::effect::Output<Fact>;

/// A service manager.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceManager {
    pub(crate) base: Base,
    /// How long before the end of a lease its guest starts to leave.
    leave_before: Span,
    /// What says whose a unit is that several claim.
    rule: ambiguity::Rule,
    state: state::State,
    /// The leases, and the requests without one, that are not over. It follows from the state.
    live: BTreeSet<LeaseId>,
    /// Those of them that are in slices of services. It follows from the state.
    tended: BTreeMap<SliceName, BTreeSet<LeaseId>>,
    /// What views show beside the state. It follows from the state.
    index: view::Index,
    heartbeats: heartbeats::Heartbeats,
}

/// A unit that the guest's software uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinedUnit {
    /// The lease that it is on.
    pub lease: LeaseId,
    /// Its site.
    pub site: ActorId,
    /// Its number there.
    pub unit: UnitId,
    /// Its epoch in this tenancy.
    pub epoch: Epoch,
}

/// Units of a type over a term that are counted as held.
type Bookings = Vec<(Name, Term, u32)>;

/// A lease with what its state does not carry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub(crate) state: State,
    pub(crate) resource: Name,
    pub(crate) units: u32,
    /// The term held.
    pub(crate) term: Term,
    slice: SliceName,
    /// The fewest units that will do.
    min_units: NonZeroU32,
    configuration: Properties,
    /// What it adds to the holdings.
    booked: Bookings,
    /// Its tickets, to be found by.
    tickets: Vec<LinkHash>,
    /// The site that closed it of its own accord, and why.
    closed_by: Option<(ActorId, Refusal)>,
    /// The group that it belongs to, if there is one.
    group: Option<u64>,
    /// Where it stands among those that end.
    ends_at: Option<Time>,
    /// When nothing about it can come any more, less the clock margin.
    expires_at: Time,
    /// What its site has said of recalls, by the links that are recalled.
    recalls: BTreeMap<LinkHash, recall::Recalled>,
    /// What its guest's driver is warned of.
    warnings: warn::Warnings,
    /// What failed of it.
    failures: failing::Failures,
    /// What it costs.
    costs: Costs,
    /// What stands behind its units.
    assurance: Assurance,
    /// How much of that its guest could use.
    worth: fidelity::Worth,
    /// How long its units were in use.
    usage: BTreeMap<UnitId, usage::Usage>,
    /// What it waits for.
    sequence: sequence::Sequence,
    /// Which unit the guest's driver has refused to leave since it was last to go back, and why.
    stays: Option<String>,
    /// How long it goes on without a heartbeat, once it has units; to its end unless set.
    keep_alive: Option<Span>,
    /// Since when its site was not heard, if it is given back for that.
    unheard: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Obligation {
    /// The request of this number.
    Ask(u64),
    /// The tickets of an offer to it.
    Accept(u64),
    /// That it is off.
    Withdraw(u64),
    Redeem(LeaseId),
    Extend(LeaseId),
    Return(LeaseId),
    Join(LeaseId, UnitId),
    Leave(LeaseId, UnitId),
    Close(LeaseId),
    Credit(LeaseId),
    Modify(LeaseId),
    /// The guest's driver, of a change of a unit, under this number.
    Tell(LeaseId, UnitId, u32),
    /// The site is asked for what nobody claims of a part that was handed on.
    Reclaim(LinkHash),
    /// Which units of a recalled lease go first.
    Victims(LeaseId),
    /// That units of this part of a kept ticket are recalled.
    Recall(LinkHash),
    /// The guest's driver, of a unit that is recalled, under this number.
    Warn(LeaseId, UnitId, u32),
    /// The site takes back what is left of a kept ticket that was split.
    Rest(LeaseId),
    /// Its issuer is to know of that.
    RestCredit(LeaseId),
    /// What an actor of any role owes a peer.
    Common(PeerObligation),
    /// The guest's driver, of a package on a unit, under the number of the installation.
    Install(LeaseId, UnitId, u32),
    /// That the package is to go.
    Remove(LeaseId, UnitId, u32),
    /// A broker is to know what a service wants, by this revision.
    Need(u64),
    /// A broker is to know which hosts a service uses, by this revision.
    Hosts(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Timer {
    Wake,
    Request(u64),
    Seam(LeaseId),
    Lease(LeaseId),
    Group(u64),
    /// A part that was handed on may be unclaimed.
    Reclaim(LinkHash),
    /// A recall takes units of a lease.
    Recall(LeaseId),
    /// Units that the guest's driver refused go back.
    Refused(LeaseId),
    /// Some of the rest of a kept ticket goes back.
    Rest(LeaseId),
    /// What a lease waits for has changed.
    Sequence(LeaseId),
    /// A plan of packages ends, or is forgotten.
    Plan(u64),
    /// What was measured of a service is too old.
    Services,
}

impl ServiceManager {
    /// A service manager with an empty journal. Guests start to leave `leave_before` the end of a lease;
    /// zero drops the units at the end without a leave.
    pub fn new(setup: Setup, leave_before: Span) -> Self {
        Self {
            base: Base::new(setup),
            leave_before,
            rule: ambiguity::Rule::default(),
            state: state::State::default(),
            live: BTreeSet::new(),
            tended: BTreeMap::new(),
            index: view::Index::default(),
            heartbeats: heartbeats::Heartbeats::default(),
        }
    }

    /// Where a lease is in its life.
    pub fn lease(&self, id: LeaseId) -> Option<&State> {
        self.state.leases.get(&id).map(|lease| &lease.state)
    }

    /// Where a request is in its life.
    pub fn request(&self, number: u64) -> Option<&request::State> {
        self.state.requests.get(&number).map(|request| &request.state)
    }

    /// All leases that are remembered.
    pub fn leases(&self) -> impl Iterator<Item = (LeaseId, &State)> {
        self.state.leases.iter().map(|(&id, lease)| (id, &lease.state))
    }

    /// The units that the guest's software uses, by lease and number. Passes over leases that are over.
    pub fn joined_units(&self) -> impl Iterator<Item = JoinedUnit> {
        let held = |&lease| Some((lease, self.state.leases.get(&lease)?.state.held()?));
        self.live.iter().filter_map(held).flat_map(|(lease, held)| {
            let site = held.tickets.first().map(Ticket::site);
            let joined = held.units.iter().filter(|(_, (_, usage))| *usage == UnitUse::Joined);
            joined.filter_map(move |(&unit, (leased, _))| {
                Some(JoinedUnit { lease, site: site?, unit, epoch: leased.epoch })
            })
        })
    }

    /// The slices and what is in them: leases, and requests that have none.
    pub fn slices(&self) -> BTreeMap<&SliceName, Vec<LeaseId>> {
        let mut slices: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for survey in self.survey() {
            slices.entry(survey.slice).or_default().push(survey.id);
        }
        slices
    }

    fn effect(&self, obligation: &Obligation, cause: (EffectId, Time)) -> Option<Effect> {
        let send =
            |to, message| Some(Effect::Send(Box::new(self.base.envelope(to, cause, message))));
        let post = |(to, message)| send(to, message);
        match *obligation {
            Obligation::Ask(number) => {
                let request = self.open_request(number)?;
                send(request.broker, Message::Request(request.wanted.as_ref().clone()))
            }
            Obligation::Accept(number) => {
                let request = self.open_request(number)?;
                let request::State::Accepting { number: offer, .. } = request.state else {
                    return None;
                };
                let accept = Message::Accept { request: request.wanted.id, offer };
                send(request.broker, accept)
            }
            Obligation::Withdraw(number) => {
                let request = self.open_request(number)?;
                send(request.broker, Message::Withdraw(request.wanted.as_ref().clone()))
            }
            Obligation::Redeem(id) => {
                let State::Redeeming { ticket } = self.lease(id)? else { return None };
                send(ticket.site(), self.redeem(id, ticket, &[])?)
            }
            Obligation::Extend(id) => {
                let held = self.lease(id)?.held()?;
                let Change::Redeeming { ticket, victims, .. } = &held.change else { return None };
                send(ticket.site(), self.redeem(id, ticket, victims)?)
            }
            Obligation::Return(id) => self.return_message(id).and_then(post),
            Obligation::Modify(id) => self.modify_message(id).and_then(post),
            Obligation::Join(id, unit) => self.call_again(id, unit, Step::Join),
            Obligation::Leave(id, unit) => self.call_again(id, unit, Step::Leave),
            Obligation::Tell(id, unit, number) => self.call(id, unit, (Step::Modify, number)),
            Obligation::Close(id) => {
                let State::Closing { tickets, .. } = self.lease(id)? else { return None };
                let (first, extensions) = tickets.split_first()?;
                // Extensions that had ended when this became pending have nothing to give back.
                let ahead = extensions.iter().filter(|ticket| cause.1 < ticket.bottom().term.end());
                let tickets = std::iter::once(first).chain(ahead).cloned().collect();
                send(first.site(), Message::Close { tickets })
            }
            Obligation::Reclaim(part) => {
                let ticket = self.part(part)?;
                send(ticket.site(), Message::Reclaim { ticket })
            }
            Obligation::Credit(id) => {
                let receipts = self.lease(id)?.to_credit();
                let issuer = receipts.first()?.what.issuer;
                send(issuer, Message::Credit { receipts: receipts.to_vec() })
            }
            Obligation::Victims(id) => self.victims_message(id).and_then(post),
            Obligation::Recall(link) => self.recall_message(link).and_then(post),
            Obligation::Warn(id, unit, number) => self.warning(id, unit, number),
            Obligation::Rest(id) => self.rest_message(id).and_then(post),
            Obligation::RestCredit(id) => self.rest_credit(id).and_then(post),
            Obligation::Common(duty) => self.duty_message(duty, cause),
            Obligation::Install(id, unit, number) => {
                self.package_call((id, unit), (Step::Install, number))
            }
            Obligation::Remove(id, unit, number) => {
                self.package_call((id, unit), (Step::Remove, number))
            }
            Obligation::Need(revision) => self.need_message(revision).and_then(post),
            Obligation::Hosts(revision) => self.hosts_message(revision).and_then(post),
        }
    }

    fn redeem(&self, id: LeaseId, ticket: &Ticket, victims: &[UnitId]) -> Option<Message> {
        let lease = self.state.leases.get(&id)?;
        Some(Message::Redeem {
            ticket: ticket.clone(),
            lease: id,
            slice: lease.slice.clone(),
            min_units: lease.min_units.min(ticket.bottom().units),
            configuration: lease.configuration.clone(),
            victims: victims.to_vec(),
        })
    }

    fn call_again(&self, id: LeaseId, unit: UnitId, step: Step) -> Option<Effect> {
        let number = self.lease(id)?.held()?.times_again(unit);
        self.call(id, unit, (step, number))
    }

    fn call(&self, id: LeaseId, unit: UnitId, (step, number): (Step, u32)) -> Option<Effect> {
        let lease = self.state.leases.get(&id)?;
        let held = lease.state.held()?;
        let (leased, _) = held.units.get(&unit)?;
        let told = consult::beside(&leased.properties, &lease.sequence.told);
        Some(Effect::Call(Call {
            site: held.tickets.first()?.site(),
            unit,
            epoch: leased.epoch,
            step,
            number,
            resource: lease.resource.clone(),
            quantity: leased.quantity,
            guest: self.base.id(),
            slice: lease.slice.clone(),
            lease: id,
            properties: told.unwrap_or_else(|_| leased.properties.clone()),
            deadline: self.useful_until(id, unit, step),
        }))
    }
}

impl Actor for ServiceManager {
    type Fact = Fact;
    type Command = Command;
    type Decision = Decision;

    fn handle(&mut self, now: Time, input: Input<Command, Decision>, out: &mut Output) {
        let first = out.facts.len();
        match input {
            Input::Start => self.start(now, out),
            Input::Message(sealed) => {
                self.message(now, &sealed, out);
                self.base.credentials.forget_shown();
            }
            Input::Tick => self.tick(now, out),
            Input::Driver(done) => self.driver_done(now, done, out),
            Input::Observe { signal, value } => self.observe(now, signal, value, out),
            Input::Command(command) => self.command(now, command, out),
            Input::Ordered(command, order) => {
                let act = |actor: &mut Self, out: &mut Output| actor.command(now, command, out);
                order::carry_out((self, now), order, out, act);
            }
            Input::Decision(decision) => self.decide(now, decision, out),
        }
        self.find_ambiguities(now, first, out);
        self.tell_needs(now, first, out);
        self.tell_hosts(now, first, out);
    }

    fn apply(&mut self, at: Time, fact: &Fact) -> Result<(), BadFact> {
        self.apply_fact(at, fact)?;
        self.base.position += 1;
        Ok(())
    }

    fn settings(&self) -> Settings {
        Settings {
            margin: self.base.margin(),
            leave_before: self.leave_before,
            renewals: Vec::new(),
        }
    }

    fn snapshot(&self) -> Vec<u8> {
        snapshot::write(Role::ServiceManager, &self.settings(), self.base.state(), &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let base;
        (base, self.state) = snapshot::read(Role::ServiceManager, &self.settings(), bytes)?;
        self.base.set_state(base);
        self.live = self.state.live().collect();
        self.tended =
            self.state.services.names().map(|name| (name.clone(), BTreeSet::new())).collect();
        self.heartbeats = heartbeats::Heartbeats::default();
        for id in self.live.clone() {
            self.tend(id);
            self.keep_beating(id, Time::MIN);
        }
        self.index = view::Index::of(&self.state);
        Ok(())
    }

    fn effects_after(&self, position: u64) -> Vec<(EffectId, Effect)> {
        let effect = |(id, obligation, at): (EffectId, &Obligation, Time)| {
            let effect = self.effect(obligation, (id, at))?;
            (!self.calls_ambiguous(obligation)).then_some((id, effect))
        };
        self.state.pending.after(position).filter_map(effect).collect()
    }

    fn is_pending(&self, id: EffectId) -> bool {
        let key = self.state.pending.key(id);
        self.state.pending.is_pending(id) && !key.is_some_and(|key| self.calls_ambiguous(key))
    }

    /// A site holds a ticket until its term begins, a broker a request that it said waits until its last word.
    fn held_until(&self, id: EffectId) -> Option<Time> {
        let key = *self.state.pending.key(id)?;
        if let Obligation::Redeem(lease) = key
            && let Some(State::Redeeming { ticket }) = self.lease(lease)
        {
            return Some(ticket.bottom().term.start());
        }
        let Obligation::Ask(number) = key else { return None };
        let request = self.open_request(number)?;
        request.waiting.as_ref().map(|_| request.wanted.answer_by)
    }

    fn open_round(&self) -> Option<u64> {
        self.state.rounds.open()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.state.timers.next()
    }

    fn next_volatile(&self) -> Option<Time> {
        self.next_heartbeat()
    }

    fn unfinished(&self, most: usize) -> Vec<String> {
        let live = self.live.iter().filter_map(|id| Some((id, self.standing(*id)?)));
        at_most(live.map(|(id, state)| format!("lease {id} is {}", state.word())), most)
    }

    fn base(&self) -> &Base {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base {
        &mut self.base
    }
}

fn is_live(state: &State) -> bool {
    !matches!(state, State::Closed { .. })
}

/// Counts units as held, or about to be.
fn book(
    holdings: &mut OrdMap<Name, Calendar>,
    booked: &mut Bookings,
    resource: &Name,
    term: Term,
    units: u32,
    at: Time,
) {
    let calendar = holdings.entry(resource.clone()).or_default();
    calendar.forget_until(at.minus(LEDGER_RETENTION));
    calendar.add(term, i64::from(units));
    // Nearly always the only one.
    booked.reserve_exact(1);
    booked.push((resource.clone(), term, units));
}

/// Counts what was booked as held no longer, from `from` on.
fn unbook(holdings: &mut OrdMap<Name, Calendar>, booked: &mut Bookings, from: Time) {
    for (resource, term, units) in booked.drain(..) {
        if let Some(rest) = term.from(from) {
            holdings.entry(resource).or_default().add(rest, -i64::from(units));
        }
    }
}

fn wrong(input: &'static str) -> Problem {
    Problem::WrongRole { role: "service manager", input }
}
