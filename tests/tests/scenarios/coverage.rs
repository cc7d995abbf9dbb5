//! What the scripts have to cover, and that each of them is well formed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use tenure_core::runtime::Fact;
use tenure_core::wire::message::Message;
use tenure_laws::LAWS;
use tenure_tests::root;

use super::language::COMMANDS;
use super::script::{Args, Part, Script};
use super::{FOLDER, SCRIPTS, perform};

/// What can happen to a lease and must occur in at least one script, under these names.
const POINTS: &[&str] = &[
    "happy life",
    "asking unanswered",
    "unwanted ticket given back",
    "redeeming unanswered",
    "leave unanswered",
    "closing retried",
    "crediting retried",
    "setup after the term",
    "closed lease never comes back",
    "redeem replayed after crash",
    "duplicate gets the same answer",
    "second redeem same answer",
    "busy answered the same again",
    "refusals",
    "a part of a lease comes back and is sold again",
    "a refused flex",
    "an extension for fewer units",
    "a return through crashes",
    "failed extend leaves the lease",
    "extension re-checks bookings",
    "extension is exactly the next term with the same units",
    "failed teardown quarantined and reset",
    "failed unit replaced",
    "elastic goes on with fewer",
    "too few units closes",
    "clocks apart",
    "clocks are compared",
    "what is free is asked",
    "too short a term refused",
    "early redeem held",
    "over-issue",
    "evidence verifies",
    "framing fails",
    "stolen ticket",
    "wrong site",
    "altered ticket",
    "receipt replayed credits once",
    "delegation renewed across the seam",
    "delegation not renewed",
    "crash of each actor",
    "crash before the fact is durable",
    "loss of each message",
    "cut one way",
    "several items all or nothing",
    "close while asking",
    "close while priming",
    "close while joining",
    "close before the term",
    "close while leaving",
    "guest cannot join",
    "guest driver fails",
    "mapper asleep",
    "epoch after re-use",
    "stock added",
    "stock withdrawn",
    "quota of a guest",
    "quota of a broker",
    "out of order",
    "contiguous leases",
    "pause longer than a term",
    "several brokers",
    "the next attempt at several brokers",
    "an acceptance of several is lost",
    "several brokers through crashes",
    "a group of several brokers comes back",
    "a group comes back",
    "fate of a bundle",
    "crash while a group is given back",
    "grow",
    "grow refused",
    "a kept ticket",
    "a ticket is split",
    "the rest of a split ticket goes back",
    "a part is handed on again",
    "a part of a part",
    "a holder that hands on too much",
    "alternatives",
    "an optional item",
    "a counter-offer is taken",
    "a hold is accepted",
    "an acceptance is repeated",
    "a broker crashes with a hold",
    "a hold lapses",
    "an offer of another broker is accepted",
    "a broker crashes with an offer of another",
    "an offer of another lapses",
    "an acceptance comes too late",
    "two holds beside each other",
    "a hold is released",
    "a plan",
    "a queue that a return serves",
    "waited in vain",
    "a request withdrawn",
    "a second stage",
    "a range of durations",
    "items together",
    "a divisible stock",
    "a link",
    "a longer path",
    "no path",
    "a held plan with a link",
    "a plan without links",
    "no plan without links",
    "a share is made smaller",
    "a configuration changes in place",
    "a failed modification",
    "a modification through crashes",
    "redeem by",
    "a reclaim",
    "a reclaim of a redeemed ticket",
    "a reclaim across a crash",
    "keys of commands",
    "a request is revised",
    "a revision comes when its request is forgotten",
    "excluded sites",
    "excluded units",
    "named units",
    "receipts with a request",
    "prices",
    "settings changed at a start",
    "items apart",
    "a delegation by hand",
    "a delegation grows",
    "a delegation is given back",
    "broker to broker",
    "a request is passed on",
    "a request is passed on in a ring",
    "a broker is not heard",
    "a guest is silent",
    "a request is met by several brokers",
    "portions survive losses and crashes",
    "units are shared",
    "a broker is drained",
    "a renewal cascades",
    "over-delegation",
    "brokers crash between each other",
    "a recall",
    "a recall is withdrawn",
    "a recall is withdrawn after its units were left",
    "a recall of rights",
    "a recall refuses an extension",
    "a recall through crashes",
    "a recall of a delegation",
    "a recall between brokers",
    "a recall by a stranger",
    "a recall is a level",
    "a recall of an extended lease",
    "a unit is drained and resumed",
    "inventory at run time",
    "a lease is redeemed after another",
    "a mapper is asked at a gate",
    "items in sequence",
    "what a lease waits for is lost",
    "a bad unit is quarantined",
    "a refused setup does not count",
    "an answer about a past tenancy",
    "an overbooked stock",
    "a best-effort stock",
    "a modification is answered again after a recall",
    "units in stacks",
    "adverts",
    "a stack that was sold twice",
    "a unit is drained by an instant",
    "the fidelity of leases",
    "a unit that fails in use is replaced",
    "a unit that fails before its lease is active",
    "a unit that fails in use and cannot be replaced",
    "a failure that is told of when the next lease has the unit",
    "all units of a lease fail",
    "a recall outlives its generation",
    "a recall hastens a leave",
    "a recall takes what its guest was not told of",
    "a refused join leaves too few",
    "a broker gives back what it has sold",
    "a join is refused",
    "a leave is called back",
    "a leave is hastened",
    "the least used units go",
    "keys are rotated",
    "a key is revoked",
    "keys learned by a ticket",
    "an actor joins",
    "a relation by invitation",
    "a stolen key",
    "a plan of packages",
    "two plans at once",
    "an infeasible plan",
    "a package fails",
    "packages are rolled back",
    "a failed package is planned again",
    "a report by the user",
    "a plan lapses",
    "a plan through crashes",
    "packages are installed in order",
    "nodes are leased for a plan",
    "nodes of a plan are extended and given back",
    "nodes of a plan are refused",
    "a plan that leases through crashes",
    "leases are packed whole",
    "a service follows its SLOs",
    "a service is advised on",
    "a service blacklists a unit",
    "a service lends a part of its share",
    "a service refuses to leave a unit",
    "idle units of a service go back first",
    "units go first of which least would be lost",
    "a unit is reset",
    "units without a lease count",
    "a host that two services claim counts for neither",
    "a host that services of two guests claim counts for neither",
    "a broker that comes back asks for statements anew",
    "a service asks again",
    "units are ordered of a service for another one",
    "a service is told to its broker",
    "an order is cancelled",
    "orders are advised",
    "units are worth less the longer they are held",
    "units that were freed for an order are kept",
    "a budget of moves is used up",
    "a broker crashes with an order open",
    "what was measured of a service is too old",
];

/// Kinds of facts that no script shows: they say nothing but that a mapper was asked or has answered, or
/// belong to a mapper that follows a signal; or `crates/core/tests/protocol/returns.rs` and `in_place.rs` have
/// them, or `tests/tests/system/inventory.rs`, of a start with another plan.
const UNSHOWN: &[&str] = &[
    "woken",
    "mapper-answered",
    "sharing-reviewed",
    "signal-observed",
    "return-refused",
    "recall-lifted",
    "recall-begun",
    "recall-refused",
    "shrink-begun",
    "rights-returned",
    "quantity-withdrawn",
    "issued-delegation-ended",
    "usage-reported",
    "unit-described",
];

/// Laws that no script asks: L5 is about bursts of work, and S12 asks nothing while its table is empty.
const UNASKED: &[&str] = &["S12", "L5"];

/// Every script by its name.
fn scripts() -> BTreeMap<String, (String, Script)> {
    let files = fs::read_dir(root().join(FOLDER)).unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let script = Script::read(&text)
            .unwrap_or_else(|(line, bad)| panic!("{}:{line}: {bad}", path.display()));
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), (text, script))
    });
    scripts.collect()
}

#[test]
fn every_script_has_a_test() {
    let tested: BTreeSet<String> = SCRIPTS.iter().map(|name| name.replace('_', "-")).collect();
    let written: BTreeSet<String> = scripts().into_keys().collect();
    assert_eq!(tested, written, "list each script in tests/tests/scenarios.rs");
}

#[test]
fn every_script_says_what_it_shows_and_sees_it_through() {
    for (name, (_, script)) in scripts() {
        let head = script.head();
        assert!(head.len() >= 3, "{name}: a comment at the top says what it shows");
        assert!(head.iter().any(|line| line.starts_with("Proves: ")), "{name}: which rule?");
        assert!(head.iter().any(|line| line.starts_with("Covers: ")), "{name}: which points?");
        let commands = script.parts.iter().filter_map(|part| match part {
            Part::Block(commands) => Some(commands),
            Part::Verbatim(_) => None,
        });
        let mut finished = commands.flatten().map(|command| {
            let mut args = Args::of(command);
            args.has("quietly");
            args.has("finish")
        });
        assert!(finished.any(|last| last), "{name}: `finish` shows that nothing is left over");
    }
}

#[test]
fn the_scripts_cover_every_point() {
    let scripts = scripts();
    let lines = scripts.iter().flat_map(|(name, (_, script))| {
        let covers = script.head().into_iter().filter_map(|line| line.strip_prefix("Covers: "));
        covers.flat_map(|line| line.split(", ")).map(move |point| (name, point)).collect::<Vec<_>>()
    });
    let mut missing: BTreeSet<&str> = POINTS.iter().copied().collect();
    for (name, point) in lines {
        assert!(POINTS.contains(&point), "{name} covers `{point}`, which is no point");
        missing.remove(point);
    }
    assert_eq!(missing, BTreeSet::new(), "no script covers these");
}

#[test]
fn every_kind_of_fact_and_message_happens_and_every_message_is_lost_once() {
    let traces: String = scripts().into_values().map(|(text, _)| text).collect();
    for (kind, _) in Fact::kinds() {
        let word = kind.split_once('.').unwrap().1;
        let happens = traces.contains(&format!("* {word}: ")) || UNSHOWN.contains(&word);
        assert!(happens, "no script shows `{kind}`");
    }
    for kind in Message::KINDS {
        let lost = traces.lines().any(|line| {
            line.contains(" -> ") && line.contains(&format!(" {kind} ")) && line.ends_with("LOST")
        });
        assert!(lost, "no script loses `{kind}`");
    }
}

#[test]
fn every_state_of_the_machines_is_reached() {
    let traces: String = scripts().into_values().map(|(text, _)| text).collect();
    let arrows = traces.lines().filter_map(|line| line.rsplit_once(" -> "));
    let reached: BTreeSet<&str> = arrows.map(|(_, state)| state).collect();
    // The table has a line `  STATE  EVENT  -> STATE` for each transition.
    let machines = fs::read_to_string(root().join("tests/golden/machines.txt")).unwrap();
    let states = machines.lines().filter_map(|line| line.split_once(" -> ").map(|(_, to)| to));
    // A request that has ended without a lease is shown as a lease that has ended.
    let shown = states.map(|state| if state == "Unanswered" { "Closed" } else { state });
    let missing: BTreeSet<&str> = shown.filter(|state| !reached.contains(state)).collect();
    assert_eq!(missing, BTreeSet::new(), "no script reaches these");
}

#[test]
fn every_law_is_asked() {
    let script_run = scripts().into_values().map(|(text, _)| perform(&text));
    let asked: BTreeSet<&str> =
        script_run.flat_map(|script_run| script_run.map_or(vec![], |p| p.laws)).collect();
    let missing =
        LAWS.iter().map(|law| law.id).filter(|id| !asked.contains(id) && !UNASKED.contains(id));
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0], "no script asks these");
}

#[test]
fn a_bad_script_is_an_error_with_its_place() {
    let cases = [
        ("deployment\n", "1: these commands have no `----` below them"),
        ("  site site 2 node\n----\n", "1: an indented line belongs to a command above it"),
        ("ask guest 1 node for=1h\n----\n", "1: a script begins with `deployment`"),
        ("deployment\n----\n\n# Dance.\ndance\n----\n", "5: there is no command `dance`; known:"),
        (
            "deployment\ndance\n----\n",
            "\n  ask GUEST [optional] UNITS TYPE [after SPAN] [where 'EXPR'] [joins ITEM ITEM [hops N] [latency SPAN]] [of BROKER].. from=TIME for=SPAN",
        ),
        ("deployment\n  dog rex\n----\n", "1: `dog` is no role; known: site, broker, guest"),
        ("deployment\nclose gest/1\n----\n", "2: there is no actor `gest`; known: broker, guest,"),
        ("deployment\nclose guest/1 now\n----\n", "`now` has no meaning here\n  write `close "),
        ("deployment\nask guest 1 node from=noon for=1h\n----\n", "2: from: `noon` is no time"),
        ("deployment\nask site 1 node for=1h\n----\n", "`site` is a site authority, not a service"),
        (
            "deployment\nask guest 1 node where 'cpus >=' from=10:00 for=1h\n----\n",
            "cpus >=\n       ^\nexpected a value",
        ),
        ("deployment\ndrop *->* bill\n----\n", "`bill` is no kind of message; known: delegate,"),
        ("deployment\ncrash site after lunch\n----\n", "`lunch` is no kind of fact; known: "),
        ("deployment\nforge redeem guest t1\n----\n", "2: there is no ticket `t1`; known: d1"),
        ("deployment\nadvance to 08:00\n----\n", "2: it is 09:00 already"),
    ];
    for (text, wanted) in cases {
        let Err((line, bad)) = perform(text) else { panic!("nothing is wrong with\n{text}") };
        assert!(format!("{line}: {bad}").contains(wanted), "{text}\n{line}: {bad}\n{wanted}");
    }
}

#[test]
fn the_document_has_every_command() {
    let document = fs::read_to_string(root().join("docs/SCRIPTS.md")).unwrap();
    for known in COMMANDS {
        let usage = known.usage.replace('|', "\\|");
        assert!(document.contains(&format!("`{usage}`")), "docs/SCRIPTS.md lacks `{usage}`");
    }
}
