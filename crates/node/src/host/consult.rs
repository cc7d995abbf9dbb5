//! How a host asks its mapper.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix::{AsyncContext as _, Context, Handler};
use tenure_core::mapper::registry::MapperError;
use tenure_core::runtime::AnyMapper;
use tracing::{debug, error, warn};

use super::Host;
use super::disk_space::DiskSpace;
use super::mapper_thread::{Decided, MapperThread};

/// How long a mapper that failed is not asked.
const MAPPER_REST: Duration = Duration::from_secs(1);

/// The mapper of a run has decided, or failed to.
struct MapperAnswered {
    mapper: u64,
    decided: Decided,
}

/// A mapper that failed may be asked again.
struct MapperRested {
    mapper: u64,
}

messages!(MapperAnswered, MapperRested);

impl Host {
    /// Gives the mapper of a new run its thread.
    pub(super) fn start_mapper(
        &mut self,
        build: impl FnOnce() -> Result<AnyMapper, MapperError> + Send + 'static,
        ctx: &Context<Self>,
    ) {
        self.mappers += 1;
        let (host, mapper_number) = (ctx.address(), self.mappers);
        let decided =
            move |decided| host.do_send(MapperAnswered { mapper: mapper_number, decided });
        let started = MapperThread::start(&self.part.info.name, build, decided);
        self.mapper = started
            .map_err(|cause: io::Error| {
                error!(actor = %self.part.info.name, %cause, "no thread for the mapper");
            })
            .ok();
    }

    /// Asks the mapper about a round that has opened. What it decides begins something, so it is not asked
    /// while the disk is full.
    pub(super) fn consult(&mut self) {
        let Some(((run, _), mapper)) = self.run.as_mut().zip(self.mapper.as_mut()) else { return };
        if self.disk_space == DiskSpace::Short || mapper.since().is_some() {
            return;
        }
        if let Some(view) = run.consultation(self.clock.now()) {
            mapper.ask(view);
        }
    }

    /// Replaces a mapper that has not answered for too long, whose thread is left to itself, and one that
    /// could not be given a thread.
    pub(super) fn check_mapper(&mut self, ctx: &Context<Self>) {
        let is_lost = match &self.mapper {
            Some(mapper) => mapper.since().is_some_and(|at| at.elapsed() >= self.limits.mapper),
            None => self.run.is_some(),
        };
        if !is_lost {
            return;
        }
        warn!(actor = %self.part.info.name, after = ?self.limits.mapper, "the mapper does not answer; another one is asked");
        let build = Arc::clone(&self.part.build);
        self.start_mapper(move || Ok(build()?.into_parts().1), ctx);
        if let Some((run, _)) = &mut self.run {
            run.ask_again();
        }
        self.consult();
    }
}

impl Handler<MapperAnswered> for Host {
    type Result = ();

    fn handle(&mut self, answered: MapperAnswered, ctx: &mut Self::Context) {
        if answered.mapper != self.mappers || self.run.is_none() {
            return;
        }
        if let Some(mapper) = &mut self.mapper {
            mapper.answered();
        }
        match answered.decided {
            Ok(decision) => {
                self.inbox.decision(decision);
                self.stir(ctx);
            }
            Err(problem) => {
                debug!(actor = %self.part.info.name, problem, "the mapper failed");
                ctx.notify_later(MapperRested { mapper: self.mappers }, MAPPER_REST);
            }
        }
    }
}

impl Handler<MapperRested> for Host {
    type Result = ();

    fn handle(&mut self, rested: MapperRested, _: &mut Self::Context) {
        if rested.mapper != self.mappers {
            return;
        }
        if let Some((run, _)) = &mut self.run {
            run.ask_again();
        }
        self.consult();
    }
}
