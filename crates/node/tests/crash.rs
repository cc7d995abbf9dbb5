//! Crashes: the hosts are dropped at any point and come back from their journals, again and again.

#![allow(clippy::unwrap_used, reason = "in a test it is the way to say what must hold")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use common::{Plans, ask, now, of, parts, start, state};
use tenure_core::actor::Role;
use tenure_core::driver::{Answer, Call, DriverError, Epoch, ResourceDriver, Step, UnitId};
use tenure_core::effect::Command;
use tenure_core::fact::Entry;
use tenure_core::identity::ActorId;
use tenure_core::invariants::{Cast, Player, audit_journals};
use tenure_core::property::Properties;
use tenure_core::slice::LeaseId;
use tenure_core::time::Span;
use tenure_node::deployment::Running;
use tenure_node::host::{Committed, Handle};
use tenure_node::journal::{JournalFile, Owner};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// A driver that remembers who has each unit, beyond all crashes, and what went wrong.
#[derive(Default)]
struct Yard {
    units: Mutex<BTreeMap<UnitId, (Epoch, Option<LeaseId>)>>,
    wrongs: Mutex<Vec<String>>,
}

impl ResourceDriver for Yard {
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
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % most
    }
}

/// What was acknowledged: the lease, and the facts behind it.
type Acknowledged = BTreeMap<LeaseId, Committed>;

/// Guests ask, and close half of what they asked for before, until the deployment crashes after so many
/// facts.
async fn live_and_crash(running: Running, dice: &mut Dice, known: &mut Acknowledged) {
    let guest = of(&running, Role::ServiceManager);
    let mut at_guest = guest.facts().await.unwrap().facts;
    let mut at_broker = of(&running, Role::Broker).facts().await.unwrap().facts;
    let mut at_site = of(&running, Role::SiteAuthority).facts().await.unwrap().facts;
    let (told, mut heard) = unbounded_channel();
    for _ in 0..1 + dice.below(3) {
        actix::spawn(use_up(guest.clone(), Dice(dice.below(1000)), told.clone()));
    }
    for _ in 0..dice.below(120) {
        tokio::select! {
            fact = at_guest.recv() => fact,
            fact = at_broker.recv() => fact,
            fact = at_site.recv() => fact,
        }
        .expect("nobody falls by itself");
    }
    drop(running);
    drop(told);
    while let Some(committed) = heard.recv().await {
        known.insert(committed.lease().unwrap(), committed);
    }
}

/// Asks and closes until the service manager is gone.
async fn use_up(guest: Handle, mut dice: Dice, told: UnboundedSender<Committed>) {
    loop {
        let wish = ask(1 + dice.below(2) as u32, now(), Span::HOUR);
        let Ok(committed) = guest.command(Command::Ask(wish)).await else { return };
        let lease = committed.lease().unwrap();
        told.send(committed).unwrap();
        if dice.below(2) == 0 {
            drop(guest.command(Command::Close { lease }).await);
        }
    }
}

/// Closes every lease and waits until it is over.
async fn wind_up(guest: &Handle, known: &Acknowledged) {
    for &lease in known.keys() {
        while !matches!(state(guest, lease).await.as_str(), "Closed" | "") {
            drop(guest.command(Command::Close { lease }).await);
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

fn journals(folder: &Path, plans: &Plans) -> BTreeMap<ActorId, Vec<Entry>> {
    let read = |part: tenure_node::host::Part| {
        let tenure_node::host::Card { name, role, id } = part.card;
        let mut entries = Vec::new();
        let file = JournalFile::recover(&part.journal, &Owner { name, role, id }, |entry| {
            entries.push(entry.clone());
            Ok(())
        });
        file.unwrap().close().unwrap();
        (id, entries)
    };
    parts(folder, plans).into_iter().map(read).collect()
}

fn cast(folder: &Path, plans: &Plans) -> Cast {
    let player = |part: tenure_node::host::Part| {
        let tenure_node::host::Card { name, role, id } = part.card;
        (id, Player { name, role, honest: true })
    };
    Cast {
        players: parts(folder, plans).into_iter().map(player).collect(),
        scheme: plans.scheme,
        margin: plans.margin,
        clocks_hold: true,
    }
}

#[test]
fn whenever_the_hosts_are_dropped_nothing_acknowledged_is_lost_and_no_unit_is_in_two_hands() {
    for seed in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let yard = Arc::new(Yard::default());
        let plans = Plans { units: 6, site: yard.clone(), ..Plans::default() };
        let (mut dice, mut known) = (Dice(seed), Acknowledged::new());
        let system = actix::System::new();
        for _ in 0..12 {
            system.block_on(async {
                let running = start(folder.path(), &plans).await;
                live_and_crash(running, &mut dice, &mut known).await;
            });
        }
        assert!(!known.is_empty(), "seed {seed}: nothing was acknowledged");
        system.block_on(async {
            let running = start(folder.path(), &plans).await;
            wind_up(&of(&running, Role::ServiceManager), &known).await;
            running.stop().await.unwrap();
        });
        let journals = journals(folder.path(), &plans);
        let guest =
            journals.values().find(|facts| facts[0].fact.kind().0 == "service-manager.woken");
        for (lease, Committed { position, facts }) in &known {
            let first = usize::try_from(*position).unwrap();
            assert_eq!(&guest.unwrap()[first..first + facts.len()], facts, "seed {seed}: {lease}");
        }
        let slices = journals.iter().map(|(&id, facts)| (id, facts.as_slice())).collect();
        audit_journals(&cast(folder.path(), &plans), &slices)
            .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        assert_eq!(*yard.wrongs.lock().unwrap(), Vec::<String>::new(), "seed {seed}");
    }
}
