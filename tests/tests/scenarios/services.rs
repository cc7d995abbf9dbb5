//! Services in scripts: the commands for them, and how they are shown.

use serde_json::{Map, Value, json};
use tenure_core::broker::facts::{self as broker, BoundsSet};
use tenure_core::broker::orders::UnitOrder;
use tenure_core::driver::UnitId;
use tenure_core::mapper::slo::Slo;
use tenure_core::mapper::urgency::Urgency;
use tenure_core::model::name::Name;
use tenure_core::runtime::Input;
use tenure_core::service::kpi::Kpis;
use tenure_core::service::member::{MemberId, Members};
use tenure_core::service_manager::advice::Advice;
use tenure_core::service_manager::ambiguity::Claimant;
use tenure_core::service_manager::services::{Found, ServiceCommand, SiteUnit};
use tenure_core::service_manager::{Command as GuestCommand, facts as service_manager};
use tenure_core::wire::hosts::{Contest, ForeignClaim, Hosts};
use tenure_core::wire::need::Need;

use super::names::{self, Names};
use super::script::{Args, Bad};
use super::world::World;

/// What asks for units of services, and gives them back.
pub fn mapper() -> Slo {
    Slo::default()
}

/// The settings of a broker's mapper `urgency`: `stable-for=0s min-tenure=10m budget=50%/1h min-gain=5 orders=advise
/// policy=aged fade=2h`, `notice=5m`, `policy=shares share=web/pages:50% lend=web/pages:25%`.
pub fn recalls(args: &mut Args) -> Result<Urgency, Bad> {
    let mut recall = Map::new();
    for key in ["notice", "min-tenure", "budget", "stable-for", "hold"] {
        let value = args.option(key).map(|value| value.replace('/', " per "));
        recall.extend(value.map(|value| (key.to_owned(), Value::String(value))));
    }
    let gain = args.number_option::<u64>("min-gain")?;
    recall.extend(gain.map(|gain| ("min-gain".to_owned(), json!(gain))));
    recall.extend(args.option("orders").map(|mode| ("mode".to_owned(), Value::String(mode))));
    let mut policy = Map::new();
    policy.insert("name".to_owned(), json!(args.option("policy").unwrap_or("priority".to_owned())));
    for key in ["fade", "least"] {
        policy.extend(args.option(key).map(|value| (key.to_owned(), Value::String(value))));
    }
    for (option, key) in [("share", "service"), ("lend", "lend")] {
        let Some(text) = args.option(option) else { continue };
        let (service, part) = text.split_once(':').ok_or("write a part as web/pages:50%")?;
        policy.insert(key.to_owned(), json!({ service: part }));
    }
    let settings = json!({ "recall": recall, "policy": policy });
    serde_json::from_value(settings).map_err(|bad| bad.to_string())
}

/// `service add guest batch most=8`, and below it a line such as `wait 55 'busy-units + pending-units' rule 'oldest-wait < 10m'`
/// for each SLO.
pub fn add(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, service) = service(world, args)?;
    let mut behaviour = Map::new();
    for key in [
        "mode",
        "term",
        "idle-after",
        "stale-after",
        "notice",
        "min-tenure",
        "deadband",
        "blacklist-for",
    ] {
        behaviour.extend(args.option(key).map(|value| (key.to_owned(), Value::String(value))));
    }
    for key in ["most", "least"] {
        let number = args.number_option::<u32>(key)?;
        behaviour.extend(number.map(|number| (key.to_owned(), json!(number))));
    }
    let mut slos = Map::new();
    for mut line in std::mem::take(&mut args.below) {
        let name = line.next("the name of the SLO")?;
        let mut slo =
            json!({"urgency": line.number::<u32>("the urgency")?, "want": quoted(&mut line)?});
        if line.has("rule") {
            slo["rule"] = json!(quoted(&mut line)?);
        }
        if line.has("where") {
            slo["where"] = json!(quoted(&mut line)?);
        }
        line.done()?;
        slos.insert(name, slo);
    }
    let definition = serde_json::from_value(json!({"slo": slos, "behaviour": behaviour}));
    let definition = Box::new(definition.map_err(|bad| bad.to_string())?);
    hand(world, who, ServiceCommand::Define { service, definition });
    Ok(())
}

fn quoted(line: &mut Args) -> Result<String, Bad> {
    let word = line.next("an expression")?;
    let text = word.strip_prefix('\'').ok_or("an expression stands between single quotes")?;
    Ok(text.to_owned())
}

/// `service remove guest batch`.
pub fn remove(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, service) = service(world, args)?;
    hand(world, who, ServiceCommand::Remove { service });
    Ok(())
}

/// `service report guest batch busy-units=4 oldest-wait=12m members=node7,node8:down busy=site/u1:90`.
pub fn report(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, service) = service(world, args)?;
    let seen = match args.option("seen").as_deref() {
        None | Some("running") => Found::Running,
        Some("stopped") => Found::Stopped,
        Some("failed") => Found::Failed,
        Some("starting") => Found::Starting,
        Some("shutdown") => Found::Shutdown,
        Some(other) => return Err(format!("a service is not seen `{other}`")),
    };
    let busy = args.option("busy").unwrap_or_default();
    let busy = busy.split(',').filter(|unit| !unit.is_empty());
    let busy = busy.map(|text| {
        let (unit, work) = text.split_once(':').unwrap_or((text, "0"));
        let work = work.parse().map_err(|_| format!("`{work}` is no work"))?;
        Ok((site_unit(world, unit)?, work))
    });
    let busy: Result<_, Bad> = busy.collect();
    let busy = busy?;
    let mut members = Members::default();
    let all = args.option("members").unwrap_or_default();
    for member in all.split(',').filter(|member| !member.is_empty()) {
        let down = member.strip_suffix(":down");
        members.insert(down.unwrap_or(member), down.is_none()).map_err(|bad| bad.to_string())?;
    }
    let kpis: Result<Kpis, _> = serde_json::from_value(json!(args.all_options()));
    let kpis = kpis.map_err(|bad| bad.to_string())?;
    hand(world, who, ServiceCommand::Report { service, kpis, seen, busy, members });
    Ok(())
}

/// `service blacklist guest batch site/u1 for=1h`, or without `for` not any more.
pub fn blacklist(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, service) = service(world, args)?;
    let unit = site_unit(world, &args.next("a unit, such as site/u1")?)?;
    let until = args.span_option("for")?.map(|span| world.now.plus(span));
    hand(world, who, ServiceCommand::Blacklist { service, unit, until });
    Ok(())
}

/// `service resolve guest own1 batch`.
pub fn resolve(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = world.index(&args.next("the guest")?)?;
    let member = MemberId::new(&args.next("a host")?).map_err(|bad| bad.to_string())?;
    let service = Name::new(&args.next("the service")?).map_err(|bad| bad.to_string())?;
    let keep = Claimant { service, unit: None };
    hand(world, who, ServiceCommand::Resolve { member, keep });
    Ok(())
}

/// `service cede guest own1.example.org`.
pub fn cede(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = world.index(&args.next("the guest")?)?;
    let member = MemberId::new(&args.next("a host")?).map_err(|bad| bad.to_string())?;
    hand(world, who, ServiceCommand::Cede { member });
    Ok(())
}

fn site_unit(world: &World, text: &str) -> Result<SiteUnit, Bad> {
    let bad = || format!("`{text}` is no unit, such as site/u1");
    let (site, unit) = text.split_once('/').ok_or_else(bad)?;
    let unit = unit.strip_prefix('u').and_then(|unit| unit.parse().ok()).ok_or_else(bad)?;
    Ok((world.id(world.index(site)?), UnitId(unit)))
}

fn service(world: &World, args: &mut Args) -> Result<(usize, Name), Bad> {
    let who = world.index(&args.next("the guest")?)?;
    let service = Name::new(&args.next("the service")?).map_err(|bad| bad.to_string())?;
    Ok((who, service))
}

fn hand(world: &mut World, who: usize, command: ServiceCommand) {
    world.hand(who, Input::Command(GuestCommand::Service(command).into()));
}

/// What a service manager records of services.
pub fn of_service_manager(names: &Names, fact: &service_manager::Fact) -> Option<String> {
    use service_manager::Fact;
    Some(match fact {
        Fact::ServiceDefined(fact) => {
            let slos = fact.definition.slo.iter();
            let slos = slos.map(|(name, slo)| format!("{name} at {}", slo.urgency));
            format!("{} with {}", fact.service, names::list(slos))
        }
        Fact::ServiceRemoved(fact) => fact.service.to_string(),
        Fact::ServiceReported(fact) => reported(names, fact),
        Fact::WorkTold(fact) => {
            let work =
                |(unit, work): &(SiteUnit, u64)| format!("{} {work}", site_unit_name(names, *unit));
            format!("{} loses of {}", fact.service, names::list(fact.work.iter().map(work)))
        }
        Fact::MembersTold(fact) => {
            let member = |(id, up)| format!("{id}{}", if up { "" } else { " (down)" });
            let members = fact.members.iter().map(member);
            match fact.members.is_empty() {
                true => format!("{} has none", fact.service),
                false => format!("{} has {}", fact.service, names::list(members)),
            }
        }
        Fact::MemberAmbiguous(fact) => {
            let by = fact.claims.iter().map(|claim| claimant(names, &claim.by));
            match fact.claims.is_empty() {
                true => format!("{} is not any more", fact.member),
                false => format!("{} is claimed by {}", fact.member, names::list(by)),
            }
        }
        Fact::AmbiguitySettled(fact) => {
            let by = fact.by.map_or(String::new(), |by| format!(" by {by:?}"));
            format!("{} is that of {}{by}", fact.member, claimant(names, &fact.keep))
        }
        Fact::ServiceStale(fact) => fact.service.to_string(),
        Fact::SloAssessed(fact) => {
            let want = fact.want.map_or("what is not known".to_owned(), |want| want.to_string());
            format!("{}, {} is {} and wants {want}", fact.service, fact.slo, fact.met.word())
        }
        Fact::ServiceAdvised(fact) => format!("{}: {}", fact.service, advice(&fact.advice)),
        Fact::UnitBlacklisted(fact) => {
            let unit = site_unit_name(names, fact.unit);
            let until = fact.until.map(|until| format!("until {}", names::clock(until)));
            format!("{}, {unit} {}", fact.service, until.unwrap_or("not any more".to_owned()))
        }
        Fact::NeedStated(fact) => need(names, &fact.need),
        Fact::NeedAnswered(fact) => fact.service.to_string(),
        Fact::MemberContested(fact) => {
            let own = fact.claims.iter().map(|claim| claimant(names, &claim.by));
            let others = fact.others.iter().map(|other| foreign(names, &other.claim));
            let all = own.chain(others);
            format!("{} is claimed by {}", fact.member, names::list(all))
        }
        Fact::MemberCeded(fact) => {
            let by = fact.by.map_or(String::new(), |by| format!(" by {by:?}"));
            format!("{} is another guest's{by}", fact.member)
        }
        Fact::HostsStated(fact) => hosts(&fact.hosts),
        Fact::HostsAnswered(fact) => contests(names, &fact.service, &fact.contests),
        _ => return None,
    })
}

fn reported(names: &Names, fact: &service_manager::ServiceReported) -> String {
    let seen = match fact.seen {
        Found::Running => "runs",
        Found::Stopped => "is stopped",
        Found::Failed => "has failed",
        Found::Starting => "is starting",
        Found::Shutdown => "is shutting down",
    };
    let busy = fact.busy.iter().map(|unit| site_unit_name(names, *unit));
    let busy = match fact.busy.is_empty() {
        true => String::new(),
        false => format!("; busy are {}", names::list(busy)),
    };
    let kpis = fact.kpis.iter().map(|(kpi, value)| format!("{kpi} {value}"));
    format!("{} {seen}, {}{busy}", fact.service, names::list(kpis))
}

fn claimant(names: &Names, by: &Claimant) -> String {
    let unit = by.unit.map(|unit| format!(" for {}", site_unit_name(names, unit)));
    format!("{}{}", by.service, unit.unwrap_or_default())
}

fn site_unit_name(names: &Names, (site, unit): SiteUnit) -> String {
    format!("{}/{unit}", names.actor(site))
}

fn advice(advice: &Advice) -> String {
    let Advice { asks, returns, extensions } = advice;
    let asks = asks.iter().map(|(kind, units)| format!("ask for {units} {}", kind.resource));
    let returns = returns
        .iter()
        .map(|(lease, units)| format!("give {units} of lease {} back", names::lease(*lease)));
    let extensions = extensions
        .iter()
        .map(|(lease, units)| format!("keep {units} of lease {}", names::lease(*lease)));
    let all: Vec<String> = asks.chain(returns).chain(extensions).collect();
    if all.is_empty() { "nothing".to_owned() } else { names::list(all) }
}

/// What a broker records of services.
pub fn of_broker(names: &Names, fact: &broker::Fact) -> Option<String> {
    use broker::Fact;
    Some(match fact {
        Fact::NeedNoted(fact) => {
            format!("{}'s {}", names.actor(fact.guest), need(names, &fact.need))
        }
        Fact::HostsNoted(fact) => {
            format!("{}'s {}", names.actor(fact.guest), hosts(&fact.hosts))
        }
        Fact::BoundsSet(fact) => bounds(fact),
        Fact::OrderPlaced(fact) => {
            let due = format!(" at {}", names::clock(fact.due));
            format!("order {}, {}", fact.number, ordered(names, &fact.order, &due))
        }
        Fact::OrdersAdvised(fact) => {
            let orders = fact.orders.iter().map(|order| ordered(names, order, ""));
            let orders: Vec<String> = orders.collect();
            if orders.is_empty() { "nothing".to_owned() } else { orders.join("; ") }
        }
        Fact::OrderEnded(fact) => {
            format!("order {}, {} ({})", fact.order, fact.outcome.word(), fact.reason)
        }
        _ => return None,
    })
}

fn bounds(fact: &BoundsSet) -> String {
    let BoundsSet { resource, tenure, most, window } = fact;
    match most {
        Some(most) => format!("{most} of {resource} in {window}, each after {tenure}"),
        None => format!("any number of {resource}, each after {tenure}"),
    }
}

fn ordered(names: &Names, order: &UnitOrder, due: &str) -> String {
    let UnitOrder { claimant, holder, ticket, units, claim, worth, .. } = order;
    let (to, of, ticket) = (&claimant.service, &holder.service, names.hash(*ticket));
    format!("{units} of {of}'s {ticket} for {to}{due}, worth {claim} instead of {worth}")
}

/// Which hosts a service uses.
pub fn hosts(hosts: &Hosts) -> String {
    let leased = hosts.hosts.iter().filter(|claim| claim.lease.is_some()).count();
    match (leased, hosts.hosts.len() - leased) {
        (0, 0) => format!("{} uses no hosts", hosts.service),
        (leased, own) => format!("{} uses {own} hosts and {leased} that are leased", hosts.service),
    }
}

/// Who else claims them.
pub fn contests(names: &Names, service: &Name, contests: &[Contest]) -> String {
    let others = contests.iter().map(|contest| foreign(names, &contest.claim));
    match contests.is_empty() {
        true => format!("{service}, and nobody else uses its hosts"),
        false => format!("{service}, and its hosts are used by {}", names::list(others)),
    }
}

fn foreign(names: &Names, claim: &ForeignClaim) -> String {
    let by = claim.by.as_ref();
    let by = by.map(|(guest, service)| format!("{}'s {service}", names.actor(*guest)));
    let ticket = claim.ticket.map(|ticket| format!(" on {}", names.hash(ticket)));
    format!("{}{}", by.unwrap_or("somebody".to_owned()), ticket.unwrap_or_default())
}

/// For which services statements are asked for again.
pub fn restate(needs: &[Name], hosts: &[Name]) -> String {
    let list = |what: &str, services: &[Name]| match services.is_empty() {
        true => format!("no {what}"),
        false => format!("{what} of {}", names::list(services.iter().map(Name::to_string))),
    };
    format!("knowing {} and {}", list("needs", needs), list("hosts", hosts))
}

/// What a service wants and has.
pub fn need(names: &Names, need: &Need) -> String {
    let wants = need.wants.iter().map(|want| {
        let steps = want.steps.iter().map(|step| {
            let claims = step.claim.map_or(String::new(), |claim| format!(" (claimed at {claim})"));
            format!("{} at {}{claims}", step.units, step.urgency)
        });
        let tickets = want.tickets.iter().map(|ticket| names.hash(*ticket));
        let has = match (want.tickets.is_empty(), want.elsewhere) {
            (true, 0) => "nothing".to_owned(),
            (true, elsewhere) => format!("{elsewhere} elsewhere"),
            (false, 0) => names::list(tickets),
            (false, elsewhere) => format!("{} and {elsewhere} elsewhere", names::list(tickets)),
        };
        let steps: Vec<String> = steps.collect();
        let steps = if steps.is_empty() { "nothing".to_owned() } else { steps.join(", ") };
        format!("{} {steps}; has {has}", want.kind.resource)
    });
    let wants: Vec<String> = wants.collect();
    let wants = if wants.is_empty() { "nothing".to_owned() } else { wants.join("; ") };
    format!("{} wants {wants}", need.service)
}
