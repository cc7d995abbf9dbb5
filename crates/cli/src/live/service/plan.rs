//! `tenure service plan`: what a definition would come to.

use tenure_node::api::{PlannedStep, Request, ServicePlanView};

use super::super::args::Output;
use super::super::{ask, print};
use super::{PlanArgs, definition};
use crate::Console;
use crate::error::Error;
use crate::text;

pub(super) fn plan(args: &PlanArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let PlanArgs { endpoint, service, file, within } = args;
    let (service, definition) = (service.clone(), definition(file)?);
    let request = Request::PlanService { service, definition, within: *within };
    let plan: ServicePlanView = ask(&endpoint.data, &request)?;
    if endpoint.output != Output::Table {
        return print::one(&plan, &plan.steps, endpoint.output, "", console);
    }
    if plan.steps.is_empty() {
        text::line(console.out, format_args!("nothing would be done until {}", plan.until))?;
    } else {
        writeln!(console.out, "{}", print::table(&plan.steps, console.width))?;
    }
    if !plan.demands.is_empty() {
        writeln!(console.out, "\n{}", print::table(&plan.demands, console.width))?;
    }
    if !plan.orders.is_empty() {
        writeln!(console.out, "\n{}", print::table(&plan.orders, console.width))?;
    }
    if !plan.why.is_empty() {
        writeln!(console.out)?;
        text::line(console.out, format_args!("until {}:", plan.until))?;
    }
    for line in &plan.why {
        text::line(console.out, line)?;
    }
    Ok(())
}

impl print::Row for PlannedStep {
    const COLUMNS: &'static [&'static str] = &["at", "by", "what"];

    fn cells(&self) -> Vec<String> {
        vec![self.at.clone(), self.by.clone(), self.what.clone()]
    }
}
