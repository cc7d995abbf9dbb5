//! How a broker checks what its mapper assigns, and cuts tickets for it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::Broker;
use crate::broker::machine::Tickets;
use crate::broker::mapper::Allocation;
use crate::driver::UnitId;
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::price::price_of;
use crate::model::property::Properties;
use crate::model::resource::is_divisible;
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::ticket::Ticket;
use crate::ticket::ledger::LEDGER_RETENTION;
use crate::ticket::link::{AccountId, Clauses, Link};
use crate::wire::message::{Item, MAX_UNITS, Request};
use crate::wire::offer::{Offer, OfferPart};

/// What is left of sources once parts were cut.
pub(super) type Drafts = BTreeMap<AccountId, Calendar>;

/// Units of one source for one item, checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    item: u16,
    account: AccountId,
    site: ActorId,
    units: NonZeroU32,
    term: Term,
    price: Option<u32>,
}

impl Part {
    /// How many units it is for, and when.
    pub(super) fn booked(&self) -> (Term, u32) {
        (self.term, self.units.get())
    }
}

/// Parts in plain values.
pub(super) fn offer_of(parts: &[Part]) -> Offer {
    let part = |part: &Part| {
        let &Part { item, site, units, term, price, .. } = part;
        OfferPart { item, site, units, term, price }
    };
    Offer { parts: parts.iter().map(part).collect() }
}

impl Broker {
    /// The parts of an allocation after all checks: no source is cut beyond what it covers.
    pub(super) fn parts_of(
        &self,
        request: &Request,
        allocation: &Allocation,
        drafts: &mut Drafts,
    ) -> Result<Vec<Part>, String> {
        let mut parts = Vec::new();
        let items = (0u16..).zip(request.items.iter().zip(&allocation.parts));
        for (index, (item, sources)) in items {
            for &(account, units) in sources {
                let term = item.term(allocation.term).ok_or("an item without a term")?;
                parts.push(self.part(request, (index, item), (account, units), term, drafts)?);
            }
        }
        check_together(request, &parts)?;
        check_apart(request, &parts)?;
        Ok(parts)
    }

    fn part(
        &self,
        request: &Request,
        (index, item): (u16, &Item),
        (account, units): (AccountId, u32),
        term: Term,
        drafts: &mut Drafts,
    ) -> Result<Part, String> {
        let absent = || format!("there is no source {account}");
        let holding = self.state.holdings.get(&account).ok_or_else(absent)?;
        if request.provisos.not_at.contains(&holding.ticket.site()) {
            return Err(format!("source {account} is at a site that the request excludes"));
        }
        if holding.ticket.bottom().resource != item.resource {
            return Err(format!("source {account} has no `{}`", item.resource));
        }
        let attributes = self.attributes_of(account, holding);
        if let Some(unmet) = item.requirements.first_broken(attributes, &Properties::default()) {
            return Err(format!("source {account} does not meet `{unmet}`"));
        }
        if !item.may_have(attributes) {
            return Err(format!("source {account} is for those who accept that it is recalled"));
        }
        if let Some(stacked) = &holding.ticket.bottom().clauses.stacked
            && let Some((stack, _)) =
                self.state.ledger.token_taken(stacked, request.id.origin, term)
        {
            return Err(format!("the token of stack `{stack}` of source {account} is taken"));
        }
        let price = price_of(attributes);
        let units = NonZeroU32::new(units).ok_or("a part of no units")?;
        if units.get() > MAX_UNITS && !is_divisible(attributes) {
            return Err(format!("{units} units of source {account} are more than {MAX_UNITS}"));
        }
        let free = match drafts.entry(account) {
            Entry::Occupied(draft) => draft.into_mut(),
            Entry::Vacant(none) => {
                let free = self.state.ledger.free(account).ok_or_else(absent)?;
                none.insert(free.clone())
            }
        };
        if free.free_over(term) < i64::from(units.get()) && !mutant!(NoSplitCheck) {
            return Err(format!("source {account} does not cover {units} units over {term}"));
        }
        free.add(term, -i64::from(units.get()));
        Ok(Part { item: index, account, site: holding.ticket.site(), units, term, price })
    }

    /// Whether a request asks for no more units than a lease can have: of a divisible stock any number,
    /// of machines as many as one message can name.
    pub(super) fn check_units(&self, request: &Request) -> Result<(), String> {
        let divisible = |resource: &Name| {
            let mut holdings = self.state.holdings.values();
            holdings.any(|holding| {
                holding.ticket.bottom().resource == *resource && is_divisible(&holding.attributes)
            })
        };
        let mut items = request.items.iter();
        let large = items.find(|i| i.units.get() > MAX_UNITS && !divisible(&i.resource));
        match large {
            Some(Item { units, .. }) => {
                Err(format!("{units} units in one item are more than {MAX_UNITS}"))
            }
            None => Ok(()),
        }
    }

    /// Cuts the tickets of checked parts. Serials go on from `serial`.
    pub(super) fn cut_tickets(
        &mut self,
        request: &Request,
        parts: &[Part],
        serial: &mut u64,
    ) -> Result<Tickets, String> {
        let mut tickets = Tickets::new();
        for &Part { item: index, account, units, term, price, .. } in parts {
            let absent = || format!("there is no source {account}");
            let item = request.items.get(usize::from(index)).ok_or("a part of no item")?;
            let parent = self.state.holdings.get(&account).ok_or_else(absent)?.ticket.clone();
            *serial += 1;
            let link = Link {
                parent: Some(parent.hash()),
                issuer: self.base.id(),
                holder: request.id.origin,
                resource: item.resource.clone(),
                units,
                term,
                constraints: parent.bottom().constraints.clone(),
                clauses: self
                    .clauses_of(item, &parent, term)
                    .redeemed_by(request.provisos.redeem_by)
                    .without(self.units_excluded(request, &parent))
                    .priced(price.filter(|_| !mutant!(PriceNotStated))),
                delegation: None,
                extends: item.extends,
                serial: *serial,
            };
            link.follows(Some(parent.bottom())).map_err(|fault| fault.to_string())?;
            tickets.push((index, parent.with(self.base.credentials.sign_link(link))));
        }
        Ok(tickets)
    }

    /// The units that a request excludes at the site of a ticket.
    fn units_excluded(&self, request: &Request, parent: &Ticket) -> BTreeSet<UnitId> {
        if mutant!(ExclusionNotHandedOn) {
            return BTreeSet::new();
        }
        request.provisos.not_on_at(parent.site())
    }

    /// What a ticket reserves: a notice only if that was asked for, and what it extends reserves.
    fn clauses_of(&self, item: &Item, parent: &Ticket, term: Term) -> Clauses {
        let inherited = parent.bottom().clauses.inherited();
        match item.extends.and_then(|extends| self.state.ledger.entered(extends)) {
            Some((_, extended)) => extended.clauses.extended(inherited),
            None => item.accepts.clauses(inherited, term.start()),
        }
    }

    /// Whether the grant of an extension keeps source, units and term of what it continues from.
    pub(super) fn check_extensions(
        &self,
        request: &Request,
        parts: &[Vec<(AccountId, u32)>],
    ) -> Result<(), String> {
        for (item, sources) in request.items.iter().zip(parts) {
            let Some(extends) = item.extends else { continue };
            let held = self.state.ledger.entered(extends).map(|(account, _)| account);
            if sources.len() != 1 || held != Some(sources[0].0) || sources[0].1 != item.units.get()
            {
                return Err("an extension keeps its source and its units".to_owned());
            }
        }
        Ok(())
    }
}

/// Whether items that belong together come from one site.
fn check_together(request: &Request, parts: &[Part]) -> Result<(), String> {
    let mut sites: BTreeMap<u8, ActorId> = BTreeMap::new();
    for part in parts {
        let item = request.items.get(usize::from(part.item));
        let Some(together) = item.and_then(|item| item.together) else { continue };
        if *sites.entry(together).or_insert(part.site) != part.site {
            return Err("items that belong together come from one site".to_owned());
        }
    }
    Ok(())
}

/// Whether items that belong apart come from different sites, each from one.
fn check_apart(request: &Request, parts: &[Part]) -> Result<(), String> {
    let mut items: BTreeMap<(u8, ActorId), u16> = BTreeMap::new();
    let mut sites: BTreeMap<u16, ActorId> = BTreeMap::new();
    for part in parts {
        let item = request.items.get(usize::from(part.item));
        let Some(apart) = item.and_then(|item| item.apart) else { continue };
        let own_site = *sites.entry(part.item).or_insert(part.site) == part.site;
        let alone = *items.entry((apart, part.site)).or_insert(part.item) == part.item;
        if !own_site || !alone {
            return Err("items that belong apart come from different sites".to_owned());
        }
    }
    Ok(())
}

/// Whether a grant is what was asked for.
pub(super) fn check_grant(
    request: &Request,
    allocation: &Allocation,
    now: Time,
    two_margins: Span,
) -> Result<(), String> {
    let term = allocation.term;
    check_term(allocation, now, two_margins)?;
    let starts_in_time = request.earliest <= term.start() && term.start() <= request.latest;
    let lasts = request.min_duration <= term.duration() && term.duration() <= request.duration;
    if !starts_in_time || !lasts {
        return Err(format!("term {term} is not what {} asks for", request.id));
    }
    let sums = sums(request, allocation)?;
    if request.is_met_by(&sums) {
        return Ok(());
    }
    let wrong = request.items.iter().zip(&sums).find(|(item, sum)| {
        !(u64::from(item.min_units.get())..=u64::from(item.units.get())).contains(sum)
    });
    Err(match wrong {
        Some((item, sum)) => {
            format!("{sum} units where {}..={} suit", item.min_units, item.units)
        }
        None => "units of several alternatives".to_owned(),
    })
}

/// Whether an offer is for what was asked for, if later, less or for a shorter time.
pub(super) fn check_offer(
    request: &Request,
    allocation: &Allocation,
    now: Time,
    two_margins: Span,
) -> Result<(), String> {
    check_term(allocation, now, two_margins)?;
    let (term, sums) = (allocation.term, sums(request, allocation)?);
    if term.start() < request.earliest || term.duration() > request.duration {
        return Err(format!("an offer over {term} is more than {} asks for", request.id));
    }
    let given: Vec<_> = request.items.iter().zip(&sums).filter(|(_, sum)| **sum > 0).collect();
    let Some(((first, _), _)) = given.split_first() else {
        return Err("an offer of no units".to_owned());
    };
    if given.iter().any(|(item, sum)| **sum > u64::from(item.units.get())) {
        return Err("an offer of more units than were asked for".to_owned());
    }
    if given.iter().any(|(item, _)| item.choice != first.choice) {
        return Err("units of several alternatives".to_owned());
    }
    Ok(())
}

fn check_term(allocation: &Allocation, now: Time, two_margins: Span) -> Result<(), String> {
    let term = allocation.term;
    if term.start() < now.minus(LEDGER_RETENTION) {
        return Err(format!("term {term} starts too far back"));
    }
    if term.end() <= now.plus(two_margins) {
        return Err(format!("term {term} ends within two clock margins"));
    }
    Ok(())
}

/// The units of each item.
fn sums(request: &Request, allocation: &Allocation) -> Result<Vec<u64>, String> {
    if allocation.parts.len() != request.items.len() {
        return Err(format!("{} items, {} answers", request.items.len(), allocation.parts.len()));
    }
    let sum = |sources: &Vec<(AccountId, u32)>| sources.iter().map(|&(_, n)| u64::from(n)).sum();
    Ok(allocation.parts.iter().map(sum).collect())
}
