//! Portions: a request that no broker can meet alone is met by several of them together, all or nothing.
//!
//! The broker that has the request keeps what it can give of it back, from one start on, and asks its neighbours one
//! after the other to hold the rest, as they may ask theirs. Once all is held the first broker takes it, and the
//! tickets go back along the path. What nobody takes is free again when its hold ends.

mod asking;
mod deciding;
mod gathered;
mod handed;
mod keeping;
mod machine;

pub use gathered::{Gathered, HeldByOther};
pub use machine::PortionEvent;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::machine::State;
use super::{Broker, Record};
use crate::model::name::Name;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Time};
use crate::wire::portion::{MAX_ROUNDS, comes_in_portions};
use crate::wire::request::Request;

/// How long a broker that gathers a request has others hold portions of it, unless it is configured otherwise. Half of it
/// is left to take them.
pub const HOLD: Span = Span::from_secs(10);

/// What stands for the round where no portion is decided on, but all that is held for a request that was handed on.
pub(super) const WHOLE: u8 = 0;

/// The longest that offers are held for the guest of another broker: while it looks at them.
pub(super) const LONGEST_OFFER: Span = Span::from_secs(600);

/// The longest that a portion is held for another broker.
pub const LONGEST_HOLD: Span = Span::from_secs(30);

/// What becomes of an open request if the broker cannot meet it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// It is met by one broker, or not at all.
    #[default]
    Whole,
    /// A portion of it may be kept and the rest asked of others: from this start on, or, without one, the earliest.
    Divisible(Option<Time>),
    /// It is a portion that another broker has asked for, and nothing of it is kept yet.
    Portion,
    /// It is the rest of a request of which a portion is kept.
    Rest,
}

/// In which rounds a request was gathered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rounds {
    /// The last one; 0 if there was none.
    last: u8,
    /// The start of the next one, if there is to be one after the last.
    next: Option<Time>,
}

/// What is kept back of a request that is gathered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// When its guest has asked for it first, by the guest's clock.
    asked: Time,
    /// The types of units.
    types: BTreeSet<Name>,
}

impl Kept {
    /// Whether it is in the way of an older request: a guest's word, which decides who waits for whom, no more.
    pub(super) fn is_before(&self, id: RequestId, older: &Request) -> bool {
        let is_younger = (older.history.asked, older.id) < (self.asked, id);
        is_younger && older.items.iter().any(|item| self.types.contains(&item.resource))
    }
}

impl Record {
    /// What is kept back of it and may be free again soon.
    pub(super) fn kept(&self) -> Option<Kept> {
        let (State::Gathering { gathered, .. } | State::Reserved { gathered, .. }) = &self.state
        else {
            return None;
        };
        let types = gathered.own.iter().map(|(_, ticket)| ticket.bottom().resource.clone());
        let (asked, types) = (gathered.request.history.asked, types.collect::<BTreeSet<_>>());
        (!types.is_empty()).then_some(Kept { asked, types })
    }

    /// What is open to decision of the request, if anything is.
    pub(super) fn shown(&self) -> Option<Arc<Request>> {
        if let State::Gathering { gathered, asked: None } = &self.state {
            return gathered.rest().map(|(request, _)| Arc::new(request));
        }
        if let State::Open { request, .. } = &self.state { Some(Arc::clone(request)) } else { None }
    }

    /// When what is open of it has to be decided.
    pub(super) fn decide_by(&self) -> Time {
        let gathered = self.state.gathered();
        gathered.map_or(self.answer_by, |gathered| gathered.gather_by.min(self.answer_by))
    }

    /// What becomes of it if the broker cannot meet it alone.
    pub(super) fn stage(&self) -> Stage {
        let Some(route) = &self.route else { return Stage::Whole };
        if matches!(self.state, State::Gathering { asked: None, .. }) {
            return Stage::Rest;
        }
        let State::Open { request, .. } = &self.state else { return Stage::Whole };
        if route.portion.is_some() {
            return Stage::Portion;
        }
        // One broker coordinates: the one that the guest has asked.
        let coordinates = route.from().is_none() && route.open().is_some();
        match route.rounds {
            Rounds { last: 0, .. } if coordinates && comes_in_portions(request) => {
                Stage::Divisible(None)
            }
            Rounds { last: 1..MAX_ROUNDS, next: Some(start) } if coordinates => {
                Stage::Divisible(Some(start))
            }
            Rounds { .. } => Stage::Whole,
        }
    }
}

impl Broker {
    /// The same broker, which has others hold portions of a request for so long, [`LONGEST_HOLD`] at most.
    pub fn with_hold(self, hold: Span) -> Self {
        Self { hold: hold.min(LONGEST_HOLD), ..self }
    }

    /// The places that the items of what is open of a request have in the whole; `None` if it is the whole.
    fn places(&self, id: RequestId) -> Option<Vec<u16>> {
        let record = self.state.requests.get(&id)?;
        match record.state.gathered() {
            Some(gathered) => gathered.rest().map(|(_, places)| places),
            None => {
                let portion = record.route.as_ref()?.portion.as_ref()?;
                Some(portion.units.keys().copied().collect())
            }
        }
    }

    /// Whether a request is gathered, or is a portion that another broker has asked for.
    pub(super) fn is_in_portions(&self, id: RequestId) -> bool {
        let record = self.state.requests.get(&id);
        record.is_some_and(|record| matches!(record.stage(), Stage::Portion | Stage::Rest))
    }
}
