//! A dishonest broker and a dishonest guest.

use super::violation::Violation;
use super::world::World;

impl World {
    pub(super) fn broker_crime(&mut self) -> Result<(), Violation> {
        Ok(())
    }

    pub(super) fn guest_crime(&mut self) -> Result<(), Violation> {
        Ok(())
    }
}
