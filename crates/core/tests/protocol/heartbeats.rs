//! Heartbeats: after silence, leases that depend on them end, by each side's own clock, at the guest first.

use tenure_core::actor::effect::Problem;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::site_authority::machine::State;
use tenure_core::ticket::Ticket;
use tenure_core::wire::message::Message;
use tenure_core::wire::refusal::Refusal;

use crate::common::world::{Reaction, Scene, World};
use crate::common::{
    BROKER, GUEST, HOUR, MARGIN, RIVAL, SITE, ask_for, at, cut, envelope, id, letter, properties,
    redeem, term,
};

/// How long the lease goes on without a heartbeat, in seconds; there is one every 25 s.
const KEPT: &str = "100s";

fn kept(keep_alive: &str) -> Ask {
    Ask { configuration: properties("session.keep-alive", keep_alive), ..ask_for(2, 0, HOUR) }
}

/// A lease of 2 units over [0, 1h) that depends on heartbeats, in use for 110 s; the last one was sent at 100 s.
fn heard(scene: Scene) -> (World, LeaseId, Ticket) {
    let mut world = scene.open();
    let lease = world.ask(GUEST, kept(KEPT));
    let ticket = world.ticket(GUEST, lease);
    world.advance(110);
    assert_eq!(world.state(GUEST, lease), "Active");
    (world, lease, ticket)
}

fn at_site(world: &World, ticket: &Ticket) -> &'static str {
    world.site().lease(ticket.hash()).map_or("forgotten", State::word)
}

#[test]
fn a_heartbeat_is_sent_four_times_in_a_keep_alive_and_makes_no_fact() {
    let mut world = Scene::default().open();
    world.ask(GUEST, kept(KEPT));
    world.ask(GUEST, kept("200s"));
    let facts = (world.position(GUEST), world.position(SITE));
    world.advance(100);
    assert_eq!(world.sent("heartbeat").len(), 4, "one for both leases");
    assert_eq!(world.sent("heartbeat-heard").len(), 4);
    assert_eq!((world.position(GUEST), world.position(SITE)), facts);
    let Message::HeartbeatHeard { leases, .. } =
        world.sent("heartbeat-heard")[0].peek().unwrap().message
    else {
        panic!("no answer")
    };
    assert_eq!(leases.len(), 2);
}

#[test]
fn a_lease_without_the_property_needs_none() {
    let mut world = Scene::default().open();
    let lease = world.ask(GUEST, ask_for(2, 0, HOUR));
    world.cut_off.insert(GUEST);
    world.advance(HOUR - 100);
    assert_eq!(world.sent("heartbeat").len(), 0);
    assert_eq!(world.state(GUEST, lease), "Active");
}

#[test]
fn in_a_cut_the_guest_lets_go_two_margins_early_and_the_site_one_late() {
    let (mut world, lease, ticket) = heard(Scene::default());
    world.cut_off.insert(GUEST);
    for (secs, guest, site) in [
        (179, "Active", "Active"),
        (180, "Closing", "Active"),
        (209, "Closing", "Active"),
        (210, "Closing", "Closed"),
    ] {
        world.advance(secs);
        assert_eq!(
            (world.state(GUEST, lease), at_site(&world, &ticket)),
            (guest, site),
            "at {secs}s"
        );
    }
    assert_eq!(world.count(GUEST, "service-manager.site-unheard"), 1);
    world.cut_off.clear();
    world.repeat();
    assert_eq!((world.state(GUEST, lease), world.free_at(300)), ("Closed", 4));
}

#[test]
fn a_guest_begins_to_leave_in_time() {
    let leave_before = Span::from_secs(20);
    let (mut world, lease, _) = heard(Scene { leave_before, ..Scene::default() });
    world.driver = |_| Reaction::Waits;
    world.cut_off.insert(GUEST);
    for (secs, state) in
        [(167, "Active"), (168, "Leaving(close)"), (179, "Leaving(close)"), (180, "Closing")]
    {
        world.advance(secs);
        assert_eq!(world.state(GUEST, lease), state, "at {secs}s");
    }
    let leave = world.calls.last().unwrap();
    assert_eq!(leave.deadline, Some(at(180)));
}

#[test]
fn one_or_two_lost_heartbeats_cost_nothing() {
    let (mut world, lease, ticket) = heard(Scene::default());
    world.cut_off.insert(GUEST);
    world.advance(160);
    world.cut_off.clear();
    world.advance(300);
    assert_eq!((world.state(GUEST, lease), at_site(&world, &ticket)), ("Active", "Active"));
}

#[test]
fn after_its_start_a_site_counts_all_guests_as_heard() {
    let (mut world, _, ticket) = heard(Scene::default());
    world.cut_off.insert(GUEST);
    world.advance(150);
    world.restart(SITE);
    world.advance(259);
    assert_eq!(at_site(&world, &ticket), "Active");
    world.advance(260);
    assert_eq!(at_site(&world, &ticket), "Closed");
}

#[test]
fn after_its_start_a_guest_sends_a_heartbeat_at_once_and_counts_from_then() {
    let (mut world, lease, _) = heard(Scene::default());
    let before = world.sent("heartbeat").len();
    world.cut_off.insert(GUEST);
    world.restart(GUEST);
    assert_eq!(world.sent("heartbeat").len(), before + 1);
    world.advance(189);
    assert_eq!(world.state(GUEST, lease), "Active");
    world.advance(190);
    assert_eq!(world.state(GUEST, lease), "Closing");
}

#[test]
fn after_its_start_a_guest_relies_on_nothing_until_the_site_has_answered() {
    let (mut world, lease, _) = heard(Scene::default());
    let unconfirmed = |world: &World| world.guest(GUEST).survey_of(lease).unwrap().unconfirmed;
    assert!(!unconfirmed(&world));
    world.cut_off.insert(GUEST);
    world.restart(GUEST);
    assert!(unconfirmed(&world));
    world.cut_off.clear();
    world.advance(140);
    assert!(!unconfirmed(&world));
}

#[test]
fn a_guest_is_told_of_a_lease_that_was_ended_while_it_was_away() {
    let (mut world, lease, ticket) = heard(Scene::default());
    world.keep.insert("heartbeat");
    world.keep.insert("closed");
    world.advance(175);
    world.restart(GUEST);
    world.advance(211);
    assert_eq!((world.state(GUEST, lease), at_site(&world, &ticket)), ("Active", "Closed"));
    world.release();
    assert_eq!(world.state(GUEST, lease), "Closed");
    assert_eq!(world.count(GUEST, "service-manager.site-unheard"), 0);
}

#[test]
fn a_keep_alive_beyond_its_bounds_is_refused() {
    let mut world = Scene::default().open();
    for (text, why) in [
        ("79s", "it must be between 1m20s and 1h"),
        ("61m", "it must be between 1m20s and 1h"),
        ("soon", "which is not a length of time"),
    ] {
        let ticket = cut(&world.delegation(), BROKER, GUEST, 1, term(0, HOUR), 901);
        let Message::Redeem { lease, slice, min_units, victims, ticket, .. } = redeem(&ticket)
        else {
            panic!("no redeem")
        };
        let configuration = properties("session.keep-alive", text);
        let asked = Message::Redeem { ticket, lease, slice, min_units, configuration, victims };
        let out = world.deliver(SITE, &letter(GUEST, SITE, asked));
        let Message::Refused { refusal: Refusal::Malformed(cause), .. } = &out.replies[0].message
        else {
            panic!("{:?}", out.replies)
        };
        assert!(cause.contains(why), "{cause}");
        assert_eq!(out.facts, []);
    }
}

#[test]
fn a_keep_alive_of_next_to_no_time_is_refused_and_floods_nobody() {
    let mut world = Scene::default().open();
    world.cut_off.insert(SITE);
    let lease = world.ask(GUEST, kept(&Span::from_micros(1).to_string()));
    assert_eq!(world.state(GUEST, lease), "Redeeming");
    world.advance_to(at(0).plus(Span::from_micros(10_000)));
    assert_eq!(world.sent("heartbeat").len(), 10, "one in a millisecond");
    world.cut_off.clear();
    world.repeat();
    assert_eq!(world.state(GUEST, lease), "Closed");
}

#[test]
fn a_guest_cannot_keep_the_lease_of_another() {
    let (mut world, _, ticket) = heard(Scene::default());
    let beat = Message::Heartbeat { leases: vec![ticket.hash()] };
    let out = world.deliver(SITE, &letter(RIVAL, SITE, beat));
    assert!(matches!(&out.problems[..], [Problem::Message { kind: "heartbeat", .. }]));
    let Message::HeartbeatHeard { leases, .. } = &out.replies[0].message else {
        panic!("no answer")
    };
    assert_eq!(leases, &[]);
    world.cut_off.insert(GUEST);
    world.advance(210);
    assert_eq!(at_site(&world, &ticket), "Closed");
}

#[test]
fn a_heartbeat_from_the_future_counts_a_margin_ahead() {
    let (mut world, _, ticket) = heard(Scene::default());
    world.cut_off.insert(GUEST);
    let mut beat =
        envelope(id(GUEST), id(SITE), Message::Heartbeat { leases: vec![ticket.hash()] });
    beat.header.at = at(HOUR);
    let sealed = world.seal(GUEST, &beat);
    world.deliver(SITE, &sealed);
    let until = 110 + 100 + 2 * (MARGIN.as_micros() / 1_000_000);
    world.advance(until - 1);
    assert_eq!(at_site(&world, &ticket), "Active");
    world.advance(until);
    assert_eq!(at_site(&world, &ticket), "Closed");
}

#[test]
fn an_answer_to_what_is_yet_to_be_sent_is_dropped() {
    let (mut world, lease, ticket) = heard(Scene::default());
    world.cut_off.insert(GUEST);
    let heard = Message::HeartbeatHeard { sent: at(HOUR), leases: vec![ticket.hash()] };
    let out = world.deliver(GUEST, &letter(SITE, GUEST, heard));
    assert!(matches!(&out.problems[..], [Problem::Message { kind: "heartbeat-heard", .. }]));
    world.advance(180);
    assert_eq!(world.state(GUEST, lease), "Closing");
}
