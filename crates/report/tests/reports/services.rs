//! What was measured, how it was judged, and what brokers were told.

use tenure_core::broker::facts::{Fact as BrokerFact, NeedNoted};
use tenure_core::runtime::Fact;
use tenure_core::service::slo::Met;
use tenure_core::service_manager::facts::{Fact as GuestFact, NeedStated, ServiceRemoved};
use tenure_core::wire::need::Need;
use tenure_report::rows::SloRow;
use tenure_report::{History, Query};

use crate::facts::{
    BROKER, GUEST, RIVAL, defined, history, id, judged, minute, name, stale, waited,
};

fn states(rows: &[SloRow]) -> Vec<(&str, &str, Option<&str>)> {
    rows.iter().map(|row| (&*row.state, &*row.begin, row.end.as_deref())).collect()
}

fn slos(facts: Vec<(i64, Fact)>, now: i64) -> Vec<SloRow> {
    let facts: Vec<_> = facts.into_iter().map(|(at, fact)| (GUEST, at, fact)).collect();
    history(&facts, now).slo(&Query::default())
}

#[test]
fn an_slo_is_in_one_state_after_the_other() {
    let facts = vec![
        (0, defined()),
        (0, judged(Met::Unknown)),
        (1, waited(12)),
        (1, judged(Met::No)),
        (4, waited(3)),
        (4, judged(Met::Yes)),
        (6, waited(4)),
    ];
    let rows = slos(facts, 9);
    let expected =
        [("unknown", "0s", Some("1m")), ("missed", "1m", Some("4m")), ("met", "4m", None)];
    assert_eq!(states(&rows), expected);
    assert_eq!((&*rows[2].lasted, rows[2].rule.as_deref()), ("5m", Some("`oldest-wait` < 10m")));
    assert_eq!((&*rows[2].service, &*rows[2].slo), ("guest/batch", "wait"));
}

#[test]
fn what_was_measured_counts_until_it_is_stale_whoever_was_down() {
    let begun = || vec![(0, defined()), (1, waited(3)), (1, judged(Met::Yes))];
    // While it is down it records nothing, and then first that the measurement was stale.
    let facts = [begun(), vec![(30, stale()), (30, judged(Met::Unknown))]].concat();
    assert_eq!(states(&slos(facts, 40)), [("met", "1m", Some("6m")), ("unknown", "6m", None)]);
    // Or it is measured again, and as before.
    let facts = [begun(), vec![(30, waited(3))]].concat();
    let expected =
        [("met", "1m", Some("6m")), ("unknown", "6m", Some("30m")), ("met", "30m", None)];
    assert_eq!(states(&slos(facts, 32)), expected);
    // Or nothing more is known of it.
    assert_eq!(states(&slos(begun(), 6)), [("met", "1m", None)]);
    assert_eq!(states(&slos(begun(), 7)), [("met", "1m", Some("6m")), ("unknown", "6m", None)]);
}

#[test]
fn nothing_is_judged_of_a_service_that_is_removed() {
    let removed = GuestFact::from(ServiceRemoved { service: name("batch") }).into();
    let facts = vec![(0, defined()), (1, waited(3)), (1, judged(Met::Yes)), (3, removed)];
    assert_eq!(states(&slos(facts, 40)), [("met", "1m", Some("3m"))]);
}

fn measured() -> History {
    let facts = [
        (GUEST, 0, defined()),
        (GUEST, 1, waited(12)),
        (GUEST, 4, waited(3)),
        (GUEST, 30, waited(7)),
    ];
    history(&facts, 31)
}

#[test]
fn measurements_are_selected_by_time_and_kpi() {
    let wait = || Query { kpi: Some("oldest-wait".parse().unwrap()), ..Query::default() };
    let values = |query: Query| {
        let rows = measured().kpi(&query).into_iter();
        rows.map(|row| (row.at, row.value.unwrap())).collect::<Vec<_>>()
    };
    let row = |at: &str, value: &str| (at.to_owned(), value.to_owned());
    let all = [row("1m", "12m"), row("4m", "3m"), row("30m", "7m")];
    assert_eq!(values(wait()), all);
    let until = Query { since: Some(minute(2)), until: Some(minute(30)), ..wait() };
    assert_eq!(values(until), all[1..2]);
    let at = |at| values(Query { at: Some(minute(at)), ..wait() });
    assert_eq!((at(3), at(5)), (all[..1].to_vec(), all[1..2].to_vec()));
    assert_eq!(at(20), [], "it was stale");
    assert_eq!(measured().kpi(&Query::default()).len(), 6);
    let other = Query { service: Some(name("web")), ..Query::default() };
    assert_eq!(measured().kpi(&other), []);
}

#[test]
fn a_need_is_taken_from_its_guest_if_its_broker_is_not_here() {
    let need = |revision| {
        let wants = format!(
            r#"{{"service": "batch", "revision": {revision}, "wants": [{{
                "kind": {{"resource": "node", "requirement": null}},
                "steps": [{{"units": {revision}, "urgency": 50, "claim": 50}}],
                "tickets": [], "elsewhere": 1}}]}}"#
        );
        serde_json::from_str::<Need>(&wants).unwrap()
    };
    let stated = |revision| {
        let fact = NeedStated { broker: id(BROKER), need: need(revision) };
        Fact::from(GuestFact::from(fact))
    };
    let noted = |guest, revision| {
        let fact = NeedNoted { guest: id(guest), need: need(revision) };
        Fact::from(BrokerFact::from(fact))
    };
    let told = |facts: &[(u8, i64, Fact)], query: &Query| {
        let rows = history(facts, 60).needs(query).into_iter();
        rows.map(|row| (row.at, row.service, row.wanted)).collect::<Vec<_>>()
    };
    let row = |at: &str, service: &str, wanted| (at.to_owned(), service.to_owned(), wanted);
    let mut facts = vec![(GUEST, 1, stated(1)), (GUEST, 5, stated(2))];
    let both = [row("1m", "guest/batch", 1), row("5m", "guest/batch", 2)];
    assert_eq!(told(&facts, &Query::default()), both);
    facts.extend([(BROKER, 2, noted(GUEST, 1)), (BROKER, 7, noted(RIVAL, 3))]);
    let here = [row("2m", "guest/batch", 1), row("7m", "rival/batch", 3)];
    assert_eq!(told(&facts, &Query::default()), here);
    let at = Query { at: Some(minute(6)), ..Query::default() };
    assert_eq!(told(&facts, &at), here[..1]);
    let gpus = Query { resource: Some(name("gpu")), ..Query::default() };
    assert_eq!(told(&facts, &gpus), []);
}
