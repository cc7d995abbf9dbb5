//! Sites as users see them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::resource::{Attributes, overbooked};
use tenure_core::model::time::{Term, Time};
use tenure_core::site_authority::unit;
use tenure_core::site_authority::{SiteAuthority, SiteLeaseSurvey, StackSurvey, UnitNotes};

use super::delegation_view::{DelegationView, delegation, level, recalled, setting};
use super::probe::{Found, ProbeView, current};
use super::view::{Names, is_one, lease_name, name, one, plain, time};

/// A site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteView {
    /// Its name.
    pub name: String,
    /// Its id, all 64 digits.
    pub id: String,
    /// Its units.
    pub units: Vec<UnitView>,
    /// Its stocks that are overbooked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overbooked: Vec<OverbookedView>,
    /// Units that are lent to one holder at a time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackView>,
    /// What it has out.
    pub delegations: Vec<DelegationView>,
    /// The leases that are not over.
    pub leases: Vec<SiteLeaseView>,
}

/// A unit at its site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitView {
    /// Its name: site and number.
    pub unit: String,
    /// Its type.
    pub resource: String,
    /// Where it is in its life: free, setting-up, ready, abandoned, tearing-down, quarantined.
    pub state: String,
    /// Its fencing number.
    pub epoch: u64,
    /// How much of a divisible stock it is; 1 for a machine.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub quantity: u32,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is like, beyond what all units of its type are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Whether it gets no new tenant.
    #[serde(default)]
    pub drained: bool,
    /// How often it was set up.
    #[serde(default)]
    pub setups: u32,
    /// In how many tenancies in a row it has failed, when it was set up or later.
    #[serde(default)]
    pub failures: u32,
    /// How it failed, until it is clean again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The lease it is on.
    pub lease: Option<String>,
    /// The properties that its driver reported.
    pub properties: BTreeMap<String, String>,
    /// How it was when it was probed last, if it is on a lease and has been.
    pub probe: Option<ProbeView>,
}

/// A stock of which a site delegates more than it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverbookedView {
    /// The type.
    pub resource: String,
    /// How many units there are.
    pub units: u32,
    /// How many more are delegated.
    pub by: u32,
    /// How many leases came due.
    pub due: u64,
    /// How many of them had to wait, since too few units were there.
    pub short: u64,
    /// The measured probability of that; none before a lease came due.
    pub shortage: Option<f64>,
}

/// A stack of a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StackView {
    /// Its name.
    pub stack: String,
    /// Its units, by their names.
    pub units: Vec<String>,
    /// Who has its token, and when: the first to begin first.
    pub holders: Vec<StackHolder>,
}

/// Who has the token of a stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StackHolder {
    /// Who.
    pub holder: String,
    /// From when.
    pub start: String,
    /// Until when.
    pub end: String,
}

fn stacks(actor: &SiteAuthority, names: &Names, now: Time) -> Vec<StackView> {
    let holder = |(holder, term): &(ActorId, Term)| StackHolder {
        holder: name(names, *holder),
        start: time(term.start()),
        end: time(term.end()),
    };
    let view = |stack: StackSurvey<'_>| StackView {
        stack: stack.name.to_string(),
        units: stack.units.iter().map(ToString::to_string).collect(),
        holders: stack.holders.iter().map(holder).collect(),
    };
    actor.stacks(now).map(view).collect()
}

fn overbooked_stocks(actor: &SiteAuthority) -> Vec<OverbookedView> {
    let view = |(resource, attributes, units): (&Name, &Attributes, u32)| {
        let shortage = actor.shortage(resource)?;
        Some(OverbookedView {
            resource: resource.to_string(),
            units,
            by: overbooked(attributes),
            due: shortage.due,
            short: shortage.short,
            shortage: shortage.millionths().map(|part| f64::from(part) / 1e6),
        })
    };
    actor.inventory().filter_map(view).collect()
}

/// A lease at its site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteLeaseView {
    /// Its name at its holder.
    pub lease: String,
    /// Its name here: the hash of its first ticket.
    pub ticket: String,
    /// Where it is in its life: early, due, priming, active.
    pub state: String,
    /// The type of its units.
    pub resource: String,
    /// How many units it is for.
    pub units: u32,
    /// How many of them it lacks.
    pub lacks: u32,
    /// From when.
    pub start: String,
    /// Until when.
    pub end: String,
}

fn own_attributes(notes: &UnitNotes) -> BTreeMap<String, String> {
    notes.attributes.iter().map(|(key, value)| (key.to_string(), setting(value))).collect()
}

pub(super) fn site(
    info: (&Name, ActorId),
    actor: &SiteAuthority,
    names: &Names,
    (found, now): (&Found, Time),
) -> SiteView {
    let (site, id) = info;
    let lease_of = |lease: &SiteLeaseSurvey<'_>| {
        let holder = name(names, lease.holder);
        lease.id.map_or_else(|| holder.clone(), |id| lease_name(&holder, id))
    };
    let tenant = |state: &unit::State| {
        let lease = actor.lease_survey_of(state.tenant()?)?;
        Some(lease_of(&lease))
    };
    let units = actor.unit_survey().map(|unit| {
        let reported = unit.state.properties();
        let probed = reported.and_then(|_| found.get(&id)?.of(id, unit.id, unit.epoch));
        UnitView {
            unit: format!("{site}/{}", unit.id),
            resource: unit.resource.to_string(),
            state: plain(unit.state.word()),
            epoch: unit.epoch.0,
            quantity: unit.quantity.get(),
            name: unit.notes.and_then(|notes| notes.name.as_ref()).map(ToString::to_string),
            attributes: unit.notes.map(own_attributes).unwrap_or_default(),
            drained: unit.notes.is_some_and(|notes| notes.drained),
            setups: unit.notes.map_or(0, |notes| notes.setups),
            failures: unit.notes.map_or(0, |notes| notes.failures),
            fault: unit.fault.map(str::to_owned),
            lease: tenant(unit.state),
            properties: reported
                .map(|reported| current(reported, probed.as_ref()))
                .unwrap_or_default(),
            probe: probed.as_ref().map(|condition| ProbeView::of(condition, "")),
        }
    });
    let open = actor.lease_survey().filter(|lease| lease.state.word() != "Closed");
    let leases = open.map(|lease| SiteLeaseView {
        lease: lease_of(&lease),
        ticket: lease.ticket.to_string(),
        state: plain(lease.state.word()),
        resource: lease.resource.to_string(),
        units: lease.units,
        lacks: lease.lacks,
        start: time(lease.term.start()),
        end: time(lease.term.end()),
    });
    let delegations = actor.delegation_survey().map(|survey| DelegationView {
        left: survey.held,
        by_hand: survey.by_hand,
        ..recalled(delegation(survey.ticket, names), level(actor, survey.ticket))
    });
    SiteView {
        name: site.to_string(),
        id: id.to_hex(),
        units: units.collect(),
        overbooked: overbooked_stocks(actor),
        stacks: stacks(actor, names, now),
        delegations: delegations.collect(),
        leases: leases.collect(),
    }
}
