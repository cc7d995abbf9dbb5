//! Why a lease is as it is: the one thing that it waits for or that ended it, and what bears that out.

mod bookings;
mod facts;
mod failed;
mod pending;
mod waits;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tenure_core::broker::machine::State as RequestState;
use tenure_core::driver::{Step, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::runtime::AnyActor;
use tenure_core::site_authority::SiteAuthority;
use tenure_core::site_authority::machine::State as SiteState;
use tenure_core::site_authority::unit;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::Request;

use self::bookings::Market;
pub(super) use self::facts::lost as group_lost;
use self::facts::{Failure, RequestHistory};
use self::failed::Failed;
use self::pending::{LeaseRefs, PendingItem};
use self::waits::{Waits, waits};
use super::server::AppState;
use super::view::{self, LeaseView, RefusalView};
use super::{ApiError, Code, LeaseName};

pub use bookings::BookingView;
pub use facts::FactView;
pub use pending::PendingView;

/// Why a lease is as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhyView {
    /// The lease.
    pub lease: LeaseView,
    /// The one reason that counts, in a sentence that names the booking or the fault behind it.
    pub reason: String,
    /// What the user can do, if anything.
    pub help: Option<String>,
    /// What each actor knows of it, the nearest first.
    pub findings: Vec<Finding>,
    /// Who holds the units that it asks for, the nearest to its end first: at most five.
    pub bookings: Vec<BookingView>,
    /// How many more do.
    pub more_bookings: usize,
    /// The first start at which there is room for it, as things stand.
    pub room_at: Option<String>,
    /// The units that it waits for, or lost, with what is wrong with them.
    pub faults: Vec<FaultView>,
    /// What is pending for it: messages that were not answered, steps of drivers.
    pub pending: Vec<PendingView>,
    /// The last facts about it in the journals of its actors.
    pub facts: Vec<FactView>,
    /// The commands that show all of them.
    pub look: Vec<String>,
}

/// What an actor knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The actor.
    pub actor: String,
    /// In a sentence.
    pub says: String,
}

/// A unit that is not as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultView {
    /// Its name: site and number.
    pub unit: String,
    /// How it is: setting-up, abandoned, tearing-down, quarantined, or failed if it was lost to the lease.
    pub state: String,
    /// The driver's step that failed last, if one did since one went well.
    pub step: Option<String>,
    /// In the driver's words.
    pub error: Option<String>,
    /// How often steps of the unit have failed since then.
    pub times: u32,
    /// Since when the fault is there.
    pub since: Option<String>,
    /// The place of its fact in the journal of the site.
    pub position: Option<u64>,
}

impl FaultView {
    fn of(
        site: &str,
        unit: impl std::fmt::Display,
        state: &str,
        failure: Option<&Failure>,
    ) -> Self {
        Self {
            unit: format!("{site}/{unit}"),
            state: state.to_owned(),
            step: failure.map(|failure| failure.step.word().to_owned()),
            error: failure.map(|failure| failure.error.clone()),
            times: failure.map_or(0, |failure| failure.times),
            since: failure.map(|failure| view::time(failure.at)),
            position: failure.map(|failure| failure.position),
        }
    }

    fn in_words(&self) -> String {
        let fault = match (&self.step, &self.error, &self.since) {
            (Some(step), Some(error), Some(since)) => {
                let times =
                    if self.times > 1 { format!(" {} times", self.times) } else { String::new() };
                format!(": its {step} failed{times}, at {since}: {error}")
            }
            _ => String::new(),
        };
        format!("{} is {}{fault}", self.unit, self.state)
    }
}

/// Looks into all parts of a request, or the one that is named.
pub(super) async fn of_parts(app: &AppState, lease: &LeaseName) -> Result<Vec<WhyView>, ApiError> {
    let (manager, ids) = app.parts(lease).await?;
    let mut whys = Vec::new();
    for id in ids {
        whys.push(why(app, &manager, id).await?);
    }
    Ok(whys)
}

/// Looks into a lease.
async fn why(app: &AppState, manager: &Name, id: LeaseId) -> Result<WhyView, ApiError> {
    let lease = app.lease(manager, id).await?;
    let no_manager = || ApiError::new(Code::NoSuch, format!("no service manager `{manager}`"));
    let origin = app.id(manager).ok_or_else(no_manager)?;
    let seen = app
        .guest(manager, move |guest| {
            let lease = guest.survey_of(id)?;
            let failed = guest.failed_units(id).map(|failed| Failed::of(guest, &lease, failed));
            Some((waits(&lease, origin), lease.tickets.to_vec(), failed))
        })
        .await?;
    let Some(((waits, says), tickets, failed)) = seen else {
        return Err(ApiError::new(Code::NoSuch, format!("no lease {manager}/{id}")));
    };
    let (waits, says) = waits::with_others(waits, says, &lease);
    let (waits, says) = waits::with_attempt(waits, says, &lease);
    let orders = app.orders_in_words(&lease).await?;
    let (waits, says) = waits::with_recall(waits, says, &lease, &orders);
    let told = failed.map(|failed| failed.in_words(manager, &lease));
    let (waits, says) = waits::with_failure(waits, says, told);
    let own = |says| Finding { actor: manager.to_string(), says };
    let attempt = lease.attempt.as_ref().map(|attempt| own(attempt.in_words()));
    let why = WhyView {
        lease,
        reason: says.clone(),
        help: None,
        findings: [own(says)].into_iter().chain(attempt).collect(),
        bookings: Vec::new(),
        more_bookings: 0,
        room_at: None,
        faults: Vec::new(),
        pending: Vec::new(),
        facts: Vec::new(),
        look: Vec::new(),
    };
    let mut inquiry = Inquiry { app, refs: LeaseRefs { origin, id, tickets }, why };
    let guest = inquiry.ask(origin).await?;
    let (broker, request) = guest.request.clone().unzip();
    if let Some(broker) = broker {
        inquiry.ask(broker).await?;
    }
    let ticket = guest.tickets.get(usize::from(id.part));
    let site = match (&waits, ticket) {
        (Waits::Site(site, _), _) => Some(*site),
        (_, ticket) => ticket.map(tenure_core::ticket::Ticket::site),
    };
    let at_site = match site {
        Some(site) => inquiry.ask(site).await?,
        None => RequestHistory::default(),
    };
    match waits {
        Waits::Nothing(reason, help) => inquiry.settle(guest.with_refused(reason), help),
        Waits::Broker(broker, id) => inquiry.at_broker(broker, id).await?,
        Waits::Site(site, ticket) => inquiry.at_site(site, ticket).await?,
        Waits::Refused(refusal) => {
            let site = site.map(|site| app.name(site));
            inquiry.refused(&refusal, broker.zip(request), site.as_deref(), &at_site).await?;
        }
    }
    Ok(inquiry.why)
}

/// The answer as far as it is known.
struct Inquiry<'a> {
    app: &'a AppState,
    refs: LeaseRefs,
    why: WhyView,
}

impl Inquiry<'_> {
    fn settle(&mut self, reason: String, help: Option<String>) {
        (self.why.reason, self.why.help) = (reason, help);
    }

    fn finding(&mut self, actor: &str, says: String) {
        self.why.findings.push(Finding { actor: actor.to_owned(), says });
    }

    /// The journal of an actor, and its pending work for the lease.
    async fn ask(&mut self, actor: ActorId) -> Result<RequestHistory, ApiError> {
        let LeaseRefs { origin, id, .. } = self.refs;
        let pending = match self.app.handle_of(actor) {
            Some(handle) => {
                let refs = self.refs.clone();
                let pending =
                    handle.query_with_outbox(move |actor, outbox| refs.pending(actor, outbox));
                // An actor that is down keeps its pending work; its journal can be read all the same.
                pending.await.unwrap_or_default()
            }
            None => Vec::new(),
        };
        let positions = pending.iter().filter_map(|pending| match pending {
            PendingItem::Call { position, .. } => Some(*position),
            PendingItem::Message { .. } => None,
        });
        let positions: BTreeSet<u64> = positions.collect();
        let history = facts::history(self.app, actor, (origin, id), positions).await?;
        let name = self.app.name(actor);
        for pending in pending {
            let view = self.pending_view(&name, pending, &history).await;
            self.why.pending.push(view);
        }
        if !history.facts.is_empty() {
            self.why.facts.extend(history.facts.iter().cloned());
            let journal = Name::new(&name).map(|name| self.app.journal(&name));
            self.why.look.extend(journal.map(|journal| {
                format!("tenure journal show {} --lease {}", journal.display(), id.number)
            }));
        }
        Ok(history)
    }

    async fn pending_view(
        &self,
        from: &str,
        pending: PendingItem,
        history: &RequestHistory,
    ) -> PendingView {
        let from = from.to_owned();
        match pending {
            PendingItem::Message { to, kind, at, sent } => PendingView {
                from,
                to: self.app.name(to),
                what: kind.to_owned(),
                since: view::time(at),
                sent: Some(sent),
                down: match self.app.handle_of(to) {
                    None => Some("it is not of this deployment".to_owned()),
                    Some(peer) => peer.query(|_| ()).await.err().map(|error| error.to_string()),
                },
            },
            PendingItem::Call { what, position } => PendingView {
                from,
                to: "driver".to_owned(),
                what,
                since: history.times.get(&position).copied().map(view::time).unwrap_or_default(),
                sent: None,
                down: None,
            },
        }
    }

    /// Adds the sold units of the requested type.
    fn market(&mut self, market: Market) {
        self.why.room_at = market.room.map(view::time);
        (self.why.bookings, self.why.more_bookings) = (market.bookings, market.more);
    }

    async fn at_broker(&mut self, broker: ActorId, id: RequestId) -> Result<(), ApiError> {
        let name = self.app.name(broker);
        let Some(handle) = self.app.handle_of(broker) else {
            let help = Some("`tenure doctor` says who is down".to_owned());
            self.settle(format!("the broker {name} has yet to answer"), help);
            return Ok(());
        };
        let (names, now) = (self.app.names(), self.app.now());
        let state = self.app.look(handle, move |actor| match actor {
            AnyActor::Broker(broker) => broker.request(id).map(|state| match state {
                RequestState::Open { request, .. } => {
                    let market = Market::of(broker, request, now, &names);
                    Err((view::time(request.latest), market))
                }
                RequestState::Held { .. }
                | RequestState::Passed { .. }
                | RequestState::Brought { .. }
                | RequestState::Gathering { .. }
                | RequestState::Reserved { .. }
                | RequestState::Committing { .. }
                | RequestState::Proposed { .. }
                | RequestState::Taking { .. }
                | RequestState::Planned { .. }
                | RequestState::Granted { .. }
                | RequestState::Returned { .. }
                | RequestState::Refused { .. } => Ok(view::plain(state.word())),
            }),
            AnyActor::ServiceManager(_) | AnyActor::SiteAuthority(_) => None,
        });
        let (says, help) = match state.await? {
            None => ("the request has not arrived".to_owned(), None),
            Some(Ok(word)) => (format!("the request is {word}; the answer is on its way"), None),
            Some(Err((latest, market))) => {
                let says = format!("the request waits for room; it may start until {latest}");
                let says = match market.in_words() {
                    Some(held) => format!("{says}; {held}"),
                    None => says,
                };
                self.market(market);
                (says, Some("`tenure broker show` lists what is sold".to_owned()))
            }
        };
        self.finding(&name, says.clone());
        self.settle(format!("at the broker {name}: {says}"), help);
        Ok(())
    }

    /// A lease that was refused, by its broker or its site.
    async fn refused(
        &mut self,
        refusal: &Refusal,
        asked: Option<(ActorId, Request)>,
        site: Option<&str>,
        at_site: &RequestHistory,
    ) -> Result<(), ApiError> {
        let RefusalView { message, outlook, .. } = RefusalView::of(refusal);
        let mut reason = match (refusal, site) {
            (Refusal::SetupFailed { .. }, Some(site)) => {
                format!("its setup at {site} failed: {message}")
            }
            _ => format!("it was refused: {message}"),
        };
        let asked = asked
            .and_then(|(broker, request)| Some((broker, self.app.handle_of(broker)?, request)));
        if let Some((broker, handle, request)) = asked {
            let (names, now) = (self.app.names(), self.app.now());
            let market = self.app.look(handle, move |actor| match actor {
                AnyActor::Broker(broker) => Some(Market::of(broker, &request, now, &names)),
                AnyActor::ServiceManager(_) | AnyActor::SiteAuthority(_) => None,
            });
            let market = market.await?.unwrap_or_default();
            let name = self.app.name(broker);
            if matches!(refusal, Refusal::Busy { .. }) {
                reason.extend(market.in_words().map(|held| format!(". As things stand, {held}")));
                self.market(market);
            } else if outlook == "never" {
                self.finding(&name, format!("it can sell {}", market.stock_in_words()));
            }
        }
        if let (Refusal::SetupFailed { .. }, Some(site)) = (refusal, site) {
            let failed = at_site.when_closed.iter();
            let faults = failed.map(|(unit, why)| {
                let state = if why.step == Step::Teardown { "quarantined" } else { "failed" };
                FaultView::of(site, unit, state, Some(why))
            });
            self.why.faults.extend(faults);
            reason.extend(self.why.faults.first().map(|fault| format!("; {}", fault.in_words())));
        }
        let quarantined = self.why.faults.iter().find(|fault| fault.state == "quarantined");
        let way_on = match quarantined {
            Some(fault) => reset(fault) + ", and ask again",
            None => way_on(refusal, &outlook).to_owned(),
        };
        self.settle(reason, Some(way_on));
        Ok(())
    }

    async fn at_site(&mut self, site: ActorId, ticket: LinkHash) -> Result<(), ApiError> {
        let name = self.app.name(site);
        let Some(handle) = self.app.handle_of(site) else {
            let help = Some("`tenure doctor` says who is down".to_owned());
            self.settle(format!("the site {name} has yet to answer"), help);
            return Ok(());
        };
        let seen = self.app.look(handle, move |actor| match actor {
            AnyActor::SiteAuthority(site) => site_says(site, ticket),
            AnyActor::ServiceManager(_) | AnyActor::Broker(_) => None,
        });
        let Some((says, units)) = seen.await? else {
            self.settle(format!("the site {name} has yet to hear of it"), None);
            return Ok(());
        };
        self.finding(&name, says.clone());
        let waited_for = units.iter().map(|(unit, _)| *unit).collect();
        let failures = facts::failures(self.app, site, waited_for).await?;
        let faults = units
            .into_iter()
            .map(|(unit, state)| FaultView::of(&name, unit, &state, failures.get(&unit)));
        self.why.faults = faults.collect();
        // Those that need an operator come first, then those that have failed before.
        self.why.faults.sort_by_key(|fault| (fault.state != "quarantined", fault.error.is_none()));
        let fault = self.why.faults.first();
        let reason = fault.map_or_else(String::new, |fault| format!("; {}", fault.in_words()));
        let help = match fault.filter(|fault| fault.state == "quarantined") {
            Some(fault) => reset(fault),
            None => format!("`tenure site show {name}` lists its units"),
        };
        self.settle(format!("at the site {name}: {says}{reason}"), Some(help));
        Ok(())
    }
}

/// What to do about a unit in quarantine.
fn reset(fault: &FaultView) -> String {
    format!("put the unit right, then `tenure site reset {}`", fault.unit)
}

/// What to do about a refusal.
fn way_on(refusal: &Refusal, outlook: &str) -> &'static str {
    if matches!(refusal, Refusal::Beyond { .. }) {
        return "delegations are renewed: ask for less time, or again later";
    }
    match outlook {
        "later" => "ask again later, for fewer units, or with `--by` so that it may wait",
        "denied" => "the ticket did not entitle to it; `tenure ticket verify` checks its links",
        _ => "the same request can never be met: ask for something else",
    }
}

/// What a site knows of a lease, and of each unit that it waits for.
fn site_says(site: &SiteAuthority, ticket: LinkHash) -> Option<(String, Vec<(UnitId, String)>)> {
    let lease = site.lease_survey_of(ticket)?;
    let says = match lease.state {
        SiteState::Early => {
            format!("it waits for its term, from {}", view::time(lease.term.start()))
        }
        SiteState::Due => {
            format!("its term has begun, but it lacks all of its {} units", lease.units)
        }
        SiteState::Priming { pending, ready } => format!(
            "{} of {} units are ready, {} are being set up, {} are missing",
            ready.len(),
            lease.units,
            pending.len(),
            lease.lacks
        ),
        SiteState::Active { .. } => "the units are ready; the answer is on its way".to_owned(),
        SiteState::Closed { .. } => "it has ended here; the answer is on its way".to_owned(),
    };
    let waits = matches!(lease.state, SiteState::Due | SiteState::Priming { .. });
    let units = site.unit_survey().filter(|unit| waits && unit.resource == lease.resource);
    let units =
        units.filter(|unit| unit.state.tenant().is_none_or(|tenant| tenant == lease.ticket));
    let units = units.filter_map(|unit| match unit.state {
        unit::State::Free | unit::State::Ready { .. } => None,
        unit::State::SettingUp { .. }
        | unit::State::Abandoned { .. }
        | unit::State::TearingDown { .. }
        | unit::State::Quarantined => Some((unit.id, view::plain(unit.state.word()))),
    });
    Some((says, units.collect()))
}
