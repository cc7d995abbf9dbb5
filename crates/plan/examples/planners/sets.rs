//! Published sets of problems, as far as a folder has them, with a limit of processor time for each problem.
//!
//! | file | what it is | what is known of it |
//! |---|---|---|
//! | `*.bpp` | bin packing of Scholl, Klein and Jürgens | `*.txt` of lines `NAME LOWER UPPER` |
//! | `*.vbp` | vector bin packing | `*.csv` of lines `NAME,LOWER,OPTIMUM,...` |
//! | `*.json` | a list of `{problem, optimum}`, or of requests with `frames` of `{inst, obj}` | beside each |

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tenure_plan::{Answer, Problem, Settings, Status, Term, check, solve_until};

use crate::{Times, processor_time};

/// What is known of a problem.
enum Known {
    /// The most bins that the best plan has, and whether no plan has fewer.
    Bins(u64, bool),
    /// The value of each term of the best plan; none if there is no plan.
    Terms(Option<Map<String, Value>>),
    Nothing,
}

/// How a set went.
#[derive(Default)]
struct Tally {
    times: Times,
    /// Plans that reach the known optimum.
    best: usize,
    proven: usize,
    /// Plans beside what is known, in bins.
    ratios: Vec<f64>,
}

/// Solves all problems below a folder.
pub(crate) fn sets(folder: &Path, limit: Duration) {
    let mut files = Vec::new();
    collect(folder, &mut files);
    files.sort();
    let known = bounds(&files);
    let mut sets: BTreeMap<String, Tally> = BTreeMap::new();
    for file in &files {
        for (set, problem, known) in problems(file, &known) {
            let began = processor_time();
            let expired = || processor_time() - began > limit;
            let settings = Settings { steps: u64::MAX, explain: false, ..Settings::default() };
            let answer = solve_until(&problem, &settings, &expired).unwrap();
            let took = processor_time() - began;
            sets.entry(set).or_default().add(&problem, &answer, &known, took);
        }
    }
    for (set, tally) in &sets {
        let (figures, best, proven) = (tally.times.figures(), tally.best, tally.proven);
        print!("{{\"set\": \"{set}\", {figures}, \"best\": {best}, \"proven\": {proven}");
        if !tally.ratios.is_empty() {
            let mean = tally.ratios.iter().sum::<f64>() / tally.ratios.len() as f64;
            print!(", \"mean_ratio\": {mean:.4}");
        }
        println!("}}");
    }
    for wanted in ["bpp", "vbp", "json"] {
        if !files.iter().any(|file| extension(file) == wanted) {
            eprintln!("no .{wanted} is in {}: left out", folder.display());
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| {
        panic!("{}: {error}; name the folder that has the sets", folder.display())
    });
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

fn extension(file: &Path) -> String {
    file.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The bins of the best plan by the name of the problem, and whether they are proven.
fn bounds(files: &[PathBuf]) -> BTreeMap<String, (u64, bool)> {
    let mut bounds = BTreeMap::new();
    for file in files.iter().filter(|file| ["txt", "csv"].contains(&extension(file).as_str())) {
        for line in fs::read_to_string(file).unwrap().lines() {
            let fields: Vec<&str> = line.split([',', '\t']).map(str::trim).collect();
            let [name, lower, upper, ..] = fields.as_slice() else { continue };
            let (Ok(lower), Ok(upper)) = (lower.parse::<u64>(), upper.parse::<u64>()) else {
                continue;
            };
            // The table of optima has a weaker lower bound beside them.
            let proven = lower == upper || extension(file) == "csv";
            bounds.insert((*name).to_owned(), (upper, proven));
        }
    }
    bounds
}

/// The problems of a file, with the set that each is of.
fn problems(file: &Path, bounds: &BTreeMap<String, (u64, bool)>) -> Vec<(String, Problem, Known)> {
    let bins = |problem| {
        let known = bounds
            .get(&stem(file))
            .map_or(Known::Nothing, |(bins, proven)| Known::Bins(*bins, *proven));
        vec![(extension(file), problem, known)]
    };
    let numbers = || -> Vec<u64> {
        let text = fs::read_to_string(file).unwrap();
        text.split_whitespace().map(|word| word.parse().unwrap()).collect()
    };
    match extension(file).as_str() {
        "bpp" => match numbers().as_slice() {
            [_, capacity, sizes @ ..] => {
                bins(packing(&[*capacity], sizes.iter().map(|size| (1, vec![*size]))))
            }
            other => panic!("{}: {other:?} is no problem", file.display()),
        },
        "vbp" => {
            let numbers = numbers();
            let width = usize::try_from(numbers[0]).unwrap();
            let items = numbers[width + 2..].chunks_exact(width + 1);
            let items = items.map(|item| (item[width], item[..width].to_vec()));
            bins(packing(&numbers[1..=width], items))
        }
        "json" => entries(file),
        _ => Vec::new(),
    }
}

fn amounts(amounts: &[u64]) -> Value {
    let named = amounts.iter().enumerate().map(|(index, amount)| (format!("d{index}"), *amount));
    Value::Object(named.map(|(name, amount)| (name, amount.into())).collect())
}

/// Items, each so many times, into equal bins.
fn packing(capacity: &[u64], items: impl Iterator<Item = (u64, Vec<u64>)>) -> Problem {
    let parts = items.enumerate().map(
        |(number, (count, size))| json!({"name": format!("i{number}"), "count": count, "needs": amounts(&size)}),
    );
    let parts: Vec<Value> = parts.collect();
    let count: u64 = parts.iter().filter_map(|part| part["count"].as_u64()).sum();
    let place = json!({"name": "bin", "count": count, "capacity": amounts(capacity)});
    let problem =
        json!({"name": "packing", "objective": ["nodes"], "place": [place], "part": parts});
    serde_json::from_value(problem).unwrap()
}

fn entries(file: &Path) -> Vec<(String, Problem, Known)> {
    let entries: Vec<Value> = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let mut problems = Vec::new();
    for mut entry in entries {
        let kind = entry.get("type").map(ToString::to_string).unwrap_or_default();
        for frame in entry["frames"].as_array().into_iter().flatten() {
            let price = frame["obj"].as_f64();
            let known = match (&frame["obj"], price) {
                (Value::String(_), _) => Known::Nothing,
                (_, None) => Known::Terms(None),
                (_, Some(price)) => {
                    Known::Terms(Some([("price".to_owned(), price.into())].into_iter().collect()))
                }
            };
            let set = format!("{} {}", stem(file), kind.trim_matches('"'));
            problems.push((set, co_allocation(&frame["inst"]), known));
        }
        if entry.get("problem").is_some() {
            let known = Known::Terms(entry["optimum"].as_object().cloned());
            let problem = serde_json::from_value(entry["problem"].take()).unwrap();
            problems.push((stem(file), problem, known));
        }
    }
    problems
}

/// One frame of a request.
fn co_allocation(frame: &Value) -> Problem {
    let list = |value: &Value| value.as_array().unwrap().clone();
    let nodes = list(&frame["nodes"]);
    let places = nodes.iter().enumerate().map(|(index, name)| {
        json!({"name": name, "capacity": {"cpu": frame["wc"][index]}, "price": frame["vc"][index]})
    });
    let node = |index: &Value| &nodes[usize::try_from(index.as_u64().unwrap()).unwrap()];
    let edges = list(&frame["edges"]).into_iter().map(
        |edge| json!({"ends": [node(&edge[0]), node(&edge[1])], "capacity": edge[2], "price": edge[3]}),
    );
    let edges: Vec<Value> = edges.collect();
    let name = |index: &Value| format!("p{index}");
    let parts = list(&frame["rc"]);
    let parts = parts.iter().enumerate();
    let parts: Vec<Value> = parts
        .map(|(index, cpus)| json!({"name": name(&index.into()), "needs": {"cpu": cpus}}))
        .collect();
    let links = list(&frame["links"])
        .into_iter()
        .map(|link| json!({"ends": [name(&link[0]), name(&link[1])], "bandwidth": link[2]}));
    let links: Vec<Value> = links.collect();
    let names: Vec<Value> = parts.iter().map(|part| part["name"].clone()).collect();
    let apart = if names.len() > 1 { vec![names] } else { Vec::new() };
    let places: Vec<Value> = places.collect();
    let problem = json!({
        "name": "frame", "objective": ["price"], "apart": apart,
        "place": places, "edge": edges, "part": parts, "link": links,
    });
    serde_json::from_value(problem).unwrap()
}

impl Tally {
    fn add(&mut self, problem: &Problem, answer: &Answer, known: &Known, took: Duration) {
        self.times.push(took, answer.steps);
        let value = |term: Term| answer.objective.as_ref().and_then(|all| all.get(term));
        if let Some(objective) = &answer.objective {
            assert_eq!(check(problem, &answer.plan).as_ref(), Ok(objective));
        }
        let proven = matches!(answer.status, Status::Optimal | Status::Infeasible);
        self.proven += usize::from(proven);
        match known {
            Known::Nothing => {}
            Known::Bins(bins, exact) => {
                let ours = value(Term::Nodes).unwrap();
                assert!(!exact || ours >= *bins, "{} bins are fewer than can be", ours);
                assert!(!proven || ours <= *bins, "{} bins are said to be least", ours);
                self.best += usize::from(ours <= *bins);
                self.ratios.push(ours as f64 / *bins as f64);
            }
            Known::Terms(None) => {
                assert!(answer.objective.is_none(), "a plan where there is none");
                self.best += usize::from(proven);
            }
            Known::Terms(Some(terms)) => {
                let same = answer.objective.is_some()
                    && terms.iter().all(|(name, best)| {
                        let term: Term = serde_json::from_value(name.as_str().into()).unwrap();
                        let scale = if term == Term::Price { 1e6 } else { 1.0 };
                        (value(term).unwrap() as f64 - best.as_f64().unwrap() * scale).abs() < 1.0
                    });
                assert!(same || !proven, "{answer:?} is claimed to be optimal, {terms:?} is");
                self.best += usize::from(same);
            }
        }
    }
}
