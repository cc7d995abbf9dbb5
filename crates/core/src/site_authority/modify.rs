//! How the configuration of a running lease changes in place.
//!
//! A modification has a number under its lease, which only counts up: a known one is answered as it was. It
//! takes hold on all units or on none; when the driver fails on one of them, those that have the new
//! configuration get the old one back.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::apply::missing;
use super::{Cause, Lease, Obligation, SiteAuthority};
use crate::actor::Emit as _;
use crate::actor::effect::{DriverResult, Problem};
use crate::actor::fact::{BadFact, truncate_text};
use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::property::Properties;
use crate::model::resource::at_site;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::site_authority::Output;
use crate::site_authority::facts::{
    LeaseModified, ModificationBegun, ModificationFailed, UnitModified, UnitModifyFailed,
};
use crate::site_authority::machine::{Event, State};
use crate::site_authority::unit;
use crate::ticket::link::LinkHash;
use crate::ticket::{Ticket, TicketFault};
use crate::wire::heartbeat::KEEP_ALIVE;
use crate::wire::message::{MAX_CONFIGURATION, MAX_UNIT_BYTES, Message, Subject};
use crate::wire::refusal::Refusal;

/// A change of a lease's configuration, by the number that its holder gave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Modification {
    number: u32,
    standing: Standing,
}

/// How far a modification is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Standing {
    /// The driver changes the units.
    Open {
        /// All of the new configuration.
        configuration: Properties,
        /// Units of which the driver has said nothing yet.
        awaited: BTreeSet<UnitId>,
        /// What it reported of the others.
        modified: BTreeMap<UnitId, Properties>,
        /// Its words on the first that it failed on.
        error: Option<String>,
    },
    /// Answered: the fact behind the answer, and why the lease stays as it was, if it does.
    Answered(Cause, Option<Refusal>),
    /// The lease has changed since its guest had the answer.
    Past,
}

impl Lease {
    /// The configuration that its units are being given.
    pub(super) fn configuration_to_be(&self) -> Option<&Properties> {
        match &self.modification.as_ref()?.standing {
            Standing::Open { configuration, .. } => Some(configuration),
            Standing::Answered(..) | Standing::Past => None,
        }
    }

    /// Whether its units are being modified.
    pub(super) fn is_changing(&self) -> bool {
        self.configuration_to_be().is_some()
    }

    /// Its guest has had the answers that say how it stood.
    pub(super) fn forget_answers(&mut self) {
        self.answered.clear();
        if let Some(Modification { standing, .. }) = &mut self.modification
            && matches!(standing, Standing::Answered(_, None))
        {
            *standing = Standing::Past;
        }
    }

    /// These units leave it, modified or not.
    pub(super) fn modify_without(&mut self, units: &[UnitId]) {
        if let Some(Modification { standing: Standing::Open { awaited, modified, .. }, .. }) =
            &mut self.modification
        {
            awaited.retain(|unit| !units.contains(unit));
            modified.retain(|unit, _| !units.contains(unit));
        }
    }
}

impl SiteAuthority {
    pub(super) fn modify(
        &mut self,
        now: Time,
        from: ActorId,
        ticket: &Ticket,
        (number, configuration): (u32, Properties),
        out: &mut Output,
    ) {
        let hash = ticket.hash();
        if let Err(refusal) = self.begin_to_modify(now, from, ticket, (number, configuration), out)
        {
            let (subject, offers) = (Subject::Modify(hash, number), Vec::new());
            let message = Message::Refused { subject, refusal, offers };
            out.replies.push(self.base.volatile(from, now, message));
        }
    }

    fn begin_to_modify(
        &mut self,
        now: Time,
        from: ActorId,
        ticket: &Ticket,
        (number, configuration): (u32, Properties),
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let (hash, holder) = (ticket.hash(), ticket.bottom().holder);
        if holder != from && !mutant!(HolderNotChecked) {
            return Err(TicketFault::NotHolder(holder).into());
        }
        let none = || Refusal::Malformed("no lease began with this ticket".to_owned());
        let lease = self.state.leases.get(&hash).ok_or_else(none)?;
        match &lease.state {
            State::Closed { .. } => {
                self.repeat_answer(hash, hash, out);
                return Ok(());
            }
            State::Early | State::Due | State::Priming { .. } => return Ok(()),
            State::Active { .. } if lease.term.end() <= now => return Ok(()),
            State::Active { .. } => {}
        }
        match lease.modification.as_ref() {
            Some(last) if last.number == number && !mutant!(ModifiesTwice) => {
                self.answer_modification(hash, out);
                return Ok(());
            }
            Some(last) if number < last.number => {
                let cause = format!("modification {number} is older than the last");
                return Err(Refusal::Malformed(cause));
            }
            Some(_) if lease.is_changing() => return Ok(()),
            Some(_) | None => {}
        }
        self.check_configuration(lease, &configuration)?;
        self.emit(now, ModificationBegun { lease: hash, number, configuration }, out);
        Ok(())
    }

    /// Whether a lease may have this configuration.
    fn check_configuration(
        &self,
        lease: &Lease,
        configuration: &Properties,
    ) -> Result<(), Refusal> {
        configuration.check_bytes(MAX_CONFIGURATION).map_err(|error| {
            Refusal::Malformed(format!("the configuration is too long: {error}"))
        })?;
        let kept = self.state.tenancies.get(&lease.tickets[0].hash());
        let kept = kept.and_then(|tenancy| tenancy.configuration.get(KEEP_ALIVE));
        if kept != configuration.get(KEEP_ALIVE) {
            return Err(Refusal::Malformed(format!("`{KEEP_ALIVE}` cannot be changed")));
        }
        for link in lease.tickets.iter().map(Ticket::bottom) {
            let Some(pool) = self.state.stocks.get(&link.resource) else { continue };
            let attributes = at_site(&pool.attributes, Some(&self.base.setup.name));
            let unmet = link.constraints.first_unmet(&attributes, configuration, &[]);
            if let Some(unmet) = unmet.filter(|_| !mutant!(ModifiedOutOfBounds)) {
                return Err(Refusal::Constraint(unmet));
            }
        }
        let ticket = &lease.tickets[0];
        self.state.charges.admit(&self.limits, ticket, configuration)
    }

    /// The answer to the last modification of a lease, the same as long as it has the same units.
    fn answer_modification(&self, hash: LinkHash, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash) else { return };
        let Some(Modification { number, standing: Standing::Answered(cause, refusal) }) =
            &lease.modification
        else {
            return;
        };
        let number = *number;
        let Some(refusal) = refusal.clone() else {
            // A part of the lease may have come back since: then it is another message.
            let units = self.leased_units(lease);
            let message = Message::Modified { ticket: hash, number, units };
            return out.replies.push(self.base.joint_answer(lease.holder(), *cause, message));
        };
        let subject = Subject::Modify(hash, number);
        let message = Message::Refused { subject, refusal, offers: Vec::new() };
        out.replies.push(self.base.answer(lease.holder(), *cause, message));
    }

    pub(super) fn modify_done(&mut self, now: Time, done: DriverResult, out: &mut Output) {
        let DriverResult { unit, epoch, number, outcome, .. } = done;
        let record = self.state.units.get(&unit);
        let current =
            record.is_some_and(|unit| unit.epoch == epoch && unit.modifications == number);
        if !current || !self.state.pending.requires(&Obligation::Modify(unit)) {
            let cause = format!("modify {number} of {unit} in {epoch:?} is not owed");
            return out.problems.push(Problem::Command(cause));
        }
        let tenant = record.and_then(|unit| unit.state.tenant());
        match outcome {
            Ok(properties) => {
                self.emit(now, UnitModified { unit, epoch, number, properties }, out);
            }
            Err(error) => {
                let error = truncate_text(&error.0);
                self.emit(now, UnitModifyFailed { unit, epoch, number, error }, out);
            }
        }
        if let Some(lease) = tenant {
            self.settle_modification(now, lease, out);
        }
    }

    /// A modification is over once the driver has answered for each unit.
    pub(super) fn settle_modification(&mut self, now: Time, hash: LinkHash, out: &mut Output) {
        let Some(lease) = self.state.leases.get(&hash) else { return };
        let Some(Modification {
            number,
            standing: Standing::Open { awaited, modified, error, .. },
        }) = &lease.modification
        else {
            return;
        };
        if !awaited.is_empty() {
            return;
        }
        let (number, over) = (*number, lease.term.end() <= now);
        let bytes: usize = modified.values().map(Properties::bytes).sum();
        let too_long =
            || format!("the units have {bytes} bytes of properties, {MAX_UNIT_BYTES} fit");
        let error = error.clone().or_else(|| (bytes > MAX_UNIT_BYTES).then(too_long));
        match error.filter(|_| !mutant!(HalfModified)) {
            Some(error) => {
                let refusal = Refusal::ModifyFailed(error);
                self.emit(now, ModificationFailed { lease: hash, number, refusal }, out);
            }
            None => self.emit(now, LeaseModified { lease: hash, number }, out),
        }
        // A site that slept may find both at once: its guest has let go of the lease by then.
        if !over {
            self.answer_modification(hash, out);
        }
    }

    pub(super) fn modification_begun(
        &mut self,
        at: Time,
        fact: &ModificationBegun,
    ) -> Result<(), BadFact> {
        self.step_lease(at, fact.lease, Event::Modified)?;
        let Some(lease) = self.state.leases.get_mut(&fact.lease) else { return Ok(()) };
        let units = lease.state.units();
        let standing = Standing::Open {
            configuration: fact.configuration.clone(),
            awaited: units.iter().copied().collect(),
            modified: BTreeMap::new(),
            error: None,
        };
        lease.modification = Some(Modification { number: fact.number, standing });
        // Both configurations are remembered until it is over.
        self.state.charges.release(lease);
        lease.configuration_bytes += fact.configuration.bytes();
        self.state.charges.charge(lease);
        for unit in units {
            self.modify_unit(at, unit);
        }
        Ok(())
    }

    /// A unit is to have the configuration and the quantity that it is known to have by now.
    pub(super) fn modify_unit(&mut self, at: Time, id: UnitId) {
        let Some(unit) = self.state.units.get_mut(&id) else { return };
        unit.modifications += 1;
        self.require(Obligation::Modify(id), at);
    }

    pub(super) fn unit_modified(&mut self, at: Time, fact: &UnitModified) -> Result<(), BadFact> {
        self.state.pending.settle(&Obligation::Modify(fact.unit));
        self.share_reduced(fact.unit);
        let tenant = self.tenant_of(fact.unit)?;
        let lease = self.state.leases.get_mut(&tenant);
        if let Some(Modification { standing: Standing::Open { awaited, modified, .. }, .. }) =
            lease.and_then(|lease| lease.modification.as_mut())
            && awaited.remove(&fact.unit)
        {
            modified.insert(fact.unit, fact.properties.clone());
            return Ok(());
        }
        let event = unit::Event::Modified(fact.properties.clone());
        self.step_unit(at, fact.unit, event)?;
        Ok(())
    }

    pub(super) fn unit_modify_failed(&mut self, fact: &UnitModifyFailed) -> Result<(), BadFact> {
        self.state.pending.settle(&Obligation::Modify(fact.unit));
        let tenant = self.tenant_of(fact.unit)?;
        let lease = self.state.leases.get_mut(&tenant);
        if let Some(Modification { standing: Standing::Open { awaited, error, .. }, .. }) =
            lease.and_then(|lease| lease.modification.as_mut())
            && awaited.remove(&fact.unit)
        {
            error.get_or_insert_with(|| fact.error.clone());
        }
        Ok(())
    }

    fn tenant_of(&self, unit: UnitId) -> Result<LinkHash, BadFact> {
        let tenant = self.state.units.get(&unit).and_then(|unit| unit.state.tenant());
        tenant.ok_or_else(|| missing("modified unit", unit))
    }

    pub(super) fn lease_modified(&mut self, at: Time, fact: &LeaseModified) -> Result<(), BadFact> {
        let (configuration, modified) = self.end_modification(at, fact.lease, None)?;
        for (unit, properties) in modified {
            self.step_unit(at, unit, unit::Event::Modified(properties))?;
        }
        self.configured(fact.lease, configuration);
        Ok(())
    }

    pub(super) fn modification_failed(
        &mut self,
        at: Time,
        fact: &ModificationFailed,
    ) -> Result<(), BadFact> {
        let (_, modified) = self.end_modification(at, fact.lease, Some(fact.refusal.clone()))?;
        for &unit in modified.keys().filter(|_| !mutant!(NotModifiedBack)) {
            self.modify_unit(at, unit);
        }
        let tenancy = self.state.tenancies.get(&fact.lease);
        let before = tenancy.map(|tenancy| tenancy.configuration.clone()).unwrap_or_default();
        self.configured(fact.lease, before);
        Ok(())
    }

    /// A modification is over: what it was for, and what the driver reported.
    fn end_modification(
        &mut self,
        at: Time,
        hash: LinkHash,
        refusal: Option<Refusal>,
    ) -> Result<(Properties, BTreeMap<UnitId, Properties>), BadFact> {
        let cause = self.cause(at);
        let lease = self.state.leases.get_mut(&hash).ok_or_else(|| missing("event", hash))?;
        let open = lease.modification.as_mut().ok_or_else(|| missing("modification", hash))?;
        let answered = Standing::Answered(cause, refusal);
        match std::mem::replace(&mut open.standing, answered) {
            Standing::Open { configuration, modified, .. } => {
                // Its guest has had the answers that name the old properties, which also a failure may change: what was
                // modified is modified back, and the driver says what the unit is like then.
                lease.answered.clear();
                Ok((configuration, modified))
            }
            Standing::Answered(..) | Standing::Past => Err(missing("modification", hash)),
        }
    }

    /// What a lease is set up with from now on.
    fn configured(&mut self, hash: LinkHash, configuration: Properties) {
        if let Some(lease) = self.state.leases.get_mut(&hash) {
            self.state.charges.release(lease);
            lease.configuration_bytes = configuration.bytes();
            self.state.charges.charge(lease);
        }
        if let Some(tenancy) = self.state.tenancies.get_mut(&hash) {
            tenancy.configuration = configuration;
        }
    }
}
