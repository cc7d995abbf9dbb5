//! Where to cut units from: the two ways the brokers' mappers know.

mod apart;
mod offers;
mod spreading;
mod stacks;
mod window;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::broker::mapper::{Allocation, Source, View};
use crate::model::calendar::Calendar;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::resource::{Expr, Unmet, ends};
use crate::model::time::{Span, Term, Time};
use crate::ticket::link::AccountId;
use crate::wire::proviso::Provisos;
use crate::wire::refusal::Refusal;
use crate::wire::request::{Item, Request};
use spreading::{even, first_fit};
use stacks::{Booked, Spot, Taken};
use window::Window;

/// The most starts that are looked at closely for one request, beside those that are skipped because
/// all sources together have too little.
const MAX_STARTS: usize = 4096;

/// The most that are looked at closely to tell who is refused when to come again.
const MAX_HINTS: usize = 64;

/// The most lengths that a search for the longest term tells apart.
const LENGTHS: i64 = 1 << 16;

/// The least difference between two lengths that it tells apart.
const MIN_GRAIN: Span = Span::from_secs(1);

/// How units are spread over sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Unit by unit from the site that has most free over the whole term; ties by name.
    #[default]
    Even,
    /// As many as possible from the first site by name, then the next.
    FirstFit,
}

/// What a round has taken so far, of the types that were asked for in it.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    view: &'a View,
    types: BTreeMap<Name, OfType>,
    /// What it has taken of sources in stacks.
    booked: Vec<Booked>,
}

/// The sources of one type with what a round has left of them.
#[derive(Clone, Debug)]
struct OfType {
    /// By site name and account.
    sources: Vec<Source>,
    places: BTreeMap<AccountId, usize>,
    /// What all of them have free together.
    total: Calendar,
    /// If some are in stacks: what each has free, tokens aside. The sources show what is free for one holder.
    tokens_aside: Option<Vec<Calendar>>,
}

/// What is looked for: the items of one choice.
struct Search<'w> {
    duration: Span,
    /// As many as the request has items, empty for those of other choices.
    items: Vec<Option<Wanted<'w>>>,
    placement: Placement,
}

/// An item with the sources that suit it, by their places among those of its type.
struct Wanted<'w> {
    item: &'w Item,
    /// How few units will do, if it gets any.
    least: u32,
    of_type: &'w OfType,
    suiting: Vec<usize>,
}

/// The parts of one item: accounts with the units cut from each.
pub type Parts = Vec<(AccountId, u32)>;

impl<'a> Draft<'a> {
    /// A draft in which nothing is taken yet.
    pub fn new(view: &'a View) -> Self {
        Self { view, types: BTreeMap::new(), booked: Vec::new() }
    }

    /// Finds a way to meet a request, or says why there is none: of the alternatives the first that can be
    /// met, for as long as can be, as early as it allows. `from` is the earliest start to consider.
    pub fn find(
        &mut self,
        request: &Request,
        from: Time,
        placement: Placement,
        cut_from: impl Fn(&Item) -> Option<AccountId>,
    ) -> Result<Allocation, Refusal> {
        self.load_all(request);
        let mut no = None;
        for choice in request.choices() {
            match self.find_choice(request, choice, from, placement, &cut_from) {
                Ok(allocation) => return Ok(allocation),
                Err(refusal) => no = Some(better(no, refusal)),
            }
        }
        Err(no.unwrap_or_else(|| Refusal::Malformed("a request without items".to_owned())))
    }

    /// As [`find`](Self::find), and books it in the draft.
    pub fn meet(
        &mut self,
        request: &Request,
        from: Time,
        placement: Placement,
        cut_from: impl Fn(&Item) -> Option<AccountId>,
    ) -> Result<Allocation, Refusal> {
        let allocation = self.find(request, from, placement, cut_from)?;
        self.book(request, &allocation);
        Ok(allocation)
    }

    /// A way to meet a request from exactly `at` on or, if there is none, the next instant from which there
    /// may be one as things stand. Costs less than [`find`](Self::find).
    pub fn begins(
        &mut self,
        request: &Request,
        at: Time,
        placement: Placement,
    ) -> Result<Allocation, Option<Time>> {
        self.load_all(request);
        let mut next = None;
        for choice in request.choices() {
            let Ok(search) = self.search(request, choice, placement, &|_| None) else { continue };
            match search.at(at) {
                Ok(found) => return Ok(found),
                Err(rise) => next = next.into_iter().chain(rise).min(),
            }
        }
        Err(next)
    }

    fn find_choice(
        &self,
        request: &Request,
        choice: u8,
        from: Time,
        placement: Placement,
        cut_from: &impl Fn(&Item) -> Option<AccountId>,
    ) -> Result<Allocation, Refusal> {
        let search = self.search(request, choice, placement, cut_from)?;
        match search.earliest(from, request.latest, MAX_STARTS) {
            Some(found) => Ok(found),
            None if request.min_duration < request.duration => search
                .longest(request.min_duration, from, request.latest)
                .ok_or_else(|| search.busy(from)),
            None => Err(search.busy(from)),
        }
    }

    fn search<'w>(
        &'w self,
        request: &'w Request,
        choice: u8,
        placement: Placement,
        cut_from: &impl Fn(&Item) -> Option<AccountId>,
    ) -> Result<Search<'w>, Refusal> {
        let wanted = |item: &'w Item| {
            if item.choice != choice {
                return Ok(None);
            }
            match self.wanted(item, cut_from(item), &request.provisos) {
                Ok(wanted) => Ok(Some(wanted)),
                Err(_) if item.optional => Ok(None),
                Err(refusal) => Err(refusal),
            }
        };
        let items = request.items.iter().map(wanted).collect::<Result<_, _>>()?;
        Ok(Search { duration: request.duration, items, placement })
    }

    /// Takes what is assigned out of the draft.
    pub fn book(&mut self, request: &Request, allocation: &Allocation) {
        for (item, parts) in request.items.iter().zip(&allocation.parts) {
            let Some(term) = item.term(allocation.term) else { continue };
            if item.joins().is_none() {
                self.book_parts(request, &item.resource, term, parts);
                continue;
            }
            for &(account, units) in parts {
                let has = |(_, of_type): &(&Name, &OfType)| of_type.places.contains_key(&account);
                if let Some(edge) = self.types.iter().find(has).map(|(edge, _)| edge.clone()) {
                    self.book_parts(request, &edge, term, &vec![(account, units)]);
                }
            }
        }
    }

    /// What is left of the sources of a request's types, and of all edges.
    pub(super) fn left(&mut self, request: &Request) -> (Vec<Source>, Vec<Source>) {
        let is_edge = |resource: &&Name| {
            let mut sources = self.view.sources_of(resource);
            sources.any(|source| ends(&source.attributes).is_some())
        };
        let edges: Vec<&Name> = self.view.types().filter(is_edge).collect();
        edges.iter().for_each(|edge| self.load(edge));
        self.load_all(request);
        let units = request.items.iter().filter(|item| item.joins().is_none());
        let units: BTreeSet<&Name> = units.map(|item| &item.resource).collect();
        let of = |resource: &Name| self.types.get(resource).map_or(&[][..], |of| &of.sources);
        let all = |types: Vec<&Name>| types.into_iter().flat_map(of).cloned().collect();
        let edges: Vec<Source> = all(edges);
        let is_edge = |source: &Source| ends(&source.attributes).is_some();
        (all(units.into_iter().collect()), edges.into_iter().filter(is_edge).collect())
    }

    fn load_all(&mut self, request: &Request) {
        request.items.iter().for_each(|item| self.load(&item.resource));
        self.show_to(request.id.origin);
    }

    /// Takes in the sources of a type that is asked for the first time.
    fn load(&mut self, resource: &Name) {
        let Some(total) = self.view.total(resource) else { return };
        if !self.types.contains_key(resource) {
            let sources: Vec<_> = self.view.sources_of(resource).collect();
            let places = sources.iter().enumerate();
            let places = places.map(|(place, source)| (source.account, place)).collect();
            let tokens_aside = OfType::tokens_aside(&sources);
            let of_type = OfType { sources, places, total: total.clone(), tokens_aside };
            self.types.insert(resource.clone(), of_type);
        }
    }

    /// An item with the sources that suit it (of an extension, the one that it keeps), or why it could
    /// not be met if nothing else were booked.
    fn wanted<'w>(
        &'w self,
        item: &'w Item,
        only: Option<AccountId>,
        provisos: &Provisos,
    ) -> Result<Wanted<'w>, Refusal> {
        let resource = item.resource.clone();
        if item.joins().is_some() {
            return Err(Refusal::Policy("its mapper grants no links".to_owned()));
        }
        let Some(of_type) = self.types.get(&resource).filter(|of| !of.sources.is_empty()) else {
            let known = self.view.types().cloned().collect();
            return Err(Refusal::NoSuchType { resource, known });
        };
        let meets = |source: &Source| {
            item.requirements.first_broken(&source.attributes, &Properties::default()).is_none()
        };
        let sources = &of_type.sources;
        let allowed = |source: &Source| !provisos.not_at.contains(&source.site);
        if !sources.iter().any(allowed) {
            return Err(Refusal::Excluded { resource });
        }
        let mut matching: Vec<usize> = (0..sources.len())
            .filter(|&place| meets(&sources[place]) && allowed(&sources[place]))
            .collect();
        if matching.is_empty() {
            let sources: Vec<_> =
                sources.iter().filter(|source| allowed(source)).cloned().collect();
            return Err(match unmet(item, &sources) {
                Some(unmet) => Refusal::NoMatch { resource, unmet },
                None => Refusal::NoSuchType { resource, known: Vec::new() },
            });
        }
        matching.retain(|&place| item.may_have(&sources[place].attributes));
        if matching.is_empty() {
            return Err(Refusal::BestEffort { resource });
        }
        let most = most(item, matching.iter().map(|&place| &sources[place]));
        if item.min_units.get() > most && !item.optional {
            return Err(Refusal::TooMany { resource, asked: item.min_units.get(), most });
        }
        let suits = |place: &usize| only.is_none_or(|account| sources[*place].account == account);
        let suiting = matching.into_iter().filter(suits).collect();
        Ok(Wanted { item, least: item.min_units.get(), of_type, suiting })
    }

    fn book_parts(&mut self, request: &Request, resource: &Name, term: Term, parts: &Parts) {
        let Some(of_type) = self.types.get_mut(resource) else { return };
        let mut stacked = Vec::new();
        for (account, units) in parts {
            let units = -i64::from(*units);
            if let Some(&place) = of_type.places.get(account) {
                of_type.sources[place].free.add(term, units);
                if let Some(tokens_aside) = &mut of_type.tokens_aside {
                    tokens_aside[place].add(term, units);
                    stacked.push(of_type.sources[place].clone());
                }
            }
            of_type.total.add(term, units);
        }
        for source in stacked {
            self.book_tokens(&source, request.id.origin, term);
        }
    }
}

/// The most units that an item can ever have: of all its sources or, where it belongs to others, of one
/// site.
fn most<'s>(item: &Item, sources: impl Iterator<Item = &'s Source>) -> u32 {
    let mut most: BTreeMap<Option<ActorId>, u32> = BTreeMap::new();
    for source in sources {
        let units = most.entry(item.together.or(item.apart()).map(|_| source.site)).or_default();
        *units = units.saturating_add(source.units);
    }
    most.into_values().max().unwrap_or(0)
}

/// Of two refusals the one that says more, the first of equals.
fn better(first: Option<Refusal>, second: Refusal) -> Refusal {
    match first {
        Some(first) if first.rank() >= second.rank() => first,
        Some(_) | None => second,
    }
}

impl Search<'_> {
    fn wanted(&self) -> impl Iterator<Item = &Wanted<'_>> {
        self.items.iter().flatten()
    }

    /// The earliest term in the window over which all items can be met together, and how. `tries` bounds
    /// the starts that are looked at closely.
    fn earliest(&self, from: Time, latest: Time, tries: usize) -> Option<Allocation> {
        self.earliest_for(self.duration, from, latest, tries)
    }

    fn earliest_for(
        &self,
        duration: Span,
        from: Time,
        latest: Time,
        tries: usize,
    ) -> Option<Allocation> {
        let mut start = self.first_hope(duration, from, latest)?;
        let mut windows = self.windows(Term::lasting(start, duration).ok()?)?;
        for _ in 0..tries {
            let term = Term::lasting(start, duration).ok()?;
            if let Some(parts) = self.place_all(term, &windows) {
                return Some(Allocation { term, parts });
            }
            start = self.first_hope(duration, self.next_rise(&windows)?, latest)?;
            let term = Term::lasting(start, duration).ok()?;
            for (wanted, window) in self.wanted().zip(&mut windows) {
                window.move_to(wanted.item.term(term)?);
            }
        }
        None
    }

    /// How all items can be met from exactly `start` on, or from when on that may be.
    fn at(&self, start: Time) -> Result<Allocation, Option<Time>> {
        let term = Term::lasting(start, self.duration).map_err(|_| None)?;
        let windows = self.windows(term).ok_or(None)?;
        match self.place_all(term, &windows) {
            Some(parts) => Ok(Allocation { term, parts }),
            None => Err(self.next_rise(&windows)),
        }
    }

    /// The next start from which some item may have more.
    fn next_rise(&self, windows: &[Window<'_>]) -> Option<Time> {
        let rise = |(wanted, window): (&Wanted<'_>, &Window<'_>)| {
            Some(window.next_rise()?.minus(wanted.item.offset))
        };
        self.wanted().zip(windows).filter_map(rise).min()
    }

    fn windows(&self, term: Term) -> Option<Vec<Window<'_>>> {
        self.wanted().map(|wanted| Some(wanted.window(wanted.item.term(term)?))).collect()
    }

    /// The longest term of at least `least` for which there is room in the window. What has room for some
    /// time has room for a shorter one, so the search can halve what it looks at.
    fn longest(&self, least: Span, from: Time, latest: Time) -> Option<Allocation> {
        let range = self.duration.as_micros() - least.as_micros();
        let grain = Span::from_micros((range / LENGTHS).max(MIN_GRAIN.as_micros()));
        // By how many grains a term is shorter than the longest; the shortest of them has room, or none.
        let (mut long, mut short) = (0, range / grain.as_micros() + 1);
        let length = |grains: i64| self.duration.plus(grain.times(-grains));
        let mut best = self.earliest_for(least, from, latest, MAX_STARTS)?;
        while short - long > 1 {
            let middle = long + (short - long) / 2;
            match self.earliest_for(length(middle), from, latest, MAX_HINTS) {
                Some(found) => (short, best) = (middle, found),
                None => long = middle,
            }
        }
        Some(best)
    }

    /// The first start from which each type has enough free on all sources together: before it, nothing
    /// has to be tried. Skips what is full in one step, however many bookings fill it.
    fn first_hope(&self, duration: Span, from: Time, latest: Time) -> Option<Time> {
        let mut needs: BTreeMap<(&Name, Span), (&Calendar, i64)> = BTreeMap::new();
        for Wanted { item, least, of_type, .. } in self.wanted() {
            let key = (&item.resource, item.offset);
            let need = needs.entry(key).or_insert((&of_type.total, 0));
            need.1 += if item.optional { 0 } else { i64::from(*least) };
        }
        needs.retain(|_, (_, units)| *units > 0);
        let mut start = from;
        loop {
            let before = start;
            for (&(_, offset), (total, units)) in &needs {
                let window = (start.plus(offset), latest.plus(offset));
                let first = total.earliest(*units, duration, window.0, window.1)?;
                start = first.minus(offset);
            }
            if start == before {
                return (start <= latest).then_some(start);
            }
        }
    }

    /// The parts of every item, if all of them can be met beside each other: first those that belong
    /// together, which have fewer places to go.
    fn place_all(&self, term: Term, windows: &[Window<'_>]) -> Option<Vec<Parts>> {
        let enough = |(wanted, window): (&Wanted<'_>, &Window<'_>)| {
            window.free() >= i64::from(wanted.needed())
        };
        if !self.wanted().zip(windows).all(enough) {
            return None;
        }
        let mut rest = windows.iter();
        let of_item = |wanted: &Option<Wanted<'_>>| wanted.as_ref().and_then(|_| rest.next());
        let windows: Vec<Option<&Window<'_>>> = self.items.iter().map(of_item).collect();
        let mut placed = vec![Parts::new(); self.items.len()];
        let mut taken = Taken::default();
        self.place_apart((term, &windows), &mut taken, &mut placed)?;
        for (bundle, items) in self.bundles() {
            let spots = if bundle { self.spots_of(&items) } else { vec![None] };
            self.place_items(&items, &spots, (term, &windows), &mut taken, &mut placed)?;
        }
        Some(placed)
    }

    /// The places of the items that are met: first those that belong together, told by `true`, bundle by
    /// bundle, then one by one those that do not.
    fn bundles(&self) -> Vec<(bool, Vec<usize>)> {
        let mut together: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        let mut alone = Vec::new();
        for (place, wanted) in self.items.iter().enumerate() {
            match wanted.as_ref().map(|wanted| wanted.item.together) {
                Some(Some(number)) => together.entry(number).or_default().push(place),
                Some(None) if self.is_apart(place) => {}
                Some(None) => alone.push((false, vec![place])),
                None => {}
            }
        }
        together.into_values().map(|items| (true, items)).chain(alone).collect()
    }

    fn is_apart(&self, place: usize) -> bool {
        let wanted = self.items.get(place).and_then(Option::as_ref);
        wanted.is_some_and(|wanted| wanted.item.apart().is_some())
    }

    /// The sources that suit some of these items.
    fn suiting(&self, items: &[usize]) -> impl Iterator<Item = &Source> {
        let wanted = items.iter().filter_map(|&place| self.items.get(place)?.as_ref());
        wanted.flat_map(Wanted::suiting)
    }

    /// Places items at the first of the spots that has room for all of them; `None` stands for anywhere.
    fn place_items(
        &self,
        items: &[usize],
        spots: &[Option<Spot<'_>>],
        (term, windows): (Term, &[Option<&Window<'_>>]),
        taken: &mut Taken,
        placed: &mut [Parts],
    ) -> Option<()> {
        let wanted = || {
            items.iter().filter_map(|&place| {
                Some((place, self.items.get(place)?.as_ref()?, (*windows.get(place)?)?))
            })
        };
        let at = |spot: Option<Spot<'_>>| {
            let mut trial = taken.clone();
            let parts: Option<Vec<(usize, Parts)>> = wanted()
                .map(|(place, wanted, window)| {
                    let parts = wanted.place((term, window), self.placement, spot, &mut trial)?;
                    Some((place, parts))
                })
                .collect();
            Some((trial, parts?))
        };
        let (trial, parts) = spots.iter().find_map(|&spot| at(spot))?;
        *taken = trial;
        for (place, parts) in parts {
            if let Some(slot) = placed.get_mut(place) {
                *slot = parts;
            }
        }
        Some(())
    }

    /// The refusal of an item that could not be met over the earliest term even if nothing were sold:
    /// too few units are delegated for that long.
    fn beyond(&self, from: Time) -> Option<Refusal> {
        let end = from.plus(self.duration);
        self.wanted().filter(|wanted| wanted.needed() > 0).find_map(|wanted| {
            let end = end.plus(wanted.item.offset);
            let lasting = wanted.suiting().map(|source| (source.until, source.units));
            let mut lasting: Vec<(Time, u32)> = lasting.collect();
            lasting.sort_by_key(|&(until, _)| std::cmp::Reverse(until));
            let mut units = 0;
            let enough = lasting.into_iter().find(|&(_, more)| {
                units += u64::from(more);
                units >= u64::from(wanted.least)
            });
            let (until, _) = enough.filter(|&(until, _)| until < end)?;
            Some(Refusal::Beyond { resource: wanted.item.resource.clone(), until, end })
        })
    }

    fn busy(&self, from: Time) -> Refusal {
        if let Some(beyond) = self.beyond(from) {
            return beyond;
        }
        // An extension can begin at one instant alone.
        let movable = self.wanted().all(|wanted| wanted.item.extends.is_none());
        let met = movable.then(|| self.earliest(from, Time::MAX, MAX_HINTS)).flatten();
        let earliest = met.map(|met| met.term.start());
        let term = Term::lasting(from, self.duration).ok();
        let free_of = |wanted: &&Wanted<'_>| {
            let term = term.and_then(|term| wanted.item.term(term));
            let free = term.map_or(0, |term| wanted.window(term).free());
            u32::try_from(free).unwrap_or(u32::MAX)
        };
        let short = |wanted: &&Wanted<'_>| free_of(wanted) < wanted.needed();
        match self.wanted().find(short).or(self.wanted().next()) {
            Some(wanted) => Refusal::Busy {
                resource: wanted.item.resource.clone(),
                asked: wanted.item.units.get(),
                free: free_of(&wanted),
                earliest,
                in_the_way: Vec::new(),
            },
            None => Refusal::Malformed("a request without items".to_owned()),
        }
    }
}

impl Wanted<'_> {
    /// How few units it cannot do without.
    fn needed(&self) -> u32 {
        if self.item.optional { 0 } else { self.least }
    }

    fn suiting(&self) -> impl Iterator<Item = &Source> {
        self.suiting.iter().map(|&place| &self.of_type.sources[place])
    }

    /// What is free for the item over a whole term. A unit stays where it is, so each source counts with
    /// what it has free all the time.
    fn window(&self, term: Term) -> Window<'_> {
        Window::new(self.suiting().map(|source| &source.free).collect(), term)
    }

    /// The parts of the item: all units that are wanted or, of an elastic item, as many as there are;
    /// `None` if they are too few. What other items of the request have `taken` from a source is not
    /// there, nor what is elsewhere than at `only`.
    fn place(
        &self,
        (common, window): (Term, &Window<'_>),
        placement: Placement,
        only: Option<Spot<'_>>,
        taken: &mut Taken,
    ) -> Option<Parts> {
        let term = self.item.term(common)?;
        let left = |(source, free): (&Source, i64)| {
            if only.is_some_and(|spot| !spot.has(source)) {
                return 0;
            }
            u32::try_from((free - taken.of(source, term)).max(0)).unwrap_or(u32::MAX)
        };
        let free: Vec<u32> = self.suiting().zip(window.each()).map(left).collect();
        let available = free.iter().copied().fold(0, u32::saturating_add);
        let units = self.item.units.get().min(available);
        if units < self.least {
            return self.item.optional.then(Parts::new);
        }
        let chosen = match (taken.beside(self.suiting(), &free, units), placement) {
            (Some(beside), _) => first_fit(&beside, units),
            (None, Placement::Even) => even(self.suiting().map(|source| source.site), &free, units),
            (None, Placement::FirstFit) => first_fit(&free, units),
        };
        let mut parts = Parts::new();
        for (source, units) in self.suiting().zip(chosen).filter(|&(_, units)| units > 0) {
            taken.take(source, term, units);
            parts.push((source.account, units));
        }
        Some(parts)
    }
}

/// Why no source meets an item: of those that state most of what it names, the first.
fn unmet(item: &Item, sources: &[Source]) -> Option<Unmet> {
    let missing = |source: &&Source| {
        let names = item.requirements.iter().flat_map(Expr::attributes);
        names.filter(|name| !source.attributes.contains_key(*name)).count()
    };
    let nearest = sources.iter().min_by_key(missing)?;
    let known = sources.iter().flat_map(|source| source.attributes.keys());
    let known: Vec<&str> = known.map(Name::as_str).collect();
    item.requirements.first_unmet(&nearest.attributes, &Properties::default(), &known)
}
