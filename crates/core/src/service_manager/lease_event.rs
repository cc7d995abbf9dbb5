//! What the facts of a service manager say happened to a lease.

use super::facts::{ExtensionAsked, Fact, UnitsRecalled};
use super::machine::Event;
use crate::model::slice::LeaseId;

impl ExtensionAsked {
    fn event(&self) -> Event {
        Event::ExtensionAsked(self.request.id.number, self.victims.clone())
    }
}

impl UnitsRecalled {
    fn event(&self) -> Event {
        Event::UnitsRecalled(self.units.clone(), self.stay)
    }
}

impl Fact {
    /// What the fact says happened to a lease, in the terms of the lease's machine; `None` if it is about
    /// something else, or if the lease begins or is forgotten with it. A [`TermOver`](Fact::TermOver) may also
    /// be about a request that never had a lease.
    #[allow(clippy::too_many_lines, reason = "a line or two for each kind of fact")]
    pub fn lease_event(&self) -> Option<(LeaseId, Event)> {
        Some(match self {
            Self::RedeemBegun(fact) => (fact.lease, Event::RedeemBegun),
            Self::TicketsSplit(fact) => (fact.lease, Event::Split),
            Self::Leased(fact) => (fact.lease, Event::Leased(fact.term, fact.units.clone())),
            Self::RedeemRefused(fact) => (fact.lease, Event::Refused(fact.refusal.clone())),
            Self::Joined(fact) => (fact.lease, Event::Joined(fact.unit, fact.error.is_none())),
            Self::Left(fact) => (fact.lease, Event::Left(fact.unit)),
            Self::ExtensionAsked(fact) => (fact.lease, fact.event()),
            Self::ExtensionGranted(f) => (f.lease, Event::ExtensionGranted(f.ticket.clone())),
            Self::ExtensionDenied(fact) => (fact.lease, Event::ExtensionDenied),
            Self::Extended(fact) => (fact.lease, Event::Extended),
            Self::ReturnBegun(fact) => (fact.lease, Event::ReturnBegun(fact.part.clone())),
            Self::PartReturned(fact) => (fact.lease, Event::PartReturned(fact.receipts.clone())),
            Self::ReturnRefused(fact) => (fact.lease, Event::ReturnRefused),
            Self::ShrinkBegun(fact) => (fact.lease, Event::ShrinkBegun),
            Self::Shrunk(fact) => (fact.lease, Event::Shrunk),
            Self::LeaveBegun(fact) => (fact.lease, Event::LeaveBegun(fact.then)),
            Self::CloseBegun(fact) => (fact.lease, Event::CloseBegun),
            Self::SiteClosed(fact) => (fact.lease, Event::SiteClosed(fact.receipts.clone())),
            Self::Credited(fact) => (fact.lease, Event::Credited),
            Self::TermOver(fact) => (fact.lease, Event::TermOver),
            Self::ModifyBegun(fact) => (fact.lease, Event::ModifyBegun(fact.configuration.clone())),
            Self::Modified(fact) => (fact.lease, Event::Modified(fact.units.clone())),
            Self::ModifyRefused(fact) => (fact.lease, Event::ModifyRefused),
            Self::Notified(fact) => (fact.lease, Event::Notified(fact.unit)),
            Self::TicketLapsed(fact) => (fact.lease, Event::TermOver),
            Self::RecallBegun(fact) => (fact.lease, Event::RecallBegun(fact.units.clone())),
            Self::RecallLifted(fact) => (fact.lease, Event::RecallLifted),
            Self::UnitsRecalled(fact) => (fact.lease, fact.event()),
            Self::JoinRefused(fact) => (fact.lease, Event::JoinRefused(fact.unit)),
            Self::LeaveRefused(fact) => (fact.lease, Event::LeaveRefused(fact.unit)),
            Self::LeaveForced(fact) => (fact.lease, Event::LeaveForced),
            Self::LeaveHastened(fact) => (fact.lease, Event::LeaveHastened(fact.by)),
            Self::UnitReset(fact) => (fact.lease, Event::UnitReset(fact.unit)),
            Self::SiteUnheard(_)
            | Self::UsageReported(_)
            | Self::RestWanted(_)
            | Self::RestBegun(_)
            | Self::RestReturned(_)
            | Self::RestRefused(_)
            | Self::RestCredited(_)
            | Self::SignalObserved(_)
            | Self::MapperAnswered(_)
            | Self::Asked(_)
            | Self::Granted(_)
            | Self::UnwantedGranted(_)
            | Self::AskRefused(_)
            | Self::Queued(_)
            | Self::Offered(_)
            | Self::Accepted(_)
            | Self::GaveUp(_)
            | Self::TicketTaken(_)
            | Self::ReceiptTaken(_)
            | Self::GroupAsked(_)
            | Self::GroupHeld(_)
            | Self::GroupGranted(_)
            | Self::GroupWhole(_)
            | Self::GroupBroken(_)
            | Self::LeaseForgotten(_)
            | Self::ReclaimBegun(_)
            | Self::Common(_)
            | Self::Revised(_)
            | Self::ReclaimEnded(_)
            | Self::RecallTold(_)
            | Self::UnitFailed(_)
            | Self::ReplacementWanted(_)
            | Self::VictimsNamed(_)
            | Self::RecallAsked(_)
            | Self::RecallAnswered(_)
            | Self::RecallRefused(_)
            | Self::Warned(_)
            | Self::Unblocked(_)
            | Self::GateReached(_)
            | Self::GateAnswered(_)
            | Self::PlanRequested(_)
            | Self::PlanLeasing(_)
            | Self::PlanLeased(_)
            | Self::PlanProposed(_)
            | Self::PlanAccepted(_)
            | Self::PackageReported(_)
            | Self::PackageRemoved(_)
            | Self::PlanEnded(_)
            | Self::PlanForgotten(_)
            | Self::ServiceDefined(_)
            | Self::ServiceRemoved(_)
            | Self::ServiceReported(_)
            | Self::MembersTold(_)
            | Self::MemberAmbiguous(_)
            | Self::AmbiguitySettled(_)
            | Self::MemberContested(_)
            | Self::MemberCeded(_)
            | Self::ServiceStale(_)
            | Self::SloAssessed(_)
            | Self::ServiceAdvised(_)
            | Self::UnitBlacklisted(_)
            | Self::NeedStated(_)
            | Self::NeedAnswered(_)
            | Self::HostsStated(_)
            | Self::HostsAnswered(_)
            | Self::WorkTold(_)
            | Self::Woken(_) => return None,
        })
    }
}
