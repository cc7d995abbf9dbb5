//! Facts, messages and refusals in plain args.

use tenure_core::actor::common::CommonFact;
use tenure_core::actor::order::Order;
use tenure_core::actor::settings::SettingChange;
use tenure_core::broker::facts as broker;
use tenure_core::driver::{Call, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::Fact;
use tenure_core::service_manager::GateAnswer;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::service_manager::group::Why;
use tenure_core::service_manager::machine::AfterLeave;
use tenure_core::site_authority::facts as site_authority;
use tenure_core::site_authority::facts::Denial;
use tenure_core::site_authority::machine::CloseReason;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{DelegationId, LinkHash};
use tenure_core::wire::message::{Message, Subject};

use super::availability;
use super::keys;
use super::names::{self, Names};
use super::peers;
use super::plans;
use super::recall;
use super::services;
use super::sharing;
use super::values::{
    because, configured, leased_units, modified, offered, offers, part, receipts, refusal, request,
    share, stacks, tickets, tickets_for, until, waiting,
};

/// What a fact says; `None` for one that says nothing but that a mapper was asked or has answered.
pub fn fact(names: &mut Names, who: ActorId, fact: &Fact) -> Option<String> {
    let common = fact.common().map(|common| of_all_roles(names, fact, common));
    let text = match fact {
        _ if common.is_some() => common?,
        Fact::ServiceManager(fact) => of_service_manager(names, fact)?,
        Fact::Broker(fact) => of_broker(names, who, fact)?,
        Fact::SiteAuthority(fact) => of_site(names, who, fact)?,
    };
    let kind = fact.kind().0;
    Some(format!("{}: {text}", kind.split_once('.').map_or(kind, |(_, word)| word)))
}

/// What a fact says that all roles have.
fn of_all_roles(names: &mut Names, fact: &Fact, common: &CommonFact) -> String {
    let keys = fact.about_keys().map(|about| keys::fact(names, about));
    match common {
        CommonFact::Commanded(fact) => order(&fact.order),
        CommonFact::SettingsChanged(fact) => settings(&fact.changes),
        CommonFact::ClockCompared(fact) => compared(names, fact.peer, fact.ahead),
        CommonFact::KeyRotated(_)
        | CommonFact::KeyRevoked(_)
        | CommonFact::PeerKeysLearned(_)
        | CommonFact::KeysNoted(_) => keys.unwrap_or_default(),
        CommonFact::InvitationMade(_)
        | CommonFact::InvitationTaken(_)
        | CommonFact::InvitationAnswered(_)
        | CommonFact::PeerJoined(_)
        | CommonFact::PeerChanged(_)
        | CommonFact::PeerRemoved(_) => peers::fact(names, common),
    }
}

fn of_service_manager(names: &mut Names, fact: &service_manager::Fact) -> Option<String> {
    use service_manager::Fact;
    Some(match fact {
        Fact::SignalObserved(fact) => format!("{} is {}", fact.signal, fact.value),
        Fact::MapperAnswered(_) | Fact::Woken(_) => return None,
        Fact::Asked(fact) => {
            let (wanted, broker) = (request(names, &fact.request), names.actor(fact.broker));
            format!("lease {}, {wanted}, of {broker}", fact.request.id.number)
        }
        Fact::Granted(fact) => tickets_for(names, fact.number, &fact.tickets),
        Fact::UnwantedGranted(fact) => tickets_for(names, fact.number, &fact.tickets),
        Fact::AskRefused(fact) => {
            let (why, offers) = (refusal(names, &fact.refusal), offered(names, &fact.offers));
            format!("lease {}, {why}{offers}", fact.number)
        }
        Fact::Queued(fact) => format!("lease {}, {}", fact.number, waiting(names, &fact.waiting)),
        Fact::Offered(fact) => offered_until(names, fact),
        Fact::Accepted(fact) => format!("lease {}, offer {}", fact.number, fact.offer),
        Fact::GaveUp(fact) => format!("lease {}", fact.number),
        Fact::TicketTaken(fact) => {
            let (lease, ticket) = (names.lease(fact.lease), names.ticket_in_full(&fact.ticket));
            format!("lease {lease} on {ticket}{}", if fact.keep { ", to be kept" } else { "" })
        }
        Fact::RedeemBegun(fact) => format!("lease {}", names.lease(fact.lease)),
        Fact::TicketsSplit(fact) => split(names, fact),
        Fact::ReceiptTaken(fact) => names.receipt(&fact.receipt),
        Fact::Leased(fact) => {
            let (term, units) = (names::term(fact.term), leased_units(&fact.units));
            format!("lease {} over {term}, {units}", names.lease(fact.lease))
        }
        Fact::RedeemRefused(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), refusal(names, &fact.refusal))
        }
        Fact::Joined(fact) => {
            of_unit(names, fact.lease, fact.unit, "cannot be used", fact.error.as_ref())
        }
        Fact::JoinRefused(fact) => {
            of_unit(names, fact.lease, fact.unit, "is refused, untouched", Some(&fact.error))
        }
        Fact::UnitReset(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), fact.unit)
        }
        Fact::UsageReported(fact) => {
            format!("lease {}, {} for {}", names.lease(fact.lease), fact.unit, fact.used)
        }
        Fact::LeaveBegun(fact) => leaving(names, fact),
        Fact::Left(fact) => {
            of_unit(names, fact.lease, fact.unit, "went badly", fact.error.as_ref())
        }
        Fact::CloseBegun(fact) => format!("lease {}", names.lease(fact.lease)),
        Fact::SiteClosed(fact) => {
            let (lease, why) = (names.lease(fact.lease), fact.refusal.as_ref());
            let why = why.map_or(String::new(), |why| format!(", {}", refusal(names, why)));
            format!("lease {lease}{why}, {}", receipts(names, &fact.receipts))
        }
        Fact::Credited(fact) => format!("lease {}", names.lease(fact.lease)),
        Fact::TermOver(fact) => format!("lease {}", names.lease(fact.lease)),
        Fact::TicketLapsed(fact) => format!("lease {}", names.lease(fact.lease)),
        Fact::ReclaimBegun(fact) => names.hash(fact.part),
        Fact::ReclaimEnded(fact) => reclaimed(names, fact.part, fact.redeemed),
        Fact::Revised(fact) => {
            let (number, wanted) = (fact.request.id.number, request(names, &fact.request));
            format!("lease {number}, revision {}: {wanted}", fact.request.history.revision)
        }
        Fact::LeaseForgotten(fact) => format!("lease {}", names.lease(fact.lease)),
        _ => {
            let group = of_group(names, fact);
            let rest = group.or_else(|| of_rest(names, fact));
            return rest.or_else(|| of_change(names, fact));
        }
    })
}

fn of_group(names: &mut Names, fact: &service_manager::Fact) -> Option<String> {
    use service_manager::Fact;
    Some(match fact {
        Fact::GroupAsked(fact) => several(names, fact),
        Fact::GroupHeld(fact) => {
            let offers: Vec<_> = fact.offers.iter().map(ToString::to_string).collect();
            format!("group {}, by all brokers: offers {}", fact.group, offers.join(", "))
        }
        Fact::GroupGranted(fact) => format!("group {}, by all brokers", fact.group),
        Fact::GroupWhole(fact) => format!("group {}", fact.group),
        Fact::GroupBroken(fact) => broken(names, fact),
        _ => return None,
    })
}

/// What is left of a ticket that was split.
fn of_rest(names: &mut Names, fact: &service_manager::Fact) -> Option<String> {
    use service_manager::Fact;
    Some(match fact {
        Fact::RestWanted(fact) => format!("lease {}", names.lease(fact.lease)),
        Fact::RestCredited(fact) => format!("lease {}", names.lease(fact.lease)),
        Fact::RestBegun(fact) => {
            let (lease, from) = (names.lease(fact.lease), names::clock(fact.from));
            format!("lease {lease} #{}, {} from {from} on", fact.number, fact.units)
        }
        Fact::RestReturned(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), receipts(names, &fact.receipts))
        }
        Fact::RestRefused(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), refusal(names, &fact.refusal))
        }
        _ => return None,
    })
}

fn properties(list: &Properties) -> String {
    list.iter().map(|(key, text)| format!(", {key}={text}")).collect()
}

/// What changes of a lease that runs.
fn of_change(names: &mut Names, fact: &service_manager::Fact) -> Option<String> {
    use service_manager::Fact;
    Some(match fact {
        Fact::Unblocked(fact) => {
            let (lease, gate) = (names.lease(fact.lease), fact.gate.word());
            format!("lease {lease}, to {gate}{}", properties(&fact.configuration))
        }
        Fact::GateReached(fact) => {
            let (lease, gate) = (names.lease(fact.lease), fact.gate.word());
            format!(
                "lease {lease}, to {gate}: its mapper is asked until {}",
                names::clock(fact.until)
            )
        }
        Fact::GateAnswered(fact) => {
            let answer = match &fact.answer {
                GateAnswer::GoOn(edits) => format!("it goes on{}", properties(edits)),
                GateAnswer::Wait(on) => {
                    let on = on.iter().map(ToString::to_string);
                    format!("it waits for request {}", names::list(on))
                }
                GateAnswer::GiveUp => "it is given up".to_owned(),
            };
            let (lease, gate) = (names.lease(fact.lease), fact.gate.word());
            format!("lease {lease}, to {gate}: {answer} (mapper: {})", fact.reason)
        }
        Fact::LeaveRefused(fact) => {
            of_unit(names, fact.lease, fact.unit, "stays", Some(&fact.error))
        }
        Fact::LeaveForced(fact) => format!("lease {}", names.lease(fact.lease)),
        Fact::SiteUnheard(fact) => timed(names, fact.lease, "since", fact.since),
        Fact::LeaveHastened(fact) => timed(names, fact.lease, "by", fact.by),
        Fact::ExtensionAsked(fact) => extension(names, fact),
        Fact::ExtensionGranted(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), names.ticket_in_full(&fact.ticket))
        }
        Fact::ExtensionDenied(fact) => denied(names, fact),
        Fact::Extended(fact) => format!("lease {}", names.lease(fact.lease)),
        Fact::ReturnBegun(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), part(&fact.part))
        }
        Fact::PartReturned(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), receipts(names, &fact.receipts))
        }
        Fact::ReturnRefused(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), refusal(names, &fact.refusal))
        }
        Fact::ShrinkBegun(fact) => format!("lease {}", names.lease(fact.lease)),
        Fact::Shrunk(fact) => format!("lease {}", names.lease(fact.lease)),
        Fact::ModifyBegun(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), configured(&fact.configuration))
        }
        Fact::Modified(fact) => {
            let units = fact.units.iter().map(modified);
            format!("lease {}, {}", names.lease(fact.lease), names::list(units))
        }
        Fact::ModifyRefused(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), refusal(names, &fact.refusal))
        }
        Fact::Notified(fact) => {
            of_unit(names, fact.lease, fact.unit, "stays as it was", fact.error.as_ref())
        }
        _ => {
            return recall::of_service_manager(names, fact)
                .or_else(|| plans::of_service_manager(fact))
                .or_else(|| services::of_service_manager(names, fact));
        }
    })
}

fn reclaimed(names: &Names, ticket: LinkHash, redeemed: bool) -> String {
    let how = if redeemed { "redeemed in time" } else { "redeemed by nobody" };
    format!("{}, {how}", names.hash(ticket))
}

fn order(order: &Order) -> String {
    format!("key {}, given by {}", order.key, order.who)
}

fn offered_until(names: &mut Names, fact: &service_manager::Offered) -> String {
    let (made, held) = (offers(names, &fact.offers), until(fact.until));
    format!("lease {}, {made}, {held}{}", fact.number, because(names, fact.refusal.as_ref()))
}

fn split(names: &mut Names, fact: &service_manager::TicketsSplit) -> String {
    let part = |link| format!("{} to {}", names.part(link), names.actor(link.holder));
    let parts: Vec<_> = fact.links.iter().map(part).collect();
    format!("lease {}, {}", names.lease(fact.lease), parts.join(", "))
}

fn several(names: &mut Names, fact: &service_manager::GroupAsked) -> String {
    let (group, wanted) = (fact.group, request(names, &fact.request));
    let start = names::clock(fact.start);
    let brokers: Vec<_> = fact.parts().iter().map(|(broker, _)| names.actor(*broker)).collect();
    let (this, most) = (fact.request.history.tries, fact.tries);
    let brokers = brokers.join(" and ");
    format!("group {group}, {wanted}, of {brokers}, from {start} on (try {this} of {most})")
}

fn broken(names: &mut Names, fact: &service_manager::GroupBroken) -> String {
    let why = match fact.why {
        Why::Lost(lease) => format!("lease {} is lost", names.lease(lease)),
        Why::Late(lease) => format!("lease {} has no units in time", names.lease(lease)),
        Why::NotHeld(number) => format!("lease {number} is not held"),
        Why::NotGranted(number) => format!("lease {number} is not granted"),
        Why::NotApart => "sites are not apart".to_owned(),
        Why::GivenUp => "it is given up".to_owned(),
    };
    format!("group {}, {why}", fact.group)
}

/// A unit of a lease; with what is wrong with it if there is an error.
fn of_unit(
    names: &mut Names,
    lease: LeaseId,
    unit: UnitId,
    wrong: &str,
    error: Option<&String>,
) -> String {
    let how = error.map_or(String::new(), |error| format!(" {wrong}: {error}"));
    format!("lease {}, {unit}{how}", names.lease(lease))
}

fn extension(names: &mut Names, fact: &service_manager::ExtensionAsked) -> String {
    let (wanted, broker) = (request(names, &fact.request), names.actor(fact.broker));
    let number = fact.request.id.number;
    format!("lease {}, request {number}: {wanted}, of {broker}", names.lease(fact.lease))
}

fn denied(names: &mut Names, fact: &service_manager::ExtensionDenied) -> String {
    let why = fact.refusal.as_ref().map(|why| refusal(names, why));
    let why = why.unwrap_or_else(|| "nobody answered in time".to_owned());
    format!("lease {}, {why}", names.lease(fact.lease))
}

fn leaving(names: &mut Names, fact: &service_manager::LeaveBegun) -> String {
    let then = match fact.then {
        AfterLeave::End => "its term is about to end",
        AfterLeave::Close => "it is to be given back",
    };
    format!("lease {}, {then}", names.lease(fact.lease))
}

/// Settings that were changed before a start.
pub fn settings(changes: &[SettingChange]) -> String {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
    let one = |change: &SettingChange| {
        format!("{} was {} and is {}", change.key, value(&change.was), value(&change.is))
    };
    changes.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// How far a peer's clock is ahead at least.
pub fn compared(names: &Names, peer: ActorId, ahead: Span) -> String {
    let peer = names.actor(peer);
    match ahead {
        Span::ZERO => format!("that of {peer} keeps to the margin again"),
        ahead if ahead.is_positive() => format!("that of {peer} is {ahead} ahead at least"),
        behind => format!("that of {peer} is {} behind at least", behind.abs()),
    }
}

/// What is kept of a request that several brokers meet.
fn kept(names: &mut Names, fact: &broker::PortionKept) -> String {
    let (start, until) = (names::clock(fact.start), names::clock(fact.until));
    let kept = match fact.tickets.is_empty() {
        true => "nothing".to_owned(),
        false => tickets(names, &fact.tickets),
    };
    let why = because(names, fact.refusal.as_ref());
    let request = names.request(fact.request);
    format!("{request}, round {} from {start}: {kept} until {until}{why}", fact.round)
}

fn of_broker(names: &mut Names, broker: ActorId, fact: &broker::Fact) -> Option<String> {
    use broker::Fact;
    Some(match fact {
        Fact::DelegationTaken(fact) => names.ticket_in_full(&fact.ticket),
        Fact::DelegationEnded(fact) => names.delegation(fact.delegation, 0),
        Fact::Requested(fact) => {
            format!("{}, {}", names.request(fact.request.id), request(names, &fact.request))
        }
        Fact::TicketsCut(fact) => {
            let tickets = tickets(names, &fact.tickets);
            format!(
                "{} gets {tickets} (mapper: {})",
                names.request(fact.request),
                names.plain(&fact.reason)
            )
        }
        Fact::RequestRefused(fact) => {
            let why = refusal(names, &fact.refusal);
            let reason = names.plain(&fact.reason);
            let reason = if why.contains(&reason) { String::new() } else { format!(" ({reason})") };
            let offers = offered(names, &fact.offers);
            format!("{}, {why}{reason}{offers}", names.request(fact.request))
        }
        Fact::RequestQueued(fact) => {
            format!("{}, {}", names.request(fact.request), waiting(names, &fact.waiting))
        }
        Fact::PortionKept(fact) => kept(names, fact),
        Fact::OffersHeld(fact) => {
            let offers = fact.offers.iter().map(|offer| tickets(names, offer)).collect::<Vec<_>>();
            format!(
                "{}: {}, {}{}",
                names.request(fact.request),
                offers.join(" or "),
                until(Some(fact.until)),
                because(names, fact.refusal.as_ref())
            )
        }
        Fact::OfferAccepted(fact) => {
            format!("{}, offer {}", names.request(fact.request), fact.offer)
        }
        Fact::HoldEnded(fact) => {
            format!("{}, {}", names.request(fact.request), refusal(names, &fact.refusal))
        }
        Fact::RequestPlanned(fact) => {
            let (offers, why) =
                (offers(names, &fact.offers), because(names, fact.refusal.as_ref()));
            format!("{}, {offers}{why}", names.request(fact.request))
        }
        Fact::ReceiptTaken(fact) => names.receipt(&fact.receipt),
        Fact::RequestForgotten(fact) => names.request(fact.request),
        Fact::QuotaSet(fact) => quota(names, fact),
        Fact::ReclaimBegun(fact) => names.hash(fact.ticket),
        Fact::ReclaimEnded(fact) => reclaimed(names, fact.ticket, fact.redeemed),
        Fact::Revised(fact) => {
            let (id, wanted) = (names.request(fact.request.id), request(names, &fact.request));
            format!("{id}, revision {}: {wanted}", fact.request.history.revision)
        }
        Fact::RecallAsked(fact) => recall::level(names, fact.link, &fact.level),
        Fact::RecallAnswered(fact) => recall::answer(names, fact.link, fact.at, fact.enforced),
        Fact::RecallRefused(fact) => {
            format!("{}, {}", names.hash(fact.link), refusal(names, &fact.refusal))
        }
        Fact::RecallTold(fact) => {
            let delegation = names.delegation(fact.delegation, 0);
            format!("{delegation}, {}", recall::told(names, &fact.told))
        }
        Fact::MapperAnswered(_) | Fact::Woken(_) | Fact::SharingReviewed(_) => return None,
        _ => return services::of_broker(names, fact).or_else(|| below(names, broker, fact)),
    })
}

/// Delegations to other brokers, and what is given back of delegations.
fn below(names: &mut Names, broker: ActorId, fact: &broker::Fact) -> Option<String> {
    use broker::Fact;
    Some(match fact {
        Fact::DelegationIssued(fact) => {
            let holder = names.actor(fact.ticket.bottom().holder);
            let ticket = names.ticket_in_full(&fact.ticket);
            format!("{ticket} to {holder}, promised until {}", names::clock(fact.until))
        }
        Fact::DelegationAcknowledged(fact) => {
            let delegation = DelegationId { issuer: broker, number: fact.number };
            names.delegation(delegation, fact.generation)
        }
        Fact::IssuedDelegationEnded(fact) => {
            names.delegation(DelegationId { issuer: broker, number: fact.number }, 0)
        }
        Fact::ReturnBegun(fact) => {
            let ticket = names.ticket_in_full(&fact.ticket);
            format!("{} units of {ticket} from {} on", fact.units, names::clock(fact.from))
        }
        Fact::PartReturned(fact) => {
            let back = receipts(names, &fact.receipts);
            format!("{}, {back}", names.delegation(fact.delegation, 0))
        }
        Fact::ReturnRefused(fact) => {
            let why = refusal(names, &fact.refusal);
            format!("{}, {why}", names.delegation(fact.delegation, 0))
        }
        Fact::ReturnCredited(fact) => names.delegation(fact.delegation, 0),
        _ => return sharing::describe(names, fact),
    })
}

fn quota(names: &mut Names, fact: &broker::QuotaSet) -> String {
    let whose = fact.whose.map_or_else(|| "each guest".to_owned(), |guest| names.actor(guest));
    let Some(quota) = fact.quota else { return format!("{whose}, no limits of its own") };
    let limits = [
        quota.units.map(|n| format!("{n} units")),
        quota.unit_hours.map(|n| format!("{n} unit-hours")),
        quota.period.map(|period| format!("in {period}")),
        quota.open_requests.map(|n| format!("{n} open requests")),
        quota.requests_per_second.map(|n| format!("{n} requests a second")),
    ];
    format!("{whose}, {}", limits.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn delegated(names: &mut Names, ticket: &Ticket) -> String {
    let holder = names.actor(ticket.bottom().holder);
    format!("{} to {holder}", names.ticket_in_full(ticket))
}

fn of_site(names: &mut Names, site: ActorId, fact: &site_authority::Fact) -> Option<String> {
    use site_authority::Fact;
    Some(match fact {
        Fact::Stocked(fact) => format!("{} {}", fact.units, fact.resource),
        Fact::InventoryChanged(fact) => {
            let units: Vec<_> = fact.withdrawn.iter().map(ToString::to_string).collect();
            format!("{} without [{}]", fact.resource, units.join(" "))
        }
        Fact::DelegationIssued(fact) => delegated(names, &fact.ticket),
        Fact::DelegatedByHand(fact) => delegated(names, &fact.ticket),
        Fact::DelegationAcknowledged(fact) => {
            let delegation = DelegationId { issuer: site, number: fact.number };
            names.delegation(delegation, fact.generation)
        }
        Fact::DelegationEnded(fact) => {
            names.delegation(DelegationId { issuer: site, number: fact.number }, 0)
        }
        Fact::Redeemed(fact) => {
            let holder = names.actor(fact.ticket.bottom().holder);
            let ticket = names.ticket_in_full(&fact.ticket);
            format!("{ticket} for {holder}'s lease {}", names.lease(fact.lease))
        }
        Fact::LeaseExtended(fact) => {
            format!("lease on {} by {}", names.hash(fact.lease), names.ticket_in_full(&fact.ticket))
        }
        Fact::TicketRefused(fact) => {
            let why = denial(names, &fact.denial);
            format!("{}, {why}", names.ticket(&fact.ticket))
        }
        Fact::CameDue(fact) => format!("lease on {}", names.hash(fact.lease)),
        Fact::UnitsAssigned(fact) => assigned(names, fact),
        Fact::UnitSetUp(fact) => format!("{} in epoch {}", fact.unit, fact.epoch.0),
        Fact::UnitSetupFailed(fact) => {
            format!("{} in epoch {}: {}", fact.unit, fact.epoch.0, fact.error)
        }
        Fact::UnitTornDown(fact) => format!("{} in epoch {}", fact.unit, fact.epoch.0),
        Fact::UnitTeardownFailed(fact) => {
            format!("{} in epoch {}: {}", fact.unit, fact.epoch.0, fact.error)
        }
        Fact::UnitRestored(fact) => fact.unit.to_string(),
        Fact::UnitReset(fact) => fact.unit.to_string(),
        Fact::UnitAdded(fact) => format!("{}, a {}", fact.name, fact.resource),
        Fact::UnitDescribed(fact) => fact.unit.to_string(),
        Fact::StockPlanned(fact) => format!("{} {}", fact.units, fact.resource),
        Fact::StacksPlanned(fact) => stacks(&fact.stacks),
        Fact::UnitDrained(fact) => fact.unit.to_string(),
        Fact::UnitNeeded(fact) => format!("{} from {} on", fact.unit, names::clock(fact.by)),
        Fact::UnitResumed(fact) => fact.unit.to_string(),
        Fact::UnitQuarantined(fact) => format!("{}: {}", fact.unit, fact.why),
        Fact::UnitFailed(fact) => {
            format!("{} in epoch {}: {}", fact.unit, fact.epoch.0, fact.why)
        }
        Fact::LeaseActivated(fact) => format!("lease on {}", names.hash(fact.lease)),
        Fact::LeaseClosed(fact) => {
            let why = close_reason(names, &fact.why);
            let receipts = receipts(names, &fact.receipts);
            format!("lease on {}, {why}, {receipts}", names.hash(fact.lease))
        }
        Fact::TicketSurrendered(fact) => {
            let receipts = receipts(names, &fact.receipts);
            format!("{}, {receipts}", names.ticket_in_full(&fact.ticket))
        }
        Fact::LeaseForgotten(fact) => names.hash(fact.lease),
        Fact::TicketReclaimed(fact) => {
            format!("{}, {}", names.ticket_in_full(&fact.ticket), receipts(names, &fact.receipts))
        }
        _ => return of_change_at_site(names, fact),
    })
}

/// What changes of a lease that runs, or comes back of a ticket.
fn of_change_at_site(names: &mut Names, fact: &site_authority::Fact) -> Option<String> {
    use site_authority::Fact;
    Some(match fact {
        Fact::UnitsReturned(fact) => {
            let back = receipts(names, &fact.receipts);
            format!("lease on {}, {}, {back}", names.hash(fact.lease), names::units(&fact.units))
        }
        Fact::TermReturned(fact) => {
            let (lease, back) = (names.hash(fact.lease), receipts(names, &fact.receipts));
            format!("lease on {lease}, ends at {}, {back}", names::clock(fact.until))
        }
        Fact::LeaseShrunk(fact) => {
            format!("lease on {} without {}", names.hash(fact.lease), names::units(&fact.units))
        }
        Fact::RightsReturned(fact) => {
            format!("{}, {}", names.ticket_in_full(&fact.ticket), receipts(names, &fact.receipts))
        }
        Fact::ShareAssigned(fact) => {
            let (unit, quantity, lease) = (fact.unit, fact.quantity, names.hash(fact.lease));
            format!("{unit}, a share of {quantity}, to the lease on {lease}")
        }
        Fact::QuantityReturned(fact) => {
            let back = receipts(names, &fact.receipts);
            format!("lease on {}, {}, {back}", names.hash(fact.lease), fact.quantity)
        }
        Fact::QuantityWithdrawn(fact) => format!("{} {}", fact.quantity, fact.resource),
        Fact::ModificationBegun(fact) => {
            let configuration = configured(&fact.configuration);
            format!("lease on {} #{}, {configuration}", names.hash(fact.lease), fact.number)
        }
        Fact::UnitModified(fact) => {
            format!("{} #{} in epoch {}", fact.unit, fact.number, fact.epoch.0)
        }
        Fact::UnitModifyFailed(fact) => {
            format!("{} #{} in epoch {}: {}", fact.unit, fact.number, fact.epoch.0, fact.error)
        }
        Fact::LeaseModified(fact) => {
            format!("lease on {} #{}", names.hash(fact.lease), fact.number)
        }
        Fact::ModificationFailed(fact) => {
            let why = refusal(names, &fact.refusal);
            format!("lease on {} #{}, {why}", names.hash(fact.lease), fact.number)
        }
        _ => return recall::of_site(names, fact),
    })
}

fn assigned(names: &mut Names, fact: &site_authority::UnitsAssigned) -> String {
    let (units, lease) = (names::units(&fact.units), names.hash(fact.lease));
    format!("{units} to the lease on {lease} (mapper: {})", names.plain(&fact.reason))
}

fn denial(names: &mut Names, denial: &Denial) -> String {
    match denial {
        Denial::Conflict(outline) if outline.links.is_empty() => {
            "conflict (one number was given to two delegations)".to_owned()
        }
        Denial::Conflict(outline) => format!(
            "conflict ({} links were cut from a ticket that does not cover them at {})",
            outline.links.len(),
            outline.at
        ),
        Denial::Other(why) => refusal(names, why),
    }
}

fn close_reason(names: &mut Names, why: &CloseReason) -> String {
    match why {
        CloseReason::TermOver => "its term has ended".to_owned(),
        CloseReason::GivenBack => "given back".to_owned(),
        CloseReason::Failed(why) => refusal(names, why),
        CloseReason::Recalled(link) => format!("by the recall of {}", names.hash(*link)),
        CloseReason::Silent(since) => {
            format!("nothing heard from its guest since {}", names::clock(*since))
        }
    }
}

/// What a message says.
pub fn message(names: &mut Names, message: &Message) -> String {
    let kind = message.kind();
    let text = match message {
        Message::Delegate { ticket, .. } => names.ticket_in_full(ticket),
        Message::Delegated { delegation, generation } => names.delegation(*delegation, *generation),
        Message::Request(wanted) => format!("{}, {}", wanted.id.number, request(names, wanted)),
        Message::Granted { request, tickets: granted } => {
            format!("{}, {}", request.number, tickets(names, granted))
        }
        Message::Waiting { request, waiting: stands } => {
            format!("{}, {}", request.number, waiting(names, stands))
        }
        Message::Offered { request, offers: made, until: held, refusal: why } => {
            let (made, why) = (offers(names, made), because(names, why.as_ref()));
            format!("{}, {made}, {}{why}", request.number, until(*held))
        }
        Message::Accept { request, offer } => format!("{}, offer {offer}", request.number),
        Message::Withdraw(request) => request.id.number.to_string(),
        Message::Redeem { ticket, lease, min_units, .. } => {
            let elastic = *min_units < ticket.bottom().units;
            let min_units = if elastic { format!(", {min_units} would do") } else { String::new() };
            format!("{} for lease {}{min_units}", names.ticket(ticket), names.lease(*lease))
        }
        Message::Leased { ticket, term, units } => {
            let (term, units) = (names::term(*term), leased_units(units));
            format!("{} over {term}, {units}", names.hash(*ticket))
        }
        Message::Close { tickets } => {
            names::list(tickets.iter().map(|ticket| names.ticket(ticket)).collect::<Vec<_>>())
        }
        Message::Closed { ticket, refusal: why, receipts: back } => {
            let why = why.as_ref().map(|why| format!(", {}", refusal(names, why)));
            let (ticket, back) = (names.hash(*ticket), receipts(names, back));
            format!("{ticket}{}, {back}", why.unwrap_or_default())
        }
        Message::Credit { receipts: back } => receipts(names, back),
        Message::Credited { receipts } => {
            let named = receipts.iter().map(|&(hash, number)| numbered(names, hash, number));
            names::list(named)
        }
        Message::Refused { subject, refusal: why, offers: made } => {
            let (why, made) = (refusal(names, why), offered(names, made));
            format!("{}, {why}{made}", refused(names, *subject))
        }
        _ => of_part(names, message),
    };
    format!("{kind} {text}")
}

/// What is said of parts of tickets, and of leases that change in place.
fn of_part(names: &mut Names, message: &Message) -> String {
    match message {
        Message::Return { ticket, number, part: back } => {
            format!("{}, {}", numbered(names, ticket.hash(), *number), part(back))
        }
        Message::Returned { ticket, number, receipts: back } => {
            format!("{}, {}", numbered(names, *ticket, *number), receipts(names, back))
        }
        Message::Modify { ticket, number, configuration } => {
            format!("{} #{number}, {}", names.ticket(ticket), configured(configuration))
        }
        Message::Modified { ticket, number, units } => {
            format!(
                "{} #{number}, {}",
                names.hash(*ticket),
                names::list(units.iter().map(modified))
            )
        }
        Message::Reclaim { ticket } => names.ticket(ticket),
        Message::Reclaimed { ticket, redeemed: true, .. } => {
            format!("{}, redeemed in time", names.hash(*ticket))
        }
        Message::Reclaimed { ticket, receipts: back, .. } => {
            format!("{}, {}", names.hash(*ticket), receipts(names, back))
        }
        _ => availability::message(message).unwrap_or_else(|| recall::message(names, message)),
    }
}

fn refused(names: &Names, subject: Subject) -> String {
    match subject {
        Subject::Request(id) => format!("request {}", id.number),
        Subject::Ticket(hash) => names.hash(hash),
        Subject::Delegation(id) => names.delegation(id, 0),
        Subject::Return(hash, number) => {
            format!("return {number} of {}", names.hash(hash))
        }
        Subject::Modify(hash, number) => {
            format!("modify {number} of {}", names.hash(hash))
        }
        Subject::Recall(hash, number) => {
            format!("recall {number} of {}", names.hash(hash))
        }
    }
}

/// A ticket with the number of a return, from the second on.
fn numbered(names: &Names, hash: LinkHash, number: u32) -> String {
    let ticket = names.hash(hash);
    if number == 0 { ticket } else { format!("{ticket} #{number}") }
}

/// A driver's call for a package.
fn package(names: &Names, call: &Call) -> String {
    let Call { unit, epoch, step, number, lease, properties, .. } = call;
    let (word, lease) = (step.word(), names.lease(*lease));
    let package = properties.get("package").unwrap_or_default();
    let peers = properties
        .get("peers")
        .map_or(String::new(), |peers| format!(", beside {}", peers.replace('\n', "; ")));
    format!("{word} #{number} {package} on {unit} in epoch {} for lease {lease}{peers}", epoch.0)
}

/// A driver's call.
pub fn call(names: &Names, call: &Call) -> String {
    let Call { unit, epoch, step, number, quantity, lease, properties, deadline, .. } = call;
    let (word, lease) = (step.word(), names.lease(*lease));
    let share = share(*quantity);
    let how = match step {
        Step::Modify => format!(" #{number}, {}", configured(properties)),
        Step::Warn => {
            deadline.map_or_else(String::new, |at| format!(", gone at {}", names::clock(at)))
        }
        Step::Join | Step::Leave if *number > 0 => {
            let by = deadline.map_or(String::new(), |by| format!(" by {}", names::clock(by)));
            format!(" #{number}{by}")
        }
        Step::Install | Step::Remove => {
            return package(names, call);
        }
        Step::Setup | Step::Teardown | Step::Join | Step::Leave => String::new(),
    };
    format!("{word} {unit}{share} in epoch {} for lease {lease}{how}", epoch.0)
}

fn timed(names: &Names, lease: LeaseId, word: &str, at: Time) -> String {
    format!("lease {}, {word} {}", names.lease(lease), names::clock(at))
}
