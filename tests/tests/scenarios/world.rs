//! A deployment in virtual time, driven as a shell drives actors, with everything it does written down.
//!
//! Within an instant work goes in rounds: each actor handles what the round before left for it, first its
//! driver's answers, then messages by sender and sequence, then its timers, and last its mapper's
//! decision. Nothing leaves an actor before its facts are in its journal.

use std::collections::BTreeMap;

use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::{DriverResult, Effect};
use tenure_core::actor::order::Order;
use tenure_core::model::identity::Signer;
use tenure_core::runtime::{Entry, Input};
use tenure_core::wire::credentials::Credentials;

use tenure_core::driver::Call;
use tenure_core::model::identity::ActorId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::host::{Departure, Turn};
use tenure_core::runtime::journal::Journal as _;
use tenure_core::wire::message::{Envelope, Sealed};
use tenure_laws::{Observation, digest};

use super::audit::Audit;
use super::describe;
use super::names::{self, Names};
use super::network::{Fate, Network, Packet};
use super::participant::{DriverBehavior, Participant, StatefulItem, done, refused};
use super::script::Bad;

/// The most rounds in an instant, and the most instants in one command.
const MANY: usize = 2_000;

pub struct World {
    pub now: Time,
    /// In the order of their names.
    pub participants: Vec<Participant>,
    pub names: Names,
    pub network: Network,
    pub audit: Audit,
    /// Answers of drivers that take their time.
    later: BTreeMap<(Time, usize), (usize, DriverResult)>,
    calls: usize,
    forgeries: u64,
    trace: Vec<String>,
    /// The time that the trace has shown last.
    shown: Option<Time>,
    /// The name of the command that is carried out, if it has one.
    pub order: Option<Order>,
    /// The actor whose key a thief uses, and the key.
    pub stolen: Option<(usize, Signer)>,
}

impl World {
    pub fn new(now: Time, mut participants: Vec<Participant>, names: Names, audit: Audit) -> Self {
        participants.sort_by(|a, b| a.name.cmp(&b.name));
        let (network, later) = (Network::default(), BTreeMap::new());
        Self {
            now,
            participants,
            names,
            network,
            audit,
            later,
            calls: 0,
            forgeries: 1000,
            trace: Vec::new(),
            shown: None,
            order: None,
            stolen: None,
        }
    }

    pub fn index(&self, name: &str) -> Result<usize, Bad> {
        let known = || {
            names::list(self.participants.iter().map(|participant| participant.name.to_string()))
        };
        let index =
            self.participants.iter().position(|participant| participant.name.as_str() == name);
        index.ok_or_else(|| format!("there is no actor `{name}`; known: {}", known()))
    }

    /// What was written down since the last time.
    pub fn take_trace(&mut self) -> Vec<String> {
        self.show_time();
        std::mem::take(&mut self.trace)
    }

    /// The next line has the time, whatever was before it.
    pub fn show_time(&mut self) {
        self.shown = None;
    }

    /// Writes a line: when, who, what.
    pub fn say(&mut self, who: &str, what: &str) {
        let time =
            if self.shown == Some(self.now) { String::new() } else { names::clock(self.now) };
        self.shown = Some(self.now);
        self.trace.push(format!("{time:<9} {who:<18} {what}").trim_end().to_owned());
    }

    fn say_of(&mut self, who: usize, what: &str) {
        let name = self.participants[who].name.to_string();
        self.say(&name, what);
    }

    /// Writes a line that belongs to the one above.
    pub fn say_below(&mut self, what: &str) {
        self.trace.push(format!("{:<30} {what}", ""));
    }

    fn say_more(&mut self, what: &str) {
        if let Some(line) = self.trace.last_mut() {
            line.push_str(what);
        }
    }

    /// Hands an actor an input, makes its facts durable, then lets out what follows from them. Answers
    /// whether anything came of it.
    pub fn hand(&mut self, who: usize, input: Input) -> bool {
        let input = match (input, self.order.take()) {
            (Input::Command(command), Some(order)) => Input::Ordered(command, order),
            (input, _) => input,
        };
        if !self.participants[who].up {
            return false;
        }
        let participant = &mut self.participants[who];
        let now = participant.clock(self.now);
        let before = digest(participant.host.actor_mut());
        let round = participant.actor().open_round();
        let Turn { before: position, facts, problems, .. } = participant.host.handle(now, [input]);
        if facts.is_empty() {
            let (actor, same) = (participant.id, digest(participant.host.actor_mut()) == before);
            self.audit.see(self.now, &Observation::Unmoved { actor, same });
        }
        for problem in &problems {
            let problem = self.names.plain(&problem.to_string());
            self.say_of(who, &format!("- {problem}"));
        }
        let quiet = facts.is_empty() && problems.is_empty();
        let moved = !quiet || self.participants[who].host.has_departures();
        let doomed = self.doomed(who, &facts);
        if doomed == Some(true) {
            self.say_of(who, "CRASHES before it has journaled that");
            self.crash(who, false);
            return true;
        }
        let appended = self.participants[who].journal.append(position, &facts);
        assert!(appended.is_ok(), "a journal refused its facts: {appended:?}");
        let (actor, entries) = (self.participants[who].id, &facts[..]);
        self.audit.see(self.now, &Observation::Durable { actor, position, entries });
        for entry in &facts {
            self.narrate(who, entry);
        }
        self.participants[who].compare_with_twin();
        if doomed == Some(false) {
            self.say_of(who, "CRASHES before anything of that has left");
            self.crash(who, true);
            return true;
        }
        self.participants[who].host.durable(position + facts.len() as u64);
        self.release(who);
        let Participant { asleep, host, .. } = &self.participants[who];
        if *asleep && host.actor().open_round() > round {
            self.say_of(who, "- its mapper sleeps");
        }
        moved
    }

    /// Whether an actor crashes over these facts: before they are durable, or after.
    fn doomed(&mut self, who: usize, facts: &[Entry]) -> Option<bool> {
        let participant = &mut self.participants[who];
        let word = |entry: &Entry| entry.fact.kind().0.split_once('.').map(|(_, word)| word);
        let matters = |entry: &&Entry| !matches!(word(entry), Some("woken" | "mapper-answered"));
        let hits = |kind: &str| facts.iter().any(|entry| word(entry) == Some(kind));
        if let Some(crash_point) =
            participant.crash_point.take_if(|crash_point| hits(&crash_point.kind))
        {
            return Some(crash_point.before);
        }
        (participant.fragile && facts.iter().find(matters).is_some()).then_some(false)
    }

    fn narrate(&mut self, who: usize, entry: &Entry) {
        let id = self.participants[who].id;
        if let Some(text) = describe::fact(&mut self.names, id, &entry.fact) {
            let apart = entry.at != self.now;
            let own = if apart {
                format!(" [its clock: {}]", names::clock(entry.at))
            } else {
                String::new()
            };
            self.say_of(who, &format!("* {text}{own}"));
        }
        let changes = self.participants[who].follow(entry, &mut self.names);
        let mut changes = changes.into_iter().peekable();
        while let Some((item, name, change)) = changes.next() {
            let mut alike = vec![name];
            while let Some((_, name, _)) =
                changes.next_if(|next| next.0 == item && next.2 == change)
            {
                alike.push(name);
            }
            let what = match (item, alike.len()) {
                (StatefulItem::Lease, _) => "lease",
                (StatefulItem::Group, _) => "group",
                (StatefulItem::Request, _) => "request",
                (StatefulItem::LeaseOn, _) => "lease on",
                (StatefulItem::Unit, 1) => "unit",
                (StatefulItem::Unit, _) => "units",
            };
            self.say_below(&format!("{what} {}: {change}", names::list(alike)));
        }
    }

    /// The actor loses all but its journal, comes back from it, and is started.
    pub fn crash(&mut self, who: usize, durable: bool) {
        self.stop(who, durable);
        self.start(who);
    }

    /// The actor is gone; all it knew is in its journal, or not.
    pub fn stop(&mut self, who: usize, durable: bool) {
        let participant = &mut self.participants[who];
        participant.up = false;
        participant.last_seen = durable.then(|| digest(participant.host.actor_mut()));
        self.later.retain(|_, (of, _)| *of != who);
        self.audit.see(self.now, &Observation::Crashed { actor: self.participants[who].id });
    }

    /// The actor comes back from its journal.
    pub fn start(&mut self, who: usize) {
        let participant = &mut self.participants[who];
        participant.recover();
        participant.up = true;
        let (actor, position) = (participant.id, participant.actor().position());
        let recovered = digest(participant.host.actor_mut());
        let same = participant.last_seen.take().map(|live| live == recovered);
        let seen = Observation::Recovered { actor, position, same };
        self.audit.see(self.now, &seen);
        self.hand(who, Input::Start);
    }

    /// Lets out what follows from durable facts.
    fn release(&mut self, who: usize) {
        let (now, mut departures) = (self.now, Vec::new());
        self.participants[who].host.release(now, |departure| departures.push(departure));
        for departure in departures {
            match departure {
                Departure::Message(_, outgoing) => self.post(who, outgoing.sealed),
                Departure::Call(_, call) => self.perform(who, call),
            }
        }
    }

    /// Sends a message.
    pub fn post(&mut self, who: usize, sealed: Sealed) {
        let Ok(envelope) = sealed.peek() else { return };
        let packet = Packet {
            from: self.participants[who].name.to_string(),
            to: self.names.actor(envelope.header.to),
            kind: envelope.message.kind(),
            sequence: envelope.header.sequence,
            sealed,
            again: false,
        };
        // What a thief sends is nothing that the actor has sent.
        if self.stolen.is_none() {
            let sent = Observation::Sent { envelope: &envelope, sealed: &packet.sealed };
            self.audit.see(self.now, &sent);
        }
        self.send(packet);
    }

    /// Seals a message in an actor's name and sends it.
    pub fn forge(&mut self, who: usize, envelope: &Envelope) {
        let sealed = match &self.stolen {
            Some((_, key)) => envelope.seal(&mut Credentials::new(key.clone())),
            None => self.participants[who].host.actor_mut().seal(envelope),
        };
        self.post(who, sealed);
    }

    /// The secret that an actor cuts tickets with when it forges them, or the one a thief has of it.
    pub fn forger(&self, who: usize) -> &Signer {
        let stolen = self.stolen.as_ref().filter(|(of, _)| *of == who);
        stolen.map_or(&self.participants[who].signer, |(_, key)| key)
    }

    fn send(&mut self, mut packet: Packet) {
        match self.network.send(&mut packet) {
            Fate::Arrives => self.arrive(packet),
            Fate::Lost => self.say_packet(&packet, ": LOST"),
            Fate::Held => self.say_packet(&packet, ": HELD"),
        }
    }

    /// Delivers a message, regardless of the network's rules.
    pub fn arrive(&mut self, packet: Packet) {
        match self.index(&packet.to) {
            Ok(to) if self.participants[to].up => self.participants[to].messages.push(packet),
            _ => self.say_packet(&packet, ": LOST, nobody is there"),
        }
    }

    fn say_packet(&mut self, packet: &Packet, fate: &str) {
        let who = format!("{} -> {}", packet.from, packet.to);
        let text = match packet.sealed.peek() {
            Ok(envelope) => describe::message(&mut self.names, &envelope.message),
            Err(_) => "bytes without sense".to_owned(),
        };
        let again = if packet.again { ", again" } else { "" };
        self.say(&who, &format!("{text}{again}{fate}"));
    }

    fn perform(&mut self, who: usize, call: Call) {
        let actor = self.participants[who].id;
        self.audit.see(self.now, &Observation::Called { actor, call: &call });
        let behavior = self.participants[who].behavior(call.step, call.unit);
        let text = describe::call(&self.names, &call);
        self.say_of(
            who,
            &format!("! {text}{}", if behavior == DriverBehavior::Hangs { ": HANGS" } else { "" }),
        );
        match behavior {
            DriverBehavior::Works => self.participants[who].answers.push(done(&call, true)),
            DriverBehavior::Fails => self.participants[who].answers.push(done(&call, false)),
            DriverBehavior::Refuses => self.participants[who].answers.push(refused(&call)),
            DriverBehavior::Hangs => self.participants[who].hanging.push(call),
            DriverBehavior::Takes(span) => {
                self.calls += 1;
                let at = (self.now.plus(span), self.calls);
                self.later.insert(at, (who, done(&call, true)));
            }
        }
    }

    /// Until nothing is left to do at this instant.
    pub fn run(&mut self) -> Result<(), Bad> {
        for _ in 0..MANY {
            if !self.round() {
                self.see_rest();
                return self.audit.verdict();
            }
        }
        Err(format!("at {} the actors keep each other busy for ever", names::clock(self.now)))
    }

    fn see_rest(&mut self) {
        for participant in self.participants.iter_mut().filter(|participant| participant.up) {
            let (actor, clock) = (participant.id, participant.clock(self.now));
            self.audit.see(self.now, &Observation::Rested { actor, clock });
        }
    }

    fn round(&mut self) -> bool {
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (who, done) = entry.remove();
            self.participants[who].answers.push(done);
        }
        let inboxes: Vec<_> = self
            .participants
            .iter_mut()
            .map(|participant| {
                (
                    std::mem::take(&mut participant.answers),
                    std::mem::take(&mut participant.messages),
                )
            })
            .collect();
        let mut busy = false;
        for (who, (mut answers, mut messages)) in inboxes.into_iter().enumerate() {
            answers.sort_by_key(|done| (done.unit, done.epoch, done.step, done.lease));
            messages.sort_by(|a, b| (&a.from, a.sequence).cmp(&(&b.from, b.sequence)));
            busy |= !answers.is_empty() || !messages.is_empty();
            for done in answers {
                self.hand(who, Input::Driver(done));
            }
            for packet in messages {
                self.deliver(who, packet);
            }
            busy |= self.tick(who);
            self.repeat_due(who);
            busy |= self.consult(who);
        }
        busy || self.participants.iter().any(|p| !p.answers.is_empty() || !p.messages.is_empty())
    }

    fn deliver(&mut self, who: usize, packet: Packet) {
        if !self.participants[who].up {
            return self.say_packet(&packet, ": LOST, nobody is there");
        }
        self.say_packet(&packet, "");
        if !self.hand(who, Input::Message(packet.sealed)) {
            self.say_more(": nothing new");
        }
    }

    fn tick(&mut self, who: usize) -> bool {
        let participant = &mut self.participants[who];
        let now = participant.clock(self.now);
        let due = participant.up && participant.host.is_due(now);
        if due {
            self.hand(who, Input::Tick);
        }
        due
    }

    /// Sends again what was not answered for too long.
    fn repeat_due(&mut self, who: usize) {
        let participant = &mut self.participants[who];
        if !participant.up {
            return;
        }
        for (_, outgoing) in participant.host.repeat(self.now) {
            self.post(who, outgoing.sealed);
        }
    }

    /// Sends again all pending messages of all actors.
    pub fn repeat_all(&mut self) {
        for who in 0..self.participants.len() {
            if self.participants[who].up {
                for (_, effect) in self.participants[who].actor().effects_after(0) {
                    if let Effect::Send(envelope) = effect {
                        self.forge(who, &envelope);
                    }
                }
            }
        }
    }

    fn consult(&mut self, who: usize) -> bool {
        let participant = &mut self.participants[who];
        let now = participant.clock(self.now);
        if !participant.up || participant.asleep {
            return false;
        }
        let Some(decision) = participant.mapper.consult(participant.actor(), now) else {
            return false;
        };
        self.hand(who, decision);
        true
    }

    /// When anything is due next.
    pub fn next(&mut self) -> Option<Time> {
        let later = self.later.first_key_value().map(|((time, _), _)| *time);
        let participants = self.participants.iter_mut().filter(|participant| participant.up);
        participants.filter_map(Participant::next).chain(later).min().map(|next| next.max(self.now))
    }

    /// Lets time pass, from one thing that is due to the next.
    pub fn advance_to(&mut self, until: Time) -> Result<(), Bad> {
        if until < self.now {
            return Err(format!("it is {} already", names::clock(self.now)));
        }
        for _ in 0..MANY {
            let Some(next) = self.next().filter(|next| *next <= until) else {
                self.now = until;
                return Ok(());
            };
            self.now = next;
            self.run()?;
        }
        Err("there is too much to do until then".to_owned())
    }

    /// What is still going on, one line each.
    pub fn unfinished(&self) -> Vec<String> {
        let lines = self.participants.iter().flat_map(|participant| {
            let lines = participant.actor().unfinished(100).into_iter();
            lines.map(|line| format!("{}: {}", participant.name, self.names.plain(&line)))
        });
        lines.collect()
    }

    /// Lets time pass until everything has ended; at most `limit`.
    pub fn finish(&mut self, limit: Span) -> Result<(), Bad> {
        let until = self.now.plus(limit);
        for _ in 0..MANY {
            self.run()?;
            if self.unfinished().is_empty() {
                self.audit.settle(self.now);
                return self.audit.verdict();
            }
            match self.next().filter(|next| *next <= until) {
                Some(next) => self.now = next,
                None => break,
            }
        }
        Err(format!("this is never over: {}", self.unfinished().join("; ")))
    }

    /// A number that nothing honest has.
    pub fn next_forgery(&mut self) -> u64 {
        self.forgeries += 1;
        self.forgeries
    }

    pub fn id(&self, who: usize) -> ActorId {
        self.participants[who].id
    }
}
