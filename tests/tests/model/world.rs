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
use tenure_core::driver::{Call, DriverError, UnitId};
use tenure_core::model::codec;
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::Input;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::service_manager::machine::Outcome;
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::site_authority::unit;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::message::{Message, Sealed};
use tenure_tests::mutants::activate;

use super::cases::{Budget, Case, End, Shell};
use super::joint::Joint;
use super::node::{Node, Registry};
use super::participants::{self, BROKER, GUEST, NAMES, Participant, RIVAL, SITE};
use super::words::{Key, Summary};

/// A deployment at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The true time.
    now: i64,
    /// Which of the case's clocks are in force.
    skew: usize,
    nodes: [u32; 4],
    left: Budget,
}

/// What happens next, and to which node it leads the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Time passes.
    Advance,
    /// An actor is told something.
    Move { who: usize, what: What, to: u32 },
}

/// What an actor can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum What {
    Hear(u32),
    Done(u32, bool),
    Tick,
    Decide,
    Extend(LeaseId),
    Close(LeaseId),
    Reset,
    Crash,
    HearAndCrash(u32),
    DecideAndCrash,
}

pub(crate) struct World {
    pub(crate) case: Case,
    book: RwLock<Book>,
    mail: Mutex<Mail>,
    pub(crate) joint: Joint,
}

/// What tells nodes apart: actor, state, messages and calls so far, and the laws it broke.
type Identity = (usize, String, BTreeSet<u32>, BTreeSet<u32>, BTreeSet<&'static str>);

/// Every node that was reached, and what each leads to.
#[derive(Default)]
struct Book {
    nodes: Vec<Arc<Node>>,
    numbers: HashMap<Identity, u32>,
    steps: HashMap<(u32, i64, What), Option<u32>>,
}

/// A message that was sent.
struct Post {
    from: usize,
    to: usize,
    message: Message,
    sealed: Sealed,
}

/// Every message and driver call that was ever made.
#[derive(Default)]
struct Mail {
    messages: Vec<Arc<Post>>,
    message_numbers: HashMap<(ActorId, ActorId, Vec<u8>), u32>,
    calls: Vec<(usize, Call)>,
    keys: BTreeMap<LinkHash, Key>,
}

impl Registry for Mutex<Mail> {
    fn message(&self, sealed: &Sealed) -> u32 {
        let envelope = sealed.peek().unwrap();
        let header = envelope.header;
        let key = (header.from, header.to, codec::encode(&envelope.message));
        let mut mail = self.lock().unwrap();
        if let Some(&number) = mail.message_numbers.get(&key) {
            return number;
        }
        if let Message::Granted { request, tickets } = &envelope.message {
            for (part, (_, ticket)) in (0u16..).zip(tickets) {
                let key = (participants::who(request.origin), request.number, part);
                let old = mail.keys.insert(ticket.hash(), key);
                assert!(old.is_none_or(|old| old == key), "one ticket for two leases");
            }
        }
        let number = u32::try_from(mail.messages.len()).unwrap();
        let (message, sealed) = (envelope.message, sealed.clone());
        let (from, to) = (participants::who(header.from), participants::who(header.to));
        mail.messages.push(Arc::new(Post { from, to, message, sealed }));
        mail.message_numbers.insert(key, number);
        number
    }

    fn call(&self, who: usize, call: &Call) -> u32 {
        let mut mail = self.lock().unwrap();
        let known = mail.calls.iter().position(|(w, c)| *w == who && c == call);
        let number = known.unwrap_or_else(|| {
            mail.calls.push((who, call.clone()));
            mail.calls.len() - 1
        });
        u32::try_from(number).unwrap()
    }
}

impl World {
    pub(crate) fn new(case: Case) -> Self {
        let (book, mail) = (RwLock::default(), Mutex::default());
        Self { case, book, mail, joint: Joint::default() }
    }

    fn node(&self, number: u32) -> Arc<Node> {
        Arc::clone(&self.book.read().unwrap().nodes[number as usize])
    }

    /// The nodes of a state.
    fn nodes(&self, state: &State) -> [Arc<Node>; 4] {
        let book = self.book.read().unwrap();
        state.nodes.map(|number| Arc::clone(&book.nodes[number as usize]))
    }

    /// An actor's clock.
    fn clock(&self, state: &State, who: usize) -> Time {
        Time::from_secs(state.now + self.case.skews[state.skew][who])
    }

    /// The number of a node: an old one if it is one that was reached before.
    fn number(&self, mut node: Node) -> u32 {
        let text = node.participant.identity();
        let panic = node.panicked.then_some("no panic");
        let broken = node.books.broken().iter().copied().chain(panic).collect();
        let key = (node.who, text, node.said.clone(), node.called.clone(), broken);
        if let Some(&number) = self.book.read().unwrap().numbers.get(&key) {
            return number;
        }
        self.summarize(&mut node, &key.1);
        let mut book = self.book.write().unwrap();
        let number = u32::try_from(book.nodes.len()).unwrap();
        let Book { nodes, numbers, .. } = &mut *book;
        *numbers.entry(key).or_insert_with(|| {
            nodes.push(Arc::new(node));
            number
        })
    }

    /// Reads what the properties ask for, and recovers the actor from its journal to compare (S11).
    fn summarize(&self, node: &mut Node, text: &str) {
        let mail = self.mail.lock().unwrap();
        let mut summary = Summary::of(node.who, &node.participant, &node.books, &mail.keys);
        for &number in &node.said {
            let post = &mail.messages[number as usize];
            summary.mail[post.to].push(number);
            if !node.books.imply(&post.message) {
                summary.broken.insert("S9");
            }
        }
        drop(mail);
        let recovered = node.recovered(&self.case);
        let owed = |participant: &Participant| participant.actor().effects_after(0);
        if recovered.identity() != text || owed(&recovered) != owed(&node.participant) {
            summary.broken.insert("S11");
        }
        summary.broken.extend(node.panicked.then_some("no panic"));
        node.summary = summary;
    }

    /// What may be told to an actor in a state.
    fn inputs(&self, state: &State, nodes: &[Arc<Node>; 4], who: usize, inputs: &mut Vec<What>) {
        let node = &nodes[who];
        if node.panicked {
            return;
        }
        let trouble = state.now <= self.case.trouble_until;
        let left = if trouble { state.left } else { Budget::NONE };
        let clock = self.clock(state, who);
        for from in nodes {
            inputs.extend(from.summary.mail[who].iter().map(|&message| What::Hear(message)));
        }
        for &call in &node.called {
            inputs.push(What::Done(call, true));
            if left.failures > 0 {
                inputs.push(What::Done(call, false));
            }
        }
        if node.summary.due.is_some_and(|due| due <= clock) {
            inputs.push(What::Tick);
        }
        if node.summary.has_a_round && who >= BROKER {
            inputs.push(What::Decide);
        }
        let leases =
            node.summary.words.iter().map(|&((_, number, part), _)| LeaseId { number, part });
        if who < BROKER && left.extends > 0 {
            inputs.extend(leases.clone().map(What::Extend));
        }
        if who < BROKER && left.closes > 0 {
            inputs.extend(leases.map(What::Close));
        }
        if who == SITE && left.resets > 0 {
            inputs.push(What::Reset);
        }
        if left.crashes > 0 {
            inputs.push(What::Crash);
            if self.case.shell == Shell::Sends {
                for place in 0..inputs.len() {
                    match inputs[place] {
                        What::Hear(message) => inputs.push(What::HearAndCrash(message)),
                        What::Decide => inputs.push(What::DecideAndCrash),
                        _ => {}
                    }
                }
            }
        }
    }

    /// What an input makes of a node; `None` if nothing.
    fn step(&self, number: u32, clock: Time, what: What) -> Option<u32> {
        let node = self.node(number);
        let told = catch_unwind(AssertUnwindSafe(|| self.tell(&node, clock, what)));
        // An actor that panics over a fact of its own is out of the game.
        let fallen = || Node { panicked: true, ..Node::clone(&node) };
        let to = self.number(told.unwrap_or_else(|_| Some(fallen()))?);
        (to != number).then_some(to)
    }

    /// Tells an actor something, and lets it work out what that leads to.
    fn tell(&self, node: &Node, clock: Time, what: What) -> Option<Node> {
        activate(self.case.bug);
        let (case, mail) = (&self.case, &self.mail);
        let hear = |message: u32| {
            Input::Message(self.mail.lock().unwrap().messages[message as usize].sealed.clone())
        };
        match what {
            What::Hear(message) => node.step(clock, hear(message), case, mail),
            What::Done(call, well) => node.step(clock, self.done(call, well), case, mail),
            What::Tick => node.step(clock, Input::Tick, case, mail),
            What::Decide => {
                node.step(clock, node.participant.consult(clock, case.seller)?, case, mail)
            }
            What::Extend(lease) => {
                let duration = Span::from_secs(case.longer);
                let command = GuestCommand::Extend { lease, duration };
                node.step(clock, Input::Command(command.into()), case, mail)
            }
            What::Close(lease) => {
                node.step(clock, Input::Command(GuestCommand::Close { lease }.into()), case, mail)
            }
            What::Reset => {
                let AnyActor::SiteAuthority(site) = &node.participant.0 else { return None };
                let broken = |s: &unit::State| matches!(s, unit::State::Quarantined);
                let (unit, ..) = site.units().find(|(_, state, _)| broken(state))?;
                node.step(clock, Input::Command(SiteCommand::Reset { unit }.into()), case, mail)
            }
            What::Crash => node.crash(clock, case, mail),
            What::HearAndCrash(message) => node.send_then_crash(clock, hear(message), case, mail),
            What::DecideAndCrash => {
                let decision = node.participant.consult(clock, case.seller)?;
                node.send_then_crash(clock, decision, case, mail)
            }
        }
    }

    fn done(&self, call: u32, well: bool) -> Input {
        let Call { unit, epoch, step, lease, .. } =
            self.mail.lock().unwrap().calls[call as usize].1;
        let failed = || Err(DriverError("it failed".to_owned()));
        let outcome = if well { Ok(Properties::default()) } else { failed() };
        Input::Driver(DriverResult { unit, epoch, step, lease, outcome })
    }

    /// Whether somebody has to be told the time before it may pass.
    fn is_anybody_due(&self, state: &State, nodes: &[Arc<Node>; 4]) -> bool {
        let due =
            |who: usize| nodes[who].summary.due.is_some_and(|due| due <= self.clock(state, who));
        (GUEST..=SITE).any(due)
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
    fn believed(&self, state: &State, nodes: &[Arc<Node>; 4]) -> Vec<(UnitId, LinkHash)> {
        let believes =
            |who: &usize| nodes[*who].summary.due.is_none_or(|due| due > self.clock(state, *who));
        let guests = (GUEST..=RIVAL).filter(believes);
        guests.flat_map(|who| nodes[who].summary.uses.iter().copied()).collect()
    }

    fn keeps(&self, state: &State, law: &'static str) -> bool {
        let book = self.book.read().unwrap();
        state.nodes.iter().all(|&number| !book.nodes[number as usize].summary.broken.contains(law))
    }

    fn reaches(&self, state: &State, end: End) -> bool {
        let nodes = self.nodes(state);
        let used = |who: usize| !nodes[who].called.is_empty();
        let idle = nodes.iter().all(|node| node.summary.is_idle);
        match end {
            End::BothServed => idle && used(GUEST) && used(RIVAL),
            End::Extended => {
                nodes[GUEST].summary.tickets_held > 1
                    && nodes[SITE].summary.active_until.len() == 1
                    && nodes[SITE].summary.active_until[0].since(self.clock(state, SITE))
                        <= Span::from_secs(self.case.longer)
            }
            End::SoldAgain => {
                nodes[GUEST].summary.outcomes.contains(&Outcome::GivenBack)
                    && nodes[BROKER].summary.words.iter().any(|(_, word)| *word == "Returned")
                    && nodes[RIVAL].summary.words.iter().any(|(_, word)| *word == "Active")
            }
            End::Refused => (GUEST..=RIVAL).any(|who| {
                nodes[who]
                    .summary
                    .outcomes
                    .iter()
                    .any(|outcome| matches!(outcome, Outcome::Refused(_)))
            }),
        }
    }

    /// An action in words.
    pub(crate) fn describe(&self, state: &State, action: &Action) -> String {
        let Action::Move { who, what, .. } = *action else {
            return format!("{} time passes", state.now);
        };
        let told = match what {
            What::Hear(message) | What::HearAndCrash(message) => {
                let message = Arc::clone(&self.mail.lock().unwrap().messages[message as usize]);
                format!("hears `{}` from {}", message.message.kind(), NAMES[message.from])
            }
            What::Done(call, well) => {
                let mail = self.mail.lock().unwrap();
                let Call { unit, epoch, step, .. } = &mail.calls[call as usize].1;
                format!("{} of {unit} in {epoch:?}: {well}", step.word())
            }
            _ => String::new(),
        };
        format!("{} {} {what:?} {told}", state.now, NAMES[who])
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    /// Everybody has started, the broker has its delegations, and the guests have asked.
    fn init_states(&self) -> Vec<State> {
        activate(self.case.bug);
        let mut nodes: Vec<Node> = (GUEST..=SITE).map(|who| Node::new(who, &self.case)).collect();
        let mut tell = |who: usize, input: Input| {
            if let Some(next) = nodes[who].step(Time::ZERO, input, &self.case, &self.mail) {
                nodes[who] = next;
            }
        };
        for who in GUEST..=SITE {
            tell(who, Input::Start);
        }
        for planned in &self.case.requests {
            tell(planned.who, Input::Command(GuestCommand::Ask(planned.ask()).into()));
        }
        let mut heard = 0;
        while heard < self.mail.lock().unwrap().messages.len() {
            let message = Arc::clone(&self.mail.lock().unwrap().messages[heard]);
            if matches!(message.message.kind(), "delegate" | "delegated") {
                tell(message.to, Input::Message(message.sealed.clone()));
            }
            heard += 1;
        }
        for who in [BROKER, SITE] {
            while let Some(next) = nodes[who]
                .participant
                .consult(Time::ZERO, self.case.seller)
                .and_then(|decision| nodes[who].step(Time::ZERO, decision, &self.case, &self.mail))
            {
                nodes[who] = next;
            }
        }
        let numbers: Vec<u32> = nodes.into_iter().map(|node| self.number(node)).collect();
        let state = |skew| State {
            now: self.case.from,
            skew,
            nodes: [numbers[0], numbers[1], numbers[2], numbers[3]],
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
        for who in GUEST..=SITE {
            inputs.clear();
            self.inputs(state, &nodes, who, &mut inputs);
            let clock = self.clock(state, who);
            let (number, at) = (state.nodes[who], clock.as_micros());
            let mut take = |what, to| actions.push(Action::Move { who, what, to });
            let mut unknown = Vec::new();
            let book = self.book.read().unwrap();
            for &what in &inputs {
                match book.steps.get(&(number, at, what)) {
                    Some(to) => to.iter().for_each(|&to| take(what, to)),
                    None => unknown.push(what),
                }
            }
            drop(book);
            for what in unknown {
                let to = self.step(number, clock, what);
                to.iter().for_each(|&to| take(what, to));
                self.book.write().unwrap().steps.insert((number, at, what), to);
            }
        }
        // The same order whatever was known before: paths are told by the places of actions.
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
            What::Hear(_) | What::Done(_, true) | What::Tick | What::Decide => {}
            What::Done(_, false) => left.failures -= 1,
            What::Extend(_) => left.extends -= 1,
            What::Close(_) => left.closes -= 1,
            What::Reset => left.resets -= 1,
            What::Crash | What::HearAndCrash(_) | What::DecideAndCrash => left.crashes -= 1,
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
                world.believed(state, &nodes).iter().all(|belief| tenants.contains(belief))
            }),
            Property::always("S8", |world, state| world.keeps(state, "S8")),
            Property::always("S9", |world, state| world.keeps(state, "S9")),
            Property::always("S11", |world, state| world.keeps(state, "S11")),
            Property::always("no panic", |world, state| world.keeps(state, "no panic")),
            Property::always("S12", |world, state| {
                let nodes = world.nodes(state);
                world.joint.see(nodes.each_ref().map(|node| &node.summary.words));
                true
            }),
        ];
        for end in &self.case.ends {
            properties.push(match end {
                End::BothServed => Property::sometimes("both are served", |world, state| {
                    world.reaches(state, End::BothServed)
                }),
                End::Extended => Property::sometimes("a lease is extended", |world, state| {
                    world.reaches(state, End::Extended)
                }),
                End::SoldAgain => Property::sometimes("units are sold again", |world, state| {
                    world.reaches(state, End::SoldAgain)
                }),
                End::Refused => Property::sometimes("somebody is refused", |world, state| {
                    world.reaches(state, End::Refused)
                }),
            });
        }
        properties
    }
}
