//! What a plan is for, as facts hold it: a problem of `tenure-plan` in plain texts.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tenure_plan::{Amount, Package, Part, Problem, Software, Term, Uses};

use crate::model::name::Name;
use crate::model::resource::{Expr, Value};

/// Packages that are to be put on nodes, with what binds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedPackages {
    /// What is known of the nodes of a type beside the properties of its units.
    pub nodes: BTreeMap<Name, NodeType>,
    /// What is to be put on nodes.
    pub parts: Vec<WantedPart>,
    /// Packages that others depend on.
    pub libraries: Vec<WantedLibrary>,
    /// Lists of parts that go to one node.
    pub same_host: Vec<Vec<String>>,
    /// Lists of parts of which no two go to one node.
    pub apart: Vec<Vec<String>>,
    /// Parts that talk to each other, each pair with its weight.
    pub uses: Vec<(String, String, u64)>,
    /// What is least, first to last.
    pub objective: Vec<String>,
}

/// What is known of the nodes of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeType {
    /// What one has, by dimension.
    pub capacity: BTreeMap<String, String>,
    /// What `where` of parts can ask for.
    pub attributes: BTreeMap<String, String>,
    /// Packages that are there from the start.
    pub installed: Vec<String>,
    /// The most of them that are leased for a plan.
    pub count: u32,
}

/// A part, or several equal ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedPart {
    /// Unique among parts.
    pub name: String,
    /// How many equal ones there are.
    pub count: Option<u32>,
    /// What is installed.
    pub package: Option<String>,
    /// What it takes of its node.
    pub needs: BTreeMap<String, String>,
    /// What holds of the attributes of its node.
    pub condition: Option<String>,
    /// What must be installed on its node already.
    pub software: Vec<String>,
    /// Libraries that are installed with it.
    pub depends: Vec<String>,
    /// The nodes that it may go to.
    pub only: Option<Vec<String>>,
    /// The nodes that it would best go to.
    pub favourites: Vec<String>,
    /// Whether an instance that is installed will do.
    pub reuse: bool,
}

/// A package that others depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedLibrary {
    /// Its identity.
    pub package: String,
    /// What it takes of a node, once.
    pub needs: BTreeMap<String, String>,
    /// Libraries that it needs in turn.
    pub depends: Vec<String>,
}

impl TryFrom<Problem> for WantedPackages {
    type Error = String;

    /// Takes a problem whose places describe the nodes of a type: the price of a place says nothing here.
    fn try_from(problem: Problem) -> Result<Self, String> {
        if !problem.edge.is_empty() || !problem.link.is_empty() {
            let instead = "lease links with `tenure lease request --file`";
            return Err(format!("a plan of packages has no edges and links; {instead}"));
        }
        if problem.part.is_empty() {
            return Err("a plan needs at least one [[part]]".to_owned());
        }
        let nodes = problem.place.into_iter().map(|place| {
            let name = Name::new(&place.name).map_err(|bad| format!("place: {bad}"))?;
            let attributes = place.attributes.iter();
            let node = NodeType {
                capacity: texts(place.capacity),
                attributes: attributes
                    .map(|(name, value)| (name.to_owned(), plain(value)))
                    .collect(),
                installed: listed(&place.installed),
                count: place.count.unwrap_or(1),
            };
            Ok((name, node))
        });
        let library = |library: tenure_plan::Library| WantedLibrary {
            package: library.package.to_string(),
            needs: texts(library.needs),
            depends: listed(&library.depends),
        };
        Ok(Self {
            nodes: nodes.collect::<Result<_, String>>()?,
            parts: problem.part.into_iter().map(WantedPart::from).collect(),
            libraries: problem.library.into_iter().map(library).collect(),
            same_host: problem.same_host,
            apart: problem.apart,
            uses: problem.uses.into_iter().map(|uses| (uses.from, uses.to, uses.weight)).collect(),
            objective: listed(&problem.objective),
        })
    }
}

impl WantedPart {
    /// A part that needs nothing and goes anywhere.
    pub fn new(name: &str) -> Self {
        Self::from(Part { name: name.to_owned(), ..Part::default() })
    }
}

impl From<Part> for WantedPart {
    fn from(part: Part) -> Self {
        Self {
            name: part.name,
            count: part.count,
            package: part.package.map(String::from),
            needs: texts(part.needs),
            condition: part.condition.map(|condition| condition.to_string()),
            software: listed(&part.software),
            depends: listed(&part.depends),
            only: part.only,
            favourites: part.favourites,
            reuse: part.reuse,
        }
    }
}

impl WantedPackages {
    /// The same as a problem without places.
    ///
    /// # Errors
    /// What of it cannot be read.
    pub fn problem(&self) -> Result<Problem, String> {
        let library = |library: &WantedLibrary| {
            Ok(tenure_plan::Library {
                package: read::<Package>(&library.package)?,
                needs: amounts(&library.needs)?,
                depends: all(&library.depends)?,
            })
        };
        let uses = |(from, to, weight): &(String, String, u64)| Uses {
            from: from.clone(),
            to: to.clone(),
            weight: *weight,
        };
        let term = |word: &String| {
            let known = Term::ALL.into_iter().find(|term| term.to_string() == *word);
            known.ok_or_else(|| format!("`{word}` is no term of an objective"))
        };
        Ok(Problem {
            part: self.parts.iter().map(WantedPart::part).collect::<Result<_, String>>()?,
            library: self.libraries.iter().map(library).collect::<Result<_, String>>()?,
            same_host: self.same_host.clone(),
            apart: self.apart.clone(),
            uses: self.uses.iter().map(uses).collect(),
            objective: self.objective.iter().map(term).collect::<Result<_, String>>()?,
            ..Problem::default()
        })
    }
}

impl WantedPackages {
    /// The same with a part for each copy of parts of which there are several. A copy that `stays` names a node
    /// for is to reuse what is installed there.
    pub(super) fn each_copy(&self, stays: impl Fn(&WantedPart, usize) -> Option<String>) -> Self {
        let copies = |part: &WantedPart| {
            let names = match part.count {
                Some(count) => (1..=count).map(|copy| format!("{}/{copy}", part.name)).collect(),
                None => vec![part.name.clone()],
            };
            let copy = |(copy, name)| match stays(part, copy) {
                Some(node) => {
                    let only = Some(vec![node]);
                    WantedPart { name, count: None, only, reuse: true, ..part.clone() }
                }
                None => WantedPart { name, count: None, ..part.clone() },
            };
            names.into_iter().enumerate().map(copy).collect::<Vec<_>>()
        };
        let names = |name: &String| {
            let part = self.parts.iter().find(|part| part.name == *name);
            match part.and_then(|part| part.count) {
                Some(count) => (1..=count).map(|copy| format!("{name}/{copy}")).collect(),
                None => vec![name.clone()],
            }
        };
        let listed = |lists: &[Vec<String>]| {
            let each = lists.iter().map(|list| list.iter().flat_map(names).collect());
            each.collect::<Vec<Vec<String>>>()
        };
        let pairs = self.uses.iter().flat_map(|(from, to, weight)| {
            let to = names(to);
            let pair = move |from: String| {
                to.clone().into_iter().map(move |to| (from.clone(), to, *weight))
            };
            names(from).into_iter().flat_map(pair)
        });
        Self {
            parts: self.parts.iter().flat_map(copies).collect(),
            same_host: listed(&self.same_host),
            apart: listed(&self.apart),
            uses: pairs.collect(),
            ..self.clone()
        }
    }
}

impl WantedPart {
    fn part(&self) -> Result<Part, String> {
        let at = |error: String| format!("part `{}`: {error}", self.name);
        Ok(Part {
            name: self.name.clone(),
            count: self.count,
            package: self.package.as_deref().map(read).transpose().map_err(at)?,
            needs: amounts(&self.needs).map_err(at)?,
            condition: self.condition.as_deref().map(condition).transpose().map_err(at)?,
            software: all::<Software>(&self.software).map_err(at)?,
            depends: all(&self.depends).map_err(at)?,
            only: self.only.clone(),
            favourites: self.favourites.clone(),
            reuse: self.reuse,
        })
    }
}

/// A condition as it is written.
pub(super) fn condition(text: &str) -> Result<Expr, String> {
    Expr::parse_condition(text).map_err(|error| error.to_string())
}

/// Amounts by dimension.
pub(super) fn amounts(
    texts: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Amount>, String> {
    texts.iter().map(|(key, text)| Ok((key.clone(), read(text)?))).collect()
}

/// All of a list of texts.
pub(super) fn all<T: FromStr<Err = String>>(texts: &[String]) -> Result<Vec<T>, String> {
    texts.iter().map(|text| read(text)).collect()
}

pub(super) fn read<T: FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
}

fn texts(amounts: BTreeMap<String, Amount>) -> BTreeMap<String, String> {
    amounts.into_iter().map(|(key, amount)| (key, amount.to_string())).collect()
}

fn listed<T: Display>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

/// A value so that [`Value::read`] reads it back.
fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) if Value::read(text) == *value => text.clone(),
        Value::Text(_)
        | Value::Flag(_)
        | Value::Quantity(_)
        | Value::Version(_)
        | Value::Set(_) => value.to_string(),
    }
}
