//! What would have ended differently, for people and for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use tenure_core::model::time::Span;
use tenure_sim::fork::{Difference, Ended, Lease, Outcome, RequestVerdict, differences};
use tenure_sim::report::Report;

use super::Forked;
use crate::args::Format;
use crate::journal::listing::Listing;
use crate::moment;

pub(super) fn print(forked: &Forked, format: Format, out: &mut dyn Write) -> io::Result<()> {
    let found = differences(&forked.baseline.requests, &forked.other.requests);
    match format {
        Format::Table => table(forked, &found, out),
        Format::Json => {
            let rows: Value = found.iter().map(row).collect();
            let all = json!({
                "version": 1,
                "at": moment::show(forked.at),
                "changed": changed(forked),
                "baseline": baseline(forked),
                "times": forked.times,
                "requests": forked.baseline.requests.len(),
                "differences": rows,
                "totals": totals(forked).iter().map(Total::json).collect::<Value>(),
            });
            serde_json::to_writer_pretty(&mut *out, &all)?;
            writeln!(out)?;
            out.flush()
        }
        Format::Jsonl => {
            for difference in &found {
                serde_json::to_writer(&mut *out, &row(difference))?;
                writeln!(out)?;
            }
            out.flush()
        }
        Format::Csv => {
            let mut csv = csv::Writer::from_writer(out);
            csv.write_record(["request", "asked", "units", "resource", "as_it_was", "changed"])?;
            for difference in &found {
                csv.write_record(cells(difference))?;
            }
            csv.flush()
        }
    }
}

fn table(forked: &Forked, found: &[Difference<'_>], out: &mut dyn Write) -> io::Result<()> {
    let Forked { at, moments, facts, journals, inputs: (signals, requests), .. } = forked;
    let mut entry = |key: &str, value: &str| writeln!(out, "{key:<8}  {value}");
    let (at, last) = (moment::show(*at), moment::show(moments.last));
    entry(
        "forked",
        &format!("at {at}; {journals} journals with {facts} facts, the last at {last}"),
    )?;
    if forked.changed.is_empty() {
        entry("changed", "nothing")?;
    }
    for (who, was, now) in &forked.changed {
        entry("changed", &format!("{who}: {was} -> {now}"))?;
    }
    entry("inputs", &format!("{signals} signals and {requests} requests recorded after it"))?;
    for (nth, line) in forked.times.iter().enumerate() {
        entry(if nth == 0 { "times" } else { "" }, line)?;
    }
    entry("as was", &baseline(forked))?;
    writeln!(out)?;
    if found.is_empty() {
        writeln!(out, "nothing would have ended differently")?;
    } else {
        let columns = &["request", "asked", "wanted", "as_it_was", "changed"];
        let mut list = Listing::new("differences", columns);
        for difference in found {
            let [request, asked, units, resource, one, other] = cells(difference);
            let wanted = format!("{units} {resource}");
            list.add([request.into(), asked.into(), wanted.into(), one.into(), other.into()]);
        }
        list.print(out)?;
        writeln!(out, "\n{}", summary(forked, found))?;
    }
    let mut figures = Listing::new("figures", &["figure", "as_it_was", "changed", "difference"]);
    for Total { figure, shape, one, other } in totals(forked) {
        let show = |value: f64| shape.show(value);
        let sign = if other > one { "+" } else { "" };
        let difference = format!("{sign}{}", show(other - one));
        figures.add([figure.into(), show(one).into(), show(other).into(), difference.into()]);
    }
    writeln!(out)?;
    figures.print(out)?;
    out.flush()
}

fn changed(forked: &Forked) -> Value {
    let change = |(who, was, now): &(String, String, String)| json!({ "actor": who, "as_it_was": was, "changed": now });
    forked.changed.iter().map(change).collect()
}

/// How far the branch with the mappers as they were can be trusted to be what really happened.
fn baseline(forked: &Forked) -> String {
    let (alike, all) = (forked.as_recorded, forked.recorded);
    if forked.repeats {
        return "repeats the journals, fact for fact".to_owned();
    }
    format!("{alike} of {all} requests end as the journals have it")
}

/// How many requests ended differently, and in which way.
fn summary(forked: &Forked, found: &[Difference<'_>]) -> String {
    let mut ways: BTreeMap<String, usize> = BTreeMap::new();
    for Difference { one, other, .. } in found {
        let way = match (one, other) {
            (Some(_), None) => "not made".to_owned(),
            (None, _) => "made again".to_owned(),
            (Some(one), Some(other)) if one.verdict == other.verdict => {
                let sites =
                    |o: &Outcome| o.leases.iter().map(|l| l.site.clone()).collect::<Vec<_>>();
                let units = |o: &Outcome| o.leases.iter().map(|l| l.units).sum::<u32>();
                match () {
                    () if units(one) != units(other) => "with other units".to_owned(),
                    () if sites(one) != sites(other) => "at other sites".to_owned(),
                    () => "at other times".to_owned(),
                }
            }
            (Some(one), Some(other)) => {
                format!("{} instead of {}", verdict_text(other), verdict_text(one))
            }
        };
        *ways.entry(way).or_default() += 1;
    }
    let ways: Vec<String> = ways.into_iter().map(|(way, count)| format!("{count} {way}")).collect();
    let all = forked.baseline.requests.len();
    format!("{} of {all} requests would have ended differently: {}", found.len(), ways.join(", "))
}

fn verdict_text(outcome: &Outcome) -> &'static str {
    match outcome.verdict {
        RequestVerdict::Open => "open",
        RequestVerdict::Granted => "granted",
        RequestVerdict::Refused(_) => "refused",
        RequestVerdict::GivenUp => "given up",
    }
}

fn cells(difference: &Difference<'_>) -> [String; 6] {
    let Difference { name, one, other } = difference;
    let any = one.or(*other);
    let column = |outcome: &Option<&Outcome>| {
        outcome.map_or_else(|| "not asked".to_owned(), |outcome| describe(outcome, any))
    };
    // A request that is made in one branch alone has a number of that branch.
    let number = any.map(|o| o.number.to_string()).unwrap_or_default();
    let mark = if one.is_none() { "'" } else { "" };
    [
        format!("{name}/{number}{mark}"),
        any.map(|o| moment::show(o.asked)).unwrap_or_default(),
        any.map(|o| o.units.to_string()).unwrap_or_default(),
        any.map(|o| o.resource.clone()).unwrap_or_default(),
        column(one),
        column(other),
    ]
}

/// What became of a request, in a line; of what was wanted only where it is not what `like` wanted.
fn describe(outcome: &Outcome, like: Option<&Outcome>) -> String {
    let mut line = String::new();
    if like.is_some_and(|like| (like.units, like.duration) != (outcome.units, outcome.duration)) {
        line = format!("{} asked for {}: ", outcome.units, outcome.duration);
    }
    let leases = || outcome.leases.iter().map(|lease| of_lease(lease, outcome));
    line += &match outcome.verdict {
        RequestVerdict::Open => "no answer yet".to_owned(),
        RequestVerdict::Refused(why) => format!("refused: {why}"),
        RequestVerdict::GivenUp => "given up".to_owned(),
        RequestVerdict::Granted => leases().collect::<Vec<_>>().join(" + "),
    };
    line
}

fn of_lease(lease: &Lease, outcome: &Outcome) -> String {
    let Lease { site, units, start, end, .. } = lease;
    let ready = match lease.active {
        Some(active) => format!("after {}", active.since(outcome.earliest)),
        None => "never ready".to_owned(),
    };
    let ended = match lease.ended {
        Ended::Term => "",
        Ended::GivenBack => ", given back",
        Ended::BySite => ", closed by the site",
    };
    format!("{units} of {site} {ready} for {}{ended}", end.since(*start).max(Span::ZERO))
}

fn row(difference: &Difference<'_>) -> Value {
    let [request, asked, units, resource, ..] = cells(difference);
    json!({
        "request": request,
        "asked": asked,
        "units": units.parse::<u64>().ok(),
        "resource": resource,
        "as_it_was": difference.one.map(of_outcome),
        "changed": difference.other.map(of_outcome),
    })
}

fn of_outcome(outcome: &Outcome) -> Value {
    let lease = |lease: &Lease| {
        json!({
            "site": lease.site,
            "units": lease.units,
            "start": moment::show(lease.start),
            "ready": lease.active.map(moment::show),
            "wait_s": lease.active.map(|at| at.since(outcome.earliest).as_secs_f64()),
            "end": moment::show(lease.end),
            "ended": match lease.ended {
                Ended::Term => "term",
                Ended::GivenBack => "given-back",
                Ended::BySite => "closed-by-site",
            },
        })
    };
    let refusal = match outcome.verdict {
        RequestVerdict::Refused(why) => Some(why),
        RequestVerdict::Open | RequestVerdict::Granted | RequestVerdict::GivenUp => None,
    };
    json!({
        "number": outcome.number,
        "units": outcome.units,
        "verdict": verdict_text(outcome),
        "refusal": refusal,
        "leases": outcome.leases.iter().map(lease).collect::<Value>(),
    })
}

#[derive(Clone, Copy)]
enum Shape {
    Count,
    Fixed(usize),
    Percent,
    Seconds,
}

impl Shape {
    fn show(self, value: f64) -> String {
        match self {
            Self::Count => format!("{value:.0}"),
            Self::Fixed(digits) => format!("{value:.digits$}"),
            Self::Percent => format!("{:.1}%", value * 100.0),
            Self::Seconds => format!("{value:.2}s"),
        }
    }
}

/// A figure of both branches.
struct Total {
    figure: &'static str,
    shape: Shape,
    one: f64,
    other: f64,
}

impl Total {
    fn json(&self) -> Value {
        json!({ "figure": self.figure, "as_it_was": self.one, "changed": self.other })
    }
}

/// The figures of a run that follow from facts, in the order of `tenure emulate`.
fn totals(forked: &Forked) -> Vec<Total> {
    type Figure = (&'static str, Shape, fn(&Report) -> f64);
    let figures: [Figure; 9] = [
        ("rmse", Shape::Fixed(2), |report| report.rmse),
        ("requests", Shape::Count, |report| report.requests as f64),
        ("refusals", Shape::Count, |report| report.refusals as f64),
        ("setups", Shape::Count, |report| report.setups as f64),
        ("extends", Shape::Count, |report| report.extends as f64),
        ("unit flips", Shape::Count, |report| report.unit_flips as f64),
        ("fidelity", Shape::Fixed(4), |report| report.fidelity),
        ("used", Shape::Percent, |report| report.utilization),
        ("wait", Shape::Seconds, |report| report.mean_wait_s),
    ];
    let (one, other) = (&forked.baseline.report, &forked.other.report);
    let total =
        |(figure, shape, of): Figure| Total { figure, shape, one: of(one), other: of(other) };
    figures.map(total).into()
}
