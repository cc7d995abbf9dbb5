//! What `scontrol` and `squeue` of Slurm print, as far as it is used. The formats are those of Slurm 22.05.

/// What a mark begins with that tells nodes of ours, and reasons of ours, from others.
pub(crate) const OURS: &str = "tenure:";

/// The columns that `squeue` is asked for: state, nodes, processors, time of submission, partitions, elements of
/// an array, reason. The reason comes last, since it is a text.
pub(crate) const COLUMNS: &str = "%T|%D|%C|%V|%P|%K|%r";

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
    pub(crate) pending: bool,
    /// Of each element.
    pub(crate) nodes: u64,
    /// Of each element.
    pub(crate) cpus: u64,
    /// In seconds since 1970.
    pub(crate) submitted: i64,
    /// The first of its partitions.
    pub(crate) partition: String,
    /// How many there are of it.
    pub(crate) elements: u64,
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
    let mut columns = line.splitn(7, '|');
    let mut next = || columns.next().map(str::trim);
    let pending = next()? == "PENDING";
    let (nodes, cpus) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let submitted = next()?.parse().ok()?;
    let partition = next()?.split(',').next()?.to_owned();
    let elements = if pending { elements(next()?)? } else { next().map(|_| 1)? };
    Some(Job { pending, nodes, cpus, submitted, partition, elements, reason: next()?.to_owned() })
}

/// How many elements a text such as `1,3,5-9:2%4` names, of which at most the number after `%` run together; one
/// of what is no array.
fn elements(text: &str) -> Option<u64> {
    if text == "N/A" {
        return Some(1);
    }
    let (text, most) = match text.split_once('%') {
        Some((text, most)) => (text, most.parse().ok()?),
        None => (text, u64::MAX),
    };
    let text = text.trim_start_matches('[').trim_end_matches(']');
    let counts = text.split(',').map(|part| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)?.checked_div(step.parse().ok()?)? + 1)
    });
    Some(counts.sum::<Option<u64>>()?.min(most))
}

impl Job {
    /// Whether it waits for nodes, and would begin if there were more of them; not one that is held, depends on
    /// another, or is beyond a limit.
    pub(crate) fn waits_for_nodes(&self) -> bool {
        let reasons =
            ["None", "Resources", "Priority", "ReqNodeNotAvail", "Nodes required for job"];
        self.pending && reasons.iter().any(|reason| self.reason.starts_with(reason))
    }
}
