//! Offers, places in a queue and bookings in the way, as users see them.

use serde::{Deserialize, Serialize};
use tenure_core::model::time::Time;
use tenure_core::service_manager::request::State;
use tenure_core::service_manager::{LeaseSurvey, Standing};
use tenure_core::wire::offer::{Booking, Offer, OfferPart, Waiting};
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::Request;

use super::view::{self, Names};

/// A way to meet a request, or to come near it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferView {
    /// Its number, to accept it by.
    pub offer: u8,
    /// How it differs from what was asked for: later, fewer, shorter; nothing if it does not.
    pub differs: Vec<String>,
    /// What it is made of.
    pub parts: Vec<OfferPartView>,
    /// What it costs, if that is stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
}

/// Units of one type from one site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferPartView {
    /// How many.
    pub units: u32,
    /// Their type.
    pub resource: String,
    /// The site.
    pub site: String,
    /// From when.
    pub start: String,
    /// Until when.
    pub end: String,
}

/// Where a request stands that waits at its broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueView {
    /// Its place; the first is 1.
    pub place: u32,
    /// The start that it can expect.
    pub expected: Option<String>,
    /// What it waits for.
    pub reason: String,
}

/// A booking in the way of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InTheWayView {
    /// Who has the units.
    pub holder: String,
    /// How many.
    pub units: u32,
    /// Their type.
    pub resource: String,
    /// From when.
    pub start: String,
    /// Until when.
    pub end: String,
}

/// The request behind what is shown, if it has no lease.
fn state<'a>(lease: &LeaseSurvey<'a>) -> Option<(&'a State, &'a Request)> {
    match (lease.state, lease.request) {
        (Standing::Request(state), Some((_, request))) => Some((state, request)),
        (Standing::Request(_) | Standing::Lease(_), _) => None,
    }
}

pub(super) fn offers(names: &Names, lease: &LeaseSurvey<'_>) -> Vec<OfferView> {
    let Some((state, request)) = state(lease) else { return Vec::new() };
    let numbered = (1..).zip(state.offers());
    // The one that is being accepted keeps its number.
    let number = |place| if let State::Accepting { number, .. } = state { *number } else { place };
    numbered.map(|(place, offer)| of(names, number(place), offer, request)).collect()
}

fn of(names: &Names, number: u8, offer: &Offer, request: &Request) -> OfferView {
    let part = |part: &OfferPart| {
        let item = request.items.get(usize::from(part.item));
        OfferPartView {
            units: part.units.get(),
            resource: match &part.edge {
                Some(edge) => edge.to_string(),
                None => item.map_or_else(String::new, |item| item.resource.to_string()),
            },
            site: view::name(names, part.site),
            start: view::time(part.term.start()),
            end: view::time(part.term.end()),
        }
    };
    OfferView {
        offer: number,
        differs: differs(offer, request).into_iter().map(ToOwned::to_owned).collect(),
        parts: offer.parts.iter().map(part).collect(),
        cost: offer.cost().map(|cost| cost.to_string()),
    }
}

/// How an offer differs from what was asked for.
fn differs(offer: &Offer, request: &Request) -> Vec<&'static str> {
    let late = offer.start().is_some_and(|start| request.latest < start);
    let short = offer.parts.iter().any(|part| part.term.duration() < request.min_duration);
    let fewer = !request.is_met_by(&offer.units_of_each(request.items.len()));
    let all = [(late, "later"), (fewer, "fewer"), (short, "shorter")];
    all.into_iter().filter_map(|(differs, word)| differs.then_some(word)).collect()
}

/// Until when offers are held.
pub(super) fn held_until(lease: &LeaseSurvey<'_>) -> Option<String> {
    match state(lease)? {
        (State::Offered { until, .. }, _) => Some(view::time(*until)),
        _ => None,
    }
}

/// Why a request that has offers cannot be met as it is.
pub(super) fn unmet<'a>(lease: &LeaseSurvey<'a>) -> Option<&'a Refusal> {
    match state(lease)?.0 {
        State::Offered { refusal, .. } | State::Planned { refusal, .. } => refusal.as_ref(),
        State::Asked
        | State::Accepting { .. }
        | State::GivenUp
        | State::Granted { .. }
        | State::Refused { .. }
        | State::Unanswered => None,
    }
}

pub(super) fn queue(lease: &LeaseSurvey<'_>) -> Option<QueueView> {
    let Waiting { place, expected, reason } = lease.waiting?;
    Some(QueueView { place: *place, expected: expected.map(view::time), reason: reason.clone() })
}

/// The bookings that a refusal names.
pub(super) fn in_the_way(names: &Names, refusal: Option<&Refusal>) -> Vec<InTheWayView> {
    let Some(Refusal::Busy { in_the_way, .. }) = refusal else { return Vec::new() };
    let one = |booking: &Booking| InTheWayView {
        holder: view::name(names, booking.holder),
        units: booking.units,
        resource: booking.resource.to_string(),
        start: view::time(booking.term.start()),
        end: view::time(booking.term.end()),
    };
    in_the_way.iter().map(one).collect()
}

/// The earliest start that is left, in words.
pub(super) fn in_words(waiting: &Waiting) -> String {
    let expected = waiting.expected.map(|at: Time| format!(", expected at {}", view::time(at)));
    let Waiting { place, reason, .. } = waiting;
    format!("it is number {place} in the queue{}: {reason}", expected.unwrap_or_default())
}
