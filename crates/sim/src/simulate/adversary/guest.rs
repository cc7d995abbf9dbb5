//! What a dishonest guest does.

use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::Fact;

use tenure_core::model::identity::{ActorId, Scheme};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::{Span, Term};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::machine::State;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Clauses, Link, SignedLink};
use tenure_core::ticket::receipt::{Receipt, Return};
use tenure_core::wire::message::{Envelope, Message};
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::{History, Provisos};
use tenure_core::wire::request::{Item, Request};

use super::reworded;
use crate::simulate::act::Act;
use crate::simulate::fault::{Family, Fault};
use crate::simulate::violation::Violation;
use crate::simulate::world::Event;
use crate::simulate::world::World;

impl World {
    pub(in crate::simulate) fn dishonest_guest(&mut self) -> Result<(), Violation> {
        let Some(who) = self.adversary(Role::ServiceManager) else { return Ok(()) };
        match self.sampler(Family::DishonestGuest).below(13) {
            0 => self.redeem_again(who),
            1 => self.redeem_stolen(who),
            2 => self.close_others(who),
            3 => self.alter(who),
            4 => self.flood(who),
            5 => self.split(who),
            6 => self.false_receipt(who),
            7 | 10 | 11 => self.poach(who),
            8 => self.regroup(who),
            9 => self.falsify(who),
            _ => self.ask_oddly(who),
        }
        Ok(())
    }

    /// A ticket that was shown to a site, by this guest or by another.
    fn ticket(&mut self, of: impl Fn(ActorId) -> bool) -> Option<Ticket> {
        let fits = |ticket: &&Ticket| of(ticket.bottom().holder);
        let known: Vec<Ticket> = self.observed.tickets.iter().filter(fits).cloned().collect();
        self.sampler(Family::DishonestGuest).pick(&known).cloned()
    }

    /// A guest shows a ticket to its site.
    pub(in crate::simulate) fn show(&mut self, who: usize, ticket: Ticket) {
        let (to, redeem) = (ticket.site(), self.redeem(ticket));
        self.send_forged(who, to, redeem);
    }

    /// A ticket that its site gets at the very instant at which the ticket's term begins.
    fn show_at_the_start(&mut self, who: usize, ticket: Ticket) {
        let (site, start) = (ticket.site(), ticket.bottom().term.start());
        let Some(&to) = self.by_id.get(&site) else { return };
        let redeem = self.redeem(ticket);
        let (_, sealed) = self.forged_envelope(who, site, redeem);
        if let Some(at) = self.participants[to].clock.when(start) {
            self.later(at, Event::Message { to, sealed, edge: true, sent: None });
        }
    }

    fn redeem(&mut self, ticket: Ticket) -> Message {
        let sampler = self.sampler(Family::DishonestGuest);
        let lease = LeaseId { number: sampler.count(1, 300).into(), part: 0 };
        let min_units = if sampler.percent(20) {
            ticket.bottom().units.saturating_add(1)
        } else {
            NonZeroU32::MIN
        };
        let slice = Name::literal("other");
        let configuration = Properties::default();
        let victims = Vec::new();
        Message::Redeem { ticket, lease, slice, min_units, configuration, victims }
    }

    fn redeem_again(&mut self, who: usize) {
        let me = self.participants[who].id;
        let Some(ticket) = self.ticket(|holder| holder == me) else { return };
        self.watch.fault(Fault::RedeemsTwice);
        self.show(who, ticket);
    }

    fn redeem_stolen(&mut self, who: usize) {
        let me = self.participants[who].id;
        let Some(ticket) = self.ticket(|holder| holder != me) else { return };
        self.watch.fault(Fault::Stolen);
        self.show(who, ticket);
    }

    /// A ticket on its way to its holder, shown by the dishonest guest at once.
    pub(super) fn intercept(&mut self, ticket: Ticket) {
        let Some(who) = self.adversary(Role::ServiceManager) else { return };
        if ticket.bottom().holder != self.participants[who].id
            && self.strikes(Family::DishonestGuest, 10)
        {
            self.watch.fault(Fault::Intercepts);
            self.show(who, ticket);
        }
    }

    /// With the help of the dishonest broker, the dishonest guest extends the lease of another, or its own
    /// with a gap between the terms or when it has ended.
    fn poach(&mut self, who: usize) {
        let Some(broker) = self.adversary(Role::Broker) else { return };
        let (me, now) = (self.participants[who].id, self.now);
        let sampler = self.sampler(Family::DishonestGuest);
        let (own, late) = (sampler.percent(50), sampler.percent(50));
        let tickets: Vec<Ticket> = self.observed.tickets.iter().cloned().collect();
        let runs = |ticket: &&Ticket| {
            let link = ticket.bottom();
            (link.holder == me) == own && link.term.contains(now)
        };
        let running: Vec<&Ticket> = tickets.iter().filter(runs).collect();
        let Some(lease) = self.sampler(Family::DishonestGuest).pick(&running).copied() else {
            return;
        };
        let gap = if own && !late { self.setting.margin } else { Span::ZERO };
        let (link, extends) = (lease.bottom(), Some(lease.hash()));
        let from = link.term.end().plus(gap);
        let Ok(term) = Term::lasting(from, self.setting.margin.times(3)) else { return };
        let fits = |parent: &&Ticket| {
            let over = parent.bottom();
            parent.site() == lease.site()
                && over.resource == link.resource
                && over.units >= link.units
                && over.term.encloses(term)
        };
        let Some(parent) = self.observed.delegations.iter().rfind(fits).cloned() else { return };
        self.observed.serial += 1;
        let next = Link {
            parent: Some(parent.hash()),
            issuer: self.participants[broker].id,
            holder: me,
            constraints: parent.bottom().constraints.clone(),
            clauses: Clauses::NONE,
            delegation: None,
            serial: (1 << 40) + self.observed.serial,
            term,
            extends,
            ..(**link).clone()
        };
        self.watch.fault(Fault::Poaches);
        let next = parent.with(SignedLink::sign(next, &self.participants[broker].signer));
        if own && late { self.show_at_the_start(who, next) } else { self.show(who, next) }
    }

    /// A fact of its actor's that tempts the dishonest guest to close a lease unheard: at once, so that the
    /// site's answer crosses with others, or as the term ends.
    pub(in crate::simulate) fn tempt(&mut self, who: usize, fact: &Fact) {
        use service_manager::Fact as F;
        let Fact::ServiceManager(fact) = fact else { return };
        let lease = if let F::Leased(fact) = fact {
            fact.lease
        } else if let F::ExtensionAsked(fact) = fact {
            fact.lease
        } else if let F::ExtensionGranted(fact) = fact {
            fact.lease
        } else if let F::LeaveBegun(fact) = fact {
            fact.lease
        } else {
            return;
        };
        if self.participants[who].honest || !self.strikes(Family::DishonestGuest, 10) {
            return;
        }
        let at_the_end = self.sampler(Family::DishonestGuest).percent(50);
        let end = self.held_by(who, lease).iter().map(|ticket| ticket.bottom().term.end()).max();
        let at = end.filter(|_| at_the_end).unwrap_or(self.now);
        self.later(at, Event::Act(Act::Betray(who, lease)));
    }

    pub(in crate::simulate) fn betray(&mut self, who: usize, lease: LeaseId) {
        let tickets = self.held_by(who, lease);
        let Some(first) = tickets.first() else { return };
        self.watch.fault(Fault::Betrays);
        let to = first.site();
        self.send_forged(who, to, Message::Close { tickets });
    }

    /// The tickets that a guest holds a lease by.
    fn held_by(&self, who: usize, lease: LeaseId) -> Vec<Ticket> {
        let AnyActor::ServiceManager(guest) = &self.participants[who].fold else {
            return Vec::new();
        };
        let held = guest.lease(lease).and_then(State::held);
        held.map(|held| held.tickets.clone()).unwrap_or_default()
    }

    /// A ticket of its own with more units than its broker has signed.
    fn falsify(&mut self, who: usize) {
        let me = self.participants[who].id;
        let Some(ticket) = self.ticket(|holder| holder == me) else { return };
        // Where nothing is signed, nothing can be forged.
        if self.setting.scheme == Scheme::None {
            return;
        }
        let mut link: Link = (**ticket.bottom()).clone();
        link.units = link.units.saturating_add(1);
        let signed = SignedLink::sign(link, &self.participants[who].signer);
        let Some(link) = reworded(ticket.bottom(), &signed) else { return };
        let mut links = ticket.links().to_vec();
        links.pop();
        links.push(link);
        let Ok(forged) = Ticket::try_from(links) else { return };
        self.watch.fault(Fault::Falsifies);
        self.show(who, forged);
    }

    /// Closes two leases of its own, first together and then each by itself.
    fn regroup(&mut self, who: usize) {
        let me = self.participants[who].id;
        let Some(one) = self.ticket(|holder| holder == me) else { return };
        let Some(other) = self.ticket(|holder| holder == me) else { return };
        if one.site() != other.site() || one == other {
            return;
        }
        self.watch.fault(Fault::Regroups);
        for tickets in [vec![one.clone(), other.clone()], vec![other], vec![one]] {
            let to = tickets[0].site();
            self.send_forged(who, to, Message::Close { tickets });
        }
    }

    fn close_others(&mut self, who: usize) {
        let me = self.participants[who].id;
        let Some(ticket) = self.ticket(|holder| holder != me) else { return };
        let own = self.ticket(|holder| holder == me);
        self.watch.fault(Fault::ClosesOthers);
        let to = ticket.site();
        let own = own.filter(|own| own.site() == to);
        let tickets = own.into_iter().chain([ticket]).collect();
        self.send_forged(who, to, Message::Close { tickets });
    }

    /// A message that someone sealed, with a bit flipped or its end cut off.
    fn alter(&mut self, who: usize) {
        let sealed = self.wire.past().back().cloned();
        let Some((to, sealed)) = sealed else { return };
        let to = self.participants[to].id;
        let mut bytes = sealed.bytes().to_vec();
        // Of what was cut off at its beginning nothing is left to alter.
        if bytes.is_empty() {
            return;
        }
        let sampler = self.sampler(Family::DishonestGuest);
        let (place, bit) = (sampler.below(bytes.len()), sampler.below(8));
        bytes[place] ^= 1 << bit;
        if sampler.percent(30) {
            bytes.truncate(place);
        }
        // Where nothing is signed, a ticket with other words in it would be as good as a real one.
        let reads = Envelope::read(&bytes).is_ok();
        if reads && self.setting.scheme == Scheme::None {
            return;
        }
        self.watch.fault(Fault::Alters);
        self.send_bytes(who, to, bytes);
    }

    fn flood(&mut self, who: usize) {
        let brokers = self.of_role(Role::Broker);
        let Some(&broker) = self.sampler(Family::DishonestGuest).pick(&brokers) else { return };
        let to = self.participants[broker].id;
        self.watch.fault(Fault::Floods);
        for _ in 0..20 {
            let duration = self.setting.margin.times(2).plus(Span::MINUTE);
            let request = self.odd_request(who, duration);
            self.send_forged(who, to, Message::Request(request));
        }
    }

    /// Parts of a ticket that is in use, or more parts than it has units.
    fn split(&mut self, who: usize) {
        let me = self.participants[who].id;
        let Some(ticket) = self.ticket(|holder| holder == me) else { return };
        self.watch.fault(Fault::Splits);
        for _ in 0..2 {
            self.observed.serial += 1;
            let mut link: Link = (**ticket.bottom()).clone();
            (link.parent, link.issuer) = (Some(ticket.hash()), me);
            (link.serial, link.extends) = ((1 << 40) + self.observed.serial, None);
            let part = ticket.with(SignedLink::sign(link, &self.participants[who].signer));
            self.show(who, part);
        }
    }

    /// A receipt that was taken already or, where signatures are checked, one that no site signed.
    fn false_receipt(&mut self, who: usize) {
        let known: Vec<Receipt> = self.observed.receipts.iter().cloned().collect();
        let signed = self.setting.scheme == Scheme::Ed25519;
        let me = self.participants[who].id;
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
                Some(Receipt::sign(what, &self.participants[who].signer))
            }
            _ => self.sampler(Family::DishonestGuest).pick(&known).cloned(),
        };
        let Some(receipt) = receipt else { return };
        self.watch.fault(Fault::FalseReceipt);
        let to = receipt.what.issuer;
        self.send_forged(who, to, Message::Credit { receipts: vec![receipt] });
    }

    fn ask_oddly(&mut self, who: usize) {
        let brokers = self.of_role(Role::Broker);
        let Some(&broker) = self.sampler(Family::DishonestGuest).pick(&brokers) else { return };
        let to = self.participants[broker].id;
        let other = self.participants[0].id;
        let held = self.ticket(|_| true);
        let (margin, term) = (self.setting.margin, self.setting.term);
        let mut request = self.odd_request(who, term);
        match self.sampler(Family::DishonestGuest).below(7) {
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
        self.send_forged(who, to, Message::Request(request));
    }

    /// A request that its sender's actor knows nothing of.
    fn odd_request(&mut self, who: usize, duration: Span) -> Request {
        self.observed.serial += 1;
        let id = RequestId {
            origin: self.participants[who].id,
            number: (1 << 40) + self.observed.serial,
        };
        let earliest = self.now.plus(self.setting.term);
        let units = NonZeroU32::new(self.sampler(Family::DishonestGuest).count(1, 3));
        let units = units.unwrap_or(NonZeroU32::MIN);
        let item = Item::new(Name::literal("node"), units);
        Request {
            id,
            items: vec![item],
            earliest,
            latest: earliest,
            duration,
            min_duration: duration,
            provisos: Provisos::NONE,
            history: History::first(earliest),
            receipts: Vec::new(),
            reply: Reply::Grant,
            answer_by: earliest.plus(duration),
            properties: Properties::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Options, begin};

    #[test]
    fn of_an_empty_message_nothing_is_altered() {
        let mut world = begin(0, &Options::default());
        world.setting.families.extend([Family::Replay, Family::DishonestGuest]);
        let to = world.participants[1].id;
        let empty = |world: &World| {
            let last = world.wire.past().back();
            last.is_some_and(|(_, sealed)| sealed.bytes().is_empty())
        };
        for _ in 0..1000 {
            world.send_bytes(0, to, Vec::new());
        }
        assert!(empty(&world), "one message of five is remembered");
        let sent = world.watch.counts.faults.get(&Fault::Alters).copied();
        world.alter(0);
        assert_eq!(world.watch.counts.faults.get(&Fault::Alters).copied(), sent);
    }
}
