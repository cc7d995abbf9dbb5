//! Rights: messages of one who holds a good ticket and wants more than it is for.

use std::io::Write as _;
use std::num::NonZeroU32;

use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Generation, Link, SignedLink};
use tenure_core::wire::message::{LeasedUnit, Message, Subject};
use tenure_core::wire::part::Part;
use tenure_core::wire::recall::Level;
use tenure_node::net::frame::{Frame, Hello};
use tenure_wait::{DEADLINE, eventually};

use super::{Attack, Target, all_are_turned_away, messages, next, other, secret, unknown};
use crate::deployment::Deployment;
use crate::network::Apart;

/// What the attacker knows: a ticket that its holder has handed a part of on to it, and another's in use.
struct Rights {
    target: Target,
    broker: Target,
    /// The holder of both tickets.
    guest: Signer,
    kept: Ticket,
    used: Ticket,
    /// The attacker's own part of the one that is kept.
    own: Ticket,
}

/// The only ticket of a lease, as it travels.
fn ticket(guest: &Deployment, lease: &str) -> Ticket {
    let hash = guest.lease(lease)["tickets"][0].as_str().expect("a ticket").to_owned();
    let shown = guest.json(&format!("ticket show {hash}"));
    let links = shown["links"].as_array().expect("links");
    let link = |link: &serde_json::Value| {
        let hex = link["bytes"].as_str().expect("digits");
        let bytes = hex.as_bytes().chunks(2).map(|pair| {
            u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("digits")
        });
        SignedLink::read(&bytes.collect::<Vec<_>>()).expect("a link")
    };
    let root = Ticket::root_of(link(&links[0]));
    links[1..].iter().fold(root, |ticket, above| ticket.with(link(above)))
}

impl Rights {
    /// A link below a ticket, good but for what is changed.
    fn below(ticket: &Ticket, holder: ActorId, signer: &Signer, change: fn(&mut Link)) -> Ticket {
        let above = &**ticket.bottom();
        let mut link = Link {
            parent: Some(ticket.hash()),
            issuer: above.holder,
            holder,
            delegation: None,
            extends: None,
            serial: 77,
            ..above.clone()
        };
        change(&mut link);
        ticket.with(SignedLink::sign(link, signer))
    }

    fn redeem(ticket: Ticket) -> Message {
        Message::Redeem {
            ticket,
            lease: LeaseId { number: 1, part: 0 },
            slice: Name::literal("main"),
            min_units: NonZeroU32::MIN,
            configuration: Properties::default(),
            victims: Vec::new(),
        }
    }

    /// What the site answers the attacker's messages, as the first thing it says to them.
    fn answers(&self, messages: &[Message]) -> Result<Message, String> {
        let mut stream = self.target.caller(&unknown());
        let mut write = |frame: &[u8]| stream.write_all(frame).expect("it is read");
        write(&Frame::Ticket(self.own.clone()).to_bytes());
        write(&self.target.hello(&unknown()));
        for (position, message) in (1..).zip(messages) {
            let envelope = self.target.envelope(unknown().id(), position, message.clone());
            write(&super::messages(&envelope, &unknown()));
        }
        loop {
            match next(&mut stream) {
                Ok(Frame::Messages(messages)) => {
                    return Ok(messages[0].peek().expect("a message").message);
                }
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn answer(&self, message: Message) -> String {
        self.answers(&[message]).map_or_else(|error| error, |answer| told(&answer))
    }

    /// As [`answer`](Self::answer), of what is to get none: what nobody could have issued is asked for next, and
    /// refused for certain.
    fn silence(&self, message: Message) -> String {
        let nothing = Self::below(&self.own, other().id(), &other(), |_| ());
        let hash = nothing.hash();
        match self.answers(&[message, Self::redeem(nothing)]) {
            Ok(Message::Refused { subject: Subject::Ticket(of), .. }) if of == hash => {
                "nothing".to_owned()
            }
            Ok(other) => told(&other),
            Err(error) => error,
        }
    }
}

/// A message in words.
fn told(message: &Message) -> String {
    match message {
        Message::Refused { refusal, .. } => format!("{}: {refusal}", refusal.word()),
        other => other.kind().to_owned(),
    }
}

const ATTACKS: &[Attack<Rights>] = &[
    ("redeem another's ticket", "void-ticket: ", |at| at.answer(Rights::redeem(at.kept.clone()))),
    ("redeem a ticket that another has in use", "void-ticket: ", |at| {
        at.answer(Rights::redeem(at.used.clone()))
    }),
    ("close another's lease", "void-ticket: ", |at| {
        at.answer(Message::Close { tickets: vec![at.used.clone()] })
    }),
    ("give a part of another's lease back", "void-ticket: ", |at| {
        let part = Part::Until(at.target.now.plus(Span::MINUTE));
        at.answer(Message::Return { ticket: at.used.clone(), number: 0, part })
    }),
    ("change another's lease", "void-ticket: ", |at| {
        let configuration = Properties::default();
        at.answer(Message::Modify { ticket: at.used.clone(), number: 0, configuration })
    }),
    ("recall another's ticket", "forbidden", |at| {
        let level = Level { number: 0, units: 0, from: at.target.now };
        at.answer(Message::Recall { ticket: at.kept.clone(), level })
    }),
    ("reclaim another's ticket", "forbidden", |at| {
        at.answer(Message::Reclaim { ticket: at.kept.clone() })
    }),
    ("a foreign link: in the name of the broker", "void-ticket: ", |at| {
        let delegation = Ticket::root_of(at.kept.root().clone());
        at.answer(Rights::redeem(Rights::below(&delegation, unknown().id(), &unknown(), |_| ())))
    }),
    ("a foreign link: in the name of its holder", "void-ticket: ", |at| {
        at.answer(Rights::redeem(Rights::below(&at.used, unknown().id(), &unknown(), |_| ())))
    }),
    ("a ticket of a site that this one is not", "void-ticket: ", |at| {
        let root = SignedLink::sign(at.target.link(unknown().id(), &other(), Span::HOUR), &other());
        at.answer(Rights::redeem(Ticket::root_of(root)))
    }),
    ("more units than are above", "void-ticket: ", |at| {
        let more = |link: &mut Link| link.units = NonZeroU32::new(2).expect("two");
        at.answer(Rights::redeem(Rights::below(&at.kept, unknown().id(), &at.guest, more)))
    }),
    ("a longer term than above", "void-ticket: ", |at| {
        let longer = |link: &mut Link| {
            link.term =
                Term::new(link.term.start(), link.term.end().plus(Span::DAY)).expect("a term");
        };
        at.answer(Rights::redeem(Rights::below(&at.kept, unknown().id(), &at.guest, longer)))
    }),
    ("a part that is a delegation", "void-ticket: ", |at| {
        let sold = |link: &mut Link| {
            link.delegation = Some(Generation { delegation: 1, generation: 0 });
        };
        at.answer(Rights::redeem(Rights::below(&at.kept, unknown().id(), &at.guest, sold)))
    }),
    ("a longer chain than may be", "nothing", |at| {
        let deeper = |ticket: Ticket, _| Rights::below(&ticket, unknown().id(), &unknown(), |_| ());
        at.silence(Rights::redeem((0..32).fold(at.own.clone(), deeper)))
    }),
    ("fewest units above all of them", "malformed: ", |at| {
        let mut message = Rights::redeem(at.own.clone());
        if let Message::Redeem { min_units, .. } = &mut message {
            *min_units = NonZeroU32::new(9).expect("nine");
        }
        at.answer(message)
    }),
    ("more tickets to close than may be", "nothing", |at| {
        at.silence(Message::Close { tickets: vec![at.own.clone(); 65] })
    }),
    ("no tickets to close", "nothing", |at| at.silence(Message::Close { tickets: Vec::new() })),
    (
        "a good ticket shown to a broker that did not issue it",
        "was issued by another actor",
        |at| {
            let hello = Frame::Hello(Hello::new(unknown().id(), at.broker.site.id())).to_bytes();
            at.broker.says(&unknown(), &[Frame::Ticket(at.own.clone()).to_bytes(), hello])
        },
    ),
    ("a good ticket redeemed twice", "the same answer twice, for one unit", redeemed_twice),
];

/// Redeems one ticket under two numbers, and for two leases.
fn redeemed_twice(at: &Rights) -> String {
    let mut stream = at.target.caller(&unknown());
    let mut write = |frame: Vec<u8>| stream.write_all(&frame).expect("it is read");
    write(Frame::Ticket(at.own.clone()).to_bytes());
    write(at.target.hello(&unknown()));
    let redeem = |position| {
        let mut message = Rights::redeem(at.own.clone());
        if let Message::Redeem { lease, .. } = &mut message {
            lease.number = position;
        }
        messages(&at.target.envelope(unknown().id(), position, message), &unknown())
    };
    write(redeem(1));
    let mut leased: Vec<(Vec<u8>, Vec<LeasedUnit>)> = Vec::new();
    while leased.len() < 2 {
        let answers = match next(&mut stream) {
            Ok(Frame::Messages(answers)) => answers,
            Ok(_) => continue,
            Err(error) => return format!("{error} after {} answers", leased.len()),
        };
        for sealed in answers {
            if let Ok(envelope) = sealed.peek()
                && let Message::Leased { units, .. } = &envelope.message
            {
                leased.push((sealed.bytes().to_vec(), units.clone()));
                stream.write_all(&redeem(2)).expect("it is read");
            }
        }
    }
    let [(first, units), (second, _)] = &leased[..] else { return format!("{leased:?}") };
    let unlike = if first == second { "the same answer" } else { "another answer" };
    format!("{unlike} twice, for {} unit", if units.len() == 1 { "one" } else { "no" })
}

#[test]
fn who_wants_more_than_its_ticket_is_for_is_refused() {
    let apart = Apart::start();
    apart.guest.json("lease request 1 --for 1h --wait");
    apart.guest.json("lease request 1 --for 1h --keep-ticket --wait");
    let (used, kept) = (ticket(&apart.guest, "guest/1"), ticket(&apart.guest, "guest/2"));
    let guest = secret(apart.guest.data.path(), "guest");
    let own = Rights::below(&kept, unknown().id(), &guest, |_| ());
    let broker = Target {
        address: apart.of_broker.parse().expect("an address"),
        site: secret(apart.broker.data.path(), "exchange"),
        now: Time::ZERO,
    };
    let target = Target::of(&apart.site, &apart.address);
    let at = Rights { target, broker, guest, kept, used, own };
    all_are_turned_away(ATTACKS, &at);
    assert_eq!(apart.guest.lease("guest/1")["state"], "active");
    assert_eq!(apart.site.json("site list")[0]["leased"], 2);
    // What was handed on is the attacker's, who gives it back.
    eventually(DEADLINE, "the end of its lease", || {
        at.answer(Message::Close { tickets: vec![at.own.clone()] }) == "closed"
    });
    apart.guest.close_all();
    apart.site.becomes_clean();
}
