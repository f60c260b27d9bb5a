//! What is believed of where a peak is.

/// A distribution over the logarithm of the peak and over how sharp it is.
///
/// A run at load x conforms with probability e + (1 - 2e) / (1 + (x / peak)^(1/s)): half of the runs at
/// the peak, nearly all a few s below, and a share e goes wrong anywhere (another program took the
/// processor).
#[derive(Clone, Debug)]
pub(super) struct Belief {
    /// Logarithm of the middle of the first cell, and the distance from cell to cell.
    first: f64,
    width: f64,
    /// A row of cells for each sharpness.
    cells: [Vec<f64>; SHARPNESS.len()],
}

/// How wide the change from conforming to failing is, relative to the load, and how likely that is at
/// first: servers do not give way slowly.
const SHARPNESS: [(f64, f64); 4] =
    [(0.001, 8.0 / 15.0), (0.004, 4.0 / 15.0), (0.015, 2.0 / 15.0), (0.05, 1.0 / 15.0)];
/// Runs that go wrong for no reason of load.
const LAPSES: f64 = 0.02;
const CELLS: usize = 1_024;

impl Belief {
    /// The peak may be anywhere from `low` to `high`.
    pub(super) fn new(low: f64, high: f64) -> Belief {
        let width = (high / low).ln() / CELLS as f64;
        let cells = SHARPNESS.map(|(_, share)| vec![share / CELLS as f64; CELLS]);
        Belief { first: low.ln() + 0.5 * width, width, cells }
    }

    /// If the peak seems to be at an end of the range, or beyond it: a range around that end.
    pub(super) fn at_edge(&self) -> Option<(f64, f64)> {
        let edge = CELLS as f64 / 10.0;
        let (low, high, middle) = (self.begin(0.0), self.begin(CELLS as f64), self.quantile(0.5));
        if middle > self.begin(CELLS as f64 - edge) {
            Some((high / 4.0, high * 4.0))
        } else if middle < self.begin(edge) {
            Some((low / 4.0, low * 4.0))
        } else {
            None
        }
    }

    /// A run at `load` did or did not conform.
    pub(super) fn learn(&mut self, load: f64, conforms: bool) {
        let at = load.ln();
        let mut sum = 0.0;
        for (row, (sharpness, _)) in self.cells.iter_mut().zip(SHARPNESS) {
            let mut peak = self.first;
            for cell in row {
                let conforming = LAPSES + (1.0 - 2.0 * LAPSES) / (1.0 + ((at - peak) / sharpness).exp());
                *cell *= if conforms { conforming } else { 1.0 - conforming };
                sum += *cell;
                peak += self.width;
            }
        }
        // At least the lapses are left of any belief, so the sum is above 0.
        self.cells.iter_mut().flatten().for_each(|cell| *cell /= sum);
    }

    /// The load that the peak is below with probability `p`.
    pub(super) fn quantile(&self, p: f64) -> f64 {
        let mut sum = 0.0;
        for i in 0..CELLS {
            let cell = self.cell(i);
            if sum + cell >= p && cell > 0.0 {
                // Even within the cell.
                return self.begin(i as f64 + (p - sum) / cell);
            }
            sum += cell;
        }
        self.begin(CELLS as f64)
    }

    /// The probability that the peak is at `load` or above.
    pub(super) fn at_least(&self, load: f64) -> f64 {
        let position = (load.ln() - self.first) / self.width + 0.5;
        (0..CELLS).map(|i| self.cell(i) * (i as f64 + 1.0 - position).clamp(0.0, 1.0)).sum()
    }

    fn cell(&self, i: usize) -> f64 {
        self.cells.iter().filter_map(|row| row.get(i)).sum()
    }

    fn begin(&self, position: f64) -> f64 {
        (self.first + (position - 0.5) * self.width).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn belief_begins_even_and_follows_the_verdicts() {
        let mut belief = Belief::new(100.0, 400.0);
        assert!((belief.quantile(0.5) - 200.0).abs() < 0.01, "the middle of logarithms");
        assert!((belief.at_least(200.0) - 0.5).abs() < 1e-6);
        assert!((belief.at_least(50.0) - 1.0).abs() < 1e-9 && belief.at_least(500.0) == 0.0);
        belief.learn(200.0, true);
        // One verdict in fifty is wrong.
        assert!((0.96..0.98).contains(&belief.at_least(200.0)), "{}", belief.at_least(200.0));
        belief.learn(283.0, false);
        assert!((200.0..283.0).contains(&belief.quantile(0.5)));
        for p in [0.05, 0.3, 0.5, 0.95] {
            assert!((belief.at_least(belief.quantile(p)) - (1.0 - p)).abs() < 1e-6);
        }
        // Against all reason, many times: no division by zero.
        for _ in 0..500 {
            belief.learn(100.0, false);
            belief.learn(400.0, true);
        }
        assert!(belief.quantile(0.5).is_finite() && belief.at_least(200.0).is_finite());
    }
}
