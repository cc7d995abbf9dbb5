//! What a log holds, and what of it could not be used: nothing is lost silently.

use std::fmt;

use serde::{Serialize, Serializer};
use tenure_core::model::time::Span;

use super::kind::Kind;

/// How many damaged lines are kept as examples.
const EXAMPLES: usize = 5;

/// What a log holds. Every line that is not blank is in exactly one of `comments`, `entries`,
/// `skipped` and `damaged`. Serialised, the machine is part of the same object and times are seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How the log was read.
    pub kind: Kind,
    /// Lines that are not blank.
    pub lines: u64,
    /// Lines of comment, and the header row of a CSV log.
    pub comments: u64,
    /// Jobs or samples that count in the signal.
    pub entries: u64,
    /// Sound jobs that cannot count in the signal, by reason.
    pub skipped: Skipped,
    /// Lines that cannot be read.
    pub damaged: Damaged,
    /// Samples that stood after a later one; they are sorted in.
    pub unordered: u64,
    /// The start of the earliest job, or the first sample (always zero), in the log's own seconds.
    #[serde(rename = "first_second", serialize_with = "in_seconds")]
    pub first: Span,
    /// The end of the latest job, or the last sample, in the log's own seconds.
    #[serde(rename = "last_second", serialize_with = "in_seconds")]
    pub last: Span,
    /// Second zero of the log in seconds since the Unix epoch, if the log states it. A CSV time without
    /// a zone is taken as UTC.
    pub unix_start: Option<i64>,
    /// The machine of a log in Standard Workload Format.
    #[serde(flatten)]
    pub machine: Machine,
    /// The columns of a CSV log, by their names if it has a header row, else by their numbers.
    pub columns: Vec<String>,
    /// The column of a CSV log that holds the value.
    pub column: Option<String>,
}

/// The machine of a log, as far as its header states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// What kind of computer it was (`Computer`).
    pub computer: Option<String>,
    /// Its processors (`MaxProcs`).
    pub max_procs: Option<u64>,
    /// Its nodes (`MaxNodes`).
    pub max_nodes: Option<u64>,
}

/// Sound jobs that cannot count in the signal, by the first reason that applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Jobs without a submit time.
    pub no_submit: u64,
    /// Jobs that did not run.
    pub no_run_time: u64,
    /// Jobs without a number of processors, allocated or requested.
    pub no_processors: u64,
}

/// Lines that cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Damaged {
    /// How many there are.
    pub count: u64,
    /// The first few of them.
    pub examples: Vec<Damage>,
}

/// One line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The line, counted from 1.
    pub line: u64,
    /// The column or field, counted from 1, if one is to blame.
    pub column: Option<u64>,
    /// What is wrong with it.
    pub cause: String,
}

impl Summary {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            lines: 0,
            comments: 0,
            entries: 0,
            skipped: Skipped::default(),
            damaged: Damaged::default(),
            unordered: 0,
            first: Span::ZERO,
            last: Span::ZERO,
            unix_start: None,
            machine: Machine::default(),
            columns: Vec::new(),
            column: None,
        }
    }

    /// The lines that are no entries, in a few words, with the first damaged one if there is one.
    pub fn unusable(&self) -> String {
        let Self { lines, comments, skipped, damaged, .. } = self;
        let (skipped, count) = (skipped.total(), damaged.count);
        let example = damaged.examples.first().map(|first| format!(" ({first})"));
        format!(
            "lines {lines}, comments {comments}, skipped {skipped}, damaged {count}{}",
            example.unwrap_or_default()
        )
    }
}

impl Skipped {
    /// All of them.
    pub const fn total(self) -> u64 {
        self.no_submit + self.no_run_time + self.no_processors
    }
}

impl Damaged {
    /// Counts `lines` more; the damage is only worked out while examples are wanted.
    pub(super) fn add(&mut self, lines: u64, damage: impl FnOnce() -> Damage) {
        self.count += lines;
        if self.examples.len() < EXAMPLES {
            self.examples.push(damage());
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.cause)
    }
}

fn in_seconds<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_secs_f64())
}
