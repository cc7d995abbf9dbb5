//! The facts of a site authority.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::actor::Role;
use crate::actor::fact::{Memo, facts};
use crate::driver::{Epoch, UnitId};
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::resource::Attributes;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::Time;
use crate::site_authority::machine::CloseReason;
use crate::ticket::Ticket;
use crate::ticket::evidence::EvidenceOutline;
use crate::ticket::link::{LinkHash, SignedLink};
use crate::ticket::receipt::Receipt;
use crate::wire::recall::Level;
use crate::wire::refusal::Refusal;

facts! {
    of Role::SiteAuthority;

    /// Units of a type are there to be lent; they get the next numbers.
    Stocked = "site.stocked" 1 {
        /// The type.
        resource: Name,
        /// What all its units are like.
        attributes: Attributes,
        /// How many.
        units: u32,
    }

    /// What is known of the units of a type has changed, or some are withdrawn from service. Numbers of
    /// withdrawn units are not used again.
    InventoryChanged = "site.inventory-changed" 1 {
        /// The type.
        resource: Name,
        /// What its units are like from now on.
        attributes: Attributes,
        /// The units that are withdrawn: free or quarantined until now.
        withdrawn: Vec<UnitId>,
    }

    /// Units are delegated to a broker, or a delegation is renewed.
    DelegationIssued = "site.delegation-issued" 1 {
        /// The delegation.
        ticket: Ticket,
    }

    /// The broker has recorded the delegation.
    DelegationAcknowledged = "site.delegation-acknowledged" 1 {
        /// The number of the delegation.
        number: u64,
        /// The generation.
        generation: u32,
    }

    /// No ticket cut from the delegation can be redeemed any more; its units can be delegated again.
    DelegationEnded = "site.delegation-ended" 1 {
        /// The number of the delegation.
        number: u64,
    }

    /// A ticket was redeemed: a lease begins.
    Redeemed = "site.redeemed" 1 {
        /// The ticket; its hash names the lease here.
        ticket: Ticket,
        /// The guest's name for the lease.
        lease: LeaseId,
        /// The guest's group of leases.
        slice: SliceName,
        /// How few units will do.
        min_units: NonZeroU32,
        /// For the driver.
        configuration: Properties,
    }

    /// A ticket that continues a lease was redeemed.
    LeaseExtended = "site.lease-extended" 1 {
        /// The lease.
        lease: LinkHash,
        /// The ticket.
        ticket: Ticket,
        /// Of a ticket for fewer units: those that go first when its term begins.
        victims: Vec<UnitId>,
    }

    /// Some units of a lease came back; it goes on with the others.
    UnitsReturned = "site.units-returned" 1 {
        /// The lease.
        lease: LinkHash,
        /// The number of the return.
        number: u32,
        /// The units, which are released.
        units: Vec<UnitId>,
        /// For each ticket that covers fewer units from now on, the word that the others came back.
        receipts: Vec<Receipt>,
    }

    /// The rest of a lease's term came back; it ends earlier.
    TermReturned = "site.term-returned" 1 {
        /// The lease.
        lease: LinkHash,
        /// The number of the return.
        number: u32,
        /// When it ends.
        until: Time,
        /// For each ticket that ends earlier, the word that the rest came back.
        receipts: Vec<Receipt>,
    }

    /// A lease goes on with fewer units, as its extension says.
    LeaseShrunk = "site.lease-shrunk" 1 {
        /// The lease.
        lease: LinkHash,
        /// The units that are released.
        units: Vec<UnitId>,
    }

    /// A part of a ticket that is not redeemed came back.
    RightsReturned = "site.rights-returned" 1 {
        /// The ticket.
        ticket: Ticket,
        /// The number of the return.
        number: u32,
        /// The word that it came back.
        receipts: Vec<Receipt>,
    }

    /// A valid ticket was not honoured, because others cut from the same parent came first.
    TicketRefused = "site.ticket-refused" 1 {
        /// The ticket.
        ticket: Ticket,
        /// Why.
        denial: Denial,
    }

    /// A lease that was redeemed early has begun.
    CameDue = "site.came-due" 1 {
        /// The lease.
        lease: LinkHash,
    }

    /// Units are put on a lease.
    UnitsAssigned = "site.units-assigned" 1 {
        /// The lease.
        lease: LinkHash,
        /// The units.
        units: Vec<UnitId>,
        /// Why these, in the mapper's words.
        reason: String,
    }

    /// The driver set a unit up.
    UnitSetUp = "site.unit-set-up" 1 {
        /// The unit.
        unit: UnitId,
        /// Its epoch.
        epoch: Epoch,
        /// The properties that the driver reported.
        properties: Properties,
    }

    /// The driver could not set a unit up, or refused to.
    UnitSetupFailed = "site.unit-setup-failed" 1 {
        /// The unit.
        unit: UnitId,
        /// Its epoch.
        epoch: Epoch,
        /// The driver's words.
        error: String,
    }

    /// The driver cleaned a unit.
    UnitTornDown = "site.unit-torn-down" 1 {
        /// The unit.
        unit: UnitId,
        /// Its epoch.
        epoch: Epoch,
    }

    /// The driver could not clean a unit: it stays out of use.
    UnitTeardownFailed = "site.unit-teardown-failed" 1 {
        /// The unit.
        unit: UnitId,
        /// Its epoch.
        epoch: Epoch,
        /// The driver's words.
        error: String,
    }

    /// An operator put a quarantined unit right; it is cleaned once more.
    UnitReset = "site.unit-reset" 1 {
        /// The unit.
        unit: UnitId,
    }

    /// The lease has the units it will get, all ready.
    LeaseActivated = "site.lease-activated" 1 {
        /// The lease.
        lease: LinkHash,
    }

    /// The lease has ended; its units are released.
    LeaseClosed = "site.lease-closed" 1 {
        /// The lease.
        lease: LinkHash,
        /// Why.
        why: CloseReason,
        /// For each ticket with time left, the word that the units came back.
        receipts: Vec<Receipt>,
    }

    /// A ticket came back that was never redeemed, or could not be.
    TicketSurrendered = "site.ticket-surrendered" 1 {
        /// The ticket.
        ticket: Ticket,
        /// Why.
        why: CloseReason,
        /// The word that the units came back.
        receipts: Vec<Receipt>,
    }

    /// Nothing about the lease can come any more.
    LeaseForgotten = "site.lease-forgotten" 1 {
        /// The lease.
        lease: LinkHash,
    }

    /// The mapper's round has ended; what it decided are the facts before this one.
    MapperAnswered = "site.mapper-answered" 1 {
        /// The round.
        round: u64,
        /// What the mapper wants to remember, if that changed.
        memo: Option<Memo>,
        /// When it wants to be asked again, whatever happens.
        wake: Option<Time>,
    }

    /// The mapper is to be asked though nothing happened: at the start, or because it wanted to be.
    Woken = "site.woken" 1 {}

    /// A share of a divisible stock is made for a lease; it gets the next number of a unit.
    ShareAssigned = "site.share-assigned" 1 {
        /// The lease.
        lease: LinkHash,
        /// The share.
        unit: UnitId,
        /// How much it is.
        quantity: NonZeroU32,
    }

    /// A part of a lease's share came back; it goes on with the rest.
    QuantityReturned = "site.quantity-returned" 1 {
        /// The lease.
        lease: LinkHash,
        /// The number of the return.
        number: u32,
        /// How much.
        quantity: NonZeroU32,
        /// For each ticket that covers less from now on, the word that the rest came back.
        receipts: Vec<Receipt>,
    }

    /// A part of a divisible stock is withdrawn for good: no share took it up.
    QuantityWithdrawn = "site.quantity-withdrawn" 1 {
        /// The type.
        resource: Name,
        /// How much.
        quantity: NonZeroU32,
    }

    /// The configuration of a lease is to change in place.
    ModificationBegun = "site.modification-begun" 1 {
        /// The lease.
        lease: LinkHash,
        /// The number of the modification.
        number: u32,
        /// All of the new configuration.
        configuration: Properties,
    }

    /// The driver changed a unit in use: its configuration, or how much a share is.
    UnitModified = "site.unit-modified" 1 {
        /// The unit.
        unit: UnitId,
        /// Its epoch.
        epoch: Epoch,
        /// The number of the modification of this unit.
        number: u32,
        /// The properties that the driver reported.
        properties: Properties,
    }

    /// The driver could not change a unit in use: it is as it was.
    UnitModifyFailed = "site.unit-modify-failed" 1 {
        /// The unit.
        unit: UnitId,
        /// Its epoch.
        epoch: Epoch,
        /// The number of the modification of this unit.
        number: u32,
        /// The driver's words.
        error: String,
    }

    /// All units of a lease have its new configuration.
    LeaseModified = "site.lease-modified" 1 {
        /// The lease.
        lease: LinkHash,
        /// The number of the modification.
        number: u32,
    }

    /// A lease keeps its old configuration, and its units get it back that had the new one.
    ModificationFailed = "site.modification-failed" 1 {
        /// The lease.
        lease: LinkHash,
        /// The number of the modification.
        number: u32,
        /// Why.
        refusal: Refusal,
    }

    /// A ticket was not redeemed in time: it can be no more, and its issuer has back what no part of it
    /// claims.
    TicketReclaimed = "site.ticket-reclaimed" 1 {
        /// The ticket.
        ticket: Ticket,
        /// The word on what came back.
        receipts: Vec<Receipt>,
    }

    /// An operator delegated units to a broker, or the next generation of such a delegation.
    DelegatedByHand = "site.delegated-by-hand" 1 {
        /// The delegation.
        ticket: Ticket,
    }

    /// An issuer recalls a link, or changes or withdraws its recall.
    Recalled = "site.recalled" 1 {
        /// The ticket; its last link is recalled.
        ticket: Ticket,
        /// How many units stay, from when on.
        level: Level,
        /// The leases that lose units, and when: their notice counts from this fact.
        cuts: Vec<LeaseCut>,
    }

    /// Rights that nobody had claimed came back by a recall.
    RightsRecalled = "site.rights-recalled" 1 {
        /// The link that is recalled.
        link: LinkHash,
        /// The word that they came back; none if all were claimed.
        receipts: Vec<Receipt>,
    }

    /// A lease lost units by a recall, and goes on with the others.
    UnitsRecalled = "site.units-recalled" 1 {
        /// The lease.
        lease: LinkHash,
        /// The link that is recalled.
        link: LinkHash,
        /// The units, which are released.
        units: Vec<UnitId>,
        /// For each link from the lease's own up to the one that is recalled, the word that they came back.
        receipts: Vec<Receipt>,
    }

    /// The holder of a lease knows of a recall.
    RecallNoted = "site.recall-noted" 1 {
        /// The lease.
        lease: LinkHash,
        /// The link that is recalled.
        link: LinkHash,
        /// The units that go first.
        victims: Vec<UnitId>,
    }

    /// A named unit is there to be lent; it gets the next number.
    UnitAdded = "site.unit-added" 1 {
        /// Its type.
        resource: Name,
        /// Its name.
        name: Name,
        /// What it is like, beyond what all units of its type are.
        attributes: Attributes,
    }

    /// What is known of a named unit has changed.
    UnitDescribed = "site.unit-described" 1 {
        /// The unit.
        unit: UnitId,
        /// What it is like, beyond what all units of its type are.
        attributes: Attributes,
    }

    /// The plan of a stock was followed: what it adds and takes away are the facts before this one.
    StockPlanned = "site.stock-planned" 1 {
        /// The type.
        resource: Name,
        /// How many units the plan has, named ones included.
        units: u32,
        /// The names in it.
        named: BTreeSet<Name>,
    }

    /// Which units are in stacks, from now on.
    StacksPlanned = "site.stacks-planned" 1 {
        /// The units of each stack, by their names.
        stacks: BTreeMap<Name, BTreeSet<Name>>,
    }

    /// A unit gets no new tenant from now on.
    UnitDrained = "site.unit-drained" 1 {
        /// The unit.
        unit: UnitId,
    }

    /// A drained unit that is on a lease is needed from an instant on: then the lease has to do without it.
    UnitNeeded = "site.unit-needed" 1 {
        /// The unit.
        unit: UnitId,
        /// From when on.
        by: Time,
    }

    /// A drained unit is in service again.
    UnitResumed = "site.unit-resumed" 1 {
        /// The unit.
        unit: UnitId,
    }

    /// An operator took a unit out of use that was on no lease.
    UnitQuarantined = "site.unit-quarantined" 1 {
        /// The unit.
        unit: UnitId,
        /// Why.
        why: String,
    }

    /// A unit failed that a lease has.
    UnitFailed = "site.unit-failed" 1 {
        /// The unit.
        unit: UnitId,
        /// Its epoch.
        epoch: Epoch,
        /// How, in the words of who found it.
        why: String,
    }

    /// An operator put a unit right that was clean when it was taken out of use: it is free again.
    UnitRestored = "site.unit-restored" 1 {
        /// The unit.
        unit: UnitId,
    }
}

/// What a recall leaves a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseCut {
    /// The lease.
    pub lease: LinkHash,
    /// How many of its units stay.
    pub units: u32,
    /// From when on.
    pub at: Time,
}

/// Why a ticket is refused for good. The links that show it are named: the site has them in its tree of
/// claims and keeps them as long as it remembers the refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Denial {
    /// Others came first, and these links show it.
    Conflict(EvidenceOutline),
    /// Anything else.
    Other(Refusal),
}

impl Denial {
    /// What this comes to in a fact.
    pub fn of(refusal: &Refusal) -> Self {
        if let Refusal::Conflict(evidence) = refusal {
            Self::Conflict(evidence.outline())
        } else {
            Self::Other(refusal.clone())
        }
    }

    /// The refusal of `ticket`, if `find` knows every link in it.
    pub fn refusal(
        &self,
        ticket: &Ticket,
        find: impl Fn(LinkHash) -> Option<SignedLink>,
    ) -> Option<Refusal> {
        match self {
            Self::Conflict(outline) => {
                Some(Refusal::Conflict(Box::new(outline.fill(ticket, find)?)))
            }
            Self::Other(refusal) => Some(refusal.clone()),
        }
    }
}
