//! Services with models of their software.

use std::collections::BTreeMap;

use tenure_config::ConfigError;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service::definition::Definition;
use toml::Spanned;

use super::resolve::Check;
use super::{LogFile, ServiceManager, Workload, file};
use crate::service::model::{BatchModel, Model, ModelJob, Modelled, WebModel};
use crate::workload::Kind;

/// How often a service is measured, beside whenever something changes.
const EVERY: Span = Span::MINUTE;

impl ServiceManager {
    /// Whether the model of one of its services takes its jobs from the log.
    pub(super) fn models_lack_jobs(&self) -> bool {
        self.services.values().any(|service| service.model.lacks_jobs())
    }

    /// Whether its workload is a demand that somebody follows: its mapper, or the model of a service.
    pub(super) fn models_follow_demand(&self) -> bool {
        let lacks =
            |service: &Modelled| matches!(&service.model, Model::Web(web) if web.load.is_empty());
        self.services.is_empty() || self.services.values().any(lacks)
    }

    /// Fills in the jobs of the log.
    pub(super) fn model_jobs(&mut self, jobs: &[ModelJob]) {
        for service in self.services.values_mut().filter(|service| service.model.lacks_jobs()) {
            if let Model::Batch(batch) = &mut service.model {
                batch.jobs = jobs.to_vec();
            }
        }
    }
}

impl Model {
    fn lacks_jobs(&self) -> bool {
        matches!(self, Self::Batch(batch) if batch.jobs.is_empty())
    }

    /// Whether it takes what happens from the workload of its service manager.
    fn takes_workload(&self) -> bool {
        match self {
            Self::Batch(batch) => batch.jobs.is_empty(),
            Self::Web(web) => web.load.is_empty(),
        }
    }
}

impl Check<'_> {
    /// Services that can be followed, one of which at most has the workload of its service manager.
    pub(super) fn services(
        &self,
        services: BTreeMap<Spanned<Name>, file::Service>,
    ) -> Result<BTreeMap<Name, Modelled>, ConfigError> {
        let mut resolved: BTreeMap<Name, Modelled> = BTreeMap::new();
        for (name, file::Service { slo, behaviour, sla, model }) in services {
            let definition = Definition { slo, behaviour, sla, ..Definition::default() };
            if let Err(bad) = definition.check() {
                let help = "docs/SERVICES.md has all keys of a service";
                return self.refuse(name.span(), bad.to_string(), help);
            }
            let place = model.span();
            let (model, every) = match model.into_inner() {
                file::RawModel::Batch { jobs, order, every } => {
                    (Model::Batch(BatchModel { jobs, order }), every)
                }
                file::RawModel::Web { load, every } => (Model::Web(WebModel { load }), every),
            };
            let every = every.unwrap_or(EVERY);
            if !every.is_positive() {
                let message = format!("`every` must not be {every}");
                return self.refuse(place, message, "write a length of time, such as \"1m\"");
            }
            let others = resolved.values().any(|other| other.model.takes_workload());
            if model.takes_workload() && others {
                let message = "two services cannot have the same workload".to_owned();
                let help = "list the `jobs` or the `load` of one of them, or give it a service manager of its own";
                return self.refuse(place, message, help);
            }
            resolved.insert(name.into_inner(), Modelled { definition, model, every });
        }
        Ok(resolved)
    }

    /// Jobs of a model come from a log, and count from when they were submitted.
    pub(super) fn modelled(
        &self,
        name: &Spanned<Name>,
        manager: ServiceManager,
    ) -> Result<ServiceManager, ConfigError> {
        if !manager.models_lack_jobs() {
            return Ok(manager);
        }
        let workload = match manager.workload {
            Workload::Log(log) if matches!(log.kind, Kind::SwfInUse | Kind::SwfOffered) => {
                Workload::Log(LogFile { kind: Kind::SwfOffered, ..log })
            }
            Workload::Log(_)
            | Workload::Wave(_)
            | Workload::CoAllocation(_)
            | Workload::Requests(_) => {
                let message = format!("the batch service of `{name}` has no jobs");
                let help = "give a log in Standard Workload Format as its `workload.file`, or list its `model.jobs`";
                return self.refuse(name.span(), message, help);
            }
        };
        Ok(ServiceManager { workload, ..manager })
    }
}
