//! The settings that every driver takes: how many of its calls there may be at a time, and how long each may
//! take.

use std::num::NonZeroUsize;
use std::time::Duration;

use tenure_config::{ConfigError, PluginSpec, Sources};
use tenure_core::model::time::Span;

use super::Checked;
use crate::host::CallLimits;

/// The most calls of a kind that one driver may be given at a time: each has a thread.
const MOST: usize = 4096;

/// Takes these settings of a driver out of those that it reads itself.
pub(super) fn take(driver: &mut PluginSpec, sources: &Sources<'_>) -> Checked<CallLimits> {
    let refuse = |driver: &PluginSpec, key: &str, message: String, help: &str| {
        let place = driver.place_of(key);
        Err(ConfigError::at(sources.name(), place, message, help.to_owned()))
    };
    let mut limits = CallLimits::DEFAULT;
    if let Some(given) = driver.settings.remove("calls") {
        let number = given.as_integer().and_then(|number| usize::try_from(number).ok());
        let number = number.and_then(NonZeroUsize::new).filter(|number| number.get() <= MOST);
        let Some(number) = number else {
            let help = format!("write a whole number from 1 to {MOST}");
            return refuse(driver, "calls", format!("`calls` must not be {given}"), &help);
        };
        limits.at_a_time = number;
    }
    if let Some(given) = driver.settings.remove("call-timeout") {
        let text = given.to_string();
        let Some(timeout) = given.try_into::<Span>().ok().filter(|span| span.is_positive()) else {
            let help = "write a length of time above zero, such as \"1h\"";
            let message = format!("`call-timeout` must not be {text}");
            return refuse(driver, "call-timeout", message, help);
        };
        limits.timeout = Duration::from_micros(timeout.as_micros().unsigned_abs());
    }
    Ok(limits)
}

/// Of several drivers that get the same calls, one after the other.
pub(super) fn together(each: &[CallLimits]) -> CallLimits {
    CallLimits {
        at_a_time: each.iter().map(|limits| limits.at_a_time).min().unwrap_or(NonZeroUsize::MIN),
        timeout: each.iter().map(|limits| limits.timeout).sum(),
    }
}
