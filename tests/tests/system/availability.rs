//! What is free, asked by a service manager: as much as the broker discloses to it.

use serde_json::{Value, json};

use crate::deployment::{Deployment, stderr};

const CONFIG: &str = r#"
[site.alpha]
units = 4
attributes = { cpus = 8, price = 3 }
[site.beta]
units = 2
attributes = { cpus = 2 }
[broker.exchange]
disclose = { each = "none", guest = "all", rival = "totals", curious = "yes-no" }
[service-manager.guest]
[service-manager.rival]
[service-manager.curious]
[service-manager.other]
"#;

/// What the one broker says to a service manager.
fn said(deployment: &Deployment, to: &str, more: &str) -> Value {
    let said = deployment.json(format!("broker availability --as {to} {more}").trim());
    assert_eq!(said.as_array().map(Vec::len), Some(1), "{said}");
    said[0].clone()
}

#[test]
fn each_service_manager_is_told_as_much_as_the_configuration_says() {
    let deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    deployment.json("lease request 3 --for 10m --as guest --wait --where 'cpus >= 8'");
    let all = said(&deployment, "guest", "");
    assert_eq!((&all["broker"], &all["discloses"]), (&json!("exchange"), &json!("all")));
    let free = |place: usize| {
        let entry = &all["free"][place];
        ["site", "free", "units"].map(|field| entry[field].clone())
    };
    assert_eq!(free(0), [json!("alpha"), json!(1), json!(4)]);
    assert_eq!(free(1), [json!("beta"), json!(2), json!(2)]);
    assert_eq!(all["free"][0]["attributes"]["price"], "3");
    let later = said(&deployment, "guest", "--at now+20m --where 'cpus >= 8'");
    assert_eq!(later["free"].as_array().map(Vec::len), Some(1));
    assert_eq!(later["free"][0]["free"], 4, "the lease has ended by then");
    let totals = said(&deployment, "rival", "");
    assert_eq!(totals["free"], json!([{"resource": "node", "any": true, "free": 3}]));
    let any = said(&deployment, "curious", "--where 'cpus >= 8' exchange");
    assert_eq!(any["free"], json!([{"resource": "node", "any": true}]));
    let nothing = said(&deployment, "other", "");
    assert_eq!((&nothing["discloses"], &nothing["free"]), (&json!("none"), &json!([])));
    let table = deployment.tenure("broker availability --as other");
    assert!(String::from_utf8_lossy(&table.stdout).contains("not disclosed"), "{table:?}");
}

#[test]
fn a_question_that_makes_no_sense_is_refused() {
    let deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    for (line, word) in [
        ("--as guest --for 0s", "must be positive"),
        ("--as guest --within 2h", "up to 1m"),
        ("--as guest nobody", "no broker `nobody`"),
        ("--as guest --where 'cpus >'", "cpus"),
        ("", "several service managers"),
    ] {
        let output = deployment.tenure(format!("broker availability {line}").trim());
        assert_ne!(output.status.code(), Some(0), "{line}");
        assert!(stderr(&output).contains(word), "{line}: {}", stderr(&output));
    }
    let typo = CONFIG.replace("rival = \"totals\"", "revel = \"totals\"");
    let fails = deployment.fails_with(&typo);
    assert!(
        stderr(&fails).contains("known: curious, guest, other, rival, each"),
        "{}",
        stderr(&fails)
    );
}
