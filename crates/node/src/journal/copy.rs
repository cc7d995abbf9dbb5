//! Copies of journals that belong together, of a deployment that may be at work.
//!
//! For an instant no journal can be written. Nothing leaves an actor before its cause is durable, so what the
//! views that are taken in that instant hold is what one instant of the deployment was: no actor has heard
//! of anything that its sender's copy does not have.

use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use tenure_core::model::codec::Hash;

use super::disk::{Disk, SystemDisk};
use super::reader::look;
use super::schema::{self, Log, Mark};
use super::{Head, JournalError, archive};

/// A view of a journal, which stays as it is while the journal goes on.
pub(crate) struct View {
    path: PathBuf,
    connection: Connection,
}

/// Takes a view of each journal, all in one instant. With `in_use` a process may write them; without it none can,
/// and no file beside them is made.
///
/// # Errors
/// The first journal that cannot be read, or that its writer does not let go of in time.
pub(crate) fn views(paths: &[PathBuf], in_use: bool) -> Result<Vec<View>, JournalError> {
    let open = |path: &PathBuf| {
        schema::look_for_log(&SystemDisk, path)?;
        let connection = if in_use {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
            let opened = schema::connect(path, flags, None);
            opened.map_err(|cause| JournalError::sqlite(path, "open", &cause))?
        } else {
            look(&SystemDisk, path)?.1
        };
        Ok(View { path: path.clone(), connection })
    };
    let views: Vec<View> = paths.iter().map(open).collect::<Result<_, _>>()?;
    let stopped = if in_use { paths } else { &[] };
    let stopped: Vec<Connection> =
        stopped.iter().map(|path| stop(path)).collect::<Result<_, _>>()?;
    for View { path, connection } in &views {
        let begin = || {
            connection.execute_batch("BEGIN")?;
            // The view begins with the first that is read.
            connection.query_row("SELECT count(*) FROM mark", [], |_| Ok(()))
        };
        begin().map_err(|cause| JournalError::sqlite(path, "read", &cause))?;
    }
    drop(stopped);
    Ok(views)
}

/// Keeps others from writing a journal, as long as the connection is there.
fn stop(path: &Path) -> Result<Connection, JournalError> {
    let stop = || {
        let connection = schema::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, None)?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        Ok(connection)
    };
    stop().map_err(|cause| JournalError::sqlite(path, "hold up", &cause))
}

impl View {
    /// Writes what it shows to another path, closed and synced, with the archive.
    pub(crate) fn copy(&self, to: &Path) -> Result<(), JournalError> {
        let failed = |cause| JournalError::sqlite(to, "write", &cause);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut copy = schema::connect(to, flags, None).map_err(failed)?;
        let copied = Backup::new(&self.connection, &mut copy).and_then(|backup| backup.step(-1));
        if copied.map_err(failed)? != StepResult::Done {
            let cause = "its copy is in use".to_owned();
            return Err(JournalError::Failed { path: to.to_owned(), action: "write", cause });
        }
        close(&copy).map_err(failed)?;
        copy.close().map_err(|(_, cause)| failed(cause))?;
        for noted in archive::noted(&self.path, &self.connection)? {
            noted.copy(&SystemDisk, &self.path, to)?;
        }
        SystemDisk.rewrite(to).map_err(|cause| JournalError::system(to, "write", &cause))
    }
}

/// Makes one file of a copy, which says that it is closed.
fn close(copy: &Connection) -> Result<(), rusqlite::Error> {
    copy.pragma_update(None, "synchronous", "FULL")?;
    copy.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    let sql = "SELECT position + 1, hash FROM fact ORDER BY position DESC LIMIT 1";
    let mut statement = copy.prepare(sql)?;
    let mut rows = statement.query([])?;
    if let Some(row) = rows.next()? {
        let (len, hash) = (row.get::<_, i64>(0)? as u64, Hash::from_bytes(row.get(1)?));
        schema::set_mark(copy, &Mark { log: Log::Closed, head: Head { len, hash } })?;
    } else {
        copy.execute("UPDATE mark SET log = 0", [])?;
    }
    Ok(())
}
