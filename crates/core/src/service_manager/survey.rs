//! The state of a service manager, for display.

use super::fidelity::Fidelity;
use super::request::{self, Request};
use super::sequence::Sequence;
use super::{Lease, ServiceManager};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::price::Cost;
use crate::model::property::Properties;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Term, Time};
use crate::service_manager::machine::{Held, Outcome, State};
use crate::ticket::Ticket;
use crate::ticket::link::{Assurance, LinkHash};
use crate::wire::offer::Waiting;
use crate::wire::recall::Notice;
use crate::wire::refusal::Refusal;
use crate::wire::request::Request as Wanted;

/// A lease, or a request that has none: what is shown under one name.
#[derive(Clone, Copy, Debug)]
pub enum Standing<'a> {
    /// A request without a lease.
    Request(&'a request::State),
    /// A lease.
    Lease(&'a State),
}

impl<'a> Standing<'a> {
    /// Where it is in its life, in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Request(request::State::Asked) => "Asking",
            Self::Request(request::State::Refused { .. } | request::State::Unanswered) => "Closed",
            Self::Request(state) => state.word(),
            Self::Lease(state) => state.word(),
        }
    }

    /// The state of the lease, if it is one.
    pub fn lease(self) -> Option<&'a State> {
        match self {
            Self::Request(_) => None,
            Self::Lease(state) => Some(state),
        }
    }

    /// What is held, while units are.
    pub fn held(self) -> Option<&'a Held> {
        self.lease()?.held()
    }

    /// The lease's own ticket, while it has one.
    pub fn ticket(self) -> Option<&'a Ticket> {
        self.lease()?.ticket()
    }

    /// Whether it is over.
    pub fn is_over(self) -> bool {
        self.outcome().is_some() || matches!(self, Self::Request(request::State::Planned { .. }))
    }

    /// How it went, if it is over.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Request(request::State::Refused { refusal, .. }) => {
                Some(Outcome::Refused(refusal.clone()))
            }
            Self::Request(request::State::Unanswered) => Some(Outcome::Unanswered),
            Self::Lease(State::Closed { outcome }) => Some(outcome.clone()),
            Self::Request(_) | Self::Lease(_) => None,
        }
    }
}

/// What goes back of a kept ticket that was split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestStanding {
    /// A part is on its way, to its site or to the credit of its issuer.
    UnderWay,
    /// All that is left has gone back, and what comes back of its parts will.
    Given,
}

/// A lease, or a request without one, as its service manager knows it.
#[derive(Clone, Copy, Debug)]
pub struct LeaseSurvey<'a> {
    /// Its name.
    pub id: LeaseId,
    /// Its group.
    pub slice: &'a SliceName,
    /// Where it is in its life.
    pub state: Standing<'a>,
    /// The type of its units.
    pub resource: &'a Name,
    /// How many it has or wants.
    pub units: u32,
    /// How few will do.
    pub min_units: u32,
    /// The term held or, before it is granted, the first one asked for.
    pub term: Term,
    /// The request and its broker, of a request without a lease.
    pub request: Option<(ActorId, &'a Wanted)>,
    /// Where it stands in the broker's queue, of a request that waits.
    pub waiting: Option<&'a Waiting>,
    /// What its site's driver was told.
    pub configuration: &'a Properties,
    /// Its tickets: its own, then those of its extensions.
    pub tickets: &'a [LinkHash],
    /// The number of the group that it belongs to, if there is one.
    pub group: Option<u64>,
    /// The item of the group's request that it is for.
    pub item: Option<u16>,
    /// The items that its link joins, if it is an edge of one.
    pub joins: Option<[u16; 2]>,
    /// The site that closed it of its own accord, and why.
    pub closed_by: Option<&'a (ActorId, Refusal)>,
    /// What the next recall leaves it, and when.
    pub recalled: Option<&'a Notice>,
    /// How much of what it is paid for its guest could use.
    worth: Option<&'a Lease>,
    /// What it costs, if its tickets have a price.
    pub cost: Option<Cost>,
    /// What stands behind its units, in its site's words.
    pub assurance: Assurance,
    /// What goes back of its ticket, if that was split.
    pub rest: Option<RestStanding>,
    /// What it waits for, once it is granted.
    pub sequence: Option<&'a Sequence>,
    /// Which unit the guest's driver has refused to leave since it was last to go back, and why.
    pub stays: Option<&'a str>,
    /// Since when its site was not heard, if it is given back for that.
    pub unheard: Option<Time>,
    /// Whether it depends on heartbeats and its site has not answered one since this guest's start.
    pub unconfirmed: bool,
}

impl LeaseSurvey<'_> {
    /// How much of what it is paid for its guest could use by now; none of a request without a lease.
    pub fn fidelity(&self, now: Time) -> Option<Fidelity> {
        self.worth.map(|lease| lease.fidelity(now))
    }
}

impl ServiceManager {
    /// All leases that are remembered and requests without one, in the order in which they were asked for.
    pub fn survey(&self) -> impl Iterator<Item = LeaseSurvey<'_>> {
        let requests = self.state.requests.iter();
        let alone = requests.filter_map(|(&number, request)| request.survey(number));
        let mut leases =
            self.state.leases.iter().map(|(&id, lease)| self.lease_survey(id, lease)).peekable();
        let mut alone = alone.peekable();
        std::iter::from_fn(move || match (alone.peek(), leases.peek()) {
            (Some(request), Some(lease)) if request.id < lease.id => alone.next(),
            (Some(_), None) => alone.next(),
            (Some(_) | None, _) => leases.next(),
        })
    }

    /// One lease, or request without one, if it is remembered.
    pub fn survey_of(&self, id: LeaseId) -> Option<LeaseSurvey<'_>> {
        match self.state.leases.get(&id) {
            Some(lease) => Some(self.lease_survey(id, lease)),
            None => self
                .state
                .requests
                .get(&id.number)?
                .survey(id.number)
                .filter(|found| found.id == id),
        }
    }

    fn lease_survey<'a>(&'a self, id: LeaseId, lease: &'a Lease) -> LeaseSurvey<'a> {
        let item = self.item_of(id);
        let joins = item.and_then(|item| self.joins(lease.group?, item));
        let (rest, unconfirmed) = (self.rest_standing(id), self.is_unconfirmed(id));
        LeaseSurvey { rest, unconfirmed, item, joins, ..lease.survey(id) }
    }

    /// The items that an item of a request joins, if it is a link.
    fn joins(&self, number: u64, item: u16) -> Option<[u16; 2]> {
        let several = self.attempt(number).map(|attempt| &attempt.asked.request);
        let one = self.state.requests.get(&number).map(|request| &*request.wanted);
        let items = &several.or(one)?.items;
        items.get(usize::from(item))?.joins().map(|joins| joins.ends)
    }

    /// Where a lease, or a request without one, is in its life.
    pub fn standing(&self, id: LeaseId) -> Option<Standing<'_>> {
        self.survey_of(id).map(|survey| survey.state)
    }
}

impl Request {
    /// Where it stands, while it waits.
    fn waiting(&self) -> Option<&Waiting> {
        let asked = matches!(self.state, request::State::Asked);
        self.waiting.as_ref().map(|(waiting, _)| waiting).filter(|_| asked)
    }

    /// What is shown of a request that has no lease.
    fn survey(&self, number: u64) -> Option<LeaseSurvey<'_>> {
        self.stands_alone().then_some(LeaseSurvey {
            id: request::shown_as(number),
            slice: &self.slice,
            state: Standing::Request(&self.state),
            resource: self.resource()?,
            units: self.units(),
            min_units: self.min_units(),
            term: self.term()?,
            request: Some((self.broker, &self.wanted)),
            waiting: self.waiting(),
            configuration: &self.configuration,
            tickets: &[],
            group: None,
            item: None,
            joins: None,
            closed_by: None,
            stays: None,
            unheard: None,
            unconfirmed: false,
            recalled: None,
            rest: None,
            worth: None,
            cost: None,
            assurance: Assurance::Firm,
            sequence: None,
        })
    }
}

impl Lease {
    fn survey(&self, id: LeaseId) -> LeaseSurvey<'_> {
        LeaseSurvey {
            id,
            slice: &self.slice,
            state: Standing::Lease(&self.state),
            resource: &self.resource,
            units: self.units,
            min_units: self.min_units.get(),
            term: self.term,
            request: None,
            waiting: None,
            configuration: &self.configuration,
            tickets: &self.tickets,
            group: self.group,
            item: None,
            joins: None,
            closed_by: self.closed_by.as_ref(),
            stays: self.stays.as_deref(),
            unheard: self.unheard,
            unconfirmed: false,
            recalled: self.next_told(),
            rest: None,
            worth: Some(self),
            cost: self.costs.total(),
            assurance: self.assurance,
            sequence: Some(&self.sequence),
        }
    }
}
