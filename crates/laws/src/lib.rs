//! The laws of leasing, and the auditor that holds a whole deployment to them.
//!
//! Each law has a file of its own, with its name, its statement and where it comes from; [`LAWS`] lists
//! them and `docs/INVARIANTS.md` is printed from it. An [`Auditor`] folds what it is shown, once and in
//! order, into a model that all laws share, and answers the first violation. What the laws need to know
//! is in the facts, so most of them hold over any set of journals ([`audit_journals`]); those on
//! messages, driver calls, recoveries and rest must be observed by a simulator.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a law names the facts that it is about; all others are none of its business"
)]

mod auditor;
mod model;

use std::collections::BTreeMap;
use std::fmt;

pub use auditor::{Auditor, audit_journals};
use model::{Change, Model, Subject};

use tenure_core::actor::snapshot;
use tenure_core::actor::{Actor, Role};
use tenure_core::broker::facts as broker;
use tenure_core::driver::Call;
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::{ActorId, Scheme};
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::{AnyActor, Entry};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::ticket::Ticket;
use tenure_core::wire::message::{Envelope, Sealed};

/// Declares the laws: a module each, in the order in which they are asked.
macro_rules! laws {
    ($($module:ident,)*) => {
        $(mod $module;)*

        /// Every law, in the order in which they are asked.
        pub const LAWS: &[Law] = &[$($module::LAW,)*];

        /// A new checker for each law, in the order of [`LAWS`].
        fn checkers() -> Vec<Box<dyn Check>> {
            vec![$(Box::<$module::Checker>::default(),)*]
        }
    };
}

laws! {
    s01_exclusive_allocation,
    s02_conservation,
    s03_monotone_attenuation,
    s04_term_bound,
    s05_clock_skew_safety,
    s06_fencing,
    s07_idempotent_redelivery,
    s08_no_resurrection,
    s09_output_commit,
    s10_durable_acknowledgements,
    s11_replay_determinism,
    s12_joint_legality,
    s13_provenance,
    s14_accountability,
    s15_no_orphan_units,
    s16_refusals_change_nothing,
    s17_bounded_resources,
    s18_one_fate,
    s19_recall_notice,
    s20_recalled_rights,
    s21_sequence,
    s22_stacks,
    s23_keys,
    s24_plans,
    s25_orders,
    s26_ambiguous_units,
    s27_heartbeats,
    s28_passing_on,
    l01_every_request_ends,
    l02_units_come_back,
    l03_agreement,
    l04_recovery,
    l05_no_metastable_state,
}

/// A law that every deployment keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// `S1` to `S28` for what must never happen, `L1` to `L5` for what must happen in the end.
    pub id: &'static str,
    /// Its name in the literature.
    pub name: &'static str,
    /// What holds, in a sentence or two.
    pub statement: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What it is checked on.
    pub on: &'static str,
}

/// A law that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The law.
    pub law: &'static Law,
    /// When: the true time or, from journals alone, the time on the actor's clock.
    pub at: Time,
    /// Whose doing showed it, if it was one actor's.
    pub actor: Option<ActorId>,
    /// What is wrong, in a sentence.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) at {}: {}", self.law.id, self.law.name, self.at, self.what)
    }
}

impl std::error::Error for Violation {}

/// Something that happened, to be shown to an [`Auditor`] in the order in which it did.
#[derive(Clone, Copy, Debug)]
pub enum Observation<'a> {
    /// Facts became durable in an actor's journal. Facts that a recovery finds in a journal, because a
    /// crash came after they were durable and before the actor knew, are shown then.
    Durable {
        /// Whose journal.
        actor: ActorId,
        /// The position of the first of them.
        position: u64,
        /// The facts.
        entries: &'a [Entry],
    },
    /// A sealed message left its sender: each time it does, repetitions too.
    Sent {
        /// What is inside.
        envelope: &'a Envelope,
        /// What travels.
        sealed: &'a Sealed,
    },
    /// A site or a guest had its driver called.
    Called {
        /// Who.
        actor: ActorId,
        /// The call.
        call: &'a Call,
    },
    /// An actor stopped; what was not durable is gone.
    Crashed {
        /// Who.
        actor: ActorId,
    },
    /// An actor came back from its journal, before it is handed anything.
    Recovered {
        /// Who.
        actor: ActorId,
        /// The number of facts it came back with.
        position: u64,
        /// Whether it is the same as the one that crashed, as [`HostedActor::is_same_actor`] or [`digest`]
        /// tell; `None` if not all facts of that one were durable, or no one looked at it.
        ///
        /// [`HostedActor::is_same_actor`]: tenure_core::runtime::hosted::HostedActor::is_same_actor
        same: Option<bool>,
    },
    /// An actor took an input and made no fact of it.
    Unmoved {
        /// Who.
        actor: ActorId,
        /// Whether it is the same as before.
        same: bool,
    },
    /// An actor is up and has nothing left to do: it was handed all that is due by its clock.
    Rested {
        /// Who.
        actor: ActorId,
        /// The time on its clock.
        clock: Time,
    },
}

/// Who takes part, and what may be assumed of them.
#[derive(Clone, Debug)]
pub struct Participants {
    /// All actors.
    pub members: BTreeMap<ActorId, Participant>,
    /// Whether signatures are made and checked.
    pub scheme: Scheme,
    /// The bound on the difference of two clocks.
    pub margin: Span,
    /// Whether the clocks keep to it. If not, the laws that rest on it are not asked.
    pub clocks_hold: bool,
}

/// A participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// The name to call it by.
    pub name: Name,
    /// What it is for.
    pub role: Role,
    /// Whether it runs this code. Other actors are held to no law, and their statements do not count; what
    /// they do must still break none of the others.
    pub honest: bool,
}

/// How soon things must happen once the faults have stopped, in true time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// From the moment at which a request could be met until it is, or has failed (L1).
    pub request: Span,
    /// From the end of a lease until its units are clean or quarantined (L2).
    pub teardown: Span,
    /// From a crash until the actor has made a fact again (L4).
    pub recovery: Span,
}

/// What an actor is: the hash of its whole state. Two actors of one configuration with the same digest go
/// on in the same way. Costs as much as there is of it.
pub fn digest(actor: &AnyActor) -> Hash {
    snapshot::hash(&actor.snapshot())
}

/// A law at work: it looks at what concerns it and remembers what only it needs.
///
/// The methods on facts are called before the model has the fact; `change` after.
trait Check {
    fn site(&mut self, _: &Scene<'_>, _: &site_authority::Fact, _: &mut Tally) -> LawVerdict {
        Ok(())
    }

    fn broker(&mut self, _: &Scene<'_>, _: &broker::Fact, _: &mut Tally) -> LawVerdict {
        Ok(())
    }

    fn guest(&mut self, _: &Scene<'_>, _: &service_manager::Fact, _: &mut Tally) -> LawVerdict {
        Ok(())
    }

    /// A ticket in a fact: cut, issued, granted or accepted, at the latest by this fact.
    fn ticket(&mut self, _: &Scene<'_>, _: &Ticket, _: &mut Tally) -> LawVerdict {
        Ok(())
    }

    /// The model applied a fact, or could not.
    fn folded(&mut self, _: &Scene<'_>, _: Option<&str>, _: &mut Tally) -> LawVerdict {
        Ok(())
    }

    /// A fact moved something from one state to another.
    fn change(&mut self, _: &Scene<'_>, _: &Change, _: &mut Tally) -> LawVerdict {
        Ok(())
    }

    /// The model has applied all facts of one input; never called where they come one by one.
    fn batched(&mut self, _: &Scene<'_>, _: &mut Tally) -> LawVerdict {
        Ok(())
    }

    /// Anything but facts; of facts, that they became durable, before any of them is looked at.
    fn happened(&mut self, _: &Scene<'_>, _: &Observation<'_>, _: &mut Tally) -> LawVerdict {
        Ok(())
    }

    /// The faults have stopped.
    fn healed(&mut self, _: Time, _: Bounds) {}

    /// A burst of requests begins, or has ended and must be forgotten from some instant on.
    fn burst(&mut self, _forgotten: Option<Time>) {}

    /// The run has ended.
    fn settled(&mut self, _: &Model, _: Time, _: &mut Tally) -> LawVerdict {
        Ok(())
    }
}

/// What a law is shown beside the thing itself.
struct Scene<'a> {
    model: &'a Model,
    /// True time; from journals alone, the same as `at`.
    now: Time,
    /// Whose doing it is.
    actor: ActorId,
    /// When, on the actor's own clock; for anything but facts the same as `now`.
    at: Time,
}

impl Scene<'_> {
    /// The name of whose doing it is.
    fn name(&self) -> String {
        self.model.name(self.actor)
    }
}

/// Why a law was broken.
struct Breach(String);

type LawVerdict = Result<(), Breach>;

/// Counts what a law has looked at, so that none can sleep unnoticed.
#[derive(Clone, Copy, Debug, Default)]
struct Tally(u64);

impl Tally {
    /// One check: `holds`, or the law is broken as `what` says.
    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) -> LawVerdict {
        self.0 += 1;
        if holds { Ok(()) } else { Err(Breach(what())) }
    }
}

impl Participants {
    /// The name of an actor, or the beginning of its id.
    fn name(&self, actor: ActorId) -> String {
        self.members.get(&actor).map_or_else(|| actor.to_string(), |p| p.name.to_string())
    }

    /// Whether anybody is not honest.
    fn has_adversaries(&self) -> bool {
        self.members.values().any(|participant| !participant.honest)
    }

    /// Whether a name may come back once it is forgotten. A clock that was set back may cause it, and no one
    /// promises anything then; and a dishonest guest may give the name of an old request to a new one, as
    /// its names are its own.
    fn may_return(&self, subject: Subject) -> bool {
        let of_adversary = matches!(subject, Subject::Request(_, id) if !self.honest(id.origin));
        of_adversary || !self.clocks_hold
    }

    fn honest(&self, actor: ActorId) -> bool {
        self.members.get(&actor).is_some_and(|participant| participant.honest)
    }
}
