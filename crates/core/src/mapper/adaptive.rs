//! `adaptive`: follows a demand signal.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use serde::Deserialize;

use super::flop_flip::{FlopFlip, Seen};
use crate::actor::fact::Memo;
use crate::model::codec;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::LeaseId;
use crate::model::time::{Span, Term, Time};
use crate::service_manager::Victims;
use crate::service_manager::group::Handling;
use crate::service_manager::mapper::{
    Ask, Decision, Extend, Flex, LeaseView, ServiceManagerMapper, Stage, View,
};
use crate::wire::offer::Reply;
use crate::wire::proviso::Provisos;
use crate::wire::request::{Item, MAX_ITEMS, MAX_UNITS};

/// Holds as many units as a signal says: asks for what is missing, and, if told to, keeps leases whose
/// units are still needed at their end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Adaptive {
    /// The signal: how many units are needed.
    #[serde(default = "Adaptive::demand")]
    signal: Name,
    /// The type of the units.
    #[serde(default = "super::node")]
    resource: Name,
    /// The slice of the leases.
    #[serde(default = "super::main_slice")]
    slice: Name,
    /// For how long to ask.
    #[serde(deserialize_with = "super::lasting")]
    term: Span,
    /// How long to wait for an answer: half a term unless set.
    patience: Option<Span>,
    /// How long before the end of a lease to decide whether to keep it; never unless set.
    extend_before: Option<Span>,
    /// Whether units are given back early once they are not needed (the paper could not).
    #[serde(default)]
    give_back: bool,
    /// How long a lease keeps its units before any of them are given back early.
    #[serde(default)]
    min_tenure: Span,
    /// Whether fewer units than asked for are welcome.
    #[serde(default)]
    elastic: bool,
    /// Smooths the signal; it is taken as it is unless set.
    filter: Option<FlopFlip>,
    /// For the broker's mapper.
    #[serde(default)]
    properties: Properties,
    /// For the site's driver.
    #[serde(default, deserialize_with = "super::configuration")]
    configuration: Properties,
}

impl Adaptive {
    fn demand() -> Name {
        Name::literal("demand")
    }

    fn ask(&self, view: &View, needed: i64, held: i64) -> Option<Ask> {
        let missing = u32::try_from(needed - held).ok().filter(|&units| units > 0)?;
        let patience = self.patience.unwrap_or(Span::from_micros(self.term.as_micros() / 2));
        let item = |units| Item {
            min_units: if self.elastic { NonZeroU32::MIN } else { units },
            ..Item::new(self.resource.clone(), units)
        };
        // One item for each lease that can be, the rest in the last.
        let full = missing / MAX_UNITS;
        let items = (0..=full).map(|n| if n < full { MAX_UNITS } else { missing % MAX_UNITS });
        let items = items.filter_map(NonZeroU32::new).take(MAX_ITEMS).map(item).collect();
        Some(Ask {
            broker: None,
            slice: self.slice.clone(),
            items,
            earliest: view.now(),
            latest: view.now(),
            duration: self.term,
            min_duration: self.term,
            provisos: Provisos::NONE,
            again: None,
            reply: Reply::Grant,
            answer_by: view.now().plus(patience),
            properties: self.properties.clone(),
            configuration: self.configuration.clone(),
            reason: format!("{needed} needed, {held} held"),
            handling: Handling::default(),
        })
    }

    /// Keeps the leases that end soon and whose units will be missed, the next to end first.
    fn extensions(&self, view: &View, needed: i64) -> Vec<Extend> {
        let Some(ahead) = self.extend_before else { return Vec::new() };
        // The extensions under which units are held at the end that is looked at, by their own ends.
        let mut kept: VecDeque<(Time, i64)> = VecDeque::new();
        let (mut also, mut extensions) = (0, Vec::new());
        for lease in view.ending_by(view.now().plus(ahead)) {
            let Ok(next) = Term::lasting(lease.term.end(), self.term) else { continue };
            while let Some((_, units)) = kept.pop_front_if(|(end, _)| *end <= next.start()) {
                also -= units;
            }
            let then = view.held_at(&self.resource, next.start()) + also;
            if lease.resource != self.resource || !lease.changeable() || then >= needed {
                continue;
            }
            kept.push_back((next.end(), i64::from(lease.units)));
            also += i64::from(lease.units);
            let reason = format!("{needed} needed, {then} held from {}", next.start());
            extensions.push(Extend::whole(lease.id, self.term, reason));
        }
        extensions
    }
}

impl Adaptive {
    /// What to give back of the leases, the last to end first: whole ones that the surplus covers, and units
    /// of the next.
    fn surplus(&self, view: &View, needed: i64, held: i64) -> (Vec<LeaseId>, Vec<Flex>) {
        let (mut closes, mut flexes) = (Vec::new(), Vec::new());
        if !self.give_back || held <= needed {
            return (closes, flexes);
        }
        let of_type = || view.last_to_end().filter(|lease| lease.resource == self.resource);
        let on_the_way: i64 = of_type().map(|lease| i64::from(lease.returning)).sum();
        let mut surplus = u32::try_from(held - needed - on_the_way).unwrap_or(0);
        let tenured = |lease: &LeaseView| lease.term.start().plus(self.min_tenure) <= view.now();
        for lease in of_type().filter(|lease| tenured(lease)) {
            let Some(shrink) = NonZeroU32::new(surplus) else { break };
            if lease.units <= surplus {
                surplus -= lease.units;
                closes.push(lease.id);
            } else if lease.changeable() && lease.stage == Stage::Active {
                surplus = 0;
                let reason = format!("{needed} needed, {held} held");
                flexes.push(Flex { lease: lease.id, shrink, victims: Victims::Youngest, reason });
            }
        }
        (closes, flexes)
    }
}

impl Adaptive {
    /// How many units are needed, and what the filter has to remember, if there is one.
    fn needed(&self, view: &View) -> (i64, Option<Memo>) {
        let signal = view.signal(&self.signal).unwrap_or(0);
        let Some(filter) = &self.filter else { return (signal, None) };
        let before: Seen = codec::decode(&view.memo().0).unwrap_or_default();
        let mut seen = before.clone();
        let needed = filter.observe(&mut seen, view.now(), signal);
        (needed, (seen != before).then(|| Memo(codec::encode(&seen))))
    }
}

impl ServiceManagerMapper for Adaptive {
    fn decide(&self, view: &View) -> Decision {
        let (needed, memo) = self.needed(view);
        let held = view.held_at(&self.resource, view.now());
        let (closes, flexes) = self.surplus(view, needed, held);
        Decision {
            round: view.round(),
            asks: self.ask(view, needed, held).into_iter().collect(),
            extensions: self.extensions(view, needed),
            closes,
            flexes,
            memo,
            ..Decision::default()
        }
    }
}
