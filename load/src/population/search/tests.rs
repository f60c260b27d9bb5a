use super::super::rng::Rng;
use super::*;

/// Runs a search against `server`, which gives the verdict on a load.
fn found(mut search: Search, mut server: impl FnMut(f64) -> Verdict) -> (Peak, Vec<f64>) {
    let mut loads = Vec::new();
    while let Some(trial) = search.next() {
        assert_eq!(search.next(), Some(trial), "the same until it is told");
        loads.push(trial.load);
        assert_eq!(trial.number as usize, loads.len());
        if let Some(peak) = search.result(&trial, server(trial.load)) {
            assert_eq!(search.next(), None);
            assert_eq!(search.result(&trial, Verdict::Conforms), None, "it is over");
            assert_eq!(peak.trials as usize, loads.len());
            return (peak, loads);
        }
    }
    panic!("the search ended without an answer after {loads:?}");
}

fn sharp(limit: f64) -> impl FnMut(f64) -> Verdict {
    move |load| if load <= limit { Verdict::Conforms } else { Verdict::Fails }
}

fn robust(change: impl Fn(&mut Options)) -> Search {
    let mut options = Options::default();
    change(&mut options);
    Search::robust(options).expect("possible")
}

/// Appendix A of RFC 7502 runs its algorithm against a device of 460 sessions a second and gets 458.
#[test]
fn rfc_7502_finds_what_its_appendix_finds() {
    let (peak, loads) =
        found(Search::rfc7502(100.0, 50_000, 0.10, f64::INFINITY).expect("possible"), sharp(460.0));
    assert_eq!((peak.load, peak.outcome), (458.0, Outcome::Found));
    assert_eq!(loads[..4], [100.0, 110.0, 121.0, 133.0]);
    let trial =
        Search::rfc7502(100.0, 50_000, 0.10, f64::INFINITY).expect("possible").next().expect("a trial");
    assert_eq!(trial.attempts, Some(50_000));
}

#[test]
fn rfc_7502_ends_also_where_the_rfc_does_not_say_how() {
    let start = || Search::rfc7502(100.0, 1_000, 0.10, f64::INFINITY).expect("possible");
    assert_eq!(found(start(), |_| Verdict::Fails).0.outcome, Outcome::Nothing);
    let (peak, _) = found(start(), |_| Verdict::Conforms);
    assert_eq!((peak.outcome, peak.trials), (Outcome::OutOfTrials, Rfc7502::TRIALS));
    let (peak, _) = found(start(), |load| if load < 200.0 { Verdict::Conforms } else { Verdict::Void });
    assert_eq!((peak.outcome, peak.load), (Outcome::GeneratorLimit, 193.0));
    // One void run in between costs nothing but time.
    let mut n = 0;
    let (peak, _) = found(start(), |load| {
        n += 1;
        if n % 3 == 0 { Verdict::Void } else { sharp(460.0)(load) }
    });
    assert_eq!((peak.load, peak.outcome), (458.0, Outcome::Found));
    for (rate, attempts, w) in
        [(5.0, 1, 0.1), (100.0, 0, 0.1), (100.0, 1, 0.0), (100.0, 1, 2.0), (f64::NAN, 1, 0.1)]
    {
        assert!(Search::rfc7502(rate, attempts, w, f64::INFINITY).is_err(), "{rate} {attempts} {w}");
    }
}

#[test]
fn a_sharp_peak_is_found_from_anywhere() {
    for (start, limit) in [(10_000.0, 123_456.0), (1_000_000.0, 4_321.0), (50.0, 64.0), (10.0, 3.0)] {
        let (peak, loads) = found(robust(|o| o.start = start), sharp(limit));
        assert_eq!(peak.outcome, Outcome::Found, "{limit}");
        assert!(peak.load <= limit && peak.load >= (limit * 0.98).min(limit - 2.0), "{limit}: {peak:?}");
        assert!(peak.runs.0 >= 3 && peak.runs.0 == peak.runs.1);
        assert!(loads.len() <= 25, "{limit}: {loads:?}");
        assert!(peak.confidence.is_some_and(|confidence| confidence > 0.9));
    }
}

#[test]
fn limits_are_reported_as_what_they_are() {
    let (peak, loads) = found(robust(|o| o.highest = 70_000.0), sharp(1e9));
    assert_eq!((peak.load, peak.outcome, peak.runs), (70_000.0, Outcome::AtLeast, (3, 3)));
    assert_eq!(loads, [10_000.0, 20_000.0, 40_000.0, 70_000.0, 70_000.0, 70_000.0]);
    let (peak, _) = found(robust(|o| o.lowest = 2_000.0), sharp(100.0));
    assert_eq!((peak.load, peak.outcome, peak.runs), (2_000.0, Outcome::Nothing, (2, 0)));
    // The generator gives out before the server does.
    let (peak, _) =
        found(robust(|_| {}), |load| if load < 90_000.0 { Verdict::Conforms } else { Verdict::Void });
    assert_eq!(peak.outcome, Outcome::GeneratorLimit);
    assert!((80_000.0..90_000.0).contains(&peak.load) && peak.runs.0 >= 3, "{peak:?}");
    let (peak, _) = found(robust(|_| {}), |_| Verdict::Void);
    assert_eq!((peak.outcome, peak.load, peak.runs), (Outcome::Unknown, 0.0, (0, 0)));
    assert!(peak.statement("users").starts_with("no peak: "), "{}", peak.statement("users"));
    // Nor does it say that the lowest load fails where that was never tried.
    let (peak, _) = found(robust(|_| {}), |load| if load > 9_000.0 { Verdict::Fails } else { Verdict::Void });
    assert_eq!(peak.outcome, Outcome::Unknown);
    let rfc = Search::rfc7502(100.0, 1_000, 0.10, 1e9).expect("possible");
    assert_eq!(found(rfc, |_| Verdict::Void).0.outcome, Outcome::Unknown);
    let (peak, loads) = found(robust(|o| o.trials = 6), sharp(123_456.0));
    assert_eq!((peak.outcome, loads.len()), (Outcome::OutOfTrials, 6));
    assert!(peak.load == loads[5] && peak.load < 123_456.0, "{peak:?}");
    assert!(peak.statement("users").starts_with("peak NOT confirmed: "));
}

/// Of what was offered and failed the generator was no limit.
#[test]
fn a_generator_that_is_at_fault_below_a_load_that_failed_is_no_lower_bound() {
    let server = |load: f64| match load {
        ..=12_000.0 => Verdict::Conforms,
        15_000.0.. => Verdict::Fails,
        _ => Verdict::Void,
    };
    let (peak, _) = found(robust(|_| {}), server);
    assert_eq!((peak.outcome, peak.load), (Outcome::Disturbed, 10_000.0), "{peak:?}");
    let said = peak.statement("calls/s");
    assert!(
        said.starts_with("peak NOT confirmed: 10000 calls/s conformed") && !said.contains("at least"),
        "{said}"
    );
    let rfc = Search::rfc7502(100.0, 1_000, 0.10, 1e9).expect("possible");
    let mut trials = 0;
    let (peak, _) = found(rfc, |load| {
        trials += 1;
        if trials > 6 { Verdict::Void } else { sharp(125.0)(load) }
    });
    assert_eq!((peak.outcome, peak.load), (Outcome::Disturbed, 121.0), "{peak:?}");
}

#[test]
fn a_search_that_is_stopped_says_what_it_knows() {
    let searches = || [robust(|_| {}), Search::rfc7502(10_000.0, 1_000, 0.10, 1e9).expect("possible")];
    for mut search in searches() {
        let trial = search.next().expect("a trial");
        assert_eq!(search.result(&trial, Verdict::Conforms), None);
        let peak = search.stop();
        assert_eq!((peak.load, peak.outcome, peak.trials), (10_000.0, Outcome::Stopped, 1));
        assert!(peak.statement("users").starts_with("peak NOT confirmed: 10000 users"));
        assert_eq!(search.next(), None, "it is over");
    }
    for mut search in searches() {
        assert_eq!(search.stop().outcome, Outcome::Unknown);
    }
}

#[test]
fn bad_luck_at_the_edges_is_no_answer() {
    // The first run at the lowest load goes wrong, later ones do not.
    let mut unlucky = true;
    let (peak, _) = found(robust(|o| (o.start, o.lowest) = (1_000.0, 1_000.0)), |load| {
        if core::mem::take(&mut unlucky) { Verdict::Fails } else { sharp(5_000.0)(load) }
    });
    assert_eq!(peak.outcome, Outcome::Found);
    assert!((4_900.0..=5_000.0).contains(&peak.load), "{peak:?}");
    // A run at the highest load conforms once by luck.
    let mut lucky = true;
    let (peak, _) = found(robust(|o| o.highest = 80_000.0), |load| {
        if load == 80_000.0 && core::mem::take(&mut lucky) {
            Verdict::Conforms
        } else {
            sharp(50_000.0)(load)
        }
    });
    assert_eq!(peak.outcome, Outcome::Found);
    assert!((49_000.0..=50_000.0).contains(&peak.load), "{peak:?}");
}

/// No load above the highest is tried, so that no verdict could narrow a belief that reaches beyond it.
#[test]
fn the_highest_load_is_an_answer_though_a_lower_one_failed_once() {
    for failing in [500.0, 1_000.0, 2_000.0] {
        let mut unlucky = true;
        let (peak, loads) = found(robust(|o| (o.start, o.highest) = (500.0, 2_000.0)), |load| {
            let fails = load == failing && core::mem::take(&mut unlucky);
            if fails { Verdict::Fails } else { Verdict::Conforms }
        });
        assert_eq!((peak.load, peak.outcome), (2_000.0, Outcome::AtLeast), "{failing}: {loads:?}");
        assert!(loads.len() <= 20, "{failing}: {loads:?}");
        let said = peak.statement("calls/s");
        assert!(said.starts_with("peak: at least 2000 calls/s") && !said.contains("lies between"), "{said}");
    }
    // Three runs that conform by luck beside others that fail there are none.
    let mut n = 0;
    let (peak, _) = found(robust(|o| (o.start, o.highest) = (500.0, 2_000.0)), |load| {
        n += 1;
        if load < 1_500.0 || n % 5 == 0 { Verdict::Conforms } else { Verdict::Fails }
    });
    assert!(peak.outcome != Outcome::AtLeast && peak.load < 2_000.0, "{peak:?}");
}

#[test]
fn impossible_options_are_refused() {
    let refused = |change: fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        Search::robust(options).err().map(|why| why.to_string()).unwrap_or_default()
    };
    assert!(refused(|o| o.lowest = 20_000.0).contains("lowest <= start"));
    assert!(refused(|o| o.highest = f64::NAN).contains("start <= highest"));
    assert!(refused(|o| o.resolution = 0.0).contains("resolution=0"));
    assert!(refused(|o| o.trials = 4).contains("trials=4"));
}

#[test]
fn verdicts_on_other_trials_are_not_taken() {
    let mut search = robust(|_| {});
    let first = search.next().expect("a trial");
    assert_eq!(search.result(&Trial { load: 5.0, ..first }, Verdict::Fails), None);
    assert_eq!(search.next(), Some(first));
    search.result(&first, Verdict::Conforms);
    let second = search.next().expect("another");
    assert_eq!(search.result(&first, Verdict::Fails), None);
    assert_eq!(search.next(), Some(second));
}

/// A server whose verdicts are noisy: the change is `width` wide, relative to the load, and a share of
/// `lapses` goes wrong.
fn noisy(peak: f64, width: f64, lapses: f64, rng: &mut Rng) -> impl FnMut(f64) -> Verdict {
    move |load| {
        let conforms = 1.0 / (1.0 + ((load / peak).ln() / width).exp());
        let conforms = lapses + (1.0 - 2.0 * lapses) * conforms;
        if rng.chance(conforms) { Verdict::Conforms } else { Verdict::Fails }
    }
}

#[derive(Debug, Default)]
struct Accuracy {
    /// Shares of all searches: within 2 % of the true peak, within 5 %, with the peak in the interval.
    within_2: f64,
    within_5: f64,
    covered: f64,
    /// Share with a peak not below the load, and the mean of what was believed of that.
    not_below: f64,
    believed: f64,
    trials: f64,
}

fn accuracy(width: f64, lapses: f64, searches: u32, search: impl Fn() -> Search) -> Accuracy {
    let mut sum = Accuracy::default();
    for seed in 0..searches {
        let mut rng = Rng::new(7_502, u64::from(seed));
        let truth = 2_000.0 * (rng.unit() * 6.0).exp();
        let (peak, loads) = found(search(), noisy(truth, width, lapses, &mut rng));
        let error = (peak.load / truth - 1.0).abs();
        let one = 1.0 / f64::from(searches);
        sum.within_2 += if error <= 0.02 { one } else { 0.0 };
        sum.within_5 += if error <= 0.05 { one } else { 0.0 };
        let covered = peak.interval.is_some_and(|(low, high)| low <= truth && truth <= high);
        sum.covered += if covered { one } else { 0.0 };
        sum.not_below += if truth >= peak.load { one } else { 0.0 };
        sum.believed += one * peak.confidence.unwrap_or(0.0);
        sum.trials += one * loads.len() as f64;
    }
    sum
}

/// What the documentation of [`Robust`] states, from fewer searches.
#[test]
fn noisy_servers_are_measured_within_two_percent() {
    let claims = [(0.000_1, 0.0, 1.0, 18.0), (0.005, 0.01, 0.95, 31.0), (0.01, 0.02, 0.90, 47.0)];
    for (width, lapses, within_2, trials) in claims {
        let got = accuracy(width, lapses, 100, || robust(|_| {}));
        assert!(got.within_2 >= within_2 - 1e-9 && got.within_5 >= 0.98, "{width} {lapses}: {got:?}");
        assert!(got.covered >= 0.88 && got.trials <= trials, "{width} {lapses}: {got:?}");
        assert!((got.not_below - got.believed).abs() < 0.1, "{width} {lapses}: {got:?}");
    }
    // The RFC's search believes every verdict; it is not made for servers that sometimes fail below.
    let rfc =
        accuracy(0.01, 0.02, 100, || Search::rfc7502(100.0, 50_000, 0.10, f64::INFINITY).expect("possible"));
    assert!(rfc.within_2 < 0.8, "{rfc:?}");
}

fn by_majority(start: f64) -> Search {
    Search::majority(start, (100.0, 1e6), 0.1).expect("possible")
}

#[test]
fn a_majority_is_not_moved_by_a_hiccup() {
    let (peak, loads) = found(by_majority(1_000.0), sharp(11_000.0));
    assert_eq!((peak.outcome, peak.runs), (Outcome::Found, (2, 2)));
    assert!(peak.load <= 11_000.0 && peak.load > 10_000.0, "{peak:?}");
    assert_eq!(loads[..4], [1_000.0, 1_000.0, 2_000.0, 2_000.0], "a geometric ramp, each load twice");
    // Every third run gone wrong, whatever the load: the answer is the same.
    let mut n = 0;
    let (hiccups, more) = found(by_majority(1_000.0), |load| {
        n += 1;
        if n % 3 == 0 { Verdict::Void } else { sharp(11_000.0)(load) }
    });
    assert_eq!((hiccups.load, hiccups.outcome), (peak.load, Outcome::Found));
    assert!(more.len() > loads.len() && more.len() <= 3 * loads.len() / 2 + 1, "{more:?}");
    // Begun too high, it comes down.
    let (peak, _) = found(by_majority(64_000.0), sharp(300.0));
    assert!(peak.load <= 300.0 && peak.load > 270.0 && peak.outcome == Outcome::Found, "{peak:?}");
}

#[test]
fn a_search_by_majority_ends_where_there_is_no_peak_and_when_it_is_told_to() {
    let (peak, loads) = found(by_majority(800.0), |_| Verdict::Void);
    assert_eq!((peak.outcome, peak.load), (Outcome::Nothing, 100.0));
    assert_eq!(loads, [800.0, 800.0, 400.0, 400.0, 200.0, 200.0, 100.0, 100.0]);
    let (peak, _) = found(Search::majority(100.0, (1.0, 350.0), 0.1).expect("possible"), sharp(1e9));
    assert_eq!((peak.outcome, peak.load), (Outcome::AtLeast, 350.0));
    let mut search = by_majority(1_000.0);
    for _ in 0..3 {
        let trial = search.next().expect("a trial");
        assert_eq!(search.result(&trial, Verdict::Conforms), None);
    }
    // The second load has one run: not enough to count.
    let peak = search.stop();
    assert_eq!((peak.load, peak.outcome, peak.trials), (1_000.0, Outcome::Stopped, 3));
    assert_eq!(search.next(), None);
    let none = by_majority(1_000.0).stop();
    assert_eq!(none.outcome, Outcome::Nothing);
    for (start, range, resolution) in [
        (50.0, (100.0, 1e6), 0.1),
        (1e7, (100.0, 1e6), 0.1),
        (1e3, (100.0, 1e6), 0.0),
        (1e3, (0.0, 1e6), 0.1),
    ] {
        assert!(Search::majority(start, range, resolution).is_err(), "{start} {range:?} {resolution}");
    }
}

#[test]
fn rfc_7502_goes_no_higher_than_it_may() {
    let start = || Search::rfc7502(50.0, 1_000, 0.10, 60.0).expect("possible");
    let (peak, loads) = found(start(), sharp(1_000.0));
    assert_eq!((peak.outcome, peak.load), (Outcome::AtLeast, 60.0));
    assert_eq!(loads, [50.0, 55.0, 60.0]);
    let (peak, loads) = found(start(), sharp(52.0));
    assert_eq!(peak.outcome, Outcome::Found, "a limit out of reach changes nothing");
    assert!(loads.iter().all(|&load| load <= 60.0), "{loads:?}");
    assert!(Search::rfc7502(100.0, 1_000, 0.10, 60.0).is_err());
}
