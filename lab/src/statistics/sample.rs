//! Which values count, and their order.

/// Larger magnitudes are not used: sums of their squares would leave the range of `f64`.
pub const LARGEST: f64 = 1e150;
/// Smaller magnitudes count as zero, so that the quotient of two values is finite.
pub const SMALLEST: f64 = 1e-150;
/// The most values of one system that are compared. Work and memory grow with the square.
pub const MOST_VALUES: usize = 1_000;

/// The value itself if it can be calculated with.
pub(super) fn usable(value: f64) -> Option<f64> {
    if !value.is_finite() || value.abs() > LARGEST {
        None
    } else if value.abs() < SMALLEST {
        Some(0.0)
    } else {
        Some(value)
    }
}

/// The usable values in ascending order.
pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut out: Vec<f64> = values.iter().copied().filter_map(usable).collect();
    out.sort_unstable_by(f64::total_cmp);
    out
}

/// The median of ascending values: the middle one, or halfway between the two in the middle.
pub(super) fn middle(ascending: &[f64]) -> Option<f64> {
    let upper = *ascending.get(ascending.len() / 2)?;
    if ascending.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *ascending.get((ascending.len() / 2).checked_sub(1)?)?;
    Some(f64::midpoint(lower, upper))
}

/// The median of the usable values; none if there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    middle(&sorted(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_of_usable_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, f64::NAN, 2.0, 3.0, f64::INFINITY]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN, 1e200]), None);
        assert_eq!(median(&[1e-300]), Some(0.0));
    }
}
