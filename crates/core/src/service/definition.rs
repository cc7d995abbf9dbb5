//! What a service is to its guest: what it is to reach, and how it is dealt with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_expr::{Expr, Quantity, Value};
use thiserror::Error;

use super::adapter::{Adapter, Setting};
use super::label_map::LabelMap;
use super::sla::Sla;
use super::slo::Slo;
use crate::model::name::Name;
use crate::model::percent::Percent;
use crate::model::time::Span;

/// The setting of adapters that says for how long work may go on on a unit that is left.
pub const DRAIN: &str = "drain";

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
    /// What share of time its SLOs are to be met, by name.
    pub sla: BTreeMap<Name, Sla>,
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
    /// By how much a number has to change to be recorded, unless an SLO is judged otherwise by it.
    pub deadband: Percent,
    /// For how long a unit is not asked for again that could not be joined.
    pub blacklist_for: Span,
    /// For how long work may go on on a unit that is left, if not for as long as its adapter lets it.
    pub drain: Option<Span>,
    /// What becomes of it while nothing is known of it.
    pub on_unknown: OnUnknown,
}

/// What becomes of a service while nothing is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnUnknown {
    /// Nothing is asked for and nothing is given back: what is not known takes nothing away.
    #[default]
    Pause,
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
    /// What would be asked for and given back is recorded, and not done.
    Advise,
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
            deadband: Percent(0),
            blacklist_for: Span::DAY,
            drain: None,
            on_unknown: OnUnknown::Pause,
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
    /// How long units drain is not said where it belongs.
    #[error("for how long a unit drains is `drain` of its `behaviour`, not of its adapter")]
    DrainOfAdapter,
    /// Units are to drain, and nothing connects it with software that could go on using them.
    #[error("`drain` is for services with an adapter: what uses their units is not known")]
    DrainWithoutAdapter,
    /// What its adapter maps is no label, or nothing that could hold of units.
    #[error("`{key}` of `map` of its adapter: {cause}")]
    Map {
        /// What is mapped.
        key: String,
        /// What is wrong.
        cause: String,
    },
    /// It has too many SLAs.
    #[error("a service has {max} SLAs at most, not {count}", max = Definition::MAX_SLAS)]
    TooManySlas {
        /// How many.
        count: usize,
    },
    /// An SLA is about no SLO.
    #[error("`slos` of the SLA `{sla}` names no SLO")]
    NoSlos {
        /// The SLA.
        sla: Name,
    },
    /// An SLA is about an SLO that the service does not have.
    #[error("`slos` of the SLA `{sla}` names `{slo}`, which is no SLO of the service")]
    UnknownSlo {
        /// The SLA.
        sla: Name,
        /// The SLO.
        slo: Name,
    },
    /// An SLA is about an SLO that cannot be missed.
    #[error(
        "`slos` of the SLA `{sla}` names `{slo}`, which has no rule that could be met or missed"
    )]
    NoRule {
        /// The SLA.
        sla: Name,
        /// The SLO.
        slo: Name,
    },
    /// The window of an SLA is no length of time.
    #[error("`window` of the SLA `{sla}` is not positive")]
    Window {
        /// The SLA.
        sla: Name,
    },
}

impl Definition {
    /// The most SLOs of a service.
    pub const MAX_SLOS: usize = 32;
    /// The most SLAs of a service.
    pub const MAX_SLAS: usize = 32;

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
        self.check_drain()?;
        self.label_map().map_err(|(key, cause)| BadDefinition::Map { key, cause })?;
        self.check_slas()?;
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

    /// Its adapter, with what its behaviour says of leaving units among the settings.
    pub fn adapter(&self) -> Option<Adapter> {
        let adapter = self.adapter.as_ref()?;
        Some(match self.behaviour.drain {
            Some(drain) => adapter.with(Name::literal(DRAIN), Setting::Text(drain.to_string())),
            None => adapter.clone(),
        })
    }

    fn check_drain(&self) -> Result<(), BadDefinition> {
        match (&self.adapter, self.behaviour.drain) {
            (Some(adapter), _) if adapter.has(DRAIN) => Err(BadDefinition::DrainOfAdapter),
            (None, Some(_)) => Err(BadDefinition::DrainWithoutAdapter),
            (_, Some(drain)) if drain <= Span::ZERO => Err(BadDefinition::Zero(DRAIN)),
            _ => Ok(()),
        }
    }

    /// What labels of KPIs say of units.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub fn label_map(&self) -> Result<LabelMap, (String, String)> {
        self.adapter.as_ref().map_or_else(|| Ok(LabelMap::default()), Adapter::label_map)
    }

    fn check_slas(&self) -> Result<(), BadDefinition> {
        if self.sla.len() > Self::MAX_SLAS {
            return Err(BadDefinition::TooManySlas { count: self.sla.len() });
        }
        for (name, Sla { slos, window, .. }) in &self.sla {
            let sla = name.clone();
            if slos.is_empty() {
                return Err(BadDefinition::NoSlos { sla });
            }
            for slo in slos.iter().cloned() {
                match self.slo.get(&slo) {
                    None => return Err(BadDefinition::UnknownSlo { sla, slo }),
                    Some(Slo { rule: None, .. }) => return Err(BadDefinition::NoRule { sla, slo }),
                    Some(Slo { rule: Some(_), .. }) => {}
                }
            }
            if !window.is_positive() {
                return Err(BadDefinition::Window { sla });
            }
        }
        Ok(())
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
        Definition { slo, behaviour, ..Definition::default() }.check().unwrap_err().to_string()
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

    #[test]
    fn an_sla_is_about_slos_of_the_service_that_have_rules() {
        let measured = |text: &str| Expr::parse_measured(text).unwrap();
        let slo = |rule: Option<&str>| Slo {
            rule: rule.map(measured),
            want: measured("1"),
            urgency: 1,
            resource: Name::literal("node"),
            requirement: None,
        };
        let slos = [("busy", slo(None)), ("wait", slo(Some("oldest-wait < 10m")))];
        let of = |names: &[&'static str], window| {
            let slos = names.iter().copied().map(Name::literal).collect();
            Sla { slos, target: "99%".parse().unwrap(), window }
        };
        let check = |sla: Sla| {
            let slo = slos.iter().map(|(name, slo)| (Name::literal(name), slo.clone()));
            let (slo, sla) = (slo.collect(), [(Name::literal("gold"), sla)].into());
            Definition { slo, sla, ..Definition::default() }.check()
        };
        assert_eq!(check(of(&["wait"], Span::DAY)), Ok(()));
        let refused = |names: &[&'static str], window| check(of(names, window)).unwrap_err();
        for (said, names, window) in [
            ("names no SLO", &[][..], Span::DAY),
            ("names `cost`, which is no SLO of the service", &["wait", "cost"], Span::DAY),
            ("names `busy`, which has no rule", &["busy"], Span::DAY),
            ("`window` of the SLA `gold` is not positive", &["wait"], Span::ZERO),
        ] {
            let refused = refused(names, window).to_string();
            assert!(refused.contains(said) && refused.contains("`gold`"), "{refused}");
        }
    }
}
