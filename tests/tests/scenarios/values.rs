//! Requests, tickets, offers and other values in short.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::site_authority::Stacks;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::receipt::Receipt;
use tenure_core::wire::message::LeasedUnit;
use tenure_core::wire::offer::{Offer, OfferPart, Reply, Waiting};
use tenure_core::wire::part::Part;
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::Request;

use super::names::{self, Names};

/// A refusal: its word, and its text.
pub fn refusal(names: &Names, refusal: &Refusal) -> String {
    format!("{} ({})", refusal.word(), names.plain(&refusal.to_string()))
}

/// A part that goes back.
pub fn part(part: &Part) -> String {
    match part {
        Part::Units(units) => names::units(units),
        Part::Quantity(quantity) => format!("{quantity} of its share"),
        Part::Until(until) => format!("all from {} on", names::clock(*until)),
        Part::Rights { units, from } => format!("{units} from {} on", names::clock(*from)),
    }
}

/// `2 node over 10:00-12:00`, or with a window of starts `2 node for 2h, from 10:00 to 11:00 at the latest`.
pub fn request(names: &Names, request: &Request) -> String {
    let items = request.items.iter().map(|item| {
        let min_units = if item.min_units < item.units {
            format!("{}..", item.min_units)
        } else {
            String::new()
        };
        let on = item.extends.map(|ticket| format!(" that go on from {}", names.hash(ticket)));
        let needs = item.requirements.iter().map(|needs| format!(" where '{needs}'"));
        let needs: String = needs.collect();
        let optional = if item.optional { "optional " } else { "" };
        let after = if item.offset > Span::ZERO {
            format!(" after {}", item.offset)
        } else {
            String::new()
        };
        let bundle = item.together.map(|n| format!(" in bundle {n}")).unwrap_or_default();
        let apart = item.apart().map(|n| format!(" apart {n}")).unwrap_or_default();
        let joins = item.joins().map(|joins| {
            let [from, to] = joins.ends;
            let hops = joins.hops.map(|hops| format!(" hops {hops}")).unwrap_or_default();
            let latency = joins.latency.map(|most| format!(" latency {most}"));
            format!(" joins {from} {to}{hops}{}", latency.unwrap_or_default())
        });
        let bundle = bundle + &apart + &joins.unwrap_or_default();
        let (units, on) = (item.units, on.unwrap_or_default());
        let text =
            format!("{optional}{min_units}{units} {}{after}{bundle}{on}{needs}", item.resource);
        (item.choice, text)
    });
    let mut choices: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    for (choice, item) in items {
        choices.entry(choice).or_default().push(item);
    }
    let items = choices.values().map(|items| items.join(" and ")).collect::<Vec<_>>().join(" or ");
    let shortest = if request.min_duration < request.duration {
        format!(" or at least {}", request.min_duration)
    } else {
        String::new()
    };
    let reply = match request.reply {
        Reply::Grant => String::new(),
        Reply::Plan => ", as a plan".to_owned(),
        Reply::Hold(span) => format!(", held for {span}"),
    };
    let by = request.provisos.redeem_by;
    let by = by.map(|by| format!(", to be redeemed before {}", names::clock(by)));
    let sites =
        request.provisos.not_at.iter().map(|site| format!(", not at {}", names.actor(*site)));
    let not_on = request.provisos.not_on.iter();
    let units = not_on.map(|(site, unit)| format!(", not on {}/{unit}", names.actor(*site)));
    let provisos = sites.chain(units).chain(by).collect::<String>();
    let receipts = match request.receipts.len() {
        0 => String::new(),
        count => format!(", with {count} receipts"),
    };
    let items_text = |text: String| format!("{text}{shortest}{reply}{provisos}{receipts}");
    items_text(window(request, &items))
}

/// When units are asked for.
pub fn window(request: &Request, items: &str) -> String {
    let (from, to) = (request.earliest, request.latest);
    if from == to {
        let end = from.plus(request.duration);
        format!("{items} over {}-{}", names::clock(from), names::clock(end))
    } else {
        let (from, to) = (names::clock(from), names::clock(to));
        format!("{items} for {}, to start from {from} until {to}", request.duration)
    }
}

pub fn tickets(names: &mut Names, tickets: &[(u16, Ticket)]) -> String {
    let tickets: Vec<_> = tickets.iter().map(|(_, ticket)| names.ticket_in_full(ticket)).collect();
    tickets.join(", ")
}

pub fn tickets_for(names: &mut Names, number: u64, granted: &[(u16, Ticket)]) -> String {
    let each = (0..).zip(granted).map(|(part, (_, ticket))| {
        let lease = LeaseId { number, part };
        format!("lease {} on {}", names::lease(lease), names.ticket_in_full(ticket))
    });
    each.collect::<Vec<_>>().join(", ")
}

pub fn leased_units(units: &[LeasedUnit]) -> String {
    names::list(units.iter().map(|leased| {
        let LeasedUnit { unit, epoch, quantity, .. } = leased;
        format!("{unit}{} in epoch {}", share(*quantity), epoch.0)
    }))
}

/// How much a share is; nothing of a machine.
pub fn share(quantity: NonZeroU32) -> String {
    if quantity.get() > 1 { format!(" ({quantity})") } else { String::new() }
}

/// A unit with the properties that its modification has left.
pub fn modified(leased: &LeasedUnit) -> String {
    format!("{} with {}", leased.unit, configured(&leased.properties))
}

pub fn configured(properties: &Properties) -> String {
    if properties.is_empty() {
        return "no properties".to_owned();
    }
    let pairs = properties.iter().map(|(key, value)| format!("{key}={value}"));
    names::list(pairs)
}

pub fn receipts(names: &Names, receipts: &[Receipt]) -> String {
    match receipts {
        [] => "no receipt".to_owned(),
        receipts => {
            let each = receipts.iter().map(|receipt| names.receipt(receipt));
            format!("receipt for {}", names::list(each))
        }
    }
}

/// Offers in their order, each with its units by item, site and term.
pub fn offers(names: &Names, offers: &[Offer]) -> String {
    let part = |part: &OfferPart| {
        let (site, term) = (names.actor(part.site), names::term(part.term));
        let edge = part.edge.as_ref().map(|edge| format!(" of {edge}")).unwrap_or_default();
        format!("{}{edge} for item {} at {site} over {term}", part.units, part.item)
    };
    let offer = |offer: &Offer| {
        let parts: Vec<_> = offer.parts.iter().map(part).collect();
        let cost = offer.cost().map(|cost| format!(", which costs {cost}"));
        format!("{}{}", parts.join(" + "), cost.unwrap_or_default())
    };
    let offers: Vec<String> = offers.iter().map(offer).collect();
    if offers.is_empty() { "no offer".to_owned() } else { offers.join(" or ") }
}

/// The offers that come with a refusal, if there are any.
pub fn offered(names: &Names, made: &[Offer]) -> String {
    if made.is_empty() { String::new() } else { format!("; instead {}", offers(names, made)) }
}

pub fn until(until: Option<Time>) -> String {
    until.map_or_else(|| "not held".to_owned(), |until| format!("held until {until}"))
}

pub fn because(names: &Names, why: Option<&Refusal>) -> String {
    why.map_or_else(String::new, |why| format!("; {}", refusal(names, why)))
}

pub fn waiting(names: &Names, waiting: &Waiting) -> String {
    let Waiting { place, expected, reason } = waiting;
    let expected = expected.map_or_else(String::new, |at| format!(", expected at {at}"));
    format!("place {place}{expected}: {}", names.plain(reason))
}

/// `bench-1 (h1 r1), bench-2 (h2 r2)`.
pub fn stacks(stacks: &Stacks) -> String {
    let stack = |(name, units): (&Name, &BTreeSet<Name>)| {
        let units: Vec<&str> = units.iter().map(Name::as_str).collect();
        format!("{name} ({})", units.join(" "))
    };
    stacks.iter().map(stack).collect::<Vec<_>>().join(", ")
}
