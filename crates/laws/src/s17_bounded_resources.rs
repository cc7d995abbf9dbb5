//! S17: nothing grows without bound.

use std::collections::BTreeMap;

use super::{Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::broker::Broker;
use tenure_core::broker::machine::Tickets;
use tenure_core::broker::quota::Whose;
use tenure_core::broker::rules::Source;
use tenure_core::model::codec;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::Term;
use tenure_core::actor::fact::Memo;
use tenure_core::broker::facts as broker;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::wire::message::Message;
use tenure_core::wire::request::{MAX_ITEMS, Request};
use tenure_core::ticket::receipt::Receipt;
use tenure_core::ticket::link::{LinkHash, MAX_CONSTRAINTS};
use tenure_core::ticket::{MAX_DEPTH, Ticket};

pub(super) const LAW: Law = Law {
    id: "S17",
    name: "bounded resources",
    statement: "Journals and messages stay within the limits of the protocol: links of a ticket, \
                constraints of a link, items of a request, memos, waiting requests. A broker grants \
                no peer more units at a time than the peer's quota; a request that another broker passes on counts towards that broker's quota, not the guest's.",
    source: "resource exhaustion, RUSTSEC-2023-0053",
    on: "facts of all actors; messages",
};

#[derive(Default)]
pub(super) struct Checker {
    /// The quotas of units of each broker: the configured ones and those of its operators.
    quotas: BTreeMap<ActorId, BTreeMap<(Whose, bool), Option<u32>>>,
    /// What each broker has granted whom: when, and how many units; below zero what came back.
    granted: BTreeMap<(ActorId, ActorId), Vec<(Term, i64)>>,
    /// Who answers for a request at a broker, if that is not its guest: the broker that has handed it on, or who answers
    /// for what it extends.
    handed: BTreeMap<(ActorId, RequestId), ActorId>,
    /// Who answers for a ticket of a broker.
    tickets: BTreeMap<(ActorId, LinkHash), ActorId>,
}

impl Checker {
    fn quota(&self, broker: ActorId, guest: ActorId) -> Option<u32> {
        let rules = self.quotas.get(&broker)?;
        let rule = |whose| rules.get(&(whose, true)).or_else(|| rules.get(&(whose, false)));
        rule(Some(guest)).copied().flatten().or_else(|| rule(None).copied().flatten())
    }

    /// Who answers for a request.
    fn answers(&self, broker: ActorId, request: RequestId) -> ActorId {
        self.handed.get(&(broker, request)).copied().unwrap_or(request.origin)
    }

    /// The broker that a request was handed on by, if one has.
    fn handed(&mut self, broker: ActorId, request: RequestId, path: &[ActorId]) {
        if let Some(by) = path.last() {
            self.handed.insert((broker, request), *by);
        }
    }

    /// Tickets are cut for a request, and may be granted later.
    fn cut(&mut self, broker: ActorId, request: RequestId, tickets: &Tickets) {
        let answers = self.answers(broker, request);
        let of_broker = tickets.iter().map(|(_, ticket)| ((broker, ticket.hash()), answers));
        self.tickets.extend(of_broker);
    }

    fn grants(
        &mut self,
        scene: &Scene<'_>,
        (request, ticket): (RequestId, &Ticket),
        tally: &mut Tally,
    ) -> LawVerdict {
        let (link, answers) = (ticket.bottom(), self.answers(scene.actor, request));
        self.tickets.insert((scene.actor, ticket.hash()), answers);
        let granted = self.granted.entry((scene.actor, answers)).or_default();
        granted.push((link.term, i64::from(link.units.get())));
        let granted = &self.granted[&(scene.actor, answers)];
        let Some(most) = self.quota(scene.actor, answers) else { return Ok(()) };
        let starts = granted.iter().map(|(term, _)| term.start());
        let held = |t| granted.iter().filter(|(term, _)| term.contains(t)).map(|(_, n)| n).sum();
        let inside = starts.filter(|start| link.term.contains(*start));
        let held: i64 = inside.map(held).max().unwrap_or(0);
        tally.check(held <= i64::from(most), || {
            format!("{} grants {held} units to a peer with a quota of {most}", scene.name())
        })
    }

    fn returned(&mut self, scene: &Scene<'_>, receipt: &Receipt) {
        let what = &receipt.what;
        let broker = scene.model.brokers.get(&scene.actor);
        let cut = broker.and_then(|broker| broker.cut.get(&what.link));
        let (Some(cut), Some(term)) = (cut, what.term.from(scene.at)) else { return };
        let answers = self.answers(scene.actor, cut.request);
        let granted = self.granted.entry((scene.actor, answers)).or_default();
        granted.push((term, -i64::from(what.units.get())));
    }
}

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
            broker::Fact::QuotaSet(fact) => {
                let rules = self.quotas.entry(scene.actor).or_default();
                let key = (fact.whose, fact.by == Source::Operator);
                match fact.quota {
                    Some(quota) => rules.insert(key, quota.units),
                    None => rules.remove(&key),
                };
                Ok(())
            }
            broker::Fact::TicketsCut(fact) => {
                let mut tickets = fact.tickets.iter().map(|(_, ticket)| (fact.request, ticket));
                tickets.try_for_each(|ticket| self.grants(scene, ticket, tally))
            }
            broker::Fact::PortionKept(fact) => {
                self.cut(scene.actor, fact.request, &fact.tickets);
                Ok(())
            }
            broker::Fact::OffersHeld(fact) => {
                fact.offers.iter().for_each(|offer| self.cut(scene.actor, fact.request, offer));
                Ok(())
            }
            broker::Fact::ReceiptTaken(fact) => {
                self.returned(scene, &fact.receipt);
                Ok(())
            }
            broker::Fact::RequestHanded(fact) => {
                self.handed(scene.actor, fact.request, &fact.handover.path);
                Ok(())
            }
            broker::Fact::PortionHanded(fact) => {
                self.handed(scene.actor, fact.request, &fact.handover.path);
                Ok(())
            }
            broker::Fact::Requested(fact) => {
                let ticket = |hash: LinkHash| self.tickets.get(&(scene.actor, hash)).copied();
                let extended = fact.request.items.iter().find_map(|item| ticket(item.extends?));
                match extended {
                    Some(answers) => self.handed.insert((scene.actor, fact.request.id), answers),
                    None => self.handed.remove(&(scene.actor, fact.request.id)),
                };
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
