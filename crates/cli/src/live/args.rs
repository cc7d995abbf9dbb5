//! The words of the commands on a live deployment.

pub(super) mod owner;
mod sequence;
mod ticket;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use tenure_config::Override;
use tenure_core::driver::UnitId;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::service_manager::Victims;
use tenure_node::api::moment::Moment;
use tenure_node::api::{LeaseName, MAX_LEASES};

pub(crate) use owner::{BrokerCommand, OneUnit, QuotaCommand, SiteCommand};
pub(crate) use sequence::WaitFor;
pub(crate) use ticket::{SplitArgs, TakeArgs, TicketCommand, VerifyArgs};

use self::sequence::wait_for;
use crate::log::LogFormat;
use crate::when;

/// The deployment to address, and the output format.
#[derive(Args, Clone, Debug)]
pub(crate) struct Endpoint {
    /// The data folder of the deployment
    #[arg(long, value_name = "DIR", env = "TENURE_DATA", default_value = "tenure-data")]
    pub(crate) data: PathBuf,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// The deployment to change, and the name of the change.
#[derive(Args, Clone, Debug)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) endpoint: Endpoint,

    /// An idempotency key: the change is made once, however often it is asked for within a day
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
}

impl std::ops::Deref for Change {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table
    #[default]
    Table,
    /// One JSON value
    Json,
    /// One JSON value per line
    Jsonl,
    /// A header row, then the rows
    Csv,
}

/// Run two sites, a broker and two service managers in this process.
///
/// Units are processes of this machine. One service manager is yours; the other follows a demand that rises
/// and falls. All state is in the data folder: after a stop, or a kill, the next start resumes every
/// lease.
#[derive(Args, Debug)]
pub(crate) struct DevArgs {
    /// The folder for keys, journals and units; created if missing
    #[arg(long, value_name = "DIR", env = "TENURE_DATA", default_value = "tenure-data")]
    pub(crate) data: PathBuf,

    /// Set a key of the configuration [may be repeated]
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<Override>,

    /// The form of the log, on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
}

const UP: &str = "\
Exit codes: 1 if it does not run, 77 if it may not take over, 124 if the running process did not hand over in time

Examples:
  tenure up --config config/dev.toml
  tenure up --config config/dev.toml --takeover";

/// Run the actors of a configuration in this process.
#[derive(Args, Debug)]
#[command(after_help = UP)]
pub(crate) struct UpArgs {
    /// The configuration, in TOML [may be repeated: each key is in one of the files]
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) config: Vec<PathBuf>,

    /// The folder for keys, journals and units; created if missing
    #[arg(long, value_name = "DIR", env = "TENURE_DATA", default_value = "tenure-data")]
    pub(crate) data: PathBuf,

    /// Set a key of the configuration [may be repeated]
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<Override>,

    /// Replace the process that runs with this data, without downtime; it hands over within TIME, 30s unless given, or
    /// runs on
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "30s", value_parser = Span::from_str)]
    pub(crate) takeover: Option<Span>,

    /// The form of the log, on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration without running it
    Check {
        /// The configuration, in TOML; each key is in one of several files
        #[arg(value_name = "FILE", required = true)]
        config: Vec<PathBuf>,
        /// Set a key of it [may be repeated]
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<Override>,
        /// Also check that the deployment with this data folder can continue with it
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Output format
        #[arg(short, long, value_name = "FORMAT", default_value_t, value_enum)]
        output: Output,
    },
    /// Say what a key of a configuration is: its type, default and unit
    #[command(after_help = EXPLAINED)]
    Explain {
        /// The key, or its last part [default: all keys]
        key: Option<String>,
        /// Output format
        #[arg(short, long, value_name = "FORMAT", default_value_t, value_enum)]
        output: Output,
    },
}

const EXPLAINED: &str = "\
Examples:
  tenure config explain margin
  tenure config explain site.alpha.fail-after
  tenure config explain units";

#[derive(Debug, Subcommand)]
pub(crate) enum LeaseCommand {
    /// Request a lease
    Request(Box<RequestArgs>),
    /// Replace a request that is open
    Revise(ReviseArgs),
    /// List leases
    List {
        #[command(flatten)]
        endpoint: Endpoint,
        /// Include leases that have ended, while they are remembered
        #[arg(long)]
        all: bool,
        /// Only leases of this slice
        #[arg(long, value_name = "SLICE")]
        slice: Option<Name>,
        /// Only leases of this service manager
        #[arg(long = "as", value_name = "NAME")]
        manager: Option<Name>,
        /// Only leases that follow this one in the list, named in full: guest/3.0
        #[arg(long, value_name = "LEASE")]
        after: Option<LeaseName>,
        /// The most leases to list
        #[arg(long, value_name = "N", default_value_t = MAX_LEASES)]
        limit: usize,
    },
    /// Show a lease and its units
    Show {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The lease: 3, 3.1 or guest/3.1
        lease: LeaseName,
    },
    /// Extend a lease
    Extend {
        #[command(flatten)]
        endpoint: Change,
        /// The lease: 3, 3.1 or guest/3.1
        lease: LeaseName,
        /// By how much
        #[arg(long = "for", value_name = "TIME", value_parser = Span::from_str)]
        duration: Span,
        /// With how many of its units; until then all of them are kept
        #[arg(long, value_name = "N")]
        units: Option<NonZeroU32>,
        #[command(flatten)]
        victims: VictimArgs,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Change a lease before its end: give some of its units back, or the rest of its time
    #[command(after_help = FLEX)]
    Flex {
        #[command(flatten)]
        endpoint: Change,
        /// The lease: 3, 3.1 or guest/3.1
        lease: LeaseName,
        /// By how many units: `-2` gives two back, `+2` asks for two more until its end
        #[arg(
            long,
            value_name = "N",
            allow_hyphen_values = true,
            value_parser = units_by,
            required_unless_present = "until",
            conflicts_with = "until"
        )]
        units: Option<UnitsBy>,
        /// What must hold of units that are added
        #[arg(long = "where", value_name = "EXPR")]
        condition: Option<String>,
        /// When it ends instead, in the words of `tenure lease request --at`
        #[arg(long, value_name = "WHEN", value_parser = when::read)]
        until: Option<Moment>,
        #[command(flatten)]
        victims: VictimArgs,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Change the configuration of a lease in place
    Modify {
        #[command(flatten)]
        endpoint: Change,
        /// The lease: 3, 3.1 or guest/3.1
        lease: LeaseName,
        /// Properties for the site's driver that change or are added; the others stay
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = property)]
        properties: Vec<(Name, String)>,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Name the units that go first when some of a lease are recalled
    Victims {
        #[command(flatten)]
        endpoint: Change,
        /// The lease: 3, 3.1 or guest/3.1
        lease: LeaseName,
        /// The units, such as u3,u5
        #[arg(required = true, value_delimiter = ',', value_name = "UNITS", value_parser = unit_number)]
        units: Vec<UnitId>,
    },
    /// Redeem a ticket that was kept
    Redeem {
        #[command(flatten)]
        endpoint: Change,
        /// The lease: 3, 3.1 or guest/3.1
        lease: LeaseName,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Close a lease before its end, or give back what was not handed on of a split ticket
    Close {
        #[command(flatten)]
        endpoint: Change,
        /// The lease: 3, 3.1 or guest/3.1
        lease: LeaseName,
        /// When its units are given back, left or not, also if they are being left already; in the words of
        /// `tenure lease request --at`
        #[arg(long, value_name = "WHEN", value_parser = when::read)]
        by: Option<Moment>,
        /// Also if the software of its service refuses to leave its units
        #[arg(long)]
        force: bool,
        /// Wait until it has ended
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Take an offer of a request
    Accept {
        #[command(flatten)]
        endpoint: Change,
        /// The request: 3 or guest/3
        lease: LeaseName,
        /// The number of the offer
        #[arg(long, value_name = "N")]
        offer: u8,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Let the offers go that are held for a request
    Release {
        #[command(flatten)]
        endpoint: Change,
        /// The request: 3 or guest/3
        lease: LeaseName,
    },
    /// Withdraw a request that is not granted
    Withdraw {
        #[command(flatten)]
        endpoint: Change,
        /// The request: 3 or guest/3
        lease: LeaseName,
    },
    /// Follow leases as they change, until interrupted
    Watch {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The lease [default: all]
        lease: Option<LeaseName>,
    },
    /// Explain the state of a lease: who holds the units, what failed, which answers are outstanding
    Why {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The lease: 3, 3.1 or guest/3.1
        lease: LeaseName,
    },
}

const FLEX: &str = "Examples:
  tenure lease flex 7 --units -2 --victims u3,u5 --wait
  tenure lease flex 7 --units -1 --victim-policy oldest
  tenure lease flex 7 --until now+10m

Of a ticket that is kept and was split, units that were not handed on are given back.";

/// By how many units a lease changes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UnitsBy {
    /// So many more.
    More(NonZeroU32),
    /// So many fewer.
    Fewer(NonZeroU32),
}

fn units_by(text: &str) -> Result<UnitsBy, String> {
    let bad = || "write by how many units, with a sign: -2 or +2".to_owned();
    let number = |digits: &str| digits.parse().map_err(|_| bad());
    match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(fewer), _) => Ok(UnitsBy::Fewer(number(fewer)?)),
        (None, Some(more)) => Ok(UnitsBy::More(number(more)?)),
        (None, None) => Err(bad()),
    }
}

/// Which units of a lease go.
#[derive(Args, Clone, Debug)]
pub(crate) struct VictimArgs {
    /// The units that go first, by their numbers at the site: u3,u5
    #[arg(long, value_name = "UNITS", value_delimiter = ',', value_parser = unit_number)]
    victims: Vec<UnitId>,
    /// Which units go if none are named
    #[arg(long, value_name = "POLICY", conflicts_with = "victims", default_value = "youngest")]
    victim_policy: VictimPolicy,
}

/// Which units go.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum VictimPolicy {
    /// Those with the lowest numbers
    Oldest,
    /// Those with the highest numbers
    Youngest,
    /// Those that are idle, then those of which least would be lost, as an adapter says, then those that were in use
    /// for the shortest time, as the guest's driver says, or since they were joined
    LeastUsed,
}

impl VictimArgs {
    pub(crate) fn choice(&self) -> Victims {
        match self.victim_policy {
            _ if !self.victims.is_empty() => Victims::Named(self.victims.clone()),
            VictimPolicy::Oldest => Victims::Oldest,
            VictimPolicy::Youngest => Victims::Youngest,
            VictimPolicy::LeastUsed => Victims::LeastUsed,
        }
    }
}

fn unit_number(text: &str) -> Result<UnitId, String> {
    let number = text.strip_prefix('u').unwrap_or(text).parse();
    number.map(UnitId).map_err(|_| "write the numbers of units: u3,u5".to_owned())
}

/// Whether a command waits for its result.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WaitArgs {
    /// Wait until the request has succeeded or was refused
    #[arg(long)]
    pub(crate) wait: bool,
    /// The longest time to wait, by this machine's clock
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = Span::from_str)]
    pub(crate) timeout: Span,
    /// What becomes of a request that was waited for in vain
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub(crate) on_timeout: OnTimeout,
}

/// What becomes of a request that was waited for in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnTimeout {
    /// It goes on
    #[default]
    Keep,
    /// It is withdrawn
    Withdraw,
}

/// How long a lease is to last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lasting {
    pub(crate) shortest: Span,
    pub(crate) longest: Span,
}

pub(crate) fn lasting(text: &str) -> Result<Lasting, String> {
    let (shortest, longest) = text.split_once("..").unwrap_or((text, text));
    let span = |text| Span::from_str(text).map_err(|error| error.to_string());
    let lasting = Lasting { shortest: span(shortest)?, longest: span(longest)? };
    if lasting.longest < lasting.shortest {
        return Err(format!("there is no length from {shortest} to {longest}"));
    }
    Ok(lasting)
}

/// Request a lease.
///
/// The command ends when the request is durable; with --wait, when the units are in use. A request that
/// several sites serve together becomes one lease per site: 3.0, 3.1, and so on.
#[derive(Args, Debug)]
#[command(after_help = REQUESTS)]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    pub(crate) endpoint: Endpoint,

    /// How many units of which types, or profiles of the configuration: `4 node`, `2..4 node, 1 gpu`,
    /// `4 node where 'cpus >= 8'`, `4 node | 8 small`, `(4 node, 1 disk), 2 gpu after 1h`; a number alone means nodes
    #[arg(required_unless_present_any = ["file", "again"], value_name = "DEMAND")]
    pub(crate) demand: Vec<String>,

    /// A file with what is asked for: units at several sites, and links between them (docs/PLANNING.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["demand", "duration", "condition", "at", "by", "apart"])]
    pub(crate) file: Option<PathBuf>,

    /// The length of the lease: `2h`, or `1h..2h` for the longest that can be had
    #[arg(long = "for", value_name = "TIME", value_parser = lasting, required_unless_present = "file")]
    pub(crate) duration: Option<Lasting>,

    /// What must hold of the units, in a demand of one item: `cpus >= 8 and site != "b"`
    #[arg(long = "where", value_name = "EXPR")]
    pub(crate) condition: Option<String>,

    /// The earliest start: `now`, `now+10m`, `18:00`, `tomorrow 9:00 Europe/Rome`, or RFC 3339
    #[arg(long, value_name = "WHEN", default_value = "now", value_parser = when::read)]
    pub(crate) at: Moment,

    /// The latest start, in the same words; the earliest unless given
    #[arg(long, value_name = "WHEN", value_parser = when::read)]
    pub(crate) by: Option<Moment>,

    /// Show how the request could be met and what is in the way; book nothing
    #[arg(long, conflicts_with = "hold")]
    pub(crate) plan: bool,

    /// Have up to three offers held for so long, to choose from
    #[arg(long, value_name = "TIME", value_parser = Span::from_str)]
    pub(crate) hold: Option<Span>,

    /// The slice that the lease belongs to
    #[arg(long, value_name = "SLICE", default_value = "main")]
    pub(crate) slice: Name,

    /// A property for the site's driver [may be repeated]
    #[arg(long, value_name = "KEY=VALUE", value_parser = property)]
    pub(crate) property: Vec<(Name, String)>,

    /// The service manager that makes the request
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) manager: Option<Name>,

    /// The broker to ask
    #[arg(long, value_name = "NAME")]
    pub(crate) broker: Option<Name>,

    /// An idempotency key: repetitions under one id make one request, or a new one after a temporary refusal
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Have all leases of the request share one fate: close one, close all; lose one, close all
    #[arg(long)]
    pub(crate) bundle: bool,

    /// How long after its start each lease may take to get its units before all are given back [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = Span::from_str)]
    pub(crate) assemble: Option<Span>,

    /// Do not redeem the ticket now, but keep it to redeem or split later
    #[arg(long)]
    pub(crate) keep_ticket: bool,

    /// A request whose units have to be in use before the tickets are redeemed, as guest/3; of one item of the
    /// demand, before that of another, as 1:item0 [may be repeated]
    #[arg(long, value_name = "[ITEM:]WHAT", value_parser = wait_for)]
    pub(crate) redeem_after: Vec<WaitFor>,

    /// As --redeem-after, before the units are joined [may be repeated]
    #[arg(long, value_name = "[ITEM:]WHAT", value_parser = wait_for)]
    pub(crate) join_after: Vec<WaitFor>,

    /// When the tickets have to be redeemed by, in the words of `--at`; unclaimed ones go back after that
    #[arg(long, value_name = "WHEN", value_parser = when::read)]
    pub(crate) redeem_by: Option<Moment>,

    /// A site that no unit is to come from [may be repeated]
    #[arg(long, value_name = "NAME")]
    pub(crate) not_site: Vec<Name>,

    /// A unit that is not wanted, as alpha/u3 [may be repeated]
    #[arg(long, value_name = "SITE/UNIT", value_parser = owner::unit)]
    pub(crate) exclude: Vec<(Name, UnitId)>,

    /// A lease at whose site all units are to be: 3 or guest/3.0
    #[arg(long, value_name = "LEASE")]
    pub(crate) with: Option<LeaseName>,

    /// A lease, over or not, whose units are to be had again if they can; without DEMAND, as many of its types
    #[arg(long, value_name = "LEASE")]
    pub(crate) again: Option<LeaseName>,

    /// A unit that alone will do, as alpha/u3 [may be repeated]
    #[arg(long = "unit", value_name = "SITE/UNIT", value_parser = owner::unit)]
    pub(crate) units: Vec<(Name, UnitId)>,

    /// Have each item of the demand from one site, and no two from the same
    #[arg(long)]
    pub(crate) apart: bool,

    /// Accept that units in use are recalled, after at least this notice
    #[arg(long, value_name = "TIME", value_parser = Span::from_str)]
    pub(crate) notice: Option<Span>,

    /// Accept that only once the lease has lasted so long
    #[arg(long, value_name = "TIME", value_parser = Span::from_str, requires = "notice")]
    pub(crate) min_tenure: Option<Span>,

    /// The reason to record in the journal
    #[arg(long, value_name = "TEXT", default_value = "a user's request")]
    pub(crate) reason: String,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

/// Replace a request that is open; it keeps its age and its place.
#[derive(Args, Debug)]
pub(crate) struct ReviseArgs {
    #[command(flatten)]
    pub(crate) change: Change,

    /// The request: 3 or guest/3
    pub(crate) lease: LeaseName,

    /// What is asked for now, as for `tenure lease request`
    #[arg(required = true, value_name = "DEMAND")]
    pub(crate) demand: Vec<String>,

    /// The length of the lease: `2h`, or `1h..2h` for the longest that can be had
    #[arg(long = "for", value_name = "TIME", value_parser = lasting)]
    pub(crate) duration: Lasting,

    /// What must hold of the units, in a demand of one item
    #[arg(long = "where", value_name = "EXPR")]
    pub(crate) condition: Option<String>,

    /// The earliest start
    #[arg(long, value_name = "WHEN", default_value = "now", value_parser = when::read)]
    pub(crate) at: Moment,

    /// The latest start; the earliest unless given
    #[arg(long, value_name = "WHEN", value_parser = when::read)]
    pub(crate) by: Option<Moment>,

    /// When the tickets have to be redeemed by, in the words of `--at`; unclaimed ones go back after that
    #[arg(long, value_name = "WHEN", value_parser = when::read)]
    pub(crate) redeem_by: Option<Moment>,

    /// A site that no unit is to come from [may be repeated]
    #[arg(long, value_name = "NAME")]
    pub(crate) not_site: Vec<Name>,

    /// A unit that is not wanted, as alpha/u3 [may be repeated]
    #[arg(long, value_name = "SITE/UNIT", value_parser = owner::unit)]
    pub(crate) exclude: Vec<(Name, UnitId)>,

    /// A unit that alone will do, as alpha/u3 [may be repeated]
    #[arg(long = "unit", value_name = "SITE/UNIT", value_parser = owner::unit)]
    pub(crate) units: Vec<(Name, UnitId)>,

    /// Have each item of the demand from one site, and no two from the same
    #[arg(long)]
    pub(crate) apart: bool,

    /// Accept that units in use are recalled, after at least this notice
    #[arg(long, value_name = "TIME", value_parser = Span::from_str)]
    pub(crate) notice: Option<Span>,

    /// Accept that only once the lease has lasted so long
    #[arg(long, value_name = "TIME", value_parser = Span::from_str, requires = "notice")]
    pub(crate) min_tenure: Option<Span>,

    /// The reason to record in the journal
    #[arg(long, value_name = "TEXT", default_value = "a user's revision")]
    pub(crate) reason: String,
}

const REQUESTS: &str = r#"Examples:
  tenure lease request 2 --for 10m --wait
  tenure lease request 2..4 node --where 'speed >= 2 and site != "b"' --for 2h --by now+1h
  tenure lease request 4 --for 8h --at 'tomorrow 9:00 Europe/Rome' --by 'tomorrow 12:00 Europe/Rome'
  tenure lease request "2 node where 'cpus >= 8', 1 gpu" --for 1h
  tenure lease request 4 --for 1h..2h --by now+8h --plan
  tenure lease request '4 node | 2 node, optional 1 gpu' --for 2h --hold 10m
  tenure lease request 1 --for 1h --id nightly-2026-11-21

Exit codes: 0 ok, 1 error, 2 usage, 3 can never be met, 75 busy, 77 denied, 124 timed out,
130 interrupted"#;

pub(crate) fn property(text: &str) -> Result<(Name, String), String> {
    let (key, value) = text.split_once('=').ok_or("write key=value")?;
    Ok((Name::new(key).map_err(|error| error.to_string())?, value.to_owned()))
}

#[derive(Debug, Subcommand)]
pub(crate) enum SliceCommand {
    /// List slices and their leases
    List {
        #[command(flatten)]
        endpoint: Endpoint,
    },
    /// Measure what the leased links of a slice carry
    Measure(MeasureArgs),
}

/// Measure what the leased links of a slice carry.
///
/// Sends TCP from a unit at one end of each link to a unit at its other end, by all links at the same time, then back.
/// It enters the network namespaces of the units, so it is for root, on the machine that they are on.
#[derive(Args, Debug)]
#[command(after_help = MEASUREMENTS)]
pub(crate) struct MeasureArgs {
    #[command(flatten)]
    pub(crate) endpoint: Endpoint,

    /// The slice
    #[arg(value_name = "SLICE")]
    pub(crate) slice: Name,

    /// Its service manager [default: slices of this name of all]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) manager: Option<Name>,

    /// How long each way is measured, half a second after its beginning; up to an hour
    #[arg(long = "for", value_name = "TIME", default_value = "3s", value_parser = measured_for)]
    pub(crate) lasting: Span,
}

const MEASUREMENTS: &str = "\
Examples:
  tenure slice measure main
  tenure slice measure main --for 10s -o json

Rates are in megabits a second, `ratio` is the slower way by what is leased. Headers count among what is
leased, so TCP carries about 95 %; links that have an edge in common send no more than that.

Exit codes: 0 ok, 1 some link was not measured, 2 usage";

fn measured_for(text: &str) -> Result<Span, String> {
    let span = Span::from_str(text).map_err(|error| error.to_string())?;
    if (Span::SECOND..=Span::HOUR).contains(&span) {
        return Ok(span);
    }
    Err("write a length from a second to an hour, such as 3s".to_owned())
}
