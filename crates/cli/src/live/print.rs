//! Tables of what a deployment answers, and the same as JSON and CSV.

use std::io;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

use super::args::Output;
use crate::Console;
use crate::error::Error;
use crate::text::printable;

/// Something that is one row of a table.
pub(crate) trait Row: Serialize {
    /// The names of the columns.
    const COLUMNS: &'static [&'static str];

    /// What stands in them.
    fn cells(&self) -> Vec<String>;
}

/// A cell for a value that may be missing.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// The version of what is printed as JSON; grows when a field goes or changes its meaning.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Versioned<'a, T> {
    version: u32,
    #[serde(flatten)]
    value: &'a T,
}

impl<'a, T> Versioned<'a, T> {
    fn of(value: &'a T) -> Self {
        Self { version: VERSION, value }
    }
}

/// Prints rows in the requested format; `empty` replaces an empty table.
pub(crate) fn rows<R: Row>(
    rows: &[R],
    output: Output,
    empty: &str,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    all(rows, rows, output, empty, console)
}

/// As [`rows`] for values of which the rows say only a part: JSON has the values, the rest the rows.
pub(crate) fn all<R: Row>(
    values: &[impl Serialize],
    rows: &[R],
    output: Output,
    empty: &str,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    match output {
        Output::Table if rows.is_empty() => writeln!(console.out, "{empty}")?,
        Output::Table => writeln!(console.out, "{}", table(rows, console.width))?,
        Output::Json => pretty(&values.iter().map(Versioned::of).collect::<Vec<_>>(), console)?,
        Output::Jsonl => values.iter().try_for_each(|value| line(value, console))?,
        Output::Csv => csv(rows, true, console)?,
    }
    Ok(console.out.flush()?)
}

/// As [`all`] for one value.
pub(crate) fn one<R: Row>(
    value: &impl Serialize,
    rows: &[R],
    output: Output,
    empty: &str,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    match output {
        Output::Json => Ok(pretty(&Versioned::of(value), console)?),
        Output::Table | Output::Jsonl | Output::Csv => {
            all(std::slice::from_ref(value), rows, output, empty, console)
        }
    }
}

/// Prints one value on one line.
pub(crate) fn line(value: &impl Serialize, console: &mut Console<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *console.out, &Versioned::of(value))?;
    writeln!(console.out)?;
    console.out.flush()
}

fn pretty(value: &impl Serialize, console: &mut Console<'_>) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *console.out, value)?;
    writeln!(console.out)
}

/// A table without lines, to be read by people: as wide as it needs, or as their terminal if that is known.
pub(crate) fn table<R: Row>(rows: &[R], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(R::COLUMNS.iter().map(|column| column.to_uppercase()));
    match width {
        Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table.add_rows(rows.iter().map(cells));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { 2 }, 0));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// The cells of a row as they can be shown.
fn cells<R: Row>(row: &R) -> Vec<String> {
    row.cells().iter().map(|cell| printable(cell).into_owned()).collect()
}

/// Prints rows with commas between, and the names of the columns above if there is a `head`.
pub(crate) fn csv<R: Row>(rows: &[R], head: bool, console: &mut Console<'_>) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(&mut *console.out);
    if head {
        writer.write_record(R::COLUMNS)?;
    }
    for row in rows {
        writer.write_record(cells(row))?;
    }
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Unit(&'static str, String);

    impl Row for Unit {
        const COLUMNS: &'static [&'static str] = &["unit", "properties"];

        fn cells(&self) -> Vec<String> {
            vec![self.0.to_owned(), self.1.clone()]
        }
    }

    #[test]
    fn a_table_is_no_wider_than_the_terminal_and_loses_nothing() {
        let words: Vec<String> = (0..30).map(|n| format!("host.name=main{n:02}")).collect();
        let rows = [Unit("alpha/u0", words.join(" ")), Unit("alpha/u1", "x".repeat(150))];
        let fitted = table(&rows, Some(60));
        assert!(fitted.lines().all(|line| line.chars().count() <= 60), "{fitted}");
        assert!(words.iter().all(|word| fitted.contains(word)), "{fitted}");
        assert_eq!(fitted.matches('x').count(), 150, "{fitted}");
        assert_eq!(table(&rows, None).lines().count(), 3, "elsewhere a row is a line");
    }

    #[test]
    fn a_cell_cannot_make_a_row_or_steer_the_terminal() {
        let rows = [Unit("alpha/u0", "a\nalpha/u1  \u{1b}[2Jfree\u{202e}".to_owned())];
        let shown = table(&rows, None);
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(shown.contains(r"a\nalpha/u1  \u{1b}[2Jfree\u{202e}"), "{shown}");
    }
}
