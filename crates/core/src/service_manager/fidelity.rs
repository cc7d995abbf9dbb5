//! How much of what a lease is paid for its guest could use.

use serde::{Deserialize, Serialize};

use super::Lease;
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::service_manager::machine::{Event, Held, UnitUse};
use crate::ticket::link::Link;
use crate::ticket::receipt::Receipt;

/// What was paid for, and what of it was in use. Times are unit-microseconds; a share counts with its quantity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Worth {
    /// What the tickets are for.
    paid: Vec<(Term, u32)>,
    /// What came back of that, by the word of the site.
    returned: Vec<(Term, u32)>,
    /// How much is in use, and since when that counts.
    using: u32,
    since: Option<Time>,
    /// What was in use before that.
    used: u128,
    /// When something was in use for the first time, and until when for the last time.
    first: Option<Time>,
    last: Option<Time>,
}

/// How much of what a lease is paid for its guest could use, up to an instant.
///
/// What came back, by a receipt of the site, is not paid for. Setup at the site and join at the guest count as
/// paid and unusable, and so does the time between the guest's leave and the end of the term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fidelity {
    /// Units times microseconds that are paid for and over.
    pub paid: u128,
    /// Units times microseconds that were in use.
    pub usable: u128,
    /// How long after the first term began something was in use; none if nothing was.
    pub late: Option<Span>,
    /// How long before the end of the last term nothing was in use any more; none while something is, or if
    /// nothing was.
    pub early: Option<Span>,
    /// Whether all that was paid for is over, and nothing was ever in use.
    pub expired: bool,
}

impl Fidelity {
    /// The usable part in millionths, rounded down; none if nothing is paid for yet.
    pub fn millionths(&self) -> Option<u32> {
        let part = self.usable.min(self.paid).saturating_mul(1_000_000).checked_div(self.paid)?;
        u32::try_from(part).ok()
    }
}

impl Worth {
    /// Of one ticket.
    pub(super) fn of(link: &Link) -> Self {
        Self { paid: vec![(link.term, link.units.get())], ..Self::default() }
    }

    /// Adds a ticket.
    pub(super) fn charge(&mut self, link: &Link) {
        self.paid.push((link.term, link.units.get()));
    }

    /// Takes off what came back.
    pub(super) fn credit(&mut self, receipts: &[Receipt]) {
        let returned = receipts.iter().map(|receipt| (receipt.what.term, receipt.what.units.get()));
        self.returned.extend(returned);
    }

    /// So much is in use from now on.
    pub(super) fn uses(&mut self, at: Time, units: u32) {
        if units == self.using {
            return;
        }
        self.used = self.used_by(at);
        if units > 0 {
            self.first = self.first.or(Some(at));
            self.last = None;
        } else {
            self.last = Some(at);
        }
        (self.using, self.since) = (units, Some(at));
    }

    /// One unit more is in use from now on.
    pub(super) fn uses_more(&mut self, at: Time, units: u32) {
        self.uses(at, self.using.saturating_add(units));
    }

    fn used_by(&self, now: Time) -> u128 {
        let running = self.since.map_or(0, |since| length(now.since(since)));
        let using = if mutant!(LeftIsUsed) { self.using.max(1) } else { self.using };
        self.used + u128::from(using) * running
    }

    fn fidelity(&self, now: Time) -> Fidelity {
        let over = |parts: &[(Term, u32)]| -> u128 {
            let over = parts.iter().filter_map(|(term, units)| Some((term.until(now)?, units)));
            over.map(|(term, units)| u128::from(*units) * length(term.duration())).sum()
        };
        let paid = over(&self.paid).saturating_sub(over(&self.returned));
        let starts = self.paid.iter().map(|(term, _)| term.start()).min();
        let end = self.paid.iter().map(|(term, _)| term.end()).max();
        Fidelity {
            paid,
            usable: self.used_by(now),
            late: self.first.zip(starts).map(|(first, start)| positive(first.since(start))),
            early: self.last.zip(end).map(|(last, end)| positive(end.since(last))),
            expired: self.first.is_none() && paid > 0 && end.is_some_and(|end| end <= now),
        }
    }
}

impl Held {
    /// How much of it the guest's software uses.
    pub(super) fn in_use(&self) -> u32 {
        let used = self.units.values().filter(|(_, usage)| *usage == UnitUse::Joined);
        used.fold(0, |sum: u32, (unit, _)| sum.saturating_add(unit.quantity.get()))
    }
}

impl Lease {
    /// Counts what is in use from now on.
    pub(super) fn count_use(&mut self, at: Time) {
        let using = self.state.held().map_or(0, Held::in_use);
        self.worth.uses(at, using);
    }

    /// How much more is in use by this event of one of its units.
    pub(super) fn joins(&self, event: &Event) -> u32 {
        let Event::Joined(unit, true) = event else { return 0 };
        let unit = self.state.held().and_then(|held| held.units.get(unit));
        unit.map_or(0, |(unit, _)| unit.quantity.get())
    }

    /// How much of what it is paid for its guest could use by now.
    pub(super) fn fidelity(&self, now: Time) -> Fidelity {
        self.worth.fidelity(now)
    }
}

fn length(span: Span) -> u128 {
    u128::try_from(span.as_micros()).unwrap_or(0)
}

fn positive(span: Span) -> Span {
    span.max(Span::ZERO)
}
