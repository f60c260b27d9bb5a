//! What millions of users cost the location table: bytes for each, and the time of each single step.
//!
//! ```text
//! cargo run --release -p store --example location_cost -- [USERS] [FILE.csv]
//! ```
//!
//! All users (10,000,000 unless said) register within 600 s of the table's own time, are refreshed in the
//! next 600 s and then never again, so that all of them expire. Every REGISTER is a message that is parsed
//! and carried out, as the server does it, in one of 256 tables, as many as five workers and more have; the
//! sweep that forgets runs after each second of that time. The longest step of all is printed, with what the
//! system's clock says, so that on a busy machine it is that of the machine. FILE has the processor time of
//! each second of the table's time, for a plot.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use sip_message::{Index, Limits, Parsed, parse};
use sip_registrar::{Change, Config, PathPolicy, Registration, Table};
use std::io::Write;
use std::time::{Duration, Instant};
use wire::{Flow, ListenerId, Time};

const TABLES: usize = 256;
/// Seconds in which each user registers once, and how long a registration is good for.
const ROUND: u64 = 600;
const EXPIRES: u64 = 900;
/// Addresses of record that one step of the sweep looks at, as the store has it.
const SWEEP: usize = 32;

/// Times of single steps: counts by their leading bits, three digits exact enough.
struct Steps {
    counts: Vec<u64>,
    total: u64,
    max: Duration,
}

impl Steps {
    fn new() -> Steps {
        Steps { counts: vec![0; 64 * 64], total: 0, max: Duration::ZERO }
    }

    fn add(&mut self, time: Duration) {
        let nanos = (time.as_nanos() as u64).max(64);
        let shift = nanos.ilog2() - 6;
        self.counts[(shift as usize) * 64 + (nanos >> shift) as usize - 64] += 1;
        self.total += 1;
        self.max = self.max.max(time);
    }

    fn share(&self, share: f64) -> Duration {
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return Duration::from_nanos(((at as u64 % 64 + 65) << (at / 64)) - 1);
            }
        }
        self.max
    }

    fn print(&self, what: &str) {
        let micros = |d: Duration| d.as_secs_f64() * 1e6;
        println!(
            "{what:<24} {:>10} steps, us: p50 {:.2}  p99 {:.2}  p99.99 {:.1}  longest {:.0}",
            self.total,
            micros(self.share(0.5)),
            micros(self.share(0.99)),
            micros(self.share(0.9999)),
            micros(self.max)
        );
    }
}

struct Location {
    tables: Vec<Table>,
    config: Config,
    index: Index,
    changes: Vec<Change>,
    text: Vec<u8>,
    now: Time,
    /// Processor time of each second of the table's time: registrations, sweep.
    seconds: Vec<(Duration, Duration)>,
}

impl Location {
    fn new(users: u64) -> Location {
        // A store would follow all changes; they are reported and dropped.
        let table = |i: usize| Table::new([i as u64 + 1, 7], users as usize, true);
        Location {
            tables: (0..TABLES).map(table).collect(),
            config: Config::default(),
            index: Index::new(),
            changes: Vec::new(),
            text: Vec::new(),
            now: Time::from_secs(1_000),
            seconds: Vec::new(),
        }
    }

    fn register(&mut self, user: u64, cseq: u32) -> Duration {
        let name = 1_000_000_000 + user;
        let (a, b, c) = (user >> 16 & 255, user >> 8 & 255, user & 255);
        self.text.clear();
        // Writing to a vector does not fail.
        let _ = write!(
            self.text,
            "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP 10.{a}.{b}.{c}:5060;branch=z9hG4bK{user:x}{cseq}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{name}@example.com>;tag={user:x}\r\nTo: <sip:{name}@example.com>\r\n\
             Call-ID: {user:016x}@10.{a}.{b}.{c}\r\nCSeq: {cseq} REGISTER\r\n\
             Contact: <sip:{name}@10.{a}.{b}.{c}:5060>\r\nExpires: {EXPIRES}\r\nUser-Agent: Phone/1.0\r\n\
             Content-Length: 0\r\n\r\n"
        );
        let aor = format!("{name}@example.com");
        let remote = format!("10.{a}.{b}.{c}:5060").parse().expect("an address");
        let flow = Flow::udp(ListenerId(0), remote);
        let began = Instant::now();
        let Parsed::Good(message) = parse(&self.text, &mut self.index, &Limits::default()) else {
            panic!("a good message")
        };
        // As many tables as the server has; which one serves is of no matter here.
        let table = &mut self.tables[(user.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize];
        let registration =
            Registration::read(&message, aor.as_bytes(), flow, &self.config, PathPolicy::Refuse);
        let status = registration.map_or(0, |registration| {
            registration.apply(self.now, &self.config, table, &mut self.changes).status
        });
        let took = began.elapsed();
        assert_eq!(status, 200);
        self.changes.clear();
        took
    }

    /// All users register, evenly over a round; the sweep runs each second.
    fn round(&mut self, users: u64, cseq: u32, what: &str) {
        let (mut steps, mut sweeps) = (Steps::new(), Steps::new());
        for second in 0..ROUND {
            let mut spent = Duration::ZERO;
            for user in users * second / ROUND..users * (second + 1) / ROUND {
                // Neighbours in time are no neighbours in memory.
                let took = self.register(user.wrapping_mul(7_919) % users, cseq);
                steps.add(took);
                spent += took;
            }
            let swept = self.sweep(&mut sweeps);
            self.seconds.push((spent, swept));
        }
        steps.print(what);
        sweeps.print("  sweep meanwhile");
    }

    /// One second of the table's time passes.
    fn sweep(&mut self, steps: &mut Steps) -> Duration {
        self.now = self.now + Duration::from_secs(1);
        let mut spent = Duration::ZERO;
        for table in &mut self.tables {
            loop {
                let began = Instant::now();
                let more = table.expire(self.now, SWEEP, &mut self.changes);
                let took = began.elapsed();
                self.changes.clear();
                steps.add(took);
                spent += took;
                if !more {
                    break;
                }
            }
        }
        spent
    }

    fn look_up(&self, users: u64) {
        let mut steps = Steps::new();
        for i in 0..users.min(1_000_000) {
            let user = i.wrapping_mul(104_729) % users;
            let aor = format!("{}@example.com", 1_000_000_000 + user);
            let table = &self.tables[(user.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize];
            let began = Instant::now();
            let found = table.bindings(aor.as_bytes(), self.now, |_| {});
            steps.add(began.elapsed());
            assert_eq!(found, 1);
        }
        steps.print("look-up");
    }

    fn sizes(&self, resident_before: usize) {
        let users: usize = self.tables.iter().map(Table::aors).sum();
        let bytes: usize = self.tables.iter().map(Table::bytes).sum();
        let grown = resident().saturating_sub(resident_before);
        let longest = self.tables.iter().map(Table::longest_growth_step).max().unwrap_or(0);
        println!(
            "{users} users: {:.1} bytes each by the tables' own count, {:.1} by resident memory; the longest step of \
             growth moved {longest} of them",
            bytes as f64 / users as f64,
            grown as f64 / users as f64
        );
    }
}

/// Bytes of memory of this process; 0 where the system does not say.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4_096
}

fn main() {
    let mut args = std::env::args().skip(1);
    let users: u64 = args.next().map_or(Ok(10_000_000), |text| text.parse()).expect("a number of users");
    let file = args.next();
    let before = resident();
    let mut location = Location::new(users);
    location.round(users, 1, "first registration");
    location.sizes(before);
    location.round(users, 2, "refresh");
    location.sizes(before);
    location.look_up(users);
    let mut sweeps = Steps::new();
    for _ in 0..=EXPIRES {
        let swept = location.sweep(&mut sweeps);
        location.seconds.push((Duration::ZERO, swept));
    }
    sweeps.print("sweep, all expire");
    let left: usize = location.tables.iter().map(Table::aors).sum();
    println!("{left} users are left");
    if let Some(file) = file {
        let mut text = String::from("second,registrations_ms,sweep_ms\n");
        for (second, (register, sweep)) in location.seconds.iter().enumerate() {
            text +=
                &format!("{second},{:.3},{:.3}\n", register.as_secs_f64() * 1e3, sweep.as_secs_f64() * 1e3);
        }
        std::fs::write(&file, text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}
