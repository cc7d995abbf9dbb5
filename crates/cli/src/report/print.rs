//! The rows of reports as tables, which show the columns that matter most, and as CSV and JSON, which have all.

use serde::Serialize;
use serde_json::Value;
use tenure_report::rows::{BreachRow, KpiRow, MoveRow, NeedRow, OrderRow, SlaRow, SloRow, UnitRow};

use super::args::Source;
use crate::Console;
use crate::error::Error;
use crate::live::args::Output;
use crate::live::print::{self, Row};

/// What has columns, which are fields of its JSON.
pub(super) trait Columns: Serialize {
    /// All, in the order of CSV.
    const ALL: &'static [&'static str];
    /// Those of a table.
    const SHOWN: &'static [&'static str] = Self::ALL;
    /// The line that is printed if there are no rows.
    const EMPTY: &'static str;
}

/// Prints rows as their source says.
pub(super) fn rows<R: Columns>(
    rows: &[R],
    source: &Source,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let output = source.endpoint.output;
    if output == Output::Csv {
        let whole: Vec<Whole<'_, R>> = rows.iter().map(Whole).collect();
        return print::rows(&whole, output, R::EMPTY, console);
    }
    let short: Vec<Short<'_, R>> = rows.iter().map(Short).collect();
    print::all(rows, &short, output, R::EMPTY, console)
}

/// A row of CSV.
#[derive(Serialize)]
struct Whole<'a, R>(&'a R);

impl<R: Columns> Row for Whole<'_, R> {
    const COLUMNS: &'static [&'static str] = R::ALL;

    fn cells(&self) -> Vec<String> {
        cells(self.0, R::ALL, |_, value| text(value, ""))
    }
}

/// A row of a table.
#[derive(Serialize)]
struct Short<'a, R>(&'a R);

impl<R: Columns> Row for Short<'_, R> {
    const COLUMNS: &'static [&'static str] = R::SHOWN;

    fn cells(&self) -> Vec<String> {
        cells(self.0, R::SHOWN, |column, value| match value.as_f64() {
            Some(share) if column == "share" => percent(share),
            Some(_) | None => text(value, "-"),
        })
    }
}

fn cells<R: Columns>(
    row: &R,
    columns: &[&str],
    cell: impl Fn(&str, &Value) -> String,
) -> Vec<String> {
    let fields = serde_json::to_value(row).unwrap_or_default();
    columns.iter().map(|column| cell(column, &fields[column])).collect()
}

/// A value as a cell; of steps of a demand, how many units at which urgency.
fn text(value: &Value, missing: &str) -> String {
    match value {
        Value::Null => missing.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => missing.to_owned(),
        Value::Array(items) => {
            let separator = if items.iter().all(Value::is_string) { " " } else { ", " };
            items.iter().map(|item| text(item, missing)).collect::<Vec<_>>().join(separator)
        }
        Value::Object(step) => {
            let of = |key: &str| step.get(key).map(|value| text(value, missing));
            format!("{} at {}", of("units").unwrap_or_default(), of("urgency").unwrap_or_default())
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// A share of time, as finely as a target can be set.
pub(super) fn percent(share: f64) -> String {
    format!("{:.3}%", share * 100.0)
}

impl Columns for KpiRow {
    const ALL: &'static [&'static str] = &["at", "service", "state", "kpi", "value"];
    const EMPTY: &'static str = "nothing was measured";
}

impl Columns for SloRow {
    const ALL: &'static [&'static str] =
        &["service", "slo", "type", "state", "begin", "end", "lasted", "rule"];
    const SHOWN: &'static [&'static str] =
        &["service", "slo", "state", "begin", "end", "lasted", "rule"];
    const EMPTY: &'static str = "no SLO was judged";
}

impl Columns for NeedRow {
    const ALL: &'static [&'static str] =
        &["at", "broker", "service", "type", "where", "wanted", "steps", "tickets", "elsewhere"];
    const SHOWN: &'static [&'static str] =
        &["at", "broker", "service", "type", "where", "wanted", "steps"];
    const EMPTY: &'static str = "no broker was told anything";
}

impl Columns for OrderRow {
    const ALL: &'static [&'static str] = &[
        "order", "state", "units", "type", "from", "to", "worth", "claim", "placed", "recalled",
        "due", "freed", "ended", "reason",
    ];
    const SHOWN: &'static [&'static str] =
        &["order", "state", "units", "type", "from", "to", "placed", "freed", "ended"];
    const EMPTY: &'static str = "no orders";
}

impl Columns for MoveRow {
    const ALL: &'static [&'static str] = &["at", "type", "from", "to", "units", "order", "by"];
    const EMPTY: &'static str = "no units were moved";
}

impl Columns for UnitRow {
    const ALL: &'static [&'static str] =
        &["unit", "type", "holder", "kind", "lease", "begin", "end", "lasted"];
    const EMPTY: &'static str = "no units were held";
}

impl Columns for SlaRow {
    const ALL: &'static [&'static str] = &[
        "service", "sla", "slos", "target", "state", "share", "met", "missed", "unknown", "budget",
        "left", "begin", "end",
    ];
    const SHOWN: &'static [&'static str] =
        &["service", "sla", "target", "state", "share", "missed", "left", "unknown"];
    const EMPTY: &'static str = "no SLAs; a service has them in its definition, as `sla`";
}

impl Columns for BreachRow {
    const ALL: &'static [&'static str] =
        &["service", "sla", "begin", "end", "lasted", "slos", "why"];
    const SHOWN: &'static [&'static str] = &["begin", "end", "lasted", "slos", "why"];
    const EMPTY: &'static str = "no breaches";
}
