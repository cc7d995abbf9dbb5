//! `--retain`: what is in units of a session at its end is kept for a while.
//!
//! The session's leases end with it. What they leave is put into a unit of type `archive` at the same site, by the site's
//! driver, and that unit is leased for longer, outside of the session.

use std::collections::BTreeMap;
use std::str::FromStr;

use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::time::{BadSpan, Span};
use tenure_node::api::{LeaseName, LeaseRequest, LeaseView, Request};

use super::Wanted;
use crate::error::Error;
use crate::live::args::Endpoint;
use crate::live::{ask, connect, lease};

/// The type of the units that contents are put into, and the slice of their leases.
const ARCHIVE: &str = "archive";

/// The property of a unit's configuration that tells the site's driver which unit its contents are put into.
const RETAIN_IN: &str = "retain.in";

/// What is kept, and for how long after the session could last.
#[derive(Clone, Debug)]
pub(super) struct Retained {
    resource: Name,
    lasting: Span,
}

impl FromStr for Retained {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (resource, lasting) =
            text.split_once('=').ok_or("write a type and a time, such as workspace=24h")?;
        Ok(Self {
            resource: Name::new(resource).map_err(|e| e.to_string())?,
            lasting: lasting.parse().map_err(|error: BadSpan| error.to_string())?,
        })
    }
}

/// Leases a unit for what each of these leases is to leave, and has the leases say so. Answers the further leases.
pub(super) fn retain(
    endpoint: &Endpoint,
    leases: &[LeaseView],
    wanted: &Wanted,
) -> Result<Vec<LeaseView>, Error> {
    let Some(retained) = &wanted.retain else { return Ok(Vec::new()) };
    let of_type: Vec<&LeaseView> =
        leases.iter().filter(|lease| lease.resource == retained.resource.as_str()).collect();
    if of_type.is_empty() {
        let message = format!("--retain: there is no {} among the units", retained.resource);
        return Err(Error::Wrong(message));
    }
    let mut archives = Vec::new();
    for kept in of_type {
        let made = archive(endpoint, kept, wanted, retained.lasting);
        let told = made.and_then(|archive| {
            let told = put_into(endpoint, kept, &archive, wanted.timeout);
            archives.push(archive);
            told
        });
        if let Err(error) = told {
            archives.iter().for_each(|archive| give_back(endpoint, archive));
            return Err(error);
        }
    }
    Ok(archives)
}

/// A unit beside a lease, for as long as that could last and `lasting` more.
fn archive(
    endpoint: &Endpoint,
    kept: &LeaseView,
    wanted: &Wanted,
    lasting: Span,
) -> Result<LeaseView, Error> {
    let name = lease::name_of(kept)?;
    let duration = wanted.duration.longest.plus(lasting);
    let request = LeaseRequest {
        manager: name.manager.clone(),
        broker: wanted.broker.clone(),
        // Once for each lease, also if the session asks for that by name again.
        id: Some(format!("retain/{}", kept.lease)),
        with: Some(name),
        reason: format!("for what is left of {}", kept.lease),
        ..LeaseRequest::new(Name::literal(ARCHIVE), format!("1 {ARCHIVE}"), duration)
    };
    let mut client = connect(&endpoint.data)?;
    let asked: LeaseView = client.ask(&Request::Ask(Box::new(request)))?;
    let name = LeaseName { part: None, ..lease::name_of(&asked)? };
    let leases = lease::until(&mut client, &name, wanted.timeout, lease::is_settled)?;
    match leases.into_iter().next() {
        Some(archive) if archive.state != "closed" => Ok(archive),
        Some(refused) => Err(Error::NotGranted(Box::new(refused))),
        None => Err(Error::Wrong(format!("{} has no leases", asked.lease))),
    }
}

/// Has the site's driver put what a lease leaves into the unit of another one.
fn put_into(
    endpoint: &Endpoint,
    kept: &LeaseView,
    archive: &LeaseView,
    timeout: Span,
) -> Result<(), Error> {
    let unit = archive.in_hand.first().and_then(|unit| unit.unit.rsplit('/').next());
    let unit = unit.ok_or_else(|| Error::Wrong(format!("{} has no unit", archive.lease)))?;
    let change = BTreeMap::from([(Name::literal(RETAIN_IN), unit.to_owned())]);
    let configuration =
        Properties::try_from(change).map_err(|error| Error::Wrong(error.to_string()))?;
    let name = lease::name_of(kept)?;
    let request = Request::Modify { lease: name.clone(), configuration };
    let _: Vec<LeaseView> = ask(&endpoint.data, &request)?;
    let mut client = connect(&endpoint.data)?;
    let leases = lease::until(&mut client, &name, timeout, |lease| lease.returning.is_none())?;
    let told =
        |lease: &LeaseView| lease.configuration.get(RETAIN_IN).is_some_and(|in_it| in_it == unit);
    match leases.iter().all(told) {
        true => Ok(()),
        false => Err(Error::NotModified(kept.lease.clone())),
    }
}

/// Gives a lease back that nothing will be put into. If nobody can be asked, it ends by itself.
fn give_back(endpoint: &Endpoint, archive: &LeaseView) {
    if let Ok(lease) = lease::name_of(archive) {
        let close = Request::Close { lease, by: None, force: false };
        let _: Result<Vec<LeaseView>, Error> = ask(&endpoint.data, &close);
    }
}
