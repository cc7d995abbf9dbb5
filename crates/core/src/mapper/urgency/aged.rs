//! `aged`: units are worth less and less to a service the longer it has them, so that equals take turns.

use serde::Deserialize;

use super::policy::{ByService, Policy, Unit, of_service};
use crate::model::percent::Percent;
use crate::model::time::Span;

/// `aged`: urgency, times the priority of the service, and less of it the longer the service has the unit: from all of
/// it at first to a part of it once it has had the unit for a while.
///
/// What is claimed is worth all of it, so constant needs go on moving units between services that are worth as much.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Aged {
    /// 1 unless set.
    service: ByService<u32>,
    /// For how long it falls.
    #[serde(deserialize_with = "crate::mapper::lasting")]
    fade: Span,
    /// The part of it that stays.
    least: Percent,
}

/// In how many steps a worth falls.
const STEPS: i64 = 20;

impl Default for Aged {
    fn default() -> Self {
        let (fade, least) = (Span::HOUR.times(4), Percent(50));
        Self { service: ByService::new(), fade, least }
    }
}

impl Policy for Aged {
    fn worth(&self, unit: &Unit<'_>) -> u64 {
        let priority = of_service(&self.service, unit).unwrap_or(1);
        let full = u64::from(unit.urgency) * u64::from(priority);
        let held_for = unit.held_for.unwrap_or(Span::ZERO).as_micros();
        let micros = u64::try_from(held_for.min(self.fade.as_micros())).unwrap_or(0);
        let lost = u128::from(full) * u128::from(100 - self.least.0) * u128::from(micros)
            / (100 * u128::from(self.fade.as_micros().unsigned_abs().max(1)));
        full - u64::try_from(lost).unwrap_or(0)
    }

    fn changes_within(&self) -> Option<Span> {
        Some(Span::from_micros(self.fade.as_micros() / STEPS).max(Span::SECOND))
    }
}

#[cfg(test)]
mod tests {
    use serde::de::value::{Error, MapDeserializer};

    use super::*;
    use crate::mapper::urgency::holdings::Holdings;
    use crate::model::name::Name;
    use crate::model::time::Time;

    fn worth(policy: &Aged, urgency: u32, held_for: Option<Span>) -> u64 {
        let (guest, service, resource) =
            (Name::literal("lab"), Name::literal("web"), Name::literal("node"));
        let holdings = Holdings::new(Time::from_secs(0), Vec::new());
        policy.worth(&Unit {
            guest: &guest,
            service: &service,
            resource: &resource,
            number: 1,
            urgency,
            total: 10,
            share: 0,
            held_for,
            holdings: &holdings,
        })
    }

    fn read<const N: usize>(settings: [(&'static str, &'static str); N]) -> Result<Aged, Error> {
        Aged::deserialize(MapDeserializer::new(settings.into_iter()))
    }

    #[test]
    fn worth_falls_with_the_time_that_a_unit_is_held_to_a_part_of_it() {
        let service = [("lab".to_owned(), 2)].into();
        let policy = Aged { service, ..Aged::default() };
        let after = |minutes| worth(&policy, 60, Some(Span::MINUTE.times(minutes)));
        assert_eq!([0, 60, 120, 240, 100_000].map(after), [120, 105, 90, 60, 60]);
        assert_eq!(worth(&policy, 60, None), 120, "what is claimed is worth all of it");
        assert_eq!(worth(&policy, 0, Some(Span::HOUR)), 0);
        assert_eq!(worth(&policy, u32::MAX, Some(Span::DAY)), u64::from(u32::MAX));
    }

    #[test]
    fn nothing_is_divided_by_no_time() {
        assert!(read([("fade", "0s")]).is_err());
        assert!(read([("fade", "1h"), ("least", "101%")]).is_err());
        let policy = read([("fade", "1h"), ("least", "0%")]).unwrap();
        assert_eq!(worth(&policy, 60, Some(Span::HOUR)), 0);
        assert_eq!(policy.changes_within(), Some(Span::MINUTE.times(3)));
    }
}
