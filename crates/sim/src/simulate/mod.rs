//! The fault simulator: the real actors in virtual time, under everything that can go wrong.
//!
//! A seed draws a deployment, what its guests do, and which families of faults strike how often. The
//! loop hands one input at a time to one actor, as a shell would: facts are appended and synced before
//! anything leaves, crashes come between any two of these steps, and an
//! [`Auditor`] sees every fact, message and driver call as it happens.
//! After a month the faults stop, and everything that was begun must come to its end.
//!
//! The same seed and options give the same run, to the last byte of every journal.

mod act;
mod boundary;
mod participants;
mod plans;
mod services;
mod recalls;
mod clock;
pub mod coverage;
mod adversary;
mod sampler;
mod fault;
mod foreign;
mod users;
mod mapper;
mod node;
mod keys;
mod operators;
mod participant;
mod resale;
mod setting;
mod shell;
mod shrink;
mod strangers;
mod takeover;
mod tickets;
mod trace;
mod transition;
mod violation;
mod watch;
mod wire;
mod world;

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure_core::actor::Actor as _;
use tenure_core::model::codec::Hash;
use tenure_core::model::time::{Span, Time};
use tenure_laws::{Auditor, Bounds, Law, Observation, Participants};

pub use fault::{Family, Fault};
pub use shrink::shrink;
pub use violation::Violation;
pub use watch::Counts;

use crate::random::Chance;
use setting::Setting;
use watch::Watch;
use world::World;

/// The fewest leases that must become active for a seed to say anything.
pub const FEWEST_LEASES: u64 = 50;
/// The fewest faults that must strike.
pub const FEWEST_FAULTS: u64 = 100;
/// The fewest kinds of faults that must strike.
pub const FEWEST_KINDS: usize = 8;

/// What is different from the full simulation of a seed: nothing, unless a failure is being shrunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Families of faults that are left out.
    pub without: BTreeSet<Family>,
    /// When the faults stop, if that is earlier than drawn.
    pub until: Option<Time>,
    /// Whether the steps are kept in words.
    pub traced: bool,
}

/// What came out of one seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Over all journals and all steps: the same for the same seed and options.
    pub hash: Hash,
    /// What happened how often.
    pub counts: Counts,
    /// How often each law was checked.
    pub checks: Vec<(&'static Law, u64)>,
    /// What is wrong, if anything is.
    pub violation: Option<Violation>,
    /// The steps that led to it, if they were kept.
    pub trace: Vec<String>,
}

impl Outcome {
    /// Whether too little happened for the seed to say anything.
    pub fn is_void(&self) -> bool {
        let faults: u64 = self.counts.faults.values().sum();
        self.violation.is_none()
            && (self.counts.leases < FEWEST_LEASES
                || faults < FEWEST_FAULTS
                || self.counts.faults.len() < FEWEST_KINDS)
    }
}

/// Runs one seed.
pub fn run(seed: u64, options: &Options) -> Outcome {
    let mut world = begin(seed, options);
    // A panic is a defect of an actor; the seed must still be reported.
    let lived = catch_unwind(AssertUnwindSafe(|| live(&mut world)));
    let violation = match lived {
        Ok(lived) => lived.err(),
        Err(panic) => Some(Violation::Panicked { at: world.now, what: words(&*panic) }),
    };
    outcome(seed, &world, violation)
}

/// The deployment of a seed, before anything happens.
fn begin(seed: u64, options: &Options) -> World {
    let chance = Chance::new(seed);
    let setting = Setting::draw(chance, options);
    let participants = participants::assemble(&setting, chance);
    let auditor = Auditor::new(audited(&setting, &participants));
    let mut watch = Watch::new(auditor, options.traced, setting.margin);
    watch.names =
        participants.iter().map(|participant| (participant.id, participant.name.clone())).collect();
    World::new(setting, chance, watch, participants)
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("nothing").to_owned()
}

/// A month under faults, then health, then the end of everything that was begun.
fn live(world: &mut World) -> Result<(), Violation> {
    world.open()?;
    world.plan();
    world.run_until(world.setting.heal)?;
    world.heal()?;
    let bounds = bounds(&world.setting);
    let now = world.now;
    world.watch.auditor.healed(now, bounds);
    let last = world.setting.burst.as_ref().and_then(|burst| burst.visits.iter().max().copied());
    world.run_until(last.unwrap_or(now).plus(longest(&world.setting)))?;
    world.rest()?;
    let now = world.now;
    Ok(world.watch.auditor.settle(now)?)
}

/// How soon things must happen once the faults have stopped.
fn bounds(setting: &Setting) -> Bounds {
    let retries = setting.retry_policy.longest.times(3);
    let drivers = setting.term.times(2);
    Bounds { request: retries.plus(drivers), teardown: drivers, recovery: Span::MINUTE.times(10) }
}

/// How long anything that was begun may still take: requests for the next term are remembered as long
/// again as that.
fn longest(setting: &Setting) -> Span {
    setting.term.times(12).plus(setting.margin.times(4)).plus(Span::DAY)
}

fn audited(setting: &Setting, participants: &[participant::Participant]) -> Participants {
    let participant = |participant: &participant::Participant| {
        let (name, role, honest) = (participant.name.clone(), participant.role, participant.honest);
        (participant.id, tenure_laws::Participant { name, role, honest })
    };
    Participants {
        members: participants.iter().map(participant).collect(),
        scheme: setting.scheme,
        margin: setting.margin,
        clocks_hold: !setting.has(Family::WildClock),
    }
}

impl World {
    /// No healthy participant has anything left to do. What began a moment ago, as the renewal of a
    /// delegation may at any time, has as long as messages may take to come to its end.
    fn rest(&mut self) -> Result<(), Violation> {
        let mut left = self.left()?;
        if !left.is_empty() {
            self.run_until(self.now.plus(self.setting.retry_policy.longest.times(3)))?;
            let still = self.left()?;
            left.retain(|line| still.contains(line));
        }
        self.read_a_journal()?;
        if left.is_empty() { Ok(()) } else { Err(self.stuck(left.join("; "))) }
    }

    /// What the honest have yet to do.
    fn left(&mut self) -> Result<Vec<String>, Violation> {
        let mut left = Vec::new();
        for who in 0..self.participants.len() {
            let participant = &self.participants[who];
            let Some(actor) = participant.actor() else {
                return Err(self.stuck(format!("{} is not back", participant.name)));
            };
            if !participant.honest {
                continue;
            }
            left.extend(
                actor.unfinished(9).into_iter().map(|line| format!("{}: {line}", participant.name)),
            );
            let (actor, clock) = (participant.id, participant.time(self.now));
            self.watch.auditor.observe(self.now, &Observation::Rested { actor, clock })?;
        }
        Ok(left)
    }

    /// One of the actors is built once more from the bytes of its journal: it must be the one that runs.
    fn read_a_journal(&mut self) -> Result<(), Violation> {
        let who = self.shell.below(self.participants.len());
        let again = self.participants[who].read_again().map_err(|cause| {
            self.stuck(format!(
                "the journal of {} cannot be read: {cause}",
                self.participants[who].name
            ))
        })?;
        let participant = &self.participants[who];
        let id = participant.id;
        let Some(actor) = participant.actor() else { return Ok(()) };
        let seen = Observation::Recovered {
            actor: id,
            position: again.position(),
            same: Some(again == *actor),
        };
        Ok(self.watch.auditor.observe(self.now, &seen)?)
    }
}

fn outcome(seed: u64, world: &World, violation: Option<Violation>) -> Outcome {
    let hashes: Vec<[u8; 32]> = world
        .participants
        .iter()
        .map(|participant| participant.journal.hash().to_bytes())
        .collect();
    let steps = world.watch.trace.hash().to_le_bytes();
    let mut parts: Vec<&[u8]> = hashes.iter().map(<[u8; 32]>::as_slice).collect();
    parts.push(&steps);
    let trace = violation.as_ref().map(|violation| world.watch.trace.shortened(violation.what()));
    Outcome {
        seed,
        hash: Hash::of("tenure simulation v1", &parts),
        counts: world.watch.counts.clone(),
        checks: world.watch.auditor.checked().collect(),
        violation,
        trace: trace.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_run_and_another_one_another() {
        let run = |seed, traced| run(seed, &Options { traced, ..Options::default() });
        let first = run(1, false);
        assert_eq!(first.violation, None);
        let again = run(1, true);
        assert_eq!((first.hash, &first.counts), (again.hash, &again.counts));
        assert_ne!(first.hash, run(2, false).hash);
    }

    #[test]
    fn what_began_a_moment_before_the_end_may_come_to_its_own() {
        let calm = Options { without: Family::ALL.iter().copied().collect(), ..Options::default() };
        let mut world = begin(1, &calm);
        world.open().unwrap();
        let left = world.left().unwrap();
        assert!(left.iter().any(|line| line.ends_with("is not acknowledged")), "{left:?}");
        assert_eq!(world.rest(), Ok(()));
        // What no participant processes stays, and is reported.
        let mut world = begin(1, &calm);
        let all = world.participants.len();
        for (one, other) in (0..all).flat_map(|one| (0..all).map(move |other| (one, other))) {
            world.wire.cut(one, other, Time::MAX);
        }
        world.open().unwrap();
        assert!(world.rest().is_err());
    }

    #[test]
    fn a_family_that_is_left_out_does_not_strike() {
        let without = BTreeSet::from([Family::Crash, Family::Storage, Family::Driver]);
        for seed in 0..3 {
            let outcome = run(seed, &Options { without: without.clone(), ..Options::default() });
            let mut struck = outcome.counts.faults.keys().map(|fault| fault.family());
            assert!(!struck.any(|family| without.contains(&family)), "seed {seed}");
        }
    }
}
