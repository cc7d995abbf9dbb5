//! Mappers and drivers that are given to a run: mappers that see their views as text, and that take their
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tenure_core::actor::Role;
use tenure_core::broker::mapper::{self as broker, BrokerMapper};
use tenure_core::driver::{Answer, Call, DriverError, ResourceDriver, UnitId};
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::mapper::first_fit::FirstFit;
use tenure_core::mapper::registry::Registry;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::Span;
use tenure_core::service_manager::mapper::{self as service_manager, ServiceManagerMapper};
use tenure_core::site_authority::mapper::{self as site_authority, SiteAuthorityMapper};
use tenure_sim::emulation::{Emulation, Inputs, Progress};
use tenure_sim::participants::{Driver, Plugins};
use tenure_sim::report::Report;

use crate::equivalence::{demands, quick};

/// A mapper in another process, as far as it can tell: its view and its decision pass as JSON.
#[derive(Deserialize)]
struct Remote<M>(M);

/// What comes out of a process into which `value` was written.
fn piped<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

impl BrokerMapper for Remote<Fcfs> {
    fn decide(&self, view: &broker::View) -> broker::Decision {
        piped(&self.0.decide(&piped(view)))
    }
}

impl SiteAuthorityMapper for Remote<FirstFit> {
    fn decide(&self, view: &site_authority::View) -> site_authority::Decision {
        piped(&self.0.decide(&piped(view)))
    }
}

/// The mapper of service managers that a scenario has unless it names another.
type Adaptive = tenure_core::mapper::adaptive::Adaptive;

impl ServiceManagerMapper for Remote<Adaptive> {
    fn decide(&self, view: &service_manager::View) -> service_manager::Decision {
        piped(&self.0.decide(&piped(view)))
    }
}

fn run(sets: &[&str]) -> Report {
    let mappers = Registry::default()
        .with_broker::<Remote<Fcfs>>("remote")
        .with_site_authority::<Remote<FirstFit>>("remote")
        .with_service_manager::<Remote<Adaptive>>("remote");
    run_with(Plugins { mappers, ..Plugins::default() }, sets)
}

fn run_with(plugins: Plugins, sets: &[&str]) -> Report {
    let scenario = quick(sets);
    let inputs = Inputs { demand: demands(&scenario), plugins };
    let mut emulation = Emulation::new(&scenario, &inputs).unwrap();
    while emulation.step().unwrap() != Progress::Done {}
    emulation.report()
}

#[test]
fn mappers_that_see_their_views_as_text_decide_alike() {
    let remote = [
        "broker.exchange.mapper.name=remote",
        "site.alpha.mapper.name=remote",
        "site.beta.mapper.name=remote",
        "service-manager.guest.mapper.name=remote",
        "service-manager.guest.mapper.term=30m",
        "service-manager.guest.mapper.extend-before=1m",
    ];
    let here =
        ["service-manager.guest.mapper.term=30m", "service-manager.guest.mapper.extend-before=1m"];
    let (remote, here) = (run(&remote), run(&here));
    assert_eq!(remote.notes, here.notes);
    assert_eq!(remote.journal_hash, here.journal_hash);
    assert!(here.setups > 0);
}

#[test]
fn a_mapper_that_takes_its_time_delays_what_it_decides_and_nothing_else() {
    let (quick, slow) = (run(&[]), run(&["broker.exchange.mapper-delay=20s"]));
    assert_ne!(quick.journal_hash, slow.journal_hash);
    assert!(slow.setups > 0 && slow.setups <= quick.setups);
    assert!(slow.rmse > quick.rmse, "units come later: {} and {}", slow.rmse, quick.rmse);
}

/// A site's driver that counts its calls.
struct Counting(Arc<AtomicU64>);

impl ResourceDriver for Counting {
    fn perform(&self, _: &Call) -> Answer {
        self.0.fetch_add(1, Ordering::SeqCst);
        Answer { outcome: Ok(Properties::default()), after: Span::SECOND }
    }

    fn probe(&self, _: ActorId, _: UnitId) -> Result<Properties, DriverError> {
        Ok(Properties::default())
    }
}

#[test]
fn a_driver_that_is_given_to_a_run_performs_its_steps() {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let at_alpha = move |name: &Name, role: Role| {
        let chosen = role == Role::SiteAuthority && name.as_str() == "alpha";
        chosen.then(|| Driver::Site(Box::new(Counting(Arc::clone(&counted)))))
    };
    let plugins = Plugins { drivers: Some(Arc::new(at_alpha)), ..Plugins::default() };
    let (report, calls) = (run_with(plugins, &[]), calls.load(Ordering::SeqCst));
    assert!(calls > 0 && calls < report.setups + report.teardowns, "{calls} calls");
}
