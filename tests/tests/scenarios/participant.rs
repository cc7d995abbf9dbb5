//! One actor of a script with all that a shell keeps for it.

use std::collections::BTreeMap;

use tenure_core::actor::effect::DriverResult;
use tenure_core::actor::settings::Described;
use tenure_core::runtime::{AnyActor, Entry, Fact};

use tenure_core::actor::{Actor, Role};
use tenure_core::broker::facts as broker;
use tenure_core::driver::{Call, DriverError, Step, UnitId};
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::host::Host;
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::journal::{Journal as _, MemoryJournal};
use tenure_core::runtime::mapper::AnyMapper;
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::ticket::link::LinkHash;

use super::gates::Scripted;
use super::keys;
use super::names::Names;
use super::network::Packet;

/// Builds an actor as it was before its first fact.
pub type Build = Box<dyn Fn() -> HostedActor>;

/// What a driver makes of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverBehavior {
    Works,
    Takes(Span),
    Fails,
    /// It refuses to join a unit or to set it up, and leaves it untouched.
    Refuses,
    /// It does not answer until the script has it answer.
    Hangs,
}

/// When an actor is to crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    /// As soon as it would journal a fact of this kind.
    pub kind: String,
    /// Before the fact is durable, or after it and before anything leaves.
    pub before: bool,
}

pub struct Participant {
    pub name: Name,
    pub id: ActorId,
    pub role: Role,
    pub signer: Signer,
    pub honest: bool,
    pub build: Build,
    pub host: Host,
    pub mapper: AnyMapper,
    /// What the mapper of a guest answers.
    pub scripted: Scripted,
    /// The same actor once more, from its journal alone.
    twin: AnyActor,
    pub journal: MemoryJournal,
    shell: ShellSettings,
    /// How far its clock is ahead, and what it has shown last.
    pub ahead: Span,
    shown: Time,
    pub up: bool,
    /// What it was when it crashed, if all of that was durable.
    pub last_seen: Option<Hash>,
    pub asleep: bool,
    pub crash_point: Option<CrashPoint>,
    /// Whether it crashes each time it has journaled something.
    pub fragile: bool,
    manners: BTreeMap<(Step, Option<UnitId>), DriverBehavior>,
    pub hanging: Vec<Call>,
    pub answers: Vec<DriverResult>,
    pub messages: Vec<Packet>,
    pub states: BTreeMap<(StatefulItem, String), &'static str>,
    known: Known,
    /// What it is started with from now on, as its shell describes that.
    pub settings: Described,
}

/// What its facts have spoken of, so that it can be asked after.
#[derive(Default)]
pub struct Known {
    pub requests: Vec<RequestId>,
    pub leases: Vec<LinkHash>,
}

/// A kind of object that has a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatefulItem {
    Lease,
    Group,
    Request,
    LeaseOn,
    Unit,
}

/// An actor's name, key, role and clock.
pub struct Identity {
    pub name: Name,
    pub signer: Signer,
    pub role: Role,
    pub honest: bool,
    pub ahead: Span,
}

/// How the shell of each actor does its part.
#[derive(Clone, Copy)]
pub struct ShellSettings {
    pub retry_policy: RetryPolicy,
    /// How often it asks for the clocks of peers.
    pub clock_check: Option<Span>,
}

impl ShellSettings {
    fn host(self, actor: AnyActor) -> Host {
        Host::new(actor, self.retry_policy).checking_clocks(self.clock_check)
    }
}

impl Participant {
    pub fn new(person: Identity, shell: ShellSettings, build: Build) -> Self {
        let Identity { name, signer, role, honest, ahead } = person;
        let (mut actor, mapper) = build().into_parts();
        actor.add_secrets(keys::later_secrets(&name));
        Self {
            name,
            id: signer.id(),
            role,
            signer,
            honest,
            twin: actor.clone(),
            host: shell.host(actor),
            mapper,
            scripted: Scripted::default(),
            build,
            journal: MemoryJournal::new(),
            shell,
            ahead,
            shown: Time::MIN,
            up: true,
            last_seen: None,
            asleep: false,
            crash_point: None,
            fragile: false,
            manners: BTreeMap::new(),
            hanging: Vec::new(),
            answers: Vec::new(),
            messages: Vec::new(),
            states: BTreeMap::new(),
            known: Known::default(),
            settings: Described::new(),
        }
    }

    pub fn actor(&self) -> &AnyActor {
        self.host.actor()
    }

    /// The time on its own clock, which never goes back while it is up.
    pub fn clock(&mut self, now: Time) -> Time {
        self.shown = self.shown.max(now.plus(self.ahead));
        self.shown
    }

    /// When it has something to do, by the true time.
    pub fn next(&mut self) -> Option<Time> {
        let repeat = self.host.next_repetition();
        let due = self.host.next_timer().map(|due| due.minus(self.ahead));
        [repeat, due].into_iter().flatten().min()
    }

    /// Puts a driver in its manner; for one unit, or for all that have none of their own.
    pub fn behave(&mut self, step: Step, unit: Option<UnitId>, behavior: DriverBehavior) {
        if unit.is_none() {
            self.manners.retain(|(of, _), _| *of != step);
        }
        self.manners.insert((step, unit), behavior);
    }

    pub fn well_behaved(&mut self) {
        self.manners.clear();
    }

    pub fn behavior(&self, step: Step, unit: UnitId) -> DriverBehavior {
        let own = self.manners.get(&(step, Some(unit)));
        own.or_else(|| self.manners.get(&(step, None))).cloned().unwrap_or(DriverBehavior::Works)
    }

    /// The actor as it was before its first fact.
    fn blank(&self) -> AnyActor {
        let built = (self.build)().started_with(self.settings.clone(), Described::new());
        let mut actor = built.into_parts().0;
        actor.add_secrets(keys::later_secrets(&self.name));
        actor
    }

    /// Back to what the journal holds: everything else is gone.
    pub fn recover(&mut self) {
        self.host = self.shell.host(self.blank());
        for entry in self.facts() {
            let applied = self.host.replay(&entry);
            assert!(applied.is_ok(), "{} cannot read its journal: {applied:?}", self.name);
        }
        self.host.recovered();
        self.shown = Time::MIN;
        self.answers.clear();
        self.hanging.clear();
    }

    pub fn facts(&self) -> Vec<Entry> {
        let entries = (0..self.journal.len()).filter_map(|position| self.journal.read(position));
        entries.map(|entry| entry.expect("a journal can be read")).collect()
    }

    /// Has the twin take in a fact; answers what changed its state, in the order of the things.
    pub fn follow(
        &mut self,
        entry: &Entry,
        names: &mut Names,
    ) -> Vec<(StatefulItem, String, String)> {
        let applied = self.twin.replay(entry);
        assert!(applied.is_ok(), "{} cannot read its journal: {applied:?}", self.name);
        match &entry.fact {
            Fact::Broker(broker::Fact::Requested(fact)) => {
                self.known.requests.push(fact.request.id)
            }
            Fact::Broker(broker::Fact::PortionHanded(fact)) => {
                self.known.requests.push(fact.request);
            }
            Fact::SiteAuthority(site_authority::Fact::Redeemed(fact)) => {
                self.known.leases.push(fact.ticket.hash());
            }
            Fact::SiteAuthority(site_authority::Fact::TicketSurrendered(fact)) => {
                self.known.leases.push(fact.ticket.hash());
            }
            _ => {}
        }
        let states = states(&self.twin, &self.known, names);
        let mut changes = Vec::new();
        for ((item, name), word) in &states {
            let old = self.states.get(&(*item, name.clone()));
            if old != Some(word) && (old.is_some() || *item != StatefulItem::Unit) {
                changes.push((*item, name.clone(), format!("{} -> {word}", old.unwrap_or(&"new"))));
            }
        }
        for ((item, name), word) in &self.states {
            if !states.contains_key(&(*item, name.clone())) {
                changes.push((*item, name.clone(), format!("{word} -> forgotten")));
            }
        }
        self.states = states;
        changes
    }

    /// Its state as it is stored, and read again from there.
    pub fn stored(&self) -> Vec<u8> {
        let bytes = self.twin.snapshot();
        let mut restored = self.blank();
        let read = restored.restore(&bytes);
        assert!(read.is_ok(), "{} cannot read its snapshot: {read:?}", self.name);
        assert!(restored == self.twin, "{}", self.name);
        bytes
    }

    /// What is pending, due and unfinished follows from the journal alone.
    pub fn compare_with_twin(&self) {
        let (live, twin) = (self.actor(), &self.twin);
        assert_eq!(live.position(), twin.position(), "{}", self.name);
        assert_eq!(live.effects_after(0), twin.effects_after(0), "{}", self.name);
        assert_eq!(live.next_timeout(), twin.next_timeout(), "{}", self.name);
        assert_eq!(live.unfinished(100), twin.unfinished(100), "{}", self.name);
    }
}

fn states(
    actor: &AnyActor,
    known: &Known,
    names: &mut Names,
) -> BTreeMap<(StatefulItem, String), &'static str> {
    match actor {
        AnyActor::ServiceManager(actor) => {
            let leases = actor.survey();
            let groups = actor.groups();
            let groups = groups
                .map(|(number, group)| ((StatefulItem::Group, number.to_string()), group.word()));
            leases
                .map(|lease| ((StatefulItem::Lease, names.lease(lease.id)), lease.state.word()))
                .chain(groups)
                .collect()
        }
        AnyActor::Broker(actor) => {
            let requests = known.requests.iter();
            let states = requests.filter_map(|&id| Some((id, actor.request(id)?.word())));
            states.map(|(id, word)| ((StatefulItem::Request, names.request(id)), word)).collect()
        }
        AnyActor::SiteAuthority(actor) => {
            let leases = known.leases.iter();
            let leases = leases.filter_map(|&hash| Some((hash, actor.lease(hash)?.word())));
            let leases =
                leases.map(|(hash, word)| ((StatefulItem::LeaseOn, names.hash(hash)), word));
            let units = actor.units();
            leases
                .chain(
                    units
                        .map(|(id, state, _)| ((StatefulItem::Unit, id.to_string()), state.word())),
                )
                .collect()
        }
    }
}

/// A driver's answer to a call.
pub fn done(call: &Call, works: bool) -> DriverResult {
    let Call { unit, epoch, step, number, lease, .. } = *call;
    let error = format!("the {} of {unit} broke", step.word());
    // What was changed is what the unit then has.
    let properties =
        if step == Step::Modify { call.properties.clone() } else { Properties::default() };
    let outcome = if works { Ok(properties) } else { Err(DriverError(error)) };
    DriverResult { unit, epoch, step, number, lease, outcome }
}

/// A driver's answer to a join or a setup that it refuses, with the unit untouched.
pub fn refused(call: &Call) -> DriverResult {
    let outcome = Err(DriverError::untouched(format!("{} does not suit", call.unit)));
    DriverResult { outcome, ..done(call, true) }
}
