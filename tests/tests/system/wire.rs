//! What travels between processes, byte by byte. The golden file was written by version 1 of the frames and stays:
//! what is read and written today is what a process of that version reads and writes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::sync::Arc;

use tenure_core::actor::Role;
use tenure_core::driver::{Call, DriverError, Step};
use tenure_core::model::identity::{Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::resource::{Constraints, Value};
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::ticket::link::DelegationId;
use tenure_core::wire::advert::{Advert, AdvertEntry, Entries};
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::handover::{HandedBack, Outcome};
use tenure_core::wire::inquiry::{Availability, AvailableStock, Inquiry};
use tenure_core::wire::invitation::JoinFault;
use tenure_core::wire::message::{
    Envelope, Header, Join, LeasedUnit, Message, Sealed, Sequence, Subject,
};
use tenure_core::wire::part::Part;
use tenure_core::wire::portion::{PortionAsked, PortionBack, PortionOutcome};
use tenure_node::net::card::{Card, SignedCard};
use tenure_node::net::frame::{Frame, Hello, VERSIONS};
use tenure_node::net::task::{
    Command, CommandEnd, Errand, Ran, Task, TaskEnd, TaskRefusal, Written,
};
use tenure_tests::root;

use crate::formats::{
    EPOCH, LEASE, Parts, UNIT, busy, contest, endorsement, handover, hex, hosts, invitation,
    key_chain, level, need, offers, parts, portion, told, waiting,
};

const GOLDEN: &str = "tests/golden/wire-1.txt";

/// The site of the samples, which signs them.
fn site() -> Signer {
    Signer::from_seed(Scheme::Ed25519, [1; 32])
}

fn envelope(p: &Parts, message: Message) -> Envelope {
    let sequence = Sequence { position: 7, index: 0 };
    let at = Time::from_secs(90);
    Envelope { header: Header { from: site().id(), to: p.broker, sequence, at }, message }
}

fn sealed(p: &Parts, message: Message) -> Sealed {
    envelope(p, message).seal(&mut Credentials::new(site()))
}

/// What is said about requests.
fn of_requests(p: &Parts) -> Vec<Message> {
    let (request, until) = (p.request.id, Some(Time::from_secs(5)));
    let delegation = DelegationId { issuer: site().id(), number: 1 };
    vec![
        Message::Delegate { ticket: p.root.clone(), attributes: p.attributes.clone() },
        Message::Delegated { delegation, generation: 2 },
        Message::Request(p.request.clone()),
        Message::Granted { request, tickets: vec![(0, p.ticket.clone())] },
        Message::Waiting { request, waiting: waiting() },
        Message::Offered { request, offers: offers(p), until, refusal: Some(busy()) },
        Message::Accept { request, offer: 1 },
        Message::Withdraw(p.request.clone()),
        Message::Refused { subject: Subject::Request(request), refusal: busy(), offers: offers(p) },
    ]
}

/// What is said about leases.
fn of_leases(p: &Parts) -> Vec<Message> {
    let (ticket, hash) = (p.ticket.clone(), p.ticket.hash());
    let (configuration, properties) = (p.properties.clone(), p.properties.clone());
    let leased = LeasedUnit { unit: UNIT, epoch: EPOCH, quantity: NonZeroU32::MIN, properties };
    let units = vec![leased];
    let receipts = vec![p.receipt.clone()];
    vec![
        Message::Redeem {
            ticket: ticket.clone(),
            lease: LEASE,
            slice: Name::literal("main"),
            min_units: NonZeroU32::MIN,
            configuration: configuration.clone(),
            victims: vec![UNIT],
        },
        Message::Leased { ticket: hash, term: p.term, units: units.clone() },
        Message::Modify { ticket: ticket.clone(), number: 1, configuration },
        Message::Modified { ticket: hash, number: 1, units },
        Message::UnitFailed { ticket: hash, unit: UNIT, why: "overheated".to_owned() },
        Message::Close { tickets: vec![ticket.clone()] },
        Message::Closed { ticket: hash, refusal: Some(busy()), receipts: receipts.clone() },
        Message::Return { ticket, number: 1, part: Part::Units(vec![UNIT]) },
        Message::Returned { ticket: hash, number: 1, receipts: receipts.clone() },
        Message::Credit { receipts },
        Message::Credited { receipts: vec![(hash, 1)] },
    ]
}

/// What is said when tickets are had back, and about the actors themselves.
fn of_recalls(p: &Parts) -> Vec<Message> {
    let (ticket, hash) = (p.ticket.clone(), p.ticket.hash());
    let receipts = vec![p.receipt.clone()];
    vec![
        Message::Reclaim { ticket: ticket.clone() },
        Message::Reclaimed { ticket: hash, redeemed: true, receipts: receipts.clone() },
        Message::Recall { ticket, level: level(p) },
        Message::Recalled { link: hash, number: 1, at: p.term.end(), enforced: true, receipts },
        Message::RecallNotice { ticket: hash, told: told(p) },
        Message::RecallNoted {
            ticket: hash,
            link: hash,
            number: 1,
            victims: vec![UNIT],
            unclaimed: false,
        },
        Message::Ping,
        Message::Pong { asked: Time::from_secs(60) },
        Message::Keys { number: 2 },
        Message::KeysNoted { number: 2 },
        Message::Join(Box::new(Join {
            invitation: invitation(),
            name: Name::literal("alpha"),
            role: Role::SiteAuthority,
            address: Some("alpha.example:7400".to_owned()),
        })),
        Message::Joined { number: 300, fault: Some(JoinFault::Used) },
        Message::Need(need(p)),
        Message::Noted { service: Name::literal("batch"), revision: 300 },
    ]
}

/// What is said about hosts that several guests may claim.
fn of_hosts(p: &Parts) -> Vec<Message> {
    let service = || Name::literal("batch");
    vec![
        Message::Hosts(hosts(p)),
        Message::HostsNoted { service: service(), revision: 300, contests: vec![contest(p)] },
        Message::HostsChanged { service: service(), revision: 300 },
        Message::Restate { needs: vec![service()], hosts: vec![Name::literal("web")] },
        Message::HandOver(Box::new(handover(p))),
        Message::HandedBack(Box::new(HandedBack {
            request: p.request.id,
            outcome: Outcome::Refused(busy()),
            trail: Vec::new(),
        })),
        Message::Advert(Box::new(advert())),
        Message::AdvertWanted,
        Message::AskPortion(Box::new(PortionAsked { handover: handover(p), portion: portion(p) })),
        Message::PortionBack(Box::new(PortionBack {
            request: p.request.id,
            round: 1,
            outcome: PortionOutcome::Held {
                units: portion(p).units,
                until: p.term.start(),
                refusal: Some(busy()),
            },
            trail: Vec::new(),
        })),
        Message::PortionDecided { request: p.request.id, round: 1, taken: true },
        Message::Heartbeat { leases: vec![p.ticket.hash()] },
        Message::HeartbeatHeard { sent: p.term.start(), leases: vec![p.ticket.hash()] },
    ]
}

fn advert() -> Advert {
    let like = [(Name::literal("cpus"), Value::from(8_i64))];
    let entry = AdvertEntry {
        hops: 2,
        resource: Name::literal("node"),
        attributes: Some(Arc::new(like.into())),
        free: Some(0),
        next: Some(Time::from_secs(60)),
    };
    Advert { lasts: Span::MINUTE, entries: Entries::All(vec![entry]) }
}

fn card() -> SignedCard {
    let signer = Signer::from_seed(Scheme::Ed25519, [4; 32]);
    let card = Card {
        actor: site().id(),
        name: Name::literal("alpha"),
        role: Role::SiteAuthority,
        address: "alpha.example:7400".to_owned(),
        number: 3,
        until: Time::from_secs(60).plus(Span::DAY),
    };
    SignedCard::sign(card, &signer, key_chain())
}

fn task(errand: Errand) -> Frame {
    Frame::Task(Box::new(Task { keys: key_chain(), errand }))
}

fn ended(end: TaskEnd) -> Frame {
    Frame::TaskEnd(Box::new(end))
}

fn setup(p: &Parts) -> Call {
    Call {
        site: site().id(),
        unit: UNIT,
        epoch: EPOCH,
        step: Step::Setup,
        number: 0,
        resource: Name::literal("node"),
        quantity: NonZeroU32::MIN,
        guest: p.broker,
        slice: Name::literal("main"),
        lease: LEASE,
        properties: p.properties.clone(),
        deadline: Some(Time::from_secs(90)),
    }
}

fn command() -> Command {
    let (user, words) = (Some("build".to_owned()), vec!["make".to_owned(), "-j4".to_owned()]);
    Command { unit: UNIT, epoch: EPOCH, user, words, timeout: Span::MINUTE }
}

fn ran() -> Ran {
    let output = Written { bytes: b"done\n".to_vec(), cut: false };
    Ran { end: CommandEnd::Exit(2), output, errors: Written { bytes: Vec::new(), cut: true } }
}

/// A frame of each kind, with a message of each kind, by name.
fn samples() -> BTreeMap<String, Frame> {
    let p = parts();
    let pong = || sealed(&p, Message::Pong { asked: Time::from_secs(60) });
    let hello = Hello { oldest: 1, newest: 1, from: site().id(), to: p.broker };
    let of_kinds = [
        ("hello", Frame::Hello(hello)),
        ("started", Frame::Started),
        ("watermark", Frame::Watermark(Some(pong()))),
        ("watermark.none", Frame::Watermark(None)),
        ("alive", Frame::Alive),
        ("bye", Frame::Bye("enough for today".to_owned())),
        ("ticket", Frame::Ticket(p.ticket.clone())),
        ("card", Frame::Card(card())),
        ("where", Frame::Where(p.broker)),
        ("invitation", Frame::Invitation(invitation())),
        ("endorsement", Frame::Endorsement(endorsement())),
        ("task.setup", task(Errand::Step { call: setup(&p), users: vec!["build".to_owned()] })),
        ("task.probe", task(Errand::Probe(UNIT))),
        ("task.run", task(Errand::Run(command()))),
        ("task-end.done", ended(TaskEnd::Done(p.properties.clone()))),
        ("task-end.failed", ended(TaskEnd::Failed(DriverError("it is full".to_owned())))),
        ("task-end.ran", ended(TaskEnd::Ran(ran()))),
        ("task-end.refused", ended(TaskEnd::Refused(TaskRefusal::NoTenant(UNIT)))),
        ("relay", Frame::Relay(vec![p.broker])),
        ("dialled", Frame::Dialled(p.broker, [7; 16])),
        ("messages.batch", Frame::Messages(batch(&p))),
    ];
    let of_kinds = of_kinds.map(|(name, frame)| (name.to_owned(), frame));
    let messages =
        [of_requests(&p), of_leases(&p), of_recalls(&p), of_hosts(&p), of_inquiries()].concat();
    let messages = messages.into_iter().map(|message| {
        let name = format!("messages.{}", message.kind());
        (name, Frame::Messages(vec![sealed(&p, message)]))
    });
    of_kinds.into_iter().chain(messages).collect()
}

fn of_inquiries() -> Vec<Message> {
    let node = Name::literal("node");
    let term = Term::new(Time::from_secs(60), Time::from_secs(3660)).expect("a term");
    let stock = AvailableStock {
        resource: node.clone(),
        site: Name::literal("site"),
        attributes: [(Name::literal("price"), Value::from(3))].into(),
        units: 4,
        free: 2,
        until: Time::from_secs(7200),
    };
    let availability = Availability::Stocks { stocks: vec![stock], more: 0 };
    vec![
        Message::Inquire(Inquiry { resource: Some(node), requirements: Constraints::NONE, term }),
        Message::Available { asked: Time::from_secs(60), availability },
    ]
}

/// Messages that left together, and have one signature.
fn batch(p: &Parts) -> Vec<Sealed> {
    let envelopes = [1, 2, 3].map(|number| envelope(p, Message::KeysNoted { number }));
    Envelope::seal_all(&envelopes.each_ref(), &mut Credentials::new(site()))
}

/// The lines of the golden file: names and bytes. A sample that it lacks is added if that is asked for; what it
/// has stays as it is.
fn golden(samples: &BTreeMap<String, Frame>) -> BTreeMap<String, Vec<u8>> {
    let path = root().join(GOLDEN);
    let mut text = std::fs::read_to_string(&path).expect(GOLDEN);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        for (name, frame) in samples {
            if !text.lines().any(|line| line.split(' ').next() == Some(name)) {
                writeln!(text, "{name} {}", hex(&frame.to_bytes())).expect("room");
            }
        }
        std::fs::write(&path, &text).expect(GOLDEN);
    }
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let read = |line: &str| {
        let (name, digits) = line.split_once(' ').expect("a name and bytes");
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
        (name.to_owned(), (0..digits.len()).step_by(2).map(byte).collect())
    };
    lines.map(read).collect()
}

#[test]
fn version_1_is_read_and_written_as_ever() {
    assert_eq!(VERSIONS.0, 1, "who speaks version 1 alone is no longer understood");
    let samples = samples();
    let golden = golden(&samples);
    for kind in Message::KINDS {
        assert!(golden.contains_key(&format!("messages.{kind}")), "{kind} has no line");
    }
    for (name, bytes) in &golden {
        let frame = samples.get(name).unwrap_or_else(|| panic!("`{name}` is in no sample"));
        let length = u32::from_be_bytes(bytes[..4].try_into().expect("four bytes"));
        assert_eq!(length as usize, bytes.len() - 4, "{name}");
        assert_eq!(Frame::read(&bytes[4..]).as_ref().ok(), Some(frame), "{name} is read");
        assert_eq!(hex(&frame.to_bytes()), hex(bytes), "{name} is written");
    }
    assert_eq!(samples.len(), golden.len(), "each sample has a line");
}

#[test]
fn signatures_of_version_1_hold_and_its_messages_say_what_they_said() {
    let samples = samples();
    let mut credentials = Credentials::new(Signer::from_seed(Scheme::Ed25519, [2; 32]));
    let mut count = 0;
    for bytes in golden(&samples).values() {
        let Ok(Frame::Messages(messages)) = Frame::read(&bytes[4..]) else { continue };
        for sealed in messages {
            let Envelope { header, .. } =
                sealed.open(&mut credentials, Time::ZERO).expect("it is signed");
            assert_eq!(header.from, site().id());
            count += 1;
        }
    }
    assert!(count > Message::KINDS.len(), "{count} messages");
}
