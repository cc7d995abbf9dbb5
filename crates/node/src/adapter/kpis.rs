//! KPIs as programs print them.
//!
//! A line is `name{label="x"} value`, as Prometheus has it, or `name=value`, as `tenure service report` takes it.

use std::collections::BTreeMap;

use tenure_core::model::name::Name;
use tenure_core::service::kpi::{Kpi, Kpis};
use tenure_core::service::member::Members;
use tenure_expr::{Dimension, Quantity};

/// The ending of names of Prometheus that makes a value a length of time.
const SECONDS: &str = "_seconds";

/// What says how much would be lost of a unit that is at work: `unit_busy{unit="MARK"} 7200`.
const UNIT_BUSY: &str = "unit-busy";

/// What says whether a member without a lease is up: `member_up{member="node1"} 1`.
const MEMBER_UP: &str = "member-up";

/// What a program has printed.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) kpis: Kpis,
    /// The marks of the units that are at work, and how much would be lost of each.
    pub(crate) busy: BTreeMap<String, u64>,
    /// What takes part without a lease.
    pub(crate) members: Members,
}

impl Read {
    /// Takes what a line says.
    fn take(&mut self, kpi: Kpi, value: Quantity) -> Result<(), String> {
        let is = value.millionths() > 0;
        if let Some(mark) = kpi.label("unit").filter(|_| kpi.name().as_str() == UNIT_BUSY) {
            // Whatever is lost counts, be it less than one.
            let work = value.millionths().div_euclid(1_000_000);
            let work = u64::try_from(work).unwrap_or_default().max(1);
            self.busy.extend(is.then(|| (mark.to_owned(), work)));
            return Ok(());
        }
        if let Some(name) = kpi.label("member").filter(|_| kpi.name().as_str() == MEMBER_UP) {
            return self.members.insert(name, is).map_err(|bad| bad.to_string());
        }
        if self.kpis.iter().any(|(known, _)| *known == kpi) {
            return Err(format!("{kpi} is there already"));
        }
        let taken = self.kpis.insert(kpi, value);
        taken.then_some(()).ok_or_else(|| format!("there are {} KPIs at most", Kpis::MAX_COUNT))
    }
}

/// Labels with their values.
type Labels = Vec<(String, String)>;

/// Reads all lines.
///
/// # Errors
/// The first line that is no KPI, with its number and what is wrong.
pub(crate) fn read(text: &str) -> Result<Read, String> {
    let mut read = Read::default();
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |why: String| {
            let line: String = line.chars().take(100).collect();
            format!("line {number} (`{}`): {why}", line.escape_debug())
        };
        let Some((kpi, value)) = of(line.trim()).map_err(wrong)? else { continue };
        read.take(kpi, value).map_err(wrong)?;
    }
    Ok(read)
}

/// The KPI of a line; none of a comment, an empty line, or one that has no value (`NaN`).
fn of(line: &str) -> Result<Option<(Kpi, Quantity)>, String> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let end = line.find(|c: char| c == '{' || c == '=' || c.is_whitespace()).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let rest = rest.trim_start();
    let (name, value) = match rest.strip_prefix('=') {
        Some(value) => (name.to_owned(), quantity(value.trim())?),
        None => {
            // A time may follow the value: what is reported is what is so now.
            let value = rest.split_whitespace().next().ok_or("the value is missing")?;
            let (name, dimension) = match name.strip_suffix(SECONDS) {
                Some(name) => (name, Dimension::Duration),
                None => (name, Dimension::Number),
            };
            let Some(value) = number(value, dimension)? else { return Ok(None) };
            (plain(name), value)
        }
    };
    let mut kpi = Kpi::plain(Name::new(&name).map_err(|error| error.to_string())?);
    for (label, value) in labels {
        let label = Name::new(&plain(&label)).map_err(|error| error.to_string())?;
        kpi = kpi.with(label, &value).map_err(|error| error.to_string())?;
    }
    Ok(Some((kpi, value)))
}

/// A name of Prometheus as KPIs have it.
fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', ':'], "-")
}

/// The labels behind an opening brace, and what follows the closing one.
fn labels(mut text: &str) -> Result<(Labels, &str), String> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        if let Some(rest) = text.strip_prefix('}') {
            return Ok((labels, rest));
        }
        let (label, rest) = text.split_once('=').ok_or("a label has no value")?;
        let rest =
            rest.trim_start().strip_prefix('"').ok_or("the value of a label has no quotes")?;
        let (value, rest) = quoted(rest).ok_or("the value of a label does not end")?;
        labels.push((label.trim().to_owned(), value));
        text = rest;
    }
}

/// The text up to a quote, with what is escaped, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            c => value.push(c),
        }
    }
    None
}

fn quantity(value: &str) -> Result<Quantity, String> {
    Quantity::try_from(value.to_owned()).map_err(|error| error.to_string())
}

/// A number of Prometheus, rounded to a millionth; none of `NaN`.
fn number(text: &str, dimension: Dimension) -> Result<Option<Quantity>, String> {
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if value.is_nan() {
        return Ok(None);
    }
    // What is too large saturates, and is refused below.
    let millionths = (value * 1e6).round() as i128;
    let quantity = Quantity::from_millionths(millionths, dimension);
    quantity.map(Some).ok_or_else(|| format!("`{text}` is too large"))
}
