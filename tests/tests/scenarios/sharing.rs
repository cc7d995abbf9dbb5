//! What brokers share with each other, brokers that are drained, and requests that brokers pass on.

use tenure_core::actor::Role;
use tenure_core::actor::invitations::{Newcomer, PeerRelation};
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::broker::facts::{self as broker, NeighbourSet, RelationPlanned, SharingSet};
use tenure_core::broker::forwarding::{Accepted, Neighbour, Reach};
use tenure_core::broker::machine::Tickets;
use tenure_core::broker::sharing::Sharing;
use tenure_core::runtime::{AnyActor, Input};
use tenure_core::wire::advert::{Advert, AdvertEntry, Entries};
use tenure_core::wire::handover::{Handover, Outcome};
use tenure_core::wire::message::Message;
use tenure_core::wire::portion::{Portion, PortionOutcome, Units};

use super::language::{name, of_role};
use super::names::{Names, clock};
use super::script::{Args, Bad};
use super::values::{self, offered, offers, refusal};
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

/// A broker passes requests on to another one, which takes them from now on: any, or of these types and lengths.
pub fn forward(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = of_role(world, &args.next("the broker")?, Role::Broker)?;
    let to = of_role(world, &args.next("the other broker")?, Role::Broker)?;
    let types = args.option("types");
    let types = types.iter().flat_map(|all| all.split(',')).map(name).collect::<Result<_, _>>()?;
    let accepted = Accepted { types, longest: args.span_option("longest")? };
    agree(world, (who, to), |with| with.forward = true);
    agree(world, (to, who), |with| with.accept = Some(accepted));
    Ok(())
}

/// Changes what is agreed with another broker.
fn agree(world: &mut World, (who, with): (usize, usize), change: impl FnOnce(&mut Neighbour)) {
    let with = world.id(with);
    let known = match world.participants[who].host.actor() {
        AnyActor::Broker(broker) => broker.neighbours(world.now),
        AnyActor::ServiceManager(_) | AnyActor::SiteAuthority(_) => Vec::new(),
    };
    let known = known.into_iter().find(|known| known.with == with);
    let mut neighbour = known.map(|known| known.neighbour).unwrap_or_default();
    change(&mut neighbour);
    world.hand(who, Input::Command(BrokerCommand::SetNeighbour { with, neighbour }.into()));
}

/// What a fact about sharing or about passing on says.
pub fn describe(names: &Names, fact: &broker::Fact) -> Option<String> {
    use broker::Fact;
    Some(match fact {
        Fact::SharingSet(fact) => set(names, fact),
        Fact::LotOpened(fact) => {
            format!("for {}, cut from {}", names.actor(fact.with), names.delegation(fact.from, 0))
        }
        Fact::NeighbourSet(fact) => agreed(names, fact),
        Fact::RelationPlanned(fact) => planned(names, fact),
        Fact::RequestSealed(fact) => {
            let Reach { hops, asks } = fact.reach;
            format!("{}, {hops} times and to {asks} brokers", names.request(fact.request))
        }
        Fact::RequestHanded(fact) => {
            let path = fact.handover.path.iter().map(|broker| names.actor(*broker));
            let path = path.collect::<Vec<_>>().join(", ");
            format!("{} by {path}", names.request(fact.request))
        }
        Fact::RequestPassed(fact) => {
            let (to, until) = (names.actor(fact.to), clock(fact.until));
            format!("{} to {to} until {until} ({})", names.request(fact.request), fact.reason)
        }
        Fact::OfferPassed(fact) => {
            format!("{}, offer {}", names.request(fact.request), fact.offer)
        }
        Fact::PassAnswered(fact) => {
            let (request, from) = (names.request(fact.request), names.actor(fact.from));
            let outcome = outcome(names, &fact.outcome);
            format!("{request} by {from}: {outcome}")
        }
        Fact::PassLapsed(fact) => names.request(fact.request),
        Fact::PortionHanded(_)
        | Fact::PortionPassed(_)
        | Fact::PortionAnswered(_)
        | Fact::PortionReserved(_)
        | Fact::PortionsTaken(_)
        | Fact::PortionsGranted(_)
        | Fact::PortionsReleased(_) => return in_portions(names, fact),
        Fact::SellingSet(fact) => if fact.sells { "sells" } else { "drained" }.to_owned(),
        _ => return None,
    })
}

/// What a fact about a request that several brokers meet together says.
fn in_portions(names: &Names, fact: &broker::Fact) -> Option<String> {
    use broker::Fact;
    Some(match fact {
        Fact::PortionHanded(fact) => {
            let path = fact.handover.path.iter().map(|broker| names.actor(*broker));
            let path = path.collect::<Vec<_>>().join(", ");
            format!("{} by {path}: {}", names.request(fact.request), portion(&fact.portion))
        }
        Fact::PortionPassed(fact) => {
            let (to, until) = (names.actor(fact.to), clock(fact.until));
            format!("{} to {to} until {until} ({})", names.request(fact.request), fact.reason)
        }
        Fact::PortionAnswered(fact) => {
            let (request, from) = (names.request(fact.request), names.actor(fact.from));
            format!("{request} by {from}: {}", portion_outcome(names, &fact.outcome))
        }
        Fact::PortionReserved(fact) => {
            let why = values::because(names, fact.refusal.as_ref());
            format!("{}{why}", names.request(fact.request))
        }
        Fact::PortionsTaken(fact) => names.request(fact.request),
        Fact::PortionsGranted(fact) => names.request(fact.request),
        Fact::PortionsReleased(fact) => {
            let next = fact.next.map(|next| format!(", again from {}", clock(next)));
            format!("{}{}", names.request(fact.request), next.unwrap_or_default())
        }
        _ => return None,
    })
}

/// A portion of a request.
pub fn portion(portion: &Portion) -> String {
    let Portion { round, start, units, until } = portion;
    let (start, until) = (clock(*start), clock(*until));
    format!("{} from {start} until {until}, round {round}", units_of(units))
}

/// `3 of item 0, 1 of item 2`
fn units_of(units: &Units) -> String {
    let each = units.iter().map(|(item, units)| format!("{units} of item {item}"));
    each.collect::<Vec<_>>().join(", ")
}

/// What became of a portion.
pub fn portion_outcome(names: &Names, outcome: &PortionOutcome) -> String {
    match outcome {
        PortionOutcome::Held { units, until, refusal } => {
            let why = values::because(names, refusal.as_ref());
            format!("holds {} until {}{why}", units_of(units), clock(*until))
        }
        PortionOutcome::Granted(all) => granted(names, all),
        PortionOutcome::Refused(why) => refusal(names, why),
        PortionOutcome::Seen => "seen".to_owned(),
    }
}

fn planned(names: &Names, fact: &RelationPlanned) -> String {
    let who = match fact.newcomer {
        Newcomer::Invited(number) => format!("who comes with invitation {number}"),
        Newcomer::Inviter(id) => names.actor(id),
    };
    let most =
        |units: Option<u32>| units.map_or_else(String::new, |units| format!(", at most {units}"));
    match fact.relation {
        PeerRelation::Share { units } => format!("shares with {who}{}", most(units)),
        PeerRelation::Forward { units } => {
            format!("forwards to {who}, takes what is passed on{}", most(units))
        }
    }
}

fn agreed(names: &Names, fact: &NeighbourSet) -> String {
    let with = names.actor(fact.with);
    let Some(Neighbour { forward, accept }) = &fact.neighbour else {
        return format!("nothing with {with}");
    };
    let forward = if *forward { "forwards" } else { "forwards nothing" };
    let accept = accept.as_ref().map_or("takes nothing", |_| "takes what is passed on");
    format!("{forward} to {with}, {accept}")
}

/// A request that is handed on.
pub fn handover(names: &Names, handover: &Handover) -> String {
    let Handover { sealed, hops, asks, answer_by, .. } = handover;
    let what = match sealed.peek().map(|envelope| envelope.message) {
        Ok(Message::Request(request)) => {
            format!("{}, {}", names.request(request.id), values::request(names, &request))
        }
        Ok(_) | Err(_) => "no request".to_owned(),
    };
    let by = clock(*answer_by);
    format!("{what}, {hops} times more and to {asks} brokers, until {by}")
}

/// What a broker tells of itself.
pub fn advert(Advert { lasts, entries }: &Advert) -> String {
    let entries = match entries {
        Entries::All(all) if all.is_empty() => "nothing".to_owned(),
        Entries::All(all) => all.iter().map(entry).collect::<Vec<_>>().join(", "),
        Entries::Same(_) => "as before".to_owned(),
    };
    format!("{entries}, for {lasts}")
}

fn entry(entry: &AdvertEntry) -> String {
    let AdvertEntry { hops, resource, free, next, .. } = entry;
    let free = free.map_or_else(|| "some".to_owned(), |free| free.to_string());
    let next = next.map(|next| format!(" (again at {})", clock(next))).unwrap_or_default();
    format!("{free} {resource} at {hops}{next}")
}

/// What became of a request at another broker.
pub fn outcome(names: &Names, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Granted(all) => granted(names, all),
        Outcome::Refused(why) => refusal(names, why),
        Outcome::Countered(why, made) => {
            format!("{}{}", refusal(names, why), offered(names, made))
        }
        Outcome::Offered(made, until) => {
            let held = until.map(|until| format!(", held until {}", clock(until)));
            format!("{}{}", offers(names, made), held.unwrap_or_default())
        }
        Outcome::Seen => "seen".to_owned(),
    }
}

fn granted(names: &Names, tickets: &Tickets) -> String {
    let all = tickets.iter().map(|(_, ticket)| names.hash(ticket.hash()));
    format!("granted {}", all.collect::<Vec<_>>().join(", "))
}

fn set(names: &Names, fact: &SharingSet) -> String {
    let with = names.actor(fact.with);
    let Some(Sharing { units, reserve, notice, term }) = fact.sharing else {
        return format!("nothing with {with}");
    };
    let units = units.map_or_else(|| "all".to_owned(), |units| units.to_string());
    format!("{units} but {reserve} with {with} for {term}, recalled within {notice}")
}
