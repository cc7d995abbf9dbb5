//! Recalls of delegations at their site: by itself, or by the broker that issued them.
//!
//! A recall of a delegation holds its account down to a level, all generations alike. The claims stay as
//! they are: what its holder signed counts against the delegation as it was, so that nobody is convicted
//! for what was sold before the recall.

use super::SiteAuthority;
use crate::actor::effect::Problem;
use crate::model::calendar::Calendar;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::site_authority::Output;
use crate::ticket::Ticket;
use crate::ticket::link::{AccountId, DelegationId, LinkHash};
use crate::wire::recall::Level;
use crate::wire::refusal::Refusal;

impl SiteAuthority {
    /// How many units of a delegation stay by its last recall, from when on.
    pub fn level_of(&self, delegation: DelegationId) -> Option<Level> {
        let link = self.state.levels.get(&AccountId::Delegation(delegation))?;
        self.state.recalls.get(link).map(|recall| recall.level)
    }

    /// The site recalls units of a delegation of its own, or withdraws that.
    pub(super) fn withdraw_delegated(
        &mut self,
        now: Time,
        number: u64,
        (units, from): (Option<u32>, Option<Time>),
        out: &mut Output,
    ) {
        let Some(newest) = self.state.delegations.get(&number).map(|known| &known.ticket) else {
            let cause = format!("there is no delegation {number}");
            return out.problems.push(Problem::Command(cause));
        };
        let key = self.state.levels.get(&newest.bottom().account());
        let last = key.and_then(|key| self.state.recalls.get(key));
        let ticket = last.map_or(newest, |last| &last.rights.ticket).clone();
        let last = last.map(|last| last.level);
        match Level::after(last, newest.bottom(), units, from.unwrap_or(now)) {
            Ok(level) => self.record_recall(now, ticket, level, out),
            Err(cause) => out.problems.push(Problem::Command(cause)),
        }
    }

    /// Why a ticket is refused beside the leases under a delegation that is recalled.
    pub(super) fn above_levels(&self, now: Time, ticket: &Ticket) -> Option<Refusal> {
        let delegations = ticket.links().iter().filter(|link| link.delegation.is_some());
        let mut accounts = delegations.map(|link| link.account());
        accounts.find_map(|account| self.above_level(now, ticket, account))
    }

    fn above_level(&self, now: Time, ticket: &Ticket, account: AccountId) -> Option<Refusal> {
        let recall = self.state.recalls.get(self.state.levels.get(&account)?)?;
        let (bottom, level) = (ticket.bottom(), recall.level);
        let term = bottom.term.from(level.from.max(now))?;
        if level.leaves_all(recall.link()) || mutant!(LevelIgnored) {
            return None;
        }
        let generation = recall.link().hash();
        if mutant!(LevelOfOneGeneration) && ticket.links().iter().all(|l| l.hash() != generation) {
            return None;
        }
        let mut room = Calendar::default();
        room.add(term, i64::from(level.units));
        for used in self.leases_under(account).flat_map(|(_, lease)| &lease.tickets) {
            for (units, held) in self.left_of(used.bottom(), term.start()) {
                room.add(held, -i64::from(units.get()));
            }
        }
        (room.free_over(term) < i64::from(bottom.units.get())).then(|| recall.refusal())
    }

    /// A delegation has ended, and all below it: their recalls are forgotten.
    pub(super) fn end_recalls_under(&mut self, root: AccountId) {
        let recalls = self.state.levels.values().filter_map(|link| self.state.recalls.get(link));
        let under = recalls.filter(|recall| recall.rights.ticket.root().account() == root);
        let links: Vec<LinkHash> = under.map(|recall| recall.link().hash()).collect();
        for link in links {
            self.end_recall(link);
        }
    }
}
