//! Recovery: whatever an actor is, it is again once its journal is folded.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::{Effect, EffectId};
use tenure_core::actor::fact::BadFact;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::broker::mapper::BrokerMapper;
use tenure_core::broker::quota::Quota;
use tenure_core::driver::{Call, Step, UnitId};
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::queue::Queue;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::Constraints;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::{Fact, Input};
use tenure_core::service_manager::group::{ASSEMBLE, Handling};
use tenure_core::service_manager::mapper::Ask;
use tenure_core::service_manager::{Command as GuestCommand, Part};
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::wire::message::Sealed;
use tenure_core::wire::offer::Reply;
use tenure_core::wire::recall::Accepts;
use tenure_core::wire::request::Item;

use crate::common::world::{Reaction, Scene, World};
use crate::common::{
    BROKER, GUEST, HOUR, RIVAL, SITE, STRANGER, ask_for, cut, id, item, letter, redeem, term, units,
};

const EVERYBODY: [u8; 4] = [SITE, BROKER, GUEST, RIVAL];

fn busy_scene(suspicious: bool) -> World {
    let delegation = (Span::HOUR.times(3), Span::HOUR.times(2));
    let leave_before = Span::MINUTE;
    let broker_mapper =
        || Box::new(Fcfs::default().with_queue(Queue::Wait)) as Box<dyn BrokerMapper>;
    Scene { stock: 6, delegation, leave_before, suspicious, broker_mapper, ..Scene::default() }
        .open()
}

/// Unit 5 can neither be set up nor cleaned.
fn unit_5_burns(call: &Call) -> Reaction {
    if call.unit == UnitId(5) { Reaction::Fails } else { Reaction::Works }
}

fn lease(number: u64) -> LeaseId {
    LeaseId { number, part: 0 }
}

type Act = fn(&mut World);

/// A life with everything in it: leases early, elastic, refused, extended, closed, credited; messages
/// lost, drivers slow, mappers slow, a unit quarantined and reset.
const LIFE: [Act; 38] = [
    |w| _ = w.ask(GUEST, ask_for(2, 0, HOUR)),
    |w| {
        w.driver = unit_5_burns;
        let mut elastic = ask_for(4, 0, HOUR);
        elastic.items[0].min_units = units(3);
        w.ask(RIVAL, elastic);
    },
    |w| _ = w.ask(GUEST, ask_for(1, HOUR, HOUR)),
    |w| _ = w.ask(GUEST, ask_for(9, 0, HOUR)),
    |w| w.advance(300),
    |w| drop(w.hand(GUEST, Input::Observe { signal: Name::literal("demand"), value: 3 })),
    |w| w.command(GUEST, GuestCommand::extend(lease(1), Span::HOUR)),
    |w| {
        w.cut_off.insert(BROKER);
        w.command(GUEST, GuestCommand::extend(lease(1), Span::HOUR));
    },
    |w| {
        w.cut_off.clear();
        w.repeat();
    },
    |w| w.advance(600),
    |w| {
        w.driver = |call| if call.step == Step::Leave { Reaction::Waits } else { Reaction::Works };
        w.command(RIVAL, GuestCommand::Close { lease: lease(1) });
    },
    |w| {
        while let Some(call) = w.waiting.pop() {
            w.answer(call, true);
        }
        w.driver = |_| Reaction::Works;
        w.run();
    },
    |w| w.command(SITE, SiteCommand::Reset { unit: UnitId(5) }),
    |w| {
        let quota = Some(Quota { units: Some(6), ..Quota::default() });
        w.command(BROKER, BrokerCommand::SetQuota { whose: Some(id(RIVAL)), quota });
    },
    |w| {
        w.undecided.extend([SITE, BROKER]);
        w.ask(RIVAL, ask_for(2, 600, HOUR));
        w.ask(RIVAL, ask_for(1, 600, HOUR));
    },
    |w| {
        w.undecided.clear();
        w.run();
    },
    |w| {
        w.keep.insert("close");
        w.command(RIVAL, GuestCommand::Close { lease: lease(3) });
    },
    |w| w.advance(HOUR),
    |w| w.release(),
    |w| {
        w.driver = |call| if call.step == Step::Setup { Reaction::Waits } else { Reaction::Works };
        w.ask(RIVAL, ask_for(1, HOUR, HOUR));
        w.command(RIVAL, GuestCommand::Close { lease: lease(4) });
    },
    |w| {
        while let Some(call) = w.waiting.pop() {
            w.answer(call, false);
        }
        w.driver = |_| Reaction::Works;
        w.run();
    },
    |w| {
        w.ask(RIVAL, ask_for(5, 3 * HOUR, HOUR));
        w.command(GUEST, GuestCommand::extend(lease(1), Span::HOUR));
    },
    |w| {
        w.keep.insert("granted");
        let asked = w.ask(GUEST, ask_for(1, 2 * HOUR, HOUR));
        w.command(GUEST, GuestCommand::Close { lease: asked });
    },
    |w| w.release(),
    |w| {
        let hold = Ask { reply: Reply::Hold(Span::MINUTE), ..ask_for(1, 3 * HOUR, HOUR) };
        let held = w.ask(RIVAL, hold.clone());
        w.command(RIVAL, GuestCommand::Accept { number: held.number, offer: 1 });
        let held = w.ask(RIVAL, hold.clone());
        w.command(RIVAL, GuestCommand::Withdraw { number: held.number });
        w.ask(RIVAL, hold);
    },
    |w| _ = w.ask(RIVAL, Ask { reply: Reply::Plan, ..ask_for(1, 3 * HOUR, HOUR) }),
    |w| {
        let ask = ask_for(6, 3 * HOUR, HOUR);
        w.ask(RIVAL, Ask { answer_by: ask.latest, ..ask });
    },
    |w| {
        w.cut_off.clear();
        w.cut_off.insert(SITE);
        let granted = w.ask(GUEST, ask_for(1, 2 * HOUR, HOUR));
        w.command(GUEST, GuestCommand::Close { lease: granted });
    },
    |w| {
        w.cut_off.clear();
        w.repeat();
    },
    |w| {
        let oversold = cut(&w.delegation(), BROKER, STRANGER, 6, term(4 * HOUR, 5 * HOUR), 901);
        w.deliver(SITE, &letter(STRANGER, SITE, redeem(&oversold)));
        w.ask(GUEST, ask_for(1, 4 * HOUR, HOUR));
    },
    |w| w.advance(2 * HOUR),
    |w| w.advance(6 * HOUR),
    |w| {
        let start = w.now.since(Time::ZERO).as_micros() / 1_000_000;
        let ask = || Ask { handling: KEPT, ..ask_for(2, start, HOUR) };
        let split = w.ask(RIVAL, ask());
        let redeemed = w.ask(RIVAL, Ask { items: vec![item(1)], ..ask() });
        w.command(RIVAL, GuestCommand::Redeem { lease: redeemed });
        let part = Part {
            accepts: Default::default(),
            holder: id(GUEST),
            units: units(1),
            term: term(start, start + HOUR),
            constraints: Constraints::NONE,
            redeem_by: None,
        };
        w.command(RIVAL, GuestCommand::Split { lease: split, parts: vec![part] });
        let taken = take_part(w, split);
        w.command(GUEST, GuestCommand::Close { lease: taken });
    },
    |w| {
        let start = w.now.since(Time::ZERO).as_micros() / 1_000_000;
        let handling = Handling { bundle: true, ..Handling::default() };
        let items = vec![item(1), item(1)];
        let bundle = w.ask(GUEST, Ask { items, handling, ..ask_for(1, start, HOUR) });
        w.advance_to(w.now.plus(Span::MINUTE));
        w.command(GUEST, GuestCommand::Close { lease: bundle });
    },
    |w| w.advance(8 * HOUR),
    recall_units,
    recall_rights,
    |w| w.advance(10 * HOUR),
];

/// Units of a lease are recalled, not after all, and in the end.
fn recall_units(w: &mut World) {
    let accepts = Accepts { notice: Some(Span::from_secs(300)), min_tenure: None };
    let items = vec![Item { accepts, ..item(3) }];
    let lease = w.ask(GUEST, Ask { items, ..ask_for(3, 8 * HOUR, HOUR) });
    let ticket = w.ticket(GUEST, lease).hash();
    let recall = |units| BrokerCommand::Recall { ticket, units, from: None };
    w.command(BROKER, recall(Some(1)));
    let held = w.guest(GUEST).lease(lease).and_then(|state| state.held());
    let first: Vec<UnitId> = held.unwrap().units.keys().copied().take(1).collect();
    w.command(GUEST, GuestCommand::Victims { lease, units: first });
    w.advance(8 * HOUR + 280);
    w.command(BROKER, recall(None));
    w.command(BROKER, recall(Some(1)));
    w.advance(8 * HOUR + 900);
    w.repeat();
}

/// A guest recalls a part of a kept ticket, which its holder keeps too.
fn recall_rights(w: &mut World) {
    let kept = w.ask(RIVAL, Ask { handling: KEPT, ..ask_for(2, 8 * HOUR + 900, HOUR) });
    let part = Part {
        accepts: Accepts::default(),
        holder: id(GUEST),
        units: units(2),
        term: term(8 * HOUR + 900, 9 * HOUR),
        constraints: Constraints::NONE,
        redeem_by: None,
    };
    w.command(RIVAL, GuestCommand::Split { lease: kept, parts: vec![part] });
    let parent = w.ticket(RIVAL, kept);
    let ticket = parent.with(w.guest(RIVAL).parts_of(&parent).next().unwrap().link.clone());
    let part = ticket.hash();
    let (slice, configuration) = (Name::literal("main"), Properties::default());
    w.command(GUEST, GuestCommand::Take { ticket, slice, configuration, keep: true });
    w.command(RIVAL, GuestCommand::Recall { ticket: part, units: Some(1), from: None });
    w.run();
}

/// The tickets of a request are kept.
const KEPT: Handling =
    Handling { bundle: false, assemble: ASSEMBLE, keep_tickets: true, after: Vec::new() };

/// The guest takes the one part that its rival handed on; answers the lease.
fn take_part(w: &mut World, split: LeaseId) -> LeaseId {
    let ticket = w.guest(RIVAL).lease(split).and_then(|state| state.ticket()).cloned().unwrap();
    let link = w.guest(RIVAL).parts_of(&ticket).next().unwrap().link.clone();
    let last = w.guest(GUEST).survey().last().map_or(0, |lease| lease.id.number);
    let (slice, configuration) = (Name::literal("main"), Properties::default());
    let (ticket, keep) = (ticket.with(link), false);
    w.command(GUEST, GuestCommand::Take { ticket, slice, configuration, keep });
    let taken = w.guest(GUEST).survey().last().unwrap().id;
    assert!(taken.number > last);
    taken
}

/// A world in which that life was lived.
pub(crate) fn lived(suspicious: bool) -> World {
    let mut world = busy_scene(suspicious);
    for act in LIFE {
        act(&mut world);
    }
    world
}

/// What is left of a life, apart from who was when started again.
fn outcome(world: &World) -> (Vec<String>, Vec<(&'static str, usize)>) {
    let unfinished = EVERYBODY.into_iter().flat_map(|who| world.actor(who).unfinished(99));
    let of = |who, kinds: &[&'static str]| -> Vec<(&'static str, usize)> {
        kinds.iter().map(|&kind| (kind, world.count(who, kind))).collect()
    };
    let at_site = of(SITE, &["site.redeemed", "site.lease-closed", "site.unit-set-up"]);
    let at_broker = of(BROKER, &["broker.tickets-cut", "broker.receipt-taken"]);
    let at_guest = of(GUEST, &["service-manager.leased", "service-manager.extended"]);
    (unfinished.collect(), [at_site, at_broker, at_guest].concat())
}

#[test]
fn after_every_input_of_a_busy_life_the_journal_gives_the_same_actor_again() {
    let world = lived(true);
    assert_eq!(world.problems, []);
    for who in EVERYBODY {
        assert!(world.position(who) > 20, "{who} has a busy life");
    }
}

/// The kinds of facts that a busy life does not have.
///
/// Its delegations are renewed by the one broker that there is, its stock stays, nothing comes back in part
/// or changes in place, and every ticket is redeemed in time: `delegations.rs`, `drivers.rs`, `returns.rs`,
/// `in_place.rs` and the scripts of `tests/scenarios` have those.
const ELSEWHERE: &[&str] = &[
    "service-manager.group-asked",
    "service-manager.group-held",
    "service-manager.group-granted",
    "service-manager.return-begun",
    "service-manager.part-returned",
    "service-manager.return-refused",
    "service-manager.shrink-begun",
    "service-manager.shrunk",
    "service-manager.modify-begun",
    "service-manager.modified",
    "service-manager.modify-refused",
    "service-manager.notified",
    "service-manager.ticket-lapsed",
    "service-manager.reclaim-begun",
    "service-manager.reclaim-ended",
    "service-manager.revised",
    "service-manager.unit-failed",
    "service-manager.replacement-wanted",
    "service-manager.recall-refused",
    "service-manager.unblocked",
    "service-manager.gate-reached",
    "service-manager.gate-answered",
    "service-manager.join-refused",
    "service-manager.leave-refused",
    "service-manager.leave-forced",
    "service-manager.leave-hastened",
    "service-manager.usage-reported",
    "service-manager.rest-wanted",
    "service-manager.rest-begun",
    "service-manager.rest-returned",
    "service-manager.rest-refused",
    "service-manager.rest-credited",
    "service-manager.plan-requested",
    "service-manager.plan-leasing",
    "service-manager.plan-leased",
    "service-manager.plan-proposed",
    "service-manager.plan-accepted",
    "service-manager.package-reported",
    "service-manager.package-removed",
    "service-manager.plan-ended",
    "service-manager.plan-forgotten",
    "service-manager.service-defined",
    "service-manager.service-removed",
    "service-manager.service-reported",
    "service-manager.members-told",
    "service-manager.member-ambiguous",
    "service-manager.ambiguity-settled",
    "service-manager.member-contested",
    "service-manager.member-ceded",
    "service-manager.service-advised",
    "service-manager.unit-blacklisted",
    "service-manager.service-stale",
    "service-manager.slo-assessed",
    "service-manager.need-stated",
    "service-manager.need-answered",
    "service-manager.hosts-stated",
    "service-manager.hosts-answered",
    "service-manager.work-told",
    "service-manager.site-unheard",
    "service-manager.unit-reset",
    "service-manager.commanded",
    "service-manager.settings-changed",
    "service-manager.clock-compared",
    "service-manager.key-rotated",
    "service-manager.key-revoked",
    "service-manager.peer-keys-learned",
    "service-manager.keys-noted",
    "service-manager.invitation-made",
    "service-manager.invitation-taken",
    "service-manager.invitation-answered",
    "service-manager.peer-joined",
    "service-manager.peer-changed",
    "service-manager.peer-removed",
    "broker.delegation-ended",
    "broker.offer-passed",
    "broker.reclaim-begun",
    "broker.reclaim-ended",
    "broker.revised",
    "broker.delegation-issued",
    "broker.delegation-acknowledged",
    "broker.issued-delegation-ended",
    "broker.return-begun",
    "broker.part-returned",
    "broker.return-refused",
    "broker.return-credited",
    "broker.recall-refused",
    "broker.recall-told",
    "broker.need-noted",
    "broker.order-placed",
    "broker.order-ended",
    "broker.orders-advised",
    "broker.hosts-noted",
    "broker.bounds-set",
    "broker.sharing-set",
    "broker.lot-opened",
    "broker.sharing-reviewed",
    "broker.neighbour-set",
    "broker.relation-planned",
    "broker.request-sealed",
    "broker.request-handed",
    "broker.request-passed",
    "broker.pass-answered",
    "broker.pass-lapsed",
    "broker.portion-handed",
    "broker.portion-kept",
    "broker.portion-passed",
    "broker.portion-answered",
    "broker.portion-reserved",
    "broker.portions-taken",
    "broker.portions-granted",
    "broker.portions-released",
    "broker.selling-set",
    "broker.commanded",
    "broker.settings-changed",
    "broker.clock-compared",
    "broker.key-rotated",
    "broker.key-revoked",
    "broker.peer-keys-learned",
    "broker.keys-noted",
    "broker.invitation-made",
    "broker.invitation-taken",
    "broker.invitation-answered",
    "broker.peer-joined",
    "broker.peer-changed",
    "broker.peer-removed",
    "site.inventory-changed",
    "site.delegation-ended",
    "site.units-returned",
    "site.term-returned",
    "site.lease-shrunk",
    "site.rights-returned",
    "site.share-assigned",
    "site.quantity-returned",
    "site.quantity-withdrawn",
    "site.modification-begun",
    "site.unit-modified",
    "site.unit-modify-failed",
    "site.lease-modified",
    "site.modification-failed",
    "site.ticket-reclaimed",
    "site.delegated-by-hand",
    "site.unit-added",
    "site.unit-described",
    "site.stacks-planned",
    "site.unit-drained",
    "site.unit-needed",
    "site.unit-resumed",
    "site.unit-quarantined",
    "site.unit-failed",
    "site.unit-restored",
    "site.commanded",
    "site.settings-changed",
    "site.clock-compared",
    "site.key-rotated",
    "site.key-revoked",
    "site.peer-keys-learned",
    "site.keys-noted",
    "site.invitation-made",
    "site.invitation-taken",
    "site.invitation-answered",
    "site.peer-joined",
    "site.peer-changed",
    "site.peer-removed",
];

#[test]
fn a_busy_life_has_every_kind_of_fact_that_matters_in_it() {
    let world = lived(false);
    let missing: Vec<_> = Fact::kinds()
        .map(|(kind, _)| kind)
        .filter(|kind| EVERYBODY.iter().all(|&who| world.count(who, kind) == 0))
        .collect();
    assert_eq!(missing, ELSEWHERE);
}

#[test]
fn a_life_with_a_crash_of_everybody_after_every_act_ends_like_one_without() {
    let (mut calm, mut troubled) = (busy_scene(false), busy_scene(true));
    for act in LIFE {
        act(&mut calm);
        act(&mut troubled);
        for who in EVERYBODY {
            troubled.restart(who);
            troubled.run();
        }
    }
    assert_eq!(outcome(&calm), outcome(&troubled));
}

#[test]
fn at_every_fact_of_a_journal_what_is_owed_is_named_by_facts_before_it() {
    let world = lived(false);
    for who in EVERYBODY {
        let mut actor = world.fresh(who);
        for (position, entry) in (0..).zip(world.facts(who)) {
            actor.replay(&entry).unwrap();
            assert_eq!(actor.position(), position + 1);
            let pending = actor.effects_after(0);
            assert!(pending.iter().all(|(id, _)| id.position <= position && actor.is_pending(*id)));
            let news = actor.effects_after(position);
            let new = |id: &EffectId| id.position == position;
            assert!(pending.iter().filter(|(id, _)| new(id)).eq(&news));
        }
    }
}

#[test]
fn what_is_owed_keeps_its_name_and_its_bytes_through_crashes() {
    let mut world = Scene::default().open();
    world.keep.extend(["request", "delegate"]);
    world.ask(GUEST, ask_for(2, 0, HOUR));
    let pending = |world: &mut World| -> Vec<Sealed> {
        let sends = world.actor(GUEST).effects_after(0).into_iter();
        let envelopes = sends.filter_map(|(_, effect)| match effect {
            Effect::Send(envelope) => Some(*envelope),
            Effect::Call(_) => None,
        });
        envelopes.collect::<Vec<_>>().iter().map(|e| world.seal(GUEST, e)).collect()
    };
    let before = pending(&mut world);
    assert_eq!(before.len(), 1);
    for secs in [0, 1, 60] {
        world.advance(secs);
        world.restart(GUEST);
        assert_eq!(pending(&mut world), before);
    }
    assert_eq!(world.sent("request"), vec![before[0].clone(); 4]);
}

#[test]
fn a_call_that_was_under_way_at_a_crash_is_made_once_more_in_the_same_epoch() {
    let mut world = Scene::default().open();
    world.driver = |_| Reaction::Waits;
    world.ask(GUEST, ask_for(1, 0, HOUR));
    world.restart(SITE);
    let [first, second] = &world.calls[..] else { panic!("{:?}", world.calls) };
    assert_eq!(first, second);
    let call = world.waiting.remove(0);
    world.driver = |_| Reaction::Works;
    world.answer(call, true);
    world.run();
    assert_eq!(world.units_in("Ready"), 1);
}

#[test]
fn a_fact_of_another_role_is_refused() {
    let world = Scene::default().open();
    for (who, other) in [(SITE, BROKER), (BROKER, GUEST), (GUEST, SITE)] {
        let entry = world.facts(other).remove(0);
        let applied = world.fresh(who).replay(&entry);
        assert_eq!(applied, Err(BadFact::Foreign(entry.fact.kind().0)));
    }
}

#[test]
fn a_journal_with_a_fact_missing_or_doubled_is_refused_or_read_but_breaks_nothing() {
    let world = lived(false);
    let mut broken = Vec::new();
    for who in EVERYBODY {
        let facts = world.facts(who);
        for damaged in 0..facts.len() {
            for doubled in [false, true] {
                let mut journal = facts.clone();
                match doubled {
                    true => journal.insert(damaged, facts[damaged].clone()),
                    false => drop(journal.remove(damaged)),
                }
                let mut actor = world.fresh(who);
                let fold = || journal.iter().try_for_each(|fact| actor.replay(fact));
                if catch_unwind(AssertUnwindSafe(fold)).is_err() {
                    broken.push((facts[damaged].fact.kind().0, doubled));
                }
            }
        }
    }
    assert_eq!(broken, []);
}
