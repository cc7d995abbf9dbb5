//! A dishonest broker and a dishonest guest. Both run the real actor and, now and then, speak beside it:
//! with keys of their own, about tickets and messages that they have seen.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::codec;
use tenure_core::identity::{ActorId, Scheme};
use tenure_core::message::{Envelope, Header, Item, Message, Request, Sealed, Sequence};
use tenure_core::name::Name;
use tenure_core::notary::Notary;
use tenure_core::property::Properties;
use tenure_core::resource::{Constraint, Constraints, Test, Value};
use tenure_core::slice::{LeaseId, RequestId};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Generation, Link, SignedLink};
use tenure_core::ticket::receipt::{Receipt, Return};
use tenure_core::time::{Span, Term, Time};

use super::fault::{Family, Fault};
use super::violation::Violation;
use super::world::World;

/// How much of what they saw the dishonest keep.
const KEPT: usize = 24;

/// What the dishonest have seen.
#[derive(Default)]
pub(super) struct Loot {
    /// Delegations to the dishonest broker, all generations.
    delegations: VecDeque<Ticket>,
    /// Tickets that were shown to sites.
    tickets: VecDeque<Ticket>,
    receipts: VecDeque<Receipt>,
    /// What the dishonest broker will do with the next requests that reach it.
    ambush: Option<(Fault, u32)>,
    /// Numbers for messages and links of their own.
    serial: u64,
}

fn keep<T>(kept: &mut VecDeque<T>, one: T) {
    if kept.len() >= KEPT {
        kept.pop_front();
    }
    kept.push_back(one);
}

impl World {
    /// Whoever is dishonest in a role.
    fn crook(&self, role: Role) -> Option<usize> {
        self.players.iter().position(|player| player.role == role && !player.honest)
    }

    /// The dishonest see every message; tickets are not secret.
    pub(super) fn overhear(&mut self, envelope: &Envelope) {
        if !self.setting.has(Family::BrokerCrime) && !self.setting.has(Family::GuestCrime) {
            return;
        }
        let loot = &mut self.loot;
        if let Message::Delegate { ticket, .. } = &envelope.message {
            let to = self.by_id.get(&envelope.header.to);
            if to.is_some_and(|&to| !self.players[to].honest) {
                keep(&mut loot.delegations, ticket.clone());
            }
        } else if let Message::Redeem { ticket, .. } = &envelope.message {
            keep(&mut loot.tickets, ticket.clone());
        } else if let Message::Closed { receipts, .. } = &envelope.message {
            receipts.iter().for_each(|receipt| keep(&mut loot.receipts, receipt.clone()));
        }
    }

    /// Says something in somebody's name, beside what its actor says.
    fn utter(&mut self, who: usize, to: ActorId, message: Message) {
        self.loot.serial += 1;
        let sequence = Sequence { position: (1 << 40) + self.loot.serial, index: 0 };
        let header = Header { from: self.players[who].id, to, sequence, at: self.now };
        let kind = message.kind();
        let mut notary = Notary::new(self.players[who].signer.clone());
        let sealed = Envelope { header, message }.seal(&mut notary);
        self.transmit(who, sequence, to, kind, &sealed);
    }

    /// Sends bytes of somebody's making.
    fn send_bytes(&mut self, who: usize, to: ActorId, bytes: Vec<u8>) {
        self.loot.serial += 1;
        let sequence = Sequence { position: (1 << 40) + self.loot.serial, index: 0 };
        let mut notary = Notary::new(self.players[who].signer.clone());
        let (key, signature) = notary.sign_message(&bytes);
        if let Ok(sealed) = codec::decode::<Sealed>(&codec::encode(&(bytes, key, signature))) {
            self.transmit(who, sequence, to, "garbage", &sealed);
        }
    }

    pub(super) fn broker_crime(&mut self) -> Result<(), Violation> {
        let Some(who) = self.crook(Role::Broker) else { return Ok(()) };
        let everybody: Vec<ActorId> = self.players.iter().map(|player| player.id).collect();
        let spell = self.spell(Family::BrokerCrime);
        let dice = self.dice(Family::BrokerCrime);
        match dice.below(12) {
            0 => {
                let (size, to) = (dice.below(300), dice.below(everybody.len()));
                let bytes = dice.bytes(size);
                self.watch.fault(Fault::BrokerGarbage);
                self.send_bytes(who, everybody[to], bytes);
            }
            1 => {
                self.watch.fault(Fault::Silent);
                let until = self.now.plus(spell);
                for other in 0..self.players.len() {
                    self.wire.cut(who, other, until);
                }
            }
            kind => {
                let faults = [
                    Fault::OverIssue,
                    Fault::OverIssue,
                    Fault::FromClosed,
                    Fault::Equivocates,
                    Fault::Forges,
                    Fault::Conditions,
                ];
                let (fault, count) = (faults[kind % faults.len()], dice.count(1, 3));
                // Where nothing is signed, nothing can be forged.
                let idle = fault == Fault::Forges && self.setting.scheme == Scheme::None;
                self.loot.ambush = (!idle).then_some((fault, count));
            }
        }
        Ok(())
    }

    /// What the dishonest broker does with a message that reaches it; `true` if its actor never hears it.
    pub(super) fn ambushed(&mut self, to: usize, sealed: &Sealed) -> bool {
        let Some((fault, left)) = self.loot.ambush else { return false };
        if self.players[to].honest || self.players[to].role != Role::Broker {
            return false;
        }
        let Ok(Envelope { message: Message::Request(request), .. }) = sealed.peek() else {
            return false;
        };
        self.loot.ambush = (left > 1).then_some((fault, left - 1));
        let copies = if fault == Fault::Equivocates { 2 } else { 1 };
        let mut done = false;
        for _ in 0..copies {
            if let Some(tickets) = self.false_grant(to, &request, fault) {
                self.utter(
                    to,
                    request.id.origin,
                    Message::Granted { request: request.id, tickets },
                );
                done = true;
            }
        }
        if done {
            self.watch.fault(fault);
        }
        done && fault != Fault::Equivocates
    }

    /// Tickets for a request that no ledger has seen.
    fn false_grant(
        &mut self,
        who: usize,
        request: &Request,
        fault: Fault,
    ) -> Option<Vec<(u16, Ticket)>> {
        let term = Term::lasting(request.earliest, request.duration).ok()?;
        let mut tickets = Vec::new();
        for (index, item) in (0u16..).zip(&request.items) {
            let parent = self.parent(item, term, fault == Fault::FromClosed)?;
            let parent = if fault == Fault::Forges { self.forged(who, &parent) } else { parent };
            self.loot.serial += 1;
            let mut constraints = parent.bottom().constraints.clone();
            if fault == Fault::Conditions {
                let test = Test::Equals(Value::Number(99));
                constraints.add(Constraint { key: Name::literal("speed"), test });
            }
            let link = Link {
                parent: Some(parent.hash()),
                issuer: self.players[who].id,
                holder: request.id.origin,
                resource: item.resource.clone(),
                units: item.units.min(parent.bottom().units).max(item.least),
                term,
                constraints,
                delegation: None,
                extends: item.extends,
                serial: (1 << 40) + self.loot.serial,
            };
            tickets.push((index, parent.with(SignedLink::sign(link, &self.players[who].signer))));
        }
        Some(tickets)
    }

    /// A delegation to cut from: the newest that covers the term or, if asked for, one that is over.
    fn parent(&self, item: &Item, term: Term, over: bool) -> Option<Ticket> {
        let of_type = |ticket: &&Ticket| ticket.bottom().resource == item.resource;
        let mut known = self.loot.delegations.iter().filter(of_type);
        if over {
            return known.next().cloned();
        }
        known.rfind(|ticket| ticket.bottom().term.encloses(term)).cloned()
    }

    /// A delegation that its site never signed: more units, under a new number or the same.
    fn forged(&mut self, who: usize, real: &Ticket) -> Ticket {
        let dice = self.dice(Family::BrokerCrime);
        let mut link: Link = (**real.bottom()).clone();
        link.units = link.units.saturating_add(4);
        let number = if dice.percent(50) { 77 } else { 1 };
        link.delegation = Some(Generation { delegation: number, generation: dice.count(0, 3) });
        let real_key = dice.percent(30);
        let signed = SignedLink::sign(link, &self.players[who].signer);
        if !real_key {
            return Ticket::root_of(signed);
        }
        // The site's own key and signature, on other words.
        let mut bytes = real.bottom().as_bytes()[..96].to_vec();
        bytes.extend_from_slice(&signed.as_bytes()[96..]);
        SignedLink::read(&bytes).map_or(Ticket::root_of(signed), Ticket::root_of)
    }

    pub(super) fn guest_crime(&mut self) -> Result<(), Violation> {
        let Some(who) = self.crook(Role::ServiceManager) else { return Ok(()) };
        match self.dice(Family::GuestCrime).below(8) {
            0 => self.redeem_again(who),
            1 => self.redeem_stolen(who),
            2 => self.close_others(who),
            3 => self.alter(who),
            4 => self.flood(who),
            5 => self.split(who),
            6 => self.false_receipt(who),
            _ => self.ask_oddly(who),
        }
        Ok(())
    }

    /// A ticket that was shown to a site, by this guest or by another.
    fn ticket(&mut self, of: impl Fn(ActorId) -> bool) -> Option<Ticket> {
        let fits = |ticket: &&Ticket| of(ticket.bottom().holder);
        let known: Vec<Ticket> = self.loot.tickets.iter().filter(fits).cloned().collect();
        self.dice(Family::GuestCrime).pick(&known).cloned()
    }

    fn show(&mut self, who: usize, ticket: Ticket) {
        let dice = self.dice(Family::GuestCrime);
        let lease = LeaseId { number: dice.count(1, 300).into(), part: 0 };
        let least = if dice.percent(20) {
            ticket.bottom().units.saturating_add(1)
        } else {
            NonZeroU32::MIN
        };
        let slice = Name::literal("other");
        let to = ticket.site();
        let configuration = Properties::default();
        self.utter(who, to, Message::Redeem { ticket, lease, slice, least, configuration });
    }

    fn redeem_again(&mut self, who: usize) {
        let me = self.players[who].id;
        let Some(ticket) = self.ticket(|holder| holder == me) else { return };
        self.watch.fault(Fault::RedeemsTwice);
        self.show(who, ticket);
    }

    fn redeem_stolen(&mut self, who: usize) {
        let me = self.players[who].id;
        let Some(ticket) = self.ticket(|holder| holder != me) else { return };
        self.watch.fault(Fault::Stolen);
        self.show(who, ticket);
    }

    fn close_others(&mut self, who: usize) {
        let me = self.players[who].id;
        let Some(ticket) = self.ticket(|holder| holder != me) else { return };
        let own = self.ticket(|holder| holder == me);
        self.watch.fault(Fault::ClosesOthers);
        let to = ticket.site();
        let own = own.filter(|own| own.site() == to);
        let tickets = own.into_iter().chain([ticket]).collect();
        self.utter(who, to, Message::Close { tickets });
    }

    /// A message that somebody sealed, with a bit flipped or its end cut off.
    fn alter(&mut self, who: usize) {
        let sealed = self.wire.past().back().cloned();
        let Some((to, sealed)) = sealed else { return };
        let to = self.players[to].id;
        let mut bytes = sealed.bytes().to_vec();
        let dice = self.dice(Family::GuestCrime);
        let (place, bit) = (dice.below(bytes.len()), dice.below(8));
        bytes[place] ^= 1 << bit;
        if dice.percent(30) {
            bytes.truncate(place);
        }
        // Where nothing is signed, a ticket with other words in it would be as good as a real one.
        let reads = codec::decode::<Envelope>(&bytes).is_ok();
        if reads && self.setting.scheme == Scheme::None {
            return;
        }
        self.watch.fault(Fault::Alters);
        self.send_bytes(who, to, bytes);
    }

    fn flood(&mut self, who: usize) {
        let brokers = self.of_role(Role::Broker);
        let Some(&broker) = self.dice(Family::GuestCrime).pick(&brokers) else { return };
        let to = self.players[broker].id;
        self.watch.fault(Fault::Floods);
        for _ in 0..20 {
            let duration = self.setting.margin.times(2).plus(Span::MINUTE);
            let request = self.odd_request(who, duration);
            self.utter(who, to, Message::Request(request));
        }
    }

    /// Parts of a ticket that is in use, or more parts than it has units.
    fn split(&mut self, who: usize) {
        let me = self.players[who].id;
        let Some(ticket) = self.ticket(|holder| holder == me) else { return };
        self.watch.fault(Fault::Splits);
        for _ in 0..2 {
            self.loot.serial += 1;
            let mut link: Link = (**ticket.bottom()).clone();
            (link.parent, link.issuer) = (Some(ticket.hash()), me);
            (link.serial, link.extends) = ((1 << 40) + self.loot.serial, None);
            let part = ticket.with(SignedLink::sign(link, &self.players[who].signer));
            self.show(who, part);
        }
    }

    /// A receipt that was taken already or, where signatures are checked, one that no site signed.
    fn false_receipt(&mut self, who: usize) {
        let known: Vec<Receipt> = self.loot.receipts.iter().cloned().collect();
        let signed = self.setting.scheme == Scheme::Ed25519;
        let me = self.players[who].id;
        let receipt = match self.ticket(|holder| holder == me) {
            Some(ticket) if signed => {
                let link = ticket.bottom();
                let what = Return {
                    site: ticket.site(),
                    link: link.hash(),
                    issuer: link.issuer,
                    units: link.units,
                    term: link.term,
                    number: 0,
                };
                Some(Receipt::sign(what, &self.players[who].signer))
            }
            _ => self.dice(Family::GuestCrime).pick(&known).cloned(),
        };
        let Some(receipt) = receipt else { return };
        self.watch.fault(Fault::FalseReceipt);
        let to = receipt.what.issuer;
        self.utter(who, to, Message::Credit { receipts: vec![receipt] });
    }

    fn ask_oddly(&mut self, who: usize) {
        let brokers = self.of_role(Role::Broker);
        let Some(&broker) = self.dice(Family::GuestCrime).pick(&brokers) else { return };
        let to = self.players[broker].id;
        let other = self.players[0].id;
        let held = self.ticket(|_| true);
        let (margin, term) = (self.setting.margin, self.setting.term);
        let mut request = self.odd_request(who, term);
        match self.dice(Family::GuestCrime).below(7) {
            0 => request.id.origin = other,
            1 => request.items.clear(),
            2 => request.items = vec![request.items[0].clone(); 17],
            3 => request.duration = margin.times(2),
            4 => request.latest = request.earliest.minus(Span::SECOND),
            _ => {
                let Some(held) = held else { return };
                let end = held.bottom().term.end();
                (request.earliest, request.latest) = (end, end);
                request.answer_by = end.plus(term);
                request.items[0].extends = Some(held.hash());
            }
        }
        self.watch.fault(Fault::OddAsks);
        self.utter(who, to, Message::Request(request));
    }

    /// A request that its sender's actor knows nothing of.
    fn odd_request(&mut self, who: usize, duration: Span) -> Request {
        self.loot.serial += 1;
        let id = RequestId { origin: self.players[who].id, number: (1 << 40) + self.loot.serial };
        let earliest = self.now.plus(self.setting.term);
        let units = NonZeroU32::new(self.dice(Family::GuestCrime).count(1, 3));
        let units = units.unwrap_or(NonZeroU32::MIN);
        let (resource, requirements) = (Name::literal("node"), Constraints::NONE);
        let item = Item { resource, units, least: units, requirements, extends: None };
        Request {
            id,
            items: vec![item],
            earliest,
            latest: earliest,
            duration,
            answer_by: earliest.plus(duration),
            properties: Properties::default(),
        }
    }
}

/// Whether the time has come when the dishonest are all that is wrong.
pub(super) fn goes_on(family: Family, healed: bool) -> bool {
    !healed || matches!(family, Family::BrokerCrime | Family::GuestCrime)
}

/// Until when the dishonest go on after everything else is well.
pub(super) fn last(heal: Time, term: Span) -> Time {
    heal.plus(term.times(3))
}
