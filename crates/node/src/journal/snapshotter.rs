//! Takes snapshots in the background: a second fold of the durable facts, on its own thread.
//!
//! It begins where the newest snapshot is, reads the facts behind it from the file, and hands the state to
//! the journal's thread piece by piece, waiting for each, so that facts go in between. The actor is never
//! asked, and nothing that is not durable is ever in a snapshot.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};

use tenure_core::actor::Actor as _;
use tenure_core::runtime::hosted::HostedActor;
use tracing::{debug, warn};

use super::snapshots::Snapshot;
use super::writer::Work;
use super::{Disk, JournalError, JournalFile, Reader};

/// What snapshots of a journal are taken by.
#[derive(Clone)]
pub struct Snapshots {
    /// After how many facts one is taken.
    pub every: u64,
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
        Self { snapshots, path, begun, queue, cancelled, thread: None }
    }

    /// Begins a snapshot if enough facts have come since the last one.
    pub(super) fn look(&mut self, file: &JournalFile) {
        let under_way = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        if under_way || file.len().saturating_sub(self.begun) < self.snapshots.every {
            return;
        }
        let Some(queue) = self.queue.upgrade() else { return };
        self.begun = file.len();
        let task = SnapshotTask {
            snapshots: self.snapshots.clone(),
            queue: SyncSender::clone(&queue),
            cancelled: Arc::clone(&self.cancelled),
            piece: file.piece_size(),
        };
        let path = self.path.clone();
        let thread = Builder::new().name("snapshot".to_owned()).spawn(move || task.take(&path));
        match thread {
            Ok(thread) => self.thread = Some(thread),
            Err(cause) => warn!(%cause, "no thread for a snapshot"),
        }
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

/// A snapshot that is being taken.
struct SnapshotTask {
    snapshots: Snapshots,
    queue: SyncSender<Work>,
    cancelled: Arc<AtomicBool>,
    piece: usize,
}

impl SnapshotTask {
    fn take(self, path: &Path) {
        let journal = path.display();
        match self.fold(path) {
            Ok(None) => {}
            Ok(Some(snapshot)) => match self.hand_over(snapshot) {
                Ok(position) => debug!(%journal, position, "a snapshot was taken"),
                Err(error) => warn!(%journal, %error, "a snapshot was not written"),
            },
            Err(error) => warn!(%journal, %error, "no snapshot was taken"),
        }
    }

    /// The state behind all durable facts; none if it is not wanted any more.
    fn fold(&self, path: &Path) -> Result<Option<Snapshot>, JournalError> {
        let Some(mut hosted) = (self.snapshots.build)() else { return Ok(None) };
        let reader = Reader::open_on(&*self.snapshots.disk, path)?;
        let tip = reader.resume(&mut hosted, || self.cancelled.load(Ordering::Relaxed))?;
        Ok(tip.map(|tip| Snapshot::new(tip, hosted.actor().snapshot())))
    }

    fn hand_over(&self, snapshot: Snapshot) -> Result<u64, JournalError> {
        let snapshot = Arc::new(snapshot);
        let pieces = (0..snapshot.pieces(self.piece)).map(Some);
        for number in pieces.chain([None]) {
            let (done, written) = sync_channel(1);
            let part = Part { snapshot: Arc::clone(&snapshot), number, done };
            let stopped = self.cancelled.load(Ordering::Relaxed);
            if stopped || self.queue.send(Work::Part(part)).is_err() {
                break;
            }
            written.recv().unwrap_or(Ok(()))?;
        }
        Ok(snapshot.head().len)
    }
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshots(every {} facts)", self.every)
    }
}
