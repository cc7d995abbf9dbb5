//! What a broker's journal says: delegations, requests, tickets cut, receipts.

use std::collections::{BTreeMap, BTreeSet};

use super::{Change, Folded, NOTHING, Subject, Unfounded, unfounded};
use tenure_core::broker::facts::{Fact, ReturnBegun};
use tenure_core::broker::machine::{Event, State, Tickets};
use tenure_core::broker::portions::{Gathered, PortionEvent};
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::{RequestId, SliceName};
use tenure_core::model::time::Time;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::ledger::Ledger;
use tenure_core::ticket::link::{DelegationId, Generation, LinkHash};
use tenure_core::ticket::receipt::Receipt;
use tenure_core::wire::hosts::Hosts;
use tenure_core::wire::message::{Message, Sealed};
use tenure_core::wire::need::Need;
use tenure_core::wire::portion::{Portion, PortionOutcome};
use tenure_core::wire::recall::{Level, Notice};
use tenure_core::wire::request::Request;

/// The model of one broker.
#[derive(Default)]
pub(crate) struct BrokerModel {
    /// Every generation of every delegation it took.
    pub(crate) delegations: BTreeMap<(DelegationId, u32), Ticket>,
    /// Requests, forgotten ones too.
    pub(crate) requests: BTreeMap<RequestId, RequestRecord>,
    /// Every ticket it ever cut.
    pub(crate) cut: BTreeMap<LinkHash, Cut>,
    /// Every generation of every delegation to another broker, with its receipts by their numbers.
    pub(crate) issued: BTreeMap<LinkHash, (Ticket, BTreeMap<u32, Receipt>)>,
    /// To whom each of them is, by its number and generation.
    pub(crate) issued_to: BTreeMap<(u64, u32), ActorId>,
    /// The newest generation of each that is not acknowledged.
    offered: BTreeMap<u64, LinkHash>,
    /// What is on its way back to a site.
    pub(crate) returning: BTreeMap<DelegationId, Returning>,
    /// How many requests wait for a decision.
    pub(crate) open: usize,
    /// The requests that offers are held for, by when they lapse.
    pub(crate) held: BTreeSet<(Time, RequestId)>,
    /// The newest recall of each ticket.
    pub(crate) recalls: BTreeMap<LinkHash, Level>,
    /// What it was told of recalls of its delegations.
    pub(crate) told: BTreeMap<DelegationId, Notice>,
    /// The newest need of each service of each guest, by its revision.
    pub(crate) needs: BTreeMap<(ActorId, SliceName), u64>,
    /// The newest statement of the hosts of each, by its revision.
    pub(crate) hosts: BTreeMap<(ActorId, SliceName), u64>,
    /// Every host that a guest has ever claimed.
    pub(crate) claimed: BTreeSet<(ActorId, Hash)>,
}

/// Units of a delegation that are on their way back.
pub(crate) struct Returning {
    pub(crate) begun: ReturnBegun,
    /// What the site has signed.
    pub(crate) receipts: Vec<Receipt>,
}

/// A request at a broker.
pub(crate) struct RequestRecord {
    pub(crate) request: Request,
    pub(crate) state: State,
    /// If another broker has asked for a portion of it: which.
    pub(crate) portion: Option<Portion>,
    pub(crate) forgotten: bool,
}

/// A ticket that was cut.
pub(crate) struct Cut {
    pub(crate) request: RequestId,
    /// Its receipts, by their numbers.
    pub(crate) receipts: BTreeMap<u32, Receipt>,
    pub(crate) ticket: Ticket,
    /// Whether its site is being asked for what nobody claims of it.
    pub(crate) reclaimed: bool,
    ledger: Ledger,
    /// Whether nothing of it is out any more.
    over: bool,
}

impl Cut {
    fn new(request: RequestId, ticket: &Ticket) -> Self {
        let mut ledger = Ledger::default();
        if let [.., parent, child] = ticket.links() {
            ledger.enter(parent, child, child.term.start());
        }
        let (receipts, ticket) = (BTreeMap::new(), ticket.clone());
        Self { request, receipts, ticket, reclaimed: false, ledger, over: false }
    }

    /// Credits a receipt; answers what happens to the request, if anything was out.
    fn credit(&mut self, receipt: &Receipt, at: Time) -> Option<Event> {
        let (what, hash) = (&receipt.what, self.ticket.hash());
        self.ledger.give_back(hash, what.into(), what.term.start().max(at));
        self.receipts.insert(what.number, receipt.clone());
        let over = self.ledger.left_of(hash, at).is_empty();
        if std::mem::replace(&mut self.over, over) {
            return None;
        }
        Some(if over { Event::Credited(hash) } else { Event::PartCredited })
    }
}

impl RequestRecord {
    /// Until when offers are held, if they are.
    pub(crate) fn held_until(&self) -> Option<Time> {
        if let State::Held { until, .. } = &self.state {
            return Some(*until);
        }
        self.state.gathered().map(|gathered| gathered.until)
    }

    pub(crate) fn word(&self) -> &'static str {
        if self.forgotten { NOTHING } else { self.state.word() }
    }
}

impl BrokerModel {
    pub(super) fn fold(&mut self, me: ActorId, at: Time, fact: &Fact) -> Folded {
        match fact {
            Fact::Requested(fact) => Ok(self.requested(me, &fact.request)),
            Fact::RequestHanded(_)
            | Fact::RequestPassed(_)
            | Fact::PassLapsed(_)
            | Fact::OfferPassed(_)
            | Fact::PassAnswered(_) => self.passed_on(me, fact),
            Fact::TicketsCut(fact) => {
                self.cut(fact.request, &fact.tickets);
                self.answered(me, fact.request, Event::Granted(fact.tickets.clone()))
            }
            Fact::RequestRefused(fact) => {
                let refused = Event::Refused(fact.refusal.clone(), fact.offers.clone());
                self.answered(me, fact.request, refused)
            }
            Fact::RequestQueued(fact) => {
                Ok(vec![self.step(me, fact.request, Event::Waited(fact.waiting.clone()))?])
            }
            Fact::OffersHeld(fact) => {
                let held = Event::Held(fact.offers.clone(), fact.until, fact.refusal.clone());
                self.answered(me, fact.request, held)
            }
            Fact::OfferAccepted(fact) => {
                let tickets = self.offer(fact.request, fact.offer)?;
                self.cut(fact.request, &tickets);
                Ok(vec![self.step(me, fact.request, Event::Accepted(tickets))?])
            }
            Fact::HoldEnded(fact) => {
                let refused = Event::Refused(fact.refusal.clone(), Vec::new());
                Ok(vec![self.step(me, fact.request, refused)?])
            }
            Fact::RequestPlanned(fact) => {
                let planned = Event::Planned(fact.offers.clone(), fact.refusal.clone());
                self.answered(me, fact.request, planned)
            }
            Fact::ReceiptTaken(fact) => self.credited(me, at, &fact.receipt),
            Fact::RequestForgotten(fact) => {
                let id = fact.request;
                let record = self.requests.get_mut(&id).ok_or_else(|| unfounded(id))?;
                let from = record.word();
                record.forgotten = true;
                self.open -= usize::from(waits(&record.state));
                Ok(vec![change(me, id, from, NOTHING)])
            }
            Fact::DelegationTaken(_)
            | Fact::DelegationEnded(_)
            | Fact::DelegationIssued(_)
            | Fact::DelegationAcknowledged(_)
            | Fact::IssuedDelegationEnded(_)
            | Fact::ReturnBegun(_)
            | Fact::PartReturned(_)
            | Fact::ReturnRefused(_)
            | Fact::ReturnCredited(_) => self.delegated(fact),
            Fact::Revised(fact) => self.revised(me, &fact.request),
            Fact::ReclaimBegun(fact) => self.reclaims(fact.ticket, true),
            Fact::ReclaimEnded(fact) => self.reclaims(fact.ticket, false),
            Fact::RecallAsked(fact) => {
                self.recalls.insert(fact.link, fact.level);
                Ok(Vec::new())
            }
            Fact::NeedNoted(_) | Fact::HostsNoted(_) => {
                self.told_of_services(fact);
                Ok(Vec::new())
            }
            Fact::RecallTold(fact) => {
                self.told.insert(fact.delegation, fact.told.clone());
                Ok(Vec::new())
            }
            _ => self.in_portions(me, fact),
        }
    }

    /// A request goes from one broker to another, or comes back.
    fn passed_on(&mut self, me: ActorId, fact: &Fact) -> Folded {
        match fact {
            Fact::RequestHanded(fact) => {
                let request = request_in(&fact.handover.sealed)?;
                Ok(self.requested(me, &request))
            }
            Fact::RequestPassed(fact) => {
                let passed = Event::Passed(fact.to, fact.until);
                Ok(vec![self.step(me, fact.request, passed)?])
            }
            Fact::PassLapsed(fact) => Ok(vec![self.step(me, fact.request, Event::CameBack)?]),
            Fact::PassAnswered(fact) => {
                let record = self.requests.get(&fact.request);
                let record = record.ok_or_else(|| unfounded(fact.request))?;
                let event = record.state.answered(&fact.outcome);
                self.answered(me, fact.request, event)
            }
            Fact::OfferPassed(fact) => {
                Ok(vec![self.step(me, fact.request, Event::Chosen(fact.offer))?])
            }
            _ => Ok(Vec::new()),
        }
    }

    /// A request is met by several brokers together.
    fn in_portions(&mut self, me: ActorId, fact: &Fact) -> Folded {
        let (id, event) = match fact {
            Fact::PortionHanded(fact) => {
                let whole = request_in(&fact.handover.sealed)?;
                let portion = fact.portion.of(&whole).map_err(|_| unfounded(fact.request))?;
                return Ok(self.portion_handed(me, whole, portion.0, &fact.portion));
            }
            Fact::PortionKept(fact) => {
                let record = self.requests.get(&fact.request);
                let record = record.ok_or_else(|| unfounded(fact.request))?;
                let (before, whole) = (&record.state, &record.request);
                let kept = Gathered::keep(before, whole, record.portion.as_ref(), fact);
                (fact.request, PortionEvent::Gathered(Box::new(kept)).into())
            }
            Fact::PortionPassed(fact) => (fact.request, Event::Passed(fact.to, fact.until)),
            Fact::PortionAnswered(fact) => {
                let event = match &fact.outcome {
                    PortionOutcome::Held { units, .. } => {
                        PortionEvent::HeldThere(fact.from, units.clone()).into()
                    }
                    PortionOutcome::Granted(tickets) => {
                        PortionEvent::Delivered(fact.from, tickets.clone()).into()
                    }
                    PortionOutcome::Refused(_) | PortionOutcome::Seen => Event::CameBack,
                };
                let record = self.requests.get(&fact.request);
                if event == Event::CameBack
                    && record.is_some_and(|of| matches!(of.state, State::Committing { .. }))
                {
                    return Ok(Vec::new());
                }
                (fact.request, event)
            }
            Fact::PortionReserved(fact) => {
                (fact.request, PortionEvent::Reserved(fact.refusal.clone()).into())
            }
            Fact::PortionsTaken(fact) => (fact.request, PortionEvent::Taken.into()),
            Fact::PortionsGranted(fact) => {
                let record = self.requests.get(&fact.request);
                let gathered = record.and_then(|record| record.state.gathered()).cloned();
                self.cut(fact.request, &gathered.map(|gathered| gathered.own).unwrap_or_default());
                (fact.request, PortionEvent::Completed.into())
            }
            Fact::PortionsReleased(fact) => (fact.request, PortionEvent::Released.into()),
            _ => return Ok(Vec::new()),
        };
        Ok(vec![self.step(me, id, event)?])
    }

    fn portion_handed(
        &mut self,
        me: ActorId,
        whole: Request,
        alone: Request,
        portion: &Portion,
    ) -> Vec<Change> {
        let change = self.requested(me, &alone);
        if let Some(record) = self.requests.get_mut(&whole.id) {
            record.portion = Some(portion.clone());
            record.request = whole;
        }
        change
    }

    /// A guest says what a service wants, or which hosts it uses.
    fn told_of_services(&mut self, fact: &Fact) {
        if let Fact::NeedNoted(fact) = fact {
            let Need { service, revision, .. } = &fact.need;
            self.needs.insert((fact.guest, service.clone()), *revision);
        }
        if let Fact::HostsNoted(fact) = fact {
            let Hosts { service, revision, hosts } = &fact.hosts;
            self.hosts.insert((fact.guest, service.clone()), *revision);
            self.claimed.extend(hosts.iter().map(|claim| (fact.guest, claim.host)));
        }
    }

    /// What it sold or delegated came back.
    fn credited(&mut self, me: ActorId, at: Time, receipt: &Receipt) -> Folded {
        let hash = receipt.what.link;
        if let Some((_, receipts)) = self.issued.get_mut(&hash) {
            receipts.insert(receipt.what.number, receipt.clone());
            return Ok(Vec::new());
        }
        let cut = self.cut.get_mut(&hash).ok_or_else(|| unfounded(hash))?;
        let (event, request) = (cut.credit(receipt, at), cut.request);
        event.into_iter().map(|event| self.step(me, request, event)).collect()
    }

    /// Delegations that it has, those to other brokers, and what goes back to sites.
    fn delegated(&mut self, fact: &Fact) -> Folded {
        match fact {
            Fact::DelegationTaken(fact) => {
                let link = fact.ticket.bottom();
                let generation = link.delegation.ok_or_else(|| unfounded("a delegation"))?;
                let id = DelegationId { issuer: link.issuer, number: generation.delegation };
                self.delegations.insert((id, generation.generation), fact.ticket.clone());
                Ok(Vec::new())
            }
            Fact::DelegationEnded(fact) => {
                let id = fact.delegation;
                let taken = self.delegations.range((id, 0)..=(id, u32::MAX)).next();
                taken.map(|_| Vec::new()).ok_or_else(|| unfounded(id))
            }
            Fact::DelegationIssued(fact) => {
                let (link, ticket) = (fact.ticket.bottom(), fact.ticket.clone());
                let generation = link.delegation.ok_or_else(|| unfounded("a delegation"))?;
                let Generation { delegation, generation } = generation;
                self.issued_to.insert((delegation, generation), link.holder);
                self.offered.insert(delegation, link.hash());
                self.issued.insert(link.hash(), (ticket, BTreeMap::new()));
                Ok(Vec::new())
            }
            Fact::DelegationAcknowledged(fact) => {
                let offered = self.offered.remove(&fact.number);
                offered.map(|_| Vec::new()).ok_or_else(|| unfounded(fact.number))
            }
            Fact::IssuedDelegationEnded(fact) => {
                self.offered.remove(&fact.number);
                Ok(Vec::new())
            }
            Fact::ReturnBegun(fact) => {
                let link = fact.ticket.bottom();
                let generation = link.delegation.ok_or_else(|| unfounded("a delegation"))?;
                let id = DelegationId { issuer: link.issuer, number: generation.delegation };
                let returning = Returning { begun: fact.clone(), receipts: Vec::new() };
                self.returning.insert(id, returning);
                Ok(Vec::new())
            }
            Fact::PartReturned(fact) => {
                let id = fact.delegation;
                let returning = self.returning.get_mut(&id).ok_or_else(|| unfounded(id))?;
                returning.receipts.clone_from(&fact.receipts);
                let ticket = &returning.begun.ticket;
                if ticket.site() == ticket.bottom().issuer {
                    self.returning.remove(&id);
                }
                Ok(Vec::new())
            }
            Fact::ReturnRefused(fact) => self.end_return(fact.delegation),
            Fact::ReturnCredited(fact) => self.end_return(fact.delegation),
            _ => Ok(Vec::new()),
        }
    }

    fn requested(&mut self, me: ActorId, request: &Request) -> Vec<Change> {
        let open = std::sync::Arc::new(request.clone());
        let state = State::Open { request: open, waiting: None };
        let before = self.requests.get(&request.id).map_or(NOTHING, RequestRecord::word);
        let change = change(me, request.id, before, state.word());
        self.open += 1;
        let request = request.clone();
        let record = RequestRecord { request, state, portion: None, forgotten: false };
        self.requests.insert(record.request.id, record);
        vec![change]
    }

    fn revised(&mut self, me: ActorId, request: &Request) -> Folded {
        let event = Event::Revised(std::sync::Arc::new(request.clone()));
        let change = self.step(me, request.id, event)?;
        if let Some(record) = self.requests.get_mut(&request.id) {
            record.request = request.clone();
        }
        Ok(vec![change])
    }

    /// Its site is asked, or has answered, what nobody claims of a ticket.
    fn reclaims(&mut self, ticket: LinkHash, asks: bool) -> Folded {
        let cut = self.cut.get_mut(&ticket).ok_or_else(|| unfounded(ticket))?;
        cut.reclaimed = asks && !cut.over;
        Ok(Vec::new())
    }

    fn end_return(&mut self, id: DelegationId) -> Folded {
        self.returning.remove(&id).map(|_| Vec::new()).ok_or_else(|| unfounded(id))
    }

    /// Whether a delegation waits for its broker.
    pub(crate) fn offers(&self, ticket: &Ticket) -> bool {
        let number = ticket.bottom().delegation.map(|generation| generation.delegation);
        number.and_then(|number| self.offered.get(&number)) == Some(&ticket.hash())
    }

    /// Whether it has forgotten a request, and its tickets with it.
    pub(crate) fn has_forgotten(&self, id: RequestId) -> bool {
        self.requests.get(&id).is_none_or(|record| record.forgotten)
    }

    fn cut(&mut self, request: RequestId, tickets: &Tickets) {
        let cut = tickets.iter().map(|(_, ticket)| (ticket.hash(), Cut::new(request, ticket)));
        self.cut.extend(cut);
    }

    /// The tickets of an offer that is held.
    fn offer(&self, id: RequestId, number: u8) -> Result<Tickets, Unfounded> {
        let record = self.requests.get(&id).ok_or_else(|| unfounded(id))?;
        let State::Held { offers, .. } = &record.state else { return Err(unfounded(id)) };
        let place = usize::from(number).checked_sub(1);
        place.and_then(|place| offers.get(place)).cloned().ok_or_else(|| unfounded(id))
    }

    fn answered(&mut self, me: ActorId, id: RequestId, event: Event) -> Folded {
        Ok(vec![self.step(me, id, event)?])
    }

    fn step(&mut self, me: ActorId, id: RequestId, event: Event) -> Result<Change, Unfounded> {
        let record = self.requests.get_mut(&id).ok_or_else(|| unfounded(id))?;
        let (from, before) = (record.word(), record.held_until());
        let waited = waits(&record.state);
        let gone = State::Returned { tickets: Vec::new() };
        record.state = std::mem::replace(&mut record.state, gone).next(event)?;
        self.open -= usize::from(waited);
        self.open += usize::from(waits(&record.state));
        if let Some(until) = before {
            self.held.remove(&(until, id));
        }
        if let Some(until) = record.held_until() {
            self.held.insert((until, id));
        }
        Ok(change(me, id, from, record.state.word()))
    }
}

/// Whether a request in this state waits for a decision.
fn waits(state: &State) -> bool {
    matches!(state, State::Open { .. } | State::Passed { .. } | State::Gathering { .. })
}

/// The request that a message is.
fn request_in(sealed: &Sealed) -> Result<Request, Unfounded> {
    match sealed.peek().map(|envelope| envelope.message) {
        Ok(Message::Request(request)) => Ok(request),
        Ok(_) | Err(_) => Err(unfounded("a request that is handed on")),
    }
}

fn change(me: ActorId, id: RequestId, from: &'static str, to: &'static str) -> Change {
    Change { subject: Subject::Request(me, id), from, to }
}
