//! `tenure service plan`: what a definition would come to.

use std::path::Path;

use tenure_node::api::{PlannedService, PlannedStep, Request, ServicePlanView};

use super::super::args::Output;
use super::super::{ask, print, up};
use super::{PlanArgs, definition};
use crate::Console;
use crate::error::Error;
use crate::text;

pub(super) fn plan(args: &PlanArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let PlanArgs { endpoint, service, file, within } = args;
    let within = *within;
    let request = match service.clone() {
        Some(service) => Request::PlanService { service, definition: definition(file)?, within },
        None => Request::PlanConfiguration { text: configuration(file)?, within },
    };
    let plan: ServicePlanView = ask(&endpoint.data, &request)?;
    if endpoint.output != Output::Table {
        return print::one(&plan, &plan.steps, endpoint.output, "", console);
    }
    if plan.steps.is_empty() {
        text::line(console.out, format_args!("nothing would be done until {}", plan.until))?;
    } else {
        writeln!(console.out, "{}", print::table(&plan.steps, console.width))?;
    }
    for PlannedService { service, demands, .. } in &plan.services {
        if !demands.is_empty() {
            writeln!(console.out)?;
            text::line(console.out, format_args!("{service}, at {}:", plan.until))?;
            writeln!(console.out, "{}", print::table(demands, console.width))?;
        }
    }
    if !plan.orders.is_empty() {
        writeln!(console.out, "\n{}", print::table(&plan.orders, console.width))?;
    }
    for PlannedService { service, why, .. } in plan.services.iter().filter(|of| !of.why.is_empty())
    {
        writeln!(console.out)?;
        text::line(console.out, format_args!("{service}, at {}:", plan.until))?;
        for line in why {
            text::line(console.out, line)?;
        }
    }
    Ok(())
}

/// A configuration in a file, checked.
fn configuration(file: &Path) -> Result<String, Error> {
    let files = up::read_all(&[file.to_owned()])?;
    Ok(up::checked(&files, &[])?.text)
}

impl print::Row for PlannedStep {
    const COLUMNS: &'static [&'static str] = &["at", "by", "what"];

    fn cells(&self) -> Vec<String> {
        vec![self.at.clone(), self.by.clone(), self.what.clone()]
    }
}
