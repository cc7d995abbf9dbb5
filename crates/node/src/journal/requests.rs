//! An index of the requests that have an idempotency key: written in the transaction of the facts that it
//! points to, so that a key is answered without a look at the others.

use rusqlite::{Connection, params};
use tenure_core::runtime::{Entry, Fact};
use tenure_core::service_manager::facts::Fact as F;

use super::JournalError;
use super::rows::{Source, entries_at, entry_at};

/// The request property that carries the key.
pub(crate) const KEY: &str = "request.id";

/// About how much a row adds to a log: the pages that it changes.
const ROW_OVERHEAD: u64 = 2 * 4096;

/// What a fact says of a request.
enum Mention<'a> {
    /// It was made, under this key.
    Made(&'a str, u64),
    /// A part of it was refused, or it was given up.
    CameToNothing(u64),
}

fn mention(fact: &Fact) -> Option<Mention<'_>> {
    let Fact::ServiceManager(fact) = fact else { return None };
    if let F::Asked(fact) = fact {
        let key = fact.request.properties.get(KEY)?;
        return Some(Mention::Made(key, fact.request.id.number));
    }
    let number = if let F::AskRefused(fact) = fact {
        fact.number
    } else if let F::GaveUp(fact) = fact {
        fact.number
    } else if let F::RedeemRefused(fact) = fact {
        fact.lease.number
    } else if let F::SiteClosed(fact) = fact {
        fact.refusal.as_ref()?;
        fact.lease.number
    } else {
        return None;
    };
    Some(Mention::CameToNothing(number))
}

/// Enters a fact if it is about a request with a key. Answers how many bytes that brings.
pub(super) fn enter(
    transaction: &Connection,
    position: u64,
    fact: &Fact,
) -> Result<u64, rusqlite::Error> {
    let rows = match mention(fact) {
        None => 0,
        Some(Mention::Made(key, number)) => transaction
            .prepare_cached("INSERT INTO request (key, number, position) VALUES (?1, ?2, ?3)")?
            .execute(params![key, number as i64, position as i64])?,
        Some(Mention::CameToNothing(number)) => transaction
            .prepare_cached(
                "INSERT INTO request (key, number, position) \
                 SELECT key, number, ?2 FROM request WHERE number = ?1 LIMIT 1",
            )?
            .execute(params![number as i64, position as i64])?,
    };
    Ok(rows as u64 * ROW_OVERHEAD)
}

/// Enters all facts of a journal that has no index yet.
pub(super) fn enter_all(source: Source<'_>) -> Result<(), JournalError> {
    let Source { path, connection, .. } = source;
    let failed = |cause| JournalError::sqlite(path, "write", &cause);
    let kinds = "'service-manager.asked', 'service-manager.ask-refused', 'service-manager.gave-up', \
                 'service-manager.redeem-refused', 'service-manager.site-closed'";
    let sql = format!("SELECT position FROM fact WHERE kind IN ({kinds}) ORDER BY position");
    for position in positions(connection, &sql, []).map_err(failed)? {
        let entry = entry_at(source, position)?;
        enter(connection, position, &entry.fact).map_err(failed)?;
    }
    Ok(())
}

/// The facts about the newest request under a key: the request, and those by which it came to nothing. None
/// if there is no such request.
pub(super) fn under(source: Source<'_>, key: &str) -> Result<Vec<Entry>, JournalError> {
    let Source { path, connection, .. } = source;
    let sql = "SELECT position FROM request WHERE key = ?1 \
               AND number = (SELECT max(number) FROM request WHERE key = ?1) ORDER BY position";
    let positions = positions(connection, sql, [key]);
    let positions = positions.map_err(|cause| JournalError::reading(path, 0, &cause))?;
    entries_at(source, positions)
}

fn positions(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<u64>, rusqlite::Error> {
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map(parameters, |row| row.get::<_, i64>(0))?;
    rows.map(|position| position.map(|position| position as u64)).collect()
}
