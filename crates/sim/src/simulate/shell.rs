//! What shells do around their actors, and how they die: sync, send, call drivers, come back.

use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::Input;
use tenure_core::runtime::host::Departure;
use tenure_core::runtime::journal::AppendError;

use super::fault::{Family, Fault};
use super::sampler::Sampler;
use super::violation::Violation;
use super::world::{Event, World};
use crate::random::{Chance, Purpose};

/// How late the timer of an actor for an instant goes off.
pub(super) fn lag(chance: Chance, who: usize, at: Time, term: Span) -> Span {
    let name = [u64::MAX, who as u64, at.as_micros() as u64];
    let mut sampler = Sampler::from(chance.of(Purpose::Simulate, &name));
    if sampler.percent(10) { sampler.scaled(Span::from_micros(1), term) } else { Span::ZERO }
}

/// After how many facts of a life the actor's state is stored, if it is at all.
fn until_kept(chance: Chance, who: usize, life: u32) -> Option<u64> {
    let name = [u64::MAX - 1, who as u64, life.into()];
    let mut sampler = Sampler::from(chance.of(Purpose::Simulate, &name));
    sampler.percent(40).then(|| sampler.count(1, 60).into())
}

impl World {
    /// Whether a crash is armed for this point and occurs now.
    pub(super) fn springs(&mut self, who: usize, point: Fault) -> bool {
        let sprung = !self.healed && self.participants[who].trap == Some(point);
        if sprung {
            self.watch.fault(point);
        }
        sprung
    }

    /// Has what was appended made durable, at once or in a while.
    pub(super) fn sync(&mut self, who: usize) -> Result<(), Violation> {
        if self.participants[who].run.unsynced.is_empty() {
            return Ok(());
        }
        if self.strikes(Family::Storage, 3) {
            self.watch.fault(Fault::SlowSync);
            let takes = self.sampler(Family::Storage).scaled(Span::from_micros(1000), Span::MINUTE);
            return self.hold(who, takes);
        }
        self.commit(who)
    }

    /// A participant is paused.
    pub(super) fn hold(&mut self, who: usize, takes: Span) -> Result<(), Violation> {
        let until = self.now.plus(takes);
        let participant = &mut self.participants[who];
        if participant.run.busy.is_none_or(|busy| busy < until) {
            participant.run.busy = Some(until);
            let life = participant.run.life;
            self.later(until, Event::Free { who, life });
        }
        Ok(())
    }

    /// A pause may be over.
    pub(super) fn free(&mut self, who: usize) -> Result<(), Violation> {
        if self.participants[who].run.busy.is_some_and(|busy| busy > self.now) {
            return Ok(());
        }
        self.participants[who].run.busy = None;
        self.commit(who)?;
        self.work(who)
    }

    /// The disk has synced, or has not. Only then does anything leave.
    fn commit(&mut self, who: usize) -> Result<(), Violation> {
        if self.participants[who].run.host.is_none()
            || self.participants[who].run.unsynced.is_empty()
        {
            return Ok(());
        }
        if self.strikes(Family::Storage, 1) {
            return self.unknown(who);
        }
        if self.springs(who, Fault::AfterSync) {
            return self.take_down(who, usize::MAX, Span::MINUTE);
        }
        let mut steps = std::mem::take(&mut self.participants[who].run.unsynced).into_iter();
        while let Some(step) = steps.next() {
            match self.participants[who].append(&step) {
                Ok(()) => self.durable(who, step.position, &step.facts)?,
                Err(AppendError::Fenced { .. }) if self.participants[who].rival.is_some() => {
                    self.watch.fault(Fault::GivesUp);
                    self.participants[who].give_up();
                    return Ok(());
                }
                Err(AppendError::Fenced { .. }) => {
                    self.watch.fault(Fault::Fenced);
                    return self.crash(who);
                }
                Err(AppendError::Unknown(_) | AppendError::Full(_)) => return self.crash(who),
            }
            if let Some(host) = &mut self.participants[who].run.host {
                host.durable(step.position + step.facts.len() as u64);
            }
            if !self.release(who)? {
                // All the rest is durable, whether or not it was acknowledged.
                self.participants[who].run.unsynced = steps.collect();
                return self.take_down(who, usize::MAX, Span::MINUTE);
            }
        }
        Ok(())
    }

    /// The disk does not say whether the facts are durable: the actor stops and reads them again.
    fn unknown(&mut self, who: usize) -> Result<(), Violation> {
        let kept = self.sampler(Family::Storage).percent(50);
        self.watch.fault(if kept { Fault::UnknownKept } else { Fault::UnknownLost });
        let kept = if kept { self.participants[who].run.unsynced.len() } else { 0 };
        self.take_down(who, kept, Span::SECOND)
    }

    /// Facts are durable: they are folded and watched.
    pub(super) fn durable(
        &mut self,
        who: usize,
        position: u64,
        facts: &[tenure_core::runtime::Entry],
    ) -> Result<(), Violation> {
        self.watch.durable(self.now, &mut self.participants[who], position, facts)?;
        for entry in facts {
            self.follow_up(who, entry);
        }
        Ok(())
    }

    /// Lets out what follows from durable facts; `false` if the actor is to die amid that.
    fn release(&mut self, who: usize) -> Result<bool, Violation> {
        let (mut departures, now) = (Vec::new(), self.now);
        let Some(host) = &mut self.participants[who].run.host else { return Ok(true) };
        host.release(now, |departure| departures.push(departure));
        let all = departures.len();
        for (started, departure) in departures.into_iter().enumerate() {
            if started > 0 && self.springs(who, Fault::AmidSends) {
                return Ok(false);
            }
            match departure {
                Departure::Message(sequence, outgoing) => self.post(who, sequence, &outgoing)?,
                Departure::Call(_, call) => {
                    if self.springs(who, Fault::BeforeCall) {
                        return Ok(false);
                    }
                    self.call(who, &call)?;
                    if self.springs(who, Fault::AfterCall) {
                        return Ok(false);
                    }
                }
            }
        }
        self.consult(who);
        Ok(all == 0 || !self.springs(who, Fault::AfterSends))
    }

    /// A participant crashes. Of the facts that were appended and not synced, a part or nothing survives.
    pub(super) fn crash(&mut self, who: usize) -> Result<(), Violation> {
        let all = self.participants[who].run.unsynced.len();
        let kept = self.shell.below(all + 1);
        if kept < all {
            self.watch.fault(Fault::TailLost);
        }
        let long = !self.healed && self.shell.percent(15);
        let longest = if long { self.setting.term.times(2) } else { Span::MINUTE };
        let down = self.shell.scaled(Span::from_micros(1000), longest);
        self.take_down(who, kept, down)
    }

    /// Ends a life with so many of its unsynced steps made durable, and plans the next.
    pub(super) fn take_down(
        &mut self,
        who: usize,
        kept: usize,
        down: Span,
    ) -> Result<(), Violation> {
        let steps = std::mem::take(&mut self.participants[who].run.unsynced);
        for step in steps.into_iter().take(kept) {
            if self.participants[who].append(&step).is_err() {
                break;
            }
            self.durable(who, step.position, &step.facts)?;
        }
        self.watch.dies(self.now, &mut self.participants[who])?;
        self.strangers.leave(who);
        self.participants[who].stop();
        self.later(self.now.plus(down), Event::Rise { who });
        Ok(())
    }

    /// A participant recovers from its journal.
    pub(super) fn bring_up(&mut self, who: usize) -> Result<(), Violation> {
        if self.participants[who].run.host.is_some() {
            return Ok(());
        }
        let again = !self.healed && self.participants[who].loops > 0;
        if again {
            self.participants[who].loops -= 1;
            let fault = if self.shell.percent(50) { Fault::InRecovery } else { Fault::InLoop };
            self.watch.fault(fault);
            if fault == Fault::InRecovery {
                let later = self.now.plus(self.shell.scaled(Span::from_micros(1), Span::MINUTE));
                self.later(later, Event::Rise { who });
                return Ok(());
            }
        }
        self.participants[who].bring_up();
        self.watch.recovered(self.now, &mut self.participants[who])?;
        self.is_not_stopped(who)?;
        let life = self.participants[who].run.life;
        self.participants[who].keep_after(until_kept(self.chance, who, life));
        if !self.release(who)? {
            return self.crash(who);
        }
        self.hand_in(who, Input::Start)?;
        if again && self.participants[who].run.host.is_some() {
            return self.take_down(who, 0, Span::SECOND);
        }
        Ok(())
    }
}
