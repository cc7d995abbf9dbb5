//! What `scontrol` and `squeue` of Slurm print, as far as it is used. The formats are those of Slurm 22.05.

use std::collections::BTreeSet;

use super::super::queue::elements;
use super::node_list;

/// What a mark begins with that tells nodes of ours, and reasons of ours, from others.
pub(crate) const OURS: &str = "tenure:";

/// The columns that `squeue` is asked for: identity, state, nodes, processors, times of submission and start, names of
/// nodes, partitions, elements of an array, reason, licences, features. Features come last, since they may be
/// alternatives: `big|old`.
pub(crate) const COLUMNS: &str = "%A|%T|%D|%C|%V|%S|%N|%P|%K|%r|%W|%f";

/// The columns of pending jobs that `squeue` has no short names for, of a width that everything fits.
pub(crate) const RESTARTS: &str = "JobID:20|,RestartCnt:10|";

/// Why a job waits that is not to begin yet, be it by its user's wish or since it was queued again just now.
const LATER: &str = "BeginTime";

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Where it is reached.
    pub(crate) address: String,
    /// How it is, and what flags it has.
    states: Vec<String>,
    /// Its partitions.
    pub(crate) partitions: Vec<String>,
    /// How many of its processors jobs have.
    pub(crate) allocated: u32,
    /// What jobs can ask of it.
    pub(crate) features: Vec<String>,
    /// Who has claimed it, if somebody has.
    pub(crate) comment: String,
    /// Why it is down or drained.
    pub(crate) reason: String,
}

/// The nodes that `scontrol show nodes --oneliner --future` lists.
pub(crate) fn nodes(text: &str) -> Vec<Node> {
    text.lines().filter_map(node).collect()
}

fn node(line: &str) -> Option<Node> {
    let word = |key: &str| word(line, key).unwrap_or_default().to_owned();
    let words = |key: &str, between: char| {
        let words = word(key);
        words.split(between).map(|word| word.trim_end_matches('*').to_owned()).collect()
    };
    Some(Node {
        name: line.strip_prefix("NodeName=")?.split_whitespace().next()?.to_owned(),
        address: word("NodeAddr"),
        states: words("State", '+'),
        partitions: words("Partitions", ','),
        allocated: word("CPUAlloc").parse().ok()?,
        features: words("ActiveFeatures", ','),
        comment: word("Comment"),
        reason: word("Reason"),
    })
}

/// The first word of the value of a key.
fn word<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let words = line.split_whitespace();
    words.filter_map(|word| word.split_once('=')).find(|(name, _)| *name == key).map(|(_, v)| v)
}

impl Node {
    /// Whether it is in a state, or has a flag.
    pub(crate) fn is(&self, state: &str) -> bool {
        self.states.iter().any(|one| one == state)
    }

    /// The mark of its unit, if it is one of ours and has jobs, and how much would be lost of these: the seconds that
    /// they have run until `now`, times the processors that they have of it.
    pub(crate) fn busy(&self, jobs: &[Job], now: i64) -> Option<(&str, u64)> {
        let mark = self.comment.strip_prefix(OURS).filter(|_| self.allocated > 0)?;
        let of_each = jobs.iter().map(|job| job.work_on(&self.name, now));
        Some((mark, of_each.fold(0, u64::saturating_add)))
    }

    /// Whether jobs can begin on it.
    pub(crate) fn is_ready(&self) -> bool {
        let well = ["IDLE", "MIXED", "ALLOCATED"].iter().any(|state| self.is(state));
        let held = ["DRAIN", "NOT_RESPONDING", "POWERING_DOWN", "POWERED_DOWN", "FAIL", "MAINT"];
        well && !held.iter().any(|flag| self.is(flag))
    }

    /// Whether no job has anything of it.
    pub(crate) fn is_free(&self) -> bool {
        self.allocated == 0 && !self.is("COMPLETING")
    }

    /// Whether it has jobs, and its controller has forgotten since that it is there: one of a pool, after a start
    /// of the controller without `-R`.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.is("FUTURE") && !self.is_free()
    }

    /// Whether it is kept from jobs for another reason than ours.
    pub(crate) fn is_drained_by_others(&self) -> bool {
        self.is("DRAIN") && !self.reason.starts_with(OURS)
    }

    /// How it is, in words.
    pub(crate) fn state(&self) -> String {
        let why = if self.reason.is_empty() { "" } else { " for " };
        format!("{}{why}{}", self.states.join("+"), self.reason)
    }
}

/// A job, or the elements of an array that are in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Its identity in the Slurm.
    id: String,
    pub(crate) pending: bool,
    /// Whether it has run before, and was queued again.
    restarted: bool,
    /// Of each element.
    pub(crate) nodes: u64,
    /// Of each element.
    pub(crate) cpus: u64,
    /// In seconds since 1970.
    pub(crate) submitted: i64,
    /// When it began, likewise, if it runs.
    began: Option<i64>,
    /// The names of the nodes that it has: `c[1-2]`.
    has: String,
    /// The first of its partitions.
    pub(crate) partition: String,
    /// How many there are of it.
    pub(crate) elements: u64,
    /// The licences that it asks for: `matlab:2,fluent@server:1`.
    pub(crate) licences: String,
    /// The features that it asks for, as an expression of Slurm's.
    pub(crate) features: String,
    pub(crate) reason: String,
}

/// The jobs that `squeue` lists in our [columns](COLUMNS).
///
/// # Errors
/// The first line that is not one of a job.
pub(crate) fn jobs(text: &str) -> Result<Vec<Job>, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| job(line).ok_or_else(|| format!("squeue says `{}`", line.escape_debug())))
        .collect()
}

fn job(line: &str) -> Option<Job> {
    let mut columns = line.splitn(12, '|');
    let mut next = || columns.next().map(str::trim);
    let id = next()?.to_owned();
    let state = next()?;
    let (pending, runs) = (state == "PENDING", state == "RUNNING" || state == "SUSPENDED");
    let (nodes, cpus) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let submitted = next()?.parse().ok()?;
    let began = next()?.parse().ok().filter(|_| runs);
    let has = next()?.to_owned();
    let partition = next()?.split(',').next()?.to_owned();
    let elements = if pending { count(next()?)? } else { next().map(|_| 1)? };
    let (reason, licences, features) = (next()?.to_owned(), next()?.to_owned(), next()?.to_owned());
    Some(Job {
        id,
        pending,
        restarted: false,
        nodes,
        cpus,
        submitted,
        began,
        has,
        partition,
        elements,
        licences,
        features,
        reason,
    })
}

/// The identities of the jobs that have run before, as `squeue` lists them in [these columns](RESTARTS).
///
/// # Errors
/// The first line that is not one of a job.
pub(crate) fn restarted(text: &str) -> Result<BTreeSet<String>, String> {
    let mut all = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut columns = line.split('|').map(str::trim);
        let (id, restarts) = (columns.next(), columns.next().and_then(|count| count.parse().ok()));
        let (Some(id), Some(restarts)) = (id, restarts) else {
            return Err(format!("squeue says `{}`", line.escape_debug()));
        };
        let restarts: u64 = restarts;
        all.extend((restarts > 0).then(|| id.to_owned()));
    }
    Ok(all)
}

/// How many elements a text such as `1,3,5-9:2%4` names, of which at most the number after `%` run together; one
/// of what is no array.
fn count(text: &str) -> Option<u64> {
    if text == "N/A" {
        return Some(1);
    }
    let (text, most) = match text.split_once('%') {
        Some((text, most)) => (text, most.parse().ok()?),
        None => (text, u64::MAX),
    };
    let text = text.trim_start_matches('[').trim_end_matches(']');
    Some(elements(text)?.min(most))
}

impl Job {
    /// Whether it asks for a feature, be it beside others or instead of them.
    pub(crate) fn asks_for(&self, feature: &str) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || "_-.=".contains(c);
        self.features.split(|c| !is_word(c)).any(|word| word == feature)
    }

    /// Whether it asks for a licence.
    pub(crate) fn asks_for_licence(&self, licence: &str) -> bool {
        let all = self.licences.split(',').filter_map(|one| one.split([':', '@']).next());
        all.into_iter().any(|one| one == licence)
    }

    /// How much would be lost of it with a node: the seconds that it has run until `now`, times the processors that it
    /// has of each of its nodes.
    fn work_on(&self, node: &str, now: i64) -> u64 {
        let Some(began) = self.began.filter(|_| node_list::names(&self.has, node)) else {
            return 0;
        };
        let ran = u64::try_from(now.saturating_sub(began)).unwrap_or_default();
        ran.saturating_mul(self.cpus.div_ceil(self.nodes.max(1)))
    }

    /// Whether it is not to begin yet.
    pub(crate) fn waits_for_a_time(&self) -> bool {
        self.pending && self.reason.starts_with(LATER)
    }

    /// Takes in which jobs have run before.
    pub(crate) fn note_restart(&mut self, restarted: &BTreeSet<String>) {
        self.restarted = restarted.contains(&self.id);
    }

    /// Whether it waits for nodes, and would begin if there were more of them with so many processors; not one that is
    /// held, depends on another, or is beyond a limit.
    pub(crate) fn waits_for_nodes(&self, cpus: Option<u64>) -> bool {
        // Elements of an array that wait for different things are shown together.
        let parts: Vec<&str> = self.reason.split(',').map(str::trim).collect();
        let is = |reasons: &[&str]| {
            reasons.iter().any(|of| parts.iter().any(|part| part.starts_with(of)))
        };
        let each = self.cpus.div_ceil(self.nodes.max(1));
        // The nodes that there are may be of another shape than units, or there are none yet.
        let fits = cpus.map(|cpus| each <= cpus);
        let waits = is(&["None", "Resources", "Priority"])
            // Slurm holds a job back for two minutes that it has queued again.
            || (is(&[LATER]) && self.restarted)
            || (is(&["ReqNodeNotAvail", "Nodes required for job"]) && fits != Some(false))
            || (is(&["PartitionConfig"]) && fits == Some(true));
        self.pending && waits
    }
}
