//! S22: the units of a stack are lent to one holder at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::model::SiteLease;
use super::{Check, Law, LawVerdict, Scene, Tally};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Term;
use tenure_core::site_authority::facts::{Fact, UnitsAssigned};
use tenure_core::site_authority::machine::State;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{LinkHash, StackedUnit};

pub(super) const LAW: Law = Law {
    id: "S22",
    name: "stacks",
    statement: "Leases of different holders whose units share a stack never run at the same time. A lease of a \
                ticket that names its unit gets that one and no other. Its ticket has, when it is redeemed, the \
                token of every stack that its unit is in.",
    source: "entangled equipment, AVE A32",
    on: "facts of sites",
};

#[derive(Default)]
pub(super) struct Checker {
    /// The leases that came with each token of each site.
    leases: BTreeMap<(ActorId, Name), BTreeSet<LinkHash>>,
}

impl Check for Checker {
    fn site(&mut self, scene: &Scene<'_>, fact: &Fact, tally: &mut Tally) -> LawVerdict {
        match fact {
            Fact::Redeemed(fact) => self.redeemed(scene, &fact.ticket, fact.ticket.hash(), tally),
            Fact::LeaseExtended(fact) => self.redeemed(scene, &fact.ticket, fact.lease, tally),
            Fact::UnitsAssigned(fact) => assigned(scene, fact, tally),
            _ => Ok(()),
        }
    }
}

impl Checker {
    fn redeemed(
        &mut self,
        scene: &Scene<'_>,
        ticket: &Ticket,
        lease: LinkHash,
        tally: &mut Tally,
    ) -> LawVerdict {
        let link = ticket.bottom();
        let Some(stacked) = &link.clauses.stacked else { return Ok(()) };
        let missing = missing_token(scene, stacked);
        tally.check(missing.is_none(), || {
            let (name, stack) = (scene.name(), missing.map_or("", Name::as_str));
            format!("{name} takes a ticket for unit {} without the token of {stack}", stacked.unit)
        })?;
        for token in &stacked.tokens {
            let leases = self.leases.entry((scene.actor, token.clone())).or_default();
            leases.retain(|lease| is_live(scene, *lease));
            let other = leases.iter().find(|other| {
                **other != lease && is_of_another(scene, **other, (link.holder, link.term))
            });
            tally.check(other.is_none(), || {
                let (name, other) = (scene.name(), other.map(ToString::to_string));
                let other = other.unwrap_or_default();
                format!("{name} leases stack {token} to two holders over {}: see {other}", link.term)
            })?;
            leases.insert(lease);
        }
        Ok(())
    }
}

/// A stack that a unit is in, without whose token it is.
fn missing_token<'a>(scene: &'a Scene<'_>, stacked: &StackedUnit) -> Option<&'a Name> {
    let site = scene.model.sites.get(&scene.actor)?;
    let is_in = |units: &BTreeSet<Name>| {
        units.iter().any(|name| site.names.get(name) == Some(&stacked.unit))
    };
    let mut stacks = site.stacks.iter().filter(|(_, units)| is_in(units));
    stacks.find(|(stack, _)| !stacked.tokens.contains(*stack)).map(|(stack, _)| stack)
}

fn lease<'a>(scene: &'a Scene<'_>, lease: LinkHash) -> Option<&'a SiteLease> {
    scene.model.sites.get(&scene.actor)?.leases.get(&lease)
}

/// Whether a lease is not over.
fn is_live(scene: &Scene<'_>, hash: LinkHash) -> bool {
    lease(scene, hash)
        .is_some_and(|lease| !lease.forgotten && !matches!(lease.state, State::Closed { .. }))
}

/// Whether a lease is another holder's within a term.
fn is_of_another(scene: &Scene<'_>, hash: LinkHash, (holder, term): (ActorId, Term)) -> bool {
    lease(scene, hash)
        .is_some_and(|lease| lease.holder() != holder && lease.term.overlaps(term))
}

/// Units are put on a lease: the one that its ticket names, if it names one.
fn assigned(scene: &Scene<'_>, fact: &UnitsAssigned, tally: &mut Tally) -> LawVerdict {
    let Some(lease) = lease(scene, fact.lease) else { return Ok(()) };
    let Some(stacked) = &lease.tickets[0].bottom().clauses.stacked else { return Ok(()) };
    let other = fact.units.iter().find(|unit| **unit != stacked.unit);
    tally.check(other.is_none(), || {
        let (name, unit) = (scene.name(), stacked.unit);
        format!("{name} puts another unit than {unit} on the lease of a ticket for it")
    })
}
