//! Whether samples follow a law: the tests of Kolmogorov and Smirnov, and of Pearson.

use super::special::gamma_q;
pub use super::special::{normal_cdf, normal_quantile};

/// The outcome of a test: a small `p` speaks against the law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The largest distance between both distribution functions, or the chi-square sum.
    pub statistic: f64,
    /// The probability of such a statistic or a larger one, if the law holds.
    pub p: f64,
}

/// Compares `samples` (sorted on return) with the continuous law `cdf`. The p-value is that of
/// Kolmogorov's limit with Stephens' correction (1970), good from about eight samples on.
pub fn kolmogorov_smirnov(samples: &mut [f64], cdf: impl Fn(f64) -> f64) -> Fit {
    samples.sort_unstable_by(f64::total_cmp);
    let n = samples.len() as f64;
    let mut statistic = 0f64;
    for (i, &x) in samples.iter().enumerate() {
        let at = cdf(x);
        // The empirical function jumps here, from i/n to (i+1)/n.
        statistic = statistic.max(at - i as f64 / n).max((i + 1) as f64 / n - at);
    }
    let root = n.sqrt();
    Fit { statistic, p: kolmogorov_q(statistic * (root + 0.12 + 0.11 / root)) }
}

/// The probability that Kolmogorov's variate exceeds `z`.
fn kolmogorov_q(z: f64) -> f64 {
    if z < 0.2 {
        // 1 - 5e-13 or more; the series below converges slowly here.
        return 1.0;
    }
    let mut sum = 0.0;
    for k in 1..=100u32 {
        let k = f64::from(k);
        let term = (-2.0 * k * k * z * z).exp();
        sum += if k % 2.0 == 1.0 { term } else { -term };
        if term < 1e-17 {
            break;
        }
    }
    (2.0 * sum).clamp(0.0, 1.0)
}

/// Compares `counts` with the `shares` that the law gives to the same cells (they sum to 1). Cells that
/// expect fewer than five are merged with the next one, as the approximation asks.
pub fn chi_square(counts: &[u64], shares: &[f64]) -> Fit {
    let total = counts.iter().sum::<u64>() as f64;
    let mut cells: Vec<(f64, f64)> = Vec::new();
    let (mut seen, mut expected) = (0.0, 0.0);
    for (&count, &share) in counts.iter().zip(shares) {
        seen += count as f64;
        expected += share * total;
        if expected >= 5.0 {
            cells.push((seen, expected));
            (seen, expected) = (0.0, 0.0);
        }
    }
    match cells.last_mut() {
        Some(last) => *last = (last.0 + seen, last.1 + expected),
        None => return Fit { statistic: 0.0, p: 1.0 },
    }
    let statistic = cells.iter().map(|(seen, expected)| (seen - expected).powi(2) / expected).sum::<f64>();
    let freedom = (cells.len() - 1) as f64;
    let p = if freedom > 0.0 { gamma_q(0.5 * freedom, 0.5 * statistic) } else { 1.0 };
    Fit { statistic, p }
}

#[cfg(test)]
mod tests {
    use super::super::rng::Rng;
    use super::*;

    fn near(got: f64, want: f64, error: f64) {
        assert!((got - want).abs() < error, "{got} is not {want}");
    }

    /// Critical values of the limit: exceeded with 10 %, 5 % and 1 %.
    #[test]
    fn kolmogorov_values_are_those_of_the_tables() {
        near(kolmogorov_q(1.223_847_870), 0.10, 1e-7);
        near(kolmogorov_q(1.358_098_640), 0.05, 1e-7);
        near(kolmogorov_q(1.627_623_612), 0.01, 1e-7);
        near(kolmogorov_q(0.0), 1.0, 1e-12);
        assert!(kolmogorov_q(10.0) < 1e-80);
    }

    /// Five points against the uniform law: the distance is at 0.62 (0.62 - 0.4), and table values for
    /// n = 5 say that 0.446 is exceeded with 20 %.
    #[test]
    fn the_distance_is_the_largest_one() {
        let fit = kolmogorov_smirnov(&mut [0.94, 0.1, 0.62, 0.3, 0.85], |x| x);
        near(fit.statistic, 0.25, 1e-12);
        assert!(fit.p > 0.2);
        let fit = kolmogorov_smirnov(&mut [0.05, 0.1, 0.15, 0.2, 0.25], |x| x);
        near(fit.statistic, 0.75, 1e-12);
        let fit = kolmogorov_smirnov(&mut [0.446, 0.5, 0.6, 0.7, 0.8], |x| x);
        near(fit.statistic, 0.446, 1e-12);
        near(fit.p, 0.2, 0.02);
    }

    /// The classical die of 60 throws: 5, 8, 9, 8, 10, 20 gives 13.4, which five degrees of freedom exceed
    /// with 1.99 %.
    #[test]
    fn pearson_knows_the_die() {
        let fit = chi_square(&[5, 8, 9, 8, 10, 20], &[1.0 / 6.0; 6]);
        near(fit.statistic, 13.4, 1e-12);
        near(fit.p, 0.019_905, 1e-5);
    }

    #[test]
    fn sparse_cells_are_merged() {
        let fit = chi_square(&[90, 6, 2, 1, 1], &[0.9, 0.06, 0.02, 0.01, 0.01]);
        // Two cells remain: 90 and 10.
        near(fit.statistic, 0.0, 1e-12);
        assert_eq!(chi_square(&[1, 1], &[0.5, 0.5]), Fit { statistic: 0.0, p: 1.0 });
        assert_eq!(chi_square(&[], &[]), Fit { statistic: 0.0, p: 1.0 });
    }

    /// The p-values of a true law are uniform themselves: of 400 tests about 5 % fall below 5 %.
    #[test]
    fn false_alarms_come_as_often_as_promised() {
        let mut alarms = [0; 2];
        for seed in 0..400 {
            let mut rng = Rng::new(9, seed);
            let mut samples: Vec<f64> = (0..500).map(|_| rng.unit()).collect();
            alarms[0] += usize::from(kolmogorov_smirnov(&mut samples, |x| x).p < 0.05);
            let mut counts = [0; 10];
            for _ in 0..500 {
                counts[rng.below(10) as usize] += 1;
            }
            alarms[1] += usize::from(chi_square(&counts, &[0.1; 10]).p < 0.05);
        }
        // 20 expected, standard deviation 4.4.
        assert!(alarms.iter().all(|&n| (7..=33).contains(&n)), "{alarms:?}");
    }
}
