//! The thread of an actor's mapper: a slow one holds nothing up but its own round.

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Instant;

use tenure_core::mapper::registry::MapperError;
use tenure_core::model::name::Name;
use tenure_core::runtime::{AnyMapper, AnyView, Decision};
use tracing::error;

use super::actor_run::catching;

/// What came of a question: a decision, or why there is none.
pub(super) type Decided = Result<Decision, String>;

/// A mapper on a thread of its own. Dropped, the thread ends once the mapper has answered.
pub(super) struct MapperThread {
    questions: Sender<AnyView>,
    /// Since when the mapper owes a decision.
    since: Option<Instant>,
}

impl MapperThread {
    /// Starts the thread, which builds the mapper. Each view that is sent to it comes back as a call of `decided`.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub(super) fn start(
        actor: &Name,
        build: impl FnOnce() -> Result<AnyMapper, MapperError> + Send + 'static,
        decided: impl Fn(Decided) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (questions, views) = channel::<AnyView>();
        let name = actor.clone();
        let run = move || {
            let mapper = match build() {
                Ok(mapper) => mapper,
                Err(cause) => {
                    return error!(actor = %name, %cause, "the mapper cannot be built");
                }
            };
            while let Ok(view) = views.recv() {
                let decision = catching(|| mapper.decide(&view));
                // The view shares structure with the actor, which would copy what it changes while it lives.
                drop(view);
                let decision =
                    decision.and_then(|made| made.ok_or("another role's view".to_owned()));
                decided(decision);
            }
        };
        thread::Builder::new().name(format!("mapper {actor}")).spawn(run)?;
        Ok(Self { questions, since: None })
    }

    /// Asks the mapper. If its thread is gone, that counts as no answer.
    pub(super) fn ask(&mut self, view: AnyView) {
        self.since = Some(Instant::now());
        drop(self.questions.send(view));
    }

    /// The mapper has answered.
    pub(super) fn answered(&mut self) {
        self.since = None;
    }

    /// Since when the mapper owes a decision, if it does.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }
}
