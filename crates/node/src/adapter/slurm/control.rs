//! The commands of Slurm.

use std::path::PathBuf;
use std::time::Duration;

use tenure_core::driver::DriverError;

use super::super::command::{Program, Programs};
use super::answers::{self, COLUMNS, Job, Node};
use crate::driver::run::Ended;
use crate::driver::stop::Stop;

/// Runs the commands.
pub(super) struct Control {
    pub(super) programs: Programs,
    /// The configuration that names the controller.
    pub(super) conf: String,
    /// The folder of the commands; where programs usually are, unless it is set.
    pub(super) commands: Option<PathBuf>,
    /// How long one command may take.
    pub(super) timeout: Duration,
}

impl Control {
    /// Why the controller does not answer, if it does not.
    pub(super) fn is_down(&self, stop: &Stop) -> Result<Option<String>, DriverError> {
        let Ended { status, output, complaint } = self.run(&["scontrol", "ping"], stop)?;
        let said = String::from_utf8_lossy(&output);
        if status.success() {
            return Ok(None);
        }
        let said = said.lines().next().unwrap_or_default().trim();
        Ok(Some(format!("`scontrol ping` ({status}): {said}{complaint}")))
    }

    /// All nodes, also those that are not there yet.
    pub(super) fn nodes(&self, stop: &Stop) -> Result<Vec<Node>, DriverError> {
        let show = ["scontrol", "show", "nodes", "--oneliner", "--future"];
        self.succeed(&show, stop).map(|text| answers::nodes(&text))
    }

    /// All jobs that are not over.
    pub(super) fn jobs(&self, stop: &Stop) -> Result<Vec<Job>, DriverError> {
        let text = self.succeed(&["squeue", "--noheader", "--all", "-o", COLUMNS], stop)?;
        answers::jobs(&text).map_err(DriverError)
    }

    /// Changes a node.
    pub(super) fn update(
        &self,
        node: &str,
        changes: &[&str],
        stop: &Stop,
    ) -> Result<(), DriverError> {
        let name = format!("NodeName={node}");
        let command = [&["scontrol", "update", name.as_str()], changes].concat();
        self.succeed(&command, stop).map(drop)
    }

    /// Runs a command to its end, which must be a good one.
    pub(super) fn succeed(&self, command: &[&str], stop: &Stop) -> Result<String, DriverError> {
        let Ended { status, output, complaint } = self.run(command, stop)?;
        if status.success() {
            return Ok(String::from_utf8_lossy(&output).into_owned());
        }
        Err(DriverError(format!("`{}` failed ({status}){complaint}", command.join(" "))))
    }

    fn run(&self, command: &[&str], stop: &Stop) -> Result<Ended, DriverError> {
        let variables: &[_] = &[
            ("SLURM_CONF", self.conf.as_str()),
            // Times in seconds since 1970, and arrays without dots.
            ("SLURM_TIME_FORMAT", "%s"),
            ("SLURM_BITSTR_LEN", "0"),
        ];
        let what = command[..command.len().min(2)].join(" ");
        let mut command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        if let (Some(folder), Some(name)) = (&self.commands, command.first_mut()) {
            *name = folder.join(&name).display().to_string();
        }
        let timeout = self.timeout;
        self.programs.run(Program { what: &what, command: &command, timeout, variables }, stop)
    }
}
