//! S23: an actor signs with the key in force alone, and a key that is not signs nothing that counts.

use std::collections::BTreeSet;

use super::{Check, Law, LawVerdict, Observation, Scene, Tally};
use tenure_core::broker::facts as broker;
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::{ActorId, PublicKey};
use tenure_core::model::keys::{KeyChain, Standing};
use tenure_core::model::verifier::Verifier;
use tenure_core::model::identity::Label;
use tenure_core::runtime::Fact;
use tenure_core::runtime::fact::KeysFact;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::LinkHash;
use tenure_core::ticket::receipt::Receipt;

pub(super) const LAW: Law = Law {
    id: "S23",
    name: "keys",
    statement: "An actor signs with the key in force by its durable facts, and with no other. Its statements \
                about keys form one chain, signed as they must be, and nobody learns another one. Whoever has \
                learned that a key was revoked accepts no link or receipt by it that it has not accepted \
                before, unless that is honoured.",
    source: "key rotation and revocation; RFC 5280, KERI",
    on: "facts about keys; every ticket and receipt in a fact; messages",
};

#[derive(Default)]
pub(super) struct Checker {
    /// The links that each actor has accepted or made.
    taken: BTreeSet<(ActorId, LinkHash)>,
}

impl Check for Checker {
    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        about_keys(scene, &fact.clone().into(), tally)
    }

    fn broker(&mut self, scene: &Scene<'_>, fact: &broker::Fact, tally: &mut Tally) -> LawVerdict {
        match fact {
            broker::Fact::ReceiptTaken(fact) => receipt(scene, &fact.receipt, tally),
            broker::Fact::Common(_) => about_keys(scene, &fact.clone().into(), tally),
            _ => Ok(()),
        }
    }

    fn guest(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use service_manager::Fact;
        match fact {
            Fact::ReceiptTaken(fact) => receipt(scene, &fact.receipt, tally),
            Fact::Common(_) => about_keys(scene, &fact.clone().into(), tally),
            _ => Ok(()),
        }
    }

    fn ticket(&mut self, scene: &Scene<'_>, ticket: &Ticket, tally: &mut Tally) -> LawVerdict {
        for link in ticket.links() {
            let hash = link.hash();
            let (Some(key), true) = (link.key(), self.taken.insert((scene.actor, hash))) else {
                continue;
            };
            let own = link.issuer == scene.actor;
            let good = if own { signs(scene, key) } else { counts(scene, link.issuer, key, hash.hash()) };
            tally.check(good, || {
                let (name, issuer) = (scene.name(), scene.model.name(link.issuer));
                format!("{name} takes link {hash} of {issuer}, by a key that does not count")
            })?;
        }
        Ok(())
    }

    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        let Observation::Sent { envelope, sealed } = seen else { return Ok(()) };
        let from = envelope.header.from;
        if !scene.model.participants.honest(from) {
            return Ok(());
        }
        tally.check(signs(scene, sealed.key()), || {
            let (name, kind) = (scene.model.name(from), envelope.message.kind());
            format!("{name} signs a `{kind}` with a key that is not in force")
        })
    }
}

/// What an actor knows of the keys of one, by its durable facts.
fn chain<'a>(scene: &'a Scene<'_>, by: ActorId, of: ActorId) -> Option<&'a KeyChain> {
    scene.model.keys.get(&by)?.chain(of)
}

/// Whether the actor is to sign with this key.
fn signs(scene: &Scene<'_>, key: PublicKey) -> bool {
    match chain(scene, scene.actor, scene.actor).and_then(KeyChain::in_force) {
        Some(in_force) => in_force == key,
        None => ActorId::of(&key) == scene.actor,
    }
}

/// Whether what a key has signed counts, by what the actor knows.
fn counts(scene: &Scene<'_>, issuer: ActorId, key: PublicKey, hash: Hash) -> bool {
    match chain(scene, scene.actor, issuer).map(|chain| chain.standing(&key)) {
        None | Some(Standing::InForce | Standing::Rotated(_)) => true,
        Some(Standing::Revoked(_, honoured)) => honoured.contains(&hash),
        // The statements of who is no peer count for the message that brings them, and are not kept.
        Some(Standing::Foreign) => chain(scene, issuer, issuer)
            .is_some_and(|stated| !matches!(stated.standing(&key), Standing::Foreign)),
    }
}

fn receipt(scene: &Scene<'_>, receipt: &Receipt, tally: &mut Tally) -> LawVerdict {
    let site = receipt.what.site;
    tally.check(counts(scene, site, receipt.key(), receipt.what.hash()), || {
        let (name, site) = (scene.name(), scene.model.name(site));
        format!("{name} takes a receipt of {site}, by a key that does not count")
    })
}

/// A statement continues what was stated before, and what is learned was stated.
fn about_keys(scene: &Scene<'_>, fact: &Fact, tally: &mut Tally) -> LawVerdict {
    let Some(fact) = fact.about_keys() else { return Ok(()) };
    let (of, longer) = match fact {
        KeysFact::Stated(signed) => {
            let mut longer = chain(scene, scene.actor, scene.actor).cloned().unwrap_or_default();
            longer.push(signed.clone());
            (scene.actor, longer)
        }
        KeysFact::Learned(peer, chain) => (peer, chain.clone()),
        KeysFact::Noted(..) => return Ok(()),
    };
    let known = chain(scene, scene.actor, of).cloned().unwrap_or_default();
    let mut verifier = Verifier::new(scene.model.participants.scheme);
    let holds = longer.continues(&known, &mut |key, bytes, signature| {
        verifier.verifies(key, Label::Keys, bytes, signature)
    });
    let honest = of != scene.actor && scene.model.in_order && scene.model.participants.honest(of);
    let made = chain(scene, of, of).map_or(&[][..], KeyChain::statements);
    let stated = !honest || made.starts_with(longer.statements());
    tally.check(longer.actor() == Some(of) && holds && stated, || {
        let (name, of) = (scene.name(), scene.model.name(of));
        format!("{name} records statements of {of} about its keys that were never made")
    })
}
