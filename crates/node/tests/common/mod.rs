//! A small deployment to test and to measure: a site, a broker, a guest, drivers that do nothing.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod apart;
pub(crate) mod gate;
pub(crate) mod process;

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::sync::Arc;

use tenure_core::actor::{Peer, Peers, Role, Setup};
use tenure_core::broker::Broker;
use tenure_core::driver::{Answer, Call, DriverError, GuestDriver, ResourceDriver, UnitId};
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::first_fit::FirstFit;
use tenure_core::model::identity::{ActorId, Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::Attributes;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::AnyActor;
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_core::service_manager::ServiceManager;
use tenure_core::service_manager::group::Handling;
use tenure_core::service_manager::mapper::{Ask, Decision, ServiceManagerMapper, View};
use tenure_core::site_authority::{Offer, Plan, SiteAuthority, Stock};
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::Provisos;
use tenure_core::wire::request::Item;
use tenure_node::clock::{Clock, WallClock};
use tenure_node::deployment::{Deployment, Running, StartError};
use tenure_node::host::{
    ActorBuilder, ActorInfo, CallLimits, Driver, Handle, HostError, Limits, Part,
};
use tenure_node::journal::{Disk, SystemDisk};
use tenure_wait::{DEADLINE, eventually_async, in_time};

/// Mostly too long: what is lost in one process is lost by a crash.
const TIMEOUT: RetryPolicy =
    RetryPolicy { first: Span::from_micros(200_000), longest: Span::from_secs(5) };

/// What is built.
#[derive(Clone)]
pub(crate) struct Plans {
    /// Units at each site.
    pub(crate) units: u32,
    /// How many sites there are.
    pub(crate) sites: u8,
    /// How many guests there are.
    pub(crate) guests: u8,
    /// The bound on the difference of clocks.
    pub(crate) margin: Span,
    /// Whether signatures are made.
    pub(crate) scheme: Scheme,
    /// The site's driver.
    pub(crate) site: Arc<dyn ResourceDriver>,
    /// The guest's mapper.
    pub(crate) guest: fn() -> Box<dyn ServiceManagerMapper>,
    /// On how many threads.
    pub(crate) threads: usize,
    /// How much the drivers are asked to do at a time, and how long it may take.
    pub(crate) calls: CallLimits,
    /// The resource limits of its hosts.
    pub(crate) limits: Limits,
}

impl Default for Plans {
    fn default() -> Self {
        Self {
            units: 4,
            sites: 1,
            guests: 1,
            margin: Span::from_micros(1000),
            scheme: Scheme::Ed25519,
            site: Arc::new(Nothing),
            guest: || Box::new(Idle),
            threads: 2,
            calls: CallLimits::DEFAULT,
            limits: Limits::default(),
        }
    }
}

/// A mapper that wants nothing: the tests command.
pub(crate) struct Idle;

impl ServiceManagerMapper for Idle {
    fn decide(&self, view: &View) -> Decision {
        Decision { round: view.round(), ..Decision::default() }
    }
}

/// A driver that has done everything at once.
pub(crate) struct Nothing;

impl ResourceDriver for Nothing {
    fn perform(&self, _: &Call) -> Answer {
        Answer { outcome: Ok(Properties::default()), after: Span::ZERO }
    }

    fn probe(&self, _: ActorId, _: UnitId) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }
}

impl GuestDriver for Nothing {
    fn perform(&self, call: &Call) -> Answer {
        ResourceDriver::perform(self, call)
    }

    fn probe(&self, site: ActorId, unit: UnitId) -> Result<Properties, DriverError> {
        ResourceDriver::probe(self, site, unit)
    }
}

/// A driver that is shared.
struct Shared(Arc<dyn ResourceDriver>);

impl ResourceDriver for Shared {
    fn perform(&self, call: &Call) -> Answer {
        self.0.perform(call)
    }

    fn probe(&self, site: ActorId, unit: UnitId) -> Result<Properties, DriverError> {
        self.0.probe(site, unit)
    }
}

pub(crate) const ROLES: [(&str, Role); 3] =
    [("broker", Role::Broker), ("guest", Role::ServiceManager), ("site", Role::SiteAuthority)];

/// The type of all units.
pub(crate) fn node() -> Name {
    Name::literal("node")
}

pub(crate) fn signer(plans: &Plans, index: u8) -> Signer {
    Signer::from_seed(plans.scheme, [index + 1; 32])
}

/// All actors: those of [`ROLES`], then more guests and sites.
fn roster(plans: &Plans) -> Vec<(Name, Role)> {
    let first = ROLES.map(|(name, role)| (Name::literal(name), role));
    let guest = |number| Name::new(&format!("guest-{number}")).expect("a name");
    let guests = (2..=plans.guests).map(|number| (guest(number), Role::ServiceManager));
    let site = |number| Name::new(&format!("site-{number}")).expect("a name");
    let sites = (2..=plans.sites).map(|number| (site(number), Role::SiteAuthority));
    first.into_iter().chain(guests).chain(sites).collect()
}

/// The parts of a deployment whose journals are in `folder`.
pub(crate) fn parts(folder: &Path, plans: &Plans) -> Vec<Part> {
    let broker = signer(plans, 0).id();
    let roster = roster(plans);
    let peers: Peers = (0..)
        .zip(&roster)
        .map(|(index, (name, role))| {
            (signer(plans, index).id(), Peer { name: name.clone(), role: *role })
        })
        .collect();
    let part = |(index, (name, role)): (u8, &(Name, Role))| {
        let role = *role;
        let setup = Setup {
            name: name.clone(),
            signer: signer(plans, index),
            margin: plans.margin,
            peers: peers.clone(),
        };
        let site: Box<dyn ResourceDriver> = Box::new(Shared(plans.site.clone()));
        let driver = match role {
            Role::Broker => None,
            Role::SiteAuthority => Some(Arc::new(Driver::Site(site))),
            Role::ServiceManager => Some(Arc::new(Driver::Guest(Box::new(Nothing)))),
        };
        Part {
            info: ActorInfo { name: name.clone(), role, id: setup.signer.id() },
            build: builder(setup, role, plans.clone(), broker),
            journal: folder.join(format!("{name}.journal")),
            driver,
            adapters: None,
            calls: plans.calls,
            custody: None,
            retry_policy: TIMEOUT,
            fail_after: None,
        }
    };
    (0..).zip(&roster).map(part).collect()
}

fn builder(setup: Setup, role: Role, plans: Plans, broker: ActorId) -> ActorBuilder {
    Arc::new(move || {
        let setup = setup.clone();
        Ok(match role {
            Role::Broker => HostedActor::broker(Broker::new(setup), Box::new(Fcfs::default())),
            Role::ServiceManager => HostedActor::service_manager(
                ServiceManager::new(setup, Span::ZERO),
                (plans.guest)(),
            ),
            Role::SiteAuthority => {
                let plan = plan(plans.units, broker);
                HostedActor::site_authority(SiteAuthority::new(setup, plan), Box::new(FirstFit {}))
            }
        })
    })
}

fn plan(units: u32, broker: ActorId) -> Plan {
    let stock = Stock {
        resource: node(),
        attributes: Attributes::default(),
        units,
        named: Default::default(),
    };
    let offer = Offer {
        broker,
        resource: node(),
        unit: None,
        units: NonZeroU32::new(units).expect("a site has units"),
        length: Span::DAY.times(30),
        renew_before: Span::DAY,
    };
    Plan { stock: vec![stock], offers: vec![offer], ..Plan::default() }
}

/// Starts the parts on the clock of the machine, and waits until the broker has something to sell.
pub(crate) async fn start(folder: &Path, plans: &Plans) -> Running {
    start_on(folder, plans, Arc::new(SystemDisk)).await.expect("it starts")
}

/// As [`start`], with the journals on a disk of the test's.
pub(crate) async fn start_on(
    folder: &Path,
    plans: &Plans,
    disk: Arc<dyn Disk + Sync>,
) -> Result<Running, StartError> {
    let clock: Arc<dyn Clock> = Arc::new(WallClock::new());
    let threads = NonZeroUsize::new(plans.threads).expect("at least one thread");
    let (parts, limits) = (parts(folder, plans), plans.limits);
    let running =
        Deployment { parts, clock, threads, limits, network: None }.start_on(disk).await?;
    stocked(&of(&running, Role::Broker)).await;
    Ok(running)
}

/// Waits until a broker has something to sell.
pub(crate) async fn stocked(broker: &Handle) {
    let stocked = |hosted: &AnyActor| match hosted {
        AnyActor::Broker(actor) => actor.ledger().accounts().next().is_some(),
        AnyActor::ServiceManager(_) | AnyActor::SiteAuthority(_) => false,
    };
    eventually_async(DEADLINE, "a broker that has something to sell", async || {
        matches!(broker.query(stocked).await, Ok(true) | Err(HostError::Stopped(_)))
    })
    .await;
}

/// What a test gives, which must come to its end.
pub(crate) fn block_on<T>(system: &actix::SystemRunner, test: impl Future<Output = T>) -> T {
    system.block_on(in_time(3 * DEADLINE, "the end of the test", test))
}

/// A handle by role.
pub(crate) fn of(running: &Running, role: Role) -> Handle {
    let mut all = running.handles().filter(|handle| handle.info().role == role);
    all.next().expect("an actor of that role").clone()
}

/// All guests.
pub(crate) fn guests(running: &Running) -> Vec<Handle> {
    let guests = running.handles().filter(|handle| handle.info().role == Role::ServiceManager);
    guests.cloned().collect()
}

/// The request for `units` units for so long from now on.
pub(crate) fn ask(units: u32, now: Time, duration: Span) -> Ask {
    let units = NonZeroU32::new(units).expect("a positive number of units");
    Ask {
        broker: None,
        slice: Name::literal("default"),
        items: vec![Item::new(node(), units)],
        earliest: now,
        latest: now.plus(Span::HOUR),
        duration,
        min_duration: duration,
        provisos: Provisos::NONE,
        again: None,
        reply: Reply::Grant,
        answer_by: now.plus(Span::HOUR),
        properties: Properties::default(),
        configuration: Properties::default(),
        reason: "a test".to_owned(),
        handling: Handling::default(),
    }
}

/// The time that the deployments of [`start`] go by.
pub(crate) fn now() -> Time {
    WallClock::new().now()
}

/// The word for the state of a guest's lease: empty if it is not known, `down` if the actor does not answer.
pub(crate) async fn state(guest: &Handle, lease: LeaseId) -> String {
    let word = guest.query(move |hosted| {
        let AnyActor::ServiceManager(actor) = hosted else { return String::new() };
        actor.standing(lease).map_or_else(String::new, |state| state.word().to_owned())
    });
    word.await.unwrap_or_else(|_| "down".to_owned())
}

/// Waits until a lease is in a state.
///
/// # Panics
/// If it has ended instead.
pub(crate) async fn until(guest: &Handle, lease: LeaseId, wanted: &str) {
    eventually_async(DEADLINE, &format!("lease {lease} to be {wanted}"), async || {
        let is = state(guest, lease).await;
        let is_over = matches!(is.as_str(), "Closed" | "");
        assert!(is == wanted || !is_over, "lease {lease} was to be {wanted}");
        is == wanted
    })
    .await;
}
