//! A live deployment on a disk that fails and forgets: its hosts are dropped at any point, the power is
//! cut, and they come back from their journals, again and again.

#[path = "../../../crates/node/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use common::{Plans, ask, block_on, now, of, parts, start_on, state, until};
use tenure_core::actor::Role;
use tenure_core::runtime::Entry;
use tenure_core::service_manager::Command as GuestCommand;

use tenure_core::driver::{Answer, Call, DriverError, Epoch, ResourceDriver, Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_faulty_disk::{Condition, Fault, FaultyDisk};
use tenure_laws::{Participant, Participants, audit_journals};
use tenure_node::deployment::Running;
use tenure_node::host::{ActorInfo, Committed, Facts, Handle, HostError, Limits, Part};
use tenure_node::journal::{JournalFile, Owner};
use tenure_wait::{DEADLINE, eventually_async, in_time};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// A driver that remembers who has each unit, beyond all crashes, and what went wrong.
#[derive(Default)]
struct UnitTable {
    units: Mutex<BTreeMap<UnitId, (Epoch, Option<LeaseId>)>>,
    wrongs: Mutex<Vec<String>>,
}

impl ResourceDriver for UnitTable {
    fn perform(&self, call: &Call) -> Answer {
        let mut units = self.units.lock().unwrap();
        let (epoch, tenant) = units.entry(call.unit).or_default();
        let taken = tenant.is_some_and(|tenant| tenant != call.lease);
        if call.epoch < *epoch || (call.step == Step::Setup && taken) {
            let wrong = format!(
                "{:?} of {} in {:?} for {}: it is in {epoch:?}, {tenant:?} has it",
                call.step, call.unit, call.epoch, call.lease
            );
            self.wrongs.lock().unwrap().push(wrong);
        }
        *epoch = call.epoch.max(*epoch);
        *tenant = (call.step == Step::Setup).then_some(call.lease);
        Answer { outcome: Ok(Properties::default()), after: Span::ZERO }
    }

    fn probe(&self, _: ActorId, _: UnitId) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }
}

/// Numbers as good as random, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % most
    }
}

/// What was acknowledged: the lease, and the facts behind it.
type Acknowledged = BTreeMap<LeaseId, Committed>;

/// Guests ask, and close half of what they asked for before, until the deployment crashes after so many
/// facts. Answers how often one of its actors fell before.
async fn live_and_crash(running: Running, random: &mut Random, known: &mut Acknowledged) -> u64 {
    let guest = of(&running, Role::ServiceManager);
    let (seen, mut facts) = unbounded_channel();
    for handle in running.handles() {
        actix::spawn(follow(handle.clone(), seen.clone()));
    }
    drop(seen);
    let (sender, mut received) = unbounded_channel();
    for _ in 0..1 + random.below(3) {
        actix::spawn(use_up(guest.clone(), Random(random.below(1000)), sender.clone()));
    }
    for _ in 0..random.below(120) {
        if in_time(DEADLINE, "a fact", facts.recv()).await.is_none() {
            break;
        }
    }
    let text = running.metrics().text();
    let falls = text.lines().filter(|line| line.starts_with("tenure_falls_total"));
    let falls = falls.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    drop(running);
    drop(sender);
    while let Some(committed) = in_time(DEADLINE, "the end of the guests", received.recv()).await {
        known.insert(committed.lease().unwrap(), committed);
    }
    falls
}

/// Hands on the facts of an actor, over all its falls, until it is gone.
async fn follow(handle: Handle, seen: UnboundedSender<Entry>) {
    let come_back = async || match handle.facts().await {
        Ok(facts) => Some(Some(facts)),
        Err(HostError::Stopped(_)) => Some(None),
        Err(_) => None,
    };
    while let Some(Facts { mut facts, .. }) =
        eventually_async(DEADLINE, "an actor that is up or gone", come_back).await
    {
        while let Some((_, entry)) = facts.recv().await {
            drop(seen.send(entry));
        }
    }
}

/// Asks and closes until the service manager is gone.
async fn use_up(guest: Handle, mut random: Random, sender: UnboundedSender<Committed>) {
    loop {
        let told_or_gone = async || {
            let request = ask(1 + random.below(2) as u32, now(), Span::HOUR);
            match guest.command(GuestCommand::Ask(request)).await {
                Ok(committed) => Some(Some(committed)),
                Err(HostError::Stopped(_)) => Some(None),
                Err(_) => None,
            }
        };
        let what = "a guest that answers or is gone";
        let Some(committed) = eventually_async(DEADLINE, what, told_or_gone).await else { return };
        let lease = committed.lease().unwrap();
        sender.send(committed).unwrap();
        if random.below(2) == 0 {
            drop(guest.command(GuestCommand::Close { lease }).await);
        }
    }
}

/// Closes every lease and waits until it has ended.
async fn wind_up(guest: &Handle, known: &Acknowledged) {
    for &lease in known.keys() {
        give_back(guest, lease).await;
    }
}

async fn is_over(guest: &Handle, lease: LeaseId) -> bool {
    matches!(state(guest, lease).await.as_str(), "Closed" | "")
}

/// Closes a lease and waits until it is over. Asks again and again: the guest may fall on the way.
async fn give_back(guest: &Handle, lease: LeaseId) {
    eventually_async(DEADLINE, &format!("the end of lease {lease}"), async || {
        let is_over = is_over(guest, lease).await;
        if !is_over {
            drop(guest.command(GuestCommand::Close { lease }).await);
        }
        is_over
    })
    .await;
}

fn journals(folder: &Path, plans: &Plans, disk: &FaultyDisk) -> BTreeMap<ActorId, Vec<Entry>> {
    let read = |part: Part| {
        let ActorInfo { name, role, id } = part.info;
        let mut entries = Vec::new();
        let file =
            JournalFile::recover_on(disk, &part.journal, &Owner { name, role, id }, |entry| {
                entries.push(entry.clone());
                Ok(())
            });
        file.unwrap().close().unwrap();
        (id, entries)
    };
    parts(folder, plans).into_iter().map(read).collect()
}

fn participants(folder: &Path, plans: &Plans) -> Participants {
    let participant = |part: Part| {
        let ActorInfo { name, role, id } = part.info;
        (id, Participant { name, role, honest: true })
    };
    Participants {
        members: parts(folder, plans).into_iter().map(participant).collect(),
        scheme: plans.scheme,
        margin: plans.margin,
        clocks_hold: true,
    }
}

/// Starts the deployment; if a fault keeps it from starting, on a disk that is repaired.
async fn start_anyhow(folder: &Path, plans: &Plans, disk: &FaultyDisk) -> Running {
    match start_on(folder, plans, Arc::new(disk.clone())).await {
        Ok(running) => running,
        Err(_) => {
            disk.arrange(None);
            start_on(folder, plans, Arc::new(disk.clone())).await.expect("the disk is sound")
        }
    }
}

/// Twelve lives, each ended by a power cut, and then everything is wound up and looked at. `faults` says
/// after how many operations one fails. Answers how often actors fell.
fn survive(seed: u64, faults: Option<u64>) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let (disk, units) = (FaultyDisk::new(seed), Arc::new(UnitTable::default()));
    // Snapshots are under way whenever the power is cut.
    let limits = Limits { snapshot: 10, ..Limits::default() };
    let plans = Plans { units: 6, site: units.clone(), limits, ..Plans::default() };
    let (mut random, mut known) = (Random(seed), Acknowledged::new());
    let system = actix::System::new();
    let mut falls = 0;
    for _ in 0..12 {
        let fault = faults.map(|most| Fault { after: random.below(most), for_ever: false });
        disk.arrange(fault);
        falls += block_on(&system, async {
            let running = start_anyhow(folder.path(), &plans, &disk).await;
            live_and_crash(running, &mut random, &mut known).await
        });
        disk.cut_power();
    }
    assert!(!known.is_empty(), "seed {seed}: nothing was acknowledged");
    block_on(&system, async {
        let running = start_anyhow(folder.path(), &plans, &disk).await;
        wind_up(&of(&running, Role::ServiceManager), &known).await;
        running.stop().await.unwrap();
    });
    let journals = journals(folder.path(), &plans, &disk);
    let guest = journals.values().find(|facts| facts[0].fact.kind().0 == "service-manager.woken");
    for (lease, Committed { position, facts }) in &known {
        let first = usize::try_from(*position).unwrap();
        assert_eq!(&guest.unwrap()[first..first + facts.len()], facts, "seed {seed}: {lease}");
    }
    let slices = journals.iter().map(|(&id, facts)| (id, facts.as_slice())).collect();
    audit_journals(&participants(folder.path(), &plans), &slices)
        .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    assert_eq!(*units.wrongs.lock().unwrap(), Vec::<String>::new(), "seed {seed}");
    falls
}

#[test]
fn whenever_the_power_is_cut_nothing_acknowledged_is_lost_and_no_unit_is_in_two_hands() {
    for seed in 0..4 {
        assert_eq!(survive(seed, None), 0, "nobody falls on a sound disk");
    }
}

#[test]
fn actors_whose_disk_fails_once_fall_and_come_back_with_all_they_have_acknowledged() {
    let falls: u64 = (10..14).map(|seed| survive(seed, Some(800))).sum();
    assert!(falls > 0, "no fault has struck a life");
}

/// Repeats the request until the answer is neither `Unknown` nor `Busy`.
async fn ask_until_answered(guest: &Handle, duration: Span) -> Result<LeaseId, HostError> {
    eventually_async(DEADLINE, "an answer to a request", async || {
        match guest.command(GuestCommand::Ask(ask(1, now(), duration))).await {
            Ok(committed) => Some(Ok(committed.lease().unwrap())),
            Err(HostError::Unknown(_) | HostError::Busy(_)) => None,
            Err(other) => Some(Err(other)),
        }
    })
    .await
}

#[test]
fn on_a_full_disk_nothing_begins_and_what_has_begun_comes_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, plans) = (FaultyDisk::new(20), Plans { units: 60, ..Plans::default() });
    block_on(&actix::System::new(), async {
        let running = start_anyhow(folder.path(), &plans, &disk).await;
        let guest = of(&running, Role::ServiceManager);
        let kept = ask_until_answered(&guest, Span::HOUR).await.unwrap();
        let expires = ask_until_answered(&guest, Span::from_secs(4)).await.unwrap();
        until(&guest, kept, "Active").await;
        until(&guest, expires, "Active").await;
        disk.set(Condition::Space(disk.used() + (64 << 10)));
        let mut begun = Vec::new();
        let full = eventually_async(DEADLINE, "a full disk", async || {
            let asked = ask_until_answered(&guest, Span::HOUR).await;
            asked.map(|lease| begun.push(lease)).err()
        })
        .await;
        assert_eq!(full, HostError::DiskFull(Name::literal("guest")));
        assert!(running.metrics().text().contains("tenure_disk_full{actor=\"guest\""));
        for lease in begun.iter().copied().chain([kept]) {
            if state(&guest, lease).await == "Active" {
                give_back(&guest, lease).await;
            }
        }
        eventually_async(DEADLINE, "the end of a lease by its term", async || {
            is_over(&guest, expires).await
        })
        .await;
        disk.set(Condition::Sound);
        // What was asked for before may be granted only now, and takes the units.
        for lease in begun {
            give_back(&guest, lease).await;
        }
        let after = eventually_async(DEADLINE, "a lease after the disk is sound", async || {
            ask_until_answered(&guest, Span::HOUR).await.ok()
        })
        .await;
        until(&guest, after, "Active").await;
        running.stop().await.unwrap();
    });
    let journals = journals(folder.path(), &plans, &disk);
    let slices = journals.iter().map(|(&id, facts)| (id, facts.as_slice())).collect();
    audit_journals(&participants(folder.path(), &plans), &slices).unwrap();
}

/// How often the guest had to come back.
fn falls(running: &Running) -> u32 {
    let text = running.metrics().text();
    let line = text.lines().find(|line| line.contains("falls") && line.contains("actor=\"guest\""));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn an_actor_whose_disk_is_broken_says_why_and_comes_back_when_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, plans) = (FaultyDisk::new(7), Plans::default());
    block_on(&actix::System::new(), async {
        let running = start_anyhow(folder.path(), &plans, &disk).await;
        disk.arrange(Some(Fault { after: 0, for_ever: true }));
        let guest = of(&running, Role::ServiceManager);
        let lost = guest.command(GuestCommand::Ask(ask(1, now(), Span::HOUR))).await;
        assert_eq!(lost, Err(HostError::Unknown(Name::literal("guest"))));
        eventually_async(DEADLINE, "seven tries", async || falls(&running) >= 7).await;
        let why = guest.conditions().why_down().expect("it is down");
        assert!(why.contains("journal"), "{why}");
        assert!(guest.query(|_| ()).await.is_err());
        disk.arrange(None);
        let lease = ask_until_answered(&guest, Span::HOUR).await.unwrap();
        until(&guest, lease, "Active").await;
        assert_eq!(guest.conditions().why_down(), None);
        running.stop().await.unwrap();
    });
}
