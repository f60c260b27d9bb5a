//! What a route table costs: bytes for each row, the time to make it, and the time of a look-up.
//!
//! ```text
//! cargo run --release -p number-routes --example route_cost -- [ROWS]
//! ```
//!
//! Tables of three forms, each of 1,000,000 rows unless said: one row for each block of a thousand numbers of
//! one country, whole numbers that were ported, and a few thousand prefixes with 16 ways each. A look-up asks
//! for a random number. Which one depends on the answer before, so that no two look-ups run at a time. Then
//! each is timed alone; that has the time of reading the clock in it, which is printed.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use number_routes::{Builder, Digits, MAX_WAYS, RouteTable, Way};
use std::hint::black_box;
use std::time::Instant;

/// Look-ups of a measurement.
const LOOKUPS: usize = 2_000_000;

/// Random numbers that are the same in each run (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// The prefix of a row, and how many numbers there are with different prefixes.
type Form = fn(u64) -> String;

/// Ten digits behind +1: the first seven are the block.
fn block(row: u64) -> String {
    format!("+1{:07}", 2_000_000 + row * 7 % 8_000_000)
}

/// A whole number.
fn ported(row: u64) -> String {
    format!("+49{:010}", 1_500_000_000 + row * 7_919)
}

/// Prefixes of two to seven digits.
fn international(row: u64) -> String {
    let prefix = row / MAX_WAYS as u64;
    format!("+{prefix}")
}

fn make(form: Form, rows: u64) -> RouteTable {
    let mut builder = Builder::new((0..MAX_WAYS).map(|n| format!("carrier{n}").into_bytes()).collect());
    for row in 0..rows {
        let prefix = Digits::parse(form(row).as_bytes()).expect("digits");
        let way = Way {
            trunk: (row % MAX_WAYS as u64) as u16,
            priority: (row % 3) as u16,
            cost: (row * 31 % 1_000) as u32,
            line: row as u32 + 2,
        };
        builder.add(prefix, way).expect("room");
    }
    builder.finish(1).expect("no conflict")
}

fn measure(name: &str, form: Form, rows: u64) {
    let began = Instant::now();
    let table = make(form, rows);
    let built = began.elapsed();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // As they come from a Request-URI.
    let called: Vec<Vec<u8>> = (0..1 << 20)
        .map(|_| {
            let prefix = form(random.below(rows));
            format!("{prefix}{:04}", random.below(10_000)).into_bytes()
        })
        .collect();
    let (mut at, mut found) = (0_usize, 0_u64);
    let began = Instant::now();
    for _ in 0..LOOKUPS {
        let answer = table.find(Digits::dialled(&called[at]));
        found += u64::from(answer.is_some());
        let line = answer.map_or(0, |answer| answer.ways[0].line);
        at = (at + 1 + line as usize * 7_919) % called.len();
    }
    let each = began.elapsed().as_nanos() as f64 / LOOKUPS as f64;
    assert_eq!(found, LOOKUPS as u64, "each of these numbers has a prefix");
    let mut alone: Vec<u64> = (0..LOOKUPS / 10)
        .map(|n| {
            // A number that was just received is in the cache.
            let number = black_box(called[n * 104_729 % called.len()].clone());
            let began = Instant::now();
            black_box(table.find(Digits::dialled(&number)));
            began.elapsed().as_nanos() as u64
        })
        .collect();
    alone.sort_unstable();
    let share = |share: f64| alone[((alone.len() - 1) as f64 * share) as usize];
    println!(
        "{name:<14} {:>9} rows {:>9} prefixes {:>6.1} bytes a row  built in {:>4} ms  look-up {each:>4.0} ns  \
         alone p50 {} p99 {} p99.9 {} ns",
        table.rows(),
        table.prefixes(),
        table.bytes() as f64 / table.rows() as f64,
        built.as_millis(),
        share(0.5),
        share(0.99),
        share(0.999),
    );
}

fn main() {
    let rows = std::env::args().nth(1).map_or(1_000_000, |rows| rows.parse().expect("a number of rows"));
    let began = Instant::now();
    for _ in 0..1_000_000 {
        black_box(Instant::now());
    }
    println!("reading the clock: {:.0} ns", began.elapsed().as_nanos() as f64 / 1e6);
    for (name, form) in
        [("blocks", block as Form), ("ported", ported as Form), ("international", international as Form)]
    {
        measure(name, form, rows);
    }
}
