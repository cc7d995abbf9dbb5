//! What units are worth to a service, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::kpi::Kpis;
use super::label_map::LabelMap;
use super::slo::{Assessment, Met, Slo};
use crate::model::name::Name;
use crate::model::resource::{Constraints, Expr};

/// Some units, of one urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// How many more than in the steps before.
    pub units: u32,
    /// How urgent they are while the service has them: as the most urgent SLO that wants them.
    pub urgency: u32,
    /// How urgently they are claimed if the service does not have them: as the most urgent SLO that wants them
    /// and is not met. None if all are met.
    pub claim: Option<u32>,
}

/// What kind of units SLOs want.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    /// The type.
    pub resource: Name,
    /// What must hold of its attributes.
    pub requirement: Option<Expr>,
}

impl Kind {
    /// What an item for such units requires.
    pub fn requirements(&self) -> Constraints {
        let mut requirements = Constraints::NONE;
        requirements.extend(self.requirement.clone());
        requirements
    }
}

/// The demand of a service for units of one kind: steps of falling urgency, such as "4 at 80, 6 more at 40".
///
/// Units that it has are worth the urgency of their step, the most urgent first; beyond the last step they are
/// worth nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Steps(Vec<Step>);

impl Steps {
    /// The most steps of one demand: as many as a service has SLOs, twice.
    pub const MAX_COUNT: usize = 64;

    /// Steps as they came from elsewhere, if each has units and none is worth more, or claimed more urgently,
    /// than the one before or than it is worth.
    pub fn checked(steps: Vec<Step>) -> Option<Self> {
        let falls = steps
            .windows(2)
            .all(|pair| pair[0].urgency >= pair[1].urgency && pair[0].claim >= pair[1].claim);
        let sound = |step: &Step| step.units > 0 && step.claim <= Some(step.urgency);
        let fits = steps.len() <= Self::MAX_COUNT;
        (falls && fits && steps.iter().all(sound)).then_some(Self(steps))
    }

    /// What SLOs come to that want units of one kind: the urgency of each, how many units in all, and whether
    /// it claims them.
    fn of(wants: &[(u32, u32, bool)]) -> Self {
        let bounds: BTreeSet<u32> = wants.iter().map(|&(_, want, _)| want).collect();
        let mut steps: Vec<Step> = Vec::new();
        let mut before = 0;
        for bound in bounds.into_iter().filter(|bound| *bound > 0) {
            let wanting = || wants.iter().filter(|&&(_, want, _)| want >= bound);
            let urgency = wanting().map(|&(urgency, ..)| urgency).max().unwrap_or(0);
            let claim =
                wanting().filter(|&&(.., claims)| claims).map(|&(urgency, ..)| urgency).max();
            let step = Step { units: bound - before, urgency, claim };
            before = bound;
            match steps.last_mut() {
                Some(last) if (last.urgency, last.claim) == (urgency, claim) => {
                    last.units += step.units;
                }
                Some(_) | None => steps.push(step),
            }
        }
        Self(steps)
    }

    /// The steps, the most urgent first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Step> + '_ {
        self.0.iter().copied()
    }

    /// All units of all steps.
    pub fn units(&self) -> u32 {
        self.0.iter().fold(0, |sum, step| sum.saturating_add(step.units))
    }

    /// How urgent the unit of this number is, from 1, the most urgent first; 0 beyond the last step.
    pub fn urgency(&self, number: u32) -> u32 {
        self.step(number).map_or(0, |step| step.urgency)
    }

    /// How urgently the unit of this number is claimed, if it is, by who has one fewer.
    pub fn claim(&self, number: u32) -> Option<u32> {
        self.step(number)?.claim
    }

    fn step(&self, number: u32) -> Option<Step> {
        let mut before = 0_u32;
        self.0.iter().copied().find(|step| {
            before = before.saturating_add(step.units);
            number <= before
        })
    }

    /// How many units are claimed by who has so many.
    pub fn claimed(&self, held: u32) -> u32 {
        let (mut before, mut claimed) = (0_u32, 0_u32);
        for step in &self.0 {
            let end = before.saturating_add(step.units);
            if step.claim.is_some() {
                claimed = claimed.saturating_add(end.saturating_sub(before.max(held)));
            }
            before = end;
        }
        claimed
    }
}

/// The demands of a service, by kind of units. An SLO whose want is not known keeps that of `before`, so that
/// what is not known never takes anything away; it claims nothing new. Of what it wants, that is of another kind
/// which labels of KPIs say is.
pub fn demands<'a>(
    slos: impl Iterator<Item = (&'a Slo, &'a Assessment, Option<u32>)>,
    (map, kpis): (&LabelMap, &Kpis),
) -> BTreeMap<Kind, Steps> {
    let mut wants: BTreeMap<Kind, Vec<(u32, u32, bool)>> = BTreeMap::new();
    for (slo, assessment, before) in slos {
        let kind = Kind { resource: slo.resource.clone(), requirement: slo.requirement.clone() };
        let want = match (assessment.want, before) {
            (Some(want), Some(before)) if assessment.met == Met::Unknown => want.max(before),
            (Some(want), _) => want,
            (None, before) => before.unwrap_or(0),
        };
        let claims = matches!(assessment.met, Met::No | Met::Standing);
        let claimed = claims && assessment.want.is_some();
        let mut rest = want;
        for (kind, want) in map.parts(slo, kpis) {
            let want = want.min(rest);
            rest -= want;
            wants.entry(kind).or_default().push((slo.urgency, want, claimed));
        }
        wants.entry(kind).or_default().push((slo.urgency, rest, claimed));
    }
    wants.into_iter().map(|(kind, wants)| (kind, Steps::of(&wants))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps(wants: &[(u32, u32, bool)]) -> Vec<(u32, u32, Option<u32>)> {
        Steps::of(wants).iter().map(|step| (step.units, step.urgency, step.claim)).collect()
    }

    #[test]
    fn slos_become_steps_of_falling_urgency() {
        assert_eq!(steps(&[(80, 4, true), (40, 10, true)]), [(4, 80, Some(80)), (6, 40, Some(40))]);
        // What is used is claimed by no SLO that is met.
        assert_eq!(steps(&[(60, 5, false), (55, 8, true)]), [(5, 60, Some(55)), (3, 55, Some(55))]);
        assert_eq!(steps(&[(60, 8, false), (55, 5, true)]), [(5, 60, Some(55)), (3, 60, None)]);
        assert_eq!(steps(&[(60, 0, true)]), []);
    }

    proptest! {
        #[test]
        fn each_unit_is_worth_the_most_urgent_slo_that_wants_it(
            wants in prop::collection::vec((0_u32..5, 0_u32..9, any::<bool>()), 0..6),
            held in 0_u32..12,
        ) {
            let steps = Steps::of(&wants);
            prop_assert_eq!(Steps::checked(steps.0.clone()), Some(steps.clone()));
            for number in 1..12_u32 {
                let wanting = || wants.iter().filter(|&&(_, want, _)| want >= number);
                let most = |of: &mut dyn Iterator<Item = u32>| of.max();
                let urgency = most(&mut wanting().map(|&(urgency, ..)| urgency)).unwrap_or(0);
                let claim = most(&mut wanting().filter(|want| want.2).map(|&(urgency, ..)| urgency));
                prop_assert_eq!((steps.urgency(number), steps.claim(number)), (urgency, claim));
            }
            let claimed = (held + 1..20).filter(|&number| steps.claim(number).is_some()).count();
            prop_assert_eq!(steps.claimed(held) as usize, claimed);
        }
    }
}
