//! Files, names and the control API: what is put in place of something else, and what names are to smuggle in.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use rustix::process::{Uid, geteuid};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_tests::tenure;
use tenure_wait::{DEADLINE, done_in_time, eventually};

use super::{Attack, PATIENCE, all_are_turned_away};
use crate::deployment::{Deployment, ended, stderr, up};

const CONFIG: &str = "\
snapshot-after = 20
archive-after = 10
[site.alpha]
units = 2
quarantine-after = 0
driver = { name = \"process\" }
[broker.exchange]
[service-manager.guest]
";

fn life(deployment: &Deployment) {
    let lease = deployment.json("lease request 1 --for 1h --wait")[0]["lease"].clone();
    deployment.json(&format!("lease close {} --wait", lease.as_str().expect("a name")));
}

/// The data folder of a deployment that was stopped, and a backup of it.
struct Home {
    place: TempDir,
}

impl Home {
    fn new() -> Self {
        let place = tempfile::tempdir().expect("a folder");
        let data = place.path().join("data");
        fs::create_dir(&data).expect("a folder");
        let data = tempfile::tempdir_in(&data).expect("a folder");
        let mut deployment = Deployment::of(CONFIG, data);
        eventually(DEADLINE, "an archive", || {
            life(&deployment);
            segment(deployment.data.path(), "guest").exists()
                && segment(deployment.data.path(), "exchange").exists()
        });
        assert_eq!(deployment.end("-TERM"), Some(0));
        let home = Self { place };
        copy(deployment.data.path(), &home.at("home"));
        let made = command(&["backup", "--keys"], &[&home.at("backup"), &home.at("home")]);
        assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
        deployment.restart_up();
        home
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// What is said at a start with a changed copy of the data folder.
    fn started(&self, change: impl FnOnce(&Path)) -> String {
        let home = self.copied("home");
        change(home.path());
        let mut process = up(CONFIG, home.path()).spawn().expect("a deployment");
        ended(&mut process);
        fs::read_to_string(home.path().join("log")).expect("a log")
    }

    /// What is said of the journals of a changed copy of it.
    fn verified(&self, change: impl FnOnce(&Path)) -> String {
        let home = self.copied("home");
        change(home.path());
        stderr(&command_on(&["journal", "verify"], &[&home.path().join("journals")]))
    }

    /// What is said to a changed copy of the backup.
    fn restored(&self, change: impl FnOnce(&Path)) -> String {
        let backup = self.copied("backup");
        change(backup.path());
        let output = command(&["restore"], &[backup.path(), &backup.path().join("new")]);
        assert!(!backup.path().join("new").exists(), "a folder was made");
        stderr(&output)
    }

    fn copied(&self, what: &str) -> TempDir {
        let to = tempfile::tempdir_in(self.place.path()).expect("a folder");
        copy(&self.at(what), to.path());
        to
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-aT").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()));
}

/// Runs a command that is given a file or folder, and one that is given the data folder too.
fn command_on(words: &[&str], paths: &[&Path]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("120").arg(tenure()).args(words).args(paths).output().expect("the command runs")
}

fn command(words: &[&str], paths: &[&Path; 2]) -> Output {
    command_on(words, &[paths[0], Path::new("--data"), paths[1]])
}

fn segment(data: &Path, actor: &str) -> PathBuf {
    data.join(format!("journals/{actor}.db-archive/00000000.segment"))
}

/// Lists a file in a backup with another hash.
fn list(backup: &Path, file: &str, hash: &str) {
    let path = backup.join("backup.json");
    let mut contents: Value =
        serde_json::from_slice(&fs::read(&path).expect("a list")).expect("JSON");
    contents["files"][file] = hash.into();
    fs::write(&path, contents.to_string()).expect("a list");
}

/// The SHA-256 of no bytes.
const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// How much a thousandth of it inflates to.
const BOMB: usize = 64 << 20;

const OF_FILES: &[Attack<Home>] = &[
    ("the journal of another actor", "is the journal of service manager `guest`", |home| {
        home.started(|data| {
            let [guest, exchange] =
                ["guest", "exchange"].map(|actor| data.join(format!("journals/{actor}.db")));
            fs::copy(guest, exchange).map(drop).expect("a copy");
        })
    }),
    ("the key of another actor", "exchange", |home| {
        home.started(|data| {
            fs::copy(data.join("keys/guest"), data.join("keys/exchange"))
                .map(drop)
                .expect("a copy");
        })
    }),
    ("a key that others have read", "can be read by others", |home| {
        home.started(|data| {
            let open = fs::Permissions::from_mode(0o644);
            fs::set_permissions(data.join("keys/guest"), open).expect("its mode");
        })
    }),
    ("a key that is none", "holds no key", |home| {
        home.started(|data| fs::write(data.join("keys/guest"), "../../etc/passwd").expect("a file"))
    }),
    (
        "the segment of another actor's archive",
        "its head is not the one that the journal names",
        |home| {
            home.verified(|data| {
                fs::copy(segment(data, "exchange"), segment(data, "guest"))
                    .map(drop)
                    .expect("a copy");
            })
        },
    ),
    ("a segment that inflates without end", "it is cut or extended", |home| {
        home.verified(|data| {
            let file = segment(data, "guest");
            let bytes = fs::read(&file).expect("a segment");
            // Behind the head begins a stream of zlib.
            let at = bytes.windows(2).rposition(|pair| pair == [0x78, 0x9c]).expect("a stream");
            let mut bomb = ZlibEncoder::new(bytes[..at].to_vec(), Compression::fast());
            bomb.write_all(&vec![0; BOMB]).expect("memory");
            fs::write(&file, bomb.finish().expect("memory")).expect("a segment");
        })
    }),
    ("a backup that names a file outside", "a file outside of it", |home| {
        home.restored(|backup| list(backup, "drivers/../../../etc/cron.d/evil", OF_NOTHING))
    }),
    ("a backup with a link in place of a file", "not a regular file", |home| {
        home.restored(|backup| {
            symlink("/etc/hostname", backup.join("drivers/link")).expect("a link");
            list(backup, "drivers/link", OF_NOTHING);
        })
    }),
    ("a backup with a device in place of a file", "not a regular file", |home| {
        home.restored(|backup| {
            symlink("/dev/zero", backup.join("drivers/zeros")).expect("a link");
            list(backup, "drivers/zeros", OF_NOTHING);
        })
    }),
    ("a log that inflates without end", "inflates to more than", |home| {
        let log = home.at("bomb.swf.gz");
        let mut member = GzEncoder::new(Vec::new(), Compression::fast());
        let line = format!(";{}\n", " ".repeat(4094));
        member.write_all(line.repeat(BOMB / line.len()).as_bytes()).expect("memory");
        // Members follow each other.
        fs::write(&log, member.finish().expect("memory").repeat(40)).expect("a log");
        stderr(&command_on(&["workload", "show"], &[&log]))
    }),
    ("a configuration with a name for another folder", "is not a name", |home| {
        let config = home.at("evil.toml");
        fs::write(&config, CONFIG.replace("site.alpha", "site.\"../alpha\"")).expect("a file");
        stderr(&command(&["up", "--config"], &[&config, &home.at("never")]))
    }),
    ("a configuration of nothing but brackets", "evil.toml", |home| {
        let config = home.at("evil.toml");
        fs::write(&config, format!("a = {}", "[".repeat(100_000))).expect("a file");
        stderr(&command(&["up", "--config"], &[&config, &home.at("never")]))
    }),
    ("an actor whose key is the later one of another", "a later key of `alpha`", |home| {
        let config = home.at("evil.toml");
        let twice = "[site.alpha]\nunits = 1\n[site.\"alpha.2\"]\nunits = 1\n[broker.exchange]\n";
        fs::write(&config, twice).expect("a file");
        stderr(&command(&["up", "--config"], &[&config, &home.at("never")]))
    }),
];

#[test]
fn files_that_stand_in_for_others_are_told_from_them() {
    all_are_turned_away(OF_FILES, &Home::new());
}

/// A line to the control API, and what is answered first.
fn asked(deployment: &Deployment, line: &[u8]) -> String {
    let socket = deployment.data.path().join("tenure.sock");
    let mut stream = UnixStream::connect(socket).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    // What is too long is not read to its end.
    drop(stream.write_all(line).and_then(|()| stream.write_all(b"\n")));
    let mut answer = String::new();
    drop(BufReader::new(stream).read_line(&mut answer));
    if answer.is_empty() { "closed".to_owned() } else { answer }
}

/// What a request with this property comes to.
fn with_property(deployment: &Deployment, property: &str) -> String {
    let command = format!("lease request 1 --for 10m --property '{property}' --wait");
    let output = deployment.tenure(&command);
    deployment.close_all();
    deployment.becomes_clean();
    stderr(&output)
}

const OF_NAMES: &[Attack<Deployment>] = &[
    ("a slice outside of its folder", "is not a name", |at| {
        stderr(&at.tenure("lease request 1 --for 10m --slice ../../escape"))
    }),
    ("a slice that is an option", "is not a name", |at| {
        stderr(&at.tenure("lease request 1 --for 10m --slice=--data=/"))
    }),
    ("a guest outside of its folder", "../guest", |at| {
        stderr(&at.tenure("lease request 1 --for 10m --as ../guest"))
    }),
    ("a key outside of its folder", "is not a name", |at| stderr(&at.tenure("keys new ../escape"))),
    ("a property with a name outside", "is not a name", |at| {
        stderr(&at.tenure("lease request 1 --for 10m --property ../a=b"))
    }),
    ("a host name with a path", "0 of 1 units could be set up", |at| {
        with_property(at, "host.prefix=../../x")
    }),
    ("a host name with a second line", "0 of 1 units could be set up", |at| {
        with_property(at, "host.prefix=a\n1.2.3.4 b")
    }),
    ("a host name that is an option", "0 of 1 units could be set up", |at| {
        with_property(at, "host.prefix=-oProxy")
    }),
    ("a subnet with a command", "0 of 1 units could be set up", |at| {
        with_property(at, "subnet.name=$(reboot)")
    }),
    ("a ticket's hash with a path", "no ticket", |at| stderr(&at.tenure("ticket show ../../keys"))),
    ("no JSON to the control API", "makes no sense", |at| asked(at, b"GET / HTTP/1.1\r\n\r")),
    ("a verb that is none", "makes no sense", |at| asked(at, br#"{"do":"shutdown; reboot"}"#)),
    ("bytes that are no text", "makes no sense", |at| asked(at, &[b'{', 0xff, 0, 0xfe])),
    ("brackets without end", "makes no sense", |at| asked(at, &vec![b'['; 50_000])),
    ("a number beyond all numbers", "makes no sense", |at| {
        asked(at, br#"{"do":"leases","limit":1e400}"#)
    }),
    ("a line without end", "closed", |at| asked(at, &vec![b' '; 64 << 20])),
    ("a name with a path in a request", "is not a name", |at| {
        let request = json!({"do": "leases", "manager": "../../x"});
        asked(at, request.to_string().as_bytes())
    }),
];

#[test]
fn names_and_lines_smuggle_nothing_in() {
    let deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    all_are_turned_away(OF_NAMES, &deployment);
    let asked = deployment.json("lease why guest/1").to_string();
    assert!(asked.contains("host.prefix"), "{asked}");
    life(&deployment);
}

/// The program of a unit lays links into its folder, to where its site would write or clean up.
#[test]
fn links_in_the_folder_of_a_unit_lead_nowhere() {
    let place = tempfile::tempdir().expect("a folder");
    let victim = place.path().join("victim");
    fs::create_dir(&victim).expect("a folder");
    for file in ["kept", "warned", "aside"] {
        fs::write(victim.join(file), "untouched").expect("a file");
    }
    let at = victim.display();
    let program = format!(
        "ln -s {at} all; ln -s {at}/warned warning.json; ln -s {at}/aside warning.new; \
         while :; do sleep 1000; done"
    );
    let config = CONFIG.replace(
        "driver = { name = \"process\" }",
        &format!(
            "driver = {{ name = \"process\", command = [\"/bin/sh\", \"-c\", \"{program}\"] }}"
        ),
    );
    let deployment = Deployment::of(&config, tempfile::tempdir().expect("a folder"));
    let lease = deployment.json("lease request 1 --for 1h --notice 1s --wait");
    let folder = lease[0]["in_hand"][0]["properties"]["unit.directory"].as_str().expect("a folder");
    let folder = PathBuf::from(folder);
    eventually(DEADLINE, "links", || folder.join("warning.new").is_symlink());
    let ticket = deployment.lease("guest/1")["tickets"][0].as_str().expect("a ticket").to_owned();
    deployment.json(&format!("ticket recall {ticket} --units 0"));
    eventually(DEADLINE, "the end of the unit", || !folder.exists());
    for file in ["kept", "warned", "aside"] {
        assert_eq!(fs::read_to_string(victim.join(file)).expect("a file"), "untouched", "{file}");
    }
    deployment.becomes_clean();
}

/// As root on the credentials of another user; otherwise there is none.
#[test]
fn the_socket_of_another_user_is_closed_wherever_it_lies() {
    if !geteuid().is_root() {
        println!("not root: there is no other user to be");
        return;
    }
    let deployment = Deployment::of(CONFIG, tempfile::tempdir().expect("a folder"));
    let socket = deployment.data.path().join("tenure.sock");
    // An owner has made it reachable for all.
    let open = tempfile::tempdir().expect("a folder");
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let linked = open.path().join("socket");
    fs::hard_link(&socket, &linked).expect("a link");
    fs::set_permissions(&linked, fs::Permissions::from_mode(0o777)).expect("its mode");
    let as_another = move || {
        // Of this thread alone.
        rustix::thread::set_thread_uid(Uid::from_raw(65534)).expect("another user");
        let closed = UnixStream::connect(&socket).map_err(|error| error.kind());
        let mut stream = UnixStream::connect(&linked).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
        drop(stream.write_all(b"{\"do\":\"status\"}\n"));
        let mut answer = String::new();
        drop(stream.read_to_string(&mut answer));
        (closed.map(drop), answer)
    };
    let (closed, answer) = done_in_time(DEADLINE, "two answers", as_another);
    assert_eq!(closed, Err(std::io::ErrorKind::PermissionDenied));
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(answer["error"]["code"], "denied", "{answer}");
    assert!(answer.get("ok").is_none());
    assert!(deployment.log().contains("user 65534 was turned away"), "{}", deployment.log());
}

/// Whoever could write into the data folder before it was one has laid a link where the socket goes.
#[test]
fn a_link_where_the_socket_is_to_be_loses_no_file() {
    let (data, other) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let kept = other.path().join("kept");
    fs::write(&kept, "untouched").expect("a file");
    symlink(&kept, data.path().join("tenure.sock")).expect("a link");
    let deployment = Deployment::of(CONFIG, data);
    life(&deployment);
    assert_eq!(fs::read_to_string(&kept).expect("a file"), "untouched");
}
