//! Of shares and of what neighbours are told.

use super::*;
use proptest::prelude::*;

/// Numbers that look like hashes.
fn mix(n: u64) -> u64 {
    let mut n = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) ^ n >> 31
}

/// So many of whatever kind.
fn said(units: f32) -> Answers {
    Answers { all: units, datagrams: units, streams: units }
}

/// Windows of 50 ms in which each source brings so many requests of a unit. What was taken on of each, per
/// window, in the last half of them.
fn run(shares: &mut Shares, sources: &[u32], budget: f32, windows: u32) -> Vec<f32> {
    let mut taken = vec![0u32; sources.len()];
    for window in 0..windows {
        for (source, &count) in sources.iter().enumerate() {
            for n in 0..count {
                let call = mix(mix(source as u64) ^ u64::from(window) << 32 ^ u64::from(n)) as u16;
                let verdict = shares.judge(mix(source as u64 + 1_000), call, 1, false);
                taken[source] += u32::from(window >= windows / 2 && verdict == Verdict::Take);
            }
        }
        shares.turn(budget, said(100.0), 0.05);
    }
    taken.iter().map(|&n| n as f32 / (windows - windows / 2) as f32).collect()
}

#[test]
fn one_with_ten_times_as_much_takes_nothing_from_the_others() {
    let mut shares = Shares::new(7);
    shares.begin(4_000.0, said(100.0), 0.05);
    // 10 small ones bring 100 together in each window, a large one 1,000; there is room for 200.
    let mut sources = vec![10; 10];
    sources.push(1_000);
    let taken = run(&mut shares, &sources, 4_000.0, 100);
    for (source, taken) in taken.iter().enumerate().take(10) {
        assert!(*taken > 9.5, "source {source}: {taken}");
    }
    assert!((80.0..=125.0).contains(&taken[10]), "the rest: {}", taken[10]);
}

/// What gets no answer is sent again, with the same Call-ID. That is no more work that could be taken on.
#[test]
fn what_is_repeated_is_not_counted_again() {
    let mut shares = Shares::new(7);
    shares.begin(4_000.0, said(0.0), 0.05);
    let (mut taken, mut dropped) = (0, std::collections::VecDeque::new());
    for window in 0..400u64 {
        let new: Vec<u16> = (0..800).map(|n| mix(window << 32 | n) as u16).collect();
        let again: Vec<u16> =
            [10, 30, 70, 150].iter().flat_map(|ago| dropped.get(ago - 1).cloned()).flatten().collect();
        let mut out: Vec<u16> = Vec::new();
        for call in &new {
            match shares.judge(mix(1_000), *call, 1, false) {
                Verdict::Take => taken += u32::from(window >= 200),
                _ => out.push(*call),
            }
        }
        again.iter().for_each(|call| {
            taken += u32::from(shares.judge(mix(1_000), *call, 1, false) == Verdict::Take && window >= 200)
        });
        dropped.push_front(out);
        shares.turn(4_000.0, said(0.0), 0.05);
    }
    let taken = f64::from(taken) / 200.0;
    assert!((180.0..=225.0).contains(&taken), "{taken} of 200 in a window");
}

#[test]
fn equal_sources_have_equal_shares() {
    let mut shares = Shares::new(7);
    shares.begin(2_000.0, said(100.0), 0.05);
    let taken = run(&mut shares, &[100; 5], 2_000.0, 200);
    assert!(taken.iter().all(|taken| (17.0..=24.0).contains(taken)), "{taken:?}");
}

#[test]
fn made_up_sources_leave_the_real_one_its_level() {
    // 5,000 sources of two requests each, as a sender with forged addresses makes them, and one that brings
    // 20.
    let mut sources = vec![2; 5_000];
    sources.push(20);
    let mut shares = Shares::new(7);
    shares.begin(100_000.0, said(100.0), 0.05);
    let taken = run(&mut shares, &sources, 100_000.0, 20);
    let all: f32 = taken.iter().sum();
    assert!((4_500.0..=7_500.0).contains(&all), "{all}");
    assert!(taken[5_000] > 4.0, "{}", taken[5_000]);
}

#[test]
fn a_call_is_taken_or_passed_over_as_often_as_it_is_sent() {
    let mut shares = Shares::new(7);
    shares.begin(1_000.0, said(0.0), 0.05);
    run(&mut shares, &[400], 1_000.0, 50);
    let source = mix(1_000);
    let first: Vec<Verdict> = (0..200).map(|n| shares.judge(source, n * 300, 1, false)).collect();
    shares.turn(1_000.0, said(0.0), 0.05);
    run(&mut shares, &[400], 1_000.0, 10);
    let again: Vec<Verdict> = (0..200).map(|n| shares.judge(source, n * 300, 1, false)).collect();
    let same = first.iter().zip(&again).filter(|(a, b)| a == b).count();
    assert!(same > 170, "{same} of 200");
    assert!(first.contains(&Verdict::Take) && first.contains(&Verdict::Drop));
}

/// Whoever does as he is told is told the same again, and nothing more is taken from him here.
#[test]
fn who_leaves_away_what_he_was_told_to_is_not_hit_twice() {
    let mut shares = Shares::new(7);
    shares.begin(2_000.0, said(0.0), 0.05);
    let source = mix(1_000);
    let mut told = 0.0;
    let (mut taken, mut brought) = (0, 0);
    for window in 0..400u64 {
        for n in 0..400 {
            let call = mix(window << 32 | n);
            // By chance, as RFC 7339 has it.
            if (call >> 32) as f32 / u32::MAX as f32 >= told {
                let verdict = shares.judge(source, call as u16, 1, false);
                brought += u32::from(window >= 200);
                taken += u32::from(window >= 200 && verdict == Verdict::Take);
            }
        }
        shares.turn(2_000.0, said(0.0), 0.05);
        told = shares.tell(source, Algorithm::Loss).0;
    }
    let (taken, brought) = (taken as f32 / 200.0, brought as f32 / 200.0);
    assert!((0.7..=0.8).contains(&told), "{told}");
    assert!((85.0..=112.0).contains(&taken) && brought < 118.0, "{taken} of {brought}");
}

/// Sources that meet a flood in both rows do so for a minute at most.
#[test]
fn bad_luck_does_not_last() {
    let mut shares = Shares::new(7);
    shares.begin(40_000.0, said(0.0), 0.05);
    // A source of its own for each of 1,000 floods, and 50 that bring little.
    let mut sources = vec![4; 1_000];
    sources.extend([1; 50]);
    let mut served = [false; 50];
    for _ in 0..40 {
        for _ in 0..4 {
            let taken = run(&mut shares, &sources, 16_000.0, 10);
            served.iter_mut().zip(&taken[1_000..]).for_each(|(served, taken)| *served |= *taken > 0.9);
        }
        (0..2 * SALTED - 40).for_each(|_| shares.turns = shares.turns.wrapping_add(1));
        (0..ROWS).for_each(|row| shares.renew(row));
    }
    let never = served.iter().filter(|served| !**served).count();
    assert_eq!(never, 0, "of 50");
}

/// Nothing jumps when a row gets another hash.
#[test]
fn a_new_row_says_nothing_of_what_is_wanted() {
    let mut shares = Shares::new(7);
    shares.begin(2_000.0, said(0.0), 0.05);
    run(&mut shares, &[1_000], 2_000.0, 100);
    for _ in 0..2 * SALTED {
        run(&mut shares, &[1_000], 2_000.0, 1);
        let (loss, left) = shares.tell(mix(1_000), Algorithm::Loss);
        assert!((0.8..=MOST_TOLD).contains(&loss) && left < 4_000.0, "{loss} {left}");
    }
}

/// Nor where somebody does as he is told, who brings little to it.
#[test]
fn a_new_row_knows_what_is_left_away() {
    let mut shares = Shares::new(7);
    shares.begin(2_000.0, said(0.0), 0.05);
    let mut told = 0.0;
    for window in 0..100 + 2 * u64::from(SALTED) {
        for n in 0..400 {
            let call = mix(window << 32 | n);
            if (call >> 32) as f32 / u32::MAX as f32 >= told {
                shares.judge(mix(1_000), call as u16, 1, false);
            }
        }
        shares.turn(2_000.0, said(0.0), 0.05);
        told = shares.tell(mix(1_000), Algorithm::Loss).0;
        assert!(window < 100 || (0.55..=0.85).contains(&told), "{told} in window {window}");
    }
}

#[test]
fn what_a_source_is_told_holds_for_its_calls_and_for_the_rest() {
    let (mut shares, source) = (Shares::new(7), mix(1_000));
    shares.begin(2_000.0, said(0.0), 0.05);
    let mut last = (0.0, 0.0);
    for window in 0..200u64 {
        for n in 0..405 {
            let call = mix(window << 32 | n);
            if (call >> 32) as f32 / u32::MAX as f32 >= last.0 {
                let invite = n >= 400;
                shares.judge(part(source, invite), call as u16, if invite { CALL } else { 1 }, false);
            }
        }
        shares.turn(2_000.0, said(0.0), 0.05);
        last = shares.tell(source, Algorithm::Loss);
    }
    let (loss, left) = last;
    shares.turn(2_000.0, said(0.0), 0.05);
    for invite in [true, false] {
        let places = shares.places(part(source, invite));
        for (row, at) in shares.rows.iter().zip(places) {
            assert_eq!(row[at].told, loss, "invite: {invite}");
        }
    }
    // Of the 400 units of calls and 8,000 of the rest that it would bring in a second, 2,000 are left; and of
    // its 300 requests of calls and 8,000 of the rest as many parts.
    let requests = (1.0 - loss) * 8_300.0;
    assert!((0.7..0.82).contains(&loss) && (left / requests - 1.0).abs() < 0.1, "{loss} {left}");
}

/// What each part of a source wants is read in one row, not the best of either.
#[test]
fn a_flood_beside_one_part_says_nothing_of_the_source() {
    let (mut shares, source) = (Shares::new(7), mix(1_000));
    shares.begin(2_000.0, said(0.0), 0.05);
    // Somebody's registrations where this one's would be counted, in the first row.
    let beside = |shares: &Shares, n: u64| {
        let (own, its) = (shares.places(part(source, false)), shares.places(mix(n)));
        own[0] == its[0] && own[1] != its[1]
    };
    let flood = (2_000..).map(mix).zip(2_000u64..).find(|(_, n)| beside(&shares, *n)).map(|(flood, _)| flood);
    let mut told = 0.0;
    for window in 0..100u64 {
        for n in 0..2_000 {
            shares.judge(flood.unwrap(), mix(window << 32 | n) as u16, 1, false);
        }
        for n in 2_000..2_050 {
            shares.judge(source, mix(window << 32 | n) as u16, CALL, false);
        }
        shares.turn(2_000.0, said(0.0), 0.05);
        told = shares.tell(source, Algorithm::Loss).0;
        // It does not do as it is told, so what it would bring must not grow by that.
        shares.rows.iter_mut().flatten().for_each(|bucket| bucket.common = Some(0.0));
    }
    // It has half of 2,000 units of its 4,000.
    assert!((0.7..=0.8).contains(&told), "{told}");
}

/// Where all do as they are told nothing is refused here, and there is no level; who comes upon that unawares
/// is bounded all the same.
#[test]
fn a_burst_beside_those_who_do_as_they_are_told_is_bounded() {
    let mut shares = Shares::new(7);
    shares.begin(4_000.0, said(0.0), 0.05);
    let mut told = [0.0f32; 4];
    for window in 0..300u64 {
        for (who, told) in told.iter_mut().enumerate() {
            let source = mix(1_000 + who as u64);
            for n in 0..98 {
                let call = mix(window << 32 | (who as u64) << 16 | n);
                if (call >> 32) as f32 / u32::MAX as f32 >= *told {
                    shares.judge(source, call as u16, 1, false);
                }
            }
        }
        shares.turn(4_000.0, said(0.0), 0.05);
        told.iter_mut()
            .enumerate()
            .for_each(|(who, told)| *told = shares.tell(mix(1_000 + who as u64), Algorithm::Loss).0);
    }
    assert!(told.iter().all(|told| (0.3..0.7).contains(told)), "{told:?}");
    // It keeps up with what they bring.
    shares.turn(4_800.0, said(0.0), 0.05);
    let burst = (0..1_000).filter(|n| shares.judge(mix(9), mix(*n) as u16, 1, false) == Verdict::Take);
    // Four times its share of 60; there is room for 240.
    let burst = burst.count();
    assert!((50..=260).contains(&burst), "{burst}");
}

#[test]
fn a_new_row_is_listened_to_first() {
    let mut shares = Shares::new(7);
    shares.begin(4_000.0, said(0.0), 0.05);
    run(&mut shares, &[1_000; 3], 4_000.0, 100);
    for window in 0..2 * SALTED {
        let before = shares.table.salt(0);
        let taken = run(&mut shares, &[1_000; 3], 4_000.0, 1)[0] * 3.0;
        assert!(taken < 450.0, "{taken} of 200 in window {window}");
        assert!(window > 0 || shares.table.salt(0) == before);
    }
}

/// A flood of a hundred times its share, and of a thousand times, of which the kernel lets pass what its
/// table says.
#[test]
fn a_new_row_makes_no_difference_where_the_kernel_drops() {
    for budget in [4_000u32, 400] {
        let few = Answers { datagrams: budget as f32 / 20.0, ..said(4_000.0) };
        let mut shares = Shares::new(7);
        shares.begin(budget as f32, few, 0.05);
        let windows: Vec<(u32, u32)> = (0..1_000 + 2 * u64::from(SALTED))
            .map(|window| {
                let counts = sifted(&mut shares, window << 32, 20_000);
                shares.turn(budget as f32, few, 0.05);
                counts
            })
            .collect();
        // In each second of the later ones, whichever row is new.
        for (second, windows) in windows[1_000..].chunks(20).enumerate() {
            let taken: u32 = windows.iter().map(|(taken, _)| taken).sum();
            let bound = budget / 4 + 30;
            assert!(taken.abs_diff(budget) < bound.min(330), "second {second}: {taken} of {budget}");
            let seen: u32 = windows.iter().map(|(_, seen)| seen).sum();
            assert!(seen < 5 * budget, "second {second}: {seen} pass for {budget}");
        }
    }
}

/// So many calls from one source, of which the kernel passes what its table says: how many are taken on, and
/// seen.
fn sifted(shares: &mut Shares, from: u64, calls: u64) -> (u32, u32) {
    let source = mix(1_000);
    let threshold = shares.table.threshold(source).below;
    let (mut taken, mut seen) = (0, 0);
    for n in 0..calls {
        let call = mix(from | n) as u16;
        if u32::from(call) < threshold {
            seen += 1;
            taken += u32::from(shares.judge(source, call, 1, false) == Verdict::Take);
        }
    }
    (taken, seen)
}

/// What is dropped is remembered where the threshold may come to while it is repeated, and no more: there is
/// not room for all of a flood.
#[test]
fn what_is_remembered_is_about_twice_what_is_taken_on() {
    let mut shares = Shares::new(7);
    shares.begin(4_000.0, said(0.0), 0.05);
    let turn = |shares: &mut Shares, budget: f32, from: u64| {
        sifted(shares, from << 32, 2_000);
        shares.turn(budget, said(0.0), 0.05);
        shares.table.threshold(mix(1_000))
    };
    for window in 0..100 {
        let Threshold { below, near } = turn(&mut shares, 4_000.0, window);
        assert!(window < 2 || near <= 2 * below + 8, "window {window}: {near} for {below}");
    }
    let steady = turn(&mut shares, 4_000.0, 100);
    assert!((5_000..9_000).contains(&steady.below), "{steady:?}");
    // It falls behind, and remembers what it will take on then.
    let behind = turn(&mut shares, 400.0, 101);
    assert!(
        behind.below < steady.below / 5 && behind.near.abs_diff(steady.near) < steady.near / 4,
        "{behind:?}"
    );
    assert!(shares.is_near(mix(1_000), (steady.below / 2) as u16));
    assert!(!shares.is_near(mix(1_000), (3 * steady.below) as u16));
    // For a moment only.
    let longer = (102..200).map(|window| turn(&mut shares, 400.0, window)).last().unwrap();
    assert!(longer.near < steady.near / 4, "{longer:?}");
}

/// Who asks whether we are there has an answer, whoever else asks: one that the operator knows, and one who
/// brings little.
#[test]
fn a_few_probes_are_answered() {
    let mut shares = Shares::new(7);
    shares.begin(8_000.0, said(0.0), 0.05);
    let floods: Vec<u32> = vec![1_000; 30];
    let least = u16::MAX;
    for _ in 0..40 {
        run(&mut shares, &floods, 8_000.0, 1);
        let mut asks = |n, known| shares.judge_probe(mix(n), least, false, known) == Verdict::Take;
        assert_eq!((0..1_000).filter(|_| asks(1_000, false)).count(), usize::from(PROBES));
        let rest = (1_001..1_030).filter(|n| asks(*n, false)).count();
        assert_eq!(rest, usize::from(PROBES_ALL - PROBES), "of many floods together");
        assert!(asks(1_015, true) && asks(9_999, false));
        assert!(asks(1_029, true) && (0..1_000).filter(|_| asks(1_029, true)).count() < PROBES.into());
    }
}

#[test]
fn many_requests_of_one_call_are_not_all_taken() {
    let mut shares = Shares::new(7);
    shares.begin(1_000.0, said(0.0), 0.05);
    for _ in 0..40 {
        // The hash that is taken always.
        for _ in 0..1_000 {
            shares.judge(mix(1_000), 0, 1, false);
        }
        shares.turn(1_000.0, said(0.0), 0.05);
    }
    let taken = (0..1_000).filter(|_| shares.judge(mix(1_000), 0, 1, false) == Verdict::Take).count();
    assert!(taken <= 100, "{taken}");
}

#[test]
fn refusals_are_answered_as_far_as_they_may_be() {
    let mut shares = Shares::new(7);
    shares.begin(200.0, said(200.0), 0.05);
    run(&mut shares, &[100], 200.0, 40);
    shares.turn(200.0, said(200.0), 0.05);
    let judged: Vec<Verdict> =
        (0..1_000).map(|n| shares.judge(mix(1_000), mix(n) as u16, 1, false)).collect();
    let count = |verdict| judged.iter().filter(|v| **v == verdict).count();
    assert!((1..=20).contains(&count(Verdict::Refuse)), "{}", count(Verdict::Refuse));
    assert!(count(Verdict::Drop) > 900);
    // On a stream there are fewer, and one at least.
    shares.turn(200.0, said(200.0), 0.05);
    let mut refused = |n| shares.judge(mix(1_000), mix(n) as u16, 2, true) == Verdict::Refuse;
    assert_eq!((0..1_000).map(&mut refused).filter(|refused| *refused).count(), 5);
    shares.turn(0.0, said(0.0), 0.05);
    let mut refused = |n| shares.judge(mix(1_000), mix(n) as u16, 4, true) == Verdict::Refuse;
    assert_eq!((0..1_000).map(&mut refused).filter(|refused| *refused).count(), 1);
}

proptest! {
    /// Whatever is asked, the thresholds are in range and what is taken on stays below the caps.
    #[test]
    fn any_sequence_is_bounded(steps in prop::collection::vec((any::<u64>(), any::<u16>(), 0u32..9, any::<bool>()), 1..400),
                               budget in 0f32..1e9, answers in 0f32..1e9, seconds in 0f32..100.0) {
        let mut shares = Shares::new(7);
        shares.begin(budget, said(answers), seconds);
        for (n, (source, call, units, stream)) in steps.into_iter().enumerate() {
            shares.judge(source, call, units, stream);
            if n % 7 == 0 {
                shares.turn(budget, said(answers), seconds);
                prop_assert!((0.0..=1.0).contains(&shares.loss()));
                if call % 2 == 0 {
                    let (loss, left) = shares.tell(source, Algorithm::Loss);
                    prop_assert!((0.0..=MOST_TOLD).contains(&loss) && left >= 0.0);
                }
            }
            for bucket in shares.rows.iter().flatten() {
                prop_assert!(bucket.take <= ALL && bucket.answer <= ALL);
                prop_assert!(bucket.rate.is_finite() && bucket.rate >= 0.0);
            }
        }
    }
}
