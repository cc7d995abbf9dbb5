//! What brokers share with each other, and brokers that are drained.

use tenure_core::actor::Role;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::broker::facts::{self as broker, SharingSet};
use tenure_core::broker::sharing::Sharing;
use tenure_core::runtime::Input;

use super::language::of_role;
use super::names::Names;
use super::script::{Args, Bad};
use super::world::World;

/// A broker shares units with another one from now on.
pub fn share(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = of_role(world, &args.next("the broker")?, Role::Broker)?;
    let with = world.id(of_role(world, &args.next("the other broker")?, Role::Broker)?);
    let usual = Sharing::default();
    let sharing = Sharing {
        units: args.number_option("units")?,
        reserve: args.number_option("reserve")?.unwrap_or(usual.reserve),
        notice: args.span_option("notice")?.unwrap_or(usual.notice),
        term: args.span_option("term")?.unwrap_or(usual.term),
    };
    world.hand(who, Input::Command(BrokerCommand::Share { with, sharing }.into()));
    Ok(())
}

/// A broker stops to sell.
pub fn drain(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    sell(world, args, false)
}

/// A broker sells again.
pub fn resume(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    sell(world, args, true)
}

fn sell(world: &mut World, args: &mut Args, sells: bool) -> Result<(), Bad> {
    let who = of_role(world, &args.next("the broker")?, Role::Broker)?;
    world.hand(who, Input::Command(BrokerCommand::Sell(sells).into()));
    Ok(())
}

/// What a fact about sharing says.
pub fn describe(names: &Names, fact: &broker::Fact) -> Option<String> {
    use broker::Fact;
    Some(match fact {
        Fact::SharingSet(fact) => set(names, fact),
        Fact::LotOpened(fact) => {
            format!("for {}, cut from {}", names.actor(fact.with), names.delegation(fact.from, 0))
        }
        Fact::SellingSet(fact) => if fact.sells { "sells" } else { "drained" }.to_owned(),
        _ => return None,
    })
}

fn set(names: &Names, fact: &SharingSet) -> String {
    let with = names.actor(fact.with);
    let Some(Sharing { units, reserve, notice, term }) = fact.sharing else {
        return format!("nothing with {with}");
    };
    let units = units.map_or_else(|| "all".to_owned(), |units| units.to_string());
    format!("{units} but {reserve} with {with} for {term}, recalled within {notice}")
}
