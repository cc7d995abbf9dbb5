//! `tenure report` and `tenure sla`: reports on services, from journals or of a running deployment.

mod args;
mod gantt;
mod print;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use tenure_node::api::{ReportRequest, Request};
use tenure_node::report::history;
use tenure_report::rows::{BreachRow, KpiRow, MoveRow, NeedRow, OrderRow, SlaRow, SloRow, UnitRow};
use tenure_report::{History, Query, Report};

pub(crate) use self::args::{ReportCommand, SlaCommand};
use self::args::{SlaReportArgs, SlaShowArgs, Source, TimelineArgs, UnitsArgs};
use self::print::{Columns, rows};
use crate::Console;
use crate::error::Error;
use crate::journal::paths;
use crate::live::args::Output;
use crate::live::ask;
use crate::text::line;

/// `tenure report`
pub(crate) fn report(command: &ReportCommand, console: &mut Console<'_>) -> Result<(), Error> {
    match command {
        ReportCommand::Kpi(args) => {
            show::<KpiRow>((Report::Kpi, History::kpi), args.query(), &args.source, console)
        }
        ReportCommand::Slo(TimelineArgs { rows: args, svg }) => {
            let found = fetch::<SloRow>((Report::Slo, History::slo), args.query(), &args.source)?;
            svg.as_ref().map_or(Ok(()), |file| gantt::slos(file, &found))?;
            rows(&found, &args.source, console)
        }
        ReportCommand::Needs(args) => {
            show::<NeedRow>((Report::Needs, History::needs), args.query(), &args.source, console)
        }
        ReportCommand::Orders(args) => {
            show::<OrderRow>((Report::Orders, History::orders), args.query(), &args.source, console)
        }
        ReportCommand::Moves(args) => {
            show::<MoveRow>((Report::Moves, History::moves), args.query(), &args.source, console)
        }
        ReportCommand::Units(UnitsArgs { timeline: TimelineArgs { rows: args, svg }, kind }) => {
            let of = (Report::Units, History::units as Fold<UnitRow>);
            let mut found = fetch(of, args.query(), &args.source)?;
            found.retain(|row| kind.is_none_or(|kind| kind.word() == row.kind));
            svg.as_ref().map_or(Ok(()), |file| gantt::units(file, &found))?;
            rows(&found, &args.source, console)
        }
        ReportCommand::Sla(args) => slas(args, console),
    }
}

/// `tenure sla`
pub(crate) fn sla(command: &SlaCommand, console: &mut Console<'_>) -> Result<(), Error> {
    match command {
        SlaCommand::List(args) => {
            show::<SlaRow>((Report::Sla, History::sla), args.query(), &args.source, console)
        }
        SlaCommand::Show(args) => show_sla(args, console),
    }
}

/// What folds the facts to rows.
type Fold<R> = fn(&History, &Query) -> Vec<R>;

/// The rows of a report: of journals, if any are named, else of the running deployment.
fn fetch<R: DeserializeOwned>(
    (report, fold): (Report, Fold<R>),
    query: Query,
    source: &Source,
) -> Result<Vec<R>, Error> {
    if source.paths.is_empty() {
        return ask(&source.endpoint.data, &Request::Report(Box::new(request(report, query))));
    }
    let journals = paths::journals(&source.paths)?;
    Ok(fold(&history(&journals, BTreeMap::new(), None)?, &query))
}

fn request(report: Report, query: Query) -> ReportRequest {
    let Query { service, guest, resource, kpi, since, until, at } = query;
    let service = service.map(|service| args::named(guest, service));
    let moment = args::moment;
    let (since, until, at) = (since.map(moment), until.map(moment), at.map(moment));
    ReportRequest { report, service, resource, kpi, since, until, at }
}

fn show<R: DeserializeOwned + Columns>(
    of: (Report, Fold<R>),
    query: Query,
    source: &Source,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    rows(&fetch(of, query, source)?, source, console)
}

/// How SLAs stand, or only their breaches.
fn slas(args: &SlaReportArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let found = fetch::<SlaRow>((Report::Sla, History::sla), args.query(), &args.source)?;
    if !args.breaches {
        return rows(&found, &args.source, console);
    }
    let breaches: Vec<BreachRow> = found.into_iter().flat_map(|sla| sla.breaches).collect();
    rows(&breaches, &args.source, console)
}

/// The SLAs of a service with their breaches.
fn show_sla(args: &SlaShowArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let mut found = fetch::<SlaRow>((Report::Sla, History::sla), args.query(), &args.source)?;
    found.retain(|row| args.sla.as_ref().is_none_or(|sla| sla.as_str() == row.sla));
    if found.is_empty() {
        let (service, sla) = (&args.service, args.sla.as_ref());
        let sla = sla.map_or_else(|| "SLA".to_owned(), |sla| format!("SLA `{sla}`"));
        return Err(Error::NoSla(format!("`{service}` has no {sla}")));
    }
    if args.source.endpoint.output != Output::Table {
        return rows(&found, &args.source, console);
    }
    for (nth, row) in found.iter().enumerate() {
        if nth > 0 {
            writeln!(console.out)?;
        }
        show_one(row, console)?;
        if !row.breaches.is_empty() {
            writeln!(console.out)?;
            rows(&row.breaches, &args.source, console)?;
        }
    }
    Ok(console.out.flush()?)
}

fn show_one(row: &SlaRow, console: &mut Console<'_>) -> Result<(), Error> {
    let SlaRow { service, sla, slos, target, state, share, .. } = row;
    let met = match share {
        Some(share) => format!("met {} of the time of which that is known", print::percent(*share)),
        None => "nothing is known of its time yet".to_owned(),
    };
    let lines = [
        ("sla", format!("{service} {sla}: {} met {target} of the time", slos.join(" and "))),
        ("window", format!("{} to {}", row.begin, row.end)),
        ("state", format!("{state}: {met}")),
        ("time", format!("met {}, missed {}, unknown {}", row.met, row.missed, row.unknown)),
        ("budget", format!("{}, of which {} is left", row.budget, row.left)),
    ];
    for (word, says) in lines {
        line(console.out, format_args!("{word:<7} {says}"))?;
    }
    Ok(())
}
