//! Units as nodes of a Slurm.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tenure_core::driver::{Call, DriverError, Epoch};
use tenure_core::model::property::Properties;

use super::super::drain::{left, named, pause, word};
use super::super::joins::Tenancy;
use super::answers::{Node, OURS};
use super::control::Control;
use super::words::{NodeName, NodeWords};
use crate::driver::adoption::Adopt;
use crate::driver::fence::hold;
use crate::driver::programs::Command;
use crate::driver::record::{Key, Record};
use crate::driver::stop::Stop;

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

/// How the node is found that a unit is in a tenancy.
struct Mark {
    /// Its comment.
    comment: String,
    /// What becomes of it, if it was a node before.
    adopted: Option<Adopt>,
}

impl Mark {
    fn of(tenancy: &Tenancy<'_>) -> Result<Self, DriverError> {
        let call = tenancy.call();
        Self::new((Key::of(call), call.epoch), &call.properties)
    }

    fn new((key, epoch): (Key, Epoch), properties: &Properties) -> Result<Self, DriverError> {
        let comment = format!("{OURS}{}", key.mark(epoch));
        Ok(Self { comment, adopted: Adopt::of(properties)? })
    }
}

impl Nodes<'_> {
    /// Makes a unit a node, and waits until it is ready for jobs.
    pub(super) fn join(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        let (mark, stop) = (Mark::of(tenancy)?, tenancy.stop());
        let node = self.own(&mark, stop, || self.claim(tenancy.call(), &mark, stop))?;
        self.run("node-start", self.start, (&node.name, tenancy))?;
        self.until_ready((&node.name, &mark), stop)
    }

    /// Marks the node that a unit is already, which is ready for jobs.
    pub(super) fn adopt(&self, tenancy: &Tenancy<'_>) -> Result<Properties, DriverError> {
        let (mark, stop) = (Mark::of(tenancy)?, tenancy.stop());
        let node = self.own(&mark, stop, || self.take_over(tenancy.call(), &mark, stop))?;
        self.until_ready((&node.name, &mark), stop)
    }

    /// The node with a mark, or else one that gets it.
    fn own(
        &self,
        mark: &Mark,
        stop: &Stop,
        get: impl FnOnce() -> Result<Node, DriverError>,
    ) -> Result<Node, DriverError> {
        let alone = hold(&CLAIMING);
        let node = self.marked(mark, stop)?.map_or_else(get, Ok)?;
        drop(alone);
        if node.is("DRAIN") && !node.is_drained_by_others() {
            // The guest comes back to a unit that it was leaving.
            self.control.update(&node.name, &["State=RESUME"], stop)?;
        }
        Ok(node)
    }

    fn until_ready(
        &self,
        (name, mark): (&str, &Mark),
        stop: &Stop,
    ) -> Result<Properties, DriverError> {
        let until = Instant::now() + self.ready;
        loop {
            let node = self.marked(mark, stop)?.ok_or_else(|| gone(name))?;
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
        let mark = Mark::of(tenancy)?;
        let reason = format!("Reason={OURS}{}:{}", call.lease, call.epoch.0);
        let until = Instant::now() + self.drain.min(left(call));
        loop {
            let Some(node) = self.marked(&mark, stop)? else { return Ok(()) };
            let kept = ["FUTURE", "DRAIN", "DOWN"].iter().any(|state| node.is(state));
            let idle = kept && node.is_free();
            let late = Instant::now() >= until;
            if idle || late {
                return match mark.adopted {
                    // It stays drained, and what still runs on it goes on.
                    Some(Adopt::Keep) => self.unmark(&node.name, stop),
                    Some(Adopt::Take) if !self.can_be_ours(&node) => {
                        self.give_up_static(&node, (tenancy, &reason))
                    }
                    Some(Adopt::Take) | None => self.remove(&node, (tenancy, &reason)),
                };
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
        let mark = Mark::new((record.key, record.epoch), &record.tenant.properties)?;
        let node = self.marked(&mark, stop)?;
        let node = node.ok_or_else(|| gone(&record.key.unit.to_string()))?;
        if node.is_ready() {
            return properties(&node);
        }
        Err(DriverError(format!("node {} is {}", node.name, node.state())))
    }

    /// The node with a mark. Whatever a comment says, only nodes that can be ours are touched, and those that were
    /// taken over.
    fn marked(&self, mark: &Mark, stop: &Stop) -> Result<Option<Node>, DriverError> {
        let ours = |node: &Node| {
            node.comment == mark.comment && (mark.adopted.is_some() || self.can_be_ours(node))
        };
        Ok(self.control.nodes(stop)?.into_iter().find(ours))
    }

    fn can_be_ours(&self, node: &Node) -> bool {
        match self.kind {
            Kind::Pool(pool) => pool.iter().any(|name| name.0 == node.name),
            Kind::Created(_) => node.is("DYNAMIC_NORM"),
        }
    }

    /// Marks the node that the host of a unit is.
    fn take_over(&self, call: &Call, mark: &Mark, stop: &Stop) -> Result<Node, DriverError> {
        let host = short_host(call)?;
        let is = |node: &Node| node.name.eq_ignore_ascii_case(host);
        let node = self.control.nodes(stop)?.into_iter().find(is);
        let node = node.ok_or_else(|| DriverError::untouched(gone(host)))?;
        let refuse = |why: String| {
            Err(DriverError::untouched(format!("node {} cannot be taken over: {why}", node.name)))
        };
        if !node.comment.is_empty() {
            return refuse(format!("it has the comment `{}`", node.comment.escape_debug()));
        }
        if !node.is_ready() {
            return refuse(format!("it is {}", node.state()));
        }
        self.mark(&node.name, mark, stop)
    }

    fn mark(&self, name: &str, mark: &Mark, stop: &Stop) -> Result<Node, DriverError> {
        self.control.update(name, &[&format!("Comment={}", mark.comment)], stop)?;
        self.marked(mark, stop)?.ok_or_else(|| gone(name))
    }

    fn unmark(&self, name: &str, stop: &Stop) -> Result<(), DriverError> {
        self.control.update(name, &["Comment="], stop)
    }

    /// Ends the daemon of a node that was taken over, and that is configured, so that it cannot be deleted. It stays
    /// drained.
    fn give_up_static(
        &self,
        node: &Node,
        (tenancy, reason): (&Tenancy<'_>, &str),
    ) -> Result<(), DriverError> {
        let (name, stop) = (node.name.as_str(), tenancy.stop());
        if !node.is_free() {
            self.control.update(name, &["State=DOWN", reason], stop)?;
        }
        self.run("node-stop", self.stop, (name, tenancy))?;
        self.unmark(name, stop)
    }

    /// Chooses or creates a node, and marks it.
    fn claim(&self, call: &Call, mark: &Mark, stop: &Stop) -> Result<Node, DriverError> {
        let name = match self.kind {
            Kind::Pool(pool) => self.free_of(pool, stop)?,
            Kind::Created(words) => self.create(call, words, stop)?,
        };
        self.mark(&name, mark, stop)
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
        let host = short_host(call)?;
        let address = word(call, "host.privipaddr").unwrap_or(host);
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
                self.unmark(name, stop)?;
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
        let variables: &[_] = &[("TENURE_NODE", node), ("SLURM_CONF", self.control.conf.as_str())];
        let how = (self.step_timeout, variables);
        self.control.tools.programs.act_on((what, command), how, tenancy)
    }
}

/// The first part of the name of a unit's host, which is what nodes are called.
fn short_host(call: &Call) -> Result<&str, DriverError> {
    let host = word(call, "host.name")?;
    Ok(host.split('.').next().unwrap_or(host))
}

fn gone(node: &str) -> DriverError {
    DriverError(format!("node {node} is not there"))
}

fn properties(node: &Node) -> Result<Properties, DriverError> {
    named("slurm.node", &node.name)
}
