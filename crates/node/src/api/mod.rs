//! The control API: requests and answers, one JSON object a line, over a Unix socket.
//!
//! A connection is taken from the user who runs the deployment, from root, and from members of a group that is
//! configured; the kernel says who it is.
//! A request that changes state is answered once the change is durable.
//! Times are RFC 3339 in UTC, lengths of time text such as `2h`, hashes hexadecimal.

mod ambiguity;
mod asker;
mod attempt;
mod availability;
mod broker_view;
mod change;
pub mod client;
mod connection;
mod delegate;
mod delegation_view;
mod group;
mod keys;
mod leases;
mod member;
mod peers;
pub mod demand;
mod near;
mod news;
mod offer;
mod operate;
mod probe;
mod proof;
mod sense;
mod recall;
mod rehearsal;
mod report;
mod routes;
mod server;
mod order;
mod service;
mod session;
pub(crate) mod passing;
mod requests;
mod service_adapter;
mod service_change;
mod service_check;
mod service_name;
mod service_plan;
mod service_watch;
mod service_warnings;
mod service_why;
mod forwarding;
mod sharing;
mod site_view;
mod tickets;
mod ticket_hash;
mod unit_run;
mod drift;
pub mod moment;
mod plan;
mod view;
mod watch;
mod lease_request;
mod why;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_core::broker::quota::Quota;
use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::{Attributes, Expr};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_core::service::definition::Definition;
use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::Members;
use tenure_core::service_manager::Victims;
use tenure_core::service_manager::plan::PackageReport;
use tenure_core::service_manager::sequence::After;
use tenure_core::service_manager::services::Found;
use thiserror::Error;

use self::moment::Moment;

pub use ambiguity::ClaimView;
pub use attempt::AttemptView;
pub use availability::{AvailabilityRequest, AvailabilityView, FreeView};
pub use broker_view::{BrokerView, QuotaView, RequestView};
pub use connection::{Limits, serve};
pub use delegate::{BrokerDelegation, DelegationName, SiteDelegation};
pub use delegation_view::DelegationView;
pub use forwarding::{AcceptRequest, NeighbourRequest};
pub use keys::{KeyView, KeysView};
pub use leases::{MAX_LEASES, More, WantedLeases};
pub use member::MemberView;
pub use offer::{InTheWayView, OfferPartView, OfferView, QueueView};
pub use order::{NeedView, OrderView};
pub use peers::{
    InvitationView, InviteRequest, JoinRequest, PeerChange, PeerView, RelationKind,
    RelationRequest, UnreachableView,
};
pub use plan::{HoldView, PackageView, PlacementView, PlanName, PlanProposal, PlanView};
pub use probe::ProbeView;
pub use proof::{EvidenceView, LinkView, TicketView};
pub use recall::{RecallView, RecalledView};
pub use report::ReportRequest;
pub use routes::{AgreementView, EntryView, RouteKind, RouteView};
pub use server::AppState;
pub use service::{BlacklistedView, DemandView, ServiceView, SloView};
pub use service_adapter::AdapterView;
pub use service_name::ServiceName;
pub use service_plan::{PlannedService, PlannedStep, ServicePlanView};
pub use session::{OnLoss, SessionRequest, SessionView};
pub use sharing::{LentView, SellingView, ShareRequest, SharingView};
pub use site_view::{OverbookedView, SiteLeaseView, SiteView, StackHolder, StackView, UnitView};
pub use tickets::{HeldTicketView, SplitRequest, TakeRequest};
pub use unit_run::{RunRequest, RunView};
pub(crate) use view::time;
pub use view::{
    ActorView, ClockApartView, ClockStepView, FidelityView, LeaseUnitView, LeaseView, RefusalView,
    SliceView, StatusView, SumView, WaitView,
};
pub use why::{BookingView, FactView, FaultView, Finding, PendingView, WhyView};

/// The version of requests and answers.
pub const VERSION: u32 = 1;

/// The longest request, in bytes.
pub const MAX_REQUEST: usize = 1 << 20;

/// What an operator does to a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitAct {
    /// It gets no new tenant from now on.
    Drain,
    /// The same, and the lease that it is on has to do without it from this instant on.
    DrainBy(Moment),
    /// It is in service again.
    Resume,
    /// It is taken out of use, for this reason; it is on no lease.
    Quarantine(String),
    /// It has failed on the lease that has it, in this way.
    Fail(String),
    /// It was put right, and is cleaned once more.
    Reset,
    /// It is withdrawn for good.
    Remove,
}

/// Units that a site gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewUnits {
    /// The site.
    pub site: Name,
    /// Their type, which the site has.
    pub resource: Name,
    /// How many.
    pub units: NonZeroU32,
    /// Their names; none, or as many as there are units.
    pub names: Vec<Name>,
    /// What those with names are like, beyond what all units of the type are.
    pub attributes: Attributes,
}

impl Request {
    /// How long what is asked for may take by itself, beside the time that any request may take.
    fn takes(&self) -> Duration {
        let Self::RunOnUnit(run) = self else { return Duration::ZERO };
        Duration::from_micros(u64::try_from(run.timeout.as_micros()).unwrap_or_default())
    }
}

/// What can be asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Request {
    /// How the deployment is: a [`StatusView`].
    Status,
    /// Counters and histograms of all actors: text in the format of Prometheus.
    Metrics,
    /// A lease: one [`LeaseView`], in which it waits for its broker.
    Ask(Box<LeaseRequest>),
    /// More time for a lease, or all parts of a request: a list of [`LeaseView`].
    Extend {
        /// Which.
        lease: LeaseName,
        /// How much longer.
        duration: Span,
        /// With how many units, if not all of them go on.
        #[serde(default)]
        units: Option<NonZeroU32>,
        /// Which units do not go on.
        #[serde(default = "youngest")]
        victims: Victims,
    },
    /// Some units of a lease, given back: a list of [`LeaseView`].
    Flex {
        /// Which.
        lease: LeaseName,
        /// How many units.
        shrink: NonZeroU32,
        /// Which units.
        #[serde(default = "youngest")]
        victims: Victims,
        /// Whether the software of its service may refuse to leave none of its units any more.
        #[serde(default)]
        force: bool,
    },
    /// The rest of a lease's term, given back: a list of [`LeaseView`].
    Shorten {
        /// Which.
        lease: LeaseName,
        /// When it ends.
        until: Moment,
    },
    /// Some properties of a lease's configuration, changed in place: a list of [`LeaseView`].
    Modify {
        /// Which.
        lease: LeaseName,
        /// The properties that change or are added.
        configuration: Properties,
    },
    /// More units for a lease, as long as it lasts: a list of [`LeaseView`], the lease and the further one.
    Grow {
        /// Which.
        lease: LeaseName,
        /// How many more.
        units: NonZeroU32,
        /// What must hold of them.
        condition: Option<String>,
    },
    /// A kept ticket, or all of a request, redeemed: a list of [`LeaseView`].
    Redeem {
        /// Which.
        lease: LeaseName,
    },
    /// Parts of a kept ticket handed on: a list of [`TicketView`].
    Split(Box<SplitRequest>),
    /// A ticket that did not come from a broker, to be redeemed or kept: its [`LeaseView`].
    Take(Box<TakeRequest>),
    /// The tickets that are kept, and the parts handed on: a list of [`HeldTicketView`].
    Tickets {
        /// Of this service manager only.
        manager: Option<Name>,
    },
    /// A lease, or all parts of a request, given back: a list of [`LeaseView`].
    Close {
        /// Which.
        lease: LeaseName,
        /// When the units have to be left by, if they have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Moment>,
        /// Whether the software of its service may refuse to leave none of its units any more.
        #[serde(default)]
        force: bool,
    },
    /// An offer of a request is taken: a list of [`LeaseView`], of a new request if it was not held.
    Accept {
        /// The request.
        lease: LeaseName,
        /// Which offer.
        offer: u8,
    },
    /// A request that is not granted is withdrawn, and what is held for it given up: a list of [`LeaseView`].
    Withdraw {
        /// The request.
        lease: LeaseName,
    },
    /// A request that is open is replaced; it keeps its age and its place: a list of [`LeaseView`].
    Revise(Box<ReviseRequest>),
    /// The leases: a list of [`LeaseView`].
    Leases(WantedLeases),
    /// One lease, or all parts of a request: a list of [`LeaseView`].
    Lease {
        /// Which.
        lease: LeaseName,
    },
    /// The same, now and again whenever something changes: one [`LeaseView`] a line, without an end.
    Watch {
        /// Which; all of them unless set.
        lease: Option<LeaseName>,
    },
    /// Why a lease, or each part of a request, is as it is: a list of [`WhyView`].
    Why {
        /// Which.
        lease: LeaseName,
    },
    /// The slices: a list of [`SliceView`].
    Slices,
    /// The sites, or one: a list of [`SiteView`].
    Sites {
        /// This one only.
        site: Option<Name>,
    },
    /// The brokers, or one: a list of [`BrokerView`].
    Brokers {
        /// This one only.
        broker: Option<Name>,
    },
    /// What is free at brokers, asked by a service manager: a list of [`AvailabilityView`].
    Availability(Box<AvailabilityRequest>),
    /// The orders of all brokers, or of one, that have not ended: a list of [`OrderView`].
    Orders {
        /// Of this broker only.
        broker: Option<Name>,
    },
    /// What brokers know of services: a list of [`NeedView`].
    Needs {
        /// Of this broker only.
        broker: Option<Name>,
    },
    /// A report on services, from the journals of this process: a list of its [rows](tenure_report::rows).
    Report(Box<ReportRequest>),
    /// The quotas of all brokers, or of one: a list of [`QuotaView`].
    Quotas {
        /// Of this broker only.
        broker: Option<Name>,
    },
    /// A quota is set, or, without one, the configured one is in force again: a list of [`QuotaView`].
    SetQuota {
        /// The broker.
        broker: Name,
        /// The service manager, or the broker that passes requests on; each without a quota of its own unless set.
        peer: Option<Name>,
        /// All that is limited.
        quota: Option<Quota>,
    },
    /// Another process of the same user takes over: this one takes no more requests, passes its sockets by this
    /// connection, and ends.
    TakeOver,
    /// A session is held by this connection: its [`SessionView`]. Nothing more comes until it is closed or lost, by an
    /// error; it ends at once with the connection.
    HoldSession(SessionRequest),
    /// A session is opened that ends with a process: its [`SessionView`].
    OpenSession(SessionRequest),
    /// The sessions that are open: a list of [`SessionView`].
    Sessions,
    /// One session: its [`SessionView`].
    Session {
        /// Which.
        session: Name,
    },
    /// A session is closed, and its leases go back: a list of [`LeaseView`].
    CloseSession {
        /// Which.
        session: Name,
    },
    /// What brokers share with each other: a list of [`SharingView`].
    Sharings {
        /// One broker; all unless set.
        broker: Option<Name>,
    },
    /// A broker shares units with another one from now on, or other ones: a list of [`SharingView`].
    Share(Box<ShareRequest>),
    /// Where brokers have units from, and where they pass requests on to: a list of [`RouteView`].
    Routes {
        /// One broker; all unless set.
        broker: Option<Name>,
        /// Items: adverts of other units are left out.
        demand: Option<String>,
    },
    /// What is agreed with another broker on requests is set: the neighbours, a list of [`RouteView`].
    SetNeighbour(Box<NeighbourRequest>),
    /// Whether brokers sell, and what they have sold: a list of [`SellingView`].
    Selling {
        /// One broker; all unless set.
        broker: Option<Name>,
    },
    /// A broker sells nothing more, or sells again: a list of [`SellingView`].
    Sell {
        /// The broker.
        broker: Name,
        /// Whether it sells.
        sells: bool,
    },
    /// Something is done to a unit of a site: its [`SiteView`].
    Unit {
        /// The site.
        site: Name,
        /// The unit, by its number (`u3`) or its name.
        unit: Name,
        /// What is done.
        act: UnitAct,
    },
    /// A site gets units: its [`SiteView`].
    Add(Box<NewUnits>),
    /// A ticket of a service manager's: a [`TicketView`].
    Ticket {
        /// The beginning of its hash.
        hash: String,
    },
    /// Units of a site are delegated by hand: a list of [`SiteView`].
    DelegateOfSite(Box<SiteDelegation>),
    /// Units of a broker are delegated to another: a list of [`BrokerView`].
    DelegateOfBroker(Box<BrokerDelegation>),
    /// Units of a delegation are given back by its broker: a list of [`BrokerView`].
    GiveBack {
        /// The broker.
        broker: Name,
        /// The delegation.
        delegation: DelegationName,
        /// How many units.
        units: NonZeroU32,
        /// From when on; from now on unless set.
        #[serde(default)]
        from: Option<Moment>,
    },
    /// Units of a ticket are recalled by who issued it, or a recall is withdrawn: a [`RecallView`].
    Recall {
        /// The beginning of the ticket's hash, or the lease that it became.
        ticket: String,
        /// How many units stay; without a number the last recall is withdrawn.
        units: Option<u32>,
        /// From when on; from now on unless set.
        #[serde(default)]
        from: Option<Moment>,
    },
    /// The actors of other processes, or those of a name: a list of [`PeerView`].
    Peers {
        /// Which.
        #[serde(default)]
        peer: Option<Name>,
    },
    /// An actor invites another one to be its peer: an [`InvitationView`].
    Invite(Box<InviteRequest>),
    /// An actor takes an invitation: a list of one [`PeerView`], of who has invited.
    Join(Box<JoinRequest>),
    /// A peer by invitation is reached elsewhere, or may do something else: a list of one [`PeerView`].
    ChangePeer(Box<PeerChange>),
    /// A peer by invitation is none any more: a list of one [`PeerView`], as it was last.
    RemovePeer {
        /// Which.
        peer: Name,
        /// Of this actor only.
        #[serde(default)]
        of: Option<Name>,
    },
    /// The keys of an actor, or of all: a list of [`KeysView`].
    Keys {
        /// Which.
        #[serde(default)]
        actor: Option<Name>,
    },
    /// An actor gets a new key: a list of one [`KeysView`].
    RotateKey {
        /// Which.
        actor: Name,
    },
    /// An earlier key of an actor is void: a list of one [`KeysView`].
    RevokeKey {
        /// Which.
        actor: Name,
        /// The number of the key.
        number: u32,
    },
    /// The units of a lease that go first by a recall are named: a list of [`LeaseView`].
    Victims {
        /// Which.
        lease: LeaseName,
        /// The units.
        units: Vec<UnitId>,
    },
    /// The guest's software leaves a unit that it could not use, and joins it again: a list of [`LeaseView`].
    ResetUnit {
        /// Its lease.
        lease: LeaseName,
        /// The unit.
        unit: UnitId,
    },
    /// The last recall of a ticket, once it has taken what it takes or was refused, or after a time: a
    /// [`RecallView`].
    RecallTaken {
        /// As in [`Recall`](Self::Recall).
        ticket: String,
        /// The longest time to wait.
        timeout: Span,
    },
    /// A site recalls units of a delegation, or withdraws that: a list of [`SiteView`].
    RecallDelegation {
        /// The delegation, or the broker that has only one.
        delegation: String,
        /// How many units stay; without a number the last recall is withdrawn.
        units: Option<u32>,
        /// From when on; from now on unless set.
        #[serde(default)]
        from: Option<Moment>,
    },
    /// A plan of packages on nodes: its [`PlanView`], in which its mapper is asked.
    ProposePlan(Box<PlanProposal>),
    /// A plan once it is computed, with `installed` once all of its packages are reported, or after a time: its
    /// [`PlanView`].
    AwaitPlan {
        /// Which.
        plan: PlanName,
        /// Whether its packages are waited for too.
        #[serde(default)]
        installed: bool,
        /// The longest time to wait.
        timeout: Span,
    },
    /// A plan is accepted, and its packages are installed: its [`PlanView`].
    AcceptPlan {
        /// Which.
        plan: PlanName,
    },
    /// A plan is given up, and what it has installed is removed: its [`PlanView`].
    ReleasePlan {
        /// Which.
        plan: PlanName,
    },
    /// The guest's user reports on packages of a plan: its [`PlanView`].
    ReportPlan {
        /// Which.
        plan: PlanName,
        /// What became of them.
        reports: Vec<PackageReport>,
    },
    /// The plans that have not ended: a list of [`PlanView`].
    Plans {
        /// Of this service manager only.
        #[serde(default)]
        manager: Option<Name>,
        /// Those that have ended too, while they are remembered.
        #[serde(default)]
        all: bool,
    },
    /// One plan: its [`PlanView`].
    Plan {
        /// Which.
        plan: PlanName,
    },
    /// The nodes that service managers use, or one, each with the plan that holds it: a list of [`HoldView`].
    PlanHolds {
        /// This one only.
        #[serde(default)]
        node: Option<String>,
    },
    /// A service is added, or is to reach something else: its [`ServiceView`].
    SetService {
        /// Which.
        service: ServiceName,
        /// What it is.
        definition: Box<Definition>,
        /// Whether it is taken as it is: neither is its software looked at, nor is it asked whether somebody has such units.
        #[serde(default)]
        unchecked: bool,
    },
    /// Some keys of what a service is are changed: its [`ServiceView`].
    ChangeService {
        /// Which.
        service: ServiceName,
        /// What is set, such as `slo.wait.urgency=70`.
        #[serde(default)]
        set: Vec<String>,
        /// Which keys are left out from now on.
        #[serde(default)]
        unset: Vec<String>,
    },
    /// What a definition of a service would come to; nothing is changed: a [`ServicePlanView`].
    PlanService {
        /// Which.
        service: ServiceName,
        /// What it would be.
        definition: Box<Definition>,
        /// For how long it is tried out.
        within: Span,
    },
    /// What the services and mappers of a changed configuration would come to; nothing is changed: a
    /// [`ServicePlanView`].
    PlanConfiguration {
        /// The configuration, in TOML.
        text: String,
        /// For how long it is tried out.
        within: Span,
    },
    /// A unit is not asked for again for a service, or is: its [`ServiceView`].
    Blacklist {
        /// Which.
        service: ServiceName,
        /// The unit, such as `alpha/u3`.
        unit: String,
        /// For how long; it is asked for again if that is not said.
        #[serde(default)]
        span: Option<Span>,
    },
    /// The claims of units that several claim, or of one of them: a list of [`ClaimView`].
    Claims {
        /// What it is called, or its name as a unit.
        #[serde(default)]
        unit: Option<String>,
    },
    /// It is said whose a unit is that several claim: a list of [`ClaimView`].
    Resolve {
        /// What it is called, or its name as a unit.
        unit: String,
        /// Whose it is: a service, or the unit of a lease.
        keep: String,
    },
    /// A command run on a unit that has an executor, for the service manager that has the unit: a [`RunView`].
    RunOnUnit(RunRequest),
    /// A service that does not run is forgotten; its leases stay: its [`ServiceView`], as it was last.
    RemoveService {
        /// Which.
        service: ServiceName,
    },
    /// A service was measured: its [`ServiceView`].
    ReportService {
        /// Which.
        service: ServiceName,
        /// All KPIs.
        #[serde(default)]
        kpis: Kpis,
        /// How it was found.
        #[serde(default)]
        seen: Found,
        /// What takes part in it without a lease, with whether it is up.
        #[serde(default)]
        members: Members,
    },
    /// The adapter of a service starts its software: its [`ServiceView`], as it was found then.
    StartService {
        /// Which.
        service: ServiceName,
    },
    /// The adapter of a service stops its software: its [`ServiceView`], as it was found then.
    StopService {
        /// Which.
        service: ServiceName,
        /// Whether its leases are given back then.
        #[serde(default)]
        free_units: bool,
    },
    /// Services, now and again whenever something changes: one [`ServiceView`] a line, without an end.
    WatchServices {
        /// Which; all of them unless set.
        #[serde(default)]
        service: Option<ServiceName>,
    },
    /// All services: a list of [`ServiceView`].
    Services {
        /// Of this service manager only.
        #[serde(default)]
        manager: Option<Name>,
    },
    /// One service: its [`ServiceView`].
    Service {
        /// Which.
        service: ServiceName,
    },
}

fn youngest() -> Victims {
    Victims::Youngest
}

/// A request for a lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LeaseRequest {
    /// The service manager that asks; may be left out if there is only one without a demand of its own.
    pub manager: Option<Name>,
    /// Whom it asks; its first broker unless set.
    pub broker: Option<Name>,
    /// An idempotency key: asking again under the same id is answered the same lease, unless it was refused
    /// and may be had later.
    pub id: Option<String>,
    /// The slice.
    pub slice: Name,
    /// What is wanted: a [demand](tenure_expr::demand), of what the protocol can say.
    pub demand: String,
    /// For how long.
    pub duration: Span,
    /// How short a term would do; the whole unless set.
    #[serde(default)]
    pub min_duration: Option<Span>,
    /// Whether only a plan is asked for: nothing is booked.
    #[serde(default)]
    pub plan: bool,
    /// How long offers are to be held, to choose from.
    #[serde(default)]
    pub hold: Option<Span>,
    /// If it goes to several brokers: of each item of the demand and then of each link, whom to ask. Each of them
    /// holds its items for `hold`, 5 minutes unless set. A link whose ends are other brokers' is one edge.
    #[serde(default)]
    pub brokers: Vec<Name>,
    /// How many attempts there are at most if it goes to several brokers; 5 unless set.
    #[serde(default)]
    pub tries: Option<u32>,
    /// The earliest start.
    #[serde(default)]
    pub start: Moment,
    /// The latest start; the earliest unless set.
    #[serde(default)]
    pub latest: Option<Moment>,
    /// For the site's driver.
    #[serde(default)]
    pub configuration: Properties,
    /// Whether its leases share one fate for life.
    #[serde(default)]
    pub bundle: bool,
    /// How long after its start each lease may take to get its units; 15 minutes unless set.
    #[serde(default)]
    pub assemble: Option<Span>,
    /// Whether its tickets are kept and not redeemed yet.
    #[serde(default)]
    pub keep_ticket: bool,
    /// The notice after which units in use may be recalled; without one none is accepted.
    #[serde(default)]
    pub notice: Option<Span>,
    /// How long no recall may take units in use.
    #[serde(default)]
    pub min_tenure: Option<Span>,
    /// Why, in the user's words.
    #[serde(default)]
    pub reason: String,
    /// When its tickets have to be redeemed by.
    #[serde(default)]
    pub redeem_by: Option<Moment>,
    /// Sites that no unit is to come from.
    #[serde(default)]
    pub not_sites: BTreeSet<Name>,
    /// Whether its items are to come from different sites, each from one.
    #[serde(default)]
    pub apart: bool,
    /// Units that are not wanted, each by its site and its number there.
    #[serde(default)]
    pub not_units: BTreeSet<(Name, UnitId)>,
    /// The units that alone are wanted, of one site; empty if any will do.
    #[serde(default)]
    pub only_units: BTreeSet<(Name, UnitId)>,
    /// A lease at whose site all units are to be.
    #[serde(default)]
    pub with: Option<LeaseName>,
    /// A lease, over or not, whose site is preferred, and there its units. Without a demand, as many of its types are
    /// asked for.
    #[serde(default)]
    pub again: Option<LeaseName>,
    /// What has to be in use before its leases are redeemed, or their units joined.
    #[serde(default)]
    pub after: Vec<After>,
    /// The links between its items, which are numbered from 0.
    #[serde(default)]
    pub links: Vec<LinkRequest>,
    /// For the broker's mapper.
    #[serde(default)]
    pub properties: Properties,
}

impl LeaseRequest {
    /// Sets a property for the site's driver.
    fn configure(&mut self, key: &'static str, value: String) -> Result<(), ApiError> {
        let mut all: BTreeMap<Name, String> = std::mem::take(&mut self.configuration).into();
        all.insert(Name::literal(key), value);
        let configuration = Properties::try_from(all);
        self.configuration = configuration
            .map_err(|error| ApiError::new(Code::Usage, format!("the properties: {error}")))?;
        Ok(())
    }

    /// A request for units of a slice, from now on, for so long, without any condition.
    pub fn new(slice: Name, demand: String, duration: Span) -> Self {
        Self {
            manager: None,
            broker: None,
            id: None,
            slice,
            demand,
            duration,
            min_duration: None,
            plan: false,
            hold: None,
            brokers: Vec::new(),
            tries: None,
            start: Moment::NOW,
            latest: None,
            configuration: Properties::default(),
            bundle: false,
            assemble: None,
            keep_ticket: false,
            notice: None,
            min_tenure: None,
            reason: String::new(),
            redeem_by: None,
            not_sites: BTreeSet::new(),
            apart: false,
            not_units: BTreeSet::new(),
            only_units: BTreeSet::new(),
            with: None,
            again: None,
            after: Vec::new(),
            links: Vec::new(),
            properties: Properties::default(),
        }
    }
}

/// A link between two items of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LinkRequest {
    /// The items at its ends.
    pub ends: [u16; 2],
    /// How much of each edge on its path.
    pub bandwidth: NonZeroU32,
    /// How little would do; `bandwidth` unless set.
    #[serde(default)]
    pub min_bandwidth: Option<NonZeroU32>,
    /// What its edges carry; `bandwidth` unless set.
    #[serde(default = "bandwidth")]
    pub resource: Name,
    /// The most edges on its path.
    #[serde(default)]
    pub hops: Option<u8>,
    /// The most latency of its path.
    #[serde(default)]
    pub latency: Option<Span>,
    /// What must hold of each edge.
    #[serde(default)]
    pub condition: Option<Expr>,
}

/// A length of time for which a user waits.
fn pause(span: Span) -> Duration {
    Duration::from_micros(u64::try_from(span.as_micros()).unwrap_or_default())
}

fn bandwidth() -> Name {
    Name::literal("bandwidth")
}

/// What replaces a request that is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReviseRequest {
    /// The request.
    pub lease: LeaseName,
    /// What is asked for now. Broker, slice, configuration and what becomes of the tickets stay.
    pub wanted: LeaseRequest,
}

/// Names a lease, or all parts of a request: `guest/3`, `guest/3.1`, and `3` where only one service
/// manager can be meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LeaseName {
    /// The service manager.
    pub manager: Option<Name>,
    /// The number of the request.
    pub number: u64,
    /// The part of it; all of them unless set.
    pub part: Option<u16>,
}

impl LeaseName {
    /// Whether a lease of the right service manager is meant.
    pub fn means(&self, id: LeaseId) -> bool {
        self.number == id.number && self.part.is_none_or(|part| part == id.part)
    }
}

/// Text that names no lease.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` names no lease: write `3`, `3.1` or `guest/3.1`")]
pub struct BadLeaseName(String);

impl FromStr for LeaseName {
    type Err = BadLeaseName;

    fn from_str(text: &str) -> Result<Self, BadLeaseName> {
        let bad = || BadLeaseName(text.to_owned());
        let (manager, id) = match text.split_once('/') {
            Some((manager, id)) => (Some(Name::new(manager).map_err(|_| bad())?), id),
            None => (None, text),
        };
        let (number, part) = match id.split_once('.') {
            Some((number, part)) => (number, Some(part.parse().map_err(|_| bad())?)),
            None => (id, None),
        };
        Ok(Self { manager, number: number.parse().map_err(|_| bad())?, part })
    }
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(manager) = &self.manager {
            write!(f, "{manager}/")?;
        }
        write!(f, "{}", self.number)?;
        self.part.map_or(Ok(()), |part| write!(f, ".{part}"))
    }
}

impl TryFrom<String> for LeaseName {
    type Error = BadLeaseName;

    fn try_from(text: String) -> Result<Self, BadLeaseName> {
        text.parse()
    }
}

impl From<LeaseName> for String {
    fn from(name: LeaseName) -> Self {
        name.to_string()
    }
}

/// One line of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// What was asked for.
    Ok {
        /// It.
        ok: serde_json::Value,
        /// What follows, of a list that is cut short.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        more: Option<More>,
    },
    /// Why not.
    Error {
        /// It.
        error: ApiError,
    },
}

impl Answer {
    fn whole(ok: serde_json::Value) -> Self {
        Self::Ok { ok, more: None }
    }
}

impl From<ApiError> for Answer {
    fn from(error: ApiError) -> Self {
        Self::Error { error }
    }
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ApiError {
    /// What kind of no it is.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Kinds of no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// There is no such thing, and can never be.
    NoSuch,
    /// Not now; later perhaps.
    Busy,
    /// Not to this asker.
    Denied,
    /// What was asked makes no sense.
    Usage,
    /// It went wrong; it may have happened all the same.
    Failed,
    /// The session is not open, or not any more.
    SessionClosed,
}

impl ApiError {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None }
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_named_as_it_is_printed() {
        for text in ["3", "3.1", "guest/3", "guest/3.1"] {
            assert_eq!(text.parse::<LeaseName>().unwrap().to_string(), text);
        }
        for text in ["", "x", "3.", "guest/", "/3", "Guest/3", "3.1.2", "3.99999"] {
            assert!(text.parse::<LeaseName>().is_err(), "{text}");
        }
    }

    #[test]
    fn requests_are_plain_json() {
        let request = Request::Extend {
            lease: "guest/3".parse().unwrap(),
            duration: Span::HOUR,
            units: None,
            victims: Victims::Youngest,
        };
        let text = serde_json::to_string(&request).unwrap();
        let plain = r#"{"do":"extend","lease":"guest/3","duration":"1h","units":null,"victims":"youngest"}"#;
        assert_eq!(text, plain);
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
    }
}
