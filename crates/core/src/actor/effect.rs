//! What goes into an actor and what comes out: inputs, effects, and the output of one call.

use std::num::NonZeroU32;

use thiserror::Error;

use crate::actor::fact::Entry;
use crate::driver::{Call, DriverError, Epoch, Step, UnitId};
use crate::mapper::Decision;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::LeaseId;
use crate::model::time::Span;
use crate::service_manager::mapper::Ask;
use crate::wire::message::{Envelope, OpenError, Sealed, Sequence};

/// Names work that is owed: the fact that caused it, and which of that fact's.
pub type EffectId = Sequence;

/// What an actor can be told.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The shell is ready: the first input after each start or recovery.
    Start,
    /// A message arrived.
    Message(Sealed),
    /// Time has passed.
    Tick,
    /// A driver answered.
    Driver(DriverResult),
    /// A signal was measured (demand, load, a KPI).
    Observe {
        /// Its name.
        signal: Name,
        /// Its value.
        value: i64,
    },
    /// A user wants something.
    Command(Command),
    /// The mapper has decided.
    Decision(Decision),
}

/// What became of a driver's [`Call`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverResult {
    /// The unit.
    pub unit: UnitId,
    /// The epoch of the call.
    pub epoch: Epoch,
    /// The step.
    pub step: Step,
    /// The lease it was done for.
    pub lease: LeaseId,
    /// How it went.
    pub outcome: Result<Properties, DriverError>,
}

/// What a user can want of an actor.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Of a service manager: ask a broker for units.
    Ask(Ask),
    /// Of a service manager: keep a lease for longer.
    Extend {
        /// The lease.
        lease: LeaseId,
        /// For how much longer.
        duration: Span,
    },
    /// Of a service manager: give a lease back.
    Close {
        /// The lease.
        lease: LeaseId,
    },
    /// Of a site: a quarantined unit was put right.
    Reset {
        /// The unit.
        unit: UnitId,
    },
    /// Of a site: more units of a type are there.
    Stock {
        /// The type, which must be known.
        resource: Name,
        /// How many more.
        units: NonZeroU32,
    },
    /// Of a site: units of a type are withdrawn for good. Refused unless so many are idle and delegated to
    /// nobody.
    Withdraw {
        /// The type.
        resource: Name,
        /// How many.
        units: NonZeroU32,
    },
}

/// Work for the shell.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send this, again and again until it is owed no more.
    Send(Box<Envelope>),
    /// Have a driver do this, once; after a recovery once more.
    Call(Call),
    /// Ask the mapper, with the actor's view.
    Consult {
        /// The round, to be named in the decision.
        round: u64,
    },
}

/// What one call of `handle` produced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// Facts, in order, already applied: to be made durable before anything else leaves.
    pub facts: Vec<Entry>,
    /// Answers, to be sent once the facts are durable. They are not repeated: whoever misses one asks
    /// again.
    pub replies: Vec<Envelope>,
    /// What was wrong with the input; it changed nothing.
    pub problems: Vec<Problem>,
}

/// What can be wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// A message that was not opened.
    #[error("a message was dropped: {0}")]
    Unopened(#[from] OpenError),
    /// A message that makes no sense from this sender, or at this receiver.
    #[error("a `{kind}` message was dropped: {cause}")]
    Message {
        /// The kind of the message.
        kind: &'static str,
        /// Why.
        cause: String,
    },
    /// A decision for a round that is over.
    #[error("the mapper answered round {answered}, but round {open:?} is open")]
    StaleDecision {
        /// The round it answered.
        answered: u64,
        /// The round that is open.
        open: Option<u64>,
    },
    /// A choice of the mapper's that the core refuses.
    #[error("the mapper's choice was refused: {0}")]
    BadChoice(String),
    /// A command that cannot be carried out.
    #[error("{0}")]
    Command(String),
    /// An input that this role does not take.
    #[error("a {role} takes no {input}")]
    WrongRole {
        /// The role.
        role: &'static str,
        /// The input.
        input: &'static str,
    },
}
