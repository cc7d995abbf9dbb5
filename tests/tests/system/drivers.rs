//! The drivers of a guest, as their document has them.

use std::collections::BTreeSet;

use serde_json::Value;
use tenure_tests::root;

use crate::deployment::{Deployment, lives, units, written};

/// The list of drivers that docs/DRIVERS.md shows.
fn documented_drivers() -> String {
    let text = std::fs::read_to_string(root().join("docs/DRIVERS.md")).expect("the document");
    let list = text.split("```").find_map(|block| block.strip_prefix("toml\n[[service-manager"));
    format!("[[service-manager{}", list.expect("a list of drivers"))
}

#[test]
fn a_guest_with_two_drivers_has_a_program_on_each_unit_and_a_file_of_the_units() {
    let config = format!(
        "[site.alpha]\nunits = 3\ndriver = {{ name = \"process\" }}\n[broker.exchange]\n{}",
        documented_drivers()
    );
    let mut deployment = Deployment::of(&config, tempfile::tempdir().expect("a folder"));
    let file = deployment.data.path().join("drivers/guest/membership/members");
    let members = || {
        let text = std::fs::read_to_string(&file).expect("a membership file");
        let units = text.lines().map(|line| {
            let member: Value = serde_json::from_str(line).expect("JSON");
            format!("alpha/u{}", member["unit"])
        });
        units.collect::<BTreeSet<_>>()
    };
    assert_eq!(members(), BTreeSet::new());
    let lease = deployment.json("lease request 2 --for 1h --wait")[0].clone();
    let held: BTreeSet<String> = units(&lease).into_iter().map(|(unit, ..)| unit).collect();
    assert_eq!((members(), held.len()), (held, 2));
    let folders = deployment.data.path().join("drivers/guest/start/folders");
    let folders = std::fs::read_dir(folders).expect("the programs' folders");
    let programs: Vec<String> = folders
        .map(|entry| written(&entry.expect("a folder").path().join("program.pid")))
        .collect();
    assert_eq!(programs.len(), 2);
    assert!(programs.iter().all(|pid| lives(pid)), "{programs:?}");

    // Both go on, whatever happens to the process that began them.
    assert_eq!(deployment.end("-KILL"), None);
    deployment.start_with(&config);
    assert!(programs.iter().all(|pid| lives(pid)), "{programs:?}");
    assert_eq!(members().len(), 2);

    deployment.json("lease close guest/1 --wait");
    assert!(!programs.iter().any(|pid| lives(pid)), "{programs:?}");
    assert_eq!(members(), BTreeSet::new());
}
