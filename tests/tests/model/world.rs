//! The model that stateright explores: production actors between a clock and a network.
//!
//! A state is the time, how much trouble is left, and for each actor the number of the [`Node`] it is
//! in. What an actor does with an input at a time is worked out once, by the actor, and remembered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, RwLock};

use stateright::{Model, Property};
use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::DriverResult;
use tenure_core::driver::{self, Call, DriverError, UnitId};
use tenure_core::model::codec;
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Time;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::Input;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::site_authority::unit;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::message::{Message, Sealed};
use tenure_tests::mutants::activate;

use super::cases::{Budget, Case, Network, Shell};
use super::joint::Joint;
use super::node::{Node, Registry};
use super::participants::{self, ALL, BROKER, FAR, GUEST, NAMES, Participant, RIVAL, SITE};
use super::summary::{Key, Summary};
use super::{commands, ends};

/// A deployment at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The true time.
    now: i64,
    /// Which of the case's clocks are in force.
    skew: usize,
    nodes: [u32; ALL],
    left: Budget,
}

/// What happens next, and to which node it leads the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Time passes.
    Advance,
    /// An actor receives an input.
    Move { who: usize, what: Step, to: u32 },
}

/// Inputs to an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Step {
    Receive(u32),
    Done(u32, bool),
    Tick,
    Decide,
    Extend(LeaseId),
    /// One unit goes back, or does not go on.
    Flex(LeaseId),
    Shrink(LeaseId),
    /// The lease ends earlier.
    Shorten(LeaseId),
    Close(LeaseId),
    Accept(LeaseId),
    Redeem(LeaseId),
    /// The lease is given back by the next instant.
    Hasten(LeaseId),
    /// A join is refused, untouched.
    Refuse(u32),
    /// A kept ticket is handed on to the rival, who redeems it.
    Split(LeaseId),
    Take(LinkHash),
    /// Units of a ticket are recalled, or stay after all.
    Recall(LinkHash),
    Withdraw(LinkHash),
    /// A unit fails that a lease has.
    Fail(UnitId),
    Reset,
    Crash,
    ReceiveAndCrash(u32),
    DecideAndCrash,
}

pub(crate) struct World {
    pub(crate) case: Case,
    table: RwLock<StateTable>,
    sent: Mutex<SentTable>,
    pub(crate) joint: Joint,
}

/// What distinguishes nodes: actor, state, messages and calls so far, the laws it broke, and the leases
/// whose guests may not know of a recall.
type Identity = (usize, String, [BTreeSet<u32>; 2], BTreeSet<&'static str>, BTreeSet<LinkHash>);

/// Every node that was reached, and what each leads to.
#[derive(Default)]
struct StateTable {
    nodes: Vec<Arc<Node>>,
    numbers: HashMap<Identity, u32>,
    steps: HashMap<(u32, i64, Step), Option<u32>>,
}

/// A message that was sent.
struct SentMessage {
    from: usize,
    to: usize,
    message: Message,
    sealed: Sealed,
}

/// Every message and driver call that was ever made.
#[derive(Default)]
struct SentTable {
    messages: Vec<Arc<SentMessage>>,
    message_numbers: HashMap<(ActorId, ActorId, Vec<u8>), u32>,
    calls: Vec<(usize, Call)>,
    keys: BTreeMap<LinkHash, Key>,
    /// The parts of tickets that were handed on.
    parts: BTreeMap<LinkHash, Ticket>,
}

impl Registry for Mutex<SentTable> {
    fn message(&self, sealed: &Sealed) -> u32 {
        let envelope = sealed.peek().unwrap();
        let header = envelope.header;
        let key = (header.from, header.to, codec::encode(&envelope.message));
        let mut sent = self.lock().unwrap();
        if let Some(&number) = sent.message_numbers.get(&key) {
            return number;
        }
        if let Message::Granted { request, tickets } = &envelope.message {
            for (part, (_, ticket)) in (0u16..).zip(tickets) {
                let key = (participants::who(request.origin), request.number, part);
                let old = sent.keys.insert(ticket.hash(), key);
                assert!(old.is_none_or(|old| old == key), "one ticket for two leases");
            }
        }
        let number = u32::try_from(sent.messages.len()).unwrap();
        let (message, sealed) = (envelope.message, sealed.clone());
        let (from, to) = (participants::who(header.from), participants::who(header.to));
        sent.messages.push(Arc::new(SentMessage { from, to, message, sealed }));
        sent.message_numbers.insert(key, number);
        number
    }

    fn call(&self, who: usize, call: &Call) -> u32 {
        let mut sent = self.lock().unwrap();
        let known = sent.calls.iter().position(|(w, c)| *w == who && c == call);
        let number = known.unwrap_or_else(|| {
            sent.calls.push((who, call.clone()));
            sent.calls.len() - 1
        });
        u32::try_from(number).unwrap()
    }
}

impl World {
    pub(crate) fn new(case: Case) -> Self {
        let (table, sent) = (RwLock::default(), Mutex::default());
        Self { case, table, sent, joint: Joint::default() }
    }

    fn node(&self, number: u32) -> Arc<Node> {
        Arc::clone(&self.table.read().unwrap().nodes[number as usize])
    }

    /// The nodes of a state.
    pub(super) fn nodes(&self, state: &State) -> [Arc<Node>; ALL] {
        let table = self.table.read().unwrap();
        state.nodes.map(|number| Arc::clone(&table.nodes[number as usize]))
    }

    /// An actor's clock.
    pub(super) fn clock(&self, state: &State, who: usize) -> Time {
        // Both brokers have one clock.
        let whose = if who == FAR { BROKER } else { who };
        Time::from_secs(state.now + self.case.skews[state.skew][whose])
    }

    /// The number of a node: an old one if it is one that was reached before.
    fn number(&self, mut node: Node) -> u32 {
        let text = node.participant.identity();
        let panic = node.panicked.then_some("no panic");
        let broken = node.index.broken().iter().copied().chain(panic).collect();
        let unreached = node.index.unreached().clone();
        let out = [node.sent.clone(), node.called.clone()];
        let key = (node.who, text, out, broken, unreached);
        if let Some(&number) = self.table.read().unwrap().numbers.get(&key) {
            return number;
        }
        self.summarize(&mut node, &key.1);
        let mut table = self.table.write().unwrap();
        let number = u32::try_from(table.nodes.len()).unwrap();
        let StateTable { nodes, numbers, .. } = &mut *table;
        *numbers.entry(key).or_insert_with(|| {
            nodes.push(Arc::new(node));
            number
        })
    }

    /// Reads what the properties ask for, and recovers the actor from its journal to compare (S11).
    fn summarize(&self, node: &mut Node, text: &str) {
        let mut sent = self.sent.lock().unwrap();
        sent.parts.extend(node.index.parts().map(|part| (part.hash(), part.clone())));
        let mut summary = Summary::of(node.who, &node.participant, &node.index, &sent.keys);
        for &number in &node.sent {
            let post = &sent.messages[number as usize];
            summary.sent[post.to].push(number);
            if !node.index.imply(&post.message) {
                summary.broken.insert("S9");
            }
        }
        drop(sent);
        let recovered = node.recovered(&self.case);
        let pending = |participant: &Participant| participant.actor().effects_after(0);
        if recovered.identity() != text || pending(&recovered) != pending(&node.participant) {
            summary.broken.insert("S11");
        }
        summary.broken.extend(node.panicked.then_some("no panic"));
        node.summary = summary;
    }

    /// The inputs that an actor may receive in a state.
    fn inputs(&self, state: &State, nodes: &[Arc<Node>; ALL], who: usize, inputs: &mut Vec<Step>) {
        let node = &nodes[who];
        if node.panicked {
            return;
        }
        let trouble = state.now <= self.case.trouble_until;
        let left = if trouble { state.left } else { Budget::NONE };
        let clock = self.clock(state, who);
        for from in nodes {
            inputs.extend(from.summary.sent[who].iter().map(|&message| Step::Receive(message)));
        }
        for &call in &node.called {
            inputs.push(Step::Done(call, true));
            if left.failures > 0 {
                inputs.push(Step::Done(call, false));
            }
            if who < BROKER && left.refusals > 0 {
                inputs.push(Step::Refuse(call));
            }
        }
        if node.summary.due.is_some_and(|due| due <= clock) {
            inputs.push(Step::Tick);
        }
        if node.summary.has_a_round && who >= BROKER {
            inputs.push(Step::Decide);
        }
        if who < BROKER {
            inputs.extend(commands::of_user(&node.summary, left));
        }
        if left.splits > 0 {
            Self::hand_on(nodes, who, inputs);
        }
        if who == BROKER && left.recalls > 0 {
            let sent = self.sent.lock().unwrap();
            let tickets = sent.keys.keys().copied();
            inputs.extend(tickets.flat_map(|link| [Step::Recall(link), Step::Withdraw(link)]));
        }
        if who == SITE && left.breakdowns > 0 {
            inputs.extend(node.summary.leased.iter().map(|&unit| Step::Fail(unit)));
        }
        if who == SITE && left.resets > 0 {
            inputs.push(Step::Reset);
        }
        if left.crashes > 0 && (who < FAR || self.case.network.is_some()) {
            inputs.push(Step::Crash);
            if self.case.shell == Shell::Sends {
                for place in 0..inputs.len() {
                    match inputs[place] {
                        Step::Receive(message) => inputs.push(Step::ReceiveAndCrash(message)),
                        Step::Decide => inputs.push(Step::DecideAndCrash),
                        _ => {}
                    }
                }
            }
        }
    }

    /// The guest hands a ticket on, and the rival takes it.
    fn hand_on(nodes: &[Arc<Node>; ALL], who: usize, inputs: &mut Vec<Step>) {
        let words = nodes[GUEST].summary.words.iter();
        let leases = words.map(|&((_, number, part), _)| LeaseId { number, part });
        match who {
            GUEST => inputs.extend(leases.map(Step::Split)),
            RIVAL => inputs.extend(nodes[GUEST].index.parts().map(|part| Step::Take(part.hash()))),
            _ => {}
        }
    }

    /// What an input makes of a node; `None` if nothing.
    fn step(&self, number: u32, clock: Time, what: Step) -> Option<u32> {
        let node = self.node(number);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.apply(&node, clock, what)));
        // An actor that panics over a fact of its own is out of the game.
        let fallen = || Node { panicked: true, ..Node::clone(&node) };
        let to = self.number(outcome.unwrap_or_else(|_| Some(fallen()))?);
        (to != number).then_some(to)
    }

    /// Hands an actor an input, and runs it until it has nothing more to do.
    fn apply(&self, node: &Node, clock: Time, what: Step) -> Option<Node> {
        activate(self.case.bug);
        let (case, sent) = (&self.case, &self.sent);
        let receive = |message: u32| {
            Input::Message(self.sent.lock().unwrap().messages[message as usize].sealed.clone())
        };
        match what {
            Step::Receive(message) => node.step(clock, receive(message), case, sent),
            Step::Done(call, well) => node.step(clock, self.done(call, well), case, sent),
            Step::Refuse(call) => node.step(clock, self.refused(call)?, case, sent),
            Step::Tick => node.step(clock, Input::Tick, case, sent),
            Step::Decide => {
                node.step(clock, node.participant.consult(clock, case.seller)?, case, sent)
            }
            Step::Extend(_)
            | Step::Flex(_)
            | Step::Shrink(_)
            | Step::Shorten(_)
            | Step::Close(_)
            | Step::Accept(_)
            | Step::Redeem(_)
            | Step::Hasten(_)
            | Step::Recall(_)
            | Step::Withdraw(_)
            | Step::Split(_)
            | Step::Take(_) => node.step(clock, self.command(clock, what)?, case, sent),
            Step::Reset => {
                let AnyActor::SiteAuthority(site) = &node.participant.0 else { return None };
                let broken = |s: &unit::State| matches!(s, unit::State::Quarantined);
                let (unit, ..) = site.units().find(|(_, state, _)| broken(state))?;
                node.step(clock, Input::Command(SiteCommand::Reset { unit }.into()), case, sent)
            }
            Step::Fail(unit) => {
                let command = SiteCommand::Fail { unit, epoch: None, why: "it broke".to_owned() };
                node.step(clock, Input::Command(command.into()), case, sent)
            }
            Step::Crash => node.crash(clock, case, sent),
            Step::ReceiveAndCrash(message) => {
                node.send_then_crash(clock, receive(message), case, sent)
            }
            Step::DecideAndCrash => {
                let decision = node.participant.consult(clock, case.seller)?;
                node.send_then_crash(clock, decision, case, sent)
            }
        }
    }

    /// A part of a ticket that was handed on.
    pub(super) fn handed_on(&self, part: LinkHash) -> Option<Ticket> {
        self.sent.lock().unwrap().parts.get(&part).cloned()
    }

    fn done(&self, call: u32, well: bool) -> Input {
        let failed = || Err(DriverError("it failed".to_owned()));
        self.answer(call, if well { Ok(Properties::default()) } else { failed() })
    }

    /// A join that a guest's driver refuses, and has done nothing.
    fn refused(&self, call: u32) -> Option<Input> {
        let is_join = self.sent.lock().unwrap().calls[call as usize].1.step == driver::Step::Join;
        is_join.then(|| self.answer(call, Err(DriverError::untouched("no room"))))
    }

    fn answer(&self, call: u32, outcome: Result<Properties, DriverError>) -> Input {
        let Call { unit, epoch, step, number, lease, .. } =
            self.sent.lock().unwrap().calls[call as usize].1;
        Input::Driver(DriverResult { unit, epoch, step, number, lease, outcome })
    }

    /// Whether an actor has something due before time may pass.
    fn is_anybody_due(&self, state: &State, nodes: &[Arc<Node>; ALL]) -> bool {
        let due =
            |who: usize| nodes[who].summary.due.is_some_and(|due| due <= self.clock(state, who));
        (0..ALL).any(due)
    }

    /// Lets a calm time pass: everything is done at once and goes well, and the script is followed.
    fn calm(&self, mut state: State) -> State {
        let left = std::mem::replace(&mut state.left, Budget::NONE);
        let mut script = self.case.script.iter().peekable();
        while state.now < self.case.calm_until {
            let mut actions = Vec::new();
            self.actions(&state, &mut actions);
            let quiet = actions.iter().all(|action| *action == Action::Advance);
            if let Some(&(_, who, what)) = script.next_if(|next| quiet && next.0 == state.now) {
                let step = self.step(state.nodes[who], self.clock(&state, who), what);
                state.nodes[who] = step.expect("a script can be followed");
            } else {
                // Whatever there is to do comes before the passing of time, which is the first action.
                state = self.next_state(&state, actions[actions.len() - 1]).unwrap();
            }
        }
        State { left, ..state }
    }

    /// The units that guests believe to hold, each with the ticket. Who is due to stop at this very
    /// instant believes no more.
    fn believed(&self, state: &State, nodes: &[Arc<Node>; ALL]) -> Vec<(UnitId, LinkHash)> {
        let believes =
            |who: &usize| nodes[*who].summary.due.is_none_or(|due| due > self.clock(state, *who));
        let guests = (GUEST..=RIVAL).filter(believes);
        guests.flat_map(|who| nodes[who].summary.uses.iter().copied()).collect()
    }

    fn keeps(&self, state: &State, law: &'static str) -> bool {
        let table = self.table.read().unwrap();
        state.nodes.iter().all(|&number| !table.nodes[number as usize].summary.broken.contains(law))
    }

    /// An action in words.
    pub(crate) fn describe(&self, state: &State, action: &Action) -> String {
        let Action::Move { who, what, .. } = *action else {
            return format!("{} time passes", state.now);
        };
        let outcome = match what {
            Step::Receive(message) | Step::ReceiveAndCrash(message) => {
                let message = Arc::clone(&self.sent.lock().unwrap().messages[message as usize]);
                format!("hears `{}` from {}", message.message.kind(), NAMES[message.from])
            }
            Step::Done(call, well) => {
                let sent = self.sent.lock().unwrap();
                let Call { unit, epoch, step, .. } = &sent.calls[call as usize].1;
                format!("{} of {unit} in {epoch:?}: {well}", step.word())
            }
            _ => String::new(),
        };
        format!("{} {} {what:?} {outcome}", state.now, NAMES[who])
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    /// Everyone has started, the broker has its delegations, and the guests have asked.
    fn init_states(&self) -> Vec<State> {
        activate(self.case.bug);
        let mut nodes: Vec<Node> = (0..ALL).map(|who| Node::new(who, &self.case)).collect();
        let mut apply = |who: usize, input: Input| {
            if let Some(next) = nodes[who].step(Time::ZERO, input, &self.case, &self.sent) {
                nodes[who] = next;
            }
        };
        for who in 0..ALL {
            apply(who, Input::Start);
        }
        for planned in &self.case.requests {
            apply(planned.who, Input::Command(GuestCommand::Ask(planned.ask(&self.case)).into()));
        }
        let mut next = 0;
        while next < self.sent.lock().unwrap().messages.len() {
            let message = Arc::clone(&self.sent.lock().unwrap().messages[next]);
            if matches!(message.message.kind(), "delegate" | "delegated") {
                apply(message.to, Input::Message(message.sealed.clone()));
                // It lends what it has.
                apply(message.to, Input::Tick);
            }
            next += 1;
        }
        for who in [BROKER, SITE, FAR] {
            while let Some(next) = nodes[who]
                .participant
                .consult(Time::ZERO, self.case.seller)
                .and_then(|decision| nodes[who].step(Time::ZERO, decision, &self.case, &self.sent))
            {
                nodes[who] = next;
            }
        }
        let numbers: Vec<u32> = nodes.into_iter().map(|node| self.number(node)).collect();
        let state = |skew| State {
            now: self.case.from,
            skew,
            nodes: std::array::from_fn(|who| numbers[who]),
            left: self.case.budget,
        };
        (0..self.case.skews.len()).map(|skew| self.calm(state(skew))).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let nodes = self.nodes(state);
        if state.now < self.case.until
            && (self.case.sleepers || !self.is_anybody_due(state, &nodes))
        {
            actions.push(Action::Advance);
        }
        let mut inputs = Vec::new();
        for who in 0..ALL {
            inputs.clear();
            self.inputs(state, &nodes, who, &mut inputs);
            let clock = self.clock(state, who);
            let (number, at) = (state.nodes[who], clock.as_micros());
            let mut take = |what, to| actions.push(Action::Move { who, what, to });
            let mut unknown = Vec::new();
            let table = self.table.read().unwrap();
            for &what in &inputs {
                match table.steps.get(&(number, at, what)) {
                    Some(to) => to.iter().for_each(|&to| take(what, to)),
                    None => unknown.push(what),
                }
            }
            drop(table);
            for what in unknown {
                let to = self.step(number, clock, what);
                to.iter().for_each(|&to| take(what, to));
                self.table.write().unwrap().steps.insert((number, at, what), to);
            }
        }
        // The same order whatever was known before: paths are identified by the places of actions.
        actions.sort_by_key(|action| match *action {
            Action::Advance => None,
            Action::Move { who, what, .. } => Some((who, what)),
        });
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let Action::Move { who, what, to } = action else {
            state.now += 1;
            return Some(state);
        };
        state.nodes[who] = to;
        let left = &mut state.left;
        match what {
            Step::Receive(_) | Step::Done(_, true) | Step::Tick | Step::Decide => {}
            Step::Done(_, false) => left.failures -= 1,
            Step::Extend(_) => left.extends -= 1,
            Step::Flex(_) | Step::Shrink(_) | Step::Shorten(_) => left.parts -= 1,
            Step::Close(_) => left.closes -= 1,
            Step::Accept(_) => left.accepts -= 1,
            Step::Redeem(_) => left.redeems -= 1,
            Step::Hasten(_) => left.hastens -= 1,
            Step::Split(_) | Step::Take(_) => left.splits -= 1,
            Step::Refuse(_) => left.refusals -= 1,
            Step::Recall(_) | Step::Withdraw(_) => left.recalls -= 1,
            Step::Fail(_) => left.breakdowns -= 1,
            Step::Reset => left.resets -= 1,
            Step::Crash | Step::ReceiveAndCrash(_) | Step::DecideAndCrash => left.crashes -= 1,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("S1", |world: &Self, state| world.keeps(state, "S1")),
            Property::always("S2", |world, state| world.keeps(state, "S2")),
            Property::always("S3", |world, state| world.keeps(state, "S3")),
            Property::always("S4", |world, state| {
                let nodes = world.nodes(state);
                let clock = world.clock(state, SITE);
                let over = |end: &Time| *end <= clock;
                let stale = nodes[SITE].summary.active_until.iter().any(over)
                    && nodes[SITE].summary.due.is_none_or(|due| due > clock);
                world.keeps(state, "S4") && !stale
            }),
            Property::always("S5", |world, state| {
                let nodes = world.nodes(state);
                let tenants = &nodes[SITE].summary.tenants;
                // A guest that the notice of a recall has not reached may still count on units that are gone.
                let unreached = &nodes[SITE].summary.unreached;
                let believed = world.believed(state, &nodes);
                believed
                    .iter()
                    .all(|belief| tenants.contains(belief) || unreached.contains(&belief.1))
            }),
            Property::always("S21", |world, state| world.keeps(state, "S21")),
            Property::always("S8", |world, state| world.keeps(state, "S8")),
            Property::always("S9", |world, state| world.keeps(state, "S9")),
            Property::always("S11", |world, state| world.keeps(state, "S11")),
            Property::always("no panic", |world, state| world.keeps(state, "no panic")),
            Property::always("S12", |world, state| {
                let nodes = world.nodes(state);
                // Of a request that is passed on, S12 judges both brokers apart.
                if world.case.network != Some(Network::Forward) {
                    let seller = world.case.seller_of_tickets();
                    world.joint.see(seller, nodes.each_ref().map(|node| &node.summary.words));
                }
                true
            }),
        ];
        properties.extend(self.case.ends.iter().map(|&end| ends::property(end)));
        properties
    }
}
