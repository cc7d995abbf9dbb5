//! Requests of users, drawn or listed: each for units of one or more types, now or never.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use rand::RngExt as _;
use rand::distr::Distribution as _;
use rand::distr::weighted::WeightedIndex;
use rand_distr::StandardNormal;
use serde::Deserialize;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;

use crate::random::{Chance, Purpose};

/// The most requests of a run.
pub(crate) const MOST: usize = 2_000_000;

/// How requests are drawn, over the whole horizon.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct DrawnRequests {
    /// Their units times durations are this part of all units times the horizon.
    pub load: f64,
    /// How many units each asks for.
    pub units: NonZeroU32,
    /// For how long.
    pub duration: Span,
    /// How unevenly guests ask: the standard deviation of the logarithm of their weights.
    pub skew: f64,
    /// Which part of them is for types that the asked broker's own site has; the others are for any type.
    pub at_hand: f64,
    /// How long a lease goes on without a heartbeat of its guest, if leases depend on them.
    pub keep_alive: Option<Span>,
}

impl Default for DrawnRequests {
    fn default() -> Self {
        Self {
            load: 0.9,
            units: NonZeroU32::MIN,
            duration: Span::HOUR,
            skew: 0.0,
            at_hand: 0.7,
            keep_alive: None,
        }
    }
}

/// A row of a file of requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListedRequest {
    /// When it is made, from the start of the emulation.
    at: Span,
    /// The broker that is asked.
    broker: Name,
    /// The type.
    resource: Name,
    /// How many units.
    units: NonZeroU32,
    /// For how long.
    duration: Span,
    /// All rows with the same group are one request, which is met as a whole or not at all.
    #[serde(default)]
    group: Option<String>,
}

/// A request as a user makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRequest {
    /// When, from the start of the emulation.
    pub at: Span,
    /// How many units of which types.
    pub items: Vec<(Name, NonZeroU32)>,
    /// For how long.
    pub duration: Span,
    /// How long its lease goes on without a heartbeat, if it depends on them.
    pub keep_alive: Option<Span>,
}

/// Who asks: guests by their places.
#[derive(Debug)]
pub(crate) struct Askers<'a> {
    /// The types at hand of each guest.
    pub(crate) at_hand: Vec<&'a [Name]>,
    /// All types there are.
    pub(crate) types: Vec<&'a Name>,
    /// The units of all of them.
    pub(crate) units: u64,
}

impl DrawnRequests {
    /// What is wrong with a setting, and which it is.
    pub(crate) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if !(self.load > 0.0 && self.load <= 100.0) {
            Err(("load", "has to be above 0 and at most 100; 1.0 is all units, all the time"))
        } else if !self.duration.is_positive() {
            Err(("duration", "has to be above zero"))
        } else if !(0.0..=5.0).contains(&self.skew) {
            Err(("skew", "has to be from 0, all guests ask as often, to 5"))
        } else if !(0.0..=1.0).contains(&self.at_hand) {
            Err(("at-hand", "is a part of all requests, from 0 to 1"))
        } else {
            Ok(())
        }
    }

    /// The requests of each of these guests, in the order in which they are made; `None` if there are more than
    /// [`MOST`]. They come at the instants of a Poisson process of which the number is known.
    pub(crate) fn requests(
        &self,
        chance: Chance,
        horizon: Span,
        askers: &Askers<'_>,
    ) -> Option<Vec<Vec<UserRequest>>> {
        let each = f64::from(self.units.get()) * self.duration.as_secs_f64();
        let count = (self.load * askers.units as f64 * horizon.as_secs_f64() / each).round();
        if count > MOST as f64 {
            return None;
        }
        let mut asked = vec![Vec::new(); askers.at_hand.len()];
        let Ok(guests) = WeightedIndex::new(self.weights(chance, asked.len())) else {
            return Some(asked);
        };
        for number in 0..count as u64 {
            let mut chance = chance.of(Purpose::Workload, &[number, 3]);
            let at = Span::from_micros(chance.random_range(0..horizon.as_micros().max(1)));
            let guest = guests.sample(&mut chance);
            let own = askers.at_hand[guest];
            let resource = if !own.is_empty() && chance.random_bool(self.at_hand) {
                own[chance.random_range(0..own.len())].clone()
            } else {
                askers.types[chance.random_range(0..askers.types.len())].clone()
            };
            let items = vec![(resource, self.units)];
            let (duration, keep_alive) = (self.duration, self.keep_alive);
            asked[guest].push(UserRequest { at, items, duration, keep_alive });
        }
        asked.iter_mut().for_each(|asked| asked.sort_by_key(|request| request.at));
        Some(asked)
    }

    fn weights(&self, chance: Chance, guests: usize) -> Vec<f64> {
        let weight = |guest: u64| {
            let drawn: f64 = StandardNormal.sample(&mut chance.of(Purpose::Workload, &[guest, 2]));
            (self.skew * drawn).exp()
        };
        (0..guests as u64).map(weight).collect()
    }
}

/// The requests of each broker in rows with their lines, in the order in which they are made.
pub(crate) fn by_broker(
    rows: Vec<(u64, ListedRequest)>,
) -> Result<BTreeMap<Name, Arc<[UserRequest]>>, String> {
    if rows.len() > MOST {
        return Err(format!("they are more than {MOST}"));
    }
    let mut groups: BTreeMap<String, (Name, UserRequest)> = BTreeMap::new();
    let mut asked: BTreeMap<Name, Vec<UserRequest>> = BTreeMap::new();
    for (line, row) in rows {
        let ListedRequest { at, broker, resource, units, duration, group } = row;
        if at < Span::ZERO || !duration.is_positive() {
            return Err(format!("line {line}: a time below zero, or no `duration`"));
        }
        let new = UserRequest { at, items: Vec::new(), duration, keep_alive: None };
        let Some(group) = group.filter(|group| !group.is_empty()) else {
            let alone = UserRequest { items: vec![(resource, units)], ..new };
            asked.entry(broker).or_default().push(alone);
            continue;
        };
        let (of, whole) = groups.entry(group.clone()).or_insert((broker.clone(), new));
        if (whole.at, whole.duration, &*of) != (at, duration, &broker) {
            let what = "differs from its group in `at`, `broker` or `duration`";
            return Err(format!("line {line}: a row of `{group}` {what}"));
        }
        if whole.items.iter().any(|(other, _)| *other == resource) {
            return Err(format!("line {line}: the group `{group}` has `{resource}` twice"));
        }
        whole.items.push((resource, units));
    }
    for (broker, request) in groups.into_values() {
        asked.entry(broker).or_default().push(request);
    }
    let in_order = |(broker, mut asked): (Name, Vec<UserRequest>)| {
        asked.sort_by_key(|request| request.at);
        (broker, asked.into())
    };
    Ok(asked.into_iter().map(in_order).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_comes_to_the_load_and_is_as_uneven_as_it_is_to_be() {
        let types: Vec<Name> = ["a", "b", "c", "d"].map(Name::literal).to_vec();
        let at_hand = types.iter().cycle().take(100).map(std::slice::from_ref).collect();
        let askers = Askers { at_hand, types: types.iter().collect(), units: 400 };
        let drawn = DrawnRequests { skew: 1.0, ..DrawnRequests::default() };
        let asked = drawn.requests(Chance::new(1), Span::DAY, &askers).unwrap();
        let count = asked.iter().map(Vec::len).sum::<usize>();
        assert_eq!(count, 400 * 24 * 9 / 10);
        let most = asked.iter().map(Vec::len).max().unwrap();
        assert!(most > 4 * count / 100, "{most} of {count}");
        for (guest, asked) in asked.iter().enumerate() {
            assert!(asked.is_sorted_by_key(|request| request.at));
            if asked.len() > 100 {
                let own = asked.iter().filter(|r| r.items[0].0 == types[guest % 4]).count();
                let part = own as f64 / asked.len() as f64;
                // 70 % are at hand, and a quarter of the others.
                assert!((0.65..0.9).contains(&part), "{part}");
            }
        }
        let even = DrawnRequests::default().requests(Chance::new(1), Span::DAY, &askers).unwrap();
        assert!(even.iter().all(|asked| (40..150).contains(&asked.len())));
        let many = DrawnRequests { duration: Span::SECOND, ..DrawnRequests::default() };
        assert_eq!(many.requests(Chance::new(1), Span::DAY, &askers), None);
    }

    #[test]
    fn rows_of_a_group_are_one_request() {
        let row = |at: i64, resource, group: Option<&str>| ListedRequest {
            at: Span::from_secs(at),
            broker: Name::literal("lab"),
            resource: Name::literal(resource),
            units: NonZeroU32::MIN,
            duration: Span::HOUR,
            group: group.map(str::to_owned),
        };
        let read = |rows: &[ListedRequest]| by_broker((2..).zip(rows.iter().cloned()).collect());
        let rows = [row(9, "phone", None), row(1, "phone", Some("x")), row(1, "relay", Some("x"))];
        let asked = read(&rows).unwrap();
        let asked = &asked[&Name::literal("lab")];
        assert_eq!(asked.iter().map(|request| request.items.len()).collect::<Vec<_>>(), [2, 1]);
        let bad = |rows: &[ListedRequest]| read(rows).unwrap_err();
        let differs = bad(&[row(1, "phone", Some("x")), row(2, "relay", Some("x"))]);
        assert_eq!(
            differs,
            "line 3: a row of `x` differs from its group in `at`, `broker` or `duration`"
        );
        let twice = bad(&[row(1, "phone", Some("x")), row(1, "phone", Some("x"))]);
        assert_eq!(twice, "line 3: the group `x` has `phone` twice");
        assert!(bad(&[row(-1, "phone", None)]).starts_with("line 2: a time below zero"));
    }
}
