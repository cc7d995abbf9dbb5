//! Archives: facts before a snapshot move to segments, and are read as if they were still there.

use std::fs;
use std::path::PathBuf;

use tenure_core::actor::Actor as _;
use tenure_core::actor::fact::BadFact;
use tenure_core::actor::snapshot::RestoreError;
use tenure_core::model::identity::{Scheme, Signer};
use tenure_core::model::time::Time;
use tenure_core::runtime::Entry;
use tenure_node::journal::{
    Head, JournalError, JournalFile, Past, Reader, SegmentDamage, SignedHead, SystemDisk,
};

use crate::parts::{Place, facts, guest, in_memory, recovered};
use crate::snapshots::folded;

fn signer() -> Signer {
    Signer::from_seed(Scheme::Ed25519, [1; 32])
}

/// A journal of 400 facts in four segments and a live file, closed.
fn archived() -> Place {
    let place = Place::new();
    let mut file = place.open().unwrap();
    for end in [80, 160, 240, 320, 400] {
        file.append(file.len(), &facts(file.len()..end)).unwrap();
        file.keep(folded(end).actor().snapshot()).unwrap();
        file.archive(&SystemDisk, &signer()).unwrap();
    }
    file.close().unwrap();
    place
}

fn segment(place: &Place, number: u64) -> PathBuf {
    place.beside("-archive").join(format!("{number:08}.segment"))
}

fn verify(place: &Place) -> Result<(Head, Vec<SignedHead>), JournalError> {
    let mut read = Vec::new();
    let verified = Reader::open(&place.path())?.verify(|entry| read.push(entry))?;
    assert_eq!(read, facts(0..400));
    Ok(verified)
}

/// What a query of the live file answers.
fn live(place: &Place, sql: &str) -> u64 {
    let connection = rusqlite::Connection::open(place.path()).unwrap();
    connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as u64
}

#[test]
fn facts_are_read_from_archive_and_live_file_as_one() {
    let place = archived();
    let (head, segments) = verify(&place).unwrap();
    assert_eq!((head.len, head.hash), (400, in_memory(400).hash()));
    let bounds: Vec<_> = segments.iter().map(|s| (s.head.first, s.head.last)).collect();
    assert_eq!(bounds, [(0, 78), (79, 158), (159, 238), (239, 318)]);
    assert_eq!(live(&place, "SELECT min(position) FROM fact"), 319);
    assert_eq!(recovered(&place.path()), facts(0..400));
    let reader = Reader::open(&place.path()).unwrap();
    for (first, count) in [(0, 1), (78, 2), (318, 2), (399, 1), (0, 400)] {
        assert_eq!(reader.facts(first, count).unwrap(), facts(first..first + count));
    }
    assert!(matches!(
        reader.facts(400, 1).unwrap_err(),
        JournalError::Damaged { position: 400, .. }
    ));
    let mut file = place.open().unwrap();
    assert_eq!(file.hash(), in_memory(400).hash());
    file.append(400, &facts(400..410)).unwrap();
    file.close().unwrap();
    assert_eq!(recovered(&place.path()), facts(0..410));
}

#[test]
fn nothing_is_archived_without_a_snapshot_nor_behind_the_older_of_two() {
    let place = Place::with(50);
    let mut file = place.open().unwrap();
    file.archive(&SystemDisk, &signer()).unwrap();
    assert!(!place.beside("-archive").exists());
    file.keep(folded(50).actor().snapshot()).unwrap();
    file.append(50, &facts(50..90)).unwrap();
    file.keep(folded(90).actor().snapshot()).unwrap();
    file.archive(&SystemDisk, &signer()).unwrap();
    file.close().unwrap();
    assert_eq!(live(&place, "SELECT min(position) FROM fact"), 49);
    assert_eq!(recovered(&place.path()), facts(0..90));
}

/// An actor that takes no snapshot, or the one that it is handed.
struct Counts {
    takes: bool,
    position: u64,
}

impl Past for Counts {
    fn restore(&mut self, _: &[u8], position: u64, _: Time) -> Result<(), RestoreError> {
        if !self.takes {
            return Err(RestoreError::Settings);
        }
        self.position = position;
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), BadFact> {
        assert_eq!(*entry, facts(self.position..self.position + 1)[0]);
        self.position += 1;
        Ok(())
    }
}

fn start(place: &Place, takes: bool) -> Result<u64, JournalError> {
    let mut counts = Counts { takes, position: 0 };
    JournalFile::resume(&place.path(), &guest(), &mut counts)?;
    Ok(counts.position)
}

/// What verification says of an archive after something was done to it: which segment, and what is wrong.
/// An actor with a snapshot starts all the same.
fn wrong(ruin: impl FnOnce(&Place)) -> (u64, (u64, u64), SegmentDamage) {
    let place = archived();
    ruin(&place);
    let error = verify(&place).unwrap_err();
    let JournalError::Segment { number, first, last, cause, path } = &error else {
        panic!("{error}")
    };
    assert_eq!(*path, segment(&place, *number));
    assert_eq!(error.position(), Some(*first));
    assert_eq!(start(&place, true).unwrap(), 400);
    (*number, (*first, *last), cause.clone())
}

fn change(place: &Place, number: u64, change: impl FnOnce(&mut Vec<u8>)) {
    let path = segment(place, number);
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
}

#[test]
fn a_segment_that_is_missing_cut_changed_or_in_anothers_place_is_named() {
    let second = (1, (79, 158));
    let named = |(number, facts, cause)| ((number, facts), cause);
    let missing = wrong(|place| fs::remove_file(segment(place, 1)).unwrap());
    assert_eq!(named(missing), (second, SegmentDamage::Missing));
    let (at, cause) = named(wrong(|place| change(place, 1, |bytes| bytes.truncate(200))));
    assert_eq!(at, second);
    assert!(matches!(cause, SegmentDamage::Malformed(_)), "{cause}");
    let (at, cause) = named(wrong(|place| {
        change(place, 1, |bytes| {
            bytes.pop();
        });
    }));
    assert_eq!(at, second);
    assert!(matches!(cause, SegmentDamage::Length { .. }), "{cause}");
    let extended = named(wrong(|place| change(place, 1, |bytes| bytes.push(0))));
    assert!(matches!(extended.1, SegmentDamage::Length { .. }));
    let altered = wrong(|place| change(place, 1, |bytes| *bytes.last_mut().unwrap() ^= 1));
    assert_eq!(named(altered), (second, SegmentDamage::Content));
    let head = wrong(|place| change(place, 1, |bytes| bytes[50] ^= 1));
    assert_eq!(named(head), (second, SegmentDamage::Head));
    let version = wrong(|place| change(place, 1, |bytes| bytes[4] = 9));
    assert_eq!(named(version), (second, SegmentDamage::Newer(9)));
    let other = wrong(|place| fs::write(segment(place, 1), "something else").unwrap());
    assert!(matches!(named(other), (at, SegmentDamage::Malformed(_)) if at == second));
    let swapped = wrong(|place| {
        let aside = place.folder().join("aside");
        fs::rename(segment(place, 1), &aside).unwrap();
        fs::rename(segment(place, 2), segment(place, 1)).unwrap();
        fs::rename(&aside, segment(place, 2)).unwrap();
    });
    let owner = signer().id();
    assert_eq!(named(swapped), (second, SegmentDamage::Misplaced { number: 2, owner }));
}

#[test]
fn a_start_without_a_snapshot_names_the_segment_that_it_lacks() {
    let place = archived();
    assert_eq!(start(&place, false).unwrap(), 400);
    fs::remove_file(segment(&place, 2)).unwrap();
    let error = start(&place, false).unwrap_err();
    assert!(
        matches!(error, JournalError::Segment { number: 2, cause: SegmentDamage::Missing, .. }),
        "{error}"
    );
    assert_eq!(start(&place, true).unwrap(), 400);
}

/// Whoever can write the live file as well can make it name another archive, but not sign it.
#[test]
fn an_archive_that_another_key_has_signed_is_refused() {
    let (place, thief) = (Place::new(), Signer::from_seed(Scheme::Ed25519, [9; 32]));
    let mut file = place.open().unwrap();
    file.append(0, &facts(0..400)).unwrap();
    file.keep(folded(400).actor().snapshot()).unwrap();
    file.archive(&SystemDisk, &thief).unwrap();
    file.close().unwrap();
    let error = verify(&place).unwrap_err();
    assert!(
        matches!(error, JournalError::Segment { number: 0, cause: SegmentDamage::Key, .. }),
        "{error}"
    );
}

#[test]
fn segments_that_are_not_noted_in_their_order_are_named() {
    let place = archived();
    place.edit("DELETE FROM segment WHERE number = 1");
    let error = verify(&place).unwrap_err();
    assert!(matches!(error, JournalError::Damaged { position: 79, .. }), "{error}");
}

/// A process that died after it wrote a segment and before it noted it: the file counts for nothing.
#[test]
fn a_file_that_is_not_noted_is_written_over() {
    let place = archived();
    fs::write(segment(&place, 4), "half of a segment").unwrap();
    verify(&place).unwrap();
    let mut file = place.open().unwrap();
    file.append(400, &facts(400..500)).unwrap();
    file.keep(folded(500).actor().snapshot()).unwrap();
    file.archive(&SystemDisk, &signer()).unwrap();
    file.close().unwrap();
    let (_, segments) = Reader::open(&place.path()).unwrap().verify(|_| ()).unwrap();
    assert_eq!(segments.len(), 5);
}

#[test]
fn the_live_file_shrinks() {
    let place = Place::new();
    let mut file = place.open().unwrap();
    for start in (0..20_000).step_by(1000) {
        file.append(start, &facts(start..start + 1000)).unwrap();
    }
    file.close().unwrap();
    let before = fs::metadata(place.path()).unwrap().len();
    let mut file = place.open().unwrap();
    file.keep(folded(20_000).actor().snapshot()).unwrap();
    file.archive(&SystemDisk, &signer()).unwrap();
    file.close().unwrap();
    let after = fs::metadata(place.path()).unwrap().len();
    assert!(after * 5 < before, "{after} bytes of {before}");
    assert_eq!(recovered(&place.path()), facts(0..20_000));
}

/// A file of format 4, whose pages cannot be given back, is rewritten once most of it is free.
#[test]
fn a_file_of_an_older_format_shrinks_with_the_next_opening() {
    let place = Place::new();
    let mut file = place.open().unwrap();
    file.append(0, &facts(0..40_000)).unwrap();
    file.close().unwrap();
    place.edit("DROP TABLE segment; PRAGMA user_version = 4; PRAGMA auto_vacuum = NONE; VACUUM");
    let before = fs::metadata(place.path()).unwrap().len();
    let mut file = place.open().unwrap();
    file.keep(folded(40_000).actor().snapshot()).unwrap();
    file.archive(&SystemDisk, &signer()).unwrap();
    file.close().unwrap();
    assert_eq!(live(&place, "PRAGMA user_version"), 5);
    place.open().unwrap().close().unwrap();
    let after = fs::metadata(place.path()).unwrap().len();
    assert!(after * 5 < before, "{after} bytes of {before}");
    assert_eq!(recovered(&place.path()), facts(0..40_000));
}
