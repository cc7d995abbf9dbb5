//! Boundaries: what happens at the very instant at which something begins, ends, or is too late.

use tenure_core::broker::facts as broker;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::site_authority::machine::CloseReason;
use tenure_core::wire::message::{Message, Sealed};

use super::wire::about;

/// The boundary at which a message arrives by its receiver's clock, if it is one.
#[allow(clippy::too_many_lines, reason = "a line for each kind of message")]
pub(super) fn arrival(now: Time, margin: Span, sealed: &Sealed) -> Option<&'static str> {
    let message = sealed.peek().ok()?.message;
    let term = about(&message)?;
    let (start, end) = (term.start(), term.end());
    let edges = [start, end.minus(margin), end, end.plus(margin)];
    let edge = edges.iter().position(|edge| *edge == now)?;
    Some(match (message, edge) {
        (Message::Redeem { .. }, 0) => "redeem arrives at the start",
        (Message::Redeem { .. }, 1) => "redeem arrives at the end - margin",
        (Message::Redeem { .. }, 2) => "redeem arrives at the end",
        (Message::Redeem { .. }, _) => "redeem arrives at the end + margin",
        (Message::Close { .. }, 0) => "close arrives at the start",
        (Message::Close { .. }, 1) => "close arrives at the end - margin",
        (Message::Close { .. }, 2) => "close arrives at the end",
        (Message::Close { .. }, _) => "close arrives at the end + margin",
        (Message::Granted { .. }, 0) => "granted arrives at the start",
        (Message::Granted { .. }, 1) => "granted arrives at the end - margin",
        (Message::Granted { .. }, 2) => "granted arrives at the end",
        (Message::Granted { .. }, _) => "granted arrives at the end + margin",
        (Message::Leased { .. }, 0) => "leased arrives at the start",
        (Message::Leased { .. }, 1) => "leased arrives at the end - margin",
        (Message::Leased { .. }, 2) => "leased arrives at the end",
        (Message::Leased { .. }, _) => "leased arrives at the end + margin",
        (Message::Closed { .. }, 2) => "closed arrives at the end",
        (Message::Credit { .. }, 2) => "credit arrives at the end",
        (Message::Request(_), 0) => "request arrives at its earliest start",
        (Message::Request(_), 2) => "request arrives when its answer is due",
        (
            Message::Closed { .. }
            | Message::Credit { .. }
            | Message::Request(_)
            | Message::Delegate { .. }
            | Message::Delegated { .. }
            | Message::Return { .. }
            | Message::Returned { .. }
            | Message::Modify { .. }
            | Message::Modified { .. }
            | Message::Reclaim { .. }
            | Message::Reclaimed { .. }
            | Message::Recall { .. }
            | Message::Recalled { .. }
            | Message::RecallNotice { .. }
            | Message::RecallNoted { .. }
            | Message::UnitFailed { .. }
            | Message::Ping
            | Message::Inquire(_)
            | Message::Available { .. }
            | Message::Pong { .. }
            | Message::Keys { .. }
            | Message::KeysNoted { .. }
            | Message::Need(_)
            | Message::Noted { .. }
            | Message::Hosts(_)
            | Message::HostsNoted { .. }
            | Message::HostsChanged { .. }
            | Message::Restate { .. }
            | Message::HandOver(_)
            | Message::HandedBack(_)
            | Message::AskPortion(_)
            | Message::PortionBack(_)
            | Message::PortionDecided { .. }
            | Message::Heartbeat { .. }
            | Message::HeartbeatHeard { .. }
            | Message::Advert(_)
            | Message::AdvertWanted
            | Message::Join(_)
            | Message::Joined { .. }
            | Message::Credited { .. }
            | Message::Waiting { .. }
            | Message::Offered { .. }
            | Message::Accept { .. }
            | Message::Withdraw(_)
            | Message::Refused { .. },
            _,
        ) => return None,
    })
}

/// The boundary at which a fact came to be by its actor's clock, if it is one; `seat` has yet to apply it.
pub(super) fn fact(entry: &Entry, margin: Span, actor: &AnyActor) -> Option<&'static str> {
    let Entry { at, fact } = entry;
    match (fact, actor) {
        (Fact::SiteAuthority(fact), _) => site(*at, fact),
        (Fact::ServiceManager(fact), AnyActor::ServiceManager(actor)) => {
            guest(*at, fact, |lease| {
                let end = actor.lease(lease)?.held()?.term.end();
                (at.plus(margin) == end).then_some(end)
            })
        }
        (Fact::Broker(broker::Fact::TicketsCut(fact)), _) => {
            let start = fact.tickets.first()?.1.bottom().term.start();
            (start == *at).then_some("ticket cut at its start")
        }
        _ => None,
    }
}

/// At a guest; `ends` answers for a lease that ends one margin from now.
fn guest(
    at: Time,
    fact: &service_manager::Fact,
    ends: impl Fn(LeaseId) -> Option<Time>,
) -> Option<&'static str> {
    use service_manager::Fact as F;
    if let F::Leased(fact) = fact {
        (fact.term.start() == at).then_some("guest takes its units at the start")
    } else if let F::TermOver(fact) = fact {
        ends(fact.lease).map(|_| "guest ends a lease at its end - margin")
    } else if let F::ExtensionAsked(fact) = fact {
        ends(fact.lease).map(|_| "extension asked at the end - margin")
    } else {
        None
    }
}

fn site(at: Time, fact: &site_authority::Fact) -> Option<&'static str> {
    use site_authority::Fact as F;
    if let F::Redeemed(fact) = fact {
        (fact.ticket.bottom().term.start() == at).then_some("lease redeemed at its start")
    } else if let F::LeaseExtended(fact) = fact {
        (fact.ticket.bottom().term.start() == at).then_some("lease extended at its end")
    } else if let F::LeaseClosed(fact) = fact {
        let given_back = fact.why == CloseReason::GivenBack;
        if given_back && fact.receipts.is_empty() {
            Some("lease given back with nothing left")
        } else if given_back && fact.receipts.iter().any(|r| r.what.term.start() > at) {
            Some("lease given back before its start")
        } else {
            None
        }
    } else {
        None
    }
}
