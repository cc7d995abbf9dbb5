//! Frames: of strangers, of holders of tickets, and of a peer that is known and not honest.

use std::io::Write as _;
use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::model::identity::{Scheme, Signer};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::SignedLink;
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::invitation::MAX_ADDRESS;
use tenure_core::wire::message::{Envelope, Message, Sealed, Subject};
use tenure_node::net::card::{Card, SignedCard};
use tenure_node::net::certified;
use tenure_node::net::frame::{Frame, Hello};

use super::{
    Attack, Target, Tls, all_are_turned_away, are_logged, frame, messages, next, other, serves_on,
    speaker, unknown,
};
use crate::network::{Apart, peer};

const OF_STRANGERS: &[Attack<Target>] = &[
    ("an unknown key", "has shown no ticket", |site| {
        site.says(&unknown(), &[site.hello(&unknown())])
    }),
    ("an unknown key with a message", "has shown no ticket", |site| {
        site.says(&unknown(), &[site.message(unknown().id(), Message::Ping)])
    }),
    ("a card instead of a ticket", "has shown no ticket", |site| {
        site.says(&unknown(), &[Frame::Card(card(&unknown(), site.now, |_| ())).to_bytes()])
    }),
    ("a ticket that is none", "cannot be read", |site| {
        site.says(&unknown(), &[frame(6, &[0xff; 100])])
    }),
    ("a ticket of more links than there is memory", "cannot be read", |site| {
        site.says(&unknown(), &[frame(6, &[0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f])])
    }),
    ("a first frame of 4 GiB", "longer than", |site| {
        site.says(&unknown(), &[vec![0xff, 0xff, 0xff, 0xff, 6]])
    }),
    ("a ticket of more than 64 KiB", "longer than", |site| {
        site.says(&unknown(), &[vec![0, 1, 0, 1, 6]])
    }),
    ("a frame of no bytes", "no bytes", |site| site.says(&unknown(), &[vec![0; 4]])),
    ("a stolen ticket", "is void", |site| {
        site.says(&unknown(), &[site.ticket(&other()), site.hello(&unknown())])
    }),
    ("a ticket of another site", "is void", |site| {
        let link = site.link(unknown().id(), &other(), Span::HOUR);
        let ticket = Ticket::root_of(SignedLink::sign(link, &other()));
        site.says(&unknown(), &[Frame::Ticket(ticket).to_bytes()])
    }),
    ("a ticket that another has signed in the site's name", "is void", |site| {
        let link = site.link(unknown().id(), &site.site, Span::HOUR);
        let ticket = Ticket::root_of(SignedLink::sign(link, &other()));
        site.says(&unknown(), &[Frame::Ticket(ticket).to_bytes()])
    }),
    ("a ticket that has ended", "has ended", |site| {
        let link = site.link(unknown().id(), &site.site, Span::HOUR.times(-2));
        let ticket = Ticket::root_of(SignedLink::sign(link, &site.site));
        site.says(&unknown(), &[Frame::Ticket(ticket).to_bytes()])
    }),
];

const OF_HOLDERS: &[Attack<Target>] = &[
    ("a holder who speaks for another", "closed", |site| {
        let hello = Frame::Hello(Hello::new(other().id(), site.site.id())).to_bytes();
        site.says(&unknown(), &[site.ticket(&unknown()), hello])
    }),
    ("a holder who means another site", "closed", |site| {
        let hello = Frame::Hello(Hello::new(unknown().id(), other().id())).to_bytes();
        site.says(&unknown(), &[site.ticket(&unknown()), hello])
    }),
    ("a holder who speaks versions to come", "speaks versions 7 to 9", |site| {
        let hello = Hello { oldest: 7, newest: 9, ..Hello::new(unknown().id(), site.site.id()) };
        site.says(&unknown(), &[site.ticket(&unknown()), Frame::Hello(hello).to_bytes()])
    }),
    ("a holder who asks for clocks", "closed", |site| {
        site.holder_says(&[site.message(unknown().id(), Message::Ping)])
    }),
    ("a holder who hands in another's message", "closed", |site| {
        site.holder_says(&[site.message(other().id(), Message::Ping)])
    }),
    ("a holder who has a message passed on to another", "closed", |site| {
        let mut envelope = site.envelope(unknown().id(), 1, Message::Ping);
        envelope.header.to = other().id();
        site.holder_says(&[messages(&envelope, &unknown())])
    }),
    ("a holder who says hello twice", "closed", |site| site.holder_says(&[site.hello(&unknown())])),
    ("a holder who shows its ticket again", "closed", |site| {
        site.holder_says(&[site.ticket(&unknown())])
    }),
    ("a holder's frame of 4 GiB", "closed", |site| {
        site.holder_says(&[vec![0xff, 0xff, 0xff, 0xff, 1]])
    }),
    ("a holder's messages that are none", "closed", |site| {
        site.holder_says(&[frame(1, &[0xff; 64])])
    }),
    ("a holder's card that is none", "closed", |site| site.holder_says(&[frame(7, &[1; 9])])),
    ("a holder who asks where another is", "nothing is known", |site| {
        let mut stream = site.caller(&unknown());
        let shown = [site.ticket(&unknown()), site.hello(&unknown())];
        let asked = Frame::Where(site.site.id()).to_bytes();
        // The site's own card comes unasked; a second one would be an answer. The end follows from a second hello.
        cards(&mut stream, &[&shown[..], &[asked, site.hello(&unknown())]].concat(), 1)
    }),
];

/// Sends frames, and reads cards until there are more than are `expected`, or the end: what is told of.
fn cards(stream: &mut Tls, frames: &[Vec<u8>], expected: usize) -> String {
    for frame in frames {
        stream.write_all(frame).expect("it is read");
    }
    let mut came = 0;
    loop {
        match next(stream) {
            Ok(Frame::Card(_)) => came += 1,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    if came <= expected { "nothing is known".to_owned() } else { format!("{came} cards") }
}

/// A peer that the site knows, and that has turned against it.
fn traitor() -> Signer {
    Signer::from_seed(Scheme::Ed25519, [0xc9; 32])
}

/// A card that is good but for what is changed.
fn card(signer: &Signer, now: Time, change: fn(&mut Card)) -> SignedCard {
    let mut card = Card {
        actor: signer.id(),
        name: Name::literal("elsewhere"),
        role: Role::ServiceManager,
        address: "192.0.2.7:7400".to_owned(),
        number: 1,
        until: now.plus(Span::HOUR),
    };
    change(&mut card);
    SignedCard::sign(card, signer, KeyChain::default())
}

impl Target {
    /// A connection in the name of the traitor, which is let in. It says that it has nothing of the site, which
    /// sends it nothing before.
    fn betrayed(&self) -> Tls {
        let mut stream = self.caller(&traitor());
        stream.write_all(&self.hello(&traitor())).expect("it is read");
        assert!(matches!(next(&mut stream), Ok(Frame::Hello(_))));
        stream.write_all(&Frame::Watermark(None).to_bytes()).expect("it is read");
        stream
    }

    /// Whether the site knows the card of an actor after it was shown one.
    fn knows(&self, shown: SignedCard) -> String {
        let mut stream = self.betrayed();
        let of = shown.card.actor;
        for frame in [Frame::Card(shown), Frame::Where(of), Frame::Where(self.site.id())] {
            stream.write_all(&frame.to_bytes()).expect("it is read");
        }
        // Its own card comes twice: unasked, and as the last answer.
        let mut own = 0;
        while own < 2 {
            match next(&mut stream).expect("an answer") {
                Frame::Card(card) if card.card.actor == of => return "it is known".to_owned(),
                Frame::Card(_) => own += 1,
                _ => {}
            }
        }
        "nothing is known".to_owned()
    }

    /// Whether the site knows the traitor's own card, changed like this.
    fn knows_own(&self, change: fn(&mut Card)) -> String {
        self.knows(card(&traitor(), self.now, change))
    }

    /// When a question was asked on a connection that the site has closed: its answer may come on the next one.
    fn before_the_end(&self) -> Time {
        self.now.minus(Span::MINUTE.times(2))
    }

    fn ping(&self, position: u64) -> Envelope {
        self.envelope(traitor().id(), position, Message::Ping)
    }

    /// The answers that come to frames up to the one to a good question that is asked last.
    fn answers(&self, frames: &[Vec<u8>]) -> Vec<(Time, Time)> {
        let mut last = self.ping(9);
        last.header.at = self.now.minus(Span::MINUTE);
        let mut stream = self.betrayed();
        for frame in frames.iter().chain([&messages(&last, &traitor())]) {
            stream.write_all(frame).expect("it is read");
        }
        let mut answers = Vec::new();
        while answers.last().is_none_or(|(asked, _)| *asked != last.header.at) {
            if let Frame::Messages(messages) = next(&mut stream).expect("an answer") {
                let asked_here = |(asked, _): &(Time, Time)| *asked != self.before_the_end();
                answers.extend(messages.iter().filter_map(pong).filter(asked_here));
            }
        }
        answers
    }
}

/// What a site says of its clock: to a question of when, and when.
fn pong(sealed: &Sealed) -> Option<(Time, Time)> {
    let Ok(Envelope { header, message: Message::Pong { asked } }) = sealed.peek() else {
        return None;
    };
    Some((asked, header.at))
}

const OF_A_PEER: &[Attack<Target>] = &[
    ("a card of someone else that nobody seeks", "nothing is known", |site| {
        site.knows(card(&other(), site.now, |_| ()))
    }),
    ("a card in another's name", "nothing is known", |site| {
        let mut false_card = card(&traitor(), site.now, |card| card.number = 2);
        false_card.card.actor = other().id();
        site.knows(false_card)
    }),
    ("an expired card", "nothing is known", |site| {
        site.knows_own(|card| card.until = Time::from_secs(1))
    }),
    ("a card that holds for ever", "nothing is known", |site| {
        site.knows_own(|card| card.until = Time::MAX)
    }),
    ("an oversized card", "nothing is known", |site| {
        site.knows_own(|card| card.address = "a".repeat(MAX_ADDRESS + 1))
    }),
    ("a card without an address", "nothing is known", |site| {
        site.knows_own(|card| card.address.clear())
    }),
    ("no attack: its own card", "it is known", |site| site.knows_own(|_| ())),
    ("a message from the future", "one answer, of now", |site| {
        let mut late = site.ping(1);
        late.header.at = site.now.plus(Span::DAY.times(3650));
        let answers = site.answers(&[messages(&late, &traitor())]);
        match answers[..] {
            [(asked, at), (_, then)]
                if asked == late.header.at && at <= then && then < site.now.plus(Span::HOUR) =>
            {
                "one answer, of now".to_owned()
            }
            _ => format!("{answers:?}"),
        }
    }),
    ("a message in its name by another's key", "1 answers", |site| {
        let answers = site.answers(&[messages(&site.ping(1), &other())]);
        format!("{} answers", answers.len())
    }),
    ("a message with a bit that was changed", "1 answers", |site| {
        let good = messages(&site.ping(1), &traitor());
        // In its number, which stands behind both names: the frame can be read all the same.
        let name = tenure_core::model::codec::encode(&site.site.id());
        let at = good.windows(name.len()).position(|bytes| bytes == name).expect("its name");
        let mut changed = good;
        changed[at + name.len()] ^= 2;
        assert!(Frame::read(&changed[4..]).is_ok());
        format!("{} answers", site.answers(&[changed]).len())
    }),
    ("messages of someone else's in a batch with its own", "closed", |site| {
        let stolen = messages(&site.envelope(other().id(), 1, Message::Ping), &other());
        let mut own = site.ping(1);
        own.header.at = site.before_the_end();
        let own = messages(&own, &traitor());
        // The bodies of both, behind one head.
        let batch = frame(1, &[&own[5..], &stolen[5..]].concat());
        site.says(&traitor(), &[site.hello(&traitor()), batch])
    }),
    ("a frame that is cut short", "closed", |site| {
        let cut = messages(&site.ping(1), &traitor());
        let mut stream = site.betrayed();
        stream.write_all(&cut[..cut.len() / 2]).expect("it is read");
        stream.conn.send_close_notify();
        super::heard(stream, &[])
    }),
    ("frames of kinds to come", "1 answers", |site| {
        let unknown = [frame(0x7f, &[0; 9]), frame(0xff, &[0xff; 4096])];
        format!("{} answers", site.answers(&unknown).len())
    }),
    ("a word that the site is behind, not signed by the site", "1 answers", |site| {
        let later = site.envelope(site.site.id(), u64::MAX, Message::Ping);
        let later = later.seal(&mut Credentials::new(traitor()));
        let word = Frame::Watermark(Some(later)).to_bytes();
        format!("{} answers", site.answers(&[word]).len())
    }),
];

/// What the site's log says of those that it does not tell why.
const LOGGED: &[&str] = &[
    "it speaks for",
    "who is not here",
    "may not say `ping`",
    "a message of",
    "a frame of 4294967295 bytes",
    "a `messages` frame cannot be read",
    "a `card` frame cannot be read",
];

#[test]
fn false_frames_of_strangers_and_holders_are_turned_away() {
    let apart = Apart::start();
    apart.guest.json("lease request 1 --for 1h --wait");
    let target = Target::of(&apart.site, &apart.address);
    target.lets_holders_in();
    all_are_turned_away(OF_STRANGERS, &target);
    all_are_turned_away(OF_HOLDERS, &target);
    are_logged(&apart.site, LOGGED);
    serves_on(apart);
}

#[test]
fn false_frames_of_a_known_peer_change_nothing() {
    let known = peer("traitor", "service-manager", &traitor().id().to_hex(), None);
    let apart = Apart::start_with(&known);
    apart.guest.json("lease request 1 --for 1h --wait");
    let target = Target::of(&apart.site, &apart.address);
    all_are_turned_away(OF_A_PEER, &target);
    serves_on(apart);
}

#[test]
fn who_speaks_later_versions_too_is_served_in_version_1() {
    let Apart { site, broker: _broker, guest: _guest, address, .. } = Apart::start();
    let target = Target::of(&site, &address);
    let holder = unknown();
    // It asks for what it has no right to, and is told so in words that version 1 has.
    let link = target.link(other().id(), &target.site, Span::HOUR);
    let ticket = Ticket::root_of(SignedLink::sign(link, &target.site));
    let hello = Hello { newest: 9, ..Hello::new(holder.id(), target.site.id()) };
    let redeem = Message::Redeem {
        ticket: ticket.clone(),
        lease: LeaseId { number: 1, part: 0 },
        slice: Name::literal("main"),
        min_units: NonZeroU32::MIN,
        configuration: Properties::default(),
        victims: Vec::new(),
    };
    let config = speaker(Some(certified(&holder)), &[b"tenure/2", b"tenure/1"]);
    let mut stream = target.tls(config, &target.name());
    for frame in [
        target.ticket(&holder),
        Frame::Hello(hello).to_bytes(),
        frame(200, b"what a later version has to say"),
        target.message(holder.id(), redeem),
    ] {
        stream.write_all(&frame).expect("it is read");
    }
    let Ok(Frame::Hello(said)) = next(&mut stream) else { panic!("no hello") };
    assert_eq!(said.agreed(), Some(1), "{said:?}");
    let answer = loop {
        if let Frame::Messages(messages) = next(&mut stream).expect("an answer") {
            break messages[0].peek().expect("a message").message;
        }
    };
    let Message::Refused { subject, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(subject, Subject::Ticket(ticket.hash()));
}
