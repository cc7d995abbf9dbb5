//! From the problem to the model.

use std::collections::BTreeMap;

use crate::amount::Amount;
use crate::bits::Bits;
use crate::error::BadProblem;
use crate::names::Names;
use crate::problem::Problem;
use crate::score::Term;

use super::parts::{self, Libraries};
use super::{Model, network};

pub(super) fn build(problem: &Problem) -> Result<Model<'_>, BadProblem> {
    let places =
        Names::new("place", problem.place.iter().map(|place| (place.name.as_str(), place.count)))?;
    let items =
        Names::new("part", problem.part.iter().map(|part| (part.name.as_str(), part.count)))?;
    let dimensions = Dimensions::of(problem)?;
    let libraries = Libraries::of(problem, &dimensions)?;
    let (rules, shared_packages) = parts::rules(problem, &places, &items, &libraries)?;
    let part = items.entries();
    let blocks = Blocks::of(problem, &items)?;
    let width = dimensions.names.len();
    let capacity = dimensions.table(problem.place.iter().map(|place| &place.capacity));
    let needs = dimensions.table(problem.part.iter().map(|part| &part.needs));
    let prices = problem.place.iter().flat_map(|place| {
        dimensions.names.iter().map(|dimension| place.price.of(dimension).millionths())
    });
    let mut model = Model {
        objective: objective(problem)?,
        kind: places.entries(),
        class: Vec::new(),
        prices: prices.collect(),
        capacity,
        needs,
        rules,
        libraries: libraries.rules,
        apart: Vec::new(),
        apart_lists: problem.apart.len(),
        partners: Vec::new(),
        shared_packages,
        network: network::network(problem, &places, &items, &blocks.of)?,
        block_items: blocks.items,
        block_starts: blocks.starts,
        block_of: blocks.of,
        dimensions: dimensions.names,
        problem,
        places,
        items,
        part,
    };
    debug_assert_eq!(model.needs.len(), problem.part.len() * width);
    relate(&mut model)?;
    model.class = classes(&model);
    check_sums(&model)?;
    Ok(model)
}

fn objective(problem: &Problem) -> Result<Vec<Term>, BadProblem> {
    if problem.objective.is_empty() {
        return Ok(Term::default_objective(!problem.link.is_empty()).to_vec());
    }
    for (index, term) in problem.objective.iter().enumerate() {
        if problem.objective[..index].contains(term) {
            return Err(BadProblem::new("objective", format!("`{term}` is there twice")));
        }
    }
    Ok(problem.objective.clone())
}

/// The dimensions of a problem. Amounts of one are all plain numbers, or all quantities of one kind.
pub(super) struct Dimensions<'p> {
    pub(super) names: Vec<&'p str>,
    index: BTreeMap<&'p str, usize>,
}

impl<'p> Dimensions<'p> {
    fn of(problem: &'p Problem) -> Result<Self, BadProblem> {
        let mut seen: BTreeMap<&str, (tenure_expr::Dimension, String)> = BTreeMap::new();
        let places = problem
            .place
            .iter()
            .map(|place| ("place", place.name.as_str(), "capacity", &place.capacity));
        let parts =
            problem.part.iter().map(|part| ("part", part.name.as_str(), "needs", &part.needs));
        let libraries = problem
            .library
            .iter()
            .map(|library| ("library", library.package.as_str(), "needs", &library.needs));
        for (noun, name, key, amounts) in places.chain(parts).chain(libraries) {
            for (dimension, amount) in amounts {
                if let Some((kind, first)) = seen.get(dimension.as_str()) {
                    if *kind != amount.dimension() {
                        let message = format!(
                            "{amount} is a {}, but {first} has a {kind}",
                            amount.dimension()
                        );
                        return Err(BadProblem::new(
                            format!("{noun} `{name}`, {key}.{dimension}"),
                            message,
                        ));
                    }
                } else {
                    let first = format!("{noun} `{name}`");
                    seen.insert(dimension, (amount.dimension(), first));
                }
            }
        }
        let names: Vec<&str> = seen.into_keys().collect();
        let index = names.iter().enumerate().map(|(index, name)| (*name, index)).collect();
        Ok(Self { names, index })
    }

    /// The amounts by entry and dimension.
    fn table<'a>(&self, entries: impl Iterator<Item = &'a BTreeMap<String, Amount>>) -> Vec<u64> {
        let mut table = Vec::with_capacity(entries.size_hint().0 * self.names.len());
        entries.for_each(|amounts| self.append(amounts, &mut table));
        table
    }

    pub(super) fn row(&self, amounts: &BTreeMap<String, Amount>) -> Vec<u64> {
        let mut row = Vec::with_capacity(self.names.len());
        self.append(amounts, &mut row);
        row
    }

    fn append(&self, amounts: &BTreeMap<String, Amount>, table: &mut Vec<u64>) {
        let start = table.len();
        table.resize(start + self.names.len(), 0);
        for (dimension, amount) in amounts {
            table[start + self.index[dimension.as_str()]] = amount.value();
        }
    }
}

/// Items that go to one place, by `same-host`.
struct Blocks {
    items: Vec<u32>,
    starts: Vec<u32>,
    of: Vec<u32>,
}

impl Blocks {
    fn of(problem: &Problem, names: &Names<'_>) -> Result<Self, BadProblem> {
        let mut root: Vec<u32> = (0..as_u32(names.len())).collect();
        for (index, list) in problem.same_host.iter().enumerate() {
            let at = format!("same-host[{index}]");
            let mut first: Option<usize> = None;
            for name in list {
                for item in names.resolve(&at, name)? {
                    let one = find(&mut root, item);
                    let other = find(&mut root, *first.get_or_insert(item));
                    let (low, high) = (one.min(other), one.max(other));
                    root[high] = as_u32(low);
                }
            }
        }
        let of: Vec<usize> = (0..names.len()).map(|item| find(&mut root, item)).collect();
        // A block has the number of its first item among first items.
        let mut number = vec![u32::MAX; names.len()];
        let mut members: Vec<u32> = Vec::new();
        for root in &of {
            if number[*root] == u32::MAX {
                number[*root] = as_u32(members.len());
                members.push(0);
            }
            members[number[*root] as usize] += 1;
        }
        let of: Vec<u32> = of.into_iter().map(|root| number[root]).collect();
        let mut starts = Vec::with_capacity(members.len() + 1);
        let mut next = 0;
        for count in &members {
            starts.push(next);
            next += count;
        }
        starts.push(next);
        let mut items = vec![0; of.len()];
        let mut free = starts.clone();
        for (item, block) in of.iter().enumerate() {
            items[free[*block as usize] as usize] = as_u32(item);
            free[*block as usize] += 1;
        }
        Ok(Self { items, starts, of })
    }
}

/// The representative of an item, with shorter ways for the next time.
fn find(root: &mut [u32], item: usize) -> usize {
    let mut top = item;
    while root[top] as usize != top {
        root[top] = root[root[top] as usize];
        top = root[top] as usize;
    }
    top
}

/// Enters what binds blocks: lists `apart`, and `uses`.
fn relate(model: &mut Model<'_>) -> Result<(), BadProblem> {
    let problem = model.problem;
    if !problem.apart.is_empty() {
        model.apart = vec![Vec::new(); model.block_count()];
    }
    for (index, list) in problem.apart.iter().enumerate() {
        let at = format!("apart[{index}]");
        for name in list {
            for item in model.items.resolve(&at, name)? {
                let lists = &mut model.apart[model.block_of[item] as usize];
                if lists.last() == Some(&as_u32(index)) {
                    let message =
                        format!("`{name}` and another of the list go to one place by same-host");
                    return Err(BadProblem::new(at, message));
                }
                lists.push(as_u32(index));
            }
        }
    }
    if !problem.uses.is_empty() {
        model.partners = vec![Vec::new(); model.block_count()];
    }
    for (index, uses) in problem.uses.iter().enumerate() {
        let from = model.items.resolve(&format!("uses[{index}].from"), &uses.from)?;
        let to = model.items.resolve(&format!("uses[{index}].to"), &uses.to)?;
        for one in from {
            for other in to.clone() {
                let (one, other) = (model.block_of[one], model.block_of[other]);
                if one != other {
                    model.partners[one as usize].push((other, uses.weight));
                    model.partners[other as usize].push((one, uses.weight));
                }
            }
        }
    }
    Ok(())
}

/// The class of each place: places of one class differ in nothing but their names.
fn classes(model: &Model<'_>) -> Vec<u32> {
    let mut named: Vec<&Bits> = Vec::new();
    for rules in model.rules.iter() {
        named.extend([rules.eligible.as_ref(), rules.favourites.as_ref()].into_iter().flatten());
    }
    let reused: Vec<&Bits> = model.rules.iter().filter_map(|rules| rules.reused.as_ref()).collect();
    let connected = model.network.connected_places(model.place_count());
    let mut classes: BTreeMap<_, u32> = BTreeMap::new();
    let mut next = 0;
    let mut another = || {
        next += 1;
        next - 1
    };
    let width = model.dimensions.len();
    let mut before: Option<(usize, u32)> = None;
    let class = (0..model.place_count()).map(|place| {
        // A place with edges is like no other.
        if connected.contains(place) {
            return another();
        }
        let kind = model.kind[place] as usize;
        // Copies stand next to each other.
        if let Some((_, class)) = before.filter(|(of, _)| *of == kind && named.is_empty()) {
            return class;
        }
        let amounts = &model.capacity[kind * width..(kind + 1) * width];
        let prices = &model.prices[kind * width..(kind + 1) * width];
        let reused: Vec<bool> = reused.iter().map(|kinds| kinds.contains(kind)).collect();
        let installed = model.libraries.iter().map(|library| library.installed.contains(kind));
        let installed: Vec<bool> = installed.collect();
        let named_here: Vec<bool> = named.iter().map(|places| places.contains(place)).collect();
        let key = (amounts, prices, reused, installed, named_here);
        let class = *classes.entry(key).or_insert_with(&mut another);
        before = Some((kind, class));
        class
    });
    class.collect()
}

/// Refuses amounts whose sums, or whose prices, could overflow.
fn check_sums(model: &Model<'_>) -> Result<(), BadProblem> {
    let too_large = |at: String| BadProblem::new(at, "the amounts are too large to be summed up");
    for (index, dimension) in model.dimensions.iter().enumerate() {
        let needs = model
            .part
            .iter()
            .try_fold(0_u64, |sum, part| sum.checked_add(model.needs(*part as usize)[index]));
        let libraries = model
            .libraries
            .iter()
            .try_fold(0_u64, |sum, library| sum.checked_add(library.needs[index]));
        let capacities =
            model.kind.iter().enumerate().try_fold(0_u64, |sum, (place, _)| {
                sum.checked_add(model.capacity_of(place)[index])
            });
        let sum = needs.zip(libraries).and_then(|(needs, libraries)| needs.checked_add(libraries));
        if sum.is_none() || capacities.is_none() {
            return Err(too_large(format!("dimension `{dimension}`")));
        }
    }
    let prices = |kind: usize| super::row(&model.prices, model.dimensions.len(), kind);
    let is_priced = |kind: &usize| prices(*kind).iter().any(|price| *price > 0);
    let priced: Vec<usize> = (0..model.problem.place.len()).filter(is_priced).collect();
    let dearest = |part: usize| {
        priced
            .iter()
            .map(|kind| {
                let prices = prices(*kind);
                let amounts = model.needs(part).iter().zip(prices);
                amounts
                    .map(|(amount, price)| u128::from(*amount) * u128::from(*price))
                    .sum::<u128>()
            })
            .max()
    };
    let mut total = model.network.highest_price();
    for (index, part) in model.problem.part.iter().enumerate() {
        let copies = model.items.copies(index).len() as u128;
        total += copies * dearest(index).unwrap_or(0);
        if total > u128::from(u64::MAX / 4) {
            return Err(too_large(format!("part `{}`, at the prices of places", part.name)));
        }
    }
    let mut weights = model.partners.iter().flatten();
    let weights = weights.try_fold(0_u64, |sum, (_, weight)| sum.checked_add(*weight));
    weights.map(|_| ()).ok_or_else(|| too_large("uses, weight".to_owned()))
}

pub(super) fn as_u32(number: usize) -> u32 {
    // There are no more copies than `names::MAX_COPIES`.
    u32::try_from(number).unwrap_or(u32::MAX)
}
