//! What the protocol tests share: people, tickets made by hand, and a small deployment.

pub(crate) mod world;
mod look;
mod plan;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::driver::UnitId;
use tenure_core::model::codec;
use tenure_core::model::identity::{ActorId, Scheme, Signer};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::{Attributes, Constraints, Expr, Unmet, Value};
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::service::member::MemberId;
use tenure_core::service::steps::{Kind, Step, Steps};
use tenure_core::service_manager::group::Handling;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Clauses, DelegationId, Generation, Link, LinkHash, SignedLink};
use tenure_core::ticket::receipt::{Receipt, Return};
use tenure_core::wire::advert::{Advert, Entries};
use tenure_core::wire::batch::Path;
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::handover::{HandedBack, Handover, Outcome};
use tenure_core::wire::hosts::{Contest, ForeignClaim, HostClaim, HostLease, Hosts, host_id};
use tenure_core::wire::inquiry::{Availability, AvailableStock, Inquiry};
use tenure_core::wire::invitation::{Invitation, Permission, SignedInvitation};
use tenure_core::wire::message::{Envelope, Header, Join, Message, Sealed, Sequence, Subject};
use tenure_core::wire::need::{Need, Want};
use tenure_core::wire::offer::{Reply, Waiting};
use tenure_core::wire::part::Part;
use tenure_core::wire::portion::{Portion, PortionAsked, PortionBack, PortionOutcome};
use tenure_core::wire::proviso::{History, Provisos};
use tenure_core::wire::recall::{Level, Notice};
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::{Item, Request};

/// People, each known by the byte that their secret is made of.
pub(crate) const SITE: u8 = 1;
pub(crate) const FAR_SITE: u8 = 2;
pub(crate) const BROKER: u8 = 3;
pub(crate) const GUEST: u8 = 4;
pub(crate) const RIVAL: u8 = 5;
pub(crate) const FAR_BROKER: u8 = 6;
pub(crate) const STRANGER: u8 = 9;

pub(crate) const ED25519: Scheme = Scheme::Ed25519;
pub(crate) const MARGIN: Span = Span::from_secs(10);
pub(crate) const HOUR: i64 = 3600;
/// When the delegations of a fresh world end.
pub(crate) const FAR_OFF: i64 = 30 * 24 * HOUR;

pub(crate) fn signer(who: u8) -> Signer {
    Signer::from_seed(ED25519, [who; 32])
}

pub(crate) fn id(who: u8) -> ActorId {
    signer(who).id()
}

pub(crate) fn credentials(who: u8) -> Credentials {
    Credentials::new(signer(who))
}

pub(crate) fn at(secs: i64) -> Time {
    Time::from_secs(secs)
}

pub(crate) fn micro() -> Span {
    Span::from_micros(1)
}

pub(crate) fn term(start: i64, end: i64) -> Term {
    Term::new(at(start), at(end)).unwrap()
}

pub(crate) fn units(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

pub(crate) fn node() -> Name {
    Name::literal("node")
}

pub(crate) fn properties(key: &'static str, value: &str) -> Properties {
    let map = BTreeMap::from([(Name::literal(key), value.to_owned())]);
    Properties::try_from(map).unwrap()
}

pub(crate) fn equals(key: &'static str, value: i64) -> Expr {
    expr(&format!("{key} = {value}"))
}

pub(crate) fn expr(source: &str) -> Expr {
    Expr::parse_condition(source).unwrap()
}

pub(crate) fn unmet(requirement: &str, why: &str) -> Unmet {
    Unmet::new(expr(requirement), why.to_owned())
}

/// A delegation as a site signs it.
pub(crate) fn delegation(
    site: u8,
    to: u8,
    n: u32,
    of: Term,
    (number, generation): (u64, u32),
) -> Ticket {
    let link = Link {
        parent: None,
        issuer: id(site),
        holder: id(to),
        resource: node(),
        units: units(n),
        term: of,
        constraints: Constraints::NONE,
        clauses: Clauses::NONE,
        delegation: Some(Generation { delegation: number, generation }),
        extends: None,
        serial: u64::from(generation),
    };
    Ticket::root_of(SignedLink::sign(link, &signer(site)))
}

/// A part of `parent`, not yet signed.
pub(crate) fn part(parent: &Ticket, to: u8, n: u32, of: Term, serial: u64) -> Link {
    let above = parent.bottom();
    Link {
        parent: Some(above.hash()),
        issuer: above.holder,
        holder: id(to),
        resource: above.resource.clone(),
        units: units(n),
        term: of,
        constraints: above.constraints.clone(),
        clauses: Clauses::NONE,
        delegation: None,
        extends: None,
        serial,
    }
}

/// `parent` with a part of it handed on by its holder.
pub(crate) fn cut(parent: &Ticket, by: u8, to: u8, n: u32, of: Term, serial: u64) -> Ticket {
    parent.with(SignedLink::sign(part(parent, to, n, of, serial), &signer(by)))
}

/// A site's word that what is left of `link` from `from` on came back.
pub(crate) fn receipt(site: u8, link: &SignedLink, from: Time) -> Receipt {
    Receipt::sign(returned(site, link, from), &signer(site))
}

pub(crate) fn returned(site: u8, link: &SignedLink, from: Time) -> Return {
    Return {
        site: id(site),
        link: link.hash(),
        issuer: link.issuer,
        units: link.units,
        term: link.term.from(from).unwrap(),
        number: 0,
    }
}

/// A message as its sender seals it.
pub(crate) fn letter(from: u8, to: u8, message: Message) -> Sealed {
    envelope(id(from), id(to), message).seal(&mut credentials(from))
}

pub(crate) fn envelope(from: ActorId, to: ActorId, message: Message) -> Envelope {
    let sequence = Sequence { position: 7, index: 0 };
    Envelope { header: Header { from, to, sequence, at: Time::ZERO }, message }
}

/// How a guest shows a ticket to its site.
pub(crate) fn redeem(ticket: &Ticket) -> Message {
    Message::Redeem {
        ticket: ticket.clone(),
        lease: LeaseId { number: 1, part: 0 },
        slice: Name::literal("main"),
        min_units: ticket.bottom().units,
        configuration: Properties::default(),
        victims: Vec::new(),
    }
}

/// A change of a lease's configuration.
pub(crate) fn modify(ticket: &Ticket, number: u32, image: &str) -> Message {
    Message::Modify { ticket: ticket.clone(), number, configuration: properties("image", image) }
}

pub(crate) fn close(ticket: &Ticket) -> Message {
    Message::Close { tickets: vec![ticket.clone()] }
}

pub(crate) fn item(n: u32) -> Item {
    Item::new(node(), units(n))
}

/// A request for `n` units from exactly `start` on.
pub(crate) fn ask_for(n: u32, start: i64, secs: i64) -> Ask {
    Ask {
        broker: None,
        slice: Name::literal("main"),
        items: vec![item(n)],
        earliest: at(start),
        latest: at(start),
        duration: Span::from_secs(secs),
        min_duration: Span::from_secs(secs),
        provisos: Provisos::NONE,
        again: None,
        reply: Reply::Grant,
        answer_by: at(start + secs / 2),
        properties: Properties::default(),
        configuration: Properties::default(),
        reason: "a test".to_owned(),
        handling: Handling::default(),
    }
}

/// The same request as a broker reads it.
pub(crate) fn request(from: u8, number: u64, n: u32, start: i64, secs: i64) -> Request {
    request_of(RequestId { origin: id(from), number }, ask_for(n, start, secs))
}

/// What is asked for as a broker reads it.
pub(crate) fn request_of(id: RequestId, ask: Ask) -> Request {
    let Ask {
        items,
        earliest,
        latest,
        duration,
        min_duration,
        reply,
        answer_by,
        properties,
        provisos,
        ..
    } = ask;
    let history = History::first(earliest);
    Request {
        id,
        items,
        earliest,
        latest,
        duration,
        min_duration,
        reply,
        answer_by,
        properties,
        provisos,
        history,
        receipts: Vec::new(),
    }
}

/// Bytes that their sender signed as a message, whatever they are.
pub(crate) fn seal_bytes(who: u8, bytes: Vec<u8>) -> Sealed {
    let (key, signature) = credentials(who).sign_message(&bytes);
    codec::decode(&codec::encode(&(bytes, key, signature, Path::default(), Vec::<KeyChain>::new())))
        .unwrap()
}

/// The kinds of messages that every role takes, of anybody.
pub(crate) const TAKEN_BY_ALL: [&str; 5] = ["join", "keys", "keys-noted", "ping", "pong"];

/// One message of every kind, all about one ticket.
#[allow(clippy::too_many_lines, reason = "a line or two for each kind of message")]
pub(crate) fn one_of_each(ticket: &Ticket) -> Vec<Message> {
    let (link, id) = (ticket.bottom(), RequestId { origin: id(GUEST), number: 1 });
    let delegation = DelegationId { issuer: link.issuer, number: 1 };
    let receipts = vec![receipt(SITE, link, link.term.start())];
    let waiting = Waiting { place: 1, expected: None, reason: "busy".to_owned() };
    let mut messages = vec![
        Message::Delegate { ticket: ticket.clone(), attributes: Attributes::new() },
        Message::Delegated { delegation, generation: 0 },
        Message::Request(request(GUEST, 1, 1, 0, HOUR)),
        Message::Granted { request: id, tickets: vec![(0, ticket.clone())] },
        Message::Waiting { request: id, waiting },
        Message::Offered { request: id, offers: Vec::new(), until: None, refusal: None },
        Message::Accept { request: id, offer: 1 },
        Message::Withdraw(request(GUEST, 1, 1, 0, HOUR)),
        redeem(ticket),
        Message::Leased { ticket: ticket.hash(), term: link.term, units: Vec::new() },
        close(ticket),
        Message::Closed { ticket: ticket.hash(), refusal: None, receipts: receipts.clone() },
        Message::Credit { receipts },
        Message::Credited { receipts: vec![(ticket.hash(), 0)] },
        Message::Refused {
            subject: Subject::Request(id),
            refusal: Refusal::Forbidden,
            offers: Vec::new(),
        },
        Message::Return { ticket: ticket.clone(), number: 0, part: Part::Units(vec![UnitId(0)]) },
        Message::Returned { ticket: ticket.hash(), number: 0, receipts: Vec::new() },
        modify(ticket, 0, "v2"),
        Message::Modified { ticket: ticket.hash(), number: 0, units: Vec::new() },
        Message::Reclaim { ticket: ticket.clone() },
        Message::Reclaimed { ticket: ticket.hash(), redeemed: true, receipts: Vec::new() },
        Message::Recall {
            ticket: ticket.clone(),
            level: Level { number: 0, units: 0, from: link.term.start() },
        },
        Message::Recalled {
            link: ticket.hash(),
            number: 0,
            at: link.term.start(),
            enforced: false,
            receipts: Vec::new(),
        },
        Message::RecallNotice {
            ticket: ticket.hash(),
            told: Notice {
                link: ticket.hash(),
                number: 0,
                units: 0,
                at: link.term.start(),
                victims: Vec::new(),
                unclaimed: false,
            },
        },
        Message::RecallNoted {
            ticket: ticket.hash(),
            link: ticket.hash(),
            number: 0,
            victims: Vec::new(),
            unclaimed: false,
        },
        Message::UnitFailed { ticket: ticket.hash(), unit: UnitId(0), why: "it burns".to_owned() },
        Message::Ping,
        Message::Pong { asked: link.term.start() },
        Message::Keys { number: 1 },
        Message::KeysNoted { number: 1 },
        Message::Join(Box::new(join())),
        Message::Joined { number: 1, fault: None },
    ];
    messages.extend(about_what_is_free(link.term));
    messages.extend(about_a_service(ticket.hash()));
    messages.extend(about_hosts(ticket));
    messages.extend(about_handovers(ticket));
    messages.extend(heartbeats(ticket.hash()));
    assert_eq!(messages.iter().map(Message::kind).collect::<Vec<_>>(), Message::KINDS);
    messages
}

/// The statement and the answer.
fn about_a_service(ticket: LinkHash) -> [Message; 2] {
    let service = Name::literal("batch");
    let kind = Kind { resource: Name::literal("node"), requirement: None };
    let steps = Steps::checked(vec![Step { units: 2, urgency: 60, claim: Some(55) }]);
    let want = Want { kind, steps: steps.unwrap(), tickets: vec![ticket], elsewhere: 1 };
    let need = Need { service: service.clone(), revision: 7, wants: vec![want] };
    [Message::Need(need), Message::Noted { service, revision: 7 }]
}

/// The statement, the answer, and what asks for the statement again.
fn about_hosts(ticket: &Ticket) -> [Message; 4] {
    let service = Name::literal("batch");
    let name = MemberId::new("node7.example.org").unwrap();
    let host = host_id(id(BROKER), &name).unwrap();
    let link = ticket.bottom();
    let lease = HostLease { site: link.issuer, unit: UnitId(0), ticket: ticket.hash() };
    let claim = HostClaim { host, since: link.term.start(), lease: Some(lease) };
    let by = Some((id(RIVAL), service.clone()));
    let contest =
        Contest { host, claim: ForeignClaim { by, since: link.term.start(), ticket: None } };
    [
        Message::Hosts(Hosts { service: service.clone(), revision: 7, hosts: vec![claim] }),
        Message::HostsNoted { service: service.clone(), revision: 7, contests: vec![contest] },
        Message::HostsChanged { service: service.clone(), revision: 7 },
        Message::Restate { needs: vec![service.clone()], hosts: vec![service] },
    ]
}

/// A heartbeat, and the answer.
fn heartbeats(ticket: LinkHash) -> [Message; 2] {
    let (sent, leases) = (Time::from_secs(5), vec![ticket]);
    [Message::Heartbeat { leases: leases.clone() }, Message::HeartbeatHeard { sent, leases }]
}

/// A request that is handed on, the answer, and what is told before.
fn about_handovers(ticket: &Ticket) -> [Message; 7] {
    let asked = request(GUEST, 1, 1, 0, HOUR);
    let (id, answer_by) = (asked.id, asked.answer_by);
    let sealed = letter(GUEST, RIVAL, Message::Request(asked));
    let (path, asked) = (vec![self::id(RIVAL)], [self::id(RIVAL)].into());
    let handover = Handover { sealed, path, asked, hops: 3, asks: 15, answer_by };
    let outcome = Outcome::Granted(vec![(0, ticket.clone())]);
    let back = HandedBack { request: id, outcome, trail: Vec::new() };
    let advert = Advert { lasts: Span::MINUTE, entries: Entries::All(Vec::new()) };
    let (start, until) = (ticket.bottom().term.start(), answer_by);
    let portion = Portion { round: 1, start, units: [(0, NonZeroU32::MIN)].into(), until };
    let outcome = PortionOutcome::Granted(vec![(0, ticket.clone())]);
    let portion_back = PortionBack { request: id, round: 1, outcome, trail: Vec::new() };
    [
        Message::HandOver(Box::new(handover.clone())),
        Message::HandedBack(Box::new(back)),
        Message::Advert(Box::new(advert)),
        Message::AdvertWanted,
        Message::AskPortion(Box::new(PortionAsked { handover, portion })),
        Message::PortionBack(Box::new(portion_back)),
        Message::PortionDecided { request: id, round: 1, taken: true },
    ]
}

/// The question and the answer.
fn about_what_is_free(term: Term) -> [Message; 2] {
    let availability = Availability::Stocks { stocks: vec![stock()], more: 1 };
    let (resource, requirements) = (Some(Name::literal("node")), Constraints::NONE);
    [
        Message::Inquire(Inquiry { resource, requirements, term }),
        Message::Available { asked: term.start(), availability },
    ]
}

/// What a broker has of a site.
fn stock() -> AvailableStock {
    AvailableStock {
        resource: Name::literal("node"),
        site: Name::literal("site"),
        attributes: Attributes::from([(Name::literal("price"), Value::from(3))]),
        units: 4,
        free: 2,
        until: Time::from_secs(1_000),
    }
}

/// What who was invited says.
fn join() -> Join {
    let (name, role) = (Name::literal("guest"), Role::ServiceManager);
    Join { invitation: invitation(), name, role, address: None }
}

/// An invitation of the broker for a service manager.
pub(crate) fn invitation() -> SignedInvitation {
    let broker = signer(BROKER);
    let invitation = Invitation {
        inviter: broker.id(),
        name: Name::literal("broker"),
        role: Role::Broker,
        address: "192.0.2.1:7400".to_owned(),
        number: 1,
        joiner: Role::ServiceManager,
        may: [Permission::Request].into(),
        until: at(3600),
    };
    SignedInvitation::sign(invitation, &broker, KeyChain::default())
}
