//! Tests of following the subscriber table. The watch is polled by hand: no test waits.

use std::sync::{Arc, Mutex};

use location::testing::TempDir;
use sip_auth::{Algorithm, Ha1, NameForm};

use super::*;
use crate::CredentialCache;
use crate::names::NameHasher;
use crate::source::{Gone, SECOND_LOOK};
use crate::subscribers::Subscribers;

type Noted = Arc<Mutex<Vec<String>>>;

/// A watch and what it fills.
struct Followed {
    watch: Watch,
    known: Known,
}

impl Followed {
    fn poll(&mut self) -> Result<()> {
        self.watch.changes(&mut self.known)
    }

    fn removals(&self) -> Removals {
        self.watch.removals()
    }
}

fn watch(temp: &TempDir) -> (Followed, Arc<CredentialCache>, Noted) {
    let cache = Arc::new(CredentialCache::new(NameHasher::new([1; 16])));
    let removed = Noted::default();
    let note = Arc::clone(&removed);
    let note = Box::new(move |gone: Gone<'_>| match gone {
        Gone::One(aor) => note.lock().unwrap().push(String::from_utf8_lossy(aor).into_owned()),
        Gone::Those(gone) => {
            // Those that have bindings.
            let bound = ["old@example.com", "gone@example.com", "alice@example.com", "guest@example.com"];
            let gone = bound.iter().filter(|aor| gone(aor.as_bytes()));
            note.lock().unwrap().extend(gone.map(|aor| (*aor).to_owned()));
        }
    });
    let (mut watch, mut known) = (Watch::open(temp.path()).unwrap(), Known::new(Arc::clone(&cache), note));
    watch.load(&mut known).unwrap();
    (Followed { watch, known }, cache, removed)
}

fn name(text: &str) -> UserName {
    UserName::parse(text).unwrap()
}

#[test]
fn class_of_a_user_is_followed() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    for user in ["alice@example.com", "bob@example.com"] {
        subscribers.add(&name(user), "x").unwrap();
    }
    subscribers.set_class(&name("alice@example.com"), Some("staff")).unwrap();
    let (mut watch, cache, _) = watch(&temp);
    let class = |user: &[u8]| {
        cache.class_of(user, b"Example.com", |class| String::from_utf8(class.to_vec()).unwrap())
    };
    assert_eq!((class(b"alice").as_deref(), class(b"bob")), (Some("staff"), None));
    subscribers.set_class(&name("alice@example.com"), Some("guest")).unwrap();
    subscribers.set_class(&name("bob@example.com"), Some("staff")).unwrap();
    watch.poll().unwrap();
    assert_eq!((class(b"alice").as_deref(), class(b"bob").as_deref()), (Some("guest"), Some("staff")));
    subscribers.set_class(&name("bob@example.com"), None).unwrap();
    subscribers.remove(&name("alice@example.com")).unwrap();
    watch.poll().unwrap();
    assert_eq!((class(b"alice"), class(b"bob")), (None, None));
    foreign(&temp).execute("INSERT INTO user_class VALUES ('bob', 'example.com', 'by hand')", []).unwrap();
    watch.poll().unwrap();
    assert_eq!(class(b"bob").as_deref(), Some("by hand"));
}

/// So many that what was missing is taken to be removed.
fn looks(watch: &mut Followed) {
    (0..SECOND_LOOK).for_each(|_| watch.poll().unwrap());
}

/// A connection as a provisioning script or the `sqlite3` shell would have.
fn foreign(temp: &TempDir) -> Connection {
    Connection::open(temp.path().join(crate::DATABASE_FILE)).unwrap()
}

fn md5(cache: &CredentialCache, user: &str) -> Option<Ha1> {
    cache.get(user.as_bytes(), b"example.com", |c| c.get(NameForm::Bare, Algorithm::Md5)).flatten()
}

fn expected(user: &str, password: &str) -> Option<Ha1> {
    Some(sip_auth::ha1(Algorithm::Md5, user.as_bytes(), b"example.com", password.as_bytes()))
}

#[test]
fn what_is_there_is_loaded_and_changes_follow() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    subscribers.add(&name("alice@example.com"), "one").unwrap();
    let (mut watch, cache, removed) = watch(&temp);
    assert_eq!(md5(&cache, "alice"), expected("alice", "one"));
    subscribers.add(&name("bob@example.com"), "b").unwrap();
    subscribers.add(&name("alice@example.com"), "two").unwrap();
    assert_eq!(cache.len(), 1, "not before the poll");
    watch.poll().unwrap();
    assert_eq!(md5(&cache, "alice"), expected("alice", "two"));
    assert_eq!(md5(&cache, "bob"), expected("bob", "b"));
    subscribers.remove(&name("alice@example.com")).unwrap();
    watch.poll().unwrap();
    assert_eq!((md5(&cache, "alice"), cache.len()), (None, 1));
    assert_eq!(*removed.lock().unwrap(), ["alice@example.com"]);
}

#[test]
fn raw_sql_of_every_kind_is_seen() {
    let temp = TempDir::new();
    let (mut watch, cache, removed) = watch(&temp);
    let sql = foreign(&temp);
    let mut run = |text: &str| {
        sql.execute_batch(text).unwrap();
        watch.poll().unwrap();
    };
    run(
        "INSERT INTO subscriber (id, username, domain, ha1) VALUES (5, 'a', 'example.com', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')",
    );
    assert_eq!(md5(&cache, "a"), Some(Ha1::Md5([0xaa; 16])));
    run("UPDATE subscriber SET ha1 = 'BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB' WHERE username = 'a'");
    assert_eq!(md5(&cache, "a"), Some(Ha1::Md5([0xbb; 16])));
    run("UPDATE subscriber SET username = 'b' WHERE username = 'a'");
    assert_eq!((md5(&cache, "a"), md5(&cache, "b")), (None, Some(Ha1::Md5([0xbb; 16]))));
    // REPLACE takes the row away by its id without firing a DELETE trigger.
    run(
        "REPLACE INTO subscriber (id, username, domain, ha1) VALUES (5, 'c', 'example.com', 'cccccccccccccccccccccccccccccccc')",
    );
    assert_eq!((md5(&cache, "b"), md5(&cache, "c")), (None, Some(Ha1::Md5([0xcc; 16]))));
    run(
        "INSERT INTO subscriber (id, username, domain, ha1) VALUES (6, 'd', 'example.com', 'dddddddddddddddddddddddddddddddd')",
    );
    run("UPDATE OR REPLACE subscriber SET id = 6 WHERE username = 'c'");
    assert_eq!((md5(&cache, "c"), md5(&cache, "d")), (Some(Ha1::Md5([0xcc; 16])), None));
    run("DELETE FROM subscriber");
    assert!(cache.is_empty());
    assert_eq!(
        *removed.lock().unwrap(),
        ["a@example.com", "b@example.com", "d@example.com", "c@example.com"]
    );
}

#[test]
fn a_table_restored_from_a_dump_is_read_again() {
    let temp = TempDir::new();
    Subscribers::open(temp.path()).unwrap().add(&name("old@example.com"), "x").unwrap();
    let (mut watch, cache, removed) = watch(&temp);
    let sql = foreign(&temp);
    let create: String = sql
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 'subscriber'", [], |row| row.get(0))
        .unwrap();
    sql.execute_batch(&format!(
        "BEGIN; DROP TABLE subscriber; {create};
         INSERT INTO subscriber (username, domain, ha1) VALUES ('new', 'example.com', '11111111111111111111111111111111');
         COMMIT;"
    ))
    .unwrap();
    watch.poll().unwrap();
    assert_eq!((md5(&cache, "old"), md5(&cache, "new")), (None, Some(Ha1::Md5([0x11; 16]))));
    looks(&mut watch);
    assert_eq!(*removed.lock().unwrap(), ["old@example.com"], "its bindings go as well");
    // The triggers are back too.
    sql.execute("DELETE FROM subscriber", []).unwrap();
    watch.poll().unwrap();
    assert!(cache.is_empty());
}

#[test]
fn a_gap_in_the_log_makes_it_read_everything() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    subscribers.add(&name("gone@example.com"), "x").unwrap();
    let (mut watch, cache, removed) = watch(&temp);
    subscribers.add(&name("alice@example.com"), "x").unwrap();
    subscribers.remove(&name("gone@example.com")).unwrap();
    foreign(&temp).execute("DELETE FROM subscriber_change", []).unwrap();
    watch.poll().unwrap();
    assert_eq!((md5(&cache, "gone"), md5(&cache, "alice")), (None, expected("alice", "x")));
    looks(&mut watch);
    assert_eq!(*removed.lock().unwrap(), ["gone@example.com"]);
}

/// Removed by command and made anew between two looks: the bindings of before are gone. A script that deletes
/// and inserts all rows means no such thing.
#[test]
fn a_user_removed_and_made_anew_has_no_bindings() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    subscribers.add(&name("alice@example.com"), "x").unwrap();
    subscribers.add(&name("bob@example.com"), "x").unwrap();
    let (mut watch, cache, removed) = watch(&temp);
    subscribers.remove(&name("alice@example.com")).unwrap();
    subscribers.add(&name("alice@example.com"), "y").unwrap();
    foreign(&temp)
        .execute_batch(
            "BEGIN; DELETE FROM subscriber WHERE username = 'bob';
             INSERT INTO subscriber (username, domain, ha1)
             VALUES ('bob', 'example.com', '11111111111111111111111111111111'); COMMIT;",
        )
        .unwrap();
    watch.poll().unwrap();
    assert_eq!(*removed.lock().unwrap(), ["alice@example.com"]);
    assert_eq!(md5(&cache, "alice"), expected("alice", "y"));
}

#[test]
fn a_change_log_of_before_gets_its_new_column() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    foreign(&temp)
        .execute_batch(
            "CREATE TABLE subscriber_change (id INTEGER PRIMARY KEY AUTOINCREMENT,
             username VARCHAR(128) NOT NULL, domain VARCHAR(253) NOT NULL);
             INSERT INTO subscriber_change (id, username, domain) VALUES (7, 'a', 'example.com');",
        )
        .unwrap();
    let (mut watch, _, removed) = watch(&temp);
    assert_eq!(watch.removals().applied.load(Ordering::Relaxed), 7, "the numbers go on");
    subscribers.add(&name("alice@example.com"), "x").unwrap();
    watch.poll().unwrap();
    subscribers.remove(&name("alice@example.com")).unwrap();
    watch.poll().unwrap();
    assert_eq!(*removed.lock().unwrap(), ["alice@example.com"]);
}

/// A removal that the log of bindings does not have yet is not forgotten.
#[test]
fn changes_are_kept_until_their_effects_are_durable() {
    let temp = TempDir::new();
    let (mut watch, _, _) = watch(&temp);
    let durable = watch.removals().durable;
    durable.store(10, Ordering::Relaxed);
    let sql = foreign(&temp);
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
        INSERT INTO subscriber (username, domain, ha1)
        SELECT 'u' || i, 'example.com', '11111111111111111111111111111111' FROM n";
    sql.execute_batch(many).unwrap();
    let first = || -> Option<i64> {
        sql.query_row("SELECT min(id) FROM subscriber_change", [], |row| row.get(0)).unwrap()
    };
    let polls = |watch: &mut Followed| (0..3).for_each(|_| watch.poll().unwrap());
    polls(&mut watch);
    assert_eq!((watch.removals().applied.load(Ordering::Relaxed), first()), (6_000, Some(1)));
    durable.store(3_000, Ordering::Relaxed);
    polls(&mut watch);
    assert_eq!(first(), Some(3_001));
    durable.store(6_000, Ordering::Relaxed);
    polls(&mut watch);
    assert_eq!(first(), None);
}

/// As after `DELETE FROM sqlite_sequence`, which some tools do when they empty tables.
#[test]
fn numbers_that_begin_again_make_it_read_everything() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    let (mut watch, cache, _) = watch(&temp);
    for user in ["a", "b", "c"] {
        subscribers.add(&name(&format!("{user}@example.com")), "x").unwrap();
    }
    watch.poll().unwrap();
    let sql = foreign(&temp);
    sql.execute_batch("DELETE FROM subscriber_change; DELETE FROM sqlite_sequence").unwrap();
    sql.execute("DELETE FROM subscriber WHERE username = 'a'", []).unwrap();
    watch.poll().unwrap();
    assert_eq!((md5(&cache, "a"), cache.len()), (None, 2));
}

#[test]
fn the_log_is_bounded_with_and_without_a_server() {
    let temp = TempDir::new();
    let (mut watch, cache, _) = watch(&temp);
    let sql = foreign(&temp);
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
        INSERT INTO subscriber (username, domain, ha1)
        SELECT 'u' || i, 'example.com', '11111111111111111111111111111111' FROM n";
    let length =
        || -> i64 { sql.query_row("SELECT count(*) FROM subscriber_change", [], |row| row.get(0)).unwrap() };
    sql.execute_batch(many).unwrap();
    assert_eq!(length(), 12_000);
    for _ in 0..3 {
        watch.poll().unwrap();
    }
    assert_eq!((cache.len(), length()), (12_000, 0));
    drop(watch);
    sql.execute_batch("UPDATE sqlite_sequence SET seq = 999500 WHERE name = 'subscriber_change'").unwrap();
    sql.execute_batch("INSERT INTO subscriber_change (id, username, domain) VALUES (3, 'x', 'y')").unwrap();
    sql.execute_batch("UPDATE subscriber SET ha1 = '' WHERE id <= 1000").unwrap();
    assert_eq!(length(), 1_000, "the entry that is far behind was deleted");
}

#[test]
fn a_clear_password_written_by_hand_works_and_is_erased() {
    let temp = TempDir::new();
    let (mut watch, cache, _) = watch(&temp);
    let sql = foreign(&temp);
    sql.execute_batch(
        "INSERT INTO subscriber (username, domain, password) VALUES ('a', 'example.com', 'clear')",
    )
    .unwrap();
    watch.poll().unwrap();
    assert_eq!(md5(&cache, "a"), expected("a", "clear"));
    let row = || -> (String, String) {
        sql.query_row("SELECT password, ha1 FROM subscriber", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
    };
    assert_eq!(row().0, "");
    assert_eq!(row().1.len(), 32);
    watch.poll().unwrap();
    assert_eq!(md5(&cache, "a"), expected("a", "clear"));
    // The same before a start.
    sql.execute_batch("UPDATE subscriber SET password = 'other'").unwrap();
    let (_watch, cache, _) = self::watch(&temp);
    assert_eq!((md5(&cache, "a"), row().0.as_str()), (expected("a", "other"), ""));
}

#[test]
fn senseless_rows_do_no_harm() {
    let temp = TempDir::new();
    let (mut watch, cache, _) = watch(&temp);
    let sql = foreign(&temp);
    sql.execute_batch(
        "INSERT INTO subscriber (username, domain, ha1) VALUES (x'00ff', 'example.com', 'nothex');
         INSERT INTO subscriber (username, domain, password) VALUES ('a:b', 'example.com', 'pw');
         INSERT INTO subscriber (username, domain, ha1) VALUES (17, 4.5, 12);",
    )
    .unwrap();
    watch.poll().unwrap();
    assert!(cache.get(b"a:b", b"example.com", Credentials::is_empty).unwrap());
    assert!(cache.get(b"\x00\xff", b"example.com", Credentials::is_empty).unwrap());
}

#[test]
fn a_lock_held_elsewhere_delays_and_loses_nothing() {
    let temp = TempDir::new();
    let (mut watch, cache, _) = watch(&temp);
    let sql = foreign(&temp);
    sql.execute_batch("INSERT INTO subscriber (username, domain, ha1) VALUES ('a', 'example.com', '11111111111111111111111111111111')").unwrap();
    sql.execute_batch("BEGIN IMMEDIATE; DELETE FROM subscriber;").unwrap();
    watch.poll().unwrap();
    assert!(cache.len() == 1, "readers do not wait for a writer, and see what is committed");
    sql.execute_batch("COMMIT").unwrap();
    watch.poll().unwrap();
    assert!(cache.is_empty());
}

/// A table that is dropped, made anew and filled in several transactions: bindings of users that come back
/// stay. What the change log says is in force meanwhile, and said to be: a start after a crash would else
/// apply it once more, to bindings of users that were removed by command, made anew and registered.
#[test]
fn a_table_that_is_being_filled_again_removes_no_binding() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    ["alice", "gone", "guest"].iter().for_each(|user| {
        subscribers.add(&name(&format!("{user}@example.com")), "x").unwrap();
    });
    let (mut watch, cache, removed) = watch(&temp);
    let applied = watch.removals().applied;
    let before = applied.load(Ordering::Relaxed);
    let sql = foreign(&temp);
    let create: String = sql
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 'subscriber'", [], |row| row.get(0))
        .unwrap();
    let insert = |user: &str| {
        let hash = "11111111111111111111111111111111";
        let sql_text = "INSERT INTO subscriber (username, domain, ha1) VALUES (?1, 'example.com', ?2)";
        sql.execute(sql_text, [user, hash]).unwrap();
    };
    sql.execute_batch(&format!("DROP TABLE subscriber; {create};")).unwrap();
    // However long it is empty.
    (0..3).for_each(|_| looks(&mut watch));
    assert!(cache.is_empty() && removed.lock().unwrap().is_empty());
    insert("alice");
    looks(&mut watch);
    insert("guest");
    looks(&mut watch);
    assert!(removed.lock().unwrap().is_empty());
    assert_eq!(applied.load(Ordering::Relaxed), before + 2);
    subscribers.remove(&name("alice@example.com")).unwrap();
    subscribers.add(&name("alice@example.com"), "y").unwrap();
    watch.poll().unwrap();
    assert_eq!(*removed.lock().unwrap(), ["alice@example.com"]);
    assert_eq!(applied.load(Ordering::Relaxed), before + 5);
    looks(&mut watch);
    looks(&mut watch);
    assert_eq!(*removed.lock().unwrap(), ["alice@example.com", "gone@example.com"]);
    // From here on all is as it was.
    sql.execute("DELETE FROM subscriber WHERE username = 'guest'", []).unwrap();
    watch.poll().unwrap();
    assert_eq!(*removed.lock().unwrap(), ["alice@example.com", "gone@example.com", "guest@example.com"]);
    assert_eq!(applied.load(Ordering::Relaxed), before + 6);
}

/// Removed by command and made anew, and the table is read as a whole at the next look.
#[test]
fn reading_everything_sees_who_was_made_anew() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    subscribers.add(&name("alice@example.com"), "x").unwrap();
    subscribers.remove(&name("alice@example.com")).unwrap();
    subscribers.add(&name("alice@example.com"), "y").unwrap();
    let (mut watch, cache, removed) = watch(&temp);
    assert!(removed.lock().unwrap().is_empty(), "that was before");
    subscribers.remove(&name("alice@example.com")).unwrap();
    subscribers.add(&name("alice@example.com"), "z").unwrap();
    foreign(&temp).execute_batch("CREATE TABLE other (id INTEGER)").unwrap();
    watch.poll().unwrap();
    assert_eq!(*removed.lock().unwrap(), ["alice@example.com"]);
    assert_eq!(md5(&cache, "alice"), expected("alice", "z"));
}

/// Who was deleted while the table is read as a whole is not only missing: the change log has it, and is not
/// asked again after a crash.
#[test]
fn reading_everything_removes_at_once_whom_the_change_log_has() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    ["alice", "gone", "guest"].iter().for_each(|user| {
        subscribers.add(&name(&format!("{user}@example.com")), "x").unwrap();
    });
    let (mut watch, cache, removed) = watch(&temp);
    let sql = foreign(&temp);
    sql.execute_batch("DELETE FROM subscriber WHERE username = 'gone'; CREATE TABLE other (id INTEGER)")
        .unwrap();
    watch.poll().unwrap();
    assert_eq!(*removed.lock().unwrap(), ["gone@example.com"]);
    // Missing, back and deleted between two looks: by then the cache knows nothing of him.
    let create: String = sql
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 'subscriber'", [], |row| row.get(0))
        .unwrap();
    sql.execute_batch(&format!("DROP TABLE subscriber; {create};")).unwrap();
    watch.poll().unwrap();
    subscribers.add(&name("guest@example.com"), "x").unwrap();
    sql.execute_batch("DELETE FROM subscriber").unwrap();
    watch.poll().unwrap();
    // Once for each of the changes.
    assert_eq!(
        removed.lock().unwrap().get(1..),
        Some(&["guest@example.com", "guest@example.com"].map(str::to_owned)[..])
    );
    assert!(cache.is_empty());
    assert_eq!(Some(watch.removals().applied.load(Ordering::Relaxed)), newest(&sql));
}

fn newest(sql: &Connection) -> Option<i64> {
    sql.query_row(NEWEST_CHANGE, [], |row| row.get(0)).unwrap()
}

/// A table that is filled in one long transaction is as it was before until that is over.
#[test]
fn who_is_missing_is_looked_for_when_nobody_writes() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    ["alice", "gone", "guest"].iter().for_each(|user| {
        subscribers.add(&name(&format!("{user}@example.com")), "x").unwrap();
    });
    let (mut watch, _, removed) = watch(&temp);
    let sql = foreign(&temp);
    let create: String = sql
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 'subscriber'", [], |row| row.get(0))
        .unwrap();
    let insert = |user: &str| {
        format!(
            "INSERT INTO subscriber (username, domain, ha1)
             VALUES ('{user}', 'example.com', '11111111111111111111111111111111');"
        )
    };
    sql.execute_batch(&format!("DROP TABLE subscriber; {create}; {}", insert("alice"))).unwrap();
    watch.poll().unwrap();
    sql.execute_batch(&format!("BEGIN IMMEDIATE; {}", insert("guest"))).unwrap();
    looks(&mut watch);
    watch.poll().unwrap();
    assert!(removed.lock().unwrap().is_empty());
    sql.execute_batch("COMMIT").unwrap();
    looks(&mut watch);
    looks(&mut watch);
    assert_eq!(*removed.lock().unwrap(), ["gone@example.com"]);
}

/// Where all calls of a user go, as the cache has it.
fn always(cache: &CredentialCache, user: &str) -> Option<String> {
    let rules = cache.rules(user.as_bytes(), b"Example.com")?;
    rules.target(call_forwarding::When::Always).map(str::to_owned)
}

fn to(target: &str) -> Rules {
    let mut rules = Rules::default();
    rules.set_target(call_forwarding::When::Always, target).unwrap();
    rules
}

#[test]
fn rules_of_users_are_loaded_and_changes_follow() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    for user in ["alice", "bob"] {
        subscribers.add(&name(&format!("{user}@example.com")), "x").unwrap();
    }
    assert!(subscribers.set_rules(&name("alice@example.com"), to("+49")).unwrap());
    assert!(!subscribers.set_rules(&name("nobody@example.com"), to("+49")).unwrap());
    let (mut watch, cache, removed) = watch(&temp);
    assert_eq!((always(&cache, "alice"), always(&cache, "bob")), (Some("+49".into()), None));
    subscribers.set_rules(&name("alice@example.com"), to("+50")).unwrap();
    subscribers.set_rules(&name("bob@example.com"), to("alice")).unwrap();
    watch.poll().unwrap();
    assert_eq!((always(&cache, "alice"), always(&cache, "bob")), (Some("+50".into()), Some("alice".into())));
    // Another password leaves them.
    subscribers.add(&name("bob@example.com"), "y").unwrap();
    subscribers.set_rules(&name("alice@example.com"), Rules::default()).unwrap();
    watch.poll().unwrap();
    assert_eq!((always(&cache, "alice"), always(&cache, "bob")), (None, Some("alice".into())));
    assert!(cache.has_rules() && removed.lock().unwrap().is_empty());
    // They go with the user, and do not come back.
    subscribers.remove(&name("bob@example.com")).unwrap();
    subscribers.add(&name("bob@example.com"), "z").unwrap();
    watch.poll().unwrap();
    assert_eq!(always(&cache, "bob"), None);
    assert!(!cache.has_rules());
}

#[test]
fn rules_written_by_hand_are_followed_as_far_as_they_are_right() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    subscribers.add(&name("alice@example.com"), "x").unwrap();
    let (mut watch, cache, _) = watch(&temp);
    let sql = foreign(&temp);
    sql.execute_batch(
        "INSERT INTO user_rules (username, domain, forward_always, forward_busy, ring_time)
         VALUES ('alice', 'example.com', '+49', 'not this', 4711);
         INSERT INTO user_rules (username, domain, forward_always) VALUES ('nobody', 'example.com', '+49')",
    )
    .unwrap();
    watch.poll().unwrap();
    let rules = cache.rules(b"alice", b"example.com").unwrap();
    assert_eq!((*rules).clone(), to("+49"));
    assert_eq!(always(&cache, "nobody"), None, "there is no such user");
    // All is read again where changes are missing from the log.
    sql.execute_batch("UPDATE user_rules SET forward_always = '+50'; DELETE FROM subscriber_change").unwrap();
    watch.poll().unwrap();
    assert_eq!(always(&cache, "alice"), Some("+50".into()));
    sql.execute_batch("DELETE FROM user_rules; DELETE FROM subscriber_change").unwrap();
    watch.poll().unwrap();
    assert_eq!(always(&cache, "alice"), None);
}
