//! What the journals say about a lease: the request as it was made, its tickets, the last facts, and the
//! steps that failed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use serde::{Deserialize, Serialize};

use tenure_core::broker::facts as broker;
use tenure_core::driver::{Epoch, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::Time;
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::group::Why;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::ticket::Ticket;
use tenure_core::wire::message::Request;
use tenure_core::wire::part::Part;

use super::super::server::AppState;
use super::super::view;
use super::super::{ApiError, Code};
use crate::host::request_trace::RequestTrace;
use crate::journal::{JournalError, Reader};

/// How many facts of an actor are shown.
const LAST: usize = 3;

/// A fact that supports the explanation of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactView {
    /// Whose journal it is in.
    pub actor: String,
    /// Its place there.
    pub position: u64,
    /// When it was.
    pub time: String,
    /// Its kind.
    pub kind: String,
    /// What it says, where the kind does not say it all.
    pub says: Option<String>,
}

/// A step of a driver's that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) step: Step,
    pub(super) epoch: Epoch,
    pub(super) error: String,
    pub(super) position: u64,
    pub(super) at: Time,
    /// How often steps of the unit have failed since one went well.
    pub(super) times: u32,
}

/// What one journal says.
#[derive(Debug, Default)]
pub(super) struct RequestHistory {
    /// The request, at the service manager.
    pub(super) request: Option<(ActorId, Request)>,
    /// Its tickets, by the parts of the request, at the service manager.
    pub(super) tickets: Vec<Ticket>,
    /// The last facts about it.
    pub(super) facts: VecDeque<FactView>,
    /// At a site: the units whose last step failed.
    pub(super) failures: BTreeMap<UnitId, Failure>,
    /// The same when the site closed the lease.
    pub(super) when_closed: BTreeMap<UnitId, Failure>,
    /// The times of the facts that were asked for.
    pub(super) times: BTreeMap<u64, Time>,
}

/// Reads the journal of an actor for what it says about a part of a guest's request, and when the facts at
/// `positions` were.
pub(super) async fn history(
    app: &AppState,
    actor: ActorId,
    (origin, part): (ActorId, LeaseId),
    positions: BTreeSet<u64>,
) -> Result<RequestHistory, ApiError> {
    let Some(handle) = app.handle_of(actor) else { return Ok(RequestHistory::default()) };
    let (name, path) = (handle.info().name.to_string(), app.journal(&handle.info().name));
    let reader = name.clone();
    // Reading a long journal takes time, and others must be served in between.
    let read = tokio::task::spawn_blocking(move || {
        read(&path, &reader, actor, (origin, part), &positions)
    });
    let failed = |cause: &dyn std::fmt::Display| {
        ApiError::new(Code::Failed, format!("the journal of {name}: {cause}"))
    };
    read.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}

fn read(
    path: &Path,
    name: &str,
    actor: ActorId,
    (origin, part): (ActorId, LeaseId),
    positions: &BTreeSet<u64>,
) -> Result<RequestHistory, JournalError> {
    let (mut history, mut request_trace) = (RequestHistory::default(), RequestTrace::new(actor));
    let request = RequestId { origin, number: part.number };
    Reader::open(path)?.read(|position, entry| {
        let is_ours = request_trace.follow(&entry.fact) == Some(request);
        if positions.contains(&position) {
            history.times.insert(position, entry.at);
        }
        let other = lease_of(&entry.fact).is_some_and(|lease| lease != part);
        if is_ours && !other {
            history.keep(name, position, &entry);
        }
        if let Fact::SiteAuthority(fact) = &entry.fact {
            history.unit(fact, (position, entry.at), is_ours);
        }
        Ok(())
    })?;
    Ok(history)
}

impl RequestHistory {
    fn keep(&mut self, actor: &str, position: u64, entry: &Entry) {
        match &entry.fact {
            Fact::ServiceManager(service_manager::Fact::Asked(fact)) => {
                self.request = Some((fact.broker, fact.request.clone()));
            }
            Fact::ServiceManager(service_manager::Fact::Granted(fact)) => {
                self.tickets = fact.tickets.iter().map(|(_, ticket)| ticket.clone()).collect();
            }
            Fact::ServiceManager(_) | Fact::Broker(_) | Fact::SiteAuthority(_) => {}
        }
        if self.facts.len() == LAST {
            self.facts.pop_front();
        }
        self.facts.push_back(FactView {
            actor: actor.to_owned(),
            position,
            time: view::time(entry.at),
            kind: entry.fact.kind().0.to_owned(),
            says: says(&entry.fact),
        });
    }

    fn unit(&mut self, fact: &site_authority::Fact, place: (u64, Time), is_ours: bool) {
        use site_authority::Fact as F;
        let (unit, epoch, step, error) = match fact {
            F::UnitSetUp(fact) => return drop(self.failures.remove(&fact.unit)),
            F::UnitTornDown(fact) => return drop(self.failures.remove(&fact.unit)),
            F::UnitSetupFailed(fact) => (fact.unit, fact.epoch, Step::Setup, &fact.error),
            F::UnitTeardownFailed(fact) => (fact.unit, fact.epoch, Step::Teardown, &fact.error),
            F::LeaseClosed(_) if is_ours => {
                self.when_closed = self.failures.clone();
                return;
            }
            F::Stocked(_)
            | F::InventoryChanged(_)
            | F::DelegationIssued(_)
            | F::DelegationAcknowledged(_)
            | F::DelegationEnded(_)
            | F::Redeemed(_)
            | F::LeaseExtended(_)
            | F::TicketRefused(_)
            | F::UnitsReturned(_)
            | F::TermReturned(_)
            | F::LeaseShrunk(_)
            | F::RightsReturned(_)
            | F::CameDue(_)
            | F::UnitsAssigned(_)
            | F::UnitReset(_)
            | F::LeaseActivated(_)
            | F::LeaseClosed(_)
            | F::TicketSurrendered(_)
            | F::LeaseForgotten(_)
            | F::MapperAnswered(_)
            | F::Woken(_) => return,
        };
        let times = self.failures.get(&unit).map_or(0, |failure| failure.times) + 1;
        let (position, at) = place;
        let failure = Failure { step, epoch, error: error.clone(), position, at, times };
        self.failures.insert(unit, failure);
    }
}

/// The lease that a fact of a service manager names, where it is about one part of a request.
fn lease_of(fact: &Fact) -> Option<LeaseId> {
    use service_manager::Fact as G;
    let Fact::ServiceManager(fact) = fact else { return None };
    match fact {
        G::TicketTaken(fact) => Some(fact.lease),
        G::RedeemBegun(fact) => Some(fact.lease),
        G::TicketsSplit(fact) => Some(fact.lease),
        G::Leased(fact) => Some(fact.lease),
        G::RedeemRefused(fact) => Some(fact.lease),
        G::Joined(fact) => Some(fact.lease),
        G::Left(fact) => Some(fact.lease),
        G::ExtensionAsked(fact) => Some(fact.lease),
        G::ExtensionGranted(fact) => Some(fact.lease),
        G::ExtensionDenied(fact) => Some(fact.lease),
        G::Extended(fact) => Some(fact.lease),
        G::ReturnBegun(fact) => Some(fact.lease),
        G::PartReturned(fact) => Some(fact.lease),
        G::ReturnRefused(fact) => Some(fact.lease),
        G::ShrinkBegun(fact) => Some(fact.lease),
        G::Shrunk(fact) => Some(fact.lease),
        G::LeaveBegun(fact) => Some(fact.lease),
        G::CloseBegun(fact) => Some(fact.lease),
        G::SiteClosed(fact) => Some(fact.lease),
        G::Credited(fact) => Some(fact.lease),
        G::TermOver(fact) => Some(fact.lease),
        G::LeaseForgotten(fact) => Some(fact.lease),
        G::Asked(_)
        | G::AskRefused(_)
        | G::Granted(_)
        | G::UnwantedGranted(_)
        | G::Queued(_)
        | G::Offered(_)
        | G::Accepted(_)
        | G::GaveUp(_)
        | G::ReceiptTaken(_)
        | G::GroupWhole(_)
        | G::GroupBroken(_)
        | G::SignalObserved(_)
        | G::MapperAnswered(_)
        | G::Woken(_) => None,
    }
}

/// What a fact says beyond its kind.
fn says(fact: &Fact) -> Option<String> {
    use service_manager::Fact as G;
    use site_authority::Fact as S;
    let units =
        |units: &[UnitId]| units.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if let Fact::ServiceManager(G::AskRefused(fact)) = fact {
        return Some(fact.refusal.to_string());
    }
    if let Fact::ServiceManager(G::GroupBroken(fact)) = fact {
        return Some(match fact.why {
            Why::Lost(lease) => format!("lease {lease} was lost, so the others are given back"),
            Why::Late(lease) => {
                format!("lease {lease} got no units in time, so the others are given back")
            }
        });
    }
    if let Fact::ServiceManager(G::Queued(fact)) = fact {
        return Some(format!("place {}: {}", fact.waiting.place, fact.waiting.reason));
    }
    if let Fact::ServiceManager(G::Accepted(fact)) = fact {
        return Some(format!("offer {}", fact.offer));
    }
    if let Fact::ServiceManager(G::RedeemRefused(fact)) = fact {
        return Some(fact.refusal.to_string());
    }
    if let Fact::ServiceManager(G::SiteClosed(fact)) = fact {
        return fact.refusal.as_ref().map(ToString::to_string);
    }
    if let Fact::ServiceManager(G::ExtensionDenied(fact)) = fact {
        return fact.refusal.as_ref().map(ToString::to_string);
    }
    if let Fact::ServiceManager(G::ReturnRefused(fact)) = fact {
        return Some(fact.refusal.to_string());
    }
    if let Fact::ServiceManager(G::ReturnBegun(fact)) = fact {
        return Some(match &fact.part {
            Part::Units(gone) => units(gone),
            Part::Until(until) => format!("what follows {until}"),
            Part::Rights { units, from } => format!("{units} units from {from}"),
        });
    }
    if let Fact::ServiceManager(G::Joined(fact)) = fact {
        let failed = fact.error.as_ref().map(|error| format!(", which failed: {error}"));
        return Some(format!("{}{}", fact.unit, failed.unwrap_or_default()));
    }
    if let Fact::Broker(broker::Fact::RequestRefused(fact)) = fact {
        return Some(fact.refusal.to_string());
    }
    if let Fact::Broker(broker::Fact::RequestQueued(fact)) = fact {
        return Some(format!("place {}: {}", fact.waiting.place, fact.waiting.reason));
    }
    if let Fact::Broker(broker::Fact::HoldEnded(fact)) = fact {
        return Some(fact.refusal.to_string());
    }
    if let Fact::SiteAuthority(S::UnitsAssigned(fact)) = fact {
        return Some(units(&fact.units));
    }
    if let Fact::SiteAuthority(S::UnitsReturned(fact)) = fact {
        return Some(units(&fact.units));
    }
    if let Fact::SiteAuthority(S::LeaseShrunk(fact)) = fact {
        return Some(units(&fact.units));
    }
    if let Fact::SiteAuthority(S::UnitSetupFailed(fact)) = fact {
        return Some(format!("{}: {}", fact.unit, fact.error));
    }
    if let Fact::SiteAuthority(S::UnitTeardownFailed(fact)) = fact {
        return Some(format!("{}: {}", fact.unit, fact.error));
    }
    if let Fact::SiteAuthority(S::UnitSetUp(fact)) = fact {
        return Some(fact.unit.to_string());
    }
    None
}
