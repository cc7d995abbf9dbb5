//! Logs in Standard Workload Format: one job a line, 18 numbers each, `;` before a comment.
//!
//! The format is that of the Parallel Workloads Archive. Used are field 2 (submit time), 3 (wait),
//! 4 (run time), 5 (processors allocated), 8 (processors requested) and 12 (user); -1 means unknown.

use std::io::{self, BufRead};

use tenure_core::model::time::Span;

use super::kind::Kind;
use super::number::{ONE, first_number, quote, refusal};
use super::summary::{Damage, Machine, Summary};

const FIELDS: usize = 18;
const SUBMIT: usize = 2;
const WAIT: usize = 3;
const RUN_TIME: usize = 4;
const ALLOCATED: usize = 5;
const REQUESTED: usize = 8;
const USER: usize = 12;

/// From when on a job counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// When it got its processors: submit time plus wait.
    Allocated,
    /// When it was submitted.
    Submitted,
}

/// A job that counts: `processors` in [`start`, `end`), in microseconds of the log's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) processors: u32,
    /// Who submitted it, if that is known.
    pub(super) user: Option<u32>,
}

enum Line {
    Job(Job),
    NoSubmit,
    NoRunTime,
    NoProcessors,
}

/// What is wrong with a line: the field to blame, if it is one, and the cause.
type Fault = (Option<usize>, String);

pub(super) fn parse(
    text: &mut dyn BufRead,
    kind: Kind,
    start: Start,
) -> io::Result<(Summary, Vec<Job>)> {
    let mut summary = Summary::new(kind);
    let (mut jobs, mut line, mut number) = (Vec::new(), Vec::new(), 0);
    loop {
        line.clear();
        if text.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        number += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        summary.lines += 1;
        if let [b';', comment @ ..] = line {
            summary.comments += 1;
            header(comment, &mut summary);
            continue;
        }
        match job(line, start) {
            Ok(Line::Job(job)) => jobs.push(job),
            Ok(Line::NoSubmit) => summary.skipped.no_submit += 1,
            Ok(Line::NoRunTime) => summary.skipped.no_run_time += 1,
            Ok(Line::NoProcessors) => summary.skipped.no_processors += 1,
            Err((field, cause)) => summary.damaged.add(1, || Damage {
                line: number,
                column: field.map(|field| field as u64),
                cause,
            }),
        }
    }
    summary.entries = jobs.len() as u64;
    let micros = |time: Option<i64>| Span::from_micros(time.unwrap_or_default());
    summary.first = micros(jobs.iter().map(|job| job.start).min());
    summary.last = micros(jobs.iter().map(|job| job.end).max());
    Ok((summary, jobs))
}

/// Keeps `Key: value` if the key is one we know; the first of a key counts.
fn header(comment: &[u8], summary: &mut Summary) {
    let comment = String::from_utf8_lossy(comment);
    let Some((key, value)) = comment.split_once(':') else {
        return;
    };
    let value = value.trim();
    // Some logs explain the number behind it.
    let number = || value.split_whitespace().next();
    let Machine { computer, max_procs, max_nodes } = &mut summary.machine;
    match key.trim() {
        "Computer" if computer.is_none() => *computer = Some(value.to_owned()),
        "MaxProcs" if max_procs.is_none() => *max_procs = number().and_then(|n| n.parse().ok()),
        "MaxNodes" if max_nodes.is_none() => *max_nodes = number().and_then(|n| n.parse().ok()),
        "UnixStartTime" if summary.unix_start.is_none() => {
            summary.unix_start = number().and_then(|n| n.parse().ok());
        }
        _ => {}
    }
}

fn job(line: &[u8], start: Start) -> Result<Line, Fault> {
    let (raw, values) = fields(line)?;
    let field = |number: usize| values[number - 1];

    if field(SUBMIT) < 0 {
        return Ok(Line::NoSubmit);
    }
    if field(RUN_TIME) <= 0 {
        return Ok(Line::NoRunTime);
    }
    let Some(number) = [ALLOCATED, REQUESTED].into_iter().find(|&number| field(number) > 0) else {
        return Ok(Line::NoProcessors);
    };
    let processors = u32::try_from(field(number) / ONE)
        .ok()
        .filter(|&processors| i64::from(processors) * ONE == field(number))
        .ok_or_else(|| {
            let cause = format!("{} is not a number of processors", quote(raw[number - 1]));
            (Some(number), cause)
        })?;
    let start = match start {
        Start::Allocated => field(SUBMIT) + field(WAIT).max(0),
        Start::Submitted => field(SUBMIT),
    };
    let user = u32::try_from(field(USER) / ONE).ok().filter(|_| field(USER) >= 0);
    Ok(Line::Job(Job { start, end: start + field(RUN_TIME), processors, user }))
}

/// The fields of a line as they stand and in millionths; a wrong count is blamed before a field.
fn fields(line: &[u8]) -> Result<([&[u8]; FIELDS], [i64; FIELDS]), Fault> {
    let mut raw: [&[u8]; FIELDS] = [&[]; FIELDS];
    let mut values = [0; FIELDS];
    let (mut count, mut bad) = (0, None);
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let (field, value, after) = first_number(rest);
        if let (Some(place), Some(number)) = (raw.get_mut(count), values.get_mut(count)) {
            *place = field;
            match value {
                Some(value) => *number = value,
                None => bad = bad.or(Some(count)),
            }
        }
        rest = after.trim_ascii_start();
        count += 1;
    }
    if count != FIELDS {
        return Err((None, format!("field count is {count}, not {FIELDS}")));
    }
    match bad {
        Some(place) => Err((Some(place + 1), refusal(raw[place]))),
        None => Ok((raw, values)),
    }
}

/// The processors of all jobs with start <= t_k < end, for the first `steps` steps.
///
/// Each job is added at its first step and taken away at the first step after it, so that one
/// running sum gives the signal; the sums are whole numbers, hence exact.
pub(super) fn signal(jobs: &[Job], offset: Span, step: Span, steps: usize) -> Vec<f64> {
    let first_step_from = |time: i64| {
        let ahead = time.saturating_sub(offset.as_micros());
        if ahead <= 0 {
            return 0;
        }
        let k = (ahead - 1) / step.as_micros() + 1;
        usize::try_from(k).unwrap_or(steps).min(steps)
    };
    let mut change = vec![0; steps + 1];
    for job in jobs {
        change[first_step_from(job.start)] += i64::from(job.processors);
        change[first_step_from(job.end)] -= i64::from(job.processors);
    }
    let sums = change.iter().scan(0, |sum, change| {
        *sum += change;
        Some(*sum as f64)
    });
    sums.take(steps).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line of the fields that matter, in their order.
    fn line(submit: &str, wait: &str, run: &str, allocated: &str, requested: &str) -> String {
        format!(
            "1 {submit} {wait} {run} {allocated} -1 -1 {requested} -1 -1 1 1 1 -1 -1 -1 -1 -1\n"
        )
    }

    fn read(text: &str, start: Start) -> (Summary, Vec<Job>) {
        parse(&mut text.as_bytes(), Kind::SwfInUse, start).unwrap()
    }

    fn spans(jobs: &[Job]) -> Vec<(i64, i64, u32)> {
        jobs.iter().map(|job| (job.start, job.end, job.processors)).collect()
    }

    #[test]
    fn a_job_lasts_from_its_allocation_to_its_end() {
        let text = line("100", "20", "60", "4", "8");
        assert_eq!(spans(&read(&text, Start::Allocated).1), [(120 * ONE, 180 * ONE, 4)]);
        assert_eq!(spans(&read(&text, Start::Submitted).1), [(100 * ONE, 160 * ONE, 4)]);
    }

    #[test]
    fn an_unknown_wait_is_none_and_requested_processors_stand_in() {
        let text = line("100", "-1", "0.5", "-1", "8.0");
        let (summary, jobs) = read(&text, Start::Allocated);
        assert_eq!(spans(&jobs), [(100 * ONE, 100 * ONE + ONE / 2, 8)]);
        assert_eq!(summary.last, Span::from_micros(100_500_000));
    }

    #[test]
    fn jobs_that_cannot_count_are_skipped_by_reason() {
        let text = [
            line("-1", "0", "60", "4", "4"),
            line("1", "0", "-1", "4", "4"),
            line("2", "0", "0", "-1", "-1"),
            line("3", "0", "60", "-1", "0"),
        ]
        .concat();
        let (summary, jobs) = read(&text, Start::Allocated);
        let skipped = summary.skipped;
        assert_eq!((skipped.no_submit, skipped.no_run_time, skipped.no_processors), (1, 2, 1));
        assert_eq!((jobs.len(), summary.damaged.count, summary.lines), (0, 0, 4));
    }

    #[test]
    fn damaged_lines_are_counted_and_shown_with_line_field_and_cause() {
        let text = [
            "; a comment\n\n".to_owned(),
            line("1", "0", "60", "4", "4"),
            "1 2 3\n".to_owned(),
            line("1", "0", "60s", "4", "4"),
            line("1", "0", "60", "4.5", "4"),
            line("1", "0", "60", "5000000000", "4"),
            line("1", "0", "60", "4", "4").replace("\n", " 19\r\n"),
            "x\nx\n".to_owned(),
        ]
        .concat();
        let (summary, jobs) = read(&text, Start::Allocated);
        assert_eq!((jobs.len(), summary.comments, summary.lines), (1, 1, 9));
        assert_eq!(summary.damaged.count, 7);
        let shown: Vec<_> = summary.damaged.examples.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "line 4: field count is 3, not 18",
                "line 5, column 4: `60s` is not a number",
                "line 6, column 5: `4.5` is not a number of processors",
                "line 7, column 5: `5000000000` is not a number of processors",
                "line 8: field count is 19, not 18",
            ]
        );
    }

    #[test]
    fn the_header_shows_the_machine_and_the_start() {
        let text = "; Computer: Linux cluster (Seth)\n;MaxProcs: 240 (120 nodes of 2)\n\
                    ; MaxNodes: many\n; UnixStartTime: 1027839845\n; MaxProcs: 7\n; Note: : x\n";
        let (summary, _) = read(text, Start::Allocated);
        assert_eq!(summary.machine.computer.as_deref(), Some("Linux cluster (Seth)"));
        assert_eq!(summary.machine.max_procs, Some(240));
        assert_eq!(summary.machine.max_nodes, None);
        assert_eq!(summary.unix_start, Some(1_027_839_845));
    }

    #[test]
    fn a_signal_worked_out_by_hand() {
        // [0, 10) of 1, [5, 20) of 2, [10, 11) of 4, [12, 14) of 8, [-, 6) of 16 before the offset.
        let text = [
            line("5", "0", "10", "1", "-1"),
            line("10", "0", "15", "2", "-1"),
            line("15", "0", "1", "4", "-1"),
            line("17", "0", "2", "8", "-1"),
            line("0", "0", "11", "16", "-1"),
        ]
        .concat();
        let (_, jobs) = read(&text, Start::Allocated);
        let signal = signal(&jobs, Span::from_secs(5), Span::from_secs(5), 5);
        // t_k = 5, 10, 15, 20, 25: the job in [17, 19) falls between two of them.
        assert_eq!(signal, [17.0, 19.0, 6.0, 2.0, 0.0]);
    }

    proptest! {
        #[test]
        fn the_signal_is_what_its_definition_says(
            jobs in proptest::collection::vec((0..400_i64, 1..200_i64, 1..50_u32), 0..40),
            offset in -50..300_i64,
            step in 1..60_i64,
            steps in 0..30_usize,
        ) {
            let jobs: Vec<Job> = jobs
                .into_iter()
                .map(|(start, length, processors)| Job { start, end: start + length, processors, user: None })
                .collect();
            let by_definition: Vec<f64> = (0..steps as i64)
                .map(|k| offset + k * step)
                .map(|t| jobs.iter().filter(move |job| job.start <= t && t < job.end))
                .map(|running| f64::from(running.map(|job| job.processors).sum::<u32>()))
                .collect();
            let (offset, step) = (Span::from_micros(offset), Span::from_micros(step));
            prop_assert_eq!(signal(&jobs, offset, step, steps), by_definition);
        }

        #[test]
        fn no_line_is_lost(text in "([0-9.\\-; x]{0,6}[ \n\r\t]){0,80}") {
            let (summary, jobs) = read(&text, Start::Allocated);
            let seen = summary.comments + summary.skipped.total() + summary.damaged.count;
            prop_assert_eq!(summary.lines, seen + jobs.len() as u64);
            let lines = text.split('\n').filter(|line| !line.trim().is_empty()).count();
            prop_assert_eq!(summary.lines, lines as u64);
        }
    }
}
