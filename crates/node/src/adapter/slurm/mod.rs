//! `slurm`: a Slurm, to which the units of a service are added as nodes.
//!
//! Nodes are either those of a pool that is in `slurm.conf` with `State=FUTURE`, or created for the units. A node
//! of ours has a comment that names the tenancy, so that it is found again, and no other is ever touched.

pub(super) mod answers;
mod control;
pub(super) mod measure;
mod nodes;
mod words;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use tenure_core::driver::DriverError;
use tenure_core::model::property::Properties;
use tenure_core::service::kpi::Kpis;
use tenure_core::service_manager::services::Found;

use self::answers::Job;
use self::control::Control;
use self::measure::Counted;
use self::nodes::{Kind, Nodes};
use self::words::{NodeName, NodeWords};
use super::command::{Every, Program, Programs};
use super::joins::Tenancy;
use super::registry::Place;
use super::{Adapter, AdapterError, Sensed};
use crate::driver::exec::Timeout;
use crate::driver::programs::Command;
use crate::driver::record::Record;
use crate::driver::stop::Stop;

/// What `slurm` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Settings {
    #[serde(default = "usual_conf")]
    conf: PathBuf,
    commands: Option<PathBuf>,
    #[serde(default)]
    every: Every,
    /// For each command of Slurm.
    #[serde(default = "seconds")]
    timeout: Timeout,
    partition: Option<String>,
    /// How many processors a unit has.
    cpus: Option<u64>,
    /// Names of nodes that are in `slurm.conf` with `State=FUTURE`.
    #[serde(default)]
    pool: Vec<NodeName>,
    /// What created nodes are like, if nodes are created.
    node: Option<NodeWords>,
    /// For how long jobs may end when a unit is left.
    #[serde(default = "minutes")]
    drain: Timeout,
    /// Within which time a node that was joined is ready for jobs.
    #[serde(default = "few_minutes")]
    ready: Timeout,
    start: Option<Command>,
    stop: Option<Command>,
    node_start: Option<Command>,
    node_stop: Option<Command>,
    /// For the programs above.
    #[serde(default)]
    step_timeout: Timeout,
}

fn usual_conf() -> PathBuf {
    PathBuf::from("/etc/slurm/slurm.conf")
}

fn seconds() -> Timeout {
    Timeout(Duration::from_secs(10))
}

fn few_minutes() -> Timeout {
    Timeout(Duration::from_secs(300))
}

fn minutes() -> Timeout {
    Timeout(Duration::from_secs(1200))
}

struct Slurm {
    control: Control,
    settings: Settings,
}

/// Opens one.
pub(super) fn open(place: Place<'_>, settings: Settings) -> Box<dyn Adapter> {
    let (conf, timeout) = (settings.conf.display().to_string(), settings.timeout.0);
    let commands = settings.commands.clone();
    let control = Control { programs: Programs::of(place), conf, commands, timeout };
    Box::new(Slurm { control, settings })
}

impl Adapter for Slurm {
    fn every(&self) -> Duration {
        self.settings.every.0
    }

    fn sense(&self, stop: &Stop) -> Result<Sensed, AdapterError> {
        // Without a controller `squeue` waits, and may end with an empty list.
        if let Some(why) = self.control.is_down(stop)? {
            let kpis = Kpis::default();
            return Ok(Sensed { found: Found::Failed, kpis, why: Some(why) });
        }
        let nodes = self.control.nodes(stop)?;
        let jobs: Vec<Job> = self.control.jobs(stop)?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let counted = Counted {
            partition: self.settings.partition.as_deref(),
            ours: self.joins(),
            cpus: self.settings.cpus.or(self.settings.node.as_ref().and_then(NodeWords::cpus)),
            now: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        };
        let forgotten = nodes.iter().find(|node| node.is_forgotten());
        let why = forgotten.map(|node| {
            let name = &node.name;
            format!("node {name} is FUTURE with jobs: start slurmctld with -R; a SIGHUP has its slurmd register again")
        });
        Ok(Sensed { found: Found::Running, kpis: counted.kpis(&nodes, &jobs), why })
    }

    fn start(&self, stop: &Stop) -> Result<(), AdapterError> {
        self.act("start", self.settings.start.as_ref(), stop)
    }

    fn stop(&self, stop: &Stop) -> Result<(), AdapterError> {
        self.act("stop", self.settings.stop.as_ref(), stop)
    }

    fn joins(&self) -> bool {
        !self.settings.pool.is_empty() || self.settings.node.is_some()
    }

    fn join(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        self.nodes().join(tenancy)
    }

    fn leave(&self, tenancy: &Tenancy<'_>) -> Result<(), DriverError> {
        self.nodes().leave(tenancy)
    }

    fn probe(&self, record: &Record, stop: &Stop) -> Result<Properties, DriverError> {
        self.nodes().probe(record, stop)
    }
}

impl Slurm {
    fn nodes(&self) -> Nodes<'_> {
        let Settings { pool, node, drain, ready, node_start, node_stop, step_timeout, .. } =
            &self.settings;
        Nodes {
            control: &self.control,
            kind: node.as_ref().map_or(Kind::Pool(pool), Kind::Created),
            drain: drain.0,
            ready: ready.0,
            start: node_start.as_ref(),
            stop: node_stop.as_ref(),
            step_timeout: step_timeout.0,
        }
    }

    fn act(
        &self,
        what: &'static str,
        command: Option<&Command>,
        stop: &Stop,
    ) -> Result<(), AdapterError> {
        let Command(command) = command.ok_or(AdapterError::Unable(what))?;
        let variables: &[_] = &[("SLURM_CONF", self.control.conf.as_str())];
        let timeout = self.settings.step_timeout.0;
        self.control.programs.succeed(Program { what, command, timeout, variables }, stop)?;
        Ok(())
    }
}
