//! S28: a request that is passed on comes to an end, and nobody on its way changes it.

use std::collections::BTreeMap;

use super::{Check, Law, LawVerdict, Observation, Scene, Tally};
use tenure_core::broker::facts as broker;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::Time;
use tenure_core::wire::handover::Handover;
use tenure_core::wire::message::{Message, Sealed};

pub(super) const LAW: Law = Law {
    id: "S28",
    name: "passing on",
    statement: "An honest broker passes a request on in the bytes in which its guest sealed it, with the path by which \
                it came and itself at the end, and to nobody on that path. What it passes on may go fewer hops \
                further than it may itself, and to fewer brokers, and it is to be answered no later than the broker \
                has to answer itself. So every search ends.",
    source: "AVE A01, A28; the time to live of RFC 791",
    on: "messages between brokers, beside the facts of the sender",
};

/// What a broker was given of a request.
struct Given {
    sealed: Sealed,
    path: Vec<ActorId>,
    hops: u8,
    asks: u16,
    /// When its answer is due, if another broker waits for it.
    answer_by: Option<Time>,
}

impl Given {
    fn by_broker(handover: &Handover) -> Self {
        Self {
            sealed: handover.sealed.clone(),
            path: handover.path.clone(),
            hops: handover.hops,
            asks: handover.asks,
            answer_by: Some(handover.answer_by),
        }
    }

    /// What is wrong with passing it on so, if anything.
    fn forbids(&self, from: ActorId, to: ActorId, on: &Handover) -> Option<&'static str> {
        let own = on.path.split_last();
        let came = own.is_some_and(|(last, before)| *last == from && *before == self.path);
        let faults = [
            (on.sealed != self.sealed, "in other bytes than its guest's"),
            (!came, "by another path than it came"),
            (on.path.contains(&to), "to a broker on its path"),
            (on.hops >= self.hops, "for as many hops as it was given, or more"),
            (on.asks >= self.asks, "to as many brokers as it was given, or more"),
            (self.answer_by.is_some_and(|due| due < on.answer_by), "beyond the time it has itself"),
        ];
        faults.into_iter().find_map(|(is_so, fault)| is_so.then_some(fault))
    }
}

#[derive(Default)]
pub(super) struct Checker {
    given: BTreeMap<(ActorId, RequestId), Given>,
}

impl Check for Checker {
    fn broker(&mut self, scene: &Scene<'_>, fact: &broker::Fact, _: &mut Tally) -> LawVerdict {
        let given = match fact {
            broker::Fact::RequestSealed(fact) => {
                let (sealed, reach) = (fact.sealed.clone(), fact.reach);
                let (hops, asks) = (reach.hops, reach.asks);
                Some((fact.request, Given { sealed, path: Vec::new(), hops, asks, answer_by: None }))
            }
            broker::Fact::RequestHanded(fact) => {
                Some((fact.request, Given::by_broker(&fact.handover)))
            }
            broker::Fact::PortionHanded(fact) => {
                Some((fact.request, Given::by_broker(&fact.handover)))
            }
            broker::Fact::RequestForgotten(fact) => {
                self.given.remove(&(scene.actor, fact.request));
                None
            }
            _ => None,
        };
        if let Some((request, given)) = given {
            self.given.insert((scene.actor, request), given);
        }
        Ok(())
    }

    fn happened(
        &mut self,
        scene: &Scene<'_>,
        seen: &Observation<'_>,
        tally: &mut Tally,
    ) -> LawVerdict {
        let Observation::Sent { envelope, .. } = seen else { return Ok(()) };
        match &envelope.message {
            Message::HandOver(on) => {
                self.passed(scene, (envelope.header.from, envelope.header.to), on, tally)
            }
            Message::AskPortion(asked) => {
                let ends = (envelope.header.from, envelope.header.to);
                self.passed(scene, ends, &asked.handover, tally)
            }
            _ => Ok(()),
        }
    }
}

impl Checker {
    fn passed(
        &self,
        scene: &Scene<'_>,
        (from, to): (ActorId, ActorId),
        on: &Handover,
        tally: &mut Tally,
    ) -> LawVerdict {
        if !scene.model.participants.honest(from) {
            return Ok(());
        }
        let inner = on.sealed.peek().ok().map(|envelope| envelope.message);
        let Some(Message::Request(request)) = inner else { return Ok(()) };
        let given = self.given.get(&(from, request.id));
        let fault = match given {
            Some(given) => given.forbids(from, to, on),
            None => Some("though nobody has given it to that broker"),
        };
        tally.check(fault.is_none(), || {
            let [from, to] = [from, to].map(|who| scene.model.name(who));
            let fault = fault.unwrap_or_default();
            format!("{from} passes request {} on to {to} {fault}", request.id)
        })
    }
}
