//! The places that each block of a request can have.

use std::ops::Range;

use crate::exact::distances::{Distances, FAR};
use crate::exact::links::can_leave;
use crate::model::Model;
use crate::state::{NOWHERE, State};

/// An option is none. Twice the price of a plan is below it: see `model::build`.
pub(super) const NEVER: u64 = u64::MAX;

/// A place without edges has no node.
const NO_NODE: u32 = u32::MAX;

/// Blocks and their places, each pair an option. Those of a block stand next to each other.
pub(super) struct Options {
    starts: Vec<usize>,
    pub(super) place: Vec<u32>,
    node: Vec<u32>,
    pub(super) price: Vec<u64>,
    /// Blocks of one number can change places with each other.
    pub(super) kind: Vec<Option<u32>>,
    /// The links of each block to others.
    links: Vec<Vec<Side>>,
    /// The same with all links to one partner as one.
    partners: Vec<Vec<Side>>,
    pub(super) distances: Distances,
    /// Whether a block has a node among its options, by block and node.
    can_have: Vec<bool>,
    nodes: usize,
    /// By link: two blocks.
    between: Vec<[u32; 2]>,
}

/// A link as one of its blocks sees it. The widest come first.
#[derive(Clone, Copy)]
struct Side {
    bandwidth: u64,
    link: usize,
    partner: usize,
}

impl Options {
    /// Blocks that `fixed` has on a place have no other.
    pub(super) fn of(model: &Model<'_>, fixed: &[u32]) -> Self {
        let network = &model.network;
        let nodes = network.nodes.len();
        let mut options = Self {
            starts: vec![0],
            place: Vec::new(),
            node: Vec::new(),
            price: Vec::new(),
            kind: Vec::new(),
            links: (0..model.block_count()).map(|block| sides(model, block)).collect(),
            partners: Vec::new(),
            distances: Distances::default(),
            can_have: vec![false; model.block_count() * nodes],
            nodes,
            between: network.links.iter().map(|link| link.ends).collect(),
        };
        options.partners = options.links.iter().map(|sides| merged(sides)).collect();
        let mut state = State::new(model);
        let mut of_class = vec![0_usize; model.place_count()];
        for (block, host) in fixed.iter().enumerate() {
            let bandwidths: Vec<u64> =
                options.links[block].iter().map(|side| side.bandwidth).collect();
            of_class.fill(0);
            for place in 0..model.place_count() {
                // Of equal places no more than one for each block are of use.
                let equal = &mut of_class[model.class[place] as usize];
                let is_fixed = *host as usize == place;
                let is_of_use = is_fixed || *host == NOWHERE && *equal < model.block_count();
                if !is_of_use || !state.fits(block, place) {
                    continue;
                }
                let node = network.node(place);
                let leaves = bandwidths.is_empty()
                    || node.is_some_and(|node| can_leave(network, node, &bandwidths));
                if leaves {
                    *equal += 1;
                    options.add(block, place, node, state.price(block, place));
                }
            }
            options.starts.push(options.place.len());
        }
        let hosts = |node: &usize| {
            (0..model.block_count()).any(|block| options.can_have[block * nodes + node])
        };
        let sites = (0..nodes).filter(hosts).filter_map(|node| u32::try_from(node).ok());
        options.distances = Distances::among(network, &sites.collect::<Vec<_>>());
        options.kind = options.kinds_of(model);
        options
    }

    fn add(&mut self, block: usize, place: usize, node: Option<usize>, price: u64) {
        self.place.push(u32::try_from(place).unwrap_or(NOWHERE));
        self.node.push(node.and_then(|node| u32::try_from(node).ok()).unwrap_or(NO_NODE));
        self.price.push(price);
        if let Some(node) = node {
            self.can_have[block * self.nodes + node] = true;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.place.len()
    }

    pub(super) fn of_block(&self, block: usize) -> Range<usize> {
        self.starts[block]..self.starts[block + 1]
    }

    /// Twice the price of each option alone.
    pub(super) fn prices(&self) -> Vec<u64> {
        self.price.iter().map(|price| 2 * price).collect()
    }

    /// How many numbers `kind` has.
    pub(super) fn kinds(&self) -> usize {
        self.kind.iter().flatten().max().map_or(0, |most| *most as usize + 1)
    }

    /// Adds to the costs of options of open blocks what their links to a block cost that was placed.
    pub(super) fn link(
        &self,
        block: usize,
        option: usize,
        chosen: &[Option<usize>],
        costs: &mut [u64],
    ) {
        for side in &self.links[block] {
            if chosen[side.partner].is_some() {
                continue;
            }
            let node = self.node[option] as usize;
            for other in self.of_block(side.partner) {
                let distance = self.distances.between(side.link, node, self.node[other] as usize);
                costs[other] = if distance == FAR || costs[other] == NEVER {
                    NEVER
                } else {
                    costs[other] + 2 * distance * side.bandwidth
                };
            }
        }
    }

    /// The node of an option, if its place has edges.
    pub(super) fn node_of(&self, option: usize) -> Option<usize> {
        let node = self.node[option];
        (node != NO_NODE).then_some(node as usize)
    }

    /// The links of a block to placed ones: the bandwidth of each, and the node where it ends.
    pub(super) fn ending(&self, block: usize, chosen: &[Option<usize>]) -> Vec<(u64, usize)> {
        let placed = self.links[block].iter();
        let placed = placed
            .filter_map(|side| Some((side.bandwidth, self.node[chosen[side.partner]?] as usize)));
        placed.collect()
    }

    /// The nodes of a link, if both of its blocks are placed.
    pub(super) fn ends(&self, link: usize, chosen: &[Option<usize>]) -> Option<[usize; 2]> {
        let [one, other] = self.between[link];
        if one == other {
            return None;
        }
        let [one, other] = [chosen[one as usize]?, chosen[other as usize]?];
        Some([self.node[one] as usize, self.node[other] as usize])
    }

    /// What the links of an option to open blocks cost at least, or [`NEVER`].
    ///
    /// Each link is as long as the way to the nearest place of its partner. If all links can use the same
    /// edges, they are also as long as the ways to the nearest places, one for each partner, the one with the
    /// widest links at the nearest.
    pub(super) fn nearest(
        &self,
        block: usize,
        option: usize,
        chosen: &[Option<usize>],
        occupied: &[bool],
        node_place: &[u32],
    ) -> u64 {
        let node = self.node[option] as usize;
        let is_free = |site: &u32| !occupied[node_place[*site as usize] as usize];
        let open = || self.links[block].iter().filter(|side| chosen[side.partner].is_none());
        let mut alone = 0_u64;
        for side in open() {
            let mut sites = self.distances.sites_from(side.link, node).iter();
            let nearest = sites.find(|(_, site)| {
                self.can_have[side.partner * self.nodes + *site as usize] && is_free(site)
            });
            let Some((distance, _)) = nearest.filter(|(distance, _)| *distance != FAR) else {
                return NEVER;
            };
            alone += distance * side.bandwidth;
        }
        let partners = || self.partners[block].iter().filter(|side| chosen[side.partner].is_none());
        if partners().nth(1).is_none() || !self.distances.is_one_table() {
            return alone;
        }
        let mut together = 0_u64;
        let mut sides = partners();
        let Some(first) = sides.next() else { return alone };
        let sites = self.distances.sites_from(first.link, node).iter();
        let mut sites = sites.filter(|(_, site)| is_free(site));
        for side in std::iter::once(first).chain(sides) {
            match sites.next() {
                Some((distance, _)) if *distance != FAR => together += distance * side.bandwidth,
                Some(_) | None => return NEVER,
            }
        }
        alone.max(together)
    }

    /// Numbers for blocks that can change places: they have the same options, and the same links to all others.
    fn kinds_of(&self, model: &Model<'_>) -> Vec<Option<u32>> {
        let blocks = self.links.len();
        let options = |block: usize| {
            let range = self.of_block(block);
            (&self.place[range.clone()], &self.price[range])
        };
        let links = |block: usize, but: usize| {
            let others = self.links[block].iter().filter(|side| side.partner != but);
            let mut all: Vec<_> =
                others.map(|side| (side.partner, model.network.links[side.link].rules())).collect();
            all.sort_unstable();
            all
        };
        let alike = |one: usize, other: usize| {
            options(one) == options(other) && links(one, other) == links(other, one)
        };
        let first =
            |block: usize| (0..blocks).find(|other| *other == block || alike(*other, block));
        let firsts: Vec<usize> = (0..blocks).filter_map(first).collect();
        let several = |first: &usize| firsts.iter().filter(|other| *other == first).count() > 1;
        firsts.iter().map(|first| several(first).then_some(u32::try_from(*first).ok()?)).collect()
    }
}

/// The links of a block to others, widest first.
fn sides(model: &Model<'_>, block: usize) -> Vec<Side> {
    let network = &model.network;
    let mut sides: Vec<Side> = Vec::new();
    for link in network.links_of(block) {
        let rules = network.links[*link as usize];
        let [one, other] = rules.ends.map(|end| end as usize);
        let partner = if one == block { other } else { one };
        if partner != block {
            sides.push(Side { bandwidth: rules.bandwidth, link: *link as usize, partner });
        }
    }
    sides.sort_by_key(|side| (std::cmp::Reverse(side.bandwidth), side.link));
    sides
}

/// The links of a block with all that have one partner as one, widest first.
fn merged(sides: &[Side]) -> Vec<Side> {
    let mut merged: Vec<Side> = Vec::new();
    for side in sides {
        match merged.iter_mut().find(|known| known.partner == side.partner) {
            Some(known) => known.bandwidth = known.bandwidth.saturating_add(side.bandwidth),
            None => merged.push(*side),
        }
    }
    merged.sort_by_key(|side| (std::cmp::Reverse(side.bandwidth), side.link));
    merged
}
