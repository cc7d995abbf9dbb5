//! What owners and operators of a site do to its units.

use tenure_core::driver::Epoch;
use tenure_core::model::name::Name;
use tenure_core::model::resource::Value;
use tenure_core::runtime::Input;
use tenure_core::site_authority::Command as SiteCommand;

use super::language::{name, site, unit};
use super::script::{Args, Bad};
use super::world::World;

/// An owner adds units of a type.
pub fn stock(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = site(world, args)?;
    let (units, resource) = (args.number("the number of units")?, args.next("the type")?);
    let resource = name(&resource)?;
    world.hand(who, Input::Command(SiteCommand::Stock { resource, units }.into()));
    Ok(())
}

/// An owner withdraws units of a type.
pub fn withdraw(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = site(world, args)?;
    let (units, resource) = (args.number("the number of units")?, args.next("the type")?);
    let resource = name(&resource)?;
    world.hand(who, Input::Command(SiteCommand::Withdraw { resource, units }.into()));
    Ok(())
}

/// An operator adds a unit with a name.
pub fn add(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = site(world, args)?;
    let (name, resource) = (name(&args.next("the name")?)?, name(&args.next("the type")?)?);
    let attributes = args.option("rack").map(|rack| (Name::literal("rack"), Value::read(&rack)));
    let attributes = attributes.into_iter().collect();
    world.hand(who, Input::Command(SiteCommand::Add { resource, name, attributes }.into()));
    Ok(())
}

/// A unit gets no new tenant.
pub fn drain(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, unit) = (site(world, args)?, unit(&args.next("the unit")?)?);
    let by = args.time_option("by")?;
    world.hand(who, Input::Command(SiteCommand::Drain { unit, by }.into()));
    Ok(())
}

/// A drained unit is in service again.
pub fn resume(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, unit) = (site(world, args)?, unit(&args.next("the unit")?)?);
    world.hand(who, Input::Command(SiteCommand::Resume { unit }.into()));
    Ok(())
}

/// A free unit is taken out of use.
pub fn quarantine(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, unit) = (site(world, args)?, unit(&args.next("the unit")?)?);
    let why = args.option("why").unwrap_or_default();
    world.hand(who, Input::Command(SiteCommand::Quarantine { unit, why }.into()));
    Ok(())
}

/// A unit fails that a lease has, or had in an epoch.
pub fn fail(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, unit) = (site(world, args)?, unit(&args.next("the unit")?)?);
    let why = args.option("why").unwrap_or_default();
    let epoch = args.number_option("epoch")?.map(Epoch);
    world.hand(who, Input::Command(SiteCommand::Fail { unit, epoch, why }.into()));
    Ok(())
}

/// An idle unit is withdrawn.
pub fn remove(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, unit) = (site(world, args)?, unit(&args.next("the unit")?)?);
    world.hand(who, Input::Command(SiteCommand::Remove { unit }.into()));
    Ok(())
}

/// A quarantined unit is put right.
pub fn reset(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, unit) = (site(world, args)?, unit(&args.next("the unit")?)?);
    world.hand(who, Input::Command(SiteCommand::Reset { unit }.into()));
    Ok(())
}
