//! Who held which unit.

use std::num::NonZeroU32;

use tenure_core::driver::{Epoch, UnitId};
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Term;
use tenure_core::runtime::Fact;
use tenure_core::service_manager::facts::{
    Fact as GuestFact, Leased, LeaveBegun, Left, SiteClosed, TicketTaken, UnitsRecalled as Recalled,
};
use tenure_core::service_manager::machine::AfterLeave;
use tenure_core::site_authority::facts::{
    Fact as SiteFact, LeaseActivated, LeaseClosed, Redeemed, UnitFailed, UnitSetUp,
    UnitSetupFailed, UnitsAssigned, UnitsRecalled,
};
use tenure_core::site_authority::machine::CloseReason;
use tenure_core::ticket::Ticket;
use tenure_core::wire::message::LeasedUnit;
use tenure_report::Query;

use crate::facts::{GUEST, RIVAL, SITE, defined, history, minute, name, ticket};

fn of(fact: impl Into<SiteFact>) -> Fact {
    Fact::from(fact.into())
}

fn redeemed(ticket: &Ticket, slice: &'static str, number: u64) -> Fact {
    of(Redeemed {
        ticket: ticket.clone(),
        lease: LeaseId { number, part: 0 },
        slice: name(slice),
        min_units: NonZeroU32::MIN,
        configuration: Properties::default(),
    })
}

fn assigned(ticket: &Ticket, units: &[u32]) -> Fact {
    let units = units.iter().map(|unit| UnitId(*unit)).collect();
    of(UnitsAssigned { lease: ticket.hash(), units, reason: String::new() })
}

fn set_up(unit: u32) -> Fact {
    let (unit, epoch, properties) = (UnitId(unit), Epoch(1), Properties::default());
    of(UnitSetUp { unit, epoch, properties })
}

/// Unit, holder, begin and end of each row.
fn held(facts: &[(u8, i64, Fact)], query: &Query) -> Vec<(String, String, String, Option<String>)> {
    let rows = history(facts, 60).units(query).into_iter();
    rows.map(|row| (row.unit, row.holder, row.begin, row.end)).collect()
}

fn row(
    unit: &str,
    holder: &str,
    begin: &str,
    end: Option<&str>,
) -> (String, String, String, Option<String>) {
    (unit.to_owned(), holder.to_owned(), begin.to_owned(), end.map(str::to_owned))
}

#[test]
fn a_unit_is_held_until_it_is_released() {
    let (one, other) = (ticket(GUEST, 2, 1), ticket(RIVAL, 1, 2));
    let recalled = UnitsRecalled {
        lease: one.hash(),
        link: one.hash(),
        units: vec![UnitId(0)],
        receipts: Vec::new(),
    };
    let closed =
        LeaseClosed { lease: one.hash(), why: CloseReason::TermOver, receipts: Vec::new() };
    let facts = [
        (GUEST, 0, defined()),
        (SITE, 1, redeemed(&one, "batch", 3)),
        (SITE, 1, assigned(&one, &[0, 1])),
        (SITE, 2, set_up(0)),
        (SITE, 2, set_up(1)),
        (SITE, 9, of(recalled)),
        (SITE, 9, redeemed(&other, "web", 1)),
        (SITE, 10, assigned(&other, &[0])),
        (SITE, 20, of(closed)),
    ];
    let expected = [
        row("alpha/u0", "guest/batch", "1m", Some("9m")),
        row("alpha/u1", "guest/batch", "1m", Some("20m")),
        row("alpha/u0", "rival/web", "10m", None),
    ];
    assert_eq!(held(&facts, &Query::default()), expected);
    let rows = history(&facts, 60).units(&Query::default());
    assert_eq!((&*rows[0].kind, &*rows[0].lease, &*rows[0].lasted), ("service", "guest/3.0", "8m"));
    assert_eq!((&*rows[2].kind, &*rows[2].resource, &*rows[2].lasted), ("slice", "node", "50m"));
    let at = |at| held(&facts, &Query { at: Some(minute(at)), ..Query::default() });
    // At a moment nothing of it has ended.
    let lasts = |unit, holder, begin| row(unit, holder, begin, None);
    let [first, second] = ["alpha/u0", "alpha/u1"].map(|unit| lasts(unit, "guest/batch", "1m"));
    assert_eq!((at(1), at(9)), (vec![first, second.clone()], vec![second.clone()]));
    assert_eq!(at(15), [second, lasts("alpha/u0", "rival/web", "10m")]);
    let web = Query { service: Some(name("web")), ..Query::default() };
    assert_eq!(held(&facts, &web), expected[2..]);
}

#[test]
fn what_fails_of_the_lease_before_takes_nothing_from_the_next() {
    let (one, other) = (ticket(GUEST, 1, 1), ticket(RIVAL, 1, 2));
    let closed =
        LeaseClosed { lease: one.hash(), why: CloseReason::TermOver, receipts: Vec::new() };
    let failed = |unit| UnitSetupFailed { unit, epoch: Epoch(1), error: "no".to_owned() };
    let facts = [
        (SITE, 1, redeemed(&one, "batch", 3)),
        (SITE, 1, assigned(&one, &[0])),
        (SITE, 5, of(closed)),
        (SITE, 6, redeemed(&other, "web", 1)),
        (SITE, 6, assigned(&other, &[0])),
        (SITE, 7, of(failed(UnitId(0)))),
    ];
    let expected = [
        row("alpha/u0", "guest/batch", "1m", Some("5m")),
        row("alpha/u0", "rival/web", "6m", None),
    ];
    assert_eq!(held(&facts, &Query::default()), expected);
}

#[test]
fn a_unit_in_use_that_fails_is_held_until_its_guest_gives_it_back() {
    let one = ticket(GUEST, 2, 1);
    let failed =
        |unit| of(UnitFailed { unit: UnitId(unit), epoch: Epoch(1), why: "no".to_owned() });
    let mut facts = vec![
        (SITE, 1, redeemed(&one, "batch", 3)),
        (SITE, 1, assigned(&one, &[0, 1])),
        (SITE, 2, set_up(0)),
        (SITE, 3, failed(0)),
        (SITE, 4, set_up(1)),
    ];
    let lost = row("alpha/u0", "guest/batch", "1m", Some("3m"));
    let stays = row("alpha/u1", "guest/batch", "1m", None);
    assert_eq!(held(&facts, &Query::default()), [lost.clone(), stays.clone()]);
    facts.push((SITE, 5, of(LeaseActivated { lease: one.hash() })));
    facts.push((SITE, 6, failed(1)));
    assert_eq!(held(&facts, &Query::default()), [lost, stays]);
}

#[test]
fn of_a_site_elsewhere_a_guest_says_which_units_it_has() {
    let (ticket, lease) = (ticket(GUEST, 2, 1), LeaseId { number: 3, part: 0 });
    let (slice, keep, configuration) = (name("batch"), false, Properties::default());
    let taken = TicketTaken { lease, ticket: ticket.clone(), slice, configuration, keep };
    let unit = |unit| {
        let (epoch, properties) = (Epoch(1), Properties::default());
        LeasedUnit { unit: UnitId(unit), epoch, quantity: NonZeroU32::MIN, properties }
    };
    let (link, term) = (ticket.hash(), Term::new(minute(0), minute(100)).unwrap());
    let of_guest = |at, fact: GuestFact| (GUEST, at, Fact::from(fact));
    let left = |unit| Left { lease, unit: UnitId(unit), error: None };
    let mut facts = vec![
        of_guest(0, taken.into()),
        of_guest(1, Leased { lease, term, units: vec![unit(0), unit(1)] }.into()),
        of_guest(5, Recalled { lease, link, units: vec![UnitId(0)], stay: 1 }.into()),
        of_guest(8, LeaveBegun { lease, then: AfterLeave::Close }.into()),
        of_guest(9, left(1).into()),
        of_guest(10, SiteClosed { lease, refusal: None, receipts: Vec::new() }.into()),
    ];
    let expected = [
        row("alpha/u0", "guest/batch", "1m", Some("5m")),
        row("alpha/u1", "guest/batch", "1m", Some("9m")),
    ];
    assert_eq!(held(&facts, &Query::default()), expected);
    // Its site knows better, if it is here.
    facts.push((SITE, 1, redeemed(&ticket, "batch", 3)));
    facts.push((SITE, 1, assigned(&ticket, &[0])));
    let by_site = [row("alpha/u0", "guest/batch", "1m", None)];
    assert_eq!(held(&facts, &Query::default()), by_site);
}
