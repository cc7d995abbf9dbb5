//! Problems in formats that others made.

use std::collections::BTreeMap;

use serde::Deserialize;
use tenure_plan::{Amount, Edge, Link, Part, Place, Price, Problem, Term, UnitPrice};

/// A problem beside what is known of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    pub(super) problem: Problem,
    #[serde(default, rename = "optimum")]
    _optimum: serde_json::Value,
}

/// A request for sites and links, as planners saw it at several starts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    #[serde(default, rename = "type")]
    _type: serde_json::Value,
    #[serde(default, rename = "load")]
    _load: serde_json::Value,
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame {
    inst: Instance,
    #[serde(default, rename = "obj")]
    _obj: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Instance {
    nodes: Vec<String>,
    /// Indices of the nodes with CPUs.
    sites: Vec<usize>,
    /// Free CPUs by node.
    wc: Vec<Amount>,
    /// The price of a CPU by node.
    vc: Vec<Price>,
    /// Two nodes, free bandwidth, price of a unit.
    edges: Vec<(usize, usize, Amount, Price)>,
    /// The CPUs of each requested site.
    rc: Vec<Amount>,
    /// Two requested sites, bandwidth.
    links: Vec<(usize, usize, Amount)>,
}

impl Request {
    /// A problem for each frame, `NAME-1` and so on.
    pub(super) fn problems(&self, name: &str) -> Result<Vec<Problem>, String> {
        let frames = self.frames.iter().enumerate();
        frames.map(|(index, frame)| frame.inst.problem(format!("{name}-{}", index + 1))).collect()
    }
}

impl Instance {
    fn problem(&self, name: String) -> Result<Problem, String> {
        let node = |index: usize| {
            self.nodes.get(index).cloned().ok_or_else(|| format!("there is no node {index}"))
        };
        let site = |index: usize| {
            if index < self.rc.len() {
                Ok(format!("site-{index}"))
            } else {
                Err(format!("there is no requested site {index}"))
            }
        };
        let mut place = Vec::new();
        for (index, name) in self.nodes.iter().enumerate() {
            let mut node = Place { name: name.clone(), ..Place::default() };
            if self.sites.contains(&index) {
                let missing = || format!("node {index} has no CPUs");
                let cpus = *self.wc.get(index).ok_or_else(missing)?;
                node.capacity.insert("cpu".to_owned(), cpus);
                node.price = UnitPrice::Same(*self.vc.get(index).ok_or_else(missing)?);
            }
            place.push(node);
        }
        let mut edge = Vec::new();
        for (from, to, capacity, price) in &self.edges {
            edge.push(Edge {
                name: None,
                ends: [node(*from)?, node(*to)?],
                capacity: *capacity,
                latency: None,
                price: *price,
                attributes: tenure_plan::Properties::default(),
            });
        }
        let mut link = Vec::new();
        for (from, to, bandwidth) in &self.links {
            let ends = [site(*from)?, site(*to)?];
            link.push(Link {
                name: None,
                ends,
                bandwidth: *bandwidth,
                latency: None,
                hops: None,
                condition: None,
            });
        }
        let part = self.rc.iter().enumerate().map(|(index, cpus)| Part {
            name: format!("site-{index}"),
            needs: BTreeMap::from([("cpu".to_owned(), *cpus)]),
            ..Part::default()
        });
        let part: Vec<Part> = part.collect();
        let apart = vec![part.iter().map(|part| part.name.clone()).collect()];
        Ok(Problem {
            name,
            objective: vec![Term::Price],
            place,
            part,
            apart,
            edge,
            link,
            ..Problem::default()
        })
    }
}

/// Whole numbers of a text, one after the other.
struct Numbers<'a>(std::str::SplitWhitespace<'a>);

impl<'a> Numbers<'a> {
    fn of(text: &'a str) -> Self {
        Self(text.split_whitespace())
    }

    fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| format!("the file ends before {what}"))
    }

    fn next(&mut self, what: &str) -> Result<u64, String> {
        let word = self.word(what)?;
        word.parse().map_err(|_| match word.strip_prefix('-') {
            Some(_) => format!("{what} is {word}; negative amounts have no meaning"),
            None => format!("{what} is `{word}`, not a whole number"),
        })
    }

    fn end(&mut self) -> Result<(), String> {
        match self.0.next() {
            Some(word) => Err(format!("`{word}` stands after the last item")),
            None => Ok(()),
        }
    }
}

/// The most items of a problem.
const MAX_ITEMS: u64 = 4_000_000;

fn items(numbers: &mut Numbers<'_>) -> Result<u64, String> {
    match numbers.next("the number of items")? {
        items if items <= MAX_ITEMS => Ok(items),
        items => Err(format!("{items} items are too many; at most {MAX_ITEMS}")),
    }
}

/// Vector bin packing as VPSolver reads it: dimensions, a bin, kinds of items with counts.
pub(super) fn vbp(text: &str, name: &str) -> Result<Problem, String> {
    let mut numbers = Numbers::of(text);
    let dimensions = numbers.next("the number of dimensions")?;
    if dimensions > 1_000 {
        return Err(format!("{dimensions} dimensions are too many; at most 1000"));
    }
    let dimension = |index: u64| format!("d{}", index + 1);
    let mut capacity = BTreeMap::new();
    for index in 0..dimensions {
        capacity.insert(dimension(index), Amount::number(numbers.next("the size of a bin")?));
    }
    let kinds = items(&mut numbers)?;
    let (mut part, mut count) = (Vec::new(), 0_u64);
    for kind in 1..=kinds {
        let mut needs = BTreeMap::new();
        for index in 0..dimensions {
            needs.insert(
                dimension(index),
                Amount::number(numbers.next(&format!("a size of item {kind}"))?),
            );
        }
        let copies = numbers.next(&format!("the count of item {kind}"))?;
        let copies = u32::try_from(copies)
            .map_err(|_| format!("{copies} copies of item {kind} are too many"))?;
        count += u64::from(copies);
        if copies > 0 {
            let count = (copies > 1).then_some(copies);
            part.push(Part { name: format!("item-{kind}"), count, needs, ..Part::default() });
        }
    }
    numbers.end()?;
    Ok(packing(name, capacity, count, part))
}

/// Bin packing as Scholl, Klein and Juergens wrote it: items, the size of a bin, sizes.
pub(super) fn bpp(text: &str, name: &str) -> Result<Problem, String> {
    let mut numbers = Numbers::of(text);
    let items = items(&mut numbers)?;
    let capacity = numbers.next("the size of a bin")?;
    let part = sizes(&mut numbers, items)?;
    numbers.end()?;
    Ok(packing(name, BTreeMap::from([("size".to_owned(), Amount::number(capacity))]), items, part))
}

/// The bin packing files of the OR-Library: several problems with names.
pub(super) fn or_library(text: &str) -> Result<Vec<Problem>, String> {
    let mut numbers = Numbers::of(text);
    let count = numbers.next("the number of problems")?;
    let mut problems = Vec::new();
    for _ in 0..count {
        let name = numbers.word("the name of a problem")?;
        let capacity = numbers.next("the size of a bin")?;
        let items = items(&mut numbers)?;
        let _best = numbers.next("the best known number of bins")?;
        let part = sizes(&mut numbers, items)?;
        problems.push(packing(
            name,
            BTreeMap::from([("size".to_owned(), Amount::number(capacity))]),
            items,
            part,
        ));
    }
    numbers.end()?;
    Ok(problems)
}

fn sizes(numbers: &mut Numbers<'_>, items: u64) -> Result<Vec<Part>, String> {
    let part = |item: u64| {
        let size = numbers.next(&format!("the size of item {item}"))?;
        let needs = BTreeMap::from([("size".to_owned(), Amount::number(size))]);
        Ok(Part { name: format!("item-{item}"), needs, ..Part::default() })
    };
    (1..=items).map(part).collect()
}

fn packing(name: &str, capacity: BTreeMap<String, Amount>, bins: u64, part: Vec<Part>) -> Problem {
    let count = Some(u32::try_from(bins.max(1)).unwrap_or(u32::MAX));
    let bin = Place { name: "bin".to_owned(), count, capacity, ..Place::default() };
    Problem {
        name: name.to_owned(),
        objective: vec![Term::Nodes],
        place: vec![bin],
        part,
        ..Problem::default()
    }
}
