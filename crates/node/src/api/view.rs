//! What users see of actors: plain values, with names in the place of ids.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use tenure_core::actor::clocks::ClockApart;
use tenure_core::actor::{Actor as _, Role};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::AnyActor;
use tenure_core::service_manager::fidelity::Fidelity;
use tenure_core::service_manager::machine::{Change, Held, Outcome, State, UnitUse};
use tenure_core::service_manager::sequence::Gate;
use tenure_core::service_manager::{LeaseSurvey, RestStanding, ServiceManager};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Assurance, Link};
use tenure_core::wire::refusal::{Outlook, Refusal};

use super::offer::{self, InTheWayView, OfferView, QueueView};
use super::peers::UnreachableActors;
use super::probe::{Found, ProbeView, lease_unit};
use super::proof::EvidenceView;
use crate::clock::ClockStep;

/// The names of actors by their ids.
pub(super) type Names = BTreeMap<ActorId, Name>;

/// How a deployment is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    /// The version of these answers.
    pub version: u32,
    /// The version of the program.
    pub program: String,
    /// The process.
    pub pid: u32,
    /// Where the deployment keeps its data.
    pub data: String,
    /// The time on its clock.
    pub now: String,
    /// How much faster than the wall's that runs.
    pub speed: u32,
    /// How the processes of units are kept together here, if a driver starts any.
    pub unit_processes: Option<String>,
    /// How far this machine's clock is behind it, in seconds: for so long it stands.
    pub clock_behind_s: f64,
    /// The last time this machine's clock was set by more than the margin, within a day.
    pub clock_step: Option<ClockStepView>,
    /// Its actors.
    pub actors: Vec<ActorView>,
    /// Where the configuration and what the deployment has differ, a sentence each.
    #[serde(default)]
    pub differences: Vec<String>,
}

/// This machine's clock was set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockStepView {
    /// When, by the clock that was set.
    pub at: String,
    /// By how many seconds; forward if there are more than none.
    pub by_s: f64,
}

impl ClockStepView {
    pub(super) fn of(step: ClockStep) -> Self {
        Self { at: time(step.at), by_s: step.by.as_secs_f64() }
    }
}

/// An actor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActorView {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: String,
    /// Its id, all 64 digits.
    pub id: String,
    /// What is wrong with it, if it is not at work.
    pub down: Option<String>,
    /// Whether its disk is full, so that it begins nothing new.
    pub disk_full: bool,
    /// How many calls and probes of its driver were given up and have not come back.
    #[serde(default)]
    pub hung_calls: usize,
    /// How many facts its journal holds.
    pub facts: u64,
    /// What it has not yet brought to an end: at most a hundred lines.
    pub open: Vec<String>,
    /// Whether there is more of that.
    #[serde(default)]
    pub more_open: bool,
    /// The peers whose clocks are apart from its own by more than the margin.
    pub clocks_apart: Vec<ClockApartView>,
}

/// How many lines of unfinished work are listed.
const MAX_OPEN: usize = 100;

/// What an actor has not yet brought to an end, and whether there is more of it than is listed.
pub(super) fn unfinished(actor: &AnyActor) -> (Vec<String>, bool) {
    let mut open = actor.unfinished(MAX_OPEN + 1);
    let more = open.len() > MAX_OPEN;
    open.truncate(MAX_OPEN);
    (open, more)
}

/// A peer's clock that is apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockApartView {
    /// The peer.
    pub peer: String,
    /// How many seconds its clock is ahead at least; behind, if they are negative.
    pub ahead_s: f64,
    /// Since when this has been known.
    pub since: String,
}

impl ClockApartView {
    pub(super) fn all(actor: &AnyActor) -> Vec<Self> {
        let view = |(peer, apart): (ActorId, ClockApart)| Self {
            peer: actor.peers().get(&peer).map_or_else(|| peer.to_string(), |p| p.name.to_string()),
            ahead_s: apart.ahead.as_secs_f64(),
            since: time(apart.since),
        };
        actor.clocks_apart().iter().map(view).collect()
    }
}

/// A lease as its service manager knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseView {
    /// Its name: service manager, number of the request, part of it.
    pub lease: String,
    /// Its slice.
    pub slice: String,
    /// The request that it has its other leases in common with, if it has others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How the attempt stands that it is a part of, if its request went to several brokers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<super::AttemptView>,
    /// The item of that request that it is for, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u16>,
    /// The items between which the link is that it is an edge of, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<[u16; 2]>,
    /// Where it is in its life: asking, offered, accepting, planned, given-up, ticketed, given-back,
    /// redeeming, joining, active, leaving, closing, crediting, closed.
    pub state: String,
    /// The type of its units.
    pub resource: String,
    /// How many it has or wants.
    pub units: u32,
    /// How few will do.
    pub min_units: u32,
    /// From when.
    pub start: String,
    /// Until when.
    pub end: String,
    /// Seconds until its end, from now; negative after it.
    pub left_s: f64,
    /// The site, once there is a ticket.
    pub site: Option<String>,
    /// Since when the site cannot be reached, if it cannot and the lease is not over. It says nothing about the
    /// units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_unreachable: Option<super::UnreachableView>,
    /// How far an extension is, if one is under way: asking, redeeming.
    pub extension: Option<String>,
    /// How far another change is, if one is under way: leaving, returning (a part goes back), modifying.
    pub returning: Option<String>,
    /// What its site's driver was told.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub configuration: BTreeMap<String, String>,
    /// Since when nothing was heard from its site, if it is given back for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unheard_since: Option<String>,
    /// Whether its site has yet to confirm, since this deployment's start, that it keeps the lease, which depends on
    /// heartbeats.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
    /// How it went, if it has ended: ended, given-back, refused, withdrawn, lapsed, failed (its setup, at the site, or
    /// its heartbeats), unanswered.
    pub outcome: Option<String>,
    /// Who refused and why, if the lease was refused.
    pub refusal: Option<RefusalView>,
    /// Its place in its broker's queue, while it waits there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueView>,
    /// What could be had, or could be had instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<OfferView>,
    /// Until when the offers are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<String>,
    /// Why it cannot be had as it was asked for, of a plan or a hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmet: Option<RefusalView>,
    /// The bookings that are in the way, the biggest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_the_way: Vec<InTheWayView>,
    /// The units held.
    pub in_hand: Vec<LeaseUnitView>,
    /// The hashes of its tickets: its own, then those of its extensions.
    pub tickets: Vec<String>,
    /// What the next recall leaves it, and when, if it is recalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recalled: Option<super::RecalledView>,
    /// Which unit the software of its service has refused to leave since it was last to go back, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
    /// What has to be in use before it goes on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<WaitView>,
    /// Until when its mapper is asked before it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapper_asked_until: Option<String>,
    /// What it costs, if its tickets have a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// What stands behind its units, in its site's words, if that is not a machine for each: `overbooked` or
    /// `best-effort`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assurance: Option<String>,
    /// How much of what it is paid for its guest could use so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fidelity: Option<FidelityView>,
}

/// How much of what a lease is paid for its guest could use so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FidelityView {
    /// The usable part, from 0 to 1; none before anything is paid for.
    pub fraction: Option<f64>,
    /// Seconds times units that are paid for and over.
    pub paid_s: f64,
    /// Seconds times units that were in use.
    pub usable_s: f64,
    /// How many seconds after the first term began something was in use.
    pub late_s: Option<f64>,
    /// How many seconds before the end of the last term nothing was in use any more.
    pub early_s: Option<f64>,
    /// Whether all that was paid for is over, and nothing was ever in use.
    pub expired: bool,
}

impl FidelityView {
    #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
    fn of(fidelity: &Fidelity) -> Self {
        let seconds = |micros: u128| micros as f64 / 1e6;
        Self {
            fraction: fidelity.millionths().map(|part| f64::from(part) / 1e6),
            paid_s: seconds(fidelity.paid),
            usable_s: seconds(fidelity.usable),
            late_s: fidelity.late.map(Span::as_secs_f64),
            early_s: fidelity.early.map(Span::as_secs_f64),
            expired: fidelity.expired,
        }
    }
}

/// A unit in a guest's hands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseUnitView {
    /// Its name: site and number.
    pub unit: String,
    /// The fencing number of this tenancy.
    pub epoch: u64,
    /// What the guest does with it: joining, joined, unusable, leaving, left.
    #[serde(rename = "use")]
    pub usage: String,
    /// Its state as a unit of a service: assigning, assigned, unassigning, error.
    #[serde(default)]
    pub state: String,
    /// How much of a divisible stock it is; 1 for a machine.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub quantity: u32,
    /// What the site's driver says about it.
    pub properties: BTreeMap<String, String>,
    /// How it was when it was probed last, if it has been; it is up if it is for site and guest.
    pub probe: Option<ProbeView>,
}

pub(super) fn one() -> u32 {
    1
}

pub(super) fn is_one(quantity: &u32) -> bool {
    *quantity == 1
}

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalView {
    /// A stable word.
    pub code: String,
    /// The site that said it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// In a sentence.
    pub message: String,
    /// Whether it can ever be had: never, later, denied.
    pub outlook: String,
    /// The proof, where someone sold more than it held; in answers about one lease only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceView>,
}

/// A slice of a service manager.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SliceView {
    /// The service manager.
    pub manager: String,
    /// Its name.
    pub slice: String,
    /// The leases in it that are not over.
    pub leases: u32,
    /// Those of them that are active.
    pub active: u32,
    /// The units held.
    pub units: u32,
    /// How much of what its leases are paid for their guest could use so far, of all that are remembered.
    #[serde(default)]
    pub fidelity: SumView,
}

/// How much of what leases are paid for their guest could use so far, in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SumView {
    /// The usable part, from 0 to 1; none before anything is paid for.
    pub fraction: Option<f64>,
    /// Seconds times units that are paid for and over.
    pub paid_s: f64,
    /// Seconds times units that were in use.
    pub usable_s: f64,
    /// How many seconds after the first terms began something was in use.
    pub late_s: f64,
    /// How many seconds before the ends of the last terms nothing was in use any more.
    pub early_s: f64,
    /// How many leases are over that were never in use.
    pub expired: u32,
}

impl SumView {
    fn add(&mut self, lease: &FidelityView) {
        self.paid_s += lease.paid_s;
        self.usable_s += lease.usable_s;
        self.late_s += lease.late_s.unwrap_or(0.0);
        self.early_s += lease.early_s.unwrap_or(0.0);
        self.expired += u32::from(lease.expired);
        self.fraction = (self.paid_s > 0.0).then(|| (self.usable_s / self.paid_s).min(1.0));
    }
}

/// What a lease waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitView {
    /// What it does only then: redeem, join.
    pub gate: String,
    /// The request whose leases have to be in use.
    pub on: String,
    /// The item of that request, if not all of its leases count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u16>,
}

impl WaitView {
    /// `guest/3`, or `item 0 of guest/3`.
    pub fn in_words(&self) -> String {
        self.item.map_or_else(|| self.on.clone(), |item| format!("item {item} of {}", self.on))
    }
}

fn waits_for(manager: &Name, lease: &LeaseSurvey<'_>) -> Vec<WaitView> {
    let over = matches!(lease.state.lease(), None | Some(State::Closed { .. }));
    let waits = lease.sequence.filter(|_| !over).into_iter().flat_map(|sequence| sequence.waits());
    let view = |(gate, number, item): (Gate, u64, Option<u16>)| WaitView {
        gate: gate.word().to_owned(),
        on: format!("{manager}/{number}"),
        item,
    };
    waits.map(view).collect()
}

/// RFC 3339 in UTC, to the millisecond.
pub(crate) fn time(time: Time) -> String {
    DateTime::from_timestamp_micros(time.as_micros())
        .map_or_else(|| time.to_string(), |at| at.to_rfc3339_opts(SecondsFormat::Millis, true))
}

/// A word of a machine's as users see it: `SettingUp` is `setting-up`.
pub(super) fn plain(word: &str) -> String {
    let word = word.split(['+', '(']).next().unwrap_or_default();
    let mut plain = String::new();
    for (nth, letter) in word.chars().enumerate() {
        if letter.is_ascii_uppercase() && nth > 0 {
            plain.push('-');
        }
        plain.push(letter.to_ascii_lowercase());
    }
    plain
}

pub(super) fn name(names: &Names, id: ActorId) -> String {
    names.get(&id).map_or_else(|| id.to_string(), ToString::to_string)
}

pub(super) fn properties(properties: &Properties) -> BTreeMap<String, String> {
    properties.iter().map(|(key, value)| (key.to_string(), value.to_owned())).collect()
}

impl RefusalView {
    /// Who refused, where that is known, and why.
    pub fn in_words(&self) -> String {
        let by = self.by.as_ref().map_or_else(String::new, |by| format!("{by}: "));
        format!("{by}{}", self.message)
    }

    pub(super) fn of(refusal: &Refusal) -> Self {
        Self {
            code: refusal.word().to_owned(),
            by: None,
            message: refusal.to_string(),
            outlook: match refusal.outlook() {
                Outlook::Never => "never",
                Outlook::Later => "later",
                Outlook::Denied => "denied",
            }
            .to_owned(),
            evidence: if let Refusal::Conflict(evidence) = refusal {
                Some(EvidenceView::of(evidence))
            } else {
                None
            },
        }
    }
}

/// The name of a lease.
pub(super) fn lease_name(manager: &str, id: LeaseId) -> String {
    format!("{manager}/{id}")
}

/// How far an extension is, if one is under way.
fn extension(held: &Held) -> Option<String> {
    match held.change {
        Change::None | Change::Leaving(_) | Change::Returning(_) | Change::Modifying { .. } => None,
        Change::Requested { .. } => Some("asking".to_owned()),
        Change::Redeeming { .. } => Some("redeeming".to_owned()),
    }
}

/// How far another change is, if one is under way.
fn returning(held: &Held) -> Option<String> {
    match held.change {
        Change::None | Change::Requested { .. } | Change::Redeeming { .. } => None,
        Change::Modifying { .. } => Some("modifying".to_owned()),
        Change::Leaving(_) => Some("leaving".to_owned()),
        Change::Returning(_) => Some("returning".to_owned()),
    }
}

/// A lease at the time `now`.
pub(super) fn lease(
    (manager, me): (&Name, ActorId),
    names: &Names,
    lease: &LeaseSurvey<'_>,
    (found, unreachable): (&Found, &UnreachableActors),
    now: Time,
) -> LeaseView {
    let held = lease.state.held();
    let site = lease.state.ticket().map(Ticket::site).or(lease.closed_by.map(|(site, _)| *site));
    let site_name = site.map(|site| name(names, site));
    let of = site.zip(site_name.as_deref());
    let units = held.zip(lease.state.lease()).into_iter();
    let units = units.flat_map(|(held, lease)| held.units.values().map(move |unit| (lease, unit)));
    let units = units.map(|(lease, unit)| lease_unit((me, of, lease), unit, found));
    let extension = held.and_then(extension);
    let returning = held.and_then(returning);
    let rest = (lease.rest == Some(RestStanding::UnderWay)).then(|| "returning".to_owned());
    let given = lease.rest == Some(RestStanding::Given);
    let outcome = lease.state.outcome();
    let refused = if let Some(Outcome::Refused(refusal)) = &outcome { Some(refusal) } else { None };
    LeaseView {
        lease: lease_name(manager.as_str(), lease.id),
        slice: lease.slice.to_string(),
        attempt: None,
        group: lease.group.map(|number| format!("{manager}/{number}")),
        item: lease.item,
        joins: lease.joins,
        state: if given { "given-back".to_owned() } else { plain(lease.state.word()) },
        resource: lease.resource.to_string(),
        units: lease.units,
        min_units: lease.min_units,
        start: time(lease.term.start()),
        end: time(lease.term.end()),
        left_s: lease.term.end().since(now).as_secs_f64(),
        site: site_name.clone(),
        site_unreachable: site
            .filter(|_| outcome.is_none())
            .and_then(|site| unreachable.get(&site).cloned()),
        extension,
        returning: returning.or(rest),
        configuration: lease
            .configuration
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_owned()))
            .collect(),
        recalled: lease.recalled.map(|told| super::RecalledView::of(told, lease.state, names)),
        stays: lease.stays.map(str::to_owned),
        waits_for: waits_for(manager, lease),
        cost: lease.cost.map(|cost| cost.to_string()),
        assurance: weak(lease.assurance),
        mapper_asked_until: lease
            .sequence
            .and_then(|sequence| sequence.consulted())
            .map(|(_, until)| time(until)),
        fidelity: lease.fidelity(now).map(|fidelity| FidelityView::of(&fidelity)),
        unheard_since: lease.unheard.map(time),
        unconfirmed: lease.unconfirmed,
        outcome: outcome.as_ref().map(|outcome| outcome_word(outcome, lease).to_owned()),
        refusal: match (&outcome, lease.closed_by) {
            (Some(Outcome::Refused(refusal)), _) => Some(RefusalView::of(refusal)),
            (_, Some((_, refusal))) => {
                Some(RefusalView { by: site_name.clone(), ..RefusalView::of(refusal) })
            }
            (_, None) => None,
        },
        queue: offer::queue(lease),
        offers: offer::offers(names, lease),
        held_until: offer::held_until(lease),
        unmet: offer::unmet(lease).map(RefusalView::of),
        in_the_way: offer::in_the_way(names, refused.or(offer::unmet(lease))),
        in_hand: units.collect(),
        tickets: lease.tickets.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn use_word(usage: UnitUse) -> &'static str {
    match usage {
        UnitUse::Joining => "joining",
        UnitUse::Joined => "joined",
        UnitUse::Unusable => "unusable",
        UnitUse::Leaving => "leaving",
        UnitUse::Left => "left",
        UnitUse::Refused => "refused",
    }
}

/// How a lease went. One that its site closed comes back like any other, but no one gave it back.
fn outcome_word(outcome: &Outcome, lease: &LeaseSurvey<'_>) -> &'static str {
    match outcome {
        Outcome::GivenBack if lease.closed_by.is_some() || lease.unheard.is_some() => "failed",
        Outcome::Ended => "ended",
        Outcome::GivenBack => "given-back",
        Outcome::Refused(Refusal::Withdrawn) => "withdrawn",
        Outcome::Refused(Refusal::Lapsed(_)) => "lapsed",
        Outcome::Refused(_) => "refused",
        Outcome::Unanswered => "unanswered",
    }
}

pub(super) fn slices(manager: &Name, actor: &ServiceManager, now: Time) -> Vec<SliceView> {
    let mut slices: BTreeMap<&Name, SliceView> = BTreeMap::new();
    for lease in actor.survey() {
        let empty = || SliceView {
            manager: manager.to_string(),
            slice: lease.slice.to_string(),
            leases: 0,
            active: 0,
            units: 0,
            fidelity: SumView::default(),
        };
        let slice = slices.entry(lease.slice).or_insert_with(empty);
        slice.leases += u32::from(!lease.state.is_over());
        slice.active += u32::from(matches!(lease.state.lease(), Some(State::Active { .. })));
        let units = lease.state.held().map_or(0, |held| held.units.len());
        slice.units += u32::try_from(units).unwrap_or(u32::MAX);
        if let Some(fidelity) = lease.fidelity(now) {
            slice.fidelity.add(&FidelityView::of(&fidelity));
        }
    }
    slices.into_values().collect()
}

/// What an actor is for, in a word.
pub(super) fn role(role: Role) -> String {
    role.to_string().replace(' ', "-")
}

/// The unit that a link names and the stacks whose tokens go with it, if it is for a unit in stacks.
pub(super) fn stacked(link: &Link) -> (Option<String>, Vec<String>) {
    let Some(stacked) = &link.clauses.stacked else { return (None, Vec::new()) };
    (Some(stacked.unit.to_string()), stacked.tokens.iter().map(ToString::to_string).collect())
}

/// An assurance that is weaker than usual.
pub(super) fn weak(assurance: Assurance) -> Option<String> {
    (assurance != Assurance::Firm).then(|| assurance.word().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_times_are_plain() {
        assert_eq!(plain("SettingUp"), "setting-up");
        assert_eq!(plain("TearingDown+next"), "tearing-down");
        assert_eq!(plain("Leaving(end)"), "leaving");
        assert_eq!(time(Time::from_micros(1_795_000_000_123_456)), "2026-11-18T11:06:40.123Z");
    }
}
