//! Whether live units are as their drivers have left them: each is probed again and again.
//!
//! What is found is logged, counted and shown to anyone who looks. A site whose probes have found a unit down
//! several times in a row takes it for failed; otherwise nothing changes, and no fact records it. A site's
//! driver may report by itself what a probe would find, or that a unit has failed.
//! A round covers the units that are live when it begins; the next one begins when none of them waits any
//! more, so that all get their turn however slow their drivers are.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use actix::{AsyncContext as _, Context, Handler};
use tenure_core::actor::Actor as _;
use tenure_core::driver::{DriverError, Epoch, Finding, Report, ReportReceiver, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Time;
use tenure_core::runtime::{AnyActor, Input};
use tenure_core::service_manager::JoinedUnit;
use tenure_core::service_manager::machine::UnitUse;
use tenure_core::site_authority::{Command as SiteCommand, unit};
use tracing::warn;

use super::actor_run::Task;
use super::calls::{Driver, WorkerPool, timed_out};
use super::underway::{CallLimits, Underway};
use super::{Host, Probed, Reported};

/// How a live unit was when its driver looked at it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The tenancy.
    pub epoch: Epoch,
    /// Since when it is up, or down.
    pub since: Time,
    /// How many probes in a row have found it down.
    pub failures: u32,
    /// Its properties if it is up, or else what is wrong.
    pub found: Result<Properties, DriverError>,
}

/// How one actor and its live units are; shared with anyone who looks.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    units: Arc<Mutex<BTreeMap<(ActorId, UnitId), Condition>>>,
    /// Why the actor does not run.
    down: Arc<Mutex<Option<String>>>,
}

impl Conditions {
    /// How a unit of a site is in a tenancy, if it has been probed.
    pub fn of(&self, site: ActorId, unit: UnitId, epoch: Epoch) -> Option<Condition> {
        self.all().get(&(site, unit)).filter(|condition| condition.epoch == epoch).cloned()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<(ActorId, UnitId), Condition>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the actor does not run, if it does not.
    pub fn why_down(&self) -> Option<String> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_down(&self, why: Option<String>) {
        *self.down.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// How many are down.
    fn down(&self) -> usize {
        self.all().values().filter(|condition| condition.found.is_err()).count()
    }
}

/// A live unit: set up for a lease at its site, or joined at a guest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    site: ActorId,
    unit: UnitId,
    epoch: Epoch,
    /// At a guest.
    lease: Option<LeaseId>,
}

impl Subject {
    fn key(&self) -> (ActorId, UnitId) {
        (self.site, self.unit)
    }

    /// The live units of an actor.
    fn all(actor: &AnyActor, id: ActorId) -> Vec<Self> {
        match actor {
            AnyActor::SiteAuthority(site) => {
                let subject = |(unit, epoch)| Self { site: id, unit, epoch, lease: None };
                site.ready_units().map(subject).collect()
            }
            AnyActor::ServiceManager(guest) => {
                let subject = |JoinedUnit { lease, site, unit, epoch }| Self {
                    site,
                    unit,
                    epoch,
                    lease: Some(lease),
                };
                guest.joined_units().map(subject).collect()
            }
            AnyActor::Broker(_) => Vec::new(),
        }
    }

    /// What its site is told: it has failed in this tenancy.
    fn fails(&self, error: &DriverError) -> SiteCommand {
        let (unit, epoch) = (self.unit, Some(self.epoch));
        SiteCommand::Fail { unit, epoch, why: error.to_string() }
    }

    /// Whether it still is what it was when its probe began.
    fn is_live(&self, actor: &AnyActor) -> bool {
        match actor {
            AnyActor::SiteAuthority(site) => site.unit_survey_of(self.unit).is_some_and(|unit| {
                unit.epoch == self.epoch && matches!(unit.state, unit::State::Ready { .. })
            }),
            AnyActor::ServiceManager(guest) => {
                let lease = self.lease.and_then(|lease| guest.survey_of(lease));
                let held = lease.and_then(|lease| lease.state.held());
                let unit = held.and_then(|held| held.units.get(&self.unit));
                unit.is_some_and(|(unit, usage)| {
                    unit.epoch == self.epoch && *usage == UnitUse::Joined
                })
            }
            AnyActor::Broker(_) => false,
        }
    }
}

/// The probes of one host.
pub(super) struct Probes {
    driver: Option<Arc<Driver>>,
    workers: WorkerPool,
    waiting: VecDeque<Subject>,
    underway: Underway<(ActorId, UnitId), Subject>,
    conditions: Conditions,
}

impl Probes {
    /// Probes by `driver`, within these limits.
    pub(super) fn new(
        driver: Option<Arc<Driver>>,
        limits: CallLimits,
        conditions: Conditions,
    ) -> Self {
        let (waiting, underway) = (VecDeque::new(), Underway::new(limits));
        Self { driver, workers: WorkerPool::default(), waiting, underway, conditions }
    }

    /// Begins a round, unless units of the last one still wait. A probe that still runs is not begun twice.
    fn begin(&mut self, live: impl FnOnce() -> Vec<Subject>) {
        if !self.waiting.is_empty() {
            return;
        }
        let live = live();
        let epochs: BTreeMap<_, _> = live.iter().map(|one| (one.key(), one.epoch)).collect();
        self.conditions.all().retain(|key, condition| epochs.get(key) == Some(&condition.epoch));
        self.waiting.extend(live.into_iter().filter(|one| !self.underway.contains(&one.key())));
    }

    /// Puts a unit first.
    fn hurry(&mut self, subject: Subject) {
        let key = subject.key();
        self.waiting.retain(|one| one.key() != key);
        if !self.underway.contains(&key) {
            self.waiting.push_front(subject);
        }
    }

    /// Starts what can be started; `report` is called on another thread.
    fn start(&mut self, report: impl Fn(Probed) + Clone + Send + 'static) {
        let Some(driver) = &self.driver else { return };
        let now = Instant::now();
        while self.underway.has_room()
            && let Some(subject) = self.waiting.pop_front()
        {
            self.underway.begin(subject.key(), subject, now);
            let (driver, report) = (Arc::clone(driver), report.clone());
            self.workers.run(Box::new(move || {
                let found = driver.probe(subject.site, subject.unit);
                report(Probed { subject, found });
            }));
        }
    }

    /// When a probe is to be given up next.
    pub(super) fn next(&self) -> Option<Instant> {
        self.underway.next()
    }

    /// How many were given up and have not come back.
    pub(super) fn given_up(&self) -> usize {
        self.underway.given_up()
    }

    /// Records a result. Returns whether it is a change, and not the first sight of a unit that is up, and how
    /// many probes in a row have found the unit down.
    fn note(
        &self,
        subject: &Subject,
        found: Result<Properties, DriverError>,
        now: Time,
    ) -> (bool, u32) {
        let mut conditions = self.conditions.all();
        let before = conditions.get(&subject.key()).filter(|old| old.epoch == subject.epoch);
        let was_up = before.is_none_or(|before| before.found.is_ok());
        let changed = was_up != found.is_ok();
        let since = before.filter(|_| !changed).map_or(now, |before| before.since);
        let failures = before.map_or(0, |before| before.failures).saturating_add(1);
        let failures = if found.is_ok() { 0 } else { failures };
        let condition = Condition { epoch: subject.epoch, since, failures, found };
        conditions.insert(subject.key(), condition);
        (changed, failures)
    }
}

impl Host {
    /// Begins a round of probes.
    pub(super) fn probe(&mut self, ctx: &mut Context<Self>) {
        let Some((run, _)) = self.run.as_ref().filter(|_| self.draining.is_none()) else {
            return;
        };
        self.probes.begin(|| Subject::all(run.actor(), self.part.info.id));
        self.metrics.down.set(i64::try_from(self.probes.conditions.down()).unwrap_or(i64::MAX));
        self.probe_next(ctx);
    }

    fn probe_next(&mut self, ctx: &mut Context<Self>) {
        let host = ctx.address();
        self.probes.start(move |probed| host.do_send(probed));
        self.watch_calls(ctx);
    }

    /// Gives up the probes that have taken too long by now: their units are down.
    pub(super) fn give_up_probes(&mut self, now: Instant, ctx: &mut Context<Self>) {
        let error = timed_out(self.probes.underway.timeout());
        for subject in self.probes.underway.give_up(now) {
            self.metrics.probed(false);
            self.found(subject, Err(error.clone()), ctx);
        }
        self.probe_next(ctx);
    }

    /// Has the driver report to this run what it finds by itself.
    pub(super) fn take_reports(&self) {
        let (driver, reports) = (self.part.driver.clone(), Arc::clone(&self.reports));
        self.probes.workers.run(Box::new(move || {
            if let Some(Driver::Site(driver)) = driver.as_deref() {
                driver.report_to(reports as Arc<dyn ReportReceiver>);
            }
        }));
    }

    /// Takes what a driver has reported of a unit by itself.
    fn reported(&mut self, report: Report, ctx: &mut Context<Self>) {
        let Report { unit, epoch, finding } = report;
        let subject = Subject { site: self.part.info.id, unit, epoch, lease: None };
        match finding {
            Finding::Up => {
                self.probes.hurry(subject);
                self.probe_next(ctx);
            }
            Finding::Down(error) => self.found(subject, Err(error), ctx),
            Finding::Failed(error) => {
                if self.part.fail_after.is_some() {
                    self.fail_unit(&subject, &error, ctx);
                }
                self.found(subject, Err(error), ctx);
            }
        }
    }

    /// Tells the site that a unit has failed. It knows whether that is so still.
    fn fail_unit(&mut self, subject: &Subject, error: &DriverError, ctx: &mut Context<Self>) {
        self.inbox.other(Task::plain(Input::Command(subject.fails(error).into())));
        self.stir(ctx);
    }

    /// Records what was found of a unit.
    fn found(
        &mut self,
        subject: Subject,
        found: Result<Properties, DriverError>,
        ctx: &mut Context<Self>,
    ) {
        let Some((run, _)) = &self.run else { return };
        // What is found of a unit that is being cleaned says nothing about the tenancy that has ended.
        if !subject.is_live(run.actor()) {
            return;
        }
        let error = found.as_ref().err().cloned();
        let (changed, failures) = self.probes.note(&subject, found, self.clock.now());
        let failed = self.part.fail_after.is_some_and(|most| most.get() == failures);
        if let Some(error) = error.as_ref().filter(|_| failed) {
            self.fail_unit(&subject, error, ctx);
        }
        if !changed {
            return;
        }
        let Some((run, _)) = &self.run else { return };
        self.metrics.down.set(i64::try_from(self.probes.conditions.down()).unwrap_or(i64::MAX));
        let Subject { site, unit, lease, .. } = subject;
        let peer = run.actor().peers().get(&site);
        let site: &dyn fmt::Display = peer.map_or(&site, |peer| &peer.name);
        let (actor, lease) = (&self.part.info.name, lease.map(tracing::field::display));
        match error {
            Some(error) => {
                warn!(%actor, unit = %format!("{site}/{unit}"), lease, %error, "a unit is down")
            }
            None => warn!(%actor, unit = %format!("{site}/{unit}"), lease, "a unit is up again"),
        }
    }
}

impl Handler<Probed> for Host {
    type Result = ();

    fn handle(&mut self, Probed { subject, found }: Probed, ctx: &mut Self::Context) {
        if self.probes.underway.end(&subject.key()) {
            self.metrics.probed(found.is_ok());
            self.found(subject, found, ctx);
        }
        self.probe_next(ctx);
    }
}

impl Handler<Reported> for Host {
    type Result = ();

    fn handle(&mut self, _: Reported, ctx: &mut Self::Context) {
        let reports = self.reports.take();
        if self.run.is_none() || self.draining.is_some() {
            // The next run is told again what has failed.
            return;
        }
        for report in reports {
            self.reported(report, ctx);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::num::NonZeroUsize;
    use std::sync::mpsc::{self, Receiver, Sender};

    use tenure_core::driver::{Answer, Call, ResourceDriver};
    use tenure_core::model::identity::PublicKey;
    use tenure_core::model::time::Span;
    use tenure_wait::{DEADLINE, receive};

    use super::*;

    /// Unit 0 hangs until it is let go; the others are up.
    struct Hanging(Mutex<Receiver<()>>);

    impl ResourceDriver for Hanging {
        fn perform(&self, _: &Call) -> Answer {
            Answer { outcome: Ok(Properties::default()), after: Span::ZERO }
        }

        fn probe(&self, _: ActorId, unit: UnitId) -> Result<Properties, DriverError> {
            if unit == UnitId(0) {
                let let_go = self.0.lock().unwrap().recv_timeout(DEADLINE);
                let_go.map_err(|_| DriverError("nobody let it go".to_owned()))?;
            }
            Ok(Properties::default())
        }
    }

    fn most(most: usize) -> CallLimits {
        CallLimits { at_a_time: NonZeroUsize::new(most).unwrap(), ..CallLimits::default() }
    }

    fn live(units: u32) -> Vec<Subject> {
        let site = ActorId::of(&PublicKey::from_bytes([1; 32]));
        let subject = |unit| Subject { site, unit: UnitId(unit), epoch: Epoch(1), lease: None };
        (0..units).map(subject).collect()
    }

    /// Plays the host until so many units have been probed, and says which.
    fn play(probes: &mut Probes, most: usize, units: usize) -> BTreeSet<u32> {
        let (reply, answer) = mpsc::channel();
        let begin = |probes: &mut Probes, reply: &Sender<Probed>| {
            let reply = reply.clone();
            probes.start(move |probed| drop(reply.send(probed)));
            assert!(probes.underway.awaited() <= most);
        };
        begin(probes, &reply);
        let mut seen = BTreeSet::new();
        while seen.len() < units {
            let Probed { subject, .. } = receive(DEADLINE, "a probe", &answer);
            assert!(probes.underway.end(&subject.key()));
            assert!(seen.insert(subject.unit.0), "probed twice in a round");
            begin(probes, &reply);
        }
        seen
    }

    #[test]
    fn a_round_reaches_every_unit_though_one_hangs_and_only_two_are_probed_at_a_time() {
        let (let_go, hangs) = mpsc::channel();
        let driver = Driver::Site(Box::new(Hanging(Mutex::new(hangs))));
        let mut probes = Probes::new(Some(Arc::new(driver)), most(2), Conditions::default());
        for _ in 0..2 {
            probes.begin(|| live(9));
            assert_eq!(play(&mut probes, 2, 8), (1..9).collect(), "the one that hangs, once");
            assert_eq!(probes.underway.awaited(), 1);
        }
        // A round that is under way is not begun again.
        probes.begin(|| live(4));
        probes.begin(|| live(9));
        assert_eq!(probes.waiting.len(), 3);
        let_go.send(()).unwrap();
    }

    #[test]
    fn only_a_change_is_reported_and_its_time_is_kept() {
        let probes = Probes::new(None, most(1), Conditions::default());
        let [subject] = live(1)[..] else { panic!("one") };
        let up = || Ok(Properties::default());
        let wrong = |why: &str| Err(DriverError(why.to_owned()));
        let at = Time::from_micros;
        let since = || probes.conditions.of(subject.site, subject.unit, Epoch(1)).unwrap().since;
        assert_eq!(probes.note(&subject, up(), at(1)), (false, 0));
        assert_eq!(probes.note(&subject, wrong("it ended"), at(2)), (true, 1));
        assert_eq!(probes.note(&subject, wrong("it ended again"), at(3)), (false, 2));
        assert_eq!((since(), probes.conditions.down()), (at(2), 1));
        assert_eq!(probes.note(&subject, up(), at(4)), (true, 0));
        assert_eq!((since(), probes.conditions.down()), (at(4), 0));
        // Another tenancy begins without a past.
        let next = Subject { epoch: Epoch(3), ..subject };
        assert_eq!(probes.note(&next, wrong("it never began"), at(5)), (true, 1));
        assert_eq!(probes.conditions.of(subject.site, subject.unit, Epoch(1)), None);
    }
}
