//! Endorsements: brokers give them to their guests beside the cards of sites, and guests show them to the sites.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tenure_core::actor::Role;
use tenure_core::model::identity::{ActorId, Scheme};
use tenure_core::model::time::Time;
use tenure_core::model::verifier::Verifier;
use tenure_core::ticket::Ticket;
use tenure_core::wire::endorsement::{ENDORSEMENT_HOLDS, Endorsement, SignedEndorsement};
use tracing::debug;

use super::hub::Hub;
use super::session::{Ends, Pass};

/// The latest endorsement that each broker has given to a guest of this process for a site that it seeks.
#[derive(Debug, Default)]
pub(super) struct EndorsementBook {
    /// By guest and site, then by broker.
    given: Mutex<BTreeMap<(Ends, ActorId), SignedEndorsement>>,
}

impl EndorsementBook {
    fn put(&self, ends: Ends, signed: SignedEndorsement, now: Time) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.retain(|_, signed| now < signed.endorsement.until);
        given.insert((ends, signed.endorsement.broker), signed);
    }

    /// Those by which a site may let in a guest, as long as they hold.
    fn of(&self, ends: Ends, now: Time) -> Vec<SignedEndorsement> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let of_ends = given.iter().filter(|((of, _), _)| *of == ends).map(|(_, signed)| signed);
        of_ends.filter(|signed| now < signed.endorsement.until).cloned().collect()
    }
}

impl Hub {
    /// What a broker of this process gives to a guest for a site, if it knows both.
    pub(super) fn endorse(&self, ends: Ends, site: ActorId) -> Option<SignedEndorsement> {
        let Ends { here: broker, there: guest } = ends;
        let is_broker = self.actors.get(&broker).is_some_and(|actor| actor.role == Role::Broker);
        let knows_both = self.role_of(ends) == Some(Role::ServiceManager)
            && self.role_of(Ends { here: broker, there: site }) == Some(Role::SiteAuthority);
        if !is_broker || !knows_both {
            return None;
        }
        let until = self.clock.now().plus(ENDORSEMENT_HOLDS);
        let signer = self.secret(broker, u32::MAX)?;
        let keys = self.keys_of(broker).chain(broker).cloned().unwrap_or_default();
        Some(SignedEndorsement::sign(Endorsement { broker, guest, site, until }, &signer, keys))
    }

    /// Keeps what a broker gives to a guest of this process, for a site that it seeks.
    pub(super) fn take_endorsement(&self, ends: Ends, signed: SignedEndorsement) {
        let Ends { here, there } = ends;
        let Endorsement { broker, site, .. } = signed.endorsement;
        let at = Ends { here, there: site };
        if broker != there || self.role_of(ends) != Some(Role::Broker) || !self.seeks(at) {
            debug!(%there, %site, "an endorsement came that nobody has asked for");
            return;
        }
        let (now, mut verifier) = (self.clock.now(), Verifier::new(Scheme::Ed25519));
        match signed.check((here, site), now, (&self.keys_of(here), &mut verifier)) {
            Ok(()) => self.endorsements.put(at, signed, now),
            Err(fault) => debug!(%broker, %site, %fault, "an endorsement was not kept"),
        }
    }

    /// What is shown to the site of a ticket: the ticket, and after each second pair of failures an endorsement,
    /// if there is one. The site may have refused the ticket, or be too old to know endorsements. Each is shown
    /// with the key that the site has noted, and with the one in force.
    pub(super) fn pass(&self, ends: Ends, ticket: Ticket, failures: u32) -> Pass {
        let ticket = Pass::Ticket(ticket);
        if (failures / 2).is_multiple_of(2) && ticket.fits() {
            return ticket;
        }
        let here = self.actors.keys().filter_map(|&broker| {
            self.endorse(Ends { here: broker, there: ends.here }, ends.there)
        });
        let given = here.chain(self.endorsements.of(ends, self.clock.now()));
        let given = given.map(|signed| Pass::Endorsement(Box::new(signed)));
        let mut given: Vec<Pass> = given.filter(Pass::fits).collect();
        if given.is_empty() {
            self.ask_where(ends.here, ends.there);
            return ticket;
        }
        let turn = usize::try_from(failures / 4).unwrap_or(0) % given.len();
        given.swap_remove(turn)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use tenure_core::model::identity::Signer;
    use tenure_core::model::name::Name;
    use tenure_core::model::resource::Constraints;
    use tenure_core::model::time::{Span, Term};
    use tenure_core::ticket::link::{Clauses, Link, SignedLink};
    use tokio::runtime::Runtime;

    use super::super::hub::LocalActor;
    use super::super::lane::{self, Known, Other, Way};
    use super::super::relay::Relays;
    use super::*;
    use crate::clock::{Clock, WallClock};
    use crate::transport::Exchange;

    fn signer(seed: u8) -> Signer {
        Signer::from_seed(Scheme::Ed25519, [seed; 32])
    }

    fn id(seed: u8) -> ActorId {
        signer(seed).id()
    }

    const GUEST: u8 = 1;
    const BROKER: u8 = 2;
    const SITE: u8 = 3;
    const OTHER: u8 = 4;

    /// An actor in a process of its own, with peers by configuration. Nothing is dialled.
    fn hub(runtime: &Runtime, (own, role): (u8, Role), peers: &[(u8, Role)]) -> Arc<Hub> {
        let name = Name::literal("any");
        let actor = LocalActor { name: name.clone(), role, signer: signer(own) };
        let around = (Exchange::new(), Arc::new(WallClock::new()) as Arc<dyn Clock>);
        let hub =
            Hub::new(runtime.handle().clone(), around, (&[actor], None), (true, Relays::new(0).0));
        let hub = Arc::new(hub);
        for &(peer, role) in peers {
            let ends = Ends { here: id(own), there: id(peer) };
            lane::open(&hub, ends, Other::peer(&name, role, Known::Configured), Way::Inwards);
        }
        hub
    }

    fn ticket() -> Ticket {
        let now = WallClock::new().now();
        let link = Link {
            parent: None,
            issuer: id(SITE),
            holder: id(GUEST),
            resource: Name::literal("node"),
            units: NonZeroU32::MIN,
            term: Term::new(now, now.plus(Span::HOUR)).unwrap(),
            constraints: Constraints::NONE,
            clauses: Clauses::NONE,
            delegation: None,
            extends: None,
            serial: 1,
        };
        Ticket::root_of(SignedLink::sign(link, &signer(SITE)))
    }

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    fn at_site() -> Ends {
        Ends { here: id(GUEST), there: id(SITE) }
    }

    #[test]
    fn a_broker_endorses_its_guests_to_sites_that_it_knows() {
        let runtime = runtime();
        let peers = [(GUEST, Role::ServiceManager), (SITE, Role::SiteAuthority)];
        let broker = hub(&runtime, (BROKER, Role::Broker), &peers);
        let endorses = |guest, site| {
            broker.endorse(Ends { here: id(BROKER), there: id(guest) }, id(site)).is_some()
        };
        assert!(endorses(GUEST, SITE));
        assert!(!endorses(OTHER, SITE), "no peer");
        assert!(!endorses(SITE, SITE), "no guest");
        assert!(!endorses(GUEST, OTHER), "a site that it does not know");
        assert!(!endorses(GUEST, GUEST), "no site");
        let guest = hub(&runtime, (GUEST, Role::ServiceManager), &[(SITE, Role::SiteAuthority)]);
        assert!(guest.endorse(Ends { here: id(GUEST), there: id(SITE) }, id(SITE)).is_none());
    }

    #[test]
    fn a_guest_shows_its_ticket_and_an_endorsement_by_turns_once_it_was_refused() {
        let runtime = runtime();
        let peers = [(GUEST, Role::ServiceManager), (SITE, Role::SiteAuthority)];
        let broker = hub(&runtime, (BROKER, Role::Broker), &peers);
        let guest = hub(&runtime, (GUEST, Role::ServiceManager), &[(BROKER, Role::Broker)]);
        let way = Way::Card(Arc::new(Mutex::new(ticket())));
        lane::open(&guest, at_site(), Other::stranger(id(SITE), Known::Ticket), way);
        let shown = || {
            let passes = (0..8).map(|failures| guest.pass(at_site(), ticket(), failures));
            passes.map(|pass| matches!(pass, Pass::Endorsement(_))).collect::<Vec<_>>()
        };
        assert_eq!(shown(), [false; 8], "it has none");
        let of_broker = Ends { here: id(BROKER), there: id(GUEST) };
        let signed = broker.endorse(of_broker, id(SITE)).unwrap();
        guest.take_endorsement(at_site(), signed.clone());
        assert_eq!(shown(), [false; 8], "it came from another than the broker");
        guest.take_endorsement(Ends { here: id(GUEST), there: id(BROKER) }, signed);
        assert_eq!(shown(), [false, false, true, true, false, false, true, true]);
    }

    #[test]
    fn an_endorsement_is_kept_for_a_site_that_is_sought() {
        let runtime = runtime();
        let peers = [(GUEST, Role::ServiceManager), (SITE, Role::SiteAuthority)];
        let broker = hub(&runtime, (BROKER, Role::Broker), &peers);
        let guest = hub(&runtime, (GUEST, Role::ServiceManager), &[(BROKER, Role::Broker)]);
        let signed = broker.endorse(Ends { here: id(BROKER), there: id(GUEST) }, id(SITE)).unwrap();
        guest.take_endorsement(Ends { here: id(GUEST), there: id(BROKER) }, signed);
        assert!(guest.endorsements.of(at_site(), Time::ZERO).is_empty());
    }
}
