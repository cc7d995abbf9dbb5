//! What goes into an actor and what comes out: inputs, effects, and the output of one call.

use thiserror::Error;

use crate::actor::fact::Entry;
use crate::actor::order::Order;
use crate::driver::{Call, DriverError, Epoch, Step, UnitId};
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::wire::inquiry::Answered;
use crate::wire::message::{Envelope, OpenError, Sealed, Sequence};

/// Names work that is owed: the fact that caused it, and which of that fact's.
pub type EffectId = Sequence;

/// An input to an actor whose users give commands `C` and whose mapper decides `D`.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<C, D> {
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
    /// A user gave a command.
    Command(C),
    /// The mapper has decided.
    Decision(D),
    /// A user gave a command that has a name: it is carried out once.
    Ordered(C, Order),
}

impl<C, D> Input<C, D> {
    /// The same input with its command or decision converted; the word for what cannot be.
    pub fn narrow<C2, D2>(
        self,
        command: impl FnOnce(C) -> Option<C2>,
        decision: impl FnOnce(D) -> Option<D2>,
    ) -> Result<Input<C2, D2>, &'static str> {
        Ok(match self {
            Self::Start => Input::Start,
            Self::Message(sealed) => Input::Message(sealed),
            Self::Tick => Input::Tick,
            Self::Driver(result) => Input::Driver(result),
            Self::Observe { signal, value } => Input::Observe { signal, value },
            Self::Command(given) => {
                Input::Command(command(given).ok_or("command of another role")?)
            }
            Self::Ordered(given, order) => {
                Input::Ordered(command(given).ok_or("command of another role")?, order)
            }
            Self::Decision(made) => {
                Input::Decision(decision(made).ok_or("decision of another role")?)
            }
        })
    }
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
    /// The number of a modification.
    pub number: u32,
    /// The lease it was done for.
    pub lease: LeaseId,
    /// How it went.
    pub outcome: Result<Properties, DriverError>,
}

/// Work for the shell.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send this, again and again until it is owed no more.
    Send(Box<Envelope>),
    /// Have a driver do this, once; after a recovery once more.
    Call(Call),
}

/// What one call of `handle` produced.
#[derive(Clone, Debug, PartialEq)]
pub struct Output<F> {
    /// Facts, in order, already applied: to be made durable before anything else leaves.
    pub facts: Vec<Entry<F>>,
    /// Answers, to be sent once the facts are durable. They are not repeated: an actor that misses one asks
    /// again.
    pub replies: Vec<Envelope>,
    /// What was wrong with the input; it changed nothing.
    pub problems: Vec<Problem>,
    /// What brokers have answered to inquiries: it changed nothing either.
    pub answered: Vec<Answered>,
}

impl<F> Default for Output<F> {
    fn default() -> Self {
        Self { facts: Vec::new(), replies: Vec::new(), problems: Vec::new(), answered: Vec::new() }
    }
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

/// What is known of the answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// None is awaited any more.
    Nothing,
    /// It should be there.
    Answer,
    /// Its receiver holds it, and need not answer before this instant.
    Held(Time),
}
