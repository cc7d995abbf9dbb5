//! Requests for sites and bandwidth, each at ten starts, beside other solvers.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use serde_json::{Value, json};
use tenure_plan::{Problem, Settings, Status, Term, export, solve};

use crate::{Numbers, SEED, Times, processor_time};

/// How many starts a request has.
const FRAMES: usize = 10;

/// How long another solver may take for a frame.
const LIMIT: Duration = Duration::from_secs(20);

/// The sites of the network: the domain, and how many CPUs each has.
const SITES: [(&str, u64); 10] = [
    ("n", 8),
    ("n", 16),
    ("n", 32),
    ("n", 64),
    ("s", 8),
    ("s", 16),
    ("s", 32),
    ("u", 8),
    ("u", 16),
    ("u", 32),
];

/// The exchange points of each domain.
const POINTS: [(&str, &[&str]); 3] =
    [("n", &["xn1", "xn2"]), ("s", &["xs1", "xs2"]), ("u", &["xu"])];

/// The edges between domains.
const BETWEEN: [(&str, &str); 4] = [("xn1", "xu"), ("xn1", "xs1"), ("xs1", "xu"), ("xn2", "xs2")];

/// How many sites a request of each type wants, and the links between them.
const TYPES: [(u64, &[(u64, u64)]); 5] = [
    (1, &[]),
    (2, &[(0, 1)]),
    (3, &[(0, 1), (1, 2), (0, 2)]),
    (4, &[(0, 1), (0, 2), (0, 3)]),
    (4, &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
];

/// The problem of one frame: random free capacities, and the request.
fn frame(numbers: &mut Numbers, cpus: &[u64], links: &[(u64, u64)]) -> Problem {
    let mut places: Vec<Value> = Vec::new();
    let mut edges: Vec<Value> = Vec::new();
    for (number, (domain, all)) in SITES.iter().enumerate() {
        let (site, free) = (format!("{domain}{number}"), numbers.below(all + 1));
        places.push(json!({"name": site, "capacity": {"cpu": free}, "price": 1}));
        for point in POINTS.iter().find(|(of, _)| of == domain).unwrap().1 {
            let free = numbers.below(6);
            edges.push(json!({"ends": [site, point], "capacity": free, "price": 5}));
        }
    }
    let points = POINTS.iter().flat_map(|(_, points)| *points);
    places.extend(points.map(|point| json!({"name": point})));
    for (a, b) in BETWEEN {
        edges.push(json!({"ends": [a, b], "capacity": numbers.below(11), "price": 3}));
    }
    let names: Vec<String> = (0..cpus.len()).map(|number| format!("p{number}")).collect();
    let parts = names.iter().zip(cpus);
    let parts: Vec<Value> =
        parts.map(|(name, cpus)| json!({"name": name, "needs": {"cpu": cpus}})).collect();
    let links = links.iter().map(|(a, b)| [format!("p{a}"), format!("p{b}")]);
    let links: Vec<Value> = links.map(|ends| json!({"ends": ends, "bandwidth": 1})).collect();
    let mut problem = json!({
        "name": "frame", "objective": ["price"],
        "place": places, "edge": edges, "part": parts, "link": links,
    });
    if names.len() > 1 {
        problem["apart"] = json!([names]);
    }
    serde_json::from_value(problem).unwrap()
}

/// Requests of the five types in turn, each with its frames.
fn requests(count: usize) -> impl Iterator<Item = (usize, Vec<Problem>)> {
    let mut numbers = Numbers(SEED);
    (0..count).map(move |number| {
        let (sites, links) = TYPES[number % TYPES.len()];
        let cpus: Vec<u64> = (0..sites).map(|_| 1 << numbers.below(4)).collect();
        let frames = (0..FRAMES).map(|_| frame(&mut numbers, &cpus, links)).collect();
        (number % TYPES.len() + 1, frames)
    })
}

/// The least price of a frame, if there is a plan; and the steps that it took.
fn least(problem: &Problem) -> (Option<u64>, u64) {
    let answer = solve(problem, &Settings { explain: false, ..Settings::default() }).unwrap();
    let price = match answer.status {
        Status::Optimal => answer.objective.and_then(|objective| objective.get(Term::Price)),
        Status::Infeasible => None,
        Status::Feasible | Status::Unknown => panic!("a frame is not proven: {answer:?}"),
    };
    (price, answer.steps)
}

/// Plans requests here, and the first of them by others.
pub(crate) fn frames(count: usize, of_rivals: usize) {
    let mut types: BTreeMap<usize, Times> = BTreeMap::new();
    let mut all = Times::default();
    for (kind, frames) in requests(count) {
        let began = processor_time();
        let steps = frames.iter().map(|frame| black_box(least(frame)).1).sum();
        let took = processor_time() - began;
        types.entry(kind).or_default().push(took, steps);
        all.push(took, steps);
    }
    for (kind, times) in types {
        let (figures, steps) = (times.figures(), times.steps);
        println!("{{\"solver\": \"tenure\", \"type\": {kind}, {figures}, \"steps\": {steps}}}");
    }
    println!("{{\"solver\": \"tenure\", {}, \"steps\": {}}}", all.figures(), all.steps);
    for rival in [GLPSOL, CBC] {
        beside(&rival, of_rivals);
    }
}

/// What another solver has found.
enum Found {
    Price(f64),
    NoPlan,
    /// Nothing was proven in time.
    Cut,
}

/// Another solver, run as a program.
struct Rival {
    name: &'static str,
    /// Its arguments for a program, a file for the answer, and a number of seconds.
    args: fn(&str, &str, u64) -> Vec<String>,
    read: fn(&str) -> Found,
}

const GLPSOL: Rival = Rival {
    name: "glpsol",
    args: |program, answer, seconds| {
        ["--lp", program, "--tmlim", &seconds.to_string(), "-o", answer].map(str::to_owned).to_vec()
    },
    read: |answer| {
        let field = |name: &str| {
            let line = answer.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        match field("Status:").as_str() {
            "INTEGER OPTIMAL" | "OPTIMAL" => {
                let words = field("Objective:");
                let price = words.split('=').nth(1).unwrap().split_whitespace().next();
                Found::Price(price.unwrap().parse().unwrap())
            }
            "INTEGER EMPTY" | "INTEGER UNDEFINED" | "EMPTY" | "UNDEFINED" => Found::NoPlan,
            _ => Found::Cut,
        }
    },
};

const CBC: Rival = Rival {
    name: "cbc",
    args: |program, answer, seconds| {
        [program, "-seconds", &seconds.to_string(), "-solve", "-solution", answer]
            .map(str::to_owned)
            .to_vec()
    },
    read: |answer| {
        let mut words = answer.lines().next().unwrap_or_default().split_whitespace();
        match words.next() {
            Some("Optimal") => Found::Price(words.next_back().unwrap().parse().unwrap()),
            Some("Infeasible" | "Integer") => Found::NoPlan,
            _ => Found::Cut,
        }
    },
};

/// Solves the first requests by another solver, and by this one, and compares.
fn beside(rival: &Rival, count: usize) {
    if Command::new(rival.name).arg("--version").output().is_err() {
        eprintln!("{} is not installed: left out", rival.name);
        return;
    }
    let folder = env::temp_dir().join(format!("tenure-planners-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    let (mut mismatches, mut cut) = (0, 0);
    for (_, frames) in requests(count) {
        let (mut of_ours, mut of_theirs) = (Duration::ZERO, Duration::ZERO);
        let mut counted = 0;
        for frame in &frames {
            let began = processor_time();
            let (least, steps) = least(frame);
            counted += steps;
            of_ours += processor_time() - began;
            let (found, took) = run(rival, frame, &folder);
            of_theirs += took;
            match (least, found) {
                (_, Found::Cut) => cut += 1,
                (None, Found::NoPlan) => {}
                (Some(ours), Found::Price(theirs)) if (ours as f64 - theirs).abs() < 0.5 => {}
                (Some(_), Found::Price(_) | Found::NoPlan) | (None, Found::Price(_)) => {
                    mismatches += 1;
                }
            }
        }
        ours.push(of_ours, counted);
        theirs.push(of_theirs, 0);
    }
    fs::remove_dir_all(&folder).unwrap();
    println!(
        "{{\"solver\": \"{}\", {}, \"cut\": {cut}, \"mismatches\": {mismatches}, \
         \"times_tenure\": {:.0}}}",
        rival.name,
        theirs.figures(),
        theirs.sum() / ours.sum(),
    );
    assert_eq!(mismatches, 0, "frames with different least prices");
}

/// What a rival finds, and how long that takes.
fn run(rival: &Rival, frame: &Problem, folder: &Path) -> (Found, Duration) {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (program, answer) = (path("frame.lp"), path("answer"));
    fs::write(&program, export::lp(frame).unwrap()).unwrap();
    drop(fs::remove_file(&answer));
    let began = Instant::now();
    let args = (rival.args)(&program, &answer, LIMIT.as_secs());
    let output = Command::new(rival.name).args(args).output().unwrap();
    let took = began.elapsed();
    assert!(!output.stdout.is_empty(), "{} says nothing", rival.name);
    ((rival.read)(&fs::read_to_string(&answer).unwrap_or_default()), took)
}
