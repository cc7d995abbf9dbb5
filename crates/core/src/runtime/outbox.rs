//! The outbox: repeats what is owed until it is not.
//!
//! Volatile. After a recovery a fresh one is filled from what the actor still owes, and the bytes are the
//! same as before the crash, because they follow from the facts.

use std::collections::{BTreeMap, BTreeSet};

use crate::actor::effect::{Awaited, EffectId};
use crate::model::identity::ActorId;
use crate::model::time::{Span, Time};
use crate::wire::message::Sealed;

/// How an outbox repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The pause before the first repetition; it doubles with each.
    pub first: Span,
    /// The longest pause.
    pub longest: Span,
}

/// A sealed message on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// Who it is for.
    pub to: ActorId,
    /// The kind of message it is.
    pub kind: &'static str,
    /// The bytes.
    pub sealed: Sealed,
}

/// A message that is not answered yet.
#[derive(Clone, Debug)]
struct Waiting<M> {
    message: M,
    schedule: Schedule,
}

/// When a message is sent.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    /// When it was sent for the first time.
    since: Time,
    /// When it is sent again.
    next: Time,
    /// The pause before that.
    pause: Span,
    /// How often it was sent.
    sent: u32,
    /// Whether its receiver was expected to hold it at the last sending.
    held: bool,
}

/// A message that its receiver holds is repeated after this part of the time that it has been held, so that
/// the answer, if it is lost, comes late by no more than that part.
const HELD_PART: i64 = 32;

/// The messages of one actor that wait for an answer.
#[derive(Clone, Debug)]
pub struct Outbox<M = Outgoing> {
    retry_policy: RetryPolicy,
    waiting: BTreeMap<EffectId, Waiting<M>>,
    by_time: BTreeSet<(Time, EffectId)>,
}

impl<M: Clone> Outbox<M> {
    /// An empty outbox.
    pub fn new(retry_policy: RetryPolicy) -> Self {
        Self { retry_policy, waiting: BTreeMap::new(), by_time: BTreeSet::new() }
    }

    /// An empty outbox that repeats in the same way.
    pub fn alike<N: Clone>(&self) -> Outbox<N> {
        Outbox::new(self.retry_policy)
    }

    /// Takes in a message that is being sent now.
    pub fn sent(&mut self, id: EffectId, message: M, now: Time) {
        let pause = self.retry_policy.first;
        let next = now.plus(pause);
        self.schedule(id, message, Schedule { since: now, next, pause, sent: 1, held: false });
    }

    /// Takes in a message that has been sent as often as another outbox says; answers whether that knows it.
    pub fn sent_as<N>(&mut self, id: EffectId, message: M, other: &Outbox<N>) -> bool {
        let known = other.waiting.get(&id).map(|waiting| waiting.schedule);
        known.map(|schedule| self.schedule(id, message, schedule)).is_some()
    }

    fn schedule(&mut self, id: EffectId, message: M, schedule: Schedule) {
        self.by_time.insert((schedule.next, id));
        if let Some(before) = self.waiting.insert(id, Waiting { message, schedule })
            && before.schedule.next != schedule.next
        {
            self.by_time.remove(&(before.schedule.next, id));
        }
    }

    /// How often a message that waits for an answer was sent, since it was taken in.
    pub fn times_sent(&self, id: EffectId) -> u32 {
        self.waiting.get(&id).map_or(0, |waiting| waiting.schedule.sent)
    }

    /// The messages to repeat now: due, and still owed.
    pub fn due(&mut self, now: Time, awaited: impl Fn(EffectId) -> Awaited) -> Vec<(EffectId, M)> {
        let mut due = Vec::new();
        while let Some(&(time, id)) = self.by_time.first() {
            if time > now {
                break;
            }
            self.by_time.pop_first();
            let awaited = awaited(id);
            if awaited == Awaited::Nothing {
                self.waiting.remove(&id);
            } else if let Some(waiting) = self.waiting.get_mut(&id) {
                due.push((id, waiting.message.clone()));
                waiting.schedule.repeated(self.retry_policy, now, awaited);
                self.by_time.insert((waiting.schedule.next, id));
            }
        }
        due
    }

    /// When something will have to be repeated. Drops what is owed no more on the way.
    pub fn next_timeout(&mut self, awaited: impl Fn(EffectId) -> Awaited) -> Option<Time> {
        loop {
            let &(time, id) = self.by_time.first()?;
            if awaited(id) != Awaited::Nothing {
                return Some(time);
            }
            self.by_time.pop_first();
            self.waiting.remove(&id);
        }
    }
}

impl Schedule {
    /// It is sent again now.
    fn repeated(&mut self, policy: RetryPolicy, now: Time, awaited: Awaited) {
        let until = match awaited {
            Awaited::Held(until) if until > now => Some(until),
            Awaited::Held(_) | Awaited::Answer | Awaited::Nothing => None,
        };
        let part = Span::from_micros(now.since(self.since).as_micros() / HELD_PART);
        let longest = until.map_or(policy.longest, |_| policy.longest.max(part));
        // From when on an answer should be there, the pauses are as if it had been sent then.
        let before = if self.held && until.is_none() { policy.first } else { self.pause };
        self.pause = before.times(2).min(longest);
        self.next = now.plus(self.pause);
        if let Some(until) = until {
            self.next = self.next.min(until.plus(policy.first));
        }
        self.held = until.is_some();
        self.sent = self.sent.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy { first: Span::from_secs(10), longest: Span::MINUTE };

    const ID: EffectId = EffectId { position: 0, index: 0 };

    /// The seconds at which a message is repeated within so many, by what is awaited at each.
    fn repeated(seconds: i64, awaited: impl Fn(i64) -> Awaited) -> Vec<i64> {
        let mut outbox = Outbox::new(POLICY);
        outbox.sent(ID, (), Time::ZERO);
        let mut times = Vec::new();
        while let Some(at) = outbox.next_timeout(|_| Awaited::Answer) {
            let second = at.since(Time::ZERO).as_micros() / 1_000_000;
            if second > seconds || outbox.due(at, |_| awaited(second)).is_empty() {
                return times;
            }
            times.push(second);
        }
        times
    }

    fn at(seconds: i64) -> Time {
        Time::ZERO.plus(Span::from_secs(seconds))
    }

    #[test]
    fn pauses_double_up_to_the_longest_one() {
        assert_eq!(repeated(280, |_| Awaited::Answer), [10, 30, 70, 130, 190, 250]);
        let settled = |second| if second < 100 { Awaited::Answer } else { Awaited::Nothing };
        assert_eq!(repeated(1000, settled), [10, 30, 70]);
    }

    #[test]
    fn what_is_held_is_repeated_more_and_more_seldom_until_its_answer_is_due() {
        let day = 86_400;
        let held = repeated(day + 200, |_| Awaited::Held(at(day)));
        assert!(held.len() < 200, "{}", held.len());
        for pair in held.windows(2).filter(|pair| pair[1] < day) {
            let pause = pair[1] - pair[0];
            assert!(pause <= 60.max(pair[0] / HELD_PART + 1), "{pair:?}");
        }
        let due: Vec<i64> = held.into_iter().filter(|second| *second >= day).collect();
        assert_eq!(due, [day + 10, day + 30, day + 70, day + 130, day + 190]);
    }
}
