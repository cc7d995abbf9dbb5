//! What a broker shows of its books to whoever looks.

use super::{Broker, Wanted};
use crate::broker::machine::State;
use crate::model::calendar::Calendar;
use crate::model::resource::Attributes;
use crate::model::slice::RequestId;
use crate::model::time::Time;
use crate::ticket::Ticket;

/// A delegation that a broker holds.
#[derive(Clone, Copy, Debug)]
pub struct HoldingSurvey<'a> {
    /// The newest generation.
    pub ticket: &'a Ticket,
    /// What its units are like.
    pub attributes: &'a Attributes,
    /// How many of its units are not sold, over time; `None` before anything was sold.
    pub free: Option<&'a Calendar>,
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

impl Broker {
    /// The delegations it holds.
    pub fn holdings(&self) -> impl Iterator<Item = HoldingSurvey<'_>> {
        self.state.holdings.iter().map(|(&id, holding)| HoldingSurvey {
            ticket: &holding.ticket,
            attributes: &holding.attributes,
            free: self.state.ledger.free(id),
        })
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
