//! What operators do to units while leases live: add, drain, resume, take out of use, put right, remove.

use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::model::resource::Attributes;
use tenure_core::runtime::{AnyActor, Input};
use tenure_core::site_authority::{Command as SiteCommand, SiteAuthority};

use super::violation::Violation;
use super::world::World;

impl World {
    /// An operator does something to some unit of some site.
    pub(super) fn operate(&mut self, draw: u64) -> Result<(), Violation> {
        let who = below(draw, self.setting.sites.len());
        let Some(AnyActor::SiteAuthority(site)) = self.participants[who].actor() else {
            return Ok(());
        };
        let units: Vec<UnitId> = site.units().map(|(id, ..)| id).collect();
        let Some(&unit) = units.get(below(draw >> 8, units.len())) else { return Ok(()) };
        let drained = units.into_iter().find(|&unit| site.notes_of(unit).drained);
        let used = used_unit(site, draw);
        let command = match (draw >> 32) % 16 {
            0 => SiteCommand::Drain { unit, by: None },
            1 => {
                let by = self.now.plus(self.setting.term.times(i64::from(draw.is_multiple_of(2))));
                SiteCommand::Drain { unit: used.unwrap_or(unit), by: Some(by) }
            }
            2..6 | 11.. => SiteCommand::Resume { unit: drained.unwrap_or(unit) },
            6 => SiteCommand::Quarantine { unit, why: "it makes a noise".to_owned() },
            7 => SiteCommand::Reset { unit },
            10 => SiteCommand::Fail {
                unit: used.unwrap_or(unit),
                epoch: None,
                why: "it does not answer".to_owned(),
            },
            8 => SiteCommand::Remove { unit: drained.unwrap_or(unit) },
            _ => SiteCommand::Add {
                resource: Name::literal("node"),
                name: Name::literal(NAMES[below(draw >> 40, NAMES.len())]),
                attributes: Attributes::default(),
            },
        };
        self.hand_in(who, Input::Command(command.into()))
    }
}

/// Some unit that a lease has or waits for.
fn used_unit(site: &SiteAuthority, draw: u64) -> Option<UnitId> {
    let used = site.units().filter(|(_, state, _)| state.tenant().is_some());
    let used: Vec<UnitId> = used.map(|(id, ..)| id).collect();
    used.get(below(draw >> 16, used.len())).copied()
}

/// What operators call units.
const NAMES: [&str; 4] = ["n1", "n2", "n3", "n4"];

pub(super) fn below(draw: u64, count: usize) -> usize {
    let count = u64::try_from(count.max(1)).unwrap_or(1);
    usize::try_from(draw % count).unwrap_or_default()
}
