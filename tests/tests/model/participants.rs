//! Who takes part: two guests, a broker and a site, a second broker in some cases, and how each is built.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use tenure_core::actor::{Peer, Role, Setup};
use tenure_core::broker::Broker;
use tenure_core::broker::forwarding::{Accepted, Neighbour, Reach};
use tenure_core::broker::mapper as broker;
use tenure_core::broker::mapper::BrokerMapper;
use tenure_core::broker::sharing::Sharing;
use tenure_core::runtime::host::Host;
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_core::runtime::{AnyActor, Decision, Input};

use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::first_fit::FirstFit;
use tenure_core::mapper::route::Routed;
use tenure_core::model::identity::{ActorId, Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::resource::Attributes;
use tenure_core::model::time::{Span, Time};
use tenure_core::service_manager::ServiceManager;
use tenure_core::service_manager::mapper as service_manager;
use tenure_core::site_authority::mapper::SiteAuthorityMapper as _;
use tenure_core::site_authority::{Offer, Plan, SiteAuthority, Stock};

use super::cases::{BrokerPolicy, Case, Network};
use super::identity;

/// The places of the actors in a [`World`](super::world::World).
pub(crate) const GUEST: usize = 0;
pub(crate) const RIVAL: usize = 1;
pub(crate) const BROKER: usize = 2;
pub(crate) const SITE: usize = 3;
/// A broker that guests ask, and that has units from the other one, in cases with a network.
pub(crate) const FAR: usize = 4;
/// How many there are.
pub(crate) const ALL: usize = 5;
pub(crate) const NAMES: [&str; ALL] = ["guest", "rival", "broker", "site", "far-broker"];

/// The bound on the difference of two clocks: one step of the model's.
pub(crate) const MARGIN: Span = Span::from_secs(1);

/// An actor, without its mapper.
#[derive(Clone, Debug)]
pub(crate) struct Participant(pub(crate) AnyActor);

fn signer(who: usize) -> Signer {
    Signer::from_seed(Scheme::None, [u8::try_from(who).unwrap(); 32])
}

pub(crate) fn id(who: usize) -> ActorId {
    signer(who).id()
}

pub(crate) fn who(id: ActorId) -> usize {
    (0..ALL).find(|&who| self::id(who) == id).unwrap()
}

pub(crate) fn units(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

/// The types of units, in the order in which a case lists its stock.
pub(crate) fn kind(place: usize) -> Name {
    Name::literal(["node", "disk"][place])
}

/// How many take part in a case.
fn count(case: &Case) -> usize {
    if case.network.is_some() { ALL } else { FAR }
}

fn setup(who: usize, case: &Case) -> Setup {
    let (guest, broker) = (Role::ServiceManager, Role::Broker);
    let roles = [guest, guest, broker, Role::SiteAuthority, broker];
    let peer = |who: usize| Peer { name: Name::literal(NAMES[who]), role: roles[who] };
    let peers = (0..count(case)).map(|who| (id(who), peer(who))).collect();
    Setup { name: Name::literal(NAMES[who]), signer: signer(who), margin: MARGIN, peers }
}

impl Participant {
    /// The actor as it is before its first fact.
    pub(crate) fn build(who: usize, case: &Case) -> Self {
        match who {
            BROKER | FAR => Self(broker_of(who, case).into()),
            SITE => Self(SiteAuthority::new(setup(who, case), plan(case)).into()),
            _ => {
                let leave_before = Span::from_secs(case.leave_before);
                Self(ServiceManager::new(setup(who, case), leave_before).into())
            }
        }
    }

    pub(crate) fn actor(&self) -> &AnyActor {
        &self.0
    }

    pub(crate) fn actor_mut(&mut self) -> &mut AnyActor {
        &mut self.0
    }

    /// A host for one input. Nothing is repeated: a message stays in the network for ever.
    pub(crate) fn host(&self) -> Host {
        Host::new(self.0.clone(), RetryPolicy { first: Span::DAY, longest: Span::DAY })
    }

    /// What decides how it continues.
    pub(crate) fn identity(&self) -> String {
        match &self.0 {
            AnyActor::ServiceManager(actor) => identity::of(actor),
            AnyActor::Broker(actor) => identity::of(actor),
            AnyActor::SiteAuthority(actor) => identity::of(actor),
        }
    }

    /// Whether its mapper has a round to answer.
    pub(crate) fn has_a_round(&self) -> bool {
        match &self.0 {
            AnyActor::ServiceManager(actor) => actor.view(Time::ZERO).is_some(),
            AnyActor::Broker(actor) => actor.view(Time::ZERO).is_some(),
            AnyActor::SiteAuthority(actor) => actor.view(Time::ZERO).is_some(),
        }
    }

    /// What its mapper decides. A guest's wants nothing: the case does.
    pub(crate) fn consult(&self, now: Time, seller: BrokerPolicy) -> Option<Input> {
        let decision = match &self.0 {
            AnyActor::ServiceManager(actor) => {
                let round = actor.view(now)?.round();
                let idle = service_manager::Decision { round, ..Default::default() };
                Decision::ServiceManager(idle)
            }
            AnyActor::Broker(actor) => {
                let view = actor.view(now)?;
                Decision::Broker(match seller {
                    BrokerPolicy::Fair => Routed(Box::new(Fcfs::default())).decide(&view),
                    BrokerPolicy::Greedy => OversellingMapper.decide(&view),
                })
            }
            AnyActor::SiteAuthority(actor) => {
                Decision::SiteAuthority(FirstFit {}.decide(&actor.view(now)?))
            }
        };
        Some(Input::Decision(decision))
    }
}

/// A broker that lends the other one all that it has, or that passes requests on to it as it does in turn.
fn broker_of(who: usize, case: &Case) -> Broker {
    let broker = Broker::new(setup(who, case));
    let other = id(BROKER + FAR - who);
    match case.network {
        Some(Network::Share) if who == BROKER => {
            let term = Span::from_secs(900);
            let sharing = Sharing { units: None, reserve: 0, notice: Span::from_secs(1), term };
            broker.with_sharings(BTreeMap::from([(other, sharing)]))
        }
        Some(Network::Forward) => {
            let neighbour = Neighbour { forward: true, accept: Some(Accepted::default()) };
            broker.with_neighbours(BTreeMap::from([(other, neighbour)]), Reach::default())
        }
        Some(Network::Share) | None => broker,
    }
}

fn plan(case: &Case) -> Plan {
    let (length, renew_before) = case.delegation;
    let stock = |(place, &(has, _)): (usize, &(u32, u32))| Stock {
        resource: kind(place),
        attributes: Attributes::new(),
        units: has,
        named: Default::default(),
    };
    let offer = |(place, &(_, delegated)): (usize, &(u32, u32))| Offer {
        broker: id(BROKER),
        resource: kind(place),
        unit: None,
        units: units(delegated),
        length: Span::from_secs(length),
        renew_before: Span::from_secs(renew_before),
    };
    Plan {
        stock: case.stock.iter().enumerate().map(stock).collect(),
        offers: case.stock.iter().enumerate().map(offer).collect(),
        ..Plan::default()
    }
}

/// A broker's mapper that sells its first source to every request.
struct OversellingMapper;

impl BrokerMapper for OversellingMapper {
    fn decide(&self, view: &broker::View) -> broker::Decision {
        use tenure_core::broker::mapper::{Allocation, Choice, Verdict};
        use tenure_core::model::time::Term;
        let source = view.sources().first().map(|source| source.account);
        let choices = view.open_requests().filter_map(|request| {
            let term = Term::lasting(request.earliest, request.duration).ok()?;
            let parts = request.items.iter().map(|item| Some(vec![(source?, item.units.get())]));
            let verdict = Verdict::Grant(Allocation { term, parts: parts.collect::<Option<_>>()? });
            Some(Choice { request: request.id, verdict, reason: "sold".to_owned() })
        });
        broker::Decision { round: view.round(), choices: choices.collect(), ..Default::default() }
    }
}
