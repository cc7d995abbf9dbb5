//! What a fact is about: a request, a lease or a unit. The journal's index, the log and `why` find the facts of a
//! lease by it.

use tenure_core::broker::facts as broker;
use tenure_core::driver::{Epoch, Step, UnitId};
use tenure_core::model::slice::RequestId;
use tenure_core::runtime::Fact;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts::Fact as F;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::LinkHash;

/// What a fact names, by which its request is found.
pub(crate) enum Subject {
    /// A request of the actor's own.
    Own(u64),
    /// A request.
    Request(RequestId),
    /// A lease at a site.
    Lease(LinkHash),
    /// A unit of a site.
    Unit(UnitId),
}

/// What a fact names, if that leads to a request.
pub(crate) fn subject(fact: &Fact) -> Option<Subject> {
    match fact {
        Fact::ServiceManager(fact) => of_guest(fact).map(Subject::Own),
        Fact::Broker(fact) => of_broker(fact).map(Subject::Request),
        Fact::SiteAuthority(fact) => of_site(fact),
    }
}

/// The units that a fact of a site puts on a lease.
pub(crate) fn tenants(fact: &F) -> Vec<(UnitId, LinkHash)> {
    if let F::UnitsAssigned(fact) = fact {
        fact.units.iter().map(|&unit| (unit, fact.lease)).collect()
    } else if let F::ShareAssigned(fact) = fact {
        vec![(fact.unit, fact.lease)]
    } else {
        Vec::new()
    }
}

#[allow(clippy::too_many_lines, reason = "a line or two for each kind of fact")]
fn of_site(fact: &F) -> Option<Subject> {
    use Subject::{Lease, Unit};
    Some(match fact {
        F::Redeemed(fact) => Lease(fact.ticket.bottom().hash()),
        F::UnitsAssigned(fact) => Lease(fact.lease),
        F::LeaseForgotten(fact) => Lease(fact.lease),
        F::LeaseExtended(fact) => Lease(fact.lease),
        F::CameDue(fact) => Lease(fact.lease),
        F::UnitsReturned(fact) => Lease(fact.lease),
        F::TermReturned(fact) => Lease(fact.lease),
        F::LeaseShrunk(fact) => Lease(fact.lease),
        F::ShareAssigned(fact) => Lease(fact.lease),
        F::QuantityReturned(fact) => Lease(fact.lease),
        F::ModificationBegun(fact) => Lease(fact.lease),
        F::LeaseModified(fact) => Lease(fact.lease),
        F::ModificationFailed(fact) => Lease(fact.lease),
        F::UnitModified(fact) => Unit(fact.unit),
        F::UnitModifyFailed(fact) => Unit(fact.unit),
        F::UnitsRecalled(fact) => Lease(fact.lease),
        F::RecallNoted(fact) => Lease(fact.lease),
        F::Recalled(fact) => Lease(fact.ticket.hash()),
        F::RightsRecalled(fact) => Lease(fact.link),
        F::LeaseActivated(fact) => Lease(fact.lease),
        F::LeaseClosed(fact) => Lease(fact.lease),
        F::UnitFailed(fact) => Unit(fact.unit),
        F::UnitNeeded(fact) => Unit(fact.unit),
        F::UnitSetUp(fact) => Unit(fact.unit),
        F::UnitSetupFailed(fact) => Unit(fact.unit),
        F::UnitTornDown(fact) => Unit(fact.unit),
        F::UnitTeardownFailed(fact) => Unit(fact.unit),
        F::UnitReset(fact) => Unit(fact.unit),
        F::Stocked(_)
        | F::UnitAdded(_)
        | F::UnitDescribed(_)
        | F::StockPlanned(_)
        | F::StacksPlanned(_)
        | F::UnitDrained(_)
        | F::UnitRestored(_)
        | F::UnitResumed(_)
        | F::UnitQuarantined(_)
        | F::InventoryChanged(_)
        | F::DelegationIssued(_)
        | F::DelegatedByHand(_)
        | F::DelegationAcknowledged(_)
        | F::DelegationEnded(_)
        | F::TicketRefused(_)
        | F::TicketSurrendered(_)
        | F::RightsReturned(_)
        | F::QuantityWithdrawn(_)
        | F::TicketReclaimed(_)
        | F::Common(_)
        | F::MapperAnswered(_)
        | F::Woken(_) => return None,
    })
}

/// A step of a unit that failed: which, and the driver's words.
pub(crate) type StepError<'a> = (Step, Epoch, &'a str);

/// The unit whose step has ended by a fact of a site, with how it failed, if it did.
pub(crate) fn step(fact: &F) -> Option<(UnitId, Option<StepError<'_>>)> {
    match fact {
        F::UnitSetUp(fact) => Some((fact.unit, None)),
        F::UnitTornDown(fact) => Some((fact.unit, None)),
        F::UnitModified(fact) => Some((fact.unit, None)),
        F::UnitSetupFailed(fact) => Some((fact.unit, Some((Step::Setup, fact.epoch, &fact.error)))),
        F::UnitTeardownFailed(fact) => {
            Some((fact.unit, Some((Step::Teardown, fact.epoch, &fact.error))))
        }
        F::UnitModifyFailed(fact) => {
            Some((fact.unit, Some((Step::Modify, fact.epoch, &fact.error))))
        }
        F::Stocked(_)
        | F::UnitAdded(_)
        | F::UnitDescribed(_)
        | F::StockPlanned(_)
        | F::StacksPlanned(_)
        | F::UnitDrained(_)
        | F::UnitNeeded(_)
        | F::UnitRestored(_)
        | F::UnitResumed(_)
        | F::UnitQuarantined(_)
        | F::UnitFailed(_)
        | F::InventoryChanged(_)
        | F::DelegationIssued(_)
        | F::DelegatedByHand(_)
        | F::DelegationAcknowledged(_)
        | F::DelegationEnded(_)
        | F::Redeemed(_)
        | F::LeaseExtended(_)
        | F::TicketRefused(_)
        | F::UnitsReturned(_)
        | F::TermReturned(_)
        | F::LeaseShrunk(_)
        | F::RightsReturned(_)
        | F::TicketReclaimed(_)
        | F::Common(_)
        | F::Recalled(_)
        | F::RightsRecalled(_)
        | F::UnitsRecalled(_)
        | F::RecallNoted(_)
        | F::CameDue(_)
        | F::UnitsAssigned(_)
        | F::UnitReset(_)
        | F::LeaseActivated(_)
        | F::LeaseClosed(_)
        | F::TicketSurrendered(_)
        | F::LeaseForgotten(_)
        | F::ShareAssigned(_)
        | F::QuantityReturned(_)
        | F::QuantityWithdrawn(_)
        | F::ModificationBegun(_)
        | F::LeaseModified(_)
        | F::ModificationFailed(_)
        | F::MapperAnswered(_)
        | F::Woken(_) => None,
    }
}

/// The number of the request that a fact is about, if it is a service manager's and about any.
pub(crate) fn number_of(fact: &Fact) -> Option<u64> {
    if let Fact::ServiceManager(fact) = fact { of_guest(fact) } else { None }
}

fn of_broker(fact: &broker::Fact) -> Option<RequestId> {
    use broker::Fact as F;
    match fact {
        F::Requested(fact) => Some(fact.request.id),
        F::Revised(fact) => Some(fact.request.id),
        F::TicketsCut(fact) => Some(fact.request),
        F::RequestRefused(fact) => Some(fact.request),
        F::RequestQueued(fact) => Some(fact.request),
        F::RequestSealed(fact) => Some(fact.request),
        F::RequestHanded(fact) => Some(fact.request),
        F::RequestPassed(fact) => Some(fact.request),
        F::PassAnswered(fact) => Some(fact.request),
        F::PassLapsed(fact) => Some(fact.request),
        F::PortionHanded(fact) => Some(fact.request),
        F::PortionKept(fact) => Some(fact.request),
        F::PortionPassed(fact) => Some(fact.request),
        F::PortionAnswered(fact) => Some(fact.request),
        F::PortionReserved(fact) => Some(fact.request),
        F::PortionsTaken(fact) => Some(fact.request),
        F::PortionsGranted(fact) => Some(fact.request),
        F::PortionsReleased(fact) => Some(fact.request),
        F::OffersHeld(fact) => Some(fact.request),
        F::OfferAccepted(fact) => Some(fact.request),
        F::OfferPassed(fact) => Some(fact.request),
        F::HoldEnded(fact) => Some(fact.request),
        F::RequestPlanned(fact) => Some(fact.request),
        F::RequestForgotten(fact) => Some(fact.request),
        F::DelegationTaken(_)
        | F::DelegationEnded(_)
        | F::DelegationIssued(_)
        | F::DelegationAcknowledged(_)
        | F::IssuedDelegationEnded(_)
        | F::ReturnBegun(_)
        | F::PartReturned(_)
        | F::ReturnRefused(_)
        | F::ReturnCredited(_)
        | F::QuotaSet(_)
        | F::ReclaimBegun(_)
        | F::ReclaimEnded(_)
        | F::Common(_)
        | F::RecallAsked(_)
        | F::RecallAnswered(_)
        | F::RecallRefused(_)
        | F::NeedNoted(_)
        | F::HostsNoted(_)
        | F::BoundsSet(_)
        | F::SharingSet(_)
        | F::LotOpened(_)
        | F::SharingReviewed(_)
        | F::SellingSet(_)
        | F::NeighbourSet(_)
        | F::RelationPlanned(_)
        | F::OrderPlaced(_)
        | F::OrderEnded(_)
        | F::OrdersAdvised(_)
        | F::RecallTold(_)
        | F::ReceiptTaken(_)
        | F::MapperAnswered(_)
        | F::Woken(_) => None,
    }
}

/// The number of the request that a fact of a service manager is about.
#[allow(clippy::too_many_lines, reason = "a line or two for each kind of fact")]
fn of_guest(fact: &service_manager::Fact) -> Option<u64> {
    use service_manager::Fact as F;
    Some(match fact {
        F::Asked(fact) => fact.request.id.number,
        F::Granted(fact) => fact.number,
        F::UnwantedGranted(fact) => fact.number,
        F::AskRefused(fact) => fact.number,
        F::Queued(fact) => fact.number,
        F::Offered(fact) => fact.number,
        F::Accepted(fact) => fact.number,
        F::GaveUp(fact) => fact.number,
        F::TicketTaken(fact) => fact.lease.number,
        F::RedeemBegun(fact) => fact.lease.number,
        F::TicketsSplit(fact) => fact.lease.number,
        F::GroupAsked(fact) => fact.group,
        F::GroupHeld(fact) => fact.group,
        F::GroupGranted(fact) => fact.group,
        F::GroupWhole(fact) => fact.group,
        F::GroupBroken(fact) => fact.group,
        F::Leased(fact) => fact.lease.number,
        F::RedeemRefused(fact) => fact.lease.number,
        F::Joined(fact) => fact.lease.number,
        F::ModifyBegun(fact) => fact.lease.number,
        F::Modified(fact) => fact.lease.number,
        F::ModifyRefused(fact) => fact.lease.number,
        F::Notified(fact) => fact.lease.number,
        F::ExtensionAsked(fact) => fact.lease.number,
        F::ExtensionGranted(fact) => fact.lease.number,
        F::ExtensionDenied(fact) => fact.lease.number,
        F::Extended(fact) => fact.lease.number,
        F::ReturnBegun(fact) => fact.lease.number,
        F::PartReturned(fact) => fact.lease.number,
        F::ReturnRefused(fact) => fact.lease.number,
        F::ShrinkBegun(fact) => fact.lease.number,
        F::Shrunk(fact) => fact.lease.number,
        F::LeaveBegun(fact) => fact.lease.number,
        F::Left(fact) => fact.lease.number,
        F::CloseBegun(fact) => fact.lease.number,
        F::SiteClosed(fact) => fact.lease.number,
        F::Credited(fact) => fact.lease.number,
        F::TermOver(fact) => fact.lease.number,
        F::TicketLapsed(fact) => fact.lease.number,
        F::Revised(fact) => fact.request.id.number,
        F::LeaseForgotten(fact) => fact.lease.number,
        F::RecallTold(fact) => fact.lease.number,
        F::UnitFailed(fact) => fact.lease.number,
        F::ReplacementWanted(fact) => fact.lease.number,
        F::VictimsNamed(fact) => fact.lease.number,
        F::RecallBegun(fact) => fact.lease.number,
        F::RecallLifted(fact) => fact.lease.number,
        F::JoinRefused(fact) => fact.lease.number,
        F::SiteUnheard(fact) => fact.lease.number,
        F::LeaveHastened(fact) => fact.lease.number,
        F::LeaveRefused(fact) => fact.lease.number,
        F::LeaveForced(fact) => fact.lease.number,
        F::UnitReset(fact) => fact.lease.number,
        F::Unblocked(fact) => fact.lease.number,
        F::GateReached(fact) => fact.lease.number,
        F::GateAnswered(fact) => fact.lease.number,
        F::UsageReported(fact) => fact.lease.number,
        F::RestWanted(fact) => fact.lease.number,
        F::RestBegun(fact) => fact.lease.number,
        F::RestReturned(fact) => fact.lease.number,
        F::RestRefused(fact) => fact.lease.number,
        F::RestCredited(fact) => fact.lease.number,
        F::UnitsRecalled(fact) => fact.lease.number,
        F::Warned(fact) => fact.lease.number,
        F::PlanRequested(_)
        | F::PlanLeasing(_)
        | F::PlanLeased(_)
        | F::PlanProposed(_)
        | F::PlanAccepted(_)
        | F::PackageReported(_)
        | F::PackageRemoved(_)
        | F::PlanEnded(_)
        | F::PlanForgotten(_)
        | F::ServiceDefined(_)
        | F::ServiceRemoved(_)
        | F::ServiceReported(_)
        | F::MembersTold(_)
        | F::MemberAmbiguous(_)
        | F::AmbiguitySettled(_)
        | F::MemberContested(_)
        | F::MemberCeded(_)
        | F::ServiceStale(_)
        | F::SloAssessed(_)
        | F::ServiceAdvised(_)
        | F::UnitBlacklisted(_)
        | F::NeedStated(_)
        | F::NeedAnswered(_)
        | F::HostsStated(_)
        | F::HostsAnswered(_)
        | F::WorkTold(_)
        | F::ReceiptTaken(_)
        | F::ReclaimBegun(_)
        | F::ReclaimEnded(_)
        | F::Common(_)
        | F::RecallAsked(_)
        | F::RecallAnswered(_)
        | F::RecallRefused(_)
        | F::SignalObserved(_)
        | F::MapperAnswered(_)
        | F::Woken(_) => return None,
    })
}

/// The tickets that an actor receives by a fact from another one than their site.
pub(crate) fn received(fact: &Fact) -> impl Iterator<Item = &Ticket> {
    use service_manager::Fact as F;
    let (several, one) = match fact {
        Fact::ServiceManager(F::Granted(fact)) => (&fact.tickets[..], None),
        Fact::ServiceManager(F::UnwantedGranted(fact)) => (&fact.tickets[..], None),
        Fact::ServiceManager(F::ExtensionGranted(fact)) => (&[][..], Some(&fact.ticket)),
        Fact::ServiceManager(F::TicketTaken(fact)) => (&[][..], Some(&fact.ticket)),
        Fact::Broker(broker::Fact::DelegationTaken(fact)) => {
            (&[][..], Some(&fact.ticket).filter(|ticket| ticket.links().len() > 1))
        }
        Fact::ServiceManager(_) | Fact::Broker(_) | Fact::SiteAuthority(_) => (&[][..], None),
    };
    several.iter().map(|(_, ticket)| ticket).chain(one)
}
