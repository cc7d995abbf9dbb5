//! How fast journals are written beside bare SQLite, and how fast an actor comes back.
//!
//! The facts are those of an emulated site. Everything is measured in one run on one disk; the median
//! of several rounds is printed with the least and the most.

#![allow(clippy::print_stdout, reason = "it prints what it has measured")]

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use rusqlite::{Connection, TransactionBehavior, params};
use tenure_config::{Override, Source};
use tenure_core::actor::fact::BadFact;
use tenure_core::actor::snapshot::RestoreError;
use tenure_core::actor::{Actor, Peers, Role, Setup};
use tenure_core::broker::Broker;
use tenure_core::driver::{Epoch, UnitId};
use tenure_core::model::identity::{ActorId, Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::Constraints;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::{AnyActor, Entry};
use tenure_core::service_manager::ServiceManager;
use tenure_core::service_manager::facts as sm;
use tenure_core::service_manager::group::Handling;
use tenure_core::service_manager::mapper::{Decision, ServiceManagerMapper, View};
use tenure_core::site_authority::{Plan, SiteAuthority};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Clauses, Generation, Link, SignedLink};
use tenure_core::wire::message::LeasedUnit;
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::{History, Provisos};
use tenure_core::wire::request::{Item, Request};
use tenure_node::journal::{JournalFile, Owner, Past, Snapshots, SystemDisk};
use tenure_sim::emulation::{Emulation, Inputs, Progress};
use tenure_sim::scenario;

/// The facts that an actor comes back from.
const RECOVERED: usize = 1_000_000;
/// The facts that are written in each round.
const WRITTEN: usize = 20_000;
/// How often each thing is measured.
const ROUNDS: usize = 7;

/// The facts of one actor.
struct Actors {
    owner: Owner,
    facts: Vec<Entry>,
}

fn main() {
    let actors = emulated(RECOVERED);
    for Actors { owner, facts } in &actors {
        let bytes: usize = facts.iter().map(|entry| encoded(entry).len()).sum();
        println!("{}: {} facts, {} bytes each", owner.name, facts.len(), bytes / facts.len());
    }
    let folder = tempfile::tempdir_in(".").expect("a folder for the journals");
    let guest = actors.iter().find(|actor| actor.owner.role == Role::ServiceManager);
    write(folder.path(), &guest.expect("a guest").facts[..WRITTEN]);
    recover(folder.path(), &actors);
    snapshot_of_many(folder.path());
}

/// The first facts of all actors in a long emulation, so many together.
fn emulated(count: usize) -> Vec<Actors> {
    let text = include_str!("../../config/emulations/lease-term.toml");
    let sets = ["sweep.term=[\"1h\"]", "horizon=3650d", "signatures=none"];
    let sets: Vec<Override> = sets.iter().map(|set| set.parse().expect("an override")).collect();
    let points = scenario::parse(Source { name: "lease-term.toml", text }, &sets).expect("valid");
    let scenario = &points[0].scenario;
    let steps = scenario.horizon.as_micros() / scenario.step.as_micros();
    let wave = |k: i64| u32::try_from(60 + (k * 37 % 67) - k % 11).unwrap_or(60);
    let demand = scenario.service_managers.keys();
    let demand = demand.map(|name| (name.clone(), (0..steps).map(wave).collect())).collect();
    let mut actors: Vec<Actors> = Vec::new();
    let done = std::cell::Cell::new(0);
    {
        let keeper = |kept: tenure_sim::emulation::Kept<'_>| {
            let owner = Owner { name: kept.name.clone(), role: kept.role, id: kept.id };
            let at = actors.iter().position(|actor| actor.owner == owner).unwrap_or_else(|| {
                actors.push(Actors { owner, facts: Vec::new() });
                actors.len() - 1
            });
            actors[at].facts.extend_from_slice(kept.entries);
            done.set(done.get() + kept.entries.len());
            Ok(())
        };
        let inputs = Inputs { demand, ..Inputs::default() };
        let mut run = Emulation::kept_by(Box::new(keeper), scenario, &inputs).expect("a run");
        while done.get() < count && run.step().expect("a step") != Progress::Done {}
    }
    assert!(done.get() >= count, "the emulation ends after {} facts", done.get());
    actors
}

fn encoded(entry: &Entry) -> Vec<u8> {
    let mut body = Vec::new();
    entry.fact.encode_into(&mut body);
    body
}

fn owner() -> Owner {
    let id = Signer::from_seed(Scheme::None, [1; 32]).id();
    let name = Name::literal("alpha");
    Owner { name, role: Role::SiteAuthority, id }
}

/// Facts a second through the journal thread with so many appends under way, and through bare SQLite
/// in transactions of the size that came of it.
fn write(folder: &Path, facts: &[Entry]) {
    println!("\nfacts of the guest, one an append");
    println!(
        "\nunder way  facts a sync  journal facts/s           SQLite facts/s            ratio"
    );
    for under_way in [1, 4, 16, 64, 256, 1024] {
        let (mut ours, mut bare, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        let facts = &facts[..facts.len().min(under_way * 1000)];
        for round in 0..ROUNDS {
            let path = folder.join(format!("{under_way}-{round}.journal"));
            let (rate, size) = through_the_journal(&path, facts, under_way);
            ours.push(rate);
            sizes.push(size);
            let path = folder.join(format!("{under_way}-{round}.sqlite"));
            bare.push(through_sqlite(&path, facts, (size.round() as usize).max(1)));
        }
        let (ours, bare, size) = (spread(&mut ours), spread(&mut bare), spread(&mut sizes));
        println!(
            "{under_way:>9}  {:>12.1}  {:>7.0} ({:>7.0} {:>7.0})  {:>7.0} ({:>7.0} {:>7.0})  {:>5.2}",
            size.1,
            ours.1,
            ours.0,
            ours.2,
            bare.1,
            bare.0,
            bare.2,
            ours.1 / bare.1
        );
    }
}

/// The least, the median and the most.
fn spread(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[0], values[values.len() / 2], values[values.len() - 1])
}

fn through_the_journal(path: &Path, facts: &[Entry], under_way: usize) -> (f64, f64) {
    let writer = JournalFile::open(path, &owner()).and_then(JournalFile::into_writer);
    let writer = writer.expect("a journal");
    let (done, answers) = mpsc::channel();
    let start = Instant::now();
    for (position, entry) in facts.iter().enumerate() {
        if position >= under_way {
            answers.recv().expect("an answer");
        }
        let done = done.clone();
        writer.append(position as u64, vec![entry.clone()], move |result| {
            result.expect("durable");
            done.send(()).expect("somebody waits");
        });
    }
    for _ in 0..under_way.min(facts.len()) {
        answers.recv().expect("an answer");
    }
    let rate = facts.len() as f64 / start.elapsed().as_secs_f64();
    let size = facts.len() as f64 / writer.commits() as f64;
    writer.close().expect("closed");
    (rate, size)
}

/// The same rows with the same settings, and nothing else: no checksum, no hash, no thread.
fn through_sqlite(path: &Path, facts: &[Entry], size: usize) -> f64 {
    let mut connection = Connection::open(path).expect("a database");
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
             CREATE TABLE fact (position INTEGER PRIMARY KEY, time INTEGER NOT NULL, \
             kind TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL, \
             checksum INTEGER NOT NULL, hash BLOB NOT NULL) STRICT;",
        )
        .expect("a table");
    let bodies: Vec<Vec<u8>> = facts.iter().map(encoded).collect();
    let start = Instant::now();
    let mut position = 0;
    for (facts, bodies) in facts.chunks(size).zip(bodies.chunks(size)) {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).expect("begun");
        {
            let mut insert = transaction
                .prepare_cached("INSERT INTO fact VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
                .expect("a statement");
            for (entry, body) in facts.iter().zip(bodies) {
                let (kind, version) = entry.fact.kind();
                let at = entry.at.as_micros();
                let row = params![position, at, kind, version, body, 0x1234_5678, [7_u8; 32]];
                insert.execute(row).expect("a row");
                position += 1;
            }
        }
        transaction.commit().expect("durable");
    }
    facts.len() as f64 / start.elapsed().as_secs_f64()
}

fn setup() -> Setup {
    let signer = Signer::from_seed(Scheme::None, [1; 32]);
    let name = Name::literal("alpha");
    Setup { name, signer, margin: Span::SECOND, peers: Peers::default() }
}

/// A mapper that is never asked.
struct Idle;

impl ServiceManagerMapper for Idle {
    fn decide(&self, view: &View) -> Decision {
        Decision { round: view.round(), ..Decision::default() }
    }
}

fn hosted() -> HostedActor {
    let actor = ServiceManager::new(setup(), Span::ZERO);
    HostedActor::service_manager(actor, Box::new(Idle))
}

/// An actor that can fold the facts of its role; it signs nothing.
fn blank(role: Role) -> AnyActor {
    let setup = setup();
    match role {
        Role::ServiceManager => ServiceManager::new(setup, Span::ZERO).into(),
        Role::Broker => Broker::new(setup).into(),
        Role::SiteAuthority => SiteAuthority::new(setup, Plan::default()).into(),
    }
}

/// An actor that comes back.
struct Back(AnyActor);

impl Past for Back {
    fn restore(&mut self, state: &[u8], _: u64, _: Time) -> Result<(), RestoreError> {
        self.0.restore(state)
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), BadFact> {
        self.0.replay(entry)
    }
}

/// A guest's request for one unit.
fn request(guest: ActorId, number: u64, term: Term) -> Request {
    let item = Item::new(Name::literal("node"), NonZeroU32::MIN);
    Request {
        id: RequestId { origin: guest, number },
        items: vec![item],
        earliest: term.start(),
        latest: term.start(),
        duration: term.duration(),
        min_duration: term.duration(),
        provisos: Provisos::NONE,
        history: History::first(term.start()),
        receipts: Vec::new(),
        reply: Reply::Grant,
        answer_by: term.end(),
        properties: Properties::default(),
    }
}

/// The facts of a guest up to so many leases that are in use.
fn leases(count: u64) -> Vec<Entry> {
    let [site, broker, guest] = [1, 2, 3].map(|key| Signer::from_seed(Scheme::None, [key; 32]));
    let units = NonZeroU32::MIN.saturating_add(u32::MAX - 1);
    let term = Term::lasting(Time::ZERO, Span::DAY).expect("a term");
    let root = Link {
        parent: None,
        issuer: site.id(),
        holder: broker.id(),
        resource: Name::literal("node"),
        units,
        term,
        constraints: Constraints::NONE,
        clauses: Clauses::NONE,
        delegation: Some(Generation { delegation: 1, generation: 0 }),
        extends: None,
        serial: 1,
    };
    let root = Ticket::root_of(SignedLink::sign(root, &site));
    let mut facts = Vec::new();
    for number in 1..=count {
        let start = Time::from_secs((number % 40_000) as i64);
        let term = Term::lasting(start, Span::HOUR).expect("a term");
        let link = Link {
            parent: Some(root.hash()),
            issuer: broker.id(),
            holder: guest.id(),
            units: NonZeroU32::MIN,
            term,
            delegation: None,
            serial: number + 1,
            ..Link::clone(root.bottom())
        };
        let ticket = root.with(SignedLink::sign(link, &broker));
        let request = request(guest.id(), number, term);
        let lease = LeaseId { number, part: 0 };
        let host = BTreeMap::from([(Name::literal("host"), format!("host-{number}"))]);
        let unit = LeasedUnit {
            unit: UnitId(number as u32),
            epoch: Epoch(1),
            quantity: NonZeroU32::MIN,
            properties: Properties::try_from(host).expect("properties"),
        };
        let asked = sm::Asked {
            broker: broker.id(),
            slice: Name::literal("main"),
            request,
            configuration: Properties::default(),
            handling: Handling::default(),
            grows: None,
            reason: "a request".to_owned(),
        };
        let joined = sm::Joined { lease, unit: unit.unit, error: None };
        let of_lease: [sm::Fact; 4] = [
            asked.into(),
            sm::Granted { number, tickets: vec![(0, ticket)] }.into(),
            sm::Leased { lease, term, units: vec![unit] }.into(),
            joined.into(),
        ];
        facts.extend(of_lease.map(|fact| Entry { at: start, fact: fact.into() }));
    }
    facts
}

/// What a snapshot of a guest with many leases costs, and what it costs those who append in the meantime.
fn snapshot_of_many(folder: &Path) {
    const LEASES: u64 = 100_000;
    let facts = leases(LEASES);
    let mut actor = blank(Role::ServiceManager);
    facts.iter().for_each(|entry| actor.replay(entry).expect("it follows"));
    let timed = |what: &str, run: &mut dyn FnMut()| {
        let mut seconds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                run();
                start.elapsed().as_secs_f64()
            })
            .collect();
        let (min, median, most) = spread(&mut seconds);
        println!("{what:<35} {median:>6.2} s ({min:.2} {most:.2})");
    };
    let state = actor.snapshot();
    println!("\na guest with {LEASES} leases in use: a snapshot of {} MiB", state.len() >> 20);
    timed("encode", &mut || drop(actor.snapshot()));
    timed("decode", &mut || blank(Role::ServiceManager).restore(&state).expect("it is sound"));
    let owner = Owner { role: Role::ServiceManager, ..owner() };
    let path = folder.join("many.journal");
    let mut file = JournalFile::open(&path, &owner).expect("a journal");
    file.append(0, &facts).expect("durable");
    timed("write and sync", &mut || file.keep(state.clone()).expect("durable"));
    drop(file);
    // Appends continue while a snapshot is taken behind the actor's back.
    let every = facts.len() as u64 + 1000;
    for every in [u64::MAX, every] {
        let path = folder.join(format!("many-{every}.journal"));
        let mut file = JournalFile::open(&path, &owner).expect("a journal");
        file.append(0, &facts).expect("durable");
        let build = Arc::new(|| Some(hosted()));
        let snapshots = Snapshots { every, archive: None, build, disk: Arc::new(SystemDisk) };
        let writer = file.into_writer_with(snapshots).expect("a thread");
        let mut waits = Vec::new();
        for position in (facts.len() as u64..).take(4000) {
            let (done, answer) = mpsc::sync_channel(1);
            let fact =
                sm::Fact::from(sm::SignalObserved { signal: Name::literal("demand"), value: 1 });
            let entry = Entry { at: Time::ZERO, fact: fact.into() };
            let start = Instant::now();
            writer.append(position, vec![entry], move |result| {
                done.send(result).expect("somebody waits");
            });
            answer.recv().expect("an answer").expect("durable");
            waits.push(start.elapsed().as_secs_f64() * 1000.0);
        }
        let (_, median, most) = spread(&mut waits);
        let long = waits[waits.len() * 999 / 1000];
        let with = if every == u64::MAX { "no snapshot" } else { "a snapshot" };
        println!(
            "an append, {with} under way: {median:.2} ms, of 1,000 the longest but one {long:.2} ms, \
             the longest of all {most:.2} ms"
        );
        writer.close().expect("closed");
    }
}

/// How long all actors take to come back, one after another on one core.
fn recover(folder: &Path, actors: &[Actors]) {
    let path = |owner: &Owner| folder.join(format!("{}.journal", owner.name));
    let (mut count, mut size) = (0, 0);
    for Actors { owner, facts } in actors {
        let mut file = JournalFile::open(&path(owner), owner).expect("a journal");
        for (position, facts) in (0..).step_by(1000).zip(facts.chunks(1000)) {
            file.append(position, facts).expect("durable");
        }
        file.close().expect("closed");
        count += facts.len();
        size += path(owner).metadata().expect("a file").len();
    }
    println!("\n{count} facts in {} journals of {} MiB", actors.len(), size >> 20);
    let timed = |what: &str, run: &dyn Fn(&Actors)| {
        let mut seconds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                actors.iter().for_each(run);
                start.elapsed().as_secs_f64()
            })
            .collect();
        let (min, median, most) = spread(&mut seconds);
        println!("{what:<35} {median:>6.2} s ({min:.2} {most:.2})");
    };
    timed("fold facts in memory", &|Actors { owner, facts }| {
        let mut actor = blank(owner.role);
        facts.iter().for_each(|entry| actor.replay(entry).expect("it follows"));
    });
    timed("open: read, checksum, hash", &|Actors { owner, .. }| {
        drop(JournalFile::open(&path(owner), owner).expect("a journal"));
    });
    timed("open and decode", &|Actors { owner, .. }| {
        drop(JournalFile::recover(&path(owner), owner, |_| Ok(())).expect("a journal"));
    });
    timed("recover: open, decode and fold", &|Actors { owner, .. }| {
        let mut back = Back(blank(owner.role));
        drop(JournalFile::resume(&path(owner), owner, &mut back).expect("a journal"));
    });
    for Actors { owner, facts } in actors {
        let mut back = Back(blank(owner.role));
        let mut file = JournalFile::resume(&path(owner), owner, &mut back).expect("a journal");
        assert_eq!(back.0.position(), facts.len() as u64);
        file.keep(back.0.snapshot()).expect("durable");
        file.close().expect("closed");
    }
    timed("recover from a snapshot", &|Actors { owner, facts }| {
        let mut back = Back(blank(owner.role));
        let file = JournalFile::resume(&path(owner), owner, &mut back).expect("a journal");
        assert_eq!((file.kept(), back.0.position()), (facts.len() as u64, facts.len() as u64));
    });
}
