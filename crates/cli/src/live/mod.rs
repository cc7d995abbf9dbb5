//! The commands on a live deployment: running one, and talking to one through its socket.

pub(crate) mod args;
mod actors;
mod availability;
mod delegation;
mod demand;
mod experiment;
mod gantt;
mod doctor;
mod interrupt;
mod keys;
mod peer;
mod lease;
mod measure;
mod offer;
pub(crate) mod plan;
pub(crate) mod print;
mod proof;
mod recall;
mod removal;
mod forwarding;
mod sharing;
mod report;
mod service;
mod session;
mod split;
mod ticket;
#[cfg(test)]
mod ticket_tests;
mod transfer;
mod unit;
mod up;
mod why;

use std::path::Path;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tenure_core::model::time::Span;
use tenure_node::api::Request;
use tenure_node::api::client::Client;
use tenure_node::run::SOCKET;

use crate::Console;
use crate::error::Error;
use crate::text;

pub(crate) use actors::{broker, site, slice};
pub(crate) use doctor::{doctor, metrics};
pub(crate) use keys::{KeysCommand, keys};
pub(crate) use lease::lease;
pub(crate) use peer::{PeerCommand, peer};
pub(crate) use service::{ServiceCommand, service};
pub(crate) use session::{SessionCommand, session};
pub(crate) use ticket::ticket;
pub(crate) use unit::{UnitCommand, unit};
pub(crate) use up::{config, dev, up};

/// Connects to the deployment that keeps its data in `data`.
fn connect(data: &Path) -> Result<Client, Error> {
    Ok(Client::connect(&data.join(SOCKET))?)
}

/// Asks the deployment in `data` one thing.
pub(crate) fn ask<T: DeserializeOwned>(data: &Path, request: &Request) -> Result<T, Error> {
    Ok(connect(data)?.ask(request)?)
}

/// Connects to a deployment that is to be changed.
fn connect_to(change: &args::Change) -> Result<Client, Error> {
    Ok(connect(&change.data)?.under(change.id.clone()))
}

/// Has a deployment make one change.
fn ask_change<T: DeserializeOwned>(change: &args::Change, request: &Request) -> Result<T, Error> {
    Ok(connect_to(change)?.ask(request)?)
}

/// Prints what a watch answers, until it is interrupted; each as `line` says in a table.
fn print_changes<T: print::Row + DeserializeOwned>(
    endpoint: &args::Endpoint,
    request: &Request,
    line: fn(&T) -> String,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let mut client = connect(&endpoint.data)?;
    let mut view: T = client.ask_within(request, None)?;
    let mut first = true;
    loop {
        match endpoint.output {
            args::Output::Csv => {
                print::csv(std::slice::from_ref(&view), std::mem::take(&mut first), console)?;
            }
            args::Output::Table => {
                text::line(console.out, line(&view))?;
                console.out.flush()?;
            }
            args::Output::Json | args::Output::Jsonl => print::line(&view, console)?,
        }
        view = client.next(None)?;
    }
}

/// How long one request waits: a deployment answers none that takes a minute.
const STEP: Duration = Duration::from_secs(30);

/// Asks again and again for something that waits, until what is answered is settled or the time is over.
fn settled<T: DeserializeOwned>(
    client: &mut Client,
    mut seen: T,
    timeout: Span,
    request: impl Fn(Span) -> Request,
    is_settled: impl Fn(&T) -> bool,
) -> Result<T, Error> {
    let (began, timeout) = (Instant::now(), duration(timeout));
    while !is_settled(&seen) && began.elapsed() < timeout {
        let step = timeout.saturating_sub(began.elapsed()).min(STEP);
        let step = Span::from_micros(i64::try_from(step.as_micros()).unwrap_or(i64::MAX));
        seen = client.ask(&request(step))?;
    }
    Ok(seen)
}

/// A length of time by this machine's clock.
fn duration(span: Span) -> Duration {
    Duration::from_micros(u64::try_from(span.as_micros()).unwrap_or_default())
}

/// A length of time as people say it: the two largest parts.
fn roughly(seconds: f64) -> String {
    if seconds < 0.0 {
        return format!("-{}", roughly(-seconds));
    }
    let whole = seconds.round().max(0.0) as u64;
    let (days, hours) = (whole / 86_400, whole / 3600 % 24);
    let (minutes, seconds) = (whole / 60 % 60, whole % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{seconds}s"),
        (0, ..) => format!("{hours}h{minutes}m"),
        _ => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_rough() {
        for (seconds, text) in [
            (0.2, "0s"),
            (59.4, "59s"),
            (61.0, "1m1s"),
            (7260.0, "2h1m"),
            (90_000.0, "1d1h"),
            (-5.0, "-5s"),
        ] {
            assert_eq!(roughly(seconds), text);
        }
    }
}
