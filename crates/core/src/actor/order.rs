//! Commands with a name: who gave each of them, and that each is carried out once.
//!
//! An order has a key, chosen by its giver. The actor remembers the keys that were used, with the
//! facts that came of them: the same order again changes nothing, and another one under its key is an error.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::actor::common::{Commanded, CommonActor};
use crate::actor::effect::{Output, Problem};
use crate::model::codec::Hash;
use crate::model::time::{Span, Time};

/// The longest key, and the longest name of who gives an order, in bytes.
pub const MAX_KEY: usize = 256;

/// How long an order is remembered.
pub const REMEMBERED: Span = Span::DAY;

/// The most orders that are remembered: beyond them the oldest is forgotten.
pub const MAX_ORDERS: usize = 10_000;

/// What names a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The key.
    pub key: String,
    /// Which of several commands under one key, such as one for each part of a request.
    pub part: String,
    /// Who gives it.
    pub who: String,
    /// A digest of all that was asked for under the key.
    pub digest: Hash,
}

/// An order that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The order.
    pub order: Order,
    /// When.
    pub at: Time,
    /// The position of the first fact that came of it.
    pub first: u64,
    /// How many facts came of it.
    pub facts: u64,
}

/// The orders that were carried out, by key and part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Orders {
    done: BTreeMap<(String, String), Done>,
    /// By their age.
    by_age: BTreeSet<(Time, (String, String))>,
}

impl Orders {
    /// What came of an order, if it was carried out; an error if its key stands for another one.
    pub fn known(&self, now: Time, order: &Order) -> Result<Option<&Done>, String> {
        let Order { key, part, digest, .. } = order;
        for text in [key, part, &order.who] {
            if text.len() > MAX_KEY {
                return Err(format!("a key has at most {MAX_KEY} bytes, not {}", text.len()));
            }
        }
        let first = (key.clone(), String::new());
        let under_key = self.done.range(first..).take_while(|((other, _), _)| other == key);
        let mut fresh = under_key.filter(|(_, done)| now < done.at.plus(REMEMBERED));
        let mut same = None;
        if let Some((_, done)) = fresh.find(|((_, other), done)| {
            same = same.or((other == part).then_some(*done));
            done.order.digest != *digest
        }) {
            let who = &done.order.who;
            return Err(format!("key `{key}` stands for another command, which {who} gave"));
        }
        Ok(same)
    }

    /// Whether a key was used for what has this digest; an error if it stands for something else.
    pub fn stands_for(&self, now: Time, order: &Order) -> Result<bool, String> {
        self.known(now, order)?;
        let first = (order.key.clone(), String::new());
        let mut under_key = self.done.range(first..).take_while(|((key, _), _)| *key == order.key);
        Ok(under_key.any(|(_, done)| now < done.at.plus(REMEMBERED)))
    }

    /// Remembers an order of which the `facts` before `position` came.
    pub(crate) fn commanded(&mut self, order: &Order, facts: u64, position: u64, at: Time) {
        let first = position.saturating_sub(facts);
        self.record(Done { order: order.clone(), at, first, facts });
    }

    /// Remembers an order, and forgets those that are too old or too many.
    fn record(&mut self, done: Done) {
        let name = (done.order.key.clone(), done.order.part.clone());
        let old = done.at.minus(REMEMBERED);
        if let Some(before) = self.done.insert(name.clone(), done.clone()) {
            self.by_age.remove(&(before.at, name.clone()));
        }
        self.by_age.insert((done.at, name));
        while let Some((at, _)) = self.by_age.first()
            && (*at <= old || self.by_age.len() > MAX_ORDERS)
            && let Some((_, name)) = self.by_age.pop_first()
        {
            self.done.remove(&name);
        }
    }
}

/// Carries an order out, unless that was done before: `act` is its command.
pub(crate) fn carry_out<A: CommonActor>(
    (actor, now): (&mut A, Time),
    order: Order,
    out: &mut Output<A::Fact>,
    act: impl FnOnce(&mut A, &mut Output<A::Fact>),
) {
    match actor.orders().known(now, &order) {
        Ok(Some(_)) => {}
        Ok(None) => {
            let (facts, problems) = (out.facts.len(), out.problems.len());
            act(actor, out);
            if out.problems.len() == problems {
                let facts = u64::try_from(out.facts.len() - facts).unwrap_or(u64::MAX);
                actor.emit_common(now, Commanded { order, facts }, out);
            }
        }
        Err(cause) => out.problems.push(Problem::Command(cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(key: &str, part: &str, body: &str) -> Order {
        let digest = Hash::of("test", &[body.as_bytes()]);
        Order { key: key.to_owned(), part: part.to_owned(), who: "me".to_owned(), digest }
    }

    fn done(order: Order, at: Time) -> Done {
        Done { order, at, first: 0, facts: 1 }
    }

    #[test]
    fn a_key_stands_for_one_body_as_long_as_it_is_remembered() {
        let (mut orders, now) = (Orders::default(), Time::ZERO);
        orders.record(done(order("a", "1", "x"), now));
        assert!(orders.known(now, &order("a", "1", "x")).unwrap().is_some());
        assert!(orders.known(now, &order("a", "2", "x")).unwrap().is_none());
        assert!(orders.known(now, &order("a", "2", "y")).unwrap_err().contains("which me gave"));
        assert!(orders.known(now, &order("ab", "1", "y")).unwrap().is_none());
        let later = now.plus(REMEMBERED);
        assert!(orders.known(later, &order("a", "1", "y")).unwrap().is_none());
    }

    #[test]
    fn the_oldest_orders_are_forgotten() {
        let mut orders = Orders::default();
        for n in 0..=MAX_ORDERS {
            let at = Time::from_secs(i64::try_from(n).unwrap());
            orders.record(done(order(&n.to_string(), "", "x"), at));
        }
        assert_eq!((orders.done.len(), orders.by_age.len()), (MAX_ORDERS, MAX_ORDERS));
        let at = Time::from_secs(0).plus(REMEMBERED).plus(REMEMBERED);
        orders.record(done(order("new", "", "x"), at));
        assert_eq!((orders.done.len(), orders.by_age.len()), (1, 1));
    }

    #[test]
    fn a_key_that_is_too_long_is_refused() {
        let long = order(&"k".repeat(MAX_KEY + 1), "", "x");
        assert!(Orders::default().known(Time::ZERO, &long).is_err());
    }
}
