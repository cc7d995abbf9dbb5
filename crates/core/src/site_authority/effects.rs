//! A site's pending work in full: the messages and driver calls behind its obligations.

use super::{Delegation, Obligation, SiteAuthority, Tenancy, Unit};
use crate::actor::common::CommonActor as _;
use crate::actor::effect::{Effect, EffectId};
use crate::driver::{Call, Step, UnitId};
use crate::model::time::Time;
use crate::ticket::link::LinkHash;
use crate::wire::message::Message;

impl SiteAuthority {
    pub(super) fn effect(
        &self,
        obligation: &Obligation,
        cause: (EffectId, Time),
    ) -> Option<Effect> {
        match *obligation {
            Obligation::Delegate(number) => {
                let Delegation { ticket, attributes, .. } =
                    self.state.delegations.get(&number)?.clone();
                let holder = ticket.bottom().holder;
                let message = Message::Delegate { ticket, attributes };
                let envelope = self.base.envelope(holder, cause, message);
                Some(Effect::Send(Box::new(envelope)))
            }
            Obligation::Common(duty) => self.duty_message(duty, cause),
            Obligation::Setup(unit) => self.call(unit, Step::Setup),
            Obligation::Teardown(unit) => self.call(unit, Step::Teardown),
            Obligation::Modify(unit) => self.call(unit, Step::Modify),
            Obligation::Failure(unit) => {
                let (holder, message) = self.failure_message(unit)?;
                Some(Effect::Send(Box::new(self.base.envelope(holder, cause, message))))
            }
            Obligation::Notice(lease, link) => {
                let (holder, message) = self.notice(lease, link)?;
                Some(Effect::Send(Box::new(self.base.envelope(holder, cause, message))))
            }
        }
    }

    fn call(&self, id: UnitId, step: Step) -> Option<Effect> {
        let Unit { resource, epoch, served, quantity, modifications, .. } =
            self.state.units.get(&id)?;
        let tenant = (*served)?;
        let Tenancy { guest, slice, lease, configuration, units: _ } =
            self.state.tenancies.get(&tenant)?;
        let wanted = self.state.leases.get(&tenant).and_then(|lease| lease.configuration_to_be());
        let (number, configuration) = match step {
            Step::Modify => (*modifications, wanted.unwrap_or(configuration)),
            Step::Setup
            | Step::Teardown
            | Step::Join
            | Step::Leave
            | Step::Warn
            | Step::Install
            | Step::Remove => (0, configuration),
        };
        Some(Effect::Call(Call {
            site: self.base.id(),
            unit: id,
            epoch: *epoch,
            step,
            number,
            resource: resource.clone(),
            quantity: *quantity,
            guest: *guest,
            slice: slice.clone(),
            lease: *lease,
            properties: configuration.clone(),
            deadline: self.useful_until(id, tenant, step),
        }))
    }

    /// Until when it is of use that a unit is ready, or clean for the lease that waits for it.
    fn useful_until(&self, id: UnitId, tenant: LinkHash, step: Step) -> Option<Time> {
        let lease = match step {
            Step::Setup | Step::Modify => Some(tenant),
            Step::Teardown => self.state.units.get(&id)?.state.tenant(),
            Step::Join | Step::Leave | Step::Warn | Step::Install | Step::Remove => None,
        };
        Some(self.state.leases.get(&lease?)?.term.end())
    }
}
