//! Wishes: what a user asks for becomes a request, and the same wish is never made twice.

use std::collections::BTreeMap;
use std::path::Path;

use tenure_core::actor::Role;
use tenure_core::effect::Command;
use tenure_core::fact::{Fact, service_manager};
use tenure_core::mapper::service_manager::Ask;
use tenure_core::message::{Item, MAX_CONFIGURATION};
use tenure_core::name::Name;
use tenure_core::property::Properties;
use tenure_core::resource::{Constraint, Constraints, Test, Value};
use tenure_core::slice::LeaseId;
use tenure_core::time::Span;

use super::server::Deck;
use super::view::LeaseView;
use super::{ApiError, Code, Wish};
use crate::journal::{JournalError, Reader};

/// The leases that were asked for under an id, of each service manager whose journal was looked through.
pub(super) type Asked = BTreeMap<Name, BTreeMap<String, LeaseId>>;

/// The request property that carries the id.
const ID: &str = "wish.id";

/// The longest that a broker may take to say something about a request that cannot wait.
const PATIENCE: Span = Span::MINUTE;

/// Asks for a lease; under an id that was used before, looks at the one it gave.
pub(super) async fn ask(deck: &Deck, wish: Wish) -> Result<LeaseView, ApiError> {
    super::sense::lasts(wish.duration)?;
    let manager = manager(deck, wish.manager.as_ref())?;
    let Some(id) = wish.id.clone() else {
        return make(deck, &manager, wish).await;
    };
    // Held while the wish is made, so that two at a time make one lease.
    let mut asked = deck.asked().lock().await;
    if !asked.contains_key(&manager) {
        asked.insert(manager.clone(), from_journal(deck, &manager).await?);
    }
    if let Some(lease) = asked.get(&manager).and_then(|asked| asked.get(&id)) {
        return deck.lease(&manager, *lease).await.map_err(|error| {
            let message =
                format!("a wish `{id}` was made before, and its lease is forgotten: {error}");
            ApiError::new(Code::NoSuch, message).help("choose another --id")
        });
    }
    let view = make(deck, &manager, wish).await?;
    let lease = view.lease.rsplit('/').next().and_then(|id| id.split('.').next()?.parse().ok());
    if let (Some(number), Some(asked)) = (lease, asked.get_mut(&manager)) {
        asked.insert(id, LeaseId { number, part: 0 });
    }
    Ok(view)
}

/// The service manager that asks.
fn manager(deck: &Deck, named: Option<&Name>) -> Result<Name, ApiError> {
    if let Some(name) = named {
        return Ok(deck.actor(Role::ServiceManager, name)?.card().name.clone());
    }
    let managers = &deck.config().service_managers;
    let mut for_users = managers.iter().filter(|(_, manager)| manager.demand.is_none());
    match (for_users.next(), for_users.next()) {
        (Some((name, _)), None) => Ok(name.clone()),
        _ => {
            let names: Vec<&str> = managers.keys().map(Name::as_str).collect();
            Err(ApiError::new(Code::Usage, "several service managers could ask")
                .help(format!("choose one: `--as {}`", names.join("`, `--as "))))
        }
    }
}

async fn make(deck: &Deck, manager: &Name, wish: Wish) -> Result<LeaseView, ApiError> {
    let broker = match &wish.broker {
        Some(name) => Some(deck.actor(Role::Broker, name)?.card().id),
        None => {
            let brokers = deck.config().service_managers.get(manager).map(|m| &m.brokers);
            brokers.and_then(|brokers| deck.id(brokers.first()?))
        }
    };
    let bad = |message: String| ApiError::new(Code::Usage, message);
    wish.configuration
        .check_bytes(MAX_CONFIGURATION)
        .map_err(|error| bad(format!("the configuration is too long: {error}")))?;
    let earliest = deck.now().plus(wish.after);
    let latest = earliest.plus(wish.slack);
    let patience = PATIENCE.min(Span::from_micros(wish.duration.as_micros() / 2));
    let mut properties = BTreeMap::new();
    if let Some(id) = &wish.id {
        properties.insert(Name::literal(ID), id.clone());
    }
    let ask = Ask {
        broker,
        slice: wish.slice,
        items: vec![Item {
            resource: wish.resource,
            units: wish.units,
            least: wish.least.unwrap_or(wish.units),
            requirements: requirements(&wish.requirements)?,
            extends: None,
        }],
        earliest,
        latest,
        duration: wish.duration,
        answer_by: latest.plus(patience),
        properties: Properties::try_from(properties).map_err(|error| bad(error.to_string()))?,
        configuration: wish.configuration,
        reason: wish.reason,
    };
    let lease = deck.command(manager, Command::Ask(ask)).await?;
    let lease = lease.ok_or_else(|| ApiError::new(Code::Failed, "the wish made no lease"))?;
    deck.lease(manager, lease).await
}

/// What is required of a type's attributes: `key=value`, `key=a|b`, `key=2..8`.
fn requirements(texts: &[String]) -> Result<Constraints, ApiError> {
    let mut constraints = Constraints::NONE;
    for text in texts {
        let bad = |why: &str| {
            ApiError::new(Code::Usage, format!("`{text}` is no requirement: {why}"))
                .help("write `speed=3`, `speed=2..8` or `zone=a|b`")
        };
        let (key, value) = text.split_once('=').ok_or_else(|| bad("there is no `=`"))?;
        let key = Name::new(key).map_err(|error| bad(&error.to_string()))?;
        constraints.add(Constraint { key, test: test(value) });
    }
    Ok(constraints)
}

fn test(text: &str) -> Test {
    if let Some((least, most)) = text.split_once("..")
        && let (Ok(least), Ok(most)) = (least.parse(), most.parse())
    {
        return Test::Within { least, most };
    }
    if text.contains('|') {
        return Test::OneOf(text.split('|').map(Value::read).collect());
    }
    Test::Equals(Value::read(text))
}

/// The ids in the journal of a service manager.
async fn from_journal(deck: &Deck, manager: &Name) -> Result<BTreeMap<String, LeaseId>, ApiError> {
    let path = deck.journal(manager);
    // A long journal takes its time, and others ask meanwhile.
    let read = tokio::task::spawn_blocking(move || ids(&path)).await;
    let failed = |error: &dyn std::fmt::Display| {
        ApiError::new(Code::Failed, format!("the journal of {manager}: {error}"))
    };
    read.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}

fn ids(journal: &Path) -> Result<BTreeMap<String, LeaseId>, JournalError> {
    let mut asked = BTreeMap::new();
    Reader::open(journal)?.read(|_, entry| {
        if let Fact::ServiceManager(service_manager::Fact::Asked(fact)) = &entry.fact
            && let Some(id) = fact.request.properties.get(ID)
        {
            asked.insert(id.to_owned(), LeaseId { number: fact.request.id.number, part: 0 });
        }
        Ok(())
    })?;
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_equal_within_or_one_of() {
        assert_eq!(test("3"), Test::Equals(Value::Number(3)));
        assert_eq!(test("2..8"), Test::Within { least: 2, most: 8 });
        assert_eq!(test("a|b").to_string(), "in {a, b}");
        assert!(requirements(&["speed".to_owned()]).is_err());
        assert!(requirements(&["SPEED=3".to_owned()]).is_err());
        assert_eq!(requirements(&["speed=3".to_owned()]).unwrap().len(), 1);
    }
}
