//! Who solves problems: one of our solvers, or a program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueEnum};
use rustix::time::{ClockId, clock_gettime};
use tenure_plan::{Answer, BadProblem, Problem, Settings, Solver, coordinate, solve_until};

use crate::error::Error;

use super::outside::{Claimed, Program, Solved};
use super::{By, SolveArgs, Timed, read};

/// What `--solver` names.
#[derive(Clone, Debug)]
pub(super) enum Choice {
    /// One of ours.
    Ours(Solver),
    /// A program.
    Program(PathBuf),
}

/// The solvers by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum SolverName {
    /// Largest part first, each on the first place with room
    FirstFit,
    /// Simple rules, then improvements until the steps run out
    Search,
    /// Prove that there is no better plan, or none at all
    Exact,
    /// The first plan found
    Any,
    /// What suits the problem
    #[default]
    Auto,
}

impl From<SolverName> for Solver {
    fn from(name: SolverName) -> Self {
        match name {
            SolverName::FirstFit => Self::FirstFit,
            SolverName::Search => Self::Search,
            SolverName::Exact => Self::Exact,
            SolverName::Any => Self::Any,
            SolverName::Auto => Self::Auto,
        }
    }
}

/// Reads a [`Choice`]: with a `/` it is a program.
#[derive(Clone)]
pub(super) struct Parser(EnumValueParser<SolverName>);

impl Default for Parser {
    fn default() -> Self {
        Self(EnumValueParser::new())
    }
}

impl TypedValueParser for Parser {
    type Value = Choice;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Choice, clap::Error> {
        if value.as_encoded_bytes().contains(&b'/') {
            return Ok(Choice::Program(value.into()));
        }
        self.0.parse_ref(command, arg, value).map(|name| Choice::Ours(name.into()))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

/// A solver at work.
pub(super) enum Solving {
    /// One of ours.
    Ours { settings: Settings, limit: Option<Duration> },
    /// One of ours, as a coordinator between the domains that an attribute names.
    Coordinator { settings: Settings, by: String },
    /// A program; the steps are for the check of its claims.
    Program { program: Program, path: PathBuf, steps: u64 },
}

/// How often a coordinator asks the domains.
const TRIES: u32 = 16;

impl Solving {
    pub(super) fn new(args: &SolveArgs) -> Result<Self, Error> {
        let &SolveArgs { steps, limit, alternatives, .. } = args;
        match (&args.solver, &args.coordinate) {
            (Choice::Ours(solver), by) => {
                let settings = Settings { solver: *solver, steps, alternatives, explain: true };
                Ok(match by.clone() {
                    Some(by) => Self::Coordinator { settings, by },
                    None => Self::Ours { settings, limit },
                })
            }
            (Choice::Program(_), Some(_)) => {
                Err(Error::Wrong("a program does not `--coordinate`".to_owned()))
            }
            (Choice::Program(_), None) if alternatives > 0 => {
                Err(Error::Wrong("a program finds no `--alternatives`".to_owned()))
            }
            (Choice::Program(path), None) => {
                Ok(Self::Program { program: Program::new(path, limit)?, path: path.clone(), steps })
            }
        }
    }

    /// The answer to a problem of a file.
    pub(super) fn answer(&mut self, file: &Path, problem: &Problem) -> Result<Timed, Error> {
        let bad = |error| read::bad(file, &problem.name, &error);
        match self {
            Self::Ours { settings, limit } => {
                timed(|| within(*limit, problem, settings)).map_err(bad)
            }
            Self::Coordinator { settings, by } => {
                timed(|| Ok(coordinate(problem, by, TRIES, settings)?.answer)).map_err(bad)
            }
            Self::Program { program, path, steps } => {
                let begun = Instant::now();
                let answered = program.answer(problem, *steps).map_err(|error| match error {
                    Solved::Problem(error) => bad(error),
                    Solved::Program(error) => Error::Solver {
                        solver: path.clone(),
                        problem: problem.name.clone(),
                        error: Box::new(error),
                    },
                });
                let Claimed { answer, claimed } = answered?;
                let (solver, wall_s) = (path.display().to_string(), begun.elapsed().as_secs_f64());
                Ok(Timed { answer, by: By::Program { solver, wall_s, claimed } })
            }
        }
    }
}

/// Our answer, with what it took.
fn timed(solve: impl FnOnce() -> Result<Answer, BadProblem>) -> Result<Timed, BadProblem> {
    let begun = processor_time();
    let answer = solve()?;
    Ok(Timed { answer, by: By::Us { cpu_s: (processor_time() - begun).as_secs_f64() } })
}

fn within(
    limit: Option<Duration>,
    problem: &Problem,
    settings: &Settings,
) -> Result<Answer, BadProblem> {
    let wall = Instant::now();
    let expired = || limit.is_some_and(|limit| wall.elapsed() >= limit);
    // With a time limit alone, steps are no limit.
    let steps = if limit.is_some() && settings.steps == Settings::STEPS {
        u64::MAX
    } else {
        settings.steps
    };
    solve_until(problem, &Settings { steps, ..*settings }, &expired)
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
