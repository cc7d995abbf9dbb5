//! What `qhost`, `qstat` and `qconf` of Grid Engine print, as far as it is used. The formats are those of 8.1.9.

use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDateTime;
use roxmltree::{Document, Node};

use super::super::queue::elements;

/// What follows the mark of a host that we have made an administrative one too.
pub(super) const ADMINISTRATIVE: &str = ":admin";

/// An execution host, or `global`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: String,
    /// Whether its daemon has reported.
    pub(crate) reports: bool,
    /// The tenancy that it is marked with.
    pub(crate) mark: Option<String>,
    /// What is left of consumables.
    pub(crate) left: BTreeMap<String, i64>,
    /// What jobs can request of it, of what was asked for.
    pub(crate) offers: BTreeSet<String>,
    pub(crate) queues: Vec<Instance>,
    /// The jobs that it has, with their tasks: `7`, `8.2`.
    pub(crate) jobs: Vec<String>,
    /// When each of them began, in seconds since 1970, once for each of their slots here.
    pub(crate) began: Vec<i64>,
}

/// A queue on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) queue: String,
    pub(crate) used: u64,
    /// A letter for each: `d` disabled, `u` unknown.
    pub(crate) states: String,
}

/// A job, or the tasks of one that are in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) state: String,
    /// In seconds since 1970, when it was submitted, or if it runs, when it began.
    pub(crate) since: i64,
    /// Of each task.
    pub(crate) slots: u64,
    /// How many there are of it.
    pub(crate) elements: u64,
    /// The task, if it is one that runs.
    pub(crate) task: Option<String>,
    /// What it has requested of each resource.
    pub(crate) requests: BTreeMap<String, String>,
    /// The queues that it must have one of; any if there are none.
    pub(crate) queues: Vec<String>,
}

/// The hosts that `qhost -q -j -F -xml` lists.
///
/// # Errors
/// What it lists that no host has.
pub(crate) fn hosts(text: &str) -> Result<Vec<Host>, String> {
    let document = read("qhost", text)?;
    let hosts = document.root_element().children().filter(|node| node.has_tag_name("host"));
    hosts.map(|node| host(node).ok_or_else(|| wrong("qhost", node))).collect()
}

fn host(node: Node<'_, '_>) -> Option<Host> {
    let mut host = Host { name: node.attribute("name")?.to_owned(), ..Host::default() };
    for part in node.children().filter(Node::is_element) {
        let (name, text) = (part.attribute("name")?, part.text().unwrap_or_default());
        match part.tag_name().name() {
            // Also other load is known of a host that has gone.
            "hostvalue" if name == "load_avg" => host.reports = text != "-",
            // The global host has other marks.
            "resourcevalue" if name == "tenure" && part.attribute("dominance")? == "hf" => {
                host.mark = Some(text.to_owned());
            }
            "resourcevalue" if name != "tenure" => {
                let left = text.parse::<f64>().ok();
                host.left.extend(left.map(|left| (name.to_owned(), left.floor() as i64)));
                // A consumable that is used up is offered still; one of the global host is not the host's.
                let dominance = part.attribute("dominance")?;
                let fixed_at_none = dominance == "hf" && left == Some(0.0);
                if dominance.starts_with('h') && !fixed_at_none {
                    host.offers.insert(name.to_owned());
                }
            }
            "queue" => host.queues.push(Instance {
                queue: name.to_owned(),
                used: value(part, "slots_used")?.parse().ok()?,
                states: value(part, "state_string")?.to_owned(),
            }),
            "job" => {
                host.jobs.push(match value(part, "taskid") {
                    Some(task) => format!("{name}.{task}"),
                    None => name.to_owned(),
                });
                host.began.extend(value(part, "start_time").and_then(|at| at.parse::<i64>().ok()));
            }
            _ => {}
        }
    }
    Some(host)
}

/// The text of a value of a queue or a job.
fn value<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let value = node.children().find(|child| child.attribute("name") == Some(name))?;
    Some(value.text().unwrap_or_default())
}

/// The jobs that `qstat -xml` lists.
///
/// # Errors
/// What it lists that no job has.
pub(crate) fn jobs(text: &str) -> Result<Vec<Job>, String> {
    let document = read("qstat", text)?;
    let jobs = document.descendants().filter(|node| node.has_tag_name("job_list"));
    jobs.map(|node| job(node).ok_or_else(|| wrong("qstat", node))).collect()
}

fn job(node: Node<'_, '_>) -> Option<Job> {
    let all = |tag: &'static str| node.children().filter(move |child| child.has_tag_name(tag));
    let text = |tag: &'static str| all(tag).next().map(|child| child.text().unwrap_or_default());
    let runs = node.attribute("state") == Some("running");
    let since = text(if runs { "JAT_start_time" } else { "JB_submission_time" })?;
    let since = NaiveDateTime::parse_from_str(since, "%Y-%m-%dT%H:%M:%S").ok()?;
    let tasks = text("tasks");
    let request =
        |node: Node<'_, '_>| Some((node.attribute("name")?.to_owned(), node.text()?.to_owned()));
    Some(Job {
        id: text("JB_job_number")?.to_owned(),
        state: text("state")?.to_owned(),
        since: since.and_utc().timestamp(),
        slots: text("slots")?.parse().ok()?,
        elements: tasks.map_or(Some(1), elements)?,
        task: tasks.filter(|_| runs).map(str::to_owned),
        requests: all("hard_request").filter_map(request).collect(),
        queues: all("hard_req_queue").filter_map(|node| Some(node.text()?.to_owned())).collect(),
    })
}

/// The `complex_values` that `qconf -se` shows of a host, in one line.
pub(crate) fn complex_values(text: &str) -> BTreeMap<String, String> {
    let line = text.lines().find_map(|line| line.strip_prefix("complex_values"));
    let values = line.unwrap_or_default().trim().split(',');
    let values = values.filter_map(|value| value.trim().split_once('='));
    values.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn read<'a>(what: &str, text: &'a str) -> Result<Document<'a>, String> {
    Document::parse(text).map_err(|error| format!("{what} -xml: {error}"))
}

fn wrong(what: &str, node: Node<'_, '_>) -> String {
    let at = node.document().text_pos_at(node.range().start);
    format!("{what} -xml: what begins at {at} is no {}", node.tag_name().name())
}

impl Host {
    /// The mark of its unit, if it is one of ours.
    pub(crate) fn unit(&self) -> Option<&str> {
        let mark = self.mark.as_deref()?;
        Some(mark.strip_suffix(ADMINISTRATIVE).unwrap_or(mark))
    }

    /// The same, if it has jobs, and how much would be lost of these: the seconds that they have run until `now`, for
    /// each of their slots.
    pub(crate) fn busy(&self, now: i64) -> Option<(&str, u64)> {
        let mark = self.unit().filter(|_| !self.jobs.is_empty())?;
        let ran = |began: &i64| u64::try_from(now.saturating_sub(*began)).unwrap_or_default();
        Some((mark, self.began.iter().map(ran).fold(0, u64::saturating_add)))
    }

    /// Whether it is an execution host.
    pub(crate) fn executes(&self) -> bool {
        self.name != "global"
    }

    /// Whether it has a state in one of its queues, of which this is the letter.
    pub(crate) fn is(&self, state: char) -> bool {
        self.queues.iter().any(|queue| queue.states.contains(state))
    }

    /// Whether jobs can begin on it.
    pub(crate) fn is_ready(&self) -> bool {
        let well = |queue: &Instance| !queue.states.contains(['u', 'd', 'D', 'E', 'c', 'o']);
        self.reports && self.queues.iter().any(well)
    }

    /// Whether no job begins on it.
    pub(crate) fn is_disabled(&self) -> bool {
        self.queues.iter().all(|queue| queue.states.contains('d'))
    }

    /// Whether no job has anything of it.
    pub(crate) fn is_free(&self) -> bool {
        self.jobs.is_empty() && self.queues.iter().all(|queue| queue.used == 0)
    }

    /// How it is, in words.
    pub(crate) fn state(&self) -> String {
        let state = |queue: &Instance| format!("{} `{}`", queue.queue, queue.states);
        let queues: Vec<String> = self.queues.iter().map(state).collect();
        let what = if queues.is_empty() { "in no queue".to_owned() } else { queues.join(", ") };
        format!("{what}{}", if self.reports { "" } else { ", without load" })
    }
}

impl Job {
    /// Whether it waits for units: not one that is held, or has failed.
    pub(crate) fn waits(&self) -> bool {
        self.state == "qw" || self.state == "Rq"
    }

    /// How commands name what of it runs.
    pub(crate) fn running(&self) -> String {
        match &self.task {
            Some(task) => format!("{}.{task}", self.id),
            None => self.id.clone(),
        }
    }

    /// How much of a licence it has, or wants, with all its tasks.
    pub(crate) fn licences(&self, licence: &str) -> u64 {
        let amount = self.requests.get(licence).and_then(|text| text.parse::<f64>().ok());
        let each = amount.map_or(0, |amount| amount.max(0.0).ceil() as u64);
        each.saturating_mul(self.slots).saturating_mul(self.elements)
    }
}
