//! What has failed of a lease, and what became of it.

use tenure_core::model::name::Name;
use tenure_core::model::slice::LeaseId;
use tenure_core::service_manager::{FailedUnits, LeaseSurvey, ServiceManager};

use super::super::view::{self, LeaseView};

/// What its service manager knows of that.
pub(super) struct Failed {
    units: FailedUnits,
    /// Whether the lease is over, and how many units it has.
    over: bool,
    left: usize,
    /// How the first lease, or the request, stands that was asked for instead.
    instead: Option<(LeaseId, String)>,
}

impl Failed {
    pub(super) fn of(guest: &ServiceManager, lease: &LeaseSurvey<'_>, units: FailedUnits) -> Self {
        let instead = units.instead.and_then(|number| {
            let id = LeaseId { number, part: 0 };
            let standing = guest.standing(id)?;
            Some((id, view::plain(standing.word())))
        });
        let left = lease.state.held().map_or(0, |held| held.units.len());
        Self { units, over: lease.state.is_over(), left, instead }
    }

    /// `u0 failed, in the words of its site: no disk; guest/2.0 was asked for instead, which is active`
    pub(super) fn in_words(&self, manager: &Name, lease: &LeaseView) -> String {
        let site = lease.site.as_ref().map_or_else(String::new, |site| format!("{site}/"));
        let units = self.units.units.iter();
        let units = units
            .map(|(unit, why)| format!("{site}{unit} failed, in the words of its site: {why}"));
        let units = units.collect::<Vec<_>>().join(", ");
        let became = match &self.instead {
            Some((instead, state)) => {
                format!("{manager}/{instead} was asked for instead, which is {state}")
            }
            None if self.units.held => {
                "it goes back as soon as no other change of the lease is under way".to_owned()
            }
            None if self.over || self.left == 0 => "the lease was given back for it".to_owned(),
            None => format!("the lease goes on with {} units", self.left),
        };
        format!("{units}; {became}")
    }
}
