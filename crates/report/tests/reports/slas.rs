//! How SLAs stand.

use tenure_core::runtime::{Entry, Fact};
use tenure_core::service::slo::Met;
use tenure_report::rows::SlaRow;
use tenure_report::{History, Query};

use crate::facts::{GUEST, RIVAL, defined, history, id, judged, minute, name, stale, waited};

/// Met from minute 1, missed from 3, met from 5, and unknown from 10.
fn facts() -> Vec<(u8, i64, Fact)> {
    let facts = [
        (0, defined()),
        (1, waited(3)),
        (1, judged(Met::Yes)),
        (3, waited(12)),
        (3, judged(Met::No)),
        (5, waited(4)),
        (5, judged(Met::Yes)),
        (10, stale()),
        (10, judged(Met::Unknown)),
    ];
    facts.map(|(at, fact)| (GUEST, at, fact)).to_vec()
}

#[track_caller]
fn one(facts: &[(u8, i64, Fact)], now: i64, query: &Query) -> SlaRow {
    let mut rows = history(facts, now).sla(query);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0)
}

#[test]
fn an_sla_has_its_share_its_budget_and_each_breach() {
    let row = one(&facts(), 100, &Query::default());
    assert_eq!((&*row.service, &*row.sla, &*row.target), ("guest/batch", "gold", "90%"));
    assert_eq!((&*row.begin, &*row.end), ("0s", "1h40m"));
    assert_eq!((&*row.met, &*row.missed, &*row.unknown), ("7m", "2m", "1h31m"));
    assert!(row.share.is_some_and(|share| (share - 7.0 / 9.0).abs() < 1e-9), "{row:?}");
    assert_eq!((&*row.state, &*row.budget, &*row.left), ("kept", "10m", "8m"));
    let [breach] = &row.breaches[..] else { panic!("{row:?}") };
    assert_eq!((&*breach.begin, breach.end.as_deref(), &*breach.lasted), ("3m", Some("5m"), "2m"));
    assert_eq!(breach.slos, ["wait"]);
    assert_eq!(breach.why, "wait: `oldest-wait` < 10m with oldest-wait 12m");
}

#[test]
fn only_what_is_in_the_window_counts() {
    let begin = Query { since: Some(minute(4)), until: Some(minute(9)), ..Query::default() };
    let row = one(&facts(), 100, &begin);
    assert_eq!((&*row.begin, &*row.end, &*row.budget), ("4m", "9m", "30s"));
    assert_eq!((&*row.met, &*row.missed, &*row.unknown), ("4m", "1m", "0s"));
    assert_eq!((&*row.state, &*row.left), ("broken", "-30s"));
    assert_eq!((&*row.breaches[0].begin, row.breaches[0].end.as_deref()), ("4m", Some("5m")));
    let later = one(&facts(), 130, &Query::default());
    assert_eq!((&*later.begin, later.share, later.breaches.len()), ("30m", None, 0));
}

#[test]
fn a_breach_that_lasts_has_no_end() {
    let row = one(&facts(), 100, &Query { at: Some(minute(4)), ..Query::default() });
    assert_eq!((row.breaches[0].end.as_deref(), &*row.breaches[0].lasted), (None, "1m"));
    let row = one(&facts()[..5], 4, &Query::default());
    assert_eq!((row.breaches[0].end.as_deref(), &*row.missed), (None, "1m"));
    let row = one(&facts(), 100, &Query { at: Some(minute(5)), ..Query::default() });
    assert_eq!(row.breaches[0].end.as_deref(), Some("5m"));
}

#[test]
fn services_come_in_the_order_of_their_names_whatever_the_keys_are() {
    let orders = [["lab", "shop"], ["shop", "lab"]].map(|[guest, rival]| {
        let names = [(GUEST, guest), (RIVAL, rival)].map(|(of, text)| (id(of), name(text)));
        let mut history = History::new(names.into());
        for of in [GUEST, RIVAL] {
            history.add(id(of), &Entry { at: minute(0), fact: defined() });
        }
        let rows = history.finish(Some(minute(1))).sla(&Query::default());
        rows.into_iter().map(|row| row.service).collect::<Vec<_>>()
    });
    assert_eq!(orders, [["lab/batch", "shop/batch"], ["lab/batch", "shop/batch"]]);
}
