//! Violations: the recording of an honest run is changed in one place, and the law that this breaks is
//! named, with what is wrong.

use std::collections::BTreeSet;

use tenure_core::actor::common::PeerKeysLearned;
use tenure_core::broker::facts as broker;
use tenure_core::driver::{Epoch, Step, UnitId};
use tenure_core::model::keys::{KeyChange, KeyStatement, SignedStatement};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service::member::MemberId;
use tenure_core::service_manager::ambiguity::{Claim, Claimant};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::group::Why;
use tenure_core::service_manager::hosts::OtherClaim;
use tenure_core::service_manager::sequence::{After, Gate, On};
use tenure_core::site_authority::facts as site_authority;
use tenure_core::site_authority::facts::Denial;
use tenure_core::site_authority::facts::LeaseCut;
use tenure_core::site_authority::machine::CloseReason;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::evidence::Evidence;
use tenure_core::ticket::link::{Generation, Link, SignedLink};
use tenure_core::wire::handover::Handover;
use tenure_core::wire::hosts::ForeignClaim;
use tenure_core::wire::message::{Envelope, Header, Message, Sequence, Subject};
use tenure_core::wire::recall::Level;
use tenure_core::wire::refusal::Refusal;
use tenure_laws::LAWS;

use crate::common::world::What;
use crate::common::{
    BROKER, GUEST, HOUR, MARGIN, RIVAL, SITE, STRANGER, at, credentials, id, letter, properties,
    request, signer, term, units,
};
use crate::lives::{Tape, honest, moved, passed_on, planned, silent, stacked};

/// A change of an honest life, the law that it breaks, and part of the expected report.
struct Breach {
    law: &'static str,
    says: &'static str,
    commit: fn(&mut Tape),
}

const fn breach(law: &'static str, says: &'static str, commit: fn(&mut Tape)) -> Breach {
    Breach { law, says, commit }
}

const BREACHES: &[Breach] = &[
    breach("S1", "unit u0 of site is Ready on lease", |tape| {
        assigned(tape, 1).units = vec![UnitId(0), UnitId(3)];
    }),
    breach("S1", "unit u2 of site is Free and is put on lease", |tape| {
        assigned(tape, 1).units = vec![UnitId(2), UnitId(2)];
    }),
    breach("S1", "which has 0 of 2", |tape| {
        assigned(tape, 1).units = vec![UnitId(1), UnitId(2), UnitId(3)];
    }),
    breach("S1", "unit u99 of site does not exist", |tape| assigned(tape, 0).units[0] = UnitId(99)),
    breach("S1", "which is unknown", |tape| assigned(tape, 0).lease = delegation(tape).hash()),
    breach("S2", "by 1 at 0s", |tape| recut(tape, |link| link.units = units(3))),
    breach("S2", "which are not out", |tape| {
        let again = tape.broker("broker.receipt-taken", 0).clone();
        *tape.entry(BROKER, "broker.mapper-answered", 6) = entry(tape.end, again);
    }),
    breach("S2", "more than it has", |tape| {
        let site_authority::Fact::Stocked(fact) = tape.site("site.stocked", 0) else { panic!() };
        fact.units = 3;
    }),
    breach("S2", "are back over [10m, 1h), which is more than is left", |tape| {
        let closed = closed(tape, 0);
        closed.receipts.push(closed.receipts[0].clone());
        closed.receipts[0].what.term = term(600, HOUR);
        closed.receipts[1].what.link = closed.lease;
    }),
    breach("S2", "are back over [0s, 1h), which is more than is left", |tape| {
        closed(tape, 0).receipts[0].what.term = term(0, HOUR);
    }),
    breach("S3", "a link is of another type", |tape| {
        recut(tape, |link| link.resource = Name::literal("disk"));
    }),
    breach("S3", "a delegation stands below a ticket that is none", |tape| {
        let ticket = cut(tape).tickets[0].1.clone();
        let mut link: Link = (**ticket.bottom()).clone();
        (link.parent, link.issuer) = (Some(ticket.hash()), link.holder);
        link.delegation = Some(Generation { delegation: 7, generation: 0 });
        cut(tape).tickets[0].1 = ticket.with(SignedLink::sign(link, &signer(RIVAL)));
    }),
    breach("S4", "lets lease", |tape| tape.entry(SITE, "site.lease-activated", 0).at = at(HOUR)),
    breach("S4", "redeems a ticket for [0s, 1h)", |tape| {
        tape.entry(SITE, "site.redeemed", 0).at = at(HOUR);
    }),
    breach("S4", "rests at 1d with lease", |tape| {
        let place = tape.nth(SITE, "site.lease-activated", 0);
        let rests = tape.find(place, |what| matches!(what, What::Rested(SITE, _)));
        tape.shown[rests].what = What::Rested(SITE, at(24 * HOUR));
    }),
    breach("S4", "not its ticket's term", |tape| leased(tape, GUEST, 0).term = term(0, 2 * HOUR)),
    breach("S4", "by a ticket that extends another", |tape| {
        extended(tape).ticket = first_ticket(tape);
    }),
    breach("S4", "by a term that does not begin at its end", |tape| {
        let parent = delegation(tape);
        let mut link: Link = (**extended(tape).ticket.bottom()).clone();
        link.term = term(HOUR + 1, 2 * HOUR);
        extended(tape).ticket = parent.with(SignedLink::sign(link, &signer(BROKER)));
    }),
    breach("S5", "its margin begins at 59m50s", |tape| {
        tape.entry(GUEST, "service-manager.leased", 0).at = at(HOUR).minus(MARGIN);
    }),
    breach("S5", "believes in lease 1.0; its margin began at 59m50s", |tape| {
        let place = tape.nth(GUEST, "service-manager.leased", 0);
        let rests = tape.find(place, |what| matches!(what, What::Rested(GUEST, _)));
        tape.shown[rests].what = What::Rested(GUEST, at(HOUR).minus(MARGIN));
    }),
    breach("S5", "as ended, although it ends at 1h15m", |tape| {
        tape.entry(SITE, "site.lease-closed", 1).at = at(HOUR + 899);
    }),
    breach("S5", "in which guest still believes", |tape| {
        closed(tape, 2).why = CloseReason::GivenBack;
        still_believes(tape);
    }),
    breach("S5", "is held by rival as lease 5.0 and by guest as lease 1.0", still_believes),
    breach("S6", "ended in epoch e1, after one in Some(e1)", |tape| {
        let site_authority::Fact::UnitTornDown(fact) = tape.site("site.unit-torn-down", 0) else {
            panic!()
        };
        fact.epoch = Epoch(1);
    }),
    breach("S6", "teardown of unit u2 of site is called in epoch e0", |tape| {
        call(tape, Step::Teardown).epoch = Epoch(0);
    }),
    breach("S6", "names two calls", |tape| call(tape, Step::Teardown).epoch = Epoch(1)),
    breach("S7", "twice", |tape| {
        let service_manager::Fact::Granted(first) = tape.guest(RIVAL, "service-manager.granted", 0)
        else {
            panic!()
        };
        let tickets = first.tickets.clone();
        let second = tape.guest(RIVAL, "service-manager.granted", 1);
        let service_manager::Fact::Granted(second) = second else { panic!() };
        second.tickets = tickets;
    }),
    breach("S7", "setup of unit u0 of site called twice in epoch e1", |tape| {
        let first = tape.find(0, |what| matches!(what, What::Called(SITE, _)));
        let again = tape.shown[first].clone();
        tape.shown.insert(first + 1, again);
    }),
    breach("S7", "broker gives guest two different `granted`", |tape| {
        resend(tape, "granted", |envelope| envelope.header.at = at(1));
    }),
    breach("S8", "continues with the lease of ticket", |tape| {
        let site_authority::Fact::LeaseClosed(closed) = tape.site("site.lease-closed", 0) else {
            panic!()
        };
        let lease = closed.lease;
        let fact = site_authority::LeaseActivated { lease };
        *tape.entry(SITE, "site.unit-torn-down", 0) =
            entry(at(600), site_authority::Fact::LeaseActivated(fact));
    }),
    breach("S8", "before 1h10s", |tape| {
        tape.entry(SITE, "site.lease-forgotten", 0).at = at(HOUR);
    }),
    breach("S8", "gives the number 1 after 1", |tape| {
        let asked = tape.guest(RIVAL, "service-manager.asked", 1);
        let service_manager::Fact::Asked(asked) = asked else { panic!() };
        asked.request.id.number = 1;
    }),
    breach("S8", "forgets request", |tape| {
        let request = RequestId { origin: id(GUEST), number: 1 };
        let fact = broker::RequestForgotten { request };
        *tape.entry(BROKER, "broker.mapper-answered", 1) =
            entry(at(1), broker::Fact::RequestForgotten(fact));
    }),
    breach("S9", "facts are durable", |tape| {
        let asked = tape.nth(GUEST, "service-manager.asked", 0);
        tape.shown.swap(asked, asked + 1);
    }),
    breach("S9", "was sent before with other bytes", |tape| {
        resend(tape, "request", |envelope| envelope.message = Message::Close { tickets: vec![] });
    }),
    breach("S9", "dates a `request` at 1s", |tape| {
        sent(tape, "request").header.at = at(1);
    }),
    breach("S9", "sends guest a `leased` that its durable facts do not say", |tape| {
        let Message::Leased { units, .. } = &mut sent(tape, "leased").message else { panic!() };
        units.pop();
    }),
    breach("S9", "which no durable fact began", |tape| {
        let joins = tape.find(0, |what| matches!(what, What::Called(GUEST, _)));
        let What::Called(_, call) = &mut tape.shown[joins].what else { panic!() };
        call.epoch = Epoch(7);
    }),
    breach("S9", "sends site a `redeem` that its durable facts do not say", |tape| {
        let redeem = tape.shown[sent_at(tape, "redeem")].clone();
        let place = tape.nth(GUEST, "service-manager.joined", 0);
        tape.insert_after(place, redeem.what);
    }),
    breach("S10", "comes back with 1 facts", |tape| {
        let back = tape.find(0, |what| matches!(what, What::Recovered(..)));
        let What::Recovered(_, position, _) = &mut tape.shown[back].what else { panic!() };
        *position = 1;
    }),
    breach("S10", "of its journal, which has", |tape| {
        let asked = tape.nth(GUEST, "service-manager.asked", 0);
        let What::Durable(_, position, _) = &mut tape.shown[asked].what else { panic!() };
        *position = 0;
    }),
    breach("S10", "leased by site, whose journal does not say so", |tape| {
        leased(tape, GUEST, 0).units.swap_remove(0);
    }),
    breach("S10", "credited by broker, whose journal does not say so", |tape| {
        let taken = tape.nth(BROKER, "broker.receipt-taken", 0);
        let credited = tape.nth(RIVAL, "service-manager.credited", 0);
        tape.shown.drain(taken..credited);
    }),
    breach("S11", "came back from its journal as another", |tape| {
        let back = tape.find(0, |what| matches!(what, What::Recovered(..)));
        let What::Recovered(_, _, same) = &mut tape.shown[back].what else { panic!() };
        *same = false;
    }),
    breach(
        "S11",
        "does not follow: service manager: `Extended` has no place in `Joining`",
        |tape| {
            let lease = LeaseId { number: 1, part: 0 };
            let fact = service_manager::Extended { lease };
            *tape.entry(GUEST, "service-manager.joined", 0) =
                entry(at(0), service_manager::Fact::Extended(fact));
        },
    ),
    breach("S12", "of rival is Closed, its request Open, its ticket -", |tape| {
        let refused = tape.nth(BROKER, "broker.request-refused", 0);
        let heard = tape.nth(RIVAL, "service-manager.ask-refused", 0);
        let heard = tape.shown.remove(heard);
        tape.shown.insert(refused, heard);
    }),
    breach("S13", "with a link that broker never signed", |tape| {
        let link: Link = (**cut(tape).tickets[0].1.bottom()).clone();
        let forged = delegation(tape).with(SignedLink::sign(link, &signer(STRANGER)));
        cut(tape).tickets[0].1 = forged;
    }),
    breach("S13", "from site to guest", |tape| {
        let ticket = first_ticket(tape);
        let granted = tape.guest(RIVAL, "service-manager.granted", 0);
        let service_manager::Fact::Granted(granted) = granted else { panic!() };
        granted.tickets[0].1 = ticket;
    }),
    breach("S13", "which guest never showed it", |tape| {
        let redeem = sent_at(tape, "redeem");
        tape.shown.remove(redeem);
    }),
    breach("S13", "takes tickets for request 1 that are not what it asked for", |tape| {
        let granted = tape.guest(RIVAL, "service-manager.granted", 0);
        let service_manager::Fact::Granted(granted) = granted else { panic!() };
        granted.tickets.clear();
    }),
    breach("S14", "which only honest actors had", |tape| {
        let refusal = Refusal::Malformed("a lie".to_owned());
        refuse_for_good(tape, 0, refusal);
    }),
    breach("S14", "with evidence that convicts no actor", |tape| {
        let links = vec![first_ticket(tape).bottom().clone()];
        let evidence = Evidence { parents: vec![delegation(tape)], links, at: at(1) };
        refuse_for_good(tape, 0, Refusal::Conflict(Box::new(evidence)));
    }),
    breach("S14", "with evidence against broker, who is honest", |tape| {
        // One of these tickets had come back before the last two were cut.
        let tickets: Vec<_> = (0..4).map(|n| redeemed(tape, n)).collect();
        let links = tickets.iter().map(|ticket| ticket.bottom().clone()).collect();
        let evidence = Evidence { parents: vec![delegation(tape)], links, at: at(901) };
        refuse_for_good(tape, 3, Refusal::Conflict(Box::new(evidence)));
    }),
    breach("S15", "ended a step, but no driver was called for it", |tape| {
        let teardown = tape.find(0, |what| is_call(what, Step::Teardown));
        tape.shown.remove(teardown);
    }),
    breach("S15", "unit u2 of site is set up, but was never cleaned", |tape| {
        let unit = UnitId(2);
        let (epoch, properties) = (Epoch(9), Properties::default());
        let fact = site_authority::UnitSetUp { unit, epoch, properties };
        *tape.site("site.unit-torn-down", 0) = site_authority::Fact::UnitSetUp(fact);
    }),
    breach("S15", "is on its way, but no driver was called for it", |tape| {
        let teardown = tape.find(0, |what| is_call(what, Step::Teardown));
        tape.shown[teardown].what = What::Rested(SITE, at(600));
    }),
    breach("S16", "made no fact of an input and is another", |tape| {
        let unmoved = tape.find(0, |what| matches!(what, What::Unmoved(..)));
        let What::Unmoved(_, same) = &mut tape.shown[unmoved].what else { panic!() };
        *same = false;
    }),
    breach("S16", "refuses guest without a fact what it has a fact of", |tape| {
        let (subject, refusal) = (Subject::Ticket(first_ticket(tape).hash()), Refusal::Forbidden);
        let place = tape.nth(SITE, "site.redeemed", 0);
        let position = tape.journal_length(SITE, place);
        let sequence = Sequence { position, index: Sequence::VOLATILE };
        let header = Header { from: id(SITE), to: id(GUEST), sequence, at: at(0) };
        let envelope =
            Envelope { header, message: Message::Refused { subject, refusal, offers: Vec::new() } };
        let sealed = envelope.seal(&mut credentials(SITE));
        tape.insert_after(place, What::Sent(Box::new(envelope), sealed));
    }),
    breach("S17", "records 65 items of a request, more than 64", |tape| {
        let service_manager::Fact::Asked(fact) = tape.guest(GUEST, "service-manager.asked", 0)
        else {
            panic!()
        };
        let item = fact.request.items[0].clone();
        fact.request.items = vec![item; 65];
    }),
    breach("S18", "gives group 1 back without cause", |tape| {
        let asked = tape.guest(GUEST, "service-manager.asked", 0);
        let service_manager::Fact::Asked(asked) = asked else { panic!() };
        asked.handling.bundle = true;
        let why = Why::Lost(LeaseId { number: 1, part: 0 });
        let broken = service_manager::GroupBroken { group: 1, why };
        tape.entry(GUEST, "service-manager.mapper-answered", 1).fact =
            service_manager::Fact::GroupBroken(broken).into();
    }),
    breach("S19", "takes units for no recall", |tape| {
        let lease = redeemed(tape, 0).hash();
        let (units, receipts) = (Vec::new(), Vec::new());
        let taken = site_authority::UnitsRecalled { lease, link: lease, units, receipts };
        after_activation(tape).fact = site_authority::Fact::UnitsRecalled(taken).into();
    }),
    breach("S20", "units on lease", |tape| {
        let ticket = redeemed(tape, 0);
        let cuts = vec![LeaseCut { lease: ticket.hash(), units: 0, at: Time::ZERO }];
        let level = Level { number: 0, units: 0, from: Time::ZERO };
        let recalled = site_authority::Recalled { ticket, level, cuts };
        after_activation(tape).fact = site_authority::Fact::Recalled(recalled).into();
    }),
    breach("S21", "items of request 1 that wait for each other", |tape| {
        let asked = tape.guest(GUEST, "service-manager.asked", 0);
        let service_manager::Fact::Asked(asked) = asked else { panic!() };
        asked.handling.after = vec![After { item: Some(0), on: On::Item(0), gate: Gate::Join }];
    }),
    breach("S23", "about its keys that were never made", |tape| {
        let (old, new) = (signer(BROKER), signer(RIVAL));
        let change = KeyChange::Rotated { key: new.key() };
        let statement = KeyStatement { actor: old.id(), number: 1, at: at(0), change };
        let chain = vec![SignedStatement::sign(statement, &old, Some(&new))].try_into().unwrap();
        let learned = PeerKeysLearned { peer: old.id(), chain };
        tape.entry(GUEST, "service-manager.mapper-answered", 1).fact =
            service_manager::Fact::Common(learned.into()).into();
    }),
    breach("S22", "puts another unit than u0 on the lease of a ticket for it", |tape| {
        *tape = stacked();
        assigned(tape, 0).units = vec![UnitId(3)];
    }),
    breach("S22", "without the token of stack0", |tape| {
        *tape = stacked();
        let planned = tape.site("site.stacks-planned", 0);
        let site_authority::Fact::StacksPlanned(planned) = planned else { panic!() };
        let both = planned.stacks.values().flatten().cloned().collect();
        planned.stacks.insert(Name::literal("stack0"), both);
    }),
    breach("L1", "lease 1.0 of guest waits since 0s, was due by 31m, and is Asking", |tape| {
        let asked = tape.nth(GUEST, "service-manager.asked", 0);
        tape.stop_after(asked);
    }),
    breach("L2", "unit u2 of site is on its way back since 10m, was due by 11m", |tape| {
        let closed = tape.nth(SITE, "site.lease-closed", 0);
        tape.stop_after(closed);
        tape.end = at(660).plus(Span::SECOND);
    }),
    breach("L2", "ended at 2h and is Active at 1d", |tape| {
        let activated = tape.nth(SITE, "site.lease-extended", 0);
        tape.stop_after(activated);
    }),
    breach("L3", "it is still being given back", |tape| {
        let closed = tape.nth(RIVAL, "service-manager.site-closed", 0);
        tape.stop_after(closed);
        tape.end = at(600);
    }),
    breach("L4", "is down since 10m and was due by 11m", |tape| {
        let crashed = tape.find(0, |what| matches!(what, What::Crashed(SITE)));
        tape.stop_after(crashed);
        tape.end = at(660).plus(Span::SECOND);
    }),
    breach("L5", "after it 0 of 1", |tape| {
        // The broker does not decide on the last request.
        let requested = tape.nth(BROKER, "broker.requested", 19);
        tape.stop_after(requested);
        tape.end = tape.shown[requested].at;
    }),
    breach("S24", "in plan 2 while plan 1 holds it", |tape| {
        *tape = planned();
        let nodes = proposed(tape, 0).nodes.clone();
        proposed(tape, 1).nodes = nodes;
    }),
    breach("S24", "plan 2 of guest has not ended, though it was to by 1m", |tape| {
        *tape = planned();
        let fact = tape.guest(GUEST, "service-manager.plan-requested", 1);
        let service_manager::Fact::PlanRequested(fact) = fact else { panic!() };
        fact.request.until = at(60);
    }),
    breach("S24", "takes a report on plan 2, which is not accepted", |tape| {
        *tape = planned();
        let fact = tape.guest(GUEST, "service-manager.package-reported", 0);
        let service_manager::Fact::PackageReported(fact) = fact else { panic!() };
        fact.plan = 2;
    }),
    breach("S24", "has install of svc/db/1.0/main/1.0 on u0 called, which no plan has", |tape| {
        *tape = planned();
        let joins =
            |what: &What| matches!(what, What::Called(GUEST, call) if call.step == Step::Join);
        let place = tape.find(0, joins);
        let What::Called(_, call) = &tape.shown[place].what else { panic!() };
        let mut call = call.clone();
        call.step = Step::Install;
        call.properties = properties("package", "svc/db/1.0/main/1.0");
        let place = tape.nth(GUEST, "service-manager.plan-accepted", 0);
        tape.insert_after(place, What::Called(GUEST, call));
    }),
    breach("S25", "ends a use that is worth 50 for a claim worth 50", |tape| {
        *tape = moved();
        let order = placed(tape);
        order.order.worth = order.order.claim;
    }),
    breach("S25", "does not recall them", |tape| {
        *tape = moved();
        placed(tape).stay = 0;
    }),
    breach("S25", "and its ticket lets it at", |tape| {
        *tape = moved();
        placed(tape).due = at(1);
    }),
    breach("S25", "takes units of no ticket of", |tape| {
        *tape = moved();
        placed(tape).order.holder.guest = id(RIVAL);
        placed(tape).order.claimant.guest = id(GUEST);
    }),
    breach("S25", "and to be had for 1d", |tape| {
        *tape = moved();
        bounds(tape).tenure = Span::DAY;
    }),
    breach("S25", "1 units of node are ordered in 1h, not 0 at most", |tape| {
        *tape = moved();
        (bounds(tape).most, bounds(tape).window) = (Some(0), Span::HOUR);
    }),
    breach("S25", "order 2 of broker is delivered, and was not open", |tape| {
        *tape = moved();
        let broker::Fact::OrderEnded(fact) = tape.broker("broker.order-ended", 0) else { panic!() };
        fact.order = 2;
    }),
    breach("S26", "settles node7 for web, which does not claim it", |tape| {
        let keep = Claimant { service: Name::literal("web"), unit: None };
        let settled = service_manager::AmbiguitySettled { member: node7(), keep, by: None };
        *tape.guest(GUEST, "service-manager.mapper-answered", 0) = settled.into();
    }),
    breach("S26", "join of unit u0 of site is called, and several claim node7", |tape| {
        let joins =
            |what: &What| matches!(what, What::Called(GUEST, call) if call.step == Step::Join);
        let place = tape.find(0, joins);
        let What::Called(_, call) = &tape.shown[place].what else { panic!() };
        let (unit, lease) = ((call.site, call.unit), call.lease);
        let (since, ticket) = (at(0), *tape.links(SITE).keys().next().unwrap());
        let claims = [(None, None), (Some(unit), Some((lease, ticket)))];
        let claims = claims.map(|(unit, lease)| Claim {
            by: Claimant { service: Name::literal("web"), unit },
            since,
            lease,
        });
        let ambiguous = service_manager::MemberAmbiguous { member: node7(), claims: claims.into() };
        *tape.guest(GUEST, "service-manager.mapper-answered", 0) = ambiguous.into();
    }),
    breach("S26", "no broker has said that others claim node7", |tape| {
        let by = Claimant { service: Name::literal("web"), unit: None };
        let claims = vec![Claim { by, since: at(0), lease: None }];
        let claim = ForeignClaim { by: None, since: at(0), ticket: None };
        let others = vec![OtherClaim { broker: id(BROKER), claim }];
        let (member, joining) = (node7(), Vec::new());
        let contested = service_manager::MemberContested { member, claims, others, joining };
        *tape.guest(GUEST, "service-manager.mapper-answered", 0) = contested.into();
    }),
    breach("S26", "cedes node7, which no other guest claims", |tape| {
        let ceded = service_manager::MemberCeded { member: node7(), by: None };
        *tape.guest(GUEST, "service-manager.mapper-answered", 0) = ceded.into();
    }),
    breach("S27", "ends lease", |tape| closed(tape, 1).why = CloseReason::Silent(at(0))),
    breach("S27", "at 3m30s, heard at 1m41s; silence counts from", |tape| {
        *tape = silent();
        closed(tape, 0).why = CloseReason::Silent(at(101));
    }),
    breach("S27", "gives lease 1.0 back for silence, and it needs no heartbeat", |tape| {
        let lease = LeaseId { number: 1, part: 0 };
        let unheard = service_manager::SiteUnheard { lease, since: at(0) };
        *tape.guest(GUEST, "service-manager.mapper-answered", 1) = unheard.into();
    }),
    breach("S28", "for as many hops as it was given, or more", |tape| {
        let given = handed_over(tape).hops + 1;
        handed_over(tape).hops = given;
    }),
    breach("S28", "to as many brokers as it was given, or more", |tape| {
        handed_over(tape).asks += 1;
    }),
    breach("S28", "by another path than it came", |tape| {
        handed_over(tape).path.insert(0, id(RIVAL))
    }),
    breach("S28", "in other bytes than its guest's", |tape| {
        let request = request(GUEST, 2, 1, 0, HOUR);
        handed_over(tape).sealed = letter(GUEST, BROKER, Message::Request(request));
    }),
];

/// How the first request of a life is passed on.
fn handed_over(tape: &mut Tape) -> &mut Handover {
    let is_passed = |what: &What| matches!(what, What::Sent(envelope, _) if envelope.message.kind() == "hand-over");
    if !tape.shown.iter().any(|shown| is_passed(&shown.what)) {
        *tape = passed_on();
    }
    let Message::HandOver(handover) = &mut sent(tape, "hand-over").message else { panic!() };
    handover
}

fn node7() -> MemberId {
    MemberId::new("node7").unwrap()
}

fn entry(at: Time, fact: impl Into<Fact>) -> Entry {
    Entry { at, fact: fact.into() }
}

/// A fact of the site, after its first lease went active, that changes nothing.
fn after_activation(tape: &mut Tape) -> &mut Entry {
    let active = tape.nth(SITE, "site.lease-activated", 0);
    let length = tape.journal_length(SITE, active);
    let mut before = 0;
    let kinds = tape.shown.iter().filter_map(|shown| {
        if let What::Durable(SITE, _, entries) = &shown.what { Some(entries) } else { None }
    });
    let count = kinds.flatten().filter(|entry| {
        before += 1;
        before <= length && entry.fact.kind().0 == "site.mapper-answered"
    });
    let n = count.count();
    tape.entry(SITE, "site.mapper-answered", n)
}

fn assigned(tape: &mut Tape, n: usize) -> &mut site_authority::UnitsAssigned {
    let fact = tape.site("site.units-assigned", n);
    let site_authority::Fact::UnitsAssigned(fact) = fact else { panic!() };
    fact
}

fn closed(tape: &mut Tape, n: usize) -> &mut site_authority::LeaseClosed {
    let site_authority::Fact::LeaseClosed(fact) = tape.site("site.lease-closed", n) else {
        panic!()
    };
    fact
}

fn extended(tape: &mut Tape) -> &mut site_authority::LeaseExtended {
    let fact = tape.site("site.lease-extended", 0);
    let site_authority::Fact::LeaseExtended(fact) = fact else { panic!() };
    fact
}

fn proposed(tape: &mut Tape, n: usize) -> &mut service_manager::PlanProposed {
    let fact = tape.guest(GUEST, "service-manager.plan-proposed", n);
    let service_manager::Fact::PlanProposed(fact) = fact else { panic!() };
    fact
}

fn placed(tape: &mut Tape) -> &mut broker::OrderPlaced {
    let broker::Fact::OrderPlaced(fact) = tape.broker("broker.order-placed", 0) else { panic!() };
    fact
}

fn bounds(tape: &mut Tape) -> &mut broker::BoundsSet {
    let broker::Fact::BoundsSet(fact) = tape.broker("broker.bounds-set", 0) else { panic!() };
    fact
}

fn leased(tape: &mut Tape, who: u8, n: usize) -> &mut service_manager::Leased {
    let fact = tape.guest(who, "service-manager.leased", n);
    let service_manager::Fact::Leased(fact) = fact else { panic!() };
    fact
}

/// The second tickets that the broker cuts: the rival's.
fn cut(tape: &mut Tape) -> &mut broker::TicketsCut {
    let broker::Fact::TicketsCut(fact) = tape.broker("broker.tickets-cut", 1) else { panic!() };
    fact
}

fn delegation(tape: &mut Tape) -> Ticket {
    let fact = tape.site("site.delegation-issued", 0);
    let site_authority::Fact::DelegationIssued(fact) = fact else { panic!() };
    fact.ticket.clone()
}

/// The guest's first ticket.
fn first_ticket(tape: &mut Tape) -> Ticket {
    let broker::Fact::TicketsCut(fact) = tape.broker("broker.tickets-cut", 0) else { panic!() };
    fact.tickets[0].1.clone()
}

/// Has the broker cut the rival's ticket otherwise.
fn recut(tape: &mut Tape, change: impl FnOnce(&mut Link)) {
    let parent = delegation(tape);
    let mut link: Link = (**cut(tape).tickets[0].1.bottom()).clone();
    change(&mut link);
    cut(tape).tickets[0].1 = parent.with(SignedLink::sign(link, &signer(BROKER)));
}

/// The guest never learns that its lease has ended, and believes that it is early.
fn still_believes(tape: &mut Tape) {
    let lease = LeaseId { number: 1, part: 0 };
    for shown in &mut tape.shown {
        if let What::Rested(GUEST, clock) = &mut shown.what {
            *clock = at(0);
        } else if let What::Durable(GUEST, _, entries) = &mut shown.what {
            entries.retain(|entry| {
                !matches!(&entry.fact, Fact::ServiceManager(service_manager::Fact::TermOver(fact))
                    if fact.lease == lease)
            });
        }
    }
}

fn is_call(what: &What, step: Step) -> bool {
    matches!(what, What::Called(SITE, call) if call.step == step)
}

/// The site's first call of a step.
fn call(tape: &mut Tape, step: Step) -> &mut tenure_core::driver::Call {
    let place = tape.find(0, |what| is_call(what, step));
    let What::Called(_, call) = &mut tape.shown[place].what else { panic!() };
    call
}

fn sent_at(tape: &Tape, kind: &str) -> usize {
    tape.find(0, |what| matches!(what, What::Sent(envelope, _) if envelope.message.kind() == kind))
}

/// The first message of a kind.
fn sent<'a>(tape: &'a mut Tape, kind: &str) -> &'a mut Envelope {
    let place = sent_at(tape, kind);
    let What::Sent(envelope, _) = &mut tape.shown[place].what else { panic!() };
    envelope
}

/// Sends the first message of a kind once more, changed.
fn resend(tape: &mut Tape, kind: &str, change: impl FnOnce(&mut Envelope)) {
    let place = sent_at(tape, kind);
    let mut envelope: Envelope = sent(tape, kind).clone();
    change(&mut envelope);
    let who = if kind == "granted" { BROKER } else { GUEST };
    let sealed = envelope.seal(&mut credentials(who));
    tape.insert_after(place, What::Sent(Box::new(envelope), sealed));
}

/// The `n`th ticket that the site redeems.
fn redeemed(tape: &mut Tape, n: usize) -> Ticket {
    let site_authority::Fact::Redeemed(fact) = tape.site("site.redeemed", n) else {
        unreachable!()
    };
    fact.ticket.clone()
}

/// Has the site refuse the `n`th ticket instead of redeeming it.
fn refuse_for_good(tape: &mut Tape, n: usize, refusal: Refusal) {
    let ticket = redeemed(tape, n);
    let fact = site_authority::TicketRefused { ticket, denial: Denial::of(&refusal) };
    *tape.site("site.redeemed", n) = site_authority::Fact::TicketRefused(fact);
}

#[test]
fn every_breach_is_found_by_its_law() {
    let life = honest();
    let missed = BREACHES.iter().filter_map(|Breach { law, says, commit }| {
        let mut tape = life.clone();
        commit(&mut tape);
        let sentence = tape.play().err().map_or("nobody".to_owned(), |v| v.to_string());
        let caught = sentence.starts_with(&format!("{law} ")) && sentence.contains(says);
        (!caught).then(|| format!("{law}, {says}: {sentence}"))
    });
    assert_eq!(missed.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn every_law_can_be_broken() {
    let broken: BTreeSet<_> = BREACHES.iter().map(|breach| breach.law).collect();
    let whole: Vec<_> = LAWS.iter().map(|law| law.id).filter(|id| !broken.contains(id)).collect();
    assert_eq!(whole, Vec::<&str>::new());
}
