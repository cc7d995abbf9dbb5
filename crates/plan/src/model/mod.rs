//! The problem as solvers see it: names are numbers, conditions are decided, copies stand for themselves.

mod build;
mod network;
mod parts;

pub(crate) use network::{LinkRules, Network};
pub(crate) use parts::Rules;

use std::collections::BTreeMap;

use crate::bits::Bits;
use crate::error::BadProblem;
use crate::names::Names;
use crate::problem::Problem;
use crate::score::Term;

/// A checked problem, ready to be solved.
#[derive(Clone, Debug)]
pub(crate) struct Model<'p> {
    pub(crate) problem: &'p Problem,
    pub(crate) objective: Vec<Term>,
    pub(crate) places: Names<'p>,
    pub(crate) items: Names<'p>,
    /// The dimensions of capacities and needs.
    pub(crate) dimensions: Vec<&'p str>,
    /// The entry of each place.
    pub(crate) kind: Vec<u32>,
    /// The entry of each item.
    pub(crate) part: Vec<u32>,
    /// By kind and dimension.
    pub(crate) capacity: Vec<u64>,
    /// In millionths, by kind and dimension.
    prices: Vec<u64>,
    /// By part and dimension.
    needs: Vec<u64>,
    pub(crate) rules: Rules,
    pub(crate) libraries: Vec<LibraryRules>,
    /// Items that go to one place, block after block.
    block_items: Vec<u32>,
    block_starts: Vec<u32>,
    pub(crate) block_of: Vec<u32>,
    /// The lists `apart` of each block, if there are any.
    apart: Vec<Vec<u32>>,
    pub(crate) apart_lists: usize,
    /// The partners of each block, with weights, if there are any.
    pub(crate) partners: Vec<Vec<(u32, u64)>>,
    /// Packages of which there are several items.
    pub(crate) shared_packages: usize,
    /// Places of one class are interchangeable while nothing is on them.
    pub(crate) class: Vec<u32>,
    pub(crate) network: Network,
}

/// What is decided of a part, whatever else is placed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PartRules {
    /// The places that it may go to by its conditions; without it, all.
    pub(crate) eligible: Option<Bits>,
    /// The kinds of places with an instance to reuse; without it, none.
    pub(crate) reused: Option<Bits>,
    /// The places that are favourites; without it, it does not matter.
    pub(crate) favourites: Option<Bits>,
    pub(crate) libraries: Vec<u32>,
    /// Its number among the packages of several items.
    pub(crate) shared_package: Option<u32>,
    /// Whether a `uses` names it.
    pub(crate) bound: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct LibraryRules {
    /// By dimension.
    pub(crate) needs: Vec<u64>,
    /// The kinds of places that have it.
    pub(crate) installed: Bits,
}

impl<'p> Model<'p> {
    /// Checks a problem and decides what can be decided before anything is placed.
    ///
    /// # Errors
    /// If the problem contradicts itself, names what it does not have, or has amounts whose sum
    /// overflows.
    pub(crate) fn new(problem: &'p Problem) -> Result<Self, BadProblem> {
        build::build(problem)
    }

    /// With some of the places only, in this order. No rule may tell places apart by their numbers.
    pub(crate) fn with_places(&self, places: &[u32]) -> Self {
        let kind = places.iter().map(|place| self.kind[*place as usize]).collect();
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        let class = places.iter().map(|place| {
            let next = build::as_u32(numbers.len());
            *numbers.entry(self.class[*place as usize]).or_insert(next)
        });
        Self { kind, class: class.collect(), ..self.clone() }
    }

    pub(crate) fn place_count(&self) -> usize {
        self.kind.len()
    }

    pub(crate) fn block_count(&self) -> usize {
        self.block_starts.len() - 1
    }

    pub(crate) fn block(&self, block: usize) -> &[u32] {
        &self.block_items[self.block_starts[block] as usize..self.block_starts[block + 1] as usize]
    }

    pub(crate) fn part_of(&self, item: u32) -> usize {
        self.part[item as usize] as usize
    }

    pub(crate) fn needs(&self, part: usize) -> &[u64] {
        row(&self.needs, self.dimensions.len(), part)
    }

    pub(crate) fn capacity_of(&self, place: usize) -> &[u64] {
        row(&self.capacity, self.dimensions.len(), self.kind[place] as usize)
    }

    /// Whether the conditions of a part allow a place.
    pub(crate) fn allows(&self, part: usize, place: usize) -> bool {
        self.rules[part].eligible.as_ref().is_none_or(|places| places.contains(place))
    }

    /// Whether a part finds an instance on a place that it reuses.
    pub(crate) fn reuses(&self, part: usize, place: usize) -> bool {
        let reused = self.rules[part].reused.as_ref();
        reused.is_some_and(|kinds| kinds.contains(self.kind[place] as usize))
    }

    /// Whether a part would rather be elsewhere.
    pub(crate) fn off_favourite(&self, part: usize, place: usize) -> bool {
        self.rules[part].favourites.as_ref().is_some_and(|places| !places.contains(place))
    }

    /// What the needs of a part cost at a place, in millionths.
    pub(crate) fn price(&self, part: usize, place: usize) -> u64 {
        let prices = row(&self.prices, self.dimensions.len(), self.kind[place] as usize);
        self.needs(part).iter().zip(prices).map(|(amount, price)| amount * price).sum()
    }

    pub(crate) fn apart(&self, block: usize) -> &[u32] {
        self.apart.get(block).map_or(&[], Vec::as_slice)
    }

    /// Whether one list keeps all blocks apart.
    pub(crate) fn all_apart(&self) -> bool {
        let lists = 0..build::as_u32(self.apart_lists);
        lists
            .into_iter()
            .any(|list| (0..self.block_count()).all(|block| self.apart(block).contains(&list)))
    }

    pub(crate) fn partners(&self, block: usize) -> &[(u32, u64)] {
        self.partners.get(block).map_or(&[], Vec::as_slice)
    }
}

fn row(table: &[u64], width: usize, index: usize) -> &[u64] {
    &table[index * width..(index + 1) * width]
}
