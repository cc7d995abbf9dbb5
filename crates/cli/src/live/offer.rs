//! `tenure lease accept`, `release` and `withdraw`, and how offers are shown.

use serde::Serialize;
use tenure_node::api::{InTheWayView, LeaseName, LeaseView, OfferView, Request};

use super::args::{Change, Output, WaitArgs};
use super::gantt;
use super::interrupt::Interrupt;
use super::lease::{follow, list};
use super::{connect_to, print};
use crate::Console;
use crate::error::Error;
use crate::text;

/// Takes an offer of a request.
pub(super) fn accept(
    endpoint: &Change,
    lease: &LeaseName,
    offer: u8,
    wait: WaitArgs,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let mut client = connect_to(endpoint)?;
    let taken: Vec<LeaseView> = client.ask(&Request::Accept { lease: lease.clone(), offer })?;
    match taken.first() {
        Some(first) if wait.wait => {
            let interrupt = Interrupt::watch(&client, true)?;
            follow((client, interrupt), first, wait, endpoint.output, console)
        }
        Some(_) | None => list(&taken, endpoint.output, console),
    }
}

/// Ends a request; with `held` only one that offers are held for.
pub(super) fn withdraw(
    endpoint: &Change,
    lease: &LeaseName,
    held: bool,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let mut client = connect_to(endpoint)?;
    let leases: Vec<LeaseView> = client.ask(&Request::Lease { lease: lease.clone() })?;
    if held && !leases.iter().any(|lease| lease.state == "offered") {
        let state = leases.first().map_or("unknown", |lease| lease.state.as_str());
        return Err(Error::Wrong(format!("no offers are held for {lease}, which is {state}")));
    }
    let leases: Vec<LeaseView> = client.ask(&Request::Withdraw { lease: lease.clone() })?;
    list(&leases, endpoint.output, console)
}

/// Prints the offers of a lease, what holds it up, and how to go on.
pub(super) fn show(lease: &LeaseView, console: &mut Console<'_>) -> Result<(), Error> {
    if let Some(queue) = &lease.queue {
        let expected = queue.expected.as_deref().unwrap_or("-");
        writeln!(console.out)?;
        text::line(
            console.out,
            format_args!(
                "number {} in the queue, expected at {expected}: {}",
                queue.place, queue.reason
            ),
        )?;
    }
    if let Some(unmet) = &lease.unmet {
        writeln!(console.out)?;
        text::line(console.out, format_args!("not as it was asked for: {}", unmet.in_words()))?;
    }
    if !lease.in_the_way.is_empty() {
        writeln!(console.out, "\nin the way:\n{}", print::table(&lease.in_the_way, console.width))?;
    }
    if lease.offers.is_empty() {
        return Ok(());
    }
    let parts: Vec<OfferRow> = lease.offers.iter().flat_map(rows_of).collect();
    writeln!(console.out, "\n{}", print::table(&parts, console.width))?;
    let planned = lease.state == "planned";
    if let Some(chart) = planned.then(|| gantt::chart(&lease.offers, console.width)).flatten() {
        writeln!(console.out, "\n{chart}\n")?;
    }
    for offer in &lease.offers {
        if let Some(cost) = &offer.cost {
            text::line(console.out, format_args!("offer {} costs {cost}", offer.offer))?;
        }
    }
    match &lease.held_until {
        Some(until) => text::line(
            console.out,
            format_args!(
                "held until {until}; take one: tenure lease accept {} --offer 1",
                request(lease)
            ),
        )?,
        None if lease.state == "accepting" => {}
        None => text::line(
            console.out,
            format_args!("not held; ask for one: tenure lease accept {} --offer 1", request(lease)),
        )?,
    }
    Ok(())
}

/// The name of the request of a lease.
fn request(lease: &LeaseView) -> &str {
    lease.lease.rsplit_once('.').map_or(&lease.lease, |(request, _)| request)
}

/// A part of an offer, in a line.
#[derive(Serialize)]
struct OfferRow {
    offer: String,
    units: String,
    site: String,
    start: String,
    end: String,
    differs: String,
}

fn rows_of(offer: &OfferView) -> impl Iterator<Item = OfferRow> {
    offer.parts.iter().enumerate().map(|(nth, part)| {
        let first = |text: String| if nth == 0 { text } else { String::new() };
        OfferRow {
            offer: first(offer.offer.to_string()),
            units: format!("{} {}", part.units, part.resource),
            site: part.site.clone(),
            start: part.start.clone(),
            end: part.end.clone(),
            differs: first(offer.differs.join(", ")),
        }
    })
}

impl print::Row for OfferRow {
    const COLUMNS: &'static [&'static str] =
        &["offer", "units", "site", "from", "until", "differs"];

    fn cells(&self) -> Vec<String> {
        let Self { offer, units, site, start, end, differs } = self;
        [offer, units, site, start, end, differs].map(Clone::clone).to_vec()
    }
}

impl print::Row for InTheWayView {
    const COLUMNS: &'static [&'static str] = &["holder", "units", "from", "until"];

    fn cells(&self) -> Vec<String> {
        let units = format!("{} {}", self.units, self.resource);
        vec![self.holder.clone(), units, self.start.clone(), self.end.clone()]
    }
}

/// Shows offers behind a table of leases; other formats have them in the leases.
pub(super) fn show_all(
    leases: &[LeaseView],
    output: Output,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    if output != Output::Table {
        return Ok(());
    }
    leases.iter().try_for_each(|lease| show(lease, console))
}
