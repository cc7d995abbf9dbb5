//! `tenure plan`: problems in files, answered without a deployment; what is done in one is in `live`.

mod export;
mod foreign;
pub(crate) mod gcube;
pub(crate) mod outside;
pub(crate) mod read;
mod show;
mod solver;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use tenure_plan::{Answer, CheckError, Problem, Settings, Status, check};

use crate::Console;
use crate::args::SummaryFormat;
use crate::error::Error;
use crate::live::plan as live;

pub(crate) use export::ExportArgs;

/// What `tenure plan` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Answer problems: which part goes where, or why there is no plan
    Solve(SolveArgs),
    /// Check a plan against its problem
    Check(CheckArgs),
    /// Write a problem in the format of another solver
    Export(ExportArgs),
    /// Have a service manager make a plan of packages on the nodes of a slice
    Propose(live::ProposeArgs),
    /// Accept a plan: have its packages installed
    Accept(live::AcceptArgs),
    /// Release a plan: its nodes are free, and what it has installed is removed
    Release(live::ReleaseArgs),
    /// List plans
    List(live::ListArgs),
    /// Show a plan, its packages and the runners-up
    Show(live::PlanShowArgs),
    /// List the nodes in use and the plan that holds each
    Holds(live::HoldsArgs),
    /// Report what became of packages that the guest's driver does not install
    Report(live::ReportArgs),
}

/// Answer problems: which part goes where, or why there is no plan.
///
/// A problem says what places have and what parts need (docs/PLANNING.md). Without --limit, the same problem
/// and steps give the same answer everywhere.
#[derive(Args, Debug)]
#[command(after_help = SOLVE)]
pub(crate) struct SolveArgs {
    /// Problems: .toml, .json, .jsonl, .xml of gCube, .vbp, .bpp, .txt of the OR-Library, plain or .gz
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// The most steps for each problem; a step is one partial plan. Of a program, the steps to check its claim
    #[arg(long, value_name = "N", default_value_t = Settings::STEPS)]
    steps: u64,

    /// The longest time for each problem, such as 1s; the answer then depends on the machine. Of a program, 1 min
    #[arg(long, value_name = "TIME", value_parser = limit)]
    limit: Option<Duration>,

    /// The solver, or a program by a path with a `/`, which answers each problem (docs/PLANNING.md)
    #[arg(long, value_parser = solver::Parser::default(), default_value = "auto")]
    solver: solver::Choice,

    /// How many other plans to find; none by programs
    #[arg(long, value_name = "K", default_value_t = 0)]
    alternatives: usize,

    /// Plan as if this place were gone [may be repeated]
    #[arg(long, value_name = "PLACE")]
    without: Vec<String>,

    /// Plan as a coordinator to whom domains show sites and borders, but no inner edges; this attribute of
    /// each place names its domain
    #[arg(long, value_name = "ATTRIBUTE", conflicts_with_all = ["limit", "alternatives"])]
    coordinate: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: PlanFormat,
}

const SOLVE: &str = "\
Examples:
  tenure plan solve config/planning/web.toml
  tenure plan solve config/planning/web.toml --without node-b --alternatives 3
  tenure plan solve config/planning/two-domains.toml --coordinate domain
  tenure plan solve requests.jsonl -o jsonl --limit 1s
  tenure plan solve config/planning/packages.toml --solver config/planning/first-fit.py

Exit codes: 0 a plan is printed, of several problems all are answered; 1 error, 2 a bad problem,
3 there is no plan, 124 none was found in the steps or the time";

/// How answers are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanFormat {
    /// Tables
    #[default]
    Table,
    /// One JSON object, of several problems an array
    Json,
    /// One JSON object a line
    Jsonl,
}

/// Check a plan against its problem.
///
/// Nothing of the solvers is used: every condition is evaluated and every sum made again.
#[derive(Args, Debug)]
#[command(after_help = CHECK)]
pub(crate) struct CheckArgs {
    /// The problem
    #[arg(value_name = "PROBLEM")]
    problem: PathBuf,

    /// The plan, as `tenure plan solve -o json` prints it
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: SummaryFormat,
}

const CHECK: &str = "\
Examples:
  tenure plan check config/planning/web.toml plan.json

Exit codes: 0 the plan keeps all rules, 1 it breaks some, 2 a bad problem";

/// An answer with what it took.
#[derive(Serialize)]
struct Timed {
    #[serde(flatten)]
    answer: Answer,
    #[serde(flatten)]
    by: By,
}

/// Who has answered.
#[derive(Serialize)]
#[serde(untagged)]
enum By {
    /// Our solvers.
    Us {
        /// Seconds of processor time.
        cpu_s: f64,
    },
    /// A program.
    Program {
        /// Its path.
        solver: String,
        /// Seconds until its answer was checked.
        wall_s: f64,
        /// Whether what is said of its plan was not proven here.
        claimed: bool,
    },
}

pub(crate) fn run(command: &PlanCommand, console: &mut Console<'_>) -> Result<(), Error> {
    match command {
        PlanCommand::Solve(args) => solve(args, console),
        PlanCommand::Check(args) => checked(args, console),
        PlanCommand::Export(args) => export::export(args, console),
        PlanCommand::Propose(args) => live::propose(args, console),
        PlanCommand::Accept(args) => live::accept(args, console),
        PlanCommand::Release(args) => live::release(args, console),
        PlanCommand::List(args) => live::list(args, console),
        PlanCommand::Show(args) => live::show(args, console),
        PlanCommand::Holds(args) => live::holds(args, console),
        PlanCommand::Report(args) => live::report(args, console),
    }
}

fn solve(args: &SolveArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let mut solver = solver::Solving::new(args)?;
    let mut problems = Vec::new();
    for file in &args.files {
        problems.extend(read::problems(file)?.into_iter().map(|problem| (file.clone(), problem)));
    }
    let several = problems.len() > 1;
    let mut answers = Vec::new();
    for (file, mut problem) in problems {
        for place in &args.without {
            problem =
                problem.without(place).map_err(|error| read::bad(&file, &problem.name, &error))?;
        }
        let answer = solver.answer(&file, &problem)?;
        if args.output == PlanFormat::Jsonl {
            show::line(&answer, console)?;
        }
        answers.push((problem, answer));
    }
    match args.output {
        PlanFormat::Table if several => show::list(&answers, console)?,
        PlanFormat::Table => {
            for (problem, answer) in &answers {
                show::one(problem, answer, console)?;
            }
        }
        PlanFormat::Json => show::json(&answers, several, console)?,
        PlanFormat::Jsonl => {}
    }
    verdict(&answers, several)
}

/// What the exit code says.
fn verdict(answers: &[(Problem, Timed)], several: bool) -> Result<(), Error> {
    let unknown = answers.iter().find(|(_, timed)| timed.answer.status == Status::Unknown);
    if let Some((problem, _)) = unknown {
        return Err(Error::NoPlanYet(problem.name.clone()));
    }
    let infeasible = answers.iter().find(|(_, timed)| timed.answer.status == Status::Infeasible);
    match infeasible {
        Some((problem, _)) if !several => Err(Error::NoPlan(problem.name.clone())),
        Some(_) | None => Ok(()),
    }
}

fn checked(args: &CheckArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let problem = read::problem(&args.problem)?;
    let plan: Answer = read::plan(&args.plan)?;
    match check(&problem, &plan.plan) {
        Ok(objective) => {
            match args.output {
                SummaryFormat::Table => {
                    writeln!(console.out, "the plan keeps all rules: {objective}")?
                }
                SummaryFormat::Json => {
                    let kept = serde_json::json!({ "objective": objective });
                    writeln!(console.out, "{kept}")?;
                }
            }
            Ok(())
        }
        Err(CheckError::Problem(error)) => Err(read::bad(&args.problem, &problem.name, &error)),
        Err(CheckError::Plan(violations)) => {
            Err(Error::Ill(violations.iter().map(ToString::to_string).collect()))
        }
    }
}

fn limit(text: &str) -> Result<Duration, String> {
    let span = tenure_sim::workload::parse_span(text).map_err(|error| error.to_string())?;
    u64::try_from(span.as_micros())
        .ok()
        .filter(|micros| *micros > 0)
        .map(Duration::from_micros)
        .ok_or_else(|| "it must be above zero".to_owned())
}
