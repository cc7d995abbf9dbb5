//! Requests whose items go to several brokers: a commit in two phases, coordinated by their group.
//!
//! Each broker is asked to hold its items from one start on. Once all hold, the offers are accepted; once all tickets
//! are there, they are redeemed. If a broker does not hold or grant in time, what the others did is undone, and the
//! next attempt begins at another start, or without the site that failed.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::group::{Event, Group, State, Why};
use super::machine::State as LeaseState;
use super::request::State as RequestState;
use super::{Output, ServiceManager};
use crate::actor::Emit as _;
use crate::actor::effect::Problem;
use crate::actor::fact::{BadFact, truncate_text};
use crate::model::identity::ActorId;
use crate::model::slice::{LeaseId, RequestId};
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::service_manager::facts::{
    Accepted, GaveUp, GroupAsked, GroupBroken, GroupGranted, GroupHeld, RedeemBegun,
};
use crate::service_manager::group::Handling;
use crate::service_manager::mapper::Ask;
use crate::ticket::Ticket;
use crate::wire::offer::{Offer, Reply};
use crate::wire::proviso::{History, Provisos};
use crate::wire::refusal::{Outlook, Refusal};
use crate::wire::request::{Item, Joins, Relation, Request};

/// The most brokers that one request goes to.
pub const MAX_BROKERS: usize = 8;

/// The most attempts at one request.
pub const MAX_TRIES: u32 = 100;

/// An attempt at a request that goes to several brokers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Joint {
    asked: GroupAsked,
    at: Time,
    /// The offers that are accepted, one of each request, once all are held.
    offers: Vec<u8>,
    /// When and why it failed, with what a broker said.
    failed: Option<(Time, Why, Option<Refusal>)>,
    /// The start of the next attempt, and the sites to avoid by then.
    retry: Option<(Time, BTreeSet<ActorId>)>,
}

/// An attempt, for display.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// What it asks for.
    pub asked: &'a GroupAsked,
    /// Where its group is in its life.
    pub state: State,
    /// Why it failed, if it has.
    pub failed: Option<Why>,
    /// What a broker or a site said by which it failed.
    pub refusal: Option<&'a Refusal>,
    /// Whether another attempt follows, or has followed.
    pub again: bool,
}

/// What follows from how the requests of an attempt stand.
pub(super) enum Turn {
    /// This part is asked for.
    Ask(usize),
    /// The attempt has failed.
    Break(Why),
    /// All brokers hold: these offers are to be accepted.
    Held(Vec<u8>),
    /// An offer is accepted.
    Accept(u64, u8),
    /// All tickets are there.
    Granted,
    /// A ticket is redeemed.
    Redeem(LeaseId),
    /// A request is given up.
    GiveUp(u64),
    /// The next attempt begins.
    Again,
}

impl GroupAsked {
    /// Whom it asks for which items, in the order of its requests.
    pub fn parts(&self) -> Vec<(ActorId, Vec<u16>)> {
        let mut parts: Vec<(ActorId, Vec<u16>)> = Vec::new();
        for (item, broker) in (0u16..).zip(&self.brokers) {
            match parts.iter_mut().find(|(known, _)| known == broker) {
                Some((_, items)) => items.push(item),
                None => parts.push((*broker, vec![item])),
            }
        }
        parts
    }

    /// The numbers of its requests.
    pub fn numbers(&self) -> Range<u64> {
        let brokers: BTreeSet<&ActorId> = self.brokers.iter().collect();
        self.group..self.group.saturating_add(u64::try_from(brokers.len()).unwrap_or(u64::MAX))
    }

    /// Which item of the whole an item of one of its requests is.
    pub fn item_of(&self, number: u64, item: u16) -> Option<u16> {
        let place = usize::try_from(number.checked_sub(self.group)?).ok()?;
        self.parts().get(place)?.1.get(usize::from(item)).copied()
    }

    /// For how long each broker is to hold.
    fn hold(&self) -> Span {
        match self.request.reply {
            Reply::Hold(span) => span,
            Reply::Grant | Reply::Plan => Span::ZERO,
        }
    }

    /// When all brokers must hold, if they were asked at `at`: there is as much time left to accept.
    pub fn held_by(&self, at: Time) -> Time {
        at.plus(Span::from_micros(self.hold().as_micros() / 2))
    }

    /// When all tickets must be there: no hold ends before.
    pub fn granted_by(&self, at: Time) -> Time {
        at.plus(self.hold())
    }

    /// When the tickets must be redeemed: what is granted and then lost is free again from then on.
    fn redeem_by(&self, at: Time) -> Time {
        let by = at.plus(self.hold().times(2));
        self.request.provisos.redeem_by.map_or(by, |wanted| wanted.min(by))
    }

    /// The items of one of its requests, the ends of links by their places there.
    fn items(&self, places: &[u16]) -> Vec<Item> {
        let place = |item: u16| places.iter().position(|known| *known == item);
        let place = |item| place(item).and_then(|at| u16::try_from(at).ok()).unwrap_or(u16::MAX);
        let own = |item: &u16| {
            let mut item = self.request.items.get(usize::from(*item))?.clone();
            if let Relation::Joins(Joins { ends, .. }) = &mut item.relation {
                *ends = ends.map(place);
            }
            Some(item)
        };
        places.iter().filter_map(own).collect()
    }

    /// The start of the frame after this one, if the window has several.
    fn next_frame(&self) -> Option<Time> {
        let window = self.request.latest.since(self.request.earliest);
        let frames = i64::from(self.tries).saturating_sub(1).max(1);
        let step = Span::from_micros(window.as_micros() / frames);
        step.is_positive().then(|| self.start.plus(step))
    }

    /// Why this cannot be asked of several brokers, if so.
    fn check(&self) -> Result<(), String> {
        let Request { items, duration, min_duration, .. } = &self.request;
        self.request.check()?;
        if self.brokers.len() != items.len() {
            return Err(format!("{} items need as many brokers", items.len()));
        }
        if self.parts().len() > MAX_BROKERS {
            return Err(format!("a request goes to at most {MAX_BROKERS} brokers"));
        }
        if self.tries == 0 || self.tries > MAX_TRIES {
            return Err(format!("there are 1 to {MAX_TRIES} tries, not {}", self.tries));
        }
        if min_duration != duration || self.request.choices().len() > 1 {
            return Err("several brokers are asked for one length and no alternatives".to_owned());
        }
        if !self.handling.after.is_empty() {
            return Err("what several brokers are asked for waits for no other lease".to_owned());
        }
        let together = |item: &Item| item.together;
        for (place, (item, broker)) in items.iter().zip(&self.brokers).enumerate() {
            let mut others = items.iter().zip(&self.brokers);
            let of_one = item.together.is_none()
                || others.all(|(other, of)| together(other) != item.together || of == broker);
            let ends = item.joins().map_or(&[][..], |joins| &joins.ends);
            let near = ends.iter().all(|end| self.brokers.get(usize::from(*end)) == Some(broker));
            if item.extends.is_some() || !of_one {
                return Err(format!("item {place} goes to one broker with others"));
            }
            if !near {
                return Err(format!(
                    "item {place} is a link, and its broker has not both ends: ask for an edge by its type"
                ));
            }
        }
        Ok(())
    }
}

impl Joint {
    pub(super) fn numbers(&self) -> Range<u64> {
        self.asked.numbers()
    }

    /// When its requests were made.
    pub(super) fn begun(&self) -> Time {
        self.at
    }

    pub(super) fn handling(&self) -> &Handling {
        &self.asked.handling
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.asked.request.items
    }

    /// The tickets of one of its requests, each with the item of the whole.
    pub(super) fn of_whole(
        &self,
        number: u64,
        leases: &[(LeaseId, u16, Ticket)],
    ) -> Vec<(LeaseId, u16, Ticket)> {
        let whole = |(id, item, ticket): &(LeaseId, u16, Ticket)| {
            Some((*id, self.asked.item_of(number, *item)?, ticket.clone()))
        };
        leases.iter().filter_map(whole).collect()
    }
}

impl ServiceManager {
    /// Asks several brokers, of each item the one that is named.
    pub(super) fn ask_several(
        &mut self,
        now: Time,
        ask: Ask,
        (brokers, hold, tries): (Vec<ActorId>, Span, u32),
        out: &mut Output,
    ) -> Result<(), String> {
        if let Some((first, rest)) = brokers.split_first()
            && brokers.len() == ask.items.len()
            && rest.iter().all(|broker| broker == first)
        {
            return self.ask(now, Ask { broker: Some(*first), ..ask }, None, out);
        }
        if ask.reply != Reply::Grant {
            return Err("several brokers are asked for tickets, not for offers".to_owned());
        }
        if Span::from_micros(hold.as_micros() / 2) <= self.base.two_margins() {
            let least = self.base.two_margins().times(2);
            return Err(format!("several brokers hold for longer than {least}, not for {hold}"));
        }
        if ask.latest < now {
            return Err(format!("the latest start, {}, is over", ask.latest));
        }
        for broker in &brokers {
            self.broker(Some(*broker))?;
        }
        self.check_ask(now, &ask)?;
        let group = self.state.last_number + 1;
        let request = Request {
            id: RequestId { origin: self.base.id(), number: group },
            items: ask.items,
            earliest: ask.earliest,
            latest: ask.latest,
            duration: ask.duration,
            min_duration: ask.min_duration,
            reply: Reply::Hold(hold),
            answer_by: ask.answer_by,
            properties: ask.properties,
            provisos: ask.provisos,
            history: History::first(now),
            receipts: Vec::new(),
        };
        let asked = GroupAsked {
            group,
            before: None,
            start: request.earliest.max(now),
            request,
            brokers,
            tries,
            avoid: BTreeSet::new(),
            slice: ask.slice,
            configuration: ask.configuration,
            handling: ask.handling,
            reason: truncate_text(&ask.reason),
        };
        asked.check()?;
        self.emit(now, asked, out);
        self.ask_parts(now, group, out);
        Ok(())
    }

    /// Asks for the parts that are not asked for yet.
    fn ask_parts(&mut self, now: Time, group: u64, out: &mut Output) {
        while let Some((_, turn @ Turn::Ask(_))) = self.joint_turn(group, now) {
            self.take_turn(now, group, turn, out);
        }
    }

    /// What is next for an attempt, and when it is due.
    pub(super) fn joint_turn(&self, number: u64, at: Time) -> Option<(Time, Turn)> {
        let group = self.state.groups.get(&number)?;
        let joint = group.joint()?;
        match group.state() {
            State::Holding => Some(self.hold_turn(joint)),
            State::Accepting => Some(self.accept_turn(group, joint)),
            State::Assembling => {
                self.to_redeem(group).map(|lease| (Time::MIN, Turn::Redeem(lease)))
            }
            State::GivingBack { .. } => {
                let open = joint.numbers().find(|&number| self.is_held(number));
                let give_up = open.map(|number| (Time::MIN, Turn::GiveUp(number)));
                give_up.or_else(|| Some((self.again(joint, joint.frees_by()?)?, Turn::Again)))
            }
            State::Over => Some((self.again(joint, at)?, Turn::Again)),
            State::Whole => None,
        }
    }

    /// Whether a broker is asked, or holds something, for a request.
    fn is_held(&self, number: u64) -> bool {
        matches!(
            self.request(number),
            Some(
                RequestState::Asked | RequestState::Offered { .. } | RequestState::Accepting { .. }
            )
        )
    }

    fn hold_turn(&self, joint: &Joint) -> (Time, Turn) {
        let (mut late, mut held) = (None, Vec::new());
        for (place, number) in joint.numbers().enumerate() {
            let Some(request) = self.state.requests.get(&number) else {
                return (Time::MIN, Turn::Ask(place));
            };
            match &request.state {
                RequestState::Asked => late = late.or(Some(number)),
                RequestState::Offered { offers, .. } => {
                    let wanted = &request.wanted;
                    let good = (1u8..)
                        .zip(offers)
                        .filter(|(_, offer)| start_of(wanted, offer) == Some(wanted.earliest));
                    held.push((number, good.collect::<Vec<_>>()));
                }
                RequestState::Accepting { .. }
                | RequestState::GivenUp
                | RequestState::Planned { .. }
                | RequestState::Granted { .. }
                | RequestState::Refused { .. }
                | RequestState::Unanswered => {
                    return (Time::MIN, Turn::Break(Why::NotHeld(number)));
                }
            }
        }
        if let Some((number, _)) = held.iter().find(|(_, good)| good.is_empty()) {
            return (Time::MIN, Turn::Break(Why::NotHeld(*number)));
        }
        if mutant!(AcceptsEachHold)
            && let Some((number, good)) = held.first()
            && let Some((offer, _)) = good.first()
        {
            return (Time::MIN, Turn::Accept(*number, *offer));
        }
        if let Some(late) = late {
            return (joint.asked.held_by(joint.at), Turn::Break(Why::NotHeld(late)));
        }
        let turn = match apart(joint, &held, &BTreeSet::new()) {
            Some(offers) => Turn::Held(offers),
            None => Turn::Break(Why::NotApart),
        };
        (Time::MIN, turn)
    }

    fn accept_turn(&self, group: &Group, joint: &Joint) -> (Time, Turn) {
        if let Some(lease) = group.lost() {
            return (Time::MIN, Turn::Break(Why::Lost(lease)));
        }
        if mutant!(RedeemsBeforeAll)
            && let Some(lease) = self.to_redeem(group)
        {
            return (Time::MIN, Turn::Redeem(lease));
        }
        let mut late = None;
        for (number, offer) in joint.numbers().zip(&joint.offers) {
            match self.request(number) {
                Some(RequestState::Offered { .. }) => {
                    return (Time::MIN, Turn::Accept(number, *offer));
                }
                Some(RequestState::Accepting { .. }) => late = late.or(Some(number)),
                Some(RequestState::Granted { .. }) => {}
                Some(
                    RequestState::Asked
                    | RequestState::GivenUp
                    | RequestState::Planned { .. }
                    | RequestState::Refused { .. }
                    | RequestState::Unanswered,
                )
                | None => return (Time::MIN, Turn::Break(Why::NotGranted(number))),
            }
        }
        match late {
            Some(_) if mutant!(AcceptsForEver) => (Time::MAX, Turn::Granted),
            Some(late) => (joint.asked.granted_by(joint.at), Turn::Break(Why::NotGranted(late))),
            None => (Time::MIN, Turn::Granted),
        }
    }

    /// A lease of a group whose ticket was kept until all were there.
    fn to_redeem(&self, group: &Group) -> Option<LeaseId> {
        let ticketed = |id: &LeaseId| matches!(self.lease(*id), Some(LeaseState::Ticketed { .. }));
        group.awaited().find(ticketed)
    }

    /// When the next attempt begins, if there is one: with a failed attempt out of the way at `free`.
    fn again(&self, joint: &Joint, free: Time) -> Option<Time> {
        let (start, _) = joint.retry.as_ref()?;
        let request = &joint.asked.request;
        let in_time = (*start).max(free) <= request.latest && free < request.answer_by;
        (in_time && request.history.tries < joint.asked.tries).then_some(free)
    }

    /// Does what is due for an attempt.
    pub(super) fn take_turn(&mut self, now: Time, group: u64, turn: Turn, out: &mut Output) {
        match turn {
            Turn::Ask(place) => self.ask_part(now, group, place, out),
            Turn::Break(why) => self.emit(now, GroupBroken { group, why }, out),
            Turn::Held(offers) => self.emit(now, GroupHeld { group, offers }, out),
            Turn::Accept(number, offer) => self.emit(now, Accepted { number, offer }, out),
            Turn::Granted => self.emit(now, GroupGranted { group }, out),
            Turn::Redeem(lease) => self.redeem_part(now, lease, out),
            Turn::GiveUp(number) => self.emit(now, GaveUp { number }, out),
            Turn::Again => self.try_again(now, group, out),
        }
    }

    /// Redeems a ticket now that all are there, or gives it back if it is too late: its group breaks then.
    fn redeem_part(&mut self, now: Time, lease: LeaseId, out: &mut Output) {
        let Some(LeaseState::Ticketed { ticket, .. }) = self.lease(lease) else { return };
        if self.too_late_to_redeem(now, ticket.bottom()).is_none() {
            self.emit(now, RedeemBegun { lease }, out);
        } else if let Err(cause) = self.close(now, lease, out) {
            out.problems.push(Problem::Command(cause));
        }
    }

    /// Asks a broker to hold its items.
    fn ask_part(&mut self, now: Time, group: u64, place: usize, out: &mut Output) {
        let Some(joint) = self.state.groups.get(&group).and_then(Group::joint) else { return };
        let (asked, at) = (&joint.asked, joint.at);
        let Some((broker, places)) = asked.parts().into_iter().nth(place) else { return };
        let whole = &asked.request;
        let not_at = whole.provisos.not_at.union(&asked.avoid).copied().collect();
        let provisos = Provisos {
            redeem_by: Some(asked.redeem_by(at)),
            not_at,
            not_on: whole.provisos.not_on.clone(),
        };
        let number = group.saturating_add(u64::try_from(place).unwrap_or(u64::MAX));
        let ask = Ask {
            broker: Some(broker),
            slice: asked.slice.clone(),
            items: asked.items(&places),
            earliest: asked.start,
            latest: asked.start,
            duration: whole.duration,
            min_duration: whole.duration,
            reply: whole.reply,
            answer_by: asked.held_by(at),
            properties: whole.properties.clone(),
            configuration: asked.configuration.clone(),
            // They are redeemed once all are there.
            handling: Handling { keep_tickets: true, ..asked.handling.clone() },
            reason: asked.reason.clone(),
            provisos,
            again: asked.before.map(|before| before.saturating_add(number - group)),
        };
        if self.ask_under(now, (number, ask), None, out).is_err() {
            self.emit(now, GroupBroken { group, why: Why::NotHeld(number) }, out);
        }
    }

    fn try_again(&mut self, now: Time, number: u64, out: &mut Output) {
        let joint = self.state.groups.get(&number).and_then(Group::joint);
        let Some((joint, (start, avoid))) = joint.and_then(|j| Some((j, j.retry.clone()?))) else {
            return;
        };
        if self.again(joint, now).is_none() {
            // It came due too late.
            return self.state.timers.set(super::Timer::Group(number), None);
        }
        let (group, mut asked) = (self.state.last_number + 1, joint.asked.clone());
        asked.request.id.number = group;
        asked.request.history.tries = asked.request.history.tries.saturating_add(1);
        let start = start.max(now);
        let asked = GroupAsked { group, before: Some(number), start, avoid, ..asked };
        self.emit(now, asked, out);
        self.ask_parts(now, group, out);
    }

    /// Its user wants nothing more of a request that goes to several brokers, as long as it is not met.
    pub(super) fn give_group_up(&mut self, now: Time, number: u64, out: &mut Output) {
        let Some(group) = self.last_attempt(number).map(|numbers| numbers.start) else { return };
        let Some(record) = self.state.groups.get(&group) else { return };
        let retries = record.joint().is_some_and(|joint| joint.retry.is_some());
        let stops = match record.state() {
            State::Holding | State::Accepting | State::Assembling => true,
            State::GivingBack { .. } => retries,
            State::Whole | State::Over => false,
        };
        if stops {
            self.emit(now, GroupBroken { group, why: Why::GivenUp }, out);
        }
    }

    /// Whether a ticket waits for those of other brokers.
    pub(super) fn is_joining(&self, lease: LeaseId) -> bool {
        let group = self.state.parts.get(&lease.number).and_then(|of| self.group(*of));
        matches!(group, Some(State::Accepting))
    }

    /// The attempt that followed one.
    pub fn next_attempt(&self, number: u64) -> Option<u64> {
        let mut later = self.state.groups.range(number.saturating_add(1)..);
        let next = later.find(|(_, group)| {
            group.joint().is_some_and(|joint| joint.asked.before == Some(number))
        });
        next.map(|(&number, _)| number)
    }

    /// The attempt that a request is a part of.
    pub fn attempt(&self, number: u64) -> Option<Attempt<'_>> {
        let of = *self.state.parts.get(&number)?;
        let group = self.state.groups.get(&of)?;
        let joint = group.joint()?;
        let again = joint.frees_by().is_some_and(|free| self.again(joint, free).is_some());
        Some(Attempt {
            asked: &joint.asked,
            state: group.state(),
            failed: joint.failed.as_ref().map(|(_, why, _)| *why),
            refusal: joint.failed.as_ref().and_then(|(_, _, refusal)| refusal.as_ref()),
            again: again || self.next_attempt(of).is_some(),
        })
    }

    /// The requests of the last attempt at what a request is a part of.
    pub fn last_attempt(&self, number: u64) -> Option<Range<u64>> {
        let mut group = *self.state.parts.get(&number)?;
        while let Some(next) = self.next_attempt(group) {
            group = next;
        }
        Some(self.state.groups.get(&group)?.joint()?.numbers())
    }

    pub(super) fn group_asked(&mut self, at: Time, fact: &GroupAsked) {
        let asked = fact.clone();
        let joint = Joint { asked, at, offers: Vec::new(), failed: None, retry: None };
        self.state.groups.insert(fact.group, Group::holding(joint));
        // Nothing else has the numbers of its requests, also if they are never made.
        let last = fact.numbers().end.saturating_sub(1);
        self.state.last_number = self.state.last_number.max(last);
        if let Some(before) = fact.before {
            if let Some(joint) = self.state.groups.get_mut(&before).and_then(Group::joint_mut) {
                joint.retry = None;
            }
            self.refresh_group(before, at);
        }
        self.refresh_group(fact.group, at);
    }

    /// A request was made: it may be one of those of a group.
    pub(super) fn part_asked(&mut self, number: u64, at: Time) {
        let Some((&group, record)) = self.state.groups.range(..=number).next_back() else { return };
        if record.joint().is_some_and(|joint| joint.numbers().contains(&number)) {
            self.state.parts.insert(number, group);
            self.refresh_group(group, at);
        }
    }

    pub(super) fn group_held(&mut self, at: Time, fact: &GroupHeld) -> Result<(), BadFact> {
        if let Some(joint) = self.state.groups.get_mut(&fact.group).and_then(Group::joint_mut) {
            joint.offers = fact.offers.clone();
        }
        self.step_group(at, fact.group, Event::Held)
    }

    /// Notes what another attempt would be, before what the failed one has is let go.
    pub(super) fn note_failure(&mut self, at: Time, number: u64, why: Why) {
        let group = self.state.groups.get(&number);
        let retry = group.and_then(|group| self.retry(group, group.joint()?, why));
        let refusal = self.refusal_behind(why);
        if let Some(joint) = self.state.groups.get_mut(&number).and_then(Group::joint_mut) {
            joint.failed = Some((at, why, refusal));
            joint.retry = retry;
        }
    }

    /// What a broker or a site said by which an attempt fails.
    fn refusal_behind(&self, why: Why) -> Option<Refusal> {
        match why {
            Why::NotHeld(number) | Why::NotGranted(number) => match self.request(number)? {
                RequestState::Offered { refusal, .. } => refusal.clone(),
                RequestState::Refused { refusal, .. } => Some(refusal.clone()),
                RequestState::Asked
                | RequestState::Accepting { .. }
                | RequestState::GivenUp
                | RequestState::Planned { .. }
                | RequestState::Granted { .. }
                | RequestState::Unanswered => None,
            },
            Why::Lost(lease) | Why::Late(lease) => {
                let (_, refusal) = self.state.leases.get(&lease)?.closed_by.as_ref()?;
                Some(refusal.clone())
            }
            Why::NotApart | Why::GivenUp => None,
        }
    }

    /// From when on the next attempt is, and which sites it avoids.
    fn retry(&self, group: &Group, joint: &Joint, why: Why) -> Option<(Time, BTreeSet<ActorId>)> {
        let asked = &joint.asked;
        match (why, group.state()) {
            (Why::GivenUp, _) | (_, State::Whole) => None,
            (Why::Lost(lease) | Why::Late(lease), State::Assembling) => {
                let site = group.site_of(lease);
                Some((asked.start, asked.avoid.iter().copied().chain(site).collect()))
            }
            (
                Why::Lost(_) | Why::Late(_) | Why::NotHeld(_) | Why::NotGranted(_) | Why::NotApart,
                _,
            ) => self.next_start(joint),
        }
    }

    /// The next start at which all brokers may hold what they are asked for.
    fn next_start(&self, joint: &Joint) -> Option<(Time, BTreeSet<ActorId>)> {
        let asked = &joint.asked;
        let (mut start, mut avoid) = (None, asked.avoid.clone());
        for number in joint.numbers() {
            let Some(request) = self.state.requests.get(&number) else { continue };
            let wanted = &request.wanted;
            if let RequestState::Refused { refusal, .. } = &request.state {
                if matches!(refusal, Refusal::Excluded { .. }) && !avoid.is_empty() {
                    // There is no other site: it may do at another time.
                    avoid.clear();
                } else if refusal.outlook() != Outlook::Later {
                    return None;
                }
            }
            let offers = request.state.offers();
            let starts: BTreeSet<Time> =
                offers.iter().filter_map(|offer| start_of(wanted, offer)).collect();
            if !starts.contains(&asked.start) {
                let later = starts.into_iter().find(|start| *start > asked.start);
                start = start.max(later.or_else(|| asked.next_frame()));
            }
        }
        let start = start.or_else(|| asked.next_frame())?;
        Some((start, avoid))
    }

    /// A request is forgotten: with the last one its group may be.
    pub(super) fn forget_part(&mut self, number: u64) {
        if let Some(group) = self.state.parts.remove(&number) {
            self.forget_empty(group);
        }
    }
}

impl Joint {
    /// When all that a failed attempt had is surely free, or as good as that.
    fn frees_by(&self) -> Option<Time> {
        Some(self.failed.as_ref()?.0.plus(self.asked.hold()))
    }
}

/// The common start at which an offer meets a request in all but the start, if it does.
fn start_of(request: &Request, offer: &Offer) -> Option<Time> {
    let first = offer.parts.first()?;
    let offset = request.items.get(usize::from(first.item))?.offset;
    let start = first.term.start().minus(offset);
    let common = Term::lasting(start, request.duration).ok()?;
    let in_time = offer.parts.iter().all(|part| {
        let item = request.items.get(usize::from(part.item));
        item.and_then(|item| item.term(common)) == Some(part.term)
    });
    let units = offer.units_of_each(request.items.len());
    (in_time && request.is_met_by(&units)).then_some(start)
}

/// One offer of each request, so that items that belong apart come from different sites.
fn apart(
    joint: &Joint,
    held: &[(u64, Vec<(u8, &Offer)>)],
    taken: &BTreeSet<(u8, ActorId)>,
) -> Option<Vec<u8>> {
    let Some(((number, offers), rest)) = held.split_first() else { return Some(Vec::new()) };
    offers.iter().find_map(|(choice, offer)| {
        let sites = offer.parts.iter().filter_map(|part| {
            let item = joint.asked.item_of(*number, part.item)?;
            let apart = joint.items().get(usize::from(item))?.apart()?;
            Some((apart, part.site))
        });
        let sites: BTreeSet<(u8, ActorId)> = sites.collect();
        if !sites.is_disjoint(taken) {
            return None;
        }
        let rest = apart(joint, rest, &sites.union(taken).copied().collect())?;
        Some([vec![*choice], rest].concat())
    })
}
