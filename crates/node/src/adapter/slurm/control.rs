//! The commands of Slurm.

use tenure_core::driver::DriverError;

use super::super::tools::Tools;
use super::answers::{self, COLUMNS, Job, Node, RESTARTS};
use crate::driver::run::Ended;
use crate::driver::stop::Stop;

/// Runs the commands.
pub(super) struct Control {
    pub(super) tools: Tools,
    /// The configuration that names the controller.
    pub(super) conf: String,
}

impl Control {
    /// Why the controller does not answer, if it does not.
    pub(super) fn is_down(&self, stop: &Stop) -> Result<Option<String>, DriverError> {
        let Ended { status, output, complaint } = self.tools.run(&["scontrol", "ping"], stop)?;
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
        let mut jobs = answers::jobs(&text).map_err(DriverError)?;
        // A list of its own: columns of both kinds cannot be asked for together.
        if jobs.iter().any(Job::waits_for_a_time) {
            let pending = ["squeue", "--noheader", "--all", "--states=PENDING", "-O", RESTARTS];
            let text = self.succeed(&pending, stop)?;
            let restarted = answers::restarted(&text).map_err(DriverError)?;
            jobs.iter_mut().for_each(|job| job.note_restart(&restarted));
        }
        Ok(jobs)
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
        self.tools.succeed(command, stop)
    }
}
