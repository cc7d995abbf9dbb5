//! A summary of one actor: the state of each of its leases, who holds what, what it waits for.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::actor::Actor as _;
use tenure_core::broker::Broker;
use tenure_core::broker::machine as broker;
use tenure_core::driver::UnitId;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::Time;
use tenure_core::runtime::AnyActor;
use tenure_core::service_manager::Standing;
use tenure_core::service_manager::machine::{Change, Outcome};
use tenure_core::site_authority::machine as site_authority;
use tenure_core::site_authority::unit;
use tenure_core::ticket::link::LinkHash;

use super::fact_index::FactIndex;
use super::participants::{self, ALL, GUEST, Participant, RIVAL};

/// The global name of a lease: its guest, the number of its request, and which of the request's tickets.
pub(crate) type Key = (usize, u64, u16);

/// The state name of each lease.
pub(crate) type LeaseStates = Vec<(Key, &'static str)>;

/// The most requests a guest makes in any case.
const MOST_REQUESTS: u64 = 4;

/// What the properties ask of one actor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// When it next has something due.
    pub(crate) due: Option<Time>,
    /// Whether its mapper is asked something.
    pub(crate) has_a_round: bool,
    /// Whether nothing is going on.
    pub(crate) is_idle: bool,
    /// The messages it has sent, by receiver.
    pub(crate) sent: [Vec<u32>; ALL],
    pub(crate) words: LeaseStates,
    /// A guest: the units it uses, each with the ticket that it holds it by.
    pub(crate) uses: Vec<(UnitId, LinkHash)>,
    /// A guest: how its leases went, and the most tickets that one of them is held by.
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) tickets_held: usize,
    /// A site: the units on leases.
    taken: BTreeSet<UnitId>,
    /// A site: the units held by a lease, each with the lease's ticket.
    pub(crate) tenants: Vec<(UnitId, LinkHash)>,
    /// A site: the units that a lease has, ready or not.
    pub(crate) leased: Vec<UnitId>,
    /// A site: when its active leases end.
    pub(crate) active_until: Vec<Time>,
    /// A site: the leases that lost units by a recall without a word from their guests.
    pub(crate) unreached: BTreeSet<LinkHash>,
    /// The laws that it breaks.
    pub(crate) broken: BTreeSet<&'static str>,
}

impl Summary {
    /// Summarizes an actor and its index. `keys` has the lease of every ticket that was ever cut.
    pub(crate) fn of(
        who: usize,
        participant: &Participant,
        index: &FactIndex,
        keys: &BTreeMap<LinkHash, Key>,
    ) -> Self {
        let mut summary = Self {
            due: participant.actor().next_timeout(),
            has_a_round: participant.has_a_round(),
            is_idle: participant.actor().unfinished(1).is_empty(),
            words: words(who, participant, index, keys),
            unreached: index.unreached().clone(),
            broken: index.broken().clone(),
            ..Self::default()
        };
        match &participant.0 {
            AnyActor::ServiceManager(guest) => {
                guest.survey().for_each(|lease| summary.read_lease(lease.state))
            }
            AnyActor::Broker(_) => {}
            AnyActor::SiteAuthority(site) => {
                for (hash, end) in index.leases() {
                    let Some(state) = site.lease(hash) else { continue };
                    summary.read_site_lease(state, end);
                }
                for (id, state, _) in site.units() {
                    summary.leased.extend(state.tenant().map(|_| id));
                    if let unit::State::Ready { tenant, .. } = state {
                        summary.tenants.push((id, *tenant));
                    }
                }
            }
        }
        summary
    }

    fn read_lease(&mut self, state: Standing<'_>) {
        if let Some(held) = state.held() {
            let ticket = held.tickets[0].hash();
            let kept = |unit: &&UnitId| !matches!(&held.change, Change::Returning(back) if back.part.names(**unit));
            self.uses.extend(held.units.keys().filter(kept).map(|&unit| (unit, ticket)));
            self.tickets_held = self.tickets_held.max(held.tickets.len());
        }
        self.outcomes.extend(state.outcome());
    }

    /// S1: no unit is on two leases.
    fn read_site_lease(&mut self, state: &site_authority::State, end: Time) {
        for unit in state.units() {
            if !self.taken.insert(unit) {
                self.broken.insert("S1");
            }
        }
        if let site_authority::State::Active { .. } = state {
            self.active_until.push(end);
        }
    }
}

/// The word for every lease that an actor knows. A site knows an extension's ticket as the lease that it
/// extended.
fn words(
    who: usize,
    participant: &Participant,
    index: &FactIndex,
    keys: &BTreeMap<LinkHash, Key>,
) -> LeaseStates {
    match &participant.0 {
        AnyActor::ServiceManager(actor) => actor
            .survey()
            // What was handed on to a guest is no lease of its requests.
            .filter(|lease| actor.request(lease.id.number).is_some())
            .map(|lease| ((who, lease.id.number, lease.id.part), lease.state.word()))
            .collect(),
        AnyActor::Broker(actor) => {
            let numbers = (GUEST..=RIVAL).flat_map(|g| (1..=MOST_REQUESTS).map(move |n| (g, n)));
            numbers.flat_map(|(guest, number)| of_request(actor, guest, number)).collect()
        }
        AnyActor::SiteAuthority(actor) => keys
            .iter()
            .filter_map(|(&hash, &key)| Some((key, actor.lease(index.lease_of(hash))?.word())))
            .collect(),
    }
}

/// A request counts once for each ticket that was cut for it, and once before.
fn of_request(broker: &Broker, guest: usize, number: u64) -> LeaseStates {
    let Some(state) = broker.request(RequestId { origin: participants::id(guest), number }) else {
        return LeaseStates::new();
    };
    let parts = match state {
        broker::State::Granted { tickets, .. } | broker::State::Returned { tickets } => {
            tickets.len()
        }
        broker::State::Brought { tickets } => tickets.len(),
        broker::State::Open { .. }
        | broker::State::Passed { .. }
        | broker::State::Gathering { .. }
        | broker::State::Reserved { .. }
        | broker::State::Committing { .. }
        | broker::State::Held { .. }
        | broker::State::Proposed { .. }
        | broker::State::Taking { .. }
        | broker::State::Planned { .. }
        | broker::State::Refused { .. } => 1,
    };
    (0..u16::try_from(parts).unwrap()).map(|part| ((guest, number, part), state.word())).collect()
}
