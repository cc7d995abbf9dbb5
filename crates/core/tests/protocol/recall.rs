//! Issuers take back what they handed on: units in use after a notice, rights that nobody has claimed at once.

use tenure_core::broker::Command as BrokerCommand;
use tenure_core::driver::UnitId;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::service_manager::group::Handling;
use tenure_core::service_manager::machine::State;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::service_manager::{Command as GuestCommand, Part, Victims};
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::message::{Message, Subject};
use tenure_core::wire::recall::{Accepts, Level};
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::Item;

use crate::common::world::{Scene, World};
use crate::common::{BROKER, GUEST, HOUR, RIVAL, SITE, ask_for, at, id, item, letter, term, units};

const NOTICE: Span = Span::from_secs(300);

fn scene() -> Scene {
    Scene { audited: true, ..Scene::default() }
}

fn accepting(n: u32, notice: Span) -> Item {
    Item { accepts: Accepts { notice: Some(notice), min_tenure: None }, ..item(n) }
}

/// A guest's lease of 3 of 4 units over [0, 1h), with a notice; ten minutes have passed.
fn leased_in(scene: Scene) -> (World, LeaseId, LinkHash) {
    let mut world = scene.open();
    let ask = Ask { items: vec![accepting(3, NOTICE)], ..ask_for(3, 0, HOUR) };
    let lease = world.ask(GUEST, ask);
    let ticket = world.ticket(GUEST, lease).hash();
    world.advance(600);
    (world, lease, ticket)
}

fn leased() -> (World, LeaseId, LinkHash) {
    leased_in(scene())
}

fn recall(world: &mut World, ticket: LinkHash, units: u32) {
    world.command(BROKER, BrokerCommand::Recall { ticket, units: Some(units), from: None });
}

fn withdraw(world: &mut World, ticket: LinkHash) {
    world.command(BROKER, BrokerCommand::Recall { ticket, units: None, from: None });
}

fn held_units(world: &World, lease: LeaseId) -> Vec<u32> {
    let held = world.guest(GUEST).lease(lease).and_then(State::held);
    held.map_or_else(Vec::new, |held| held.units.keys().map(|unit| unit.0).collect())
}

fn lent_units(world: &World) -> Vec<u32> {
    let lent = world.site().units().filter(|(_, state, _)| state.word() == "Ready");
    lent.map(|(unit, _, _)| unit.0).collect()
}

fn is_enforced(world: &World, ticket: LinkHash) -> bool {
    world.broker().recall_of(ticket).is_some_and(|recall| recall.enforced)
}

#[test]
fn units_go_after_the_notice_and_are_credited_by_receipt() {
    let (mut world, lease, ticket) = leased();
    recall(&mut world, ticket, 1);
    assert_eq!(world.problems, []);
    let told = world.guest(GUEST).recall_told(lease).unwrap();
    assert_eq!((told.units, told.at), (1, at(900)));
    assert_eq!(world.broker().recall_of(ticket).unwrap().at, Some(at(900)));
    world.advance(800);
    assert_eq!((held_units(&world, lease).len(), lent_units(&world).len()), (3, 3));
    assert!(!is_enforced(&world, ticket));
    assert_eq!(world.free_at(1000), 1);
    world.advance(900);
    world.repeat();
    assert_eq!((held_units(&world, lease), lent_units(&world)), (vec![0], vec![0]));
    assert!(is_enforced(&world, ticket));
    assert_eq!([899, 900, HOUR - 1].map(|t| world.free_at(t)), [1, 3, 3]);
    assert_eq!(world.state(GUEST, lease), "Active");
    let other = world.ask(RIVAL, ask_for(3, 900, 1800));
    assert_eq!(world.state(RIVAL, other), "Active");
}

#[test]
fn the_guest_lets_go_one_margin_before() {
    let (mut world, lease, ticket) = leased();
    recall(&mut world, ticket, 2);
    let margin = crate::common::MARGIN;
    world.advance_to(at(900).minus(margin).minus(Span::from_micros(1)));
    assert_eq!(held_units(&world, lease).len(), 3);
    world.advance_to(at(900).minus(margin));
    assert_eq!((held_units(&world, lease), lent_units(&world).len()), (vec![0, 1], 3));
}

#[test]
fn without_a_notice_nothing_in_use_goes_and_nothing_more_is_had() {
    let mut world = scene().open();
    let lease = world.ask(GUEST, ask_for(3, 0, HOUR));
    let ticket = world.ticket(GUEST, lease).hash();
    world.advance(600);
    recall(&mut world, ticket, 1);
    assert!(is_enforced(&world, ticket), "there is nothing to take");
    world.command(GUEST, GuestCommand::extend(lease, Span::HOUR));
    world.advance(1800);
    assert_eq!((held_units(&world, lease).len(), world.free_at(1800)), (3, 1));
    let refused = Refusal::Recalled { units: 1, from: at(600) };
    let told = world.sent("refused").iter().any(|sealed| {
        matches!(sealed.peek().unwrap().message, Message::Refused { refusal, .. } if refusal == refused)
    });
    assert!(told, "the extension is recalled");
    assert_eq!(world.free_at(HOUR + 1), 4, "and came back");
}

#[test]
fn an_extension_within_what_stays_is_taken() {
    let (mut world, lease, ticket) = leased();
    recall(&mut world, ticket, 1);
    let extend = |units| GuestCommand::Extend {
        lease,
        duration: Span::HOUR,
        units: Some(units),
        victims: Victims::Youngest,
    };
    world.command(GUEST, extend(units(2)));
    assert_eq!(world.count(SITE, "site.lease-extended"), 0);
    world.command(GUEST, extend(units(1)));
    assert_eq!(world.count(SITE, "site.lease-extended"), 1);
    world.advance(1000);
    assert_eq!(held_units(&world, lease), [0]);
    world.advance(2 * HOUR);
    assert_eq!(world.units_in("Free"), 4);
}

#[test]
fn an_extension_before_the_recall_loses_its_units_too() {
    let (mut world, lease, ticket) = leased();
    world.command(GUEST, GuestCommand::extend(lease, Span::HOUR));
    recall(&mut world, ticket, 1);
    world.advance(901);
    world.repeat();
    assert_eq!([899, 901, HOUR + 1].map(|t| world.free_at(t)), [1, 3, 3]);
    assert_eq!(held_units(&world, lease), [0]);
}

#[test]
fn a_recall_of_all_units_ends_the_lease() {
    let (mut world, lease, ticket) = leased();
    recall(&mut world, ticket, 0);
    world.advance(901);
    world.repeat();
    assert_eq!((world.state(GUEST, lease), world.at_site(ticket)), ("Closed", "Closed"));
    assert_eq!([899, 901].map(|t| world.free_at(t)), [1, 4]);
    assert_eq!(world.units_in("Free"), 4);
}

#[test]
fn the_highest_number_wins_and_can_withdraw() {
    let (mut world, lease, ticket) = leased();
    recall(&mut world, ticket, 1);
    world.advance(700);
    recall(&mut world, ticket, 2);
    let told = world.guest(GUEST).recall_told(lease).unwrap();
    assert_eq!((told.units, told.at), (2, at(1000)), "the notice counts anew");
    world.advance(800);
    withdraw(&mut world, ticket);
    assert!(is_enforced(&world, ticket));
    assert_eq!(world.guest(GUEST).recall_told(lease), None);
    world.advance(1200);
    assert_eq!((held_units(&world, lease).len(), world.free_at(1200)), (3, 1));
}

#[test]
fn a_withdrawal_after_enforcement_gets_the_receipt() {
    let (mut world, lease, ticket) = leased();
    world.keep.insert("recalled");
    recall(&mut world, ticket, 1);
    world.advance(1000);
    withdraw(&mut world, ticket);
    world.keep.clear();
    world.repeat();
    assert!(is_enforced(&world, ticket));
    assert_eq!((held_units(&world, lease), world.free_at(1000)), (vec![0], 3));
}

#[test]
fn a_withdrawal_brings_back_what_the_guest_was_leaving() {
    let leave_before = Span::MINUTE;
    let (mut world, lease, ticket) = leased_in(Scene { leave_before, ..scene() });
    recall(&mut world, ticket, 1);
    world.advance(880);
    let left = world.calls.iter().filter(|call| call.step.word() == "leave").count();
    assert_eq!(left, 2);
    withdraw(&mut world, ticket);
    assert_eq!(world.state(GUEST, lease), "Active");
    let joined = world.calls.iter().filter(|call| call.step.word() == "join").count();
    assert_eq!((joined, held_units(&world, lease).len()), (5, 3));
}

#[test]
fn the_holder_names_the_victims_in_time() {
    let (mut world, lease, ticket) = leased();
    recall(&mut world, ticket, 2);
    let victims = |units: &[u32]| units.iter().map(|&unit| UnitId(unit)).collect::<Vec<_>>();
    let name = |units| GuestCommand::Victims { lease, units };
    world.command(GUEST, name(victims(&[0])));
    assert_eq!(world.problems, []);
    assert_eq!(world.guest(GUEST).recall_told(lease).unwrap().victims, victims(&[0]));
    world.advance(1000);
    assert_eq!((held_units(&world, lease), lent_units(&world)), (vec![1, 2], vec![1, 2]));
    for (units, cause) in [(victims(&[1]), "no units"), (victims(&[9]), "no units")] {
        world.command(GUEST, name(units));
        assert!(world.problems.pop().unwrap().to_string().contains(cause));
    }
}

#[test]
fn a_guest_that_does_not_know_who_goes_uses_neither() {
    let (mut world, lease, ticket) = leased();
    recall(&mut world, ticket, 2);
    world.keep.insert("recall-noted");
    world.command(GUEST, GuestCommand::Victims { lease, units: vec![UnitId(0)] });
    world.advance(1000);
    assert_eq!((held_units(&world, lease), lent_units(&world)), (vec![1], vec![0, 1]));
}

#[test]
fn rights_that_nobody_claimed_go_at_once() {
    let mut world = scene().open();
    world.keep.insert("redeem");
    let lease = world.ask(GUEST, ask_for(3, 0, HOUR));
    let ticket = world.ticket(GUEST, lease).hash();
    recall(&mut world, ticket, 1);
    assert!(is_enforced(&world, ticket));
    assert_eq!(world.free_at(10), 3);
    world.keep.clear();
    world.repeat();
    assert_eq!(world.state(GUEST, lease), "Closed");
    let refused = Refusal::Recalled { units: 1, from: Time::ZERO };
    let subject = Subject::Ticket(ticket);
    let answer = Message::Refused { subject, refusal: refused, offers: Vec::new() };
    assert!(world.sent("refused").iter().any(|sealed| sealed.peek().unwrap().message == answer));
}

#[test]
fn an_elastic_ticket_is_trimmed() {
    for from in [None, Some(at(1800))] {
        let mut world = scene().open();
        world.keep.insert("redeem");
        let items = vec![Item { min_units: units(1), ..item(3) }];
        let ask = Ask { items, ..ask_for(3, 0, HOUR) };
        let lease = world.ask(GUEST, ask);
        let ticket = world.ticket(GUEST, lease).hash();
        world.command(BROKER, BrokerCommand::Recall { ticket, units: Some(2), from });
        world.keep.clear();
        world.repeat();
        assert_eq!((world.state(GUEST, lease), held_units(&world, lease)), ("Active", vec![0, 1]));
        assert_eq!((world.free_at(10), is_enforced(&world, ticket)), (2, true));
    }
}

#[test]
fn rights_go_at_the_instant_that_the_recall_names() {
    let mut world = scene().open();
    world.keep.insert("redeem");
    let lease = world.ask(GUEST, ask_for(3, 0, HOUR));
    let ticket = world.ticket(GUEST, lease).hash();
    let command = BrokerCommand::Recall { ticket, units: Some(1), from: Some(at(600)) };
    world.command(BROKER, command);
    assert!(!is_enforced(&world, ticket));
    assert_eq!(world.free_at(10), 1);
    world.advance(600);
    world.repeat();
    assert!(is_enforced(&world, ticket));
    assert_eq!([599, 600].map(|t| world.free_at(t)), [1, 3]);
}

#[test]
fn a_ticket_with_a_notice_is_redeemed_and_loses_its_units_then() {
    let mut world = scene().open();
    world.keep.insert("redeem");
    let ask = Ask { items: vec![accepting(3, NOTICE)], ..ask_for(3, 0, HOUR) };
    let lease = world.ask(GUEST, ask);
    let ticket = world.ticket(GUEST, lease).hash();
    let command = BrokerCommand::Recall { ticket, units: Some(1), from: Some(at(600)) };
    world.command(BROKER, command);
    world.keep.clear();
    world.repeat();
    assert_eq!(held_units(&world, lease).len(), 3);
    assert_eq!(world.guest(GUEST).recall_told(lease).unwrap().at, at(600));
    world.advance(700);
    assert_eq!(held_units(&world, lease), [0]);
}

#[test]
fn min_tenure_keeps_units_and_extensions_inherit_it() {
    let mut world = scene().open();
    let accepts = Accepts { notice: Some(NOTICE), min_tenure: Some(Span::from_secs(1800)) };
    let items = vec![Item { accepts, ..item(3) }];
    let ask = Ask { items, ..ask_for(3, 0, HOUR) };
    let lease = world.ask(GUEST, ask);
    let ticket = world.ticket(GUEST, lease);
    assert_eq!(ticket.bottom().clauses.not_before, Some(at(1800)));
    world.command(GUEST, GuestCommand::extend(lease, Span::HOUR));
    let extension = world.tickets(GUEST, lease).pop().unwrap();
    assert_eq!(extension.bottom().clauses, ticket.bottom().clauses);
    recall(&mut world, ticket.hash(), 0);
    assert_eq!(world.guest(GUEST).recall_told(lease).unwrap().at, at(1800));
}

#[test]
fn only_the_issuer_recalls() {
    let (mut world, lease, _) = leased();
    let ticket = world.ticket(GUEST, lease);
    let level = Level { number: 0, units: 0, from: at(600) };
    for who in [GUEST, RIVAL] {
        let message = Message::Recall { ticket: ticket.clone(), level };
        let output = world.deliver(SITE, &letter(who, SITE, message));
        let [answer] = &output.replies[..] else { panic!("{output:?}") };
        assert!(matches!(answer.message, Message::Refused { refusal: Refusal::Forbidden, .. }));
        assert_eq!(output.facts, []);
    }
}

#[test]
fn the_holder_of_a_kept_ticket_recalls_a_part() {
    let mut world = scene().open();
    let handling = Handling { keep_tickets: true, ..Default::default() };
    let ask = Ask { handling, ..ask_for(3, 0, HOUR) };
    let kept = world.ask(GUEST, ask);
    let accepts = Accepts { notice: Some(NOTICE), min_tenure: None };
    let part = Part {
        holder: id(RIVAL),
        units: units(2),
        term: term(0, HOUR),
        constraints: Default::default(),
        redeem_by: None,
        accepts,
    };
    world.command(GUEST, GuestCommand::Split { lease: kept, parts: vec![part] });
    let parent = world.ticket(GUEST, kept);
    let link = world.guest(GUEST).parts_of(&parent).next().unwrap().link.clone();
    let ticket = parent.with(link);
    let hash = ticket.hash();
    let slice = tenure_core::model::name::Name::literal("slice");
    let taken =
        GuestCommand::Take { ticket, slice, configuration: Default::default(), keep: false };
    world.command(RIVAL, taken);
    assert_eq!(world.problems, []);
    assert_eq!(lent_units(&world).len(), 2);
    let command = GuestCommand::Recall { ticket: hash, units: Some(1), from: None };
    world.command(GUEST, command);
    world.advance(400);
    world.repeat();
    assert_eq!(lent_units(&world).len(), 1);
    assert!(world.guest(GUEST).recall_of(hash).unwrap().enforced);
    assert_eq!(world.guest(GUEST).left_of(&parent).unwrap().free_at(at(400)), 2);
    recall(&mut world, parent.hash(), 1);
    assert_eq!(world.free_at(500), 3, "of 3 units 1 was claimed, and stays");
}

#[test]
fn a_recall_survives_losses_and_crashes() {
    for crashed in [SITE, BROKER, GUEST] {
        let (mut world, lease, ticket) = leased_in(Scene { suspicious: true, ..scene() });
        world.cut_off.insert(BROKER);
        recall(&mut world, ticket, 1);
        world.restart(crashed);
        world.cut_off.clear();
        world.repeat();
        world.restart(crashed);
        world.advance(1000);
        world.restart(crashed);
        world.repeat();
        world.repeat();
        assert_eq!((held_units(&world, lease), lent_units(&world)), (vec![0], vec![0]));
        assert!(is_enforced(&world, ticket));
        assert_eq!(world.free_at(1000), 3);
    }
}

#[test]
fn a_guest_out_of_reach_loses_its_units_all_the_same() {
    let (mut world, lease, ticket) = leased();
    world.cut_off.insert(GUEST);
    recall(&mut world, ticket, 1);
    world.advance(1000);
    assert_eq!((held_units(&world, lease).len(), lent_units(&world)), (3, vec![0]));
    world.cut_off.clear();
    world.repeat();
    world.advance(1001);
    assert_eq!(held_units(&world, lease), [0], "it hears of it at last");
}

/// A ticket for 3 of 4 units over [0, 1h) that its guest keeps.
fn kept() -> (World, LeaseId, LinkHash) {
    let mut world = scene().open();
    let handling = Handling { keep_tickets: true, ..Default::default() };
    let kept = world.ask(GUEST, Ask { handling, ..ask_for(3, 0, HOUR) });
    let ticket = world.ticket(GUEST, kept).hash();
    (world, kept, ticket)
}

fn split(world: &mut World, kept: LeaseId, n: u32) {
    let part = Part {
        holder: id(RIVAL),
        units: units(n),
        term: term(0, HOUR),
        constraints: Default::default(),
        redeem_by: None,
        accepts: Accepts::default(),
    };
    world.command(GUEST, GuestCommand::Split { lease: kept, parts: vec![part] });
}

/// Its rival takes the newest part and has a lease for it.
fn take_newest(world: &mut World, kept: LeaseId) -> LeaseId {
    let parent = world.ticket(GUEST, kept);
    let links = world.guest(GUEST).parts_of(&parent);
    let newest = links.map(|part| part.link.clone()).max_by_key(|link| link.serial).unwrap();
    let (ticket, keep) = (parent.with(newest), false);
    let slice = tenure_core::model::name::Name::literal("slice");
    let configuration = Default::default();
    world.command(RIVAL, GuestCommand::Take { ticket, slice, configuration, keep });
    world.guest(RIVAL).survey().last().unwrap().id
}

#[test]
fn who_keeps_a_ticket_hears_of_its_recall() {
    let (mut world, lease, ticket) = kept();
    recall(&mut world, ticket, 2);
    let told = world.guest(GUEST).recall_told(lease).unwrap();
    assert_eq!((told.units, told.at, told.unclaimed), (2, Time::ZERO, true));
    assert_eq!(world.count(SITE, "site.recall-noted"), 1);
    assert_eq!(world.state(GUEST, lease), "Ticketed");
    split(&mut world, lease, 3);
    assert!(world.problems.pop().unwrap().to_string().contains("than the 2 that are left"));
    split(&mut world, lease, 2);
    assert_eq!(world.problems, []);
}

#[test]
fn a_kept_ticket_of_which_nothing_stays_is_over() {
    let (mut world, lease, ticket) = kept();
    let command = BrokerCommand::Recall { ticket, units: Some(0), from: Some(at(600)) };
    world.command(BROKER, command);
    world.advance_to(at(600).minus(crate::common::MARGIN).minus(Span::from_micros(1)));
    assert_eq!(world.state(GUEST, lease), "Ticketed");
    world.advance(600);
    assert_eq!((world.state(GUEST, lease), world.free_at(600)), ("Closed", 4));
}

#[test]
fn a_recall_that_is_withdrawn_in_time_leaves_a_kept_ticket_whole() {
    let (mut world, lease, ticket) = kept();
    let command = BrokerCommand::Recall { ticket, units: Some(0), from: Some(at(600)) };
    world.command(BROKER, command);
    withdraw(&mut world, ticket);
    world.advance(700);
    assert_eq!(world.guest(GUEST).recall_told(lease), None);
    split(&mut world, lease, 3);
    assert_eq!((world.problems.len(), world.free_at(700)), (0, 1));
}

#[test]
fn a_withdrawal_brings_nothing_back_that_was_taken() {
    let (mut world, lease, ticket) = kept();
    recall(&mut world, ticket, 1);
    withdraw(&mut world, ticket);
    assert_eq!(world.guest(GUEST).recall_told(lease).unwrap().units, 1);
    split(&mut world, lease, 2);
    assert!(world.problems.pop().unwrap().to_string().contains("than the 1 that are left"));
}

#[test]
fn a_level_counts_what_was_handed_on() {
    let (mut world, lease, ticket) = kept();
    split(&mut world, lease, 2);
    recall(&mut world, ticket, 2);
    split(&mut world, lease, 1);
    assert!(world.problems.pop().unwrap().to_string().contains("than the 0 that are left"));
}

#[test]
fn what_comes_back_above_the_level_is_not_claimed_again() {
    let (mut world, lease, ticket) = kept();
    split(&mut world, lease, 2);
    let claimed = take_newest(&mut world, lease);
    split(&mut world, lease, 1);
    recall(&mut world, ticket, 1);
    assert_eq!(lent_units(&world).len(), 2, "without a notice they stay");
    let other = take_newest(&mut world, lease);
    assert_eq!(world.state(RIVAL, other), "Closed", "2 are claimed, 1 is to stay");
    world.advance(100);
    world.command(RIVAL, GuestCommand::Close { lease: claimed });
    assert_eq!(lent_units(&world).len(), 0);
    split(&mut world, lease, 2);
    assert_eq!(world.problems.len(), 1, "of 3 units 1 stays, and that is handed on");
}

/// It has said that it knows what becomes of its rights, and not of its units.
#[test]
fn a_late_word_on_a_recall_of_rights_is_none_on_the_units_in_use() {
    let mut world = scene().open();
    world.keep.extend(["redeem", "recall-noted"]);
    let ask = Ask { items: vec![accepting(3, NOTICE)], ..ask_for(3, 0, HOUR) };
    let lease = world.ask(GUEST, ask);
    let ticket = world.ticket(GUEST, lease).hash();
    let command = BrokerCommand::Recall { ticket, units: Some(1), from: Some(at(600)) };
    world.command(BROKER, command);
    world.keep.remove("redeem");
    world.repeat();
    assert_eq!(held_units(&world, lease).len(), 3);
    let late = world.sent("recall-noted").remove(0);
    let word = |sealed: &tenure_core::wire::message::Sealed| sealed.peek().unwrap().message;
    assert!(matches!(word(&late), Message::RecallNoted { unclaimed: true, .. }));
    let output = world.deliver(SITE, &late);
    assert_eq!(output.facts, []);
    let news = world.sent("recall-notice").pop().unwrap();
    assert!(matches!(word(&news), Message::RecallNotice { told, .. } if !told.unclaimed));
}
