//! Units as servers of a backend.

use std::time::{Duration, Instant};

use serde::Deserialize;
use tenure_core::driver::DriverError;
use tenure_core::model::property::Properties;

use super::super::command::Programs;
use super::super::drain::{left, named, pause, word};
use super::super::joins::Tenancy;
use super::answers::{self, Line};
use super::socket::Socket;
use crate::driver::programs::Command;
use crate::driver::record::{Key, Record};
use crate::driver::stop::Stop;

/// What the names of our servers begin with.
const OURS: &str = "tenure:";

/// For how long a server is tried to be deleted after its sessions were ended.
const TO_DELETE: Duration = Duration::from_secs(10);

/// Whether adapters have added a server.
pub(super) fn is_ours(server: &str) -> bool {
    server.starts_with(OURS)
}

/// How servers are checked and used: `check inter 2s maxconn 50`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct ServerWords(Vec<String>);

impl TryFrom<String> for ServerWords {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // `;` would end the command.
        match text.chars().find(|c| *c == ';' || *c == '\\' || (c.is_control() && *c != '\t')) {
            Some(c) => Err(format!("words of a server have no `{}`", c.escape_debug())),
            None => Ok(Self(text.split_whitespace().map(str::to_owned).collect())),
        }
    }
}

/// How units become servers.
pub(super) struct Servers<'a> {
    pub(super) socket: &'a Socket,
    pub(super) programs: &'a Programs,
    pub(super) backend: &'a str,
    pub(super) port: u16,
    pub(super) words: &'a ServerWords,
    pub(super) drain: Duration,
    pub(super) ready: Duration,
    pub(super) start: Option<&'a Command>,
    pub(super) stop: Option<&'a Command>,
    pub(super) step_timeout: Duration,
}

impl Servers<'_> {
    /// Makes a unit a server, and waits until it takes sessions.
    pub(super) fn join(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        let (call, stop) = (tenancy.call(), tenancy.stop());
        let name = self.name(&Key::of(call).mark(call.epoch));
        let address = word(call, "host.privipaddr")?;
        self.act_on("node-start", self.start, tenancy)?;
        if self.find(&name)?.is_none() {
            let words: String = self.words.0.iter().map(|word| format!(" {word}")).collect();
            let add = format!("add server {name} {address}:{}{words}", self.port);
            self.socket.order(&add, "New server registered.")?;
        }
        for (word, what) in [("check", "health"), ("agent-check", "agent")] {
            if self.words.0.iter().any(|one| one == word) {
                self.socket.order(&format!("enable {what} {name}"), "")?;
            }
        }
        self.set(&name, "ready")?;
        let until = Instant::now() + self.ready;
        loop {
            let line = self.find(&name)?.ok_or_else(|| gone(&name))?;
            if line.is_up() {
                return named("haproxy.server", &name);
            }
            if Instant::now() >= until {
                return Err(DriverError(format!("{} after {:?}", state(&line), self.ready)));
            }
            pause(stop)?;
        }
    }

    /// Has the sessions of a unit end, or ends them, and deletes its server.
    pub(super) fn leave(&self, tenancy: &Tenancy<'_>) -> Result<(), DriverError> {
        let (call, stop) = (tenancy.call(), tenancy.stop());
        let name = self.name(&Key::of(call).mark(call.epoch));
        let until = Instant::now() + self.drain.min(left(call));
        if self.find(&name)?.is_some() {
            self.set(&name, "drain")?;
            // One that haproxy has forgotten since has no sessions either.
            while let Some(line) = self.find(&name)?
                && line.sessions + line.queued > 0
                && Instant::now() < until
            {
                pause(stop)?;
            }
            self.delete(&name, stop)?;
        }
        self.act_on("node-stop", self.stop, tenancy)
    }

    /// Says whether the server of a unit takes sessions.
    pub(super) fn probe(&self, record: &Record) -> Result<Properties, DriverError> {
        let name = self.name(&record.key.mark(record.epoch));
        let line = self.find(&name)?.ok_or_else(|| gone(&name))?;
        if line.is_up() { named("haproxy.server", &name) } else { Err(DriverError(state(&line))) }
    }

    /// How commands name the server with a mark.
    fn name(&self, mark: &str) -> String {
        format!("{}/{OURS}{mark}", self.backend)
    }

    fn find(&self, name: &str) -> Result<Option<Line>, DriverError> {
        let stat = self.socket.ask(&format!("show stat {} -1 -1", self.backend));
        let lines = stat.and_then(|text| answers::lines(&text)).map_err(DriverError)?;
        if !lines.iter().any(Line::is_backend) {
            return Err(DriverError(format!("there is no backend `{}`", self.backend)));
        }
        let server = name.split_once('/').map(|(_, server)| server);
        Ok(lines.into_iter().find(|line| Some(line.name.as_str()) == server))
    }

    fn set(&self, name: &str, state: &str) -> Result<(), DriverError> {
        self.socket.order(&format!("set server {name} state {state}"), "")
    }

    /// Deletes a server with the sessions that it has still.
    fn delete(&self, name: &str, stop: &Stop) -> Result<(), DriverError> {
        let until = Instant::now() + TO_DELETE;
        while self.find(name)?.is_some() {
            self.set(name, "maint")?;
            self.socket.order(&format!("shutdown sessions server {name}"), "")?;
            match self.socket.order(&format!("del server {name}"), "Server deleted.") {
                Ok(()) => return Ok(()),
                // A session takes a moment to end.
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => pause(stop)?,
            }
        }
        Ok(())
    }

    /// Runs a program that is about a unit, if there is one.
    fn act_on(
        &self,
        what: &str,
        command: Option<&Command>,
        tenancy: &Tenancy<'_>,
    ) -> Result<(), DriverError> {
        let port = self.port.to_string();
        let variables: &[_] = &[("TENURE_PORT", port.as_str())];
        self.programs.act_on((what, command), (self.step_timeout, variables), tenancy)
    }
}

fn gone(name: &str) -> DriverError {
    DriverError(format!("server {name} is not there: haproxy forgets it when it restarts"))
}

fn state(line: &Line) -> String {
    format!("server {} is {}", line.name, line.status)
}
