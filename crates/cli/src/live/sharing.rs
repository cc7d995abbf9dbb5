//! `tenure broker share`, `unshare`, `shares`, `drain` and `resume`.

use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_node::api::{Request, SellingView, ShareRequest, SharingView};

use super::args::{Change, Endpoint};
use super::{ask, ask_change, print};
use crate::Console;
use crate::error::Error;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Share units of a broker with another one.
///
/// What is free is lent for a term, and renewed as long as it is shared. Of what is shared no more, the other broker
/// gives back at once what it has not sold; leases go on.
#[derive(Args, Debug)]
#[command(after_help = SHARES)]
pub(crate) struct ShareArgs {
    #[command(flatten)]
    endpoint: Change,
    /// The broker
    broker: Name,
    /// The other broker, which sells them
    with: Name,
    /// Of each type at most so many units, or `all` [default: as it is, else all]
    #[arg(long, value_name = "N|all", value_parser = most)]
    units: Option<Most>,
    /// How many free units of each type the broker keeps for its own guests [default: as it is, else 0]
    #[arg(long, value_name = "N")]
    reserve: Option<u32>,
    /// The notice that the other broker gets before units are recalled [default: as it is, else 10m]
    #[arg(long, value_name = "SPAN", value_parser = Span::from_str)]
    notice: Option<Span>,
    /// For how long units are lent, and so the longest lease of them [default: as it is, else 1h]
    #[arg(long, value_name = "SPAN", value_parser = Span::from_str)]
    term: Option<Span>,
}

const SHARES: &str = "\
Examples:
  tenure broker share lab campus
  tenure broker share lab campus --units 8 --reserve 2 --term 4h";

/// How many units, or all.
#[derive(Clone, Copy, Debug)]
struct Most(Option<u32>);

fn most(text: &str) -> Result<Most, String> {
    match text {
        "all" => Ok(Most(None)),
        text => {
            text.parse().map(|units| Most(Some(units))).map_err(|_| "a number, or `all`".to_owned())
        }
    }
}

/// Share nothing with another broker any more.
#[derive(Args, Debug)]
pub(crate) struct UnshareArgs {
    #[command(flatten)]
    endpoint: Change,
    /// The broker
    broker: Name,
    /// The other broker
    with: Name,
    /// The notice that the other broker gets before units are recalled [default: as it is]
    #[arg(long, value_name = "SPAN", value_parser = Span::from_str)]
    notice: Option<Span>,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Whether to wait for the end.
#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// Wait until the last unit is back
    #[arg(long)]
    wait: bool,
    /// The longest time to wait
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = Span::from_str, requires = "wait")]
    timeout: Span,
}

/// List what brokers share with others.
#[derive(Args, Debug)]
pub(crate) struct SharesArgs {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The broker [default: all]
    broker: Option<Name>,
}

/// Have a broker sell nothing more.
///
/// What it has borrowed and not sold goes back, and so does what it has lent; no lease ends early.
#[derive(Args, Debug)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    endpoint: Change,
    /// The broker
    broker: Name,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Have a broker that was drained sell again.
#[derive(Args, Debug)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    endpoint: Change,
    /// The broker
    broker: Name,
}

/// `tenure broker share`
pub(super) fn share(args: &ShareArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let request = Request::Share(Box::new(ShareRequest {
        broker: args.broker.clone(),
        with: args.with.clone(),
        units: args.units.and_then(|most| most.0),
        all: matches!(args.units, Some(Most(None))),
        reserve: args.reserve,
        notice: args.notice,
        term: args.term,
    }));
    let shared: Vec<SharingView> = ask_change(&args.endpoint, &request)?;
    show(&shared, &args.endpoint, console)
}

/// `tenure broker unshare`
pub(super) fn unshare(args: &UnshareArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let UnshareArgs { endpoint, broker, with, notice, wait } = args;
    let request = Request::Share(Box::new(ShareRequest {
        broker: broker.clone(),
        with: with.clone(),
        units: Some(0),
        all: false,
        reserve: None,
        notice: *notice,
        term: None,
    }));
    let mut shared: Vec<SharingView> = ask_change(endpoint, &request)?;
    let look = Request::Sharings { broker: Some(broker.clone()) };
    wait.until(broker, || {
        let of_it = shared.iter().filter(|one| one.with == with.as_str());
        let units: u32 = of_it.flat_map(|one| &one.lent).map(|lent| lent.units).sum();
        if units > 0 {
            shared = ask(&endpoint.data, &look)?;
        }
        Ok((units > 0).then(|| format!("{units} units of it are with {with}")))
    })?;
    show(&shared, endpoint, console)
}

/// `tenure broker shares`
pub(super) fn list(args: &SharesArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let request = Request::Sharings { broker: args.broker.clone() };
    let shared: Vec<SharingView> = ask(&args.endpoint.data, &request)?;
    show(&shared, &args.endpoint, console)
}

/// `tenure broker drain`
pub(super) fn drain(args: &DrainArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let DrainArgs { endpoint, broker, wait } = args;
    let request = Request::Sell { broker: broker.clone(), sells: false };
    let mut selling: Vec<SellingView> = ask_change(endpoint, &request)?;
    let look = Request::Selling { broker: Some(broker.clone()) };
    wait.until(broker, || {
        let (tickets, lent) = selling
            .iter()
            .fold((0, 0), |(tickets, lent), one| (tickets + one.tickets, lent + one.lent));
        if tickets + lent > 0 {
            selling = ask(&endpoint.data, &look)?;
        }
        let left = format!("{tickets} of its tickets and {lent} units that it lent are out");
        Ok((tickets + lent > 0).then_some(left))
    })?;
    print::rows(&selling, endpoint.output, "no brokers", console)
}

/// `tenure broker resume`
pub(super) fn resume(args: &ResumeArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let request = Request::Sell { broker: args.broker.clone(), sells: true };
    let selling: Vec<SellingView> = ask_change(&args.endpoint, &request)?;
    print::rows(&selling, args.endpoint.output, "no brokers", console)
}

impl WaitArgs {
    /// Waits, if that is asked for, until nothing is left; `look` says what is.
    fn until(
        &self,
        broker: &Name,
        mut look: impl FnMut() -> Result<Option<String>, Error>,
    ) -> Result<(), Error> {
        if !self.wait {
            return Ok(());
        }
        let until = Instant::now() + Duration::from_micros(self.timeout.as_micros().unsigned_abs());
        loop {
            let Some(left) = look()? else { return Ok(()) };
            if Instant::now() >= until {
                return Err(Error::NotEmptied {
                    broker: broker.to_string(),
                    left,
                    after: self.timeout,
                });
            }
            thread::sleep(PAUSE);
        }
    }
}

/// A line for each type that is lent, or one if none is.
fn show(
    shared: &[SharingView],
    endpoint: &Endpoint,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let lines: Vec<Line> = shared.iter().flat_map(Line::of).collect();
    print::all(shared, &lines, endpoint.output, "nothing is shared", console)
}

/// What is shared with a broker, of one type.
#[derive(serde::Serialize)]
struct Line {
    with: [String; 2],
    terms: [String; 4],
    lent: [String; 4],
}

impl Line {
    fn of(view: &SharingView) -> Vec<Self> {
        let none = || "-".to_owned();
        let line = |lent: [String; 3]| {
            let [resource, units, recalled] = lent;
            Self {
                with: [view.broker.clone(), view.with.clone()],
                terms: [
                    view.units.map_or_else(|| "all".to_owned(), |units| units.to_string()),
                    view.reserve.to_string(),
                    view.notice.to_string(),
                    view.term.to_string(),
                ],
                lent: [resource, units, recalled, view.until.clone().unwrap_or_else(none)],
            }
        };
        if view.lent.is_empty() {
            return vec![line([none(), "0".to_owned(), none()])];
        }
        let lent = view.lent.iter();
        lent.map(|lent| {
            line([lent.resource.clone(), lent.units.to_string(), lent.recalled.to_string()])
        })
        .collect()
    }
}

impl print::Row for Line {
    const COLUMNS: &'static [&'static str] = &[
        "broker", "with", "most", "reserve", "notice", "term", "type", "lent", "recalled", "until",
    ];

    fn cells(&self) -> Vec<String> {
        let Self { with, terms, lent } = self;
        with.iter().chain(terms).chain(lent).cloned().collect()
    }
}

impl print::Row for SellingView {
    const COLUMNS: &'static [&'static str] = &["broker", "sells", "tickets", "until", "lent"];

    fn cells(&self) -> Vec<String> {
        let sells = if self.sells { "yes" } else { "no" };
        vec![
            self.broker.clone(),
            sells.to_owned(),
            self.tickets.to_string(),
            self.until.clone().unwrap_or_else(|| "-".to_owned()),
            self.lent.to_string(),
        ]
    }
}
