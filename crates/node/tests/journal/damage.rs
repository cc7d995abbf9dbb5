//! Journals that were damaged or altered.

use tenure_node::journal::{Damage, JournalError, Reader};

use crate::parts::Place;

/// What both the opening for writing and the reading say.
fn verdict(place: &Place) -> JournalError {
    let opened = place.open().unwrap_err();
    let read = Reader::open(&place.path()).and_then(|reader| reader.read(|_, _| Ok(())));
    assert_eq!(opened.to_string(), read.unwrap_err().to_string());
    opened
}

#[test]
fn every_change_of_a_row_is_found_where_it_is() {
    let changes = [
        ("body = x'00'", Damage::Checksum),
        ("time = time + 1", Damage::Checksum),
        ("kind = 'broker.woken'", Damage::Checksum),
        ("version = 2", Damage::Checksum),
        ("checksum = checksum + 1", Damage::Checksum),
        ("hash = zeroblob(32)", Damage::Chain),
        ("hash = x''", Damage::Chain),
    ];
    for (change, expected) in changes {
        for at in [0, 7, 19] {
            let place = Place::with(20);
            place.edit(&format!("UPDATE fact SET {change} WHERE position = {at}"));
            let error = verdict(&place);
            let JournalError::Damaged { position, damage, .. } = error else { panic!("{error}") };
            assert_eq!((position, damage), (at, expected.clone()), "{change}");
        }
    }
}

#[test]
fn a_row_of_another_journal_does_not_go_on_from_the_one_before() {
    let place = Place::with(20);
    // A fact that is whole on its own, in a journal whose earlier facts are others.
    let other = Place::with(20);
    other.edit("UPDATE fact SET hash = zeroblob(32) WHERE position = 6");
    place.edit(&format!(
        "ATTACH '{}' AS other; \
         DELETE FROM fact WHERE position = 6; \
         INSERT INTO fact SELECT * FROM other.fact WHERE position = 6;",
        other.path().display()
    ));
    let error = verdict(&place);
    assert!(
        matches!(error, JournalError::Damaged { position: 6, damage: Damage::Chain, .. }),
        "{error}"
    );
}

#[test]
fn a_missing_fact_is_named() {
    for at in [0, 7, 18] {
        let place = Place::with(20);
        place.edit(&format!("DELETE FROM fact WHERE position = {at}"));
        let error = verdict(&place);
        let JournalError::Damaged { position, damage, .. } = error else { panic!("{error}") };
        assert_eq!((position, damage), (at, Damage::Missing));
    }
}

#[test]
fn a_tail_that_was_cut_off_after_the_journal_was_closed_is_missed() {
    let place = Place::with(20);
    place.edit("DELETE FROM fact WHERE position >= 15");
    let error = verdict(&place);
    assert!(matches!(error, JournalError::CutShort { found: 15, expected: 20, .. }), "{error}");
}

#[test]
fn a_log_that_is_gone_is_missed() {
    let place = Place::new();
    let mut file = place.open().unwrap();
    file.append(0, &crate::parts::facts(0..5)).unwrap();
    drop(file);
    std::fs::remove_file(place.beside("-wal")).unwrap();
    let error = verdict(&place);
    assert!(matches!(error, JournalError::LogGone { .. }), "{error}");
}

#[test]
fn a_log_that_another_program_has_copied_into_the_journal_is_not_missed() {
    let place = Place::new();
    let mut file = place.open().unwrap();
    file.append(0, &crate::parts::facts(0..5)).unwrap();
    drop(file);
    place.edit("SELECT 1 FROM fact");
    assert!(!place.beside("-wal").exists());
    assert_eq!(place.open().unwrap().len(), 5);
}

#[test]
fn a_newer_format_is_left_alone() {
    let place = Place::with(3);
    place.edit("PRAGMA user_version = 99");
    let error = verdict(&place);
    assert!(matches!(error, JournalError::Newer { found: 99, .. }), "{error}");
}

#[test]
fn another_file_is_no_journal() {
    let place = Place::new();
    place.edit("CREATE TABLE mine (x); INSERT INTO mine VALUES (1)");
    assert!(matches!(verdict(&place), JournalError::NotAJournal(_)));
    let place = Place::new();
    std::fs::write(place.path(), "a text that is long enough to be read as the header".repeat(9))
        .unwrap();
    assert!(matches!(verdict(&place), JournalError::NotAJournal(_)));
}
