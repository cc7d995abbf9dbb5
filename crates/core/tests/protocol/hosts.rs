//! Hosts that services of several guests claim: their broker finds them, and they count for nobody until it is said whose
//! they are.

use tenure_core::actor::effect::Problem;
use tenure_core::broker::availability::Disclosure;
use tenure_core::driver::Step;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Time;
use tenure_core::runtime::Input;
use tenure_core::service::member::MemberId;
use tenure_core::service_manager::ambiguity::Rule;
use tenure_core::service_manager::hosts::OtherClaim;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::service_manager::services::{Found, ServiceCommand};
use tenure_core::wire::hosts::{Contest, ForeignClaim, HostClaim, Hosts, MAX_HOSTS, host_id};
use tenure_core::wire::message::Message;

use super::members::{claimant, define_at, report, resolve, service, set_up_as, steps, view_at};
use crate::common::world::{Reaction, Scene, World};
use crate::common::{BROKER, GUEST, HOUR, RIVAL, STRANGER, ask_for, id, letter};

const HOST: &str = "n2.example.org";

/// A world with a service of each of two guests, which is audited by the laws.
fn of_two(scene: Scene) -> World {
    let mut world = Scene { suspicious: true, audited: true, ..scene }.open();
    define_at(&mut world, GUEST, "batch");
    define_at(&mut world, RIVAL, "web");
    world
}

fn tells(world: &mut World, who: u8, name: &'static str, members: &[&str]) {
    let members: Vec<(&str, bool)> = members.iter().map(|name| (*name, true)).collect();
    world.command(who, report(name, Found::Running, 3, &members));
}

/// How many units the two services have.
fn held(world: &World) -> (u32, u32) {
    let held = |who, name| view_at(world, who, name).demands[0].held;
    (held(GUEST, "batch"), held(RIVAL, "web"))
}

/// The claims of others that a guest knows of.
fn others(world: &World, who: u8) -> Vec<OtherClaim> {
    let all = world.guest(who).ambiguities();
    all.flat_map(|(_, one)| one.others.clone()).collect()
}

/// Who claims hosts of a guest beside it.
fn by(world: &World, who: u8) -> Vec<(ActorId, Name)> {
    others(world, who).into_iter().filter_map(|other| other.claim.by).collect()
}

fn cede(member: &str) -> tenure_core::service_manager::Command {
    service(ServiceCommand::Cede { member: MemberId::new(member).unwrap() })
}

fn sent(world: &World, kind: &str) -> usize {
    world.sent.iter().filter(|(envelope, _)| envelope.message.kind() == kind).count()
}

#[test]
fn a_host_that_services_of_two_guests_tell_of_counts_for_neither() {
    let mut world = of_two(Scene::default());
    tells(&mut world, GUEST, "batch", &[HOST, "n3.example.org"]);
    assert_eq!(held(&world), (2, 0));
    tells(&mut world, RIVAL, "web", &["N2.example.org"]);
    assert_eq!(held(&world), (1, 0));
    let (web, batch) = ((id(RIVAL), Name::literal("web")), (id(GUEST), Name::literal("batch")));
    assert_eq!((by(&world, GUEST), by(&world, RIVAL)), (vec![web], vec![batch]));
    assert!(others(&world, GUEST).iter().all(|other| other.broker == id(BROKER)));
    world.command(GUEST, resolve(HOST, claimant("batch", None)));
    world.command(RIVAL, cede(HOST));
    assert_eq!(held(&world), (2, 0));
    // What was said stands for as long as the other one claims it.
    world.command(RIVAL, resolve(HOST, claimant("web", None)));
    world.command(GUEST, cede(HOST));
    assert_eq!(held(&world), (1, 1));
    tells(&mut world, RIVAL, "web", &[]);
    assert_eq!(held(&world), (2, 0));
    assert_eq!(world.guest(GUEST).ambiguities().count(), 0);
    assert_eq!(world.guest(RIVAL).ambiguities().count(), 0);
    let problems = world.hand(GUEST, Input::Command(cede(HOST).into())).problems;
    assert!(format!("{problems:?}").contains("no other guest claims n2"), "{problems:?}");
}

#[test]
fn names_that_two_guests_may_give_to_two_hosts_are_not_compared() {
    let mut world = of_two(Scene::default());
    for (who, name) in [(GUEST, "batch"), (RIVAL, "web")] {
        tells(&mut world, who, name, &["n2", "10.0.0.2"]);
    }
    assert_eq!(held(&world), (2, 2));
    assert_eq!(sent(&world, "hosts"), 0);
}

#[test]
fn a_broker_learns_no_names() {
    let mut world = of_two(Scene::default());
    tells(&mut world, GUEST, "batch", &[HOST]);
    let mut hosts = world.sent.iter().filter(|(envelope, _)| envelope.message.kind() == "hosts");
    let (_, sealed) = hosts.next().unwrap();
    assert!(!sealed.bytes().windows(HOST.len()).any(|bytes| bytes == HOST.as_bytes()));
    assert_eq!(hosts.count(), 0, "it is told once");
}

#[test]
fn who_else_claims_a_host_is_told_to_whom_all_is_disclosed() {
    for (disclosure, told) in [(Disclosure::All, 1), (Disclosure::Totals, 0)] {
        let mut world = of_two(Scene { disclosure, ..Scene::default() });
        tells(&mut world, GUEST, "batch", &[HOST]);
        tells(&mut world, RIVAL, "web", &[HOST]);
        assert_eq!((held(&world), by(&world, GUEST).len()), ((0, 0), told), "{disclosure:?}");
        assert_eq!(others(&world, GUEST).len(), 1);
    }
}

/// A world in which `batch` has a lease of a unit that its site calls by that name, and `web` tells of it.
fn leased_and_told(rule: Rule, host: &str) -> World {
    let mut world = of_two(Scene { rule, ..Scene::default() });
    world.driver = |call| if call.step == Step::Setup { Reaction::Waits } else { Reaction::Works };
    tells(&mut world, RIVAL, "web", &[host]);
    world.ask(GUEST, Ask { slice: Name::literal("batch"), ..ask_for(1, 0, HOUR) });
    set_up_as(&mut world, host);
    world
}

#[test]
fn a_unit_that_is_leased_to_one_and_told_of_by_another_counts_for_neither() {
    let mut world = leased_and_told(Rule::Never, HOST);
    assert_eq!(held(&world), (0, 0));
    assert!(others(&world, RIVAL)[0].claim.ticket.is_some(), "its lease is what speaks for it");
    world.command(RIVAL, resolve(HOST, claimant("web", None)));
    world.command(GUEST, cede(HOST));
    assert_eq!(held(&world), (0, 1));
    world.advance(HOUR);
    assert!(!steps(&world).contains(&Step::Leave), "it is not left with a call");
    assert_eq!(world.guest(RIVAL).ambiguities().count(), 0, "the lease is over");
    let world = leased_and_told(Rule::Never, "n2");
    assert_eq!(held(&world), (1, 1));
}

#[test]
fn a_rule_says_the_same_to_both_guests() {
    let world = leased_and_told(Rule::SignedLeaseWins, HOST);
    assert_eq!((held(&world), steps(&world)), ((1, 0), vec![Step::Join]));
    let mut world = of_two(Scene { rule: Rule::FirstSeen, ..Scene::default() });
    tells(&mut world, RIVAL, "web", &[HOST]);
    world.advance(10);
    tells(&mut world, GUEST, "batch", &[HOST]);
    assert_eq!(held(&world), (0, 1));
    // Who tells of it anew has told of it later.
    tells(&mut world, RIVAL, "web", &[]);
    world.advance(20);
    tells(&mut world, RIVAL, "web", &[HOST]);
    assert_eq!(held(&world), (1, 0));
}

#[test]
fn a_unit_is_the_next_guests_although_the_broker_was_not_told_that_it_was_left() {
    let mut world = of_two(Scene { stock: 1, ..Scene::default() });
    world.driver = |call| if call.step == Step::Setup { Reaction::Waits } else { Reaction::Works };
    world.ask(GUEST, Ask { slice: Name::literal("batch"), ..ask_for(1, 0, HOUR) });
    set_up_as(&mut world, HOST);
    world.keep.insert("hosts");
    world.advance(HOUR);
    world.keep.clear();
    world.ask(RIVAL, Ask { slice: Name::literal("web"), ..ask_for(1, HOUR, HOUR) });
    set_up_as(&mut world, HOST);
    assert_eq!(held(&world), (0, 1));
    assert_eq!(world.guest(RIVAL).ambiguities().count(), 0);
}

#[test]
fn statements_and_answers_may_be_lost_doubled_and_late() {
    for lost in ["hosts", "hosts-noted", "hosts-changed"] {
        let mut world = of_two(Scene::default());
        world.keep.insert(lost);
        tells(&mut world, GUEST, "batch", &[HOST]);
        tells(&mut world, RIVAL, "web", &[HOST]);
        let late = std::mem::take(&mut world.kept);
        world.keep.clear();
        // What is asked for before the last statement is noted is asked for again.
        world.repeat();
        world.repeat();
        assert_eq!(held(&world), (0, 0), "{lost}");
        tells(&mut world, RIVAL, "web", &[]);
        for sealed in late.iter().chain(&late) {
            world.hand_over(sealed);
        }
        world.run();
        world.repeat();
        world.repeat();
        assert_eq!(held(&world), (1, 0), "{lost}");
        let owed = world.count(BROKER, "broker.hosts-noted");
        world.repeat();
        assert_eq!(world.count(BROKER, "broker.hosts-noted"), owed, "nothing is owed any more");
    }
}

#[test]
fn a_broker_takes_no_hosts_that_are_not_in_order_or_too_many_or_a_strangers() {
    let mut world = of_two(Scene::default());
    let claim = |number: usize| {
        let name = MemberId::new(&format!("n{number}.example.org")).unwrap();
        HostClaim { host: host_id(id(BROKER), &name).unwrap(), since: Time::ZERO, lease: None }
    };
    let mut many: Vec<HostClaim> = (0..=MAX_HOSTS).map(claim).collect();
    many.sort();
    let twice = vec![many[0].clone(), many[0].clone()];
    for (who, hosts, cause) in [
        (GUEST, many, "4097 hosts are more than 4096"),
        (GUEST, twice, "its hosts are not in order"),
        (STRANGER, vec![claim(0)], "its sender is no guest"),
    ] {
        let hosts = Hosts { service: Name::literal("batch"), revision: 7, hosts };
        let out = world.deliver(BROKER, &letter(who, BROKER, Message::Hosts(hosts)));
        let [Problem::Message { cause: found, .. }] = &out.problems[..] else { panic!("{out:?}") };
        assert_eq!((found.as_str(), &out.facts[..]), (cause, &[][..]));
    }
}

#[test]
fn a_guest_takes_no_word_on_hosts_that_it_has_not_told_of() {
    let mut world = of_two(Scene::default());
    world.auditor = None;
    world.keep.insert("hosts-noted");
    tells(&mut world, GUEST, "batch", &[HOST]);
    tells(&mut world, RIVAL, "web", &["n3.example.org"]);
    let noted = world.kept[0].peek().unwrap().message;
    let Message::HostsNoted { service, revision, .. } = noted else { panic!("{noted:?}") };
    let name = MemberId::new("n9.example.org").unwrap();
    let claim = ForeignClaim { by: None, since: Time::ZERO, ticket: None };
    let host = host_id(id(BROKER), &name).unwrap();
    let contests = vec![Contest { host, claim }];
    let word = Message::HostsNoted { service, revision, contests };
    let out = world.deliver(GUEST, &letter(BROKER, GUEST, word));
    assert_eq!((out.facts, out.problems.len()), (Vec::new(), 1));
}

#[test]
fn a_broker_that_comes_back_asks_each_guest_once_for_its_statements() {
    let mut world = of_two(Scene::default());
    assert_eq!(sent(&world, "restate"), 0, "there was nothing before its first start");
    tells(&mut world, GUEST, "batch", &[HOST]);
    tells(&mut world, RIVAL, "web", &[HOST]);
    world.ask(GUEST, Ask { slice: Name::literal("batch"), ..ask_for(1, 0, HOUR) });
    let count = |world: &World| {
        [(GUEST, "service-manager.need-stated"), (BROKER, "broker.need-noted")]
            .map(|(who, kind)| world.count(who, kind))
    };
    let before = count(&world);
    world.sent.clear();
    world.restart(BROKER);
    world.run();
    assert_eq!((sent(&world, "restate"), sent(&world, "need")), (2, 1));
    assert_eq!(count(&world), before, "what was noted is no news");
    // Hosts are stated anew: what the broker answers now is what counts.
    assert_eq!(sent(&world, "hosts"), 2);
    assert_eq!((by(&world, GUEST).len(), by(&world, RIVAL).len()), (1, 1));
}

#[test]
fn a_broker_that_comes_back_with_an_older_copy_is_told_what_it_lacks() {
    let mut world = of_two(Scene::default());
    tells(&mut world, GUEST, "batch", &[HOST, "n3.example.org"]);
    world.ask(RIVAL, Ask { slice: Name::literal("web"), ..ask_for(1, 0, HOUR) });
    let copy = world.position(BROKER);
    tells(&mut world, RIVAL, "web", &[HOST]);
    tells(&mut world, GUEST, "batch", &[HOST]);
    world.command(RIVAL, report("web", Found::Stopped, 0, &[]));
    world.command(RIVAL, service(ServiceCommand::Remove { service: Name::literal("web") }));
    define_at(&mut world, RIVAL, "shop");
    tells(&mut world, RIVAL, "shop", &["n3.example.org"]);
    assert_eq!(others(&world, GUEST), []);
    let known = |world: &World| {
        let needs = world.broker().needs().filter(|(_, need)| !need.wants.is_empty());
        needs.map(|(id, _)| id.service.to_string()).collect::<Vec<_>>()
    };
    let needs = known(&world);
    // It has signed what is no fact of its any more: the laws would say so.
    world.auditor = None;
    world.restore_copy(BROKER, copy);
    assert!(known(&world).contains(&"web".to_owned()) && !needs.contains(&"web".to_owned()));
    world.run();
    assert_eq!(known(&world), needs);
    assert_eq!((others(&world, GUEST), others(&world, RIVAL)), (Vec::new(), Vec::new()));
    tells(&mut world, GUEST, "batch", &[HOST, "n3.example.org"]);
    assert_eq!((by(&world, GUEST).len(), by(&world, RIVAL).len()), (1, 1));
}
