use serde_json::json;
use tempfile::TempDir;
use tenure_core::driver::{Call, Step, UnitId};
use tenure_core::model::time::Span;

use super::super::conformance;
use super::{call, guest, site};

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let home = TempDir::new().unwrap();
    let error = site("vmware", home.path(), &json!({})).err().unwrap();
    assert_eq!(
        error,
        "there is no site driver `vmware`; known: exec, host, link, netns, null, process"
    );
    let error = guest("sge", home.path(), &json!({})).err().unwrap();
    assert_eq!(
        error,
        "there is no guest driver `sge`; known: exec, membership, null, packages, start"
    );
}

#[test]
fn settings_that_a_driver_does_not_take_are_refused() {
    let home = TempDir::new().unwrap();
    for (settings, error) in [
        (
            json!({ "join": 1 }),
            "unknown field `join`, expected one of `setup`, `teardown`, `durable`",
        ),
        (
            json!({ "setup": "soon" }),
            "a delay: \"30s\", whole seconds or { uniform = [\"10s\", \"60s\"] }",
        ),
        (
            json!({ "setup": { "uniform": [60, 10] } }),
            "a delay is never negative and goes from the shorter to the longer, not 1m to 10s",
        ),
    ] {
        let expected = site("null", home.path(), &settings).err().unwrap();
        assert_eq!(expected, format!("driver `null`: {error}"));
    }
}

#[test]
fn null_takes_the_time_it_is_set_to_and_as_long_again() {
    let home = TempDir::new().unwrap();
    let settings = json!({ "setup": { "uniform": ["10s", "60s"] }, "teardown": "5s" });
    let driver = site("null", home.path(), &settings).unwrap();
    let bounds = Span::from_secs(10)..=Span::from_secs(60);
    let mut seen = Vec::new();
    for unit in (0..50).map(UnitId) {
        let setup = Call { unit, ..call(1, Step::Setup) };
        let answer = driver.perform(&setup);
        assert!(bounds.contains(&answer.after), "{answer:?}");
        assert_eq!(driver.perform(&setup), answer);
        seen.push(answer.after);
        let teardown = driver.perform(&Call { unit, ..call(2, Step::Teardown) });
        assert_eq!(teardown.after, Span::from_secs(5));
    }
    seen.sort();
    seen.dedup();
    assert!(seen.len() > 40, "{seen:?}");
    assert!(std::fs::read_dir(home.path()).unwrap().next().is_none(), "null keeps nothing on disk");
}

#[test]
fn null_keeps_the_promises_of_a_driver() {
    let home = TempDir::new().unwrap();
    let durable = json!({ "durable": true });
    let stories = conformance::site(
        || site("null", home.path(), &durable).unwrap(),
        &call(1, Step::Setup),
        3,
    );
    assert_eq!(stories, Ok(125));
    let home = TempDir::new().unwrap();
    let stories = conformance::guest(
        || guest("null", home.path(), &durable).unwrap(),
        &call(1, Step::Join),
        3,
    );
    assert_eq!(stories, Ok(126));
}

#[test]
fn a_driver_that_forgets_is_found_out() {
    let home = TempDir::new().unwrap();
    let stories = conformance::site(
        || site("null", home.path(), &json!({})).unwrap(),
        &call(1, Step::Setup),
        3,
    );
    let broken = stories.unwrap_err();
    assert_eq!(
        broken.to_string(),
        "a call below the highest seen is refused; the story was: \
         teardown in epoch 2, then dropped and reopened, then setup in epoch 1"
    );
}
