//! `exec`: a program of the operator's, or of the guest's, for each step.
//!
//! What a step is about goes to the program's standard input as JSON, never into arguments or the
//! environment, where a value could become an option or a command. What it says is believed only as far
//! as its probe confirms it: a setup that exits with success and has set nothing up is a failure.
//! After a crash nothing is repeated blindly: what is left of the old run is ended, and the probe decides.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_core::driver::{Call, DriverError, GuestDriver, ReportReceiver, ResourceDriver, Step};
use tenure_core::model::codec::Hash;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Time};

use super::adoption::{Adopt, Adopted};
use super::child::{Process, Reach, end};
use super::fence::{DriverSteps, Fence, Guest, Site, Work};
use super::program::ProgramPath;
use super::record::{Key, Record, Tenant};
use super::report::Reporter;
use super::report_pipe::ReportPipe;
use super::run::Run;
use super::step_input::StepInput;
use super::stop::Stop;

/// What a site's `exec` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SiteSettings {
    setup: ProgramPath,
    teardown: ProgramPath,
    modify: Option<ProgramPath>,
    probe: ProgramPath,
    /// The SHA-256 of each program that may run.
    allow: Vec<Hash>,
    /// Whether guests may take over units in use as they are.
    #[serde(default)]
    adopt: bool,
    #[serde(default)]
    timeout: Timeout,
    #[serde(default)]
    output: Output,
}

/// What a guest's `exec` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuestSettings {
    join: ProgramPath,
    leave: ProgramPath,
    modify: Option<ProgramPath>,
    warn: Option<ProgramPath>,
    probe: ProgramPath,
    allow: Vec<Hash>,
    #[serde(default)]
    timeout: Timeout,
    #[serde(default)]
    output: Output,
}

/// How long a program may run: ten minutes by default.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Span")]
pub(crate) struct Timeout(pub(crate) Duration);

impl Default for Timeout {
    fn default() -> Self {
        Self(Duration::from_secs(600))
    }
}

impl TryFrom<Span> for Timeout {
    type Error = String;

    fn try_from(span: Span) -> Result<Self, String> {
        match u64::try_from(span.as_micros()) {
            Ok(micros @ 1..) => Ok(Self(Duration::from_micros(micros))),
            _ => Err(format!("a program needs some time, and {span} is none")),
        }
    }
}

/// How many bytes a program may write: 64 KiB by default.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Output(pub(crate) usize);

impl Default for Output {
    fn default() -> Self {
        Self(64 << 10)
    }
}

/// The programs of either side.
struct Exec {
    home: PathBuf,
    /// Setup or join, teardown or leave.
    begin: ProgramPath,
    end: ProgramPath,
    /// For units in use; without one they are not modified.
    modify: Option<ProgramPath>,
    /// For units that are recalled; without one there is nobody to warn.
    warn: Option<ProgramPath>,
    probe: ProgramPath,
    allow: Vec<Hash>,
    timeout: Duration,
    output: usize,
    /// At a site: whether guests may take over units in use as they are.
    adopt: bool,
    /// At a site: what programs report of units by themselves.
    reports: Option<(Arc<Reporter>, ReportPipe)>,
}

/// What is noted of a unit.
#[derive(Default, Serialize, Deserialize)]
#[serde(from = "Written")]
struct Note {
    /// The program that was begun last.
    process: Option<Process>,
    /// That it was taken over as it is.
    adopted: Option<Adopted>,
}

/// A note as it is read.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    /// Before units were taken over.
    Process(Process),
    Note {
        process: Option<Process>,
        adopted: Option<Adopted>,
    },
}

impl From<Written> for Note {
    fn from(written: Written) -> Self {
        match written {
            Written::Process(process) => Self { process: Some(process), adopted: None },
            Written::Note { process, adopted } => Self { process, adopted },
        }
    }
}

impl Note {
    /// One without a program.
    fn of(adopted: Option<Adopted>) -> Self {
        Self { process: None, adopted }
    }
}

/// Opens a site's.
pub(crate) fn site(home: &Path, settings: SiteSettings) -> io::Result<Box<dyn ResourceDriver>> {
    let fence = Arc::new(Fence::open(home)?);
    let SiteSettings { setup, teardown, modify, probe, allow, adopt, timeout, output } = settings;
    let (timeout, output) = (timeout.0, output.0);
    let home = home.canonicalize()?;
    let (begin, end, warn) = (setup, teardown, None);
    let reporter = Arc::new(Reporter::default());
    let reports = Some((Arc::clone(&reporter), ReportPipe::open(&home, reporter)?));
    let steps =
        Exec { home, begin, end, modify, warn, probe, allow, timeout, output, adopt, reports };
    Ok(Box::new(Site { fence, steps }))
}

/// Opens a guest's.
pub(crate) fn guest(home: &Path, settings: GuestSettings) -> io::Result<Box<dyn GuestDriver>> {
    let fence = Arc::new(Fence::open(home)?);
    let GuestSettings { join, leave, modify, warn, probe, allow, timeout, output } = settings;
    let (timeout, output) = (timeout.0, output.0);
    let home = home.canonicalize()?;
    let (begin, end, adopt, reports) = (join, leave, false, None);
    let steps =
        Exec { home, begin, end, modify, warn, probe, allow, timeout, output, adopt, reports };
    Ok(Box::new(Guest { fence, steps }))
}

/// What a program answers: nothing, or this.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProgramOutput {
    properties: BTreeMap<Name, String>,
    state: Option<Standing>,
}

/// How a unit is, as its probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Standing {
    /// Set up, or joined.
    Up,
    /// Clean, or left.
    Down,
    /// Neither: somewhere between.
    Partial,
}

impl Standing {
    fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Partial => "partial",
        }
    }
}

impl DriverSteps for Exec {
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError> {
        let mark = self.mark(work.key());
        let note = work.note::<Note>()?.unwrap_or_default();
        if let Some(before) = &note.process {
            end(&mark, Some(before), Reach::Group, Duration::ZERO).map_err(|error| {
                DriverError(format!("what an earlier step has left cannot be ended: {error}"))
            })?;
        }
        let step = work.call.step;
        if let Some(outcome) = self.adopted(work, note.adopted) {
            return outcome;
        }
        // A setup makes the unit one like any other.
        let adopted = note.adopted.filter(|_| step != Step::Setup);
        let run = |program: &ProgramPath, step: &str| self.run_for(work, (program, step), adopted);
        let probe = || self.standing(run(&self.probe, "probe")?);

        if let Some((reporter, _)) = self.reports.as_ref().filter(|_| step != Step::Modify) {
            reporter.forget(work.call.unit);
        }
        let (program, due) = match step {
            Step::Setup | Step::Join => (&self.begin, Standing::Up),
            Step::Teardown | Step::Leave | Step::Warn | Step::Install | Step::Remove => {
                (&self.end, Standing::Down)
            }
            Step::Modify => (self.modify.as_ref().unwrap_or(&self.begin), Standing::Up),
        };
        // A probe does not say which configuration a unit has: the program is run again.
        if work.interrupted && step != Step::Modify {
            match (probe()?, due) {
                ((standing, output), _) if standing == due => return Ok(output),
                ((Standing::Partial, _), Standing::Up) => {
                    let word = step.word();
                    return Err(DriverError(format!(
                        "{word} was cut off, and its probe says: partial"
                    )));
                }
                _ => {}
            }
        }
        let output = run(program, step.word())?;
        let begins = matches!(step, Step::Setup | Step::Join);
        let refuses = begins && output.state == Some(Standing::Down);
        let (standing, probed) = probe()?;
        if refuses && standing == Standing::Down {
            let word = step.word();
            return Err(DriverError::untouched(format!("the {word} program answers: down")));
        }
        if standing != due {
            let (word, standing) = (step.word(), standing.word());
            return Err(DriverError(format!("{word} succeeded, but its probe says: {standing}")));
        }
        // The probe's properties are as good as those of the step, if the step has said none.
        let output = if output.properties.is_empty() { probed } else { properties(output)? };
        Ok(if due == Standing::Up { output } else { Properties::default() })
    }

    fn modifies(&self) -> bool {
        self.modify.is_some()
    }

    fn adopts(&self) -> bool {
        self.adopt
    }

    fn warn(&self, call: &Call, deadline: Time) -> Result<(), DriverError> {
        let Some(program) = &self.warn else { return Ok(()) };
        let stop = Stop::new().map_err(|error| DriverError(error.to_string()))?;
        let step_input = StepInput::of(call).until(Some(deadline));
        let about = (Key::of(call), call.step.word());
        self.run(program, about, &step_input, &stop, |_| Ok(())).map(drop)
    }

    fn probe(&self, key: Key, record: Option<&Record>) -> Result<Properties, DriverError> {
        let never = || DriverError(format!("{} was never touched", key.unit));
        let Record { epoch, tenant, .. } = record.ok_or_else(never)?;
        let step_input = StepInput::about(key, *epoch, "probe", tenant);
        let stop = Stop::new().map_err(|error| DriverError(error.to_string()))?;
        let output = self.run(&self.probe, (key, "probe"), &step_input, &stop, |_| Ok(()))?;
        match self.standing(output)? {
            (Standing::Up, properties) => Ok(properties),
            (standing, _) => Err(DriverError(format!("{} is {}", key.unit, standing.word()))),
        }
    }

    fn report_to(&self, receiver: Arc<dyn ReportReceiver>) {
        if let Some((reporter, _)) = &self.reports {
            reporter.report_to(receiver);
        }
    }
}

impl Exec {
    fn mark(&self, key: Key) -> String {
        format!("{}:{}", self.home.display(), key.file_name())
    }

    /// What is done of a step because its unit is, or was, taken over as it is; nothing if the step is to be done.
    fn adopted(
        &self,
        work: &Work<'_>,
        adopted: Option<Adopted>,
    ) -> Option<Result<Properties, DriverError>> {
        match (work.call.step, adopted) {
            (Step::Setup, before) => match Adopt::of(&work.call.properties) {
                Ok(Some(by)) => Some(self.take_over(work, (by, before))),
                Ok(None) if before.is_some_and(|before| before.left) => {
                    self.tear_down_left(work, before).err().map(Err)
                }
                Ok(None) => None,
                Err(error) => Some(Err(error)),
            },
            (Step::Teardown, Some(adopted)) if adopted.by == Adopt::Keep => {
                let note = Note::of(Some(Adopted { left: true, ..adopted }));
                Some(work.keep(&note).map(|()| Properties::default()))
            }
            (Step::Modify, Some(adopted)) if adopted.epoch == work.call.epoch => {
                let why = "a unit that was taken over as it is is not changed";
                Some(Err(DriverError(why.to_owned())))
            }
            (
                Step::Teardown
                | Step::Modify
                | Step::Join
                | Step::Leave
                | Step::Warn
                | Step::Install
                | Step::Remove,
                _,
            ) => None,
        }
    }

    /// Finds a unit in use up, and changes nothing.
    fn take_over(
        &self,
        work: &Work<'_>,
        (by, before): (Adopt, Option<Adopted>),
    ) -> Result<Properties, DriverError> {
        let output = self.run_for(work, (&self.probe, "probe"), before)?;
        let (standing, properties) = self.standing(output)?;
        if standing != Standing::Up {
            let why = format!("it is not up to be taken over: its probe says {}", standing.word());
            return Err(DriverError::untouched(why));
        }
        work.keep(&Note::of(Some(Adopted { by, epoch: work.call.epoch, left: false })))?;
        by.tell(properties)
    }

    /// Tears down a unit that was left as it was, for whoever has it next.
    fn tear_down_left(&self, work: &Work<'_>, adopted: Option<Adopted>) -> Result<(), DriverError> {
        let word = Step::Teardown.word();
        self.run_for(work, (&self.end, word), adopted)?;
        let output = self.run_for(work, (&self.probe, "probe"), adopted)?;
        match self.standing(output)?.0 {
            Standing::Down => work.keep(&Note::of(None)),
            standing @ (Standing::Up | Standing::Partial) => {
                let standing = standing.word();
                Err(DriverError(format!("{word} succeeded, but its probe says: {standing}")))
            }
        }
    }

    /// Runs a program for a call.
    fn run_for(
        &self,
        work: &Work<'_>,
        (program, step): (&ProgramPath, &str),
        adopted: Option<Adopted>,
    ) -> Result<ProgramOutput, DriverError> {
        let tenant = Tenant::of(work.call);
        let input = StepInput::about(work.key(), work.call.epoch, step, &tenant);
        let input = input.until(work.call.deadline);
        self.run(program, (work.key(), step), &input, work.stop, |process| {
            work.keep(&Note { process: Some(process.clone()), ..Note::of(adopted) })
        })
    }

    fn run(
        &self,
        program: &ProgramPath,
        (key, step): (Key, &str),
        step_input: &StepInput,
        stop: &Stop,
        begun: impl FnOnce(&Process) -> Result<(), DriverError>,
    ) -> Result<ProgramOutput, DriverError> {
        let unreadable =
            |error: serde_json::Error| DriverError(format!("the {step} program's answer: {error}"));
        let input = serde_json::to_vec(step_input).map_err(unreadable)?;
        let checked = program.check(&self.allow)?;
        let run = Run {
            name: &format!("the {step} program"),
            command: &[OsStr::new(&checked.path)],
            program: Some(checked.file),
            folder: &self.home,
            mark: &self.mark(key),
            input: &input,
            timeout: self.timeout,
            output: self.output,
        };
        let output = run.finish(stop, begun)?;
        if output.iter().all(u8::is_ascii_whitespace) {
            return Ok(ProgramOutput::default());
        }
        serde_json::from_slice(&output).map_err(unreadable)
    }

    fn standing(&self, output: ProgramOutput) -> Result<(Standing, Properties), DriverError> {
        let Some(standing) = output.state else {
            return Err(DriverError("the probe program does not say its `state`".to_owned()));
        };
        Ok((standing, properties(output)?))
    }
}

fn properties(output: ProgramOutput) -> Result<Properties, DriverError> {
    Properties::try_from(output.properties).map_err(|error| DriverError(error.to_string()))
}
