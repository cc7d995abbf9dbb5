//! `tenure slice measure`: what the leased links of a slice carry.

use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tenure_node::api::{LeaseUnitView, LeaseView, More, Request, WantedLeases};
use tenure_node::driver::Bandwidth;

use super::args::MeasureArgs;
use super::transfer::{End, received};
use super::{connect, duration, print};
use crate::Console;
use crate::error::Error;

/// The part of what is leased that TCP has of it at least: the rest are headers.
const NET: f64 = 0.95;

/// Measures all links of a slice at the same time, one way after the other.
pub(super) fn measure(args: &MeasureArgs, console: &mut Console<'_>) -> Result<(), Error> {
    let leases = leases(args)?;
    let lasting = duration(args.lasting);
    let links: Vec<Link> =
        edges(&leases).into_values().map(|edges| Link::of(&edges, &leases)).collect();
    let there = all(&links, lasting, |[from, to]| [from, to]);
    let back = all(&links, lasting, |[from, to]| [to, from]);
    let (mut wrong, mut lines) = (Vec::new(), Vec::new());
    for ((link, there), back) in links.into_iter().zip(there).zip(back) {
        let ways = there.and_then(|there| Ok([there, back?]));
        wrong.extend(ways.as_ref().err().map(|why| format!("{}: {why}", link.line.link)));
        lines.push(link.line.measured(ways.ok()));
    }
    let empty = format!("no leased links in the slice `{}`", args.slice);
    print::rows(&lines, args.endpoint.output, &empty, console)?;
    if wrong.is_empty() { Ok(()) } else { Err(Error::Ill(wrong)) }
}

/// All leases of the slice that are not over.
fn leases(args: &MeasureArgs) -> Result<Vec<LeaseView>, Error> {
    let mut client = connect(&args.endpoint.data)?;
    let (manager, slice) = (args.manager.clone(), Some(args.slice.clone()));
    let mut wanted = WantedLeases { manager, slice, ..WantedLeases::default() };
    let mut leases = Vec::new();
    loop {
        leases.extend(client.ask::<Vec<LeaseView>>(&Request::Leases(wanted.clone()))?);
        let Some(More { after, .. }) = client.more() else { return Ok(leases) };
        wanted.after = Some(after.clone());
    }
}

/// The leases of the edges of each link, by its request and the item of that.
fn edges(leases: &[LeaseView]) -> BTreeMap<(&str, u16), Vec<&LeaseView>> {
    let mut edges: BTreeMap<_, Vec<&LeaseView>> = BTreeMap::new();
    for lease in leases.iter().filter(|lease| lease.joins.is_some() && lease.state == "active") {
        if let (Some(group), Some(item)) = (&lease.group, lease.item) {
            edges.entry((group.as_str(), item)).or_default().push(lease);
        }
    }
    edges
}

/// A link that is to be measured.
struct Link {
    line: Line,
    /// The places that its edges are between, and what it has of each, in megabits per second.
    widths: BTreeMap<String, f64>,
    /// What it is measured between, or why it cannot be.
    ends: Result<[End; 2], String>,
}

impl Link {
    fn of(edges: &[&LeaseView], leases: &[LeaseView]) -> Self {
        let units = edges.first().and_then(|edge| {
            let unit = |item| first_unit(leases, edge.group.as_ref(), item);
            Some(edge.joins?.map(unit))
        });
        let units = units.unwrap_or_default();
        let widths = widths(edges);
        // As much as the narrowest.
        let leased = widths.as_ref().and_then(|all| all.values().copied().min_by(f64::total_cmp));
        let mut path: Vec<&str> = Vec::new();
        for edge in edges.iter().map(|edge| edge.resource.as_str()) {
            if !path.contains(&edge) {
                path.push(edge);
            }
        }
        let line = Line {
            link: edges.iter().map(|edge| edge.lease.as_str()).collect::<Vec<_>>().join(" "),
            path: path.join(" "),
            from: units[0].map(|unit| unit.unit.clone()),
            to: units[1].map(|unit| unit.unit.clone()),
            leased_mbit: leased.unwrap_or_default(),
            there_mbit: None,
            back_mbit: None,
            ratio: None,
        };
        let ends = leased
            .ok_or_else(|| "no driver says what it carries, as `link` does".to_owned())
            .and_then(|_| Ok([end(units[0])?, end(units[1])?]));
        Self { line, widths: widths.unwrap_or_default(), ends }
    }

    /// What it may send, in bits per second: no more than its own where another link of the slice has an edge with it.
    fn most(&self, links: &[Self]) -> Option<f64> {
        let shares = |other: &&Self| other.widths.keys().any(|edge| self.widths.contains_key(edge));
        let shared = links.iter().filter(shares).count() > 1;
        shared.then_some(self.line.leased_mbit * 1e6 * NET)
    }
}

/// The first unit in use among the leases of an item.
fn first_unit<'a>(
    leases: &'a [LeaseView],
    group: Option<&String>,
    item: u16,
) -> Option<&'a LeaseUnitView> {
    let of_item = |lease: &&LeaseView| lease.group.as_ref() == group && lease.item == Some(item);
    let units = leases.iter().filter(of_item).flat_map(|lease| &lease.in_hand);
    units.into_iter().find(|unit| unit.usage == "joined")
}

/// What a link has of each of its edges, in megabits per second; none if no driver says so.
fn widths(edges: &[&LeaseView]) -> Option<BTreeMap<String, f64>> {
    let mut widths = BTreeMap::new();
    for edge in edges {
        for unit in &edge.in_hand {
            let of_one = Bandwidth::try_from(unit.properties.get("link.unit")?.clone()).ok()?;
            let width = of_one.megabits() * f64::from(unit.quantity);
            *widths.entry(unit.properties.get("link.ends")?.clone()).or_default() += width;
        }
    }
    Some(widths)
}

/// Where a unit is reached.
fn end(unit: Option<&LeaseUnitView>) -> Result<End, String> {
    let unit = unit.ok_or("no unit is in use at one of its ends")?;
    let property = |key: &str| {
        unit.properties.get(key).ok_or_else(|| {
            format!("the unit {} has no `{key}`, as those of the driver `netns` have", unit.unit)
        })
    };
    let address = property("host.ipv6")?;
    let address = address
        .parse()
        .map_err(|_| format!("the unit {} has the address `{address}`", unit.unit))?;
    Ok(End { space: property("unit.netns")?.clone(), address })
}

/// Measures one way of all links at the same time.
fn all(
    links: &[Link],
    lasting: Duration,
    way: fn(&[End; 2]) -> [&End; 2],
) -> Vec<Result<f64, String>> {
    let transfer = |link: &Link| {
        let ends = link.ends.as_ref().map_err(Clone::clone)?;
        received(way(ends), lasting, link.most(links)).map_err(|error| unmeasured(&error))
    };
    thread::scope(|scope| {
        let transfers: Vec<_> =
            links.iter().map(|link| scope.spawn(move || transfer(link))).collect();
        let failed = |_| Err("the measurement failed".to_owned());
        transfers.into_iter().map(|transfer| transfer.join().unwrap_or_else(failed)).collect()
    })
}

fn unmeasured(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return format!("{error}: the namespaces of units are entered by root alone");
    }
    error.to_string()
}

/// A link as it is printed. Rates are in megabits per second.
#[derive(Debug, PartialEq, Serialize)]
struct Line {
    /// The leases of its edges.
    link: String,
    /// Their types.
    path: String,
    /// The units it was measured between.
    from: Option<String>,
    to: Option<String>,
    leased_mbit: f64,
    there_mbit: Option<f64>,
    back_mbit: Option<f64>,
    /// The smaller of the two, divided by what is leased.
    ratio: Option<f64>,
}

impl Line {
    fn measured(self, ways: Option<[f64; 2]>) -> Self {
        let [there, back] = ways.map_or([None; 2], |ways| ways.map(|bits| Some(bits / 1e6)));
        let ratio = there.zip(back).map(|(there, back)| there.min(back) / self.leased_mbit);
        Self { there_mbit: there, back_mbit: back, ratio, ..self }
    }
}

impl print::Row for Line {
    const COLUMNS: &'static [&'static str] =
        &["link", "path", "from", "to", "leased", "there", "back", "ratio"];

    fn cells(&self) -> Vec<String> {
        let none = || "-".to_owned();
        let rate = |rate: Option<f64>| rate.map_or_else(none, |rate| format!("{rate:.1}"));
        vec![
            self.link.clone(),
            self.path.clone(),
            self.from.clone().unwrap_or_else(none),
            self.to.clone().unwrap_or_else(none),
            format!("{} Mbit/s", self.leased_mbit),
            rate(self.there_mbit),
            rate(self.back_mbit),
            self.ratio.map_or_else(none, |ratio| format!("{ratio:.2}")),
        ]
    }
}
