//! `haproxy`: a load balancer, to a backend of which the units of a service are added as servers.
//!
//! All goes by its runtime socket. A server of ours has a name that says the tenancy, and no other is ever touched.

pub(super) mod answers;
pub(super) mod measure;
mod servers;
mod socket;

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tenure_core::driver::DriverError;
use tenure_core::model::property::Properties;
use tenure_core::service::member::Members;
use tenure_core::service_manager::services::Found;

use self::measure::{Counted, Totals};
use self::servers::{ServerWords, Servers};
use self::socket::Socket;
use super::command::{CommandPlace, Every, Programs, Word, short};
use super::joins::Tenancy;
use super::registry::Place;
use super::{Act, Adapter, AdapterError, Sensed, drain};
use crate::driver::exec::Timeout;
use crate::driver::fence::hold;
use crate::driver::programs::Command;
use crate::driver::record::Record;
use crate::driver::stop::Stop;

/// What `haproxy` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Settings {
    #[serde(default = "usual_socket")]
    socket: PathBuf,
    backend: Word,
    #[serde(default)]
    every: Every,
    /// For each command on the socket.
    #[serde(default = "short")]
    timeout: Timeout,
    /// Whether servers that it has beside the units are static units of the service.
    #[serde(default, rename = "static")]
    statics: bool,
    /// Where units serve, if they become servers.
    port: Option<u16>,
    /// How they are checked and used, as in a line `server` of the configuration.
    #[serde(default)]
    server: ServerWords,
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

fn usual_socket() -> PathBuf {
    PathBuf::from("/run/haproxy/admin.sock")
}

struct Haproxy {
    socket: Socket,
    programs: Programs,
    settings: Settings,
    /// What had been counted at the last look, and when that was.
    before: Mutex<Option<(Instant, Totals)>>,
}

/// Opens one.
pub(super) fn open(place: Place<'_>, settings: Settings) -> Box<dyn Adapter> {
    let socket = Socket { path: settings.socket.clone(), timeout: settings.timeout.0 };
    let programs = Programs::of(place).at(settings.place);
    Box::new(Haproxy { socket, programs, settings, before: Mutex::new(None) })
}

impl Adapter for Haproxy {
    fn every(&self) -> Duration {
        self.settings.every.0
    }

    fn sense(&self, _: &Stop) -> Result<Sensed, AdapterError> {
        let backend = self.settings.backend.0.as_str();
        let text = match self.socket.ask(&format!("show stat {backend} -1 -1")) {
            Ok(text) => text,
            Err(why) => {
                return Ok(Sensed::found(Found::Failed, Some(why)));
            }
        };
        let lines = answers::lines(&text).map_err(AdapterError::Failed)?;
        let now = Instant::now();
        let counted = Counted { backend, ours: self.joins() && !self.settings.statics };
        let totals = Totals::of(&lines);
        let mut before = hold(&self.before);
        let since = before.map(|(at, totals)| (now - at, totals));
        *before = totals.map(|totals| (now, totals));
        let none = || AdapterError::Failed(format!("there is no backend `{backend}`"));
        let kpis = counted.kpis(&lines, since).ok_or_else(none)?;
        let statics = self.settings.statics;
        let members = if statics { counted.statics(&lines)? } else { Members::default() };
        let busy = counted.busy(&lines);
        Ok(Sensed { busy, members, ..Sensed::running(kpis) })
    }

    fn kpis(&self) -> Option<&'static [&'static str]> {
        Some(measure::KPIS)
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
        self.settings.port.is_some()
    }

    fn join(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        self.servers().join(tenancy)
    }

    fn adopt(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        self.servers().adopt(tenancy)
    }

    fn leave(&self, tenancy: &Tenancy<'_>) -> Result<(), DriverError> {
        self.servers().leave(tenancy)
    }

    fn probe(&self, record: &Record, _: &Stop) -> Result<Properties, DriverError> {
        self.servers().probe(record)
    }
}

impl Haproxy {
    fn servers(&self) -> Servers<'_> {
        let Settings {
            backend,
            port,
            server,
            drain,
            ready,
            node_start,
            node_stop,
            step_timeout,
            ..
        } = &self.settings;
        Servers {
            socket: &self.socket,
            programs: &self.programs,
            backend: &backend.0,
            port: port.unwrap_or_default(),
            words: server,
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
        self.programs.act((what, command), (self.settings.step_timeout.0, &[]), stop)
    }
}
