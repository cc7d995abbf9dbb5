//! S25: units are taken from a service only for one to which they are worth more, and every order ends.

use std::collections::BTreeMap;

use super::{Check, Law, LawVerdict, Observation, Scene, Tally};
use tenure_core::broker::facts::{BoundsSet, Fact, OrderPlaced};
use tenure_core::broker::machine::Tickets;
use tenure_core::broker::orders::{FREED_FOR, UnitOrder};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::Time;
use tenure_core::ticket::link::{Clauses, LinkHash};
use tenure_core::wire::recall::Level;

pub(super) const LAW: Law = Law {
    id: "S25",
    name: "orders",
    statement: "An order takes units of a ticket that the broker has cut for the guest of the service that loses them, \
                which may be recalled, for another service, to which they are worth more; not before the notice \
                and the tenure of the ticket are over, nor before the service has had them for the shortest tenure that the \
                broker has recorded; and in no window are more units of a type ordered than it has recorded. The recall that takes them is asked for with the order. Each order ends once: delivered or cancelled, \
                by the end of the lease that it takes units of or an hour after they are free.",
    source: "Hedeby's urgencies; level-triggered recalls",
    on: "facts of brokers",
};

#[derive(Default)]
pub(super) struct Checker {
    /// The orders that have not ended, with the ends of the leases that they take units of.
    open: BTreeMap<(ActorId, u64), Time>,
    /// What has to be recalled by the next fact.
    due: BTreeMap<ActorId, (UnitOrder, Level)>,
    /// What bounds the orders of each type.
    bounds: BTreeMap<(ActorId, Name), BoundsSet>,
    /// What was ordered of each type: when, and how many units.
    moves: BTreeMap<(ActorId, Name), Vec<(Time, u32)>>,
    /// Since when the holder of each ticket has its units: of an extension, of what it extends.
    since: BTreeMap<(ActorId, LinkHash), Time>,
}

impl Check for Checker {
    fn broker(&mut self, scene: &Scene<'_>, fact: &Fact, tally: &mut Tally) -> LawVerdict {
        if let Some((order, level)) = self.due.remove(&scene.actor) {
            let recalls = matches!(fact, Fact::RecallAsked(fact)
                if fact.link == order.ticket
                    && (fact.level.units, fact.level.from) == (level.units, level.from));
            tally.check(recalls, || {
                format!(
                    "{} orders units of {} and does not recall them",
                    scene.name(),
                    order.ticket
                )
            })?;
        }
        match fact {
            Fact::TicketsCut(fact) => {
                self.cut(scene, fact.request, &fact.tickets);
                Ok(())
            }
            Fact::PortionKept(fact) => {
                self.cut(scene, fact.request, &fact.tickets);
                Ok(())
            }
            Fact::OffersHeld(fact) => {
                fact.offers.iter().for_each(|offer| self.cut(scene, fact.request, offer));
                Ok(())
            }
            Fact::BoundsSet(fact) => {
                self.bounds.insert((scene.actor, fact.resource.clone()), fact.clone());
                Ok(())
            }
            Fact::OrderPlaced(fact) => {
                self.placed(scene, fact, tally)?;
                self.bounded(scene, fact, tally)
            }
            Fact::OrderEnded(fact) => {
                let known = self.open.remove(&(scene.actor, fact.order)).is_some();
                tally.check(known, || {
                    let (name, outcome) = (scene.name(), fact.outcome.word());
                    format!("order {} of {name} is {outcome}, and was not open", fact.order)
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
        let Observation::Rested { clock, .. } = seen else { return Ok(()) };
        if !scene.model.brokers.contains_key(&scene.actor) {
            return Ok(());
        }
        let range = (scene.actor, 0)..=(scene.actor, u64::MAX);
        let last = |over: &Time| over.plus(FREED_FOR);
        let overdue = self.open.range(range).find(|(_, over)| last(over) < *clock);
        tally.check(overdue.is_none(), || {
            let name = scene.name();
            let late = overdue.map(|((_, number), over)| (*number, last(over)));
            format!("an order of {name} has not ended at {clock}, with its number and its last instant: {late:?}")
        })
    }
}

impl Checker {
    fn placed(&mut self, scene: &Scene<'_>, fact: &OrderPlaced, tally: &mut Tally) -> LawVerdict {
        let OrderPlaced { number, order, due, stay } = fact;
        let name = scene.name();
        let cut =
            scene.model.brokers.get(&scene.actor).and_then(|broker| broker.cut.get(&order.ticket));
        let link = cut.map(|cut| cut.ticket.bottom());
        tally.check(order.worth < order.claim && order.claimant != order.holder, || {
            let (worth, claim) = (order.worth, order.claim);
            format!("order {number} of {name} ends a use that is worth {worth} for a claim worth {claim}")
        })?;
        let at = scene.model.times.get(&scene.actor).and_then(|times| times.last().copied());
        let least = |clauses: &Clauses| {
            let told = at?.plus(clauses.notice?);
            Some(clauses.not_before.map_or(told, |kept| told.max(kept)))
        };
        let told = link.and_then(|link| least(&link.clauses));
        tally.check(
            link.is_some_and(|link| link.holder == order.holder.guest && *due < link.term.end()),
            || {
                format!(
                    "order {number} of {name} takes units of no ticket of {}",
                    order.holder.guest
                )
            },
        )?;
        tally.check(told.is_some_and(|told| told <= *due), || {
            format!(
                "order {number} of {name} takes units at {due}, and its ticket lets it at {told:?}"
            )
        })?;
        let over = link.map_or(*due, |link| link.term.end());
        self.open.insert((scene.actor, *number), over);
        let level = Level { number: 0, units: *stay, from: *due };
        self.due.insert(scene.actor, (order.clone(), level));
        Ok(())
    }

    /// Tickets are cut for a request.
    fn cut(&mut self, scene: &Scene<'_>, request: RequestId, tickets: &Tickets) {
        let broker = scene.model.brokers.get(&scene.actor);
        let request = broker.and_then(|broker| broker.requests.get(&request));
        for (_, ticket) in tickets {
            let link = ticket.bottom();
            let extends = request.and_then(|known| {
                let mut items = known.request.items.iter();
                items.find_map(|item| item.extends.filter(|_| item.resource == link.resource))
            });
            let before = extends.and_then(|before| self.since.get(&(scene.actor, before)));
            let start = link.term.start();
            let since = before.map_or(start, |before| start.min(*before));
            self.since.insert((scene.actor, ticket.hash()), since);
        }
    }

    /// An order is within the bounds that are recorded; before any are, it is of a journal without them.
    fn bounded(&mut self, scene: &Scene<'_>, fact: &OrderPlaced, tally: &mut Tally) -> LawVerdict {
        let OrderPlaced { number, order, due, .. } = fact;
        let cut =
            scene.model.brokers.get(&scene.actor).and_then(|broker| broker.cut.get(&order.ticket));
        let Some(cut) = cut else { return Ok(()) };
        let of = (scene.actor, cut.ticket.bottom().resource.clone());
        let Some(BoundsSet { tenure, most, window, .. }) = self.bounds.get(&of) else {
            return Ok(());
        };
        let (name, resource, at) = (scene.name(), &of.1, scene.at);
        let since = self.since.get(&(scene.actor, order.ticket)).copied().unwrap_or(Time::MIN);
        tally.check(since.plus(*tenure) <= *due, || {
            format!("order {number} of {name} takes units at {due} that are had since {since}, and to be had for {tenure}")
        })?;
        let moves = self.moves.entry(of.clone()).or_default();
        moves.push((at, order.units.get()));
        if !scene.model.participants.clocks_hold {
            return Ok(());
        }
        let late = moves.iter().rev().take_while(|(then, _)| at.minus(*window) < *then);
        let sum = late.fold(0, |sum: u32, (_, units)| sum.saturating_add(*units));
        let most = most.unwrap_or(u32::MAX);
        tally.check(sum <= most, || {
            format!("by order {number} of {name} {sum} units of {resource} are ordered in {window}, not {most} at most")
        })
    }
}
