//! What a broker shows its mapper.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::forwarding::{KnownNeighbour, Liveness, Search, Tried, may_pass, may_wait_until};
use super::needs::{KnownNeed, ServiceId};
use super::orders::OpenOrder;
use super::portions::{Kept, Stage};
use super::quota::Quotas;
use super::state::State;
use super::{Broker, IssuedTicket, Usage};
use crate::actor::Base;
use crate::actor::fact::Memo;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::price::priced;
use crate::model::resource::{Attributes, at_site};
use crate::model::slice::RequestId;
use crate::model::time::{Span, Term, Time};
use crate::service::steps::Kind;
use crate::ticket::Ticket;
use crate::ticket::ledger::{LEDGER_RETENTION, Token, TokenUse, Tokens};
use crate::ticket::link::{AccountId, LinkHash, SignedLink};
use crate::wire::request::Request;

/// A broker at one instant, as owned data: it can be kept, sent to another thread, or serialised for
/// another process. It shares structure with its actor, so taking and cloning one costs the same however
/// much it shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Plain", into = "Plain")]
pub struct View {
    now: Time,
    round: u64,
    memo: Arc<Memo>,
    two_margins: Span,
    holders: OrdMap<ActorId, Usage>,
    quotas: Quotas,
    totals: OrdMap<Name, Calendar>,
    free: OrdMap<AccountId, Calendar>,
    tokens: Tokens,
    index: Index,
    services: OfServices,
    /// The brokers that requests are passed on to, by name.
    neighbours: Arc<Vec<KnownNeighbour>>,
    /// In which order they are asked.
    search: Search,
}

/// What views show that is not kept for another purpose. It follows from the state.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Index {
    /// Open requests by the position at which they came.
    requests: OrdMap<u64, Arc<Request>>,
    /// What can be cut from, by type, then by site name and account.
    sources: OrdMap<Name, OrdMap<(Name, AccountId), Listed>>,
    grants: OrdMap<LinkHash, Grant>,
    /// Of the open requests those that may be passed on, or were.
    routes: OrdMap<RequestId, OpenRoute>,
    /// What is kept back of requests that are gathered.
    kept: OrdMap<RequestId, Kept>,
}

/// What the mapper is shown of the way of an open request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenRoute {
    /// What was tried.
    pub(super) tried: Arc<Tried>,
    /// How many times it may be passed on from here, one after the other.
    pub(super) hops: u8,
    /// When its answer is due.
    pub(super) answer_by: Time,
    /// What becomes of it if the broker cannot meet it alone.
    #[serde(default)]
    pub(super) stage: Stage,
}

impl OpenRoute {
    /// Whether others can still be asked at `now`.
    fn is_open(&self, now: Time) -> bool {
        self.hops > 0 && may_pass(now, self.answer_by)
    }
}

/// A [`Listed`] source with what it is listed by.
pub(super) struct ListedSource<'a> {
    pub(super) account: AccountId,
    pub(super) resource: &'a Name,
    pub(super) site_name: &'a Name,
    pub(super) attributes: &'a Attributes,
    pub(super) units: u32,
    pub(super) until: Time,
}

/// A [`Source`] without its calendar.
#[derive(Clone, Debug, PartialEq)]
struct Listed {
    site: ActorId,
    attributes: Arc<Attributes>,
    units: u32,
    until: Time,
    tokens: Arc<BTreeSet<Name>>,
}

/// A ticket that the broker can cut from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its account.
    pub account: AccountId,
    /// The site whose units they are.
    pub site: ActorId,
    /// The site's name, or the broker's own where the site has none here.
    pub site_name: Name,
    /// The type.
    pub resource: Name,
    /// What the units are like, the name of the site among it.
    pub attributes: Arc<Attributes>,
    /// The units of the ticket.
    pub units: u32,
    /// Until when it runs. Delegations are renewed, so it may be later tomorrow.
    pub until: Time,
    /// The tokens that go with what is cut from it, by the names of their stacks: no two holders may have units with
    /// a common token of one site at a time. Empty for all but units in stacks.
    #[serde(default)]
    pub tokens: Arc<BTreeSet<Name>>,
    /// What is free, when, tokens aside. It is cheap to clone, and a clone takes bookings on trial.
    pub free: Calendar,
}

/// A ticket that the broker has cut, for as long as its request is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The ticket.
    pub ticket: LinkHash,
    /// The request it was cut for.
    pub request: RequestId,
    /// Who holds it.
    pub holder: ActorId,
    /// What it was cut from.
    pub account: AccountId,
    /// The type.
    pub resource: Name,
    /// How many units it is for, without those that were given back.
    pub units: u32,
    /// From when to when, without what was given back.
    pub term: Term,
    /// Whether it was given back, so that what was left of it is free again.
    pub returned: bool,
    /// How long ahead its holder is told that units in use are recalled; `None` if none are.
    #[serde(default)]
    pub notice: Option<Span>,
    /// No recall takes units in use before this instant.
    #[serde(default)]
    pub not_before: Option<Time>,
    /// Since when its holder has its units: of an extension, since the first of what it goes on from began.
    #[serde(default)]
    pub since: Time,
}

/// What a service wants, with the name of its guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeedView {
    /// The service.
    pub id: ServiceId,
    /// Its guest's name.
    pub guest: Name,
    /// What it wants.
    pub need: Arc<KnownNeed>,
}

/// What concerns services.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct OfServices {
    needs: Vec<NeedView>,
    orders: Vec<(u64, OpenOrder)>,
    /// How many units may still be ordered, by type; unbounded where there is no number.
    left: BTreeMap<Name, u32>,
    /// When more may be ordered than now, by type.
    again: BTreeMap<Name, Time>,
}

impl Broker {
    /// What the mapper is to be shown, if a round is open.
    pub fn view(&self, now: Time) -> Option<View> {
        let round = self.state.rounds.open()?;
        Some(View {
            now,
            round,
            memo: self.state.rounds.memo(),
            two_margins: self.base.two_margins(),
            holders: self.state.of_each.clone(),
            quotas: self.state.quotas.clone(),
            totals: self.state.totals.clone(),
            free: self.all_free_to_sell(now),
            tokens: self.state.ledger.tokens().clone(),
            index: self.index.clone(),
            services: self.of_services(now),
            neighbours: Arc::new(self.known_neighbours(now)),
            search: self.search,
        })
    }

    fn of_services(&self, now: Time) -> OfServices {
        if self.state.needs.is_empty() {
            return OfServices::default();
        }
        let needs = self.state.needs.iter().map(|(id, need)| NeedView {
            id: id.clone(),
            guest: self.base.name_of(id.guest),
            need: Arc::clone(need),
        });
        let types = self.index.sources.keys();
        let left = types.filter_map(|of| Some((of.clone(), self.budget_left(of, now)?)));
        OfServices {
            needs: needs.collect(),
            orders: self.orders().map(|(number, order)| (number, order.clone())).collect(),
            left: left.collect(),
            again: self.moves_again(now),
        }
    }
}

impl View {
    /// The time of the question.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The round to answer.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// What was remembered.
    pub fn memo(&self) -> &Memo {
        &self.memo
    }

    /// The open requests in the order they came.
    pub fn open_requests(&self) -> impl Iterator<Item = &Request> {
        self.index.requests.values().map(|request| &**request)
    }

    /// What can be cut from, by site name and account.
    pub fn sources(&self) -> Vec<Source> {
        let of_all = self.types().flat_map(|resource| self.sources_of(resource));
        let mut sources: Vec<_> = of_all.collect();
        sources.sort_by(|a, b| (&a.site_name, a.account).cmp(&(&b.site_name, b.account)));
        sources
    }

    /// What units of a type can be cut from, by site name and account.
    pub fn sources_of(&self, resource: &Name) -> impl Iterator<Item = Source> {
        let listed = self.index.sources.get_key_value(resource);
        listed.into_iter().flat_map(move |(resource, listed)| {
            listed.iter().filter_map(move |((site_name, account), listed)| {
                Some(Source {
                    account: *account,
                    site: listed.site,
                    site_name: site_name.clone(),
                    resource: resource.clone(),
                    attributes: Arc::clone(&listed.attributes),
                    units: listed.units,
                    until: listed.until,
                    tokens: Arc::clone(&listed.tokens),
                    free: self.free.get(account)?.clone(),
                })
            })
        })
    }

    /// Who has a token of a site, and when, in no order.
    pub fn token_uses<'a>(&'a self, token: &Token) -> impl Iterator<Item = TokenUse> + use<'a> {
        self.tokens.uses(token).map(|(_, token_use)| token_use)
    }

    /// The types of units that there are.
    pub fn types(&self) -> impl Iterator<Item = &Name> {
        self.index.sources.keys()
    }

    /// What all sources of a type have free together: an upper bound of what any term can have.
    pub fn total(&self, resource: &Name) -> Option<&Calendar> {
        self.totals.get(resource)
    }

    /// The tickets that were cut and whose requests are remembered, by their hashes.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.index.grants.values()
    }

    /// One of the [`grants`](Self::grants).
    pub fn grant(&self, ticket: LinkHash) -> Option<&Grant> {
        self.index.grants.get(&ticket)
    }

    /// The brokers that an open request may be passed on to, in the order in which they are to be asked: each with how
    /// many hops away it has [told of room](KnownNeighbour::promises), if that counts. Those come before others, of the same
    /// distance first who has [most of it](KnownNeighbour::spare), and who was heard before who was not. The silent are
    /// left out, and with too little time left everybody is.
    pub fn routes(&self, request: &Request) -> Vec<(&KnownNeighbour, Option<u8>)> {
        let route = self.index.routes.get(&request.id).filter(|route| route.is_open(self.now));
        let Some(&OpenRoute { ref tried, hops: within, .. }) = route else { return Vec::new() };
        let may_answer = self.neighbours.iter().filter(|who| who.liveness.may_answer());
        let left = may_answer.filter(|who| !tried.asked.contains(&who.broker));
        let hint = |who: &KnownNeighbour| match self.search {
            Search::Hints => {
                who.promises(request.preferred(), request.latest).filter(|hops| *hops <= within)
            }
            Search::DepthFirst => None,
        };
        let mut routes: Vec<_> = left.map(|who| (who, hint(who))).collect();
        let unheard = |who: &KnownNeighbour| who.liveness == Liveness::Unknown;
        let spare = |who: &KnownNeighbour, hops: Option<u8>| {
            hops.map_or(0, |hops| who.spare(request.preferred(), request.latest, hops))
        };
        // A broker that promises less than all of a request may still hold a portion of it.
        let some = |who: &KnownNeighbour| match self.search {
            Search::Hints => who.offers(request.preferred(), request.latest, within),
            Search::DepthFirst => 0,
        };
        routes.sort_by_cached_key(|&(who, hops)| {
            let spare = (Reverse(spare(who, hops)), Reverse(some(who)));
            (hops.unwrap_or(u8::MAX), unheard(who), spare)
        });
        routes
    }

    /// What becomes of an open request if the broker cannot meet it alone. One is [divisible](Stage::Divisible) only
    /// while there is a neighbour that may answer, also if it was asked for the whole, and its guest may have one more
    /// hold.
    pub fn stage(&self, request: RequestId) -> Stage {
        let Some(route) = self.index.routes.get(&request) else { return Stage::Whole };
        let others = || {
            let may_answer = self.neighbours.iter().any(|who| who.liveness.may_answer());
            let held = self.holders.get(&request.origin).map_or(0, |usage| usage.held);
            let may_keep = self.quotas.no_more_held(request.origin, held).is_none();
            may_answer && may_keep && route.is_open(self.now)
        };
        let divisible = matches!(route.stage, Stage::Divisible(_));
        if divisible && !others() { Stage::Whole } else { route.stage }
    }

    /// Until when a [portion](Stage::Portion) is to wait for what is kept back of younger requests: of two requests that
    /// hold what the other lacks, one then gets all. `None` if there is nothing to wait for, or no time.
    pub fn waits_for_younger(&self, request: &Request) -> Option<Time> {
        let route = self.index.routes.get(&request.id);
        let route = route.filter(|route| route.stage == Stage::Portion)?;
        let until = may_wait_until(route.answer_by);
        let waits = self.now < until
            && self.index.kept.iter().any(|(id, kept)| kept.is_before(*id, request));
        waits.then_some(until)
    }

    /// What other brokers said of an open request.
    pub fn tried(&self, request: RequestId) -> Option<&Tried> {
        self.index.routes.get(&request).map(|route| &*route.tried)
    }

    /// The brokers that requests are passed on to, by name.
    pub fn neighbours(&self) -> &[KnownNeighbour] {
        &self.neighbours
    }

    /// What services want.
    pub fn needs(&self) -> &[NeedView] {
        &self.services.needs
    }

    /// The orders that have not ended, by number.
    pub fn orders(&self) -> &[(u64, OpenOrder)] {
        &self.services.orders
    }

    /// How many units of a type may be ordered now.
    pub fn moves_left(&self, resource: &Name) -> u32 {
        self.services.left.get(resource).copied().unwrap_or(u32::MAX)
    }

    /// When more units of a type may be ordered than now, if any were of late.
    pub fn moves_again(&self, resource: &Name) -> Option<Time> {
        self.services.again.get(resource).copied()
    }

    /// All units of a type that it has.
    pub fn units_of(&self, resource: &Name) -> u64 {
        self.index.units_of(resource)
    }

    /// What the requests take up that each peer answers for: a service manager, or a broker that hands requests on.
    pub fn holders(&self) -> impl Iterator<Item = (ActorId, &Usage)> {
        self.holders.iter().map(|(&id, usage)| (id, usage))
    }

    /// The units that a peer may have over a term beside what it has; `None` if there is no limit. The core refuses a
    /// grant of more. What a broker has handed on counts for that broker, not for its guest.
    pub fn units_left(&self, holder: ActorId, term: Term) -> Option<u32> {
        self.quotas.units_left(holder, term)
    }

    /// The longest term that is too short to be granted.
    pub fn two_margins(&self) -> Span {
        self.two_margins
    }

    /// The earliest start of a term that the core would still cut for a request: the earliest that it
    /// names, or now where the term from there ends within two clock margins or begins too far back.
    pub fn first_start(&self, request: &Request) -> Time {
        let end = request.earliest.plus(request.duration);
        let over = end <= self.now.plus(self.two_margins);
        if over || request.earliest < self.now.minus(LEDGER_RETENTION) {
            self.now.min(request.latest).max(request.earliest)
        } else {
            request.earliest
        }
    }
}

impl Index {
    /// The index of a state.
    pub(super) fn of(state: &State, base: &Base, prices: &BTreeMap<Name, u32>) -> Self {
        let mut index = Self::default();
        for (&account, holding) in &state.holdings {
            let price = prices.get(&holding.ticket.bottom().resource).copied();
            index.list(base, account, &holding.ticket, (&holding.attributes, price));
        }
        for (&id, record) in &state.requests {
            if let Some(request) = record.shown() {
                index.opened(record.came_at, request);
                index.routed(id, record.shown_route());
            }
            index.keeps(id, record.kept());
        }
        for issued in state.issued.values() {
            if let Some(ticket) = state.ticket(issued) {
                index.granted(ticket, issued);
            }
        }
        index
    }

    /// The accounts that units of the type can be cut from, by site name.
    pub(super) fn accounts_of(&self, resource: &Name) -> impl Iterator<Item = AccountId> {
        let listed = self.sources.get(resource).into_iter();
        listed.flat_map(|listed| listed.keys().map(|&(_, account)| account))
    }

    /// What can be cut from, of one type or of all, by type, site name and account.
    pub(super) fn listed(&self, resource: Option<&Name>) -> impl Iterator<Item = ListedSource<'_>> {
        let all = self.sources.iter().filter(move |(of, _)| resource.is_none_or(|one| one == *of));
        all.flat_map(|(resource, listed)| {
            listed.iter().map(move |((site_name, account), listed)| ListedSource {
                account: *account,
                resource,
                site_name,
                attributes: &listed.attributes,
                units: listed.units,
                until: listed.until,
            })
        })
    }

    /// All units of a type.
    pub(super) fn units_of(&self, resource: &Name) -> u64 {
        let listed = self.sources.get(resource).into_iter().flat_map(OrdMap::values);
        listed.map(|listed| u64::from(listed.units)).sum()
    }

    /// All units of a kind.
    pub(super) fn units_like(&self, Kind { resource, requirement }: &Kind) -> u64 {
        let like = |attributes: &Attributes| {
            requirement.as_ref().is_none_or(|of| of.matches(attributes).unwrap_or(false))
        };
        let listed = self.sources.get(resource).into_iter().flat_map(OrdMap::values);
        let listed = listed.filter(|listed| like(&listed.attributes));
        listed.map(|listed| u64::from(listed.units)).sum()
    }

    /// Whether there is a source of the type.
    pub(super) fn has_type(&self, resource: &Name) -> bool {
        self.sources.contains_key(resource)
    }

    /// A request waits for a decision.
    pub(super) fn opened(&mut self, came_at: u64, request: Arc<Request>) {
        self.requests.insert(came_at, request);
    }

    /// The way of an open request, if it may be passed on.
    pub(super) fn routed(&mut self, id: RequestId, route: Option<OpenRoute>) {
        match route {
            Some(route) => self.routes.insert(id, route),
            None => self.routes.remove(&id),
        };
    }

    /// What is kept back of a request, if anything is.
    pub(super) fn keeps(&mut self, id: RequestId, kept: Option<Kept>) {
        match kept {
            Some(kept) => self.kept.insert(id, kept),
            None => self.kept.remove(&id),
        };
    }

    /// A request waits no longer.
    pub(super) fn closed(&mut self, came_at: u64) {
        self.requests.remove(&came_at);
    }

    /// Enters the newest generation of a holding, at the price of its holder if that has one.
    pub(super) fn list(
        &mut self,
        base: &Base,
        account: AccountId,
        ticket: &Ticket,
        (attributes, price): (&Attributes, Option<u32>),
    ) {
        let (link, site) = (ticket.bottom(), ticket.site());
        let listed = Listed {
            site,
            attributes: Arc::new(priced(at_site(attributes, base.peer_name(site)), price)),
            units: link.units.get(),
            until: link.term.end(),
            tokens: tokens_of(link),
        };
        let of_type = self.sources.entry(link.resource.clone()).or_default();
        of_type.insert((base.name_of(site), account), listed);
    }

    /// What the units of a holding are like, the name of the site among it.
    pub(super) fn attributes(
        &self,
        base: &Base,
        account: AccountId,
        ticket: &Ticket,
    ) -> Option<&Attributes> {
        let of_type = self.sources.get(&ticket.bottom().resource)?;
        let listed = of_type.get(&(base.name_of(ticket.site()), account))?;
        Some(&listed.attributes)
    }

    /// Strikes a holding off.
    pub(super) fn unlist(&mut self, site_name: Name, account: AccountId, resource: &Name) {
        if let Some(of_type) = self.sources.get_mut(resource) {
            of_type.remove(&(site_name, account));
            if of_type.is_empty() {
                self.sources.remove(resource);
            }
        }
    }

    /// A ticket was cut.
    pub(super) fn granted(&mut self, ticket: &Ticket, issued: &IssuedTicket) {
        let [.., parent, link] = ticket.links() else { return };
        let grant = Grant {
            ticket: link.hash(),
            request: issued.request,
            holder: link.holder,
            account: parent.account(),
            resource: link.resource.clone(),
            units: issued.units,
            term: link.term.until(issued.until).unwrap_or(link.term),
            returned: issued.returned,
            notice: link.clauses.notice,
            not_before: link.clauses.not_before,
            since: issued.since,
        };
        self.grants.insert(grant.ticket, grant);
    }

    /// A ticket was given back, or a part of it.
    pub(super) fn returned(&mut self, ticket: LinkHash, issued: &IssuedTicket) {
        if let Some(grant) = self.grants.get_mut(&ticket) {
            grant.units = issued.units;
            grant.term = grant.term.until(issued.until).unwrap_or(grant.term);
            grant.returned = issued.returned;
        }
    }

    /// A ticket is not remembered any more.
    pub(super) fn forgotten(&mut self, ticket: LinkHash) {
        self.grants.remove(&ticket);
    }
}

/// The tokens that go with what is cut from a link.
fn tokens_of(link: &SignedLink) -> Arc<BTreeSet<Name>> {
    let stacked = link.clauses.stacked.as_deref();
    Arc::new(stacked.map(|stacked| stacked.tokens.clone()).unwrap_or_default())
}

/// A view in plain lists.
#[derive(Serialize, Deserialize)]
struct Plain {
    now: Time,
    round: u64,
    memo: Arc<Memo>,
    two_margins: Span,
    requests: Vec<Arc<Request>>,
    sources: Vec<Source>,
    totals: OrdMap<Name, Calendar>,
    grants: Vec<Grant>,
    holders: Vec<(ActorId, Usage)>,
    quotas: Quotas,
    #[serde(default)]
    tokens: Vec<(Token, LinkHash, TokenUse)>,
    #[serde(default)]
    services: OfServices,
    #[serde(default)]
    neighbours: Arc<Vec<KnownNeighbour>>,
    #[serde(default)]
    search: Search,
    #[serde(default)]
    routes: Vec<(RequestId, OpenRoute)>,
    #[serde(default)]
    kept: Vec<(RequestId, Kept)>,
}

impl From<View> for Plain {
    fn from(view: View) -> Self {
        Self {
            now: view.now,
            round: view.round,
            two_margins: view.two_margins,
            requests: view.index.requests.values().cloned().collect(),
            sources: view.sources(),
            grants: view.grants().cloned().collect(),
            holders: view.holders.iter().map(|(&id, usage)| (id, *usage)).collect(),
            quotas: view.quotas,
            tokens: view.tokens.list().map(|(t, hash, used)| (t.clone(), hash, used)).collect(),
            memo: view.memo,
            totals: view.totals,
            services: view.services,
            neighbours: view.neighbours,
            search: view.search,
            routes: view.index.routes.into_iter().collect(),
            kept: view.index.kept.into_iter().collect(),
        }
    }
}

impl From<Plain> for View {
    fn from(plain: Plain) -> Self {
        let mut index = Index {
            requests: (0_u64..).zip(plain.requests).collect(),
            sources: OrdMap::new(),
            grants: plain.grants.into_iter().map(|grant| (grant.ticket, grant)).collect(),
            routes: plain.routes.into_iter().collect(),
            kept: plain.kept.into_iter().collect(),
        };
        let mut free = OrdMap::new();
        for source in plain.sources {
            let Source {
                account, site, site_name, resource, attributes, units, until, tokens, ..
            } = source;
            let listed = Listed { site, attributes, units, until, tokens };
            index.sources.entry(resource).or_default().insert((site_name, account), listed);
            free.insert(account, source.free);
        }
        Self {
            now: plain.now,
            round: plain.round,
            memo: plain.memo,
            two_margins: plain.two_margins,
            holders: plain.holders.into_iter().collect(),
            quotas: plain.quotas,
            totals: plain.totals,
            tokens: plain.tokens.into_iter().collect(),
            services: plain.services,
            neighbours: plain.neighbours,
            search: plain.search,
            free,
            index,
        }
    }
}
