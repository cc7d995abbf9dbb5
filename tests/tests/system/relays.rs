//! Processes that cannot be dialled: a broker that is their peer relays connections with their actors.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};
use crate::network::free;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The line of an invitation.
#[track_caller]
fn invited(by: &Deployment, how: &str) -> String {
    let invitation = by.json(&format!("peer invite {how}"));
    invitation["invitation"].as_str().expect("a line").to_owned()
}

/// A campus, at that address, and a lab that can only dial it and lends it what it has.
fn campus_and_lab(address: &str, relays: &str) -> (Deployment, Deployment) {
    let campus = format!("listen = \"{address}\"\n{relays}\n[broker.campus]\n");
    let campus = Deployment::of(&campus, folder());
    let lab = format!("public = \"{address}\"\n[broker.lab]\n[site.boards]\nunits = 2\n");
    let lab = Deployment::of(&lab, folder());
    let line = invited(&campus, "--of campus --role broker");
    lab.json(&format!("peer join {line} --as share --wait"));
    eventually(DEADLINE, "what the lab lends", || {
        let routes = campus.json("broker routes campus");
        let lent = |route: &Value| route["kind"] == "borrowed" && route["entries"][0]["free"] == 2;
        routes.as_array()?.iter().any(lent).then_some(())
    });
    (campus, lab)
}

/// A guest of a broker, in a process of its own that cannot be dialled.
fn guest_of(broker: &Deployment, called: &str) -> Deployment {
    let guest = Deployment::of("[service-manager.guest]\n", folder());
    let line = invited(broker, &format!("--of {called} --role service-manager"));
    guest.json(&format!("peer join {line} --wait"));
    guest
}

#[test]
fn a_lab_that_can_only_dial_lends_its_units_and_has_guests_of_its_own() {
    let address = free();
    let (campus, mut lab) = campus_and_lab(&address, "");
    let guest = guest_of(&campus, "campus");
    let leases = guest.json("lease request 2 node --for 30m --wait --timeout 1m");
    assert_eq!((&leases[0]["state"], &leases[0]["units"]), (&"active".into(), &2.into()));
    // What ends a connection ends no lease: the guest dials again once the lab is back.
    lab.end("-KILL");
    lab.restart_up();
    guest.json("lease close 1 --wait");
    // The campus gives back to a site that it reaches by itself alone.
    lab.json("broker unshare lab campus --wait --timeout 1m");
    let own = guest_of(&lab, "lab");
    let leases = own.json("lease request 1 node --for 30m --wait --timeout 1m");
    assert_eq!(leases[0]["site"], "boards");
    own.json("lease close 1 --wait");
}

#[test]
fn a_lab_behind_a_campus_that_cannot_be_dialled_either_lends_its_units() {
    let address = free();
    let company = format!("listen = \"{address}\"\n[broker.company]\n");
    let company = Deployment::of(&company, folder());
    let campus = Deployment::of(&format!("public = \"{address}\"\n[broker.campus]\n"), folder());
    let line = invited(&company, "--of company --role broker");
    campus.json(&format!("peer join {line} --as share --wait"));
    let lab = format!("public = \"{address}\"\n[broker.lab]\n[site.boards]\nunits = 2\n");
    let mut lab = Deployment::of(&lab, folder());
    let line = invited(&campus, "--of campus --role broker");
    lab.json(&format!("peer join {line} --as share --wait --timeout 1m"));
    let lent = |at: &Deployment, called: &str| {
        eventually(DEADLINE, "what the lab lends", || {
            let routes = at.json(&format!("broker routes {called}"));
            let lent = |of: &Value| of["kind"] == "borrowed" && of["entries"][0]["free"] == 2;
            routes.as_array()?.iter().any(lent).then_some(())
        });
    };
    lent(&campus, "campus");
    lent(&company, "company");
    // Its site is dialled at the company, which has the campus dial back, which has the lab dial back.
    let guest = guest_of(&company, "company");
    let leases = guest.json("lease request 2 node --for 30m --wait --timeout 1m");
    assert_eq!((&leases[0]["state"], &leases[0]["site"]), (&"active".into(), &"boards".into()));
    lab.end("-KILL");
    lab.restart_up();
    guest.json("lease close 1 --wait --timeout 1m");
}

#[test]
fn a_broker_that_relays_nothing_leaves_its_peers_out_of_reach() {
    let address = free();
    let (campus, lab) = campus_and_lab(&address, "relays = 0");
    let line = invited(&lab, "--of lab --role service-manager");
    let guest = Deployment::of("[service-manager.guest]\n", folder());
    let joins = guest.tenure(&format!("peer join {line} --wait --timeout 3s"));
    assert_eq!(joins.status.code(), Some(124), "{}", stderr(&joins));
    drop(campus);
}

#[test]
fn who_dials_back_without_being_waited_for_is_refused() {
    let address = free();
    let (campus, _lab) = campus_and_lab(&address, "");
    // The broker that is dialled back, and a token.
    let rest = [&[32][..], &[7; 32], b"0123456789abcdef"].concat();
    for start in [&b"tenure<-"[..], b"tenure->", b"tttt"] {
        let bytes = [start, &rest].concat();
        let mut stream = TcpStream::connect(&address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        stream.write_all(&bytes).expect("bytes are sent");
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        assert!(read.is_err() || answer.is_empty(), "{answer:?}");
    }
    campus.json("broker routes campus");
    let metrics = campus.tenure("metrics");
    let text = String::from_utf8_lossy(&metrics.stdout).into_owned();
    assert!(text.contains("cause=\"relay\""), "{text}");
}
