//! What operators do with delegations: pass units on to another broker, give some back, delegate by hand.

use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::broker::forwarding::{Accepted, Neighbour};
use tenure_core::broker::sharing::Sharing;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::runtime::Input;
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::DelegationId;

use super::operators::below;
use super::violation::Violation;
use super::world::World;

impl World {
    /// A broker has a delegation, or its next generation: it may delegate units of it to another broker, or
    /// give some back.
    pub(super) fn resell(&mut self, who: usize, ticket: &Ticket) {
        if self.healed {
            return;
        }
        let link = ticket.bottom();
        let Some(generation) = link.delegation else { return };
        let from = DelegationId { issuer: link.issuer, number: generation.delegation };
        let others = self.of_role(Role::Broker).into_iter().filter(|other| *other != who);
        let others: Vec<usize> = others.collect();
        let term = self.setting.term;
        let units = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        if self.users.percent(40)
            && let Some(&other) = self.users.pick(&others)
        {
            let to = self.participants[other].id;
            let units = units(self.users.count(1, link.units.get().min(3)));
            let length = self.users.span(Span::SECOND, term.times(8));
            let at = self.now.plus(self.users.span(Span::ZERO, term));
            let command = BrokerCommand::Delegate { to, from, units, length, grow: None };
            self.command(at, who, command);
        }
        if self.users.percent(20) {
            let units = units(self.users.count(1, 2));
            let at = self.now.plus(self.users.span(Span::ZERO, term.times(2)));
            let later = self.users.percent(25).then(|| self.users.span(Span::ZERO, term));
            let since = later.map(|later| at.plus(later));
            let command = BrokerCommand::Return { delegation: from, units, from: since };
            self.command(at, who, command);
        }
    }

    /// An operator of a broker shares units with another one, or has it sell nothing for a while.
    pub(super) fn share(&mut self, draw: u64) -> Result<(), Violation> {
        let brokers = self.of_role(Role::Broker);
        let Some(&who) = brokers.get(below(draw, brokers.len())) else { return Ok(()) };
        let others: Vec<usize> = brokers.iter().copied().filter(|other| *other != who).collect();
        let command = match others.get(below(draw >> 8, others.len())) {
            Some(&other) if !(draw >> 16).is_multiple_of(4) => {
                let part =
                    |shift: u32, most: u64| u32::try_from((draw >> shift) % most).unwrap_or(0);
                let units = Some(part(24, 5)).filter(|_| (draw >> 20).is_multiple_of(2));
                let notice = self.setting.term.part(8).times(i64::from(part(32, 4)));
                // Each renewal costs steps, and there is no need for many.
                let term = self.setting.term.times(i64::from(1 + part(40, 6))).max(Span::HOUR);
                let sharing = Sharing { units, reserve: part(48, 3), notice, term };
                BrokerCommand::Share { with: self.participants[other].id, sharing }
            }
            Some(_) | None => {
                let again = self.now.plus(self.setting.term);
                self.command(again, who, BrokerCommand::Sell(true));
                BrokerCommand::Sell(false)
            }
        };
        self.hand_in(who, Input::Command(command.into()))
    }

    /// Operators of two brokers agree, or end to, that the one passes requests on to the other. They may differ.
    pub(super) fn forward(&mut self, draw: u64) -> Result<(), Violation> {
        let brokers = self.of_role(Role::Broker);
        let Some(&who) = brokers.get(below(draw, brokers.len())) else { return Ok(()) };
        let others: Vec<usize> = brokers.iter().copied().filter(|other| *other != who).collect();
        let Some(&other) = others.get(below(draw >> 8, others.len())) else { return Ok(()) };
        let longest = (draw >> 16).is_multiple_of(4).then_some(self.setting.term);
        let accepted = Accepted { longest, ..Accepted::default() };
        let forward = !(draw >> 24).is_multiple_of(4);
        let accept = Some(accepted).filter(|_| !(draw >> 32).is_multiple_of(4));
        let back = (draw >> 40).is_multiple_of(2);
        let [one, another] = [who, other].map(|broker| self.participants[broker].id);
        let neighbour = Neighbour { forward, accept: accept.clone().filter(|_| back) };
        let command = BrokerCommand::SetNeighbour { with: another, neighbour };
        self.hand_in(who, Input::Command(command.into()))?;
        let neighbour = Neighbour { forward: back, accept };
        let command = BrokerCommand::SetNeighbour { with: one, neighbour };
        self.hand_in(other, Input::Command(command.into()))
    }

    /// Nothing is shared any more, and all sell.
    pub(super) fn stop_sharing(&mut self) {
        let brokers = self.of_role(Role::Broker);
        let at = self.now.plus(self.setting.term);
        for &who in &brokers {
            self.command(at, who, BrokerCommand::Sell(true));
            for &other in brokers.iter().filter(|other| **other != who) {
                let with = self.participants[other].id;
                let sharing = Sharing { units: Some(0), ..Sharing::default() };
                self.command(at, who, BrokerCommand::Share { with, sharing });
            }
        }
    }

    /// A site has more units: its operator may delegate one by hand.
    pub(super) fn delegate_by_hand(&mut self, who: usize, resource: &Name) {
        if self.healed || !self.users.percent(40) {
            return;
        }
        let brokers = self.of_role(Role::Broker);
        let Some(&broker) = self.users.pick(&brokers) else { return };
        let broker = self.participants[broker].id;
        let length = self.users.span(Span::SECOND, self.setting.term.times(6));
        let (resource, units) = (resource.clone(), NonZeroU32::MIN);
        let at = self.now.plus(self.users.span(Span::ZERO, self.setting.term));
        let command = SiteCommand::Delegate { broker, resource, units, length, grow: None };
        self.command(at, who, command);
    }
}
