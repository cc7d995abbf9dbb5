//! Keys that are replaced and revoked, and a thief who uses the old ones.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use tenure_core::actor::keys::KeyCommand;
use tenure_core::actor::{Actor as _, Role};
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::model::identity::{PublicKey, Scheme, Signer};
use tenure_core::model::keys::{KeyChain, Standing};
use tenure_core::model::name::Name;
use tenure_core::runtime::{AnyActor, Command, Input};
use tenure_core::service_manager::{Command as GuestCommand, ServiceManager};
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Link, SignedLink};
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::message::{Envelope, Header, Message, Sequence};

use super::fault::Family;
use super::violation::Violation;
use super::world::World;
use crate::random::Chance;

/// How many keys a participant has at most.
const MOST: usize = 6;

/// The secrets of a participant's keys, the first first.
pub(super) fn secrets(scheme: Scheme, chance: Chance, name: &Name) -> Vec<Signer> {
    let named = |number: usize| match number {
        1 => name.to_string(),
        later => format!("{name} key {later}"),
    };
    (1..=MOST).map(|number| Signer::from_seed(scheme, chance.secret(&named(number)))).collect()
}

impl World {
    /// An honest participant replaces its key or revokes an old one, or a thief uses one.
    pub(super) fn change_keys(&mut self, draw: u64) -> Result<(), Violation> {
        let honest: Vec<usize> =
            (0..self.participants.len()).filter(|&who| self.participants[who].honest).collect();
        let Some(&who) = honest.get(below(draw, honest.len())) else { return Ok(()) };
        let chain = self.stated(who);
        let replaced = chain.keys().find(|key| matches!(chain.standing(key), Standing::Rotated(_)));
        let command = match ((draw >> 16) % 8, replaced) {
            (3 | 4, Some(old)) => KeyCommand::Revoke(old),
            (5.., _) => {
                self.steal(who, draw >> 24);
                return Ok(());
            }
            _ => {
                let secret = self.participants[who].secrets.get(chain.keys().count().max(1));
                let Some(secret) = secret else { return Ok(()) };
                KeyCommand::Rotate(secret.clone())
            }
        };
        let command: Command = match self.participants[who].role {
            Role::ServiceManager => GuestCommand::Keys(command).into(),
            Role::Broker => BrokerCommand::Keys(command).into(),
            Role::SiteAuthority => SiteCommand::Keys(command).into(),
        };
        self.hand_in(who, Input::Command(command))
    }

    /// What a participant has stated about its keys, by its journal.
    fn stated(&self, who: usize) -> KeyChain {
        let participant = &self.participants[who];
        participant.fold.keys().chain(participant.id).cloned().unwrap_or_default()
    }

    /// A thief speaks in the name of a participant, by a key that must not count any more, to one that knows.
    fn steal(&mut self, victim: usize, draw: u64) {
        let retired: Vec<PublicKey> = self.stated(victim).keys().collect();
        let Some(key) = retired.get(below(draw, retired.len())).copied() else { return };
        let knows: Vec<usize> = (0..self.participants.len())
            .filter(|&to| {
                to != victim && self.participants[to].honest && self.knows(to, victim, key)
            })
            .collect();
        let Some(&to) = knows.get(below(draw >> 8, knows.len())) else { return };
        let secrets = &self.participants[victim].secrets;
        let Some(secret) = secrets.iter().find(|secret| secret.key() == key).cloned() else {
            return;
        };
        self.cut_by_thief(victim, to, &secret);
        let Some(message) = self.stolen_words(victim, to) else { return };
        let position = (1 << 41) + (draw >> 16) % (1 << 20);
        let sequence = Sequence { position, index: 0 };
        let (from, to) = (self.participants[victim].id, self.participants[to].id);
        let header = Header { from, to, sequence, at: self.now };
        let kind = message.kind();
        let sealed = Envelope { header, message }.seal(&mut Credentials::new(secret));
        self.transmit(victim, sequence, to, kind, &sealed);
    }

    /// Whether a participant knows, for good, that a key of another counts no more.
    fn knows(&self, who: usize, victim: usize, key: PublicKey) -> bool {
        let margins = self.setting.margin.times(4);
        let victim = self.participants[victim].id;
        match self.participants[who].fold.keys().chain(victim).map(|chain| chain.standing(&key)) {
            Some(Standing::Revoked(..)) => true,
            Some(Standing::Rotated(at)) => {
                !self.setting.has(Family::WildClock) && at.plus(margins) < self.now
            }
            Some(Standing::InForce | Standing::Foreign) | None => false,
        }
    }

    /// What would do harm if it were believed.
    fn stolen_words(&self, victim: usize, to: usize) -> Option<Message> {
        match (&self.participants[victim].fold, &self.participants[to].fold) {
            (AnyActor::ServiceManager(guest), AnyActor::SiteAuthority(_)) => {
                let site = self.participants[to].id;
                let ticket = held(guest).find(|ticket| ticket.site() == site)?;
                Some(Message::Close { tickets: vec![ticket] })
            }
            (AnyActor::SiteAuthority(_), AnyActor::ServiceManager(guest)) => {
                let site = self.participants[victim].id;
                let ticket = held(guest).find(|ticket| ticket.site() == site)?.hash();
                Some(Message::Closed { ticket, refusal: None, receipts: Vec::new() })
            }
            _ => None,
        }
    }

    /// A thief of a broker's revoked key cuts a ticket with it, for an accomplice to show to a site.
    fn cut_by_thief(&mut self, victim: usize, site: usize, secret: &Signer) {
        let accomplice = self.participants.iter().position(|participant| {
            participant.role == Role::ServiceManager && !participant.honest
        });
        let (Some(accomplice), AnyActor::Broker(broker)) =
            (accomplice, &self.participants[victim].fold)
        else {
            return;
        };
        let (id, site_id) = (self.participants[victim].id, self.participants[site].id);
        let revoked =
            self.participants[site].fold.keys().chain(id).is_some_and(|chain| {
                matches!(chain.standing(&secret.key()), Standing::Revoked(..))
            });
        let heads = broker.ledger().accounts().map(|(_, account)| account.head());
        let head = heads.filter(|head| head.issuer == site_id && head.holder == id).last();
        let Some(head) = head.filter(|_| revoked).cloned() else { return };
        let link = Link {
            parent: Some(head.hash()),
            issuer: id,
            holder: self.participants[accomplice].id,
            units: NonZeroU32::MIN,
            clauses: head.clauses.inherited(),
            delegation: None,
            serial: u64::MAX,
            ..Link::clone(&head)
        };
        let ticket = Ticket::root_of(head).with(SignedLink::sign(link, secret));
        self.show(accomplice, ticket);
    }
}

/// The tickets of a guest's leases.
pub(super) fn held(guest: &ServiceManager) -> impl Iterator<Item = Ticket> {
    let leases: BTreeSet<_> = guest.survey().map(|lease| lease.id).collect();
    leases.into_iter().filter_map(|id| guest.lease(id)?.held()?.tickets.first().cloned())
}

fn below(draw: u64, count: usize) -> usize {
    let count = u64::try_from(count.max(1)).unwrap_or(1);
    usize::try_from(draw % count).unwrap_or_default()
}
