//! The log, on standard error: what a deployment does and what goes wrong with it.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{MakeWriter, format};

use crate::args::{Cli, Command};
use crate::text::{Form, Guarded};

/// What a deployment logs unless `TENURE_LOG` says otherwise.
const DEFAULT: &str = "warn,tenure=info";

/// In what time how many lines come from one place in the program, by how loud they are. What a peer or a user can
/// bring about again and again is not to fill a disk.
const WINDOW: Duration = Duration::from_secs(10);
const MAX_WARNINGS: u64 = 20;
const MAX_NOTES: u64 = 1000;

/// The form of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// A JSON object per line
    Json,
}

/// Begins to log: what the variable `TENURE_LOG` asks for (`info`, `debug` or a filter such as `tenure=debug`), and
/// what a deployment does also without it.
pub(crate) fn start(cli: Option<&Cli>) {
    let format = cli.and_then(|cli| {
        if let Command::Dev(args) = &cli.command {
            Some(args.log_format)
        } else if let Command::Up(args) = &cli.command {
            Some(args.log_format)
        } else if let Command::Executor(args) = &cli.command {
            Some(args.log_format)
        } else {
            None
        }
    });
    let filter = std::env::var("TENURE_LOG").ok();
    let Some(filter) = filter.or_else(|| format.map(|_| DEFAULT.to_owned())) else { return };
    let format = format.unwrap_or_default();
    let log = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(Log { format, quiet: Mutex::default() });
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// Where lines go, as long as they are no flood.
struct Log {
    format: LogFormat,
    quiet: Mutex<HashMap<Identifier, Window>>,
}

/// The lines of one place in the program.
#[derive(Debug)]
struct Window {
    began: Instant,
    lines: u64,
}

impl Window {
    /// One more line: whether it is one too many; and how many were, if a new window begins.
    fn note(&mut self, most: u64, now: Instant) -> (bool, u64) {
        let mut left_out = 0;
        if now.duration_since(self.began) >= WINDOW {
            left_out = self.lines.saturating_sub(most);
            *self = Self { began: now, lines: 0 };
        }
        self.lines += 1;
        (self.lines > most, left_out)
    }
}

/// How many lines of this loudness there may be in a window; any number of what is logged on request.
fn most(level: Level) -> Option<u64> {
    match level {
        Level::ERROR | Level::WARN => Some(MAX_WARNINGS),
        Level::INFO => Some(MAX_NOTES),
        _ => None,
    }
}

impl Log {
    fn guarded(&self, inner: Box<dyn Write>) -> Guarded<Box<dyn Write>> {
        let form = match self.format {
            LogFormat::Text => Form::Event,
            LogFormat::Json => Form::Json,
        };
        Guarded::new(inner, form)
    }

    /// Says how many lines were left out.
    fn summary(&self, meta: &Metadata<'_>, left_out: u64) -> io::Result<()> {
        let (mut now, place) = (String::new(), meta.name());
        // A string takes everything.
        let _ = SystemTime.format_time(&mut format::Writer::new(&mut now));
        let message = format!("{left_out} lines such as the next were left out ({place})");
        let line = match self.format {
            LogFormat::Text => format!("{now}  WARN tenure::log: {message}\n"),
            LogFormat::Json => {
                let (level, target) = ("WARN", "tenure::log");
                let line = serde_json::json!({
                    "timestamp": now, "level": level, "message": message,
                    "left_out": left_out, "target": target,
                });
                format!("{line}\n")
            }
        };
        self.guarded(Box::new(io::stderr())).write_all(line.as_bytes())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Guarded<Box<dyn Write>>;

    fn make_writer(&'a self) -> Self::Writer {
        self.guarded(Box::new(io::stderr()))
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Self::Writer {
        let Some(most) = most(*meta.level()) else { return self.make_writer() };
        let now = Instant::now();
        let (too_many, left_out) = {
            let mut quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
            let window = quiet.entry(meta.callsite());
            window.or_insert(Window { began: now, lines: 0 }).note(most, now)
        };
        if too_many {
            return self.guarded(Box::new(io::sink()));
        }
        if left_out > 0 {
            // What cannot be written can be said nowhere.
            let _ = self.summary(meta, left_out);
        }
        self.make_writer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_flood_some_lines_stay_and_the_others_are_counted() {
        let began = Instant::now();
        let mut window = Window { began, lines: 0 };
        let noted: Vec<_> = (0..25).map(|_| window.note(20, began)).collect();
        assert_eq!(noted.iter().filter(|(too_many, _)| *too_many).count(), 5);
        assert!(noted.iter().all(|(_, left_out)| *left_out == 0));
        assert_eq!(window.note(20, began + WINDOW), (false, 5));
        assert_eq!(window.note(20, began + WINDOW * 2), (false, 0));
    }

    #[test]
    fn only_what_is_asked_for_has_no_limit() {
        let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
        assert_eq!(levels.map(|level| most(level).is_some()), [true, true, true, false, false]);
    }
}
