//! What an emulation measured.

use std::collections::BTreeMap;

use serde::Serialize;

/// The figures of one run. All but `facts`, `ticks`, `messages` and the signatures are taken from the
/// journals of the site authorities and service managers, up to the horizon.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The length of the leases asked for, in seconds.
    pub term_s: f64,
    /// Root of the mean square of (units held after asking - units needed) over all steps and service
    /// managers, in units.
    pub rmse: f64,
    /// Requests for new leases.
    pub requests: u64,
    /// Requests that were refused.
    pub refusals: u64,
    /// Refusals by their reason.
    pub refusals_by_reason: BTreeMap<String, u64>,
    /// Units set up.
    pub setups: u64,
    /// Units whose setup failed.
    pub failed_setups: u64,
    /// Units torn down.
    pub teardowns: u64,
    /// Leases extended, each time.
    pub extends: u64,
    /// Units that went to another lease: setups of units used before.
    pub unit_flips: u64,
    /// Unit-seconds joined / unit-seconds of lease terms; 1 if nothing was leased.
    pub fidelity: f64,
    /// Leases of the whole run that were first in use after the start of their term.
    pub late: u64,
    /// By how many seconds, all of them together.
    pub late_s: f64,
    /// Leases that were last in use before the end of their term.
    pub early: u64,
    /// By how many seconds, all of them together.
    pub early_s: f64,
    /// Leases that were never in use.
    pub expired: u64,
    /// Leases of overbooked stocks that found too few units / those that came due, over the whole run; 0 if none
    /// came due.
    pub shortage: f64,
    /// Unit-seconds leased / (capacity x horizon), divisible stocks aside.
    pub utilization: f64,
    /// Mean time from the start asked for to active, in seconds, over granted leases that became so.
    pub mean_wait_s: f64,
    /// What all leases cost their guests: units, times hours of their terms, times the price, less what came
    /// back.
    pub cost: String,
    /// Requests that were granted, from here on to `fairness` those asked for within the horizon.
    pub granted: u64,
    /// Those granted from later on than they asked for.
    pub delayed: u64,
    /// Mean of max(1, (delay + term) / max(term, 10 s)): the bounded slowdown of Feitelson et al.
    /// (1997), the delay counted from the start asked for.
    pub slowdown: f64,
    /// Jain's index (1984) over users of their mean slowdowns, from 1/n to 1 for n users. The
    /// request property `user` names the user; without it the service manager is.
    pub fairness: f64,
    /// The figures of each type.
    pub types: BTreeMap<String, TypeReport>,
    /// What became of experiments, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiments: Option<ExperimentReport>,
    /// What became of services, if there are any.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub services: Option<ServicesReport>,
    /// What became of requests in a network of brokers, if there is one.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkReport>,
    /// Facts of all actors, to the end of the run.
    pub facts: u64,
    /// Distinct instants handled.
    pub ticks: u64,
    /// Messages sent, each repetition counted.
    pub messages: u64,
    /// Signatures made.
    pub signatures_made: u64,
    /// Signatures checked.
    pub signatures_checked: u64,
    /// The hash over the journals of all actors, in the order of their names.
    pub journal_hash: String,
    /// `complete`: all came to rest, every request was answered and every lease ended. `failed`: all came to
    /// rest, but something was never answered. `stalled`: something never came to rest.
    pub verdict: RunVerdict,
    /// What kept the verdict from being `complete`.
    pub problems: Vec<String>,
    /// Inputs that actors refused, with how often: late answers, choices of a mapper that do not hold.
    pub notes: Vec<String>,
}

/// The figures of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TypeReport {
    /// How many units all sites have, or how much.
    pub units: u64,
    /// Tickets redeemed.
    pub leases: u64,
    /// Unit-seconds leased / (units x horizon).
    pub utilization: f64,
    /// As that of all types.
    pub shortage: f64,
}

/// What became of services, and how many units were moved between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServicesReport {
    /// Units that were taken from a service for another one by orders, and delivered.
    pub moves: u64,
    /// Those of them that went back between the two within an hour.
    pub swings: u64,
    /// Unit-seconds of jobs that lost a unit and had to start again.
    pub lost_unit_s: f64,
    /// Each service.
    pub services: Vec<ServiceReport>,
}

/// What became of a service, up to the horizon.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServiceReport {
    /// Its service manager and name, as `lab/batch`.
    pub name: String,
    /// How many units it had in the end.
    pub units_end: usize,
    /// How long an SLO with a rule was missed, in seconds.
    pub out_of_slo_s: f64,
    /// The jobs that ended.
    pub jobs_done: u64,
    /// Those that waited in the end.
    pub jobs_waiting: u64,
    /// How long jobs waited before they first began, on average, in seconds: to the end those that never did.
    pub mean_wait_s: f64,
    /// From when its first job was submitted until its last one ended, in seconds: to the end if some have not.
    pub makespan_s: f64,
    /// Unit-seconds of jobs that lost a unit and had to start again.
    pub lost_unit_s: f64,
}

/// What became of the requests that were made within the horizon, and what that took between brokers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NetworkReport {
    /// Requests.
    pub asks: u64,
    /// Those that were granted.
    pub grants: u64,
    /// Granted / asked for.
    pub granted_part: f64,
    /// Those that were refused since the units were not free.
    pub busy: u64,
    /// Those that were refused since they can never be met.
    pub never: u64,
    /// Messages between brokers, each repetition counted, without adverts.
    pub broker_messages: u64,
    /// Adverts, and messages that ask for them.
    pub adverts: u64,
    /// Unit-seconds of the requests that were refused while sites had all their units to give.
    pub stranded_unit_s: f64,
    /// Of an answered request: how often it was passed on, and answered, between brokers.
    pub messages_per_request: Spread,
    /// How long requests waited for their answers, in seconds.
    pub answer_s: Spread,
    /// Of a granted request: how often it was passed on to the broker that granted it.
    pub hops: Spread,
}

/// A mean and two ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// What half of them do not exceed.
    pub p50: f64,
    /// What 99 of 100 do not exceed.
    pub p99: f64,
}

/// What became of experiments: requests for compute at several sites with bandwidth between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExperimentReport {
    /// Granted / requested.
    pub success: f64,
    /// Mean price of all that is granted to one, for an hour.
    pub price: f64,
    /// Mean time from the first start that suits to the granted one, in seconds.
    pub delay_s: f64,
    /// Mean of the attribute `quality` over the units that were granted at sites.
    pub quality: f64,
    /// What had become of those up to each load, in its order.
    pub loads: Vec<AtLoad>,
}

/// What became of all experiments up to a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AtLoad {
    /// The load, in percent.
    pub load: u32,
    /// By user.
    pub users: BTreeMap<String, OfUser>,
    /// The part of each site's units that is granted, over the window of the starts.
    pub utilization: BTreeMap<String, f64>,
}

impl AtLoad {
    /// Granted / requested, of all users.
    pub fn success(&self) -> f64 {
        let (requests, granted) = self.users.values().fold((0, 0), |(requests, granted), user| {
            (requests + user.requests, granted + user.granted)
        });
        OfUser { requests, granted }.success()
    }
}

/// What became of the experiments of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OfUser {
    /// How many were asked for.
    pub requests: u64,
    /// How many of them were granted.
    pub granted: u64,
}

impl OfUser {
    /// Granted / requested; 1 if nothing was.
    pub fn success(self) -> f64 {
        if self.requests == 0 { 1.0 } else { self.granted as f64 / self.requests as f64 }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunVerdict {
    /// All came to rest and every request was answered.
    Complete,
    /// All came to rest, but something was never answered, or a unit was in two hands.
    Failed,
    /// Something never came to rest.
    Stalled,
    /// The run has not ended.
    #[default]
    Running,
}

impl RunVerdict {
    /// The verdict in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Stalled => "stalled",
            Self::Running => "running",
        }
    }
}

/// Need and holding of one service manager, one value a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The service manager.
    pub name: String,
    /// Units needed.
    pub demand: Vec<u32>,
    /// Units held after asking.
    pub held: Vec<i64>,
}
