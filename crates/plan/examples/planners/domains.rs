//! What a coordinator finds who is not shown the inner edges of domains, beside a planner who sees all.

use std::hint::black_box;

use serde_json::{Value, json};
use tenure_plan::{Problem, Settings, Status, Term, coordinate, solve};

use crate::{Numbers, SEED, Times, processor_time};

/// How often a coordinator asks the domains.
const TRIES: u32 = 16;

/// The domains, each with sites around a ring of inner points, two of which also lead to a border each.
const DOMAINS: [&str; 3] = ["n", "s", "u"];
const SITES: usize = 4;

/// The edges between the borders of domains.
const BETWEEN: [(&str, &str); 4] = [("nb0", "sb0"), ("nb1", "ub0"), ("sb1", "ub1"), ("sb0", "ub0")];

/// How many sites a request of each type wants, and the links between them.
const TYPES: [(usize, &[(usize, usize)]); 4] = [
    (2, &[(0, 1)]),
    (3, &[(0, 1), (1, 2), (0, 2)]),
    (4, &[(0, 1), (0, 2), (0, 3)]),
    (4, &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
];

fn domain(name: &str, numbers: &mut Numbers, places: &mut Vec<Value>, edges: &mut Vec<Value>) {
    let attributes = json!({ "domain": name });
    let mut place = |kind: &str, number: usize, cpus: u64| {
        places.push(json!({
            "name": format!("{name}{kind}{number}"), "capacity": {"cpu": cpus}, "price": 1, "attributes": attributes,
        }));
    };
    for number in 0..SITES {
        place("p", number, 0);
        place("", number, numbers.below(17));
    }
    place("b", 0, 0);
    place("b", 1, 0);
    let mut edge = |one: String, other: String| {
        let (free, price) = (numbers.below(9), 3 + numbers.below(5));
        edges.push(json!({"ends": [one, other], "capacity": free, "price": price}));
    };
    for number in 0..SITES {
        edge(format!("{name}{number}"), format!("{name}p{number}"));
        edge(format!("{name}p{number}"), format!("{name}p{}", (number + 1) % SITES));
    }
    edge(format!("{name}p0"), format!("{name}b0"));
    edge(format!("{name}p2"), format!("{name}b1"));
}

/// A network of which random parts are free, and a request.
fn problem(numbers: &mut Numbers, (sites, links): (usize, &[(usize, usize)])) -> Problem {
    let (mut places, mut edges) = (Vec::new(), Vec::new());
    DOMAINS.iter().for_each(|name| domain(name, numbers, &mut places, &mut edges));
    for ends in BETWEEN {
        edges.push(json!({"ends": ends, "capacity": numbers.below(17), "price": 3}));
    }
    let names: Vec<String> = (0..sites).map(|number| format!("p{number}")).collect();
    let part = |name: &String, numbers: &mut Numbers| json!({"name": name, "needs": {"cpu": 1 << numbers.below(4)}});
    let parts: Vec<Value> = names.iter().map(|name| part(name, numbers)).collect();
    let links: Vec<Value> =
        links.iter().map(|(one, other)| json!({"ends": [names[*one], names[*other]], "bandwidth": 1 + numbers.below(2)})).collect();
    let problem = json!({
        "name": "domains", "objective": ["price"], "apart": [names],
        "place": places, "edge": edges, "part": parts, "link": links,
    });
    serde_json::from_value(problem).unwrap()
}

/// What was found of the requests of one type.
#[derive(Default)]
struct Found {
    flat: u32,
    coordinated: u32,
    /// Prices of those that both found, in millionths.
    prices: (u64, u64),
    asked: u32,
    times: Times,
    times_flat: Times,
}

/// Plans requests of four types in turn, each once with all edges shown and once by a coordinator.
pub(crate) fn domains(count: usize) {
    let mut numbers = Numbers(SEED);
    let mut types: Vec<Found> = TYPES.iter().map(|_| Found::default()).collect();
    let settings = Settings { explain: false, ..Settings::default() };
    for number in 0..count {
        let kind = number % TYPES.len();
        let (problem, found) = (problem(&mut numbers, TYPES[kind]), &mut types[kind]);
        let began = processor_time();
        let flat = black_box(solve(&problem, &settings).unwrap());
        found.times_flat.push(processor_time() - began, flat.steps);
        assert!(matches!(flat.status, Status::Optimal | Status::Infeasible), "{flat:?}");
        let began = processor_time();
        let coordinated = coordinate(&problem, "domain", TRIES, &settings).unwrap();
        found.times.push(processor_time() - began, coordinated.answer.steps);
        found.asked += coordinated.tries;
        let price = |objective: Option<tenure_plan::Objective>| {
            objective.and_then(|objective| objective.get(Term::Price))
        };
        let (flat, coordinated) = (price(flat.objective), price(coordinated.answer.objective));
        found.flat += u32::from(flat.is_some());
        found.coordinated += u32::from(coordinated.is_some());
        if let (Some(flat), Some(coordinated)) = (flat, coordinated) {
            found.prices = (found.prices.0 + flat, found.prices.1 + coordinated);
        }
    }
    for (kind, found) in types.iter().enumerate() {
        println!(
            "{{\"type\": {}, \"flat\": {{\"plans\": {}, {}}}, \"coordinated\": {{\"plans\": {}, \"price_ratio\": {:.4}, \
             \"asked\": {:.2}, {}}}}}",
            kind + 1,
            found.flat,
            found.times_flat.figures(),
            found.coordinated,
            found.prices.1 as f64 / found.prices.0 as f64,
            f64::from(found.asked) / found.times.count() as f64,
            found.times.figures(),
        );
    }
}
