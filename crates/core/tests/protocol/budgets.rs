//! Budgets: what a dishonest broker and a dishonest guest can make the others remember.
//!
//! Every attack is a row: the victim, and the messages that reach it over an hour. All of them are validly
//! signed. The bounds are those of docs/ARCHITECTURE.md, scaled down by [`Limits`] at the site.

use std::collections::BTreeMap;

use tenure_core::actor::Actor as _;
use tenure_core::model::identity::Signer;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::Expr;
use tenure_core::model::time::Span;
use tenure_core::runtime::journal::MemoryJournal;
use tenure_core::site_authority::Limits;
use tenure_core::ticket::MAX_DEPTH;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{MAX_CONSTRAINTS, SignedLink};
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::message::{MAX_TICKETS, Message, Sealed, Sequence, Subject};
use tenure_core::wire::refusal::{Allowance, Outlook, Refusal};
use tenure_core::wire::request::MAX_ITEMS;

use crate::common::world::{Scene, World};
use crate::common::{
    BROKER, ED25519, FAR_OFF, GUEST, HOUR, MARGIN, RIVAL, SITE, ask_for, close, cut, envelope, id,
    item, letter, part, receipt, redeem, request, term,
};

const LIMITS: Limits =
    Limits { tickets_of_broker: 1 << 19, tickets_of_holder: 1 << 17, refused_of_broker: 1 << 18 };

/// How many times what is counted for a ticket its site may take in a snapshot and in the journal.
const FACTOR: u64 = 3;

/// The units of the site, all of them delegated.
const UNITS: u32 = 200;

/// Who attacks, with what there is to attack with.
struct Attacker {
    world: World,
    held: Ticket,
    serial: u64,
}

impl Attacker {
    fn new() -> Self {
        let delegation = (Span::from_secs(FAR_OFF), Span::ZERO);
        let scene = Scene { stock: UNITS, limits: LIMITS, delegation, ..Scene::default() };
        let world = scene.open();
        Self { held: world.delegation(), world, serial: 1000 }
    }

    fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// A ticket of the broker's for a guest, from now on for some seconds.
    fn ticket(&mut self, to: u8, n: u32, secs: i64) -> Ticket {
        let now = self.world.now.as_micros() / 1_000_000;
        let serial = self.serial();
        cut(&self.held, BROKER, to, n, term(now, now + secs), serial)
    }

    fn send(&mut self, who: u8, to: u8, message: Message) {
        let sealed = letter(who, to, message);
        self.send_sealed(to, &sealed);
    }

    fn send_sealed(&mut self, to: u8, sealed: &Sealed) {
        self.world.deliver(to, sealed);
        self.world.run();
        self.world.forget_what_happened();
    }

    fn snapshot(&self, who: u8) -> u64 {
        self.world.actor(who).snapshot().len() as u64
    }

    fn journal(&self, who: u8) -> u64 {
        let journal: &MemoryJournal = self.world.journal(who);
        journal.rows().map(|row| row.body.len() as u64 + 64).sum()
    }
}

/// Long properties; two lists of them are more than a holder has room for.
fn large_properties(values: usize) -> Properties {
    let large: BTreeMap<Name, String> = (0..values)
        .map(|n| (format!("k{n}").parse().unwrap(), "x".repeat(Properties::MAX_VALUE)))
        .collect();
    Properties::try_from(large).unwrap()
}

/// An attack on one actor.
struct Attack {
    name: &'static str,
    victim: u8,
    /// How many rounds of it there are in the hour.
    rounds: i64,
    prepare: fn(&mut Attacker),
    round: fn(&mut Attacker, i64),
}

fn nothing(_: &mut Attacker) {}

/// The hour, and as much again, is when the tickets of most attacks end.
const LONG: i64 = 2 * HOUR;

const ATTACKS: [Attack; 13] = [
    Attack {
        name: "tickets that come back unredeemed",
        victim: SITE,
        rounds: 250,
        prepare: nothing,
        round: |attacker, _| {
            let ticket = attacker.ticket(GUEST, 1, LONG);
            attacker.send(GUEST, SITE, close(&ticket));
        },
    },
    Attack {
        name: "tickets that come back, each from a holder of its own",
        victim: SITE,
        rounds: 800,
        prepare: nothing,
        round: |attacker, n| {
            let signer =
                Signer::from_seed(ED25519, [(n % 251) as u8; 32].map(|b| b ^ (n / 251) as u8));
            let mut link =
                part(&attacker.held, GUEST, 1, term(HOUR, HOUR + LONG), attacker.serial + 1);
            attacker.serial += 1;
            link.holder = signer.id();
            let ticket = attacker.held.with(SignedLink::sign(link, &crate::common::signer(BROKER)));
            let back = envelope(signer.id(), id(SITE), close(&ticket));
            let sealed = back.seal(&mut Credentials::new(signer));
            attacker.send_sealed(SITE, &sealed);
        },
    },
    Attack {
        name: "parts of one ticket that come back, each at the end of a chain of eight",
        victim: SITE,
        rounds: 100,
        prepare: nothing,
        round: |attacker, _| {
            let mut ticket = attacker.ticket(GUEST, 1, LONG);
            let mut holder = GUEST;
            while ticket.links().len() < MAX_DEPTH {
                let (next, serial) = (holder ^ 64, attacker.serial());
                ticket = cut(&ticket, holder, next, 1, ticket.bottom().term, serial);
                holder = next;
            }
            attacker.send(holder, SITE, close(&ticket));
        },
    },
    Attack {
        name: "redeems with a long configuration, each given back at once",
        victim: SITE,
        rounds: 150,
        prepare: nothing,
        round: |attacker, _| {
            let ticket = attacker.ticket(GUEST, 1, LONG);
            let mut message = redeem(&ticket);
            if let Message::Redeem { configuration, .. } = &mut message {
                *configuration = large_properties(1);
            }
            attacker.send(GUEST, SITE, message);
            attacker.send(GUEST, SITE, close(&ticket));
        },
    },
    Attack {
        name: "leases far ahead, for a moment each",
        victim: SITE,
        rounds: 250,
        prepare: nothing,
        round: |attacker, n| {
            let (start, serial) = (HOUR + 25 + n * 25, attacker.serial());
            let ticket = cut(&attacker.held, BROKER, GUEST, 1, term(start, start + 21), serial);
            attacker.send(GUEST, SITE, redeem(&ticket));
        },
    },
    Attack {
        name: "tickets with the most and long constraints",
        victim: SITE,
        rounds: 30,
        prepare: nothing,
        round: |attacker, _| {
            let mut link =
                part(&attacker.held, GUEST, 1, term(HOUR, HOUR + LONG), attacker.serial + 1);
            attacker.serial += 1;
            for n in 0..MAX_CONSTRAINTS {
                let expr = format!("k{n} = \"{}\"", "x".repeat(1000));
                link.constraints.add(Expr::parse(&expr).unwrap());
            }
            let link = SignedLink::sign(link, &crate::common::signer(BROKER));
            let ticket = attacker.held.with(link);
            attacker.send(GUEST, SITE, close(&ticket));
        },
    },
    Attack {
        name: "closes that name as many tickets as they may",
        victim: SITE,
        rounds: 12,
        prepare: nothing,
        round: |attacker, _| {
            let tickets = (0..MAX_TICKETS).map(|_| attacker.ticket(GUEST, 1, LONG)).collect();
            attacker.send(GUEST, SITE, Message::Close { tickets });
        },
    },
    Attack {
        name: "tickets that are refused with much evidence",
        victim: SITE,
        rounds: 60,
        prepare: |attacker| {
            for n in 0..UNITS {
                let who = if n % 2 == 0 { GUEST } else { RIVAL };
                let ticket = attacker.ticket(who, 1, LONG);
                attacker.send(who, SITE, redeem(&ticket));
            }
        },
        round: |attacker, _| {
            let ticket = attacker.ticket(RIVAL, 1, HOUR);
            attacker.send(RIVAL, SITE, redeem(&ticket));
        },
    },
    Attack {
        name: "short tickets, one after the other",
        victim: SITE,
        rounds: 240,
        prepare: nothing,
        round: |attacker, _| {
            let ticket = attacker.ticket(GUEST, 1, 21);
            attacker.send(GUEST, SITE, redeem(&ticket));
            attacker.send(GUEST, SITE, close(&ticket));
        },
    },
    Attack {
        name: "credits for what was never cut",
        victim: BROKER,
        rounds: 60,
        prepare: nothing,
        round: |attacker, _| {
            let tickets: Vec<_> = (0..50).map(|_| attacker.ticket(GUEST, 1, LONG)).collect();
            let now = attacker.world.now;
            let receipts = tickets.iter().map(|t| receipt(SITE, t.bottom(), now)).collect();
            attacker.send(GUEST, BROKER, Message::Credit { receipts });
        },
    },
    Attack {
        name: "requests under the names of others, with all that fits into them",
        victim: BROKER,
        rounds: 30,
        prepare: nothing,
        round: |attacker, n| {
            let mut asked = request(GUEST, 1 + n as u64, 1, HOUR, LONG);
            asked.items = vec![item(1); MAX_ITEMS];
            asked.properties = large_properties(24);
            attacker.send(RIVAL, BROKER, Message::Request(asked));
        },
    },
    Attack {
        name: "grants that nobody asked for",
        victim: GUEST,
        rounds: 60,
        prepare: nothing,
        round: |attacker, n| {
            let tickets = (0..60).map(|_| (0, attacker.ticket(GUEST, 1, LONG))).collect();
            let request = request(GUEST, 1 + n as u64, 1, 0, HOUR).id;
            attacker.send(BROKER, GUEST, Message::Granted { request, tickets });
        },
    },
    Attack {
        name: "refusals of what was not asked for",
        victim: GUEST,
        rounds: 60,
        prepare: nothing,
        round: |attacker, _| {
            let subject = Subject::Ticket(attacker.ticket(GUEST, 1, LONG).hash());
            let refusal = Refusal::Malformed("x".repeat(100_000));
            attacker.send(BROKER, GUEST, Message::Refused { subject, refusal, offers: Vec::new() });
        },
    },
];

/// What an attack may add to what its victim remembers and has in its journal.
fn bound(victim: u8) -> u64 {
    // A broker and a guest remember nothing of what these attacks are made of.
    if victim == SITE { FACTOR * LIMITS.tickets_of_broker + LIMITS.refused_of_broker } else { 512 }
}

#[test]
fn what_a_peer_can_make_others_remember_is_bounded() {
    for Attack { name, victim, rounds, prepare, round } in ATTACKS {
        let mut attacker = Attacker::new();
        let before = (attacker.snapshot(victim), attacker.journal(victim));
        prepare(&mut attacker);
        let mut most = 0;
        for n in 0..rounds {
            attacker.world.advance(HOUR * n / rounds);
            round(&mut attacker, n);
            if n % 16 == 0 || n == rounds - 1 {
                most = most.max(attacker.snapshot(victim) - before.0);
            }
        }
        let written = attacker.journal(victim) - before.1;
        assert!(most <= bound(victim), "{name}: {most} bytes are remembered");
        assert!(written <= bound(victim), "{name}: {written} bytes are in the journal");
        // All tickets have ended a margin later, and are forgotten a day later.
        let over = 8 * HOUR + MARGIN.as_micros() / 1_000_000;
        attacker.world.advance(over);
        let last = attacker.ticket(RIVAL, 1, HOUR);
        attacker.send(RIVAL, SITE, close(&last));
        attacker.world.advance(over + 26 * HOUR);
        let last = attacker.ticket(RIVAL, 1, HOUR);
        attacker.send(RIVAL, SITE, close(&last));
        let left = attacker.snapshot(victim).saturating_sub(before.0);
        // A unit that was used has a longer epoch, and a note of how often it was.
        assert!(left < 2048 + 8 * u64::from(UNITS), "{name}: {left} bytes stay");
    }
}

/// A guest whose tickets take up all the room there is for them at the site.
fn full() -> Attacker {
    let mut attacker = Attacker::new();
    for _ in 0..200 {
        let ticket = attacker.ticket(RIVAL, 1, LONG);
        attacker.send(RIVAL, SITE, close(&ticket));
    }
    attacker
}

#[test]
fn a_ticket_beyond_the_quota_is_refused_until_others_are_over() {
    let mut attacker = full();
    let ticket = attacker.ticket(RIVAL, 1, 2 * LONG);
    for message in [close(&ticket), redeem(&ticket)] {
        let out = attacker.world.deliver(SITE, &letter(RIVAL, SITE, message));
        let Message::Refused { refusal, .. } = &out.replies[0].message else { panic!() };
        let Refusal::Quota { holder, of: Allowance::Bytes, most, would } = refusal else {
            panic!()
        };
        assert_eq!((*holder, *most), (id(RIVAL), LIMITS.tickets_of_holder));
        assert!(would > most);
        assert_eq!(refusal.outlook(), Outlook::Later);
        assert_eq!(out.replies[0].header.sequence.index, Sequence::VOLATILE);
    }
    attacker.world.advance(LONG + 11);
    attacker.send(RIVAL, SITE, close(&ticket));
    assert_eq!(attacker.world.at_site(ticket.hash()), "Closed");
}

#[test]
fn a_guest_that_used_up_its_room_takes_none_from_another() {
    let mut attacker = full();
    let lease = attacker.world.ask(GUEST, ask_for(2, 0, HOUR));
    assert_eq!(attacker.world.state(GUEST, lease), "Active");
}

#[test]
fn a_lease_is_given_back_however_little_room_there_is() {
    let mut attacker = Attacker::new();
    let held = attacker.ticket(RIVAL, 1, LONG);
    attacker.send(RIVAL, SITE, redeem(&held));
    for _ in 0..200 {
        let ticket = attacker.ticket(RIVAL, 1, LONG);
        attacker.send(RIVAL, SITE, close(&ticket));
    }
    attacker.send(RIVAL, SITE, close(&held));
    assert_eq!(attacker.world.at_site(held.hash()), "Closed");
}

#[test]
fn an_honest_guest_asks_on_while_there_is_no_room_for_its_ticket() {
    let mut attacker = full();
    let lease = attacker.world.ask(RIVAL, ask_for(2, 0, 4 * HOUR));
    assert_eq!(attacker.world.state(RIVAL, lease), "Redeeming");
    attacker.world.advance(LONG + 11);
    attacker.world.repeat();
    assert_eq!(attacker.world.state(RIVAL, lease), "Active");
}

#[test]
fn a_closing_ticket_stays_closing_while_there_is_no_room_for_it() {
    let mut attacker = full();
    attacker.world.keep.insert("redeem");
    let lease = attacker.world.ask(RIVAL, ask_for(2, 0, HOUR));
    attacker.world.command(RIVAL, tenure_core::service_manager::Command::Close { lease });
    attacker.world.repeat();
    assert_eq!(attacker.world.state(RIVAL, lease), "Closing");
    attacker.world.advance(HOUR - 1);
    attacker.world.repeat();
    assert_eq!(attacker.world.state(RIVAL, lease), "Closing");
    // Then there is nothing left to give back, and no receipt.
    attacker.world.advance(HOUR);
    attacker.world.repeat();
    assert_eq!(attacker.world.state(RIVAL, lease), "Closed");
    assert_eq!(attacker.world.sent("credit"), []);
}

/// A site that has refused a ticket with evidence against tickets that end before it does.
fn refused() -> (Attacker, Ticket, Vec<Sealed>) {
    let mut attacker = Attacker::new();
    for n in 0..UNITS {
        let who = if n % 2 == 0 { GUEST } else { RIVAL };
        let ticket = attacker.ticket(who, 1, 60);
        attacker.send(who, SITE, redeem(&ticket));
    }
    let ticket = attacker.ticket(RIVAL, 1, 40 * HOUR);
    attacker.world.deliver(SITE, &letter(RIVAL, SITE, redeem(&ticket)));
    let refused = attacker.world.sent("refused");
    (attacker, ticket, refused)
}

#[test]
fn a_refusal_names_its_links_in_the_journal_and_shows_them_in_its_answer() {
    let (attacker, _, refused) = refused();
    let journal = attacker.world.journal(SITE);
    let rows: Vec<_> = journal.rows().filter(|row| row.kind == "site.ticket-refused").collect();
    assert_eq!(rows.len(), 1);
    assert!(rows[0].body.len() < 64 * UNITS as usize, "{} bytes", rows[0].body.len());
    assert!(refused[0].bytes().len() > 180 * UNITS as usize, "{} bytes", refused[0].bytes().len());
}

#[test]
fn a_refusal_keeps_its_bytes_after_the_ledger_has_forgotten_and_after_a_recovery() {
    let (mut attacker, ticket, first) = refused();
    attacker.world.advance(30 * HOUR);
    let other = attacker.ticket(GUEST, 1, HOUR);
    attacker.send(GUEST, SITE, close(&other));
    let again = letter(RIVAL, SITE, redeem(&ticket));
    attacker.world.deliver(SITE, &again);
    attacker.world.restart(SITE);
    attacker.world.deliver(SITE, &again);
    assert_eq!(attacker.world.sent("refused"), vec![first[0].clone(); 2]);
}
