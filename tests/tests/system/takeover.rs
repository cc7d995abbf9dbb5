//! A process that is replaced without downtime: the new one takes over its sockets, its clients and its leases.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::tenure;
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::{
    Deployment, ended, lives, ready, stderr, tenure_on, units, up, words, written,
};
use crate::network::free;

/// Units that are processes, and others; peers are taken at a port.
fn config(port: u16) -> String {
    let sites = "[site.alpha]\nunits = 400\n[site.beta]\nunits = 4\nresource = \"vm\"\ndriver = { name = \"process\" }\n";
    format!("listen = \"127.0.0.1:{port}\"\n{sites}[broker.exchange]\n[service-manager.guest]\n")
}

fn free_port() -> u16 {
    free().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

fn start(port: u16) -> Deployment {
    Deployment::of(&config(port), tempfile::tempdir().expect("a folder"))
}

/// Starts another process in the place of the one that runs, which must end well.
fn replace(deployment: &mut Deployment, port: u16) {
    let mut command = up(&config(port), deployment.data.path());
    command.arg("--takeover");
    let new = ready(command);
    assert_eq!(ended(&mut deployment.process), Some(0));
    deployment.process = new;
}

/// Tries to take over with a configuration, in vain.
fn in_vain(deployment: &Deployment, takeover: &str, config: &str) -> Output {
    let file = deployment.data.path().join("other.toml");
    fs::write(&file, config).expect("a file");
    let mut command = Command::new("timeout");
    command.arg("60").arg(tenure()).args(["up", takeover, "--config"]).arg(file).arg("--data");
    command.arg(deployment.data.path()).output().expect("it runs")
}

/// The milliseconds in which nothing was answered, as each new process has logged them.
fn downtimes(deployment: &Deployment) -> Vec<u64> {
    let log = deployment.log();
    let of_line = |line: &str| {
        let (_, rest) = line.split_once("downtime_ms=")?;
        rest.split_whitespace().next()?.parse().ok()
    };
    log.lines().filter(|line| line.contains("took over")).filter_map(of_line).collect()
}

/// The sockets of a process, by the numbers that they keep.
fn sockets(process: u32) -> BTreeSet<String> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).expect("a process");
    let links = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let links = links.map(|link| link.display().to_string());
    links.filter(|link| link.starts_with("socket:")).collect()
}

/// A command with a unit that runs until something is written into a pipe.
struct InSession {
    client: Child,
    folder: TempDir,
}

impl InSession {
    fn start(deployment: &Deployment) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().display().to_string();
        assert!(
            Command::new("mkfifo").arg(format!("{at}/end")).status().is_ok_and(|s| s.success())
        );
        let script = format!("echo $$ > {at}/pid; read word < {at}/end; exit 0");
        let line = format!("session run '1 vm' --for 30m --keep-alive 8s -- /bin/sh -c '{script}'");
        let mut command = Command::new(tenure());
        command.args(words(&line)).env("TENURE_DATA", deployment.data.path());
        let client = command.stderr(Stdio::piped()).spawn().expect("a client");
        written(&folder.path().join("pid"));
        Self { client, folder }
    }

    /// Has the command end, and waits for its client.
    fn finish(mut self) -> Option<i32> {
        fs::write(self.folder.path().join("end"), "word\n").expect("a pipe");
        ended(&mut self.client)
    }
}

fn session(deployment: &Deployment) -> Value {
    let sessions = deployment.json("session list");
    let sessions = sessions.as_array().expect("a list");
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    sessions[0].clone()
}

/// A lease with its state, and its units with their epochs and uses.
type LeaseSeen = (String, String, Vec<(String, u64, String)>);

/// Every lease with its units, their epochs and their processes.
fn leases(deployment: &Deployment) -> Vec<LeaseSeen> {
    let leases = deployment.json("lease list");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let leases = leases.as_array().expect("a list").iter();
    leases.map(|lease| (text(&lease["lease"]), text(&lease["state"]), units(lease))).collect()
}

#[test]
fn a_session_and_its_connection_outlive_the_process_and_no_unit_is_touched() {
    let port = free_port();
    let mut deployment = start(port);
    deployment.json("lease request 2 vm --for 1h --wait");
    let running = InSession::start(&deployment);
    let client = running.client.id();
    let connections = sockets(client);
    assert!(!connections.is_empty(), "a client has a connection");
    let (before, held) = (leases(&deployment), session(&deployment));
    let pids: Vec<String> = deployment.held().into_iter().map(|(_, pid)| pid).collect();
    assert!(pids.len() == 3 && pids.iter().all(|pid| lives(pid)), "{pids:?}");
    for times in 1..=2 {
        replace(&mut deployment, port);
        assert_eq!(session(&deployment), held);
        assert_eq!(sockets(client), connections, "the client has connected again");
        assert_eq!(leases(&deployment), before);
        assert!(pids.iter().all(|pid| lives(pid)), "a unit's process is gone");
        assert_eq!(downtimes(&deployment).len(), times, "{}", deployment.log());
    }
    assert_eq!(running.finish(), Some(0));
    eventually(DEADLINE, "the lease of the session to be back", || leases(&deployment).len() == 1);
}

#[test]
fn a_session_ends_with_its_client_also_in_the_process_that_took_over() {
    let port = free_port();
    let mut deployment = start(port);
    let mut running = InSession::start(&deployment);
    let mut holder = Command::new("/bin/sleep").arg("600").spawn().expect("a process");
    let opened = deployment.json(&format!("session open --pid {}", holder.id()));
    let session = opened["session"].as_str().expect("a name");
    deployment.json(&format!("session get {session} '1 node' --for 30m"));
    replace(&mut deployment, port);
    let shown = deployment.json(&format!("session show {session}"));
    assert_eq!(shown["held_by"], format!("process {}", holder.id()));
    holder.kill().expect("a process");
    ended(&mut holder);
    running.client.kill().expect("a client");
    ended(&mut running.client);
    eventually(DEADLINE, "all leases to be back", || leases(&deployment).is_empty());
    fs::write(running.folder.path().join("end"), "word\n").expect("a pipe");
}

/// A connection that asks again and again, and is answered each time.
fn ask_on_one_connection(socket: &Path, done: &AtomicBool) -> usize {
    let stream = UnixStream::connect(socket).expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a limit");
    let mut answers = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
    let mut asked = 0;
    while !done.load(Ordering::Relaxed) {
        (&stream).write_all(b"{\"do\":\"status\"}\n").expect("a request is taken");
        let answer = answers.next().expect("an answer").expect("an answer");
        assert!(answer.starts_with("{\"ok\""), "{answer}");
        asked += 1;
    }
    asked
}

#[test]
fn every_request_is_answered_while_processes_are_replaced() {
    let port = free_port();
    let mut deployment = start(port);
    let (data, done) = (deployment.data.path().to_owned(), AtomicBool::new(false));
    let socket = data.join("tenure.sock");
    let again = |line: &str| {
        let mut answered = 0;
        while !done.load(Ordering::Relaxed) {
            let output = tenure_on(&data, line);
            assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
            answered += 1;
        }
        answered
    };
    thread::scope(|scope| {
        let listing = scope.spawn(|| again("lease list"));
        let leasing = scope.spawn(|| again("lease request 1 node --for 1h"));
        let asking = scope.spawn(|| ask_on_one_connection(&socket, &done));
        let dialling = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("who dials is not refused");
            }
        });
        for _ in 0..3 {
            replace(&mut deployment, port);
        }
        done.store(true, Ordering::Relaxed);
        let answered = [listing, leasing, asking].map(|all| all.join().expect("answers"));
        dialling.join().expect("connections");
        assert!(answered.iter().all(|&answered| answered > 0), "{answered:?}");
        let active = || leases(&deployment).iter().filter(|lease| lease.1 == "active").count();
        eventually(DEADLINE, "every request to be met once", || active() == answered[1]);
        println!("answered {answered:?}, without service for {:?} ms", downtimes(&deployment));
    });
}

#[test]
fn who_watches_leases_hears_of_them_from_the_process_that_took_over() {
    let port = free_port();
    let mut deployment = start(port);
    deployment.json("lease request 1 node --for 1h --wait");
    let stream = UnixStream::connect(deployment.data.path().join("tenure.sock")).expect("a socket");
    stream.set_read_timeout(Some(DEADLINE)).expect("a limit");
    (&stream).write_all(b"{\"do\":\"watch\",\"lease\":null}\n").expect("a request is taken");
    let mut lines = BufReader::new(stream).lines();
    let mut until = |lease: &str| loop {
        let line = lines.next().expect("a line").expect("a line");
        let shown: Value = serde_json::from_str(&line).expect("JSON");
        if shown["ok"]["lease"] == lease && shown["ok"]["state"] == "active" {
            return;
        }
    };
    until("guest/1.0");
    replace(&mut deployment, port);
    // It starts again.
    until("guest/1.0");
    deployment.json("lease request 1 node --for 1h --wait");
    until("guest/2.0");
}

#[test]
fn a_bad_configuration_leaves_the_running_process_as_it_is() {
    let port = free_port();
    let mut deployment = start(port);
    deployment.json("lease request 1 vm --for 1h --wait");
    let running = InSession::start(&deployment);
    let (before, connections) = (leases(&deployment), sockets(running.client.id()));
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let other = taken.local_addr().expect("an address").port();
    for (bad, why) in [
        (format!("colour = 1\n{}", config(port)), "colour"),
        (format!("margin = \"2s\"\n{}", config(port)), "margin"),
        (config(port).replace("name = \"process\"", "name = \"zeppelin\""), "zeppelin"),
    ] {
        let output = in_vain(&deployment, "--takeover", &bad);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    let log = deployment.log();
    assert!(!log.contains("another process takes over"), "it was not asked: {log}");
    let output = in_vain(&deployment, "--takeover", &config(other));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot listen at"), "{}", stderr(&output));
    drop(taken);
    // The old one had closed its journals by then, and goes on.
    assert_eq!(leases(&deployment), before);
    assert_eq!(sockets(running.client.id()), connections, "the client has connected again");
    assert!(deployment.process.try_wait().expect("a child").is_none());
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it takes peers");
    replace(&mut deployment, port);
    assert_eq!(running.finish(), Some(0));
}

#[test]
fn a_process_that_does_not_hand_over_in_time_goes_on() {
    let port = free_port();
    let mut deployment = start(port);
    let signal = |name: &str| {
        let pid = deployment.process.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().is_ok_and(|s| s.success()));
    };
    signal("-STOP");
    let output = in_vain(&deployment, "--takeover=500ms", &config(port));
    signal("-CONT");
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    assert!(stderr(&output).contains("not handed over within 0.5 s"), "{}", stderr(&output));
    deployment.json("lease request 1 vm --for 1h --wait");
    assert!(deployment.process.try_wait().expect("a child").is_none());
    replace(&mut deployment, port);
}

#[test]
fn with_nobody_to_take_over_from_it_starts() {
    let port = free_port();
    let mut deployment = start(port);
    assert_eq!(deployment.end("-TERM"), Some(0));
    let mut command = up(&config(port), deployment.data.path());
    deployment.process = ready({
        command.arg("--takeover");
        command
    });
    let log = deployment.log();
    assert!(log.contains("there is nobody to take over from"), "{log}");
    assert_eq!(downtimes(&deployment), Vec::<u64>::new());
    // One that was killed has left its socket.
    deployment.end("-KILL");
    let mut command = up(&config(port), deployment.data.path());
    command.arg("--takeover");
    deployment.process = ready(command);
}
