//! Requests for compute at several sites with bandwidth between them, as Takefusa et al. (2009) drew them.

use rand::RngExt as _;
use serde::Deserialize;
use tenure_core::model::time::Span;

use crate::random::{Chance, Purpose};

/// The most requests that are drawn.
pub(crate) const MOST_REQUESTS: usize = 20_000;

/// How requests are drawn: in a first window, for starts in the one after it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct CoAllocation {
    /// Requests are drawn until their units times run times come to this part of all units times the window.
    pub load: f64,
    /// The types that are drawn: 1 is one site, 2 a pair, 3 a triangle, 4 four sites.
    pub types: Vec<u8>,
    /// How the four sites of type 4 are linked.
    pub type_4: Shape,
    /// The numbers of units at each site.
    pub cpus: Vec<u32>,
    /// How much each link asks for.
    pub bandwidth: u32,
    /// The run times. A request may start up to twice its run time later than it asks for.
    pub durations: Vec<Span>,
    /// For how long requests are submitted, and over how long their starts are spread after that.
    pub window: Span,
}

/// How sites are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// One with each of the others.
    Star,
    /// Each with each.
    Complete,
}

impl Default for CoAllocation {
    fn default() -> Self {
        Self {
            load: 1.0,
            types: vec![1, 2, 3, 4],
            type_4: Shape::Star,
            cpus: vec![1, 2, 4, 8],
            bandwidth: 1,
            durations: [30, 60, 120].map(|minutes| Span::MINUTE.times(minutes)).to_vec(),
            window: Span::DAY,
        }
    }
}

/// A request as it was drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Whose it is, of those who ask.
    pub user: usize,
    /// When it is submitted, from the origin of the clock.
    pub at: Span,
    /// The first start that suits.
    pub earliest: Span,
    /// The last one.
    pub latest: Span,
    /// For how long.
    pub run: Span,
    /// How many units at each site.
    pub sites: Vec<u32>,
    /// Which of them are linked.
    pub links: Vec<(u16, u16)>,
    /// The type.
    pub kind: u8,
    /// The load with this request, in percent, as the next multiple of ten.
    pub load: u32,
}

impl CoAllocation {
    /// What is wrong with a setting, and which it is.
    pub(crate) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if !(self.load > 0.0 && self.load <= 100.0) {
            Err(("load", "has to be above 0 and at most 100; 1.0 is all units, all the time"))
        } else if self.types.is_empty() || self.types.iter().any(|kind| !(1..=4).contains(kind)) {
            Err(("types", "lists types of requests, of 1, 2, 3, 4"))
        } else if self.cpus.is_empty() || self.cpus.contains(&0) {
            Err(("cpus", "lists numbers of units above zero"))
        } else if self.bandwidth == 0 {
            Err(("bandwidth", "has to be above zero"))
        } else if !self.window.is_positive() {
            Err(("window", "has to be above zero"))
        } else if self.durations.is_empty() || !self.durations.iter().all(|run| self.fits(*run)) {
            Err(("durations", "lists run times above zero, a third of `window` at most"))
        } else {
            Ok(())
        }
    }

    fn fits(&self, run: Span) -> bool {
        run.is_positive() && run.times(3) <= self.window
    }

    /// The requests of so many users for `units` units, in the order in which they are submitted; `None` if they are
    /// more than [`MOST_REQUESTS`].
    pub(crate) fn requests(&self, chance: Chance, units: u32, users: usize) -> Option<Vec<Drawn>> {
        let whole = f64::from(units) * self.window.as_secs_f64();
        let mut drawn: Vec<Drawn> = Vec::new();
        let mut asked = 0.0;
        while asked < self.load * whole {
            if drawn.len() >= MOST_REQUESTS {
                return None;
            }
            let request = self.draw(chance, drawn.len() as u64, users);
            let units: u32 = request.sites.iter().sum();
            asked += f64::from(units) * request.run.as_secs_f64();
            let load = (asked / whole * 10.0).ceil().min((self.load * 10.0).ceil());
            drawn.push(Drawn { load: load as u32 * 10, ..request });
        }
        // The arrivals of a Poisson process of which the number is known.
        let mut arrivals: Vec<Span> = (0..drawn.len() as u64)
            .map(|number| {
                let mut chance = chance.of(Purpose::Workload, &[number, 1]);
                Span::from_micros(chance.random_range(0..self.window.as_micros()))
            })
            .collect();
        arrivals.sort_unstable();
        drawn.iter_mut().zip(arrivals).for_each(|(request, at)| request.at = at);
        Some(drawn)
    }

    fn draw(&self, chance: Chance, number: u64, users: usize) -> Drawn {
        let mut chance = chance.of(Purpose::Workload, &[number, 0]);
        let mut one_of = |count: usize| chance.random_range(0..count.max(1));
        let (user, kind) = (one_of(users), self.types[one_of(self.types.len())]);
        let run = self.durations[one_of(self.durations.len())];
        let sites = (0..kind).map(|_| self.cpus[one_of(self.cpus.len())]).collect();
        // All of what it may be given is within the second window.
        let starts = self.window.as_micros() - run.times(3).as_micros();
        let earliest = self.window.plus(Span::from_micros(chance.random_range(0..=starts)));
        let (latest, links) = (earliest.plus(run.times(2)), self.links(kind));
        Drawn { user, at: Span::ZERO, earliest, latest, run, sites, links, kind, load: 0 }
    }

    fn links(&self, kind: u8) -> Vec<(u16, u16)> {
        let sites = u16::from(kind);
        match self.type_4 {
            Shape::Star if kind == 4 => (1..sites).map(|other| (0, other)).collect(),
            Shape::Star | Shape::Complete => {
                (0..sites).flat_map(|from| (from + 1..sites).map(move |to| (from, to))).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_comes_to_the_load_and_lies_in_the_second_window() {
        let workload = CoAllocation::default();
        let requests = workload.requests(Chance::new(1), 232, 2).unwrap();
        let asked: f64 = requests
            .iter()
            .map(|request| f64::from(request.sites.iter().sum::<u32>()) * request.run.as_secs_f64())
            .sum();
        let load = asked / (232.0 * 86_400.0);
        assert!((1.0..1.01).contains(&load), "{load}");
        assert!(requests.is_sorted_by_key(|request| request.at));
        assert!(requests.is_sorted_by_key(|request| request.load));
        for request in &requests {
            assert!(request.at < Span::DAY && request.earliest >= Span::DAY);
            assert!(request.latest.plus(request.run) <= Span::DAY.times(2));
            assert_eq!(request.sites.len(), usize::from(request.kind));
        }
        for kind in 1..=4 {
            let of_kind = requests.iter().filter(|request| request.kind == kind).count();
            let expected = requests.len() / 4;
            assert!(of_kind.abs_diff(expected) < expected / 2, "{of_kind} of type {kind}");
        }
        assert_eq!(requests.last().map(|request| request.load), Some(100));
        assert_ne!(Some(requests), workload.requests(Chance::new(2), 232, 2));
    }

    #[test]
    fn four_sites_are_linked_as_a_star_or_each_with_each() {
        let star = CoAllocation::default();
        let complete = CoAllocation { type_4: Shape::Complete, ..CoAllocation::default() };
        assert_eq!(star.links(4), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(complete.links(4), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]);
        for workload in [star, complete] {
            assert_eq!((workload.links(1), workload.links(2)), (vec![], vec![(0, 1)]));
            assert_eq!(workload.links(3), [(0, 1), (0, 2), (1, 2)]);
        }
    }
}
