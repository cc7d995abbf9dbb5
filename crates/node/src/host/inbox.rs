//! What waits to be handed to an actor, in the order in which it will be.

use std::collections::VecDeque;

use tenure_core::actor::effect::DriverResult;
use tenure_core::model::identity::ActorId;
use tenure_core::runtime::{Decision, Input};
use tenure_core::wire::message::{Sealed, Sequence};

use super::actor_run::Task;
use super::handle::HostError;
use crate::transport::Packet;

/// Inputs by kind. A turn takes drivers' answers by unit and epoch, then messages by sender and sequence,
/// then what users want and what was measured, as it came.
#[derive(Default)]
pub(super) struct Inbox {
    /// Whether the start of a run is still to be delivered.
    begins: bool,
    answers: VecDeque<DriverResult>,
    messages: VecDeque<(ActorId, Sequence, Sealed)>,
    others: VecDeque<Task>,
    /// What the mapper decided; there is one round at a time.
    decision: Option<Decision>,
}

impl Inbox {
    /// A run begins: the actor processes that before anything else.
    pub(super) fn begin(&mut self) {
        self.begins = true;
    }

    pub(super) fn answer(&mut self, done: DriverResult) {
        self.answers.push_back(done);
    }

    pub(super) fn message(&mut self, packet: Packet) {
        self.messages.push_back((packet.from, packet.sequence, packet.sealed));
    }

    pub(super) fn decision(&mut self, decision: Decision) {
        self.decision = Some(decision);
    }

    pub(super) fn other(&mut self, task: Task) {
        self.others.push_back(task);
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.begins)
            + self.answers.len()
            + self.messages.len()
            + self.others.len()
            + usize::from(self.decision.is_some())
    }

    /// The tasks of a turn, at most `most` of each kind; the rest stays.
    pub(super) fn take(&mut self, most: usize) -> Vec<Task> {
        let mut answers = first(&mut self.answers, most);
        answers.sort_by_key(|done| (done.unit, done.epoch, done.step, done.lease));
        let mut messages = first(&mut self.messages, most);
        messages.sort_by_key(|&(from, sequence, _)| (from, sequence));
        let others = first(&mut self.others, most);
        let answers = answers.into_iter().map(|done| Task::plain(Input::Driver(done)));
        let messages = messages.into_iter().map(|m| Task::plain(Input::Message(m.2)));
        let start = std::mem::take(&mut self.begins).then(|| Task::plain(Input::Start));
        let decision = self.decision.take().map(|decision| Task::plain(Input::Decision(decision)));
        start.into_iter().chain(answers).chain(messages).chain(others).chain(decision).collect()
    }

    /// Throws everything away: messages and drivers' answers come again, and who else waits for an answer
    /// is answered with `why`.
    pub(super) fn refuse(&mut self, why: &HostError) {
        for Task { asker, .. } in std::mem::take(self).others {
            if let Some(asker) = asker {
                drop(asker.send(Err(why.clone())));
            }
        }
    }
}

fn first<T>(queue: &mut VecDeque<T>, most: usize) -> Vec<T> {
    queue.drain(..most.min(queue.len())).collect()
}
