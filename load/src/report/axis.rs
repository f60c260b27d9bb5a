//! Axes of plots: from values to places, and round values to label.

use super::format::number;

/// How an axis maps values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By powers of ten; values of zero and less are drawn at the lower edge.
    Log,
    /// A share from 0 to 1 by its nines: 0.9, 0.99, 0.999 are equally far apart.
    Nines,
}

/// One axis: from values to places.
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis that has room for all `values`, drawn from `from` to `to`.
    pub(super) fn over(
        scale: Scale,
        values: impl Iterator<Item = f64>,
        from: f64,
        to: f64,
        head_room: bool,
    ) -> Axis {
        let (mut low, mut high, mut least) = (f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY);
        // Nothing measured is as large as this; it keeps differences and ratios finite.
        for v in values.filter(|v| v.is_finite()).map(|v| v.clamp(-1e15, 1e15)) {
            (low, high) = (low.min(v), high.max(v));
            if v > 0.0 {
                least = least.min(v);
            }
        }
        if !(low.is_finite() && high.is_finite()) {
            (low, high) = (0.0, 1.0);
        }
        let (low, high) = match scale {
            Scale::Linear => {
                let low = if head_room { low.min(0.0) } else { low };
                let high = if high <= low { low + 1.0 } else { high };
                (low, if head_room { low + (high - low) * 1.08 } else { high })
            }
            Scale::Log => {
                let least = if least.is_finite() { least.log10() } else { -3.0 };
                let most = if high > 0.0 { high.log10() } else { least + 1.0 };
                let low = (least * 3.0).floor() / 3.0;
                (low, most.max(low + 0.7) + if head_room { 0.08 } else { 0.0 })
            }
            Scale::Nines => (0.0, nines(high).max(1.0) * if head_room { 1.04 } else { 1.0 }),
        };
        Axis { scale, low, high, from, to }
    }

    pub(super) fn place(&self, v: f64) -> f64 {
        let v = match self.scale {
            Scale::Linear => v,
            Scale::Log if v > 0.0 => v.log10(),
            Scale::Log => self.low,
            Scale::Nines => nines(v),
        };
        let share = ((v - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + (self.to - self.from) * share
    }

    /// Values that get a line, with their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear => linear_ticks(self.low, self.high),
            Scale::Log => log_ticks(self.low, self.high),
            Scale::Nines => {
                let shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999];
                let texts = ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"];
                let all = shares.into_iter().zip(texts);
                all.filter(|(s, _)| nines(*s) <= self.high).map(|(s, t)| (s, t.to_owned())).collect()
            }
        }
    }
}

/// 0.9 is 1, 0.99 is 2, and so on; 1 itself is beyond all.
fn nines(share: f64) -> f64 {
    -(1.0 - share.clamp(0.0, 1.0 - 1e-12)).log10()
}

/// About five round numbers.
fn linear_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let rough = (high - low) / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * power).find(|s| *s >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (0..12)
        .map(|i| (first + i) as f64 * step)
        .take_while(|v| *v <= high + step * 1e-9)
        // A multiple of a power of ten, without what floating point adds to it.
        .map(|v| (v * 1e9).round() / 1e9)
        .map(|v| (v, short(v)))
        .collect()
}

/// Without zeroes at the end of a fraction.
fn short(v: f64) -> String {
    let text = number(v);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Powers of ten, with 2 and 5 between them where few powers are.
fn log_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let between: &[f64] = if high - low > 3.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let mut out = Vec::new();
    for power in (low.floor() as i32)..=(high.ceil() as i32) {
        for m in between {
            let v = m * 10_f64.powi(power);
            if v.log10() >= low - 1e-9 && v.log10() <= high + 1e-9 {
                out.push((v, short(v)));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_inside_whatever_the_values() {
        let odd = [0.0, -1.0, 1e-9, 1.0, 1e12, f64::MAX, f64::NAN, f64::INFINITY];
        for scale in [Scale::Linear, Scale::Log, Scale::Nines] {
            for a in odd {
                for b in odd {
                    let axis = Axis::over(scale, [a, b].into_iter(), 62.0, 836.0, true);
                    for v in odd.into_iter().filter(|v| v.is_finite()) {
                        let at = axis.place(v);
                        assert!((62.0..=836.0).contains(&at), "{scale:?} {a} {b} {v}: {at}");
                    }
                    assert!(axis.ticks().len() < 700);
                }
            }
        }
    }

    #[test]
    fn ticks_are_round() {
        let labels = |t: Vec<(f64, String)>| t.into_iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(labels(linear_ticks(0.0, 1.0)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(linear_ticks(0.0, 4_300.0)), ["0", "1,000", "2,000", "3,000", "4,000"]);
        assert_eq!(labels(log_ticks(0.0, 1.0)), ["1", "2", "5", "10"]);
        assert_eq!(labels(log_ticks(-2.0, 3.0)), ["0.01", "0.1", "1", "10", "100", "1,000"]);
    }
}
