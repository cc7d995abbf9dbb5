//! What the dishonest do: a broker that sells too much, a guest that shows what is not its own.

use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::broker::machine::State;
use tenure_core::model::codec;
use tenure_core::model::identity::Scheme;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::{LeaseId, RequestId};
use tenure_core::model::time::Term;
use tenure_core::runtime::AnyActor;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::evidence::Evidence;
use tenure_core::ticket::link::{Clauses, Link, SignedLink};
use tenure_core::ticket::receipt::{Receipt, Return};
use tenure_core::wire::message::{Envelope, Header, Message, Sequence, Subject};
use tenure_core::wire::offer::Reply;
use tenure_core::wire::part::Part;
use tenure_core::wire::proviso::{History, Provisos};
use tenure_core::wire::recall::Level;
use tenure_core::wire::refusal::Refusal;
use tenure_core::wire::request::{Item, Request};

use super::language::{guest, of_role};
use super::names;
use super::script::{self, Args, Bad};
use super::world::World;

/// A guest sends its broker a request that no service manager would.
pub fn ask(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = guest(world, args)?;
    let units = args.number("the number of units")?;
    let resource = Name::new(&args.next("the type")?).map_err(|bad| bad.to_string())?;
    let extends = args.option("on").map(|label| world.names.find(&label).map(Ticket::hash));
    let extends = extends.transpose()?;
    let origin = args.option("as").map(|name| of_role(world, &name, Role::ServiceManager));
    let origin = world.id(origin.transpose()?.unwrap_or(who));
    let earliest = args.time_option("from")?.ok_or("from= is missing")?;
    let duration = args.span_option("for")?.ok_or("for= is missing")?;
    let latest = args.time_option("latest")?.unwrap_or(earliest);
    let item = Item { extends, ..Item::new(resource, units) };
    let request = Request {
        id: RequestId { origin, number: world.next_forgery() },
        items: vec![item],
        earliest,
        latest,
        duration,
        min_duration: duration,
        provisos: Provisos::NONE,
        history: History::first(earliest),
        receipts: Vec::new(),
        reply: Reply::Grant,
        answer_by: latest.plus(duration),
        properties: Properties::default(),
    };
    let broker = world.participants.iter().find(|participant| participant.role == Role::Broker);
    let broker = broker.ok_or("there is no broker")?.id;
    say(world, who, broker, Message::Request(request))
}

/// A broker grants a request that waits for its mapper, out of a delegation and past its own ledger.
pub fn grant(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let broker = of_role(world, &args.next("the broker")?, Role::Broker)?;
    let (name, number) = script::numbered(&args.next("GUEST/REQUEST")?)?;
    let asker = world.id(of_role(world, &name, Role::ServiceManager)?);
    let number = number.parse().map_err(|_| format!("`{number}` is no request"))?;
    let id = RequestId { origin: asker, number };
    let units = args.number("the number of units")?;
    let parent = world.names.find(&args.option("from").ok_or("from= is missing")?)?.clone();
    let AnyActor::Broker(actor) = world.participants[broker].host.actor() else {
        return Err("it is no broker".to_owned());
    };
    let Some(State::Open { request, .. }) = actor.request(id) else {
        return Err("that request does not wait".to_owned());
    };
    let term = Term::lasting(request.earliest, request.duration).map_err(|bad| bad.to_string())?;
    let above = parent.bottom();
    let tokens = args.option("tokens").is_none_or(|tokens| tokens != "none");
    let stacked = above.clauses.stacked.clone().filter(|_| tokens);
    let link = Link {
        parent: Some(above.hash()),
        issuer: world.id(broker),
        holder: asker,
        resource: above.resource.clone(),
        units,
        term,
        constraints: above.constraints.clone(),
        clauses: Clauses { stacked, ..above.clauses.inherited() },
        delegation: None,
        extends: request.items.first().and_then(|item| item.extends),
        serial: world.next_forgery(),
    };
    let ticket = parent.with(SignedLink::sign(link, world.forger(broker)));
    world.names.ticket(&ticket);
    say(world, broker, asker, Message::Granted { request: id, tickets: vec![(0, ticket)] })
}

/// A ticket with something in its bottom link changed and the signature left as it was.
pub fn alter(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let ticket = world.names.find(&args.next("the ticket")?)?.clone();
    let bottom = ticket.bottom();
    let mut link = Link::clone(bottom);
    if let Some(units) = args.number_option::<NonZeroU32>("units")? {
        link.units = units;
    }
    if let Some(end) = args.time_option("end")? {
        link.term = Term::new(link.term.start(), end).map_err(|bad| bad.to_string())?;
    }
    if let Some(holder) = args.option("holder") {
        link.holder = world.id(world.index(&holder)?);
    }
    let signed = bottom.as_bytes().len() - codec::encode(&Link::clone(bottom)).len();
    let bytes = [&bottom.as_bytes()[..signed], &codec::encode(&link)].concat();
    let bottom = SignedLink::read(&bytes).map_err(|bad| bad.to_string())?;
    let links = ticket.links();
    let mut links = links[..links.len() - 1].to_vec();
    links.push(bottom);
    let altered = Ticket::try_from(links).map_err(|bad| bad.to_string())?;
    let label = world.names.forged(&altered);
    let (whole, right) = (world.names.ticket(&ticket), names::right(altered.bottom()));
    world.say("somebody", &format!("makes {label} out of {whole}: {right}"));
    Ok(())
}

/// A guest hands on a part of a ticket, past its own ledger.
pub fn split(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = guest(world, args)?;
    let parent = world.names.find(&args.next("the ticket")?)?.clone();
    let units = args.number("the number of units")?;
    let holder = world.id(guest(world, args)?);
    let start = args.time_option("from")?.unwrap_or(world.now);
    let duration = args.span_option("for")?.ok_or("for= is missing")?;
    let above = parent.bottom();
    let link = Link {
        parent: Some(above.hash()),
        issuer: world.id(who),
        holder,
        resource: above.resource.clone(),
        units,
        term: Term::lasting(start, duration).map_err(|bad| bad.to_string())?,
        constraints: above.constraints.clone(),
        clauses: above.clauses.inherited(),
        delegation: None,
        extends: None,
        serial: world.next_forgery(),
    };
    let ticket = parent.with(SignedLink::sign(link, world.forger(who)));
    let (label, right) = (world.names.forged(&ticket), names::right(ticket.bottom()));
    let (from, holder) = (world.names.ticket(&parent), world.names.actor(holder));
    world.say("somebody", &format!("hands {label} on out of {from}, to {holder}: {right}"));
    Ok(())
}

/// A guest shows a ticket that it may not show.
pub fn redeem(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, ticket, site) = shown(world, args)?;
    let message = Message::Redeem {
        lease: LeaseId { number: 99, part: 0 },
        slice: Name::literal("main"),
        min_units: ticket.bottom().units,
        configuration: Properties::default(),
        ticket,
        victims: Vec::new(),
    };
    let site = world.id(site);
    say(world, who, site, message)
}

/// A guest gives back a ticket that it may not give back.
pub fn close(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, ticket, site) = shown(world, args)?;
    let site = world.id(site);
    say(world, who, site, Message::Close { tickets: vec![ticket] })
}

/// Somebody recalls a ticket that another issued.
pub fn recall(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = world.index(&args.next("the actor")?)?;
    let ticket = world.names.find(&args.next("the ticket")?)?.clone();
    let units = args.number("how many units stay")?;
    let site = world.id(of_role(world, &world.names.actor(ticket.site()), Role::SiteAuthority)?);
    let level = Level { number: 0, units, from: world.now };
    say(world, who, site, Message::Recall { ticket, level })
}

/// A broker gives back units of a delegation, past its own ledger.
pub fn give_back(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = of_role(world, &args.next("the broker")?, Role::Broker)?;
    let ticket = world.names.find(&args.next("the delegation")?)?.clone();
    let units = args.number("the number of units")?;
    let site = world.id(of_role(world, &world.names.actor(ticket.site()), Role::SiteAuthority)?);
    let part = Part::Rights { units, from: world.now };
    say(world, who, site, Message::Return { ticket, number: 0, part })
}

/// A guest signs a receipt in its site's name and has it credited.
pub fn credit(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = guest(world, args)?;
    let ticket = world.names.find(&args.next("the ticket")?)?.clone();
    let link = ticket.bottom();
    let what = Return {
        site: ticket.site(),
        link: link.hash(),
        issuer: link.issuer,
        units: link.units,
        term: link.term,
        number: 0,
    };
    let receipts = vec![Receipt::sign(what, world.forger(who))];
    say(world, who, link.issuer, Message::Credit { receipts })
}

fn shown(world: &World, args: &mut Args) -> Result<(usize, Ticket, usize), Bad> {
    let who = guest(world, args)?;
    let ticket = world.names.find(&args.next("the ticket")?)?.clone();
    let site = args.option("at").unwrap_or_else(|| world.names.actor(ticket.site()));
    Ok((who, ticket, of_role(world, &site, Role::SiteAuthority)?))
}

/// Only who is called dishonest in the deployment does such things.
pub fn say(
    world: &mut World,
    who: usize,
    to: tenure_core::model::identity::ActorId,
    message: Message,
) -> Result<(), Bad> {
    let participant = &world.participants[who];
    if participant.honest && world.stolen.is_none() {
        return Err(format!(
            "`{}` is honest; call it `dishonest` in the deployment",
            participant.name
        ));
    }
    // No fact of its own stands behind it.
    let position = world.network.sent().len() as u64;
    let sequence = Sequence { position, index: Sequence::VOLATILE };
    let header = Header { from: participant.id, to, sequence, at: world.now };
    world.forge(who, &Envelope { header, message });
    Ok(())
}

/// Looks at evidence off line, as anybody could: at that in the refusal of a ticket or, of several tickets,
/// at evidence that a script assembles.
pub fn evidence(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let without = args.option("without").map(|label| world.names.find(&label).cloned());
    let without = without.transpose()?.map(|ticket| ticket.hash());
    let at = args.time_option("at")?;
    let receipts = if args.option("excused").is_some() { receipts(world) } else { Vec::new() };
    let mut tickets = vec![world.names.find(&args.next("the ticket")?)?.clone()];
    while let Some(label) = args.maybe() {
        tickets.push(world.names.find(&label)?.clone());
    }
    let mut evidence = match &tickets[..] {
        [ticket] => refused(world, ticket).ok_or("that ticket was never refused with evidence")?,
        tickets => put_together(tickets)?,
    };
    evidence.at = at.unwrap_or(evidence.at);
    evidence.links.retain(|link| Some(link.hash()) != without);
    let links = evidence
        .links
        .iter()
        .map(|link| format!("{} ({})", world.names.hash(link.hash()), names::right(link)));
    let links = links.collect::<Vec<_>>().join(" and ");
    let parents = evidence.parents.iter();
    let parents: Vec<_> = parents.map(|parent| world.names.ticket_in_full(parent)).collect();
    let (parents, at) = (names::list(parents), names::clock(evidence.at));
    let verdict = match evidence.convicts(Scheme::Ed25519, &receipts) {
        Ok(issuer) => format!("this convicts {}", world.names.actor(issuer)),
        Err(fault) => format!("this convicts nobody: {}", world.names.plain(&fault.to_string())),
    };
    world.say("anybody", &format!("{links} against {parents} at {at}"));
    world.say_below(&verdict);
    Ok(())
}

/// All links of tickets that were cut from one, at the first instant at which all of them run.
fn put_together(tickets: &[Ticket]) -> Result<Evidence, Bad> {
    let parent = |ticket: &Ticket| {
        let links = ticket.links();
        Ticket::try_from(links[..links.len() - 1].to_vec()).map_err(|bad| bad.to_string())
    };
    let mut parents = tickets.iter().map(parent).collect::<Result<Vec<_>, _>>()?;
    parents.dedup();
    let links: Vec<SignedLink> = tickets.iter().map(|ticket| ticket.bottom().clone()).collect();
    let at = links.iter().map(|link| link.term.start()).max().unwrap_or_default();
    Ok(Evidence { parents, links, at })
}

fn refused(world: &World, ticket: &Ticket) -> Option<Evidence> {
    let opened = world.network.sent().iter().filter_map(|packet| packet.sealed.peek().ok());
    let mut evidence = opened.filter_map(|envelope| match envelope.message {
        Message::Refused { subject, refusal: Refusal::Conflict(evidence), .. } => {
            (subject == Subject::Ticket(ticket.hash())).then_some(*evidence)
        }
        _ => None,
    });
    evidence.next()
}

/// Every receipt that was ever on the network.
fn receipts(world: &World) -> Vec<Receipt> {
    let opened = world.network.sent().iter().filter_map(|packet| packet.sealed.peek().ok());
    let receipts = opened.filter_map(|envelope| match envelope.message {
        Message::Closed { receipts, .. }
        | Message::Returned { receipts, .. }
        | Message::Credit { receipts } => Some(receipts),
        _ => None,
    });
    receipts.flatten().collect()
}
