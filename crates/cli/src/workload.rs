//! `tenure workload show`: what a log of demand holds, and the signal it gives.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat};
use clap::{Args, ValueEnum};
use serde::{Serialize, Serializer};
use tenure_core::model::time::Span;
use tenure_sim::workload::{Kind, Log, Skipped, Stats, Summary, WorkloadError, parse_span, steps};
use thiserror::Error;

/// The longest signal that is worked out.
const MAX_STEPS: usize = 10_000_000;

/// The width of the picture of a signal.
const PICTURE: usize = 60;

/// The width of a value in the table: a line of a terminal without the label.
const VALUE: usize = 69;

/// Summarize a log of demand and the signal derived from it.
#[derive(Args, Clone, Debug)]
pub struct ShowArgs {
    /// The log, plain or gzip
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// swf-in-use, swf-offered or csv; by default .swf is swf-in-use and .csv is csv
    #[arg(long)]
    pub kind: Option<Kind>,

    /// The value of a CSV log, by name or number [default: the first numeric column]
    #[arg(long)]
    pub column: Option<String>,

    /// Where in the log the signal begins: seconds, or units as in 30d
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_span)]
    pub offset: Span,

    /// The time from one value of the signal to the next
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = above_zero)]
    pub step: Span,

    /// How long the signal is [default: to the end of the log]
    #[arg(long, value_name = "TIME", value_parser = above_zero)]
    pub horizon: Option<Span>,

    /// A summary, the same with the signal in JSON, or the signal alone in CSV
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

/// How a log is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A summary for people, at most 80 columns wide.
    #[default]
    Table,
    /// One JSON object: the summary and the signal.
    Json,
    /// The signal: a header row, then `second,value`.
    Csv,
}

/// Why a log cannot be shown.
#[derive(Debug, Error)]
pub enum ShowError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The log cannot be used.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The signal would have no value.
    #[error("a horizon of {horizon} has no whole step of {step}")]
    NoStep {
        /// The step that was asked for.
        step: Span,
        /// The horizon that was asked for.
        horizon: Span,
    },
    /// The log ends before the signal begins.
    #[error("the log ends at {last}, so that nothing is left from the offset {offset} on")]
    PastEnd {
        /// The offset that was asked for.
        offset: Span,
        /// The end of the log.
        last: Span,
    },
    /// The signal would be too long.
    #[error("{steps} steps of {step} are too many: at most {MAX_STEPS} can be shown")]
    TooManySteps {
        /// How many there would be.
        steps: usize,
        /// The step that was asked for.
        step: Span,
    },
    /// The output cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

/// Reads the log of `args` and writes what it holds to `out`.
///
/// # Errors
/// When the file cannot be read or is no usable log, when the offset, step and horizon leave
/// nothing or too much to show, or when `out` cannot be written.
pub fn show(args: &ShowArgs, out: &mut dyn Write) -> Result<(), ShowError> {
    let path = args.file.display().to_string();
    let kind = args.kind.map_or_else(|| Kind::of_file_name(&path), Ok)?;
    let bytes = fs::read(&args.file)
        .map_err(|source| ShowError::Read { path: args.file.clone(), source })?;
    let log = Log::parse(&path, &bytes, kind, args.column.as_deref())?;
    let file = args.file.file_name().unwrap_or_default().to_string_lossy();
    Report::new(&file, &log, args)?.write(args.output, out)?;
    Ok(out.flush()?)
}

/// A log with the signal that was asked for; serialised, it is the JSON form with stable keys.
#[derive(Serialize)]
struct Report<'a> {
    file: &'a str,
    #[serde(flatten)]
    summary: &'a Summary,
    #[serde(rename = "offset_seconds", serialize_with = "in_seconds")]
    offset: Span,
    #[serde(rename = "step_seconds", serialize_with = "in_seconds")]
    step: Span,
    steps: usize,
    #[serde(flatten)]
    stats: Stats,
    signal: Vec<f64>,
}

impl<'a> Report<'a> {
    fn new(file: &'a str, log: &'a Log, args: &ShowArgs) -> Result<Self, ShowError> {
        let &ShowArgs { offset, step, .. } = args;
        let summary = log.summary();
        let horizon = args.horizon.unwrap_or_else(|| log.horizon_from(offset, step));
        match steps(step, horizon) {
            0 if args.horizon.is_none() => Err(ShowError::PastEnd { offset, last: summary.last }),
            0 => Err(ShowError::NoStep { step, horizon }),
            steps if steps > MAX_STEPS => Err(ShowError::TooManySteps { steps, step }),
            steps => {
                let signal = log.signal(offset, step, horizon);
                let stats = Stats::of(&signal);
                Ok(Self { file, summary, offset, step, steps, stats, signal })
            }
        }
    }

    fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Table => self.table(out),
            Format::Json => self.json(out),
            Format::Csv => self.csv(out),
        }
    }

    fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        let Summary { kind, first, last, .. } = self.summary;
        let mut line = |label, value: &str| writeln!(out, "{label:<10} {}", fit(value));
        line("log", self.file)?;
        line("kind", &format!("{kind}: {}", kind.meaning()))?;
        if let Some(machine) = self.machine() {
            line("machine", &machine)?;
        }
        if let Some(column) = &self.summary.column {
            line("column", &format!("{column} (of {})", self.summary.columns.join(", ")))?;
        }
        if let Some(start) =
            self.summary.unix_start.and_then(|unix| DateTime::from_timestamp(unix, 0))
        {
            let start = start.to_rfc3339_opts(SecondsFormat::Secs, true);
            line("second 0", &start)?;
        }
        let length = Span::from_micros(last.as_micros() - first.as_micros());
        line("span", &format!("second {} to {}: {length}", seconds(*first), seconds(*last)))?;
        self.lines(&mut line)?;
        let window = self.step.times(self.signal.len() as i64);
        let (from, count) = (seconds(self.offset), self.signal.len());
        line("window", &format!("{window} from second {from}: {count} steps of {}", self.step))?;
        line("mean", &format!("{:.2}", self.stats.mean))?;
        line("peak", &format!("{:.2}", self.stats.peak))?;
        line("signal", &picture(&self.signal))
    }

    /// What the lines of the log are, and why some of them do not count.
    fn lines(&self, line: &mut dyn FnMut(&'static str, &str) -> io::Result<()>) -> io::Result<()> {
        let Summary { kind, lines, comments, entries, skipped, damaged, unordered, .. } =
            self.summary;
        line("lines", &format!("{lines}, of which {comments} comment or header"))?;
        line(kind.entries(), &entries.to_string())?;
        if *unordered > 0 {
            line("unordered", &format!("{unordered}, sorted in"))?;
        }
        if skipped.total() > 0 {
            let Skipped { no_submit, no_run_time, no_processors } = skipped;
            let reasons = format!(
                "no submit time {no_submit}, no run time {no_run_time}, no processors {no_processors}"
            );
            line("skipped", &format!("{}: {reasons}", skipped.total()))?;
        } else {
            line("skipped", "0")?;
        }
        line("damaged", &damaged.count.to_string())?;
        for example in &damaged.examples {
            line("", &example.to_string())?;
        }
        if damaged.examples.len() as u64 != damaged.count {
            line("", "...")?;
        }
        Ok(())
    }

    fn machine(&self) -> Option<String> {
        let machine = &self.summary.machine;
        let parts = [
            machine.computer.clone(),
            machine.max_procs.map(|count| format!("{count} processors")),
            machine.max_nodes.map(|count| format!("{count} nodes")),
        ];
        let known: Vec<String> = parts.into_iter().flatten().collect();
        (!known.is_empty()).then(|| known.join(", "))
    }

    fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        writeln!(out)
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(["second", "value"])?;
        for (value, k) in self.signal.iter().zip(0..) {
            let second = seconds(self.offset.plus(self.step.times(k)));
            writer.write_record([second, value.to_string()])?;
        }
        writer.flush()
    }
}

/// The step and the horizon: without a length there is nothing to show.
fn above_zero(text: &str) -> Result<Span, String> {
    let span = parse_span(text).map_err(|error| error.to_string())?;
    if span.is_positive() { Ok(span) } else { Err("it must be above zero".to_owned()) }
}

fn in_seconds<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_secs_f64())
}

fn seconds(span: Span) -> String {
    span.as_secs_f64().to_string()
}

/// A value as it fits into its line, without characters that would move the cursor.
fn fit(value: &str) -> String {
    let mut fitted: String =
        value.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(VALUE).collect();
    if value.chars().nth(VALUE).is_some() {
        fitted.pop();
        fitted.push('…');
    }
    fitted
}

/// The signal as a row of blocks, each the mean of its part against the largest of them.
fn picture(signal: &[f64]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let width = signal.len().min(PICTURE);
    let part = |i| &signal[i * signal.len() / width..(i + 1) * signal.len() / width];
    let means: Vec<f64> = (0..width).map(|i| Stats::of(part(i)).mean).collect();
    let max = means.iter().copied().fold(0.0, f64::max);
    let level = |mean: f64| if max > 0.0 { (mean / max * 7.0).round() as usize } else { 0 };
    means.into_iter().map(|mean| BLOCKS[level(mean).min(7)]).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    const SWF: &str = "; Computer: Toy\u{7}\n; MaxProcs: 8\n; UnixStartTime: 86400\n\
        1 0 0 600 4 -1 -1 4 -1 -1 1 1 1 -1 -1 -1 -1 -1\n\
        2 300 0 900 2 -1 -1 2 -1 -1 1 1 1 -1 -1 -1 -1 -1\n\
        3 300 0 -1 2 -1 -1 2 -1 -1 1 1 1 -1 -1 -1 -1 -1\n\
        4 300\n";

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ShowArgs,
    }

    fn args(line: &str) -> ShowArgs {
        Cli::parse_from(["show"].into_iter().chain(line.split(' '))).args
    }

    fn report(line: &str) -> String {
        let log = Log::parse("toy.swf", SWF.as_bytes(), Kind::SwfInUse, None).unwrap();
        let args = args(line);
        let mut out = Vec::new();
        Report::new("toy.swf", &log, &args).unwrap().write(args.output, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn refusal(line: &str) -> String {
        let log = Log::parse("toy.swf", SWF.as_bytes(), Kind::SwfInUse, None).unwrap();
        Report::new("toy.swf", &log, &args(line)).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn the_table_shows_what_the_log_holds() {
        let expected = "\
log        toy.swf
kind       swf-in-use: processors allocated to running jobs
machine    Toy\u{fffd}, 8 processors
second 0   1970-01-02T00:00:00Z
span       second 0 to 1200: 20m
lines      7, of which 3 comment or header
jobs       2
skipped    1: no submit time 0, no run time 1, no processors 0
damaged    1
           line 7: field count is 2, not 18
window     20m from second 0: 4 steps of 5m
mean       3.50
peak       6.00
signal     ▆█▃▃
";
        assert_eq!(report("toy.swf"), expected);
    }

    #[test]
    fn csv_is_the_signal_and_reads_back_as_a_log() {
        let text = report("toy.swf --offset 150s --step 5m --horizon 900 -o csv");
        assert_eq!(text, "second,value\n150,4\n450,6\n750,2\n");
        let log = Log::parse("toy.csv", text.as_bytes(), Kind::Csv, None).unwrap();
        let signal = log.signal(Span::ZERO, Span::from_secs(300), Span::from_secs(900));
        assert_eq!(signal, [4.0, 6.0, 2.0]);
    }

    #[test]
    fn the_keys_of_the_json_object_are_stable() {
        let expected = concat!(
            r#"{"file":"toy.swf","kind":"swf-in-use","lines":7,"comments":3,"entries":2,"#,
            r#""skipped":{"no_submit":0,"no_run_time":1,"no_processors":0},"#,
            r#""damaged":{"count":1,"examples":[{"line":7,"column":null,"#,
            r#""cause":"field count is 2, not 18"}]},"unordered":0,"#,
            r#""first_second":0.0,"last_second":1200.0,"unix_start":86400,"#,
            r#""computer":"Toy\u0007","max_procs":8,"max_nodes":null,"columns":[],"column":null,"#,
            r#""offset_seconds":0.0,"step_seconds":600.0,"steps":2,"mean":3.0,"peak":4.0,"#,
            r#""signal":[4.0,2.0]}"#,
            "\n"
        );
        assert_eq!(report("toy.swf --step 10m -o json"), expected);
    }

    #[test]
    fn settings_that_leave_nothing_or_too_much_are_refused() {
        assert_eq!(
            refusal("toy.swf --offset 1200"),
            "the log ends at 20m, so that nothing is left from the offset 20m on"
        );
        assert_eq!(above_zero("0").unwrap_err(), "it must be above zero");
        assert_eq!(refusal("toy.swf --horizon 1m"), "a horizon of 1m has no whole step of 5m");
        assert_eq!(
            refusal("toy.swf --step 0.00001"),
            "120000000 steps of 0.00001s are too many: at most 10000000 can be shown"
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = show(&args("no/such/log.swf"), &mut io::sink()).unwrap_err().to_string();
        assert!(error.starts_with("cannot read `no/such/log.swf`: "), "{error}");
    }

    #[test]
    fn a_long_value_is_cut_to_its_line() {
        assert_eq!(fit(&"x".repeat(VALUE)), "x".repeat(VALUE));
        assert_eq!(fit(&"x".repeat(VALUE + 1)), format!("{}…", "x".repeat(VALUE - 1)));
    }

    #[test]
    fn the_picture_is_never_wider_than_its_line() {
        assert_eq!(picture(&[0.0, 0.0]), "▁▁");
        assert_eq!(picture(&[f64::NAN, -1.0, 7.0]), "▁▁█");
        assert_eq!(picture(&[1.0; 1000]), "█".repeat(PICTURE));
    }
}
