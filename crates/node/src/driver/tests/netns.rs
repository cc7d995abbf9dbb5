//! Real namespaces, all of them inside one that is made for the test: no interface and no file of the
//! machine is touched.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_core::driver::{Call, ResourceDriver, Step, UnitId};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Span;
use tenure_wait::{DEADLINE, eventually};

use crate::net::task::Command as Task;

use super::super::conformance;
use super::super::executors::{self, Executors};
use super::super::stop::Stop;
use super::host::{Machine, signer};
use super::process::{pid, runs};
use super::{actor, call, guest, site, with};

/// Set inside.
const INSIDE: &str = "TENURE_TEST_NETNS";

/// Runs a test of this file again in a network of its own; false in there.
fn outside(test: &str) -> bool {
    outside_of(&format!("netns::{test}"))
}

/// Runs a test again in a network, a `/run` and an `/etc` of its own; false in there.
pub(super) fn outside_of(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return false;
    }
    let own = "mount -t tmpfs none /run && mount -t tmpfs none /etc && : >/etc/hosts >/etc/hostname && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--net", "--mount", "/bin/sh", "-c", own, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([&format!("driver::tests::{test}"), "--exact", "--nocapture", "--ignored"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let output_of =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{}\n{}", output_of[0], output_of[1]);
    true
}

fn open(home: &Path, settings: &Value) -> Box<dyn ResourceDriver> {
    site("netns", home, settings).unwrap()
}

/// Sets a unit up in a slice.
fn set_up(driver: &dyn ResourceDriver, unit: u32, slice: &str) -> Properties {
    let slice = Name::new(slice).unwrap();
    let setup = Call { unit: UnitId(unit), slice, ..call(1, Step::Setup) };
    driver.perform(&setup).outcome.unwrap()
}

fn tear_down(driver: &dyn ResourceDriver, unit: u32) {
    driver.perform(&Call { unit: UnitId(unit), ..call(2, Step::Teardown) }).outcome.unwrap();
}

pub(super) fn output_of(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "needs root, `ip` and `unshare`"]
fn a_unit_has_a_network_of_its_own() {
    if outside("a_unit_has_a_network_of_its_own") {
        return;
    }
    let home = TempDir::new().unwrap();
    let settings = json!({ "network": "10.7.0.0/16", "domain": "cod.duke.edu", "rate_mbit": 10 });
    let driver = open(home.path(), &settings);
    let [first, second, other] =
        [(1, "cats"), (2, "cats"), (3, "dogs")].map(|(unit, slice)| set_up(&*driver, unit, slice));
    let get = |unit: &Properties, key: &str| unit.get(key).unwrap().to_owned();
    assert_eq!(get(&first, "host.name"), "cats01.cats.cod.duke.edu");
    assert_eq!(get(&first, "host.privipaddr"), "10.7.0.1");
    assert_eq!(get(&first, "subnet.privnetmask"), "255.255.255.0");
    assert_eq!(get(&second, "host.privipaddr"), "10.7.0.2");
    assert_eq!(get(&other, "host.privipaddr"), "10.7.1.1");

    let space = get(&first, "unit.netns");
    let inside = |words: &[&str]| output_of("ip", &[&["netns", "exec", &space], words].concat());
    let links = inside(&["ip", "-o", "link"]);
    assert_eq!(links.lines().count(), 2, "{links}");
    assert_eq!(inside(&["cat", "/etc/hostname"]), "cats01.cats.cod.duke.edu\n");
    assert!(inside(&["cat", "/etc/hosts"]).ends_with("10.7.0.1 cats01.cats.cod.duke.edu cats01\n"));
    assert!(inside(&["ip", "route", "get", "10.7.0.2"]).contains("dev eth0 src 10.7.0.1"));
    assert!(output_of("tc", &["qdisc", "show", "dev", &space]).contains("tbf"));
    // The other unit of the slice answers for its address; one of another slice is on no route.
    let neighbour = "exec 3<>/dev/tcp/10.7.0.2/9";
    let refused = Command::new("ip")
        .args(["netns", "exec", &space, "bash", "-c", neighbour])
        .output()
        .unwrap();
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("Connection refused"), "{refused}");
    let beyond = Command::new("ip")
        .args(["netns", "exec", &space, "ip", "route", "get", "10.7.1.1"])
        .output()
        .unwrap();
    assert!(!beyond.status.success());

    for unit in [1, 2, 3] {
        assert!(driver.probe(call(1, Step::Setup).site, UnitId(unit)).is_ok());
        tear_down(&*driver, unit);
        assert!(driver.probe(call(1, Step::Setup).site, UnitId(unit)).is_err());
    }
    assert_eq!(output_of("ip", &["netns", "list"]), "");
    assert_eq!(output_of("ip", &["-o", "link", "show", "type", "veth"]), "");
    assert!(std::fs::read_dir("/etc/netns").unwrap().next().is_none());
}

/// Does something in the network of a host; what it starts is there as well.
pub(super) fn on<T: Send>(host: &str, what: impl FnOnce() -> T + Send) -> T {
    let network = std::fs::File::open(Path::new("/run/netns").join(host)).unwrap();
    std::thread::scope(|scope| {
        let moved = || {
            let kind = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(network.as_fd(), kind).unwrap();
            what()
        };
        scope.spawn(moved).join().unwrap()
    })
}

#[test]
#[ignore = "needs root, `ip` and `unshare`"]
fn units_of_a_slice_on_two_hosts_have_one_network() {
    if outside("units_of_a_slice_on_two_hosts_have_one_network") {
        return;
    }
    for host in ["one", "two"] {
        output_of("ip", &["netns", "add", host]);
    }
    let cable = ["link", "add", "name", "up", "netns", "one", "type", "veth"];
    output_of("ip", &[&cable[..], &["peer", "name", "up", "netns", "two"]].concat());
    for (host, address) in [("one", "192.0.2.1/24"), ("two", "192.0.2.2/24")] {
        output_of("ip", &["-n", host, "address", "add", address, "dev", "up"]);
        output_of("ip", &["-n", host, "link", "set", "dev", "up", "up"]);
    }
    let homes = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let across = |local: &str, peer: &str| json!({ "vxlan": { "local": local, "peers": [peer] } });
    let one = on("one", || open(homes[0].path(), &across("192.0.2.1", "192.0.2.2")));
    let two = on("two", || open(homes[1].path(), &across("192.0.2.2", "192.0.2.1")));
    let set_up_at = |driver: &dyn ResourceDriver, site: u8, unit: u32, slice: &str| {
        let slice = Name::new(slice).unwrap();
        let setup = Call { site: actor(site), unit: UnitId(unit), slice, ..call(1, Step::Setup) };
        driver.perform(&setup).outcome.unwrap()
    };
    let here = on("one", || set_up_at(&*one, 1, 1, "cats"));
    let there = on("two", || set_up_at(&*two, 3, 1, "cats"));
    let other = on("two", || set_up_at(&*two, 3, 2, "dogs"));
    let get = |unit: &Properties, key: &str| unit.get(key).unwrap().to_owned();
    let space = get(&here, "unit.netns");
    let answer = |address: &str| answer(&space, address, 20);
    let refused = answer(&get(&there, "host.ipv6"));
    assert!(refused.contains("Connection refused"), "{refused}");
    let unreachable = answer(&get(&other, "host.ipv6"));
    assert!(unreachable.contains("unreachable"), "{unreachable}");
    // The guest tells each unit of the others.
    let hosts = format!("{} cats02.two", get(&there, "host.ipv6"));
    let told = with(&[("slice.hosts", &hosts)]);
    let modify = Call { properties: told, ..call(1, Step::Modify) };
    on("one", || one.perform(&modify).outcome.unwrap());
    let refused = answer("cats02.two");
    assert!(refused.contains("Connection refused"), "{refused}");
    let garbled = Call { number: 1, properties: with(&[("slice.hosts", "cats02")]), ..modify };
    assert!(on("one", || one.perform(&garbled).outcome).is_err());

    on("one", || tear_down(&*one, 1));
    for unit in [1, 2] {
        let teardown = Call { site: actor(3), unit: UnitId(unit), ..call(2, Step::Teardown) };
        on("two", || two.perform(&teardown).outcome.unwrap());
    }
    for host in ["one", "two"] {
        let left = output_of("ip", &["-n", host, "-o", "link", "show"]);
        assert_eq!(left.lines().count(), 2, "{left}");
    }
}

/// What a program says that connects to a port nobody listens at, in a namespace: who is there refuses.
fn answer(space: &str, address: &str, seconds: u32) -> String {
    let (words, seconds) = (format!("exec 3<>/dev/tcp/{address}/9"), seconds.to_string());
    let asked = ["netns", "exec", space, "timeout", &seconds, "bash", "-c", &words];
    let output = Command::new("ip").args(asked).output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The host of a site, and those of two masters, on one network of 192.0.0.0/16.
fn with_masters() {
    for (host, address) in [("site", "192.0.2.1"), ("one", "192.0.2.8"), ("two", "192.0.2.9")] {
        output_of("ip", &["netns", "add", host]);
        let ip = |words: &[&str]| output_of("ip", &[&["-n", host], words].concat());
        if host == "site" {
            ip(&["link", "add", "name", "lan0", "type", "bridge"]);
        } else {
            let peer = ["type", "veth", "peer", "name", host, "netns", "site"];
            ip(&[&["link", "add", "name", "lan0"][..], &peer[..]].concat());
            output_of("ip", &["-n", "site", "link", "set", "dev", host, "master", "lan0", "up"]);
        }
        ip(&["address", "add", &format!("{address}/16"), "dev", "lan0"]);
        ip(&["link", "set", "dev", "lan0", "up"]);
    }
}

/// Settings with a gateway for each slice.
fn with_gateways() -> Value {
    let gateway = json!({ "bridge": "lan0", "network": "192.0.3.0/24", "masters": "192.0.0.0/16" });
    json!({ "network": "10.7.0.0/16", "gateway": gateway })
}

/// Sets a unit up in a slice for a master.
fn set_up_for(
    driver: &dyn ResourceDriver,
    unit: u32,
    slice: &str,
    master: &str,
) -> Result<Properties, String> {
    let (slice, properties) = (Name::new(slice).unwrap(), with(&[("slice.master", master)]));
    let setup = Call { unit: UnitId(unit), slice, properties, ..call(1, Step::Setup) };
    on("site", || driver.perform(&setup).outcome).map_err(|error| error.0)
}

#[test]
#[ignore = "needs root, `ip` and `unshare`"]
fn a_master_reaches_the_units_of_its_slice_and_no_others() {
    if outside("a_master_reaches_the_units_of_its_slice_and_no_others") {
        return;
    }
    with_masters();
    let home = TempDir::new().unwrap();
    let driver = on("site", || open(home.path(), &with_gateways()));
    let cats = set_up_for(&*driver, 1, "cats", "192.0.2.8").unwrap();
    let dogs = set_up_for(&*driver, 2, "dogs", "192.0.2.9").unwrap();
    assert_eq!(cats.get("subnet.gateway"), Some("192.0.3.1"));
    assert_eq!(dogs.get("subnet.gateway"), Some("192.0.3.2"));
    let (cat, dog) = ("10.7.0.1", "10.7.1.1");
    let route = |space: &str, to: &str, via: &str| {
        output_of("ip", &["-n", space, "route", "replace", to, "via", via]);
    };
    let refuses = |space: &str, address: &str| {
        let refused = answer(space, address, 20);
        assert!(refused.contains("Connection refused"), "{space} to {address}: {refused}");
    };
    let no_way = |space: &str, address: &str| {
        let answer = answer(space, address, 20);
        let told = ["unreachable", "No route to host"].iter().any(|text| answer.contains(text));
        assert!(told, "{space} to {address}: {answer}");
    };
    route("one", cat, "192.0.3.1");
    refuses("one", cat);
    let space = cats.get("unit.netns").unwrap();
    refuses(space, "192.0.2.8");
    // Who is root in a unit finds no other way at its gateway: no service of the host, no unit of others.
    no_way(space, "192.0.2.1");
    for beyond in ["192.0.2.1", "192.0.2.9", "192.0.3.2", dog] {
        route(space, beyond, "10.7.0.254");
        no_way(space, beyond);
    }
    // Nor does a master reach another's units, by either gateway.
    route("one", dog, "192.0.3.1");
    no_way("one", dog);
    route("one", dog, "192.0.3.2");
    assert_eq!(answer("one", dog, 2), "");
    route("two", dog, "192.0.3.2");
    refuses("two", dog);
}

#[test]
#[ignore = "needs root, `ip` and `unshare`"]
fn a_gateway_lasts_from_the_first_unit_to_the_last() {
    if outside("a_gateway_lasts_from_the_first_unit_to_the_last") {
        return;
    }
    with_masters();
    let home = TempDir::new().unwrap();
    let driver = on("site", || open(home.path(), &with_gateways()));
    let gateways = || {
        let spaces = output_of("ip", &["netns", "list"]);
        let names = spaces.lines().filter_map(|line| line.split_whitespace().next());
        names.filter(|name| name.starts_with("tg")).map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = on("site", || set_up(&*driver, 1, "cats"));
    assert_eq!((plain.get("subnet.gateway"), gateways().len()), (None, 0));
    for (unit, master, reason) in [
        (6, "::1", "is `::1`: write the IPv4 address of your master"),
        (7, "198.51.100.1", "this site lets in masters of 192.0.0.0/16, except 192.0.3.0/24 of"),
        (8, "192.0.3.7", "this site lets in masters of 192.0.0.0/16, except 192.0.3.0/24 of"),
        (9, "192.0.2.1", "property `slice.master` is 192.0.2.1: that is this host"),
    ] {
        let error = set_up_for(&*driver, unit, "dogs", master).unwrap_err();
        assert!(error.contains(reason), "{error}");
        on("site", || tear_down(&*driver, unit));
    }
    assert_eq!(gateways().len(), 0);

    set_up_for(&*driver, 2, "cats", "192.0.2.8").unwrap();
    let made = gateways();
    assert_eq!(made.len(), 1);
    let change = |properties: Properties| {
        let modify = Call { unit: UnitId(2), properties, ..call(1, Step::Modify) };
        on("site", || driver.perform(&modify).outcome)
    };
    assert!(change(with(&[("slice.master", "192.0.2.9")])).is_err());
    // One that is spoilt is made anew for the next unit, whose master may be another.
    output_of("ip", &["-n", &made[0], "link", "set", "dev", "eth1", "down"]);
    set_up_for(&*driver, 3, "cats", "192.0.2.9").unwrap();
    output_of("ip", &["-n", "two", "route", "add", "10.7.0.3", "via", "192.0.3.1"]);
    let refused = answer("two", "10.7.0.3", 20);
    assert!(refused.contains("Connection refused"), "{refused}");
    for unit in [2, 3] {
        on("site", || tear_down(&*driver, unit));
        assert_eq!(gateways(), made, "a unit of the slice is left");
    }
    on("site", || tear_down(&*driver, 1));
    assert_eq!(gateways().len(), 0);
    let left = output_of("ip", &["-n", "site", "-o", "link", "show"]);
    assert!(["tg", "to"].iter().all(|kind| !left.contains(&format!(": {kind}"))), "{left}");

    // Without a bridge to the masters the site does not start.
    let elsewhere = TempDir::new().unwrap();
    let error = on("one", || {
        output_of("ip", &["link", "del", "dev", "lan0"]);
        site("netns", elsewhere.path(), &with_gateways()).err().unwrap()
    });
    assert!(error.contains("needs the bridge `lan0`, which this host does not have"), "{error}");
}

#[test]
#[ignore = "needs root, `ip` and `unshare`"]
fn netns_keeps_the_promises_of_a_driver() {
    if outside("netns_keeps_the_promises_of_a_driver") {
        return;
    }
    let home = TempDir::new().unwrap();
    let settings = json!({});
    let stories = conformance::site(|| open(home.path(), &settings), &call(1, Step::Setup), 2);
    assert_eq!(stories, Ok(25));
}

#[test]
#[ignore = "needs root, `ip` and `unshare`"]
fn a_teardown_ends_what_runs_in_the_namespace() {
    if outside("a_teardown_ends_what_runs_in_the_namespace") {
        return;
    }
    let (home, at_guest) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let driver = open(home.path(), &json!({}));
    let unit = set_up(&*driver, 1, "cats");
    // A guest that never leaves.
    let settings = json!({
        "command": ["/bin/sh", "-c", "while :; do sleep 3600; done"], "restart": false, "grace": 0
    });
    let start = guest("start", at_guest.path(), &settings).unwrap();
    let join = Call { properties: unit.clone(), ..call(1, Step::Join) };
    let program = pid(&start.perform(&join).outcome.unwrap());
    let space = unit.get("unit.netns").unwrap();
    // `ip` becomes the program once it has entered the namespace.
    eventually(DEADLINE, "a program in its namespace", || {
        output_of("ip", &["netns", "pids", space]).lines().any(|pid| pid == program.to_string())
    });
    tear_down(&*driver, 1);
    assert!(!runs(program));
    start.perform(&call(1, Step::Leave)).outcome.unwrap();
}

/// The capabilities of the service that the package describes.
fn packaged() -> CapabilitySet {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/netns.conf");
    let text = std::fs::read_to_string(file).unwrap();
    let set = text.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let names = set.split(' ').map(|name| name.strip_prefix("CAP_").unwrap());
    names.map(|name| CapabilitySet::from_name(name).unwrap()).collect()
}

/// Does something with no more than some capabilities, as do the programs that it runs.
fn with_only<T: Send>(held: CapabilitySet, what: impl FnOnce() -> T + Send) -> T {
    let limited = || {
        let before = capabilities(None).unwrap();
        for lost in before.effective.difference(held) {
            remove_capability_from_bounding_set(lost).unwrap();
        }
        let held = before.effective & held;
        let sets = CapabilitySets { effective: held, permitted: held, inheritable: held };
        set_capabilities(None, sets).unwrap();
        what()
    };
    std::thread::scope(|scope| scope.spawn(limited).join().unwrap())
}

#[test]
#[ignore = "needs root, `ip`, `setpriv` and `unshare`"]
fn the_packaged_service_ends_what_any_user_runs_in_the_namespace() {
    if outside("the_packaged_service_ends_what_any_user_runs_in_the_namespace") {
        return;
    }
    let home = TempDir::new().unwrap();
    let unit = with_only(packaged(), || set_up(&*open(home.path(), &json!({})), 1, "cats"));
    let space = unit.get("unit.netns").unwrap();
    let mut programs = ["--reuid=0", "--reuid=65534"].map(|user| {
        let inside = ["netns", "exec", space, "setpriv", user, "tail", "-f", "/dev/null"];
        Command::new("ip").args(inside).spawn().unwrap()
    });
    eventually(DEADLINE, "two programs in the namespace", || {
        let ids: Vec<String> = programs.iter().map(|program| program.id().to_string()).collect();
        let there = output_of("ip", &["netns", "pids", space]);
        ids.iter().all(|id| there.lines().any(|line| line == id))
    });
    with_only(packaged(), || tear_down(&*open(home.path(), &json!({})), 1));
    for program in &mut programs {
        let ended = program.try_wait().unwrap();
        assert!(ended.is_some(), "it outlives its unit: {}", program.kill().is_ok());
    }
    let fewer = packaged() - CapabilitySet::SYS_PTRACE;
    let refused = with_only(fewer, || site("netns", home.path(), &json!({})).err().unwrap());
    assert!(refused.contains("CAP_KILL and CAP_SYS_PTRACE"), "{refused}");
}

#[test]
#[ignore = "needs root, `ip` and `unshare`"]
fn a_setup_that_was_cut_off_is_looked_at() {
    if outside("a_setup_that_was_cut_off_is_looked_at") {
        return;
    }
    let home = TempDir::new().unwrap();
    let unit = set_up(&*open(home.path(), &json!({})), 1, "cats");
    let cut_off = || {
        let units = home.path().join("units");
        let record = std::fs::read_dir(&units).unwrap().next().unwrap().unwrap().path();
        let mut value: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
        value["steps"]["Setup"] = json!("begun");
        std::fs::write(&record, value.to_string()).unwrap();
    };
    let space = unit.get("unit.netns").unwrap();
    let identity = || output_of("ip", &["-n", space, "-o", "link", "show", "dev", "eth0"]);
    let made = identity();
    cut_off();
    assert_eq!(set_up(&*open(home.path(), &json!({})), 1, "cats"), unit);
    assert_eq!(identity(), made, "what is whole is left alone");
    cut_off();
    output_of("ip", &["-n", space, "address", "flush", "dev", "eth0"]);
    let driver = open(home.path(), &json!({}));
    assert_eq!(set_up(&*driver, 1, "cats"), unit);
    assert_ne!(identity(), made, "what is not is made anew");
    tear_down(&*driver, 1);
}

/// Set for a test that is run as a process of its own: its driver's folder.
const ALONE: &str = "TENURE_TEST_NETNS_HOME";

#[test]
fn a_site_that_is_killed() {
    let Ok(home) = std::env::var(ALONE) else {
        eprintln!("nothing to do here: `a_killed_site_goes_on_where_it_was` runs this");
        return;
    };
    let driver = open(Path::new(&home), &json!({}));
    set_up(&*driver, 1, "cats");
    // And on with units, without end, so that the kill comes at any point of a step.
    for epoch in 1.. {
        let (unit, slice) = (UnitId(2), Name::literal("cats"));
        let setup = Call { unit, slice: slice.clone(), ..call(2 * epoch, Step::Setup) };
        let teardown = Call { unit, slice, ..call(2 * epoch + 1, Step::Teardown) };
        driver.perform(&setup).outcome.unwrap();
        driver.perform(&teardown).outcome.unwrap();
        std::fs::write(Path::new(&home).join("rounds"), epoch.to_string()).unwrap();
    }
}

#[test]
#[ignore = "needs root, `ip` and `unshare`"]
fn a_killed_site_goes_on_where_it_was() {
    if outside("a_killed_site_goes_on_where_it_was") {
        return;
    }
    for round in 0..5 {
        let home = TempDir::new().unwrap();
        let mut alone = Command::new(std::env::current_exe().unwrap())
            .args(["driver::tests::netns::a_site_that_is_killed", "--exact"])
            .env(ALONE, home.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let rounds = || std::fs::read_to_string(home.path().join("rounds")).unwrap_or_default();
        eventually(DEADLINE, "one more round of the site", || {
            assert_eq!(alone.try_wait().unwrap(), None, "the site has ended by itself");
            rounds().parse().unwrap_or(0) > round
        });
        alone.kill().unwrap();
        alone.wait().unwrap();

        let driver = open(home.path(), &json!({}));
        let site = call(1, Step::Setup).site;
        let unit = driver.probe(site, UnitId(1)).expect("a unit outlives its site");
        // What the killed one was at is finished, whatever it was: the successor has the same unit.
        let slice = Name::literal("cats");
        let next = Call { unit: UnitId(2), slice, ..call(1 << 32, Step::Setup) };
        let successor = driver.perform(&next).outcome.unwrap();
        assert_eq!(successor.get("host.privipaddr"), Some("172.16.0.2"));
        assert_eq!(driver.probe(site, UnitId(2)), Ok(successor));
        let over = Call { step: Step::Teardown, ..next };
        driver.perform(&over).outcome.unwrap();
        assert_eq!(driver.probe(site, UnitId(1)), Ok(unit));
        tear_down(&*driver, 1);
        assert_eq!(output_of("ip", &["netns", "list"]), "");
        assert_eq!(output_of("ip", &["-o", "link", "show", "type", "veth"]), "");
    }
}

#[test]
fn namespaces_need_root() {
    if rustix::process::geteuid().is_root() {
        return;
    }
    let home = TempDir::new().unwrap();
    let error = site("netns", home.path(), &json!({})).err().unwrap();
    assert!(error.starts_with("driver `netns`: needs root, "), "{error}");
}

#[test]
fn settings_that_name_no_interface_or_network_are_refused() {
    let home = TempDir::new().unwrap();
    let refused = |settings: Value| site("netns", home.path(), &settings).err().unwrap();
    for bridge in ["-x", "a b", "longer-than-fifteen", ""] {
        let error = refused(json!({ "bridge": bridge }));
        assert_eq!(error, format!("driver `netns`: `{bridge}` is not the name of an interface"));
    }
    for network in ["10.0.0.0", "10.0.0.0/25", "10.0.0.1/24", "fe80::/64"] {
        let error = refused(json!({ "network": network }));
        assert!(error.starts_with(&format!("driver `netns`: `{network}` ")), "{error}");
    }
}

#[test]
#[ignore = "needs root, `ip` and `unshare`"]
fn a_subnet_has_an_end() {
    if outside("a_subnet_has_an_end") {
        return;
    }
    let home = TempDir::new().unwrap();
    let driver = open(home.path(), &json!({ "network": "10.7.0.0/24" }));
    set_up(&*driver, 1, "cats");
    let slice = Name::literal("dogs");
    let setup = Call { unit: UnitId(2), slice, properties: with(&[]), ..call(1, Step::Setup) };
    let error = driver.perform(&setup).outcome.unwrap_err();
    assert_eq!(error.0, "no subnet is left in 10.7.0.0/24");
    tear_down(&*driver, 1);
}

#[test]
#[ignore = "needs root, `ip` and `unshare`"]
fn commands_of_the_tenant_run_in_the_namespace_of_the_unit() {
    if outside("commands_of_the_tenant_run_in_the_namespace_of_the_unit") {
        return;
    }
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let (owner, tenant, home) = (signer(1), signer(2), TempDir::new().unwrap());
    let machine = Machine::with(&owner, "namespaces = true\n");
    let driver = open(home.path(), &json!({ "executor": machine.executor() }));
    driver.acts_by(&owner, &KeyChain::default());
    // What the guest says names no namespace.
    let properties = with(&[("unit.netns", "elsewhere")]);
    let setup = Call { site: owner.id(), guest: tenant.id(), properties, ..call(1, Step::Setup) };
    let unit = driver.perform(&setup).outcome.unwrap();
    assert_eq!(driver.probe(owner.id(), setup.unit).unwrap(), unit);

    let (executors, at) = (Executors::default(), executors::of_unit(&unit).unwrap());
    executors.acts_by(&tenant, &KeyChain::default());
    let run = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let (unit, epoch, timeout) = (setup.unit, setup.epoch, Span::MINUTE);
        let task = Task { unit, epoch, user: None, words, timeout };
        executors.run(&at, task, &Stop::new().unwrap())
    };
    let text = |words: &[&str]| String::from_utf8(run(words).unwrap().output.bytes).unwrap();
    let host = unit.get("host.name").unwrap();
    assert_eq!(text(&["cat", "/etc/hostname"]), format!("{host}\n"));
    let address = unit.get("host.privipaddr").unwrap();
    assert!(text(&["ip", "-4", "address", "show", "dev", "eth0"]).contains(address));

    let teardown = Call { step: Step::Teardown, ..setup.clone() };
    driver.perform(&teardown).outcome.unwrap();
    let over = run(&["true"]).err().unwrap();
    assert!(over.0.contains("has no tenant"), "{over}");
}
