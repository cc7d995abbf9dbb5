//! The rows of CSV files that a scenario names.

use csv::{ReaderBuilder, Trim};
use serde::de::DeserializeOwned;

/// The rows behind the header, each with its line.
pub(super) fn rows<T: DeserializeOwned>(text: &str) -> Result<Vec<(u64, T)>, String> {
    let mut reader =
        ReaderBuilder::new().trim(Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = record.deserialize(Some(&headers));
        rows.push((line, row.map_err(|error| format!("line {line}: {}", cause(&error)))?));
    }
    Ok(rows)
}

/// What is wrong with a row. Its line is reported separately.
fn cause(error: &csv::Error) -> String {
    if let csv::ErrorKind::Deserialize { err, .. } = error.kind() {
        return err.to_string();
    }
    error.to_string()
}
