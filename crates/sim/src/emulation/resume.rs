//! A run that continues from journals.
//!
//! What is volatile in a run follows from its facts: a message was sent, and a driver called, when the fact
//! that caused it was decided, and every draw of chance has a name. So what was on its way at an instant
//! is worked out from when it left.

use std::collections::BTreeMap;

use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::{DriverResult, Effect, EffectId};
use tenure_core::runtime::{Entry, Fact, Input, Output};

use tenure_core::driver::Call;
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::outbox::{Outbox, Outgoing};
use tenure_core::service_manager::facts as sm;
use tenure_core::wire::message::{Envelope, Sequence};

use super::{Emulation, EmulationError, EventInput};
use crate::fork::{ForkError, may_be_a_request};
use crate::network::Packet;
use crate::participants::Member;

/// How much of the past is kept at least before facts that nothing waits for are dropped.
const MANY: usize = 4096;

/// What a member has begun.
struct Begun {
    /// Messages by their numbers, with each time at which they were sent.
    sent: BTreeMap<EffectId, (Box<Envelope>, Vec<Time>)>,
    /// Calls of its driver, with when they were made.
    called: Vec<(EffectId, Call, Time)>,
    /// Says when messages were repeated.
    outbox: Outbox<()>,
    /// How much is kept before it is looked through.
    room: usize,
}

/// A message that is pending and has arrived before.
struct Asked {
    from: usize,
    to: usize,
    outgoing: Outgoing,
    arrived: Vec<Time>,
}

impl Emulation<'_> {
    /// Continues at `at` from the facts of each member. If they are of an `emulated` run on this very stage,
    /// what was on its way then arrives to the instant; else everything pending is sent again, as after a
    /// crash.
    pub(crate) fn resume(
        &mut self,
        pasts: &[&[Entry]],
        at: Time,
        emulated: bool,
    ) -> Result<(), ForkError> {
        self.now = at;
        // Scripts supply the demand.
        self.next_step = usize::MAX;
        let mut asked = Vec::new();
        for (index, past) in pasts.iter().enumerate() {
            let Begun { sent, called, outbox, .. } = self.recall(index, past)?;
            self.members[index].host.resume_from(past.len() as u64);
            for (id, call, since) in called {
                if self.members[index].host.actor().is_pending(id) {
                    self.call_since(index, call, since);
                }
            }
            if emulated {
                asked.extend(self.sent_since(index, sent, &outbox));
            } else {
                self.send_again(index, sent);
            }
        }
        for asked in asked {
            self.answers_since(&asked)?;
        }
        (0..self.members.len()).for_each(|index| self.plan(index));
        Ok(self.instant()?)
    }

    /// How many requests of users there was no lease for.
    pub(crate) fn dropped(&self) -> u64 {
        self.members.iter().map(|member| member.script.dropped()).sum()
    }

    /// The requests of users by their service managers and numbers here, with those that they were recorded
    /// under.
    pub(crate) fn users(&self) -> BTreeMap<(Name, u64), u64> {
        let of = |member: &Member| {
            let name = member.name.clone();
            let users: Vec<_> = member.script.users().collect();
            users.into_iter().map(move |(here, recorded)| ((name.clone(), here), recorded))
        };
        self.members.iter().flat_map(of).collect()
    }

    /// Adds the facts of a member, and returns what it has begun.
    fn recall(&mut self, index: usize, past: &[Entry]) -> Result<Begun, ForkError> {
        let outbox = self.members[index].host.outbox().alike();
        let (sent, called) = (BTreeMap::new(), Vec::new());
        let mut begun = Begun { sent, called, outbox, room: MANY };
        let mut start = 0;
        while let Some(first) = past.get(start) {
            self.repeat_until(index, &mut begun, first.at);
            let end = end_of_call(past, start);
            self.apply(index, start, &past[start..end])?;
            let actor = self.members[index].host.actor();
            for (id, effect) in actor.effects_after(start as u64) {
                match effect {
                    Effect::Send(envelope) => {
                        begun.outbox.sent(id, (), first.at);
                        begun.sent.insert(id, (envelope, vec![first.at]));
                    }
                    Effect::Call(call) => begun.called.push((id, call, first.at)),
                }
            }
            if begun.sent.len() + begun.called.len() > begun.room {
                self.forget(index, &mut begun);
            }
            start = end;
        }
        self.repeat_until(index, &mut begun, self.now);
        self.forget(index, &mut begun);
        Ok(begun)
    }

    fn apply(&mut self, index: usize, start: usize, facts: &[Entry]) -> Result<(), ForkError> {
        let member = &mut self.members[index];
        for (position, entry) in (start as u64..).zip(facts) {
            let applied = member.host.replay(entry);
            applied.map_err(|cause| {
                let name = member.name.clone();
                ForkError::BadFact { name, position, cause }
            })?;
            self.metrics.observe(index, entry);
        }
        let appended = member.journal.append(start as u64, facts);
        Ok(appended.map_err(|cause| {
            let name = member.name.clone();
            EmulationError::Journal { name, cause }
        })?)
    }

    /// Notes what a member has sent again up to `until`, before what it decided then.
    fn repeat_until(&self, index: usize, begun: &mut Begun, until: Time) {
        let actor = self.members[index].host.actor();
        let Begun { sent, outbox, .. } = begun;
        while let Some(at) = outbox.next_timeout(|id| actor.awaited(id)).filter(|at| *at <= until) {
            for (id, ()) in outbox.due(at, |id| actor.awaited(id)) {
                sent.entry(id).and_modify(|(_, times)| times.push(at));
            }
        }
    }

    /// Drops what is pending no more and has arrived.
    fn forget(&self, index: usize, begun: &mut Begun) {
        let actor = self.members[index].host.actor();
        begun.called.retain(|(id, ..)| actor.is_pending(*id));
        begun.sent.retain(|id, (envelope, times)| {
            let to = self.by_id.get(&envelope.header.to);
            let packet = to.map(|&to| packet(index, to, *id, envelope.message.kind()));
            let flies = |packet| {
                let mut arrivals = times.iter().flat_map(|at| self.arrivals_of(packet, *at));
                arrivals.any(|at| at > self.now)
            };
            actor.is_pending(*id) || packet.is_some_and(flies)
        });
        begun.room = MANY + 2 * (begun.sent.len() + begun.called.len());
    }

    /// When the copies arrive of what is sent at `sent`.
    fn arrivals_of(&self, packet: Packet, sent: Time) -> impl Iterator<Item = Time> {
        self.network.fate(packet, sent).into_iter().map(move |takes| sent.plus(takes))
    }

    /// A driver was called at `since`.
    fn call_since(&mut self, index: usize, call: Call, since: Time) {
        let Some(driver) = &self.members[index].driver else { return };
        let answer = driver.perform(&call);
        let Call { unit, epoch, step, number, lease, .. } = call;
        let done = DriverResult { unit, epoch, step, number, lease, outcome: answer.outcome };
        let left = since.plus(answer.after).since(self.now).max(Span::ZERO);
        self.arrive(index, left, EventInput::Answer(done));
    }

    /// Sends what is pending as if for the first time.
    fn send_again(&mut self, index: usize, sent: BTreeMap<EffectId, (Box<Envelope>, Vec<Time>)>) {
        for (id, (envelope, _)) in sent {
            if self.members[index].host.actor().is_pending(id) {
                let outgoing = self.seal(index, &envelope);
                self.members[index].host.outbox_mut().sent(id, outgoing.clone(), self.now);
                self.send(index, id, outgoing);
            }
        }
    }

    /// Brings messages where they are by now: repeated as often as they were, arrived or on their way.
    /// Answers those that are pending and have arrived.
    fn sent_since(
        &mut self,
        index: usize,
        sent: BTreeMap<EffectId, (Box<Envelope>, Vec<Time>)>,
        outbox: &Outbox<()>,
    ) -> Vec<Asked> {
        let now = self.now;
        let mut sendings = Vec::new();
        for (id, (envelope, times)) in sent {
            let outgoing = self.seal(index, &envelope);
            let host = &mut self.members[index].host;
            if host.actor().is_pending(id) {
                host.outbox_mut().sent_as(id, outgoing.clone(), outbox);
            }
            sendings.extend(times.into_iter().map(|at| (id, outgoing.clone(), at)));
        }
        let mut asked: BTreeMap<EffectId, Asked> = BTreeMap::new();
        for (id, outgoing, at) in sendings {
            let Some(&to) = self.by_id.get(&outgoing.to) else { continue };
            let arrivals: Vec<Time> =
                self.arrivals_of(packet(index, to, id, outgoing.kind), at).collect();
            for arrival in arrivals {
                if arrival > now {
                    let what =
                        EventInput::Message(self.members[index].id, id, outgoing.sealed.clone());
                    self.arrive(to, arrival.since(now), what);
                } else if self.members[index].host.actor().is_pending(id) {
                    let new = || {
                        let outgoing = outgoing.clone();
                        Asked { from: index, to, outgoing, arrived: Vec::new() }
                    };
                    asked.entry(id).or_insert_with(new).arrived.push(arrival);
                }
            }
        }
        asked.into_values().collect()
    }

    /// Has the answer to a message on its way, if it was given and has not arrived: anyone who is asked again
    /// gives the same answer, and says with it when its cause became a fact.
    fn answers_since(&mut self, asked: &Asked) -> Result<(), ForkError> {
        let Asked { from, to, outgoing, arrived } = asked;
        let (mut out, answerer) = (Output::default(), &mut self.members[*to]);
        let again = Input::Message(outgoing.sealed.clone());
        answerer.host.actor_mut().handle(self.now, again, &mut out);
        if !out.facts.is_empty() {
            return Err(ForkError::Unlike { name: answerer.name.clone() });
        }
        let first = arrived.iter().min().copied().unwrap_or(self.now);
        for reply in &out.replies {
            let Sequence { index, .. } = reply.header.sequence;
            if index == Sequence::VOLATILE || reply.header.to != self.members[*from].id {
                continue;
            }
            let caused = Some(reply.header.at).filter(|at| *at >= first);
            let repeated = arrived.iter().copied().filter(|at| *at > reply.header.at);
            let sealed = self.seal(*to, reply);
            for at in caused.into_iter().chain(repeated) {
                let packet = packet(*to, *from, reply.header.sequence, sealed.kind);
                let flying: Vec<Time> =
                    self.arrivals_of(packet, at).filter(|at| *at > self.now).collect();
                for arrival in flying {
                    let sender = self.members[*to].id;
                    let what =
                        EventInput::Message(sender, reply.header.sequence, sealed.sealed.clone());
                    self.arrive(*from, arrival.since(self.now), what);
                }
            }
        }
        Ok(())
    }
}

fn packet(from: usize, to: usize, sequence: Sequence, kind: &'static str) -> Packet {
    Packet { from, to, sequence, kind }
}

/// Where the facts end that were decided with the one at `start`, before anything left: those of one
/// instant, but for what a service manager's mapper decided, which comes after all else.
fn end_of_call(past: &[Entry], start: usize) -> usize {
    let at = past[start].at;
    let of_instant = past[start..].iter().take_while(|entry| entry.at == at).count();
    let facts = &past[start..start + of_instant];
    let answered =
        |entry: &Entry| matches!(&entry.fact, Fact::ServiceManager(sm::Fact::MapperAnswered(_)));
    let Some(answer) = facts.iter().position(answered) else { return start + of_instant };
    let requests =
        facts[..answer].iter().rev().take_while(|entry| may_be_a_request(&entry.fact)).count();
    if requests < answer { start + answer - requests } else { start + answer + 1 }
}
