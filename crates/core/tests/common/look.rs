//! What a test can see of a [`World`].

use tenure_core::actor::Actor;
use tenure_core::runtime::{AnyActor, Entry};

use tenure_core::broker::Broker;
use tenure_core::model::slice::LeaseId;
use tenure_core::runtime::journal::{Journal as _, MemoryJournal};
use tenure_core::service_manager::machine::{Change, State};
use tenure_core::service_manager::{ServiceManager, Standing};
use tenure_core::site_authority::SiteAuthority;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::LinkHash;
use tenure_core::wire::message::{Message, Sealed};

use super::world::World;
use super::{BROKER, SITE, id};

impl World {
    pub(crate) fn actor(&self, who: u8) -> &AnyActor {
        self.players[&who].host.actor()
    }

    pub(crate) fn position(&self, who: u8) -> u64 {
        self.actor(who).position()
    }

    pub(crate) fn facts(&self, who: u8) -> Vec<Entry> {
        let journal = &self.players[&who].journal;
        (0..journal.len()).map(|position| journal.read(position).unwrap().unwrap()).collect()
    }

    pub(crate) fn journal(&self, who: u8) -> &MemoryJournal {
        &self.players[&who].journal
    }

    /// How many facts of a kind an actor has.
    pub(crate) fn count(&self, who: u8, kind: &str) -> usize {
        self.players[&who].journal.rows().filter(|row| row.kind == kind).count()
    }

    pub(crate) fn site(&self) -> &SiteAuthority {
        let AnyActor::SiteAuthority(site) = self.players[&SITE].host.actor() else {
            unreachable!()
        };
        site
    }

    pub(crate) fn broker(&self) -> &Broker {
        let AnyActor::Broker(broker) = self.players[&BROKER].host.actor() else { unreachable!() };
        broker
    }

    pub(crate) fn guest(&self, who: u8) -> &ServiceManager {
        let AnyActor::ServiceManager(guest) = self.players[&who].host.actor() else {
            unreachable!()
        };
        guest
    }

    /// The state of a lease at its guest in a word.
    pub(crate) fn state(&self, who: u8, lease: LeaseId) -> &'static str {
        self.guest(who).standing(lease).map_or("forgotten", Standing::word)
    }

    /// The state of a lease at the site in a word.
    pub(crate) fn at_site(&self, ticket: LinkHash) -> &'static str {
        self.site().lease(ticket).map_or("unknown", |state| state.word())
    }

    /// How many of the site's units are in a state.
    pub(crate) fn units_in(&self, word: &str) -> usize {
        self.site().units().filter(|(_, state, _)| state.word() == word).count()
    }

    /// The tickets of a lease.
    pub(crate) fn tickets(&self, who: u8, lease: LeaseId) -> Vec<Ticket> {
        match self.guest(who).lease(lease).unwrap() {
            State::Ticketed { ticket, .. } | State::Redeeming { ticket } => vec![ticket.clone()],
            State::Joining { held } | State::Active { held } | State::Leaving { held, .. } => {
                let mut tickets = held.tickets.clone();
                if let Change::Redeeming { ticket, .. } = &held.change {
                    tickets.push(ticket.clone());
                }
                tickets
            }
            State::Closing { tickets, .. } => tickets.clone(),
            State::Crediting { .. } | State::Closed { .. } => Vec::new(),
        }
    }

    pub(crate) fn ticket(&self, who: u8, lease: LeaseId) -> Ticket {
        self.tickets(who, lease).remove(0)
    }

    /// What was sent of a kind, oldest first.
    pub(crate) fn sent(&self, kind: &str) -> Vec<Sealed> {
        let of_kind = self.sent.iter().filter(|(envelope, _)| envelope.message.kind() == kind);
        of_kind.map(|(_, sealed)| sealed.clone()).collect()
    }

    /// The site's delegation, newest generation, as the broker got it.
    pub(crate) fn delegation(&self) -> Ticket {
        let mut tickets = self.sent.iter().rev().filter_map(|(envelope, _)| {
            let Message::Delegate { ticket, .. } = &envelope.message else { return None };
            (ticket.site() == id(SITE)).then(|| ticket.clone())
        });
        tickets.next().unwrap()
    }

    /// What the broker can still cut from its only delegation at an instant.
    pub(crate) fn free_at(&self, secs: i64) -> i64 {
        self.free_of(BROKER, secs)
    }

    /// The same of any broker.
    pub(crate) fn free_of(&self, broker: u8, secs: i64) -> i64 {
        let AnyActor::Broker(broker) = self.actor(broker) else { unreachable!() };
        let ledger = broker.ledger();
        let (id, _) = ledger.accounts().next().unwrap();
        ledger.free(id).unwrap().free_at(super::at(secs))
    }
}
