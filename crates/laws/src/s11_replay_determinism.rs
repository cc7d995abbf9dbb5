//! S11: a journal gives the same actor again.

use super::{Check, Law, Observation, Scene, Tally, LawVerdict};

pub(super) const LAW: Law = Law {
    id: "S11",
    name: "replay determinism",
    statement: "Every fact follows from those before it in its journal, by the state machines. A \
                recovered actor equals the one that crashed, with the same pending work in the \
                same bytes, and the same deadlines.",
    source: "determinism of state-machine replication; Shirako S18, S56",
    on: "facts of all actors; recoveries",
};

#[derive(Default)]
pub(super) struct Checker;

impl Check for Checker {
    fn folded(&mut self, _: &Scene<'_>, error: Option<&str>, tally: &mut Tally) -> LawVerdict {
        tally.check(error.is_none(), || error.unwrap_or_default().to_owned())
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        let Observation::Recovered { same: Some(same), .. } = *seen else {
            return Ok(());
        };
        tally.check(same, || format!("{} came back from its journal as another", scene.name()))
    }
}
