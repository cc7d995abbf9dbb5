//! What a policy sees of all services: which units they have and lack, as their needs, the tickets and the orders say.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::standing::{self, Own};
use crate::broker::mapper::{NeedView, View};
use crate::model::name::Name;
use crate::model::resource::{Attributes, Expr};
use crate::model::slice::SliceName;
use crate::model::time::{Span, Time};
use crate::ticket::link::AccountId;
use crate::wire::need::Want;

/// How units stand with the service that has or claims them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnitState {
    /// It has them by a ticket of this broker, and they stay.
    Held,
    /// It has them by a ticket of this broker, and they are ordered for another service.
    Ordered,
    /// It has them from elsewhere.
    Elsewhere,
    /// It claims them and lacks them.
    Claimed,
}

/// Units of one service that are alike.
#[derive(Clone, Debug)]
pub struct Holding {
    /// The guest.
    pub guest: Name,
    /// The service.
    pub service: SliceName,
    /// The type.
    pub resource: Name,
    /// How they stand.
    pub state: UnitState,
    /// How many.
    pub units: u32,
    /// Since when the service has them; `None` of those that it has from elsewhere or lacks.
    pub since: Option<Time>,
    /// What they are like; empty of those that it has from elsewhere or lacks.
    pub attributes: Arc<Attributes>,
}

/// What all services have and lack at one instant. It is put together when a policy first asks.
#[derive(Debug)]
pub struct Holdings<'a> {
    now: Time,
    view: Option<&'a View>,
    all: OnceCell<Vec<Holding>>,
}

impl Holding {
    /// Whether they are of a service, named with its guest.
    pub fn is_of(&self, guest: &str, service: &str) -> bool {
        self.guest.as_str() == guest && self.service.as_str() == service
    }

    /// Whether a condition, such as `cpus >= 8`, holds of what is known of them. It does not if an attribute that it
    /// needs is unknown.
    pub fn is_like(&self, pattern: &Expr) -> bool {
        pattern.matches(&*self.attributes).unwrap_or(false)
    }

    /// For how long the service has had them.
    pub fn held_for(&self, now: Time) -> Option<Span> {
        Some(held_for(now, self.since?))
    }
}

impl<'a> Holdings<'a> {
    /// These, at an instant: to try a policy out.
    pub fn new(now: Time, all: Vec<Holding>) -> Self {
        Self { now, view: None, all: all.into() }
    }

    pub(super) fn of(view: &'a View) -> Self {
        Self { now: view.now(), view: Some(view), all: OnceCell::new() }
    }

    /// The instant.
    pub fn now(&self) -> Time {
        self.now
    }

    /// All of them, by guest and service.
    pub fn all(&self) -> &[Holding] {
        self.all.get_or_init(|| self.view.map(seen).unwrap_or_default())
    }

    /// How many units there are of those that are chosen.
    pub fn count(&self, chosen: impl Fn(&Holding) -> bool) -> u64 {
        let chosen = self.all().iter().filter(|holding| chosen(holding));
        chosen.map(|holding| u64::from(holding.units)).sum()
    }
}

/// How long ago something began: nothing if it has yet to.
pub(super) fn held_for(now: Time, since: Time) -> Span {
    now.since(since).max(Span::ZERO)
}

fn seen(view: &View) -> Vec<Holding> {
    let staying = standing::staying(view.orders());
    let sources = view.sources().into_iter();
    let attributes: BTreeMap<AccountId, _> =
        sources.map(|source| (source.account, source.attributes)).collect();
    let mut all = Vec::new();
    for need in view.needs() {
        for want in &need.need.wants {
            let own = standing::own(view, want, &staying);
            let held = own.iter().map(|own| own.units).sum::<u32>() + want.elsewhere;
            for Own { grant, units } in own {
                let attributes = attributes.get(&grant.account).cloned().unwrap_or_default();
                let with = |state, units| {
                    let (since, attributes) = (Some(grant.since), Arc::clone(&attributes));
                    Holding { state, units, since, attributes, ..none(need, want) }
                };
                all.push(with(UnitState::Held, units));
                all.push(with(UnitState::Ordered, grant.units - units));
            }
            let without = |state, units| Holding { state, units, ..none(need, want) };
            all.push(without(UnitState::Elsewhere, want.elsewhere));
            all.push(without(UnitState::Claimed, want.steps.claimed(held)));
        }
    }
    all.retain(|holding| holding.units > 0);
    all.sort_by(|a, b| (&a.guest, &a.service).cmp(&(&b.guest, &b.service)));
    all
}

/// No units of a kind.
fn none(need: &NeedView, want: &Want) -> Holding {
    Holding {
        guest: need.guest.clone(),
        service: need.id.service.clone(),
        resource: want.kind.resource.clone(),
        state: UnitState::Claimed,
        units: 0,
        since: None,
        attributes: Arc::default(),
    }
}
