//! Endorsements: false ones, and what is said by who was let in by a good one.

use std::io::Write as _;

use tenure_core::model::codec;
use tenure_core::model::identity::{Label, Signer};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::signed::ProvenSignature;
use tenure_core::model::time::{Span, Time};
use tenure_core::wire::endorsement::{Endorsement, SignedEndorsement};
use tenure_core::wire::message::Message;
use tenure_node::net::frame::Frame;
use tenure_wait::{DEADLINE, eventually};

use super::{
    Attack, Target, all_are_turned_away, are_logged, frame, next, other, secret, serves_on, unknown,
};
use crate::network::{Apart, peer};

/// The kind of the frame.
const ENDORSEMENT: u8 = 10;

/// A site, and the secrets of the broker that it knows: what only that can sign, an attacker could have seen.
struct Endorsed {
    site: Target,
    broker: Signer,
    /// The broker as it is dialled itself.
    at_broker: Target,
}

impl Endorsed {
    fn of(apart: &Apart) -> Self {
        let site = Target::of(&apart.site, &apart.address);
        let broker = secret(apart.broker.data.path(), "exchange");
        let address = apart.of_broker.parse().expect("an address");
        let at_broker = Target { address, site: broker.clone(), now: site.now };
        Self { site, broker, at_broker }
    }

    /// A good endorsement of the broker for the unknown key.
    fn endorsement(&self) -> Endorsement {
        Endorsement {
            broker: self.broker.id(),
            guest: unknown().id(),
            site: self.site.site.id(),
            until: self.site.now.plus(Span::DAY),
        }
    }

    fn signed(endorsement: Endorsement, signer: &Signer) -> Vec<u8> {
        let signed = SignedEndorsement::sign(endorsement, signer, KeyChain::default());
        Frame::Endorsement(signed).to_bytes()
    }

    fn good(&self) -> Vec<u8> {
        Self::signed(self.endorsement(), &self.broker)
    }

    /// What is said to the unknown key when it shows one that is good but for what is changed.
    fn says(&self, change: impl FnOnce(&mut Endorsement)) -> String {
        let mut endorsement = self.endorsement();
        change(&mut endorsement);
        self.is_shown(&Self::signed(endorsement, &self.broker))
    }

    fn is_shown(&self, frame: &[u8]) -> String {
        self.site.says(&unknown(), &[frame.to_vec(), self.site.hello(&unknown())])
    }

    /// What is said to who was let in by a good one, and goes on with this.
    fn guest_says(&self, frame: Vec<u8>) -> String {
        self.site.says(&unknown(), &[self.good(), self.site.hello(&unknown()), frame])
    }

    /// Who shows a good one is let in: what others say is turned away for what it is.
    fn lets_guests_in(&self) {
        let mut guest = self.site.caller(&unknown());
        for said in [self.good(), self.site.hello(&unknown())] {
            guest.write_all(&said).expect("it is read");
        }
        assert!(matches!(next(&mut guest), Ok(Frame::Hello(_))));
    }
}

/// A peer of the site that is no broker.
fn traitor() -> Signer {
    Signer::from_seed(tenure_core::model::identity::Scheme::Ed25519, [0xc9; 32])
}

const ATTACKS: &[Attack<Endorsed>] = &[
    ("of a broker that nobody knows", "is no broker that is known", |target| {
        let endorsement = Endorsement { broker: other().id(), ..target.endorsement() };
        target.is_shown(&Endorsed::signed(endorsement, &other()))
    }),
    ("of a known guest", "is no broker that is known", |target| {
        let endorsement = Endorsement { broker: traitor().id(), ..target.endorsement() };
        target.is_shown(&Endorsed::signed(endorsement, &traitor()))
    }),
    ("of the site itself", "is no broker that is known", |target| {
        let site = &target.site.site;
        let endorsement = Endorsement { broker: site.id(), ..target.endorsement() };
        target.is_shown(&Endorsed::signed(endorsement, site))
    }),
    ("in the broker's name by another key", "not signed by the key in force", |target| {
        target.is_shown(&Endorsed::signed(target.endorsement(), &other()))
    }),
    ("of another guest", "it is for", |target| target.says(|signed| signed.guest = other().id())),
    ("for another site", "it is for the site", |target| {
        target.says(|signed| signed.site = other().id())
    }),
    ("expired", "it has expired", |target| target.says(|signed| signed.until = Time::from_secs(1))),
    ("for ever", "longer than any may", |target| target.says(|signed| signed.until = Time::MAX)),
    ("signed as a card", "signature of the broker", |target| {
        let bytes = codec::encode(&target.endorsement());
        let chain = KeyChain::default();
        let signature = ProvenSignature::sign((Label::Card, &bytes), &target.broker, chain);
        let body = [bytes, codec::encode(&signature)].concat();
        assert!(Frame::read(&[&[ENDORSEMENT], &body[..]].concat()).is_ok());
        target.is_shown(&frame(ENDORSEMENT, &body))
    }),
    ("with a time that was changed", "signature of the broker", |target| {
        let mut signed =
            SignedEndorsement::sign(target.endorsement(), &target.broker, KeyChain::default());
        signed.endorsement.until = target.site.now.plus(Span::HOUR);
        target.is_shown(&Frame::Endorsement(signed).to_bytes())
    }),
    ("of more than 64 KiB", "longer than", |target| target.is_shown(&[0, 1, 0, 1, ENDORSEMENT])),
    ("of more statements than there is memory", "cannot be read", |target| {
        let good = target.good();
        // The statements are the last of it: none, a zero.
        let body = [&good[5..good.len() - 1], &[0xff; 9]].concat();
        target.is_shown(&frame(ENDORSEMENT, &body))
    }),
    ("cut short", "cannot be read", |target| {
        let good = target.good();
        target.is_shown(&frame(ENDORSEMENT, &good[5..good.len() - 9]))
    }),
    ("with more behind it", "cannot be read", |target| {
        target.is_shown(&frame(ENDORSEMENT, &[&target.good()[5..], &[0; 9]].concat()))
    }),
    ("to the broker itself", "admits none but its peers", |target| {
        target.at_broker.says(&unknown(), &[target.good(), target.at_broker.hello(&unknown())])
    }),
    ("a guest who asks for clocks", "closed", |target| {
        target.guest_says(target.site.message(unknown().id(), Message::Ping))
    }),
    ("a guest who hands in another's message", "closed", |target| {
        target.guest_says(target.site.message(other().id(), Message::Ping))
    }),
    ("a guest who shows a ticket, too", "closed", |target| {
        target.guest_says(target.site.ticket(&unknown()))
    }),
];

#[test]
fn false_endorsements_are_turned_away_and_counted() {
    let apart =
        Apart::start_with(&peer("traitor", "service-manager", &traitor().id().to_hex(), None));
    apart.guest.json("lease request 1 --for 1h --wait");
    let target = Endorsed::of(&apart);
    target.lets_guests_in();
    all_are_turned_away(ATTACKS, &target);
    are_logged(&apart.site, &["may not say `ping`", "its endorsement does not count"]);
    let figures = String::from_utf8(apart.site.tenure("metrics").stdout).expect("text");
    let counted = "tenure_connections_refused_total{cause=\"endorsement\"}";
    let line = figures.lines().find_map(|line| line.strip_prefix(counted)).expect("a figure");
    assert!(line.trim().parse::<u64>().is_ok_and(|count| count >= 10), "{line}");
    serves_on(apart);
}

#[test]
fn what_a_key_has_endorsed_that_was_revoked_does_not_count() {
    let apart = Apart::start();
    apart.guest.json("lease request 1 --for 1h --wait");
    let target = Endorsed::of(&apart);
    target.lets_guests_in();
    apart.broker.json("keys rotate exchange");
    apart.broker.json("keys revoke exchange 1");
    eventually(DEADLINE, "the site to learn of it", || {
        target.is_shown(&target.good()).contains("not signed by the key in force")
    });
    serves_on(apart);
}
