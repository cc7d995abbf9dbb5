//! The input of a program for a step, as JSON: one form for all drivers.

use serde::Serialize;
use tenure_core::driver::{Call, Epoch};
use tenure_core::model::property::Properties;
use tenure_core::model::time::Time;

use super::record::{Key, Tenant};

/// A step on a unit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StepInput {
    /// Of this form.
    version: u32,
    step: String,
    site: String,
    unit: u32,
    epoch: u64,
    guest: String,
    slice: String,
    lease: String,
    resource: String,
    /// How much of a divisible stock it is; 1 for a machine.
    quantity: u32,
    /// From when on an answer is of no use; of a warning, when its site takes the unit. In RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    properties: Properties,
}

impl StepInput {
    /// The input for a call.
    pub(crate) fn of(call: &Call) -> Self {
        let input = Self::about(Key::of(call), call.epoch, call.step.word(), &Tenant::of(call));
        input.until(call.deadline)
    }

    /// The same for an answer that is of use until then.
    pub(crate) fn until(self, deadline: Option<Time>) -> Self {
        Self { deadline: deadline.map(|time| time.to_string()), ..self }
    }

    /// Any step on a unit, also one that no call names.
    pub(crate) fn about(key: Key, epoch: Epoch, step: &str, tenant: &Tenant) -> Self {
        Self {
            version: 1,
            step: step.to_owned(),
            site: key.site.to_hex(),
            unit: key.unit.0,
            epoch: epoch.0,
            guest: tenant.guest.to_hex(),
            slice: tenant.slice.to_string(),
            lease: tenant.lease.to_string(),
            resource: tenant.resource.to_string(),
            quantity: tenant.quantity.get(),
            deadline: None,
            properties: tenant.properties.clone(),
        }
    }
}
