//! Plans of packages in scripts: the commands for them, and how they are shown.

use std::collections::BTreeMap;

use serde_json::json;
use tenure_core::mapper::deploy::Deploy;
use tenure_core::model::name::Name;
use tenure_core::runtime::Input;
use tenure_core::service_manager::plan::{
    HOLD, NodePlacement, NodeType, OnFailure, PackageReport, PlanCommand, PlanRequest,
    WantedPackages, WantedPart,
};
use tenure_core::service_manager::{Command as GuestCommand, facts as service_manager};

use super::names;
use super::script::{Args, Bad};
use super::world::World;

/// What the mapper of a guest knows of packages: the guest's driver installs `web`, `cache` and `db`, of
/// which `db` depends on a library; `tool` is installed by the guest's user.
pub fn mapper() -> Deploy {
    let entry = |name: &str, memory: u32| {
        json!({
            "package": package(name),
            "needs": {"memory": memory},
            "artefact": format!("{name}.tar"),
            "sha256": "0".repeat(64),
            "program": [format!("bin/{name}")],
        })
    };
    let mut db = entry("db", 4);
    db["depends"] = json!([package("lib")]);
    let tool = json!({"package": package("tool"), "needs": {"memory": 1}});
    let all = json!([entry("web", 4), entry("cache", 2), db, entry("lib", 1), tool]);
    serde_json::from_value(json!({"package": all, "alternatives": 1})).expect("a catalogue")
}

fn package(name: &str) -> String {
    format!("svc/{name}/1.0/main/1.0")
}

/// The middle of an identity of a package that scripts have.
fn short(package: &str) -> &str {
    package.split('/').nth(1).unwrap_or(package)
}

/// `plan propose guest web*2 db uses=web+db memory=8 hold=10m lease=1h count=2`.
pub fn propose(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = world.index(&args.next("the guest")?)?;
    let slice = args.option("slice").unwrap_or_else(|| "main".to_owned());
    let memory = args.option("memory").unwrap_or_else(|| "8".to_owned());
    let hold = args.span_option("hold")?.unwrap_or(HOLD);
    let lease = args.span_option("lease")?;
    let scope = args.option("scope").unwrap_or_default();
    let scope = scope.split(',').filter(|slice| !slice.is_empty());
    let scope = scope.map(|slice| Name::new(slice).map_err(|bad| bad.to_string()));
    let scope = scope.collect::<Result<_, _>>()?;
    let count = args.option("count").map_or(Ok(0), |count| count.parse());
    let count = count.map_err(|_| "`count` is a number of nodes")?;
    let pairs = |text: Option<String>| -> Result<Vec<(String, String)>, Bad> {
        let text = text.unwrap_or_default();
        let pairs = text.split(',').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| pair.split_once('+').map(|(a, b)| (a.to_owned(), b.to_owned()));
        pairs.map(|text| pair(text).ok_or_else(|| format!("write A+B, not `{text}`"))).collect()
    };
    let uses = pairs(args.option("uses"))?.into_iter().map(|(from, to)| (from, to, 1)).collect();
    let together = pairs(args.option("same-host"))?;
    let on_failure = match args.option("on-failure").as_deref() {
        None | Some("keep") => OnFailure::Keep,
        Some("roll-back") => OnFailure::RollBack,
        Some("replan") => OnFailure::Replan,
        Some(other) => return Err(format!("`{other}` is nothing that a failure leads to")),
    };
    let accept = args.option("accept").is_some();
    let mut parts = Vec::new();
    while let Some(word) = args.maybe() {
        let (name, count) = word
            .split_once('*')
            .map_or((word.as_str(), None), |(name, count)| (name, count.parse().ok()));
        parts.push(part(name, count));
    }
    let capacity = BTreeMap::from([("memory".to_owned(), memory)]);
    let node = NodeType { capacity, count, ..NodeType::default() };
    let slice = Name::new(&slice).map_err(|bad| bad.to_string())?;
    let until = world.participants[who].clock(world.now).plus(hold);
    let request = PlanRequest {
        wanted: WantedPackages {
            nodes: BTreeMap::from([(Name::literal("node"), node)]),
            parts,
            same_host: together.into_iter().map(|(a, b)| vec![a, b]).collect(),
            uses,
            ..WantedPackages::default()
        },
        on_failure,
        accept,
        lease,
        scope,
        ..PlanRequest::new(slice, until)
    };
    hand(world, who, PlanCommand::Propose(Box::new(request)));
    Ok(())
}

fn part(name: &str, count: Option<u32>) -> WantedPart {
    WantedPart { count, package: Some(package(name)), ..WantedPart::new(name) }
}

/// `plan accept guest/1`.
pub fn accept(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, plan) = plan(world, args)?;
    hand(world, who, PlanCommand::Accept { plan });
    Ok(())
}

/// `plan release guest/1`.
pub fn release(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, plan) = plan(world, args)?;
    hand(world, who, PlanCommand::Release { plan });
    Ok(())
}

/// `plan report guest/1 tool site/u0 works`.
pub fn report(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, plan) = plan(world, args)?;
    let package = package(&args.next("the package")?);
    let node = args.next("the node")?;
    let error = match args.next("`works` or `fails`")?.as_str() {
        "works" => None,
        "fails" => Some("the script".to_owned()),
        other => return Err(format!("a package does not `{other}`")),
    };
    let reports = vec![PackageReport { node, package, error }];
    hand(world, who, PlanCommand::Report { plan, reports });
    Ok(())
}

fn plan(world: &World, args: &mut Args) -> Result<(usize, u64), Bad> {
    let word = args.next("the plan")?;
    let (guest, number) = word.split_once('/').ok_or("write the plan as `guest/1`")?;
    let number = number.parse().map_err(|_| format!("`{number}` is no number of a plan"))?;
    Ok((world.index(guest)?, number))
}

fn hand(world: &mut World, who: usize, command: PlanCommand) {
    world.hand(who, Input::Command(GuestCommand::Plan(command).into()));
}

/// What a service manager records of plans.
pub fn of_service_manager(fact: &service_manager::Fact) -> Option<String> {
    use service_manager::Fact;
    Some(match fact {
        Fact::PlanRequested(fact) => {
            let parts = fact.request.wanted.parts.iter().map(|part| match part.count {
                Some(count) => format!("{count} {}", part.name),
                None => part.name.clone(),
            });
            let without = fact.request.excluded.iter();
            let without =
                without.map(|(package, node)| format!("; no {} on {node}", short(package)));
            let replaces = fact.request.replaces.map(|plan| format!(" instead of {plan}"));
            let (slice, until) = (&fact.request.slice, names::clock(fact.request.until));
            format!(
                "plan {}{}, {} in slice {slice} until {until}{}",
                fact.plan,
                replaces.unwrap_or_default(),
                names::list(parts),
                without.collect::<String>()
            )
        }
        Fact::PlanProposed(fact) => {
            let placed = placement(&fact.placed.placement);
            let proven = if fact.placed.proven { "" } else { ", not proven" };
            format!("plan {}: {placed} ({}{proven})", fact.plan, fact.worth)
        }
        Fact::PlanLeasing(fact) => {
            let items = fact.lacking.items.iter();
            let items = items.map(|item| format!("{} {}", item.units, item.resource));
            let has = fact.nodes.keys().cloned();
            let has = if fact.nodes.is_empty() { "nothing".to_owned() } else { names::list(has) };
            format!(
                "plan {} has {has} and lacks {}: request {}",
                fact.plan,
                names::list(items),
                fact.request
            )
        }
        Fact::PlanLeased(fact) => {
            format!("plan {} gets {}", fact.plan, names::list(fact.nodes.keys().cloned()))
        }
        Fact::PlanAccepted(fact) => format!("plan {}", fact.plan),
        Fact::PackageReported(fact) => {
            let how =
                fact.error.as_ref().map_or("is installed".to_owned(), |e| format!("failed: {e}"));
            format!("plan {} #{}, {how}", fact.plan, fact.number)
        }
        Fact::PackageRemoved(fact) => {
            let how = fact.error.as_ref().map_or("is gone".to_owned(), |e| format!("stays: {e}"));
            format!("plan {} #{}, {how}", fact.plan, fact.number)
        }
        Fact::PlanEnded(fact) => {
            let why = fact.why.iter().map(|why| format!("; {why}"));
            format!("plan {} {}{}", fact.plan, fact.outcome.word(), why.collect::<String>())
        }
        Fact::PlanForgotten(fact) => format!("plan {}", fact.plan),
        _ => return None,
    })
}

/// Where each part goes.
fn placement(placement: &NodePlacement) -> String {
    let part = |(part, nodes): (&String, &Vec<String>)| {
        let reused = if placement.reused.contains(part) { " (reused)" } else { "" };
        format!("{part} on {}{reused}", nodes.join(" and "))
    };
    names::list(placement.placement.iter().map(part))
}
