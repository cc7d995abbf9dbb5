//! `tenure doctor`: what is wrong, if anything is, and what to do about it. `tenure metrics`.

use std::path::Path;

use tenure_node::api::{ActorView, Request, SiteView, StatusView};

use super::args::{Door, Output};
use super::{ask, connect, print};
use crate::Console;
use crate::error::Error;

/// `tenure doctor`
pub(crate) fn doctor(door: &Door, console: &mut Console<'_>) -> Result<(), Error> {
    let mut client = connect(&door.data)?;
    let status: StatusView = client.ask(&Request::Status)?;
    let sites: Vec<SiteView> = client.ask(&Request::Sites { site: None })?;
    if door.output != Output::Table {
        print::json(&status, console)?;
    } else {
        writeln!(
            console.out,
            "tenure {} runs as process {} on {}; it is {}{}\n",
            status.program,
            status.pid,
            status.data,
            status.now,
            if status.speed == 1 {
                String::new()
            } else {
                format!(", {} times as fast", status.speed)
            }
        )?;
        print::rows(&status.actors, door.output, "no actors", console)?;
    }
    let mut wrong = Vec::new();
    for actor in &status.actors {
        if let Some(cause) = &actor.down {
            wrong.push(format!("{} is down: {cause}", actor.name));
        }
    }
    for unit in sites.iter().flat_map(|site| &site.units) {
        if unit.state == "quarantined" {
            let unit = &unit.unit;
            wrong.push(format!(
                "unit {unit} is quarantined: put it right, then `tenure site reset {unit}`"
            ));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error::Ill(wrong)) }
}

/// `tenure metrics`
pub(crate) fn metrics(data: &Path, console: &mut Console<'_>) -> Result<(), Error> {
    let text: String = ask(data, &Request::Metrics)?;
    Ok(write!(console.out, "{text}")?)
}

impl print::Row for ActorView {
    const COLUMNS: &'static [&'static str] = &["actor", "role", "id", "state", "facts", "open"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.role.clone(),
            self.id.clone(),
            if self.down.is_some() { "DOWN" } else { "up" }.to_owned(),
            self.facts.to_string(),
            self.open.len().to_string(),
        ]
    }
}
