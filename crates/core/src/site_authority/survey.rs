//! The state of a site authority, for display.

use std::num::NonZeroU32;

use super::{SiteAuthority, Unit, UnitNotes};
use crate::driver::{Epoch, UnitId};
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::slice::LeaseId;
use crate::model::time::Term;
use crate::site_authority::machine::State;
use crate::site_authority::unit;
use crate::ticket::Ticket;
use crate::ticket::link::LinkHash;

/// A unit of a site.
#[derive(Clone, Copy, Debug)]
pub struct UnitSurvey<'a> {
    /// Its number.
    pub id: UnitId,
    /// Its type.
    pub resource: &'a Name,
    /// Where it is in its life.
    pub state: &'a unit::State,
    /// Its fencing number.
    pub epoch: Epoch,
    /// How much of a divisible stock it is; 1 for a machine.
    pub quantity: NonZeroU32,
    /// How it failed, until it is clean again.
    pub fault: Option<&'a str>,
    /// What is known of it otherwise, if anything.
    pub notes: Option<&'a UnitNotes>,
}

/// A lease at its site.
#[derive(Clone, Copy, Debug)]
pub struct SiteLeaseSurvey<'a> {
    /// Its name here: the hash of its first ticket.
    pub ticket: LinkHash,
    /// Its name at its holder; a ticket that was given back without a redeem has none.
    pub id: Option<LeaseId>,
    /// Who holds it.
    pub holder: ActorId,
    /// Where it is in its life.
    pub state: &'a State,
    /// The type of its units.
    pub resource: &'a Name,
    /// How many units its ticket is for.
    pub units: u32,
    /// How many of them it lacks: none unless it is due.
    pub lacks: u32,
    /// From when to when.
    pub term: Term,
}

impl SiteAuthority {
    /// Its units, by number.
    pub fn unit_survey(&self) -> impl Iterator<Item = UnitSurvey<'_>> {
        self.state.units.iter().map(|(&id, unit)| self.surveyed(id, unit))
    }

    /// One of its units.
    pub fn unit_survey_of(&self, id: UnitId) -> Option<UnitSurvey<'_>> {
        self.state.units.get(&id).map(|unit| self.surveyed(id, unit))
    }

    fn surveyed<'a>(&'a self, id: UnitId, unit: &'a Unit) -> UnitSurvey<'a> {
        let Unit { resource, state, epoch, quantity, fault, .. } = unit;
        let notes = self.state.stocks.get(resource).and_then(|pool| pool.known.get(&id));
        let (epoch, quantity, fault) = (*epoch, *quantity, fault.as_deref());
        UnitSurvey { id, resource, state, epoch, quantity, fault, notes }
    }

    /// The leases it remembers.
    pub fn lease_survey(&self) -> impl Iterator<Item = SiteLeaseSurvey<'_>> {
        self.state.leases.keys().filter_map(|&ticket| self.lease_survey_of(ticket))
    }

    /// The lease that a ticket began or extended, if it is remembered.
    pub fn lease_survey_of(&self, ticket: LinkHash) -> Option<SiteLeaseSurvey<'_>> {
        let ticket = *self.state.by_ticket.get(&ticket).unwrap_or(&ticket);
        let lease = self.state.leases.get(&ticket)?;
        Some(SiteLeaseSurvey {
            ticket,
            id: lease.id,
            holder: lease.holder(),
            state: &lease.state,
            resource: &lease.tickets[0].bottom().resource,
            units: lease.wanted,
            lacks: lease.lacks(),
            term: lease.term,
        })
    }

    /// The delegations it has out, each with its newest generation.
    pub fn delegations(&self) -> impl Iterator<Item = &Ticket> {
        self.state.delegations.values().map(|delegation| &delegation.ticket)
    }
}
