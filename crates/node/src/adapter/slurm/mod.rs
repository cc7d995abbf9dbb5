//! `slurm`: a Slurm, to which the units of a service are added as nodes.
//!
//! Nodes are either those of a pool that is in `slurm.conf` with `State=FUTURE`, or created for the units. A node
//! of ours has a comment that names the tenancy, so that it is found again, and no other is ever touched.

pub(super) mod answers;
mod control;
pub(super) mod measure;
pub(super) mod node_list;
mod nodes;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tenure_core::driver::DriverError;
use tenure_core::model::property::Properties;
use tenure_core::service::label_map::LabelMap;
use tenure_core::service::member::Members;
use tenure_core::service_manager::services::Found;

use self::answers::Job;
use self::control::Control;
use self::measure::Counted;
use self::nodes::{Kind, Nodes};
use self::words::{NodeName, NodeWords};
use super::command::{CommandPlace, Every, Programs, short};
use super::joins::Tenancy;
use super::registry::Place;
use super::tools::Tools;
use super::{Act, Adapter, AdapterError, Sensed, drain, queue};
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
    #[serde(default = "short")]
    timeout: Timeout,
    partition: Option<String>,
    /// Whether nodes that it has beside the units are static units of the service.
    #[serde(default, rename = "static")]
    statics: bool,
    /// How many processors a unit has.
    cpus: Option<u64>,
    /// Names of nodes that are in `slurm.conf` with `State=FUTURE`.
    #[serde(default)]
    pool: Vec<NodeName>,
    /// What created nodes are like, if nodes are created.
    node: Option<NodeWords>,
    /// For how long jobs may end when a unit is left.
    #[serde(default = "drain::usual")]
    drain: Timeout,
    /// Within which time a node that was joined is ready for jobs.
    #[serde(default = "drain::usual_ready")]
    ready: Timeout,
    start: Option<Command>,
    stop: Option<Command>,
    node_start: Option<Command>,
    node_stop: Option<Command>,
    /// Where those two run.
    #[serde(default)]
    place: CommandPlace,
    /// For the programs above.
    #[serde(default)]
    step_timeout: Timeout,
}

fn usual_conf() -> PathBuf {
    PathBuf::from("/etc/slurm/slurm.conf")
}

struct Slurm {
    control: Control,
    settings: Settings,
    /// Features that nodes and jobs are counted by.
    features: Vec<String>,
    /// Licences that jobs are counted by.
    licences: Vec<String>,
}

/// Opens one.
pub(super) fn open(place: Place<'_>, settings: Settings, map: &LabelMap) -> Box<dyn Adapter> {
    let [features, licences] =
        ["feature", "licence"].map(|label| map.values(label).map(str::to_owned).collect());
    let (conf, timeout) = (settings.conf.display().to_string(), settings.timeout.0);
    let commands = settings.commands.clone();
    let variables = vec![
        ("SLURM_CONF", conf.clone()),
        // Times in seconds since 1970, and arrays without dots.
        ("SLURM_TIME_FORMAT", "%s".to_owned()),
        ("SLURM_BITSTR_LEN", "0".to_owned()),
    ];
    let tools = Tools {
        programs: Programs::of(place).at(settings.place),
        folder: commands,
        timeout,
        variables,
    };
    let control = Control { tools, conf };
    Box::new(Slurm { control, settings, features, licences })
}

impl Adapter for Slurm {
    fn every(&self) -> Duration {
        self.settings.every.0
    }

    fn sense(&self, stop: &Stop) -> Result<Sensed, AdapterError> {
        // Without a controller `squeue` waits, and may end with an empty list.
        if let Some(why) = self.control.is_down(stop)? {
            return Ok(Sensed::found(Found::Failed, Some(why)));
        }
        let nodes = self.control.nodes(stop)?;
        let jobs: Vec<Job> = self.control.jobs(stop)?;
        let counted = Counted {
            partition: self.settings.partition.as_deref(),
            ours: self.joins() && !self.settings.statics,
            cpus: self.settings.cpus.or(self.settings.node.as_ref().and_then(NodeWords::cpus)),
            now: queue::now(),
            features: &self.features,
            licences: &self.licences,
        };
        let forgotten = nodes.iter().find(|node| node.is_forgotten());
        let why = forgotten.map(|node| {
            let name = &node.name;
            format!("node {name} is FUTURE with jobs: start slurmctld with -R; a SIGHUP has its slurmd register again")
        });
        let busy = nodes.iter().filter_map(|node| node.busy(&jobs, counted.now));
        let busy = busy.map(|(mark, work)| (mark.to_owned(), work)).collect();
        let members =
            if self.settings.statics { counted.statics(&nodes)? } else { Members::default() };
        Ok(Sensed { busy, members, why, ..Sensed::running(counted.kpis(&nodes, &jobs)) })
    }

    fn kpis(&self) -> Option<&'static [&'static str]> {
        Some(queue::KPIS)
    }

    fn can(&self, act: Act) -> bool {
        act.command((&self.settings.start, &self.settings.stop)).is_some()
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

    fn adopt(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        self.nodes().adopt(tenancy)
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
        let variables: &[_] = &[("SLURM_CONF", self.control.conf.as_str())];
        let how = (self.settings.step_timeout.0, variables);
        self.control.tools.programs.act((what, command), how, stop)
    }
}
