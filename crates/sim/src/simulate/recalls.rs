//! Issuers that take back what they handed on.

use tenure_core::actor::Role;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::model::time::Span;
use tenure_core::runtime::{AnyActor, Command, Input};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::site_authority::{Command as SiteCommand, SiteAuthority};
use tenure_core::ticket::ledger::Ledger;
use tenure_core::ticket::link::{LinkHash, SignedLink};
use tenure_core::wire::recall::Accepts;

use super::violation::Violation;
use super::world::World;

impl World {
    /// The clauses that somebody accepts: often none.
    pub(super) fn accepts(&mut self) -> Accepts {
        let (sampler, term) = (&mut self.users, self.setting.term);
        if sampler.percent(55) {
            return Accepts::default();
        }
        let notice = sampler.span(Span::from_micros(1), term.max(Span::SECOND));
        let tenure = sampler.span(Span::from_micros(1), term.max(Span::SECOND));
        let min_tenure = sampler.percent(25).then_some(tenure);
        Accepts { notice: Some(notice), min_tenure }
    }

    /// Somebody recalls units of a ticket that is out, or withdraws a recall.
    pub(super) fn recall(&mut self) -> Result<(), Violation> {
        let role = match self.users.count(0, 19) {
            0 => Role::SiteAuthority,
            1..=4 => Role::ServiceManager,
            _ => Role::Broker,
        };
        let issuers = self.of_role(role);
        let Some(&who) = self.users.pick(&issuers) else { return Ok(()) };
        let out = match &self.participants[who].fold {
            AnyActor::Broker(broker) => tickets_out(broker.ledger()),
            AnyActor::ServiceManager(guest) => tickets_out(guest.splits()),
            AnyActor::SiteAuthority(site) => delegated(site),
        };
        let Some(&(ticket, number, most)) = self.users.pick(&out) else { return Ok(()) };
        let stay = self.users.count(0, most.saturating_sub(1));
        // Where all delegations are recalled, nothing happens any more.
        let withdrawn = self.users.percent(if number == 0 { 25 } else { 85 });
        let units = (!withdrawn).then_some(stay);
        let later = self.now.plus(self.users.span(Span::ZERO, self.setting.term));
        let from = self.users.percent(40).then_some(later);
        let command: Command = match role {
            Role::Broker => BrokerCommand::Recall { ticket, units, from }.into(),
            Role::ServiceManager => GuestCommand::Recall { ticket, units, from }.into(),
            Role::SiteAuthority => SiteCommand::Recall { delegation: number, units, from }.into(),
        };
        self.hand_in(who, Input::Command(command))
    }
}

/// The delegations of a site, with their numbers and units.
fn delegated(site: &SiteAuthority) -> Vec<(LinkHash, u64, u32)> {
    site.delegation_survey().map(|survey| recalled(survey.ticket.bottom())).collect()
}

/// What names a link, and the most units that can stay of it.
fn recalled(link: &SignedLink) -> (LinkHash, u64, u32) {
    let number = link.delegation.map_or(0, |generation| generation.delegation);
    (link.hash(), number, link.units.get())
}

/// The links that are charged to the accounts of a ledger.
fn tickets_out(ledger: &Ledger) -> Vec<(LinkHash, u64, u32)> {
    let children = ledger.accounts().flat_map(|(account, _)| ledger.children(account));
    let charged = children.filter(|(_, charged)| charged.is_some());
    charged.map(|(link, _)| recalled(link)).collect()
}
