//! The laws that one actor keeps or breaks by itself, judged by its facts alone and by none of the
//! ledgers and machines that are to be checked.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::broker::facts as broker;
use tenure_core::broker::machine::Tickets;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::{Term, Time};
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::sequence::{Gate, On};
use tenure_core::site_authority::facts as site_authority;
use tenure_core::site_authority::machine::CloseReason;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::ledger::LEDGER_RETENTION;
use tenure_core::ticket::link::{AccountId, LinkHash, SignedLink};
use tenure_core::ticket::receipt::Receipt;
use tenure_core::wire::handover::Outcome;
use tenure_core::wire::message::Message;

/// A link, with what came back of it: units, and when they are not out.
type Out = (AccountId, SignedLink, Vec<(u32, Term)>);

/// The links and leases in an actor's facts.
#[derive(Clone, Debug, Default)]
pub(crate) struct FactIndex {
    delegated: BTreeMap<AccountId, Vec<SignedLink>>,
    /// Each link that was cut or claimed.
    links: BTreeMap<LinkHash, Out>,
    /// Each link that was cut and sent, and of which this index knows nothing.
    lost: BTreeMap<LinkHash, Out>,
    /// The numbers of a guest's requests, and the tickets that came of them.
    asked: BTreeSet<u64>,
    granted: BTreeMap<LinkHash, Ticket>,
    /// The parts of kept tickets that a guest handed on.
    parts: BTreeMap<LinkHash, Ticket>,
    /// The tickets that a broker cut for a request that it remembers.
    remembered: BTreeMap<RequestId, Vec<LinkHash>>,
    /// The tickets of each offer that a broker holds, by request.
    held: BTreeMap<RequestId, Vec<Vec<LinkHash>>>,
    /// The requests that it ever held offers for.
    offered: BTreeSet<RequestId>,
    /// The tickets that another broker has cut for a request that was passed on to it.
    brought: BTreeSet<LinkHash>,
    /// The leases that went active at a site.
    activated: BTreeSet<LinkHash>,
    /// The receipts, by ticket and number: of the site, of its guest, in the credit of their broker.
    returned: BTreeSet<(LinkHash, u32)>,
    /// The tickets of each lease that a site ever had.
    leases: BTreeMap<LinkHash, Vec<Ticket>>,
    /// Recalls, by lease and link, whose notices the holders have not confirmed to the site.
    untold: BTreeSet<(LinkHash, LinkHash)>,
    /// Leases that lost units while their guests could not be reached.
    unreached: BTreeSet<LinkHash>,
    /// Of a guest's requests, the request that each waits for, and those whose units were joined.
    waits: BTreeMap<u64, (u64, Gate)>,
    joined: BTreeSet<u64>,
    broken: BTreeSet<&'static str>,
}

impl FactIndex {
    /// Adds the next facts.
    pub(crate) fn read(&mut self, facts: &[Entry]) {
        for Entry { at, fact } in facts {
            match fact {
                Fact::ServiceManager(fact) => self.guest(fact),
                Fact::Broker(fact) => self.broker(*at, fact),
                Fact::SiteAuthority(fact) => self.site(*at, fact),
            }
        }
        self.conservation();
    }

    /// Adds the tickets that were sent by an actor that then lost its journal: they are issued.
    pub(crate) fn read_sent(&mut self, lost: &Self) {
        let unknown = |(hash, _): &(&LinkHash, &Out)| !self.links.contains_key(hash);
        let sent = lost.links.iter().chain(&lost.lost).filter(unknown);
        let sent: Vec<_> = sent.map(|(&hash, link)| (hash, link.clone())).collect();
        self.lost.extend(sent);
        self.conservation();
    }

    /// S9: whether a message follows from the facts.
    pub(crate) fn imply(&self, message: &Message) -> bool {
        let delegated =
            |wanted: &dyn Fn(&SignedLink) -> bool| self.delegated.values().flatten().any(wanted);
        let held = |ticket: &Ticket| self.granted.contains_key(&ticket.hash());
        let signed = |receipt: &Receipt| self.returned.contains(&number(receipt));
        match message {
            Message::Delegate { ticket, .. } => {
                delegated(&|link| link == ticket.bottom())
                    || self.links.contains_key(&ticket.hash())
            }
            Message::Delegated { generation, .. } => delegated(&|link| {
                link.delegation.is_some_and(|taken| taken.generation == *generation)
            }),
            Message::Request(request) => self.asked.contains(&request.id.number),
            Message::Accept { request, .. } => self.asked.contains(&request.number),
            Message::Withdraw(request) => self.asked.contains(&request.id.number),
            Message::Waiting { .. } => true,
            Message::Offered { request, until, .. } => {
                until.is_none() || self.offered.contains(request)
            }
            Message::Granted { tickets, .. } => tickets.iter().all(|(_, ticket)| {
                self.links.contains_key(&ticket.hash()) || self.brought.contains(&ticket.hash())
            }),
            Message::Redeem { ticket, .. } => held(ticket),
            Message::Leased { ticket, .. } => self.activated.contains(&self.lease_of(*ticket)),
            Message::Reclaim { ticket } => self.links.contains_key(&ticket.hash()),
            Message::Close { tickets } => tickets.iter().all(held),
            Message::Return { ticket, .. } | Message::Modify { ticket, .. } => held(ticket),
            Message::Modified { ticket, .. } => self.activated.contains(&self.lease_of(*ticket)),
            Message::Closed { receipts, .. }
            | Message::Returned { receipts, .. }
            | Message::Reclaimed { receipts, .. }
            | Message::Credit { receipts } => receipts.iter().all(signed),
            // Of a ticket that is forgotten there is nothing left to credit.
            Message::Credited { receipts } => receipts.iter().all(|(hash, number)| {
                let remembered = self.remembered.values().flatten().any(|cut| cut == hash);
                !remembered || self.returned.contains(&(*hash, *number))
            }),
            Message::Recall { ticket, .. } => self.links.contains_key(&ticket.hash()),
            Message::Recalled { receipts, .. } => receipts.iter().all(signed),
            Message::RecallNotice { .. }
            | Message::RecallNoted { .. }
            | Message::UnitFailed { .. }
            | Message::Ping
            | Message::Inquire(_)
            | Message::Available { .. }
            | Message::Pong { .. }
            | Message::Keys { .. }
            | Message::KeysNoted { .. }
            | Message::Need(_)
            | Message::Noted { .. }
            | Message::Hosts(_)
            | Message::HostsNoted { .. }
            | Message::HostsChanged { .. }
            | Message::Restate { .. }
            | Message::HandOver(_)
            | Message::HandedBack(_)
            | Message::AskPortion(_)
            | Message::PortionBack(_)
            | Message::PortionDecided { .. }
            | Message::Heartbeat { .. }
            | Message::HeartbeatHeard { .. }
            | Message::Advert(_)
            | Message::AdvertWanted
            | Message::Join(_)
            | Message::Joined { .. }
            | Message::Refused { .. } => true,
        }
    }

    /// The laws that the facts break.
    pub(crate) fn broken(&self) -> &BTreeSet<&'static str> {
        &self.broken
    }

    /// The parts of kept tickets that a guest handed on.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Ticket> {
        self.parts.values()
    }

    /// The leases that lost units without a word from their guests, who may believe in them.
    pub(crate) fn unreached(&self) -> &BTreeSet<LinkHash> {
        &self.unreached
    }

    /// The leases that a site ever had, each with its end.
    pub(crate) fn leases(&self) -> impl Iterator<Item = (LinkHash, Time)> {
        self.leases.iter().map(|(&hash, tickets)| (hash, end(tickets)))
    }

    /// The lease at a site that a ticket began or extended.
    pub(crate) fn lease_of(&self, ticket: LinkHash) -> LinkHash {
        let of = |(_, tickets): &(&LinkHash, &Vec<Ticket>)| {
            tickets.iter().any(|other| other.hash() == ticket)
        };
        self.leases.iter().find(of).map_or(ticket, |(&lease, _)| lease)
    }

    /// S21: what a request of the model waits for is one lease of one unit, which must have been joined.
    fn in_sequence(&mut self, request: u64, passed: Gate) {
        let waits = self.waits.get(&request).filter(|(_, gate)| *gate == passed);
        if waits.is_some_and(|(other, _)| !self.joined.contains(other)) {
            self.broken.insert("S21");
        }
    }

    fn guest(&mut self, fact: &service_manager::Fact) {
        use service_manager::Fact as F;
        let all = |tickets: &[(u16, Ticket)]| tickets.iter().map(|(_, t)| t.clone()).collect();
        let granted: Vec<Ticket> = match fact {
            F::Asked(fact) => {
                self.asked.insert(fact.request.id.number);
                let on = fact.handling.after.iter().filter_map(|after| match after.on {
                    On::Request(other) => Some((fact.request.id.number, (other, after.gate))),
                    On::Item(_) | On::Mapper => None,
                });
                self.waits.extend(on);
                Vec::new()
            }
            F::Leased(fact) => {
                self.in_sequence(fact.lease.number, Gate::Redeem);
                Vec::new()
            }
            // One that failed to join counts like any other.
            F::Joined(fact) => {
                self.in_sequence(fact.lease.number, Gate::Join);
                self.joined.insert(fact.lease.number);
                Vec::new()
            }
            F::ExtensionAsked(fact) => {
                self.asked.insert(fact.request.id.number);
                Vec::new()
            }
            F::Granted(fact) => all(&fact.tickets),
            F::UnwantedGranted(fact) => all(&fact.tickets),
            F::ExtensionGranted(fact) => vec![fact.ticket.clone()],
            F::TicketTaken(fact) => vec![fact.ticket.clone()],
            F::TicketsSplit(fact) => {
                fact.links.iter().for_each(|link| self.split(link));
                Vec::new()
            }
            F::SiteClosed(fact) => {
                self.returned.extend(fact.receipts.iter().map(number));
                Vec::new()
            }
            F::PartReturned(fact) => {
                self.returned.extend(fact.receipts.iter().map(number));
                Vec::new()
            }
            _ => Vec::new(),
        };
        self.granted.extend(granted.into_iter().map(|ticket| (ticket.hash(), ticket)));
    }

    #[allow(clippy::too_many_lines, reason = "a line or two for each kind of fact")]
    fn broker(&mut self, at: Time, fact: &broker::Fact) {
        match fact {
            broker::Fact::DelegationTaken(fact) => self.open(&fact.ticket),
            broker::Fact::DelegationEnded(fact) => {
                self.end(fact.delegation.number, at.minus(LEDGER_RETENTION));
            }
            broker::Fact::TicketsCut(fact) => {
                let hashes = fact.tickets.iter().map(|(_, ticket)| ticket.hash()).collect();
                self.remembered.insert(fact.request, hashes);
                fact.tickets.iter().for_each(|(_, ticket)| self.enter(ticket));
            }
            broker::Fact::OffersHeld(fact) => {
                fact.offers.iter().flatten().for_each(|(_, ticket)| self.enter(ticket));
                let hashes = |offer: &Tickets| offer.iter().map(|(_, t)| t.hash()).collect();
                self.offered.insert(fact.request);
                self.held.insert(fact.request, fact.offers.iter().map(hashes).collect());
            }
            broker::Fact::PassAnswered(fact) => {
                if let Outcome::Granted(tickets) = &fact.outcome {
                    self.brought.extend(tickets.iter().map(|(_, ticket)| ticket.hash()));
                }
            }
            // The model check divides nothing.
            broker::Fact::PortionHanded(_)
            | broker::Fact::PortionKept(_)
            | broker::Fact::PortionPassed(_)
            | broker::Fact::PortionAnswered(_)
            | broker::Fact::PortionReserved(_)
            | broker::Fact::PortionsTaken(_)
            | broker::Fact::PortionsGranted(_)
            | broker::Fact::PortionsReleased(_) => {}
            broker::Fact::OfferAccepted(fact) => self.end_hold(fact.request, Some(fact.offer)),
            broker::Fact::HoldEnded(fact) => self.end_hold(fact.request, None),
            broker::Fact::RequestQueued(_) | broker::Fact::RequestPlanned(_) => {}
            broker::Fact::ReceiptTaken(fact) => {
                self.give_back(&fact.receipt, at);
            }
            broker::Fact::RequestForgotten(fact) => {
                self.remembered.remove(&fact.request);
            }
            broker::Fact::DelegationIssued(fact) => {
                self.enter(&fact.ticket);
            }
            broker::Fact::DelegationAcknowledged(_)
            | broker::Fact::IssuedDelegationEnded(_)
            | broker::Fact::ReturnBegun(_)
            | broker::Fact::PartReturned(_)
            | broker::Fact::ReturnRefused(_)
            | broker::Fact::ReturnCredited(_)
            | broker::Fact::RecallAsked(_)
            | broker::Fact::RecallAnswered(_)
            | broker::Fact::RecallRefused(_)
            | broker::Fact::RecallTold(_)
            | broker::Fact::Requested(_)
            | broker::Fact::RequestRefused(_)
            | broker::Fact::QuotaSet(_)
            | broker::Fact::ReclaimBegun(_)
            | broker::Fact::ReclaimEnded(_)
            | broker::Fact::Revised(_)
            | broker::Fact::Common(_)
            | broker::Fact::MapperAnswered(_)
            | broker::Fact::NeedNoted(_)
            | broker::Fact::HostsNoted(_)
            | broker::Fact::BoundsSet(_)
            | broker::Fact::SharingSet(_)
            | broker::Fact::LotOpened(_)
            | broker::Fact::SharingReviewed(_)
            | broker::Fact::SellingSet(_)
            | broker::Fact::NeighbourSet(_)
            | broker::Fact::RelationPlanned(_)
            | broker::Fact::RequestSealed(_)
            | broker::Fact::RequestHanded(_)
            | broker::Fact::RequestPassed(_)
            | broker::Fact::PassLapsed(_)
            | broker::Fact::OfferPassed(_)
            | broker::Fact::OrderPlaced(_)
            | broker::Fact::OrderEnded(_)
            | broker::Fact::OrdersAdvised(_)
            | broker::Fact::Woken(_) => {}
        }
    }

    fn site(&mut self, at: Time, fact: &site_authority::Fact) {
        use site_authority::Fact as F;
        match fact {
            F::DelegationIssued(fact) => self.open(&fact.ticket),
            F::DelegatedByHand(fact) => self.open(&fact.ticket),
            F::DelegationEnded(fact) => self.end(fact.number, at),
            F::Redeemed(fact) => {
                self.begin(&fact.ticket);
                self.untold.insert((fact.ticket.hash(), fact.ticket.hash()));
            }
            F::Recalled(fact) => {
                self.enter(&fact.ticket);
                let link = fact.ticket.hash();
                self.untold.extend(fact.cuts.iter().map(|cut| (cut.lease, link)));
            }
            F::RecallNoted(fact) => {
                self.untold.remove(&(fact.lease, fact.link));
            }
            F::LeaseExtended(fact) => {
                self.enter(&fact.ticket);
                self.leases.entry(fact.lease).or_default().push(fact.ticket.clone());
            }
            F::TicketSurrendered(fact) => {
                self.begin(&fact.ticket);
                fact.receipts.iter().for_each(|receipt| self.give_back(receipt, at));
            }
            F::TicketReclaimed(fact) => {
                self.enter(&fact.ticket);
                fact.receipts.iter().for_each(|receipt| self.give_back(receipt, at));
            }
            F::UnitsReturned(fact) => {
                fact.receipts.iter().for_each(|receipt| self.give_back(receipt, at));
            }
            F::UnitsRecalled(fact) => {
                self.taken(fact.lease, fact.link);
                fact.receipts.iter().for_each(|receipt| self.give_back(receipt, at));
            }
            F::RightsRecalled(fact) => {
                fact.receipts.iter().for_each(|receipt| self.give_back(receipt, at));
            }
            F::TermReturned(fact) => {
                fact.receipts.iter().for_each(|receipt| self.give_back(receipt, at));
            }
            F::LeaseClosed(fact) => {
                if let CloseReason::Recalled(link) = fact.why {
                    self.taken(fact.lease, link);
                }
                fact.receipts.iter().for_each(|receipt| self.give_back(receipt, at));
            }
            F::LeaseActivated(fact) => {
                self.activated.insert(fact.lease);
                // S4: the end is looked at again after every wait.
                if self.leases.get(&fact.lease).is_none_or(|tickets| at >= end(tickets)) {
                    self.broken.insert("S4");
                }
            }
            _ => {}
        }
    }

    fn open(&mut self, ticket: &Ticket) {
        let link = ticket.bottom();
        self.delegated.entry(link.account()).or_default().push(link.clone());
    }

    /// S2: a delegation ends when nothing that it covers runs any more.
    fn end(&mut self, number: u64, by: Time) {
        let is_it = |id: &AccountId| matches!(id, AccountId::Delegation(id) if id.number == number);
        let mut links = self.delegated.iter().filter(|(id, _)| is_it(id)).flat_map(|(_, all)| all);
        if links.any(|link| link.term.end() > by) {
            self.broken.insert("S2");
        }
    }

    /// A recall takes units of a lease.
    fn taken(&mut self, lease: LinkHash, link: LinkHash) {
        if self.untold.contains(&(lease, link)) {
            self.unreached.insert(lease);
        }
    }

    /// S8: a ticket begins one lease, ever.
    fn begin(&mut self, ticket: &Ticket) {
        self.enter(ticket);
        if self.leases.insert(ticket.hash(), vec![ticket.clone()]).is_some() {
            self.broken.insert("S8");
        }
    }

    /// A guest hands a part of a ticket on.
    fn split(&mut self, link: &SignedLink) {
        let Some(ticket) = link.parent.and_then(|parent| self.granted.get(&parent)) else { return };
        let (part, parent) = (ticket.with(link.clone()), ticket.bottom().clone());
        self.enter_link(&parent, link);
        self.parts.insert(part.hash(), part);
    }

    fn enter(&mut self, ticket: &Ticket) {
        for (parent, child) in ticket.links().iter().zip(&ticket.links()[1..]) {
            self.enter_link(parent, child);
        }
    }

    /// S3: a part is a part in everything.
    fn enter_link(&mut self, parent: &SignedLink, child: &SignedLink) {
        // What is no delegation of its own, or to it, covers its parts by itself.
        self.delegated.entry(parent.account()).or_insert_with(|| vec![parent.clone()]);
        if child.follows(Some(parent)).is_err() {
            self.broken.insert("S3");
        }
        let out = || (parent.account(), child.clone(), Vec::new());
        self.links.entry(child.hash()).or_insert_with(out);
    }

    /// What was held is free again, but for the offer that was accepted.
    fn end_hold(&mut self, request: RequestId, accepted: Option<u8>) {
        for (number, offer) in (1..).zip(self.held.remove(&request).unwrap_or_default()) {
            if Some(number) == accepted {
                self.remembered.insert(request, offer);
            } else {
                offer.iter().for_each(|hash| drop(self.links.remove(hash)));
            }
        }
    }

    /// S2: no more comes back than is out, and each number once.
    fn give_back(&mut self, receipt: &Receipt, at: Time) {
        let what = &receipt.what;
        let fresh = self.returned.insert(number(receipt));
        let Some((_, link, back)) = self.links.get_mut(&what.link) else { return };
        let Some(term) = what.term.from(at) else { return };
        back.push((what.units.get(), term));
        let edges = back.iter().map(|(_, term)| term.start()).filter(|&t| term.contains(t));
        let over = edges.clone().any(|t| returned_at(back, t) > link.units.get());
        if over || !fresh {
            self.broken.insert("S2");
        }
    }

    /// S2: at no instant is more out than was delegated.
    fn conservation(&mut self) {
        let all: Vec<&Out> = self.links.values().chain(self.lost.values()).collect();
        let out_at = |out: &Out, t: Time| {
            let units = if out.1.term.contains(t) { out.1.units.get() } else { 0 };
            units.saturating_sub(returned_at(&out.2, t))
        };
        for (account, link, _) in &all {
            let at = link.term.start();
            let account = *account;
            let out: u32 = all.iter().filter(|k| k.0 == account).map(|k| out_at(k, at)).sum();
            let heads = self.delegated.get(&account).into_iter().flatten();
            let covered = heads.filter(|head| head.term.contains(at));
            if out > covered.map(|head| head.units.get()).max().unwrap_or(0) {
                self.broken.insert("S2");
            }
        }
    }
}

fn end(tickets: &[Ticket]) -> Time {
    tickets.iter().map(|ticket| ticket.bottom().term.end()).max().unwrap()
}

/// A receipt by its ticket and number.
fn number(receipt: &Receipt) -> (LinkHash, u32) {
    (receipt.what.link, receipt.what.number)
}

/// How many units of a link are not out at an instant.
fn returned_at(back: &[(u32, Term)], t: Time) -> u32 {
    back.iter().filter(|(_, term)| term.contains(t)).map(|(units, _)| units).sum()
}
