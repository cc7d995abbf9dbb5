//! The actors of a script, as its `deployment` says.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use tenure_core::actor::{Peer, Peers, Role, Setup};
use tenure_core::broker::Broker;
use tenure_core::broker::mapper::BrokerMapper;
use tenure_core::mapper::co_allocate::CoAllocate;
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::first_fit::FirstFit;
use tenure_core::mapper::pack::Pack;
use tenure_core::mapper::queue::Queue;
use tenure_core::mapper::route::Routed;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::price::PRICE;
use tenure_core::model::resource::{
    Attributes, BEST_EFFORT, CARRIES, DIVISIBLE, ENDS, LATENCY, OVERBOOKED, Value, overbooked,
};
use tenure_core::model::time::{Span, Time};
use tenure_core::runtime::Input;
use tenure_core::runtime::hosted::HostedActor;
use tenure_core::runtime::outbox::RetryPolicy;
use tenure_core::service_manager::ServiceManager;
use tenure_core::site_authority::mapper::SiteAuthorityMapper;
use tenure_core::site_authority::{Offer, Plan, SiteAuthority, Stacks, Stock};

use super::audit::Audit;
use super::gates::Scripted;
use super::keys;
use super::names::Names;
use super::participant::{Build, Identity, Participant, ShellSettings};
use super::script::{Args, Bad};
use super::services;
use super::world::World;

/// Who is there unless the script says.
const ALL: [&str; 4] = ["site site 4 node", "broker broker", "guest guest", "guest rival"];

/// An actor that is not built yet.
struct Draft {
    person: Identity,
    /// Whether it knows nobody, and nobody knows it.
    stranger: bool,
    args: Args,
}

/// Builds the actors and starts them.
pub fn deploy(mut args: Args) -> Result<World, Bad> {
    let now = args.time_option("at")?.unwrap_or(Time::ZERO.plus(Span::HOUR.times(9)));
    let margin = args.span_option("margin")?.unwrap_or(Span::from_secs(10));
    let first = args.span_option("retry")?.unwrap_or(Span::MINUTE.times(10));
    let shell = ShellSettings {
        retry_policy: RetryPolicy { first, longest: first.times(6) },
        clock_check: args.span_option("clock-check")?,
    };
    let clocks_hold = args.option("clocks").is_none_or(|clocks| clocks != "apart");
    let mut below = std::mem::take(&mut args.below);
    args.done()?;
    if below.is_empty() {
        below = ALL.iter().map(|line| Args::of_line(line)).collect();
    }
    let drafts = below.into_iter().map(draft).collect::<Result<Vec<_>, _>>()?;
    let peer = |p: &Identity| (p.signer.id(), Peer { name: p.name.clone(), role: p.role });
    let known = drafts.iter().filter(|draft| !draft.stranger);
    let peers: Peers = known.map(|draft| peer(&draft.person)).collect();
    let mut names = Names::default();
    let mut participants = Vec::new();
    for Draft { person, stranger, mut args } in drafts {
        names.add_actor(person.signer.id(), person.name.clone());
        let (name, signer) = (person.name.clone(), person.signer.clone());
        let peers = if stranger { Peers::default() } else { peers.clone() };
        let setup = Setup { name, signer, margin, peers };
        let build = build(person.role, setup, &mut args)?;
        args.done()?;
        participants.push(Participant::new(person, shell, build));
    }
    let audit = Audit::new(&participants, margin, clocks_hold);
    let mut world = World::new(now, participants, names, audit);
    for who in 0..world.participants.len() {
        world.hand(who, Input::Start);
    }
    world.run()?;
    Ok(world)
}

fn draft(mut args: Args) -> Result<Draft, Bad> {
    let role = match args.next("`site`, `broker` or `guest`")?.as_str() {
        "site" => Role::SiteAuthority,
        "broker" => Role::Broker,
        "guest" => Role::ServiceManager,
        other => return Err(format!("`{other}` is no role; known: site, broker, guest")),
    };
    let name = args.next("the actor's name")?;
    let name = Name::new(&name).map_err(|bad| bad.to_string())?;
    let honest = !args.has("dishonest");
    let stranger = args.has("stranger");
    let ahead = args.span_option("clock")?.unwrap_or(Span::ZERO);
    let signer = keys::secret(&name, 1);
    Ok(Draft { person: Identity { name, signer, role, honest, ahead }, stranger, args })
}

fn build(role: Role, setup: Setup, args: &mut Args) -> Result<Build, Bad> {
    Ok(match role {
        Role::SiteAuthority => {
            let plan = plan(&setup, args)?;
            let packs = match args.option("mapper").as_deref() {
                None => false,
                Some("pack") => true,
                Some(other) => return Err(format!("`{other}` is no mapper of a site in scripts")),
            };
            Box::new(move || {
                let actor = SiteAuthority::new(setup.clone(), plan.clone());
                let mapper: Box<dyn SiteAuthorityMapper> =
                    if packs { Box::new(Pack::default()) } else { Box::new(FirstFit {}) };
                HostedActor::site_authority(actor, mapper)
            })
        }
        Role::Broker => {
            let queue = args.option("queue").is_some();
            let mapper = match args.option("mapper") {
                None => None,
                Some(name) if ["co-allocate", "urgency"].contains(&name.as_str()) => Some(name),
                Some(other) => return Err(format!("`{other}` is no mapper of scripts")),
            };
            let adverts = args.span_option("adverts")?;
            let settings = services::recalls(args)?;
            let price: Option<i64> = args.number_option("price")?;
            let price = price.and_then(|price| u32::try_from(price).ok());
            let prices: BTreeMap<Name, u32> =
                price.map(|price| (Name::literal("node"), price)).into_iter().collect();
            Box::new(move || {
                let queue = if queue { Queue::Wait } else { Queue::Refuse };
                let mapper: Box<dyn BrokerMapper> = match mapper.as_deref() {
                    Some("urgency") => Box::new(settings.clone()),
                    Some(_) => Box::new(CoAllocate::default()),
                    None => Box::new(Fcfs::default().with_queue(queue)),
                };
                let broker = Broker::new(setup.clone()).with_prices(prices.clone());
                let broker = broker.with_swing(mapper.swing()).with_adverts(adverts);
                HostedActor::broker(broker, Box::new(Routed(mapper)))
            })
        }
        Role::ServiceManager => {
            let leave_before = args.span_option("leave-before")?.unwrap_or(Span::ZERO);
            Box::new(move || {
                let actor = ServiceManager::new(setup.clone(), leave_before);
                HostedActor::service_manager(actor, Box::new(Scripted::default()))
            })
        }
    })
}

/// `4 node 2 disk [cpus=8] [price=3] [delegation=30d] [renew=1d] [divisible=disk] [edges=ab:a+b:5ms]
/// [to=broker:4,other:2]`.
fn plan(setup: &Setup, args: &mut Args) -> Result<Plan, Bad> {
    let length = args.span_option("delegation")?.unwrap_or(Span::DAY.times(30));
    let renew_before = args.span_option("renew")?.unwrap_or(Span::DAY);
    let cpus = args.number_option("cpus")?.unwrap_or(8);
    let to = args.option("to");
    let divisible = args.option("divisible");
    let mut attributes = Attributes::from([(Name::literal("cpus"), Value::from(cpus))]);
    if let Some(price) = args.number_option::<i64>("price")? {
        attributes.insert(Name::literal(PRICE), Value::from(price));
    }
    if let Some(more) = args.number_option::<i64>("overbooked")? {
        attributes.insert(Name::literal(OVERBOOKED), Value::from(more));
    }
    if args.option("best-effort").is_some() {
        attributes.insert(Name::literal(BEST_EFFORT), Value::Flag(true));
    }
    let edges = edges(args)?;
    let mut stock = Vec::new();
    while let Some(units) = args.maybe() {
        let units = units.parse().map_err(|_| format!("`{units}` is no number of units"))?;
        let resource =
            Name::new(&args.next("the type of the units")?).map_err(|b| b.to_string())?;
        let mut attributes = attributes.clone();
        if divisible.as_deref() == Some(resource.as_str()) {
            attributes.insert(Name::literal(DIVISIBLE), Value::Flag(true));
        }
        attributes.extend(edges.get(&resource).cloned().unwrap_or_default());
        stock.push(Stock { resource, attributes, units, named: BTreeMap::new() });
    }
    let stacks = stacks(args, &mut stock)?;
    let shares = match to.as_deref() {
        None => setup
            .peers
            .iter()
            .filter(|(_, peer)| peer.role == Role::Broker)
            .take(1)
            .map(|(&id, _)| (id, u32::MAX))
            .collect(),
        Some("nobody") => Vec::new(),
        Some(shares) => {
            shares.split(',').map(|share| self::share(setup, share)).collect::<Result<_, _>>()?
        }
    };
    let offer = |(broker, most): (ActorId, u32), stock: &Stock| {
        let all = stock.units.saturating_add(overbooked(&stock.attributes));
        let units = NonZeroU32::new(all.min(most))?;
        Some(Offer {
            broker,
            resource: stock.resource.clone(),
            units,
            length,
            renew_before,
            unit: None,
        })
    };
    let offers = stock.iter().flat_map(|stock| shares.iter().filter_map(move |&s| offer(s, stock)));
    let offers = offers.collect();
    let quarantine_after = args.number_option("quarantine-after")?;
    Ok(Plan { stock, stacks, offers, quarantine_after })
}

/// `edges=ab:a+b:5ms,bc:b+c:2ms`: the attributes of the types that are edges of `bandwidth`.
fn edges(args: &mut Args) -> Result<BTreeMap<Name, Attributes>, Bad> {
    let edges = args.option("edges").unwrap_or_default();
    let edge = |text: &str| {
        let mut words = text.split(':');
        let (Some(edge), Some(ends), Some(latency)) = (words.next(), words.next(), words.next())
        else {
            return Err(format!("`{text}` is no edge such as ab:a+b:5ms"));
        };
        let ends: Vec<String> = ends.split('+').map(|end| format!("\"{end}\"")).collect();
        let attributes = Attributes::from([
            (Name::literal(DIVISIBLE), Value::Flag(true)),
            (Name::literal(ENDS), Value::read(&format!("{{{}}}", ends.join(", ")))),
            (Name::literal(LATENCY), Value::read(latency)),
            (Name::literal(CARRIES), Value::from("bandwidth")),
        ]);
        Ok((Name::new(edge).map_err(|bad| bad.to_string())?, attributes))
    };
    edges.split(',').filter(|text| !text.is_empty()).map(edge).collect()
}

/// `names=h1,h2,r1,r2 stacks=bench-1:h1+r1,bench-2:h2+r2`: units get the names in their order.
fn stacks(args: &mut Args, stock: &mut [Stock]) -> Result<Stacks, Bad> {
    let named = |name: &str| Name::new(name).map_err(|bad| bad.to_string());
    let names = args.option("names").unwrap_or_default();
    let mut names = names.split(',').filter(|name| !name.is_empty());
    for stock in stock {
        let of_type = names.by_ref().take(stock.units as usize);
        let of_type = of_type.map(|name| Ok((named(name)?, Attributes::new())));
        stock.named = of_type.collect::<Result<_, Bad>>()?;
    }
    let stacks = args.option("stacks").unwrap_or_default();
    let stack = |text: &str| -> Result<_, Bad> {
        let (name, units) = text.split_once(':').ok_or_else(|| format!("`{text}` is no stack"))?;
        let units: BTreeSet<Name> = units.split('+').map(named).collect::<Result<_, _>>()?;
        Ok((named(name)?, units))
    };
    stacks.split(',').filter(|stack| !stack.is_empty()).map(stack).collect()
}

/// `broker:4`.
fn share(setup: &Setup, text: &str) -> Result<(ActorId, u32), Bad> {
    let (name, units) =
        text.split_once(':').ok_or_else(|| format!("`{text}` is not `BROKER:UNITS`"))?;
    let units = units.parse().map_err(|_| format!("`{units}` is no number of units"))?;
    let broker = setup.peers.iter().find(|(_, peer)| peer.name.as_str() == name);
    broker.map(|(&id, _)| (id, units)).ok_or_else(|| format!("there is no broker `{name}`"))
}
