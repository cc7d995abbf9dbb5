//! Delegations by hand, and what brokers give back of them.

use tenure_core::actor::Role;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::resource::Attributes;
use tenure_core::model::time::Term;
use tenure_core::runtime::Input;
use tenure_core::site_authority::Command as SiteCommand;
use tenure_core::ticket::link::{Clauses, DelegationId, Generation, Link, SignedLink};
use tenure_core::wire::message::Message;

use super::forge::say;
use super::language::of_role;
use super::names;
use super::script::{Args, Bad};
use super::world::World;

/// A site delegates units to a broker; a broker, out of a delegation of its own.
pub fn delegate(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = world.index(&args.next("the site or broker")?)?;
    let to = world.id(of_role(world, &args.next("the broker")?, Role::Broker)?);
    let (units, resource) = (args.number("the number of units")?, args.next("the type")?);
    let length = args.span_option("for")?.ok_or("for= is missing")?;
    let grow = args.number_option("grow")?;
    let command = match args.option("from") {
        Some(label) => {
            let from = delegation(world, &label)?;
            BrokerCommand::Delegate { to, from, units, length, grow }.into()
        }
        None => {
            let resource = Name::new(&resource).map_err(|bad| bad.to_string())?;
            SiteCommand::Delegate { broker: to, resource, units, length, grow }.into()
        }
    };
    world.hand(who, Input::Command(command));
    Ok(())
}

/// A broker gives back units of a delegation that it holds.
pub fn give_back(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = of_role(world, &args.next("the broker")?, Role::Broker)?;
    let delegation = delegation(world, &args.next("the delegation")?)?;
    let units = args.number("the number of units")?;
    let from = args.time_option("from")?;
    world.hand(who, Input::Command(BrokerCommand::Return { delegation, units, from }.into()));
    Ok(())
}

/// A broker delegates past its own ledger, `under` a number of its choice.
pub fn forge(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = of_role(world, &args.next("the broker")?, Role::Broker)?;
    let holder = world.id(of_role(world, &args.next("the broker")?, Role::Broker)?);
    let units = args.number("the number of units")?;
    let parent = world.names.find(&args.option("from").ok_or("from= is missing")?)?.clone();
    let duration = args.span_option("for")?.ok_or("for= is missing")?;
    let above = parent.bottom();
    let delegation = args.number_option("number")?.unwrap_or_else(|| world.next_forgery());
    let issuer: ActorId = world.id(who);
    let link = Link {
        parent: Some(above.hash()),
        issuer,
        holder,
        resource: above.resource.clone(),
        units,
        term: Term::lasting(world.now, duration).map_err(|bad| bad.to_string())?,
        constraints: above.constraints.clone(),
        clauses: Clauses::NONE,
        delegation: Some(Generation { delegation, generation: 0 }),
        extends: None,
        serial: world.next_forgery(),
    };
    let ticket = parent.with(SignedLink::sign(link, world.forger(who)));
    let (label, right) = (world.names.ticket(&ticket), names::right(ticket.bottom()));
    world.say("somebody", &format!("delegates {label} past its ledger: {right}"));
    say(world, who, holder, Message::Delegate { ticket, attributes: Attributes::default() })
}

/// The delegation of that label.
fn delegation(world: &World, label: &str) -> Result<DelegationId, Bad> {
    let link = world.names.find(label)?.bottom();
    let generation = link.delegation.ok_or_else(|| format!("`{label}` is no delegation"))?;
    Ok(DelegationId { issuer: link.issuer, number: generation.delegation })
}
