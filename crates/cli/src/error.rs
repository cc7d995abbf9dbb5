//! Why a command failed.

use std::io;
use std::path::{Path, PathBuf};

use tenure_config::ConfigError;
use tenure_core::model::time::Span;
use tenure_laws::Violation;
use tenure_node::api::client::ClientError;
use tenure_node::api::{Code, LeaseName, LeaseView, RefusalView};
use tenure_node::backup::BackupError;
use tenure_node::config::explain::UnknownKey;
use tenure_node::executor::ExecutorError;
use tenure_node::journal::JournalError;
use tenure_node::run::RunError;
use tenure_sim::emulation::EmulationError;
use tenure_sim::workload::WorkloadError;
use thiserror::Error;

use crate::live::plan::PlanError;
use crate::plan::outside::SolverError;
use crate::workload::ShowError;

/// Something went wrong.
const FAILED: u8 = 1;
/// The command line is wrong.
const USAGE: u8 = 2;
/// There is no such thing, or it can never be had.
const NO_SUCH: u8 = 3;
/// Not now; it may be tried again (EX_TEMPFAIL of sysexits.h).
const BUSY: u8 = 75;
/// Not for this asker (EX_NOPERM of sysexits.h).
const DENIED: u8 = 77;
/// Interrupted by ctrl-c, as a shell says it: 128 and the number of the signal.
const INTERRUPTED: u8 = 130;
/// Waited for in vain, as timeout(1) says it.
const TIMED_OUT: u8 = 124;

/// Why a command failed.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// The command line is wrong.
    #[error("{}", .0.render())]
    Usage(clap::Error),
    /// A file of configuration is wrong.
    #[error("{error}")]
    Config {
        /// What is wrong, and where.
        error: Box<ConfigError>,
        /// The text of the file.
        text: String,
    },
    /// A file with the definition of a service is wrong.
    #[error("{error}")]
    Definition {
        /// What is wrong, and where.
        error: Box<ConfigError>,
        /// The text of the file.
        text: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {} {}: {source}", .action, .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
        /// What to do about it.
        help: Option<&'static str>,
    },
    /// A log of demand cannot be used.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A log of demand ends before the emulation begins.
    #[error("the log {file} ends at {last}, so that nothing is left from the offset {offset} on")]
    PastEnd {
        /// The log.
        file: String,
        /// Its end.
        last: Span,
        /// Where in the log the emulation begins.
        offset: Span,
    },
    /// An emulation could not begin.
    #[error("{source}{}", of_run(swept))]
    Emulation {
        /// The point of the sweep.
        swept: String,
        /// What is wrong.
        source: EmulationError,
    },
    /// Some runs came to no end, or failed.
    #[error("{count} of {total} runs did not complete: {first}")]
    Incomplete {
        /// How many.
        count: usize,
        /// How many there were.
        total: usize,
        /// The first of them, and why.
        first: String,
    },
    /// Seeds broke a law of leasing.
    #[error("{count} of {total} seeds broke a law; the first: {first}")]
    Broken {
        /// How many.
        count: usize,
        /// How many there were.
        total: u64,
        /// What the first of them broke.
        first: String,
        /// The command that brings it back.
        again: String,
    },
    /// So many seeds should have reached more.
    #[error("{} points of behaviour were never reached: {}", .0.len(), .0.join(", "))]
    Unreached(Vec<&'static str>),
    /// A journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is no backup, or nothing was made of one.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// A folder without journals.
    #[error("there are no journals in {}", .0.display())]
    NoJournals(PathBuf),
    /// A deployment cannot continue from its journals as it is asked to.
    #[error("{message}")]
    Fork {
        /// Why not.
        message: String,
        /// What to do about it.
        help: String,
    },
    /// Journals break a law of leasing.
    #[error("the journals break a law of leasing: {0}")]
    Violated(Box<Violation>),
    /// A log cannot be shown.
    #[error(transparent)]
    Show(#[from] ShowError),
    /// A deployment does not run, or does not continue.
    #[error(transparent)]
    Run(Box<RunError>),
    /// A deployment does not answer, or says no.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// What is asked makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// A demand that cannot be read, with the place marked on a line below.
    #[error("{0}")]
    Demand(String),
    /// A lease was waited for and did not come.
    #[error("{} was not granted: {}", .0.lease, why(.0))]
    NotGranted(Box<LeaseView>),
    /// The software of a service refuses to leave a unit.
    #[error("{} stays: its software refuses to leave {}", .0.lease, .0.stays.as_deref().unwrap_or_default())]
    Stays(Box<LeaseView>),
    /// An extension was waited for and did not come.
    #[error("{0} was not extended; it ends as before")]
    NotExtended(String),
    /// The return of a part was waited for and did not come.
    #[error("{0} was not changed; its site took nothing back")]
    NotFlexed(String),
    /// A modification was waited for and did not come.
    #[error("{0} was not modified; it has its old configuration")]
    NotModified(String),
    /// A recall was waited for in vain.
    #[error("the recall has not taken its units: {0}")]
    NotTaken(String),
    /// A key that no configuration has.
    #[error(transparent)]
    NoKey(UnknownKey),
    /// An SLA that no service has.
    #[error("{0}")]
    NoSla(String),
    /// An invitation was not answered in time.
    #[error("{0}")]
    NotAnswered(String),
    /// Who has invited does not take this actor.
    #[error("{0}")]
    NotJoined(String),
    /// A unit was waited for in vain that is to be removed.
    #[error("{unit} is still {state} after {after}; it is drained, and gets no further lease")]
    NotFreed {
        /// The unit.
        unit: String,
        /// How it is.
        state: String,
        /// How long it was waited for.
        after: Span,
    },
    /// It was waited in vain until a broker has nothing out.
    #[error("after {after}, {left}; leases go on to their end")]
    NotEmptied {
        /// The broker.
        broker: String,
        /// What is left.
        left: String,
        /// How long it was waited for.
        after: Span,
    },
    /// A lease was waited for in vain.
    #[error("{lease} was not settled within {after}; it continues")]
    TimedOut {
        /// The lease.
        lease: LeaseName,
        /// How long it was waited for.
        after: Span,
    },
    /// A request was waited for in vain and withdrawn.
    #[error("{lease} was not settled within {after} and is withdrawn")]
    WithdrawnInTime {
        /// The request.
        lease: LeaseName,
        /// How long it was waited for.
        after: Span,
    },
    /// The user waits no longer; what was started continues.
    #[error("interrupted; {}", .0.as_ref().map_or_else(
        || "the operation may continue".to_owned(),
        |lease| format!("{lease} continues")
    ))]
    Interrupted(Option<LeaseName>),
    /// A ticket or evidence does not hold.
    #[error("{message}")]
    Void {
        /// What is wrong with it.
        message: String,
        /// What to do about it.
        help: String,
    },
    /// Something is wrong with a deployment.
    #[error("{}", .0.join("\n"))]
    Ill(Vec<String>),
    /// A file has no problem that can be planned.
    #[error("{}: {message}", .file.display())]
    Problem {
        /// The file.
        file: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// There is no plan.
    #[error("`{0}` has no plan")]
    NoPlan(String),
    /// No plan was found.
    #[error("no plan for `{0}` was found yet")]
    NoPlanYet(String),
    /// A program has not solved a problem.
    #[error("{} has not solved `{problem}`: {error}", .solver.display())]
    Solver {
        /// The program.
        solver: PathBuf,
        /// The problem.
        problem: String,
        /// Why not.
        error: Box<SolverError>,
    },
    /// A plan of packages is not as it was to be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An executor does not run, or does not continue.
    #[error(transparent)]
    Executor(Box<ExecutorError>),
    /// A command on a unit has ended with this exit code.
    #[error("the command has ended with exit code {0}")]
    CommandEnded(u8),
    /// A session ended before its command.
    #[error("the session was lost: {0}")]
    SessionLost(String),
    /// A command on a unit took too long.
    #[error("the command on {unit} took longer than {after}, and was ended with its process group")]
    CommandTimedOut {
        /// The unit.
        unit: String,
        /// How long it was given.
        after: Span,
    },
    /// The output cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

fn of_run(swept: &str) -> String {
    if swept.is_empty() { String::new() } else { format!(" (in the run {swept})") }
}

/// What a lease was refused by: of one that goes to several brokers, what the attempt failed by.
fn refusal(lease: &LeaseView) -> Option<&RefusalView> {
    let of_attempt = lease.attempt.as_ref().and_then(|attempt| attempt.refusal.as_ref());
    of_attempt.or(lease.refusal.as_ref())
}

/// Why a lease has ended.
fn why(lease: &LeaseView) -> String {
    match (refusal(lease), &lease.outcome) {
        (Some(refusal), _) => refusal.in_words(),
        (None, Some(outcome)) if outcome == "given-back" => {
            "it came back before it was active".to_owned()
        }
        (None, Some(outcome)) => outcome.clone(),
        (None, None) => "it has ended".to_owned(),
    }
}

impl Error {
    /// What the process ends with.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Wrong(_) | Self::Demand(_) | Self::Problem { .. } => USAGE,
            Self::NoPlan(_) | Self::Plan(PlanError::Infeasible(_)) => NO_SUCH,
            Self::TimedOut { .. }
            | Self::NotFreed { .. }
            | Self::NotEmptied { .. }
            | Self::WithdrawnInTime { .. }
            | Self::NotTaken(_)
            | Self::NotAnswered(_)
            | Self::NoPlanYet(_)
            | Self::CommandTimedOut { .. }
            | Self::Plan(PlanError::TimedOut { .. })
            | Self::Client(ClientError::TimedOut(_)) => TIMED_OUT,
            Self::Plan(PlanError::Busy(_)) | Self::SessionLost(_) => BUSY,
            Self::Solver { error, .. } if matches!(**error, SolverError::TimedOut(_)) => TIMED_OUT,
            Self::Solver { error, .. } if matches!(**error, SolverError::Interrupted) => {
                INTERRUPTED
            }
            Self::Run(error) if error.is_late() => TIMED_OUT,
            Self::Run(error) if error.is_denied() => DENIED,
            Self::NotJoined(_) => DENIED,
            Self::CommandEnded(code) => *code,
            Self::NoKey(_) | Self::NoSla(_) => NO_SUCH,
            Self::Interrupted(_) => INTERRUPTED,
            Self::NotGranted(lease) => match refusal(lease).map(|r| r.outlook.as_str()) {
                Some("never") => NO_SUCH,
                Some("later") => BUSY,
                Some("denied") => DENIED,
                _ => FAILED,
            },
            Self::Client(ClientError::Refused(no)) => match no.code {
                Code::NoSuch => NO_SUCH,
                Code::Busy => BUSY,
                Code::Denied => DENIED,
                Code::Usage => USAGE,
                Code::Failed | Code::SessionClosed => FAILED,
            },
            Self::Definition { .. } => USAGE,
            Self::Client(ClientError::Denied { .. }) => DENIED,
            Self::Client(
                ClientError::NobodyThere { .. }
                | ClientError::Broken { .. }
                | ClientError::Strange(_),
            )
            | Self::Config { .. }
            | Self::File { .. }
            | Self::Workload(_)
            | Self::PastEnd { .. }
            | Self::Emulation { .. }
            | Self::Incomplete { .. }
            | Self::Broken { .. }
            | Self::Unreached(_)
            | Self::Show(_)
            | Self::Run(_)
            | Self::Journal(_)
            | Self::Backup(_)
            | Self::NoJournals(_)
            | Self::Fork { .. }
            | Self::Violated(_)
            | Self::Void { .. }
            | Self::Ill(_)
            | Self::NotExtended(_)
            | Self::Stays(_)
            | Self::NotFlexed(_)
            | Self::NotModified(_)
            | Self::Plan(PlanError::NotInstalled { .. })
            | Self::Solver { .. }
            | Self::Executor(_)
            | Self::Write(_) => FAILED,
        }
    }

    /// The kind of error in a stable word, for programs.
    pub(crate) fn code(&self) -> &'static str {
        match self.exit_code() {
            USAGE => "usage",
            NO_SUCH => "no-such",
            BUSY => "busy",
            DENIED => "denied",
            TIMED_OUT => "timed-out",
            INTERRUPTED => "interrupted",
            _ => "failed",
        }
    }

    /// A file that cannot be read.
    pub(crate) fn reading(path: &Path, source: io::Error, help: &'static str) -> Self {
        let missing = source.kind() == io::ErrorKind::NotFound;
        let help = missing.then_some(help);
        Self::File { action: "read", path: path.to_owned(), source, help }
    }

    /// A file that cannot be written.
    pub(crate) fn writing(path: &Path, source: io::Error) -> Self {
        Self::File { action: "write", path: path.to_owned(), source, help: None }
    }

    /// What to do about it.
    #[allow(clippy::too_many_lines, reason = "a line or two for each kind of error")]
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::Config { error, .. } | Self::Definition { error, .. } => error.help.clone(),
            Self::File { help, .. } => help.map(ToOwned::to_owned),
            Self::PastEnd { .. } => Some("choose a smaller `workload.offset`".to_owned()),
            Self::Incomplete { .. } => {
                Some("the verdict and the problems of each run are in `-o json`".to_owned())
            }
            Self::Broken { again, .. } => Some(format!("to see it again: {again}")),
            Self::Journal(error) => Some(error.help().to_owned()),
            Self::Backup(error) => Some(error.help().to_owned()),
            Self::Fork { help, .. } => Some(help.clone()),
            Self::NoJournals(_) => Some(
                "name a folder that `tenure emulate --journals` has filled, of a sweep one of the \
                 folders `run-1`, `run-2`, ... in it, or the data folder of a live deployment"
                    .to_owned(),
            ),
            Self::Violated(_) => Some("docs/INVARIANTS.md says what each law asks for".to_owned()),
            Self::Usage(_) => Some("see `tenure --help`".to_owned()),
            Self::Client(error) => help_of_client(error),
            Self::NotGranted(lease) if !lease.offers.is_empty() => Some(format!(
                "take one of the offers with `tenure lease accept {0} --offer N`; `tenure lease show {0}` \
                 lists them",
                lease.lease
            )),
            Self::NotGranted(lease) => {
                Some(format!("`tenure lease why {}` says more", lease.lease))
            }
            Self::Stays(lease) => Some(format!(
                "`tenure lease close {} --force` gives it back all the same",
                lease.lease
            )),
            Self::NotExtended(lease) | Self::NotFlexed(lease) | Self::NotModified(lease) => {
                Some(format!("`tenure lease why {lease}` says why not"))
            }
            Self::NotFreed { .. } => Some(
                "its guest has yet to give it back, or it is being cleaned (`tenure site show`); the same command goes on with it"
                    .to_owned(),
            ),
            Self::NotEmptied { broker, .. } => Some(format!(
                "`tenure broker shares {broker}` shows what is lent until when; the same command goes on waiting"
            )),
            Self::TimedOut { lease, .. } => {
                Some(format!("`tenure lease why {lease}` shows what it waits for"))
            }
            Self::Interrupted(Some(lease)) => Some(format!(
                "`tenure lease watch {lease}` follows it, `tenure lease close {lease}` gives it back"
            )),
            Self::Demand(_) => Some(
                "`tenure lease request --help` has examples, docs/EXPRESSIONS.md the grammar"
                    .to_owned(),
            ),
            Self::NoKey(unknown) => Some(unknown.help.clone()),
            Self::NoSla(_) => Some("`tenure sla list` has all".to_owned()),
            Self::NotAnswered(_) => Some(
                "the question is repeated until it is answered: `tenure peer list` shows what became of it"
                    .to_owned(),
            ),
            Self::NotJoined(_) => Some(
                "ask for another invitation; `tenure peer remove` forgets who has made this one".to_owned(),
            ),
            Self::Interrupted(None) => Some("`tenure lease list` shows all leases".to_owned()),
            Self::Void { help, .. } => Some(help.clone()),
            Self::Run(error) => error.help(),
            Self::Problem { .. } => Some("docs/PLANNING.md says what a problem is".to_owned()),
            Self::NoPlanYet(_) => {
                Some("give it more steps with `--steps`, or more time with `--limit`".to_owned())
            }
            Self::Plan(error) => Some(error.help()),
            Self::Solver { error, .. } => error.help().map(ToOwned::to_owned),
            Self::NoPlan(_)
            | Self::WithdrawnInTime { .. }
            | Self::NotTaken(_)
            | Self::Wrong(_)
            | Self::Ill(_)
            | Self::Workload(_)
            | Self::Emulation { .. }
            | Self::Unreached(_)
            | Self::Show(_)
            | Self::CommandEnded(_)
            | Self::Write(_) => None,
            Self::SessionLost(_) => Some(
                "its units have gone back; run it again for others".to_owned(),
            ),
            Self::CommandTimedOut { .. } => {
                Some("give it more time with `--timeout`".to_owned())
            }
            Self::Executor(error) => matches!(**error, ExecutorError::Settings { .. })
                .then(|| "docs/EXECUTOR.md has all settings".to_owned()),
        }
    }
}

fn help_of_client(error: &ClientError) -> Option<String> {
    match error {
        ClientError::NobodyThere { .. } => {
            Some("start one with `tenure dev`, or name its data folder with `--data`".to_owned())
        }
        ClientError::Denied { .. } => Some(
            "run the command as the user who runs the deployment, as root, or as a member of its \
             `socket-group`"
                .to_owned(),
        ),
        ClientError::Refused(no) => no.help.clone(),
        ClientError::Broken { .. } | ClientError::Strange(_) | ClientError::TimedOut(_) => None,
    }
}
