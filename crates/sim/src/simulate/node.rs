//! What drivers really do: each unit is a node that knows the highest epoch it was called in, refuses
//! older ones, and sometimes fails, hangs or reports falsely.

use std::collections::BTreeMap;

use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::{DriverResult, Effect};
use tenure_core::driver::{Answer, Call, DriverError, Epoch, ResourceDriver as _, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Span;
use tenure_core::runtime::AnyActor;

use super::fault::{Family, Fault};
use super::foreign::TakenOut;
use super::world::{Event, World};

/// The nodes of all sites as sites and guests reach them.
#[derive(Default)]
pub(super) struct Nodes {
    /// The highest epoch seen, by who calls, site and unit.
    highest: BTreeMap<(usize, ActorId, UnitId), Epoch>,
    /// What somebody else has taken out of the software of guests.
    pub(super) taken_out: TakenOut,
}

impl Nodes {
    /// Whether a node takes a call in this epoch.
    fn takes(&mut self, who: usize, call: &Call) -> bool {
        let highest = self.highest.entry((who, call.site, call.unit)).or_default();
        let takes = call.epoch >= *highest;
        *highest = call.epoch.max(*highest);
        takes
    }
}

impl World {
    /// Drivers that hang are stopped by their operators: all calls still pending are made again.
    pub(super) fn drivers_return(&mut self) {
        let pending = |who: usize, world: &Self| {
            let effects = world.participants[who].actor().map(|actor| actor.effects_after(0));
            effects.unwrap_or_default()
        };
        for who in 0..self.participants.len() {
            for (_, effect) in pending(who, self) {
                if let Effect::Call(call) = effect {
                    for (after, done) in self.perform(who, &call) {
                        self.later(self.now.plus(after), Event::Answer { to: who, done });
                    }
                }
            }
        }
    }

    /// What a driver answers to a call, and how long after.
    pub(super) fn perform(&mut self, who: usize, call: &Call) -> Vec<(Span, DriverResult)> {
        let Some(driver) = &self.participants[who].driver else { return Vec::new() };
        let Answer { outcome, after } = driver.perform(call);
        let outcome = outcome.map(|said| self.with_host(call, said));
        let outcome = if self.nodes.takes(who, call) {
            outcome
        } else {
            Err(DriverError("an epoch that has ended".to_owned()))
        };
        let outcome = self.misses(who, call).map_or(outcome, Err);
        let answer = (after, done(call, outcome));
        if !self.strikes(Family::Driver, 25) {
            return vec![answer];
        }
        match self.time_to_the_end(who, call) {
            Some(left) if self.sampler(Family::Driver).percent(15) => {
                self.watch.fault(Fault::AtTheEnd);
                vec![(left, answer.1)]
            }
            _ => self.misbehave(call, answer),
        }
    }

    /// How long until a clock shows the end of the lease that a call is for, or when its guest lets go of
    /// it: to the instant, or just before or after.
    fn time_to_the_end(&mut self, who: usize, call: &Call) -> Option<Span> {
        let end = match self.participants[who].actor()? {
            AnyActor::SiteAuthority(site) => {
                let (_, unit, _) = site.units().find(|(unit, ..)| *unit == call.unit)?;
                site.claims().entered(unit.tenant()?)?.1.term.end()
            }
            AnyActor::ServiceManager(guest) => {
                guest.lease(call.lease)?.held()?.term.end().minus(self.setting.margin)
            }
            AnyActor::Broker(_) => return None,
        };
        let beside = Span::from_micros(self.sampler(Family::Driver).between(-1, 1));
        let at = self.participants[who].clock.when(end.plus(beside))?;
        (at > self.now).then(|| at.since(self.now))
    }

    fn misbehave(
        &mut self,
        call: &Call,
        (after, answer): (Span, DriverResult),
    ) -> Vec<(Span, DriverResult)> {
        let term = self.setting.term;
        let fail = |why: &str| Err(DriverError(why.to_owned()));
        let sampler = self.sampler(Family::Driver);
        let (fault, answers) = match sampler.below(10) {
            0..2 if matches!(call.step, Step::Join | Step::Leave) => {
                let refused = Err(DriverError::untouched("it does not suit"));
                (Fault::Refuses, vec![(after, done(call, refused))])
            }
            0..3 => (Fault::Fails, vec![(after, done(call, fail("it burns")))]),
            3 => {
                let never = Span::DAY.times(400);
                (Fault::Hangs, vec![(never, answer)])
            }
            4 => {
                let long = sampler.span(term, term.times(3));
                (Fault::Outlasts, vec![(long, answer)])
            }
            5 => (Fault::SaysFailed, vec![(after, done(call, fail("it says")))]),
            6 => {
                // The node was never reached: it does not know the epoch.
                self.nodes
                    .highest
                    .retain(|(_, site, unit), _| (*site, *unit) != (call.site, call.unit));
                (Fault::SaysDone, vec![(after, answer)])
            }
            7 => {
                let later = after.plus(sampler.scaled(Span::from_micros(1), term));
                let other =
                    if sampler.percent(50) { Ok(Properties::default()) } else { fail("no") };
                (Fault::Twice, vec![(after, answer), (later, done(call, other))])
            }
            _ => {
                let old = Epoch(call.epoch.0.saturating_sub(1));
                let step = if sampler.percent(50) { call.step } else { other(call.step) };
                let early = sampler.span(Span::ZERO, after);
                let ghost = DriverResult { epoch: old, step, ..answer.clone() };
                (Fault::OldEpoch, vec![(early, ghost), (after, answer)])
            }
        };
        self.watch.fault(fault);
        answers
    }
}

fn done(call: &Call, outcome: Result<Properties, DriverError>) -> DriverResult {
    let Call { unit, epoch, step, number, lease, .. } = *call;
    DriverResult { unit, epoch, step, number, lease, outcome }
}

/// The step that undoes another.
fn other(step: Step) -> Step {
    match step {
        Step::Setup => Step::Teardown,
        Step::Teardown => Step::Setup,
        Step::Join | Step::Modify => Step::Leave,
        Step::Leave | Step::Warn | Step::Install | Step::Remove => Step::Join,
    }
}
