//! Bindings from disk at start, before the first request is answered.

use crate::clock::ClockPair;
use crate::database::Database;
use crate::error::Result;
use crate::location::SharedLocation;
use crate::location::row::{COLUMNS, Loaded, read};

/// Rows between two lines of progress in the log.
const PROGRESS: u64 = 500_000;

/// What the loading found.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LoadReport {
    /// Bindings put back.
    pub live: u64,
    /// Rows whose time was over.
    pub expired: u64,
    /// Rows that make no sense or found no room.
    pub bad: u64,
}

/// Reads the `location` table into `location`.
pub(crate) fn load(
    database: &Database,
    location: &SharedLocation,
    sockets: &[String],
    clock: ClockPair,
) -> Result<LoadReport> {
    let fail = |error| database.error("read the bindings", &error);
    let mut report = LoadReport::default();
    if let Err(error) = pull_back(database, clock) {
        tracing::warn!(
            error = %database.error("bring the bindings in line with the clock", &error),
            "the wall clock was set back; at the next start bindings may live longer than they should"
        );
    }
    let mut statement =
        database.connection.prepare(&format!("SELECT {COLUMNS} FROM location")).map_err(fail)?;
    let mut rows = statement.query([]).map_err(fail)?;
    while let Some(row) = rows.next().map_err(fail)? {
        match read(row, sockets, clock).map_err(fail)? {
            Loaded::Live(record) if location.restore(&record).is_ok() => report.live += 1,
            Loaded::Live(_) | Loaded::Bad => report.bad += 1,
            Loaded::Expired => report.expired += 1,
        }
        if (report.live + report.expired + report.bad) % PROGRESS == 0 {
            tracing::info!(bindings = report.live, "reading bindings");
        }
    }
    if report.bad != 0 {
        tracing::warn!(rows = report.bad, "rows of the location table were passed over: damaged, or no room");
    }
    Ok(report)
}

/// Rows written later than now are from before the clock was set back. They get what was granted, as
/// if it had been granted now, once: left as they are they would get it anew at every start.
fn pull_back(database: &Database, clock: ClockPair) -> rusqlite::Result<()> {
    let (now, connection) = (clock.wall_seconds(), &database.connection);
    // Looked for first, so that an ordinary start takes no lock.
    let mut ahead = connection.prepare("SELECT 1 FROM location WHERE last_modified > ?1 LIMIT 1")?;
    if !ahead.exists([now])? {
        return Ok(());
    }
    let rows = connection.execute(
        "UPDATE location SET last_modified = ?1,
             expires = CASE expires WHEN ?2 THEN expires ELSE expires - last_modified + ?1 END
         WHERE last_modified > ?1",
        [now, i64::MAX],
    )?;
    tracing::warn!(rows, "the wall clock was set back since bindings were written; they are written anew");
    Ok(())
}
