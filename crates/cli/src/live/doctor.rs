//! `tenure doctor`: what is wrong, if anything is, and what to do about it. `tenure metrics`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use tenure_node::api::client::{Client, ClientError};
use tenure_node::api::{
    ActorView, ClockApartView, ClockStepView, LeaseView, PeerView, ProbeView, Request, SiteView,
    StatusView, UnitView, WantedLeases,
};

use super::args::{Endpoint, Output};
use super::lease::unusable;
use super::{ask, connect, print, roughly};
use crate::Console;
use crate::error::Error;

/// `tenure doctor`
pub(crate) fn doctor(endpoint: &Endpoint, console: &mut Console<'_>) -> Result<(), Error> {
    let mut client = connect(&endpoint.data)?;
    let status: StatusView = client.ask(&Request::Status)?;
    // Of an actor that is down nothing is known but that.
    let mut sites: Vec<SiteView> = Vec::new();
    for actor in &status.actors {
        if let (true, Ok(site)) = (actor.role == "site-authority", actor.name.parse()) {
            let site: Vec<SiteView> =
                client.ask(&Request::Sites { site: Some(site) }).unwrap_or_default();
            sites.extend(site);
        }
    }
    let leases = open_leases(&mut client).unwrap_or_default();
    let peers: Vec<PeerView> = client.ask(&Request::Peers { peer: None })?;
    let mut wrong = wrong(&status, &sites, &leases);
    wrong.extend(peers.iter().filter_map(|peer| unreached(peer, &leases)));
    let StatusView { version: _, program, pid, data, now, speed, actors, .. } = &status;
    if endpoint.output == Output::Table {
        let faster = if *speed == 1 { String::new() } else { format!(", {speed} times as fast") };
        writeln!(
            console.out,
            "tenure {program} runs as process {pid} on {data}; it is {now}{faster}\n"
        )?;
    }
    let health = Health {
        program,
        pid: *pid,
        data,
        now,
        speed: *speed,
        unit_processes: status.unit_processes.as_deref(),
        clock_behind_s: status.clock_behind_s,
        clock_step: status.clock_step.as_ref(),
        actors,
        wrong: &wrong,
    };
    print::one(&health, actors, endpoint.output, "no actors", console)?;
    if wrong.is_empty() { Ok(()) } else { Err(Error::Ill(wrong)) }
}

/// All leases that are not over, a page at a time.
fn open_leases(client: &mut Client) -> Result<Vec<LeaseView>, ClientError> {
    let (mut leases, mut after) = (Vec::new(), None);
    loop {
        let wanted = WantedLeases { after, ..WantedLeases::default() };
        leases.extend(client.ask::<Vec<LeaseView>>(&Request::Leases(wanted))?);
        match client.more() {
            Some(more) => after = Some(more.after.clone()),
            None => return Ok(leases),
        }
    }
}

/// How a deployment is, and what is wrong with it.
#[derive(Serialize)]
struct Health<'a> {
    program: &'a str,
    pid: u32,
    data: &'a str,
    now: &'a str,
    speed: u32,
    unit_processes: Option<&'a str>,
    clock_behind_s: f64,
    clock_step: Option<&'a ClockStepView>,
    actors: &'a [ActorView],
    wrong: &'a [String],
}

/// What is wrong, a sentence each.
fn wrong(status: &StatusView, sites: &[SiteView], leases: &[LeaseView]) -> Vec<String> {
    let mut wrong: Vec<String> = clock(status).into_iter().collect();
    for actor in &status.actors {
        if let Some(cause) = &actor.down {
            wrong.push(format!(
                "{} is down: {cause}; repair the cause, and restart the deployment if it does not come \
                 back by itself",
                actor.name
            ));
        }
        if actor.disk_full {
            wrong.push(format!(
                "the disk of {} is full: leases continue, no new work is accepted; free some space",
                actor.name
            ));
        }
        if actor.hung_calls > 0 {
            wrong.push(format!(
                "{} calls of the driver of {} were given up and still hang: see what its units or programs wait \
                 for; each holds a thread until it ends or the deployment is restarted",
                actor.hung_calls, actor.name
            ));
        }
        wrong.extend(actor.clocks_apart.iter().map(|apart| clock_apart(&actor.name, apart)));
    }
    for unit in sites.iter().flat_map(|site| &site.units) {
        wrong.extend(failed(unit));
    }
    wrong.extend(down(sites, leases));
    for lease in leases {
        let (name, unusable) = (&lease.lease, unusable(lease));
        if unusable > 0 {
            wrong.push(format!(
                "{unusable} units of {name} could not be joined: `tenure lease why {name}` says why; \
                 give it back with `tenure lease close {name}`"
            ));
        }
    }
    wrong.extend(status.differences.iter().cloned());
    wrong
}

/// What is wrong between the clocks of two actors.
fn clock_apart(name: &str, ClockApartView { peer, ahead_s, since }: &ClockApartView) -> String {
    let side = if *ahead_s > 0.0 { "ahead of" } else { "behind" };
    format!(
        "the clock of {peer} is at least {} {side} that of {name}, more than the margin, since {since}: leases \
         between them may end too early or overlap; set the one that is wrong",
        roughly(ahead_s.abs())
    )
}

/// How many leases are named of one site.
const NAMED: usize = 5;

/// What is wrong with the connection to an actor elsewhere. Who has never dialled is not missed.
fn unreached(peer: &PeerView, leases: &[LeaseView]) -> Option<String> {
    let PeerView { peer: name, of, address, connected, since, error, .. } = peer;
    let error = error.as_ref().filter(|_| !connected)?;
    let since = since.as_ref().map_or_else(String::new, |since| format!(" since {since}"));
    let what = match address {
        Some(address) => format!("see that {name} runs and {address} can be reached"),
        None => format!("see that {name} runs: it dials"),
    };
    let there = leases.iter().filter(|lease| {
        let manager = lease.lease.split('/').next();
        lease.site_unreachable.is_some() && lease.site.as_ref() == Some(name) && manager == Some(of)
    });
    let there: Vec<&str> = there.map(|lease| lease.lease.as_str()).take(NAMED + 1).collect();
    let more = if there.len() > NAMED { " and more" } else { "" };
    let leases = match &there[..there.len().min(NAMED)] {
        [] => String::new(),
        some => format!("; until then nothing changes or is known of {}{more}", some.join(", ")),
    };
    Some(format!("{of} has no connection with {name}{since}: {error}; {what}{leases}"))
}

/// What is wrong with a unit by its site's word.
fn failed(unit: &UnitView) -> Option<String> {
    let UnitView { unit: name, fault, lease, .. } = unit;
    if unit.state == "quarantined" {
        let fault = fault.as_ref().map_or_else(String::new, |fault| format!(" ({fault})"));
        return Some(format!(
            "unit {name} is quarantined{fault}: put it right, then `tenure site reset {name}`"
        ));
    }
    let (fault, lease) = fault.as_ref().zip(lease.as_ref())?;
    (unit.state == "ready").then(|| {
        format!(
            "unit {name} of {lease} has failed: {fault}; its guest is notified until it gives the unit back"
        )
    })
}

/// What is wrong with the clock.
fn clock(status: &StatusView) -> Option<String> {
    let behind = status.clock_behind_s;
    if behind >= 1.0 {
        return Some(format!(
            "this machine's clock is {} behind the deployment's, which stands until it has caught up: until \
             then no term begins or ends; set this machine's clock if it is wrong",
            roughly(behind)
        ));
    }
    // Set back it stands, and after that all is well.
    let step = status.clock_step.as_ref().filter(|step| step.by_s > 0.0)?;
    Some(format!(
        "this machine's clock was set forward by {} at {}, and terms ended by that much earlier; set it if it \
         is wrong: the deployment's then stands until it has caught up",
        roughly(step.by_s),
        step.at
    ))
}

/// The units that are down: each once, as its site says it or else its guest.
fn down(sites: &[SiteView], leases: &[LeaseView]) -> Vec<String> {
    let units = sites.iter().flat_map(|site| &site.units);
    let at_sites = units.filter_map(|unit| Some((&unit.unit, &unit.lease, unit.probe.as_ref()?)));
    let mut probed: BTreeMap<&String, (Option<&String>, &ProbeView)> = BTreeMap::new();
    for (unit, lease, probe) in at_sites {
        probed.insert(unit, (lease.as_ref(), probe));
    }
    for lease in leases {
        for unit in &lease.in_hand {
            if let Some(probe) = &unit.probe {
                let at_site = probed.entry(&unit.unit).or_insert((Some(&lease.lease), probe));
                if at_site.1.state == "up" {
                    *at_site = (Some(&lease.lease), probe);
                }
            }
        }
    }
    let down = probed.iter().filter(|(_, (_, probe))| probe.state == "down");
    down.map(|(unit, (lease, probe))| {
        let lease = lease.map_or("?", String::as_str);
        let (since, error) = (&probe.since, probe.error.as_deref().unwrap_or("unknown"));
        format!(
            "unit {unit} of {lease} is down since {since}: {error}; the lease continues: repair the unit, \
             or give the lease back with `tenure lease close {lease}`"
        )
    })
    .collect()
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
            self.id.chars().take(10).collect(),
            match (&self.down, self.disk_full) {
                (Some(_), _) => "DOWN",
                (None, true) => "disk full",
                (None, false) => "up",
            }
            .to_owned(),
            self.facts.to_string(),
            format!("{}{}", self.open.len(), if self.more_open { "+" } else { "" }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_whose_clock_is_apart_is_named() {
        let apart = |ahead_s| ClockApartView {
            peer: "alpha".to_owned(),
            ahead_s,
            since: "noon".to_owned(),
        };
        for (ahead_s, text) in [(90.0, "alpha is at least 1m30s ahead of"), (-60.0, "1m0s behind")]
        {
            let said = clock_apart("guest", &apart(ahead_s));
            assert!(said.contains(text) && said.contains("guest"), "{said}");
        }
    }

    #[test]
    fn a_clock_that_stands_or_was_set_forward_is_reported() {
        let status = |clock_behind_s, by_s: Option<f64>| StatusView {
            version: 1,
            program: String::new(),
            pid: 1,
            data: String::new(),
            now: String::new(),
            speed: 1,
            unit_processes: None,
            clock_behind_s,
            clock_step: by_s.map(|by_s| ClockStepView { at: "noon".to_owned(), by_s }),
            actors: Vec::new(),
            differences: Vec::new(),
        };
        for (behind, step, probed) in [
            (0.0, None, None),
            (0.2, Some(-7200.0), None),
            (7200.0, Some(-7200.0), Some("is 2h0m behind")),
            (10_800.0, None, Some("is 3h0m behind")),
            (0.0, Some(7200.0), Some("set forward by 2h0m at noon")),
        ] {
            let wrong = wrong(&status(behind, step), &[], &[]);
            assert_eq!(wrong.len(), usize::from(probed.is_some()), "{wrong:?}");
            assert!(probed.is_none_or(|probed| wrong[0].contains(probed)), "{wrong:?}");
        }
    }
}
