//! Where the configuration of a running deployment and what it has differ.

use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::model::time::Time;
use tenure_core::runtime::AnyActor;
use tenure_core::site_authority::DelegationSurvey;
use tenure_core::site_authority::SiteAuthority;

use super::server::AppState;
use super::view::{self, Names, time};
use crate::config::{Site, units_of};

/// The differences, a sentence each: the file was changed since the start, a site has another number of
/// units, or a delegation is for more or fewer units than are offered. What an operator has delegated by hand
/// is beside the configuration.
pub(super) async fn differences(app: &AppState) -> Vec<String> {
    let mut differences = app.config().changes_since_start();
    for (name, site) in &app.config().sites {
        let Ok(handle) = app.actor(Role::SiteAuthority, name) else { continue };
        let (name, site) = (name.clone(), site.clone());
        let (names, now) = (app.names(), app.now());
        let of_site = handle.query(move |actor| match actor {
            AnyActor::SiteAuthority(actor) => of_site(actor, (&name, &site), &names, now),
            AnyActor::Broker(_) | AnyActor::ServiceManager(_) => Vec::new(),
        });
        // An actor that is down is reported separately.
        differences.extend(of_site.await.unwrap_or_default());
    }
    differences
}

fn of_site(
    actor: &SiteAuthority,
    (name, site): (&Name, &Site),
    names: &Names,
    now: Time,
) -> Vec<String> {
    let mut differences = Vec::new();
    for (resource, stock) in &site.stocks {
        let (units, configured) = (units_of(actor, resource), stock.units);
        if units != configured {
            let of = format!("{units} units of `{resource}`");
            differences.push(format!("{name} has {of}, {configured} are configured"));
        }
    }
    let by_itself = actor.delegation_survey().filter(|delegation| !delegation.by_hand);
    for DelegationSurvey { ticket, .. } in by_itself {
        let link = ticket.bottom();
        let stock = site.stocks.get(&link.resource);
        let broker = names.get(&link.holder);
        let offered = stock.zip(broker).and_then(|(stock, broker)| stock.brokers.get(broker));
        let (units, offered) = (link.units.get(), offered.map_or(0, |units| units.get()));
        // Units of stacks are delegated one by one.
        let one_of_them = link.clauses.stacked.is_some() && units <= offered;
        if units == offered || one_of_them || link.term.end() <= now {
            continue;
        }
        let (broker, until) = (view::name(names, link.holder), time(link.term.end()));
        let why = match offered {
            0 => format!("the delegation is not renewed and ends at {until}"),
            fewer if fewer < units => "a delegation never shrinks".to_owned(),
            _ => "the others are still delegated elsewhere".to_owned(),
        };
        differences.push(format!(
            "{name} has delegated {units} units to {broker}, {offered} are configured: {why}"
        ));
    }
    differences
}
