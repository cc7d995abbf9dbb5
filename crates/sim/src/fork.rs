//! Forks: a recorded deployment continues in virtual time from a moment of its past, with other mappers.
//!
//! The facts up to that moment are folded as an actor does when it comes back. What came from outside after
//! it (signals, what users and operators wanted) is taken from the journals as well, so that every
//! branch is given the same. What the journals do not hold, the time that messages and drivers take,
//! is chosen by the caller.

mod outcome;
mod recorded;
mod script;

use std::collections::BTreeMap;

use tenure_core::actor::Role;
use tenure_core::actor::fact::BadFact;
use tenure_core::broker::facts as broker;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Time;
use tenure_core::runtime::journal::{JournalDigest, hash_of_run};
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::facts as sm;
use thiserror::Error;

use crate::emulation::{Emulation, EmulationError, Progress, RunContext};
use crate::participants::{Member, Part, Plugins, assemble};
use crate::report::Report;
use crate::scenario::Scenario;

pub use outcome::{
    Difference, Ended, Lease, Outcome, RequestVerdict, Requests, differences, repeated,
};
pub use recorded::{Recorded, Timings};
use script::RecordedInput;
pub(crate) use script::{Script, may_be_a_request};

/// The journal of one actor.
#[derive(Clone, Debug)]
pub struct Past {
    /// The actor's name.
    pub name: Name,
    /// Its role.
    pub role: Role,
    /// Its id.
    pub id: ActorId,
    /// All its facts.
    pub facts: Vec<Entry>,
}

impl Past {
    /// Where the facts up to a moment end: those of this very instant count.
    fn until(&self, at: Time) -> usize {
        self.facts.iter().position(|entry| entry.at > at).unwrap_or(self.facts.len())
    }
}

/// A deployment to continue with: its actors with nothing in their journals, and all the rest.
pub struct Setting {
    /// The actors in the order of their names.
    pub parts: Vec<Part>,
    /// The rest.
    pub stage: RunContext,
    /// Whether the recorded deployment was an emulation on this very stage, so that what was on its way
    /// is known to the instant. Else what is pending at the moment of the fork is sent again, as after a
    /// crash.
    pub emulated: bool,
}

impl Setting {
    /// That of a scenario.
    ///
    /// # Errors
    /// The first mapper that does not exist or does not take its settings, or an empty window.
    pub fn of(scenario: &Scenario, plugins: &Plugins) -> Result<Self, EmulationError> {
        let parts = assemble(scenario, plugins)
            .map_err(|(role, name, cause)| EmulationError::Mapper { role, name, cause })?;
        Ok(Self { parts, stage: RunContext::of(scenario)?, emulated: true })
    }
}

/// Why a deployment cannot continue from its journals.
#[derive(Debug, Error)]
pub enum ForkError {
    /// An actor without a journal.
    #[error("there is no journal of the {role} `{name}`")]
    NoJournal {
        /// Its role.
        role: Role,
        /// The actor.
        name: Name,
    },
    /// A journal of no one in the deployment.
    #[error("the {role} `{name}` is not part of the deployment")]
    Stranger {
        /// Its role.
        role: Role,
        /// Whose journal it is.
        name: Name,
    },
    /// A journal of an actor of that name with another key.
    #[error("the journal of the {role} `{name}` is that of another deployment: its key is another")]
    OtherKey {
        /// Its role.
        role: Role,
        /// Whose journal it is.
        name: Name,
    },
    /// A fact that does not follow from those before it.
    #[error("fact {position} in the journal of `{name}` cannot be: {cause}")]
    BadFact {
        /// Whose journal it is.
        name: Name,
        /// The position of the fact.
        position: u64,
        /// Why the actor does not take it.
        cause: BadFact,
    },
    /// What was emulated was not what the scenario says.
    #[error("`{name}` would have gone on otherwise than its journal does")]
    Unlike {
        /// The actor.
        name: Name,
    },
    /// The branch cannot continue.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
}

/// Whether the journals are those of the deployment, one of each actor.
///
/// # Errors
/// The first journal or actor that stands alone.
pub fn check(parts: &[Part], pasts: &[Past]) -> Result<(), ForkError> {
    for past in pasts {
        let (role, name) = (past.role, past.name.clone());
        if !parts.iter().any(|part| (part.hosted.role(), &part.name) == (role, &name)) {
            return Err(ForkError::Stranger { role, name });
        }
        if !parts.iter().any(|part| part.id == past.id) {
            return Err(ForkError::OtherKey { role, name });
        }
    }
    for part in parts {
        if !pasts.iter().any(|past| past.id == part.id) {
            let (role, name) = (part.hosted.role(), part.name.clone());
            return Err(ForkError::NoJournal { role, name });
        }
    }
    Ok(())
}

/// Between which moments a deployment can be forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moments {
    /// When the last of its actors had begun.
    pub first: Time,
    /// When every broker that was ever given anything to sell had been given something.
    pub delegated: Option<Time>,
    /// The last fact.
    pub last: Time,
}

/// The moments of a deployment; none if an actor has no facts.
pub fn moments(pasts: &[Past]) -> Option<Moments> {
    let begun: Option<Vec<Time>> = pasts.iter().map(|p| Some(p.facts.first()?.at)).collect();
    let last = pasts.iter().flat_map(|past| &past.facts).map(|entry| entry.at).max()?;
    let taken =
        |entry: &&Entry| matches!(&entry.fact, Fact::Broker(broker::Fact::DelegationTaken(_)));
    let first_taken = pasts.iter().filter_map(|past| Some(past.facts.iter().find(taken)?.at));
    Some(Moments { first: begun?.into_iter().max()?, delegated: first_taken.max(), last })
}

/// What came from outside after a moment, as the journals have it.
#[derive(Clone, Debug)]
pub struct Recording {
    lines: BTreeMap<ActorId, Vec<(Time, RecordedInput)>>,
}

impl Recording {
    /// Takes it from the journals. `setting` has the mappers as they were: a request that they would not have
    /// had was a user's.
    ///
    /// # Errors
    /// See [`ForkError`].
    pub fn of(setting: Setting, pasts: &[Past], at: Time) -> Result<Self, ForkError> {
        check(&setting.parts, pasts)?;
        let mut lines = BTreeMap::new();
        for mut part in setting.parts {
            let Some(past) = pasts.iter().find(|past| past.id == part.id) else { continue };
            let recorded_inputs = script::recorded_inputs(
                &mut part.hosted,
                &past.facts,
                past.until(at),
                !setting.emulated,
            )
            .map_err(|(position, cause)| ForkError::BadFact {
                name: part.name.clone(),
                position,
                cause,
            })?;
            lines.insert(part.id, recorded_inputs);
        }
        Ok(Self { lines })
    }

    /// How many signals, and how many commands of users and operators.
    pub fn counts(&self) -> (usize, usize) {
        let all = || self.lines.values().flatten();
        let signals = all()
            .filter(|(_, recorded_inputs)| matches!(recorded_inputs, RecordedInput::Observe { .. }))
            .count();
        (signals, all().count() - signals)
    }
}

/// What became of a deployment that went on from its journals.
#[derive(Clone, Debug)]
pub struct Branch {
    /// The figures, over the whole window.
    pub report: Report,
    /// What became of every request.
    pub requests: Requests,
    /// Commands of users about leases that do not exist in this branch.
    pub dropped: u64,
}

/// Continues from the journals as they were at `at`, until everything has come to rest.
///
/// # Errors
/// See [`ForkError`].
pub fn go_on(
    setting: Setting,
    recording: &Recording,
    pasts: &[Past],
    at: Time,
) -> Result<Branch, ForkError> {
    check(&setting.parts, pasts)?;
    let Setting { parts, stage, emulated } = setting;
    let sites = outcome::sites(pasts);
    let mut members: Vec<Member> = parts.into_iter().map(Member::from).collect();
    let mut requests = Requests::default();
    let mut before: Vec<&[Entry]> = Vec::new();
    for member in &mut members {
        let Some(past) = pasts.iter().find(|past| past.id == member.id) else { continue };
        let facts = &past.facts[..past.until(at)];
        before.push(facts);
        member.demand = demand(past, &stage);
        let recorded_inputs = recording.lines.get(&member.id).cloned().unwrap_or_default();
        member.script = Script::new(recorded_inputs, last_number(facts));
        facts.iter().for_each(|entry| requests.observe(&past.name, entry, &sites));
    }
    let requests = std::cell::RefCell::new(requests);
    let keeper = |kept: crate::emulation::Kept<'_>| {
        let mut requests = requests.borrow_mut();
        kept.entries.iter().for_each(|entry| requests.observe(kept.name, entry, &sites));
        Ok(())
    };
    let mut emulation = Emulation::on(stage, members, Box::new(keeper));
    emulation.resume(&before, at, emulated)?;
    while emulation.step()? != Progress::Done {}
    let (report, dropped, users) = (emulation.report(), emulation.dropped(), emulation.users());
    drop(emulation);
    let mut requests = requests.into_inner();
    requests.settle(&users, at);
    Ok(Branch { report, requests, dropped })
}

/// What became of every request in the journals themselves.
pub fn as_recorded(pasts: &[Past], recording: &Recording, at: Time) -> Requests {
    let (mut requests, sites) = (Requests::default(), outcome::sites(pasts));
    for past in pasts {
        past.facts.iter().for_each(|entry| requests.observe(&past.name, entry, &sites));
    }
    let names: BTreeMap<ActorId, &Name> = pasts.iter().map(|past| (past.id, &past.name)).collect();
    let mut users = BTreeMap::new();
    for (id, (_, recorded_inputs)) in
        recording.lines.iter().flat_map(|(id, all)| all.iter().map(move |l| (id, l)))
    {
        if let (RecordedInput::Ask(_, number), Some(name)) = (recorded_inputs, names.get(id)) {
            users.insert(((*name).clone(), *number), *number);
        }
    }
    requests.settle(&users, at);
    requests
}

/// The hash of the recorded run: that of a branch which repeats it fact for fact.
pub fn hash(pasts: &[Past]) -> String {
    let mut sorted: Vec<&Past> = pasts.iter().collect();
    sorted.sort_by_key(|past| (&past.name, past.role));
    let hashes = sorted.into_iter().map(|past| {
        let mut journal = JournalDigest::default();
        // Nothing was appended before, so that this is where the facts belong.
        let _at_its_start = journal.append(0, &past.facts);
        journal.hash()
    });
    hash_of_run(hashes).to_hex()
}

/// The last request that a service manager has made.
fn last_number(facts: &[Entry]) -> u64 {
    let asked = facts.iter().filter_map(|entry| match &entry.fact {
        Fact::ServiceManager(sm::Fact::Asked(fact)) => Some(fact.request.id.number),
        Fact::ServiceManager(sm::Fact::ExtensionAsked(fact)) => Some(fact.request.id.number),
        Fact::ServiceManager(_) | Fact::Broker(_) | Fact::SiteAuthority(_) => None,
    });
    asked.max().unwrap_or_default()
}

/// What a service manager needed at each step: the signal that it received first.
fn demand(past: &Past, stage: &RunContext) -> Vec<u32> {
    let window = stage.window;
    let observed = past.facts.iter().filter_map(|entry| match &entry.fact {
        Fact::ServiceManager(sm::Fact::SignalObserved(fact)) => Some((entry.at, fact)),
        Fact::ServiceManager(_) | Fact::Broker(_) | Fact::SiteAuthority(_) => None,
    });
    let observed: Vec<_> = observed.collect();
    let Some((_, first)) = observed.first() else { return Vec::new() };
    let signal = first.signal.clone();
    let mut of_signal = observed.into_iter().filter(|(_, fact)| fact.signal == signal).peekable();
    let (mut steps, mut value, mut next) = (Vec::new(), 0, window.start());
    while next < window.end() {
        while let Some((_, fact)) = of_signal.next_if(|(at, _)| *at <= next) {
            value = u32::try_from(fact.value.max(0)).unwrap_or(u32::MAX);
        }
        steps.push(value);
        next = next.plus(stage.step);
    }
    steps
}
