//! An index of terms by the instants they contain.

use std::collections::BTreeSet;

use super::link::LinkHash;
use crate::model::time::{Term, Time};

/// Links by their terms, such that those that run at an instant are found without looking at the others.
///
/// Each term lies in at most two neighbouring buckets of the least width, a power of two microseconds,
/// that is no shorter than the term. All terms in a bucket are longer than half its width: of a ticket of
/// `n` units that is never exceeded, a bucket holds fewer than `6 n` children, however many there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Running(BTreeSet<(u32, i64, LinkHash)>);

/// The widest bucket, as a power of two.
const WIDEST: u32 = 63;

impl Running {
    /// Enters a link.
    pub(super) fn insert(&mut self, term: Term, hash: LinkHash) {
        self.0.extend(buckets(term).map(|(width, place)| (width, place, hash)));
    }

    /// Removes a link that was entered with this term.
    pub(super) fn remove(&mut self, term: Term, hash: LinkHash) {
        for (width, place) in buckets(term) {
            self.0.remove(&(width, place, hash));
        }
    }

    /// All links whose terms contain `t`, and a few more whose terms are near it; each once.
    pub(super) fn near(&self, t: Time) -> impl Iterator<Item = LinkHash> + use<'_> {
        (0..=WIDEST).flat_map(move |width| {
            let place = t.as_micros() >> width;
            let bucket = self.0.range((width, place, LinkHash::lowest())..);
            bucket.take_while(move |&&(w, p, _)| (w, p) == (width, place)).map(|&(_, _, hash)| hash)
        })
    }
}

/// The one or two buckets that a term lies in, each as its width and its place among those of that width.
fn buckets(term: Term) -> impl Iterator<Item = (u32, i64)> {
    let (first, last) = (term.start().as_micros(), term.end().as_micros() - 1);
    let width = (u64::BITS - last.wrapping_sub(first).cast_unsigned().leading_zeros()).min(WIDEST);
    (first >> width..=last >> width).map(move |place| (width, place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Span;

    fn hash(n: i64) -> LinkHash {
        LinkHash::of_body(&n.to_le_bytes())
    }

    fn term(start: i64, end: i64) -> Term {
        Term::new(Time::from_micros(start), Time::from_micros(end)).unwrap()
    }

    #[test]
    fn whatever_runs_at_an_instant_is_found_once() {
        let terms: Vec<Term> = (0..400)
            .map(|n| term(n * 37 % 501 - 250, n * 37 % 501 - 249 + n * n % 173))
            .chain([term(i64::MIN, i64::MAX), term(-1, 1), term(i64::MIN, i64::MIN + 1)])
            .collect();
        let mut running = Running::default();
        for (n, &term) in (0..).zip(&terms) {
            running.insert(term, hash(n));
        }
        for t in (-260..260).chain([i64::MIN, i64::MAX - 1]).map(Time::from_micros) {
            let mut near: Vec<LinkHash> = running.near(t).collect();
            let found = near.len();
            near.sort();
            near.dedup();
            assert_eq!(near.len(), found, "{t}: each once");
            for (n, _) in (0..).zip(&terms).filter(|(_, term)| term.contains(t)) {
                assert!(near.binary_search(&hash(n)).is_ok(), "{t}: {n}");
            }
        }
        for (n, &term) in (0..).zip(&terms) {
            running.remove(term, hash(n));
        }
        assert_eq!(running, Running::default());
    }

    #[test]
    fn children_that_ran_at_other_times_are_not_looked_at() {
        let mut running = Running::default();
        for n in 0..10_000 {
            let start = Time::ZERO.plus(Span::from_secs(n * 60));
            running.insert(Term::lasting(start, Span::from_secs(60)).unwrap(), hash(n));
        }
        for n in 0..100 {
            let t = Time::ZERO.plus(Span::from_secs(n * 6_000 + 30));
            assert!((1..6).contains(&running.near(t).count()));
        }
    }
}
