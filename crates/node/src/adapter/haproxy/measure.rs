//! The KPIs of a backend.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::{BadMembers, Members};
use tenure_expr::{Dimension, Quantity};

use super::super::queue::labelled;
use super::answers::Line;
use super::servers::{is_ours, mark};

/// The KPIs of a backend.
pub(crate) const KPIS: &[&str] =
    &["units", "sessions", "queue", "response-time", "requests-per-second", "errors-per-second"];

/// What is counted.
pub(crate) struct Counted<'a> {
    pub(crate) backend: &'a str,
    /// Those servers only that adapters have added.
    pub(crate) ours: bool,
}

/// What has been counted since haproxy was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    sessions: u64,
    errors: u64,
}

impl Totals {
    /// Those of the backend, if it is there.
    pub(crate) fn of(lines: &[Line]) -> Option<Self> {
        let whole = lines.iter().find(|line| line.is_backend())?;
        Some(Self { sessions: whole.total, errors: whole.errors })
    }
}

impl Counted<'_> {
    /// The KPIs, if the backend is there. Rates are of the time since the last look, if there was one.
    pub(crate) fn kpis(&self, lines: &[Line], since: Option<(Duration, Totals)>) -> Option<Kpis> {
        let whole = lines.iter().find(|line| line.is_backend())?;
        let now = Totals::of(lines)?;
        let counts = |line: &&Line| {
            !line.is_backend() && line.is_up() && (!self.ours || is_ours(&line.name))
        };
        let number = |count: u64| Quantity::number(i64::try_from(count).unwrap_or(i64::MAX));
        let units = lines.iter().filter(counts).count();
        let queued = lines.iter().map(|line| line.queued).sum();
        let mut kpis = Kpis::default();
        let mut enter =
            |name, value| kpis.insert(labelled(name, &[("backend", self.backend)]), value);
        enter("units", number(u64::try_from(units).unwrap_or(u64::MAX)));
        enter("sessions", number(whole.sessions));
        enter("queue", number(queued));
        if let Some(milliseconds) = whole.response {
            let micros = milliseconds.saturating_mul(1000);
            let time = Quantity::microseconds(i64::try_from(micros).unwrap_or(i64::MAX));
            enter("response-time", time);
        }
        if let Some((time, before)) = since {
            for (name, now, before) in [
                ("requests-per-second", now.sessions, before.sessions),
                ("errors-per-second", now.errors, before.errors),
            ] {
                if let Some(rate) = rate(now, before, time) {
                    enter(name, rate);
                }
            }
        }
        Some(kpis)
    }

    /// The marks of the servers of ours that have sessions, or requests that wait for them, and how many.
    pub(crate) fn busy(&self, lines: &[Line]) -> BTreeMap<String, u64> {
        let busy = lines.iter().filter(|line| line.sessions + line.queued > 0);
        let busy = busy.filter_map(|line| Some((mark(&line.name)?, line.sessions + line.queued)));
        busy.map(|(mark, sessions)| (mark.to_owned(), sessions)).collect()
    }

    /// The servers that adapters have not added, by their addresses, and whether they are up.
    pub(crate) fn statics(&self, lines: &[Line]) -> Result<Members, BadMembers> {
        let mut members = Members::default();
        for line in lines.iter().filter(|line| !line.is_backend() && !is_ours(&line.name)) {
            let name = host(line).unwrap_or_else(|| format!("{}/{}", self.backend, line.name));
            members.insert(&name, line.is_up())?;
        }
        Ok(members)
    }
}

/// The host of a server; none if its address identifies none.
fn host(line: &Line) -> Option<String> {
    let (address, _) = line.serves_at()?;
    let none = address.is_loopback() || address.is_unspecified();
    (!none).then(|| address.to_string())
}

/// How often a second something happened; unknown if the count has restarted.
fn rate(now: u64, before: u64, time: Duration) -> Option<Quantity> {
    let count = i128::from(now.checked_sub(before)?);
    let micros = i128::try_from(time.as_micros()).ok().filter(|micros| *micros > 0)?;
    Quantity::from_millionths(count * 1_000_000 * 1_000_000 / micros, Dimension::Number)
}
