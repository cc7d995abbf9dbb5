//! S17: nothing grows without bound.

use super::{Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::broker::Broker;
use tenure_core::model::codec;
use tenure_core::actor::fact::Memo;
use tenure_core::broker::facts as broker;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::wire::message::{MAX_ITEMS, Message, Request};
use tenure_core::ticket::link::MAX_CONSTRAINTS;
use tenure_core::ticket::{MAX_DEPTH, Ticket};

pub(super) const LAW: Law = Law {
    id: "S17",
    name: "bounded resources",
    statement: "Journals and messages stay within the limits of the protocol: links of a ticket, \
                constraints of a link, items of a request, memos, waiting requests.",
    source: "resource exhaustion, RUSTSEC-2023-0053",
    on: "facts of all actors; messages",
};

#[derive(Default)]
pub(super) struct Checker;

impl Check for Checker {
    fn ticket(&mut self, scene: &Scene<'_>, ticket: &Ticket, tally: &mut Tally) -> LawVerdict {
        let depth = ticket.links().len();
        within(scene, ("links of a ticket", depth, MAX_DEPTH), tally)?;
        let most = ticket.links().iter().map(|link| link.constraints.len()).max().unwrap_or(0);
        within(scene, ("constraints of a link", most, MAX_CONSTRAINTS), tally)
    }

    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        match fact {
            site_authority::Fact::MapperAnswered(fact) => memo(scene, fact.memo.as_ref(), tally),
            _ => Ok(()),
        }
    }

    fn broker(&mut self, scene: &Scene<'_>, fact: &broker::Fact, tally: &mut Tally) -> LawVerdict {
        match fact {
            broker::Fact::MapperAnswered(fact) => memo(scene, fact.memo.as_ref(), tally),
            broker::Fact::Requested(fact) => {
                items(scene, &fact.request, tally)?;
                let open = scene.model.brokers.get(&scene.actor).map_or(0, |broker| broker.open);
                within(scene, ("requests that wait", open + 1, Broker::MAX_OPEN), tally)
            }
            _ => Ok(()),
        }
    }

    fn guest(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        match fact {
            service_manager::Fact::MapperAnswered(fact) => memo(scene, fact.memo.as_ref(), tally),
            service_manager::Fact::Asked(fact) => items(scene, &fact.request, tally),
            service_manager::Fact::ExtensionAsked(fact) => items(scene, &fact.request, tally),
            _ => Ok(()),
        }
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        let Observation::Sent { envelope, sealed } = seen else { return Ok(()) };
        within(scene, ("bytes of a message", sealed.bytes().len(), codec::MAX_BYTES), tally)?;
        let listed = match &envelope.message {
            Message::Close { tickets } => tickets.len(),
            Message::Credit { receipts } => receipts.len(),
            _ => return Ok(()),
        };
        tally.check(listed > 0, || {
            format!("{} sends an empty `{}`", scene.name(), envelope.message.kind())
        })
    }
}

fn memo(scene: &Scene<'_>, memo: Option<&Memo>, tally: &mut Tally) -> LawVerdict {
    let bytes = memo.map_or(0, |memo| memo.0.len());
    within(scene, ("bytes of a memo", bytes, Memo::MAX_BYTES), tally)
}

fn items(scene: &Scene<'_>, request: &Request, tally: &mut Tally) -> LawVerdict {
    within(scene, ("items of a request", request.items.len(), MAX_ITEMS), tally)
}

fn within(
    scene: &Scene<'_>,
    (what, n, most): (&str, usize, usize),
    tally: &mut Tally,
) -> LawVerdict {
    tally.check(n <= most, || format!("{} records {n} {what}, more than {most}", scene.name()))
}
