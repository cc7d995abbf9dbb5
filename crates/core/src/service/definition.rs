//! What a service is to its guest: what it is to reach, and how it is dealt with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_expr::{Expr, Quantity, Value};
use thiserror::Error;

use super::adapter::Adapter;
use super::slo::Slo;
use crate::model::name::Name;
use crate::model::time::Span;

/// The definition of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Definition {
    /// What it is to reach, by name.
    pub slo: BTreeMap<Name, Slo>,
    /// How it is dealt with.
    pub behaviour: Behaviour,
    /// What connects it with its software; without one, programs of its guest report what they measure.
    pub adapter: Option<Adapter>,
}

/// How a service is dealt with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Behaviour {
    /// Whether anything is asked for or given back for it.
    pub mode: Mode,
    /// The most units of a kind that it is to have.
    pub most: Option<u32>,
    /// The fewest units of a kind that it keeps once it has them.
    pub least: u32,
    /// For how long units are asked for, and kept for longer, at a time.
    pub term: Span,
    /// How long units that nothing wants are kept.
    pub idle_after: Span,
    /// For how long what was measured counts.
    pub stale_after: Span,
    /// Whether its units may be taken for another service to which they are worth more.
    pub recallable: bool,
    /// How long ahead it is to know that they are.
    pub notice: Span,
    /// For how long it has units at least before they are.
    pub min_tenure: Span,
}

/// Whether decisions about a service are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Units are asked for and given back.
    #[default]
    Managed,
    /// It is measured and judged, and nothing else.
    Unmanaged,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            mode: Mode::Managed,
            most: None,
            least: 0,
            term: Span::HOUR,
            idle_after: Span::MINUTE.times(30),
            stale_after: Span::MINUTE.times(2),
            recallable: true,
            notice: Span::MINUTE.times(2),
            min_tenure: Span::MINUTE.times(30),
        }
    }
}

/// Why a definition is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadDefinition {
    /// It has too many SLOs.
    #[error("a service has {max} SLOs at most, not {count}", max = Definition::MAX_SLOS)]
    TooManySlos {
        /// How many.
        count: usize,
    },
    /// A rule is no condition.
    #[error("the rule of `{slo}` is no condition: {cause}")]
    Rule {
        /// The SLO.
        slo: Name,
        /// What is wrong.
        cause: String,
    },
    /// What is wanted is no number.
    #[error("what `{slo}` wants is no number of units")]
    Want {
        /// The SLO.
        slo: Name,
    },
    /// A span is zero.
    #[error("`{0}` is zero: it has to be some time")]
    Zero(&'static str),
    /// More units are kept than there may be.
    #[error("it cannot keep {least} units and have {most} at most")]
    Bounds {
        /// The fewest.
        least: u32,
        /// The most.
        most: u32,
    },
    /// Its adapter has no name, or is too large.
    #[error(
        "its adapter has a `name`, and {keys} settings of {bytes} bytes at most",
        keys = Adapter::MAX_SETTINGS, bytes = Adapter::MAX_BYTES
    )]
    Adapter,
}

impl Definition {
    /// The most SLOs of a service.
    pub const MAX_SLOS: usize = 32;

    /// Whether it can be followed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), BadDefinition> {
        if self.slo.len() > Self::MAX_SLOS {
            return Err(BadDefinition::TooManySlos { count: self.slo.len() });
        }
        for (name, slo) in &self.slo {
            if let Some(rule) = &slo.rule {
                Expr::parse_condition(rule.as_str()).map_err(|cause| BadDefinition::Rule {
                    slo: name.clone(),
                    cause: cause.to_string(),
                })?;
            }
            if !is_number(&slo.want) {
                return Err(BadDefinition::Want { slo: name.clone() });
            }
        }
        if self.adapter.as_ref().is_some_and(|adapter| !adapter.is_sound()) {
            return Err(BadDefinition::Adapter);
        }
        let Behaviour { most, least, term, stale_after, notice, min_tenure, .. } = &self.behaviour;
        let spans = [
            ("term", term),
            ("stale-after", stale_after),
            ("notice", notice),
            ("min-tenure", min_tenure),
        ];
        for (key, span) in spans {
            if *span <= Span::ZERO {
                return Err(BadDefinition::Zero(key));
            }
        }
        match most {
            Some(most) if most < least => Err(BadDefinition::Bounds { least: *least, most: *most }),
            Some(_) | None => Ok(()),
        }
    }
}

/// Whether an expression over KPIs that are numbers is a number. KPIs that are lengths of time are compared, or
/// divided by others.
fn is_number(want: &Expr) -> bool {
    let one = Value::Quantity(Quantity::number(1));
    let all_of = |kpis: &Value| {
        want.attributes().into_iter().map(|name| (name, kpis.clone())).collect::<BTreeMap<_, _>>()
    };
    // Without its KPIs its type cannot be told: whether it is one shows with the first report.
    match want.evaluate(&all_of(&one)) {
        Ok(Value::Quantity(_)) | Err(_) => true,
        Ok(Value::Flag(_) | Value::Text(_) | Value::Version(_) | Value::Set(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(rule: Option<&str>, want: &str, behaviour: Behaviour) -> String {
        let measured = |text: &str| Expr::parse_measured(text).unwrap();
        let (rule, want) = (rule.map(measured), measured(want));
        let resource = Name::literal("node");
        let wait = Slo { rule, want, urgency: 1, resource, requirement: None };
        let slo = [(Name::literal("wait"), wait)].into();
        Definition { slo, behaviour, adapter: None }.check().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_followed_is_refused_with_its_place() {
        let plain = Behaviour::default;
        let said = refused(Some("busy-units + 1"), "1", plain());
        assert!(said.starts_with("the rule of `wait` is no condition"), "{said}");
        let said = refused(None, "busy-units < 3", plain());
        assert_eq!(said, "what `wait` wants is no number of units");
        let said = refused(None, "1", Behaviour { term: Span::ZERO, ..plain() });
        assert_eq!(said, "`term` is zero: it has to be some time");
        let said = refused(None, "1", Behaviour { least: 3, most: Some(2), ..plain() });
        assert_eq!(said, "it cannot keep 3 units and have 2 at most");
        let nameless = Definition { adapter: Some(Adapter::default()), ..Definition::default() };
        let said = nameless.check().unwrap_err().to_string();
        assert!(said.starts_with("its adapter has a `name`"), "{said}");
    }
}
