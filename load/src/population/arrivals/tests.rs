use super::super::Distribution;
use super::super::statistics::{chi_square, kolmogorov_smirnov};
use super::*;

const SECOND: u64 = 1_000_000;

fn parsed(text: &str) -> Arrivals {
    text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
}

/// The arrivals of all workers before `until` microseconds, sorted.
fn union(arrivals: &Arrivals, workers: u32, until: u64) -> Vec<u64> {
    let of = |worker| arrivals.times(1, worker, workers, None).take_while(move |at| *at < until);
    let mut all: Vec<u64> = (0..workers).flat_map(of).collect();
    all.sort_unstable();
    all
}

#[test]
fn constant_arrivals_are_even_for_any_number_of_workers() {
    let arrivals = parsed("constant:1000");
    for workers in [1, 2, 3, 8] {
        let times = union(&arrivals, workers, 60 * SECOND);
        assert_eq!(times.len(), 60_000);
        assert!(times.iter().zip(0u64..).all(|(at, n)| *at == n * 1_000), "{workers} workers");
    }
    // A rate that does not divide a second keeps its phase: no drift after an hour.
    let times = union(&parsed("constant:7"), 2, 3_600 * SECOND);
    assert_eq!(times.len(), 25_200);
    assert_eq!(times[25_193], 3_599 * SECOND);
}

#[test]
fn poisson_arrivals_are_poisson_for_any_number_of_workers() {
    let arrivals = parsed("poisson:500");
    for workers in [1u32, 4] {
        let times = union(&arrivals, workers, 100 * SECOND);
        let mut gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e3).collect();
        let law = Distribution::exponential(2.0);
        let fit = kolmogorov_smirnov(&mut gaps, |ms| law.cdf(ms).expect("continuous"));
        assert!(fit.p > 1e-3, "{workers} workers: {fit:?}");
        // Successive gaps know nothing of each other: long after long as often as long after short.
        let mut pairs = [0u64; 4];
        for three in times.windows(3) {
            let long =
                |from: u64, to: u64| usize::from((to - from) as f64 / 1e3 > 2.0 * core::f64::consts::LN_2);
            pairs[2 * long(three[0], three[1]) + long(three[1], three[2])] += 1;
        }
        let fit = chi_square(&pairs, &[0.25; 4]);
        assert!(fit.p > 1e-3, "{workers} workers: {pairs:?} {fit:?}");
    }
    let streams: Vec<Option<u64>> = (0..4).map(|worker| arrivals.times(1, worker, 4, None).next()).collect();
    assert!(streams.windows(2).all(|pair| pair[0] != pair[1]), "each worker has a stream of its own");
    let again: Vec<u64> = arrivals.times(1, 2, 4, None).take(50).collect();
    assert_eq!(again, arrivals.times(1, 2, 4, None).take(50).collect::<Vec<_>>());
    assert_ne!(again, arrivals.times(2, 2, 4, None).take(50).collect::<Vec<_>>());
}

#[test]
fn ramps_have_the_rate_they_say() {
    for text in ["ramp:10..1000/60s", "ramp:1000..0/30s", "ramp:0..500/1m"] {
        let arrivals = parsed(text);
        let times = union(&arrivals, 3, 120 * SECOND);
        for until in [1, 10, 29, 30, 31, 59, 60, 61, 90, 119] {
            let until = until * SECOND;
            let got = times.partition_point(|at| *at < until) as f64;
            let want = arrivals.expected_by(until);
            assert!((got - want).abs() <= 1.0, "{text} {until}: {got} {want}");
        }
    }
    let arrivals = parsed("ramp:10..1000/60s");
    assert_eq!([0, 30, 60, 600].map(|s| arrivals.rate_at(s * SECOND)), [10.0, 505.0, 1_000.0, 1_000.0]);
    assert_eq!((arrivals.expected_by(60 * SECOND), arrivals.end()), (30_300.0, None));
    assert_eq!(union(&parsed("ramp:1000..0/30s"), 1, u64::MAX).len(), 15_000, "it ends where the rate is 0");
}

/// A random process with a changing rate: by the expected number as its clock it is one of rate 1.
#[test]
fn poisson_ramps_are_poisson_in_their_own_time() {
    let arrivals = parsed("poisson-ramp:10..400/100s");
    let times = union(&arrivals, 2, 100 * SECOND);
    let mut gaps: Vec<f64> =
        times.windows(2).map(|pair| arrivals.expected_by(pair[1]) - arrivals.expected_by(pair[0])).collect();
    let fit = kolmogorov_smirnov(&mut gaps, |x| 1.0 - (-x).exp());
    assert!(times.len() > 19_000 && fit.p > 1e-3, "{fit:?}");
}

#[test]
fn steps_end() {
    let arrivals = parsed("steps:100@60s,0@10s,200@30");
    let times = union(&arrivals, 2, u64::MAX);
    assert_eq!(times.len(), 6_000 + 6_000);
    assert_eq!((times[5_999], times[6_000]), (59_990_000, 70 * SECOND));
    assert_eq!([5, 65, 75, 100].map(|s| arrivals.rate_at(s * SECOND)), [100.0, 0.0, 200.0, 0.0]);
    assert_eq!((arrivals.end(), arrivals.expected_by(u64::MAX)), (Some(100 * SECOND), 12_000.0));
}

#[test]
fn bursts_come_at_once() {
    let arrivals = parsed("burst:50/1s");
    let times = union(&arrivals, 3, 10 * SECOND);
    assert_eq!(times.len(), 500);
    assert!(times.iter().zip(0u64..).all(|(at, n)| *at == n / 50 * SECOND));
    assert_eq!(
        (arrivals.rate_at(5), arrivals.expected_by(1), arrivals.expected_by(SECOND)),
        (50.0, 50.0, 50.0)
    );
}

#[test]
fn traces_are_dealt_round() {
    let text = "# recorded\n0\n0.5,INVITE\n0.5 # twice\n\n2.000001\n3e0\n";
    let arrivals = Arrivals::trace(text, "calls.txt").expect("read");
    let want = [0, 500_000, 500_000, 2_000_001, 3_000_000];
    for workers in [1, 2, 3, 9] {
        assert_eq!(union(&arrivals, workers, u64::MAX), want);
    }
    assert_eq!(arrivals.times(1, 1, 2, None).collect::<Vec<_>>(), [500_000, 2_000_001]);
    assert_eq!((arrivals.end(), arrivals.expected_by(500_001)), (Some(3_000_000), 3.0));
    assert_eq!(arrivals.rate_at(500_000), 3.0);

    let refused = |text| Arrivals::trace(text, "t").expect_err("refused").to_string();
    assert_eq!(refused("1\n\n0.5\n"), "t:3: 0.5 is earlier than the line before; sort the trace");
    assert_eq!(refused("1\nsoon\n"), "t:2: \"soon\" is no time; write seconds since the start");
    assert_eq!(refused("-1\n"), "t:1: \"-1\" is no time; write seconds since the start");
    assert_eq!(refused("NaN"), "t:1: \"NaN\" is no time; write seconds since the start");
    assert_eq!(refused(" 1\n"), "t:1: the time must begin the line");
    assert_eq!(refused("# only this\n"), "t: no arrival in it; write a line with seconds for each");
}

#[test]
fn a_limit_counts_the_arrivals_of_all_workers() {
    for limit in [0, 1, 2, 7, 100] {
        for text in ["constant:50", "poisson:50", "burst:7/1s"] {
            let arrivals = parsed(text);
            let total: usize = (0..3).map(|worker| arrivals.times(1, worker, 3, Some(limit)).count()).sum();
            assert_eq!(total as u64, limit, "{text}");
        }
    }
}

fn of_options(change: impl Fn(&mut RateOptions)) -> Result<Arrivals, Impossible> {
    let mut options = RateOptions::default();
    change(&mut options);
    Arrivals::of_options(&options)
}

#[test]
fn options_mean_what_they_mean_to_sipp() {
    let seven = of_options(|o| (o.r, o.rp) = (7.0, 2_000.0)).expect("possible");
    assert_eq!((seven.rate_at(0), union(&seven, 2, 10 * SECOND).len()), (3.5, 35));

    let rising = |max, stay| {
        let set = move |o: &mut RateOptions| {
            (o.rate_increase, o.rate_interval, o.rate_max, o.no_rate_quit) = (10.0, 10_000.0, max, stay);
        };
        of_options(set).expect("possible")
    };
    // 10, 20, ... 100 for ten seconds each; then it would be 110, so it ends.
    let arrivals = rising(100.0, false);
    assert_eq!((arrivals.end(), union(&arrivals, 3, u64::MAX).len()), (Some(100 * SECOND), 5_500));
    // A maximum between two steps is not run at, unless it is to be stayed at.
    assert_eq!(rising(35.0, false).end(), Some(30 * SECOND));
    assert_eq!(rising(35.0, true).rate_at(1_000 * SECOND), 35.0);
    // Without a maximum it goes on.
    let arrivals = rising(0.0, false);
    assert_eq!([0, 9, 10, 999].map(|s| arrivals.rate_at(s * SECOND)), [10.0, 10.0, 20.0, 1_000.0]);
    assert_eq!(arrivals.expected_by(30 * SECOND), 600.0);
    let times = union(&arrivals, 2, 30 * SECOND);
    assert_eq!(times.len(), 600);

    let refused = |change: fn(&mut RateOptions)| of_options(change).expect_err("refused").to_string();
    assert_eq!(refused(|o| o.rp = 0.0), "-rp 0: must be above 0");
    assert_eq!(refused(|o| o.r = -1.0), "a rate of -1/s: must be from 0 to 1000000000");
    assert_eq!(refused(|o| o.rate_increase = -1.0), "-rate_increase -1: must be above 0");
    assert!(refused(|o| (o.rate_increase, o.rate_max) = (1e-9, 1e3)).contains("the most are 1000000"));
}

#[test]
fn the_rate_can_be_changed_on_the_way() {
    let arrivals = parsed("constant:10");
    let mut all = Vec::new();
    for worker in 0..2 {
        let mut times = arrivals.times(1, worker, 2, None);
        while times.peek().is_some_and(|at| at < 10 * SECOND) {
            all.extend(times.next());
        }
        assert!(times.set_rate(10 * SECOND, 0.0) && times.next().is_none(), "a pause");
        assert!(!times.set_rate(10 * SECOND, -1.0) && times.peek().is_none(), "nonsense changes nothing");
        assert!(times.set_rate(15 * SECOND, 100.0));
        all.extend(times.take_while(|at| *at < 20 * SECOND));
    }
    all.sort_unstable();
    assert_eq!(all.len(), 100 + 500);
    assert!(all[100..].iter().zip(0u64..).all(|(at, n)| *at == 15 * SECOND + n * 10_000));
    assert!(!parsed("burst:5/1s").times(1, 0, 1, None).set_rate(0, 5.0));
}

#[test]
fn text_is_read_or_refused_with_the_form() {
    assert_eq!(parsed("constant: 2.5"), Arrivals::constant(2.5).expect("possible"));
    assert_eq!(parsed("poisson:2.5"), Arrivals::poisson(2.5).expect("possible"));
    assert_eq!(
        parsed("ramp:10..1000/60s").to_string(),
        "10/s to 1000/s for 60 s, then 1000/s, evenly spaced"
    );
    assert_eq!(parsed("poisson-steps:5@1m,6@1h").to_string(), "5/s for 60 s, 6/s for 3600 s, Poisson");
    assert_eq!(parsed("burst:50/250ms").to_string(), "bursts of 50 every 250 ms");
    for (text, part) in [
        ("100", "write constant:R"),
        ("uniform:100", "there are constant, poisson"),
        ("constant:fast", "\"fast\" is no rate"),
        ("constant:-5", "a rate of -5/s"),
        ("constant:inf", "a rate of inf/s"),
        ("ramp:10-20/5s", "write FROM..TO/TIME"),
        ("ramp:10..20", "write FROM..TO/TIME"),
        ("steps:100", "write RATE@TIME"),
        ("steps:100@0s", "a time must be above 0"),
        ("steps:100@5x", "is no number or time"),
        ("burst:0/1s", "both must be above 0"),
        ("burst:x/1s", "write NUMBER/TIME"),
    ] {
        let refused = text.parse::<Arrivals>().expect_err(text).to_string();
        assert!(refused.contains(part), "{text}: {refused}");
    }
}
