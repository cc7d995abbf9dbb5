//! Small random problems, answered by trying every placement and every path, judged by the checker.

#![allow(clippy::unwrap_used, reason = "a test that fails has nothing else to say")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tenure_plan::{
    Amount, Edge, Library, Link, Objective, Package, Part, Place, Plan, Price, Problem, Properties,
    Settings, Solver, Status, Term, UnitPrice, Uses, check, solve,
};

const PLACES: [&str; 4] = ["a", "b", "c", "d"];
const PARTS: [&str; 4] = ["p", "q", "r", "s"];

fn package(index: usize) -> Package {
    format!("app/svc{index}/1.0/main/1.0").parse().unwrap()
}

fn library() -> Package {
    "lib/base/1.0/main/1.2".parse().unwrap()
}

fn amounts(cpu: u64, memory: u64) -> BTreeMap<String, Amount> {
    BTreeMap::from([("cpu".into(), Amount::number(cpu)), ("memory".into(), Amount::number(memory))])
}

prop_compose! {
    fn place()(cpu in 0_u64..8, memory in 0_u64..8, fast in any::<bool>(), installed in 0_usize..6, base in any::<bool>(), price in 0_u64..3) -> Place {
        let mut attributes = Properties::default();
        attributes.insert("fast", fast.into());
        let mut packages: Vec<Package> = (installed < 4).then(|| package(installed)).into_iter().collect();
        packages.extend(base.then(library));
        Place { capacity: amounts(cpu, memory), attributes, installed: packages, price: UnitPrice::Same(Price::from_millionths(price * 1_500_000)), ..Place::default() }
    }
}

prop_compose! {
    fn part()(cpu in 0_u64..4, memory in 0_u64..4, rule in 0_u8..8, reuse in any::<bool>(), kind in 0_usize..6, favourite in 0_usize..8) -> Part {
        Part {
            needs: amounts(cpu, memory),
            condition: (rule == 0).then(|| "fast".parse().unwrap()),
            software: if rule == 1 { vec!["lib/base/>=1/main/*".parse().unwrap()] } else { Vec::new() },
            depends: if rule == 2 || rule == 3 { vec![library()] } else { Vec::new() },
            only: (rule == 4).then(|| vec!["a".into(), "b".into()]),
            package: (kind < 4).then(|| package(kind)),
            favourites: PLACES.get(favourite).map(|place| (*place).to_owned()).into_iter().filter(|place| place == "a").collect(),
            reuse,
            ..Part::default()
        }
    }
}

fn named<T>(items: Vec<T>, names: &[&str], set: impl Fn(&mut T, String)) -> Vec<T> {
    let mut items = items;
    items.iter_mut().zip(names).for_each(|(item, name)| set(item, (*name).to_owned()));
    items
}

prop_compose! {
    fn problem()(
        places in proptest::collection::vec(place(), 1..4),
        parts in proptest::collection::vec(part(), 1..4),
        same in (0_usize..9, 0_usize..9),
        apart in (0_usize..6, 0_usize..6),
        uses in proptest::collection::vec((0_usize..4, 0_usize..4, 1_u64..4), 0..3),
        edges in proptest::collection::vec((0_usize..4, 0_usize..4, 0_u64..6, 0_u64..4, 0_u64..3), 0..6),
        links in proptest::collection::vec((0_usize..4, 0_usize..4, 1_u64..4, proptest::option::of(0_u32..3), proptest::option::of(0_u64..4)), 0..3),
        objective in Just(vec![Term::Installs, Term::Nodes, Term::Spread, Term::Uses, Term::Favourites, Term::Price]).prop_shuffle(),
        terms in 0_usize..7,
    ) -> Problem {
        let place = named(places, &PLACES, |place, name| place.name = name);
        let mut part = named(parts, &PARTS, |part, name| part.name = name);
        for only in part.iter_mut().filter_map(|part| part.only.as_mut()) {
            only.retain(|name| place.iter().any(|place| place.name == *name));
        }
        let pair = |one: usize, other: usize| (one < part.len() && other < part.len() && one != other).then(|| vec![PARTS[one].to_owned(), PARTS[other].to_owned()]);
        let same_host: Vec<_> = pair(same.0, same.1).into_iter().collect();
        let apart: Vec<_> = pair(apart.0, apart.1).into_iter().filter(|list| !same_host.iter().any(|same| same.iter().all(|name| list.contains(name)))).collect();
        let uses = uses.into_iter().filter(|(from, to, _)| pair(*from, *to).is_some());
        let uses = uses.map(|(from, to, weight)| Uses { from: PARTS[from].into(), to: PARTS[to].into(), weight });
        let edges = edges.into_iter().filter(|(from, to, ..)| *from < place.len() && *to < place.len() && from != to);
        let edge = edges.enumerate().map(|(index, (from, to, capacity, price, latency))| Edge {
            name: Some(format!("e{index}")),
            ends: [PLACES[from].into(), PLACES[to].into()],
            capacity: Amount::number(capacity),
            latency: Some(Amount::number(latency)),
            price: Price::from_millionths(price * 1_000_000),
            attributes: Properties::default(),
        });
        let links = links.into_iter().filter(|(from, to, ..)| pair(*from, *to).is_some());
        let link = links.enumerate().map(|(index, (from, to, bandwidth, hops, latency))| Link {
            name: Some(format!("l{index}")),
            ends: [PARTS[from].into(), PARTS[to].into()],
            bandwidth: Amount::number(bandwidth),
            latency: latency.map(Amount::number),
            hops,
            condition: None,
        });
        let libraries = vec![Library { package: library(), needs: amounts(1, 1), depends: Vec::new() }];
        Problem {
            name: "random".into(),
            objective: objective.into_iter().take(terms).collect(),
            library: libraries,
            same_host,
            apart,
            uses: uses.collect(),
            edge: edge.collect(),
            link: link.collect(),
            place,
            part,
        }
    }
}

/// A request for sites: all parts are apart, links count, and so do prices alone.
fn of_sites(mut problem: Problem, alike: bool) -> Problem {
    problem.objective = vec![Term::Price];
    problem.same_host.clear();
    if alike {
        let first = problem.part[0].clone();
        for part in &mut problem.part[1..] {
            *part = Part { name: part.name.clone(), ..first.clone() };
        }
        for link in &mut problem.link {
            *link =
                Link { bandwidth: Amount::number(1), latency: None, hops: None, ..link.clone() };
        }
    }
    problem.apart = vec![problem.part.iter().map(|part| part.name.clone()).collect()];
    problem
}

/// All plans that the checker accepts; the least of their values.
fn least(problem: &Problem) -> Option<Vec<u64>> {
    let (places, parts) = (problem.place.len(), problem.part.len());
    let mut best: Option<Vec<u64>> = None;
    for number in 0..places.pow(u32::try_from(parts).unwrap()) {
        let hosts: Vec<usize> = (0..parts)
            .map(|part| number / places.pow(u32::try_from(part).unwrap()) % places)
            .collect();
        let mut plan = placed(problem, &hosts);
        paths(problem, &hosts, 0, &mut plan, &mut best);
    }
    best
}

fn placed(problem: &Problem, hosts: &[usize]) -> Plan {
    let mut plan = Plan::default();
    for (part, host) in problem.part.iter().zip(hosts) {
        let place = &problem.place[*host];
        plan.placement.insert(part.name.clone(), vec![place.name.clone()]);
        if part.reuse
            && part.package.as_ref().is_some_and(|package| place.installed.contains(package))
        {
            plan.reused.push(part.name.clone());
            continue;
        }
        let install = plan.install.entry(place.name.clone()).or_default();
        install.extend(part.package.iter().map(ToString::to_string));
        let base = library().to_string();
        if !part.depends.is_empty()
            && !place.installed.contains(&library())
            && !install.contains(&base)
        {
            install.push(base);
        }
    }
    plan
}

/// Tries all paths of the links from `link` on.
fn paths(
    problem: &Problem,
    hosts: &[usize],
    link: usize,
    plan: &mut Plan,
    best: &mut Option<Vec<u64>>,
) {
    let Some(asked) = problem.link.get(link) else {
        if let Ok(objective) = check(problem, plan) {
            let values = values(&objective);
            if best.as_ref().is_none_or(|best| values < *best) {
                *best = Some(values);
            }
        }
        return;
    };
    let host = |name: &str| hosts[problem.part.iter().position(|part| part.name == name).unwrap()];
    let (from, to) = (host(&asked.ends[0]), host(&asked.ends[1]));
    let mut found = Vec::new();
    walk(
        problem,
        PLACES[from],
        PLACES[to],
        &mut vec![PLACES[from].to_owned()],
        &mut Vec::new(),
        &mut found,
    );
    for path in found {
        plan.paths.insert(asked.name.clone().unwrap(), path);
        paths(problem, hosts, link + 1, plan, best);
    }
}

fn walk(
    problem: &Problem,
    at: &str,
    to: &str,
    seen: &mut Vec<String>,
    path: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) {
    if at == to {
        found.push(path.clone());
        return;
    }
    for edge in &problem.edge {
        let [one, other] = &edge.ends;
        let next = if one == at {
            other
        } else if other == at {
            one
        } else {
            continue;
        };
        if seen.contains(next) {
            continue;
        }
        seen.push(next.clone());
        path.push(edge.name.clone().unwrap());
        walk(problem, next, to, seen, path, found);
        path.pop();
        seen.pop();
    }
}

fn values(objective: &Objective) -> Vec<u64> {
    objective.iter().map(|(_, value)| value).collect()
}

/// How many of each place and part there are.
type Counts = ([u32; 2], [u32; 2]);

/// A problem of two places and two parts at most, several of each, without links.
fn counted(mut problem: Problem, (places, parts): Counts) -> Problem {
    problem.place.truncate(2);
    problem.part.truncate(2);
    problem.link.clear();
    problem.edge.clear();
    problem.place.iter_mut().zip(places).for_each(|(place, count)| place.count = Some(count));
    problem.part.iter_mut().zip(parts).for_each(|(part, count)| part.count = Some(count));
    let known = |name: &String| problem.part.iter().any(|part| part.name == *name);
    problem.uses.retain(|uses| known(&uses.from) && known(&uses.to));
    problem.same_host.retain(|list| list.iter().all(known));
    problem.apart.retain(|list| list.iter().all(known));
    let places: Vec<String> = problem.place.iter().map(|place| place.name.clone()).collect();
    for part in &mut problem.part {
        part.favourites.retain(|name| places.contains(name));
        part.only.iter_mut().for_each(|only| only.retain(|name| places.contains(name)));
    }
    problem
}

/// The same problem with each copy written out.
fn written_out(problem: &Problem) -> Problem {
    let copies = |name: &str, count: Option<u32>| -> Vec<String> {
        (1..=count.unwrap_or(1)).map(|number| format!("{name}-{number}")).collect()
    };
    let parts = |name: &String| {
        copies(name, problem.part.iter().find(|part| part.name == *name).unwrap().count)
    };
    let places = |name: &String| {
        copies(name, problem.place.iter().find(|place| place.name == *name).unwrap().count)
    };
    let mut out = Problem {
        place: Vec::new(),
        part: Vec::new(),
        uses: Vec::new(),
        same_host: problem
            .same_host
            .iter()
            .map(|list| list.iter().flat_map(parts).collect())
            .collect(),
        apart: problem.apart.iter().map(|list| list.iter().flat_map(parts).collect()).collect(),
        ..problem.clone()
    };
    for place in &problem.place {
        let all = places(&place.name).into_iter();
        out.place.extend(all.map(|name| Place { name, count: None, ..place.clone() }));
    }
    for part in &problem.part {
        let only = part.only.as_ref().map(|only| only.iter().flat_map(places).collect());
        let favourites: Vec<String> = part.favourites.iter().flat_map(places).collect();
        let part = Part { count: None, only, favourites, ..part.clone() };
        out.part.extend(parts(&part.name).into_iter().map(|name| Part { name, ..part.clone() }));
    }
    for uses in &problem.uses {
        for from in parts(&uses.from) {
            let to = parts(&uses.to).into_iter();
            out.uses.extend(to.map(|to| Uses { from: from.clone(), to, weight: uses.weight }));
        }
    }
    out
}

#[test]
fn prices_near_the_highest_are_prices() {
    let dear = Price::from_millionths(u64::MAX / 8 - 1);
    let place = |name: &str| Place {
        name: name.to_owned(),
        capacity: amounts(1, 0),
        price: UnitPrice::Same(dear),
        ..Place::default()
    };
    let part = |name: &str| Part { name: name.to_owned(), needs: amounts(1, 0), ..Part::default() };
    let problem = Problem {
        name: "dear".into(),
        objective: vec![Term::Price],
        apart: vec![vec!["p".into(), "q".into()]],
        place: vec![place("a"), place("b")],
        part: vec![part("p"), part("q")],
        ..Problem::default()
    };
    let answer =
        solve(&problem, &Settings { solver: Solver::Exact, ..Settings::default() }).unwrap();
    assert_eq!(answer.status, Status::Optimal);
    assert_eq!(answer.objective.unwrap().get(Term::Price), Some(u64::MAX / 4 - 3));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_exact_solver_finds_the_least_of_all_plans(problem in problem()) {
        let answer = solve(&problem, &Settings { solver: Solver::Exact, ..Settings::default() }).unwrap();
        match least(&problem) {
            None => {
                prop_assert_eq!(answer.status, Status::Infeasible);
                let why = answer.why.unwrap();
                prop_assert!(!why.parts.is_empty());
                prop_assert!(why.irreducible);
            }
            Some(least) => {
                prop_assert_eq!(answer.status, Status::Optimal);
                let checked = check(&problem, &answer.plan).unwrap();
                prop_assert_eq!(&checked, answer.objective.as_ref().unwrap());
                prop_assert_eq!(values(&checked), least);
            }
        }
    }

    #[test]
    fn requests_for_sites_get_the_least_of_all_plans(
        problem in problem(),
        alike in any::<bool>(),
        alternatives in 0_usize..3,
    ) {
        let problem = of_sites(problem, alike);
        let settings = Settings { solver: Solver::Exact, alternatives, ..Settings::default() };
        let answer = solve(&problem, &settings).unwrap();
        let Some(least) = least(&problem) else {
            prop_assert_eq!(answer.status, Status::Infeasible);
            return Ok(());
        };
        prop_assert_eq!(answer.status, Status::Optimal);
        let checked = check(&problem, &answer.plan).unwrap();
        prop_assert_eq!(Some(&checked), answer.objective.as_ref());
        prop_assert_eq!(&values(&checked), &least);
        let mut before = least;
        for other in &answer.alternatives {
            let checked = check(&problem, &other.plan).unwrap();
            prop_assert_eq!(&checked, &other.objective);
            prop_assert!(values(&checked) >= before);
            before = values(&checked);
        }
        for solver in [Solver::Search, Solver::Any, Solver::Auto] {
            let answer = solve(&problem, &Settings { solver, ..settings }).unwrap();
            prop_assert!(answer.status != Status::Infeasible);
            if let Some(objective) = &answer.objective {
                prop_assert_eq!(&check(&problem, &answer.plan).unwrap(), objective);
            }
        }
        // Steps that run out prove nothing.
        let few = solve(&problem, &Settings { steps: 2, ..settings }).unwrap();
        prop_assert!(few.status != Status::Infeasible);
        if let Some(objective) = &few.objective {
            prop_assert_eq!(&check(&problem, &few.plan).unwrap(), objective);
        }
    }

    #[test]
    fn copies_are_placed_as_well_as_if_each_had_a_name(
        problem in problem(),
        places in [1_u32..3, 1_u32..3],
        parts in [1_u32..3, 1_u32..3],
    ) {
        let problem = counted(problem, (places, parts));
        let least = least(&written_out(&problem));
        let answer = solve(&problem, &Settings { solver: Solver::Exact, ..Settings::default() });
        let Ok(answer) = answer else {
            // Copies that are to be together and apart.
            prop_assert_eq!(least, None);
            return Ok(());
        };
        prop_assert_eq!(answer.status == Status::Infeasible, least.is_none());
        if let Some(least) = least {
            let checked = check(&problem, &answer.plan).unwrap();
            prop_assert_eq!(answer.status, Status::Optimal);
            prop_assert_eq!(values(&checked), least);
        }
    }

    #[test]
    fn plans_of_every_solver_keep_the_rules(problem in problem()) {
        let best = least(&problem);
        for solver in [Solver::FirstFit, Solver::Search, Solver::Any, Solver::Auto] {
            let answer = solve(&problem, &Settings { solver, alternatives: 2, ..Settings::default() }).unwrap();
            match answer.status {
                Status::Optimal | Status::Feasible => {
                    let checked = check(&problem, &answer.plan).unwrap();
                    prop_assert_eq!(Some(&checked), answer.objective.as_ref());
                    prop_assert!(best.as_ref().is_some_and(|best| values(&checked) >= *best));
                }
                Status::Infeasible => prop_assert_eq!(&best, &None),
                Status::Unknown => {}
            }
            for other in &answer.alternatives {
                let checked = check(&problem, &other.plan).unwrap();
                prop_assert_eq!(&checked, &other.objective);
                prop_assert!(values(&checked) >= values(answer.objective.as_ref().unwrap()));
            }
            for offer in &answer.offers {
                prop_assert!(!offer.plan.placement.is_empty());
            }
        }
    }
}
