//! Policies: what a unit is worth to a service, so that services of several guests can be compared.

use std::collections::BTreeMap;

use serde::Deserialize;

pub use super::aged::Aged;
pub use super::holdings::{Holding, Holdings, UnitState};
use crate::model::name::Name;
use crate::model::percent::Percent;
use crate::model::slice::SliceName;
use crate::model::time::Span;

/// One unit of a service, those that it has and those that it claims being numbered together.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    /// The guest.
    pub guest: &'a Name,
    /// The service.
    pub service: &'a SliceName,
    /// The type.
    pub resource: &'a Name,
    /// Its number among the units of the service of this kind, from 1.
    pub number: u32,
    /// How urgent it is to the service; 0 if it is of no use.
    pub urgency: u32,
    /// All units of the type that the broker has.
    pub total: u64,
    /// The largest part of any other type that the service has, in millionths.
    pub share: u64,
    /// For how long the service has had it, extensions included; `None` if it claims it.
    pub held_for: Option<Span>,
    /// What all services have and lack.
    pub holdings: &'a Holdings<'a>,
}

/// Makes services comparable.
pub trait Policy: Send {
    /// What a unit is worth, on a scale of the policy's own: no more than the one before, and nothing if it is of no
    /// use to its service. Of units with one number, one that is held may be worth less than one that is claimed.
    fn worth(&self, unit: &Unit<'_>) -> u64;

    /// Whether a unit is worth its urgency, if it is worth anything.
    fn is_urgency(&self) -> bool {
        false
    }

    /// How many units of the type its service has at least, or could have at once, and what a free one of those is
    /// worth that it does not claim. The urgency and the number of the unit count for nothing.
    fn reserved(&self, _unit: &Unit<'_>) -> Option<Reserve> {
        None
    }

    /// Within what time worths change by themselves, if they do: as long as something is claimed, they are compared
    /// again that often.
    fn changes_within(&self) -> Option<Span> {
        None
    }
}

/// Free units that are kept for a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// How many units, with those that it has.
    pub units: u64,
    /// What each is worth: nobody gets one whose claim is worth less.
    pub worth: u64,
}

/// The policies that come with Tenure, by name.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Known {
    /// See [`Priority`].
    Priority(Priority),
    /// See [`Shares`].
    Shares(Shares),
    /// See [`Drf`].
    Drf(Drf),
    /// See [`Aged`].
    Aged(Aged),
}

impl Default for Known {
    fn default() -> Self {
        Self::Priority(Priority::default())
    }
}

impl Policy for Known {
    fn worth(&self, unit: &Unit<'_>) -> u64 {
        match self {
            Self::Priority(policy) => policy.worth(unit),
            Self::Shares(policy) => policy.worth(unit),
            Self::Drf(policy) => policy.worth(unit),
            Self::Aged(policy) => policy.worth(unit),
        }
    }

    fn is_urgency(&self) -> bool {
        match self {
            Self::Priority(policy) => policy.service.is_empty(),
            Self::Shares(policy) => policy.service.is_empty(),
            Self::Drf(_) | Self::Aged(_) => false,
        }
    }

    fn reserved(&self, unit: &Unit<'_>) -> Option<Reserve> {
        match self {
            Self::Shares(policy) => policy.reserved(unit),
            Self::Priority(_) | Self::Drf(_) | Self::Aged(_) => None,
        }
    }

    fn changes_within(&self) -> Option<Span> {
        match self {
            Self::Aged(policy) => policy.changes_within(),
            Self::Priority(_) | Self::Shares(_) | Self::Drf(_) => None,
        }
    }
}

/// Settings by service: `"guest/service"`, or `"guest"` for all of a guest's.
pub(super) type ByService<T> = BTreeMap<String, T>;

pub(super) fn of_service<T: Copy>(settings: &ByService<T>, unit: &Unit<'_>) -> Option<T> {
    let one = settings.get(&format!("{}/{}", unit.guest, unit.service));
    one.or_else(|| settings.get(unit.guest.as_str())).copied()
}

/// `priority`: urgency, times the priority of the service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Priority {
    /// 1 unless set.
    service: ByService<u32>,
}

impl Policy for Priority {
    fn worth(&self, unit: &Unit<'_>) -> u64 {
        let priority = of_service(&self.service, unit).unwrap_or(1);
        u64::from(unit.urgency) * u64::from(priority)
    }
}

/// `shares`: units within the share of a service are worth more than all others, which are borrowed; within each of
/// the two by urgency.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shares {
    /// What part of a type is guaranteed to the service; nothing unless set.
    service: ByService<Percent>,
    /// What part of a type it may have in all; everything unless set.
    most: ByService<Percent>,
    /// What part of a type others may borrow of its share at most; all of the share unless set.
    lend: ByService<Percent>,
}

/// What the units of a share are worth more than others: more than any urgency that counts.
const GUARANTEED: u64 = 1_000_000;

impl Policy for Shares {
    fn worth(&self, unit: &Unit<'_>) -> u64 {
        let within =
            |percent: Percent| u64::from(unit.number) * 100 <= unit.total * u64::from(percent.0);
        if unit.urgency == 0 || of_service(&self.most, unit).is_some_and(|most| !within(most)) {
            return 0;
        }
        let guaranteed = of_service(&self.service, unit).is_some_and(within);
        u64::from(unit.urgency).min(GUARANTEED - 1) + if guaranteed { GUARANTEED } else { 0 }
    }

    fn reserved(&self, unit: &Unit<'_>) -> Option<Reserve> {
        let units = |percent: Percent| unit.total * u64::from(percent.0) / 100;
        let lent = units(of_service(&self.lend, unit)?);
        let share = units(of_service(&self.service, unit)?);
        Some(Reserve { units: share.checked_sub(lent)?, worth: GUARANTEED })
    }
}

/// `drf`: who has the smallest dominant share comes first: the largest part of any type that it would have with the
/// unit, divided by its weight (Ghodsi et al., 2011). Urgency says only what is of use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Drf {
    /// 1 unless set.
    weight: ByService<u32>,
}

/// The largest share.
const WHOLE: u64 = 1_000_000;

impl Policy for Drf {
    fn worth(&self, unit: &Unit<'_>) -> u64 {
        if unit.urgency == 0 {
            return 0;
        }
        let weight = u64::from(of_service(&self.weight, unit).unwrap_or(1).max(1));
        let share = u64::from(unit.number) * WHOLE / unit.total.max(1);
        1 + (WHOLE - share.max(unit.share).min(WHOLE) / weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Time;

    fn name(text: &'static str) -> Name {
        Name::literal(text)
    }

    /// What the units of a service are worth, of ten, each as urgent as the list says.
    fn worths(
        policy: &dyn Policy,
        service: &'static str,
        urgencies: &[u32],
        share: u64,
    ) -> Vec<u64> {
        let (guest, service, resource) = (name("lab"), name(service), name("node"));
        let holdings = Holdings::new(Time::from_secs(0), Vec::new());
        let unit = |(number, &urgency): (u32, &u32)| {
            policy.worth(&Unit {
                guest: &guest,
                service: &service,
                resource: &resource,
                number,
                urgency,
                total: 10,
                share,
                held_for: None,
                holdings: &holdings,
            })
        };
        (1..).zip(urgencies).map(unit).collect()
    }

    /// What a policy says of a unit of ten.
    fn with_unit<T>(service: &'static str, says: impl Fn(&Unit<'_>) -> T) -> T {
        let (guest, service, resource) = (name("lab"), name(service), name("node"));
        says(&Unit {
            guest: &guest,
            service: &service,
            resource: &resource,
            number: 1,
            urgency: 0,
            total: 10,
            share: 0,
            held_for: None,
            holdings: &Holdings::new(Time::from_secs(0), Vec::new()),
        })
    }

    #[test]
    fn priorities_are_of_services_or_of_all_of_a_guest() {
        let service = [("lab/web".to_owned(), 3), ("lab".to_owned(), 2)].into();
        let policy = Priority { service };
        assert_eq!(worths(&policy, "web", &[60, 20, 0], 0), [180, 60, 0]);
        assert_eq!(worths(&policy, "batch", &[60, 20, 0], 0), [120, 40, 0]);
        assert_eq!(worths(&Priority::default(), "batch", &[60], 0), [60]);
    }

    #[test]
    fn units_within_a_share_are_worth_more_than_any_other() {
        let service = [("lab/web".to_owned(), Percent(20))].into();
        let most = [("lab".to_owned(), Percent(30))].into();
        let policy = Shares { service, most, lend: [("lab/web".to_owned(), Percent(10))].into() };
        let guaranteed = GUARANTEED + 5;
        assert_eq!(worths(&policy, "web", &[5, 5, 5, 5], 0), [guaranteed, guaranteed, 5, 0]);
        assert_eq!(worths(&policy, "batch", &[9, 9, 9, 9], 0), [9, 9, 9, 0]);
        assert_eq!(worths(&policy, "batch", &[u32::MAX], 0), [GUARANTEED - 1]);
        assert_eq!(worths(&policy, "web", &[0], 0), [0], "what is idle is not kept by a share");
        let one = Some(Reserve { units: 1, worth: GUARANTEED });
        assert_eq!(
            with_unit("web", |unit| policy.reserved(unit)),
            one,
            "two less the one it lends"
        );
        assert_eq!(with_unit("batch", |unit| policy.reserved(unit)), None);
    }

    #[test]
    fn the_smaller_dominant_share_is_worth_more() {
        let weight = [("lab/web".to_owned(), 2)].into();
        let policy = Drf { weight };
        assert_eq!(worths(&policy, "batch", &[1, 9, 0], 0), [900_001, 800_001, 0]);
        assert_eq!(worths(&policy, "web", &[1, 9], 0), [950_001, 900_001]);
        // It has half of all units of another type.
        assert_eq!(worths(&policy, "batch", &[1, 9], 500_000), [500_001, 500_001]);
    }

    #[test]
    fn percentages_are_read_as_they_are_written() {
        assert_eq!("40%".parse(), Ok(Percent(40)));
        for wrong in ["40", "101%", "-1%", "x%"] {
            assert!(wrong.parse::<Percent>().is_err(), "{wrong}");
        }
    }
}
