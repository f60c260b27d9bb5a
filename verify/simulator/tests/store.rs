//! Random histories of the location service and its log on a disk that fails: `STROWGER_SIM_SEEDS` of them,
//! or the one that `SIM_SEED` names.

use simulator::{StoreMistake, StoreOutcome, run_store};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn play(seed: u64) -> StoreOutcome {
    run_store(seed, None).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn bindings_outlive_every_end_as_promised() {
    if let Some(seed) = number("SIM_SEED") {
        println!("seed {seed}: {:?}", play(seed));
        return;
    }
    let seeds = number("SIM_SEEDS").or_else(|| number("STROWGER_SIM_SEEDS")).unwrap_or(1_000);
    let mut sum = StoreOutcome::default();
    for seed in 1..=seeds {
        let StoreOutcome { ends, found, refused, .. } = play(seed);
        sum.ends += ends;
        sum.found += found;
        sum.refused += refused;
    }
    println!("{sum:?}");
    // Histories in which nothing happens prove nothing.
    assert!(seeds < 20 || (sum.ends > seeds && sum.found > seeds && sum.refused > seeds), "{sum:?}");
}

#[test]
fn equal_store_seeds_give_equal_runs() {
    for seed in 1..=10 {
        assert_eq!(play(seed), play(seed));
    }
}

/// A check that cannot fail checks nothing.
#[test]
fn store_mistakes_are_found() {
    for mistake in [StoreMistake::Lies, StoreMistake::Unsynced, StoreMistake::Unkept] {
        let found = (1..=20).filter(|seed| run_store(*seed, Some(mistake)).is_err()).count();
        assert!(found >= 3, "{mistake:?} was found in {found} of 20 seeds");
    }
}
