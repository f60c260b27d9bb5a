use proptest::prelude::*;

use super::super::hostile::{runs, value};
use super::*;

fn claim(kind: Kind) -> Claim {
    Claim { metric: "p99".into(), unit: "ms".into(), system: "new".into(), kind }
}

fn at_most_times(times: f64) -> Claim {
    claim(Kind::AtMostTimes { of: "old".into(), times })
}

/// Ten blocks around a level, with a spread of one percent.
fn around(level: f64) -> Vec<Option<f64>> {
    [-1.0, 0.5, 0.2, -0.4, 0.9, -0.7, 0.1, 0.6, -0.2, 0.0]
        .map(|percent| Some(level * (1.0 + percent / 100.0)))
        .into()
}

/// The same spread in another order.
fn again(level: f64) -> Vec<Option<f64>> {
    [0.1, -0.7, 0.6, 0.9, -0.2, 0.5, -1.0, 0.0, 0.2, -0.4]
        .map(|percent| Some(level * (1.0 + percent / 100.0)))
        .into()
}

fn rule() -> Rule {
    Rule::new(0.95, 6, 1)
}

fn judged(claim: &Claim, own: &[Option<f64>], other: &[Option<f64>]) -> Judgement {
    let floor = Floor::of(&around(100.0), &again(100.0), 0.95).unwrap();
    judge(claim, &Evidence { own, other, floor: Some(&floor) }, &rule())
}

#[test]
fn value_is_judged_by_the_whole_interval() {
    let own = around(100.0);
    let of = |kind| judged(&claim(kind), &own, &[]).verdict;
    assert_eq!(of(Kind::AtMost { limit: 102.0 }), Verdict::Pass);
    assert_eq!(of(Kind::AtMost { limit: 98.0 }), Verdict::Fail);
    let failed = judged(&claim(Kind::AtLeast { limit: 102.0 }), &own, &[]);
    assert_eq!(failed.reason, "the whole interval 99.3 to 100.6 ms breaks the limit of 102 ms");
    assert_eq!(of(Kind::AtMost { limit: 100.0 }), Verdict::NoDifferenceShown);
    assert_eq!(of(Kind::AtLeast { limit: 98.0 }), Verdict::Pass);
    assert_eq!(of(Kind::AtLeast { limit: 102.0 }), Verdict::Fail);
    assert_eq!(of(Kind::AtLeast { limit: 100.0 }), Verdict::NoDifferenceShown);
}

#[test]
fn multiple_is_judged_by_the_whole_interval() {
    let (own, other) = (around(105.0), again(100.0));
    let found = judged(&at_most_times(1.0), &own, &other);
    assert_eq!(found.verdict, Verdict::Fail, "{}", found.reason);
    assert!((found.measured.unwrap() - 1.05).abs() < 0.01);
    assert_eq!(judged(&at_most_times(1.1), &own, &other).verdict, Verdict::Pass);
    assert_eq!(judged(&at_most_times(1.05), &own, &other).verdict, Verdict::NoDifferenceShown);
    let at_least = |times| claim(Kind::AtLeastTimes { of: "old".into(), times });
    assert_eq!(judged(&at_least(1.02), &own, &other).verdict, Verdict::Pass);
    assert_eq!(judged(&at_least(1.1), &own, &other).verdict, Verdict::Fail);
}

#[test]
fn difference_below_the_floor_is_not_claimed() {
    // 0.3 % in every block: the interval excludes 1, and the same build differs from itself by more.
    let other = around(100.0);
    let own: Vec<_> = other.iter().map(|v| v.map(|v| v * 1.003)).collect();
    let found = judged(&at_most_times(1.0), &own, &other);
    assert!(found.interval.unwrap().low() > 1.0);
    assert_eq!(found.verdict, Verdict::NoDifferenceShown);
    assert!(found.reason.contains("the same build differs from itself"), "{}", found.reason);
    let exact = Floor::of(&other, &other, 0.95).unwrap();
    let evidence = Evidence { own: &own, other: &other, floor: Some(&exact) };
    assert_eq!(judge(&at_most_times(1.0), &evidence, &rule()).verdict, Verdict::Fail);
}

#[test]
fn comparison_without_a_control_is_void() {
    let (own, other) = (around(105.0), again(100.0));
    let evidence = Evidence { own: &own, other: &other, floor: None };
    let found = judge(&at_most_times(1.0), &evidence, &rule());
    assert_eq!(found.verdict, Verdict::Void);
    assert!(found.reason.contains("no A/A control"), "{}", found.reason);
    assert!(found.measured.is_some());
}

#[test]
fn too_few_valid_blocks_are_void() {
    let mut own = around(100.0);
    own[3..].fill(None);
    let found = judged(&at_most_times(1.0), &own, &again(100.0));
    assert_eq!((found.verdict, found.blocks, found.more), (Verdict::Void, 3, Some(3)));
    assert_eq!(found.reason, "3 blocks are valid, and 6 are needed for a verdict");
    assert!(found.measured.is_some_and(|ratio| (ratio - 1.0).abs() < 0.02), "{found:?}");
    let strict = Rule::new(0.95, 12, 1);
    let evidence = Evidence { own: &around(1.0), other: &[], floor: None };
    assert_eq!(judge(&claim(Kind::AtMost { limit: 2.0 }), &evidence, &strict).verdict, Verdict::Void);
}

#[test]
fn sameness_needs_the_interval_within_the_margin() {
    let same = |within| claim(Kind::Same { of: "old".into(), within });
    assert_eq!(judged(&same(1.05), &around(100.0), &again(100.0)).verdict, Verdict::Pass);
    assert_eq!(judged(&same(1.02), &around(110.0), &again(100.0)).verdict, Verdict::Fail);
    let found = judged(&same(1.001), &around(100.0), &again(100.0));
    assert_eq!(found.verdict, Verdict::NoDifferenceShown);
    assert!(found.more.is_some(), "{}", found.reason);
    assert_eq!(judged(&same(1.0), &around(100.0), &again(100.0)).verdict, Verdict::Void);
}

#[test]
fn zeros_are_judged_by_differences() {
    let other: Vec<_> = (0..8).map(|i| Some(f64::from(i % 2))).collect();
    let own: Vec<_> = other.iter().map(|v| v.map(|v| v + 5.0)).collect();
    let floor = Floor::of(&other, &other, 0.95).unwrap();
    let evidence = Evidence { own: &own, other: &other, floor: Some(&floor) };
    let found = judge(&at_most_times(1.0), &evidence, &rule());
    assert_eq!(found.verdict, Verdict::Fail);
    assert!(found.reason.contains("differences are judged"), "{}", found.reason);
    // Differences of 2 to 4 while the same build differs by up to 4: about as many blocks again.
    let noisy: Vec<_> = [3.0, 2.0, 4.0, 3.0, 3.0, 0.0, 2.0, 4.0].map(Some).into();
    let twin = [0.0; 8].map(Some);
    let floor = Floor::of(&noisy, &twin, 0.95).unwrap();
    let evidence = Evidence { own: &noisy, other: &twin, floor: Some(&floor) };
    let found = judge(&at_most_times(1.0), &evidence, &rule());
    assert_eq!((found.verdict, found.interval), (Verdict::NoDifferenceShown, None));
    assert!(found.more.is_some_and(|more| (1..=16).contains(&more)), "{found:?}");
}

#[test]
fn reason_names_interval_limit_and_what_would_decide() {
    let found = judged(&at_most_times(1.001), &around(100.0), &again(100.0));
    assert_eq!(found.verdict, Verdict::NoDifferenceShown);
    assert!(found.reason.contains("contains the limit of 1.001; about"), "{}", found.reason);
    assert!(found.more.is_some_and(|more| more > 10), "{found:?}");
    assert_eq!(Verdict::NoDifferenceShown.to_string(), "NO DIFFERENCE SHOWN");
}

#[test]
fn several_claims_share_the_confidence() {
    let each = rule().among(5);
    assert!((each.confidence() - 0.99).abs() < 1e-12);
    assert_eq!((rule().fewest(), each.fewest()), (6, 8));
    let many = rule().among(100_000);
    assert!((1.0 - many.confidence()) * 100_000.0 <= 0.05 + 1e-9);
}

proptest! {
    #[test]
    fn judgement_of_anything_is_consistent(
        own in runs(15),
        other in runs(15),
        limit in value(),
        kind in 0..5_u8,
    ) {
        let of = "old".to_owned();
        let claim = claim(match kind {
            0 => Kind::AtMost { limit },
            1 => Kind::AtLeast { limit },
            2 => Kind::AtMostTimes { of, times: limit },
            3 => Kind::AtLeastTimes { of, times: limit },
            _ => Kind::Same { of, within: limit },
        });
        let floor = Floor::of(&own, &other, 0.95).ok();
        let found = judge(&claim, &Evidence { own: &own, other: &other, floor: floor.as_ref() }, &rule());
        prop_assert!(!found.reason.is_empty());
        if let (Verdict::Pass | Verdict::Fail, Some(interval)) = (found.verdict, found.interval) {
            // The smallest limits count as zero.
            let limit = usable(limit).unwrap_or(limit);
            prop_assert!(kind == 4 || !interval.contains(limit) || interval.low() == limit || interval.high() == limit);
        }
    }
}
