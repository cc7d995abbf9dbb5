//! Reports as pictures of bars over time.

use std::fs;
use std::io;
use std::path::Path;

use tenure_core::model::time::Span;
use tenure_report::rows::{SloRow, UnitRow};
use tenure_sim::plot::{self, Bar};

use crate::error::Error;
use crate::moment;

/// Who held which unit.
pub(super) fn units(file: &Path, rows: &[UnitRow]) -> Result<(), Error> {
    let bars = rows.iter().map(|row| bar(row.unit.clone(), &row.holder, &row.begin, &row.lasted));
    draw(file, "units, by who held them", bars)
}

/// When SLOs were met.
pub(super) fn slos(file: &Path, rows: &[SloRow]) -> Result<(), Error> {
    let lane = |row: &SloRow| format!("{} {}", row.service, row.slo);
    let bars = rows.iter().map(|row| bar(lane(row), &row.state, &row.begin, &row.lasted));
    draw(file, "SLOs, by how they were judged", bars)
}

fn bar(lane: String, kind: &str, begin: &str, lasted: &str) -> Result<Bar, String> {
    let begin = moment::parse(begin)?;
    let lasted: Span = lasted.parse().map_err(|bad| format!("{bad}"))?;
    Ok(Bar { lane, kind: kind.to_owned(), begin, end: begin.plus(lasted) })
}

fn draw(
    file: &Path,
    title: &str,
    bars: impl Iterator<Item = Result<Bar, String>>,
) -> Result<(), Error> {
    let failed = |cause: String| Error::writing(file, io::Error::other(cause));
    let bars = bars.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let svg = plot::gantt(title, &bars).map_err(|error| failed(error.to_string()))?;
    fs::write(file, svg).map_err(|source| Error::writing(file, source))
}
