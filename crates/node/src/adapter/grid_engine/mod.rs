//! `grid-engine`: a Grid Engine, to which the units of a service are added as execution hosts, or as licences.
//!
//! A host of ours has its tenancy in the complex `tenure`, and the tenancies of licences are in that of the global
//! host, so that they are found again. No other host, and no other licence, is ever touched.

pub(super) mod answers;
mod control;
mod hosts;
mod jobs;
mod licences;
pub(super) mod measure;

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::Error as _;
use tenure_core::driver::DriverError;
use tenure_core::model::property::Properties;
use tenure_core::service::label_map::LabelMap;
use tenure_core::service::member::Members;
use tenure_core::service_manager::services::Found;

use self::control::Control;
use self::hosts::{Group, Hosts};
use self::licences::Licences;
use self::measure::Counted;
use super::command::{CommandPlace, Every, Programs, Word, plain_word, short};
use super::joins::Tenancy;
use super::registry::Place;
use super::tools::Tools;
use super::{Act, Adapter, AdapterError, Sensed, drain, queue};
use crate::driver::exec::Timeout;
use crate::driver::programs::Command;
use crate::driver::record::Record;
use crate::driver::stop::Stop;

/// What `grid-engine` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Settings {
    #[serde(default = "usual_root")]
    root: PathBuf,
    #[serde(default = "usual_cell")]
    cell: Word,
    qmaster_port: Option<u16>,
    execd_port: Option<u16>,
    commands: Option<PathBuf>,
    #[serde(default)]
    every: Every,
    /// For each command of Grid Engine.
    #[serde(default = "short")]
    timeout: Timeout,
    queue: Option<Word>,
    /// Whether hosts that it has beside the units are static units of the service.
    #[serde(default, rename = "static")]
    statics: bool,
    /// How many slots a unit has.
    slots: Option<u64>,
    /// The host group that units join, if they become hosts.
    group: Option<Group>,
    /// The complex that they raise, if they become licences.
    licence: Option<Word>,
    #[serde(default = "drain::usual")]
    drain: Timeout,
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

fn usual_root() -> PathBuf {
    PathBuf::from("/var/lib/gridengine")
}

fn usual_cell() -> Word {
    Word("default".to_owned())
}

struct GridEngine {
    control: Control,
    settings: Settings,
    /// Resources that hosts and jobs are counted by.
    requests: Vec<String>,
}

/// Opens one.
pub(super) fn open(
    place: Place<'_>,
    settings: Settings,
    map: &LabelMap,
) -> Result<Box<dyn Adapter>, serde_json::Error> {
    if settings.group.is_some() && settings.licence.is_some() {
        let both = "units are hosts of a `group` or a `licence`, not both";
        return Err(serde_json::Error::custom(both));
    }
    if settings.statics && settings.licence.is_some() {
        return Err(serde_json::Error::custom("licences of others are no `static` units"));
    }
    let mut variables = vec![
        ("SGE_ROOT", settings.root.display().to_string()),
        ("SGE_CELL", settings.cell.0.clone()),
        // Times that depend on no place, and lists without breaks.
        ("TZ", "UTC".to_owned()),
        ("SGE_SINGLE_LINE", "1".to_owned()),
    ];
    let ports =
        [("SGE_QMASTER_PORT", settings.qmaster_port), ("SGE_EXECD_PORT", settings.execd_port)];
    variables.extend(ports.into_iter().filter_map(|(name, port)| Some((name, port?.to_string()))));
    let (folder, timeout) = (settings.commands.clone(), settings.timeout.0);
    let tools =
        Tools { programs: Programs::of(place).at(settings.place), folder, timeout, variables };
    let home = place.home.to_owned();
    let requests: Vec<String> = map.values("request").map(str::to_owned).collect();
    if let Some(odd) = requests.iter().find(|of| plain_word(of).is_none()) {
        return Err(serde_json::Error::custom(format!("`{odd}` is no name of a resource")));
    }
    Ok(Box::new(GridEngine { control: Control { tools, home }, settings, requests }))
}

impl Adapter for GridEngine {
    fn every(&self) -> Duration {
        self.settings.every.0
    }

    fn sense(&self, stop: &Stop) -> Result<Sensed, AdapterError> {
        let licence = self.settings.licence.as_ref().map(|licence| licence.0.as_str());
        let requests = self.requests.iter().map(String::as_str);
        let of: Vec<&str> = licence.into_iter().chain(requests).collect();
        let hosts = match self.control.hosts(&of, stop) {
            Ok(hosts) => hosts,
            Err(why) if !stop.is_asked() => {
                return Ok(Sensed::found(Found::Failed, Some(why.0)));
            }
            Err(error) => return Err(error.into()),
        };
        let pending = self.control.pending(stop)?;
        let queue = self.settings.queue.as_ref().map(|queue| queue.0.as_str());
        let (ours, statics) = (self.settings.group.is_some(), self.settings.statics);
        let counted = Counted {
            queue,
            ours: ours && !statics,
            slots: self.settings.slots,
            now: queue::now(),
            requests: &self.requests,
        };
        let kpis = match licence {
            Some(licence) => {
                let global = self.control.complex_values("global", stop)?;
                counted.licences(licence, (&hosts, &global), &pending)
            }
            None => counted.hosts(&hosts, &pending),
        };
        let busy = hosts.iter().filter_map(|host| host.busy(counted.now));
        let busy = busy.map(|(mark, work)| (mark.to_owned(), work)).collect();
        let members = if statics { counted.statics(&hosts)? } else { Members::default() };
        Ok(Sensed { busy, members, ..Sensed::running(kpis) })
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
        self.settings.group.is_some() || self.settings.licence.is_some()
    }

    fn join(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        match self.licences() {
            Some(licences) => licences.join(tenancy),
            None => self.hosts()?.join(tenancy),
        }
    }

    fn adopt(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        match self.licences() {
            Some(_) => Err(DriverError::untouched("licences are not taken over")),
            None => self.hosts()?.adopt(tenancy),
        }
    }

    fn leave(&self, tenancy: &Tenancy<'_>) -> Result<(), DriverError> {
        match self.licences() {
            Some(licences) => licences.leave(tenancy),
            None => self.hosts()?.leave(tenancy),
        }
    }

    fn probe(&self, record: &Record, stop: &Stop) -> Result<Properties, DriverError> {
        match self.licences() {
            Some(licences) => licences.probe(record, stop),
            None => self.hosts()?.probe(record, stop),
        }
    }
}

impl GridEngine {
    fn hosts(&self) -> Result<Hosts<'_>, DriverError> {
        let Settings { group, drain, ready, node_start, node_stop, step_timeout, .. } =
            &self.settings;
        let none = || DriverError::untouched("its adapter has no `group` for hosts");
        Ok(Hosts {
            control: &self.control,
            group: group.as_ref().ok_or_else(none)?,
            drain: drain.0,
            ready: ready.0,
            start: node_start.as_ref(),
            stop: node_stop.as_ref(),
            step_timeout: step_timeout.0,
        })
    }

    fn licences(&self) -> Option<Licences<'_>> {
        let licence = &self.settings.licence.as_ref()?.0;
        Some(Licences { control: &self.control, licence, drain: self.settings.drain.0 })
    }

    fn act(
        &self,
        what: &'static str,
        command: Option<&Command>,
        stop: &Stop,
    ) -> Result<(), AdapterError> {
        let variables = self.control.tools.variables();
        let how = (self.settings.step_timeout.0, variables.as_slice());
        self.control.tools.programs.act((what, command), how, stop)
    }
}
