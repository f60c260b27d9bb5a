//! Subscribers that were removed while no server ran.

use location::Result;

use crate::sqlite::database::Database;
use crate::sqlite::watch::NEWEST_CHANGE;

/// The number of the last change of a subscriber.
pub(crate) fn newest_change(database: &Database) -> Result<i64> {
    let newest = database.connection.query_row(NEWEST_CHANGE, [], |row| row.get(0));
    newest.map_err(|error| database.error("look for removed subscribers", &error))
}

/// The addresses of record of subscribers removed after this change. `newest`: the last one.
pub(crate) fn removed_after(database: &Database, since: i64, newest: i64) -> Result<Vec<Vec<u8>>> {
    let fail = |error| database.error("look for removed subscribers", &error);
    let first: Option<i64> = database
        .connection
        .query_row("SELECT min(id) FROM subscriber_change", [], |row| row.get(0))
        .map_err(fail)?;
    if since < newest && first.is_none_or(|first| first > since.saturating_add(1)) {
        log_events::bindings::removed_users_may_be_bound(&database.path.display());
    }
    removed_since(database, since).map_err(fail)
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
