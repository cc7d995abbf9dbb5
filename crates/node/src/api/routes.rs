//! The units of a broker: its own, borrowed and lent ones, and those of its neighbours.

use std::collections::BTreeMap;
use std::ops::Not;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::broker::Broker;
use tenure_core::broker::forwarding::{Neighbour, NeighbourSurvey};
use tenure_core::broker::lenders::LenderSurvey;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::resource::Attributes;
use tenure_core::model::time::{Span, Time};
use tenure_core::ticket::Ticket;
use tenure_core::wire::advert::AdvertEntry;
use tenure_core::wire::request::Item;

use super::lease_request;
use super::server::{ApiResult, AppState};
use super::view::{Names, name, time};

/// Units that a broker can grant or has lent, grouped by the actor they come from or went to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RouteView {
    /// The broker.
    pub broker: String,
    /// What they are to it.
    pub kind: RouteKind,
    /// Whose they are: the site, the broker that has lent them, that has borrowed them, or that is a neighbour.
    pub with: String,
    /// How many hops away the nearest free units are, or, if items are asked for, room for them; 0 of those that it
    /// holds.
    pub hops: Option<u8>,
    /// The units by type; if items are asked for, of those alone.
    pub entries: Vec<EntryView>,
    /// When the last of them ends, unless it is renewed; not of a neighbour's.
    pub until: Option<String>,
    /// What is agreed with a neighbour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<AgreementView>,
    /// Whether the broker that has lent them was heard of late: `unknown`, `live`, `silent` or `forgotten`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lender: Option<String>,
    /// Whether none of them is sold until that broker is heard.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub paused: bool,
}

/// What units are to a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteKind {
    /// A site has delegated them to it.
    Own,
    /// Another broker has lent them to it.
    Borrowed,
    /// It has lent them to another broker.
    Lent,
    /// A neighbour has them, or knows where they are.
    Peer,
}

impl RouteKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Borrowed => "borrowed",
            Self::Lent => "lent",
            Self::Peer => "peer",
        }
    }
}

/// What is agreed with a neighbour, and how it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AgreementView {
    /// Who says so: `configuration` or `operator`.
    pub by: String,
    /// Whether requests are passed on to it.
    pub forward: bool,
    /// Whether requests that it passes on are taken.
    pub accept: bool,
    /// For units of these types alone; of any, if there are none.
    pub types: Vec<String>,
    /// For terms no longer than this.
    pub longest: Option<Span>,
    /// For so many units at a time.
    pub most_units: Option<u32>,
    /// How many requests it is being asked for.
    pub passed: u32,
    /// If requests are passed on to it: whether it was heard of late, `unknown`, `live`, `silent` or `forgotten`.
    pub state: Option<String>,
    /// When it was heard last.
    pub heard: Option<String>,
}

/// Units of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct EntryView {
    /// How many times a request is passed on to get there.
    pub hops: u8,
    /// The type.
    pub resource: String,
    /// What the units are like, if that is disclosed.
    pub attributes: Option<BTreeMap<String, String>>,
    /// How many there are; not of a neighbour's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
    /// How many are free; without a number, some are. None of what is lent.
    pub free: Option<u32>,
    /// If none is free: when one will be.
    pub next: Option<String>,
}

impl EntryView {
    fn of(entry: &AdvertEntry, units: Option<u32>) -> Self {
        let attributes = entry.attributes.as_ref().map(|attributes| {
            let all = attributes.iter();
            all.map(|(name, value)| (name.to_string(), value.to_string())).collect()
        });
        Self {
            hops: entry.hops,
            resource: entry.resource.to_string(),
            attributes,
            units,
            free: entry.free,
            next: entry.next.map(time),
        }
    }
}

/// The routes of one broker.
struct Routes<'a> {
    broker: &'a Name,
    names: &'a Names,
    now: Time,
    /// Only units that suit one of these, if there are any.
    wanted: &'a [Item],
}

/// Units that a broker holds, or has lent, as one delegation has them.
struct Held {
    entry: AdvertEntry,
    units: u32,
    until: Time,
}

impl Routes<'_> {
    fn of(&self, actor: &Broker) -> Vec<RouteView> {
        let mut held = BTreeMap::<(RouteKind, ActorId), Vec<Held>>::new();
        for holding in actor.holdings() {
            let link = holding.ticket.bottom();
            let whole = if link.term.contains(self.now) { i64::from(holding.left) } else { 0 };
            let free = holding.free.map_or(whole, |calendar| calendar.free_at(self.now));
            let site = holding.ticket.site();
            let kind = if link.issuer == site { RouteKind::Own } else { RouteKind::Borrowed };
            let free = u32::try_from(free.max(0)).unwrap_or(u32::MAX);
            let attributes = Some(holding.attributes.clone());
            let units = held_units(holding.ticket, (holding.left, free), attributes);
            held.entry((kind, link.issuer)).or_default().push(units);
        }
        for delegated in actor.issued_delegations(self.now) {
            let units = held_units(delegated.ticket, (delegated.left, 0), None);
            let lent = (RouteKind::Lent, delegated.ticket.bottom().holder);
            held.entry(lent).or_default().push(units);
        }
        let lenders = actor.lenders(self.now);
        let all = held.into_iter().filter_map(|(key, held)| {
            let (kind, with) = key;
            let mut lenders = lenders.iter().filter(|_| kind == RouteKind::Borrowed);
            self.held(key, held, lenders.find(|lender| lender.lender == with))
        });
        let agreed = actor.neighbours(self.now);
        let quotas: BTreeMap<ActorId, Option<u32>> = actor
            .quotas(self.now)
            .filter_map(|survey| survey.whose.map(|whose| (whose, survey.quota.units)))
            .collect();
        let most = |who: ActorId| quotas.get(&who).copied().flatten();
        let agreed = agreed.iter().map(|survey| self.neighbour(survey, most(survey.with)));
        let mut all: Vec<RouteView> = all.chain(agreed).collect();
        all.sort_by(|one, other| (one.kind, &one.with).cmp(&(other.kind, &other.with)));
        all
    }

    /// Units that are held by one title, unless there are none that are wanted.
    fn held(
        &self,
        (kind, with): (RouteKind, ActorId),
        held: Vec<Held>,
        lender: Option<&LenderSurvey>,
    ) -> Option<RouteView> {
        let suits =
            |held: &Held| held.units > 0 && held.until > self.now && self.is_wanted(&held.entry);
        let held: Vec<Held> = held.into_iter().filter(suits).collect();
        let until = held.iter().map(|held| held.until).max()?;
        let is_free = held.iter().any(|held| held.entry.free > Some(0));
        let entries = held.iter().map(|held| EntryView::of(&held.entry, Some(held.units)));
        Some(RouteView {
            broker: self.broker.to_string(),
            kind,
            with: name(self.names, with),
            hops: is_free.then_some(0),
            entries: entries.collect(),
            until: Some(time(until)),
            agreed: None,
            lender: lender.map(|lender| lender.liveness.word().to_owned()),
            paused: lender.is_some_and(|lender| lender.paused),
        })
    }

    fn is_wanted(&self, entry: &AdvertEntry) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|item| entry.suits(item))
    }

    fn neighbour(&self, survey: &NeighbourSurvey, most_units: Option<u32>) -> RouteView {
        let Neighbour { forward, accept } = &survey.neighbour;
        let types = accept.iter().flat_map(|accept| &accept.types);
        let known = survey.known.as_ref();
        let told = known.into_iter().flat_map(|known| known.entries.iter());
        let told: Vec<_> = told.filter(|entry| self.is_wanted(entry)).collect();
        let hops = match self.wanted {
            [] => told.iter().filter(|entry| entry.free != Some(0)).map(|entry| entry.hops).min(),
            [..] => known.and_then(|known| known.promises(self.wanted, Time::ZERO)),
        };
        let agreed = AgreementView {
            by: survey.by.word().to_owned(),
            forward: *forward,
            accept: accept.is_some(),
            types: types.map(Name::to_string).collect(),
            longest: accept.as_ref().and_then(|accept| accept.longest),
            most_units: most_units.filter(|_| accept.is_some()),
            passed: survey.passed,
            state: known.map(|known| known.liveness.word().to_owned()),
            heard: known.and_then(|known| known.heard).map(time),
        };
        RouteView {
            broker: self.broker.to_string(),
            kind: RouteKind::Peer,
            with: name(self.names, survey.with),
            hops,
            entries: told.into_iter().map(|entry| EntryView::of(entry, None)).collect(),
            until: None,
            agreed: Some(agreed),
            lender: None,
            paused: false,
        }
    }
}

fn held_units(ticket: &Ticket, (units, free): (u32, u32), attributes: Option<Attributes>) -> Held {
    let (link, free, attributes) = (ticket.bottom(), Some(free), attributes.map(Arc::new));
    let resource = link.resource.clone();
    let entry = AdvertEntry { hops: 0, resource, attributes, free, next: None };
    Held { entry, units, until: link.term.end() }
}

impl AppState {
    pub(super) async fn routes(
        &self,
        broker: Option<&Name>,
        wanted: Option<&str>,
    ) -> ApiResult<Vec<RouteView>> {
        let read = |demand| lease_request::items(demand, self.profiles());
        let mut wanted = wanted.map(read).transpose()?.unwrap_or_default();
        let first = wanted.iter().map(|item| item.choice).min();
        wanted.retain(|item| Some(item.choice) == first);
        let mut all = Vec::new();
        for handle in self.chosen(Role::Broker, broker)? {
            let (of, names, now) = (handle.info().name.clone(), self.names(), self.now());
            let wanted = wanted.clone();
            let look = move |actor: &Broker| {
                Routes { broker: &of, names: &names, now, wanted: &wanted }.of(actor)
            };
            all.extend(self.broker(handle, look).await?.unwrap_or_default());
        }
        Ok(all)
    }
}
