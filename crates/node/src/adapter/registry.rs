//! The adapters that come with Tenure, by name; as the registry of drivers.

use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tenure_core::model::name::Name;
use tenure_core::service::adapter::Adapter as Spec;
use tenure_core::service::definition::{DRAIN, Definition};
use tenure_core::service::label_map::LabelMap;
use thiserror::Error;

use super::{Adapter, exec, grid_engine, haproxy, pool, slurm};

/// Where an adapter works, and for which service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The folder of all adapters of the service manager.
    pub(super) home: &'a Path,
    /// The service.
    pub(super) service: &'a str,
}

/// Why a service cannot have its adapter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadAdapter {
    /// There is none of that name.
    #[error("there is no adapter `{name}`")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// Its settings are not what it takes.
    #[error("adapter `{name}`: {cause}")]
    Settings {
        /// The adapter.
        name: &'static str,
        /// What is wrong.
        cause: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// It does not have units drain.
    #[error("adapter `{name}` has no units drain, so `drain` of `behaviour` says nothing")]
    Drain {
        /// The adapter.
        name: &'static str,
    },
    /// An SLO looks at something else than what it measures.
    #[error("`{slo}` looks at the KPI `{kpi}`, which its adapter does not measure")]
    Kpi {
        /// The SLO.
        slo: Name,
        /// What it looks at.
        kpi: String,
        /// What the adapter measures.
        known: &'static [&'static str],
    },
    /// What it measures would not count for as long as it takes until it measures again.
    #[error(
        "it looks at the software every {every:?}, and what was measured counts for {counts:?}"
    )]
    Seldom {
        /// How often it looks.
        every: Duration,
        /// For how long what it saw counts.
        counts: Duration,
    },
}

impl BadAdapter {
    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Self::Unknown { name, known } => tenure_config::suggestion(name, known.iter().copied()),
            Self::Settings { help: Some(help), .. } => help.clone(),
            Self::Settings { .. } => "docs/ADAPTERS.md has the settings of adapters".to_owned(),
            Self::Drain { .. } => {
                let drain: Vec<_> =
                    ALL.iter().filter(|known| known.drains).map(|known| known.name).collect();
                format!("leave it out; it is for the adapters {}", drain.join(", "))
            }
            Self::Kpi { known: [], .. } => {
                "it measures nothing: let `want` be a number, and leave `rule` out".to_owned()
            }
            Self::Kpi { kpi, known, .. } => tenure_config::suggestion(kpi, known.iter().copied()),
            Self::Seldom { .. } => {
                "set a shorter `every`, or a longer `stale-after` of its `behaviour`".to_owned()
            }
        }
    }
}

/// Opens an adapter with its settings, and with what labels of its KPIs say of units.
type Opener =
    fn(Place<'_>, serde_json::Value, &LabelMap) -> Result<Box<dyn Adapter>, serde_json::Error>;

/// A named adapter. To open one touches nothing.
struct Known {
    name: &'static str,
    /// Whether work may go on for a while on units that are left.
    drains: bool,
    open: Opener,
}

const ALL: &[Known] = &[
    Known {
        name: "exec",
        drains: false,
        open: |place, settings, _| Ok(exec::open(place, read(settings)?)),
    },
    Known {
        name: "grid-engine",
        drains: true,
        open: |place, settings, map| grid_engine::open(place, read(settings)?, map),
    },
    Known {
        name: "haproxy",
        drains: true,
        open: |place, settings, _| Ok(haproxy::open(place, read(settings)?)),
    },
    Known {
        name: "pool",
        drains: false,
        open: |place, settings, _| Ok(pool::open(place, read(settings)?)),
    },
    Known {
        name: "slurm",
        drains: true,
        open: |place, settings, map| Ok(slurm::open(place, read(settings)?, map)),
    },
];

/// Whether a service of this definition can have its adapter, if it has one; nothing is run.
///
/// # Errors
/// Why it cannot.
pub fn check(definition: &Definition) -> Result<(), BadAdapter> {
    let Some(spec) = &definition.adapter() else { return Ok(()) };
    let adapter = open(spec, Place { home: Path::new("/"), service: "any" })?;
    let counts = definition.behaviour.stale_after.as_micros().unsigned_abs();
    let (every, counts) = (adapter.every(), Duration::from_micros(counts));
    if every >= counts {
        return Err(BadAdapter::Seldom { every, counts });
    }
    let Some(known) = adapter.kpis() else { return Ok(()) };
    for (slo, it) in &definition.slo {
        if let Some(kpi) = it.kpis().into_iter().find(|kpi| !known.contains(&kpi.as_str())) {
            return Err(BadAdapter::Kpi { slo: slo.clone(), kpi, known });
        }
    }
    Ok(())
}

/// The names of all KPIs that an adapter can measure, if its settings tell.
pub(crate) fn kpis(spec: &Spec) -> Option<&'static [&'static str]> {
    open(spec, Place { home: Path::new("/"), service: "any" }).ok()?.kpis()
}

/// Opens an adapter.
pub(super) fn open(spec: &Spec, place: Place<'_>) -> Result<Box<dyn Adapter>, BadAdapter> {
    let name = spec.name().unwrap_or_default();
    let known = ALL.iter().find(|known| known.name == name).ok_or_else(|| BadAdapter::Unknown {
        name: name.to_owned(),
        known: ALL.iter().map(|known| known.name).collect(),
    })?;
    if spec.has(DRAIN) && !known.drains {
        return Err(BadAdapter::Drain { name: known.name });
    }
    // A definition with another one is refused.
    let map = spec.label_map().unwrap_or_default();
    let opened =
        serde_json::to_value(spec.settings()).and_then(|value| (known.open)(place, value, &map));
    opened.map_err(|error| {
        let (cause, help) = tenure_config::in_plain_words(&error.to_string());
        BadAdapter::Settings { name: known.name, cause, help }
    })
}

fn read<T: DeserializeOwned>(settings: serde_json::Value) -> Result<T, serde_json::Error> {
    T::deserialize(settings)
}
