//! S3: a part is inside its whole.

use super::{Check, Law, Scene, Tally, LawVerdict};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::SignedLink;

pub(super) const LAW: Law = Law {
    id: "S3",
    name: "monotone attenuation",
    statement: "Each link of a ticket is part of the one above: issued by its holder, of the \
                same type, with no more units, within its term, with all of its constraints, \
                to be redeemed no later, for the same unit with the same tokens if it names one, \
                with the same assurance. \
                Below a delegation alone stands a delegation.",
    source: "capability attenuation; Shirako S10, S11",
    on: "every ticket and link in a fact",
};

#[derive(Default)]
pub(super) struct Checker;

impl Check for Checker {
    fn guest(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        let service_manager::Fact::TicketsSplit(fact) = fact else { return Ok(()) };
        let guest = scene.model.guests.get(&scene.actor);
        let lease = guest.and_then(|guest| guest.leases.get(&fact.lease));
        let Some(ticket) = lease.and_then(|lease| lease.first.as_ref()) else { return Ok(()) };
        fact.links.iter().try_for_each(|link| {
            let fault = outside(ticket.bottom(), link);
            tally.check(fault.is_none(), || {
                format!("{} hands on a part, but {}", scene.name(), fault.unwrap_or_default())
            })
        })
    }

    fn ticket(&mut self, scene: &Scene<'_>, ticket: &Ticket, tally: &mut Tally) -> LawVerdict {
        let root = ticket.root();
        let fault = root.parent.map(|_| "its root names a parent");
        let faults = ticket.links().windows(2).filter_map(|pair| outside(&pair[0], &pair[1]));
        let fault = fault.or(faults.into_iter().next());
        tally.check(fault.is_none(), || {
            let (name, fault) = (scene.name(), fault.unwrap_or_default());
            format!("{name} accepts ticket {}, but {fault}", ticket.hash())
        })
    }
}

/// How a link leaves the one above it, if it does.
fn outside(parent: &SignedLink, child: &SignedLink) -> Option<&'static str> {
    let (outer, inner) = (parent.term, child.term);
    let rules = [
        (child.parent == Some(parent.hash()), "a link names another parent"),
        (child.issuer == parent.holder, "a link is not cut by the holder of the one above"),
        (child.resource == parent.resource, "a link is of another type than the one above"),
        (child.units <= parent.units, "a link has more units than the one above"),
        (outer.start() <= inner.start(), "a link begins before the one above"),
        (inner.end() <= outer.end(), "a link ends after the one above"),
        (child.constraints.keep_all_of(&parent.constraints), "a link drops a constraint"),
        (
            parent.clauses.redeem_by.is_none_or(|by| {
                child.clauses.redeem_by.is_some_and(|child| child <= by)
            }),
            "a link can be redeemed for longer than the one above",
        ),
        (
            child.clauses.not_on.is_superset(&parent.clauses.not_on),
            "a link allows units that the one above excludes",
        ),
        (
            child.clauses.stacked == parent.clauses.stacked,
            "a link is for another unit than the one above, or without its tokens",
        ),
        (
            child.clauses.assurance == parent.clauses.assurance,
            "a link promises more or less than the one above",
        ),
        (
            child.delegation.is_none() || parent.delegation.is_some(),
            "a delegation stands below a ticket that is none",
        ),
    ];
    rules.into_iter().find_map(|(holds, fault)| (!holds).then_some(fault))
}
