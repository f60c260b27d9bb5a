//! Opening the database: settings of a connection, and the numbered migrations of the schema.

use std::path::{Path, PathBuf};
use std::time::Duration;

use location::{Kind, Result, StoreError};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::directory;
use crate::sqlite::error::sql_error;

/// Marks the file as ours (`PRAGMA application_id`): "StWg".
const APPLICATION_ID: i32 = 0x5374_5767;

/// The migrations in order. `PRAGMA user_version` counts those already applied. A migration that was
/// released is never edited; the next change is a new entry.
const MIGRATIONS: [&str; 4] = [
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
    include_str!("schema/0004.sql"),
];

/// Pages of 4 KiB that the write-ahead log may grow by before its content is moved into the database.
const CHECKPOINT_PAGES: u32 = 4_000;

/// How a connection waits for a lock that another connection holds.
///
/// It asks again every millisecond. SQLite's own handler backs off to 100 ms, and a writer that
/// commits batch after batch would starve it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience(pub Duration);

impl Patience {
    /// For commands that a person waits for.
    pub(crate) const COMMAND: Patience = Patience(Duration::from_secs(10));
    /// For the server's threads, which try again by themselves.
    pub(crate) const SERVER: Patience = Patience(Duration::from_millis(700));
}

/// A connection with the path that errors name.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
}

impl Database {
    /// Opens the database in `dir`, made if it is not there, with its schema brought up to date.
    pub(crate) fn open(dir: &Path, patience: Patience) -> Result<Database> {
        directory::prepare(dir)?;
        let path = directory::database_file(dir)?;
        Database::connect(path, patience)
    }

    /// Opens the database in `dir` if there is one.
    pub(crate) fn open_existing(dir: &Path, patience: Patience) -> Result<Database> {
        let path = dir.join(directory::DATABASE_FILE);
        match std::fs::metadata(&path) {
            Ok(_) => Database::connect(path, patience),
            Err(error) => Err(StoreError::io(&path, "open it", &error)),
        }
    }

    /// Opens a database of any name.
    pub(crate) fn open_file(path: PathBuf, patience: Patience) -> Result<Database> {
        Database::connect(path, patience)
    }

    fn connect(path: PathBuf, patience: Patience) -> Result<Database> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags)
            .map_err(|error| sql_error(&path, "open the database", &error))?;
        let mut database = Database { connection, path };
        database.first_look(patience).map_err(|error| database.error("open the database", &error))?;
        // Before any setting that writes: a file that is not ours stays as it is.
        database.check_version()?;
        database
            .patiently(patience, |database| database.configure())
            .map_err(|error| database.error("open the database", &error))?;
        database.migrate()?;
        Ok(database)
    }

    /// The first read shows whether the file is a database at all.
    fn first_look(&mut self, patience: Patience) -> rusqlite::Result<()> {
        set_patience(&mut self.connection, patience)?;
        self.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
    }

    /// Repeats what SQLite refuses at once, without asking the busy handler, while another process makes
    /// the same first start: the change to WAL.
    #[allow(clippy::disallowed_methods, reason = "waits for a lock; that is its job")]
    fn patiently(
        &mut self,
        patience: Patience,
        mut work: impl FnMut(&mut Database) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        const STEP: Duration = Duration::from_millis(10);
        let mut tries = patience.0.as_millis() / STEP.as_millis();
        loop {
            match work(self) {
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && tries > 0 => {
                    tries -= 1;
                    std::thread::sleep(STEP);
                }
                result => return result,
            }
        }
    }

    fn configure(&mut self) -> rusqlite::Result<()> {
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        // FULL: a commit has reached the disk when it returns, power loss included. NORMAL would
        // lose the last commits, and with them registrations that were answered with 200.
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        self.connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        self.connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
        self.connection.pragma_update(None, "foreign_keys", true)?;
        // Overwrites freed content, so that no erased password stays in a free page.
        self.connection.pragma_update(None, "secure_delete", "FAST")?;
        // Triggers and views in a file that someone planted must not reach functions with effects.
        self.connection.pragma_update(None, "trusted_schema", false)?;
        self.connection.set_prepared_statement_cache_capacity(32);
        Ok(())
    }

    /// Applies what is missing of [`MIGRATIONS`], each in its own transaction.
    fn migrate(&mut self) -> Result<()> {
        loop {
            let done = self.check_version()?;
            if done == MIGRATIONS.len() {
                return Ok(());
            }
            self.apply(done).map_err(|error| self.error("bring its tables up to date", &error))?;
        }
    }

    /// How many migrations the file has seen; refuses files that are newer or not ours.
    fn check_version(&self) -> Result<usize> {
        // One snapshot for all three, or a first start beside this one shows half of what it does.
        let snapshot = self
            .connection
            .unchecked_transaction()
            .map_err(|error| self.error("read its version", &error))?;
        let number = |name: &str| -> Result<i64> {
            snapshot
                .pragma_query_value(None, name, |row| row.get(0))
                .map_err(|error| self.error("read its version", &error))
        };
        let (id, version) = (number("application_id")?, number("user_version")?);
        let tables: i64 = snapshot
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(|error| self.error("read its tables", &error))?;
        if id != i64::from(APPLICATION_ID) && (id != 0 || tables != 0) {
            return Err(StoreError::new(
                Kind::Version,
                &self.path,
                "is a database of some other program",
                "move it away; subscribers of Kamailio or OpenSIPS come in with `strowger user import`",
            ));
        }
        match usize::try_from(version) {
            Ok(done) if done <= MIGRATIONS.len() => Ok(done),
            _ => Err(StoreError::new(
                Kind::Version,
                &self.path,
                format!(
                    "has schema version {version}; this program knows versions up to {}",
                    MIGRATIONS.len()
                ),
                "run the newer Strowger that wrote it, or restore a backup from before the upgrade",
            )),
        }
    }

    /// Applies migration number `done`, unless another process did in the meantime.
    fn apply(&mut self, done: usize) -> rusqlite::Result<()> {
        let Some(script) = MIGRATIONS.get(done) else { return Ok(()) };
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if usize::try_from(version) != Ok(done) {
            return Ok(());
        }
        transaction.execute_batch(script)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", version + 1)?;
        transaction.commit()
    }

    /// SQLite's `error` with the file's name and a mend.
    pub(crate) fn error(&self, doing: &str, error: &rusqlite::Error) -> StoreError {
        sql_error(&self.path, doing, error)
    }
}

#[allow(clippy::disallowed_methods, reason = "the handler of a lock waits; that is its job")]
fn set_patience(connection: &mut Connection, patience: Patience) -> rusqlite::Result<()> {
    const STEP: Duration = Duration::from_millis(1);
    let tries = patience.0.as_millis();
    connection.busy_handler(Some(move |asked: i32| {
        std::thread::sleep(STEP);
        u128::try_from(asked).is_ok_and(|asked| asked < tries)
    }))
}

#[cfg(test)]
mod tests {
    use location::testing::TempDir;

    use super::*;

    fn open(dir: &Path) -> Result<Database> {
        Database::open(dir, Patience::COMMAND)
    }

    #[test]
    fn opening_twice_finds_the_same_schema() {
        let temp = TempDir::new();
        let names = |db: &Database| -> Vec<(String, i64)> {
            let mut statement =
                db.connection.prepare("SELECT table_name, table_version FROM version ORDER BY 1").unwrap();
            statement
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
                .unwrap()
                .map(|row| row.unwrap())
                .collect()
        };
        let first = names(&open(temp.path()).unwrap());
        assert_eq!(
            first.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["location", "subscriber"]
        );
        assert_eq!(names(&open(temp.path()).unwrap()), first);
    }

    #[test]
    fn commits_are_synchronous_and_readers_do_not_block() {
        let temp = TempDir::new();
        let db = open(temp.path()).unwrap();
        let pragma = |name| db.connection.pragma_query_value(None, name, |row| row.get::<_, String>(0));
        assert_eq!(pragma("journal_mode").unwrap(), "wal");
        let synchronous: i64 =
            db.connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
        assert_eq!(synchronous, 2);
    }

    #[test]
    fn racing_first_starts_all_succeed() {
        let temp = TempDir::new();
        std::thread::scope(|scope| {
            let runs: Vec<_> = (0..6).map(|_| scope.spawn(|| open(temp.path()).map(|_| ()))).collect();
            for run in runs {
                run.join().unwrap().unwrap();
            }
        });
    }

    #[test]
    fn a_newer_file_is_refused_by_name_with_a_mend() {
        let temp = TempDir::new();
        open(temp.path()).unwrap().connection.pragma_update(None, "user_version", 99).unwrap();
        let error = open(temp.path()).unwrap_err();
        assert_eq!(error.kind, Kind::Version);
        let text = error.to_string();
        assert!(text.contains("strowger.db") && text.contains("99") && text.contains("newer"), "{text}");
    }

    #[test]
    fn a_foreign_database_is_left_alone() {
        let temp = TempDir::new();
        let path = temp.path().join(directory::DATABASE_FILE);
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE subscriber(id)").unwrap();
        let before = std::fs::read(&path).unwrap();
        let error = open(temp.path()).unwrap_err();
        assert!(error.to_string().contains("some other program"), "{error}");
        assert_eq!(error.kind, Kind::Version);
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn damage_is_reported_as_damage() {
        let temp = TempDir::new();
        let path = temp.path().join(directory::DATABASE_FILE);
        std::fs::write(&path, vec![b'x'; 8_192]).unwrap();
        let error = open(temp.path()).unwrap_err();
        assert_eq!(error.kind, Kind::Corrupt);
        assert!(error.to_string().contains("restore a backup"), "{error}");
    }

    #[test]
    fn a_missing_database_is_not_made_by_commands_that_only_look() {
        let temp = TempDir::new();
        let error = Database::open_existing(temp.path(), Patience::COMMAND).unwrap_err();
        assert_eq!(error.kind, Kind::Missing);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
    }
}
