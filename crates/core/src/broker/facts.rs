//! The facts of a broker.

use crate::actor::fact::{Memo, facts};
use crate::broker::quota::{Quota, Source, Whose};
use crate::model::resource::Attributes;
use crate::model::slice::RequestId;
use crate::model::time::Time;
use crate::ticket::Ticket;
use crate::ticket::link::DelegationId;
use crate::ticket::receipt::Receipt;
use crate::wire::message::Request;
use crate::wire::refusal::Refusal;

facts! {
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
        /// The mapper's words.
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
}
