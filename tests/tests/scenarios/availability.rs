//! Questions what is free in scripts: the command for them, and how they are shown.

use tenure_core::model::name::Name;
use tenure_core::model::resource::Constraints;
use tenure_core::model::time::Term;
use tenure_core::runtime::Input;
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::wire::inquiry::{Availability, Inquiry};
use tenure_core::wire::message::Message;

use super::names;
use super::script::{Args, Bad};
use super::world::World;

/// A guest asks all brokers what is free.
pub fn inquire(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = world.index(&args.next("the guest")?)?;
    let resource = args.option("type").map(|name| Name::new(&name)).transpose();
    let resource = resource.map_err(|error| error.to_string())?;
    let start = args.time_option("from")?.ok_or("from when on? `from=10:00`")?;
    let duration = args.span_option("for")?.ok_or("for how long? `for=1h`")?;
    let term = Term::new(start, start.plus(duration)).map_err(|error| error.to_string())?;
    let inquiry = Inquiry { resource, requirements: Constraints::NONE, term };
    world.hand(who, Input::Command(GuestCommand::Inquire { broker: None, inquiry }.into()));
    Ok(())
}

/// What a message says of what is free.
pub fn message(message: &Message) -> Option<String> {
    match message {
        Message::Inquire(inquiry) => Some(names::term(inquiry.term)),
        Message::Available { availability: Availability::Stocks { stocks, .. }, .. } => {
            let free = stocks.iter().map(|stock| {
                format!("{} of {} {} at {}", stock.free, stock.units, stock.resource, stock.site)
            });
            Some(free.collect::<Vec<_>>().join(", "))
        }
        Message::Available { availability, .. } => Some(format!("{availability:?}")),
        _ => None,
    }
}
