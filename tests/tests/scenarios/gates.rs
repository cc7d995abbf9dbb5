//! What the mapper of a guest answers of leases that are at gates, of plans, and of services.

use std::collections::BTreeMap;

use tenure_core::model::property::Properties;
use tenure_core::model::slice::LeaseId;
use tenure_core::runtime::mapper::AnyMapper;
use tenure_core::service_manager::GateAnswer;
use tenure_core::service_manager::mapper::{Decision, GateChoice, ServiceManagerMapper, View};

use super::language::{lease, pair};
use super::plans;
use super::script::{Args, Bad};
use super::services;
use super::world::World;

/// A service manager's mapper that wants nothing: the script commands, also what it answers at gates.
#[derive(Clone, Default)]
pub struct Scripted {
    gates: BTreeMap<LeaseId, GateAnswer>,
}

impl ServiceManagerMapper for Scripted {
    fn decide(&self, view: &View) -> Decision {
        let choice = |lease: LeaseId| {
            let answer = self.gates.get(&lease)?.clone();
            Some(GateChoice { lease, answer, reason: "the script".to_owned() })
        };
        let gates = view.gates().iter().filter_map(|gate| choice(gate.lease)).collect();
        let mut decision = plans::mapper().decide(view);
        let of_services = services::mapper().decide(view);
        decision.asks.extend(of_services.asks);
        decision.revisions.extend(of_services.revisions);
        decision.extensions.extend(of_services.extensions);
        decision.flexes.extend(of_services.flexes);
        decision.closes.extend(of_services.closes);
        let wake = decision.wake.into_iter().chain(of_services.wake).min();
        Decision { gates, memo: of_services.memo, wake, ..decision }
    }
}

/// What is answered of a lease from now on.
pub fn answer(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    let answer = match args.next("`goes-on`, `waits` or `gives-up`")?.as_str() {
        "goes-on" => {
            let with = args.option("with").map(|text| pair(&text)).transpose()?;
            let with = with.into_iter().collect::<BTreeMap<_, _>>();
            GateAnswer::GoOn(Properties::try_from(with).map_err(|bad| bad.to_string())?)
        }
        "waits" => {
            let on = args.option("on").ok_or("on= is missing")?;
            let on: Result<Vec<u64>, _> = on.split(',').map(str::parse).collect();
            GateAnswer::Wait(on.map_err(|_| "on= takes numbers of requests".to_owned())?)
        }
        "gives-up" => GateAnswer::GiveUp,
        other => return Err(format!("a mapper cannot answer `{other}`")),
    };
    let participant = &mut world.participants[who];
    participant.scripted.gates.insert(lease, answer);
    participant.mapper = AnyMapper::ServiceManager(Box::new(participant.scripted.clone()));
    Ok(())
}
