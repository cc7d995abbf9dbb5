//! S18: the leases of a request are all or nothing, and those of a bundle share one fate.

mod several;

use std::collections::{BTreeMap, BTreeSet};

use super::model::{GuestModel, Subject};
use super::{Change, Check, Law, LawVerdict, Observation, Scene, Tally};
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Time;
use self::several::Commit;
use tenure_core::service_manager::facts::{Asked, Fact, Granted, GroupBroken};
use tenure_core::service_manager::group::{Handling, Why};
use tenure_core::ticket::Ticket;
use tenure_core::wire::request::{Item, Request};

pub(super) const LAW: Law = Law {
    id: "S18",
    name: "all or nothing",
    statement: "A service manager at rest holds no lease of a group that cannot be whole any more: \
                until each lease has its units, or for life in a bundle, an item whose leases have \
                fewer units left than will do costs all of them, as does a lease without units in \
                time. It gives no group back, and calls none whole, without cause. What goes to \
                several brokers is accepted once all of them hold it, and redeemed once all tickets \
                are there; if they are not there in time, nothing of it is held any more.",
    source: "co-allocation, gang scheduling",
    on: "facts of service managers, and when they are at rest",
};

#[derive(Default)]
pub(super) struct Checker {
    /// Requests without tickets, by how their leases are to be handled.
    asked: BTreeMap<(ActorId, u64), Terms>,
    groups: BTreeMap<(ActorId, u64), Group>,
    /// The requests that are one of several to several brokers, with their groups.
    parts: BTreeMap<(ActorId, u64), u64>,
    /// The groups that do not have all tickets of several brokers yet, by when they must.
    commits: BTreeSet<(ActorId, Time, u64)>,
    /// The group of each lease.
    of: BTreeMap<(ActorId, LeaseId), u64>,
    /// The leases that groups wait for, by the time at which they must have units.
    awaited: BTreeSet<(ActorId, Time, LeaseId)>,
    /// The groups whose leases must be given back.
    doomed: BTreeSet<(ActorId, u64)>,
    /// The last lease of each guest that ended with its term, which its guest may have shortened.
    ended: BTreeMap<ActorId, LeaseId>,
}

/// What a request says of its leases.
struct Terms {
    handling: Handling,
    /// The request, and its revisions.
    revisions: Vec<Request>,
    /// The lease that it is to grow.
    grows: Option<LeaseId>,
}

struct Group {
    bundle: bool,
    assembling: bool,
    needed: Vec<u32>,
    members: BTreeMap<LeaseId, Member>,
    /// How far its brokers are, if there are several.
    commit: Option<Commit>,
}

struct Member {
    /// The item that it counts for; of one that was added later, none until it has units.
    item: Option<u16>,
    units: u32,
    due: Time,
    /// Whether it went before the end of its term.
    lost: bool,
    gone: bool,
}

impl Group {
    /// Whether the members left have too few units of an item; without those that are gone, or lost.
    fn is_short(&self, without: impl Fn(&Member) -> bool) -> bool {
        (0u16..).zip(&self.needed).any(|(item, needed)| {
            let all = self.members.values().filter(|member| member.item == Some(item));
            let left = all.filter(|member| !without(member)).map(|member| member.units);
            left.fold(0, u32::saturating_add) < *needed
        })
    }
}

/// Whether a lease in this state is on its way back, or over.
fn is_gone(word: &str) -> bool {
    matches!(word, "Leaving(close)" | "Closing" | "Crediting" | "Closed" | "-")
}

impl Check for Checker {
    fn guest(&mut self, scene: &Scene<'_>, fact: &Fact, tally: &mut Tally) -> LawVerdict {
        match fact {
            Fact::Asked(fact) => self.asks(scene, fact),
            Fact::Revised(fact) => {
                let key = (scene.actor, fact.request.id.number);
                if let Some(terms) = self.asked.get_mut(&key) {
                    terms.revisions.push(fact.request.clone());
                }
            }
            Fact::Granted(fact) => self.begins(scene, fact),
            Fact::GroupAsked(fact) => self.asks_several(scene, fact),
            Fact::GroupHeld(fact) => return self.all_hold(scene, fact.group, tally),
            Fact::Accepted(fact) => return self.accepts(scene, fact.number, tally),
            Fact::GroupGranted(fact) => return self.all_granted(scene, fact.group, tally),
            Fact::RedeemBegun(fact) => return self.redeems(scene, fact.lease, tally),
            Fact::Leased(fact) => {
                let quantities = fact.units.iter().map(|unit| unit.quantity.get());
                let units = quantities.fold(0, u32::saturating_add);
                self.has_units(scene.actor, fact.lease, units);
            }
            Fact::TermOver(fact) => {
                self.ended.insert(scene.actor, fact.lease);
            }
            Fact::GroupWhole(fact) => {
                let awaited = self.awaits(scene.actor, fact.group);
                if let Some(group) = self.groups.get_mut(&(scene.actor, fact.group)) {
                    group.assembling = false;
                }
                return tally.check(!awaited, || {
                    format!("{} calls group {} whole, which is not", scene.name(), fact.group)
                });
            }
            Fact::GroupBroken(fact) => return self.breaks(scene, fact, tally),
            _ => {}
        }
        Ok(())
    }

    fn change(&mut self, scene: &Scene<'_>, change: &Change, _: &mut Tally) -> LawVerdict {
        let Subject::Lease(guest, id) = change.subject else { return Ok(()) };
        let Some(&number) = self.of.get(&(guest, id)) else { return Ok(()) };
        if !is_gone(change.to) {
            return Ok(());
        }
        let end = scene.model.guests.get(&guest).and_then(|guest| guest.leases.get(&id));
        let end = end.map_or(Time::MAX, |lease| lease.expires_at);
        let early = scene.at < end.minus(scene.model.participants.margin)
            && self.ended.get(&guest) != Some(&id);
        let Some(group) = self.groups.get_mut(&(guest, number)) else { return Ok(()) };
        if let Some(member) = group.members.get_mut(&id).filter(|member| !member.gone) {
            member.gone = true;
            member.lost = early;
            self.awaited.remove(&(guest, member.due, id));
        }
        if (group.assembling || group.bundle) && group.is_short(|member| member.lost) {
            self.doomed.insert((guest, number));
        }
        Ok(())
    }

    fn happened(
        &mut self,
        scene: &Scene<'_>,
        seen: &Observation<'_>,
        tally: &mut Tally,
    ) -> LawVerdict {
        let Observation::Rested { actor, clock } = *seen else { return Ok(()) };
        let Some(guest) = scene.model.guests.get(&actor) else { return Ok(()) };
        let first = (actor, Time::MIN, LeaseId { number: 0, part: 0 });
        let late = self.awaited.range(first..).next();
        let late = late.filter(|(whose, due, _)| *whose == actor && *due <= clock);
        tally.check(late.is_none(), || {
            let (name, lease) = (scene.name(), late.map_or(first.2, |late| late.2));
            format!("{name} rests, though lease {lease} got no units in time and costs its group")
        })?;
        self.none_is_half_granted(scene, (actor, clock), tally)?;
        let doomed: Vec<_> = self.doomed.range((actor, 0)..=(actor, u64::MAX)).copied().collect();
        for key in doomed {
            let kept = self.groups.get(&key).and_then(|group| still_held(guest, group));
            tally.check(kept.is_none(), || {
                let (name, lease) = (scene.name(), kept.unwrap_or(first.2));
                format!("{name} keeps lease {lease} of group {}, which cannot be whole", key.1)
            })?;
            self.doomed.remove(&key);
        }
        Ok(())
    }
}

/// A lease of a group that is neither given back nor over. A ticket that was split cannot be.
fn still_held(guest: &GuestModel, group: &Group) -> Option<LeaseId> {
    let held = |id: &&LeaseId| {
        let word = guest.leases.get(*id).map_or("-", |lease| lease.word());
        !is_gone(word) && word != "Ticketed+split"
    };
    group.members.keys().find(held).copied()
}

impl Checker {
    fn breaks(&mut self, scene: &Scene<'_>, fact: &GroupBroken, tally: &mut Tally) -> LawVerdict {
        let Some(group) = self.groups.get(&(scene.actor, fact.group)) else { return Ok(()) };
        let cause = match fact.why {
            Why::Lost(_) => group.is_short(|member| member.gone),
            Why::Late(id) => group.members.get(&id).is_some_and(|m| m.due <= scene.at),
            Why::NotHeld(_) | Why::NotGranted(_) | Why::NotApart | Why::GivenUp => {
                group.commit.as_ref().is_some_and(|commit| commit.fails(scene, fact.why))
            }
        };
        for (id, member) in &group.members {
            self.awaited.remove(&(scene.actor, member.due, *id));
        }
        if let Some(commit) = &group.commit {
            self.commits.remove(&(scene.actor, commit.by(), fact.group));
        }
        self.doomed.insert((scene.actor, fact.group));
        tally.check(cause, || {
            format!("{} gives group {} back without cause", scene.name(), fact.group)
        })
    }

    fn asks(&mut self, scene: &Scene<'_>, fact: &Asked) {
        let revisions = vec![fact.request.clone()];
        let terms = Terms { handling: fact.handling.clone(), revisions, grows: fact.grows };
        self.asked.insert((scene.actor, fact.request.id.number), terms);
    }

    fn begins(&mut self, scene: &Scene<'_>, fact: &Granted) {
        let key = (scene.actor, fact.number);
        let Some(Terms { handling, revisions, grows }) = self.asked.remove(&key) else { return };
        if let Some(&group) = self.parts.get(&key) {
            return self.takes_part(scene, fact, group);
        }
        if let Some(grown) = grows {
            return self.joins(scene, fact, grown);
        }
        if fact.tickets.len() < 2 && !handling.bundle {
            return;
        }
        // The newest revision that the tickets meet; an offer that was accepted may meet none.
        let mut newest_first = revisions.iter().rev();
        let met = newest_first.find(|request| request.is_met_with(&fact.tickets));
        let items = met.or(revisions.last()).map_or(&[][..], |request| &request.items);
        let needed = needed(items, &fact.tickets);
        let members = BTreeMap::new();
        let (bundle, commit) = (handling.bundle, None);
        self.groups.insert(key, Group { bundle, assembling: true, needed, members, commit });
        let whole = |item| Some(item);
        self.takes_in(scene, fact, (fact.number, &handling), whole);
    }

    /// The leases that tickets become are members of a group.
    fn takes_in(
        &mut self,
        scene: &Scene<'_>,
        fact: &Granted,
        (number, handling): (u64, &Handling),
        item_of: impl Fn(u16) -> Option<u16>,
    ) {
        let Some(group) = self.groups.get_mut(&(scene.actor, number)) else { return };
        for (part, (item, ticket)) in (0u16..).zip(&fact.tickets) {
            let (id, link) = (LeaseId { number: fact.number, part }, ticket.bottom());
            let due = link.term.start().max(scene.at).plus(handling.assemble);
            let (item, units) = (item_of(*item), link.units.get());
            group.members.insert(id, Member { item, units, due, lost: false, gone: false });
            self.of.insert((scene.actor, id), number);
            // Those of several brokers are waited for once all tickets are there.
            if !handling.keep_tickets && group.commit.is_none() {
                self.awaited.insert((scene.actor, due, id));
            }
        }
    }

    /// Further leases join the group of one, if they end with it.
    fn joins(&mut self, scene: &Scene<'_>, fact: &Granted, grown: LeaseId) {
        let Some(&number) = self.of.get(&(scene.actor, grown)) else { return };
        let guest = scene.model.guests.get(&scene.actor);
        let end = guest.and_then(|guest| guest.held(grown)).map(|held| held.term.end());
        let Some(group) = self.groups.get_mut(&(scene.actor, number)) else { return };
        for (part, (_, ticket)) in (0u16..).zip(&fact.tickets) {
            let (id, link) = (LeaseId { number: fact.number, part }, ticket.bottom());
            if end == Some(link.term.end()) {
                let (units, due) = (link.units.get(), Time::MAX);
                let member = Member { item: None, units, due, lost: false, gone: false };
                group.members.insert(id, member);
                self.of.insert((scene.actor, id), number);
            }
        }
    }

    /// The leases of a group have the time to get their units from `at` on.
    fn awaits_from(&mut self, guest: ActorId, number: u64, at: Time, handling: &Handling) {
        let Some(group) = self.groups.get_mut(&(guest, number)) else { return };
        for (id, member) in group.members.iter_mut().filter(|(_, member)| !member.gone) {
            member.due = member.due.max(at.plus(handling.assemble));
            if !handling.keep_tickets {
                self.awaited.insert((guest, member.due, *id));
            }
        }
    }

    fn has_units(&mut self, guest: ActorId, id: LeaseId, units: u32) {
        let Some(&number) = self.of.get(&(guest, id)) else { return };
        let Some(group) = self.groups.get_mut(&(guest, number)) else { return };
        let Some(member) = group.members.get_mut(&id) else { return };
        member.units = units;
        self.awaited.remove(&(guest, member.due, id));
        if member.item.is_none() {
            member.item = u16::try_from(group.needed.len()).ok();
            group.needed.push(units);
        }
    }

    /// Whether a group waits for one of its leases.
    fn awaits(&self, guest: ActorId, number: u64) -> bool {
        let members = self.groups.get(&(guest, number)).into_iter().flat_map(|g| &g.members);
        members.into_iter().any(|(id, member)| self.awaited.contains(&(guest, member.due, *id)))
    }
}

/// How few units of each item will do, of those that tickets are for.
fn needed(items: &[Item], tickets: &[(u16, Ticket)]) -> Vec<u32> {
    let of_item = |(place, item): (u16, &Item)| {
        let its = tickets.iter().filter(|(of, _)| *of == place);
        let units = its.map(|(_, ticket)| ticket.bottom().units.get());
        // An offer that was accepted may be for less, and items without a ticket are not missed.
        let units = units.fold(0, u32::saturating_add);
        match (item.optional, item.joins()) {
            (true, _) => 0,
            // A link needs all edges of its path.
            (false, Some(_)) => units,
            (false, None) => item.min_units.get().min(units),
        }
    };
    (0u16..).zip(items).map(of_item).collect()
}
