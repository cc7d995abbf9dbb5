//! Evidence: an issuer that sells more than it holds is convicted by its own signatures, and only such an
//! issuer.

use tenure_core::model::codec;
use tenure_core::model::time::Span;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::evidence::{Evidence, EvidenceFault};
use tenure_core::ticket::link::{Link, SignedLink};
use tenure_core::ticket::receipt::{Receipt, Return};
use tenure_core::wire::message::{Message, Subject};
use tenure_core::wire::refusal::Refusal;

use crate::common::world::{Scene, World};
use crate::common::{
    BROKER, ED25519, FAR_SITE, GUEST, HOUR, RIVAL, SITE, STRANGER, at, close, cut, delegation, id,
    letter, redeem, returned, signer, term, units,
};

/// Redeems a ticket at the site and runs until nothing is left to do; returns the site's answer.
fn show(world: &mut World, who: u8, ticket: &Ticket) -> Vec<Message> {
    let out = world.deliver(SITE, &letter(who, SITE, redeem(ticket)));
    world.run();
    out.replies.into_iter().map(|reply| reply.message).collect()
}

fn evidence_in(said: &[Message], ticket: &Ticket) -> Evidence {
    match said {
        [Message::Refused { subject, refusal: Refusal::Conflict(evidence), .. }] => {
            assert_eq!(*subject, Subject::Ticket(ticket.hash()));
            (**evidence).clone()
        }
        other => panic!("no evidence in {other:?}"),
    }
}

/// A broker that holds 4 units has sold 3 to the guest and 3 to the rival, for one hour each; both
/// have shown their tickets.
fn over_issue() -> (World, Evidence, [Ticket; 2]) {
    let mut world = Scene::default().open();
    let held = world.delegation();
    let first = cut(&held, BROKER, GUEST, 3, term(0, HOUR), 901);
    let second = cut(&held, BROKER, RIVAL, 3, term(600, HOUR + 600), 902);
    show(&mut world, GUEST, &first);
    let said = show(&mut world, RIVAL, &second);
    let evidence = evidence_in(&said, &second);
    (world, evidence, [first, second])
}

#[test]
fn the_first_of_two_tickets_that_exceed_their_parent_is_honoured_and_the_second_is_not() {
    let (world, _, [first, second]) = over_issue();
    assert_eq!(world.at_site(first.hash()), "Active");
    assert_eq!(world.at_site(second.hash()), "unknown");
    assert_eq!((world.units_in("Ready"), world.units_in("Free")), (3, 1));
}

#[test]
fn the_evidence_names_both_links_the_parent_and_the_first_instant() {
    let (world, evidence, [first, second]) = over_issue();
    assert_eq!(evidence.parents, [world.delegation()]);
    assert_eq!(evidence.links, [second.bottom().clone(), first.bottom().clone()]);
    assert_eq!(evidence.at, at(600));
}

#[test]
fn the_evidence_convicts_the_broker_off_line() {
    let (_, evidence, _) = over_issue();
    let copy: Evidence = codec::decode(&codec::encode(&evidence)).unwrap();
    assert_eq!(copy.convicts(ED25519, &[]), Ok(id(BROKER)));
}

#[test]
fn a_ticket_refused_with_evidence_is_refused_for_good_in_the_same_bytes() {
    let (mut world, _, [first, second]) = over_issue();
    let refused = world.sent("refused");
    world.deliver(SITE, &letter(GUEST, SITE, close(&first)));
    world.run();
    let position = world.position(SITE);
    show(&mut world, RIVAL, &second);
    assert_eq!(world.sent("refused"), [refused.clone(), refused].concat());
    assert_eq!(world.position(SITE), position);
}

#[test]
fn the_evidence_names_no_more_links_than_it_needs() {
    let mut world = Scene::default().open();
    let held = world.delegation();
    for (serial, n) in [(901, 1), (902, 2), (903, 1)] {
        show(&mut world, GUEST, &cut(&held, BROKER, GUEST, n, term(0, HOUR), serial));
    }
    let last = cut(&held, BROKER, RIVAL, 3, term(0, HOUR), 904);
    let evidence = evidence_in(&show(&mut world, RIVAL, &last), &last);
    let sold: Vec<u32> = evidence.links.iter().map(|link| link.units.get()).collect();
    assert_eq!(sold, [3, 2]);
    assert_eq!(evidence.convicts(ED25519, &[]), Ok(id(BROKER)));
}

#[test]
fn a_guest_that_hands_on_more_than_it_holds_is_convicted_itself() {
    let mut world = Scene::default().open();
    let bought = cut(&world.delegation(), BROKER, GUEST, 4, term(0, HOUR), 901);
    let first = cut(&bought, GUEST, RIVAL, 3, term(0, HOUR), 1);
    let second = cut(&bought, GUEST, STRANGER, 2, term(0, HOUR), 2);
    show(&mut world, RIVAL, &first);
    let evidence = evidence_in(&show(&mut world, STRANGER, &second), &second);
    assert_eq!(evidence.convicts(ED25519, &[]), Ok(id(GUEST)));
}

/// A site that renews its delegation after an hour, and tickets for 3 units each under both.
fn over_the_seam(units_of_second: u32) -> (World, Vec<Message>, [Ticket; 2]) {
    let delegation = (Span::HOUR.times(2), Span::HOUR);
    let mut world = Scene { delegation, ..Scene::default() }.open();
    let old = world.delegation();
    world.advance(HOUR);
    let new = world.delegation();
    assert_ne!(old, new);
    let first = cut(&old, BROKER, GUEST, 3, term(HOUR, 2 * HOUR), 901);
    let second = cut(&new, BROKER, RIVAL, units_of_second, term(HOUR, 3 * HOUR), 902);
    show(&mut world, GUEST, &first);
    let said = show(&mut world, RIVAL, &second);
    (world, said, [first, second])
}

#[test]
fn tickets_under_two_generations_of_a_delegation_convict_together() {
    let (_, said, [first, second]) = over_the_seam(3);
    let evidence = evidence_in(&said, &second);
    let generations: Vec<_> = evidence.parents.iter().map(|parent| parent.hash()).collect();
    assert_eq!(generations, [first.root().hash(), second.root().hash()]);
    assert_eq!(evidence.convicts(ED25519, &[]), Ok(id(BROKER)));
}

#[test]
fn tickets_under_two_generations_that_fit_together_are_both_honoured() {
    let (world, _, tickets) = over_the_seam(1);
    assert_eq!(tickets.map(|ticket| world.at_site(ticket.hash())), ["Active", "Active"]);
}

/// What a change makes of sound evidence.
fn doctored(change: impl FnOnce(&mut Evidence, [&Ticket; 2])) -> EvidenceFault {
    let (_, mut evidence, [first, second]) = over_issue();
    change(&mut evidence, [&first, &second]);
    evidence.convicts(ED25519, &[]).unwrap_err()
}

#[test]
fn evidence_without_one_of_its_links_convicts_nobody() {
    for left_out in [0, 1] {
        let fault = doctored(|evidence, _| drop(evidence.links.remove(left_out)));
        assert_eq!(fault, EvidenceFault::WithinParent { sum: 3, limit: 4 });
    }
    let fault = doctored(|evidence, _| evidence.links.clear());
    assert_eq!(fault, EvidenceFault::WithinParent { sum: 0, limit: 4 });
}

#[test]
fn evidence_with_a_link_repeated_convicts_nobody() {
    let fault = doctored(|evidence, _| evidence.links[0] = evidence.links[1].clone());
    assert!(matches!(fault, EvidenceFault::Repeated(_)));
}

#[test]
fn evidence_with_a_link_repeated_under_another_signature_convicts_nobody() {
    let fault = doctored(|evidence, _| {
        let mut bytes = evidence.links[1].as_bytes().to_vec();
        bytes[33] ^= 1;
        evidence.links[0] = SignedLink::read(&bytes).unwrap();
    });
    assert!(matches!(fault, EvidenceFault::Invalid(_) | EvidenceFault::Repeated(_)));
}

#[test]
fn evidence_with_another_parent_or_none_convicts_nobody() {
    let other = delegation(SITE, BROKER, 4, term(0, 2 * HOUR), (2, 0));
    let of_other_site = delegation(FAR_SITE, BROKER, 4, term(0, 2 * HOUR), (1, 0));
    for parents in [vec![other], vec![of_other_site], vec![]] {
        let fault = doctored(|evidence, _| evidence.parents = parents);
        assert_eq!(fault, EvidenceFault::NotOneTicket);
    }
}

#[test]
fn evidence_that_mixes_tickets_of_two_delegations_convicts_nobody() {
    let other = delegation(SITE, BROKER, 4, term(0, 2 * HOUR), (2, 0));
    let fault = doctored(|evidence, _| {
        evidence.links[0] = cut(&other, BROKER, GUEST, 3, term(0, HOUR), 7).bottom().clone();
        evidence.parents.push(other.clone());
    });
    assert_eq!(fault, EvidenceFault::NotOneTicket);
}

#[test]
fn evidence_at_an_instant_at_which_a_link_does_not_run_convicts_nobody() {
    for outside in [at(0), at(599), at(HOUR), at(HOUR + 600)] {
        let fault = doctored(|evidence, _| evidence.at = outside);
        assert!(matches!(fault, EvidenceFault::NotRunning(_)), "{outside}: {fault}");
    }
}

#[test]
fn evidence_with_a_forged_link_convicts_nobody() {
    let fault = doctored(|evidence, [first, _]| {
        let mut link: Link = (**first.bottom()).clone();
        link.serial += 1;
        evidence.links[0] = SignedLink::sign(link, &signer(STRANGER));
    });
    assert!(matches!(fault, EvidenceFault::Invalid(_)));
}

#[test]
fn evidence_with_a_link_that_leaves_its_parent_convicts_nobody() {
    let fault = doctored(|evidence, [first, _]| {
        let mut link: Link = (**first.bottom()).clone();
        link.units = units(5);
        evidence.links[0] = SignedLink::sign(link, &signer(BROKER));
    });
    assert!(matches!(fault, EvidenceFault::Invalid(_)));
}

#[test]
fn evidence_with_a_parent_that_its_site_never_signed_convicts_nobody() {
    let fault = doctored(|evidence, _| {
        let mut link: Link = (**evidence.parents[0].root()).clone();
        link.units = units(1);
        let forged = Ticket::root_of(SignedLink::sign(link, &signer(RIVAL)));
        evidence.parents.push(forged);
    });
    assert!(matches!(fault, EvidenceFault::Invalid(_)));
}

#[test]
fn a_site_cannot_frame_its_broker_with_a_smaller_generation() {
    let (_, mut evidence, _) = over_issue();
    let mut link: Link = (**evidence.parents[0].root()).clone();
    link.units = units(2);
    evidence.parents.push(Ticket::root_of(SignedLink::sign(link, &signer(SITE))));
    evidence.links.truncate(1);
    let fault = evidence.convicts(ED25519, &[]).unwrap_err();
    assert_eq!(fault, EvidenceFault::WithinParent { sum: 3, limit: 4 });
}

/// Whether the broker is acquitted by a receipt for the guest's ticket, from the start of its term on,
/// after a change, signed by `site`.
fn acquits(site: u8, change: impl FnOnce(&mut Return)) -> bool {
    let (_, evidence, [first, _]) = over_issue();
    let mut what = returned(SITE, first.bottom(), at(0));
    change(&mut what);
    evidence.convicts(ED25519, &[Receipt::sign(what, &signer(site))]).is_err()
}

#[test]
fn a_receipt_for_a_ticket_that_had_come_back_excuses_it() {
    assert!(acquits(SITE, |_| ()));
    assert!(acquits(SITE, |what| what.term = term(600, HOUR)));
}

#[test]
fn a_receipt_for_a_ticket_that_came_back_later_excuses_nothing() {
    assert!(!acquits(SITE, |what| what.term = term(601, HOUR)));
}

#[test]
fn a_receipt_by_another_site_or_in_its_name_excuses_nothing() {
    assert!(!acquits(FAR_SITE, |what| what.site = id(FAR_SITE)));
    assert!(!acquits(FAR_SITE, |_| ()));
    assert!(!acquits(BROKER, |_| ()));
}

#[test]
fn a_receipt_for_fewer_units_excuses_those_and_one_for_more_nothing() {
    assert!(acquits(SITE, |what| what.units = units(2)));
    assert!(!acquits(SITE, |what| what.units = units(1)));
    assert!(!acquits(SITE, |what| what.units = units(4)));
}

#[test]
fn receipts_with_one_number_excuse_once() {
    let (_, evidence, [first, _]) = over_issue();
    let of = |number, from| {
        let mut what = returned(SITE, first.bottom(), at(from));
        (what.units, what.number) = (units(1), number);
        Receipt::sign(what, &signer(SITE))
    };
    assert!(evidence.convicts(ED25519, &[of(0, 0), of(0, 1)]).is_ok());
    assert!(evidence.convicts(ED25519, &[of(0, 0), of(1, 0)]).is_err());
}

#[test]
fn a_receipt_for_another_ticket_excuses_nothing() {
    let other = delegation(SITE, BROKER, 4, term(0, HOUR), (9, 0)).hash();
    assert!(!acquits(SITE, |what| what.link = other));
}

#[test]
fn units_that_came_back_can_be_sold_again_without_evidence_against_anybody() {
    let mut world = Scene::default().open();
    let held = world.delegation();
    let first = cut(&held, BROKER, GUEST, 3, term(0, HOUR), 901);
    show(&mut world, GUEST, &first);
    world.advance(600);
    world.deliver(SITE, &letter(GUEST, SITE, close(&first)));
    world.run();
    let second = cut(&held, BROKER, RIVAL, 3, term(600, HOUR), 902);
    show(&mut world, RIVAL, &second);
    assert_eq!(world.at_site(second.hash()), "Active");
    let overlapping = cut(&held, BROKER, STRANGER, 2, term(599, HOUR), 903);
    let said = show(&mut world, STRANGER, &overlapping);
    let evidence = evidence_in(&said, &overlapping);
    assert_eq!(evidence.convicts(ED25519, &[]), Ok(id(BROKER)));
}
