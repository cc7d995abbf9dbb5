//! Recalls in scripts: the commands for them, and how they are shown.

use tenure_core::broker::Command as BrokerCommand;
use tenure_core::driver::UnitId;
use tenure_core::model::time::Time;
use tenure_core::runtime::{AnyActor, Command, Input};
use tenure_core::service_manager::{Command as GuestCommand, facts as service_manager};
use tenure_core::site_authority::{Command as SiteCommand, facts as site_authority};
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::message::Message;
use tenure_core::wire::recall::{Accepts, Level, Notice};

use super::names::{self, Names};
use super::peers;
use super::script::{Args, Bad};
use super::services;
use super::sharing;
use super::values::{receipts, refusal};
use super::world::World;

/// An issuer recalls units of a ticket, or withdraws that.
pub fn recall(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = world.index(&args.next("the issuer")?)?;
    let recalled = world.names.find(&args.next("the ticket")?)?;
    let (ticket, generation) = (recalled.hash(), recalled.bottom().delegation);
    let units = args.next("how many units stay")?;
    let units = match units.as_str() {
        "withdraw" => None,
        units => Some(units.parse().map_err(|_| format!("`{units}` is no number of units"))?),
    };
    let from = args.time_option("from")?;
    let command: Command = match world.participants[who].actor() {
        AnyActor::Broker(_) => BrokerCommand::Recall { ticket, units, from }.into(),
        AnyActor::ServiceManager(_) => GuestCommand::Recall { ticket, units, from }.into(),
        AnyActor::SiteAuthority(_) => {
            let delegation = generation.ok_or("a site recalls delegations")?.delegation;
            SiteCommand::Recall { delegation, units, from }.into()
        }
    };
    world.hand(who, Input::Command(command));
    Ok(())
}

/// The units that go first by a recall.
pub fn units_named(text: &str) -> Result<Vec<UnitId>, Bad> {
    let unit = |unit: &str| unit.trim_start_matches('u').parse().map(UnitId);
    let units: Result<_, _> = text.split(',').map(unit).collect();
    units.map_err(|_| "write the numbers of units: u1,u3".to_owned())
}

/// What an asker accepts: `notice=` and `min-tenure=`.
pub fn accepts(args: &mut Args) -> Result<Accepts, Bad> {
    let (notice, min_tenure) = (args.span_option("notice")?, args.span_option("min-tenure")?);
    Ok(Accepts { notice, min_tenure })
}

/// What a service manager records of recalls.
pub fn of_service_manager(names: &Names, fact: &service_manager::Fact) -> Option<String> {
    use service_manager::Fact;
    Some(match fact {
        Fact::RecallTold(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), told(names, &fact.told))
        }
        Fact::VictimsNamed(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), names::units(&fact.victims))
        }
        Fact::UnitFailed(fact) => {
            format!("lease {}, {}: {}", names.lease(fact.lease), fact.unit, fact.why)
        }
        Fact::ReplacementWanted(fact) => {
            let needed = if fact.needed { ", which it needs" } else { "" };
            let units = names::units(&fact.units);
            format!("lease {}, instead of {units}{needed}", names.lease(fact.lease))
        }
        Fact::RecallBegun(fact) => {
            format!("lease {}, {}", names.lease(fact.lease), names::units(&fact.units))
        }
        Fact::UnitsRecalled(fact) => {
            format!("lease {} without {}", names.lease(fact.lease), names::units(&fact.units))
        }
        Fact::RecallLifted(fact) => format!("lease {}", names.lease(fact.lease)),
        Fact::Warned(fact) => {
            let (lease, unit) = (names.lease(fact.lease), fact.unit);
            let error = fact.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
            format!("lease {lease} of {unit}{error}")
        }
        Fact::RecallAsked(fact) => level(names, fact.link, &fact.level),
        Fact::RecallAnswered(fact) => answer(names, fact.link, fact.at, fact.enforced),
        Fact::RecallRefused(fact) => {
            format!("{}, {}", names.hash(fact.link), refusal(names, &fact.refusal))
        }
        _ => return None,
    })
}

/// What a site records of recalls.
pub fn of_site(names: &Names, fact: &site_authority::Fact) -> Option<String> {
    use site_authority::Fact;
    Some(match fact {
        Fact::Recalled(fact) => {
            let cuts = fact.cuts.iter().map(|cut| {
                let (lease, at) = (names.hash(cut.lease), names::clock(cut.at));
                format!(", {} on {lease} from {at} on", cut.units)
            });
            let cuts: String = cuts.collect();
            format!("{}{cuts}", level(names, fact.ticket.hash(), &fact.level))
        }
        Fact::RightsRecalled(fact) => {
            format!("{}, {}", names.hash(fact.link), receipts(names, &fact.receipts))
        }
        Fact::UnitsRecalled(fact) => {
            let (lease, units) = (names.hash(fact.lease), names::units(&fact.units));
            format!("lease on {lease} without {units}, {}", receipts(names, &fact.receipts))
        }
        Fact::RecallNoted(fact) => noted(names, fact.lease, &fact.victims),
        _ => return None,
    })
}

/// What a message says of recalls.
pub fn message(names: &Names, message: &Message) -> String {
    match message {
        Message::Recall { ticket, level: to } => level(names, ticket.hash(), to),
        Message::Recalled { link, at, enforced, receipts: back, .. } => {
            let answer = answer(names, *link, *at, *enforced);
            if back.is_empty() { answer } else { format!("{answer}, {}", receipts(names, back)) }
        }
        Message::RecallNotice { ticket, told: notice } => {
            let what = if notice.unclaimed { "ticket" } else { "lease on" };
            format!("{what} {}, {}", names.hash(*ticket), told(names, notice))
        }
        Message::RecallNoted { ticket, victims, .. } => noted(names, *ticket, victims),
        Message::UnitFailed { ticket, unit, why } => {
            format!("{unit} of the lease on {}: {why}", names.hash(*ticket))
        }
        Message::Need(need) => services::need(names, need),
        Message::Noted { service, .. } | Message::HostsChanged { service, .. } => {
            service.to_string()
        }
        Message::Hosts(hosts) => services::hosts(hosts),
        Message::HostsNoted { service, contests, .. } => {
            services::contests(names, service, contests)
        }
        Message::Restate { needs, hosts } => services::restate(needs, hosts),
        Message::HandOver(handover) => sharing::handover(names, handover),
        Message::Advert(advert) => sharing::advert(advert),
        Message::AskPortion(asked) => {
            let by = sharing::handover(names, &asked.handover);
            format!("{}; {by}", sharing::portion(&asked.portion))
        }
        Message::PortionBack(back) => {
            let outcome = sharing::portion_outcome(names, &back.outcome);
            format!("{}, round {}: {outcome}", names.request(back.request), back.round)
        }
        Message::PortionDecided { request, round, taken } => {
            let decided = if *taken { "taken" } else { "let go" };
            format!("{}, round {round}: {decided}", names.request(*request))
        }
        Message::HandedBack(back) => {
            let outcome = sharing::outcome(names, &back.outcome);
            format!("{}: {outcome}", names.request(back.request))
        }
        Message::Heartbeat { leases } => hashes(names, leases),
        Message::HeartbeatHeard { sent, leases } => {
            format!("of {}: {}", names::clock(*sent), hashes(names, leases))
        }
        Message::Pong { asked } => format!("of {}", names::clock(*asked)),
        Message::Keys { number } | Message::KeysNoted { number } => number.to_string(),
        Message::Join(join) => peers::invitation(names, &join.invitation.invitation),
        Message::Joined { number, fault } => peers::answer(*number, fault.as_ref()),
        _ => String::new(),
    }
}

fn noted(names: &Names, lease: LinkHash, victims: &[UnitId]) -> String {
    let lease = names.hash(lease);
    match victims {
        [] => format!("lease on {lease}"),
        victims => format!("lease on {lease}, {} first", names::units(victims)),
    }
}

/// `t1 to 2 from 10:00 on`
pub fn level(names: &Names, link: LinkHash, level: &Level) -> String {
    let (link, from) = (names.hash(link), names::clock(level.from));
    format!("{link} #{} to {} from {from} on", level.number, count(level.units))
}

/// `t1 by 10:05`
pub fn answer(names: &Names, link: LinkHash, at: Time, enforced: bool) -> String {
    let (link, at) = (names.hash(link), names::clock(at));
    if enforced { format!("{link}, done") } else { format!("{link} by {at}") }
}

/// `2 stay from 10:05 on`
pub fn told(names: &Names, told: &Notice) -> String {
    let Notice { link, units, at, victims, .. } = told;
    let first = match &victims[..] {
        [] => String::new(),
        victims => format!(", {} first", names::units(victims)),
    };
    let units = count(*units);
    format!("{units} stay from {} on by {}{first}", names::clock(*at), names.hash(*link))
}

/// How many units stay.
fn count(units: u32) -> String {
    if units == Level::ALL { "all".to_owned() } else { units.to_string() }
}

fn hashes(names: &Names, tickets: &[LinkHash]) -> String {
    let all: Vec<String> = tickets.iter().map(|ticket| names.hash(*ticket)).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
