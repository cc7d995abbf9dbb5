//! `urgency`: units go to whom they are worth most, and are taken from whom they are worth least.

mod aged;
mod holdings;
mod ordering;
pub mod policy;
mod serving;
mod standing;

use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use self::ordering::Ordering;
use self::policy::{Known, Policy};
use self::serving::Serving;
use self::standing::Standings;
use super::place::Placement;
use crate::broker::mapper::{BrokerMapper, Budget, Decision, Swing, View};
use crate::broker::needs::KEPT;
use crate::broker::orders::MAX_WINDOW;
use crate::model::percent::Percent;
use crate::model::time::Span;

/// Serves the requests of services by what they are worth, as their needs say and a policy compares them. What is
/// claimed and not free is ordered from the service to which it is worth least, if that is less by the least gain.
///
/// The needs count over a while: a claim by the least that it was, a use by the most. Requests that are for no
/// service are worth a fixed urgency, and nothing is taken for them or from them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Urgency<P = Known> {
    placement: Placement,
    /// Makes services comparable.
    policy: P,
    recall: Recalls,
    /// How urgent a unit is that is asked for by nobody's service.
    unstated: Unstated,
}

/// When units are taken from services for others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Recalls {
    /// For how long a service has units at least.
    pub min_tenure: Span,
    /// How long ahead a service is told, if its leases do not ask for longer.
    #[serde(deserialize_with = "unsigned")]
    pub notice: Span,
    /// How many units of a type are taken at most: `"10% per 1h"` of those of the broker, at least one.
    #[serde(deserialize_with = "budget")]
    pub budget: Option<Budget>,
    /// For how long needs have to have been as they are.
    #[serde(deserialize_with = "remembered")]
    pub stable_for: Span,
    /// By how much a claim is worth more than the use that it ends, at least.
    pub min_gain: u64,
    /// For how long units that are freed by an order are kept for it.
    #[serde(deserialize_with = "crate::mapper::lasting")]
    pub hold: Span,
    /// Whether they are taken.
    pub mode: Mode,
}

/// What becomes of orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// They are placed.
    #[default]
    Managed,
    /// Nothing is taken: what would be ordered is recorded.
    Advise,
}

impl<P> Urgency<P> {
    /// A mapper with a policy of one's own, and the default of all else.
    pub fn new(policy: P) -> Self {
        let (placement, unstated) = (Placement::default(), Unstated::default());
        Self { placement, policy, recall: Recalls::default(), unstated }
    }

    /// The same, which takes units from services for others in this way.
    pub fn with_recalls(self, recall: Recalls) -> Self {
        Self { recall, ..self }
    }
}

impl Default for Recalls {
    fn default() -> Self {
        Self {
            min_tenure: Span::MINUTE.times(30),
            notice: Span::ZERO,
            budget: Some(Budget { percent: 10, window: Span::HOUR }),
            stable_for: Span::MINUTE.times(30),
            min_gain: 1,
            hold: Span::MINUTE.times(5),
            mode: Mode::Managed,
        }
    }
}

/// An urgency that is 50 unless set.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
struct Unstated(u32);

impl Default for Unstated {
    fn default() -> Self {
        Self(50)
    }
}

fn unsigned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
    let span = Span::deserialize(deserializer)?;
    let late = || D::Error::custom(format!("nobody is told {span} ahead"));
    (span >= Span::ZERO).then_some(span).ok_or_else(late)
}

fn remembered<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
    let span = Span::deserialize(deserializer)?;
    if (Span::ZERO..=KEPT).contains(&span) {
        return Ok(span);
    }
    Err(D::Error::custom(format!("needs are remembered for {KEPT}, not for {span}")))
}

/// `"10% per 1h"`, or `"none"`.
fn budget<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Budget>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text == "none" {
        return Ok(None);
    }
    let bad =
        || D::Error::custom(format!("`{text}` is no budget, such as \"10% per 1h\", nor \"none\""));
    let (percent, window) = text.split_once(" per ").ok_or_else(bad)?;
    let Percent(percent) = percent.parse().map_err(D::Error::custom)?;
    let window = Span::from_str(window).map_err(D::Error::custom)?;
    if !window.is_positive() || window > MAX_WINDOW {
        return Err(D::Error::custom(format!("the window of a budget is {MAX_WINDOW} at most")));
    }
    Ok(Some(Budget { percent, window }))
}

impl<P: Policy> BrokerMapper for Urgency<P> {
    fn decide(&self, view: &View) -> Decision {
        let mut standings = Standings::of(view, &self.policy, self.recall.stable_for);
        let mut serving = Serving::new(view, self.placement, &self.recall);
        let ended = serving.end_orders(&standings);
        serving.serve(&mut standings, self.unstated.0);
        let mut ordering = Ordering::new(view, &standings, &self.recall);
        ordering.order(&serving);
        let Ordering { orders, blocked, .. } = ordering;
        let waits = !blocked.is_empty();
        let choices = serving.choices(&orders, &blocked);
        let again = self.policy.changes_within().filter(|_| waits);
        let again = again.map(|within| view.now().plus(within));
        let wake = [standings.wake(), serving.wake(), again].into_iter().flatten().min();
        Decision {
            round: view.round(),
            choices,
            ended: ended.into_iter().chain(serving.delivered()).collect(),
            orders,
            memo: None,
            wake,
        }
    }

    fn least_gain(&self) -> Option<u64> {
        self.policy.is_urgency().then(|| self.recall.min_gain.max(1))
    }

    fn swing(&self) -> Swing {
        let Recalls { min_tenure, notice, budget, mode, .. } = self.recall;
        Swing { min_tenure, notice, budget, advise: mode == Mode::Advise }
    }
}
