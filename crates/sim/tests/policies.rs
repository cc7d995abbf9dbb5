//! Brokers' policies against plain calculations of what they are defined to do.
//!
//! A calculation knows whole seconds, one machine and lists. The emulated deployment knows calendars,
//! tickets and messages; its leases must begin at the same instants.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use proptest::prelude::*;
use tenure_config::Source;
use tenure_core::broker::facts::Fact as BrokerFact;
use tenure_core::model::time::Time;
use tenure_core::runtime::Fact;
use tenure_core::service_manager::facts::Fact as GuestFact;
use tenure_sim::emulation::{Emulation, Inputs, Kept, Progress};
use tenure_sim::report::{Report, RunVerdict};
use tenure_sim::scenario::parse;

const CAPACITY: i64 = 8;

/// A job: when it is submitted, for how long it runs, on how many units, and what else it says.
#[derive(Clone, Copy, Debug)]
struct Job {
    submit: i64,
    run: i64,
    units: i64,
    user: u8,
    priority: i64,
}

/// A job that has begun, and when.
type Begun = (Job, i64);

fn jobs(most: usize) -> impl Strategy<Value = Vec<Job>> {
    jobs_in(1..most)
}

fn jobs_in(number: Range<usize>) -> impl Strategy<Value = Vec<Job>> {
    let job = (60..460_i64, 10..200_i64, 1..=CAPACITY, 0..3_u8, 0..5_i64);
    let job = job.prop_map(|(submit, run, units, user, priority)| Job {
        submit,
        run,
        units,
        user,
        priority,
    });
    prop::collection::vec(job, number).prop_map(|mut jobs| {
        jobs.sort_by_key(|job| job.submit);
        jobs
    })
}

/// The units in use at an instant.
fn in_use(begun: &[Begun], at: i64) -> i64 {
    let running = begun.iter().filter(|(job, start)| (*start..start + job.run).contains(&at));
    running.map(|(job, _)| job.units).sum()
}

/// Whether a job can run from `start` on beside all others.
fn fits(begun: &[Begun], job: Job, start: i64) -> bool {
    let steps = begun.iter().map(|(_, at)| *at).filter(|at| (start..start + job.run).contains(at));
    steps.chain([start]).all(|at| in_use(begun, at) + job.units <= CAPACITY)
}

/// The first start from `from` on: now, or when another job ends.
fn earliest(begun: &[Begun], job: Job, from: i64) -> i64 {
    let mut starts: Vec<i64> = begun.iter().map(|(job, at)| at + job.run).collect();
    starts.push(from);
    starts.sort_unstable();
    let mut starts = starts.into_iter().filter(|start| *start >= from);
    starts.find(|start| fits(begun, job, *start)).unwrap()
}

/// Each job is booked as early as there is room when it is submitted, and stays there.
fn booked(jobs: &[Job]) -> Vec<i64> {
    let mut begun = Vec::new();
    for &job in jobs {
        let start = earliest(&begun, job, job.submit);
        begun.push((job, start));
    }
    begun.into_iter().map(|(_, start)| start).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Strict,
    Conservative,
    Easy,
}

/// Jobs wait in a queue; at each instant at which one is submitted or ends it is worked out again who begins.
/// `next` picks one of those that wait, which were not looked at yet, by what has begun so far.
fn queued(
    jobs: &[Job],
    rule: Rule,
    next: impl Fn(&[(usize, Job)], &[Begun], i64) -> usize,
) -> Vec<i64> {
    let mut starts: Vec<Option<i64>> = vec![None; jobs.len()];
    let mut begun: Vec<Begun> = Vec::new();
    let mut now = 0;
    while starts.contains(&None) {
        // What ends now is known before what is submitted now.
        for latest in [now - 1, now] {
            let waits =
                |(index, job): &(usize, Job)| starts[*index].is_none() && job.submit <= latest;
            let mut waiting: Vec<(usize, Job)> =
                jobs.iter().copied().enumerate().filter(waits).collect();
            let (mut reserved, mut last) = (begun.clone(), now);
            let mut held = 0;
            while !waiting.is_empty() {
                let (index, job) = waiting.remove(next(&waiting, &begun, now));
                let from = if rule == Rule::Strict { last } else { now };
                let start = earliest(&reserved, job, from);
                if start == now {
                    starts[index] = Some(now);
                    begun.push((job, now));
                    reserved.push((job, now));
                } else {
                    if rule != Rule::Easy || held == 0 {
                        reserved.push((job, start));
                    }
                    (held, last) = (held + 1, start);
                }
            }
        }
        let ends = begun.iter().map(|(job, start)| start + job.run);
        let events = jobs.iter().map(|job| job.submit).chain(ends);
        let Some(event) = events.filter(|at| *at > now).min() else { break };
        now = event;
    }
    starts.into_iter().map(Option::unwrap).collect()
}

fn first(_: &[(usize, Job)], _: &[Begun], _: i64) -> usize {
    0
}

/// Emulates a deployment whose broker has the mapper, and hands each fact on.
fn play(jobs: &[Job], mapper: &str, mut each: impl FnMut(&Fact)) -> Report {
    let mut list = String::new();
    for Job { submit, run, units, user, priority } in jobs {
        let of = format!("user = \"{user}\", priority = \"{priority}\", bid = \"{priority}\"");
        writeln!(
            list,
            "  {{ at = \"{submit}s\", run = \"{run}s\", units = {units}, properties = {{ {of} }} }},"
        )
        .unwrap();
    }
    let text = format!(
        "horizon = \"1h\"\nterm = \"1h\"\nmargin = \"0s\"\nsignatures = \"none\"\ncapacity = {CAPACITY}\n\
         [site.alpha]\ndelegation = \"5d\"\n[broker.exchange]\nmapper = {{ {mapper} }}\n\
         [service-manager.batch]\n[service-manager.batch.mapper]\nname = \"jobs\"\njobs = [\n{list}]\n"
    );
    let points = parse(Source { name: "jobs.toml", text: &text }, &[]).unwrap();
    let keep = |kept: Kept<'_>| {
        kept.entries.iter().for_each(|entry| each(&entry.fact));
        Ok(())
    };
    let scenario = &points[0].scenario;
    let mut emulation = Emulation::kept_by(Box::new(keep), scenario, &Inputs::default()).unwrap();
    while emulation.step().unwrap() != Progress::Done {}
    let report = emulation.report();
    assert_eq!(report.verdict, RunVerdict::Complete, "{:?}", report.problems);
    assert_eq!(report.notes, [""; 0]);
    report
}

/// When the leases of the jobs begin.
fn emulated(jobs: &[Job], mapper: &str) -> Vec<i64> {
    let mut starts = BTreeMap::new();
    let report = play(jobs, mapper, |fact| {
        if let Fact::ServiceManager(GuestFact::Granted(granted)) = fact {
            let start = granted.tickets[0].1.bottom().term.start();
            starts.insert(granted.number, start.since(Time::ZERO).as_micros() / 1_000_000);
        }
    });
    assert_eq!(report.granted, jobs.len() as u64);
    starts.into_values().collect()
}

/// What is behind a word of a sentence.
fn number_after(sentence: &str, word: &str) -> u64 {
    let (_, rest) = sentence.split_once(word).unwrap();
    let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next();
    digits.unwrap().parse().unwrap()
}

fn by_priority(ageing: i64) -> impl Fn(&[(usize, Job)], &[Begun], i64) -> usize {
    move |waiting, _, now| {
        let urgency = |job: Job| job.priority * ageing + (now - job.submit);
        let urgent = (0..waiting.len()).max_by_key(|&i| (urgency(waiting[i].1), -(i as i64)));
        urgent.unwrap()
    }
}

/// The one of the users that had least, of equals the one whose job came first.
fn by_usage(waiting: &[(usize, Job)], begun: &[Begun], _: i64) -> usize {
    let usage = |user: u8| -> i64 {
        let own = begun.iter().filter(|(job, _)| job.user == user);
        own.map(|(job, _)| job.units * job.run).sum()
    };
    (0..waiting.len()).min_by_key(|&place| (usage(waiting[place].1.user), place)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn fcfs_books_each_job_as_early_as_there_is_room(jobs in jobs(40)) {
        prop_assert_eq!(emulated(&jobs, "name = \"fcfs\""), booked(&jobs));
    }

    #[test]
    fn strict_fcfs_begins_jobs_in_their_order(jobs in jobs(40)) {
        let starts = emulated(&jobs, "name = \"fcfs\", queue = \"strict\"");
        prop_assert!(starts.is_sorted());
        prop_assert_eq!(starts, queued(&jobs, Rule::Strict, first));
    }

    #[test]
    fn conservative_backfilling_delays_nobody(jobs in jobs(40)) {
        let starts = emulated(&jobs, "name = \"fcfs\", queue = \"conservative\"");
        // Run times are exact, so nobody ever begins at another instant than was expected at first.
        prop_assert_eq!(&starts, &booked(&jobs));
        prop_assert_eq!(&starts, &queued(&jobs, Rule::Conservative, first));
    }

    #[test]
    fn easy_backfilling_never_delays_the_head(jobs in jobs(40)) {
        let starts = emulated(&jobs, "name = \"fcfs\", queue = \"easy\"");
        prop_assert_eq!(&starts, &queued(&jobs, Rule::Easy, first));
        // The first job that waits has to begin no later than if nobody behind it existed.
        let head = (0..jobs.len()).find(|&i| starts[i] > jobs[i].submit);
        if let Some(head) = head {
            prop_assert_eq!(starts[head], queued(&jobs[..=head], Rule::Strict, first)[head]);
        }
    }

    #[test]
    fn priority_serves_the_most_urgent_and_age_counts(jobs in jobs(30)) {
        for (queue, rule) in [("easy", Rule::Easy), ("conservative", Rule::Conservative)] {
            let mapper = format!("name = \"priority\", ageing = \"60s\", queue = \"{queue}\"");
            prop_assert_eq!(emulated(&jobs, &mapper), queued(&jobs, rule, by_priority(60)));
        }
    }

    #[test]
    fn an_auction_takes_no_more_than_bids_and_budgets(jobs in jobs(40), reserve in 0..3_u64) {
        let (budget, mut spent, mut refused) = (12, 0, 0);
        let mapper = format!("name = \"auction\", budget = {budget}, reserve = {reserve}");
        let mut dear = Vec::new();
        let report = play(&jobs, &mapper, |fact| {
            if let Fact::Broker(BrokerFact::TicketsCut(cut)) = fact {
                let price = number_after(&cut.reason, "at a price of");
                spent += number_after(&cut.reason, "pays");
                let job = jobs[usize::try_from(cut.request.number).unwrap() - 1];
                let bid = u64::try_from(job.priority).unwrap();
                dear.extend((price > bid || price < reserve).then_some(job));
            }
            if let Fact::Broker(BrokerFact::RequestRefused(fact)) = fact {
                assert_eq!(fact.refusal.word(), "policy");
                refused += 1;
            }
        });
        prop_assert!(dear.is_empty(), "{:?}", dear);
        prop_assert!(spent <= budget);
        prop_assert_eq!(report.granted + refused, jobs.len() as u64);
    }

    #[test]
    fn fair_share_serves_who_had_least(jobs in jobs(30)) {
        let mapper =
            "name = \"fair-share\", property = \"user\", half-life = \"365000d\", queue = \"strict\"";
        let plain = queued(&jobs, Rule::Strict, by_usage);
        prop_assert_eq!(emulated(&jobs, mapper), plain);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    /// Far more jobs than are told when they can expect to begin.
    #[test]
    fn a_long_queue_is_served_as_a_short_one(jobs in jobs_in(90..130)) {
        for (queue, rule) in
            [("strict", Rule::Strict), ("easy", Rule::Easy), ("conservative", Rule::Conservative)]
        {
            let starts = emulated(&jobs, &format!("name = \"fcfs\", queue = \"{queue}\""));
            prop_assert_eq!(starts, queued(&jobs, rule, first));
        }
        let aged = "name = \"priority\", ageing = \"60s\", queue = \"easy\"";
        prop_assert_eq!(emulated(&jobs, aged), queued(&jobs, Rule::Easy, by_priority(60)));
    }
}

#[test]
fn a_stream_of_urgent_jobs_keeps_an_aged_one_out_for_a_bounded_time() {
    let urgent =
        |n: i64| Job { submit: 60 + n * 10, run: 20, units: CAPACITY, user: 0, priority: 4 };
    let mut jobs: Vec<Job> = (0..100).map(urgent).collect();
    jobs.insert(1, Job { submit: 60, run: 20, units: 1, user: 1, priority: 0 });
    let without = emulated(&jobs, "name = \"priority\", queue = \"strict\"");
    let with = emulated(&jobs, "name = \"priority\", ageing = \"60s\", queue = \"strict\"");
    assert_eq!(without[1], *without.iter().max().unwrap());
    // Four points are four minutes: those submitted later than that come after it.
    assert!(with[1] <= 60 + 25 * 20, "{}", with[1]);
}

#[test]
fn what_is_submitted_at_the_first_instant_begins_at_it() {
    let job = |units| Job { submit: 0, run: 40, units, user: 0, priority: 0 };
    let jobs = [job(3), job(5), job(1)];
    for queue in ["false", "true", "\"strict\"", "\"conservative\"", "\"easy\""] {
        let mapper = format!("name = \"fcfs\", queue = {queue}");
        assert_eq!(emulated(&jobs, &mapper), [0, 0, 40], "{queue}");
    }
}

#[test]
fn what_ends_at_an_instant_is_given_to_those_who_waited_before_it() {
    let job = |submit, run, user| Job { submit, run, units: CAPACITY, user, priority: 0 };
    // The second user has had nothing, but asks just as the units become free.
    let jobs = [job(60, 40, 0), job(70, 40, 0), job(100, 40, 1)];
    let mapper = "name = \"fair-share\", property = \"user\", queue = \"strict\"";
    assert_eq!(emulated(&jobs, mapper), [60, 100, 140]);
}
