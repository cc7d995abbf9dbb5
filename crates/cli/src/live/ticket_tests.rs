//! `tenure ticket verify`, with tickets and evidence made by hand.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;

use serde_json::{Value, json};
use tenure_core::model::codec;
use tenure_core::model::identity::{Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::resource::Constraints;
use tenure_core::model::time::{Term, Time};
use tenure_core::model::verifier::Verifier;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::evidence::Evidence;
use tenure_core::ticket::link::{Clauses, Generation, Link, SignedLink};
use tenure_core::ticket::receipt::{Receipt, Return};
use tenure_node::api::{EvidenceView, LinkView, TicketView};

use crate::moment;
use crate::tests::{Folder, tenure};

const SITE: u8 = 1;
const BROKER: u8 = 2;
const GUEST: u8 = 3;
const RIVAL: u8 = 4;

/// Noon of a day.
const NOON: i64 = 1_795_003_200;

fn signer(who: u8) -> Signer {
    Signer::from_seed(Scheme::Ed25519, [who; 32])
}

fn term(from: i64, to: i64) -> Term {
    Term::new(Time::from_secs(NOON + from), Time::from_secs(NOON + to)).unwrap()
}

/// What `holder` gets of `parent`, or a delegation.
fn link(issuer: u8, holder: u8, parent: Option<&Ticket>, (units, term): (u32, Term)) -> SignedLink {
    let root = Generation { delegation: 1, generation: 0 };
    let link = Link {
        parent: parent.map(Ticket::hash),
        issuer: signer(issuer).id(),
        holder: signer(holder).id(),
        resource: Name::literal("node"),
        units: NonZeroU32::new(units).unwrap(),
        term,
        constraints: Constraints::NONE,
        clauses: Clauses::NONE,
        delegation: parent.is_none().then_some(root),
        extends: None,
        serial: u64::from(holder),
    };
    SignedLink::sign(link, &signer(issuer))
}

fn delegation() -> Ticket {
    Ticket::root_of(link(SITE, BROKER, None, (4, term(0, 7200))))
}

/// Three units for an hour.
fn sold_to(holder: u8) -> Ticket {
    let held = delegation();
    held.with(link(BROKER, holder, Some(&held), (3, term(0, 3600))))
}

fn shown(ticket: &Ticket) -> Value {
    let links = ticket
        .links()
        .iter()
        .map(|link| LinkView::of(link, |id| id.to_string(), &mut Verifier::new(Scheme::Ed25519)));
    let view = TicketView { ticket: ticket.hash().to_hex(), lease: None, links: links.collect() };
    serde_json::to_value(view).unwrap()
}

/// A folder with the ticket as JSON and as bytes, and where no deployment runs.
fn with_ticket(test: &str, ticket: &Ticket) -> Folder {
    let folder = Folder::new(test, &[("ticket.json", &shown(ticket).to_string())]);
    fs::write(folder.path("ticket"), codec::encode(ticket)).unwrap();
    folder
}

fn verify(folder: &Folder, args: &[&str]) -> (u8, String, String) {
    let data = folder.path("nothing-runs-here");
    tenure(&[&["ticket", "verify", "--data", &data], args].concat())
}

fn at(seconds: i64) -> String {
    moment::show(Time::from_secs(NOON + seconds))
}

#[test]
fn an_honest_ticket_holds_from_its_json_and_from_its_bytes() {
    let ticket = sold_to(GUEST);
    let folder = with_ticket("honest", &ticket);
    let site = signer(SITE).id().to_hex();
    let key = format!("{}", json!(signer(SITE).key())).replace('"', "");
    for file in ["ticket.json", "ticket"] {
        for site in [&site, &key] {
            let args = [&*folder.path(file), "--at", &at(60), "--site", site];
            let (code, out, err) = verify(&folder, &args);
            assert_eq!((code, err.as_str()), (0, ""), "{out}");
            assert!(out.contains("It holds.") && out.matches("  holds").count() == 2, "{out}");
            assert!(out.contains("runs for another 59m0s"), "{out}");
        }
    }
    let (code, out, err) =
        verify(&folder, &[&folder.path("ticket"), "--at", &at(60), "-o", "json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &found["holds"], &found["term"]), (0, &json!(true), &json!("running")));
    assert_eq!((&found["version"], &found["site"]), (&json!(1), &json!(site)));
    assert!(err.contains("no site was given") && err.contains(&site), "no site named: {err}");
}

#[test]
fn one_bit_that_is_altered_anywhere_is_found() {
    let bytes = codec::encode(&sold_to(GUEST));
    let folder = with_ticket("bits", &sold_to(GUEST));
    let (file, site) = (folder.path("altered"), signer(SITE).id().to_hex());
    let args = [&*file, "--at", &at(60), "--site", &site];
    for place in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[place] ^= 1 << (place % 8);
        fs::write(&file, altered).unwrap();
        let (code, out, err) = verify(&folder, &args);
        assert_eq!(code, 1, "byte {place}: {out}{err}");
        assert!(err.contains("does not hold") || err.contains("no ticket"), "{place}: {err}");
    }
    // In the JSON what counts are the bytes of the links, and the name must be theirs.
    let mut json = shown(&sold_to(GUEST));
    json["ticket"] = json!(sold_to(RIVAL).hash().to_hex());
    fs::write(&file, json.to_string()).unwrap();
    let (code, _, err) = verify(&folder, &args);
    assert!(code == 1 && err.contains("it names ticket"), "{err}");
}

#[test]
fn a_file_that_says_something_else_than_its_signed_bytes_is_found_out() {
    let folder = with_ticket("lies", &sold_to(GUEST));
    let file = folder.path("lying.json");
    let (site, guest) = (signer(SITE).id().to_hex(), signer(GUEST).id());
    let args = [&*file, "--at", &at(60), "--site", &site, "-o", "json"];
    for (field, lie) in [
        ("units", json!(300)),
        ("resource", json!("gpu")),
        ("start", json!("2026-11-18T12:00:01.000Z")),
        ("end", json!("2030-11-18T13:00:00.000Z")),
        ("constraints", json!(["zone = west"])),
        ("signed", json!(false)),
        ("hash", json!("c0ffee")),
    ] {
        let mut ticket = shown(&sold_to(GUEST));
        let truth = ticket["links"][1][field].clone();
        ticket["links"][1][field] = lie.clone();
        fs::write(&file, ticket.to_string()).unwrap();
        let (code, out, err) = verify(&folder, &args);
        let found: Value = serde_json::from_str(&out).unwrap();
        let fault = format!("link 1: the file says `{field}` {lie}, its signed bytes {truth}");
        assert_eq!((code, &found["faults"]), (1, &json!([fault])), "{err}");
        assert_eq!(found["links"][1][field], truth, "what is shown is what is signed");
    }
    // Names are not signed: without a deployment their owners are unknown.
    let mut named = shown(&sold_to(GUEST));
    named["links"][1]["holder"] = json!("guest");
    fs::write(&file, named.to_string()).unwrap();
    let (code, out, err) = verify(&folder, &args);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &found["unchecked"]), (0, &json!([format!("{guest} is called guest")])));
    assert!(err.contains("it cannot be checked here whether"), "{err}");
}

#[test]
fn a_wrong_site_a_term_that_is_over_and_a_link_that_takes_too_much_are_named() {
    let ticket = sold_to(GUEST);
    let folder = with_ticket("wrong", &ticket);
    let file = folder.path("ticket.json");
    let (right, other) = (signer(SITE).id().to_hex(), signer(RIVAL).id().to_hex());
    let (code, out, err) = verify(&folder, &[&file, "--at", &at(60), "--site", &other]);
    assert!(code == 1 && err.contains("link 0: it is another site's"), "{err}");
    assert!(out.contains("NOT the expected one"), "{out}");
    let (code, out, err) = verify(&folder, &[&file, "--at", &at(4000), "--site", &right]);
    assert!(code == 1 && err.contains("link 1: its term has ended"), "{err}");
    assert!(out.contains("was over 6m40s before"), "{out}");
    let (code, ..) = verify(&folder, &[&file, "--at", &at(-60), "--site", &right]);
    assert_eq!(code, 0, "a ticket may be shown before its term");
    let held = delegation();
    let greedy = held.with(link(BROKER, GUEST, Some(&held), (5, term(0, 3600))));
    fs::write(&file, shown(&greedy).to_string()).unwrap();
    let (code, out, err) = verify(&folder, &[&file, "--at", &at(60), "--site", &right]);
    assert!(code == 1 && err.contains("link 1: it is for 5 units, its parent for 4"), "{err}{out}");
}

#[test]
fn what_cannot_be_asked_is_a_matter_of_usage() {
    let folder = with_ticket("usage", &sold_to(GUEST));
    let file = folder.path("ticket");
    for args in [&[][..], &[&file, "--site", "ffff"], &[&file, "--receipts", &file]] {
        let (code, out, err) = verify(&folder, args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
    }
    let (code, _, err) = verify(&folder, &[&folder.path("missing"), "-o", "json"]);
    let error: Value = serde_json::from_str(&err).unwrap();
    assert_eq!((code, &error["error"]["code"]), (1, &json!("failed")), "{err}");
}

/// Two tickets of three units each, of one delegation of four.
fn evidence() -> Evidence {
    let links = [GUEST, RIVAL].map(|holder| sold_to(holder).bottom().clone());
    Evidence { parents: vec![delegation()], links: links.into(), at: Time::from_secs(NOON + 60) }
}

/// That the site has had all units of a link back from `from` on.
fn receipt(link: &SignedLink, from: i64) -> Receipt {
    let what = Return {
        site: signer(SITE).id(),
        link: link.hash(),
        issuer: link.issuer,
        units: link.units,
        term: term(from, 3600),
        number: 0,
    };
    Receipt::sign(what, &signer(SITE))
}

/// Evidence as `lease show` and a receipt as `journal show` print them.
fn with_evidence(test: &str, evidence: &Evidence, receipt: &Receipt) -> Folder {
    let lease = json!([{ "lease": "guest/4.0", "refusal": {
        "code": "conflict", "evidence": EvidenceView::of(evidence)
    }}]);
    let mut ticket = serde_json::to_value(receipt).unwrap();
    let (start, end) = (receipt.what.term.start(), receipt.what.term.end());
    ticket["what"]["term"] = json!({ "start": moment::show(start), "end": moment::show(end) });
    let fact = json!([{ "position": 9, "fact": { "receipt": ticket } }]);
    let (lease, fact) = (lease.to_string(), fact.to_string());
    let folder = Folder::new(test, &[("evidence.json", &lease), ("receipts.json", &fact)]);
    fs::write(folder.path("evidence"), codec::encode(evidence)).unwrap();
    folder
}

#[test]
fn evidence_convicts_the_broker_that_sold_too_much() {
    let late = receipt(&evidence().links[0], 120);
    let folder = with_evidence("convicts", &evidence(), &late);
    let broker = signer(BROKER).id();
    for file in ["evidence.json", "evidence"] {
        let (code, out, err) = verify(&folder, &["--evidence", &folder.path(file)]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(out.starts_with(&format!("convicts {}", broker.to_hex())), "{out}");
        assert!(out.contains("has handed on 6 units") && out.contains("of 4"), "{out}");
        assert!(out.contains("caveat: no receipts were given"), "{out}");
        let (_, out, _) = verify(&folder, &["--evidence", &folder.path(file), "-o", "json"]);
        let found: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(found["receipts"], 0);
        assert!(found["caveat"].as_str().is_some_and(|caveat| caveat.contains("--receipts")));
    }
    // What came back later than the instant excuses nothing.
    let files = [folder.path("evidence"), folder.path("receipts.json")];
    let args = ["--evidence", &*files[0], "--receipts", &*files[1], "-o", "json"];
    let (code, out, _) = verify(&folder, &args);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &found["convicts"]), (0, &json!(broker.to_hex())));
    assert_eq!((&found["receipts"], &found["caveat"]), (&json!(1), &Value::Null));
}

#[test]
fn nobody_honest_is_framed() {
    let in_time = receipt(&evidence().links[0], 30);
    let folder = with_evidence("framed", &evidence(), &in_time);
    let files = [folder.path("evidence.json"), folder.path("receipts.json")];
    let (code, out, err) = verify(&folder, &["--evidence", &files[0], "--receipts", &files[1]]);
    assert!(code == 1 && err.contains("3 units do not exceed the parent's 4"), "{err}");
    assert!(out.starts_with("convicts no actor"), "{out}");
    let whole = evidence();
    let twice = [whole.links[0].clone(), whole.links[0].clone()].into();
    // Signed by another key in the broker's name.
    let forged = {
        let link = (*whole.links[1]).clone();
        [whole.links[0].clone(), SignedLink::sign(link, &signer(RIVAL))].into()
    };
    let doctored: BTreeMap<&str, Evidence> = BTreeMap::from([
        ("is shown twice", Evidence { links: twice, ..whole.clone() }),
        ("not validly signed", Evidence { links: forged, ..whole.clone() }),
        ("does not run", Evidence { at: Time::from_secs(NOON + 5000), ..whole.clone() }),
        ("not cut from one ticket", Evidence { parents: Vec::new(), ..whole }),
    ]);
    for (why, evidence) in doctored {
        fs::write(&files[0], codec::encode(&evidence)).unwrap();
        let (code, _, err) = verify(&folder, &["--evidence", &files[0]]);
        assert!(
            code == 1 && err.contains("convicts no actor") && err.contains(why),
            "{why}: {err}"
        );
    }
}
