//! How long brokers' mappers take to plan experiments, by their type and load: measured, so not the same each time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use tenure_core::broker::mapper::{BrokerMapper, Decision, Swing, View};
use tenure_core::wire::request::Request;
use tenure_sim::participants::AroundBroker;

/// The measurements of a run.
#[derive(Clone, Default)]
pub(crate) struct Stopwatch(Arc<Mutex<Measured>>);

/// Milliseconds for each request, by type and load.
type Measured = BTreeMap<(u32, u32), Vec<f64>>;

/// How long requests of a type took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct PlanningTime {
    /// The type of the requests.
    #[serde(rename = "type")]
    pub(crate) kind: u32,
    /// The load with them, in percent.
    pub(crate) load: u32,
    /// How many there were.
    pub(crate) requests: usize,
    /// The mean, in milliseconds.
    pub(crate) avg_ms: f64,
    /// The longest.
    pub(crate) max_ms: f64,
    /// The standard deviation.
    pub(crate) sd_ms: f64,
}

impl Stopwatch {
    /// Puts the watch around mappers.
    pub(crate) fn around(&self) -> AroundBroker {
        let watch = self.clone();
        Arc::new(move |mapper| Box::new(Timed { mapper, watch: watch.clone() }))
    }

    /// What was measured.
    pub(crate) fn times(&self) -> Vec<PlanningTime> {
        let measured = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let time = |(&(kind, load), of): (&(u32, u32), &Vec<f64>)| {
            let count = of.len() as f64;
            let avg = of.iter().sum::<f64>() / count;
            let variance = of.iter().map(|ms| (ms - avg).powi(2)).sum::<f64>() / count;
            PlanningTime {
                kind,
                load,
                requests: of.len(),
                avg_ms: avg,
                max_ms: of.iter().copied().fold(0.0, f64::max),
                sd_ms: variance.sqrt(),
            }
        };
        measured.iter().map(time).collect()
    }
}

impl PlanningTime {
    /// That of the requests of both.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let parts = [self, other].map(|time| (time.requests as f64, time));
        let requests = self.requests + other.requests;
        let mean = |of: &dyn Fn(&Self) -> f64| {
            parts.iter().map(|(count, time)| count * of(time)).sum::<f64>() / requests as f64
        };
        let avg_ms = mean(&|time| time.avg_ms);
        let variance = mean(&|time| time.sd_ms.powi(2) + (time.avg_ms - avg_ms).powi(2));
        let max_ms = self.max_ms.max(other.max_ms);
        Self { requests, avg_ms, max_ms, sd_ms: variance.sqrt(), ..*self }
    }
}

struct Timed {
    mapper: Box<dyn BrokerMapper>,
    watch: Stopwatch,
}

impl BrokerMapper for Timed {
    fn decide(&self, view: &View) -> Decision {
        let number = |request: &Request, property| -> Option<u32> {
            request.properties.get(property)?.parse().ok()
        };
        let kind_and_load = |request| Some((number(request, "type")?, number(request, "load")?));
        let requests: Vec<_> = view.open_requests().map(kind_and_load).collect();
        let start = Instant::now();
        let decision = self.mapper.decide(view);
        let each = start.elapsed().as_secs_f64() * 1000.0 / requests.len().max(1) as f64;
        let mut measured = self.watch.0.lock().unwrap_or_else(PoisonError::into_inner);
        for experiment in requests.into_iter().flatten() {
            measured.entry(experiment).or_default().push(each);
        }
        decision
    }

    fn swing(&self) -> Swing {
        self.mapper.swing()
    }
}
