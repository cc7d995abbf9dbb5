//! Tasks: what a site or a tenant has an executor do.
//!
//! Who asks must hold the key in force of the site, or of the tenant of the unit in this epoch.

use serde::{Deserialize, Serialize};
use tenure_core::driver::{Call, DriverError, Epoch, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::keys::KeyChain;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Span;
use thiserror::Error;

/// The most bytes of the words of a command together.
pub const MAX_COMMAND: usize = 128 << 10;

/// The most bytes that are kept of each stream of a command.
pub const MAX_OUTPUT: usize = 256 << 10;

/// What an executor is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// What who asks has stated about its keys.
    pub keys: KeyChain,
    /// What.
    pub errand: Errand,
}

/// What an executor can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Errand {
    /// For its site: begin a tenancy or end it.
    Step {
        /// The setup or the teardown.
        call: Call,
        /// The users as whom the tenant may run commands, beside that of the executor.
        users: Vec<String>,
    },
    /// For its site: say how a unit is.
    Probe(UnitId),
    /// For the tenant: run a command.
    Run(Command),
}

/// A command on a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The unit.
    pub unit: UnitId,
    /// The tenancy.
    pub epoch: Epoch,
    /// As whom it runs, if not as who runs the executor.
    pub user: Option<String>,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// How long it may take.
    pub timeout: Span,
}

/// What came of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskEnd {
    /// A step is done, or a unit is up.
    Done(Properties),
    /// A step has failed, or a unit is down.
    Failed(DriverError),
    /// A command was run.
    Ran(Ran),
    /// Nothing was done.
    Refused(TaskRefusal),
}

/// A command that was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// How it ended.
    pub end: CommandEnd,
    /// What it wrote on standard output.
    pub output: Written,
    /// What it wrote on standard error.
    pub errors: Written,
}

/// What a command wrote on a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The first of it.
    pub bytes: Vec<u8>,
    /// Whether there was more.
    pub cut: bool,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandEnd {
    /// By itself, with this exit code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// It took too long, and was ended with its process group.
    Timeout,
}

/// Why an executor does not do a task.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum TaskRefusal {
    /// Who asks is not its site.
    #[error("{0} is not the site of this executor")]
    NotTheSite(ActorId),
    /// Who asks is not the tenant.
    #[error("{0} is not the tenant of {1}")]
    NotTheTenant(ActorId, UnitId),
    /// Who asks has shown a key that is not in force.
    #[error("the key that was shown is not the one in force of {0}")]
    KeyNotInForce(ActorId),
    /// The unit has no tenant.
    #[error("{0} has no tenant")]
    NoTenant(UnitId),
    /// The tenancy is over, or has not begun.
    #[error("epoch {} of {unit} is not the present one: that is {}", .asked.0, .present.0)]
    OtherEpoch {
        /// The unit.
        unit: UnitId,
        /// That of the command.
        asked: Epoch,
        /// That of the unit.
        present: Epoch,
    },
    /// The site does not let commands run as this user.
    #[error("commands may not run as user `{user}`, but as {}", .allowed.join(", "))]
    User {
        /// The user.
        user: String,
        /// As whom they may.
        allowed: Vec<String>,
    },
    /// There is no such user on the machine.
    #[error("the machine has no user `{0}`")]
    NoUser(String),
    /// The executor cannot become another user.
    #[error("the executor runs as user `{0}`, who cannot become another")]
    CannotSwitch(String),
    /// There is no such program.
    #[error("there is no program `{0}` on the machine")]
    NoProgram(String),
    /// A command that cannot be.
    #[error(
        "a command has a program and a time, and words of at most {MAX_COMMAND} bytes without NUL"
    )]
    NoCommand,
    /// As many commands run as may.
    #[error("{0} tasks are at work already")]
    Busy(u32),
    /// Something went wrong on the machine.
    #[error("{0}")]
    Failed(String),
}

impl Command {
    /// Whether it can be sent and run.
    pub fn is_whole(&self) -> bool {
        let all = || self.words.iter().chain(&self.user);
        let bytes: usize = all().map(String::len).sum();
        let clean = all().all(|word| !word.contains('\0'));
        let named = self.words.first().is_some_and(|program| !program.is_empty());
        named && clean && bytes <= MAX_COMMAND && self.timeout.is_positive()
    }
}
