//! One look at the software of a service that is not defined yet.

use std::future::Future;
use std::sync::Arc;

use tenure_core::service::adapter::Adapter as Spec;
use tokio::task::spawn_blocking;

use super::registry::{self, Place};
use super::{Adapters, Sensed};
use crate::driver::stop::Stop;

/// Ends what runs once nobody waits for it.
struct AskOnDrop(Arc<Stop>);

impl Drop for AskOnDrop {
    fn drop(&mut self) {
        self.0.ask();
    }
}

/// Has an adapter look at its software once, as that of a service of this name.
///
/// # Errors
/// Why it cannot.
pub(crate) fn look_once(
    adapters: &Adapters,
    service: &str,
    spec: &Spec,
) -> Result<impl Future<Output = Result<Sensed, String>> + use<>, String> {
    let place = Place { home: adapters.home(), service };
    let adapter = registry::open(spec, place).map_err(|bad| bad.to_string())?;
    let stop = Arc::new(Stop::new().map_err(|error| error.to_string())?);
    let end = AskOnDrop(Arc::clone(&stop));
    let look = spawn_blocking(move || adapter.sense(&stop));
    Ok(async move {
        let _end = end;
        let seen = look.await.map_err(|_| "the adapter panicked".to_owned())?;
        seen.map_err(|error| error.to_string())
    })
}
