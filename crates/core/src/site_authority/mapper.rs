//! What a site's mapper sees and decides (sites alone assign specific units).

use serde::{Deserialize, Serialize};

use crate::actor::fact::Memo;
use crate::driver::UnitId;
use crate::model::time::Time;
use crate::ticket::link::LinkHash;

pub use super::view::{StockView, View, Waiting};

/// Decides which units a lease gets.
pub trait SiteAuthorityMapper: Send {
    /// Answers one round. The same view, memo and all, must get the same answer. A lease that gets fewer
    /// units than it lacks is asked about again when units come free.
    fn decide(&self, view: &View) -> Decision;
}

/// Units for one lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The lease.
    pub lease: LinkHash,
    /// The units.
    pub units: Vec<UnitId>,
    /// Why these.
    pub reason: String,
}

/// The answer to a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The round that is answered.
    pub round: u64,
    /// Carried out in this order.
    pub assignments: Vec<Assignment>,
    /// What to remember, if that changed.
    pub memo: Option<Memo>,
    /// When to be asked again even if nothing happens.
    pub wake: Option<Time>,
}
