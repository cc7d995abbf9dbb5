//! Takes snapshots and archives facts in the background, on a thread of its own: a second fold of the durable
//! facts, whose actor signs the segments of the archive.
//!
//! It begins where the newest snapshot is, reads the facts behind it from the file, and hands the state to
//! the journal's thread piece by piece, waiting for each, so that facts go in between. The actor is never
//! asked, and nothing that is not durable is ever in a snapshot.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};

use tenure_core::actor::Actor as _;
use tenure_core::runtime::hosted::HostedActor;
use tracing::{debug, info, warn};

use super::archive::SignSegment;
use super::rows::Tip;
use super::snapshots::Snapshot;
use super::writer::Work;
use super::{Disk, JournalError, JournalFile, Reader};

/// What snapshots of a journal are taken by.
#[derive(Clone)]
pub struct Snapshots {
    /// After how many facts one is taken.
    pub every: u64,
    /// How many facts before the oldest snapshot are archived together; none ever, without it.
    pub archive: Option<NonZeroU64>,
    /// Builds the actor as it was before its first fact.
    pub build: Arc<dyn Fn() -> Option<HostedActor> + Send + Sync>,
    /// Where the journal is read from.
    pub disk: Arc<dyn Disk + Sync>,
}

/// A part of a snapshot on its way to the journal's thread.
pub(super) struct Part {
    snapshot: Arc<Snapshot>,
    /// Which piece it is; none makes the snapshot count.
    number: Option<usize>,
    done: SyncSender<Result<(), JournalError>>,
}

impl Part {
    pub(super) fn write(self, file: &mut JournalFile) {
        let written = match self.number {
            Some(number) => file.write_piece(&self.snapshot, number),
            None => file.seal(&self.snapshot),
        };
        // The waiting task may have been cancelled.
        drop(self.done.send(written));
    }
}

/// Takes snapshots of one journal, one at a time.
pub(super) struct Snapshotter {
    snapshots: Snapshots,
    path: PathBuf,
    /// How many facts there were when the last one was begun, done or not.
    begun: u64,
    /// Before which position facts were last archived, done or not.
    archived: u64,
    queue: Weak<SyncSender<Work>>,
    cancelled: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Snapshotter {
    pub(super) fn new(
        snapshots: Snapshots,
        file: &JournalFile,
        queue: Weak<SyncSender<Work>>,
        cancelled: Arc<AtomicBool>,
    ) -> Self {
        let (path, begun) = (file.path().to_owned(), file.kept());
        Self { snapshots, path, begun, archived: 0, queue, cancelled, thread: None }
    }

    /// Begins a snapshot if enough facts have come since the last one, or else archives facts if there are
    /// enough.
    pub(super) fn look(&mut self, file: &JournalFile) {
        let under_way = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        let due = file.len().saturating_sub(self.begun) >= self.snapshots.every;
        if under_way || !due && !self.archiving_is_due(file) {
            return;
        }
        let Some(queue) = self.queue.upgrade() else { return };
        let aim = if due {
            self.begun = file.len();
            Aim::Snapshot { piece: file.piece_size() }
        } else {
            self.archived = file.archivable().end;
            Aim::Archive
        };
        let task = Task {
            snapshots: self.snapshots.clone(),
            queue: SyncSender::clone(&queue),
            cancelled: Arc::clone(&self.cancelled),
            aim,
        };
        let path = self.path.clone();
        let thread = Builder::new().name("snapshot".to_owned()).spawn(move || task.run(&path));
        match thread {
            Ok(thread) => self.thread = Some(thread),
            Err(cause) => warn!(%cause, "no thread for a snapshot"),
        }
    }

    /// Whether there are enough facts to archive. What was tried in vain is tried again after the next snapshot.
    fn archiving_is_due(&self, file: &JournalFile) -> bool {
        let Range { start, end } = file.archivable();
        let many = |least: NonZeroU64| end.saturating_sub(start) >= least.get();
        end > self.archived && self.snapshots.archive.is_some_and(many)
    }
}

impl Drop for Snapshotter {
    /// Waits until nothing is read any more.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// What a thread is begun for.
enum Aim {
    /// To take a snapshot, in pieces of that size.
    Snapshot { piece: usize },
    /// To archive facts.
    Archive,
}

/// What is under way on a thread.
struct Task {
    snapshots: Snapshots,
    queue: SyncSender<Work>,
    cancelled: Arc<AtomicBool>,
    aim: Aim,
}

impl Task {
    fn run(self, path: &Path) {
        let journal = path.display();
        let (hosted, tip) = match self.fold(path) {
            Ok(Some(folded)) => folded,
            Ok(None) => return,
            Err(error) => {
                return warn!(%journal, %error, "no snapshot was taken, and nothing archived");
            }
        };
        match self.aim {
            Aim::Snapshot { piece } => {
                match self.hand_over(Snapshot::new(tip, hosted.actor().snapshot()), piece) {
                    Ok(position) => debug!(%journal, position, "a snapshot was taken"),
                    Err(error) => warn!(%journal, %error, "a snapshot was not written"),
                }
            }
            Aim::Archive => match self.archive(path, hosted.actor()) {
                Ok(0) => {}
                Ok(segments) => info!(%journal, segments, "facts were archived"),
                Err(error) => warn!(%journal, %error, "facts were not archived"),
            },
        }
    }

    /// The actor behind all durable facts; none if it is not wanted any more.
    fn fold(&self, path: &Path) -> Result<Option<(HostedActor, Tip)>, JournalError> {
        let Some(mut hosted) = (self.snapshots.build)() else { return Ok(None) };
        let reader = Reader::open_on(&*self.snapshots.disk, path)?;
        let tip = reader.resume(&mut hosted, || self.is_cancelled())?;
        Ok(tip.map(|tip| (hosted, tip)))
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn hand_over(&self, snapshot: Snapshot, piece: usize) -> Result<u64, JournalError> {
        let snapshot = Arc::new(snapshot);
        let pieces = (0..snapshot.pieces(piece)).map(Some);
        for number in pieces.chain([None]) {
            let (done, written) = sync_channel(1);
            let part = Part { snapshot: Arc::clone(&snapshot), number, done };
            if self.is_cancelled() || self.queue.send(Work::Part(part)).is_err() {
                break;
            }
            written.recv().unwrap_or(Ok(()))?;
        }
        Ok(snapshot.head().len)
    }

    /// Writes segment after segment, and has the journal's thread note each, then give back what is free.
    /// Answers how many there were.
    fn archive(&self, path: &Path, signer: &dyn SignSegment) -> Result<u64, JournalError> {
        let reader = Reader::open_on(&*self.snapshots.disk, path)?;
        let mut segments = 0;
        while !self.is_cancelled() {
            let written = reader.write_segment(signer)?;
            segments += u64::from(written.is_some());
            let (done, noted) = sync_channel(1);
            if self.queue.send(Work::Archive(written.map(Box::new), done)).is_err() {
                break;
            }
            if !noted.recv().unwrap_or(Ok(false))? {
                break;
            }
        }
        Ok(segments)
    }
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshots(every {} facts, archive {:?})", self.every, self.archive)
    }
}
