//! Units as servers of a backend.

use std::time::{Duration, Instant};

use serde::Deserialize;
use tenure_core::driver::{DriverError, Epoch};
use tenure_core::model::property::Properties;

use super::super::command::{Programs, plain_word};
use super::super::drain::{left, named, pause, word};
use super::super::joins::Tenancy;
use super::answers::{self, Line};
use super::socket::Socket;
use crate::driver::adoption::Adopt;
use crate::driver::programs::Command;
use crate::driver::record::{Key, Record};
use crate::driver::stop::Stop;

/// What the names of our servers begin with.
const OURS: &str = "tenure:";

/// For how long a server is tried to be deleted after its sessions were ended.
const TO_DELETE: Duration = Duration::from_secs(10);

/// Whether adapters have added a server.
pub(super) fn is_ours(server: &str) -> bool {
    mark(server).is_some()
}

/// The mark of a server's unit, if adapters have added it.
pub(super) fn mark(server: &str) -> Option<&str> {
    server.strip_prefix(OURS)
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
        self.until_up(&name, stop)
    }

    /// Finds the server that a unit is already, which takes sessions.
    pub(super) fn adopt(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        let (call, stop) = (tenancy.call(), tenancy.stop());
        let address = word(call, "host.privipaddr")?;
        let none = || {
            let backend = self.backend;
            let at = format!("{address}:{}", self.port);
            DriverError::untouched(format!("backend `{backend}` has no single server at {at}"))
        };
        let line = self.at(address)?.ok_or_else(none)?;
        let name = format!("{}/{}", self.backend, line.name);
        if call.number > 0 {
            // The guest comes back to a unit that it was leaving.
            self.set(&name, "ready")?;
        } else if !line.is_up() {
            let state = state(&line);
            return Err(DriverError::untouched(format!("{state}, and cannot be taken over")));
        }
        self.until_up(&name, stop)
    }

    fn until_up(&self, name: &str, stop: &Stop) -> Result<Properties, DriverError> {
        let until = Instant::now() + self.ready;
        loop {
            let line = self.find(name)?.ok_or_else(|| gone(name))?;
            if line.is_up() {
                return named("haproxy.server", name);
            }
            if Instant::now() >= until {
                return Err(DriverError(format!("{} after {:?}", state(&line), self.ready)));
            }
            pause(stop)?;
        }
    }

    /// Has the sessions of a unit end, or ends them, and deletes its server. One that was taken over as it is is kept
    /// in maintenance, with the sessions that it has still.
    pub(super) fn leave(&self, tenancy: &Tenancy<'_>) -> Result<(), DriverError> {
        let (call, stop) = (tenancy.call(), tenancy.stop());
        let adopted = tenancy.adopted()?;
        let own = self.own((Key::of(call), call.epoch), &call.properties)?;
        let until = Instant::now() + self.drain.min(left(call));
        if let Some((name, _)) = own {
            self.set(&name, "drain")?;
            // One that haproxy has forgotten since has no sessions either.
            while let Some(line) = self.find(&name)?
                && line.sessions + line.queued > 0
                && Instant::now() < until
            {
                pause(stop)?;
            }
            if adopted == Some(Adopt::Keep) {
                return self.set(&name, "maint");
            }
            self.delete(&name, stop)?;
        }
        if adopted == Some(Adopt::Keep) {
            return Ok(());
        }
        self.act_on("node-stop", self.stop, tenancy)
    }

    /// Says whether the server of a unit takes sessions.
    pub(super) fn probe(&self, record: &Record) -> Result<Properties, DriverError> {
        let (key, properties) = ((record.key, record.epoch), &record.tenant.properties);
        let gone = || gone(&record.key.unit.to_string());
        let (name, line) = self.own(key, properties)?.ok_or_else(gone)?;
        if line.is_up() { named("haproxy.server", &name) } else { Err(DriverError(state(&line))) }
    }

    /// How commands name the server with a mark.
    fn name(&self, mark: &str) -> String {
        format!("{}/{OURS}{mark}", self.backend)
    }

    /// The server of a unit in a tenancy, and what commands call it.
    fn own(
        &self,
        (key, epoch): (Key, Epoch),
        properties: &Properties,
    ) -> Result<Option<(String, Line)>, DriverError> {
        if Adopt::of(properties)?.is_none() {
            let name = self.name(&key.mark(epoch));
            return Ok(self.find(&name)?.map(|line| (name, line)));
        }
        let address = properties.get("host.privipaddr").and_then(plain_word).unwrap_or_default();
        Ok(self.at(address)?.map(|line| (format!("{}/{}", self.backend, line.name), line)))
    }

    /// The server of somebody else's at the port of units on a host, if it is the only one.
    fn at(&self, host: &str) -> Result<Option<Line>, DriverError> {
        let lines = self.lines()?.into_iter();
        let mut lines = lines.filter(|line| !is_ours(&line.name) && line.is_at(host, self.port));
        Ok(lines.next().filter(|_| lines.next().is_none()))
    }

    fn find(&self, name: &str) -> Result<Option<Line>, DriverError> {
        let server = name.split_once('/').map(|(_, server)| server);
        Ok(self.lines()?.into_iter().find(|line| Some(line.name.as_str()) == server))
    }

    fn lines(&self) -> Result<Vec<Line>, DriverError> {
        let stat = self.socket.ask(&format!("show stat {} -1 -1", self.backend));
        let lines = stat.and_then(|text| answers::lines(&text)).map_err(DriverError)?;
        if !lines.iter().any(Line::is_backend) {
            return Err(DriverError(format!("there is no backend `{}`", self.backend)));
        }
        Ok(lines)
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
