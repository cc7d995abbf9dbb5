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
use crate::model::resource::{Attributes, SITE, Value, carries, ends, is_divisible, latency};
use crate::model::time::{Span, Term, Time};
use crate::mutants::mutant;
use crate::ticket::Ticket;
use crate::ticket::ledger::LEDGER_RETENTION;
use crate::ticket::link::{AccountId, Clauses, Link};
use crate::wire::offer::{Offer, OfferPart};
use crate::wire::portion::{Units, add, all_units, keeps_bundles};
use crate::wire::request::{Item, Joins, MAX_UNITS, Request};

/// What nothing is known of.
static NO_ATTRIBUTES: Attributes = Attributes::new();

/// What is left of sources once parts were cut.
pub(super) type Drafts = BTreeMap<AccountId, Calendar>;

/// Units of one source for one item, checked.
#[derive(Clone, Debug)]
pub(super) struct Part {
    item: u16,
    account: AccountId,
    site: ActorId,
    units: NonZeroU32,
    term: Term,
    price: Option<u32>,
    /// Of a link: the type of the edge.
    edge: Option<Name>,
    /// Of a unit in stacks: which ones.
    stacks: Option<BTreeSet<Name>>,
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
        OfferPart { item, site, units, term, price, edge: part.edge.clone() }
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
        self.check_links(request, &parts)?;
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
        let (attributes, of) =
            (self.attributes_of(account, holding), &holding.ticket.bottom().resource);
        let suits = match item.joins() {
            Some(_) => ends(attributes).is_some() && carries(attributes, of, &item.resource),
            None => *of == item.resource,
        };
        if !suits {
            return Err(format!("source {account} has no `{}`", item.resource));
        }
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
        let exempt = item.joins().filter(|_| mutant!(EdgeSoldTwice));
        if free.free_over(term) < i64::from(units.get())
            && exempt.is_none()
            && !mutant!(NoSplitCheck)
        {
            return Err(format!("source {account} does not cover {units} units over {term}"));
        }
        free.add(term, -i64::from(units.get()));
        let edge = item.joins().map(|_| of.clone());
        let stacked = holding.ticket.bottom().clauses.stacked.as_deref();
        let stacks = stacked.map(|unit| unit.tokens.clone()).filter(|stacks| !stacks.is_empty());
        let site = holding.ticket.site();
        Ok(Part { item: index, account, site, units, term, price, edge, stacks })
    }

    /// Whether each link is a path between the sites of its ends.
    fn check_links(&self, request: &Request, parts: &[Part]) -> Result<(), String> {
        for (index, item) in (0u16..).zip(&request.items) {
            let Some(joins) = item.joins() else { continue };
            let path: Vec<&Attributes> =
                parts.iter().filter(|part| part.item == index).map(|part| self.of(part)).collect();
            let [from, to] = joins.ends.map(|end| {
                let parts = parts.iter().filter(|part| part.item == end);
                parts.map(|part| self.of(part).get(SITE)).collect::<BTreeSet<_>>()
            });
            let ([Some(from)], [Some(to)]) = (&*Vec::from_iter(from), &*Vec::from_iter(to)) else {
                // Of a choice that is not met, neither ends nor links have parts.
                if path.is_empty() && !parts.iter().any(|part| joins.ends.contains(&part.item)) {
                    continue;
                }
                return Err("an end of a link comes from one site".to_owned());
            };
            check_path(joins, [from, to], &path)?;
        }
        Ok(())
    }

    /// What the units of a part are like.
    fn of(&self, part: &Part) -> &Attributes {
        let holding = self.state.holdings.get(&part.account);
        holding.map_or(&NO_ATTRIBUTES, |holding| self.attributes_of(part.account, holding))
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
        // A link takes of divisible stocks only.
        let large = items.find(|item| {
            item.units.get() > MAX_UNITS && item.joins().is_none() && !divisible(&item.resource)
        });
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
        for part in parts {
            let &Part { item: index, account, units, term, price, .. } = part;
            let absent = || format!("there is no source {account}");
            let item = request.items.get(usize::from(index)).ok_or("a part of no item")?;
            let parent = self.state.holdings.get(&account).ok_or_else(absent)?.ticket.clone();
            *serial += 1;
            let link = Link {
                parent: Some(parent.hash()),
                issuer: self.base.id(),
                holder: request.id.origin,
                resource: part.edge.as_ref().unwrap_or(&item.resource).clone(),
                units,
                term,
                constraints: parent.bottom().constraints.with(item.requirements.of_units()),
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

/// Whether items that belong together come from one site, and those of their units that are in stacks from one stack.
fn check_together(request: &Request, parts: &[Part]) -> Result<(), String> {
    let mut sites: BTreeMap<u8, ActorId> = BTreeMap::new();
    let mut common: BTreeMap<u8, BTreeSet<&Name>> = BTreeMap::new();
    for part in parts {
        let item = request.items.get(usize::from(part.item));
        let Some(together) = item.and_then(|item| item.together) else { continue };
        if *sites.entry(together).or_insert(part.site) != part.site {
            return Err("items that belong together come from one site".to_owned());
        }
        let Some(stacks) = &part.stacks else { continue };
        let common = common.entry(together).or_insert_with(|| stacks.iter().collect());
        common.retain(|stack| stacks.contains(*stack));
        if common.is_empty() {
            return Err("units that belong together come from one stack".to_owned());
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
        let Some(apart) = item.and_then(Item::apart) else { continue };
        let own_site = *sites.entry(part.item).or_insert(part.site) == part.site;
        let alone = *items.entry((apart, part.site)).or_insert(part.item) == part.item;
        if !own_site || !alone {
            return Err("items that belong apart come from different sites".to_owned());
        }
    }
    Ok(())
}

/// Whether edges lead from one place to the other without a circle, as short as the link has to be.
fn check_path(joins: &Joins, [from, to]: [&Value; 2], path: &[&Attributes]) -> Result<(), String> {
    let (Value::Text(from), Value::Text(to)) = (from, to) else {
        return Err("an end of a link has no site".to_owned());
    };
    let (mut at, mut passed) = (from.as_str(), BTreeSet::from([from.as_str()]));
    for edge in path {
        at = match ends(edge) {
            Some([one, other]) if one == at => other,
            Some([one, other]) if other == at => one,
            Some(_) | None => return Err(format!("the path from {from} to {to} breaks at {at}")),
        };
        if !passed.insert(at) {
            return Err(format!("the path from {from} to {to} passes {at} twice"));
        }
    }
    if at != to {
        return Err(format!("the path from {from} to {to} ends at {at}"));
    }
    let takes = path.iter().map(|edge| latency(edge)).fold(Span::ZERO, Span::plus);
    if joins.latency.is_some_and(|most| most < takes) {
        return Err(format!("the path from {from} to {to} takes {takes}"));
    }
    if joins.hops.is_some_and(|most| usize::from(most) < path.len()) {
        return Err(format!("the path from {from} to {to} has {} edges", path.len()));
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
    let units = units(request, allocation)?;
    if request.is_met_by(&units) {
        return Ok(());
    }
    let wrong = request.items.iter().zip(&units).find(|(item, units)| {
        let suits = u64::from(item.min_units.get())..=u64::from(item.units.get());
        !suits.contains(&item.units_of(units))
    });
    Err(match wrong {
        Some((item, units)) => {
            let sum = item.units_of(units);
            format!("{sum} units where {}..={} suit", item.min_units, item.units)
        }
        None => {
            "units of several alternatives, or different units on the edges of a link".to_owned()
        }
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
    let (term, units) = (allocation.term, units(request, allocation)?);
    if term.start() < request.earliest || term.duration() > request.duration {
        return Err(format!("an offer over {term} is more than {} asks for", request.id));
    }
    let given: Vec<_> =
        request.items.iter().zip(&units).filter(|(_, units)| !units.is_empty()).collect();
    let Some(((first, _), _)) = given.split_first() else {
        return Err("an offer of no units".to_owned());
    };
    if given.iter().any(|(item, units)| item.units_of(units) > u64::from(item.units.get())) {
        return Err("an offer of more units than were asked for".to_owned());
    }
    if given.iter().any(|(item, _)| item.choice != first.choice) {
        return Err("units of several alternatives".to_owned());
    }
    Ok(())
}

/// Whether a portion is a part of what was asked for, from its start on and for its whole length.
pub(super) fn check_portion(
    request: &Request,
    allocation: &Allocation,
    now: Time,
    two_margins: Span,
) -> Result<(), String> {
    check_term(allocation, now, two_margins)?;
    let (term, units) = (allocation.term, units(request, allocation)?);
    let starts_in_time = (request.earliest..=request.latest).contains(&term.start());
    if !starts_in_time || term.duration() != request.duration {
        return Err(format!("term {term} is not that of a portion of {}", request.id));
    }
    let mut given = request.items.iter().zip(&units);
    if given.any(|(item, units)| item.units_of(units) > u64::from(item.units.get())) {
        return Err("a portion of more units than were asked for".to_owned());
    }
    let mut portion = Units::new();
    for (place, parts) in (0_u16..).zip(&units) {
        let parts = parts.iter().filter_map(|units| NonZeroU32::new(*units));
        parts.for_each(|units| add(&mut portion, place, units));
    }
    let whole = keeps_bundles(request, &all_units(request), &portion);
    whole.then_some(()).ok_or_else(|| "a portion divides items that belong together".to_owned())
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

/// The units of the parts of each item.
fn units(request: &Request, allocation: &Allocation) -> Result<Vec<Vec<u32>>, String> {
    if allocation.parts.len() != request.items.len() {
        return Err(format!("{} items, {} answers", request.items.len(), allocation.parts.len()));
    }
    let of = |sources: &Vec<(AccountId, u32)>| sources.iter().map(|&(_, units)| units).collect();
    Ok(allocation.parts.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::resource::{DIVISIBLE, ENDS, LATENCY};

    fn edge(ends: [&str; 2]) -> Attributes {
        let ends = Value::read(&format!("{{\"{}\", \"{}\"}}", ends[0], ends[1]));
        Attributes::from([
            (Name::literal(DIVISIBLE), Value::Flag(true)),
            (Name::literal(ENDS), ends),
            (Name::literal(LATENCY), Value::read("2ms")),
        ])
    }

    fn checked(joins: &Joins, path: &[[&str; 2]]) -> Result<(), String> {
        let path: Vec<Attributes> = path.iter().map(|&ends| edge(ends)).collect();
        let [from, to] = [Value::from("a"), Value::from("d")];
        check_path(joins, [&from, &to], &path.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_link_is_one_path_without_a_circle() {
        let joins = Joins { ends: [0, 1], latency: Some(Span::from_micros(4000)), hops: Some(3) };
        assert_eq!(checked(&joins, &[["a", "d"]]), Ok(()));
        assert_eq!(checked(&joins, &[["b", "a"], ["b", "d"]]), Ok(()));
        for (path, says) in [
            (&[][..], "ends at a"),
            (&[["a", "b"]], "ends at b"),
            (&[["a", "b"], ["c", "d"]], "breaks at b"),
            (&[["a", "b"], ["a", "b"], ["a", "d"]], "passes a twice"),
            (&[["a", "b"], ["b", "c"], ["c", "d"]], "takes 0.006s"),
        ] {
            let broken = checked(&joins, path).unwrap_err();
            assert!(broken.contains(says), "{broken} does not say {says}");
        }
        let short = Joins { hops: Some(1), latency: None, ..joins };
        let long = checked(&short, &[["b", "a"], ["b", "d"]]).unwrap_err();
        assert!(long.contains("has 2 edges"), "{long}");
    }
}
