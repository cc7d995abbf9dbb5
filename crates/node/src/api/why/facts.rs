//! What the journals say about a lease: the request as it was made, its tickets, the last facts, and the
//! steps that failed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use serde::{Deserialize, Serialize};

use tenure_core::actor::common::CommonFact;
use tenure_core::actor::order::Order;
use tenure_core::broker::facts as broker;
use tenure_core::broker::orders::UnitOrder;
use tenure_core::driver::{Epoch, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::Time;
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::group::Why;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::ticket::Ticket;
use tenure_core::wire::handover::Outcome;
use tenure_core::wire::offer::Waiting;
use tenure_core::wire::part::Part;
use tenure_core::wire::portion::PortionOutcome;
use tenure_core::wire::recall::Notice;
use tenure_core::wire::request::Request;

use super::super::ApiError;
use super::super::server::AppState;
use super::super::view;
use crate::host::request_trace::RequestTrace;
use crate::journal::{FailedStep, FailedUnits, JournalError, Reader};
use crate::subject::step;

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
    /// The units that the guest's driver did not take up, and why.
    refused: Vec<(UnitId, String)>,
    /// The last facts about it.
    pub(super) facts: VecDeque<FactView>,
    /// At a site: the units whose last step on it failed.
    failures: BTreeMap<UnitId, Failure>,
    /// When the site closed the lease, and which units were so then.
    closed: Option<u64>,
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
    let name = handle.info().name.clone();
    let reader = name.to_string();
    app.read_journal(&name, move |path| read(path, &reader, actor, (origin, part), &positions))
        .await
}

fn read(
    path: &Path,
    name: &str,
    actor: ActorId,
    (origin, part): (ActorId, LeaseId),
    positions: &BTreeSet<u64>,
) -> Result<RequestHistory, JournalError> {
    let (mut history, mut request_trace) = (RequestHistory::default(), RequestTrace::new(actor));
    let (request, reader) = (RequestId { origin, number: part.number }, Reader::open(path)?);
    for (position, entry) in reader.about(request)? {
        let is_ours = request_trace.follow(&entry.fact) == Some(request);
        let other = lease_of(&entry.fact).is_some_and(|lease| lease != part);
        if is_ours && !other {
            history.keep(name, position, &entry);
        }
        if let (Fact::SiteAuthority(fact), true) = (&entry.fact, is_ours) {
            history.unit(fact, (position, entry.at));
        }
    }
    if let Some(closed) = history.closed {
        // Beside those of the lease, the units that it would have got.
        let others = failed(reader.failed_steps(FailedUnits::Before(closed))?);
        others.into_iter().for_each(|(unit, failure)| {
            history.when_closed.entry(unit).or_insert(failure);
        });
    }
    for &position in positions {
        let entries = reader.facts(position, 1)?;
        history.times.extend(entries.first().map(|entry| (position, entry.at)));
    }
    Ok(history)
}

/// Of these units of a site, those whose last step failed.
pub(super) async fn failures(
    app: &AppState,
    site: ActorId,
    units: Vec<UnitId>,
) -> Result<BTreeMap<UnitId, Failure>, ApiError> {
    let Some(handle) = app.handle_of(site) else { return Ok(BTreeMap::new()) };
    app.read_journal(&handle.info().name, move |path| {
        Ok(failed(Reader::open(path)?.failed_steps(FailedUnits::Of(&units))?))
    })
    .await
}

fn failed(steps: BTreeMap<UnitId, FailedStep>) -> BTreeMap<UnitId, Failure> {
    let view = |(unit, FailedStep { position, entry, times }): (UnitId, FailedStep)| {
        let Fact::SiteAuthority(fact) = &entry.fact else { return None };
        let (step, epoch, error) = step(fact)?.1?;
        let (error, at) = (error.to_owned(), entry.at);
        Some((unit, Failure { step, epoch, error, position, at, times }))
    };
    steps.into_iter().filter_map(view).collect()
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
            Fact::ServiceManager(service_manager::Fact::JoinRefused(fact)) => {
                self.refused.push((fact.unit, fact.error.clone()));
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

    /// A reason, with the units that the guest's driver did not take up.
    pub(super) fn with_refused(&self, mut reason: String) -> String {
        for (unit, error) in &self.refused {
            reason += &format!("; the guest's driver did not take up {unit}: {error}");
        }
        reason
    }

    fn unit(&mut self, fact: &site_authority::Fact, (position, at): (u64, Time)) {
        if let site_authority::Fact::LeaseClosed(_) = fact {
            self.when_closed = self.failures.clone();
            self.closed = Some(position);
        }
        match step(fact) {
            Some((unit, Some((step, epoch, error)))) => {
                let times = self.failures.get(&unit).map_or(0, |failure| failure.times) + 1;
                let error = error.to_owned();
                let failure = Failure { step, epoch, error, position, at, times };
                self.failures.insert(unit, failure);
            }
            Some((unit, None)) => drop(self.failures.remove(&unit)),
            None => {}
        }
    }
}

/// The lease that a fact of a service manager names, where it is about one part of a request.
fn lease_of(fact: &Fact) -> Option<LeaseId> {
    use service_manager::{
        Fact as G, LeaseForgotten, RecallTold, ReplacementWanted, TicketTaken, UnitFailed,
        VictimsNamed,
    };
    let Fact::ServiceManager(fact) = fact else { return None };
    if let G::LeaseForgotten(LeaseForgotten { lease })
    | G::TicketTaken(TicketTaken { lease, .. })
    | G::RecallTold(RecallTold { lease, .. })
    | G::UnitFailed(UnitFailed { lease, .. })
    | G::ReplacementWanted(ReplacementWanted { lease, .. })
    | G::VictimsNamed(VictimsNamed { lease, .. }) = fact
    {
        return Some(*lease);
    }
    fact.lease_event().map(|(lease, _)| lease)
}

/// What a fact says beyond its kind.
fn says(fact: &Fact) -> Option<String> {
    match fact {
        Fact::ServiceManager(fact) => guest_says(fact),
        Fact::Broker(fact) => broker_says(fact),
        Fact::SiteAuthority(fact) => site_says(fact),
    }
}

#[allow(clippy::too_many_lines, reason = "a line or two for each kind of fact")]
fn guest_says(fact: &service_manager::Fact) -> Option<String> {
    use service_manager::Fact as F;
    match fact {
        F::AskRefused(fact) => Some(fact.refusal.to_string()),
        F::RedeemRefused(fact) => Some(fact.refusal.to_string()),
        F::ReturnRefused(fact) => Some(fact.refusal.to_string()),
        F::ModifyRefused(fact) => Some(fact.refusal.to_string()),
        F::Notified(fact) => Some(on_unit(fact.unit, fact.error.as_deref())),
        F::Warned(fact) => Some(on_unit(fact.unit, fact.error.as_deref())),
        F::SiteClosed(fact) => fact.refusal.as_ref().map(ToString::to_string),
        F::ExtensionDenied(fact) => fact.refusal.as_ref().map(ToString::to_string),
        F::GroupBroken(fact) => Some(lost(fact.why)),
        F::GroupAsked(fact) => Some(attempt(fact)),
        F::Queued(fact) => Some(place(&fact.waiting)),
        F::Accepted(fact) => Some(format!("offer {}", fact.offer)),
        F::ReclaimEnded(fact) => Some(outcome(fact.redeemed)),
        F::Revised(fact) => Some(revision(&fact.request)),
        F::Common(fact) => common_says(fact),
        F::ReturnBegun(fact) => Some(part(&fact.part)),
        F::Joined(fact) => Some(on_unit(fact.unit, fact.error.as_deref())),
        F::RecallTold(fact) => Some(staying(&fact.told)),
        F::UnitFailed(fact) => Some(format!("{}: {}", fact.unit, fact.why)),
        F::ReplacementWanted(fact) => Some(format!("instead of {}", list(&fact.units))),
        F::VictimsNamed(fact) => Some(list(&fact.victims)),
        F::RecallBegun(fact) => Some(list(&fact.units)),
        F::UnitsRecalled(fact) => Some(list(&fact.units)),
        F::RecallRefused(fact) => Some(fact.refusal.to_string()),
        F::JoinRefused(fact) => Some(format!("{}: {}", fact.unit, fact.error)),
        F::SiteUnheard(fact) => Some(format!("since {}", fact.since)),
        F::LeaveHastened(fact) => Some(format!("by {}", fact.by)),
        F::LeaveRefused(fact) => Some(format!("{}: {}", fact.unit, fact.error)),
        F::UnitReset(fact) => Some(fact.unit.to_string()),
        F::RestBegun(fact) => Some(format!("{} units from {}", fact.units, fact.from)),
        F::RestRefused(fact) => Some(fact.refusal.to_string()),
        F::UsageReported(fact) => Some(format!("{} for {}", fact.unit, fact.used)),
        F::Unblocked(fact) => Some(format!("to {}", fact.gate.word())),
        F::GateReached(fact) => Some(format!("to {}", fact.gate.word())),
        F::GateAnswered(fact) => Some(fact.reason.clone()),
        F::PackageReported(fact) => fact.error.clone(),
        F::PackageRemoved(fact) => fact.error.clone(),
        F::PlanEnded(fact) => Some(fact.outcome.word().to_owned()),
        F::PlanRequested(_)
        | F::PlanLeasing(_)
        | F::PlanLeased(_)
        | F::PlanProposed(_)
        | F::PlanAccepted(_)
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
        | F::RecallLifted(_)
        | F::RecallAsked(_)
        | F::RecallAnswered(_)
        | F::SignalObserved(_)
        | F::MapperAnswered(_)
        | F::Asked(_)
        | F::Granted(_)
        | F::Offered(_)
        | F::GaveUp(_)
        | F::TicketTaken(_)
        | F::RedeemBegun(_)
        | F::TicketsSplit(_)
        | F::RestWanted(_)
        | F::RestReturned(_)
        | F::RestCredited(_)
        | F::ReceiptTaken(_)
        | F::GroupHeld(_)
        | F::GroupGranted(_)
        | F::GroupWhole(_)
        | F::Leased(_)
        | F::ExtensionAsked(_)
        | F::ExtensionGranted(_)
        | F::Extended(_)
        | F::PartReturned(_)
        | F::ShrinkBegun(_)
        | F::Shrunk(_)
        | F::UnwantedGranted(_)
        | F::LeaveBegun(_)
        | F::Left(_)
        | F::LeaveForced(_)
        | F::CloseBegun(_)
        | F::Credited(_)
        | F::TermOver(_)
        | F::ModifyBegun(_)
        | F::Modified(_)
        | F::TicketLapsed(_)
        | F::ReclaimBegun(_)
        | F::LeaseForgotten(_)
        | F::Woken(_) => None,
    }
}

fn part(part: &Part) -> String {
    match part {
        Part::Units(gone) => list(gone),
        Part::Until(until) => format!("what follows {until}"),
        Part::Quantity(quantity) => format!("{quantity} of its share"),
        Part::Rights { units, from } => format!("{units} units from {from}"),
    }
}

fn staying(told: &Notice) -> String {
    format!("{} units stay from {} on", told.units, told.at)
}

fn attempt(fact: &service_manager::GroupAsked) -> String {
    let (tries, most, start) = (fact.request.history.tries, fact.tries, fact.start);
    let brokers = fact.parts().len();
    format!("attempt {tries} of {most}: {brokers} brokers are asked to hold from {start} on")
}

/// Why a group is given back.
pub(in crate::api) fn lost(why: Why) -> String {
    match why {
        Why::NotHeld(number) => {
            format!("request {number} was not held, or not in time, so the others are given up")
        }
        Why::NotGranted(number) => {
            format!("request {number} was not granted, or not in time, so the others go back")
        }
        Why::NotApart => "what is held comes from one site, not from different ones".to_owned(),
        Why::GivenUp => "its user gave it up".to_owned(),
        Why::Lost(lease) => format!("lease {lease} was lost, so the others are given back"),
        Why::Late(lease) => {
            format!("lease {lease} got no units in time, so the others are given back")
        }
    }
}

/// What a guest's driver did on a unit, and how that failed.
fn on_unit(unit: UnitId, error: Option<&str>) -> String {
    let failed = error.map(|error| format!(", which failed: {error}"));
    format!("{unit}{}", failed.unwrap_or_default())
}

/// What another broker has answered.
fn brought(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Granted(_) => "granted".to_owned(),
        Outcome::Refused(refusal) | Outcome::Countered(refusal, _) => refusal.to_string(),
        Outcome::Seen => "it has the request already".to_owned(),
        Outcome::Offered(offers, until) => {
            let held = if until.is_some() { ", which it holds" } else { "" };
            format!("{} offers{held}", offers.len())
        }
    }
}

/// What another broker has answered for a portion.
fn held_there(outcome: &PortionOutcome) -> String {
    match outcome {
        PortionOutcome::Held { units, refusal, .. } => {
            let sum: u32 = units.values().fold(0, |sum, units| sum.saturating_add(units.get()));
            let why = refusal.as_ref().map(|refusal| format!(", no more: {refusal}"));
            format!("it holds {sum}{}", why.unwrap_or_default())
        }
        PortionOutcome::Granted(_) => "granted".to_owned(),
        PortionOutcome::Refused(refusal) => refusal.to_string(),
        PortionOutcome::Seen => "it has the request already".to_owned(),
    }
}

fn broker_says(fact: &broker::Fact) -> Option<String> {
    use broker::Fact as F;
    match fact {
        F::RequestRefused(fact) => Some(fact.refusal.to_string()),
        F::RequestQueued(fact) => Some(place(&fact.waiting)),
        F::RequestPassed(fact) => Some(fact.reason.clone()),
        F::PassAnswered(fact) => Some(brought(&fact.outcome)),
        F::PortionKept(fact) => Some(fact.reason.clone()),
        F::PortionPassed(fact) => Some(fact.reason.clone()),
        F::PortionAnswered(fact) => Some(held_there(&fact.outcome)),
        F::PortionReserved(fact) => fact.refusal.as_ref().map(|refusal| refusal.to_string()),
        F::PortionsReleased(fact) => Some(fact.reason.clone()),
        F::HoldEnded(fact) => Some(fact.refusal.to_string()),
        F::ReclaimEnded(fact) => Some(outcome(fact.redeemed)),
        F::Revised(fact) => Some(revision(&fact.request)),
        F::Common(fact) => common_says(fact),
        F::RecallRefused(fact) => Some(fact.refusal.to_string()),
        F::OrderPlaced(fact) => Some(ordered(&fact.order)),
        F::OrderEnded(fact) => Some(format!("{}: {}", fact.outcome.word(), fact.reason)),
        F::OrdersAdvised(fact) => {
            let orders: Vec<String> = fact.orders.iter().map(ordered).collect();
            Some(orders.join("; "))
        }
        F::RecallAsked(_)
        | F::RecallAnswered(_)
        | F::RecallTold(_)
        | F::NeedNoted(_)
        | F::HostsNoted(_)
        | F::BoundsSet(_)
        | F::SharingSet(_)
        | F::LotOpened(_)
        | F::SharingReviewed(_)
        | F::SellingSet(_)
        | F::NeighbourSet(_)
        | F::RelationPlanned(_)
        | F::RequestSealed(_)
        | F::RequestHanded(_)
        | F::PortionHanded(_)
        | F::PortionsTaken(_)
        | F::PortionsGranted(_)
        | F::PassLapsed(_)
        | F::DelegationTaken(_)
        | F::DelegationEnded(_)
        | F::DelegationIssued(_)
        | F::DelegationAcknowledged(_)
        | F::IssuedDelegationEnded(_)
        | F::ReturnBegun(_)
        | F::PartReturned(_)
        | F::ReturnRefused(_)
        | F::ReturnCredited(_)
        | F::Requested(_)
        | F::TicketsCut(_)
        | F::OffersHeld(_)
        | F::OfferAccepted(_)
        | F::OfferPassed(_)
        | F::RequestPlanned(_)
        | F::ReceiptTaken(_)
        | F::QuotaSet(_)
        | F::ReclaimBegun(_)
        | F::RequestForgotten(_)
        | F::MapperAnswered(_)
        | F::Woken(_) => None,
    }
}

fn site_says(fact: &site_authority::Fact) -> Option<String> {
    use site_authority::Fact as F;
    match fact {
        F::UnitsAssigned(fact) => Some(list(&fact.units)),
        F::UnitsReturned(fact) => Some(list(&fact.units)),
        F::LeaseShrunk(fact) => Some(list(&fact.units)),
        F::UnitsRecalled(fact) => Some(list(&fact.units)),
        F::Recalled(fact) => {
            let (units, from) = (fact.level.units, fact.level.from);
            Some(format!("{units} units stay from {from} on"))
        }
        F::RecallNoted(fact) if !fact.victims.is_empty() => Some(list(&fact.victims)),
        F::UnitSetupFailed(fact) => Some(format!("{}: {}", fact.unit, fact.error)),
        F::UnitTeardownFailed(fact) => Some(format!("{}: {}", fact.unit, fact.error)),
        F::UnitFailed(fact) => Some(format!("{}: {}", fact.unit, fact.why)),
        F::UnitNeeded(fact) => Some(format!("{} from {} on", fact.unit, fact.by)),
        F::UnitSetUp(fact) => Some(fact.unit.to_string()),
        F::UnitModified(fact) => Some(fact.unit.to_string()),
        F::UnitModifyFailed(fact) => Some(format!("{}: {}", fact.unit, fact.error)),
        F::ModificationFailed(fact) => Some(fact.refusal.to_string()),
        F::ShareAssigned(fact) => Some(format!("{}, a share of {}", fact.unit, fact.quantity)),
        F::QuantityReturned(fact) => Some(format!("{} of its share", fact.quantity)),
        F::Common(fact) => common_says(fact),
        F::RightsRecalled(_)
        | F::RecallNoted(_)
        | F::Stocked(_)
        | F::InventoryChanged(_)
        | F::DelegationIssued(_)
        | F::DelegatedByHand(_)
        | F::DelegationAcknowledged(_)
        | F::DelegationEnded(_)
        | F::Redeemed(_)
        | F::LeaseExtended(_)
        | F::TermReturned(_)
        | F::RightsReturned(_)
        | F::TicketReclaimed(_)
        | F::TicketRefused(_)
        | F::CameDue(_)
        | F::UnitTornDown(_)
        | F::UnitReset(_)
        | F::UnitAdded(_)
        | F::UnitDescribed(_)
        | F::StockPlanned(_)
        | F::StacksPlanned(_)
        | F::UnitDrained(_)
        | F::UnitRestored(_)
        | F::UnitResumed(_)
        | F::UnitQuarantined(_)
        | F::LeaseActivated(_)
        | F::LeaseClosed(_)
        | F::TicketSurrendered(_)
        | F::QuantityWithdrawn(_)
        | F::ModificationBegun(_)
        | F::LeaseModified(_)
        | F::LeaseForgotten(_)
        | F::MapperAnswered(_)
        | F::Woken(_) => None,
    }
}

/// What became of a reclaim.
fn outcome(redeemed: bool) -> String {
    if redeemed { "it was redeemed in time" } else { "nobody can redeem it any more" }.to_owned()
}

fn revision(request: &Request) -> String {
    format!("revision {}", request.history.revision)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all other facts are not about a lease")]
fn common_says(fact: &CommonFact) -> Option<String> {
    match fact {
        CommonFact::Commanded(fact) => Some(given_by(&fact.order)),
        _ => None,
    }
}

fn given_by(order: &Order) -> String {
    format!("key {}, given by {}", order.key, order.who)
}

fn place(waiting: &Waiting) -> String {
    format!("place {}: {}", waiting.place, waiting.reason)
}

fn list(units: &[UnitId]) -> String {
    units.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn ordered(order: &UnitOrder) -> String {
    let UnitOrder { claimant, holder, units, claim, worth, .. } = order;
    let (to, of) = (&claimant.service, &holder.service);
    format!("{units} of {of}, worth {worth} there, for {to}, worth {claim} there")
}
