//! Subscribers that were removed while no server ran, whose bindings a start forgets.

use location::{Result, SharedLocation};

use crate::sqlite::database::Database;
use crate::sqlite::watch::NEWEST_CHANGE;

/// The number of the last change of a subscriber.
pub(crate) fn newest_change(database: &Database) -> Result<i64> {
    let newest = database.connection.query_row(NEWEST_CHANGE, [], |row| row.get(0));
    newest.map_err(|error| database.error("look for removed subscribers", &error))
}

/// Removes the bindings of subscribers removed after change number `seen` of the log: while no
/// server ran, or so shortly before the last one ended that the log does not know of it. Or, without a log,
/// after `newest`, when the loading began.
pub(crate) fn forget_removed(
    database: &Database,
    location: &SharedLocation,
    seen: Option<i64>,
    newest: i64,
) -> Result<()> {
    let since = match seen {
        // The numbers have begun again: any of them may be news.
        Some(seen) if seen > newest => i64::MIN,
        Some(seen) => seen,
        None => newest,
    };
    let fail = |error| database.error("look for removed subscribers", &error);
    let first: Option<i64> = database
        .connection
        .query_row("SELECT min(id) FROM subscriber_change", [], |row| row.get(0))
        .map_err(fail)?;
    if since < newest && first.is_none_or(|first| first > since.saturating_add(1)) {
        log_events::bindings::removed_users_may_be_bound(&database.path.display());
    }
    let removed = removed_since(database, since).map_err(fail)?;
    removed.iter().for_each(|aor| _ = location.remove(aor));
    Ok(())
}

fn removed_since(database: &Database, seen: i64) -> rusqlite::Result<Vec<Vec<u8>>> {
    let mut statement = database.connection.prepare(
        "SELECT DISTINCT c.username, c.domain FROM subscriber_change c
         LEFT JOIN subscriber s ON s.username = c.username AND s.domain = c.domain
         WHERE c.id > ?1 AND (s.id IS NULL OR c.unbound <> 0)",
    )?;
    let mut rows = statement.query([seen])?;
    let mut removed = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |index| Ok::<_, rusqlite::Error>(row.get_ref(index)?.as_bytes().unwrap_or_default());
        removed.push(crate::user::aor(text(0)?, text(1)?));
    }
    Ok(removed)
}
