//! Programs that solve problems: a problem as a line of JSON on standard input, an answer as one on standard
//! output. What they answer is checked, and what they claim is compared with what our solvers find.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal as Kill, kill_process_group};
use serde::Deserialize;
use tenure_plan::{Answer, BadProblem, CheckError, Objective, Plan, Problem, Settings, Status};
use tenure_plan::{check, solve_until};
use thiserror::Error as ThisError;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, copy, sink};
use tokio::process::{Child, ChildStdin, Command};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

/// How long a program has without a limit.
const LIMIT: Duration = Duration::from_secs(60);

/// The longest answer.
const MAX_ANSWER: u64 = 64 << 20;

/// How much of standard error is kept.
const MAX_ERRORS: u64 = 64 << 10;

/// Why a program's answer does not count.
#[derive(Debug, ThisError)]
pub(crate) enum SolverError {
    /// It does not run.
    #[error("it cannot be run: {0}")]
    Run(#[from] io::Error),
    /// It has not answered in time.
    #[error("there is no answer after {0:?}")]
    TimedOut(Duration),
    /// The user waits no longer.
    #[error("interrupted")]
    Interrupted,
    /// It failed.
    #[error("it ended with {status}{}", said(.errors))]
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// Its last line on standard error.
        errors: String,
    },
    /// It does not stop to write.
    #[error("its answer is longer than {} MiB", MAX_ANSWER >> 20)]
    TooLong,
    /// It wrote another number of lines than one.
    #[error("it wrote {0} lines, and one is wanted")]
    Lines(usize),
    /// What it wrote is no answer.
    #[error("its answer cannot be read: {0}")]
    Garbage(#[from] serde_json::Error),
    /// An answer that says both, or neither, that there is a plan and which.
    #[error("its answer is `{status}` {} a plan", if *.planned { "with" } else { "without" })]
    Contradiction {
        /// What is said.
        status: Status,
        /// Whether there is a plan.
        planned: bool,
    },
    /// Its plan is wrong.
    #[error("its plan breaks rules of the problem: {}", .0.join("; "))]
    Broken(Vec<String>),
    /// Its plan is worth something else.
    #[error("it says that its plan has {claimed}, and that has {worth}")]
    Worth {
        /// What it says.
        claimed: Objective,
        /// What it is.
        worth: Objective,
    },
    /// Its bound has other terms than the objective.
    #[error("its bound is {claimed}, which are not the terms of {found}")]
    Terms {
        /// Its bound.
        claimed: Objective,
        /// What a plan is worth.
        found: Objective,
    },
    /// It says that nothing is better, and something is.
    #[error("it says that no plan is below {claimed}, and there is one with {found}")]
    Better {
        /// Its bound, or the value of its plan.
        claimed: Objective,
        /// What a plan is worth.
        found: Objective,
    },
    /// It says that there is no plan, and there is one.
    #[error("it says that there is no plan, and there is one with {0}")]
    Feasible(Objective),
}

impl SolverError {
    /// What to do about it.
    pub(crate) fn help(&self) -> Option<&'static str> {
        match self {
            Self::Run(_) => Some("name a program that can be run: `chmod +x` makes a script one"),
            Self::TimedOut(_) => Some("give it more time with `--limit`"),
            Self::Interrupted => None,
            Self::Failed { .. }
            | Self::TooLong
            | Self::Lines(_)
            | Self::Garbage(_)
            | Self::Contradiction { .. }
            | Self::Broken(_)
            | Self::Worth { .. }
            | Self::Terms { .. }
            | Self::Better { .. }
            | Self::Feasible(_) => Some("docs/PLANNING.md says what programs are to answer"),
        }
    }
}

fn said(errors: &str) -> String {
    if errors.is_empty() { String::new() } else { format!(": {errors}") }
}

/// What a program writes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    #[serde(default, rename = "name")]
    _name: String,
    status: Status,
    #[serde(default)]
    objective: Option<Objective>,
    #[serde(default)]
    bound: Option<Objective>,
    #[serde(default)]
    placement: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    reused: Vec<String>,
    #[serde(default)]
    install: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    paths: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    steps: u64,
}

/// An answer, and whether its status is nothing but the program's word.
pub(super) struct Claimed {
    pub(super) answer: Answer,
    pub(super) claimed: bool,
}

/// A program that solves problems.
pub(super) struct Program {
    path: PathBuf,
    limit: Duration,
    runtime: Runtime,
    interrupts: Signal,
}

impl Program {
    /// A program with the longest time for each problem.
    pub(super) fn new(path: &Path, limit: Option<Duration>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let interrupts = {
            let _inside = runtime.enter();
            signal(SignalKind::interrupt())?
        };
        Ok(Self { path: path.to_owned(), limit: limit.unwrap_or(LIMIT), runtime, interrupts })
    }

    /// The answer of the program, checked. `steps` are for our solvers, to look for a better plan.
    pub(super) fn answer(&mut self, problem: &Problem, steps: u64) -> Result<Claimed, Solved> {
        let mut line = serde_json::to_vec(&problem.plain()?).map_err(SolverError::Garbage)?;
        line.push(b'\n');
        let begun = Instant::now();
        let Self { path, limit, runtime, interrupts } = self;
        let output = runtime.block_on(async {
            let mut child = start(path)?;
            let group = child.id();
            let result = tokio::select! {
                result = timeout(*limit, talk(&mut child, &line)) => {
                    result.unwrap_or(Err(SolverError::TimedOut(*limit)))
                }
                _ = interrupts.recv() => Err(SolverError::Interrupted),
            };
            if child.id().is_some() {
                end(group);
            }
            result
        })?;
        let claim = read(&output)?;
        let expired = || begun.elapsed() >= *limit;
        judge(problem, claim, &|| {
            let settings = Settings { steps, explain: false, ..Settings::default() };
            solve_until(problem, &settings, &expired)
        })
    }
}

/// Why there is no answer: because of the problem, or of the program.
pub(super) enum Solved {
    /// The problem makes no sense.
    Problem(BadProblem),
    /// The program does not solve it.
    Program(SolverError),
}

impl From<BadProblem> for Solved {
    fn from(error: BadProblem) -> Self {
        Self::Problem(error)
    }
}

impl From<SolverError> for Solved {
    fn from(error: SolverError) -> Self {
        Self::Program(error)
    }
}

/// Starts a program in a process group of its own, so that all of it can be ended.
fn start(path: &Path) -> io::Result<Child> {
    let mut command = Command::new(path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true).spawn()
}

/// Ends what is left of the group of a child that nobody has waited for yet.
fn end(group: Option<u32>) {
    let group = group.and_then(|group| i32::try_from(group).ok()).and_then(Pid::from_raw);
    if let Some(group) = group {
        // It has ended by itself, if not.
        let _ = kill_process_group(group, Kill::KILL);
    }
}

/// Gives the problem, takes the answer, and waits for the end.
async fn talk(child: &mut Child, line: &[u8]) -> Result<Vec<u8>, SolverError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (_, output, errors) = tokio::try_join!(
        give(stdin, line),
        take(stdout, MAX_ANSWER, true),
        take(stderr, MAX_ERRORS, false)
    )?;
    let status = child.wait().await?;
    if status.success() {
        return Ok(output);
    }
    let errors = String::from_utf8_lossy(&errors);
    let errors = errors.trim_end().lines().next_back().unwrap_or_default().to_owned();
    Err(SolverError::Failed { status, errors })
}

/// Writes a line; a program need not read all of it.
async fn give(to: Option<ChildStdin>, line: &[u8]) -> Result<(), SolverError> {
    let Some(mut to) = to else { return Ok(()) };
    match to.write_all(line).await {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Reads to the end, and keeps no more than `most`; what is more is an error, or lost.
async fn take(
    from: Option<impl AsyncRead + Unpin>,
    most: u64,
    all: bool,
) -> Result<Vec<u8>, SolverError> {
    let mut kept = Vec::new();
    let Some(from) = from else { return Ok(kept) };
    let mut from = from.take(most + u64::from(all));
    let bytes = from.read_to_end(&mut kept).await?;
    if all && bytes as u64 > most {
        return Err(SolverError::TooLong);
    }
    copy(&mut from.into_inner(), &mut sink()).await?;
    Ok(kept)
}

fn read(output: &[u8]) -> Result<Claim, SolverError> {
    let lines: Vec<&[u8]> =
        output.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect();
    match lines.as_slice() {
        [line] => Ok(serde_json::from_slice(line)?),
        lines => Err(SolverError::Lines(lines.len())),
    }
}

/// Checks a claim; `solve` looks for a better plan, or for one where there is said to be none.
fn judge(
    problem: &Problem,
    claim: Claim,
    solve: &dyn Fn() -> Result<Answer, BadProblem>,
) -> Result<Claimed, Solved> {
    let Claim { status, objective, bound, placement, reused, install, paths, steps, .. } = claim;
    let plan = Plan { placement, reused, install, paths };
    let planned = plan != Plan::default() || problem.part.is_empty();
    if planned != matches!(status, Status::Optimal | Status::Feasible) {
        return Err(SolverError::Contradiction { status, planned }.into());
    }
    let name = problem.name.clone();
    let mut answer = Answer { name, status, plan, steps, ..Answer::default() };
    if planned {
        let worth = worth(problem, &answer.plan, objective)?;
        answer.bound = if status == Status::Optimal { Some(worth.clone()) } else { bound };
        no_better(answer.bound.as_ref(), &worth)?;
        answer.objective = Some(worth);
    }
    if answer.bound.is_none() && status != Status::Infeasible {
        return Ok(Claimed { answer, claimed: false });
    }
    let ours = solve()?;
    if let Some(found) = &ours.objective {
        no_better(answer.bound.as_ref(), found)?;
        if status == Status::Infeasible {
            return Err(SolverError::Feasible(found.clone()).into());
        }
    }
    let proven = match (&answer.bound, &ours.bound) {
        (Some(claimed), Some(known)) => values(claimed) <= values(known),
        (None, None) => ours.status == Status::Infeasible,
        _ => false,
    };
    Ok(Claimed { answer, claimed: !proven })
}

/// What a plan is worth, if it keeps all rules.
fn worth(problem: &Problem, plan: &Plan, claimed: Option<Objective>) -> Result<Objective, Solved> {
    let worth = check(problem, plan).map_err(|error| match error {
        CheckError::Problem(error) => Solved::Problem(error),
        CheckError::Plan(broken) => {
            let broken = broken.iter().map(ToString::to_string).collect();
            SolverError::Broken(broken).into()
        }
    })?;
    match claimed {
        Some(claimed) if claimed != worth => Err(SolverError::Worth { claimed, worth }.into()),
        Some(_) | None => Ok(worth),
    }
}

/// Refuses a bound above the value of a plan.
fn no_better(bound: Option<&Objective>, found: &Objective) -> Result<(), SolverError> {
    let Some(bound) = bound else { return Ok(()) };
    let (claimed, found) = (bound.clone(), found.clone());
    if !claimed.iter().map(|(term, _)| term).eq(found.iter().map(|(term, _)| term)) {
        return Err(SolverError::Terms { claimed, found });
    }
    if values(&found) < values(&claimed) {
        return Err(SolverError::Better { claimed, found });
    }
    Ok(())
}

fn values(objective: &Objective) -> Vec<u64> {
    objective.iter().map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests;
