//! Services, emulated: units move to whom they are worth most, and then rest.

use serde_json::Value;
use tenure_tests::{emulate, run};

fn emulated(scenario: &str, overrides: &[&str]) -> Vec<Value> {
    let (code, runs) = emulate(scenario, overrides);
    assert_eq!(code, 0, "{runs:?}");
    runs
}

/// How many units each service has in the end.
fn units(run: &Value) -> Vec<(&str, u64)> {
    let services = run["services"].as_array().expect("services");
    let unit = |service: &'_ Value| service["units_end"].as_u64().expect("a number");
    services.iter().map(|of| (of["name"].as_str().expect("a name"), unit(of))).collect()
}

fn sum(run: &Value, field: &str) -> f64 {
    let services = run["services"].as_array().expect("services");
    services.iter().map(|service| service[field].as_f64().expect("a number")).sum()
}

#[test]
fn the_example_of_hedeby_ends_as_its_document_says() {
    let runs = emulated("config/emulations/hedeby.toml", &[]);
    let [taking_nothing, at_once, within_bounds] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!(units(taking_nothing), [("a/work", 3), ("b/work", 2), ("pool/spare", 1)]);
    assert_eq!(taking_nothing["moves"], 0);
    for moved in [at_once, within_bounds] {
        assert_eq!(units(moved), [("a/work", 2), ("b/work", 4), ("pool/spare", 0)], "{moved}");
        assert_eq!(moved["swings"], 0, "{moved}");
    }
    assert_eq!(within_bounds["moves"], 2);
    // The rest lasts.
    let long = emulated("config/emulations/hedeby.toml", &["horizon=3d"]);
    for (long, short) in long.iter().zip(&runs) {
        assert_eq!((&long["moves"], units(long)), (&short["moves"], units(short)));
    }
}

#[test]
fn a_batch_system_and_a_web_site_share_nodes() {
    let runs = emulated("config/emulations/services.toml", &[]);
    let [taking_nothing, at_once, within_bounds] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!(taking_nothing["moves"], 0);
    let moves = |run: &Value| run["moves"].as_u64().expect("a number");
    assert!(moves(within_bounds) <= moves(at_once), "{runs:?}");
    for run in &runs {
        assert!(sum(run, "jobs_done") >= 14.0, "{run}");
        // Of 279 unit-hours of jobs: nodes that nothing runs on are taken first.
        assert!(sum(run, "lost_unit_s") <= 0.01 * 279.0 * 3600.0, "{run}");
    }
}

#[test]
fn a_burst_is_over_sooner_on_shared_nodes() {
    let runs = emulated("config/emulations/burst.toml", &[]);
    let [halves, shared] = &runs[..] else { panic!("{runs:?}") };
    for run in [halves, shared] {
        assert_eq!((sum(run, "jobs_done"), sum(run, "lost_unit_s")), (44.0, 0.0), "{run}");
    }
    assert!(sum(shared, "makespan_s") <= 0.7 * sum(halves, "makespan_s"), "{runs:?}");
    // And not at the expense of the web site.
    let web = |run: &Value| run["services"][1]["out_of_slo_s"].as_f64().expect("a number");
    assert!(web(shared) <= web(halves), "{runs:?}");
}

#[test]
fn a_model_has_the_units_that_its_leases_go_on_with() {
    let work = "service-manager.a.service.work";
    let load =
        format!("{work}.model.load=[{{ at = \"0s\", units = 3 }}, {{ at = \"10m\", units = 1 }}]");
    let idle = format!("{work}.behaviour.idle-after=\"1d\"");
    let overrides = ["preset=static", load.as_str(), idle.as_str()];
    let runs = emulated("config/emulations/hedeby.toml", &overrides);
    let [run] = &runs[..] else { panic!("{runs:?}") };
    // What is not wanted any more is left out at the end of the first term, and others get it.
    let units = units(run);
    assert_eq!(units[0], ("a/work", 1), "{run}");
    assert_eq!(units.iter().map(|(_, held)| held).sum::<u64>(), 6, "{run}");
}

#[test]
fn what_the_budget_allows_is_moved_and_no_more() {
    let bounded =
        "broker.exchange.mapper={ name = \"urgency\", recall = { budget = \"1% per 1d\" } }";
    let runs = emulated("config/emulations/services.toml", &["preset=tenure", bounded]);
    let [run] = &runs[..] else { panic!("{runs:?}") };
    // At least one unit in any day of two, which begin and end within three.
    assert!((1..=3).contains(&run["moves"].as_u64().expect("a number")), "{run}");
}

#[test]
fn what_is_wrong_with_a_model_is_said_with_its_place() {
    let wrong = |set: &str| {
        let output = run(&["emulate", "config/emulations/hedeby.toml", "--set", set]);
        assert_eq!(output.status.code(), Some(1), "{set}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let work = "service-manager.a.service.work";
    let game = wrong(&format!("{work}.model={{ kind = \"game\" }}"));
    assert!(game.contains("known: batch, web"), "{game}");
    let jobs = wrong(&format!("{work}.model={{ kind = \"batch\" }}"));
    assert!(jobs.contains("the batch service of `a` has no jobs"), "{jobs}");
    let want = wrong(&format!("{work}.slo.more.want=\"load +\""));
    assert!(want.contains("service.work"), "{want}");
}
