//! The statistics of comparisons: Student's t for means of repetitions, exact bounds for shares.

/// Natural logarithm of the gamma function for x > 0, by Stirling's series after shifting x above 10
/// (error below 1e-12).
fn ln_gamma(x: f64) -> f64 {
    let mut x = x;
    let mut shift = 0.0;
    while x < 10.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    // B2/(1*2) = 1/12, B4/(3*4) = -1/360, B6/(5*6) = 1/1260, B8/(7*8) = -1/1680, B10/(9*10) = 1/1188.
    let terms = [1.0 / 1_188.0, -1.0 / 1_680.0, 1.0 / 1_260.0, -1.0 / 360.0, 1.0 / 12.0];
    let series = terms.into_iter().fold(0.0, |sum, term| sum * inverse + term) / x;
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * core::f64::consts::PI).ln() + series
}

/// The regularised incomplete beta function I_x(a, b) for a, b > 0, by its continued fraction.
pub(super) fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast on one side of the mean; the other side follows by symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    front * fraction(x, a, b)
}

/// The continued fraction of the incomplete beta function, evaluated from the front with the convergents'
/// ratios kept away from zero.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let away = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let (mut c, mut d) = (1.0, 1.0 / away(1.0 - (a + b) * x / (a + 1.0)));
    let mut value = d;
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            step = c * d;
            value *= step;
        }
        if (step - 1.0_f64).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// Probability that Student's t with `df` degrees of freedom is further from 0 than `t`.
pub(super) fn t_two_sided(t: f64, df: f64) -> f64 {
    if !t.is_finite() {
        return 0.0;
    }
    beta(df / (df + t * t), df / 2.0, 0.5)
}

/// The value that |t| exceeds with probability `p` (0 < p < 1).
pub(super) fn t_critical(p: f64, df: f64) -> f64 {
    bisect(0.0, 1e6, |t| t_two_sided(t, df) < p)
}

/// The smallest x in [low, high] for which a rising condition holds.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The exact one-sided upper bound of a share of which `k` of `n` were seen (Clopper and Pearson 1934).
pub(super) fn proportion_upper(k: u64, n: u64, confidence: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    let (a, b) = (k as f64 + 1.0, (n - k) as f64);
    bisect(0.0, 1.0, |p| beta(p, a, b) > confidence)
}

/// Mean and sample variance.
pub fn moments(values: &[f64]) -> (f64, f64) {
    // Without this, rounding would find a spread among equal values.
    if let Some(first) = values.first()
        && values.iter().all(|v| v == first)
    {
        return (*first, 0.0);
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    let spread: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (mean, spread / (n - 1.0).max(1.0))
}

/// What two groups of independent runs say about the difference of their means.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Welch {
    /// Mean of the second minus mean of the first.
    pub difference: f64,
    /// Half of the confidence interval's width.
    pub half_width: f64,
    /// Probability of a difference at least this large if the means were equal.
    pub p: f64,
}

/// Welch's t (unequal variances), for groups of at least two values. `None` if a group is smaller, or if
/// no value differs from any other in its group, so that there is no measure of chance.
pub(super) fn welch(a: &[f64], b: &[f64], confidence: f64) -> Option<Welch> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let ((mean_a, var_a), (mean_b, var_b)) = (moments(a), moments(b));
    let (of_a, of_b) = (var_a / a.len() as f64, var_b / b.len() as f64);
    let error = (of_a + of_b).sqrt();
    if error <= 0.0 {
        return None;
    }
    // Welch and Satterthwaite's degrees of freedom.
    let below = of_a * of_a / (a.len() as f64 - 1.0) + of_b * of_b / (b.len() as f64 - 1.0);
    let df = (of_a + of_b) * (of_a + of_b) / below;
    let difference = mean_b - mean_a;
    Some(Welch {
        difference,
        half_width: t_critical(1.0 - confidence, df) * error,
        p: t_two_sided(difference / error, df),
    })
}

/// Which of several p-values are significant when all were looked at together (Holm's step-down method, no
/// assumption about their dependence).
pub(super) fn holm(p: &[f64], alpha: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|i, j| p[*i].total_cmp(&p[*j]));
    let mut out = vec![false; p.len()];
    for (rank, i) in order.into_iter().enumerate() {
        if p[i] > alpha / (p.len() - rank) as f64 {
            break;
        }
        out[i] = true;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(a: f64, b: f64, error: f64) -> bool {
        (a - b).abs() <= error
    }

    #[test]
    fn gamma_and_beta() {
        assert!(near(ln_gamma(1.0), 0.0, 1e-12));
        assert!(near(ln_gamma(0.5), core::f64::consts::PI.sqrt().ln(), 1e-12));
        assert!(near(ln_gamma(11.0), 3_628_800.0_f64.ln(), 1e-12));
        // I_x(1, b) = 1 - (1 - x)^b, I_x(a, 1) = x^a.
        assert!(near(beta(0.3, 1.0, 4.0), 1.0 - 0.7_f64.powi(4), 1e-13));
        assert!(near(beta(0.9, 3.0, 1.0), 0.729, 1e-13));
        assert_eq!((beta(0.0, 2.0, 2.0), beta(1.0, 2.0, 2.0)), (0.0, 1.0));
    }

    #[test]
    fn student_from_tables() {
        // Two-sided 5 % points: 12.706 (1), 4.303 (2), 2.776 (4), 2.228 (10), 1.960 (many).
        for (df, t) in [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (10.0, 2.228), (1e6, 1.960)] {
            assert!(near(t_critical(0.05, df), t, 5e-4), "{df}: {}", t_critical(0.05, df));
        }
        assert!(near(t_two_sided(0.0, 5.0), 1.0, 1e-12));
        assert_eq!(t_two_sided(f64::INFINITY, 5.0), 0.0);
    }

    #[test]
    fn nothing_of_n_failed_is_about_three_in_n() {
        assert!(near(proportion_upper(0, 30_000, 0.95), 9.985e-5, 1e-7));
        assert!(near(proportion_upper(0, 10, 0.95), 1.0 - 0.05_f64.powf(0.1), 1e-9));
        assert_eq!(proportion_upper(5, 5, 0.95), 1.0);
        // 1 of 20: 21.61 % in published tables.
        assert!(near(proportion_upper(1, 20, 0.95), 0.216_1, 1e-4));
    }

    #[test]
    fn welch_by_hand() {
        // Means 3 and 8 (1 to 5; 2, 4, ..., 14), variances 2.5 and 56 / 3.
        let a = [1.0, 2.0, 3.0, 4.0, 5.0];
        let b = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0];
        let w = welch(&a, &b, 0.95).unwrap();
        assert_eq!(w.difference, 5.0);
        // Error sqrt(0.5 + 8/3) = 1.779513, t = 2.809758; df = (19/6)^2 / (0.25/4 + (64/9)/6) = 8.0374.
        assert!(near(w.p, 0.022_7, 1e-3), "{}", w.p);
        assert!(near(w.half_width / 1.779_513, 2.303, 5e-3), "{}", w.half_width);
    }

    #[test]
    fn too_few_or_constant_values_allow_no_statement() {
        assert_eq!(welch(&[1.0], &[2.0, 3.0], 0.95), None);
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0], 0.95), None);
        assert_eq!(welch(&[0.1; 3], &[0.7; 6], 0.95), None);
    }

    #[test]
    fn holm_stops_at_the_first_that_is_not() {
        assert_eq!(holm(&[0.01, 0.04, 0.03], 0.05), [true, false, false]);
        assert_eq!(holm(&[0.01, 0.02, 0.03], 0.05), [true, true, true]);
        assert!(holm(&[], 0.05).is_empty());
    }

    proptest! {
        #[test]
        fn the_interval_covers_zero_exactly_when_p_is_large(a in prop::collection::vec(0.0..100.0_f64, 2..9),
                                                            b in prop::collection::vec(0.0..100.0_f64, 2..9)) {
            if let Some(w) = welch(&a, &b, 0.95)
                && !near(w.p, 0.05, 1e-6)
            {
                prop_assert_eq!(w.difference.abs() <= w.half_width, w.p > 0.05);
            }
        }

        #[test]
        fn beta_is_a_distribution(x in 0.0..1.0_f64, a in 0.1..500.0_f64, b in 0.1..500.0_f64) {
            let v = beta(x, a, b);
            prop_assert!((-1e-9..=1.0 + 1e-9).contains(&v));
            prop_assert!(near(v + beta(1.0 - x, b, a), 1.0, 1e-9));
        }
    }
}
