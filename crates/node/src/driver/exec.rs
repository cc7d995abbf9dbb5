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

use serde::Deserialize;
use tenure_core::driver::{Call, DriverError, GuestDriver, ReportReceiver, ResourceDriver, Step};
use tenure_core::model::codec::Hash;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Time};

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
struct Output(usize);

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
    /// At a site: what programs report of units by themselves.
    reports: Option<(Arc<Reporter>, ReportPipe)>,
}

/// Opens a site's.
pub(crate) fn site(home: &Path, settings: SiteSettings) -> io::Result<Box<dyn ResourceDriver>> {
    let fence = Arc::new(Fence::open(home)?);
    let SiteSettings { setup, teardown, modify, probe, allow, timeout, output } = settings;
    let (timeout, output) = (timeout.0, output.0);
    let home = home.canonicalize()?;
    let (begin, end, warn) = (setup, teardown, None);
    let reporter = Arc::new(Reporter::default());
    let reports = Some((Arc::clone(&reporter), ReportPipe::open(&home, reporter)?));
    let steps = Exec { home, begin, end, modify, warn, probe, allow, timeout, output, reports };
    Ok(Box::new(Site { fence, steps }))
}

/// Opens a guest's.
pub(crate) fn guest(home: &Path, settings: GuestSettings) -> io::Result<Box<dyn GuestDriver>> {
    let fence = Arc::new(Fence::open(home)?);
    let GuestSettings { join, leave, modify, warn, probe, allow, timeout, output } = settings;
    let (timeout, output) = (timeout.0, output.0);
    let home = home.canonicalize()?;
    let (begin, end, reports) = (join, leave, None);
    let steps = Exec { home, begin, end, modify, warn, probe, allow, timeout, output, reports };
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
        if let Some(before) = work.note::<Process>()? {
            end(&mark, Some(&before), Reach::Group, Duration::ZERO).map_err(|error| {
                DriverError(format!("what an earlier step has left cannot be ended: {error}"))
            })?;
        }
        let tenant = Tenant::of(work.call);
        let run = |program: &ProgramPath, step: &str| {
            let step_input = StepInput::about(work.key(), work.call.epoch, step, &tenant)
                .until(work.call.deadline);
            self.run(program, (work.key(), step), &step_input, work.stop, |process| {
                work.keep(process)
            })
        };
        let probe = || self.standing(run(&self.probe, "probe")?);

        let step = work.call.step;
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
