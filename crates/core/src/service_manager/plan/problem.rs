//! The problem that a plan solves: what is wanted, over the nodes that no other plan holds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tenure_plan::{Amount, CheckError, Library, Package, Part, Place, Plan, Problem};

use super::wanted::{NodeType, WantedPackages, all, amounts, condition, read};
use crate::driver::{Epoch, UnitId};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::resource::{SITE, Value};
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::Time;

/// The attribute of each node: the type of the unit.
pub(crate) const RESOURCE: &str = "resource";

/// A plan that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Its number.
    pub plan: u64,
    /// When it was asked for: of two, the earlier comes first.
    pub asked_at: Time,
    /// When it ends if nobody has accepted it.
    pub until: Time,
    /// The slice that it is for.
    pub slice: SliceName,
    /// Other slices whose nodes it may use.
    pub scope: BTreeSet<SliceName>,
    /// What is to be placed.
    pub wanted: WantedPackages,
    /// Packages with the nodes on which they failed before.
    pub excluded: Vec<(String, String)>,
    /// Whether nodes that are missing can be leased: not twice.
    pub leases: bool,
}

impl Proposal {
    /// Whether it may use the nodes of a slice.
    pub fn covers(&self, slice: &SliceName) -> bool {
        *slice == self.slice || self.scope.contains(slice)
    }

    /// Whether a node is of a slice that it may use, and no other plan holds it.
    pub fn can_use(&self, node: &NodeView) -> bool {
        self.covers(&node.slice) && node.held_by.is_none_or(|plan| plan == self.plan)
    }
}

/// A unit that the guest uses, as plans see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its site and its number there: `SITE/UNIT`.
    pub name: String,
    /// The slice that it is in.
    pub slice: SliceName,
    /// The lease that it is on.
    pub lease: LeaseId,
    /// Its site.
    pub site: ActorId,
    /// Its number there.
    pub unit: UnitId,
    /// Its epoch in this tenancy.
    pub epoch: Epoch,
    /// Its type.
    pub resource: Name,
    /// What its site states of it.
    pub properties: Properties,
    /// The packages that plans installed on it, with what each takes.
    pub installed: Vec<(String, BTreeMap<String, String>)>,
    /// The plan that holds it.
    pub held_by: Option<u64>,
}

/// What is known of a package: what it needs wherever it is installed, and what there is to install.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Its identity.
    pub package: String,
    /// What it takes of a node.
    pub needs: BTreeMap<String, String>,
    /// What holds of the attributes of its node.
    pub condition: Option<String>,
    /// What must be installed on its node already.
    pub software: Vec<String>,
    /// Libraries that are installed with it.
    pub depends: Vec<String>,
    /// What the guest's driver installs; without it the guest's user installs the package.
    pub artefact: Option<Artefact>,
}

/// What a driver installs of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artefact {
    /// The archive, by its path.
    pub file: String,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// The program that is run, with its arguments; none, if unpacking is all.
    pub program: Vec<String>,
}

/// Which part goes where, by the names of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlacement {
    /// The nodes of the copies of each part, first to last.
    pub placement: BTreeMap<String, Vec<String>>,
    /// Parts that reuse what is installed.
    pub reused: Vec<String>,
    /// The packages that are installed on each node.
    pub install: BTreeMap<String, Vec<String>>,
}

impl NodePlacement {
    /// The nodes that it uses.
    pub fn nodes(&self) -> impl Iterator<Item = &String> {
        self.placement.values().flatten().chain(self.install.keys())
    }
}

impl From<Plan> for NodePlacement {
    fn from(plan: Plan) -> Self {
        Self { placement: plan.placement, reused: plan.reused, install: plan.install }
    }
}

impl From<NodePlacement> for Plan {
    fn from(plan: NodePlacement) -> Self {
        Self {
            placement: plan.placement,
            reused: plan.reused,
            install: plan.install,
            ..Self::default()
        }
    }
}

/// The names of the nodes of a type that could be leased.
pub(crate) fn new_nodes(resource: &Name) -> String {
    format!("new {resource}")
}

/// The problem of a proposal over the nodes of its slices that no other plan holds, and of each type up to
/// `leasable` that could be leased, with what is known of packages. Of needs the larger counts, of conditions all: a request makes a profile stricter, never less strict.
///
/// # Errors
/// What of it cannot be read.
pub fn problem<'n>(
    proposal: &Proposal,
    nodes: impl Iterator<Item = &'n NodeView>,
    leasable: u32,
    profiles: &[Profile],
) -> Result<Problem, String> {
    let mut problem = proposal.wanted.problem()?;
    problem.name = format!("plan {}", proposal.plan);
    let (free, taken): (Vec<_>, Vec<_>) = nodes.partition(|node| proposal.can_use(node));
    let places = free.iter().map(|node| place(node, proposal.wanted.nodes.get(&node.resource)));
    let to_lease = proposal.wanted.nodes.iter().filter(|(_, kind)| kind.count.min(leasable) > 0);
    let to_lease = to_lease.map(|(resource, kind)| {
        let count = Some(kind.count.min(leasable));
        Ok(Place { count, ..new_place(new_nodes(resource), resource, Some(kind))? })
    });
    problem.place = places.chain(to_lease).collect::<Result<_, String>>()?;
    let is_taken = |name: &String| taken.iter().any(|node| node.name == *name);
    let profiles = profiles.iter().map(|profile| Ok((read(&profile.package)?, profile)));
    let profiles: BTreeMap<Package, &Profile> = profiles.collect::<Result<_, String>>()?;
    let Problem { part, place, library, .. } = &mut problem;
    for part in &mut *part {
        if let Some(profile) = part.package.as_ref().and_then(|package| profiles.get(package)) {
            refine(part, profile)?;
        }
        part.only.iter_mut().for_each(|only| only.retain(|name| !is_taken(name)));
        part.favourites.retain(|name| !is_taken(name));
        exclude(part, place, &proposal.excluded);
    }
    add_libraries(part, library, &profiles)?;
    Ok(problem)
}

/// What a plan is worth by the problem of its proposal.
///
/// # Errors
/// Why the plan is not good.
pub fn check(problem: &Problem, placement: &NodePlacement) -> Result<String, CheckError> {
    let worth = tenure_plan::check(problem, &placement.clone().into())?;
    Ok(worth.to_string())
}

/// A node of a type of which no more is known than what a request says of the type.
fn new_place(name: String, resource: &Name, kind: Option<&NodeType>) -> Result<Place, String> {
    let mut place = Place { name, ..Place::default() };
    if let Some(kind) = kind {
        place.capacity = amounts(&kind.capacity)?;
        place.installed = all(&kind.installed)?;
        for (name, value) in &kind.attributes {
            place.attributes.insert(name.clone(), Value::read(value));
        }
    }
    place.attributes.insert(RESOURCE, Value::Text(resource.to_string()));
    Ok(place)
}

/// What is left of a node beside what is installed on it.
fn place(node: &NodeView, kind: Option<&NodeType>) -> Result<Place, String> {
    let mut place = new_place(node.name.clone(), &node.resource, kind)?;
    for (name, value) in node.properties.iter() {
        place.attributes.insert(name.as_str(), Value::read(value));
        if let Ok(amount) = value.parse::<Amount>() {
            place.capacity.insert(name.to_string(), amount);
        }
    }
    let site = node.name.split('/').next().unwrap_or_default();
    place.attributes.insert(SITE, Value::Text(site.to_owned()));
    for (package, needs) in &node.installed {
        place.installed.push(read(package)?);
        for (dimension, taken) in amounts(needs)? {
            place.capacity.entry(dimension).and_modify(|left| *left = left.less(taken));
        }
    }
    Ok(place)
}

fn refine(part: &mut Part, profile: &Profile) -> Result<(), String> {
    for (dimension, needed) in amounts(&profile.needs)? {
        let asked = part.needs.entry(dimension).or_insert(needed);
        *asked = needed.max(*asked);
    }
    let known = profile.condition.as_deref().map(condition).transpose()?;
    part.condition = match (part.condition.take(), known) {
        (Some(asked), Some(known)) => {
            Some(asked.and(&known).map_err(|error| format!("part `{}`: {error}", part.name))?)
        }
        (asked, known) => asked.or(known),
    };
    part.software.extend(all::<tenure_plan::Software>(&profile.software)?);
    part.depends.extend(all::<Package>(&profile.depends)?);
    part.depends.sort();
    part.depends.dedup();
    Ok(())
}

/// Keeps a part from the nodes on which its package failed.
fn exclude(part: &mut Part, places: &[Place], excluded: &[(String, String)]) {
    let Some(package) = &part.package else { return };
    let its =
        excluded.iter().filter(|(failed, _)| read(failed).is_ok_and(|f: Package| f == *package));
    let failed: Vec<&String> = its.map(|(_, node)| node).collect();
    if !failed.is_empty() {
        let all = places.iter().map(|place| place.name.clone()).collect();
        part.only.get_or_insert(all).retain(|node| !failed.contains(&node));
    }
}

/// Adds the libraries that parts depend on and that only profiles know.
fn add_libraries(
    parts: &[Part],
    libraries: &mut Vec<Library>,
    profiles: &BTreeMap<Package, &Profile>,
) -> Result<(), String> {
    let of_libraries = libraries.iter().flat_map(|library| library.depends.clone());
    let mut open: Vec<Package> =
        parts.iter().flat_map(|part| part.depends.clone()).chain(of_libraries).collect();
    while let Some(package) = open.pop() {
        if libraries.iter().any(|known| known.package == package) {
            continue;
        }
        let Some(profile) = profiles.get(&package) else { continue };
        let depends: Vec<Package> = all(&profile.depends)?;
        open.extend(depends.iter().cloned());
        libraries.push(Library { package, needs: amounts(&profile.needs)?, depends });
    }
    Ok(())
}
