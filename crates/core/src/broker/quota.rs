//! Quotas: how much a peer may have of a broker, whatever the broker's mapper decides.
//!
//! A request counts towards the quota of the peer that answers for it: the guest, or the broker that passed it on.

use std::collections::BTreeMap;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::rules::{Rules, Source};
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::ticket::ledger::LEDGER_RETENTION;
use crate::wire::refusal::{Allowance, Refusal};

/// What one peer may have. What is not set is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Quota {
    /// The units it may hold at any one time, of all types together.
    pub units: Option<u32>,
    /// The unit-hours it may get in one period: counted when they are granted, and less what comes back in
    /// the same period.
    pub unit_hours: Option<u32>,
    /// How long a period is; a week unless set. Periods begin at multiples of it since 1970.
    pub period: Option<Span>,
    /// Its requests that may wait for a decision at one time.
    pub open_requests: Option<u32>,
    /// Its requests that offers may be held for at one time.
    pub holds: Option<u32>,
    /// Its requests that are taken in one second. Further ones have to be repeated.
    pub requests_per_second: Option<u32>,
}

impl Quota {
    /// This quota, with the values of `general` where it has none.
    fn or(self, general: Self) -> Self {
        Self {
            units: self.units.or(general.units),
            unit_hours: self.unit_hours.or(general.unit_hours),
            period: self.period.or(general.period),
            open_requests: self.open_requests.or(general.open_requests),
            holds: self.holds.or(general.holds),
            requests_per_second: self.requests_per_second.or(general.requests_per_second),
        }
    }

    /// The start of the period that `now` lies in.
    fn period_of(&self, now: Time) -> Time {
        let period = self.period.filter(|period| period.is_positive()).unwrap_or(WEEK);
        let micros = now.as_micros();
        Time::from_micros(micros - micros.rem_euclid(period.as_micros()))
    }
}

/// The most requests of one peer that something is held for at one time, whatever its quota.
pub const MAX_HOLDS: u32 = 100;

/// The period of unit-hours unless another is set.
pub const WEEK: Span = Span::from_secs(7 * 86_400);

/// Whom a quota is for: one peer, or (`None`) each that has no value of its own.
pub type Whose = Option<ActorId>;

/// The quotas in force, and what counts towards them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Quotas {
    rules: Rules<Whose, Quota>,
    /// What each peer has. Empty while there is no quota.
    #[serde(deserialize_with = "crate::model::codec::ord_map")]
    used: OrdMap<ActorId, Used>,
}

/// What counts towards the quota of one peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Used {
    /// The units of its tickets that were not returned, over time, below zero: calendars find lows.
    units: Calendar,
    /// When the period began that `granted` is counted in.
    period: Option<Time>,
    /// Units times microseconds granted in this period and not returned in it.
    granted: u64,
    /// The second in which it last asked, and how often in it.
    asked: (i64, u32),
}

/// Units times microseconds in a unit-hour.
const UNIT_HOUR: u64 = 3_600_000_000;

fn unit_micros(units: u32, term: Term) -> u64 {
    u64::from(units).saturating_mul(term.duration().as_micros().unsigned_abs())
}

impl Quotas {
    /// The limits of a peer.
    fn of(&self, guest: ActorId) -> Quota {
        self.limits(Some(guest))
    }

    /// The limits in force, those for all included.
    pub(super) fn limits(&self, whose: Whose) -> Quota {
        let rule = |whose: Whose| self.rules.of(whose).copied().unwrap_or_default();
        rule(whose).or(rule(None))
    }

    /// Who has set a quota for just this.
    pub(super) fn source(&self, whose: Whose) -> Option<Source> {
        self.rules.source(whose)
    }

    /// The configured quotas that differ from those `wanted`, each as it is to be.
    pub(super) fn outdated(&self, wanted: &BTreeMap<Whose, Quota>) -> Vec<(Whose, Option<Quota>)> {
        self.rules.outdated(wanted)
    }

    /// Sets a quota, or, without one, takes back what was set.
    pub(super) fn set(&mut self, whose: Whose, quota: Option<Quota>, by: Source) {
        self.rules.put(whose, quota, by);
    }

    /// Whether there is any quota: only then anything is counted.
    pub(super) fn any(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Counts what is granted to a guest.
    pub(super) fn granted(&mut self, guest: ActorId, term: Term, units: u32, now: Time) {
        if !self.any() {
            return;
        }
        let period = self.of(guest).period_of(now);
        let used = self.used.entry(guest).or_default();
        used.units.forget_until(now.minus(LEDGER_RETENTION));
        used.hold(term, units);
        used.turn(period);
        used.granted = used.granted.saturating_add(unit_micros(units, term));
    }

    /// Counts what came back of it.
    pub(super) fn returned(&mut self, guest: ActorId, term: Term, units: u32, now: Time) {
        if !self.any() || mutant!(ReturnsStillCount) {
            return;
        }
        let period = self.of(guest).period_of(now);
        let used = self.used.entry(guest).or_default();
        used.units.add(term, i64::from(units));
        used.turn(period);
        used.granted = used.granted.saturating_sub(unit_micros(units, term));
    }

    /// Counts what is held already, once there is a quota.
    pub(super) fn recount(&mut self, held: impl Iterator<Item = (ActorId, Term, u32)>) {
        self.used = OrdMap::new();
        if self.any() {
            for (guest, term, units) in held {
                self.used.entry(guest).or_default().hold(term, units);
            }
        }
    }

    /// Counts a request.
    pub(super) fn asked(&mut self, guest: ActorId, now: Time) {
        if self.any() {
            let second = now.as_micros().div_euclid(1_000_000);
            let asked = &mut self.used.entry(guest).or_default().asked;
            *asked = if asked.0 == second { (second, asked.1 + 1) } else { (second, 1) };
        }
    }

    /// Whether a guest has asked as often this second as it may.
    pub(super) fn asks_too_fast(&self, guest: ActorId, now: Time) -> bool {
        let second = now.as_micros().div_euclid(1_000_000);
        let asked = self.used.get(&guest).map_or((second, 0), |used| used.asked);
        let most = self.of(guest).requests_per_second;
        most.is_some_and(|most| asked.0 == second && asked.1 >= most)
    }

    /// Why a guest with so many `open` requests may not have one more.
    pub(super) fn no_more_open(&self, guest: ActorId, open: u32) -> Option<Refusal> {
        let most = self.of(guest).open_requests.filter(|&most| open >= most)?;
        let of = Allowance::OpenRequests;
        let (most, would) = (u64::from(most), u64::from(open) + 1);
        Some(Refusal::Quota { holder: guest, of, most, would })
    }

    /// Why for a guest with so many holds there may not be one more. There is a limit without a quota, too.
    pub(super) fn no_more_held(&self, guest: ActorId, held: u32) -> Option<Refusal> {
        let most = self.of(guest).holds.map_or(MAX_HOLDS, |most| most.min(MAX_HOLDS));
        if held < most {
            return None;
        }
        let (most, would) = (u64::from(most), u64::from(held) + 1);
        Some(Refusal::Quota { holder: guest, of: Allowance::Holds, most, would })
    }

    /// Why a guest may not have these units over these terms beside what it has.
    pub(super) fn exceeded(
        &self,
        guest: ActorId,
        parts: &[(Term, u32)],
        now: Time,
    ) -> Option<Refusal> {
        let quota = self.of(guest);
        let used = self.used.get(&guest).cloned().unwrap_or_default();
        if let Some(most) = quota.units.filter(|_| !mutant!(NoUnitQuota)) {
            let would = used.with(parts);
            if would > u64::from(most) {
                let of = Allowance::Units;
                return Some(Refusal::Quota { holder: guest, of, most: most.into(), would });
            }
        }
        let most = quota.unit_hours?;
        let before = if used.period == Some(quota.period_of(now)) { used.granted } else { 0 };
        let more = parts.iter().map(|&(term, units)| unit_micros(units, term));
        let would = more.fold(before, u64::saturating_add);
        (would > u64::from(most).saturating_mul(UNIT_HOUR)).then(|| Refusal::Quota {
            holder: guest,
            of: Allowance::UnitHours,
            most: most.into(),
            would: would.div_ceil(UNIT_HOUR),
        })
    }

    /// The units that a guest may have over `term` beside what it has; `None` if there is no limit.
    pub(super) fn units_left(&self, guest: ActorId, term: Term) -> Option<u32> {
        let most = self.of(guest).units?;
        let held = self.used.get(&guest).map_or(0, |used| used.most_held(term));
        Some(most.saturating_sub(u32::try_from(held).unwrap_or(u32::MAX)))
    }

    /// What a guest holds at `now`, and the unit-hours granted in the present period.
    pub(super) fn used(&self, guest: ActorId, now: Time) -> (u64, u64) {
        let Some(used) = self.used.get(&guest) else { return (0, 0) };
        let units = held(used.units.free_at(now));
        let current = used.period == Some(self.of(guest).period_of(now));
        let granted = if current { used.granted } else { 0 };
        (units, granted.div_ceil(UNIT_HOUR))
    }
}

impl Used {
    /// Begins to count again if a new period has begun.
    fn turn(&mut self, period: Time) {
        if self.period != Some(period) {
            self.period = Some(period);
            self.granted = 0;
        }
    }

    /// The most units held at any one time of these parts, with them.
    fn with(&self, parts: &[(Term, u32)]) -> u64 {
        let mut all = self.clone();
        parts.iter().for_each(|&(term, units)| all.hold(term, units));
        parts.iter().map(|&(term, _)| all.most_held(term)).max().unwrap_or(0)
    }

    fn hold(&mut self, term: Term, units: u32) {
        self.units.add(term, -i64::from(units));
    }

    fn most_held(&self, term: Term) -> u64 {
        held(self.units.free_over(term))
    }
}

/// Units held, by a level below zero.
fn held(level: i64) -> u64 {
    u64::try_from(-level).unwrap_or(0)
}
