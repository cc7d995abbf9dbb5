//! A plan in the making: what is placed, what is left on each place, and what it is worth so far.

use crate::first_fit;
use crate::model::Model;
use crate::score::{Term, Values};

/// Where a block is that is nowhere.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// A partial plan.
#[derive(Clone, Debug)]
pub(crate) struct State<'m, 'p> {
    pub(crate) model: &'m Model<'p>,
    /// The place of each block.
    pub(crate) host: Vec<u32>,
    /// What is left, by place and dimension.
    free: Vec<u64>,
    /// Blocks on each place.
    blocks: Vec<u32>,
    /// Blocks on each place that a `uses` names.
    bound: Vec<u32>,
    /// Items that need a library, by place and library.
    library_users: Vec<u32>,
    /// New instances of packages that several items have, by place and package.
    instances: Vec<u32>,
    /// Members of lists `apart`, by place and list.
    members: Vec<bool>,
    /// All terms but the price of paths.
    pub(crate) values: Values,
    /// Room for the needs of a block.
    load: Vec<u64>,
    /// Whether a block fits wherever it has room.
    plain: bool,
    /// Whether parts have no rules either.
    bare: bool,
}

impl<'m, 'p> State<'m, 'p> {
    pub(crate) fn new(model: &'m Model<'p>) -> Self {
        let places = model.place_count();
        let mut free = Vec::with_capacity(places * model.dimensions.len());
        for place in 0..places {
            free.extend_from_slice(model.capacity_of(place));
        }
        let plain = first_fit::is_plain(model);
        Self {
            host: vec![NOWHERE; model.block_count()],
            free,
            blocks: vec![0; places],
            bound: vec![0; places],
            library_users: vec![0; places * model.libraries.len()],
            instances: vec![0; places * model.shared_packages],
            members: vec![false; places * model.apart_lists],
            values: Values::default(),
            load: vec![0; model.dimensions.len()],
            plain,
            bare: plain && model.rules.is_empty(),
            model,
        }
    }

    pub(crate) fn is_placed(&self, block: usize) -> bool {
        self.host[block] != NOWHERE
    }

    /// Whether nothing is on a place.
    pub(crate) fn is_empty(&self, place: usize) -> bool {
        self.blocks[place] == 0
    }

    /// Whether a place hosts a part that a `uses` names.
    pub(crate) fn hosts_bound(&self, place: usize) -> bool {
        self.bound[place] > 0
    }

    pub(crate) fn free(&self, place: usize) -> &[u64] {
        let width = self.model.dimensions.len();
        &self.free[place * width..(place + 1) * width]
    }

    /// Whether a block can go to a place beside what is there.
    pub(crate) fn fits(&mut self, block: usize, place: usize) -> bool {
        (self.plain || self.keeps_rules(block, place)) && self.has_room(block, place)
    }

    /// Whether conditions, lists and instances let a block go to a place.
    fn keeps_rules(&self, block: usize, place: usize) -> bool {
        let model = self.model;
        let items = model.block(block);
        if !items.iter().all(|item| model.allows(model.part_of(*item), place)) {
            return false;
        }
        let lists = model.apart(block);
        if lists.iter().any(|list| self.members[place * model.apart_lists + *list as usize]) {
            return false;
        }
        if model.shared_packages == 0 {
            return true;
        }
        // Two items of the block may have one package.
        let mut new: Vec<u32> = Vec::new();
        for item in items {
            let part = model.part_of(*item);
            let package = model.rules[part].shared_package;
            if let Some(package) = package.filter(|_| !model.reuses(part, place)) {
                let there = place * model.shared_packages + package as usize;
                if new.contains(&package) || self.instances[there] > 0 {
                    return false;
                }
                new.push(package);
            }
        }
        true
    }

    fn has_room(&mut self, block: usize, place: usize) -> bool {
        let model = self.model;
        if let [item] = model.block(block) {
            let part = model.part_of(*item);
            if self.plain || (model.libraries.is_empty() && model.rules[part].reused.is_none()) {
                return model
                    .needs(part)
                    .iter()
                    .zip(self.free(place))
                    .all(|(need, free)| need <= free);
            }
        }
        self.measure(block, place);
        self.load.iter().zip(self.free(place)).all(|(load, free)| load <= free)
    }

    /// Puts in `load` what the block would take of the place.
    fn measure(&mut self, block: usize, place: usize) {
        let model = self.model;
        let kind = model.kind[place] as usize;
        self.load.fill(0);
        let mut libraries: Vec<u32> = Vec::new();
        for item in model.block(block) {
            let part = model.part_of(*item);
            if model.reuses(part, place) {
                continue;
            }
            add(&mut self.load, model.needs(part));
            for library in &model.rules[part].libraries {
                let number = *library as usize;
                let there = model.libraries[number].installed.contains(kind)
                    || self.library_users[place * model.libraries.len() + number] > 0;
                if !there && !libraries.contains(library) {
                    libraries.push(*library);
                    add(&mut self.load, &model.libraries[number].needs);
                }
            }
        }
    }

    /// How many packages a block would install on a place, at least.
    pub(crate) fn installs(&self, block: usize, place: usize) -> u64 {
        let model = self.model;
        let new =
            model.block(block).iter().filter(|item| !model.reuses(model.part_of(**item), place));
        new.count() as u64
    }

    pub(crate) fn off_favourites(&self, block: usize, place: usize) -> u64 {
        let model = self.model;
        let off = model
            .block(block)
            .iter()
            .filter(|item| model.off_favourite(model.part_of(**item), place));
        off.count() as u64
    }

    pub(crate) fn price(&self, block: usize, place: usize) -> u64 {
        let model = self.model;
        model.block(block).iter().map(|item| model.price(model.part_of(*item), place)).sum()
    }

    /// Puts a block on a place where it fits.
    pub(crate) fn put(&mut self, block: usize, place: usize) {
        self.exchange(block, place, true);
        self.host[block] = u32::try_from(place).unwrap_or(NOWHERE);
        self.weigh_partners(block, place, true);
    }

    /// Takes a block from its place.
    pub(crate) fn take(&mut self, block: usize) {
        let place = self.host[block] as usize;
        self.weigh_partners(block, place, false);
        self.host[block] = NOWHERE;
        self.exchange(block, place, false);
    }

    /// What a part without rules takes or gives back, and what it is worth.
    fn exchange_bare(&mut self, part: usize, place: usize, put: bool) {
        let model = self.model;
        let width = model.dimensions.len();
        change(&mut self.values, Term::Price, model.price(part, place), put);
        change(&mut self.values, Term::Installs, 1, put);
        let free = &mut self.free[place * width..(place + 1) * width];
        exchange_amounts(free, model.needs(part), put);
        if step(&mut self.blocks[place], put) {
            change(&mut self.values, Term::Nodes, 1, put);
        }
    }

    fn exchange(&mut self, block: usize, place: usize, put: bool) {
        let model = self.model;
        if self.bare {
            // Each item is a block.
            return self.exchange_bare(model.part[block] as usize, place, put);
        }
        let kind = model.kind[place] as usize;
        let width = model.dimensions.len();
        for item in model.block(block) {
            let part = model.part_of(*item);
            change(&mut self.values, Term::Price, model.price(part, place), put);
            change(
                &mut self.values,
                Term::Favourites,
                u64::from(model.off_favourite(part, place)),
                put,
            );
            if model.reuses(part, place) {
                continue;
            }
            change(&mut self.values, Term::Installs, 1, put);
            let free = &mut self.free[place * width..(place + 1) * width];
            exchange_amounts(free, model.needs(part), put);
            if let Some(package) = model.rules[part].shared_package {
                step(&mut self.instances[place * model.shared_packages + package as usize], put);
            }
            for library in &model.rules[part].libraries {
                let number = *library as usize;
                if model.libraries[number].installed.contains(kind) {
                    continue;
                }
                let users = &mut self.library_users[place * model.libraries.len() + number];
                if step(users, put) {
                    change(&mut self.values, Term::Installs, 1, put);
                    exchange_amounts(free, &model.libraries[number].needs, put);
                }
            }
        }
        for list in model.apart(block) {
            self.members[place * model.apart_lists + *list as usize] = put;
        }
        if step(&mut self.blocks[place], put) {
            change(&mut self.values, Term::Nodes, 1, put);
        }
        let bound = model.block(block).iter().any(|item| model.rules[model.part_of(*item)].bound);
        if bound && step(&mut self.bound[place], put) {
            change(&mut self.values, Term::Spread, 1, put);
        }
    }

    fn weigh_partners(&mut self, block: usize, place: usize, put: bool) {
        for (partner, weight) in self.model.partners(block) {
            let host = self.host[*partner as usize];
            if host != NOWHERE && host as usize != place {
                change(&mut self.values, Term::Uses, *weight, put);
            }
        }
    }
}

fn change(values: &mut Values, term: Term, amount: u64, put: bool) {
    if put { values.add(term, amount) } else { values.sub(term, amount) }
}

fn add(sum: &mut [u64], amounts: &[u64]) {
    sum.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
}

fn exchange_amounts(free: &mut [u64], amounts: &[u64], put: bool) {
    for (free, amount) in free.iter_mut().zip(amounts) {
        if put { *free -= amount } else { *free += amount }
    }
}

/// Counts one more or one fewer; whether it was the first or the last.
fn step(count: &mut u32, put: bool) -> bool {
    if put {
        *count += 1;
        *count == 1
    } else {
        *count -= 1;
        *count == 0
    }
}
