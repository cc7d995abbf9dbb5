//! How fast journals are written beside bare SQLite, and how fast an actor comes back.
//!
//! The facts are those of an emulated site. Everything is measured in one run on one disk; the median
//! of several rounds is printed with the least and the most.

#![allow(clippy::print_stdout, reason = "it prints what it has measured")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

use rusqlite::{Connection, TransactionBehavior, params};
use tenure_config::{Override, Source};
use tenure_core::actor::service_manager::ServiceManager;
use tenure_core::actor::site_authority::{Plan, SiteAuthority};
use tenure_core::actor::{Actor, Role, Setup, broker::Broker};
use tenure_core::fact::Entry;
use tenure_core::identity::{Scheme, Signer};
use tenure_core::time::Span;
use tenure_node::journal::{JournalFile, Owner};
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
        let inputs = Inputs { demand };
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
    let name = tenure_core::name::Name::literal("alpha");
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

/// An actor that can fold the facts of its role; it signs nothing.
fn blank(role: Role) -> Box<dyn Actor> {
    let signer = Signer::from_seed(Scheme::None, [1; 32]);
    let name = tenure_core::name::Name::literal("alpha");
    let setup = Setup { name, signer, margin: Span::SECOND, peers: BTreeMap::new() };
    match role {
        Role::ServiceManager => Box::new(ServiceManager::new(setup, Span::ZERO)),
        Role::Broker => Box::new(Broker::new(setup)),
        Role::SiteAuthority => Box::new(SiteAuthority::new(setup, Plan::default())),
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
        let (least, median, most) = spread(&mut seconds);
        println!("{what:<35} {median:>6.2} s ({least:.2} {most:.2})");
    };
    timed("fold facts in memory", &|Actors { owner, facts }| {
        let mut actor = blank(owner.role);
        facts.iter().for_each(|entry| actor.apply(entry).expect("it follows"));
    });
    timed("open: read, checksum, hash", &|Actors { owner, .. }| {
        drop(JournalFile::open(&path(owner), owner).expect("a journal"));
    });
    timed("open and decode", &|Actors { owner, .. }| {
        drop(JournalFile::recover(&path(owner), owner, |_| Ok(())).expect("a journal"));
    });
    timed("recover: open, decode and fold", &|Actors { owner, .. }| {
        let mut actor = blank(owner.role);
        let file = JournalFile::recover(&path(owner), owner, |entry| actor.apply(entry));
        drop(file.expect("a journal"));
    });
}
