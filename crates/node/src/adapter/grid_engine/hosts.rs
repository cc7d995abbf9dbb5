//! Units as execution hosts.

use std::time::{Duration, Instant};

use serde::Deserialize;
use tenure_core::driver::{Call, DriverError};
use tenure_core::model::property::Properties;

use super::super::command::plain_word;
use super::super::drain::{left, named, pause, word};
use super::super::joins::Tenancy;
use super::answers::{ADMINISTRATIVE, Host};
use super::control::{Control, MARK};
use super::jobs::Eviction;
use crate::driver::adoption::Adopt;
use crate::driver::programs::Command;
use crate::driver::record::{Key, Record};
use crate::driver::stop::Stop;

/// A host group, such as `@leased`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Group(String);

impl TryFrom<String> for Group {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.strip_prefix('@').and_then(plain_word) {
            Some(_) => Ok(Self(text)),
            None => Err(format!("`{text}` is no host group: its name begins with `@`")),
        }
    }
}

/// How units become hosts.
pub(super) struct Hosts<'a> {
    pub(super) control: &'a Control,
    pub(super) group: &'a Group,
    pub(super) drain: Duration,
    pub(super) ready: Duration,
    pub(super) start: Option<&'a Command>,
    pub(super) stop: Option<&'a Command>,
    pub(super) step_timeout: Duration,
}

impl Hosts<'_> {
    /// Makes a unit a host, and waits until it is ready for jobs.
    pub(super) fn join(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        let (call, stop) = (tenancy.call(), tenancy.stop());
        let mark = Key::of(call).mark(call.epoch);
        let host = match self.marked(&mark, stop)? {
            Some(host) => host,
            None => self.claim(call, &mark, stop)?,
        };
        let Group(group) = self.group;
        self.control
            .succeed(&["qconf", "-aattr", "hostgroup", "hostlist", &host.name, group], stop)?;
        if host.is('d') {
            // The guest comes back to a unit that it was leaving.
            self.control.say(&["qmod", "-e", &instances(&host.name)], stop)?;
        }
        self.act_on("node-start", self.start, (&host.name, tenancy))?;
        self.until_ready((&host.name, &mark), stop)
    }

    /// Marks the host that a unit is already, which is ready for jobs.
    pub(super) fn adopt(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        let (call, stop) = (tenancy.call(), tenancy.stop());
        let mark = Key::of(call).mark(call.epoch);
        let host = match self.marked(&mark, stop)? {
            Some(host) => host,
            None => self.take_over(call, &mark, stop)?,
        };
        if host.is('d') {
            self.control.say(&["qmod", "-e", &instances(&host.name)], stop)?;
        }
        self.until_ready((&host.name, &mark), stop)
    }

    fn until_ready(
        &self,
        (name, mark): (&str, &str),
        stop: &Stop,
    ) -> Result<Properties, DriverError> {
        let until = Instant::now() + self.ready;
        loop {
            let host = self.marked(mark, stop)?.ok_or_else(|| gone(name))?;
            if host.is_ready() {
                return named("grid-engine.host", &host.name);
            }
            if Instant::now() >= until {
                return Err(DriverError(format!("{} after {:?}", state(&host), self.ready)));
            }
            pause(stop)?;
        }
    }

    /// Has the jobs of a unit end, or be queued again, and takes it from the Grid Engine.
    pub(super) fn leave(&self, tenancy: &Tenancy<'_>) -> Result<(), DriverError> {
        let (call, stop) = (tenancy.call(), tenancy.stop());
        let mark = Key::of(call).mark(call.epoch);
        let until = Instant::now() + self.drain.min(left(call));
        let mut eviction = Eviction::from(self.control, until);
        let adopted = tenancy.adopted()?;
        // What still runs then on a host that stays goes on.
        let stays = adopted == Some(Adopt::Keep);
        loop {
            let Some(host) = self.marked(&mark, stop)? else { return Ok(()) };
            let over = host.is_free() || (stays && Instant::now() >= until);
            if !host.is_disabled() {
                self.control.say(&["qmod", "-d", &instances(&host.name)], stop)?;
            } else if over {
                return match adopted {
                    Some(adopt) => self.detach(&host, (adopt, tenancy)),
                    None => self.remove(&host, tenancy),
                };
            }
            if !stays {
                eviction.take(&host.jobs, stop)?;
            }
            pause(stop)?;
        }
    }

    /// Says whether the host of a unit is ready.
    pub(super) fn probe(&self, record: &Record, stop: &Stop) -> Result<Properties, DriverError> {
        let host = self.marked(&record.key.mark(record.epoch), stop)?;
        let host = host.ok_or_else(|| gone(&record.key.unit.to_string()))?;
        if host.is_ready() {
            return named("grid-engine.host", &host.name);
        }
        Err(DriverError(state(&host)))
    }

    /// The host with a mark.
    fn marked(&self, mark: &str, stop: &Stop) -> Result<Option<Host>, DriverError> {
        let ours = |host: &Host| host.executes() && host.unit() == Some(mark);
        Ok(self.control.hosts(&[], stop)?.into_iter().find(ours))
    }

    /// Adds the host that a unit is to be.
    fn claim(&self, call: &Call, mark: &str, stop: &Stop) -> Result<Host, DriverError> {
        let name = word(call, "host.name")?;
        let is = |one: &str| one.eq_ignore_ascii_case(name);
        if self.control.hosts(&[], stop)?.iter().any(|host| is(&host.name)) {
            return Err(DriverError::untouched(format!("there is another host {name}")));
        }
        let known = self.control.administrative(stop)?.iter().any(|host| is(host));
        if known {
            self.control.add(name, mark, stop)?;
        } else {
            self.control.succeed(&["qconf", "-ah", name], stop)?;
            self.control.add(name, &format!("{mark}{ADMINISTRATIVE}"), stop)?;
        }
        self.marked(mark, stop)?.ok_or_else(|| gone(name))
    }

    /// Marks the execution host that the host of a unit is.
    fn take_over(&self, call: &Call, mark: &str, stop: &Stop) -> Result<Host, DriverError> {
        let name = word(call, "host.name")?;
        let short = name.split('.').next().unwrap_or(name);
        let is = |host: &Host| [name, short].iter().any(|one| host.name.eq_ignore_ascii_case(one));
        let host = self.control.hosts(&[], stop)?.into_iter().find(is);
        let host = host.ok_or_else(|| DriverError::untouched(gone(name)))?;
        let refuse = |why: &str| {
            let name = &host.name;
            Err(DriverError::untouched(format!("host {name} cannot be taken over: {why}")))
        };
        if host.mark.is_some() {
            return refuse("a lease has it already");
        }
        if !host.is_ready() {
            return refuse(&format!("it is {}", host.state()));
        }
        let marked = format!("{MARK}={mark}");
        let set = ["qconf", "-aattr", "exechost", "complex_values", &marked, &host.name];
        self.control.succeed(&set, stop)?;
        self.marked(mark, stop)?.ok_or_else(|| gone(name))
    }

    /// Lets go of a host that was taken over: it stays disabled, and configured. If it is given up, its daemon ends.
    fn detach(
        &self,
        host: &Host,
        (adopt, tenancy): (Adopt, &Tenancy<'_>),
    ) -> Result<(), DriverError> {
        let (name, stop) = (host.name.as_str(), tenancy.stop());
        if adopt == Adopt::Take {
            self.control.say(&["qconf", "-ke", name], stop)?;
            self.act_on("node-stop", self.stop, (name, tenancy))?;
        }
        let marked = format!("{MARK}={}", host.mark.as_deref().unwrap_or_default());
        let clear = ["qconf", "-dattr", "exechost", "complex_values", &marked, name];
        self.control.succeed(&clear, stop).map(drop)
    }

    /// Takes a host of ours from the Grid Engine.
    fn remove(&self, host: &Host, tenancy: &Tenancy<'_>) -> Result<(), DriverError> {
        let (name, stop) = (host.name.as_str(), tenancy.stop());
        let Group(group) = self.group;
        // Its daemon may be gone already.
        self.control.say(&["qconf", "-ke", name], stop)?;
        self.act_on("node-stop", self.stop, (name, tenancy))?;
        self.control.succeed(&["qconf", "-dattr", "hostgroup", "hostlist", name, group], stop)?;
        if host.mark.as_deref().is_some_and(|mark| mark.ends_with(ADMINISTRATIVE)) {
            // Before its mark goes with it.
            self.control.say(&["qconf", "-dh", name], stop)?;
        }
        self.control.succeed(&["qconf", "-de", name], stop).map(drop)
    }

    /// Runs a program that is about a host, if there is one.
    fn act_on(
        &self,
        what: &str,
        command: Option<&Command>,
        (host, tenancy): (&str, &Tenancy<'_>),
    ) -> Result<(), DriverError> {
        let variables = [vec![("TENURE_NODE", host)], self.control.tools.variables()].concat();
        let how = (self.step_timeout, variables.as_slice());
        self.control.tools.programs.act_on((what, command), how, tenancy)
    }
}

/// How `qmod` names all queues on a host.
fn instances(host: &str) -> String {
    format!("*@{host}")
}

fn gone(host: &str) -> DriverError {
    DriverError(format!("host {host} is not there"))
}

fn state(host: &Host) -> String {
    format!("host {} is {}", host.name, host.state())
}
