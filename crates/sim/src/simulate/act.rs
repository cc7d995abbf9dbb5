//! What is planned for a seed: what guests and operators do, and the faults that strike on their own.

use std::num::NonZeroU32;

use tenure_core::actor::Actor as _;
use tenure_core::actor::Role;
use tenure_core::actor::order::Order;
use tenure_core::runtime::{Command, Input, Output};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::site_authority::Command as SiteCommand;

use tenure_core::model::codec::Hash;
use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};

use super::adversary::{goes_on, last};
use super::fault::{Family, Fault};
use super::participant::Step;
use super::setting::{APART, Stream};
use super::violation::Violation;
use super::world::{Event, World};

/// Something that is planned.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// A guest asks for something.
    Visit,
    /// A guest's user commands something.
    Command(usize, Box<Command>),
    /// A participant is stopped and started again in good order.
    Restart,
    /// A site gets more units.
    Stock,
    /// An operator does something to a unit of a site, drawn by this number.
    Operate(u64),
    /// A key is replaced, revoked or stolen, drawn by this number.
    Keys(u64),
    /// An operator sets a guest's quota at a broker, or takes it back.
    Quota,
    /// A burst of visits begins.
    BurstBegins,
    /// It ends, and is to be forgotten within the bound.
    BurstEnds(Span),
    /// A family strikes.
    Strike(Family),
    /// A dishonest guest closes a lease of its own, and bypasses its actor.
    Betray(usize, LeaseId),
    /// An issuer recalls units of a ticket, or withdraws that.
    Recall,
    /// An operator of a broker shares units with another one, or has it sell nothing, drawn by this number.
    Share(u64),
    /// Two brokers agree on the requests of each other's guests, drawn by this number.
    Forward(u64),
    /// A guest asks for more than one broker may have.
    AskMuch(u64),
}

/// Where crashes strike.
const POINTS: [Fault; 7] = [
    Fault::BeforeAppend,
    Fault::AfterAppend,
    Fault::AfterSync,
    Fault::AmidSends,
    Fault::AfterSends,
    Fault::BeforeCall,
    Fault::AfterCall,
];

/// How often, at most, a family strikes on its own in a seed; the others strike what happens anyway.
fn strikes(family: Family) -> u32 {
    match family {
        Family::Replay => 120,
        Family::Partition => 12,
        Family::Skew => 10,
        Family::WildClock => 8,
        Family::Crash => 50,
        Family::Pause => 12,
        Family::Twin => 8,
        Family::DishonestBroker | Family::DishonestGuest => 80,
        Family::Connection => 60,
        Family::Takeover => 24,
        Family::Foreign => 40,
        Family::Absence => 8,
        Family::Loss
        | Family::Duplication
        | Family::Delay
        | Family::LateTimer
        | Family::Storage
        | Family::Driver
        | Family::Mapper
        | Family::Stranger => 0,
    }
}

impl World {
    /// Plans the whole seed. Faults strike where guests are active, or shortly after.
    pub(super) fn plan(&mut self) {
        let mut sampler = Stream::Schedule.sampler(self.chance);
        let visits = self.setting.visits.clone();
        let (term, heal) = (self.setting.term, self.setting.heal);
        let mut plan: Vec<(Time, Act)> = visits.iter().map(|at| (*at, Act::Visit)).collect();
        for &family in Family::ALL {
            let most = strikes(family);
            let apart = &mut Stream::Strikes(family).sampler(self.chance);
            let is_apart = APART.contains(&family) && family != Family::Connection;
            let sampler = if is_apart { apart } else { &mut sampler };
            let count = sampler.count(most / 4, most);
            for _ in 0..count {
                let near = sampler.pick(&visits).copied().unwrap_or(Time::ZERO);
                let at = near.plus(sampler.span(Span::ZERO, term.times(2)));
                if self.setting.has(family) {
                    plan.push((at, Act::Strike(family)));
                }
            }
            if goes_on(family, true) && self.setting.has(family) {
                let until = last(heal, term);
                plan.extend((0..12).map(|_| (sampler.time(heal, until), Act::Strike(family))));
            }
        }
        let mut operators = Stream::Operators.sampler(self.chance);
        for _ in 0..operators.count(0, 10) {
            let at = operators.time(Time::ZERO, heal);
            plan.push((at, Act::Operate(operators.any())));
        }
        let mut keys = Stream::Keys.sampler(self.chance);
        for _ in 0..keys.count(0, 12) {
            let at = keys.time(Time::ZERO, heal);
            plan.push((at, Act::Keys(keys.any())));
        }
        let mut sharing = Stream::Sharing.sampler(self.chance);
        for _ in 0..sharing.count(0, 16) {
            let at = sharing.time(Time::ZERO, heal);
            plan.push((at, Act::Share(sharing.any())));
        }
        let mut forwarding = Stream::Forwarding.sampler(self.chance);
        if forwarding.percent(40) {
            for _ in 0..forwarding.count(2, 12) {
                let at = forwarding.time(Time::ZERO, heal);
                plan.push((at, Act::Forward(forwarding.any())));
            }
            for _ in 0..forwarding.count(4, 16) {
                let at = forwarding.time(Time::ZERO, heal);
                plan.push((at, Act::AskMuch(forwarding.any())));
            }
        }
        let others = [
            (Act::Restart, sampler.count(2, 12)),
            (Act::Stock, sampler.count(0, 2)),
            (Act::Recall, sampler.count(4, 20)),
            (Act::Quota, if self.setting.burst.is_some() { 0 } else { sampler.count(0, 2) }),
        ];
        for (act, count) in others {
            for _ in 0..count {
                plan.push((sampler.time(Time::ZERO, heal), act.clone()));
            }
        }
        if let Some(burst) = &self.setting.burst {
            plan.extend(burst.visits.iter().map(|at| (*at, Act::Visit)));
            plan.push((burst.begins, Act::BurstBegins));
            plan.push((burst.ends, Act::BurstEnds(burst.bound)));
        }
        for (at, act) in plan {
            self.later(at, Event::Act(act));
        }
    }

    pub(super) fn act(&mut self, act: Act) -> Result<(), Violation> {
        match act {
            Act::Visit => self.visit(),
            Act::Command(who, command) => {
                let input = self.named(*command);
                self.hand_in(who, input)
            }
            Act::Restart => {
                let who = self.users.below(self.participants.len());
                if self.participants[who].listens() {
                    self.take_down(who, 0, Span::SECOND)
                } else {
                    Ok(())
                }
            }
            Act::Stock => {
                let sites = self.setting.sites.len();
                let who = self.users.below(sites);
                let resource = Name::literal(if self.users.percent(80) { "node" } else { "disk" });
                let command = SiteCommand::Stock { resource, units: NonZeroU32::MIN };
                self.hand_in(who, Input::Command(command.into()))
            }
            Act::Operate(draw) => self.operate(draw),
            Act::Keys(draw) => self.change_keys(draw),
            Act::Quota => self.set_quota(),
            Act::Recall => self.recall(),
            Act::Share(draw) => self.share(draw),
            Act::Forward(draw) => self.forward(draw),
            Act::AskMuch(draw) => self.ask_much(draw),
            Act::BurstBegins => {
                self.watch.auditor.burst_begins();
                Ok(())
            }
            Act::BurstEnds(bound) => {
                self.watch.auditor.burst_ends(self.now, bound);
                Ok(())
            }
            Act::Strike(family) if !goes_on(family, self.healed) => Ok(()),
            Act::Strike(family) => self.strike(family),
            Act::Betray(who, lease) => {
                self.betray(who, lease);
                Ok(())
            }
        }
    }

    fn strike(&mut self, family: Family) -> Result<(), Violation> {
        match family {
            Family::Replay => {
                self.replay();
                Ok(())
            }
            Family::Partition => {
                self.partition();
                Ok(())
            }
            Family::Skew => {
                self.skew();
                Ok(())
            }
            Family::WildClock => {
                self.wild_clock();
                Ok(())
            }
            Family::Crash => self.set_trap(),
            Family::Pause => self.pause(),
            Family::Twin => self.second_instance(),
            Family::DishonestBroker => self.dishonest_broker(),
            Family::DishonestGuest => self.dishonest_guest(),
            Family::Connection => {
                self.break_connection();
                Ok(())
            }
            Family::Takeover if self.sampler(Family::Takeover).percent(50) => self.take_over(),
            Family::Takeover => self.roll_back(),
            Family::Foreign => self.interfere(),
            Family::Absence => self.be_absent(),
            Family::Loss
            | Family::Duplication
            | Family::Delay
            | Family::LateTimer
            | Family::Storage
            | Family::Driver
            | Family::Mapper
            | Family::Stranger => Ok(()),
        }
    }

    pub(super) fn somebody(&mut self, family: Family) -> usize {
        let all = self.participants.len();
        self.sampler(family).below(all)
    }

    fn partition(&mut self) {
        let until = self.now.plus(self.spell(Family::Partition));
        let one = self.somebody(Family::Partition);
        let all = self.participants.len();
        let everybody = self.sampler(Family::Partition).percent(30);
        let other = (one + 1 + self.sampler(Family::Partition).below(all - 1)) % all;
        let both = self.sampler(Family::Partition).percent(50);
        self.watch.fault(if both { Fault::CutBoth } else { Fault::CutOne });
        for other in (0..all).filter(|&who| who != one && (everybody || who == other)) {
            self.wire.cut(one, other, until);
            if both {
                self.wire.cut(other, one, until);
            }
        }
    }

    /// A connection breaks, with all that is on its way, and comes about again after a while.
    fn break_connection(&mut self) {
        let (one, all) = (self.somebody(Family::Connection), self.participants.len());
        let other = (one + 1 + self.sampler(Family::Connection).below(all - 1)) % all;
        let retry = self.setting.retry_policy.longest;
        let until = self.now.plus(self.sampler(Family::Connection).scaled(Span::SECOND, retry));
        self.wire.break_off((one, other), self.now, until);
        self.strangers.part(one, other);
    }

    /// Within the margin: no clock is further from the true time than half of it.
    fn skew(&mut self) {
        let who = self.somebody(Family::Skew);
        let half = Span::from_micros(self.setting.margin.as_micros() / 2);
        let (now, heal) = (self.now, self.setting.heal);
        let left = heal.since(now).as_micros().max(1);
        let sampler = self.sampler(Family::Skew);
        let edge = sampler.percent(30);
        let ahead = if edge { half } else { sampler.span(Span::ZERO, half) };
        let ahead = if sampler.percent(50) { ahead } else { ahead.times(-1) };
        let mut drift = 0;
        if sampler.percent(40) {
            // What it may gain before the faults stop without leaving the margin.
            let room = if ahead.is_positive() { half.times(-1) } else { half };
            let most = i128::from(room.as_micros()) * 1_000_000 / i128::from(left);
            drift = sampler.between(0, i64::try_from(most.abs()).unwrap_or(200).min(200));
            drift = if most < 0 { -drift } else { drift };
        }
        if self.setting.has(Family::WildClock) {
            return;
        }
        self.watch.fault(match (edge, drift) {
            (_, drift) if drift != 0 => Fault::Drifts,
            (true, _) => Fault::Skewed,
            _ => Fault::Stepped,
        });
        self.participants[who].clock.set(now, ahead, drift);
    }

    fn wild_clock(&mut self) {
        let who = self.somebody(Family::WildClock);
        let (now, term) = (self.now, self.setting.term);
        let ahead = self.participants[who].clock.ahead(now);
        let sampler = self.sampler(Family::WildClock);
        let by = sampler.scaled(Span::SECOND, term.times(2));
        let kind = sampler.below(4);
        let clock = &mut self.participants[who].clock;
        let fault = match kind {
            0 => {
                clock.set(now, by, 200);
                Fault::FarOff
            }
            1 => {
                clock.set(now, ahead.plus(by), 0);
                Fault::JumpedAhead
            }
            2 => {
                clock.set(now, ahead.plus(by.times(-1)), 0);
                Fault::JumpedBack
            }
            _ => {
                clock.freeze(now);
                Fault::Frozen
            }
        };
        self.watch.fault(fault);
    }

    fn set_trap(&mut self) -> Result<(), Violation> {
        let who = self.somebody(Family::Crash);
        let sampler = self.sampler(Family::Crash);
        let (point, at_once) = (POINTS[sampler.below(POINTS.len())], sampler.percent(15));
        let loops = if sampler.percent(25) { sampler.count(1, 4) } else { 0 };
        let participant = &mut self.participants[who];
        if participant.run.host.is_none() {
            return Ok(());
        }
        (participant.trap, participant.loops) = (Some(point), loops);
        if at_once { self.crash(who) } else { Ok(()) }
    }

    fn pause(&mut self) -> Result<(), Violation> {
        let (who, takes) = (self.somebody(Family::Pause), self.spell(Family::Pause));
        let long = takes > self.setting.term;
        self.watch.fault(if long { Fault::PausedLong } else { Fault::Paused });
        if self.participants[who].run.host.is_some() { self.hold(who, takes) } else { Ok(()) }
    }

    /// An actor is started a second time: it reads the journal, writes to it, and is then stopped. The
    /// first one finds out when it appends next.
    fn second_instance(&mut self) -> Result<(), Violation> {
        let who = self.somebody(Family::Twin);
        if !self.participants[who].listens() || self.participants[who].rival.is_some() {
            return Ok(());
        }
        let time = self.participants[who].time(self.now);
        let mut second = self.participants[who].folded();
        let (mut out, position) = (Output::default(), second.position());
        second.handle(time, Input::Start, &mut out);
        let step = Step { position, facts: out.facts };
        self.participants[who].doubled = true;
        match self.participants[who].append(&step) {
            Ok(()) => self.durable(who, position, &step.facts),
            Err(error) => Err(self.stuck(format!("a second instance cannot append: {error}"))),
        }
    }

    /// The faults stop: the wire is whole, clocks keep to the margin, mappers answer, drivers come back.
    pub(super) fn heal(&mut self) -> Result<(), Violation> {
        self.healed = true;
        self.wire.heal();
        let now = self.now;
        for who in 0..self.participants.len() {
            let participant = &mut self.participants[who];
            (participant.trap, participant.loops) = (None, 0);
            participant.rival = None;
            participant.clock.set(now, Span::ZERO, 0);
            // A participant that saw a time in the future is restarted, as its operator would do.
            let ahead = participant.time(now) > now;
            let halted = participant.run.busy.is_some() || participant.doubled;
            if participant.run.host.is_some() && (halted || ahead) {
                self.take_down(who, usize::MAX, Span::SECOND)?;
            }
            self.later(now.plus(Span::SECOND), Event::Rise { who });
        }
        self.drivers_return();
        self.ask_mappers();
        self.give_plans_up();
        self.stop_services();
        self.stop_sharing();
        Ok(())
    }

    /// Who may be asked by whom: all brokers.
    pub(super) fn of_role(&self, role: Role) -> Vec<usize> {
        (0..self.participants.len()).filter(|&who| self.participants[who].role == role).collect()
    }

    /// A command as it is handed in, at times under a key that may have been used. In the end it is under none: one
    /// that is refused for its key would never be given again.
    fn named(&mut self, command: Command) -> Input {
        if !self.users.percent(25) || self.healed {
            return Input::Command(command);
        }
        let key = self.users.below(40).to_string();
        let digest = Hash::of("simulated order", &[format!("{command:?}").as_bytes()]);
        let (part, who) = (String::new(), "a user".to_owned());
        Input::Ordered(command, Order { key, part, who, digest })
    }

    /// Schedules a command for a guest.
    pub(super) fn command(&mut self, at: Time, who: usize, command: impl Into<Command>) {
        self.later(at, Event::Act(Act::Command(who, Box::new(command.into()))));
    }

    /// A lease is given back later.
    pub(super) fn close_later(&mut self, at: Time, who: usize, lease: LeaseId) {
        self.command(at, who, GuestCommand::Close { lease });
    }
}
