//! The good ends that a case must reach.

use stateright::Property;
use tenure_core::model::time::Span;
use tenure_core::service_manager::machine::Outcome;

use super::cases::End;
use super::participants::{GUEST, RIVAL, SITE};
use super::world::{State, World};

/// That an end is reached.
pub(crate) fn property(end: End) -> Property<World> {
    match end {
        End::BothServed => Property::sometimes("both are served", |world, state| {
            world.reaches(state, End::BothServed)
        }),
        End::Extended => Property::sometimes("a lease is extended", |world, state| {
            world.reaches(state, End::Extended)
        }),
        End::PartSoldAgain => Property::sometimes("a unit is sold again", |world, state| {
            world.reaches(state, End::PartSoldAgain)
        }),
        End::SoldAgain => Property::sometimes("units are sold again", |world, state| {
            world.reaches(state, End::SoldAgain)
        }),
        End::RecalledAndSold => {
            Property::sometimes("recalled units are sold again", |world, state| {
                world.reaches(state, End::RecalledAndSold)
            })
        }
        End::Replaced => Property::sometimes("a unit that failed is replaced", |world, state| {
            world.reaches(state, End::Replaced)
        }),
        End::InSequence => Property::sometimes("leases are in use in sequence", |world, state| {
            world.reaches(state, End::InSequence)
        }),
        End::Refused => Property::sometimes("somebody is refused", |world, state| {
            world.reaches(state, End::Refused)
        }),
    }
}

impl World {
    fn reaches(&self, state: &State, end: End) -> bool {
        let nodes = self.nodes(state);
        let used = |who: usize| !nodes[who].called.is_empty();
        let seller = self.case.seller_of_tickets();
        let idle = nodes.iter().all(|node| node.summary.is_idle);
        match end {
            End::BothServed => idle && used(GUEST) && used(RIVAL),
            End::Extended => {
                nodes[GUEST].summary.tickets_held > 1
                    && nodes[SITE].summary.active_until.len() == 1
                    && nodes[SITE].summary.active_until[0].since(self.clock(state, SITE))
                        <= Span::from_secs(self.case.longer)
            }
            End::SoldAgain => {
                nodes[GUEST].summary.outcomes.contains(&Outcome::GivenBack)
                    && nodes[seller].summary.words.iter().any(|(_, word)| *word == "Returned")
                    && nodes[RIVAL].summary.words.iter().any(|(_, word)| *word == "Active")
            }
            End::RecalledAndSold => {
                nodes[SITE].summary.words.iter().any(|(_, word)| *word == "Closed")
                    && nodes[seller].summary.words.iter().any(|(_, word)| *word == "Returned")
                    && nodes[RIVAL].summary.words.iter().any(|(_, word)| *word == "Active")
            }
            End::Replaced => {
                nodes[GUEST].summary.outcomes.contains(&Outcome::GivenBack)
                    && nodes[GUEST].summary.words.iter().any(|(_, word)| *word == "Active")
            }
            End::InSequence => {
                let words = nodes[GUEST].summary.words.iter();
                words.filter(|(_, word)| *word == "Active").count() == 2
            }
            End::PartSoldAgain => {
                nodes[GUEST].summary.uses.len() == 1
                    && nodes[RIVAL].summary.words.iter().any(|(_, word)| *word == "Active")
            }
            End::Refused => (GUEST..=RIVAL).any(|who| {
                nodes[who]
                    .summary
                    .outcomes
                    .iter()
                    .any(|outcome| matches!(outcome, Outcome::Refused(_)))
            }),
        }
    }
}
