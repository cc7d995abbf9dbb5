//! What labels of KPIs say of units: a table from words of a software to attributes of units (H14 of Hedeby).

use std::collections::BTreeMap;

use tenure_expr::{Expr, Quantity};

use super::kpi::{Kpi, Kpis};
use super::slo::Slo;
use super::steps::Kind;
use crate::model::name::Name;

/// By label and value, such as `feature.big`, what must hold of units that are wanted for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelMap(Vec<(Name, String, Expr)>);

impl LabelMap {
    /// Reads a table.
    ///
    /// # Errors
    /// The first key or condition that is none, and why.
    pub fn read(table: &BTreeMap<String, String>) -> Result<Self, (String, String)> {
        let entry = |(key, condition): (&String, &String)| {
            let bad = |why: String| (key.clone(), why);
            let (label, value) =
                key.split_once('.').ok_or_else(|| bad("it is no `label.value`".to_owned()))?;
            let label = Name::new(label).map_err(|error| bad(error.to_string()))?;
            let kpi = Kpi::plain(Name::literal("units")).with(label.clone(), value);
            kpi.map_err(|error| bad(error.to_string()))?;
            let condition =
                Expr::parse_condition(condition).map_err(|error| bad(error.to_string()))?;
            Ok((label, value.to_owned(), condition))
        };
        table.iter().map(entry).collect::<Result<_, _>>().map(Self)
    }

    /// The values of a label that it has.
    pub fn values<'a>(&'a self, label: &'a str) -> impl Iterator<Item = &'a str> {
        let of = self.0.iter().filter(move |(name, ..)| name.as_str() == label);
        of.map(|(_, value, _)| value.as_str())
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kinds of units that an SLO wants because of labels, and how many of each.
    pub(super) fn parts(&self, slo: &Slo, kpis: &Kpis) -> Vec<(Kind, u32)> {
        let part = |(label, value, condition): &(Name, String, Expr)| {
            // What is wanted whatever is measured is wanted for no label.
            let anyway = slo.assess(&kpis.part(|_| false)).want?;
            let labelled = kpis.part(|kpi| kpi.label(label.as_str()) == Some(value));
            let want = slo.assess(&labelled).want?.saturating_sub(anyway);
            let requirement = both(slo.requirement.as_ref(), condition)?;
            let kind = Kind { resource: slo.resource.clone(), requirement: Some(requirement) };
            (want > 0).then_some((kind, want))
        };
        self.0.iter().filter_map(part).collect()
    }
}

/// Both conditions; none if they are too long together.
fn both(one: Option<&Expr>, other: &Expr) -> Option<Expr> {
    let Some(one) = one else { return Some(other.clone()) };
    Expr::parse_condition(&format!("({}) and ({})", one.as_str(), other.as_str())).ok()
}

impl Kpis {
    /// Some of what was measured; of all else, none.
    fn part(&self, is_meant: impl Fn(&Kpi) -> bool) -> Self {
        let mut part = Self::default();
        for (kpi, measured) in self.iter() {
            let none = Quantity::from_millionths(0, measured.dimension());
            if is_meant(kpi) {
                part.insert(kpi.clone(), measured);
            } else if let Some(none) = none {
                part.insert(Kpi::plain(kpi.name().clone()), none);
            }
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_label_wants_has_the_attributes_of_the_table() {
        let table = [("feature.big".to_owned(), "memory >= 64GiB".to_owned())].into();
        let map = LabelMap::read(&table).unwrap();
        let mut kpis = Kpis::default();
        for (kpi, count) in [
            ("busy-units", 2),
            ("pending-units", 5),
            ("pending-units{feature=\"big\"}", 3),
            ("pending-units{feature=\"old\"}", 1),
        ] {
            kpis.insert(kpi.parse().unwrap(), Quantity::number(count));
        }
        let slo = |requirement: Option<&str>| Slo {
            rule: None,
            want: Expr::parse_measured("busy-units + pending-units").unwrap(),
            urgency: 1,
            resource: Name::literal("node"),
            requirement: requirement.map(|text| Expr::parse_condition(text).unwrap()),
        };
        let shown = |slo: &Slo| {
            let parts = map.parts(slo, &kpis).into_iter();
            parts
                .map(|(kind, want)| (kind.requirement.unwrap().to_string(), want))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(&slo(None)), [("memory >= 64GiB".to_owned(), 3)]);
        assert_eq!(shown(&slo(Some("cpus > 2")))[0].0, "cpus > 2 and memory >= 64GiB");
        let and_two = Expr::parse_measured("busy-units + pending-units + 2").unwrap();
        assert_eq!(shown(&Slo { want: and_two, ..slo(None) })[0].1, 3);
        let constant = Expr::parse_measured("3").unwrap();
        assert_eq!(shown(&Slo { want: constant, ..slo(None) }), []);
        assert_eq!(map.values("feature").collect::<Vec<_>>(), ["big"]);
    }

    #[test]
    fn what_is_no_label_or_no_condition_is_refused_with_its_key() {
        let refused = |key: &str, condition: &str| {
            LabelMap::read(&[(key.to_owned(), condition.to_owned())].into()).unwrap_err()
        };
        assert_eq!(refused("big", "cpus > 1").1, "it is no `label.value`");
        assert_eq!(refused("Feature.big", "cpus > 1").0, "Feature.big");
        assert_eq!(refused("feature.big", "cpus + 1").0, "feature.big");
    }
}
