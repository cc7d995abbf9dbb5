//! A deployment under systemd, which the tests play: they hear what it tells, hold its socket while it is replaced,
//! and end its process alone.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::tenure;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{Deployment, ended, lives, ready, stderr, units, up, up_by};
use crate::network::{key, peer};

const CONFIG: &str = "listen = \"127.0.0.1:0\"\n[site.alpha]\nunits = 2\n[broker.exchange]\n[service-manager.guest]\n";

/// In what time a ping is due.
const WATCHDOG: Duration = Duration::from_millis(800);

/// Where a process tells how it is.
struct Notices {
    socket: UnixDatagram,
}

impl Notices {
    fn at(data: &Path) -> Self {
        Self { socket: UnixDatagram::bind(data.join("notify")).expect("a socket") }
    }

    /// The next notice, if one comes in time.
    fn within(&self, limit: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(limit)).expect("a limit");
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8(bytes[..length].to_vec()).expect("text"))
    }

    /// Waits for a notice with a line that begins so.
    #[track_caller]
    fn until(&self, begin: &str) {
        let begun = Instant::now();
        while begun.elapsed() < DEADLINE {
            let notice = self.within(DEADLINE).unwrap_or_default();
            if notice.lines().any(|line| line.starts_with(begin)) {
                return;
            }
        }
        panic!("nobody said {begin}");
    }
}

/// Starts a deployment that tells how it is.
fn watched(data: TempDir) -> (Deployment, Notices) {
    let notices = Notices::at(data.path());
    let mut command = up(CONFIG, data.path());
    command.env("NOTIFY_SOCKET", data.path().join("notify"));
    command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    (Deployment { process: ready(command), data }, notices)
}

#[test]
fn systemd_is_told_of_the_start_how_it_goes_and_of_the_end() {
    let (mut deployment, notices) = watched(tempfile::tempdir().expect("a folder"));
    // Nothing is told before: it would be about the start.
    assert_eq!(notices.within(DEADLINE).as_deref(), Some("READY=1\n"));
    deployment.json("lease list");
    notices.until("STATUS=3 actors at work");
    for _ in 0..2 {
        notices.until("WATCHDOG=1");
    }
    assert_eq!(deployment.end("-TERM"), Some(0));
    notices.until("STOPPING=1");
    deployment.restart_with(CONFIG);
}

#[test]
fn systemd_is_told_that_an_actor_is_down_until_it_is_back() {
    let (deployment, notices) = watched(tempfile::tempdir().expect("a folder"));
    notices.until("STATUS=3 actors at work");
    let journal = deployment.data.path().join("journals/guest.db");
    let other = rusqlite::Connection::open(journal).expect("a journal");
    other.execute_batch("BEGIN IMMEDIATE").expect("its lock");
    // Its append waits for the lock in vain.
    let refused = deployment.tenure("lease request 1 --for 1h --wait --timeout 1s");
    assert!(!refused.status.success());
    notices.until("STATUS=1 of 3 actors down; guest: ");
    other.execute_batch("ROLLBACK").expect("the end of it");
    notices.until("STATUS=3 actors at work");
    notices.until("WATCHDOG=1");
}

/// The threads of a process by name, as the system numbers them.
fn threads(process: u32, name: &str) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    let named = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|found| found.starts_with(name))
    };
    let tasks = tasks.map(|task| task.expect("a thread")).filter(named);
    tasks
        .map(|task| task.file_name().to_string_lossy().parse().expect("a number"))
        .map(Pid::from_raw)
        .collect()
}

/// Has threads of a process hang, all others going on, and watches that the pings end until they continue.
fn hang_and_go_on(
    (deployment, notices): (&Deployment, &Notices),
    name: &str,
    meanwhile: impl FnOnce(),
) {
    let hanging = threads(deployment.process.id(), name);
    assert!(!hanging.is_empty(), "no thread `{name}`");
    for &thread in &hanging {
        ptrace::seize(thread, ptrace::Options::empty()).expect("the right to");
        ptrace::interrupt(thread).expect("it is there");
        waitpid(thread, Some(WaitPidFlag::__WALL)).expect("it stops");
    }
    meanwhile();
    // What was on its way comes still; then systemd would end the process.
    let begun = Instant::now();
    while notices.within(WATCHDOG * 3).is_some() {
        assert!(begun.elapsed() < DEADLINE, "pings come while `{name}` hangs");
    }
    for &thread in &hanging {
        ptrace::detach(thread, None).expect("it is there");
    }
    notices.until("WATCHDOG=1");
}

#[test]
fn pings_end_while_a_loop_hangs() {
    let (deployment, notices) = watched(tempfile::tempdir().expect("a folder"));
    let both = (&deployment, &notices);
    notices.until("WATCHDOG=1");
    hang_and_go_on(both, "actix", || ());
    hang_and_go_on(both, "network", || ());
    // An actor whose decisions do not become durable gets nothing done either.
    let request = || deployment.tenure("lease request 1 --for 1h --wait");
    thread::scope(|scope| {
        let (asked, is_asked) = mpsc::channel();
        let asking = scope.spawn(move || {
            asked.send(()).expect("somebody waits");
            request()
        });
        hang_and_go_on(both, "journal", || is_asked.recv().expect("a request"));
        let leased = asking.join().expect("an answer");
        assert!(leased.status.success(), "{}", stderr(&leased));
    });
    let log = deployment.log();
    assert!(log.contains("hangs: nothing that waits for it has been done"), "{log}");
}

/// `tenure up` as systemd starts it with a socket, which stays open when the process ends.
fn on_socket(socket: OwnedFd, config: &str, data: &Path) -> Command {
    let script = r#"exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@""#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(tenure()).stdin(Stdio::from(socket));
    up_by(shell, config, data)
}

#[test]
fn a_socket_that_cannot_be_used_is_an_error_with_a_way_out() {
    let data = tempfile::tempdir().expect("a folder");
    let fails = |socket: OwnedFd, config: &str| {
        let mut command = on_socket(socket, config, data.path());
        let output = command.stderr(Stdio::piped()).output().expect("it runs");
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("`ListenStream`"), "{error}");
        error
    };
    let file = UnixDatagram::bind(data.path().join("other")).expect("a socket");
    let error = fails(file.into(), CONFIG);
    assert!(error.contains("is no TCP socket"), "{error}");
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let error = fails(socket.into(), &CONFIG.replace("127.0.0.1:0", "127.0.0.1:1"));
    assert!(error.contains("`listen` is 127.0.0.1:1, and the socket"), "{error}");
}

/// A process whose socket the test holds.
struct Held {
    deployment: Deployment,
    socket: TcpListener,
    config: String,
}

impl Held {
    fn start(socket: TcpListener, config: String, data: TempDir) -> Self {
        let process = Self::process(&socket, &config, data.path());
        Self { deployment: Deployment { data, process }, socket, config }
    }

    fn process(socket: &TcpListener, config: &str, data: &Path) -> Child {
        ready(on_socket(socket.try_clone().expect("a descriptor").into(), config, data))
    }

    /// Ends the process alone, as `KillMode=process` does, and starts another on the same socket and data.
    fn replace(&mut self) {
        let pid = self.deployment.process.id();
        assert_eq!(self.deployment.end("-TERM"), Some(0));
        let address = self.socket.local_addr().expect("an address");
        TcpStream::connect(address).expect("who dials meanwhile is not refused");
        let data = self.deployment.data.path();
        self.deployment.process = Self::process(&self.socket, &self.config, data);
        assert_ne!(self.deployment.process.id(), pid);
    }
}

/// A guest, a broker and sites in three processes, which are ended in this order.
struct Fleet {
    guest: Deployment,
    broker: Held,
    site: Held,
}

/// How many leases live while processes are replaced.
const LEASES: usize = 200;

impl Fleet {
    fn start() -> Self {
        let folder = || tempfile::tempdir().expect("a folder");
        let socket = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let (at_site, at_broker, at_guest) = (folder(), folder(), folder());
        let [alpha, beta] = ["alpha", "beta"].map(|name| key(&at_site, name));
        let (exchange, guest) = (key(&at_broker, "exchange"), key(&at_guest, "guest"));
        let (of_site, of_broker) = (socket(), socket());
        let at = |socket: &TcpListener| socket.local_addr().expect("an address").to_string();
        let sites = [("alpha", &alpha), ("beta", &beta)]
            .map(|(name, id)| peer(name, "site-authority", id, Some(&at(&of_site))))
            .concat();
        let exchange = peer("exchange", "broker", &exchange, Some(&at(&of_broker)));
        let guest = peer("guest", "service-manager", &guest, None);
        let top = "retry = \"200ms\"\n";
        let stocks = format!(
            "[site.alpha]\nunits = {}\n[site.beta]\nunits = 4\nresource = \"vm\"\ndriver = {{ name = \"process\" }}\n",
            LEASES * 3
        );
        let site = Held::start(of_site, format!("{top}{stocks}{exchange}{guest}"), at_site);
        let config = format!("{top}[broker.exchange]\n{sites}{guest}");
        let broker = Held::start(of_broker, config, at_broker);
        let config = format!("{top}[service-manager.guest]\n{sites}{exchange}");
        Self { guest: Deployment::of(&config, at_guest), broker, site }
    }

    /// Every lease that is active, with its units and their processes.
    fn active(&self) -> BTreeMap<String, Vec<(String, u64, String)>> {
        let leases = self.guest.json("lease list");
        let leases = leases.as_array().expect("a list").iter();
        let active = leases.filter(|lease| lease["state"] == "active");
        let name = |lease: &Value| lease["lease"].as_str().expect("a name").to_owned();
        active.map(|lease| (name(lease), units(lease))).collect()
    }
}

/// Has requests go on while this is done; answers how many were met.
fn busy(guest: &Deployment, replace: impl FnOnce()) -> usize {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut met = 0;
            while !done.load(Ordering::Relaxed) || met == 0 {
                guest.json("lease request 1 node --for 1h --wait");
                met += 1;
            }
            met
        });
        replace();
        done.store(true, Ordering::Relaxed);
        asking.join().expect("requests that are met")
    })
}

#[test]
fn processes_are_replaced_while_leases_live_and_requests_go_on() {
    let mut fleet = Fleet::start();
    fleet.guest.json("lease request 4 vm --for 1h --wait");
    for _ in 0..LEASES {
        fleet.guest.json("lease request 1 node --for 1h");
    }
    let before = eventually(DEADLINE, "all to be active", || {
        let active = fleet.active();
        (active.len() == LEASES + 1).then_some(active)
    });
    let pids: Vec<String> =
        fleet.guest.held().into_iter().map(|(_, pid)| pid).filter(|pid| !pid.is_empty()).collect();
    assert_eq!(pids.len(), 4, "each unit of beta is a process");
    let Fleet { guest, broker, site } = &mut fleet;
    let mut met = 0;
    met += busy(guest, || site.replace());
    met += busy(guest, || broker.replace());
    met += busy(guest, || site.replace());
    guest.end("-TERM");
    guest.restart_up();
    let after = fleet.active();
    assert_eq!(after.len(), before.len() + met, "every request was met once");
    for (name, units) in &before {
        assert_eq!(after.get(name), Some(units), "{name}");
    }
    for pid in &pids {
        assert!(lives(pid), "a unit's process is gone");
    }
    // All find each other again, and a lease ends as ever.
    for process in [&fleet.guest, &fleet.broker.deployment, &fleet.site.deployment] {
        eventually(DEADLINE, "all peers to be reached", || {
            let peers = process.json("peer list");
            peers.as_array().expect("a list").iter().all(|peer| peer["connected"] == true)
        });
    }
    fleet.guest.json("lease close 1 --wait");
    eventually(DEADLINE, "its processes to be gone", || !pids.iter().any(|pid| lives(pid)));
}

#[test]
fn systemd_is_told_who_is_the_main_process_once_another_one_has_taken_over() {
    let (mut deployment, notices) = watched(tempfile::tempdir().expect("a folder"));
    notices.until("READY=1");
    let mut command = up(CONFIG, deployment.data.path());
    command.arg("--takeover").env("NOTIFY_SOCKET", deployment.data.path().join("notify"));
    let new = ready(command);
    assert_eq!(ended(&mut deployment.process), Some(0));
    deployment.process = new;
    let begun = Instant::now();
    let mut told = Vec::new();
    while told.last().is_none_or(|last: &String| !last.starts_with("READY=1")) {
        assert!(begun.elapsed() < DEADLINE, "{told:?}");
        told.extend(notices.within(DEADLINE));
    }
    let main = format!("MAINPID={}\n", deployment.process.id());
    assert!(told.contains(&main), "{told:?}");
    assert!(!told.iter().any(|notice| notice.contains("STOPPING=1")), "it goes on: {told:?}");
}
