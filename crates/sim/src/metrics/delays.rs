//! How long granted requests were delayed, and whose.

use std::collections::BTreeMap;

use tenure_core::model::time::{Span, Term, Time};

use crate::report::Report;

/// The term below which a slowdown is that of this one: otherwise the shortest jobs would decide it.
const SHORT: Span = Span::from_secs(10);

/// The delays of one service manager's requests.
#[derive(Debug, Default)]
pub(super) struct Delays {
    delayed: u64,
    /// By the user that a request names, if it does.
    users: BTreeMap<Option<String>, Slowdowns>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slowdowns {
    sum: f64,
    count: u64,
}

impl Slowdowns {
    fn mean(self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

impl Delays {
    /// A request was granted over a term that was asked to begin at `earliest`.
    pub(super) fn granted(&mut self, user: Option<&String>, earliest: Time, term: Term) {
        let (delay, length) = (term.start().since(earliest), term.duration());
        self.delayed += u64::from(delay.is_positive());
        let slowdown = delay.plus(length).as_secs_f64() / length.max(SHORT).as_secs_f64();
        let of_user = self.users.entry(user.cloned()).or_default();
        of_user.sum += slowdown.max(1.0);
        of_user.count += 1;
    }

    /// Fills in what the delays of all service managers come to.
    pub(super) fn fill<'a>(all: impl Iterator<Item = &'a Self>, report: &mut Report) {
        let (mut total, mut means) = (Slowdowns::default(), Vec::new());
        for delays in all {
            report.delayed += delays.delayed;
            for of_user in delays.users.values() {
                total.sum += of_user.sum;
                total.count += of_user.count;
                means.push(of_user.mean());
            }
        }
        report.granted = total.count;
        report.slowdown = total.mean();
        report.fairness = jain(&means);
    }
}

/// Jain's index of fairness: 1 if all are equal, 1/n if all but one of n are zero; 1 of nobody.
fn jain(values: &[f64]) -> f64 {
    let (sum, squares) =
        values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares > 0.0 { sum * sum / (values.len() as f64 * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(from: i64, seconds: i64) -> Term {
        Term::lasting(Time::ZERO.plus(Span::from_secs(from)), Span::from_secs(seconds)).unwrap()
    }

    #[test]
    fn slowdowns_are_bounded_and_compared_by_user() {
        let mut delays = Delays::default();
        let (ann, bob) = ("ann".to_owned(), "bob".to_owned());
        // 100 s later for 100 s: 2. At once: 1. 9 s later for 1 s: 10 s in place of at most 10 s: 1.
        delays.granted(Some(&ann), Time::ZERO, term(100, 100));
        delays.granted(Some(&ann), Time::ZERO, term(0, 5));
        delays.granted(Some(&bob), Time::ZERO, term(9, 1));
        let mut report = Report::default();
        Delays::fill([&delays].into_iter(), &mut report);
        assert_eq!((report.granted, report.delayed), (3, 2));
        assert!((report.slowdown - 4.0 / 3.0).abs() < 1e-12);
        let (a, b) = (1.5, 1.0);
        let fairness = (a + b) * (a + b) / (2.0 * (a * a + b * b));
        assert!((report.fairness - fairness).abs() < 1e-12);
    }

    #[test]
    fn equal_values_are_fair_and_one_of_many_is_not() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[]), 1.0);
    }
}
