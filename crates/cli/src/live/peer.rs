//! `tenure peer ...`

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use tenure_core::actor::Role;
use tenure_core::model::name::Name;
use tenure_core::model::time::Span;
use tenure_core::wire::invitation::{Permission, Permissions};
use tenure_node::api::{
    InvitationView, InviteRequest, JoinRequest, PeerChange, PeerView, RelationKind,
    RelationRequest, Request,
};

use super::args::{Change, Endpoint, Output};
use super::{ask, ask_change, duration, print};
use crate::Console;
use crate::error::Error;
use crate::text::line;

/// How often it is looked whether who has invited has answered.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Subcommand)]
pub(crate) enum PeerCommand {
    /// Print a line by which an actor of another process becomes a peer
    #[command(after_help = INVITED)]
    Invite(Invite),
    /// Become a peer of who has printed that line
    #[command(after_help = JOINED)]
    Join(Join),
    /// List the actors of other processes, and how they are reached
    List {
        #[command(flatten)]
        endpoint: Endpoint,
    },
    /// Show an actor of another process
    Show {
        #[command(flatten)]
        endpoint: Endpoint,
        /// The actor
        peer: Name,
    },
    /// Change where a peer by invitation is dialled, or what it may begin
    #[command(after_help = SET)]
    Set(Set),
    /// Make a peer by invitation unknown again
    #[command(after_help = REMOVED)]
    Remove {
        #[command(flatten)]
        endpoint: Change,
        /// The peer
        peer: Name,
        /// Of this actor only
        #[arg(long, value_name = "ACTOR")]
        of: Option<Name>,
    },
}

const INVITED: &str = "\
The line works once, until it expires, for the first actor that presents it. Anyone who has it can use it.

Examples:
  tenure peer invite --role service-manager
  tenure peer invite --of exchange --role site-authority --name lab --expires 10m
  tenure peer invite --of lab-a --as share --limit 8";

const JOINED: &str = "\
Examples:
  tenure peer join tenure-invitation-1:2b1f… --wait
  tenure peer join tenure-invitation-1:2b1f… --name exchange2
  tenure peer join tenure-invitation-1:2b1f… --as forward --limit 4";

const SET: &str = "\
Examples:
  tenure peer set lab --address lab.example:7400
  tenure peer set guest --may-nothing";

const REMOVED: &str = "\
A peer that has live tickets, delegations or requests here is not removed: give them back first, or wait.

Examples:
  tenure peer remove guest";

#[derive(Args, Debug)]
pub(crate) struct Invite {
    #[command(flatten)]
    endpoint: Change,
    /// The role of the actor to invite [default with `--as`: broker]
    #[arg(long, value_parser = role, required_unless_present = "kind")]
    role: Option<Role>,
    /// The inviting actor [default: the only actor]
    #[arg(long, value_name = "ACTOR")]
    of: Option<Name>,
    /// What to call the new peer here [default: as it calls itself]
    #[arg(long)]
    name: Option<Name>,
    #[command(flatten)]
    may: May,
    /// How long the line works
    #[arg(long, value_name = "LENGTH", default_value = "1h")]
    expires: Span,
    #[command(flatten)]
    relation: RelationArgs,
}

/// What a broker does for another one.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct RelationArgs {
    /// What this broker does for the other once they are peers: `share` lends it units; `forward` passes requests on to
    /// it and accepts those that it passes on
    #[arg(long = "as", id = "kind", value_name = "WHAT", value_parser = kind)]
    kind: Option<RelationKind>,
    /// With `share`, the most units of each type to lend; with `forward`, the most units, of all types together, that
    /// requests from the other broker may hold at a time [default: no limit]
    #[arg(long, value_name = "UNITS", requires = "kind")]
    limit: Option<u32>,
}

impl RelationArgs {
    fn request(self) -> Option<RelationRequest> {
        self.kind.map(|kind| RelationRequest { kind, limit: self.limit })
    }
}

fn kind(word: &str) -> Result<RelationKind, String> {
    match word {
        "share" => Ok(RelationKind::Share),
        "forward" => Ok(RelationKind::Forward),
        _ => Err("write share or forward".to_owned()),
    }
}

#[derive(Args, Debug)]
pub(crate) struct Join {
    #[command(flatten)]
    endpoint: Change,
    /// The line
    line: String,
    /// The joining actor [default: the only actor of the invited role]
    #[arg(long, value_name = "ACTOR")]
    of: Option<Name>,
    /// What to call the inviting actor here [default: as it calls itself]
    #[arg(long)]
    name: Option<Name>,
    #[command(flatten)]
    may: May,
    #[command(flatten)]
    relation: RelationArgs,
    /// Wait for the answer
    #[arg(long)]
    wait: bool,
    /// Wait no longer than this
    #[arg(long, value_name = "LENGTH", default_value = "1m", requires = "wait")]
    timeout: Span,
}

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("change").required(true).multiple(true)
    .args(["address", "dials", "may", "may_nothing"])))]
pub(crate) struct Set {
    #[command(flatten)]
    endpoint: Change,
    /// The peer
    peer: Name,
    /// Of this actor only
    #[arg(long, value_name = "ACTOR")]
    of: Option<Name>,
    /// Where it is dialled
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// It dials, and is not dialled
    #[arg(long, conflicts_with = "address")]
    dials: bool,
    #[command(flatten)]
    may: May,
}

/// What a peer may begin.
#[derive(Args, Debug)]
pub(crate) struct May {
    /// What the other may begin: request, delegate [default: what its role is for]
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    may: Vec<Permission>,
    /// The other may begin nothing
    #[arg(long, conflicts_with = "may")]
    may_nothing: bool,
}

impl May {
    fn permissions(&self) -> Option<Permissions> {
        let given = self.may_nothing || !self.may.is_empty();
        given.then(|| self.may.iter().copied().collect())
    }
}

fn role(word: &str) -> Result<Role, String> {
    let all = [Role::SiteAuthority, Role::Broker, Role::ServiceManager];
    let found = all.into_iter().find(|role| role.word().replace(' ', "-") == word);
    found.ok_or_else(|| "write site-authority, broker or service-manager".to_owned())
}

fn words(may: &Permissions) -> String {
    let words: Vec<&str> = may.iter().map(|permission| permission.word()).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

impl print::Row for PeerView {
    const COLUMNS: &'static [&'static str] = &[
        "peer",
        "of",
        "role",
        "id",
        "known by",
        "state",
        "may",
        "address",
        "connected",
        "since",
        "why not",
    ];

    fn cells(&self) -> Vec<String> {
        let dash = || "-".to_owned();
        vec![
            self.peer.chars().take(24).collect(),
            self.of.clone(),
            self.role.map_or_else(dash, |role| role.word().to_owned()),
            self.id.chars().take(10).collect(),
            self.known_by.clone(),
            self.state.clone(),
            words(&self.may),
            self.address.clone().unwrap_or_else(dash),
            if self.connected { "yes" } else { "no" }.to_owned(),
            self.since.clone().unwrap_or_else(dash),
            self.error.clone().unwrap_or_default(),
        ]
    }
}

impl print::Row for InvitationView {
    const COLUMNS: &'static [&'static str] = &["of", "number", "role", "may", "expires"];

    fn cells(&self) -> Vec<String> {
        let Self { of, number, role, may, expires, .. } = self;
        vec![of.clone(), number.to_string(), role.word().to_owned(), words(may), expires.clone()]
    }
}

/// The actors elsewhere.
pub(crate) fn peer(command: &PeerCommand, console: &mut Console<'_>) -> Result<(), Error> {
    let (peers, output) = match command {
        PeerCommand::Invite(args) => return invite(args, console),
        PeerCommand::Join(args) => (join(args)?, args.endpoint.output),
        PeerCommand::List { endpoint } => {
            (ask(&endpoint.data, &Request::Peers { peer: None })?, endpoint.output)
        }
        PeerCommand::Show { endpoint, peer } => {
            (ask(&endpoint.data, &Request::Peers { peer: Some(peer.clone()) })?, endpoint.output)
        }
        PeerCommand::Set(args) => {
            let Set { endpoint, peer, of, address, dials, may } = args;
            let request = Request::ChangePeer(Box::new(PeerChange {
                peer: peer.clone(),
                of: of.clone(),
                address: address.clone(),
                dials: *dials,
                may: may.permissions(),
            }));
            (ask_change(endpoint, &request)?, endpoint.output)
        }
        PeerCommand::Remove { endpoint, peer, of } => {
            let request = Request::RemovePeer { peer: peer.clone(), of: of.clone() };
            (ask_change(endpoint, &request)?, endpoint.output)
        }
    };
    let peers: Vec<PeerView> = peers;
    print::all(&peers, &peers, output, "no actors of other processes", console)
}

/// Prints the line alone, so that it can be copied, or all that is known of it.
fn invite(args: &Invite, console: &mut Console<'_>) -> Result<(), Error> {
    let request = Request::Invite(Box::new(InviteRequest {
        of: args.of.clone(),
        // Only brokers share, and forward to each other.
        role: args.role.unwrap_or(Role::Broker),
        name: args.name.clone(),
        may: args.may.permissions(),
        expires: Some(args.expires),
        relation: args.relation.request(),
    }));
    let view: InvitationView = ask_change(&args.endpoint, &request)?;
    if args.endpoint.output == Output::Table {
        return Ok(line(console.out, &view.invitation)?);
    }
    print::one(&view, std::slice::from_ref(&view), args.endpoint.output, "", console)
}

fn join(args: &Join) -> Result<Vec<PeerView>, Error> {
    let request = Request::Join(Box::new(JoinRequest {
        invitation: args.line.clone(),
        of: args.of.clone(),
        name: args.name.clone(),
        may: args.may.permissions(),
        relation: args.relation.request(),
    }));
    let mut peers: Vec<PeerView> = ask_change(&args.endpoint, &request)?;
    if !args.wait {
        return Ok(peers);
    }
    let until = std::time::Instant::now() + duration(args.timeout);
    while let Some(joining) = peers.iter().find(|peer| peer.state == "joining") {
        if std::time::Instant::now() >= until {
            let error = joining.error.as_deref().unwrap_or("it has not answered");
            return Err(Error::NotAnswered(format!("{} is no peer yet: {error}", joining.peer)));
        }
        std::thread::sleep(LOOK_EVERY);
        let of_all: Vec<PeerView> = ask(&args.endpoint.data, &Request::Peers { peer: None })?;
        let is_same =
            |peer: &PeerView| peers.iter().any(|p| (&p.of, &p.id) == (&peer.of, &peer.id));
        peers = of_all.into_iter().filter(is_same).collect();
    }
    match peers.iter().find(|peer| peer.state == "refused") {
        Some(refused) => Err(Error::NotJoined(refused.error.clone().unwrap_or_default())),
        None => Ok(peers),
    }
}
