//! What a lease waits for, and its service manager's words on it.

use tenure_core::driver::UnitId;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::RequestId;
use tenure_core::service_manager::machine::{Outcome, State, UnitUse};
use tenure_core::service_manager::{LeaseSurvey, Standing, request};
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::refusal::Refusal;

use super::super::view::{LeaseView, WaitView};
use super::super::{offer, view};

/// What a lease waits for.
pub(super) enum Waits {
    /// For nothing that another actor does; with what the user can do.
    Nothing(String, Option<String>),
    /// For a broker's answer to a request.
    Broker(ActorId, RequestId),
    /// For a site's answer about a ticket.
    Site(ActorId, LinkHash),
    /// For nothing: it was refused.
    Refused(Box<Refusal>),
}

/// The same of a part of what goes to several brokers.
pub(super) fn with_attempt(waits: Waits, says: String, lease: &LeaseView) -> (Waits, String) {
    let Some(attempt) = lease.attempt.as_ref().filter(|attempt| attempt.state != "whole") else {
        return (waits, says);
    };
    let withdrawn = lease.refusal.as_ref().is_none_or(|refusal| refusal.code == "withdrawn");
    let says = match lease.state.as_str() {
        "offered" => format!("{} holds it until all brokers do", attempt.broker),
        "ticketed" => "its ticket is kept until those of all brokers are there".to_owned(),
        "given-up" | "closed" if attempt.failed.is_some() && withdrawn => attempt.in_words(),
        _ => return (waits, says),
    };
    (Waits::Nothing(says.clone(), None), says)
}

/// The same of a lease that waits for others.
pub(super) fn with_others(waits: Waits, says: String, lease: &LeaseView) -> (Waits, String) {
    let held = |gate: &str| {
        let waits = lease.waits_for.iter().filter(|wait| wait.gate == gate);
        let first = waits.clone().next()?.on.clone();
        Some((first, waits.map(WaitView::in_words).collect::<Vec<_>>().join(", ")))
    };
    let (what, on) = match lease.state.as_str() {
        "redeeming" => ("its ticket is redeemed", held("redeem")),
        "joining" => ("its units are joined", held("join")),
        _ => return (waits, says),
    };
    if let Some(until) = &lease.mapper_asked_until {
        let says = format!("{what} once its mapper has answered, at the latest at {until}");
        return (Waits::Nothing(says.clone(), None), says);
    }
    match on {
        Some((first, on)) => {
            let says = format!("{what} once all units of {on} are in use");
            let help =
                format!("if that is lost, it goes back; look with `tenure lease why {first}`");
            (Waits::Nothing(says.clone(), Some(help)), says)
        }
        None => (waits, says),
    }
}

/// What a lease waits for, and what its service manager says about it.
pub(super) fn waits(lease: &LeaseSurvey<'_>, origin: ActorId) -> (Waits, String) {
    if let (Some(State::Crediting { .. } | State::Closed { .. }), Some((_, refusal))) =
        (lease.state.lease(), lease.closed_by)
    {
        let says = format!("its site closed it: {refusal}");
        return (Waits::Refused(Box::new(refusal.clone())), says);
    }
    if let Some(outcome) = lease.state.outcome() {
        return has_gone(&outcome);
    }
    match lease.state {
        Standing::Request(state) => of_request(state, lease, origin),
        Standing::Lease(state) => of_lease(state),
    }
}

/// The same of a lease of which units are recalled: what goes, for whom, and what the user can do about it.
pub(super) fn with_recall(
    waits: Waits,
    says: String,
    lease: &LeaseView,
    orders: &[String],
) -> (Waits, String) {
    match (waits, &lease.recalled) {
        (Waits::Nothing(reason, help), Some(recalled)) => {
            let told = [vec![recalled.in_words(lease.units)], orders.to_vec()].concat().join("; ");
            let names = "name who goes first: tenure lease victims";
            let some = recalled.units > 0 && !recalled.going.is_empty();
            let choice = some.then(|| format!("{names} {} {}", lease.lease, list(&recalled.going)));
            let reason = format!("{reason}; {told}");
            (Waits::Nothing(reason.clone(), help.or(choice)), reason)
        }
        (waits, _) => (waits, says),
    }
}

/// The same of a lease of which units have failed.
pub(super) fn with_failure(waits: Waits, says: String, told: Option<String>) -> (Waits, String) {
    let Some(told) = told else { return (waits, says) };
    match waits {
        Waits::Nothing(reason, help) => {
            let reason = format!("{reason}; {told}");
            (Waits::Nothing(reason.clone(), help), reason)
        }
        waits @ (Waits::Broker(..) | Waits::Site(..) | Waits::Refused(_)) => {
            (waits, format!("{says}; {told}"))
        }
    }
}

fn list(units: &[UnitId]) -> String {
    units.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn nothing(reason: &str) -> (Waits, String) {
    (Waits::Nothing(reason.to_owned(), None), reason.to_owned())
}

fn of_request(state: &request::State, lease: &LeaseSurvey<'_>, origin: ActorId) -> (Waits, String) {
    let asked = lease.request.map(|(broker, request)| {
        let id = RequestId { origin, number: request.id.number };
        (Waits::Broker(broker, id), view::time(request.answer_by))
    });
    match (state, asked) {
        (request::State::Asked, Some((broker, until))) => {
            let unanswered = || format!("a broker was asked; an answer is of use until {until}");
            (broker, lease.waiting.map_or_else(unanswered, offer::in_words))
        }
        (request::State::Offered { offers, until, .. }, _) => nothing(&format!(
            "its broker holds {} offers until {}: accept one, or release them",
            offers.len(),
            view::time(*until)
        )),
        (request::State::Planned { offers, .. }, _) => {
            nothing(&format!("it is a plan, with {} offers; nothing is booked", offers.len()))
        }
        (request::State::Accepting { number, .. }, Some((broker, _))) => {
            (broker, format!("the tickets of offer {number} are asked for"))
        }
        (_, _) => nothing(
            "the broker's answer did not come in time; a ticket that still comes is given back",
        ),
    }
}

fn of_lease(state: &State) -> (Waits, String) {
    match state {
        State::Ticketed { split, .. } => {
            let help = if *split {
                "hand the rest on to yourself, then redeem that"
            } else {
                "redeem it with `tenure lease redeem`, or split it"
            };
            let says = "its ticket is kept, and was not redeemed yet".to_owned();
            (Waits::Nothing(says.clone(), Some(help.to_owned())), says)
        }
        State::Redeeming { ticket } => {
            let says = format!("the site was shown ticket {}", ticket.hash());
            (Waits::Site(ticket.site(), ticket.hash()), says)
        }
        State::Joining { held } => nothing(&format!(
            "the units are there; {} of {} have yet to be joined by the guest's driver",
            held.awaited,
            held.units.len()
        )),
        State::Active { held } => {
            let unusable =
                held.units.values().filter(|(_, usage)| *usage == UnitUse::Unusable).count();
            let until = format!("it is active until {}", view::time(held.term.end()));
            if unusable == 0 {
                return nothing(&until);
            }
            let says = format!(
                "{until}, but {unusable} of {} units could not be joined by the guest's driver",
                held.units.len()
            );
            let help = "the facts have the driver's error; repair the cause, then close the lease and request again";
            (Waits::Nothing(says.clone(), Some(help.to_owned())), says)
        }
        State::Leaving { held, .. } => nothing(&format!(
            "the guest leaves its units; {} of {} have yet to be left",
            held.awaited,
            held.units.len()
        )),
        State::Closing { tickets, .. } => {
            let Some(ticket) = tickets.first() else { return nothing("it is being given back") };
            let says = "the site was asked to take the units back".to_owned();
            (Waits::Site(ticket.site(), ticket.hash()), says)
        }
        State::Crediting { .. } => {
            nothing("the broker was shown the receipts, and has yet to take them")
        }
        State::Closed { outcome } => has_gone(outcome),
    }
}

/// How a lease went, and what its service manager says about it.
fn has_gone(outcome: &Outcome) -> (Waits, String) {
    let waits = over(outcome);
    let says = match &waits {
        Waits::Nothing(says, _) => says.clone(),
        Waits::Refused(refusal) => format!("it was refused: {refusal}"),
        Waits::Broker(..) | Waits::Site(..) => String::new(),
    };
    (waits, says)
}

/// How it went, and what to do about that.
fn over(outcome: &Outcome) -> Waits {
    match outcome {
        Outcome::Ended => Waits::Nothing("its term has ended".to_owned(), None),
        Outcome::GivenBack => Waits::Nothing("it was given back before its end".to_owned(), None),
        Outcome::Unanswered => {
            let help = "see `tenure doctor`: the broker may be down or out of reach";
            Waits::Nothing("no answer came in time".to_owned(), Some(help.to_owned()))
        }
        Outcome::Refused(refusal) => Waits::Refused(Box::new(refusal.clone())),
    }
}
