//! Four processes: two sites, a broker and a guest. About once a second one of them is killed, while a link between them
//! is cut, a clock is set or a disk is full, and leases live and die. Then no request that was acknowledged is lost,
//! nothing is left over, and the four journals keep the laws.

mod link;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::{Numbers, root, setting, tenure};
use tenure_wait::{DEADLINE, eventually};

use self::link::{Link, Way};
use crate::deployment::{Deployment, ready, stderr, tenure_on, up};
use crate::network::{free, key, peer};

/// For how many seconds there are faults, unless `TENURE_PARTITIONS` says otherwise.
const SECONDS: u64 = 20;

/// The bound on the difference of clocks, and by how much each is set at most, in milliseconds: of two together
/// still less.
const MARGIN: &str = "3s";
const STEP: i64 = 1200;

/// How many ask for leases at a time.
const ASKERS: usize = 3;

/// A process of which the clock and the disk can be changed.
struct Process {
    name: &'static str,
    deployment: Deployment,
    config: String,
    faults: fs::File,
    shim: PathBuf,
}

impl Process {
    fn start(name: &'static str, config: String, data: TempDir, shim: &Path) -> Self {
        let path = data.path().join("faults");
        fs::write(&path, [0; 16]).expect("a file");
        let faults = fs::File::options().write(true).open(&path).expect("a file");
        let process = ready(Self::command(&config, data.path(), shim));
        let deployment = Deployment { data, process };
        Self { name, deployment, config, faults, shim: shim.to_owned() }
    }

    fn command(config: &str, data: &Path, shim: &Path) -> Command {
        let mut command = up(config, data);
        command.env("LD_PRELOAD", shim).env("TENURE_TEST_FAULTS", data.join("faults"));
        command
    }

    fn kill(&mut self) {
        self.deployment.end("-KILL");
        self.full(false);
        self.deployment.process =
            ready(Self::command(&self.config, self.deployment.data.path(), &self.shim));
    }

    fn set_clock(&self, milliseconds: i64) {
        self.faults.write_all_at(&milliseconds.to_ne_bytes(), 0).expect("it is written");
    }

    fn full(&self, full: bool) {
        self.faults.write_all_at(&i64::from(full).to_ne_bytes(), 8).expect("it is written");
    }
}

/// The deployment, and the links between its processes.
struct Scene {
    processes: Vec<Process>,
    links: Vec<Link>,
}

const GUEST: usize = 0;

impl Scene {
    fn start(shim: &Path) -> Self {
        let names = ["guest", "alpha", "beta", "exchange"];
        let folders = names.map(|_| tempfile::tempdir().expect("a folder"));
        let ids: Vec<String> = names.iter().zip(&folders).map(|(name, at)| key(at, name)).collect();
        let addresses = names.map(|_| free());
        let mut links = Vec::new();
        // Who of the first dials whom of the others, over a link for each pair.
        let mut peers = names.map(|_| String::new());
        let roles = ["service-manager", "site-authority", "site-authority", "broker"];
        for (a, b) in [(1, 3), (2, 3), (0, 3), (0, 1), (0, 2)] {
            let link = Link::new();
            let over = |to: usize| link.to(&addresses[to]);
            peers[a] += &peer(names[b], roles[b], &ids[b], Some(&over(b)));
            // The guest dials, and is not dialled.
            let back = (a != GUEST).then(|| over(a));
            peers[b] += &peer(names[a], roles[a], &ids[a], back.as_deref());
            links.push(link);
        }
        let site =
            "units = 600\nquarantine-after = 0\ndriver = { name = \"null\", setup = \"100ms\" }\n";
        let own = [
            "[service-manager.guest]\n".to_owned(),
            format!("[site.alpha]\n{site}"),
            format!("[site.beta]\n{site}"),
            "[broker.exchange]\n".to_owned(),
        ];
        let all =
            "retry = \"500ms\"\nclock-check = \"2s\"\nsnapshot-after = 200\narchive-after = 100\n";
        let start = |(at, data): (usize, TempDir)| {
            let listen = if at == GUEST {
                String::new()
            } else {
                format!("listen = \"{}\"\n", addresses[at])
            };
            let config = format!("margin = \"{MARGIN}\"\n{all}{listen}{}{}", own[at], peers[at]);
            Process::start(names[at], config, data, shim)
        };
        // At once, since each asks the others at its start how far it had come.
        let processes = std::thread::scope(|scope| {
            let started = folders.into_iter().enumerate().map(|at| scope.spawn(|| start(at)));
            let started: Vec<_> = started.collect();
            started.into_iter().map(|process| process.join().expect("it starts")).collect()
        });
        Self { processes, links }
    }

    fn guest(&self) -> &Deployment {
        &self.processes[GUEST].deployment
    }
}

/// What was acknowledged: a request by its id, and its lease.
type Acknowledged = (String, String);

/// Asks for leases until it is over: some are extended, some given back, most just end.
fn ask(asker: usize, guest: &Path, over: &AtomicBool, acknowledged: &Sender<Acknowledged>) {
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let id = format!("{asker}-{number}");
        let units = 1 + (number + asker) % 3;
        let lasts = if number % 4 == 3 { "8s" } else { "2m" };
        let asked =
            tenure_on(guest, &format!("lease request {units} --for {lasts} --id {id} -o json"));
        let leases: Vec<Value> = serde_json::from_slice(&asked.stdout).unwrap_or_default();
        let Some(lease) = leases.first().and_then(|lease| lease["lease"].as_str()) else {
            continue;
        };
        let request = lease.split('.').next().unwrap_or(lease).to_owned();
        match number % 4 {
            1 => drop(tenure_on(guest, &format!("lease close {request}"))),
            2 => drop(tenure_on(guest, &format!("lease extend {request} --for 8s"))),
            _ => {}
        }
        if acknowledged.send((id, request)).is_err() {
            return;
        }
    }
}

/// Takes what is acknowledged for so long.
fn collect(from: &Receiver<Acknowledged>, into: &mut BTreeMap<String, String>, until: Instant) {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match from.recv_timeout(left) {
            Ok((id, lease)) => drop(into.insert(id, lease)),
            Err(RecvTimeoutError::Timeout) => return,
            Err(RecvTimeoutError::Disconnected) => panic!("nobody asks any more"),
        }
    }
}

/// How many leases the guest has, if it is there to say.
fn count_leases(guest: &Path) -> usize {
    let listed = tenure_on(guest, "lease list -o json").stdout;
    serde_json::from_slice::<Vec<Value>>(&listed).map_or(0, |leases| leases.len())
}

/// Kills one process after another, each while there is another fault somewhere, and heals that. Answers how many
/// faults there were of each kind, and the most leases that there were between them.
fn faults(
    scene: &mut Scene,
    numbers: &mut Numbers,
    (from, acknowledged): (&Receiver<Acknowledged>, &mut BTreeMap<String, String>),
    until: Instant,
) -> (BTreeMap<&'static str, u32>, usize) {
    let (mut made, mut most): (BTreeMap<&str, u32>, usize) = (BTreeMap::new(), 0);
    let guest = scene.guest().data.path().to_owned();
    for turn in 0.. {
        if Instant::now() >= until {
            break;
        }
        let lasts = Duration::from_millis(100 + numbers.draw() % 1500);
        let (whom, killed) = (numbers.below(4), numbers.below(4));
        let link = scene.links[numbers.below(scene.links.len())].clone();
        // Each kind comes in turn, each on what the seed says.
        let kind = match turn % 4 {
            0 => {
                link.set(Way::Cut);
                "cuts"
            }
            1 => {
                let forth = numbers.below(2) == 0;
                link.set(Way::Silent { forth, back: !forth || numbers.below(2) == 0 });
                "silences"
            }
            2 => {
                scene.processes[whom].full(true);
                "full disks"
            }
            _ => {
                let by = i64::try_from(numbers.draw() % 3).expect("small") - 1;
                scene.processes[whom].set_clock(by * STEP);
                "clocks set"
            }
        };
        scene.processes[killed].kill();
        for kind in [kind, "kills"] {
            *made.entry(kind).or_default() += 1;
        }
        collect(from, acknowledged, Instant::now() + lasts);
        link.set(Way::Open);
        scene.processes[whom].full(false);
        most = most.max(count_leases(&guest));
    }
    (made, most)
}

/// The library that sets clocks and fills disks.
fn shim(folder: &Path) -> PathBuf {
    let library = folder.join("faults.so");
    let source = root().join("tests/tests/system/partitions/faults.c");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .output();
    let made = made.expect("a C compiler");
    assert!(made.status.success(), "{}", stderr(&made));
    library
}

#[test]
fn partitions_kills_full_disks_and_set_clocks_lose_nothing_that_was_acknowledged() {
    let seed = setting("TENURE_SEED").unwrap_or(1);
    let seconds = setting("TENURE_PARTITIONS").unwrap_or(SECONDS);
    let place = tempfile::tempdir().expect("a folder");
    let mut scene = Scene::start(&shim(place.path()));
    let guest = scene.guest().data.path().to_owned();
    let (over, mut acknowledged) = (AtomicBool::new(false), BTreeMap::new());
    let made = std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for asker in 0..ASKERS {
            let (guest, over, sender) = (&guest, &over, sender.clone());
            scope.spawn(move || ask(asker, guest, over, &sender));
        }
        let until = Instant::now() + Duration::from_secs(seconds);
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            faults(&mut scene, &mut Numbers(seed), (&receiver, &mut acknowledged), until)
        }));
        over.store(true, Ordering::Relaxed);
        made
    });
    let (made, most) = made.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let requests = acknowledged.len();
    println!("seed {seed}, {seconds} s: {requests} requests, at most {most} leases, {made:?}");
    assert_eq!(made.len(), 5, "faults of each kind: {made:?}");
    assert!(requests >= 20 && most >= 20, "{requests} requests, at most {most} leases");
    scene.processes.iter().for_each(|process| process.set_clock(0));
    nothing_is_lost(&scene, &acknowledged);
    nothing_is_left(&scene);
    faults_were_real(&scene);
    laws_are_kept(scene);
}

/// Every request that was acknowledged is known by its lease, and each is of one request.
fn nothing_is_lost(scene: &Scene, acknowledged: &BTreeMap<String, String>) {
    let leases: BTreeSet<&String> = acknowledged.values().collect();
    assert_eq!(leases.len(), acknowledged.len(), "two requests have one lease: {acknowledged:?}");
    let journal = scene.guest().data.path().join("journals/guest.db");
    let mut command = Command::new(tenure());
    let shown = command.args(["journal", "show", "-o", "csv"]).arg(journal).output();
    let shown = shown.expect("it runs").stdout;
    let facts = String::from_utf8(shown).expect("text");
    let asked: BTreeSet<String> = facts
        .lines()
        .filter_map(|line| {
            let [_, _, "service-manager.asked", lease, ..] =
                line.split(',').collect::<Vec<_>>()[..]
            else {
                return None;
            };
            Some(format!("guest/{}", lease.split('.').next()?))
        })
        .collect();
    let lost: Vec<_> = acknowledged.iter().filter(|(_, lease)| !asked.contains(*lease)).collect();
    assert!(lost.is_empty(), "acknowledged, and not in the journal: {lost:?} of {asked:?}");
}

/// All leases end, all units come back, and the three roles agree on that.
fn nothing_is_left(scene: &Scene) {
    let [guest, alpha, beta, exchange] = &scene.processes[..] else { panic!("four processes") };
    eventually(DEADLINE, "the end of all leases", || {
        guest.deployment.close_all();
        guest.deployment.tenure("lease list -o json").stdout.starts_with(b"[]")
    });
    for site in [alpha, beta] {
        site.deployment.becomes_clean();
    }
    eventually(DEADLINE, "a broker that has sold nothing", || {
        let listed = exchange.deployment.tenure("broker list -o json").stdout;
        let listed: Vec<Value> = serde_json::from_slice(&listed).unwrap_or_default();
        let delegations: Vec<&Value> =
            listed.iter().flat_map(|broker| broker["delegations"].as_array()).flatten().collect();
        !delegations.is_empty() && delegations.iter().all(|of| of["free"] == of["units"])
    });
}

/// Disks were full, clocks were set and connections broke, as the processes themselves found.
fn faults_were_real(scene: &Scene) {
    let logs: String = scene.processes.iter().map(|process| process.deployment.log()).collect();
    for sign in ["this machine's clock was set by", "disk"] {
        assert!(logs.contains(sign), "nobody has noted `{sign}`");
    }
}

fn laws_are_kept(mut scene: Scene) {
    for process in &mut scene.processes {
        assert_eq!(process.deployment.end("-TERM"), Some(0), "{}", process.name);
    }
    let mut verify = Command::new(tenure());
    verify.args(["journal", "verify", "--margin", MARGIN]);
    verify.args(
        scene.processes.iter().map(|process| process.deployment.data.path().join("journals")),
    );
    let verified = verify.output().expect("it runs");
    let said = String::from_utf8_lossy(&verified.stdout);
    assert!(verified.status.success(), "{said}{}", stderr(&verified));
    println!("{said}");
    assert!(said.contains("laws kept"), "{said}");
    // They end with their own last word, so that what holds them has something to close.
    for process in &mut scene.processes {
        process.deployment.restart_up();
    }
}
