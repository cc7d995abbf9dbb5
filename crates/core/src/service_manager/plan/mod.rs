//! Plans: packages on the nodes of a guest's slice, by the mapper's choice.
//!
//! A plan is requested, proposed, accepted and ended. From the fact that proposes it until the one that ends
//! it, its nodes are held: no other plan uses them. What it installs is work of the guest's driver, or of the
//! guest's user, who reports it. Nodes that it lacks can be leased: it is proposed once they have come.

mod apply;
mod handle;
mod leasing;
mod order;
pub mod machine;
mod problem;
mod survey;
mod wanted;

pub use self::leasing::{Lacking, PlanLease, PlanWait};
pub use self::machine::PlanOutcome;
pub use self::problem::{Artefact, NodePlacement, NodeView, Profile, Proposal, check, problem};
pub(crate) use self::problem::{RESOURCE, new_nodes};
pub use self::survey::{InstallSurvey, PlanSurvey};
pub use self::wanted::{NodeType, WantedLibrary, WantedPackages, WantedPart};

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use self::leasing::Leasing;
use self::machine::Phase;
use crate::driver::{Epoch, UnitId};
use crate::model::identity::ActorId;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Time};

/// How long a plan holds its nodes unless the request says another time.
pub const HOLD: Span = Span::MINUTE.times(30);

/// The longest that a plan holds its nodes.
pub const MAX_HOLD: Span = Span::DAY.times(30);

/// The most plans that are remembered.
pub const MAX_PLANS: usize = 10_000;

/// The most parts of a plan, copies counted.
pub const MAX_PARTS: u64 = 10_000;

/// The most bytes of what a plan is for.
pub const MAX_PLAN_BYTES: usize = 1 << 18;

/// What becomes of a plan whose packages are not all installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// What is installed stays.
    #[default]
    Keep,
    /// What is installed is removed.
    RollBack,
    /// Another plan is made, without the nodes on which a package failed for that package, and accepted.
    Replan,
}

/// A command about plans.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanCommand {
    /// Have the mapper make a plan.
    Propose(Box<PlanRequest>),
    /// Install the packages of a plan that is proposed.
    Accept {
        /// The plan.
        plan: u64,
    },
    /// Give its nodes back, and remove what it has installed.
    Release {
        /// The plan.
        plan: u64,
    },
    /// Say what became of packages on nodes.
    Report {
        /// The plan.
        plan: u64,
        /// What became of them.
        reports: Vec<PackageReport>,
    },
}

/// What became of one package on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageReport {
    /// The node, as the plan names it.
    pub node: String,
    /// The package.
    pub package: String,
    /// Why it is not installed, if so.
    #[serde(default)]
    pub error: Option<String>,
}

/// A plan that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRequest {
    /// The slice whose nodes it is for.
    pub slice: SliceName,
    /// What is to be placed.
    pub wanted: WantedPackages,
    /// Until when it holds its nodes.
    pub until: Time,
    /// What becomes of it if packages fail.
    pub on_failure: OnFailure,
    /// Whether it is accepted as soon as it is proposed.
    pub accept: bool,
    /// Packages with the nodes on which they failed before.
    pub excluded: Vec<(String, String)>,
    /// The plan that it replaces.
    pub replaces: Option<u64>,
    /// For how long nodes that are missing are leased at a time; none are, unless it is set.
    pub lease: Option<Span>,
    /// Other slices whose nodes it may use.
    pub scope: BTreeSet<SliceName>,
}

impl PlanRequest {
    /// A request for nothing yet: what is installed stays if packages fail, and the user is to accept it.
    pub fn new(slice: SliceName, until: Time) -> Self {
        Self {
            slice,
            wanted: WantedPackages::default(),
            until,
            on_failure: OnFailure::default(),
            accept: false,
            excluded: Vec::new(),
            replaces: None,
            lease: None,
            scope: BTreeSet::new(),
        }
    }
}

/// A node of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanNode {
    /// The lease that it is on.
    pub lease: LeaseId,
    /// Its site.
    pub site: ActorId,
    /// Its number there.
    pub unit: UnitId,
    /// Its epoch in this tenancy.
    pub epoch: Epoch,
}

impl PlanNode {
    fn key(self) -> (LeaseId, UnitId) {
        (self.lease, self.unit)
    }

    /// A node by its name.
    fn named(node: NodeView) -> (String, Self) {
        let NodeView { name, lease, site, unit, epoch, .. } = node;
        (name, Self { lease, site, unit, epoch })
    }
}

/// What a mapper answers of a plan that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanChoice {
    /// The plan.
    pub plan: u64,
    /// The answer.
    pub answer: PlanAnswer,
}

/// A plan, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanAnswer {
    /// The plan.
    Placed(Placed),
    /// There is none, for these reasons.
    None(Vec<String>),
    /// There is none while other plans hold their nodes.
    Busy(Vec<String>),
    /// There is one with nodes that are to be leased.
    Lease {
        /// The nodes of it that no plan holds: it holds them meanwhile.
        nodes: Vec<String>,
        /// What it lacks.
        lacking: Lacking,
    },
}

/// A plan as its mapper made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Which part goes where.
    pub placement: NodePlacement,
    /// What is known of the packages in it.
    pub profiles: Vec<Profile>,
    /// Whether no plan is better.
    pub proven: bool,
    /// Other plans, the best first.
    pub others: Vec<NodePlacement>,
}

/// A plan that was proposed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Proposed {
    placed: Placed,
    worth: String,
    nodes: BTreeMap<String, PlanNode>,
}

/// A plan that is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PlanRecord {
    asked_at: Time,
    request: PlanRequest,
    phase: Phase,
    proposed: Option<Proposed>,
    /// What is leased for it.
    leasing: Option<Leasing>,
    /// Why it ended so.
    why: Vec<String>,
    /// Its installations, first and last.
    installs: Option<(u32, u32)>,
}

/// A package on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Install {
    plan: u64,
    name: String,
    node: PlanNode,
    package: String,
    needs: BTreeMap<String, String>,
    /// Whether the guest's driver installs it.
    by_driver: bool,
    /// The installations on its node that are to be done first: of what it depends on.
    after: BTreeSet<u32>,
    state: InstallState,
}

/// How far a package on a node is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum InstallState {
    Pending,
    Installed,
    Failed(String),
    Removing,
    Removed,
    /// It could not be removed, and may still be there.
    Stuck(String),
}

impl InstallState {
    /// Whether it is on its node, as far as is known.
    fn is_there(&self) -> bool {
        matches!(self, Self::Installed | Self::Removing | Self::Stuck(_))
    }
}

/// The plans of a service manager.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Plans {
    /// The last number of a plan.
    last: u64,
    /// The last number of an installation.
    last_install: u32,
    plans: BTreeMap<u64, PlanRecord>,
    installs: BTreeMap<u32, Install>,
    /// The plan that holds a unit of a lease.
    holds: BTreeMap<(LeaseId, UnitId), u64>,
    /// The requests for nodes that plans lacked, each with its plan.
    requests: BTreeMap<u64, u64>,
}

impl Plans {
    /// Whether a mapper is asked for a plan.
    pub(super) fn any_requested(&self) -> bool {
        self.plans.values().any(|plan| matches!(plan.phase, Phase::Requested))
    }

    fn installs_of(&self, plan: u64) -> impl Iterator<Item = (u32, &Install)> {
        let range = self.plans.get(&plan).and_then(|plan| plan.installs);
        let (first, last) = range.unwrap_or((1, 0));
        let within = if first <= last { Some(self.installs.range(first..=last)) } else { None };
        within.into_iter().flatten().map(|(&number, install)| (number, install))
    }
}
