//! The fence: the one place that decides whether a call may touch a unit.
//!
//! The calls of a unit have an order: by epoch, and within an epoch setup and join first, modifications by
//! their numbers, teardown and leave last. A join or a leave with a higher number comes after all of these:
//! the guest comes back, or is to leave sooner. From that, everything follows.
//!
//! * A call below the highest seen has ended. It is refused, or, if it is of the present epoch and has
//!   ended, answered as it was.
//! * A call above it raises the fence, durably, before anything is done; whatever is still at work on the
//!   unit is asked to stop, and the new call begins when it has. So a leave ends a join, and a late
//!   teardown never meets the successor's setup.
//! * The same call again waits for the first and gives the same answer. If a crash cut the first off, it
//!   is done again with [`Work::interrupted`] set, so that the driver finds out how far it got.
//!
//! One file per unit holds the highest epoch, how far its steps are, and a note of the driver's own.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::driver::{
    Answer, Call, DriverError, Epoch, GuestDriver, ReportReceiver, ResourceDriver, Step, UnitId,
};
use tenure_core::model::identity::{ActorId, Signer};
use tenure_core::model::keys::KeyChain;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{Span, Time};

use super::adoption::{ADOPT, not_allowed};
use super::record::{Key, Progress, Record, RecordStore, Tenant, about, create_folder};
use super::stop::Stop;
use crate::lock::{Lock, LockError};

/// What one kind of driver does, once the fence has let a call through.
///
/// For one unit, `perform` is never called twice at a time. It should end soon after [`Work::stop`] is
/// asked for, with an error: the next call of the unit waits for that.
pub(crate) trait DriverSteps: Send + Sync {
    /// Does the step; after an interruption, from wherever it stands.
    fn perform(&self, work: &Work<'_>) -> Result<Properties, DriverError>;

    /// Whether it can change a unit in use: others are not asked to.
    fn modifies(&self) -> bool {
        false
    }

    /// At a site: whether it takes over units in use as they are.
    fn adopts(&self) -> bool {
        false
    }

    /// Passes on that a unit is recalled. It may run beside a step of the unit.
    fn warn(&self, _call: &Call, _deadline: Time) -> Result<(), DriverError> {
        Ok(())
    }

    /// Says how a unit is, without changing anything; without a record it was never touched.
    fn probe(&self, key: Key, record: Option<&Record>) -> Result<Properties, DriverError>;

    /// Has someone who takes its reports, if it makes any.
    fn report_to(&self, _receiver: Arc<dyn ReportReceiver>) {}

    /// Sets by what it shows to programs elsewhere for whom it acts.
    fn acts_by(&self, _signer: &Signer, _keys: &KeyChain) {}
}

/// One step on one unit, let through by the fence.
pub(crate) struct Work<'a> {
    /// What is to be done.
    pub(crate) call: &'a Call,
    /// Whether this very step was begun before and cut off, no one knows where.
    pub(crate) interrupted: bool,
    /// Asked for by a later call of the unit, and when nobody waits for this one any more.
    pub(crate) stop: &'a Stop,
    fence: &'a Fence,
}

impl Work<'_> {
    /// The unit.
    pub(crate) fn key(&self) -> Key {
        Key::of(self.call)
    }

    /// What was noted of the unit last, in whatever epoch.
    pub(crate) fn note<T: DeserializeOwned>(&self) -> Result<Option<T>, DriverError> {
        match self.fence.record(self.key())? {
            Some(record) => noted(&record),
            None => Ok(None),
        }
    }

    /// Notes something of the unit, durably.
    pub(crate) fn keep<T: Serialize>(&self, note: &T) -> Result<(), DriverError> {
        self.fence.keep(self.key(), note)
    }
}

/// The note in a record.
pub(crate) fn noted<T: DeserializeOwned>(record: &Record) -> Result<Option<T>, DriverError> {
    let note = record.note.clone().map(serde_json::from_value).transpose();
    note.map_err(|error| {
        DriverError(format!("the note on {} cannot be read: {error}", record.key.unit))
    })
}

/// Guards the units of one driver.
#[derive(Debug)]
pub(crate) struct Fence {
    store: RecordStore,
    units: Mutex<BTreeMap<Key, Arc<Unit>>>,
    /// Keeps a second process from the folder, for as long as it is open.
    _lock: Option<Lock>,
}

#[derive(Debug, Default)]
struct Unit {
    state: Mutex<State>,
    /// Some work on the unit has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    loaded: bool,
    record: Option<Record>,
    /// The call that was begun and is not known to have ended.
    interrupted: Option<Rank>,
    running: Option<(Rank, Arc<Stop>)>,
}

/// Where a call stands among those of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    epoch: Epoch,
    /// How often a join or a leave was called for again before it.
    again: u32,
    step: Step,
    /// Of a modification.
    number: u32,
}

impl Rank {
    fn of(call: &Call, record: Option<&Record>) -> Self {
        let (epoch, step) = (call.epoch, call.step);
        let known = record.filter(|record| record.epoch == epoch).map_or(0, |record| record.again);
        let (again, number) = match step {
            Step::Join | Step::Leave => (call.number, 0),
            Step::Modify => (known, call.number),
            // A warning is not a step of the unit, and is not fenced.
            Step::Setup | Step::Teardown | Step::Warn | Step::Install | Step::Remove => (0, 0),
        };
        Self { epoch, again, step, number }
    }

    /// Of the newest call in a record.
    fn newest(record: &Record, step: Step) -> Self {
        let number = if step == Step::Modify { record.modification } else { 0 };
        Self { epoch: record.epoch, again: record.again, step, number }
    }
}

impl Fence {
    /// A fence that survives nothing, for a driver that has nothing to protect.
    pub(crate) fn in_memory() -> Self {
        Self { store: RecordStore::Memory, units: Mutex::default(), _lock: None }
    }

    /// A fence that is kept in a folder, one file per unit. Fails if another process has it open.
    pub(crate) fn open(home: &Path) -> io::Result<Self> {
        create_folder(home)?;
        let lock = Lock::take(&home.join("lock")).map_err(|error| match error {
            LockError::Held(holder) => {
                let home = home.display();
                io::Error::other(format!("{home} is in use: {holder} runs this driver"))
            }
            LockError::System(cause) => about(home, cause),
        })?;
        let store = RecordStore::folder(home.join("units"))?;
        Ok(Self { store, units: Mutex::default(), _lock: Some(lock) })
    }

    /// Does one call by the rules above.
    pub(crate) fn perform(
        &self,
        steps: &dyn DriverSteps,
        call: &Call,
    ) -> Result<Properties, DriverError> {
        let unit = self.unit(Key::of(call));
        let mut state = self.loaded(&unit, Key::of(call))?;
        let rank = Rank::of(call, state.record.as_ref());
        loop {
            if let Some(outcome) = state.settled(rank, call.unit) {
                return outcome;
            }
            state.raise(&self.store, call)?;
            let Some((busy, stop)) = &state.running else { break };
            if *busy < rank {
                stop.ask();
            }
            state = unit.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let stop = Arc::new(Stop::new().map_err(in_words)?);
        let interrupted = state.interrupted.replace(rank) == Some(rank);
        state.running = Some((rank, Arc::clone(&stop)));
        drop(state);

        let running = Running(&unit);
        let outcome = steps.perform(&Work { call, interrupted, stop: &stop, fence: self });
        let outcome = hold(&unit.state).finish(&self.store, rank, outcome);
        drop(running);
        outcome
    }

    /// Asks a call that is at work to stop.
    pub(crate) fn give_up(&self, call: &Call) {
        let unit = self.unit(Key::of(call));
        let state = hold(&unit.state);
        let rank = Rank::of(call, state.record.as_ref());
        if let Some((_, stop)) = state.running.as_ref().filter(|(busy, _)| *busy == rank) {
            stop.ask();
        }
    }

    /// What is kept of a unit.
    pub(crate) fn record(&self, key: Key) -> Result<Option<Record>, DriverError> {
        let unit = self.unit(key);
        let state = self.loaded(&unit, key)?;
        Ok(state.record.clone())
    }

    /// Notes something of a unit that is known, durably.
    pub(crate) fn keep<T: Serialize>(&self, key: Key, note: &T) -> Result<(), DriverError> {
        let unit = self.unit(key);
        let mut state = self.loaded(&unit, key)?;
        let Some(record) = &state.record else {
            return Err(DriverError(format!("{} was never touched", key.unit)));
        };
        let note = serde_json::to_value(note).map_err(in_words)?;
        let record = Record { note: Some(note), ..record.clone() };
        self.store.save(&record).map_err(in_words)?;
        state.record = Some(record);
        Ok(())
    }

    /// Refuses what is meant for a unit that has joined, if this one has not, or is being left.
    pub(crate) fn check_joined(&self, call: &Call) -> Result<(), DriverError> {
        let record = self.record(Key::of(call))?.filter(|record| record.epoch == call.epoch);
        match record.as_ref().and_then(Record::newest) {
            Some((Step::Join, Progress::Done(_)) | (Step::Modify, _)) => Ok(()),
            Some(_) | None => {
                let (unit, epoch) = (call.unit, call.epoch.0);
                Err(DriverError(format!("{unit} is not joined in epoch {epoch}")))
            }
        }
    }

    /// What is kept of all units.
    pub(crate) fn records(&self) -> io::Result<Vec<Record>> {
        self.store.all()
    }

    fn unit(&self, key: Key) -> Arc<Unit> {
        Arc::clone(hold(&self.units).entry(key).or_default())
    }

    fn loaded<'a>(&self, unit: &'a Unit, key: Key) -> Result<MutexGuard<'a, State>, DriverError> {
        let mut state = hold(&unit.state);
        if !state.loaded {
            let record = self.store.load(key).map_err(in_words)?;
            if let Some(other) = record.as_ref().filter(|record| record.key != key) {
                let Key { site, unit } = other.key;
                return Err(DriverError(format!("the file of {unit} of {site} is in the way")));
            }
            state.interrupted = record.as_ref().and_then(|record| match record.newest()? {
                (step, Progress::Begun) => Some(Rank::newest(record, step)),
                (_, Progress::Done(_) | Progress::Failed(_)) => None,
            });
            state.record = record;
            state.loaded = true;
        }
        Ok(state)
    }
}

impl State {
    /// The answer to a call that needs nothing done.
    fn settled(&self, rank: Rank, unit: UnitId) -> Option<Result<Properties, DriverError>> {
        let record = self.record.as_ref()?;
        let Rank { epoch, again, step, number } = rank;
        if epoch < record.epoch {
            let (old, new) = (epoch.0, record.epoch.0);
            let why = format!("epoch {old} of {unit} has ended: epoch {new} has begun");
            return Some(Err(DriverError(why)));
        }
        if epoch > record.epoch {
            return None;
        }
        if again > record.again {
            return None;
        }
        let kept = record.number_of(step);
        let asked = if step == Step::Modify { number } else { again };
        if asked < kept {
            let word = step.word();
            let why = format!("{word} {asked} of {unit} has ended: {kept} has begun");
            return Some(Err(DriverError(why)));
        }
        match record.steps.get(&step).filter(|_| asked == kept) {
            Some(Progress::Done(properties)) => Some(Ok(properties.clone())),
            Some(Progress::Failed(error)) => Some(Err(error.clone())),
            Some(Progress::Begun) | None => {
                let (later, _) = record.steps.range(step..).find(|(later, _)| **later > step)?;
                let why =
                    format!("{} of {unit} has ended: {} has begun", step.word(), later.word());
                Some(Err(DriverError(why)))
            }
        }
    }

    /// Makes the call the highest seen, before anything is done for it.
    fn raise(&mut self, store: &RecordStore, call: &Call) -> Result<(), DriverError> {
        let mut record = match &self.record {
            Some(record) if record.epoch == call.epoch => {
                let known = record.number_of(call.step) == call.number;
                if known && record.steps.contains_key(&call.step) {
                    return Ok(());
                }
                let mut record = Record { tenant: Tenant::of(call), ..record.clone() };
                // What was done of the calls before says nothing of this one.
                if matches!(call.step, Step::Join | Step::Leave) && record.again < call.number {
                    record.steps.clear();
                }
                record
            }
            Some(record) => Record { note: record.note.clone(), ..Record::new(call) },
            None => Record::new(call),
        };
        record.steps.insert(call.step, Progress::Begun);
        if call.step == Step::Modify {
            record.modification = call.number;
        }
        if matches!(call.step, Step::Join | Step::Leave) {
            record.again = call.number;
        }
        store.save(&record).map_err(in_words)?;
        self.record = Some(record);
        Ok(())
    }

    /// Writes down how a call ended, unless a later one has taken the unit.
    fn finish(
        &mut self,
        store: &RecordStore,
        rank: Rank,
        outcome: Result<Properties, DriverError>,
    ) -> Result<Properties, DriverError> {
        let step = rank.step;
        let same = |record: &&Record| Rank::newest(record, step) == rank;
        let Some(record) = self.record.as_ref().filter(same) else {
            return outcome;
        };
        let mut record = record.clone();
        record.steps.insert(
            step,
            match &outcome {
                Ok(properties) => Progress::Done(properties.clone()),
                Err(error) => Progress::Failed(error.clone()),
            },
        );
        // What is not written down would be answered otherwise after a crash.
        store.save(&record).map_err(in_words)?;
        self.record = Some(record);
        if self.interrupted == Some(rank) {
            self.interrupted = None;
        }
        outcome
    }
}

/// Gives the unit free when the work on it ends, however it does.
struct Running<'a>(&'a Unit);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        hold(&self.0.state).running = None;
        self.0.ended.notify_all();
    }
}

/// A site's driver: its deeds behind the fence.
pub(crate) struct Site<D> {
    pub(crate) fence: Arc<Fence>,
    pub(crate) steps: D,
}

/// A guest's driver: its deeds behind the fence.
pub(crate) struct Guest<D> {
    pub(crate) fence: Arc<Fence>,
    pub(crate) steps: D,
}

impl<D: DriverSteps> ResourceDriver for Site<D> {
    fn perform(&self, call: &Call) -> Answer {
        let outcome = match call.step {
            Step::Setup if !self.steps.adopts() && call.properties.get(ADOPT).is_some() => {
                Err(not_allowed())
            }
            Step::Setup | Step::Teardown => self.fence.perform(&self.steps, call),
            Step::Modify if self.steps.modifies() => self.fence.perform(&self.steps, call),
            Step::Modify => Err(not_supported()),
            Step::Join | Step::Leave | Step::Warn | Step::Install | Step::Remove => {
                Err(not_ours(call.step))
            }
        };
        Answer { outcome, after: Span::ZERO }
    }

    fn give_up(&self, call: &Call) {
        self.fence.give_up(call);
    }

    fn probe(&self, site: ActorId, unit: UnitId) -> Result<Properties, DriverError> {
        let key = Key { site, unit };
        self.steps.probe(key, self.fence.record(key)?.as_ref())
    }

    fn report_to(&self, receiver: Arc<dyn ReportReceiver>) {
        self.steps.report_to(receiver);
    }

    fn acts_by(&self, signer: &Signer, keys: &KeyChain) {
        self.steps.acts_by(signer, keys);
    }
}

impl<D: DriverSteps> GuestDriver for Guest<D> {
    fn perform(&self, call: &Call) -> Answer {
        let outcome = match call.step {
            Step::Join | Step::Leave => self.fence.perform(&self.steps, call),
            Step::Modify if self.steps.modifies() => self.fence.perform(&self.steps, call),
            Step::Modify => Err(not_supported()),
            Step::Setup | Step::Teardown | Step::Warn | Step::Install | Step::Remove => {
                Err(not_ours(call.step))
            }
        };
        Answer { outcome, after: Span::ZERO }
    }

    fn warn(&self, call: &Call, deadline: Time) -> Result<(), DriverError> {
        self.fence.check_joined(call)?;
        self.steps.warn(call, deadline)
    }

    fn give_up(&self, call: &Call) {
        self.fence.give_up(call);
    }

    fn probe(&self, site: ActorId, unit: UnitId) -> Result<Properties, DriverError> {
        let key = Key { site, unit };
        self.steps.probe(key, self.fence.record(key)?.as_ref())
    }
}

fn not_ours(step: Step) -> DriverError {
    DriverError(format!("{} is a step of the other side", step.word()))
}

fn not_supported() -> DriverError {
    DriverError("the driver does not support to modify a unit in use".to_owned())
}

fn in_words(error: impl ToString) -> DriverError {
    DriverError(error.to_string())
}

/// Locks, also after a thread panicked while holding it: what it guards is whole at every step.
pub(crate) fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
