//! `tenure lease why`.

use tenure_node::api::{
    BookingView, FactView, FaultView, LeaseName, PendingView, Request, WhyView,
};

use super::args::{Endpoint, Output};
use super::lease::state;
use super::{ask, print};
use crate::Console;
use crate::error::Error;
use crate::text::line;

/// Says why each lease of a name is as it is.
pub(super) fn why(
    endpoint: &Endpoint,
    lease: &LeaseName,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let whys: Vec<WhyView> = ask(&endpoint.data, &Request::Why { lease: lease.clone() })?;
    if endpoint.output != Output::Table {
        return print::rows(&whys, endpoint.output, "", console);
    }
    for why in &whys {
        let (name, state) = (&why.lease.lease, state(&why.lease));
        line(console.out, format_args!("{name} is {state}: {}", why.reason))?;
        for (word, says) in lines(why) {
            line(console.out, format_args!("  {word:<9} {says}"))?;
        }
        if let Some(help) = &why.help {
            line(console.out, format_args!("help: {help}"))?;
        }
        for command in &why.look {
            line(console.out, format_args!("see:  {command}"))?;
        }
    }
    Ok(console.out.flush()?)
}

/// What bears a reason out, a line each.
fn lines(why: &WhyView) -> Vec<(&str, String)> {
    let findings = why.findings.iter().filter(|finding| !why.reason.contains(&finding.says));
    let mut lines: Vec<(&str, String)> =
        findings.map(|finding| (&*finding.actor, finding.says.clone())).collect();
    lines.extend(why.bookings.iter().map(|booking| ("held", held(booking))));
    if why.more_bookings > 0 {
        lines.push(("held", format!("and {} more", why.more_bookings)));
    }
    lines.extend(why.room_at.iter().map(|at| ("room", format!("from {at} on, as things stand"))));
    lines.extend(why.faults.iter().map(|fault| ("fault", self::fault(fault))));
    lines.extend(why.pending.iter().map(|pending| ("pending", self::pending(pending))));
    lines.extend(why.facts.iter().map(|fact| ("fact", self::fact(fact))));
    lines
}

fn held(booking: &BookingView) -> String {
    let BookingView { request, units, resource, site, end, .. } = booking;
    format!("{units} {resource} of {site} by {request}, until {end}")
}

fn fault(fault: &FaultView) -> String {
    let FaultView { unit, state, step, error, times, since, .. } = fault;
    match (step, error, since) {
        (Some(step), Some(error), Some(since)) => {
            let times = if *times > 1 { format!(" {times} times, last") } else { String::new() };
            format!("{unit} {state}: {step} failed{times} at {since}: {error}")
        }
        _ => format!("{unit} {state}"),
    }
}

fn pending(pending: &PendingView) -> String {
    let PendingView { from, to, what, since, sent, down } = pending;
    let sent = sent.map_or_else(String::new, |sent| format!(", sent {sent} times"));
    let peer = match (down, to.as_str()) {
        (Some(cause), _) => format!("; {to} is DOWN: {cause}"),
        (None, "driver") => String::new(),
        (None, _) => format!("; {to} is up"),
    };
    format!("{what} from {from} to {to}, since {since}{sent}{peer}")
}

fn fact(fact: &FactView) -> String {
    let FactView { actor, position, time, kind, says } = fact;
    let says = says.as_ref().map_or_else(String::new, |says| format!(": {says}"));
    format!("{actor} {position} at {time}, {kind}{says}")
}

impl print::Row for WhyView {
    const COLUMNS: &'static [&'static str] = &["lease", "state", "reason", "help"];

    fn cells(&self) -> Vec<String> {
        let help = self.help.clone().unwrap_or_default();
        vec![self.lease.lease.clone(), state(&self.lease), self.reason.clone(), help]
    }
}
