//! A load that is served by units.

use tenure_core::model::time::{Span, Time};
use tenure_expr::Quantity;

use super::model::{ModelLoad, WebModel};
use super::{Software, Unit};
use crate::report::ServiceReport;

/// A load over time.
pub(super) struct Web {
    /// From when on it is how high, in order.
    load: Vec<(Time, u32)>,
    /// How many of those have begun.
    begun: usize,
}

impl Web {
    /// The load of a model, or of a workload with one value a step where the model names none.
    pub(super) fn of(model: &WebModel, demand: &[u32], (start, step): (Time, Span)) -> Self {
        let named = model.load.iter().map(|ModelLoad { at, units }| (start.plus(*at), *units));
        let mut load: Vec<(Time, u32)> = named.collect();
        if load.is_empty() {
            let steps = (0_i64..).zip(demand);
            load = steps.map(|(k, units)| (start.plus(step.times(k)), *units)).collect();
            load.dedup_by_key(|(_, units)| *units);
        }
        load.sort_by_key(|(at, _)| *at);
        Self { load, begun: 0 }
    }

    fn now(&self) -> u32 {
        self.begun.checked_sub(1).map_or(0, |last| self.load[last].1)
    }
}

impl Software for Web {
    fn advance(&mut self, now: Time, _: &[Unit]) {
        self.begun = self.load.partition_point(|(at, _)| *at <= now);
    }

    fn next(&self) -> Option<Time> {
        self.load.get(self.begun).map(|(at, _)| *at)
    }

    fn lose(&mut self, _: Time, _: Unit) {}

    fn measure(&self, _: Time, units: u32) -> Vec<(&'static str, Quantity)> {
        let (load, number) = (self.now(), |n: u32| Quantity::number(i64::from(n)));
        let lacking = load.saturating_sub(units);
        vec![("load", number(load)), ("units", number(units)), ("lacking", number(lacking))]
    }

    fn fill(&self, _: Time, _: &mut ServiceReport) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_that_of_the_model_or_of_the_workload() {
        let start = Time::ZERO;
        let mut web = Web::of(&WebModel::default(), &[2, 2, 5], (start, Span::MINUTE));
        assert_eq!(web.next(), Some(start));
        web.advance(start, &[]);
        assert_eq!(web.next(), Some(start.plus(Span::MINUTE.times(2))));
        let lacking = ("lacking", Quantity::number(1));
        assert_eq!(web.measure(start, 1)[2], lacking);
        let load = vec![ModelLoad { at: Span::HOUR, units: 7 }];
        let mut web = Web::of(&WebModel { load }, &[2], (start, Span::MINUTE));
        web.advance(start, &[]);
        assert_eq!(web.measure(start, 1)[0], ("load", Quantity::number(0)));
        web.advance(start.plus(Span::HOUR), &[]);
        assert_eq!(web.measure(start, 1)[0], ("load", Quantity::number(7)));
    }
}
