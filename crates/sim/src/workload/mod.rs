//! Workloads: what a deployment is asked for, step by step.
//!
//! A [`Log`] is a record of real demand, a batch system's jobs ([`Kind::SwfInUse`],
//! [`Kind::SwfOffered`]) or the samples of a series ([`Kind::Csv`]); a [`Wave`] and the requests of
//! [`CoAllocation`] are generated, those of users ([`Kind::Requests`]) generated or listed. A log or wave
//! gives a *signal*, one value at every t_k = offset + k * step in the log's own seconds, and
//! [`demand`] scales a signal to the size of a deployment. Nothing here reads a file: the shell
//! hands the bytes in.

mod clock;
mod co_allocation;
mod error;
mod kind;
mod number;
mod requests;
mod series;
mod signal;
mod summary;
mod swf;
mod wave;

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read as _};

use flate2::read::MultiGzDecoder;
use tenure_core::model::time::Span;

pub(crate) use co_allocation::MOST_REQUESTS;
pub use co_allocation::{CoAllocation, Drawn, Shape};
pub use error::WorkloadError;
pub use kind::Kind;
pub use number::parse_span;
pub(crate) use requests::{Askers, ListedRequest, MOST as MOST_USER_REQUESTS, by_broker};
pub use requests::{DrawnRequests, UserRequest};
pub use signal::{Stats, demand, steps};
pub use summary::{Damage, Damaged, Machine, Skipped, Summary};
pub use wave::Wave;

use series::Sample;
use swf::Job;

/// The most bytes a log may inflate to: a small file must not be able to fill the memory.
const MAX_INFLATED: u64 = 2 << 30;

/// How many bytes are inflated at a time.
const CHUNK: usize = 1 << 16;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A parsed log of demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    summary: Summary,
    entries: Entries,
}

/// A job of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedJob {
    /// When it begins, from the offset on: of [`Kind::SwfOffered`] when it was submitted.
    pub at: Span,
    /// For how long it ran.
    pub run: Span,
    /// On how many processors.
    pub processors: u32,
    /// Who submitted it, if that is known.
    pub user: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
enum Entries {
    Jobs(Vec<Job>),
    Samples(Vec<Sample>),
}

impl Log {
    /// Parses the content of a log, plain or gzip (recognised by its first bytes, not by its name).
    ///
    /// `file` only names the log in errors. `column` chooses the value of a CSV log, by the name in
    /// its header row or by its number from 1; without it the first numeric column after the time
    /// counts. Damaged lines are no error as long as something is left: see [`Summary::damaged`].
    ///
    /// # Errors
    /// When the gzip stream is broken, the column is not there, nothing usable is left, the kind
    /// reads no file, or a column is set for a kind without columns.
    pub fn parse(
        file: &str,
        bytes: &[u8],
        kind: Kind,
        column: Option<&str>,
    ) -> Result<Self, WorkloadError> {
        let swf = |start| {
            if column.is_some() {
                return Err(WorkloadError::ColumnNotUsed { kind });
            }
            let (summary, jobs) = read(file, bytes, |text| swf::parse(text, kind, start))?;
            Ok((summary, Entries::Jobs(jobs)))
        };
        let (summary, entries) = match kind {
            Kind::SwfInUse => swf(swf::Start::Allocated)?,
            Kind::SwfOffered => swf(swf::Start::Submitted)?,
            Kind::Csv => {
                let (summary, samples) = series::parse(file, &inflate(file, bytes)?, column)?;
                (summary, Entries::Samples(samples))
            }
            Kind::Wave | Kind::CoAllocation => {
                return Err(WorkloadError::ReadsNoFile { file: file.to_owned(), kind });
            }
            Kind::Requests => return Err(WorkloadError::NoSignal { file: file.to_owned(), kind }),
        };
        if summary.entries == 0 {
            return Err(WorkloadError::NoEntries {
                file: file.to_owned(),
                summary: Box::new(summary),
            });
        }
        Ok(Self { summary, entries })
    }

    /// What the log holds, and what of it could not be used.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The signal at t_k = `offset` + k * `step` for k = 0 .. [`steps`]`(step, horizon)` - 1.
    ///
    /// Jobs: the processors of all jobs with start <= t_k < end, so zero outside the log. Samples:
    /// the mean of those in [t_k, t_k + step); a step without any repeats the value of the last
    /// sample before it, and is zero before the first one. Time and memory are in proportion to
    /// entries plus steps; the caller bounds the steps.
    pub fn signal(&self, offset: Span, step: Span, horizon: Span) -> Vec<f64> {
        let n = steps(step, horizon);
        if n == 0 {
            return Vec::new();
        }
        match &self.entries {
            Entries::Jobs(jobs) => swf::signal(jobs, offset, step, n),
            Entries::Samples(samples) => series::signal(samples, offset, step, n),
        }
    }

    /// The jobs that begin in [`offset`, `offset` + `horizon`), in the order of the log; none of a series.
    pub fn jobs(&self, offset: Span, horizon: Span) -> Vec<LoggedJob> {
        let Entries::Jobs(jobs) = &self.entries else { return Vec::new() };
        let (from, until) = (offset.as_micros(), offset.plus(horizon).as_micros());
        let within = jobs.iter().filter(|job| (from..until).contains(&job.start));
        let logged = within.map(|job| LoggedJob {
            at: Span::from_micros(job.start - from),
            run: Span::from_micros(job.end - job.start),
            processors: job.processors,
            user: job.user,
        });
        logged.collect()
    }

    /// The horizon in whole steps that reaches from `offset` to the end of the log; zero when the
    /// log ends before, or `step` is not positive.
    pub fn horizon_from(&self, offset: Span, step: Span) -> Span {
        let left = self.summary.last.as_micros().saturating_sub(offset.as_micros());
        // A job's end is outside its term, the last sample is inside its step.
        let left = match self.entries {
            Entries::Jobs(_) => left,
            Entries::Samples(_) => left.saturating_add(1),
        };
        if !step.is_positive() || left <= 0 {
            return Span::ZERO;
        }
        step.times((left - 1) / step.as_micros() + 1)
    }
}

/// The whole text of a log.
fn inflate<'a>(file: &str, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, WorkloadError> {
    if !bytes.starts_with(&GZIP_MAGIC) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut plain = Vec::new();
    read(file, bytes, |text| text.read_to_end(&mut plain))?;
    Ok(Cow::Owned(plain))
}

/// Reads the text of a log as it is inflated, if it is packed: it need not be in memory as a whole.
fn read<T>(
    file: &str,
    bytes: &[u8],
    take: impl FnOnce(&mut dyn BufRead) -> io::Result<T>,
) -> Result<T, WorkloadError> {
    let bad = |error| WorkloadError::unreadable(file, format!("bad gzip data: {error}"));
    if !bytes.starts_with(&GZIP_MAGIC) {
        let mut plain = bytes;
        return take(&mut plain).map_err(bad);
    }
    let plain = MultiGzDecoder::new(bytes).take(MAX_INFLATED + 1);
    let mut plain = BufReader::with_capacity(CHUNK, plain);
    let taken = take(&mut plain).map_err(bad)?;
    if plain.get_ref().limit() == 0 {
        let cause = format!("it inflates to more than {MAX_INFLATED} bytes");
        return Err(WorkloadError::unreadable(file, cause));
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const SERIES: &str = "time,load\n0,1\n60,3\n";

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_recognised_by_its_first_bytes() {
        let plain = Log::parse("a.csv", SERIES.as_bytes(), Kind::Csv, None).unwrap();
        let packed = Log::parse("a.csv", &gzip(SERIES), Kind::Csv, None).unwrap();
        assert_eq!(plain, packed);
    }

    #[test]
    fn a_gzip_file_in_two_members_is_read_to_its_end() {
        let bytes = [gzip("time,load\n0,1\n"), gzip("60,3\n")].concat();
        let log = Log::parse("a.csv.gz", &bytes, Kind::Csv, None).unwrap();
        assert_eq!(log.summary().entries, 2);
    }

    #[test]
    fn a_truncated_gzip_file_is_an_error_that_names_it() {
        let bytes = gzip(SERIES);
        let error = Log::parse("a.csv.gz", &bytes[..bytes.len() - 9], Kind::Csv, None).unwrap_err();
        assert!(error.to_string().starts_with("log `a.csv.gz` cannot be read: bad gzip data: "));
    }

    #[test]
    fn a_log_without_anything_usable_is_an_error_with_its_cause() {
        let error = |text: &str, kind| {
            Log::parse("a", text.as_bytes(), kind, None).unwrap_err().to_string()
        };
        assert_eq!(
            error("; x\n1 2\n1 0 0 -1 4 -1 -1 4 -1 -1 1 1 1 -1 -1 -1 -1 -1\n", Kind::SwfInUse),
            "log `a` holds no usable jobs: lines 3, comments 1, skipped 1, damaged 1 \
             (line 2: field count is 2, not 18)"
        );
        assert_eq!(
            error("", Kind::Csv),
            "log `a` holds no usable samples: lines 0, comments 0, skipped 0, damaged 0"
        );
    }

    #[test]
    fn a_wave_reads_no_file_and_jobs_have_no_column() {
        let error = Log::parse("a.csv", b"", Kind::Wave, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the kind `wave` is generated and reads no file, but `a.csv` is given; kinds of a \
             file: swf-in-use, swf-offered, csv"
        );
        let error = Log::parse("a.swf", b"", Kind::SwfInUse, Some("2")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a column is chosen for the kind `csv` only, not `swf-in-use`"
        );
    }

    #[test]
    fn the_horizon_reaches_the_end_in_whole_steps() {
        let step = Span::from_secs(60);
        let samples = Log::parse("a.csv", SERIES.as_bytes(), Kind::Csv, None).unwrap();
        assert_eq!(samples.horizon_from(Span::ZERO, step), Span::from_secs(120));
        assert_eq!(samples.horizon_from(Span::from_secs(61), step), Span::ZERO);
        assert_eq!(samples.horizon_from(Span::ZERO, Span::ZERO), Span::ZERO);
        assert_eq!(samples.signal(Span::ZERO, Span::ZERO, step), [0.0; 0]);

        let job = "1 0 30 90 4 -1 -1 4 -1 -1 1 1 1 -1 -1 -1 -1 -1";
        let jobs = Log::parse("a.swf", job.as_bytes(), Kind::SwfInUse, None).unwrap();
        assert_eq!(jobs.horizon_from(Span::ZERO, step), Span::from_secs(120));
        assert_eq!(jobs.horizon_from(Span::from_secs(1), step), Span::from_secs(120));
        assert_eq!(jobs.signal(Span::ZERO, Span::ZERO, step), [0.0; 0]);
    }
}
