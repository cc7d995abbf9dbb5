//! `tenure journal replay`: how things stood at an actor.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::Path;

use serde_json::{Map, Value, json};
use tenure_core::actor::snapshot::Settings;
use tenure_core::actor::{Peers, Role, Setup};
use tenure_core::broker::Broker;
use tenure_core::broker::machine as broker;
use tenure_core::driver::UnitId;
use tenure_core::model::identity::{ActorId, Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::runtime::AnyActor;
use tenure_core::service_manager::machine as guest;
use tenure_core::service_manager::{ServiceManager, Standing, request};
use tenure_core::site_authority::{Offer, Plan, SiteAuthority};
use tenure_core::ticket::Ticket;
use tenure_core::wire::request::Request;
use tenure_node::journal::{JournalError, Owner, Reader};

use super::ReplayArgs;
use super::listing::{self, Listing};
use super::paths;
use crate::args::SummaryFormat;
use crate::error::Error;
use crate::moment;

/// An actor of the journal's role under `settings`, to replay facts into. It has no key to sign with.
pub(super) fn replica(owner: &Owner, settings: &Settings) -> AnyActor {
    let signer = Signer::from_seed(Scheme::None, [0; 32]);
    let name = owner.name.clone();
    let setup = Setup { name, signer, margin: settings.margin, peers: Peers::default() };
    match owner.role {
        Role::ServiceManager => ServiceManager::new(setup, settings.leave_before).into(),
        Role::Broker => Broker::new(setup).into(),
        Role::SiteAuthority => {
            let offers = settings.renewals.iter().map(offer).collect();
            SiteAuthority::new(setup, Plan { offers, ..Plan::default() }).into()
        }
    }
}

fn lists(actor: &AnyActor, all: bool) -> Vec<Listing> {
    match actor {
        AnyActor::ServiceManager(actor) => vec![leases_of_guest(actor, all)],
        AnyActor::Broker(actor) => vec![requests(actor, all)],
        AnyActor::SiteAuthority(actor) => vec![leases_of_site(actor, all), units(actor)],
    }
}

/// An offer as far as facts are folded by it.
fn offer((broker, resource, unit, renew_before): &(ActorId, Name, Option<Name>, Span)) -> Offer {
    Offer {
        broker: *broker,
        resource: resource.clone(),
        unit: unit.clone(),
        units: NonZeroU32::MIN,
        length: Span::ZERO,
        renew_before: *renew_before,
    }
}

/// Folds the facts up to the moment that `args` name, and prints what each actor then knows.
pub(super) fn replay(args: &ReplayArgs, out: &mut dyn Write) -> Result<(), Error> {
    let json = args.output == SummaryFormat::Json;
    let paths = paths::journals(&args.paths)?;
    let mut states = paths.iter().map(|path| state(path, args)).collect::<Result<Vec<_>, _>>()?;
    if json && let [(about, _)] = &mut states[..] {
        about.insert("version".to_owned(), 1.into());
    } else if json {
        let actors = states.into_iter().map(|(about, lists)| listing::object(about, &lists));
        let all = json!({ "version": 1, "actors": actors.collect::<Value>() });
        serde_json::to_writer_pretty(&mut *out, &all).map_err(io::Error::from)?;
        return Ok(writeln!(out)?);
    }
    for (nth, (about, lists)) in states.into_iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        listing::print(about, &lists, json, out)?;
    }
    Ok(())
}

/// What an actor knows.
fn state(path: &Path, args: &ReplayArgs) -> Result<(Map<String, Value>, Vec<Listing>), Error> {
    let reader = Reader::open(path)?;
    let owner = reader.owner().clone();
    let mut actor = replica(&owner, &Settings::default());
    let (mut last, mut facts) = (None, 0_u64);
    reader.read(|position, entry| {
        if args.at.is_some_and(|at| entry.at > at) {
            return Ok(());
        }
        (last, facts) = (Some(entry.at), position + 1);
        actor.replay(&entry).map_err(|cause| JournalError::Refused {
            path: path.to_owned(),
            position,
            cause,
        })
    })?;
    let mut about = Map::new();
    let mut insert = |key: &str, value: Value| about.insert(key.to_owned(), value);
    insert("actor", format!("{} {}", owner.role, owner.name).into());
    insert("facts", facts.into());
    insert("last", last.map(moment::show).into());
    Ok((about, lists(&actor, args.all)))
}

fn term(term: Option<Term>) -> [Value; 2] {
    let show = |time: fn(&Term) -> Time| term.as_ref().map(|term| moment::show(time(term))).into();
    [show(|term| term.start()), show(|term| term.end())]
}

/// Units and type of a request: of all its items, which are mostly one.
fn of_request(request: &Request) -> [Value; 2] {
    let units: u64 = request.items.iter().map(|item| u64::from(item.units.get())).sum();
    let resources: Vec<&str> = request.items.iter().map(|item| item.resource.as_str()).collect();
    [units.into(), resources.join(" ").into()]
}

fn of_ticket(ticket: &Ticket) -> [Value; 2] {
    let link = ticket.bottom();
    [link.units.get().into(), link.resource.as_str().into()]
}

fn of_tickets(tickets: &[(u16, Ticket)]) -> [Value; 2] {
    let units: u64 = tickets.iter().map(|(_, ticket)| u64::from(ticket.bottom().units.get())).sum();
    let resource = tickets.first().map(|(_, ticket)| ticket.bottom().resource.as_str());
    [units.into(), resource.into()]
}

fn leases_of_guest(actor: &ServiceManager, all: bool) -> Listing {
    let columns = &["lease", "slice", "state", "units", "resource", "start", "end"];
    let mut list = Listing::new("leases", columns);
    let slices = actor.slices();
    let slice_of = |id| {
        let of = slices.iter().find(|(_, leases)| leases.contains(&id));
        Value::from(of.map(|(slice, _)| slice.as_str()))
    };
    for survey in actor.survey() {
        let (id, state) = (survey.id, survey.state);
        if state.is_over() && !all {
            continue;
        }
        let ([units, resource], held) = match state.lease() {
            None => match (state, survey.request) {
                (
                    Standing::Request(
                        request::State::Asked
                        | request::State::Offered { .. }
                        | request::State::Accepting { .. },
                    ),
                    Some((_, request)),
                ) => (of_request(request), None),
                (Standing::Request(_) | Standing::Lease(_), _) => {
                    ([Value::Null, Value::Null], None)
                }
            },
            Some(guest::State::Ticketed { ticket, .. } | guest::State::Redeeming { ticket }) => {
                (of_ticket(ticket), Some(ticket.bottom().term))
            }
            Some(
                guest::State::Joining { held }
                | guest::State::Active { held }
                | guest::State::Leaving { held, .. },
            ) => {
                let [_, resource] =
                    held.tickets.first().map_or([Value::Null, Value::Null], of_ticket);
                ([held.units.len().into(), resource], Some(held.term))
            }
            Some(guest::State::Closing { tickets, .. }) => {
                let of = tickets.first().map_or([Value::Null, Value::Null], of_ticket);
                (of, tickets.first().map(|ticket| ticket.bottom().term))
            }
            Some(guest::State::Crediting { .. } | guest::State::Closed { .. }) => {
                ([Value::Null, Value::Null], None)
            }
        };
        let [start, end] = term(held);
        let (name, word) = (id.to_string(), state.word());
        list.add([name.into(), slice_of(id), word.into(), units, resource, start, end]);
    }
    list
}

fn requests(actor: &Broker, all: bool) -> Listing {
    let columns = &["request", "state", "units", "resource", "start", "end"];
    let mut list = Listing::new("requests", columns);
    for (id, state) in actor.requests() {
        let ([units, resource], sold) = match state {
            broker::State::Open { request, .. }
            | broker::State::Passed { request, .. }
            | broker::State::Proposed { request, .. }
            | broker::State::Taking { request, .. }
            | broker::State::Held { request, .. } => (of_request(request), None),
            broker::State::Gathering { gathered, .. }
            | broker::State::Reserved { gathered, .. }
            | broker::State::Committing { gathered } => (of_request(&gathered.request), None),
            broker::State::Granted { tickets, .. } | broker::State::Brought { tickets } => {
                (of_tickets(tickets), tickets.first().map(|(_, ticket)| ticket.bottom().term))
            }
            broker::State::Planned { .. }
            | broker::State::Returned { .. }
            | broker::State::Refused { .. }
                if !all =>
            {
                continue;
            }
            broker::State::Returned { tickets } => (of_tickets(tickets), None),
            broker::State::Planned { .. } | broker::State::Refused { .. } => {
                ([Value::Null, Value::Null], None)
            }
        };
        let [start, end] = term(sold);
        list.add([id.to_string().into(), state.word().into(), units, resource, start, end]);
    }
    list
}

fn leases_of_site(actor: &SiteAuthority, all: bool) -> Listing {
    let columns = &["lease", "ticket", "state", "units", "resource", "on", "start", "end"];
    let mut list = Listing::new("leases", columns);
    for (id, held, ticket, state) in actor.leases() {
        if state.word() == "Closed" && !all {
            continue;
        }
        let [units, resource] = of_ticket(ticket);
        let on: Vec<String> = state.units().iter().map(UnitId::to_string).collect();
        let ([start, end], ticket) = (term(Some(held)), ticket.hash().to_string());
        let (id, word) = (id.to_string(), state.word());
        list.add([
            id.into(),
            ticket.into(),
            word.into(),
            units,
            resource,
            on.join(" ").into(),
            start,
            end,
        ]);
    }
    list
}

fn units(actor: &SiteAuthority) -> Listing {
    let mut list = Listing::new("units", &["unit", "state", "epoch", "lease"]);
    let names: BTreeMap<_, _> =
        actor.leases().map(|(id, _, ticket, _)| (ticket.hash(), id.to_string())).collect();
    for (unit, state, epoch) in actor.units() {
        let lease = state.tenant().and_then(|tenant| names.get(&tenant).cloned());
        list.add([unit.to_string().into(), state.word().into(), epoch.0.into(), lease.into()]);
    }
    list
}
