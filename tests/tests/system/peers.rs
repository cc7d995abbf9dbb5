//! Actors that become peers by an invitation, and are none any more.

use serde_json::Value;
use tempfile::TempDir;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};
use crate::network::{free, key, peer};

/// A process with these tables that takes connections, and knows nobody.
fn listening(tables: &str) -> Deployment {
    Deployment::of(&format!("listen = \"{}\"\n{tables}", free()), folder())
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The line of an invitation.
#[track_caller]
fn invited(by: &Deployment, how: &str) -> String {
    let invitation = by.json(&format!("peer invite {how}"));
    invitation["invitation"].as_str().expect("a line").to_owned()
}

/// Both become peers of each other.
#[track_caller]
fn befriend(inviter: &Deployment, role: &str, joiner: &Deployment) {
    let line = invited(inviter, &format!("--role {role}"));
    let peers = joiner.json(&format!("peer join {line} --wait"));
    assert_eq!((&peers[0]["state"], &peers[0]["known_by"]), (&"peer".into(), &"invitation".into()));
}

/// Runs a command that must fail, with these words.
#[track_caller]
fn refused(at: &Deployment, line: &str, code: i32, words: &str) {
    let output = at.tenure(line);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "tenure {line}: {said}");
    assert!(said.contains(words), "tenure {line}: {said}");
}

/// A broker, a site that has delegated all it has to it, and a guest, all of them by invitation.
fn three() -> (Deployment, Deployment, Deployment) {
    let broker = listening("[broker.exchange]\n");
    let site = listening("[site.alpha]\nunits = 2\n");
    let guest = Deployment::of("[service-manager.guest]\n", folder());
    befriend(&broker, "site-authority", &site);
    befriend(&broker, "service-manager", &guest);
    site.json("site delegate alpha exchange 2 node --for 2h");
    eventually(DEADLINE, "the delegation at the broker", || {
        broker.json("broker list")[0].to_string().contains("alpha").then_some(())
    });
    (broker, site, guest)
}

#[test]
fn strangers_become_peers_by_invitation_and_lease_until_one_is_removed() {
    let (mut broker, mut site, mut guest) = three();
    guest.json("lease request 2 --for 1h --wait");
    // What was delegated by hand is no drift, and who lends cannot ask.
    assert_eq!(site.tenure("doctor").status.code(), Some(0), "{}", stderr(&site.tenure("doctor")));
    refused(&site, "lease request 1 --for 1h", 2, "no service manager runs in this process");
    // What joined is in the journals.
    for at in [&mut broker, &mut site, &mut guest] {
        at.end("-KILL");
        at.restart_up();
    }
    guest.json("lease extend 1 --for 10m --wait");
    refused(&broker, "peer remove guest", 2, "it has tickets until");
    refused(&guest, "peer remove exchange", 2, "lease 1.0 is of its tickets");
    refused(&site, "peer remove exchange", 2, "units are delegated to it until");
    refused(&broker, "peer remove alpha", 2, "is delegated by it");
    guest.json("lease close 1 --wait");
    eventually(DEADLINE, "the end of the tickets at the broker", || {
        (broker.tenure("peer remove guest").status.code() == Some(0)).then_some(())
    });
    let left = broker.json("peer list").to_string();
    assert!(!left.contains("guest"), "{left}");
    eventually(DEADLINE, "the end of the connection", || {
        let peers = guest.json("peer show exchange");
        let error = peers[0]["error"].as_str().unwrap_or_default().to_owned();
        (peers[0]["connected"] == false && error.contains("no peer")).then_some(())
    });
    // It comes back by another invitation once it has forgotten the first.
    guest.json("peer remove exchange");
    befriend(&broker, "service-manager", &guest);
    let lease = guest.json("lease request 1 --for 1h --wait")[0]["lease"].clone();
    guest.json(&format!("lease close {} --wait", lease.as_str().expect("a name")));
    site.becomes_clean();
}

#[test]
fn an_invitation_is_taken_once_by_the_right_actor_and_in_time() {
    let broker = listening("[broker.exchange]\n");
    let other = listening("[broker.other]\n");
    let first = Deployment::of("[service-manager.guest]\n", folder());
    let second = Deployment::of("[service-manager.guest]\n", folder());
    let line = invited(&broker, "--role service-manager");
    // Altered, cut short, of another kind of actor, by nobody.
    let place = line.len() - 20;
    let digit = if line.as_bytes()[place] == b'0' { "1" } else { "0" };
    let altered = format!("{}{digit}{}", &line[..place], &line[place + 1..]);
    let output = first.tenure(&format!("peer join {altered}"));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    refused(&first, &format!("peer join {}", &line[..place]), 2, "damaged");
    refused(&first, "peer join exchange", 2, "is no invitation");
    refused(&other, &format!("peer join {line}"), 2, "is for a service manager, and none is here");
    refused(&other, &format!("peer join {line} --of other"), 2, "is for a service manager, and");
    refused(&broker, &format!("peer join {line} --of exchange"), 2, "is its own");
    // Used twice.
    first.json(&format!("peer join {line} --wait"));
    refused(&first, &format!("peer join {line}"), 2, "already");
    refused(&second, &format!("peer join {line} --wait"), 77, "it was used before");
    let peers = second.json("peer list");
    assert_eq!((&peers[0]["state"], &peers[0]["connected"]), (&"refused".into(), &false.into()));
    second.json("peer remove exchange");
    // One name for two.
    let line = invited(&broker, "--role service-manager");
    refused(&second, &format!("peer join {line} --wait"), 77, "has another peer `guest`");
    second.json("peer remove exchange");
    let line = invited(&broker, "--role service-manager --name second");
    second.json(&format!("peer join {line} --wait"));
    assert_eq!(broker.json("peer show second")[0]["may"], Value::from(vec!["request"]));
    // Too late.
    let line = invited(&broker, "--role broker --expires 1ms");
    refused(&other, &format!("peer join {line}"), 2, "has expired");
    refused(&broker, "peer invite --role broker --expires 60d", 2, "at most 30d");
    refused(&broker, "peer invite --role broker --may request", 2, "cannot `request`");
    refused(&broker, "peer invite --role broker --name second", 2, "is the name of");
    refused(&first, "peer invite --role broker", 2, "takes no connections");
}

/// A broker with a site of its own in one process, which takes connections.
fn lab(broker: &str, site: &str, units: u32) -> Deployment {
    listening(&format!("[broker.{broker}]\n[site.{site}]\nunits = {units}\n"))
}

#[test]
fn labs_at_work_get_a_common_master_by_two_lines_and_lose_no_lease() {
    let guest = "[service-manager.guest]\n";
    let first = listening(&format!("[broker.lab-a]\n[site.north]\nunits = 3\n{guest}"));
    let second = lab("lab-b", "south", 3);
    let campus = listening(&format!("[broker.campus]\n{guest}"));
    first.json("lease request 1 node --for 1h --wait");
    // One lab shares with who comes, the other one with who has invited it.
    let line = invited(&first, "--of lab-a --as share --limit 2");
    campus.json(&format!("peer join {line} --wait"));
    let line = invited(&campus, "--of campus --role broker");
    second.json(&format!("peer join {line} --as share --limit 2 --wait"));
    eventually(DEADLINE, "what both labs lend", || {
        let routes = campus.json("broker routes campus");
        let lent = |route: &Value| route["kind"] == "borrowed" && route["entries"][0]["free"] == 2;
        (routes.as_array()?.iter().filter(|route| lent(route)).count() == 2).then_some(())
    });
    let leases = campus.json("lease request 4 node --for 30m --broker campus --wait");
    let units = leases.as_array().into_iter().flatten().map(|lease| lease["units"].as_u64());
    assert_eq!(units.map(Option::unwrap_or_default).sum::<u64>(), 4);
    assert_eq!(first.json("lease list")[0]["state"], "active");
    // What is recalled and not sold goes back at once: the campus hears of it from a site that it does not know.
    campus.json("lease close 1 --wait");
    first.json("broker unshare lab-a campus --wait --timeout 1m");
    assert_eq!(first.json("lease list")[0]["state"], "active");
}

#[test]
fn a_guest_finds_a_site_by_its_ticket_that_knows_the_guest_as_a_peer() {
    let (at_lab, at_guest, address) = (folder(), folder(), free());
    let [lab, guest] = [(&at_lab, "lab"), (&at_guest, "guest")].map(|(at, name)| key(at, name));
    let known = peer("guest", "service-manager", &guest, None);
    let lab_config =
        format!("listen = \"{address}\"\n[broker.lab]\n[site.boards]\nunits = 1\n{known}");
    let of_guest =
        format!("[service-manager.guest]\n{}", peer("lab", "broker", &lab, Some(&address)));
    let _lab = Deployment::of(&lab_config, at_lab);
    let guest = Deployment::of(&of_guest, at_guest);
    guest.json("lease request 1 --for 10m --wait --timeout 30s");
}

#[test]
fn a_campus_that_pauses_sells_nothing_of_a_lab_that_is_down_until_it_is_back() {
    let mut lab = lab("lab", "north", 3);
    let campus = listening(
        "[broker.campus]\non-silence = \"pause\"\n[site.own]\nunits = 1\n[service-manager.guest]\n",
    );
    let line = invited(&lab, "--of lab --as share");
    campus.json(&format!("peer join {line} --wait"));
    let borrowed = |state: &str, paused: bool| {
        eventually(DEADLINE, "what is borrowed", || {
            let routes = campus.json("broker routes campus");
            let route = routes.as_array()?.iter().find(|route| route["kind"] == "borrowed")?;
            (route["lender"] == state && (route["paused"] == true) == paused).then_some(())
        });
    };
    borrowed("live", false);
    lab.end("-KILL");
    borrowed("silent", true);
    refused(&campus, "lease request 2 node --for 10m --wait --timeout 20s", 75, "1 are free");
    campus.json("lease request 1 node --for 10m --wait");
    lab.restart_up();
    borrowed("live", false);
    campus.json("lease request 2 node --for 10m --wait --timeout 1m");
}

#[test]
fn two_brokers_forward_to_each_other_by_one_line_within_a_quota() {
    let guest = "[service-manager.guest]\n";
    let here = listening(&format!("[broker.here]\n{guest}"));
    let there = lab("there", "alpha", 4);
    let line = invited(&there, "--of there --as forward --limit 2");
    here.json(&format!("peer join {line} --as forward --wait"));
    let terms = |of: &Deployment, broker: &str| {
        let routes = of.json(&format!("broker routes {broker}"));
        let peer = routes.as_array()?.iter().find(|route| route["kind"] == "peer")?;
        Some(peer["agreed"].clone())
    };
    let both = |agreed: &Value| agreed["forward"] == true && agreed["accept"] == true;
    eventually(DEADLINE, "what is agreed", || {
        let (mine, its) = (terms(&here, "here")?, terms(&there, "there")?);
        (both(&mine) && both(&its) && its["most-units"] == 2).then_some(())
    });
    here.json("lease request 2 node --for 30m --wait --timeout 1m");
    refused(&here, "lease request 1 node --for 30m --wait --timeout 20s", 75, "a quota of 2 units");
    // The guest gives back to who has cut its ticket, which is no peer of its own: so it gets as much again at once.
    here.json("lease close 1 --wait");
    here.json("lease request 2 node --for 30m --wait --timeout 1m");
    let quotas = there.json("broker quota list there").to_string();
    assert!(quotas.contains("\"peer\":\"here\""), "{quotas}");
    // Only brokers do that, and only for brokers.
    refused(&there, "peer invite --of alpha --as share", 2, "only a broker shares");
    refused(&there, "peer invite --of there --role service-manager --as share", 2, "nothing is");
    refused(&there, "peer invite --of there --as lend", 2, "write share or forward");
    refused(&there, "peer invite --of there --role broker --limit 2", 2, "--as");
    here.close_all();
    there.becomes_clean();
}

#[test]
fn an_invitation_is_taken_once_though_both_sides_are_killed_between_steps() {
    let mut broker = listening("[broker.exchange]\n");
    let mut guest = Deployment::of("[service-manager.guest]\n", folder());
    let line = invited(&broker, "--role service-manager");
    broker.end("-KILL");
    // Nobody answers; the question is in the journal.
    let asked = guest.json(&format!("peer join {line}"));
    assert_eq!(asked[0]["state"], "joining");
    refused(&guest, &format!("peer join {line} --wait --timeout 1ms"), 124, "is no peer yet");
    guest.end("-KILL");
    broker.restart_up();
    guest.restart_up();
    eventually(DEADLINE, "the answer", || {
        (guest.json("peer show exchange")[0]["state"] == "peer").then_some(())
    });
    for at in [&mut broker, &mut guest] {
        at.end("-KILL");
        at.restart_up();
    }
    eventually(DEADLINE, "a connection", || {
        (broker.json("peer show guest")[0]["connected"] == true).then_some(())
    });
    // It was used, though nobody remembers who has come.
    let late = Deployment::of("[service-manager.late]\n", folder());
    refused(&late, &format!("peer join {line} --wait"), 77, "it was used before");
}

#[test]
fn peers_by_invitation_change_and_do_as_they_may() {
    let (broker, site, guest) = three();
    broker.json("peer set guest --may-nothing");
    let output = guest.tenure("lease request 1 --for 1h --wait");
    assert_eq!(output.status.code(), Some(77), "{}", stderr(&output));
    broker.json("peer set guest --may request");
    guest.json("lease request 1 --for 1h --wait");
    guest.json("lease close 2 --wait");
    let nowhere = free();
    let peers = site.json(&format!("peer set exchange --address {nowhere}"));
    assert_eq!(peers[0]["address"], nowhere.as_str(), "{peers}");
    for address in ["nowhere", "a/b:7400", "host:70000", "[host]:7400"] {
        let line = format!("peer set exchange --address {address}");
        refused(&site, &line, 2, "is no address to dial");
    }
    refused(&site, "peer set exchang --dials", 3, "no peer `exchang`");
    site.becomes_clean();
}

#[test]
fn a_peer_of_the_configuration_does_not_take_the_name_of_one_that_joined() {
    let mut broker = listening("[broker.exchange]\n");
    let guest = Deployment::of("[service-manager.guest]\n", folder());
    befriend(&broker, "service-manager", &guest);
    broker.end("-TERM");
    let id = "3b1f3b0a3f2c4f4ba1f54ee3a5b9c1a3e7a2c0d94c5e6f708192a3b4c5d6e7f8";
    let table =
        format!("[broker.exchange]\n[peer.guest]\nrole = \"service-manager\"\nid = \"{id}\"\n");
    let output = broker.fails_with(&table);
    let said = stderr(&output);
    assert!(
        said.contains("`guest` is a peer by configuration and another one by invitation"),
        "{said}"
    );
    broker.restart_with("[broker.exchange]\n");
}
