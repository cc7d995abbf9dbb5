//! What happened to one service.

use std::collections::BTreeMap;

use tenure_core::model::name::Name;
use tenure_core::model::time::Time;
use tenure_core::service::definition::Definition;
use tenure_core::service::kpi::Kpis;
use tenure_core::service::slo::Met;
use tenure_core::service_manager::services::Found;

/// What the facts about a service say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    /// Its definitions, each from when on; none once it was removed.
    definitions: Vec<(Time, Option<Definition>)>,
    pub(crate) measured: Vec<Measured>,
    /// How its SLOs were judged, in the order in which that began.
    pub(crate) judged: Vec<Judged>,
    /// Where in `judged` each SLO is now.
    open: BTreeMap<Name, usize>,
    /// How each was judged last.
    met: BTreeMap<Name, Met>,
    /// Until when its last measurement counts, if it does.
    counts_until: Option<Time>,
    /// Whether the last measurement has ceased to count and no fact has said so yet, as while its guest was down.
    lapsed: bool,
}

/// A measurement.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) at: Time,
    pub(crate) kpis: Kpis,
    pub(crate) seen: Found,
    /// When it ceased to count: with the next one, or when it was too old.
    pub(crate) until: Option<Time>,
}

/// For how long an SLO was met, or not, or nothing was known.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) slo: Name,
    pub(crate) met: Met,
    pub(crate) begin: Time,
    pub(crate) end: Option<Time>,
}

impl Service {
    /// Its definition at a time.
    pub(crate) fn definition(&self, at: Time) -> Option<&Definition> {
        let before = self.definitions.iter().rev().find(|(from, _)| *from <= at);
        before.and_then(|(_, definition)| definition.as_ref())
    }

    /// What counted of it at a time.
    pub(crate) fn measured_at(&self, at: Time) -> Option<&Measured> {
        let last = self.measured.iter().rev().find(|measured| measured.at <= at);
        last.filter(|measured| measured.until.is_none_or(|until| at < until))
    }

    pub(crate) fn defined(&mut self, at: Time, definition: &Definition) {
        self.lapse(at);
        let gone = self.met.keys().filter(|slo| !definition.slo.contains_key(*slo));
        for slo in gone.cloned().collect::<Vec<_>>() {
            self.met.remove(&slo);
            self.close(at, &slo);
        }
        self.definitions.push((at, Some(definition.clone())));
        self.count();
    }

    pub(crate) fn removed(&mut self, at: Time) {
        self.lapse(at);
        for slo in std::mem::take(&mut self.met).into_keys() {
            self.close(at, &slo);
        }
        self.forget_measured(at);
        self.definitions.push((at, None));
    }

    pub(crate) fn reported(&mut self, at: Time, kpis: &Kpis, seen: Found) {
        self.lapse(at);
        self.forget_measured(at);
        self.measured.push(Measured { at, kpis: kpis.clone(), seen, until: None });
        self.count();
        self.resume(at);
    }

    pub(crate) fn stale(&mut self, at: Time) {
        self.lapse(at);
        self.forget_measured(at);
        self.counts_until = None;
        self.resume(at);
    }

    pub(crate) fn assessed(&mut self, at: Time, slo: &Name, met: Met) {
        self.lapse(at);
        self.met.insert(slo.clone(), met);
        self.judge(at, slo, met);
    }

    /// What was measured counts for so long; after that nothing is known, whether a fact says so or not.
    pub(crate) fn lapse(&mut self, now: Time) {
        let Some(until) = self.counts_until.filter(|until| *until < now) else { return };
        self.counts_until = None;
        self.lapsed = true;
        self.forget_measured(until);
        let by_kpis = self.met.iter().filter(|(_, met)| matches!(met, Met::Yes | Met::No));
        let slos: Vec<Name> = by_kpis.map(|(slo, _)| slo.clone()).collect();
        for slo in slos {
            self.judge(until, &slo, Met::Unknown);
        }
    }

    /// Something is known again: each SLO is as it was judged last.
    fn resume(&mut self, at: Time) {
        if std::mem::take(&mut self.lapsed) {
            for (slo, met) in self.met.clone() {
                self.judge(at, &slo, met);
            }
        }
    }

    /// The last measurement counts for so long as the definition says.
    fn count(&mut self) {
        let last = self.measured.last().filter(|last| last.until.is_none());
        let definition = self.definitions.last().and_then(|(_, definition)| definition.as_ref());
        self.counts_until = last
            .zip(definition)
            .map(|(last, definition)| last.at.plus(definition.behaviour.stale_after));
    }

    fn forget_measured(&mut self, at: Time) {
        if let Some(last) = self.measured.last_mut() {
            last.until.get_or_insert(at);
        }
    }

    /// An SLO is in a state from now on. What lasted for no time is no state.
    fn judge(&mut self, at: Time, slo: &Name, met: Met) {
        let open = self.open.get(slo).map(|&open| (open, self.judged[open].clone()));
        match open {
            Some((_, Judged { met: same, .. })) if same == met => return,
            Some((index, Judged { begin, .. })) if begin == at => {
                self.open.remove(slo);
                self.judged.remove(index);
                self.open.values_mut().filter(|open| **open > index).for_each(|open| *open -= 1);
            }
            Some(_) => self.close(at, slo),
            None => {}
        }
        let before = self.judged.iter().rposition(|judged| judged.slo == *slo);
        let index = match before.filter(|&before| self.judged[before].continues(at, met)) {
            Some(before) => {
                self.judged[before].end = None;
                before
            }
            None => {
                self.judged.push(Judged { slo: slo.clone(), met, begin: at, end: None });
                self.judged.len() - 1
            }
        };
        self.open.insert(slo.clone(), index);
    }

    fn close(&mut self, at: Time, slo: &Name) {
        if let Some(open) = self.open.remove(slo) {
            self.judged[open].end = Some(at);
        }
    }
}

impl Judged {
    fn continues(&self, at: Time, met: Met) -> bool {
        self.end == Some(at) && self.met == met
    }
}
