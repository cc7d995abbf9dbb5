//! A queue of rigid jobs that run on units.

use std::collections::{BTreeSet, VecDeque};

use tenure_core::model::time::{Span, Time};
use tenure_expr::Quantity;

use super::model::{BatchModel, ModelJob, Order};
use super::{Software, Unit};
use crate::report::ServiceReport;

/// A batch system. Jobs run on the units that it has had for longest, so that those that it got last are idle first.
pub(super) struct Batch {
    order: Order,
    start: Time,
    /// Jobs that are yet to be submitted, the next first.
    ahead: VecDeque<ModelJob>,
    /// Those that wait, the first first.
    queue: VecDeque<Job>,
    running: Vec<RunningJob>,
    /// The units, as they were told last.
    units: Vec<Unit>,
    done: u64,
    waited: Span,
    started: u64,
    lost: i128,
    /// When the first job is submitted.
    first: Option<Time>,
    /// When a job ended last.
    ended: Option<Time>,
}

/// A job that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Job {
    at: Time,
    units: u32,
    run: Span,
    /// Whether it was started before, and lost a unit.
    again: bool,
}

struct RunningJob {
    job: Job,
    since: Time,
    on: Vec<Unit>,
}

impl RunningJob {
    fn end(&self) -> Time {
        self.since.plus(self.job.run)
    }
}

impl Batch {
    pub(super) fn of(model: &BatchModel, start: Time) -> Self {
        let mut jobs = model.jobs.clone();
        jobs.sort_by_key(|job| job.at);
        Self {
            order: model.order,
            start,
            ahead: jobs.into(),
            queue: VecDeque::new(),
            running: Vec::new(),
            units: Vec::new(),
            done: 0,
            waited: Span::ZERO,
            started: 0,
            lost: 0,
            first: model.jobs.iter().map(|job| start.plus(job.at)).min(),
            ended: None,
        }
    }

    /// What ends or is submitted first, up to an instant.
    fn happen(&mut self, now: Time) {
        while let Some(at) = self.next().filter(|at| *at <= now) {
            let done = self.running.len();
            self.running.retain(|running| at < running.end());
            let ended = (done - self.running.len()) as u64;
            self.done += ended;
            self.ended = (ended > 0).then_some(at).or(self.ended);
            while let Some(job) = self.ahead.front().filter(|job| self.start.plus(job.at) <= at) {
                let ModelJob { units, run, .. } = *job;
                self.queue.push_back(Job { at, units, run, again: false });
                self.ahead.pop_front();
            }
            self.begin(at);
        }
    }

    fn free(&self) -> Vec<Unit> {
        let busy: BTreeSet<&Unit> = self.running.iter().flat_map(|running| &running.on).collect();
        self.units.iter().filter(|unit| !busy.contains(unit)).copied().collect()
    }

    /// Starts what fits: the first, and behind one that does not fit what does not delay it.
    fn begin(&mut self, now: Time) {
        let mut free = self.free();
        let mut place = 0;
        let mut shadow: Option<(Time, usize)> = None;
        while let Some(job) = self.queue.get(place).copied() {
            let units = job.units as usize;
            let delays = shadow.is_some_and(|(at, spare)| at < now.plus(job.run) && spare < units);
            if units <= free.len() && !delays {
                let on = free.drain(..units).collect();
                if let Some((at, spare)) = &mut shadow
                    && *at < now.plus(job.run)
                {
                    *spare -= units;
                }
                self.queue.remove(place);
                self.start(now, job, on);
                continue;
            }
            if self.order == Order::Fcfs {
                return;
            }
            if shadow.is_none() {
                shadow = Some(self.shadow(free.len(), units));
            }
            place += 1;
        }
    }

    /// When the first job that waits can start, and how many units are then left beside it.
    fn shadow(&self, free: usize, units: usize) -> (Time, usize) {
        let mut ends: Vec<(Time, usize)> =
            self.running.iter().map(|running| (running.end(), running.on.len())).collect();
        ends.sort_unstable();
        let mut free = free;
        for (end, freed) in ends {
            free += freed;
            if units <= free {
                return (end, free - units);
            }
        }
        // Not on the units that there are: nothing delays it.
        (Time::MAX, free)
    }

    fn start(&mut self, now: Time, job: Job, on: Vec<Unit>) {
        if !job.again {
            self.waited = self.waited.plus(now.since(job.at));
            self.started += 1;
        }
        self.running.push(RunningJob { job, since: now, on });
    }
}

impl Software for Batch {
    fn advance(&mut self, now: Time, units: &[Unit]) {
        // What ended before the units changed has ended on the old ones.
        self.happen(now);
        self.units = units.to_vec();
        self.begin(now);
    }

    fn next(&self) -> Option<Time> {
        let ahead = self.ahead.front().map(|job| self.start.plus(job.at));
        ahead.into_iter().chain(self.running.iter().map(RunningJob::end)).min()
    }

    fn lose(&mut self, now: Time, unit: Unit) {
        self.happen(now);
        self.units.retain(|of| *of != unit);
        let Some(place) = self.running.iter().position(|running| running.on.contains(&unit)) else {
            return;
        };
        let RunningJob { job, since, on } = self.running.remove(place);
        self.lost += i128::from(now.since(since).as_micros()) * on.len() as i128;
        self.queue.push_front(Job { again: true, ..job });
    }

    fn busy(&self) -> Vec<Unit> {
        self.running.iter().flat_map(|running| &running.on).copied().collect()
    }

    fn measure(&self, now: Time, units: u32) -> Vec<(&'static str, Quantity)> {
        let number = |n: u64| Quantity::number(i64::try_from(n).unwrap_or(i64::MAX));
        let busy: usize = self.running.iter().map(|running| running.on.len()).sum();
        let pending: u64 = self.queue.iter().map(|job| u64::from(job.units)).sum();
        let oldest = self.queue.iter().map(|job| now.since(job.at)).max().unwrap_or(Span::ZERO);
        vec![
            ("busy-units", number(busy as u64)),
            ("pending-units", number(pending)),
            ("pending-jobs", number(self.queue.len() as u64)),
            ("oldest-wait", Quantity::microseconds(oldest.as_micros())),
            ("units", number(u64::from(units))),
        ]
    }

    fn fill(&self, now: Time, report: &mut ServiceReport) {
        report.jobs_done = self.done;
        report.jobs_waiting = self.queue.len() as u64;
        report.lost_unit_s = self.lost as f64 / 1e6;
        // Those that never started have waited to the end.
        let unstarted = || self.queue.iter().filter(|job| !job.again);
        let waiting = unstarted().fold(self.waited, |sum, job| sum.plus(now.since(job.at)));
        let jobs = self.started + unstarted().count() as u64;
        report.mean_wait_s = waiting.as_secs_f64() / jobs.max(1) as f64;
        let all_done = self.ahead.is_empty() && self.queue.is_empty() && self.running.is_empty();
        let end = self.ended.filter(|_| all_done).unwrap_or(now);
        report.makespan_s = self.first.map_or(0.0, |first| end.since(first).as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::driver::UnitId;
    use tenure_core::model::slice::LeaseId;

    use super::*;

    fn at(minutes: i64) -> Time {
        Time::ZERO.plus(Span::MINUTE.times(minutes))
    }

    fn units(count: u32) -> Vec<Unit> {
        (0..count).map(|unit| (LeaseId { number: 1, part: 0 }, UnitId(unit))).collect()
    }

    fn batch(order: Order, jobs: &[(i64, u32, i64)]) -> Batch {
        let job = |&(at, units, run): &(i64, u32, i64)| ModelJob {
            at: Span::MINUTE.times(at),
            units,
            run: Span::MINUTE.times(run),
        };
        let jobs = jobs.iter().map(job).collect();
        Batch::of(&BatchModel { jobs, order }, Time::ZERO)
    }

    fn report(batch: &Batch, now: Time) -> ServiceReport {
        let mut report = ServiceReport::default();
        batch.fill(now, &mut report);
        report
    }

    #[test]
    fn jobs_wait_for_units_and_run() {
        let mut batch = batch(Order::Fcfs, &[(0, 2, 60), (10, 1, 30)]);
        batch.advance(at(0), &[]);
        assert_eq!(batch.measure(at(5), 0)[1], ("pending-units", Quantity::number(2)));
        batch.advance(at(20), &units(2));
        assert_eq!(batch.next(), Some(at(80)));
        batch.advance(at(110), &units(2));
        let report = report(&batch, at(110));
        assert_eq!((report.jobs_done, report.mean_wait_s), (2, (20.0 * 60.0 + 70.0 * 60.0) / 2.0));
        assert_eq!(report.makespan_s, 110.0 * 60.0);
    }

    #[test]
    fn the_makespan_is_from_the_first_submission_to_the_last_end() {
        let mut batch = batch(Order::Fcfs, &[(10, 1, 30), (20, 1, 30)]);
        batch.advance(at(10), &units(2));
        assert_eq!(report(&batch, at(45)).makespan_s, 35.0 * 60.0, "one still runs");
        batch.advance(at(90), &units(2));
        assert_eq!(report(&batch, at(90)).makespan_s, 40.0 * 60.0);
    }

    #[test]
    fn a_job_that_loses_a_unit_starts_again_and_its_work_is_lost() {
        let mut batch = batch(Order::Fcfs, &[(0, 2, 60)]);
        batch.advance(at(0), &units(2));
        batch.lose(at(45), units(2)[1]);
        batch.advance(at(50), &units(2));
        assert_eq!(
            (batch.next(), report(&batch, at(50)).lost_unit_s),
            (Some(at(110)), 2.0 * 45.0 * 60.0)
        );
        assert_eq!(
            report(&batch, at(50)).mean_wait_s,
            0.0,
            "it had not waited when it first began"
        );
    }

    #[test]
    fn jobs_behind_the_first_begin_only_if_they_do_not_delay_it() {
        let jobs = [(0, 2, 60), (1, 3, 10), (2, 1, 30), (3, 1, 90)];
        let mut fcfs = batch(Order::Fcfs, &jobs);
        let mut easy = batch(Order::Easy, &jobs);
        for batch in [&mut fcfs, &mut easy] {
            for minute in 0..=5 {
                batch.advance(at(minute), &units(3));
            }
        }
        assert_eq!((fcfs.running.len(), easy.running.len()), (1, 2));
        assert_eq!(
            easy.running[1].job.run,
            Span::MINUTE.times(30),
            "the longer one would delay it"
        );
    }
}
