//! One bar for all that a command has to do.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tenure_core::model::time::Time;

/// The progress of all runs together, on a terminal or nowhere.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar over `all` there is to do: seconds of virtual time, or seeds.
    pub(crate) fn new(all: u64, terminal: bool) -> Self {
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(all), target);
        // Only a wrong template fails, and a bar without one is still a bar.
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3}% {eta} left") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// The part of one run, which takes `seconds` of them.
    pub(crate) fn of_run(&self, seconds: u64) -> RunProgress<'_> {
        RunProgress { bar: &self.0, seconds, shown: 0 }
    }

    /// One more of what the bar counts is done.
    pub(crate) fn one(&self) {
        self.0.inc(1);
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// How far one run has come.
pub(crate) struct RunProgress<'a> {
    bar: &'a ProgressBar,
    seconds: u64,
    shown: u64,
}

impl RunProgress<'_> {
    /// The run has reached `now`. What comes after its horizon, until all is at rest, is not shown.
    pub(crate) fn reached(&mut self, now: Time) {
        let seconds = (now.as_secs_f64().max(0.0) as u64).min(self.seconds);
        if seconds > self.shown {
            self.bar.inc(seconds - self.shown);
            self.shown = seconds;
        }
    }
}
