//! The commands of Grid Engine.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use tenure_core::driver::DriverError;

use super::super::tools::Tools;
use super::answers::{self, Host, Job};
use crate::driver::stop::Stop;

/// The complex in which a host of ours has its tenancy.
pub(super) const MARK: &str = "tenure";

/// Runs the commands.
pub(super) struct Control {
    pub(super) tools: Tools,
    /// Where files for `qconf` are written.
    pub(super) home: PathBuf,
}

impl Control {
    /// All execution hosts and the global one, with their queues and jobs, and what they have of resources.
    pub(super) fn hosts(&self, of: &[&str], stop: &Stop) -> Result<Vec<Host>, DriverError> {
        let resources = [&[MARK], of].concat().join(",");
        let text = self.succeed(&["qhost", "-q", "-j", "-F", &resources, "-xml"], stop)?;
        answers::hosts(&text).map_err(DriverError)
    }

    /// All jobs that wait for units; not those that wait for their time.
    pub(super) fn pending(&self, stop: &Stop) -> Result<Vec<Job>, DriverError> {
        let later = self.jobs(&["-s", "ha"], stop)?;
        let mut pending = self.jobs(&["-s", "p", "-r"], stop)?;
        pending.retain(|job| job.waits() && !later.iter().any(|one| one.id == job.id));
        Ok(pending)
    }

    /// All jobs that run, with what they have requested.
    pub(super) fn running(&self, stop: &Stop) -> Result<Vec<Job>, DriverError> {
        self.jobs(&["-s", "r", "-r"], stop)
    }

    fn jobs(&self, which: &[&str], stop: &Stop) -> Result<Vec<Job>, DriverError> {
        let text = self.succeed(&[&["qstat", "-u", "*", "-xml"], which].concat(), stop)?;
        answers::jobs(&text).map_err(DriverError)
    }

    /// The `complex_values` of a host.
    pub(super) fn complex_values(
        &self,
        host: &str,
        stop: &Stop,
    ) -> Result<BTreeMap<String, String>, DriverError> {
        Ok(answers::complex_values(&self.succeed(&["qconf", "-se", host], stop)?))
    }

    /// The administrative hosts.
    pub(super) fn administrative(&self, stop: &Stop) -> Result<Vec<String>, DriverError> {
        let text = self.succeed(&["qconf", "-sh"], stop)?;
        Ok(text.split_whitespace().map(str::to_owned).collect())
    }

    /// Adds an execution host with a mark, both at once.
    pub(super) fn add(&self, host: &str, mark: &str, stop: &Stop) -> Result<(), DriverError> {
        let text = format!(
            "hostname {host}\nload_scaling NONE\ncomplex_values {MARK}={mark}\nuser_lists NONE\n\
             xuser_lists NONE\nprojects NONE\nxprojects NONE\nusage_scaling NONE\nreport_variables NONE\n"
        );
        let file = self.home.join(format!("grid-engine-{mark}"));
        let failed = |error| DriverError(format!("{}: {error}", file.display()));
        fs::write(&file, text).map_err(failed)?;
        let added = self.succeed(&["qconf", "-Ae", &file.display().to_string()], stop);
        fs::remove_file(&file).map_err(failed)?;
        added.map(drop)
    }

    /// Runs a command to its end, which must be a good one.
    pub(super) fn succeed(&self, command: &[&str], stop: &Stop) -> Result<String, DriverError> {
        self.tools.succeed(command, stop)
    }

    /// As [`succeed`](Self::succeed), of a command whose exit code says little: all that it says.
    pub(super) fn say(&self, command: &[&str], stop: &Stop) -> Result<String, DriverError> {
        let ended = self.tools.run(command, stop)?;
        Ok(format!("{}{}", String::from_utf8_lossy(&ended.output), ended.complaint))
    }
}
