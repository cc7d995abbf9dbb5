//! A small deployment: actors with journals, a network, drivers and mappers, driven as a shell does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use tenure_core::actor::effect::{DriverResult, Effect, EffectId, Problem};
use tenure_core::runtime::{AnyActor, Command, Entry, Fact, Input, Output};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::ambiguity::Rule;

use tenure_core::actor::{Actor, Peer, Role, Setup};
use tenure_core::broker::Broker;
use tenure_core::broker::availability::{Disclosure, Disclosures};
use tenure_core::broker::mapper::BrokerMapper;
use tenure_core::driver::{Call, DriverError, Step};
use tenure_core::mapper::deploy::Deploy;
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::first_fit::FirstFit;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::host::{Departure, Host, Turn};
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::journal::{Journal as _, MemoryJournal};
use tenure_core::runtime::mapper::AnyMapper;
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_core::service_manager::ServiceManager;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::mapper::{Ask, ServiceManagerMapper};
use tenure_core::site_authority::mapper::SiteAuthorityMapper;
use tenure_core::site_authority::{Limits, SiteAuthority};
use tenure_core::wire::message::{Envelope, Sealed};
use tenure_laws::{Auditor, Observation, Participants, Violation, digest};

use super::plan::{plan, with_stacks};
use super::{
    BROKER, ED25519, FAR_BROKER, FAR_OFF, FAR_SITE, GUEST, MARGIN, RIVAL, SITE, id, signer,
};

/// What a driver makes of a call.
pub(crate) enum Reaction {
    Works,
    Fails,
    /// The test answers it.
    Waits,
}

/// What a world is made of.
pub(crate) struct Scene {
    /// Units at the site, all of them delegated.
    pub(crate) stock: u32,
    /// Units of type `disk` at the site that are not delegated.
    pub(crate) disks: u32,
    /// Units at the other site; none, no site.
    pub(crate) far_stock: u32,
    /// Whether that one delegates to another broker.
    pub(crate) far_broker: bool,
    /// Whether the stock is divisible.
    pub(crate) divisible: bool,
    /// How long a delegation lasts, and how long before its end it is renewed.
    pub(crate) delegation: (Span, Span),
    pub(crate) leave_before: Span,
    /// How much the site remembers for others.
    /// Whether its nodes have names and are in stacks, two and two.
    pub(crate) stacked: bool,
    pub(crate) limits: Limits,
    pub(crate) site_mapper: fn() -> Box<dyn SiteAuthorityMapper>,
    pub(crate) broker_mapper: fn() -> Box<dyn BrokerMapper>,
    pub(crate) guest_mapper: fn() -> Box<dyn ServiceManagerMapper>,
    /// Whether every input is followed by a recovery that is compared with the actor.
    pub(crate) suspicious: bool,
    /// Whether an auditor observes everything. No test may then force behaviour on an actor.
    pub(crate) audited: bool,
    pub(crate) rule: Rule,
    /// How much brokers disclose.
    pub(crate) disclosure: Disclosure,
    /// How often brokers advertise, if they do.
    pub(crate) adverts: Option<Span>,
    /// Whether a broker sells nothing that another one has lent while that is not heard.
    pub(crate) pauses: bool,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            stock: 4,
            disks: 0,
            far_stock: 0,
            far_broker: false,
            divisible: false,
            stacked: false,
            delegation: (Span::from_secs(FAR_OFF), Span::DAY),
            leave_before: Span::ZERO,
            limits: Limits::default(),
            site_mapper: || Box::new(FirstFit {}),
            broker_mapper: || Box::new(Fcfs::default()),
            guest_mapper: || Box::new(Deploy::default()),
            suspicious: false,
            audited: false,
            rule: Rule::default(),
            disclosure: Disclosure::default(),
            adverts: None,
            pauses: false,
        }
    }
}

pub(super) struct Player {
    build: Rc<dyn Fn() -> HostedActor>,
    pub(super) host: Host,
    mapper: AnyMapper,
    pub(super) journal: MemoryJournal,
    /// How far its clock is ahead.
    ahead: Span,
    watermarks: VecDeque<Sealed>,
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(super) players: BTreeMap<u8, Player>,
    mail: VecDeque<(u8, Sealed)>,
    answers: VecDeque<(u8, DriverResult)>,
    /// Nothing reaches them and nothing gets out.
    pub(crate) cut_off: BTreeSet<u8>,
    /// Those whose mapper never answers.
    pub(crate) undecided: BTreeSet<u8>,
    /// The kinds of messages that are kept back, and those that were.
    pub(crate) keep: BTreeSet<&'static str>,
    pub(crate) kept: Vec<Sealed>,
    pub(crate) driver: fn(&Call) -> Reaction,
    /// Every call of a driver.
    pub(crate) calls: Vec<Call>,
    /// The calls that wait for the test.
    pub(crate) waiting: Vec<(u8, Call)>,
    /// The names of all work that was ever pending.
    pub(crate) pending: Vec<(u8, EffectId)>,
    /// Everything that was ever sent.
    pub(crate) sent: Vec<(Envelope, Sealed)>,
    pub(crate) problems: Vec<Problem>,
    suspicious: bool,
    pub(crate) auditor: Option<Auditor>,
    /// Everything the auditor was shown, if there is one.
    pub(crate) tape: Vec<Shown>,
}

/// What an auditor was shown, and when.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) at: Time,
    pub(crate) what: What,
}

/// An observation that owns what it speaks of.
#[derive(Clone)]
pub(crate) enum What {
    Durable(u8, u64, Vec<Entry>),
    Sent(Box<Envelope>, Sealed),
    Called(u8, Call),
    Crashed(u8),
    Recovered(u8, u64, bool),
    Unmoved(u8, bool),
    Rested(u8, Time),
}

impl Shown {
    /// Shows it to an auditor.
    pub(crate) fn to(&self, auditor: &mut Auditor) -> Result<(), Violation> {
        let seen = match &self.what {
            What::Durable(who, position, entries) => {
                Observation::Durable { actor: id(*who), position: *position, entries }
            }
            What::Sent(envelope, sealed) => Observation::Sent { envelope, sealed },
            What::Called(who, call) => Observation::Called { actor: id(*who), call },
            What::Crashed(who) => Observation::Crashed { actor: id(*who) },
            What::Recovered(who, position, same) => {
                let (actor, same) = (id(*who), Some(*same));
                Observation::Recovered { actor, position: *position, same }
            }
            What::Unmoved(who, same) => Observation::Unmoved { actor: id(*who), same: *same },
            What::Rested(who, clock) => Observation::Rested { actor: id(*who), clock: *clock },
        };
        auditor.observe(self.at, &seen)
    }
}

fn setup(who: u8, name: &'static str, far_broker: bool) -> Setup {
    let peer = |who, role| (id(who), Peer { name: Name::literal("peer"), role });
    let far_broker = far_broker.then(|| peer(FAR_BROKER, Role::Broker));
    let peers = [
        peer(SITE, Role::SiteAuthority),
        peer(FAR_SITE, Role::SiteAuthority),
        peer(BROKER, Role::Broker),
        peer(GUEST, Role::ServiceManager),
        peer(RIVAL, Role::ServiceManager),
    ];
    let peers: BTreeMap<_, _> = peers.into_iter().chain(far_broker).collect();
    Setup { name: Name::literal(name), signer: signer(who), margin: MARGIN, peers: peers.into() }
}

/// All actors of a world, all honest.
pub(crate) fn cast() -> Participants {
    let player = |who, name, role| {
        let name = Name::literal(name);
        (id(who), tenure_laws::Participant { name, role, honest: true })
    };
    let members = BTreeMap::from([
        player(SITE, "site", Role::SiteAuthority),
        player(FAR_SITE, "far-site", Role::SiteAuthority),
        player(BROKER, "broker", Role::Broker),
        player(FAR_BROKER, "far-broker", Role::Broker),
        player(GUEST, "guest", Role::ServiceManager),
        player(RIVAL, "rival", Role::ServiceManager),
    ]);
    Participants { members, scheme: ED25519, margin: MARGIN, clocks_hold: true }
}

impl Scene {
    /// Builds the actors, starts them and lets the delegations arrive.
    pub(crate) fn open(self) -> World {
        let Self { stock, disks, far_stock, divisible, delegation, leave_before, limits, .. } =
            self;
        let (site_mapper, broker_mapper) = (self.site_mapper, self.broker_mapper);
        let (guest_mapper, rule) = (self.guest_mapper, self.rule);
        let (stacked, far_broker) = (self.stacked, self.far_broker);
        let adverts = self.adverts;
        let pauses = self.pauses;
        let disclosures = Disclosures { others: self.disclosure, named: BTreeMap::new() };
        let far = if far_broker { FAR_BROKER } else { BROKER };
        let mut world = World {
            now: Time::ZERO,
            players: BTreeMap::new(),
            mail: VecDeque::new(),
            answers: VecDeque::new(),
            cut_off: BTreeSet::new(),
            undecided: BTreeSet::new(),
            keep: BTreeSet::new(),
            kept: Vec::new(),
            driver: |_| Reaction::Works,
            calls: Vec::new(),
            pending: Vec::new(),
            waiting: Vec::new(),
            sent: Vec::new(),
            problems: Vec::new(),
            suspicious: self.suspicious,
            auditor: self.audited.then(|| Auditor::new(cast())),
            tape: Vec::new(),
        };
        let sites =
            [(SITE, "site", stock, disks, BROKER), (FAR_SITE, "far-site", far_stock, 0, far)];
        for (who, name, has, disks, to) in sites {
            if has > 0 {
                world.add(who, move || {
                    let plan = plan(to, (has, divisible), disks, delegation);
                    let plan = if stacked { with_stacks(plan) } else { plan };
                    let actor = SiteAuthority::new(setup(who, name, far_broker), plan);
                    HostedActor::site_authority(actor.with_limits(limits), site_mapper())
                });
            }
        }
        let second = far_broker.then_some((FAR_BROKER, "far-broker"));
        for (who, name) in [(BROKER, "broker")].into_iter().chain(second) {
            let disclosures = disclosures.clone();
            world.add(who, move || {
                let mapper = broker_mapper();
                let broker = Broker::new(setup(who, name, far_broker)).with_swing(mapper.swing());
                let broker = broker.with_disclosures(disclosures.clone()).with_adverts(adverts);
                let broker = broker.with_pauses(pauses);
                HostedActor::broker(broker, mapper)
            });
        }
        for (who, name) in [(GUEST, "guest"), (RIVAL, "rival")] {
            world.add(who, move || {
                let setup = setup(who, name, far_broker);
                let actor = ServiceManager::new(setup, leave_before).settling(rule);
                HostedActor::service_manager(actor, guest_mapper())
            });
        }
        let everybody: Vec<u8> = world.players.keys().copied().collect();
        for who in everybody {
            world.hand(who, Input::Start);
        }
        world.run();
        assert_eq!(world.problems, []);
        world
    }
}

impl World {
    fn add(&mut self, who: u8, build: impl Fn() -> HostedActor + 'static) {
        let (actor, mapper) = build().into_parts();
        let (host, build): (_, Rc<dyn Fn() -> HostedActor>) = (host(actor), Rc::new(build));
        let (journal, watermarks, ahead) = (MemoryJournal::new(), VecDeque::new(), Span::ZERO);
        self.players.insert(who, Player { build, host, mapper, journal, ahead, watermarks });
    }

    /// One input, and what a shell does with its output. What it leads to waits for [`Self::run`].
    pub(crate) fn hand(&mut self, who: u8, input: Input) -> Output {
        let now = self.clock(who);
        let player = self.players.get_mut(&who).unwrap();
        if let Input::Message(sealed) = &input {
            player.watermarks.push_front(sealed.clone());
            player.watermarks.truncate(3);
        }
        let looked_at = self.auditor.is_some() && self.suspicious;
        let digest_before = looked_at.then(|| digest(player.host.actor_mut()));
        let Turn { before, facts, problems, answered } = player.host.handle(now, [input]);
        player.journal.append(before, &facts).unwrap();
        player.host.durable(before + facts.len() as u64);
        match digest_before.filter(|_| facts.is_empty()) {
            Some(before) => {
                let after = digest(self.actor_mut(who));
                self.show(What::Unmoved(who, before == after));
            }
            None => self.show(What::Durable(who, before, facts.clone())),
        }
        self.problems.extend(problems.iter().cloned());
        let replies = self.let_out(who);
        if self.suspicious {
            self.compare_with_a_recovery(who);
        }
        Output { facts, replies, problems, answered }
    }

    /// Lets out what follows from durable facts; answers the replies among it.
    fn let_out(&mut self, who: u8) -> Vec<Envelope> {
        let (now, mut departures) = (self.clock(who), Vec::new());
        let player = self.players.get_mut(&who).unwrap();
        player.host.release(now, |departure| departures.push(departure));
        let mut replies = Vec::new();
        for departure in departures {
            match departure {
                Departure::Message(id, outgoing) => {
                    let envelope = outgoing.sealed.peek().unwrap();
                    if id.is_answer() {
                        replies.push(envelope);
                    } else {
                        self.pending.push((who, id));
                    }
                    self.post(who, outgoing.sealed);
                }
                Departure::Call(id, call) => {
                    self.pending.push((who, id));
                    self.perform(who, call);
                }
            }
        }
        replies
    }

    fn post(&mut self, who: u8, sealed: Sealed) {
        let envelope = sealed.peek().unwrap();
        self.show(What::Sent(Box::new(envelope.clone()), sealed.clone()));
        let to = self.players.keys().copied().find(|&other| id(other) == envelope.header.to);
        let kind = envelope.message.kind();
        self.sent.push((envelope, sealed.clone()));
        let Some(to) = to else { return };
        if self.keep.contains(kind) {
            self.kept.push(sealed);
        } else if !self.cut_off.contains(&who) && !self.cut_off.contains(&to) {
            self.mail.push_back((to, sealed));
        }
    }

    fn perform(&mut self, who: u8, call: Call) {
        self.show(What::Called(who, call.clone()));
        self.calls.push(call.clone());
        match (self.driver)(&call) {
            Reaction::Works => self.answers.push_back((who, done(&call, true))),
            Reaction::Fails => self.answers.push_back((who, done(&call, false))),
            Reaction::Waits => self.waiting.push((who, call)),
        }
    }

    /// Shows the auditor what happens.
    fn show(&mut self, what: What) {
        let Some(auditor) = &mut self.auditor else { return };
        let shown = Shown { at: self.now, what };
        if let Err(violation) = shown.to(auditor) {
            panic!("{violation}");
        }
        self.tape.push(shown);
    }

    /// Answers a call that waits.
    pub(crate) fn answer(&mut self, (who, call): (u8, Call), works: bool) -> Output {
        self.hand(who, Input::Driver(done(&call, works)))
    }

    pub(crate) fn seal(&mut self, who: u8, envelope: &Envelope) -> Sealed {
        self.actor_mut(who).seal(envelope)
    }

    /// Until nothing is left to do at this instant.
    pub(crate) fn run(&mut self) {
        for _ in 0..10_000 {
            if let Some((to, sealed)) = self.mail.pop_front() {
                self.hand(to, Input::Message(sealed));
            } else if self.consult() {
                // What the mappers decided comes before the drivers' results.
            } else if let Some((who, done)) = self.answers.pop_front() {
                self.hand(who, Input::Driver(done));
            } else {
                return self.rest();
            }
        }
        panic!("the world does not come to rest");
    }

    /// Shows the auditor who has nothing left to do.
    fn rest(&mut self) {
        if self.auditor.is_none() {
            return;
        }
        for who in self.players.keys().copied().collect::<Vec<_>>() {
            if self.due(who).is_none_or(|due| self.now < due) {
                self.show(What::Rested(who, self.clock(who)));
            }
        }
    }

    fn consult(&mut self) -> bool {
        let decided = |who: &&u8| !self.undecided.contains(who);
        let mut players = self.players.keys().filter(decided);
        let open = players.find_map(|&who| Some((who, self.decision(who)?)));
        open.map(|(who, decision)| self.hand(who, decision)).is_some()
    }

    /// What an actor's mapper decides, if it has a round to answer.
    fn decision(&self, who: u8) -> Option<Input> {
        let Player { mapper, host, .. } = &self.players[&who];
        mapper.consult(host.actor(), self.clock(who))
    }

    /// The time on an actor's own clock.
    pub(crate) fn clock(&self, who: u8) -> Time {
        self.now.plus(self.players[&who].ahead)
    }

    /// Lets an actor's clock be ahead of the others, or behind.
    pub(crate) fn set_ahead(&mut self, who: u8, ahead: Span) {
        self.players.get_mut(&who).unwrap().ahead = ahead;
    }

    /// When an actor has something to do next, by the true time.
    fn due(&self, who: u8) -> Option<Time> {
        let player = &self.players[&who];
        Some(player.host.next_timer()?.minus(player.ahead))
    }

    /// Lets time pass, deadline by deadline.
    pub(crate) fn advance(&mut self, secs: i64) {
        self.advance_to(super::at(secs));
    }

    pub(crate) fn advance_to(&mut self, until: Time) {
        for _ in 0..10_000 {
            let next = self.players.keys().filter_map(|&who| self.due(who)).min();
            let Some(next) = next.filter(|next| *next <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            self.tick();
        }
        panic!("the world has too many deadlines");
    }

    /// Delivers a tick to every actor that has something due.
    fn tick(&mut self) {
        let due = |who: &u8| self.due(*who).is_some_and(|due| due <= self.now);
        let due: Vec<u8> = self.players.keys().copied().filter(due).collect();
        for who in due {
            self.hand(who, Input::Tick);
        }
        self.run();
    }

    /// Sends again all pending messages of all actors.
    pub(crate) fn repeat(&mut self) {
        let pending = |(&who, player): (&u8, &Player)| {
            let effects = player.host.actor().effects_after(0).into_iter();
            effects.map(|(_, effect)| (who, effect)).collect::<Vec<_>>()
        };
        let pending: Vec<(u8, Effect)> = self.players.iter().flat_map(pending).collect();
        for (who, effect) in pending {
            if let Effect::Send(envelope) = effect {
                let sealed = self.seal(who, &envelope);
                self.post(who, sealed);
            }
        }
        self.run();
    }

    /// Lets go of the messages that were kept back.
    pub(crate) fn release(&mut self) {
        self.keep.clear();
        for sealed in std::mem::take(&mut self.kept) {
            self.hand_over(&sealed);
        }
        self.run();
    }

    /// Lets go of what the test could ask about the past.
    pub(crate) fn forget_what_happened(&mut self) {
        self.sent.clear();
        self.calls.clear();
        self.pending.clear();
    }

    /// Delivers a message, even to a receiver whose messages are held back.
    pub(crate) fn hand_over(&mut self, sealed: &Sealed) {
        let to = sealed.peek().unwrap().header.to;
        let to = self.players.keys().copied().find(|&who| id(who) == to).unwrap();
        self.mail.push_back((to, sealed.clone()));
    }

    /// Has a guest make a request and runs all actors; returns the lease.
    pub(crate) fn ask(&mut self, who: u8, ask: Ask) -> LeaseId {
        let out = self.hand(who, Input::Command(GuestCommand::Ask(ask).into()));
        let Some(Fact::ServiceManager(service_manager::Fact::Asked(asked))) =
            out.facts.first().map(|entry| entry.fact.clone())
        else {
            panic!("not asked: {:?}", out.problems);
        };
        self.run();
        LeaseId { number: asked.request.id.number, part: 0 }
    }

    pub(crate) fn command(&mut self, who: u8, command: impl Into<Command>) {
        self.hand(who, Input::Command(command.into()));
        self.run();
    }

    pub(crate) fn deliver(&mut self, to: u8, sealed: &Sealed) -> Output {
        self.hand(to, Input::Message(sealed.clone()))
    }

    pub(crate) fn actor_mut(&mut self, who: u8) -> &mut AnyActor {
        self.players.get_mut(&who).unwrap().host.actor_mut()
    }

    /// Crashes an actor: what is not in its journal is gone. All that it was is in its journal.
    pub(crate) fn restart(&mut self, who: u8) {
        let live = self.actor(who).snapshot();
        self.show(What::Crashed(who));
        let actor = self.recovered(who);
        let same = actor.snapshot() == live;
        self.show(What::Recovered(who, actor.position(), same));
        assert!(same, "actor {who} came back in another state");
        let player = self.players.get_mut(&who).unwrap();
        player.host = host(actor);
        player.host.recovered();
        self.answers.retain(|(to, _)| *to != who);
        self.waiting.retain(|(to, _)| *to != who);
        self.hand(who, Input::Start);
    }

    /// An actor comes back with an older copy of its journal.
    pub(crate) fn restore_copy(&mut self, who: u8, length: u64) {
        let entries: Vec<Entry> = self.facts(who).into_iter().take(length as usize).collect();
        let player = self.players.get_mut(&who).unwrap();
        player.journal = MemoryJournal::new();
        player.journal.append(0, &entries).unwrap();
        let host = host(self.recovered(who));
        let player = self.players.get_mut(&who).unwrap();
        player.host = host;
        player.host.recovered();
        self.hand(who, Input::Start);
    }

    /// An actor as it was before its first fact.
    pub(crate) fn fresh(&self, who: u8) -> AnyActor {
        (self.players[&who].build)().into_parts().0
    }

    fn recovered(&self, who: u8) -> AnyActor {
        let mut actor = self.fresh(who);
        for entry in self.facts(who) {
            actor.replay(&entry).unwrap();
        }
        actor
    }

    /// What is pending, due and unfinished follows from the journal, and so do the answers.
    fn compare_with_a_recovery(&self, who: u8) {
        let (again, player) = (self.recovered(who), &self.players[&who]);
        let live = player.host.actor();
        assert_eq!(live.position(), again.position());
        for position in 0..=live.position() {
            assert_eq!(live.effects_after(position), again.effects_after(position));
        }
        assert_eq!(live.next_timeout(), again.next_timeout());
        assert_eq!(live.unfinished(100), again.unfinished(100));
        let now = self.clock(who);
        assert_eq!(self.decision(who), player.mapper.consult(&again, now));
        for sealed in &player.watermarks {
            let repeat = |actor: &AnyActor| {
                let (mut actor, mut out) = (actor.clone(), Output::default());
                actor.handle(now, Input::Message(sealed.clone()), &mut out);
                let bytes: Vec<_> = out.replies.iter().map(|reply| actor.seal(reply)).collect();
                (out, bytes)
            };
            assert_eq!(repeat(live), repeat(&again));
        }
    }
}

fn host(actor: AnyActor) -> Host {
    // The tests repeat messages by hand.
    Host::new(actor, RetryPolicy { first: Span::DAY, longest: Span::DAY })
}

fn done(call: &Call, works: bool) -> DriverResult {
    let address = super::properties("address", &format!("10.0.0.{}", call.unit.0));
    let properties = match call.step {
        Step::Setup => address,
        Step::Modify => call.properties.clone(),
        Step::Teardown | Step::Join | Step::Leave | Step::Warn | Step::Install | Step::Remove => {
            Properties::default()
        }
    };
    let outcome = if works { Ok(properties) } else { Err(DriverError("it burns".to_owned())) };
    let Call { unit, epoch, step, number, lease, .. } = *call;
    DriverResult { unit, epoch, step, number, lease, outcome }
}
