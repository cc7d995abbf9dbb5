//! Encoding and signatures: one spelling, one purpose, bounded work.

use tenure_core::actor::Actor as _;
use tenure_core::actor::effect::Problem;
use tenure_core::model::codec::{self, DecodeError, MAX_BYTES};
use tenure_core::model::identity::{ActorId, Label, PublicKey, Signature};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::Constraints;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Time;
use tenure_core::model::verifier::Verifier;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Link, SignedLink};
use tenure_core::ticket::receipt::Receipt;
use tenure_core::wire::batch::Path;
use tenure_core::wire::message::{Envelope, Header, Message, OpenError, Sealed, Sequence, VERSION};

use crate::common::world::Scene;
use crate::common::{
    BROKER, ED25519, GUEST, HOUR, SITE, at, credentials, cut, delegation, envelope, equals, id,
    letter, micro, part, receipt, redeem, returned, seal_bytes, signer, term, units,
};

fn ticket() -> Ticket {
    let root = delegation(SITE, BROKER, 8, term(0, 1000), (1, 0));
    cut(&root, BROKER, GUEST, 4, term(100, 200), 1)
}

/// A link as it travels, from its parts.
fn assemble(key: &PublicKey, signature: &Signature, body: &[u8]) -> Vec<u8> {
    [key.as_bytes().as_slice(), signature.as_bytes(), body].concat()
}

#[test]
fn a_link_with_bytes_behind_it_is_unreadable() {
    let mut bytes = ticket().bottom().as_bytes().to_vec();
    bytes.push(0);
    assert_eq!(SignedLink::read(&bytes), Err(DecodeError::LeftOver(1)));
}

#[test]
fn a_link_cut_short_anywhere_is_unreadable() {
    let bytes = ticket().bottom().as_bytes().to_vec();
    for length in 0..bytes.len() {
        assert!(SignedLink::read(&bytes[..length]).is_err(), "{length} bytes are enough");
    }
}

#[test]
fn a_validly_signed_link_in_another_spelling_is_unreadable() {
    let link = part(&delegation(SITE, BROKER, 8, term(0, 9), (1, 0)), GUEST, 4, term(1, 2), 77);
    let mut body = codec::encode(&link);
    assert_eq!(body.pop(), Some(77));
    body.extend([251, 77, 0]);
    let signature = signer(BROKER).sign(Label::Link, &body);
    let bytes = assemble(&signer(BROKER).key(), &signature, &body);
    assert_eq!(codec::decode_trusted::<Link>(&body), Ok(link));
    assert_eq!(SignedLink::read(&bytes), Err(DecodeError::NotCanonical));
}

#[test]
fn constraints_out_of_order_or_twice_are_unreadable() {
    let (a, b) = (equals("a", 1), equals("b", 2));
    let decode = |list: &[_]| codec::decode::<Constraints>(&codec::encode(&list.to_vec()));
    assert!(decode(&[a.clone(), b.clone()]).is_ok());
    assert_eq!(decode(&[b, a.clone()]), Err(DecodeError::NotCanonical));
    assert_eq!(decode(&[a.clone(), a]), Err(DecodeError::NotCanonical));
}

#[test]
fn a_ticket_without_links_is_unreadable() {
    let bytes = codec::encode(&Vec::<SignedLink>::new());
    assert!(matches!(codec::decode::<Ticket>(&bytes), Err(DecodeError::Malformed(_))));
}

#[test]
fn an_empty_term_in_a_link_is_unreadable() {
    let good = codec::encode(&(at(5), at(6)));
    let empty = codec::encode(&(at(5), at(5)));
    let body = codec::encode(&part(&ticket(), GUEST, 1, term(5, 6), 1));
    let place = body.windows(good.len()).position(|bytes| bytes == good).unwrap();
    let body = [&body[..place], &empty, &body[place + good.len()..]].concat();
    assert!(matches!(codec::decode::<Link>(&body), Err(DecodeError::Malformed(_))));
}

#[test]
fn a_sealed_message_with_bytes_behind_its_content_is_dropped() {
    let content = envelope(id(GUEST), id(SITE), redeem(&ticket()));
    let mut bytes = codec::encode(&(VERSION, &content));
    assert_eq!(seal_bytes(GUEST, bytes.clone()).open(&mut credentials(SITE), at(0)), Ok(content));
    bytes.push(0);
    let opened = seal_bytes(GUEST, bytes).open(&mut credentials(SITE), at(0));
    assert_eq!(opened, Err(OpenError::Malformed(DecodeError::LeftOver(1))));
}

#[test]
fn a_message_in_another_version_is_dropped_and_says_both() {
    let mut world = Scene::default().open();
    let content = envelope(id(GUEST), id(SITE), redeem(&ticket()));
    for theirs in [0, VERSION + 1] {
        let sealed = seal_bytes(GUEST, codec::encode(&(theirs, &content)));
        let out = world.deliver(SITE, &sealed);
        let refused = OpenError::Version { theirs, ours: VERSION };
        assert_eq!(out.problems, [Problem::Unopened(refused)]);
        assert!(out.replies.is_empty());
    }
}

/// A redeem of so many links, as only bytes can say it.
fn redeem_of(links: usize) -> Sealed {
    let sequence = Sequence { position: 0, index: 0 };
    let header = Header { from: id(GUEST), to: id(SITE), sequence, at: Time::ZERO };
    let chain = vec![ticket().bottom().clone(); links];
    let (lease, slice) = (LeaseId { number: 1, part: 0 }, Name::literal("main"));
    // 8 is the place of `Redeem` in `Message`.
    let content =
        (VERSION, header, 8u32, chain, lease, slice, units(4), Properties::default(), 0u8);
    seal_bytes(GUEST, codec::encode(&content))
}

#[test]
fn a_message_spelt_by_hand_is_the_message() {
    let Envelope { message, .. } = redeem_of(1).peek().unwrap();
    assert!(matches!(message, Message::Redeem { ticket, .. } if ticket.links().len() == 1));
}

#[test]
fn a_chain_of_nine_links_is_dropped_before_any_of_its_signatures_is_checked() {
    let mut world = Scene::default().open();
    let (_, before) = world.actor(SITE).signatures();
    let out = world.deliver(SITE, &redeem_of(9));
    let [Problem::Unopened(OpenError::Malformed(DecodeError::Malformed(cause)))] =
        &out.problems[..]
    else {
        panic!("{:?}", out.problems)
    };
    assert!(cause.contains("9 links"), "{cause}");
    assert_eq!(world.actor(SITE).signatures().1, before + 1, "the message's own, and no more");
}

#[test]
fn the_longest_chain_that_fits_a_message_is_dropped_before_any_of_its_signatures_is_checked() {
    let mut world = Scene::default().open();
    let (_, before) = world.actor(SITE).signatures();
    // Each length counts as eight bytes against the limit, however short it is spelt.
    let length = MAX_BYTES / (ticket().bottom().as_bytes().len() + 8) - 2;
    let out = world.deliver(SITE, &redeem_of(length));
    let problem = out.problems[0].to_string();
    assert!(problem.contains(&format!("{length} links")), "{problem}");
    assert_eq!(world.actor(SITE).signatures().1, before + 1, "the message's own, and no more");
}

fn too_long(len: usize) -> DecodeError {
    DecodeError::TooLong { len, most: MAX_BYTES }
}

#[test]
fn a_chain_of_ten_thousand_links_is_too_long_to_be_read_at_all() {
    let chain = vec![ticket().bottom().clone(); 10_000];
    let bytes = codec::encode(&chain);
    assert_eq!(codec::decode::<Ticket>(&bytes), Err(too_long(bytes.len())));
    let (key, signature) = credentials(GUEST).sign_message(&bytes);
    let sealed = codec::encode(&(bytes, key, signature, Path::default(), Vec::<KeyChain>::new()));
    assert_eq!(codec::decode::<Sealed>(&sealed), Err(too_long(sealed.len())));
}

#[test]
fn a_signature_on_a_receipt_or_a_message_is_void_on_a_link() {
    let body = codec::encode(&**ticket().bottom());
    for (label, holds) in [(Label::Link, true), (Label::Receipt, false), (Label::Message, false)] {
        let signature = signer(BROKER).sign(label, &body);
        let link = SignedLink::read(&assemble(&signer(BROKER).key(), &signature, &body)).unwrap();
        assert_eq!(link.verifies(&mut Verifier::new(ED25519)), holds, "{label:?}");
    }
}

#[test]
fn a_signature_on_a_link_or_a_message_is_void_on_a_receipt() {
    let what = returned(SITE, ticket().bottom(), at(150));
    for (label, holds) in [(Label::Receipt, true), (Label::Link, false), (Label::Message, false)] {
        let signature = signer(SITE).sign(label, &codec::encode(&what));
        let bytes = codec::encode(&(&what, signer(SITE).key(), signature));
        let receipt: Receipt = codec::decode(&bytes).unwrap();
        assert_eq!(receipt.verifies(&mut Verifier::new(ED25519)), holds, "{label:?}");
    }
}

#[test]
fn a_signature_on_a_link_or_a_receipt_is_void_on_a_message() {
    let bytes = codec::encode(&(VERSION, envelope(id(GUEST), id(SITE), redeem(&ticket()))));
    let others = [Label::Link, Label::Receipt, Label::Batch].map(|label| (label, false));
    for (label, holds) in [(Label::Message, true)].into_iter().chain(others) {
        let signature = signer(GUEST).sign(label, &bytes);
        let sealed = codec::encode(&(
            &bytes,
            signer(GUEST).key(),
            signature,
            Path::default(),
            Vec::<KeyChain>::new(),
        ));
        let sealed: Sealed = codec::decode(&sealed).unwrap();
        assert_eq!(sealed.open(&mut credentials(SITE), at(0)).is_ok(), holds, "{label:?}");
    }
}

#[test]
fn every_flipped_bit_of_a_receipt_makes_it_unreadable_or_void() {
    let bytes = codec::encode(&receipt(SITE, ticket().bottom(), at(150)));
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let passes = codec::decode::<Receipt>(&flipped)
            .is_ok_and(|r| r.verifies(&mut Verifier::new(ED25519)));
        assert!(!passes, "bit {bit} can be flipped");
    }
}

#[test]
fn every_fifth_bit_flipped_in_a_sealed_message_makes_it_unreadable_or_void() {
    let bytes = codec::encode(&letter(GUEST, SITE, redeem(&ticket())));
    for bit in (0..bytes.len() * 8).step_by(5) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let opened =
            codec::decode::<Sealed>(&flipped).map(|s| s.open(&mut credentials(SITE), at(0)));
        assert!(!matches!(opened, Ok(Ok(_))), "bit {bit} can be flipped");
    }
}

/// Points of small order: under a lenient check one signature fits many messages.
fn weak_points() -> Vec<[u8; 32]> {
    let point = |first: u8, middle: u8, last: u8| {
        let mut bytes = [middle; 32];
        (bytes[0], bytes[31]) = (first, last);
        bytes
    };
    let mut of_order_eight = [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ];
    let mut points = vec![
        point(1, 0, 0),
        point(0, 0, 0),
        point(0, 0, 0x80),
        point(0xec, 0xff, 0x7f),
        point(1, 0, 0x80),
        point(0xed, 0xff, 0x7f),
        of_order_eight,
    ];
    of_order_eight[31] |= 0x80;
    points.push(of_order_eight);
    points
}

#[test]
fn no_weak_key_can_issue_a_link() {
    let weak = weak_points();
    for key in weak.iter().map(|&bytes| PublicKey::from_bytes(bytes)) {
        for (serial, point) in (0..8).flat_map(|serial| weak.iter().map(move |p| (serial, p))) {
            let mut link = part(&ticket(), GUEST, 1, term(100, 200), serial);
            link.issuer = ActorId::of(&key);
            let mut forged = [0; 64];
            forged[..32].copy_from_slice(point);
            let forged = Signature::from_bytes(forged);
            let bytes = assemble(&key, &forged, &codec::encode(&link));
            assert!(
                !SignedLink::read(&bytes).unwrap().verifies(&mut Verifier::new(ED25519)),
                "{key:?}"
            );
        }
    }
}

#[test]
fn a_signature_shifted_by_the_order_of_the_group_is_void() {
    let order: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut bytes = ticket().bottom().as_bytes().to_vec();
    let mut carry = 0;
    for (byte, add) in bytes[64..96].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        (*byte, carry) = (sum as u8, sum >> 8);
    }
    assert_eq!(carry, 0);
    assert!(!SignedLink::read(&bytes).unwrap().verifies(&mut Verifier::new(ED25519)));
}

#[test]
fn a_receipt_in_the_name_of_a_site_by_somebody_else_is_void() {
    let what = returned(SITE, ticket().bottom(), at(150));
    assert!(Receipt::sign(what.clone(), &signer(SITE)).verifies(&mut Verifier::new(ED25519)));
    assert!(!Receipt::sign(what, &signer(GUEST)).verifies(&mut Verifier::new(ED25519)));
}

#[test]
fn times_at_the_ends_of_the_clock_do_not_overflow() {
    assert_eq!(Time::MAX.plus(micro()), Time::MAX);
    assert_eq!(Time::MIN.minus(micro()), Time::MIN);
    assert_eq!(Time::MAX.since(Time::MIN), Time::MAX.since(Time::ZERO));
    assert_eq!(at(i64::MAX / HOUR), Time::MAX);
}
