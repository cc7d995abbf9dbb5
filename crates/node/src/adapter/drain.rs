//! What adapters share that take units from software which uses them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use tenure_core::driver::{Call, DriverError};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;

use super::command::plain_word;
use crate::driver::exec::Timeout;
use crate::driver::stop::Stop;

/// The pause between two looks at what is waited for.
const PAUSE: Duration = Duration::from_millis(500);

/// How long before its unit is of no use any more the software is made to give it up.
const TO_FORCE: Duration = Duration::from_secs(15);

/// Within which time a unit that was joined is ready, by default.
pub(super) fn usual_ready() -> Timeout {
    Timeout(Duration::from_secs(300))
}

/// For how long software may go on to use a unit that is left, by default.
pub(super) fn usual() -> Timeout {
    Timeout(Duration::from_secs(1200))
}

/// Waits a little, unless nobody waits for it any more.
pub(super) fn pause(stop: &Stop) -> Result<(), DriverError> {
    if stop.is_asked_within(PAUSE) {
        return Err(DriverError(
            "was ended: a later step of the unit came, or it took too long".to_owned(),
        ));
    }
    Ok(())
}

/// How long the software may use a unit until it goes, by the clock of this machine.
pub(super) fn left(call: &Call) -> Duration {
    let Some(deadline) = call.deadline else { return Duration::MAX };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let deadline = Duration::from_micros(u64::try_from(deadline.as_micros()).unwrap_or(0));
    deadline.saturating_sub(now).saturating_sub(TO_FORCE)
}

/// A word that the site has said of a unit, if it is one that can stand in a command line.
pub(super) fn word<'a>(call: &'a Call, key: &str) -> Result<&'a str, DriverError> {
    let word = call.properties.get(key).and_then(plain_word);
    word.ok_or_else(|| DriverError::untouched(format!("the unit has no usable `{key}`")))
}

/// A property that says what a unit is in the software.
pub(super) fn named(key: &'static str, value: &str) -> Result<Properties, DriverError> {
    let name = BTreeMap::from([(Name::literal(key), value.to_owned())]);
    Properties::try_from(name).map_err(|error| DriverError(error.to_string()))
}
