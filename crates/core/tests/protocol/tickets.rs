//! Tickets: a part never exceeds what it was cut from, and no actor can impersonate another.

use tenure_core::model::codec;
use tenure_core::model::resource::Constraints;
use tenure_core::model::time::Term;
use tenure_core::model::verifier::Verifier;
use tenure_core::ticket::link::{Link, MAX_CONSTRAINTS, SignedLink};
use tenure_core::ticket::{LinkFault, MAX_DEPTH, Ticket, TicketFault};

use crate::common::{
    BROKER, ED25519, FAR_SITE, GUEST, RIVAL, SITE, STRANGER, at, credentials, cut, delegation,
    equals, id, micro, node, part, signer, term, units,
};

/// Site, broker and guest: 4 units over [100s, 200s) on machines with 8 cpus.
fn chain() -> Ticket {
    let root = delegation(SITE, BROKER, 8, term(0, 1000), (1, 0));
    let mut link = part(&root, GUEST, 4, term(100, 200), 1);
    link.constraints.add(equals("cpus", 8));
    root.with(SignedLink::sign(link, &signer(BROKER)))
}

/// What the site says to a part of the guest's ticket that was changed before the guest signed it.
fn verdict(change: impl FnOnce(&mut Link)) -> Result<(), TicketFault> {
    let ticket = chain();
    let mut link = part(&ticket, RIVAL, 4, term(100, 200), 2);
    change(&mut link);
    let mut credentials = credentials(SITE);
    let ticket = ticket.with(SignedLink::sign(link, &signer(GUEST)));
    let checked = credentials.check_ticket(&ticket, id(SITE), id(RIVAL));
    assert_eq!(credentials.checked(), if checked.is_ok() { 3 } else { 0 });
    checked
}

fn link_fault(change: impl FnOnce(&mut Link)) -> LinkFault {
    match verdict(change) {
        Err(TicketFault::BadLink { depth: 2, cause }) => cause,
        other => panic!("not a bad link at the bottom: {other:?}"),
    }
}

#[test]
fn a_part_as_large_as_its_parent_is_honoured() {
    assert_eq!(verdict(|_| ()), Ok(()));
}

#[test]
fn a_part_of_one_unit_more_than_its_parent_is_void() {
    let fault = link_fault(|link| link.units = units(5));
    assert_eq!(fault, LinkFault::Units { child: 5, parent: 4 });
}

#[test]
fn a_part_that_starts_a_microsecond_before_its_parent_is_void() {
    let early = Term::new(at(100).minus(micro()), at(200)).unwrap();
    let fault = link_fault(|link| link.term = early);
    assert_eq!(fault, LinkFault::Term { child: early, parent: term(100, 200) });
}

#[test]
fn a_part_that_ends_a_microsecond_after_its_parent_is_void() {
    let late = Term::new(at(100), at(200).plus(micro())).unwrap();
    let fault = link_fault(|link| link.term = late);
    assert_eq!(fault, LinkFault::Term { child: late, parent: term(100, 200) });
}

#[test]
fn a_part_of_another_type_is_void() {
    let other = "disk".parse().unwrap();
    let fault = link_fault(|link| link.resource = other);
    let child = "disk".parse().unwrap();
    assert_eq!(fault, LinkFault::Resource { child, parent: node() });
}

#[test]
fn a_part_without_a_constraint_of_its_parent_is_void() {
    let fault = link_fault(|link| link.constraints = Constraints::NONE);
    assert_eq!(fault, LinkFault::Constraints);
}

#[test]
fn a_part_with_another_constraint_in_place_of_its_parents_is_void() {
    let fault = link_fault(|link| link.constraints = [equals("cpus", 4)].into_iter().collect());
    assert_eq!(fault, LinkFault::Constraints);
}

#[test]
fn a_part_with_a_constraint_more_than_its_parent_is_honoured() {
    assert_eq!(verdict(|link| link.constraints.add(equals("image", 1))), Ok(()));
}

#[test]
fn a_part_with_more_constraints_than_a_link_may_carry_is_void() {
    let fault = link_fault(|link| {
        (0..MAX_CONSTRAINTS).for_each(|n| link.constraints.add(equals("n", n as i64)));
    });
    assert_eq!(fault, LinkFault::TooManyConstraints);
}

#[test]
fn a_part_that_names_another_parent_is_void() {
    let root = chain().root().hash();
    assert_eq!(link_fault(|link| link.parent = Some(root)), LinkFault::Parent);
    assert_eq!(link_fault(|link| link.parent = None), LinkFault::Parent);
}

#[test]
fn a_part_issued_by_somebody_who_does_not_hold_the_parent_is_void() {
    assert_eq!(link_fault(|link| link.issuer = id(BROKER)), LinkFault::Issuer);
}

#[test]
fn a_root_that_names_a_parent_is_void() {
    let mut link: Link = (**chain().root()).clone();
    link.parent = Some(chain().hash());
    let ticket = Ticket::root_of(SignedLink::sign(link, &signer(SITE)));
    let fault = TicketFault::BadLink { depth: 0, cause: LinkFault::Parent };
    assert_eq!(credentials(SITE).check_ticket(&ticket, id(SITE), id(BROKER)), Err(fault));
}

#[test]
fn a_ticket_is_worth_nothing_to_anybody_but_its_holder() {
    let mut credentials = credentials(SITE);
    for thief in [RIVAL, BROKER, SITE, STRANGER] {
        let checked = credentials.check_ticket(&chain(), id(SITE), id(thief));
        assert_eq!(checked, Err(TicketFault::NotHolder(id(GUEST))));
    }
    assert_eq!(credentials.checked(), 0);
}

#[test]
fn a_ticket_is_worth_nothing_at_another_site() {
    let checked = credentials(FAR_SITE).check_ticket(&chain(), id(FAR_SITE), id(GUEST));
    assert_eq!(checked, Err(TicketFault::WrongSite(id(SITE))));
}

#[test]
fn a_chain_out_of_order_is_void_before_any_signature_is_checked() {
    let whole = cut(&chain(), GUEST, RIVAL, 1, term(100, 200), 2);
    let orders: [(&[usize], Option<u32>); 5] = [
        (&[2, 1, 0], None),
        (&[1, 0, 2], None),
        (&[0, 2, 1], Some(1)),
        (&[0, 2], Some(1)),
        (&[1, 2], None),
    ];
    for (order, bad) in orders {
        let links: Vec<_> = order.iter().map(|&depth| whole.links()[depth].clone()).collect();
        let ticket = Ticket::try_from(links).unwrap();
        let mut credentials = credentials(SITE);
        let fault = credentials.check_ticket(&ticket, id(SITE), id(RIVAL)).unwrap_err();
        match (bad, fault) {
            (Some(bad), TicketFault::BadLink { depth, cause: LinkFault::Parent }) => {
                assert_eq!(depth, bad);
            }
            (None, TicketFault::WrongSite(_)) => {}
            other => panic!("{order:?}: {other:?}"),
        }
        assert_eq!(credentials.checked(), 0);
    }
}

#[test]
fn a_link_signed_by_somebody_else_is_void_at_its_place() {
    let root = delegation(SITE, BROKER, 8, term(0, 1000), (1, 0));
    let forged_root = Ticket::root_of(SignedLink::sign((**root.root()).clone(), &signer(STRANGER)));
    let of_forged_root = cut(&forged_root, BROKER, GUEST, 4, term(100, 200), 1);
    let forged = cut(&root, STRANGER, GUEST, 4, term(100, 200), 1);
    let mut credentials = credentials(SITE);
    let mut check = |ticket| credentials.check_ticket(ticket, id(SITE), id(GUEST));
    assert_eq!(check(&of_forged_root), Err(TicketFault::BadSignature(0)));
    assert_eq!(check(&forged), Err(TicketFault::BadSignature(1)));
}

#[test]
fn a_delegation_checked_before_does_not_vouch_for_a_forged_copy_of_it() {
    let root = delegation(SITE, BROKER, 8, term(0, 1000), (1, 0));
    let mut bytes = root.root().as_bytes().to_vec();
    bytes[40] ^= 1;
    let copy = Ticket::root_of(SignedLink::read(&bytes).unwrap());
    let mut credentials = credentials(BROKER);
    assert_eq!(copy.hash(), root.hash());
    assert_eq!(credentials.check_ticket(&root, id(SITE), id(BROKER)), Ok(()));
    let checked = credentials.check_ticket(&copy, id(SITE), id(BROKER));
    assert_eq!(checked, Err(TicketFault::BadSignature(0)));
}

#[test]
fn a_delegation_is_checked_once_for_all_tickets_cut_from_it() {
    let root = delegation(SITE, BROKER, 8, term(0, 1000), (1, 0));
    let mut credentials = credentials(SITE);
    for serial in 0..3 {
        let ticket = cut(&root, BROKER, GUEST, 1, term(100, 200), serial);
        assert_eq!(credentials.check_ticket(&ticket, id(SITE), id(GUEST)), Ok(()));
    }
    assert_eq!(credentials.checked(), 1 + 3);
}

#[test]
fn tickets_share_the_delegation_that_heads_them_once_it_is_verified_and_only_then() {
    let root = delegation(SITE, BROKER, 8, term(0, 1000), (1, 0));
    let mut forged = root.root().as_bytes().to_vec();
    forged[40] ^= 1;
    let forged = Ticket::root_of(SignedLink::read(&forged).unwrap());
    let received = |root: &Ticket, serial| {
        let ticket = cut(root, BROKER, GUEST, 1, term(100, 200), serial);
        codec::decode::<Ticket>(&codec::encode(&ticket)).unwrap()
    };
    let place = |ticket: &Ticket| ticket.root().as_bytes().as_ptr();
    let mut credentials = credentials(SITE);
    let unverified = received(&root, 1);
    assert_eq!(place(&credentials.share(unverified.clone())), place(&unverified));
    assert_eq!(credentials.check_ticket(&unverified, id(SITE), id(GUEST)), Ok(()));
    let next = received(&root, 2);
    assert_ne!(place(&next), place(&unverified));
    assert_eq!(credentials.share(next.clone()), next);
    assert_eq!(place(&credentials.share(next)), place(&unverified));
    let false_one = received(&forged, 3);
    assert_eq!(credentials.share(false_one.clone()), false_one);
}

#[test]
fn the_longest_chain_is_honoured_and_every_signature_in_it_is_checked() {
    let mut ticket = delegation(SITE, 10, 8, term(0, 1000), (1, 0));
    for by in 10..10 + MAX_DEPTH as u8 - 1 {
        ticket = cut(&ticket, by, by + 1, 8, term(0, 1000), 1);
    }
    assert_eq!(ticket.links().len(), MAX_DEPTH);
    let mut credentials = credentials(SITE);
    let last = id(10 + MAX_DEPTH as u8 - 1);
    assert_eq!(credentials.check_ticket(&ticket, id(SITE), last), Ok(()));
    assert_eq!(credentials.checked(), MAX_DEPTH as u64);
}

#[test]
fn every_flipped_bit_of_a_link_makes_it_unreadable_or_void() {
    let bytes = chain().bottom().as_bytes().to_vec();
    assert!(SignedLink::read(&bytes).unwrap().verifies(&mut Verifier::new(ED25519)));
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let passes =
            SignedLink::read(&flipped).is_ok_and(|link| link.verifies(&mut Verifier::new(ED25519)));
        assert!(!passes, "bit {bit} can be flipped");
    }
}
