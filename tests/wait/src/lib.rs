//! How tests wait: for a condition that has a name, and until a deadline.
//!
//! Where there is a notification, wait for it with [`receive`] or [`in_time`]. Where there is none,
//! [`eventually`] looks again and again.

use std::future::Future;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Long enough for anything that works, on a loaded machine.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// What a look gives: `bool`, or `Option` where something is found.
pub trait Condition {
    /// What there is once the condition holds.
    type Found;

    /// What was found, if the condition holds.
    fn found(self) -> Option<Self::Found>;
}

impl Condition for bool {
    type Found = ();

    fn found(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Condition for Option<T> {
    type Found = T;

    fn found(self) -> Self {
        self
    }
}

/// Looks until the condition holds.
///
/// # Panics
/// If it does not hold after `deadline`, with `what` was waited for.
#[track_caller]
pub fn eventually<C: Condition>(
    deadline: Duration,
    what: &str,
    mut condition: impl FnMut() -> C,
) -> C::Found {
    let began = Instant::now();
    loop {
        if let Some(found) = condition().found() {
            return found;
        }
        assert!(began.elapsed() < deadline, "waited {deadline:?} in vain: {what}");
        thread::sleep(PAUSE);
    }
}

/// As [`eventually`], for a condition that itself has to wait.
///
/// # Panics
/// If it does not hold after `deadline`, with `what` was waited for.
pub async fn eventually_async<C: Condition>(
    deadline: Duration,
    what: &str,
    mut condition: impl AsyncFnMut() -> C,
) -> C::Found {
    let look = async {
        loop {
            if let Some(found) = condition().await.found() {
                return found;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    in_time(deadline, what, look).await
}

/// What a future gives.
///
/// # Panics
/// If it gives nothing before `deadline`, with `what` was waited for.
pub async fn in_time<F: Future>(deadline: Duration, what: &str, future: F) -> F::Output {
    let result = tokio::time::timeout(deadline, future).await;
    result.unwrap_or_else(|_| panic!("waited {deadline:?} in vain: {what}"))
}

/// What comes through a channel.
///
/// # Panics
/// If nothing comes before `deadline`, or nothing can come any more, with `what` was waited for.
#[track_caller]
pub fn receive<T>(deadline: Duration, what: &str, channel: &Receiver<T>) -> T {
    let result = channel.recv_timeout(deadline);
    result.unwrap_or_else(|error| panic!("{what}: {error} after at most {deadline:?}"))
}

/// What `work` gives, which is done on a thread of its own.
///
/// # Panics
/// If it is not done before `deadline`, or panics, with `what` was waited for.
#[track_caller]
pub fn done_in_time<T: Send + 'static>(
    deadline: Duration,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, result) = mpsc::channel();
    thread::spawn(move || drop(done.send(work())));
    receive(deadline, what, &result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_looked_at_until_it_holds() {
        let mut looks = 0;
        let found = eventually(DEADLINE, "the third look", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, 3);
    }

    #[test]
    #[should_panic(expected = "in vain: what never comes")]
    fn a_wait_in_vain_is_named() {
        eventually(Duration::ZERO, "what never comes", || false);
    }

    #[test]
    #[should_panic(expected = "a word: timed out")]
    fn a_silent_channel_is_named() {
        let (_sender, channel) = mpsc::channel::<()>();
        receive(Duration::ZERO, "a word", &channel);
    }
}
