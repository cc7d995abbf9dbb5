//! What a broker has sold of the units that a request asks for, and when there is room for it.

use serde::{Deserialize, Serialize};
use tenure_core::broker::machine::State;
use tenure_core::broker::{Broker, HoldingSurvey};
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::ticket::Ticket;
use tenure_core::wire::request::{Item, Request};

use super::super::view::{self, Names};

/// How many bookings are shown.
const MOST: usize = 5;

/// How many starts are tried to find when there is room.
const TRIES: usize = 64;

/// Units held by another request over part of the requested term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookingView {
    /// The request that they were sold for first.
    pub request: String,
    /// The ticket, without its extensions.
    pub ticket: String,
    /// How many.
    pub units: u32,
    /// Their type.
    pub resource: String,
    /// Whose they are.
    pub site: String,
    /// From when.
    pub start: String,
    /// Until when, with its extensions.
    pub end: String,
}

/// How a request stands against what is sold.
#[derive(Clone, Debug, Default)]
pub(super) struct Market {
    /// The bookings in the way, the nearest to its end first.
    pub(super) bookings: Vec<BookingView>,
    /// How many more there are.
    pub(super) more: usize,
    /// The first start from `from` on with room for it, as things stand.
    pub(super) room: Option<Time>,
    /// All units of the type, by site.
    pub(super) stock: Vec<(String, u32)>,
}

impl Market {
    /// Looks at the first item of a request; `from` is the earliest start that still counts.
    pub(super) fn of(broker: &Broker, request: &Request, from: Time, names: &Names) -> Self {
        let Some(item) = request.items.first() else { return Self::default() };
        let of_type = || broker.holdings().filter(|h| h.ticket.bottom().resource == item.resource);
        let suiting: Vec<HoldingSurvey<'_>> = of_type().filter(|h| suits(h, item)).collect();
        let stock = of_type()
            .map(|h| (view::name(names, h.ticket.site()), h.ticket.bottom().units.get()))
            .collect();
        let starts = from.max(request.earliest);
        let Ok(term) = Term::lasting(starts, request.duration) else { return Self::default() };
        let mut sold: Vec<(String, &Ticket)> = Vec::new();
        for asked in broker.request_survey() {
            let State::Granted { tickets, returned } = asked.state else { continue };
            let name = format!("{}/{}", view::name(names, asked.id.origin), asked.id.number);
            let held = tickets.iter().map(|(_, ticket)| ticket);
            let held = held.filter(|ticket| !returned.contains(&ticket.hash()));
            let held =
                held.filter(|ticket| suiting.iter().any(|h| h.ticket.site() == ticket.site()));
            sold.extend(held.map(|ticket| (name.clone(), ticket)));
        }
        sold.retain(|(_, ticket)| ticket.bottom().resource == item.resource);
        let mut in_the_way = joined(sold);
        in_the_way.retain(|held| starts < held.end());
        // More may be free when something ends, be it in the way of the first start or of a later one.
        let ends: Vec<Time> = in_the_way.iter().map(Held::end).collect();
        let room = std::iter::once(starts)
            .chain(ends)
            .take(TRIES)
            .find(|&start| has_room(&suiting, item, start, request.duration));
        in_the_way.retain(|held| held.first.bottom().term.start() < term.end());
        let bookings = in_the_way.iter().take(MOST).map(|held| {
            let link = held.first.bottom();
            BookingView {
                request: held.request.clone(),
                ticket: held.first.hash().to_hex(),
                units: link.units.get(),
                resource: link.resource.to_string(),
                site: view::name(names, held.first.site()),
                start: view::time(link.term.start()),
                end: view::time(held.end()),
            }
        });
        let bookings: Vec<_> = bookings.collect();
        Self { more: in_the_way.len() - bookings.len(), bookings, room, stock }
    }

    /// Who holds the units, in words; the one that ends first is named.
    pub(super) fn in_words(&self) -> Option<String> {
        let first = self.bookings.first()?;
        let others = self.bookings.len() + self.more - 1;
        let others =
            if others > 0 { format!(", and {others} more hold some") } else { String::new() };
        let BookingView { request, units, resource, site, end, .. } = first;
        Some(format!("{request} holds {units} {resource} of {site} until {end}{others}"))
    }

    /// What there is, in words.
    pub(super) fn stock_in_words(&self) -> String {
        let of = self.stock.iter().map(|(site, units)| format!("{units} of {site}"));
        let of: Vec<String> = of.collect();
        if of.is_empty() { "nothing of the type".to_owned() } else { of.join(", ") }
    }
}

/// A sold ticket, with its extensions.
struct Held<'a> {
    request: String,
    first: &'a Ticket,
    last: &'a Ticket,
}

impl Held<'_> {
    fn end(&self) -> Time {
        self.last.bottom().term.end()
    }
}

/// Tickets with their extensions, the nearest to its end first.
fn joined(mut sold: Vec<(String, &Ticket)>) -> Vec<Held<'_>> {
    sold.sort_by_key(|(_, ticket)| (ticket.bottom().term.end(), ticket.hash()));
    let mut all: Vec<Held<'_>> = Vec::new();
    for (request, ticket) in sold {
        let extended = ticket.bottom().extends.and_then(|before| {
            all.iter_mut().find(|held| [held.first.hash(), held.last.hash()].contains(&before))
        });
        match extended {
            Some(held) => held.last = ticket,
            None => all.push(Held { request, first: ticket, last: ticket }),
        }
    }
    all.sort_by_key(|held| (held.end(), held.first.hash()));
    all
}

fn suits(holding: &HoldingSurvey<'_>, item: &Item) -> bool {
    item.requirements.first_broken(holding.attributes, &Properties::default()).is_none()
}

fn has_room(suiting: &[HoldingSurvey<'_>], item: &Item, start: Time, duration: Span) -> bool {
    let Ok(term) = Term::lasting(start, duration) else { return false };
    let free = suiting.iter().map(|holding| {
        let link = holding.ticket.bottom();
        let whole = if link.term.encloses(term) { i64::from(link.units.get()) } else { 0 };
        holding.free.map_or(whole, |calendar| calendar.free_over(term)).max(0)
    });
    free.sum::<i64>() >= i64::from(item.min_units.get())
}
