//! S18 for requests that go to several brokers: none is met in part beyond its time.

use std::collections::{BTreeMap, BTreeSet};

use super::super::model::Stage;
use super::{Checker, Group, LawVerdict, Scene, Tally, needed};
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Time;
use tenure_core::service_manager::facts::{Granted, GroupAsked};
use tenure_core::service_manager::group::Why;
use tenure_core::service_manager::request::State;

/// How far the brokers of a request are.
pub(super) struct Commit {
    asked: GroupAsked,
    at: Time,
    /// Whether all of them held its items.
    held: bool,
    /// Whose tickets came.
    granted: BTreeSet<u64>,
    /// Whether they were called complete.
    complete: bool,
}

impl Commit {
    /// When all tickets must be there.
    pub(super) fn by(&self) -> Time {
        self.asked.granted_by(self.at)
    }

    /// Whether this attempt has failed for this reason.
    pub(super) fn fails(&self, scene: &Scene<'_>, why: Why) -> bool {
        let state = |number| request(scene, number);
        match why {
            Why::NotHeld(number) => {
                let waits = matches!(state(number), Some(State::Asked));
                !self.held && (!waits || self.asked.held_by(self.at) <= scene.at)
            }
            Why::NotGranted(number) => {
                let waits = matches!(state(number), Some(State::Accepting { .. }));
                let missing = !self.granted.contains(&number);
                self.held && missing && (!waits || self.by() <= scene.at)
            }
            Why::NotApart => !self.held,
            Why::GivenUp => true,
            Why::Lost(_) | Why::Late(_) => false,
        }
    }
}

/// Where a request without leases is.
fn request<'a>(scene: &Scene<'a>, number: u64) -> Option<&'a State> {
    let leases = &scene.model.guests.get(&scene.actor)?.leases;
    match &leases.get(&LeaseId { number, part: 0 })?.stage {
        Stage::Request(state) => Some(state),
        Stage::Lease(_) => None,
    }
}

impl Checker {
    pub(super) fn asks_several(&mut self, scene: &Scene<'_>, fact: &GroupAsked) {
        let (asked, at) = (fact.clone(), scene.at);
        let granted = BTreeSet::new();
        let commit = Commit { asked, at, held: false, granted, complete: false };
        self.commits.insert((scene.actor, commit.by(), fact.group));
        self.parts.extend(fact.numbers().map(|number| ((scene.actor, number), fact.group)));
        let group = Group {
            bundle: fact.handling.bundle,
            assembling: true,
            needed: vec![0; fact.request.items.len()],
            members: BTreeMap::new(),
            commit: Some(commit),
        };
        self.groups.insert((scene.actor, fact.group), group);
    }

    fn commit(&mut self, guest: ActorId, number: u64) -> Option<&mut Commit> {
        self.groups.get_mut(&(guest, number))?.commit.as_mut()
    }

    /// The commit that a request is a part of.
    fn commit_of(&mut self, guest: ActorId, part: u64) -> Option<&mut Commit> {
        let number = *self.parts.get(&(guest, part))?;
        self.commit(guest, number)
    }

    pub(super) fn all_hold(
        &mut self,
        scene: &Scene<'_>,
        number: u64,
        tally: &mut Tally,
    ) -> LawVerdict {
        let Some(commit) = self.commit(scene.actor, number) else { return Ok(()) };
        commit.held = true;
        let holds = |number| matches!(request(scene, number), Some(State::Offered { .. }));
        let all = commit.asked.numbers().all(holds);
        tally.check(all, || {
            format!("{} says that all hold for group {number}, and not all do", scene.name())
        })
    }

    pub(super) fn accepts(
        &mut self,
        scene: &Scene<'_>,
        part: u64,
        tally: &mut Tally,
    ) -> LawVerdict {
        let Some(commit) = self.commit_of(scene.actor, part) else { return Ok(()) };
        tally.check(commit.held, || {
            format!("{} accepts request {part} before all brokers hold", scene.name())
        })
    }

    pub(super) fn all_granted(
        &mut self,
        scene: &Scene<'_>,
        number: u64,
        tally: &mut Tally,
    ) -> LawVerdict {
        let Some(commit) = self.commit(scene.actor, number) else { return Ok(()) };
        commit.complete = true;
        let (by, all) = (commit.by(), commit.asked.numbers().all(|n| commit.granted.contains(&n)));
        let handling = commit.asked.handling.clone();
        self.commits.remove(&(scene.actor, by, number));
        self.awaits_from(scene.actor, number, scene.at, &handling);
        tally.check(all, || {
            format!("{} says that group {number} has all tickets, and it has not", scene.name())
        })
    }

    pub(super) fn redeems(
        &mut self,
        scene: &Scene<'_>,
        lease: LeaseId,
        tally: &mut Tally,
    ) -> LawVerdict {
        let Some(commit) = self.commit_of(scene.actor, lease.number) else { return Ok(()) };
        tally.check(commit.complete, || {
            format!("{} redeems lease {lease} before all tickets are there", scene.name())
        })
    }

    /// The tickets of one of the brokers came.
    pub(super) fn takes_part(&mut self, scene: &Scene<'_>, fact: &Granted, number: u64) {
        let Some(group) = self.groups.get_mut(&(scene.actor, number)) else { return };
        let Some(commit) = &mut group.commit else { return };
        commit.granted.insert(fact.number);
        let asked = commit.asked.clone();
        let whole = |item| asked.item_of(fact.number, item);
        let of_whole = fact.tickets.iter().filter_map(|(i, t)| Some((whole(*i)?, t.clone())));
        let its = needed(&asked.request.items, &of_whole.collect::<Vec<_>>());
        for (needed, its) in group.needed.iter_mut().zip(its) {
            *needed = (*needed).max(its);
        }
        self.takes_in(scene, fact, (number, &asked.handling), whole);
    }

    /// No group of a guest at rest is without some of its tickets beyond its time.
    pub(super) fn none_is_half_granted(
        &self,
        scene: &Scene<'_>,
        (guest, clock): (ActorId, Time),
        tally: &mut Tally,
    ) -> LawVerdict {
        let first = self.commits.range((guest, Time::MIN, 0)..).next();
        let late = first.filter(|(whose, by, _)| *whose == guest && *by <= clock);
        tally.check(late.is_none(), || {
            let (name, number) = (scene.name(), late.map_or(0, |late| late.2));
            format!("{name} rests, though group {number} has not all tickets in time")
        })
    }
}
