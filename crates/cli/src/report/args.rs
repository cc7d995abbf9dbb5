//! The words of `tenure report` and `tenure sla`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tenure_core::model::name::Name;
use tenure_core::model::time::Time;
use tenure_core::service::kpi::Kpi;
use tenure_node::api::ServiceName;
use tenure_node::api::moment::Moment;
use tenure_report::Query;

use crate::live::args::Endpoint;
use crate::moment;

/// What `tenure report` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum ReportCommand {
    Kpi(KpiArgs),
    /// Show when each SLO was met, missed or unknown.
    ///
    /// What was measured counts for `stale-after` of its service; after that its SLOs are unknown, also while no program
    /// ran that would have recorded so.
    #[command(after_help = SLO)]
    Slo(TimelineArgs),
    /// Show what brokers were told that services want.
    ///
    /// At a moment: what each was told last.
    Needs(SelectionArgs),
    /// Show the orders of brokers, with their states and times.
    ///
    /// At a moment: those that had not ended then.
    Orders(SelectionArgs),
    Moves(MovesArgs),
    /// Show who held which unit: a service, else a slice.
    ///
    /// A unit is held from when its site assigns it to a lease until it releases it. At a moment: who held which then.
    #[command(after_help = UNITS)]
    Units(UnitsArgs),
    Sla(SlaReportArgs),
}

/// What `tenure sla` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum SlaCommand {
    List(SlaListArgs),
    Show(SlaShowArgs),
}

/// Where the facts come from.
#[derive(Args, Clone, Debug)]
pub(crate) struct Source {
    /// Journals, or folders of journals [default: the running deployment is asked]
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) endpoint: Endpoint,
}

/// Which service, and when.
#[derive(Args, Clone, Debug)]
pub(crate) struct Filter {
    /// Only of this service: batch or guest/batch
    #[arg(long, value_name = "NAME")]
    service: Option<ServiceName>,

    /// Only what happened, or still held, at this time or later
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    since: Option<Time>,

    /// Only what happened, or had begun, before this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    until: Option<Time>,
}

/// At which moment.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct At {
    /// How it was at this moment
    #[arg(long, value_name = "TIME", value_parser = moment::parse, conflicts_with_all = ["since", "until"])]
    at: Option<Time>,
}

/// Of which type.
#[derive(Args, Clone, Debug)]
pub(crate) struct Type {
    /// Only of units of this type
    #[arg(long = "type", value_name = "NAME")]
    resource: Option<Name>,
}

/// Show what was measured of services.
///
/// A measurement that says nothing new is recorded once in half of `stale-after` of its service. At a moment: what
/// counted then.
#[derive(Args, Debug)]
#[command(after_help = KPI)]
pub(crate) struct KpiArgs {
    #[command(flatten)]
    pub(super) source: Source,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    at: At,

    /// Only this KPI; without labels, all of its name
    #[arg(long, value_name = "KPI")]
    pub(super) kpi: Option<Kpi>,
}

const KPI: &str = "\
Examples:
  tenure report kpi --service guest/batch --kpi oldest-wait
  tenure report kpi tenure-data --since 2026-11-25T00:00:00Z -o csv";

/// Where the facts come from, and which rows of them are meant.
#[derive(Args, Debug)]
pub(crate) struct SelectionArgs {
    #[command(flatten)]
    pub(super) source: Source,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    resource: Type,
}

/// The same of what lasts, which can be drawn.
#[derive(Args, Debug)]
pub(crate) struct TimelineArgs {
    #[command(flatten)]
    pub(super) rows: SelectionArgs,

    /// Draw them over time into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
}

/// The same of units.
#[derive(Args, Debug)]
pub(crate) struct UnitsArgs {
    #[command(flatten)]
    pub(super) timeline: TimelineArgs,

    /// Only what services held, or other slices
    #[arg(long, value_name = "KIND")]
    pub(super) kind: Option<Holder>,
}

/// What holds units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Holder {
    Service,
    Slice,
}

impl Holder {
    /// As rows have it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Slice => "slice",
        }
    }
}

const SLO: &str = "\
Examples:
  tenure report slo --service guest/batch
  tenure report slo journals --at 2h
  tenure report slo tenure-data --svg slos.svg";

/// Show the units that orders have moved from one service to another.
#[derive(Args, Debug)]
#[command(after_help = MOVES)]
pub(crate) struct MovesArgs {
    #[command(flatten)]
    pub(super) source: Source,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    resource: Type,
}

const MOVES: &str = "\
Examples:
  tenure report moves --type node
  tenure report moves journals --service a/work -o csv";

const UNITS: &str = "\
Examples:
  tenure report units --at 2026-11-25T18:00:00Z
  tenure report units --kind service --type node
  tenure report units journals --svg units.svg";

/// Show how SLAs stand, each in its window.
///
/// The window ends now, at `--until` or at `--at`; with `--since` it begins there, whatever its length.
#[derive(Args, Debug)]
#[command(after_help = SLA)]
pub(crate) struct SlaReportArgs {
    #[command(flatten)]
    pub(super) source: Source,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    at: At,

    /// Show the breaches: when SLOs were missed, which, and why
    #[arg(long)]
    pub(super) breaches: bool,
}

const SLA: &str = "\
Examples:
  tenure report sla
  tenure report sla --breaches --service guest/batch -o csv";

/// List the SLAs of services, and how they stand.
#[derive(Args, Debug)]
pub(crate) struct SlaListArgs {
    #[command(flatten)]
    pub(super) source: Source,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    at: At,
}

/// Show the SLAs of a service, with each breach and why.
#[derive(Args, Debug)]
#[command(after_help = SLA_SHOW)]
pub(crate) struct SlaShowArgs {
    /// The service: batch or guest/batch
    pub(super) service: ServiceName,

    #[command(flatten)]
    pub(super) source: Source,
    #[command(flatten)]
    at: At,

    /// Only this SLA
    #[arg(long, value_name = "NAME")]
    pub(super) sla: Option<Name>,

    /// The beginning of its window [default: its length before the end]
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    since: Option<Time>,

    /// The end of its window [default: now, or the last fact]
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    until: Option<Time>,
}

const SLA_SHOW: &str = "\
Examples:
  tenure sla show guest/batch
  tenure sla show guest/batch tenure-data --sla gold";

impl Filter {
    fn query(&self, at: Option<At>, resource: Option<&Type>) -> Query {
        let Self { service, since, until } = self;
        Query {
            service: service.as_ref().map(|service| service.service.clone()),
            guest: service.as_ref().and_then(|service| service.manager.clone()),
            resource: resource.and_then(|of| of.resource.clone()),
            kpi: None,
            since: *since,
            until: *until,
            at: at.and_then(|at| at.at),
        }
    }
}

impl KpiArgs {
    pub(super) fn query(&self) -> Query {
        Query { kpi: self.kpi.clone(), ..self.filter.query(Some(self.at), None) }
    }
}

impl SelectionArgs {
    pub(super) fn query(&self) -> Query {
        self.filter.query(Some(self.at), Some(&self.resource))
    }
}

impl MovesArgs {
    pub(super) fn query(&self) -> Query {
        self.filter.query(None, Some(&self.resource))
    }
}

impl SlaReportArgs {
    pub(super) fn query(&self) -> Query {
        self.filter.query(Some(self.at), None)
    }
}

impl SlaListArgs {
    pub(super) fn query(&self) -> Query {
        self.filter.query(Some(self.at), None)
    }
}

impl SlaShowArgs {
    pub(super) fn query(&self) -> Query {
        let Self { service, since, until, .. } = self;
        let filter = Filter { service: Some(service.clone()), since: *since, until: *until };
        filter.query(Some(self.at), None)
    }
}

/// A service as the control API names it.
pub(super) fn named(manager: Option<Name>, service: Name) -> ServiceName {
    ServiceName { manager, service }
}

/// A moment as the control API has it.
pub(super) fn moment(at: Time) -> Moment {
    Moment::At(at)
}
