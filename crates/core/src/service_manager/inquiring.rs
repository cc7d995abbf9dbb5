//! Questions to brokers what is free, and what they answer.

use super::{Output, ServiceManager};
use crate::actor::Role;
use crate::model::identity::ActorId;
use crate::model::time::Time;
use crate::wire::inquiry::{Answered, Availability, Inquiry};
use crate::wire::message::Message;

impl ServiceManager {
    /// The brokers that can be asked.
    pub fn brokers(&self) -> impl Iterator<Item = ActorId> {
        self.base.peers_of(Role::Broker).map(|(_, id)| id)
    }

    /// Asks one broker, or all. The question is sent once: who gets no answer asks again.
    pub(super) fn inquire(
        &self,
        now: Time,
        broker: Option<ActorId>,
        inquiry: &Inquiry,
        out: &mut Output,
    ) -> Result<(), String> {
        let asked: Vec<_> =
            self.brokers().filter(|&id| broker.is_none_or(|one| one == id)).collect();
        if asked.is_empty() {
            return Err(match broker {
                Some(id) => format!("no broker {id} is known"),
                None => "no broker is known".to_owned(),
            });
        }
        let question = |to| self.base.volatile(to, now, Message::Inquire(inquiry.clone()));
        out.replies.extend(asked.into_iter().map(question));
        Ok(())
    }

    /// Passes on what a broker has answered.
    pub(super) fn told_what_is_free(
        &self,
        broker: ActorId,
        asked: Time,
        availability: Availability,
        out: &mut Output,
    ) -> Result<(), String> {
        if !self.base.is_known(broker, Role::Broker) {
            return Err("it comes from no broker that is known".to_owned());
        }
        out.answered.push(Answered { broker, asked, availability });
        Ok(())
    }
}
