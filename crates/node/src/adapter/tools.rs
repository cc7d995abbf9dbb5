//! The command-line tools of a software.

use std::path::PathBuf;
use std::time::Duration;

use tenure_core::driver::DriverError;

use super::command::{Program, Programs};
use crate::driver::run::Ended;
use crate::driver::stop::Stop;

/// Runs them.
pub(super) struct Tools {
    pub(super) programs: Programs,
    /// Their folder; where programs usually are, unless it is set.
    pub(super) folder: Option<PathBuf>,
    /// How long one may take.
    pub(super) timeout: Duration,
    /// What is in their environment.
    pub(super) variables: Vec<(&'static str, String)>,
}

impl Tools {
    /// Runs one to its end.
    pub(super) fn run(&self, command: &[&str], stop: &Stop) -> Result<Ended, DriverError> {
        let what = command[..command.len().min(2)].join(" ");
        let mut command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        if let (Some(folder), Some(name)) = (&self.folder, command.first_mut()) {
            *name = folder.join(&name).display().to_string();
        }
        let variables = self.variables();
        let (timeout, variables) = (self.timeout, variables.as_slice());
        self.programs.run(Program { what: &what, command: &command, timeout, variables }, stop)
    }

    /// Runs one to its end, which must be a good one, and answers what it wrote.
    pub(super) fn succeed(&self, command: &[&str], stop: &Stop) -> Result<String, DriverError> {
        let Ended { status, output, complaint } = self.run(command, stop)?;
        if status.success() {
            return Ok(String::from_utf8_lossy(&output).into_owned());
        }
        Err(DriverError(format!("`{}` failed ({status}){complaint}", command.join(" "))))
    }

    /// What is in their environment.
    pub(super) fn variables(&self) -> Vec<(&str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }
}
