//! S26: software is not called on for units that several claim.

use std::collections::BTreeMap;

use super::{Check, Law, LawVerdict, Observation, Scene, Tally};
use tenure_core::driver::{Call, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::LeaseId;
use tenure_core::service::member::MemberId;
use tenure_core::service_manager::ambiguity::{Claim, Claimant};
use tenure_core::service_manager::facts::{Fact, MemberContested};
use tenure_core::service_manager::hosts::OtherClaim;
use tenure_core::wire::hosts::host_id;

pub(super) const LAW: Law = Law {
    id: "S26",
    name: "ambiguous units",
    statement: "The driver of a guest is not called for a unit that several claim, unless it is settled that it is \
                that of the lease, or it was being joined when it was found that several do. Whose it is, is settled for one of those who claim it. That other guests \
                claim it is what a broker has said last.",
    source: "Hedeby's ambiguous resources",
    on: "facts of service managers, calls of their drivers",
};

/// A unit that several claim.
#[derive(Default)]
struct Claimed {
    claims: Vec<Claim>,
    /// How many claims other guests have.
    others: usize,
    /// Who it was settled for.
    kept: Option<Claimant>,
    /// Its units that were being joined when it was found that others claim it.
    joining: Vec<(LeaseId, UnitId)>,
}

#[derive(Default)]
pub(super) struct Checker {
    claimed: BTreeMap<(ActorId, MemberId), Claimed>,
}

impl Checker {
    /// Notes who claims a unit. What was settled stands for as long as that one does.
    fn claim(&mut self, guest: ActorId, member: &MemberId, (claims, others): (&[Claim], usize)) {
        let key = (guest, member.clone());
        let before = self.claimed.remove(&key).and_then(|before| before.kept);
        let stands = |kept: &Claimant| claims.iter().any(|claim| claim.by == *kept);
        if !claims.is_empty() {
            let kept = before.filter(stands);
            let (claims, joining) = (claims.to_vec(), Vec::new());
            self.claimed.insert(key, Claimed { claims, others, kept, joining });
        }
    }
}

/// Whether a broker has said last that another guest claims a host.
fn is_said(scene: &Scene<'_>, member: &MemberId, other: &OtherClaim) -> bool {
    let Some(guest) = scene.model.guests.get(&scene.actor) else { return false };
    let said = guest.contests.iter().filter(|((broker, _), _)| *broker == other.broker);
    let host = host_id(other.broker, member);
    let mut said = said.flat_map(|(_, contests)| contests);
    said.any(|contest| Some(contest.host) == host && contest.claim == other.claim)
}

impl Check for Checker {
    fn guest(&mut self, scene: &Scene<'_>, fact: &Fact, tally: &mut Tally) -> LawVerdict {
        match fact {
            Fact::MemberAmbiguous(fact) => {
                self.claim(scene.actor, &fact.member, (&fact.claims, 0));
                tally.check(fact.claims.len() != 1, || {
                    format!("{} holds {} for ambiguous with one claim", scene.name(), fact.member)
                })
            }
            Fact::MemberContested(fact) => {
                let MemberContested { member, claims, others, joining } = fact;
                self.claim(scene.actor, member, (claims, others.len()));
                if let Some(claimed) = self.claimed.get_mut(&(scene.actor, member.clone())) {
                    claimed.joining.clone_from(joining);
                }
                let said = others.iter().all(|other| is_said(scene, member, other));
                tally.check(said, || {
                    format!("no broker has said that others claim {member} of {}", scene.name())
                })?;
                let several = !claims.is_empty() && claims.len() + others.len() > 1;
                tally.check(several, || {
                    format!("{} holds {member} for contested with one claim", scene.name())
                })
            }
            Fact::AmbiguitySettled(fact) => {
                let known = self.claimed.get_mut(&(scene.actor, fact.member.clone()));
                let claims = known.as_ref().is_some_and(|known| {
                    known.claims.iter().any(|claim| claim.by == fact.keep)
                });
                if let Some(known) = known {
                    known.kept = Some(fact.keep.clone());
                }
                tally.check(claims, || {
                    let (service, name) = (&fact.keep.service, scene.name());
                    format!("{name} settles {} for {service}, which does not claim it", fact.member)
                })
            }
            Fact::MemberCeded(fact) => {
                let known = self.claimed.get_mut(&(scene.actor, fact.member.clone()));
                let claimed = known.as_ref().is_some_and(|known| known.others > 0);
                if let Some(known) = known {
                    known.kept = None;
                }
                tally.check(claimed, || {
                    format!("{} cedes {}, which no other guest claims", scene.name(), fact.member)
                })
            }
            _ => Ok(()),
        }
    }

    fn happened(
        &mut self,
        scene: &Scene<'_>,
        seen: &Observation<'_>,
        tally: &mut Tally,
    ) -> LawVerdict {
        let Observation::Called { actor, call } = *seen else { return Ok(()) };
        let Call { site, unit, lease, step, .. } = *call;
        if actor == site {
            return Ok(());
        }
        let mut of_guest = self.claimed.iter().filter(|((guest, _), _)| *guest == actor);
        let shut_out = of_guest.find(|(_, Claimed { claims, kept, joining, .. })| {
            if step == Step::Join && joining.contains(&(lease, unit)) {
                return false;
            }
            let mut own = claims.iter().filter(|claim| {
                claim.by.unit == Some((site, unit)) && claim.lease.is_some_and(|(of, _)| of == lease)
            });
            own.any(|claim| kept.as_ref() != Some(&claim.by))
        });
        tally.check(shut_out.is_none(), || {
            let unit = scene.model.unit(site, unit);
            let member = shut_out.map(|((_, member), _)| member.as_str()).unwrap_or_default();
            format!("{} of {unit} is called, and several claim {member}", step.word())
        })
    }
}
