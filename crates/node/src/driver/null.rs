//! `null`: a driver that does nothing and takes its time over it.
//!
//! It answers at once and says how long the shell shall wait, so a thousand slow setups occupy no thread.
//! There is nothing that a late call could harm, so its fence is kept in memory; `durable = true` keeps it
//! on disk like any other driver's.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use tenure_core::driver::{Answer, Call, DriverError, GuestDriver, ResourceDriver, Step, UnitId};
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Span;

use super::fence::{DriverSteps, Fence, Guest, Site, Work};
use super::record::{Key, Record};

/// What a site's `null` takes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SiteSettings {
    setup: Pause,
    teardown: Pause,
    durable: bool,
}

/// What a guest's `null` takes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GuestSettings {
    join: Pause,
    leave: Pause,
    durable: bool,
}

/// How long a step takes: always the same, or drawn evenly between two lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
struct Pause {
    low: Span,
    high: Span,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
#[serde(expecting = "a delay: \"30s\", whole seconds or { uniform = [\"10s\", \"60s\"] }")]
enum Written {
    Fixed(Span),
    Uniform { uniform: (Span, Span) },
}

impl TryFrom<Written> for Pause {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let (low, high) = match written {
            Written::Fixed(span) => (span, span),
            Written::Uniform { uniform } => uniform,
        };
        if low < Span::ZERO || high < low {
            return Err(format!(
                "a delay is never negative and goes from the shorter to the longer, not {low} to {high}"
            ));
        }
        Ok(Self { low, high })
    }
}

impl Pause {
    /// How long this call takes: named by the call, so it takes as long when it comes again.
    fn of(self, call: &Call) -> Span {
        let (low, high) = (self.low.as_micros(), self.high.as_micros());
        let name =
            format!("{:?} {} {:?} {:?}", call.site.to_hex(), call.unit, call.epoch, call.step);
        let [a, b, c, d, e, f, g, h, ..] =
            Hash::of("tenure null driver v1", &[name.as_bytes()]).to_bytes();
        let drawn = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let width = high.abs_diff(low).saturating_add(1);
        Span::from_micros(low.saturating_add_unsigned(drawn % width))
    }
}

/// A driver that pretends, behind a fence that does not.
struct Null<F> {
    fenced: F,
    begin: Pause,
    end: Pause,
}

/// Doing nothing.
struct Nothing;

impl DriverSteps for Nothing {
    fn modifies(&self) -> bool {
        true
    }

    fn perform(&self, _: &Work<'_>) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }

    fn probe(&self, _: Key, _: Option<&Record>) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }
}

/// Opens a site's.
pub(crate) fn site(home: &Path, settings: &SiteSettings) -> io::Result<Box<dyn ResourceDriver>> {
    let fenced = Site { fence: fence(home, settings.durable)?, steps: Nothing };
    Ok(Box::new(Null { fenced, begin: settings.setup, end: settings.teardown }))
}

/// Opens a guest's.
pub(crate) fn guest(home: &Path, settings: &GuestSettings) -> io::Result<Box<dyn GuestDriver>> {
    let fenced = Guest { fence: fence(home, settings.durable)?, steps: Nothing };
    Ok(Box::new(Null { fenced, begin: settings.join, end: settings.leave }))
}

fn fence(home: &Path, durable: bool) -> io::Result<Arc<Fence>> {
    Ok(Arc::new(if durable { Fence::open(home)? } else { Fence::in_memory() }))
}

impl<F> Null<F> {
    fn slowly(&self, call: &Call, answer: Answer) -> Answer {
        let pause = match call.step {
            Step::Setup | Step::Join | Step::Modify | Step::Install => self.begin,
            Step::Teardown | Step::Leave | Step::Warn | Step::Remove => self.end,
        };
        // A refusal is no work.
        let after = if answer.outcome.is_ok() { pause.of(call) } else { Span::ZERO };
        Answer { after, ..answer }
    }
}

impl ResourceDriver for Null<Site<Nothing>> {
    fn perform(&self, call: &Call) -> Answer {
        self.slowly(call, self.fenced.perform(call))
    }

    fn probe(&self, site: ActorId, unit: UnitId) -> Result<Properties, DriverError> {
        self.fenced.probe(site, unit)
    }
}

impl GuestDriver for Null<Guest<Nothing>> {
    fn perform(&self, call: &Call) -> Answer {
        self.slowly(call, self.fenced.perform(call))
    }

    fn installs(&self) -> bool {
        true
    }

    fn package(&self, call: &Call) -> Answer {
        let outcome = Ok(Properties::default());
        self.slowly(call, Answer { outcome, after: Span::ZERO })
    }

    fn probe(&self, site: ActorId, unit: UnitId) -> Result<Properties, DriverError> {
        self.fenced.probe(site, unit)
    }
}
