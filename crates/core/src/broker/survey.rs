//! The state of a broker, for display.

use super::{Broker, Holding, Wanted};
use crate::actor::Role;
use crate::broker::machine::State;
use crate::broker::quota::{Quota, Whose};
use crate::broker::rules::Source;
use crate::model::calendar::Calendar;
use crate::model::resource::Attributes;
use crate::model::slice::RequestId;
use crate::model::time::Time;
use crate::ticket::Ticket;
use crate::ticket::link::AccountId;
use crate::wire::recall::Notice;

/// A delegation that a broker holds.
#[derive(Clone, Copy, Debug)]
pub struct HoldingSurvey<'a> {
    /// The newest generation.
    pub ticket: &'a Ticket,
    /// What its units are like, the name of the site among it.
    pub attributes: &'a Attributes,
    /// How many of its units it has: what came back is gone.
    pub left: u32,
    /// How many of its units are not sold, over time; `None` before anything was sold.
    pub free: Option<&'a Calendar>,
    /// What its site said last of its recall.
    pub recalled: Option<&'a Notice>,
}

/// A request that a broker remembers.
#[derive(Clone, Copy, Debug)]
pub struct RequestSurvey<'a> {
    /// Its name.
    pub id: RequestId,
    /// Where it is in its life.
    pub state: &'a State,
    /// What it asks for.
    pub wanted: &'a Wanted,
    /// When it is refused if it is still open, and of no more use to its asker.
    pub answer_by: Time,
}

/// The quota of a service manager, or of each without one of its own, with what is used of it.
#[derive(Clone, Copy, Debug)]
pub struct QuotaSurvey {
    /// Whom it is for; each service manager without one of its own unless set.
    pub whose: Whose,
    /// The limits in force.
    pub quota: Quota,
    /// Who has set a quota of its own, if there is one.
    pub by: Option<Source>,
    /// The units that the service manager holds now.
    pub units: u64,
    /// The unit-hours granted to it in this period.
    pub unit_hours: u64,
    /// Its requests that wait for a decision.
    pub open_requests: u32,
}

impl Broker {
    /// The quota of each service manager that it knows, and of each broker whose guests' requests it takes, after that of
    /// all others.
    pub fn quotas(&self, now: Time) -> impl Iterator<Item = QuotaSurvey> {
        let guests = self.base.peers_of(Role::ServiceManager).map(|(_, guest)| Some(guest));
        let brokers = self.accepts_from().into_iter().map(Some);
        std::iter::once(None).chain(guests).chain(brokers).map(move |whose| {
            let quotas = &self.state.quotas;
            let (units, unit_hours) = whose.map_or((0, 0), |guest| quotas.used(guest, now));
            let open_requests = whose.map_or(0, |guest| self.usage_of(guest).open);
            let (quota, by) = (quotas.limits(whose), quotas.source(whose));
            QuotaSurvey { whose, quota, by, units, unit_hours, open_requests }
        })
    }

    /// The delegations it holds.
    pub fn holdings(&self) -> impl Iterator<Item = HoldingSurvey<'_>> {
        self.state.holdings.iter().map(|(&id, holding)| HoldingSurvey {
            ticket: &holding.ticket,
            attributes: self.attributes_of(id, holding),
            left: self.left_of_holding(id),
            free: self.state.ledger.free(id),
            recalled: holding.recalled.as_ref().map(|(told, _)| told),
        })
    }

    /// The units of a holding that last until its end.
    fn left_of_holding(&self, id: AccountId) -> u32 {
        let Some(account) = self.state.ledger.account(id) else { return 0 };
        let head = account.head();
        let left = self.state.ledger.left_of_delegation(head, head.term.start());
        let lasting = left.iter().filter(|(_, term)| term.end() == head.term.end());
        lasting.map(|(units, _)| units.get()).sum()
    }

    /// What the units of a holding are like, the name of the site among it.
    pub(super) fn attributes_of<'a>(
        &'a self,
        id: AccountId,
        holding: &'a Holding,
    ) -> &'a Attributes {
        // Every holding is listed.
        let listed = self.index.attributes(&self.base, id, &holding.ticket);
        listed.unwrap_or(&holding.attributes)
    }

    /// The requests it remembers.
    pub fn request_survey(&self) -> impl Iterator<Item = RequestSurvey<'_>> {
        self.state.requests.iter().map(|(&id, record)| RequestSurvey {
            id,
            state: &record.state,
            wanted: &record.wanted,
            answer_by: record.answer_by,
        })
    }
}
