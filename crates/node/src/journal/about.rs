//! An index of the facts about each request, so that the history of one lease is read without the others: written
//! in the transaction of the facts that it points to.
//!
//! A fact of a site names a lease by its ticket, or a unit; two small tables lead from there to the request.
//! Actors and tickets are entered by the first eight bytes of their hashes: readers of the index look at
//! the facts for what they are about.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use tenure_core::driver::UnitId;
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::ActorId;
use tenure_core::model::slice::RequestId;
use tenure_core::runtime::{Entry, Fact};
use tenure_core::site_authority::facts::Fact as F;

use super::JournalError;
use super::rows::{Source, entries_at, entry_at};
use crate::subject::{Subject, step, subject, tenants};

/// About how much a row adds to a log.
const ROW_BYTES: u64 = 512;

/// The origin of the requests of the actor itself.
const OWN: i64 = 0;

/// A request as it is entered.
type Entered = (i64, i64);

/// Enters a fact if it is about a request or a unit. Answers how many bytes that brings.
pub(super) fn enter(
    change: &Connection,
    position: u64,
    fact: &Fact,
) -> Result<u64, rusqlite::Error> {
    if let Fact::SiteAuthority(fact) = fact {
        enter_tenants(change, fact)?;
    }
    let request = match subject(fact) {
        None => None,
        Some(Subject::Own(number)) => Some((number as i64, OWN)),
        Some(Subject::Request(RequestId { origin, number })) => Some((number as i64, of(origin))),
        Some(Subject::Lease(lease)) => of_lease(change, head(lease.hash()))?,
        Some(Subject::Unit(unit)) => match tenant(change, unit)? {
            Some(lease) => of_lease(change, lease)?,
            None => None,
        },
    };
    if let Some((number, origin)) = request {
        let sql = "INSERT INTO about (number, origin, position) VALUES (?1, ?2, ?3)";
        change.prepare_cached(sql)?.execute(params![number, origin, position as i64])?;
    }
    if let Fact::SiteAuthority(fact) = fact {
        enter_step(change, position, fact)?;
    }
    Ok(request.map_or(0, |_| ROW_BYTES))
}

/// Notes the request behind a lease, and which lease units are put on.
fn enter_tenants(change: &Connection, fact: &F) -> Result<(), rusqlite::Error> {
    if let F::Redeemed(fact) = fact {
        let link = fact.ticket.bottom();
        let lease = params![head(link.hash().hash()), fact.lease.number as i64, of(link.holder)];
        let sql = "INSERT OR REPLACE INTO lease (head, number, origin) VALUES (?1, ?2, ?3)";
        change.prepare_cached(sql)?.execute(lease)?;
    }
    let sql = "INSERT INTO unit (unit, lease, times) VALUES (?1, ?2, 0) \
               ON CONFLICT (unit) DO UPDATE SET lease = excluded.lease";
    for (unit, lease) in tenants(fact) {
        change.prepare_cached(sql)?.execute(params![unit.0, head(lease.hash())])?;
    }
    Ok(())
}

/// Notes how the step of a unit ended, and that a lease is forgotten.
fn enter_step(change: &Connection, position: u64, fact: &F) -> Result<(), rusqlite::Error> {
    match step(fact) {
        Some((unit, None)) => {
            let sql = "UPDATE unit SET failed = NULL, times = 0 WHERE unit = ?1 AND times > 0";
            change.prepare_cached(sql)?.execute([unit.0])?;
        }
        Some((unit, Some(_))) => {
            let sql = "INSERT INTO unit (unit, failed, times) VALUES (?1, ?2, 1) \
                       ON CONFLICT (unit) DO UPDATE SET failed = excluded.failed, times = times + 1";
            change.prepare_cached(sql)?.execute(params![unit.0, position as i64])?;
        }
        None => {}
    }
    if let F::LeaseForgotten(fact) = fact {
        let sql = "DELETE FROM lease WHERE head = ?1";
        change.prepare_cached(sql)?.execute([head(fact.lease.hash())])?;
    }
    Ok(())
}

fn of_lease(connection: &Connection, lease: i64) -> Result<Option<Entered>, rusqlite::Error> {
    let sql = "SELECT number, origin FROM lease WHERE head = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row([lease], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

fn tenant(connection: &Connection, unit: UnitId) -> Result<Option<i64>, rusqlite::Error> {
    let mut statement = connection.prepare_cached("SELECT lease FROM unit WHERE unit = ?1")?;
    Ok(statement.query_row([unit.0], |row| row.get(0)).optional()?.flatten())
}

/// Enters all facts of a journal that has no index yet.
pub(super) fn enter_all(source: Source<'_>) -> Result<(), JournalError> {
    let Source { path, connection: change, .. } = source;
    let failed = |cause| JournalError::sqlite(path, "write", &cause);
    let sql = "SELECT coalesce(max(position) + 1, 0) FROM fact";
    let count: i64 = change.query_row(sql, [], |row| row.get(0)).map_err(failed)?;
    for position in 0..count as u64 {
        let entry = entry_at(source, position)?;
        enter(change, position, &entry.fact).map_err(failed)?;
    }
    Ok(())
}

/// The facts that are entered under a request, in order. `owner` is whose journal it is.
pub(super) fn under(
    source: Source<'_>,
    (owner, request): (ActorId, RequestId),
) -> Result<Vec<(u64, Entry)>, JournalError> {
    let Source { path, connection, .. } = source;
    let origin = if request.origin == owner { OWN } else { of(request.origin) };
    let sql = "SELECT position FROM about WHERE number = ?1 AND origin = ?2 ORDER BY position";
    let positions = || {
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map([request.number as i64, origin], |row| row.get(0))?;
        rows.collect::<Result<Vec<i64>, rusqlite::Error>>()
    };
    let positions = positions().map_err(|cause| JournalError::reading(path, 0, &cause))?;
    let positions: Vec<u64> = positions.into_iter().map(|position| position as u64).collect();
    let entries = entries_at(source, positions.iter().copied())?;
    Ok(positions.into_iter().zip(entries).collect())
}

/// Of which units failed steps are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FailedUnits<'a> {
    /// Of these.
    Of(&'a [UnitId]),
    /// Of all, the fact being before this position.
    Before(u64),
}

/// A step of a unit that failed, and none has gone well since.
#[derive(Clone, Debug)]
pub(crate) struct FailedStep {
    /// The position of the last such fact.
    pub(crate) position: u64,
    /// It.
    pub(crate) entry: Entry,
    /// How many there are.
    pub(crate) times: u32,
}

/// The most units in which steps have failed that are told at a time.
const MAX_FAILED: usize = 1000;

/// The units whose last step failed: of these, or of all, before a position.
pub(super) fn failed(
    source: Source<'_>,
    which: FailedUnits<'_>,
) -> Result<BTreeMap<UnitId, FailedStep>, JournalError> {
    let Source { path, connection, .. } = source;
    let sql = "SELECT unit, failed, times FROM unit WHERE failed < ?1";
    let look = || {
        let row =
            |row: &Row<'_>| Ok((UnitId(row.get(0)?), row.get::<_, i64>(1)? as u64, row.get(2)?));
        match which {
            FailedUnits::Before(position) => {
                let mut statement = connection.prepare(sql)?;
                let found = statement.query_map([position as i64], row)?;
                found.take(MAX_FAILED).collect::<Result<Vec<_>, _>>()
            }
            FailedUnits::Of(units) => {
                let mut statement = connection.prepare(&format!("{sql} AND unit = ?2"))?;
                let found = units.iter().filter_map(|unit| {
                    statement.query_row([i64::MAX, i64::from(unit.0)], row).optional().transpose()
                });
                found.collect()
            }
        }
    };
    let found = look().map_err(|cause| JournalError::reading(path, 0, &cause))?;
    let step = |(unit, position, times)| {
        let entry = entry_at(source, position)?;
        Ok((unit, FailedStep { position, entry, times }))
    };
    found.into_iter().map(step).collect()
}

fn of(actor: ActorId) -> i64 {
    i64::from_be_bytes(actor.first_bytes())
}

/// The first eight bytes.
fn head(hash: Hash) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = hash.to_bytes();
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}
