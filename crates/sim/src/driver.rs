//! Drivers that do nothing but take their time (null drivers with delays).

use rand::RngExt as _;
use tenure_core::driver::{Answer, Call, DriverError, GuestDriver, ResourceDriver, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Span;

use crate::random::{Chance, Purpose};
use crate::scenario::Delay;

/// A driver of either side that pretends.
#[derive(Clone, Debug)]
pub(crate) struct NullDriver {
    chance: Chance,
    /// Distinguishes the drivers of one run.
    owner: u64,
    /// Setup at a site, join at a guest.
    begin: Delay,
    /// Teardown at a site, leave at a guest.
    end: Delay,
    failure: f64,
}

impl NullDriver {
    pub(crate) fn new(
        chance: Chance,
        owner: usize,
        begin: &Delay,
        end: &Delay,
        failure: f64,
    ) -> Self {
        Self { chance, owner: owner as u64, begin: begin.clone(), end: end.clone(), failure }
    }

    fn answer(&self, call: &Call) -> Answer {
        let (delay, failure) = match call.step {
            Step::Setup | Step::Join | Step::Modify | Step::Install => (&self.begin, self.failure),
            Step::Teardown | Step::Leave | Step::Warn | Step::Remove => (&self.end, 0.0),
        };
        if let (Some(after), true) = (delay.fixed(), failure <= 0.0) {
            return Answer { outcome: Ok(Properties::default()), after };
        }
        // Named as the call is: called again, it takes as long and ends the same.
        let site = u64::from_le_bytes(call.site.first_bytes());
        let number = u64::from(call.number);
        let step = (number << 3) | u64::from(call.step.index());
        let name = [self.owner, site, u64::from(call.unit.0), call.epoch.0, step];
        let mut chance = self.chance.of(Purpose::Driver, &name);
        let after = delay.sample(&mut chance);
        let outcome = if failure > 0.0 && chance.random_bool(failure) {
            Err(DriverError("the emulated setup failed".to_owned()))
        } else {
            Ok(Properties::default())
        };
        Answer { outcome, after: after.max(Span::ZERO) }
    }
}

impl ResourceDriver for NullDriver {
    fn perform(&self, call: &Call) -> Answer {
        self.answer(call)
    }

    fn probe(&self, _: ActorId, _: UnitId) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }
}

impl GuestDriver for NullDriver {
    fn perform(&self, call: &Call) -> Answer {
        self.answer(call)
    }

    fn installs(&self) -> bool {
        true
    }

    fn package(&self, call: &Call) -> Answer {
        self.answer(call)
    }

    fn probe(&self, _: ActorId, _: UnitId) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }
}
