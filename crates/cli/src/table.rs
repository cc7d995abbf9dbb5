//! Results as a table with a summary, or as CSV.

use std::fmt;
use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use tenure_core::model::identity::Scheme;
use tenure_sim::scenario::{Network, Point, RequestSource, Scenario, ServiceManager, Workload};

use crate::experiments::{self, Setting};
use crate::run::Run;
use crate::text::printable;

/// How many runs the summary lists by their hashes.
const LISTED_RUNS: usize = 10;

/// Of how many types at most the table has a line for each.
const LISTED_TYPES: usize = 10;

/// How many actors of a kind the summary lists.
const LISTED_ACTORS: usize = 5;

/// How a value of a run is shown.
#[derive(Clone, Copy)]
enum Shape {
    Count,
    Fixed(usize),
    Percent,
    Seconds,
    Millis,
}

/// What the table shows of a run: the field, its heading, its shape.
const COLUMNS: [(&str, &str, Shape); 12] = [
    ("rmse", "rmse", Shape::Fixed(2)),
    ("requests", "requests", Shape::Count),
    ("refusals", "refusals", Shape::Count),
    ("setups", "setups", Shape::Count),
    ("extends", "extends", Shape::Count),
    ("fidelity", "fidelity", Shape::Fixed(4)),
    ("late", "late", Shape::Count),
    ("early", "early", Shape::Count),
    ("expired", "expired", Shape::Count),
    ("utilization", "used", Shape::Percent),
    ("mean_wait_s", "wait", Shape::Seconds),
    ("wall_s", "wall", Shape::Seconds),
];

/// What it shows of runs in which jobs are submitted and no demand is followed.
const COLUMNS_OF_JOBS: [(&str, &str, Shape); 10] = [
    ("requests", "jobs", Shape::Count),
    ("refusals", "refusals", Shape::Count),
    ("delayed", "delayed", Shape::Count),
    ("mean_wait_s", "wait", Shape::Seconds),
    ("slowdown", "slowdown", Shape::Fixed(2)),
    ("utilization", "used", Shape::Percent),
    ("fairness", "fairness", Shape::Fixed(3)),
    ("unit_flips", "moves", Shape::Count),
    ("messages", "messages", Shape::Count),
    ("wall_s", "wall", Shape::Seconds),
];

/// What it shows of runs with services.
const COLUMNS_OF_SERVICES: [(&str, &str, Shape); 8] = [
    ("moves", "moves", Shape::Count),
    ("swings", "swings", Shape::Count),
    ("lost_unit_s", "lost", Shape::Seconds),
    ("requests", "requests", Shape::Count),
    ("setups", "setups", Shape::Count),
    ("utilization", "used", Shape::Percent),
    ("messages", "messages", Shape::Count),
    ("wall_s", "wall", Shape::Seconds),
];

/// What it shows of runs with users, who ask now or never.
const COLUMNS_OF_NETWORKS: [(&str, &str, Shape); 10] = [
    ("asks", "asks", Shape::Count),
    ("granted_part", "granted", Shape::Percent),
    ("busy", "busy", Shape::Count),
    ("never", "never", Shape::Count),
    ("messages_per_request.mean", "messages", Shape::Fixed(2)),
    ("messages_per_request.p99", "p99", Shape::Count),
    ("hops.mean", "hops", Shape::Fixed(2)),
    ("answer_s.p99", "answer p99", Shape::Millis),
    ("utilization", "used", Shape::Percent),
    ("wall_s", "wall", Shape::Seconds),
];

/// What it shows of each service.
const COLUMNS_OF_SERVICE: [(&str, &str, Shape); 6] = [
    ("units_end", "units", Shape::Count),
    ("out_of_slo_s", "out of SLO", Shape::Seconds),
    ("jobs_done", "done", Shape::Count),
    ("jobs_waiting", "waiting", Shape::Count),
    ("mean_wait_s", "wait", Shape::Seconds),
    ("lost_unit_s", "lost", Shape::Seconds),
];

/// What it shows of each type, where there are several.
const COLUMNS_OF_TYPES: [(&str, &str, Shape); 4] = [
    ("units", "units", Shape::Count),
    ("leases", "leases", Shape::Count),
    ("utilization", "used", Shape::Percent),
    ("shortage", "shortage", Shape::Percent),
];

/// The columns for the runs of a scenario.
fn columns(points: &[Point]) -> &'static [(&'static str, &'static str, Shape)] {
    let managers = || points.iter().flat_map(|point| point.scenario.service_managers.values());
    if managers().any(|manager| !manager.services.is_empty()) {
        return &COLUMNS_OF_SERVICES;
    }
    if managers().any(ServiceManager::has_users) {
        return &COLUMNS_OF_NETWORKS;
    }
    if managers().all(ServiceManager::has_jobs) { &COLUMNS_OF_JOBS } else { &COLUMNS }
}

/// The fields of a run in the order of its JSON form.
pub(crate) struct Fields(Vec<(String, Value)>);

impl Fields {
    pub(crate) fn of(run: &Run) -> io::Result<Self> {
        Ok(serde_json::from_str(&serde_json::to_string(run)?)?)
    }

    /// A field, or a field of one, as `hops.mean`.
    pub(crate) fn get(&self, name: &str) -> &Value {
        let (first, rest) = name.split_once('.').unwrap_or((name, ""));
        let field = self.0.iter().find(|(field, _)| field == first);
        match (field, rest) {
            (None, _) => &Value::Null,
            (Some((_, value)), "") => value,
            (Some((_, value)), rest) => &value[rest],
        }
    }

    /// The names of the fields that are numbers, those of other fields included.
    pub(crate) fn numbers(&self) -> Vec<String> {
        let names = |(name, value): &(String, Value)| match value {
            Value::Number(_) => vec![name.clone()],
            Value::Object(fields) if name != "swept" => {
                let inner = fields.iter().filter(|(_, value)| value.is_number());
                inner.map(|(inner, _)| format!("{name}.{inner}")).collect()
            }
            Value::Object(_)
            | Value::Null
            | Value::Bool(_)
            | Value::String(_)
            | Value::Array(_) => Vec::new(),
        };
        self.0.iter().flat_map(names).collect()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a run")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// Prints one line for each run, then for each type where there are several, and what all runs have in
/// common.
pub(crate) fn print(points: &[Point], runs: &[Run], out: &mut dyn Write) -> io::Result<()> {
    let settings = experiments::settings(runs);
    if let Some(first) = settings.first() {
        of_settings(&settings, first, out)?;
        return summary(points, runs, out);
    }
    let swept = runs.first().map_or(&[][..], |run| &run.swept.0);
    let columns = columns(points);
    let mut header = headings(swept, columns);
    header.extend(columns.iter().map(|(_, heading, _)| (*heading).to_owned()));
    let (mut rows, mut of_types, mut of_services) = (Vec::new(), Vec::new(), Vec::new());
    for run in runs {
        let fields = Fields::of(run)?;
        let swept = || run.swept.0.iter().map(|(_, value)| value.clone());
        let of_run = columns.iter().map(|(field, _, shape)| cell(fields.get(field), *shape));
        rows.push(swept().chain(of_run).collect());
        for (resource, figures) in fields.get("types").as_object().into_iter().flatten() {
            let of_type = COLUMNS_OF_TYPES.iter();
            let of_type = of_type.map(|(field, _, shape)| cell(&figures[*field], *shape));
            of_types.push(swept().chain([resource.clone()]).chain(of_type).collect());
        }
        for service in fields.get("services").as_array().into_iter().flatten() {
            let of_service = COLUMNS_OF_SERVICE.iter();
            let of_service = of_service.map(|(field, _, shape)| cell(&service[*field], *shape));
            let name = service["name"].as_str().unwrap_or_default().to_owned();
            of_services.push(swept().chain([name]).chain(of_service).collect());
        }
    }
    lines(header, rows, out)?;
    if !of_services.is_empty() {
        let mut header = headings(swept, &COLUMNS_OF_SERVICE);
        header.push("service".to_owned());
        header.extend(COLUMNS_OF_SERVICE.iter().map(|(_, heading, _)| (*heading).to_owned()));
        lines(header, of_services, out)?;
    }
    if of_types.len() > runs.len() && of_types.len() <= LISTED_TYPES * runs.len() {
        let mut header = headings(swept, &COLUMNS_OF_TYPES);
        header.push("type".to_owned());
        header.extend(COLUMNS_OF_TYPES.iter().map(|(_, heading, _)| (*heading).to_owned()));
        lines(header, of_types, out)?;
    }
    summary(points, runs, out)
}

/// Prints a line for each setting of experiments, then what sets it apart: often more than fits into a column.
fn of_settings(
    settings: &[Setting<'_>],
    first: &Setting<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let users = settings.iter().flat_map(Setting::users).collect();
    let numbered = || (1..).zip(settings);
    let header = std::iter::once("setting".to_owned()).chain(experiments::headings(&users));
    let row = |(number, setting): (u32, &Setting<'_>)| {
        std::iter::once(number.to_string()).chain(setting.cells(&users)).collect()
    };
    lines(header.collect(), numbered().map(row).collect(), out)?;
    if first.swept.is_empty() {
        return Ok(());
    }
    for (number, setting) in numbered() {
        let keys = headings(&setting.swept, &[]);
        let pairs = keys.iter().zip(&setting.swept);
        let pairs: Vec<String> = pairs.map(|(key, (_, value))| format!("{key} {value}")).collect();
        writeln!(out, "{number:>7}  {}", printable(&pairs.join(", ")))?;
    }
    writeln!(out)
}

/// Prints a table, and an empty line after it.
fn lines(header: Vec<String>, rows: Vec<Vec<String>>, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell).into_owned()));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_cell_alignment(CellAlignment::Right);
        column.set_padding((if index == 0 { 0 } else { 2 }, 0));
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)
}

/// The last part of each swept key, where that distinguishes them.
fn headings(swept: &[(String, String)], columns: &[(&str, &str, Shape)]) -> Vec<String> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
    let short: Vec<String> = swept.iter().map(|(key, _)| last(key)).collect();
    let taken = |heading: &String| {
        short.iter().filter(|other| *other == heading).count() > 1
            || columns.iter().any(|(_, column, _)| column == heading)
    };
    let whole = swept.iter().map(|(key, _)| key.clone());
    short.iter().zip(whole).map(|(s, whole)| if taken(s) { whole } else { s.clone() }).collect()
}

fn cell(value: &Value, shape: Shape) -> String {
    let Some(number) = value.as_f64() else { return "-".to_owned() };
    match shape {
        Shape::Count => value.to_string(),
        Shape::Fixed(digits) => format!("{number:.digits$}"),
        Shape::Percent => format!("{:.1}%", number * 100.0),
        Shape::Seconds if number < 9.95 => format!("{number:.2}s"),
        Shape::Seconds => format!("{number:.0}s"),
        Shape::Millis => format!("{:.0}ms", number * 1000.0),
    }
}

fn summary(points: &[Point], runs: &[Run], out: &mut dyn Write) -> io::Result<()> {
    let Some(Point { swept, scenario, .. }) = points.first() else { return Ok(()) };
    let mut line = |label: &str, text: &str| writeln!(out, "{label:<9} {}", printable(text));
    line("scenario", &scenario.file)?;
    line("settings", &settings(scenario, swept))?;
    let sites = scenario.sites.iter();
    line(
        "sites",
        &list(sites.map(|(name, site)| {
            let stocks = site.stocks.iter();
            let stocks = stocks.map(|(resource, stock)| format!("{} {resource}", stock.units));
            format!("{name} {}", stocks.collect::<Vec<_>>().join(" and "))
        })),
    )?;
    line("brokers", &list(scenario.brokers.keys().map(ToString::to_string)))?;
    let managers = scenario.service_managers.iter().map(|(name, manager)| {
        let workload = match &manager.workload {
            Workload::Wave(_) if !manager.follows_demand() => "services",
            Workload::Wave(_) => "a generated wave",
            Workload::Log(log) => &log.file,
            Workload::CoAllocation(_) | Workload::Requests(RequestSource::Drawn(_)) => {
                "drawn requests"
            }
            Workload::Requests(RequestSource::Listed(_)) => "listed requests",
        };
        format!("{name} with {workload}")
    });
    line("guests", &list(managers))?;
    if let Some(faults) = faults(&scenario.network, swept) {
        line("network", &faults)?;
    }
    let mut total = Totals::default();
    for run in runs {
        total.add(&Fields::of(run)?, run.wall_s);
    }
    line("work", &total.to_string())?;
    let failures = runs.iter().filter_map(|run| Some((run, run.failure()?)));
    let failures: Vec<String> =
        failures.map(|(run, why)| format!("{} {why}", run.swept).trim_start().to_owned()).collect();
    match failures.len() {
        0 => line("runs", &format!("{}, complete", runs.len()))?,
        n => line("runs", &format!("{}, of which {n} did not complete", runs.len()))?,
    }
    for failure in failures.iter().take(LISTED_RUNS) {
        line("", failure)?;
    }
    if runs.len() > LISTED_RUNS {
        return line("journals", "the hash of each run is in -o json");
    }
    for (index, run) in runs.iter().enumerate() {
        let label = if index == 0 { "journals" } else { "" };
        line(label, format!("{} {}", run.report.journal_hash, run.swept).trim_end())?;
    }
    Ok(())
}

/// What all runs have in common; what is swept stands in the table.
fn settings(scenario: &Scenario, swept: &[(String, String)]) -> String {
    let signatures = match scenario.signatures {
        Scheme::Ed25519 => "ed25519",
        Scheme::None => "none",
    };
    let settings = [
        ("horizon", scenario.horizon.to_string()),
        ("step", scenario.step.to_string()),
        ("term", scenario.term.to_string()),
        ("capacity", scenario.capacity.to_string()),
        ("signatures", signatures.to_owned()),
        ("seed", scenario.seed.to_string()),
    ];
    let fixed = settings.iter().filter(|(key, _)| !swept.iter().any(|(swept, _)| swept == key));
    let fixed: Vec<String> = fixed.map(|(key, value)| format!("{key} {value}")).collect();
    fixed.join(", ")
}

/// The settings of message delivery, if any are set.
fn faults(network: &Network, swept: &[(String, String)]) -> Option<String> {
    let Network { delay, loss, duplicate, drop, .. } = network;
    let drop: Vec<&str> = drop.iter().map(String::as_str).collect();
    let faults = [
        ("delay", !delay.is_zero(), delay.to_string()),
        ("loss", *loss > 0.0, loss.to_string()),
        ("duplicate", *duplicate > 0.0, duplicate.to_string()),
        ("drop", !drop.is_empty(), drop.join(" and ")),
    ];
    let is_swept =
        |name: &str| swept.iter().any(|(key, _)| key.starts_with("message") && key.ends_with(name));
    let faults = faults.iter().filter(|(name, set, _)| *set && !is_swept(name));
    let faults: Vec<String> = faults.map(|(name, _, value)| format!("{name} {value}")).collect();
    (!faults.is_empty()).then(|| faults.join(", "))
}

fn list(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    if items.len() > LISTED_ACTORS {
        let more = items.len() - LISTED_ACTORS;
        items.truncate(LISTED_ACTORS);
        items.push(format!("and {more} more"));
    }
    items.join(", ")
}

/// The work of all runs together.
#[derive(Default)]
struct Totals {
    facts: u64,
    messages: u64,
    made: u64,
    checked: u64,
    wall_s: f64,
}

impl Totals {
    fn add(&mut self, run: &Fields, wall_s: f64) {
        let count = |field| run.get(field).as_u64().unwrap_or(0);
        self.facts += count("facts");
        self.messages += count("messages");
        self.made += count("signatures_made");
        self.checked += count("signatures_checked");
        self.wall_s += wall_s;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { facts, messages, made, checked, wall_s } = self;
        write!(f, "{facts} facts, {messages} messages, ")?;
        write!(f, "{made} signatures made and {checked} checked, in {wall_s:.2}s")
    }
}

/// Writes a header row and one row for each run: the swept keys, then all other fields.
pub(crate) fn csv(runs: &[Run], out: &mut dyn Write) -> io::Result<()> {
    let mut rows = csv::Writer::from_writer(out);
    for (index, run) in runs.iter().enumerate() {
        let swept = run.swept.0.iter().map(|(key, value)| (key.clone(), value.clone()));
        let is_swept = |name: &str| run.swept.0.iter().any(|(key, _)| key == name);
        let fields = Fields::of(run)?.0.into_iter();
        let fields = fields.filter(|(name, _)| name != "swept" && !is_swept(name));
        let (names, values): (Vec<String>, Vec<String>) =
            swept.chain(fields.map(|(name, value)| (name, text(&value)))).unzip();
        if index == 0 {
            rows.write_record(names)?;
        }
        rows.write_record(values.iter().map(|value| printable(value).into_owned()))?;
    }
    rows.flush()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join("; "),
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(key, value)| format!("{key}={}", text(value)));
            pairs.collect::<Vec<_>>().join("; ")
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swept(keys: &[&str]) -> Vec<(String, String)> {
        keys.iter().map(|key| ((*key).to_owned(), String::new())).collect()
    }

    #[test]
    fn headings_are_as_short_as_they_can_be() {
        assert_eq!(headings(&swept(&["term", "message.loss"]), &COLUMNS), ["term", "loss"]);
        let same = ["site.a.units", "site.b.units", "x.setups"];
        assert_eq!(headings(&swept(&same), &COLUMNS), same);
    }

    #[test]
    fn a_value_that_is_not_there_is_a_dash() {
        assert_eq!(cell(&Value::Null, Shape::Percent), "-");
        assert_eq!(cell(&0.5123.into(), Shape::Percent), "51.2%");
        assert_eq!(cell(&312.4.into(), Shape::Seconds), "312s");
        assert_eq!(cell(&0.25.into(), Shape::Seconds), "0.25s");
        assert_eq!(cell(&12.into(), Shape::Count), "12");
    }

    #[test]
    fn a_long_list_is_cut_short() {
        let items = |n: u32| list((0..n).map(|i| i.to_string()));
        assert_eq!(items(2), "0, 1");
        assert_eq!(items(7), "0, 1, 2, 3, 4, and 2 more");
    }
}
