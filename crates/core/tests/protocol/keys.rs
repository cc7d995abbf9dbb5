//! Keys: chains of statements, and what does not get past them.

use tenure_core::actor::Actor as _;
use tenure_core::actor::keys::KeyCommand;
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::{Label, Signer};
use tenure_core::model::keys::{
    KeyChain, KeyChange, KeyStatement, MAX_HONOURED, MAX_STATEMENTS, Signed, SignedStatement,
    Standing,
};
use tenure_core::model::time::Time;
use tenure_core::model::verifier::Verifier;
use tenure_core::runtime::host::{Departure, Host};
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_core::runtime::{AnyActor, Input};
use tenure_core::service_manager::Command;

use crate::common::world::Scene;
use crate::common::{BROKER, ED25519, GUEST, RIVAL, STRANGER, at, id, micro, signer};

/// The chain continues a known one.
fn continues(chain: &KeyChain, known: &KeyChain) -> bool {
    let mut verifier = Verifier::new(ED25519);
    chain.continues(known, &mut |key, bytes, signature| {
        verifier.verifies(key, Label::Keys, bytes, signature)
    })
}

fn chain(statements: &[SignedStatement]) -> KeyChain {
    statements.to_vec().try_into().unwrap()
}

fn rotated(number: u32, to: u8) -> KeyStatement {
    let (key, at) = (signer(to).key(), at(i64::from(number)));
    KeyStatement { actor: id(BROKER), number, at, change: KeyChange::Rotated { key } }
}

fn revoked(number: u32, key: u8, honoured: &[Hash]) -> KeyStatement {
    let honoured = honoured.iter().copied().collect();
    let change = KeyChange::Revoked { key: signer(key).key(), honoured };
    KeyStatement { actor: id(BROKER), number, at: at(i64::from(number)), change }
}

fn sign(statement: KeyStatement, by: u8, new: Option<u8>) -> SignedStatement {
    SignedStatement::sign(statement, &signer(by), new.map(signer).as_ref())
}

#[test]
fn a_rotation_is_signed_by_both_keys_and_a_revocation_by_the_one_in_force() {
    let none = KeyChain::default();
    let first = sign(rotated(1, 20), BROKER, Some(20));
    assert!(continues(&chain(std::slice::from_ref(&first)), &none));
    let bad = [
        sign(rotated(1, 20), BROKER, None),
        sign(rotated(1, 20), BROKER, Some(21)),
        sign(rotated(1, 20), RIVAL, Some(20)),
        sign(rotated(2, 20), BROKER, Some(20)),
        sign(rotated(1, BROKER), BROKER, Some(BROKER)),
        sign(revoked(1, BROKER, &[]), BROKER, None),
    ];
    for bad in bad {
        assert!(!continues(&chain(std::slice::from_ref(&bad)), &none), "{bad:?}");
    }
    let second = sign(revoked(2, BROKER, &[]), 20, None);
    assert!(continues(&chain(&[first.clone(), second]), &none));
    let bad = [
        // By the key that was replaced, as a thief would; of the key in force; of another's; with a key too many.
        sign(revoked(2, BROKER, &[]), BROKER, None),
        sign(rotated(2, 21), BROKER, Some(21)),
        sign(revoked(2, 20, &[]), 20, None),
        sign(revoked(2, STRANGER, &[]), 20, None),
        sign(revoked(2, BROKER, &[]), 20, Some(21)),
        sign(rotated(2, BROKER), 20, Some(BROKER)),
        sign(KeyStatement { at: at(0), ..rotated(2, 21) }, 20, Some(21)),
        sign(KeyStatement { actor: id(RIVAL), ..rotated(2, 21) }, 20, Some(21)),
    ];
    for bad in bad {
        assert!(!continues(&chain(&[first.clone(), bad.clone()]), &none), "{bad:?}");
    }
    // The first chain that is learned prevails: a thief's later one denies it.
    let forked =
        chain(&[sign(rotated(1, 21), BROKER, Some(21)), sign(rotated(2, 22), 21, Some(22))]);
    assert!(continues(&forked, &none));
    assert!(!continues(&forked, &chain(&[first])));
}

#[test]
fn what_a_key_has_signed_counts_by_its_standing() {
    let (kept, other) = (Hash::of("link", &[b"kept"]), Hash::of("link", &[b"other"]));
    let whole = chain(&[
        sign(rotated(1, 20), BROKER, Some(20)),
        sign(rotated(2, 21), 20, Some(21)),
        sign(revoked(3, BROKER, &[kept]), 21, None),
    ]);
    assert!(continues(&whole, &KeyChain::default()));
    let standing = |who: u8| whole.standing(&signer(who).key());
    assert_eq!(standing(21), Standing::InForce);
    assert_eq!(standing(20), Standing::Rotated(at(2)));
    assert!(matches!(standing(BROKER), Standing::Revoked(since, _) if since == at(3)));
    assert_eq!(standing(STRANGER), Standing::Foreign);
    let stands = |who: u8, what| whole.stands(&signer(who).key(), what);
    for what in [Signed::Message(at(9)), Signed::Kept(other)] {
        assert!(stands(21, what));
        assert!(!stands(BROKER, what) && !stands(STRANGER, what));
    }
    assert!(stands(20, Signed::Kept(other)) && stands(BROKER, Signed::Kept(kept)));
    assert!(stands(20, Signed::Message(at(2).minus(micro()))));
    assert!(!stands(20, Signed::Message(at(2))) && !stands(BROKER, Signed::Message(Time::MIN)));
}

#[test]
fn statements_are_bounded() {
    let many: Vec<Hash> =
        (0..=MAX_HONOURED as u64).map(|n| Hash::of("link", &[&n.to_le_bytes()])).collect();
    for (count, holds) in [(MAX_HONOURED, true), (MAX_HONOURED + 1, false)] {
        let statements = [
            sign(rotated(1, 20), BROKER, Some(20)),
            sign(revoked(2, BROKER, &many[..count]), 20, None),
        ];
        assert_eq!(continues(&chain(&statements), &KeyChain::default()), holds, "{count}");
    }
    let one = sign(rotated(1, 20), BROKER, Some(20));
    assert!(KeyChain::try_from(vec![one.clone(); MAX_STATEMENTS]).is_ok());
    assert!(KeyChain::try_from(vec![one; MAX_STATEMENTS + 1]).is_err());
}

/// A guest's actor with a lease behind it.
fn guest() -> AnyActor {
    Scene::default().open().actor_mut(GUEST).clone()
}

fn rotate(secret: Signer) -> Input {
    Input::Command(Command::Keys(KeyCommand::Rotate(secret)).into())
}

#[test]
fn nothing_leaves_by_a_key_that_is_not_durable_and_what_is_repeated_is_signed_anew() {
    let retry = RetryPolicy { first: micro(), longest: micro() };
    let mut host = Host::new(guest(), retry);
    host.recovered();
    let old = host.actor().key();
    let keys = |host: &mut Host, now| {
        let mut keys = Vec::new();
        host.release(now, |departure| match departure {
            Departure::Message(_, outgoing) => keys.push((outgoing.kind, outgoing.sealed.key())),
            Departure::Call(..) => {}
        });
        keys
    };
    let first = host.handle(at(100), [rotate(signer(30))]);
    let end = first.before + first.facts.len() as u64;
    host.durable(end);
    let left = keys(&mut host, at(100));
    assert!(!left.is_empty() && left.iter().all(|(kind, key)| *kind == "keys" && *key != old));
    // A second rotation is decided, and not yet durable: what is due to be repeated waits.
    let second = host.handle(at(101), [rotate(signer(31))]);
    assert!(host.repeat(at(102)).is_empty() && keys(&mut host, at(102)).is_empty());
    host.durable(second.before + second.facts.len() as u64);
    keys(&mut host, at(103));
    let again = host.repeat(at(104));
    assert!(!again.is_empty());
    assert!(again.iter().all(|(_, outgoing)| outgoing.sealed.key() == signer(31).key()));
}

#[test]
fn a_recovered_actor_signs_with_the_key_in_force_and_says_if_it_lacks_the_secret() {
    let mut actor = guest();
    let mut out = tenure_core::runtime::Output::default();
    let before = actor.snapshot();
    actor.handle(at(100), rotate(signer(30)), &mut out);
    assert_eq!(actor.key(), signer(30).key());
    let mut bare = guest();
    bare.restore(&before).unwrap();
    out.facts.iter().for_each(|entry| bare.apply(entry.at, &entry.fact).unwrap());
    assert_eq!(bare.missing_secret(), Some(signer(30).key()));
    bare.add_secrets([signer(30)]);
    assert_eq!((bare.missing_secret(), bare.key()), (None, signer(30).key()));
    assert_eq!(bare.snapshot(), actor.snapshot());
    let mut restored = guest();
    restored.add_secrets([signer(30)]);
    restored.restore(&actor.snapshot()).unwrap();
    assert_eq!(restored.key(), signer(30).key());
}
