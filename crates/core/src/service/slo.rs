//! What a service is to reach, and what it wants for that.

use std::collections::BTreeSet;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use tenure_expr::{EvalError, Expr, Quantity, Value};

use super::kpi::Kpis;
use crate::model::name::Name;

/// A service-level objective: a rule over KPIs, and what the service wants as long as it is not met.
///
/// What it wants is also what it uses: units that it has and that an SLO wants are worth the urgency of that
/// SLO, whether the rule is met or not (H15, H17, H20 of Hedeby).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Slo {
    /// The rule, a condition on KPIs. Without one what it wants is always claimed.
    #[serde(default, deserialize_with = "measured_rule")]
    pub rule: Option<Expr>,
    /// How many units the service wants in all, a number; what is not whole is rounded up.
    #[serde(deserialize_with = "measured")]
    pub want: Expr,
    /// How urgently. It is compared within the service; policies of brokers make it comparable beyond.
    pub urgency: u32,
    /// Units of this type.
    #[serde(default = "node")]
    pub resource: Name,
    /// What must hold of the attributes of its units.
    #[serde(default, rename = "where")]
    pub requirement: Option<Expr>,
}

fn node() -> Name {
    Name::literal("node")
}

/// An expression over KPIs.
fn measured<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Expr, D::Error> {
    let text = String::deserialize(deserializer)?;
    Expr::parse_measured(&text).map_err(D::Error::custom)
}

fn measured_rule<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Expr>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| Expr::parse_measured(&text).map_err(D::Error::custom)).transpose()
}

/// Whether a rule is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Met {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// A KPI that it needs is not known.
    Unknown,
    /// There is no rule: what is wanted is always claimed.
    Standing,
}

/// What an SLO comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assessment {
    /// Whether its rule is met.
    pub met: Met,
    /// How many units it wants; none if a KPI that it needs is not known.
    pub want: Option<u32>,
}

impl Met {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "met",
            Self::No => "missed",
            Self::Unknown => "unknown",
            Self::Standing => "standing",
        }
    }
}

impl Slo {
    /// The names of the KPIs that it looks at, whatever their labels.
    pub fn kpis(&self) -> BTreeSet<String> {
        let rule = self.rule.iter().flat_map(Expr::attributes);
        let names = rule.chain(self.want.attributes()).filter_map(|kpi| kpi.split('{').next());
        names.map(str::to_owned).collect()
    }

    /// Judges it by what was measured.
    pub fn assess(&self, kpis: &Kpis) -> Assessment {
        let met = match self.rule.as_ref().map(|rule| condition(rule, kpis)) {
            None => Met::Standing,
            Some(Ok(false)) => Met::No,
            Some(Ok(true)) => Met::Yes,
            Some(Err(_)) => Met::Unknown,
        };
        let want = number(&self.want, kpis).map(whole_units);
        Assessment { met, want }
    }

    /// Why it cannot be judged by what was measured: the first KPI that is missing, or an error of the types.
    pub fn obstacle(&self, kpis: &Kpis) -> Option<EvalError> {
        let of = |expr: &Expr| expr.evaluate(&kpis.attributes(expr.attributes().into_iter())).err();
        self.rule.as_ref().and_then(of).or_else(|| of(&self.want))
    }
}

fn condition(rule: &Expr, kpis: &Kpis) -> Result<bool, EvalError> {
    match rule.evaluate(&kpis.attributes(rule.attributes().into_iter()))? {
        Value::Flag(flag) => Ok(flag),
        // A definition with such a rule is refused; that it is not met asks for too much rather than too little.
        Value::Quantity(_) | Value::Text(_) | Value::Version(_) | Value::Set(_) => Ok(false),
    }
}

fn number(want: &Expr, kpis: &Kpis) -> Option<Quantity> {
    match want.evaluate(&kpis.attributes(want.attributes().into_iter())) {
        Ok(Value::Quantity(quantity)) => Some(quantity),
        Ok(Value::Flag(_) | Value::Text(_) | Value::Version(_) | Value::Set(_)) | Err(_) => None,
    }
}

/// So many units: rounded up, none below zero.
fn whole_units(quantity: Quantity) -> u32 {
    let one = 1_000_000;
    let millionths = quantity.millionths().max(0);
    u32::try_from(millionths / one + i128::from(millionths % one > 0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slo(rule: &str, want: &str) -> Slo {
        let rule = (!rule.is_empty()).then(|| Expr::parse_condition(rule).unwrap());
        Slo {
            rule,
            want: Expr::parse(want).unwrap(),
            urgency: 1,
            resource: node(),
            requirement: None,
        }
    }

    fn kpis(values: &[(&str, Quantity)]) -> Kpis {
        let mut kpis = Kpis::default();
        for (name, value) in values {
            assert!(kpis.insert(name.parse().unwrap(), *value));
        }
        kpis
    }

    #[test]
    fn an_slo_wants_whole_units_and_is_met_or_not() {
        let kpis =
            kpis(&[("wait", Quantity::microseconds(600_000_000)), ("load", Quantity::number(7))]);
        let assess = |rule: &str, want: &str| slo(rule, want).assess(&kpis);
        assert_eq!(assess("wait < 10m", "load / 2"), Assessment { met: Met::No, want: Some(4) });
        assert_eq!(assess("wait <= 10m", "load - 9"), Assessment { met: Met::Yes, want: Some(0) });
        assert_eq!(assess("", "3"), Assessment { met: Met::Standing, want: Some(3) });
        assert_eq!(assess("", "load * 1000000000000").want, Some(u32::MAX));
    }

    #[test]
    fn what_is_not_measured_is_unknown() {
        let known = kpis(&[("load", Quantity::number(7))]);
        let of = slo("wait < 10m", "load");
        assert_eq!(of.assess(&known), Assessment { met: Met::Unknown, want: Some(7) });
        assert_eq!(of.obstacle(&known).unwrap().to_string(), "unknown attribute `wait`");
        assert_eq!(
            slo("load < 3", "queue").assess(&known),
            Assessment { met: Met::No, want: None }
        );
    }
}
