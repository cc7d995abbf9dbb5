//! What a site authority does with time, drivers, operators and its mapper.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use super::delegations::Asked;
use super::{Command, Obligation, Offer, SiteAuthority, Timer, UnitPool};
use crate::actor::common::CommonActor as _;
use crate::actor::effect::{DriverResult, Problem};
use crate::actor::fact::truncate_text;
use crate::actor::invitations::PeerKeeper as _;
use crate::actor::keys::KeyHolder as _;
use crate::actor::{Emit as _, dropped};
use crate::driver::{Step, UnitId};
use crate::model::identity::ActorId;
use crate::model::price::price_of;
use crate::model::property::Properties;
use crate::model::resource::Constraints;
use crate::model::time::{Term, Time};
use crate::mutants::mutant;
use crate::site_authority::Output;
use crate::site_authority::facts::{
    CameDue, DelegationAcknowledged, DelegationEnded, DelegationIssued, LeaseActivated,
    LeaseClosed, LeaseForgotten, MapperAnswered, UnitSetUp, UnitSetupFailed, UnitTeardownFailed,
    UnitTornDown, UnitsAssigned, Woken,
};
use crate::site_authority::machine::{CloseReason, State};
use crate::site_authority::mapper::{Assignment, Decision};
use crate::ticket::Ticket;
use crate::ticket::link::{Clauses, DelegationId, Generation, Link, LinkHash, SignedLink};
use crate::wire::message::{MAX_UNIT_BYTES, Message, Sealed};
use crate::wire::refusal::Refusal;

impl SiteAuthority {
    pub(super) fn start(&mut self, now: Time, out: &mut Output) {
        self.journal_settings(now, out);
        self.take_stock(now, out);
        self.take_stacks(now, out);
        for (index, offer) in self.plan.offers.clone().into_iter().enumerate() {
            let issued = self.state.delegations.values().any(|held| self.is_offered(held, &offer));
            if !issued {
                self.offer(now, index, &offer, out);
            }
        }
        self.update_delegations(now, out);
        self.emit(now, Woken {}, out);
        self.start_listening(now);
    }

    pub(super) fn command(&mut self, now: Time, command: Command, out: &mut Output) {
        match command {
            Command::Keys(command) => {
                if let Err(cause) = self.change_keys(now, command, out) {
                    out.problems.push(Problem::Command(cause));
                }
            }
            Command::Peers(command) => {
                if let Err(cause) = self.change_peers(now, command, out) {
                    out.problems.push(Problem::Command(cause));
                }
            }
            Command::Reset { unit } => self.reset(now, unit, out),
            Command::Add { resource, name, attributes } => {
                self.add(now, (resource, name, attributes), out);
            }
            Command::Drain { unit, by } => self.drain(now, unit, by, out),
            Command::Resume { unit } => self.resume(now, unit, out),
            Command::Quarantine { unit, why } => self.quarantine(now, unit, &why, out),
            Command::Fail { unit, epoch, why } => self.fail_unit(now, unit, (epoch, &why), out),
            Command::Remove { unit } => self.remove(now, unit, out),
            Command::Stock { resource, units } => self.stock(now, resource, units, out),
            Command::Withdraw { resource, units } => self.withdraw(now, resource, units, out),
            Command::Delegate { broker, resource, units, length, grow } => {
                self.delegate(now, Asked { broker, resource, units, length, grow }, out);
            }
            Command::Recall { delegation, units, from } => {
                self.withdraw_delegated(now, delegation, (units, from), out);
            }
        }
    }

    /// Issues the first generation of a delegation, if the stock covers it beside all others.
    fn offer(&mut self, now: Time, index: usize, offer: &Offer, out: &mut Output) {
        if self.is_for_no_unit(offer) {
            return;
        }
        let left = self.undelegated(&offer.resource);
        if offer.units.get() > left {
            let cause = format!(
                "offer {index}: {} units of `{}` cannot be delegated, {left} are left",
                offer.units, offer.resource
            );
            return out.problems.push(Problem::Command(cause));
        }
        let number = self.state.last_delegation + 1;
        match Term::lasting(now, offer.length) {
            Ok(term) => self.issue(now, offer, number, 0, term, out),
            Err(empty) => out.problems.push(Problem::Command(empty.to_string())),
        }
    }

    fn issue(
        &mut self,
        now: Time,
        offer: &Offer,
        delegation: u64,
        generation: u32,
        term: Term,
        out: &mut Output,
    ) {
        let ticket = self.generation(offer, (delegation, generation), term);
        self.emit(now, DelegationIssued { ticket }, out);
    }

    /// The ticket of a generation of a delegation.
    pub(super) fn generation(
        &mut self,
        offer: &Offer,
        (delegation, generation): (u64, u32),
        term: Term,
    ) -> Ticket {
        let stock = self.state.stocks.get(&offer.resource);
        let price = stock.and_then(|stock| price_of(&stock.attributes));
        let assurance = stock.map(UnitPool::assurance).unwrap_or_default();
        let stacked = self.stacked_unit(offer);
        Ticket::root_of(self.base.credentials.sign_link(Link {
            parent: None,
            issuer: self.base.id(),
            holder: offer.broker,
            resource: offer.resource.clone(),
            units: offer.units,
            term,
            constraints: Constraints::NONE,
            clauses: Clauses { assurance, stacked, ..Clauses::NONE }.priced(price),
            delegation: Some(Generation { delegation, generation }),
            extends: None,
            serial: self.base.position,
        }))
    }

    /// Renews a delegation before it ends: same number, next generation, longer term.
    fn renew(&mut self, now: Time, number: u64, out: &mut Output) {
        let Some((offer, link)) = self.offered(number) else {
            return self.state.timers.set(Timer::Renewal(number), None);
        };
        let end = link.term.end().max(now).plus(offer.length);
        if end > link.term.end() {
            self.reissue(now, number, end, out);
        } else {
            // It reaches to the end of time already.
            self.state.timers.set(Timer::Renewal(number), None);
        }
    }

    /// Issues the next generation of each delegation that is outdated.
    fn update_delegations(&mut self, now: Time, out: &mut Output) {
        let numbers = self.state.delegations.keys().copied();
        let outdated: Vec<u64> = numbers.filter(|&number| self.is_outdated(number)).collect();
        for number in outdated {
            let Some((offer, link)) = self.offered(number) else { continue };
            let end = link.term.end().max(now.plus(offer.length));
            self.reissue(now, number, end, out);
        }
    }

    /// Whether a delegation is for fewer units than can be offered by now, or its broker knows other
    /// attributes.
    fn is_outdated(&self, number: u64) -> bool {
        let Some((offer, _)) = self.offered(number) else { return false };
        self.units_of_next(number, &offer) > self.left_of_delegation(number)
            || self.has_other_attributes(number) && self.left_of_delegation(number) > 0
    }

    /// Whether the plan has been carried out: what it has is stocked, what it offers is delegated as far as
    /// there are units, and the brokers have acknowledged it.
    pub fn is_settled(&self) -> bool {
        let delegated = |offer: &Offer| {
            self.state.delegations.values().any(|held| self.is_offered(held, offer))
                || offer.units.get() > self.undelegated(&offer.resource)
                || self.is_for_no_unit(offer)
        };
        let open = |&number: &u64| {
            self.state.pending.requires(&Obligation::Delegate(number)) || self.is_outdated(number)
        };
        self.plan.stock.iter().all(|stock| self.follows(stock))
            && self.plan.offers.iter().all(delegated)
            && !self.state.delegations.keys().any(open)
    }

    /// A delegation with the offer that it follows, if it is still offered.
    fn offered(&self, number: u64) -> Option<(Offer, SignedLink)> {
        let held = self.state.delegations.get(&number)?;
        let offer = self.plan.offers.iter().find(|offer| self.is_offered(held, offer))?;
        Some((offer.clone(), held.ticket.bottom().clone()))
    }

    /// If more is offered by now, the next generation grows as far as the stock allows; it never shrinks.
    /// What came back is not offered again.
    fn units_of_next(&self, number: u64, offer: &Offer) -> u32 {
        let Some(delegation) = self.state.delegations.get(&number) else { return 0 };
        let offered = offer.units.get().saturating_sub(delegation.given_back);
        let more = offered.saturating_sub(delegation.left);
        let more = more.min(self.undelegated(&offer.resource));
        delegation.left.saturating_add(more)
    }

    /// The units that a broker has when the newest generation of its delegation ends.
    fn left_of_delegation(&self, number: u64) -> u32 {
        self.state.delegations.get(&number).map_or(0, |delegation| delegation.left)
    }

    fn reissue(&mut self, now: Time, number: u64, end: Time, out: &mut Output) {
        let Some((offer, link)) = self.offered(number) else { return };
        let Some(Generation { generation, .. }) = link.delegation else { return };
        let units = self.units_of_next(number, &offer);
        let units = if mutant!(RenewalGrows) { link.units.get().saturating_add(1) } else { units };
        let Some(units) = NonZeroU32::new(units) else {
            // All of it came back.
            return self.state.timers.set(Timer::Renewal(number), None);
        };
        let offer = Offer { units, ..offer };
        if let Ok(term) = Term::new(link.term.start(), end) {
            self.issue(now, &offer, number, generation + 1, term, out);
        }
    }

    pub(super) fn tick(&mut self, now: Time, out: &mut Output) {
        while let Some(timer) = self.state.timers.due(now) {
            match timer {
                Timer::Wake => self.emit(now, Woken {}, out),
                Timer::Renewal(number) => self.renew(now, number, out),
                Timer::DelegationEnd(number) => self.emit(now, DelegationEnded { number }, out),
                Timer::Seam(lease) => self.shrink(now, lease, out),
                Timer::Recall(link) => self.recall_rights(now, link, out),
                Timer::Cut(lease) => self.cut(now, lease, out),
                Timer::Needed(unit) => self.need(now, unit, out),
                Timer::Lease(lease) => {
                    match self.state.leases.get(&lease).map(|lease| &lease.state) {
                        Some(State::Early) => self.emit(now, CameDue { lease }, out),
                        Some(State::Due | State::Priming { .. } | State::Active { .. }) => {
                            let (why, receipts) = (CloseReason::TermOver, Vec::new());
                            self.emit(now, LeaseClosed { lease, why, receipts }, out);
                        }
                        Some(State::Closed { .. }) | None => {
                            self.emit(now, LeaseForgotten { lease }, out);
                        }
                    }
                }
            }
        }
        self.end_silent(now, out);
    }

    #[allow(clippy::too_many_lines, reason = "a line or two for each kind of message")]
    pub(super) fn message(&mut self, now: Time, sealed: &Sealed, out: &mut Output) {
        let Some(envelope) = self.open(now, sealed, out) else { return };
        let from = envelope.header.from;
        let kind = envelope.message.kind();
        match envelope.message {
            Message::Delegated { delegation, generation } => {
                self.acknowledged(now, from, delegation, generation, out);
            }
            Message::Redeem { ticket, lease, slice, min_units, configuration, victims } => {
                let shown = (ticket, lease, slice, min_units, configuration, victims);
                self.redeem(now, from, shown, out);
            }
            Message::Return { ticket, number, part } => {
                self.take_part_back(now, from, &ticket, (number, part), out);
            }
            Message::Modify { ticket, number, configuration } => {
                self.modify(now, from, &ticket, (number, configuration), out);
            }
            Message::Close { tickets } => self.close(now, from, &tickets, out),
            Message::Reclaim { ticket } => self.reclaim(now, from, &ticket, out),
            Message::Recall { ticket, level } => self.recall(now, from, &ticket, level, out),
            Message::RecallNoted { link, number, unclaimed: true, .. } => {
                self.rights_noted(now, from, (link, number), out);
            }
            Message::RecallNoted { ticket, link, number, victims, unclaimed: false } => {
                self.noted(now, from, (ticket, link, number), victims, out);
            }
            // That an issuer has seen what it was shown changes nothing here.
            Message::Credited { .. } => {}
            Message::Heartbeat { leases } => {
                self.heartbeat(now, &envelope.header, leases, out);
            }
            Message::Refused { .. }
            | Message::Waiting { .. }
            | Message::Offered { .. }
            | Message::Accept { .. }
            | Message::Withdraw(_)
            | Message::Delegate { .. }
            | Message::Request(_)
            | Message::Granted { .. }
            | Message::Leased { .. }
            | Message::Closed { .. }
            | Message::Returned { .. }
            | Message::Modified { .. }
            | Message::Reclaimed { .. }
            | Message::Recalled { .. }
            | Message::RecallNotice { .. }
            | Message::Need(_)
            | Message::Noted { .. }
            | Message::Hosts(_)
            | Message::HostsNoted { .. }
            | Message::HostsChanged { .. }
            | Message::Restate { .. }
            | Message::UnitFailed { .. }
            | Message::Keys { .. }
            | Message::KeysNoted { .. }
            | Message::Join(_)
            | Message::Joined { .. }
            | Message::Inquire(_)
            | Message::Available { .. }
            | Message::HandOver(_)
            | Message::HandedBack(_)
            | Message::AskPortion(_)
            | Message::PortionBack(_)
            | Message::PortionDecided { .. }
            | Message::HeartbeatHeard { .. }
            | Message::Advert(_)
            | Message::AdvertWanted
            | Message::Ping
            | Message::Pong { .. }
            | Message::Credit { .. } => {
                out.problems.push(dropped(kind, "a site does not take it"));
            }
        }
    }

    fn acknowledged(
        &mut self,
        now: Time,
        from: ActorId,
        id: DelegationId,
        generation: u32,
        out: &mut Output,
    ) {
        let current = self.state.delegations.get(&id.number).map(|d| d.ticket.bottom().clone());
        let matches = current.is_some_and(|link| {
            link.holder == from && link.delegation.is_some_and(|g| g.generation == generation)
        });
        if matches && self.state.pending.requires(&Obligation::Delegate(id.number)) {
            self.emit(now, DelegationAcknowledged { number: id.number, generation }, out);
        }
    }

    pub(super) fn driver_done(&mut self, now: Time, done: DriverResult, out: &mut Output) {
        let DriverResult { unit, epoch, step, .. } = done;
        let obligation = match step {
            Step::Setup => Obligation::Setup(unit),
            Step::Teardown => Obligation::Teardown(unit),
            Step::Modify => return self.modify_done(now, done, out),
            Step::Join | Step::Leave | Step::Warn | Step::Install | Step::Remove => {
                return out.problems.push(super::wrong("guest's step"));
            }
        };
        let current = self
            .state
            .units
            .get(&unit)
            .is_some_and(|record| record.epoch == epoch || mutant!(AnyEpochWillDo));
        if !current || !self.state.pending.requires(&obligation) {
            let cause = format!("{} of {unit} in {epoch:?} is not owed", step.word());
            return out.problems.push(Problem::Command(cause));
        }
        let tenant = self.state.units.get(&unit).and_then(|record| record.state.tenant());
        match (step, done.outcome) {
            (Step::Setup, Ok(properties)) => {
                self.emit(now, UnitSetUp { unit, epoch, properties }, out);
            }
            (Step::Setup, Err(error)) => {
                self.emit(
                    now,
                    UnitSetupFailed { unit, epoch, error: truncate_text(&error.0) },
                    out,
                );
            }
            (_, Ok(_)) => {
                self.emit(now, UnitTornDown { unit, epoch }, out);
                self.quarantine_if_bad(now, unit, out);
            }
            (_, Err(error)) => {
                self.emit(
                    now,
                    UnitTeardownFailed { unit, epoch, error: truncate_text(&error.0) },
                    out,
                );
            }
        }
        if let Some(lease) = tenant {
            self.settle(now, lease, out);
        }
    }

    /// A lease whose units are all ready goes active.
    pub(super) fn settle(&mut self, now: Time, hash: LinkHash, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash) else { return };
        let complete = (now < lease.term.end() || mutant!(NoTermRecheck))
            && matches!(&lease.state, State::Priming { pending, .. } if pending.is_empty())
            && lease.lacks() == 0;
        if complete {
            self.activate(now, hash, out);
        }
    }

    /// Hands the units over, if one message can hold what there is to say about them.
    fn activate(&mut self, now: Time, hash: LinkHash, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash) else { return };
        let units = lease.state.units();
        let states = units.iter().filter_map(|unit| self.state.units.get(unit));
        let bytes: usize =
            states.filter_map(|unit| unit.state.properties()).map(Properties::bytes).sum();
        if bytes <= MAX_UNIT_BYTES {
            self.emit(now, LeaseActivated { lease: hash }, out);
            self.repeat_answer(hash, hash, out);
        } else {
            let cause = format!("the units have {bytes} bytes of properties, {MAX_UNIT_BYTES} fit");
            self.fail(now, hash, Refusal::Malformed(cause), out);
        }
    }

    /// Closes a lease that the site cannot make good on; its units can be sold again.
    pub(super) fn fail(&mut self, now: Time, hash: LinkHash, refusal: Refusal, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash) else { return };
        let tickets = lease.tickets.clone();
        let receipts = self.receipts(&tickets, now);
        self.emit(
            now,
            LeaseClosed { lease: hash, why: CloseReason::Failed(refusal), receipts },
            out,
        );
        self.repeat_answer(hash, hash, out);
    }

    pub(super) fn decide(&mut self, now: Time, decision: Decision, out: &mut Output) {
        if let Err(stale) = self.state.rounds.check(decision.round) {
            return out.problems.push(stale);
        }
        for assignment in decision.assignments {
            match self.check_assignment(&assignment) {
                Ok(()) => {
                    let Assignment { lease, units, reason } = assignment;
                    let reason = truncate_text(&reason);
                    self.emit(now, UnitsAssigned { lease, units, reason }, out);
                }
                Err(cause) => out.problems.push(Problem::BadChoice(cause)),
            }
        }
        self.share_out(now, out);
        for lease in self.stalled() {
            self.activate_or_fail(now, lease, out);
        }
        let memo = self.state.rounds.news(decision.memo, &mut out.problems);
        let wake = decision.wake.filter(|&wake| wake > now);
        self.emit(now, MapperAnswered { round: decision.round, memo, wake }, out);
    }

    fn check_assignment(&self, assignment: &Assignment) -> Result<(), String> {
        let Assignment { lease, units, .. } = assignment;
        let record = self.state.leases.get(lease).ok_or_else(|| format!("no lease {lease}"))?;
        let resource = &record.tickets[0].bottom().resource;
        if record.divisible {
            return Err(format!("lease {lease} gets a share of `{resource}`, not units"));
        }
        if units.is_empty() || units.len() > record.lacks() as usize {
            return Err(format!("{} units for a lease that lacks {}", units.len(), record.lacks()));
        }
        let distinct: BTreeSet<_> = units.iter().collect();
        let pool = self.state.stocks.get(resource);
        let drained = |unit| pool.is_some_and(|pool| pool.is_drained(unit));
        let good = |unit: &&UnitId| {
            self.state
                .units
                .get(unit)
                .is_some_and(|u| u.state.assignable() && u.resource == *resource)
                && !drained(**unit)
                && !record.failed.contains(unit)
        };
        match units.iter().find(|unit| !good(unit)) {
            Some(unit) => Err(format!("unit {unit} cannot be put on a `{resource}` lease")),
            None if distinct.len() < units.len() => Err("a unit twice".to_owned()),
            None => Ok(()),
        }
    }

    /// The leases that may be left with no unit to be put on them, in the order in which they came to lack
    /// some. One that could still get a unit was failed by fewer units than there are.
    fn stalled(&self) -> Vec<LinkHash> {
        let mut stalled: Vec<u64> = Vec::new();
        for pool in self.state.stocks.values() {
            let left = u32::try_from(pool.free.len() + pool.cleaning.len()).unwrap_or(u32::MAX);
            stalled.extend(pool.stalled.range((left, 0)..).map(|&(_, since)| since));
        }
        stalled.sort_unstable();
        stalled.iter().filter_map(|since| self.state.short.get(since).copied()).collect()
    }

    /// A lease that lacks units while none are left to put on it: it goes active with those it has if
    /// the guest can do with them, else it is closed. While some are still being set up, it waits.
    fn activate_or_fail(&mut self, now: Time, hash: LinkHash, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash).filter(|lease| !lease.divisible) else {
            return;
        };
        let resource = &lease.tickets[0].bottom().resource;
        let pool = self.state.stocks.get(resource);
        let left = pool.is_some_and(|pool| {
            pool.free.iter().chain(&pool.cleaning).any(|unit| !lease.failed.contains(unit))
        });
        let ready = match &lease.state {
            State::Due => 0,
            State::Priming { pending, ready } if pending.is_empty() => ready.len(),
            State::Early | State::Priming { .. } | State::Active { .. } | State::Closed { .. } => {
                return;
            }
        };
        let ready = u32::try_from(ready).unwrap_or(u32::MAX);
        if left || lease.lacks() == 0 || lease.term.end() <= now {
            return;
        }
        if ready >= lease.min_units.get() {
            self.activate(now, hash, out);
        } else if !self.waits_for_machines(lease) && !self.waits_for_named(lease, ready) {
            let refusal = self.too_few(lease, ready);
            self.fail(now, hash, refusal, out);
        }
    }
}
