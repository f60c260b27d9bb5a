//! Keeps the [`CredentialCache`](crate::CredentialCache) as the subscriber table is.
//!
//! Triggers write the name of every subscriber that changes into `subscriber_change`, whoever changes
//! it: `strowger user`, an operator with `sqlite3`, a provisioning script. `PRAGMA data_version` tells
//! cheaply whether any other connection has committed since the last look; then the names after the
//! last one seen are read, and each user's row as it is now.

use std::path::Path;
use std::sync::atomic::Ordering;

use call_forwarding::Rules;
use location::{Removals, Result, StoreError};
use rusqlite::{Connection, ErrorCode, Row, Transaction, TransactionBehavior, params};
use sip_auth::Credentials;

use crate::cache::UserKey;
use crate::source::{Known, SubscriberSource};
use crate::sqlite::database::{Database, Patience};
use crate::sqlite::removed::{newest_change, removed_after};
use crate::sqlite::rules::{read_rules, rule_columns};
use crate::sqlite::subscribers::{hash_columns, read_hashes, upsert};
use crate::user::{HASH_COLUMNS, UserName, aor, hash_password};

/// Changes read in one statement.
const STEP: usize = 5_000;
/// Applied changes that may lie in the log before they are deleted from it.
const LOG_SLACK: i64 = 1_000;
/// Users loaded between two lines of progress in the log.
const PROGRESS: usize = 500_000;

/// Another one after each commit by another connection.
const DATA_VERSION: &str = "PRAGMA data_version";
/// Another one after each change of a table's definition.
const SCHEMA_VERSION: &str = "PRAGMA schema_version";
/// The highest number ever given to a change.
pub(crate) const NEWEST_CHANGE: &str =
    "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'subscriber_change'";

/// The reading end of the change log.
pub(crate) struct Watch {
    database: Database,
    /// The last change applied.
    last: i64,
    /// The same, for the writer of bindings, and how far that is.
    removals: Removals,
    /// Reading all of the table failed on the way.
    unread: bool,
    /// Up to which the log was deleted.
    trimmed: i64,
    data_version: i64,
    schema_version: i64,
    sql: Sql,
}

/// Statements, made once.
#[derive(Debug)]
struct Sql {
    all: String,
    changed: String,
    rules: String,
}

impl Watch {
    /// Opens the database in `dir`.
    pub(crate) fn open(dir: &Path) -> Result<Watch> {
        let columns = hash_columns("s.");
        let sql = Sql {
            all: format!("SELECT {columns}, s.password, s.username, s.domain FROM subscriber s"),
            changed: format!(
                "SELECT {columns}, s.password, c.username, c.domain, c.id, s.id, c.unbound, k.class, {}
                 FROM subscriber_change c
                 LEFT JOIN subscriber s ON s.username = c.username AND s.domain = c.domain
                 LEFT JOIN user_class k ON k.username = c.username AND k.domain = c.domain
                 LEFT JOIN user_rules r ON r.username = c.username AND r.domain = c.domain
                 WHERE c.id > ?1 ORDER BY c.id LIMIT ?2",
                rule_columns("r.")
            ),
            rules: format!("SELECT r.username, r.domain, {} FROM user_rules r", rule_columns("r.")),
        };
        let database = Database::open(dir, Patience::SERVER)?;
        Ok(Watch {
            database,
            last: 0,
            removals: Removals::new(0, i64::MAX),
            unread: false,
            trimmed: 0,
            data_version: -1,
            schema_version: -1,
            sql,
        })
    }

    fn error(&self, error: &rusqlite::Error) -> StoreError {
        self.database.error("follow the subscriber table", error)
    }

    fn try_poll(&mut self, to: &mut Known) -> rusqlite::Result<()> {
        let version = number(&self.database.connection, DATA_VERSION)?;
        if version != self.data_version {
            if self.unread || number(&self.database.connection, SCHEMA_VERSION)? != self.schema_version {
                // Somebody made tables anew; our triggers may be gone with the old ones.
                self.reload(to)?;
            } else {
                self.follow(to)?;
            }
            self.data_version = version;
        }
        to.look_again(|| self.is_being_written())?;
        self.trim()
    }

    /// Some connection has committed. Mostly that was the writer of bindings, and no subscriber changed.
    fn follow(&mut self, to: &mut Known) -> rusqlite::Result<()> {
        let newest = number(&self.database.connection, NEWEST_CHANGE)?;
        if newest == self.last {
            return Ok(());
        }
        if newest < self.last || self.gap()? {
            log_events::subscribers::subscribers_changed_much();
            return self.reload(to);
        }
        while self.step(to)? == STEP {}
        Ok(())
    }

    /// Whether, of changes after the last one seen, some were deleted from the log.
    fn gap(&self) -> rusqlite::Result<bool> {
        let first: Option<i64> = self
            .database
            .connection
            .prepare_cached("SELECT min(id) FROM subscriber_change")?
            .query_row([], |row| row.get(0))?;
        Ok(first.is_none_or(|first| first > self.last + 1))
    }

    /// Applies up to [`STEP`] changes; answers how many there were.
    fn step(&mut self, to: &Known) -> rusqlite::Result<usize> {
        let mut changes = Vec::new();
        let mut last = self.last;
        {
            let mut statement = self.database.connection.prepare_cached(&self.sql.changed)?;
            let mut rows = statement.query(params![self.last, STEP as i64])?;
            let first = HASH_COLUMNS.len();
            while let Some(row) = rows.next()? {
                last = row.get(first + 3)?;
                let there: Option<i64> = row.get(first + 4)?;
                let mut change = read_change(row, to, there.is_some())?;
                if there.is_some() && row.get_ref(first + 5)?.as_i64().unwrap_or(0) != 0 {
                    change.unbound = Some(aor_of(row)?);
                }
                change.class = row.get_ref(first + 6)?.as_bytes().unwrap_or_default().to_vec();
                change.rules = read_rules(row, first + 7)?;
                changes.push(change);
            }
        }
        let count = changes.len();
        remove(to, &changes);
        self.last = last;
        // Before anyone who was made anew may register: that must not be taken for older than his removal.
        self.say_applied();
        // Before its user may call.
        changes.iter().for_each(|change| to.set_class(change.key, &change.class));
        for change in &mut changes {
            let rules = std::mem::take(&mut change.rules);
            if change.credentials.is_some() {
                to.set_rules(change.key, rules);
            }
        }
        self.apply(to, changes);
        Ok(count)
    }

    /// Tells the writer of bindings how far we are. Of those who are missing the change log says nothing: a
    /// start would not find them in it, wherever it begins to read.
    fn say_applied(&self) {
        self.removals.applied.store(self.last, Ordering::Release);
    }

    /// Makes sure of the triggers, reads the whole table, and forgets users that are not in it.
    fn reload(&mut self, to: &mut Known) -> rusqlite::Result<()> {
        make_change_log(&self.database.connection)?;
        // At start bindings are only just being read, and their reader looks for those removed.
        let begun = self.schema_version != -1;
        let (mut keys, mut users) = (Vec::new(), 0);
        let mut clear = Vec::new();
        // One read transaction, so that the number of the last change fits the rows.
        let transaction = self.database.connection.unchecked_transaction()?;
        let schema_version = number(&transaction, SCHEMA_VERSION)?;
        let last = number(&transaction, NEWEST_CHANGE)?;
        if begun {
            self.remove_logged(to, &transaction, last)?;
        }
        // As in a step: before anyone who was made anew may register.
        (self.last, self.unread) = (last, true);
        self.say_applied();
        load_classes(to, &transaction)?;
        {
            let mut statement = transaction.prepare(&self.sql.all)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let change = read_change(row, to, true)?;
                users += 1;
                // At start nobody is known who may be gone.
                if begun {
                    keys.push(change.key.name);
                }
                match change {
                    UserChange { clear: None, credentials: Some(credentials), key, .. } => {
                        to.set(key, credentials);
                    }
                    change => clear.push(change),
                }
                if users % PROGRESS == 0 {
                    log_events::subscribers::subscribers_being_read(users);
                }
            }
        }
        self.load_rules(to, &transaction)?;
        transaction.commit()?;
        (self.unread, self.schema_version) = (false, schema_version);
        self.apply(to, clear);
        if begun {
            keys.sort_unstable();
            to.forget_all_but(&keys);
        }
        Ok(())
    }

    /// Reads the rules of all users.
    fn load_rules(&self, to: &Known, transaction: &Connection) -> rusqlite::Result<()> {
        let mut keys = Vec::new();
        let mut statement = transaction.prepare(&self.sql.rules)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let text = |at| Ok::<_, rusqlite::Error>(row.get_ref(at)?.as_bytes().unwrap_or_default());
            let key = to.key(text(0)?, text(1)?);
            to.set_rules(key, read_rules(row, 2)?);
            keys.push(key.name);
        }
        keys.sort_unstable();
        to.forget_rules_of_all_but(&keys);
        Ok(())
    }

    /// Removes the bindings of users that were removed, as the change log has it up to `last`. They may be
    /// there again.
    fn remove_logged(&self, to: &Known, transaction: &Connection, last: i64) -> rusqlite::Result<()> {
        // Numbers that have begun again are all news. But what then is not there may come back: they do so
        // where somebody empties tables to fill them.
        let anew = last < self.last;
        let mut statement = transaction.prepare(
            "SELECT c.username, c.domain, c.unbound FROM subscriber_change c
             LEFT JOIN subscriber s ON s.username = c.username AND s.domain = c.domain
             WHERE c.id > ?1 AND (c.unbound <> 0 OR (s.id IS NULL AND NOT ?2))",
        )?;
        let mut rows = statement.query(params![if anew { i64::MIN } else { self.last }, anew])?;
        while let Some(row) = rows.next()? {
            let text = |at| Ok::<_, rusqlite::Error>(row.get_ref(at)?.as_bytes().unwrap_or_default());
            let (user, domain) = (text(0)?, text(1)?);
            let unbound = row.get_ref(2)?.as_i64().unwrap_or(0) != 0;
            let (key, aor) = (to.key(user, domain), aor(user, domain));
            if unbound { to.remove(key, &aor) } else { to.forget(key, &aor) }
        }
        Ok(())
    }

    /// Whether somebody is in the midst of writing, or has written since this look began: a long transaction
    /// is seen when it is over, and until then nothing tells what is in it.
    fn is_being_written(&self) -> rusqlite::Result<bool> {
        match Transaction::new_unchecked(&self.database.connection, TransactionBehavior::Immediate) {
            Ok(transaction) => Ok(number(&transaction, NEWEST_CHANGE)? != self.last
                || number(&transaction, SCHEMA_VERSION)? != self.schema_version),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Puts users that are there into the cache, and takes clear passwords out of the table.
    fn apply(&self, to: &Known, changes: Vec<UserChange>) {
        for UserChange { key, credentials, clear, .. } in changes {
            let Some(credentials) = credentials else { continue };
            if let Some((name, made)) = clear {
                erase_clear_password(&self.database.connection, &name, &made);
            }
            to.set(key, credentials);
        }
    }

    /// Deletes changes from the log whose effects are durable, a bounded number at a time. Another connection
    /// may hold the lock; then the next call does it.
    fn trim(&mut self) -> rusqlite::Result<()> {
        let upto = self.last.min(self.removals.durable.load(Ordering::Acquire));
        // After numbers that began again.
        self.trimmed = self.trimmed.min(self.last);
        if upto.saturating_sub(self.trimmed) <= LOG_SLACK {
            return Ok(());
        }
        let sql = "DELETE FROM subscriber_change WHERE id IN
            (SELECT id FROM subscriber_change WHERE id <= ?1 ORDER BY id LIMIT ?2)";
        let deleted = self.database.connection.prepare_cached(sql)?.execute(params![upto, STEP as i64])?;
        if deleted < STEP {
            self.trimmed = upto;
        }
        Ok(())
    }
}

impl SubscriberSource for Watch {
    fn load(&mut self, to: &mut Known) -> Result<()> {
        self.reload(to).map_err(|error| self.error(&error))
    }

    fn changes(&mut self, to: &mut Known) -> Result<()> {
        self.try_poll(to).map_err(|error| {
            // Whatever was missed is looked for again.
            self.data_version = -1;
            self.error(&error)
        })
    }

    fn removals(&self) -> Removals {
        self.removals.clone()
    }

    fn newest_change(&self) -> Result<i64> {
        newest_change(&self.database)
    }

    fn removed_after(&self, since: i64, newest: i64) -> Result<Vec<Vec<u8>>> {
        removed_after(&self.database, since, newest)
    }
}

/// Reads the classes of all users.
fn load_classes(to: &Known, transaction: &Connection) -> rusqlite::Result<()> {
    let mut keys = Vec::new();
    let mut statement = transaction.prepare("SELECT username, domain, class FROM user_class")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let text = |at| Ok::<_, rusqlite::Error>(row.get_ref(at)?.as_bytes().unwrap_or_default());
        let key = to.key(text(0)?, text(1)?);
        to.set_class(key, text(2)?);
        keys.push(key.name);
    }
    keys.sort_unstable();
    to.forget_classes_of_all_but(&keys);
    Ok(())
}

/// Takes users that are or were gone out of the cache, and then their bindings.
fn remove(to: &Known, changes: &[UserChange]) {
    for change in changes {
        if let Some(aor) = &change.unbound {
            to.remove(change.key, aor);
        } else if change.credentials.is_none() {
            to.forget(change.key, &change.aor);
        }
    }
}

/// Makes the change log and its triggers where they are not there, or not as they are now.
pub(crate) fn make_change_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(include_str!("schema/watch.sql"))?;
    let known = "SELECT 1 FROM pragma_table_info('subscriber_change') WHERE name = 'unbound'";
    if !connection.prepare(known)?.exists([])? {
        let add = "ALTER TABLE subscriber_change ADD COLUMN unbound INTEGER NOT NULL DEFAULT 0";
        connection.execute_batch(add)?;
    }
    Ok(())
}

/// One user whose row is new, changed or gone.
struct UserChange {
    key: UserKey,
    credentials: Option<Credentials>,
    /// `user@domain` of a user that is gone; empty for others.
    aor: Vec<u8>,
    /// The same of one that was gone and is there again.
    unbound: Option<Vec<u8>>,
    /// The row held a clear password: its name, and the hashes to write in its place.
    clear: Option<(UserName, Credentials)>,
    /// Its class; read with single users only.
    class: Vec<u8>,
    /// What it has set for calls to it; read with single users only.
    rules: Rules,
}

/// Reads the hash columns, the password column and the name, in this order.
fn read_change(row: &Row<'_>, to: &Known, there: bool) -> rusqlite::Result<UserChange> {
    let first = HASH_COLUMNS.len();
    let text = |index: usize| Ok::<_, rusqlite::Error>(row.get_ref(index)?.as_bytes().unwrap_or_default());
    let (user, domain) = (text(first + 1)?, text(first + 2)?);
    let key = to.key(user, domain);
    if !there {
        let (aor, class, rules) = (aor_of(row)?, Vec::new(), Rules::default());
        return Ok(UserChange { key, credentials: None, aor, unbound: None, clear: None, class, rules });
    }
    let mut credentials = read_hashes(row, 0)?;
    let clear = clear_password(text(first)?, user, domain);
    if let Some((_, made)) = &clear {
        credentials = made.clone();
    }
    let (aor, class, rules) = (Vec::new(), Vec::new(), Rules::default());
    Ok(UserChange { key, credentials: Some(credentials), aor, unbound: None, clear, class, rules })
}

/// The address of record of a row as [`read_change`] has it.
fn aor_of(row: &Row<'_>) -> rusqlite::Result<Vec<u8>> {
    let first = HASH_COLUMNS.len();
    let text = |index: usize| Ok::<_, rusqlite::Error>(row.get_ref(index)?.as_bytes().unwrap_or_default());
    Ok(aor(text(first + 1)?, text(first + 2)?))
}

/// What to put in the place of a clear password that someone wrote into the table by hand.
fn clear_password(password: &[u8], user: &[u8], domain: &[u8]) -> Option<(UserName, Credentials)> {
    if password.is_empty() {
        return None;
    }
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let name = UserName::new(text(user)?, text(domain)?).ok()?;
    let credentials = hash_password(&name, text(password)?).ok()?;
    Some((name, credentials))
}

/// Replaces a clear password by hashes. Failing is no harm now: the next start tries again.
fn erase_clear_password(connection: &Connection, name: &UserName, credentials: &Credentials) {
    match upsert(connection, name, credentials) {
        Ok(()) => log_events::subscribers::clear_password_replaced(),
        Err(error) => log_events::subscribers::clear_password_kept(&error),
    }
}

/// One number from a statement that is made once.
fn number(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
}

#[cfg(test)]
mod tests;
