//! Jobs that must give up what they have.

use std::time::{Duration, Instant};

use tenure_core::driver::DriverError;
use tracing::warn;

use super::control::Control;
use crate::driver::stop::Stop;

/// For how long jobs are asked before they are taken away without their host.
const TO_ASK: Duration = Duration::from_secs(5);

/// How long it may take in all until they are away.
const TO_GIVE_UP: Duration = Duration::from_secs(60);

/// Takes jobs from what they have, from a moment on.
pub(super) struct Eviction<'a> {
    control: &'a Control,
    from: Instant,
    /// Those that were ended.
    ended: Vec<String>,
}

impl<'a> Eviction<'a> {
    pub(super) fn from(control: &'a Control, from: Instant) -> Self {
        Self { control, from, ended: Vec::new() }
    }

    /// Has jobs queued again, once it is time. Those that are not to be restarted are ended, and reported.
    pub(super) fn take(&mut self, jobs: &[String], stop: &Stop) -> Result<(), DriverError> {
        let Some(since) = Instant::now().checked_duration_since(self.from) else { return Ok(()) };
        if since > TO_GIVE_UP {
            return Err(DriverError(format!("jobs do not end: {}", jobs.join(", "))));
        }
        let force = since > TO_ASK;
        for job in jobs {
            // Never with `-f` first, which restarts also those that are not to be.
            let said = self.control.say(&["qmod", "-rj", job], stop)?;
            if said.contains("not restartable") {
                let end: &[&str] = if force { &["qdel", "-f", job] } else { &["qdel", job] };
                let said = self.control.say(end, stop)?;
                if !self.ended.contains(job) {
                    let said = said.trim();
                    warn!("job {job} is not to be restarted, and was ended: {said}");
                    self.ended.push(job.clone());
                }
            } else if force {
                self.control.say(&["qmod", "-f", "-rj", job], stop)?;
            }
        }
        Ok(())
    }
}
