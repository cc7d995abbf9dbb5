//! What happens to services beside Tenure: somebody else takes units out of their software, reports come twice, and
//! the service manager or broker of them is gone for long.

use std::collections::BTreeSet;

use tenure_core::actor::Role;
use tenure_core::driver::{Call, DriverError, Step};
use tenure_core::model::time::Span;
use tenure_core::runtime::Input;
use tenure_core::service_manager::Command;
use tenure_core::service_manager::services::{ServiceCommand, SiteUnit};
use tenure_core::site_authority::Command as SiteCommand;

use super::fault::{Family, Fault};
use super::violation::Violation;
use super::world::World;

/// Units of guests that somebody else has drained or deleted where their software has them.
#[derive(Default)]
pub(super) struct TakenOut(BTreeSet<(usize, SiteUnit)>);

impl TakenOut {
    /// Whether the software of a guest has lost a unit.
    pub(super) fn has(&self, who: usize, unit: SiteUnit) -> bool {
        self.0.contains(&(who, unit))
    }
}

impl World {
    /// A service manager or a broker is down for longer than a term.
    pub(super) fn be_absent(&mut self) -> Result<(), Violation> {
        let mut all = self.of_role(Role::ServiceManager);
        all.extend(self.of_role(Role::Broker));
        let term = self.setting.term;
        let sampler = self.sampler(Family::Absence);
        let (who, down) = (sampler.pick(&all).copied(), sampler.span(term, term.times(3)));
        let Some(who) = who.filter(|&who| self.participants[who].run.host.is_some()) else {
            return Ok(());
        };
        self.watch.fault(Fault::Absent);
        let unsynced = self.participants[who].run.unsynced.len();
        let kept = self.sampler(Family::Absence).below(unsynced + 1);
        self.take_down(who, kept, down)
    }

    /// Somebody else drains or deletes a unit of a service, or puts all back that a guest misses.
    pub(super) fn interfere(&mut self) -> Result<(), Violation> {
        let guests = self.of_role(Role::ServiceManager);
        let Some(&who) = self.sampler(Family::Foreign).pick(&guests) else { return Ok(()) };
        if self.sampler(Family::Foreign).percent(30) {
            self.nodes.taken_out.0.retain(|(of, _)| *of != who);
            return Ok(());
        }
        let units: Vec<SiteUnit> = self.units_of(who).into_iter().collect();
        let Some(&unit) = self.sampler(Family::Foreign).pick(&units) else { return Ok(()) };
        self.watch.fault(Fault::TakenOut);
        self.nodes.taken_out.0.insert((who, unit));
        self.report_all(who);
        // Some are off altogether, as the probe of their site finds.
        if self.sampler(Family::Foreign).percent(30) { self.find_down(unit) } else { Ok(()) }
    }

    fn find_down(&mut self, (site, unit): SiteUnit) -> Result<(), Violation> {
        let Some(&at) = self.by_id.get(&site) else { return Ok(()) };
        self.watch.fault(Fault::FoundDown);
        let why = "it does not answer".to_owned();
        let fail = SiteCommand::Fail { unit, epoch: None, why };
        self.hand_in(at, Input::Command(fail.into()))
    }

    /// What a driver answers to a call for a unit that somebody else has taken out.
    pub(super) fn misses(&mut self, who: usize, call: &Call) -> Option<DriverError> {
        if self.healed || !self.nodes.taken_out.has(who, (call.site, call.unit)) {
            return None;
        }
        match call.step {
            Step::Join if self.sampler(Family::Foreign).percent(50) => {
                Some(DriverError::untouched("somebody else has drained it"))
            }
            Step::Join | Step::Leave => Some(DriverError("there is no such unit".to_owned())),
            Step::Setup
            | Step::Teardown
            | Step::Modify
            | Step::Warn
            | Step::Install
            | Step::Remove => None,
        }
    }

    /// A report comes once more, at once or once others have come.
    pub(super) fn report_twice(&mut self, who: usize, command: &ServiceCommand) {
        if !matches!(command, ServiceCommand::Report { .. }) || !self.strikes(Family::Foreign, 20) {
            return;
        }
        self.watch.fault(Fault::ReportedTwice);
        let term = self.setting.term;
        let sampler = self.sampler(Family::Foreign);
        let after =
            if sampler.percent(50) { Span::ZERO } else { sampler.scaled(Span::SECOND, term) };
        self.command(self.now.plus(after), who, Command::Service(command.clone()));
    }
}
