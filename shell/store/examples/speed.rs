//! How fast the store is on this machine and disk: `cargo run --release -p store --example speed`.
//!
//! Arguments: number of bindings and users (default 200,000), and a directory to work in (default:
//! the system's temporary directory).
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a measurement reads the clock and may give up"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sip_registrar::{Change, Record};
use store::{Clock, ImportOptions, Store, StoreOptions, Subscribers};
use wire::{Flow, ListenerId, Time};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count: u32 = arguments.next().map_or(200_000, |text| text.parse().unwrap());
    let base = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = base.join(format!("strowger-speed-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    import(&dir, count);
    for (round, what) in ["new bindings", "refreshed bindings"].into_iter().enumerate() {
        write(&dir, count, what, u32::try_from(round).unwrap());
    }
    load(&dir, count);
    latency(&dir);
    std::fs::remove_dir_all(&dir).unwrap();
}

fn report(what: &str, count: u32, time: Duration) {
    println!(
        "{what:<36} {count:>9} in {:>7.3} s: {:>9.0}/s",
        time.as_secs_f64(),
        f64::from(count) / time.as_secs_f64()
    );
}

fn open(dir: &Path) -> (Store, Clock) {
    let clock = Clock::system(Instant::now());
    let mut options = StoreOptions::new(dir, clock.clone());
    options.sockets.push("udp:0.0.0.0:5060".to_owned());
    (Store::open(options).unwrap(), clock)
}

fn record(user: u32, cseq: u32, now: Time) -> Record {
    Record {
        aor: format!("user{user}@example.com").into_bytes().into(),
        contact: format!("sip:user{user}@192.0.2.17:5060;ob").into_bytes().into(),
        params: Box::default(),
        q: 1000,
        expires: now + Duration::from_secs(3_600),
        call_id: format!("{user:024x}").into_bytes().into(),
        cseq,
        flow: Flow::udp(ListenerId(0), "192.0.2.17:5060".parse().unwrap()),
        path: Box::default(),
        instance: Box::default(),
        reg_id: 0,
        user_agent: b"Phone/1.0"[..].into(),
    }
}

fn put(store: &Store, record: Record) {
    store.location().register(&record.aor.clone(), |table, changes| {
        table.restore(&record).unwrap();
        changes.push(Change::Put(record));
    });
}

fn settle(store: &Store) {
    while store.location().pending() != 0 {
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn import(dir: &Path, count: u32) {
    let file = dir.join("users.csv");
    let mut text = std::io::BufWriter::new(std::fs::File::create(&file).unwrap());
    writeln!(text, "username,domain,password").unwrap();
    for user in 0..count {
        writeln!(text, "user{user},example.com,secret{user}").unwrap();
    }
    text.flush().unwrap();
    let began = Instant::now();
    let mut subscribers = Subscribers::open(dir).unwrap();
    subscribers.import(&file, &ImportOptions::default(), &mut |_| {}).unwrap();
    report("users imported from CSV", count, began.elapsed());
}

fn write(dir: &Path, count: u32, what: &str, cseq: u32) {
    let (store, clock) = open(dir);
    let began = Instant::now();
    for user in 0..count {
        put(&store, record(user, cseq, clock.now()));
    }
    report("changes accepted in memory", count, began.elapsed());
    settle(&store);
    report(&format!("{what} on disk"), count, began.elapsed());
}

fn load(dir: &Path, count: u32) {
    let began = Instant::now();
    let (store, clock) = open(dir);
    report("users and bindings loaded at start", count, began.elapsed());
    let (aors, _, bytes) = store.location().size();
    println!("{:<36} {:>9} bytes a user", "location table", bytes / aors.max(1));
    let (location, credentials) = (store.location(), store.credentials());
    let names: Vec<(String, String)> =
        (0..count).map(|user| (format!("user{user}"), format!("user{user}@example.com"))).collect();
    let began = Instant::now();
    let found =
        names.iter().filter(|name| credentials.is_local_user(name.0.as_bytes(), b"example.com")).count();
    report("credentials read", count, began.elapsed());
    let began = Instant::now();
    let live: usize = names.iter().map(|name| location.lookup(name.1.as_bytes(), clock.now(), |_| ())).sum();
    report("locations read", count, began.elapsed());
    assert_eq!((found, live), (names.len(), names.len()));
    let began = Instant::now();
    for port in 0..10_000u16 {
        assert!(!location.has_contact_address(([127, 0, 0, 1], port).into()));
    }
    report("contact addresses asked for", 10_000, began.elapsed());
}

/// From a change to the moment at which it is on disk, one at a time.
fn latency(dir: &Path) {
    let (store, clock) = open(dir);
    let mut times: Vec<Duration> = (0..30)
        .map(|round| {
            let began = Instant::now();
            put(&store, record(round, 9, clock.now()));
            settle(&store);
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!(
        "{:<36} median {:?}, worst of {} {:?}",
        "change on disk after",
        times[15],
        times.len(),
        times[29]
    );
}
