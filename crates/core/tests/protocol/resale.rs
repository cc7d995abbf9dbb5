//! Delegations below delegations: generations in any order, returns, and who is convicted of what.

use crate::common::*;
use tenure_core::model::time::Term;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::evidence::{Evidence, EvidenceFault};
use tenure_core::ticket::ledger::{Ledger, PartReturned};
use tenure_core::ticket::link::{Generation, SignedLink};
use tenure_core::ticket::receipt::{Receipt, Return};

const RESELLER: u8 = 6;
const OTHER: u8 = 7;

/// A generation of a delegation that the broker cuts from its own.
fn below(parent: &Ticket, to: u8, n: u32, of: Term, (number, generation): (u64, u32)) -> Ticket {
    let mut link = part(parent, to, n, of, u64::from(generation) + 10 * number);
    link.delegation = Some(Generation { delegation: number, generation });
    parent.with(SignedLink::sign(link, &signer(BROKER)))
}

fn root() -> Ticket {
    delegation(SITE, BROKER, 6, term(0, 10_000), (1, 0))
}

/// A ledger that has been shown these chains, in this order.
fn shown(chains: &[&Ticket]) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.open(root().root());
    for chain in chains {
        for pair in chain.links().windows(2) {
            ledger.check(&pair[0], &pair[1]).unwrap();
            ledger.enter(&pair[0], &pair[1], at(0));
        }
    }
    ledger
}

#[test]
fn the_generations_of_a_delegation_are_charged_once_in_whatever_order_they_are_shown() {
    let first = below(&root(), RESELLER, 3, term(0, 2000), (1, 0));
    let second = below(&root(), RESELLER, 4, term(0, 4000), (1, 1));
    for order in [[&first, &second], [&second, &first]] {
        let ledger = shown(&order);
        let above = ledger.free(root().root().account()).unwrap();
        assert_eq!([0, 1999, 2000, 3999, 4000].map(|t| above.free_at(at(t))), [2, 2, 2, 2, 6]);
        let own = ledger.free(first.bottom().account()).unwrap();
        assert_eq!([0, 3999, 4000].map(|t| own.free_at(at(t))), [4, 4, 0]);
        assert_eq!(ledger.account(first.bottom().account()).unwrap().head(), second.bottom());
    }
}

#[test]
fn a_ticket_under_a_generation_that_is_not_known_yet_is_covered_by_it() {
    let first = below(&root(), RESELLER, 2, term(0, 2000), (1, 0));
    let second = below(&root(), RESELLER, 4, term(0, 4000), (1, 1));
    let ledger = shown(&[&cut(&first, RESELLER, GUEST, 2, term(100, 200), 1)]);
    let more = cut(&second, RESELLER, GUEST, 2, term(100, 200), 2);
    let links = more.links();
    assert!((1..3).all(|depth| ledger.check(&links[depth - 1], &links[depth]).is_ok()));
    let too_many = cut(&second, RESELLER, GUEST, 3, term(100, 200), 3);
    let links = too_many.links();
    assert_eq!(ledger.check(&links[1], &links[2]).unwrap_err().links.len(), 2);
}

#[test]
fn what_came_back_of_a_generation_is_free_above_until_a_later_one_says_otherwise() {
    let first = below(&root(), RESELLER, 4, term(0, 2000), (1, 0));
    let mut ledger = shown(&[&first]);
    let part = PartReturned { number: 0, units: units(3), term: term(500, 2000) };
    assert!(ledger.can_retire(first.bottom(), &part));
    ledger.retire(first.bottom(), part, at(500));
    assert!(!ledger.can_retire(first.bottom(), &PartReturned { number: 1, ..part }));
    let free = |ledger: &Ledger, t| ledger.free(root().root().account()).unwrap().free_at(at(t));
    assert_eq!([499, 500, 1999].map(|t| free(&ledger, t)), [2, 5, 5]);
    let second = below(&root(), RESELLER, 2, term(0, 4000), (1, 1));
    let links = second.links();
    ledger.check(&links[0], &links[1]).unwrap();
    ledger.enter(&links[0], &links[1], at(600));
    assert_eq!([499, 500, 1999, 2000, 3999].map(|t| free(&ledger, t)), [2, 4, 4, 4, 4]);
}

#[test]
fn what_came_back_of_a_generation_came_back_of_all_before_it_in_whatever_order_they_are_shown() {
    let first = below(&root(), RESELLER, 4, term(0, 2000), (1, 0));
    let second = below(&root(), RESELLER, 4, term(0, 4000), (1, 1));
    let part = PartReturned { number: 0, units: units(3), term: term(500, 4000) };
    for order in [vec![&first, &second], vec![&second, &first], vec![&second]] {
        let mut ledger = shown(&order[..order.len() - 1]);
        let (last, newest) = (order[order.len() - 1].links(), second.bottom());
        if order.len() == 1 || order[1] == &second {
            ledger.enter(&last[0], &last[1], at(0));
            ledger.retire(newest, part, at(500));
        } else {
            ledger.retire(newest, part, at(500));
            ledger.enter(&last[0], &last[1], at(0));
        }
        // Shown again it changes nothing.
        ledger.open(newest);
        assert_eq!(ledger.account(newest.account()).unwrap().heads().len(), order.len());
        let above = ledger.free(root().root().account()).unwrap();
        assert_eq!([499, 500, 1999, 2000, 3999].map(|t| above.free_at(at(t))), [2, 5, 5, 5, 5]);
        let ticket = cut(&first, RESELLER, GUEST, 2, term(600, 700), 1);
        let links = ticket.links();
        assert!(ledger.check(&links[1], &links[2]).is_err(), "one unit is left of it");
    }
}

#[test]
fn a_broker_that_delegates_too_much_is_convicted_and_its_reseller_is_not() {
    let (one, two) = (
        below(&root(), RESELLER, 4, term(0, 2000), (1, 0)),
        below(&root(), OTHER, 3, term(0, 2000), (2, 0)),
    );
    let links = vec![one.bottom().clone(), two.bottom().clone()];
    let evidence = Evidence { parents: vec![root()], links, at: at(100) };
    assert_eq!(evidence.convicts(ED25519, &[]), Ok(id(BROKER)));
    let what = Return {
        site: id(SITE),
        link: one.hash(),
        issuer: id(BROKER),
        units: units(1),
        term: term(50, 2000),
        number: 0,
    };
    let excuse = Receipt::sign(what, &signer(SITE));
    let verdict = evidence.convicts(ED25519, &[excuse]);
    assert_eq!(verdict, Err(EvidenceFault::WithinParent { sum: 6, limit: 6 }));
}

#[test]
fn two_generations_of_one_delegation_frame_nobody() {
    let first = below(&root(), RESELLER, 4, term(0, 2000), (1, 0));
    let second = below(&root(), RESELLER, 5, term(0, 4000), (1, 1));
    let links = vec![first.bottom().clone(), second.bottom().clone()];
    let evidence = Evidence { parents: vec![root()], links, at: at(100) };
    let verdict = evidence.convicts(ED25519, &[]);
    assert_eq!(verdict, Err(EvidenceFault::WithinParent { sum: 5, limit: 6 }));
}

#[test]
fn one_number_for_two_holders_convicts_who_signed_both() {
    let one = below(&root(), RESELLER, 1, term(0, 2000), (1, 0));
    let two = below(&root(), OTHER, 1, term(0, 2000), (1, 1));
    let ledger = shown(&[&one]);
    assert_eq!(ledger.contradicted(root().root(), two.bottom()), Some(one.bottom()));
    assert_eq!(ledger.chain(one.bottom()), Some(one.clone()));
    let evidence = Evidence { parents: vec![one.clone(), two], links: Vec::new(), at: at(0) };
    assert_eq!(evidence.convicts(ED25519, &[]), Ok(id(BROKER)));
    let renewed = below(&root(), RESELLER, 1, term(0, 4000), (1, 1));
    let evidence = Evidence { parents: vec![one, renewed], links: Vec::new(), at: at(0) };
    assert!(evidence.convicts(ED25519, &[]).is_err());
}
