//! The model check, graded: each guard of the protocol is taken away in turn, and a law breaks. The guard
//! of the shell, to append before it sends, is no bug of the core's: `model.rs` takes that one away.

use tenure_core::mutants::Mutant;

use crate::model::cases::{Budget, Case, Seller, wish};
use crate::model::cast::{GUEST, RIVAL};
use crate::model::explore::breaks;

/// Whether a case breaks a law when one guard is taken away.
fn breaks_without(guard: Mutant, case: Case, law: &'static str) -> bool {
    breaks(Case { bug: Some(guard), ..case }, law)
}

#[test]
fn without_the_clock_margin_two_guests_believe_in_one_unit() {
    let case = Case { skews: vec![[0, 0, 0, 1]], ..Case::default() };
    assert!(breaks_without(Mutant::NoClockMargin, case, "S5"));
}

#[test]
fn without_the_second_look_at_the_term_a_lease_goes_active_when_it_is_over() {
    let case = Case { wishes: vec![wish(GUEST, 11)], ..Case::default() };
    assert!(breaks_without(Mutant::NoTermRecheck, case, "S4"));
}

#[test]
fn without_tombstones_a_closed_lease_comes_back() {
    let budget = Budget { closes: 1, ..Budget::NONE };
    let case = Case { wishes: vec![wish(GUEST, 11)], budget, ..Case::default() };
    assert!(breaks_without(Mutant::NoTombstone, case, "S8"));
}

#[test]
fn without_the_split_check_a_greedy_mapper_sells_the_same_units_twice() {
    let wishes = vec![wish(GUEST, 11), wish(RIVAL, 12)];
    let case = Case { seller: Seller::Greedy, wishes, until: 12, ..Case::default() };
    assert!(breaks_without(Mutant::NoSplitCheck, case, "S2"));
}
