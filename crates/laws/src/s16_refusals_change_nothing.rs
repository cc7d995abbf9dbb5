//! S16: a no changes nothing.

use super::model::{Model, Subject};
use super::{Change, Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::driver::UnitId;
use tenure_core::service_manager::facts::Fact;
use tenure_core::model::identity::ActorId;
use tenure_core::wire::message::{self, Message, Sequence};
use tenure_core::model::slice::LeaseId;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::LinkHash;
use tenure_core::model::time::Time;

pub(super) const LAW: Law = Law {
    id: "S16",
    name: "refusals change nothing",
    statement: "An input without a fact leaves its actor unchanged. If an actor is refused \
                without a fact, the refuser has no record of what it asked about. A refused \
                extension leaves its lease unchanged.",
    source: "failure atomicity, non-interference; Shirako S35",
    on: "inputs without facts; messages; facts of guests",
};

#[derive(Default)]
pub(super) struct Checker {
    /// The lease whose extension the fact at hand denies, with what is held under it.
    denied: Option<(ActorId, LeaseId, Option<Holding>)>,
}

/// What a guest holds under a lease, apart from an extension: tickets, units, end.
type Holding = (Vec<LinkHash>, Vec<UnitId>, Time);

fn holding(model: &Model, guest: ActorId, lease: LeaseId) -> Option<Holding> {
    let held = model.guests.get(&guest)?.held(lease)?;
    let tickets = held.tickets.iter().map(Ticket::hash).collect();
    Some((tickets, held.units.keys().copied().collect(), held.term.end()))
}

impl Check for Checker {
    fn guest(&mut self, scene: &Scene<'_>, fact: &Fact, _: &mut Tally) -> LawVerdict {
        self.denied = match fact {
            Fact::ExtensionDenied(fact) => {
                let holding = holding(scene.model, scene.actor, fact.lease);
                Some((scene.actor, fact.lease, holding))
            }
            _ => None,
        };
        Ok(())
    }

    fn change(&mut self, scene: &Scene<'_>, change: &Change, tally: &mut Tally) -> LawVerdict {
        let Subject::Lease(guest, lease) = change.subject else { return Ok(()) };
        let Some((_, _, before)) =
            self.denied.take_if(|(who, denied, _)| (*who, *denied) == (guest, lease))
        else {
            return Ok(());
        };
        let after = holding(scene.model, guest, lease);
        tally.check(without_extension(change.from) == change.to && before == after, || {
            let (name, Change { from, to, .. }) = (scene.name(), change);
            format!(
                "an extension was denied, and lease {lease} of {name} went from {from} with \
                 {before:?} to {to} with {after:?}"
            )
        })
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        match *seen {
            Observation::Unmoved { same, .. } => tally.check(same, || {
                format!("{} made no fact of an input and is another", scene.name())
            }),
            Observation::Sent { envelope, .. } => {
                let header = envelope.header;
                let Message::Refused { subject, .. } = &envelope.message else { return Ok(()) };
                if header.sequence.index != Sequence::VOLATILE {
                    return Ok(());
                }
                let known = is_known(scene.model, (header.from, header.to), subject);
                tally.check(!known, || {
                    let (name, to) = (scene.name(), scene.model.name(header.to));
                    format!("{name} refuses {to} without a fact what it has a fact of: {subject:?}")
                })
            }
            _ => Ok(()),
        }
    }
}

/// The word of a state once its extension is gone.
fn without_extension(word: &str) -> &str {
    word.split('+').next().unwrap_or(word)
}

/// Whether the one who refuses has taken this before from the one who asks, and remembers.
fn is_known(model: &Model, (from, to): (ActorId, ActorId), subject: &message::Subject) -> bool {
    match subject {
        message::Subject::Request(id) => {
            let record = model.brokers.get(&from).and_then(|broker| broker.requests.get(id));
            id.origin == to && record.is_some_and(|record| !record.forgotten)
        }
        message::Subject::Ticket(hash) => {
            let site = model.sites.get(&from);
            let lease = site.and_then(|s| s.leases.get(s.by_ticket.get(hash)?));
            lease.is_some_and(|lease| lease.holder() == to && !lease.forgotten)
        }
        message::Subject::Return(..)
        | message::Subject::Modify(..)
        | message::Subject::Recall(..) => false,
        message::Subject::Delegation(_) => false,
    }
}
