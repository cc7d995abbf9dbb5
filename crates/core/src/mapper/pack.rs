//! `pack`: leases on as few groups of units as can be, planned by `tenure-plan`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use tenure_plan::{
    Amount, Answer, Part, Place, Price, Problem, Settings, Status, Term, UnitPrice, solve,
};

use super::choosing::{Groups, best_fit};
use crate::driver::UnitId;
use crate::model::name::Name;
use crate::site_authority::mapper::{
    Assignment, Decision, SiteAuthorityMapper, StockView, View, Waiting,
};

/// Keeps groups of units free for large leases: of the groups that nobody uses, as few as can be begin to be
/// used, each lease is on one group, and groups with little room are filled before those with much.
///
/// All leases of a type that lack units are planned together. What finds no place whole, and what is beyond the
/// limits of a plan, gets its units by best fit then.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pack {
    /// The attribute of units that names their group.
    by: Name,
    /// The most steps of the solver for the leases of a type.
    steps: u64,
}

impl Default for Pack {
    fn default() -> Self {
        Self { by: Name::literal("rack"), steps: 2_000 }
    }
}

/// The most leases that are planned together.
const MAX_LEASES: usize = 64;

/// The most groups that a plan looks at.
const MAX_GROUPS: usize = 64;

/// What is said of units that no plan has chosen.
const BEST_FIT: &str = "by best fit";

/// What groups have of units: the dimension of the problem.
const UNITS: &str = "units";

impl SiteAuthorityMapper for Pack {
    fn decide(&self, view: &View) -> Decision {
        let mut assignments = Vec::new();
        for (resource, stock) in view.stocks() {
            let waiting: Vec<&Waiting> =
                view.waiting().filter(|waiting| waiting.resource == *resource).collect();
            if !waiting.is_empty() {
                assignments.extend(self.assign(stock, &waiting));
            }
        }
        // Earlier leases first, as in the view.
        let order: BTreeMap<_, usize> =
            view.waiting().enumerate().map(|(nth, waiting)| (waiting.lease, nth)).collect();
        assignments.sort_by_key(|assignment| order.get(&assignment.lease).copied());
        Decision { round: view.round(), assignments, ..Decision::default() }
    }
}

impl Pack {
    /// Units of one type for leases.
    fn assign(&self, stock: &StockView, waiting: &[&Waiting]) -> Vec<Assignment> {
        let mut groups = Groups::by(stock, &self.by);
        let mut assignments = Vec::new();
        let mut assign = |lease: &Waiting, units: Vec<UnitId>, how: &str| {
            if !units.is_empty() {
                let reason = format!("packed by `{}`, {how}", self.by);
                assignments.push(Assignment { lease: lease.lease, units, reason });
            }
        };
        let (sure, rest) = waiting.split_at(sure(&groups, waiting));
        // Who cannot have every unit chooses first.
        let (choosy, others): (Vec<&Waiting>, Vec<&Waiting>) =
            sure.iter().partition(|lease| !lease.failed.is_empty());
        for lease in choosy {
            assign(lease, best_fit(&mut groups, lease), BEST_FIT);
        }
        let rooms = rooms(stock, &groups, &self.by);
        let planned = self.plan(&rooms, &whole(&others, &rooms));
        for (nth, group) in &planned.places {
            let lease = others[*nth];
            let units = groups.take(group, lease.lacks as usize, &lease.failed);
            assign(lease, units, planned.proven());
        }
        let left = (0..others.len()).filter(|nth| !planned.places.contains_key(nth));
        for lease in left.map(|nth| others[nth]).chain(rest.iter().copied()) {
            assign(lease, best_fit(&mut groups, lease), BEST_FIT);
        }
        assignments
    }

    /// The group of each lease that can be planned whole. If not all can, the largest are left out.
    fn plan(&self, rooms: &[FreeGroup], leases: &[Lease]) -> Planned {
        let mut leases = leases.to_vec();
        let mut steps = self.steps;
        while !leases.is_empty() {
            let settings = Settings { steps, explain: false, ..Settings::default() };
            // A problem of groups and leases has no contradictions.
            let Ok(answer) = solve(&problem(rooms, &leases), &settings) else { break };
            if !answer.plan.placement.is_empty() {
                return Planned::of(&answer, rooms, &leases);
            }
            steps = steps.saturating_sub(answer.steps);
            // Of equal ones the last to come.
            let largest = (0..leases.len()).max_by_key(|&nth| (leases[nth].lacks, nth));
            largest.map(|nth| leases.remove(nth));
        }
        Planned::default()
    }
}

/// A group with free units.
#[derive(Clone, Debug)]
struct FreeGroup {
    group: String,
    free: u32,
    /// Whether some of its units are on leases.
    used: bool,
}

/// A lease that one group can have whole.
#[derive(Clone, Debug)]
struct Lease {
    /// Its place among those that wait.
    nth: usize,
    lacks: u32,
    /// The groups that have enough units.
    only: Vec<usize>,
}

/// Which group each lease gets.
#[derive(Debug, Default)]
struct Planned {
    places: BTreeMap<usize, String>,
    optimal: bool,
}

impl Planned {
    fn of(answer: &Answer, rooms: &[FreeGroup], leases: &[Lease]) -> Self {
        let room = |name: &String| name.parse().ok().and_then(|number: usize| rooms.get(number));
        let place = |lease: &Lease| {
            let room = answer.plan.placement.get(&lease.name())?.first().and_then(room)?;
            Some((lease.nth, room.group.clone()))
        };
        let optimal = answer.status == Status::Optimal;
        Self { places: leases.iter().filter_map(place).collect(), optimal }
    }

    fn proven(&self) -> &'static str {
        if self.optimal { "on as few groups as can be" } else { "on few groups" }
    }
}

impl Lease {
    fn name(&self) -> String {
        format!("lease {}", self.nth)
    }
}

/// The groups with free units, as many as a plan looks at: those in use first, of both those with most room.
fn rooms(stock: &StockView, groups: &Groups, by: &Name) -> Vec<FreeGroup> {
    let mut totals: BTreeMap<String, usize> = BTreeMap::new();
    for notes in stock.known.values().filter(|notes| !notes.drained) {
        let group = notes.attributes.get(by).map(ToString::to_string);
        *totals.entry(group.unwrap_or_default()).or_default() += 1;
    }
    // Units without a group are no host that could be kept free.
    let is_used = |group: &str, free: usize| group.is_empty() || totals.get(group) > Some(&free);
    let sizes = groups.sizes(&BTreeSet::new()).into_iter();
    let mut rooms: Vec<FreeGroup> = sizes
        .map(|(group, free)| FreeGroup {
            used: is_used(&group, free),
            free: u32::try_from(free).unwrap_or(u32::MAX),
            group,
        })
        .collect();
    rooms.sort_by_key(|room| (!room.used, Reverse(room.free)));
    rooms.truncate(MAX_GROUPS);
    rooms
}

/// For how many leases, in their order, there are units.
fn sure(groups: &Groups, waiting: &[&Waiting]) -> usize {
    let mut left: usize = groups.sizes(&BTreeSet::new()).iter().map(|(_, size)| size).sum();
    let enough = |lease: &&&Waiting| {
        let rest = left.checked_sub(lease.lacks as usize);
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    waiting.iter().take_while(enough).count()
}

/// The leases that a group has enough units for.
fn whole(waiting: &[&Waiting], rooms: &[FreeGroup]) -> Vec<Lease> {
    let lease = |(nth, waiting): (usize, &&Waiting)| {
        let lacks = waiting.lacks;
        let only = (0..rooms.len()).filter(|&place| rooms[place].free >= lacks).collect();
        Lease { nth, lacks, only }
    };
    let leases = waiting.iter().take(MAX_LEASES).enumerate().map(lease);
    leases.filter(|lease| lease.lacks > 0 && !lease.only.is_empty()).collect()
}

/// Groups are places with as much room as they have free units; one that is in use counts as used already, by
/// a part that needs nothing. A unit of a group with more room costs more.
fn problem(rooms: &[FreeGroup], leases: &[Lease]) -> Problem {
    let units = |units: u32| BTreeMap::from([(UNITS.to_owned(), Amount::number(units.into()))]);
    let place = |(number, room): (usize, &FreeGroup)| Place {
        name: number.to_string(),
        capacity: units(room.free),
        price: UnitPrice::Same(Price::from_millionths(room.free.into())),
        ..Place::default()
    };
    let used = rooms.iter().enumerate().filter(|(_, room)| room.used).map(|(number, _)| Part {
        name: format!("used {number}"),
        only: Some(vec![number.to_string()]),
        ..Part::default()
    });
    let wanted = leases.iter().map(|lease| Part {
        name: lease.name(),
        needs: units(lease.lacks),
        only: Some(lease.only.iter().map(ToString::to_string).collect()),
        ..Part::default()
    });
    Problem {
        name: "pack".to_owned(),
        objective: vec![Term::Nodes, Term::Price],
        place: rooms.iter().enumerate().map(place).collect(),
        part: used.chain(wanted).collect(),
        ..Problem::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rooms_of(rooms: &[(u32, bool)]) -> Vec<FreeGroup> {
        let room =
            |(number, &(free, used))| FreeGroup { group: format!("rack {number}"), free, used };
        (0..).zip(rooms).map(|(number, room_of): (u32, _)| room((number, room_of))).collect()
    }

    fn leases_of(lacks: &[u32], rooms: &[FreeGroup]) -> Vec<Lease> {
        let only = |lacks| (0..rooms.len()).filter(|&place| rooms[place].free >= lacks).collect();
        let lease = |(nth, &lacks)| Lease { nth, lacks, only: only(lacks) };
        lacks.iter().enumerate().map(lease).collect()
    }

    /// How many groups begin to be used, and what the leases cost; `None` if they do not fit.
    fn worth(rooms: &[FreeGroup], lacks: &[u32], places: &[usize]) -> Option<(usize, u64)> {
        let mut free: Vec<u32> = rooms.iter().map(|room| room.free).collect();
        let mut cost = 0;
        for (&lacks, &place) in lacks.iter().zip(places) {
            free[place] = free[place].checked_sub(lacks)?;
            cost += u64::from(lacks) * u64::from(rooms[place].free);
        }
        let begun =
            (0..rooms.len()).filter(|&place| !rooms[place].used && free[place] < rooms[place].free);
        Some((begun.count(), cost))
    }

    /// The best of all ways to put leases on groups.
    fn best(rooms: &[FreeGroup], lacks: &[u32]) -> Option<(usize, u64)> {
        let ways = rooms.len().pow(u32::try_from(lacks.len()).unwrap());
        let way = |number: usize| -> Vec<usize> {
            let digit =
                |nth: usize| number / rooms.len().pow(u32::try_from(nth).unwrap()) % rooms.len();
            (0..lacks.len()).map(digit).collect()
        };
        (0..ways).filter_map(|number| worth(rooms, lacks, &way(number))).min()
    }

    proptest! {
        #[test]
        fn a_plan_begins_to_use_as_few_groups_as_can_be_and_fills_the_small_ones(
            rooms in prop::collection::vec((1..7u32, any::<bool>()), 1..5),
            lacks in prop::collection::vec(1..5u32, 1..5),
        ) {
            let rooms = rooms_of(&rooms);
            let planned = Pack { steps: 200_000, ..Pack::default() }.plan(&rooms, &leases_of(&lacks, &rooms));
            let place = |nth: usize| {
                let group = planned.places.get(&nth)?;
                rooms.iter().position(|room| room.group == *group)
            };
            match best(&rooms, &lacks) {
                Some(best) => {
                    let places: Vec<usize> = (0..lacks.len()).map(|nth| place(nth).unwrap()).collect();
                    prop_assert_eq!(worth(&rooms, &lacks, &places), Some(best));
                    prop_assert!(planned.optimal);
                }
                // Not all fit whole: those that are planned do.
                None => {
                    prop_assert!(planned.places.len() < lacks.len());
                    let of = |nth| Some((lacks[nth], place(nth)?));
                    let (some, places): (Vec<u32>, Vec<usize>) = (0..lacks.len()).filter_map(of).unzip();
                    prop_assert!(worth(&rooms, &some, &places).is_some());
                }
            }
        }
    }

    #[test]
    fn leases_stay_whole_where_best_fit_in_their_order_would_split_one() {
        let rooms = rooms_of(&[(5, true), (5, false)]);
        let planned = Pack::default().plan(&rooms, &leases_of(&[2, 2, 3, 3], &rooms));
        let on = |group: &str| planned.places.values().filter(|place| **place == group).count();
        assert_eq!((on("rack 0"), on("rack 1")), (2, 2));
    }
}
