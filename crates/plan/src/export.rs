//! Problems in the formats of other solvers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use thiserror::Error;

use crate::error::BadProblem;
use crate::model::Model;
use crate::problem::Problem;
use crate::score::Term;
use crate::search;

/// Why a problem cannot be exported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExportError {
    /// The problem makes no sense.
    #[error(transparent)]
    Problem(#[from] BadProblem),
    /// The format cannot say it.
    #[error("{0}")]
    Format(String),
}

/// The problem as vector bin packing, in the format of `VPSolver`: dimensions, a bin, items with counts.
///
/// # Errors
/// If the problem is more than equal places with room for parts.
pub fn vbp(problem: &Problem) -> Result<String, ExportError> {
    let model = Model::new(problem)?;
    let items = search::as_bins(&model).ok_or_else(|| {
        ExportError::Format("only parts that share equal places, with `nodes` as what is least, can be written as .vbp".to_owned())
    })?;
    let mut out = format!("{}\n{}\n{}\n", items.width, words(&items.capacity), problem.part.len());
    for (index, part) in problem.part.iter().enumerate() {
        let _ = writeln!(out, "{} {}", words(model.needs(index)), part.count.unwrap_or(1));
    }
    Ok(out)
}

fn words(amounts: &[u64]) -> String {
    amounts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// The problem as a mixed integer program, in the LP format of CPLEX.
///
/// `x_P_S` is 1 if part P is on place S; `y_L_E` and `z_L_E` are 1 if link L takes edge E forwards or
/// backwards. The constraints are those of Takefusa et al. (2009), numbered (4) to (11) in the names of
/// the rows, and those of packages.
///
/// # Errors
/// If the problem is bad, or if its objective has a value that does not fit a double precision number.
pub fn lp(problem: &Problem) -> Result<String, ExportError> {
    let model = Model::new(problem)?;
    let mut program = Program::new(&model);
    program.placement();
    program.relations();
    program.paths();
    program.objective()?;
    Ok(program.text())
}

/// A linear sum.
type Sum = BTreeMap<String, i128>;

struct Program<'m, 'p> {
    model: &'m Model<'p>,
    rows: Vec<String>,
    variables: Vec<String>,
    terms: BTreeMap<Term, Sum>,
    objective: Sum,
}

impl<'m, 'p> Program<'m, 'p> {
    fn new(model: &'m Model<'p>) -> Self {
        Self {
            model,
            rows: Vec::new(),
            variables: Vec::new(),
            terms: BTreeMap::new(),
            objective: Sum::new(),
        }
    }

    fn row(&mut self, name: &str, sum: &Sum, relation: &str, right: i128) {
        if !sum.is_empty() {
            self.rows.push(format!(" {name}: {} {relation} {right}", linear(sum)));
        }
    }

    fn variable(&mut self, name: String) -> String {
        self.variables.push(name.clone());
        name
    }

    fn cost(&mut self, term: Term, name: &str, amount: u64) {
        if amount > 0 {
            *self.terms.entry(term).or_default().entry(name.to_owned()).or_default() +=
                i128::from(amount);
        }
    }

    /// Rows (4) and (6): each part has a place, and places have room.
    fn placement(&mut self) {
        let model = self.model;
        let width = model.dimensions.len();
        let mut loads: Vec<Sum> = vec![Sum::new(); model.place_count() * width];
        let mut hosts: Vec<Sum> = vec![Sum::new(); model.place_count()];
        let mut libraries: BTreeMap<(usize, u32), Vec<String>> = BTreeMap::new();
        for item in 0..model.part.len() {
            let part = model.part[item] as usize;
            let mut one = Sum::new();
            for place in 0..model.place_count() {
                if !model.allows(part, place) {
                    continue;
                }
                let name = self.variable(x(item, place));
                one.insert(name.clone(), 1);
                hosts[place].insert(name.clone(), 1);
                self.cost(Term::Price, &name, model.price(part, place));
                self.cost(Term::Favourites, &name, u64::from(model.off_favourite(part, place)));
                if model.reuses(part, place) {
                    continue;
                }
                self.cost(Term::Installs, &name, 1);
                for (dimension, need) in model.needs(part).iter().enumerate() {
                    if *need > 0 {
                        loads[place * width + dimension].insert(name.clone(), i128::from(*need));
                    }
                }
                for library in &model.rules[part].libraries {
                    if !model.libraries[*library as usize]
                        .installed
                        .contains(model.kind[place] as usize)
                    {
                        libraries.entry((place, *library)).or_default().push(name.clone());
                    }
                }
            }
            if one.is_empty() {
                // The part fits nowhere: 0 = 1.
                let nothing = self.variable(format!("none_{item}"));
                self.row(&format!("r4_{item}_none"), &Sum::from([(nothing.clone(), 1)]), "=", 0);
                one.insert(nothing, 1);
            }
            self.row(&format!("r4_{item}"), &one, "=", 1);
        }
        for ((place, library), users) in libraries {
            let name = self.variable(format!("lib_{library}_{place}"));
            self.cost(Term::Installs, &name, 1);
            for (dimension, need) in model.libraries[library as usize].needs.iter().enumerate() {
                loads[place * width + dimension].insert(name.clone(), i128::from(*need));
            }
            for (index, user) in users.iter().enumerate() {
                self.row(
                    &format!("lib_{library}_{place}_{index}"),
                    &Sum::from([(user.clone(), 1), (name.clone(), -1)]),
                    "<=",
                    0,
                );
            }
        }
        for (index, load) in loads.iter().enumerate() {
            let free = model.capacity_of(index / width.max(1))[index % width.max(1)];
            self.row(
                &format!("r6_{}_{}", index / width, index % width),
                load,
                "<=",
                i128::from(free),
            );
        }
        self.used(&hosts);
    }

    /// Which places host something, for the terms that count them.
    fn used(&mut self, hosts: &[Sum]) {
        let model = self.model;
        for (term, word) in [(Term::Nodes, "node"), (Term::Spread, "spread")] {
            if !model.objective.contains(&term) {
                continue;
            }
            for (place, host) in hosts.iter().enumerate() {
                let name = self.variable(format!("{word}_{place}"));
                self.cost(term, &name, 1);
                for (index, x) in host.keys().enumerate() {
                    let item: usize =
                        x.split('_').nth(1).and_then(|item| item.parse().ok()).unwrap_or(0);
                    if term == Term::Nodes || model.rules[model.part[item] as usize].bound {
                        self.row(
                            &format!("{word}_{place}_{index}"),
                            &Sum::from([(x.clone(), 1), (name.clone(), -1)]),
                            "<=",
                            0,
                        );
                    }
                }
            }
        }
    }

    /// Row (5), `same-host`, `uses` and instances of packages.
    fn relations(&mut self) {
        let model = self.model;
        for block in 0..model.block_count() {
            let items = model.block(block);
            for (index, pair) in items.windows(2).enumerate() {
                for place in 0..model.place_count() {
                    let sum = self
                        .known([(x(pair[0] as usize, place), 1), (x(pair[1] as usize, place), -1)]);
                    self.row(&format!("same_{block}_{index}_{place}"), &sum, "=", 0);
                }
            }
        }
        for place in 0..model.place_count() {
            for list in 0..model.apart_lists {
                let members = (0..model.block_count()).filter(|block| {
                    model.apart(*block).contains(&u32::try_from(list).unwrap_or(u32::MAX))
                });
                let members: Vec<_> =
                    members.map(|block| (x(model.block(block)[0] as usize, place), 1)).collect();
                let sum = self.known(members);
                self.row(&format!("r5_{list}_{place}"), &sum, "<=", 1);
            }
            for package in 0..model.shared_packages {
                let new = (0..model.part.len()).filter(|item| {
                    let part = model.part[*item] as usize;
                    model.rules[part].shared_package == u32::try_from(package).ok()
                        && !model.reuses(part, place)
                });
                let new: Vec<_> = new.map(|item| (x(item, place), 1)).collect();
                let sum = self.known(new);
                self.row(&format!("one_{package}_{place}"), &sum, "<=", 1);
            }
        }
        for block in 0..model.block_count() {
            for (index, (partner, weight)) in model.partners(block).iter().enumerate() {
                if (*partner as usize) < block {
                    continue;
                }
                let name = self.variable(format!("away_{block}_{index}"));
                self.cost(Term::Uses, &name, *weight);
                for place in 0..model.place_count() {
                    let (one, other) = (model.block(block)[0], model.block(*partner as usize)[0]);
                    let mut sum =
                        self.known([(x(one as usize, place), 1), (x(other as usize, place), -1)]);
                    sum.insert(name.clone(), -1);
                    self.row(&format!("away_{block}_{index}_{place}"), &sum, "<=", 0);
                }
            }
        }
    }

    /// Only those variables that there are.
    fn known(&self, terms: impl IntoIterator<Item = (String, i128)>) -> Sum {
        let exists = |name: &str| {
            let mut words = name.split('_').skip(1).filter_map(|word| word.parse::<usize>().ok());
            match (words.next(), words.next()) {
                (Some(item), Some(place)) => {
                    self.model.allows(self.model.part[item] as usize, place)
                }
                _ => false,
            }
        };
        terms.into_iter().filter(|(name, _)| exists(name)).collect()
    }

    /// Rows (7) to (11): paths as flows, one direction of an edge each, with room, few edges and latency.
    fn paths(&mut self) {
        let model = self.model;
        let network = &model.network;
        let mut taken: Vec<Sum> = vec![Sum::new(); network.edges.len()];
        for (link, rules) in network.links.iter().enumerate() {
            let usable = network.usable(rules.filter, rules.bandwidth);
            let mut balance: Vec<Sum> = vec![Sum::new(); network.nodes.len()];
            let (mut hops, mut latency) = (Sum::new(), Sum::new());
            for (index, edge) in
                network.edges.iter().enumerate().filter(|(index, _)| usable.contains(*index))
            {
                let forwards = self.variable(format!("y_{link}_{index}"));
                let backwards = self.variable(format!("z_{link}_{index}"));
                let [from, to] = edge.ends.map(|end| end as usize);
                for (name, from, to) in [(&forwards, from, to), (&backwards, to, from)] {
                    balance[from].insert(name.clone(), 1);
                    balance[to].insert(name.clone(), -1);
                    taken[index].insert(name.clone(), i128::from(rules.bandwidth));
                    self.cost(Term::Price, name, edge.price * rules.bandwidth);
                    hops.insert(name.clone(), 1);
                    latency.insert(name.clone(), i128::from(edge.latency));
                }
                self.row(
                    &format!("r10_{link}_{index}"),
                    &Sum::from([(forwards, 1), (backwards, 1)]),
                    "<=",
                    1,
                );
            }
            for place in 0..model.place_count() {
                let ends = rules.ends.map(|end| x(model.block(end as usize)[0] as usize, place));
                let [from, to] = ends;
                let mut sum = self.known([(from, -1), (to, 1)]);
                if let Some(node) = network.node(place) {
                    sum.extend(balance[node].clone());
                }
                self.row(&format!("r9_{link}_{place}"), &sum, "=", 0);
            }
            if let Some(most) = rules.hops {
                self.row(&format!("r11_{link}"), &hops, "<=", i128::from(most));
            }
            if let Some(most) = rules.latency {
                self.row(&format!("latency_{link}"), &latency, "<=", i128::from(most));
            }
        }
        for (index, sum) in taken.iter().enumerate() {
            self.row(&format!("r8_{index}"), sum, "<=", i128::from(network.edges[index].capacity));
        }
    }

    /// The terms, each weighed so that the later ones never outweigh it.
    fn objective(&mut self) -> Result<(), ExportError> {
        let mut weight: i128 = 1;
        let terms: Vec<Term> = self.model.objective.iter().rev().copied().collect();
        for term in terms {
            let sum = self.terms.remove(&term).unwrap_or_default();
            let most: i128 = sum.values().sum();
            for (name, amount) in sum {
                *self.objective.entry(name).or_default() += amount * weight;
            }
            weight = weight.saturating_mul(most + 1);
        }
        if weight > 1 << 53 {
            let message = "the terms of the objective together exceed what solvers compute exactly; name fewer";
            return Err(ExportError::Format(message.to_owned()));
        }
        Ok(())
    }

    fn text(&self) -> String {
        let objective =
            if self.objective.is_empty() { "0".to_owned() } else { linear(&self.objective) };
        let mut out = format!(
            "\\ {}\nMinimize\n cost: {objective}\nSubject To\n",
            self.model.problem.name.replace('\n', " ")
        );
        out.push_str(&self.rows.join("\n"));
        out.push_str("\nBinary\n");
        for name in &self.variables {
            let _ = writeln!(out, " {name}");
        }
        out.push_str("End\n");
        out
    }
}

fn x(item: usize, place: usize) -> String {
    format!("x_{item}_{place}")
}

/// A sum, with a line break now and then, since some readers limit lines.
fn linear(sum: &Sum) -> String {
    let mut out = String::new();
    for (index, (name, amount)) in sum.iter().enumerate() {
        if index > 0 && index % 12 == 0 {
            out.push_str("\n  ");
        }
        let sign = if *amount < 0 { "-" } else { "+" };
        let _ = write!(out, "{sign} {} {name} ", amount.unsigned_abs());
    }
    out.trim_end().to_owned()
}
