//! What a script can look at.

use tenure_core::model::identity::ActorId;
use tenure_core::model::time::Term;
use tenure_core::runtime::AnyActor;
use tenure_core::service_manager::fidelity::Fidelity;
use tenure_core::site_authority::{Shortage, unit};
use tenure_core::ticket::link::AccountId;

use super::names;
use super::participant::StatefulItem;
use super::script::{Args, Bad};
use super::world::World;

/// Every lease, at its guest and at its site.
pub fn leases(world: &mut World, _: &mut Args) -> Result<(), Bad> {
    states(world, &[(StatefulItem::Lease, "lease"), (StatefulItem::LeaseOn, "lease on")]);
    Ok(())
}

fn states(world: &mut World, things: &[(StatefulItem, &str)]) {
    let mut lines = Vec::new();
    for participant in &world.participants {
        for ((item, name), word) in &participant.states {
            if let Some((_, what)) = things.iter().find(|(of, _)| of == item) {
                lines.push((participant.name.to_string(), format!("{what} {name}: {word}")));
            }
        }
    }
    for (who, what) in lines {
        world.say(&who, &what);
    }
}

/// What the leases of every guest cost.
pub fn costs(world: &mut World, _: &mut Args) -> Result<(), Bad> {
    let mut lines = Vec::new();
    for participant in &world.participants {
        let AnyActor::ServiceManager(guest) = participant.host.actor() else { continue };
        for lease in guest.survey() {
            let cost = lease.cost.map_or_else(|| "nothing".to_owned(), |cost| cost.to_string());
            lines.push((participant.name.to_string(), format!("lease {} costs {cost}", lease.id)));
        }
    }
    for (who, what) in lines {
        world.say(&who, &what);
    }
    Ok(())
}

/// How often overbooked stocks were too small.
pub fn shortage(world: &mut World, _: &mut Args) -> Result<(), Bad> {
    let mut lines = Vec::new();
    for participant in &world.participants {
        let AnyActor::SiteAuthority(site) = participant.host.actor() else { continue };
        for (resource, ..) in site.inventory() {
            let Some(shortage) = site.shortage(resource) else { continue };
            let Shortage { due, short } = shortage;
            let line = format!("{short} of {due} leases found too few of `{resource}`");
            lines.push((participant.name.to_string(), line));
        }
    }
    for (who, what) in lines {
        world.say(&who, &what);
    }
    Ok(())
}

/// Who has the tokens of stacks.
pub fn stacks(world: &mut World, _: &mut Args) -> Result<(), Bad> {
    let mut lines = Vec::new();
    for participant in &world.participants {
        let AnyActor::SiteAuthority(site) = participant.host.actor() else { continue };
        for stack in site.stacks(world.now) {
            let holder = |(holder, term): &(ActorId, Term)| {
                format!("{} {}", world.names.actor(*holder), names::term(*term))
            };
            let holders: Vec<String> = stack.holders.iter().map(holder).collect();
            let holders = if holders.is_empty() { "nobody".to_owned() } else { holders.join(", ") };
            lines.push((participant.name.to_string(), format!("stack {}: {holders}", stack.name)));
        }
    }
    for (who, what) in lines {
        world.say(&who, &what);
    }
    Ok(())
}

/// Microseconds of an hour.
const HOUR: u128 = 3_600_000_000;

/// How much of what they are paid for the guests of all leases could use.
pub fn fidelity(world: &mut World, _: &mut Args) -> Result<(), Bad> {
    let mut lines = Vec::new();
    let now = world.now;
    for participant in &world.participants {
        let AnyActor::ServiceManager(guest) = participant.host.actor() else { continue };
        for lease in guest.survey() {
            let Some(fidelity) = lease.fidelity(now) else { continue };
            let Fidelity { paid, usable, late, early, expired } = fidelity;
            let hours =
                |micros: u128| format!("{}.{:03}", micros / HOUR, micros % HOUR * 1000 / HOUR);
            let late = late.map_or_else(String::new, |late| format!(", late by {late}"));
            let early = early.map_or_else(String::new, |early| format!(", early by {early}"));
            let expired = if expired { ", expired" } else { "" };
            let (paid, usable) = (hours(paid), hours(usable));
            let line = format!("lease {}: {usable} of {paid} unit-hours", lease.id);
            lines.push((participant.name.to_string(), format!("{line}{late}{early}{expired}")));
        }
    }
    for (who, what) in lines {
        world.say(&who, &what);
    }
    Ok(())
}

/// Every unit of every site.
pub fn units(world: &mut World, _: &mut Args) -> Result<(), Bad> {
    let mut lines = Vec::new();
    for participant in &world.participants {
        let AnyActor::SiteAuthority(site) = participant.host.actor() else { continue };
        for (id, state, epoch) in site.units() {
            let tenant = match state {
                unit::State::SettingUp { tenant } | unit::State::Ready { tenant, .. } => {
                    Some(*tenant)
                }
                unit::State::Abandoned { next } | unit::State::TearingDown { next } => *next,
                unit::State::Free | unit::State::Quarantined => None,
            };
            let tenant = tenant.map(|tenant| format!(" for {}", world.names.hash(tenant)));
            let (word, tenant) = (state.word(), tenant.unwrap_or_default());
            lines.push((
                participant.name.to_string(),
                format!("unit {id}: {word}{tenant}, epoch {}", epoch.0),
            ));
        }
    }
    for (who, what) in lines {
        world.say(&who, &what);
    }
    Ok(())
}

/// What every broker has sold and can still sell.
pub fn ledgers(world: &mut World, _: &mut Args) -> Result<(), Bad> {
    states(world, &[(StatefulItem::Request, "request")]);
    let mut lines = Vec::new();
    for participant in &world.participants {
        let AnyActor::Broker(broker) = participant.host.actor() else { continue };
        for (id, account) in broker.ledger().accounts() {
            if !matches!(id, AccountId::Delegation(_)) {
                continue;
            }
            let head = account.head();
            let Some(level) = broker.ledger().free(id) else { continue };
            let mut free = vec![format!("{} free now", level.free_at(world.now))];
            let ahead = level.levels().into_iter().filter(|(at, _)| *at > world.now);
            free.extend(ahead.map(|(at, level)| format!("{level} from {}", names::clock(at))));
            let what = format!("{}: {}", world.names.hash(head.hash()), names::list(free));
            lines.push((participant.name.to_string(), what));
        }
    }
    lines.sort();
    for (who, what) in lines {
        world.say(&who, &what);
    }
    Ok(())
}

/// Everything has ended.
pub const REST: &str = "is at rest: no lease, request or work is left over";

pub fn rest(world: &mut World) {
    world.show_time();
    world.say("everybody", REST);
}
