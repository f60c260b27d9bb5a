//! A balancer in front of servers that die: `SIM_SEEDS` runs, a quarter of `STROWGER_SIM_SEEDS`, or one:
//! `SIM_SEED`.

use simulator::{ClusterMistake, ClusterOutcome, run_cluster};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn play(seed: u64) -> ClusterOutcome {
    run_cluster(seed, None).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn calls_survive_servers_that_die_as_promised() {
    if let Some(seed) = number("SIM_SEED") {
        println!("seed {seed}: {:?}", play(seed));
        return;
    }
    let quarter = || number("STROWGER_SIM_SEEDS").map(|seeds| seeds / 4);
    let seeds = number("SIM_SEEDS").or_else(quarter).unwrap_or(250);
    let mut sum = ClusterOutcome::default();
    for seed in 1..=seeds {
        let ClusterOutcome { calls, answered, crashes, carried, .. } = play(seed);
        sum.calls += calls;
        sum.answered += answered;
        sum.crashes += crashes;
        sum.carried += carried;
    }
    println!("{sum:?}");
    // Runs in which nothing happens prove nothing.
    let much = sum.answered > 3 * seeds && sum.crashes > seeds && sum.carried > seeds / 4;
    assert!(seeds < 20 || much, "{sum:?}");
}

#[test]
fn equal_cluster_seeds_give_equal_runs() {
    for seed in 1..=10 {
        assert_eq!(play(seed), play(seed));
    }
}

/// A check that cannot fail checks nothing.
#[test]
fn cluster_mistakes_are_found() {
    for mistake in [ClusterMistake::NoFailover, ClusterMistake::StaysDown] {
        let found = (1..=20).filter(|seed| run_cluster(*seed, Some(mistake)).is_err()).count();
        assert!(found >= 3, "{mistake:?} was found in {found} of 20 seeds");
    }
}
