//! A journal from its making to its reading.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use tenure_core::actor::Role;
use tenure_core::actor::fact::BadFact;
use tenure_core::model::codec::Hash;
use tenure_core::runtime::Entry;
use tenure_core::runtime::journal::AppendError;
use tenure_node::journal::{Head, JournalError, JournalFile, Reader};

use crate::parts::{Place, facts, guest, in_memory, owner, recovered};

#[test]
fn a_journal_comes_back_with_what_was_appended() {
    let place = Place::new();
    let mut file = place.open().unwrap();
    assert!(file.is_empty());
    file.append(0, &facts(0..3)).unwrap();
    file.append(3, &[]).unwrap();
    file.append(3, &facts(3..7)).unwrap();
    file.close().unwrap();
    assert_eq!(recovered(&place.path()), facts(0..7));
}

#[test]
fn a_journal_that_was_dropped_and_not_closed_comes_back_too() {
    let place = Place::new();
    let mut file = place.open().unwrap();
    file.append(0, &facts(0..5)).unwrap();
    drop(file);
    assert_eq!(recovered(&place.path()), facts(0..5));
}

#[test]
fn the_hash_is_that_of_a_journal_in_memory() {
    let place = Place::new();
    let mut file = place.open().unwrap();
    assert_eq!(file.hash(), in_memory(0).hash());
    for len in 1..20 {
        file.append(len - 1, &facts(len - 1..len)).unwrap();
        assert_eq!(file.head(), Head { len, hash: in_memory(len).hash() });
    }
    let head = file.head();
    drop(file);
    assert_eq!(place.open().unwrap().head(), head);
    assert_eq!(Reader::open(&place.path()).unwrap().read(|_, _| Ok(())).unwrap(), head);
}

#[test]
fn a_closed_journal_is_one_file_and_its_lock() {
    let place = Place::with(10);
    assert_eq!(files(&place), ["guest.journal", "guest.journal-lock"]);
}

#[test]
fn facts_are_read_from_any_position_on() {
    let place = Place::with(10);
    let file = place.open().unwrap();
    for from in [0, 4, 9, 10, 11] {
        let mut entries = Vec::new();
        let each = |position, entry| {
            assert_eq!(position, from + entries.len() as u64);
            entries.push(entry);
            Ok(())
        };
        file.read(from, each).unwrap();
        assert_eq!(entries, facts(from.min(10)..10));
    }
}

#[test]
fn a_journal_is_read_while_it_is_written() {
    let place = Place::new();
    let mut file = place.open().unwrap();
    for position in 0..50 {
        file.append(position, &facts(position..position + 1)).unwrap();
        let reader = Reader::open(&place.path()).unwrap();
        assert_eq!(*reader.owner(), guest());
        let mut entries = Vec::new();
        let head = reader.read(|_, entry| {
            entries.push(entry);
            Ok(())
        });
        assert_eq!(head.unwrap(), file.head());
        assert_eq!(entries, facts(0..position + 1));
    }
    file.close().unwrap();
}

/// The names of all files beside the journal.
fn files(place: &Place) -> Vec<OsString> {
    let mut names: Vec<_> =
        place.folder().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    names
}

fn read(reader: &Reader<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    let read = reader.read(|_, entry| {
        entries.push(entry);
        Ok(())
    });
    read.unwrap();
    entries
}

#[test]
fn what_is_appended_while_a_reader_comes_to_the_end_is_no_damage() {
    const FACTS: u64 = 2_000;
    let place = Place::new();
    let mut file = place.open().unwrap();
    let path = place.path();
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for position in 0..FACTS {
                file.append(position, &facts(position..position + 1)).unwrap();
            }
        });
        let mut before = 0;
        while !writing.is_finished() {
            let head = Reader::open(&path).unwrap().read(|_, _| Ok(())).unwrap();
            assert!((before..=FACTS).contains(&head.len), "{} after {before}", head.len);
            before = head.len;
        }
    });
    assert_eq!(Reader::open(&path).unwrap().read(|_, _| Ok(())).unwrap().len, FACTS);
}

#[test]
fn a_reader_leaves_no_file_behind() {
    let closed = Place::with(10);
    let unclosed = Place::new();
    let mut file = unclosed.open().unwrap();
    file.append(0, &facts(0..10)).unwrap();
    // As after a power cut: the log is there, what its users share is not.
    let cut = Place::new();
    for ending in ["", "-wal"] {
        fs::copy(unclosed.beside(ending), cut.beside(ending)).unwrap();
    }
    for place in [&closed, &unclosed, &cut] {
        let before = files(place);
        let reader = Reader::open(&place.path()).unwrap();
        assert_eq!(read(&reader), facts(0..10));
        assert_eq!(files(place), before);
        drop(reader);
        assert_eq!(files(place), before);
    }
    file.append(10, &facts(10..12)).unwrap();
    assert_eq!(recovered(&cut.path()), facts(0..10));
}

#[test]
fn a_writer_that_begins_beside_a_reader_is_noticed() {
    let closed = Place::with(10);
    let cut = Place::new();
    let other = Place::with(4);
    let mut file = other.open().unwrap();
    file.append(4, &facts(4..10)).unwrap();
    for ending in ["", "-wal"] {
        fs::copy(other.beside(ending), cut.beside(ending)).unwrap();
    }
    for place in [&closed, &cut] {
        let reader = Reader::open(&place.path()).unwrap();
        let mut file = place.open().unwrap();
        for position in (10..20_000).step_by(10) {
            file.append(position, &facts(position..position + 10)).unwrap();
        }
        assert_eq!(read(&reader), facts(0..20_000));
        let error =
            reader.read(|position, _| Err(JournalError::Missing(position.to_string().into())));
        assert!(matches!(error, Err(JournalError::Missing(at)) if at == Path::new("0")));
        file.append(20_000, &facts(20_000..20_001)).unwrap();
        assert_eq!(read(&reader).len(), 20_001);
        drop(reader);
        file.close().unwrap();
        assert_eq!(recovered(&place.path()), facts(0..20_001));
    }
}

#[test]
fn many_checkpoints_change_nothing() {
    let place = Place::new();
    let mut file = place.open().unwrap();
    for position in (0..100_000).step_by(1000) {
        file.append(position, &facts(position..position + 1000)).unwrap();
    }
    let head = file.head();
    let log = place.beside("-wal").metadata().unwrap().len();
    assert!(log < 16 << 20, "the log has grown to {log} bytes");
    drop(file);
    assert_eq!(place.open().unwrap().head(), head);
    assert_eq!(head.hash, in_memory(100_000).hash());
}

#[test]
fn an_append_elsewhere_than_at_the_end_is_fenced_and_ends_all_appending() {
    let place = Place::new();
    let mut file = place.open().unwrap();
    file.append(0, &facts(0..2)).unwrap();
    let fenced = Err(AppendError::Fenced { expected: 3, found: 2 });
    assert_eq!(file.append(3, &facts(3..4)), fenced);
    assert_eq!(file.append(2, &facts(2..3)), fenced);
    drop(file);
    assert_eq!(recovered(&place.path()), facts(0..2));
}

#[test]
fn a_second_opening_is_refused_and_names_the_holder() {
    let place = Place::new();
    let file = place.open().unwrap();
    let error = place.open().unwrap_err();
    let us = std::process::id();
    assert!(
        matches!(&error, JournalError::InUse { holder, .. } if holder.pid == Some(us)),
        "{error}"
    );
    drop(file);
    place.open().unwrap();
}

/// The other process of the next test: holds the given journal until it is killed.
#[test]
fn holder() {
    let Some(path) = env::var_os(HELD) else { return };
    let mut file = JournalFile::open(Path::new(&path), &guest()).unwrap();
    file.append(0, &facts(0..3)).unwrap();
    println!("held");
    io::stdin().read_line(&mut String::new()).unwrap();
}

/// Passes the journal's path to `holder`.
const HELD: &str = "TENURE_TEST_HELD";

#[test]
fn a_second_process_is_refused_until_the_first_is_killed() {
    let place = Place::new();
    let mut other = Command::new(env::current_exe().unwrap())
        .args(["--exact", "life::holder", "--nocapture"])
        .env(HELD, place.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("held")), "it ended before it had the journal");
    let error = place.open().unwrap_err();
    let id = other.id();
    assert!(
        matches!(&error, JournalError::InUse { holder, .. } if holder.pid == Some(id)),
        "{error}"
    );
    assert_eq!(Reader::open(&place.path()).unwrap().read(|_, _| Ok(())).unwrap().len, 3);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(recovered(&place.path()), facts(0..3));
}

#[test]
fn a_journal_of_somebody_else_is_refused() {
    let place = Place::with(3);
    for other in [
        owner("other", Role::ServiceManager, 1),
        owner("guest", Role::Broker, 1),
        owner("guest", Role::ServiceManager, 2),
    ] {
        let error = JournalFile::open(&place.path(), &other).unwrap_err();
        let JournalError::Foreign { found, expected, .. } = error else { panic!("{error}") };
        assert_eq!((*found, *expected), (guest(), other));
    }
}

#[test]
fn a_fact_that_its_actor_refuses_is_named() {
    let place = Place::with(5);
    let mut taken = 0;
    let refused = JournalFile::recover(&place.path(), &guest(), |_| {
        taken += 1;
        if taken == 4 { Err(BadFact::Foreign("some.kind")) } else { Ok(()) }
    });
    let error = refused.unwrap_err();
    assert!(matches!(error, JournalError::Refused { position: 3, .. }), "{error}");
    assert_eq!(error.position(), Some(3));
}

#[test]
fn heads_tell_an_old_copy_from_the_journal() {
    let place = Place::with(5);
    let old = fs::read(place.path()).unwrap();
    let mut file = place.open().unwrap();
    file.append(5, &facts(5..6)).unwrap();
    let head: Head = file.head();
    file.close().unwrap();
    fs::write(place.path(), old).unwrap();
    // On its own the old copy is as good as any; a party that remembers a later head knows better.
    let back = place.open().unwrap();
    assert!(back.len() < head.len);
    let hash_of_then: Hash = in_memory(5).hash();
    assert_eq!(back.hash(), hash_of_then);
}
