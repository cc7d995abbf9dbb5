//! The protocol of the core from outside: what it promises whatever the others do.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

mod common;

#[path = "protocol/availability.rs"]
mod availability;
#[path = "protocol/tickets.rs"]
mod tickets;
#[path = "protocol/encoding.rs"]
mod encoding;
#[path = "protocol/keys.rs"]
mod keys;
#[path = "protocol/ledger.rs"]
mod ledger;
#[path = "protocol/evidence.rs"]
mod evidence;
#[path = "protocol/site_under_attack.rs"]
mod site_under_attack;
#[path = "protocol/broker_under_attack.rs"]
mod broker_under_attack;
#[path = "protocol/handed_over.rs"]
mod handed_over;
#[path = "protocol/portions.rs"]
mod portions;
#[path = "protocol/adverts.rs"]
mod adverts;
#[path = "protocol/heartbeats.rs"]
mod heartbeats;
#[path = "protocol/guest_under_attack.rs"]
mod guest_under_attack;
#[path = "protocol/receipts.rs"]
mod receipts;
#[path = "protocol/returns.rs"]
mod returns;
#[path = "protocol/revisions.rs"]
mod revisions;
#[path = "protocol/in_place.rs"]
mod in_place;
#[path = "protocol/recall.rs"]
mod recall;
#[path = "protocol/recall_delegation.rs"]
mod recall_delegation;
#[path = "protocol/extension.rs"]
mod extension;
#[path = "protocol/deadlines.rs"]
mod deadlines;
#[path = "protocol/drivers.rs"]
mod drivers;
#[path = "protocol/mappers.rs"]
mod mappers;
#[path = "protocol/members.rs"]
mod members;
#[path = "protocol/hosts.rs"]
mod hosts;
#[path = "protocol/services.rs"]
mod services;
#[path = "protocol/recovery.rs"]
mod recovery;
#[path = "protocol/snapshots.rs"]
mod snapshots;
#[path = "protocol/chaos.rs"]
mod chaos;
#[path = "protocol/conservation.rs"]
mod conservation;
#[path = "protocol/bounds.rs"]
mod bounds;
#[path = "protocol/budgets.rs"]
mod budgets;
#[path = "protocol/setup.rs"]
mod setup;
#[path = "protocol/old_tickets.rs"]
mod old_tickets;
#[path = "protocol/orders.rs"]
mod orders;
#[path = "protocol/swings.rs"]
mod swings;
#[path = "protocol/delegations.rs"]
mod delegations;
#[path = "protocol/resale.rs"]
mod resale;
#[path = "protocol/asking.rs"]
mod asking;
#[path = "protocol/several_brokers.rs"]
mod several_brokers;
#[path = "protocol/quotas.rs"]
mod quotas;
#[path = "protocol/reference.rs"]
mod reference;
#[path = "protocol/grants.rs"]
mod grants;
#[path = "protocol/reference_site.rs"]
mod reference_site;
#[path = "protocol/preferred.rs"]
mod preferred;
#[path = "protocol/leaving.rs"]
mod leaving;
#[path = "protocol/lenders.rs"]
mod lenders;
#[path = "protocol/redeem_by.rs"]
mod redeem_by;
#[path = "protocol/warnings.rs"]
mod warnings;
