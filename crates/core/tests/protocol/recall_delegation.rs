//! Sites recall units of delegations: their brokers sell no more than stays, and leases lose units as by any
//! recall.

use tenure_core::model::time::Span;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::ticket::ledger::Ledger;
use tenure_core::wire::recall::Accepts;
use tenure_core::wire::request::Item;

use crate::common::world::{Scene, World};
use crate::common::{BROKER, GUEST, HOUR, RIVAL, SITE, ask_for, at, delegation, item, term};

fn recall(world: &mut World, units: Option<u32>) {
    world.command(SITE, SiteCommand::Recall { delegation: 1, units, from: None });
}

fn lent(world: &World) -> usize {
    world.site().units().filter(|(_, state, _)| state.word() == "Ready").count()
}

/// Whether a guest gets two units.
fn gets_two(world: &mut World) -> bool {
    let lease = world.ask(RIVAL, ask_for(2, 0, HOUR));
    world.state(RIVAL, lease) == "Active"
}

#[test]
fn a_limit_of_an_account_holds_for_its_next_generation_until_it_is_lifted() {
    let first = delegation(SITE, BROKER, 4, term(0, HOUR), (1, 0));
    let next = delegation(SITE, BROKER, 6, term(0, 2 * HOUR), (1, 1));
    let (mut ledger, account) = (Ledger::default(), first.bottom().account());
    let free = |ledger: &Ledger| {
        let free = ledger.free(account).unwrap();
        [0, 600, HOUR, 2 * HOUR].map(|t| free.free_at(at(t)))
    };
    ledger.open(first.bottom());
    ledger.limit(account, Some((1, at(600))));
    assert_eq!(free(&ledger), [4, 1, 0, 0]);
    ledger.open(next.bottom());
    assert_eq!(free(&ledger), [6, 1, 1, 0]);
    ledger.limit(account, None);
    assert_eq!(free(&ledger), [6, 6, 6, 0]);
}

#[test]
fn a_broker_that_was_told_sells_no_more_than_stays_until_the_recall_is_withdrawn() {
    let mut world = Scene { audited: true, ..Scene::default() }.open();
    recall(&mut world, Some(1));
    assert!(!gets_two(&mut world));
    recall(&mut world, None);
    assert!(gets_two(&mut world));
}

#[test]
fn leases_lose_units_after_their_notice_and_not_before_their_tenure() {
    let second = Span::from_secs(1);
    let notice = Some(second.times(300));
    for (min_tenure, left) in [(None, 1), (Some(second.times(2000)), 3)] {
        let mut world = Scene { audited: true, ..Scene::default() }.open();
        let wanted = Item { accepts: Accepts { notice, min_tenure }, ..item(3) };
        world.ask(GUEST, Ask { items: vec![wanted], ..ask_for(3, 0, HOUR) });
        world.advance(600);
        recall(&mut world, Some(1));
        world.advance(899);
        assert_eq!(lent(&world), 3);
        world.advance(901);
        assert_eq!(lent(&world), left);
    }
}

#[test]
fn leases_without_a_notice_keep_their_units() {
    let mut world = Scene { audited: true, ..Scene::default() }.open();
    world.ask(GUEST, ask_for(3, 0, HOUR));
    world.advance(600);
    recall(&mut world, Some(0));
    world.advance(1200);
    assert_eq!(lent(&world), 3);
}
