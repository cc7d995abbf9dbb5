//! The loop: what is due next happens, to one actor at a time, and is watched.

use std::collections::BTreeMap;

use tenure_core::actor::Actor;
use tenure_core::actor::effect::DriverResult;
use tenure_core::driver::Call;
use tenure_core::model::identity::ActorId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::host::Turn;
use tenure_core::runtime::outbox::Outgoing;
use tenure_core::runtime::{AnyActor, Input};
use tenure_core::wire::message::{Sealed, Sequence};
use tenure_laws::Observation;

use super::act::Act;
use super::adversary::Observed;
use super::fault::{Family, Fault};
use super::node::Nodes;
use super::participant::{Participant, Step};
use super::sampler::Sampler;
use super::setting::{Setting, Stream};
use super::strangers::Strangers;
use super::takeover::{self, Heard};
use super::violation::Violation;
use super::watch::Watch;
use super::wire::Wire;
use crate::random::Chance;

/// The most that can happen at one instant before it is called a livelock.
const MOST_AT_ONCE: u32 = 20_000;

/// All participants, and everything in flight.
pub(super) struct World {
    pub(super) setting: Setting,
    pub(super) chance: Chance,
    pub(super) now: Time,
    pub(super) participants: Vec<Participant>,
    pub(super) by_id: BTreeMap<ActorId, usize>,
    queue: BTreeMap<(Time, u64), Event>,
    queued: u64,
    pub(super) wire: Wire,
    pub(super) strangers: Strangers,
    pub(super) nodes: Nodes,
    pub(super) observed: Observed,
    pub(super) heard: Heard,
    pub(super) watch: Watch,
    pub(super) healed: bool,
    /// How the shells fare: disks, deaths, timers.
    pub(super) shell: Sampler,
    pub(super) users: Sampler,
    /// Draws what requests wait for.
    pub(super) sequences: Sampler,
    pub(super) links: Sampler,
    /// Draws which leases depend on heartbeats.
    pub(super) heartbeats: Sampler,
    pub(super) several: Sampler,
    /// Whether requests of this seed go to several brokers at times.
    pub(super) asks_several: bool,
    pub(super) plans: Sampler,
    pub(super) services: Sampler,
    pub(super) sampler: BTreeMap<Family, Sampler>,
    at_once: u32,
}

/// What is on its way.
pub(super) enum Event {
    /// A message, and whether it was held up until a boundary of what it is about. `sent` says by whom and when, if
    /// it is on a connection.
    Message {
        to: usize,
        sealed: Sealed,
        edge: bool,
        sent: Option<(usize, Time)>,
    },
    Answer {
        to: usize,
        done: DriverResult,
    },
    Decision {
        to: usize,
        decision: Box<Input>,
    },
    /// A disk has synced, or a pause has ended.
    Free {
        who: usize,
        life: u32,
    },
    Rise {
        who: usize,
    },
    /// The other instance of an actor looks what it has to do.
    Rival {
        who: usize,
    },
    Act(Act),
}

impl World {
    pub(super) fn new(
        setting: Setting,
        chance: Chance,
        watch: Watch,
        participants: Vec<Participant>,
    ) -> Self {
        let by_id = participants.iter().enumerate().map(|(index, p)| (p.id, index)).collect();
        let sampler = Family::ALL.iter().map(|&f| (f, Stream::Family(f).sampler(chance))).collect();
        let mut several = Stream::Several.sampler(chance);
        Self {
            wire: Wire::new(chance, &setting),
            strangers: Strangers::new(&setting),
            nodes: Nodes::default(),
            observed: Observed::default(),
            heard: Heard::default(),
            shell: Stream::Shell.sampler(chance),
            users: Stream::Users.sampler(chance),
            sequences: Stream::Sequences.sampler(chance),
            links: Stream::Links.sampler(chance),
            heartbeats: Stream::Heartbeats.sampler(chance),
            asks_several: several.percent(30),
            several,
            plans: Stream::Plans.sampler(chance),
            services: Stream::Services.sampler(chance),
            now: Time::ZERO,
            queue: BTreeMap::new(),
            queued: 0,
            healed: false,
            at_once: 0,
            setting,
            chance,
            participants,
            by_id,
            watch,
            sampler,
        }
    }

    /// Puts something on its way.
    pub(super) fn later(&mut self, at: Time, event: Event) {
        self.queued += 1;
        self.queue.insert((at.max(self.now), self.queued), event);
    }

    /// The stream of a family.
    pub(super) fn sampler(&mut self, family: Family) -> &mut Sampler {
        let chance = self.chance;
        self.sampler.entry(family).or_insert_with(|| Stream::Family(family).sampler(chance))
    }

    /// Whether a family strikes now, which it does `percent` times in a hundred while faults continue.
    pub(super) fn strikes(&mut self, family: Family, percent: u32) -> bool {
        !self.healed && self.setting.has(family) && self.sampler(family).percent(percent)
    }

    /// Starts all participants.
    pub(super) fn open(&mut self) -> Result<(), Violation> {
        (0..self.participants.len()).try_for_each(|who| self.hand_in(who, Input::Start))?;
        self.define_services();
        Ok(())
    }

    /// Lets everything happen until an instant.
    pub(super) fn run_until(&mut self, until: Time) -> Result<(), Violation> {
        loop {
            let next = self.next_due();
            let Some((at, what)) = next.filter(|(at, _)| *at <= until) else {
                self.now = until;
                return Ok(());
            };
            self.at_once = if at > self.now { 0 } else { self.at_once + 1 };
            if self.at_once > MOST_AT_ONCE {
                return Err(self.stuck("actors keep each other busy without time passing"));
            }
            self.now = self.now.max(at);
            self.happens(what)?;
        }
    }

    /// What is due first: an event, or a participant's timer.
    fn next_due(&mut self) -> Option<(Time, Due)> {
        let event = self.queue.first_key_value().map(|((at, _), _)| (*at, Due::Event));
        let mut next = event;
        for who in 0..self.participants.len() {
            if !self.participants[who].listens() {
                continue;
            }
            let timer = self.timer(who).map(|at| (at.max(self.now), Due::Timer(who)));
            let resend = self.participants[who].repetition().map(|at| (at, Due::Resend(who)));
            for due in [timer, resend].into_iter().flatten() {
                if next.as_ref().is_none_or(|(at, _)| due.0 < *at) {
                    next = Some(due);
                }
            }
        }
        next
    }

    /// When a participant's timer fires, with its delay if it has one.
    fn timer(&mut self, who: usize) -> Option<Time> {
        let at = self.participants[who].timeout()?;
        if self.healed || at < self.now || !self.setting.has(Family::LateTimer) {
            return Some(at);
        }
        let (chance, term, late) =
            (self.chance, self.setting.term, &mut self.participants[who].late);
        let lag = late.filter(|(of, _)| *of == at).map(|(_, lag)| lag);
        let lag = lag.unwrap_or_else(|| super::shell::lag(chance, who, at, term));
        *late = Some((at, lag));
        Some(at.plus(lag))
    }

    fn happens(&mut self, what: Due) -> Result<(), Violation> {
        match what {
            Due::Event => match self.queue.pop_first() {
                Some((_, event)) => self.event(event),
                None => Ok(()),
            },
            Due::Timer(who) => {
                self.note_lateness(who);
                self.hand_in(who, Input::Tick)
            }
            Due::Resend(who) => self.resend(who),
        }
    }

    fn note_lateness(&mut self, who: usize) {
        let due = self.participants[who].timeout().filter(|due| *due > Time::MIN);
        if due.is_some_and(|due| due < self.now) && self.setting.has(Family::LateTimer) {
            self.watch.fault(Fault::TimerLate);
        }
    }

    fn event(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Message { to, sealed, edge, sent } => {
                if !self.healed && sent.is_some_and(|sent| self.wire.has_lost(sent, to)) {
                    self.watch.fault(Fault::Broken);
                    return Ok(());
                }
                if edge {
                    self.watch.arrives(self.now, &self.participants[to], &sealed);
                }
                if self.ambushed(to, &sealed) {
                    return Ok(());
                }
                self.reach(to, Input::Message(sealed))
            }
            Event::Answer { to, done } => self.reach(to, Input::Driver(done)),
            Event::Decision { to, decision } => self.reach(to, *decision),
            Event::Free { who, life } if self.participants[who].run.life == life => self.free(who),
            Event::Free { who, life } if self.participants[who].has_rival(life) => {
                self.as_rival(who, |world| world.free(who))
            }
            Event::Free { .. } => Ok(()),
            Event::Rival { who } => self.rival_looks(who),
            Event::Rise { who } => self.bring_up(who),
            Event::Act(act) => self.act(act),
        }
    }

    /// Sends again what was not answered for too long.
    pub(super) fn resend(&mut self, who: usize) -> Result<(), Violation> {
        let now = self.now;
        let Some(host) = &mut self.participants[who].run.host else { return Ok(()) };
        for (id, outgoing) in host.repeat(now) {
            self.watch.repeats(self.now, &self.participants[who], &outgoing)?;
            self.transmit(who, id, outgoing.to, outgoing.kind, &outgoing.sealed);
        }
        Ok(())
    }

    /// Hands an input to a participant, now or when its pause ends. One that is down receives nothing.
    pub(super) fn hand_in(&mut self, who: usize, input: Input) -> Result<(), Violation> {
        let participant = &mut self.participants[who];
        if participant.run.host.is_none() {
            return Ok(());
        }
        participant.run.inbox.push_back(input);
        if participant.run.busy.is_none() { self.work(who) } else { Ok(()) }
    }

    /// A participant processes its inputs, as far as its disk allows.
    pub(super) fn work(&mut self, who: usize) -> Result<(), Violation> {
        while self.participants[who].listens() && !self.participants[who].run.inbox.is_empty() {
            let inputs = std::mem::take(&mut self.participants[who].run.inbox);
            for input in inputs {
                self.step(who, input)?;
                if self.participants[who].run.host.is_none() {
                    return Ok(());
                }
            }
            self.sync(who)?;
        }
        self.rests(who)
    }

    /// A participant rests once nothing is due by its clock and its disk has nothing outstanding.
    pub(super) fn rests(&mut self, who: usize) -> Result<(), Violation> {
        let participant = &self.participants[who];
        let (actor, clock) = (participant.id, participant.time(self.now));
        let due = |hosted: &AnyActor| {
            let all = [hosted.next_timeout(), hosted.next_volatile()];
            all.into_iter().flatten().any(|due| due <= clock)
        };
        if !participant.listens()
            || participant.is_stale()
            || !participant.run.unsynced.is_empty()
            || participant.actor().is_none_or(due)
        {
            return Ok(());
        }
        Ok(self.watch.auditor.observe(self.now, &Observation::Rested { actor, clock })?)
    }

    /// One input: its facts are appended, not yet durable, and nothing leaves.
    fn step(&mut self, who: usize, input: Input) -> Result<(), Violation> {
        let participant = &mut self.participants[who];
        let Some(actor) = participant.actor() else { return Ok(()) };
        let position = actor.position();
        let before = self.watch.before(participant);
        self.watch.input(self.now, participant, &input);
        let sender = takeover::sender(&input);
        let Turn { facts, problems, .. } = participant.handle(self.now, input);
        if facts.is_empty() {
            self.watch.unmoved(self.now, participant, before)?;
        }
        self.watch.problems(&problems);
        if let Some(sender) = sender {
            self.hear(who, sender, &problems);
        }
        let decided = !facts.is_empty();
        if !decided && !self.participants[who].has_departures() {
            return Ok(());
        }
        if decided && self.springs(who, Fault::BeforeAppend) {
            return self.crash(who);
        }
        self.participants[who].run.unsynced.push(Step { position, facts });
        if decided && self.springs(who, Fault::AfterAppend) {
            return self.crash(who);
        }
        Ok(())
    }

    /// Sends an answer or a question over the wire.
    pub(super) fn transmit(
        &mut self,
        from: usize,
        sequence: Sequence,
        to: ActorId,
        kind: &'static str,
        sealed: &Sealed,
    ) {
        let Some(&to) = self.by_id.get(&to) else { return };
        let arrivals = self.fates(from, to, (sequence, kind), sealed);
        for (at, edge) in arrivals {
            let sent = Some((from, self.now));
            self.later(at, Event::Message { to, sealed: sealed.clone(), edge, sent });
        }
    }

    /// A message leaves: it is watched, and put on the wire.
    pub(super) fn post(
        &mut self,
        who: usize,
        sequence: Sequence,
        outgoing: &Outgoing,
    ) -> Result<(), Violation> {
        let Outgoing { to, kind, sealed } = outgoing;
        let participant = &mut self.participants[who];
        if let Ok(envelope) = sealed.peek() {
            self.watch.sent(self.now, participant, &envelope, sealed)?;
            self.observe(&envelope);
        }
        self.transmit(who, sequence, *to, kind, sealed);
        Ok(())
    }

    /// A driver is called; its answers are on their way.
    pub(super) fn call(&mut self, who: usize, call: &Call) -> Result<(), Violation> {
        self.watch.called(self.now, &self.participants[who], call)?;
        for (after, done) in self.perform(who, call) {
            self.later(self.now.plus(after), Event::Answer { to: who, done });
        }
        Ok(())
    }

    /// Reports that something is stuck.
    pub(super) fn stuck(&self, what: impl Into<String>) -> Violation {
        Violation::stuck(self.now, what.into())
    }

    /// A while of the kind that faults last.
    pub(super) fn spell(&mut self, family: Family) -> Span {
        let (term, second) = (self.setting.term, Span::SECOND);
        self.sampler(family).scaled(second, term.times(2))
    }
}

/// Whose turn it is.
enum Due {
    Event,
    Timer(usize),
    Resend(usize),
}
