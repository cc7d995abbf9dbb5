//! `tenure ticket split`, `tenure ticket redeem`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use tenure_core::model::property::Properties;
use tenure_node::api::{HeldTicketView, LeaseView, Request, SplitRequest, TakeRequest, TicketView};

use super::args::{SplitArgs, TakeArgs};
use super::{ask_change, lease, print, proof};
use crate::Console;
use crate::error::Error;
use crate::text::line;

/// `tenure ticket split ...`
pub(super) fn split(args: &SplitArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let mut to = args.to.clone();
    if let Some(path) = &args.to_list {
        let text = read(path)?;
        let lines = text.lines().map(str::trim);
        to.extend(lines.filter(|l| !l.is_empty() && !l.starts_with('#')).map(ToOwned::to_owned));
    }
    let request = SplitRequest {
        ticket: args.ticket.clone(),
        units: args.units,
        to,
        duration: args.duration,
        start: args.at,
        condition: args.condition.clone(),
        redeem_by: args.redeem_by,
        notice: args.notice,
        min_tenure: args.min_tenure,
    };
    let parts: Vec<TicketView> = ask_change(&args.endpoint, &Request::Split(Box::new(request)))?;
    let Some(folder) = &args.out else {
        return print::rows(&parts, args.endpoint.output, "no parts", console);
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    for (place, part) in (1..).zip(&parts) {
        let holder = part.links.last().map_or("", |link| link.holder.as_str());
        let path = folder.join(format!("{place}-{}.json", holder.replace('/', "-")));
        let text = serde_json::to_string_pretty(part).unwrap_or_default();
        fs::write(&path, text + "\n").map_err(|error| failed(&path, &error))?;
        line(console.out, format_args!("{}", path.display()))?;
    }
    Ok(())
}

/// `tenure ticket redeem ...`
pub(super) fn redeem(args: &TakeArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let (ticket, _) = proof::ticket(&args.file)?;
    let configuration: BTreeMap<_, _> = args.property.iter().cloned().collect();
    let configuration =
        Properties::try_from(configuration).map_err(|error| Error::Wrong(error.to_string()))?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let request = TakeRequest {
        manager: args.manager.clone(),
        links: ticket.links().iter().map(|link| hex(link.as_bytes())).collect(),
        slice: args.slice.clone(),
        configuration,
        keep: args.keep,
    };
    let view: LeaseView = ask_change(&args.endpoint, &Request::Take(Box::new(request)))?;
    lease::settle(&args.endpoint, vec![view], args.wait, console)
}

fn read(path: &Path) -> Result<String, Error> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(|error| failed(path, &error))?;
        return Ok(text);
    }
    fs::read_to_string(path).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::Wrong(format!("{}: {error}", path.display()))
}

impl print::Row for TicketView {
    const COLUMNS: &'static [&'static str] = &["ticket", "holder", "units", "type", "start", "end"];

    fn cells(&self) -> Vec<String> {
        let ticket = self.ticket.chars().take(10).collect();
        let link = self.links.last();
        let cell = |of: fn(&tenure_node::api::LinkView) -> String| link.map(of).unwrap_or_default();
        vec![
            ticket,
            cell(|link| link.holder.clone()),
            cell(|link| link.units.to_string()),
            cell(|link| link.resource.clone()),
            cell(|link| link.start.clone()),
            cell(|link| link.end.clone()),
        ]
    }
}

impl print::Row for HeldTicketView {
    const COLUMNS: &'static [&'static str] =
        &["ticket", "lease", "state", "holder", "units", "left", "type", "start", "end"];

    fn cells(&self) -> Vec<String> {
        let short: String = self.ticket.chars().take(10).collect();
        let ticket = if self.part_of.is_some() { format!("  {short}") } else { short };
        let left = self.left.map_or_else(|| "-".to_owned(), |left| left.to_string());
        let (units, resource) = (self.units.to_string(), self.resource.clone());
        let (lease, holder) = (self.lease.clone(), self.holder.clone());
        let stay = self.stay.map_or_else(String::new, |stay| format!(", recalled to {stay}"));
        let state = format!("{}{stay}", self.state);
        let (start, end) = (self.start.clone(), self.end.clone());
        vec![ticket, lease, state, holder, units, left, resource, start, end]
    }
}
