//! S2: no actor hands on more than it holds.

mod recalls;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::model::Cover;
use super::{Check, Law, Scene, Tally, LawVerdict};
use tenure_core::model::calendar::Calendar;
use tenure_core::broker::facts as broker;
use tenure_core::service_manager::facts as service_manager;
use tenure_core::broker::machine::{State, Tickets};
use tenure_core::site_authority::facts as site_authority;
use tenure_core::model::identity::ActorId;
use tenure_core::site_authority::machine::CloseReason;
use tenure_core::model::name::Name;
use tenure_core::model::resource::{Attributes, overbooked};
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::ledger::LEDGER_RETENTION;
use tenure_core::ticket::link::{AccountId, DelegationId, LinkHash, SignedLink};
use tenure_core::ticket::receipt::{Receipt, Return};
use tenure_core::model::time::{Term, Time};
use tenure_core::wire::handover::Outcome;
use tenure_core::wire::recall::{Level, Notice};

pub(super) const LAW: Law = Law {
    id: "S2",
    name: "conservation",
    statement: "At every instant, as far back as a term may start, the children of a ticket that \
                were not given back do not exceed it: those an honest broker issues or holds back for \
                an offer, those an honest holder hands on or gives back, and those an honest site accepts. A used ticket counts as its own child. A site delegates \
                no more than its stock, and what that is overbooked by. Of a delegation that is recalled a site accepts no more than \
                stays, and a broker that was told of it hands on no more. A delegation ends only when no ticket under it can run \
                any more. The receipts of a ticket never exceed it, and count up; when it is given back \
                nothing is left of it.",
    source: "linear resource, no over-subscription; Shirako S10, S14",
    on: "facts",
};

#[derive(Default)]
pub(super) struct Checker {
    /// What is left of each ticket in the eyes of each actor.
    left: BTreeMap<(ActorId, AccountId), Account>,
    /// What each child takes from which account, in the eyes of each actor.
    taken: BTreeMap<(ActorId, LinkHash), Charge>,
    /// Tickets that were used whole, at each site.
    used: BTreeSet<(ActorId, LinkHash)>,
    /// How much of a delegation stays by its last recall, in the eyes of each actor.
    levels: BTreeMap<(ActorId, AccountId), Level>,
    /// The delegations above each ticket that was used, at each site.
    above: BTreeMap<(ActorId, LinkHash), Vec<AccountId>>,
    /// What each site has not delegated, by type.
    stock: BTreeMap<(ActorId, Name), Calendar>,
    /// How many units each stock is overbooked by.
    extra: BTreeMap<(ActorId, Name), u32>,
    /// What each service manager asks a site to take of a kept ticket, by lease.
    rests: BTreeMap<(ActorId, LeaseId), (AccountId, Term, i64)>,
}

/// What is left of a ticket over time.
struct Account {
    /// The link, or the newest generation of the delegation.
    head: SignedLink,
    left: Calendar,
    /// What all generations cover, without what came back.
    cover: Cover,
    /// Of a delegation below another: what it was cut from.
    under: Option<AccountId>,
}

/// What a child takes from its parent.
struct Charge {
    account: AccountId,
    link: SignedLink,
    /// What of it was not given back, over time.
    out: Calendar,
    /// How many receipts there are for it.
    receipts: u32,
}

impl Check for Checker {
    fn site(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use site_authority::Fact;
        match fact {
            Fact::Stocked(fact) => {
                self.installed(scene, &fact.resource, fact.units)?;
                self.overbooked(scene, &fact.resource, &fact.attributes, tally)
            }
            Fact::UnitAdded(fact) => self.installed(scene, &fact.resource, 1),
            Fact::InventoryChanged(fact) => {
                let count = i64::try_from(fact.withdrawn.len()).unwrap_or(i64::MAX);
                self.overbooked(scene, &fact.resource, &fact.attributes, tally)?;
                self.withdrawn(scene, &fact.resource, count, tally)
            }
            Fact::QuantityWithdrawn(fact) => {
                self.withdrawn(scene, &fact.resource, i64::from(fact.quantity.get()), tally)
            }
            Fact::DelegationIssued(fact) => self.delegated(scene, fact.ticket.bottom(), tally),
            Fact::DelegatedByHand(fact) => self.delegated(scene, fact.ticket.bottom(), tally),
            Fact::DelegationEnded(fact) => {
                let id = DelegationId { issuer: scene.actor, number: fact.number };
                self.ended(scene, id, scene.at, tally)
            }
            Fact::Recalled(fact) => self.recalled(scene, fact),
            Fact::Redeemed(fact) => self.accepted(scene, &fact.ticket, tally),
            Fact::LeaseExtended(fact) => self.accepted(scene, &fact.ticket, tally),
            Fact::TicketSurrendered(fact) => {
                self.claimed(scene, &fact.ticket, tally)?;
                self.signed(scene, &[&fact.ticket], &fact.receipts, tally)?;
                self.nothing_left(scene, &[&fact.ticket], 0, scene.at, tally)
            }
            Fact::UnitsReturned(fact) => {
                let tickets = tickets_of(scene, fact.lease);
                self.signed(scene, &tickets, &fact.receipts, tally)
            }
            Fact::QuantityReturned(fact) => {
                let tickets = tickets_of(scene, fact.lease);
                self.signed(scene, &tickets, &fact.receipts, tally)
            }
            Fact::TermReturned(fact) => {
                let tickets = tickets_of(scene, fact.lease);
                self.signed(scene, &tickets, &fact.receipts, tally)?;
                self.nothing_left(scene, &tickets, 0, fact.until, tally)
            }
            Fact::TicketReclaimed(fact) => self.rights(scene, &fact.ticket, &fact.receipts, tally),
            Fact::RightsReturned(fact) => self.rights(scene, &fact.ticket, &fact.receipts, tally),
            Fact::RightsRecalled(fact) => self.rights_recalled(scene, fact, tally),
            Fact::UnitsRecalled(fact) => {
                let tickets = with_all_above(&tickets_of(scene, fact.lease));
                let tickets: Vec<&Ticket> = tickets.iter().collect();
                self.signed(scene, &tickets, &fact.receipts, tally)
            }
            Fact::LeaseClosed(fact) => self.closed(scene, fact, tally),
            Fact::LeaseForgotten(fact) => self.forgotten(scene, fact.lease),
            _ => Ok(()),
        }
    }

    fn guest(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::Fact,
        tally: &mut Tally,
    ) -> LawVerdict {
        use service_manager::Fact;
        match fact {
            Fact::TicketsSplit(fact) => {
                let guest = scene.model.guests.get(&scene.actor);
                let lease = guest.and_then(|guest| guest.leases.get(&fact.lease));
                let Some(ticket) = lease.and_then(|lease| lease.first.clone()) else { return Ok(()) };
                fact.links.iter().try_for_each(|link| self.take(scene, ticket.bottom(), link, tally))
            }
            Fact::ReceiptTaken(fact) => self.credited(scene, &fact.receipt, tally),
            Fact::RestBegun(fact) => self.rest_begun(scene, fact, tally),
            Fact::RestReturned(fact) => {
                // Of what it handed on to itself, its own receipt says that it came back.
                let own = fact.receipts.iter().all(|receipt| receipt.what.issuer == scene.actor);
                self.rest_answered(scene, fact.lease, own);
                Ok(())
            }
            Fact::RestRefused(fact) => {
                self.rest_answered(scene, fact.lease, true);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn broker(&mut self, scene: &Scene<'_>, fact: &broker::Fact, tally: &mut Tally) -> LawVerdict {
        use broker::Fact;
        match fact {
            Fact::DelegationTaken(fact) => {
                self.open(scene.actor, fact.ticket.bottom());
                Ok(())
            }
            Fact::DelegationEnded(fact) => {
                // A late renewal brings it back without its recall, which its site remembers.
                self.levels.remove(&(scene.actor, AccountId::Delegation(fact.delegation)));
                self.ended(scene, fact.delegation, scene.at.minus(LEDGER_RETENTION), tally)
            }
            Fact::DelegationIssued(fact) => self.sold(scene, &fact.ticket, tally),
            Fact::RecallTold(fact) => {
                let Notice { number, units, at: from, .. } = fact.told;
                let key = (scene.actor, AccountId::Delegation(fact.delegation));
                self.levels.insert(key, Level { number, units, from });
                Ok(())
            }
            Fact::ReturnBegun(fact) => self.returning(scene, fact, tally),
            Fact::ReturnRefused(fact) => {
                self.not_returning(scene, fact.delegation);
                Ok(())
            }
            Fact::PartReturned(fact) => {
                self.not_returning(scene, fact.delegation);
                for Receipt { what, .. } in &fact.receipts {
                    let key = AccountId::Delegation(fact.delegation);
                    self.retire(scene.actor, key, what.link, (what.number, what.units, what.term));
                }
                Ok(())
            }
            Fact::TicketsCut(fact) => {
                fact.tickets.iter().try_for_each(|(_, ticket)| self.sold(scene, ticket, tally))
            }
            Fact::OffersHeld(fact) => {
                let mut tickets = fact.offers.iter().flatten();
                tickets.try_for_each(|(_, ticket)| self.sold(scene, ticket, tally))
            }
            Fact::PortionKept(fact) => {
                fact.tickets.iter().try_for_each(|(_, ticket)| self.sold(scene, ticket, tally))
            }
            Fact::PortionsReleased(fact) => {
                self.uncut(scene, fact.request, None);
                Ok(())
            }
            Fact::PassAnswered(fact) => {
                // Another broker has met all of it meanwhile.
                if let Outcome::Granted(_) = fact.outcome {
                    self.uncut(scene, fact.request, None);
                }
                Ok(())
            }
            Fact::RequestRefused(fact) => {
                self.uncut(scene, fact.request, None);
                Ok(())
            }
            Fact::OfferAccepted(fact) => {
                self.uncut(scene, fact.request, Some(fact.offer));
                Ok(())
            }
            Fact::HoldEnded(fact) => {
                self.uncut(scene, fact.request, None);
                Ok(())
            }
            Fact::ReceiptTaken(fact) => self.credited(scene, &fact.receipt, tally),
            _ => Ok(()),
        }
    }
}

impl Checker {
    /// What is withdrawn was not delegated.
    fn installed(&mut self, scene: &Scene<'_>, resource: &Name, units: u32) -> LawVerdict {
        let all = Term::new(Time::MIN, Time::MAX);
        let stock = self.stock.entry((scene.actor, resource.clone())).or_default();
        all.into_iter().for_each(|all| stock.add(all, i64::from(units)));
        Ok(())
    }

    /// What a stock is overbooked by can be delegated like what is there.
    fn overbooked(
        &mut self,
        scene: &Scene<'_>,
        resource: &Name,
        attributes: &Attributes,
        tally: &mut Tally,
    ) -> LawVerdict {
        let extra = self.extra.entry((scene.actor, resource.clone())).or_default();
        let (old, new) = (std::mem::replace(extra, overbooked(attributes)), overbooked(attributes));
        self.installed(scene, resource, new.saturating_sub(old))?;
        match old.saturating_sub(new) {
            0 => Ok(()),
            fewer => self.withdrawn(scene, resource, i64::from(fewer), tally),
        }
    }

    fn withdrawn(
        &mut self,
        scene: &Scene<'_>,
        resource: &Name,
        count: i64,
        tally: &mut Tally,
    ) -> LawVerdict {
        let rest = Term::new(scene.at, Time::MAX);
        let stock = self.stock.entry((scene.actor, resource.clone())).or_default();
        rest.iter().for_each(|&rest| stock.add(rest, -count));
        let left = rest.map_or(0, |rest| stock.free_over(rest));
        tally.check(left >= 0, || {
            let name = scene.name();
            format!("{name} withdraws {count} units, {} of which are delegated", -left)
        })
    }

    /// A site takes back units of a ticket that is not redeemed: none that a part of it claims.
    fn rights(
        &mut self,
        scene: &Scene<'_>,
        ticket: &Ticket,
        receipts: &[Receipt],
        tally: &mut Tally,
    ) -> LawVerdict {
        if receipts.is_empty() {
            return Ok(());
        }
        for pair in ticket.links().windows(2) {
            self.take(scene, &pair[0], &pair[1], tally)?;
        }
        let (link, key) = (ticket.bottom(), (scene.actor, ticket.bottom().account()));
        if !self.left.contains_key(&key) {
            self.open(scene.actor, link);
        }
        self.signed(scene, &[ticket], receipts, tally)?;
        let left = self.left.get(&key);
        let short = left.and_then(|account| account.left.first_short(link.term.from(scene.at)?, 0));
        tally.check(short.is_none(), || {
            let (name, link) = (scene.name(), ticket.hash());
            format!("{name} takes units of ticket {link} back that were handed on")
        })
    }

    /// A site delegates within its stock.
    fn delegated(&mut self, scene: &Scene<'_>, link: &SignedLink, tally: &mut Tally) -> LawVerdict {
        let changes = self.open(scene.actor, link);
        let stock = self.stock.entry((scene.actor, link.resource.clone())).or_default();
        changes.iter().for_each(|&(term, units)| stock.add(term, -units));
        let left = stock.free_over(link.term);
        let mut out = Calendar::new();
        out.add(link.term, i64::from(link.units.get()));
        let charge = Charge { account: link.account(), link: link.clone(), out, receipts: 0 };
        self.taken.entry((scene.actor, link.hash())).or_insert(charge);
        tally.check(left >= 0, || {
            let (name, account) = (scene.name(), link.account());
            format!("{name} delegates {} units as {account}, {} more than it has", link.units, -left)
        })
    }

    /// A delegation ends when nothing under it runs any more `by` an instant.
    fn ended(
        &mut self,
        scene: &Scene<'_>,
        id: DelegationId,
        by: Time,
        tally: &mut Tally,
    ) -> LawVerdict {
        let account = self.left.remove(&(scene.actor, AccountId::Delegation(id)));
        let until = account.map(|account| account.head.term.end());
        tally.check(until.is_some_and(|until| until <= by), || {
            let (name, at) = (scene.name(), scene.at);
            format!("{name} ends {id} at {at}, which covers tickets until {until:?}")
        })
    }

    /// Opens the account of a ticket, or adds its next generation.
    fn open(&mut self, eyes: ActorId, link: &SignedLink) -> Vec<(Term, i64)> {
        let account = self.left.entry((eyes, link.account())).or_insert_with(|| Account {
            head: link.clone(),
            left: Calendar::new(),
            cover: Cover::default(),
            under: None,
        });
        if account.head.term.end() <= link.term.end() {
            account.head = link.clone();
        }
        let changes = account.cover.take(link);
        changes.iter().for_each(|&(term, units)| account.left.add(term, units));
        changes
    }

    /// A part of a generation of a delegation comes back: its parent has it again.
    fn retire(
        &mut self,
        eyes: ActorId,
        id: AccountId,
        hash: LinkHash,
        (number, units, term): (u32, NonZeroU32, Term),
    ) {
        let Some(account) = self.left.get_mut(&(eyes, id)) else { return };
        let changes = account.cover.back(hash, (number, units.get(), term));
        self.reckon(eyes, id, &changes);
    }

    /// What a delegation covers has changed.
    fn reckon(&mut self, eyes: ActorId, id: AccountId, changes: &[(Term, i64)]) {
        let Some(account) = self.left.get_mut(&(eyes, id)) else { return };
        changes.iter().for_each(|&(term, units)| account.left.add(term, units));
        let (under, resource) = (account.under, account.head.resource.clone());
        let own = matches!(id, AccountId::Delegation(id) if id.issuer == eyes);
        if let Some(above) = under.and_then(|under| self.left.get_mut(&(eyes, under))) {
            changes.iter().for_each(|&(term, units)| above.left.add(term, -units));
        } else if own && let Some(stock) = self.stock.get_mut(&(eyes, resource)) {
            changes.iter().for_each(|&(term, units)| stock.add(term, -units));
        }
    }

    /// A broker lets go of units that it is to give back: they must be free.
    fn returning(
        &mut self,
        scene: &Scene<'_>,
        fact: &broker::ReturnBegun,
        tally: &mut Tally,
    ) -> LawVerdict {
        let link = fact.ticket.bottom();
        let Some(term) = link.term.from(fact.from) else { return Ok(()) };
        self.retire(scene.actor, link.account(), link.hash(), (u32::MAX, fact.units, term));
        let account = self.left.get(&(scene.actor, link.account()));
        let short = account.and_then(|account| account.left.first_short(term, 0));
        tally.check(short.is_none(), || {
            let (name, id) = (scene.name(), link.account());
            format!("{name} gives back {} units of {id} that it has sold", fact.units)
        })
    }

    /// A service manager gives back units of a kept ticket: none that it has handed on or given back.
    fn rest_begun(
        &mut self,
        scene: &Scene<'_>,
        fact: &service_manager::RestBegun,
        tally: &mut Tally,
    ) -> LawVerdict {
        let guest = scene.model.guests.get(&scene.actor);
        let lease = guest.and_then(|guest| guest.leases.get(&fact.lease));
        let Some(link) = lease.and_then(|lease| lease.first.as_ref()).map(Ticket::bottom) else {
            return Ok(());
        };
        let Some(term) = link.term.from(fact.from) else { return Ok(()) };
        let (id, units) = (link.account(), i64::from(fact.units.get()));
        if !self.left.contains_key(&(scene.actor, id)) {
            self.open(scene.actor, link);
        }
        let Some(account) = self.left.get_mut(&(scene.actor, id)) else { return Ok(()) };
        account.left.add(term, -units);
        self.rests.insert((scene.actor, fact.lease), (id, term, units));
        let short = account.left.first_short(term, 0);
        tally.check(short.is_none(), || {
            let (name, lease) = (scene.name(), fact.lease);
            format!("{name} gives back {units} units of the ticket of lease {lease} that it has handed on")
        })
    }

    /// What a service manager gives back is answered; if it stays after all, it can be handed on.
    fn rest_answered(&mut self, scene: &Scene<'_>, lease: LeaseId, stays: bool) {
        let begun = self.rests.remove(&(scene.actor, lease));
        let Some((id, term, units)) = begun.filter(|_| stays) else { return };
        if let Some(account) = self.left.get_mut(&(scene.actor, id)) {
            account.left.add(term, units);
        }
    }

    /// What was to be given back is not on its way any more.
    fn not_returning(&mut self, scene: &Scene<'_>, delegation: DelegationId) {
        let broker = scene.model.brokers.get(&scene.actor);
        let begun = broker.and_then(|broker| broker.returning.get(&delegation));
        let Some(hash) = begun.map(|returning| returning.begun.ticket.hash()) else { return };
        let id = AccountId::Delegation(delegation);
        let Some(account) = self.left.get_mut(&(scene.actor, id)) else { return };
        let changes = account.cover.not_back(hash, u32::MAX);
        self.reckon(scene.actor, id, &changes);
    }

    /// A site accepts a ticket: every link of it, and the use of the last one.
    fn claimed(&mut self, scene: &Scene<'_>, ticket: &Ticket, tally: &mut Tally) -> LawVerdict {
        for pair in ticket.links().windows(2) {
            self.take(scene, &pair[0], &pair[1], tally)?;
        }
        let link = ticket.bottom();
        if !self.used.insert((scene.actor, link.hash())) {
            return Ok(());
        }
        // Of one that came back in part less is used.
        let part = self.taken.get(&(scene.actor, link.hash())).is_some_and(|c| c.receipts > 0);
        if part {
            return Ok(());
        }
        let whole = [(link.term, i64::from(link.units.get()))];
        self.charge_for(scene, (link, link), &whole, tally)
    }

    /// A lease is over: its receipts are those of its tickets, and nothing of them is left.
    fn closed(
        &mut self,
        scene: &Scene<'_>,
        fact: &site_authority::LeaseClosed,
        tally: &mut Tally,
    ) -> LawVerdict {
        let tickets = tickets_of(scene, fact.lease);
        let all = match fact.why {
            CloseReason::Recalled(_) => with_all_above(&tickets),
            CloseReason::TermOver
            | CloseReason::GivenBack
            | CloseReason::Failed(_)
            | CloseReason::Silent(_) => {
                tickets.iter().map(|ticket| (*ticket).clone()).collect()
            }
        };
        self.signed(scene, &all.iter().collect::<Vec<_>>(), &fact.receipts, tally)?;
        match fact.why {
            CloseReason::TermOver => Ok(()),
            CloseReason::GivenBack
            | CloseReason::Failed(_)
            | CloseReason::Recalled(_)
            | CloseReason::Silent(_) => {
                self.nothing_left(scene, &tickets, 0, scene.at, tally)
            }
        }
    }

    /// A site whose clock is put back may meet a ticket that it has forgotten, and take what is not back of
    /// it once more: as it was, or as parts that it was handed on in.
    fn forgotten(&mut self, scene: &Scene<'_>, lease: LinkHash) -> LawVerdict {
        if scene.model.participants.clocks_hold {
            return Ok(());
        }
        for ticket in tickets_of(scene, lease) {
            let (hash, key) = (ticket.hash(), (scene.actor, ticket.bottom().account()));
            let charge = self.taken.get(&(scene.actor, hash));
            if let (true, Some(charge), Some(own)) =
                (self.used.remove(&(scene.actor, hash)), charge, self.left.get_mut(&key))
            {
                let levels = charge.out.levels();
                let ends = levels.iter().skip(1).map(|&(at, _)| at).chain([Time::MAX]);
                for (&(from, level), end) in levels.iter().zip(ends) {
                    Term::new(from, end).into_iter().for_each(|term| own.left.add(term, level));
                }
            }
        }
        Ok(())
    }

    /// A child of a ticket, taken once.
    fn take(
        &mut self,
        scene: &Scene<'_>,
        parent: &SignedLink,
        child: &SignedLink,
        tally: &mut Tally,
    ) -> LawVerdict {
        let key = (scene.actor, child.hash());
        if self.taken.contains_key(&key) {
            return Ok(());
        }
        let mut out = Calendar::new();
        out.add(child.term, i64::from(child.units.get()));
        let charge = Charge { account: parent.account(), link: child.clone(), out, receipts: 0 };
        self.taken.insert(key, charge);
        if child.delegation.is_none() {
            let whole = [(child.term, i64::from(child.units.get()))];
            return self.charge_for(scene, (parent, child), &whole, tally);
        }
        let more = self.open(scene.actor, child);
        if let Some(account) = self.left.get_mut(&(scene.actor, child.account())) {
            account.under = Some(parent.account());
        }
        self.charge_for(scene, (parent, child), &more, tally)
    }

    fn charge_for(
        &mut self,
        scene: &Scene<'_>,
        (parent, child): (&SignedLink, &SignedLink),
        charged: &[(Term, i64)],
        tally: &mut Tally,
    ) -> LawVerdict {
        let key = (scene.actor, parent.account());
        if !self.left.contains_key(&key) {
            self.open(scene.actor, parent);
        }
        let Some(account) = self.left.get_mut(&key) else { return Ok(()) };
        // No ledger is exact further back than a term may start.
        let past = scene.at.minus(LEDGER_RETENTION);
        account.left.forget_until(past.minus(LEDGER_RETENTION));
        charged.iter().for_each(|&(term, units)| account.left.add(term, -units));
        let Some(term) = child.term.from(past) else { return Ok(()) };
        let short = account.left.first_short(term, 0);
        tally.check(short.is_none(), || {
            let at = short.unwrap_or(term.start());
            let (name, over) = (scene.name(), -account.left.free_at(at));
            let (child, parent) = (child.hash(), account.head.account());
            format!("{name} lets ticket {child} exceed what is left of {parent} by {over} at {at}")
        })
    }

    /// What a broker held and kept back is free again, but for the offer that was accepted.
    fn uncut(&mut self, scene: &Scene<'_>, id: RequestId, accepted: Option<u8>) {
        let broker = scene.model.brokers.get(&scene.actor);
        let record = broker.and_then(|broker| broker.requests.get(&id));
        let state = record.map(|record| &record.state);
        if let Some(gathered) = state.and_then(State::gathered) {
            return self.uncut_all(scene.actor, &gathered.own);
        }
        let Some(State::Held { offers, .. }) = state else { return };
        for (_, offer) in (1u8..).zip(offers).filter(|(number, _)| Some(*number) != accepted) {
            self.uncut_all(scene.actor, offer);
        }
    }

    fn uncut_all(&mut self, eyes: ActorId, tickets: &Tickets) {
        for (_, ticket) in tickets {
            let link = ticket.bottom();
            self.free(eyes, link.hash(), (link.units, link.term), Time::MIN);
        }
    }

    /// Units of a ticket are back, from an instant on.
    fn given_back(&mut self, eyes: ActorId, what: &Return, from: Time) {
        let of_delegation = self.taken.get_mut(&(eyes, what.link));
        let of_delegation = of_delegation.filter(|charge| charge.link.delegation.is_some());
        if let (Some(charge), Some(term)) = (of_delegation, what.term.from(from)) {
            charge.out.add(term, -i64::from(what.units.get()));
            let id = charge.link.account();
            return self.retire(eyes, id, what.link, (what.number, what.units, term));
        }
        self.free(eyes, what.link, (what.units, what.term), from);
    }

    fn free(&mut self, eyes: ActorId, hash: LinkHash, what: (NonZeroU32, Term), from: Time) {
        let Some(charge) = self.taken.get_mut(&(eyes, hash)) else { return };
        let Some(term) = what.1.from(from) else { return };
        let units = i64::from(what.0.get());
        charge.out.add(term, -units);
        if let Some(account) = self.left.get_mut(&(eyes, charge.account)) {
            account.left.add(term, units);
        }
        // What is back cannot be cut from the ticket, nor used.
        let used = self.used.contains(&(eyes, hash));
        let own = self.left.get_mut(&(eyes, AccountId::Link(hash))).filter(|_| !used);
        if let Some(account) = own {
            account.left.add(term, -units);
        }
    }

    /// A broker may sell again what a receipt says, once.
    fn credited(&mut self, scene: &Scene<'_>, receipt: &Receipt, tally: &mut Tally) -> LawVerdict {
        let what = &receipt.what;
        let charge = self.taken.get(&(scene.actor, what.link));
        let good = charge.is_some_and(|charge| {
            charge.link.term.encloses(what.term)
                && charge.out.free_over(what.term) >= i64::from(what.units.get())
        });
        tally.check(good, || {
            let (name, link) = (scene.name(), what.link);
            format!("{name} credits {} units of ticket {link}, which are not out", what.units)
        })?;
        self.given_back(scene.actor, what, what.term.start());
        Ok(())
    }

    /// A site signs what came back of some tickets: no more than is left of them, under the next numbers.
    fn signed(
        &mut self,
        scene: &Scene<'_>,
        tickets: &[&Ticket],
        receipts: &[Receipt],
        tally: &mut Tally,
    ) -> LawVerdict {
        for Receipt { what, .. } in receipts {
            let of = tickets.iter().any(|ticket| ticket.hash() == what.link);
            let charge = self.taken.get_mut(&(scene.actor, what.link)).filter(|_| of);
            let left = charge.as_ref().is_some_and(|charge| {
                scene.at <= what.term.start()
                    && charge.link.term.encloses(what.term)
                    && charge.out.free_over(what.term) >= i64::from(what.units.get())
            });
            tally.check(left, || {
                let (name, at, link) = (scene.name(), scene.at, what.link);
                let (units, term) = (what.units, what.term);
                format!("{name} signs at {at} that {units} units of ticket {link} are back over {term}, \
                         which is more than is left")
            })?;
            let next = charge.map_or(0, |charge| std::mem::replace(&mut charge.receipts, what.number + 1));
            tally.check(what.number == next, || {
                let (name, link, number) = (scene.name(), what.link, what.number);
                format!("{name} numbers a receipt of ticket {link} {number}, not {next}")
            })?;
            self.given_back(scene.actor, what, what.term.start());
        }
        Ok(())
    }

    /// A lease covers no more than it has units: what it gave up at a site has receipts.
    fn nothing_left(
        &mut self,
        scene: &Scene<'_>,
        tickets: &[&Ticket],
        most: u32,
        from: Time,
        tally: &mut Tally,
    ) -> LawVerdict {
        for ticket in tickets {
            let Some(rest) = ticket.bottom().term.from(from) else { continue };
            let charge = self.taken.get(&(scene.actor, ticket.hash()));
            let over = charge.is_some_and(|charge| most_over(&charge.out, rest) > i64::from(most));
            tally.check(!over, || {
                let (name, link, at) = (scene.name(), ticket.hash(), scene.at);
                format!("{name} signs at {at} less of ticket {link} than came back")
            })?;
        }
        Ok(())
    }
}

/// The highest level of a calendar over a term.
fn most_over(levels: &Calendar, term: Term) -> i64 {
    let inside = levels.levels().into_iter().filter(|(from, _)| term.contains(*from));
    inside.map(|(_, level)| level).chain([levels.free_at(term.start())]).max().unwrap_or(0)
}

/// The tickets of a lease at its site.
fn tickets_of<'a>(scene: &Scene<'a>, lease: LinkHash) -> Vec<&'a Ticket> {
    let lease = scene.model.sites.get(&scene.actor).and_then(|site| site.leases.get(&lease));
    lease.iter().flat_map(|lease| &lease.tickets).collect()
}

/// These tickets and all that they were cut from.
fn with_all_above(tickets: &[&Ticket]) -> Vec<Ticket> {
    let prefixes = tickets.iter().flat_map(|ticket| {
        let links = ticket.links();
        (1..=links.len()).filter_map(|n| Ticket::try_from(links[..n].to_vec()).ok())
    });
    prefixes.collect()
}
