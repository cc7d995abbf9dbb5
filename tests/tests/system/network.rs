//! Actors in processes of their own, each with a configuration and a data folder of its own.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::root;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr, tenure_on};

/// Makes the key of an actor, and prints its id.
pub(crate) fn key(data: &TempDir, name: &str) -> String {
    let made = tenure_on(data.path(), &format!("keys new {name} -o json"));
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let made: Value = serde_json::from_slice(&made.stdout).expect("JSON");
    made[0]["id"].as_str().expect("an id").to_owned()
}

/// An address of this machine at which nobody listens.
pub(crate) fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

/// The table of a peer.
pub(crate) fn peer(name: &str, role: &str, id: &str, address: Option<&str>) -> String {
    let address = address.map_or_else(String::new, |at| format!("address = \"{at}\"\n"));
    format!("[peer.{name}]\nrole = \"{role}\"\nid = \"{id}\"\n{address}")
}

/// Waits until a site has delegated to a broker: it dials again, after a pause, if the broker was not up yet.
fn can_sell(broker: &Deployment) {
    eventually(DEADLINE, "units to sell", || {
        let brokers = broker.json("broker list");
        brokers[0]["delegations"].as_array().is_some_and(|all| !all.is_empty())
    });
}

/// A site, its broker and a guest, each in a process of its own.
pub(crate) struct Trio {
    pub(crate) site: Deployment,
    /// The configuration of the site.
    pub(crate) of_site: String,
    pub(crate) broker: Deployment,
    pub(crate) guest: Deployment,
}

pub(crate) fn trio() -> Trio {
    let folder = || tempfile::tempdir().expect("a folder");
    let (at_site, at_broker, at_guest) = (folder(), folder(), folder());
    let site = key(&at_site, "alpha");
    let broker = key(&at_broker, "exchange");
    let guest = key(&at_guest, "guest");
    let (site_address, broker_address) = (free(), free());
    let alpha = peer("alpha", "site-authority", &site, Some(&site_address));
    let exchange = peer("exchange", "broker", &broker, Some(&broker_address));
    let guest = peer("guest", "service-manager", &guest, None);
    let of_site =
        format!("listen = \"{site_address}\"\n[site.alpha]\nunits = 2\n{exchange}{guest}");
    let site = Deployment::of(&of_site, at_site);
    let broker = Deployment::of(
        &format!("listen = \"{broker_address}\"\n[broker.exchange]\n{alpha}{guest}"),
        at_broker,
    );
    can_sell(&broker);
    let guest = Deployment::of(&format!("[service-manager.guest]\n{alpha}{exchange}"), at_guest);
    Trio { site, of_site, broker, guest }
}

#[test]
fn actors_of_three_processes_lease_over_tls() {
    let Trio { mut site, of_site, broker, guest } = trio();
    let lease = guest.json("lease request 2 --for 1h --wait")[0].clone();
    assert_eq!((&lease["state"], &lease["site"]), (&"active".into(), &"alpha".into()), "{lease}");
    assert_eq!(site.json("site list")[0]["leased"], 2);
    assert!(broker.json("broker list")[0].is_object());
    site.end("-KILL");
    site.start_with(&of_site);
    let name = lease["lease"].as_str().expect("a name");
    guest.json(&format!("lease close {name} --wait"));
    site.becomes_clean();
}

#[test]
fn an_id_that_nobody_has_at_an_address_is_told_on_both_sides() {
    let (at_broker, folder) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir());
    let (exchange, address) = (key(&at_broker, "exchange"), free());
    let broker = Deployment::of(&format!("listen = \"{address}\"\n[broker.exchange]\n"), at_broker);
    let end = if exchange.ends_with('0') { "1" } else { "0" };
    let mistyped = format!("{}{end}", &exchange[..exchange.len() - 1]);
    let peer = peer("exchange", "broker", &mistyped, Some(&address));
    let of_guest = format!("[service-manager.guest]\n{peer}");
    let guest = Deployment::of(&of_guest, folder.expect("a folder"));
    eventually(DEADLINE, "what is wrong", || {
        let error = guest.json("peer show exchange")[0]["error"].clone();
        (error == "no actor with this id is at its address").then_some(())
    });
    eventually(DEADLINE, "the same at the broker", || {
        broker.log().contains("it asked for nobody who is here").then_some(())
    });
}

#[test]
fn an_address_that_another_program_has_is_an_error_with_a_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let actors = "[site.alpha]\nunits = 1\n[broker.exchange]\n[service-manager.guest]\n";
    let mut deployment = Deployment::of(actors, tempfile::tempdir().expect("a folder"));
    assert_eq!(deployment.end("-TERM"), Some(0));
    let failed = deployment.fails_with(&format!("listen = \"{address}\"\n{actors}"));
    let error = stderr(&failed);
    assert_eq!(failed.status.code(), Some(1), "{error}");
    assert!(error.contains(&format!("cannot listen at {address}")), "{error}");
    assert!(error.contains("set `listen` to an address"), "{error}");
    deployment.start_with(actors);
}

/// Three processes: the broker knows the site and the guest, who know it alone.
pub(crate) struct Apart {
    /// It is stopped first: what it gives back its site takes.
    pub(crate) guest: Deployment,
    pub(crate) site: Deployment,
    pub(crate) broker: Deployment,
    /// Where the site listens.
    pub(crate) address: String,
    /// Where the broker listens.
    pub(crate) of_broker: String,
    /// The id of the site.
    id: String,
}

impl Apart {
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// The same, with more in the configuration of the site.
    pub(crate) fn start_with(of_site: &str) -> Self {
        let folder = || tempfile::tempdir().expect("a folder");
        let (at_site, at_broker, at_guest) = (folder(), folder(), folder());
        let (site, broker, guest) =
            (key(&at_site, "alpha"), key(&at_broker, "exchange"), key(&at_guest, "guest"));
        let (address, of_broker) = (free(), free());
        let exchange = peer("exchange", "broker", &broker, Some(&of_broker));
        let alpha = peer("alpha", "site-authority", &site, Some(&address));
        let known_guest = peer("guest", "service-manager", &guest, None);
        let config =
            format!("listen = \"{address}\"\n[site.alpha]\nunits = 2\n{exchange}{of_site}");
        let id = site;
        let site = Deployment::of(&config, at_site);
        let config = format!("listen = \"{of_broker}\"\n[broker.exchange]\n{alpha}{known_guest}");
        let broker = Deployment::of(&config, at_broker);
        can_sell(&broker);
        let guest = Deployment::of(&format!("[service-manager.guest]\n{exchange}"), at_guest);
        Self { site, broker, guest, address, of_broker, id }
    }
}

#[test]
fn a_guest_knows_its_broker_alone_and_leases_at_sites_that_do_not_know_it() {
    let Apart { mut site, broker: _broker, guest, id, .. } = Apart::start();
    // A site can tell the holder of a kept ticket that it is recalled: they are connected before it is used.
    guest.json("lease request 2 --for 1h --keep-ticket --wait");
    let peers = eventually(DEADLINE, "a connection with the site", || {
        let found = guest.tenure("peer show alpha -o json").stdout;
        let found: Value = serde_json::from_slice(&found).ok()?;
        (found[0]["connected"] == true).then_some(found)
    });
    assert_eq!((&peers[0]["known_by"], &peers[0]["id"]), (&"ticket".into(), &id.into()), "{peers}");
    let lease = guest.json("lease redeem 1 --wait")[0].clone();
    assert_eq!((&lease["state"], &lease["site"]), (&"active".into(), &"alpha".into()), "{lease}");
    let peers = site.json("peer list");
    let known: Vec<_> = peers.as_array().expect("a list").iter().map(|p| &p["known_by"]).collect();
    assert_eq!(known.len(), 2, "{peers}");
    assert!(known.contains(&&"ticket".into()), "{peers}");
    // A site that comes back knows the holder of a lease as little as before.
    site.end("-KILL");
    site.restart_up();
    guest.json("lease extend 1 --for 30m --wait");
    guest.json("lease close 1 --wait");
    site.becomes_clean();
}

#[test]
fn a_guest_is_told_since_when_the_site_of_a_lease_cannot_be_reached() {
    let Apart { mut site, broker: _broker, mut guest, .. } = Apart::start();
    guest.json("lease request 2 --for 1h --wait");
    let unreachable = |guest: &Deployment| {
        let shown = guest.json("lease show 1")[0].clone();
        assert_eq!(shown["state"], "active", "it continues");
        shown.get("site_unreachable").cloned()
    };
    assert_eq!(unreachable(&guest), None);
    site.end("-KILL");
    let first = eventually(DEADLINE, "a lost connection", || unreachable(&guest));
    let since = first["since"].as_str().expect("there was a connection").to_owned();
    assert!(first["error"].as_str().is_some_and(|error| !error.is_empty()), "{first}");
    let said = |words: &str| {
        let output = guest.tenure(words);
        format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output))
    };
    for words in ["lease list", "lease show 1"] {
        let said = said(words);
        assert!(said.contains(&format!("unreachable since {since}")), "{words}: {said}");
    }
    let doctor = said("doctor");
    assert!(doctor.contains(&format!("no connection with alpha since {since}")), "{doctor}");
    assert!(doctor.contains("nothing changes or is known of guest/1.0"), "{doctor}");
    // A guest that starts again has never had a connection.
    guest.end("-KILL");
    guest.restart_up();
    let second = eventually(DEADLINE, "no connection", || unreachable(&guest));
    assert_eq!(second["since"], Value::Null, "{second}");
    site.restart_up();
    eventually(DEADLINE, "a connection", || unreachable(&guest).is_none());
    guest.json("lease close 1 --wait");
    site.becomes_clean();
}

/// A part of a ticket, handed on by a guest with a key of which the site has not heard: it learns of that by the message
/// that redeems the part alone.
#[test]
fn a_guest_whose_ticket_says_nothing_to_the_site_is_let_in_by_its_brokers_endorsement() {
    let folder = || tempfile::tempdir().expect("a folder");
    let (at_site, at_broker, at_guests) = (folder(), folder(), folder());
    let (site, broker) = (key(&at_site, "alpha"), key(&at_broker, "exchange"));
    let guests = ["teacher", "pupil"].map(|name| {
        let id = key(&at_guests, name);
        peer(name, "service-manager", &id, None)
    });
    let (site_address, broker_address) = (free(), free());
    let exchange = peer("exchange", "broker", &broker, Some(&broker_address));
    let alpha = peer("alpha", "site-authority", &site, Some(&site_address));
    let config = format!("listen = \"{site_address}\"\n[site.alpha]\nunits = 2\n{exchange}");
    let site = Deployment::of(&config, at_site);
    let config =
        format!("listen = \"{broker_address}\"\n[broker.exchange]\n{alpha}{}", guests.concat());
    let broker = Deployment::of(&config, at_broker);
    can_sell(&broker);
    let config = format!("[service-manager.teacher]\n[service-manager.pupil]\n{exchange}");
    let guests = Deployment::of(&config, at_guests);
    guests.json("keys rotate teacher");
    guests.json("lease request 2 --for 1h --keep-ticket --as teacher --wait");
    let parts = guests.data.path().join("parts").display().to_string();
    let split = format!("ticket split teacher/1 --to pupil --for 30m --out {parts}");
    assert!(guests.tenure(&split).status.success());
    let lease = guests.json(&format!("ticket redeem {parts}/1-pupil.json --wait"))[0].clone();
    assert_eq!((&lease["state"], &lease["site"]), (&"active".into(), &"alpha".into()), "{lease}");
    let peers = site.json("peer list");
    let known: Vec<_> = peers.as_array().expect("a list").iter().map(|p| &p["known_by"]).collect();
    assert!(known.contains(&&"endorsement".into()), "{peers}");
    assert!(site.log().contains("is void"), "its ticket was shown first");
    guests.json(&format!("lease close {} --wait", lease["lease"].as_str().expect("a name")));
    guests.close_all();
    site.becomes_clean();
}

/// What a script prints, which must go well; it runs the built program.
#[track_caller]
fn script(words: &[&str]) -> String {
    script_within("240s", words)
}

/// The same, with a limit of its own.
#[track_caller]
fn script_within(limit: &str, words: &[&str]) -> String {
    let output = Command::new("timeout")
        .args(["--kill-after=10s", limit])
        .args(words)
        .current_dir(root())
        .env("TENURE", tenure_tests::tenure())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", stderr(&output));
    said
}

/// As root on hosts and a network of its own, otherwise on loopback.
#[test]
fn the_cluster_of_four_processes_leases_across_two_sites() {
    let before = gateways();
    let said = script(&["scripts/cluster"]);
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("leased 4 units of 2 sites") && last.ends_with("done"), "{said}");
    assert_eq!(gateways(), before, "its units are clean before its sites end");
}

#[test]
fn ci_jobs_finish_on_shared_boards_while_each_process_is_killed() {
    all_jobs_are_done(&script(&["scripts/lab", "--quick"]));
}

/// Boards of QEMU with U-Boot, those of one lab as places of labgrid.
#[test]
#[ignore = "needs qemu-system-arm, u-boot-qemu and labgrid"]
fn ci_jobs_test_real_boards_while_each_process_is_killed() {
    all_jobs_are_done(&script_within("900s", &["scripts/lab"]));
}

#[track_caller]
fn all_jobs_are_done(said: &str) {
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("jobs done 45 ") && last.contains(", double leases: 0,"), "{said}");
}

#[test]
fn eight_packages_are_planned_on_nodes_of_two_owners_beside_another_plan() {
    let said = script(&["scripts/planners", "packages"]);
    let last = said.lines().last().unwrap_or_default();
    let says = "8 packages promised on nodes of 2 owners, 8 installed, 1 of them after a failure";
    assert!(last.starts_with(says) && last.ends_with("done"), "{said}");
}

#[test]
#[ignore = "needs root, `ip`, `tc` and `unshare`"]
fn the_testbed_in_namespaces_carries_what_is_promised() {
    let said = script(&["scripts/planners", "network"]);
    let last = said.lines().last().unwrap_or_default();
    assert!(last.contains("links promised") && last.ends_with("done"), "{said}");
}

/// As root with Slurm, Grid Engine and haproxy in namespaces, otherwise with Slurm alone.
#[test]
#[ignore = "needs slurmctld, slurmd, munged and jq"]
fn services_of_real_software_take_units_from_each_other() {
    let said = script(&["scripts/services"]);
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("jobs done ") && last.contains(", lost 0, moves "), "{said}");
    assert!(last.contains(", SLA lab/batch "), "{said}");
}

/// The gateways of slices on this host.
fn gateways() -> Vec<OsString> {
    let Ok(spaces) = fs::read_dir("/run/netns") else { return Vec::new() };
    let names = spaces.map(|space| space.expect("a namespace").file_name());
    names.filter(|name| name.as_encoded_bytes().starts_with(b"tg")).collect()
}

#[test]
fn keys_change_and_are_revoked_while_nobody_can_be_told() {
    let Apart { mut site, mut broker, mut guest, id, .. } = Apart::start();
    guest.json("lease request 2 --for 1h --wait");
    let replace = |at: &Deployment, actor: &str| {
        at.json(&format!("keys rotate {actor}"));
        at.json(&format!("keys revoke {actor} 1"));
    };
    let learned = |guest: &Deployment| {
        let journal = guest.data.path().join("journals/guest.db").display().to_string();
        let shown = tenure_tests::run(&["journal", "show", &journal, "-o", "json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        let facts = shown["facts"].as_array().expect("facts").iter();
        let mut learned = facts.filter(|fact| fact["kind"] == "service-manager.peer-keys-learned");
        learned.any(|fact| fact.to_string().contains(&id[..10]))
    };
    site.end("-KILL");
    replace(&broker, "exchange");
    replace(&guest, "guest");
    site.restart_up();
    guest.json("lease extend 1 --for 30m --wait");
    broker.end("-KILL");
    guest.end("-KILL");
    replace(&site, "alpha");
    broker.restart_up();
    guest.restart_up();
    assert!(!learned(&guest));
    guest.json("lease extend 1 --for 30m --wait");
    assert!(learned(&guest), "what the site states, which it knows by its ticket alone");
    guest.json("lease close 1 --wait");
    site.becomes_clean();
}
