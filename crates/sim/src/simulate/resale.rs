//! What operators do with delegations: pass units on to another broker, give some back, delegate by hand.

use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::DelegationId;

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
