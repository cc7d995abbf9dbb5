//! L5: a burst passes and leaves nothing behind.

use super::books::Books;
use super::{Check, Law, Scene, Tally, Verdict};
use crate::fact::broker::Fact;
use crate::time::Time;

pub(super) const LAW: Law = Law {
    id: "L5",
    name: "no metastable state",
    statement: "After a burst of requests, once the bound has passed, brokers decide at least nine tenths as \
                many of the requests that come as they did before it.",
    source: "metastable failures",
    on: "facts of brokers, in true time, where a burst is announced",
};

#[derive(Default)]
pub(super) struct Bench {
    phase: Phase,
    before: Count,
    after: Count,
}

#[derive(Default)]
enum Phase {
    #[default]
    Before,
    During,
    /// The burst is over, and forgotten from this instant on.
    After(Time),
}

/// Requests that came, and decisions on requests.
#[derive(Default)]
struct Count {
    came: u64,
    decided: u64,
}

impl Check for Bench {
    fn broker(&mut self, scene: &Scene<'_>, fact: &Fact, _: &mut Tally) -> Verdict {
        let count = match self.phase {
            Phase::Before => &mut self.before,
            Phase::After(from) if from <= scene.now => &mut self.after,
            Phase::During | Phase::After(_) => return Ok(()),
        };
        match fact {
            Fact::Requested(_) => count.came += 1,
            Fact::TicketsCut(_) | Fact::RequestRefused(_) => count.decided += 1,
            _ => {}
        }
        Ok(())
    }

    fn burst(&mut self, forgotten: Option<Time>) {
        self.phase = forgotten.map_or(Phase::During, Phase::After);
    }

    fn settled(&mut self, _: &Books, _: Time, tally: &mut Tally) -> Verdict {
        let (before, after) = (&self.before, &self.after);
        if before.came == 0 || after.came == 0 {
            return Ok(());
        }
        // decided/came after, at least 9/10 of decided/came before.
        let enough = 10 * after.decided * before.came >= 9 * before.decided * after.came;
        tally.check(enough, || {
            format!(
                "before the burst {} of {} requests were decided, after it {} of {}",
                before.decided, before.came, after.decided, after.came
            )
        })
    }
}
