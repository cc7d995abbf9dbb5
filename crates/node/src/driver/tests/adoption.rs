//! Units in use that are taken over as they are.

use std::fs;

use serde_json::{Value, json};
use tenure_core::driver::{Call, Step};

use super::super::custody::Custody;
use super::exec::{MAKE, Place, READ};
use super::{call, with};

fn adopting(how: &str, step: Step, epoch: u64) -> Call {
    Call { properties: with(&[("adopt", how)]), ..call(epoch, step) }
}

#[test]
fn a_unit_in_use_is_taken_over_only_where_that_is_allowed_and_if_it_is_up() {
    let mut place = Place::site();
    let refused = place.open().perform(&adopting("keep", Step::Setup, 1)).outcome.unwrap_err();
    assert!(
        refused.why_untouched().is_some_and(|why| why.contains("setting `adopt`")),
        "{refused}"
    );
    place.settings["adopt"] = json!(true);
    let driver = place.open();
    for (epoch, how, why) in [
        (1, "keep", "it is not up to be taken over: its probe says down"),
        (2, "lend", "`adopt` is `keep` or `take`, not `lend`"),
    ] {
        let refused = driver.perform(&adopting(how, Step::Setup, epoch)).outcome.unwrap_err();
        assert_eq!(refused.why_untouched(), Some(why));
    }
    assert!(!place.made(1).exists());
}

#[test]
fn a_unit_that_is_taken_over_stays_as_it_is_until_the_next_tenant_gets_it_clean() {
    let mut place = Place::site();
    place.settings["adopt"] = json!(true);
    place.program("modify", &format!("{READ}{MAKE}"));
    let driver = place.open();
    fs::create_dir(place.home.path().join("made")).unwrap();
    fs::write(place.made(1), "work").unwrap();
    let is_untouched = || fs::read_to_string(place.made(1)).unwrap() == "work";

    let taken = driver.perform(&adopting("keep", Step::Setup, 1)).outcome.unwrap();
    assert_eq!((taken.get("adopt"), taken.get("host.name")), (Some("keep"), Some("cats01")));
    let modified = driver.perform(&adopting("keep", Step::Modify, 1)).outcome.unwrap_err();
    assert_eq!(modified.0, "a unit that was taken over as it is is not changed");
    drop(driver);
    let driver = place.open();
    driver.perform(&adopting("keep", Step::Teardown, 2)).outcome.unwrap();
    assert!(is_untouched());

    // It is no clean unit for another driver.
    drop(driver);
    let custody = Custody::of(place.home.path(), "exec").unwrap().take(0);
    custody.unwrap();
    let other = Custody::of(place.home.path(), "null").err().unwrap();
    assert!(other.to_string().starts_with("1 of its units are not free"), "{other}");

    // It can be taken over again, and whoever sets it up gets it clean.
    let driver = place.open();
    driver.perform(&adopting("take", Step::Setup, 3)).outcome.unwrap();
    assert!(is_untouched());
    driver.perform(&adopting("take", Step::Teardown, 4)).outcome.unwrap();
    assert!(!place.made(1).exists());
    fs::write(place.made(1), "work").unwrap();
    driver.perform(&adopting("keep", Step::Setup, 5)).outcome.unwrap();
    driver.perform(&adopting("keep", Step::Teardown, 6)).outcome.unwrap();
    assert!(is_untouched());
    driver.perform(&call(7, Step::Setup)).outcome.unwrap();
    assert!(fs::read_to_string(place.made(1)).unwrap().contains("setup"));
    driver.perform(&call(8, Step::Teardown)).outcome.unwrap();
    assert!(!place.made(1).exists());
}

#[test]
fn a_note_from_before_units_were_taken_over_is_read() {
    let place = Place::site();
    let driver = place.open();
    driver.perform(&call(1, Step::Setup)).outcome.unwrap();
    drop(driver);
    let units = place.home.path().join("units");
    let record = fs::read_dir(&units).unwrap().next().unwrap().unwrap().path();
    let mut value: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    let process = value["note"]["process"].take();
    assert!(process["pid"].is_number(), "{value}");
    value["note"] = process;
    fs::write(&record, value.to_string()).unwrap();
    place.open().perform(&call(1, Step::Teardown)).outcome.unwrap();
    assert!(!place.made(1).exists());
}
