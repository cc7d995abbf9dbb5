//! The model check: every promise in every state that small deployments of the production actors can
//! get into. `docs/MODEL.md` says what is explored, and how much of it there is.

#[path = "model/mod.rs"]
mod model;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::OnceLock;

use model::cases::{self, Budget, Case, PlannedRequest, Shell, planned};
use model::explore::{Explored, breaks, explore};
use model::joint::Triple;
use model::participants::{GUEST, RIVAL};
use tenure_tests::{check_block, check_golden};

/// What stands above the table of joint states.
const HEADER: &str = "\
# The joint states that a lease can be in: the word of its guest, of its broker's request, of its ticket at
# its site; `-` for an actor that does not know it or has forgotten it. A lease is named by guest, number
# of the request and place of the ticket in its grant; states are looked at after each input.
# Written by the model check (tests/tests/model.rs): all of these can be reached, and no other.
";

/// All cases, explored once for all tests.
fn explored() -> &'static [Explored] {
    static EXPLORED: OnceLock<Vec<Explored>> = OnceLock::new();
    EXPLORED.get_or_init(|| cases::all().into_iter().map(explore).collect())
}

#[test]
fn every_state_keeps_the_laws_and_every_good_end_is_reached() {
    for Explored { name, broken, missed, .. } in explored() {
        if let Some((law, story)) = broken.iter().next() {
            panic!("{name}: {law} is broken by\n{story}");
        }
        assert!(missed.is_empty(), "{name}: never reached: {missed:?}");
    }
}

#[test]
fn the_joint_states_of_a_lease_are_those_of_the_table() {
    let reached: BTreeSet<Triple> = explored().iter().flat_map(|case| case.joint.clone()).collect();
    let mut text = HEADER.to_owned();
    for [guest, broker, site] in &reached {
        writeln!(text, "{guest} {broker} {site}").unwrap();
    }
    check_golden("crates/laws/src/joint_states.txt", &text);
}

#[test]
fn the_document_counts_what_was_explored() {
    let mut seen: BTreeSet<Triple> = BTreeSet::new();
    let mut text = "| case | what is explored | states | steps | joint states | new |\n".to_owned();
    text.push_str("|---|---|--:|--:|--:|--:|\n");
    for Explored { name, text: about, states, steps, joint, .. } in explored() {
        let (all, new) = (joint.len(), joint.difference(&seen).count());
        writeln!(text, "| {name} | {about} | {states} | {steps} | {all} | {new} |").unwrap();
        seen.extend(joint.iter().copied());
    }
    let states: usize = explored().iter().map(|case| case.states).sum();
    let steps: usize = explored().iter().map(|case| case.steps).sum();
    writeln!(text, "| all | | {states} | {steps} | {} | |", seen.len()).unwrap();
    check_block("docs/MODEL.md", "explored", &text);
    let awake = explored().iter().filter(|case| !case.sleepers).flat_map(|case| &case.joint);
    let words =
        |whose: usize| seen.iter().map(|triple| triple[whose]).collect::<BTreeSet<_>>().len();
    let [guest, broker, site] = [0, 1, 2].map(words);
    let text = format!(
        "There are {} of them, of {guest} × {broker} × {site} = {}: {}, {} and {} states, and `-`.\n\
         {} are reached in the first case, and {} without sleepers.\n",
        seen.len(),
        guest * broker * site,
        guest - 1,
        broker - 1,
        site - 1,
        explored()[0].joint.len(),
        awake.collect::<BTreeSet<_>>().len(),
    );
    check_block("docs/MODEL.md", "joint", &text);
}

#[test]
fn a_shell_that_sends_before_it_appends_breaks_its_word() {
    let case = Case {
        shell: Shell::Sends,
        requests: vec![PlannedRequest { answer_by: 11, ..planned(GUEST, 11) }, planned(RIVAL, 11)],
        from: 10,
        until: 11,
        budget: Budget { crashes: 1, ..Budget::NONE },
        ..Case::default()
    };
    assert!(breaks(case.clone(), "S9") && breaks(case, "S2"));
}
