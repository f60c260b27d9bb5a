//! Tests of the whole store with its threads, and with processes that are killed or starved.
//!
//! The tests marked `ignore` are the children: this program started again with a directory in its
//! environment. They do nothing by themselves.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use location::testing::{TempDir, record};
use sip_registrar::Change;

use super::*;
use crate::subscribers::Subscribers;
use crate::user::UserName;

/// Names the data directory of a child.
const CHILD_DIR: &str = "STROWGER_STORE_TEST_DIR";

#[allow(clippy::disallowed_methods, reason = "a store with threads runs on the system's clocks")]
fn options(dir: &Path) -> StoreOptions {
    let origin = Instant::now();
    let mut options = StoreOptions::new(dir, Clock::system(origin));
    options.sockets = vec!["udp:0.0.0.0:5060".to_owned(), "tcp:0.0.0.0:5060".to_owned()];
    options
}

fn put(store: &Store, clock: &Clock, user: &str) {
    let record = record(user, "sip:x@192.0.2.9", clock.now() + Duration::from_secs(3_600));
    store.location().register(&record.aor, |table, changes| {
        table.restore(&record).unwrap();
        changes.push(Change::Put(record.clone()));
    });
}

fn live(store: &Store, clock: &Clock, user: &str) -> bool {
    store.location().lookup(format!("{user}@example.com").as_bytes(), clock.now(), |_| ()) == 1
}

/// Waits until `done`, for as long as a heavily loaded machine may need.
fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if done() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    panic!("never happened: {what}");
}

/// Starts the test `name`, which does nothing where it is not asked to, of this program in another process.
fn child(name: &str, dir: &Path, limit: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    let script = format!("trap '' XFSZ; {limit} exec \"$0\" --exact store::tests::{name} --nocapture");
    Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg(program)
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Lines of a child that begin with `prefix`, without it. The test harness may write before it.
fn lines(child: &mut Child, prefix: &'static str) -> impl Iterator<Item = String> + use<> {
    let output = BufReader::new(child.stdout.take().unwrap());
    output
        .lines()
        .map_while(|line| line.ok())
        .filter_map(move |line| line.split_once(prefix).map(|(_, rest)| rest.to_owned()))
}

/// Registers users for ever and says which of them are safe.
#[test]
fn child_that_registers() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let options = options(Path::new(&dir));
    let clock = options.clock.clone();
    let store = Store::open(options).unwrap();
    for round in 0.. {
        for user in 0..40 {
            put(&store, &clock, &format!("r{round}u{user}"));
        }
        until("the round is on disk", || store.location().pending() == 0);
        println!("safe {round}");
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9_again_and_again() {
    let temp = TempDir::new();
    for rounds in [1, 7, 3] {
        let mut child = child("child_that_registers", temp.path(), "");
        let acknowledged: Vec<String> = lines(&mut child, "safe ").take(rounds).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(acknowledged.len(), rounds);
        let options = options(temp.path());
        let clock = options.clock.clone();
        let store = Store::open(options).unwrap();
        for round in acknowledged {
            for user in 0..40 {
                assert!(live(&store, &clock, &format!("r{round}u{user}")), "round {round}");
                store.location().remove(format!("r{round}u{user}@example.com").as_bytes());
            }
        }
        store.close().unwrap();
    }
}

/// Registers until the disk is full, then tells what it sees.
#[test]
fn child_that_runs_out_of_space() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let options = options(Path::new(&dir));
    let clock = options.clock.clone();
    let store = Store::open(options).unwrap();
    let location = store.location();
    let mut count = 0;
    while location.accepting() && count < 1_000_000 {
        put(&store, &clock, &format!("user{count}"));
        count += 1;
        if count % 500 == 0 {
            until("a round has ended", || location.pending() == 0 || !location.accepting());
        }
    }
    let all = (0..count).all(|user| live(&store, &clock, &format!("user{user}")));
    println!("full {all} {}", location.pending() > 0);
    let error = store.close().unwrap_err();
    println!("close {error}");
}

#[test]
fn a_file_size_limit_is_survived_and_reported() {
    let temp = TempDir::new();
    // One MB, in blocks of 512 bytes: the write-ahead log meets the limit first.
    let mut child = child("child_that_runs_out_of_space", temp.path(), "ulimit -f 2000;");
    let said: Vec<String> = lines(&mut child, "full ").collect();
    assert!(child.wait().unwrap().success());
    assert_eq!(said, ["true true"]);
    // With the limit gone the file is whole.
    let store = Store::open(options(temp.path())).unwrap();
    assert!(store.loaded().live > 0 && store.loaded().bad == 0);
    store.close().unwrap();
}

#[test]
fn subscribers_added_by_another_process_are_seen_while_serving() {
    let temp = TempDir::new();
    let store = Store::open(options(temp.path())).unwrap();
    let credentials = store.credentials();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    let alice = UserName::parse("alice@example.com").unwrap();
    assert!(!credentials.is_local_user(b"alice", b"example.com"));
    subscribers.add(&alice, "one").unwrap();
    until("she is known", || credentials.is_local_user(b"alice", b"example.com"));
    let before = credentials.get(b"alice", b"example.com", Clone::clone).unwrap();
    subscribers.add(&alice, "two").unwrap();
    until("her password is the new one", || {
        credentials.get(b"alice", b"example.com", |now| *now != before) == Some(true)
    });
    subscribers.remove(&alice).unwrap();
    until("she is gone", || !credentials.is_local_user(b"alice", b"example.com"));
    store.close().unwrap();
}

#[test]
fn a_subscriber_removed_while_no_server_runs_is_not_called_by_the_next() {
    let temp = TempDir::new();
    let names = ["bob", "carol"].map(|user| UserName::new(user, "example.com").unwrap());
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    for name in &names {
        subscribers.add(name, "secret").unwrap();
    }
    let options = options(temp.path());
    let store = Store::open(options.clone()).unwrap();
    ["bob", "carol"].iter().for_each(|user| put(&store, &options.clock, user));
    store.close().unwrap();
    assert!(subscribers.remove(&names[0]).unwrap());
    let store = Store::open(options.clone()).unwrap();
    assert!(!live(&store, &options.clock, "bob") && live(&store, &options.clock, "carol"));
}

/// A copy of a data directory as a crash at this moment would leave it.
fn crashed(dir: &Path) -> TempDir {
    let temp = TempDir::new();
    for file in std::fs::read_dir(dir).unwrap() {
        let name = file.unwrap().file_name();
        if name.to_str().is_some_and(|name| !name.ends_with("-shm") && !name.ends_with(".lock")) {
            std::fs::copy(dir.join(&name), temp.path().join(&name)).unwrap();
        }
    }
    temp
}

#[test]
fn a_subscriber_removed_after_a_crash_is_not_called_by_the_next_server() {
    let temp = TempDir::new();
    let names = ["bob", "carol", "dave"].map(|user| UserName::new(user, "example.com").unwrap());
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    names.iter().for_each(|name| _ = subscribers.add(name, "secret").unwrap());
    let first = options(temp.path());
    let store = Store::open(first.clone()).unwrap();
    ["bob", "carol", "dave", "guest"].iter().for_each(|user| put(&store, &first.clock, user));
    until("all is on disk", || store.location().pending() == 0);
    let crash = crashed(temp.path());
    let mut others = Subscribers::open(crash.path()).unwrap();
    others.remove(&names[0]).unwrap();
    // Back with another password, while nobody ran: the phone of before is not.
    others.remove(&names[2]).unwrap();
    others.add(&names[2], "other").unwrap();
    let second = options(crash.path());
    let next = Store::open(second.clone()).unwrap();
    let known = |store: &Store, clock| ["bob", "carol", "dave", "guest"].map(|user| live(store, clock, user));
    assert_eq!(known(&next, &second.clock), [false, true, false, true]);
    next.close().unwrap();
    // Removed while the server runs, and back with a phone: a crash does not remove it once more.
    subscribers.remove(&names[1]).unwrap();
    until("her binding is gone", || !live(&store, &first.clock, "carol"));
    subscribers.add(&names[1], "other").unwrap();
    put(&store, &first.clock, "carol");
    until("all is on disk", || store.location().pending() == 0);
    let crash = crashed(temp.path());
    let third = options(crash.path());
    let next = Store::open(third.clone()).unwrap();
    assert_eq!(known(&next, &third.clock), [true, true, true, true]);
}

/// What operators' tools find in the table while a server runs, and after it.
#[test]
fn other_programs_read_the_table_and_find_all_of_it_after_the_end() {
    let temp = TempDir::new();
    let options = options(temp.path());
    let store = Store::open(options.clone()).unwrap();
    let rows = || -> i64 {
        let sql = rusqlite::Connection::open(temp.path().join(crate::DATABASE_FILE)).unwrap();
        sql.query_row("SELECT count(*) FROM location", [], |row| row.get(0)).unwrap()
    };
    (0..300).for_each(|user| put(&store, &options.clock, &format!("u{user}")));
    until("all is on disk", || store.location().pending() == 0);
    assert_eq!(rows(), 0, "durable, and not yet in the table");
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    subscribers.add(&UserName::new("bob", "example.com").unwrap(), "secret").unwrap();
    store.location().remove(b"u7@example.com");
    store.close().unwrap();
    assert_eq!(rows(), 299);
    let logs: Vec<u64> = std::fs::read_dir(temp.path())
        .unwrap()
        .map(|file| file.unwrap())
        .filter(|file| file.file_name().to_str().unwrap().ends_with(".log"))
        .map(|file| file.metadata().unwrap().len())
        .collect();
    assert!(matches!(logs[..], [length] if length < 128), "the table is all there is: {logs:?}");
    assert_eq!(Store::open(options).unwrap().loaded().live, 299);
}

#[test]
fn a_removed_subscriber_is_not_called_any_more() {
    let temp = TempDir::new();
    let mut subscribers = Subscribers::open(temp.path()).unwrap();
    let alice = UserName::parse("alice@example.com").unwrap();
    subscribers.add(&alice, "one").unwrap();
    let options = options(temp.path());
    let clock = options.clock.clone();
    let store = Store::open(options).unwrap();
    put(&store, &clock, "alice");
    put(&store, &clock, "guest");
    subscribers.remove(&alice).unwrap();
    until("her binding is gone", || !live(&store, &clock, "alice"));
    assert!(live(&store, &clock, "guest"), "a binding of no subscriber is none of its business");
}

#[test]
fn an_import_and_registrations_share_the_file() {
    let temp = TempDir::new();
    let options = options(temp.path());
    let clock = options.clock.clone();
    let store = Store::open(options).unwrap();
    let mut text = String::from("username,domain,ha1\n");
    for user in 0..20_000 {
        text.push_str(&format!("u{user},example.com,{user:032x}\n"));
    }
    let file = temp.path().join("users.csv");
    std::fs::write(&file, text).unwrap();
    std::thread::scope(|scope| {
        let import = scope.spawn(|| {
            let mut subscribers = Subscribers::open(temp.path()).unwrap();
            subscribers.import(&file, &crate::ImportOptions::default(), &mut |_| {}).unwrap()
        });
        for user in 0.. {
            put(&store, &clock, &format!("b{user}"));
            until("it is on disk", || store.location().pending() == 0);
            if import.is_finished() {
                break;
            }
        }
        assert_eq!(import.join().unwrap().written, 20_000);
    });
    assert_eq!(store.location().health(), Health::Good);
    until("all users are known", || store.credentials().len() == 20_000);
    store.close().unwrap();
}

#[test]
fn closing_writes_what_is_left_and_lets_go_of_the_directory() {
    let temp = TempDir::new();
    let first = options(temp.path());
    let clock = first.clock.clone();
    let store = Store::open(first).unwrap();
    assert_eq!(Store::open(options(temp.path())).unwrap_err().kind, Kind::Busy);
    put(&store, &clock, "alice");
    for file in std::fs::read_dir(temp.path()).unwrap() {
        let file = file.unwrap();
        let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata().unwrap());
        assert_eq!(mode & 0o077, 0, "others may read {:?}", file.path());
    }
    store.close().unwrap();
    let second = options(temp.path());
    let clock = second.clock.clone();
    let store = Store::open(second).unwrap();
    assert_eq!(store.loaded().live, 1);
    put(&store, &clock, "bob");
    drop(store);
    assert_eq!(Store::open(options(temp.path())).unwrap().loaded().live, 2);
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let error = Store::open(options(Path::new("/proc/strowger/data"))).unwrap_err();
    assert!(error.to_string().contains("/proc/strowger/data"), "{error}");
}
