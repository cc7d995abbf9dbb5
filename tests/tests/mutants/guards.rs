//! The model check, graded: each guard of the protocol is taken away in turn, and a law breaks. The guard
//! of the shell, to append before it sends, is no bug of the core's: `model.rs` takes that one away.

use tenure_tests::mutants::Mutant;

use crate::model::cases::{BrokerPolicy, Budget, Case, planned, sequences};
use crate::model::explore::breaks;
use crate::model::participants::{GUEST, RIVAL};

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
    let case = Case { requests: vec![planned(GUEST, 11)], ..Case::default() };
    assert!(breaks_without(Mutant::NoTermRecheck, case, "S4"));
}

#[test]
fn without_tombstones_a_closed_lease_comes_back() {
    let budget = Budget { closes: 1, ..Budget::NONE };
    let case = Case { requests: vec![planned(GUEST, 11)], budget, ..Case::default() };
    assert!(breaks_without(Mutant::NoTombstone, case, "S8"));
}

#[test]
fn without_the_split_check_a_greedy_mapper_sells_the_same_units_twice() {
    let requests = vec![planned(GUEST, 11), planned(RIVAL, 12)];
    let case = Case { seller: BrokerPolicy::Greedy, requests, until: 12, ..Case::default() };
    assert!(breaks_without(Mutant::NoSplitCheck, case, "S2"));
}

#[test]
fn without_the_gate_a_lease_is_used_before_the_one_that_it_waits_for() {
    let case = sequences().remove(0);
    assert!(breaks_without(Mutant::GateIgnored, case, "S21"));
}
