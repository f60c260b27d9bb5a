//! Seeds, each a world of its own.
//!
//! `SIM_SEEDS` (or `STROWGER_SIM_SEEDS`): how many; `SIM_FROM`: the first; `SIM_SEED`: this one alone,
//! twice, with all that its servers sent in the ladder. 20,000 seeds have about 100,000 calls.

use simulator::{Options, Outcome, run, run_twice};

fn number(names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// Plays the seeds that are `part` of `parts`; every tenth one twice.
fn play(part: u64, parts: u64) {
    if let Some(seed) = number(&["SIM_SEED"]) {
        if part == 0 {
            let options = Options { keep: 100_000, ..Options::default() };
            let outcome = run_twice(seed, &options, &options).unwrap_or_else(|failure| panic!("{failure}"));
            println!("seed {seed}: {outcome:?}");
        }
        return;
    }
    let seeds = number(&["SIM_SEEDS", "STROWGER_SIM_SEEDS"]).unwrap_or(1_000);
    let from = number(&["SIM_FROM"]).unwrap_or(1);
    let options = Options::default();
    let mut sum = Outcome::default();
    for seed in (from..from + seeds).filter(|seed| seed % parts == part) {
        let played = match (seed / parts).is_multiple_of(10) {
            true => run_twice(seed, &options, &options),
            false => run(seed, &options),
        };
        sum.add(&played.unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("part {part}: {sum:?}");
    // Worlds in which nothing happens prove nothing.
    assert!(seeds < 100 || sum.answered > seeds / parts, "{sum:?}");
    assert!(seeds < 100 || sum.repeated > seeds / parts, "{sum:?}");
    assert!(seeds < 100 || sum.told > seeds / parts / 4, "{sum:?}");
    assert!(seeds < 100 || sum.broken > seeds / parts / 10, "{sum:?}");
    assert!(seeds < 100 || sum.recorded > 2 * seeds / parts, "{sum:?}");
}

// Two halves, for the two cores that the checks are made for.
#[test]
fn even_seeds_hold() {
    play(0, 2);
}

#[test]
fn odd_seeds_hold() {
    play(1, 2);
}
