//! What a population costs: run it under `valgrind --tool=callgrind` for instructions, or as it is for
//! memory and time.
//!
//! `cargo run --release -p load --example population_cost -- USERS EVENTS COMPRESSION`
use load::population::{Deed, Parameters, Population};
use std::hint::black_box;
use wire::Time;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let (users, events) = (numbers.next().unwrap_or(1_000_000), numbers.next().unwrap_or(1_000_000));
    // No ramp to sit through: the first registrations are over at once, calls begin.
    let compression = numbers.next().unwrap_or(1) as f64;
    let parameters = Parameters { users, compression, ramp: 1.0, measure: 1e6, ..Parameters::default() };
    let start = Time::from_secs(1);
    let mut population = Population::new(&parameters, 1, 0, 1, start).expect("possible parameters");
    step(&mut population, users * 2);
    let resident = resident_bytes();
    println!(
        "{users} users: {:.1} bytes each reserved, {:.1} resident in the process",
        population.bytes() as f64 / users as f64,
        resident as f64 / users as f64
    );
    let calls = measured(&mut population, events);
    println!("{events} events of which {calls} calls; {} in a call", population.users_in_call());
}

/// What callgrind should count: `--toggle-collect='*measured*'`.
#[inline(never)]
fn measured(population: &mut Population, events: u64) -> u64 {
    step(population, events)
}

/// The next `events` deeds; their ends are told at once. The calls among them.
#[inline(never)]
fn step(population: &mut Population, events: u64) -> u64 {
    let (mut done, mut calls) = (0, 0);
    while done < events {
        let Some(due) = population.next_due() else { break };
        while let Some((at, deed)) = population.pop(due) {
            done += 1;
            match black_box(deed) {
                Deed::Register { user, .. } => population.registered(user, true, at),
                Deed::Call { caller, plan, .. } => {
                    calls += 1;
                    population.call_ended(caller, at + plan.ring + plan.hold);
                }
            }
        }
    }
    calls
}

/// Resident memory of this process; 0 where /proc does not say.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    pages * 4_096
}
