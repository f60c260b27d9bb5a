//! The subscriber table as commands write and list it.

use std::ops::ControlFlow;
use std::path::Path;

use call_forwarding::Rules;
use location::{Kind, Result, StoreError};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params, params_from_iter};
use sip_auth::{Credentials, Ha1, canonical_user};

use crate::backend::SubscriberTable;
use crate::sqlite::database::Database;
use crate::sqlite::error::sql_error;
use crate::sqlite::rules::{read_rules, rule_columns, write_rules};
use crate::sqlite::watch::make_change_log;
use crate::subscribers::{Added, Subscriber, Wanted};
use crate::user::{HASH_COLUMNS, UserName, hash_text};

/// Adds a subscriber or replaces its hashes; every hash column is written, so that no hash of an old
/// password stays behind.
pub(crate) const UPSERT: &str = "INSERT INTO subscriber
    (username, domain, password, ha1, ha1b, ha1_sha256, ha1b_sha256, ha1_sha512t256, ha1b_sha512t256)
    VALUES (?1, ?2, '', ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (username, domain) DO UPDATE SET password = '', ha1 = ?3, ha1b = ?4, ha1_sha256 = ?5,
    ha1b_sha256 = ?6, ha1_sha512t256 = ?7, ha1b_sha512t256 = ?8, datetime_modified = CURRENT_TIMESTAMP";

/// The subscriber table, for commands.
pub(crate) struct UserTable {
    database: Database,
}

impl UserTable {
    /// Of this database.
    pub(crate) fn new(database: Database) -> UserTable {
        UserTable { database }
    }

    fn try_set_class(&mut self, name: &UserName, class: Option<&str>) -> rusqlite::Result<bool> {
        let (user, domain) = (name.user(), name.domain());
        let transaction =
            self.database.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !exists(&transaction, name)? {
            return Ok(false);
        }
        match class {
            Some(class) => {
                let put = "INSERT INTO user_class (username, domain, class) VALUES (?1, ?2, ?3)
                           ON CONFLICT (username, domain) DO UPDATE SET class = ?3";
                transaction.execute(put, [user, domain, class])?;
            }
            None => {
                let delete = "DELETE FROM user_class WHERE username = ?1 AND domain = ?2";
                transaction.execute(delete, [user, domain])?;
            }
        }
        transaction.commit()?;
        Ok(true)
    }

    fn try_remove(&mut self, name: &UserName) -> rusqlite::Result<bool> {
        let name = [name.user(), name.domain()];
        let transaction =
            self.database.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let removed =
            transaction.execute("DELETE FROM subscriber WHERE username = ?1 AND domain = ?2", name)?;
        if removed != 0 {
            transaction.execute("DELETE FROM user_rules WHERE username = ?1 AND domain = ?2", name)?;
            let user = canonical_user(name[0].as_bytes());
            let bound = [&String::from_utf8_lossy(&user)[..], name[1]];
            transaction.execute("DELETE FROM user_class WHERE username = ?1 AND domain = ?2", name)?;
            transaction.execute("DELETE FROM location WHERE username = ?1 AND domain = ?2", bound)?;
            // Bindings may be in the log of a server as well: whoever reads that finds this.
            make_change_log(&transaction)?;
            let unbound = "INSERT INTO subscriber_change (username, domain, unbound) VALUES (?1, ?2, 1)";
            transaction.execute(unbound, name)?;
        }
        transaction.commit()?;
        Ok(removed != 0)
    }
}

impl SubscriberTable for UserTable {
    fn path(&self) -> &Path {
        &self.database.path
    }

    fn write(&mut self, name: &UserName, credentials: &Credentials) -> Result<Added> {
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

    fn write_all(&mut self, all: &[(UserName, Credentials)]) -> Result<()> {
        let Database { connection, path } = &mut self.database;
        let fail = |error| sql_error(path, "write the subscribers", &error);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        for (name, credentials) in all {
            upsert(&transaction, name, credentials).map_err(fail)?;
        }
        transaction.commit().map_err(fail)
    }

    fn class(&self, name: &UserName) -> Result<Option<String>> {
        let sql = "SELECT class FROM user_class WHERE username = ?1 AND domain = ?2";
        self.database
            .connection
            .query_row(sql, [name.user(), name.domain()], |row| row.get(0))
            .optional()
            .map_err(|error| self.database.error("read the class of the subscriber", &error))
    }

    fn set_class(&mut self, name: &UserName, class: Option<&str>) -> Result<bool> {
        self.try_set_class(name, class)
            .map_err(|error| self.database.error("write the class of the subscriber", &error))
    }

    fn rules(&self, name: &UserName) -> Result<Option<Rules>> {
        let fail = |error| self.database.error("read the rules of the subscriber", &error);
        let sql = format!(
            "SELECT {} FROM subscriber s
             LEFT JOIN user_rules r ON r.username = s.username AND r.domain = s.domain
             WHERE s.username = ?1 AND s.domain = ?2",
            rule_columns("r.")
        );
        let mut statement = self.database.connection.prepare(&sql).map_err(fail)?;
        let mut rows = statement.query([name.user(), name.domain()]).map_err(fail)?;
        let row = rows.next().map_err(fail)?;
        row.map(|row| read_rules(row, 0)).transpose().map_err(fail)
    }

    fn write_rules(&mut self, all: &[(UserName, Rules)]) -> Result<()> {
        let Database { connection, path } = &mut self.database;
        let fail = |error| sql_error(path, "write the rules of subscribers", &error);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        for (name, rules) in all {
            write_rules(&transaction, name, rules).map_err(fail)?;
        }
        transaction.commit().map_err(fail)
    }

    fn remove(&mut self, name: &UserName) -> Result<bool> {
        self.try_remove(name).map_err(|error| self.database.error("remove the subscriber", &error))
    }

    fn count(&self) -> Result<u64> {
        self.database
            .connection
            .query_row("SELECT count(*) FROM subscriber", [], |row| row.get::<_, i64>(0))
            .map(i64::unsigned_abs)
            .map_err(|error| self.database.error("count the subscribers", &error))
    }

    fn copy_to(&self, path: &Path) -> Result<()> {
        let Some(name) = path.to_str() else {
            let mend = "give the data directory a name in UTF-8";
            return Err(StoreError::new(Kind::Input, path, "SQLite cannot write to this name", mend));
        };
        self.database
            .connection
            .execute("VACUUM INTO ?1", [name])
            .map(drop)
            .map_err(|error| sql_error(path, "write a copy of the database", &error))
    }

    fn page(&self, wanted: &Wanted<'_>, most: usize) -> Result<Vec<Subscriber>> {
        let fail = |error| self.database.error("read the subscribers", &error);
        let sql = select_users(
            "(?1 IS NULL OR s.domain = ?1) AND (?2 IS NULL OR instr(s.username, ?2) > 0)
             AND (?3 IS NULL OR (s.username, s.domain) > (?3, ?4))",
        );
        let (user, domain) = wanted.after.unzip();
        let mut statement = self.database.connection.prepare_cached(&sql).map_err(fail)?;
        let mut rows = statement.query(params![wanted.domain, wanted.text, user, domain]).map_err(fail)?;
        let mut found = Vec::new();
        while found.len() < most
            && let Some(row) = rows.next().map_err(fail)?
        {
            found.push(read_subscriber(row).map_err(fail)?);
        }
        Ok(found)
    }

    fn find(&self, name: &UserName) -> Result<Option<Subscriber>> {
        let fail = |error| self.database.error("read the subscriber", &error);
        let sql = select_users("s.username = ?1 AND s.domain = ?2");
        let mut statement = self.database.connection.prepare_cached(&sql).map_err(fail)?;
        let mut rows = statement.query([name.user(), name.domain()]).map_err(fail)?;
        let row = rows.next().map_err(fail)?;
        row.map(read_subscriber).transpose().map_err(fail)
    }

    fn list(&self, domain: Option<&str>, f: &mut dyn FnMut(Subscriber) -> ControlFlow<()>) -> Result<()> {
        let fail = |error| self.database.error("read the subscribers", &error);
        let sql = select_users("?1 IS NULL OR s.domain = ?1");
        let mut statement = self.database.connection.prepare(&sql).map_err(fail)?;
        let mut rows = statement.query(params![domain]).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            if f(read_subscriber(row).map_err(fail)?).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// A statement for [`read_subscriber`], in order of name and domain.
fn select_users(condition: &str) -> String {
    format!(
        "SELECT {}, s.username, s.domain, s.datetime_created, s.datetime_modified, {} FROM subscriber s
         LEFT JOIN user_rules r ON r.username = s.username AND r.domain = s.domain
         WHERE {condition} ORDER BY s.username, s.domain",
        hash_columns("s."),
        rule_columns("r.")
    )
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
        rules: read_rules(row, first + 4)?,
    })
}
