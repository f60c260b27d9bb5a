//! Plays seeds one after the other and says how it goes.
//!
//! `cargo run --release -p simulator -- --seeds 100000 --from 1`

use simulator::{Options, Outcome, run, run_twice};
use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut seeds, mut from, mut keep, mut twice) = (1_000u64, 1u64, 80usize, false);
    let mut going_on = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|n| n.parse::<u64>().ok());
        let known = match arg.as_str() {
            "--seeds" => number().map(|n| seeds = n),
            "--from" => number().map(|n| from = n),
            "--keep" => number().map(|n| keep = n as usize),
            "--twice" => {
                twice = true;
                Some(())
            }
            "--go-on" => {
                going_on = true;
                Some(())
            }
            _ => None,
        };
        if known.is_none() {
            eprintln!("usage: simulator [--seeds N] [--from SEED] [--keep MESSAGES] [--twice] [--go-on]");
            eprintln!("  --twice: play each seed twice and compare; --go-on: do not stop at a failure");
            return ExitCode::from(2);
        }
    }
    let options = Options { keep, ..Options::default() };
    let mut sum = Outcome::default();
    let mut failures = 0;
    for seed in from..from.saturating_add(seeds) {
        let played = if twice { run_twice(seed, &options, &options) } else { run(seed, &options) };
        match played {
            Ok(outcome) => sum.add(&outcome),
            Err(failure) => {
                failures += 1;
                println!("{failure}");
                if !going_on {
                    return ExitCode::FAILURE;
                }
            }
        }
        if (seed - from + 1).is_multiple_of(100) {
            let Outcome { messages, calls, answered, .. } = sum;
            let done = seed - from + 1;
            eprintln!(
                "{done} seeds: {messages} messages, {calls} calls, {answered} answered, {failures} failed"
            );
        }
    }
    let Outcome { hash, messages, calls, answered, repeated, told, broken, recorded } = sum;
    println!(
        "{seeds} seeds from {from}: {messages} messages, {calls} calls, {answered} answered, \
         {repeated} repeated answers, {told} bindings told, {broken} connections of TLS broken, \
         {recorded} call records, {failures} failed, {hash:016x}"
    );
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
