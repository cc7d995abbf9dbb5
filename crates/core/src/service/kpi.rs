//! What is measured of a service.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tenure_expr::{Dimension, Quantity, Value};
use thiserror::Error;

use crate::model::name::Name;
use crate::model::percent::Percent;

/// A KPI, or a selection of KPIs: a name, and labels such as `{partition="big"}`.
///
/// As a text it is what an expression has in the place of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Kpi {
    name: Name,
    labels: BTreeMap<Name, String>,
}

/// A text that is no KPI.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{}` is not a KPI: write a name, and labels as in `pending-units{{partition=\"big\"}}`", .0.escape_debug())]
pub struct BadKpi(String);

impl Kpi {
    /// The most labels of one.
    pub const MAX_LABELS: usize = 8;
    /// The longest value of a label, in bytes.
    pub const MAX_LABEL: usize = 64;

    /// One without labels.
    pub fn plain(name: Name) -> Self {
        Self { name, labels: BTreeMap::new() }
    }

    /// One more label; the last of a name counts.
    ///
    /// # Errors
    /// If there are too many, or the value is too long, or has quotes, backslashes or control characters.
    pub fn with(mut self, label: Name, value: &str) -> Result<Self, BadKpi> {
        let plain = |c: char| !c.is_control() && !matches!(c, '"' | '\\' | '\'' | '`');
        let fits = value.len() <= Self::MAX_LABEL && value.chars().all(plain);
        self.labels.insert(label, value.to_owned());
        if fits && self.labels.len() <= Self::MAX_LABELS {
            Ok(self)
        } else {
            Err(BadKpi(self.to_string()))
        }
    }

    /// What it is called.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The value of a label.
    pub fn label(&self, label: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| name.as_str() == label).map(|(_, value)| value.as_str())
    }

    /// Whether it selects a KPI: the names are the same, and that one has all labels of this one.
    pub fn selects(&self, kpi: &Self) -> bool {
        let has = |(label, value): (&Name, &String)| kpi.labels.get(label) == Some(value);
        self.name == kpi.name && self.labels.iter().all(has)
    }
}

impl fmt::Display for Kpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        for (number, (label, value)) in self.labels.iter().enumerate() {
            write!(f, "{}{label}=\"{value}\"", if number == 0 { "{" } else { "," })?;
        }
        if self.labels.is_empty() { Ok(()) } else { write!(f, "}}") }
    }
}

impl FromStr for Kpi {
    type Err = BadKpi;

    fn from_str(text: &str) -> Result<Self, BadKpi> {
        let bad = || BadKpi(text.chars().take(200).collect());
        let (name, labels) = match text.split_once('{') {
            None => (text, ""),
            Some((name, rest)) => (name, rest.strip_suffix('}').ok_or_else(bad)?),
        };
        let mut kpi = Self::plain(Name::new(name.trim()).map_err(|_| bad())?);
        for label in labels.split(',').map(str::trim).filter(|label| !label.is_empty()) {
            let (label, value) = label.split_once('=').ok_or_else(bad)?;
            let value = value.trim().strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            let label = Name::new(label.trim()).map_err(|_| bad())?;
            kpi = kpi.with(label, value.ok_or_else(bad)?)?;
        }
        Ok(kpi)
    }
}

impl TryFrom<String> for Kpi {
    type Error = BadKpi;

    fn try_from(text: String) -> Result<Self, BadKpi> {
        text.parse()
    }
}

impl From<Kpi> for String {
    fn from(kpi: Kpi) -> Self {
        kpi.to_string()
    }
}

/// What was measured of a service at one time: numbers and lengths of time by KPI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kpis(BTreeMap<Kpi, Quantity>);

impl Kpis {
    /// The most KPIs of a service.
    pub const MAX_COUNT: usize = 256;

    /// Enters a value, if there is room for it; answers whether there was.
    pub fn insert(&mut self, kpi: Kpi, value: Quantity) -> bool {
        let fits = self.0.len() < Self::MAX_COUNT || self.0.contains_key(&kpi);
        if fits {
            self.0.insert(kpi, value);
        }
        fits
    }

    /// Whether these are the same KPIs, and each has about the same value in both: in `other` it differs by `deadband`
    /// of it at most.
    pub fn is_close(&self, other: &Self, deadband: Percent) -> bool {
        let close = |(kpi, old): (&Kpi, &Quantity)| {
            let Some(new) = other.0.get(kpi) else { return false };
            let moved = new.millionths().abs_diff(old.millionths());
            let most = old.millionths().unsigned_abs().saturating_mul(u128::from(deadband.0)) / 100;
            new.dimension() == old.dimension() && moved <= most
        };
        self.0.len() == other.0.len() && self.0.iter().all(close)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Kpi, Quantity)> {
        self.0.iter().map(|(kpi, value)| (kpi, *value))
    }

    /// The value of a selection: numbers add up, of lengths of time the longest counts. None if nothing is
    /// selected, or if it cannot be summed up.
    pub fn value(&self, selection: &Kpi) -> Option<Quantity> {
        let mut values = self.0.iter().filter(|(kpi, _)| selection.selects(kpi)).map(|(_, v)| *v);
        let first = values.next()?;
        values.try_fold(first, |sum, value| {
            if sum.dimension() != value.dimension() {
                return None;
            }
            if sum.dimension() == Dimension::Duration {
                return Some(sum.max(value));
            }
            Quantity::from_millionths(
                sum.millionths().checked_add(value.millionths())?,
                sum.dimension(),
            )
        })
    }

    /// The values of the attributes that an expression names; whatever is missing is not in it.
    pub(super) fn attributes<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
    ) -> BTreeMap<&'a str, Value> {
        let value = |name: &str| Some(Value::Quantity(self.value(&name.parse().ok()?)?));
        names.filter_map(|name| Some((name, value(name)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kpi(text: &str) -> Kpi {
        text.parse().unwrap()
    }

    #[test]
    fn a_kpi_is_read_as_it_is_written() {
        for text in ["busy-units", "pending-units{partition=\"big\"}", "a{b=\"1\",c=\"x y\"}"] {
            assert_eq!(kpi(text).to_string(), text);
        }
        for text in ["", "Busy", "a{b}", "a{b=1}", "a{b=\"1\"", "a{b=\"\\\"}", "a{b=\"`\"}"] {
            assert!(text.parse::<Kpi>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_add_up_and_the_longest_time_counts() {
        let mut kpis = Kpis::default();
        for (name, value) in [
            ("pending-units{partition=\"big\",feature=\"gpu\"}", Quantity::number(3)),
            ("pending-units{partition=\"small\"}", Quantity::number(4)),
            ("oldest-wait{partition=\"big\"}", Quantity::microseconds(7)),
            ("oldest-wait{partition=\"small\"}", Quantity::microseconds(5)),
        ] {
            assert!(kpis.insert(kpi(name), value));
        }
        let value = |text: &str| kpis.value(&kpi(text));
        assert_eq!(value("pending-units"), Some(Quantity::number(7)));
        assert_eq!(value("pending-units{partition=\"big\"}"), Some(Quantity::number(3)));
        assert_eq!(value("oldest-wait"), Some(Quantity::microseconds(7)));
        assert_eq!(value("busy-units"), None);
        assert_eq!(value("pending-units{partition=\"huge\"}"), None);
    }
}
