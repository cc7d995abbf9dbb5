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

impl Generation {
    fn number(&self) -> Option<u32> {
        self.link.delegation.map(|mark| mark.generation)
    }
}

impl Cover {
    /// Without the generations that no instant needs: a later one has as many units for at least as long.
    fn standing(&self) -> Vec<&Generation> {
        let mut standing: Vec<&Generation> = Vec::new();
        for generation in self.generations.iter().rev() {
            let needless = standing.iter().any(|later| {
                later.number() >= generation.number()
                    && later.link.units >= generation.link.units
                    && later.link.term.encloses(generation.link.term)
            });
            if !needless {
                standing.push(generation);
            }
        }
        standing
    }

    /// How much it covers from each instant on, until the next.
    fn levels(&self) -> Vec<(Time, i64)> {
        let (standing, backs) = (self.standing(), self.generations.iter());
        let backs: Vec<&Generation> = backs.filter(|g| !g.back.is_empty()).collect();
        let terms = backs.iter().flat_map(|g| &g.back).map(|(_, _, term)| *term);
        let terms = terms.chain(standing.iter().map(|g| g.link.term));
        let mut edges: Vec<Time> = terms.flat_map(|term| [term.start(), term.end()]).collect();
        edges.sort_unstable();
        edges.dedup();
        let left = |generation: &Generation, t| {
            let later = backs.iter().filter(|g| g.number() >= generation.number());
            let back = later.flat_map(|g| &g.back).filter(|(_, _, term)| term.contains(t));
            back.fold(generation.link.units.get(), |left, (_, units, _)| {
                left.saturating_sub(*units)
            })
        };
        let at = |t| {
            let running = standing.iter().filter(|g| g.link.term.contains(t));
            i64::from(running.map(|generation| left(generation, t)).max().unwrap_or(0))
        };
        edges.into_iter().map(|t| (t, at(t))).collect()
    }

    /// Changes it; answers by how much it covers more, or less, when.
    fn change(&mut self, change: impl FnOnce(&mut Self)) -> Vec<(Term, i64)> {
        let before = self.levels();
        change(self);
        let after = self.levels();
        let at = |levels: &[(Time, i64)], t| {
            levels.iter().take_while(|(from, _)| *from <= t).last().map_or(0, |(_, units)| *units)
        };
        let mut edges: Vec<Time> = before.iter().chain(&after).map(|(t, _)| *t).collect();
        edges.sort_unstable();
        edges.dedup();
        let parts = edges.windows(2).filter_map(|pair| Term::new(pair[0], pair[1]).ok());
        parts.map(|part| (part, at(&after, part.start()) - at(&before, part.start()))).collect()
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
