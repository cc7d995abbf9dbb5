//! Delegations as users see them, at the site or broker that issued them and at their holders.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_core::broker::HoldingSurvey;
use tenure_core::model::resource::SITE;
use tenure_core::model::time::Time;
use tenure_core::site_authority::SiteAuthority;
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::AccountId;
use tenure_core::wire::recall::Level;
use tenure_expr::Value;

use super::view::{Names, name, stacked, time, weak};

/// Units that a site delegated to a broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelegationView {
    /// The site.
    pub site: String,
    /// The broker.
    pub broker: String,
    /// The type.
    pub resource: String,
    /// How many.
    pub units: u32,
    /// How many are not sold now; at a broker only.
    pub free: Option<i64>,
    /// What they are like; at a broker only.
    pub attributes: BTreeMap<String, String>,
    /// From when.
    pub start: String,
    /// Until when.
    pub end: String,
    /// The hash of its newest generation.
    pub ticket: String,
    /// What users call it: its issuer and its number there.
    #[serde(default)]
    pub name: String,
    /// Who issued it: the site, or a broker.
    #[serde(default)]
    pub issuer: String,
    /// Which generation it is.
    #[serde(default)]
    pub generation: u32,
    /// How many units its holder has left.
    #[serde(default)]
    pub left: u32,
    /// Whether an operator made it, and it is not renewed; at a site only.
    #[serde(default)]
    pub by_hand: bool,
    /// Until when it is promised; of one that a broker issued only.
    #[serde(default)]
    pub promised_until: Option<String>,
    /// What stands behind its units, if that is not a machine for each: `overbooked` or `best-effort`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assurance: Option<String>,
    /// The one unit that it is for, by its site's number, if that shares stacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The stacks whose tokens go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<String>,
    /// How many units stay by its last recall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<u32>,
    /// From when on no more stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays_from: Option<String>,
}

pub(super) fn delegation(ticket: &Ticket, names: &Names) -> DelegationView {
    let link = ticket.bottom();
    let (unit, tokens) = stacked(link);
    DelegationView {
        site: name(names, ticket.site()),
        broker: name(names, link.holder),
        resource: link.resource.to_string(),
        units: link.units.get(),
        free: None,
        attributes: BTreeMap::new(),
        start: time(link.term.start()),
        end: time(link.term.end()),
        ticket: ticket.hash().to_string(),
        name: format!(
            "{}/{}",
            name(names, link.issuer),
            link.delegation.map_or(0, |g| g.delegation)
        ),
        issuer: name(names, link.issuer),
        generation: link.delegation.map_or(0, |generation| generation.generation),
        left: link.units.get(),
        by_hand: false,
        promised_until: None,
        assurance: weak(link.clauses.assurance),
        unit,
        tokens,
        stays: None,
        stays_from: None,
    }
}

/// How many units of a delegation of a site stay, from when on.
pub(super) fn level(site: &SiteAuthority, ticket: &Ticket) -> Option<(u32, Time)> {
    let AccountId::Delegation(id) = ticket.bottom().account() else { return None };
    site.level_of(id).map(|level| (level.units, level.from))
}

/// The same with what stays by a recall, unless it was withdrawn.
pub(super) fn recalled(view: DelegationView, stays: Option<(u32, Time)>) -> DelegationView {
    let stays = stays.filter(|(units, _)| *units < Level::ALL);
    let (stays, from) = stays.unzip();
    DelegationView { stays, stays_from: from.map(time), ..view }
}

pub(super) fn holding(holding: &HoldingSurvey<'_>, names: &Names, now: Time) -> DelegationView {
    let link = holding.ticket.bottom();
    let whole = if link.term.contains(now) { i64::from(link.units.get()) } else { 0 };
    let stays = holding.recalled.map(|told| (told.units, told.at));
    // The site stands beside them.
    let attributes = holding.attributes.iter().filter(|(key, _)| key.as_str() != SITE);
    DelegationView {
        left: holding.left,
        free: Some(holding.free.map_or(whole, |calendar| calendar.free_at(now))),
        attributes: attributes.map(|(key, value)| (key.to_string(), setting(value))).collect(),
        ..recalled(delegation(holding.ticket, names), stays)
    }
}

/// A value as people write it in a configuration: a text without quotes, anything else as its literal.
pub(super) fn setting(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Flag(_) | Value::Quantity(_) | Value::Version(_) | Value::Set(_) => {
            value.to_string()
        }
    }
}
