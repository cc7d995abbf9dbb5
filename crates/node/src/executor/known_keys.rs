//! What an executor knows of the keys of its site and its tenants: statements that were shown once, so that a key
//! that was replaced or revoked is not taken again.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use tenure_core::model::identity::{ActorId, Label, PublicKey, Scheme};
use tenure_core::model::keys::{KeyBook, KeyChain, Standing};
use tenure_core::model::verifier::Verifier;

use crate::driver::fence::hold;
use crate::driver::record::{read, write};

/// The statements of actors, in a file.
pub(super) struct KnownKeys {
    file: PathBuf,
    book: Mutex<KeyBook>,
}

impl KnownKeys {
    pub(super) fn open(file: PathBuf) -> io::Result<Self> {
        let chains: Vec<KeyChain> = read(&file)?.unwrap_or_default();
        let mut book = KeyBook::default();
        for chain in chains {
            if let Some(actor) = chain.actor() {
                book.learn(actor, chain);
            }
        }
        Ok(Self { file, book: Mutex::new(book) })
    }

    /// Whether a key is the one in force of an actor, by what it shows and what was shown before. What is new of
    /// it is kept, beside the statements of `others`.
    pub(super) fn is_in_force(
        &self,
        (actor, key): (ActorId, &PublicKey),
        shown: &KeyChain,
        others: &[ActorId],
    ) -> io::Result<bool> {
        let mut book = hold(&self.book);
        let known = book.chain(actor).cloned().unwrap_or_default();
        let mut verifier = Verifier::new(Scheme::Ed25519);
        let is_new = shown.actor() == Some(actor)
            && shown.continues(&known, &mut |key, bytes, signature| {
                verifier.verifies(key, Label::Keys, bytes, signature)
            });
        if is_new {
            let mut kept = vec![shown.clone()];
            let stay = book.chains().filter(|(of, _)| *of != actor && others.contains(of));
            kept.extend(stay.map(|(_, chain)| chain.clone()));
            write(&self.file, &kept)?;
            book.learn(actor, shown.clone());
        }
        Ok(match book.chain(actor) {
            Some(chain) => chain.standing(key) == Standing::InForce,
            None => ActorId::of(key) == actor,
        })
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::model::identity::Signer;
    use tenure_core::model::keys::{KeyChange, KeyStatement, SignedStatement};
    use tenure_core::model::time::Time;

    use super::*;

    fn signer(seed: u8) -> Signer {
        Signer::from_seed(Scheme::Ed25519, [seed; 32])
    }

    /// The statement of the first that the second is its key from now on.
    fn rotated(from: &Signer, to: &Signer) -> KeyChain {
        let change = KeyChange::Rotated { key: to.key() };
        let statement = KeyStatement { actor: from.id(), number: 1, at: Time::ZERO, change };
        KeyChain::try_from(vec![SignedStatement::sign(statement, from, Some(to))]).unwrap()
    }

    #[test]
    fn a_key_that_was_replaced_is_not_taken_again_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let open = || KnownKeys::open(folder.path().join("keys.json")).unwrap();
        let (first, second, other) = (signer(1), signer(2), signer(3));
        let (actor, none) = (first.id(), KeyChain::default());
        let keys = open();
        let takes = |keys: &KnownKeys, of: &Signer, shown: &KeyChain| {
            keys.is_in_force((actor, &of.key()), shown, &[]).unwrap()
        };
        assert!(takes(&keys, &first, &none));
        assert!(!takes(&keys, &second, &none), "nobody has said that it is its key");
        let mut forged = rotated(&other, &second);
        assert!(!takes(&keys, &second, &forged), "the word of another");
        forged = rotated(&first, &second);
        assert!(takes(&keys, &second, &forged));
        for keys in [keys, open()] {
            assert!(!takes(&keys, &first, &none), "it was replaced");
            assert!(takes(&keys, &second, &none));
            assert!(
                !takes(&keys, &other, &rotated(&first, &other)),
                "it has said otherwise before"
            );
        }
    }
}
