//! `pool`: a service without software, which keeps units until somebody needs them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tenure_core::service::kpi::Kpis;
use tenure_core::service_manager::services::Found;

use super::command::Every;
use super::registry::Place;
use super::{Act, Adapter, AdapterError, Sensed};
use crate::driver::record::{about, create_folder, replace};
use crate::driver::stop::Stop;

/// What `pool` takes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Settings {
    #[serde(default)]
    every: Every,
}

struct Pool {
    every: Every,
    /// It is there while the pool is stopped.
    stopped: PathBuf,
}

/// Opens one.
pub(super) fn open(place: Place<'_>, settings: Settings) -> Box<dyn Adapter> {
    Box::new(Pool { every: settings.every, stopped: stopped(place.home, place.service) })
}

/// Forgets that a pool was stopped, which is removed.
pub(super) fn forget(home: &Path, service: &str) {
    drop(remove(&stopped(home, service)));
}

fn stopped(home: &Path, service: &str) -> PathBuf {
    home.join(format!("{service}.stopped"))
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(about(file, error)),
        Err(_) | Ok(()) => Ok(()),
    }
}

fn failed(error: io::Error) -> AdapterError {
    AdapterError::Failed(error.to_string())
}

impl Adapter for Pool {
    fn every(&self) -> Duration {
        self.every.0
    }

    fn kpis(&self) -> Option<&'static [&'static str]> {
        Some(&[])
    }

    fn sense(&self, _stop: &Stop) -> Result<Sensed, AdapterError> {
        Ok(match self.stopped.exists() {
            true => Sensed::found(Found::Stopped, None),
            false => Sensed::running(Kpis::default()),
        })
    }

    fn can(&self, _act: Act) -> bool {
        true
    }

    fn start(&self, _stop: &Stop) -> Result<(), AdapterError> {
        remove(&self.stopped).map_err(failed)
    }

    fn stop(&self, _stop: &Stop) -> Result<(), AdapterError> {
        let folder = self.stopped.parent().unwrap_or(Path::new("."));
        create_folder(folder).and_then(|()| replace(&self.stopped, b"")).map_err(failed)
    }
}
