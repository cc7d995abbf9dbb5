//! What all connections of a process share: its actors, the lanes, what is known of keys and addresses, and
//! who is let in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tenure_core::actor::Role;
use tenure_core::model::identity::{ActorId, PublicKey, Scheme, Signer};
use tenure_core::model::keys::{KeyBook, KeyChain, Standing};
use tenure_core::model::name::Name;
use tenure_core::model::time::Time;
use tenure_core::model::verifier::Verifier;
use tenure_core::ticket::Ticket;
use tenure_core::wire::admission::{GRACE, HolderFault, Stranger, buyer_until, holder_until};
use tenure_core::wire::endorsement::{Endorsement, EndorsementFault, SignedEndorsement};
use tenure_core::wire::invitation::{Invitation, SignedInvitation};
use thiserror::Error;
use tokio::runtime::Handle;

use super::allowance::Allowances;
use super::card::{CARD_HOLDS, Card, CardBook, SignedCard};
use super::endorsed::EndorsementBook;
use super::lane::{Known, Lane, Standing as LaneStanding};
use super::relay::Relays;
use super::session::{Ends, Item, Pass};
use crate::clock::Clock;
use crate::metrics::RefusedConnections;
use crate::transport::Exchange;

/// An actor of this process.
#[derive(Clone, Debug)]
pub struct LocalActor {
    /// What it calls itself.
    pub name: Name,
    /// Its role.
    pub role: Role,
    /// Its secret.
    pub signer: Signer,
}

/// What an actor knows of keys.
#[derive(Debug, Default)]
struct KnownKeys {
    book: Arc<KeyBook>,
    secrets: Vec<Signer>,
}

/// Why a stranger is not let in.
#[derive(Debug, Error)]
pub(super) enum NotAdmitted {
    #[error("{0} is no peer, and who is asked for admits none but its peers")]
    NoSite(ActorId),
    #[error("{0} is no peer, and {1}")]
    Ticket(ActorId, HolderFault),
    #[error("{0} is no peer, and its invitation is not by who is asked for")]
    NotInvited(ActorId),
    #[error("{0} is no peer, and its invitation has expired")]
    InvitationOver(ActorId),
    #[error("{0} is no peer, and its endorsement does not count: {1}")]
    NotEndorsed(ActorId, EndorsementFault),
}

impl NotAdmitted {
    /// The word under which it is counted.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::NoSite(_) => "no site",
            Self::Ticket(..) => "ticket",
            Self::NotInvited(_) | Self::InvitationOver(_) => "invitation",
            Self::NotEndorsed(..) => "endorsement",
        }
    }
}

/// What all connections share.
pub(super) struct Hub {
    /// That of the network's thread.
    pub(super) runtime: Handle,
    pub(super) local: Exchange,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) actors: BTreeMap<ActorId, LocalActor>,
    /// Where others dial the actors of this process.
    address: Option<String>,
    lanes: RwLock<BTreeMap<Ends, Lane>>,
    pub(super) cards: CardBook,
    pub(super) endorsements: EndorsementBook,
    /// What each actor of this process knows of keys, and the secrets of its own.
    keys: RwLock<BTreeMap<ActorId, KnownKeys>>,
    /// What actors that are no peers may take up.
    pub(super) allowances: Allowances,
    /// Whether the actors of this process can be dialled.
    pub(super) listens: bool,
    pub(super) relays: Relays,
    /// Who was not let in.
    pub(super) refused: RefusedConnections,
}

impl Hub {
    pub(super) fn new(
        runtime: Handle,
        (local, clock): (Exchange, Arc<dyn Clock>),
        (actors, address): (&[LocalActor], Option<String>),
        (listens, relays): (bool, Relays),
    ) -> Self {
        Self {
            runtime,
            local,
            clock,
            actors: actors.iter().map(|actor| (actor.signer.id(), actor.clone())).collect(),
            address,
            lanes: RwLock::default(),
            cards: CardBook::default(),
            endorsements: EndorsementBook::default(),
            keys: RwLock::default(),
            allowances: Allowances::default(),
            listens,
            relays,
            refused: RefusedConnections::default(),
        }
    }

    pub(super) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    pub(super) fn lane(&self, ends: Ends) -> Option<Lane> {
        self.lanes.read().unwrap_or_else(PoisonError::into_inner).get(&ends).cloned()
    }

    pub(super) fn lanes(&self) -> Vec<(Ends, Lane)> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().map(|(&ends, lane)| (ends, lane.clone())).collect()
    }

    /// Adds a lane, unless there is one: then that.
    pub(super) fn add(&self, ends: Ends, lane: Lane) -> Result<(), Lane> {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = lanes.get(&ends) {
            return Err(other.clone());
        }
        lanes.insert(ends, lane);
        Ok(())
    }

    /// Puts a lane in the place of the one that there is.
    pub(super) fn put(&self, ends: Ends, lane: Lane) {
        self.lanes.write().unwrap_or_else(PoisonError::into_inner).insert(ends, lane);
    }

    /// Removes the lane that stands like this, unless another has taken its place.
    pub(super) fn remove(&self, ends: Ends, standing: &Arc<Mutex<LaneStanding>>) {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        if lanes.get(&ends).is_some_and(|lane| Arc::ptr_eq(&lane.standing, standing)) {
            lanes.remove(&ends);
        }
    }

    /// Queues something for a connection; whether there is one, and room.
    pub(super) fn say(&self, ends: Ends, item: Item) -> bool {
        self.lane(ends).is_some_and(|lane| lane.queue.try_send(item).is_ok())
    }

    /// Asks the brokers of an actor where another one is. Its own broker may be in this process, and asks those that it
    /// knows.
    pub(super) fn ask_where(&self, here: ActorId, whom: ActorId) {
        let broker = |actor| self.actors.get(&actor).is_some_and(|of| of.role == Role::Broker);
        for (ends, lane) in self.lanes() {
            if (ends.here == here || broker(ends.here)) && lane.role == Some(Role::Broker) {
                drop(lane.queue.try_send(Item::Where(whom)));
            }
        }
    }

    /// A fresh card of an actor of this process, if it can be dialled.
    pub(super) fn own_card(&self, here: ActorId) -> Option<SignedCard> {
        let (LocalActor { name, role, .. }, address) =
            (self.actors.get(&here)?, self.address.clone()?);
        let signer = self.secret(here, u32::MAX)?;
        let now = self.clock.now();
        let card = Card {
            actor: here,
            name: name.clone(),
            role: *role,
            address,
            number: u64::try_from(now.as_micros()).unwrap_or_default(),
            until: now.plus(CARD_HOLDS),
        };
        let keys = self.keys_of(here).chain(here).cloned().unwrap_or_default();
        Some(SignedCard::sign(card, &signer, keys))
    }

    /// Whether an actor is a site or a broker that is known by a ticket alone.
    pub(super) fn seeks(&self, ends: Ends) -> bool {
        self.lane(ends).is_some_and(|lane| lane.ticket.is_some())
    }

    /// What an actor of this process knows of keys from now on.
    pub(super) fn learn(&self, here: ActorId, keys: &KeyBook, secrets: &[Signer]) {
        let mut known = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(here, KnownKeys { book: Arc::new(keys.clone()), secrets: secrets.to_vec() });
    }

    pub(super) fn keys_of(&self, here: ActorId) -> Arc<KeyBook> {
        let known = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&here).map(|known| Arc::clone(&known.book)).unwrap_or_default()
    }

    /// How many statements about the keys of another an actor of this process knows.
    pub(super) fn statements_of(&self, Ends { here, there }: Ends) -> u32 {
        self.keys_of(here).chain(there).map_or(0, KeyChain::count)
    }

    /// How many statements of an actor of this process another one has noted.
    pub(super) fn noted(&self, Ends { here, there }: Ends) -> u32 {
        self.keys_of(here).noted_by(there)
    }

    /// The secret of the key that an actor of this process had in force after so many statements.
    pub(super) fn secret(&self, here: ActorId, statements: u32) -> Option<Signer> {
        let known = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let of = known.get(&here);
        let key = of.and_then(|of| of.book.chain(here)?.in_force_after(statements));
        let later = of
            .zip(key)
            .and_then(|(of, key)| of.secrets.iter().find(|secret| secret.key() == key).cloned());
        later.or_else(|| Some(self.actors.get(&here)?.signer.clone()))
    }

    /// Whose key it is that an actor of this process is shown; nobody's, if it is known to be revoked.
    pub(super) fn owner(&self, here: ActorId, key: &PublicKey) -> Option<ActorId> {
        let book = self.keys_of(here);
        let counts = |chain: &KeyChain| {
            matches!(chain.standing(key), Standing::InForce | Standing::Rotated(_))
        };
        let stated = book.chains().find(|(_, chain)| counts(chain)).map(|(actor, _)| actor);
        let first = ActorId::of(key);
        stated.or_else(|| book.chain(first).is_none().then_some(first))
    }

    /// Until when a stranger is let in by what it shows, and what it may say.
    pub(super) fn admits(&self, ends: Ends, pass: &Pass) -> Result<(Stranger, Time), NotAdmitted> {
        match pass {
            Pass::Ticket(ticket) => self.admits_holder(ends, ticket),
            Pass::Invitation(invitation) => {
                Ok((Stranger::Invited, self.admits_invited(ends, invitation)?))
            }
            Pass::Endorsement(endorsement) => {
                Ok((Stranger::Endorsed, self.admits_endorsed(ends, endorsement)?))
            }
        }
    }

    /// An invitation must be one by who is asked for. Whether it was used is the actor's to judge.
    fn admits_invited(
        &self,
        Ends { here, there }: Ends,
        signed: &SignedInvitation,
    ) -> Result<Time, NotAdmitted> {
        let Invitation { inviter, until, .. } = signed.invitation;
        let mut verifier = Verifier::new(Scheme::Ed25519);
        if inviter != here || signed.check(&self.keys_of(here), &mut verifier).is_err() {
            return Err(NotAdmitted::NotInvited(there));
        }
        if until.plus(GRACE) <= self.clock.now() {
            return Err(NotAdmitted::InvitationOver(there));
        }
        Ok(until.plus(GRACE))
    }

    /// A ticket must be a good one of the site that is asked for, or cut by the broker that is, and the stranger's own.
    fn admits_holder(&self, ends: Ends, ticket: &Ticket) -> Result<(Stranger, Time), NotAdmitted> {
        let Ends { here, there } = ends;
        let actor = self.actors.get(&here).ok_or(NotAdmitted::NoSite(there))?;
        let mut verifier = Verifier::new(actor.signer.scheme());
        verifier.keys_mut().clone_from(&self.keys_of(here));
        let (who, now) = ((there, here), self.clock.now());
        let (stranger, until) = match actor.role {
            Role::SiteAuthority => {
                (Stranger::Holder, holder_until(ticket, who, now, &mut verifier))
            }
            Role::Broker => (Stranger::Buyer, buyer_until(ticket, who, now, &mut verifier)),
            Role::ServiceManager => return Err(NotAdmitted::NoSite(there)),
        };
        let until = until.map_err(|fault| NotAdmitted::Ticket(there, fault))?;
        Ok((stranger, until))
    }

    /// An endorsement must be one by a broker that the site knows, for the stranger and the site.
    fn admits_endorsed(
        &self,
        Ends { here, there }: Ends,
        signed: &SignedEndorsement,
    ) -> Result<Time, NotAdmitted> {
        let site = self.site(here).ok_or(NotAdmitted::NoSite(there))?;
        let Endorsement { broker, until, .. } = signed.endorsement;
        let refused = |fault| NotAdmitted::NotEndorsed(there, fault);
        if self.role_of(Ends { here, there: broker }) != Some(Role::Broker) {
            return Err(refused(EndorsementFault::UnknownBroker(broker)));
        }
        let (keys, mut verifier) = (self.keys_of(here), Verifier::new(site.signer.scheme()));
        let now = self.clock.now();
        signed.check((there, here), now, (&keys, &mut verifier)).map_err(refused)?;
        Ok(until)
    }

    fn site(&self, here: ActorId) -> Option<&LocalActor> {
        self.actors.get(&here).filter(|actor| actor.role == Role::SiteAuthority)
    }

    /// The role of an actor that is here, or is a peer of one that is.
    pub(super) fn role_of(&self, ends: Ends) -> Option<Role> {
        if let Some(actor) = self.actors.get(&ends.there) {
            return Some(actor.role);
        }
        let lane = self.lane(ends)?;
        match lane.known {
            Known::Configured | Known::Joined => lane.role,
            Known::Inviting | Known::Invited | Known::Ticket | Known::Endorsement => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::WallClock;

    fn actor(seed: u8, role: Role) -> LocalActor {
        let signer = Signer::from_seed(Scheme::Ed25519, [seed; 32]);
        LocalActor { name: Name::literal("alpha"), role, signer }
    }

    fn hub(runtime: &tokio::runtime::Runtime, actor: &LocalActor) -> Hub {
        let around = (Exchange::new(), Arc::new(WallClock::new()) as Arc<dyn Clock>);
        let own = (std::slice::from_ref(actor), Some("192.0.2.1:7400".to_owned()));
        Hub::new(runtime.handle().clone(), around, own, (true, Relays::new(0).0))
    }

    #[test]
    fn a_card_is_kept_of_who_sends_it_and_of_a_site_that_is_looked_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (guest, broker, site) =
            (actor(1, Role::ServiceManager), actor(2, Role::Broker), actor(3, Role::SiteAuthority));
        let [here, there, at] = [&guest, &broker, &site].map(|actor| actor.signer.id());
        let card = |actor: &LocalActor| hub(&runtime, actor).own_card(actor.signer.id()).unwrap();
        let at_guest = hub(&runtime, &guest);
        let ends = Ends { here, there };
        let known = |actor| at_guest.cards.get(actor, at_guest.clock.now()).is_some();
        at_guest.take_card(ends, card(&broker));
        at_guest.take_card(ends, card(&site));
        assert_eq!((known(there), known(at)), (true, false), "nobody has asked for the site");
        at_guest.take_card(Ends { here, there: at }, card(&site));
        assert!(known(at), "its own word");
    }
}
