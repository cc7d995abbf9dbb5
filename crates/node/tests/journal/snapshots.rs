//! Snapshots: a start continues from one if it fits, and from the facts if none does.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use tenure_core::actor::Actor as _;
use tenure_core::actor::fact::BadFact;
use tenure_core::actor::snapshot::RestoreError;
use tenure_core::actor::{Peers, Setup};
use tenure_core::model::identity::{Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::Entry;
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::service_manager::ServiceManager;
use tenure_core::service_manager::mapper::{Decision, ServiceManagerMapper, View};
use tenure_node::journal::{JournalError, JournalFile, Past, Reader, Snapshots, SystemDisk, Unfit};
use tenure_wait::{DEADLINE, receive};

use crate::parts::{Place, facts, guest};

struct Idle;

impl ServiceManagerMapper for Idle {
    fn decide(&self, view: &View) -> Decision {
        Decision { round: view.round(), ..Decision::default() }
    }
}

fn hosted(margin: Span) -> HostedActor {
    let signer = Signer::from_seed(Scheme::Ed25519, [1; 32]);
    let setup = Setup { name: Name::literal("guest"), signer, margin, peers: Peers::default() };
    HostedActor::service_manager(ServiceManager::new(setup, Span::ZERO), Box::new(Idle))
}

/// The actor as all facts before `len` make it.
pub(crate) fn folded(len: u64) -> HostedActor {
    let mut hosted = hosted(Span::SECOND);
    facts(0..len).iter().for_each(|entry| hosted.actor_mut().replay(entry).unwrap());
    hosted
}

/// An actor that comes back, with what it was handed.
struct Back {
    hosted: HostedActor,
    from: u64,
    latest: Time,
    folded: u64,
}

impl Past for Back {
    fn restore(&mut self, state: &[u8], position: u64, at: Time) -> Result<(), RestoreError> {
        self.hosted.actor_mut().restore(state)?;
        (self.from, self.latest) = (position, at);
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), BadFact> {
        (self.folded, self.latest) = (self.folded + 1, entry.at);
        self.hosted.actor_mut().replay(entry)
    }
}

fn resume_with(place: &Place, margin: Span) -> Result<(JournalFile, Back), JournalError> {
    let mut back = Back { hosted: hosted(margin), from: 0, latest: Time::MIN, folded: 0 };
    let file = JournalFile::resume(&place.path(), &guest(), &mut back)?;
    Ok((file, back))
}

/// Comes back, and is what all facts make it; answers behind how many it went on.
fn resume(place: &Place) -> Result<u64, JournalError> {
    let (file, back) = resume_with(place, Span::SECOND)?;
    assert!(back.hosted.is_same_actor(&folded(file.len())));
    assert_eq!(back.from + back.folded, file.len());
    assert_eq!(file.kept(), back.from);
    assert_eq!(file.hash(), crate::parts::in_memory(file.len()).hash());
    assert_eq!(Some(back.latest), facts(0..file.len()).last().map(|entry| entry.at));
    Ok(back.from)
}

/// A journal with snapshots behind these numbers of facts, and `len` facts.
fn kept(positions: &[u64], len: u64) -> Place {
    let place = Place::new();
    let mut file = place.open().unwrap();
    for position in 0..len {
        file.append(position, &facts(position..position + 1)).unwrap();
        if positions.contains(&(position + 1)) {
            file.keep(folded(position + 1).actor().snapshot()).unwrap();
        }
    }
    file.close().unwrap();
    place
}

#[test]
fn a_start_goes_on_from_the_newest_snapshot() {
    for positions in [&[][..], &[1], &[7], &[3, 7, 20], &[20]] {
        let place = kept(positions, 20);
        assert_eq!(resume(&place).unwrap(), positions.last().copied().unwrap_or(0));
        // It continues where it was.
        let (mut file, _) = resume_with(&place, Span::SECOND).unwrap();
        file.append(20, &facts(20..23)).unwrap();
        file.close().unwrap();
        assert_eq!(place.open().unwrap().hash(), crate::parts::in_memory(23).hash());
    }
}

#[test]
fn a_stop_in_good_order_leaves_no_fact_to_be_read() {
    let place = kept(&[5], 20);
    let (file, back) = resume_with(&place, Span::SECOND).unwrap();
    assert_eq!((back.from, back.folded), (5, 15));
    file.close_with(|| back.hosted.actor().snapshot()).unwrap();
    assert_eq!(resume(&place).unwrap(), 20);
    let (file, _) = resume_with(&place, Span::SECOND).unwrap();
    file.close_with(|| panic!("there is one already")).unwrap();
}

#[test]
fn the_last_two_are_kept() {
    let place = kept(&[2, 4, 6, 8], 10);
    let snapshots = Reader::open(&place.path()).unwrap().snapshots().unwrap();
    let positions: Vec<u64> = snapshots.iter().map(|(position, _)| *position).collect();
    assert_eq!(positions, [8, 6]);
    for (position, snapshot) in snapshots {
        let snapshot = snapshot.unwrap();
        assert_eq!(snapshot.body(), folded(position).actor().snapshot());
        assert_eq!(snapshot.head().hash, crate::parts::in_memory(position).hash());
    }
}

#[test]
fn whatever_is_wrong_with_a_snapshot_the_one_before_or_the_facts_are_used() {
    for change in [
        "UPDATE snapshot SET hash = zeroblob(32)",
        "UPDATE snapshot SET hasher = zeroblob(length(hasher))",
        "UPDATE snapshot SET hasher = x'00'",
        "UPDATE snapshot SET state = zeroblob(32)",
        "UPDATE snapshot SET length = length - 1",
        "UPDATE snapshot SET length = 9223372036854775807",
        "UPDATE snapshot SET checksum = checksum + 1",
        "UPDATE snapshot SET checksum = -1",
        "UPDATE piece SET body = zeroblob(length(body))",
        "UPDATE piece SET body = x''",
        "DELETE FROM piece",
    ] {
        let place = kept(&[6, 8], 10);
        assert_eq!(resume(&place).unwrap(), 8);
        place.edit(&format!("{change} WHERE position = 8"));
        let (newest, unfit) = Reader::open(&place.path()).unwrap().snapshots().unwrap().remove(0);
        assert!(newest == 8 && unfit.is_err(), "{change}");
        assert_eq!(resume(&place).unwrap(), 6, "{change}");
        place.edit(&format!("{change} WHERE position = 6"));
        assert_eq!(resume(&place).unwrap(), 0, "{change}");
    }
}

#[test]
fn a_snapshot_of_other_facts_or_settings_is_not_used() {
    // Sound in itself, and of a journal whose facts were others.
    let place = kept(&[6], 10);
    place.edit("UPDATE fact SET hash = zeroblob(32) WHERE position = 5");
    let snapshots = Reader::open(&place.path()).unwrap().snapshots().unwrap();
    assert!(snapshots[0].1.is_ok());
    let error = resume(&place).unwrap_err();
    assert!(matches!(error, JournalError::Damaged { position: 5, .. }), "{error}");
    let place = kept(&[6], 10);
    let (_, back) = resume_with(&place, Span::MINUTE).unwrap();
    assert_eq!((back.from, back.folded), (0, 10));
    let (_, refused) = Reader::open(&place.path()).unwrap().snapshots().unwrap().remove(0);
    let refused = hosted(Span::MINUTE).actor_mut().restore(refused.unwrap().body()).unwrap_err();
    assert_eq!(Unfit::from(refused), Unfit::Refused(RestoreError::Settings));
}

#[test]
fn facts_that_are_gone_from_before_a_snapshot_are_missed() {
    for gone in 1..=8 {
        let place = kept(&[6, 8], 8);
        place.edit(&format!("DELETE FROM fact WHERE position >= {}", 8 - gone));
        // As an older copy of the facts would have it.
        let hash = crate::parts::in_memory(8 - gone).hash();
        let hex = hash.to_hex();
        place.edit(&format!("UPDATE mark SET len = {}, hash = x'{hex}'", 8 - gone));
        let cut = |error: &JournalError| matches!(error, JournalError::CutShort { expected: 8, found, .. } if *found == 8 - gone);
        let errors = [
            resume(&place).unwrap_err(),
            place.open().unwrap_err(),
            Reader::open(&place.path()).unwrap().read(|_, _| Ok(())).unwrap_err(),
        ];
        assert!(errors.iter().all(cut), "{errors:?}");
    }
}

#[test]
fn a_journal_of_the_first_format_is_lifted() {
    let place = Place::with(10);
    place.edit("DROP TABLE snapshot; DROP TABLE piece; DROP TABLE word; DROP TABLE request; DROP TABLE about; DROP TABLE lease; DROP TABLE unit; DROP TABLE segment; PRAGMA user_version = 1");
    let reader = Reader::open(&place.path()).unwrap();
    assert_eq!(reader.read(|_, _| Ok(())).unwrap().len, 10);
    assert!(reader.snapshots().unwrap().is_empty());
    drop(reader);
    assert_eq!(resume(&place).unwrap(), 0);
    let (file, back) = resume_with(&place, Span::SECOND).unwrap();
    file.close_with(|| back.hosted.actor().snapshot()).unwrap();
    assert_eq!(resume(&place).unwrap(), 10);
}

#[test]
fn snapshots_are_taken_behind_the_writers_back() {
    let place = Place::new();
    let (file, _) = resume_with(&place, Span::SECOND).unwrap();
    let snapshots = Snapshots {
        every: 500,
        archive: None,
        build: Arc::new(|| Some(hosted(Span::SECOND))),
        disk: Arc::new(SystemDisk),
    };
    let writer = file.into_writer_with(snapshots).unwrap();
    let (done, answers) = mpsc::channel();
    let (mut position, mut seen) = (0, Vec::new());
    let began = Instant::now();
    while seen.len() < 3 {
        assert!(began.elapsed() < DEADLINE, "only {} snapshots", seen.len());
        let done = done.clone();
        writer.append(position, facts(position..position + 1), move |result| {
            done.send(result).unwrap();
        });
        receive(DEADLINE, "an acknowledgement", &answers).unwrap();
        position += 1;
        let reader = Reader::open(&place.path()).unwrap();
        let (newest, newer) = match reader.snapshots().unwrap().into_iter().next() {
            Some((newest, snapshot)) => (newest, snapshot.unwrap()),
            None => continue,
        };
        assert!(newest <= position);
        if seen.last() != Some(&newest) {
            assert_eq!(newer.body(), folded(newest).actor().snapshot());
            seen.push(newest);
        }
    }
    drop(writer);
    assert_eq!(resume(&place).unwrap(), seen[2]);
}
