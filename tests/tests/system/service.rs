//! A deployment as a service: its log, its figures over HTTP, and the group that may use its socket.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::{root, tenure};
use tenure_wait::{DEADLINE, done_in_time, eventually};

use crate::deployment::{Deployment, ready, stderr, up};
use crate::exposition;

const CONFIG: &str = "[site.alpha]\nunits = 2\n[broker.exchange]\n[service-manager.guest]\n";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A deployment with this line above its configuration.
fn with(line: &str) -> Deployment {
    Deployment::of(&format!("{line}\n{CONFIG}"), folder())
}

/// What is wrong with a configuration with this line above it.
fn checked(line: &str) -> (Option<i32>, String) {
    let folder = folder();
    let file = folder.path().join("live.toml");
    fs::write(&file, format!("{line}\n{CONFIG}")).expect("a file");
    let output = Command::new(tenure()).args(["config", "check"]).arg(&file).output();
    let output = output.expect("the command runs");
    (output.status.code(), stderr(&output))
}

/// Sends bytes to an address, and reads what comes until the end.
fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let bytes = bytes.to_owned();
    done_in_time(DEADLINE, "an answer and its end", move || {
        let mut stream = TcpStream::connect(address).expect("a connection");
        // Who is cut off has not always been read.
        let _ = stream.write_all(&bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).expect("text")
    })
}

/// Where a deployment says that it serves figures.
fn address(deployment: &Deployment) -> SocketAddr {
    let log = deployment.log();
    let line = log.lines().find(|line| line.contains("metrics are served"));
    let address = line.and_then(|line| line.split("address=").nth(1)).expect("a line of the log");
    address.trim().parse().expect("an address")
}

#[test]
fn figures_are_served_to_prometheus_and_nothing_else_is() {
    let deployment = with("metrics = \"127.0.0.1:0\"");
    deployment.json("lease request 1 --for 1h --wait");
    let address = address(&deployment);
    let answer = exchange(address, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert_eq!(exposition::check(text), Ok(()));
    assert!(text.contains("tenure_facts_total{actor=\"guest\""), "{text}");
    passes_promtool(text);
    for (request, status) in [
        ("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "200"),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "405"),
        ("GET /metrics/.. HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "404"),
        ("GET / HTTP/1.0\r\n\r\n".to_owned(), "404"),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000)), "431"),
        (format!("GET /metrics HTTP/1.1\r\na: {}\r\n\r\n", "a".repeat(20_000)), "431"),
        (format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100)), "431"),
        ("what?\r\n\r\n".to_owned(), "400"),
    ] {
        let answer = exchange(address, request.as_bytes());
        let begin: String = request.chars().take(40).collect();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} "))
                || answer.starts_with(&format!("HTTP/1.0 {status} ")),
            "{begin}: {answer}"
        );
        assert!(!answer.contains("tenure_facts"), "{begin}");
    }
    // Who begins and says no more is hung up on, and keeps others from nothing meanwhile.
    let mut silent = TcpStream::connect(address).expect("a connection");
    silent.write_all(b"GET /metrics HTTP/1.1\r\nHost:").expect("half a head");
    let again = exchange(address, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(again.starts_with("HTTP/1.1 200 "), "{again}");
    let rest = move || silent.read_to_end(&mut Vec::new());
    drop(done_in_time(DEADLINE, "the end of a silent connection", rest));
}

/// Where there is a promtool it finds nothing wrong.
fn passes_promtool(text: &str) {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut promtool) = command.stdout(Stdio::piped()).spawn() else {
        return println!("there is no promtool here: the figures were checked by the test alone");
    };
    promtool.stdin.take().expect("its input").write_all(text.as_bytes()).expect("room");
    let output = promtool.wait_with_output().expect("its end");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn figures_are_for_this_machine_alone_and_need_a_free_port() {
    for address in ["0.0.0.0:9464", "192.0.2.1:9464", "[::]:9464", "[::ffff:127.0.0.1]:9464"] {
        let (code, error) = checked(&format!("metrics = \"{address}\""));
        assert_eq!(code, Some(1), "{address}: {error}");
        assert!(error.contains(":1:11") && error.contains("must be on loopback"), "{error}");
        assert!(error.contains("127.0.0.1:9464"), "{error}");
    }
    for address in ["127.0.0.1:9464", "127.8.0.1:9464", "[::1]:9464"] {
        assert_eq!(checked(&format!("metrics = \"{address}\"")).0, Some(0), "{address}");
    }
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let taken_at = taken.local_addr().expect("an address");
    let mut deployment = with("");
    assert_eq!(deployment.end("-TERM"), Some(0));
    let failed = deployment.fails_with(&format!("metrics = \"{taken_at}\"\n{CONFIG}"));
    let error = stderr(&failed);
    assert_eq!(failed.status.code(), Some(1), "{error}");
    assert!(error.contains(&format!("metrics cannot be served at {taken_at}")), "{error}");
    deployment.restart_with(CONFIG);
}

/// The lines of a log about a lease.
fn about<'a>(log: &'a str, kind: &str) -> Vec<&'a str> {
    log.lines().filter(|line| line.contains(kind)).collect()
}

#[test]
fn a_deployment_logs_what_leases_come_to_with_their_names() {
    let deployment = with("");
    deployment.json("lease request 1 --for 1h --wait");
    deployment.json("lease close 1 --wait");
    let kinds = [
        "service-manager.asked",
        "broker.tickets-cut",
        "site.lease-activated",
        "service-manager.leased",
        "site.lease-closed",
    ];
    for kind in kinds {
        let lines = eventually(DEADLINE, kind, || {
            let log = deployment.log();
            let lines = about(&log, kind).into_iter().map(str::to_owned).collect::<Vec<_>>();
            (!lines.is_empty()).then_some(lines)
        });
        assert!(lines.iter().all(|line| line.contains(" lease=guest/1 ")), "{lines:?}");
    }
    assert!(!deployment.log().contains("DEBUG"), "{}", deployment.log());
}

#[test]
fn a_log_can_be_json() {
    let data = folder();
    let mut command = up(CONFIG, data.path());
    command.args(["--log-format", "json"]);
    let deployment = Deployment { process: ready(command), data };
    deployment.json("lease request 1 --for 1h --wait");
    let lines = eventually(DEADLINE, "a lease in the log", || {
        let log = deployment.log();
        let whole = log.lines().filter(|_| log.ends_with('\n'));
        let lines: Vec<Value> =
            whole.map(|line| serde_json::from_str(line).expect("JSON")).collect();
        lines.iter().any(|line| line["kind"] == "site.lease-activated").then_some(lines)
    });
    for line in &lines {
        assert!(line["timestamp"].is_string() && line["message"].is_string(), "{line}");
        assert!(matches!(line["level"].as_str(), Some("INFO" | "WARN")), "{line}");
        assert!(line["kind"].is_null() || line["lease"] == "guest/1", "{line}");
    }
}

#[test]
fn a_damaged_snapshot_is_told_once() {
    let mut deployment = with("");
    assert_eq!(deployment.end("-TERM"), Some(0));
    let journal = deployment.data.path().join("journals/guest.db");
    let damage = || {
        let journal = rusqlite::Connection::open(&journal).expect("a journal");
        journal.execute("UPDATE snapshot SET checksum = checksum + 1", []).expect("a change")
    };
    assert!(damage() > 0, "an orderly stop leaves a snapshot");
    deployment.restart_with(CONFIG);
    let log = deployment.log();
    let told = about(&log, "a snapshot is damaged and not used");
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains(" WARN ") && told[0].contains("guest.db"), "{}", told[0]);
}

/// Runs a command on a deployment as another user.
fn as_user(data: &Path, (user, group, others): (u32, u32, &[u32]), line: &str) -> Output {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user.to_string(), "--regid", &group.to_string()]);
    let others = others.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    if others.is_empty() {
        command.arg("--clear-groups");
    } else {
        command.args(["--groups", &others]);
    }
    command.arg(tenure()).args(line.split(' ')).args(["-o", "json", "--data"]).arg(data);
    done_in_time(DEADLINE, "a command", move || command.output().expect("setpriv"))
}

#[test]
fn a_group_may_use_the_socket_and_nothing_else() {
    let (code, error) = checked("socket-group = \"nobody-has-this-group\"");
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains(":1:16") && error.contains("there is no group"), "{error}");
    if !rustix::process::geteuid().is_root() {
        // Only root can give a file to a group that it is not in, and take on other users.
        return;
    }
    const DAEMON: u32 = 1;
    const NOBODY: u32 = 65_534;
    let mut deployment = with("socket-group = \"daemon\"");
    let data = deployment.data.path().to_owned();
    let of = |path: &Path| {
        let found = fs::metadata(path).expect("it is there");
        (found.permissions().mode() & 0o777, found.gid())
    };
    assert_eq!((of(&data), of(&data.join("tenure.sock"))), ((0o710, DAEMON), (0o660, DAEMON)));
    for entry in fs::read_dir(&data).expect("the folder") {
        let path = entry.expect("an entry").path();
        let is_socket = path.ends_with("tenure.sock");
        assert!(is_socket || of(&path).0 & 0o077 == 0, "{}", path.display());
    }
    let list = "lease list";
    // By the group of the process, or that of the user by the system's list.
    for user in [(NOBODY, DAEMON, &[][..]), (DAEMON, NOBODY, &[DAEMON])] {
        let output = as_user(&data, user, list);
        assert_eq!(output.status.code(), Some(0), "{user:?}: {}", stderr(&output));
        let leases: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(leases, Value::Array(Vec::new()));
    }
    // What runs programs is for the owner alone.
    let file = root().join("config/services/exec.toml");
    let add = format!("service add batch {}", file.display());
    let output = as_user(&data, (NOBODY, DAEMON, &[]), &add);
    assert_eq!(output.status.code(), Some(77), "{}", stderr(&output));
    assert!(stderr(&output).contains("may not have a service run programs"), "{}", stderr(&output));
    for stranger in [(NOBODY, NOBODY, &[][..]), (NOBODY, NOBODY, &[DAEMON])] {
        let output = as_user(&data, stranger, list);
        assert_eq!(output.status.code(), Some(77), "{stranger:?}: {}", stderr(&output));
    }
    assert!(deployment.log().contains("user 65534 was turned away"), "{}", deployment.log());
    // Without the setting all is as before.
    assert_eq!(deployment.end("-TERM"), Some(0));
    deployment.restart_with(CONFIG);
    assert_eq!((of(&data).0, of(&data.join("tenure.sock")).0), (0o700, 0o600));
    let output = as_user(&data, (NOBODY, DAEMON, &[]), list);
    assert_eq!(output.status.code(), Some(77), "{}", stderr(&output));
}
