//! What a site's journal says of one recall, ticket, unit or lease.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::NOTHING;
use tenure_core::driver::{Epoch, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Term, Time};
use tenure_core::site_authority::machine::State;
use tenure_core::site_authority::unit;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::receipt::Receipt;
use tenure_core::wire::recall::Level;
use tenure_core::wire::refusal::Refusal;

/// A recall at its site.
pub(crate) struct RecallRecord {
    pub(crate) ticket: Ticket,
    pub(crate) level: Level,
    pub(crate) receipts: Vec<Receipt>,
}

/// A ticket that was refused for good.
pub(crate) struct RefusedTicket {
    pub(crate) ticket: Ticket,
    pub(crate) refusal: Refusal,
}

/// A unit.
pub(crate) struct UnitRecord {
    pub(crate) resource: Name,
    pub(crate) state: unit::State,
    pub(crate) epoch: Epoch,
    /// The guest's name for the lease that was set up last.
    pub(crate) served: LeaseId,
    /// Whether its site has it no longer.
    pub(crate) withdrawn: bool,
    /// How much of a divisible stock it is, and how much of the stock it takes up.
    pub(crate) quantity: NonZeroU32,
    pub(crate) taken: NonZeroU32,
    /// How many modifications of it were begun.
    pub(crate) modifications: u32,
}

impl UnitRecord {
    pub(crate) fn word(&self) -> &'static str {
        if self.withdrawn { NOTHING } else { self.state.word() }
    }
}

/// A lease at its site.
pub(crate) struct SiteLease {
    pub(crate) state: State,
    /// Its own ticket, then its extensions.
    pub(crate) tickets: Vec<Ticket>,
    pub(crate) term: Term,
    pub(crate) id: LeaseId,
    /// The units it went active with, and their epochs.
    pub(crate) active_with: BTreeMap<UnitId, Epoch>,
    /// Those that it was handed over with.
    pub(crate) handed_over: BTreeMap<UnitId, Epoch>,
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) forgotten: bool,
    /// How much its share is, and with how much it goes on.
    pub(crate) quantity: u32,
    pub(crate) seams: Vec<u32>,
    /// The last change of its configuration.
    pub(crate) modification: Option<ModificationRecord>,
}

/// A change of a lease's configuration.
pub(crate) struct ModificationRecord {
    pub(crate) number: u32,
    /// The units that the driver has changed.
    pub(crate) modified: BTreeMap<UnitId, Properties>,
    /// How it went: changed, or refused.
    pub(crate) outcome: Option<Result<(), Refusal>>,
}

impl SiteLease {
    pub(crate) fn holder(&self) -> ActorId {
        self.tickets[0].bottom().holder
    }

    pub(crate) fn word(&self) -> &'static str {
        if self.forgotten { NOTHING } else { self.state.word() }
    }
}

/// Over which term something is left of a ticket of which this came back before it was redeemed; all of it if
/// nothing is left.
pub(super) fn left_of(ticket: &Ticket, back: &[Receipt]) -> Term {
    let link = ticket.bottom();
    let edges =
        back.iter().flat_map(|receipt| [receipt.what.term.start(), receipt.what.term.end()]);
    let inside = edges.filter(|edge| link.term.contains(*edge));
    let starts: BTreeSet<Time> = inside.chain([link.term.start()]).collect();
    let ends = starts.iter().skip(1).copied().chain([link.term.end()]);
    let has_units = |start: Time| {
        let gone = back.iter().filter(|receipt| receipt.what.term.contains(start));
        gone.map(|receipt| receipt.what.units.get()).sum::<u32>() < link.units.get()
    };
    let end = starts.iter().zip(ends).filter(|(start, _)| has_units(**start)).map(|(_, end)| end);
    end.max().and_then(|end| link.term.until(end)).unwrap_or(link.term)
}
