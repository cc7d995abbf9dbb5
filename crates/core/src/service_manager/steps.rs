//! Steps of the guest's driver: by when they are of use.

use super::ServiceManager;
use crate::driver::{Step, UnitId};
use crate::model::slice::LeaseId;
use crate::model::time::Time;
use crate::mutants::mutant;
use crate::service_manager::machine::State;

impl ServiceManager {
    /// Until when it is of use that the guest's driver answers: a join or a change until the unit is to be
    /// left, a leave until it is let go of.
    pub(super) fn useful_until(&self, id: LeaseId, unit: UnitId, step: Step) -> Option<Time> {
        let lease = self.state.leases.get(&id)?;
        let held = lease.state.held()?;
        let margin = self.base.margin();
        let margin = if mutant!(CallsWithoutMargin) { margin.times(0) } else { margin };
        let stop = lease.ends_by().minus(margin);
        let in_use = matches!(lease.state, State::Joining { .. } | State::Active { .. });
        let early = held.seams.front().filter(|seam| in_use && held.goes_at(seam, unit));
        let recall = lease.recall_of(held, unit).filter(|_| in_use);
        let gone = [early.map(|seam| seam.at), recall].into_iter().flatten().min();
        let gone = gone.map_or(stop, |at| stop.min(at.minus(margin)));
        match step {
            Step::Join | Step::Modify => Some(gone.minus(self.leave_before)),
            Step::Leave => Some(gone),
            Step::Setup | Step::Teardown => None,
        }
    }
}
