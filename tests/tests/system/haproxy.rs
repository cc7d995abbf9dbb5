//! A haproxy that runs on loopback, whose servers are leased units.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, stderr};
use crate::software::{adoptable_units, define, deployed, named_units, show};

const CONF: &str = "\
global
  stats socket FOLDER/admin mode 600 level admin
defaults
  mode tcp
  timeout connect 5s
  timeout client 5m
  timeout server 5m
frontend web
  bind unix@FOLDER/web
  default_backend pool
backend pool
  balance leastconn
  server fixed 127.0.0.1:9 disabled
";

/// A haproxy, which is killed when the test has ended.
struct Haproxy {
    folder: TempDir,
    process: Child,
}

impl Haproxy {
    fn start() -> Self {
        Self::start_with("")
    }

    /// The same with more servers.
    fn start_with(servers: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let conf =
            format!("{CONF}{servers}").replace("FOLDER", &folder.path().display().to_string());
        fs::write(folder.path().join("conf"), conf).expect("a file");
        let process = run(folder.path());
        let haproxy = Self { folder, process };
        haproxy.is_there();
        haproxy
    }

    fn is_there(&self) {
        eventually(DEADLINE, "a haproxy", || self.try_ask("show version").is_some());
    }

    fn try_ask(&self, command: &str) -> Option<String> {
        let mut socket = UnixStream::connect(self.folder.path().join("admin")).ok()?;
        socket.write_all(format!("{command}\n").as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// How the server of a unit is, if it is there: in words of `show stat`.
    fn server(&self, address: &str) -> Option<String> {
        let stat = self.try_ask("show stat pool 4 -1").expect("an answer");
        let line = stat.lines().find(|line| line.contains(&format!(",{address}:")))?;
        assert!(line.starts_with("pool,tenure:"), "{line}");
        line.split(',').nth(17).map(str::to_owned)
    }

    /// How a server of somebody's own is, if it is there.
    fn own(&self, name: &str) -> Option<String> {
        let stat = self.try_ask("show stat pool 4 -1").expect("an answer");
        let line = stat.lines().find(|line| line.starts_with(&format!("pool,{name},")))?;
        line.split(',').nth(17).map(str::to_owned)
    }

    fn end(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(folder: &Path) -> Child {
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(folder.join("conf")).stdout(Stdio::null());
    command.stderr(Stdio::null()).spawn().expect("haproxy")
}

/// Has all units answer at one port with what they are sent; answers the port.
fn serve() -> u16 {
    let first = TcpListener::bind("127.0.1.20:0").expect("a port");
    let port = first.local_addr().expect("an address").port();
    let others = (1..4).map(|unit| TcpListener::bind(format!("127.0.1.2{unit}:{port}")));
    let all = std::iter::once(first).chain(others.map(|unit| unit.expect("a port")));
    for listener in all {
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut from = stream.try_clone().expect("a stream");
                std::thread::spawn(move || std::io::copy(&mut from, &mut stream));
            }
        });
    }
    port
}

/// A session of the web site.
struct Session(UnixStream);

impl Session {
    fn begin(haproxy: &Haproxy) -> Self {
        let stream = UnixStream::connect(haproxy.folder.path().join("web")).expect("a stream");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
        let mut session = Self(stream);
        assert!(session.lives(), "a session that does not begin");
        session
    }

    fn lives(&mut self) -> bool {
        let mut answer = [0];
        self.0.write_all(b"x").is_ok() && self.0.read_exact(&mut answer).is_ok()
    }
}

fn kpi(service: &Value, name: &str) -> String {
    service["kpis"][format!("{name}{{backend=\"pool\"}}")].as_str().unwrap_or("none").to_owned()
}

fn close(deployment: &Deployment, lease: &str) {
    let closing = deployment.tenure(&format!("lease close {lease}"));
    assert!(closing.status.success(), "{}", stderr(&closing));
}

#[test]
#[ignore = "needs haproxy"]
fn leased_units_become_servers_of_haproxy_and_leave_when_their_sessions_have_ended() {
    let mut haproxy = Haproxy::start();
    let folder = haproxy.folder.path().to_owned();
    let port = serve();
    let deployment = deployed(&named_units(&folder));
    let service = |behaviour: &str| {
        define(
            &deployment,
            &folder,
            &format!(
                "slo.web = {{ want = 'sessions / 2 + 1', urgency = 60 }}\n\
                 behaviour = {{ stale-after = '30s', {behaviour} }}\n\
                 [adapter]\nname = 'haproxy'\nsocket = 'FOLDER/admin'\nbackend = 'pool'\n\
                 every = '300ms'\nport = {port}\nserver = 'check inter 200ms rise 1'\n"
            ),
        );
    };
    let has = |what: &str, name: &str, value: &str| {
        eventually(DEADLINE, what, || kpi(&show(&deployment), name) == value);
    };

    // The first unit may drain for long, the second may not: each is left as it was joined.
    service("most = 1, drain = '2m'");
    has("a server", "units", "1");
    let mut first = Session::begin(&haproxy);
    has("a session", "sessions", "1");
    service("most = 2, drain = '1s'");
    has("a second server", "units", "2");
    let mut second = Session::begin(&haproxy);
    has("two sessions", "sessions", "2");
    has("rates", "errors-per-second", "0");
    let addresses = || {
        let all = (0..4).map(|unit| format!("127.0.1.2{unit}"));
        all.filter(|address| haproxy.server(address).is_some()).collect::<Vec<_>>()
    };
    assert_eq!(addresses().len(), 2);

    // One whose time is over: its session is ended.
    service("mode = 'unmanaged', drain = '1s'");
    close(&deployment, "guest/2");
    eventually(DEADLINE, "a server that is deleted", || addresses().len() == 1);
    assert!(!second.lives() && first.lives());

    // One that may wait: it is drained, and goes when the session has ended.
    let address = addresses().remove(0);
    close(&deployment, "guest/1");
    eventually(DEADLINE, "a drain", || haproxy.server(&address).as_deref() == Some("DRAIN"));
    has("no server", "units", "0");
    assert!(first.lives());
    drop(first);
    eventually(DEADLINE, "no server", || haproxy.server(&address).is_none());
    let stat = haproxy.try_ask("show stat pool 4 -1").expect("an answer");
    assert!(stat.contains("pool,fixed,"), "{stat}");

    // One that is gone has failed, and is no web site without sessions.
    haproxy.end();
    let failed = eventually(DEADLINE, "an error", || {
        Some(show(&deployment)).filter(|service| service["state"] == "error")
    });
    let why = failed["adapter"]["error"].as_str().expect("an error");
    assert!(why.contains("/admin: Connection refused"), "{why}");
    haproxy.process = run(&folder);
    haproxy.is_there();
    eventually(DEADLINE, "a service that runs", || show(&deployment)["state"] == "running");
}

#[test]
#[ignore = "needs haproxy"]
fn a_server_of_haproxy_with_sessions_is_taken_over_as_it_is() {
    let port = serve();
    let haproxy = Haproxy::start_with(&format!("  server own 127.0.1.20:{port}\n"));
    let folder = haproxy.folder.path();
    fs::write(folder.join("unit-0"), "").expect("a file");
    let mut session = Session::begin(&haproxy);
    let deployment = deployed(&adoptable_units(folder));
    let service = format!(
        "slo.web = {{ want = 'sessions', urgency = 60 }}\n\
         behaviour = {{ stale-after = '30s', mode = 'unmanaged', drain = '2s' }}\n\
         [adapter]\nname = 'haproxy'\nsocket = 'FOLDER/admin'\nbackend = 'pool'\nstatic = true\n\
         every = '300ms'\nport = {port}\n"
    );
    define(&deployment, folder, &service);

    deployment.json("unit adopt alpha/u0 guest/batch --wait");
    assert_eq!(haproxy.own("own").as_deref(), Some("no check"));

    // The session does not end, and nothing ends it; no other begins.
    deployment.json("unit unassign alpha/u0");
    eventually(DEADLINE, "a drain", || haproxy.own("own").as_deref() == Some("DRAIN"));
    let free = || deployment.json("lease list").as_array().expect("leases").is_empty();
    eventually(DEADLINE, "a unit that is free", free);
    assert_eq!(haproxy.own("own").as_deref(), Some("MAINT"));
    assert!(session.lives() && folder.join("unit-0").exists());

    // A server in maintenance is not taken over; one that is taken is deleted at the end, with its sessions.
    deployment.json("unit adopt alpha/u0 guest/batch");
    eventually(DEADLINE, "a refusal", || {
        let listed = deployment.json("unit blacklist guest/batch");
        listed.as_array().is_some_and(|all| !all.is_empty())
    });
    let why = deployment.tenure("lease why guest/2");
    let why = String::from_utf8_lossy(&why.stdout);
    assert!(why.contains("server own is MAINT, and cannot be taken over"), "{why}");
    eventually(DEADLINE, "a unit that is free", free);
    deployment.json("unit blacklist guest/batch alpha/u0 --clear");
    haproxy.try_ask("set server pool/own state ready").expect("an answer");
    deployment.json("unit adopt alpha/u0 guest/batch --take --wait");
    deployment.json("unit unassign alpha/u0");
    eventually(DEADLINE, "a unit that is free", free);
    assert_eq!(haproxy.own("own"), None);
    assert!(!session.lives());
    // The guest has given it back; its site may still be about to tear it down.
    eventually(DEADLINE, "a unit that is torn down", || !folder.join("unit-0").exists());
    deployment.close_all();
}
