//! Coordinators: what they plan beside what is possible when everything is shown.

#![allow(clippy::unwrap_used, reason = "a test that fails has nothing else to say")]

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use tenure_plan::{Problem, Settings, Status, check, coordinate, show, solve};

/// How often domains may be asked.
const TRIES: u32 = 16;

fn read(problem: Value) -> Problem {
    serde_json::from_value(problem).unwrap()
}

fn place(name: &str, domain: &str, cpus: u64) -> Value {
    json!({"name": name, "capacity": {"cpu": cpus}, "attributes": {"domain": domain}, "price": 1})
}

fn edge(ends: [&str; 2], capacity: u64, price: u64) -> Value {
    json!({"ends": ends, "capacity": capacity, "price": price, "latency": 1})
}

/// Two domains; the ways of the first to its borders `x` and `y` share the edge `m--n`.
fn shared(between: u64) -> Problem {
    read(json!({
        "name": "shared",
        "place": [
            place("a", "east", 1), place("b", "east", 1), place("m", "east", 0), place("n", "east", 0),
            place("x", "east", 0), place("y", "east", 0), place("z", "east", 0), place("c", "west", 1), place("d", "west", 1),
        ],
        "edge": [
            edge(["a", "m"], 10, 1), edge(["b", "m"], 10, 1), edge(["m", "n"], 10, 1),
            edge(["n", "x"], 10, 1), edge(["n", "y"], 10, 1), edge(["b", "z"], 10, 9),
            edge(["x", "c"], between, 1), edge(["y", "d"], between, 1), edge(["z", "d"], between, 1),
        ],
        "part": [
            {"name": "p", "needs": {"cpu": 1}, "only": ["a"]}, {"name": "q", "needs": {"cpu": 1}, "only": ["c"]},
            {"name": "r", "needs": {"cpu": 1}, "only": ["b"]}, {"name": "s", "needs": {"cpu": 1}, "only": ["d"]},
        ],
        "link": [
            {"ends": ["p", "q"], "bandwidth": 6},
            {"name": "other", "ends": ["r", "s"], "bandwidth": 6, "latency": 5},
        ],
    }))
}

#[test]
fn inner_places_and_edges_are_not_shown() {
    let shown = show(&shared(10), "domain").unwrap();
    let east = &shown[0];
    let places: Vec<&str> = east.places.iter().map(|place| place.name.as_str()).collect();
    assert_eq!((east.domain.as_str(), places), ("east", vec!["a", "b", "x", "y", "z"]));
    let way = |ends: [&str; 2]| {
        let ways = east.ways.iter().filter(|way| way.ends == ends);
        ways.map(|way| format!("{} for {}, {}", way.capacity, way.price, way.latency.unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(way(["a", "b"]), ["10 for 2, 2"]);
    assert_eq!(way(["a", "x"]), ["10 for 3, 3"]);
    assert_eq!(way(["b", "y"]), ["10 for 3, 3"]);
}

#[test]
fn what_a_domain_refuses_is_planned_by_another_way() {
    let (problem, settings) = (shared(10), Settings::default());
    let found = coordinate(&problem, "domain", TRIES, &settings).unwrap();
    assert!(found.tries > 1, "the first plan takes the edge that both ways share");
    assert_eq!(found.answer.status, Status::Feasible);
    assert_eq!(found.answer.plan.paths["p--q"], ["a--m", "m--n", "n--x", "x--c"]);
    assert_eq!(found.answer.plan.paths["other"], ["b--z", "z--d"]);
    assert_eq!(found.answer.objective, solve(&problem, &settings).unwrap().objective);
    let once = coordinate(&problem, "domain", 1, &settings).unwrap().answer;
    assert_eq!((once.status, once.plan), (Status::Unknown, tenure_plan::Plan::default()));
}

#[test]
fn why_there_is_no_plan_is_said_as_far_as_it_is_shown() {
    let found = coordinate(&shared(5), "domain", TRIES, &Settings::default()).unwrap();
    assert_eq!((found.tries, found.answer.status), (0, Status::Unknown));
    assert_eq!(found.answer.why.unwrap().links, ["other"]);
}

#[test]
fn a_place_without_a_domain_is_refused_by_name() {
    let mut problem = shared(10);
    problem.place[2].attributes = tenure_plan::Properties::default();
    let error = coordinate(&problem, "domain", TRIES, &Settings::default()).unwrap_err();
    assert_eq!(error.to_string(), "place `m`: it needs a text `domain` that names its domain");
    problem.place[0].count = Some(2);
    let error = show(&problem, "domain").unwrap_err();
    assert_eq!(
        error.to_string(),
        "place `a`: with domains each place has a name of its own, and no count"
    );
}

const PARTS: [&str; 3] = ["p", "q", "r"];
const NAMES: [&str; 9] = ["a1", "a2", "ax", "b1", "b2", "bx", "c1", "c2", "cx"];

prop_compose! {
    /// Three domains of two sites and an inner place each, any of which may have an edge to any other.
    fn network()(
        cpus in prop::collection::vec(0_u64..3, 9),
        edges in prop::collection::vec((any::<Index>(), any::<Index>(), 1_u64..4, 0_u64..4), 6..18),
        links in prop::collection::vec((0_usize..3, 0_usize..3, 1_u64..3, prop::option::of(1_u64..6), prop::option::of(1_u64..4)), 1..4),
    ) -> Problem {
        let cpus_of = |name: &str, cpus: u64| if name.ends_with('x') { 0 } else { cpus };
        let places: Vec<Value> = NAMES.iter().zip(cpus).map(|(name, cpus)| place(name, &name[..1], cpus_of(name, cpus))).collect();
        let mut ends: Vec<([&str; 2], u64, u64)> = edges.iter()
            .map(|(one, other, capacity, price)| ([NAMES[one.index(9)], NAMES[other.index(9)]], *capacity, *price))
            .filter(|([one, other], ..)| one != other)
            .collect();
        ends.sort();
        ends.dedup_by_key(|(ends, ..)| *ends);
        let edges: Vec<Value> = ends.into_iter().map(|(ends, capacity, price)| edge(ends, capacity, price)).collect();
        let parts: Vec<Value> = PARTS.iter().map(|name| json!({"name": name, "needs": {"cpu": 1}})).collect();
        let links: Vec<Value> = links.iter().enumerate().filter(|(_, (from, to, ..))| from != to)
            .map(|(number, (from, to, bandwidth, latency, hops))| {
                let mut link = json!({"name": format!("l{number}"), "ends": [PARTS[*from], PARTS[*to]], "bandwidth": bandwidth});
                if let Some(latency) = latency { link["latency"] = json!(latency); }
                if let Some(hops) = hops { link["hops"] = json!(hops); }
                link
            })
            .collect();
        read(json!({"name": "random", "objective": ["price"], "apart": [["p", "q", "r"]], "place": places, "edge": edges, "part": parts, "link": links}))
    }
}

proptest! {
    #[test]
    fn a_coordinated_plan_holds_and_is_no_better_than_the_best(problem in network()) {
        let settings = Settings { explain: false, ..Settings::default() };
        let flat = solve(&problem, &settings).unwrap();
        let found = coordinate(&problem, "domain", TRIES, &settings).unwrap();
        prop_assert!(found.tries <= TRIES);
        match found.answer.objective {
            Some(objective) => {
                prop_assert_eq!(found.answer.status, Status::Feasible);
                prop_assert_eq!(check(&problem, &found.answer.plan), Ok(objective.clone()));
                let price = |objective: &tenure_plan::Objective| objective.iter().map(|(_, value)| value).collect::<Vec<_>>();
                prop_assert!(price(&objective) >= price(&flat.objective.unwrap()));
            }
            None => prop_assert_eq!(found.answer.status, Status::Unknown),
        }
    }
}
