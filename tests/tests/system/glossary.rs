//! Names: one term for one thing, so a type name that was replaced does not come back.

use std::fs;
use std::path::{Path, PathBuf};

/// Type names that were replaced, with the names in use.
const RETIRED: &[(&str, &str)] = &[
    ("Bell", "NormalDelay"),
    ("Bench", "Checker"),
    ("Books", "Stored"),
    ("BrokerCrime", "DishonestBroker"),
    ("Cast", "Participants"),
    ("Crew", "WorkerPool"),
    ("Crime", "Violation"),
    ("Deck", "AppState"),
    ("Deeds", "DriverSteps"),
    ("Dice", "Sampler"),
    ("Door", "Endpoint"),
    ("Duty", "Obligation"),
    ("Fall", "HostFailure"),
    ("GuestCrime", "DishonestGuest"),
    ("IsIt", "CallPredicate"),
    ("Loot", "Observed"),
    ("Mail", "SentTable"),
    ("Meant", "LeaseRefs"),
    ("News", "GuestChanges or SiteChanges"),
    ("Notary", "Credentials"),
    ("Owed", "PendingEffects"),
    ("OwedView", "PendingView"),
    ("Parcel", "Packet"),
    ("Patience", "RetryPolicy"),
    ("Person", "Identity"),
    ("Played", "TurnOutcome"),
    ("Player", "Participant"),
    ("Programme", "RunPlan"),
    ("Roll", "ParticipantKeys"),
    ("Room", "DiskSpace"),
    ("Said", "a noun that says who answered what"),
    ("Says", "GreetingKind"),
    ("Seat", "HostedActor"),
    ("SeatMaker", "ActorBuilder"),
    ("Seller", "BrokerPolicy"),
    ("Shelf", "UnitPool"),
    ("Sight", "OpenMode"),
    ("Taker", "Snapshotter"),
    ("Tale", "Recording"),
    ("Talk", "ProgramIo"),
    ("Thing", "a noun that names the kind"),
    ("Told", "a noun that says what was received"),
    ("Trail", "RequestTrace"),
    ("Wish", "Search or Listed"),
    ("Words", "Args or LeaseStates"),
    ("Yard", "UnitTable"),
];

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The retired names that stand in `text` as identifiers; comments are skipped.
fn retired(text: &str) -> Vec<&'static (&'static str, &'static str)> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let words: Vec<&str> =
        code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
    RETIRED.iter().filter(|(name, _)| words.contains(name)).collect()
}

#[test]
fn no_retired_name_is_used() {
    assert_eq!(retired("pub struct Deck; // not a Door").len(), 1);
    let mut files = Vec::new();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in fs::read_dir(tests.join("../crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut files);
    }
    for folder in [
        "src",
        "tests",
        "benches",
        "faulty-disk",
        "../crates/node/tests",
        "../crates/node/examples",
    ] {
        sources(&tests.join(folder), &mut files);
    }
    files.retain(|file| !file.ends_with("system/glossary.rs"));
    assert!(files.len() > 100, "{}", files.len());
    let mut found = Vec::new();
    for file in files {
        for (name, instead) in retired(&fs::read_to_string(&file).unwrap()) {
            found.push(format!("{}: `{name}` is now {instead}", file.display()));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
