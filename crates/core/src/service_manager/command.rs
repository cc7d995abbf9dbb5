//! Commands of a guest's users.

use std::num::NonZeroU32;

use crate::actor::invitations::PeerCommand;
use crate::actor::keys::KeyCommand;
use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::model::resource::Constraints;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Term, Time};
use crate::service_manager::Victims;
use crate::service_manager::mapper::Ask;
use crate::service_manager::plan::PlanCommand;
use crate::service_manager::services::ServiceCommand;
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;
use crate::wire::inquiry::Inquiry;
use crate::wire::recall::Accepts;

/// A command of a guest's user.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The actor's own keys change.
    Keys(KeyCommand),
    /// The actor's peers change.
    Peers(PeerCommand),
    /// Ask a broker for units.
    Ask(Ask),
    /// Ask several brokers, all or nothing: each of them holds its items first.
    AskSeveral {
        /// What is asked for.
        ask: Box<Ask>,
        /// Of each item, whom to ask.
        brokers: Vec<ActorId>,
        /// For how long each broker holds its items.
        hold: Span,
        /// How many attempts there are at most.
        tries: u32,
    },
    /// Ask brokers what is free. Nothing is booked, and the question is no fact.
    Inquire {
        /// One of them; without it all that are peers.
        broker: Option<ActorId>,
        /// The question.
        inquiry: Inquiry,
    },
    /// Keep a lease for longer.
    Extend {
        /// The lease.
        lease: LeaseId,
        /// For how much longer.
        duration: Span,
        /// With how many units, if not all of them go on.
        units: Option<NonZeroU32>,
        /// Which units do not go on.
        victims: Victims,
    },
    /// Give some units of a lease back.
    Flex {
        /// The lease.
        lease: LeaseId,
        /// How many units.
        shrink: NonZeroU32,
        /// Which units.
        victims: Victims,
    },
    /// Give the rest of a lease's term back.
    Shorten {
        /// The lease.
        lease: LeaseId,
        /// When it ends.
        until: Time,
    },
    /// Have more units for a lease, until its end.
    Grow {
        /// The lease.
        lease: LeaseId,
        /// How many more.
        units: NonZeroU32,
        /// What the type's attributes must be.
        requirements: Constraints,
    },
    /// Redeem a ticket that was kept.
    Redeem {
        /// The lease that it becomes.
        lease: LeaseId,
    },
    /// Hand parts of a ticket on that was kept.
    Split {
        /// The lease that it would become.
        lease: LeaseId,
        /// The parts: all of them or none.
        parts: Vec<Part>,
    },
    /// Take a ticket that this service manager holds and no broker sent.
    Take {
        /// The ticket.
        ticket: Ticket,
        /// The slice its lease will be in.
        slice: SliceName,
        /// For the site's driver.
        configuration: Properties,
        /// Whether it is kept, and not redeemed at once.
        keep: bool,
    },
    /// Take an offer: of those that are held its tickets are asked for; of others it is asked for by a
    /// request of its own.
    Accept {
        /// The number of the request.
        number: u64,
        /// Which offer, from 1.
        offer: u8,
    },
    /// Withdraw a request that is not granted, and give up what is held for it.
    Withdraw {
        /// The number of the request.
        number: u64,
    },
    /// Replace a request that waits for its answer; it keeps its age and its place.
    Revise {
        /// The number of the request.
        number: u64,
        /// What is asked for now. The broker, the slice, the configuration and what becomes of the tickets stay.
        ask: Ask,
    },
    /// Give a lease back.
    Close {
        /// The lease.
        lease: LeaseId,
    },
    /// Change the configuration of a lease in place.
    Modify {
        /// The lease.
        lease: LeaseId,
        /// The properties that change or are added.
        changes: Properties,
    },
    /// Name the units of a lease that go first by a recall.
    Victims {
        /// The lease.
        lease: LeaseId,
        /// The units.
        units: Vec<UnitId>,
    },
    /// Leave a unit that the guest's software could not use, and join it again.
    ResetUnit {
        /// The lease.
        lease: LeaseId,
        /// The unit.
        unit: UnitId,
    },
    /// Recall units of a part of a kept ticket that was handed on, or withdraw that.
    Recall {
        /// The part.
        ticket: LinkHash,
        /// How many units stay; without a number the last recall is withdrawn.
        units: Option<u32>,
        /// From when on; from now on unless set.
        from: Option<Time>,
    },
    /// Give a lease back, its units left by an instant; also one whose units are being left.
    Hasten {
        /// The lease.
        lease: LeaseId,
        /// When the units are left by, ready or not.
        by: Time,
    },
    /// Have the guest's driver refuse to leave no unit of a lease any more.
    ForceLeave {
        /// The lease.
        lease: LeaseId,
    },
    /// Plans of packages.
    Plan(PlanCommand),
    /// A service.
    Service(ServiceCommand),
}

/// A part of a ticket that is handed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Who gets it.
    pub holder: ActorId,
    /// How many units.
    pub units: NonZeroU32,
    /// For how long.
    pub term: Term,
    /// Conditions on its use, beside those of the ticket.
    pub constraints: Constraints,
    /// When it has to be redeemed by, if that is before the ticket has to be.
    pub redeem_by: Option<Time>,
    /// What is reserved: the notice after which its units can be recalled.
    pub accepts: Accepts,
}

impl Command {
    /// Keep a lease for longer, with all of its units.
    pub fn extend(lease: LeaseId, duration: Span) -> Self {
        Self::Extend { lease, duration, units: None, victims: Victims::Youngest }
    }
}
