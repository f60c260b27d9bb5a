//! Small drawings within tables: where a figure lies, and its limit.

use std::fmt::Write as _;

const WIDTH: f64 = 170.0;
const HEIGHT: f64 = 22.0;
const EDGE: f64 = 5.0;
/// Single values drawn; of more, as many evenly spread ones.
const VALUES_MAX: usize = 48;

/// The range of values that the drawings of a column share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    low: f64,
    high: f64,
}

/// What one drawing shows; nothing is drawn of what is not there.
#[derive(Clone, Debug, Default)]
pub(super) struct Bar<'a> {
    /// Where the figure lies.
    pub interval: Option<(f64, f64)>,
    /// The figure.
    pub measured: Option<f64>,
    /// The limit.
    pub limit: Option<f64>,
    /// What is no difference: from, to.
    pub floor: Option<(f64, f64)>,
    /// The value of each block.
    pub values: &'a [Option<f64>],
}

impl Bar<'_> {
    /// All numbers in it.
    pub(super) fn numbers(&self) -> impl Iterator<Item = f64> {
        let pairs = [self.interval, self.floor].into_iter().flatten().flat_map(|(low, high)| [low, high]);
        pairs.chain(self.measured).chain(self.limit).chain(self.values.iter().copied().flatten())
    }
}

impl Range {
    /// With room for all values; nothing if no value is a number.
    pub(super) fn over(values: impl Iterator<Item = f64>) -> Option<Range> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        // No figure is as large as this; it keeps the width of the range finite.
        for v in values.filter(|v| v.is_finite()).map(|v| v.clamp(-1e15, 1e15)) {
            (low, high) = (low.min(v), high.max(v));
        }
        if low > high {
            return None;
        }
        let room = if high > low { (high - low) * 0.06 } else { (high.abs() * 0.05).max(1e-6) };
        Some(Range { low: low - room, high: high + room })
    }

    fn place(self, value: f64) -> f64 {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        EDGE + (WIDTH - 2.0 * EDGE) * share
    }

    /// The drawing as markup; the cells beside it say the same in words.
    pub(super) fn svg(self, bar: &Bar<'_>) -> String {
        let finite = |pair: Option<(f64, f64)>| pair.filter(|(a, b)| a.is_finite() && b.is_finite());
        let middle = HEIGHT / 2.0;
        let mut out = format!(
            "<svg class=\"bar\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" aria-hidden=\"true\">\
             <path class=\"base\" d=\"M{EDGE} {middle}H{}\"/>",
            WIDTH - EDGE
        );
        if let Some((from, to)) = finite(bar.floor) {
            let (from, to) = (self.place(from), self.place(to));
            let _ = write!(
                out,
                "<rect class=\"floor\" x=\"{from:.1}\" y=\"2\" width=\"{:.1}\" height=\"{}\"/>",
                (to - from).max(0.5),
                HEIGHT - 4.0
            );
        }
        if let Some((low, high)) = finite(bar.interval) {
            let (low, high) = (self.place(low), self.place(high));
            let _ =
                write!(out, "<path class=\"range\" d=\"M{low:.1} {middle}H{:.1}\"/>", high.max(low + 0.5));
        }
        let values: Vec<f64> = bar.values.iter().copied().flatten().filter(|v| v.is_finite()).collect();
        if !values.is_empty() {
            out.push_str("<path class=\"value\" d=\"");
            for v in evenly(values) {
                let _ = write!(out, "M{:.1} 7v8", self.place(v));
            }
            out.push_str("\"/>");
        }
        if let Some(v) = bar.measured.filter(|v| v.is_finite()) {
            let _ = write!(out, "<path class=\"mid\" d=\"M{:.1} 4v14\"/>", self.place(v));
        }
        if let Some(v) = bar.limit.filter(|v| v.is_finite()) {
            let _ = write!(out, "<path class=\"limit\" d=\"M{:.1} 0v{HEIGHT}\"/>", self.place(v));
        }
        out.push_str("</svg>");
        out
    }
}

/// At most [`VALUES_MAX`] of these values, the smallest and the largest among them.
fn evenly(mut values: Vec<f64>) -> Vec<f64> {
    if values.len() <= VALUES_MAX {
        return values;
    }
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    (0..VALUES_MAX).filter_map(|i| values.get(i * last / (VALUES_MAX - 1)).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_within_the_drawing() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -1.0, 0.0, 1e-300, 1.0];
        for a in odd {
            for b in odd {
                let bar = Bar {
                    interval: Some((a, b)),
                    measured: Some(a),
                    limit: Some(b),
                    floor: Some((a, b)),
                    values: &[Some(a), None],
                };
                let Some(range) = Range::over(bar.numbers()) else { continue };
                let svg = range.svg(&bar);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{a} {b}: {svg}");
                for v in odd.into_iter().filter(|v| v.is_finite()) {
                    assert!((0.0..=WIDTH).contains(&range.place(v)), "{a} {b} {v}");
                }
            }
        }
        assert!(Range::over([f64::NAN].into_iter()).is_none());
    }

    #[test]
    fn many_values_are_drawn_as_few_with_their_ends() {
        let all: Vec<f64> = (0..1_000).map(f64::from).collect();
        let few = evenly(all);
        assert_eq!((few.len(), few.first(), few.last()), (VALUES_MAX, Some(&0.0), Some(&999.0)));
    }
}
