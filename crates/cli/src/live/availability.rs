//! `tenure broker availability`: what is free, as far as brokers disclose it.

use clap::Args;
use serde::Serialize;
use tenure_core::model::name::Name;
use tenure_core::model::resource::Expr;
use tenure_core::model::time::Span;
use tenure_node::api::moment::Moment;
use tenure_node::api::{AvailabilityRequest, AvailabilityView, FreeView, Request};

use super::args::{Endpoint, Output};
use super::{ask, print};
use crate::Console;
use crate::error::Error;
use crate::when;

/// Ask brokers what is free; nothing is booked, and nothing promised
#[derive(Debug, Args)]
pub(crate) struct AvailabilityArgs {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The broker [default: all that the service manager knows]
    broker: Option<Name>,
    /// For how long
    #[arg(long = "for", value_name = "TIME", default_value = "1h")]
    duration: Span,
    /// From when on: `now`, `now+10m`, `18:00`, `tomorrow 9:00 Europe/Rome`, or RFC 3339
    #[arg(long, value_name = "WHEN", default_value = "now", value_parser = when::read)]
    at: Moment,
    /// One type only
    #[arg(long = "type", value_name = "TYPE")]
    resource: Option<Name>,
    /// What must hold of the units: `cpus >= 8`
    #[arg(long = "where", value_name = "EXPR")]
    condition: Option<Expr>,
    /// How long brokers are waited for, at most 1m
    #[arg(long, value_name = "TIME", default_value = "5s")]
    within: Span,
    /// The service manager that asks
    #[arg(long = "as", value_name = "NAME")]
    manager: Option<Name>,
}

/// An entry of an answer with who gave it.
#[derive(Serialize)]
struct Row<'a> {
    broker: &'a str,
    discloses: &'a str,
    #[serde(flatten)]
    free: Option<&'a FreeView>,
}

impl print::Row for Row<'_> {
    const COLUMNS: &'static [&'static str] =
        &["broker", "type", "site", "free", "of", "price", "until"];

    fn cells(&self) -> Vec<String> {
        let dash = || "-".to_owned();
        let Some(free) = self.free else {
            let why = match self.discloses {
                "none" => "not disclosed",
                "no-answer" => "no answer",
                _ => "nothing",
            };
            return vec![
                self.broker.to_owned(),
                dash(),
                dash(),
                why.to_owned(),
                dash(),
                dash(),
                dash(),
            ];
        };
        let any = if free.any { "some" } else { "none" };
        vec![
            self.broker.to_owned(),
            free.resource.clone(),
            free.site.clone().unwrap_or_else(dash),
            free.free.map_or_else(|| any.to_owned(), |units| units.to_string()),
            free.units.map_or_else(dash, |units| units.to_string()),
            free.attributes.get("price").cloned().unwrap_or_else(dash),
            free.until.clone().unwrap_or_else(dash),
        ]
    }
}

/// `tenure broker availability`
pub(crate) fn availability(
    args: &AvailabilityArgs,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let request = Request::Availability(Box::new(AvailabilityRequest {
        manager: args.manager.clone(),
        broker: args.broker.clone(),
        resource: args.resource.clone(),
        condition: args.condition.clone(),
        start: args.at,
        duration: args.duration,
        within: Some(args.within),
    }));
    let said: Vec<AvailabilityView> = ask(&args.endpoint.data, &request)?;
    let rows: Vec<Row<'_>> = said.iter().flat_map(rows).collect();
    print::all(&said, &rows, args.endpoint.output, "no brokers", console)?;
    let more: u32 = said.iter().map(|broker| broker.more).sum();
    if more > 0 && args.endpoint.output == Output::Table {
        writeln!(console.err, "{more} more: name a type by `--type`, or a condition by `--where`")?;
    }
    Ok(())
}

fn rows(said: &AvailabilityView) -> Vec<Row<'_>> {
    let row = |free| Row { broker: &said.broker, discloses: &said.discloses, free };
    if said.free.is_empty() {
        return vec![row(None)];
    }
    said.free.iter().map(|free| row(Some(free))).collect()
}
