//! Jobs of a log as a mapper submits them.

use serde::Deserialize as _;
use tenure_core::mapper::jobs::SHORTEST;
use tenure_core::model::time::Span;

use super::{LogFile, ServiceManager, Workload};
use crate::service::model::ModelJob;
use crate::workload::LoggedJob;

/// The mapper that submits jobs.
const MAPPER: &str = "jobs";

/// Its setting that lists them.
const LIST: &str = "jobs";

/// Jobs that are not submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// They need more units than there are.
    pub wide: usize,
    /// They run for less than `shortest`.
    pub short: usize,
    /// How short that is.
    pub shortest: Span,
}

impl ServiceManager {
    /// Whether jobs are what it asks for, not a demand.
    pub fn has_jobs(&self) -> bool {
        self.mapper.name == MAPPER
    }

    /// The log whose jobs it submits, if it does and they are not filled in.
    pub fn submits(&self) -> Option<&LogFile> {
        match &self.workload {
            Workload::Log(log) if self.lacks_jobs() || self.models_lack_jobs() => Some(log),
            Workload::Log(_)
            | Workload::Wave(_)
            | Workload::CoAllocation(_)
            | Workload::Requests(_) => None,
        }
    }

    /// Fills in the jobs of the log that it submits, and answers which are left out. `most` is how many units
    /// there are.
    pub fn submit(&mut self, jobs: &[LoggedJob], most: u32) -> LeftOut {
        let shortest = self.mapper.settings.get("shortest").cloned();
        let shortest = shortest.and_then(|length| Span::deserialize(length).ok());
        let shortest = shortest.unwrap_or(SHORTEST);
        let mut left_out = LeftOut { shortest, ..LeftOut::default() };
        let (mut list, mut model_jobs) = (Vec::new(), Vec::new());
        for job in jobs {
            if job.processors > most {
                left_out.wide += 1;
                continue;
            }
            if self.models_lack_jobs() {
                model_jobs.push(ModelJob { at: job.at, units: job.processors, run: job.run });
                continue;
            }
            // The mapper leaves them out.
            left_out.short += usize::from(job.run < shortest);
            list.push(setting(job));
        }
        if self.models_lack_jobs() {
            self.model_jobs(&model_jobs);
            return left_out;
        }
        self.mapper.settings.insert(LIST.to_owned(), toml::Value::Array(list));
        left_out
    }

    pub(super) fn lacks_jobs(&self) -> bool {
        self.has_jobs() && !self.mapper.settings.contains_key(LIST)
    }
}

/// A job as the settings of the mapper have it.
fn setting(job: &LoggedJob) -> toml::Value {
    let time = |span: Span| toml::Value::String(span.to_string());
    let mut settings = toml::Table::from_iter([
        ("at".to_owned(), time(job.at)),
        ("run".to_owned(), time(job.run)),
        ("units".to_owned(), i64::from(job.processors).into()),
    ]);
    if let Some(user) = job.user {
        let properties = toml::Table::from_iter([("user".to_owned(), user.to_string().into())]);
        settings.insert("properties".to_owned(), properties.into());
    }
    settings.into()
}
