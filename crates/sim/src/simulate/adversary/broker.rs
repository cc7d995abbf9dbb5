//! What a dishonest broker does.

use tenure_core::actor::Role;
use tenure_core::model::identity::{ActorId, Scheme};
use tenure_core::model::resource::Expr;
use tenure_core::model::time::Term;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Clauses, Generation, Link, SignedLink};
use tenure_core::wire::message::{Envelope, Message, Sealed};
use tenure_core::wire::request::{Item, Request};

use super::reworded;
use crate::simulate::fault::{Family, Fault};
use crate::simulate::violation::Violation;
use crate::simulate::world::World;

impl World {
    pub(in crate::simulate) fn dishonest_broker(&mut self) -> Result<(), Violation> {
        let Some(who) = self.adversary(Role::Broker) else { return Ok(()) };
        let everybody: Vec<ActorId> =
            self.participants.iter().map(|participant| participant.id).collect();
        let spell = self.spell(Family::DishonestBroker);
        let sampler = self.sampler(Family::DishonestBroker);
        match sampler.below(12) {
            0 => {
                let (size, to) = (sampler.below(300), sampler.below(everybody.len()));
                let bytes = sampler.bytes(size);
                self.watch.fault(Fault::BrokerGarbage);
                self.send_bytes(who, everybody[to], bytes);
            }
            1 => {
                self.watch.fault(Fault::Silent);
                let until = self.now.plus(spell);
                for other in 0..self.participants.len() {
                    self.wire.cut(who, other, until);
                }
            }
            kind => {
                let faults = [
                    Fault::OverIssue,
                    Fault::OverIssue,
                    Fault::FromClosed,
                    Fault::Equivocates,
                    Fault::Forges,
                    Fault::Conditions,
                ];
                let (fault, count) = (faults[kind % faults.len()], sampler.count(1, 3));
                // Where nothing is signed, nothing can be forged.
                let idle = fault == Fault::Forges && self.setting.scheme == Scheme::None;
                self.observed.planned_fault = (!idle).then_some((fault, count));
            }
        }
        Ok(())
    }

    /// What the dishonest broker does with an incoming message; `true` if its actor never receives it.
    pub(in crate::simulate) fn ambushed(&mut self, to: usize, sealed: &Sealed) -> bool {
        let Some((fault, left)) = self.observed.planned_fault else { return false };
        if self.participants[to].honest || self.participants[to].role != Role::Broker {
            return false;
        }
        let Ok(Envelope { message: Message::Request(request), .. }) = sealed.peek() else {
            return false;
        };
        self.observed.planned_fault = (left > 1).then_some((fault, left - 1));
        let copies = if fault == Fault::Equivocates { 2 } else { 1 };
        let mut done = false;
        for _ in 0..copies {
            if let Some(tickets) = self.false_grant(to, &request, fault) {
                self.send_forged(
                    to,
                    request.id.origin,
                    Message::Granted { request: request.id, tickets },
                );
                done = true;
            }
        }
        if done {
            self.watch.fault(fault);
        }
        done && fault != Fault::Equivocates
    }

    /// Tickets for a request that no ledger has seen.
    fn false_grant(
        &mut self,
        who: usize,
        request: &Request,
        fault: Fault,
    ) -> Option<Vec<(u16, Ticket)>> {
        let term = Term::lasting(request.earliest, request.duration).ok()?;
        let mut tickets = Vec::new();
        for (index, item) in (0u16..).zip(&request.items) {
            let parent = self.parent(item, term, fault == Fault::FromClosed)?;
            let parent = if fault == Fault::Forges { self.forged(who, &parent) } else { parent };
            self.observed.serial += 1;
            let mut constraints = parent.bottom().constraints.clone();
            if fault == Fault::Conditions {
                constraints.add(Expr::parse("speed = 99").ok()?);
            }
            let link = Link {
                parent: Some(parent.hash()),
                issuer: self.participants[who].id,
                holder: request.id.origin,
                resource: item.resource.clone(),
                units: item.units.min(parent.bottom().units).max(item.min_units),
                term,
                constraints,
                clauses: Clauses::NONE,
                delegation: None,
                extends: item.extends,
                serial: (1 << 40) + self.observed.serial,
            };
            tickets
                .push((index, parent.with(SignedLink::sign(link, &self.participants[who].signer))));
        }
        Some(tickets)
    }

    /// A delegation to cut from: the newest that covers the term or, if asked for, one that has ended.
    fn parent(&self, item: &Item, term: Term, over: bool) -> Option<Ticket> {
        let of_type = |ticket: &&Ticket| ticket.bottom().resource == item.resource;
        let mut known = self.observed.delegations.iter().filter(of_type);
        if over {
            return known.next().cloned();
        }
        known.rfind(|ticket| ticket.bottom().term.encloses(term)).cloned()
    }

    /// A delegation that its site never signed: more units, under a new number or the same.
    fn forged(&mut self, who: usize, real: &Ticket) -> Ticket {
        let sampler = self.sampler(Family::DishonestBroker);
        let mut link: Link = (**real.bottom()).clone();
        link.units = link.units.saturating_add(4);
        let number = if sampler.percent(50) { 77 } else { 1 };
        link.delegation = Some(Generation { delegation: number, generation: sampler.count(0, 3) });
        let real_key = sampler.percent(30);
        let signed = SignedLink::sign(link, &self.participants[who].signer);
        if !real_key {
            return Ticket::root_of(signed);
        }
        // The site's own key and signature, on other words.
        Ticket::root_of(reworded(real.bottom(), &signed).unwrap_or(signed))
    }
}
