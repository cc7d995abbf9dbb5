//! S9: what leaves an actor stands in its journal.

use std::collections::BTreeMap;

use super::model::{BrokerModel, GuestModel, Model, SiteModel};
use super::{Check, Law, Observation, Scene, Tally, LawVerdict};
use tenure_core::broker::facts::ReturnBegun;
use tenure_core::driver::{Call, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::keys::KeyChain;
use tenure_core::broker::machine::State as AtBroker;
use tenure_core::service_manager::request::State as AskedFor;
use tenure_core::service_manager::machine::{AfterLeave, Change, PartReturn, State as AtGuest, UnitUse};
use tenure_core::site_authority::machine::State as AtSite;
use tenure_core::site_authority::unit;
use tenure_core::wire::handover::{HandedBack, Handover, Outcome};
use tenure_core::wire::hosts::{Contest, Hosts};
use tenure_core::wire::need::Need;
use tenure_core::wire::message::{Envelope, LeasedUnit, Message, Sealed, Sequence, Subject};
use tenure_core::wire::portion::{Portion, PortionAsked, PortionBack, PortionOutcome};
use tenure_core::wire::offer::Offer;
use tenure_core::wire::part::Part;
use tenure_core::wire::recall::Level;
use tenure_core::ticket::receipt::Receipt;
use tenure_core::wire::refusal::Refusal;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::LinkHash;
use tenure_core::model::time::{Span, Time};

pub(super) const LAW: Law = Law {
    id: "S9",
    name: "output commit",
    statement: "Every message and driver call follows from facts that are durable when it \
                leaves, in number and content; no actor asks for what it does not wait for. A \
                message with one sender and number never changes its bytes, whatever crashes, \
                except an answer without commitment.",
    source: "pessimistic message logging, no orphan processes; Shirako S46",
    on: "messages; driver calls",
};

#[derive(Default)]
pub(super) struct Checker {
    /// Every message as it left first, by sender and number.
    sent: BTreeMap<(ActorId, Sequence), Sealed>,
}

impl Check for Checker {
    fn happened(&mut self, scene: &Scene<'_>, seen: &Observation<'_>, tally: &mut Tally) -> LawVerdict {
        match *seen {
            Observation::Sent { envelope, sealed } => {
                number_is_durable(scene, envelope, tally)?;
                self.bytes_stay(scene, envelope, sealed, tally)?;
                words_are_durable(scene, envelope, tally)
            }
            Observation::Called { actor, call } => call_is_durable(scene, actor, call, tally),
            _ => Ok(()),
        }
    }
}

impl Checker {
    fn bytes_stay(
        &mut self,
        scene: &Scene<'_>,
        envelope: &Envelope,
        sealed: &Sealed,
        tally: &mut Tally,
    ) -> LawVerdict {
        let sequence = envelope.header.sequence;
        if sequence.index == Sequence::VOLATILE {
            return Ok(());
        }
        let first = self.sent.entry((scene.actor, sequence)).or_insert_with(|| sealed.clone());
        tally.check(first.bytes() == sealed.bytes(), || {
            let (name, kind) = (scene.name(), envelope.message.kind());
            format!("message {sequence:?} of {name}, a `{kind}`, was sent before with other bytes")
        })
    }
}

/// The fact that a message names as its cause is durable, and of the time that it says.
fn number_is_durable(scene: &Scene<'_>, envelope: &Envelope, tally: &mut Tally) -> LawVerdict {
    let header = envelope.header;
    let (position, durable) = (header.sequence.position, scene.model.length(scene.actor));
    let volatile = header.sequence.index == Sequence::VOLATILE;
    tally.check(position < durable || (volatile && position == durable), || {
        let (name, kind) = (scene.name(), envelope.message.kind());
        format!("{name} sends a `{kind}` because of fact {position}, but {durable} facts are durable")
    })?;
    let times = scene.model.times.get(&scene.actor);
    let made = usize::try_from(position).ok().and_then(|position| times?.get(position));
    tally.check(volatile || made == Some(&header.at), || {
        let (name, kind) = (scene.name(), envelope.message.kind());
        format!("{name} dates a `{kind}` at {}, its cause at {made:?}", header.at)
    })
}

/// What the sender has last asked of a recall.
fn recall_asked<'a>(scene: &Scene<'a>, link: LinkHash) -> Option<&'a Level> {
    let (model, from) = (scene.model, scene.actor);
    let guest = model.guests.get(&from).and_then(|guest| guest.recalls.get(&link));
    guest.or_else(|| model.brokers.get(&from).and_then(|broker| broker.recalls.get(&link)))
}

/// What a message says follows from the sender's durable facts.
#[allow(clippy::too_many_lines, reason = "a case for each kind of message")]
fn words_are_durable(scene: &Scene<'_>, envelope: &Envelope, tally: &mut Tally) -> LawVerdict {
    let (model, from) = (scene.model, scene.actor);
    let binding = envelope.header.sequence.index != Sequence::VOLATILE;
    let (to, at, message) = (envelope.header.to, envelope.header.at, &envelope.message);
    let good = match message {
        Message::Ping
        | Message::Pong { .. }
        | Message::Inquire(_)
        | Message::Available { .. }
        | Message::Advert(_)
        | Message::AdvertWanted
        | Message::Heartbeat { .. }
        | Message::HeartbeatHeard { .. }
        | Message::Restate { .. } => !binding,
        Message::Delegate { .. } | Message::Return { .. } | Message::Credit { .. }
            if model.brokers.contains_key(&from) =>
        {
            model.brokers.get(&from).is_some_and(|broker| broker_asks(broker, to, message))
        }
        Message::Delegate { .. }
        | Message::Leased { .. }
        | Message::Closed { .. }
        | Message::Modified { .. }
        | Message::Returned { .. }
        | Message::Reclaimed { .. }
        | Message::Recalled { .. }
        | Message::RecallNotice { .. }
        | Message::UnitFailed { .. } => {
            model.sites.get(&from).is_some_and(|site| site_says(site, to, message, binding))
        }
        Message::Credit { receipts } if model.sites.contains_key(&from) => {
            // What a site shows an issuer beside its guest.
            let site = model.sites.get(&from);
            let signed = |receipt: &Receipt| {
                site.is_some_and(|site| site.leases.values().any(|lease| lease.receipts.contains(receipt)))
            };
            !binding && receipts.iter().all(signed)
        }
        Message::Reclaim { ticket } => {
            let broker = model.brokers.get(&from).and_then(|broker| broker.cut.get(&ticket.hash()));
            let guest = model.guests.get(&from);
            let part = guest.is_some_and(|guest| guest.reclaimed.contains(&ticket.hash()));
            ticket.site() == to && (part || broker.is_some_and(|cut| cut.reclaimed && cut.ticket == *ticket))
        }
        Message::Credited { receipts } if model.guests.contains_key(&from) => {
            let guest = model.guests.get(&from);
            let credited =
                |part: &(LinkHash, u32)| guest.is_some_and(|guest| guest.has_credited(*part));
            !binding || receipts.iter().all(credited)
        }
        Message::Need(need) => {
            let told = model.guests.get(&from).and_then(|guest| {
                guest.needs.get(&(to, need.service.clone()))
            });
            // That a service wants nothing any more is said without a fact to a broker that asks.
            let over = |told: Option<&Need>| told.is_none_or(|told| told.wants.is_empty());
            told == Some(need) || (!binding && need.wants.is_empty() && over(told))
        }
        Message::Noted { service, revision } => {
            let noted = model.brokers.get(&from).and_then(|broker| {
                broker.needs.get(&(to, service.clone()))
            });
            noted.is_some_and(|noted| revision <= noted)
        }
        Message::Hosts(hosts) => {
            let told = model.guests.get(&from).and_then(|guest| {
                guest.hosts.get(&(to, hosts.service.clone()))
            });
            let over = |told: Option<&Hosts>| told.is_none_or(|told| told.hosts.is_empty());
            told == Some(hosts) || (!binding && hosts.hosts.is_empty() && over(told))
        }
        Message::HostsNoted { service, revision, contests } => {
            let broker = model.brokers.get(&from);
            let noted = broker.and_then(|broker| broker.hosts.get(&(to, service.clone())));
            let claimed = |contest: &Contest| broker.is_some_and(|broker| {
                let mut all = broker.claimed.iter();
                all.any(|(guest, host)| *guest != to && *host == contest.host)
            });
            noted.is_some_and(|noted| revision <= noted) && contests.iter().all(claimed)
        }
        Message::HostsChanged { service, revision } => {
            let noted = model.brokers.get(&from).and_then(|broker| {
                broker.hosts.get(&(to, service.clone()))
            });
            binding && noted.is_some_and(|noted| revision <= noted)
        }
        Message::Recall { ticket, level } => {
            recall_asked(scene, ticket.hash()).is_some_and(|asked| asked == level)
        }
        Message::RecallNoted { ticket, link, number, victims, unclaimed: _ } => {
            let (guest, broker) = (model.guests.get(&from), model.brokers.get(&from));
            let key = (*ticket, *link);
            !binding
                || broker.is_some_and(|broker| is_told(broker, key, *number))
                || guest.is_some_and(|guest| is_noted(guest, key, *number, victims))
        }
        Message::Delegated { .. }
        | Message::Granted { .. }
        | Message::Waiting { .. }
        | Message::Offered { .. }
        | Message::Credited { .. } => {
            model.brokers.get(&from).is_some_and(|broker| broker_says(broker, to, message, binding))
        }
        Message::Accept { request, offer } if model.brokers.contains_key(&from) => {
            let record = model.brokers.get(&from).and_then(|broker| broker.requests.get(request));
            record.is_some_and(|record| {
                matches!(&record.state, AtBroker::Taking { by, offer: chosen, .. }
                    if *by == to && chosen == offer)
            })
        }
        Message::Request(_)
        | Message::Accept { .. }
        | Message::Withdraw(_)
        | Message::Redeem { .. }
        | Message::Close { .. }
        | Message::Return { .. }
        | Message::Modify { .. }
        | Message::Credit { .. } => {
            model.guests.get(&from).is_some_and(|guest| guest_says(guest, (to, at), message))
        }
        Message::Refused { subject, refusal, offers } if binding => {
            is_recorded(scene, subject, refusal, offers)
        }
        Message::Refused { .. } => true,
        Message::HandOver(handover) => {
            model.brokers.get(&from).is_some_and(|broker| hands_over(broker, to, handover))
        }
        Message::HandedBack(back) => {
            let broker = model.brokers.get(&from);
            !binding || broker.is_some_and(|broker| hands_back(broker, back))
        }
        Message::AskPortion(asked) => {
            let broker = model.brokers.get(&from);
            broker.is_some_and(|broker| asks_portion(broker, to, asked))
        }
        Message::PortionBack(back) => {
            let broker = model.brokers.get(&from);
            !binding || broker.is_some_and(|broker| portion_back(broker, back))
        }
        Message::PortionDecided { request, taken, .. } => {
            let broker = model.brokers.get(&from);
            let record = broker.and_then(|broker| broker.requests.get(request));
            let commits = record.is_some_and(|record| {
                matches!(&record.state, AtBroker::Committing { gathered }
                    if gathered.awaited().any(|of| of == to))
            });
            !taken || commits
        }
        Message::Join(join) => {
            let asked = (to, join.invitation.invitation.number);
            model.joins.get(&from).is_some_and(|joins| joins.asked.contains(&asked))
        }
        Message::Joined { number, fault: None } => {
            model.joins.get(&from).is_some_and(|joins| joins.came.contains(&(to, *number)))
        }
        Message::Joined { fault: Some(_), .. } => !binding,
        Message::Keys { number } | Message::KeysNoted { number } => {
            let own = matches!(message, Message::Keys { .. });
            *number <= noted(model, from, if own { from } else { to })
        }
    };
    tally.check(good, || {
        let (name, kind, to) = (scene.name(), message.kind(), model.name(to));
        format!("{name} sends {to} a `{kind}` that its durable facts do not say: {message:?}")
    })
}

/// How many statements about its keys an actor has noted of another one, or made.
fn noted(model: &Model, by: ActorId, of: ActorId) -> u32 {
    let chain = model.keys.get(&by).and_then(|keys| keys.chain(of));
    chain.map_or(0, KeyChain::count)
}

/// Whether a broker was told of the recall of a delegation.
fn is_told(broker: &BrokerModel, (ticket, link): (LinkHash, LinkHash), number: u32) -> bool {
    let mut told = broker.told.values();
    ticket == link && told.any(|told| (told.link, told.number) == (link, number))
}

/// Whether a guest was told of a recall, and these units are the ones that were named.
fn is_noted(
    guest: &GuestModel,
    (ticket, link): (LinkHash, LinkHash),
    number: u32,
    victims: &[UnitId],
) -> bool {
    let Some(lease) = guest.tickets.get(&ticket) else { return false };
    let told = guest.told.get(&(*lease, link));
    let named = guest.named.get(lease);
    told.is_some_and(|told| told.number == number)
        && (victims.is_empty() || named.is_some_and(|named| named == victims))
}

/// Whether a fact of its sender has this refusal.
fn is_recorded(scene: &Scene<'_>, subject: &Subject, refusal: &Refusal, offers: &[Offer]) -> bool {
    let (model, from) = (scene.model, scene.actor);
    match subject {
        Subject::Ticket(hash) => {
            let refused = model.sites.get(&from).and_then(|site| site.refused.get(hash));
            refused.is_some_and(|refused| refused.refusal == *refusal)
        }
        Subject::Request(id) => {
            let record = model.brokers.get(&from).and_then(|broker| broker.requests.get(id));
            let state = record.map(|record| &record.state);
            matches!(state, Some(AtBroker::Refused { refusal: recorded, offers: made })
                if recorded == refusal && made == offers)
        }
        Subject::Modify(hash, number) => {
            let lease = model.sites.get(&from).and_then(|site| site.leases.get(hash));
            let last = lease.and_then(|lease| lease.modification.as_ref());
            last.is_some_and(|last| {
                last.number == *number && last.outcome == Some(Err(refusal.clone()))
            })
        }
        Subject::Delegation(_) | Subject::Return(..) | Subject::Recall(..) => false,
    }
}

fn site_says(site: &SiteModel, to: ActorId, message: &Message, binding: bool) -> bool {
    match message {
        Message::Delegate { ticket, .. } => site.offers(ticket),
        Message::Leased { ticket, term, units } => {
            let lease = site.by_ticket.get(ticket).and_then(|lease| site.leases.get(lease));
            lease.is_some_and(|lease| {
                let shown = lease.tickets.iter().find(|shown| shown.hash() == *ticket);
                matches!(lease.state, AtSite::Active { .. })
                    && shown.is_some_and(|shown| shown.bottom().term.encloses(*term))
                    && lease.holder() == to
                    && units.len() == lease.active_with.len()
                    && units.iter().all(|unit| is_ready(site, unit))
                    && units.iter().all(|u| lease.active_with.get(&u.unit) == Some(&u.epoch))
            })
        }
        Message::Closed { ticket, receipts, .. } => {
            let lease = site.by_ticket.get(ticket).and_then(|lease| site.leases.get(lease));
            // Of what it never took, or has forgotten, it may say that it has ended.
            let over = lease.map_or(!binding, |lease| matches!(lease.state, AtSite::Closed { .. }));
            over && receipts.iter().all(|receipt| site.vouches(receipt))
        }
        Message::Modified { ticket, number, units } => {
            let lease = site.leases.get(ticket);
            let last = lease.and_then(|lease| lease.modification.as_ref());
            let last = last.filter(|last| last.number == *number && last.outcome == Some(Ok(())));
            let held = lease.map(|lease| lease.state.units()).unwrap_or_default();
            last.is_some_and(|last| {
                lease.is_some_and(|lease| lease.holder() == to)
                    && units.iter().map(|unit| unit.unit).eq(held)
                    && units.iter().all(|unit| is_ready(site, unit))
                    && units.iter().all(|unit| last.modified.contains_key(&unit.unit))
            })
        }
        Message::Reclaimed { ticket, redeemed: true, .. } => site.by_ticket.contains_key(ticket),
        Message::Reclaimed { ticket, receipts, .. } => site.reclaimed.get(ticket) == Some(receipts),
        Message::Returned { receipts, .. } => receipts.iter().all(|receipt| site.vouches(receipt)),
        Message::Recalled { link, number, receipts, .. } => {
            site.recalls.get(link).is_some_and(|recall| {
                recall.level.number == *number
                    && recall.ticket.bottom().issuer == to
                    && recall.receipts == *receipts
            })
        }
        Message::UnitFailed { ticket, unit, why: _ } => {
            let lease = site.leases.get(ticket);
            site.failed.get(unit) == Some(ticket)
                && site.tenant(*unit) == Some(*ticket)
                && lease.is_some_and(|lease| lease.holder() == to)
        }
        Message::RecallNotice { ticket, told } => {
            let lease = site.leases.get(ticket);
            let recall = site.recalls.get(&told.link);
            let holder = recall.map(|recall| recall.ticket.bottom().holder);
            let rights = told.unclaimed && *ticket == told.link && holder == Some(to);
            // What was taken was taken, whatever becomes of the recall.
            let taken = site.taken_by.get(&(*ticket, told.link)) == Some(&told.number);
            (rights || !told.unclaimed && lease.is_some_and(|lease| lease.holder() == to))
                && recall.is_some_and(|recall| taken || recall.level.number == told.number)
        }
        _ => false,
    }
}

fn is_ready(site: &SiteModel, leased: &LeasedUnit) -> bool {
    site.units.get(&leased.unit).is_some_and(|unit| {
        unit.quantity == leased.quantity && unit.state.properties() == Some(&leased.properties)
    })
}

/// Whether a broker passes a request on to another one.
fn hands_over(broker: &BrokerModel, other: ActorId, handover: &Handover) -> bool {
    let request = handover.sealed.peek().ok().and_then(|envelope| match envelope.message {
        Message::Request(request) => Some(request.id),
        _ => None,
    });
    let record = request.and_then(|request| broker.requests.get(&request));
    record.is_some_and(|record| {
        matches!(record.state, AtBroker::Passed { to, until, .. }
            if to == other && until == handover.answer_by)
    })
}

/// Whether a broker asks another one for the rest of a request.
fn asks_portion(broker: &BrokerModel, other: ActorId, asked: &PortionAsked) -> bool {
    let request = asked.handover.sealed.peek().ok().and_then(|envelope| match envelope.message {
        Message::Request(request) => Some(request.id),
        _ => None,
    });
    let record = request.and_then(|request| broker.requests.get(&request));
    let Some(AtBroker::Gathering { gathered, asked: Some((to, until)) }) =
        record.map(|record| &record.state)
    else {
        return false;
    };
    let Portion { round, start, units, .. } = &asked.portion;
    (*to, *until) == (other, asked.handover.answer_by)
        && (gathered.round, gathered.start) == (*round, *start)
        && gathered.missing() == *units
}

/// Whether a broker has answered so for a portion.
fn portion_back(broker: &BrokerModel, back: &PortionBack) -> bool {
    let record = broker.requests.get(&back.request);
    match (record.map(|record| &record.state), &back.outcome) {
        (Some(AtBroker::Reserved { gathered, .. }), PortionOutcome::Held { units, .. }) => {
            gathered.held() == *units
        }
        (
            Some(
                AtBroker::Granted { tickets, .. }
                | AtBroker::Returned { tickets }
                | AtBroker::Brought { tickets },
            ),
            PortionOutcome::Granted(told),
        ) => tickets == told,
        (Some(AtBroker::Refused { refusal, .. }), PortionOutcome::Refused(told)) => {
            refusal == told
        }
        (_, _) => false,
    }
}

/// Whether a broker has answered a request so.
fn hands_back(broker: &BrokerModel, back: &HandedBack) -> bool {
    let record = broker.requests.get(&back.request);
    match (record.map(|record| &record.state), &back.outcome) {
        (
            Some(
                AtBroker::Granted { tickets, .. }
                | AtBroker::Returned { tickets }
                | AtBroker::Brought { tickets },
            ),
            Outcome::Granted(told),
        ) => tickets == told,
        (Some(AtBroker::Refused { refusal, offers }), Outcome::Refused(told)) => {
            refusal == told && offers.is_empty()
        }
        (Some(AtBroker::Refused { refusal, offers }), Outcome::Countered(told, instead)) => {
            refusal == told && offers == instead
        }
        (Some(state), Outcome::Offered(offers, until)) => offers_so(state, offers, *until, &None),
        (_, _) => false,
    }
}

/// Whether a broker makes these offers for a request.
fn offers_so(
    state: &AtBroker,
    offers: &[Offer],
    until: Option<Time>,
    refusal: &Option<Refusal>,
) -> bool {
    match state {
        AtBroker::Held { offers: held, until: end, refusal: why, .. } => {
            until == Some(*end)
                && refusal == why
                && held.len() == offers.len()
                && held.iter().zip(offers).all(|(held, offer)| is_offer(held, offer))
        }
        AtBroker::Proposed { offers: heard, until: end, .. } => {
            until == Some(*end) && refusal.is_none() && heard == offers
        }
        AtBroker::Planned { offers: planned, refusal: why } => {
            until.is_none() && refusal == why && planned == offers
        }
        _ => false,
    }
}

fn broker_says(broker: &BrokerModel, to: ActorId, message: &Message, binding: bool) -> bool {
    match message {
        Message::Delegated { delegation, generation } => {
            broker.delegations.contains_key(&(*delegation, *generation))
        }
        Message::Granted { request, tickets } => {
            let state = broker.requests.get(request).map(|record| &record.state);
            let (Some(AtBroker::Granted { tickets: cut, .. })
            | Some(AtBroker::Returned { tickets: cut })
            | Some(AtBroker::Brought { tickets: cut })) = state
            else {
                return false;
            };
            cut == tickets && request.origin == to
        }
        Message::Waiting { request, waiting } => {
            let state = broker.requests.get(request).map(|record| &record.state);
            request.origin == to
                && matches!(state, Some(AtBroker::Open { waiting: Some(now), .. }) if now == waiting)
        }
        Message::Offered { request, offers, until, refusal } => {
            let state = broker.requests.get(request).map(|record| &record.state);
            request.origin == to
                && state.is_some_and(|state| offers_so(state, offers, *until, refusal))
        }
        // It answers with all that it was shown; what it cut and remembers must be credited.
        Message::Credited { receipts } => receipts.iter().all(|(hash, number)| {
            if let Some((_, known)) = broker.issued.get(hash) {
                return known.contains_key(number) || !binding;
            }
            let cut = broker.cut.get(hash);
            let remembered = cut.filter(|cut| !broker.has_forgotten(cut.request));
            remembered.is_none_or(|cut| cut.receipts.contains_key(number)) || !binding
        }),
        _ => false,
    }
}

/// What a broker asks others, it still waits for.
fn broker_asks(broker: &BrokerModel, to: ActorId, message: &Message) -> bool {
    match message {
        Message::Delegate { ticket, .. } => ticket.bottom().holder == to && broker.offers(ticket),
        Message::Return { ticket, number, part } => broker.returning.values().any(|returning| {
            let ReturnBegun { ticket: of, number: begun, units, from } = &returning.begun;
            let same = Part::Rights { units: *units, from: *from } == *part;
            of == ticket && begun == number && same && ticket.site() == to
                && returning.receipts.is_empty()
        }),
        Message::Credit { receipts } => broker.returning.values().any(|returning| {
            returning.receipts == *receipts && returning.begun.ticket.bottom().issuer == to
        }),
        _ => false,
    }
}

/// Whether an offer says what the tickets that are held are.
fn is_offer(held: &[(u16, Ticket)], offer: &Offer) -> bool {
    held.len() == offer.parts.len()
        && held.iter().zip(&offer.parts).all(|((item, ticket), part)| {
            let link = ticket.bottom();
            (*item, link.units, link.term) == (part.item, part.units, part.term)
                && ticket.site() == part.site
        })
}

/// What a guest asks, it still waits for.
fn guest_says(guest: &GuestModel, (to, at): (ActorId, Time), message: &Message) -> bool {
    let state = |ticket: LinkHash| {
        let lease = guest.tickets.get(&ticket)?;
        guest.leases.get(lease)?.standing().lease()
    };
    match message {
        Message::Request(request) => {
            let asked = guest.requests.get(&request.id.number);
            asked.is_some_and(|(broker, asked, _)| *broker == to && asked == request)
                && guest.waits_for(request.id.number)
        }
        Message::Withdraw(request) => {
            let asked = guest.requests.get(&request.id.number);
            asked.is_some_and(|(broker, asked, _)| *broker == to && asked == request)
                && matches!(guest.request(request.id.number), Some(AskedFor::GivenUp))
        }
        Message::Accept { request, offer } => {
            let asked = guest.requests.get(&request.number);
            asked.is_some_and(|(broker, ..)| *broker == to)
                && matches!(guest.request(request.number),
                    Some(AskedFor::Accepting { number, .. }) if number == offer)
        }
        Message::Redeem { ticket, .. } => {
            ticket.site() == to
                && match state(ticket.hash()) {
                    Some(AtGuest::Redeeming { ticket: first }) => first == ticket,
                    Some(
                        AtGuest::Joining { held }
                        | AtGuest::Active { held }
                        | AtGuest::Leaving { held, then: AfterLeave::End },
                    ) => {
                        matches!(&held.change, Change::Redeeming { ticket: next, .. }
                            if next == ticket)
                    }
                    _ => false,
                }
        }
        Message::Close { tickets } => tickets.first().is_some_and(|first| {
            let Some(AtGuest::Closing { tickets: all, .. }) = state(first.hash()) else { return false };
            // Extensions that had ended by then have nothing to give back.
            let mut ahead = all.iter().skip(1).filter(|t| at < t.bottom().term.end());
            let same = all.first() == Some(first) && tickets[1..].iter().all(|t| ahead.next() == Some(t));
            first.site() == to && same && ahead.next().is_none()
        }),
        Message::Credit { receipts } => receipts.first().is_some_and(|first| {
            let crediting = state(first.what.link).is_some_and(|state| state.to_credit() == receipts);
            first.what.issuer == to && (crediting || guest.rest_to_credit(first.what.link) == Some(receipts))
        }),
        Message::Return { ticket, number, part: Part::Rights { units, from } } => {
            let asked = guest.rest_asked(ticket.hash());
            ticket.site() == to && asked == Some((*number, *units, *from))
        }
        Message::Return { ticket, number, part } => {
            let Some(AtGuest::Joining { held } | AtGuest::Active { held }) = state(ticket.hash())
            else {
                return false;
            };
            let same = PartReturn { number: *number, part: part.clone() };
            ticket.site() == to && held.change == Change::Returning(same)
        }
        Message::Modify { ticket, number, configuration } => {
            let Some(AtGuest::Joining { held } | AtGuest::Active { held }) = state(ticket.hash())
            else {
                return false;
            };
            let (number, configuration) = (*number, configuration.clone());
            ticket.site() == to && held.change == Change::Modifying { number, configuration }
        }
        _ => false,
    }
}

/// A driver is called only for a step that a durable fact began, in its epoch.
fn call_is_durable(
    scene: &Scene<'_>,
    actor: ActorId,
    call: &Call,
    tally: &mut Tally,
) -> LawVerdict {
    let model = scene.model;
    let good = match call.step {
        Step::Modify if actor == call.site => {
            let unit = model.sites.get(&actor).and_then(|site| site.units.get(&call.unit));
            unit.is_some_and(|unit| {
                let begun = matches!(unit.state, unit::State::Ready { .. });
                let same = unit.epoch == call.epoch && unit.modifications == call.number;
                begun && same && unit.quantity == call.quantity && unit.served == call.lease
            })
        }
        Step::Modify => {
            let guest = model.guests.get(&actor);
            let held = guest.and_then(|guest| guest.held(call.lease));
            held.is_some_and(|held| {
                let unit = held.units.get(&call.unit);
                held.untold.get(&call.unit) == Some(&call.number)
                    && unit.is_some_and(|(unit, _)| unit.epoch == call.epoch)
            })
        }
        Step::Setup | Step::Teardown => {
            let unit = model.sites.get(&actor).and_then(|site| site.units.get(&call.unit));
            unit.is_some_and(|unit| {
                let begun = match call.step {
                    Step::Setup => {
                        use unit::State::{Abandoned, SettingUp};
                        matches!(unit.state, SettingUp { .. } | Abandoned { .. })
                    }
                    _ => matches!(unit.state, unit::State::TearingDown { .. }),
                };
                begun && unit.epoch == call.epoch && unit.served == call.lease
            })
        }
        // S24 has them follow from the facts of plans.
        Step::Install | Step::Remove => true,
        Step::Warn => model.guests.get(&actor).is_some_and(|guest| is_warned(guest, model.participants.margin, call)),
        Step::Join | Step::Leave => {
            let lease = model.guests.get(&actor).and_then(|guest| guest.leases.get(&call.lease));
            let state = lease.and_then(|lease| lease.standing().lease());
            let held = state.and_then(AtGuest::held);
            let begun = match call.step {
                Step::Join => UnitUse::Joining,
                _ => UnitUse::Leaving,
            };
            held.and_then(|held| held.units.get(&call.unit))
                .is_some_and(|(leased, usage)| leased.epoch == call.epoch && *usage == begun)
                && held.is_some_and(|held| held.times_again(call.unit) == call.number)
        }
    };
    tally.check(good, || {
        let (name, unit) = (scene.name(), model.unit(call.site, call.unit));
        let (step, epoch) = (call.step.word(), call.epoch);
        format!("{name} has {step} of {unit} called in epoch {epoch:?}, which no durable fact began")
    })
}

/// Whether a guest was told that a unit which it uses is taken at the deadline of a warning, which is a margin
/// before the lease ends if that is earlier.
fn is_warned(guest: &GuestModel, margin: Span, call: &Call) -> bool {
    let Some(held) = guest.held(call.lease) else { return false };
    let used = held.units.get(&call.unit).is_some_and(|(unit, usage)| {
        unit.epoch == call.epoch && *usage == UnitUse::Joined
    });
    let above = held.units.keys().filter(|unit| **unit > call.unit).count();
    let named = guest.named.get(&call.lease).is_some_and(|named| named.contains(&call.unit));
    let told = guest.told.iter().any(|((lease, _), told)| {
        // Of the units that are not named those with the highest numbers go.
        let goes = held.units.len().saturating_sub(told.units as usize);
        let victim = named || told.victims.contains(&call.unit) || above < goes || held.is_share();
        let end = held.change.until().map_or(held.term.end(), |until| until.min(held.term.end()));
        let in_time = call.deadline == Some(told.at.min(end.minus(margin)));
        *lease == call.lease && in_time && victim && told.units < held.quantity()
    });
    used && told
}
