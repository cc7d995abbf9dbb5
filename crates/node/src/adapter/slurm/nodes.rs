//! Units as nodes of a Slurm.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use tenure_core::driver::{Call, DriverError, Epoch};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;

use super::super::command::{Program, plain_word};
use super::super::joins::Tenancy;
use super::answers::{Node, OURS};
use super::control::Control;
use super::words::{NodeName, NodeWords};
use crate::driver::fence::hold;
use crate::driver::programs::Command;
use crate::driver::record::{Key, Record};
use crate::driver::stop::Stop;

/// The pause between two looks at a node that is waited for.
const PAUSE: Duration = Duration::from_millis(500);

/// How long before its unit is of no use any more a node is taken from its jobs.
const TO_FORCE: Duration = Duration::from_secs(15);

/// Held while a node is chosen and marked, so that no two units get one.
static CLAIMING: Mutex<()> = Mutex::new(());

/// Where nodes come from.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    /// From a pool.
    Pool(&'a [NodeName]),
    /// They are created and deleted.
    Created(&'a NodeWords),
}

/// How units become nodes.
pub(super) struct Nodes<'a> {
    pub(super) control: &'a Control,
    pub(super) kind: Kind<'a>,
    pub(super) drain: Duration,
    pub(super) ready: Duration,
    pub(super) start: Option<&'a Command>,
    pub(super) stop: Option<&'a Command>,
    pub(super) step_timeout: Duration,
}

/// The comment of the node that a unit is in a tenancy.
fn mark(key: Key, epoch: Epoch) -> String {
    format!("{OURS}{}:{}", key.file_name(), epoch.0)
}

impl Nodes<'_> {
    /// Makes a unit a node, and waits until it is ready for jobs.
    pub(super) fn join(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        let (call, stop) = (tenancy.call(), tenancy.stop());
        let mark = mark(Key::of(call), call.epoch);
        let node = {
            let _alone = hold(&CLAIMING);
            match self.marked(&mark, stop)? {
                Some(node) => node,
                None => self.claim(call, &mark, stop)?,
            }
        };
        if node.is("DRAIN") && !node.is_drained_by_others() {
            // The guest comes back to a unit that it was leaving.
            self.control.update(&node.name, &["State=RESUME"], stop)?;
        }
        self.run("node-start", self.start, (&node.name, tenancy))?;
        let until = Instant::now() + self.ready;
        loop {
            let node = self.marked(&mark, stop)?.ok_or_else(|| gone(&node.name))?;
            if node.is_ready() {
                return properties(&node);
            }
            let state = format!("node {} is {}", node.name, node.state());
            if node.is_drained_by_others() {
                return Err(DriverError(state));
            }
            if Instant::now() >= until {
                return Err(DriverError(format!("{state} after {:?}", self.ready)));
            }
            pause(stop)?;
        }
    }

    /// Has the jobs of a unit end, or be queued again, and takes it from the Slurm.
    pub(super) fn leave(&self, tenancy: &Tenancy<'_>) -> Result<(), DriverError> {
        let (call, stop) = (tenancy.call(), tenancy.stop());
        let mark = mark(Key::of(call), call.epoch);
        let reason = format!("Reason={OURS}{}:{}", call.lease, call.epoch.0);
        let until = Instant::now() + self.drain.min(left(call));
        loop {
            let Some(node) = self.marked(&mark, stop)? else { return Ok(()) };
            let kept = ["FUTURE", "DRAIN", "DOWN"].iter().any(|state| node.is(state));
            let idle = kept && node.is_free();
            let late = Instant::now() >= until;
            if idle || late {
                return self.remove(&node, (tenancy, &reason));
            }
            // Also again: a controller that was started anew may have forgotten it.
            if !node.is("DRAIN") {
                self.control.update(&node.name, &["State=DRAIN", &reason], stop)?;
            }
            pause(stop)?;
        }
    }

    /// Says whether the node of a unit is ready.
    pub(super) fn probe(&self, record: &Record, stop: &Stop) -> Result<Properties, DriverError> {
        let node = self.marked(&mark(record.key, record.epoch), stop)?;
        let node = node.ok_or_else(|| gone(&record.key.unit.to_string()))?;
        if node.is_ready() {
            return properties(&node);
        }
        Err(DriverError(format!("node {} is {}", node.name, node.state())))
    }

    /// The node with a mark.
    fn marked(&self, mark: &str, stop: &Stop) -> Result<Option<Node>, DriverError> {
        // Whatever a comment says, only nodes that can be ours are touched.
        let can_be = |node: &Node| match self.kind {
            Kind::Pool(pool) => pool.iter().any(|name| name.0 == node.name),
            Kind::Created(_) => node.is("DYNAMIC_NORM"),
        };
        let ours = |node: &Node| node.comment == mark && can_be(node);
        Ok(self.control.nodes(stop)?.into_iter().find(ours))
    }

    /// Chooses or creates a node, and marks it.
    fn claim(&self, call: &Call, mark: &str, stop: &Stop) -> Result<Node, DriverError> {
        let name = match self.kind {
            Kind::Pool(pool) => self.free_of(pool, stop)?,
            Kind::Created(words) => self.create(call, words, stop)?,
        };
        self.control.update(&name, &[&format!("Comment={mark}")], stop)?;
        self.marked(mark, stop)?.ok_or_else(|| gone(&name))
    }

    fn free_of(&self, pool: &[NodeName], stop: &Stop) -> Result<String, DriverError> {
        let nodes = self.control.nodes(stop)?;
        let free = |name: &&NodeName| {
            let node = nodes.iter().find(|node| node.name == name.0);
            node.is_some_and(|node| node.is("FUTURE") && node.comment.is_empty())
        };
        let none = || DriverError::untouched("no node of the pool is free");
        pool.iter().find(free).map(|name| name.0.clone()).ok_or_else(none)
    }

    /// Creates the node that a unit is to be, unless it is there.
    fn create(&self, call: &Call, words: &NodeWords, stop: &Stop) -> Result<String, DriverError> {
        let lacks = |key: &str| DriverError::untouched(format!("the unit has no usable `{key}`"));
        let host = call.properties.get("host.name").and_then(plain_word);
        let host =
            host.and_then(|host| host.split('.').next()).ok_or_else(|| lacks("host.name"))?;
        let address = call.properties.get("host.privipaddr").and_then(plain_word);
        let address = address.unwrap_or(host);
        let line = [
            format!("NodeName={host}"),
            format!("NodeAddr={address}"),
            format!("NodeHostname={host}"),
            "State=FUTURE".to_owned(),
        ];
        let words = line.iter().chain(&words.0).map(String::as_str);
        let command: Vec<&str> = ["scontrol", "create"].into_iter().chain(words).collect();
        let known = |nodes: Vec<Node>| nodes.into_iter().find(|node| node.name == host);
        if known(self.control.nodes(stop)?).is_none() {
            self.control.succeed(&command, stop)?;
        }
        // Read back: to create a name that is there already succeeds, and changes nothing.
        let node = known(self.control.nodes(stop)?).ok_or_else(|| gone(host))?;
        let ours = node.is("DYNAMIC_NORM") && node.address == address && node.comment.is_empty();
        if ours {
            Ok(node.name)
        } else {
            Err(DriverError::untouched(format!("there is another node {host}")))
        }
    }

    /// Takes a node of ours from the Slurm. What still runs on it is queued again.
    fn remove(
        &self,
        node: &Node,
        (tenancy, reason): (&Tenancy<'_>, &str),
    ) -> Result<(), DriverError> {
        let (name, stop) = (node.name.as_str(), tenancy.stop());
        if !node.is_free() {
            self.control.update(name, &["State=DOWN", reason], stop)?;
        }
        self.run("node-stop", self.stop, (name, tenancy))?;
        match self.kind {
            Kind::Created(_) if node.is("DYNAMIC_NORM") => {
                self.control.succeed(&["scontrol", "delete", &format!("NodeName={name}")], stop)?;
            }
            Kind::Pool(_) | Kind::Created(_) => {
                if !node.is("FUTURE") || node.is("DRAIN") {
                    // From any state, and without its drain.
                    self.control.update(name, &["State=DOWN", reason], stop)?;
                    self.control.update(name, &["State=FUTURE"], stop)?;
                }
                self.control.update(name, &["Comment="], stop)?;
            }
        }
        match self.control.nodes(stop)?.into_iter().find(|node| node.name == name) {
            Some(node) if !node.is("FUTURE") => {
                Err(DriverError(format!("node {name} is still {}", node.state())))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Runs a program that is about a node, if there is one.
    fn run(
        &self,
        what: &str,
        command: Option<&Command>,
        (node, tenancy): (&str, &Tenancy<'_>),
    ) -> Result<(), DriverError> {
        let Some(Command(command)) = command else { return Ok(()) };
        let variables: &[_] = &[("TENURE_NODE", node), ("SLURM_CONF", self.control.conf.as_str())];
        let program = Program { what, command, timeout: self.step_timeout, variables };
        self.control.programs.for_unit(program, tenancy).map(drop)
    }
}

fn gone(node: &str) -> DriverError {
    DriverError(format!("node {node} is not there"))
}

fn properties(node: &Node) -> Result<Properties, DriverError> {
    let name = (Name::literal("slurm.node"), node.name.clone());
    Properties::try_from(std::collections::BTreeMap::from([name]))
        .map_err(|error| DriverError(error.to_string()))
}

/// Waits a little, unless nobody waits for it any more.
fn pause(stop: &Stop) -> Result<(), DriverError> {
    if stop.is_asked_within(PAUSE) {
        return Err(DriverError(
            "was ended: a later step of the unit came, or it took too long".to_owned(),
        ));
    }
    Ok(())
}

/// How long jobs have until the unit goes, by the clock of this machine.
fn left(call: &Call) -> Duration {
    let Some(deadline) = call.deadline else { return Duration::MAX };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let deadline = Duration::from_micros(u64::try_from(deadline.as_micros()).unwrap_or(0));
    deadline.saturating_sub(now).saturating_sub(TO_FORCE)
}
