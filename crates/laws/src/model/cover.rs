//! What a delegation covers: of its generations the one that has the most left, at each instant. What came
//! back of one came back of all before it.

use tenure_core::model::time::{Term, Time};
use tenure_core::ticket::link::{LinkHash, SignedLink};

/// The generations of a delegation.
#[derive(Default)]
pub(crate) struct Cover {
    generations: Vec<Generation>,
}

/// A generation with what came back of it, by the numbers of the receipts.
struct Generation {
    link: SignedLink,
    back: Vec<(u32, u32, Term)>,
}

impl Cover {
    fn at(&self, t: Time) -> i64 {
        let number = |g: &Generation| g.link.delegation.map(|mark| mark.generation);
        let left = self.generations.iter().filter(|g| g.link.term.contains(t)).map(|generation| {
            let later = self.generations.iter().filter(|g| number(g) >= number(generation));
            let back = later.flat_map(|g| &g.back).filter(|(_, _, term)| term.contains(t));
            back.fold(generation.link.units.get(), |left, (_, units, _)| {
                left.saturating_sub(*units)
            })
        });
        i64::from(left.max().unwrap_or(0))
    }

    /// Changes it; answers by how much it covers more, or less, when.
    fn change(&mut self, change: impl FnOnce(&mut Self)) -> Vec<(Term, i64)> {
        let before: Vec<(Time, i64)> = self.edges().into_iter().map(|t| (t, self.at(t))).collect();
        change(self);
        let old = |t| before.iter().take_while(|(at, _)| *at <= t).last().map_or(0, |(_, n)| *n);
        let mut edges = self.edges();
        edges.extend(before.iter().map(|(t, _)| *t));
        edges.sort_unstable();
        edges.dedup();
        let parts = edges.windows(2).filter_map(|pair| Term::new(pair[0], pair[1]).ok());
        parts.map(|part| (part, self.at(part.start()) - old(part.start()))).collect()
    }

    fn edges(&self) -> Vec<Time> {
        let terms = self.generations.iter().flat_map(|generation| {
            let back = generation.back.iter().map(|(_, _, term)| *term);
            back.chain([generation.link.term])
        });
        let mut edges: Vec<Time> = terms.flat_map(|term| [term.start(), term.end()]).collect();
        edges.sort_unstable();
        edges
    }

    /// Another generation.
    pub(crate) fn take(&mut self, link: &SignedLink) -> Vec<(Term, i64)> {
        if self.generations.iter().any(|known| known.link.hash() == link.hash()) {
            return Vec::new();
        }
        let generation = Generation { link: link.clone(), back: Vec::new() };
        self.change(|cover| cover.generations.push(generation))
    }

    /// Units of a generation come back.
    pub(crate) fn back(&mut self, hash: LinkHash, what: (u32, u32, Term)) -> Vec<(Term, i64)> {
        self.change(|cover| {
            let of_it = cover.generations.iter_mut().filter(|g| g.link.hash() == hash);
            of_it.for_each(|generation| generation.back.push(what));
        })
    }

    /// They do not.
    pub(crate) fn not_back(&mut self, hash: LinkHash, number: u32) -> Vec<(Term, i64)> {
        self.change(|cover| {
            let of_it = cover.generations.iter_mut().filter(|g| g.link.hash() == hash);
            of_it.for_each(|generation| generation.back.retain(|(n, ..)| *n != number));
        })
    }
}
