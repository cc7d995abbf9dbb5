//! A list of things with the same columns, for people and for programs.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde_json::{Map, Value};

use crate::text::{line, printable};

/// Rows under a title; the keys of the JSON form are the columns.
pub(crate) struct Listing {
    pub(super) title: &'static str,
    columns: &'static [&'static str],
    rows: Vec<Vec<Value>>,
}

impl Listing {
    pub(crate) fn new(title: &'static str, columns: &'static [&'static str]) -> Self {
        Self { title, columns, rows: Vec::new() }
    }

    pub(crate) fn add<const N: usize>(&mut self, row: [Value; N]) {
        self.rows.push(row.into());
    }

    /// One object a row.
    pub(super) fn json(&self) -> Value {
        let object = |row: &Vec<Value>| {
            let pairs = self.columns.iter().zip(row);
            Value::Object(pairs.map(|(&key, value)| (key.to_owned(), value.clone())).collect())
        };
        self.rows.iter().map(object).collect()
    }

    /// A table, or that there is nothing.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.rows.is_empty() {
            return writeln!(out, "no {}", self.title);
        }
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.columns.iter().map(|column| column.replace('_', " ")));
        for row in &self.rows {
            table.add_row(row.iter().map(|value| printable(&text(value)).into_owned()));
        }
        for line in table.lines() {
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// One object with the keys of `about`, and a key for each list.
pub(super) fn object(mut about: Map<String, Value>, lists: &[Listing]) -> Value {
    about.extend(lists.iter().map(|list| (list.title.replace(' ', "_"), list.json())));
    Value::Object(about)
}

/// Prints lists one after another, or as one object with a key for each beside those of `about`.
pub(crate) fn print(
    about: Map<String, Value>,
    lists: &[Listing],
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if json {
        serde_json::to_writer_pretty(&mut *out, &object(about, lists))?;
        writeln!(out)?;
    } else {
        for (key, value) in &about {
            line(out, format_args!("{:<8} {}", key.replace('_', " "), text(value)))?;
        }
        for list in lists {
            writeln!(out)?;
            list.print(out)?;
        }
    }
    out.flush()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
