//! Units as licences: each raises a consumable of the global host by one.
//!
//! The tenancies whose units are in it are a complex beside it, so that both change at once.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tenure_core::driver::DriverError;
use tenure_core::model::property::Properties;

use super::super::drain::{left, named, pause};
use super::super::joins::Tenancy;
use super::answers::Job;
use super::control::Control;
use super::jobs::Eviction;
use crate::driver::fence::hold;
use crate::driver::record::{Key, Record};
use crate::driver::stop::Stop;

/// The complex with the tenancies.
const MARKS: &str = "tenure_licences";

/// Its value while there are none.
const NONE: &str = "none";

/// Held while the global host is read and changed.
static CHANGING: Mutex<()> = Mutex::new(());

/// How many of a licence there are.
pub(super) fn capacity(global: &BTreeMap<String, String>, licence: &str) -> i64 {
    let value = global.get(licence).and_then(|value| value.parse::<f64>().ok());
    value.map_or(0, |value| value.floor() as i64)
}

/// The tenancies whose units are in one.
pub(super) fn marks(global: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    let marks = global.get(MARKS).map(String::as_str).unwrap_or_default();
    marks.split(';').filter(|mark| !mark.is_empty() && *mark != NONE)
}

/// How units become licences.
pub(super) struct Licences<'a> {
    pub(super) control: &'a Control,
    pub(super) licence: &'a str,
    pub(super) drain: Duration,
}

impl Licences<'_> {
    /// Raises the licence by one, unless the unit is in it.
    pub(super) fn join(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        let call = tenancy.call();
        self.change(&Key::of(call).mark(call.epoch), 1, tenancy.stop())?;
        named("grid-engine.licence", self.licence)
    }

    /// Lowers it by one, and waits until no more are in use than are left. Grid Engine takes a lower number
    /// whatever is in use, and begins no job that needs more.
    pub(super) fn leave(&self, tenancy: &Tenancy<'_>) -> Result<(), DriverError> {
        let (call, stop) = (tenancy.call(), tenancy.stop());
        self.change(&Key::of(call).mark(call.epoch), -1, stop)?;
        let until = Instant::now() + self.drain.min(left(call));
        let mut eviction = Eviction::from(self.control, until);
        loop {
            let hosts = self.control.hosts(&[self.licence], stop)?;
            let global = hosts.iter().find(|host| !host.executes());
            let left = global.and_then(|host| host.left.get(self.licence)).copied().unwrap_or(0);
            if left >= 0 {
                return Ok(());
            }
            let jobs = self.youngest(left.unsigned_abs(), stop)?;
            eviction.take(&jobs, stop)?;
            pause(stop)?;
        }
    }

    /// Says whether the unit is in the licence.
    pub(super) fn probe(&self, record: &Record, stop: &Stop) -> Result<Properties, DriverError> {
        let global = self.control.complex_values("global", stop)?;
        let mark = record.key.mark(record.epoch);
        if marks(&global).any(|one| one == mark) {
            return named("grid-engine.licence", self.licence);
        }
        Err(DriverError(format!("{} is not in licence {}", record.key.unit, self.licence)))
    }

    /// Has a unit in the licence, or not; nothing is changed if it is so.
    fn change(&self, mark: &str, by: i64, stop: &Stop) -> Result<(), DriverError> {
        let _alone = hold(&CHANGING);
        let global = self.control.complex_values("global", stop)?;
        let is_in = marks(&global).any(|one| one == mark);
        if is_in == (by > 0) {
            return Ok(());
        }
        let others = marks(&global).filter(|one| *one != mark);
        let now: Vec<&str> = others.chain((by > 0).then_some(mark)).collect();
        let now = if now.is_empty() { NONE.to_owned() } else { now.join(";") };
        let count = (capacity(&global, self.licence) + by).max(0);
        let values = format!("{}={count},{MARKS}={now}", self.licence);
        let change = ["qconf", "-mattr", "exechost", "complex_values", &values, "global"];
        self.control.succeed(&change, stop).map(drop)
    }

    /// The jobs that have begun last, and have so many of it.
    fn youngest(&self, count: u64, stop: &Stop) -> Result<Vec<String>, DriverError> {
        let mut jobs = self.control.running(stop)?;
        jobs.retain(|job| job.licences(self.licence) > 0);
        jobs.sort_by_key(|job| Reverse(job.since));
        let mut had = 0_u64;
        let mut wanted = |job: &Job| {
            let before = had;
            had = had.saturating_add(job.licences(self.licence));
            before < count
        };
        Ok(jobs.iter().take_while(|job| wanted(job)).map(Job::running).collect())
    }
}
