//! Everything that is written for SQLite: no other part of the crate names it.

pub(crate) mod bindings;
pub(crate) mod database;
mod error;
mod removed;
mod row;
mod rules;
pub(crate) mod subscribers;
pub(crate) mod watch;

use std::io::ErrorKind;
use std::path::Path;

use location::{Kind, Result, StoreError};

use crate::backend::{Opened, SubscriberTable};
use crate::directory::DATABASE_FILE;
use bindings::LocationTable;
use database::{Database, Patience};
use subscribers::UserTable;
use watch::Watch;

/// See [`open_for_server`](crate::backend::open_for_server).
pub(crate) fn open_for_server(data_dir: &Path) -> Result<Opened> {
    let database = Database::open(data_dir, Patience::SERVER)?;
    let path = database.path.clone();
    let table = Box::new(LocationTable::new(database, data_dir)?);
    Ok(Opened { path, table, source: Box::new(Watch::open(data_dir)?) })
}

/// See [`open_for_command`](crate::backend::open_for_command).
pub(crate) fn open_for_command(data_dir: &Path, make: bool) -> Result<Box<dyn SubscriberTable>> {
    let open = if make { Database::open } else { Database::open_existing };
    Ok(Box::new(UserTable::new(open(data_dir, Patience::COMMAND)?)))
}

/// See [`check_copy`](crate::backend::check_copy).
pub(crate) fn check_copy(path: &Path) -> Result<u64> {
    let database = Database::open_file(path.to_path_buf(), Patience::COMMAND)?;
    let check = "PRAGMA integrity_check(1)";
    let said: String = database
        .connection
        .query_row(check, [], |row| row.get(0))
        .map_err(|error| database.error("check it", &error))?;
    if said != "ok" {
        let mend = "take another copy";
        return Err(StoreError::new(Kind::Corrupt, path, format!("SQLite finds: {said}"), mend));
    }
    UserTable::new(database).count()
}

/// See [`is_there`](crate::backend::is_there).
pub(crate) fn is_there(data_dir: &Path) -> bool {
    let found = std::fs::metadata(data_dir.join(DATABASE_FILE));
    !found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}
