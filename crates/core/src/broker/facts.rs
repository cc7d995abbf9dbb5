//! The facts of a broker.

use std::num::NonZeroU32;

use crate::actor::Role;
use crate::actor::fact::{Memo, facts};
use crate::actor::invitations::{Newcomer, PeerRelation};
use crate::broker::forwarding::{Neighbour, Reach};
use crate::broker::machine::Tickets;
use crate::broker::orders::{OrderOutcome, UnitOrder};
use crate::broker::quota::{Quota, Whose};
use crate::broker::rules::Source;
use crate::broker::sharing::Sharing;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::resource::Attributes;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Time};
use crate::ticket::Ticket;
use crate::ticket::link::{DelegationId, LinkHash};
use crate::ticket::receipt::Receipt;
use crate::wire::handover::{Handover, Hop, Outcome};
use crate::wire::hosts::Hosts;
use crate::wire::message::Sealed;
use crate::wire::need::Need;
use crate::wire::offer::{Offer, Waiting};
use crate::wire::portion::{Portion, PortionOutcome};
use crate::wire::recall::{Level, Notice};
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

facts! {
    of Role::Broker;

    /// A site's delegation, or its next generation, was recorded.
    DelegationTaken = "broker.delegation-taken" 1 {
        /// The delegation.
        ticket: Ticket,
        /// What its units are like.
        attributes: Attributes,
    }

    /// No ticket cut from the delegation can matter any more.
    DelegationEnded = "broker.delegation-ended" 1 {
        /// The delegation.
        delegation: DelegationId,
    }

    /// A request came in and waits for the mapper.
    Requested = "broker.requested" 1 {
        /// The request.
        request: Request,
    }

    /// A request is met: these tickets are cut.
    TicketsCut = "broker.tickets-cut" 1 {
        /// The request.
        request: RequestId,
        /// The tickets, each with the item it is for.
        tickets: Vec<(u16, Ticket)>,
        /// Why so, in the mapper's words.
        reason: String,
    }

    /// A request is refused.
    RequestRefused = "broker.request-refused" 1 {
        /// The request.
        request: RequestId,
        /// Why.
        refusal: Refusal,
        /// What could be had instead.
        offers: Vec<Offer>,
        /// The mapper's words.
        reason: String,
    }

    /// A request waits for what is not free, or stands elsewhere in the queue than before.
    RequestQueued = "broker.request-queued" 1 {
        /// The request.
        request: RequestId,
        /// Where it stands.
        waiting: Waiting,
    }

    /// The tickets of several offers are cut and kept back, until the asker accepts one of them.
    OffersHeld = "broker.offers-held" 1 {
        /// The request.
        request: RequestId,
        /// The tickets of each offer, each with the item it is for.
        offers: Vec<Tickets>,
        /// Until when.
        until: Time,
        /// Why the request cannot be met as it is, if so.
        refusal: Option<Refusal>,
        /// Why so, in the mapper's words.
        reason: String,
    }

    /// An offer was accepted: its tickets are the asker's, and what else was held is free again.
    OfferAccepted = "broker.offer-accepted" 1 {
        /// The request.
        request: RequestId,
        /// Which offer, from 1.
        offer: u8,
    }

    /// The asker has chosen an offer that another broker holds, which is asked for it.
    OfferPassed = "broker.offer-passed" 1 {
        /// The request.
        request: RequestId,
        /// Which offer, from 1.
        offer: u8,
    }

    /// Nothing is held for the request any more; it is refused.
    HoldEnded = "broker.hold-ended" 1 {
        /// The request.
        request: RequestId,
        /// Whether it lapsed or was withdrawn.
        refusal: Refusal,
    }

    /// A request is answered with how it could be met. Nothing is booked.
    RequestPlanned = "broker.request-planned" 1 {
        /// The request.
        request: RequestId,
        /// How, the best first.
        offers: Vec<Offer>,
        /// Why the request cannot be met as it is, if so.
        refusal: Option<Refusal>,
        /// Why so, in the mapper's words.
        reason: String,
    }

    /// A site's receipt for a ticket of this broker: the units can be sold again.
    ReceiptTaken = "broker.receipt-taken" 1 {
        /// The receipt.
        receipt: Receipt,
    }

    /// A quota was set, or, without one, what was set before is taken back.
    QuotaSet = "broker.quota-set" 1 {
        /// Whom it is for; each service manager without one of its own unless set.
        whose: Whose,
        /// The quota.
        quota: Option<Quota>,
        /// Who says so.
        by: Source,
    }

    /// Nothing about the request can come any more.
    RequestForgotten = "broker.request-forgotten" 1 {
        /// The request.
        request: RequestId,
    }

    /// The mapper's round has ended; what it decided are the facts before this one.
    MapperAnswered = "broker.mapper-answered" 1 {
        /// The round.
        round: u64,
        /// What the mapper wants to remember, if that changed.
        memo: Option<Memo>,
        /// When it wants to be asked again, whatever happens.
        wake: Option<Time>,
    }

    /// The mapper is to be asked though nothing happened: at the start, or because it wanted to be.
    Woken = "broker.woken" 1 {}

    /// The site is asked for what nobody claims of a ticket that had to be redeemed by now.
    ReclaimBegun = "broker.reclaim-begun" 1 {
        /// The ticket.
        ticket: LinkHash,
    }

    /// The site has said what became of the ticket. What came back is in the facts before this one.
    ReclaimEnded = "broker.reclaim-ended" 1 {
        /// The ticket.
        ticket: LinkHash,
        /// Whether it was redeemed in time.
        redeemed: bool,
    }

    /// A request was replaced by a later revision of it.
    Revised = "broker.revised" 1 {
        /// What is asked for now.
        request: Request,
    }

    /// Units of a delegation that it holds are delegated to another broker, or such a delegation is renewed.
    DelegationIssued = "broker.delegation-issued" 1 {
        /// The delegation.
        ticket: Ticket,
        /// What its units are like.
        attributes: Attributes,
        /// Until when it is promised: so far it is renewed.
        until: Time,
    }

    /// The other broker has recorded the delegation.
    DelegationAcknowledged = "broker.delegation-acknowledged" 1 {
        /// The number of the delegation.
        number: u64,
        /// The generation.
        generation: u32,
    }

    /// A delegation to another broker is over.
    IssuedDelegationEnded = "broker.issued-delegation-ended" 1 {
        /// The number of the delegation.
        number: u64,
    }

    /// Units of a delegation that it holds are to go back to their site; they are not sold any more.
    ReturnBegun = "broker.return-begun" 1 {
        /// The newest generation of the delegation.
        ticket: Ticket,
        /// The number of the return.
        number: u32,
        /// How many units.
        units: NonZeroU32,
        /// From when on.
        from: Time,
    }

    /// The site has the units back. The broker that the delegation came from, if it is not the site, is
    /// shown the receipts.
    PartReturned = "broker.part-returned" 1 {
        /// The delegation.
        delegation: DelegationId,
        /// The word that they came back.
        receipts: Vec<Receipt>,
    }

    /// The site does not take the units back: they can be sold as before.
    ReturnRefused = "broker.return-refused" 1 {
        /// The delegation.
        delegation: DelegationId,
        /// Why.
        refusal: Refusal,
    }

    /// The broker that the delegation came from has recorded that units of it came back.
    ReturnCredited = "broker.return-credited" 1 {
        /// The delegation.
        delegation: DelegationId,
    }

    /// The site of a ticket is asked to recall units of it.
    RecallAsked = "broker.recall-asked" 1 {
        /// The link that is recalled.
        link: LinkHash,
        /// How many units stay, from when on.
        level: Level,
    }

    /// The site has recorded a recall, or enforced it.
    RecallAnswered = "broker.recall-answered" 1 {
        /// The link that is recalled.
        link: LinkHash,
        /// When it takes the last of the units.
        at: Time,
        /// Whether it has taken all that it takes.
        enforced: bool,
    }

    /// The site does not take a recall.
    RecallRefused = "broker.recall-refused" 1 {
        /// The link.
        link: LinkHash,
        /// Why.
        refusal: Refusal,
    }

    /// The site says how many units of a delegation stay: no more are sold.
    RecallTold = "broker.recall-told" 1 {
        /// The delegation.
        delegation: DelegationId,
        /// What the site says.
        told: Notice,
    }

    /// What a service wants, and has of this broker, by its guest's last word.
    NeedNoted = "broker.need-noted" 1 {
        /// The guest.
        guest: ActorId,
        /// What it said.
        need: Need,
    }

    /// Units of a ticket are ordered for a service that claims them; their recall is in the next fact.
    OrderPlaced = "broker.order-placed" 1 {
        /// Its number, from 1.
        number: u64,
        /// What is ordered.
        order: UnitOrder,
        /// When the units are taken.
        due: Time,
        /// How many units of the ticket stay then.
        stay: u32,
    }

    /// An order has ended. A recall that has not taken its units is withdrawn in the next fact.
    OrderEnded = "broker.order-ended" 1 {
        /// Its number.
        order: u64,
        /// How.
        outcome: OrderOutcome,
        /// Why.
        reason: String,
    }

    /// What would be ordered changes, while orders are only advised.
    OrdersAdvised = "broker.orders-advised" 1 {
        /// All that would be ordered now.
        orders: Vec<UnitOrder>,
    }

    /// Which hosts a service uses, by its guest's last word.
    HostsNoted = "broker.hosts-noted" 1 {
        /// The guest.
        guest: ActorId,
        /// What it said.
        hosts: Hosts,
    }

    /// What bounds the orders of a type has changed since the last one, or is recorded with the first; the next fact
    /// is an order of such units.
    BoundsSet = "broker.bounds-set" 1 {
        /// The type.
        resource: Name,
        /// For how long a service has units of it at least.
        tenure: Span,
        /// The most units of it that may be ordered in any window of that length, if that is bounded.
        most: Option<u32>,
        /// The length.
        window: Span,
    }
    /// What is shared with another broker was set, or, without it, is configured no more.
    SharingSet = "broker.sharing-set" 1 {
        /// The other broker.
        with: ActorId,
        /// What is shared.
        sharing: Option<Sharing>,
        /// Who says so.
        by: Source,
    }

    /// What is free is lent to another broker; the next fact is the delegation.
    LotOpened = "broker.lot-opened" 1 {
        /// The number of the delegation.
        number: u64,
        /// The other broker.
        with: ActorId,
        /// The delegation that it is cut from.
        from: DelegationId,
    }

    /// What is shared was compared with what is lent; what changes are the facts before this one.
    SharingReviewed = "broker.sharing-reviewed" 1 {
        /// When it is compared again, whatever happens.
        next: Option<Time>,
    }

    /// What is agreed with another broker on requests was set, or, without it, is configured no more.
    NeighbourSet = "broker.neighbour-set" 1 {
        /// The other broker.
        with: ActorId,
        /// What is agreed.
        neighbour: Option<Neighbour>,
        /// Who says so.
        by: Source,
    }

    /// This is done for another broker once it is a peer by invitation.
    RelationPlanned = "broker.relation-planned" 1 {
        /// Which broker.
        newcomer: Newcomer,
        /// What is done for it.
        relation: PeerRelation,
    }

    /// A request that came, or its revision, may be passed on: as its guest has signed it.
    RequestSealed = "broker.request-sealed" 1 {
        /// The request.
        request: RequestId,
        /// The guest's message.
        sealed: Sealed,
        /// How far it may be passed on.
        reach: Reach,
    }

    /// Another broker has handed on a request of one of its guests.
    RequestHanded = "broker.request-handed" 1 {
        /// Which request.
        request: RequestId,
        /// As it was handed on, with the way that it came.
        handover: Handover,
    }

    /// A request is passed on to another broker.
    RequestPassed = "broker.request-passed" 1 {
        /// The request.
        request: RequestId,
        /// To whom.
        to: ActorId,
        /// Until when its answer is waited for.
        until: Time,
        /// Why so, in the mapper's words.
        reason: String,
    }

    /// The other broker has answered.
    PassAnswered = "broker.pass-answered" 1 {
        /// The request.
        request: RequestId,
        /// The other broker.
        from: ActorId,
        /// What became of it there.
        outcome: Outcome,
        /// Whom that broker has asked.
        trail: Vec<Hop>,
    }

    /// The other broker has not answered in time.
    PassLapsed = "broker.pass-lapsed" 1 {
        /// The request.
        request: RequestId,
    }

    /// Another broker has asked to hold a portion of a request of one of its guests.
    PortionHanded = "broker.portion-handed" 1 {
        /// Which request.
        request: RequestId,
        /// As it was handed on, with the way that it came.
        handover: Handover,
        /// Which portion.
        portion: Portion,
    }

    /// A portion of a request is kept back; the rest of it is open to decision.
    PortionKept = "broker.portion-kept" 1 {
        /// The request.
        request: RequestId,
        /// The round, from 1.
        round: u8,
        /// The common start.
        start: Time,
        /// Until when others may be asked.
        gather_by: Time,
        /// Until when all of it is held.
        until: Time,
        /// The tickets that are kept back, each with the item of the whole that it is for.
        tickets: Tickets,
        /// Why they are not all, if so.
        refusal: Option<Refusal>,
        /// Why so, in the mapper's words.
        reason: String,
    }

    /// Another broker is asked to hold the rest of a request.
    PortionPassed = "broker.portion-passed" 1 {
        /// The request.
        request: RequestId,
        /// Whom.
        to: ActorId,
        /// Until when its answer is waited for.
        until: Time,
        /// Why so, in the mapper's words.
        reason: String,
    }

    /// Another broker has answered for a portion.
    PortionAnswered = "broker.portion-answered" 1 {
        /// The request.
        request: RequestId,
        /// The other broker.
        from: ActorId,
        /// What became of it there.
        outcome: PortionOutcome,
        /// Whom that broker has asked.
        trail: Vec<Hop>,
    }

    /// What is held of a portion waits for the broker that has asked for it.
    PortionReserved = "broker.portion-reserved" 1 {
        /// The request.
        request: RequestId,
        /// Why it is not all of the portion, if so.
        refusal: Option<Refusal>,
    }

    /// What is held of a request is taken: the others are to cut its tickets.
    PortionsTaken = "broker.portions-taken" 1 {
        /// The request.
        request: RequestId,
    }

    /// All tickets of a request that several brokers meet are there.
    PortionsGranted = "broker.portions-granted" 1 {
        /// The request.
        request: RequestId,
    }

    /// Nothing is held of a request any more: not all of it could be.
    PortionsReleased = "broker.portions-released" 1 {
        /// The request.
        request: RequestId,
        /// The start from which it is tried once more, if it is.
        next: Option<Time>,
        /// Why so, in the mapper's words.
        reason: String,
    }

    /// The broker sells nothing more from now on, or sells again.
    SellingSet = "broker.selling-set" 1 {
        /// Whether it sells.
        sells: bool,
    }
}
