//! Ctrl-C while a command waits: it exits and reports what keeps running.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tenure_node::api::LeaseName;
use tenure_node::api::client::Client;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::Error;

/// Whether the user has pressed ctrl-c.
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on ctrl-c hangs up, and so ends what waits for an answer; unless the command does not wait.
    pub(super) fn watch(client: &Client, waits: bool) -> io::Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        if !waits {
            return Ok(Self(came));
        }
        let (hang_up, set) = (client.hang_up()?, Arc::clone(&came));
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let mut signals = {
            let _inside = runtime.enter();
            signal(SignalKind::interrupt())?
        };
        thread::spawn(move || {
            if runtime.block_on(signals.recv()).is_some() {
                set.store(true, Ordering::SeqCst);
                hang_up();
            }
        });
        Ok(Self(came))
    }

    /// Why a wait for `lease` ended: that the user interrupted it, or `error`.
    pub(super) fn or(&self, error: impl Into<Error>, lease: Option<&LeaseName>) -> Error {
        if self.0.load(Ordering::SeqCst) {
            Error::Interrupted(lease.cloned())
        } else {
            error.into()
        }
    }
}
