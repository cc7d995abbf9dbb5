//! Explores a case, and reports on it.

use std::collections::{BTreeMap, BTreeSet};

use stateright::{Checker as _, Expectation, HasDiscoveries, Model as _, Path};

use super::cases::Case;
use super::joint::Triple;
use super::world::{Action, State, World};

/// What was found in a case.
pub(crate) struct Explored {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) sleepers: bool,
    pub(crate) states: usize,
    pub(crate) steps: usize,
    pub(crate) joint: BTreeSet<Triple>,
    /// For each law that is broken, how it comes to that.
    pub(crate) broken: BTreeMap<&'static str, String>,
    /// Ends that are never reached.
    pub(crate) missed: Vec<&'static str>,
}

/// Explores everything that can be reached in a case.
pub(crate) fn explore(case: Case) -> Explored {
    let checker = World::new(case).checker().threads(2).spawn_bfs().join();
    let world = checker.model();
    let mut found = checker.discoveries();
    let (ends, laws): (Vec<_>, Vec<_>) = world
        .properties()
        .into_iter()
        .partition(|property| property.expectation == Expectation::Sometimes);
    let ends = ends.into_iter().map(|end| end.name).filter(|name| !found.contains_key(name));
    let missed: Vec<_> = ends.collect();
    let broken = laws.into_iter().filter_map(|law| {
        let path = found.remove(law.name)?;
        Some((law.name, story(world, path)))
    });
    Explored {
        name: world.case.name,
        text: world.case.text,
        sleepers: world.case.sleepers,
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        joint: world.joint.seen(),
        broken: broken.collect(),
        missed,
    }
}

/// Whether a law can be broken in a case: exploring ends when it is.
pub(crate) fn breaks(case: Case, law: &'static str) -> bool {
    let until = HasDiscoveries::AnyOf(BTreeSet::from([law]));
    let checker = World::new(case).checker().threads(2).finish_when(until).spawn_bfs().join();
    checker.discoveries().contains_key(law)
}

/// A path, described step by step.
fn story(world: &World, path: Path<State, Action>) -> String {
    let steps = path.into_vec();
    let steps =
        steps.iter().filter_map(|(state, action)| Some(world.describe(state, action.as_ref()?)));
    steps.collect::<Vec<_>>().join("\n")
}
