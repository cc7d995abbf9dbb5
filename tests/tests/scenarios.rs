//! The scenario scripts: stories of leases, each with the full trace of what happens.
//!
//! A script is `tests/scenarios/NAME.txt`; `docs/SCRIPTS.md` has the language. With `UPDATE_GOLDEN=1` the
//! traces are written again: look at the difference, and commit it only if you understand it.

#[path = "scenarios/script.rs"]
mod script;
#[path = "scenarios/names.rs"]
mod names;
#[path = "scenarios/describe.rs"]
mod describe;
#[path = "scenarios/values.rs"]
mod values;
#[path = "scenarios/network.rs"]
mod network;
#[path = "scenarios/participant.rs"]
mod participant;
#[path = "scenarios/audit.rs"]
mod audit;
#[path = "scenarios/world.rs"]
mod world;
#[path = "scenarios/deployment.rs"]
mod deployment;
#[path = "scenarios/delegations.rs"]
mod delegations;
#[path = "scenarios/forge.rs"]
mod forge;
#[path = "scenarios/keys.rs"]
mod keys;
#[path = "scenarios/peers.rs"]
mod peers;
#[path = "scenarios/operators.rs"]
mod operators;
#[path = "scenarios/sharing.rs"]
mod sharing;
#[path = "scenarios/show.rs"]
mod show;
#[path = "scenarios/gates.rs"]
mod gates;
#[path = "scenarios/language.rs"]
mod language;
#[path = "scenarios/plans.rs"]
mod plans;
#[path = "scenarios/services.rs"]
mod services;
#[path = "scenarios/recall.rs"]
mod recall;
#[path = "scenarios/availability.rs"]
mod availability;
#[path = "scenarios/coverage.rs"]
mod coverage;
#[path = "scenarios/states.rs"]
mod states;
#[cfg(feature = "mutants")]
#[path = "scenarios/planted.rs"]
mod planted;

use std::fs;

use language::ScriptContext;
use script::{Args, Part, Script};
use tenure_core::model::codec::Hash;
use tenure_tests::{check_golden, root};

/// Where the scripts are.
const FOLDER: &str = "tests/scenarios";

/// A test for each script, so that the one that fails is named.
macro_rules! scripts {
    ($($name:ident)*) => {
        /// The scripts that have a test.
        const SCRIPTS: &[&str] = &[$(stringify!($name),)*];

        $(
            #[test]
            fn $name() {
                play(stringify!($name));
            }
        )*
    };
}

scripts! {
    all_or_nothing
    all_units_fail
    altered_ticket
    alternatives
    asking_answered_late
    asking_never_answered
    back_from_an_old_term
    bad_unit_quarantined
    best_effort
    broker_to_broker
    broker_to_broker_renewed
    broker_to_broker_survives_crashes
    bundle_loses_one
    busy_again
    class_of_forty
    clock_of_the_guest_ahead
    clock_of_the_guest_behind
    clock_of_the_site_apart
    clocks_compared
    clocks_too_far_apart
    close_before_the_term
    close_never_answered
    close_retried
    close_while_asking
    close_while_extending
    close_while_joining
    close_while_leaving
    close_while_priming
    close_with_leave_unanswered
    co_allocation
    co_allocation_without_links
    contiguous_leases
    counter_offer_taken
    crash_before_it_is_written
    crash_of_the_broker
    crash_of_the_guest
    crash_of_the_site
    credit_never_answered
    credit_retried
    cut_one_way
    delegation_by_hand
    delegation_ended
    delegation_given_back
    delegation_grows
    delegation_renewed
    dishonest_requests
    divisible_stock
    drained_broker
    drained_by
    drained_units
    early_redeem
    elastic_goes_on_with_fewer
    every_message_lost_once
    excluded_sites
    excluded_units
    extension_answer_lost
    extension_exact
    extension_never_shown
    extension_refused_by_the_site
    extension_unanswered
    failed_extend
    failed_teardown
    failed_unit_replaced
    fidelity
    flex_at_renewal
    flex_least_used
    flex_refused
    flex_survives_crashes
    flex_with_a_victim
    adverts
    forwarding
    forwarding_answers
    forwarding_offers
    portions
    portions_lost
    forged_receipt
    fragile
    group_comes_back
    group_survives_crashes
    guest_cannot_join
    happy_life
    heartbeats
    hold_accepted
    hold_broker_crashes
    hold_lapses
    hold_two_holders
    inventory_by_name
    join_never_answered
    join_refused
    join_refused_too_few
    joined_in_order
    kept_ticket
    key_revoked
    keys_learned_by_ticket
    keys_rotated
    late_mapper
    lease_grows
    leases_packed
    leave_called_back
    leave_fails
    leave_hastened
    leave_hastened_by_recall
    leave_never_answered
    mapper_asleep
    mapper_at_a_gate
    modified_then_recalled
    modify
    modify_fails
    modify_survives_crashes
    named_units
    no_resurrection
    one_stack
    out_of_order
    over_delegation_convicted
    over_issue
    over_issue_excused
    overbooked
    packages_fail
    packages_in_order
    packages_leased
    packages_leased_through_crashes
    packages_planned
    packages_survive_crashes
    part_split_too_far
    past_tenancy
    pause_longer_than_a_term
    peers_by_invitation
    relations
    plan
    prices
    queue_served
    quota_of_a_broker
    quota_of_a_guest
    recall_between_brokers
    recall_by_a_stranger
    recall_is_a_level
    recall_of_delegation
    recall_of_extended
    recall_of_kept
    recall_of_unclaimed
    recall_outlives_generation
    recall_refuses_extension
    recall_survives_crashes
    recall_takes_units
    recall_untold
    recall_warns_the_guest
    recall_withdrawn
    recall_withdrawn_after_leaving
    receipts_with_request
    redeem_by
    redeem_by_in_time
    redeem_by_of_a_part
    redeeming_never_answered
    refusals
    refused_setups
    request_revised
    requests_once
    rest_flows_back
    rest_refused
    revision_after_all_was_forgotten
    second_stage
    sequence_lost
    service_advice
    service_asks_again
    service_blacklists_a_unit
    service_claims_a_host_of_another
    service_claims_a_host_of_another_guest
    service_equals_take_turns
    service_follows_slos
    service_freed_units_are_kept
    service_gives_idle_units_back
    service_has_static_units
    service_lends_a_part
    service_loses_least_work
    service_order_cancelled
    service_orders_advised
    service_refuses_a_leave
    service_refuses_a_leave_before_it_shrinks
    service_takes_from_another
    service_wants_a_named_unit
    settings_changed
    setup_outlasts_the_term
    several_brokers
    several_brokers_accept_lost
    several_brokers_crashes
    several_brokers_next_start
    several_brokers_setup_fails
    share_shrinks
    sharing
    sold_cannot_go_back
    stack_sold_twice
    stacks
    statements_after_a_restart
    stock_added
    stock_withdrawn
    stolen_key
    stolen_ticket
    successor_waits_for_setup
    the_same_answer_again
    together
    too_few_units
    too_short_a_term
    two_sites
    unit_failed_under_the_lease_before
    unit_fails_and_none_is_left
    unit_fails_before_active
    unit_fails_in_use
    unit_reset
    unit_used_again
    usage_of_six_units
    what_is_free
    workers_after_master
    wrong_site
}

/// Plays a script and compares its traces with what it says.
fn play(name: &str) {
    let (path, text) = load(name);
    match perform(&text) {
        Ok(script_run) => check_golden(&path, &script_run.text),
        Err((line, bad)) => panic!("{path}:{line}: {bad}"),
    }
}

/// The path of a script, and the script.
fn load(name: &str) -> (String, String) {
    let path = format!("{FOLDER}/{}.txt", name.replace('_', "-"));
    let text = fs::read_to_string(root().join(&path));
    let text = text.unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
    (path, text)
}

/// The results of a script.
struct ScriptRun {
    /// The script with the traces that its commands cause now.
    text: String,
    /// The laws that its actors were held to.
    laws: Vec<&'static str>,
    /// The hash of all states that its actors were in after a command.
    states: Hash,
}

/// Plays a script, or says what is wrong in which line.
fn perform(text: &str) -> Result<ScriptRun, (usize, String)> {
    let script = Script::read(text)?;
    let (mut stage, mut traces, mut states) = (ScriptContext::default(), Vec::new(), Vec::new());
    for part in &script.parts {
        let Part::Block(commands) = part else { continue };
        let mut trace = Vec::new();
        for command in commands {
            let lines = stage.perform(Args::of(command)).map_err(|bad| (command.number, bad))?;
            trace.extend(lines);
            states.extend(stage.states());
        }
        traces.push(trace);
    }
    let states: Vec<[u8; 32]> = states.into_iter().map(Hash::to_bytes).collect();
    let states = Hash::of(
        "states of a script",
        &states.iter().map(<[u8; 32]>::as_slice).collect::<Vec<_>>(),
    );
    Ok(ScriptRun { text: script.with_traces(&traces), laws: stage.laws(), states })
}
