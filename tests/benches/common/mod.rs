//! A broker that benches measure, without signatures and journals.

use std::num::NonZeroU32;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tenure_core::actor::effect::{Input, Output};
use tenure_core::actor::{Actor as _, Peer, Peers, Role, Setup};
use tenure_core::broker::mapper::{BrokerMapper, Decision};
use tenure_core::broker::{Broker, Command};
use tenure_core::model::identity::{ActorId, Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::resource::{Attributes, Constraints};
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Clauses, Generation, Link, SignedLink};
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::message::{Envelope, Header, Message, Sequence};

/// The numbers of a linear congruential generator (Knuth's MMIX), so that each run is the same.
pub struct Random(pub u64);

impl Random {
    /// A number below another.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % most
    }
}

/// A broker with guests and sites, at one instant.
pub struct Trader {
    pub broker: Broker,
}

const BROKER: u8 = 1;
const FIRST_GUEST: u8 = 100;
const FIRST_SITE: u8 = 200;

impl Trader {
    pub fn new(sites: u8, guests: u8) -> Self {
        let sites = (0..sites).map(|n| (FIRST_SITE + n, Role::SiteAuthority, format!("site-{n}")));
        let guests =
            (0..guests).map(|n| (FIRST_GUEST + n, Role::ServiceManager, format!("guest-{n}")));
        let peer = |(who, role, name): (u8, Role, String)| {
            (signer(who).id(), Peer { name: Name::new(&name).unwrap(), role })
        };
        let peers: Peers = sites.chain(guests).map(peer).collect();
        let (name, margin) = (Name::literal("exchange"), Span::SECOND);
        Self { broker: Broker::new(Setup { name, signer: signer(BROKER), margin, peers }) }
    }

    /// A guest by its number, and what it writes messages with.
    pub fn guest(number: u8) -> (ActorId, Credentials) {
        let guest = signer(FIRST_GUEST + number);
        (guest.id(), Credentials::new(guest))
    }

    /// A site delegates so many units of a type, for two years.
    pub fn delegate(
        &mut self,
        site: u8,
        delegation: u64,
        resource: &'static str,
        units: NonZeroU32,
    ) {
        let site = signer(FIRST_SITE + site);
        let link = Link {
            parent: None,
            issuer: site.id(),
            holder: signer(BROKER).id(),
            resource: Name::literal(resource),
            units,
            term: Term::lasting(Time::ZERO, Span::DAY.times(2 * 365)).unwrap(),
            constraints: Constraints::NONE,
            clauses: Clauses::NONE,
            delegation: Some(Generation { delegation, generation: 0 }),
            extends: None,
            serial: delegation,
        };
        let ticket = Ticket::root_of(SignedLink::sign(link, &site));
        let message = Message::Delegate { ticket, attributes: Attributes::new() };
        self.hand(site.id(), &mut Credentials::new(site), message);
    }

    /// Hands the broker a message.
    pub fn hand(&mut self, from: ActorId, credentials: &mut Credentials, message: Message) {
        let sequence = Sequence { position: 0, index: 0 };
        let header = Header { from, to: signer(BROKER).id(), sequence, at: Time::ZERO };
        let sealed = Envelope { header, message }.seal(credentials);
        self.take(Input::Message(sealed));
    }

    /// Has a mapper decide, if there is something to be decided.
    pub fn decide(&mut self, mapper: &dyn BrokerMapper) {
        let decision = mapper.decide(&self.broker.view(Time::ZERO).unwrap());
        self.take(Input::Decision(decision));
    }

    fn take(&mut self, input: Input<Command, Decision>) {
        let mut output = Output::default();
        self.broker.handle(Time::ZERO, input, &mut output);
        assert!(output.problems.is_empty(), "{:?}", output.problems);
    }
}

/// What this thread has used of a processor: that others use it too does not count.
pub fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap())
}

/// The keys of an actor.
fn signer(who: u8) -> Signer {
    Signer::from_seed(Scheme::None, [who; 32])
}
