//! What a fact is about: the request and the lease, by the guest's numbers, and the slice.
//!
//! Only a service manager's facts name leases by these numbers. A site names a lease by its ticket and a
//! broker by its request, so what belongs to which is learnt on the way.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "facts that are about no lease in particular are about nothing here"
)]

use std::collections::BTreeMap;

use tenure_core::broker::facts as broker;
use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::runtime::Fact;
use tenure_core::service_manager::facts as sm;
use tenure_core::site_authority::facts as site;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::LinkHash;

/// What a fact is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// The number of a request.
    pub(super) number: Option<u64>,
    /// Which of its leases, if it is one.
    pub(super) part: Option<u16>,
    /// The slice, where it is known.
    pub(super) slice: Option<Name>,
}

/// What was learnt from the facts so far.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    /// By request, at a guest.
    slices: BTreeMap<u64, Name>,
    /// By ticket, at a site.
    leases: BTreeMap<LinkHash, (LeaseId, Name)>,
    /// The lease that a unit was last put on, at a site.
    units: BTreeMap<UnitId, LinkHash>,
    /// By ticket, at a broker.
    requests: BTreeMap<LinkHash, u64>,
}

impl Subjects {
    /// What the next fact is about.
    pub(super) fn next(&mut self, fact: &Fact) -> Subject {
        match fact {
            Fact::ServiceManager(fact) => self.of_guest(fact),
            Fact::Broker(fact) => self.of_broker(fact),
            Fact::SiteAuthority(fact) => self.of_site(fact),
        }
    }

    fn of_guest(&mut self, fact: &sm::Fact) -> Subject {
        use sm::Fact;
        match fact {
            Fact::Asked(fact) => {
                self.slices.insert(fact.request.id.number, fact.slice.clone());
                self.request(fact.request.id.number)
            }
            Fact::Granted(fact) => self.request(fact.number),
            Fact::AskRefused(fact) => self.request(fact.number),
            Fact::Queued(fact) => self.request(fact.number),
            Fact::Offered(fact) => self.request(fact.number),
            Fact::Accepted(fact) => self.request(fact.number),
            Fact::GaveUp(fact) => self.request(fact.number),
            Fact::UnwantedGranted(fact) => self.request(fact.number),
            Fact::TicketTaken(fact) => {
                self.slices.insert(fact.lease.number, fact.slice.clone());
                self.lease(fact.lease)
            }
            Fact::RedeemBegun(fact) => self.lease(fact.lease),
            Fact::TicketsSplit(fact) => self.lease(fact.lease),
            Fact::GroupAsked(fact) => self.request(fact.group),
            Fact::GroupHeld(fact) => self.request(fact.group),
            Fact::GroupGranted(fact) => self.request(fact.group),
            Fact::GroupWhole(fact) => self.request(fact.group),
            Fact::GroupBroken(fact) => self.request(fact.group),
            Fact::Leased(fact) => self.lease(fact.lease),
            Fact::RedeemRefused(fact) => self.lease(fact.lease),
            Fact::Joined(fact) => self.lease(fact.lease),
            Fact::ExtensionAsked(fact) => self.lease(fact.lease),
            Fact::ExtensionGranted(fact) => self.lease(fact.lease),
            Fact::ExtensionDenied(fact) => self.lease(fact.lease),
            Fact::Extended(fact) => self.lease(fact.lease),
            Fact::ReturnBegun(fact) => self.lease(fact.lease),
            Fact::PartReturned(fact) => self.lease(fact.lease),
            Fact::ReturnRefused(fact) => self.lease(fact.lease),
            Fact::ShrinkBegun(fact) => self.lease(fact.lease),
            Fact::Shrunk(fact) => self.lease(fact.lease),
            Fact::RecallTold(fact) => self.lease(fact.lease),
            Fact::UnitFailed(fact) => self.lease(fact.lease),
            Fact::ReplacementWanted(fact) => self.lease(fact.lease),
            Fact::VictimsNamed(fact) => self.lease(fact.lease),
            Fact::RecallBegun(fact) => self.lease(fact.lease),
            Fact::RecallLifted(fact) => self.lease(fact.lease),
            Fact::JoinRefused(fact) => self.lease(fact.lease),
            Fact::SiteUnheard(fact) => self.lease(fact.lease),
            Fact::LeaveHastened(fact) => self.lease(fact.lease),
            Fact::LeaveRefused(fact) => self.lease(fact.lease),
            Fact::LeaveForced(fact) => self.lease(fact.lease),
            Fact::UnitReset(fact) => self.lease(fact.lease),
            Fact::Unblocked(fact) => self.lease(fact.lease),
            Fact::GateReached(fact) => self.lease(fact.lease),
            Fact::GateAnswered(fact) => self.lease(fact.lease),
            Fact::UsageReported(fact) => self.lease(fact.lease),
            Fact::RestWanted(fact) => self.lease(fact.lease),
            Fact::RestBegun(fact) => self.lease(fact.lease),
            Fact::RestReturned(fact) => self.lease(fact.lease),
            Fact::RestRefused(fact) => self.lease(fact.lease),
            Fact::RestCredited(fact) => self.lease(fact.lease),
            Fact::UnitsRecalled(fact) => self.lease(fact.lease),
            Fact::Warned(fact) => self.lease(fact.lease),
            Fact::LeaveBegun(fact) => self.lease(fact.lease),
            Fact::Left(fact) => self.lease(fact.lease),
            Fact::CloseBegun(fact) => self.lease(fact.lease),
            Fact::SiteClosed(fact) => self.lease(fact.lease),
            Fact::Credited(fact) => self.lease(fact.lease),
            Fact::TermOver(fact) => self.lease(fact.lease),
            Fact::LeaseForgotten(fact) => self.lease(fact.lease),
            _ => Subject::default(),
        }
    }

    fn request(&self, number: u64) -> Subject {
        let slice = self.slices.get(&number).cloned();
        Subject { number: Some(number), part: None, slice }
    }

    fn lease(&self, lease: LeaseId) -> Subject {
        Subject { part: Some(lease.part), ..self.request(lease.number) }
    }

    fn of_broker(&mut self, fact: &broker::Fact) -> Subject {
        use broker::Fact;
        let number = match fact {
            Fact::Requested(fact) => Some(fact.request.id.number),
            Fact::TicketsCut(fact) => {
                let cut = fact.tickets.iter().map(|(_, t)| (t.hash(), fact.request.number));
                self.requests.extend(cut);
                Some(fact.request.number)
            }
            Fact::RequestRefused(fact) => Some(fact.request.number),
            Fact::RequestQueued(fact) => Some(fact.request.number),
            Fact::OffersHeld(fact) => {
                let cut = fact.offers.iter().flatten();
                self.requests.extend(cut.map(|(_, t)| (t.hash(), fact.request.number)));
                Some(fact.request.number)
            }
            Fact::PortionKept(fact) => {
                let cut = fact.tickets.iter().map(|(_, t)| (t.hash(), fact.request.number));
                self.requests.extend(cut);
                Some(fact.request.number)
            }
            Fact::PortionHanded(fact) => Some(fact.request.number),
            Fact::PortionPassed(fact) => Some(fact.request.number),
            Fact::PortionAnswered(fact) => Some(fact.request.number),
            Fact::PortionReserved(fact) => Some(fact.request.number),
            Fact::PortionsTaken(fact) => Some(fact.request.number),
            Fact::PortionsGranted(fact) => Some(fact.request.number),
            Fact::PortionsReleased(fact) => Some(fact.request.number),
            Fact::RequestHanded(fact) => Some(fact.request.number),
            Fact::RequestPassed(fact) => Some(fact.request.number),
            Fact::PassAnswered(fact) => Some(fact.request.number),
            Fact::PassLapsed(fact) => Some(fact.request.number),
            Fact::OfferAccepted(fact) => Some(fact.request.number),
            Fact::OfferPassed(fact) => Some(fact.request.number),
            Fact::HoldEnded(fact) => Some(fact.request.number),
            Fact::RequestPlanned(fact) => Some(fact.request.number),
            Fact::RequestForgotten(fact) => Some(fact.request.number),
            Fact::ReceiptTaken(fact) => self.requests.get(&fact.receipt.what.link).copied(),
            _ => None,
        };
        Subject { number, part: None, slice: None }
    }

    fn of_site(&mut self, fact: &site::Fact) -> Subject {
        use site::Fact;
        match fact {
            Fact::Redeemed(fact) => {
                self.leases.insert(fact.ticket.hash(), (fact.lease, fact.slice.clone()));
                self.ticket(fact.ticket.hash())
            }
            Fact::LeaseExtended(fact) => {
                if let Some(lease) = self.leases.get(&fact.lease).cloned() {
                    self.leases.insert(fact.ticket.hash(), lease);
                }
                self.ticket(fact.lease)
            }
            Fact::UnitsAssigned(fact) => {
                self.units.extend(fact.units.iter().map(|&unit| (unit, fact.lease)));
                self.ticket(fact.lease)
            }
            Fact::CameDue(fact) => self.ticket(fact.lease),
            Fact::LeaseActivated(fact) => self.ticket(fact.lease),
            Fact::LeaseClosed(fact) => self.ticket(fact.lease),
            Fact::LeaseForgotten(fact) => self.ticket(fact.lease),
            Fact::TicketRefused(fact) => self.ticket(fact.ticket.hash()),
            Fact::TicketSurrendered(fact) => self.ticket(fact.ticket.hash()),
            Fact::UnitSetUp(fact) => self.unit(fact.unit),
            Fact::UnitSetupFailed(fact) => self.unit(fact.unit),
            Fact::UnitTornDown(fact) => self.unit(fact.unit),
            Fact::UnitTeardownFailed(fact) => self.unit(fact.unit),
            _ => Subject::default(),
        }
    }

    fn ticket(&self, ticket: LinkHash) -> Subject {
        self.leases.get(&ticket).map_or_else(Subject::default, |(lease, slice)| Subject {
            number: Some(lease.number),
            part: Some(lease.part),
            slice: Some(slice.clone()),
        })
    }

    fn unit(&self, unit: UnitId) -> Subject {
        self.units.get(&unit).map_or_else(Subject::default, |&ticket| self.ticket(ticket))
    }
}

/// The tickets that a fact holds.
pub(super) fn tickets(fact: &Fact) -> Vec<&Ticket> {
    let all = all_of;
    match fact {
        Fact::ServiceManager(sm::Fact::Granted(fact)) => all(&fact.tickets),
        Fact::ServiceManager(sm::Fact::UnwantedGranted(fact)) => all(&fact.tickets),
        Fact::ServiceManager(sm::Fact::ExtensionGranted(fact)) => vec![&fact.ticket],
        Fact::Broker(broker::Fact::DelegationTaken(fact)) => vec![&fact.ticket],
        Fact::Broker(broker::Fact::DelegationIssued(fact)) => vec![&fact.ticket],
        Fact::Broker(broker::Fact::ReturnBegun(fact)) => vec![&fact.ticket],
        Fact::Broker(broker::Fact::TicketsCut(fact)) => all(&fact.tickets),
        Fact::Broker(broker::Fact::PortionKept(fact)) => all(&fact.tickets),
        Fact::Broker(broker::Fact::OffersHeld(fact)) => {
            fact.offers.iter().flat_map(|offer| all(offer)).collect()
        }
        Fact::SiteAuthority(site::Fact::DelegationIssued(fact)) => vec![&fact.ticket],
        Fact::SiteAuthority(site::Fact::DelegatedByHand(fact)) => vec![&fact.ticket],
        Fact::SiteAuthority(site::Fact::Redeemed(fact)) => vec![&fact.ticket],
        Fact::SiteAuthority(site::Fact::LeaseExtended(fact)) => vec![&fact.ticket],
        Fact::SiteAuthority(site::Fact::TicketRefused(fact)) => vec![&fact.ticket],
        Fact::SiteAuthority(site::Fact::TicketSurrendered(fact)) => vec![&fact.ticket],
        _ => Vec::new(),
    }
}

fn all_of(tickets: &[(u16, Ticket)]) -> Vec<&Ticket> {
    tickets.iter().map(|(_, ticket)| ticket).collect()
}
