//! Values for property tests: ordinary ones, ties, and what no measurement should give.

use proptest::prelude::*;

/// One value.
pub(super) fn value() -> impl Strategy<Value = f64> {
    let special =
        prop::sample::select(vec![0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, -1.0, 1e150, 1e-150, f64::MAX]);
    prop_oneof![1 => prop::num::f64::ANY, 1 => special, 4 => 1e-3..1e3_f64]
}

/// A sample: positive values, few different ones, all the same, or anything.
pub(super) fn sample(most: usize) -> impl Strategy<Value = Vec<f64>> {
    prop_oneof![
        prop::collection::vec(1e-3..1e3_f64, 0..most),
        prop::collection::vec((0..4_u8).prop_map(f64::from), 0..most),
        (value(), 0..most).prop_map(|(one, count)| vec![one; count]),
        prop::collection::vec(value(), 0..most),
    ]
}

/// The figures of a system, of which some runs or none are void.
pub(super) fn runs(most: usize) -> impl Strategy<Value = Vec<Option<f64>>> {
    (sample(most), 1..8_usize).prop_map(|(values, every)| {
        values
            .into_iter()
            .enumerate()
            .map(|(at, v)| Some(v).filter(|_| every < 4 || at % every > 0))
            .collect()
    })
}
