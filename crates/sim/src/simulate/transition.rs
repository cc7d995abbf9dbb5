//! Which transitions of the four machines a fact makes, for the counts of a run.

use tenure_core::broker::facts as broker;
use tenure_core::broker::machine::State as AtBroker;
use tenure_core::driver::UnitId;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::Time;
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::facts as service_manager;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::site_authority::{machine, unit};
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::portion::PortionOutcome;

/// A transition: machine, state, event, next state. A birth comes from `[*]`.
pub(super) type Transition = (&'static str, &'static str, &'static str, &'static str);

/// The state of something that is not there.
const NOWHERE: &str = "[*]";

/// Something that one of the machines moves.
#[derive(Clone, Copy)]
enum Subject {
    Guest(LeaseId),
    Group(u64),
    Request(RequestId),
    Lease(LinkHash),
    Unit(UnitId),
}

impl Subject {
    fn machine(self) -> &'static str {
        match self {
            Self::Guest(_) => "service manager",
            Self::Group(_) => "service manager group",
            Self::Request(_) => "broker",
            Self::Lease(_) => "site authority",
            Self::Unit(_) => "unit",
        }
    }

    fn state(self, actor: &AnyActor) -> Option<&'static str> {
        Some(match (self, actor) {
            (Self::Guest(id), AnyActor::ServiceManager(actor)) => actor.standing(id)?.word(),
            (Self::Group(number), AnyActor::ServiceManager(actor)) => actor.group(number)?.word(),
            (Self::Request(id), AnyActor::Broker(actor)) => actor.request(id)?.word(),
            (Self::Lease(hash), AnyActor::SiteAuthority(actor)) => actor.lease(hash)?.word(),
            (Self::Unit(id), AnyActor::SiteAuthority(_)) => unit_state(actor, id)?.word(),
            (
                Self::Guest(_) | Self::Group(_) | Self::Request(_) | Self::Lease(_) | Self::Unit(_),
                AnyActor::ServiceManager(_) | AnyActor::Broker(_) | AnyActor::SiteAuthority(_),
            ) => return None,
        })
    }
}

/// What a fact is about to move, before it is applied.
pub(super) struct Moves(Vec<(Subject, &'static str, &'static str)>);

impl Moves {
    /// What `fact` will move in an actor that has yet to apply it.
    pub(super) fn of(Entry { at, fact }: &Entry, actor: &AnyActor) -> Self {
        let moves = match fact {
            Fact::ServiceManager(fact) => guest(fact),
            Fact::Broker(fact) => broker(*at, fact, actor),
            Fact::SiteAuthority(fact) => site(fact, actor),
        };
        let from = |(subject, event): (Subject, &'static str)| {
            (subject, subject.state(actor).unwrap_or(NOWHERE), event)
        };
        Self(moves.into_iter().map(from).collect())
    }

    /// The transitions, once the fact is applied.
    pub(super) fn made(self, actor: &AnyActor) -> impl Iterator<Item = Transition> {
        self.0.into_iter().filter_map(|(subject, from, event)| {
            let to = subject.state(actor)?;
            let lost = matches!(event, "UnitLost" | "UnitReady") && to != "Priming";
            (!lost).then_some((subject.machine(), from, event, to))
        })
    }
}

fn first(number: u64) -> LeaseId {
    LeaseId { number, part: 0 }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all others move no machine")]
fn guest(fact: &service_manager::Fact) -> Vec<(Subject, &'static str)> {
    use service_manager::Fact as F;
    let (lease, event) = match fact {
        F::Asked(fact) => (first(fact.request.id.number), "Asked"),
        F::Granted(fact) => return granted(fact.number, fact.tickets.len()),
        F::UnwantedGranted(fact) => return granted(fact.number, fact.tickets.len()),
        F::AskRefused(fact) => (first(fact.number), "Refused"),
        F::Offered(fact) => (first(fact.number), offered(fact.until)),
        F::Accepted(fact) => (first(fact.number), "Accepted"),
        F::GaveUp(fact) => (first(fact.number), "GaveUp"),
        F::TicketTaken(fact) => (fact.lease, "Taken"),
        F::RedeemBegun(fact) => (fact.lease, "RedeemBegun"),
        F::TicketsSplit(fact) => (fact.lease, "Split"),
        F::Leased(fact) => (fact.lease, "Leased"),
        F::RedeemRefused(fact) => (fact.lease, "Refused"),
        F::Joined(fact) => (fact.lease, "Joined"),
        F::ExtensionAsked(fact) => (fact.lease, "ExtensionAsked"),
        F::ExtensionGranted(fact) => (fact.lease, "ExtensionGranted"),
        F::ExtensionDenied(fact) => (fact.lease, "ExtensionDenied"),
        F::Extended(fact) => (fact.lease, "Extended"),
        F::ReturnBegun(fact) => (fact.lease, "ReturnBegun"),
        F::PartReturned(fact) => (fact.lease, "PartReturned"),
        F::ReturnRefused(fact) => (fact.lease, "ReturnRefused"),
        F::ShrinkBegun(fact) => (fact.lease, "ShrinkBegun"),
        F::Shrunk(fact) => (fact.lease, "Shrunk"),
        F::LeaveBegun(fact) => (fact.lease, "LeaveBegun"),
        F::Left(fact) => (fact.lease, "Left"),
        F::CloseBegun(fact) => (fact.lease, "CloseBegun"),
        F::ModifyBegun(fact) => (fact.lease, "ModifyBegun"),
        F::Modified(fact) => (fact.lease, "Modified"),
        F::ModifyRefused(fact) => (fact.lease, "ModifyRefused"),
        F::Notified(fact) => (fact.lease, "Notified"),
        F::SiteClosed(fact) => (fact.lease, "SiteClosed"),
        F::Credited(fact) => (fact.lease, "Credited"),
        F::TermOver(fact) => (fact.lease, "TermOver"),
        F::TicketLapsed(fact) => (fact.lease, "TermOver"),
        F::RecallBegun(fact) => (fact.lease, "RecallBegun"),
        F::UnitsRecalled(fact) => (fact.lease, "UnitsRecalled"),
        F::RecallLifted(fact) => (fact.lease, "RecallLifted"),
        F::JoinRefused(fact) => (fact.lease, "JoinRefused"),
        F::LeaveHastened(fact) => (fact.lease, "LeaveHastened"),
        F::LeaveRefused(fact) => (fact.lease, "LeaveRefused"),
        F::LeaveForced(fact) => (fact.lease, "LeaveForced"),
        F::UnitReset(fact) => (fact.lease, "UnitReset"),
        F::GroupAsked(fact) => return vec![(Subject::Group(fact.group), "Asked")],
        F::GroupHeld(fact) => return vec![(Subject::Group(fact.group), "Held")],
        F::GroupGranted(fact) => return vec![(Subject::Group(fact.group), "Granted")],
        F::GroupWhole(fact) => return vec![(Subject::Group(fact.group), "Complete")],
        F::GroupBroken(fact) => return vec![(Subject::Group(fact.group), "Broke")],
        _ => return Vec::new(),
    };
    vec![(Subject::Guest(lease), event)]
}

fn offered(until: Option<Time>) -> &'static str {
    if until.is_none() { "Planned" } else { "Offered" }
}

fn granted(number: u64, tickets: usize) -> Vec<(Subject, &'static str)> {
    let parts = 0..u16::try_from(tickets).unwrap_or(u16::MAX);
    parts.map(|part| (Subject::Guest(LeaseId { number, part }), "Granted")).collect()
}

#[allow(clippy::too_many_lines, reason = "a line or two for each kind of fact")]
fn broker(at: Time, fact: &broker::Fact, actor: &AnyActor) -> Vec<(Subject, &'static str)> {
    use broker::Fact as F;
    let (request, event) = match fact {
        F::Requested(fact) => (fact.request.id, "Requested"),
        F::RequestHanded(fact) => (fact.request, "Requested"),
        F::RequestPassed(fact) => (fact.request, "Passed"),
        F::PassLapsed(fact) => (fact.request, "CameBack"),
        F::PassAnswered(fact) => {
            let AnyActor::Broker(actor) = actor else { return Vec::new() };
            let Some(state) = actor.request(fact.request) else { return Vec::new() };
            (fact.request, state.answered(&fact.outcome).word())
        }
        F::PortionHanded(fact) => (fact.request, "Requested"),
        F::PortionKept(fact) => (fact.request, "Gathered"),
        F::PortionPassed(fact) => (fact.request, "Passed"),
        F::PortionAnswered(fact) => {
            let event = match &fact.outcome {
                PortionOutcome::Held { .. } => "HeldThere",
                PortionOutcome::Granted(_) => "Delivered",
                PortionOutcome::Refused(_) | PortionOutcome::Seen => "CameBack",
            };
            let AnyActor::Broker(actor) = actor else { return Vec::new() };
            let state = actor.request(fact.request);
            // What is refused after it was held is refused by the next fact.
            if event == "CameBack" && matches!(state, Some(AtBroker::Committing { .. })) {
                return Vec::new();
            }
            (fact.request, event)
        }
        F::PortionReserved(fact) => (fact.request, "Reserved"),
        F::PortionsTaken(fact) => (fact.request, "Taken"),
        F::PortionsGranted(fact) => (fact.request, "Completed"),
        F::PortionsReleased(fact) => (fact.request, "Released"),
        F::TicketsCut(fact) => (fact.request, "Granted"),
        F::RequestRefused(fact) => (fact.request, "Refused"),
        F::RequestQueued(fact) => (fact.request, "Waited"),
        F::Revised(fact) => (fact.request.id, "Revised"),
        F::OffersHeld(fact) => (fact.request, "Held"),
        F::OfferAccepted(fact) => (fact.request, "Accepted"),
        F::OfferPassed(fact) => (fact.request, "Chosen"),
        F::HoldEnded(fact) => (fact.request, "Refused"),
        F::RequestPlanned(fact) => (fact.request, "Planned"),
        F::ReceiptTaken(fact) => {
            let AnyActor::Broker(actor) = actor else { return Vec::new() };
            let what = &fact.receipt.what;
            let Some(request) = actor.request_of(what.link) else { return Vec::new() };
            if actor.is_returned(what.link) {
                return Vec::new();
            }
            let mut ledger = actor.ledger().clone();
            ledger.give_back(what.link, what.into(), what.term.start().max(at));
            let over = ledger.left_of(what.link, at).is_empty();
            (request, if over { "Credited" } else { "PartCredited" })
        }
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
        | F::RecallTold(_)
        | F::RequestForgotten(_)
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
        | F::OrderPlaced(_)
        | F::OrderEnded(_)
        | F::OrdersAdvised(_)
        | F::MapperAnswered(_)
        | F::Woken(_) => return Vec::new(),
    };
    vec![(Subject::Request(request), event)]
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all others move no machine")]
fn site(fact: &site_authority::Fact, actor: &AnyActor) -> Vec<(Subject, &'static str)> {
    use site_authority::Fact as F;
    let of_unit = |unit: UnitId, event, at_lease: &'static str| {
        let tenant = unit_state(actor, unit).and_then(unit::State::tenant);
        let lease = tenant.map(|lease| (Subject::Lease(lease), at_lease));
        let unit = [(Subject::Unit(unit), event)];
        unit.into_iter().chain(lease.filter(|_| !at_lease.is_empty())).collect()
    };
    match fact {
        F::Redeemed(fact) => vec![(Subject::Lease(fact.ticket.hash()), "Redeemed")],
        F::TicketSurrendered(fact) => vec![(Subject::Lease(fact.ticket.hash()), "Surrendered")],
        F::LeaseExtended(fact) => vec![(Subject::Lease(fact.lease), "Extended")],
        F::UnitsReturned(fact) => released(fact.lease, &fact.units),
        F::LeaseShrunk(fact) => released(fact.lease, &fact.units),
        F::UnitsRecalled(fact) if fact.units.is_empty() => Vec::new(),
        F::UnitsRecalled(fact) => released(fact.lease, &fact.units),
        F::TermReturned(fact) => vec![(Subject::Lease(fact.lease), "Shortened")],
        F::CameDue(fact) => vec![(Subject::Lease(fact.lease), "CameDue")],
        F::UnitsAssigned(fact) => {
            let units = fact.units.iter().map(|&unit| (Subject::Unit(unit), "Assigned"));
            units.chain([(Subject::Lease(fact.lease), "Assigned")]).collect()
        }
        F::ShareAssigned(fact) => vec![(Subject::Lease(fact.lease), "Assigned")],
        F::QuantityReturned(fact) => vec![(Subject::Lease(fact.lease), "Modified")],
        F::ModificationBegun(fact) => vec![(Subject::Lease(fact.lease), "Modified")],
        F::UnitSetUp(fact) => of_unit(fact.unit, "SetUp", "UnitReady"),
        F::UnitSetupFailed(fact) => of_unit(fact.unit, "SetupFailed", "UnitLost"),
        F::UnitFailed(fact) if is_active(actor, fact.unit) => Vec::new(),
        F::UnitFailed(fact) => of_unit(fact.unit, "Released", "UnitLost"),
        F::UnitTornDown(fact) => of_unit(fact.unit, "TornDown", ""),
        F::UnitTeardownFailed(fact) => of_unit(fact.unit, "TeardownFailed", "UnitLost"),
        F::UnitReset(fact) => of_unit(fact.unit, "Reset", ""),
        F::UnitRestored(fact) => of_unit(fact.unit, "Restored", ""),
        F::UnitQuarantined(fact) => of_unit(fact.unit, "Quarantined", ""),
        F::UnitAdded(_)
        | F::UnitDescribed(_)
        | F::StockPlanned(_)
        | F::StacksPlanned(_)
        | F::UnitDrained(_)
        | F::UnitNeeded(_)
        | F::UnitResumed(_) => Vec::new(),
        F::LeaseActivated(fact) => vec![(Subject::Lease(fact.lease), "Activated")],
        F::LeaseClosed(fact) => {
            let AnyActor::SiteAuthority(actor) = actor else { return Vec::new() };
            let units = actor.lease(fact.lease).map(|lease| lease.units()).unwrap_or_default();
            let units = units.into_iter().map(|unit| (Subject::Unit(unit), "Released"));
            units.chain([(Subject::Lease(fact.lease), "Closed")]).collect()
        }
        _ => Vec::new(),
    }
}

/// Some units leave a lease that goes on.
fn released(lease: LinkHash, units: &[UnitId]) -> Vec<(Subject, &'static str)> {
    let units = units.iter().map(|&unit| (Subject::Unit(unit), "Released"));
    units.chain([(Subject::Lease(lease), "Shrunk")]).collect()
}

/// Whether a unit is on a lease that its guest has.
fn is_active(actor: &AnyActor, unit: UnitId) -> bool {
    let tenant = unit_state(actor, unit).and_then(unit::State::tenant);
    let AnyActor::SiteAuthority(site) = actor else { return false };
    let lease = tenant.and_then(|tenant| site.lease(tenant));
    lease.is_some_and(|lease| matches!(lease, machine::State::Active { .. }))
}

/// Where a unit of a site is.
fn unit_state(actor: &AnyActor, id: UnitId) -> Option<&unit::State> {
    let AnyActor::SiteAuthority(actor) = actor else { return None };
    actor.units().find(|(unit, _, _)| *unit == id).map(|(_, state, _)| state)
}
