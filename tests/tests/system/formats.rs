//! The stored form of every fact. A change here breaks the journals that exist: it takes a new version
//! of the kind, and the old bytes stay in the golden file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::actor::common::{self, CommonFact};
use tenure_core::actor::fact::Memo;
use tenure_core::actor::invitations::{Newcomer, PeerRelation};
use tenure_core::actor::order::Order;
use tenure_core::actor::settings::SettingChange;
use tenure_core::broker::facts as broker;
use tenure_core::broker::forwarding::{Accepted, Neighbour, Reach};
use tenure_core::broker::needs::ServiceId;
use tenure_core::broker::orders::{OrderOutcome, UnitOrder};
use tenure_core::broker::quota::Quota;
use tenure_core::broker::rules::Source;
use tenure_core::broker::sharing::Sharing;
use tenure_core::driver::{Epoch, UnitId};
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::{ActorId, Scheme, Signer};
use tenure_core::model::keys::{KeyChain, KeyChange, KeyStatement, SignedStatement};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::{Attributes, Constraints, Expr, Value};
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::Fact;
use tenure_core::service::definition::{Behaviour, Definition};
use tenure_core::service::member::{MemberId, Members};
use tenure_core::service::slo::{Met, Slo};
use tenure_core::service::steps::{Kind, Step, Steps};
use tenure_core::service_manager::GateAnswer;
use tenure_core::service_manager::advice::Advice;
use tenure_core::service_manager::ambiguity::{Claim, Claimant, Rule};
use tenure_core::service_manager::facts as sm;
use tenure_core::service_manager::group::{Handling, Why};
use tenure_core::service_manager::hosts::OtherClaim;
use tenure_core::service_manager::machine::AfterLeave;
use tenure_core::service_manager::plan::{
    Artefact, Lacking, NodePlacement, NodeType, OnFailure, Placed, PlanNode, PlanOutcome,
    PlanRequest, Profile, WantedPackages, WantedPart,
};
use tenure_core::service_manager::sequence::{After, Gate, On};
use tenure_core::service_manager::services::Found;
use tenure_core::site_authority::facts as site;
use tenure_core::site_authority::machine::CloseReason;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::evidence::EvidenceOutline;
use tenure_core::ticket::link::{Clauses, DelegationId, Generation, Link, SignedLink};
use tenure_core::ticket::receipt::{Receipt, Return};
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::endorsement::{Endorsement, SignedEndorsement};
use tenure_core::wire::handover::{Handover, Hop, HopAnswer, Outcome};
use tenure_core::wire::hosts::{Contest, ForeignClaim, HostClaim, HostLease, Hosts};
use tenure_core::wire::invitation::{
    Invitation, JoinFault, Permission, Permissions, SignedInvitation,
};
use tenure_core::wire::message::{Envelope, Header, LeasedUnit, Message, Sealed, Sequence};
use tenure_core::wire::need::{Need, Want};
use tenure_core::wire::offer::{Offer, OfferPart, Reply, Waiting};
use tenure_core::wire::part::Part;
use tenure_core::wire::portion::{Portion, PortionOutcome};
use tenure_core::wire::proviso::{History, Provisos};
use tenure_core::wire::recall::{Level, Notice};
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::{Item, Request};
use tenure_tests::check_golden;

/// What the sample facts are made of.
pub(crate) struct Parts {
    pub(crate) broker: ActorId,
    /// A delegation.
    pub(crate) root: Ticket,
    /// A ticket cut from it.
    pub(crate) ticket: Ticket,
    pub(crate) request: Request,
    pub(crate) receipt: Receipt,
    pub(crate) term: Term,
    pub(crate) properties: Properties,
    pub(crate) attributes: Attributes,
}

pub(crate) const LEASE: LeaseId = LeaseId { number: 7, part: 1 };
pub(crate) const UNIT: UnitId = UnitId(300);
pub(crate) const EPOCH: Epoch = Epoch(3);

fn units(units: u32) -> NonZeroU32 {
    NonZeroU32::new(units).unwrap()
}

pub(crate) fn parts() -> Parts {
    let site = Signer::from_seed(Scheme::Ed25519, [1; 32]);
    let broker = Signer::from_seed(Scheme::Ed25519, [2; 32]);
    let guest = Signer::from_seed(Scheme::Ed25519, [3; 32]).id();
    let term = Term::lasting(Time::from_secs(60), Span::HOUR).unwrap();
    let image = Expr::parse(r#"image in {"debian"}"#).unwrap();
    let link = Link {
        parent: None,
        issuer: site.id(),
        holder: broker.id(),
        resource: Name::literal("node"),
        units: units(70),
        term,
        constraints: Constraints::NONE,
        clauses: Clauses::NONE,
        delegation: Some(Generation { delegation: 1, generation: 2 }),
        extends: None,
        serial: 9,
    };
    let root = Ticket::root_of(SignedLink::sign(link.clone(), &site));
    let link = Link {
        parent: Some(root.hash()),
        issuer: broker.id(),
        holder: guest,
        units: units(4),
        constraints: [image].into_iter().collect(),
        clauses: Clauses::NONE,
        delegation: None,
        extends: Some(root.hash()),
        ..link
    };
    let ticket = root.with(SignedLink::sign(link, &broker));
    let what = Return {
        site: site.id(),
        link: ticket.hash(),
        issuer: broker.id(),
        units: units(4),
        term,
        number: 0,
    };
    let properties =
        Properties::try_from(BTreeMap::from([(Name::literal("host"), "n1".to_owned())])).unwrap();
    let item = Item { min_units: units(2), ..Item::new(Name::literal("node"), units(4)) };
    let request = Request {
        id: RequestId { origin: guest, number: 7 },
        items: vec![item],
        earliest: Time::from_secs(60),
        latest: Time::from_secs(90),
        duration: Span::HOUR,
        min_duration: Span::HOUR,
        provisos: Provisos::NONE,
        history: History::first(Time::ZERO),
        receipts: Vec::new(),
        reply: Reply::Grant,
        answer_by: Time::from_secs(1_000),
        properties: properties.clone(),
    };
    let attributes = Attributes::from([
        (Name::literal("cpus"), Value::from(-1)),
        (Name::literal("fast"), Value::from(true)),
        (Name::literal("memory"), Value::read("16GiB")),
    ]);
    let receipt = Receipt::sign(what, &site);
    Parts { broker: broker.id(), root, ticket, request, receipt, term, properties, attributes }
}

/// The signed answer of a site about its clock.
pub(crate) fn pong(p: &Parts) -> Sealed {
    let (from, to) = (p.root.site(), p.ticket.bottom().issuer);
    let sequence = Sequence { position: 7, index: Sequence::VOLATILE };
    let header = Header { from, to, sequence, at: Time::from_secs(90) };
    let signer = Signer::from_seed(Scheme::Ed25519, [1; 32]);
    let envelope = Envelope { header, message: Message::Pong { asked: Time::from_secs(60) } };
    envelope.seal(&mut Credentials::new(signer))
}

/// The statement that a key is in force.
fn rotated() -> SignedStatement {
    let [old, new] = [1, 4].map(|secret| Signer::from_seed(Scheme::Ed25519, [secret; 32]));
    let change = KeyChange::Rotated { key: new.key() };
    let statement = KeyStatement { actor: old.id(), number: 1, at: Time::from_secs(60), change };
    SignedStatement::sign(statement, &old, Some(&new))
}

/// The statement that the key before it is void.
fn revoked() -> SignedStatement {
    let [old, new] = [1, 4].map(|secret| Signer::from_seed(Scheme::Ed25519, [secret; 32]));
    let honoured = [Hash::of("link", &[b"one"])].into();
    let change = KeyChange::Revoked { key: old.key(), honoured };
    let statement = KeyStatement { actor: old.id(), number: 2, at: Time::from_secs(61), change };
    SignedStatement::sign(statement, &new, None)
}

pub(crate) fn key_chain() -> KeyChain {
    vec![rotated(), revoked()].try_into().unwrap()
}

/// A setting that was changed.
fn changes() -> Vec<SettingChange> {
    let (was, is) = (Some("1s".to_owned()), None);
    vec![SettingChange { key: "leave-before".to_owned(), was, is }]
}

/// One offer, of what the ticket is for.
pub(crate) fn offers(p: &Parts) -> Vec<Offer> {
    let link = p.ticket.bottom();
    let part = OfferPart {
        item: 0,
        site: p.ticket.site(),
        units: link.units,
        term: link.term,
        price: None,
        edge: None,
    };
    vec![Offer { parts: vec![part] }]
}

pub(crate) fn waiting() -> Waiting {
    let expected = Some(Time::from_secs(5));
    Waiting { place: 2, expected, reason: "3 are free".to_owned() }
}

pub(crate) fn busy() -> Refusal {
    Refusal::Busy {
        resource: Name::literal("node"),
        asked: 4,
        free: 3,
        earliest: Some(Time::from_secs(5)),
        in_the_way: Vec::new(),
    }
}

fn order() -> Order {
    let digest = Hash::of("test", &[b"body"]);
    Order { key: "nightly".to_owned(), part: "3.1".to_owned(), who: "uid 7".to_owned(), digest }
}
pub(crate) fn level(p: &Parts) -> Level {
    Level { number: 1, units: 2, from: p.term.start() }
}

pub(crate) fn told(p: &Parts) -> Notice {
    let (link, at) = (p.ticket.hash(), p.term.end());
    Notice { link, number: 1, units: 2, at, victims: vec![UNIT], unclaimed: false }
}

fn reason() -> String {
    "3 needed, 0 held".to_owned()
}

fn service_manager_facts(p: &Parts) -> Vec<sm::Fact> {
    [request_facts(p), lease_facts(p), gate_facts(p), plan_facts(p), service_facts(p)].concat()
}

/// The facts of a service manager about requests, tickets and groups.
fn request_facts(p: &Parts) -> Vec<sm::Fact> {
    let refusal = busy();
    let tickets = || vec![(0, p.ticket.clone())];
    let memo = Some(Memo(vec![1, 2, 3]));
    vec![
        sm::SignalObserved { signal: Name::literal("demand"), value: -2 }.into(),
        sm::MapperAnswered { round: 300, memo, wake: Some(Time::from_secs(1)) }.into(),
        sm::Asked {
            broker: p.broker,
            slice: Name::literal("main"),
            request: p.request.clone(),
            configuration: p.properties.clone(),
            handling: Handling {
                bundle: true,
                after: vec![After { item: Some(1), on: On::Item(0), gate: Gate::Join }],
                ..Handling::default()
            },
            grows: Some(LEASE),
            reason: reason(),
        }
        .into(),
        sm::Granted { number: 7, tickets: tickets() }.into(),
        sm::AskRefused { number: 7, refusal: refusal.clone(), offers: offers(p) }.into(),
        sm::Queued { number: 7, waiting: waiting(), position: 300 }.into(),
        sm::Offered {
            number: 7,
            offers: offers(p),
            until: Some(Time::from_secs(1)),
            refusal: Some(refusal),
        }
        .into(),
        sm::Accepted { number: 7, offer: 1 }.into(),
        sm::GaveUp { number: 7 }.into(),
        sm::TicketTaken {
            lease: LEASE,
            ticket: p.ticket.clone(),
            slice: Name::literal("main"),
            configuration: p.properties.clone(),
            keep: true,
        }
        .into(),
        sm::RedeemBegun { lease: LEASE }.into(),
        sm::TicketsSplit { lease: LEASE, links: vec![p.ticket.bottom().clone()] }.into(),
        sm::ReceiptTaken { receipt: p.receipt.clone() }.into(),
        sm::GroupAsked {
            group: 7,
            before: Some(5),
            start: Time::from_secs(1),
            request: p.request.clone(),
            brokers: vec![p.broker],
            tries: 3,
            avoid: [p.broker].into(),
            slice: Name::literal("main"),
            configuration: p.properties.clone(),
            handling: Handling::default(),
            reason: reason(),
        }
        .into(),
        sm::GroupHeld { group: 7, offers: vec![1, 2] }.into(),
        sm::GroupGranted { group: 7 }.into(),
        sm::GroupBroken { group: 7, why: Why::NotHeld(8) }.into(),
        sm::GroupWhole { group: 7 }.into(),
        sm::GroupBroken { group: 7, why: Why::Late(LEASE) }.into(),
    ]
}

/// The facts of a service manager about leases.
fn lease_facts(p: &Parts) -> Vec<sm::Fact> {
    let unit = LeasedUnit {
        unit: UNIT,
        epoch: EPOCH,
        quantity: NonZeroU32::MIN,
        properties: p.properties.clone(),
    };
    let modified = unit.clone();
    vec![
        sm::Leased { lease: LEASE, term: p.term, units: vec![unit] }.into(),
        sm::RedeemRefused { lease: LEASE, refusal: Refusal::Forbidden }.into(),
        sm::Joined { lease: LEASE, unit: UNIT, error: None }.into(),
        sm::ExtensionAsked {
            lease: LEASE,
            broker: p.broker,
            request: p.request.clone(),
            victims: vec![UNIT],
            reason: reason(),
        }
        .into(),
        sm::ExtensionGranted { lease: LEASE, ticket: p.ticket.clone() }.into(),
        sm::ExtensionDenied { lease: LEASE, refusal: Some(busy()) }.into(),
        sm::Extended { lease: LEASE }.into(),
        sm::ReturnBegun { lease: LEASE, part: Part::Units(vec![UNIT]), reason: reason() }.into(),
        sm::PartReturned { lease: LEASE, receipts: vec![p.receipt.clone()] }.into(),
        sm::ReturnRefused { lease: LEASE, refusal: Refusal::Forbidden }.into(),
        sm::ShrinkBegun { lease: LEASE }.into(),
        sm::Shrunk { lease: LEASE }.into(),
        sm::UnwantedGranted { number: 7, tickets: vec![(0, p.ticket.clone())] }.into(),
        sm::LeaveBegun { lease: LEASE, then: AfterLeave::Close }.into(),
        sm::Left { lease: LEASE, unit: UNIT, error: Some("hung".to_owned()) }.into(),
        sm::CloseBegun { lease: LEASE }.into(),
        sm::SiteClosed { lease: LEASE, refusal: None, receipts: vec![p.receipt.clone()] }.into(),
        sm::Credited { lease: LEASE }.into(),
        sm::TermOver { lease: LEASE }.into(),
        sm::LeaseForgotten { lease: LEASE }.into(),
        sm::RecallTold { lease: LEASE, told: told(p) }.into(),
        sm::UnitFailed { lease: LEASE, unit: UNIT, why: "no answer".to_owned() }.into(),
        sm::ReplacementWanted { lease: LEASE, units: vec![UNIT], needed: true }.into(),
        sm::VictimsNamed { lease: LEASE, victims: vec![UNIT] }.into(),
        sm::RecallBegun { lease: LEASE, link: p.ticket.hash(), units: vec![UNIT] }.into(),
        sm::UnitsRecalled { lease: LEASE, link: p.ticket.hash(), units: vec![UNIT], stay: 2 }
            .into(),
        sm::RecallLifted { lease: LEASE }.into(),
        sm::RecallAsked { link: p.ticket.hash(), level: level(p) }.into(),
        sm::RecallAnswered { link: p.ticket.hash(), at: p.term.end(), enforced: true }.into(),
        sm::RecallRefused { link: p.ticket.hash(), refusal: Refusal::Forbidden }.into(),
        sm::Warned { lease: LEASE, unit: UNIT, number: 1, error: None }.into(),
        sm::JoinRefused { lease: LEASE, unit: UNIT, error: "busy".to_owned() }.into(),
        sm::Unblocked { lease: LEASE, gate: Gate::Redeem, configuration: p.properties.clone() }
            .into(),
        sm::LeaveHastened { lease: LEASE, by: p.term.start() }.into(),
        sm::LeaveRefused { lease: LEASE, unit: UNIT, error: "a build runs".to_owned() }.into(),
        sm::LeaveForced { lease: LEASE }.into(),
        sm::RestWanted { lease: LEASE }.into(),
        sm::RestBegun { lease: LEASE, number: 1, units: NonZeroU32::MIN, from: p.term.start() }
            .into(),
        sm::RestReturned { lease: LEASE, receipts: vec![p.receipt.clone()] }.into(),
        sm::RestRefused { lease: LEASE, refusal: Refusal::Forbidden }.into(),
        sm::RestCredited { lease: LEASE }.into(),
        sm::UsageReported { lease: LEASE, unit: UNIT, used: Span::HOUR }.into(),
        sm::Woken {}.into(),
        sm::ModifyBegun { lease: LEASE, configuration: p.properties.clone() }.into(),
        sm::Modified { lease: LEASE, units: vec![modified] }.into(),
        sm::ModifyRefused { lease: LEASE, refusal: Refusal::ModifyFailed("no".to_owned()) }.into(),
        sm::Notified { lease: LEASE, unit: UNIT, error: None }.into(),
        sm::TicketLapsed { lease: LEASE }.into(),
        sm::ReclaimBegun { part: p.ticket.hash() }.into(),
        sm::ReclaimEnded { part: p.ticket.hash(), redeemed: true }.into(),
        sm::Revised { request: p.request.clone(), reason: reason() }.into(),
    ]
}

/// The facts of a service manager about plans of packages.
fn plan_facts(p: &Parts) -> Vec<sm::Fact> {
    let text = str::to_owned;
    let amounts = || BTreeMap::from([(text("memory"), text("4GiB"))]);
    let package = || text("svc/web/1.0/main/1.0");
    let part = WantedPart {
        count: Some(2),
        package: Some(package()),
        needs: amounts(),
        condition: Some(text("cpus >= 2")),
        only: Some(vec![text("site/u1")]),
        ..WantedPart::new("web")
    };
    let node = NodeType { capacity: amounts(), ..NodeType::default() };
    let wanted = WantedPackages {
        nodes: BTreeMap::from([(Name::literal("node"), node)]),
        parts: vec![part],
        uses: vec![(text("web/1"), text("web/2"), 3)],
        objective: vec![text("nodes")],
        ..WantedPackages::default()
    };
    let request = PlanRequest {
        wanted,
        on_failure: OnFailure::Replan,
        accept: true,
        excluded: vec![(package(), text("site/u2"))],
        replaces: Some(3),
        lease: Some(Span::HOUR),
        scope: [Name::literal("spare")].into(),
        ..PlanRequest::new(Name::literal("main"), p.term.end())
    };
    let placement = NodePlacement {
        placement: BTreeMap::from([(text("web"), vec![text("site/u1"), text("site/u3")])]),
        reused: vec![text("web/1")],
        install: BTreeMap::from([(text("site/u3"), vec![package()])]),
    };
    let artefact =
        Artefact { file: text("web.tar"), sha256: "0".repeat(64), program: vec![text("run")] };
    let profile = Profile {
        package: package(),
        needs: amounts(),
        artefact: Some(artefact),
        ..Profile::default()
    };
    let placed = Placed { placement, profiles: vec![profile], proven: true, others: Vec::new() };
    let at = PlanNode { lease: LEASE, site: p.ticket.site(), unit: UNIT, epoch: Epoch(3) };
    let nodes = BTreeMap::from([(text("site/u1"), at)]);
    let error = || Some(text("no room"));
    let items = vec![Item::new(Name::literal("node"), NonZeroU32::MIN)];
    let lacking = Lacking { items, broker: None, reason: text("plan 4 lacks nodes") };
    vec![
        sm::PlanRequested { plan: 4, request }.into(),
        sm::PlanLeasing { plan: 4, request: 9, lacking, nodes: nodes.clone() }.into(),
        sm::PlanLeased { plan: 4, nodes: nodes.clone() }.into(),
        sm::PlanProposed { plan: 4, placed, worth: text("nodes 2"), nodes }.into(),
        sm::PlanAccepted { plan: 4 }.into(),
        sm::PackageReported { plan: 4, number: 7, error: error() }.into(),
        sm::PackageRemoved { plan: 4, number: 7, error: None }.into(),
        sm::PlanEnded { plan: 4, outcome: PlanOutcome::Replaced, why: vec![text("no room")] }
            .into(),
        sm::PlanForgotten { plan: 4 }.into(),
    ]
}

/// The facts of a service manager about services.
fn service_facts(p: &Parts) -> Vec<sm::Fact> {
    let service = || Name::literal("batch");
    let slo = Slo {
        rule: Some(Expr::parse_measured("oldest-wait < 10m").unwrap()),
        want: Expr::parse_measured("busy-units").unwrap(),
        urgency: 55,
        resource: Name::literal("node"),
        requirement: Some(Expr::parse("cpus >= 2").unwrap()),
    };
    let behaviour = Behaviour { most: Some(4), ..Behaviour::default() };
    let adapter =
        r#"{"name": "exec", "sense": ["busy"], "every": "30s", "tries": 3, "quiet": true}"#;
    let adapter = Some(serde_json::from_str(adapter).unwrap());
    let slo = [(Name::literal("wait"), slo)].into();
    let gold = r#"{"slos": ["wait"], "target": "99.5%", "window": "30d"}"#;
    let sla = [(Name::literal("gold"), serde_json::from_str(gold).unwrap())].into();
    let definition = Definition { slo, behaviour, adapter, sla };
    let unit = (p.ticket.site(), UNIT);
    let advice = Advice {
        asks: vec![(node_kind(), 2)],
        returns: vec![(LEASE, 1)],
        extensions: vec![(LEASE, 4)],
    };
    let kpis = r#"{"busy-units": "2", "pending-units{partition=\"big\"}": "3"}"#;
    let kpis = serde_json::from_str(kpis).unwrap();
    vec![
        sm::ServiceDefined { service: service(), definition }.into(),
        sm::ServiceRemoved { service: service() }.into(),
        sm::ServiceReported { service: service(), kpis, seen: Found::Running, busy: [unit].into() }
            .into(),
        sm::MembersTold { service: service(), members: members() }.into(),
        sm::MemberAmbiguous { member: member(), claims: claims(p) }.into(),
        sm::AmbiguitySettled {
            member: member(),
            keep: claims(p).remove(1).by,
            by: Some(Rule::SignedLeaseWins),
        }
        .into(),
        sm::MemberContested {
            member: member(),
            claims: claims(p),
            others: vec![other(p)],
            joining: vec![(LEASE, UNIT)],
        }
        .into(),
        sm::MemberCeded { member: member(), by: Some(Rule::FirstSeen) }.into(),
        sm::ServiceAdvised { service: service(), advice }.into(),
        sm::UnitBlacklisted { service: service(), unit, until: Some(p.term.end()) }.into(),
        sm::ServiceStale { service: service() }.into(),
        sm::SloAssessed {
            service: service(),
            slo: Name::literal("wait"),
            met: Met::No,
            want: Some(2),
        }
        .into(),
        sm::NeedStated { broker: p.broker, need: need(p) }.into(),
        sm::NeedAnswered { broker: p.broker, service: service(), revision: 300 }.into(),
        sm::HostsStated { broker: p.broker, hosts: hosts(p) }.into(),
        sm::HostsAnswered {
            broker: p.broker,
            service: service(),
            revision: 300,
            contests: vec![contest(p)],
        }
        .into(),
        sm::WorkTold { service: service(), work: vec![(unit, 7200)] }.into(),
        sm::SiteUnheard { lease: LEASE, since: p.term.start() }.into(),
        sm::UnitReset { lease: LEASE, unit: UNIT }.into(),
    ]
}

/// A member that is up and one that is down.
fn members() -> Members {
    let members = r#"{"node7": true, "node8": false}"#;
    serde_json::from_str(members).unwrap()
}

fn member() -> MemberId {
    MemberId::new("node7").unwrap()
}

/// Claims of a service's software and of a lease.
fn claims(p: &Parts) -> Vec<Claim> {
    let by = |service, unit| Claimant { service: Name::literal(service), unit };
    let since = p.term.start();
    let lease = Some((LEASE, p.ticket.hash()));
    vec![
        Claim { by: by("web", None), since, lease: None },
        Claim { by: by("batch", Some((p.ticket.site(), UNIT))), since, lease },
    ]
}

/// The hosts of a service: one that is leased, and one that is not.
pub(crate) fn hosts(p: &Parts) -> Hosts {
    let (since, ticket) = (p.term.start(), p.ticket.hash());
    let lease = HostLease { site: p.ticket.site(), unit: UNIT, ticket };
    let hosts = [([7; 32], Some(lease)), ([8; 32], None)];
    let hosts = hosts.map(|(host, lease)| HostClaim { host: Hash::from_bytes(host), since, lease });
    Hosts { service: Name::literal("batch"), revision: 300, hosts: hosts.into() }
}

/// A claim of another guest.
pub(crate) fn contest(p: &Parts) -> Contest {
    let by = Some((p.request.id.origin, Name::literal("web")));
    let claim = ForeignClaim { by, since: p.term.start(), ticket: Some(p.ticket.hash()) };
    Contest { host: Hash::from_bytes([7; 32]), claim }
}

fn other(p: &Parts) -> OtherClaim {
    OtherClaim { broker: p.broker, claim: contest(p).claim }
}

/// A need with a step of each kind.
pub(crate) fn need(p: &Parts) -> Need {
    let kind = node_kind();
    let step = |units, urgency, claim| Step { units, urgency, claim };
    let steps = Steps::checked(vec![step(4, 80, Some(55)), step(6, 40, None)]).expect("they fall");
    let want = Want { kind, steps, tickets: vec![p.ticket.hash()], elsewhere: 2 };
    Need { service: Name::literal("batch"), revision: 300, wants: vec![want] }
}

fn node_kind() -> Kind {
    let requirement = Some(Expr::parse("cpus >= 2").unwrap());
    Kind { resource: Name::literal("node"), requirement }
}

fn unit_order(p: &Parts) -> UnitOrder {
    let of = |service| ServiceId { guest: p.request.id.origin, service: Name::literal(service) };
    UnitOrder {
        claimant: of("batch"),
        kind: node_kind(),
        holder: of("web"),
        ticket: p.ticket.hash(),
        units: NonZeroU32::MIN,
        claim: 55,
        worth: 10,
    }
}

/// The facts of a service manager about leases at gates.
fn gate_facts(p: &Parts) -> Vec<sm::Fact> {
    vec![
        sm::GateReached { lease: LEASE, gate: Gate::Join, until: p.term.start() }.into(),
        sm::GateAnswered {
            lease: LEASE,
            gate: Gate::Redeem,
            answer: GateAnswer::GoOn(p.properties.clone()),
            reason: "it has a master".to_owned(),
        }
        .into(),
    ]
}

fn broker_facts(p: &Parts) -> Vec<broker::Fact> {
    let request = p.request.id;
    let refusal = Refusal::TooMany { resource: Name::literal("node"), asked: 400, most: 140 };
    vec![
        broker::DelegationTaken { ticket: p.root.clone(), attributes: p.attributes.clone() }.into(),
        broker::DelegationEnded { delegation: DelegationId { issuer: p.root.site(), number: 1 } }
            .into(),
        broker::Requested { request: p.request.clone() }.into(),
        broker::TicketsCut {
            request,
            tickets: vec![(0, p.ticket.clone())],
            reason: "free".to_owned(),
        }
        .into(),
        broker::RequestRefused {
            request,
            refusal: refusal.clone(),
            offers: offers(p),
            reason: "never".to_owned(),
        }
        .into(),
        broker::RequestQueued { request, waiting: waiting() }.into(),
        broker::OffersHeld {
            request,
            offers: vec![vec![(0, p.ticket.clone())]],
            until: Time::from_secs(1),
            refusal: None,
            reason: "1 ways".to_owned(),
        }
        .into(),
        broker::OfferAccepted { request, offer: 1 }.into(),
        broker::OfferPassed { request, offer: 1 }.into(),
        broker::HoldEnded { request, refusal: Refusal::Withdrawn }.into(),
        broker::RequestPlanned {
            request,
            offers: offers(p),
            refusal: Some(refusal),
            reason: "1 ways".to_owned(),
        }
        .into(),
        broker::ReceiptTaken { receipt: p.receipt.clone() }.into(),
        broker::RequestForgotten { request }.into(),
        broker::QuotaSet {
            whose: Some(p.ticket.bottom().holder),
            quota: Some(Quota { units: Some(8), ..Quota::default() }),
            by: Source::Operator,
        }
        .into(),
        broker::RecallAsked { link: p.ticket.hash(), level: level(p) }.into(),
        broker::RecallAnswered { link: p.ticket.hash(), at: p.term.end(), enforced: true }.into(),
        broker::RecallRefused { link: p.ticket.hash(), refusal: Refusal::Forbidden }.into(),
        broker::RecallTold {
            delegation: DelegationId { issuer: p.root.site(), number: 1 },
            told: Notice { victims: Vec::new(), unclaimed: true, ..told(p) },
        }
        .into(),
    ]
}

/// What brokers record of services and of their mappers.
fn order_facts(p: &Parts) -> Vec<broker::Fact> {
    vec![
        broker::NeedNoted { guest: p.request.id.origin, need: need(p) }.into(),
        broker::HostsNoted { guest: p.request.id.origin, hosts: hosts(p) }.into(),
        broker::BoundsSet {
            resource: Name::literal("node"),
            tenure: Span::HOUR,
            most: Some(25),
            window: Span::DAY,
        }
        .into(),
        broker::OrderPlaced { number: 1, order: unit_order(p), due: p.term.end(), stay: 1 }.into(),
        broker::OrderEnded {
            order: 1,
            outcome: OrderOutcome::Delivered,
            reason: "2 granted".to_owned(),
        }
        .into(),
        broker::OrdersAdvised { orders: vec![unit_order(p)] }.into(),
        broker::MapperAnswered { round: 1, memo: None, wake: None }.into(),
        broker::Woken {}.into(),
    ]
}

fn resale_facts(p: &Parts) -> Vec<broker::Fact> {
    let delegation = DelegationId { issuer: p.root.site(), number: 1 };
    vec![
        broker::ReclaimBegun { ticket: p.ticket.hash() }.into(),
        broker::ReclaimEnded { ticket: p.ticket.hash(), redeemed: false }.into(),
        broker::Revised { request: p.request.clone() }.into(),
        broker::DelegationIssued {
            ticket: p.ticket.clone(),
            attributes: p.attributes.clone(),
            until: p.term.end(),
        }
        .into(),
        broker::DelegationAcknowledged { number: 1, generation: 2 }.into(),
        broker::IssuedDelegationEnded { number: 1 }.into(),
        broker::ReturnBegun {
            ticket: p.root.clone(),
            number: 1,
            units: units(2),
            from: p.term.start(),
        }
        .into(),
        broker::PartReturned { delegation, receipts: vec![p.receipt.clone()] }.into(),
        broker::ReturnRefused { delegation, refusal: Refusal::TooLate(p.term.end()) }.into(),
        broker::ReturnCredited { delegation }.into(),
        broker::SharingSet {
            with: p.ticket.bottom().holder,
            sharing: Some(Sharing { units: Some(8), reserve: 2, ..Sharing::default() }),
            by: Source::Configuration,
        }
        .into(),
        broker::LotOpened { number: 1, with: p.ticket.bottom().holder, from: delegation }.into(),
        broker::SharingReviewed { next: Some(p.term.end()) }.into(),
        broker::SellingSet { sells: false }.into(),
    ]
    .into_iter()
    .chain(forwarding_facts(p))
    .chain(portion_facts(p))
    .collect()
}

/// A request that is handed on.
pub(crate) fn handover(p: &Parts) -> Handover {
    let header = Header {
        from: p.request.id.origin,
        to: p.root.bottom().holder,
        sequence: Sequence { position: 1, index: 0 },
        at: p.term.start(),
    };
    let sealed = Envelope { header, message: Message::Request(p.request.clone()) };
    let mut credentials = Credentials::new(Signer::from_seed(Scheme::Ed25519, [1; 32]));
    Handover {
        sealed: sealed.seal(&mut credentials),
        path: vec![p.root.bottom().holder],
        asked: [p.root.bottom().holder].into(),
        hops: 3,
        asks: 15,
        answer_by: p.term.start(),
    }
}

fn forwarding_facts(p: &Parts) -> Vec<broker::Fact> {
    let (request, other) = (p.request.id, p.root.bottom().holder);
    let accept = Accepted { types: [Name::literal("node")].into(), longest: Some(Span::HOUR) };
    vec![
        broker::NeighbourSet {
            with: other,
            neighbour: Some(Neighbour { forward: true, accept: Some(accept) }),
            by: Source::Operator,
        }
        .into(),
        broker::RelationPlanned {
            newcomer: Newcomer::Invited(7),
            relation: PeerRelation::Forward { units: Some(4) },
        }
        .into(),
        broker::RequestSealed { request, sealed: handover(p).sealed, reach: Reach::default() }
            .into(),
        broker::RequestHanded { request, handover: handover(p) }.into(),
        broker::RequestPassed {
            request,
            to: other,
            until: p.term.start(),
            reason: "none is free".to_owned(),
        }
        .into(),
        broker::PassAnswered {
            request,
            from: other,
            outcome: Outcome::Granted(vec![(0, p.ticket.clone())]),
            trail: vec![Hop {
                broker: other,
                said: HopAnswer::Refused(Refusal::Forbidden),
                took: Span::SECOND,
            }],
        }
        .into(),
        broker::PassLapsed { request }.into(),
    ]
}

/// Three units of item 0, from the start of the term on.
pub(crate) fn portion(p: &Parts) -> Portion {
    let start = p.term.start();
    let until = start.plus(Span::from_secs(10));
    Portion { round: 1, start, units: [(0, units(3))].into(), until }
}

fn portion_facts(p: &Parts) -> Vec<broker::Fact> {
    let (request, other) = (p.request.id, p.root.bottom().holder);
    let Portion { start, until, .. } = portion(p);
    let reason = || "met together with others".to_owned();
    vec![
        broker::PortionHanded { request, handover: handover(p), portion: portion(p) }.into(),
        broker::PortionKept {
            request,
            round: 1,
            start,
            gather_by: start.plus(Span::from_secs(5)),
            until,
            tickets: vec![(0, p.ticket.clone())],
            refusal: Some(Refusal::Forbidden),
            reason: reason(),
        }
        .into(),
        broker::PortionPassed { request, to: other, until, reason: reason() }.into(),
        broker::PortionAnswered {
            request,
            from: other,
            outcome: PortionOutcome::Held {
                units: portion(p).units,
                until,
                refusal: Some(Refusal::Forbidden),
            },
            trail: vec![Hop { broker: other, said: HopAnswer::Held(None), took: Span::SECOND }],
        }
        .into(),
        broker::PortionReserved { request, refusal: Some(Refusal::Forbidden) }.into(),
        broker::PortionsTaken { request }.into(),
        broker::PortionsGranted { request }.into(),
        broker::PortionsReleased { request, next: Some(until), reason: reason() }.into(),
    ]
}

/// What operators do to units.
fn operators_facts() -> Vec<site::Fact> {
    vec![
        site::UnitAdded {
            resource: Name::literal("node"),
            name: Name::literal("rack1-n07"),
            attributes: Attributes::default(),
        }
        .into(),
        site::UnitDescribed { unit: UNIT, attributes: Attributes::default() }.into(),
        site::StacksPlanned {
            stacks: BTreeMap::from([(
                Name::literal("bench"),
                BTreeSet::from([Name::literal("p1"), Name::literal("r1")]),
            )]),
        }
        .into(),
        site::StockPlanned {
            resource: Name::literal("node"),
            units: 4,
            named: [Name::literal("rack1-n07")].into(),
        }
        .into(),
        site::UnitDrained { unit: UNIT }.into(),
        site::UnitResumed { unit: UNIT }.into(),
        site::UnitQuarantined { unit: UNIT, why: "it smells".to_owned() }.into(),
        site::UnitRestored { unit: UNIT }.into(),
        site::UnitNeeded { unit: UNIT, by: Time::from_secs(5) }.into(),
        site::UnitFailed { unit: UNIT, epoch: Epoch(3), why: "no answer".to_owned() }.into(),
    ]
}

fn site_facts(p: &Parts) -> Vec<site::Fact> {
    let lease = p.ticket.hash();
    let failed = CloseReason::Failed(Refusal::SetupFailed { ready: 1, wanted: 4 });
    let error = || "no answer".to_owned();
    let receipts = || vec![p.receipt.clone()];
    let denial = site::Denial::Conflict(EvidenceOutline {
        parents: vec![vec![p.root.hash()]],
        links: vec![lease],
        at: Time::from_secs(90),
    });
    vec![
        site::Stocked {
            resource: Name::literal("node"),
            attributes: p.attributes.clone(),
            units: 70,
        }
        .into(),
        site::InventoryChanged {
            resource: Name::literal("node"),
            attributes: p.attributes.clone(),
            withdrawn: vec![UnitId(7), UnitId(300)],
        }
        .into(),
        site::DelegationIssued { ticket: p.root.clone() }.into(),
        site::DelegationAcknowledged { number: 1, generation: 2 }.into(),
        site::DelegationEnded { number: 1 }.into(),
        site::Redeemed {
            ticket: p.ticket.clone(),
            lease: LEASE,
            slice: Name::literal("main"),
            min_units: units(2),
            configuration: p.properties.clone(),
        }
        .into(),
        site::LeaseExtended { lease, ticket: p.ticket.clone(), victims: vec![UNIT] }.into(),
        site::UnitsReturned { lease, number: 1, units: vec![UNIT], receipts: receipts() }.into(),
        site::TermReturned { lease, number: 2, until: p.term.end(), receipts: receipts() }.into(),
        site::LeaseShrunk { lease, units: vec![UNIT] }.into(),
        site::RightsReturned { ticket: p.ticket.clone(), number: 0, receipts: receipts() }.into(),
        site::TicketRefused { ticket: p.ticket.clone(), denial }.into(),
        site::CameDue { lease }.into(),
        site::UnitsAssigned { lease, units: vec![UNIT], reason: "the first".to_owned() }.into(),
        site::UnitSetUp { unit: UNIT, epoch: EPOCH, properties: p.properties.clone() }.into(),
        site::UnitSetupFailed { unit: UNIT, epoch: EPOCH, error: error() }.into(),
        site::UnitTornDown { unit: UNIT, epoch: EPOCH }.into(),
        site::UnitTeardownFailed { unit: UNIT, epoch: EPOCH, error: error() }.into(),
        site::UnitReset { unit: UNIT }.into(),
        site::LeaseActivated { lease }.into(),
        site::LeaseClosed { lease, why: failed, receipts: vec![p.receipt.clone()] }.into(),
        site::TicketSurrendered {
            ticket: p.ticket.clone(),
            why: CloseReason::GivenBack,
            receipts: vec![p.receipt.clone()],
        }
        .into(),
        site::LeaseForgotten { lease }.into(),
        site::MapperAnswered { round: 1, memo: None, wake: None }.into(),
        site::Woken {}.into(),
    ]
}

fn changes_at_site(p: &Parts) -> Vec<site::Fact> {
    let lease = p.ticket.hash();
    let error = || "no answer".to_owned();
    let receipts = || vec![p.receipt.clone()];
    vec![
        site::ShareAssigned { lease, unit: UNIT, quantity: units(500) }.into(),
        site::QuantityReturned { lease, number: 1, quantity: units(200), receipts: receipts() }
            .into(),
        site::QuantityWithdrawn { resource: Name::literal("storage"), quantity: units(9) }.into(),
        site::ModificationBegun { lease, number: 1, configuration: p.properties.clone() }.into(),
        site::UnitModified {
            unit: UNIT,
            epoch: EPOCH,
            number: 1,
            properties: p.properties.clone(),
        }
        .into(),
        site::UnitModifyFailed { unit: UNIT, epoch: EPOCH, number: 1, error: error() }.into(),
        site::LeaseModified { lease, number: 1 }.into(),
        site::ModificationFailed { lease, number: 1, refusal: Refusal::ModifyFailed(error()) }
            .into(),
        site::TicketReclaimed { ticket: p.ticket.clone(), receipts: receipts() }.into(),
        site::DelegatedByHand { ticket: p.root.clone() }.into(),
        site::Recalled {
            ticket: p.ticket.clone(),
            level: level(p),
            cuts: vec![site::LeaseCut { lease, units: 1, at: p.term.end() }],
        }
        .into(),
        site::RightsRecalled { link: lease, receipts: receipts() }.into(),
        site::UnitsRecalled { lease, link: lease, units: vec![UNIT], receipts: receipts() }.into(),
        site::RecallNoted { lease, link: lease, victims: vec![UNIT] }.into(),
    ]
}

pub(crate) fn samples() -> Vec<Fact> {
    let parts = parts();
    let guest = service_manager_facts(&parts).into_iter().map(Fact::from);
    let broker = [broker_facts(&parts), order_facts(&parts), resale_facts(&parts)].concat();
    let broker = broker.into_iter().map(Fact::from);
    let site = site_facts(&parts)
        .into_iter()
        .chain(changes_at_site(&parts))
        .chain(operators_facts())
        .map(Fact::from);
    guest.chain(broker).chain(site).chain(facts_of_all_roles(&parts)).collect()
}

/// The facts that all roles have, of each role.
fn facts_of_all_roles(p: &Parts) -> Vec<Fact> {
    let (peer, ahead, signed) = (p.root.site(), Span::HOUR, invitation());
    let (called, address) = (Name::literal("lab"), Some("192.0.2.7:7400".to_owned()));
    let may = || Permissions::from([Permission::Request]);
    let facts: Vec<CommonFact> = vec![
        common::Commanded { order: order(), facts: 2 }.into(),
        common::SettingsChanged { changes: changes() }.into(),
        common::ClockCompared { peer, ahead, pong: pong(p) }.into(),
        common::KeyRotated { statement: rotated(), tell: vec![peer] }.into(),
        common::KeyRevoked { statement: revoked(), tell: Vec::new() }.into(),
        common::PeerKeysLearned { peer, chain: key_chain() }.into(),
        common::KeysNoted { peer, number: 2 }.into(),
        common::InvitationMade {
            invitation: signed.invitation.clone(),
            called: Some(called.clone()),
        }
        .into(),
        common::InvitationTaken {
            invitation: signed,
            called: called.clone(),
            may: may(),
            reached_at: address.clone(),
        }
        .into(),
        common::InvitationAnswered { peer, fault: Some(JoinFault::Role(Role::Broker)) }.into(),
        common::PeerJoined {
            peer,
            called,
            role: Role::SiteAuthority,
            address: address.clone(),
            may: may(),
            invitation: 300,
        }
        .into(),
        common::PeerChanged { peer, address, may: may() }.into(),
        common::PeerRemoved { peer }.into(),
    ];
    let guest = facts.iter().cloned().map(|fact| sm::Fact::from(fact).into());
    let broker = facts.iter().cloned().map(|fact| broker::Fact::from(fact).into());
    let site = facts.iter().cloned().map(|fact| site::Fact::from(fact).into());
    guest.chain(broker).chain(site).collect()
}

/// An invitation of a broker.
pub(crate) fn invitation() -> SignedInvitation {
    let signer = Signer::from_seed(Scheme::Ed25519, [7; 32]);
    let invitation = Invitation {
        inviter: signer.id(),
        name: Name::literal("exchange"),
        role: Role::Broker,
        address: "192.0.2.1:7400".to_owned(),
        number: 300,
        joiner: Role::ServiceManager,
        may: [Permission::Request].into(),
        until: Time::from_secs(3600),
    };
    SignedInvitation::sign(invitation, &signer, KeyChain::default())
}

/// What the same broker says of a guest.
pub(crate) fn endorsement() -> SignedEndorsement {
    let [broker, guest, site] =
        [7, 3, 1].map(|seed| Signer::from_seed(Scheme::Ed25519, [seed; 32]));
    let until = Time::from_secs(3600);
    let endorsement =
        Endorsement { broker: broker.id(), guest: guest.id(), site: site.id(), until };
    SignedEndorsement::sign(endorsement, &broker, KeyChain::default())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn every_kind_of_fact_has_its_golden_bytes() {
    let mut text = String::new();
    for fact in samples() {
        let ((kind, version), mut body) = (fact.kind(), Vec::new());
        fact.encode_into(&mut body);
        writeln!(text, "{kind} {version} {}", hex(&body)).unwrap();
    }
    check_golden("tests/golden/facts.txt", &text);
}

#[test]
fn golden_bytes_read_back_as_the_facts_they_were() {
    let golden = std::fs::read_to_string(tenure_tests::root().join("tests/golden/facts.txt"));
    let golden = golden.unwrap();
    for (line, fact) in golden.lines().zip(samples()) {
        let mut words = line.split(' ');
        let (kind, version) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
        let digits = words.next().unwrap_or_default();
        let body: Vec<u8> = (0..digits.len() / 2)
            .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        assert_eq!(Fact::decode(kind, version, &body), Ok(fact), "{kind}");
    }
}

#[test]
fn no_kind_is_without_a_sample() {
    let sampled: BTreeSet<_> = samples().iter().map(Fact::kind).collect();
    let known: BTreeSet<_> = Fact::kinds().collect();
    assert_eq!(sampled, known);
}

#[test]
fn every_cut_and_every_changed_length_of_a_fact_is_an_error_or_another_fact() {
    for fact in samples() {
        let ((kind, version), mut body) = (fact.kind(), Vec::new());
        fact.encode_into(&mut body);
        for length in 0..body.len() {
            assert!(
                Fact::decode(kind, version, &body[..length]).is_err(),
                "{kind} cut at {length}"
            );
        }
        body.push(0);
        assert!(Fact::decode(kind, version, &body).is_err(), "{kind} with a byte more");
        assert!(Fact::decode(kind, version + 1, &body).is_err(), "{kind} of a later version");
    }
}
