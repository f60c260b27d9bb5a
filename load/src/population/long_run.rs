//! Whether long simulated runs have the distributions that the parameters promise.
//!
//! No network: registrations succeed at once, calls end when their plan says. Every test of a law has a
//! false-alarm rate of one in 1,000; the seed fixes the outcome, so that it raises it now or never.

use super::statistics::{Fit, chi_square, kolmogorov_smirnov};
use super::*;
use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BTreeMap, BinaryHeap};
use wire::Time;

const SEED: u64 = 20_100_101;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Call {
    at: f64,
    /// Seconds of thinking before it; none for a user's first one.
    think: Option<f64>,
    caller: u64,
    callee: u64,
    plan: Plan,
}

/// All that happened, in the order of time.
#[derive(Default)]
struct History {
    registrations: Vec<(f64, u64, bool)>,
    calls: Vec<Call>,
    /// Integral over the measured window of the number of users in a call, in user seconds.
    in_call: f64,
    /// Events of the calendar for which `next_due` came too early.
    vain: usize,
}

/// Plays the engine for all `workers`, each run after the other.
fn run(parameters: &Parameters, workers: u32) -> History {
    let mut history = History::default();
    for worker in 0..workers {
        let population = Population::new(parameters, SEED, worker, workers, Time::from_secs(5));
        play(population.expect("possible"), &mut history);
    }
    history.registrations.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    history.calls.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.caller.cmp(&b.caller)));
    history
}

fn play(mut population: Population, history: &mut History) {
    let start = Time::from_secs(5);
    let seconds = |at: Time| at.since(start).as_secs_f64();
    let (begin, end) = population.phases().window();
    let mut ends = BinaryHeap::new();
    let mut ended: BTreeMap<u64, Time> = BTreeMap::new();
    loop {
        let next_end = ends.peek().map(|Reverse((at, _))| *at);
        let now = match (population.next_due(), next_end) {
            (Some(due), Some(at)) => due.min(at),
            (Some(due), None) => due,
            (None, Some(at)) if at < end => at,
            _ => break,
        };
        if next_end == Some(now) {
            if let Some(Reverse((at, user))) = ends.pop() {
                population.call_ended(user, at);
                ended.insert(user, at);
            }
            continue;
        }
        let Some((due, deed)) = population.pop(now) else {
            history.vain += 1;
            continue;
        };
        assert_eq!(due, now, "nothing comes late, nothing early");
        match deed {
            Deed::Register { user, refresh } => {
                history.registrations.push((seconds(due), user, refresh));
                population.registered(user, true, now);
            }
            Deed::Call { caller, callee, plan } => {
                let over = now + plan.ring + plan.hold;
                ends.push(Reverse((over, caller)));
                history.in_call += over.min(end).since(now.max(begin)).as_secs_f64();
                let think = ended.get(&caller).map(|at| now.since(*at).as_secs_f64());
                history.calls.push(Call { at: seconds(due), think, caller, callee, plan });
            }
        }
    }
}

fn passes(what: &str, fit: Fit) {
    assert!(fit.p > 1e-3, "{what}: {fit:?}");
}

fn follows(what: &str, mut samples: Vec<f64>, law: Distribution) {
    assert!(samples.len() > 2_000, "{what}: {} samples say little", samples.len());
    passes(what, kolmogorov_smirnov(&mut samples, |seconds| law.cdf(seconds * 1e3).expect("continuous")));
}

fn of_kind(calls: &[Call], kind: Kind, time: impl Fn(&Plan) -> Duration) -> Vec<f64> {
    calls.iter().filter(|call| call.plan.kind == kind).map(|call| time(&call.plan).as_secs_f64()).collect()
}

/// Few users over days, so that each thinks many times.
#[test]
fn think_ring_hold_and_mix_are_what_the_parameters_say() {
    let parameters = Parameters { users: 1_000, measure: 600_000.0, ..Parameters::default() };
    let history = run(&parameters, 1);
    let calls = &history.calls;
    // Thinking that would not end within the run is not seen; so only what began ten means before its end.
    let last = 601_200.0 - 40_000.0;
    let thinks = calls.iter().filter_map(|call| Some((call.at - call.think?, call.think?)));
    let thinks: Vec<f64> = thinks.filter(|(began, _)| *began < last).map(|(_, think)| think).collect();
    assert!(thinks.len() > 140_000);
    follows("think", thinks, parameters.think);
    follows("hold", of_kind(calls, Kind::Completed, |plan| plan.hold), parameters.hold);
    follows("ring", of_kind(calls, Kind::Completed, |plan| plan.ring), parameters.ring);
    follows("voicemail", of_kind(calls, Kind::Voicemail, |plan| plan.hold), parameters.voicemail_hold);
    follows("patience", of_kind(calls, Kind::Cancelled, |plan| plan.ring), parameters.patience);
    assert!(of_kind(calls, Kind::Voicemail, |plan| plan.ring).iter().all(|&ring| ring == 0.0));
    assert!(of_kind(calls, Kind::Cancelled, |plan| plan.hold).iter().all(|&hold| hold == 0.0));

    let count = |kind| calls.iter().filter(|call| call.plan.kind == kind).count() as u64;
    let mix = [Kind::Completed, Kind::Voicemail, Kind::Cancelled].map(count);
    passes("mix", chi_square(&mix, &[0.65, 0.30, 0.05]));

    // No memory from call to call: what follows a completed call has the same mix.
    let mut by_caller: BTreeMap<u64, Vec<Kind>> = BTreeMap::new();
    calls.iter().for_each(|call| by_caller.entry(call.caller).or_default().push(call.plan.kind));
    let mut after = [0u64; 3];
    for kinds in by_caller.values() {
        for pair in kinds.windows(2) {
            after[pair[1] as usize] += u64::from(pair[0] == Kind::Completed);
        }
    }
    passes("mix after a completed call", chi_square(&after, &[0.65, 0.30, 0.05]));

    let mut callees = vec![0u64; 1_000];
    calls.iter().for_each(|call| callees[call.callee as usize] += 1);
    passes("callees", chi_square(&callees, &[1e-3; 1_000]));
    assert!(calls.iter().all(|call| call.callee != call.caller && call.callee < 1_000));
    // At most one for each level that an entry comes down.
    assert!(history.vain < 3 * (history.calls.len() + history.registrations.len()), "{}", history.vain);
}

/// Many users over the paper's two hours: the superposition.
#[test]
fn calls_of_many_users_arrive_as_poisson_at_the_expected_rate() {
    let parameters = Parameters { users: 30_000, ..Parameters::default() };
    let history = run(&parameters, 3);
    let expected = parameters.expected();
    let measured: Vec<&Call> = history.calls.iter().filter(|call| call.at >= 1_200.0).collect();
    let gaps: Vec<f64> = measured.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    follows("gaps between calls", gaps, Distribution::exponential(1e3 / expected.calls));
    // Counts of Poisson: the variance is the mean. Minutes are independent enough.
    let mut minutes = [0f64; 120];
    measured.iter().for_each(|call| minutes[((call.at - 1_200.0) / 60.0) as usize] += 1.0);
    let mean = measured.len() as f64 / 120.0;
    let dispersion = minutes.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / mean / 119.0;
    // Chi-square with 119 degrees of freedom, divided by these: standard deviation 0.13.
    assert!((0.6..1.45).contains(&dispersion), "{dispersion}");
    let total = 7_200.0 * expected.calls;
    assert!((measured.len() as f64 - total).abs() < 4.0 * total.sqrt(), "{} {total}", measured.len());
    let in_progress = history.in_call / 7_200.0;
    // Some 1,650 at any time, of calls that last 210 s: a standard error of about 0.7 %.
    assert!((in_progress / expected.in_progress() - 1.0).abs() < 0.03, "{in_progress} {expected:?}");
}

#[test]
fn registrations_are_regular_for_each_and_spread_over_all() {
    let parameters = Parameters { users: 20_000, measure: 1_800.0, ..Parameters::default() };
    let history = run(&parameters, 2);
    let first = history.registrations.iter().filter(|(.., refresh)| !refresh).map(|(at, ..)| *at);
    let first: Vec<f64> = first.collect();
    assert_eq!(first.len(), 20_000);
    follows("first registrations", first, Distribution::Uniform { min: 0.0, max: 600e3 });
    let mut last: BTreeMap<u64, f64> = BTreeMap::new();
    for &(at, user, refresh) in &history.registrations {
        if let Some(before) = last.insert(user, at) {
            assert!(refresh && (at - before - 600.0).abs() < 1e-6, "{user} {before} {at}");
        }
    }
    assert_eq!(history.registrations.len(), 20_000 * 5);
    // 33.3 a second; neighbours in time are strangers, so the gaps are exponential within an interval.
    let steady: Vec<f64> =
        history.registrations.iter().map(|(at, ..)| *at).filter(|at| *at < 600.0).collect();
    let gaps: Vec<f64> = steady.windows(2).map(|pair| pair[1] - pair[0]).collect();
    follows("gaps between registrations", gaps, Distribution::exponential(30.0));
}

/// A ramp that differs from the interval must not leave waves.
#[test]
fn a_short_ramp_leaves_no_waves() {
    let parameters = Parameters { users: 20_000, ramp: 60.0, measure: 1_800.0, ..Parameters::default() };
    let history = run(&parameters, 1);
    let later = history.registrations.iter().map(|(at, ..)| *at).filter(|at| (700.0..1_300.0).contains(at));
    follows(
        "registrations of one interval",
        later.collect(),
        Distribution::Uniform { min: 700e3, max: 1_300e3 },
    );
}

#[test]
fn jitter_spreads_the_spacing_and_keeps_its_mean() {
    let parameters =
        Parameters { users: 2_000, register_jitter: 0.1, measure: 6_000.0, ..Parameters::default() };
    let history = run(&parameters, 1);
    let mut last: BTreeMap<u64, f64> = BTreeMap::new();
    let mut gaps = Vec::new();
    for &(at, user, _) in &history.registrations {
        // Gaps that end beyond the run are not seen; leave out all that could.
        gaps.extend(
            last.insert(user, at).filter(|before| *before < 7_200.0 - 660.0).map(|before| at - before),
        );
    }
    follows("spacing", gaps, Distribution::Uniform { min: 540e3, max: 660e3 });
}

#[test]
fn compression_divides_all_human_times() {
    let slow = Parameters { users: 2_000, measure: 3_600.0, ..Parameters::default() };
    let fast = Parameters { compression: 60.0, ..slow.clone() };
    let (slow, fast) = (run(&slow, 1), run(&fast, 1));
    assert!(slow.calls.len() > 1_500);
    // Not exactly: ringing is rounded to milliseconds after compression.
    assert!(slow.calls.len().abs_diff(fast.calls.len()) <= 2, "{} {}", slow.calls.len(), fast.calls.len());
    assert_eq!(slow.registrations.len(), fast.registrations.len());
    let mut callers: Vec<[(u64, u64); 2]> = Vec::new();
    for (slow, fast) in slow.calls.iter().zip(&fast.calls).take(500) {
        assert!((slow.at / 60.0 - fast.at).abs() < 0.01, "{slow:?} {fast:?}");
        callers.push([(slow.caller, slow.callee), (fast.caller, fast.callee)]);
    }
    assert!(callers.iter().filter(|[slow, fast]| slow == fast).count() > 490);
}

/// The same users do the same, however they are divided.
#[test]
fn workers_divide_the_users_and_change_nothing() {
    let parameters = Parameters { users: 1_001, measure: 3_600.0, ..Parameters::default() };
    let one = run(&parameters, 1);
    for workers in [2, 7] {
        let many = run(&parameters, workers);
        assert_eq!(one.calls, many.calls);
        assert_eq!(one.registrations, many.registrations);
    }
}

fn shares_of_callees(callees: Callees, users: u64) -> Vec<Call> {
    let parameters =
        Parameters { users, callees, think: Distribution::exponential(60e3), ..Parameters::default() };
    run(&parameters, 1).calls
}

#[test]
fn callees_may_be_near_or_popular() {
    let near = Callees::Neighbours { size: 10, share: 0.8 };
    // 95 users: the last group has five.
    let calls = shares_of_callees(near, 95);
    assert!(calls.iter().all(|call| call.callee != call.caller && call.callee < 95));
    let within = calls.iter().filter(|call| call.caller < 90 && call.caller / 10 == call.callee / 10).count();
    let of = calls.iter().filter(|call| call.caller < 90).count();
    // Of the 20 % that go anywhere 9 of 94 stay in the group by chance.
    let share = 0.8 + 0.2 * 9.0 / 94.0;
    passes("locality", chi_square(&[within as u64, (of - within) as u64], &[share, 1.0 - share]));

    let calls = shares_of_callees(Callees::Zipf { exponent: 1.0 }, 100);
    let mut counts = vec![0u64; 100];
    calls.iter().for_each(|call| counts[call.callee as usize] += 1);
    counts.sort_unstable_by_key(|count| Reverse(*count));
    // The most popular gets 1 / H(100) = 19.3 %, less what it cannot call itself.
    let top = counts[0] as f64 / calls.len() as f64;
    assert!((top - 0.193).abs() < 0.02, "{top}");
    assert!(calls.iter().all(|call| call.callee != call.caller));
}
