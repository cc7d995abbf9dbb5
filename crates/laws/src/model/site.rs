//! What a site's journal says: units, delegations, leases, tickets.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::site_records::{RecallRecord, RefusedTicket, SiteLease, UnitRecord, left_of};
use super::{Change, Folded, NOTHING, Subject, Unfounded, unfounded};
use tenure_core::driver::{Epoch, UnitId};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::resource::is_divisible;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Term, Time};
use tenure_core::site_authority::facts::{
    Fact, InventoryChanged, LeaseClosed, LeaseExtended, Recalled, Redeemed, RightsReturned,
    Stocked, TermReturned, TicketReclaimed, TicketRefused, TicketSurrendered, UnitSetUp,
    UnitsAssigned,
};
use tenure_core::site_authority::machine::{CloseReason, Event, State};
use tenure_core::site_authority::unit;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{DelegationId, LinkHash, SignedLink};
use tenure_core::ticket::receipt::Receipt;
use tenure_core::wire::recall::{Level, Notice};
use tenure_core::wire::refusal::Refusal;

/// The model of one site.
#[derive(Default)]
pub(crate) struct SiteModel {
    /// How many units of each type there are.
    pub(crate) stock: BTreeMap<Name, u32>,
    /// How much there is of each divisible type.
    pub(crate) quantities: BTreeMap<Name, u32>,
    pub(crate) units: BTreeMap<UnitId, UnitRecord>,
    /// The units that get no new tenant.
    pub(crate) drained: BTreeSet<UnitId>,
    /// The units that have names.
    pub(crate) names: BTreeMap<Name, UnitId>,
    /// The units of each stack, by their names.
    pub(crate) stacks: BTreeMap<Name, BTreeSet<Name>>,
    /// The units that failed in use, each with the lease that it failed.
    pub(crate) failed: BTreeMap<UnitId, LinkHash>,
    /// Every generation of every delegation.
    pub(crate) delegations: BTreeMap<(DelegationId, u32), Ticket>,
    /// Leases and surrendered tickets, forgotten ones too.
    pub(crate) leases: BTreeMap<LinkHash, SiteLease>,
    /// The lease of each ticket that was redeemed or surrendered.
    pub(crate) by_ticket: BTreeMap<LinkHash, LinkHash>,
    /// The names of all these tickets.
    pub(crate) issued: BTreeSet<LinkHash>,
    /// The newest generation of each delegation that is not acknowledged.
    offered: BTreeMap<u64, LinkHash>,
    /// The receipts for parts of tickets that are not redeemed.
    pub(crate) rights: BTreeMap<LinkHash, Vec<Receipt>>,
    /// Tickets that were not redeemed in time and went back to their issuers, with the receipts.
    pub(crate) reclaimed: BTreeMap<LinkHash, Vec<Receipt>>,
    /// Tickets that were refused for good.
    pub(crate) refused: BTreeMap<LinkHash, RefusedTicket>,
    /// Every link of the tickets that it issued, took or refused.
    links: BTreeMap<LinkHash, SignedLink>,
    /// The newest recall of each link, with all receipts for what recalls of it took.
    pub(crate) recalls: BTreeMap<LinkHash, RecallRecord>,
    /// What the holders of leases are told of recalls, by lease and link.
    pub(crate) told: BTreeMap<(LinkHash, LinkHash), Notice>,
    /// By lease and link, the number of the recall that last took units of it.
    pub(crate) taken_by: BTreeMap<(LinkHash, LinkHash), u32>,
}

impl SiteModel {
    pub(super) fn fold(&mut self, me: ActorId, at: Time, fact: &Fact) -> Folded {
        let mut changes = SiteChanges { site: me, changes: Vec::new() };
        match fact {
            Fact::Stocked(fact) => self.stocked(fact, &mut changes),
            Fact::InventoryChanged(fact) => self.withdrawn(fact, &mut changes)?,
            Fact::DelegationIssued(fact) => self.delegated(&fact.ticket)?,
            Fact::DelegatedByHand(fact) => self.delegated(&fact.ticket)?,
            Fact::Redeemed(fact) => self.redeemed(at, fact, &mut changes),
            Fact::LeaseExtended(fact) => self.extended(fact, &mut changes)?,
            Fact::UnitsReturned(fact) => {
                self.released(fact.lease, &fact.units, &mut changes)?;
                self.part_returned(fact.lease, &fact.receipts);
            }
            Fact::TermReturned(fact) => self.shortened(fact, &mut changes)?,
            Fact::LeaseShrunk(fact) => {
                self.released(fact.lease, &fact.units, &mut changes)?;
                self.shrunk(fact.lease);
            }
            Fact::RightsReturned(fact) => self.rights_returned(fact),
            Fact::TicketRefused(fact) => {
                let (ticket, refusal) = (fact.ticket.clone(), self.refusal(fact)?);
                self.refused.insert(ticket.hash(), RefusedTicket { ticket, refusal });
            }
            Fact::CameDue(fact) => self.step_lease(fact.lease, Event::CameDue, &mut changes)?,
            Fact::UnitsAssigned(fact) => self.assigned(fact, &mut changes)?,
            Fact::UnitSetUp(fact) => self.set_up(fact, &mut changes)?,
            Fact::UnitSetupFailed(fact) => {
                self.lost(fact.unit, unit::Event::SetupFailed, &mut changes)?;
            }
            Fact::UnitFailed(fact) => self.failed(fact.unit, &mut changes)?,
            Fact::UnitTornDown(fact) => self.torn_down(fact.unit, &mut changes)?,
            Fact::ShareAssigned(_)
            | Fact::QuantityReturned(_)
            | Fact::QuantityWithdrawn(_)
            | Fact::ModificationBegun(_)
            | Fact::UnitModified(_)
            | Fact::UnitModifyFailed(_)
            | Fact::LeaseModified(_)
            | Fact::ModificationFailed(_) => self.changed_in_place(fact, &mut changes)?,
            Fact::UnitTeardownFailed(fact) => {
                self.lost(fact.unit, unit::Event::TeardownFailed, &mut changes)?;
            }
            Fact::StockPlanned(_)
            | Fact::UnitAdded(_)
            | Fact::StacksPlanned(_)
            | Fact::UnitDescribed(_)
            | Fact::UnitDrained(_)
            | Fact::UnitNeeded(_)
            | Fact::UnitResumed(_)
            | Fact::UnitQuarantined(_)
            | Fact::UnitRestored(_)
            | Fact::UnitReset(_) => self.operated(fact, &mut changes)?,
            Fact::LeaseActivated(fact) => self.activated(fact.lease, &mut changes)?,
            Fact::LeaseClosed(fact) => self.closed(fact, &mut changes)?,
            Fact::TicketReclaimed(fact) => self.reclaimed(fact),
            Fact::TicketSurrendered(fact) => self.surrendered(fact, &mut changes),
            Fact::LeaseForgotten(fact) => self.forgotten(fact.lease, &mut changes),
            Fact::DelegationAcknowledged(fact) => {
                self.offered.remove(&fact.number);
            }
            Fact::DelegationEnded(fact) => self.delegation_ended(me, fact.number)?,
            Fact::Recalled(_)
            | Fact::RightsRecalled(_)
            | Fact::UnitsRecalled(_)
            | Fact::RecallNoted(_) => self.of_recall(fact, &mut changes)?,
            _ => {}
        }
        Ok(changes.changes)
    }

    fn reclaimed(&mut self, fact: &TicketReclaimed) {
        self.know(&fact.ticket);
        self.reclaimed.insert(fact.ticket.hash(), fact.receipts.clone());
    }

    fn delegation_ended(&mut self, me: ActorId, number: u64) -> Result<(), Unfounded> {
        let id = DelegationId { issuer: me, number };
        let issued = self.delegations.range((id, 0)..=(id, u32::MAX)).next();
        issued.ok_or_else(|| unfounded(id))?;
        self.offered.remove(&id.number);
        Ok(())
    }

    /// What operators do to units.
    fn operated(&mut self, fact: &Fact, changes: &mut SiteChanges) -> Result<(), Unfounded> {
        match fact {
            Fact::UnitAdded(fact) => {
                self.installed(&fact.resource, 1, changes);
                let unit = self.units.last_key_value().map(|(last, _)| (fact.name.clone(), *last));
                self.names.extend(unit);
            }
            Fact::StacksPlanned(fact) => self.stacks.clone_from(&fact.stacks),
            Fact::UnitDrained(fact) => self.drained.extend([fact.unit]),
            Fact::UnitResumed(fact) => drop(self.drained.remove(&fact.unit)),
            Fact::UnitQuarantined(fact) => {
                self.step_unit(fact.unit, unit::Event::Quarantined, changes)?;
            }
            Fact::UnitRestored(fact) => {
                self.step_unit(fact.unit, unit::Event::Restored, changes)?;
            }
            Fact::UnitReset(fact) => self.step_unit(fact.unit, unit::Event::Reset, changes)?,
            _ => {}
        }
        Ok(())
    }

    /// Shares and their quantities, and configurations of leases that run.
    fn changed_in_place(
        &mut self,
        fact: &Fact,
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        match fact {
            Fact::ShareAssigned(fact) => self.share_assigned(fact, changes)?,
            Fact::QuantityReturned(fact) => {
                self.part_returned(fact.lease, &fact.receipts);
                self.step_lease(fact.lease, Event::Modified, changes)?;
                self.reduced_by(fact.lease, fact.quantity.get());
            }
            Fact::QuantityWithdrawn(fact) => {
                let stock = self.quantities.entry(fact.resource.clone()).or_default();
                *stock = stock.saturating_sub(fact.quantity.get());
            }
            Fact::ModificationBegun(fact) => {
                self.step_lease(fact.lease, Event::Modified, changes)?;
                self.modification_begun(fact.lease, fact.number);
            }
            Fact::UnitModified(fact) => self.unit_modified(fact, changes)?,
            Fact::LeaseModified(fact) => {
                self.modification_over(fact.lease, Ok(()), changes)?;
            }
            Fact::ModificationFailed(fact) => {
                self.modification_over(fact.lease, Err(fact.refusal.clone()), changes)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn rights_returned(&mut self, fact: &RightsReturned) {
        self.know(&fact.ticket);
        let rights = self.rights.entry(fact.ticket.hash()).or_default();
        rights.extend(fact.receipts.iter().cloned());
    }

    /// Recalls, and what they take.
    fn of_recall(&mut self, fact: &Fact, changes: &mut SiteChanges) -> Result<(), Unfounded> {
        match fact {
            Fact::Recalled(fact) => self.recalled(fact),
            Fact::RightsRecalled(fact) => self.receipts_of_recall(fact.link, &fact.receipts),
            Fact::UnitsRecalled(fact) => {
                if !fact.units.is_empty() {
                    self.released(fact.lease, &fact.units, changes)?;
                }
                self.receipts_of_recall(fact.link, &fact.receipts);
                let recall = self.recalls.get(&fact.link).map(|recall| recall.level.number);
                self.taken_by.extend(recall.map(|number| ((fact.lease, fact.link), number)));
                self.reduced_by_recall(fact.lease, fact.link);
            }
            Fact::RecallNoted(fact) => {
                if let Some(told) = self.told.get_mut(&(fact.lease, fact.link)) {
                    told.victims.clone_from(&fact.victims);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn recalled(&mut self, fact: &Recalled) {
        let (link, Level { number, .. }) = (fact.ticket.hash(), fact.level);
        self.know(&fact.ticket);
        for cut in &fact.cuts {
            let (units, at) = (cut.units, cut.at);
            let old = self.told.remove(&(cut.lease, link));
            let victims = old.map(|old| old.victims).unwrap_or_default();
            let told = Notice { link, number, units, at, victims, unclaimed: false };
            self.told.insert((cut.lease, link), told);
        }
        let (ticket, level) = (fact.ticket.clone(), fact.level);
        let receipts = self.recalls.remove(&link).map(|old| old.receipts).unwrap_or_default();
        self.recalls.insert(link, RecallRecord { ticket, level, receipts });
    }

    fn receipts_of_recall(&mut self, link: LinkHash, receipts: &[Receipt]) {
        // Of a delegation nothing comes back: it is held down to a level.
        let recall = self.recalls.get_mut(&link);
        if let Some(recall) = recall.filter(|r| r.ticket.bottom().delegation.is_none()) {
            recall.receipts.extend(receipts.iter().cloned());
        }
    }

    fn delegated(&mut self, ticket: &Ticket) -> Result<(), Unfounded> {
        let link = ticket.bottom();
        let generation = link.delegation.ok_or_else(|| unfounded("a delegation"))?;
        let id = DelegationId { issuer: link.issuer, number: generation.delegation };
        self.issued.insert(link.hash());
        self.know(ticket);
        self.offered.insert(generation.delegation, link.hash());
        self.delegations.insert((id, generation.generation), ticket.clone());
        Ok(())
    }

    fn know(&mut self, ticket: &Ticket) {
        for link in ticket.links() {
            self.links.entry(link.hash()).or_insert_with(|| link.clone());
        }
    }

    /// Why a ticket was refused, with all the evidence.
    pub(crate) fn refusal(&self, fact: &TicketRefused) -> Result<Refusal, Unfounded> {
        let find = |hash| self.links.get(&hash).cloned();
        let refusal = fact.denial.refusal(&fact.ticket, find);
        refusal.ok_or_else(|| unfounded("a link in evidence"))
    }

    fn stocked(&mut self, fact: &Stocked, changes: &mut SiteChanges) {
        if is_divisible(&fact.attributes) {
            *self.quantities.entry(fact.resource.clone()).or_default() += fact.units;
            return;
        }
        self.installed(&fact.resource, fact.units, changes);
    }

    fn installed(&mut self, resource: &Name, units: u32, changes: &mut SiteChanges) {
        let first = self.units.last_key_value().map_or(0, |(last, _)| last.0 + 1);
        *self.stock.entry(resource.clone()).or_default() += units;
        for number in first..first + units {
            let record = UnitRecord {
                resource: resource.clone(),
                state: unit::State::Free,
                epoch: Epoch::default(),
                served: LeaseId { number: 0, part: 0 },
                withdrawn: false,
                quantity: NonZeroU32::MIN,
                taken: NonZeroU32::MIN,
                modifications: 0,
            };
            changes.unit(UnitId(number), NOTHING, record.state.word());
            self.units.insert(UnitId(number), record);
        }
    }

    fn withdrawn(
        &mut self,
        fact: &InventoryChanged,
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        for &id in &fact.withdrawn {
            let unit = self.units.get_mut(&id).filter(|unit| !unit.withdrawn);
            let unit = unit.ok_or_else(|| unfounded(id))?;
            changes.unit(id, unit.word(), NOTHING);
            unit.withdrawn = true;
            let stock = self.stock.entry(fact.resource.clone()).or_default();
            *stock = stock.saturating_sub(1);
        }
        Ok(())
    }

    fn redeemed(&mut self, at: Time, fact: &Redeemed, changes: &mut SiteChanges) {
        let due = fact.ticket.bottom().term.start() <= at;
        let state = if due { State::Due } else { State::Early };
        self.lease_born(&fact.ticket, state, fact.lease, Vec::new(), changes);
    }

    fn surrendered(&mut self, fact: &TicketSurrendered, changes: &mut SiteChanges) {
        let state = State::Closed { units: Default::default(), why: fact.why.clone() };
        let nameless = LeaseId { number: 0, part: 0 };
        self.lease_born(&fact.ticket, state, nameless, fact.receipts.clone(), changes);
    }

    fn lease_born(
        &mut self,
        ticket: &Ticket,
        state: State,
        id: LeaseId,
        receipts: Vec<Receipt>,
        changes: &mut SiteChanges,
    ) {
        let hash = ticket.hash();
        self.know(ticket);
        changes.ticket(hash, NOTHING, state.word());
        // A clock that fell back may have brought back a ticket that was forgotten.
        let before = self.leases.remove(&hash).map(|lease| lease.receipts);
        let rights = self.rights.remove(&hash);
        let back = [before, rights].into_iter().flatten().flatten().collect::<Vec<_>>();
        let lease = SiteLease {
            state,
            tickets: vec![ticket.clone()],
            term: left_of(ticket, &back),
            id,
            active_with: BTreeMap::new(),
            handed_over: BTreeMap::new(),
            receipts: [back, receipts].concat(),
            forgotten: false,
            quantity: ticket.bottom().units.get(),
            seams: Vec::new(),
            modification: None,
        };
        self.leases.insert(hash, lease);
        self.by_ticket.insert(hash, hash);
    }

    fn extended(
        &mut self,
        fact: &LeaseExtended,
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        let (hash, ticket) = (fact.lease, &fact.ticket);
        self.step_lease(hash, Event::Extended, changes)?;
        self.by_ticket.insert(ticket.hash(), hash);
        self.know(ticket);
        if let Some(lease) = self.leases.get_mut(&hash) {
            let end = ticket.bottom().term.end();
            lease.term = Term::new(lease.term.start(), end).unwrap_or(lease.term);
            let units = ticket.bottom().units.get();
            if units < lease.seams.last().copied().unwrap_or(lease.quantity) {
                lease.seams.push(units);
            }
            lease.tickets.push(ticket.clone());
        }
        Ok(())
    }

    fn assigned(
        &mut self,
        fact: &UnitsAssigned,
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        for &unit in &fact.units {
            self.step_unit(unit, unit::Event::Assigned(fact.lease), changes)?;
        }
        let units = fact.units.iter().copied().collect();
        self.step_lease(fact.lease, Event::Assigned(units), changes)
    }

    fn set_up(&mut self, fact: &UnitSetUp, changes: &mut SiteChanges) -> Result<(), Unfounded> {
        self.step_unit(fact.unit, unit::Event::SetUp(fact.properties.clone()), changes)?;
        match self.units.get(&fact.unit).map(|unit| &unit.state) {
            Some(&unit::State::Ready { tenant, .. }) => {
                self.step_lease(tenant, Event::UnitReady(fact.unit), changes)
            }
            _ => Ok(()),
        }
    }

    fn activated(&mut self, hash: LinkHash, changes: &mut SiteChanges) -> Result<(), Unfounded> {
        self.step_lease(hash, Event::Activated, changes)?;
        let Some(lease) = self.leases.get_mut(&hash) else { return Ok(()) };
        let epoch = |unit| Some((unit, self.units.get(&unit)?.epoch));
        lease.active_with = lease.state.units().into_iter().filter_map(epoch).collect();
        lease.handed_over.clone_from(&lease.active_with);
        Ok(())
    }

    fn closed(&mut self, fact: &LeaseClosed, changes: &mut SiteChanges) -> Result<(), Unfounded> {
        let lease = self.leases.get_mut(&fact.lease).ok_or_else(|| unfounded(fact.lease))?;
        let units = lease.state.units();
        let own = |receipt: &&Receipt| {
            lease.tickets.iter().any(|ticket| ticket.hash() == receipt.what.link)
        };
        let own: Vec<Receipt> = fact.receipts.iter().filter(own).cloned().collect();
        lease.receipts.extend(own);
        if let CloseReason::Recalled(link) = fact.why {
            self.receipts_of_recall(link, &fact.receipts);
        }
        self.step_lease(fact.lease, Event::Closed(fact.why.clone()), changes)?;
        for unit in units {
            self.step_unit(unit, unit::Event::Released, changes)?;
        }
        Ok(())
    }

    /// Some units leave a lease that goes on.
    fn released(
        &mut self,
        hash: LinkHash,
        units: &[UnitId],
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        self.step_lease(hash, Event::Shrunk(units.iter().copied().collect()), changes)?;
        for &unit in units {
            self.step_unit(unit, unit::Event::Released, changes)?;
        }
        if let Some(lease) = self.leases.get_mut(&hash) {
            lease.active_with.retain(|unit, _| !units.contains(unit));
        }
        Ok(())
    }

    /// The rest of a term is back.
    fn shortened(
        &mut self,
        fact: &TermReturned,
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        self.step_lease(fact.lease, Event::Shortened, changes)?;
        self.part_returned(fact.lease, &fact.receipts);
        if let Some(lease) = self.leases.get_mut(&fact.lease) {
            lease.term = lease.term.until(fact.until).unwrap_or(lease.term);
        }
        Ok(())
    }

    fn part_returned(&mut self, hash: LinkHash, receipts: &[Receipt]) {
        if let Some(lease) = self.leases.get_mut(&hash) {
            lease.receipts.extend(receipts.iter().cloned());
        }
    }

    fn forgotten(&mut self, hash: LinkHash, changes: &mut SiteChanges) {
        if let Some(lease) = self.leases.get_mut(&hash) {
            changes.ticket(hash, lease.word(), NOTHING);
            lease.forgotten = true;
        }
    }

    /// A unit has failed: a lease that is not active yet loses it.
    fn failed(&mut self, id: UnitId, changes: &mut SiteChanges) -> Result<(), Unfounded> {
        let tenant = self.tenant(id).ok_or_else(|| unfounded(id))?;
        if self.is_active(tenant) {
            self.failed.insert(id, tenant);
            return Ok(());
        }
        self.lost(id, unit::Event::Released, changes)
    }

    /// Whether a lease is in the hands of its guest.
    pub(crate) fn is_active(&self, lease: LinkHash) -> bool {
        let state = self.leases.get(&lease).map(|lease| &lease.state);
        state.is_some_and(|state| matches!(state, State::Active { .. }))
    }

    /// A unit will not serve the lease it was meant for.
    fn lost(
        &mut self,
        id: UnitId,
        event: unit::Event,
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        let tenant = self.tenant(id);
        self.step_unit(id, event, changes)?;
        match tenant.filter(|_| self.tenant(id).is_none()) {
            Some(lease) => self.step_lease(lease, Event::UnitLost(id), changes),
            None => Ok(()),
        }
    }

    /// The lease that a unit is on, or that waits for it.
    pub(crate) fn tenant(&self, unit: UnitId) -> Option<LinkHash> {
        self.units.get(&unit)?.state.tenant()
    }

    /// Whether a delegation waits for its broker.
    pub(crate) fn offers(&self, ticket: &Ticket) -> bool {
        let number = ticket.bottom().delegation.map(|generation| generation.delegation);
        number.and_then(|number| self.offered.get(&number)) == Some(&ticket.hash())
    }

    /// Whether a lease or ticket was closed with this receipt.
    pub(crate) fn vouches(&self, receipt: &Receipt) -> bool {
        let lease = self.by_ticket.get(&receipt.what.link).and_then(|hash| self.leases.get(hash));
        let rights = self.rights.get(&receipt.what.link);
        lease.is_some_and(|lease| lease.receipts.contains(receipt))
            || rights.is_some_and(|receipts| receipts.contains(receipt))
            || self.reclaimed.get(&receipt.what.link).is_some_and(|all| all.contains(receipt))
            || self.recalls.values().any(|recall| recall.receipts.contains(receipt))
    }

    pub(super) fn step_lease(
        &mut self,
        hash: LinkHash,
        event: Event,
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        let lease = self.leases.get_mut(&hash).ok_or_else(|| unfounded(hash))?;
        let from = lease.state.word();
        lease.state = std::mem::replace(&mut lease.state, State::Early).next(event)?;
        changes.ticket(hash, from, lease.state.word());
        Ok(())
    }

    pub(super) fn step_unit(
        &mut self,
        id: UnitId,
        event: unit::Event,
        changes: &mut SiteChanges,
    ) -> Result<(), Unfounded> {
        let unit = self.units.get_mut(&id).filter(|unit| !unit.withdrawn);
        let unit = unit.ok_or_else(|| unfounded(id))?;
        let from = unit.state.clone();
        unit.state = std::mem::replace(&mut unit.state, unit::State::Free).next(event)?;
        unit.epoch = unit::epoch_after(unit.epoch, &from, &unit.state);
        if let unit::State::SettingUp { tenant } = &unit.state {
            unit.served = self.leases.get(tenant).ok_or_else(|| unfounded(tenant))?.id;
        }
        changes.unit(id, from.word(), unit.state.word());
        Ok(())
    }
}

/// The state changes that a fact caused at one site.
pub(super) struct SiteChanges {
    site: ActorId,
    changes: Vec<Change>,
}

impl SiteChanges {
    /// Of the same site, without a change.
    pub(super) fn nothing(&self) -> Self {
        Self { site: self.site, changes: Vec::new() }
    }

    pub(super) fn unit(&mut self, unit: UnitId, from: &'static str, to: &'static str) {
        self.changes.push(Change { subject: Subject::Unit(self.site, unit), from, to });
    }

    fn ticket(&mut self, hash: LinkHash, from: &'static str, to: &'static str) {
        self.changes.push(Change { subject: Subject::Ticket(self.site, hash), from, to });
    }
}
