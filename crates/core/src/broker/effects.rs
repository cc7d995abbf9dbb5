//! What a broker owes, in full.

use super::{Broker, Obligation};
use crate::actor::common::CommonActor as _;
use crate::actor::effect::{Effect, EffectId};
use crate::model::time::Time;

impl Broker {
    pub(super) fn effect(
        &self,
        obligation: &Obligation,
        cause: (EffectId, Time),
    ) -> Option<Effect> {
        let (to, message) = match *obligation {
            Obligation::Delegate(number) => self.delegate_message(number)?,
            Obligation::Return(account) => self.return_message(account)?,
            Obligation::Credit(account) => self.credit_message(account)?,
            Obligation::Reclaim(ticket) => self.reclaim_message(ticket)?,
            Obligation::Recall(ticket) => self.recall_message(ticket)?,
            Obligation::HostsChanged(guest, revision) => self.hosts_message(guest, revision)?,
            Obligation::Pass(request) => self.pass_message(request)?,
            Obligation::Take(request, broker) => self.take_message(request, broker)?,
            Obligation::Common(duty) => return self.duty_message(duty, cause),
        };
        Some(Effect::Send(Box::new(self.base.envelope(to, cause, message))))
    }
}
