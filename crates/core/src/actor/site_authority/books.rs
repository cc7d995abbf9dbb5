//! What a site owes, spelt out: the messages and driver calls behind its duties.

use super::{Delegation, Duty, SiteAuthority, Tenancy, Unit};
use crate::driver::{Call, Step, UnitId};
use crate::effect::{Effect, EffectId};
use crate::message::Message;
use crate::time::Time;

impl SiteAuthority {
    pub(super) fn effect(&self, duty: &Duty, cause: (EffectId, Time)) -> Option<Effect> {
        match *duty {
            Duty::Consult => self.rounds.open().map(|round| Effect::Consult { round }),
            Duty::Delegate(number) => {
                let Delegation { ticket, attributes } = self.delegations.get(&number)?.clone();
                let holder = ticket.bottom().holder;
                let message = Message::Delegate { ticket, attributes };
                let envelope = self.base.envelope(holder, cause, message);
                Some(Effect::Send(Box::new(envelope)))
            }
            Duty::Setup(unit) => self.call(unit, Step::Setup),
            Duty::Teardown(unit) => self.call(unit, Step::Teardown),
        }
    }

    fn call(&self, id: UnitId, step: Step) -> Option<Effect> {
        let Unit { resource, epoch, served, .. } = self.units.get(&id)?;
        let Tenancy { guest, slice, lease, configuration, units: _ } =
            self.tenancies.get(served.as_ref()?)?;
        Some(Effect::Call(Call {
            site: self.base.id(),
            unit: id,
            epoch: *epoch,
            step,
            resource: resource.clone(),
            guest: *guest,
            slice: slice.clone(),
            lease: *lease,
            properties: configuration.clone(),
        }))
    }
}
