//! Follows leases: which of them a fact is about.

use tenure_core::fact::Fact;
use tenure_core::fact::service_manager::Fact as Guest;

/// The number of the request whose leases a fact of a service manager's changed, if it is about any.
pub(super) fn number_of(fact: &Fact) -> Option<u64> {
    let Fact::ServiceManager(fact) = fact else { return None };
    Some(match fact {
        Guest::Asked(fact) => fact.request.id.number,
        Guest::Granted(fact) => fact.number,
        Guest::AskRefused(fact) => fact.number,
        Guest::GaveUp(fact) => fact.number,
        Guest::UnwantedGranted(fact) => fact.number,
        Guest::Leased(fact) => fact.lease.number,
        Guest::RedeemRefused(fact) => fact.lease.number,
        Guest::Joined(fact) => fact.lease.number,
        Guest::ExtensionAsked(fact) => fact.lease.number,
        Guest::ExtensionGranted(fact) => fact.lease.number,
        Guest::ExtensionDenied(fact) => fact.lease.number,
        Guest::Extended(fact) => fact.lease.number,
        Guest::LeaveBegun(fact) => fact.lease.number,
        Guest::Left(fact) => fact.lease.number,
        Guest::CloseBegun(fact) => fact.lease.number,
        Guest::SiteClosed(fact) => fact.lease.number,
        Guest::Credited(fact) => fact.lease.number,
        Guest::TermOver(fact) => fact.lease.number,
        Guest::SignalObserved(_)
        | Guest::MapperAnswered(_)
        | Guest::LeaseForgotten(_)
        | Guest::Woken(_) => return None,
    })
}
