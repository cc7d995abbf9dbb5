//! What a site's mapper sees and decides (sites alone assign specific units).

use std::collections::BTreeSet;

use crate::actor::fact::Memo;
use crate::driver::UnitId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::time::{Term, Time};
use crate::site_authority::SiteAuthority;
use crate::ticket::link::LinkHash;

/// Decides which units a lease gets.
pub trait SiteAuthorityMapper: Send {
    /// Answers one round. The same view, memo and all, must get the same answer. A lease that gets fewer
    /// units than it lacks is asked about again when units come free.
    fn decide(&self, view: &View<'_>) -> Decision;
}

/// Units for one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The lease.
    pub lease: LinkHash,
    /// The units.
    pub units: Vec<UnitId>,
    /// Why these.
    pub reason: String,
}

/// The answer to a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The round that is answered.
    pub round: u64,
    /// Carried out in this order.
    pub assignments: Vec<Assignment>,
    /// What to remember, if that changed.
    pub memo: Option<Memo>,
    /// When to be asked again even if nothing happens.
    pub wake: Option<Time>,
}

/// A lease that lacks units.
#[derive(Clone, Debug)]
pub struct Waiting<'a> {
    /// The lease.
    pub lease: LinkHash,
    /// The type.
    pub resource: &'a Name,
    /// How many units it lacks.
    pub lacks: u32,
    /// Its term.
    pub term: Term,
    /// What the guest wants of the units.
    pub configuration: &'a Properties,
    /// Units that failed it before; the core does not put them on it again.
    pub failed: &'a BTreeSet<UnitId>,
}

/// A site authority, read only, at one instant.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    actor: &'a SiteAuthority,
    now: Time,
    round: u64,
}

impl<'a> View<'a> {
    pub(crate) fn new(actor: &'a SiteAuthority, now: Time, round: u64) -> Self {
        Self { actor, now, round }
    }

    /// The time of the question.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The round to answer.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// What was remembered.
    pub fn memo(&self) -> &'a Memo {
        self.actor.state.rounds.memo()
    }

    /// The leases that lack units, in the order in which they came to.
    pub fn waiting(&self) -> impl Iterator<Item = Waiting<'a>> {
        self.actor.waiting()
    }

    /// The clean units of a type that are on no lease, by number.
    pub fn free_units(&self, resource: &Name) -> impl Iterator<Item = UnitId> + use<'a> {
        self.actor.free_units(resource)
    }

    /// The units of a type that are being cleaned and on no lease, by number. A lease put on one waits
    /// until it is clean.
    pub fn cleaning_units(&self, resource: &Name) -> impl Iterator<Item = UnitId> + use<'a> {
        self.actor.cleaning_units(resource)
    }
}
