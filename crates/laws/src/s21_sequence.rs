//! S21: leases in sequence keep to it.

use std::collections::{BTreeMap, BTreeSet};

use super::model::Subject;
use super::{Change, Check, Law, LawVerdict, Observation, Scene, Tally};
use tenure_core::driver::Step;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::property::Properties;
use tenure_core::service_manager::GateAnswer;
use tenure_core::service_manager::facts::Fact;
use tenure_core::service_manager::sequence::{After, Gate, On};
use tenure_core::wire::message::Message;

pub(super) const LAW: Law = Law {
    id: "S21",
    name: "sequence",
    statement: "A service manager redeems no ticket and joins no unit before every lease that it \
                is to wait for has had all of its units in use, and not while its mapper is asked; \
                it does so with the properties that the mapper has added. No items of a request \
                wait for each other.",
    source: "sequenced configuration of lease groups; Shirako S40, S41",
    on: "messages and driver calls of service managers, facts of theirs",
};

#[derive(Default)]
pub(super) struct Checker {
    /// What each request waits for.
    after: BTreeMap<(ActorId, u64), Vec<After>>,
    /// The leases of each request, each with its item.
    leases: BTreeMap<(ActorId, u64), Vec<(LeaseId, u16)>>,
    /// The leases whose units have all been in use.
    used: BTreeSet<(ActorId, LeaseId)>,
    /// What a mapper has leases wait for besides: the numbers of requests.
    further: BTreeMap<(ActorId, LeaseId, Gate), Vec<u64>>,
    /// The leases at gates of which a mapper is asked.
    consulted: BTreeSet<(ActorId, LeaseId, Gate)>,
    /// What a mapper has added to the properties of a lease.
    told: BTreeMap<(ActorId, LeaseId, Gate), Properties>,
}

impl Check for Checker {
    fn guest(&mut self, scene: &Scene<'_>, fact: &Fact, tally: &mut Tally) -> LawVerdict {
        match fact {
            Fact::Asked(fact) if !fact.handling.after.is_empty() => {
                let after = fact.handling.after.clone();
                let items = fact.request.items.len();
                let cycle = waits_for_itself(&after, items);
                self.after.insert((scene.actor, fact.request.id.number), after);
                tally.check(!cycle, || {
                    let (name, number) = (scene.name(), fact.request.id.number);
                    format!("{name} asks for items of request {number} that wait for each other")
                })
            }
            Fact::Granted(fact) => {
                let part = |nth: usize| u16::try_from(nth).unwrap_or(u16::MAX);
                let lease = |nth| LeaseId { number: fact.number, part: part(nth) };
                let leases = fact.tickets.iter().enumerate();
                let leases = leases.map(|(nth, (item, _))| (lease(nth), *item)).collect();
                self.leases.insert((scene.actor, fact.number), leases);
                Ok(())
            }
            Fact::GateReached(fact) => {
                self.consulted.insert((scene.actor, fact.lease, fact.gate));
                Ok(())
            }
            Fact::GateAnswered(fact) => {
                let at = (scene.actor, fact.lease, fact.gate);
                let asked = self.consulted.remove(&at);
                self.answered(at, &fact.answer);
                tally.check(asked, || {
                    let name = scene.name();
                    format!("{name} has an answer of lease {}, which is at no gate", fact.lease)
                })
            }
            Fact::Unblocked(fact) => {
                self.consulted.remove(&(scene.actor, fact.lease, fact.gate));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn change(&mut self, _: &Scene<'_>, change: &Change, _: &mut Tally) -> LawVerdict {
        if let Subject::Lease(guest, lease) = change.subject
            && change.to.starts_with("Active")
        {
            self.used.insert((guest, lease));
        }
        Ok(())
    }

    fn happened(
        &mut self,
        scene: &Scene<'_>,
        seen: &Observation<'_>,
        tally: &mut Tally,
    ) -> LawVerdict {
        let ((guest, lease, gate), properties) = match seen {
            Observation::Called { actor, call } if call.step == Step::Join => {
                ((*actor, call.lease, Gate::Join), &call.properties)
            }
            Observation::Sent { envelope, .. } => match &envelope.message {
                Message::Redeem { lease, configuration, .. } => {
                    ((envelope.header.from, *lease, Gate::Redeem), configuration)
                }
                _ => return Ok(()),
            },
            _ => return Ok(()),
        };
        if !scene.model.participants.honest(guest) {
            return Ok(());
        }
        let at = (guest, lease, gate);
        let untold = self.told.get(&at).is_some_and(|told| {
            // At the gate `redeem` texts of other leases are filled in.
            told.iter().any(|(key, text)| match properties.get(key.as_str()) {
                Some(has) => !text.contains("${") && has != text,
                None => true,
            })
        });
        tally.check(!untold && !self.consulted.contains(&at), || {
            let (name, word) = (scene.model.name(guest), gate.word());
            format!("{name} begins to {word} lease {lease} without the word of its mapper")
        })?;
        let early = self.waits(guest, lease, gate);
        tally.check(early.is_none(), || {
            let (name, word) = (scene.model.name(guest), gate.word());
            let on = early.map_or_else(String::new, |on| on.to_string());
            format!("{name} begins to {word} lease {lease} before lease {on} was in use")
        })
    }
}

impl Checker {
    fn answered(&mut self, at: (ActorId, LeaseId, Gate), answer: &GateAnswer) {
        match answer {
            GateAnswer::GoOn(properties) => {
                self.told.insert(at, properties.clone());
            }
            GateAnswer::Wait(on) => self.further.entry(at).or_default().extend(on),
            GateAnswer::GiveUp => {}
        }
    }

    /// A lease that was never in use, and for which another one is to wait.
    fn waits(&self, guest: ActorId, lease: LeaseId, gate: Gate) -> Option<LeaseId> {
        let after = self.after.get(&(guest, lease.number))?;
        let own = self.leases.get(&(guest, lease.number))?;
        let item = own.iter().find(|(id, _)| *id == lease)?.1;
        let mine = after.iter().filter(|a| a.gate == gate && a.item.is_none_or(|i| i == item));
        let of = |number: u64| {
            let leases = self.leases.get(&(guest, number)).into_iter().flatten();
            leases.map(|(id, _)| *id).collect()
        };
        let stated = mine.flat_map(|after| match after.on {
            On::Item(on) if on == item => Vec::new(),
            On::Item(on) => own.iter().filter(|(_, i)| *i == on).map(|(id, _)| *id).collect(),
            On::Request(number) => of(number),
            On::Mapper => Vec::new(),
        });
        let further = self.further.get(&(guest, lease, gate)).into_iter().flatten();
        let mut ahead = stated.chain(further.flat_map(|number| of(*number)));
        ahead.find(|id| !self.used.contains(&(guest, *id)))
    }
}

/// Whether an item is left once those are taken away, again and again, that wait for none that is left.
fn waits_for_itself(after: &[After], items: usize) -> bool {
    let all = 0..u16::try_from(items).unwrap_or(u16::MAX);
    let mut left: BTreeSet<u16> = all.collect();
    loop {
        let waits = |item: u16, left: &BTreeSet<u16>| {
            after.iter().any(|after| match (after.item, after.on) {
                (_, On::Request(_) | On::Mapper) => false,
                (None, On::Item(on)) => on != item && left.contains(&on),
                (Some(who), On::Item(on)) => who == item && left.contains(&on),
            })
        };
        let free: Vec<u16> = left.iter().copied().filter(|item| !waits(*item, &left)).collect();
        if free.is_empty() {
            return !left.is_empty();
        }
        left.retain(|item| !free.contains(item));
    }
}
