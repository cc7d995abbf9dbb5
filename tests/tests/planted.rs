//! The checkers, graded: whatever is planted, they find.

#[path = "model/mod.rs"]
#[allow(dead_code, reason = "what the model check itself is has a test of its own")]
mod model;

use model::cases::{Budget, Case, Seller, wish};
use model::cast::{GUEST, RIVAL};
use model::explore::breaks;
use tenure_core::planted::Bug;

/// Whether a case breaks a law when one guard is taken away.
fn breaks_without(guard: Bug, case: Case, law: &'static str) -> bool {
    breaks(Case { bug: Some(guard), ..case }, law)
}

#[test]
fn without_the_clock_margin_two_guests_believe_in_one_unit() {
    let case = Case { skews: vec![[0, 0, 0, 1]], ..Case::default() };
    assert!(breaks_without(Bug::NoClockMargin, case, "S5"));
}

#[test]
fn without_the_second_look_at_the_term_a_lease_goes_active_when_it_is_over() {
    let case = Case { wishes: vec![wish(GUEST, 11)], ..Case::default() };
    assert!(breaks_without(Bug::NoTermRecheck, case, "S4"));
}

#[test]
fn without_tombstones_a_closed_lease_comes_back() {
    let budget = Budget { closes: 1, ..Budget::NONE };
    let case = Case { wishes: vec![wish(GUEST, 11)], budget, ..Case::default() };
    assert!(breaks_without(Bug::NoTombstone, case, "S8"));
}

#[test]
fn without_the_split_check_a_greedy_mapper_sells_the_same_units_twice() {
    let wishes = vec![wish(GUEST, 11), wish(RIVAL, 12)];
    let case = Case { seller: Seller::Greedy, wishes, until: 12, ..Case::default() };
    assert!(breaks_without(Bug::NoSplitCheck, case, "S2"));
}
