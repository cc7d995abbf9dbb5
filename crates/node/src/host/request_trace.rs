//! Maps each fact to its request: one id correlates a lease across the logs of all its actors.

use std::collections::BTreeMap;

use tenure_core::broker::facts as broker;
use tenure_core::driver::UnitId;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::RequestId;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::Fact;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::ticket::link::LinkHash;

/// What one actor's facts so far are about.
pub(crate) struct RequestTrace {
    actor: ActorId,
    /// At a site, the request behind each lease, and the lease each unit was last put on.
    leases: BTreeMap<LinkHash, RequestId>,
    units: BTreeMap<UnitId, LinkHash>,
}

impl RequestTrace {
    pub(crate) fn new(actor: ActorId) -> Self {
        Self { actor, leases: BTreeMap::new(), units: BTreeMap::new() }
    }

    /// Initializes the trace from an actor restored from a snapshot.
    pub(super) fn look(&mut self, actor: &AnyActor) {
        let AnyActor::SiteAuthority(site) = actor else { return };
        for (lease, _, ticket, _) in site.leases() {
            let (origin, number) = (ticket.bottom().holder, lease.number);
            self.leases.insert(ticket.hash(), RequestId { origin, number });
        }
        let tenants = site.units().filter_map(|(unit, state, _)| Some((unit, state.tenant()?)));
        self.units.extend(tenants);
    }

    /// Applies the next fact; returns the request it belongs to, if any.
    pub(crate) fn follow(&mut self, fact: &Fact) -> Option<RequestId> {
        match fact {
            Fact::ServiceManager(fact) => {
                Some(RequestId { origin: self.actor, number: of_guest(fact)? })
            }
            Fact::Broker(fact) => of_broker(fact),
            Fact::SiteAuthority(fact) => self.of_site(fact),
        }
    }

    #[allow(clippy::too_many_lines, reason = "a line or two for each kind of fact")]
    fn of_site(&mut self, fact: &site_authority::Fact) -> Option<RequestId> {
        use site_authority::Fact as F;
        let lease = match fact {
            F::Redeemed(fact) => {
                let link = fact.ticket.bottom();
                let request = RequestId { origin: link.holder, number: fact.lease.number };
                self.leases.insert(link.hash(), request);
                link.hash()
            }
            F::UnitsAssigned(fact) => {
                self.units.extend(fact.units.iter().map(|&unit| (unit, fact.lease)));
                fact.lease
            }
            F::LeaseForgotten(fact) => return self.leases.remove(&fact.lease),
            F::LeaseExtended(fact) => fact.lease,
            F::CameDue(fact) => fact.lease,
            F::UnitsReturned(fact) => fact.lease,
            F::TermReturned(fact) => fact.lease,
            F::LeaseShrunk(fact) => fact.lease,
            F::ShareAssigned(fact) => {
                self.units.insert(fact.unit, fact.lease);
                fact.lease
            }
            F::QuantityReturned(fact) => fact.lease,
            F::ModificationBegun(fact) => fact.lease,
            F::LeaseModified(fact) => fact.lease,
            F::ModificationFailed(fact) => fact.lease,
            F::UnitModified(fact) => *self.units.get(&fact.unit)?,
            F::UnitModifyFailed(fact) => *self.units.get(&fact.unit)?,
            F::UnitsRecalled(fact) => fact.lease,
            F::RecallNoted(fact) => fact.lease,
            F::Recalled(fact) => fact.ticket.hash(),
            F::RightsRecalled(fact) => fact.link,
            F::LeaseActivated(fact) => fact.lease,
            F::LeaseClosed(fact) => fact.lease,
            F::UnitFailed(fact) => *self.units.get(&fact.unit)?,
            F::UnitNeeded(fact) => *self.units.get(&fact.unit)?,
            F::UnitSetUp(fact) => *self.units.get(&fact.unit)?,
            F::UnitSetupFailed(fact) => *self.units.get(&fact.unit)?,
            F::UnitTornDown(fact) => *self.units.get(&fact.unit)?,
            F::UnitTeardownFailed(fact) => *self.units.get(&fact.unit)?,
            F::UnitReset(fact) => *self.units.get(&fact.unit)?,
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
            | F::Commanded(_)
            | F::MapperAnswered(_)
            | F::SettingsChanged(_)
            | F::ClockCompared(_)
            | F::KeyRotated(_)
            | F::KeyRevoked(_)
            | F::PeerKeysLearned(_)
            | F::KeysNoted(_)
            | F::Woken(_) => return None,
        };
        self.leases.get(&lease).copied()
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
        F::OffersHeld(fact) => Some(fact.request),
        F::OfferAccepted(fact) => Some(fact.request),
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
        | F::Commanded(_)
        | F::RecallAsked(_)
        | F::RecallAnswered(_)
        | F::RecallRefused(_)
        | F::RecallTold(_)
        | F::SettingsChanged(_)
        | F::ClockCompared(_)
        | F::KeyRotated(_)
        | F::KeyRevoked(_)
        | F::PeerKeysLearned(_)
        | F::KeysNoted(_)
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
        F::LeaveHastened(fact) => fact.lease.number,
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
        F::ReceiptTaken(_)
        | F::ReclaimBegun(_)
        | F::ReclaimEnded(_)
        | F::Commanded(_)
        | F::RecallAsked(_)
        | F::RecallAnswered(_)
        | F::RecallRefused(_)
        | F::SettingsChanged(_)
        | F::ClockCompared(_)
        | F::KeyRotated(_)
        | F::KeyRevoked(_)
        | F::PeerKeysLearned(_)
        | F::KeysNoted(_)
        | F::SignalObserved(_)
        | F::MapperAnswered(_)
        | F::Woken(_) => return None,
    })
}
