//! Programs that adapters run, and how long they may take.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tenure_core::driver::{Call, DriverError};
use tenure_core::model::time::Span;

use super::AdapterError;
use super::joins::Tenancy;
use super::registry::Place;
use crate::driver::exec::Timeout;
use crate::driver::programs::Command;
use crate::driver::record::Key;
use crate::driver::run::{Ended, Run};
use crate::driver::step_input::StepInput;
use crate::driver::stop::Stop;
use crate::driver::{NAMESPACE, inside};
use crate::net::task::{CommandEnd, Ran};

/// How much a program may write: a line for each of a hundred thousand jobs, say.
const OUTPUT: usize = 16 << 20;

/// The variables with words of the site, which are passed on only if they are words.
const WORDS: [(&str, &str); 2] =
    [("TENURE_HOST", "host.name"), ("TENURE_ADDRESS", "host.privipaddr")];

/// How often software is looked at: every 30 seconds by default.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Span")]
pub(super) struct Every(pub(super) Duration);

impl Default for Every {
    fn default() -> Self {
        Self(Duration::from_secs(30))
    }
}

impl TryFrom<Span> for Every {
    type Error = String;

    fn try_from(span: Span) -> Result<Self, String> {
        match u64::try_from(span.as_micros()) {
            Ok(micros @ 100_000..) => Ok(Self(Duration::from_micros(micros))),
            Ok(_) | Err(_) => Err(format!("`every` is at least 100ms, not {span}")),
        }
    }
}

/// For how long what is asked may take by default.
pub(super) fn short() -> Timeout {
    Timeout(Duration::from_secs(10))
}

/// A name in a software, such as that of a queue, which can stand in its command lines.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Word(pub(super) String);

impl TryFrom<String> for Word {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match plain_word(&text) {
            Some(_) => Ok(Self(text)),
            None => {
                Err(format!("`{text}` is not one word of letters, digits, `-`, `_`, `.` and `:`"))
            }
        }
    }
}

/// Where programs run that are about a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CommandPlace {
    /// On this machine.
    #[default]
    Here,
    /// On this machine, in the network namespace of the unit.
    Namespace,
    /// On the unit, by its executor.
    Executor,
}

/// Where the programs of one service run.
pub(super) struct Programs {
    home: PathBuf,
    service: String,
    /// Of those that are about a unit.
    place: CommandPlace,
}

/// A program of a service, with its time.
#[derive(Clone, Copy)]
pub(super) struct Program<'a> {
    /// What it is for, in a word.
    pub(super) what: &'a str,
    pub(super) command: &'a [String],
    pub(super) timeout: Duration,
    /// What is in its environment beside what all programs have there.
    pub(super) variables: &'a [(&'a str, &'a str)],
}

impl Programs {
    pub(super) fn of(place: Place<'_>) -> Self {
        let (home, service) = (place.home.to_owned(), place.service.to_owned());
        Self { home, service, place: CommandPlace::Here }
    }

    /// The same, whose programs about units run there.
    pub(super) fn at(self, place: CommandPlace) -> Self {
        Self { place, ..self }
    }

    /// Runs a program that is about the service.
    pub(super) fn run(&self, program: Program<'_>, stop: &Stop) -> Result<Ended, DriverError> {
        let Program { what, command, timeout, variables } = program;
        let own = [("TENURE_STEP", what), ("TENURE_SERVICE", &self.service)];
        let command = with_variables(&[&own, variables].concat(), command);
        let run = Run {
            name: &format!("the {what} program"),
            command: &command.iter().map(OsStr::new).collect::<Vec<_>>(),
            program: None,
            folder: &self.home,
            mark: &format!("{}:{}:{what}", self.home.display(), self.service),
            input: b"",
            timeout,
            output: OUTPUT,
        };
        run.end(stop, |_| Ok(()))
    }

    /// As [`run`](Self::run), of one that ends with success, and answers what it wrote.
    pub(super) fn succeed(
        &self,
        program: Program<'_>,
        stop: &Stop,
    ) -> Result<Vec<u8>, DriverError> {
        let Ended { status, output, complaint } = self.run(program, stop)?;
        if status.success() {
            return Ok(output);
        }
        Err(DriverError(format!("the {} program failed ({status}){complaint}", program.what)))
    }

    /// Runs a program that is about a unit, which reads what is known of it.
    pub(super) fn for_unit(
        &self,
        program: Program<'_>,
        tenancy: &Tenancy<'_>,
    ) -> Result<Vec<u8>, DriverError> {
        let Program { what, command, timeout, variables } = program;
        let call = tenancy.call();
        let input = serde_json::to_vec(&StepInput::of(call))
            .map_err(|error| DriverError(error.to_string()))?;
        let own = about(call);
        let own: Vec<_> = own.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let mut command = with_variables(&[&own, variables].concat(), command);
        match self.place {
            CommandPlace::Here => {}
            CommandPlace::Namespace => command = inside(namespace(call)?, &command)?,
            CommandPlace::Executor => return on_unit(what, tenancy.run(command, timeout)?),
        }
        let run = Run {
            name: &format!("the {what} program"),
            command: &command.iter().map(OsStr::new).collect::<Vec<_>>(),
            program: None,
            folder: &self.home,
            mark: &tenancy.mark(&self.home),
            input: &input,
            timeout,
            output: OUTPUT,
        };
        let ended = run.end(tenancy.stop(), |process| tenancy.begun(process))?;
        let Ended { status, output, complaint } = ended;
        match status.code() {
            Some(0) => Ok(output),
            Some(REFUSES) if refuses(what) => Err(refused(what, &complaint)),
            _ => Err(DriverError(format!("the {what} program failed ({status}){complaint}"))),
        }
    }
}

/// The exit code of a `join` or `leave` that refuses, and has changed nothing: `EX_TEMPFAIL`.
const REFUSES: i32 = 75;

/// Whether a program may refuse: others run when something was done already.
fn refuses(what: &str) -> bool {
    matches!(what, "join" | "leave")
}

fn refused(what: &str, complaint: &str) -> DriverError {
    let why = complaint.trim_start_matches(": ");
    DriverError::untouched(if why.is_empty() {
        format!("the {what} program refuses")
    } else {
        why.to_owned()
    })
}

/// How long a program may run, and what is in its environment.
type How<'a> = (Duration, &'a [(&'a str, &'a str)]);

impl Programs {
    /// Starts or stops the software by a program, if there is one.
    pub(super) fn act(
        &self,
        (what, command): (&'static str, Option<&Command>),
        (timeout, variables): How<'_>,
        stop: &Stop,
    ) -> Result<(), AdapterError> {
        let Command(command) = command.ok_or(AdapterError::Unable(what))?;
        self.succeed(Program { what, command, timeout, variables }, stop)?;
        Ok(())
    }

    /// Runs a program that is about a unit, if there is one.
    pub(super) fn act_on(
        &self,
        (what, command): (&str, Option<&Command>),
        (timeout, variables): How<'_>,
        tenancy: &Tenancy<'_>,
    ) -> Result<(), DriverError> {
        let Some(Command(command)) = command else { return Ok(()) };
        self.for_unit(Program { what, command, timeout, variables }, tenancy).map(drop)
    }
}

/// What is said of a call in the environment of a program. Words of strangers are on its standard input.
fn about(call: &Call) -> Vec<(&'static str, String)> {
    let own = [
        ("TENURE_STEP", call.step.word().to_owned()),
        ("TENURE_SERVICE", call.slice.to_string()),
        ("TENURE_LEASE", call.lease.to_string()),
        ("TENURE_SITE", call.site.to_hex()),
        ("TENURE_NUMBER", call.unit.0.to_string()),
        ("TENURE_EPOCH", call.epoch.0.to_string()),
        ("TENURE_MARK", Key::of(call).mark(call.epoch)),
        ("TENURE_RESOURCE", call.resource.to_string()),
    ];
    let words = WORDS.iter().filter_map(|(variable, key)| {
        Some((*variable, plain_word(call.properties.get(key)?)?.to_owned()))
    });
    own.into_iter().chain(words).collect()
}

/// A host name or an address, and nothing that could be taken for something else.
pub(super) fn plain_word(text: &str) -> Option<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".:-_".contains(c);
    (text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(plain))
        .then_some(text)
}

/// The namespace of a unit.
fn namespace(call: &Call) -> Result<&str, DriverError> {
    let none = || DriverError::untouched(format!("the unit has no namespace (`{NAMESPACE}`)"));
    call.properties.get(NAMESPACE).ok_or_else(none)
}

/// What a program wrote that ran on a unit, if it ended with success.
fn on_unit(what: &str, Ran { end, output, errors }: Ran) -> Result<Vec<u8>, DriverError> {
    let text = String::from_utf8_lossy(&errors.bytes);
    let said = text.lines().next_back().map_or_else(String::new, |line| format!(": {line}"));
    let how = match end {
        CommandEnd::Exit(0) => return Ok(output.bytes),
        CommandEnd::Exit(REFUSES) if refuses(what) => return Err(refused(what, &said)),
        CommandEnd::Exit(code) => format!("exit code {code}"),
        CommandEnd::Signal(signal) => format!("signal {signal}"),
        CommandEnd::Timeout => "it took too long".to_owned(),
    };
    Err(DriverError(format!("the {what} program failed on the unit ({how}){said}")))
}

fn with_variables(variables: &[(&str, &str)], command: &[String]) -> Vec<String> {
    let variables = variables.iter().map(|(key, value)| format!("{key}={value}"));
    let env = Path::new("/usr/bin/env").display().to_string();
    std::iter::once(env).chain(variables).chain(command.iter().cloned()).collect()
}
