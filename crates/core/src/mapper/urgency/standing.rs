//! How services stand: what they want and have of a kind of units, and what that is worth.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::holdings::{Holdings, held_for};
use super::policy::{Policy, Reserve, Unit};
use crate::broker::mapper::{Grant, KnownNeed, NeedView, OpenOrder, OrderState, ServiceId, View};
use crate::model::name::Name;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Time};
use crate::mutants::mutant;
use crate::service::steps::{Kind, Steps};
use crate::ticket::link::LinkHash;
use crate::wire::need::{SERVICE, Want};
use crate::wire::request::Request;

/// How all services stand.
pub(super) struct Standings<'a> {
    all: Vec<Standing<'a>>,
    policy: &'a dyn Policy,
    /// By service and kind.
    places: BTreeMap<(&'a ServiceId, &'a Kind), usize>,
    holdings: Rc<Holdings<'a>>,
    wake: Option<Time>,
}

/// How a service stands with a kind of units.
pub(super) struct Standing<'a> {
    pub(super) id: &'a ServiceId,
    guest: &'a Name,
    pub(super) want: &'a Want,
    /// Its units of this broker that can be compared, by ticket.
    pub(super) own: Vec<Own<'a>>,
    /// All units that it has, without those that are ordered of it.
    pub(super) held: u32,
    /// How many units are ordered for it.
    pub(super) ordered: u32,
    policy: &'a dyn Policy,
    holdings: Rc<Holdings<'a>>,
    total: u64,
    share: u64,
    /// What it wanted of late, and whether that is known for as long as it has to be.
    recent: Vec<Steps>,
    stable: bool,
    need: &'a KnownNeed,
    stable_for: Span,
}

/// The units of a ticket that stay as things are.
pub(super) struct Own<'a> {
    pub(super) grant: &'a Grant,
    pub(super) units: u32,
}

impl<'a> Standings<'a> {
    pub(super) fn of(view: &'a View, policy: &'a dyn Policy, stable_for: Span) -> Self {
        let (staying, ordered) = (staying(view.orders()), ordered(view.orders()));
        let mut totals: BTreeMap<&Name, u64> = BTreeMap::new();
        let since = view.now().minus(stable_for);
        let holdings = Rc::new(Holdings::of(view));
        let mut all = Vec::new();
        for NeedView { id, guest, need } in view.needs() {
            let first = all.len();
            for want in &need.wants {
                let own = own(view, want, &staying);
                let held = own.iter().map(|own| own.units).sum::<u32>() + want.elsewhere;
                let (recent, stable) = recent(need, &want.kind, since);
                let resource = &want.kind.resource;
                let total = *totals.entry(resource).or_insert_with(|| view.units_of(resource));
                let ordered = ordered.get(&(id, &want.kind)).copied().unwrap_or(0);
                all.push(Standing {
                    id,
                    guest,
                    want,
                    own,
                    held,
                    ordered,
                    policy,
                    holdings: Rc::clone(&holdings),
                    total,
                    share: 0,
                    recent,
                    stable,
                    need,
                    stable_for,
                });
            }
            set_shares(&mut all[first..]);
        }
        let places = all.iter().enumerate().map(|(at, s)| ((s.id, &s.want.kind), at)).collect();
        Self { places, policy, holdings, wake: wake(view, stable_for), all }
    }

    /// When a need will have been as it is for long enough.
    pub(super) fn wake(&self) -> Option<Time> {
        self.wake
    }

    pub(super) fn policy(&self) -> &dyn Policy {
        self.policy
    }

    pub(super) fn holdings(&self) -> &Holdings<'a> {
        &self.holdings
    }

    pub(super) fn all(&self) -> &[Standing<'a>] {
        &self.all
    }

    pub(super) fn get(&self, at: usize) -> &Standing<'a> {
        &self.all[at]
    }

    pub(super) fn place(&self, id: &ServiceId, kind: &Kind) -> Option<usize> {
        self.places.get(&(id, kind)).copied()
    }

    /// The service that a request is for: that which it names, if it is for one kind of units.
    pub(super) fn asker(&self, request: &Request) -> Option<usize> {
        let (id, kind) = (service_of(request)?, kind_of(request)?);
        self.places.get(&(&id, &kind)).copied()
    }

    /// More units are granted to a service.
    pub(super) fn granted(&mut self, at: usize, units: u32) {
        self.all[at].held += units;
    }
}

impl Standing<'_> {
    /// What it is called.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.guest, self.id.service)
    }

    /// How urgent a unit that it has is to it: the most that it was of late.
    pub(super) fn urgency(&self, number: u32) -> u32 {
        self.recent.iter().map(|steps| steps.urgency(number)).max().unwrap_or(0)
    }

    /// What a unit of that urgency is worth to it that it has by a ticket.
    pub(super) fn in_use(&self, (number, urgency): (u32, u32), own: &Own<'_>) -> u64 {
        let held_for = held_for(self.holdings.now(), own.grant.since);
        self.worth(number, urgency, Some(held_for))
    }

    /// What a unit that it claims is worth to it now.
    pub(super) fn claim(&self, number: u32) -> Option<u64> {
        Some(self.worth(number, self.want.steps.claim(number)?, None))
    }

    /// The same by the least that it was of late; none if it was not claimed all the time.
    pub(super) fn lasting_claim(&self, number: u32) -> Option<u64> {
        let claims: Option<Vec<u32>> =
            self.recent.iter().map(|steps| steps.claim(number)).collect();
        let least = claims.filter(|_| self.stable)?.into_iter().min()?;
        Some(self.worth(number, least, None))
    }

    /// When it will have claimed a unit for long enough, if nothing changes.
    pub(super) fn lasts_from(&self, number: u32) -> Time {
        let is_claimed = |steps: &Steps| steps.claim(number).is_some();
        let earlier = self.need.before.iter().rev();
        let without = earlier.filter(|earlier| {
            let of_kind = earlier.wants.iter().find(|(kind, _)| *kind == self.want.kind);
            !of_kind.is_some_and(|(_, steps)| is_claimed(steps))
        });
        let since = without.map(|earlier| earlier.until).next().unwrap_or(self.need.known_since);
        since.plus(self.stable_for)
    }

    /// How many units it claims beside those that it has.
    pub(super) fn claimed(&self) -> u32 {
        self.want.steps.claimed(self.held)
    }

    /// The free units that are kept for it.
    pub(super) fn reserved(&self) -> Option<Reserve> {
        self.policy.reserved(&self.unit(1, 0, None))
    }

    fn worth(&self, number: u32, urgency: u32, held_for: Option<Span>) -> u64 {
        self.policy.worth(&self.unit(number, urgency, held_for))
    }

    fn unit(&self, number: u32, urgency: u32, held_for: Option<Span>) -> Unit<'_> {
        Unit {
            guest: self.guest,
            service: &self.id.service,
            resource: &self.want.kind.resource,
            number,
            urgency,
            total: self.total,
            share: self.share,
            held_for,
            holdings: &self.holdings,
        }
    }
}

/// Each service's largest part of any other type.
fn set_shares(of_one: &mut [Standing<'_>]) {
    if of_one.len() < 2 {
        return;
    }
    let part = |s: &Standing<'_>| u64::from(s.held) * 1_000_000 / s.total.max(1);
    let parts: Vec<(Name, u64)> =
        of_one.iter().map(|s| (s.want.kind.resource.clone(), part(s))).collect();
    for standing in of_one {
        let others = parts.iter().filter(|(of, _)| *of != standing.want.kind.resource);
        standing.share = others.map(|(_, part)| *part).max().unwrap_or(0);
    }
}

/// How many units of tickets stay once all orders are carried out, of those with orders.
pub(super) fn staying(orders: &[(u64, OpenOrder)]) -> BTreeMap<LinkHash, u32> {
    let mut staying = BTreeMap::new();
    for (_, open) in orders {
        let stay = staying.entry(open.order.ticket).or_insert(open.stay);
        *stay = open.stay.min(*stay);
    }
    staying
}

/// The units that a service has by tickets that are not over. What goes on from another ticket counts with that.
pub(super) fn own<'a>(
    view: &'a View,
    want: &Want,
    staying: &BTreeMap<LinkHash, u32>,
) -> Vec<Own<'a>> {
    let now = view.now();
    let named = want.tickets.iter().filter_map(|ticket| view.grant(*ticket));
    let out = |grant: &&Grant| !grant.returned && now < grant.term.end();
    let grants: Vec<&Grant> = named.filter(out).collect();
    let goes_on = |grant: &Grant| {
        let before = |other: &Grant| {
            other.term.end() == grant.term.start() && other.account == grant.account
        };
        now < grant.term.start() && grants.iter().any(|other| before(other))
    };
    let mut own: Vec<Own<'a>> = Vec::new();
    for grant in grants.iter().copied().filter(|grant| !goes_on(grant)) {
        let stay = staying.get(&grant.ticket).filter(|_| !mutant!(OrderedIsHeld));
        let stay = stay.copied().unwrap_or(u32::MAX);
        own.push(Own { grant, units: grant.units.min(stay) });
    }
    own
}

/// How many units are ordered for services, by kind.
fn ordered(orders: &[(u64, OpenOrder)]) -> BTreeMap<(&ServiceId, &Kind), u32> {
    let mut ordered = BTreeMap::new();
    for (_, OpenOrder { order, .. }) in orders {
        *ordered.entry((&order.claimant, &order.kind)).or_default() += order.units.get();
    }
    ordered
}

/// What was wanted of late. A use counts by all that is known, a claim only if enough is.
fn recent(need: &KnownNeed, kind: &Kind, since: Time) -> (Vec<Steps>, bool) {
    match need.steps_since(kind, since) {
        Some(recent) => (recent, true),
        None => (need.steps_since(kind, need.known_since).unwrap_or_default(), false),
    }
}

/// When what is known now will have lasted, or what was known before will be too old.
fn wake(view: &View, stable_for: Span) -> Option<Time> {
    let changes = view.needs().iter().flat_map(|NeedView { need, .. }| {
        let earlier = need.before.iter().map(|earlier| earlier.until);
        earlier.chain([need.known_since])
    });
    let due = changes.map(|at| at.plus(stable_for)).filter(|due| view.now() < *due);
    due.min()
}

fn service_of(request: &Request) -> Option<ServiceId> {
    let service = Name::new(request.properties.get(SERVICE)?).ok()?;
    Some(ServiceId { guest: request.id.origin, service })
}

/// The kind of units that a request is for, if it is for one.
pub(super) fn kind_of(request: &Request) -> Option<Kind> {
    let [item] = request.items.as_slice() else { return None };
    Some(item.kind())
}

/// Whether a request says for which service it is.
pub(super) fn names_service(request: &Request) -> bool {
    service_of(request).is_some() && kind_of(request).is_some()
}

/// Whether units of an order are back.
pub(super) fn is_freed(open: &OpenOrder) -> bool {
    matches!(open.state, OrderState::Freed { .. })
}

/// The name of a request in the draft for what is kept for a service: it is none that anybody has put.
pub(super) fn nobodys(claimant: &ServiceId) -> RequestId {
    RequestId { origin: claimant.guest, number: 0 }
}
