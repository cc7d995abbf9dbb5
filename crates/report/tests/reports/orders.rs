//! Orders and the units that they move.

use std::num::NonZeroU32;

use tenure_core::broker::facts::{
    Fact as BrokerFact, OrderEnded, OrderPlaced, RecallAnswered, ReceiptTaken, TicketsCut,
};
use tenure_core::broker::needs::ServiceId;
use tenure_core::broker::orders::{OrderOutcome, UnitOrder};
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::Term;
use tenure_core::runtime::Fact;
use tenure_core::service::steps::Kind;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::receipt::{Receipt, Return};
use tenure_report::Query;

use crate::facts::{BROKER, GUEST, RIVAL, SITE, by_site, history, id, minute, name, ticket};

fn of(fact: impl Into<BrokerFact>) -> Fact {
    Fact::from(fact.into())
}

fn units(units: u32) -> NonZeroU32 {
    NonZeroU32::new(units).expect("at least one")
}

fn cut(ticket: &Ticket) -> Fact {
    let request = RequestId { origin: id(GUEST), number: 1 };
    of(TicketsCut { request, tickets: vec![(0, ticket.clone())], reason: String::new() })
}

/// Two of a guest's units are ordered for a rival; so many stay.
fn placed(number: u64, ticket: &Ticket, stay: u32) -> Fact {
    let service = |guest, of| ServiceId { guest: id(guest), service: name(of) };
    let order = UnitOrder {
        claimant: service(RIVAL, "web"),
        kind: Kind { resource: name("node"), requirement: None },
        holder: service(GUEST, "batch"),
        ticket: ticket.hash(),
        units: units(2),
        claim: 70,
        worth: 50,
    };
    of(OrderPlaced { number, order, due: minute(8), stay })
}

/// Units of a ticket are back, from a minute on.
fn back(ticket: &Ticket, number: u32, count: u32, from: i64) -> Fact {
    let what = Return {
        site: id(SITE),
        link: ticket.hash(),
        issuer: id(BROKER),
        units: units(count),
        term: Term::new(minute(from), minute(100)).expect("a term"),
        number,
    };
    of(ReceiptTaken { receipt: Receipt::sign(what, &by_site()) })
}

fn ended(order: u64, outcome: OrderOutcome) -> Fact {
    of(OrderEnded { order, outcome, reason: "so".to_owned() })
}

fn facts() -> Vec<(u8, i64, Fact)> {
    let ticket = ticket(GUEST, 6, 1);
    let recalled = |at, enforced| of(RecallAnswered { link: ticket.hash(), at, enforced });
    vec![
        (BROKER, 0, cut(&ticket)),
        (BROKER, 1, placed(1, &ticket, 4)),
        (BROKER, 2, recalled(minute(9), false)),
        (BROKER, 3, placed(2, &ticket, 2)),
        // The end of its term goes back: nothing is free for an order by that.
        (BROKER, 4, back(&ticket, 0, 6, 50)),
        (BROKER, 5, back(&ticket, 1, 1, 5)),
        (BROKER, 6, back(&ticket, 2, 1, 6)),
        (BROKER, 10, ended(1, OrderOutcome::Delivered)),
        (BROKER, 12, ended(2, OrderOutcome::Cancelled)),
    ]
}

#[test]
fn an_order_has_its_states_and_their_times() {
    let rows = history(&facts(), 20).orders(&Query::default());
    let first = &rows[0];
    assert_eq!((&*first.order, &*first.state), ("exchange/1", "delivered"));
    assert_eq!((&*first.from, &*first.to), ("guest/batch", "rival/web"));
    let times = (&*first.placed, first.recalled.as_deref(), &*first.due, first.freed.as_deref());
    assert_eq!(times, ("1m", Some("2m"), "9m", Some("6m")));
    assert_eq!((first.ended.as_deref(), first.reason.as_deref()), (Some("10m"), Some("so")));
    assert_eq!((&*rows[1].state, rows[1].freed.as_deref()), ("cancelled", None));
    let at = |at| {
        let rows =
            history(&facts(), 20).orders(&Query { at: Some(minute(at)), ..Query::default() });
        rows.into_iter().map(|row| (row.order, row.state)).collect::<Vec<_>>()
    };
    let row = |order: &str, state: &str| (order.to_owned(), state.to_owned());
    assert_eq!(at(1), [row("exchange/1", "placed")]);
    assert_eq!(at(5), [row("exchange/1", "recalled"), row("exchange/2", "placed")]);
    assert_eq!(at(7), [row("exchange/1", "freed"), row("exchange/2", "placed")]);
    assert_eq!(at(11), [row("exchange/2", "placed")]);
}

#[test]
fn what_is_enforced_is_freed() {
    let ticket = ticket(GUEST, 6, 1);
    let enforced = RecallAnswered { link: ticket.hash(), at: minute(9), enforced: true };
    let facts =
        [(BROKER, 0, cut(&ticket)), (BROKER, 1, placed(1, &ticket, 4)), (BROKER, 9, of(enforced))];
    let rows = history(&facts, 20).orders(&Query::default());
    assert_eq!((&*rows[0].state, rows[0].freed.as_deref()), ("freed", Some("9m")));
    assert_eq!(history(&facts, 20).moves(&Query::default()), [], "nothing is delivered");
}

#[test]
fn only_what_is_delivered_has_moved() {
    let rows = history(&facts(), 20).moves(&Query::default());
    let [row] = &rows[..] else { panic!("{rows:?}") };
    let moved = (&*row.at, &*row.resource, &*row.from, &*row.to, row.units);
    assert_eq!(moved, ("10m", "node", "guest/batch", "rival/web", 2));
    assert_eq!((&*row.order, &*row.by), ("exchange/1", "exchange"));
    let of = |query: Query| history(&facts(), 20).moves(&query).len();
    let service = |guest, service| Query {
        guest: Some(name(guest)),
        service: Some(name(service)),
        ..Query::default()
    };
    assert_eq!((of(service("rival", "web")), of(service("guest", "web"))), (1, 0));
    assert_eq!(of(Query { resource: Some(name("gpu")), ..Query::default() }), 0);
    assert_eq!(of(Query { until: Some(minute(10)), ..Query::default() }), 0);
    assert_eq!(of(Query { since: Some(minute(10)), ..Query::default() }), 1);
}
