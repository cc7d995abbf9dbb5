//! Chaos: messages lost, doubled and out of order, drivers that fail, mappers that sleep, crashes,
//! clocks apart. Whatever happens, no unit is in two hands, and in the end nothing is left over.

use std::collections::BTreeSet;

use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::EffectId;
use tenure_core::driver::UnitId;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_core::runtime::Input;
use tenure_core::service_manager::machine::UnitUse;
use tenure_core::service_manager::{Command as GuestCommand, JoinedUnit};
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::site_authority::unit::State;
use tenure_core::wire::message::Message;
use tenure_core::wire::refusal::Refusal;

use crate::common::world::{Reaction, Scene, World};
use crate::common::{BROKER, GUEST, HOUR, RIVAL, SITE, ask_for, units};

const EVERYBODY: [u8; 4] = [SITE, BROKER, GUEST, RIVAL];

/// `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.roll(from.len())])
    }

    fn secs(&mut self, min: i64, most: i64) -> i64 {
        min + self.roll((most - min + 1) as usize) as i64
    }
}

struct Chaos {
    world: World,
    dice: Dice,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let delegation = (Span::HOUR.times(4), Span::HOUR.times(3));
        let leave_before = Span::from_secs(dice.secs(0, 1) * 120);
        let stock = 2 + dice.roll(4) as u32;
        let audited = true;
        let scene = Scene { stock, delegation, leave_before, audited, ..Scene::default() };
        let mut world = scene.open();
        for who in EVERYBODY {
            world.set_ahead(who, Span::from_secs(dice.secs(-5, 5)));
        }
        world.keep.extend(Message::KINDS);
        world.driver = |_| Reaction::Waits;
        Self { world, dice }
    }

    fn guest(&mut self) -> u8 {
        [GUEST, RIVAL][self.dice.roll(2)]
    }

    /// Mostly one with units.
    fn a_lease_of(&mut self, who: u8) -> Option<LeaseId> {
        let any = self.dice.roll(6) == 0;
        let leases = self.world.guest(who).leases();
        let leases = leases.filter(|(_, state)| any || state.held().is_some());
        let leases: Vec<_> = leases.map(|(id, _)| id).collect();
        self.dice.pick(&leases)
    }

    fn step(&mut self) {
        match self.dice.roll(24) {
            0..6 => self.deliver(),
            6 => self.world.repeat(),
            7..10 => self.answer(),
            10 => self.pass_time(),
            11 => self.ask(),
            12 | 13 => self.extend(),
            14 => self.close(),
            15 => self.world.restart(EVERYBODY[self.dice.roll(4)]),
            16 => self.doze(),
            17 => self.mend(),
            _ => {
                let kept = self.world.kept.len();
                (0..kept).for_each(|_| self.deliver());
            }
        }
        self.world.run();
        self.nobody_shares_a_unit();
        self.live_units_are_those_of_all_that_are_live();
    }

    /// The indices give what a look at all units and leases gives.
    fn live_units_are_those_of_all_that_are_live(&self) {
        let ready = |state: &State| matches!(state, State::Ready { .. });
        let all = self.world.site().units().filter(|(_, state, _)| ready(state));
        let all: Vec<_> = all.map(|(unit, _, epoch)| (unit, epoch)).collect();
        assert_eq!(self.world.site().ready_units().collect::<Vec<_>>(), all);
        for who in [GUEST, RIVAL] {
            let mut all = Vec::new();
            for (lease, state) in self.world.guest(who).leases() {
                let Some(held) = state.held() else { continue };
                let site = held.tickets[0].site();
                let units = held.units.iter().filter(|(_, (_, usage))| *usage == UnitUse::Joined);
                all.extend(units.map(|(&unit, (leased, _))| JoinedUnit {
                    lease,
                    site,
                    unit,
                    epoch: leased.epoch,
                }));
            }
            assert_eq!(self.world.guest(who).joined_units().collect::<Vec<_>>(), all);
        }
    }

    /// A mapper falls asleep or wakes up.
    fn doze(&mut self) {
        let who = [SITE, BROKER][self.dice.roll(2)];
        if !self.world.undecided.remove(&who) {
            self.world.undecided.insert(who);
        }
    }

    fn mend(&mut self) {
        let units = self.world.site().units();
        let broken = units.filter(|(_, state, _)| **state == State::Quarantined);
        let broken: Vec<UnitId> = broken.map(|(unit, _, _)| unit).collect();
        if let Some(unit) = self.dice.pick(&broken) {
            self.world.hand(SITE, Input::Command(SiteCommand::Reset { unit }.into()));
        }
    }

    /// A message arrives, arrives twice, or never.
    fn deliver(&mut self) {
        let kept = self.world.kept.len();
        if kept == 0 {
            return;
        }
        let sealed = self.world.kept.swap_remove(self.dice.roll(kept));
        for _ in 0..[0, 1, 1, 1, 1, 2][self.dice.roll(6)] {
            self.world.hand_over(&sealed);
        }
    }

    fn answer(&mut self) {
        let waiting = self.world.waiting.len();
        if waiting > 0 {
            let call = self.world.waiting.swap_remove(self.dice.roll(waiting));
            let works = self.dice.roll(8) > 0;
            self.world.answer(call, works);
        }
    }

    fn pass_time(&mut self) {
        let most = [5, 60, 600, 1800][self.dice.roll(4)];
        let by = Span::from_secs(self.dice.secs(1, most));
        self.world.advance_to(self.world.now.plus(by));
    }

    fn ask(&mut self) {
        let who = self.guest();
        let now = self.world.clock(who).as_micros() / Span::SECOND.as_micros();
        let n = 1 + self.dice.roll(2) as u32;
        let mut ask = ask_for(n, now + self.dice.secs(-60, 600), self.dice.secs(21, HOUR));
        ask.items[0].min_units = units(1 + self.dice.roll(n as usize) as u32);
        ask.latest = ask.earliest.plus(Span::from_secs(self.dice.secs(0, HOUR)));
        ask.answer_by = ask.latest.plus(Span::from_secs(self.dice.secs(1, HOUR)));
        self.world.hand(who, Input::Command(GuestCommand::Ask(ask).into()));
    }

    fn extend(&mut self) {
        let (who, duration) = (self.guest(), Span::from_secs(self.dice.secs(1, HOUR)));
        if let Some(lease) = self.a_lease_of(who) {
            self.world.hand(who, Input::Command(GuestCommand::extend(lease, duration).into()));
        }
    }

    fn close(&mut self) {
        let who = self.guest();
        if let Some(lease) = self.a_lease_of(who) {
            self.world.hand(who, Input::Command(GuestCommand::Close { lease }.into()));
        }
    }

    fn nobody_shares_a_unit(&self) {
        let mut held = BTreeSet::new();
        for who in [GUEST, RIVAL] {
            let leases = self.world.guest(who).leases().filter_map(|(_, state)| state.held());
            for unit in leases.flat_map(|lease| lease.units.keys()) {
                assert!(held.insert(*unit), "unit {unit} is in two hands");
            }
        }
    }

    /// The network heals, drivers work again, and no further requests are made.
    fn settle(&mut self) {
        self.world.undecided.clear();
        self.world.driver = |_| Reaction::Works;
        self.world.release();
        for call in std::mem::take(&mut self.world.waiting) {
            self.world.answer(call, true);
        }
        self.world.run();
        for _ in 0..4 {
            self.world.repeat();
        }
        self.nobody_waits_for_nothing();
        for _ in 0..60 {
            self.world.repeat();
            self.world.advance_to(self.world.now.plus(Span::from_secs(600)));
        }
    }

    /// With messages, mappers and drivers that work, a lease that is due runs or ends at once.
    fn nobody_waits_for_nothing(&self) {
        for sealed in self.world.sent("redeem") {
            let Message::Redeem { ticket, .. } = sealed.peek().unwrap().message else { continue };
            let state = self.world.at_site(ticket.hash());
            assert!(!matches!(state, "Due" | "Priming"), "{state} for ever");
        }
    }

    fn nothing_is_left_over(&self) {
        for who in EVERYBODY {
            assert_eq!(self.world.actor(who).unfinished(9), Vec::<String>::new());
            assert_eq!(self.world.actor(who).effects_after(0), []);
        }
        let pending = |(who, id): &&(u8, EffectId)| self.world.actor(*who).is_pending(*id);
        assert_eq!(self.world.pending.iter().find(pending), None, "to be repeated for ever");
        let (all, idle) = (self.world.site().units().count(), ["Free", "Quarantined"]);
        assert_eq!(idle.map(|word| self.world.units_in(word)).iter().sum::<usize>(), all);
        let soon = self.world.now.as_micros() / Span::SECOND.as_micros();
        assert_eq!(self.world.free_at(soon), all as i64, "all of it can be sold again");
        assert_eq!(self.world.guest(GUEST).leases().count(), 0);
        self.nobody_honest_was_accused();
    }

    fn nobody_honest_was_accused(&self) {
        for sealed in self.world.sent("refused") {
            let Message::Refused { refusal, .. } = sealed.peek().unwrap().message else { continue };
            let accused = matches!(refusal, Refusal::Conflict(_) | Refusal::Ticket(_));
            assert!(!accused, "{refusal}");
        }
    }
}

fn live_through(seed: u64, steps: usize) {
    let mut chaos = Chaos::new(seed);
    for _ in 0..steps {
        chaos.step();
    }
    chaos.settle();
    chaos.nothing_is_left_over();
}

#[test]
fn whatever_happens_no_unit_is_in_two_hands_and_in_the_end_nothing_is_left_over() {
    (0..600).for_each(|seed| live_through(seed, 300));
}
