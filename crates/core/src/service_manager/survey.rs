//! What a service manager shows of its leases to whoever looks.

use super::{Lease, ServiceManager};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::Term;
use crate::service_manager::machine::State;
use crate::ticket::link::LinkHash;
use crate::wire::message::Request;
use crate::wire::refusal::Refusal;

/// A lease as its service manager knows it.
#[derive(Clone, Copy, Debug)]
pub struct LeaseSurvey<'a> {
    /// Its name.
    pub id: LeaseId,
    /// Its group.
    pub slice: &'a SliceName,
    /// Where it is in its life.
    pub state: &'a State,
    /// The type of its units.
    pub resource: &'a Name,
    /// How many it has or wants.
    pub units: u32,
    /// How few will do.
    pub least: u32,
    /// The term held or, before it is granted, the first one asked for.
    pub term: Term,
    /// The request, for as long as an answer may come.
    pub request: Option<&'a Request>,
    /// Its tickets: its own, then those of its extensions.
    pub tickets: &'a [LinkHash],
    /// The site that closed it of its own accord, and why.
    pub closed_by: Option<&'a (ActorId, Refusal)>,
}

impl ServiceManager {
    /// All leases that are remembered, in the order in which they were asked for.
    pub fn survey(&self) -> impl Iterator<Item = LeaseSurvey<'_>> {
        self.leases.iter().map(|(&id, lease)| lease.survey(id))
    }

    /// One lease, if it is remembered.
    pub fn survey_of(&self, id: LeaseId) -> Option<LeaseSurvey<'_>> {
        self.leases.get(&id).map(|lease| lease.survey(id))
    }
}

impl Lease {
    fn survey(&self, id: LeaseId) -> LeaseSurvey<'_> {
        LeaseSurvey {
            id,
            slice: &self.slice,
            state: &self.state,
            resource: &self.resource,
            units: self.units,
            least: self.least.get(),
            term: self.term,
            request: self.request.as_deref(),
            tickets: &self.tickets,
            closed_by: self.closed_by.as_ref(),
        }
    }
}
