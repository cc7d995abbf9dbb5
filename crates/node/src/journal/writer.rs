//! The journal thread: many appends share one sync.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use tenure_core::actor::watermark::PeerWatermark;
use tenure_core::model::identity::ActorId;
use tenure_core::runtime::Entry;
use tenure_core::runtime::journal::AppendError;

use super::archive::Written;
use super::snapshotter::{Part, Snapshots, Snapshotter};
use super::{Head, JournalError, JournalFile};

/// The most appends that wait for the thread. A further append blocks until there is room.
const MAX_WAITING: usize = 4096;

/// The most facts in one transaction, unless a single append has more.
const MAX_GROUP: usize = 1024;

type Answer = Box<dyn FnOnce(Result<(), AppendError>) + Send>;

/// Facts on their way into the journal.
pub(super) struct Append {
    expected: u64,
    entries: Vec<Entry>,
    done: Answer,
}

/// What the thread is asked to do.
pub(super) enum Work {
    /// To append facts.
    Append(Append),
    /// To write a part of a snapshot.
    Part(Part),
    /// To note a segment of the archive, or else to give free pages back. Answers whether there are more.
    Archive(Option<Box<Written>>, SyncSender<Result<bool, JournalError>>),
    /// To keep words of peers.
    Watermarks(Vec<(ActorId, PeerWatermark)>),
}

/// What the thread has done so far.
#[derive(Clone, Copy, Debug)]
struct Done {
    head: Head,
    commits: u64,
}

/// A journal on its own thread. Whatever waits when a transaction has ended goes into the next one, so
/// that the more there is to write the more share a sync; nothing waits for company.
#[derive(Debug)]
pub struct Writer {
    /// `None` once it is closed.
    queue: Option<Arc<SyncSender<Work>>>,
    /// Sent to the thread that takes snapshots.
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<JournalFile>>,
    done: Arc<Mutex<Done>>,
}

impl Writer {
    pub(super) fn start(
        file: JournalFile,
        snapshots: Option<Snapshots>,
    ) -> Result<Self, JournalError> {
        let (queue, work) = sync_channel(MAX_WAITING);
        let (queue, stopped) = (Arc::new(queue), Arc::new(AtomicBool::new(false)));
        let snapshotter = snapshots.map(|snapshots| {
            Snapshotter::new(snapshots, &file, Arc::downgrade(&queue), Arc::clone(&stopped))
        });
        let path = file.path().to_owned();
        let done = Arc::new(Mutex::new(Done { head: file.head(), commits: 0 }));
        let shared = Arc::clone(&done);
        let thread = Builder::new()
            .name("journal".to_owned())
            .spawn(move || run(file, &work, snapshotter, &shared))
            .map_err(|cause| JournalError::system(&path, "start a thread for", &cause))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), stopped, done })
    }

    /// Where the journal ends, as far as it is durable.
    pub fn head(&self) -> Head {
        lock(&self.done).head
    }

    /// How many transactions were made durable: each took one sync.
    pub fn commits(&self) -> u64 {
        lock(&self.done).commits
    }

    /// Queues facts to be appended at `expected`, all or none. `done` is called on the journal thread,
    /// in the order of the appends: with `Ok` once they are durable, else with why they may not be. After
    /// the first error every later append fails too, until the file is opened again.
    ///
    /// Waits while 4,096 appends are queued; so `done` must not append, and must not wait for anything
    /// that does. If the thread is gone, `done` is called at once, on the thread of the caller.
    pub fn append(
        &self,
        expected: u64,
        entries: Vec<Entry>,
        done: impl FnOnce(Result<(), AppendError>) + Send + 'static,
    ) {
        let append = Append { expected, entries, done: Box::new(done) };
        let Some(queue) = &self.queue else { return gone(append) };
        if let Err(SendError(Work::Append(append))) = queue.send(Work::Append(append)) {
            gone(append);
        }
    }

    /// Saves peer watermarks asynchronously; completion and failure are not reported.
    pub fn save_watermarks(&self, watermarks: Vec<(ActorId, PeerWatermark)>) {
        if let Some(queue) = self.queue.as_ref().filter(|_| !watermarks.is_empty()) {
            // If the thread is gone, so is the receiver.
            let _ = queue.send(Work::Watermarks(watermarks));
        }
    }

    /// Writes what is queued, closes the journal and gives back its lock.
    pub fn close(mut self) -> Result<(), JournalError> {
        match self.finish() {
            Some(file) => file.close(),
            None => Ok(()),
        }
    }

    /// As [`close`](Self::close), with a snapshot of the actor's state behind all facts.
    pub fn close_with(mut self, state: impl FnOnce() -> Vec<u8>) -> Result<(), JournalError> {
        match self.finish() {
            Some(file) => file.close_with(state),
            None => Ok(()),
        }
    }

    /// Lets the thread write what is queued and end.
    fn finish(&mut self) -> Option<JournalFile> {
        self.stopped.store(true, Ordering::Relaxed);
        self.queue = None;
        let ended = self.thread.take()?.join();
        ended.ok()
    }
}

impl Drop for Writer {
    /// Writes what is queued. The journal stays as after a crash: sound, with its log beside it.
    fn drop(&mut self) {
        drop(self.finish());
    }
}

fn gone(append: Append) {
    (append.done)(Err(AppendError::Unknown("the journal thread has ended".to_owned())));
}

fn run(
    mut file: JournalFile,
    work: &Receiver<Work>,
    mut snapshotter: Option<Snapshotter>,
    done: &Mutex<Done>,
) -> JournalFile {
    let mut next = None;
    while let Some(first) = next.take().or_else(|| work.recv().ok()) {
        match first {
            Work::Part(part) => part.write(&mut file),
            Work::Archive(written, done) => {
                let result = match written {
                    Some(written) => file.note_segment(&written).map(|()| true),
                    None => file.shrink(),
                };
                // The waiting task may have been cancelled.
                drop(done.send(result));
            }
            Work::Watermarks(watermarks) => file.save_watermarks(&watermarks),
            Work::Append(first) => {
                let mut size = first.entries.len();
                let mut group = vec![first];
                while size < MAX_GROUP {
                    match work.try_recv() {
                        Ok(Work::Append(append)) => {
                            size += append.entries.len();
                            group.push(append);
                        }
                        Ok(other @ (Work::Part(_) | Work::Archive(..) | Work::Watermarks(_))) => {
                            next = Some(other);
                            break;
                        }
                        Err(_) => break,
                    }
                }
                write(&mut file, group, done);
            }
        }
        file.checkpoint_if_due();
        if let Some(snapshotter) = &mut snapshotter {
            snapshotter.look(&file);
        }
    }
    file
}

/// Writes a group in one transaction, as far as its appends continue from each other.
fn write(file: &mut JournalFile, mut group: Vec<Append>, done: &Mutex<Done>) {
    let mut expected = file.len();
    let fits = |append: &Append| {
        let here = expected;
        expected += append.entries.len() as u64;
        append.expected == here
    };
    let fitting = group.iter().map(fits).take_while(|fits| *fits).count();
    let rest = group.split_off(fitting);
    for group in [group, rest].into_iter().filter(|group| !group.is_empty()) {
        let parts: Vec<_> = group.iter().map(|a| (a.expected, a.entries.as_slice())).collect();
        let written = file.append_all(&parts);
        if written.is_ok() {
            let mut done = lock(done);
            *done = Done { head: file.head(), commits: done.commits + 1 };
        }
        for append in group {
            (append.done)(written.clone());
        }
    }
}

/// What is behind the lock is whole at any time: nothing panics while it is held.
fn lock(done: &Mutex<Done>) -> MutexGuard<'_, Done> {
    done.lock().unwrap_or_else(PoisonError::into_inner)
}
