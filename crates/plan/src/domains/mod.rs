//! Planning over several domains, none of which shows its inner network.
//!
//! A domain shows its sites, its *borders* (places with an edge to another domain) and, between any two of
//! them, the *ways* that there are inside, each with bandwidth, price and latency. A coordinator plans over
//! what the domains show and the edges between them; then each domain plans the parts of paths that lie
//! inside it. Two ways may share inner edges, so a domain can refuse what it is asked for: the coordinator
//! then counts on less of one of these ways, and plans again.

mod ways;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use tenure_expr::{Attributes as _, Value};

use self::ways::ways;
use crate::answer::{Answer, Objective, Plan, Status};
use crate::check::check;
use crate::error::BadProblem;
use crate::problem::{Edge, Link, Part, Place, Problem};
use crate::score::Term;
use crate::solve::{Settings, solve};

/// What a domain shows of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Its name.
    pub domain: String,
    /// Its sites and borders.
    pub places: Vec<Place>,
    /// The ways between them.
    pub ways: Vec<Edge>,
}

/// What a coordinator found.
#[derive(Clone, Debug, PartialEq)]
pub struct Coordinated {
    /// The plan, with the edges of the problem. It is never `optimal` or `infeasible`, which a coordinator
    /// cannot know.
    pub answer: Answer,
    /// How often domains were asked.
    pub tries: u32,
    /// What the domains show.
    pub shown: Vec<Shown>,
}

/// What every domain of a problem shows. The attribute `by` of each place names its domain.
///
/// # Errors
/// If a place is in no domain, or the problem has a place with `count`.
pub fn show(problem: &Problem, by: &str) -> Result<Vec<Shown>, BadProblem> {
    Ok(domains(problem, by)?.iter().map(Domain::show).collect())
}

/// Plans as a coordinator does who asks the domains at most `tries` times. The attribute `by` of each place
/// names its domain. It is the best plan as far as the domains show the truth.
///
/// # Errors
/// If the problem is bad, a place is in no domain, or has a `count`.
pub fn coordinate(
    problem: &Problem,
    by: &str,
    tries: u32,
    settings: &Settings,
) -> Result<Coordinated, BadProblem> {
    let domains = domains(problem, by)?;
    let shown: Vec<Shown> = domains.iter().map(Domain::show).collect();
    let search = Search { problem, domains, shown: &shown, settings, steps: Cell::new(0) };
    let (best, tried) = search.run(tries)?;
    let answer = Answer { name: problem.name.clone(), steps: search.steps.get(), ..best };
    Ok(Coordinated { answer, tries: tried, shown })
}

/// The places and edges of one owner.
struct Domain<'p> {
    name: &'p str,
    places: Vec<&'p Place>,
    edges: Vec<&'p Edge>,
    /// The places that it shows: those that host parts, and borders.
    terminals: BTreeSet<&'p str>,
}

impl Domain<'_> {
    fn show(&self) -> Shown {
        let shows = |place: &&&Place| self.terminals.contains(place.name.as_str());
        Shown {
            domain: self.name.to_owned(),
            places: self.places.iter().filter(shows).map(|place| (*place).clone()).collect(),
            ways: ways(self),
        }
    }

    /// Plans the parts of paths that lie inside.
    fn plan(&self, pieces: &[Piece<'_>], settings: &Settings) -> Result<Answer, BadProblem> {
        let ends: BTreeSet<&String> = pieces.iter().flat_map(|piece| &piece.ends).collect();
        let at = |name: &&String| Part {
            name: (*name).clone(),
            only: Some(vec![(*name).clone()]),
            ..Part::default()
        };
        let links = pieces.iter().enumerate().map(|(number, piece)| Link {
            name: Some(number.to_string()),
            ends: piece.ends.clone(),
            bandwidth: piece.link.bandwidth,
            // The coordinator counts on the latency that was shown.
            latency: piece.link.latency.and(piece.way.latency),
            hops: None,
            condition: piece.link.condition.clone(),
        });
        let inside = Problem {
            name: self.name.to_owned(),
            objective: vec![Term::Price],
            place: self.places.iter().map(|place| bare(place)).collect(),
            part: ends.iter().map(at).collect(),
            edge: self.edges.iter().map(|edge| (*edge).clone()).collect(),
            link: links.collect(),
            ..Problem::default()
        };
        solve(&inside, &Settings { alternatives: 0, explain: true, ..*settings })
    }
}

fn bare(place: &Place) -> Place {
    Place { name: place.name.clone(), ..Place::default() }
}

/// The domains of a problem.
fn domains<'p>(problem: &'p Problem, by: &str) -> Result<Vec<Domain<'p>>, BadProblem> {
    let mut of: BTreeMap<&str, &str> = BTreeMap::new();
    for place in &problem.place {
        of.insert(&place.name, domain_of(place, by)?);
    }
    for edge in &problem.edge {
        if let Some(end) = edge.ends.iter().find(|end| !of.contains_key(end.as_str())) {
            let message = format!("there is no place `{end}`");
            return Err(BadProblem::new(format!("edge `{}`", edge.title()), message));
        }
    }
    let inside = |edge: &Edge, name: &str| edge.ends.iter().all(|end| of[end.as_str()] == name);
    let crossing = problem.edge.iter().filter(|edge| !inside(edge, of[edge.ends[0].as_str()]));
    let borders: BTreeSet<&str> =
        crossing.flat_map(|edge| &edge.ends).map(String::as_str).collect();
    let shown = |place: &Place| {
        borders.contains(place.name.as_str())
            || place.capacity.values().any(|free| free.value() > 0)
    };
    let names: BTreeSet<&str> = of.values().copied().collect();
    let domain = |name: &'p str| {
        let places: Vec<_> =
            problem.place.iter().filter(|place| of[place.name.as_str()] == name).collect();
        let terminals = places.iter().filter(|place| shown(place)).map(|place| place.name.as_str());
        let terminals = terminals.collect();
        let edges = problem.edge.iter().filter(|edge| inside(edge, name)).collect();
        Domain { name, places, edges, terminals }
    };
    Ok(names.into_iter().map(domain).collect())
}

fn domain_of<'p>(place: &'p Place, by: &str) -> Result<&'p str, BadProblem> {
    let at = format!("place `{}`", place.name);
    if place.count.is_some() {
        let message = "with domains each place has a name of its own, and no count";
        return Err(BadProblem::new(at, message));
    }
    match place.attributes.value(by) {
        Some(Value::Text(name)) => Ok(name),
        _ => Err(BadProblem::new(at, format!("it needs a text `{by}` that names its domain"))),
    }
}

/// A part of the path of a link that lies in one domain.
struct Piece<'a> {
    /// By its place among the problem's links.
    number: usize,
    link: &'a Link,
    /// Where it is on the path.
    position: usize,
    /// The way that was counted on.
    way: &'a Edge,
    /// From the link's first end to its second.
    ends: [String; 2],
}

/// What the coordinator counts on: less of some ways than was shown.
type Lowered = BTreeMap<String, u64>;

/// A plan over what is shown, to be confirmed by the domains.
struct Candidate {
    values: Vec<u64>,
    lowered: Lowered,
    answer: Answer,
}

/// What the domains say to a plan.
enum Reply {
    /// The plan with their edges.
    Fits(Plan),
    /// Ways of which they do not have as much together, with the bandwidth that was asked of each.
    Refused(Vec<(String, u64)>),
}

struct Search<'a, 'p> {
    problem: &'p Problem,
    domains: Vec<Domain<'p>>,
    shown: &'a [Shown],
    settings: &'a Settings,
    steps: Cell<u64>,
}

impl Search<'_, '_> {
    /// The best plan that the domains confirm, and how often they were asked: plans in the order of what
    /// they are worth as far as is shown, until none that is left can be better.
    fn run(&self, tries: u32) -> Result<(Answer, u32), BadProblem> {
        let first = self.answer(&Lowered::new())?;
        let none = Answer { status: Status::Unknown, why: first.why.clone(), ..Answer::default() };
        let mut open: Vec<Candidate> = Candidate::of(first, Lowered::new()).into_iter().collect();
        let mut best: Option<(Vec<u64>, Answer)> = None;
        let mut tried = 0;
        while let Some(next) = take_least(&mut open) {
            if tried == tries || best.as_ref().is_some_and(|(values, _)| *values <= next.values) {
                break;
            }
            tried += 1;
            match self.ask(&next.answer.plan)? {
                Reply::Fits(plan) => {
                    // What does not fit after all, such as too many hops, has no other plan that is known of.
                    let Ok(objective) = check(self.problem, &plan) else { continue };
                    let values = values(&objective);
                    if best.as_ref().is_none_or(|(known, _)| values < *known) {
                        best = Some((values, found(objective, plan)));
                    }
                }
                Reply::Refused(ways) => {
                    for (way, asked) in ways {
                        let mut lowered = next.lowered.clone();
                        lowered.insert(way, asked.saturating_sub(1));
                        let answer = self.answer(&lowered)?;
                        open.extend(Candidate::of(answer, lowered));
                    }
                }
            }
        }
        Ok((best.map_or(none, |(_, answer)| answer), tried))
    }

    /// Plans over what is shown.
    fn answer(&self, lowered: &Lowered) -> Result<Answer, BadProblem> {
        let inside = |edge: &&Edge| self.domains.iter().any(|domain| domain.edges.contains(edge));
        let between = self.problem.edge.iter().filter(|edge| !inside(edge)).cloned();
        let ways = self.shown.iter().flat_map(|shown| &shown.ways).map(|way| {
            let most = lowered.get(&way.title()).copied().unwrap_or(u64::MAX);
            Edge { capacity: way.capacity.with(way.capacity.value().min(most)), ..way.clone() }
        });
        let seen = Problem {
            place: self.shown.iter().flat_map(|shown| &shown.places).cloned().collect(),
            edge: between.chain(ways).collect(),
            ..self.problem.clone()
        };
        let answer = solve(&seen, &Settings { alternatives: 0, ..*self.settings })?;
        self.steps.set(self.steps.get() + answer.steps);
        Ok(answer)
    }

    /// Has each domain plan its parts of the paths.
    fn ask(&self, plan: &Plan) -> Result<Reply, BadProblem> {
        let mut paths: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
        let mut refused = Vec::new();
        for number in 0..self.domains.len() {
            let pieces = self.pieces(plan, number);
            if pieces.is_empty() {
                continue;
            }
            let answer = self.domains[number].plan(&pieces, self.settings)?;
            self.steps.set(self.steps.get() + answer.steps);
            match answer.objective {
                Some(_) => {
                    for (place, piece) in pieces.iter().enumerate() {
                        let path = answer.plan.paths.get(&place.to_string());
                        let key = (piece.number, piece.position);
                        paths.insert(key, path.cloned().unwrap_or_default());
                    }
                }
                None => refused.extend(too_much(&pieces, &answer)),
            }
        }
        if refused.is_empty() {
            Ok(Reply::Fits(self.whole(plan, &paths)))
        } else {
            Ok(Reply::Refused(refused))
        }
    }

    /// The parts of a plan's paths that lie in a domain.
    fn pieces(&self, plan: &Plan, domain: usize) -> Vec<Piece<'_>> {
        let ways = &self.shown[domain].ways;
        let mut pieces = Vec::new();
        for (number, link) in self.problem.link.iter().enumerate() {
            for (position, (title, ends)) in self.steps_of(plan, link).into_iter().enumerate() {
                let way = ways.iter().find(|way| way.title() == title);
                pieces.extend(way.map(|way| Piece { number, link, position, way, ends }));
            }
        }
        pieces
    }

    /// The edges of a link's path over what is shown, each with its ends in the direction of the link.
    fn steps_of(&self, plan: &Plan, link: &Link) -> Vec<(String, [String; 2])> {
        let path = plan.paths.get(&link.title()).map_or(&[][..], Vec::as_slice);
        let Some(mut at) = host(plan, &link.ends[0]) else { return Vec::new() };
        let all = || self.shown.iter().flat_map(|shown| &shown.ways).chain(&self.problem.edge);
        let mut steps = Vec::new();
        for title in path {
            let Some(edge) = all().find(|edge| edge.title() == *title) else { continue };
            let next = edge.ends.iter().find(|end| **end != at).unwrap_or(&at).clone();
            steps.push((title.clone(), [at, next.clone()]));
            at = next;
        }
        steps
    }

    /// A plan over what is shown, with the domains' edges in the place of their ways.
    fn whole(&self, plan: &Plan, inner: &BTreeMap<(usize, usize), Vec<String>>) -> Plan {
        let mut whole = plan.clone();
        for (number, link) in self.problem.link.iter().enumerate() {
            let Some(path) = whole.paths.get_mut(&link.title()) else { continue };
            let steps = path.iter().enumerate().flat_map(|(position, edge)| {
                let inside = inner.get(&(number, position));
                inside.cloned().unwrap_or_else(|| vec![edge.clone()])
            });
            *path = steps.collect();
        }
        whole
    }
}

impl Candidate {
    fn of(answer: Answer, lowered: Lowered) -> Option<Self> {
        let values = values(answer.objective.as_ref()?);
        Some(Self { values, lowered, answer })
    }
}

/// The place of a part, of which there is one or `NAME/NUMBER` is named.
fn host(plan: &Plan, part: &str) -> Option<String> {
    let copy = || {
        let (name, number) = part.rsplit_once('/')?;
        let places = plan.placement.get(name)?;
        places.get(number.parse::<usize>().ok()?.checked_sub(1)?)
    };
    plan.placement.get(part).and_then(|places| places.first()).or_else(copy).cloned()
}

fn values(objective: &Objective) -> Vec<u64> {
    objective.iter().map(|(_, value)| value).collect()
}

fn found(objective: Objective, plan: Plan) -> Answer {
    let objective = Some(objective);
    Answer { status: Status::Feasible, objective, plan, ..Answer::default() }
}

fn take_least(open: &mut Vec<Candidate>) -> Option<Candidate> {
    let least =
        open.iter().enumerate().min_by(|(_, one), (_, other)| one.values.cmp(&other.values));
    least.map(|(place, _)| place).map(|place| open.remove(place))
}

/// The ways of which a domain has not as much together, with what was asked of each.
fn too_much(pieces: &[Piece<'_>], answer: &Answer) -> Vec<(String, u64)> {
    let named = answer.why.as_ref().map_or(&[][..], |why| why.links.as_slice());
    let all = pieces.iter().enumerate();
    let of = |name: &str| named.is_empty() || named.iter().any(|link| link == name);
    let mut asked: BTreeMap<String, u64> = BTreeMap::new();
    for (_, piece) in all.filter(|(number, _)| of(&number.to_string())) {
        let sum = asked.entry(piece.way.title()).or_default();
        *sum = sum.saturating_add(piece.link.bandwidth.value());
    }
    asked.into_iter().collect()
}
