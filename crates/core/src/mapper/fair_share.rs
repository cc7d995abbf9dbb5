//! `fair-share`: the one that had least so far comes first; what was had long ago counts less.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::place::Placement;
use super::queue::{Queue, Round, extends};
use crate::actor::fact::Memo;
use crate::broker::mapper::{BrokerMapper, Choice, Decision, Verdict, View};
use crate::model::codec;
use crate::model::time::{Span, Time};
use crate::wire::request::Request;

/// Serves the one with the least usage for its share first, and its requests in the order they came. Usage is
/// the unit-time that was granted, halved each `half-life` (Kay and Lauder, 1988; Slurm's fair share decays
/// likewise); what is given back early was still granted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct FairShare {
    placement: Placement,
    queue: Queue,
    /// The request property that says for whom it is; the service manager unless set.
    property: Option<String>,
    #[serde(deserialize_with = "super::lasting")]
    half_life: Span,
    /// How large the share of each is, by what the property says; 1 unless set.
    shares: BTreeMap<String, NonZeroU32>,
}

impl Default for FairShare {
    fn default() -> Self {
        Self {
            placement: Placement::default(),
            queue: Queue::Easy,
            property: None,
            half_life: Span::DAY.times(7),
            shares: BTreeMap::new(),
        }
    }
}

/// What each had: unit-seconds, as they counted at an instant.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Usages(BTreeMap<String, (u128, Time)>);

/// Usage below which somebody is forgotten: one second of one unit.
const FORGOTTEN: u128 = 1;

/// The most whose usage is kept: a memo is bounded.
const MOST: usize = 1000;

/// 2^(-1/2), 2^(-1/4), ..., 2^(-1/65536), each times 2^32: their products are all powers of 2 in
/// between, to the byte the same on every machine.
const ROOTS: [u64; 16] = [
    3_037_000_500,
    3_611_622_603,
    3_938_502_376,
    4_112_874_773,
    4_202_935_003,
    4_248_701_965,
    4_271_771_996,
    4_283_353_945,
    4_289_156_690,
    4_292_061_010,
    4_293_513_907,
    4_294_240_540,
    4_294_603_903,
    4_294_785_595,
    4_294_876_445,
    4_294_921_870,
];

impl FairShare {
    /// What is left of a usage after some time.
    fn decayed(&self, usage: u128, after: Span) -> u128 {
        let (after, life) = (after.as_micros().max(0), self.half_life.as_micros());
        let part = i128::from(after % life) * (1 << ROOTS.len()) / i128::from(life);
        let whole = u32::try_from(after / life).unwrap_or(u32::MAX);
        let bits = (1..).zip(ROOTS).filter(|(bit, _)| part >> (ROOTS.len() - bit) & 1 == 1);
        let left = bits.fold(usage, |usage, (_, root)| (usage * u128::from(root)) >> 32);
        left.checked_shr(whole).unwrap_or(0)
    }

    fn usage_at(&self, usages: &Usages, whom: &str, now: Time) -> u128 {
        usages.0.get(whom).map_or(0, |&(usage, at)| self.decayed(usage, now.since(at)))
    }

    /// Usage for the size of the share, in 2^-32 unit-seconds: the one with less comes first.
    fn charged(&self, usages: &Usages, whom: &str, now: Time) -> u128 {
        let share = self.shares.get(whom).map_or(1, |share| share.get());
        (self.usage_at(usages, whom, now) << 32) / u128::from(share)
    }

    fn whom(&self, request: &Request) -> String {
        let named = self.property.as_ref().and_then(|property| request.properties.get(property));
        named.map_or_else(|| request.id.origin.to_string(), ToString::to_string)
    }

    /// Drops what no longer counts and, beyond the bound, those who had least.
    fn forget(&self, usages: &mut Usages, now: Time) {
        let usage = |(usage, at): (u128, Time)| self.decayed(usage, now.since(at));
        usages.0.retain(|_, had| usage(*had) >= FORGOTTEN);
        while usages.0.len() > MOST {
            let least = usages.0.iter().min_by_key(|(_, had)| usage(**had));
            let Some(least) = least.map(|(whom, _)| whom.clone()) else { return };
            usages.0.remove(&least);
        }
    }
}

/// A round in the making.
struct Serving<'a> {
    policy: &'a FairShare,
    now: Time,
    usages: Usages,
    round: Round<'a>,
    choices: Vec<Choice>,
}

impl Serving<'_> {
    fn serve(&mut self, whom: &str, request: &Request) {
        let mut choice = self.round.choose(request);
        if let Verdict::Grant(granted) = &choice.verdict {
            let usage = self.policy.usage_at(&self.usages, whom, self.now);
            choice.reason = format!("{}; {whom} had {usage} unit-seconds", choice.reason);
            self.usages
                .0
                .insert(whom.to_owned(), (usage + granted.unit_micros() / 1_000_000, self.now));
        }
        self.choices.push(choice);
    }

    /// Whose request is next: of those with equal usage, the one whose request came first.
    fn next(&self, open: &Queues<'_>) -> Option<String> {
        let heads = open.iter().filter_map(|(whom, queue)| Some((whom, queue.front()?.0)));
        let next = heads.min_by_key(|(whom, place)| {
            (self.policy.charged(&self.usages, whom, self.now), *place)
        });
        next.map(|(whom, _)| whom.clone())
    }

    fn decision(mut self) -> Decision {
        let granted = |choice: &Choice| matches!(choice.verdict, Verdict::Grant(_));
        let charged = self.choices.iter().any(granted);
        let memo = charged.then(|| {
            self.policy.forget(&mut self.usages, self.now);
            Memo(codec::encode(&self.usages))
        });
        Decision { memo, ..self.round.decision(self.choices) }
    }
}

/// New requests of each, with the place at which they came.
type Queues<'a> = BTreeMap<String, VecDeque<(usize, &'a Request)>>;

impl BrokerMapper for FairShare {
    fn decide(&self, view: &View) -> Decision {
        let mut serving = Serving {
            policy: self,
            now: view.now(),
            usages: codec::decode(&view.memo().0).unwrap_or_default(),
            round: Round::new(view, self.placement, self.queue),
            choices: Vec::new(),
        };
        let mut open = Queues::new();
        for (place, request) in view.open_requests().enumerate() {
            let whom = self.whom(request);
            if extends(request) {
                serving.serve(&whom, request);
            } else {
                open.entry(whom).or_default().push_back((place, request));
            }
        }
        while let Some(whom) = serving.next(&open) {
            if let Some((_, request)) = open.get_mut(&whom).and_then(VecDeque::pop_front) {
                serving.serve(&whom, request);
            }
        }
        serving.decision()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_halved_each_half_life_and_falls_between() {
        let policy = FairShare { half_life: Span::HOUR, ..FairShare::default() };
        let left = |minutes| policy.decayed(1 << 40, Span::MINUTE.times(minutes));
        assert_eq!((left(0), left(60), left(600)), (1 << 40, 1 << 39, 1 << 30));
        for minutes in 1..600 {
            let exact = 2f64.powf(40.0 - minutes as f64 / 60.0);
            assert!((left(minutes) as f64 / exact - 1.0).abs() < 1e-4, "{minutes}");
            assert!(left(minutes) < left(minutes - 1));
        }
        assert_eq!(policy.decayed(u128::from(u64::MAX), Span::DAY.times(400)), 0);
    }
}
