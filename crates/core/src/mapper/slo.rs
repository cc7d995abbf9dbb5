//! `slo`: has services reach what they are to reach.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::actor::fact::Memo;
use crate::model::codec;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Time};
use crate::service::definition::Mode;
use crate::service::state::State;
use crate::service::steps::Kind;
use crate::service_manager::Victims;
use crate::service_manager::group::Handling;
use crate::service_manager::mapper::{
    Ask, Decision, Extend, Flex, LeaseView, ServiceManagerMapper, Stage, View,
};
use crate::service_manager::revise::MAX_REVISIONS;
use crate::service_manager::services::{Demand, ServiceView};
use crate::wire::need::SERVICE;
use crate::wire::offer::Reply;
use crate::wire::proviso::Provisos;
use crate::wire::recall::Accepts;
use crate::wire::request::{Item, MAX_UNITS};

/// Asks for what services claim, keeps what they want, and gives back what nothing has wanted for a while.
///
/// Of a service that is not seen to run nothing is given back, and nothing is asked for. Its memo is since when
/// units have been wanted by nothing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Slo {
    /// Whom to ask; the only broker known if none is named.
    broker: Option<Name>,
    /// How long before the end of a lease to keep it for longer; half of a term at most. More than requests wait:
    /// a broker that books ahead could give to another what is to be kept.
    extend_before: Span,
    /// How long after a request that was not granted to ask again.
    ask_every: Span,
    /// How long a request may wait at its broker.
    wait_for: Span,
    /// For the site's driver.
    #[serde(deserialize_with = "super::configuration")]
    configuration: Properties,
}

impl Default for Slo {
    fn default() -> Self {
        Self {
            broker: None,
            extend_before: Span::MINUTE.times(15),
            ask_every: Span::MINUTE,
            wait_for: Span::MINUTE.times(10),
            configuration: Properties::default(),
        }
    }
}

/// How many requests for units of a kind a service makes in `ask-every`. What is granted can be refused by its site, again
/// and again.
const ASKS: usize = 3;

/// What is remembered from round to round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Remembered {
    /// Since when a service has had units of a kind that nothing wants.
    idle: BTreeMap<(SliceName, Kind), Time>,
    /// When the last requests for units of a kind were made.
    asked: BTreeMap<(SliceName, Kind), VecDeque<Time>>,
}

/// A round of the mapper.
struct Round<'a> {
    slo: &'a Slo,
    view: &'a View,
    before: Remembered,
    after: Remembered,
    decision: Decision,
}

impl ServiceManagerMapper for Slo {
    fn decide(&self, view: &View) -> Decision {
        let before: Remembered = codec::decode(&view.memo().0).unwrap_or_default();
        let decision = Decision { round: view.round(), ..Decision::default() };
        let mut round = Round { slo: self, view, before, after: Remembered::default(), decision };
        for service in view.services().iter().filter(|s| s.behaviour.mode != Mode::Unmanaged) {
            for demand in &service.demands {
                round.tend(service, demand);
            }
        }
        let Round { before, after, mut decision, .. } = round;
        decision.memo = (after != before).then(|| Memo(codec::encode(&after)));
        decision
    }
}

impl<'a> Round<'a> {
    fn tend(&mut self, service: &ServiceView, demand: &Demand) {
        let behaviour = &service.behaviour;
        let most = behaviour.most.unwrap_or(u32::MAX);
        let wanted = demand.steps.units().min(most);
        let kept = wanted.max(behaviour.least.min(demand.held));
        let runs = service.state == State::Running;
        self.remember_asks(service, demand);
        if runs {
            self.ask(service, demand, most);
            self.give_back(service, demand, kept);
        } else if let Some(&since) = self.before.idle.get(&key(service, demand)) {
            self.after.idle.insert(key(service, demand), since);
        }
        self.extend(service, demand, if runs { kept } else { demand.held });
    }

    /// Asks for what is claimed and is not there. What is asked for already is revised if that is not the same.
    fn ask(&mut self, service: &ServiceView, demand: &Demand, most: u32) {
        let claimed = demand.steps.claimed(demand.held);
        let missing = claimed.min(most.saturating_sub(demand.held)).min(MAX_UNITS);
        let Some(units) = NonZeroU32::new(missing) else { return };
        // Whatever comes of a request, it is looked at again.
        self.wake(self.view.now().plus(self.slo.ask_every));
        if demand.asked == missing {
            return;
        }
        let Some(broker) = self.broker() else { return };
        let ask = self.question(service, demand, broker, units);
        match demand.request {
            Some(open) if open.revisions < MAX_REVISIONS => {
                self.decision.revisions.push((open.number, ask));
            }
            Some(_) => {}
            None if self.may_ask(service, demand) => self.decision.asks.push(ask),
            None => {}
        }
    }

    fn remember_asks(&mut self, service: &ServiceView, demand: &Demand) {
        let key = key(service, demand);
        let Some(mut asked) = self.before.asked.get(&key).cloned() else { return };
        let recently = self.view.now().minus(self.slo.ask_every);
        asked.retain(|at| recently < *at);
        if !asked.is_empty() {
            self.after.asked.insert(key, asked);
        }
    }

    /// Whether another request can be made now; if so, it counts. What is only advised is not asked.
    fn may_ask(&mut self, service: &ServiceView, demand: &Demand) -> bool {
        if service.behaviour.mode == Mode::Advise {
            return true;
        }
        let asked = self.after.asked.entry(key(service, demand)).or_default();
        let may = asked.len() < ASKS;
        if may {
            asked.push_back(self.view.now());
        }
        may
    }

    /// Whom to ask: `None` if a broker is named and not known, since it is not replaced by another one.
    fn broker(&self) -> Option<Option<ActorId>> {
        match &self.slo.broker {
            Some(name) => {
                let known = self.view.brokers().find(|(known, _)| *known == name);
                known.map(|(_, id)| Some(id))
            }
            None => Some(None),
        }
    }

    fn question(
        &self,
        service: &ServiceView,
        demand: &Demand,
        broker: Option<ActorId>,
        units: NonZeroU32,
    ) -> Ask {
        let behaviour = &service.behaviour;
        let clauses =
            Accepts { notice: Some(behaviour.notice), min_tenure: Some(behaviour.min_tenure) };
        let item = Item {
            min_units: NonZeroU32::MIN,
            requirements: demand.kind.requirements(),
            accepts: if behaviour.recallable { clauses } else { Accepts::default() },
            ..Item::new(demand.kind.resource.clone(), units)
        };
        let now = self.view.now();
        let until = now.plus(self.slo.wait_for);
        let blacklisted = service.blacklisted.iter().filter(|(_, until)| now < **until);
        let blacklisted = blacklisted.map(|(unit, _)| *unit);
        let urgency = demand.steps.claim(demand.held + 1).unwrap_or(0);
        Ask {
            broker,
            slice: service.service.clone(),
            items: vec![item],
            earliest: now,
            latest: until,
            duration: behaviour.term,
            min_duration: behaviour.term,
            provisos: Provisos { not_on: blacklisted.collect(), ..Provisos::NONE },
            again: None,
            reply: Reply::Grant,
            answer_by: until,
            properties: for_service(&service.service),
            configuration: self.slo.configuration.clone(),
            reason: format!("{units} more claimed at {urgency}, {} held", demand.held),
            handling: Handling::default(),
        }
    }

    /// Gives back what nothing has wanted for a while, of the leases that end last first.
    fn give_back(&mut self, service: &ServiceView, demand: &Demand, kept: u32) {
        let now = self.view.now();
        // What has no lease stays.
        let mut surplus = demand.held.saturating_sub(kept.max(demand.fixed));
        if surplus == 0 {
            return;
        }
        let key = key(service, demand);
        let since = self.before.idle.get(&key).copied().unwrap_or(now);
        let due = since.plus(service.behaviour.idle_after);
        if now < due {
            self.after.idle.insert(key, since);
            return self.wake(due);
        }
        let reason = format!("{kept} wanted, {} held since {since}", demand.held);
        // Of a lease whose units are not all there, no part can be given back.
        let can_go = |lease: &&LeaseView| {
            lease.changeable() && (lease.stage == Stage::Active || lease.units <= surplus)
        };
        let changeable: Vec<_> = self.leases(demand).into_iter().filter(can_go).collect();
        for (lease, units) in self.idle_first(demand, &changeable, surplus) {
            let Some(shrink) = NonZeroU32::new(units) else { continue };
            if lease.units == units {
                self.decision.closes.push(lease.id);
            } else if lease.stage == Stage::Active {
                let (lease, reason, victims) = (lease.id, reason.clone(), Victims::LeastUsed);
                self.decision.flexes.push(Flex { lease, shrink, victims, reason });
            } else {
                continue;
            }
            surplus -= units;
        }
        // What could not be given back now, since it changes already, is looked at again, and so is what is only
        // advised.
        if surplus > 0 || service.behaviour.mode == Mode::Advise {
            self.after.idle.insert(key, since);
            self.wake(now.plus(self.slo.ask_every));
        }
    }

    /// How many units to take of each lease, so many in all: those that are idle first, of the leases that come first,
    /// then those of which least would be lost.
    fn idle_first(
        &self,
        demand: &Demand,
        leases: &[&'a LeaseView],
        count: u32,
    ) -> Vec<(&'a LeaseView, u32)> {
        let busy = |lease: &LeaseView| demand.busy.get(&lease.id).map_or(&[][..], Vec::as_slice);
        let mut left = count;
        let mut of_each = Vec::new();
        for &lease in leases {
            let busy = u32::try_from(busy(lease).len()).unwrap_or(u32::MAX);
            let taken = lease.units.saturating_sub(busy).min(left);
            left -= taken;
            of_each.push((lease, taken));
        }
        let places = leases.iter().enumerate();
        let mut work: Vec<(u64, usize)> = places
            .flat_map(|(at, lease)| {
                let all = busy(lease).iter().take(lease.units as usize);
                all.map(move |work| (*work, at))
            })
            .collect();
        work.sort_unstable();
        for (_, at) in work.into_iter().take(left as usize) {
            of_each[at].1 += 1;
        }
        of_each
    }

    /// Keeps the units that are wanted beyond the ends of their leases: those that are at work first, then of those
    /// that end last.
    fn extend(&mut self, service: &ServiceView, demand: &Demand, kept: u32) {
        let half = Span::from_micros(service.behaviour.term.as_micros() / 2);
        let ahead = self.slo.extend_before.min(half);
        let now = self.view.now();
        for (lease, units) in self.kept_of_each(demand, kept) {
            let at = lease.term.end().minus(ahead);
            if now < at {
                self.wake(at);
                continue;
            }
            if self.decision.closes.contains(&lease.id) || self.is_flexed(lease.id) {
                continue;
            }
            let Some(goes_on) = NonZeroU32::new(units) else { continue };
            self.wake(now.plus(self.slo.ask_every));
            if !lease.changeable() {
                continue;
            }
            let reason = format!("{kept} wanted, {} held", demand.held);
            let some = (units < lease.units).then_some(goes_on);
            let extend = Extend {
                units: some,
                victims: Victims::LeastUsed,
                ..Extend::whole(lease.id, service.behaviour.term, reason)
            };
            self.decision.extensions.push(extend);
        }
    }

    /// How many units of each lease are kept, so many in all.
    fn kept_of_each(&self, demand: &Demand, kept: u32) -> Vec<(&'a LeaseView, u32)> {
        let staying = |lease: &LeaseView| lease.units.saturating_sub(lease.returning);
        let leases = self.leases(demand);
        let all: u32 = leases.iter().map(|lease| staying(lease)).sum();
        // Those that end first go first.
        let back: Vec<_> = leases.into_iter().rev().collect();
        let kept = kept.saturating_sub(demand.fixed);
        let gone = self.idle_first(demand, &back, all.saturating_sub(kept));
        gone.into_iter()
            .rev()
            .map(|(lease, gone)| (lease, staying(lease).saturating_sub(gone)))
            .collect()
    }

    fn is_flexed(&self, lease: LeaseId) -> bool {
        self.decision.flexes.iter().any(|flex| flex.lease == lease)
    }

    /// The leases of a demand, the last to end first.
    fn leases(&self, demand: &Demand) -> Vec<&'a LeaseView> {
        let view = self.view;
        let mut leases: Vec<_> = demand.leases.iter().filter_map(|id| view.lease(*id)).collect();
        leases.sort_by_key(|lease| (std::cmp::Reverse(lease.term.end()), lease.id));
        leases
    }

    fn wake(&mut self, at: Time) {
        self.decision.wake = Some(self.decision.wake.map_or(at, |other| other.min(at)));
    }
}

/// What tells the broker for which service units are asked.
fn for_service(service: &SliceName) -> Properties {
    let properties = BTreeMap::from([(Name::literal(SERVICE), service.to_string())]);
    // A name is short enough for a property.
    Properties::try_from(properties).unwrap_or_default()
}

fn key(service: &ServiceView, demand: &Demand) -> (SliceName, Kind) {
    (service.service.clone(), demand.kind.clone())
}
