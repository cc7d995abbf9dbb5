//! Disturbances: drivers and mappers that wait until a test lets them go.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tenure_core::driver::{Answer, Call, DriverError, ResourceDriver, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Time};
use tenure_core::service_manager::mapper::Ask;
use tenure_wait::DEADLINE;

use super::ask;

/// Holds whoever comes until it is opened.
pub(crate) struct Gate {
    held: Mutex<Held>,
    changed: Condvar,
    /// Whether it lets each through after so long by itself.
    after: Option<Duration>,
}

struct Held {
    open: bool,
    waiting: usize,
    most: usize,
}

impl Gate {
    /// A gate that is shut.
    pub(crate) const fn shut() -> Self {
        let held = Held { open: false, waiting: 0, most: 0 };
        Self { held: Mutex::new(held), changed: Condvar::new(), after: None }
    }

    /// A gate that holds each for so long.
    pub(crate) const fn slow(after: Duration) -> Self {
        Self { after: Some(after), ..Self::shut() }
    }

    /// Waits until it is open.
    pub(crate) fn pass(&self) {
        let mut held = self.lock();
        held.waiting += 1;
        held.most = held.most.max(held.waiting);
        let longest = self.after.unwrap_or(4 * DEADLINE);
        let (mut held, waited) = self
            .changed
            .wait_timeout_while(held, longest, |held| !held.open)
            .expect("nobody panics");
        held.waiting -= 1;
        assert!(self.after.is_some() || !waited.timed_out(), "nobody has opened the gate");
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("nobody panics while it is held")
    }

    /// Lets all through, from now on.
    pub(crate) fn open(&self) {
        self.lock().open = true;
        self.changed.notify_all();
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting
    }

    /// The most that have waited at a time.
    pub(crate) fn most(&self) -> usize {
        self.lock().most
    }
}

/// A site's driver whose setups wait at a gate where the guest's configuration says so; all else is done at
/// once.
pub(crate) struct Gated(pub(crate) Arc<Gate>);

/// The property that says so.
const WAITS: &str = "waits";

impl ResourceDriver for Gated {
    fn perform(&self, call: &Call) -> Answer {
        if call.step == Step::Setup && call.properties.get(WAITS).is_some() {
            self.0.pass();
        }
        Answer { outcome: Ok(Properties::default()), after: Span::ZERO }
    }

    fn probe(&self, _: ActorId, _: UnitId) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }
}

/// As [`ask`], for units whose setups wait at the gate.
pub(crate) fn ask_waiting(units: u32, now: Time, duration: Span) -> Ask {
    let waits = BTreeMap::from([(Name::literal(WAITS), "yes".to_owned())]);
    let configuration = Properties::try_from(waits).expect("one property");
    Ask { configuration, ..ask(units, now, duration) }
}
