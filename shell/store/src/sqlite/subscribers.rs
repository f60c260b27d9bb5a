//! The subscriber table as commands see it: add, remove, list, export.
//!
//! A command works on the file while a server may run on it; the server follows by itself (see
//! [`CredentialCache`](crate::CredentialCache)).

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use location::{Kind, Result, StoreError};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, Row, TransactionBehavior, params, params_from_iter};
use sip_auth::{Credentials, Ha1, canonical_user};

use crate::sqlite::database::{Database, Patience};
use crate::sqlite::error::sql_error;
use crate::sqlite::watch::make_change_log;
use crate::user::{HASH_COLUMNS, UserName, hash_password, hash_text};

/// Adds a subscriber or replaces its hashes; every hash column is written, so that no hash of an old
/// password stays behind.
pub(crate) const UPSERT: &str = "INSERT INTO subscriber
    (username, domain, password, ha1, ha1b, ha1_sha256, ha1b_sha256, ha1_sha512t256, ha1b_sha512t256)
    VALUES (?1, ?2, '', ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (username, domain) DO UPDATE SET password = '', ha1 = ?3, ha1b = ?4, ha1_sha256 = ?5,
    ha1b_sha256 = ?6, ha1_sha512t256 = ?7, ha1b_sha512t256 = ?8, datetime_modified = CURRENT_TIMESTAMP";

/// One subscriber as listed.
#[derive(Clone, Debug)]
pub struct Subscriber {
    /// User name.
    pub username: String,
    /// Domain, which is also the realm.
    pub domain: String,
    /// The hashes known.
    pub credentials: Credentials,
    /// When the row was made and last changed, UTC, `YYYY-MM-DD HH:MM:SS`.
    pub created: String,
    /// See `created`.
    pub modified: String,
}

/// What an addition did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added {
    /// The subscriber is new.
    Created,
    /// It was there; its password changed.
    Replaced,
}

/// The subscribers in one data directory.
#[derive(Debug)]
pub struct Subscribers {
    pub(crate) database: Database,
}

impl Subscribers {
    /// Opens the data directory, making it if needed.
    pub fn open(data_dir: &Path) -> Result<Subscribers> {
        Database::open(data_dir, Patience::COMMAND).map(|database| Subscribers { database })
    }

    /// Opens the data directory if there is a database in it, for commands that only look or remove.
    pub fn open_existing(data_dir: &Path) -> Result<Subscribers> {
        Database::open_existing(data_dir, Patience::COMMAND).map(|database| Subscribers { database })
    }

    /// Adds a subscriber, or gives one that exists a new password.
    pub fn add(&mut self, name: &UserName, password: &str) -> Result<Added> {
        let credentials = hash_password(name, password).map_err(|problem| self.input(name, problem))?;
        self.add_hashed(name, &credentials)
    }

    /// As [`add`](Subscribers::add) with hashes made elsewhere; hashes not given are removed.
    pub fn add_hashed(&mut self, name: &UserName, credentials: &Credentials) -> Result<Added> {
        if credentials.is_empty() {
            return Err(self.input(name, "no password and no hash is given"));
        }
        let path = self.database.path.clone();
        let fail = |error| sql_error(&path, "write the subscriber", &error);
        let transaction = self
            .database
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(fail)?;
        let known = exists(&transaction, name).map_err(fail)?;
        upsert(&transaction, name, credentials).map_err(fail)?;
        transaction.commit().map_err(fail)?;
        Ok(if known { Added::Replaced } else { Added::Created })
    }

    /// Adds subscribers, or gives them new hashes, in one transaction.
    pub(crate) fn write_all(&mut self, all: &[(UserName, Credentials)]) -> Result<()> {
        let Database { connection, path } = &mut self.database;
        let fail = |error| sql_error(path, "write the subscribers", &error);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        for (name, credentials) in all {
            upsert(&transaction, name, credentials).map_err(fail)?;
        }
        transaction.commit().map_err(fail)
    }

    /// The file that they are in.
    pub(crate) fn path(&self) -> &Path {
        &self.database.path
    }

    /// Removes a subscriber; false if there was none. The bindings go too: a server that runs sees to it
    /// by itself, one that starts later would find them and call the user still.
    pub fn remove(&mut self, name: &UserName) -> Result<bool> {
        self.try_remove(name).map_err(|error| self.database.error("remove the subscriber", &error))
    }

    fn try_remove(&mut self, name: &UserName) -> rusqlite::Result<bool> {
        let name = [name.user(), name.domain()];
        let transaction =
            self.database.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let removed =
            transaction.execute("DELETE FROM subscriber WHERE username = ?1 AND domain = ?2", name)?;
        if removed != 0 {
            let user = canonical_user(name[0].as_bytes());
            let bound = [&String::from_utf8_lossy(&user)[..], name[1]];
            transaction.execute("DELETE FROM location WHERE username = ?1 AND domain = ?2", bound)?;
            // Bindings may be in the log of a server as well: whoever reads that finds this.
            make_change_log(&transaction)?;
            let unbound = "INSERT INTO subscriber_change (username, domain, unbound) VALUES (?1, ?2, 1)";
            transaction.execute(unbound, name)?;
        }
        transaction.commit()?;
        Ok(removed != 0)
    }

    /// How many subscribers there are.
    pub fn count(&self) -> Result<u64> {
        self.database
            .connection
            .query_row("SELECT count(*) FROM subscriber", [], |row| row.get::<_, i64>(0))
            .map(i64::unsigned_abs)
            .map_err(|error| self.database.error("count the subscribers", &error))
    }

    /// Calls `f` with every subscriber (of `domain`, if given) in order of name and domain, one at a
    /// time, until it breaks.
    pub fn list(&self, domain: Option<&str>, mut f: impl FnMut(Subscriber) -> ControlFlow<()>) -> Result<()> {
        let fail = |error| self.database.error("read the subscribers", &error);
        let sql = format!(
            "SELECT {}, username, domain, datetime_created, datetime_modified FROM subscriber
             WHERE ?1 IS NULL OR domain = ?1 ORDER BY username, domain",
            hash_columns("")
        );
        let mut statement = self.database.connection.prepare(&sql).map_err(fail)?;
        let mut rows = statement.query(params![domain]).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            if f(read_subscriber(row).map_err(fail)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Writes all subscribers as CSV that [`import`](Subscribers::import) reads back; returns how many.
    pub fn export(&self, output: impl Write) -> Result<u64> {
        let mut writer = csv::Writer::from_writer(output);
        let mut outcome =
            writer.write_record(["username", "domain"].into_iter().chain(HASH_COLUMNS.map(|c| c.0)));
        let mut count = 0;
        self.list(None, |subscriber| {
            if outcome.is_ok() {
                outcome = writer.write_record(export_fields(&subscriber));
                count += 1;
            }
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        match outcome.map_err(std::io::Error::other).and_then(|()| writer.flush()) {
            Ok(()) => Ok(count),
            Err(error) => Err(StoreError::io(Path::new("export"), "write it", &error)),
        }
    }

    fn input(&self, name: &UserName, problem: &str) -> StoreError {
        StoreError::new(Kind::Input, Path::new(&name.to_string()), problem, "give a password")
    }
}

/// The hash columns, comma separated, each after `prefix`.
pub(crate) fn hash_columns(prefix: &str) -> String {
    HASH_COLUMNS.map(|(column, ..)| format!("{prefix}{column}")).join(", ")
}

fn exists(connection: &Connection, name: &UserName) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM subscriber WHERE username = ?1 AND domain = ?2")?
        .exists([name.user(), name.domain()])
}

/// Runs [`UPSERT`].
pub(crate) fn upsert(
    connection: &Connection,
    name: &UserName,
    credentials: &Credentials,
) -> rusqlite::Result<()> {
    let hashes = HASH_COLUMNS.map(|(_, form, algorithm)| hash_text(credentials, form, algorithm));
    let names = [name.user(), name.domain()].into_iter().map(ToSqlOutput::from);
    let values = names.chain(hashes.iter().map(|text| ToSqlOutput::from(text.as_str())));
    connection.prepare_cached(UPSERT)?.execute(params_from_iter(values))?;
    Ok(())
}

/// Reads the [`HASH_COLUMNS`] of a row, from column `first` on. Text that is no hash is passed over,
/// so that a row edited by hand loses that one hash and nothing else.
pub(crate) fn read_hashes(row: &Row<'_>, first: usize) -> rusqlite::Result<Credentials> {
    let mut credentials = Credentials::new();
    for (index, (_, form, algorithm)) in HASH_COLUMNS.iter().enumerate() {
        if let Ok(text) = row.get_ref(first + index)?.as_bytes()
            && let Some(ha1) = Ha1::from_hex(*algorithm, text)
        {
            credentials.set(*form, ha1);
        }
    }
    Ok(credentials)
}

fn read_subscriber(row: &Row<'_>) -> rusqlite::Result<Subscriber> {
    let first = HASH_COLUMNS.len();
    Ok(Subscriber {
        credentials: read_hashes(row, 0)?,
        username: row.get(first)?,
        domain: row.get(first + 1)?,
        created: row.get(first + 2)?,
        modified: row.get(first + 3)?,
    })
}

fn export_fields(subscriber: &Subscriber) -> impl Iterator<Item = String> {
    let hashes = HASH_COLUMNS.map(|(_, form, algorithm)| hash_text(&subscriber.credentials, form, algorithm));
    [subscriber.username.clone(), subscriber.domain.clone()].into_iter().chain(hashes)
}

#[cfg(test)]
mod tests {
    use sip_auth::{Algorithm, NameForm};

    use super::*;
    use location::testing::TempDir;

    fn name(text: &str) -> UserName {
        UserName::parse(text).unwrap()
    }

    fn all(subscribers: &Subscribers) -> Vec<Subscriber> {
        let mut list = Vec::new();
        subscribers
            .list(None, |subscriber| {
                list.push(subscriber);
                ControlFlow::Continue(())
            })
            .unwrap();
        list
    }

    #[test]
    fn add_replace_list_remove() {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        assert_eq!(subscribers.add(&name("bob@Example.com"), "one").unwrap(), Added::Created);
        assert_eq!(subscribers.add(&name("alice@example.com"), "x").unwrap(), Added::Created);
        assert_eq!(subscribers.add(&name("bob@example.com"), "two").unwrap(), Added::Replaced);
        let list = all(&subscribers);
        let names: Vec<_> = list.iter().map(|s| (s.username.as_str(), s.domain.as_str())).collect();
        assert_eq!(names, [("alice", "example.com"), ("bob", "example.com")]);
        assert_eq!(list[1].credentials, hash_password(&name("bob@example.com"), "two").unwrap());
        assert!(subscribers.remove(&name("bob@EXAMPLE.com")).unwrap());
        assert!(!subscribers.remove(&name("bob@example.com")).unwrap());
        assert_eq!(subscribers.count().unwrap(), 1);
    }

    #[test]
    fn no_clear_password_reaches_the_disk() {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        subscribers.add(&name("alice@example.com"), "correct-horse-battery").unwrap();
        for entry in std::fs::read_dir(temp.path()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(21).any(|window| window == b"correct-horse-battery"));
        }
    }

    #[test]
    fn a_new_ha1_drops_the_hashes_of_the_old_password() {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        let alice = name("alice@example.com");
        subscribers.add(&alice, "old").unwrap();
        let mut only = Credentials::new();
        only.set(NameForm::Bare, sip_auth::ha1(Algorithm::Md5, b"alice", b"example.com", b"new"));
        subscribers.add_hashed(&alice, &only).unwrap();
        assert_eq!(all(&subscribers)[0].credentials, only);
        assert_eq!(subscribers.add_hashed(&alice, &Credentials::new()).unwrap_err().kind, Kind::Input);
    }

    #[test]
    fn sql_in_names_and_passwords_is_text() {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        let evil = name("x');DROP/**/TABLE/**/subscriber;--@example.com");
        subscribers.add(&evil, "'); DELETE FROM subscriber; --").unwrap();
        subscribers.add(&name("'or'1'='1@example.com"), "p").unwrap();
        assert_eq!(subscribers.count().unwrap(), 2);
        assert!(!subscribers.remove(&name("'or'2'='2@example.com")).unwrap());
        subscribers.list(Some("' OR 1=1 --"), |_| panic!("no such domain")).unwrap();
        assert!(subscribers.remove(&evil).unwrap());
        assert_eq!(subscribers.count().unwrap(), 1);
    }

    #[test]
    fn the_listing_stops_when_asked() {
        let temp = TempDir::new();
        let mut subscribers = Subscribers::open(temp.path()).unwrap();
        for user in ["a", "b", "c"] {
            subscribers.add(&name(&format!("{user}@example.com")), "p").unwrap();
        }
        let mut seen = 0;
        subscribers
            .list(Some("EXAMPLE.com"), |_| {
                seen += 1;
                if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        assert_eq!(seen, 2);
    }
}
