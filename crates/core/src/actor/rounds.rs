//! Rounds: when the mapper is to be asked, and whether it has answered.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::actor::effect::Problem;
use crate::actor::fact::Memo;
use crate::model::time::Time;
use crate::mutants::mutant;

/// At most one round is open. What happens meanwhile is for the next one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MapperRounds {
    count: u64,
    open: bool,
    again: bool,
    memo: Arc<Memo>,
    wake: Option<Time>,
}

impl MapperRounds {
    /// There is something to decide: opens a round, now or once the open one is answered. Returns the round
    /// whose view shows it for sure.
    pub fn call(&mut self) -> u64 {
        if self.open {
            self.again = true;
            return self.count + 1;
        }
        self.count += 1;
        self.open = true;
        self.count
    }

    /// The open round is over; the next one opens if there was a call meanwhile.
    pub fn answered(&mut self, memo: Option<&Memo>, wake: Option<Time>) {
        if let Some(memo) = memo {
            self.memo = Arc::new(memo.clone());
        }
        self.wake = wake;
        self.open = false;
        if std::mem::take(&mut self.again) {
            self.call();
        }
    }

    /// The time has come at which the mapper wants to be asked.
    pub fn woken(&mut self) {
        self.wake = None;
        self.call();
    }

    /// The number of the open round.
    pub fn open(&self) -> Option<u64> {
        self.open.then_some(self.count)
    }

    /// Whether `answered` is the open round; a mapper that was too slow answers one that is over.
    pub fn check(&self, answered: u64) -> Result<(), Problem> {
        match self.open() {
            Some(open) if open == answered => Ok(()),
            open => Err(Problem::StaleDecision { answered, open }),
        }
    }

    /// The memo of a decision if it is to be journaled: one that changes, within its bounds.
    pub fn news(&self, memo: Option<Memo>, problems: &mut Vec<Problem>) -> Option<Memo> {
        let memo = memo.filter(|memo| *memo != *self.memo)?;
        if memo.0.len() > Memo::MAX_BYTES && !mutant!(MemoWithoutBound) {
            let bytes = memo.0.len();
            let cause = format!("a memo of {bytes} bytes, more than {}", Memo::MAX_BYTES);
            problems.push(Problem::BadChoice(cause));
            return None;
        }
        Some(memo)
    }

    /// What the mapper remembers.
    pub fn memo(&self) -> Arc<Memo> {
        Arc::clone(&self.memo)
    }

    /// When it wants to be asked, whatever happens.
    pub fn wake(&self) -> Option<Time> {
        self.wake
    }
}
