//! Programs that adapters run, and how long they may take.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tenure_core::driver::{Call, DriverError};
use tenure_core::model::time::Span;

use super::joins::Tenancy;
use super::registry::Place;
use crate::driver::run::{Ended, Run};
use crate::driver::step_input::StepInput;
use crate::driver::stop::Stop;

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

/// Where the programs of one service run.
pub(super) struct Programs {
    home: PathBuf,
    service: String,
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
        Self { home: place.home.to_owned(), service: place.service.to_owned() }
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
        let command = with_variables(&[&own, variables].concat(), command);
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
        run.finish(tenancy.stop(), |process| tenancy.begun(process))
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

fn with_variables(variables: &[(&str, &str)], command: &[String]) -> Vec<String> {
    let variables = variables.iter().map(|(key, value)| format!("{key}={value}"));
    let env = Path::new("/usr/bin/env").display().to_string();
    std::iter::once(env).chain(variables).chain(command.iter().cloned()).collect()
}
