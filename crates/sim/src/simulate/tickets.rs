//! What guests do with tickets that they keep: redeem, split and take them; and leases that grow.

use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::{Constraints, Expr};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::AnyActor;
use tenure_core::service_manager::facts::Fact;
use tenure_core::service_manager::{Command, Part, Victims};
use tenure_core::ticket::Ticket;

use super::world::World;

impl World {
    /// Tickets that are kept, and parts that were handed on, are put to use.
    pub(super) fn handle_tickets(&mut self, who: usize, fact: &Fact) {
        if self.healed {
            return;
        }
        if let Fact::Granted(fact) = fact {
            let parts = (0u16..).take(fact.tickets.len());
            let leases = parts.map(|part| LeaseId { number: fact.number, part });
            leases.for_each(|lease| self.use_kept(who, lease));
        } else if let Fact::TicketTaken(fact) = fact {
            self.use_kept(who, fact.lease);
        } else if let Fact::TicketsSplit(fact) = fact {
            if let Some(ticket) = self.kept(who, fact.lease) {
                let parts = fact.links.iter().map(|link| ticket.with(link.clone()));
                parts.collect::<Vec<_>>().into_iter().for_each(|part| self.hand_over(part));
            }
            self.use_kept(who, fact.lease);
        } else if let Fact::ReceiptTaken(fact) = fact {
            let parent = self.lease_that_was_split(who, &fact.receipt.what);
            parent.into_iter().for_each(|lease| self.use_kept(who, lease));
        }
    }

    /// The ticket of a lease, if it is kept.
    fn kept(&self, who: usize, lease: LeaseId) -> Option<Ticket> {
        let AnyActor::ServiceManager(guest) = &self.participants[who].fold else { return None };
        let state = guest.lease(lease)?;
        state.word().starts_with("Ticketed").then(|| state.ticket().cloned())?
    }

    fn lease_that_was_split(
        &self,
        who: usize,
        what: &tenure_core::ticket::receipt::Return,
    ) -> Option<LeaseId> {
        let AnyActor::ServiceManager(guest) = &self.participants[who].fold else { return None };
        let (_, link) = guest.splits().entered(what.link)?;
        guest.lease_of(link.parent?)
    }

    /// A ticket that is kept is redeemed, split, given back, or left to lapse.
    fn use_kept(&mut self, who: usize, lease: LeaseId) {
        let Some(ticket) = self.kept(who, lease) else { return };
        let term = ticket.bottom().term;
        let at = self.now.plus(self.users.span(Span::ZERO, self.setting.term));
        match self.users.below(10) {
            0..3 => self.command(at, who, Command::Redeem { lease }),
            3..8 => {
                let soon = self.now.plus(self.users.scaled(Span::SECOND, self.setting.term));
                let parts = self.parts(ticket.bottom().units.get(), term, soon);
                self.command(soon, who, Command::Split { lease, parts });
            }
            8 => self.close_later(at, who, lease),
            _ => {
                let shrink = NonZeroU32::new(self.users.count(1, 2)).unwrap_or(NonZeroU32::MIN);
                let victims = Victims::Youngest;
                self.command(at, who, Command::Flex { lease, shrink, victims });
            }
        }
    }

    /// Parts of a ticket, at times more than it has.
    fn parts(&mut self, units: u32, term: Term, soon: Time) -> Vec<Part> {
        let guests = self.of_role(Role::ServiceManager);
        let count = self.users.below(3) + 1;
        let parts = (0..count).filter_map(|_| {
            let holder = *self.users.pick(&guests)?;
            let most = if self.users.percent(8) { units + 1 } else { units.min(2) };
            let from = if self.users.percent(60) { soon } else { term.start() };
            let start = from.max(term.start());
            let end = if self.users.percent(70) {
                term.end()
            } else {
                self.users.time(start, term.end().max(start))
            };
            let redeem_by =
                self.users.percent(30).then(|| self.users.time(soon, term.end().max(soon)));
            let constraint = if self.users.percent(20) { "speed >= 1" } else { "" };
            Some(Part {
                holder: self.participants[holder].id,
                units: NonZeroU32::new(self.users.count(1, most)).unwrap_or(NonZeroU32::MIN),
                term: Term::new(start, end).unwrap_or(term),
                accepts: self.accepts(),
                constraints: Expr::parse(constraint).ok().into_iter().collect::<Constraints>(),
                redeem_by,
            })
        });
        parts.collect()
    }

    /// A part reaches its holder, mostly, by other ways than the network.
    fn hand_over(&mut self, ticket: Ticket) {
        let holder = ticket.bottom().holder;
        let Some(who) = self.participants.iter().position(|p| p.id == holder) else { return };
        if self.users.percent(10) {
            return;
        }
        let at = self.now.plus(self.users.scaled(Span::from_micros(1), self.setting.term));
        let (slice, keep) = (Name::literal("taken"), self.users.percent(30));
        let configuration = Properties::default();
        self.command(at, who, Command::Take { ticket, slice, configuration, keep });
    }

    /// A guest may want more units in the middle of a term.
    pub(super) fn grow_later(&mut self, who: usize, lease: LeaseId, term: Term) {
        if self.healed || !self.users.percent(15) {
            return;
        }
        let at = self.users.time(self.now, term.end().max(self.now));
        let units = NonZeroU32::new(self.users.count(1, 2)).unwrap_or(NonZeroU32::MIN);
        self.command(at, who, Command::Grow { lease, units, requirements: Constraints::NONE });
    }
}
