//! Services in scripts: the commands for them, and how they are shown.

use serde_json::{Map, Value, json};
use tenure_core::broker::facts as broker;
use tenure_core::broker::orders::UnitOrder;
use tenure_core::mapper::slo::Slo;
use tenure_core::mapper::urgency::Urgency;
use tenure_core::model::name::Name;
use tenure_core::runtime::Input;
use tenure_core::service::kpi::Kpis;
use tenure_core::service_manager::services::{Found, ServiceCommand};
use tenure_core::service_manager::{Command as GuestCommand, facts as service_manager};
use tenure_core::wire::need::Need;

use super::names::{self, Names};
use super::script::{Args, Bad};
use super::world::World;

/// What asks for units of services, and gives them back.
pub fn mapper() -> Slo {
    Slo::default()
}

/// The settings of a broker's mapper `urgency`: `stable-for=0s min-tenure=10m budget=50%/1h min-gain=5`.
pub fn recalls(args: &mut Args) -> Result<Urgency, Bad> {
    let mut recall = Map::new();
    for key in ["min-tenure", "budget", "stable-for", "hold"] {
        let value = args.option(key).map(|value| value.replace('/', " per "));
        recall.extend(value.map(|value| (key.to_owned(), Value::String(value))));
    }
    let gain = args.number_option::<u64>("min-gain")?;
    recall.extend(gain.map(|gain| ("min-gain".to_owned(), json!(gain))));
    serde_json::from_value(json!({ "recall": recall })).map_err(|bad| bad.to_string())
}

/// `service add guest batch most=8`, and below it a line such as `wait 55 'busy-units + pending-units' rule 'oldest-wait < 10m'`
/// for each SLO.
pub fn add(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, service) = service(world, args)?;
    let mut behaviour = Map::new();
    for key in ["mode", "term", "idle-after", "stale-after", "notice", "min-tenure"] {
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

/// `service report guest batch busy-units=4 oldest-wait=12m`.
pub fn report(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, service) = service(world, args)?;
    let seen = match args.option("seen").as_deref() {
        None | Some("running") => Found::Running,
        Some("stopped") => Found::Stopped,
        Some("failed") => Found::Failed,
        Some(other) => return Err(format!("a service is not seen `{other}`")),
    };
    let kpis: Result<Kpis, _> = serde_json::from_value(json!(args.all_options()));
    let kpis = kpis.map_err(|bad| bad.to_string())?;
    hand(world, who, ServiceCommand::Report { service, kpis, seen });
    Ok(())
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
        Fact::ServiceReported(fact) => {
            let seen = match fact.seen {
                Found::Running => "runs",
                Found::Stopped => "is stopped",
                Found::Failed => "has failed",
            };
            let kpis = fact.kpis.iter().map(|(kpi, value)| format!("{kpi} {value}"));
            format!("{} {seen}, {}", fact.service, names::list(kpis))
        }
        Fact::ServiceStale(fact) => fact.service.to_string(),
        Fact::SloAssessed(fact) => {
            let want = fact.want.map_or("what is not known".to_owned(), |want| want.to_string());
            format!("{}, {} is {} and wants {want}", fact.service, fact.slo, fact.met.word())
        }
        Fact::NeedStated(fact) => need(names, &fact.need),
        Fact::NeedAnswered(fact) => fact.service.to_string(),
        _ => return None,
    })
}

/// What a broker records of services.
pub fn of_broker(names: &Names, fact: &broker::Fact) -> Option<String> {
    use broker::Fact;
    Some(match fact {
        Fact::NeedNoted(fact) => {
            format!("{}'s {}", names.actor(fact.guest), need(names, &fact.need))
        }
        Fact::OrderPlaced(fact) => {
            let UnitOrder { claimant, holder, ticket, units, claim, worth, .. } = &fact.order;
            let (to, of, ticket) = (&claimant.service, &holder.service, names.hash(*ticket));
            let due = names::clock(fact.due);
            format!(
                "order {}, {units} of {of}'s {ticket} for {to} at {due}, worth {claim} instead of {worth}",
                fact.number
            )
        }
        Fact::OrderEnded(fact) => {
            format!("order {}, {} ({})", fact.order, fact.outcome.word(), fact.reason)
        }
        _ => return None,
    })
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
