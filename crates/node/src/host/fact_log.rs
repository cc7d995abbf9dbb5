//! What of the journal is logged: by default what leases come to; at debug level, every fact.

use tenure_core::actor::Actor as _;
use tenure_core::model::slice::RequestId;
use tenure_core::runtime::{AnyActor, Entry, Fact};
use tenure_core::{broker, service_manager, site_authority};
use tracing::field::display;
use tracing::{debug, info, warn};

use super::ActorInfo;
use crate::subject::step;

/// Logs a fact that is durable, with the lease that it is about: by the name that its guest has for it.
pub(super) fn note(
    info: &ActorInfo,
    request: Option<RequestId>,
    (position, entry): (u64, &Entry),
    hosted: &AnyActor,
) {
    let (actor, kind) = (&info.name, entry.fact.kind().0);
    // Put together only for a line that is written.
    let lease = || {
        let RequestId { origin, number } = request?;
        let guest = hosted.peers().get(&origin).map(|peer| peer.name.to_string());
        let own = || if origin == info.id { info.name.to_string() } else { origin.to_string() };
        Some(display(format!("{}/{number}", guest.unwrap_or_else(own))))
    };
    if let Some((unit, error)) = failure(&entry.fact) {
        warn!(%actor, lease = lease(), position, kind, %unit, %error, "a step on a unit failed");
    } else if is_turning_point(&entry.fact) {
        info!(%actor, lease = lease(), position, kind, "fact");
    } else {
        debug!(%actor, lease = lease(), position, kind, "fact");
    }
}

/// The unit that failed, and how.
fn failure(fact: &Fact) -> Option<(String, &str)> {
    use service_manager::facts::Fact as G;
    use site_authority::facts::Fact as F;
    match fact {
        Fact::SiteAuthority(F::UnitFailed(fact)) => Some((fact.unit.to_string(), &fact.why)),
        Fact::SiteAuthority(fact) => {
            let (unit, failed) = step(fact)?;
            failed.map(|(_, _, error)| (unit.to_string(), error))
        }
        Fact::ServiceManager(G::Joined(fact)) => {
            Some((fact.unit.to_string(), fact.error.as_deref()?))
        }
        Fact::ServiceManager(_) | Fact::Broker(_) => None,
    }
}

/// Whether a lease has begun, ended or come to nothing by it.
fn is_turning_point(fact: &Fact) -> bool {
    use broker::facts::Fact as B;
    use service_manager::facts::Fact as G;
    use site_authority::facts::Fact as F;
    match fact {
        Fact::ServiceManager(fact) => matches!(
            fact,
            G::Asked(_)
                | G::Granted(_)
                | G::AskRefused(_)
                | G::GaveUp(_)
                | G::RedeemRefused(_)
                | G::Leased(_)
                | G::SiteClosed(_)
                | G::TermOver(_)
                | G::CloseBegun(_)
        ),
        Fact::Broker(fact) => matches!(fact, B::TicketsCut(_) | B::RequestRefused(_)),
        Fact::SiteAuthority(fact) => matches!(
            fact,
            F::TicketRefused(_) | F::LeaseActivated(_) | F::LeaseClosed(_) | F::UnitQuarantined(_)
        ),
    }
}
