//! How an SLA stands: how long its SLOs were met in its window, and each breach.

use std::collections::BTreeMap;

use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::service::sla::Sla;
use tenure_core::service::slo::Met;

use crate::service::{Judged, Service};

/// How long all SLOs of an SLA were met, and how long one was missed. Nothing is known of the rest of the window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) met: Span,
    pub(crate) missed: Span,
    pub(crate) breaches: Vec<Breach>,
}

/// A time in which at least one SLO was missed.
#[derive(Clone, Debug)]
pub(crate) struct Breach {
    pub(crate) begin: Time,
    /// None if it lasted beyond the window.
    pub(crate) end: Option<Time>,
    /// The SLOs that were missed, each with when that began, as far as it is in the window.
    pub(crate) slos: BTreeMap<Name, Time>,
}

/// What the SLOs come to together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Met,
    Missed,
    Unknown,
}

impl Standing {
    /// From one time to another.
    pub(crate) fn of(service: &Service, sla: &Sla, (from, to): (Time, Time)) -> Self {
        let mut standing = Self::default();
        let (mut now, mut states) = (from, BTreeMap::new());
        for (at, changes) in changes(service, sla, (from, to)) {
            standing.lasted(verdict(sla, &states), at.since(now));
            now = at;
            for (slo, met) in changes {
                match met {
                    Some(met) => drop(states.insert(slo, met)),
                    None => drop(states.remove(slo)),
                }
            }
            standing.note(at, verdict(sla, &states), &states);
        }
        let last = service.judged.iter().rev().filter(|judged| sla.slos.contains(&judged.slo));
        let lasts = |judged: &Judged| judged.end.is_none_or(|end| to < end) && judged.begin < to;
        let missed = last.filter(|judged| lasts(judged)).any(|judged| judged.met == Met::No);
        if let Some(breach) = standing.breaches.last_mut().filter(|_| missed) {
            breach.end = None;
        }
        standing
    }

    fn lasted(&mut self, verdict: Verdict, time: Span) {
        match verdict {
            Verdict::Met => self.met = self.met.plus(time),
            Verdict::Missed => self.missed = self.missed.plus(time),
            Verdict::Unknown => {}
        }
    }

    /// Begins a breach, adds to it, or ends it.
    fn note(&mut self, at: Time, verdict: Verdict, states: &BTreeMap<&Name, Met>) {
        let open = self.breaches.last_mut().filter(|breach| breach.end.is_none());
        if verdict != Verdict::Missed {
            open.into_iter().for_each(|breach| breach.end = Some(at));
            return;
        }
        let missed = states.iter().filter(|(_, met)| **met == Met::No);
        let missed = missed.map(|(slo, _)| ((*slo).clone(), at));
        match open {
            Some(breach) => {
                for (slo, at) in missed {
                    breach.slos.entry(slo).or_insert(at);
                }
            }
            None => {
                let slos = missed.collect();
                self.breaches.push(Breach { begin: at, end: None, slos });
            }
        }
    }
}

/// What changes in a window: at each time, which SLOs are in which state from then on, or in none.
fn changes<'a>(
    service: &'a Service,
    sla: &Sla,
    (from, to): (Time, Time),
) -> BTreeMap<Time, Vec<(&'a Name, Option<Met>)>> {
    let mut changes: BTreeMap<Time, Vec<_>> = BTreeMap::new();
    for Judged { slo, met, begin, end } in &service.judged {
        let (begin, end) = ((*begin).max(from), end.unwrap_or(to).min(to));
        if sla.slos.contains(slo) && begin < end {
            changes.entry(begin).or_default().push((slo, Some(*met)));
            // What comes after it begins in the same instant, and follows it here.
            changes.entry(end).or_default().push((slo, None));
        }
    }
    changes
}

fn verdict(sla: &Sla, states: &BTreeMap<&Name, Met>) -> Verdict {
    if states.values().any(|met| *met == Met::No) {
        return Verdict::Missed;
    }
    let met = |slo: &Name| matches!(states.get(slo), Some(Met::Yes | Met::Standing));
    if sla.slos.iter().all(met) { Verdict::Met } else { Verdict::Unknown }
}
