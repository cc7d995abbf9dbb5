//! The outbox: repeats what is owed until it is not.
//!
//! Volatile. After a recovery a fresh one is filled from what the actor still owes, and the bytes are the
//! same as before the crash, because they follow from the facts.

use std::collections::{BTreeMap, BTreeSet};

use crate::actor::effect::EffectId;
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
    /// The pause before it is sent again.
    pause: Span,
    /// How often it was sent.
    sent: u32,
}

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
        self.waiting.insert(id, Waiting { message, pause, sent: 1 });
        self.by_time.insert((now.plus(pause), id));
    }

    /// How often a message that waits for an answer was sent, since it was taken in.
    pub fn times_sent(&self, id: EffectId) -> u32 {
        self.waiting.get(&id).map_or(0, |waiting| waiting.sent)
    }

    /// The messages to repeat now: due, and still owed.
    pub fn due(&mut self, now: Time, is_pending: impl Fn(EffectId) -> bool) -> Vec<(EffectId, M)> {
        let mut due = Vec::new();
        while let Some(&(time, id)) = self.by_time.first() {
            if time > now {
                break;
            }
            self.by_time.pop_first();
            if !is_pending(id) {
                self.waiting.remove(&id);
            } else if let Some(waiting) = self.waiting.get_mut(&id) {
                due.push((id, waiting.message.clone()));
                waiting.pause = waiting.pause.times(2).min(self.retry_policy.longest);
                waiting.sent = waiting.sent.saturating_add(1);
                self.by_time.insert((now.plus(waiting.pause), id));
            }
        }
        due
    }

    /// When something will have to be repeated. Drops what is owed no more on the way.
    pub fn next_timeout(&mut self, is_pending: impl Fn(EffectId) -> bool) -> Option<Time> {
        loop {
            let &(time, id) = self.by_time.first()?;
            if is_pending(id) {
                return Some(time);
            }
            self.by_time.pop_first();
            self.waiting.remove(&id);
        }
    }
}
