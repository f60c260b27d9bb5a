//! Drawing from the laws.

use super::super::rng::Rng;
use super::super::special::ln_gamma;
use super::Distribution;
use core::time::Duration;

impl Distribution {
    /// A sample in milliseconds. Negative values are possible where the law has them (normal, fixed,
    /// uniform); see [`Distribution::pause`].
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        match *self {
            Distribution::Fixed { value } => value,
            Distribution::Exponential { mean } => mean * rng.exponential(),
            Distribution::Gamma { k, theta } => theta * gamma(rng, k),
            // A Poisson variate whose mean is a gamma variate.
            Distribution::NegativeBinomial { p, .. } if p >= 1.0 => 0.0,
            Distribution::NegativeBinomial { p, n } => {
                let mean = gamma(rng, n) * (1.0 - p) / p;
                poisson(rng, mean)
            }
            _ => self.quantile(rng.open()).unwrap_or(0.0),
        }
    }

    /// A sample as a pause: divided by the time compression, whole microseconds, never below zero.
    pub fn pause(&self, rng: &mut Rng, compression: f64) -> Duration {
        Duration::from_micros(to_micros(self.sample(rng), compression))
    }
}

/// Milliseconds, compressed, as whole microseconds; at most about 292,000 years, so that sums with the
/// time of a run do not overflow.
pub(in super::super) fn to_micros(ms: f64, compression: f64) -> u64 {
    const MOST: f64 = 9.2e18;
    // The casts take what is negative or no number for 0.
    let micros = (ms * 1_000.0 / compression).round();
    if micros > MOST { MOST as u64 } else { micros as u64 }
}

/// A standard gamma variate of shape `k` (Marsaglia and Tsang, 2000).
fn gamma(rng: &mut Rng, k: f64) -> f64 {
    if k < 1.0 {
        return gamma(rng, k + 1.0) * rng.open().powf(1.0 / k);
    }
    let d = k - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = super::normal_quantile(rng.open());
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && rng.open().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// A Poisson variate.
fn poisson(rng: &mut Rng, mean: f64) -> f64 {
    if mean < 10.0 {
        // The number of exponential steps that fit.
        let (mut count, mut sum) = (0.0, rng.exponential());
        while sum < mean {
            count += 1.0;
            sum += rng.exponential();
        }
        return count;
    }
    // Transformed rejection with squeeze (Hörmann, 1993, algorithm PTRS).
    let slope = 0.931 + 2.53 * mean.sqrt();
    let a = -0.059 + 0.024_83 * slope;
    let inverse_alpha = 1.123_9 + 1.132_8 / (slope - 3.4);
    let squeeze = 0.927_7 - 3.622_4 / (slope - 2.0);
    loop {
        let u = rng.open() - 0.5;
        let v = rng.open();
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + slope) * u + mean + 0.43).floor();
        if us >= 0.07 && v <= squeeze {
            return k;
        }
        if k < 0.0 || (us < 0.013 && v > us) {
            continue;
        }
        let left = (v * inverse_alpha / (a / (us * us) + slope)).ln();
        if left <= k * mean.ln() - mean - ln_gamma(k + 1.0) {
            return k;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::statistics::{chi_square, kolmogorov_smirnov};
    use super::super::tests::ALL;
    use super::*;

    const SAMPLES: usize = 100_000;

    fn samples(law: Distribution, seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed, 0);
        (0..SAMPLES).map(|_| law.sample(&mut rng)).collect()
    }

    /// The seed fixes the outcome, so that a false alarm (one in 1,000 for each law) shows once, when
    /// the test is written, or never.
    #[test]
    fn samples_follow_their_law() {
        for law in ALL {
            if matches!(law, Distribution::Fixed { .. } | Distribution::NegativeBinomial { .. }) {
                continue;
            }
            let mut got = samples(law, 1);
            let test = kolmogorov_smirnov(&mut got, |x| law.cdf(x).unwrap_or(0.0));
            assert!(test.p > 1e-3, "{law}: {test:?}");
        }
    }

    #[test]
    fn the_test_would_notice() {
        let law = Distribution::log_normal_mean(300_000.0, 1.0);
        let other = Distribution::log_normal_mean(306_000.0, 1.0);
        let test = kolmogorov_smirnov(&mut samples(law, 1), |x| other.cdf(x).unwrap_or(0.0));
        assert!(test.p < 1e-3, "{test:?}");
        let exponential = Distribution::exponential(300_000.0);
        let test = kolmogorov_smirnov(&mut samples(law, 1), |x| exponential.cdf(x).unwrap_or(0.0));
        assert!(test.p < 1e-9, "{test:?}");
    }

    #[test]
    fn negative_binomial_follows_its_law() {
        for (p, n, cells) in [(0.1, 2.0, 60), (0.7, 3.5, 8), (0.02, 5.0, 500)] {
            let mut counts = vec![0u64; cells + 1];
            for x in samples(Distribution::NegativeBinomial { p, n }, 2) {
                assert!(x >= 0.0 && x.fract() == 0.0);
                counts[(x as usize).min(cells)] += 1;
            }
            // P(0) = p^n; P(k+1) = P(k) (k + n) / (k + 1) (1 - p).
            let mut shares = vec![p.powf(n)];
            for k in 0..cells - 1 {
                let k = k as f64;
                shares.push(shares[shares.len() - 1] * (k + n) / (k + 1.0) * (1.0 - p));
            }
            shares.push(1.0 - shares.iter().sum::<f64>());
            let test = chi_square(&counts, &shares);
            assert!(test.p > 1e-3, "p={p} n={n}: {test:?}");
        }
        assert!(samples(Distribution::NegativeBinomial { p: 1.0, n: 2.0 }, 1).iter().all(|&x| x == 0.0));
    }

    /// Both algorithms, and the border between them.
    #[test]
    fn poisson_follows_its_law() {
        for mean in [0.3, 9.9, 10.0, 31.4, 400.0] {
            let cells = (mean * 1.5) as usize + 10;
            let mut rng = Rng::new(5, 0);
            let mut counts = vec![0u64; cells + 1];
            (0..SAMPLES).for_each(|_| counts[(poisson(&mut rng, mean) as usize).min(cells)] += 1);
            let share = |k: usize| (k as f64 * mean.ln() - mean - ln_gamma(k as f64 + 1.0)).exp();
            let mut shares: Vec<f64> = (0..cells).map(share).collect();
            shares.push(1.0 - shares.iter().sum::<f64>());
            let test = chi_square(&counts, &shares);
            assert!(test.p > 1e-3, "{mean}: {test:?}");
        }
    }

    #[test]
    fn a_pause_is_compressed_and_never_negative() {
        let mut rng = Rng::new(1, 0);
        assert_eq!(Distribution::fixed(1_500.0).pause(&mut rng, 1.0), Duration::from_millis(1_500));
        assert_eq!(Distribution::fixed(60_000.0).pause(&mut rng, 60.0), Duration::from_secs(1));
        assert_eq!(Distribution::fixed(-5.0).pause(&mut rng, 1.0), Duration::ZERO);
        assert_eq!(Distribution::fixed(f64::NAN).pause(&mut rng, 1.0), Duration::ZERO);
        let long = Distribution::fixed(f64::INFINITY).pause(&mut rng, 1.0);
        assert!(long > Duration::from_secs(1_000_000_000));
    }
}
