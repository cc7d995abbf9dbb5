//! Requests by their idempotency keys.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::Entry;
use tenure_core::service_manager::facts as sm;
use tenure_core::service_manager::group::Handling;
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::{History, Provisos};
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::{Item, Request};
use tenure_node::journal::{JournalError, Reader};

use crate::parts::{Place, fact, guest, owner};

/// That a guest has asked, under a key.
fn asked(number: u64, key: &str) -> Entry {
    let properties = BTreeMap::from([(Name::literal("request.id"), key.to_owned())]);
    let item = Item::new(Name::literal("node"), NonZeroU32::MIN);
    let request = Request {
        id: RequestId { origin: guest().id, number },
        items: vec![item],
        earliest: Time::ZERO,
        latest: Time::ZERO,
        duration: Span::HOUR,
        min_duration: Span::HOUR,
        provisos: Provisos::NONE,
        history: History::first(Time::ZERO),
        receipts: Vec::new(),
        reply: Reply::Grant,
        answer_by: Time::ZERO,
        properties: Properties::try_from(properties).unwrap(),
    };
    let asked = sm::Asked {
        broker: owner("exchange", Role::Broker, 2).id,
        slice: Name::literal("default"),
        request,
        configuration: Properties::default(),
        handling: Handling::default(),
        grows: None,
        reason: String::new(),
    };
    Entry { at: Time::ZERO, fact: sm::Fact::from(asked).into() }
}

fn refused(number: u64) -> Entry {
    let refused = sm::AskRefused { number, refusal: Refusal::Overloaded, offers: Vec::new() };
    Entry { at: Time::ZERO, fact: sm::Fact::from(refused).into() }
}

/// A closed journal of requests under two keys, with facts between them that are about none.
fn journal() -> (Place, Vec<Entry>) {
    let place = Place::new();
    let facts = vec![
        asked(1, "a"),
        fact(1),
        refused(1),
        asked(2, "b"),
        asked(3, "a"),
        fact(5),
        refused(3),
        refused(2),
        fact(8),
    ];
    let mut file = place.open().unwrap();
    file.append(0, &facts).unwrap();
    file.close().unwrap();
    (place, facts)
}

fn under(place: &Place, key: &str) -> Result<Vec<Entry>, JournalError> {
    Reader::open(&place.path()).unwrap().request(key)
}

#[test]
fn a_key_stands_for_its_newest_request_and_what_came_of_it() {
    let (place, facts) = journal();
    assert_eq!(under(&place, "a").unwrap(), [facts[4].clone(), facts[6].clone()]);
    assert_eq!(under(&place, "b").unwrap(), [facts[3].clone(), facts[7].clone()]);
    assert_eq!(under(&place, "c").unwrap(), []);
}

#[test]
fn of_all_facts_only_those_of_the_key_are_read() {
    let (place, _) = journal();
    place.edit("UPDATE fact SET checksum = checksum + 1 WHERE position NOT IN (4, 6)");
    assert_eq!(under(&place, "a").unwrap().len(), 2);
    let error = under(&place, "b").unwrap_err();
    assert!(matches!(error, JournalError::Damaged { position: 3, .. }), "{error}");
}

#[test]
fn a_journal_without_an_index_is_given_one() {
    let (place, facts) = journal();
    place.edit("DROP TABLE request; DROP TABLE about; DROP TABLE lease; DROP TABLE unit; DROP TABLE segment; PRAGMA user_version = 2");
    place.open().unwrap().close().unwrap();
    assert_eq!(under(&place, "a").unwrap(), [facts[4].clone(), facts[6].clone()]);
    assert_eq!(under(&place, "b").unwrap(), [facts[3].clone(), facts[7].clone()]);
}

/// The positions of the facts about a request of the guest.
fn about(place: &Place, number: u64) -> Result<Vec<u64>, JournalError> {
    let request = RequestId { origin: guest().id, number };
    let facts = Reader::open(&place.path()).unwrap().about(request)?;
    Ok(facts.into_iter().map(|(position, _)| position).collect())
}

#[test]
fn the_facts_about_a_request_are_found_without_the_others() {
    let (place, _) = journal();
    place.edit("UPDATE fact SET checksum = checksum + 1 WHERE position NOT IN (4, 6)");
    assert_eq!(about(&place, 3).unwrap(), [4, 6]);
    let error = about(&place, 1).unwrap_err();
    assert!(matches!(error, JournalError::Damaged { position: 0, .. }), "{error}");
    assert!(about(&place, 9).unwrap().is_empty());
}

#[test]
fn a_journal_without_an_index_of_its_facts_is_given_one() {
    let (place, _) = journal();
    place.edit("DROP TABLE about; DROP TABLE lease; DROP TABLE unit; DROP TABLE segment; PRAGMA user_version = 3");
    assert!(about(&place, 3).is_err());
    place.open().unwrap().close().unwrap();
    assert_eq!([1, 2, 3].map(|number| about(&place, number).unwrap()), [[0, 2], [3, 7], [4, 6]]);
}
