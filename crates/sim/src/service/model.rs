//! What a scenario says of the software of a service.

use serde::Deserialize;
use tenure_core::model::time::Span;
use tenure_core::service::definition::Definition;

/// A service with a model of its software.
#[derive(Clone, Debug, PartialEq)]
pub struct Modelled {
    /// What it is to reach.
    pub definition: Definition,
    /// Its software.
    pub model: Model,
    /// How often it is measured, beside whenever something changes.
    pub every: Span,
}

/// A model of software.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A queue of rigid jobs.
    Batch(BatchModel),
    /// Something that serves a load.
    Web(WebModel),
}

/// Jobs that run on units: each needs a number of them for a time, and starts again if it loses one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchModel {
    /// The jobs, in the order in which they are submitted.
    pub jobs: Vec<ModelJob>,
    /// Which of those that wait start.
    pub order: Order,
}

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelJob {
    /// When it is submitted.
    pub at: Span,
    /// On how many units it runs.
    pub units: u32,
    /// For how long.
    pub run: Span,
}

/// Which of the jobs that wait start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The first, as soon as it fits; none before it.
    #[default]
    Fcfs,
    /// The first, and others that do not delay it (Lifka, 1995).
    Easy,
}

/// A load in units: those that would serve it without anybody waiting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebModel {
    /// From when on it is how high; what the workload of the service manager says if this is empty.
    pub load: Vec<ModelLoad>,
}

/// A load from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelLoad {
    /// From when on.
    pub at: Span,
    /// How many units would serve it.
    pub units: u32,
}
