//! S14: an issuer that hands on too much can be convicted, and only such an issuer.

use super::{Check, Law, Scene, Tally, LawVerdict};
use tenure_core::model::verifier::Verifier;
use tenure_core::site_authority::facts::{Fact, TicketRefused};
use tenure_core::wire::refusal::Refusal;

pub(super) const LAW: Law = Law {
    id: "S14",
    name: "accountability",
    statement: "When a site refuses a ticket because its parent is used up, the evidence \
                convicts an issuer offline, and never an honest one. A ticket that only honest \
                actors handed on is never refused for good, unless it had to be redeemed earlier.",
    source: "PeerReview's completeness and accuracy; Shirako S07, S12",
    on: "facts of sites",
};

#[derive(Default)]
pub(super) struct Checker;

impl Check for Checker {
    fn site(&mut self, scene: &Scene<'_>, fact: &Fact, tally: &mut Tally) -> LawVerdict {
        let Fact::TicketRefused(fact) = fact else { return Ok(()) };
        let site = scene.model.sites.get(&scene.actor);
        // A refusal that does not follow from the journal is found out when the fact is folded.
        let Some(Ok(refusal)) = site.map(|site| site.refusal(fact)) else { return Ok(()) };
        evidence_convicts_the_guilty(scene, fact, &refusal, tally)?;
        let participants = &scene.model.participants;
        let links = fact.ticket.links();
        let honest = links.iter().all(|link| participants.honest(link.issuer) && participants.honest(link.holder));
        // Nobody need be at fault that a ticket was not redeemed by its instant.
        let unclaimed = matches!(refusal, Refusal::Unclaimed(by) if by <= scene.at)
            || site.is_some_and(|s| links.iter().any(|l| s.reclaimed.contains_key(&l.hash())));
        tally.check(!honest || unclaimed, || {
            let (name, hash, cause) = (scene.name(), fact.ticket.hash(), &refusal);
            format!("{name} refuses ticket {hash} for good, which only honest actors had: {cause}")
        })
    }
}

fn evidence_convicts_the_guilty(
    scene: &Scene<'_>,
    fact: &TicketRefused,
    refusal: &Refusal,
    tally: &mut Tally,
) -> LawVerdict {
    let Refusal::Conflict(evidence) = refusal else { return Ok(()) };
    let (participants, hash) = (&scene.model.participants, fact.ticket.hash());
    let mut verifier = Verifier::new(participants.scheme);
    *verifier.keys_mut() = scene.model.keys.get(&scene.actor).cloned().unwrap_or_default();
    let verdict = evidence.convicts_by(&mut verifier, &[]);
    tally.check(verdict.is_ok(), || {
        let fault = verdict.as_ref().err().map_or_else(String::new, ToString::to_string);
        format!("{} refuses ticket {hash} with evidence that convicts no actor: {fault}", scene.name())
    })?;
    let Ok(guilty) = verdict else { return Ok(()) };
    tally.check(!participants.honest(guilty), || {
        let (name, framed) = (scene.name(), scene.model.name(guilty));
        format!("{name} refuses ticket {hash} with evidence against {framed}, who is honest")
    })
}
