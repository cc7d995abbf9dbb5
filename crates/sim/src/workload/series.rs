//! Time series in CSV: the time in the first column, a value in another.

use csv::{ByteRecord, Reader, ReaderBuilder, Trim};
use tenure_core::model::time::Span;

use super::clock::Clock;
use super::error::WorkloadError;
use super::kind::Kind;
use super::number::{ONE, quote, refusal};
use super::summary::{Damage, Summary};

/// A sample: microseconds since the first one of its log, and the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    time: i64,
    value: f64,
}

/// What is wrong with a row: the column to blame (from 1), if it is one, and the cause.
type Fault = (Option<usize>, String);

pub(super) fn parse(
    file: &str,
    text: &[u8],
    column: Option<&str>,
) -> Result<(Summary, Vec<Sample>), WorkloadError> {
    let mut summary = Summary::new(Kind::Csv);
    let mut samples = Vec::new();
    let mut latest = i64::MIN;
    let mut layout: Option<Layout> = None;
    let mut reader = reader(text);
    let mut row = ByteRecord::new();
    let broken = |error: csv::Error| WorkloadError::unreadable(file, error.to_string());
    while reader.read_byte_record(&mut row).map_err(broken)? {
        if row.as_slice().is_empty() && row.len() == 1 {
            continue;
        }
        let lines = 1 + line_breaks(text_of(text, &row, &reader).trim_ascii_end());
        summary.lines += lines;
        let layout = match &mut layout {
            Some(layout) => layout,
            None => {
                let first = layout.insert(Layout::new(&row));
                if let Some(column) = column {
                    first.choose(file, line_of(text, &row), column)?;
                }
                if first.header {
                    summary.comments += lines;
                    continue;
                }
                first
            }
        };
        match layout.sample(&row, lines) {
            Ok(sample) => {
                summary.unordered += u64::from(sample.time < latest);
                latest = latest.max(sample.time);
                samples.push(sample);
            }
            Err((column, cause)) => summary.damaged.add(lines, || Damage {
                line: line_of(text, &row),
                column: column.map(|column| column as u64),
                cause,
            }),
        }
    }
    samples.sort_by_key(|sample| sample.time);
    let origin = samples.first().map_or(0, |first| first.time);
    for sample in &mut samples {
        sample.time -= origin;
    }
    summary.entries = samples.len() as u64;
    summary.last = Span::from_micros(samples.last().map_or(0, |last| last.time));
    if let Some(layout) = layout {
        summary.unix_start = match layout.clock {
            Some(Clock::Rfc3339 | Clock::DateTime) => Some(origin.div_euclid(ONE)),
            Some(Clock::Seconds) | None => None,
        };
        summary.column = layout.value.map(|index| layout.columns[index].clone());
        summary.columns = layout.columns;
    }
    Ok((summary, samples))
}

fn reader(text: &[u8]) -> Reader<&[u8]> {
    ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(text)
}

fn line_breaks(text: &[u8]) -> u64 {
    text.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Where a row begins; to the reader, it begins with the blank lines before it.
fn start_of(text: &[u8], row: &ByteRecord) -> usize {
    let start = row.position().map_or(0, |position| position.byte() as usize).min(text.len());
    let blank = text[start..].iter().take_while(|&&byte| byte == b'\n' || byte == b'\r').count();
    start + blank
}

/// The row just read, as it stands in the log.
fn text_of<'a>(text: &'a [u8], row: &ByteRecord, reader: &Reader<&[u8]>) -> &'a [u8] {
    let end = (reader.position().byte() as usize).min(text.len());
    &text[start_of(text, row).min(end)..end]
}

/// The line of a row, from 1.
fn line_of(text: &[u8], row: &ByteRecord) -> u64 {
    1 + line_breaks(&text[..start_of(text, row)])
}

/// The layout of a log, as far as its rows have shown it.
struct Layout {
    /// The names in the header row, or the numbers from 1.
    columns: Vec<String>,
    header: bool,
    /// The index of the value in a row.
    value: Option<usize>,
    clock: Option<Clock>,
}

impl Layout {
    /// The first row is a header if it begins neither with a time nor with what may be a damaged
    /// one.
    fn new(first: &ByteRecord) -> Self {
        let time = first.get(0).unwrap_or_default();
        let number_like = time.first().is_some_and(|byte| b"+-.0123456789".contains(byte));
        let header = !number_like && Clock::of(time).is_none();
        let column = |(index, name)| {
            if header {
                String::from_utf8_lossy(name).into_owned()
            } else {
                format!("{}", index + 1)
            }
        };
        let columns = first.iter().enumerate().map(column).collect();
        Self { columns, header, value: None, clock: None }
    }

    /// Sets the value to the column of this name, or of this number from 1.
    fn choose(&mut self, file: &str, line: u64, column: &str) -> Result<(), WorkloadError> {
        let by_name = || self.columns.iter().skip(1).position(|name| name == column);
        let by_number = || column.parse::<usize>().ok()?.checked_sub(2);
        let chosen = by_name().or_else(by_number).map(|after_time| after_time + 1);
        self.value = chosen.filter(|&index| index < self.columns.len());
        if self.value.is_some() {
            return Ok(());
        }
        Err(WorkloadError::UnknownColumn {
            file: file.to_owned(),
            line,
            column: column.to_owned(),
            known: self.columns.iter().skip(1).cloned().collect(),
        })
    }

    fn sample(&mut self, row: &ByteRecord, lines: u64) -> Result<Sample, Fault> {
        if lines > 1 {
            return Err((None, format!("a quoted field spans {lines} lines")));
        }
        let width = self.columns.len();
        if row.len() != width {
            return Err((None, format!("column count is {}, not {width}", row.len())));
        }
        let time = self.time(&row[0]).map_err(|cause| (Some(1), cause))?;
        let first_number = || (1..width).find(|&index| number(&row[index]).is_some());
        let Some(index) = self.value.or_else(first_number) else {
            return Err((None, "no number beside the time".to_owned()));
        };
        let value = number(&row[index]).ok_or_else(|| (Some(index + 1), refusal(&row[index])))?;
        self.value = Some(index);
        Ok(Sample { time, value })
    }

    fn time(&mut self, field: &[u8]) -> Result<i64, String> {
        match self.clock {
            Some(clock) => clock
                .read(field)
                .ok_or_else(|| format!("{} is not a time like those before", quote(field))),
            None => {
                let (clock, time) =
                    Clock::of(field).ok_or_else(|| format!("{} is not a time", quote(field)))?;
                self.clock = Some(clock);
                Ok(time)
            }
        }
    }
}

fn number(field: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(field).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// The mean of the samples in [t_k, t_k + step) for the first `steps` steps; a step without any
/// repeats the value of the step before it. Before the first of them it is the last sample's, or zero.
pub(super) fn signal(samples: &[Sample], offset: Span, step: Span, steps: usize) -> Vec<f64> {
    let before = samples.partition_point(|sample| sample.time < offset.as_micros());
    let (past, mut rest) = samples.split_at(before);
    let mut last = past.last().map_or(0.0, |sample| sample.value);
    let mut end = offset;
    let mut mean = || {
        end = end.plus(step);
        let (within, after) =
            rest.split_at(rest.partition_point(|sample| sample.time < end.as_micros()));
        rest = after;
        if !within.is_empty() {
            last = within.iter().map(|sample| sample.value).sum::<f64>() / within.len() as f64;
        }
        last
    };
    (0..steps).map(|_| mean()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> (Summary, Vec<Sample>) {
        parse("a.csv", text.as_bytes(), None).unwrap()
    }

    fn pairs(samples: &[Sample]) -> Vec<(i64, f64)> {
        samples.iter().map(|sample| (sample.time / ONE, sample.value)).collect()
    }

    fn damage(summary: &Summary) -> Vec<String> {
        summary.damaged.examples.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn times_are_rfc_3339_or_date_and_time_or_seconds() {
        for (text, unix_start) in [
            ("1970-01-02T01:00:00+01:00,1\n1970-01-02T00:01:00.0Z,2\n", Some(86_400)),
            ("1970-01-02 00:00:00,1\n1970-01-02 00:01:00,2\n", Some(86_400)),
            ("1970-01-02T00:00:00,1\n1970-01-02T00:01:00.000,2\n", Some(86_400)),
            ("86400,1\n86460.0,2\n", None),
        ] {
            let (summary, samples) = read(text);
            assert_eq!(pairs(&samples), [(0, 1.0), (60, 2.0)], "{text}");
            assert_eq!(summary.unix_start, unix_start, "{text}");
            assert_eq!((summary.lines, summary.comments), (2, 0), "{text}");
            assert_eq!(summary.last, Span::MINUTE, "{text}");
        }
    }

    #[test]
    fn the_value_is_the_first_numeric_column_unless_chosen() {
        let text = "\u{feff}when, host ,cpu,memory\n0,a,\"1\",10\r\n\r\n60,b,2,20\r\n";
        let column = |column| {
            let (summary, samples) = parse("a.csv", text.as_bytes(), column).unwrap();
            assert_eq!((summary.lines, summary.comments, summary.entries), (3, 1, 2));
            assert_eq!(summary.columns, ["when", "host", "cpu", "memory"]);
            (summary.column.unwrap(), samples[1].value)
        };
        assert_eq!(column(None), ("cpu".to_owned(), 2.0));
        assert_eq!(column(Some("memory")), ("memory".to_owned(), 20.0));
        assert_eq!(column(Some("4")), ("memory".to_owned(), 20.0));
    }

    #[test]
    fn an_unknown_column_is_an_error_that_lists_the_known_ones() {
        let error = |text: &str, column| {
            parse("a.csv", text.as_bytes(), Some(column)).unwrap_err().to_string()
        };
        let text = "\ntime,cpu,memory\n0,1,2\n";
        for column in ["disk", "time", "0", "1", "4"] {
            assert_eq!(
                error(text, column),
                format!("log `a.csv`, line 2: no value column `{column}`; known: cpu, memory")
            );
        }
        assert_eq!(
            error("0,1,2\n", "cpu"),
            "log `a.csv`, line 1: no value column `cpu`; known: 2, 3"
        );
        assert_eq!(
            error("time\n0\n", "cpu"),
            "log `a.csv`, line 1: no value column `cpu`; the log has no column but the time"
        );
    }

    #[test]
    fn damaged_rows_are_counted_and_shown_with_line_column_and_cause() {
        let text = "time,cpu\n\n0,1\n60\n120,x\n  \nlater,3\n2020-01-01 00:00:00,4\n300,\n9,NaN\n";
        let (summary, samples) = read(text);
        assert_eq!(pairs(&samples), [(0, 1.0)]);
        assert_eq!((summary.lines, summary.comments, summary.damaged.count), (8, 1, 6));
        assert_eq!(
            damage(&summary),
            [
                "line 4: column count is 1, not 2",
                "line 5, column 2: `x` is not a number",
                "line 7, column 1: `later` is not a time like those before",
                "line 8, column 1: `2020-01-01 00:00:00` is not a time like those before",
                "line 9, column 2: is empty",
            ]
        );
    }

    #[test]
    fn a_damaged_first_row_is_no_header() {
        let (summary, samples) = read("2020-13-01 00:00:00,1\n2020-12-01 00:00:00,2\n");
        assert_eq!(damage(&summary), ["line 1, column 1: `2020-13-01 00:00:00` is not a time"]);
        assert_eq!(samples.len(), 1);
    }

    #[test]
    fn the_lines_behind_an_open_quote_are_damaged_not_lost() {
        let (summary, samples) = read("0,1\n60,\"\n2\"\n120,\"3\n180,4\n");
        assert_eq!(pairs(&samples), [(0, 1.0)]);
        assert_eq!((summary.lines, summary.damaged.count), (5, 4));
        assert_eq!(
            damage(&summary),
            ["line 2: a quoted field spans 2 lines", "line 4: a quoted field spans 2 lines",]
        );
    }

    #[test]
    fn rows_out_of_order_are_counted_and_sorted_in() {
        let (summary, samples) = read("60,2\n0,1\n120,3\n90,4\n");
        assert_eq!(pairs(&samples), [(0, 1.0), (60, 2.0), (90, 4.0), (120, 3.0)]);
        assert_eq!((summary.unordered, summary.entries), (2, 4));
    }

    #[test]
    fn a_signal_worked_out_by_hand() {
        let (_, samples) = read("0,2\n30,4\n60,10\n200,7\n");
        let secs = Span::from_secs;
        let signal = |offset, steps| signal(&samples, secs(offset), secs(60), steps);
        // [0, 60) holds 2 and 4, [60, 120) holds 10, [120, 180) nothing, [180, 240) holds 7.
        assert_eq!(signal(0, 6), [3.0, 10.0, 10.0, 7.0, 7.0, 7.0]);
        // [31, 91) holds 10; nothing before 151; [151, 211) holds 7.
        assert_eq!(signal(31, 3), [10.0, 10.0, 7.0]);
        // Nothing in [70, 130): the last sample before is 10.
        assert_eq!(signal(70, 1), [10.0]);
        assert_eq!(signal(-60, 2), [0.0, 3.0]);
    }

    proptest! {
        #[test]
        fn the_signal_is_what_its_definition_says(
            values in proptest::collection::btree_map(0..300_i64, -9..9_i32, 0..40),
            offset in -50..300_i64,
            step in 1..40_i64,
            steps in 0..30_usize,
        ) {
            let samples: Vec<Sample> =
                values.iter().map(|(&time, &value)| Sample { time, value: value.into() }).collect();
            let by_definition = |k: usize| {
                let t = offset + k as i64 * step;
                let within: Vec<_> = values.range(t..t + step).map(|(_, &v)| f64::from(v)).collect();
                (!within.is_empty()).then(|| within.iter().sum::<f64>() / within.len() as f64)
            };
            let before = values.range(..offset).next_back().map_or(0.0, |(_, &v)| f64::from(v));
            let latest = |k: usize| (0..=k).rev().find_map(by_definition).unwrap_or(before);
            let expected: Vec<f64> = (0..steps).map(latest).collect();
            let (offset, step) = (Span::from_micros(offset), Span::from_micros(step));
            prop_assert_eq!(signal(&samples, offset, step, steps), expected);
        }

        #[test]
        fn no_row_is_lost(text in "([0-9.a;x\"]{0,4}[,\n\r ]){0,80}") {
            let (summary, samples) = read(&text);
            let seen = summary.comments + summary.damaged.count + samples.len() as u64;
            prop_assert_eq!(summary.lines, seen);
            if !text.contains('"') {
                let lines = text.split(['\n', '\r']).filter(|line| !line.trim().is_empty());
                prop_assert_eq!(summary.lines, lines.count() as u64);
            }
        }
    }
}
