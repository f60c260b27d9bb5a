//! What the write-behind costs for a registration: `cargo run --release -p store --example refresh`.
//!
//! Registers users again and again, a batch at a time, and waits until each batch is on disk. Says what the
//! threads that write and move used for a registration: processor time (kernel included) and bytes, both as
//! Linux counts them; and how long a start takes after a crash at the end of it, and after an orderly stop.
//! For instructions in user mode run it under `valgrind --tool=callgrind --separate-threads=yes`.
//!
//! Arguments: users (default 100,000), batch (10,000), batches (200), a directory to work in (default: the
//! system's temporary directory), and `keep` to leave there what a crash would. `open DIRECTORY` instead says
//! how long a start takes there, and what processor time.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a measurement reads the clock and may give up"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sip_registrar::{Change, Record};
use store::{Clock, Store, StoreOptions};
use wire::{Flow, ListenerId, Time};

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|first| first == "open").is_some() {
        return open_only(Path::new(&arguments.next().unwrap()));
    }
    let mut number = |default: u32| arguments.next().map_or(default, |text| text.parse().unwrap());
    let (users, batch, batches) = (number(100_000), number(10_000), number(200));
    let base = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let keep = arguments.next().is_some();
    let dir = base.join(format!("strowger-refresh-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    // All of them once, so that the table holds them all.
    let (store, clock) = open(&dir);
    for user in 0..users {
        put(&store, record(user, 0, clock.now()));
    }
    settle(&store);
    store.close().unwrap();
    let (store, clock) = open(&dir);
    let (time, bytes, began) = (writer_time(), written_bytes(), Instant::now());
    let mut user = 0u32;
    for round in 1..=batches {
        for _ in 0..batch {
            // Neighbours in time are no neighbours in the table.
            user = (user + 7_919) % users;
            put(&store, record(user, round, clock.now()));
        }
        settle(&store);
    }
    let count = f64::from(batches) * f64::from(batch);
    let spent = (writer_time() - time).as_secs_f64() * 1e6 / count;
    println!("registrations                       {count:>12.0} in {:.1} s", began.elapsed().as_secs_f64());
    println!("processor time of writer and mover  {spent:>12.2} us each");
    println!("bytes given to write()              {:>12.0} each", (written_bytes() - bytes) / count);
    let crash = crashed(&dir);
    let began = Instant::now();
    let (found, _) = open(&crash);
    println!("opening after a crash               {:>12.3} s", began.elapsed().as_secs_f64());
    assert_eq!(found.location().size().1, users as usize);
    drop(found);
    std::fs::remove_dir_all(&crash).unwrap();
    if keep {
        println!("as after a crash                    {}", crashed(&dir).display());
    }
    let began = Instant::now();
    store.close().unwrap();
    println!("closing                             {:>12.3} s", began.elapsed().as_secs_f64());
    let began = Instant::now();
    let (store, _) = open(&dir);
    println!("opening                             {:>12.3} s", began.elapsed().as_secs_f64());
    assert_eq!(store.location().size().1, users as usize);
    drop(store);
    if keep {
        println!("as after an end                     {}", dir.display());
    } else {
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

/// Opens and ends as a crash would.
fn open_only(dir: &Path) {
    let began = Instant::now();
    let (store, _) = open(dir);
    let (wall, spent) = (began.elapsed().as_secs_f64(), processor_time());
    println!("{} bindings in {wall:.3} s, {spent:.3} s of processors", store.location().size().1);
    std::process::exit(0);
}

/// A copy of the directory as a crash would leave it now.
fn crashed(dir: &Path) -> PathBuf {
    let copy = dir.with_extension("crash");
    std::fs::create_dir_all(&copy).unwrap();
    for file in std::fs::read_dir(dir).unwrap() {
        let name = file.unwrap().file_name();
        if !name.to_string_lossy().ends_with("-shm") {
            std::fs::copy(dir.join(&name), copy.join(&name)).unwrap();
        }
    }
    copy
}

fn open(dir: &Path) -> (Store, Clock) {
    let clock = Clock::system(Instant::now());
    let mut options = StoreOptions::new(dir, clock.clone());
    options.sockets.push("udp:0.0.0.0:5060".to_owned());
    (Store::open(options).unwrap(), clock)
}

/// Each from an address of its own.
fn record(user: u32, cseq: u32, now: Time) -> Record {
    let address = SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 | (user & 0xff_ffff)), 5060));
    Record {
        aor: format!("user{user:06}@example.com").into_bytes().into(),
        contact: format!("sip:user{user:06}@{address};ob").into_bytes().into(),
        params: Box::default(),
        q: 1000,
        expires: now + Duration::from_secs(86_400),
        call_id: format!("{user:024x}").into_bytes().into(),
        cseq,
        flow: Flow::udp(ListenerId(0), address),
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
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Processor time that the threads that write and move have used.
fn writer_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let nanos = tasks
        .filter(|task| {
            std::fs::read_to_string(task.join("comm"))
                .is_ok_and(|name| matches!(name.trim(), "store-write" | "store-move"))
        })
        .filter_map(|task| std::fs::read_to_string(task.join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.trim().parse::<u64>().ok());
    Duration::from_nanos(nanos.sum())
}

/// Processor time of this process, threads that have ended included: in hundredths of a second, as proc(5)
/// has it.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = text.rsplit(") ").next().unwrap().split(' ').skip(11).take(2);
    fields.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// Bytes that this process has given to write(2) and its kin.
fn written_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap()
}
