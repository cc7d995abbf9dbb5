//! The system as its users and readers meet it, through the built command and the documents.

#[path = "system/adopt.rs"]
mod adopt;
#[path = "system/machines.rs"]
mod machines;
#[path = "system/formats.rs"]
mod formats;
#[path = "system/fuzz/mod.rs"]
mod fuzz;
#[path = "system/layouts.rs"]
mod layouts;
#[path = "system/emulated_networks.rs"]
mod emulated_networks;
#[path = "system/emulated_services.rs"]
mod emulated_services;
#[path = "system/co_allocation.rs"]
mod co_allocation;
#[path = "system/executor.rs"]
mod executor;
#[path = "system/experiment.rs"]
mod experiment;
#[path = "system/in_place.rs"]
mod in_place;
#[path = "system/network.rs"]
mod network;
#[path = "system/config.rs"]
mod config;
#[path = "system/peers.rs"]
mod peers;
#[path = "system/relays.rs"]
mod relays;
#[path = "system/plans.rs"]
mod plans;
#[path = "system/members.rs"]
mod members;
#[path = "system/service_changes.rs"]
mod service_changes;
#[path = "system/services.rs"]
mod services;
#[path = "system/reports.rs"]
mod reports;
#[path = "system/adapters.rs"]
mod adapters;
#[path = "system/grid_engine.rs"]
mod grid_engine;
#[path = "system/haproxy.rs"]
mod haproxy;
#[path = "system/slurm.rs"]
mod slurm;
#[path = "system/software.rs"]
mod software;
#[path = "system/plan_leases.rs"]
mod plan_leases;
#[path = "system/plan_rules.rs"]
mod plan_rules;
#[path = "system/installs.rs"]
mod installs;
#[path = "system/attacks/mod.rs"]
mod attacks;
#[path = "system/partitions/mod.rs"]
mod partitions;
#[path = "system/takeover.rs"]
mod takeover;
#[path = "system/archive.rs"]
mod archive;
#[path = "system/availability.rs"]
mod availability;
#[path = "system/backup.rs"]
mod backup;
#[path = "system/keys.rs"]
mod keys;
#[path = "system/links.rs"]
pub(crate) mod links;
#[path = "system/inventory.rs"]
mod inventory;
#[path = "system/faults.rs"]
mod faults;
#[path = "system/session_leases.rs"]
mod session_leases;
#[path = "system/sharing.rs"]
mod sharing;
#[path = "system/simulate.rs"]
mod simulate;
#[path = "system/deployment.rs"]
mod deployment;
#[path = "system/leases.rs"]
mod leases;
#[path = "system/drivers.rs"]
mod drivers;
#[path = "system/answers.rs"]
mod answers;
#[path = "../../crates/node/tests/exposition/mod.rs"]
mod exposition;
#[path = "system/service.rs"]
mod service;
#[path = "system/systemd.rs"]
mod systemd;
#[path = "system/wire.rs"]
mod wire;
#[path = "system/package.rs"]
mod package;
#[path = "system/control_api.rs"]
mod control_api;
#[path = "system/sessions.rs"]
mod sessions;
#[path = "system/hardship.rs"]
mod hardship;
#[path = "system/reconfigure.rs"]
mod reconfigure;
#[path = "system/outcomes.rs"]
mod outcomes;
#[path = "system/why.rs"]
mod why;
#[path = "system/requests.rs"]
mod requests;
#[path = "system/documents.rs"]
mod documents;
#[path = "system/coverage.rs"]
mod coverage;
#[path = "system/reference.rs"]
mod reference;
#[path = "system/laws.rs"]
mod laws;
#[path = "system/glossary.rs"]
mod glossary;
#[path = "system/fork.rs"]
mod fork;
#[path = "system/units.rs"]
mod units;
#[path = "system/recall.rs"]
mod recall;
#[path = "system/workspaces.rs"]
mod workspaces;
